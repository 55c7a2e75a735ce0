"""Headings, breaks and fences: the leaves that both profiles read alike.

What lives here: ATX headings, thematic breaks, fenced code. What must not:
what only one profile knows.
"""

from __future__ import annotations

import re

from copydesk.text.markdown.kinds import (
    BREAK,
    CODE,
    HEADING,
)
from copydesk.text.markdown.lines import BLANK
from copydesk.text.markdown.node import Fence, Node
from copydesk.text.markdown.parser import AGAIN, LEAF, NO, STAYS, TAKEN, Parser

_HEADING = re.compile(rb"#{1,6}(?![^ \t\v\f])").match
_STRICT_HEADING = re.compile(rb"#{1,6}(?![^ \t])").match
_FENCE = re.compile(rb"`{3,}|~{3,}").match
_BREAKS = {sign: re.compile(rb"[ \t%c]*" % sign).match for sign in b"*-_"}


def heading_start(parser: Parser, container: Node) -> int:
    """One to six `#` and a space; Lute takes form feeds for spaces."""
    return _heading(parser, _HEADING(parser.line, parser.nonspace))


def strict_heading_start(parser: Parser, container: Node) -> int:
    """One to six `#` and a space, as CommonMark has it."""
    return _heading(parser, _STRICT_HEADING(parser.line, parser.nonspace))


def _heading(parser: Parser, found: re.Match[bytes] | None) -> int:
    if found is None:
        return NO
    parser.close_unmatched()
    node = parser.add(HEADING)
    node.subtype = f"h{found.end() - found.start()}"
    return _whole_line(parser, node)


def break_start(parser: Parser, container: Node) -> int:
    """Three or more of one of `*`, `-`, `_`, with spaces between them.

    Where the first of them fails, all that start before the same place with the
    same sign do: that place is kept.
    """
    line, at = parser.line, parser.nonspace
    sign = line[at]
    if parser.no_break[0] == sign and at < parser.no_break[1]:
        return NO
    found = _BREAKS[sign](line, at)
    assert found is not None
    if found.end() < len(line):
        parser.no_break = (sign, found.end())
        return NO
    if line.count(sign, at) < 3:
        return NO
    parser.close_unmatched()
    return _whole_line(parser, parser.add(BREAK))


def _whole_line(parser: Parser, node: Node) -> int:
    parser.offset = len(parser.line)
    node.stop = parser.at + parser.offset
    return LEAF


def fence_start(parser: Parser, container: Node) -> int:
    """Three or more backticks or tildes; no backtick in the info string after backticks."""
    line, at = parser.line, parser.nonspace
    found = _FENCE(line, at)
    if found is None or (line[at] == 96 and line.find(b"`", found.end()) >= 0):
        return NO
    parser.close_unmatched()
    node = parser.add(CODE)
    node.fence = Fence(line[at], found.end() - at, parser.indent)
    node.closed = False
    return LEAF


def lute_fence_start(parser: Parser, container: Node) -> int:
    """As `fence_start`, but no tilde in any info string either."""
    found = _FENCE(parser.line, parser.nonspace)
    if found is not None and parser.line.find(b"~", found.end()) >= 0:
        return NO
    return fence_start(parser, container)


def fence_resume(parser: Parser, node: Node) -> int:
    """Code goes on until as many of its signs, or more, stand alone on a line."""
    fence = node.fence
    line, at = parser.line, parser.nonspace
    if fence is None or parser.blank:
        return STAYS
    if parser.indent < 4 and line[at] == fence.sign:
        rest = line[at:].rstrip(b" \t\v\f")
        if len(rest) >= fence.length and not rest.strip(bytes((fence.sign,))):
            node.closed = True
            node.stop = parser.at + at + len(rest)
            parser.finish(node)
            return TAKEN
    return STAYS


def blank_ends(parser: Parser, node: Node) -> int:
    """Goes on until a blank line."""
    return AGAIN if parser.blank else STAYS


def never_resumes(parser: Parser, node: Node) -> int:
    """Of one line only."""
    return AGAIN


def only_blank(text: bytes) -> bool:
    """Whether there is nothing but spaces and tabs."""
    return not text.strip(BLANK)
