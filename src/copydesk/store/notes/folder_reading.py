"""Blocks of a folder's documents as readers see them.

Invariant: everything is read from the text that stands there; the index only says where to look.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import islice
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

from copydesk.errors import InvalidArgs
from copydesk.store.notes.errors import (
    BlockNotFound,
    NotebookNotFound,
    WrongBlockKind,
    is_id,
    valid,
)
from copydesk.store.notes.folder_blocks import (
    DOCUMENT,
    FolderDocument,
    in_order,
    markdown,
    shown,
    title_of,
    undisturbed,
)
from copydesk.store.notes.folder_cache import DocumentCache, path_of
from copydesk.store.notes.folder_index import Indexed, IndexedText, stamp_key, stem
from copydesk.store.notes.protocol import Around, Crumb, Heading, NoteBlock, Notebook
from copydesk.text.markdown import Block as Node
from copydesk.text.markdown import Tree, heading_of, section
from copydesk.text.markdown.block import decode
from copydesk.text.markdown.parser import leading_attributes, line_attributes
from copydesk.text.relpath import RelPath

_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\])")
_STRONG = re.compile(r"(\*{1,3}|~~|==)(?=\S)(.+?)(?<=\S)\1")
_UNDERLINED = re.compile(r"(?<!\w)(_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)")
_CODE = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)")
_HEADING = re.compile(r"\A {0,3}#{1,6}(?:[ \t]+|\Z)|[ \t]+#+[ \t]*\Z|\n *(?:=+|-+)[ \t]*\Z")
_MARK = re.compile(r"(?:\A|\s)\^[A-Za-z0-9-]+\s*\Z")

_NONE: Mapping[str, str] = MappingProxyType({})

_AT_ONCE = 100
"""Documents indexed in one transaction."""


Of = TypeVar("Of", bound="FolderReader")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def locked(
    method: Callable[Concatenate[Of, Arguments], Answer],
) -> Callable[Concatenate[Of, Arguments], Answer]:
    """A method that runs under the folder's lock."""

    @wraps(method)
    def alone(self: Of, /, *args: Arguments.args, **more: Arguments.kwargs) -> Answer:
        with self.lock:
            return method(self, *args, **more)

    return alone


class FolderReader:
    """The blocks of a folder. `box` is the notebook's id, `name` its name.

    Contracts stand at `NoteStore`. Safe to use from many threads.
    """

    def __init__(self, documents: DocumentCache, box: str, name: str) -> None:
        self._documents = documents
        self._box = box
        self._name = name
        self.lock = documents.lock
        documents.learn_anchors = self._update_index

    def notebooks(self) -> tuple[Notebook, ...]:
        return (Notebook(self._box, self._name),)

    @locked
    def blocks(self, ids: Sequence[str]) -> dict[str, NoteBlock]:
        places: dict[FolderDocument, list[str]] = {}
        wanted = list(dict.fromkeys(map(valid, ids)))
        for block_id in wanted:
            try:
                document = self._documents.find(block_id)
            except BlockNotFound:
                continue
            places.setdefault(document, []).append(block_id)
        made: dict[str, NoteBlock] = {}
        for document, there in places.items():
            made |= zip(there, self._blocks(document, map(document.block, there)), strict=True)
        return {block_id: made[block_id] for block_id in wanted if block_id in made}

    @locked
    def documents(self, box: str, most: int) -> tuple[NoteBlock, ...]:
        self._check_notebook(box)
        paths = sorted(self._documents.scan(), key=lambda path: (*path.parts[:-1], stem(path)))
        read = (self._documents.try_look(path) for path in paths)
        found = (self._block(one, one.tree.root) for one in read if one is not None)
        return tuple(islice(found, max(most, 0)))

    @locked
    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        document = self._documents.find(block_id)
        with undisturbed(len(document.data)):
            return tuple(self._blocks(document, _inside(document.block(block_id))))

    @locked
    def child_ids(self, block_id: str) -> tuple[str, ...]:
        document = self._documents.find(block_id)
        return tuple(map(document.name, _inside(document.block(block_id))))

    @locked
    def around(self, block_id: str) -> Around:
        document = self._documents.find(block_id)
        block = document.block(block_id)
        if block.parent is None:
            return Around("", "", "")
        before, after = block.previous, block.next
        return Around(
            document.name(block.parent),
            document.name(before) if before is not None else "",
            document.name(after) if after is not None else "",
        )

    @locked
    def outline(self, document_id: str) -> tuple[Heading, ...]:
        document = self._documents.find(document_id)
        block = document.block(document_id)
        if block.kind != DOCUMENT:
            raise WrongBlockKind(document_id, block.kind, "document")
        headings = [child for child in block.children if child.level]
        return _nested(document, headings)

    @locked
    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        document = self._documents.find(block_id)
        crumbs = [Crumb(self._box, "", self._name)]
        crumbs += [Crumb(one.id, DOCUMENT, _title(one)) for one in self._above(document)]
        crumbs.append(Crumb(document.id, DOCUMENT, _title(document)))
        way: list[Node] = []
        at = document.block(block_id)
        while at.parent is not None:
            way.append(at)
            heading = heading_of(at)
            while heading is not None:
                way.append(heading)
                heading = heading_of(heading)
            at = at.parent
        for node in reversed(way):
            name = content(document.tree, node) if node.level else ""
            crumbs.append(Crumb(document.name(node), node.kind, name))
        return tuple(crumbs)

    @locked
    def search(self, query: str, most: int) -> tuple[NoteBlock, ...]:
        words = [word.casefold() for word in query.split()]
        if not words:
            raise InvalidArgs("query", "has no words")
        self._update_index()
        found: list[NoteBlock] = []
        if most > 0:
            for path, at in self._documents.index.search(words):
                block = self._found(path_of(path), at, words)
                if block is not None:
                    found.append(block)
                    if len(found) >= most:
                        break
        return tuple(found)

    def _found(self, path: RelPath, at: int, words: Iterable[str]) -> NoteBlock | None:
        """The block at a position, if it has the words."""
        document = self._documents.try_look(path)
        if document is None or at >= len(document.order):
            return None
        block = self._block(document, document.order[at])
        there = _folded(block.content, block.markdown)
        return block if all(word in there for word in words) else None

    def _update_index(self) -> None:
        """Bring the index up to date."""
        documents = self._documents
        with documents.lock:
            now = documents.scan()
            known = documents.index.indexed()
            documents.index.forget(known.keys() - {str(path) for path in now})
            changed = [
                path
                for path, stamp in now.items()
                if (held := known.get(str(path))) is None
                or not held.settled
                or held.stamp != stamp_key(stamp)
            ]
            for start in range(0, len(changed), _AT_ONCE):
                part = changed[start : start + _AT_ONCE]
                documents.index.together(partial(self._take, part, known))

    def _take(self, paths: Sequence[RelPath], known: Mapping[str, Indexed]) -> None:
        for path in paths:
            before = known.get(str(path))
            found = self._documents.glance(path, before.digest if before is not None else "")
            if found is None:
                self._documents.index.forget([str(path)])
                continue
            stamp, digest, tree = found
            texts, anchors = None, list[str]()
            if tree is not None:
                with undisturbed(len(tree.data)):
                    texts = list(_texts(tree, title_of(tree) or stem(path)))
                anchors = [anchor for anchor in tree.anchors if is_id(anchor)]
            self._documents.index.index(str(path), stamp, digest, texts, anchors)

    def _check_notebook(self, box: str) -> None:
        """NotebookNotFound for another notebook than this one."""
        if valid(box) != self._box:
            raise NotebookNotFound(box)

    def _above(self, document: FolderDocument) -> list[FolderDocument]:
        """The ancestors of a document, from the top."""
        found: list[FolderDocument] = []
        path = self._documents.folder.parent(document.path)
        while path is not None:
            above = self._documents.look(path)
            if above is not None:
                found.append(above)
            path = self._documents.folder.parent(path)
        return found[::-1]

    def _hpath(self, document: FolderDocument) -> str:
        """The path of titles of a document; a folder without a document gives its name."""
        names = [_title(document)]
        root, at = self._documents.folder.root, document.path.parent
        path = document.path
        while at != root:
            above = self._documents.folder.parent(path)
            held = self._documents.try_look(above) if above is not None else None
            names.append(_title(held) if held is not None else at.name)
            path, at = above or at, at.parent
        return "/" + "/".join(reversed(names))

    def _block(self, document: FolderDocument, node: Node) -> NoteBlock:
        return next(iter(self._blocks(document, (node,))))

    def _blocks(self, document: FolderDocument, nodes: Iterable[Node]) -> Iterator[NoteBlock]:
        """Blocks of one document."""
        tree, number, rows = document.tree, document.number, document.rows
        path, hpath = str(document.path), self._hpath(document)
        for node in nodes:
            block_id = rows[number[node]].id
            attributes = _attributes(tree, node)
            if node.parent is None:
                text, source = _title(document), ""
                seconds = document.stamp.mtime_ns // 1_000_000_000
                updated = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds))
            else:
                source = markdown(tree, node)
                text = _read(source, node)
                updated = attributes.pop("updated", "") if attributes else ""
            yield NoteBlock(
                id=block_id,
                kind=node.kind,
                subtype=node.subtype,
                markdown=source,
                content=text,
                parent_id=document.name(node.parent) if node.parent is not None else "",
                root_id=document.id,
                box=self._box,
                path=path,
                hpath=hpath,
                attributes=MappingProxyType(attributes) if attributes else _NONE,
                created=block_id[:14],
                updated=updated,
            )


def _inside(block: Node) -> Sequence[Node]:
    """The children of a container, or the section of a heading."""
    return section(block) if block.level else tuple(shown(block))


def _title(document: FolderDocument) -> str:
    return document.title or stem(document.path)


def content(tree: Tree, node: Node) -> str:
    """The text of a block without the signs of Markdown."""
    return _read(markdown(tree, node), node)


def _read(text: str, node: Node) -> str:
    if node.kind in ("c", "m", "html"):
        return text
    if node.level:
        text = _HEADING.sub("", text)
    if "^" in text:
        text = _MARK.sub("", text)
    if "`" in text:
        text = _CODE.sub(r"\2", text)
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "~~" in text or "==" in text:
        text = _STRONG.sub(r"\2", _STRONG.sub(r"\2", text))  # one within another
    if "_" in text:
        text = _UNDERLINED.sub(r"\2", text)
    return html.unescape(text) if "&" in text else text


def _nested(document: FolderDocument, headings: Sequence[Node]) -> tuple[Heading, ...]:
    """Headings, each with those of a lower level that follow it."""
    made: list[Heading] = []
    at = 0
    while at < len(headings):
        first, stop = headings[at], at + 1
        while stop < len(headings) and headings[stop].level > first.level:
            stop += 1
        text = content(document.tree, first)
        below = _nested(document, headings[at + 1 : stop])
        made.append(Heading(document.name(first), text, first.subtype, below))
        at = stop
    return tuple(made)


def _attributes(tree: Tree, node: Node) -> dict[str, str]:
    """The attributes for readers, and `updated`; a name that is no id is an alias."""
    found: dict[str, str] = {}
    if node.attributes is None and not node.anchor:
        return found
    if node.attributes is not None:
        source = tree.data[node.attributes[0] : node.attributes[1]].strip()
        for name, value in leading_attributes(source) or line_attributes(source):
            key = decode(name)
            if key in ("name", "alias", "memo", "bookmark", "updated") or key.startswith("custom-"):
                text = value.decode("utf-8", "backslashreplace")
                found[key] = html.unescape(text.replace("_esc_newline_", "\n"))
    if node.anchor and not is_id(node.anchor):
        found.setdefault("alias", node.anchor)
    return found


def _texts(tree: Tree, title: str) -> Iterator[IndexedText]:
    """The searchable texts of a document."""
    for at, (_, node) in enumerate(in_order(tree.root)):
        if node.kind == DOCUMENT:
            yield IndexedText(at, 0, len(title), _folded(title, ""))
        elif not node.holds_blocks and node.stop > node.start:
            source = markdown(tree, node)
            text = _read(source, node)
            yield IndexedText(at, 0 if node.level else 1, len(text), _folded(text, source))


def _folded(text: str, source: str) -> str:
    """The text that words are searched in."""
    both = text if source == text else f"{text}\n{source}"
    return both.casefold().replace("\0", " ")
