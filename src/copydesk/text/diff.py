"""Line alignment: which lines of one text are which of another, and longest common subsequences.

Lines are any hashables with equality: texts, digests or numbers. Invariants: matched runs contain
equal lines, rise strictly on both sides, and never touch one another on both sides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, itemgetter
from typing import Literal, NamedTuple


class Common:
    """LCS lengths of a growing prefix of `a` with every prefix of `b`.

    Bit j of the state is 0 where the line `b[j]` lengthens the subsequence, so a line of `a` costs
    a few operations on one number of len(b) bits.
    """

    def __init__(self, b: Sequence[Hashable]) -> None:
        self._places: dict[Hashable, int] = {}
        for j, line in enumerate(b):
            self._places[line] = self._places.get(line, 0) | 1 << j
        self._ones = (1 << len(b)) - 1
        self.state = self._ones

    def take(self, lines: Sequence[Hashable]) -> None:
        """Append lines to the prefix of `a`."""
        state, ones, places = self.state, self._ones, self._places
        for line in lines:
            here = places.get(line)
            if here is not None:
                kept = state & here
                state = ((state + kept) | (state - kept)) & ones
        self.state = state

    def lengths(self) -> list[int]:
        """Return the LCS length with the first j lines of `b`, for j from 0 to len(b)."""
        grown = self.state ^ self._ones
        bits = f"{grown | self._ones + 1:b}"[:0:-1]
        return [0, *accumulate(map(int, bits))]

    def length(self) -> int:
        """Return the LCS length with all of `b`."""
        return (self.state ^ self._ones).bit_count()


def longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the matched pairs of indexes of one longest common subsequence, last pair first."""
    growing = Common(b)
    states = [growing.state]
    for i in range(len(a)):
        growing.take(a[i : i + 1])
        states.append(growing.state)
    i, j = len(a), len(b)
    while i and j:
        if states[i] >> (j - 1) & 1:
            j -= 1
        elif not states[i - 1] >> (j - 1) & 1:
            i -= 1
        else:
            i, j = i - 1, j - 1
            yield i, j


class Weighed(NamedTuple):
    """How well some lines of one text fit a place in another, over all longest alignments.

    `best` is the length of these, `here` the longest with the lines in that place. `tied`: one as
    long as the best has the first or the last of them elsewhere or nowhere. `crossed`: the lines
    around would align better without them, some of them across the place.
    """

    best: int
    here: int
    tied: bool
    crossed: bool


def weigh(
    before: Sequence[Hashable],
    lines: Sequence[Hashable],
    after: Sequence[Hashable],
    theirs: Sequence[Hashable],
    at: int,
) -> Weighed:
    """Weigh `before + lines + after` against `theirs`, with `lines` (not empty) placed at `at`.

    Lengths of common subsequences, for each j: `to_first[j]` of `before`, `to_last[j]` of all above
    the last line, with `theirs[:j]`; `past_first[j]` of all below the first line, `past_last[j]` of
    `after`, with `theirs[j:]`.
    """
    head, tail = Common(theirs), Common(theirs[::-1])
    head.take(before)
    to_first = head.lengths()
    head.take(lines[:-1])
    to_last = head.lengths()
    tail.take(after[::-1])
    past_last = tail.lengths()[::-1]
    tail.take(lines[:0:-1])
    past_first = tail.lengths()[::-1]
    tail.take(lines[:1])
    best = max(map(add, to_first, tail.lengths()[::-1]))
    end = at + len(lines)
    around = to_first[at] + past_last[end]
    tied = _elsewhere(theirs, lines[0], at, to_first, past_first, best) or _elsewhere(
        theirs, lines[-1], end - 1, to_last, past_last, best
    )
    crossed = max(map(add, to_first, past_last)) > around
    if crossed:
        rest = Common([*theirs[:at], *theirs[end:]])
        rest.take(before)
        rest.take(after)
        crossed = rest.length() > around
    return Weighed(best, around + len(lines), tied, crossed)


def _elsewhere(
    theirs: Sequence[Hashable],
    line: Hashable,
    own: int,
    upto: list[int],
    past: list[int],
    best: int,
) -> bool:
    """Whether an alignment of length `best` skips the line or matches it elsewhere than `own`."""
    if max(map(add, upto, past)) >= best:
        return True
    return any(
        upto[j] + 1 + past[j + 1] >= best
        for j, other in enumerate(theirs)
        if other == line and j != own
    )


_CELLS = 64_000_000
"""The most pairs of lines that one alignment weighs exactly; takes about 30 ms and 8 MB."""

_DEPTH = 24
"""The most times that a gap is split again at lines that are unique within it."""


class Run(NamedTuple):
    """The `length` lines from `base_start` match those from `now_start`, both 0-based."""

    base_start: int
    now_start: int
    length: int


class Gap(NamedTuple):
    """The lines between two runs: removed from base, added in now; half-open ranges."""

    base_start: int
    base_stop: int
    now_start: int
    now_stop: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """The matched runs of two sequences of lines, in order.

    Law: every line of either side is in exactly one run or gap; applying the gaps to base gives
    now.
    """

    base_length: int
    now_length: int
    runs: tuple[Run, ...]

    @property
    def matched(self) -> int:
        """The number of matched lines."""
        return sum(run.length for run in self.runs)

    def now_of(self, line: int, length: int = 1) -> int | None:
        """Where base lines [line, line + length) are in now, if one run holds them all."""
        return self._across(line, length, 0)

    def base_of(self, line: int, length: int = 1) -> int | None:
        """Where now lines [line, line + length) were in base, if one run holds them all."""
        return self._across(line, length, 1)

    def _across(self, line: int, length: int, side: Literal[0, 1]) -> int | None:
        """The line of the other text for one of base (side 0) or now (side 1)."""
        index = bisect_right(self.runs, line, key=itemgetter(side)) - 1
        if index < 0:
            return None
        run = self.runs[index]
        inner = line - run[side]
        return run[1 - side] + inner if inner + length <= run.length else None

    def room_of(self, line: int, length: int = 1) -> tuple[int, int]:
        """Where base lines [line, line + length) may be in now, between matches; half-open."""
        end = line + length
        above = bisect_left(self.runs, line, key=lambda run: run.base_start)
        below = bisect_right(self.runs, end, key=lambda run: run.base_start + run.length)
        low, high = 0, self.now_length
        if above:
            run = self.runs[above - 1]
            low = run.now_start + min(run.length, line - run.base_start)
        if below < len(self.runs):
            run = self.runs[below]
            high = run.now_start + max(0, end - run.base_start)
        return low, high

    def gaps(self) -> Iterator[Gap]:
        """Yield the non-empty gaps before, between and after the runs."""
        base_at = now_at = 0
        for run in (*self.runs, Run(self.base_length, self.now_length, 0)):
            if base_at < run.base_start or now_at < run.now_start:
                yield Gap(base_at, run.base_start, now_at, run.now_start)
            base_at, now_at = run.base_start + run.length, run.now_start + run.length


def align(base: Sequence[Hashable], now: Sequence[Hashable]) -> Alignment:
    """Align two sequences of lines.

    Match the common ends, then lines unique on both sides (as many as keep their order), then the
    same within each gap, then the longest common subsequence. Where that would cost too much, match
    only lines at equal distances from the gap's start: time is O(n log n) plus a constant, and an
    alignment is always valid, if not always the longest.
    """
    a, b = list(base), list(now)
    head, tail = common_ends(a, b)
    found = [Run(0, 0, head), Run(len(a) - tail, len(b) - tail, tail)]
    cells = _CELLS
    todo = [(Gap(head, len(a) - tail, head, len(b) - tail), 0)]
    while todo:
        gap, depth = todo.pop()
        if gap.base_start == gap.base_stop or gap.now_start == gap.now_stop:
            continue
        chain = _unique_chain(a, b, gap) if depth < _DEPTH else []
        if chain:
            todo += [(rest, depth + 1) for rest in _extend(a, b, gap, chain, found)]
            continue
        cost = (gap.base_stop - gap.base_start) * (gap.now_stop - gap.now_start)
        if cost <= cells:
            cells -= cost
            ours, theirs = a[gap.base_start : gap.base_stop], b[gap.now_start : gap.now_stop]
            found += [
                Run(gap.base_start + i, gap.now_start + j, 1) for i, j in longest(ours, theirs)
            ]
        else:
            found += _straight(a, b, gap)
    return Alignment(len(a), len(b), tuple(_joined(found)))


def common_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int]:
    """How many lines the two share at the start, and how many of the rest at the end."""
    head = same_after(a, b, 0, 0) if a[:1] == b[:1] else 0
    tail = same_before(a, b, len(a), len(b)) if a[-1:] == b[-1:] else 0
    return head, min(tail, len(a) - head, len(b) - head)


def changed_part(
    old: Sequence[Hashable], new: Sequence[Hashable]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The lines of either side that are left without those that both begin and end with.

    One of these lines is left at either end. None if all are.
    """
    head, tail = common_ends(old, new)
    low, high = max(head - 1, 0), min(len(old) - tail + 1, len(old))
    if high - low == len(old):
        return None
    return (low, high), (low, high + len(new) - len(old))


def same_after(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> int:
    """Return how many lines of `a` from index `i` equal those of `b` from index `j`."""
    return _stretch(
        lambda low, high: a[i + low : i + high] == b[j + low : j + high],
        min(len(a) - i, len(b) - j),
    )


def same_before(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> int:
    """Return how many lines of `a` up to `i` (not included) equal those of `b` up to `j`."""
    return _stretch(
        lambda low, high: a[i - high : i - low] == b[j - high : j - low],
        min(i, j),
    )


def _stretch(are_equal: Callable[[int, int], bool], most: int) -> int:
    """How many lines are equal, of `most`: found by slices that double, then halve, in size."""
    size, step = 0, 1
    while size + step <= most and are_equal(size, size + step):
        size, step = size + step, step * 2
    while step:
        if size + step <= most and are_equal(size, size + step):
            size += step
        step //= 2
    return size


def _straight(a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap) -> Iterator[Run]:
    """Yield runs of equal lines at equal distances from the gap's start."""
    i, j = gap.base_start, gap.now_start
    while i < gap.base_stop and j < gap.now_stop:
        length = min(same_after(a, b, i, j), gap.base_stop - i, gap.now_stop - j)
        yield Run(i, j, length)
        i, j = i + length + 1, j + length + 1


_Link = tuple[tuple[int, int], "_Link | None"]
"""The last pair of a chain, and the chain before it."""


def _unique_chain(a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap) -> list[tuple[int, int]]:
    """Return the longest chain, in order on both sides, of lines that are unique on both sides."""
    ours, theirs = a[gap.base_start : gap.base_stop], b[gap.now_start : gap.now_stop]
    place = {line: j for j, line in enumerate(theirs, gap.now_start)}
    counts, others = Counter(ours), Counter(theirs)
    once = {line for line, count in counts.items() if count == 1 == others.get(line)}
    pairs = [(i, place[line]) for i, line in enumerate(ours, gap.base_start) if line in once]
    order = [j for _, j in pairs]
    if order == sorted(order):
        return pairs
    ends: list[int] = []  # of the chains of each length: the least line of now that ends one
    chains: list[_Link] = []
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        chains[length : length + 1] = [(pair, chains[length - 1] if length else None)]
    chain: list[tuple[int, int]] = []
    link: _Link | None = chains[-1]
    while link is not None:
        pair, link = link
        chain.append(pair)
    return chain[::-1]


def _extend(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    gap: Gap,
    chain: list[tuple[int, int]],
    found: list[Run],
) -> Iterator[Gap]:
    """Grow each link of the chain both ways and add the runs; yield the gaps between them."""
    base_at, now_at = gap.base_start, gap.now_start
    for i, j in chain:
        if i < base_at:
            continue
        i0, j0 = i, j
        while i0 > base_at and j0 > now_at and a[i0 - 1] == b[j0 - 1]:
            i0, j0 = i0 - 1, j0 - 1
        # it stops before any later link that it does not pass through: that link's line is unique
        more = min(same_after(a, b, i, j), gap.base_stop - i, gap.now_stop - j)
        found.append(Run(i0, j0, i + more - i0))
        if base_at < i0 and now_at < j0:
            yield Gap(base_at, i0, now_at, j0)
        base_at, now_at = i + more, j + more
    yield Gap(base_at, gap.base_stop, now_at, gap.now_stop)


def _joined(found: list[Run]) -> list[Run]:
    """The runs in order; those that touch on both sides are one, empty ones are left out."""
    joined: list[Run] = []
    for run in sorted(run for run in found if run.length):
        last = joined[-1] if joined else Run(0, 0, 0)
        if (last.base_start + last.length, last.now_start + last.length) == run[:2]:
            joined[-1:] = [Run(last.base_start, last.now_start, last.length + run.length)]
        else:
            joined.append(run)
    return joined
