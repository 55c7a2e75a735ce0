"""What is asked of notes, as sentences: read, edit by a diff, append, make documents.

What lives here: what each of them checks and in what order. What must not: the
store (`home`), the way of writing (`writing`), words. Invariant: a diff is made
as a whole or not at all, whatever sentence asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from copydesk.desk.member import Member, Operation
from copydesk.desk.notes.home import Notes
from copydesk.desk.notes.outcome import Written
from copydesk.desk.notes.planning import Planning, Ready
from copydesk.desk.notes.reading import NoteReader
from copydesk.desk.notes.undoing import NotesUndoing
from copydesk.desk.notes.writing import BlocksWritten, NotesWriting
from copydesk.desk.setting import Setting
from copydesk.desk.writing import Job
from copydesk.edit.notes.draft import BlockDraft, digest_of_texts, rewritten
from copydesk.edit.notes.plan import as_item
from copydesk.edit.plan import Plan
from copydesk.edit.request import BlockDiff
from copydesk.errors import ContentChanged, ContentRequired, Failed
from copydesk.store.notes.errors import WrongBlockKind
from copydesk.store.notes.protocol import CONTAINERS, Insert, NoteBlock, Prepared

Target = Literal["dailynote", "document", "block"]
Location = Literal["siblings", "children", "parent"]


class NotesDesk:
    """The notes of one workspace. Safe to use from many threads."""

    def __init__(self, setting: Setting, notes: Notes) -> None:
        self._set, self._notes = setting, notes
        self.reading = NoteReader(notes)
        self._planning = Planning(notes)
        self._writing = NotesWriting(setting, notes)
        self.undoing = NotesUndoing(self._planning, self._writing)

    def draft(self, member: Member, request: BlockDiff) -> BlockDraft:
        """What a block diff would come to; nothing is written.

        Raises BlockDiffRefused with all that is wrong, AccessDenied, and what the
        store refuses.
        """
        return _draft_of(self._planning.ready(member, request))

    def edit(self, member: Member, tool: str, request: BlockDiff) -> BlockDraft:
        """Make all hunks of a block diff, or none; as `draft`, done."""
        job = Job(member, tool, request.path, (self._set.clock(), tool))
        return _done(self._writing.write(job, lambda: self._planning.ready(member, request)))

    def apply(
        self, member: Member, plan: Plan, still: Callable[[], None], then: Callable[[], None]
    ) -> BlockDraft:
        """Make what was planned, once; `still` and `then` as in `NotesWriting.write`.

        Raises ContentChanged where a text that it takes away unnamed is another one.
        """
        path = plan.request.path
        job = Job(member, plan.tool, path, (plan.created_ms, plan.id), plan.id)
        return _done(self._writing.write(job, lambda: self._planned(member, plan), still, then))

    def planned(self, member: Member, plan: Plan) -> BlockDraft:
        """What a plan comes to on the blocks as they are, for who may read them; as `apply`."""
        return _draft_of(self._planned(member, plan, "read"))

    def append(
        self, member: Member, tool: str, markdown: str, kind: Target, target_id: str
    ) -> Written:
        """Put text at the end of today's note of a notebook, of a document, or of a block.

        Into a container, behind a leaf, at the end of a heading's section. Raises
        ContentRequired, BlockNotFound, NotebookNotFound, WrongBlockKind.
        """
        if not markdown.strip():
            raise ContentRequired("markdown")
        if kind == "dailynote":
            return self.daily_note(member, tool, target_id, markdown)
        target = self.reading.block(member, target_id)
        if kind == "document" and target.kind != "d":
            raise WrongBlockKind(target_id, target.kind, "document")

        def make() -> Ready:
            changes = [self._appending(member, target_id, markdown)]
            return self._planning.prepared(member, changes, self._notes.path(member, target))

        job = Job(member, tool, self._notes.path(member, target), (self._set.clock(), tool))
        made = self._writing.write(job, make)
        return _written(made, target, made.done.ids[0] if made.done.ids else ())

    def daily_note(self, member: Member, tool: str, box: str, markdown: str = "") -> Written:
        """Today's note of a notebook, made when it is not there, with this text at its end."""

        def make() -> Ready:
            prepared = self._notes.home(member).store.prepare_daily_note(box, markdown)
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
    ) -> Written:
        """A new document beside another one, below it, or beside the one above it.

        A slash in the title becomes a hyphen. Raises BlockNotFound,
        WrongBlockKind, and InvalidArgs(`location`) above a top document.
        """
        anchor = self.reading.block(member, anchor_id)
        if anchor.kind != "d":
            raise WrongBlockKind(anchor_id, anchor.kind, "document")
        name = title.replace("/", "-").strip()
        if not name:
            raise ContentRequired("title")

        def make() -> Ready:
            store = self._notes.home(member).store
            if location == "children":
                prepared = store.prepare_document(anchor.box, anchor_id, name, markdown)
            else:
                up = 1 if location == "parent" else 0
                prepared = store.prepare_beside(anchor_id, up, name, markdown)
            return self._new(member, prepared, anchor.box)

        return self._made_document(member, tool, make, anchor.box)

    def _planned(self, member: Member, plan: Plan, operation: Operation = "write") -> Ready:
        """What a plan comes to on the blocks as they are."""
        request = plan.request
        assert isinstance(request, BlockDiff), "others are plans for files"
        ready = self._planning.ready(member, request, operation)
        now = {image.id: digest_of_texts(image.markdown) for image in _draft_of(ready).plan.reads}
        for block_id, digest in plan.blocks.digests if plan.blocks else ():
            if now.get(block_id) != digest:
                raise ContentChanged(f"the block {block_id} is not what was shown")
        return ready

    def close(self) -> None:
        """Let go of the stores."""
        self._notes.close()

    def _appending(self, member: Member, target_id: str, markdown: str) -> Insert:
        """Where text goes that is put at the end of a block, as it is now."""
        store = self._notes.home(member).store
        target = store.blocks([target_id]).get(target_id)
        if target is not None and target.kind == "l":
            pieces = self._notes.home(member).split(markdown)
            if any(piece.kind != "l" for piece in pieces):
                markdown = as_item(markdown, [one.markdown for one in store.children(target_id)])
        if target is None or target.kind in CONTAINERS:
            return Insert(markdown, "last_in", target_id)
        if target.kind == "h":
            section = store.children(target_id)
            return Insert(markdown, "after", section[-1].id if section else target_id)
        return Insert(markdown, "after", target_id)

    def _new(self, member: Member, prepared: Prepared, box: str) -> Ready:
        """What makes a document, or writes in one that is made when it is not there."""
        path_of = self._notes.home(member).path_of
        texts = {**prepared.before, **prepared.after}
        paths = {path: path_of(box, path) for path in texts}
        documents = self._planning.documents(prepared, paths)
        here = next(iter(paths.values()), path_of(box, ""))
        return Ready(prepared, documents[0].path if documents else here, documents)

    def _made_document(
        self, member: Member, tool: str, make: Callable[[], Ready], box: str
    ) -> Written:
        path = make().path  # what cannot be made is refused before anything is recorded
        job = Job(member, tool, path, (self._set.clock(), tool))
        made = self._writing.write(job, make)
        if not made.done.ids:
            raise Failed("tell the id", f"{path} is written, but its ids could not be read")
        document_id, *new_ids = made.done.ids[0]
        target = self.reading.block(member, document_id)
        created = any(one.created for one in made.ready.documents)
        return _written(made, target, tuple(new_ids), created=created)


def _draft_of(ready: Ready) -> BlockDraft:
    assert ready.draft is not None, "of a block diff"
    return ready.draft


def _done(made: BlocksWritten) -> BlockDraft:
    return _draft_of(made.ready).done(made.done.ids, made.edit_ids)


def _written(
    made: BlocksWritten, target: NoteBlock, new_ids: tuple[str, ...], *, created: bool = False
) -> Written:
    diff = b"".join(document.diff for document in made.ready.documents)
    return Written(target, new_ids, made.edit_ids, diff, created)
