"""Line ranges as callers write them: `N`, `N~M`, `N~`, `~M`, `~`; for reading also `-N~`.

What lives here: their grammar and what they mean in a text of so many lines.
Invariant: nothing is clamped; what the text does not have is a refusal.
"""

from __future__ import annotations

import re

from copydesk.errors import InvalidRange, RangeOutOfBounds

_SHAPE = re.compile(r"(?P<first>[0-9]{1,18})?((?P<tilde>~)(?P<last>[0-9]{1,18})?)?", re.ASCII)
_TAIL = re.compile(r"-([0-9]{1,18})~", re.ASCII)


def resolve(text: str, total: int) -> tuple[int, int]:
    """The lines [start, stop), 0-based, that `text` names among `total` lines.

    `start == stop == total` is the place after the last line (`N~` with N one
    more than there are lines), and the whole of an empty text. Raises
    InvalidRange and RangeOutOfBounds, both with the line count.
    """
    found = _SHAPE.fullmatch(text)
    if not found or not text:
        raise InvalidRange(text, "not one of N, N~M, N~, ~M, ~", total)
    first = int(found["first"]) if found["first"] else None
    last = int(found["last"]) if found["last"] else None
    if not found["tilde"]:
        last = first
    if first == 0 or last == 0:
        raise InvalidRange(text, "lines are counted from 1", total)
    if first is not None and last is not None and first > last:
        raise InvalidRange(text, "the first line is after the last", total)
    if total == 0 and text in ("~", "1", "1~"):
        return 0, 0
    beyond = first == total + 1 and last is None
    if not beyond and ((first or 1) > total or (last or 1) > total):
        raise RangeOutOfBounds(text, total)
    return (first or 1) - 1, total if last is None else last


def first_line(text: str) -> int:
    """The first line, 0-based, that a range names if there is such a line; 0 for no range."""
    found = _SHAPE.fullmatch(text)
    return max(int(found["first"]) - 1, 0) if found and found["first"] else 0


def tail(text: str) -> int | None:
    """N of `-N~`, the last N lines; None for any other text."""
    found = _TAIL.fullmatch(text)
    return int(found[1]) if found and int(found[1]) else None
