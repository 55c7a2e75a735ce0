"""Whether lines carried from one text to another are surely the same ones.

What counts: longest alignments, unique lines, look-alikes, lines that moved. Invariant: every
answer in doubt is no. Lines are numbers, equal for lines equal but for trailing blanks; the start
and the end of the file are a line each, with numbers of their own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from operator import eq
from typing import NamedTuple

from copydesk.text.diff import Gap, align, same_after, same_before, weigh

_CELLS = 400_000_000
"""Most pairs of lines weighed for one footprint; some 100 ms. Beyond it nothing is certain."""

_STEPS = 4_000_000
"""Most lines compared with look-alikes of one footprint. Beyond it nothing is certain."""

_SAMPLE = 8
"""The rarest of so many lines of a footprint is looked for."""


class Footprint(NamedTuple):
    """A footprint of `size` lines at `base`, carried to `now`, and how far they agree around it.

    Lines are counted with the start of the file as line 0; `above` and `below`
    are equal lines next to the footprint on either side.
    """

    base: int
    now: int
    size: int
    above: int
    below: int


class TextPair:
    """Two texts as numbered lines, with all that is known of how they go together."""

    def __init__(self, base: list[int], now: list[int], blank: int | None) -> None:
        self.base = base
        self.now = now
        self._blank = blank
        self.alignment = align(base, now)

    def foot(self, line: int, at: int, size: int) -> Footprint:
        """The footprint of `size` lines at base line `line`, placed at now line `at`."""
        above = same_before(self.base, self.now, line, at)
        below = same_after(self.base, self.now, line + size, at + size)
        return Footprint(line, at, size, above, below)

    def is_certain(self, foot: Footprint) -> bool:
        """Whether the footprint's lines at `foot.now` are surely those of `foot.base`."""
        region = self._region(foot)
        if self._is_untouched(foot, region):
            return True
        if self._is_of_parted_run(foot):
            return False
        if (region.base_stop - region.base_start) * (region.now_stop - region.now_start) > _CELLS:
            return False
        end = foot.base + foot.size
        weighed = weigh(
            self.base[region.base_start : foot.base],
            self.base[foot.base : end],
            self.base[end : region.base_stop],
            self.now[region.now_start : region.now_stop],
            foot.now - region.now_start,
        )
        if weighed.best > weighed.here:
            return False
        if self._is_pinned(foot):
            return True
        if self._is_spacing(foot):
            return not self._spacing_elsewhere(foot, region)
        if weighed.tied or weighed.crossed:
            return False
        return not self._has_rival(foot) and not self._may_have_moved(foot)

    def without_blank_ends(self, line: int, size: int) -> tuple[int, int]:
        """The base lines [start, stop) of the footprint without blank ones at its ends."""
        start, stop = line, line + size
        while start < stop and self.base[start] == self._blank:
            start += 1
        while start < stop and self.base[stop - 1] == self._blank:
            stop -= 1
        return start, stop

    def all_unique(self, start: int, stop: int) -> bool:
        """Whether the base lines [start, stop), at least one, are unique but for blank ones."""
        return start < stop and all(
            self.base[k] == self._blank or self._unique_in(k, k + 1) for k in range(start, stop)
        )

    def place_now(self, line: int) -> int | None:
        """Where the base line stands in now, if it is known: aligned, moved, or the only one."""
        at = self.alignment.now_of(line)
        if at is None:
            at = next((j for i, j in self._moved if i == line), None)
        text = self.base[line]
        if at is None and self.base.count(text) == 1 and text in self.now:
            at = self.now.index(text)
        return at

    def place_before(self, line: int) -> int | None:
        """Where the line of now stood in base, if it is known."""
        at = self.alignment.base_of(line)
        if at is None:
            at = next((i for i, j in self._moved if j == line), None)
        text = self.now[line]
        if at is None and self.now.count(text) == 1 and text in self.base:
            at = self.base.index(text)
        return at

    def twins_in_now(self, line: int, size: int) -> list[int]:
        """Every place in now of base lines [line, line + size), trailing blanks aside."""
        return self._twins(self.now, line, size)

    @cached_property
    def unique(self) -> list[int]:
        """Base lines that stand once in base and once in now."""
        once = set(_once(self.base)).intersection(_once(self.now))
        return [k for k, line in enumerate(self.base) if line in once]

    def _unique_in(self, low: int, high: int) -> int:
        """How many of base lines [low, high) are unique."""
        return bisect_left(self.unique, high) - bisect_left(self.unique, low)

    def _is_pinned(self, foot: Footprint) -> bool:
        """Whether the footprint is joined to unique lines on both sides."""
        end = foot.base + foot.size
        return (
            self._unique_in(foot.base - foot.above, foot.base) > 0
            and self._unique_in(end, end + foot.below) > 0
        )

    def _region(self, foot: Footprint) -> Gap:
        """The part of both texts that decides on the footprint, its certain borders left out.

        A unique line is in every longest alignment when leaving it out would leave out more lines
        than the alignment at hand does: when its piece of a run has more than twice as many unique
        lines, or reaches an end of the file. The footprint cuts its own run in two pieces, so this
        holds with and without it.
        """
        runs, matched = self.alignment.runs, self.alignment.matched
        lost = min(len(self.base) - matched, len(self.now) - matched + foot.size)
        own = bisect_right(runs, foot.base, key=lambda run: run.base_start) - 1
        end = foot.base + foot.size

        def firm(low: int, high: int) -> bool:
            count = self._unique_in(low, high)
            return count > 2 * lost or (count > 0 and (low == 0 or high == len(self.base)))

        base_start = now_start = 0
        for run in runs[own::-1]:
            stop = min(run.base_start + run.length, foot.base)
            if firm(run.base_start, stop):
                base_start = self.unique[bisect_left(self.unique, stop) - 1] + 1
                now_start = base_start - run.base_start + run.now_start
                break
        base_stop, now_stop = len(self.base), len(self.now)
        for run in runs[own:]:
            start = max(run.base_start, end)
            if firm(start, run.base_start + run.length):
                base_stop = self.unique[bisect_left(self.unique, start)]
                now_stop = base_stop - run.base_start + run.now_start
                break
        return Gap(base_start, base_stop, now_start, now_stop)

    def _is_untouched(self, foot: Footprint, region: Gap) -> bool:
        """Whether nothing changed within the region."""
        if foot.base - region.base_start != foot.now - region.now_start:
            return False
        ours = self.base[region.base_start : region.base_stop]
        return ours == self.now[region.now_start : region.now_stop]

    def _is_of_parted_run(self, foot: Footprint) -> bool:
        """Whether the footprint is of equal lines, and others like it were parted from it."""
        text, end = self.base[foot.base], foot.base + foot.size
        if any(line != text for line in self.base[foot.base : end]):
            return False
        start = foot.base
        while self.base[start - 1] == text:
            start -= 1
        while end < len(self.base) and self.base[end] == text:
            end += 1
        return any(self.alignment.now_of(k) != k - foot.base + foot.now for k in range(start, end))

    def _is_spacing(self, foot: Footprint) -> bool:
        """Whether the footprint is several blank lines, as many as now, beside a unique line."""
        lines = self.base[foot.base : foot.base + foot.size]
        return (
            foot.size > 1
            and all(line == self._blank for line in lines)
            and any(self._next_to_unique(foot))
            and self._blank_around(self.base, foot.base, foot.size)
            == self._blank_around(self.now, foot.now, foot.size)
        )

    def _blank_around(self, text: list[int], line: int, size: int) -> tuple[int, int]:
        """How many blank lines stand directly before and after lines [line, line + size)."""
        start, end = line, line + size
        while text[start - 1] == self._blank:
            start -= 1
        while text[end] == self._blank:
            end += 1
        return line - start, end - line - size

    def _next_to_unique(self, foot: Footprint) -> tuple[bool, bool]:
        end = foot.base + foot.size
        return (
            foot.above > 0 and self._unique_in(foot.base - 1, foot.base) > 0,
            foot.below > 0 and self._unique_in(end, end + 1) > 0,
        )

    def _spacing_elsewhere(self, foot: Footprint, region: Gap) -> bool:
        """Whether blank lines elsewhere suit the lines on the other side better."""
        above, below = self._next_to_unique(foot)
        end = foot.base + foot.size
        for j in range(region.now_start, region.now_stop):
            if self.now[j] != self._blank:
                continue
            is_last, is_first = j + 1 == foot.now + foot.size, j == foot.now
            if above and not is_last and self._agree_below(end, j + 1, foot.below + 1):
                return True
            if below and not is_first and self._agree_above(foot.base, j, foot.above + 1):
                return True
        return False

    def _has_rival(self, foot: Footprint) -> bool:
        """Whether a look-alike agrees with the surroundings further than the carried place.

        It is no rival when it is known to be another thing: when it is matched
        itself, and agrees still further there. One that is not matched is a rival
        when it agrees as far, with no unique line between it and the carried place.
        """
        steps, size = _STEPS, foot.size
        for (i, j), known in self._look_alikes(foot):
            steps -= foot.above + foot.below + 1
            if steps < 0:
                return True
            if (
                known is None
                and self._agree_above(i, j, foot.above)
                and self._agree_below(i + size, j + size, foot.below)
                and self._is_between_unique(foot, i, j)
            ):
                return True
            if self._agree_above(i, j, foot.above + 1):
                reach = same_before(self.base, self.now, i, j)
                if not (known and self._agree_above(*known, reach + 1)):
                    return True
                steps -= reach
            if self._agree_below(i + size, j + size, foot.below + 1):
                reach = same_after(self.base, self.now, i + size, j + size)
                if not (known and self._agree_below(known[0] + size, known[1] + size, reach + 1)):
                    return True
                steps -= reach
        return False

    def _is_between_unique(self, foot: Footprint, i: int, j: int) -> bool:
        """Whether base line i and now line j stand between the unique lines around the foot."""
        unique, now_of = self.unique, self.alignment.now_of
        low, high = (0, 0), (len(self.base), len(self.now))
        for k in range(bisect_left(unique, foot.base) - 1, -1, -1):
            at = now_of(unique[k])
            if at is not None and at < foot.now:
                low = unique[k], at
                break
        for k in range(bisect_left(unique, foot.base + foot.size), len(unique)):
            at = now_of(unique[k])
            if at is not None and at >= foot.now + foot.size:
                high = unique[k], at
                break
        return low[0] <= i < high[0] and low[1] <= j < high[1]

    def _may_have_moved(self, foot: Footprint) -> bool:
        """Whether a line that moved may have taken some of the footprint along, or brought it.

        That is so when the footprint, or its first or last line, has a twin as far
        from where the line is now as it has itself from where the line was, and
        most lines between the two agree there; or when the lines between it and
        the footprint went, and a twin stands next to it now.
        """
        a, b, size, steps = self.base, self.now, foot.size, _STEPS
        parts = {(0, size), (0, 1), (size - 1, 1)}
        for i, j in self._moved:
            if self._moved_to_twin(foot, i, j):
                return True
            for skip, count in parts:
                ours, theirs = foot.base + skip, foot.now + skip
                lines = a[ours : ours + count]
                for line, at in ((ours, ours + j - i), (theirs + i - j, theirs)):
                    if (line, at) == (ours, theirs) or min(line, at) < 0:
                        continue
                    if a[line : line + count] != lines or b[at : at + count] != lines:
                        continue
                    low, high = min(i, line), max(i, line)
                    steps -= high - low
                    agreeing = sum(map(eq, a[low:high], b[low + j - i : high + j - i]))
                    if steps < 0 or 2 * agreeing >= high - low:
                        return True
        return False

    def _moved_to_twin(self, foot: Footprint, i: int, j: int) -> bool:
        """Whether a line beside the footprint, but for lines that went, now stands by a twin."""
        end, size = foot.base + foot.size, foot.size
        place, between = (
            (j + 1, range(i, foot.base)) if i < foot.base else (j - size, range(end, i))
        )
        if place < 0 or place == foot.now or foot.base <= i < end:
            return False
        if self.now[place : place + size] != self.base[foot.base : end]:
            return False
        return all(self.alignment.now_of(k) is None for k in between)

    @cached_property
    def _moved(self) -> list[tuple[int, int]]:
        """Lines that went in one place and came in another, once each: base line, now line."""
        went: defaultdict[int, list[int]] = defaultdict(list)
        came: defaultdict[int, list[int]] = defaultdict(list)
        for gap in self.alignment.gaps():
            for i in range(gap.base_start, gap.base_stop):
                went[self.base[i]].append(i)
            for j in range(gap.now_start, gap.now_stop):
                came[self.now[j]].append(j)
        return [
            (places[0], came[line][0])
            for line, places in went.items()
            if line != self._blank and len(places) == 1 and len(came.get(line, ())) == 1
        ]

    def _look_alikes(
        self, foot: Footprint
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int] | None]]:
        """Other places the footprint may have: (base, now), and the aligned pair, if any."""
        for place in self.twins_in_now(foot.base, foot.size):
            if place != foot.now:
                origin = self.alignment.base_of(place, foot.size)
                yield (foot.base, place), None if origin is None else (origin, place)
        for origin in self._twins(self.base, foot.base, foot.size):
            if origin != foot.base:
                to = self.alignment.now_of(origin, foot.size)
                yield (origin, foot.now), None if to is None else (origin, to)

    def _twins(self, text: list[int], line: int, size: int) -> list[int]:
        """Every place in `text` of base lines [line, line + size)."""
        lines = self.base[line : line + size]
        rarest = min(range(min(size, _SAMPLE)), key=lambda k: text.count(lines[k]))
        starts = (place - rarest for place in _places(text, lines[rarest]))
        return [at for at in starts if at >= 0 and text[at : at + size] == lines]

    def _agree_above(self, i: int, j: int, count: int) -> bool:
        """Whether `count` lines before base line i are those before now line j."""
        if not count:
            return True
        a, b = self.base, self.now
        if min(i, j) < count or a[i - count] != b[j - count]:
            return False
        return a[i - count : i] == b[j - count : j]

    def _agree_below(self, i: int, j: int, count: int) -> bool:
        """Whether `count` lines from base line i on are those from now line j on."""
        if not count:
            return True
        a, b = self.base, self.now
        if min(len(a) - i, len(b) - j) < count or a[i + count - 1] != b[j + count - 1]:
            return False
        return a[i : i + count] == b[j : j + count]


def _places(text: list[int], line: int) -> Iterator[int]:
    at = -1
    with suppress(ValueError):
        while True:
            at = text.index(line, at + 1)
            yield at


def _once(lines: Iterable[int]) -> Iterator[int]:
    """Those that stand there once."""
    return (line for line, count in Counter(lines).items() if count == 1)
