"""Line alignment: which lines of one text are which of another, LCS, and Myers' diff.

Lines are any hashables with equality: texts, digests or numbers. Invariants: matched runs contain
equal lines, rise strictly on both sides, and never touch one another on both sides. `patch` gives
the same result on every machine: where a deletion and an insertion lead equally far, the deletion
comes first, and unchanged lines are matched as early as possible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
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
        self._width = len(b)
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
        bits = f"{grown | 1 << self._width:b}"[:0:-1]
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
    """Weigh `before + lines + after` against `theirs`, with `lines` (not empty) placed at `at`."""
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
    start, step, most = i, 1, min(len(a) - i, len(b) - j)
    while i - start + step <= most and a[i : i + step] == b[j : j + step]:
        i, j, step = i + step, j + step, step * 2
    while step:
        if i - start + step <= most and a[i : i + step] == b[j : j + step]:
            i, j = i + step, j + step
        step //= 2
    return i - start


def same_before(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> int:
    """Return how many lines of `a` up to `i` (not included) equal those of `b` up to `j`."""
    start, step, most = i, 1, min(i, j)
    while start - i + step <= most and a[i - step : i] == b[j - step : j]:
        i, j, step = i - step, j - step, step * 2
    while step:
        if start - i + step <= most and a[i - step : i] == b[j - step : j]:
            i, j = i - step, j - step
        step //= 2
    return start - i


def _straight(a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap) -> Iterator[Run]:
    """Yield runs of equal lines at equal distances from the gap's start."""
    i, j = gap.base_start, gap.now_start
    while i < gap.base_stop and j < gap.now_stop:
        length = min(same_after(a, b, i, j), gap.base_stop - i, gap.now_stop - j)
        yield Run(i, j, length)
        i, j = i + length + 1, j + length + 1


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
    end_at: list[int] = []
    before: list[int] = []
    for at, j in enumerate(order):
        length = bisect_left(ends, j)
        ends[length : length + 1] = [j]
        end_at[length : length + 1] = [at]
        before.append(end_at[length - 1] if length else -1)
    chain: list[tuple[int, int]] = []
    at = end_at[-1]
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
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


def _joined(found: list[Run]) -> Iterator[Run]:
    """Yield the runs in order; join those that touch on both sides, leave out empty ones."""
    last = Run(0, 0, 0)
    for run in sorted(found):
        if (last.base_start + last.length, last.now_start + last.length) == run[:2]:
            last = Run(last.base_start, last.now_start, last.length + run.length)
        elif run.length:
            if last.length:
                yield last
            last = run
    if last.length:
        yield last


CONTEXT = 4
MOST_CHANGES = 1_000
"""Texts that differ in more lines get another diff: this one takes quadratic time."""


class _Step(NamedTuple):
    """A run of lines of one kind (" ", "-" or "+"), and the previous step."""

    kind: str
    size: int
    before: _Step | None


_NO_PATH: tuple[int, _Step | None] = (-(1 << 62), None)


def patch(old: str, new: str, name: str) -> str:
    """Return a unified diff with four lines of context; its three-line head names the file."""
    head = f"Index: {name}\n{'=' * 67}\n--- {name}\toriginal\n+++ {name}\tmodified\n"
    return head + "".join(_hunks(_lines(old), _lines(new)))


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + [last] * bool(last)


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the hunks; changes with at most twice the context between them share one."""
    rows: list[str] = []
    start, at, to = (0, 0), 0, 0
    steps = _steps(old, new)
    for index, (kind, count) in enumerate(steps):
        if kind != " ":
            if not rows:
                lead = old[max(at - CONTEXT, 0) : at]
                rows, start = [f" {line}" for line in lead], (at - len(lead), to - len(lead))
            there = old[at : at + count] if kind == "-" else new[to : to + count]
            rows += [kind + line for line in there]
        elif rows:
            joins = count <= 2 * CONTEXT and index < len(steps) - 1
            rows += [f" {line}" for line in old[at : at + (count if joins else CONTEXT)]]
            if not joins:
                yield _hunk(rows, *start)
                rows = []
        at += count * (kind != "+")
        to += count * (kind != "-")
    if rows:
        yield _hunk(rows, *start)


def _hunk(rows: Sequence[str], old_start: int, new_start: int) -> str:
    old_count = sum(row[0] != "+" for row in rows)
    new_count = sum(row[0] != "-" for row in rows)
    text = "".join(
        row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows
    )
    old = f"{old_start + bool(old_count)},{old_count}"
    return f"@@ -{old} +{new_start + bool(new_count)},{new_count} @@\n{text}"


def _steps(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int]]:
    """Return the steps from the old lines to the new ones, each as its kind and number of lines."""
    step = _shortest(old, new)
    if step is None:
        return list(_aligned(old, new))
    steps: list[tuple[str, int]] = []
    while step is not None:
        steps += [(step.kind, step.size)] * bool(step.size)
        step = step.before
    return steps[::-1]


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the steps of a diff that may not be the shortest."""
    at = to = 0
    for base, now, length in (*align(old, new).runs, Run(len(old), len(new), 0)):
        steps = (("-", base - at), ("+", now - to), (" ", length))
        yield from (step for step in steps if step[1])
        at, to = base + length, now + length


def _shortest(old: Sequence[str], new: Sequence[str]) -> _Step | None:
    """Return the last step of a shortest diff; None if it has too many changes.

    Extend paths through the grid of old and new lines by one change at a time, keeping the farthest
    one on each diagonal (old minus new) with the number of old lines it has passed.
    """
    size, now_size = len(old), len(new)

    def along(at: int, diagonal: int, before: _Step | None) -> tuple[int, _Step | None]:
        start = at
        while at < size and at - diagonal < now_size and old[at] == new[at - diagonal]:
            at += 1
        return at, _Step(" ", at - start, before) if at > start else before

    at, step = along(0, 0, None)
    if at >= size and at >= now_size:
        return step or _Step(" ", 0, None)
    best: dict[int, tuple[int, _Step | None]] = {0: (at, step)}
    low, high = -MOST_CHANGES, MOST_CHANGES
    for changes in range(1, MOST_CHANGES + 1):
        for diagonal in range(max(low, -changes), min(high, changes) + 1, 2):
            if diagonal > high:
                break
            less, more = best.pop(diagonal - 1, _NO_PATH), best.get(diagonal + 1, _NO_PATH)
            removes = 0 <= less[0] < size
            adds = 0 <= more[0] - diagonal - 1 < now_size
            if removes and not (adds and less[0] < more[0]):
                at, before, kind = less[0] + 1, less[1], "-"
            elif adds:
                at, before, kind = more[0], more[1], "+"
            else:
                best.pop(diagonal, None)
                continue
            count = 1
            if before is not None and before.kind == kind:
                count, before = before.size + 1, before.before
            at, step = along(at, diagonal, _Step(kind, count, before))
            if at >= size and at - diagonal >= now_size:
                return step
            best[diagonal] = at, step
            if at >= size:
                high = min(high, diagonal - 1)
            if at - diagonal >= now_size:
                low = max(low, diagonal + 1)
    return None
