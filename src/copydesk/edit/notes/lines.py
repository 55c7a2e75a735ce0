"""What a single line of a block diff is: a header, a marker, or text.

What lives here: the shape of headers and markers. What must not: where they may
stand (`grammar`). Invariant: both are whole lines, from the first character on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from copydesk.edit.notes.errors import Kind
from copydesk.edit.notes.hunk import Action, is_siyuan_id

LEAST_SIGNS = 7
"""Signs of the shortest marker; longer ones let a body hold shorter ones as content."""

_COMMANDS = ("DELETE", "REPLACE", "BEFORE", "AFTER", "PREPEND", "APPEND")
_MARKER = re.compile(r"(?P<open><{7,}) SEARCH|(?P<middle>={7,})|(?P<close>>{7,}) REPLACE")
_FENCE = re.compile(r" {0,3}(?P<signs>`{3,}|~{3,})(?P<info>[^`]*)")
_SIYUAN_SIZE = 22
_LABEL_CHARACTERS = 32
_LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker line: which of the three, and how many signs it has."""

    part: Literal["open", "middle", "close"]
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header line; `wrong` is what is the matter with it, None for a sound one.

    `plain` headers count wherever one may stand. One that is not could be a line
    of a text as well (`@@ -1,2 +1,2 @@`), and counts only where no text may stand.
    """

    action: Action
    block_id: str
    wrong: Kind | None = None
    plain: bool = True


def marker_of(line: str) -> Marker | None:
    """The marker that the line is."""
    found = _MARKER.fullmatch(line)
    if found is None:
        return None
    part = cast(Literal["open", "middle", "close"], found.lastgroup)
    return Marker(part, len(found[part]))


def marker_line(part: Literal["open", "middle", "close"], size: int) -> str:
    """The line of a marker."""
    if part == "middle":
        return "=" * size
    return f"{'<' * size} SEARCH" if part == "open" else f"{'>' * size} REPLACE"


def header_of(line: str, valid: Callable[[str], bool]) -> Header | None:
    """The header that the line is; `valid` says which ids there may be.

    Blanks within the signs are allowed (`@@ DELETE : id @@`), and a label after
    them: a few words, as the name of a type of blocks is. More words would be
    text that nobody reads.
    """
    if not line.startswith("@@"):
        return None
    inner, closed, label = line[2:].partition("@@")
    name, colon, rest = inner.partition(":")
    command = name.strip(" \t").upper() if colon else ""
    block_id = (rest if colon else inner).strip(" \t")
    known = command in _COMMANDS
    action = cast(Action, command) if known else "EDIT"
    plain = known or (bool(closed) and len(inner.split()) == 1)
    plain = plain or is_siyuan_id(block_id[:_SIYUAN_SIZE])
    if not closed:
        return Header(action, block_id, "INVALID_BLOCK_ID.unclosed", plain)
    if colon and not known:
        return Header(action, block_id, "INVALID_BLOCK_ID.command", plain)
    if not valid(block_id):
        return Header(action, block_id, "INVALID_BLOCK_ID.id", plain)
    return Header(action, block_id, None if _is_label(label) else "UNEXPECTED_TEXT.label")


def fence_of(line: str) -> tuple[str, str] | None:
    """The signs of a code fence and what stands after them, if the line is one."""
    found = _FENCE.fullmatch(line)
    return (found["signs"], found["info"].strip(" \t")) if found else None


def _is_label(text: str) -> bool:
    words = text.split()
    short = len(words) <= _LABEL_WORDS and len(text.strip()) <= _LABEL_CHARACTERS
    return short and all(char.isalnum() or char in "-_/()（）" for word in words for char in word)
