"""The blocks of a document in a folder: their texts, fingerprints, ids, and checks of new text.

Invariant: their markup is taken off in time linear in the length of a text, as no search looks at
the same characters again and again. Of each closing mark the next one is remembered, and of each
length of backticks all runs: an opening mark never closed costs one look.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, product, takewhile
from operator import eq
from typing import NamedTuple

from copydesk.errors import InvalidArgs
from copydesk.notes.markdown import Block, Profile, Tree, is_phantom, parse
from copydesk.notes.markdown.block import (
    DOCUMENT,
    HOLDS,
    ITEM,
    MATTER,
    PARAGRAPH,
    decode,
    encode,
)
from copydesk.notes.markdown.parser import leading_attributes, line_attributes
from copydesk.notes.markdown.tree import line_start, parse_new
from copydesk.notes.protocol import (
    BlockText,
    check_characters,
    is_id,
    raw_markdown,
    split_tree,
)
from copydesk.store.protocol import Stamp
from copydesk.text import sizes
from copydesk.text.diff import align
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import computed_once

_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Signs of scripts without blanks between words: of China and Japan, of Thailand and beside it."""

_LOOKED_AT = 600
"""How many characters at the start of a block its sketch covers."""

_KEPT = 8
"""Numbers in a sketch, four hexadecimal digits each."""

_TRIGRAM = 0x8000
"""Added to the number of a trigram, so that it comes after those of words."""


class Fingerprint(NamedTuple):
    """Fingerprint of a block, used to re-identify it after external edits.

    `id` is empty for a block that has none yet. `hash` is that of the block's text; a container
    hashes its contents, and a document has none. `sketch` measures the similarity of texts.
    `anchor` is the name that the text itself gives to the block, or empty.
    """

    depth: int
    id: str
    kind: str
    hash: str
    sketch: str
    anchor: str = ""

    def with_id(self, block_id: str) -> Fingerprint:
        """The same fingerprint with another id."""
        return Fingerprint(self.depth, block_id, self.kind, self.hash, self.sketch, self.anchor)


def in_time(
    size: int, late: Exception, check: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """A check for parsing `size` bytes; raises `late` when that has taken too long.

    Too long is a second of CPU time for each `sizes.PARSED` bytes. It calls `check`, too.
    """
    until = time.thread_time() + 1 + size // sizes.PARSED

    def go_on() -> None:
        check()
        if time.thread_time() > until:
            raise late

    return go_on


def read(
    data: bytes,
    profile: Profile,
    newline: bytes | None = None,
    *,
    part: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Tree:
    """Parse a text (a `part` needs its document's `newline`); empty ones get an empty paragraph.

    Raises as `parse` does.
    """
    tree = parse(data, profile, part=part, check=check)
    tree = replace(tree, newline=newline or tree.newline)
    for block in tree.root.walk():
        if block.kind == ITEM and not block.children:
            block.children = (_nothing(block, block.stop),)
    if not shown(tree.root):
        root = tree.root
        end = root.children[-1].stop if root.children else root.start
        root.children = (*root.children, _nothing(root, end))
    return tree


def _nothing(parent: Block, at: int) -> Block:
    block = Block(PARAGRAPH, at, 0, at, at)
    block.parent, block.index = parent, len(parent.children)
    return block


def shown(block: Block) -> list[Block]:
    """The children that count as blocks: all but front matter."""
    return [child for child in block.children if child.kind != MATTER]


def in_order(block: Block, depth: int = 0) -> list[tuple[int, Block]]:
    """A block and its descendants with their depths, parents first, without front matter."""
    blocks: list[tuple[int, Block]] = []
    waiting = [(depth, block)]
    while waiting:
        depth, each = waiting.pop()
        blocks.append((depth, each))
        if each.children:
            waiting += [(depth + 1, child) for child in reversed(each.children)]
    return [(depth, each) for depth, each in blocks if each.kind != MATTER]


def markdown(tree: Tree, block: Block) -> str:
    """The text of a block as it is read; a byte that is not UTF-8 is shown as `\\xNN`."""
    return shown_text(raw_markdown(tree, block))


def content(tree: Tree, block: Block) -> str:
    """The text of a block without Markdown markup."""
    return read_text(markdown(tree, block), block)


_HEADING = re.compile(
    r"\A {0,3}#{1,6}(?:[ \t]+|\Z)|(?<![ \t])[ \t]++#++[ \t]*+\Z|\n *+(?:=++|-++)[ \t]*+\Z"
)
_MARK = re.compile(r"(?:\A|\s)\^[A-Za-z0-9-]++\s*+\Z")
_LINK = re.compile(r"!?\[([^\[\]]*+)\](?:\([^()\s]*+(?:\s++\"[^\"]*+\")?\)|\[[^\[\]]*+\])")
_BACKTICKS = re.compile(r"`+")
_INK = re.compile(r"\S").match

_STRONG = re.compile(r"[*~=]")
_STRONG_ENDS = {
    mark: re.compile(rf"(?<=\S){re.escape(mark)}") for mark in ("***", "**", "*", "~~", "==")
}
_UNDERLINED = re.compile(r"(?<!\w)_")
_UNDERLINED_ENDS = {mark: re.compile(rf"(?<=\S){mark}(?!\w)") for mark in ("___", "__", "_")}

_ZEROS = re.compile(r"&#0+(?=[0-9])")
_NUMBER = re.compile(r"&#[0-9]{8,}+;?")
"""The number of no character; `html.unescape` cannot read one of thousands of digits."""


def plain_text(text: str, is_heading: bool) -> str:
    """The text of a block without the marks of headings, names, code, links and emphasis."""
    if is_heading:
        text = _HEADING.sub("", text)
    if "^" in text:
        text = _MARK.sub("", text)
    if "`" in text:
        text = "\n".join(map(_without_backticks, text.split("\n")))
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "~~" in text or "==" in text:
        for _ in range(2):  # nested emphasis
            text = _unwrapped(text, _STRONG, _STRONG_ENDS)
    if "_" in text:
        text = _unwrapped(text, _UNDERLINED, _UNDERLINED_ENDS)
    return unescaped(text)


def unescaped(text: str) -> str:
    """The text with the characters that its HTML entities stand for, however long one is."""
    if "&" not in text:
        return text
    return html.unescape(_NUMBER.sub("\ufffd", _ZEROS.sub("&#", text)))


def _without_backticks(line: str) -> str:
    """The line without the backticks around code; as many as open it close it.

    A run that is closed by none of its own length opens with as many of its backticks as it can.
    """
    runs = [run.span() for run in _BACKTICKS.finditer(line)]
    ends: dict[int, list[int]] = {}  # by length, where runs start, the next one last
    for start, stop in reversed(runs):
        ends.setdefault(stop - start, []).append(start)
    pieces, at = list[str](), 0
    for start, stop in runs:
        for size in range(stop - start, 0, -1) if start >= at else ():
            later = ends.get(size, [])
            while later and later[-1] <= start:
                later.pop()
            if later:
                pieces += (line[at:start], line[start + size : later[-1]])
                at = later[-1] + size
                break
    return "".join((*pieces, line[at:]))


def _unwrapped(text: str, opens: re.Pattern[str], ends: Mapping[str, re.Pattern[str]]) -> str:
    """The text without pairs of marks, each closed by the next of its `ends` on the line.

    Of several signs as many open as are closed: `ends` are tried in order.
    """
    return "\n".join(
        _unwrapped_line(line, opens, ends) if opens.search(line) else line
        for line in text.split("\n")
    )


def _unwrapped_line(line: str, opens: re.Pattern[str], ends: Mapping[str, re.Pattern[str]]) -> str:
    pieces, at = list[str](), 0
    nearest: dict[str, int] = {}  # where each mark closes next; after the line if it does not
    for opening in opens.finditer(line):
        start = opening.start()
        for mark, end in ends.items() if start >= at else ():
            inside = start + len(mark)
            if not line.startswith(mark, start) or _INK(line, inside) is None:
                continue
            if nearest.get(mark, 0) <= inside:  # there is a character between the marks
                closes = end.search(line, inside + 1)
                nearest[mark] = closes.start() if closes is not None else len(line) + 1
            if nearest[mark] <= len(line):
                pieces += (line[at:start], line[inside : nearest[mark]])
                at = nearest[mark] + len(mark)
                break
    return "".join((*pieces, line[at:]))


def read_text(source: str, block: Block) -> str:
    """The text of a block as a person reads it, from its Markdown."""
    return source if block.kind in ("c", "m", "html") else plain_text(source, bool(block.level))


def shown_text(text: str) -> str:
    """The text for display: a byte that is not UTF-8 is spelled out."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_TITLE = re.compile(
    rb"""^title:[ \t]+(?:("(?:[^"\\\n]|\\.)*")|'((?:[^'\n]|'')*)'"""
    rb"""|([^\s"'#\[{&*!|>%@`](?>(?:[^\n#]|(?<![ \t])#)*)))[ \t]*+(?:(?<=[ \t])#.*+)?\r?$""",
    re.MULTILINE,
)


def title_of(tree: Tree) -> str:
    """The title in the front matter, or empty. The YAML is not parsed."""
    matter = (tree.source(block) for block in tree.root.children[:1] if block.kind == MATTER)
    title_line = _TITLE.search(next(matter, b""))
    if title_line is None:
        return ""
    double, single, bare = (part.decode("utf-8", "replace") for part in title_line.groups(b""))
    title = double[1:-1] or single.replace("''", "'") or bare
    with suppress(ValueError):
        title = str(json.loads(double))
    return " ".join(title.split())


def block_attributes(tree: Tree, node: Block) -> dict[str, str]:
    """The attributes to show, and `updated`; an anchor that is not an id counts as an alias."""
    attributes: dict[str, str] = {}
    if node.attributes is not None:
        source = tree.data[slice(*node.attributes)].strip()
        pairs = leading_attributes(source) or line_attributes(source)
        texts = {decode(name): value.decode("utf-8", "backslashreplace") for name, value in pairs}
        attributes = {
            name: unescaped(text.replace("_esc_newline_", "\n"))
            for name, text in texts.items()
            if name in ("name", "alias", "memo", "bookmark", "updated")
            or name.startswith("custom-")
        }
    if node.anchor and not is_id(node.anchor):
        attributes.setdefault("alias", node.anchor)
    return attributes


def fingerprints(tree: Tree, top: Block, depth: int = 0) -> list[Fingerprint]:
    """The fingerprints of a block, at a depth, and its descendants, parents first, without ids."""
    rows: list[Fingerprint] = []
    for at, block in in_order(top, depth):
        hash_, sketch = "", ""
        if block.kind not in HOLDS:
            text = raw_markdown(tree, block)
            hash_, sketch = _hash(text.encode("utf-8", "surrogateescape")), sketch_of(text)
        rows.append(Fingerprint(at, "", block.kind, hash_, sketch, block.anchor or ""))
    return holding(rows) if top.kind in HOLDS else rows


def holding(rows: Sequence[Fingerprint]) -> list[Fingerprint]:
    """The rows with each container but a document known by what is in it now."""
    renewed: list[Fingerprint] = []  # the last first
    below: dict[int, list[Fingerprint]] = {}  # by depth, the children of the parent that comes next
    for row in reversed(rows):
        children = below.pop(row.depth + 1, [])
        if row.kind in HOLDS and row.kind != DOCUMENT:
            inside = row.kind + " " + " ".join(child.hash for child in reversed(children))
            words = {word for child in children for word in _words(child.sketch)}
            row = row._replace(hash=_hash(inside.encode()), sketch="".join(sorted(words)[:_KEPT]))
        renewed.append(row)
        below.setdefault(row.depth, []).append(row)
    return renewed[::-1]


HASH_DIGITS = 12


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=HASH_DIGITS // 2).hexdigest()


def sketch_of(text: str) -> str:
    """A sketch to estimate similarity: the smallest hashes of the words of a text.

    Where words have no blanks between them, pairs of characters stand for them. Trigrams fill up
    the sketch of a short text, so that one word more or less never makes it another kind of sketch.
    """
    words = _WORD.findall(text[:_LOOKED_AT].casefold())
    numbers = _numbers(words if text.isascii() else chain.from_iterable(map(_terms, words)))
    if len(numbers) < _KEPT and words:
        whole = f" {' '.join(words)} "
        trigrams = _numbers(map("".join, zip(whole, whole[1:], whole[2:], strict=False)))
        numbers += [_TRIGRAM + number for number in trigrams]
    return "".join([f"{number:04x}" for number in numbers[:_KEPT]])


def _terms(word: str) -> Sequence[str]:
    if _UNSPACED.search(word) is None:
        return (word,)
    return [word[at : at + 2] for at in range(max(len(word) - 1, 1))]


def _numbers(terms: Iterable[str]) -> list[int]:
    """The smallest 15-bit hashes of these terms."""
    data = "\n".join(terms).encode("utf-8", "surrogatepass")  # one call for all of them
    hashes = map(zlib.crc32, data.split(b"\n") if data else ())
    return sorted({number % _TRIGRAM for number in hashes})[:_KEPT]


def _words(sketch: str) -> list[str]:
    return [sketch[at : at + 4] for at in range(0, len(sketch), 4)]


def likeness(left: str, right: str) -> float:
    """The similarity of two sketches, from 0 to 1."""
    mine, theirs = set(_words(left)), set(_words(right))
    least = sorted(mine | theirs)[:_KEPT]
    return sum(word in mine and word in theirs for word in least) / len(least) if least else 0.0


ENDINGS = (".md", ".markdown")


def stem(path: RelPath) -> str:
    """The name without its extension."""
    name, dot, ending = path.name.rpartition(".")
    return name if dot + ending.lower() in ENDINGS else path.name


_BLOCK_BYTES = 1_000
"""Estimated memory for a block and its row."""


@dataclass(eq=False)
class FolderDocument:
    """One version of a document. `stamp` may change while the text stays the same."""

    path: RelPath
    stamp: Stamp
    digest: str
    data: bytes
    tree: Tree
    rows: tuple[Fingerprint, ...]
    order: tuple[Block, ...]
    spent: bool = False
    """Whether the next version has taken over the blocks of this one."""

    @computed_once
    def weight(self) -> int:
        """Its approximate size in memory, in bytes."""
        return len(self.data) + _BLOCK_BYTES * len(self.rows)

    @property
    def id(self) -> str:
        """The id of the document itself."""
        return self.rows[0].id

    @computed_once
    def index(self) -> dict[str, int]:
        """The positions of blocks in document order, by id."""
        return {row.id: at for at, row in enumerate(self.rows)}

    @computed_once
    def number(self) -> dict[Block, int]:
        """The positions of blocks in document order."""
        return {block: at for at, block in enumerate(self.order)}

    @computed_once
    def title(self) -> str:
        """The title in the front matter; without one the name of the file."""
        return title_of(self.tree) or stem(self.path)

    def block(self, block_id: str) -> Block:
        return self.order[self.index[block_id]]

    def name(self, block: Block | None) -> str:
        """The id of a block; empty for none, and for front matter, which has no id."""
        at = self.number.get(block) if block is not None else None
        return "" if at is None else self.rows[at].id

    @computed_once
    def parses_in_windows(self) -> bool:
        """Whether some of its top-level blocks can be parsed without the others."""
        return self.tree.profile == "gfm" and not is_phantom(self.tree.root.children[-1])

    def place_of(self, at: int) -> tuple[int, int]:
        """The byte where the line of a top-level block starts, and its position in document order.

        Of front matter the position is that of the next one; both are the ends for one after all.
        """
        children = self.tree.root.children
        if at >= len(children):
            return len(self.data), len(self.rows)
        start = line_start(self.data, children[at].first) if at else 0
        return start, self.number.get(children[at], 1)


def shift_all(blocks: Iterable[Block], by: int) -> None:
    """Shift the positions of blocks by a number of bytes."""
    for block in blocks if by else ():
        block.start += by
        block.stop += by
        block.first += by
        block.mark += by if block.mark else 0
        if block.attributes is not None:
            block.attributes = (block.attributes[0] + by, block.attributes[1] + by)


def top(block: Block) -> Block:
    """The top-level block that contains a block, or the block itself."""
    while block.parent is not None and block.parent.parent is not None:
        block = block.parent
    return block


def pieces(markdown: str, profile: Profile) -> tuple[BlockText, ...]:
    """The blocks of a text; InvalidArgs(`markdown`) for a text that must not be written."""
    check_characters(markdown, "markdown")
    data = encode(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    late = InvalidArgs("markdown", "takes more than a second to parse; split it")
    tree = parse_new(data, profile, in_time(len(data), late))
    spans = (block.attributes for block in tree.root.walk() if block.attributes is not None)
    if not all(tree.data[start:stop].lstrip().startswith(b"^") for start, stop in spans):
        raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
    return split_tree(tree)


_LIKE = 0.5

_LIKE_IN_PLACE = 0.25

_COMPARED = 40_000
"""The most pairs of blocks to compare in one container."""

MOST_PAST = 1000


class Tombstone(NamedTuple):
    """A former text of an id. If the id is gone, `near` is the block that was next to it."""

    id: str
    kind: str
    hash: str
    near: str


def identify(
    old: Sequence[Fingerprint],
    new: Sequence[Fingerprint],
    past: Sequence[Tombstone],
    fresh: Callable[[int], str],
    taken: Callable[[str], bool],
) -> tuple[Fingerprint, ...]:
    """Give new blocks the ids of the old ones they match; `fresh` makes ids, `taken` tests one."""
    ids = _Matching(old, new).ids(past, taken)
    used = set(ids)  # with the empty one of a block that has none
    for at, block_id in enumerate(ids):
        if not block_id:
            while ids[at] in used:
                ids[at] = fresh(at)
            used.add(ids[at])
    return tuple(row.with_id(block_id) for row, block_id in zip(new, ids, strict=True))


def with_past(
    past: Sequence[Tombstone], old: Sequence[Fingerprint], new: Sequence[Fingerprint]
) -> tuple[Tombstone, ...]:
    """The tombstones, and one for each old row that is gone or changed; MOST_PAST at most."""
    start, old_stop, new_stop = differing(old, new)
    now = {row.id: row for row in new[start:new_stop]}
    gone: list[Tombstone] = []
    parents = _way_to(old, start)
    existing = set(parents)
    before = [*parents, ""]  # by depth, the last sibling that still exists
    for row in old[start:old_stop]:
        del parents[row.depth :], before[row.depth + 1 :]
        before += [""] * (row.depth + 1 - len(before))
        here, near = now.get(row.id), ""
        if here is None:
            above = (row_id for row_id in reversed(parents) if row_id in existing or row_id in now)
            near = before[row.depth] or next(above, "")
        else:
            before[row.depth] = row.id
        if here is None or (here.kind, here.hash) != (row.kind, row.hash):
            gone.append(Tombstone(row.id, row.kind, row.hash, near))
        parents.append(row.id)
    return (*past, *gone)[-MOST_PAST:] if gone else tuple(past)


def differing(old: Sequence[Fingerprint], new: Sequence[Fingerprint]) -> tuple[int, int, int]:
    """Where rows begin to differ, and where they are the same again, in the old and the new."""
    start = _alike(old, new)
    same = _alike(reversed(old[start:]), reversed(new[start:]))
    return start, len(old) - same, len(new) - same


def _alike(left: Iterable[Fingerprint], right: Iterable[Fingerprint]) -> int:
    """How many rows are the same before the first that differ."""
    return sum(takewhile(bool, map(eq, left, right)))


def _way_to(rows: Sequence[Fingerprint], at: int) -> list[str]:
    """The ids of the row before `at` and of all its parents, outermost first."""
    way: list[Fingerprint] = []
    for row in reversed(rows[:at]):
        if not way or row.depth < way[-1].depth:
            way.append(row)
    return [row.id for row in reversed(way)]


_OUTSIDE = -1
"""What is before the first child and after the last one, on both sides."""


class _Side:
    """Rows as a tree, by index; `twins` are the rows of the other side that are the same blocks.

    `children`, the siblings `before` and `after` (`_OUTSIDE`: none), and the `stops` of subtrees.
    The first row is that of the block that all others are in, at whatever depth.
    """

    def __init__(self, rows: Sequence[Fingerprint]) -> None:
        self.rows = rows
        self.children: list[list[int]] = [[] for _ in rows]
        self.before, self.after = [_OUTSIDE] * len(rows), [_OUTSIDE] * len(rows)
        self.stops = [len(rows)] * len(rows)
        self.twins = {_OUTSIDE: _OUTSIDE}
        path: list[int] = []
        for at, row in enumerate(rows):
            while len(path) > row.depth - rows[0].depth:
                self.stops[path.pop()] = at
            if path:
                siblings = self.children[path[-1]]
                if siblings:
                    self.before[at], self.after[siblings[-1]] = siblings[-1], at
                siblings.append(at)
            path.append(at)

    def key(self, at: int) -> tuple[str, str]:
        row = self.rows[at]
        return row.kind, row.hash

    def free(self, parent: int, *, containers: bool | None = None) -> list[int]:
        """The children without a twin; `containers`: only those, or only the others."""
        return [
            at
            for at in self.children[parent]
            if at not in self.twins and containers in (None, self.rows[at].kind in HOLDS)
        ]

    def leaves(self, at: int) -> set[str]:
        """The hashes of the texts inside a block."""
        return {row.hash for row in self.rows[at + 1 : self.stops[at]] if row.kind not in HOLDS}


class _Matching:
    """Which new block is which old one; a pair stays once it is made.

    Paired are blocks whose text has the name of an old one; in each pair of containers, from the
    document down, equal blocks in order, equal ones elsewhere in it, and containers that share
    texts; equal blocks anywhere. Then ids come back to their former texts, and texts are paired
    with similar ones in the same container.
    """

    def __init__(self, old: Sequence[Fingerprint], new: Sequence[Fingerprint]) -> None:
        self._old, self._new = _Side(old), _Side(new)
        self._pairs: list[tuple[int, int]] = []

    def ids(self, past: Sequence[Tombstone], taken: Callable[[str], bool]) -> list[str]:
        """The id of each new block; empty where one has to be generated."""
        if self._old.rows and self._new.rows:
            self._match()
        alive = {row.id for at, row in enumerate(self._old.rows) if at in self._old.twins}
        twins = [self._new.twins.get(at) for at in range(len(self._new.rows))]
        ids = [self._old.rows[twin].id if twin is not None else "" for twin in twins]
        lost: dict[tuple[str, str], list[str]] = defaultdict(list)
        for each in past:
            if each.id not in alive:
                lost[each.kind, each.hash].append(each.id)
        index = {row.id: at for at, row in enumerate(self._old.rows)}
        for at, row in enumerate(self._new.rows):
            if is_id(row.anchor) and row.anchor not in alive and not taken(row.anchor):
                ids[at] = row.anchor  # an anchor in the text wins
                alive.add(row.anchor)
            former = [] if ids[at] else lost.get((row.kind, row.hash), [])
            block_id = next((i for i in reversed(former) if i not in alive), "")
            if block_id:
                ids[at] = block_id
                alive.add(block_id)
                if block_id in index:
                    self._pair(index[block_id], at)
        self._like(ids, alive)
        return ids

    def _match(self) -> None:
        self._anchors()
        self._pair(0, 0)
        self._pairs.append((0, 0))
        for old, new in self._pairs:  # which grows
            self._equal(self._old.free(old), self._new.free(new))
            self._containers(old, new)
            for child in self._new.children[new]:
                twin = self._new.twins.get(child)
                if twin is not None and self._new.rows[child].kind in HOLDS:
                    self._pairs.append((twin, child))
        self._moved(range(len(self._old.rows)), range(len(self._new.rows)))

    def _pair(self, old: int, new: int) -> None:
        if old not in self._old.twins and new not in self._new.twins:
            self._old.twins[old], self._new.twins[new] = new, old

    def _whole(self, old: int, new: int) -> None:
        """Pair two equal blocks and their descendants."""
        size, other = self._old.stops[old] - old, self._new.stops[new] - new
        for offset in range(size if size == other else 1):
            self._pair(old + offset, new + offset)

    def _anchors(self) -> None:
        named = {
            name: at
            for at, row in reversed([*enumerate(self._old.rows)])  # the first of a name counts
            for name in (row.id, row.anchor)
            if name
        }
        for at, named_row in enumerate(self._new.rows):
            if named_row.anchor in named and (at == 0) == (named[named_row.anchor] == 0):
                self._pair(named[named_row.anchor], at)

    def _equal(self, old: list[int], new: list[int]) -> None:
        """Pair equal blocks of one container: first those in order, then those that moved."""
        for run in align([*map(self._old.key, old)], [*map(self._new.key, new)]).runs:
            for at in range(run.length):
                self._whole(old[run.base_start + at], new[run.now_start + at])
        self._moved(old, new)

    def _moved(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Pair equal blocks at any place, in order of appearance."""
        waiting: dict[tuple[str, str], list[int]] = defaultdict(list)
        for at in reversed(old):
            if at not in self._old.twins:
                waiting[self._old.key(at)].append(at)
        for at in new:
            if at not in self._new.twins and (free := waiting.get(self._new.key(at))):
                while free and free[-1] in self._old.twins:
                    free.pop()
                if free:
                    self._whole(free.pop(), at)

    def _containers(self, old: int, new: int) -> None:
        """Pair containers that share texts or are similar."""
        mine = {at: self._old.leaves(at) for at in self._old.free(old, containers=True)}
        theirs = {at: self._new.leaves(at) for at in self._new.free(new, containers=True)}

        def score(old_at: int, new_at: int) -> float:
            if self._old.rows[old_at].kind != self._new.rows[new_at].kind:
                return 0.0
            had, has = mine[old_at], theirs[new_at]
            return max(
                len(had & has) / (min(len(had), len(has)) or 1), self._likeness(old_at, new_at)
            )

        for old_at, new_at in self._likely(mine, theirs, score):
            self._pair(old_at, new_at)

    def _likely(
        self, mine: Collection[int], theirs: Collection[int], score: Callable[[int, int], float]
    ) -> list[tuple[int, int]]:
        """The pairs that are similar enough, most similar first."""
        pairs = product(mine, theirs) if len(mine) * len(theirs) <= _COMPARED else ()
        likely = [
            (-share, pair)
            for pair in pairs
            if (share := score(*pair)) >= (_LIKE_IN_PLACE if self._in_place(*pair) else _LIKE)
        ]
        return [pair for _, pair in sorted(likely)]

    def _likeness(self, old: int, new: int) -> float:
        return likeness(self._old.rows[old].sketch, self._new.rows[new].sketch)

    def _in_place(self, old_at: int, new_at: int) -> bool:
        """Whether two blocks have the same previous or the same next block."""
        old, new = self._old, self._new
        return (
            old.twins.get(old.before[old_at]) == new.before[new_at]
            or old.twins.get(old.after[old_at]) == new.after[new_at]
        )

    def _like(self, ids: list[str], alive: set[str]) -> None:
        """Pair texts with similar ones of the same container."""
        for old, new in self._pairs:
            mine = self._old.free(old, containers=False)
            theirs = [at for at in self._new.free(new, containers=False) if not ids[at]]
            for old_at, new_at in self._likely(mine, theirs, self._likeness):
                block_id = self._old.rows[old_at].id
                if old_at not in self._old.twins and not ids[new_at] and block_id not in alive:
                    self._pair(old_at, new_at)
                    ids[new_at] = block_id
                    alive.add(block_id)
