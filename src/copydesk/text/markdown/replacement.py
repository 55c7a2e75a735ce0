"""Putting text in the place of a block.

What lives here: `replacement`. What must not: ids. Laws: a replacement of a
block by its own markdown changes no byte; lines that stay the same keep
theirs; no byte of another block is altered.
"""

from __future__ import annotations

import re

from copydesk.text.change import Edit
from copydesk.text.markdown.block import Block, Tree
from copydesk.text.markdown.insertion import insertion
from copydesk.text.markdown.items import as_items, marker_of
from copydesk.text.markdown.kinds import DOCUMENT, ITEM, MATTER, PARAGRAPH
from copydesk.text.markdown.lines import BLANK, decode
from copydesk.text.markdown.places import (
    apart,
    beside,
    blank_line,
    bullet,
    content_lines,
    is_phantom,
    last_kind,
    marker_holder,
    prefixed,
    read_new,
    touches,
)
from copydesk.text.markdown.source import (
    Line,
    filler_at,
    line_start,
    lines_of,
    markdown_of,
    prefix_beside,
    prefix_within,
    text_of,
)

_MARKER = re.compile(rb"([-+*]|[0-9]{1,9}[.)])(?:[ \t]+|\Z)").match


def replacement(tree: Tree, block: Block, markdown: str) -> tuple[Edit, ...]:
    """The changes that put a text in the place of a block; none when nothing changes.

    Lines at the start and at the end of the text that are those of the block
    keep their bytes, line ends and prefixes. The block keeps its attributes;
    further blocks of the text go behind them. A blank line is put where the new
    text would run into what stands before or after it; before it, the lines of
    the block are then all written. In the place of an item
    go items, with its kind of marker; a text that is no list becomes one.
    Raises ValueError for an empty text, and for the document.
    """
    if block.kind == DOCUMENT or not markdown.strip():
        raise ValueError("a document is not replaced, nor a block by nothing")
    if block.start == block.stop:
        return (insertion(tree, block, "before").edit(markdown),)
    if content_lines(markdown) == content_lines(markdown_of(tree, block)):
        return ()
    lines, blocks = read_new(markdown, tree.profile, front=block.kind == MATTER)
    if block.kind == ITEM:
        lines = as_items(lines, blocks, marker_of(tree.data, block))
        lines, blocks = read_new(decode(b"\n".join(lines)), tree.profile)
    if block.attributes is None or block.attributes[0] < block.stop or len(blocks) < 2:
        return _in_place(tree, block, lines, blocks)
    text = b"\n".join(lines)
    second = text.count(b"\n", 0, blocks[1].start)
    first = lines[:second]
    while not first[-1].strip(BLANK):
        del first[-1]
    behind = insertion(tree, block, "after").edit(decode(b"\n".join(lines[second:])))
    return (*_in_place(tree, block, first, blocks[:1]), behind)


def _in_place(
    tree: Tree, block: Block, lines: list[bytes], blocks: tuple[Block, ...]
) -> tuple[Edit, ...]:
    if block.kind == ITEM:
        begins, ends = True, True
    else:
        begins = bool(blocks) and blocks[0].kind == block.kind
        begins = begins and not _may_run_on(tree, block, lines) and not _fronts(tree, block, lines)
        ends = bool(blocks) and blocks[-1].kind == block.kind
    if blocks and last_kind(blocks[-1]) != last_kind(block):
        ends = False
    ends = ends or block.end > block.stop or not touches(tree, block)
    behind = b"" if ends else tree.newline + blank_line(beside(block))
    if not begins:
        return (_anew(tree, block, lines, behind),)
    if block.kind == ITEM and block.attributes is not None and block.attributes[0] < block.stop:
        lines = _with_attributes(tree, block, lines)
    return _altered(tree, block, lines, behind)


def _fronts(tree: Tree, block: Block, lines: list[bytes]) -> bool:
    """Whether the new text would be front matter, or begin some."""
    first = tree.profile == "gfm" and block.first == tree.root.start and block.kind != MATTER
    return first and lines[0].startswith(b"---")


def _may_run_on(tree: Tree, block: Block, lines: list[bytes]) -> bool:
    """Whether another paragraph in its place could go on with the one on the line before."""
    before = block.previous
    if lines[0] == text_of(tree, lines_of(tree, block)[0]):
        return False
    if before is None or block.kind != PARAGRAPH or not _follows_closely(tree, block):
        return False
    return last_kind(before) == PARAGRAPH


def _anew(tree: Tree, block: Block, lines: list[bytes], behind: bytes) -> Edit:
    """A text of another kind, from where the parent's content starts."""
    data, newline = tree.data, tree.newline
    prefix = prefix_beside(block)
    start, before = block.first, b" " * filler_at(data, block.first, block.column)
    holder = marker_holder(tree, block)
    if holder is not None:
        sign = bullet(tree, holder)
        if sign and not lines[0].strip(BLANK + sign):
            before += newline + prefix
    elif _follows_closely(tree, block):
        start = line_start(data, block.first)
        before = blank_line(prefix) + newline + prefix
    elif lines_of(tree, block)[0].lazy:
        start, before = line_start(data, block.first), prefix
    elif _fronts(tree, block, lines):
        before = newline
    return Edit(start, block.stop, before + prefixed(lines, prefix, newline) + behind)


def _follows_closely(tree: Tree, block: Block) -> bool:
    """Whether a block stands on the line before, and not even attributes between."""
    before = block.previous
    if before is None or is_phantom(before) or before.end > before.stop:
        return False
    return not apart(tree, before, block)


def _altered(tree: Tree, block: Block, lines: list[bytes], behind: bytes) -> tuple[Edit, ...]:
    """A text of the same kind: only the lines between those that stay are written."""
    old = lines_of(tree, block)
    texts = [text_of(tree, line) for line in old]
    head = 0
    while head < min(len(texts), len(lines)) and texts[head] == lines[head]:
        head += 1
    if head == len(texts) == len(lines) and not behind:
        return ()
    tail = 0
    most = min(len(texts), len(lines)) - max(head, 1)
    while tail < most and texts[-1 - tail] == lines[-1 - tail] and not old[-1 - tail].lazy:
        tail += 1
    if behind:
        tail = 0
    newline = _newline_in(tree, old)
    prefix = prefix_within(tree, block)
    new = lines[head : len(lines) - tail]
    last = old[len(old) - tail - 1]
    stop = last.stop if new else last.end
    if not head:
        start, before = block.start, b""
        if old[0].lazy:
            start, before = line_start(tree.data, start), prefix
        elif old[0].pad:
            before = b" " * filler_at(tree.data, start, block.column)
        return (Edit(start, stop, before + prefixed(new, prefix, newline) + behind),)
    start = old[head - 1].end
    text = prefixed([b"", *new], prefix, newline) if new else b""
    return (Edit(start, max(start, stop), text + behind),)


def _newline_in(tree: Tree, lines: tuple[Line, ...]) -> bytes:
    """The terminator of a block's first line, if it has several."""
    if len(lines) < 2:
        return tree.newline
    return tree.data[lines[0].end : lines[1].at]


def _with_attributes(tree: Tree, item: Block, lines: list[bytes]) -> list[bytes]:
    """The lines of an item, with its attributes behind the marker."""
    found = _MARKER(lines[0])
    assert item.attributes is not None
    text = tree.data[item.attributes[0] : item.attributes[1]]
    if found is None:
        return lines
    return [lines[0][: found.end()] + text + lines[0][found.end() :], *lines[1:]]
