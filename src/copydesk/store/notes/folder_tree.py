"""The blocks of one Markdown file as a store of notes shows them, and what each is known by.

What lives here: parsing with the paragraphs that stand for nothing, the text of
a block, `Row`. What must not: files, ids (they are given in). Invariants: front
matter is no block; a document or an item without blocks has one empty paragraph.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from copydesk.text.markdown import Block, Profile, Tree, markdown_of, parse

DOCUMENT, MATTER, PARAGRAPH, ITEM = "d", "yaml", "p", "i"

_LARGE = 1 << 17
_WORD = re.compile(r"\w+")
_LOOKED_AT = 600
"""A sketch is made of so many characters of a block."""

_KEPT = 8
"""Words in a sketch, four hexadecimal digits each."""

_FEW = 6
"""Of a text of fewer words the sketch is made of three characters each."""


class Row(NamedTuple):
    """What is remembered of a block: enough to know it again in another text.

    `hash` is of its text; of a container, of all that is in it; of a document
    empty. `sketch` tells how like two texts are. `anchor` is the name that the
    text itself gives it, or empty.
    """

    depth: int
    id: str
    kind: str
    hash: str
    sketch: str
    anchor: str


def read(
    data: bytes, profile: Profile, newline: bytes | None = None, *, part: bool = False
) -> Tree:
    """The blocks of a text, an empty paragraph where a document or an item has none.

    `newline` is the terminator of the document that the text is a `part` of.
    """
    tree = parse(data, profile, part=part)
    if newline is not None:
        tree = replace(tree, newline=newline)
    for block in tree.root.walk():
        if block.kind == ITEM and not block.children:
            block.children = (_nothing(block, block.stop),)
    if not any(True for _ in shown(tree.root)):
        root = tree.root
        root.children = (*root.children, _nothing(root, _end(root)))
    return tree


@contextmanager
def undisturbed(size: int) -> Generator[None]:
    """Hold the collector of cycles while a large text becomes a great many objects."""
    paused = size >= _LARGE and gc.isenabled()
    if paused:
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _end(root: Block) -> int:
    return root.children[-1].stop if root.children else root.start


def _nothing(parent: Block, at: int) -> Block:
    """A paragraph that no byte stands for."""
    block = Block()
    block.kind, block.subtype = PARAGRAPH, ""
    block.start = block.stop = block.first = at
    block.column = block.indent = block.width = block.mark = 0
    block.parent, block.index, block.children = parent, len(parent.children), ()
    block.attributes = block.anchor = None
    block.closed, block.loose = True, False
    return block


def shown(block: Block) -> Iterator[Block]:
    """The children that count as blocks."""
    return (child for child in block.children if child.kind != MATTER)


def in_order(block: Block) -> list[tuple[int, Block]]:
    """The block and all below it with their depths, each before its children."""
    found: list[tuple[int, Block]] = []
    waiting = [(0, block)]
    while waiting:
        depth, each = waiting.pop()
        found.append((depth, each))
        if each.children:
            waiting += [(depth + 1, child) for child in reversed(each.children)]
    return [(depth, each) for depth, each in found if each.kind != MATTER]


def markdown(tree: Tree, block: Block) -> str:
    """The text of a block as it is read; a byte that is no UTF-8 is shown as `\\xNN`."""
    return shown_text(raw_markdown(tree, block))


def raw_markdown(tree: Tree, block: Block) -> str:
    """The same with a lone surrogate for such a byte."""
    whole = block.parent is tree.root and not block.indent and not block.children
    if whole and (block.attributes is None or block.attributes[0] >= block.stop):
        source = tree.data[block.start : block.stop]
        if b"\r" not in source and b"\t" not in source[:1]:
            return source.decode("utf-8", "surrogateescape")
    return markdown_of(tree, block)


def shown_text(text: str) -> str:
    """A text for reading: what is no character is spelled out."""
    if text.isascii():
        return text
    data = text.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "backslashreplace")


_TITLE = re.compile(
    rb"""^title:[ \t]+(?:("(?:[^"\\\n]|\\.)*")|'((?:[^'\n]|'')*)'|([^\s"'#\[{&*!|>%@`][^\n]*?))"""
    rb"""[ \t]*(?:[ \t]#.*)?\r?$""",
    re.MULTILINE,
)


def title_of(tree: Tree) -> str:
    """The title that front matter gives a document; empty without. YAML is not parsed."""
    first = tree.root.children[0]
    found = _TITLE.search(tree.source(first)) if first.kind == MATTER else None
    if found is None:
        return ""
    double, single, bare = (part.decode("utf-8", "replace") for part in found.groups(b""))
    title = single.replace("''", "'") or bare
    if double:
        try:
            title = str(json.loads(double))
        except ValueError:
            title = double[1:-1]
    return " ".join(title.split())


class Signs(NamedTuple):
    """What a block is known by, without an id."""

    depth: int
    kind: str
    hash: str
    sketch: str
    anchor: str

    def row(self, block_id: str) -> Row:
        """With its id."""
        return Row(self.depth, block_id, self.kind, self.hash, self.sketch, self.anchor)


def signs(tree: Tree, top: Block) -> list[Signs]:
    """What a block and those below it are known by, each before its children."""
    order = in_order(top)
    made: list[Signs] = []
    below: list[list[Signs]] = []  # of each depth, the children of the block in the making
    for depth, block in reversed(order):
        while len(below) < depth + 2:
            below.append([])
        children = below[depth + 1]
        anchor = block.anchor or ""
        if block.kind == DOCUMENT:
            made.append(Signs(depth, block.kind, "", "", anchor))
        elif block.holds_blocks:
            inside = block.kind + " " + " ".join(child.hash for child in reversed(children))
            sketch = _least(word for child in children for word in _words(child.sketch))
            made.append(Signs(depth, block.kind, _hash(inside.encode()), sketch, anchor))
        else:
            text = raw_markdown(tree, block)
            data = text.encode("utf-8", "surrogateescape")
            made.append(Signs(depth, block.kind, _hash(data), sketch_of(text), anchor))
        below[depth + 1] = []
        below[depth].append(made[-1])
    made.reverse()
    return made


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def sketch_of(text: str) -> str:
    """What is compared to tell how like two texts are."""
    part = text[:_LOOKED_AT].casefold()
    words = _WORD.findall(part)
    if len(words) < _FEW:
        whole = f" {' '.join(words)} "
        words = [whole[at : at + 3] for at in range(len(whole) - 2)]
    data = "\n".join(words).encode("utf-8", "surrogatepass")
    numbers = {zlib.crc32(word) & 0xFFFF for word in data.split(b"\n")} if words else set[int]()
    return "".join(f"{number:04x}" for number in sorted(numbers)[:_KEPT])


def _least(words: Iterator[str]) -> str:
    return "".join(sorted(set(words))[:_KEPT])


def _words(sketch: str) -> list[str]:
    return [sketch[at : at + 4] for at in range(0, len(sketch), 4)]


def likeness(one: str, other: str) -> float:
    """From 0 to 1, how much of two sketches is the same."""
    mine, theirs = set(_words(one)), set(_words(other))
    least = sorted(mine | theirs)[:_KEPT]
    return sum(word in mine and word in theirs for word in least) / len(least) if least else 0.0
