"""The blocks that changes touch, as a tree in memory, on which the changes are tried first.

What lives here: nodes, their order, and the text they make together. What must
not: requests. Invariant: a container is either open, with all its blocks, or
closed, with its text only; the text of an open one is made of its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from copydesk.store.notes.kernel_rows import Child
from copydesk.store.notes.pieces import Piece

_MARKER = re.compile(r"\s*([-*+]|[0-9]{1,9}[.)])([ \t]+|$)(\[.\][ \t]+)?")


class Node:
    """A block; `children` is None while it is closed. A new one has no id."""

    __slots__ = ("children", "id", "kind", "markdown", "parent", "subtype")

    def __init__(self, block_id: str, kind: str, subtype: str, markdown: str) -> None:
        self.id = block_id
        self.kind = kind
        self.subtype = subtype
        self.markdown = markdown
        self.parent: Node | None = None
        self.children: list[Node] | None = None

    @staticmethod
    def of(child: Child) -> Node:
        """A closed node of a block that is there."""
        return Node(child.id, child.kind, child.subtype, child.markdown)

    @staticmethod
    def new(piece: Piece) -> Node:
        """A closed node of a new block."""
        return Node("", piece.kind, piece.subtype, piece.markdown)

    def open(self, children: Sequence[Child]) -> list[Node]:
        """Let the node hold these blocks; their nodes."""
        self.children = [Node.of(child) for child in children]
        for node in self.children:
            node.parent = self
        return self.children

    def put(self, at: int, nodes: Sequence[Node]) -> None:
        """Let the open node hold more, from this index on."""
        assert self.children is not None
        self.children[at:at] = nodes
        for node in nodes:
            node.parent = self

    def leave(self) -> None:
        """Take the node from its container."""
        assert self.parent is not None
        assert self.parent.children is not None
        self.parent.children.remove(self)
        self.parent = None

    def become(self, piece: Piece) -> None:
        """Let the node be another block in the same place."""
        self.kind, self.subtype, self.markdown = piece.kind, piece.subtype, piece.markdown
        self.children = None

    def text(self) -> str:
        """The Markdown of the node, as the kernel lays out what is in containers."""
        if self.children is None:
            return self.markdown
        texts = [node.text() for node in self.children]
        if self.kind == "l":
            return "\n".join(texts)
        body = "\n\n".join(texts)
        if self.kind == "i":
            found = _MARKER.match(self.markdown)
            bullet, task = (f"{found[1]} ", found[3] or "") if found else ("- ", "")
            return bullet + task + _indented(body, " " * len(bullet))
        if self.kind == "b":
            return _quoted(body)
        first = self.markdown.split("\n", 1)[0]
        if self.kind == "callout":
            return f"{first}\n{_quoted(body)}"
        if self.kind == "s":
            return f"{first}\n{body}\n\n}}}}}}"
        return body


def _indented(body: str, prefix: str) -> str:
    first, *rest = body.split("\n")
    return "\n".join((first, *(prefix + line if line else "" for line in rest)))


def _quoted(body: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in body.split("\n"))
