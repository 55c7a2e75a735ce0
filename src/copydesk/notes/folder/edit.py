"""A dry run of block changes on the documents of a folder; it yields file edits or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.notes.folder.blocks import (
    MATTER,
    Fingerprint,
    FolderDocument,
    fingerprints,
    in_order,
    know,
    moved,
    pieces,
    read,
    shown,
    shown_text,
    top,
)
from copydesk.notes.folder.documents import (
    DocumentCache,
    SidecarChange,
    Splice,
    Successor,
    splice_of,
)
from copydesk.notes.markdown import Block, Tree, Where, deletion, insertion, is_phantom, replacement
from copydesk.notes.markdown.block import BLANK, newline_of
from copydesk.notes.markdown.edit import marker_holder
from copydesk.notes.markdown.tree import head_of, line_after, line_start, line_stop
from copydesk.notes.protocol import (
    BlockChanged,
    BlockNotFound,
    Change,
    InsertText,
    Move,
    Prepared,
    Restore,
    Update,
    WrongBlockKind,
    for_place,
    for_update,
    is_id,
    raw_markdown,
    valid,
)
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import FileEdit

_GOES_WHEN_EMPTY = ("l", "b", "footnote")
_STAYS_WHEN_EMPTY = ("d", "i")

_RUNS_ON = "would become one with what stands beside it, or part of it"


class WorkingDocument:
    """A document with the changes so far. `fresh` generates ids."""

    def __init__(self, document: FolderDocument, fresh: Callable[[], str]) -> None:
        self.document = document
        self._fresh = fresh
        self._windows: list[ReparseWindow] = []  # in order and disjoint
        self._used: set[str] = set()

    @property
    def change(self) -> ChangeSet:
        """All changes so far, relative to the bytes of the document."""
        return ChangeSet.of(len(self.document.data), _shifted(self._windows, 0))

    def fronts(self, data: bytes) -> bool:
        """Whether front matter that no window saw begins or ends in `data`, the changed text."""
        tree = self.document.tree
        if tree.profile != "gfm":
            return False
        if self._windows and not self._windows[0].low:
            tree = self._windows[0].tree
        return bool(head_of(data)) != (tree.root.children[0].kind == MATTER)

    def splices(self) -> tuple[Splice, ...]:
        document, made = self.document, list[Splice]()
        for window in self._windows:
            start, stop = document.row_of(window.low), document.row_of(window.high)
            splice = splice_of(start, document.rows[start:stop], window.rows())
            if splice.old or splice.new:
                made.append(splice)
        return tuple(made)

    def successor(
        self, stamp: Stamp, digest: str, data: bytes, rows: tuple[Fingerprint, ...]
    ) -> FolderDocument | None:
        """The changed document, built from the blocks of the old one; None if these are taken."""
        document, windows = self.document, self._windows
        if document.spent or not windows:
            return None
        document.spent = True
        children, old = document.tree.root.children, document.order
        # a window at the start of the text knows of its byte order mark, id and attributes
        root = document.tree.root if windows[0].low else windows[0].tree.root
        tops: list[Block] = []
        order: list[Block] = [root]
        at, child, shift = 1, 0, 0
        for window in windows:
            start, stop = document.row_of(window.low), document.row_of(window.high)
            moved(old[at:start], shift)
            inside = [block for _, block in in_order(window.tree.root)[1:]]
            moved(inside, window.start + shift)
            order += (*old[at:start], *inside)
            tops += (*children[child : window.low], *window.tree.root.children)
            shift += len(window.tree.data) - window.change.length
            at, child = stop, window.high
        moved(old[at:], shift)
        order += old[at:]
        tops += children[child:]
        for index, block in enumerate(tops):
            block.index, block.parent = index, root
        root.children, root.stop = tuple(tops), len(data)
        tree = Tree(data, document.tree.profile, root, newline_of(data))
        return FolderDocument(document.path, stamp, digest, data, tree, rows, tuple(order))

    def lost_anchors(self) -> list[str]:
        """The names that blocks had in the text and that no block has after the changes."""
        children = self.document.tree.root.children
        old = [top for window in self._windows for top in children[window.low : window.high]]
        new = {each.anchor for window in self._windows for each in window.tree.root.walk()}
        names = dict.fromkeys(each.anchor for top in old for each in top.walk())
        return [name for name in names if name and name not in new]

    def block(self, block_id: str) -> tuple[ReparseWindow, Block]:
        """A current block and the window that a change of it can affect; raises BlockNotFound."""
        window = self._of(block_id)
        if block_id not in window.by_id:
            raise BlockNotFound(block_id, lost=True)
        window = self._with_guards(window, lambda one: top(one.by_id[block_id]).index)
        return window, window.by_id[block_id]

    def end(self, *, last: bool) -> tuple[ReparseWindow, Block]:
        """The document, with a window around its first or its last block."""
        size = self.document.size
        window = self._window(max(size - 2, 0), size) if last else self._window(0, min(2, size))
        at = -1 if last else 0
        window = self._with_guards(window, lambda one: one.tree.root.children[at].index)
        return window, window.tree.root

    def insert(
        self, window: ReparseWindow, block: Block, where: Where, markdown: str, count: int
    ) -> tuple[str, ...]:
        """Insert `count` blocks; return their ids. InvalidArgs if they would merge with others."""
        expected = _expected(block, where, count)
        edit = insertion(window.tree, block, where).edit(markdown)
        added = self._make(window, (edit,), expected)
        if added is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        return added

    def update(self, window: ReparseWindow, block: Block, markdown: str) -> None:
        """Replace the text of a block, which keeps its id. Raises InvalidArgs as `insert` does."""
        assert block.parent is not None
        name = window.ids[block]
        text = as_stored(raw_markdown(window.tree, block), markdown)
        edits = replacement(window.tree, block, text)
        if not edits:
            return
        expected = Expected(block.parent, block.index, 1, 1, name)
        if self._make(window, edits, expected) is None:
            raise InvalidArgs("markdown", _RUNS_ON)

    def delete(self, window: ReparseWindow, block: Block) -> None:
        """Delete a block and the containers that become empty; lists that then meet are merged."""
        if is_phantom(block):
            window.by_id.pop(window.ids[block])
            window.ids[block] = name = self._fresh()
            window.by_id[name] = block
            return
        parent = _parent(block)
        while parent.kind in _GOES_WHEN_EMPTY and _only(block):
            block, parent = parent, _parent(parent)
        empties = parent.kind in _STAYS_WHEN_EMPTY and _only(block)
        expected = Expected(parent, block.index, 1, int(empties))
        edit = _emptied(window.tree, block) if empties else deletion(window.tree, block)
        if self._make(window, (edit,), expected) is None:
            self._merge(window, block, edit)

    def _new(self, block: Block) -> str:
        anchor = block.anchor or ""
        if not is_id(anchor) or anchor in self._used or anchor in self.document.index:
            return self._fresh()
        self._used.add(anchor)
        return anchor

    def _make(
        self, window: ReparseWindow, edits: Sequence[Edit], expected: Expected
    ) -> tuple[str, ...] | None:
        """Make edits in a window; return the ids of added blocks, None for an unexpected effect."""
        change = ChangeSet.of(len(window.tree.data), edits)
        tree = self._parsed(change.apply(window.tree.data), window.low)
        found = carried(window, tree, expected, self._new)
        if found is None:
            return None
        ids, added = found
        self._put(window, tree, change, ids)
        return tuple(ids[block] for block in added)

    def _put(
        self, window: ReparseWindow, tree: Tree, change: ChangeSet, ids: dict[Block, str]
    ) -> None:
        window.change = window.change.then(change)
        window.tree, window.ids = tree, ids
        window.by_id = {name: block for block, name in ids.items()}

    def _merge(self, window: ReparseWindow, block: Block, edit: Edit) -> None:
        """Make a deletion that merges other blocks; re-identify them by their fingerprints."""
        name, shift = window.ids[block], edit.start - block.start
        length, by = edit.stop - edit.start, 1
        size = self.document.size
        while True:
            wide = self._window(max(window.low - by, 0), min(window.high + by, size))
            block = wide.by_id[name]
            start = block.start + shift
            change = ChangeSet.of(len(wide.tree.data), (Edit(start, start + length, edit.new),))
            tree = self._parsed(change.apply(wide.tree.data), wide.low)
            if self._guarded(wide, tree):
                break
            by *= 4
        gone = {wide.ids[inner] for inner in block.walk()}
        rows = [self.document.rows[0]._replace(depth=0), *wide.rows()]
        old = [row for row in rows if row.id not in gone]
        new = fingerprints(tree, tree.root)
        known = know(old, new, (), lambda at: self._fresh(), partial(self._is_outside, wide))
        blocks = (inner for inner in tree.root.walk() if inner.kind != MATTER)
        ids = {inner: row.id for inner, row in zip(blocks, known.rows, strict=True)}
        self._put(wide, tree, change, ids)

    def _is_outside(self, window: ReparseWindow, block_id: str) -> bool:
        """Whether a block that is not in this window has the id."""
        document, others = self.document, [one for one in self._windows if one is not window]
        at = document.index.get(block_id, 0)
        spans = [(document.row_of(one.low), document.row_of(one.high)) for one in self._windows]
        untouched = at and not any(start <= at < stop for start, stop in spans)
        return bool(untouched) or any(block_id in one.by_id for one in others)

    def _guarded(self, window: ReparseWindow, tree: Tree) -> bool:
        """Whether the first and the last block of a window are the same in another tree."""
        old, new = window.tree.root.children, tree.root.children
        ends = [0] * (window.low > 0) + [-1] * (window.high < self.document.size)
        guards: list[tuple[Block, Tree, Names]] = [
            (old[end], window.tree, lambda block: "") for end in ends
        ]
        return same_blocks(guards, [new[end] for end in ends], tree, {})

    def _of(self, block_id: str) -> ReparseWindow:
        """A window that contains the block; raises BlockNotFound."""
        for window in self._windows:
            if block_id in window.by_id:
                return window
        document = self.document
        if block_id not in document.index:
            raise BlockNotFound(block_id)
        at = top(document.block(block_id)).index
        if any(window.low <= at < window.high for window in self._windows):
            raise BlockNotFound(block_id, lost=True)  # an earlier change deleted it
        return self._window(max(at - 1, 0), min(at + 2, document.size))

    def _with_guards(
        self, window: ReparseWindow, index_in: Callable[[ReparseWindow], int]
    ) -> ReparseWindow:
        """The window, widened until a block precedes and follows the child at an index."""
        while True:
            index, last = index_in(window), len(window.tree.root.children) - 1
            low = max(window.low - (index == 0), 0)
            high = min(window.high + (index >= last), self.document.size)
            wider = self._window(low, high)
            if wider is window:
                return window
            window = wider

    def _window(self, low: int, high: int) -> ReparseWindow:
        """The window of these top-level blocks, merged with the windows it overlaps."""
        size = self.document.size
        if not self.document.parses_in_windows:
            low, high = 0, size
        met = [one for one in self._windows if one.low < high and low < one.high]
        if met:
            low, high = min(low, met[0].low), max(high, met[-1].high)
        if len(met) == 1 and (met[0].low, met[0].high) == (low, high):
            return met[0]
        window = self._joined(low, high, met)
        if window is None:
            met = self._windows
            window = self._joined(0, size, met)
        if window is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        others = [one for one in self._windows if one not in met]
        self._windows = sorted([*others, window], key=lambda one: one.low)
        return window

    def _joined(self, low: int, high: int, met: Sequence[ReparseWindow]) -> ReparseWindow | None:
        """Join blocks and the windows among them; None if the result would parse differently."""
        document = self.document
        parts: list[bytes] = []
        blocks: list[tuple[Block, Tree, Names]] = []

        def untouched(start: int, stop: int) -> None:
            parts.append(document.data[document.line_of(start) : document.line_of(stop)])
            tops = document.tree.root.children[start:stop]
            blocks.extend([(block, document.tree, document.name) for block in tops])

        at = low
        for window in met:
            untouched(at, window.low)
            parts.append(window.tree.data)
            blocks.extend([(one, window.tree, window.name) for one in window.tree.root.children])
            at = window.high
        untouched(at, high)
        tree = self._parsed(b"".join(parts), low)
        ids: dict[Block, str] = {tree.root: document.id}
        if not same_blocks(blocks, tree.root.children, tree, ids):
            return None
        start = document.line_of(low)
        change = ChangeSet.of(document.line_of(high) - start, _shifted(met, -start))
        by_id = {name: block for block, name in ids.items()}
        return ReparseWindow(low, high, start, tree, change, ids, by_id)

    def _parsed(self, data: bytes, low: int) -> Tree:
        tree = self.document.tree
        return read(data, tree.profile, tree.newline, part=low > 0)


def _shifted(windows: Iterable[ReparseWindow], by: int) -> list[Edit]:
    return [
        Edit(edit.start + window.start + by, edit.stop + window.start + by, edit.new)
        for window in windows
        for edit in window.change.edits
    ]


def _expected(block: Block, where: Where, count: int) -> Expected:
    """The expected effect of an insertion, which replaces an empty paragraph."""
    if where in ("before", "after"):
        parent = _parent(block)
        if is_phantom(block):
            return Expected(parent, block.index, 1, count)
        return Expected(parent, block.index + (where == "after"), 0, count)
    first = sum(1 for child in block.children if child.kind == MATTER)
    if len(block.children) == first + 1 and is_phantom(block.children[first]):
        return Expected(block, first, 1, count)
    return Expected(block, first if where == "first_in" else len(block.children), 0, count)


def _parent(block: Block) -> Block:
    assert block.parent is not None
    return block.parent


def _only(block: Block) -> bool:
    """Whether it is the only block in its container."""
    return all(child is block for child in shown(_parent(block)))


def _emptied(tree: Tree, block: Block) -> Edit:
    """Delete the only block of an item or of the document; the item stays."""
    if _parent(block).kind == "d":
        return deletion(tree, block)
    stop = line_stop(tree.data, block.end)
    if marker_holder(tree, block) is None:
        return Edit(line_start(tree.data, block.first), line_after(tree.data, stop), b"")
    start = block.first
    while start and tree.data[start - 1] in BLANK:
        start -= 1
    return Edit(start, stop, b"")


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The digest and rows that a file will have, and what makes the document of its blocks."""

    path: RelPath
    digest: str
    rows: tuple[Fingerprint, ...]
    successor: Successor | None = None


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """What `execute` needs: planned files, ids to return, and names that get lost."""

    plans: tuple[FilePlan, ...]
    ids: tuple[tuple[str, ...], ...]
    lost: tuple[tuple[FolderDocument, str], ...] = ()


def dry_run(
    documents: DocumentCache, changes: Sequence[Change], fresh: Callable[[], str]
) -> Prepared:
    """Check the changes; raise the refusal of the first that cannot be made."""
    trial = _FolderDryRun(documents, fresh)
    ids = tuple(trial.take(change) for change in changes)
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    files: list[FileEdit] = []
    plans: list[FilePlan] = []
    for working in trial.workings.values():
        document, change = working.document, working.change
        base = Snapshot.of(document.data)
        result = base.edited(change)
        name = str(document.path)
        before[name] = text_shown(document.data)
        after[name] = text_shown(result.data)
        if working.fronts(result.data):
            raise InvalidArgs("markdown", _RUNS_ON)
        step = SidecarChange(document.digest, result.digest, working.splices())
        rows = step.take(document.rows)
        assert rows is not None
        if change:
            files.append(FileEdit(document.path, base, change))
            plans.append(FilePlan(document.path, result.digest, rows, working.successor))
            documents.plan_ids(document, document.path, step)
    lost = tuple(
        (working.document, name)
        for working in trial.workings.values()
        for name in working.lost_anchors()
    )
    held = HeldFiles(tuple(plans), ids, lost)
    return Prepared(
        tuple(changes), MappingProxyType(before), MappingProxyType(after), tuple(files), held
    )


def text_shown(data: bytes) -> str:
    """The text of a document for display."""
    return shown_text(data.decode("utf-8", "surrogateescape"))


class _FolderDryRun:
    def __init__(self, documents: DocumentCache, fresh: Callable[[], str]) -> None:
        self._documents = documents
        self._fresh = fresh
        self.workings: dict[RelPath, WorkingDocument] = {}

    def take(self, change: Change) -> tuple[str, ...]:
        """Apply one change; return the ids it leaves."""
        if isinstance(change, InsertText):
            return self._insert(change)
        if isinstance(change, Restore):
            raise InvalidArgs("image", "is not one of this store")
        if isinstance(change, Move):
            raise InvalidArgs("diff", "blocks cannot be moved here yet")
        new = pieces(change.markdown, self._documents.profile) if isinstance(change, Update) else ()
        working = self._working(change.id)
        if change.id == working.document.id:
            raise WrongBlockKind(change.id, "d", "block")
        window, block = working.block(change.id)
        if change.over and window.rows_of(block)[0].hash != change.over:
            raise BlockChanged(block_id=change.id)
        if not isinstance(change, Update):
            working.delete(window, block)
            return ()
        for_update(new, _list_subtype(_parent(block)))
        working.update(window, block, change.markdown)
        return (change.id,)

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        new = pieces(change.markdown, self._documents.profile)
        working = self._working(change.anchor_id)
        inside = change.side in ("first_in", "last_in")
        if change.anchor_id != working.document.id:
            window, block = working.block(change.anchor_id)
            if inside and not block.holds_blocks:
                raise WrongBlockKind(change.anchor_id, block.kind, "container")
        elif inside:
            window, block = working.end(last=change.side == "last_in")
        else:
            raise WrongBlockKind(change.anchor_id, "d", "block")
        tops = for_place(new, _list_subtype(block if inside else _parent(block)))
        return working.insert(window, block, change.side, change.markdown, len(tops))

    def _working(self, block_id: str) -> WorkingDocument:
        valid(block_id)
        for working in self.workings.values():
            if block_id in working.document.index:
                return working
        document = self._documents.find(block_id)
        if document.path in self.workings:
            raise BlockNotFound(block_id)  # the file changed during the dry run
        working = self.workings[document.path] = WorkingDocument(document, self._fresh)
        return working


def _list_subtype(parent: Block) -> str | None:
    return parent.subtype if parent.kind == "l" else None


def as_stored(old: str, new: str) -> str:
    """The new text; unchanged lines keep their old bytes, changed ones spell out non-UTF-8 ones."""
    shown = shown_text(old)
    if shown == old:
        return new
    real = dict(zip(shown.split("\n"), old.split("\n"), strict=True))
    return "\n".join(real.get(line, line) for line in new.replace("\r\n", "\n").split("\n"))


Names = Callable[[Block], str]


@dataclass(eq=False)
class ReparseWindow:
    """The top-level blocks [low, high) of a document, with their lines, and the changes so far.

    `start` is the byte offset of their lines in the document; `change` applies to their original
    bytes. `ids` covers all blocks but front matter.
    """

    low: int
    high: int
    start: int
    tree: Tree
    change: ChangeSet
    ids: dict[Block, str]
    by_id: dict[str, Block]

    def name(self, block: Block) -> str:
        """The id of a block; empty for front matter."""
        return self.ids.get(block, "")

    def rows(self) -> list[Fingerprint]:
        """The rows of its blocks, without that of the document."""
        return [row for child in shown(self.tree.root) for row in self.rows_of(child)]

    def rows_of(self, top: Block) -> list[Fingerprint]:
        """The rows of a block and its descendants, with their depths in the document."""
        depth = sum(1 for _ in top.ancestors())
        blocks = (block for block in top.walk() if block.kind != MATTER)
        return [
            sign._replace(depth=sign.depth + depth, id=self.ids[block])
            for sign, block in zip(fingerprints(self.tree, top), blocks, strict=True)
        ]


def same_blocks(
    old: Sequence[tuple[Block, Tree, Names]],
    new: Sequence[Block],
    tree: Tree,
    ids: dict[Block, str],
) -> bool:
    """Whether structures and leaf texts are equal; if so, the new blocks get their ids in `ids`."""
    if len(old) != len(new):
        return False
    waiting = [(*each, other) for each, other in zip(old, new, strict=True)]
    while waiting:
        one, source, names, other = waiting.pop()
        if one.kind != other.kind or one.subtype != other.subtype:
            return False
        if len(one.children) != len(other.children):
            return False
        if one.children:
            waiting += [
                (child, source, names, twin)
                for child, twin in zip(one.children, other.children, strict=True)
            ]
        elif source.source(one) != tree.source(other):
            return False
        name = names(one)
        if name:
            ids[other] = name
    return True


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected effect of a change on the blocks in `parent`.

    From index `at` on, `removed` blocks disappear and `added` new ones take their place. `kept` is
    the id of the first of these if it keeps one.
    """

    parent: Block
    at: int
    removed: int
    added: int
    kept: str = ""


def carried(
    window: ReparseWindow, tree: Tree, expected: Expected, fresh: Callable[[Block], str]
) -> tuple[dict[Block, str], list[Block]] | None:
    """The ids after a change, and the added blocks; None if its effect was not the expected one."""
    ids: dict[Block, str] = {}

    def same(old: Sequence[Block], new: Sequence[Block]) -> bool:
        return same_blocks([(block, window.tree, window.name) for block in old], new, tree, ids)

    way = [expected.parent, *expected.parent.ancestors()][::-1]
    other = tree.root
    for block, inner in zip(way, [*way[1:], None], strict=True):
        if block.kind != other.kind or block.subtype != other.subtype:
            return None
        ids[other] = window.ids[block]
        if inner is None:
            break
        at, old, new = inner.index, block.children, other.children
        if len(old) != len(new) or not same(old[:at], new[:at]):
            return None
        if not same(old[at + 1 :], new[at + 1 :]):
            return None
        other = new[at]
    old, new = expected.parent.children, other.children
    start, stop = expected.at, expected.at + expected.added
    if len(new) != len(old) - expected.removed + expected.added:
        return None
    if not same(old[:start], new[:start]) or not same(old[start + expected.removed :], new[stop:]):
        return None
    added = list(new[start:stop])
    for block in added:
        for inner in block.walk():
            if inner.kind != MATTER:
                ids[inner] = fresh(inner)
    if expected.kept:
        ids[added[0]] = expected.kept
    return ids, added
