"""Carry the lines that an edit relies on from one text to a later one, or say why that fails.

Invariant: lines are carried only to lines equal to them, in the function or section that they
belonged to, and only where nothing points to another place; when in doubt they are not carried.
Lines may be compared by digests; the lines themselves are read only where something changed.

Lines are counted in two ways. `Outline`, and what callers give and get (`Relocation.carry` and its
verdicts), count from 0; -1 is the start of the file. `Footprint`, `TextPair` and `Owners` count the
start of the file as line 0, so that it and the end are lines as well, equal to no other; there
`k + 1` is line `k` of an outline.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import count, repeat
from operator import eq
from typing import Any, Literal, NamedTuple

from copydesk.text.diff import Gap, align, common_ends, same_after, same_before, weigh
from copydesk.text.outline import (
    ATTACHED,
    BLANKS,
    CLOSING,
    GOES_ON,
    REMARK,
    SECTION,
    WORD,
    Outline,
    bare,
    conflicts,
    marker_of,
)
from copydesk.text.snapshot import Snapshot, computed_once

_CELLS = 400_000_000
"""The most pairs of lines weighed for one footprint; about 100 ms. Above it nothing is certain.

More than in an alignment, since only the lengths of common subsequences are kept, no states.
"""

_STEPS = 4_000_000
"""The most lines compared with look-alikes of one footprint. Above it nothing is certain."""

_SAMPLE = 8
"""The rarest of a footprint's first lines, this many, is searched for."""


class Footprint(NamedTuple):
    """A footprint of `size` lines at `base`, carried to `now`, and how much around it is equal.

    Lines are counted with the start of the file as line 0; `above` and `below` are the numbers of
    equal lines next to the footprint on either side.
    """

    base: int
    now: int
    size: int
    above: int
    below: int

    @property
    def end(self) -> int:
        """The base line after it."""
        return self.base + self.size


class TextPair:
    """Two texts as numbered lines, and all that is known about how they correspond."""

    def __init__(self, base: list[int], now: list[int], blank: int | None) -> None:
        self.base = base
        self.now = now
        self._blank = blank
        self.alignment = align(base, now, blank=blank)

    def footprint(self, line: int, at: int, size: int) -> Footprint:
        """The footprint of `size` lines at base line `line`, placed at now line `at`."""
        above = same_before(self.base, self.now, line, at)
        below = same_after(self.base, self.now, line + size, at + size)
        return Footprint(line, at, size, above, below)

    def is_certain(self, footprint: Footprint) -> bool:
        """Whether the lines at `footprint.now` are certainly those at `footprint.base`.

        These are the cases of `Relocation.carry`, cheapest first; the order matters.
        """
        region = self._region(footprint)
        ours = self.base[region.base_start : region.base_stop]
        at_same = footprint.base - region.base_start == footprint.now - region.now_start
        if at_same and ours == self.now[region.now_start : region.now_stop]:
            return True
        cells = len(ours) * (region.now_stop - region.now_start)
        if cells > _CELLS or self._is_of_parted_run(footprint):
            return False
        weighed = weigh(
            self.base[region.base_start : footprint.base],
            self.base[footprint.base : footprint.end],
            self.base[footprint.end : region.base_stop],
            self.now[region.now_start : region.now_stop],
            footprint.now - region.now_start,
        )
        if weighed.best > weighed.here:
            return False
        above = self._unique_in(footprint.base - footprint.above, footprint.base)
        if above and self._unique_in(footprint.end, footprint.end + footprint.below):
            return True  # it adjoins unique lines on both sides
        if self._is_spacing(footprint):
            return not self._spacing_elsewhere(footprint, region)
        is_only = not (weighed.tied or weighed.crossed or self._has_rival(footprint))
        return is_only and not self._may_have_moved(footprint)

    def is_certain_by_words(self, footprint: Footprint) -> bool:
        """Whether each longest alignment of the lines that are not blank has it at `now`.

        And no other line that is unique in both texts went past it.
        """
        region = self._region(footprint)
        ours, theirs = region.base_stop - region.base_start, region.now_stop - region.now_start
        if ours * theirs > _CELLS:
            return False
        before, lines, after, above, below = (
            [line for line in text[start:stop] if line != self._blank]
            for text, start, stop in (
                (self.base, region.base_start, footprint.base),
                (self.base, footprint.base, footprint.end),
                (self.base, footprint.end, region.base_stop),
                (self.now, region.now_start, footprint.now),
                (self.now, footprint.now + footprint.size, region.now_stop),
            )
        )
        went = set(before).intersection(below).union(set(after).intersection(above))
        if not went.isdisjoint(map(self.base.__getitem__, self.unique)):
            return False
        weighed = weigh(before, lines, after, above + lines + below, len(above))
        return not (weighed.tied or weighed.crossed)

    def without_blank_ends(self, line: int, size: int) -> tuple[int, int]:
        """The footprint's base lines [start, stop) without blank ends; none if start >= stop."""
        start, stop = line, line + size
        while self.base[start] == self._blank:  # the ends of the file are not blank
            start += 1
        while self.base[stop - 1] == self._blank:
            stop -= 1
        return start, stop

    def all_unique(self, start: int, stop: int) -> bool:
        """Whether base lines [start, stop), at least one, are unique, ignoring blank ones."""
        return start < stop and all(
            self.base[k] == self._blank or self._unique_in(k, k + 1) for k in range(start, stop)
        )

    def place_now(self, line: int) -> int | None:
        """Where the base line is in now, if that is known: aligned, moved, or the only one."""
        at = self.alignment.now_of(line)
        at = self._moved.get(line) if at is None else at
        return _only(self.base, line, self.now) if at is None else at

    def place_before(self, line: int) -> int | None:
        """Where the line of now was in base, if that is known."""
        if (at := self.alignment.base_of(line)) is None:
            at = next((i for i, j in self._moved.items() if j == line), None)
        return _only(self.now, line, self.base) if at is None else at

    @computed_once
    def unique(self) -> list[int]:
        """The base lines that occur once in base and once in now."""
        ours, theirs = Counter(self.base), Counter(self.now)
        once = {line for line, found in ours.items() if found == 1 == theirs.get(line)}
        return [k for k, line in enumerate(self.base) if line in once]

    def _unique_in(self, low: int, high: int) -> int:
        """How many of base lines [low, high) are unique."""
        return bisect_left(self.unique, high) - bisect_left(self.unique, low)

    def _region(self, footprint: Footprint) -> Gap:
        """The part of both texts that decides about the footprint, between certain borders.

        A unique line is in every longest alignment if leaving it out would leave out more lines
        than this alignment does: if its piece of a run has more than twice as many unique lines, or
        reaches an end of the file. The footprint cuts its own run in two, so this holds with and
        without it.
        """
        runs, matched = self.alignment.runs, self.alignment.matched
        lost = min(len(self.base) - matched, len(self.now) - matched + footprint.size)
        own = bisect_right(runs, footprint.base, key=lambda run: run.base_start) - 1

        def firm(low: int, high: int) -> bool:
            count = self._unique_in(low, high)
            return count > 2 * lost or (count > 0 and (low == 0 or high == len(self.base)))

        base_start = now_start = 0
        for run in runs[own::-1]:
            stop = min(run.base_start + run.length, footprint.base)
            if firm(run.base_start, stop):
                base_start = self.unique[bisect_left(self.unique, stop) - 1] + 1
                now_start = base_start - run.base_start + run.now_start
                break
        base_stop, now_stop = len(self.base), len(self.now)
        for run in runs[own:]:
            start = max(run.base_start, footprint.end)
            if firm(start, run.base_start + run.length):
                base_stop = self.unique[bisect_left(self.unique, start)]
                now_stop = base_stop - run.base_start + run.now_start
                break
        return Gap(base_start, base_stop, now_start, now_stop)

    def _is_of_parted_run(self, footprint: Footprint) -> bool:
        """Whether the footprint is part of a run of equal lines that did not stay together."""
        text = self.base[footprint.base]
        if any(line != text for line in self.base[footprint.base : footprint.end]):
            return False
        run = range(*_run_around(self.base, footprint.base, footprint.end, text))
        return any(self.alignment.now_of(k) != k - footprint.base + footprint.now for k in run)

    def _is_spacing(self, footprint: Footprint) -> bool:
        """Whether the footprint is several blank lines, as many as now, next to a unique line."""
        end, blank = footprint.end, self._blank
        if footprint.size == 1 or any(line != blank for line in self.base[footprint.base : end]):
            return False
        start, stop = _run_around(self.base, footprint.base, end, blank)
        moved = footprint.now - footprint.base
        here = _run_around(self.now, footprint.now, end + moved, blank)
        if here != (start + moved, stop + moved):
            return False
        is_after = footprint.above > 0 and self._unique_in(footprint.base - 1, footprint.base) > 0
        return is_after or (footprint.below > 0 and self._unique_in(end, end + 1) > 0)

    def _spacing_elsewhere(self, footprint: Footprint, region: Gap) -> bool:
        """Whether a blank line elsewhere fits the lines on one side of the footprint better."""
        return any(
            self._agree_below(footprint.end, j + 1, footprint.below + 1)
            or self._agree_above(footprint.base, j, footprint.above + 1)
            for j in range(region.now_start, region.now_stop)
            if self.now[j] == self._blank
        )

    def _has_rival(self, footprint: Footprint) -> bool:
        """Whether a look-alike matches the surroundings further than the carried place does.

        A look-alike is no rival if it is known to be something else: if it is aligned itself and
        matches still further there. One that is not aligned is a rival if it matches as far, with
        no unique line between it and the carried place.
        """
        steps, size = _STEPS, footprint.size
        sides = (
            (self._agree_above, same_before, 0, footprint.above),
            (self._agree_below, same_after, size, footprint.below),
        )
        for (i, j), known in self._look_alikes(footprint):
            steps -= footprint.above + footprint.below + 1
            if steps < 0:
                return True
            if (
                known is None
                and self._agree_above(i, j, footprint.above)
                and self._agree_below(i + size, j + size, footprint.below)
                and self._is_between_unique(footprint, i, j)
            ):
                return True
            for agree, same, skip, near in sides:
                if agree(i + skip, j + skip, near + 1):
                    reach = same(self.base, self.now, i + skip, j + skip)
                    if not (known and agree(known[0] + skip, known[1] + skip, reach + 1)):
                        return True
                    steps -= reach
        return False

    def _is_between_unique(self, footprint: Footprint, i: int, j: int) -> bool:
        """Whether base line i and now line j are between the unique lines around the footprint.

        The footprint has a look-alike, so none of its lines is unique; the file's ends are.
        """
        split = bisect_left(self.unique, footprint.base)
        low, low_now = next(self._aligned(range(split - 1, -1, -1)))
        high, high_now = next(self._aligned(range(split, len(self.unique))))
        return low <= i < high and low_now <= j < high_now

    def _aligned(self, places: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield those unique lines at these places that are aligned, with their lines in now."""
        for k in places:
            if (at := self.alignment.now_of(self.unique[k])) is not None:
                yield self.unique[k], at

    def _may_have_moved(self, footprint: Footprint) -> bool:
        """Whether a line that moved may have taken part of the footprint along, or brought it.

        This is so if the footprint, or its first or last line, has a twin as far from the line's
        new place as it is itself from the old one, and most lines between are equal there; or if
        the lines between it and the footprint were removed, and a twin is next to it now.
        """
        a, b, size, steps = self.base, self.now, footprint.size, _STEPS
        parts = {(0, size), (0, 1), (size - 1, 1)}
        for i, j in self._moved.items():
            if self._moved_to_twin(footprint, i, j):
                return True
            for skip, length in parts:
                ours, theirs = footprint.base + skip, footprint.now + skip
                lines = a[ours : ours + length]
                for line, at in ((ours, ours + j - i), (theirs + i - j, theirs)):
                    if (
                        (line, at) == (ours, theirs)
                        or min(line, at) < 0
                        or a[line : line + length] != lines
                        or b[at : at + length] != lines
                    ):
                        continue
                    low, high = min(i, line), max(i, line)
                    steps -= high - low
                    agreeing = sum(map(eq, a[low:high], b[low + j - i : high + j - i]))
                    if steps < 0 or 2 * agreeing >= high - low:
                        return True
        return False

    def _moved_to_twin(self, footprint: Footprint, i: int, j: int) -> bool:
        """Whether a line next to the footprint, ignoring removed lines, now is next to a twin."""
        size = footprint.size
        place, between = (
            (j + 1, range(i, footprint.base))
            if i < footprint.base
            else (j - size, range(footprint.end, i))
        )
        if self.now[place : place + size] != self.base[footprint.base : footprint.end]:
            return False  # also if `place` is negative: then the slice is too short
        return all(self.alignment.now_of(k) is None for k in between)

    @computed_once
    def _moved(self) -> dict[int, int]:
        """Lines removed in one place and added in another, once each: now line by base line."""
        went: defaultdict[int, list[int]] = defaultdict(list)
        came: defaultdict[int, list[int]] = defaultdict(list)
        for gap in self.alignment.gaps():
            for i in range(gap.base_start, gap.base_stop):
                went[self.base[i]].append(i)
            for j in range(gap.now_start, gap.now_stop):
                came[self.now[j]].append(j)
        return {
            places[0]: came[line][0]
            for line, places in went.items()
            if line != self._blank and len(places) == 1 and len(came.get(line, ())) == 1
        }

    def _look_alikes(
        self, footprint: Footprint
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int] | None]]:
        """Other places the footprint may have: (base, now), and the aligned pair, if any."""
        for place in self.twins(self.now, footprint.base, footprint.size):
            if place != footprint.now:
                origin = self.alignment.base_of(place, footprint.size)
                yield (footprint.base, place), None if origin is None else (origin, place)
        for origin in self.twins(self.base, footprint.base, footprint.size):
            if origin != footprint.base:
                to = self.alignment.now_of(origin, footprint.size)
                yield (origin, footprint.now), None if to is None else (origin, to)

    def twins(self, text: list[int], line: int, size: int) -> list[int]:
        """Every place in `text`, base or now, of base lines [line, line + size)."""
        lines = self.base[line : line + size]
        rarest = min(range(min(size, _SAMPLE)), key=lambda k: text.count(lines[k]))
        found, at = list[int](), -1
        with suppress(ValueError):
            while True:
                at = text.index(lines[rarest], at + 1)
                start = at - rarest
                if text[start : start + size] == lines:  # too short where start < 0
                    found.append(start)
        return found

    def _agree_above(self, i: int, j: int, size: int) -> bool:
        """Whether the `size` lines before base line i equal those before now line j."""
        return self._agree_below(i - size, j - size, size)

    def _agree_below(self, i: int, j: int, size: int) -> bool:
        """Whether the `size` lines from base line i equal those from now line j."""
        if not size:
            return True
        a, b, last = self.base, self.now, size - 1
        is_within = min(i, j) >= 0 and min(len(a) - i, len(b) - j) >= size
        return (
            is_within  # most differ in the first line or the last: no slices are made then
            and a[i] == b[j]
            and a[i + last] == b[j + last]
            and a[i : i + size] == b[j : j + size]
        )


def _run_around(text: list[int], start: int, end: int, line: int | None) -> tuple[int, int]:
    """Lines [start, end), grown over those at either side that are equal to `line`.

    `line` is not the start of the file, the number of which is at index 0: so no index is negative.
    """
    while text[start - 1] == line:
        start -= 1
    while end < len(text) and text[end] == line:
        end += 1
    return start, end


def _only(text: list[int], line: int, other: list[int]) -> int | None:
    """The first place in `other` of a line that occurs once in `text`; None if it has none."""
    wanted = text[line]
    return other.index(wanted) if text.count(wanted) == 1 and wanted in other else None


_ALIKE = 0.7
"""From this share of common words on, a changed heading of a block counts as the same, edited."""

_NAME = re.compile(rb"\w\s+(?!(?:if|while|for|switch|catch)\b)(\w+)\s*\(")
"""The name in the heading of a function or class, which may get other parameters."""

_WORDS = re.compile(rb"\w+|[\x80-\xff]+")


class Owners:
    """The enclosing lines (owners) of lines in two texts, counted from 1 as in `Footprint`."""

    def __init__(
        self,
        pair: TextPair,
        base: Sequence[bytes],
        now: Sequence[bytes],
        conflicts: Iterable[range] = (),
    ) -> None:
        self._pair = pair
        self._base, self._now = Outline(base), Outline(now, conflicts)

    def differ(self, footprint: Footprint) -> bool:
        """Whether the footprint has another owner now than it had.

        An owner whose text changed, or that got lines around it, is the same one; so is an owner
        within which lines unique to both texts enclose the footprint from both sides.
        """
        if footprint.above == footprint.base:
            return False  # nothing changed above
        ends = {footprint.base, footprint.end - 1}
        return any(
            self._is_other(footprint, line)
            for line in sorted(ends)
            if 0 < line <= len(self._base.lines)
        )

    def copies(self, footprint: Footprint) -> list[int]:
        """The places where the footprint stands in a copy of its block, with the comment above it.

        One line tells such a block from the carried one: the last of the comment, or the one below
        it. Either block may be the copy.
        """
        pair, found = self._pair, list[int]()
        for place in pair.twins(pair.now, footprint.base, footprint.size):
            if place == footprint.now or pair.alignment.base_of(place) is not None:
                continue
            above = same_before(pair.base, pair.now, footprint.base, place)
            top, here = footprint.base - above - 1, place - above - 1
            if top < 2 or here < 2 or pair.base[top - 1] != pair.now[here - 1]:
                continue
            below = same_after(pair.base, pair.now, footprint.end, place + footprint.size)
            whole = any(
                self._base.is_blank(k) for k in range(footprint.base - 1, footprint.end + below)
            )
            around = [bare(self._base.lines[k]) for k in (top - 2, top)]
            if whole and ATTACHED.match(around[0]) and not ATTACHED.match(around[1]):
                found.append(place)
        return found

    def _is_other(self, footprint: Footprint, line: int) -> bool:
        """Whether this line of the footprint has another owner now, by the cases of decision 21.

        Owners that are in both texts and enclose it in both do not count; of the others the
        innermost in base, `old`, is compared with the innermost in now, `new`.
        """
        pair = self._pair
        olds, news = self._lone(line, line - footprint.base + footprint.now)
        if not (olds and news):  # it only lost owners, or got some: those may come from elsewhere
            is_from_elsewhere = any(pair.alignment.base_of(k) is not None for k in news)
            return is_from_elsewhere and not all(self._held(footprint, 0, news[0])[:2])
        stands = next((at for at in map(pair.place_now, olds) if at is not None), None)
        if stands is None and all(pair.place_before(k) is None for k in news):
            return not self._is_heir(footprint, olds, news)
        is_below = stands is not None and stands > footprint.now  # it was above the carried lines
        return is_below or not self._went_over(footprint, olds[0], news[0])

    def _went_over(self, footprint: Footprint, old: int, new: int) -> bool:
        """Whether the footprint went from the old owner to the new one, a header of both texts.

        As when a function is put between the header `def f` and the lines that it had. Lines on
        both sides must hold it there (for a section with a title, on one), and three quarters of
        the old owner's lines be left: with fewer, `f` was edited, and `g` has had equal lines.
        """
        above, below, within = self._held(footprint, old, new)
        kept, away, total = self._left(old, new)
        title = self._base.is_heading(old - 1) and not SECTION.match(self._base.lines[old - 1])
        is_held = (above and below) or (title and (above or within))
        is_left = 4 * (kept + away) >= 3 * total
        return is_held and is_left and not self._is_copied(footprint, old, new)

    def _is_heir(self, footprint: Footprint, olds: list[int], news: list[int]) -> bool:
        """Whether the new owner is the old one with another header, neither being in both texts.

        As when `def f(a)` becomes `def g(a, b)`. It is none if a quarter of the lines that are left
        of the old owner are elsewhere. It is one if lines on both sides hold the footprint, or the
        header was only edited, or lines on one side hold it and a third of the old owner is there.
        """
        old, new = olds[0], news[0]
        above, below, within = self._held(footprint, old, new)
        kept, away, total = self._left(old, new)
        if away and 4 * away >= kept + away:
            return False
        depths = {self._base.depth(k - 1) for k in olds} & {self._now.depth(k - 1) for k in news}
        if (above and below) or not depths:
            return True
        header, other = self._base.lines[old - 1], self._now.lines[new - 1]
        if SECTION.match(header):
            return False
        title = self._base.is_heading(old - 1)  # a section that is renamed keeps its text
        ours, theirs = _WORDS.findall(header), _WORDS.findall(other)
        is_edited = SequenceMatcher(None, ours, theirs, autojunk=False).ratio() >= _ALIKE
        has_name = _NAME.findall(header)[:1] == _NAME.findall(other)[:1] != []
        if is_edited or has_name or (title and not away):
            return True
        return (title or above or within) and 3 * kept >= total

    def _left(self, old: int, new: int) -> tuple[int, int, int]:
        """Of the old owner's lines with words: how many the new owner has, others have, it had."""
        lines = [k + 1 for k in self._base.body(old - 1) if WORD.search(self._base.lines[k])]
        places = [at for at in map(self._pair.alignment.now_of, lines) if at is not None]
        inside = self._now.body(new - 1)
        kept = sum(at - 1 in inside for at in places)
        return kept, len(places) - kept, len(lines)

    def _lone(self, line: int, at: int) -> tuple[list[int], list[int]]:
        """The owners of base line `line` that now line `at` lacks, and the reverse."""
        limit = self._base.limit(line - 1)
        ours = [k + 1 for k in self._base.owners(line - 1, limit)]
        theirs = [k + 1 for k in self._now.owners(at - 1, limit)]
        base, now = self._pair.base, self._pair.now
        texts = {base[k] for k in ours} & {now[k] for k in theirs}
        olds = [k for k in ours if base[k] not in texts]
        news = [k for k in theirs if now[k] not in texts]
        if not (olds or news):
            return olds, news
        now_of, base_of = self._pair.alignment.now_of, self._pair.alignment.base_of
        went = _passed(self._base, now_of, _signs(self._now, news, base_of))
        came = _passed(self._now, base_of, _signs(self._base, olds, now_of))
        before = [base[k + 1] for k in self._base.owners(line - 1, limit, went)]
        after = [now[k + 1] for k in self._now.owners(at - 1, limit, came)]
        return ([], []) if before == after else (olds, news)

    def _is_copied(self, footprint: Footprint, old: int, new: int) -> bool:
        """Whether the old owner was changed, and the new one is mostly a copy of its lines."""
        pair = self._pair
        if (at := pair.place_now(old)) is None:
            return False
        inside, other = self._now.body(at - 1), self._now.body(new - 1)
        places = pair.twins(pair.now, footprint.base, footprint.size)
        if not any(place - 1 in inside and place - 1 not in other for place in places):
            return False
        came = Counter(
            pair.now[k + 1]
            for k in inside
            if WORD.search(self._now.lines[k]) and pair.alignment.base_of(k + 1) is None
        )
        had = Counter(pair.base[k + 1] for k in self._base.body(old - 1))
        return 4 * (came & had).total() >= 3 * came.total()

    def _held(self, footprint: Footprint, old: int, new: int) -> tuple[bool, bool, bool]:
        """Whether lines unique to both texts enclose the footprint within both owners.

        Returns whether some do from above; from below, even if the footprint extends beyond the end
        of the old owner; and from below if it does not. 0 for `old` stands for the whole of base.
        """
        end, last = footprint.end, footprint.now + footprint.size
        stop = self._base.end(old - 1, end - 1) + 1 if old else len(self._base.lines) + 1
        to = self._now.end(new - 1, last - 1) + 1
        unique = self._pair.unique
        first, low, high = (bisect_left(unique, k) for k in (footprint.base, end, stop))
        above = self._any_within(unique[bisect_right(unique, old) : first], new, footprint.now)
        below = self._any_within(unique[low:high], last - 1, to)
        within = below and (not old or self._base.body(old - 1).stop + 1 >= end)
        return above, below, within

    def _any_within(self, lines: list[int], after: int, before: int) -> bool:
        """Whether one of the non-blank base lines is between two lines of now."""
        texts = (line for line in lines if self._base.depth(line - 1) is not None)
        found = map(self._pair.alignment.now_of, texts)
        return any(at is not None and after < at < before for at in found)


def overlap(spans: Iterable[range], low: int, high: int) -> bool:
    """Whether one of [low, high) is in a span."""
    return any(span.start < high and low < span.stop for span in spans)


def _signs(text: Outline, owners: list[int], place: Callable[[int], int | None]) -> set[bytes]:
    """How headers like these owners end (see `Outline.sign`), `}` for a block that a line closes.

    `b""` stands for any header. An owner that is gone may have been replaced by any header, and one
    that still stands, and whose block is closed by a line, by none: no line within it became the
    owner of what follows.
    """
    standing = [k - 1 for k in owners if place(k) is not None]
    if len(standing) < len(owners):
        return {b"", b"}"}
    signs = {b"}" if text.is_closed(k) else text.sign(k) or b"" for k in standing}
    return {b""} if signs == {GOES_ON} else signs - {GOES_ON}


def _passed(
    text: Outline, place: Callable[[int], int | None], signs: set[bytes]
) -> Callable[[int], bool]:
    """Whether a line that the other text lacks cannot own what follows: the search passes over it.

    It is no header with one of the signs that owners have there; neither a comment nor a complete
    statement is one. A line that closes a block is not passed.
    """

    def is_passed(line: int) -> bool:
        written = bare(text.lines[line])
        if place(line + 1) is not None:
            return False
        if CLOSING.match(written):
            return b"}" not in signs and not WORD.search(written)
        sign = text.sign(line)
        if sign is None or signs <= {b"}"} or (sign != b"#" and REMARK.match(written)):
            return True
        if sign == GOES_ON:
            return text.is_closed(line)
        return sign not in signs and b"" not in signs

    return is_passed


_SHOWN = 20
"""The most candidates listed."""

Reason = Literal["gone", "parted", "blanks", "uncertain", "indented", "owner", "conflict_markers"]
"""Why not: some lines were changed or deleted; other lines were inserted between them; they
differ in trailing blanks; equal lines are in one place, but may be others; they were
re-indented, so equal lines elsewhere are others; equal lines are in another function or section;
they are between conflict markers."""


OF_SOME = ("gone", "parted", "blanks")
"""The reasons that may be about some of the lines alone."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The footprint starts at line `at` of now, 0-based; -1 is the start of the file."""

    at: int


@dataclass(frozen=True, slots=True)
class Changed:
    """The footprint was not carried, and why; `at` is its line in now, 0-based, if known."""

    reason: Reason
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several places are possible: lines of now, 0-based, sorted, at most 20."""

    candidates: tuple[int, ...]


Verdict = Carried | Changed | Ambiguous


@dataclass(frozen=True, slots=True)
class LineKeys:
    """The lines of one text as the rule sees them, and keys that ignore trailing blanks.

    Two lines of a pair of texts have equal loose keys if they differ at most in trailing blanks.
    `blank` is the loose key of a blank line.
    """

    strict: Sequence[bytes]
    loose: Sequence[Hashable]
    blank: Hashable = b""

    @staticmethod
    def of(lines: Sequence[bytes]) -> LineKeys:
        """Return the keys of lines without terminators, the first without a byte order mark."""
        return LineKeys(lines, [*map(bytes.rstrip, lines, repeat(b" \t"))])

    @staticmethod
    def by_digest(text: Snapshot) -> LineKeys:
        """Keys of a large text: 64-bit hashes, for this process only.

        The lines of a footprint are also compared byte by byte, as `strict`.
        """
        found = array("q")
        for keys in text.keys_in_blocks():
            found.extend(map(hash, map(bytes.rstrip, keys, repeat(b" \t"))))
        return LineKeys(_LinesOf(text), found, hash(b""))


class _LinesOf(Sequence[bytes]):
    def __init__(self, text: Snapshot) -> None:
        self._text = text

    def __len__(self) -> int:
        return self._text.line_count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [*map(self._text.key, range(*index.indices(len(self))))]
        return self._text.key(index)


class Relocation:
    """Carries any number of footprints from one text to a later one.

    Laws: between equal texts, every footprint is carried to its own place; a carried footprint has
    the same lines in now as in base, trailing blanks included.
    """

    def __init__(self, base: LineKeys, now: LineKeys) -> None:
        self._pair = _pair_of(base.loose, now.loose, base.blank)
        self._strict_base, self._strict_now = base.strict, now.strict
        self._owners = Owners(self._pair, base.strict, now.strict, self._conflicts)

    def carry(self, start: int, stop: int) -> Verdict:
        """Carry the base lines [start, stop), 0-based; -1 and len(base) are the file's ends.

        The lines must be together in now, equal to the last blank, in a place that some longest
        alignment of the two texts gives them, and be
        - adjacent to lines unique in both texts, before and after them; or
        - several blank lines, as many as there were, next to one such line; or
        - unique in both texts, and in that place in every longest alignment of the lines that
          are not blank, with no unique one around them on their wrong side; or
        - in that place in every longest alignment; with no line around them on their
          wrong side; with no look-alike, in now or in base, that matches the lines
          around further than the carried place does (unless it is known where it came
          from or went), and none of unknown origin that matches as far; and with no
          line that moved from next to them to next to a look-alike of them, or of the
          first or the last of them.
        Blank lines at the ends of a footprint of unique lines go with these. All this must hold
        without indentation too, if some lines were re-indented and the footprint may be one of
        them; the place must have the same owner as before; and of the footprint and the equal lines
        next to it, one must have words or be an end of the file. Raises ValueError for a range that
        is empty or outside base and its ends.

        Nothing is carried to between conflict markers that the base had not.
        """
        if not -1 <= start < stop <= len(self._strict_base) + 1:
            raise ValueError(f"no footprint of base: [{start}, {stop})")
        line, size = start + 1, stop - start
        at = self._pair.alignment.now_of(line, size)
        there = None if at is None else at - 1
        if self._is_in_conflict(start, stop, there):
            return Changed("conflict_markers", there)
        if at is None:
            return self._indented(line, size) or self._lost(line, size)
        low, high = max(start, 0), min(stop, len(self._strict_base))  # the file's ends always match
        theirs = self._strict_now[low + at - line : high + at - line]
        if not all(map(eq, self._strict_base[low:high], theirs)):
            return Changed("blanks")
        footprint = self._pair.footprint(line, at, size)
        if self._is_certain(footprint):
            if self._owners.differ(footprint):
                return self._indented(line, size) or Changed("owner")
            if not self._holds_unindented(footprint):
                return self._indented(line, size) or Changed("uncertain")
            if not self._has_words(footprint):
                return Changed("uncertain")
            copies = self._owners.copies(footprint)
            return _ambiguous([at, *copies]) if copies else Carried(at - 1)
        if (indented := self._indented(line, size)) is not None:
            return indented
        places = [place for place in self._pair.twins(self._pair.now, line, size) if place != at]
        if not places:
            return Changed("uncertain")
        return _ambiguous([at, *sorted(places, key=lambda place: abs(place - at))])

    def room_of(self, start: int, stop: int) -> tuple[int, int]:
        """Where in now the base lines [start, stop) may be, 0-based and half-open."""
        low, high = self._pair.alignment.room_of(start + 1, stop - start)
        return max(low - 1, 0), min(high, len(self._strict_now) + 1) - 1

    @computed_once
    def _conflicts(self) -> list[range]:
        """The conflicts of now, if a line that base does not have begins or ends one."""
        for gap in self._pair.alignment.gaps():
            added = self._strict_now[gap.now_start - 1 : gap.now_stop - 1]
            if any(map(marker_of, added)):
                return conflicts(self._strict_now)
        return []

    def _is_in_conflict(self, start: int, stop: int, at: int | None) -> bool:
        """Whether base lines [start, stop) are in a conflict now, and were in none."""
        if not self._conflicts:
            return False
        low, high = self.room_of(start, stop) if at is None else (at, at + stop - start)
        now = overlap(self._conflicts, low, high)
        return now and not overlap(conflicts(self._strict_base), start, stop)

    def _has_words(self, footprint: Footprint) -> bool:
        """Whether a line with words, or an end of the file, was carried with the footprint."""
        start, stop = footprint.base - footprint.above, footprint.end + footprint.below
        if start <= 0 or stop > len(self._strict_base) + 1:
            return True
        around = range(footprint.base, stop), range(footprint.base - 1, start - 1, -1)
        return any(WORD.search(self._strict_base[k - 1]) for lines in around for k in lines)

    def _is_certain(self, footprint: Footprint) -> bool:
        pair = self._pair
        if pair.is_certain(footprint):
            return True
        start, stop = pair.without_blank_ends(footprint.base, footprint.size)
        if not pair.all_unique(start, stop):
            return False
        words = pair.footprint(start, start - footprint.base + footprint.now, stop - start)
        return pair.is_certain(words) or pair.is_certain_by_words(words)

    def _holds_unindented(self, footprint: Footprint) -> bool:
        """Whether the place also holds without indentation, if it may have been re-indented."""
        pair, line, size = self._unindented, footprint.base, footprint.size
        if pair is None:
            return True
        start, stop = self._pair.without_blank_ends(line, size)
        origins = (
            (self._pair.alignment.base_of(at, size), pair.alignment.base_of(at, size))
            for at in self._indented_places(line, size)
        )
        if start < stop and all(one is not None and one == other for one, other in origins):
            return True  # both alignments give these lines of now the same lines of base
        is_aligned = pair.alignment.now_of(line, size) == footprint.now
        return is_aligned and pair.is_certain(pair.footprint(line, footprint.now, size))

    def _indented_places(self, line: int, size: int) -> list[int]:
        """Where in now the footprint is with other indentation."""
        pair, lines = self._unindented, self._pair.base[line : line + size]
        places = [] if pair is None else pair.twins(pair.now, line, size)
        return [at for at in places if self._pair.now[at : at + size] != lines]

    def _indented(self, line: int, size: int) -> Changed | None:
        """The place of the footprint with other indentation, if it is certain."""
        pair = self._unindented
        at = None if pair is None else pair.alignment.now_of(line, size)
        is_there = at is not None and at in self._indented_places(line, size)
        return Changed("indented", at - 1) if at is not None and is_there else None

    @computed_once
    def _unindented(self) -> TextPair | None:
        """The two texts without indentation; None if no line was re-indented."""
        went: set[bytes] = set()
        came: set[bytes] = set()
        for gap in self._pair.alignment.gaps():
            old = self._strict_base[gap.base_start - 1 : gap.base_stop - 1]
            new = self._strict_now[gap.now_start - 1 : gap.now_stop - 1]
            went.update(map(bare, old))
            came.update(map(bare, new))
        if not went & came - {b""}:
            return None
        ours, theirs = (
            [*map(hash, map(bytes.strip, lines, repeat(BLANKS)))]
            for lines in (self._strict_base, self._strict_now)
        )
        return _pair_of(ours, theirs, hash(b""))

    def _lost(self, line: int, size: int) -> Verdict:
        """Say why the footprint is not in now in one piece."""
        alignment = self._pair.alignment
        if all(alignment.now_of(line + k) is not None for k in range(size)):
            return Changed("parted")
        low, high = alignment.room_of(line, size)
        twins = self._pair.twins(self._pair.now, line, size)
        places = [place for place in twins if low <= place and place + size <= high]
        if len(places) > 1:
            return _ambiguous(places)
        return Changed("uncertain" if places else "gone")


def _ambiguous(places: list[int]) -> Ambiguous:
    """The first of these places, as 0-based lines that do not count the start of the file."""
    return Ambiguous(tuple(sorted(place - 1 for place in places[:_SHOWN])))


def _pair_of(base: Sequence[Hashable], now: Sequence[Hashable], blank: Hashable) -> TextPair:
    """Number the lines, equal lines alike, and add one number at each end of the file."""
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    head, tail = common_ends(base, now)
    ours = [*map(numbers.__getitem__, base)]
    middle = map(numbers.__getitem__, now[head : len(now) - tail])
    theirs = [*ours[:head], *middle, *ours[len(ours) - tail :]]
    return TextPair([-1, *ours, -2], [-1, *theirs, -2], numbers.get(blank))
