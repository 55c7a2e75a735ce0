"""A dry run of block changes on the documents of a folder; it yields file edits or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes.folder_blocks import (
    MATTER,
    Fingerprint,
    FolderDocument,
    fingerprints,
    know,
    moved,
    pieces,
    read,
    shown,
    shown_text,
    top,
)
from copydesk.store.notes.folder_cache import DocumentCache
from copydesk.store.notes.folder_index import SidecarChange, Splice
from copydesk.store.notes.protocol import (
    BlockChanged,
    BlockNotFound,
    Change,
    Delete,
    InsertText,
    Prepared,
    Restore,
    Side,
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
from copydesk.text.markdown import Block, Tree, Where, deletion, insertion, is_phantom, replacement
from copydesk.text.markdown.block import BLANK, newline_of
from copydesk.text.markdown.edit import marker_holder
from copydesk.text.markdown.tree import line_after, line_start, line_stop
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
        self._regions: list[ReparseWindow] = []
        self._used: set[str] = set()

    @property
    def change(self) -> ChangeSet:
        """All changes so far, relative to the bytes of the document."""
        size = len(self.document.data)
        return ChangeSet.of(size, _shifted(self._regions, 0))

    def splices(self) -> tuple[Splice, ...]:
        document, made = self.document, list[Splice]()
        children, chunks = document.tree.root.children, document.chunks
        for region in self._regions:
            tops = children[chunks.first[region.low] : chunks.first[region.high]]
            tops = tuple(child for child in tops if child.kind != MATTER)
            after = children[chunks.first[region.high] :]
            start = document.number[tops[0]] if tops else 1
            stop = document.number[after[0]] if after else len(document.rows)
            old, new = document.rows[start:stop], region.rows()
            head, least = 0, min(len(old), len(new))
            while head < least and old[head] == new[head]:
                head += 1
            tail = 0
            while tail < least - head and old[-1 - tail] == new[-1 - tail]:
                tail += 1
            old, new = old[head : len(old) - tail], new[head : len(new) - tail]
            if old or new:
                made.append(Splice(start + head, tuple(old), tuple(new)))
        return tuple(made)

    def successor(
        self, stamp: Stamp, digest: str, data: bytes, rows: tuple[Fingerprint, ...]
    ) -> FolderDocument | None:
        """The changed document, built from the blocks of the old one; None if it must be parsed."""
        document = self.document
        if document.spent or document.chunks.size == 1 or not self._regions:
            return None
        document.spent = True
        root, chunks = document.tree.root, document.chunks
        children, number, old = root.children, document.number, document.order
        tops: list[Block] = []
        order: list[Block] = [root]
        at, child, shift = 1, 0, 0
        for region in self._regions:
            first, last = chunks.first[region.low], chunks.first[region.high]
            start = number[children[first]] if first or children[0].kind != MATTER else 1
            stop = number[children[last]] if last < len(children) else len(old)
            moved(old[at:start], shift)
            order += old[at:start]
            tops += children[child:first]
            inside = [block for top in region.tree.root.children for block in top.walk()]
            moved(inside, region.start + shift)
            for block in region.tree.root.children:
                block.parent = root
            tops += region.tree.root.children
            order += (block for block in inside if block.kind != MATTER)
            shift += len(region.tree.data) - chunks.starts[region.high] + region.start
            at, child = stop, last
        moved(old[at:], shift)
        order += old[at:]
        tops += children[child:]
        for index, block in enumerate(tops):
            block.index = index
        root.children, root.stop = tuple(tops), len(data)
        tree = Tree(data, document.tree.profile, root, newline_of(data))
        return FolderDocument(document.path, stamp, digest, data, tree, rows, tuple(order))

    def lost_anchors(self) -> list[str]:
        """The names that blocks had in the text and that no block has after the changes."""
        children, chunks = self.document.tree.root.children, self.document.chunks
        old: list[str] = []
        new: set[str] = set()
        for region in self._regions:
            tops = children[chunks.first[region.low] : chunks.first[region.high]]
            old += (name for top in tops for each in top.walk() if (name := each.anchor))
            new.update(name for each in region.tree.root.walk() if (name := each.anchor))
        return [name for name in dict.fromkeys(old) if name not in new]

    def block(self, block_id: str) -> tuple[ReparseWindow, Block]:
        """A current block and the window that a change of it can affect; raises BlockNotFound."""
        if block_id == self.document.id:
            raise AssertionError("a document has no region")
        region = self._of(block_id)
        for _ in range(self.document.chunks.size + 2):
            block = region.by_id.get(block_id)
            if block is None:
                raise BlockNotFound(block_id, lost=True)
            wider = self._with_guards(region, top(block).index)
            if wider is region:
                return region, block
            region = wider
        return region, region.by_id[block_id]

    def end(self, *, last: bool) -> tuple[ReparseWindow, Block]:
        """The document, with a window around its first or its last block."""
        size = self.document.chunks.size
        at = size - 1 if last else 0
        region = self._region(at, at + 1)
        for _ in range(size + 2):
            children = region.tree.root.children
            wider = self._with_guards(region, len(children) - 1 if last else 0)
            if wider is region:
                break
            region = wider
        return region, region.tree.root

    def insert(
        self, region: ReparseWindow, block: Block, where: Where, markdown: str, count: int
    ) -> tuple[str, ...]:
        """Insert `count` blocks; return their ids. InvalidArgs if they would merge with others."""
        expected = _expected(block, where, count)
        edit = insertion(region.tree, block, where).edit(markdown)
        added = self._make(region, (edit,), expected)
        if added is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        return added

    def update(self, region: ReparseWindow, block: Block, markdown: str) -> None:
        """Replace the text of a block, which keeps its id. Raises InvalidArgs as `insert` does."""
        assert block.parent is not None
        name = region.ids[block]
        text = as_stored(raw_markdown(region.tree, block), markdown)
        edits = replacement(region.tree, block, text)
        if not edits:
            return
        expected = Expected(block.parent, block.index, 1, 1, name)
        if self._make(region, edits, expected) is None:
            raise InvalidArgs("markdown", _RUNS_ON)

    def delete(self, region: ReparseWindow, block: Block) -> None:
        """Delete a block and the containers that become empty; lists that then meet are merged."""
        if is_phantom(block):
            region.by_id.pop(region.ids[block])
            self._name(region, block)
            return
        parent = _parent(block)
        while parent.kind in _GOES_WHEN_EMPTY and _only(block):
            block, parent = parent, _parent(parent)
        empties = parent.kind in _STAYS_WHEN_EMPTY and _only(block)
        expected = Expected(parent, block.index, 1, int(empties))
        edit = _emptied(region.tree, block) if empties else deletion(region.tree, block)
        if self._make(region, (edit,), expected) is None:
            self._merge(region, block, edit)

    def _name(self, region: ReparseWindow, block: Block) -> str:
        name = self._fresh()
        region.ids[block] = name
        region.by_id[name] = block
        return name

    def _new(self, block: Block) -> str:
        anchor = block.anchor or ""
        if not is_id(anchor) or anchor in self._used or anchor in self.document.index:
            return self._fresh()
        self._used.add(anchor)
        return anchor

    def _make(
        self, region: ReparseWindow, edits: Sequence[Edit], expected: Expected
    ) -> tuple[str, ...] | None:
        """Make edits in a window; return the ids of added blocks, None for an unexpected effect."""
        change = ChangeSet.of(len(region.tree.data), edits)
        tree = self._parsed(change.apply(region.tree.data), region.low)
        found = carried(region, tree, expected, self._new)
        if found is None:
            return None
        ids, added = found
        self._put(region, tree, change, ids)
        return tuple(ids[block] for block in added)

    def _put(
        self, region: ReparseWindow, tree: Tree, change: ChangeSet, ids: dict[Block, str]
    ) -> None:
        region.change = region.change.then(change)
        region.tree, region.ids = tree, ids
        region.by_id = {name: block for block, name in ids.items()}

    def _merge(self, region: ReparseWindow, block: Block, edit: Edit) -> None:
        """Make a deletion that merges other blocks; re-identify them by their fingerprints."""
        name, shift = region.ids[block], edit.start - block.start
        length, by = edit.stop - edit.start, 1
        size = self.document.chunks.size
        while True:
            wide = self._region(max(region.low - by, 0), min(region.high + by, size))
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
        known = know(old, new, (), lambda at: self._fresh(), lambda one: False)
        blocks = (inner for inner in tree.root.walk() if inner.kind != MATTER)
        ids = {inner: row.id for inner, row in zip(blocks, known.rows, strict=True)}
        self._put(wide, tree, change, ids)

    def _guarded(self, region: ReparseWindow, tree: Tree) -> bool:
        """Whether the first and the last block of a window are the same in another tree."""
        old, new = region.tree.root.children, tree.root.children
        pairs: list[tuple[Block, Block]] = []
        if region.low:
            pairs.append((old[0], new[0]))
        if region.high < self.document.chunks.size:
            pairs.append((old[-1], new[-1]))
        return all(
            same_blocks([(one, region.tree, lambda block: "")], [other], tree, {})
            for one, other in pairs
        )

    def _of(self, block_id: str) -> ReparseWindow:
        """A window that contains the block; raises BlockNotFound."""
        for region in self._regions:
            if block_id in region.by_id:
                return region
        if block_id not in self.document.index:
            raise BlockNotFound(block_id)
        chunk = self.document.chunks.of_child(top(self.document.block(block_id)).index)
        if any(region.low <= chunk < region.high for region in self._regions):
            raise BlockNotFound(block_id, lost=True)  # an earlier change deleted it
        return self._region(max(chunk - 1, 0), min(chunk + 2, self.document.chunks.size))

    def _with_guards(self, region: ReparseWindow, index: int) -> ReparseWindow:
        """The window, widened so that a block precedes and follows the child at this index."""
        size = self.document.chunks.size
        low, high = region.low, region.high
        if index == 0 and low > 0:
            low -= 1
        if index >= len(region.tree.root.children) - 1 and high < size:
            high += 1
        return region if (low, high) == (region.low, region.high) else self._region(low, high)

    def _region(self, low: int, high: int) -> ReparseWindow:
        """The window of these chunks, merged with the windows it overlaps."""
        met: list[ReparseWindow] = []
        for one in self._regions:  # in order and disjoint
            if one.low < high and low < one.high:
                met.append(one)
                low, high = min(low, one.low), max(high, one.high)
        if len(met) == 1 and (met[0].low, met[0].high) == (low, high):
            return met[0]
        made = self._joined(low, high, met)
        if made is None:
            met = self._regions
            made = self._joined(0, self.document.chunks.size, met)
        if made is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        others = [one for one in self._regions if one not in met]
        self._regions = sorted([*others, made], key=lambda one: one.low)
        return made

    def _joined(self, low: int, high: int, met: Sequence[ReparseWindow]) -> ReparseWindow | None:
        """Join chunks and the windows among them; None if the result would parse differently."""
        document, chunks = self.document, self.document.chunks
        children = document.tree.root.children
        parts: list[bytes] = []
        blocks: list[tuple[Block, Tree, Callable[[Block], str]]] = []

        def untouched(start: int, stop: int) -> None:
            parts.append(document.data[chunks.starts[start] : chunks.starts[stop]])
            tops = children[chunks.first[start] : chunks.first[stop]]
            blocks.extend((block, document.tree, document.name) for block in tops)

        at = low
        for region in met:
            untouched(at, region.low)
            parts.append(region.tree.data)
            tops = region.tree.root.children
            blocks.extend((block, region.tree, region.name) for block in tops)
            at = region.high
        untouched(at, high)
        tree = self._parsed(b"".join(parts), low)
        ids: dict[Block, str] = {tree.root: document.id}
        if not same_blocks(blocks, tree.root.children, tree, ids):
            return None
        start = chunks.starts[low]
        change = ChangeSet.of(chunks.starts[high] - start, _shifted(met, -start))
        by_id = {name: block for block, name in ids.items()}
        return ReparseWindow(low, high, start, tree, change, ids, by_id)

    def _parsed(self, data: bytes, low: int) -> Tree:
        tree = self.document.tree
        return read(data, tree.profile, tree.newline, part=low > 0)


def _shifted(regions: Iterable[ReparseWindow], by: int) -> list[Edit]:
    return [
        Edit(edit.start + region.start + by, edit.stop + region.start + by, edit.new)
        for region in regions
        for edit in region.change.edits
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
    """The digest and rows that a file will have, and the working document they come from."""

    path: RelPath
    digest: str
    rows: tuple[Fingerprint, ...]
    working: WorkingDocument | None = None


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
        before[name] = _text(document.data)
        after[name] = _text(result.data)
        splices = working.splices()
        step = SidecarChange(document.digest, result.digest, splices)
        rows = step.take(document.rows)
        assert rows is not None
        if change:
            files.append(FileEdit(document.path, base, change))
            plans.append(FilePlan(document.path, result.digest, rows, working))
            documents.plan_ids(document, document.path, step, rows)
    lost = tuple(
        (working.document, name)
        for working in trial.workings.values()
        for name in working.lost_anchors()
    )
    held = HeldFiles(tuple(plans), ids, lost)
    return Prepared(
        tuple(changes), MappingProxyType(before), MappingProxyType(after), tuple(files), held
    )


def texts(path: RelPath, data: bytes) -> Mapping[str, str]:
    """The text of one document for display, by its path."""
    return MappingProxyType({str(path): _text(data)})


def _text(data: bytes) -> str:
    return shown_text(data.decode("utf-8", "surrogateescape"))


class _FolderDryRun:
    def __init__(self, documents: DocumentCache, fresh: Callable[[], str]) -> None:
        self._documents = documents
        self._fresh = fresh
        self.workings: dict[RelPath, WorkingDocument] = {}

    def take(self, change: Change) -> tuple[str, ...]:
        """Apply one change; return the ids it leaves."""
        match change:
            case InsertText():
                return self._insert(change)
            case Update():
                return self._update(change)
            case Delete():
                return self._delete(change)
            case Restore():
                raise InvalidArgs("image", "is not one of this store")

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        found = pieces(change.markdown, self._documents.profile)
        working = self._working(change.anchor_id)
        region, block = self._anchor(working, change.anchor_id, change.side)
        parent = block if change.side in ("first_in", "last_in") else block.parent
        assert parent is not None
        made = for_place(found, _list_subtype(parent))
        return working.insert(region, block, change.side, change.markdown, len(made))

    def _anchor(
        self, working: WorkingDocument, anchor_id: str, side: Side
    ) -> tuple[ReparseWindow, Block]:
        inside = side in ("first_in", "last_in")
        if anchor_id == working.document.id:
            if not inside:
                raise WrongBlockKind(anchor_id, "d", "block")
            return working.end(last=side == "last_in")
        region, block = working.block(anchor_id)
        if inside and not block.holds_blocks:
            raise WrongBlockKind(anchor_id, block.kind, "container")
        return region, block

    def _update(self, change: Update) -> tuple[str, ...]:
        found = pieces(change.markdown, self._documents.profile)
        working, region, block = self._block(change.id, change.over)
        assert block.parent is not None
        for_update(found, _list_subtype(block.parent))
        working.update(region, block, change.markdown)
        return (change.id,)

    def _delete(self, change: Delete) -> tuple[str, ...]:
        working, region, block = self._block(change.id, change.over)
        working.delete(region, block)
        return ()

    def _block(self, block_id: str, over: str) -> tuple[WorkingDocument, ReparseWindow, Block]:
        """The block to change; WrongBlockKind for a document, BlockChanged if `over` differs."""
        working = self._working(block_id)
        if block_id == working.document.id:
            raise WrongBlockKind(block_id, "d", "block")
        region, block = working.block(block_id)
        if over and region.rows_of(block)[0].hash != over:
            raise BlockChanged(block_id=block_id)
        return working, region, block

    def _working(self, block_id: str) -> WorkingDocument:
        valid(block_id)
        for working in self.workings.values():
            if block_id in working.document.index:
                return working
        document = self._documents.find(block_id)
        found = self.workings.get(document.path)
        if found is not None:
            raise BlockNotFound(block_id)  # the file changed during the dry run
        return self.workings.setdefault(document.path, WorkingDocument(document, self._fresh))


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
    """The chunks [low, high) of a document with the changes so far.

    `start` is the byte offset of the chunks in the document; `change` applies to their original
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
        made: list[Fingerprint] = []
        for child in self.tree.root.children:
            if child.kind != MATTER:
                made += self.rows_of(child)
        return made

    def rows_of(self, top: Block) -> list[Fingerprint]:
        """The rows of a block and its descendants, with their depths in the document."""
        depth = sum(1 for _ in top.ancestors())
        names = (self.ids[block] for block in top.walk() if block.kind != MATTER)
        return [
            sign._replace(depth=sign.depth + depth).row(name)
            for sign, name in zip(fingerprints(self.tree, top), names, strict=True)
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
    region: ReparseWindow, tree: Tree, expected: Expected, fresh: Callable[[Block], str]
) -> tuple[dict[Block, str], list[Block]] | None:
    """The ids after a change, and the added blocks; None if its effect was not the expected one."""
    ids: dict[Block, str] = {}

    def same(old: Sequence[Block], new: Sequence[Block]) -> bool:
        return same_blocks([(block, region.tree, region.name) for block in old], new, tree, ids)

    way = [expected.parent, *expected.parent.ancestors()][::-1]
    other = tree.root
    for block, inner in zip(way, [*way[1:], None], strict=True):
        if block.kind != other.kind or block.subtype != other.subtype:
            return None
        ids[other] = region.ids[block]
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
