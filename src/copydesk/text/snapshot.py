"""One immutable text: its bytes, how to read them, where its lines are.

What lives here: `Snapshot`. What must not: paths, time, what an edit is.
Invariants: a line ends with LF or CRLF and nothing else; the byte order mark
belongs to no line; the spans of all lines, in order, cover all bytes after it.
Line numbers in this package are 0-based and ranges half-open unless a name
says otherwise (`..._line` in reports is 1-based).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from copydesk.text.encoding import Encoding, detect

VERSION_LENGTH = 12
"""Hex characters of the SHA-256 that make a version."""


@dataclass(frozen=True)
class Snapshot:
    """The bytes of a file at one moment, with their encoding. Make one with `of`."""

    data: bytes
    encoding: Encoding

    @staticmethod
    def of(data: bytes, named: str | None = None) -> Snapshot:
        """The snapshot of `data`; `named` is the encoding that configuration names, if any.

        Raises BinaryFile for NUL bytes outside of UTF-16 and UTF-32.
        """
        return Snapshot(data, detect(data, named))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def version(self) -> str:
        """The short name of this content that callers hand back: 12 hex characters."""
        return self.digest[:VERSION_LENGTH]

    @property
    def line_count(self) -> int:
        """How many lines there are; 0 for a text without bytes after the byte order mark."""
        return len(self._starts) - 1

    @cached_property
    def ends_with_newline(self) -> bool:
        """Whether the last line has a terminator; an empty text has no last line: False."""
        return self.line_count > 0 and self.terminator(self.line_count - 1) != b""

    @property
    def ragged(self) -> bool:
        """Whether bytes at the end do not make a whole code unit (a broken UTF-16 file)."""
        return (len(self.data) - len(self.encoding.bom)) % self.encoding.unit != 0

    def start(self, line: int) -> int:
        """The byte where line `line` starts; `line_count` gives the end of the text."""
        return self._starts[line]

    def line_at(self, byte: int) -> int:
        """The line that holds the byte; `line_count` for the end after a terminator.

        The end of a text whose last line has no terminator belongs to that line.
        """
        line = bisect_right(self._starts, byte) - 1
        if line == self.line_count and line > 0 and not self.ends_with_newline:
            return line - 1
        return line

    def raw(self, start: int, stop: int) -> bytes:
        """The bytes of lines [start, stop), terminators included."""
        return self.data[self._starts[start] : self._starts[stop]]

    def terminator(self, line: int) -> bytes:
        """The bytes that end the line: LF or CRLF in the file's encoding, or nothing."""
        start, stop = self._starts[line], self._starts[line + 1]
        if (stop - start) % self.encoding.unit:
            return b""  # a broken last unit ends no line
        lf, crlf = self._lf, self._crlf
        if stop - start >= len(crlf) and self.data.endswith(crlf, start, stop):
            return crlf
        return lf if self.data.endswith(lf, start, stop) else b""

    def key(self, line: int) -> bytes:
        """The bytes of the line without its terminator: what two lines are compared by."""
        return self.data[self._starts[line] : self._starts[line + 1] - len(self.terminator(line))]

    def text(self, line: int) -> str:
        """The line as it is shown: without terminator, `\\xNN` for what does not decode."""
        return self.encoding.decode(self.key(line))

    def texts(self, start: int, stop: int) -> tuple[str, ...]:
        """The shown texts of lines [start, stop)."""
        return tuple(self.text(line) for line in range(start, stop))

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """The keys of all lines."""
        if self.encoding.unit > 1:
            return tuple(self.key(line) for line in range(self.line_count))
        parts = self.data[len(self.encoding.bom) :].split(b"\n")
        last = parts.pop()
        keys = [part.removesuffix(b"\r") for part in parts]
        return (*keys, last) if last else tuple(keys)

    def newline_near(self, start: int, stop: int) -> bytes:
        """The terminator that lines put in the place of lines [start, stop) take.

        That of the line before, else of the line after, else the file's
        dominant one, else LF.
        """
        before = self.terminator(start - 1) if start > 0 else b""
        after = self.terminator(stop) if stop < self.line_count else b""
        return before or after or self.dominant_newline

    @cached_property
    def dominant_newline(self) -> bytes:
        """The terminator most lines have; LF when there is none or a tie."""
        if self.encoding.unit > 1:
            crlf = sum(self.terminator(i) == self._crlf for i in range(self.line_count))
            every = sum(self.terminator(i) != b"" for i in range(self.line_count))
        else:
            crlf, every = self.data.count(b"\r\n"), self.data.count(b"\n")
        return self._crlf if 2 * crlf > every else self._lf

    def newline_name(self, terminator: bytes) -> str:
        """`lf` or `crlf`."""
        return "crlf" if terminator == self._crlf else "lf"

    @cached_property
    def newline_style(self) -> str:
        """`lf`, `crlf`, `mixed`, or `none` for a text without any terminator."""
        if self.encoding.unit > 1:
            found = {self.terminator(i) for i in range(self.line_count)} - {b""}
            crlf, every = int(self._crlf in found), len(found)
        else:
            crlf, every = self.data.count(b"\r\n"), self.data.count(b"\n")
        if not every:
            return "none"
        if not crlf:
            return "lf"
        return "crlf" if crlf == every else "mixed"

    @cached_property
    def _lf(self) -> bytes:
        return self.encoding.encode("\n")

    @cached_property
    def _crlf(self) -> bytes:
        return self.encoding.encode("\r\n")

    @cached_property
    def _starts(self) -> list[int]:
        """Where each line starts, and last the end of the text."""
        first = len(self.encoding.bom)
        body = self.data[first:] if first else self.data
        if self.encoding.unit == 1:
            parts = body.split(b"\n")
            starts = list(accumulate((len(part) + 1 for part in parts), initial=first))
            starts[-1] -= 1
        else:
            starts = [first, *_wide_line_ends(self.data, first, self._lf), len(self.data)]
        if len(starts) > 1 and starts[-1] == starts[-2]:
            starts.pop()
        return starts


def _wide_line_ends(data: bytes, first: int, lf: bytes) -> list[int]:
    """The bytes just after each LF code unit that stands at a whole number of units."""
    unit, ends, at = len(lf), list[int](), first
    while (at := data.find(lf, at)) >= 0:
        if (at - first) % unit == 0:
            at += unit
            ends.append(at)
        else:
            at += 1
    return ends
