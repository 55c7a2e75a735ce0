"""The profile `gfm`; parsing a text in either profile; and the lines of what was parsed.

`gfm` is CommonMark 0.31 with GitHub's tables and tasks, footnotes, and block ids.

Laws: never raises, whatever the text, and takes time linear in its length. For a
top-level block without attributes inside, `markdown_of` returns its source, except for line ends;
only `>`, spaces, tabs and attributes are ever cut from a line.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from copydesk.notes.markdown import lute
from copydesk.notes.markdown.block import (
    ATTRIBUTES,
    BLANK,
    BOM,
    CALLOUT,
    CODE,
    DEFINITION,
    DOCUMENT,
    HEADING,
    HTML,
    ITEM,
    LIST,
    MATH,
    MATTER,
    NOTE,
    PARAGRAPH,
    QUOTE,
    SPACES,
    TABLE,
    Block,
    LineCursor,
    Node,
    Profile,
    Tree,
    column_after,
    cut,
    decode,
    encode,
    newline_of,
)
from copydesk.notes.markdown.parser import (
    AGAIN,
    DEFINED,
    HTML_ENDS,
    INDENTED,
    INTO,
    LAST_CLOSED,
    LEAF,
    NO,
    STAYS,
    STRICT_MARKERS,
    BlockRules,
    Parser,
    add_item,
    at_start,
    blank_ends,
    break_start,
    by_byte,
    fence_resume,
    fence_start,
    html_kind,
    indented_resume,
    leading_attributes,
    line_attributes,
    math_start,
    quote_resume,
    quote_start,
    read_marker,
    strict_heading_start,
    whole_line,
)

_SETEXT = re.compile(rb"(?:=+|-+)[ \t]*\Z").match
_RULE = re.compile(rb"\|?[ \t]*+:?-+:?[ \t]*+(?>(?:\|[ \t]*+:?-+:?[ \t]*+)*)\|?[ \t]*\Z").match
_ESCAPED = re.compile(rb"\\.").sub


def setext_start(parser: Parser, container: Node) -> int:
    """A line of `=` or `-` turns the paragraph before it into a heading."""
    line, at = parser.line, parser.nonspace
    if container.kind != PARAGRAPH or _SETEXT(line, at) is None:
        return NO
    parser.close_unmatched()
    if not split_definitions(parser, container):
        return NO
    container.kind = HEADING
    container.subtype = "h1" if line[at] == 61 else "h2"
    return whole_line(parser, container)


def split_definitions(parser: Parser, node: Node) -> bool:
    """Split off the definitions that a paragraph begins with; return whether any text is left."""
    if node.stop > node.start and parser.data[node.start] == 91:
        holder, pieces, at = node.holder, parser.pieces_of(node), 0
        text = b"\n".join(line.lstrip(BLANK) for line in parser.text_of(node).split(b"\n"))
        holder.nodes.pop()
        while definition := DEFINED(text, at):
            count = 2 * text.count(b"\n", at, definition.end() - 1) + 2
            at = definition.end()
            whole = holder.close_with(DEFINITION, pieces[0], pieces[count - 1])
            whole.first, whole.column = node.first, node.column
            del pieces[:count]
            node.start = pieces[0] if pieces else -1
            node.first, node.column = _first_of(parser, holder, node.start), 0
        if not pieces:
            node.stop = -1
        holder.append(node)
    return node.stop > node.start


def finish_paragraph(parser: Parser, node: Node) -> None:
    """Make blocks of the definitions; drop the paragraph if it has nothing else."""
    if not split_definitions(parser, node):
        node.holder.nodes.pop()


def table_start(parser: Parser, container: Node) -> int:
    """A delimiter row turns the last line of the paragraph before it into a table."""
    line, at = parser.line, parser.nonspace
    if container.kind != PARAGRAPH or container.stop <= container.start or _RULE(line, at) is None:
        return NO
    pieces = parser.pieces_of(container)
    start, stop = pieces[-2:]
    if _cells(parser.data[start:stop]) != _cells(line[at:]):
        return NO
    parser.close_unmatched()
    if len(pieces) == 2:
        container.kind = TABLE
        return LEAF
    del pieces[-2:]
    container.stop = pieces[-1]
    parser.finish(container)
    parser.tip = parser.tip.append(
        Node(TABLE, parser.tip, _first_of(parser, parser.tip, start), 0, start, stop)
    )
    return LEAF


def _first_of(parser: Parser, holder: Node, start: int) -> int:
    """Where a block begins that is split off the text above it.

    In the document that is before its indentation, as where it is parsed without that text; what
    is in a container never is.
    """
    return line_start(parser.data, start) if holder is parser.root else start


def _cells(row: bytes) -> int:
    row = _ESCAPED(b"__", row).strip(b" \t")
    return row.removeprefix(b"|").removesuffix(b"|").count(b"|") + 1


_NOTE = re.compile(rb"\[\^[^\]\x00\t ]+\]:").match
_LONE_MARK = re.compile(rb"\^[A-Za-z0-9-]+[ \t]*\Z").match
_TASK = re.compile(rb"\[[ xX]\](?=[ \t\n])[ \t]*\n?").match


def html_start(parser: Parser, container: Node) -> int:
    """Any of CommonMark's seven start conditions; a tag alone does not interrupt a paragraph."""
    kind = html_kind(parser.line, parser.nonspace, parser.tip.kind == PARAGRAPH)
    if not kind:
        return NO
    node = parser.add(HTML)
    node.sort, node.closed = kind, kind > LAST_CLOSED
    html_resume(parser, node)  # the end may be on the same line
    return LEAF


def html_resume(parser: Parser, node: Node) -> int:
    """HTML continues until the line with its end marker; without one, until a blank line."""
    has_end = node.sort <= LAST_CLOSED
    if has_end and HTML_ENDS[node.sort - 1](parser.line, parser.offset):
        return parser.end(node, len(parser.line))
    return AGAIN if parser.blank and not has_end else STAYS


def list_start(parser: Parser, container: Node) -> int:
    """An item, with its attributes if they contain an id."""
    marker, width = read_marker(parser, container, STRICT_MARKERS)
    if not marker:
        return NO
    item = add_item(parser, container, marker, width)
    pairs, stop = at_start(parser.line, parser.offset)
    if dict(pairs).get(b"id"):
        item.stop = parser.at + stop
        item.attributes = (parser.at + parser.offset, item.stop)
        parser.skip(stop - parser.offset)
    return INTO


def finish_list(parser: Parser, node: Node) -> None:
    """Make an item that begins with a checkbox a task; a list of tasks alone is a task list."""
    node.subtype = plain = "o" if node.sign in (b".", b")") else "u"
    for item in node.nodes:
        item.subtype = plain
        first = item.nodes[0] if item.nodes else item
        if first.kind == PARAGRAPH and parser.data[first.start] == 91:
            mark = _TASK(parser.text_of(first))
            if mark is not None:
                item.subtype, item.mark = "t", first.start + 3
                parser.drop_text(first, mark.end())
    if all(item.mark for item in node.nodes):
        node.subtype = "t"


def code_start(parser: Parser, container: Node) -> int:
    """Four columns of indentation, where no paragraph can continue."""
    if parser.tip.kind == PARAGRAPH or parser.blank:
        return NO
    node = parser.add(CODE)
    node.start = node.first
    return LEAF


def code_resume(parser: Parser, node: Node) -> int:
    """A fence continues until its end; indented code over blank and indented lines."""
    if node.sign:
        return fence_resume(parser, node)
    return STAYS if parser.blank or parser.indent >= INDENTED else AGAIN


def note_start(parser: Parser, container: Node) -> int:
    """`[^name]:` starts a footnote; its content is indented by four columns."""
    label = _NOTE(parser.line, parser.nonspace)
    if label is None:
        return NO
    node = parser.add(NOTE)
    parser.to_nonspace()
    parser.skip(label.end() - label.start())
    node.stop = parser.at + parser.offset
    return INTO


def attributes_start(parser: Parser, container: Node) -> int:
    """A line of attributes with an id belongs to the block before it; without an id it is text."""
    text = parser.line[parser.nonspace :].rstrip(b" \t")
    bare = not container.nodes or container.nodes[-1].kind == ATTRIBUTES
    if (bare and container.kind != PARAGRAPH) or not dict(line_attributes(text)).get(b"id"):
        return NO
    return whole_line(parser, parser.add(ATTRIBUTES))


def settle_gfm(parser: Parser) -> None:
    """Attach lines of attributes, and `^id` marks on their own, to the block before them."""
    if b"{:" not in parser.data and b"^" not in parser.data:
        return
    every = [parser.root]
    for node in every:  # which grows
        nodes: list[Node] = []
        for child in node.nodes:
            mark = child.kind == ATTRIBUTES or (
                child.kind == PARAGRAPH and _LONE_MARK(parser.data[child.start : child.stop])
            )
            if mark and nodes and nodes[-1].attributes is None:
                nodes[-1].attributes = (child.start, child.stop)
                continue
            nodes.append(child)
        node.nodes = nodes
        every += (child for child in nodes if child.nodes)


_GFM = BlockRules(
    starts=by_byte(
        {
            BLANK: (),
            b">": (quote_start,),
            b"#": (strict_heading_start,),
            b"`~": (fence_start,),
            b"<": (html_start,),
            b"=": (setext_start,),
            b"-": (setext_start, break_start, list_start, table_start),
            b"*": (break_start, list_start),
            b"_": (break_start,),
            b"+0123456789": (list_start,),
            b"|:": (table_start,),
            b"$": (math_start,),
            b"[": (note_start,),
            b"{": (attributes_start,),
        }
    ),
    indented=(code_start,),
    resume={
        PARAGRAPH: blank_ends,
        TABLE: blank_ends,
        CODE: code_resume,
        MATH: fence_resume,
        HTML: html_resume,
        QUOTE: quote_resume,
        ITEM: indented_resume,
        NOTE: indented_resume,
    },
    finish={PARAGRAPH: finish_paragraph, LIST: finish_list},
)


_QUOTED, _ALL = 0, -1
"""How a line is cut, if not by a number of columns (an item's are two at least).

At a `>`, or all its indentation.
"""

_CUTS = {QUOTE: [_QUOTED], CALLOUT: [_QUOTED], NOTE: [INDENTED]}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a block. Positions are byte offsets in the whole text.

    `at`: where the line starts, for the first one where the block does; `start`: where its own text
    starts; `stop`: where that ends, before the terminator. `end`: where it, or the attributes on
    the lines after it, end. `pad`: columns of space before the text that have no bytes of their own
    (a prefix splits a tab) or that say what the block is. `lazy`: the line lacks part of the
    prefix; it continues a paragraph (as first line: a callout's title). `hidden`: attributes within
    the line, which are not part of its text.
    """

    at: int
    start: int
    stop: int
    end: int
    pad: int = 0
    lazy: bool = False
    hidden: tuple[int, int] | None = None


def lines_of(tree: Tree, block: Block) -> tuple[Line, ...]:
    """The lines of a block, in order, without lines of attributes; at least one."""
    data, start = tree.data, block.start
    texts, starts = cut(data[start : block.stop])
    if not texts:
        return (Line(start, start, start, start),)
    hidden = _hidden(tree, block)
    cuts, own = _cuts(block), _own(tree, block)
    quoted = max((at for at, each in enumerate(cuts) if each == _QUOTED), default=-1)
    indented = block.kind == CODE and data[start] in BLANK
    cursor, stop = LineCursor(), start + len(texts[0])
    cursor.load(data[line_start(data, start) : stop])
    titled = block.parent is not None and block.parent.kind == CALLOUT and not block.index
    lazy = titled and not _cut_all(cursor, cuts, quoted)
    at = SPACES(data, start).end() if indented else start
    pad = column_after(data[start:at], block.column) - block.column
    lines = [Line(start, at, stop, stop, pad, lazy, hidden.get(start))]
    for text, offset in zip(texts[1:], starts[1:], strict=True):
        cursor.load(text)
        lazy = not _cut_all(cursor, cuts, quoted)
        cursor.peek()
        at, stop = start + offset, start + offset + len(text)
        within = hidden.get(at)
        if within is not None and within[0] == at + cursor.nonspace:
            lines[-1] = replace(lines[-1], end=stop)
            continue
        cursor.skip_columns(cursor.indent if lazy or own == _ALL else min(own, cursor.indent))
        cursor.peek()
        pad = cursor.indent if cursor.partial or indented else 0
        after = cursor.nonspace if pad else cursor.offset
        lines.append(Line(at, at + after, stop, stop, pad, lazy, within))
    return tuple(lines)


def _hidden(tree: Tree, block: Block) -> dict[int, tuple[int, int]]:
    """Return the attributes inside a block, except its own after it, by the start of their line."""
    spans = [each.attributes for each in block.walk() if each.attributes] if block.children else []
    return {
        max(line_start(tree.data, span[0]), block.start): span
        for span in reversed(spans)  # the first of a line counts
        if span[0] < block.stop
    }


def text_of(tree: Tree, line: Line) -> bytes:
    """Return the text of one line of a block."""
    text = b" " * line.pad + tree.data[line.start : line.stop]
    if line.hidden is None:
        return text
    start, stop = (at - line.start + line.pad for at in line.hidden)
    return text[:start] + text[stop:]


def markdown_of(tree: Tree, block: Block) -> str:
    """Return the text of a block, as it is read, and as it must be quoted to find it again.

    Lines end with LF, whatever the file has. The text of the document is that of its blocks, front
    matter included. Bytes that are not UTF-8 are lone surrogates.
    """
    source = tree.source(block)
    one_line = b"\n" not in source and b"\r" not in source  # prefixes come before its start
    if (
        (one_line or not (_cuts(block) or _own(tree, block) or block.indent))
        and source[:1] not in (b" ", b"\t")
        and not (block.children and (b"{:" in source or b"^" in source))
    ):  # nothing has to be cut from any line
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return decode(source.removesuffix(b"\n"))
    return decode(b"\n".join(text_of(tree, line) for line in lines_of(tree, block)))


def prefix_within(tree: Tree, block: Block) -> bytes:
    """The prefix of a new line of the block itself, after its first one."""
    return _spelled(_cuts(block)) + b" " * max(_own(tree, block), 0)


def prefix_beside(block: Block) -> bytes:
    """The prefix of a line next to the block, which is that of its parent's content."""
    return _spelled(_cuts(block))


def prefix_inside(block: Block) -> bytes:
    """The prefix of a line of a new child, unless it is on the block's first line."""
    return _spelled([*_cuts(block), *_cuts_of(block)])


def filler_at(data: bytes, at: int, column: int) -> int:
    """How many columns of the tab at byte `at` come before `column`; 0 if it is not split."""
    is_tab = data.startswith(b"\t", at)
    return max(column - column_after(data[line_start(data, at) : at]), 0) if is_tab else 0


def line_start(data: bytes, at: int) -> int:
    """The byte where the line that contains byte `at` starts."""
    begin = data.rfind(b"\n", 0, at) + 1
    return max(data.rfind(b"\r", begin, at) + 1, begin)


def line_stop(data: bytes, at: int) -> int:
    """The byte where the line that contains byte `at` ends, before its terminator."""
    match = _LINE_END(data, at)
    return match.start() if match is not None else len(data)


def line_after(data: bytes, at: int) -> int:
    """The byte where the next line starts, given the byte of a terminator; at most the end."""
    return at + 2 if data.startswith(b"\r\n", at) else min(at + 1, len(data))


def _spelled(cuts: list[int]) -> bytes:
    return b"".join(b"> " if each == _QUOTED else b" " * max(each, 0) for each in cuts)


def _cuts(block: Block) -> list[int]:
    """What the containers of a block cut from its lines, outermost first."""
    cuts = [_ALL] * block.loose
    for holder in block.ancestors():
        cuts += _cuts_of(holder) + [_ALL] * holder.loose
    return cuts[::-1]


def _cuts_of(block: Block) -> list[int]:
    """What one container cuts from the lines in it; none or one."""
    return [block.width] if block.kind == ITEM else _CUTS.get(block.kind, [])


def _own(tree: Tree, block: Block) -> int:
    """How many columns a block cuts from its later lines: none where SiYuan keeps indentation."""
    keeps = tree.profile == "siyuan" and block.kind in (PARAGRAPH, CODE, MATH)
    at_top = block.parent is not None and block.parent.kind == DOCUMENT
    if block.kind == HTML or (keeps and at_top):
        return 0
    return _ALL if keeps and block.kind == PARAGRAPH else block.indent


def _cut_all(cursor: LineCursor, cuts: Sequence[int], quoted: int) -> bool:
    """Consume the prefixes of all containers, the last quote at `quoted`; whether all was there.

    In a blank line the others have nothing, however many they are.
    """
    for at, columns in enumerate(cuts):
        cursor.peek()
        if cursor.blank:
            cursor.to_nonspace()
            return at > quoted
        if columns == _QUOTED:
            if not cursor.skip_quote():
                return False
        elif cursor.indent < columns:
            return False
        else:
            cursor.skip_columns(cursor.indent if columns == _ALL else columns)
    return True


_ID = re.compile(
    rb"""^id:[ \t]+(?:"([^"\\\n]+)"|'([^'\n]+)'|([^\s"'#\[{&*!|>%@`][^\n#]*+))"""
    rb"""[ \t]*+(?:(?<=[ \t])#.*+)?\r?$""",
    re.MULTILINE,
)
_LINE_END = re.compile(rb"[\r\n]").search
_MARK_AT_END = re.compile(rb"(?:\A|[ \t\n])\^([A-Za-z0-9-]+)[ \t]*\Z").search

_LONGEST = 100
"""A mark is searched for in this many bytes at the end of its line."""


_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n?|\n)"
    rb"(?:.*?(?:\r\n?|\n))??(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
).match


def head_of(data: bytes) -> bytes:
    """The front matter at the start of a text, with its fences and a byte order mark; or empty."""
    head = _HEAD(data)
    return head[0] if head is not None else b""


def matter_id(matter: bytes) -> str | None:
    """The id that the front matter gives the document."""
    match = _ID.search(matter)
    return _text(next(filter(None, match.groups()))) if match is not None else None


def marked_id(data: bytes, start: int, stop: int) -> str | None:
    """The `^id` at the end of the text [start, stop)."""
    mark = _MARK_AT_END(data[max(start, stop - _LONGEST) : stop])
    return _text(mark[1]) if mark is not None else None


def attributes_id(text: bytes) -> str | None:
    """The id in a line of attributes, or in a `^id` mark that replaces one."""
    if text.startswith(b"^"):
        return marked_id(text, 0, len(text))
    return _text(dict(leading_attributes(text) or line_attributes(text)).get(b"id", b""))


def _text(value: bytes) -> str | None:
    return value.decode("utf-8", "replace").strip() or None


_LARGE = 100_000
_KEPT_BYTES = 1 << 16


@contextmanager
def undisturbed(size: int) -> Generator[None]:
    """Pause garbage collection while a text of many bytes becomes many objects."""
    paused = size > _LARGE and gc.isenabled()
    if paused:
        # it would find nothing, and take as long as parsing; other threads go without it meanwhile
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def parse(
    text: bytes | str,
    profile: Profile = "gfm",
    *,
    part: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Tree:
    """Parse a Markdown text into blocks, each with the bytes it covers.

    `part`: the text will be within another one, so it has no front matter. A `str` is counted in
    its UTF-8. In the profile `gfm` a byte order mark is not part of the text; in `siyuan` it is the
    first character of a paragraph, as it is for the kernel. `check` is called now and then; what
    it raises ends parsing.
    """
    data = encode(text) if isinstance(text, str) else text
    gfm = profile == "gfm"
    start = len(BOM) if gfm and data.startswith(BOM) else 0
    head = head_of(data) if gfm and not part else b""
    root = Node(DOCUMENT, None, start, 0, start, len(data))
    parser = Parser(data, _GFM if gfm else lute.RULES, root, check)
    with undisturbed(len(data)):
        parser.run(*cut(data, line_after(data, len(head)) if head else start))
        (settle_gfm if gfm else lute.settle)(parser)
        if head:
            root.nodes = [Node(MATTER, root, start, 0, start, len(head)), *root.nodes]
            root.anchor = matter_id(head)
        _settle(data, root)
    return Tree(data, profile, root, newline_of(data))


def parse_new(data: bytes, profile: Profile, check: Callable[[], None] = lambda: None) -> Tree:
    """Parse a text that will be within another one; the last few short ones are kept.

    Planning, checking and placing a new text each ask for its blocks, which nobody changes.
    """
    if len(data) > _KEPT_BYTES:
        return parse(data, profile, part=True, check=check)
    return _parse_part(data, profile)


_parse_part = lru_cache(maxsize=8)(partial(parse, part=True))


def _settle(data: bytes, root: Node) -> None:
    """Turn the nodes into blocks: set their columns, anchors and children."""
    marks = b"^" in data
    every = [root]
    for node in every:  # parents first; it grows
        if node.attributes is not None:
            node.anchor = attributes_id(data[slice(*node.attributes)]) or node.anchor
        for index, child in enumerate(node.nodes):
            child.parent, child.index = node, index
            _place(data, child)
            if marks and child.kind in (PARAGRAPH, HEADING):
                owner = node if not index and node.kind == ITEM else child
                owner.anchor = owner.anchor or marked_id(data, child.start, child.stop)
        every += node.nodes
        node.children = tuple(node.nodes)
        del node.holder, node.nodes, node.pieces, node.run  # which only parsing needs


def _place(data: bytes, node: Node) -> None:
    """Trim blanks from the end of a node's span, and count its indentation."""
    start, stop = node.start, node.stop
    while stop > start and data[stop - 1] in BLANK:
        stop -= 1
    if start == stop:  # it has no bytes: it is where the text before it ends
        while start and data[start - 1] in BLANK:
            start -= 1
        node.start = node.first = stop = start
    node.stop = stop
    if node.first < start:
        node.indent = column_after(data[node.first : start], node.column) - node.column
