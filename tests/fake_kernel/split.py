"""How the fake kernel splits a text, as the store wants to know it."""

from __future__ import annotations

from copydesk.store.notes.pieces import Piece
from fake_kernel.kramdown import Node, markdown, parse


def split(text: str) -> tuple[Piece, ...]:
    """The blocks of a text."""
    return tuple(_piece(node) for node in parse(text))


def _piece(node: Node, parent: Node | None = None) -> Piece:
    below = tuple(_piece(child, node) for child in node.children)
    return Piece(node.kind, node.subtype, markdown(node, parent), below)
