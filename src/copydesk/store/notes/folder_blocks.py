"""The blocks of a document in a folder: their fingerprints, ids, and what may be written there."""

from __future__ import annotations

import gc
import hashlib
import html
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from copydesk.errors import InvalidArgs
from copydesk.store.notes.protocol import (
    BlockText,
    check_characters,
    is_id,
    raw_markdown,
    split_tree,
)
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet
from copydesk.text.markdown import Block, Profile, Tree, is_phantom, parse
from copydesk.text.markdown.block import decode
from copydesk.text.markdown.parser import leading_attributes, line_attributes
from copydesk.text.markdown.tree import line_start
from copydesk.text.relpath import RelPath

DOCUMENT, MATTER, PARAGRAPH, ITEM = "d", "yaml", "p", "i"

_LARGE = 1 << 17
_WORD = re.compile(r"\w+")
_LOOKED_AT = 600
"""The characters of a block that its sketch is made of."""

_KEPT = 8
"""Words in a sketch, four hexadecimal digits each."""

_FEW = 6
"""The sketch of a text of fewer words is made of three characters each."""


class Fingerprint(NamedTuple):
    """Fingerprint of a block, used to re-identify it after external edits.

    `id` is empty for a block that has none yet. `hash` is of its text; of a container, of all
    that is in it; of a document empty. `sketch` tells how like two texts are. `anchor` is the
    name that the text itself gives it, or empty.
    """

    depth: int
    id: str
    kind: str
    hash: str
    sketch: str
    anchor: str = ""

    def row(self, block_id: str) -> Fingerprint:
        """The same fingerprint with another id."""
        return Fingerprint(self.depth, block_id, self.kind, self.hash, self.sketch, self.anchor)


def read(
    data: bytes, profile: Profile, newline: bytes | None = None, *, part: bool = False
) -> Tree:
    """Parse a text (a `part` has its document's `newline`); empty ones get an empty paragraph."""
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
    """Pause the garbage collector while a large text becomes many objects."""
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


def shown_text(text: str) -> str:
    """A text to show: a byte that is no UTF-8 is spelled out."""
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
    if not tree.root.children:
        return ""
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


_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n?|\n)"
    rb"(?:.*?(?:\r\n?|\n))??(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
).match


def head_of(data: bytes) -> bytes:
    """The front matter that a text begins with; empty without."""
    found = _HEAD(data)
    return found[0] if found is not None else b""


def block_attributes(tree: Tree, node: Block) -> dict[str, str]:
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


def fingerprints(tree: Tree, top: Block) -> list[Fingerprint]:
    """The fingerprints of a block and of all below it, parents first, without ids."""
    order = in_order(top)
    made: list[Fingerprint] = []
    below: list[list[Fingerprint]] = []  # of each depth, the children of the block in the making
    for depth, block in reversed(order):
        while len(below) < depth + 2:
            below.append([])
        children = below[depth + 1]
        anchor = block.anchor or ""
        if block.kind == DOCUMENT:
            made.append(Fingerprint(depth, "", block.kind, "", "", anchor))
        elif block.holds_blocks:
            inside = block.kind + " " + " ".join(child.hash for child in reversed(children))
            sketch = _least(word for child in children for word in _words(child.sketch))
            made.append(Fingerprint(depth, "", block.kind, _hash(inside.encode()), sketch, anchor))
        else:
            text = raw_markdown(tree, block)
            data = text.encode("utf-8", "surrogateescape")
            made.append(Fingerprint(depth, "", block.kind, _hash(data), sketch_of(text), anchor))
        below[depth + 1] = []
        below[depth].append(made[-1])
    made.reverse()
    return made


HASH_DIGITS = 12


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=HASH_DIGITS // 2).hexdigest()


def sketch_of(text: str) -> str:
    """A sketch of a text: the smallest hashes of its words, to estimate similarity."""
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
    """The similarity of two sketches, 0 to 1."""
    mine, theirs = set(_words(one)), set(_words(other))
    least = sorted(mine | theirs)[:_KEPT]
    return sum(word in mine and word in theirs for word in least) / len(least) if least else 0.0


SMALL = 1 << 15
"""A text of fewer bytes is always parsed as a whole."""


_BLOCK_BYTES = 1_000
"""Of memory, for a block and its row."""


@dataclass(eq=False)
class FolderDocument:
    """One version of a document. `stamp` may change, if the text is still the same."""

    path: RelPath
    stamp: Stamp
    digest: str
    data: bytes
    tree: Tree
    rows: tuple[Fingerprint, ...]
    order: tuple[Block, ...]
    spent: bool = False
    """Whether its blocks are those of the version after it by now."""

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return len(self.data) + _BLOCK_BYTES * len(self.rows)

    @property
    def id(self) -> str:
        """The id of the document itself."""
        return self.rows[0].id

    @cached_property
    def index(self) -> dict[str, int]:
        """The positions of blocks in document order, by id."""
        return {row.id: at for at, row in enumerate(self.rows)}

    @cached_property
    def number(self) -> dict[Block, int]:
        """The positions of blocks in document order."""
        return {block: at for at, block in enumerate(self.order)}

    @cached_property
    def title(self) -> str:
        """The title in the front matter; empty without one."""
        return title_of(self.tree)

    def block(self, block_id: str) -> Block:
        return self.order[self.index[block_id]]

    def name(self, block: Block) -> str:
        """The id of a block; empty for front matter, which has none."""
        at = self.number.get(block)
        return "" if at is None else self.rows[at].id

    @cached_property
    def chunks(self) -> Chunks:
        """The chunks that can be parsed by themselves."""
        return Chunks.of(self.tree, SMALL)


def moved(blocks: Iterable[Block], by: int) -> None:
    """Take blocks to another place of a text, so many bytes on."""
    if not by:
        return
    for block in blocks:
        block.start += by
        block.stop += by
        block.first += by
        if block.mark:
            block.mark += by
        if block.attributes is not None:
            start, stop = block.attributes
            block.attributes = (start + by, stop + by)


@dataclass(frozen=True, slots=True)
class Chunks:
    """A text in pieces, each of one top-level block and the blank lines behind it, or several.

    `starts` are the bytes where they start; `first` the index of the first block
    of each among the children of the document, and how many children there are.
    """

    starts: tuple[int, ...]
    first: tuple[int, ...]
    size: int

    @staticmethod
    def of(tree: Tree, small: int) -> Chunks:
        """The pieces of a text; one if it has fewer bytes than `small`, or is SiYuan's."""
        children = tree.root.children
        starts, first = [0], [0]
        if len(tree.data) >= small and tree.profile == "gfm":
            for at, block in enumerate(children[1:], 1):
                start = line_start(tree.data, block.first)
                if start > starts[-1] and not is_phantom(block):
                    starts.append(start)
                    first.append(at)
        return Chunks((*starts, len(tree.data)), (*first, len(children)), len(starts))

    def of_child(self, index: int) -> int:
        """The piece that holds a child of the document."""
        return bisect_right(self.first, index, hi=self.size) - 1


def top(block: Block) -> Block:
    """The top-level block that a block is, or is in."""
    while block.parent is not None and block.parent.parent is not None:
        block = block.parent
    return block


def plain_ids(rows: Sequence[Fingerprint]) -> tuple[str, ...]:
    """The ids of rows."""
    return tuple(row.id for row in rows)


def pieces(markdown: str, profile: Profile) -> tuple[BlockText, ...]:
    """The blocks of a text; InvalidArgs(`markdown`) for one that must not be written."""
    check_characters(markdown, "markdown")
    tree = parse(markdown.replace("\r\n", "\n").replace("\r", "\n"), profile, part=True)
    if any(_sets(tree, block) for block in tree.root.walk()):
        raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
    return split_tree(tree)


def _sets(tree: Tree, block: Block) -> bool:
    if block.attributes is None:
        return False
    start, stop = block.attributes
    return not tree.data[start:stop].lstrip().startswith(b"^")


def as_stored(old: str, new: str) -> str:
    """The new text with unchanged lines in their old bytes; others spell out what is no UTF-8."""
    shown = shown_text(old)
    if shown == old:
        return new
    real = dict(zip(shown.split("\n"), old.split("\n"), strict=True))
    return "\n".join(real.get(line, line) for line in new.replace("\r\n", "\n").split("\n"))


Names = Callable[[Block], str]


@dataclass(eq=False)
class ReparseWindow:
    """The chunks [low, high) of a document as changed so far.

    `start` is the byte of the document where they start; `change` is made to
    the bytes that stood there. `ids` of all blocks but front matter.
    """

    low: int
    high: int
    start: int
    tree: Tree
    change: ChangeSet
    ids: dict[Block, str]
    by_id: dict[str, Block]

    def name(self, block: Block) -> str:
        """The id of a block; empty for front matter."""
        return self.ids.get(block, "")

    def rows(self) -> list[Fingerprint]:
        """The rows of its blocks, without the document's."""
        made: list[Fingerprint] = []
        for child in self.tree.root.children:
            if child.kind != MATTER:
                made += self.rows_of(child)
        return made

    def rows_of(self, top: Block) -> list[Fingerprint]:
        """The rows of one block and those in it, of its depth in the document."""
        depth = sum(1 for _ in top.ancestors())
        names = (self.ids[block] for block in top.walk() if block.kind != MATTER)
        return [
            sign._replace(depth=sign.depth + depth).row(name)
            for sign, name in zip(fingerprints(self.tree, top), names, strict=True)
        ]


def same_blocks(
    old: Sequence[tuple[Block, Tree, Names]],
    new: Sequence[Block],
    tree: Tree,
    ids: dict[Block, str],
) -> bool:
    """Whether blocks are equal byte for byte; if so, the new ones get their ids in `ids`."""
    if len(old) != len(new):
        return False
    waiting = [(*each, other) for each, other in zip(old, new, strict=True)]
    while waiting:
        one, source, names, other = waiting.pop()
        if one.kind != other.kind or one.subtype != other.subtype:
            return False
        if len(one.children) != len(other.children):
            return False
        if one.children:
            waiting += [
                (child, source, names, twin)
                for child, twin in zip(one.children, other.children, strict=True)
            ]
        elif source.source(one) != tree.source(other):
            return False
        name = names(one)
        if name:
            ids[other] = name
    return True


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected effect of a change on the blocks in `parent`.

    From index `at` on `removed` are not there any more, and `added` new ones
    are. `kept` is the id that the first of these has, if it is not a new one.
    """

    parent: Block
    at: int
    removed: int
    added: int
    kept: str = ""


def carried(
    region: ReparseWindow, tree: Tree, expected: Expected, fresh: Callable[[Block], str]
) -> tuple[dict[Block, str], list[Block]] | None:
    """The ids after a change, and the added blocks; None if it did not do what was expected."""
    ids: dict[Block, str] = {}

    def same(old: Sequence[Block], new: Sequence[Block]) -> bool:
        return same_blocks([(block, region.tree, region.name) for block in old], new, tree, ids)

    way = [expected.parent, *expected.parent.ancestors()][::-1]
    other = tree.root
    for block, inner in zip(way, [*way[1:], None], strict=True):
        if block.kind != other.kind or block.subtype != other.subtype:
            return None
        ids[other] = region.ids[block]
        if inner is None:
            break
        at, old, new = inner.index, block.children, other.children
        if len(old) != len(new) or not same(old[:at], new[:at]):
            return None
        if not same(old[at + 1 :], new[at + 1 :]):
            return None
        other = new[at]
    old, new = expected.parent.children, other.children
    start, stop = expected.at, expected.at + expected.added
    if len(new) != len(old) - expected.removed + expected.added:
        return None
    if not same(old[:start], new[:start]) or not same(old[start + expected.removed :], new[stop:]):
        return None
    added = list(new[start:stop])
    for block in added:
        for inner in block.walk():
            if inner.kind != MATTER:
                ids[inner] = fresh(inner)
    if expected.kept:
        ids[added[0]] = expected.kept
    return ids, added
