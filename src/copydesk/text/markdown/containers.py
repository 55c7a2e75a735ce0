"""Quotes, lists and their items: how they start and how a line continues them.

What lives here: what both profiles have in common of them. What must not: task
items and attributes of a profile. Lengths and offsets are columns.
"""

from __future__ import annotations

import re

from copydesk.text.markdown.kinds import (
    ITEM,
    LIST,
    PARAGRAPH,
    QUOTE,
)
from copydesk.text.markdown.lines import BLANK
from copydesk.text.markdown.node import Marker, Node
from copydesk.text.markdown.parser import AGAIN, INTO, STAYS, Parser

_NUMBER = re.compile(rb"([0-9]{1,9})([.)])").match

_LUTE_SPACES = b" \t\v\f"

_MOST_SPACES = 5
"""From this many columns after a marker on, the item starts with an indented code block."""


def quote_start(parser: Parser, container: Node) -> int:
    """`>`, and one space after it if there is one."""
    parser.to_nonspace()
    parser.skip(1)
    parser.skip_one_blank()
    parser.close_unmatched()
    parser.add(QUOTE).stop = parser.at + len(parser.line)
    return INTO


def quote_resume(parser: Parser, node: Node) -> int:
    """A quote goes on where its sign stands again."""
    if parser.blank or parser.indent >= 4 or parser.line[parser.nonspace] != 62:
        return AGAIN
    parser.to_nonspace()
    parser.skip(1)
    parser.skip_one_blank()
    node.stop = parser.at + len(parser.line)
    return STAYS


def item_resume(parser: Parser, node: Node) -> int:
    """An item goes on where its content is indented, and over blank lines once it has any."""
    if parser.blank:
        if not node.nodes:
            return AGAIN
        parser.to_nonspace()
        return STAYS
    width = node.width
    if parser.indent < width:
        return AGAIN
    parser.skip_columns(width)
    return STAYS


def read_marker(parser: Parser, container: Node, strict: bool) -> Marker | None:
    """The marker that stands here, consumed with the space that belongs to it; None for none.

    `strict` is CommonMark; else the rules are those of Lute: form feeds stand
    for spaces, and a paragraph is ended by `1.` only (not by `01.`) and by a
    bullet with nothing but spaces behind it.
    """
    line, at = parser.line, parser.nonspace
    sign, number, after = line[at], -1, at + 1
    if sign not in b"-+*":
        found = _NUMBER(line, at)
        if found is None:
            return None
        number, sign, after = int(found[1]), found[2][0], found.end()
        if container.kind == PARAGRAPH and (number != 1 if strict else found[1] != b"1"):
            return None
    if after < len(line) and line[after] not in (BLANK if strict else _LUTE_SPACES):
        return None
    if container.kind == PARAGRAPH and after == (_end(line) if strict else len(line)):
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
            parser.nonspace = -1  # the peek went beyond what is text after all
        parser.skip_one_blank()
    else:
        padding = length + gap
        parser.to_nonspace()
    return Marker(offset, padding, length, sign, number)


def _end(line: bytes) -> int:
    """Where the trailing spaces of the line start."""
    return len(line.rstrip(BLANK))


def add_item(parser: Parser, container: Node, marker: Marker) -> Node:
    """A new item with this marker, in the open list if it is of one kind with that."""
    parser.close_unmatched()
    if parser.tip.kind != LIST or container.kind != LIST or not same_list(container, marker):
        parser.add(LIST).marker = marker
    item = parser.add(ITEM)
    item.indent, item.width = marker.offset, marker.offset + marker.padding
    item.stop = item.start + marker.length
    return item


def same_list(node: Node, marker: Marker) -> bool:
    """Whether an item stands in this list: of the same sign, and a task if the first is one."""
    first = node.marker
    if first is None or first.task != marker.task:
        return False
    return first.sign == marker.sign and (first.number < 0) == (marker.number < 0)
