"""Notebooks, documents and blocks, and what the kernel does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from support.fake_kernel.kramdown import NOW, Node, Refused, parse

CONTAINERS = ("d", "l", "i", "b", "s", "callout")
_BOUND = ("custom-avs", "custom-riff-decks")


@dataclass
class Box:
    """A notebook; `daily` is the template of its daily notes, with the day filled in."""

    id: str
    name: str
    closed: bool = False
    daily: str = "/daily note/2026/01/2026-01-01"


@dataclass(eq=False)
class Document:
    """A document: its tree, and the ids of those above it."""

    box: str
    above: tuple[str, ...]
    root: Node

    @property
    def path(self) -> str:
        """The path of ids."""
        return "".join(f"/{one}" for one in (*self.above, self.root.id)) + ".sy"


@dataclass
class Workspace:
    """All there is. `clock` counts writes, so that times of change differ."""

    boxes: list[Box] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    unbound: int = 0
    ticks: int = 0

    def document(self, document_id: str) -> Document | None:
        """The document with this id."""
        return next((one for one in self.documents if one.root.id == document_id), None)

    def find(self, block_id: str) -> tuple[Document, Node, Node | None] | None:
        """A block with its document and its container."""
        for document in self.documents:
            for parent, node in _edges(document.root, None):
                if node.id == block_id:
                    return document, node, parent
        return None

    def hpath(self, document: Document) -> str:
        """The path of titles."""
        if document.root.id == document.box:
            return "/"
        titles = [self._title(one) for one in (*document.above, document.root.id)]
        return "".join(f"/{title}" for title in titles)

    def _title(self, document_id: str) -> str:
        found = self.document(document_id)
        return found.root.attributes["title"] if found else "?"

    def touch(self, node: Node) -> None:
        """The block was changed now."""
        self.ticks += 1
        node.attributes["updated"] = str(int(NOW) + self.ticks)

    # What the kernel does with blocks.

    def insert(
        self,
        made: list[Node],
        next_id: str,
        previous_id: str,
        parent_id: str,
        since: tuple[int, ...],
    ) -> list[Node]:
        """Blocks of a text; those that came to be: not always all, none beside what is not there."""
        nodes = self._made(made)
        anchor = self.find(next_id or previous_id or parent_id)
        if anchor is None:
            return []
        _, node, parent = anchor
        if next_id or previous_id:
            if parent is None:
                raise Refused("anchor is a document")
            at = parent.children.index(node)
            if parent.kind == "l" and nodes[0].kind == "l":
                nodes = [nodes[0].children[0], *nodes[1:]]
            if next_id and since < (3, 7):
                nodes = nodes[:1]
            if previous_id:
                at += 1
                if node.kind == "h" and node.attributes.get("fold") == "1":
                    at += len(self.section(node, parent))
            parent.children[at:at] = nodes
        elif node.kind in CONTAINERS:
            if node.kind == "s":
                nodes = nodes[:1]
            node.children[:0] = nodes
        else:
            assert parent is not None
            at = parent.children.index(node) + 1
            parent.children[at:at] = nodes
        return nodes

    def append(
        self, made: list[Node], parent_id: str, since: tuple[int, ...], *, first: bool = False
    ) -> list[Node]:
        """Blocks of a text in a container; in a leaf or a heading, as the version has it."""
        found = self.find(parent_id)
        if found is None:
            if since >= (3, 7):
                raise Refused("parent block not found")
            return []
        _, node, parent = found
        nodes = self._made(made)
        if node.kind not in CONTAINERS:
            if since >= (3, 7):
                raise Refused(f"block [{parent_id}] is a leaf block and cannot have children")
            assert parent is not None
            at = parent.children.index(node) + 1
            if node.kind == "h":
                at += len(self.section(node, parent))
            parent.children[at:at] = nodes
            return nodes
        if node.kind == "l":
            nodes = [
                item
                for one in nodes
                for item in (
                    one.children
                    if one.kind == "l"
                    else [Node("i", subtype=node.subtype, children=[one])]
                )
            ]
        node.children[0:0] = nodes if first else []
        node.children += [] if first else nodes
        return nodes

    def update(self, block_id: str, made: list[Node]) -> Node | None:
        """The first block of a text in the place of a block, with its id and none of its attributes."""
        found = self.find(block_id)
        if found is None:
            raise Refused(f"get block failed: {block_id}")
        _, node, parent = found
        nodes = self._made(made)
        if parent is None:
            node.children = nodes
            return node
        new = nodes[0]
        if new.kind == "l" and (node.kind == "i" or parent.kind == "l"):
            new = new.children[0]
        new.id = block_id
        parent.children[parent.children.index(node)] = new
        self.touch(new)
        return new

    def delete(self, block_id: str) -> None:
        """A block away; of a document only what is bound to it."""
        found = self.find(block_id)
        if found is None:
            return
        _, node, parent = found
        if parent is None:
            self.unbound += 1
            return
        parent.children.remove(node)
        if not parent.children and parent.kind in ("i", "d"):
            parent.children.append(Node("p"))
        elif not parent.children and parent.kind in ("b", "s", "l"):
            self.delete(parent.id)

    def move(self, block_id: str, previous_id: str, parent_id: str) -> None:
        """A block elsewhere; of what it leaves empty only a list goes, and a document is filled."""
        found, anchor = self.find(block_id), self.find(previous_id or parent_id)
        assert found is not None
        assert anchor is not None
        _, node, source = found
        _, target, parent = anchor
        assert source is not None
        if node is target:
            return
        source.children.remove(node)
        if previous_id:
            assert parent is not None
            at = parent.children.index(target) + 1
            if target.kind == "h" and target.attributes.get("fold") == "1":
                at += len(self.section(target, parent))
            parent.children.insert(at, node)
        else:
            target.children.insert(0, node)
        if source.kind == "l" and not source.children:
            self.delete(source.id)
        if source.kind == "d" and not source.children:
            source.children.append(Node("p"))
        self.touch(node)

    def _made(self, nodes: list[Node]) -> list[Node]:
        nodes = nodes or [Node("p")]
        for top in nodes:
            for node in top.walk():
                self.touch(node)
            for name in _BOUND:
                top.attributes.pop(name, None)
        return nodes

    @staticmethod
    def section(heading: Node, parent: Node) -> list[Node]:
        """What stands under a heading."""
        found: list[Node] = []
        for node in parent.children[parent.children.index(heading) + 1 :]:
            if node.kind == "h" and node.subtype <= heading.subtype:
                break
            found.append(node)
        return found

    # Documents.

    def create(self, box: str, hpath: str, data: str, parent_id: str, document_id: str) -> Document:
        """A document at a path of titles; parents that are not there are made."""
        if not any(one.id == box and not one.closed for one in self.boxes):
            raise Refused("notebook not found")
        *titles, title = [part.strip() for part in hpath.strip("/").split("/")]
        if len(titles) >= 7:
            raise Refused("the directory is too deep")
        above = self._above(box, titles, parent_id)
        root = Node(
            "d", id=document_id, attributes={"title": title.removesuffix(".sy"), "type": "doc"}
        )
        root.children = self._made(parse(data))
        document = Document(box, above, root)
        self.documents.append(document)
        return document

    def _above(self, box: str, titles: list[str], parent_id: str) -> tuple[str, ...]:
        parent = self.document(parent_id) if parent_id else None
        wanted = "".join(f"/{title}" for title in titles)
        if parent is not None and parent.box == box and self.hpath(parent) == wanted:
            return (*parent.above, parent.root.id)
        above: tuple[str, ...] = ()
        for depth in range(len(titles)):
            hpath = "".join(f"/{title}" for title in titles[: depth + 1])
            same = [one for one in self.documents if one.box == box and self.hpath(one) == hpath]
            # with equal titles any of them may be taken: here the last
            found = same[-1] if same else None
            if found is None:
                root = Node(
                    "d", attributes={"title": titles[depth], "type": "doc"}, children=[Node("p")]
                )
                found = Document(box, above, root)
                self.documents.append(found)
            above = (*found.above, found.root.id)
        return above

    def remove(self, box: str, path: str) -> None:
        """A document away, with those below it."""
        gone = next((one for one in self.documents if one.box == box and one.path == path), None)
        if gone is None:
            raise Refused("tree not found")
        self.documents = [
            one for one in self.documents if one is not gone and gone.root.id not in one.above
        ]

    def each(self, do: Callable[[Document, Node, Node | None], object]) -> None:
        """Every block there is."""
        for document in self.documents:
            for parent, node in _edges(document.root, None):
                do(document, node, parent)


def _edges(node: Node, parent: Node | None) -> Iterator[tuple[Node | None, Node]]:
    yield parent, node
    for child in node.children:
        yield from _edges(child, node)
