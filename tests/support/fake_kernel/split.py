"""How the fake kernel splits a text, as the store wants to know it."""

from __future__ import annotations

from copydesk.notes.protocol import BlockText
from support.fake_kernel.kramdown import Node, markdown, parse


def split(text: str) -> tuple[BlockText, ...]:
    """The blocks of a text."""
    return tuple(_piece(node) for node in parse(text))


def _piece(node: Node, parent: Node | None = None) -> BlockText:
    below = tuple(_piece(child, node) for child in node.children)
    return BlockText(node.kind, node.subtype, markdown(node, parent), below)
