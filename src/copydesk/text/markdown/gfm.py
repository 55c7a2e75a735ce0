"""The profile `gfm`: CommonMark 0.31, the tables and tasks of GitHub, and what notes add.

What lives here: what starts, continues and ends the blocks of this profile.
What must not: Lute's. Beyond CommonMark and its GitHub flavour: footnotes,
`$$` alone on a line around mathematics, and lines of attributes with an id.
"""

from __future__ import annotations

import re

from copydesk.text.markdown import attributes
from copydesk.text.markdown.containers import (
    add_item,
    item_resume,
    quote_resume,
    quote_start,
    read_marker,
)
from copydesk.text.markdown.gfm_paragraph import finish_paragraph, setext_start, table_start
from copydesk.text.markdown.html import LAST_CLOSED, html_ends, html_kind
from copydesk.text.markdown.kinds import (
    ATTRIBUTES,
    CODE,
    HTML,
    ITEM,
    LIST,
    MATH,
    NOTE,
    PARAGRAPH,
    QUOTE,
    TABLE,
)
from copydesk.text.markdown.leaves import (
    blank_ends,
    break_start,
    fence_resume,
    fence_start,
    strict_heading_start,
)
from copydesk.text.markdown.node import Fence, Node
from copydesk.text.markdown.parser import AGAIN, INDENTED, INTO, LEAF, NO, STAYS, Parser, Rules

_NOTE = re.compile(rb"\[\^[^\]\x00\t ]+\]:").match
_MATH = re.compile(rb"\${2,}[ \t]*\Z").match
_MARK = re.compile(rb"\^[A-Za-z0-9-]+[ \t]*\Z").match
_TASK = re.compile(rb"\[[ xX]\](?=[ \t\n])[ \t]*\n?").match


def html_start(parser: Parser, container: Node) -> int:
    """Any of the seven conditions of CommonMark; a tag alone ends no paragraph."""
    lazy = not parser.closed and parser.tip.kind == PARAGRAPH
    in_paragraph = container.kind == PARAGRAPH or lazy
    kind = html_kind(parser.line, parser.nonspace, in_paragraph)
    if not kind:
        return NO
    parser.close_unmatched()
    node = parser.add(HTML)
    node.sort, node.closed = kind, kind > LAST_CLOSED
    return LEAF


def html_resume(parser: Parser, node: Node) -> int:
    """HTML that has no sign of its own for its end goes on until a blank line."""
    return AGAIN if parser.blank and node.sort > LAST_CLOSED else STAYS


def html_taken(parser: Parser, node: Node) -> None:
    """HTML ends with the line that holds its sign."""
    if html_ends(node.sort, parser.line, parser.offset):
        node.closed = True
        parser.finish(node)


def list_start(parser: Parser, container: Node) -> int:
    """An item, with its attributes if they name an id."""
    marker = read_marker(parser, container, strict=True)
    if marker is None:
        return NO
    item = add_item(parser, container, marker)
    found = attributes.at_start(parser.line, parser.offset)
    if found is not None and attributes.value_of(found.pairs, b"id"):
        at, length = parser.at + parser.offset, found.stop - parser.offset
        item.marking = Node(ATTRIBUTES, item, at, 0, at, at + length)
        item.stop = at + length
        parser.skip(length)
    return INTO


def finish_list(parser: Parser, node: Node) -> None:
    """An item whose text begins with a box is a task; a list of nothing else is one of tasks."""
    data = parser.data
    plain = "o" if node.marker is not None and node.marker.number >= 0 else "u"
    node.subtype = "t"
    for item in node.nodes:
        item.subtype = plain
        first = item.nodes[0] if item.nodes else None
        if first is not None and first.kind == PARAGRAPH and data[first.start] == 91:
            mark = _TASK(parser.text_of(first))
            if mark is not None:
                item.subtype = "t"
                item.mark = first.start + 3
                _drop(parser, first, mark.end())
        if item.subtype != "t":
            node.subtype = plain


def _drop(parser: Parser, node: Node, count: int) -> None:
    """Take the box off the text of a task, and the line that holds nothing else."""
    pieces = parser.pieces_of(node)
    if count > pieces[1] - pieces[0]:
        del pieces[:2]
        count = 0
    node.start = node.first = pieces[0] = pieces[0] + count
    node.column = 0


def code_start(parser: Parser, container: Node) -> int:
    """Four columns of indentation, where no paragraph can go on."""
    if parser.tip.kind == PARAGRAPH or parser.blank:
        return NO
    parser.close_unmatched()
    node = parser.add(CODE)
    node.start = node.first
    parser.skip_columns(INDENTED)
    return LEAF


def code_resume(parser: Parser, node: Node) -> int:
    """A fence goes on until its end, indented code over blank lines and what is indented."""
    if node.fence is not None:
        return fence_resume(parser, node)
    if parser.indent >= INDENTED:
        parser.skip_columns(INDENTED)
    elif parser.blank:
        parser.to_nonspace()
    else:
        return AGAIN
    return STAYS


def math_start(parser: Parser, container: Node) -> int:
    """Two or more `$` alone on a line."""
    found = _MATH(parser.line, parser.nonspace)
    if found is None:
        return NO
    parser.close_unmatched()
    node = parser.add(MATH)
    node.fence, node.closed = Fence(36, found[0].count(b"$"), parser.indent), False
    return LEAF


def note_start(parser: Parser, container: Node) -> int:
    """`[^name]:` starts a footnote; what belongs to it is indented by four columns."""
    found = _NOTE(parser.line, parser.nonspace)
    if found is None:
        return NO
    parser.close_unmatched()
    node = parser.add(NOTE)
    parser.to_nonspace()
    parser.skip(found.end() - found.start())
    node.stop = parser.at + parser.offset
    return INTO


def note_resume(parser: Parser, node: Node) -> int:
    """A footnote goes on where it is indented, and over blank lines once it has content."""
    if parser.blank:
        return STAYS if node.nodes else AGAIN
    if parser.indent < INDENTED:
        return AGAIN
    parser.skip_columns(INDENTED)
    return STAYS


def attributes_start(parser: Parser, container: Node) -> int:
    """A line of attributes with an id belongs to the block before it; without one it is text."""
    text = parser.line[parser.nonspace :].rstrip(b" \t")
    if not attributes.value_of(attributes.line_attributes(text), b"id"):
        return NO
    if container.kind != PARAGRAPH and (
        not container.nodes or container.nodes[-1].kind == ATTRIBUTES
    ):
        return NO
    parser.close_unmatched()
    node = parser.add(ATTRIBUTES)
    node.stop = parser.at + len(parser.line)
    parser.offset = len(parser.line)
    return LEAF


def settle(parser: Parser) -> None:
    """Lines of attributes, and marks that stand alone, belong to the block before them."""
    if b"{:" not in parser.data and b"^" not in parser.data:
        return
    waiting = [parser.root]
    while waiting:
        node = waiting.pop()
        kept: list[Node] = []
        for child in node.nodes:
            mark = child.kind == ATTRIBUTES or _is_mark(parser, child)
            if mark and kept and kept[-1].marking is None:
                kept[-1].marking = child
                continue
            kept.append(child)
            if child.nodes:
                waiting.append(child)
        node.nodes = kept


def _is_mark(parser: Parser, node: Node) -> bool:
    """Whether a paragraph is `^id` and nothing else."""
    return node.kind == PARAGRAPH and _MARK(parser.data[node.start : node.stop]) is not None


_STARTS = {
    b">": (quote_start,),
    b"#": (strict_heading_start,),
    b"`~": (fence_start,),
    b"<": (html_start,),
    b"=": (setext_start,),
    b"-": (setext_start, break_start, list_start, table_start),
    b"*": (break_start, list_start),
    b"_": (break_start,),
    b"+0123456789": (list_start,),
    b"|:": (table_start,),
    b"$": (math_start,),
    b"[": (note_start,),
    b"{": (attributes_start,),
}

RULES = Rules(
    starts={byte: tried for signs, tried in _STARTS.items() for byte in signs},
    indented=(code_start,),
    resume={
        PARAGRAPH: blank_ends,
        TABLE: blank_ends,
        CODE: code_resume,
        MATH: fence_resume,
        HTML: html_resume,
        QUOTE: quote_resume,
        ITEM: item_resume,
        NOTE: note_resume,
    },
    taken={HTML: html_taken},
    finish={PARAGRAPH: finish_paragraph, LIST: finish_list},
)
