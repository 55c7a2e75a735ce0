"""Putting blocks into a text: at which byte, with what around them.

What lives here: `insertion`. What must not: ids, the text of other blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from copydesk.text.change import Edit
from copydesk.text.markdown.block import Block, Profile, Tree
from copydesk.text.markdown.items import as_items, marker_of
from copydesk.text.markdown.kinds import DOCUMENT, ITEM, MATTER, SUPER
from copydesk.text.markdown.lines import BLANK
from copydesk.text.markdown.places import (
    apart,
    beside,
    blank_line,
    bullet,
    closing,
    is_phantom,
    is_tight,
    marker_holder,
    prefixed,
    read_new,
    touches,
)
from copydesk.text.markdown.source import (
    filler_at,
    line_start,
    line_stop,
    prefix_beside,
    prefix_inside,
)

Where = Literal["before", "after", "first_in", "last_in"]
"""Beside a block, or in it as its first or its last child."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """A place for new blocks: text goes to byte `at`, between `before` and `after`.

    `prefix` stands before every line of the text but the first, without its
    trailing spaces where the line is empty; `newline` ends each line but the last.

    Law: the tree after `edit` is the tree before it with the blocks of the text
    in this place, and no byte of any other block is altered. Markdown cannot
    keep everything apart; it does not hold for a list beside a list of the same
    marker (they become one), a list before a block that is itself indented (it
    becomes part of the last item), anything but a paragraph as the first block
    of a task, an only line `[!NAME]` that gets company (SiYuan's callout), and a
    line `---` in a text that begins with one (the two are front matter then).
    """

    at: int
    before: bytes
    prefix: bytes
    after: bytes
    newline: bytes
    profile: Profile
    bullet: bytes = b""
    """The bullet that stands before it on the same line, if one does."""
    marker: bytes = b""
    """Between items, the marker of one of them."""

    def edit(self, markdown: str) -> Edit:
        """The change of bytes that puts the text there, without its outer blank lines."""
        lines, blocks = read_new(markdown, self.profile)
        if self.marker:
            lines = as_items(lines, blocks, self.marker)
        before = self.before
        if self.bullet and not lines[0].strip(BLANK + self.bullet):
            before += self.newline + self.prefix  # with the bullet it would be a thematic break
        if not self.at and self.profile == "gfm" and lines[0].startswith(b"---"):
            before += self.newline  # it would be front matter
        text = prefixed(lines, self.prefix, self.newline)
        return Edit(self.at, self.at, before + text + self.after)


def insertion(tree: Tree, block: Block, where: Where) -> Insertion:
    """The place before or after a block, or in it before its first or after its last child.

    Between items go items: they take the kind of marker that is there, and a
    text that is no list becomes one. Where a paragraph stands that no byte
    stands for, the text takes its place. Raises ValueError
    for a place in a block that holds none, beside the document, and before its
    front matter.
    """
    if where in ("first_in", "last_in"):
        if not block.holds_blocks:
            raise ValueError(f"a block of kind {block.kind!r} holds no blocks")
        children = [child for child in block.children if not is_phantom(child)]
        if not children:
            return _into_empty(tree, block)
        if where == "last_in":
            return _after(tree, children[-1])
        if children[0].kind == MATTER:
            return _after(tree, children[0])
        return _before(tree, children[0])
    if block.parent is None or (where == "before" and block.kind == MATTER):
        raise ValueError(f"there is no place {where} this block")
    if is_phantom(block):
        follower = block.next
        return _before(tree, follower) if follower is not None else _into_empty(tree, block.parent)
    return _before(tree, block) if where == "before" else _after(tree, block)


def _gap(tree: Tree, block: Block, prefix: bytes) -> bytes:
    """A line end, and a blank line unless items stand close together."""
    if block.kind == ITEM and is_tight(tree, block):
        return tree.newline
    return tree.newline + blank_line(prefix) + tree.newline


def _before(tree: Tree, block: Block) -> Insertion:
    data, newline, profile = tree.data, tree.newline, tree.profile
    prefix = beside(block)
    gap = _gap(tree, block, prefix)
    holder = marker_holder(tree, block)
    if holder is not None and block.kind == ITEM:
        sign = marker_of(data, block)
        return Insertion(block.start, b"", prefix, gap + prefix, newline, profile, marker=sign)
    if holder is not None:
        filler = b" " * filler_at(data, block.first, block.column)
        after, sign = gap + prefix_beside(block), bullet(tree, holder)
        return Insertion(block.first, filler, prefix, after, newline, profile, sign)
    before, previous = prefix, block.previous
    if previous is not None and not is_phantom(previous) and not apart(tree, previous, block):
        before = gap[len(newline) :] + prefix
    start = max(line_start(data, block.first), tree.root.start)
    sign = marker_of(data, block) if block.kind == ITEM else b""
    return Insertion(start, before, prefix, gap, newline, profile, marker=sign)


def _after(tree: Tree, block: Block) -> Insertion:
    newline = tree.newline
    prefix = beside(block)
    gap = _gap(tree, block, prefix)
    after = newline + blank_line(prefix) if touches(tree, block) else b""
    ends = b"".join(newline + line for line in closing(tree, block))
    at = line_stop(tree.data, block.end)
    before = ends + gap + prefix
    sign = marker_of(tree.data, block) if block.kind == ITEM else b""
    return Insertion(at, before, prefix, after, newline, tree.profile, marker=sign)


def _into_empty(tree: Tree, block: Block) -> Insertion:
    data, newline, profile = tree.data, tree.newline, tree.profile
    prefix = prefix_inside(block)
    if block.kind == DOCUMENT:
        line = line_start(data, len(data))
        before = newline if len(data) > max(line, block.start) else b""
        return Insertion(len(data), before, b"", newline, newline, profile)
    if block.kind == SUPER:
        at = line_stop(data, block.start)
        return Insertion(at, newline + prefix, prefix, b"", newline, profile)
    filler = b"" if data[block.stop - 1 : block.stop] in (b" ", b"\t") else b" "
    after = newline + blank_line(prefix) if touches(tree, block) else b""
    return Insertion(block.stop, filler, prefix, after, newline, profile, bullet(tree, block))
