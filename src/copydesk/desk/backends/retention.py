"""When an edit is old enough to be dropped: by recorded days of use, never by one look at a clock.

A journal records each day on which it was used, and its newest edit at that moment. The
age of an edit is counted along these days. Invariants: a jump of the clock adds at most
an eighth of the time that edits are kept, and drops nothing by itself; days that lie
ahead of the clock were seen by a wrong one and do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

DAY_MS = 86_400_000

CONFIRMED = 3
"""The last so many days of use count as one: a clock that is wrong for one or two adds nothing."""

_SHARE = 4
"""At most one in so many entries is dropped at a time."""

_LONGEST = 8
"""Between two days of use at most one in so many of the days is counted that edits are kept."""

PLANS_KEPT = 1_000
"""So many plans, and decisions on them, are kept whatever the clock says."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of use, in days since 1970, and the newest edit when it was first seen; 0: none."""

    number: int
    newest: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a journal holds, and what will be dropped from it.

    `due` entries are old enough, or beyond the size, and are dropped at the next starts,
    `at_once` at most by one. `days`: after so many more days of use the oldest entry is old
    enough; None without an entry.
    """

    entries: int
    size: int
    due: int
    at_once: int
    days: int | None


def share(entries: int) -> int:
    """How many of so many entries may be dropped at a time."""
    return -(-entries // _SHARE)


def due(days: Sequence[Day], keep_days: int) -> Day | None:
    """The last of the days of use, oldest first, whose edits may go; None if the clock jumped."""
    if len(days) < CONFIRMED or days[-1].number - days[-2].number > _longest(keep_days):
        return None
    aged = zip(days, _ages(days, keep_days), strict=True)
    return next((day for day, age in reversed([*aged]) if age >= keep_days), None)


def days_left(days: Sequence[Day], keep_days: int, edit_id: int) -> int:
    """After how many more days of use, at the earliest, the edit is old enough to be dropped."""
    ages = _ages(days, keep_days)
    known = [age for day, age in zip(days, ages, strict=True) if day.newest >= edit_id]
    return max(keep_days - max(known, default=1 - CONFIRMED), 0)


def _longest(keep_days: int) -> int:
    return max(keep_days // _LONGEST, 1)


def _ages(days: Sequence[Day], keep_days: int) -> list[int]:
    """How long ago each of the days was when the last confirmed one was seen; negative after it."""
    longest = _longest(keep_days)
    steps = (min(after.number - day.number, longest) for day, after in pairwise(days))
    at = list(accumulate(steps, initial=0)) if days else []
    confirmed = at[-CONFIRMED] if len(at) >= CONFIRMED else 0
    return [confirmed - each for each in at]
