"""A kernel's blocks as kramdown and as a tree: texts, ids, attributes."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from copydesk.errors import InvalidArgs
from copydesk.store.notes.kernel_api import Child
from copydesk.store.notes.pieces import BlockText, check_characters, split_tree
from copydesk.text.markdown import parse

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_ATTRIBUTES = re.compile(r"(?:[ \t>]|[-*+][ \t]|[0-9]{1,9}[.)][ \t])*\{::?\s.*=")
_CONFLICT = re.compile(r"[ \t>]*(?:<{7}|>{7})(?:[ \t]|$)")

_LIST = re.compile(r"\{::?[^{}\n]*\}")
_MARKERS = re.compile(r"^[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)[ \t>]*)+", re.MULTILINE)
_EMOJI = re.compile(r":[a-z0-9_+-]+:")
_BREAK = re.compile(r"<br\s*/?>")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufe0f\ufeff]")
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_IDEOGRAPHS}]|[^\\W_{_IDEOGRAPHS}]+")
_TAGS = frozenset(("sup", "sub", "kbd", "u", "mark", "span", "style", "br", "data"))
"""Words that the kernel may add, in the tags it writes for inline styles."""

_TOLD = 5


def checked(markdown: str) -> str:
    """The text itself; InvalidArgs(`markdown`) for one that a kernel must not get.

    Code in fences may hold what it likes.
    """
    check_characters(markdown, "markdown")
    for line in _outside_fences(markdown):
        if _ATTRIBUTES.match(line):
            raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
        if _CONFLICT.match(line):
            raise InvalidArgs("markdown", "holds a line of merge conflict markers")
    return markdown


def has_conflict(kramdown: str) -> bool:
    """Whether a text read from a kernel holds conflict markers, which cannot be written back."""
    return any(_CONFLICT.match(line) for line in _outside_fences(kramdown))


def differing(written: str, read: str) -> str:
    """Words written but not read back, or read but not written; empty for none."""
    given, there = _words(_EMOJI.sub(" ", _BREAK.sub(" ", written))), _words(read)
    missing = [word for word, times in given.items() if there[word] < times]
    if missing:
        return "missing: " + ", ".join(missing[:_TOLD])
    source = html.unescape(unquote(written)).casefold()
    added = [word for word in there if word not in _TAGS and word not in source]
    return "added: " + ", ".join(added[:_TOLD]) if added else ""


def same_text(one: str, other: str) -> bool:
    """Whether two texts are the same but for blank lines around and blanks at the ends of lines."""
    return _trimmed(one) == _trimmed(other)


def _trimmed(markdown: str) -> str:
    lines = markdown.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).strip("\n")


def _words(markdown: str) -> Counter[str]:
    plain = unquote(html.unescape(_INVISIBLE.sub("", _LIST.sub(" ", markdown))))
    return Counter(word.casefold() for word in _WORD.findall(_MARKERS.sub("", plain)))


def _outside_fences(markdown: str) -> Iterator[str]:
    """The lines that are not in a fence of code."""
    fence = ""
    for line in markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        found = _FENCE.match(line)
        if not fence:
            if found:
                fence = found[1]
            else:
                yield line
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""


_IMAGE_ATTRIBUTES = re.compile(r'\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
_ONLY = re.compile(r'[ >]*\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
_PAIR = re.compile(r'([A-Za-z_:][\w\-.:]*)="([^"\n]*)"')
_BLANKS = re.compile(r"(?<=\S)[ \t]+")
_UPDATED = re.compile(r' updated="[0-9]*"')

_BOUND = ("custom-avs", "custom-riff-decks")
_BOUND_PREFIX = "custom-sy-av-"
_VIEW = 'data-type="NodeAttributeView"'

_OWN = ("id", "updated", "created", "type", "data-task")
"""Attributes that the kernel alone sets."""

_USERS = ("name", "alias", "memo", "bookmark", "style")


def plain(image: str) -> str:
    """The image without the times of its last changes."""
    return _IMAGE_ATTRIBUTES.sub(lambda found: _UPDATED.sub("", found[0]), image)


def mark_of(image: str) -> str:
    """The digest of an image: 64 hexadecimal digits."""
    return hashlib.sha256(plain(image).encode("utf-8", "surrogatepass")).hexdigest()


def attributes_of(image: str) -> dict[str, dict[str, str]]:
    """The attributes of the blocks in an image, by id, in the order they are listed."""
    found: dict[str, dict[str, str]] = {}
    for line in _IMAGE_ATTRIBUTES.findall(image):
        pairs = {name: _unescaped(value) for name, value in _PAIR.findall(line)}
        if "id" in pairs:
            found.setdefault(pairs["id"], pairs)
    return found


def without_attributes(image: str) -> str:
    """The text of an image, as far as it can be found without parsing."""
    lines = (line for line in image.split("\n") if not _ONLY.fullmatch(line))
    return _IMAGE_ATTRIBUTES.sub("", "\n".join(lines)).strip("\n")


def same(one: str, other: str) -> bool:
    """Whether two images are the same; blanks in lines and the order of attributes may differ."""
    return plain(one) == plain(other) or (
        same_blocks(one, other) and _kept_by_id(one) == _kept_by_id(other)
    )


def same_blocks(one: str, other: str) -> bool:
    """Whether two images hold the same blocks, by ids and text; attributes may differ."""
    return _ids(one) == _ids(other) and _signs(one) == _signs(other)


def bound(image: str) -> str:
    """Why a block could not be restored by writing its image; empty if it could."""
    for pairs in attributes_of(image).values():
        for name in pairs:
            if name in _BOUND or name.startswith(_BOUND_PREFIX):
                return name
    if _VIEW in image:
        return "NodeAttributeView"
    return "merge conflict" if has_conflict(image) else ""


def to_keep(attributes: dict[str, str], *, same_kind: bool) -> dict[str, str]:
    """Attributes that an update has to restore; if the kind changed, only the user's."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in _OWN
        and value
        and (same_kind or name in _USERS or name.startswith("custom-"))
    }


def shown(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes that are shown: name, alias, memo, bookmark and custom ones."""
    return {
        name: value
        for name, value in attributes.items()
        if name in ("name", "alias", "memo", "bookmark") or name.startswith("custom-")
    }


def _kept_by_id(image: str) -> dict[str, dict[str, str]]:
    return {key: to_keep(pairs, same_kind=True) for key, pairs in attributes_of(image).items()}


def _ids(image: str) -> list[str]:
    """The ids in an image as they come, one that comes twice too."""
    return [
        value
        for line in _IMAGE_ATTRIBUTES.findall(image)
        for name, value in _PAIR.findall(line)
        if name == "id"
    ]


def _signs(image: str) -> str:
    """The text of an image; the kernel writes more blanks within a line each time it reads one."""
    lines = _IMAGE_ATTRIBUTES.sub("", image).split("\n")
    return "\n".join(_BLANKS.sub(" ", line).rstrip() for line in lines if line.strip())


def _unescaped(value: str) -> str:
    return html.unescape(value.replace("_esc_newline_", "\n"))


_MARKER = re.compile(r"\s*([-*+]|[0-9]{1,9}[.)])([ \t]+|$)(\[.\][ \t]+)?")


class KernelNode:
    """A block; `children` is None while it is closed. A new one has no id."""

    __slots__ = ("children", "id", "kind", "markdown", "parent", "subtype")

    def __init__(self, block_id: str, kind: str, subtype: str, markdown: str) -> None:
        self.id = block_id
        self.kind = kind
        self.subtype = subtype
        self.markdown = markdown
        self.parent: KernelNode | None = None
        self.children: list[KernelNode] | None = None

    @staticmethod
    def of(child: Child) -> KernelNode:
        """A closed node of a block that is there."""
        return KernelNode(child.id, child.kind, child.subtype, child.markdown)

    @staticmethod
    def new(piece: BlockText) -> KernelNode:
        """A closed node of a new block."""
        return KernelNode("", piece.kind, piece.subtype, piece.markdown)

    def open(self, children: Sequence[Child]) -> list[KernelNode]:
        """Set the children to these blocks; their nodes."""
        self.children = [KernelNode.of(child) for child in children]
        for node in self.children:
            node.parent = self
        return self.children

    def put(self, at: int, nodes: Sequence[KernelNode]) -> None:
        """Insert children at this index of an open node."""
        assert self.children is not None
        self.children[at:at] = nodes
        for node in nodes:
            node.parent = self

    def leave(self) -> None:
        """Remove the node from its container."""
        assert self.parent is not None
        assert self.parent.children is not None
        self.parent.children.remove(self)
        self.parent = None

    def become(self, piece: BlockText) -> None:
        """Replace the block in the same place."""
        self.kind, self.subtype, self.markdown = piece.kind, piece.subtype, piece.markdown
        self.children = None

    def text(self) -> str:
        """The Markdown of the node, as the kernel lays out what is in containers."""
        if self.children is None:
            return self.markdown
        texts = [node.text() for node in self.children]
        if self.kind == "l":
            return "\n".join(texts)
        body = "\n\n".join(texts)
        if self.kind == "i":
            found = _MARKER.match(self.markdown)
            bullet, task = (f"{found[1]} ", found[3] or "") if found else ("- ", "")
            return bullet + task + _indented(body, " " * len(bullet))
        if self.kind == "b":
            return _quoted(body)
        first = self.markdown.split("\n", 1)[0]
        if self.kind == "callout":
            return f"{first}\n{_quoted(body)}"
        if self.kind == "s":
            return f"{first}\n{body}\n\n}}}}}}"
        return body


def _indented(body: str, prefix: str) -> str:
    first, *rest = body.split("\n")
    return "\n".join((first, *(prefix + line if line else "" for line in rest)))


def _quoted(body: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in body.split("\n"))


def split_blocks(markdown: str) -> tuple[BlockText, ...]:
    """The blocks of a text as a kernel parses it."""
    return split_tree(parse(markdown, "siyuan"))
