"""The profile `gfm`: CommonMark 0.31, the tables and tasks of GitHub, footnotes, ids."""

from __future__ import annotations

import re

from copydesk.text.markdown.block import (
    ATTRIBUTES,
    BLANK,
    CODE,
    DEFINITION,
    HEADING,
    HTML,
    ITEM,
    LIST,
    MATH,
    NOTE,
    PARAGRAPH,
    QUOTE,
    TABLE,
    Fence,
    Node,
)
from copydesk.text.markdown.parser import (
    AGAIN,
    INDENTED,
    INTO,
    LAST_CLOSED,
    LEAF,
    NO,
    STAYS,
    BlockRules,
    Parser,
    add_item,
    at_start,
    blank_ends,
    break_start,
    definitions,
    fence_resume,
    fence_start,
    html_ends,
    html_kind,
    item_resume,
    line_attributes,
    quote_resume,
    quote_start,
    read_marker,
    strict_heading_start,
    value_of,
)

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
    row = _ESCAPED(b"__", row).strip(b" \t")
    return row.removeprefix(b"|").removesuffix(b"|").count(b"|") + 1


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
    found = at_start(parser.line, parser.offset)
    if found is not None and value_of(found.pairs, b"id"):
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
    if not value_of(line_attributes(text), b"id"):
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

RULES = BlockRules(
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
