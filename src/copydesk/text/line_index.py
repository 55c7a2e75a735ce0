"""Where the lines of a text start, found as far as they are asked for.

A short text is cut once. Of a longer one the line feeds are counted once, at the speed of memory,
and a block is cut when one of its lines is asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, count
from operator import add
from typing import Protocol

SHORT = 1 << 12
"""A text of so many bytes is cut at once."""

_BLOCK = 1 << 12
"""A block; of a text of at most `_SMALL` bytes a quarter of it."""

_SMALL = 1 << 16


class LineIndex(Protocol):
    """The lines of one text; a line ends just after its line feed, or with the text."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def start(self, line: int) -> int:
        """The byte where line `line` starts; `count` gives the end of the text."""
        ...

    def at(self, byte: int) -> int:
        """How many lines end before the byte or at it; -1 for one before the first line."""
        ...


def lines_of(data: bytes, first: int, lf: bytes) -> LineIndex:
    """The lines of `data` from byte `first` on; `lf` is a line feed, of one code unit."""
    if len(lf) > 1:
        return _Listed([first, *_wide_ends(data, first, lf)], len(data))
    if len(data) - first > SHORT:
        return _Counted(data, first)
    return _Listed(_cut(data, first, len(data)), len(data))


class _Listed:
    """All starts, in a list."""

    def __init__(self, starts: list[int], size: int) -> None:
        if starts[-1] != size:
            starts.append(size)
        self._starts, self.count = starts, len(starts) - 1

    def start(self, line: int) -> int:
        return self._starts[line]

    def at(self, byte: int) -> int:
        return bisect_right(self._starts, byte) - 1


class _Counted:
    """How many line feeds stand before each block, and the starts in the block used last."""

    def __init__(self, data: bytes, first: int) -> None:
        self._data, self._first = data, first
        self._block = _BLOCK if len(data) > _SMALL else max(_BLOCK >> 2, 1)
        self._used = (-1, list[int]())

    @property
    def count(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return self._data.count(b"\n", self._first) + (not self._data.endswith(b"\n"))

    def start(self, line: int) -> int:
        if line == 0:
            return self._first
        if line == self.count:
            return len(self._data)
        block = bisect_left(self._before, line) - 1
        used, starts = self._used
        if used != block:
            low = self._first + block * self._block
            starts = _cut(self._data, low, low + self._block)
            self._used = (block, starts)
        return starts[line - self._before[block]]

    def at(self, byte: int) -> int:
        if byte >= len(self._data):
            return self.count
        if byte < self._first:
            return -1
        block = (byte - self._first) // self._block
        low = self._first + block * self._block
        return self._before[block] + self._data.count(b"\n", low, byte)

    @cached_property
    def _before(self) -> list[int]:
        data, size = self._data, self._block
        starts = range(self._first, len(data), size)
        return list(accumulate((data.count(b"\n", at, at + size) for at in starts), initial=0))


def _cut(data: bytes, first: int, stop: int) -> list[int]:
    """`first`, and the byte after each line feed in [first, stop)."""
    sizes = map(len, data[first:stop].split(b"\n"))
    starts = list(map(add, accumulate(sizes, initial=0), count(first)))
    starts.pop()
    return starts


def _wide_ends(data: bytes, first: int, lf: bytes) -> list[int]:
    """The bytes just after each LF code unit that stands at a whole number of units.

    So does `first`. No two finds overlap, wherever they stand.
    """
    unit, ends, at = len(lf), list[int](), first
    while (at := data.find(lf, at)) >= 0:
        at += unit
        if at % unit == 0:
            ends.append(at)
    return ends
