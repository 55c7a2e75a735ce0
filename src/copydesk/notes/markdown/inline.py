"""A block's text without its markup, for people and for searches, in time linear in its length.

Invariant: no search looks at the same characters again and again. Of each closing mark the next
one is remembered, and of each length of backticks all runs: an opening mark never closed costs one
look.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

_HEADING = re.compile(
    r"\A {0,3}#{1,6}(?:[ \t]+|\Z)|(?<![ \t])[ \t]++#++[ \t]*+\Z|\n *+(?:=++|-++)[ \t]*+\Z"
)
_MARK = re.compile(r"(?:\A|\s)\^[A-Za-z0-9-]++\s*+\Z")
_LINK = re.compile(r"!?\[([^\[\]]*+)\](?:\([^()\s]*+(?:\s++\"[^\"]*+\")?\)|\[[^\[\]]*+\])")
_BACKTICKS = re.compile(r"`+")
_INK = re.compile(r"\S").match

_STRONG = re.compile(r"[*~=]")
_STRONG_ENDS = {
    mark: re.compile(rf"(?<=\S){re.escape(mark)}") for mark in ("***", "**", "*", "~~", "==")
}
_UNDERLINED = re.compile(r"(?<!\w)_")
_UNDERLINED_ENDS = {mark: re.compile(rf"(?<=\S){mark}(?!\w)") for mark in ("___", "__", "_")}

_ZEROS = re.compile(r"&#0+(?=[0-9])")
_NUMBER = re.compile(r"&#[0-9]{8,}+;?")
"""The number of no character; `html.unescape` cannot read one of thousands of digits."""


def plain_text(text: str, is_heading: bool) -> str:
    """The text of a block without the marks of headings, names, code, links and emphasis."""
    if is_heading:
        text = _HEADING.sub("", text)
    if "^" in text:
        text = _MARK.sub("", text)
    if "`" in text:
        text = "\n".join(map(_without_backticks, text.split("\n")))
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "~~" in text or "==" in text:
        for _ in range(2):  # nested emphasis
            text = _unwrapped(text, _STRONG, _STRONG_ENDS)
    if "_" in text:
        text = _unwrapped(text, _UNDERLINED, _UNDERLINED_ENDS)
    return unescaped(text)


def unescaped(text: str) -> str:
    """The text with the characters that its HTML entities stand for, however long one is."""
    if "&" not in text:
        return text
    return html.unescape(_NUMBER.sub("\ufffd", _ZEROS.sub("&#", text)))


def _without_backticks(line: str) -> str:
    """The line without the backticks around code; as many as open it close it.

    A run that is closed by none of its own length opens with as many of its backticks as it can.
    """
    runs = [run.span() for run in _BACKTICKS.finditer(line)]
    ends: dict[int, list[int]] = {}
    """By length, where runs start, the next one last."""
    for start, stop in reversed(runs):
        ends.setdefault(stop - start, []).append(start)
    pieces, at = list[str](), 0
    for start, stop in runs:
        for size in range(stop - start, 0, -1) if start >= at else ():
            later = ends.get(size, [])
            while later and later[-1] <= start:
                later.pop()
            if later:
                pieces += (line[at:start], line[start + size : later[-1]])
                at = later[-1] + size
                break
    return "".join((*pieces, line[at:]))


def _unwrapped(text: str, opens: re.Pattern[str], ends: Mapping[str, re.Pattern[str]]) -> str:
    """The text without pairs of marks, each closed by the next of its `ends` on the line.

    Of several signs as many open as are closed: `ends` are tried in order.
    """
    return "\n".join(
        _unwrapped_line(line, opens, ends) if opens.search(line) else line
        for line in text.split("\n")
    )


def _unwrapped_line(line: str, opens: re.Pattern[str], ends: Mapping[str, re.Pattern[str]]) -> str:
    pieces, at = list[str](), 0
    nearest: dict[str, int] = {}
    """Where each mark closes next; after the line if it does not."""
    for opening in opens.finditer(line):
        start = opening.start()
        for mark, end in ends.items() if start >= at else ():
            inside = start + len(mark)
            if not line.startswith(mark, start) or _INK(line, inside) is None:
                continue
            if nearest.get(mark, 0) <= inside:  # there is a character between the marks
                closes = end.search(line, inside + 1)
                nearest[mark] = closes.start() if closes is not None else len(line) + 1
            if nearest[mark] <= len(line):
                pieces += (line[at:start], line[inside : nearest[mark]])
                at = nearest[mark] + len(mark)
                break
    return "".join((*pieces, line[at:]))
