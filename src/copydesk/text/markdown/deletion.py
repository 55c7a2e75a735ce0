"""Taking a block out of a text, and closing the gap it leaves.

What lives here: `deletion`. What must not: ids.
"""

from __future__ import annotations

from copydesk.text.change import Edit
from copydesk.text.markdown.block import Block, Tree
from copydesk.text.markdown.kinds import (
    BREAK,
    DOCUMENT,
    ITEM,
    LIST,
    NOTE,
    PARAGRAPH,
    QUOTE,
)
from copydesk.text.markdown.lines import BLANK
from copydesk.text.markdown.places import (
    apart,
    blank_line,
    bullet,
    is_phantom,
    marker_holder,
    touches,
)
from copydesk.text.markdown.source import line_after, line_start, line_stop, prefix_beside

_EMPTIED = (ITEM, LIST, QUOTE, NOTE)


def deleted_with(block: Block) -> Block:
    """The block that goes when this one does: a container goes with the last block in it.

    That is so for items, lists, quotes and footnotes; a super block and a
    callout stay, empty.
    """
    while (
        block.parent is not None
        and block.parent.kind in _EMPTIED
        and all(child is block or is_phantom(child) for child in block.parent.children)
    ):
        block = block.parent
    return block


def deletion(tree: Tree, block: Block) -> Edit:
    """The change that takes a block out, with its attributes and one of the gaps around it.

    Takes out `deleted_with(block)`. Law: the tree after it is the tree before it
    without that block, but for two lists of one marker that nothing parts any
    more. Raises ValueError for the document, and where no byte stands for the block.
    """
    block = deleted_with(block)
    if block.kind == DOCUMENT or is_phantom(block):
        raise ValueError("there is no byte to take out")
    data, after = tree.data, block.next
    holder = marker_holder(tree, block)
    if holder is not None and after is not None:
        return _pulled_up(tree, block, after, holder)
    before = block.previous
    if before is not None and is_phantom(before):
        before = None
    start = max(line_start(data, block.first), tree.root.start)
    stop = line_stop(data, block.end)
    bare = blank_line(prefix_beside(block))
    if after is None:
        if before is None:
            return Edit(start, line_after(data, stop), b"")
        close = tree.newline + bare if touches(tree, block) else b""
        return Edit(line_stop(data, before.end), stop, close)
    follows = line_start(data, after.first)
    if before is None:
        opens = after.kind == BREAK and start == tree.root.start
        return Edit(start, stop if opens else follows, b"")
    if block.kind == ITEM or apart(tree, before, block):
        return Edit(start, follows, b"")
    if apart(tree, block, after):
        return Edit(start, line_after(data, stop), b"")
    return Edit(start, stop, bare)


def _pulled_up(tree: Tree, block: Block, after: Block, holder: Block) -> Edit:
    """Take out the first block of a container: the next one comes on the line of the marker.

    It keeps its own line where on that of the marker it would be something else.
    """
    data = tree.data
    sign = bullet(tree, holder)
    text = data[after.start : line_stop(data, after.start)]
    rules = sign and not text.strip(BLANK + sign)
    if not rules and not after.indent and not (holder.mark and after.kind != PARAGRAPH):
        return Edit(block.start, after.start, b"")
    stop = line_start(data, after.first) - 1
    stop -= data[stop - 1 : stop + 1] == b"\r\n"
    return Edit(len(data[: block.first].rstrip(BLANK)), stop, b"")
