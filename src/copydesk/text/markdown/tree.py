"""From a text to its tree of blocks, and the ids that the text itself names.

Law: never raises, whatever the text, and takes time in proportion to its length.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence

from copydesk.text.markdown import gfm, lute
from copydesk.text.markdown.block import (
    AGAIN_PARSED,
    BLANK,
    BOM,
    DOCUMENT,
    HEADING,
    ITEM,
    MATTER,
    PARAGRAPH,
    TAB,
    Node,
    Profile,
    Tree,
    cut,
    encode,
    newline_of,
)
from copydesk.text.markdown.parser import Parser, leading_attributes, line_attributes, value_of

_ID = re.compile(
    rb"""^id:[ \t]+(?:"([^"\\\n]+)"|'([^'\n]+)'|([^\s"'#\[{&*!|>%@`][^\n#]*?))"""
    rb"""[ \t]*(?:[ \t]#.*)?\r?$""",
    re.MULTILINE,
)
_MARK = re.compile(rb"(?:\A|[ \t\n])\^([A-Za-z0-9-]+)[ \t]*\Z").search

_LONGEST = 100
"""A mark is not looked for further from the end of its line than this many bytes."""


def matter_lines(lines: Sequence[bytes]) -> int:
    """How many lines of front matter a text begins with, its fences included; 0 for none."""
    if not lines or lines[0].rstrip(b" \t") != b"---":
        return 0
    for count, line in enumerate(lines[1:], 2):
        if line.rstrip(b" \t") in (b"---", b"..."):
            return count
    return 0


def matter_id(matter: bytes) -> str | None:
    """The id that front matter gives the document."""
    found = _ID.search(matter)
    return _text(next(filter(None, found.groups()))) if found is not None else None


def marked_id(data: bytes, start: int, stop: int) -> str | None:
    """The `^id` that the text [start, stop) ends with."""
    found = _MARK(data[max(start, stop - _LONGEST) : stop])
    return _text(found[1]) if found is not None else None


def attributes_id(text: bytes) -> str | None:
    """The id in a line of attributes, or in a mark that stands there instead."""
    if text.startswith(b"^"):
        return marked_id(text, 0, len(text))
    pairs = leading_attributes(text) or line_attributes(text)
    value = value_of(pairs, b"id")
    return _text(value) if value else None


def _text(value: bytes) -> str | None:
    text = value.decode("utf-8", "replace").strip()
    return text or None


_LARGE = 100_000
"""Bytes from which on it pays to hold the collector of cycles."""


def parse(text: bytes | str, profile: Profile = "gfm", *, part: bool = False) -> Tree:
    """The blocks of a Markdown text, with the bytes each of them stands on.

    `part`: it is to stand within another text, and so begins with no front matter.
    A `str` is counted in its UTF-8. In the profile `gfm` a byte order mark is
    no part of the text; in `siyuan` it is the first character of a paragraph,
    as it is for the kernel.
    """
    data = encode(text) if isinstance(text, str) else text
    paused = len(data) > _LARGE and gc.isenabled()
    if paused:
        gc.disable()  # a tree in the making is no garbage, and looking for some doubles the time
    try:
        return _parse(data, profile, part)
    finally:
        if paused:
            gc.enable()


def _parse(data: bytes, profile: Profile, part: bool) -> Tree:
    start = len(BOM) if profile == "gfm" and data.startswith(BOM) else 0
    lines, starts = cut(data, start)
    root = Node(DOCUMENT, None, start, 0, start, len(data))
    before: Node | None = None
    if profile == "gfm" and not part:
        count = matter_lines(lines)
        if count:
            stop = starts[count - 1] + len(lines[count - 1])
            before = Node(MATTER, root, start, 0, start, stop)
            del lines[:count], starts[:count]
    parser = Parser(data, gfm.RULES if profile == "gfm" else lute.RULES, root)
    parser.run(lines, starts)
    if profile == "gfm":
        gfm.settle(parser)
    else:
        lute.settle(parser)
    if before is not None:
        root.nodes = [before, *root.nodes]
        root.anchor = matter_id(data[before.start : before.stop])
    _settle(data, root)
    return Tree(data, profile, root, newline_of(data))


def _settle(data: bytes, root: Node) -> None:
    """Make blocks of the nodes: their places in columns, their anchors, their children."""
    marks = b"^" in data
    if root.marking is not None and root.anchor is None:
        _name(data, root, root.marking)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        children = node.nodes
        for index, child in enumerate(children):
            child.loose = child.holder is not None and child.holder.kind == AGAIN_PARSED
            child.parent, child.index = node, index
            _place(data, child)
            if child.marking is not None:
                _name(data, child, child.marking)
            if marks and child.kind in (PARAGRAPH, HEADING):
                owner = node if not index and node.kind == ITEM else child
                owner.anchor = owner.anchor or marked_id(data, child.start, child.stop)
            if child.nodes:
                waiting.append(child)
            else:
                child.settled()
        node.children = tuple(children)
        node.settled()


def _name(data: bytes, node: Node, marking: Node) -> None:
    node.attributes = (marking.start, marking.stop)
    node.anchor = attributes_id(data[marking.start : marking.stop])


def _place(data: bytes, node: Node) -> None:
    """Take the spaces at the end off a node's span, and count its indentation."""
    start, stop = node.start, node.stop
    while stop > start and data[stop - 1] in BLANK:
        stop -= 1
    if start == stop:  # no byte stands for it: it is where the text before it ends
        while start and data[start - 1] in BLANK:
            start -= 1
        node.start = node.first = stop = start
    node.stop = stop
    if node.first < start and node.kind != ITEM:
        column = node.column
        for byte in data[node.first : start]:
            column += TAB - column % TAB if byte == 9 else 1
        node.indent = column - node.column
