"""A document of a folder at one moment: its bytes, its blocks, their ids.

What lives here: the value and what is asked of it. What must not: the disk.
Invariant: each block that counts has one row, in the same order, and no two
rows have one id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from copydesk.store.notes.folder_tree import Row, title_of
from copydesk.store.stamp import Stamp
from copydesk.text.markdown import Block, Tree, is_phantom
from copydesk.text.markdown.source import line_start
from copydesk.text.relpath import RelPath

SMALL = 1 << 15
"""A text of fewer bytes is always changed as a whole."""


@dataclass(eq=False)
class Document:
    """One text of a document. `stamp` alone may change, when the text proves to be the same."""

    path: RelPath
    stamp: Stamp
    digest: str
    data: bytes
    tree: Tree
    rows: tuple[Row, ...]
    order: tuple[Block, ...]

    @property
    def id(self) -> str:
        """The id of the document itself."""
        return self.rows[0].id

    @cached_property
    def index(self) -> dict[str, int]:
        """The places of blocks in their order, by id."""
        return {row.id: at for at, row in enumerate(self.rows)}

    @cached_property
    def number(self) -> dict[Block, int]:
        """The places of blocks in their order."""
        return {block: at for at, block in enumerate(self.order)}

    @cached_property
    def title(self) -> str:
        """What front matter calls it; empty without."""
        return title_of(self.tree)

    def block(self, block_id: str) -> Block:
        """A block that is there."""
        return self.order[self.index[block_id]]

    def name(self, block: Block) -> str:
        """The id of a block; empty for front matter, which has none."""
        at = self.number.get(block)
        return "" if at is None else self.rows[at].id

    @cached_property
    def chunks(self) -> Chunks:
        """The pieces that can be parsed by themselves."""
        return Chunks.of(self.tree, SMALL)


@dataclass(frozen=True, slots=True)
class Chunks:
    """A text in pieces, each of one top-level block and the blank lines behind it, or several.

    `starts` are the bytes where they start; `first` the index of the first block
    of each among the children of the document, and how many children there are.
    """

    starts: tuple[int, ...]
    first: tuple[int, ...]
    size: int

    @staticmethod
    def of(tree: Tree, small: int) -> Chunks:
        """The pieces of a text; one if it has fewer bytes than `small`, or is SiYuan's."""
        children = tree.root.children
        starts, first = [0], [0]
        if len(tree.data) >= small and tree.profile == "gfm":
            for at, block in enumerate(children[1:], 1):
                start = line_start(tree.data, block.first)
                if start > starts[-1] and not is_phantom(block):
                    starts.append(start)
                    first.append(at)
        return Chunks((*starts, len(tree.data)), (*first, len(children)), len(starts))

    def of_child(self, index: int) -> int:
        """The piece that holds a child of the document."""
        return bisect_right(self.first, index, hi=self.size) - 1


def top(block: Block) -> Block:
    """The child of the document that a block is, or is in."""
    while block.parent is not None and block.parent.parent is not None:
        block = block.parent
    return block


def plain_ids(rows: Sequence[Row]) -> tuple[str, ...]:
    """The ids of rows."""
    return tuple(row.id for row in rows)
