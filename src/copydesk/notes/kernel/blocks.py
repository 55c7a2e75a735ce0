"""A kernel's blocks as kramdown and as a tree: texts, ids, attributes.

The words for a block here: its `markdown` is the text alone; its `image` the kramdown, which has
the ids and attributes of it and of all that is in it; `signed` is an image with the marks of
Markdown for spans; its `dom` the HTML that an editor gets. A `mark` is the digest of an image. Its
`standing` is the container, the neighbours and the kind (`TreeInfo`), a `gap` the place between two
neighbours (`Around`), its `home` the document (`DocumentPlace`).
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from copydesk.errors import InvalidArgs
from copydesk.notes.folder.blocks import fingerprints, identify, in_order
from copydesk.notes.markdown import Block, Tree, is_phantom, parse
from copydesk.notes.protocol import Around, BlockText, check_characters, raw_markdown, split_tree

VANISHING = ("l", "b", "s")
"""Containers that the kernel removes together with their last block."""

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_ATTRIBUTES = re.compile(r"(?:[ \t>]|[-*+][ \t]|[0-9]{1,9}[.)][ \t])*\{::?\s.*=")
_CONFLICT = re.compile(r"[ \t>]*(?:<{7}|>{7})(?:[ \t]|$)")

_LIST = re.compile(r"\{::?[^{}\n]*\}")
_MARKERS = re.compile(r"^[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)[ \t>]*)+", re.MULTILINE)
_EMOJI = re.compile(r":[a-z0-9_+-]+:")
_BREAK = re.compile(r"<br\s*/?>")
_MARKUP = re.compile(
    r"</?(?:a|b|code|del|em|i|img|kbd|mark|s|span|strong|sub|sup|u)(?:\s[^<>\n]*)?/?>",
    re.IGNORECASE,
)
_TELLING = re.compile(
    r'(?:href|title|src|alt|data-id|data-content|data-inline-memo-content)="([^"\n]*)"'
)
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufe0f\ufeff]")
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_IDEOGRAPHS}]|[^\\W_{_IDEOGRAPHS}]+")
_TAGS = frozenset(("style", "br"))
"""Words that the kernel may add in the tags it writes for inline styles."""

_TOLD = 5


def checked(markdown: str) -> str:
    """Return the text; InvalidArgs(`markdown`) if lines outside fences must not reach a kernel."""
    check_characters(markdown, "markdown")
    for line in _outside_fences(markdown, checked=True):
        if _ATTRIBUTES.match(line):
            raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
        if _CONFLICT.match(line):
            raise InvalidArgs("markdown", "holds a line of merge conflict markers")
    return markdown


_MARKED = re.compile(
    r"(\*\*|~~|==|(?<!\*)\*(?!\*))(?=\S)(?:(?!\1).)+?(?<=\S)\1"
    r"|(?<!\w)_(?=\S)[^_]+?(?<=\S)_(?!\w)"
    r"|\[[^\[\]]*\]\(|<u>.*?</u>",
    re.DOTALL,
)
_LINE_END = re.compile(r"[ \t]*\\?\n[ \t>]*")


def unbroken(markdown: str) -> str:
    """Join lines within emphasis and links, where the kernel drops line breaks."""
    tree = parse(markdown, "siyuan")
    data = tree.data
    for block in reversed([each for each in tree.root.walk() if each.kind == "p"]):
        source = data[block.start : block.stop].decode("utf-8", "surrogateescape")
        joined = _MARKED.sub(lambda marked: _LINE_END.sub(" ", marked[0]), source)
        if joined != source:
            new = joined.encode("utf-8", "surrogateescape")
            data = data[: block.start] + new + data[block.stop :]
    return data.decode("utf-8", "surrogateescape")


def differing(written: str, read: str) -> str:
    """Words written but not read back, or read but not written; empty if there are none."""
    given, there = _words(_EMOJI.sub(" ", _BREAK.sub(" ", written))), _words(read)
    missing = [word for word, times in given.items() if there[word] < times]
    if missing:
        return "missing: " + ", ".join(missing[:_TOLD])
    source = html.unescape(unquote(written)).casefold()
    added = [word for word in there if word not in _TAGS and word not in source]
    return "added: " + ", ".join(added[:_TOLD]) if added else ""


def expected(over: str, image: str) -> bool:
    """Whether a block is what a change expects, by its mark or by a text that was sent."""
    if over.startswith(SENT):
        return bool(image) and not differing(over.removeprefix(SENT), image)
    return mark_of(image) == over


SENT = "sent:"
"""The prefix of a text that was sent to a block whose mark could not be read."""


def same_text(left: str, right: str) -> bool:
    """Whether two texts differ only in outer blank lines and in blanks at ends of lines."""
    return _trimmed(left) == _trimmed(right)


def _trimmed(markdown: str) -> str:
    lines = markdown.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).strip("\n")


def _words(markdown: str) -> Counter[str]:
    """Count the words of a text; an inline tag counts as the values in it, however spelled."""
    shown = _MARKUP.sub(lambda tag: f" {' '.join(_TELLING.findall(tag[0]))} ", markdown)
    plain = unquote(html.unescape(_INVISIBLE.sub("", _LIST.sub(" ", shown))))
    return Counter(word.casefold() for word in _WORD.findall(_MARKERS.sub("", plain)))


def _outside_fences(markdown: str, *, checked: bool = False) -> Iterator[str]:
    """The lines outside fenced code; `checked`: InvalidArgs for a fence that would lose words."""
    fence = ""
    for number, line in enumerate(re.split("\r\n?|\n", markdown), 1):
        match = _FENCE.match(line)
        words = line[match.end() :].split() if match else []
        if fence:
            if match and match[1].startswith(fence) and not words:
                fence = ""
        elif match is None:
            yield line
        elif checked and len(words) > 1:
            cause = f"SiYuan keeps only the first word behind the fence of line {number}"
            raise InvalidArgs("markdown", cause)
        else:
            fence = match[1]


_IMAGE_ATTRIBUTES = re.compile(r'\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
_ONLY = re.compile(r'[ >]*\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
_PAIR = re.compile(r'([A-Za-z_:][\w\-.:]*)="([^"\n]*)"')
_BLANKS = re.compile(r"(?<=\S)[ \t]+")
_SETTING = re.compile(r'\{: ((?:[A-Za-z_:][\w\-.:]*="[^"\n]*" ?)+)\}')
_MEMO = re.compile(
    r'<span data-type="inline-memo" data-inline-memo-content="([^"\n]*)">([^<]*)</span>'
)
_HEADING_SIGN = re.compile(r"(#{1,6}) ")
_BARE_END = re.compile(r"(?:\n[ >]*)+\Z")
MEMO = "data-inline-memo-content="
"""Marks the memos in a text with spans."""

_BOUND = ("custom-avs", "custom-riff-decks")
_BOUND_PREFIX = "custom-sy-av-"
_VIEW = 'data-type="NodeAttributeView"'

_OWN = ("id", "updated", "created", "type", "data-task")
"""Attributes that only the kernel sets."""

_USERS = ("name", "alias", "memo", "bookmark", "style")


def plain(image: str) -> str:
    """The image as far as it counts: without times of change, its attributes sorted.

    The kernel puts zero-width blanks beside code, keys and tags, and escapes signs within marks,
    as it likes: neither is a difference, nor is the rule of a table that is as wide as they are.
    """
    text = _SETTING.sub(_sorted, image.replace("\u200b", ""))
    return html.unescape(_TABLE_RULE.sub(lambda rule: _DASHES.sub("-", rule[0]), text))


_TABLE_RULE = re.compile(r"^[ >]*\|[ :|-]*-[ :|-]*$", re.MULTILINE)
_DASHES = re.compile(r"-+")


def _sorted(match: re.Match[str]) -> str:
    pairs = (
        f'{name}="{value}"'
        for name, value in sorted(_PAIR.findall(match[1]))
        if name != "updated" and not _is_default(name, value)
    )
    return f"{{: {' '.join(pairs)}}}"


def _is_default(name: str, value: str) -> bool:
    """Whether the kernel adds this attribute to every table: columns without widths."""
    return name == "colgroup" and not value.strip("|")


def mark_of(image: str) -> str:
    """The digest of an image: 64 hexadecimal digits."""
    return hashlib.sha256(plain(image).encode("utf-8", "surrogatepass")).hexdigest()


def attributes_of(image: str) -> dict[str, dict[str, str]]:
    """The attributes of the blocks in an image by id, in the order of the image."""
    attributes: dict[str, dict[str, str]] = {}
    for line in _IMAGE_ATTRIBUTES.findall(image):
        pairs = {
            name: html.unescape(value.replace("_esc_newline_", "\n"))
            for name, value in _PAIR.findall(line)
        }
        if "id" in pairs:
            attributes.setdefault(pairs["id"], pairs)
    return attributes


_PLACE = re.compile(r'^\{: [^\n]*\bid="([0-9]{14}-[0-9a-z]{7})"[^\n]*\}$', re.MULTILINE)


def slices_of(document: str, previous: Mapping[str, str]) -> dict[str, str]:
    """Cut images of blocks (given with `previous` ones) from a document's; skip unclear ones."""
    places = [*_PLACE.finditer(document)]
    if not places or 'type="doc"' not in places[-1][0]:
        return {}  # a container within a document has prefixes of its own
    ends = {place[1]: place.span() for place in places}
    sure = {i for i, times in Counter(place[1] for place in places).items() if times == 1}
    return {
        block_id: document[ends[before][1] if before else 0 : ends[block_id][1]].strip("\n")
        for block_id, before in previous.items()
        if block_id in sure and (not before or before in sure)
    }


def without_attributes(image: str) -> str:
    """The text of an image as far as it can be found without parsing."""
    lines = (line for line in image.split("\n") if not _ONLY.fullmatch(line))
    return _IMAGE_ATTRIBUTES.sub("", "\n".join(lines)).strip("\n")


_SPAN = re.compile(r'<span data-type="([a-z-]+)"([^<>\n]*)>([^<]*)</span>')
_SIGNS = {
    "strong": ("**", "**"),
    "em": ("*", "*"),
    "code": ("`", "`"),
    "s": ("~~", "~~"),
    "mark": ("==", "=="),
    "tag": ("#", "#"),
    **{tag: (f"<{tag}>", f"</{tag}>") for tag in ("sup", "sub", "kbd", "u")},
}
"""What Markdown has before and after the text of a span without attributes."""

_HREF = re.compile(r'data-href="([^"\n]*)"(?: data-title="([^"\n]*)")?')
_INSIDE = re.compile(r'data-(?:content|id)="([^"\n]*)"')


def markdown_of_image(image: str) -> str:
    """The text of an image as Markdown, for a diff; a span without Markdown syntax stays one."""
    return _BARE_END.sub("", _INVISIBLE.sub("", _SPAN.sub(_as_signs, without_attributes(image))))


def _as_signs(element: re.Match[str]) -> str:
    kind, attributes, text = element[1], element[2], html.unescape(element[3])
    link, inside = _HREF.search(attributes), _INSIDE.search(attributes)
    match kind:
        case "a" if link:
            title = f' "{html.unescape(link[2])}"' if link[2] else ""
            return f"[{text}]({html.unescape(link[1])}{title})"
        case "inline-math" if inside:
            return f"${html.unescape(inside[1])}$"
        case "block-ref" if inside:
            sign = '"' if 'data-subtype="s"' in attributes else "'"
            return f"(({inside[1]} {sign}{text}{sign}))"
        case _:
            return text.join(_SIGNS[kind]) if kind in _SIGNS and not attributes else element[0]


_MARKS = re.compile(r"[`*_~=^$#|<>&\\\[\](){}:]|https?|\A(?:\d+[.)]|[-+])\s|  $", re.MULTILINE)


def leaf_of(standing: TreeInfo, image: str) -> KernelNode | None:
    """A paragraph or heading without marks, read from its image alone; None for other blocks.

    What a mark becomes in the kernel's own Markdown only the kernel knows.
    """
    text = _BARE_END.sub("", without_attributes(image)).replace("\u200b", "")
    sign = _HEADING_SIGN.match(text) if standing.kind == "h" else None
    content = text[sign.end() :] if sign else text
    is_plain = (
        standing.kind == ("h" if sign else "p")
        and content != ""
        and content == content.strip()
        and not _MARKS.search(content)
        and image.count("{:") == 1  # else the text speaks of attributes
    )
    subtype = f"h{len(sign[1])}" if sign else ""
    return KernelNode(standing.id, standing.kind, subtype, text, content) if is_plain else None


def with_memos(markdown: str, image: str) -> str:
    """The Markdown of a block with its memos; the image's text if one of them cannot be placed."""
    placed, at = "", 0
    for span in _MEMO.finditer(image):
        memo, word = (
            html.unescape(span[1]).replace("_esc_newline_", " "),
            html.unescape(span[2]),
        )
        spelled = f"{re.escape(word)}<sup>[(（]{re.escape(memo)}[)）]</sup>"
        if match := re.compile(spelled).search(markdown, at):
            placed += markdown[at : match.start()] + span[0]
            at = match.end()
    whole = placed + markdown[at:]
    is_whole = whole.count(MEMO) == image.count(MEMO)
    return whole if is_whole else _BARE_END.sub("", without_attributes(image))


def lost_memos(markdown: str, image: str) -> list[str]:
    """The inline memos of a block that its new text has not."""
    left = html.unescape(markdown)
    memos = [html.unescape(match[1]) for match in _MEMO.finditer(image)]
    return [memo for memo in memos if f'{MEMO}"{memo}"' not in left]


def same(left: str, right: str) -> bool:
    """Whether two images count as equal, apart from blanks in lines and blank lines."""
    return plain(left) == plain(right) or _squeezed(plain(left)) == _squeezed(plain(right))


def _squeezed(text: str) -> str:
    """A text without the blanks that the kernel adds when it is given one as Markdown."""
    return "\n".join(_BLANKS.sub(" ", line).rstrip() for line in text.split("\n") if line.strip())


def bound(image: str) -> str:
    """Why a block cannot be restored by writing its image; empty if it can."""
    names = (name for pairs in attributes_of(image).values() for name in pairs)
    binding = [name for name in names if name in _BOUND or name.startswith(_BOUND_PREFIX)]
    if binding or _VIEW in image:
        return (*binding, "NodeAttributeView")[0]
    return "merge conflict" if any(map(_CONFLICT.match, _outside_fences(image))) else ""


_TIGHT = re.compile(
    r"^(?:([ >]*)\{: [^\n]*\}\n\1(?:[-*+]|[0-9]{1,9}[.)]) \{: "
    r"|([ >]+)\{: [^\n]*\}\n\2[^\s{}>])",
    re.MULTILINE,
)
_BARE_TABLE = re.compile(
    r"^[ >]*\| ?:?-[^\n]*\n(?:[ >]*\|[^\n]*\n)*[ >]*\{: (?![^\n]*colgroup=)", re.MULTILINE
)
_STYLED_FRAME = re.compile(r"<iframe\b[^>\n]*\bstyle=")
_BLANK_CODE = re.compile(r"^([ >]*)`{3,}[^`\n]*\n\1(?:[ \t]|\n)|\n[ >]*\n[ >]*`{3,}$", re.MULTILINE)
_DIAGRAM = 'data-type="NodeCodeBlock" class="render-node"'
_BLANK_END = re.compile(r'data-content="(?:\s|[^"]*\s")')
_BARE_HTML = re.compile(r'<protyle-html[^>]*\bdata-content="(?!&lt;div)')


def changing(image: str, dom: str) -> str:
    """What the kernel would change in a block that is written back as it is; empty if nothing.

    The kernel has one form of each block for what it receives, and others for what was imported or
    written by former versions. `dom` is what an editor gets; the kernel would create the first form
    from it. Zero-width blanks and the escaping of signs are no change: see `plain`.
    """
    blanks = "blanks around a diagram, a formula or a query"
    changes = (
        (_DIAGRAM in dom and _BLANK_CODE.search(image), blanks),
        (_TIGHT.search(image), "a list without blank lines"),
        (_BARE_TABLE.search(image), "a table without widths"),
        (_STYLED_FRAME.search(image), "the style of a frame"),
        ('parent-style="' in image, "the style of an image"),
        (_BLANK_END.search(dom), blanks),
        (_BARE_HTML.search(dom), "HTML without <div>"),
    )
    return next((name for is_so, name in changes if is_so), "")


_BLANK_RUN = re.compile("\u200b{2,}")
_CODE_SPAN = re.compile(r'(<span data-type="[^"]*\bcode\b[^"]*"[^>]*>)(.*?)(</span>)')


def escaped_code(dom: str) -> str:
    """A DOM in which signs within code are escaped; where they are not, the kernel reads tags.

    Of several zero-width blanks one is left: the kernel adds to them each time, without end.
    """
    dom = _BLANK_RUN.sub("\u200b", dom)
    return _CODE_SPAN.sub(lambda code: code[1] + html.escape(html.unescape(code[2])) + code[3], dom)


def to_keep(attributes: dict[str, str], *, same_kind: bool) -> dict[str, str]:
    """The attributes that an update must restore; if the kind changed, only the user's."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in _OWN
        and value
        and not _is_default(name, value)
        and (same_kind or name in _USERS or name.startswith("custom-"))
    }


def shown(attributes: dict[str, str]) -> dict[str, str]:
    """The attributes to show: name, alias, memo, bookmark and custom ones."""
    return {
        name: value
        for name, value in attributes.items()
        if name in ("name", "alias", "memo", "bookmark") or name.startswith("custom-")
    }


_MARKER = re.compile(r"\s*([-*+]|[0-9]{1,9}[.)])([ \t]+|$)(\[.\][ \t]+)?")


@dataclass(frozen=True, slots=True)
class TreeInfo(Around):
    """A block's position in its tree: container and neighbours; empty ids if there are none."""

    id: str
    kind: str

    @property
    def around(self) -> Around:
        """Its container and its neighbours."""
        return Around(self.parent_id, self.previous_id, self.next_id)


@dataclass(eq=False, slots=True)
class KernelNode:
    """A block as its container lists it; a new one has no id.

    `children` is None until it is opened.
    """

    id: str
    kind: str
    subtype: str
    markdown: str
    content: str = ""
    parent: KernelNode | None = field(default=None, init=False)
    children: list[KernelNode] | None = field(default=None, init=False)

    def put(self, at: int, nodes: Sequence[KernelNode]) -> None:
        """Insert children at this index of an open node."""
        assert self.children is not None
        self.children[at:at] = nodes
        for node in nodes:
            node.parent = self

    def text(self) -> str:
        """The Markdown of the node; containers are laid out as by the kernel."""
        if self.children is None:
            return self.markdown
        return _laid_out(self.kind, self.markdown, [node.text() for node in self.children])


def _laid_out(kind: str, source: str, inside: list[str], line: str = "", end: str = "") -> str:
    """The text of a container with this `source` and these inner texts, as the kernel writes it.

    `line` is the attribute list of an item; `end` follows quoted text.
    """
    body, first = "\n\n".join(inside), source.split("\n", 1)[0]
    match kind:
        case "l":
            return "\n".join(inside)
        case "i":
            marker = _MARKER.match(source)
            bullet, task = (f"{marker[1]} ", marker[3] or "") if marker else ("- ", "")
            return bullet + line + task + _indented(body, " " * len(bullet))
        case "s":
            return f"{first}\n{body}\n\n}}}}}}"
        case "callout":
            return f"{first}\n{_quoted(body)}{end}"
        case "b":
            return f"{_quoted(body)}{end}"
        case _:
            return body


def _indented(body: str, prefix: str) -> str:
    first, *rest = body.split("\n")
    return "\n".join((first, *(prefix + line if line else "" for line in rest)))


def _quoted(body: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in body.split("\n"))


def addressed(
    block_id: str, markdown: str, image: str, signed: str, *, item: bool = False
) -> tuple[str, frozenset[str]]:
    """The new text of a block, in which the blocks that still exist keep ids and attributes.

    `image` is the current block, `signed` the same with Markdown marks, which is needed if it
    contains blocks. Both are empty for a new block, which may be an `item`. The second result are
    the ids in the text: none if it is sent as it is, since it would not be read as it is meant.
    """
    markdown = unbroken(markdown)
    tree, before = parse(markdown, "siyuan"), parse(signed, "siyuan")
    tops = [block for block in tree.root.children if not is_phantom(block)]
    if len(tops) != 1:
        return markdown, frozenset()
    (top,) = tops
    had, old = attributes_of(image), before.anchors.get(block_id)
    if (item or (old is not None and old.kind == "i")) and len(top.children) == 1:
        top = top.children[0]
    ids = {id(top): block_id}
    if old is not None and top.holds_blocks and old.holds_blocks:
        rows = [
            row._replace(id=block.anchor or f"-{at}", anchor="")
            for at, (row, (_, block)) in enumerate(
                zip(fingerprints(before, old), in_order(old), strict=True)
            )
        ]
        rows_now = identify(rows, fingerprints(tree, top), (), "+{}".format, lambda _: False)
        matched = zip(rows_now, in_order(top), strict=True)
        ids = {id(block): row.id for row, (_, block) in matched if row.id in had} | ids
        _pair_in_place(old, top, ids)
    kinds = {block.anchor: block.kind for block in before.root.walk() if block.anchor}
    lines: dict[int, str] = {}
    for block in top.walk():
        if own_id := ids.get(id(block)):
            same_kind = kinds.get(own_id, block.kind) == block.kind
            pairs = {"id": own_id} | to_keep(had.get(own_id, {}), same_kind=same_kind)
            spelled = " ".join(f'{name}="{html.escape(value)}"' for name, value in pairs.items())
            lines[id(block)] = f"{{: {spelled}}}".replace("\n", "_esc_newline_")
    composed = _composed(tree, top, lines).strip("\n")
    again, ids_in = parse(composed, "siyuan"), frozenset(ids.values())
    if again.anchors.keys() != ids_in or _shape(again.root.children) != _shape((top,)):
        return markdown, frozenset()
    return composed, ids_in


def _pair_in_place(old: Block, new: Block, ids: dict[int, str]) -> None:
    """Give new blocks the ids of the old blocks they replace, one for one and of the same kind."""
    waiting = [(old, new)]
    while waiting:
        old, new = waiting.pop()
        used = set(ids.values())
        places = {child.anchor: at for at, child in enumerate(old.children) if child.anchor}
        start = 0
        free: list[Block] = []
        for child in (*new.children, None):
            at = places.get(ids.get(id(child), ""), -1) if child else len(old.children)
            if at >= start:
                gone = [
                    block
                    for block in old.children[start:at]
                    if block.anchor and block.anchor not in used
                ]
                if [block.kind for block in gone] == [block.kind for block in free]:
                    ids |= zip(map(id, free), (each.anchor or "" for each in gone), strict=True)
                start, free = at + 1, []
            elif child and id(child) not in ids:
                free.append(child)
        waiting += [
            (old.children[places[ids[id(child)]]], child)
            for child in new.children
            if child.holds_blocks and ids.get(id(child)) in places
        ]


def _shape(blocks: Sequence[Block]) -> str:
    """The kinds of blocks and of those inside, as `b(p()l(i(p())))`.

    An item reads as a list of one; an empty item counts as holding a paragraph.
    """
    if len(blocks) == 1 and blocks[0].kind == "l" and len(blocks[0].children) == 1:
        return _shape(blocks[0].children)
    return "".join(
        f"{block.kind}({_shape(block.children) or 'p()' * (block.kind == 'i')})" for block in blocks
    )


def _composed(tree: Tree, block: Block, lines: Mapping[int, str]) -> str:
    """The kramdown of a block, laid out as the kernel does it."""
    line, text = lines.get(id(block), ""), raw_markdown(tree, block)
    if block.holds_blocks:
        inside = [_composed(tree, child, lines) for child in block.children]
        text = _laid_out(block.kind, text, inside, line, "\n>")
    return f"{text}\n{line}" if line and block.kind != "i" else text


def split_blocks(markdown: str) -> tuple[BlockText, ...]:
    """The blocks of a text as a kernel parses it."""
    return split_tree(parse(markdown, "siyuan"))


@dataclass(slots=True)
class HeldBlocks:
    """The data that `execute` needs from the dry run.

    `doms` is what an editor gets of the blocks to write or delete, and `marks` are their marks;
    `containers` are those whose contents change, in order; `runs` are blocks that follow each
    other, of containers of which only these were read; `idle` are the indices of updates to a text
    that the block already has.
    """

    documents: tuple[str, ...]
    doms: dict[str, str]
    marks: dict[str, str] = field(default_factory=dict[str, str])
    containers: dict[str, None] = field(default_factory=dict[str, None])
    runs: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    idle: set[int] = field(default_factory=set[int])
