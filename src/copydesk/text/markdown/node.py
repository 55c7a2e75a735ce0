"""A block while it is parsed: still open for lines, its children still to come.

What lives here: `Node` and what it may hold. What must not: grammar.
Invariant: `nodes[-1]` is the only child that may be open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.text.markdown.block import Block
from copydesk.text.markdown.kinds import HOLDS, ITEM, LIST


@dataclass(slots=True)
class Marker:
    """What stands before the text of an item: how far in, how wide, of which kind."""

    offset: int
    padding: int
    length: int
    """The columns of the sign itself, which are its bytes."""
    sign: int
    """The bullet, or the delimiter after the number."""
    number: int
    """-1 for a bullet."""
    task: bool = False


@dataclass(slots=True)
class Fence:
    """How code was opened: by `length` times `sign`, `offset` columns in."""

    sign: int
    length: int
    offset: int


class Node(Block):
    """A block being parsed; once `settled` it is nothing but a block.

    `holder`, `nodes`: the parent and the children so far. `pieces`: of a
    paragraph, start and stop of each line's text in turn; None while that is
    the lines from `start` to `stop` as they are. `marker`: of a list, its
    first. `fence`: of fenced code. `run`: of super blocks right in one another,
    all that are open. `sort`: of HTML, how it ends; of mathematics, whether
    there was a `$$`. `marking`: the node of its attributes.
    `within_item`: whether it stands in an item, however deep.
    """

    __slots__ = (
        "fence",
        "holder",
        "marker",
        "marking",
        "nodes",
        "open",
        "pieces",
        "run",
        "sort",
        "within_item",
    )

    def __init__(
        self, kind: str, holder: Node | None, first: int, column: int, start: int, stop: int
    ) -> None:
        self.kind = kind
        self.subtype = ""
        self.start = start
        self.stop = stop
        self.first = first
        self.column = column
        self.parent = None
        self.children = ()
        self.attributes = self.anchor = None
        self.index = self.indent = self.width = self.mark = 0
        self.closed = True
        self.loose = False
        self.open = True
        self.holder = holder
        self.nodes: Sequence[Node] = ()
        self.pieces: list[int] | None = None
        self.marker: Marker | None = None
        self.fence: Fence | None = None
        self.run: list[Node] | None = None
        self.sort = 0
        self.marking: Node | None = None
        self.within_item: bool = holder is not None and (holder.within_item or holder.kind == ITEM)

    def append(self, child: Node) -> None:
        """Take a child as the last one."""
        if isinstance(self.nodes, list):
            self.nodes.append(child)
        else:
            self.nodes = [child]

    def drop_last(self) -> None:
        """Let go of the last child."""
        if isinstance(self.nodes, list):
            self.nodes.pop()

    def settled(self) -> None:
        """Let go of what only parsing needs."""
        self.holder = self.pieces = self.marker = self.fence = self.run = self.marking = None
        self.nodes = ()


def can_hold(parent: Node, kind: str) -> bool:
    """Whether a node of `kind` may become a child of `parent`."""
    holder = parent.kind
    if holder == LIST:
        return kind == ITEM
    return kind != ITEM and holder in HOLDS
