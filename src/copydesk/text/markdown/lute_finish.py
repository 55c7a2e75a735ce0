"""What Lute does with a block once it is closed: tasks, tables, callouts, attributes.

What lives here: the ends of Lute's blocks and the last pass over the tree.
What must not: how blocks start and go on.
"""

from __future__ import annotations

from copydesk.text.markdown import attributes
from copydesk.text.markdown.kinds import (
    AGAIN_PARSED,
    ATTRIBUTES,
    CALLOUT,
    ITEM,
    PARAGRAPH,
    QUOTE,
    SUPER,
    TABLE,
)
from copydesk.text.markdown.lute_table import find_table
from copydesk.text.markdown.node import Node
from copydesk.text.markdown.parser import Parser

MOST_PARSED = 16
"""A task in a task in a task is looked into this deep; deeper down its text is a paragraph."""

_ALL = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def trim(text: bytes) -> bytes:
    """Without white space at both ends, that of Unicode included."""
    return text.decode("utf-8", "surrogateescape").strip(_ALL).encode("utf-8", "surrogateescape")


def trim_left(text: bytes) -> bytes:
    """Without white space at the start, that of Unicode included."""
    return text.decode("utf-8", "surrogateescape").lstrip(_ALL).encode("utf-8", "surrogateescape")


def attributes_node(parent: Node, start: int, stop: int) -> Node:
    """The place of attributes that no line of its own holds."""
    return Node(ATTRIBUTES, parent, start, 0, start, stop)


def add_empty(parent: Node, at: int) -> Node:
    """An empty paragraph as the last child, where Lute puts one that no byte stands for."""
    node = Node(PARAGRAPH, parent, at, 0, at, at)
    node.open = False
    parent.append(node)
    return node


def _text(parser: Parser, node: Node) -> bytes:
    """The text of a paragraph, as Lute keeps it."""
    return parser.text_of(node).rstrip(attributes.SPACE)


def finish_paragraph(parser: Parser, node: Node) -> None:
    """The paragraph may be attributes, the text of a task, or a table."""
    parent = node.holder
    if node.stop <= node.start or parent is None:
        return
    if parent.kind == ITEM and parent.nodes[0] is node:
        if _begins(parser, node, b"{") and attributes.bare_attributes(_text(parser, node)):
            parent.nodes = ()
            empty = add_empty(parent, node.stop)
            empty.marking = attributes_node(empty, node.start, node.stop)
            return
        if parent.subtype == "t" and _finish_task(parser, node):
            return
    if parser.data.find(b"|", node.start, node.stop) >= 0:
        _find_table(parser, node)


def _find_table(parser: Parser, node: Node) -> None:
    data, parent = parser.data, node.holder
    found = find_table(_text(parser, node).split(b"\n"))
    if found is None or parent is None:
        return
    if not found.before:
        node.kind = TABLE
        return
    pieces = parser.pieces_of(node)
    start = at = pieces[2 * found.before]
    while data[start] in b" \t":
        start += 1
    table = Node(TABLE, parent, at, 0, start, node.stop)
    table.open = False
    parent.append(table)
    parent.stop = max(parent.stop, table.stop)
    del pieces[2 * found.before :]
    node.stop = pieces[-1]


def _finish_task(parser: Parser, node: Node) -> bool:
    """Take the mark of the task away; whether other blocks stand in the paragraph's place."""
    text = _text(parser, node)
    mark = 0
    if attributes.leading_attributes(text):
        mark = text.index(b"}") + 1
    after = text[mark + 2 : mark + 4]
    if text[mark : mark + 1] != b"[" or after[:1] != b"]" or text[mark + 1] in b"[]":
        return False
    if after[1:] and after[1] not in attributes.SPACE and after[1] != 0xE2:
        return False
    parent = node.holder
    assert parent is not None
    parent.mark = node.start + mark + 3
    rest = trim(text[mark + 3 :])
    _drop(parser, node, len(text) - len(trim_left(text[mark + 3 :])) if rest else len(text))
    if not rest or parser.depth >= MOST_PARSED:
        return False
    if not parser.rules.table[rest[0]] and b"|" not in rest:
        return False
    root = Node(AGAIN_PARSED, parent, node.start, 0, node.start, node.start)
    inner = Parser(parser.data, parser.rules, root, parser.depth + 1)
    lines = rest.split(b"\n")
    inner.run(lines, parser.pieces_of(node)[: 2 * len(lines) : 2])
    settle(inner)
    if not root.nodes or root.nodes[0].kind == PARAGRAPH:
        return False
    parent.nodes = root.nodes
    parent.stop = max(parent.stop, root.stop)
    return True


def _drop(parser: Parser, node: Node, count: int) -> None:
    """Take the first `count` bytes of its text from a paragraph."""
    pieces = parser.pieces_of(node)
    line = 0
    while line + 2 < len(pieces) and count > pieces[line + 1] - pieces[line]:
        count -= pieces[line + 1] - pieces[line] + 1
        line += 2
    del pieces[:line]
    node.start = node.first = pieces[0] = min(pieces[0] + count, pieces[1])
    node.column = 0
    node.stop = max(node.stop, node.start)


def finish_list(parser: Parser, node: Node) -> None:
    """No item stays empty, and attributes before its text are the item's."""
    for item in node.nodes:
        if not item.nodes:
            add_empty(item, item.stop)
            continue
        first = item.nodes[0]
        if not item.mark and first.kind == PARAGRAPH and _begins(parser, first, b"{"):
            text = _text(parser, first)
            if len(text) > 7 and attributes.leading_attributes(text):
                end = text.index(b"}") + 1
                item.marking = attributes_node(item, first.start, first.start + end)
                rest = text[end:].lstrip(attributes.SPACE)
                _drop(parser, first, len(text) - len(rest))


def finish_quote(parser: Parser, node: Node) -> None:
    """A quote whose first paragraph begins with `[!NAME]` is a callout; none stays empty."""
    if not node.nodes:
        add_empty(node, node.stop)
    elif node.nodes[0].kind == PARAGRAPH:
        title, _, rest = _text(parser, node.nodes[0]).partition(b"\n")
        if rest and title.startswith(b"[!") and b"]" in title:
            node.kind = CALLOUT
            finish_callout(parser, node)


def finish_callout(parser: Parser, node: Node) -> None:
    """The title is no child of a callout; with nothing else in it, it is a quote."""
    first = node.nodes[0]
    text = _text(parser, first)
    if len(node.nodes) == 1 and b"\n" not in text:
        node.kind = QUOTE
        return
    title = trim(text.partition(b"\n")[0])
    node.subtype = trim(title[2 : title.index(b"]")]).decode("utf-8", "surrogateescape")
    if first.kind != PARAGRAPH:
        return
    pieces = parser.pieces_of(first)
    del pieces[:2]
    if not pieces:
        node.nodes = node.nodes[1:]
        return
    at = pieces[0]
    while parser.data[at] in b" \t":
        at += 1
    first.first, first.column, first.start = pieces[0], 0, at


def finish_super(parser: Parser, node: Node) -> None:
    """The run of super blocks, one right in the other, gets shorter; an empty open one is text."""
    if node.run is not None:
        node.run.pop()
    if not node.nodes and not node.closed:
        node.kind, node.closed = PARAGRAPH, True


def settle(parser: Parser) -> None:
    """The last pass: attributes find their block."""
    if b"{:" not in parser.data:
        return
    waiting = [parser.root]
    while waiting:
        node = waiting.pop()
        if node.nodes:
            node.nodes = _settled(parser, node)
            waiting += node.nodes
            if parser.depth and node.kind == SUPER and not node.nodes and not node.closed:
                node.kind, node.closed = PARAGRAPH, True  # Lute looks again at what it parsed again


def _settled(parser: Parser, node: Node) -> list[Node]:
    kept: list[Node] = []
    marked = node.kind in (QUOTE, SUPER) or node.mark > 0
    after_attributes = not marked
    for child in node.nodes:
        if child.kind == ATTRIBUTES:
            if after_attributes:
                kept.append(Node(PARAGRAPH, node, child.start, 0, child.start, child.start))
            if kept:
                kept[-1].marking = child
            after_attributes = True
            continue
        if (kept or marked) and _is_lost(parser, child):
            if kept:
                kept[-1].marking = attributes_node(kept[-1], child.start, child.stop)
            continue
        kept.append(child)
        after_attributes = child.marking is not None and child.kind != ITEM
    bare = marked and node.kind != SUPER and not kept
    if bare and all(child.kind != ATTRIBUTES for child in node.nodes):
        kept.append(Node(PARAGRAPH, node, node.stop, 0, node.stop, node.stop))
    return kept


def _is_lost(parser: Parser, node: Node) -> bool:
    """Whether Lute takes a paragraph for attributes of what stands before, text and all."""
    if node.kind != PARAGRAPH or not _begins(parser, node, b"{:"):
        return False
    return bool(attributes.leading_attributes(_text(parser, node)))


def _begins(parser: Parser, node: Node, sign: bytes) -> bool:
    """Whether the text of a paragraph begins with `sign`."""
    return parser.data.startswith(sign, node.start, node.stop) and (
        node.pieces is None or not node.pieces or node.pieces[0] == node.start
    )
