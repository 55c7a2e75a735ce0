"""Checks of texts and titles, and the blocks or list items that a text becomes in a container.

Invariant: the pieces returned for a container fit in it, and there is at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from copydesk.errors import ContentRequired, InvalidArgs
from copydesk.text.markdown import Block, Tree, is_phantom, markdown_of
from copydesk.text.markdown.block import LIST

_TITLE_CHARACTERS = 512


class BlockText(NamedTuple):
    """One block of a text, its source without the prefixes of containers; items of a list below."""

    kind: str
    subtype: str
    markdown: str
    children: tuple[BlockText, ...] = ()


SplitBlocks = Callable[[str], Sequence[BlockText]]
"""How the kernel splits a text in blocks at its top level."""


def split_tree(tree: Tree) -> tuple[BlockText, ...]:
    """The blocks at the top level of a text, with the items of its lists."""
    return tuple(_piece(tree, block) for block in tree.root.children if not is_phantom(block))


def _piece(tree: Tree, block: Block) -> BlockText:
    items = block.children if block.kind == LIST else ()
    below = tuple(_piece(tree, item) for item in items)
    return BlockText(block.kind, block.subtype, raw_markdown(tree, block), below)


def raw_markdown(tree: Tree, block: Block) -> str:
    """The text of a block, with a lone surrogate for a byte that is no UTF-8."""
    whole = block.parent is tree.root and not block.indent and not block.children
    if whole and (block.attributes is None or block.attributes[0] >= block.stop):
        source = tree.data[block.start : block.stop]
        if b"\r" not in source and b"\t" not in source[:1]:
            return source.decode("utf-8", "surrogateescape")
    return markdown_of(tree, block)


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


def check_characters(text: str, argument: str) -> None:
    """Raise InvalidArgs(argument) for a text that no store can hold."""
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    if has_surrogate(text):
        raise InvalidArgs(argument, "holds a lone surrogate")


def has_surrogate(text: str) -> bool:
    """Whether the text holds half a character."""
    return any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def checked_title(title: str) -> str:
    """A title in one line; InvalidArgs(`title`)."""
    name = " ".join(title.split())
    if not name:
        raise InvalidArgs("title", "must not be empty")
    if "/" in name:
        raise InvalidArgs("title", "holds a slash")
    if len(name) > _TITLE_CHARACTERS:
        raise InvalidArgs("title", f"more than {_TITLE_CHARACTERS} characters")
    if "\0" in name or has_surrogate(name):
        raise InvalidArgs("title", "holds a character that no title can have")
    return name
