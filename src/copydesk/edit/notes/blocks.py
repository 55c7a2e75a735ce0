"""Blocks as the planning of a diff needs them: what is known of each, and of new text.

What lives here: the protocol of a block, the tree of those a diff needs, the
pieces of a new text, the image of a block. What must not: hunks. Kinds are
SiYuan's: d document, h heading, l list, i list item, b quote, s super block,
callout, p paragraph, c code, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

CONTAINERS = frozenset({"d", "l", "i", "b", "s", "callout"})
"""Kinds of blocks that hold blocks; a heading does not, its section stands behind it."""

_MARKER = re.compile(r"[ \t]*([0-9]{1,8})?([-*+.)])[ \t]+(\[.\][ \t])?")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)", re.MULTILINE)


class Block(Protocol):
    """One block as it is now. `parent_id` is its container, empty for a document."""

    @property
    def id(self) -> str: ...

    @property
    def parent_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def markdown(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Tree:
    """As much of some documents as a diff needs.

    `blocks`: those that the diff names and all that are around them; one that is
    not in here does not exist. `children`: the ids in order of what each
    container holds that is around a named block, or is one; those beside a
    heading that something is appended to are in `blocks` too.
    """

    blocks: Mapping[str, Block]
    children: Mapping[str, Sequence[str]]

    def around(self, block_id: str) -> list[str]:
        """The containers around a block, the nearest first; the last is the document."""
        found: list[str] = []
        parent = self.blocks[block_id].parent_id
        while parent:
            found.append(parent)
            parent = self.blocks[parent].parent_id
        return found


class Piece(NamedTuple):
    """One block of a new text; of a list, the items are its `children`."""

    kind: str
    markdown: str
    children: tuple[Piece, ...] = ()


Split = Callable[[str], Sequence[Piece]]
"""How a text splits in blocks at its top level.

Law: every line that is not blank stands in exactly one piece, as it is written.
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A block before or after an operation: all that it is, but for its place.

    `id` of a new block is a name of its plan, `+1`, `+2` …, which no block can
    have. The markdown of a container is that of all it holds.
    """

    id: str
    kind: str
    markdown: str


def image_of(block: Block) -> Image:
    """The block as it is now."""
    return Image(block.id, block.kind, block.markdown)


def as_item(text: str, items: Sequence[str]) -> str:
    """The text as one more item of a list, with the marker that its items have."""
    found = _MARKER.match(items[-1]) if items else None
    marker = "- "
    if found is not None and found[2]:
        marker = f"{int(found[1]) + 1 if found[1] else ''}{found[2]} "
    task = "[ ] " if found is not None and found[3] else ""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    body = [line and " " * len(marker) + line for line in lines]
    return "\n".join([f"{marker}{task}{lines[0]}", *body[1:]])


def heading_level(markdown: str) -> int:
    """The level, 1 to 6, of a heading by its text: signs before it or a line under it."""
    found = _ATX.match(markdown)
    if found is not None:
        return len(found[1])
    return 1 if markdown.rstrip().endswith("=") else 2
