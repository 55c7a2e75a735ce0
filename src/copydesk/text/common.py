"""The longest common subsequences of two sequences of lines, all of them at once.

What lives here: their exact lengths, from every head of one text to every head
of the other, a row of a table being the bits of one number; and what all of
them agree on. What must not: anything of edits (`copydesk.text.certainty`).
Cost: a row for each line of one text, each row a few operations on a number
with as many bits as the other text has lines.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple


class Common:
    """Longest common subsequences of growing heads of `a` with every head of `b`.

    Bit j of the state is 0 where the line `b[j]` lengthens the subsequence, so
    a line of `a` costs a few operations on one number of len(b) bits.
    """

    def __init__(self, b: Sequence[Hashable]) -> None:
        self._places: dict[Hashable, int] = {}
        for j, line in enumerate(b):
            self._places[line] = self._places.get(line, 0) | 1 << j
        self._width = len(b)
        self._ones = (1 << len(b)) - 1
        self.state = self._ones

    def take(self, lines: Sequence[Hashable]) -> None:
        """Append lines to the head of `a`."""
        state, ones, places = self.state, self._ones, self._places
        for line in lines:
            here = places.get(line)
            if here is not None:
                kept = state & here
                state = ((state + kept) | (state - kept)) & ones
        self.state = state

    def lengths(self) -> list[int]:
        """The length with the first j lines of `b`, for j from 0 to len(b)."""
        grown = self.state ^ self._ones
        bits = f"{grown | 1 << self._width:b}"[:0:-1]
        return [0, *accumulate(map(int, bits))]

    def length(self) -> int:
        """The length with the whole of `b`."""
        return (self.state ^ self._ones).bit_count()


def longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """The matched places of one longest common subsequence, from its end backwards."""
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
    """What all longest alignments say of some lines of one text, placed in another.

    `best` is their length, `here` that of the longest with the lines in their
    place; `tied` when some of those as long have the first or the last of them
    elsewhere or nowhere; `crossed` when the lines around would align better
    without them, that is, when some come to stand on their other side.
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
    """Weigh the text `before + lines + after` against `theirs`, with `lines` placed at `at`.

    `lines` is not empty and equals as many lines of `theirs` from `at` on.
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
    """Whether an alignment of length `best` skips the line or matches it not with `own`."""
    if max(map(add, upto, past)) >= best:
        return True
    return any(
        upto[j] + 1 + past[j + 1] >= best
        for j, other in enumerate(theirs)
        if other == line and j != own
    )
