"""What a paragraph can turn out to be: a heading, definitions, the head of a table.

What lives here: setext headings, link reference definitions, tables. What must
not: blocks that start on a line of their own.
"""

from __future__ import annotations

import re

from copydesk.text.markdown.definitions import definitions
from copydesk.text.markdown.kinds import DEFINITION, HEADING, PARAGRAPH, TABLE
from copydesk.text.markdown.lines import BLANK
from copydesk.text.markdown.node import Node
from copydesk.text.markdown.parser import LEAF, NO, Parser

_SETEXT = re.compile(rb"(?:=+|-+)[ \t]*\Z").match
_RULE = re.compile(rb"\|?[ \t]*+:?-+:?[ \t]*+(?:\|[ \t]*+:?-+:?[ \t]*+)*+\|?[ \t]*\Z").match
_ESCAPED = re.compile(rb"\\.").sub


def setext_start(parser: Parser, container: Node) -> int:
    """A line of `=` or `-` makes a heading of the paragraph before it."""
    line, at = parser.line, parser.nonspace
    if container.kind != PARAGRAPH or _SETEXT(line, at) is None:
        return NO
    parser.close_unmatched()
    if not split_definitions(parser, container):
        return NO
    container.kind = HEADING
    container.subtype = "h1" if line[at] == 61 else "h2"
    container.stop = parser.at + len(line)
    parser.offset = len(line)
    return LEAF


def split_definitions(parser: Parser, node: Node) -> bool:
    """Make blocks of the definitions that a paragraph begins with; whether any text is left."""
    if node.stop <= node.start or parser.data[node.start] != 91:
        return node.stop > node.start
    found = definitions(_text(parser, node))
    holder = node.holder
    if not found or holder is None:
        return True
    pieces = parser.pieces_of(node)
    holder.drop_last()
    line = 0
    for count in found:
        start, stop = pieces[2 * line], pieces[2 * (line + count) - 1]
        whole = Node(DEFINITION, holder, start, 0, start, stop)
        if not line:
            whole.first, whole.column = node.first, node.column
        whole.open = False
        holder.append(whole)
        holder.stop = max(holder.stop, stop)
        line += count
    del pieces[: 2 * line]
    node.start = node.first = pieces[0] if pieces else -1
    node.column = 0
    if not pieces:
        node.stop = -1
    holder.append(node)
    return bool(pieces)


def _text(parser: Parser, node: Node) -> bytes:
    """The text of a paragraph, without the indentation of any of its lines."""
    return b"\n".join(line.lstrip(BLANK) for line in parser.text_of(node).split(b"\n"))


def finish_paragraph(parser: Parser, node: Node) -> None:
    """Definitions are blocks of their own; a paragraph of nothing else is none."""
    if not split_definitions(parser, node) and node.holder is not None:
        node.holder.drop_last()


def table_start(parser: Parser, container: Node) -> int:
    """A delimiter row makes a table of the last line of the paragraph before it."""
    line, at = parser.line, parser.nonspace
    if container.kind != PARAGRAPH or container.stop <= container.start or _RULE(line, at) is None:
        return NO
    pieces = parser.pieces_of(container)
    start, stop = pieces[-2:]
    if _cells(parser.data[start:stop]) != _cells(line[at:]):
        return NO
    parser.close_unmatched()
    if len(pieces) == 2:
        container.kind = TABLE
        container.stop = parser.at + len(line)
        return LEAF
    del pieces[-2:]
    container.stop = pieces[-1]
    parser.finish(container)
    table = Node(TABLE, parser.tip, start, 0, start, stop)
    parser.tip.append(table)
    parser.tip = table
    return LEAF


def _cells(row: bytes) -> int:
    """How many cells a row has."""
    row = _ESCAPED(b"__", row).strip(b" \t")
    return row.removeprefix(b"|").removesuffix(b"|").count(b"|") + 1
