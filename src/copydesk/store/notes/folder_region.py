"""A part of a document that is being changed, parsed by itself.

What lives here: the part and the carrying of ids from one tree to the next. What
must not: which changes there are. Invariant: the blocks of a region are those
that the whole document has in its place.

A part starts where a block right in the document starts, and stops where one
starts. Its first and its last block are not changed, unless the document starts
or stops there: so what comes before and behind is parsed as it was, if the two
are still the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from copydesk.store.notes.folder_tree import MATTER, Row, signs
from copydesk.text.change import ChangeSet
from copydesk.text.markdown import Block, Tree

Names = Callable[[Block], str]


@dataclass(eq=False)
class Region:
    """The pieces [low, high) of a document as changed so far.

    `start` is the byte of the document where they start; `change` is made to
    the bytes that stood there. `ids` of all blocks but front matter.
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

    def rows(self) -> list[Row]:
        """The rows of its blocks, without the document's."""
        made: list[Row] = []
        for child in self.tree.root.children:
            if child.kind != MATTER:
                made += self.rows_of(child)
        return made

    def rows_of(self, top: Block) -> list[Row]:
        """The rows of one block and those in it, of its depth in the document."""
        depth = sum(1 for _ in top.ancestors())
        names = (self.ids[block] for block in top.walk() if block.kind != MATTER)
        return [
            sign._replace(depth=sign.depth + depth).row(name)
            for sign, name in zip(signs(self.tree, top), names, strict=True)
        ]


def same_blocks(
    old: Sequence[tuple[Block, Tree, Names]],
    new: Sequence[Block],
    tree: Tree,
    ids: dict[Block, str],
) -> bool:
    """Whether blocks are the same, byte for byte; then `ids` has those of the new ones."""
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
    """What a change makes of the blocks in `parent`.

    From index `at` on `removed` are not there any more, and `added` new ones
    are. `kept` is the id that the first of these has, if it is not a new one.
    """

    parent: Block
    at: int
    removed: int
    added: int
    kept: str = ""


def carried(
    region: Region, tree: Tree, expected: Expected, fresh: Callable[[Block], str]
) -> tuple[dict[Block, str], list[Block]] | None:
    """The ids after a change, and the blocks it added; None if it did something else."""
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
