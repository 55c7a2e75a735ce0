"""Markdown with ids and attributes, as the fake kernel reads and writes it.

A small parser of its own, so that the one of copydesk is not checked against itself.
"""

from __future__ import annotations

import html
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field

IDS = itertools.count(1)
NOW = "20260101120000"

_ID = re.compile(r"[0-9]{14}-[0-9a-z]{7}")
_IAL = re.compile(r'\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
_PAIR = re.compile(r'([A-Za-z_:][\w\-.:]*)="([^"\n]*)"')
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_BREAK = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_ITEM = re.compile(r"( {0,3})([-*+]|[0-9]{1,9}[.)])( {1,4}|$)")
_TASK = re.compile(r"\[([ xX])\] ")
_CALLOUT = re.compile(r"\[!([A-Za-z]+)\]")
_TABLE = re.compile(r"[ |:-]*-[ |:-]*$")
_EMPHASIS = re.compile(r"(?<![\w*])_([^_\n]+)_(?![\w*])")
_IMAGE = re.compile(r"<img [^<>\n]*>")
_SOFT = re.compile(
    r"(\*\*|~~|==|[*_])(?=\S)((?:(?!\1).)+?)(?<=\S)\1|(?<!!)\[([^\[\]]*\n[^\[\]]*)(?=\]\()",
    re.DOTALL,
)
_MEMO = re.compile(
    r'<span data-type="inline-memo" data-inline-memo-content="([^"\n]*)">(.*?)</span>', re.DOTALL
)
_CONFLICT = re.compile(r"<{7} ?.*?^={7}$.*?^>{7}", re.MULTILINE | re.DOTALL)


class Panic(Exception):
    """The kernel's code ran into something it did not think of."""


class Refused(Exception):
    """The kernel says no."""


def restart() -> None:
    """Ids begin again, so that one kernel is as another."""
    global IDS
    IDS = itertools.count(1)


def fresh_id() -> str:
    """An id that nothing has yet."""
    return f"{NOW}-{next(IDS):07d}"


@dataclass(eq=False)
class Node:
    """A block; `text` is a leaf's Markdown, of a callout its title line, of a super block its layout."""

    kind: str
    text: str = ""
    subtype: str = ""
    id: str = field(default_factory=fresh_id)
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def walk(self) -> list[Node]:
        """The block and all in it."""
        return [self, *(below for child in self.children for below in child.walk())]


def parse(markdown: str) -> list[Node]:
    """The blocks of a text; Panic and Refused for ids that are none."""
    return _blocks(markdown.replace("\r\n", "\n").split("\n"))


def _blocks(lines: list[str]) -> list[Node]:
    made: list[Node] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        attributes = _IAL.fullmatch(line.strip())
        if not line.strip():
            at += 1
        elif attributes and _PAIR.search(attributes[1]):
            if not made:
                made.append(Node("p"))
            _name(made[-1], attributes[1])
            at += 1
        else:
            at, node = _block(lines, at)
            made += node
    return made


def _block(lines: list[str], at: int) -> tuple[int, list[Node]]:
    line = lines[at]
    if found := _FENCE.match(line):
        end = _until(
            lines, at + 1, lambda one: one.strip().startswith(found[1]) and not one.strip(" `~")
        )
        first = f"{line.rstrip(' ')[: found.end()]}{(line[found.end() :].split() or [''])[0]}"
        return end + 1, [Node("c", "\n".join([first, *lines[at + 1 : end + 1]]))]
    if line.strip() == "$$":
        end = _until(lines, at + 1, lambda one: one.strip() == "$$")
        return end + 1, [Node("m", "\n".join(lines[at : end + 1]))]
    if line.startswith("{{{") and line[3:] in ("row", "col"):
        depth, end = 1, at
        while depth and end + 1 < len(lines):
            end += 1
            depth += lines[end].startswith("{{{") - (lines[end] == "}}}")
        return end + 1, [Node("s", line[3:], children=_blocks(lines[at + 1 : end]))]
    if found := _HEADING.match(line):
        return at + 1, [Node("h", _IMAGE.sub(_image, line.strip()), f"h{len(found[1])}")]
    if _BREAK.match(line):
        return at + 1, [Node("tb", "---")]
    if line.startswith("<<<<<<<") and (conflict := _CONFLICT.match("\n".join(lines[at:]))):
        end = at + conflict[0].count("\n")
        return end + 1, [Node("", "\n".join(lines[at : end + 1]))]
    if line.startswith(">"):
        return _quote(lines, at)
    if _ITEM.match(line):
        return _lists(lines, at)
    if line.startswith("<") and line[1:2].isalpha():
        end = _until(lines, at, lambda one: not one.strip() or bool(_IAL.fullmatch(one)))
        body = "\n".join(lines[at:end])
        if not line.startswith(("<div", "<iframe")):  # it takes other tags for words
            return end, [Node("p", body)]
        kind = (
            "av"
            if "NodeAttributeView" in line
            else "iframe"
            if line.startswith("<iframe")
            else "html"
        )
        return end, [Node(kind, body)]
    if "|" in line and at + 1 < len(lines) and _TABLE.match(lines[at + 1]):
        end = _until(lines, at, lambda one: not one.strip() or bool(_IAL.fullmatch(one)))
        table = Node("t", "\n".join(lines[at:end]))
        table.attributes["colgroup"] = "|" * max(line.strip().strip("|").count("|"), 1)
        return end, [table]
    end = _until(lines, at + 1, _interrupts)
    body = "\n".join(one.strip() for one in lines[at:end])
    body = _SOFT.sub(lambda found: found[0].replace("\n", ""), body)
    return end, [Node("p", _EMPHASIS.sub(r"*\1*", body))]


def _image(found: re.Match[str]) -> str:
    said = dict(_PAIR.findall(found[0]))
    style = f'{{: style="width: {said["width"]}px;"}}' if "width" in said else ""
    return f"![{said.get('alt', '')}]({said.get('src', '')}){style}"


def _interrupts(line: str) -> bool:
    if not line.strip() or line.startswith((">", "$$", "{{{")):
        return True
    found = _ITEM.match(line)
    starts = found and found[3] and (found[2] in ("-", "*", "+", "1.", "1)"))
    return bool(
        starts or _HEADING.match(line) or _FENCE.match(line) or _BREAK.match(line)
        or _IAL.fullmatch(line.strip())
    )  # fmt: skip


def _quote(lines: list[str], at: int) -> tuple[int, list[Node]]:
    end = _until(lines, at, lambda one: not one.startswith(">"))
    inner = [line[1:].removeprefix(" ") for line in lines[at:end]]
    if found := _CALLOUT.match(inner[0]):
        node = Node("callout", inner[0], found[1].upper(), children=_blocks(inner[1:]))
    else:
        node = Node("b", children=_blocks(inner))
    node.children = node.children or [Node("p")]
    return end, [node]


def _lists(lines: list[str], at: int) -> tuple[int, list[Node]]:
    items: list[Node] = []
    while at < len(lines) and (found := _ITEM.match(lines[at])) and not _BREAK.match(lines[at]):
        width = len(found[1]) + len(found[2]) + max(len(found[3]), 1)
        inner = [lines[at][found.end() :]]
        at += 1
        while at < len(lines):
            line = lines[at]
            if not line.strip():
                ahead = _until(lines, at, lambda one: bool(one.strip()))
                if ahead == len(lines) or not lines[ahead].startswith(" " * width):
                    break
                inner += [""] * (ahead - at)
                at = ahead
            elif line.startswith(" " * width):
                inner.append(line[width:])
                at += 1
            elif inner[-1].strip() and not _interrupts(line) and not _ITEM.match(line):
                inner.append(line.strip())
                at += 1
            else:
                break
        items.append(_item(found[2], inner))
        if at < len(lines) and not lines[at].strip():
            ahead = _until(lines, at, lambda one: bool(one.strip()))
            if ahead < len(lines) and _ITEM.match(lines[ahead]):
                at = ahead
    return at, [
        Node("l", subtype=subtype, children=list(group))
        for subtype, group in itertools.groupby(items, lambda item: item.subtype)
    ]


def _item(marker: str, inner: list[str]) -> Node:
    subtype = "u" if marker in "-*+" else "o"
    node = Node("i", subtype=subtype)
    if found := _IAL.match(inner[0]):
        _name(node, found[1])
        inner = [inner[0][found.end() :].lstrip(), *inner[1:]]
    if found := _TASK.match(inner[0] + " "):
        node.subtype, node.text = "t", found[1].upper()
        inner = [inner[0][found.end() :], *inner[1:]]
    node.children = _blocks(inner) or [Node("p")]
    return node


def _until(lines: list[str], at: int, stop: Callable[[str], bool]) -> int:
    while at < len(lines) and not stop(lines[at]):
        at += 1
    return at


def _name(node: Node, attributes: str) -> None:
    for name, value in _PAIR.findall(attributes):
        if name == "id":
            if len(value) < 14:
                raise Panic("slice bounds out of range")
            if not _ID.fullmatch(value):
                raise Refused("found invalid ID")
            node.id = value
        else:
            node.attributes[name] = html.unescape(value.replace("_esc_newline_", "\n"))


def dom(node: Node) -> str:
    """A block as an editor gets it: exact, but for what `of_dom` makes of it."""
    return ET.tostring(_element(node), "unicode")


def _element(node: Node) -> ET.Element:
    element = ET.Element("div", {"data-type": node.kind, "data-subtype": node.subtype})
    element.attrib |= {"data-node-id": node.id} | node.attributes
    text = ET.SubElement(element, "div", {"contenteditable": "true"})
    text.text = node.text
    element.extend(_element(child) for child in node.children)
    return element


def of_dom(data: str) -> list[Node]:
    """The blocks of a DOM. Tables get widths, and HTML gets a <div>: each has one form."""
    return [_node(element) for element in ET.fromstring(f"<div>{data}</div>")]


def _node(element: ET.Element) -> Node:
    said = dict(element.attrib)
    text, *children = element
    kind, subtype, block_id = (
        said.pop(name) for name in ("data-type", "data-subtype", "data-node-id")
    )
    node = Node(kind, text.text or "", subtype, block_id, said, [_node(one) for one in children])
    if kind == "t":
        columns = node.text.split("\n", 1)[0].strip().strip("|").count("|")
        node.attributes.setdefault("colgroup", "|" * max(columns, 1))
    if kind == "html" and not node.text.startswith("<div"):
        node.text = f"<div>\n{node.text}\n</div>"
    return node


def markdown(node: Node, parent: Node | None = None) -> str:
    """The text of a block as the kernel writes it, without ids."""
    return _written(node, _number(node, parent), lambda one: "").strip()


def kramdown(node: Node, parent: Node | None = None, *, turned: int = 0) -> str:
    """The text of a block with the ids and attributes of all in it.

    The kernel writes attributes in another order each time: `turned` by so many.
    """
    return _written(node, _number(node, parent), lambda one: attributes_of(one, turned))


def unmarked(text: str) -> str:
    """A text without what Markdown has no sign for: a memo becomes a remark behind its word."""
    return _MEMO.sub(r"\2<sup>(\1)</sup>", text)


def _number(node: Node, parent: Node | None) -> int:
    """The number of an item in an ordered list."""
    return parent.children.index(node) + 1 if parent is not None else 1


def attributes_of(node: Node, turned: int = 0) -> str:
    """The line of attributes of a block."""
    listed = [("id", node.id), *node.attributes.items()]
    at = turned % len(listed)
    pairs = dict([*listed[at:], *listed[:at]])
    spelled = (
        f'{name}="{html.escape(value).replace(chr(10), "_esc_newline_")}"'
        for name, value in pairs.items()
    )
    return "{: " + " ".join(spelled) + "}"


def _written(node: Node, number: int, spell: Callable[[Node], str]) -> str:
    own = spell(node)
    if node.kind == "i":
        bullet = f"{number}. " if node.subtype == "o" else "- "
        task = f"[{node.text}] " if node.subtype == "t" else ""
        body = "\n\n".join(_written(child, 1, spell) for child in node.children)
        first, *rest = body.split("\n")
        return "\n".join(
            [
                bullet + own + task + first,
                *(" " * len(bullet) + line if line else "" for line in rest),
            ]
        )
    if node.kind == "l":
        body = "\n".join(_written(item, at, spell) for at, item in enumerate(node.children, 1))
    elif node.kind in ("b", "callout"):
        inner = "\n\n".join(_written(child, 1, spell) for child in node.children).split("\n")
        title = [node.text] if node.kind == "callout" else []
        body = "\n".join(f"> {line}".rstrip() for line in [*title, *inner])
    elif node.kind == "s":
        inner_text = "\n\n".join(_written(child, 1, spell) for child in node.children)
        body = f"{{{{{{{node.text}\n{inner_text}\n\n}}}}}}"
    elif node.kind == "d":
        body = "\n\n".join(_written(child, 1, spell) for child in node.children) + "\n" * bool(own)
    else:
        body = node.text
    return f"{body}\n{own}" if own else body


def content(node: Node) -> str:
    """What a person reads of a block."""
    if node.kind == "d":
        return html.escape(node.attributes.get("title", ""))
    if node.children:
        return " ".join(content(child) for child in node.children)
    return re.sub(r"^#{1,6} |[*`]", "", node.text)
