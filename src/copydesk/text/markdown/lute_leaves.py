"""The leaves that only Lute has, or has in its own way: conflicts, HTML, mathematics, embeds.

What lives here: how they start and go on. What must not: containers.
"""

from __future__ import annotations

from copydesk.text.markdown import attributes, lute_html
from copydesk.text.markdown.kinds import (
    AUDIO,
    CONFLICT,
    EMBED,
    HTML,
    IFRAME,
    MATH,
    PARAGRAPH,
    VIDEO,
    VIEW,
    WIDGET,
)
from copydesk.text.markdown.lute_finish import attributes_node, trim
from copydesk.text.markdown.node import Node
from copydesk.text.markdown.parser import AGAIN, LEAF, NO, STAYS, TAKEN, Parser


def conflict_start(parser: Parser, container: Node) -> int:
    """A line that begins with seven `<`, wherever it stands."""
    if not parser.line.startswith(b"<<<<<<<"):
        return NO
    parser.close_unmatched()
    parser.add(CONFLICT).closed = False
    return LEAF


def conflict_resume(parser: Parser, node: Node) -> int:
    """A conflict goes on until a line begins with seven `>`."""
    if not parser.line.startswith(b">>>>>>>"):
        return STAYS
    node.stop = parser.at + len(parser.line)
    node.closed = True
    parser.finish(node)
    return TAKEN


def html_start(parser: Parser, container: Node) -> int:
    """A frame, a player, a view, or HTML that begins with `<div`; other HTML is text.

    Whatever is HTML ends what the line does not continue, text or not.
    """
    if b"<span " in parser.line:
        return NO
    text = parser.line[parser.nonspace :]
    kind = lute_html.html_kind(text, parser.tip.kind == PARAGRAPH)
    if not kind:
        return NO
    parser.close_unmatched()
    text = trim(text)
    if text.endswith(b">"):
        for tag, block in ((b"<iframe", IFRAME), (b"<video", VIDEO), (b"<audio", AUDIO)):
            if text.startswith(tag):
                widget = block == IFRAME and b'data-subtype="widget"' in text
                parser.add(WIDGET if widget else block)
                return LEAF
    if not text.startswith(b"<div"):
        return NO
    if (
        b'data-type="NodeAttributeView"' in text
        and b'data-av-type="' in text
        and text.endswith(b"</div>")
    ):
        parser.add(VIEW)
        return LEAF
    node = parser.add(HTML)
    node.sort, node.closed = kind, kind != lute_html.SCRIPT
    return LEAF


def html_resume(parser: Parser, node: Node) -> int:
    """HTML goes on until a blank line, or its end tag, or a line of attributes."""
    if parser.blank:
        return AGAIN if node.sort in (lute_html.RAW, lute_html.OPEN) else STAYS
    rest = parser.line[parser.offset :]
    if _named(rest):
        if node.within_item:
            rest = rest.lstrip(attributes.SPACE)
        if attributes.line_attributes(rest):
            return AGAIN
    return STAYS


def html_taken(parser: Parser, node: Node) -> None:
    """HTML of a script ends with the line of its end tag."""
    if node.sort == lute_html.SCRIPT and lute_html.SCRIPT_END(parser.line, parser.offset):
        node.closed = True
        parser.finish(node)


def _named(text: bytes) -> bool:
    """Whether Lute takes the trouble to look for attributes."""
    return len(text) > 6 and b'id="' in text and text.lstrip(attributes.SPACE).startswith(b"{:")


def math_start(parser: Parser, container: Node) -> int:
    """Two or more `$`."""
    if not parser.line.startswith(b"$$", parser.nonspace):
        return NO
    parser.close_unmatched()
    indent = parser.indent
    node = parser.add(MATH)
    node.closed = False
    node.stop = parser.at + len(parser.line)
    parser.to_nonspace()
    parser.skip(min(indent, len(parser.line) - parser.offset))
    return LEAF


def math_taken(parser: Parser, node: Node) -> None:
    """Mathematics ends with a line that ends with `$$`, if it has another one before."""
    text = parser.line if _in_document(parser, node) else parser.line[parser.offset :]
    first = text.find(b"$$")
    if first < 0:
        return
    last = text.rfind(b"$$")
    if (node.sort or last != first) and trim(text[last:]) == b"$$":
        node.closed = True
        parser.finish(node)
    node.sort = 1


def _in_document(parser: Parser, node: Node) -> bool:
    return node.holder is parser.root and parser.line[:1] in (b" ", b"\t")


def math_resume(parser: Parser, node: Node) -> int:
    """Mathematics goes on until a line of `$` alone, or one of attributes."""
    if parser.blank:
        return STAYS
    rest = parser.line[parser.nonspace :]
    if parser.indent < 4:
        if rest.startswith(b"$$") and not rest.rstrip(attributes.SPACE).strip(b"$"):
            node.stop = parser.at + len(parser.line)
            node.closed = True
            parser.finish(node)
            return TAKEN
        if _named(rest) and attributes.line_attributes(rest):
            at = parser.at
            node.marking = attributes_node(node, at + parser.nonspace, at + len(parser.line))
            parser.finish(node)
            return TAKEN
    return STAYS


def embed_start(parser: Parser, container: Node) -> int:
    """`{{ query }}` on one line."""
    text = parser.line[parser.nonspace :]
    if not text.startswith(b"{{") or not trim(text[2:]).endswith(b"}}"):
        return NO
    parser.close_unmatched()
    parser.add(EMBED)
    return LEAF
