"""What may be written into a document of a folder as a new text, and what blocks it is.

What lives here: the checks of a text and its pieces. What must not: where it
goes. Invariant: a text that has passed sets no attributes and no ids, and can be
written in UTF-8.
"""

from __future__ import annotations

from copydesk.errors import InvalidArgs
from copydesk.store.notes.folder_tree import raw_markdown, shown_text
from copydesk.store.notes.pieces import Piece
from copydesk.text.markdown import Block, Profile, Tree, is_phantom, parse


def pieces(markdown: str, profile: Profile) -> tuple[Piece, ...]:
    """The blocks of a text; InvalidArgs(`markdown`) for one that must not be written."""
    if "\0" in markdown:
        raise InvalidArgs("markdown", "holds a NUL character")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in markdown):
        raise InvalidArgs("markdown", "holds a lone surrogate")
    tree = parse(markdown.replace("\r\n", "\n").replace("\r", "\n"), profile, part=True)
    if any(_sets(tree, block) for block in tree.root.walk()):
        raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
    return tuple(_piece(tree, block) for block in tree.root.children if not is_phantom(block))


def _sets(tree: Tree, block: Block) -> bool:
    if block.attributes is None:
        return False
    start, stop = block.attributes
    return not tree.data[start:stop].lstrip().startswith(b"^")


def _piece(tree: Tree, block: Block) -> Piece:
    below = tuple(_piece(tree, child) for child in block.children if block.kind == "l")
    return Piece(block.kind, block.subtype, raw_markdown(tree, block), below)


def as_stored(old: str, new: str) -> str:
    """A new text, with the lines of the old one that only look as they do as they really are.

    What is no UTF-8 is shown spelled out; a line that is left as it was shown
    keeps its bytes.
    """
    shown = shown_text(old)
    if shown == old:
        return new
    real = dict(zip(shown.split("\n"), old.split("\n"), strict=True))
    return "\n".join(real.get(line, line) for line in new.replace("\r\n", "\n").split("\n"))
