"""The blocks of a Markdown text, and the nodes and lines they are parsed from.

Invariants: the spans of siblings are in order and do not overlap; children are within their parent;
a block never changes once it is made. A line of Markdown ends with LF, CRLF or a CR alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, cast

from copydesk.text.snapshot import computed_once

DOCUMENT, LIST, ITEM, QUOTE, SUPER, CALLOUT, NOTE = "d", "l", "i", "b", "s", "callout", "footnote"
PARAGRAPH, HEADING, CODE, MATH, TABLE, HTML, BREAK = "p", "h", "c", "m", "t", "html", "tb"
EMBED, IFRAME, WIDGET = "query_embed", "iframe", "widget"
VIDEO, AUDIO, VIEW = "video", "audio", "av"
CONFLICT, MATTER, DEFINITION = "", "yaml", "def"

ATTRIBUTES, AGAIN_PARSED = "attributes", "again"
"""A line of attributes, and the root of a text parsed again: nodes while parsing, never blocks."""

HOLDS = frozenset((DOCUMENT, AGAIN_PARSED, LIST, ITEM, QUOTE, SUPER, CALLOUT, NOTE))
"""The kinds that have children."""

_FRAMES = EMBED, IFRAME, WIDGET, VIDEO, AUDIO, VIEW
TEXT = frozenset((PARAGRAPH, CODE, HTML, MATH, TABLE, MATTER, CONFLICT, *_FRAMES))
"""The kinds that take lines as text."""


BOM = b"\xef\xbb\xbf"

AlwaysMatches = Callable[[bytes, int], re.Match[bytes]]
"""A pattern that matches from any byte on, if only the empty text."""

SPACES = cast(AlwaysMatches, re.compile(rb"[ \t]*").match)
"""Match the spaces and tabs from a byte on."""

BLANK = b" \t"
"""The characters of a blank line."""

TAB = 4
"""Tab stops are this many columns apart."""

_LINES = re.compile(rb"[^\r\n]*+(?:\r\n|\n|\r)|[^\r\n]+\Z").finditer


def cut(data: bytes, at: int = 0) -> tuple[list[bytes], list[int]]:
    """Split `data` from byte `at` into lines without terminators; return them and their starts."""
    returns = data.count(b"\r")
    if returns and not returns == data.count(b"\r\n") == data.count(b"\n"):
        found = list(_LINES(data, at))
        return [each[0].rstrip(b"\r\n") for each in found], [each.start() for each in found]
    end, width = (b"\r\n", 2) if returns else (b"\n", 1)
    lines = data[at:].split(end)
    if not lines[-1]:
        lines.pop()
    sizes = accumulate(map(len, lines[:-1]), initial=at)
    starts = [size + width * number for number, size in enumerate(sizes)]
    return lines, starts[: len(lines)]


def encode(text: str) -> bytes:
    """Encode a text; lone surrogates made by `decode` become the original bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Decode bytes; those that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def newline_of(data: bytes) -> bytes:
    """The terminator of most lines: CRLF, CR if there is no LF at all, else LF."""
    if b"\r" not in data:
        return b"\n"
    pairs, feeds = data.count(b"\r\n"), data.count(b"\n")
    if 2 * pairs > feeds:
        return b"\r\n"
    return b"\n" if feeds else b"\r"


Profile = Literal["gfm", "siyuan"]


class Block:
    """One block. Numbers are byte offsets in the text, unless they are called columns.

    `kind` and `subtype` are those of SiYuan: `d` document, `h` heading (`h1` to `h6`), `p`
    paragraph, `l` list and `i` item (`u`, `o`, `t`), `b` quote, `s` super block, `callout` (its
    name), `c` code, `m` mathematics, `t` table, `html`, `tb` break, `query_embed`, `iframe`,
    `widget`, `video`, `audio`, `av`, and `""` for a conflict of git. Only in the profile `gfm`:
    `yaml` front matter, `def` link reference definition, `footnote`.

    `start`, `stop`: its source, from its first character to its last, without the prefix of its
    first line, the line's indentation and the last terminator. A block without bytes (SiYuan makes
    some) has `start == stop`. `first`: where the content of its parent starts on its first line;
    `column`: the column of that, which inside a tab is not the tab's own. `index`: its 0-based
    place among its siblings. `attributes`: the span of its `{: ...}` or `^id`, after it, or in an
    item after the marker; None without. `anchor`: the id that the text gives it, or None. `indent`:
    columns from where the content of its parent starts to its start. `width`: for an item, columns
    from there to its content; else 0. `mark`: for a task, the byte after its `[ ]`; else 0.
    `closed`: False for code, math, HTML, a super block or a conflict whose end is missing. `loose`:
    whether it was parsed from a text that had lost its indentation.
    """

    __slots__ = (
        "anchor",
        "attributes",
        "children",
        "closed",
        "column",
        "first",
        "indent",
        "index",
        "kind",
        "loose",
        "mark",
        "parent",
        "start",
        "stop",
        "subtype",
        "width",
    )

    def __init__(self, kind: str, first: int, column: int, start: int, stop: int) -> None:
        self.kind, self.subtype = kind, ""
        self.start, self.stop = start, stop
        self.first, self.column = first, column
        self.parent: Block | None = None
        self.children: tuple[Block, ...] = ()
        self.attributes: tuple[int, int] | None = None
        self.anchor: str | None = None
        self.index = self.indent = self.width = self.mark = 0
        self.closed, self.loose = True, False

    def __repr__(self) -> str:
        name = f"{self.kind}/{self.subtype}" if self.subtype else self.kind
        return f"<{name} {self.start}:{self.stop}>"

    @property
    def end(self) -> int:
        """The byte after the block and its attributes."""
        return max(self.stop, self.attributes[1]) if self.attributes else self.stop

    @property
    def holds_blocks(self) -> bool:
        """Whether it is a container, which may have no children."""
        return self.kind in HOLDS

    @property
    def level(self) -> int:
        """1 to 6 for a heading, else 0."""
        return int(self.subtype[1]) if self.kind == HEADING else 0

    @property
    def next(self) -> Block | None:
        siblings = self.parent.children if self.parent is not None else ()
        return siblings[self.index + 1] if self.index + 1 < len(siblings) else None

    @property
    def previous(self) -> Block | None:
        return (
            self.parent.children[self.index - 1] if self.parent is not None and self.index else None
        )

    def walk(self) -> Iterator[Block]:
        """Yield it and all blocks below it, parents before children, in text order."""
        waiting: list[Block] = [self]
        while waiting:
            block = waiting.pop()
            yield block
            waiting += reversed(block.children)

    def ancestors(self) -> Iterator[Block]:
        """Yield its parent, the parent of that, and so on up to the document."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent


@dataclass(frozen=True)
class Tree:
    """A text and its blocks; `root` is the document. Make one with `parse`."""

    data: bytes
    profile: Profile
    root: Block
    newline: bytes
    """The terminator for new lines."""

    def source(self, block: Block) -> bytes:
        """The bytes of a block as they are, including the prefixes of its later lines."""
        return self.data[block.start : block.stop]

    @computed_once
    def anchors(self) -> dict[str, Block]:
        """The blocks that have an id in the text; the first block of each id."""
        found: dict[str, Block] = {}
        for block in self.root.walk():
            if block.anchor is not None:
                found.setdefault(block.anchor, block)
        return found


def section(heading: Block) -> tuple[Block, ...]:
    """The siblings under a heading, up to the next of its level or above; else empty."""
    if not heading.level or heading.parent is None:
        return ()
    siblings = heading.parent.children
    stop = heading.index + 1
    while stop < len(siblings) and not 0 < siblings[stop].level <= heading.level:
        stop += 1
    return siblings[heading.index + 1 : stop]


def heading_of(block: Block) -> Block | None:
    """The nearest heading, in the same container, in whose section the block is."""
    level = block.level or 7
    at = block.previous
    while at is not None and not 0 < at.level < level:
        at = at.previous
    return at


@dataclass(slots=True)
class Marker:
    """The marker of an item: its indentation, width and kind."""

    offset: int
    padding: int
    length: int
    """The columns of the marker itself, equal to its bytes."""
    sign: int
    """The bullet, or the delimiter after the number."""
    task: bool = False


_NO_NODES: list[Node] = []
"""What leaves share; nothing is ever appended to it."""


class Node(Block):
    """A block being parsed; once `settled` it is only a block.

    `holder`, `nodes`: the parent and the children so far. `pieces`: for a paragraph, start and stop
    of each line's text, alternately; None while that is the lines from `start` to `stop` as they
    are. `marker`: for a list, its first. `fence`: for fenced code, the signs that opened it. `run`:
    for super blocks directly in one another, all open ones. `sort`: for HTML, how it ends; for
    math, whether there was a `$$`. `within_item`: whether it is in an item, at any depth.
    """

    __slots__ = (
        "fence",
        "holder",
        "marker",
        "nodes",
        "open",
        "pieces",
        "run",
        "sort",
        "within_item",
    )

    def __init__(
        self, kind: str, holder: Node | None, first: int, column: int, start: int, stop: int
    ) -> None:
        super().__init__(kind, first, column, start, stop)
        self.open = True
        self.holder = holder
        self.nodes = _NO_NODES
        self.pieces: list[int] | None = None
        self.marker: Marker | None = None
        self.fence = b""
        self.run: list[Node] | None = None
        self.sort = 0
        self.within_item: bool = holder is not None and (holder.within_item or holder.kind == ITEM)

    def append(self, child: Node) -> None:
        if self.nodes:
            self.nodes.append(child)
        else:
            self.nodes = [child]

    def close_with(self, kind: str, start: int, stop: int) -> Node:
        """Append a child that is closed already, and take it in."""
        child = Node(kind, self, start, 0, start, stop)
        child.open = False
        self.append(child)
        self.stop = max(self.stop, stop)
        return child

    def settled(self) -> None:
        """Release what only parsing needs."""
        self.holder = self.pieces = self.marker = self.run = None
        self.nodes = _NO_NODES


def can_hold(parent: Node, kind: str) -> bool:
    """Whether a node of `kind` may become a child of `parent`."""
    return parent.kind in HOLDS and (parent.kind == LIST) == (kind == ITEM)


def column_after(text: bytes, column: int = 0) -> int:
    """The column after a text that starts at a column; tabs go to the next tab stop."""
    for byte in text:
        column += 1 if byte != 9 else TAB - column % TAB
    return column


class LineCursor:
    """A position in a line: `line` without terminator, `offset` in bytes, `column` in columns.

    `nonspace` is where the next character that is not a space is, `indent` how many columns before
    it there are; `blank` is true if there is none. If a tab is consumed in part (`partial`), the
    offset is still that of the tab.
    """

    def __init__(self) -> None:
        self.load(b"")

    def load(self, line: bytes) -> None:
        """Move to the start of another line."""
        self.line = line
        self.offset = self.column = self.indent = self.nonspace_column = 0
        self.nonspace = -1
        self.tabs = b"\t" in line
        self.blank = self.partial = False

    def peek(self) -> None:
        """Find the next character that is not a space, unless it is known already."""
        if self.offset > self.nonspace:
            self.nonspace = nonspace = SPACES(self.line, self.offset).end()
            self.blank = nonspace == len(self.line)
            if self.tabs:
                space = self.line[self.offset : nonspace]
                self.nonspace_column = column_after(space, self.column)
            else:
                self.nonspace_column = self.column + nonspace - self.offset
        self.indent = self.nonspace_column - self.column

    def to_nonspace(self) -> None:
        """Consume the indentation that `peek` found."""
        self.column = self.nonspace_column
        self.offset = self.nonspace
        self.partial = False

    def skip(self, count: int) -> None:
        """Consume `count` characters, none of them a tab."""
        self.offset += count
        self.column += count
        self.partial = False

    def skip_columns(self, count: int) -> None:
        """Consume spaces and tabs of `count` columns, or as many as the line has."""
        line, size = self.line, len(self.line)
        if not self.tabs:
            count = min(count, size - self.offset)
            self.offset += count
            self.column += count
            return
        while count and self.offset < size:
            if line[self.offset] != 9:
                self.partial = False
                self.offset += 1
                self.column += 1
                count -= 1
                continue
            width = TAB - self.column % TAB
            self.partial = width > count
            step = count if self.partial else width
            self.offset += not self.partial
            self.column += step
            count -= step

    def skip_one_blank(self) -> None:
        """Consume one column of space, if there is one."""
        if self.offset < len(self.line) and self.line[self.offset] in BLANK:
            self.skip_columns(1)
