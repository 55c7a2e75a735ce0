"""The profile `siyuan`: blocks as Lute, SiYuan's Markdown engine, makes them, quirks included."""

from __future__ import annotations

import re
from collections.abc import Sequence

from copydesk.notes.markdown.block import (
    AGAIN_PARSED,
    ATTRIBUTES,
    AUDIO,
    BLANK,
    CALLOUT,
    CODE,
    CONFLICT,
    DOCUMENT,
    EMBED,
    HTML,
    IFRAME,
    ITEM,
    LIST,
    MATH,
    PARAGRAPH,
    QUOTE,
    SPACES,
    SUPER,
    TABLE,
    VIDEO,
    VIEW,
    WIDGET,
    Node,
    decode,
    encode,
)
from copydesk.notes.markdown.parser import (
    AGAIN,
    INTO,
    LEAF,
    LUTE_MARKERS,
    NO,
    SPACE,
    STAYS,
    TAKEN,
    BlockRules,
    Parser,
    add_item,
    at_start,
    bare_attributes,
    blank_ends,
    break_start,
    by_byte,
    fence_resume,
    heading_start,
    indented_resume,
    leading_attributes,
    line_attributes,
    lute_fence_start,
    quote_resume,
    quote_start,
    read_marker,
    spelled,
    whole_line,
)

_RULE = re.compile(rb"[-|: ]+\Z").match
_ESCAPED = re.compile(rb"\\.", re.DOTALL).sub
_COLUMN = re.compile(rb"[-:]-*[-:]?\Z").match


def lines_before_table(lines: Sequence[bytes]) -> int | None:
    """How many lines before the table in a paragraph stay text; None if it has no table."""
    before = sum(b"|" not in line for line in lines)
    rest = lines[before:]
    rule = next((i for i, line in enumerate(rest) if _columns(line)), 0)
    if rule < 1:
        return None
    columns = _columns(rest[rule].strip(SPACE))
    heads = [line.strip(SPACE) for line in rest[:rule]]
    if not all(heads) or any(len(_split(line)) > columns for line in heads):
        return None
    if any(not line.strip(SPACE) for line in rest[rule + 1 :]):
        before = 0  # a row of form feeds ends the table, and the text before it is lost
    return before


def _columns(line: bytes) -> int:
    """How many columns a delimiter row has; 0 if it is not one."""
    if _RULE(line) is None:
        return 0
    cells = [cell.strip(SPACE) for cell in _split(line)]
    return len(cells) if all(_COLUMN(cell) for cell in cells) else 0


def _split(line: bytes) -> list[bytes]:
    """The cells of a row, without empty ones before the first and after the last `|`."""
    cells = _ESCAPED(b"__", line).removesuffix(b"|").split(b"|")
    if not cells[0].strip(b" "):
        del cells[0]
    if cells and not cells[-1].strip(b" "):
        cells.pop()
    return cells


_TASK = re.compile(rb"\[[^\[\]]\](?:[ \t\n\v\f\r]|\Z)").match
_TASK_TEXT = re.compile(rb"\[[^\[\]]\](?:[ \t\n\v\f\r\xe2]|\Z)").match

MOST_PARSED = 16
"""Nested tasks are parsed this deep; below that their text is a paragraph."""

_ALL = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def trim(text: bytes) -> bytes:
    """Strip white space at both ends, Unicode's included."""
    return encode(decode(text).strip(_ALL))


def trim_left(text: bytes) -> bytes:
    """Strip white space at the start, Unicode's included."""
    return encode(decode(text).lstrip(_ALL))


def _text(parser: Parser, node: Node) -> bytes:
    """The text of a paragraph as Lute stores it."""
    return parser.text_of(node).rstrip(SPACE)


def finish_paragraph(parser: Parser, node: Node) -> None:
    """Turn the paragraph into attributes, the blocks of a task, or a table if it is one."""
    parent = node.holder
    if node.stop <= node.start:
        return
    if parent.kind == ITEM and parent.nodes[0] is node:
        if _begins(parser, node, b"{") and bare_attributes(_text(parser, node)):
            parent.nodes = []
            parent.close_with(PARAGRAPH, node.stop, node.stop).attributes = (node.start, node.stop)
            return
        if parent.subtype == "t" and _finish_task(parser, node):
            return
    if parser.data.find(b"|", node.start, node.stop) < 0:
        return
    before = lines_before_table(_text(parser, node).split(b"\n"))
    if before:
        pieces = parser.pieces_of(node)
        table = parent.close_with(TABLE, pieces[2 * before], node.stop)
        table.start = SPACES(parser.data, table.first).end()
        del pieces[2 * before :]
        node.stop = pieces[-1]
    elif before == 0:
        node.kind = TABLE


def _finish_task(parser: Parser, node: Node) -> bool:
    """Remove the checkbox of a task; return whether other blocks replaced the paragraph."""
    parent, text = node.holder, _text(parser, node)
    mark = text.index(b"}") + 1 if leading_attributes(text) else 0
    if _TASK_TEXT(text, mark) is None:
        return False
    parent.mark = node.start + mark + 3
    rest = trim(text[mark + 3 :])
    parser.drop_text(node, len(text) - len(trim_left(text[mark + 3 :])) if rest else len(text))
    starts = rest[:1] in parser.rules.starts or b"|" in rest
    if not starts or parser.depth >= MOST_PARSED:
        return False
    root = Node(AGAIN_PARSED, parent, node.start, 0, node.start, node.start)
    inner = Parser(parser.data, parser.rules, root, parser.go_on, parser.depth + 1)
    lines = rest.split(b"\n")
    inner.run(lines, parser.pieces_of(node)[: 2 * len(lines) : 2])
    settle(inner)
    if not root.nodes or root.nodes[0].kind == PARAGRAPH:
        return False
    for each in root.nodes:
        each.loose = True
    parent.nodes = root.nodes
    parent.stop = max(parent.stop, root.stop)
    return True


def finish_list(parser: Parser, node: Node) -> None:
    """Put a paragraph into empty items, and give items the attributes before their text."""
    for item in node.nodes:
        if not item.nodes:
            item.close_with(PARAGRAPH, item.stop, item.stop)
            continue
        first = item.nodes[0]
        if not item.mark and first.kind == PARAGRAPH and _begins(parser, first, b"{"):
            text = _text(parser, first)
            if len(text) > 7 and leading_attributes(text):
                end = text.index(b"}") + 1
                item.attributes = (first.start, first.start + end)
                parser.drop_text(first, len(text) - len(text[end:].lstrip(SPACE)))


def finish_quote(parser: Parser, node: Node) -> None:
    """A quote that begins with `[!NAME]` is a callout, and that line none of its children.

    One that began as a callout is a quote if it has nothing else. An empty one gets a paragraph.
    """
    first = node.nodes[0] if node.nodes else node.close_with(PARAGRAPH, node.stop, node.stop)
    if node.kind == QUOTE and first.kind != PARAGRAPH:
        return
    title, newline, rest = _text(parser, first).partition(b"\n")
    if node.kind == QUOTE:
        named = bool(rest) and title.startswith(b"[!") and b"]" in title
    else:
        named = bool(newline) or len(node.nodes) > 1
    node.kind = CALLOUT if named else QUOTE
    if named:
        node.subtype = decode(trim(trim(title)[2:].partition(b"]")[0]))
    if named and first.kind == PARAGRAPH:
        pieces = parser.pieces_of(first)
        del pieces[:2]
        if pieces:
            first.start = SPACES(parser.data, pieces[0]).end()
            first.first, first.column = pieces[0], 0
        else:
            del node.nodes[0]


def finish_super(parser: Parser, node: Node) -> None:
    """Take the super block off the run of nested ones; make an empty unclosed one a paragraph."""
    node.run.pop()
    if not node.nodes and not node.closed:
        node.kind, node.closed = PARAGRAPH, True


def settle(parser: Parser) -> None:
    """Do the last pass: attach attributes to their blocks."""
    if b"{:" not in parser.data:
        return
    every = [parser.root]
    for node in every:  # which grows
        if node.nodes:
            node.nodes = _settled(parser, node)
            every += node.nodes
            if parser.depth and node.kind == SUPER and not node.nodes and not node.closed:
                node.kind, node.closed = PARAGRAPH, True  # Lute checks again what it parsed again


def _settled(parser: Parser, node: Node) -> list[Node]:
    nodes: list[Node] = []
    marked = node.kind in (QUOTE, SUPER) or node.mark > 0
    after_attributes = not marked
    for child in node.nodes:
        if child.kind == ATTRIBUTES:
            if after_attributes:
                nodes.append(Node(PARAGRAPH, node, child.start, 0, child.start, child.start))
            after_attributes = True
        elif not (nodes or marked) or not _is_lost(parser, child):
            nodes.append(child)
            after_attributes = child.attributes is not None and child.kind != ITEM
            continue
        if nodes:
            nodes[-1].attributes = (child.start, child.stop)
    named = any(child.kind == ATTRIBUTES for child in node.nodes)
    if marked and node.kind != SUPER and not nodes and not named:
        nodes.append(Node(PARAGRAPH, node, node.stop, 0, node.stop, node.stop))
    return nodes


def _is_lost(parser: Parser, node: Node) -> bool:
    """Whether Lute takes a paragraph, text and all, for attributes of the block before it."""
    return (
        node.kind == PARAGRAPH
        and _begins(parser, node, b"{:")
        and bool(leading_attributes(_text(parser, node)))
    )


def _begins(parser: Parser, node: Node, sign: bytes) -> bool:
    """Whether the text of a paragraph begins with `sign`."""
    begins = parser.data.startswith(sign, node.start, node.stop)
    return begins and (not node.pieces or node.pieces[0] == node.start)


SCRIPT, OTHER = 1, 2
"""The HTML that continues over blank lines until its end tag, and that which they end."""

_NAMES = (
    "address article aside base basefont blockquote body caption center col colgroup dd details"
    " dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6"
    " head header hr html iframe legend li link main menu menuitem nav noframes ol optgroup option"
    " p param section source summary table tbody td tfoot th thead title tr track ul video audio"
)
_SCRIPT = re.compile(rb"<script|<pre|<style|<textarea").search
_BLOCK = re.compile(
    "|".join([f"<{sign}{tag}" for sign in ("", "/") for tag in _NAMES.split()]).encode()
).search
SCRIPT_END = re.compile(rb"</script>|</pre>|</style>|</textarea>").search

_NAME_ENDS = re.compile(rb"[ \t\n\v\f\r]|/?>").match
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9-]*\Z").match
_TAG = re.compile(
    rb"""[A-Za-z][A-Za-z0-9-]*+
    (?>(?:[ \t\n\v\f\r]++ (?: [^ \t\n\v\f\r]?+ (?![^ \t\n\v\f\r])
        | =[^ \t\n\v\f\r]*+
        | [A-Za-z_:][A-Za-z0-9_.:-]*+ (?>(?:= (?:'[^ \t\n\v\f\r']*+'
            | "[^ \t\n\v\f\r"]*+" | [^ \t\n\v\f\r"'=<>`]*+))?) (?![^ \t\n\v\f\r])
    ))*) \Z""",
    re.VERBOSE,
).match
"""The inside of a tag, whose attributes are words: white space ends even a quoted value. Of an
attribute of one character, or that begins with `=`, all is sound."""
_DECLARATION = re.compile(rb"<!--|<\?|<![A-Z]|<!\[CDATA\[").match


def html_kind(text: bytes, in_paragraph: bool) -> int:
    """The kind of HTML block that a line starts at `<`; 0 for none."""
    text += b"\n"
    if len(text) < 3:
        return 0
    match = _SCRIPT(text)
    if match is not None and text[len(match[0])] in b" \t\n\v\f\r>":
        return SCRIPT
    match = _BLOCK(text)
    if match is not None and _NAME_ENDS(text, len(match[0])):
        return OTHER
    tag = text.strip(SPACE)
    inner = tag[1:-2] if tag.endswith(b"/>") else tag[1:-1]
    closes = len(tag) >= 4 and tag[1] == 47 and _NAME(tag[2:-1])
    is_tag = not in_paragraph and tag.endswith(b">") and (closes or _TAG(inner))
    return OTHER if is_tag or _DECLARATION(text) else 0


def conflict_start(parser: Parser, container: Node) -> int:
    """A line that begins with seven `<`, in any container."""
    if not parser.line.startswith(b"<<<<<<<"):
        return NO
    parser.add(CONFLICT).closed = False
    return LEAF


def conflict_resume(parser: Parser, node: Node) -> int:
    """A conflict continues until a line begins with seven `>`."""
    ends = parser.line.startswith(b">>>>>>>")
    return parser.end(node, len(parser.line)) if ends else STAYS


_HTML_BLOCKS = tuple(
    (re.compile(pattern, re.DOTALL).match, block)
    for pattern, block in (
        (rb'<iframe(?=.*data-subtype="widget").*>\Z', WIDGET),
        (rb"<iframe.*>\Z", IFRAME),
        (rb"<video.*>\Z", VIDEO),
        (rb"<audio.*>\Z", AUDIO),
        (rb'<div(?=.*data-type="NodeAttributeView")(?=.*data-av-type=").*</div>\Z', VIEW),
        (rb"<div", HTML),
    )
)
"""The blocks that HTML becomes; the first whose pattern matches the line."""


def html_start(parser: Parser, container: Node) -> int:
    """A frame, a player, a view, or HTML that begins with `<div`; other HTML only closes blocks."""
    text = parser.line[parser.nonspace :]
    kind = html_kind(text, parser.tip.kind == PARAGRAPH)
    if not kind or b"<span " in parser.line:
        return NO
    parser.close_unmatched()
    text = trim(text)
    block = next((block for begins, block in _HTML_BLOCKS if begins(text)), None)
    if block is None:
        return NO
    node = parser.add(block)
    if block == HTML:
        node.closed = kind != SCRIPT
        html_resume(parser, node)  # the end may be on the same line
    return LEAF


def html_resume(parser: Parser, node: Node) -> int:
    """HTML continues until a blank line, its end tag, or a line of attributes with an id."""
    if parser.blank:
        return AGAIN if node.closed else STAYS
    rest = parser.line[parser.offset :]
    if b'id="' in rest and line_attributes(rest.lstrip(SPACE) if node.within_item else rest):
        return AGAIN
    if not node.closed and SCRIPT_END(rest):
        return parser.end(node, len(parser.line))
    return STAYS


def math_start(parser: Parser, container: Node) -> int:
    """Two or more `$`."""
    if not parser.line.startswith(b"$$", parser.nonspace):
        return NO
    indent = parser.indent
    node = parser.add(MATH)
    node.closed = False
    node.stop = parser.at + len(parser.line)
    parser.to_nonspace()
    parser.skip(min(indent, len(parser.line) - parser.offset))
    math_goes_on(parser, node)
    return LEAF


def math_goes_on(parser: Parser, node: Node) -> int:
    """Math ends with a line that ends with `$$`, if there was another `$$` before."""
    whole = node.holder is parser.root and parser.line[:1] in (b" ", b"\t")
    text = parser.line[0 if whole else parser.offset :]
    last = text.rfind(b"$$")
    if last >= 0:
        if (node.sort or text.find(b"$$") < last) and trim(text[last:]) == b"$$":
            return parser.end(node, len(parser.line))
        node.sort = 1
    return STAYS


def math_resume(parser: Parser, node: Node) -> int:
    """Math continues until a line of only `$`, or a line of attributes."""
    if parser.blank:
        return STAYS
    rest = parser.line[parser.nonspace :]
    if parser.indent < 4:
        if rest.startswith(b"$$") and not rest.rstrip(SPACE).strip(b"$"):
            return parser.end(node, len(parser.line))
        if b'id="' in rest and line_attributes(rest):
            node.attributes = (parser.at + parser.nonspace, parser.at + len(parser.line))
            parser.finish(node)
            return TAKEN
    return math_goes_on(parser, node)


def embed_start(parser: Parser, container: Node) -> int:
    """`{{ query }}` on one line."""
    text = parser.line[parser.nonspace :]
    if not text.startswith(b"{{") or not trim(text[2:]).endswith(b"}}"):
        return NO
    parser.add(EMBED)
    return LEAF


_SUPER = re.compile(rb"\{\{\{[ \t\v\f]*(row|col|)[ \t\v\f]*\Z", re.IGNORECASE).match


def callout_start(parser: Parser, container: Node) -> int:
    """`> [!NAME]`."""
    rest = parser.line[SPACES(parser.line, parser.nonspace + 1).end() :]
    if rest >= b"\x80":
        rest = trim_left(rest)
    if not rest.startswith(b"[!") or b"]" not in rest:
        return NO
    parser.to_nonspace()
    parser.skip(1)
    parser.add(CALLOUT).stop = parser.at + len(parser.line)
    return INTO


_SUBTYPES = {b"t": "t", b".": "o", b")": "o"}
"""The subtype of a list and its items, by the last sign of the list; of all others it is `u`."""


def list_start(parser: Parser, container: Node) -> int:
    """An item, with its attributes and task mark; an item never begins with a list."""
    marker, width = read_marker(parser, container, LUTE_MARKERS)
    if not marker:
        return NO
    line, tip = parser.line, parser.tip
    pairs, at = at_start(line, parser.offset)
    parser.close_unmatched()
    if tip.kind == ITEM and not tip.nodes:
        tip.close_with(PARAGRAPH, tip.stop, tip.stop)
    item = add_item(parser, container, marker, width, task=_TASK(line, at) is not None)
    item.subtype = item.holder.subtype = _SUBTYPES.get(item.holder.sign[-1:], "u")
    if pairs:
        item.attributes = (parser.at + parser.offset, parser.at + at)
        parser.skip(min(len(spelled(pairs)), len(line) - parser.offset))
    return INTO


def attributes_start(parser: Parser, container: Node) -> int:
    """A line of attributes belongs to the block before it, else to an empty paragraph."""
    tip, pairs = parser.tip, line_attributes(parser.line[parser.nonspace :])
    if not pairs or (tip.kind == ITEM and not tip.nodes):
        return NO
    parser.close_unmatched()
    start, stop = parser.at + parser.nonspace, parser.at + len(parser.line)
    if (b"type", b"doc") in pairs:
        if parser.tip.kind == PARAGRAPH:
            parser.pieces_of(parser.tip)  # it continues after this line, which is not part of it
        parser.root.attributes = (start, stop)
        parser.offset = len(parser.line)
        return LEAF
    if parser.matched.kind in (DOCUMENT, AGAIN_PARSED, ITEM, QUOTE, CALLOUT, SUPER):
        tip = parser.tip
        same = parser.data.startswith(spelled(pairs), tip.nodes[-1].start) if tip.nodes else False
        if not same and (not tip.nodes or tip.nodes[-1].kind == ATTRIBUTES):
            tip.close_with(PARAGRAPH, start, start)
    return whole_line(parser, parser.add(ATTRIBUTES))


def super_start(parser: Parser, container: Node) -> int:
    """`{{{`, optionally followed by `row` or `col`."""
    if _SUPER(parser.line, parser.nonspace) is None:
        return NO
    parser.close_unmatched()
    run = parser.tip.run or []
    node = parser.add(SUPER)
    run.append(node)
    node.run, node.closed = run, False
    whole_line(parser, node)
    parser.nonspace = -1
    return INTO


def super_resume(parser: Parser, node: Node) -> int:
    """`}}}` closes the innermost super block; any other line continues it."""
    line, at = parser.line, parser.nonspace
    if not line.startswith(b"}}}", at) or line[at:].strip(SPACE) != b"}}}":
        return STAYS
    while parser.tip.kind != SUPER:
        parser.finish(parser.tip)
    return parser.end(parser.tip, len(parser.line))


RULES = BlockRules(
    starts=by_byte(
        {
            BLANK: (),
            b"<": (conflict_start, html_start),
            b">": (callout_start, quote_start),
            b"#": (heading_start,),
            b"`~": (lute_fence_start,),
            b"*-": (break_start, list_start),
            b"_": (break_start,),
            b"+0123456789": (list_start,),
            b"$": (math_start,),
            b"{": (attributes_start, embed_start, super_start),
        }
    ),
    resume={
        PARAGRAPH: blank_ends,
        CODE: fence_resume,
        HTML: html_resume,
        MATH: math_resume,
        CONFLICT: conflict_resume,
        QUOTE: quote_resume,
        CALLOUT: quote_resume,
        ITEM: indented_resume,
        SUPER: super_resume,
    },
    finish={
        PARAGRAPH: finish_paragraph,
        LIST: finish_list,
        QUOTE: finish_quote,
        CALLOUT: finish_quote,
        SUPER: finish_super,
    },
    keeps_indentation=True,
)
