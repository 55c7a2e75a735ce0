"""One immutable text: its bytes, their encoding, and where its lines are.

Invariants: a line ends with LF or CRLF and nothing else; the byte order mark belongs to no line;
the spans of all lines, in order, cover all bytes after it. Line numbers in this package are 0-based
and ranges half-open unless a name says otherwise (`..._line` in reports is 1-based).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from operator import add
from typing import TYPE_CHECKING

from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding, detect

if TYPE_CHECKING:  # type checkers see a plain property
    computed_once = property
else:

    class computed_once:
        """A property that is computed on first access and cached, like `cached_property`.

        It takes no lock, unlike Python 3.11's: a value computed twice is the same.
        """

        def __init__(self, compute):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, owned, owner=None):
            if owned is None:
                return self
            value = owned.__dict__[self._name] = self._compute(owned)
            return value


VERSION_LENGTH = 12
"""Hex characters of the SHA-256 that make a version."""

_LONG = 4_096
"""The span of a line is cached if more bytes than this were scanned to find its ends."""

_LINE_BY_LINE = frozenset(("utf-8", "ascii", "unknown"))
"""Encodings in which lines decode alone as they do together: no error spans a line feed."""


class Text(ABC):
    """A text as an edit sees it: all of it, or the lines that the edit is about.

    Lines and bytes are numbered in the whole text. Asking for a line that is not loaded raises
    ValueError, which is a bug of the caller.
    """

    encoding: Encoding

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""

    @property
    @abstractmethod
    def line_count(self) -> int:
        """The number of lines; 0 for a text without bytes after the byte order mark."""

    @property
    @abstractmethod
    def ends_with_newline(self) -> bool:
        """Whether the last line has a terminator; an empty text has no last line: False."""

    @property
    @abstractmethod
    def newline_counts(self) -> tuple[int, int]:
        """The number of terminators, and how many of them are CRLF."""

    @abstractmethod
    def start(self, line: int) -> int:
        """The byte where line `line` starts; `line_count` gives the end of the text."""

    @abstractmethod
    def line_at(self, byte: int) -> int:
        """The line that holds the byte; `line_count` for the end after a terminator."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop)."""

    @abstractmethod
    def reach(self, line: int) -> tuple[int, int]:
        """The loaded lines [start, stop) around the start of `line`, without a gap."""

    def line_begin(self, byte: int) -> int:
        """The byte where the line of `line_at(byte)` starts."""
        return self.start(self.line_at(byte))

    def line_end(self, byte: int) -> int:
        """The byte after the line of `line_at(byte)`."""
        return self.start(min(self.line_at(byte) + 1, self.line_count))

    def back(self, byte: int, lines: int) -> tuple[int, int]:
        """Go `lines` lines back from a line's start or the end: the byte, and how many lines."""
        line = self.line_count if byte == self.size else self.line_at(byte)
        first = max(line - lines, 0)
        return self.start(first), line - first

    def on(self, byte: int, lines: int) -> tuple[int, int]:
        """Go `lines` lines on from a line's start or the end: the byte, and how many lines."""
        line = self.line_count if byte == self.size else self.line_at(byte)
        last = min(line + lines, self.line_count)
        return self.start(last), last - line

    @abstractmethod
    def edited(self, change: ChangeSet) -> Text:
        """The text after the change."""

    @abstractmethod
    def unmarked(self) -> Text:
        """The text with its byte order mark counted as part of the first line."""

    def unchanged_by(self, change: ChangeSet) -> bool:
        """Whether the change only replaces bytes by the same bytes."""
        return all(self.slice(edit.start, edit.stop) == edit.new for edit in change.edits)

    @property
    def version(self) -> str:
        """The short name of this content that callers pass back: 12 hex characters."""
        return self.digest[:VERSION_LENGTH]

    @property
    def ragged(self) -> bool:
        """Whether the last bytes are no whole code unit (a broken UTF-16 or UTF-32 file)."""
        unit = self.encoding.unit
        return unit > 1 and (self.size - len(self.encoding.bom)) % unit != 0

    def raw(self, start: int, stop: int) -> bytes:
        """The bytes of lines [start, stop), terminators included."""
        return self.slice(self.start(start), self.start(stop))

    def terminator(self, line: int) -> bytes:
        """The bytes that end the line: LF or CRLF in the file's encoding, or nothing."""
        start, stop = self.start(line), self.start(line + 1)
        if stop % self.encoding.unit:
            return b""  # an incomplete last unit ends no line
        lf, crlf = self.lf, self.crlf
        end = self.slice(max(start, stop - len(crlf)), stop)
        return crlf if end == crlf else lf if end.endswith(lf) else b""

    def key(self, line: int) -> bytes:
        """The bytes of the line without its terminator, by which lines are compared."""
        return self.slice(self.start(line), self.start(line + 1) - len(self.terminator(line)))

    def text(self, line: int) -> str:
        """The line as it is shown: no terminator, `\\xNN` for bytes that do not decode."""
        return self.encoding.decode(self.key(line))

    def texts(self, start: int, stop: int) -> tuple[str, ...]:
        """The shown texts of lines [start, stop)."""
        return tuple(self.text(line) for line in range(start, stop))

    def newline_near(self, start: int, stop: int) -> bytes:
        """The terminator for new lines at [start, stop): as before, after, in most lines, or LF."""
        before = self.terminator(start - 1) if start > 0 else b""
        after = self.terminator(stop) if not before and stop < self.line_count else b""
        return before or after or self.dominant_newline

    @property
    def dominant_newline(self) -> bytes:
        """The terminator of most lines; LF if there is none or a tie."""
        every, crlf = self.newline_counts
        return self.crlf if 2 * crlf > every else self.lf

    def newline_name(self, terminator: bytes) -> str:
        """`lf` or `crlf`."""
        return "crlf" if b"\r" in terminator else "lf"

    @property
    def newline_style(self) -> str:
        """`lf`, `crlf`, `mixed`, or `none` for a text without any terminator."""
        return newline_style(*self.newline_counts)

    @computed_once
    def lf(self) -> bytes:
        """A line feed in the file's encoding."""
        return b"\n" if self.encoding.unit == 1 else self.encoding.encode("\n")

    @computed_once
    def crlf(self) -> bytes:
        """A carriage return and a line feed in the file's encoding."""
        return b"\r\n" if self.encoding.unit == 1 else self.encoding.encode("\r\n")


@dataclass(frozen=True)
class Snapshot(Text):
    """All bytes of a file at one moment, and their encoding; `told` returns a known SHA-256."""

    data: bytes
    encoding: Encoding
    told: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(
        data: bytes, named: str | None = None, told: Callable[[], str] | None = None
    ) -> Snapshot:
        """Make the snapshot of `data` in encoding `named`; BinaryFile for NUL outside UTF-16/32."""
        return Snapshot(data, detect(data, named), told)

    @computed_once
    def size(self) -> int:
        return len(self.data)

    @computed_once
    def digest(self) -> str:
        if self.told is not None:
            return self.told()
        return hashlib.sha256(self.data).hexdigest()

    @computed_once
    def line_count(self) -> int:
        return len(self._starts) - 1

    @computed_once
    def ends_with_newline(self) -> bool:
        if self.encoding.unit == 1:
            return self.data[-1:] == b"\n"
        return self.line_count > 0 and self.terminator(self.line_count - 1) != b""

    @computed_once
    def newline_counts(self) -> tuple[int, int]:
        if self.encoding.unit == 1:
            every = self.line_count - (self.line_count > 0 and not self.ends_with_newline)
            return every, self.data.count(b"\r\n") if b"\r" in self.data else 0
        found = [self.terminator(line) for line in range(self.line_count)]
        return len(found) - found.count(b""), found.count(self.crlf)

    def raw(self, start: int, stop: int) -> bytes:
        return self.data[self._starts[start] : self._starts[stop]]

    def terminator(self, line: int) -> bytes:
        if self.encoding.unit > 1:
            return super().terminator(line)
        stop = self._starts[line + 1]
        if self.data[stop - 1 : stop] != b"\n":
            return b""
        return b"\r\n" if self.data[stop - 2 : stop] == b"\r\n" else b"\n"

    def start(self, line: int) -> int:
        return self._starts[line]

    def line_at(self, byte: int) -> int:
        if byte < self.size:
            return line_of(self._starts, byte)
        return self.line_count - (self.line_count > 0 and not self.ends_with_newline)

    def key(self, line: int) -> bytes:
        if self.encoding.unit > 1:
            return super().key(line)
        raw = self.data[self._starts[line] : self._starts[line + 1]]
        if not raw.endswith(b"\n"):
            return raw
        return raw[: -1 - raw.endswith(b"\r\n")]

    def texts(self, start: int, stop: int) -> tuple[str, ...]:
        if self.encoding.name not in _LINE_BY_LINE or start >= stop:
            return super().texts(start, stop)
        text = self.encoding.decode(self.raw(start, stop))
        *lines, last = text.split("\n")
        if "\r" in text:  # the last line has no terminator
            lines = [line.removesuffix("\r") for line in lines]
        return tuple(lines) if text[-1:] == "\n" else (*lines, last)

    def line_begin(self, byte: int) -> int:
        if self.encoding.unit > 1:
            return super().line_begin(byte)
        begin, end = self._long_line[0]
        if begin <= byte < end:
            return begin
        first = len(self.encoding.bom)
        found = max(self.data.rfind(b"\n", first, byte) + 1, first)
        if byte - found > _LONG:
            self._long_line[0] = found, self.data.find(b"\n", byte) + 1 or len(self.data)
        return found

    def line_end(self, byte: int) -> int:
        if self.encoding.unit > 1:
            return super().line_end(byte)
        begin, end = self._long_line[0]
        if begin <= byte < end:
            return end
        found = self.data.find(b"\n", byte) + 1 or len(self.data)
        if found - byte > _LONG:
            first = len(self.encoding.bom)
            self._long_line[0] = max(self.data.rfind(b"\n", first, byte) + 1, first), found
        return found

    @computed_once
    def _long_line(self) -> list[tuple[int, int]]:
        """The last long line scanned, cached so that many edits in it do not each scan it."""
        return [(0, 0)]

    def back(self, byte: int, lines: int) -> tuple[int, int]:
        if self.encoding.unit > 1:
            return super().back(byte, lines)
        first, count = len(self.encoding.bom), 0
        while count < lines and byte > first:
            byte = self.data.rfind(b"\n", first, byte - 1) + 1 or first
            count += 1
        return byte, count

    def on(self, byte: int, lines: int) -> tuple[int, int]:
        if self.encoding.unit > 1:
            return super().on(byte, lines)
        size, count = self.size, 0
        while count < lines and byte < size:
            byte = self.data.find(b"\n", byte) + 1 or size
            count += 1
        return byte, count

    def slice(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]

    def reach(self, line: int) -> tuple[int, int]:
        return 0, self.line_count

    def edited(self, change: ChangeSet) -> Snapshot:
        return Snapshot(change.apply(self.data), self.encoding)

    def unmarked(self) -> Snapshot:
        if not self.encoding.bom:
            return self
        return Snapshot(self.data, replace(self.encoding, bom=b""), self.told)

    def unchanged_by(self, change: ChangeSet) -> bool:
        """Whether the text after the change is this one."""
        data, at, shift = self.data, 0, 0
        if change.new_length != len(data):
            return False
        for edit in change.edits:
            if shift and data[at : edit.start] != data[at + shift : edit.start + shift]:
                return False
            start = edit.start + shift
            if data[start : start + len(edit.new)] != edit.new:
                return False
            shift += len(edit.new) - (edit.stop - edit.start)
            at = edit.stop
        return True

    @computed_once
    def keys(self) -> tuple[bytes, ...]:
        if self.encoding.unit > 1:
            return tuple(self.key(line) for line in range(self.line_count))
        keys = self.data[len(self.encoding.bom) :].split(b"\n")
        last = keys.pop()
        if b"\r" in self.data:
            keys = [key.removesuffix(b"\r") for key in keys]
        return (*keys, last) if last else tuple(keys)

    def keys_in_blocks(self) -> Iterator[Sequence[bytes]]:
        """Yield the keys of all lines, some at a time, so that not all are held at once."""
        if self.encoding.unit > 1:
            yield from ([self.key(line)] for line in range(self.line_count))
            return
        at = len(self.encoding.bom)
        while at < self.size:
            end = self.line_end(min(at + sizes.BLOCK, self.size - 1))
            yield Snapshot(self.data[at:end], replace(self.encoding, bom=b"")).keys
            at = end

    @computed_once
    def _starts(self) -> LineIndex:
        return lines_of(self.data, len(self.encoding.bom), self.lf)


def newline_style(every: int, crlf: int) -> str:
    """Name the style of `every` terminators, of which `crlf` are CRLF."""
    if not every:
        return "none"
    if not crlf:
        return "lf"
    return "crlf" if crlf == every else "mixed"


def whole(text: Text) -> Snapshot:
    """Return the text as a Snapshot; raise ValueError if only some of its lines are loaded."""
    if not isinstance(text, Snapshot):
        raise ValueError("only some lines of the text are loaded")
    return text


SHORT = 1 << 12
"""A text of up to this many bytes is split into lines at once."""

_BLOCK = 1 << 12
"""Bytes of a block; in a text of at most `_SMALL` bytes a block has a quarter of this."""

_SMALL = 1 << 16
_AHEAD = 16
"""Line feeds are counted for at least this many blocks at once."""


def lines_of(data: bytes, first: int, lf: bytes) -> LineIndex:
    """Where the lines of `data` from byte `first` on start, and last where they end.

    `lf` is a line feed, one code unit.
    """
    if len(lf) == 1 and len(data) - first > SHORT:
        return _Counted(data, first)
    starts = _cut(data, first, len(data)) if len(lf) == 1 else [first, *_wide_ends(data, first, lf)]
    return starts if starts[-1] == len(data) else [*starts, len(data)]


def line_of(index: LineIndex, byte: int) -> int:
    """The line that contains the byte, the number of lines for the end; -1 before the first."""
    return index.at(byte) if isinstance(index, _Counted) else bisect_right(index, byte) - 1


class _Counted:
    """Like a list of starts, but counts line feeds block by block, only as far as needed."""

    def __init__(self, data: bytes, first: int) -> None:
        self._data, self._first = data, first
        self._block = _BLOCK if len(data) > _SMALL else max(_BLOCK >> 2, 1)
        self._used = (-1, list[int]())
        self._before = [0]
        """The line feeds before each block; replaced, not changed, since threads share it."""

    def __len__(self) -> int:
        return self.count + 1

    @computed_once
    def count(self) -> int:
        """The number of lines; counts all blocks, since callers mostly look up a line next."""
        before, known = self._before, 0
        while len(before) > known:
            before, known = self._longer(before), len(before)
        return before[-1] + (not self._data.endswith(b"\n"))

    def __getitem__(self, line: int) -> int:
        if line == 0:
            return self._first
        before = self._before
        while before[-1] < line:
            before, known = self._longer(before), len(before)
            if len(before) == known:
                break
        if before[-1] < line:  # the text ends without a line feed
            return len(self._data)
        block = bisect_left(before, line) - 1
        used, starts = self._used
        if used != block:
            low = self._first + block * self._block
            starts = _cut(self._data, low, low + self._block)
            self._used = (block, starts)
        return starts[line - before[block]]

    def at(self, byte: int) -> int:
        if byte >= len(self._data):
            return self.count
        if byte < self._first:
            return -1
        block = (byte - self._first) // self._block
        before = self._before
        while len(before) <= block:
            before = self._longer(before)
        low = self._first + block * self._block
        return before[block] + self._data.count(b"\n", low, byte)

    def _longer(self, before: list[int]) -> list[int]:
        """Return the line feeds before twice as many blocks, as far as there are any."""
        data, size = self._data, self._block
        low = self._first + (len(before) - 1) * size
        stop = min(low + max(len(before), _AHEAD) * size, len(data))
        counts = (data.count(b"\n", at, at + size) for at in range(low, stop, size))
        made = list(accumulate(counts, initial=before[-1]))
        self._before = longer = [*before, *made[1:]]
        return longer


LineIndex = list[int] | _Counted


def _cut(data: bytes, first: int, stop: int) -> list[int]:
    """Return `first`, and the byte after each line feed in [first, stop)."""
    sizes = map(len, data[first:stop].split(b"\n"))
    starts = list(map(add, accumulate(sizes, initial=0), count(first)))
    starts.pop()
    return starts


def _wide_ends(data: bytes, first: int, lf: bytes) -> list[int]:
    """Return the bytes just after each LF code unit that is aligned with `first`."""
    unit, ends, at = len(lf), list[int](), first
    while (at := data.find(lf, at)) >= 0:
        at += unit
        if at % unit == 0:
            ends.append(at)
    return ends
