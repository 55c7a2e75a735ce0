"""A block as it is at one moment, as kramdown: text, ids, attributes; what undo is made of.

What lives here: lines of attributes read, images compared and marked. What must
not: requests. Invariant: two images are the same when text, ids and attributes
are; when they were last changed counts for nothing.
"""

from __future__ import annotations

import hashlib
import html
import re

from copydesk.store.notes.kernel_text import has_conflict

_ATTRIBUTES = re.compile(r'\{: ((?:[^"{}\n]|"[^"\n]*")*)\}')
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
    return _ATTRIBUTES.sub(lambda found: _UPDATED.sub("", found[0]), image)


def mark(image: str) -> str:
    """What tells an image from another: 64 hexadecimal digits."""
    return hashlib.sha256(plain(image).encode("utf-8", "surrogatepass")).hexdigest()


def attributes(image: str) -> dict[str, dict[str, str]]:
    """The attributes of the blocks in an image, by id, in the order they are listed."""
    found: dict[str, dict[str, str]] = {}
    for line in _ATTRIBUTES.findall(image):
        pairs = {name: _unescaped(value) for name, value in _PAIR.findall(line)}
        if "id" in pairs:
            found.setdefault(pairs["id"], pairs)
    return found


def without_attributes(image: str) -> str:
    """The text of an image, as far as it can be told without parsing it."""
    lines = (line for line in image.split("\n") if not _ONLY.fullmatch(line))
    return _ATTRIBUTES.sub("", "\n".join(lines)).strip("\n")


def same(one: str, other: str) -> bool:
    """Whether two images are the same; blanks in lines and the order of attributes may differ."""
    return plain(one) == plain(other) or (
        same_blocks(one, other) and _kept_by_id(one) == _kept_by_id(other)
    )


def same_blocks(one: str, other: str) -> bool:
    """Whether two images hold the same blocks, by ids and text; attributes may differ."""
    return _ids(one) == _ids(other) and _signs(one) == _signs(other)


def bound(image: str) -> str:
    """Why a block of this image could not be brought back by writing it; empty when it could."""
    for pairs in attributes(image).values():
        for name in pairs:
            if name in _BOUND or name.startswith(_BOUND_PREFIX):
                return name
    if _VIEW in image:
        return "NodeAttributeView"
    return "merge conflict" if has_conflict(image) else ""


def to_keep(attributes: dict[str, str], *, same_kind: bool) -> dict[str, str]:
    """Those that an update has to put back; of a block of another kind now, only the user's."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in _OWN
        and value
        and (same_kind or name in _USERS or name.startswith("custom-"))
    }


def shown(attributes: dict[str, str]) -> dict[str, str]:
    """Those that are for readers: name, alias, memo, bookmark and what is custom."""
    return {
        name: value
        for name, value in attributes.items()
        if name in ("name", "alias", "memo", "bookmark") or name.startswith("custom-")
    }


def _kept_by_id(image: str) -> dict[str, dict[str, str]]:
    return {key: to_keep(pairs, same_kind=True) for key, pairs in attributes(image).items()}


def _ids(image: str) -> list[str]:
    """The ids in an image as they come, one that comes twice too."""
    return [
        value
        for line in _ATTRIBUTES.findall(image)
        for name, value in _PAIR.findall(line)
        if name == "id"
    ]


def _signs(image: str) -> str:
    """The text of an image; the kernel writes more blanks within a line each time it reads one."""
    lines = _ATTRIBUTES.sub("", image).split("\n")
    return "\n".join(_BLANKS.sub(" ", line).rstrip() for line in lines if line.strip())


def _unescaped(value: str) -> str:
    return html.unescape(value.replace("_esc_newline_", "\n"))
