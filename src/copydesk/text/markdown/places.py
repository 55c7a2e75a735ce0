"""What stands between blocks, and what has to: gaps, blank lines, missing ends.

What lives here: what changes of blocks have in common. What must not: a whole
change.
"""

from __future__ import annotations

import re
from itertools import pairwise

from copydesk.text.markdown.block import Block, Profile, Tree
from copydesk.text.markdown.html import html_kind
from copydesk.text.markdown.kinds import CONFLICT, DOCUMENT, HTML, ITEM, LIST, SUPER
from copydesk.text.markdown.lines import BLANK, cut, encode
from copydesk.text.markdown.source import (
    line_start,
    lines_of,
    prefix_beside,
    prefix_within,
    text_of,
)
from copydesk.text.markdown.tree import parse

_FENCE = re.compile(rb"`+|~+|\$+").match
_TERMINATOR = re.compile(rb"\r\n|\n|\r").findall
_HTML_ENDS = (b"", b"</script>", b"-->", b"?>", b">", b"]]>")


def is_phantom(block: Block) -> bool:
    """Whether no byte stands for the block."""
    return block.start == block.stop and block.attributes is None and block.kind != DOCUMENT


def apart(tree: Tree, one: Block, other: Block) -> bool:
    """Whether a whole line stands between a block and a later one."""
    return len(_TERMINATOR(tree.data[one.end : other.start])) > 1


def follower(block: Block) -> Block | None:
    """The next block in the text that does not lie in this one."""
    at: Block | None = block
    while at is not None and at.next is None:
        at = at.parent
    return at.next if at is not None else None


def last_kind(block: Block) -> str:
    """The kind of what a block ends with, however deep; nothing where no byte stands for it."""
    while block.children:
        block = block.children[-1]
    return block.kind if block.start < block.stop else ""


def touches(tree: Tree, block: Block) -> bool:
    """Whether what follows the block stands on the very next line, and could go on with it.

    The next item of a list never does: its marker ends what stands before it.
    """
    after = follower(block)
    if after is None or after.kind == ITEM or is_phantom(after):
        return False
    return not apart(tree, block, after)


def is_tight(tree: Tree, item: Block) -> bool:
    """Whether no blank line stands between an item and those right beside it."""
    around = (item.previous, item, item.next)
    beside_it = [each for each in around if each is not None]
    return not any(apart(tree, one, other) for one, other in pairwise(beside_it))


def beside(block: Block) -> bytes:
    """The prefix of a new sibling's line: an item stands as far in as the one beside it."""
    return prefix_beside(block) + (b" " * block.indent if block.kind == ITEM else b"")


def blank_line(prefix: bytes) -> bytes:
    """A blank line, without terminator, where lines take this prefix."""
    return prefix.rstrip(BLANK)


def marker_holder(tree: Tree, block: Block) -> Block | None:
    """The container whose own marker stands on the first line of a block, before it; else None."""
    holder = block.parent
    while holder is not None and holder.kind == LIST:
        holder = holder.parent
    if holder is None or holder.kind == DOCUMENT:
        return None
    return holder if holder.start >= line_start(tree.data, block.first) else None


def bullet(tree: Tree, block: Block | None) -> bytes:
    """The sign of an item that could be part of a thematic break; else nothing."""
    sign = tree.data[block.start : block.start + 1] if block is not None else b""
    return sign if block is not None and block.kind == ITEM and sign in (b"-", b"*") else b""


def closing(tree: Tree, block: Block) -> list[bytes]:
    """The lines that end a block which has no end of its own; none for others."""
    if block.closed:
        return []
    if block.kind == CONFLICT:
        return [b">>>>>>>"]
    start = prefix_within(tree, block)
    if block.kind == SUPER:
        count = 0
        at: Block | None = block
        while at is not None:
            count += not at.closed and at.kind == SUPER
            at = at.children[-1] if at.children else None
        return [start + b"}}}"] * count
    first = text_of(tree, lines_of(tree, block)[0])
    if block.kind == HTML:
        kind = 1 if tree.profile == "siyuan" else html_kind(first, 0, in_paragraph=False)
        return [start + _HTML_ENDS[kind]]
    found = _FENCE(first)
    return [start + found[0]] if found is not None else []


def content_lines(markdown: str) -> list[bytes]:
    """The lines of a text without the blank ones around it."""
    lines = cut(encode(markdown))[0]
    while lines and not lines[0].strip(BLANK):
        del lines[0]
    while lines and not lines[-1].strip(BLANK):
        del lines[-1]
    return lines


def read_new(
    markdown: str, profile: Profile, *, front: bool = False
) -> tuple[list[bytes], tuple[Block, ...]]:
    """The lines of a new text and the blocks in it; one line at least.

    What has no end gets one, so that nothing after it is taken in. `front`: it
    stands where front matter does.
    """
    lines = content_lines(markdown)
    tree = parse(b"\n".join(lines), profile, part=not front)
    blocks = tree.root.children
    if blocks:
        lines += closing(tree, blocks[-1])
    return lines or [b""], blocks


def prefixed(lines: list[bytes], prefix: bytes, newline: bytes) -> bytes:
    """The lines with a prefix before all but the first, and line ends between them."""
    bare = blank_line(prefix)
    first, *others = lines
    return newline.join([first, *(prefix + line if line else bare for line in others)])
