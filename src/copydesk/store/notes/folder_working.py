"""A document of a folder while changes are tried on it, one after the other.

What lives here: where a change goes, what it should make of the blocks, and that
it does. What must not: files, what may be changed. Laws: what all changes come
to is one change of the document's bytes; the blocks of the text after it are
those that the changes left, and no byte of any other block is altered.

Only the parts of the text in which something changes are parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from copydesk.errors import InvalidArgs
from copydesk.store.notes.block_id import is_id
from copydesk.store.notes.errors import BlockNotFound
from copydesk.store.notes.folder_document import Document, top
from copydesk.store.notes.folder_match import know
from copydesk.store.notes.folder_region import Expected, Region, carried, same_blocks
from copydesk.store.notes.folder_sidecar import Splice
from copydesk.store.notes.folder_text import as_stored
from copydesk.store.notes.folder_tree import MATTER, Row, raw_markdown, read, shown, signs
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.markdown import Block, Tree, Where, deletion, insertion, is_phantom, replacement
from copydesk.text.markdown.block import BLANK
from copydesk.text.markdown.edit import marker_holder
from copydesk.text.markdown.source import line_after, line_start, line_stop

_GOES_WHEN_EMPTY = ("l", "b", "footnote")
_STAYS_WHEN_EMPTY = ("d", "i")

_RUNS_ON = "would become one with what stands beside it, or part of it"


class Working:
    """A document and what changes have made of it. `fresh` makes ids."""

    def __init__(self, document: Document, fresh: Callable[[], str]) -> None:
        self.document = document
        self._fresh = fresh
        self._regions: list[Region] = []
        self._used: set[str] = set()

    @property
    def change(self) -> ChangeSet:
        """All changes so far, of the document's bytes."""
        size = len(self.document.data)
        return ChangeSet.of(size, _shifted(self._regions, 0))

    def splices(self) -> tuple[Splice, ...]:
        """What has become of the rows."""
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

    def block(self, block_id: str) -> tuple[Region, Block]:
        """A block as it is now, and all that a change of it can touch; BlockNotFound."""
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

    def end(self, *, last: bool) -> tuple[Region, Block]:
        """The document, with its first or its last blocks at hand."""
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
        self, region: Region, block: Block, where: Where, markdown: str, count: int
    ) -> tuple[str, ...]:
        """New blocks, so many of them; their ids. InvalidArgs where they would run into others."""
        expected = _expected(block, where, count)
        edit = insertion(region.tree, block, where).edit(markdown)
        added = self._make(region, (edit,), expected)
        if added is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        return added

    def update(self, region: Region, block: Block, markdown: str) -> None:
        """Another text for a block; it keeps its id. InvalidArgs as `insert`."""
        assert block.parent is not None
        name = region.ids[block]
        text = as_stored(raw_markdown(region.tree, block), markdown)
        edits = replacement(region.tree, block, text)
        if not edits:
            return
        expected = Expected(block.parent, block.index, 1, 1, name)
        if self._make(region, edits, expected) is None:
            raise InvalidArgs("markdown", _RUNS_ON)

    def delete(self, region: Region, block: Block) -> None:
        """Take a block away, with the containers that would be empty then.

        Two lists that nothing parts any more become one, the first one.
        """
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

    def _name(self, region: Region, block: Block) -> str:
        name = self._fresh()
        region.ids[block] = name
        region.by_id[name] = block
        return name

    def _new(self, block: Block) -> str:
        """An id for a new block: what the text calls it, if nothing else is called so."""
        anchor = block.anchor or ""
        if not is_id(anchor) or anchor in self._used or anchor in self.document.index:
            return self._fresh()
        self._used.add(anchor)
        return anchor

    def _make(
        self, region: Region, edits: Sequence[Edit], expected: Expected
    ) -> tuple[str, ...] | None:
        """Make edits of a region; the ids of what was added, None if that is not as expected."""
        change = ChangeSet.of(len(region.tree.data), edits)
        tree = self._parsed(change.apply(region.tree.data), region.low)
        found = carried(region, tree, expected, self._new)
        if found is None:
            return None
        ids, added = found
        self._put(region, tree, change, ids)
        return tuple(ids[block] for block in added)

    def _put(self, region: Region, tree: Tree, change: ChangeSet, ids: dict[Block, str]) -> None:
        region.change = region.change.then(change)
        region.tree, region.ids = tree, ids
        region.by_id = {name: block for block, name in ids.items()}

    def _merge(self, region: Region, block: Block, edit: Edit) -> None:
        """A deletion after which other blocks are one: they are known again by what they hold."""
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
        old = [row for row in self._all_rows(wide) if row.id not in gone]
        new = signs(tree, tree.root)
        known = know(old, new, (), lambda at: self._fresh(), lambda one: False)
        blocks = (inner for inner in tree.root.walk() if inner.kind != MATTER)
        ids = {inner: row.id for inner, row in zip(blocks, known.rows, strict=True)}
        self._put(wide, tree, change, ids)

    def _guarded(self, region: Region, tree: Tree) -> bool:
        """Whether the first and the last block of a region are still the same in another tree."""
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

    def _all_rows(self, region: Region) -> list[Row]:
        return [self.document.rows[0]._replace(depth=0), *region.rows()]

    def _of(self, block_id: str) -> Region:
        """A region with the block; BlockNotFound."""
        for region in self._regions:
            if block_id in region.by_id:
                return region
        if block_id not in self.document.index:
            raise BlockNotFound(block_id)
        chunk = self.document.chunks.of_child(top(self.document.block(block_id)).index)
        if any(region.low <= chunk < region.high for region in self._regions):
            raise BlockNotFound(block_id, lost=True)  # it was in there
        return self._region(max(chunk - 1, 0), min(chunk + 2, self.document.chunks.size))

    def _with_guards(self, region: Region, index: int) -> Region:
        """The region, with a block before and one behind the child of this index."""
        size = self.document.chunks.size
        low, high = region.low, region.high
        if index == 0 and low > 0:
            low -= 1
        if index >= len(region.tree.root.children) - 1 and high < size:
            high += 1
        return region if (low, high) == (region.low, region.high) else self._region(low, high)

    def _region(self, low: int, high: int) -> Region:
        """The region of these pieces, with all regions that it meets in one."""
        met: list[Region] = []
        for one in self._regions:  # in order, and no two of them meet
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

    def _joined(self, low: int, high: int, met: Sequence[Region]) -> Region | None:
        """A region of pieces and of regions among them; None if it would have other blocks."""
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
        return Region(low, high, start, tree, change, ids, by_id)

    def _parsed(self, data: bytes, low: int) -> Tree:
        tree = self.document.tree
        if low == 0 and tree.profile == "gfm":
            return read(data, tree.profile, tree.newline)
        return read(data, tree.profile, tree.newline, part=low > 0)


def _shifted(regions: Iterable[Region], by: int) -> list[Edit]:
    """The edits of regions, of the document's bytes moved by so many."""
    return [
        Edit(edit.start + region.start + by, edit.stop + region.start + by, edit.new)
        for region in regions
        for edit in region.change.edits
    ]


def _expected(block: Block, where: Where, count: int) -> Expected:
    """What new blocks make of the container they come in; one that stands for nothing goes."""
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
    """Whether nothing else that counts is in its container."""
    return all(child is block for child in shown(_parent(block)))


def _emptied(tree: Tree, block: Block) -> Edit:
    """Take out the only block of an item or of the document; the item stays."""
    if _parent(block).kind == "d":
        return deletion(tree, block)
    stop = line_stop(tree.data, block.end)
    if marker_holder(tree, block) is None:
        return Edit(line_start(tree.data, block.first), line_after(tree.data, stop), b"")
    start = block.first
    while start and tree.data[start - 1] in BLANK:
        start -= 1
    return Edit(start, stop, b"")
