"""Operations on notes: read, apply a block diff, append, create documents, undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from copydesk.desk.backends.api import Entry
from copydesk.desk.context import Setting
from copydesk.desk.member import Member, Operation
from copydesk.desk.notes.block_edits import (
    BlocksWritten,
    NotesWriting,
    Planning,
    Ready,
    texts_digest,
)
from copydesk.desk.notes.notebook_access import BlockContent, Info, Infos, Notes, NotesWritten
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.recovery import Settled
from copydesk.desk.transaction import Writer, WriteRequest
from copydesk.edit.draft import Plan
from copydesk.edit.notes.draft import BlockDraft, digest_of_texts, joined, rewritten
from copydesk.edit.notes.grammar import is_address, select
from copydesk.edit.notes.plan import as_item
from copydesk.edit.request import BlockDiff
from copydesk.errors import ContentChanged, ContentRequired, Failed, InvalidArgs, Refusal
from copydesk.store.notes.errors import BlockNotFound, WrongBlockKind
from copydesk.store.notes.protocol import (
    CONTAINERS,
    Coverage,
    InsertText,
    NoteBlock,
    Notebook,
    Prepared,
)
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import FileEdit

_LOOKED_AT = 1_000
"""The edits that are looked at for writes to recover."""

_NO_WAY_BACK = "made what its store cannot take back; remove it there"


class NoteReader:
    """Reads the notes of one workspace."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def infos(self, member: Member, ids: Sequence[str]) -> Infos:
        """Facts about blocks; raises BlockNotFound if none of them exists."""
        ids = [self._id_of(member, one) for one in ids]
        there = self._notes.store(member).blocks([one for one in ids if not is_address(one)])
        self._notes.check_blocks(member, "read", there.values())
        missing = tuple(one for one in ids if one not in there)
        if not there:
            raise BlockNotFound(", ".join(missing))
        found = tuple(self._info(member, there[one]) for one in ids if one in there)
        return Infos(found, missing, len(ids))

    def block(self, member: Member, block_id: str) -> NoteBlock:
        """One block, by its id or its address; raises BlockNotFound."""
        block_id = self._notes.home(member).located(block_id)
        found = self._notes.store(member).blocks([block_id]).get(block_id)
        if found is None:
            raise BlockNotFound(block_id)
        self._notes.check_blocks(member, "read", [found])
        return found

    def content(
        self, member: Member, block_id: str, *, parts: bool, slice_text: str | None
    ) -> BlockContent:
        """The block, or its parts (a heading before its section); BlockNotFound, InvalidSlice."""
        found = self.block(member, block_id)
        if slice_text is not None and (page := self._page(member, found, slice_text)) is not None:
            return page
        blocks = self._shown(member, found, parts=parts)
        total = len(blocks)
        if slice_text is None:
            return BlockContent(found, blocks, total)
        chosen = select(slice_text, [block.id for block in blocks])
        after = blocks[chosen.stop].id if chosen.stop < total else ""
        return BlockContent(found, blocks[chosen.start : chosen.stop], total, chosen.start, after)

    def notebooks(self, member: Member) -> tuple[Notebook, ...]:
        """The notebooks in which the member may read something."""
        found = self._notes.store(member).notebooks()
        return tuple(one for one in found if self._notes.may_see(member, one.id))

    def documents(self, member: Member, box: str, most: int) -> tuple[NoteBlock, ...]:
        """The documents of a notebook, by their paths of titles; raises NotebookNotFound."""
        found = self._notes.store(member).documents(box, most)
        return tuple(one for one in found if self._notes.may_read(member, one))

    def search(self, member: Member, query: str, most: int) -> tuple[NoteBlock, ...]:
        """Blocks that hold all words, the best first."""
        found = self._notes.store(member).search(query, most)
        return tuple(one for one in found if self._notes.may_read(member, one))

    def coverage(self, member: Member, box: str) -> Coverage | None:
        """How much of a notebook is searched, and the files that are no documents."""
        found = self._notes.store(member).coverage(box)
        if found is None or not found.unread:
            return found
        allowed = member.permission.allows_read
        unread = (one for one in found.unread if allowed(RelPath.parse(one.path)))
        return replace(found, unread=tuple(unread))

    def _id_of(self, member: Member, address: str) -> str:
        try:
            return self._notes.home(member).located(address)
        except BlockNotFound:
            return address

    def _shown(self, member: Member, block: NoteBlock, *, parts: bool) -> tuple[NoteBlock, ...]:
        if block.kind == "h":
            return (block, *self._notes.store(member).children(block.id))
        if block.kind == "d" or (parts and block.kind in CONTAINERS):
            return self._notes.store(member).children(block.id)
        return (block,)

    def _page(self, member: Member, block: NoteBlock, slice_text: str) -> BlockContent | None:
        """A slice of a container in files, read without the other texts; None to read them all."""
        home = self._notes.home(member)
        if not home.in_files or block.kind not in (*CONTAINERS, "h"):
            return None
        inside = home.store.child_ids(block.id)
        ids = (block.id, *inside) if block.kind == "h" else inside
        chosen = select(slice_text, ids)
        wanted = ids[chosen.start : chosen.stop]
        there = home.store.blocks(wanted)
        if len(there) < len(wanted):
            return None  # the file is changed at this moment
        after = ids[chosen.stop] if chosen.stop < len(ids) else ""
        return BlockContent(block, tuple(there.values()), len(ids), chosen.start, after)

    def _info(self, member: Member, block: NoteBlock) -> Info:
        store = self._notes.store(member)
        inside = store.children(block.id) if block.kind in (*CONTAINERS, "h") else ()
        markdown = block.markdown
        if block.kind in ("d", "h"):
            whole = (block, *inside) if block.kind == "h" else inside
            markdown = "\n\n".join(one.markdown for one in whole)
        outline = store.outline(block.id) if block.kind == "d" else ()
        count = len(inside) if inside or block.kind in CONTAINERS else None
        breadcrumb = store.breadcrumb(block.id)
        if block.kind == "d":
            above = [crumb.id for crumb in breadcrumb[:-1] if crumb.kind == "d"]
            block = replace(block, parent_id=above[-1] if above else "")
        return Info(block, markdown, count, outline, breadcrumb)


Target = Literal["dailynote", "document", "block"]
Location = Literal["siblings", "children", "parent"]


class NotesDesk:
    """The notes of one workspace. Safe to use from many threads."""

    def __init__(self, setting: Setting, writer: Writer, notes: Notes) -> None:
        self._set, self._notes = setting, notes
        self.reading = NoteReader(notes)
        self._planning = Planning(notes)
        self._writing = NotesWriting(setting, writer, notes)

    def draft(self, member: Member, request: BlockDiff) -> BlockDraft:
        """What a block diff would change; BlockDiffRefused, AccessDenied, the store's own."""
        return _draft_of(self._planning.ready(member, request))

    def edit(self, member: Member, tool: str, request: BlockDiff) -> BlockDraft:
        """Apply all hunks of a block diff, or none; raises as `draft`."""
        job = self._job(member, tool, request.path)
        return _done(self._writing.write(job, lambda: self._planning.ready(member, request)))

    def apply(
        self,
        member: Member,
        plan: Plan,
        precondition: Callable[[], None],
        after_commit: Callable[[], None],
    ) -> BlockDraft:
        """Apply a plan once; `precondition` and `after_commit` as in `NotesWriting.write`.

        Raises ContentChanged if a block that it deletes or replaces without SEARCH has changed.
        """
        path = plan.request.path
        ticket = plan.created_ms, plan.id
        job = WriteRequest(member, plan.tool, path, ticket, plan.id, edited_by=plan.edited_by)
        return _done(
            self._writing.write(
                job, lambda: self._planned(member, plan), precondition, after_commit
            )
        )

    def planned(self, member: Member, plan: Plan) -> BlockDraft:
        """What a plan changes on the current blocks, for a member who may read them; as `apply`."""
        return _draft_of(self._planned(member, plan, "read"))

    def undo(
        self, job: WriteRequest, entry: Entry, precondition: Callable[[], None]
    ) -> Undone | NotUndone:
        """Take back an edit no file holds; `precondition` runs locked, refusals are NotUndone."""
        try:
            if not entry.undo:
                precondition()
                raise InvalidArgs("edit_id", _NO_WAY_BACK)
            made = self._writing.write(
                job,
                lambda: self._planning.prepared(job.member, entry.undo, entry.path),
                precondition,
            )
        except Refusal as refusal:
            if refusal.code in ("EDIT_NOT_FOUND", "ACCESS_DENIED"):
                raise
            return NotUndone(entry, refusal)
        documents = made.ready.documents
        nothing = FileEdit(entry.path, Snapshot(b"", UTF8), ChangeSet.of(0, []))
        first = joined(documents) if documents else nothing
        found = texts_digest(made.ready.prepared.before)
        return Undone(
            entry,
            first.base,
            first.change,
            first.after,
            b"".join(document.diff for document in documents),
            "exact" if found == entry.after else "fuzz",
            made.edit_ids[0] if made.edit_ids else 0,
        )

    def recover(self, member: Member) -> tuple[Settled, ...]:
        """Take back what stores could not finish; `failed`: undone, `unsure` says why."""
        found: list[Settled] = []
        for entry in reversed(self._set.journal.entries(most=_LOOKED_AT)):
            if entry.kind != "notes" or entry.state != "unsure" or not entry.undo:
                continue
            try:
                store = self._notes.store(member)
                store.recover(entry.undo)
            except Refusal as refusal:
                found.append(Settled(entry, "unsure", refusal.code, refusal))
                continue
            self._set.journal.keep_undo(entry.edit_id, ())
            self._set.journal.close_entry(entry.edit_id, "failed")
            found.append(Settled(entry, "failed"))
        return tuple(found)

    def append(
        self, member: Member, tool: str, markdown: str, kind: Target, target_id: str
    ) -> NotesWritten:
        """Append text to today's note of a notebook, to a document, or to a block.

        Into a container, behind a leaf, at the end of a heading's section. Raises
        ContentRequired, BlockNotFound, NotebookNotFound, WrongBlockKind.
        """
        if not markdown.strip():
            raise ContentRequired("markdown")
        if kind == "dailynote":
            return self.daily_note(member, tool, target_id, markdown)
        target = self.reading.block(member, target_id)
        target_id = target.id
        if kind == "document" and target.kind != "d":
            raise WrongBlockKind(target_id, target.kind, "document")

        path = self._notes.path(member, target)

        def make() -> Ready:
            changes = [self._appending(member, target_id, markdown)]
            return self._planning.prepared(member, changes, path)

        made = self._writing.write(self._job(member, tool, path), make)
        return _written(made, target, made.done.ids[0] if made.done.ids else ())

    def daily_note(self, member: Member, tool: str, box: str, markdown: str = "") -> NotesWritten:
        """Create today's note of a notebook if it is missing, and append this text."""

        def make() -> Ready:
            prepared = self._notes.store(member).prepare_daily_note(box, markdown)
            ready = self._new(member, prepared, box)
            if ready.documents or self._notes.home(member).in_files:
                return ready
            return replace(ready, documents=(rewritten(ready.path, "", markdown),))

        return self._made_document(member, tool, make, box)

    def create(
        self,
        member: Member,
        tool: str,
        title: str,
        markdown: str,
        anchor_id: str,
        location: Location,
    ) -> NotesWritten:
        """Create a document beside another one, below it, or beside its parent.

        A slash in the title becomes a hyphen. Raises BlockNotFound,
        WrongBlockKind, and InvalidArgs(`location`) above a top document.
        """
        anchor = self.reading.block(member, anchor_id)
        anchor_id = anchor.id
        if anchor.kind != "d":
            raise WrongBlockKind(anchor_id, anchor.kind, "document")
        name = title.replace("/", "-").strip()
        if not name:
            raise ContentRequired("title")

        def make() -> Ready:
            store = self._notes.store(member)
            if location == "children":
                prepared = store.prepare_document(anchor.box, anchor_id, name, markdown)
            else:
                up = 1 if location == "parent" else 0
                prepared = store.prepare_beside(anchor_id, up, name, markdown)
            return self._new(member, prepared, anchor.box)

        return self._made_document(member, tool, make, anchor.box)

    def _job(self, member: Member, tool: str, path: RelPath) -> WriteRequest:
        return WriteRequest(member, tool, path, (self._set.clock(), tool))

    def _planned(self, member: Member, plan: Plan, operation: Operation = "write") -> Ready:
        request = plan.request
        assert isinstance(request, BlockDiff), "others are plans for files"
        ready = self._planning.ready(member, request, operation)
        now = {image.id: digest_of_texts(image.markdown) for image in _draft_of(ready).plan.reads}
        for block_id, digest in plan.blocks.digests if plan.blocks else ():
            if now.get(block_id) != digest:
                raise ContentChanged(f"the block {block_id} is not what was shown")
        return ready

    def close(self) -> None:
        self._notes.close()

    def _appending(self, member: Member, target_id: str, markdown: str) -> InsertText:
        store = self._notes.store(member)
        target = store.blocks([target_id]).get(target_id)
        if target is not None and target.kind == "l":
            pieces = self._notes.home(member).split(markdown)
            if any(piece.kind != "l" for piece in pieces):
                markdown = as_item(markdown, [one.markdown for one in store.children(target_id)])
        if target is None or target.kind in CONTAINERS:
            return InsertText(markdown, "last_in", target_id)
        if target.kind == "h":
            section = store.children(target_id)
            return InsertText(markdown, "after", section[-1].id if section else target_id)
        return InsertText(markdown, "after", target_id)

    def _new(self, member: Member, prepared: Prepared, box: str) -> Ready:
        path_of = self._notes.home(member).path_of
        texts = {**prepared.before, **prepared.after}
        paths = {path: path_of(box, path) for path in texts}
        documents = self._planning.documents(prepared, paths)
        here = next(iter(paths.values()), path_of(box, ""))
        return Ready(prepared, documents[0].path if documents else here, documents)

    def _made_document(
        self, member: Member, tool: str, make: Callable[[], Ready], box: str
    ) -> NotesWritten:
        where = make().path  # refuse before anything is journaled
        made = self._writing.write(self._job(member, tool, where), make)
        if not made.done.ids:
            raise Failed("find the new ids", f"{where} is written, but its ids could not be read")
        document_id, *new_ids = made.done.ids[0]
        target = self.reading.block(member, document_id)
        created = any(one.created for one in made.ready.documents)
        written = _written(made, target, tuple(new_ids), created=created)
        home = self._notes.home(member)
        return replace(
            written, path=home.path_of(target.box, target.path) if home.in_files else None
        )


def _draft_of(ready: Ready) -> BlockDraft:
    assert ready.draft is not None, "of a block diff"
    return ready.draft


def _done(made: BlocksWritten) -> BlockDraft:
    return _draft_of(made.ready).done(made.done.ids, made.edit_ids)


def _written(
    made: BlocksWritten, target: NoteBlock, new_ids: tuple[str, ...], *, created: bool = False
) -> NotesWritten:
    diff = b"".join(document.diff for document in made.ready.documents)
    return NotesWritten(target, new_ids, made.edit_ids, diff, created)
