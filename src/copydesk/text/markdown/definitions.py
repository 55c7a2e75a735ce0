"""Link reference definitions at the start of a paragraph.

What lives here: how many lines each definition takes. What must not: nodes,
what a link means. Cost: each byte is read a bounded number of times.
"""

from __future__ import annotations

import re

_LABEL = re.compile(rb"\[((?:[^\\\[\]]|\\.){1,999})\]:", re.DOTALL).match
_GAP = re.compile(rb"[ \t]*+(?:\n[ \t]*+)?").match
_ANGLE = re.compile(rb"<(?:[^<>\n\\]|\\.)*+>").match
_TITLES = {
    34: re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL).match,
    39: re.compile(rb"'(?:[^'\\]|\\.)*+'", re.DOTALL).match,
    40: re.compile(rb"\((?:[^()\\]|\\.)*+\)", re.DOTALL).match,
}
_LINE_END = re.compile(rb"[ \t]*+(\n|\Z)").match
_MOST_PARENTHESES = 32


def definitions(text: bytes) -> list[int]:
    """How many lines each definition takes, for those that `text` begins with.

    `text` is that of a paragraph: lines joined by LF, none of them blank,
    without the indentation of any.
    """
    found: list[int] = []
    at = 0
    while at < len(text) and text[at] == 91:
        end = _definition(text, at)
        if end is None:
            break
        found.append(text.count(b"\n", at, end) + (text[end - 1] != 10))
        at = end
    return found


def _definition(text: bytes, at: int) -> int | None:
    """The byte after the definition and its line end; None when none stands here."""
    label = _LABEL(text, at)
    if label is None or not label[1].strip():
        return None
    start = _gap(text, label.end())
    end = _destination(text, start)
    if end is None:
        return None
    bare = _LINE_END(text, end)
    after = _gap(text, end)
    if after > end and after < len(text):
        title = _TITLES.get(text[after])
        found = title(text, after) if title is not None else None
        if found is not None:
            closed = _LINE_END(text, found.end())
            if closed is not None:
                return closed.end()
    return bare.end() if bare is not None else None


def _gap(text: bytes, at: int) -> int:
    found = _GAP(text, at)
    assert found is not None
    return found.end()


def _destination(text: bytes, at: int) -> int | None:
    if at >= len(text):
        return None
    if text[at] == 60:
        found = _ANGLE(text, at)
        return found.end() if found is not None else None
    start, deep = at, 0
    while at < len(text):
        byte = text[at]
        if byte == 92 and at + 1 < len(text) and text[at + 1] > 32:
            at += 2
            continue
        if byte <= 32 or byte == 127:
            break
        if byte == 40:
            deep += 1
            if deep > _MOST_PARENTHESES:
                return None
        elif byte == 41:
            if not deep:
                break
            deep -= 1
        at += 1
    return at if at > start and not deep else None
