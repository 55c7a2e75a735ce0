"""What a text becomes where it is to stand: blocks, or items in a list.

What lives here: the pieces of a text, and which of them a container can hold.
What must not: the grammar of Markdown, which is handed in. Invariant: the
pieces given for a place can stand there, and there is at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from copydesk.errors import ContentRequired, InvalidArgs


class BlockText(NamedTuple):
    """One block of a text, its source without the prefixes of containers; items of a list below."""

    kind: str
    subtype: str
    markdown: str
    children: tuple[BlockText, ...] = ()


SplitBlocks = Callable[[str], Sequence[BlockText]]
"""How the kernel splits a text in blocks at its top level."""


def for_place(pieces: Sequence[BlockText], list_subtype: str | None) -> tuple[BlockText, ...]:
    """The blocks to put in a container; in a list, of this subtype, the items of the text's lists.

    ContentRequired for a text without any; InvalidArgs(`markdown`) when a list
    would get something else than items of its own subtype (u, o or t).
    """
    if not pieces:
        raise ContentRequired("markdown")
    if list_subtype is None:
        return tuple(pieces)
    if any(piece.kind != "l" for piece in pieces):
        raise InvalidArgs("markdown", "a list takes list items only")
    if any(piece.subtype != list_subtype for piece in pieces):
        raise InvalidArgs("markdown", "the list has items of another type")
    items = tuple(item for piece in pieces for item in piece.children)
    if not items:
        raise ContentRequired("markdown")
    return items


def for_update(pieces: Sequence[BlockText], list_subtype: str | None) -> BlockText:
    """The one block that a text is; as `for_place`, and InvalidArgs when it is several."""
    first, *others = for_place(pieces, list_subtype)
    if others:
        raise InvalidArgs("markdown", "one block is wanted")
    return first
