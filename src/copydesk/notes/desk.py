"""Operations on notes: read, apply a block diff, append, create documents, undo."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, dropwhile, islice
from operator import attrgetter
from threading import Lock
from typing import Literal

from copydesk.desk.backends.api import Entry
from copydesk.desk.drafts import Services
from copydesk.desk.gates import Passed
from copydesk.desk.member import Member, Operation, Permission, authorized
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.transaction import (
    Create,
    InStore,
    Part,
    Replace,
    Settled,
    Step,
    Stopped,
    Writer,
    WriteRequest,
    attempted,
)
from copydesk.edit.draft import Plan
from copydesk.edit.kinds.base import Request
from copydesk.errors import (
    AccessDenied,
    ContentChanged,
    ContentRequired,
    Failed,
    InvalidArgs,
    Refusal,
)
from copydesk.notes.grammar import BlockHunk, is_address, parse_block_diff, select
from copydesk.notes.plan import (
    BlockDiff,
    BlockDraft,
    BlockPlan,
    BlockTree,
    as_item,
    block_draft,
    digest_of_text,
    joined,
    plan_blocks,
    rewritten,
    section_of,
    task_head,
)
from copydesk.notes.protocol import (
    CONTAINERS,
    EVERYWHERE,
    BlockNotFound,
    Change,
    ChangesDone,
    Coverage,
    Crumb,
    Heading,
    NoteBlock,
    Notebook,
    NoteStore,
    Page,
    Prepared,
    SplitBlocks,
    Within,
    WrongBlockKind,
    appending,
    named,
    one_look,
)
from copydesk.store.files import Files
from copydesk.store.protocol import TargetMoved
from copydesk.store.threads import held_at_fork
from copydesk.text.change import ChangeSet
from copydesk.text.diff import FileEdit, read_diff
from copydesk.text.relpath import RelPath


@dataclass(frozen=True, slots=True)
class OpenNotes:
    """An open store, with what the desk needs to know about it.

    `split` is how it parses a text; `mixes_tasks`: a list may have tasks and plain items. `valid`
    says what can be one of its ids; `path_of` maps a notebook and a path in it (empty for the
    notebook itself) to the document's path, as access lists and the journal use it. `in_files`: the
    documents are files of the workspace, and are written as such.
    """

    store: NoteStore
    split: SplitBlocks
    mixes_tasks: bool
    valid: Callable[[str], bool]
    path_of: Callable[[str, str], RelPath]
    in_files: bool


@dataclass(frozen=True, slots=True)
class Info:
    """Facts about a block; for a document below another one, `parent_id` is the other's.

    `markdown` is the text it stands for: its own, for a heading that of its section, for a document
    that of all its blocks. `child_count` is None for a block that cannot have children; `outline`
    is empty unless it is a document.
    """

    block: NoteBlock
    markdown: str
    child_count: int | None
    outline: tuple[Heading, ...]
    breadcrumb: tuple[Crumb, ...]


@dataclass(frozen=True, slots=True)
class BlockContent:
    """Blocks to show: those of a slice, if one was given.

    `start` is the 0-based index of the first of them among all `total`; `after` is the id of the
    block after the last one, empty at the end.
    """

    target: NoteBlock
    blocks: tuple[NoteBlock, ...]
    total: int
    start: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True)
class NotesWritten:
    """The result of a write other than a block diff: the document or block, and the new blocks.

    `edit_ids` are those of the journal. `path` is that of the document if it is a file.
    """

    target: NoteBlock
    new_ids: tuple[str, ...]
    edit_ids: tuple[int, ...]
    path: RelPath | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """Prepared changes, and the `documents` they change; `path`: the first's.

    Once they are written, `ids` are those of each change, and `edit_ids` those of the journal, one
    per file.
    """

    prepared: Prepared
    path: RelPath
    documents: tuple[FileEdit, ...]
    draft: BlockDraft | None = None
    ids: tuple[tuple[str, ...], ...] = ()
    edit_ids: tuple[int, ...] = ()

    @property
    def paths(self) -> list[RelPath]:
        """Those of the documents to write, or the one of which nothing changes."""
        return [document.path for document in self.documents] or [self.path]

    @property
    def of_diff(self) -> BlockDraft:
        """The draft of a block diff."""
        assert self.draft is not None, "it is one"
        return replace(self.draft, ids=self.ids, edit_ids=self.edit_ids)

    @property
    def diff(self) -> bytes:
        """The diffs of all documents, one after the other."""
        return b"".join(document.diff for document in self.documents)


def tree_of(
    store: NoteStore, named: Mapping[str, NoteBlock], hunks: Sequence[BlockHunk]
) -> BlockTree:
    """The blocks that hunks name, with what is around them as far as the hunks need it.

    These are their containers; the siblings of a heading whose section is passed; what is in a
    container that something is put into, and in a list at its end; and neighbours. Raises
    TargetMoved if one is gone.
    """
    blocks = dict(named)
    while wanted := {block.parent_id for block in blocks.values()} - blocks.keys() - {""}:
        parents = store.blocks(sorted(wanted))
        if len(parents) < len(wanted):
            raise TargetMoved
        blocks |= parents
    children: dict[str, Sequence[str]] = {}
    for hunk in hunks:
        walks = hunk.place is not None or hunk.action == "APPEND"
        for block in (named[block_id] for block_id in hunk.named if block_id in named):
            beside = children.get(block.parent_id, ("",))  # whose ids may be known, but not they
            if walks and block.kind == "h" and not blocks.keys() >= {*beside}:
                siblings = store.children(block.parent_id)
                blocks = {sibling.id: sibling for sibling in siblings} | blocks
                children[block.parent_id] = [sibling.id for sibling in siblings]
            if block.kind in CONTAINERS and (walks or hunk.action == "PREPEND"):
                children[block.id] = store.child_ids(block.id)
        if hunk.action == "APPEND" and hunk.block_id in named:
            last_id = _end_of(blocks, children, named[hunk.block_id])
            blocks |= store.blocks([last_id] if last_id else [])
            if last_id and blocks[last_id].kind == "l":
                children[last_id] = store.child_ids(last_id)
    inside = defaultdict[str, list[str]](list)
    for block in named.values():
        inside[block.parent_id].append(block.id)
    for container, ids in inside.items():
        if container and container not in children:
            is_short = len(ids) <= _FEW and blocks[container].kind != "l"
            children[container] = (
                _neighbours(store, ids) if is_short else store.child_ids(container)
            )
        if not set(ids) <= set(children.get(container, ids)):
            raise TargetMoved
    return BlockTree(blocks, children)


_FEW = 4
"""Blocks of one container whose neighbours are read alone, not all children."""


def _neighbours(store: NoteStore, ids: Sequence[str]) -> list[str]:
    """Blocks of a container with their neighbours; what is between is left out.

    Of `b` and `g` in `a` to `z` these are `a b c` and `f g h`.
    """
    after: dict[str, str] = {}  # an empty id is an end
    for block_id in ids:
        around = store.around(block_id)
        after |= {around.previous_id: block_id, block_id: around.next_id}
    starts = {*after} - {*after.values()} | {after.get("", "")}
    runs: list[list[str]] = []
    for start in starts - {""}:
        run = [start]
        while after.get(run[-1]):
            run.append(after[run[-1]])
        runs.append(run)
    # The one at the start of the container comes first, the one at its end last.
    runs.sort(key=lambda run: (run[0] != after.get(""), run[-1] in after and not after[run[-1]]))
    return [*chain.from_iterable(runs)]


def _end_of(
    blocks: Mapping[str, NoteBlock], children: Mapping[str, Sequence[str]], block: NoteBlock
) -> str:
    """The last block in a container that is no list, or in the section of a heading; or nothing."""
    inside = children.get(block.id, ()) if block.kind != "l" else ()
    if block.kind == "h":
        behind = dropwhile(lambda each: each != block.id, children[block.parent_id])
        inside = [*section_of(block, (blocks[each] for each in islice(behind, 1, None)))]
    return inside[-1] if inside else ""


def _prepared(store: NoteStore, plan: BlockPlan, *, update_links: bool) -> Prepared:
    """Prepare the changes; if the store refuses a text, find its hunk by bisection."""
    changes = [operation.change for operation in plan.operations]
    try:
        return store.prepare(changes, update_links=update_links)
    except InvalidArgs as refusal:

        def is_refused(count: int) -> bool:
            with suppress(InvalidArgs):
                store.prepare(changes[:count], update_links=update_links)
                return False
            return True

        first = bisect_left(range(1, len(changes)), True, key=is_refused)
        lines = ", ".join(map(str, plan.operations[first].lines))
        raise InvalidArgs(f"diff, hunk of line {lines}", refusal.reason) from None


_PLANNED_ON = attrgetter("kind", "markdown", "parent_id")
"""What a plan relies on of the blocks that it names."""


def _located(store: NoteStore, hunk: BlockHunk) -> BlockHunk:
    """The hunk with ids for addresses."""
    place = (hunk.place[0], store.located(hunk.place[1])) if hunk.place else None
    return replace(hunk, block_id=store.located(hunk.block_id), place=place)


def _sides(diff: bytes, sign: str) -> dict[str, list[str]]:
    """The lines of each file of a diff on one of its sides: after it (`+`) or before it (`-`)."""
    sides, side = dict[str, list[str]](), list[str]()
    for line in read_diff(diff.decode("utf-8", "replace").split("\n")):
        if line.text.startswith("diff --git ") and not line.sign:
            side = sides.setdefault(line.text, [])
        elif line.sign in (" ", sign):
            side.append(line.text[1:])
    return sides


def _are_parts(left: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> bool:
    """Whether of each file one side has all lines of the other in a row, at least one."""
    pairs = [sorted((lines, now.get(name, [])), key=len) for name, lines in left.items()]
    return left.keys() == now.keys() and all(
        few and any(many[at : at + len(few)] == few for at in range(len(many)))
        for few, many in pairs
    )


def _as_one(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{path}\n{text}" for path, text in sorted(texts.items()))


_AGAIN = "the notes are changed by another program again and again"
_LOOKED_AT = 1_000
"""The most edits searched for writes to recover."""

_SLICED = 8
"""Blocks of a slice that a kernel is asked for one by one."""

_NO_WAY_BACK = "made what its store cannot take back; remove it there"


class NoteReader:
    """Reads the notes of one workspace; each store is opened when first needed.

    `open_home` opens the store that members with a permission see; it may be one for all.
    Thread-safe.
    """

    def __init__(self, open_home: Callable[[Permission], OpenNotes], files: Files) -> None:
        self._open, self._files = open_home, files
        self._opened: dict[Permission, OpenNotes] = {}
        self._lock = held_at_fork(Lock())

    def home(self, member: Member) -> OpenNotes:
        """The store as the member sees it; the first call opens it and may raise its errors."""
        with self._lock:
            if member.permission not in self._opened:
                self._opened[member.permission] = self._open(member.permission)
            return self._opened[member.permission]

    def store(self, member: Member) -> NoteStore:
        return self.home(member).store

    def path(self, member: Member, block: NoteBlock) -> RelPath:
        """The path of the block's document."""
        return self.home(member).path_of(block.box, block.path)

    def check(
        self, member: Member, paths: Iterable[RelPath], *operations: Operation
    ) -> list[RelPath]:
        """The real paths of documents in which the member may do the operations; AccessDenied."""
        return [authorized(self._files, member, path, *operations) for path in paths]

    def check_blocks(
        self, member: Member, blocks: Iterable[NoteBlock], *operations: Operation
    ) -> None:
        """Raise AccessDenied unless the member may do the operations in the blocks' documents."""
        self.check(member, dict.fromkeys(self.path(member, each) for each in blocks), *operations)

    def may_read(self, member: Member, block: NoteBlock) -> bool:
        """Whether the member may read the block's document."""
        try:
            self.check_blocks(member, [block], "read")
        except AccessDenied:
            return False
        return True

    def close(self) -> None:
        with self._lock:
            for home in self._opened.values():
                home.store.close()
            self._opened.clear()

    def infos(self, member: Member, ids: Sequence[str]) -> tuple[tuple[Info, ...], tuple[str, ...]]:
        """Return facts about blocks, and the ids without one; BlockNotFound if none exists."""
        ids = [self._id_of(member, i) for i in ids]
        there = self.store(member).blocks([i for i in ids if not is_address(i)])
        self.check_blocks(member, there.values(), "read")
        missing = tuple(i for i in ids if i not in there)
        if not there:
            raise BlockNotFound(", ".join(missing))
        return tuple(self._info(member, there[i]) for i in ids if i in there), missing

    def block(self, member: Member, block_id: str) -> NoteBlock:
        """Return one block, by its id or its address; raises BlockNotFound."""
        store = self.store(member)
        block_id = store.located(block_id)
        block = store.blocks([block_id]).get(block_id)
        if block is None:
            raise BlockNotFound(block_id)
        self.check_blocks(member, [block], "read")
        return block

    def content(
        self, member: Member, block_id: str, *, parts: bool, slice_text: str | None
    ) -> BlockContent:
        """The block, or its parts (a heading before its section); BlockNotFound, InvalidSlice."""
        block = self.block(member, block_id)
        if slice_text is None:
            blocks = self._shown(member, block, parts=parts)
            return BlockContent(block, blocks, len(blocks))
        home, has_parts = self.home(member), block.kind in (*CONTAINERS, "h")
        with one_look():
            inside = home.store.child_ids(block.id) if has_parts else ()
            ids = inside if has_parts and block.kind != "h" else (block.id, *inside)
            chosen = select(slice_text, ids)
            wanted = ids[chosen.start : chosen.stop]
            there: Mapping[str, NoteBlock] = {}
            if home.in_files or len(wanted) <= _SLICED:  # a kernel has more of them all at once
                there = home.store.blocks(wanted)
            if len(there) < len(wanted):  # in files, while another program changes one
                there = {part.id: part for part in self._shown(member, block, parts=True)}
        blocks = self._as_tasks(member, [there[i] for i in wanted if i in there], inside=block.id)
        after = ids[chosen.stop] if chosen.stop < len(ids) else ""
        return BlockContent(block, blocks, len(ids), chosen.start, after)

    def notebooks(self, member: Member) -> tuple[Notebook, ...]:
        """The notebooks in which the member may read something."""
        home, allowed = self.home(member), member.permission
        named = [(home.path_of(box.id, ""), box) for box in home.store.notebooks()]
        return tuple(
            box for path, box in named if allowed.allows_walk(path) or allowed.allows_read(path)
        )

    def documents(self, member: Member, box: str, most: int, within: Within = EVERYWHERE) -> Page:
        """The documents of a notebook, by their title paths; raises NotebookNotFound."""
        return self._readable(member, self.store(member).documents(box, most, within))

    def search(self, member: Member, query: str, most: int, within: Within = EVERYWHERE) -> Page:
        """Blocks that contain all words, best first; a task is its item."""
        page = self._readable(member, self.store(member).search(query, most, within))
        return Page(self._as_tasks(member, page), page.total)

    def _readable(self, member: Member, page: Page) -> Page:
        """What the member may read; where that is not all, nobody tells how much there is."""
        readable = [block for block in page if self.may_read(member, block)]
        return Page(readable, page.total if len(readable) == len(page) else None)

    def _as_tasks(
        self, member: Member, blocks: Sequence[NoteBlock], *, inside: str = ""
    ) -> tuple[NoteBlock, ...]:
        """The blocks, but for the text of a task the item, with its own lines and its marker.

        The item `inside` of which they are read is not in itself, so its text is shown as it is.
        """
        parents = sorted({block.parent_id for block in blocks if block.kind == "p"} - {"", inside})
        store = self.store(member)
        items = store.blocks(parents) if parents else dict[str, NoteBlock]()

        def shown(block: NoteBlock) -> NoteBlock:
            item = items.get(block.parent_id) if block.kind == "p" else None
            head = task_head(item.markdown) if item is not None and item.kind == "i" else ""
            is_own = head and block.id == store.child_ids(block.parent_id)[0]
            return replace(item, markdown=head, content=head) if item and is_own else block

        return tuple(map(shown, blocks))

    def coverage(self, member: Member, box: str) -> Coverage | None:
        """How much of a notebook is searched, and the files that are not documents."""
        seen = self.store(member).coverage(box)
        allowed = member.permission.allows_read
        unread = (
            file for file in (seen.unread if seen else ()) if allowed(RelPath.parse(file.path))
        )
        return seen and replace(seen, unread=tuple(unread))

    def covered(self, member: Member) -> Coverage:
        """How much the last search saw of all notebooks, and the files that it stopped reading."""
        boxes = (box.id for box in self.notebooks(member) if not box.closed)
        seen = [each for box in boxes if (each := self.coverage(member, box)) is not None]
        return Coverage(
            sum(each.documents for each in seen),
            sum(each.waiting for each in seen),
            tuple(file for each in seen for file in each.unread if file.reason == "TOO_SLOW"),
        )

    def _id_of(self, member: Member, address: str) -> str:
        try:
            return self.store(member).located(address)
        except BlockNotFound:
            return address

    def _shown(self, member: Member, block: NoteBlock, *, parts: bool) -> tuple[NoteBlock, ...]:
        has_parts = block.kind in ("d", "h") or (parts and block.kind in CONTAINERS)
        inside = self.store(member).children(block.id) if has_parts else ()
        shown = inside if has_parts and block.kind != "h" else (block, *inside)
        return self._as_tasks(member, shown, inside=block.id)

    def _info(self, member: Member, block: NoteBlock) -> Info:
        store = self.store(member)
        inside = store.children(block.id) if block.kind in (*CONTAINERS, "h") else ()
        own = (block,) if block.kind != "d" else ()
        whole = (*own, *inside) if block.kind in ("d", "h") else own
        markdown = "\n\n".join(each.markdown for each in whole)
        outline = store.outline(block.id) if block.kind == "d" else ()
        count = len(inside) if inside or block.kind in CONTAINERS else None
        breadcrumb = store.breadcrumb(block.id)
        if block.kind == "d":
            above = (crumb.id for crumb in breadcrumb[-2::-1] if crumb.kind == "d")
            block = replace(block, parent_id=next(above, ""))
        return Info(block, markdown, count, outline, breadcrumb)


Target = Literal["dailynote", "document", "block"]
Location = Literal["siblings", "children", "parent"]


class NotesDesk:
    """The notes of one workspace. Thread-safe."""

    def __init__(
        self, services: Services, writer: Writer, open_home: Callable[[Permission], OpenNotes]
    ) -> None:
        self._services, self._writer = services, writer
        self.reading = NoteReader(open_home, services.files)
        self.close = self.reading.close

    def draft(self, member: Member, request: Request) -> BlockDraft:
        """The changes of a block diff; raises BlockDiffRefused, AccessDenied, store errors."""
        return self._ready(member, request).of_diff

    def edit(self, member: Member, tool: str, request: BlockDiff) -> BlockDraft:
        """Apply all hunks of a block diff, or none; raises as `draft`."""
        job = self._job(member, tool, request.path)
        return self._write(job, partial(self._ready, member, request)).of_diff

    def apply(
        self,
        member: Member,
        plan: Plan,
        precondition: Callable[[], None],
        after_commit: Callable[[], None],
        *,
        is_stored: bool = True,
    ) -> BlockDraft:
        """Apply a plan once; `precondition` and `after_commit` as in `_write`.

        Raises ContentChanged if a block that it deletes or replaces without SEARCH has changed.
        """
        job = WriteRequest(
            member,
            plan.tool,
            plan.request.path,
            (plan.created_ms, plan.id),
            plan.id,
            edited_by=plan.edited_by,
            is_stored=is_stored,
        )
        make = partial(self._planned, member, plan)
        return self._write(job, make, precondition, after_commit).of_diff

    def planned(self, member: Member, plan: Plan) -> BlockDraft:
        """A plan's changes to the current blocks, for members who may read them; like `apply`."""
        return self._planned(member, plan, "read").of_diff

    def undo(
        self, job: WriteRequest, entry: Entry, precondition: Callable[[], None]
    ) -> Undone | NotUndone:
        """Undo an edit outside files; `precondition` runs locked; refusals are NotUndone."""
        try:
            with suppress(Failed):  # an unfinished one is settled once its lock is held
                precondition()  # before its blocks are looked for: it may be undone already
            if not entry.undo:
                raise InvalidArgs("edit_id", _NO_WAY_BACK)
            make = partial(self._prepared_changes, job.member, entry.undo, entry.path)
            written = self._write(job, make, precondition)
        except Refusal as refusal:
            if refusal.code in ("EDIT_NOT_FOUND", "ACCESS_DENIED"):
                raise
            return NotUndone(entry, refusal)
        whole = joined(written.documents, written.path)
        # a store reads some blocks around the changed ones: here more of them, there less
        is_same = digest_of_text(_as_one(written.prepared.before)) == entry.after or _are_parts(
            _sides(entry.diff, "+"), _sides(written.diff, "-")
        )
        return Undone(
            entry,
            whole.base,
            whole.change,
            whole.after,
            written.diff,
            "exact" if is_same else "fuzz",
            written.edit_ids[0] if written.edit_ids else 0,
        )

    def recover(self, member: Member) -> tuple[Settled, ...]:
        """Undo unfinished writes of stores; `failed`: undone, `unsure` says why."""
        settled: list[Settled] = []
        entries = reversed(self._services.records.entries(most=_LOOKED_AT))
        for entry in (e for e in entries if (e.kind, e.state) == ("notes", "unsure") and e.undo):
            try:
                self.reading.store(member).recover(entry.undo)
            except Refusal as refusal:
                settled.append(Settled(entry, "unsure", refusal.code, refusal))
            else:
                self._services.records.keep_undo(entry.edit_id, ())
                self._services.records.close_all([entry.edit_id], "failed")
                settled.append(Settled(entry, "failed"))
        return tuple(settled)

    def append(
        self, member: Member, tool: str, markdown: str, kind: Target, target_id: str
    ) -> NotesWritten:
        """Append text to today's note of a notebook, to a document, or to a block.

        Into a container, after a leaf, or at the end of a heading's section. Raises
        ContentRequired, BlockNotFound, NotebookNotFound, WrongBlockKind.
        """
        if not markdown.strip():
            raise ContentRequired("markdown")
        if kind == "dailynote":
            return self.daily_note(member, tool, target_id, markdown)
        target = self.reading.block(member, target_id)
        if kind == "document" and target.kind != "d":
            raise WrongBlockKind(target.id, target.kind, "document")
        path = self.reading.path(member, target)
        make = partial(self._appending, member, target.id, markdown, path)
        written = self._write(self._job(member, tool, path), make)
        return NotesWritten(target, tuple(chain.from_iterable(written.ids)), written.edit_ids)

    def daily_note(self, member: Member, tool: str, box: str, markdown: str = "") -> NotesWritten:
        """Create today's note of a notebook if it is missing, and append this text."""
        prepare = partial(self.reading.store(member).prepare_daily_note, box, markdown)
        return self._made_document(member, tool, box, markdown, prepare)

    def create(
        self,
        member: Member,
        tool: str,
        title: str,
        markdown: str,
        anchor_id: str,
        location: Location,
    ) -> NotesWritten:
        """Create a document next to another one, below it, or next to its parent.

        A slash in the title becomes a hyphen. Raises BlockNotFound, WrongBlockKind, and
        InvalidArgs(`location`) for a place above a top document.
        """
        anchor = self.reading.block(member, anchor_id)
        if anchor.kind != "d":
            raise WrongBlockKind(anchor.id, anchor.kind, "document")
        name = title.replace("/", "-").strip()
        if not name:
            raise ContentRequired("title")
        store = self.reading.store(member)
        prepare = (
            partial(store.prepare_document, anchor.box, anchor.id, name, markdown)
            if location == "children"
            else partial(store.prepare_beside, anchor.id, int(location == "parent"), name, markdown)
        )
        return self._made_document(member, tool, anchor.box, markdown, prepare)

    def _ready(self, member: Member, request: Request, operation: Operation = "write") -> Ready:
        """Plan the diff on the current blocks; BlockDiffRefused, AccessDenied, store errors."""
        assert isinstance(request, BlockDiff), "others are of lines of files"
        home = self.reading.home(member)
        parsed = parse_block_diff(request.content, home.valid)
        with one_look():
            hunks = [
                _located(home.store, hunk) if any(map(is_address, hunk.named)) else hunk
                for hunk in parsed
            ]
        return attempted(
            lambda: self._on_blocks_now(member, hunks, request, operation),
            lambda: Failed("read", _AGAIN),
        )

    def _prepared_changes(self, member: Member, changes: Sequence[Change], path: RelPath) -> Ready:
        """Prepare changes of the current blocks; `path` is that of the first document."""
        store = self.reading.store(member)
        prepared = store.prepare(changes)
        blocks = store.blocks([block_id for change in changes for block_id in named(change)])
        paths = {block.path: self.reading.path(member, block) for block in blocks.values()}
        return self._to_write(prepared, paths, path)

    def _to_write(self, prepared: Prepared, paths: Mapping[str, RelPath], path: RelPath) -> Ready:
        """The change of each document's text, or of the one at `path` if that is not known yet.

        `paths` maps the paths of the store.
        """
        before, after = prepared.before, prepared.after
        edits = prepared.files or [
            rewritten(paths[name], before.get(name), after.get(name, ""))
            for name in {**before, **after}
            if name in paths
        ]
        documents = tuple(
            edit for edit in edits if edit.created or not edit.base.unchanged_by(edit.change)
        )
        return Ready(prepared, documents[0].path if documents else path, documents)

    def _write(
        self,
        job: WriteRequest,
        make: Callable[[], Ready],
        precondition: Callable[[], None] = lambda: None,
        after_commit: Callable[[], None] = lambda: None,
    ) -> Ready:
        """Write the result of `make`, retried if notes change; both hooks run locked.

        What changed before the documents were locked is taken in while they are: so other members
        are waited for, and only other programs disturb again. `after_commit` runs if there was
        nothing to write.
        """
        last_refusal: Refusal = Failed("write", _AGAIN)

        def once(ready: Ready) -> Ready:
            nonlocal last_refusal
            try:
                return self._attempt(job, ready, after_commit)
            except Stopped as stopped:
                in_files = self.reading.home(job.member).in_files
                if in_files or not isinstance(stopped.refusal, ContentChanged):
                    raise stopped.refusal from None
                last_refusal = stopped.refusal
                raise TargetMoved from None

        def attempt() -> Ready:
            ready = make()
            reals = self.reading.check(job.member, ready.paths, "write", "read")
            tickets = dict.fromkeys((*reals, *job.member.own_lock), job.ticket)
            with self._services.locks.of_all(tickets, job.caller):
                precondition()
                try:
                    return once(ready)
                except TargetMoved:
                    again = make()
                    if again.paths != ready.paths:
                        raise
                return once(again)

        return attempted(attempt, lambda: last_refusal)

    def _on_blocks_now(
        self, member: Member, hunks: Sequence[BlockHunk], request: BlockDiff, operation: Operation
    ) -> Ready:
        """One attempt; TargetMoved if the notes changed concurrently."""
        home = self.reading.home(member)
        ids = list(dict.fromkeys(block_id for hunk in hunks for block_id in hunk.named))
        with one_look():  # a second look below tells whether anything changed
            there = home.store.blocks(ids)
            paths = {block.path: self.reading.path(member, block) for block in there.values()}
            self.reading.check(member, paths.values(), "read", operation)
            tree = tree_of(home.store, there, hunks)
            plan = plan_blocks(
                hunks, tree, home.split, mixes_tasks=home.mixes_tasks, strict=request.strict
            )
            prepared = _prepared(home.store, plan, update_links=request.update_links)
            if not request.drop_anchors:
                home.store.check_links(prepared)
        again = home.store.blocks(ids)
        if any(i not in again or _PLANNED_ON(again[i]) != _PLANNED_ON(there[i]) for i in there):
            raise TargetMoved
        path = next(iter(paths.values()))  # all named blocks exist
        documents = self._to_write(prepared, paths, path).documents
        # notes whose links change too
        self.reading.check(member, (each.path for each in documents), "read", operation)
        draft = block_draft(request, plan, documents, path, prepared.notices)
        return Ready(prepared, draft.request.path, draft.documents, draft)

    def _attempt(self, job: WriteRequest, ready: Ready, after_commit: Callable[[], None]) -> Ready:
        """Write under the locks of the documents; TargetMoved if they changed."""
        with ExitStack() as stack:
            reals = self.reading.check(job.member.now(), ready.paths, "write")
            passed = self._approved(job, ready, reals)
            home = self.reading.home(job.member)
            changes_nothing = ready.draft is not None and not ready.draft.plan.operations
            if ready.documents and home.in_files:
                written = self._in_files(job, ready, reals, passed, stack)
            elif changes_nothing or home.in_files:
                written = replace(ready, ids=home.store.execute(ready.prepared).ids)
            else:
                written = self._in_store(job, ready, passed)
            if not written.edit_ids:
                after_commit()
            return written

    def _approved(self, job: WriteRequest, ready: Ready, reals: Sequence[RelPath]) -> Passed:
        """Raise if the policy wants a person's approval and these texts have none."""
        whole = joined(ready.documents, ready.path)
        return self._services.approving.check(
            job.member,
            job.plan,
            reals[0],
            whole,
            created=whole.created,
            others=reals[1:],
            undoes=(job.undoes,),
            edited_by=job.edited_by,
        )

    def _in_files(
        self,
        job: WriteRequest,
        ready: Ready,
        reals: Sequence[RelPath],
        passed: Passed,
        stack: ExitStack,
    ) -> Ready:
        text_of, names = self._services.files.text, self._services.encoding_of
        documents = sorted(zip(reals, ready.documents, strict=True), key=lambda pair: str(pair[0]))
        wanted = {
            real: partial(text_of, real, names) for real, each in documents if not each.created
        }
        opened = self._writer.opened(wanted, job, stack)
        inodes: dict[tuple[int, int], RelPath] = {}
        steps: list[Step] = []
        for real, document in documents:
            there = opened.get(real)
            if isinstance(there, Refusal):
                raise there
            if there is not None:
                other = inodes.setdefault((there.stamp.dev, there.stamp.ino), real)
                if other != real:
                    raise Failed("write several documents", f"{real} and {other} are one file")
                if there.source.digest != document.base.digest:
                    raise TargetMoved
            self._services.bases.keep(document.after, real)
            # one plan is tied once
            own = replace(job, path=document.path, is_stored=job.is_stored and not steps)
            parts = (Part(own, document, passed.approval, passed.decided_ms),)
            steps.append(Create(real, parts) if there is None else Replace(real, parts, there))
        # of twice as many digits as an edit's id, so a group's is never one
        entries = self._writer.write(steps, self._services.group_id())
        ids: tuple[tuple[str, ...], ...] = ()
        with suppress(Refusal):  # the texts are written, only the ids are unknown
            ids = self.reading.store(job.member).execute(ready.prepared).ids
        return replace(ready, ids=ids, edit_ids=tuple(entry.edit_id for entry in entries))

    def _in_store(self, job: WriteRequest, ready: Ready, passed: Passed) -> Ready:
        """Let the store write; journal the entry before, and its undo after.

        Recovery has no file to compare.
        """
        journal, now_ms, done = self._services.records, self._services.clock(), list[ChangesDone]()

        def write(edit_id: int) -> None:
            keep = partial(journal.keep_undo, edit_id)
            done.append(self.reading.store(job.member).execute(ready.prepared, keep))
            with suppress(Refusal):  # the last of what was recorded while it wrote stays
                keep(done[0].undo)

        before, after = map(_as_one, (ready.prepared.before, ready.prepared.after))
        entry = Entry(
            time_ms=now_ms,
            member=job.member.name,
            tool=job.tool,
            path=ready.path,
            kind="notes",
            before=digest_of_text(before),
            # no text is known for a daily note: a digest that no text has
            after=digest_of_text(after or f"{now_ms} {job.tool}"),
            inverse=ChangeSet.of(0, []),
            diff=ready.diff,
            hunk_id=job.hunk_id,
            undoes=job.undoes,
            why=job.member.why,
        )
        part = Part(job, joined(ready.documents, ready.path), passed.approval, passed.decided_ms)
        (entry,) = self._writer.write((InStore(entry, part, write),))
        return replace(ready, ids=done[0].ids, edit_ids=(entry.edit_id,))

    def _job(self, member: Member, tool: str, path: RelPath) -> WriteRequest:
        return WriteRequest(member, tool, path, (self._services.clock(), tool))

    def _planned(self, member: Member, plan: Plan, operation: Operation = "write") -> Ready:
        ready = self._ready(member, plan.request, operation)
        now = {block.id: digest_of_text(block.markdown) for block in ready.of_diff.plan.reads}
        for block_id, digest in plan.blocks.digests if plan.blocks else ():
            if now.get(block_id) != digest:
                raise ContentChanged(f"the block {block_id} is not what was shown")
        return ready

    def _appending(self, member: Member, target_id: str, markdown: str, path: RelPath) -> Ready:
        home = self.reading.home(member)
        target = home.store.blocks([target_id]).get(target_id)
        is_list = target is not None and target.kind == "l"
        if is_list and any(piece.kind != "l" for piece in home.split(markdown)):
            markdown = as_item(markdown, [item.markdown for item in home.store.children(target_id)])
        changes = appending(
            home.store, home.split, target_id, markdown, mixes_tasks=home.mixes_tasks
        )
        return self._prepared_changes(member, changes, path)

    def _made_document(
        self,
        member: Member,
        tool: str,
        box: str,
        markdown: str,
        prepare: Callable[[], Prepared],
    ) -> NotesWritten:
        home = self.reading.home(member)

        def make() -> Ready:
            prepared = prepare()
            paths = {
                name: home.path_of(box, name) for name in {**prepared.before, **prepared.after}
            }
            path = next(iter(paths.values()), home.path_of(box, ""))
            ready = self._to_write(prepared, paths, path)
            if ready.documents or home.in_files:
                return ready
            # where a kernel has today's note is known later
            return replace(ready, documents=(rewritten(path, "", markdown),))

        where = make().path  # refuse before anything is journaled
        written = self._write(self._job(member, tool, where), make)
        if not written.ids:
            raise Failed("find the new ids", f"{where} is written, but its ids could not be read")
        document_id, *new_ids = written.ids[0]
        target = self.reading.block(member, document_id)
        path = home.path_of(target.box, target.path) if home.in_files else None
        return NotesWritten(target, tuple(new_ids), written.edit_ids, path)
