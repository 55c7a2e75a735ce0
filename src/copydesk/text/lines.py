"""The lines of a text's bytes: where each one starts, and which of them hold a text sought.

A line ends with LF or CRLF and nothing else; lines are numbered from 0. `data` never begins with a
byte order mark, unless `first` says where it ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import add
from typing import AnyStr

from copydesk.text.encoding import UTF8, Encoding, has_raw

SHORT = 1 << 12
"""A text of up to this many bytes is split into lines at once."""

_BLOCK = 1 << 12
"""Bytes of a block whose line feeds are counted at once."""

_AHEAD = 16
"""At least so many blocks are counted at a time."""


def lines_of(data: bytes, first: int, lf: bytes) -> LineIndex:
    """Where the lines of `data` from byte `first` on start, and last where they end.

    `lf` is a line feed, one code unit.
    """
    size = len(data)
    if lf == b"\n" and size - first > SHORT:
        return _Counted(data, first)
    starts = _cut(data, first, size) if lf == b"\n" else [first, *_wide_ends(data, first, lf)]
    return starts if starts[-1] == size else [*starts, size]


def line_of(index: LineIndex, byte: int) -> int:
    """The line that contains the byte, which is not the end; -1 before the first."""
    return bisect_right(index, byte) - 1 if isinstance(index, list) else index.at(byte)


class _Counted:
    """Like a list of starts, but counts line feeds block by block, only as far as needed."""

    def __init__(self, data: bytes, first: int) -> None:
        self._data, self._first = data, first
        self._used = (-1, list[int]())
        self._before = [0]
        """The line feeds before each block; replaced, not changed, since threads share it."""

    def __len__(self) -> int:
        """The number of starts; counts all blocks, since callers mostly look up a line next."""
        return self._counted(len(self._data))[-1] + (not self._data.endswith(b"\n")) + 1

    def __getitem__(self, line: int) -> int:
        if line == 0:
            return self._first
        if self._before[-1] < line and self._counted(line=line)[-1] < line:
            return len(self._data)  # the text ends without a line feed
        before = self._before
        block = bisect_left(before, line) - 1
        used, starts = self._used
        if used != block:
            low = self._first + block * _BLOCK
            starts = _cut(self._data, low, low + _BLOCK)
            self._used = (block, starts)
        return starts[line - before[block]]

    def at(self, byte: int) -> int:
        """The line that contains the byte; -1 before the first."""
        if byte < self._first:
            return -1
        block = (byte - self._first) // _BLOCK
        low = self._first + block * _BLOCK
        return self._counted(block)[block] + self._data.count(b"\n", low, byte)

    def _counted(self, block: int = 0, line: int = 0) -> list[int]:
        """The line feeds before each block, as far as this block and this line, or the end.

        Each time twice as many are counted as before.
        """
        data, size, before = self._data, len(self._data), self._before
        while before[-1] < line or len(before) <= block:
            known = len(before)
            low = self._first + (known - 1) * _BLOCK
            if low >= size:
                break
            stop = min(low + max(known, _AHEAD) * _BLOCK, size)
            counts = (data.count(b"\n", at, at + _BLOCK) for at in range(low, stop, _BLOCK))
            self._before = before = [*before[:-1], *accumulate(counts, initial=before[-1])]
        return before


LineIndex = list[int] | _Counted


def _cut(data: bytes, first: int, stop: int) -> list[int]:
    """Return `first`, and the byte after each line feed in [first, stop)."""
    sizes = map(len, data[first:stop].split(b"\n"))
    starts = list(map(add, accumulate(sizes, initial=0), count(first)))
    starts.pop()
    return starts


def _wide_ends(data: bytes, first: int, lf: bytes) -> Iterator[int]:
    """Yield the bytes just after each LF code unit that is aligned with `first`."""
    unit, at = len(lf), first
    while (at := data.find(lf, at)) >= 0:
        at += unit
        if at % unit == 0:
            yield at


def terminator_of(line: bytes, encoding: Encoding) -> bytes:
    """The bytes that end a line: LF or CRLF in the encoding, or nothing."""
    lf, crlf, unit = b"\n", b"\r\n", encoding.unit
    if unit > 1:
        lf, crlf = encoding.encode("\n"), encoding.encode("\r\n")
        if len(line) % unit:
            return b""  # an incomplete last unit ends no line
    return crlf if line[-2 * unit :] == crlf else lf if line[-unit:] == lf else b""


def keys_of(data: bytes, encoding: Encoding) -> list[bytes]:
    """The lines without their terminators."""
    if encoding.unit > 1:
        starts = lines_of(data, 0, encoding.encode("\n"))
        lines = [data[starts[i] : starts[i + 1]] for i in range(len(starts) - 1)]
        return [line[: len(line) - len(terminator_of(line, encoding))] for line in lines]
    *keys, last = data.split(b"\n")
    if b"\r" in data:  # the last line has no terminator
        keys = [key.removesuffix(b"\r") for key in keys]
    return [*keys, last] if last else keys


def narrow(data: bytes, encoding: Encoding) -> bytes:
    """The text with a code unit of one byte, in which line ends are counted."""
    return data if encoding.unit == 1 else encoding.decode(data).encode("utf-8", "surrogatepass")


def crlf_of(data: bytes) -> int:
    """How many lines of narrow text end with CRLF."""
    return data.count(b"\r\n") if b"\r" in data else 0  # most texts have none


def found_in(
    data: bytes, encoding: Encoding, text: str, *, whole: bool, escaped: bool = False
) -> Iterator[int]:
    """Yield the numbers of the lines that contain (`whole`: equal) the text; `data` has no BOM.

    A byte that does not decode is not text; with `escaped`, its `\\xNN` matches it.

    Valid UTF-8 is self-synchronizing, so a match in the bytes is a match in the text. What follows
    a byte order mark may be invalid, and is searched as decoded text.
    """
    wanted = encoding.pattern(text) if escaped else None
    if escaped and wanted is None:
        return iter(())
    if encoding == UTF8 and wanted is None:
        return _by_find(data, text.encode(), b"\n", b"\r", whole=whole)
    decoded = encoding.text(data)
    if wanted is None and not (encoding.known and has_raw(decoded)):
        return _by_find(decoded, text, "\n", "\r", whole=whole)
    # decoding depends on where lines end
    shown = enumerate(map(encoding.text, keys_of(data, encoding)))
    if wanted is None:
        return (line for line, have in shown if (text == have if whole else text in have))
    matches = wanted.fullmatch if whole else wanted.search
    return (line for line, have in shown if matches(have))


def _by_find(text: AnyStr, wanted: AnyStr, lf: AnyStr, cr: AnyStr, *, whole: bool) -> Iterator[int]:
    """Yield the lines of `text` that contain or equal `wanted`, which has no line feed."""
    line = at = 0
    while (hit := text.find(wanted, at)) >= 0:
        line += text.count(lf, at, hit)
        begin = max(text.rfind(lf, at, hit) + 1, at)
        end = text.find(lf, hit)
        stop = len(text) if end < 0 else end - text.endswith(cr, begin, end)
        last = hit + len(wanted)
        if (hit == begin and last == stop) if whole else last <= stop:
            yield line
        if end < 0:
            return
        at, line = end + 1, line + 1


KEPT = 1 << 20
"""The most line numbers stored; further matches are only counted."""

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Sought:
    """A text that a line must contain or (`whole`) equal.

    `ends`: this text ends ranges that the one before it in the list starts, so only the first match
    after each of its matches is kept, and the first few of the others. `escaped`: the text is as it
    was shown to the caller, with `\\xNN` for bytes.
    """

    text: str
    whole: bool = False
    ends: bool = False
    escaped: bool = False


class Hits:
    """The lines that match one text, 0-based, in order: the first ones, and how many."""

    def __init__(self, sought: Sought, starts: Hits | None = None) -> None:
        self.sought = sought
        self.count = 0
        self.last = -1
        self.lines = array("q")
        self._starts = starts if sought.ends else None
        self._looked = 0

    def take(self, data: bytes, encoding: Encoding, first_line: int) -> None:
        """Search the next whole lines, the first of which is line `first_line`."""
        sought = self.sought
        for line in found_in(
            data, encoding, sought.text, whole=sought.whole, escaped=sought.escaped
        ):
            self.count += 1
            self.last = first_line + line
            if len(self.lines) < KEPT and (self._starts is None or self._closes(self.last)):
                self.lines.append(self.last)

    def _closes(self, line: int) -> bool:
        """Whether a start is between the last stored line and this one, or few are stored yet."""
        starts = self._starts.lines if self._starts else ()
        before = self._looked
        self._looked = bisect_left(starts, line, before)
        return self._looked > before or len(self.lines) < _SHOWN


def hits_of(sought: Sequence[Sought]) -> tuple[Hits, ...]:
    """Return empty hits for each text; where it `ends` another, they refer to that one's."""
    made: list[Hits] = []
    for each in sought:
        made.append(Hits(each, made[-1] if made else None))
    return tuple(made)
