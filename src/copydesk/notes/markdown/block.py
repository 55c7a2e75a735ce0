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

TEXT = frozenset(
    (
        *(PARAGRAPH, CODE, HTML, MATH, TABLE, MATTER, CONFLICT),
        *(EMBED, IFRAME, WIDGET, VIDEO, AUDIO, VIEW),
    )
)
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

_LINES = re.compile(rb"(?!\Z)([^\r\n]*+)(?:\r\n|[\r\n]|\Z)").finditer


def cut(data: bytes, at: int = 0) -> tuple[list[bytes], list[int]]:
    """Split `data` from byte `at` into lines without terminators; return them and their starts."""
    returns = data.count(b"\r")
    if returns and not returns == data.count(b"\r\n") == data.count(b"\n"):
        spans = [line.span(1) for line in _LINES(data, at)]
        return [data[start:stop] for start, stop in spans], [start for start, _ in spans]
    end, width = (b"\r\n", 2) if returns else (b"\n", 1)
    lines = data[at:].split(end)
    sizes = accumulate(map(len, lines), initial=at)
    starts = [size + width * number for number, size in enumerate(sizes)]
    if not lines[-1]:
        lines.pop()
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
    pairs, feeds = data.count(b"\r\n"), data.count(b"\n")
    if 2 * pairs > feeds:
        return b"\r\n"
    return b"\n" if feeds or b"\r" not in data else b"\r"


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
        named = [(block.anchor, block) for block in self.root.walk() if block.anchor is not None]
        return dict(reversed(named))


def section(heading: Block) -> tuple[Block, ...]:
    """The siblings under a heading, up to the next of its level or above; else empty."""
    if not heading.level or heading.parent is None:
        return ()
    behind = heading.parent.children[heading.index + 1 :]
    ends = (at for at, each in enumerate(behind) if 0 < each.level <= heading.level)
    return behind[: next(ends, None)]


def heading_of(block: Block) -> Block | None:
    """The nearest heading, in the same container, in whose section the block is."""
    level = block.level or 7
    at = block.previous
    while at is not None and not 0 < at.level < level:
        at = at.previous
    return at


_NO_NODES: list[Node] = []
"""What leaves share; nothing is ever appended to it."""


class Node(Block):
    """A block being parsed; once that is done it is only a block.

    `holder`, `nodes`: the parent, for the root itself, and the children so far. `pieces`: for a
    paragraph, start and stop of each line's text, alternately; None while that is the lines from
    `start` to `stop` as they are. `sign`: for what has fences, the one that opened it; for a list,
    the bullet or delimiter of its items, in SiYuan with a `t` for tasks. `run`: for super blocks
    directly in one another, all open ones. `sort`: for HTML in `gfm`, how it ends; for math,
    whether there was a `$$`. `within_item`: whether it is in an item, at any depth.
    """

    __slots__ = ("holder", "nodes", "open", "pieces", "run", "sign", "sort", "within_item")

    def __init__(
        self, kind: str, holder: Node | None, first: int, column: int, start: int, stop: int
    ) -> None:
        super().__init__(kind, first, column, start, stop)
        self.holder: Node = holder or self
        self.open, self.sign, self.sort = True, b"", 0
        self.nodes = self.run = _NO_NODES
        self.pieces: list[int] | None = None
        self.within_item: bool = holder is not None and (holder.within_item or holder.kind == ITEM)

    def append(self, child: Node) -> Node:
        self.nodes = self.nodes or []
        self.nodes.append(child)
        return child

    def close_with(self, kind: str, start: int, stop: int) -> Node:
        """Append a child that is closed already, and take it in."""
        child = self.append(Node(kind, self, start, 0, start, stop))
        child.open = False
        self.stop = max(self.stop, stop)
        return child


def column_after(text: bytes, column: int = 0) -> int:
    """The column after a text that starts at a column; tabs go to the next tab stop."""
    past = column % TAB  # columns behind the last tab stop
    return column - past + len((b" " * past + text).expandtabs(TAB))


class LineCursor:
    """A position in a line: `line` without terminator, `offset` in bytes, `column` in columns.

    `nonspace` is where the next character that is not a space is, `indent` how many columns before
    it there are; `blank` is true if there is none. If a tab is consumed in part (`partial`), the
    offset is still that of the tab.
    """

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
            self.nonspace_column = (
                column_after(self.line[self.offset : nonspace], self.column)
                if self.tabs
                else self.column + nonspace - self.offset
            )
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
            self.skip(min(count, size - self.offset))
            return
        while count and self.offset < size:
            width = TAB - self.column % TAB if line[self.offset] == 9 else 1
            self.partial = width > count
            step = min(count, width)
            self.offset += not self.partial
            self.column += step
            count -= step

    def skip_one_blank(self) -> None:
        """Consume one column of space, if there is one."""
        if self.offset < len(self.line) and self.line[self.offset] in BLANK:
            self.skip_columns(1)

    def skip_quote(self) -> bool:
        """Consume a `>` and the space after it; return whether there is one."""
        if self.blank or self.indent >= TAB or self.line[self.nonspace] != 62:
            return False
        self.to_nonspace()
        self.skip(1)
        self.skip_one_blank()
        return True
