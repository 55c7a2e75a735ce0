"""Insert, delete and replace one block, as edits of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from copydesk.notes.markdown.block import (
    BLANK,
    BREAK,
    CONFLICT,
    DOCUMENT,
    HTML,
    ITEM,
    LIST,
    MATTER,
    NOTE,
    PARAGRAPH,
    QUOTE,
    SUPER,
    TAB,
    Block,
    Profile,
    Tree,
    cut,
    decode,
    encode,
)
from copydesk.notes.markdown.parser import LAST_CLOSED, html_kind
from copydesk.notes.markdown.tree import (
    filler_at,
    line_after,
    line_start,
    line_stop,
    lines_of,
    markdown_of,
    parse,
    parse_new,
    prefix_beside,
    prefix_inside,
    prefix_within,
    text_of,
)
from copydesk.text.change import Edit

_FENCE = re.compile(rb"\A(?:`+|~+|\$+)").findall
_TERMINATOR = re.compile(rb"\r\n|\n|\r")
_RAW = re.compile(rb"<(script|pre|style|textarea)", re.IGNORECASE).search
_HTML_ENDS = (b"", b"</script>", b"-->", b"?>", b">", b"]]>")


def is_phantom(block: Block) -> bool:
    """Whether the block has no bytes."""
    return block.start == block.stop and block.attributes is None and block.kind != DOCUMENT


def apart(tree: Tree, above: Block, below: Block) -> bool:
    """Whether a whole line is between a block and a later one."""
    return len(_TERMINATOR.findall(tree.data[above.end : below.start])) > 1


def last_inside(block: Block) -> Iterator[Block]:
    """Yield the block, its last child, the last child of that, and so on."""
    yield block
    while block.children:
        block = block.children[-1]
        yield block


def last_kind(block: Block) -> str:
    """The kind of the innermost last block; empty if that has no bytes."""
    *_, last = last_inside(block)
    return last.kind if last.start < last.stop else ""


def touches(tree: Tree, block: Block) -> bool:
    """Whether the next line could continue the block; the next item of a list never does."""
    after = next((each.next for each in (block, *block.ancestors()) if each.next is not None), None)
    return (
        after is not None
        and after.kind != ITEM
        and not is_phantom(after)
        and not apart(tree, block, after)
    )


def is_tight(tree: Tree, item: Block) -> bool:
    """Whether no blank line is between an item and its neighbours."""
    beside_it = [each for each in (item.previous, item, item.next) if each is not None]
    return not any(apart(tree, above, below) for above, below in pairwise(beside_it))


def beside(block: Block) -> bytes:
    """The prefix of a new sibling's line; an item is indented like the one next to it."""
    return prefix_beside(block) + (b" " * block.indent if block.kind == ITEM else b"")


def newline_at(tree: Tree, at: int) -> bytes:
    """The terminator at a byte, or that of new lines if there is none."""
    found = _TERMINATOR.match(tree.data, at)
    return found[0] if found else tree.newline


def without_lines(data: bytes, start: int, stop: int) -> Edit:
    """Take out the lines between two terminators; the line before them keeps its own.

    Without a terminator at the end the one before them goes.
    """
    if stop == len(data):
        return Edit(start, stop, b"")
    return Edit(line_after(data, start), line_after(data, stop), b"")


def blank_line(prefix: bytes) -> bytes:
    """A blank line, without terminator, among lines with this prefix."""
    return prefix.rstrip(BLANK)


def marker_holder(tree: Tree, block: Block) -> Block | None:
    """The container whose marker is on the block's first line, before it; None if there is none."""
    holder = next((each for each in block.ancestors() if each.kind != LIST), None)
    if holder is None or holder.kind == DOCUMENT:
        return None
    return holder if holder.start >= line_start(tree.data, block.first) else None


def makes_break(tree: Tree, block: Block, line: bytes) -> bool:
    """Whether a line would be a thematic break, together with the bullet of an item before it."""
    sign = marker_of(tree.data, block)
    return sign in (b"-", b"*") and not line.strip(BLANK + sign)


def closing(tree: Tree, block: Block) -> list[bytes]:
    """The lines that close a block which lacks its end; none for other blocks."""
    if block.closed:
        return []
    if block.kind == CONFLICT:
        return [b">>>>>>>"]
    start = prefix_within(tree, block)
    if block.kind == SUPER:
        opened = sum(each.kind == SUPER and not each.closed for each in last_inside(block))
        return [start + b"}}}"] * opened
    first = text_of(tree, lines_of(tree, block)[0])
    if block.kind == HTML:
        kind = 1 if tree.profile == "siyuan" else html_kind(first, 0, in_paragraph=False)
        tag = _RAW(first) if kind == 1 else None
        return [start + (b"</%s>" % tag[1] if tag else _HTML_ENDS[kind])]
    return [start + fence for fence in _FENCE(first)]


def content_lines(markdown: str) -> list[bytes]:
    """The lines of a text without the blank ones around them."""
    lines = cut(encode(markdown))[0]
    inked = [number for number, line in enumerate(lines) if line.strip(BLANK)]
    return lines[inked[0] : inked[-1] + 1] if inked else []


def read_new(
    markdown: str, profile: Profile, *, front: bool = False
) -> tuple[list[bytes], tuple[Block, ...]]:
    """Parse a new text; return its lines, at least one, and its blocks.

    A last block without an end gets one, so that it takes in nothing after it. `front`: the text
    replaces front matter.
    """
    lines = content_lines(markdown)
    data = b"\n".join(lines)
    tree = parse(data, profile) if front else parse_new(data, profile)
    blocks = tree.root.children
    if blocks:
        lines += closing(tree, blocks[-1])
    return lines or [b""], blocks


def prefixed(lines: list[bytes], prefix: bytes, newline: bytes) -> bytes:
    """Join the lines with line ends, with a prefix before all but the first."""
    bare = blank_line(prefix)
    first, *others = lines
    return newline.join([first, *(prefix + line if line else bare for line in others)])


_ITEM_MARKER = re.compile(rb"[-+*]|[0-9]{1,9}[.)]").match


def marker_of(data: bytes, block: Block) -> bytes:
    """The marker of an item, such as `-` or `2.`; empty for other blocks."""
    marker = _ITEM_MARKER(data, block.start) if block.kind == ITEM else None
    return marker[0] if marker is not None else b""


def as_items(lines: list[bytes], blocks: tuple[Block, ...], marker: bytes) -> list[bytes]:
    """Return the lines of a text as items of the list that `marker` is from.

    `blocks` are those of the text, counted in its lines joined by LF. A marker of another kind is
    replaced, and the content of the item is indented to fit the new one; numbers stay. A text that
    is not a list becomes one item.
    """
    if not blocks or any(block.kind != LIST for block in blocks):
        return [marker + b" " + lines[0], *_shifted(lines[1:], len(marker) + 1)]
    text = b"\n".join(lines)
    items = [item for block in blocks for item in block.children]
    first = [text.count(b"\n", 0, item.start) for item in items]
    new_lines = lines[: first[0]]
    for item, start, stop in zip(items, first, [*first[1:], len(lines)], strict=True):
        old = marker_of(text, item)
        new = old[:-1] + marker[-1:] if old[-1:] in b".)" and marker[-1:] in b".)" else marker
        new_lines.append(lines[start].replace(old, new, 1))
        new_lines += _shifted(lines[start + 1 : stop], len(new) - len(old))
    return new_lines


def _shifted(lines: list[bytes], columns: int) -> list[bytes]:
    if columns >= 0:
        return [b" " * columns + line if line else line for line in lines]
    return [line[min(-columns, len(line) - len(line.lstrip(b" "))) :] for line in lines]


Where = Literal["before", "after", "first_in", "last_in"]
"""Next to a block, or in it as its first or last child."""


def insertion(tree: Tree, block: Block, where: Where, markdown: str) -> Edit:
    """Return the edit that inserts a text, without its outer blank lines, beside or in a block.

    Only items go between items: they take the kind of marker used there, and a text that is not a
    list becomes one. At a paragraph that has no bytes, the text takes its place. Raises ValueError
    for a place in a block that holds none, next to the document, and before its front matter.

    Law: the tree after it is the tree before it with the blocks of the text in this place, and
    no byte of any other block changes. Markdown cannot keep everything apart; the law does not hold
    for a list next to a list of the same marker (they become one), a list before a block that is
    itself indented (it becomes part of the last item), anything but a paragraph as the first block
    of a task, an only line `[!NAME]` that gets company (SiYuan's callout), and a line `---` in a
    text that begins with one (the two become front matter).
    """
    holder = block.parent
    if where in ("first_in", "last_in"):
        if not block.holds_blocks:
            raise ValueError(f"a block of kind {block.kind!r} holds no blocks")
        children = [child for child in block.children if not is_phantom(child)]
        if not children:
            return _into_empty(tree, block, markdown)
        block = children[-1 if where == "last_in" else 0]
        behind = where == "last_in" or block.kind == MATTER
    elif holder is None or (where == "before" and block.kind == MATTER):
        raise ValueError(f"there is no place {where} this block")
    elif not is_phantom(block):
        behind = where == "after"
    elif block.next is not None:
        block, behind = block.next, False
    else:
        return _into_empty(tree, holder, markdown)
    return (_after if behind else _before)(tree, block, markdown)


def _put(
    tree: Tree,
    markdown: str,
    at: int,
    before: bytes,
    prefix: bytes,
    after: bytes,
    *,
    holder: Block | None = None,
    marker: bytes = b"",
) -> Edit:
    """Insert a text at byte `at`, between `before` and `after`.

    `prefix` goes before every line of the text but the first, without its trailing spaces on an
    empty line; the terminator of the tree ends each line but the last. `holder`: whose marker is
    before it on the same line, if there is one. `marker`: between items, that of one of them.
    """
    lines, blocks = read_new(markdown, tree.profile)
    if marker:
        lines = as_items(lines, blocks, marker)
    if holder is not None and makes_break(tree, holder, lines[0]):
        before += tree.newline + prefix
    if not at and tree.profile == "gfm" and lines[0].startswith(b"---"):
        before += tree.newline  # it would be front matter
    return Edit(at, at, before + prefixed(lines, prefix, tree.newline) + after)


def _gap(tree: Tree, block: Block, prefix: bytes) -> bytes:
    """A line end, and a blank line unless the list is tight around the item."""
    tight = block.kind == ITEM and is_tight(tree, block)
    return tree.newline if tight else tree.newline + blank_line(prefix) + tree.newline


def _before(tree: Tree, block: Block, markdown: str) -> Edit:
    data, newline = tree.data, tree.newline
    prefix, marker = beside(block), marker_of(data, block)
    gap = _gap(tree, block, prefix)
    holder = marker_holder(tree, block)
    if holder is not None and block.kind == ITEM:
        return _put(tree, markdown, block.start, b"", prefix, gap + prefix, marker=marker)
    if holder is not None:
        filler = b" " * filler_at(data, block.first, block.column)
        return _put(tree, markdown, block.first, filler, prefix, gap + prefix, holder=holder)
    before, previous = prefix, block.previous
    if previous is not None and not is_phantom(previous) and not apart(tree, previous, block):
        before = gap[len(newline) :] + prefix
    start = max(line_start(data, block.first), tree.root.start)
    return _put(tree, markdown, start, before, prefix, gap, marker=marker)


def _after(tree: Tree, block: Block, markdown: str) -> Edit:
    at = line_stop(tree.data, block.end)
    newline = newline_at(tree, at)  # the line before keeps its own, the text ends in that at `at`
    tree = replace(tree, newline=newline)
    prefix, marker = beside(block), marker_of(tree.data, block)
    after = newline + blank_line(prefix) if touches(tree, block) else b""
    ends = b"".join(newline + line for line in closing(tree, block))
    before = ends + _gap(tree, block, prefix) + prefix
    return _put(tree, markdown, at, before, prefix, after, marker=marker)


def _into_empty(tree: Tree, block: Block, markdown: str) -> Edit:
    data, newline, prefix = tree.data, tree.newline, prefix_inside(block)
    if block.kind == DOCUMENT:
        line = line_start(data, len(data))
        before = newline if len(data) > max(line, block.start) else b""
        return _put(tree, markdown, len(data), before, b"", newline)
    if block.kind == SUPER:
        return _put(tree, markdown, line_stop(data, block.start), newline + prefix, prefix, b"")
    filler = b"" if data[block.stop - 1 : block.stop] in (b" ", b"\t") else b" "
    after = newline + blank_line(prefix) if touches(tree, block) else b""
    return _put(tree, markdown, block.stop, filler, prefix, after, holder=block)


_EMPTIED = (ITEM, LIST, QUOTE, NOTE)


def deleted_with(block: Block) -> Block:
    """The block that is deleted with this one: a container is deleted with its last child.

    This applies to items, lists, quotes and footnotes; a super block and a callout stay, empty.
    """
    while (
        block.parent is not None
        and block.parent.kind in _EMPTIED
        and all(child is block or is_phantom(child) for child in block.parent.children)
    ):
        block = block.parent
    return block


def deletion(tree: Tree, block: Block) -> Edit:
    """Return the edit that deletes a block, with its attributes and one of the gaps around it.

    Deletes `deleted_with(block)`. Law: the tree after it is the tree before it without that block,
    except that two lists of one marker may join. Raises ValueError for the document and for a block
    that has no bytes.
    """
    block = deleted_with(block)
    if block.kind == DOCUMENT or is_phantom(block):
        raise ValueError("there is no byte to take out")
    data, after = tree.data, block.next
    holder = marker_holder(tree, block)
    if holder is not None and after is not None:
        return _pulled_up(tree, block, after, holder)
    before = None if block.previous is None or is_phantom(block.previous) else block.previous
    start = max(line_start(data, block.first), tree.root.start)
    stop = line_stop(data, block.end)
    bare = blank_line(prefix_beside(block))
    if after is None:
        if before is None:
            return Edit(start, line_after(data, stop), b"")
        end = line_stop(data, before.end)
        if touches(tree, block):
            return Edit(end, stop, newline_at(tree, end) + bare)
        return without_lines(data, end, stop)
    follows = line_start(data, after.first)
    if after.kind == BREAK and start == tree.root.start:  # a first line `---` is front matter
        return Edit(start, stop, b"")
    if before is None or block.kind == ITEM or apart(tree, before, block):
        return Edit(start, follows, b"")
    if apart(tree, block, after):
        return Edit(start, line_after(data, stop), b"")
    return Edit(start, stop, bare)


def _pulled_up(tree: Tree, block: Block, after: Block, holder: Block) -> Edit:
    """Delete a container's first block; move the next to its line if that parses the same."""
    data = tree.data
    breaks = makes_break(tree, holder, data[after.start : line_stop(data, after.start)])
    if holder.kind == QUOTE:  # the next line has a `>` of its own, and what follows that stays
        start = max(line_start(data, block.first), tree.root.start)
        on_line = {each.kind for each in block.ancestors() if each.start >= start}
        if on_line <= {QUOTE, DOCUMENT}:
            return Edit(start, line_start(data, after.first), b"")
        return Edit(block.first, after.first, b"")
    if not breaks and not after.indent and not (holder.mark and after.kind != PARAGRAPH):
        return Edit(block.start, after.start, b"")
    stop = line_start(data, after.first) - 1
    stop -= data[stop - 1 : stop + 1] == b"\r\n"
    return Edit(len(data[: block.first].rstrip(BLANK)), stop, b"")


_MARKER = re.compile(rb"\A(?:[-+*]|[0-9]{1,9}[.)])(?:[ \t]+|\Z)").sub


def replacement(tree: Tree, block: Block, markdown: str) -> tuple[Edit, ...]:
    """Return the edits that replace a block by a text; none if nothing changes.

    Lines that are the same at the start and at the end keep their bytes, line ends and prefixes.
    The block keeps its attributes; further blocks of the text go after them. A blank line is added
    where the new text would run into what is before or after it; if before it, all lines of the
    block are written. An item is replaced by items, with its kind of marker; a text that is not a
    list becomes one. Raises ValueError for an empty text, and for the document.
    """
    if block.kind == DOCUMENT or not markdown.strip():
        raise ValueError("a document is not replaced, nor a block by nothing")
    if block.start == block.stop:
        return (insertion(tree, block, "before", markdown),)
    if content_lines(markdown) == content_lines(markdown_of(tree, block)):
        return ()
    lines, blocks = read_new(markdown, tree.profile, front=block.kind == MATTER)
    if block.kind == ITEM:
        lines = as_items(lines, blocks, marker_of(tree.data, block))
    lead = len(lines[0]) - len(lines[0].lstrip(b" "))
    # behind the marker of an item it would move what the item has
    if block.kind == ITEM or (lead < TAB and (marker_holder(tree, block) or block).kind == ITEM):
        lines, blocks = read_new(decode(b"\n".join(_shifted(lines, -lead))), tree.profile)
    if block.attributes is None or block.attributes[0] < block.stop or len(blocks) < 2:
        return _in_place(tree, block, lines, blocks)
    second = b"\n".join(lines).count(b"\n", 0, blocks[1].start)
    first = content_lines(decode(b"\n".join(lines[:second])))
    behind = insertion(tree, block, "after", decode(b"\n".join(lines[second:])))
    return (*_in_place(tree, block, first, blocks[:1]), behind)


def _in_place(
    tree: Tree, block: Block, lines: list[bytes], blocks: tuple[Block, ...]
) -> tuple[Edit, ...]:
    is_item = block.kind == ITEM
    kinds = [block.kind if is_item else each.kind for each in blocks] or [""]
    ends = kinds[-1] == block.kind and (not blocks or last_kind(blocks[-1]) == last_kind(block))
    if ends and tree.profile == "gfm" and last_kind(block) == HTML:  # it may end at a blank line
        new, old = _html_kind(b"\n".join(lines), blocks[-1]), _html_kind(tree.data, block)
        ends = new <= LAST_CLOSED or new == old
    ends = ends or block.end > block.stop or not touches(tree, block)
    behind = b"" if ends else tree.newline + blank_line(beside(block))
    runs_on = _may_run_on(tree, block, lines) or _fronts(tree, block, lines)
    is_further_in = block.indent > 0 and lines[0][:1] in (b" ", b"\t")
    if kinds[0] != block.kind or ((runs_on or is_further_in) and not is_item):
        return (_anew(tree, block, lines, behind),)
    if is_item and block.attributes is not None and block.attributes[0] < block.stop:
        text = tree.data[slice(*block.attributes)]
        lines = [_MARKER(lambda marker: marker[0] + text, lines[0]), *lines[1:]]
    return _altered(tree, block, lines, behind)


def _html_kind(data: bytes, block: Block) -> int:
    """How the HTML block that is the innermost last one begins."""
    *_, last = last_inside(block)
    return html_kind(data[last.start :].partition(b"\n")[0], 0, in_paragraph=False)


def _fronts(tree: Tree, block: Block, lines: list[bytes]) -> bool:
    """Whether the new text would become or begin front matter."""
    first = tree.profile == "gfm" and block.first == tree.root.start and block.kind != MATTER
    return first and lines[0].startswith(b"---")


def _may_run_on(tree: Tree, block: Block, lines: list[bytes]) -> bool:
    """Whether a new paragraph in its place could continue the one on the line before."""
    before = block.previous
    return (
        block.kind == PARAGRAPH
        and before is not None
        and last_kind(before) == PARAGRAPH
        and _follows_closely(tree, block)
        and lines[0] != text_of(tree, lines_of(tree, block)[0])
    )


def _anew(tree: Tree, block: Block, lines: list[bytes], behind: bytes) -> Edit:
    """Replace by a text of another kind, starting where the parent's content does."""
    data, newline = tree.data, tree.newline
    prefix = prefix_beside(block)
    start, before = block.first, b" " * filler_at(data, block.first, block.column)
    holder = marker_holder(tree, block)
    if holder is not None:
        before += newline + prefix if makes_break(tree, holder, lines[0]) else b""
    elif _follows_closely(tree, block):
        start = line_start(data, block.first)
        before = blank_line(prefix) + newline + prefix
    elif lines_of(tree, block)[0].lazy:
        start, before = line_start(data, block.first), prefix
    elif _fronts(tree, block, lines):
        before = newline
    return Edit(start, block.stop, before + prefixed(lines, prefix, newline) + behind)


def _follows_closely(tree: Tree, block: Block) -> bool:
    """Whether a block starts on the line after the previous one, without attributes between."""
    before = block.previous
    return (
        before is not None
        and before.end == before.stop
        and not is_phantom(before)
        and not apart(tree, before, block)
    )


def _altered(tree: Tree, block: Block, lines: list[bytes], behind: bytes) -> tuple[Edit, ...]:
    """Replace by a text of the same kind: write only the lines that change."""
    old = lines_of(tree, block)
    texts = [text_of(tree, line) for line in old]
    same = [text == line for text, line in zip(texts, lines, strict=False)]
    head = [*same, False].index(False)
    if head == len(texts) == len(lines) and not behind:
        return ()
    pairs = zip(reversed(old), reversed(texts), reversed(lines), strict=False)
    same = [text == line and not each.lazy for each, text, line in pairs]
    most = 0 if behind else max(len(same) - max(head, 1), 0)
    tail = [*same[:most], False].index(False)
    newline = newline_at(tree, old[max(head - 1, 0)].end)
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
    if not new and not behind:
        return (without_lines(tree.data, start, stop),)
    text = prefixed([b"", *new], prefix, newline) if new else b""
    return (Edit(start, max(start, stop), text + behind),)
