"""The grammar that both profiles share: the line loop, containers, leaves, attributes.

Invariants: a line costs no more than its own length and the blocks it closes; nothing raises but
what the parser is given to look at the clock with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from copydesk.notes.markdown.block import (
    BLANK,
    BREAK,
    CODE,
    HEADING,
    ITEM,
    LIST,
    NOTE,
    PARAGRAPH,
    QUOTE,
    SUPER,
    TABLE,
    TEXT,
    AlwaysMatches,
    LineCursor,
    Marker,
    Node,
    can_hold,
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
Start = Callable[["Parser", Node], int]
Resume = Callable[["Parser", Node], int]
Finish = Callable[["Parser", Node], None]


@dataclass(frozen=True)
class BlockRules:
    """A profile: how blocks start (`starts`: by first byte, in order), continue and end."""

    starts: Mapping[int, tuple[Start, ...]]
    resume: Mapping[str, Resume]
    finish: Mapping[str, Finish]
    taken: Mapping[str, Finish] = field(default_factory=dict[str, Finish])
    """Called after a block of this kind has consumed a line as text."""
    indented: tuple[Start, ...] = ()
    keeps_indentation: bool = False
    """Whether text directly in the document keeps the indentation of its lines."""
    table: tuple[tuple[Start, ...], ...] = field(init=False)
    plain: bytes = field(init=False)
    """By byte: 1 if a line that begins with it, at column 0, can only be text."""

    def __post_init__(self) -> None:
        table = tuple(self.starts.get(byte, ()) for byte in range(256))
        plain = bytes(not table[byte] and byte not in BLANK for byte in range(256))
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "plain", plain)


class Parser(LineCursor):
    """Parses a text, or a paragraph again. The line starts at byte `at`; `tip` is the open node."""

    def __init__(
        self,
        data: bytes,
        rules: BlockRules,
        root: Node,
        go_on: Callable[[], None],
        depth: int = 0,
    ) -> None:
        super().__init__()
        self.go_on = go_on
        """Called every so many lines and blocks; raises to stop parsing."""
        self.blocks = 0
        self.data = data
        self.rules = rules
        self.root = root
        self.tip = root
        self.depth = depth
        """How many times this text, as that of a task, was parsed before."""
        self.at = self.first = self.first_column = self.begin = 0
        self.matched = root
        self.oldtip = root
        self.closed = True
        self.no_break: tuple[int, int] = (0, 0)
        """A break character of the line, and where a thematic break of it fails."""
        self._blank_from: Node | None = None
        self._blank_tip = self._blank_to = root

    def run(self, lines: Sequence[bytes], starts: Sequence[int]) -> None:
        """Parse all lines and close the open blocks."""
        root, plain = self.root, self.rules.plain
        for number, (line, at) in enumerate(zip(lines, starts, strict=True)):
            if not number % LOOKED_AT:
                self.go_on()
            tip = self.tip
            if tip is root:
                if not line:
                    continue
                if plain[line[0]]:
                    stop = at + len(line)
                    node = Node(PARAGRAPH, root, at, 0, at, stop)
                    root.append(node)
                    self.tip = node
                    continue
            elif tip.holder is root:
                if tip.kind == PARAGRAPH:
                    if not line:
                        self.finish(tip)
                        continue
                    if plain[line[0]]:
                        tip.stop = stop = at + len(line)
                        if tip.pieces is not None:
                            tip.pieces += (at, stop)
                        continue
                elif tip.kind == CODE and tip.fence and line and plain[line[0]]:
                    tip.stop = at + len(line)
                    continue
            self.take(line, at)
        while True:
            tip = self.tip
            self.finish(tip)
            if tip is root:
                return

    def take(self, line: bytes, at: int) -> None:
        """Process one line, which starts at byte `at`."""
        self.load(line)
        self.at = at
        self.no_break = (0, 0)
        self.oldtip = self.tip
        container = self._descend()
        if container is None:
            return
        self.closed = container is self.oldtip
        self.matched = container
        kind = container.kind
        if kind in _INTERRUPTED or kind not in TEXT:
            container = self._start(container)
        self._add(container)

    def _descend(self) -> Node | None:
        """Return the deepest open node that the line continues; None if the line is used up."""
        resume = self.rules.resume
        container = self.root
        seen: Node | None = None
        while container.nodes:
            child = container.nodes[-1]
            if not child.open:
                break
            if self.offset > self.nonspace:
                self.peek()
            else:
                self.indent = self.nonspace_column - self.column
            kind = child.kind
            if self.blank and seen is None and kind in _PASSES_BLANK:
                if child is self._blank_from and self.oldtip is self._blank_tip:
                    self.to_nonspace()
                    return self._blank_to
                seen = child
            if kind == LIST:
                container = child  # a list ends only when something else is added to its container
                continue
            if kind == SUPER and child.run is not None:
                child = child.run[-1]
            going = resume.get(kind)
            if going is None:
                break
            says = going(self, child)
            if says == AGAIN:
                break
            if says == TAKEN:
                return None
            container = child
        if seen is not None:
            self._blank_from, self._blank_tip, self._blank_to = seen, self.oldtip, container
        return container

    def _start(self, container: Node) -> Node:
        """Start the blocks that begin on the line; return the node that gets the rest of it."""
        table, indented = self.rules.table, self.rules.indented
        while True:
            self.peek()
            self.first, self.first_column, self.begin = self.offset, self.column, self.nonspace
            if self.blank:
                self.to_nonspace()
                return container
            tried = indented if self.indent >= INDENTED else table[self.line[self.nonspace]]
            for start in tried:
                says = start(self, container)
                if says == INTO:
                    container = self.tip
                    break
                if says == LEAF:
                    return self.tip
            else:
                self.to_nonspace()
                return container

    def _add(self, container: Node) -> None:
        """Give the rest of the line to the node that accepts it."""
        tip = self.tip
        if not self.closed and not self.blank and tip.kind == PARAGRAPH:
            self.add_text(tip)
            return
        self.close_unmatched()
        if container.kind in TEXT:
            if container.open:
                self.add_text(container)
                after = self.rules.taken.get(container.kind)
                if after is not None:
                    after(self, container)
        elif not self.blank and self.offset < len(self.line):
            self.add_text(self.add(PARAGRAPH))

    def add(self, kind: str) -> Node:
        """Close what the line does not continue; add a node at the next character.

        It goes into the deepest open node that can hold it.
        """
        self.close_unmatched()
        self.blocks += 1
        if not self.blocks % LOOKED_AT:
            self.go_on()
        while not can_hold(self.tip, kind):
            self.finish(self.tip)
        tip, at = self.tip, self.at
        start = at + self.begin
        node = Node(kind, tip, at + self.first, self.first_column, start, start)
        tip.append(node)
        self.tip = node
        return node

    def add_text(self, node: Node) -> None:
        """Add the rest of the line to a node that holds text."""
        line, at = self.line, self.at
        if self.blank or self.offset == len(line):
            return
        stop = at + len(line)
        if node.kind != PARAGRAPH:
            node.stop = stop
            return
        start = at + self.offset
        if node.start < 0:
            node.start = node.first = start
        if self.rules.keeps_indentation and node.holder is self.root and line[0] in BLANK:
            start = at
        if node.pieces is not None or node.stop > node.start or start != node.start:
            pieces = self.pieces_of(node)
            pieces += (start, stop)
        node.stop = stop

    def pieces_of(self, node: Node) -> list[int]:
        """Where the text of each line of a paragraph starts and stops, alternately."""
        if node.pieces is None:
            pieces: list[int] = []
            node.pieces = pieces
            if node.holder is not self.root:  # a second line would have created the pieces
                pieces += (node.start, node.stop) if node.stop > node.start else ()
            else:
                lines, starts = cut(self.data[node.start : node.stop], 0)
                for line, start in zip(lines, starts, strict=True):
                    start += node.start
                    pieces += (start, start + len(line))
        return node.pieces

    def text_of(self, node: Node) -> bytes:
        """The text of a paragraph: its lines without their prefixes, joined by LF."""
        pieces = iter(self.pieces_of(node))
        return b"\n".join(self.data[start:stop] for start, stop in zip(pieces, pieces, strict=True))

    def close_unmatched(self) -> None:
        """Close the blocks that the line does not continue."""
        if self.closed:
            return
        while self.oldtip is not self.matched:
            parent = self.oldtip.holder
            assert parent is not None
            self.finish(self.oldtip)
            self.oldtip = parent
        self.closed = True

    def end(self, node: Node, stop: int) -> int:
        """Finish a node whose end mark reaches up to this byte of the line, which is used up."""
        node.stop = self.at + stop
        node.closed = True
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
        parent = node.holder
        ends = self.rules.finish.get(node.kind)
        if ends is not None:
            ends(self, node)
        if parent is not None:
            if node.stop > parent.stop:
                parent.stop = node.stop
            self.tip = parent


_MARKER = re.compile(rb"(?:[-+*]|([0-9]{1,9})[.)])(?=[ \t]|\Z)").match
_LUTE_MARKER = re.compile(rb"(?:[-+*]|([0-9]{1,9})[.)])(?=[ \t\v\f]|\Z)").match

_MOST_SPACES = 5
"""From this many columns after a marker, the item starts with indented code."""


def quote_start(parser: Parser, container: Node) -> int:
    """`>`, with the space after it, if there is one."""
    parser.to_nonspace()
    parser.skip(1)
    parser.skip_one_blank()
    parser.add(QUOTE).stop = parser.at + len(parser.line)
    return INTO


def quote_resume(parser: Parser, node: Node) -> int:
    """A quote continues on a line that starts with `>`."""
    if parser.blank or parser.indent >= 4 or parser.line[parser.nonspace] != 62:
        return AGAIN
    parser.to_nonspace()
    parser.skip(1)
    parser.skip_one_blank()
    node.stop = parser.at + len(parser.line)
    return STAYS


def indented_resume(parser: Parser, node: Node) -> int:
    """An item or a footnote continues on lines that are indented as its content is.

    It continues over blank lines once it has any content.
    """
    if parser.blank:
        if not node.nodes:
            return AGAIN
        parser.to_nonspace()
        return STAYS
    width = node.width if node.kind == ITEM else INDENTED
    if parser.indent < width:
        return AGAIN
    parser.skip_columns(width)
    return STAYS


def read_marker(parser: Parser, container: Node, strict: bool) -> Marker | None:
    """Consume a list marker and the space that belongs to it; None if there is none.

    `strict` follows CommonMark; otherwise the rules are Lute's: form feeds count as spaces; of
    numbers, only `1.` (not `01.`) interrupts a paragraph; so does a bullet followed only by spaces.
    """
    line, at = parser.line, parser.nonspace
    found = (_MARKER if strict else _LUTE_MARKER)(line, at)
    if found is None:
        return None
    number, after = found[1], found.end()
    if container.kind == PARAGRAPH:
        is_first = number is None or (int(number) == 1 if strict else number == b"1")
        if not is_first or after == len(line.rstrip(BLANK) if strict else line):
            return None
    offset, length = parser.indent, after - at
    parser.to_nonspace()
    parser.skip(length)
    before = (parser.offset, parser.column, parser.partial)
    feeds = after < len(line) and line[after] in b"\v\f"
    if feeds:
        parser.skip(1)
    parser.peek()
    gap = parser.nonspace_column - before[1]
    if gap >= _MOST_SPACES or gap < 1 or parser.blank:
        padding = length + 1
        parser.offset, parser.column, parser.partial = before
        if feeds:
            parser.nonspace = -1  # the peek went past what turns out to be text
        parser.skip_one_blank()
    else:
        padding = length + gap
        parser.to_nonspace()
    return Marker(offset, padding, length, found[0][-1])


def add_item(parser: Parser, container: Node, marker: Marker) -> Node:
    """Add an item with this marker, to the open list if the marker fits that."""
    parser.close_unmatched()
    first = container.marker if parser.tip.kind == container.kind == LIST else None
    if first is None or (first.sign, first.task) != (marker.sign, marker.task):
        parser.add(LIST).marker = marker
    item = parser.add(ITEM)
    item.indent, item.width = marker.offset, marker.offset + marker.padding
    item.stop = item.start + marker.length
    return item


_FENCE = re.compile(rb"`{3,}|~{3,}").match
_BREAKS = {sign: cast(AlwaysMatches, re.compile(rb"[ \t%c]*" % sign).match) for sign in b"*-_"}


def _heading(pattern: Pattern, parser: Parser, container: Node) -> int:
    found = pattern(parser.line, parser.nonspace)
    if found is None:
        return NO
    node = parser.add(HEADING)
    node.subtype = f"h{found.end() - found.start()}"
    return whole_line(parser, node)


heading_start: Start = partial(_heading, re.compile(rb"#{1,6}(?![^ \t\v\f])").match)
"""One to six `#` and a space; Lute counts form feeds as spaces."""

strict_heading_start: Start = partial(_heading, re.compile(rb"#{1,6}(?![^ \t])").match)
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


def fence_start(parser: Parser, container: Node) -> int:
    """Three or more backticks or tildes; no backtick in the info string after backticks."""
    line, at = parser.line, parser.nonspace
    found = _FENCE(line, at)
    if found is None or (line[at] == 96 and line.find(b"`", found.end()) >= 0):
        return NO
    node = parser.add(CODE)
    node.fence, node.closed = found[0], False
    return LEAF


def lute_fence_start(parser: Parser, container: Node) -> int:
    """Like `fence_start`, but allows no tilde in any info string either."""
    found = _FENCE(parser.line, parser.nonspace)
    if found is not None and parser.line.find(b"~", found.end()) >= 0:
        return NO
    return fence_start(parser, container)


def fence_resume(parser: Parser, node: Node) -> int:
    """Code continues until a line with only its fence sign, at least as many as opened it."""
    line, at = parser.line, parser.nonspace
    if parser.blank or parser.indent >= INDENTED or not line.startswith(node.fence, at):
        return STAYS
    rest = line[at:].rstrip(b" \t\v\f")
    return STAYS if rest.strip(node.fence[:1]) else parser.end(node, at + len(rest))


def blank_ends(parser: Parser, node: Node) -> int:
    """The block continues until a blank line."""
    return AGAIN if parser.blank else STAYS


SPACE = b" \t\n\v\f\r"
"""Lute's white space."""

Pairs = list[tuple[bytes, bytes]]


def line_attributes(text: bytes) -> Pairs:
    """Parse a line that is only an attribute list; `text` has no terminator."""
    if not text.startswith(b"{:") or not text.endswith(b"}") or len(text) < 6:
        return []
    return _pairs(text[2:-1].removeprefix(b"{:"))


def at_start(line: bytes, at: int) -> tuple[Pairs, int]:
    """Parse the attribute list at byte `at` of a line, as in `- {: id="..."}text`.

    Returns it, and the byte of the line after it, which is `at` if there is none.
    """
    stop = line.find(b"}", at) + 1
    pairs = leading_attributes(line[at:stop])
    return pairs, stop if pairs else at


def leading_attributes(text: bytes) -> Pairs:
    """Parse an attribute list at the start of `text`; other text may follow."""
    if not text.startswith(b"{:"):
        return []
    end = text.find(b"}", 2)
    return _pairs(text[2:end]) if end >= 5 else []


def bare_attributes(text: bytes) -> Pairs:
    """Parse attributes at the start of an item's first paragraph; braces are optional."""
    text = text.rstrip(b" \n").removeprefix(b"{:").removesuffix(b"}")
    return _pairs(text.replace(b"\n", b"_esc_newline_"))


def spelled(pairs: Pairs) -> bytes:
    """Write out an attribute list."""
    return b"{: " + b" ".join(name + b'="' + value + b'"' for name, value in pairs) + b"}"


def value_of(pairs: Pairs, name: bytes) -> bytes | None:
    """The last value of an attribute name; None if there is none."""
    return next((value for key, value in reversed(pairs) if key == name), None)


_ATTRIBUTE = re.compile(
    rb"""[ \t\n\v\f\r]++ ([A-Za-z_:][A-Za-z0-9_.:-]*+)
    (?: [ \t\n\v\f\r]*+ (=) [ \t\n\v\f\r]*+ (
        " [^"]*+ " | ' [^']*+ '
        | [^ \t\n\v\f\r"'] [^ \t\n\v\f\r"'=<`>]++ (?: [ \t\n\v\f\r] | \Z | ((?=>)))
    )?+ )?+""",
    re.VERBOSE,
).match
"""Lute eats the first character of a value without quotes, and the last one before `>`."""


def _pairs(text: bytes) -> Pairs:
    """Parse attributes one by one; one without a value counts as an empty name and value."""
    pairs: Pairs = []
    at = 0
    while (found := _ATTRIBUTE(text, at)) is not None:
        name, sign, value, closes = found.groups()
        if not sign:
            pairs.append((b"", b""))
        elif value is None:
            break  # malformed
        elif value[0] in b"\"'":
            pairs.append((name, value[1:-1]))
        else:
            bare = value.rstrip(SPACE)[1:]
            pairs.append((name, bare if closes is None else bare[:-1]))
        at = found.end()
    return pairs


_GAP = r"[ \t]*+(?:\n[ \t]*+)?"
_BARE = r"(?:\\[!-\xff]|[^\x00-\x20\x7f()])"
_balanced = rf"{_BARE}*+"
for _ in range(32):  # so deep may the parentheses of a destination be nested
    _balanced = rf"(?:{_BARE}|\({_balanced}\))*+"
_DEFINITION = re.compile(
    r"\[(?!\s*+\])(?:[^\\\[\]]|\\.){1,999}+\]:"
    rf"{_GAP}(?:<(?:[^<>\n\\]|\\[^\n])*+>|(?!<)(?=[^\s)]){_balanced})"
    rf"(?:(?=[ \t\n]){_GAP}(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\))"
    r"[ \t]*+(?:\n|\Z)|[ \t]*+(?:\n|\Z))".encode("latin-1"),
    re.DOTALL,
).match
"""One definition of a link, with its line end: label, destination, and a title or none."""


def definitions(text: bytes) -> list[int]:
    """Count the lines of each definition at the start of a paragraph `text` (joined by LF)."""
    counts: list[int] = []
    at = 0
    while definition := _DEFINITION(text, at):
        counts.append(text.count(b"\n", at, definition.end() - 1) + 1)
        at = definition.end()
    return counts


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
_STARTS = (
    rb"<(?:script|pre|style|textarea)(?:[ \t>]|\Z)",
    rb"<!--",
    rb"<\?",
    rb"<![A-Za-z]",
    rb"<!\[CDATA\[",
    b"</?(?:" + _NAMES.encode() + rb")(?:[ \t]|/?>|\Z)",
)
_START = tuple(re.compile(each, re.IGNORECASE).match for each in _STARTS)
_TAG = re.compile(
    rb"""(?:<[A-Za-z][A-Za-z0-9-]*+
    (?:[ \t]++[A-Za-z_:][A-Za-z0-9_.:-]*+
       (?:[ \t]*+=[ \t]*+(?:[^ \t"'=<>`]++|'[^']*+'|"[^"]*+"))?+)*+
    [ \t]*+/?> | </[A-Za-z][A-Za-z0-9-]*+[ \t]*+>)[ \t]*+\Z""",
    re.VERBOSE,
).match
_ENDS = (rb"</(?:script|pre|style|textarea)>", rb"-->", rb"\?>", rb">", rb"\]\]>")
_END = tuple(re.compile(each, re.IGNORECASE).search for each in _ENDS)


def html_kind(line: bytes, at: int, in_paragraph: bool) -> int:
    """The number of the start condition that the line meets at byte `at`; 0 for none."""
    for kind, start in enumerate(_START, 1):
        if start(line, at):
            return kind
    return OPEN if not in_paragraph and _TAG(line, at) else 0


def html_ends(kind: int, line: bytes, at: int) -> bool:
    """Whether the line, from byte `at` on, has the end marker of an HTML block of this kind."""
    return kind <= LAST_CLOSED and _END[kind - 1](line, at) is not None
