"""How SiYuan's kernel splits a text in blocks.

What lives here: the `Split` of a kernel. What must not: the grammar, which is
`text/markdown`'s profile `siyuan`. Law: the pieces are the blocks that the
kernel's own engine makes of the text.
"""

from __future__ import annotations

from copydesk.store.notes.pieces import Piece
from copydesk.text.markdown import Block, Tree, markdown_of, parse
from copydesk.text.markdown.block import LIST


def split(markdown: str) -> tuple[Piece, ...]:
    """The blocks at the top level of a text, with the items of its lists."""
    tree = parse(markdown, "siyuan")
    return tuple(_piece(tree, block) for block in tree.root.children)


def _piece(tree: Tree, block: Block) -> Piece:
    items = block.children if block.kind == LIST else ()
    below = tuple(Piece(item.kind, item.subtype, markdown_of(tree, item)) for item in items)
    return Piece(block.kind, block.subtype, markdown_of(tree, block), below)
