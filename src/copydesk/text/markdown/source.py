"""A block's own text: its source without what its containers put before each line.

What lives here: the lines of a block, its `markdown`, the prefixes that stand
before its lines or would stand before new ones. What must not: changes. Laws:
`markdown_of` of a top-level block of a text is the text between its bytes, but
for line ends; what is cut from a line is only `>`, space and tabs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from copydesk.text.markdown.block import (
    BLANK,
    CALLOUT,
    CODE,
    DOCUMENT,
    HTML,
    ITEM,
    MATH,
    NOTE,
    PARAGRAPH,
    QUOTE,
    TAB,
    Block,
    LineCursor,
    Tree,
    cut,
    decode,
)
from copydesk.text.markdown.parser import INDENTED

_BLANKS = (b" ", b"\t")

_QUOTED, _ALL = 0, -1
"""How a line is cut, besides by so many columns: at a `>`, or all its indentation."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a block. Bytes of the whole text from 0.

    `at`: where the line starts, for the first one where the block does;
    `start`: where its own text starts; `stop`: where that stops, before the
    terminator. `end`: where it or the attributes on the lines behind it stop.
    `pad`: columns of space before the text, where they are no bytes of their
    own (a prefix cuts a tab in two) or where they say what the block is.
    `lazy`: the line has not the whole prefix; it goes on with a paragraph (on a
    first line: with the title of a callout).
    `hidden`: attributes within the line, which are no part of its text.
    """

    at: int
    start: int
    stop: int
    end: int
    pad: int = 0
    lazy: bool = False
    hidden: tuple[int, int] | None = None


def lines_of(tree: Tree, block: Block) -> tuple[Line, ...]:
    """The lines of a block, in order, without those of attributes; one at least."""
    data, start = tree.data, block.start
    texts, starts = cut(data[start : block.stop])
    if not texts:
        return (Line(start, start, start, start),)
    hidden = _hidden(tree, block)
    cuts, own = _cuts(block), _own(tree, block)
    indented = block.kind == CODE and data[start] in BLANK
    stop = start + len(texts[0])
    lazy = False
    cursor = LineCursor()
    if block.parent is not None and block.parent.kind == CALLOUT and not block.index:
        cursor.load(data[line_start(data, start) : stop])
        lazy = not all(_cut(cursor, each) for each in cuts)
    pad = 0
    if indented:
        cursor.load(texts[0])
        cursor.column = block.column
        cursor.peek()
        pad = cursor.indent
    at = start + cursor.nonspace if indented else start
    found = [Line(start, at, stop, stop, pad, lazy, hidden.pop(start, None))]
    for text, offset in zip(texts[1:], starts[1:], strict=True):
        cursor.load(text)
        lazy = not all(_cut(cursor, each) for each in cuts)
        cursor.peek()
        at, stop = start + offset, start + offset + len(text)
        within = hidden.pop(at, None)
        if within is not None and within[0] == at + cursor.nonspace:
            found[-1] = replace(found[-1], end=stop)
            continue
        cursor.skip_columns(cursor.indent if lazy or own == _ALL else min(own, cursor.indent))
        cursor.peek()
        pad = cursor.indent if cursor.partial or indented else 0
        after = cursor.nonspace if pad else cursor.offset
        found.append(Line(at, at + after, stop, stop, pad, lazy, within))
    return tuple(found)


def _hidden(tree: Tree, block: Block) -> dict[int, tuple[int, int]]:
    """The attributes in a block, its own behind it left out, by the start of their line."""
    if not block.children:
        return {}
    found: dict[int, tuple[int, int]] = {}
    for each in block.walk():
        if each.attributes is not None and each.attributes[0] < block.stop:
            at = max(line_start(tree.data, each.attributes[0]), block.start)
            found.setdefault(at, each.attributes)
    return found


def text_of(tree: Tree, line: Line) -> bytes:
    """The text of one line of a block."""
    text = b" " * line.pad + tree.data[line.start : line.stop]
    if line.hidden is None:
        return text
    start, stop = (at - line.start + line.pad for at in line.hidden)
    return text[:start] + text[stop:]


def markdown_of(tree: Tree, block: Block) -> str:
    """The text of a block: what is read of it, and what has to be said to find it again.

    Lines end with LF, whatever the file has. The document's is that of its
    blocks, front matter included. Bytes that are no UTF-8 are lone surrogates.
    """
    if _is_bare(tree, block):
        source = tree.source(block)
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return decode(source.removesuffix(b"\n"))
    return decode(b"\n".join(text_of(tree, line) for line in lines_of(tree, block)))


def _is_bare(tree: Tree, block: Block) -> bool:
    """Whether the source of a block is its text: nothing is to be cut from any line."""
    start, stop = block.start, block.stop
    if (
        not block.children
        and tree.data[start : start + 1] not in _BLANKS
        and tree.data.find(b"\n", start, stop) < 0
        and tree.data.find(b"\r", start, stop) < 0
    ):
        return True  # one line, whatever it stands in: prefixes come before its start
    if _cuts(block) or _own(tree, block) or block.indent or tree.data[start : start + 1] in _BLANKS:
        return False
    return not block.children or (
        tree.data.find(b"{:", start, stop) < 0 and tree.data.find(b"^", start, stop) < 0
    )


def prefix_within(tree: Tree, block: Block) -> bytes:
    """What a new line of the block itself takes before it, after its first one."""
    return _spelled(_cuts(block)) + b" " * max(_own(tree, block), 0)


def prefix_beside(block: Block) -> bytes:
    """What a line takes that stands where the block does: the prefix of its parent's content."""
    return _spelled(_cuts(block))


def prefix_inside(block: Block) -> bytes:
    """What a line of a new child of the block takes, unless it stands on the block's first line."""
    return _spelled([*_cuts(block), *_cuts_of(block)])


def filler_at(data: bytes, at: int, column: int) -> int:
    """How many columns of the tab at byte `at` come before `column`; 0 when it is not cut."""
    if data[at : at + 1] != b"\t":
        return 0
    begin = line_start(data, at)
    here = 0
    for byte in data[begin:at]:
        here += TAB - here % TAB if byte == 9 else 1
    return max(column - here, 0)


def line_start(data: bytes, at: int) -> int:
    """The byte where the line that holds byte `at` starts."""
    begin = data.rfind(b"\n", 0, at) + 1
    return max(data.rfind(b"\r", begin, at) + 1, begin)


def line_stop(data: bytes, at: int) -> int:
    """The byte where the line that holds byte `at` stops, before its terminator."""
    found = data.find(b"\n", at)
    stop = len(data) if found < 0 else found
    returned = data.find(b"\r", at, stop)
    return stop if returned < 0 else returned


def line_after(data: bytes, at: int) -> int:
    """The byte where the next line starts, for a byte before a terminator; else the end."""
    return at + 2 if data.startswith(b"\r\n", at) else min(at + 1, len(data))


def _spelled(cuts: list[int]) -> bytes:
    return b"".join(b"> " if each == _QUOTED else b" " * max(each, 0) for each in cuts)


def _cuts(block: Block) -> list[int]:
    """What the containers of a block take from its lines, outermost first."""
    found = [_ALL] if block.loose else []
    for holder in block.ancestors():
        found += reversed(_cuts_of(holder))
        if holder.loose:
            found.append(_ALL)
    found.reverse()
    return found


def _cuts_of(block: Block) -> list[int]:
    """What one container takes from the lines in it."""
    if block.kind in (QUOTE, CALLOUT):
        return [_QUOTED]
    if block.kind == ITEM:
        return [block.width]
    return [INDENTED] if block.kind == NOTE else []


def _own(tree: Tree, block: Block) -> int:
    """What a block takes from its own later lines: the columns that its first one is indented.

    Where SiYuan takes indentation for text, none; where it drops it, all.
    """
    if block.kind == HTML:
        return 0
    if tree.profile == "siyuan" and block.kind in (PARAGRAPH, CODE, MATH):
        if block.parent is not None and block.parent.kind == DOCUMENT:
            return 0
        if block.kind == PARAGRAPH:
            return _ALL
    return block.indent


def _cut(cursor: LineCursor, columns: int) -> bool:
    """Consume the prefix of one container; whether all of it was there."""
    cursor.peek()
    if columns == _QUOTED:
        if cursor.blank or cursor.indent >= INDENTED or cursor.line[cursor.nonspace] != 62:
            return False
        cursor.to_nonspace()
        cursor.skip(1)
        cursor.skip_one_blank()
    elif columns == _ALL or cursor.blank:
        cursor.to_nonspace()
    elif cursor.indent < columns:
        return False
    else:
        cursor.skip_columns(columns)
    return True
