"""The blocks of a Markdown text, as they are read.

What lives here: `Block`, `Tree`, and walks over them. What must not: grammar,
changes. Invariants: the spans of siblings are in order and do not overlap;
children lie within their parent; a block never changes once it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from copydesk.text.markdown.kinds import HEADING, HOLDS

Profile = Literal["gfm", "siyuan"]


class Block:
    """One block. All numbers are bytes of the text from 0, unless they say columns.

    `kind` and `subtype` are those of SiYuan: `d` document, `h` heading (`h1` to
    `h6`), `p` paragraph, `l` list and `i` item (`u`, `o`, `t`), `b` quote, `s`
    super block, `callout` (its name), `c` code, `m` mathematics, `t` table,
    `html`, `tb` break, `query_embed`, `iframe`, `widget`, `video`, `audio`,
    `av`, and `""` for a conflict of git. Only in the profile `gfm`: `yaml` front
    matter, `def` link reference definition, `footnote`.

    `start`, `stop`: its source, from its first character to its last, without
    the prefix of its first line, the line's indentation and the last
    terminator. A block no byte stands for (SiYuan makes some) has `start == stop`.
    `first`: where the content of its parent starts on its first line; `column`
    is the column of that, which inside a tab is not the tab's own.
    `index`: its place among its siblings, from 0.
    `attributes`: the span of its line `{: ...}` or `^id`, behind it, or in an
    item behind the marker; None without.
    `anchor`: the id that the text gives it, or None.
    `indent`: columns from where the content of its parent starts to its start.
    `width`: of an item, columns from there to its content; 0 for others.
    `mark`: of a task, the byte after its `[ ]`; 0 for others.
    `closed`: False for code, mathematics or a super block that has no end.
    `loose`: true where it was parsed out of a text that had lost its indentation.
    """

    __slots__ = (
        "anchor",
        "attributes",
        "children",
        "closed",
        "column",
        "first",
        "indent",
        "index",
        "kind",
        "loose",
        "mark",
        "parent",
        "start",
        "stop",
        "subtype",
        "width",
    )

    kind: str
    subtype: str
    start: int
    stop: int
    first: int
    column: int
    parent: Block | None
    index: int
    children: tuple[Block, ...]
    attributes: tuple[int, int] | None
    anchor: str | None
    indent: int
    width: int
    mark: int
    closed: bool
    loose: bool

    def __repr__(self) -> str:
        name = f"{self.kind}/{self.subtype}" if self.subtype else self.kind
        return f"<{name} {self.start}:{self.stop}>"

    @property
    def end(self) -> int:
        """The byte after the block and its attributes."""
        return max(self.stop, self.attributes[1]) if self.attributes else self.stop

    @property
    def holds_blocks(self) -> bool:
        """Whether it is a container: its children are blocks, even if there are none."""
        return self.kind in HOLDS

    @property
    def level(self) -> int:
        """Of a heading 1 to 6, of anything else 0."""
        return int(self.subtype[1]) if self.kind == HEADING else 0

    @property
    def next(self) -> Block | None:
        """The sibling after it."""
        siblings = self.parent.children if self.parent is not None else ()
        return siblings[self.index + 1] if self.index + 1 < len(siblings) else None

    @property
    def previous(self) -> Block | None:
        """The sibling before it."""
        return (
            self.parent.children[self.index - 1] if self.parent is not None and self.index else None
        )

    def walk(self) -> Iterator[Block]:
        """It and all below it, each before its children, in the order of the text."""
        waiting: list[Block] = [self]
        while waiting:
            block = waiting.pop()
            yield block
            waiting += reversed(block.children)

    def ancestors(self) -> Iterator[Block]:
        """Its parent, the parent of that, and so on to the document."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent


@dataclass(frozen=True)
class Tree:
    """A text and its blocks; `root` is the document. Make one with `parse`."""

    data: bytes
    profile: Profile
    root: Block
    newline: bytes
    """The terminator that new lines take."""

    def source(self, block: Block) -> bytes:
        """The bytes of a block as they stand, the prefixes of its later lines included."""
        return self.data[block.start : block.stop]

    @cached_property
    def anchors(self) -> dict[str, Block]:
        """The blocks that the text gives an id, the first one of each id."""
        found: dict[str, Block] = {}
        for block in self.root.walk():
            if block.anchor is not None:
                found.setdefault(block.anchor, block)
        return found


def section(heading: Block) -> tuple[Block, ...]:
    """The siblings that belong to a heading: those up to the next of its level or a higher one.

    The heading itself is not among them. Empty for a block that is no heading.
    """
    if not heading.level or heading.parent is None:
        return ()
    siblings = heading.parent.children
    stop = heading.index + 1
    while stop < len(siblings) and not 0 < siblings[stop].level <= heading.level:
        stop += 1
    return siblings[heading.index + 1 : stop]


def heading_of(block: Block) -> Block | None:
    """The heading whose section, within the same container, a block belongs to most closely."""
    level = block.level or 7
    at = block.previous
    while at is not None and not 0 < at.level < level:
        at = at.previous
    return at
