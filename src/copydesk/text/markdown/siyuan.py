"""The profile `siyuan`: blocks as SiYuan's own Markdown engine, Lute, makes them.

What lives here: what starts, continues and ends Lute's own blocks. What must
not: the tree that is made of them in the end. The oddities are kept on
purpose: the kernel is the judge, and its engine is the oracle of the tests.
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
from copydesk.text.markdown.kinds import (
    AGAIN_PARSED,
    ATTRIBUTES,
    CALLOUT,
    CODE,
    CONFLICT,
    DOCUMENT,
    HTML,
    ITEM,
    LIST,
    MATH,
    PARAGRAPH,
    QUOTE,
    SUPER,
)
from copydesk.text.markdown.leaves import (
    blank_ends,
    break_start,
    fence_resume,
    heading_start,
    lute_fence_start,
)
from copydesk.text.markdown.lines import SPACES
from copydesk.text.markdown.lute_finish import (
    add_empty,
    attributes_node,
    finish_callout,
    finish_list,
    finish_paragraph,
    finish_quote,
    finish_super,
    trim_left,
)
from copydesk.text.markdown.lute_leaves import (
    conflict_resume,
    conflict_start,
    embed_start,
    html_resume,
    html_start,
    html_taken,
    math_resume,
    math_start,
    math_taken,
)
from copydesk.text.markdown.node import Node
from copydesk.text.markdown.parser import INTO, LEAF, NO, STAYS, TAKEN, Parser, Rules

_SUPER = re.compile(rb"\{\{\{[ \t\v\f]*(row|col|)[ \t\v\f]*\Z", re.IGNORECASE).match


def callout_start(parser: Parser, container: Node) -> int:
    """`> [!NAME]`."""
    line, at = parser.line, parser.nonspace + 1
    found = SPACES(line, at)
    assert found is not None
    start = found.end()
    if not line.startswith(b"[!", start):
        if start < len(line) and line[start] < 128:
            return NO
        start = len(line) - len(trim_left(line[start:]))
    if not line.startswith(b"[!", start) or line.find(b"]", start) < 0:
        return NO
    parser.to_nonspace()
    parser.skip(1)
    parser.close_unmatched()
    parser.add(CALLOUT).stop = parser.at + len(line)
    return INTO


def list_start(parser: Parser, container: Node) -> int:
    """An item, with its attributes and the mark of a task; an item never begins with a list."""
    marker = read_marker(parser, container, strict=False)
    if marker is None:
        return NO
    line, at = parser.line, parser.offset
    found = attributes.at_start(line, at)
    if found is not None:
        at = found.stop
    marker.task = _is_task(line[at : at + 4])
    empty = parser.tip if parser.tip.kind == ITEM else None
    parser.close_unmatched()
    if empty is not None and not empty.nodes:
        add_empty(empty, empty.stop)
    item = add_item(parser, container, marker)
    item.subtype = "t" if marker.task else "u" if marker.number < 0 else "o"
    if item.holder is not None and not item.holder.subtype:
        item.holder.subtype = item.subtype
    if found is not None:
        item.marking = attributes_node(item, parser.at + parser.offset, parser.at + at)
        parser.skip(min(len(attributes.spelled(found.pairs)), len(line) - parser.offset))
    return INTO


def _is_task(rest: bytes) -> bool:
    return (
        len(rest) >= 3
        and rest[0] == 91
        and rest[1] not in b"[]"
        and rest[2] == 93
        and (len(rest) == 3 or rest[3] in attributes.SPACE)
    )


def attributes_start(parser: Parser, container: Node) -> int:
    """A line of attributes belongs to the block before it, else to an empty paragraph."""
    tip = parser.tip
    if tip.kind == ITEM and not tip.nodes:
        return NO
    text = parser.line[parser.nonspace :]
    pairs = attributes.line_attributes(text)
    if not pairs:
        return NO
    parser.close_unmatched()
    parser.offset = len(parser.line)
    start, stop = parser.at + parser.nonspace, parser.at + len(parser.line)
    if (b"type", b"doc") in pairs:
        if parser.tip.kind == PARAGRAPH:
            parser.pieces_of(parser.tip)  # it goes on behind this line, which is none of its own
        parser.root.marking = attributes_node(parser.root, start, stop)
        return LEAF
    if parser.matched.kind in (DOCUMENT, AGAIN_PARSED, ITEM, QUOTE, CALLOUT, SUPER):
        tip = parser.tip
        last = tip.nodes[-1] if tip.nodes else None
        if last is None or (
            last.kind == ATTRIBUTES
            and not parser.data.startswith(attributes.spelled(pairs), last.start)
        ):
            add_empty(tip, start)
    node = parser.add(ATTRIBUTES)
    node.stop = stop
    return LEAF


def super_start(parser: Parser, container: Node) -> int:
    """`{{{`, with `row` or `col` behind it or nothing."""
    found = _SUPER(parser.line, parser.nonspace)
    if found is None:
        return NO
    parser.close_unmatched()
    tip = parser.tip
    node = parser.add(SUPER)
    run = tip.run if tip.run is not None else []
    run.append(node)
    node.run, node.closed = run, False
    node.stop = parser.at + len(parser.line)
    parser.offset = len(parser.line)
    parser.nonspace = -1
    return INTO


def super_resume(parser: Parser, node: Node) -> int:
    """`}}}` closes the innermost super block; any other line goes on."""
    line, at = parser.line, parser.nonspace
    if not line.startswith(b"}}}", at) or line[at:].strip(attributes.SPACE) != b"}}}":
        return STAYS
    while parser.tip.kind != SUPER:
        parser.finish(parser.tip)
    inner = parser.tip
    inner.stop = parser.at + len(parser.line)
    inner.closed = True
    parser.finish(inner)
    return TAKEN


STARTS = {
    b"<": (conflict_start, html_start),
    b">": (callout_start, quote_start),
    b"#": (heading_start,),
    b"`~": (lute_fence_start,),
    b"*-": (break_start, list_start),
    b"_": (break_start,),
    b"+0123456789": (list_start,),
    b"$": (math_start,),
    b"{": (attributes_start, embed_start, super_start),
}

RULES = Rules(
    starts={byte: tried for signs, tried in STARTS.items() for byte in signs},
    resume={
        PARAGRAPH: blank_ends,
        CODE: fence_resume,
        HTML: html_resume,
        MATH: math_resume,
        CONFLICT: conflict_resume,
        QUOTE: quote_resume,
        CALLOUT: quote_resume,
        ITEM: item_resume,
        SUPER: super_resume,
    },
    taken={HTML: html_taken, MATH: math_taken},
    finish={
        PARAGRAPH: finish_paragraph,
        LIST: finish_list,
        QUOTE: finish_quote,
        CALLOUT: finish_callout,
        SUPER: finish_super,
    },
    keeps_indentation=True,
)
