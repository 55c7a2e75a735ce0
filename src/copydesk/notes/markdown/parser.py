"""The grammar that both profiles share: the line loop, containers, leaves, attributes.

Invariants: a line costs no more than its own length and the blocks it closes; nothing raises but
what the parser is given to look at the clock with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from copydesk.notes.markdown.block import (
    BREAK,
    CODE,
    HEADING,
    HOLDS,
    ITEM,
    LIST,
    MATH,
    NOTE,
    PARAGRAPH,
    QUOTE,
    SUPER,
    TABLE,
    TEXT,
    AlwaysMatches,
    LineCursor,
    Node,
    cut,
)

NO, INTO, LEAF = range(3)
"""The result of a block start: no match, a container, or a leaf."""

AGAIN, STAYS, TAKEN = range(3)
"""The effect of the next line on a block: ended before, continued, or last line."""

INDENTED = 4
"""From this indentation on, in columns, a line starts nothing but code."""

LOOKED_AT = 512
"""After so many lines, and so many blocks, a parser looks whether it may go on."""

_INTERRUPTED = (PARAGRAPH, TABLE)
"""Kinds of text that the start of another block interrupts."""

_PASSES_BLANK = frozenset((LIST, ITEM, NOTE))

Pattern = Callable[[bytes, int], re.Match[bytes] | None]
Rule = Callable[["Parser", Node], int]
Finish = Callable[["Parser", Node], None]
Markers = tuple[Pattern, Pattern]


@dataclass(frozen=True)
class BlockRules:
    """A profile: how blocks start (`starts`: by first byte, in order), continue and end.

    `starts` has the blanks too, which start nothing: a line whose first byte is not in it is text.
    `indented`: what starts at an indented line. `keeps_indentation`: whether text directly in the
    document keeps the indentation of its lines.
    """

    starts: Mapping[bytes, tuple[Rule, ...]]
    resume: Mapping[str, Rule]
    finish: Mapping[str, Finish]
    indented: tuple[Rule, ...] = ()
    keeps_indentation: bool = False


def by_byte(starts: Mapping[bytes, tuple[Rule, ...]]) -> dict[bytes, tuple[Rule, ...]]:
    """What starts at each of several bytes, by each of them."""
    return {bytes([sign]): tried for signs, tried in starts.items() for sign in signs}


class Parser(LineCursor):
    """Parses a text, or a paragraph again. The line starts at byte `at`; `tip` is the open node.

    `go_on` is called every so many lines and blocks, and raises to stop parsing. `depth`: how many
    times the text, as that of a task, was parsed before. `no_break`: a break character of the line,
    and where a thematic break of it fails.
    """

    def __init__(
        self,
        data: bytes,
        rules: BlockRules,
        root: Node,
        go_on: Callable[[], None],
        depth: int = 0,
    ) -> None:
        self.load(b"")
        self.data, self.rules, self.go_on, self.depth = data, rules, go_on, depth
        self.root = self.tip = self.oldtip = self.matched = root
        self.blocks = self.at = self.first = self.first_column = self.begin = 0
        self.no_break: tuple[int, int] = (0, 0)
        self._blank_from: Node | None = None
        self._blank_tip = self._blank_to = root

    def run(self, lines: Sequence[bytes], starts: Sequence[int]) -> None:
        """Parse all lines and close the open blocks."""
        root, special = self.root, self.rules.starts
        for number, (line, at) in enumerate(zip(lines, starts, strict=True)):
            if not number % LOOKED_AT:
                self.go_on()
            tip = self.tip
            text = tip.holder is root and tip.kind == PARAGRAPH
            # most lines are text, or blank, directly in the document: nothing is tried on them
            if not line and (text or tip is root):
                if text:
                    self.finish(tip)
            elif line[:1] in special:
                self.take(line, at)
            elif tip is root:
                self.tip = root.append(Node(PARAGRAPH, root, at, 0, at, at + len(line)))
            elif tip.holder is root and (
                (text and tip.pieces is None) or (tip.kind == CODE and tip.sign and line)
            ):
                tip.stop = at + len(line)
            else:
                self.take(line, at)
        while self.tip is not root:
            self.finish(self.tip)

    def take(self, line: bytes, at: int) -> None:
        """Process one line, which starts at byte `at`."""
        self.load(line)
        self.at, self.no_break, self.oldtip = at, (0, 0), self.tip
        container = self._descend()
        if container is None:
            return
        self.matched = container
        if container.kind in _INTERRUPTED or container.kind not in TEXT:
            container = self._start(container)
        if self.oldtip is not self.matched and self.tip.kind == PARAGRAPH and not self.blank:
            container = self.tip  # which continues, although the line lacks its prefix
        else:
            self.close_unmatched()
        if not self.blank and self.offset < len(self.line):
            self.add_text(container if container.kind in TEXT else self.add(PARAGRAPH))

    def _descend(self) -> Node | None:
        """Return the deepest open node that the line continues; None if the line is used up."""
        container = self.root
        seen: Node | None = None
        while container.nodes and container.nodes[-1].open:
            child = container.nodes[-1]
            self.peek()
            if self.blank and seen is None and child.kind in _PASSES_BLANK:
                if child is self._blank_from and self.oldtip is self._blank_tip:
                    self.to_nonspace()
                    return self._blank_to
                seen = child
            if child.kind == LIST:
                container = child  # a list ends only when something else is added to its container
                continue
            if child.kind == SUPER:
                child = child.run[-1]
            resume = self.rules.resume.get(child.kind)
            says = resume(self, child) if resume is not None else AGAIN
            if says == TAKEN:
                return None
            if says == AGAIN:
                break
            container = child
        if seen is not None:
            self._blank_from, self._blank_tip, self._blank_to = seen, self.oldtip, container
        return container

    def _start(self, container: Node) -> Node:
        """Start the blocks that begin on the line; return the node that gets the rest of it."""
        starts, indented = self.rules.starts, self.rules.indented
        while True:
            self.peek()
            self.first, self.first_column, self.begin = self.offset, self.column, self.nonspace
            sign = self.line[self.nonspace : self.nonspace + 1]
            for start in indented if self.indent >= INDENTED else starts.get(sign, ()):
                says = start(self, container)
                if says != NO:
                    break
            else:
                self.to_nonspace()
                return container
            container = self.tip
            if says == LEAF:
                return container

    def add(self, kind: str) -> Node:
        """Close what the line does not continue; add a node at the next character.

        It goes into the deepest open node that can hold it.
        """
        self.close_unmatched()
        self.blocks += 1
        if not self.blocks % LOOKED_AT:
            self.go_on()
        while self.tip.kind not in HOLDS or (self.tip.kind == LIST) != (kind == ITEM):
            self.finish(self.tip)
        tip, at, start = self.tip, self.at, self.at + self.begin
        self.tip = tip.append(Node(kind, tip, at + self.first, self.first_column, start, start))
        return self.tip

    def add_text(self, node: Node) -> None:
        """Add the rest of the line to a node that holds text."""
        line, at = self.line, self.at
        stop = at + len(line)
        if node.kind == PARAGRAPH:
            start = at + self.offset
            if node.start < 0:
                node.start = node.first = start
            if self.rules.keeps_indentation and node.holder is self.root:
                start = at
            if node.pieces is not None or node.stop > node.start or start != node.start:
                self.pieces_of(node).extend((start, stop))
        node.stop = stop

    def pieces_of(self, node: Node) -> list[int]:
        """Where the text of each line of a paragraph starts and stops, alternately."""
        if node.pieces is None:
            lines = zip(*cut(self.data[node.start : node.stop]), strict=True)
            node.pieces = [
                node.start + at for line, start in lines for at in (start, start + len(line))
            ]
        return node.pieces

    def text_of(self, node: Node) -> bytes:
        """The text of a paragraph: its lines without their prefixes, joined by LF."""
        pieces = iter(self.pieces_of(node))
        return b"\n".join(self.data[start:stop] for start, stop in zip(pieces, pieces, strict=True))

    def close_unmatched(self) -> None:
        """Close the blocks that the line does not continue."""
        while self.oldtip is not self.matched:
            self.finish(self.oldtip)
            self.oldtip = self.tip

    def end(self, node: Node, stop: int) -> int:
        """Finish a node whose end mark reaches up to this byte of the line, which is used up."""
        node.stop = self.at + stop
        node.closed = True
        self.offset = len(self.line)
        self.finish(node)
        return TAKEN

    def drop_text(self, node: Node, count: int) -> None:
        """Remove the first `count` bytes of a paragraph's text."""
        pieces = self.pieces_of(node)
        while len(pieces) > 2 and count > pieces[1] - pieces[0]:
            count -= pieces[1] - pieces[0] + 1
            del pieces[:2]
        node.start = node.first = pieces[0] = min(pieces[0] + count, pieces[1])
        node.column = 0
        node.stop = max(node.stop, node.start)

    def finish(self, node: Node) -> None:
        """Close a node; its parent becomes the tip."""
        node.open = False
        ends = self.rules.finish.get(node.kind)
        if ends is not None:
            ends(self, node)
        self.tip = node.holder
        if node.stop > self.tip.stop:
            self.tip.stop = node.stop


STRICT_MARKERS: Markers = (
    re.compile(rb"(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t]|\Z)").match,
    re.compile(rb"(?:[-+*]|0{0,8}1[.)])(?=[ \t]++[^ \t])").match,
)
"""The marker of an item, and one that interrupts a paragraph: if a number, 1, and not alone."""

LUTE_MARKERS: Markers = (
    re.compile(rb"(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t\v\f]|\Z)").match,
    re.compile(rb"(?:[-+*]|1[.)])(?=[ \t\v\f])").match,
)
"""Form feeds count as spaces; of numbers, only `1.` (not `01.`) interrupts a paragraph, but any
marker does that is followed only by spaces."""

_MOST_SPACES = 5
"""From this many columns after a marker, the item starts with indented code."""


def quote_start(parser: Parser, container: Node) -> int:
    """`>`, with the space after it, if there is one."""
    parser.skip_quote()
    parser.add(QUOTE).stop = parser.at + len(parser.line)
    return INTO


def quote_resume(parser: Parser, node: Node) -> int:
    """A quote continues on a line that starts with `>`."""
    if not parser.skip_quote():
        return AGAIN
    node.stop = parser.at + len(parser.line)
    return STAYS


def indented_resume(parser: Parser, node: Node) -> int:
    """An item or a footnote continues on lines that are indented as its content is.

    It continues over blank lines once it has any content.
    """
    width = node.width if node.kind == ITEM else INDENTED
    if parser.blank and node.nodes:
        parser.to_nonspace()
    elif parser.blank or parser.indent < width:
        return AGAIN
    else:
        parser.skip_columns(width)
    return STAYS


def read_marker(parser: Parser, container: Node, markers: Markers) -> tuple[bytes, int]:
    """Consume a list marker and the space that belongs to it; empty if there is none.

    Returns it, and the columns from where the content of the container starts to the item's.
    """
    marker = markers[container.kind == PARAGRAPH](parser.line, parser.nonspace)
    if marker is None:
        return b"", 0
    parser.to_nonspace()
    parser.skip(len(marker[0]))
    column, feeds = parser.column, parser.line[parser.offset : parser.offset + 1] in (b"\v", b"\f")
    parser.skip(feeds)
    parser.peek()
    if parser.blank or parser.nonspace_column - column >= _MOST_SPACES:
        parser.skip(-feeds)
        parser.nonspace = -1  # the peek went past what turns out to be text
        parser.skip_one_blank()
    else:
        parser.to_nonspace()
    return marker[0], max(parser.column, column + 1) - parser.first_column


def add_item(
    parser: Parser, container: Node, marker: bytes, width: int, *, task: bool = False
) -> Node:
    """Add an item with this marker, to the open list if the marker fits that."""
    parser.close_unmatched()
    sign = marker[-1:] + b"t" * task
    if not parser.tip.kind == container.kind == LIST or container.sign != sign:
        parser.add(LIST).sign = sign
    item = parser.add(ITEM)
    item.width, item.stop = width, item.start + len(marker)
    return item


_BREAKS = {sign: cast(AlwaysMatches, re.compile(rb"[ \t%c]*" % sign).match) for sign in b"*-_"}


def _heading(pattern: Pattern, parser: Parser, container: Node) -> int:
    signs = pattern(parser.line, parser.nonspace)
    if signs is None:
        return NO
    node = parser.add(HEADING)
    node.subtype = f"h{signs.end() - signs.start()}"
    return whole_line(parser, node)


heading_start: Rule = partial(_heading, re.compile(rb"#{1,6}(?![^ \t\v\f])").match)
"""One to six `#` and a space; Lute counts form feeds as spaces."""

strict_heading_start: Rule = partial(_heading, re.compile(rb"#{1,6}(?![^ \t])").match)
"""One to six `#` and a space, as in CommonMark."""


def break_start(parser: Parser, container: Node) -> int:
    """Three or more of one of `*`, `-`, `_`, spaced; remembers where none can be on the line."""
    line, at = parser.line, parser.nonspace
    sign = line[at]
    if parser.no_break[0] == sign and at < parser.no_break[1]:
        return NO
    end = _BREAKS[sign](line, at).end()
    if end < len(line):
        parser.no_break = (sign, end)
        return NO
    if line.count(sign, at) < 3:
        return NO
    return whole_line(parser, parser.add(BREAK))


def whole_line(parser: Parser, node: Node) -> int:
    """A leaf up to the end of the line."""
    parser.offset = len(parser.line)
    node.stop = parser.at + parser.offset
    return LEAF


def _fenced(kind: str, pattern: Pattern, parser: Parser, container: Node) -> int:
    fence = pattern(parser.line, parser.nonspace)
    if fence is None:
        return NO
    node = parser.add(kind)
    node.sign, node.closed = fence[0], False
    return LEAF


fence_start: Rule = partial(_fenced, CODE, re.compile(rb"`{3,}+(?=[^`]*+\Z)|~{3,}+").match)
"""Three or more backticks or tildes; no backtick in the info string after backticks."""

lute_fence_start: Rule = partial(
    _fenced, CODE, re.compile(rb"`{3,}+(?=[^`~]*+\Z)|~{3,}+(?=[^~]*+\Z)").match
)
"""Like `fence_start`, but allows no tilde in any info string either."""

math_start: Rule = partial(_fenced, MATH, re.compile(rb"\${2,}+(?=[ \t]*+\Z)").match)
"""Two or more `$` alone on a line."""


def fence_resume(parser: Parser, node: Node) -> int:
    """Code continues until a line with only its fence sign, at least as many as opened it."""
    line, at = parser.line, parser.nonspace
    if parser.blank or parser.indent >= INDENTED or not line.startswith(node.sign, at):
        return STAYS
    rest = line[at:].rstrip(b" \t\v\f")
    return STAYS if rest.strip(node.sign[:1]) else parser.end(node, at + len(rest))


def blank_ends(parser: Parser, node: Node) -> int:
    """The block continues until a blank line."""
    return AGAIN if parser.blank else STAYS


SPACE = b" \t\n\v\f\r"
"""Lute's white space."""

Pairs = list[tuple[bytes, bytes]]


def line_attributes(text: bytes) -> Pairs:
    """Parse a line that is only an attribute list; `text` has no terminator."""
    is_list = text.startswith(b"{:") and text.endswith(b"}") and len(text) >= 6
    return _pairs(text[2:-1].removeprefix(b"{:")) if is_list else []


def at_start(line: bytes, at: int) -> tuple[Pairs, int]:
    """Parse the attribute list at byte `at` of a line, as in `- {: id="..."}text`.

    Returns it, and the byte of the line after it, which is `at` if there is none.
    """
    stop = line.find(b"}", at) + 1
    pairs = leading_attributes(line[at:stop])
    return pairs, stop if pairs else at


def leading_attributes(text: bytes) -> Pairs:
    """Parse an attribute list at the start of `text`; other text may follow."""
    end = text.find(b"}") if text.startswith(b"{:") else 0
    return _pairs(text[2:end]) if end >= 5 else []


def bare_attributes(text: bytes) -> Pairs:
    """Parse attributes at the start of an item's first paragraph; braces are optional."""
    text = text.rstrip(b" \n").removeprefix(b"{:").removesuffix(b"}")
    return _pairs(text.replace(b"\n", b"_esc_newline_"))


def spelled(pairs: Pairs) -> bytes:
    """Write out an attribute list."""
    return b"{: " + b" ".join(name + b'="' + value + b'"' for name, value in pairs) + b"}"


_ATTRIBUTE = re.compile(
    rb"""[ \t\n\v\f\r]++ ([A-Za-z_:][A-Za-z0-9_.:-]*+)
    (?>(?: [ \t\n\v\f\r]*+ (=) [ \t\n\v\f\r]*+ (?>(
        " [^"]*+ " | ' [^']*+ '
        | [^ \t\n\v\f\r"'] [^ \t\n\v\f\r"'=<`>]++ (?: [ \t\n\v\f\r] | \Z | ((?=>)))
    )?) )?)""",
    re.VERBOSE,
).match
"""Lute eats the first character of a value without quotes, and the last one before `>`."""


def _pairs(text: bytes) -> Pairs:
    """Parse attributes one by one; one without a value counts as an empty name and value."""
    pairs: Pairs = []
    at = 0
    while (match := _ATTRIBUTE(text, at)) is not None:
        name, sign, value, closes = match.groups()
        if not sign:
            pairs.append((b"", b""))
        elif value is None:
            break  # malformed
        elif value[0] in b"\"'":
            pairs.append((name, value[1:-1]))
        else:
            bare = value.rstrip(SPACE)[1:]
            pairs.append((name, bare if closes is None else bare[:-1]))
        at = match.end()
    return pairs


_GAP = r"[ \t]*+(?:\n[ \t]*+)?"
_BARE = r"(?:\\[!-\xff]|[^\x00-\x20\x7f()])"
_balanced = rf"(?>{_BARE}*)"
for _ in range(32):  # so deep may the parentheses of a destination be nested
    _balanced = rf"(?>(?:{_BARE}|\({_balanced}\))*)"
DEFINED = re.compile(
    r"\[(?!\s*+\])(?>(?:[^\\\[\]]|\\.){1,999})\]:"
    rf"{_GAP}(?:<(?>(?:[^<>\n\\]|\\[^\n])*)>|(?!<)(?=[^\s)]){_balanced})"
    rf"(?:(?=[ \t\n]){_GAP}(?:\"(?>(?:[^\"\\]|\\.)*)\"|'(?>(?:[^'\\]|\\.)*)'"
    r"|\((?>(?:[^()\\]|\\.)*)\))"
    r"[ \t]*+(?:\n|\Z)|[ \t]*+(?:\n|\Z))".encode("latin-1"),
    re.DOTALL,
).match
"""One definition of a link, with its line end: label, destination, and a title or none."""


LAST_CLOSED = 5
"""HTML kinds up to this one have an end marker; the others end with a blank line."""

OPEN = 7
"""The HTML kind that does not interrupt a paragraph: a single tag alone on its line."""

_NAMES = (
    "address|article|aside|basefont|base|blockquote|body|caption|center|colgroup|col|dd|details"
    "|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frameset|frame|h[1-6]|header"
    "|head|hr|html|iframe|legend|link|li|main|menuitem|menu|nav|noframes|ol|optgroup|option"
    "|param|p|search|section|summary|table|tbody|td|tfoot|thead|th|title|track|tr|ul"
)
_START = tuple(
    re.compile(each, re.IGNORECASE).match
    for each in (
        rb"<(?:script|pre|style|textarea)(?:[ \t>]|\Z)",
        rb"<!--",
        rb"<\?",
        rb"<![A-Za-z]",
        rb"<!\[CDATA\[",
        b"</?(?:" + _NAMES.encode() + rb")(?:[ \t]|/?>|\Z)",
    )
)
_TAG = re.compile(
    rb"""(?:<[A-Za-z][A-Za-z0-9-]*+
    (?>(?:[ \t]++[A-Za-z_:][A-Za-z0-9_.:-]*+
       (?>(?:[ \t]*+=[ \t]*+(?:[^ \t"'=<>`]++|'[^']*+'|"[^"]*+"))?))*)
    [ \t]*+/?> | </[A-Za-z][A-Za-z0-9-]*+[ \t]*+>)[ \t]*+\Z""",
    re.VERBOSE,
).match
HTML_ENDS = tuple(
    re.compile(each, re.IGNORECASE).search
    for each in (rb"</(?:script|pre|style|textarea)>", rb"-->", rb"\?>", rb">", rb"\]\]>")
)
"""The end markers of the first kinds."""


def html_kind(line: bytes, at: int, in_paragraph: bool) -> int:
    """The number of the start condition that the line meets at byte `at`; 0 for none."""
    for kind, start in enumerate(_START, 1):
        if start(line, at):
            return kind
    return OPEN if not in_paragraph and _TAG(line, at) else 0
