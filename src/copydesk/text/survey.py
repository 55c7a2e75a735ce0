"""What one pass over a large text tells: its encoding, its lines, and where they are.

What lives here: the pass, block by block, and its result. What must not: the
reading of the blocks, the digest (it is made beside). Invariant: the result is
what `Snapshot.of` would tell of the same bytes, and memory does not grow with
the length of lines.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from dataclasses import dataclass, replace

from copydesk.errors import BinaryFile
from copydesk.text.encoding import UNKNOWN, UTF8, Encoding, detect_head
from copydesk.text.excerpt import Facts

_STEP = 1 << 17
"""Bytes whose line feeds are counted at once."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A text's encoding, what is known of all of it, and where its lines are.

    `marks`: the byte at which each block starts, and the line feeds before it.
    `steps`: the same of smaller parts, where the code unit is one byte; these
    start anywhere in a line.
    """

    encoding: Encoding
    facts: Facts
    marks: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, int], ...]

    def block_of(self, line: int) -> tuple[int, int, int]:
        """Where line `line` (from 1) starts: in bytes [begin, end), after the nth line feed."""
        index = bisect_left(self.steps, line, key=lambda mark: mark[1]) - 1
        begin, before = self.steps[index]
        end = self.steps[index + 1][0] if index + 1 < len(self.steps) else self.facts.size
        return begin, end, line - before


class Surveyor:
    """The pass over a text of `size` bytes that starts with `head` (four bytes do).

    Blocks are given in order. A block is whole lines, or a piece of a line that
    is too long for one, at whole code units. `named` is the encoding that
    configuration names.
    """

    def __init__(self, head: bytes, size: int, named: str | None) -> None:
        self.encoding = detect_head(head, named)
        self._size = size
        self._sure = self.encoding != UTF8
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._at = self._newlines = self._crlf = 0
        self._end = b""
        self._marks: list[tuple[int, int]] = []
        self._steps: list[tuple[int, int]] = []

    @property
    def lines_before(self) -> int:
        """How many lines have ended before the next block."""
        return self._newlines

    def take(self, block: bytes) -> None:
        """Look at the next block; raises BinaryFile for a NUL byte that is no text."""
        unit = self.encoding.unit
        if unit == 1 and (nul := block.find(b"\0")) >= 0:
            raise BinaryFile(self._at + nul)
        if not self._sure:
            self._check(block)
        self._marks.append((self._at, self._newlines))
        lf, cr = self.encoding.encode("\n"), self.encoding.encode("\r")
        if self._end == cr and block.startswith(lf):
            self._crlf += 1
        if unit == 1:
            for at in range(0, len(block), _STEP):
                self._steps.append((self._at + at, self._newlines))
                self._newlines += block.count(lf, at, at + _STEP)
            self._crlf += block.count(b"\r\n") if cr in block else 0
        else:
            self._steps.append(self._marks[-1])
            text = self.encoding.decode(block)
            self._newlines += text.count("\n")
            self._crlf += text.count("\r\n")
        self._end = block[-unit:]
        self._at += len(block)

    def finish(self, digest: str) -> Survey:
        """What the blocks told; `digest` is their SHA-256. The text must have come whole."""
        if not self._sure:
            self._check(b"", final=True)
        encoding = self.encoding
        ragged = (self._size - len(encoding.bom)) % encoding.unit
        closed = self._newlines > 0 and not ragged and self._end == encoding.encode("\n")
        lines = self._newlines + (self._size > len(encoding.bom) and not closed)
        counts = (self._newlines, self._crlf)
        facts = Facts(self._size, lines, closed, counts, digest)
        return Survey(encoding, facts, tuple(self._marks), tuple(self._steps))

    def _check(self, block: bytes, *, final: bool = False) -> None:
        """Text is UTF-8 strictly, or its encoding is not known."""
        if block.isascii() and not final and not self._decoder.getstate()[0]:
            return
        try:
            self._decoder.decode(block, final)
        except UnicodeDecodeError:
            self.encoding = replace(UTF8, name=UNKNOWN)
            self._sure = True
