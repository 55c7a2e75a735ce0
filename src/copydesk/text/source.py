"""The text that an edit is made on: all of it in memory, or windows of a large file.

Laws: for the same content every source gives the same answers, except what it refuses as too large;
a survey in blocks reports what `Snapshot.of` would for the same bytes.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from copydesk.errors import BinaryFile
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import BYTES, UTF8, Encoding, detect_head
from copydesk.text.nearest import Closest, nearest_lines
from copydesk.text.search import Hits, Sought, hits_of
from copydesk.text.snapshot import Snapshot, Text


class Source(Protocol):
    """A file's text at one moment. Raises BinaryFile, FileTooLarge, and the store's errors."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""
        ...

    @property
    def version(self) -> str:
        """The short name of this content that callers pass back."""
        ...

    @property
    def line_count(self) -> int:
        """The number of lines."""
        ...

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        """Return the lines that match each text."""
        ...

    def close_to(self, text: str) -> Closest:
        """Return the few lines most similar to the text."""
        ...

    def around(self, start: int, stop: int) -> Text:
        """The text with lines [start, stop), 0-based, some around them and the end loaded."""
        ...

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        """Return the text with the lines around each byte span, and its end, loaded."""
        ...

    def whole(self) -> Snapshot:
        """Return the text with all lines loaded."""
        ...


class _AtHand:
    """A source whose text is already loaded as far as anyone may ask."""

    def __init__(self, text: Text) -> None:
        self._text = text

    @property
    def size(self) -> int:
        return self._text.size

    @property
    def digest(self) -> str:
        return self._text.digest

    @property
    def version(self) -> str:
        return self._text.version

    @property
    def line_count(self) -> int:
        return self._text.line_count

    def around(self, start: int, stop: int) -> Text:
        return self._text

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        return self._text


class Whole(_AtHand):
    """A text that is loaded completely."""

    def __init__(self, base: Snapshot) -> None:
        self._text = self._base = base

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        bom, found = self._base.encoding.bom, hits_of(sought)
        data = self._base.data[len(bom) :] if bom else self._base.data
        for hits in found:
            hits.take(data, self._base.encoding, 0)
        return found

    def close_to(self, text: str) -> Closest:
        return nearest_lines(self._base, text)

    def whole(self) -> Snapshot:
        return self._base


@dataclass(frozen=True, slots=True)
class Facts:
    """Results of one pass over a text; `newline_counts`: all and CRLF; `digest` if computed."""

    size: int
    line_count: int
    ends_with_newline: bool
    newline_counts: tuple[int, int]
    digest: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive whole lines, with the number and the byte offset of the first one."""

    first_line: int
    begin: int
    lines: Snapshot

    @property
    def last_line(self) -> int:
        """The line after the last one."""
        return self.first_line + self.lines.line_count

    @property
    def end(self) -> int:
        """The byte after the last line."""
        return self.begin + self.lines.size


@dataclass(frozen=True)
class Excerpt(Text):
    """Some lines of a text, and facts about all of it. Make one with `of`."""

    encoding: Encoding
    facts: Facts
    stretches: tuple[Stretch, ...]

    @staticmethod
    def of(encoding: Encoding, facts: Facts, pieces: Iterable[tuple[int, int, bytes]]) -> Excerpt:
        """Join `pieces` (line, byte, whole lines; no byte order mark), given in any order."""
        inner = replace(encoding, bom=b"")
        joined: list[tuple[int, int, bytes]] = []
        for line, byte, data in sorted(pieces):
            if joined and byte <= joined[-1][1] + len(joined[-1][2]):
                first, begin, have = joined[-1]
                joined[-1] = (first, begin, have + data[begin + len(have) - byte :])
            else:
                joined.append((line, byte, data))
        made = (Stretch(line, byte, Snapshot(data, inner)) for line, byte, data in joined)
        return Excerpt(encoding, facts, tuple(made))

    @property
    def size(self) -> int:
        return self.facts.size

    @property
    def digest(self) -> str:
        """The SHA-256 in hex; raises ValueError if it was not computed yet."""
        if self.facts.digest is None:
            raise ValueError("the digest is not known yet")
        return self.facts.digest

    def known_as(self, digest: str) -> Excerpt:
        """Return the text with its SHA-256 filled in."""
        return replace(self, facts=replace(self.facts, digest=digest))

    @property
    def line_count(self) -> int:
        return self.facts.line_count

    @property
    def ends_with_newline(self) -> bool:
        return self.facts.ends_with_newline

    @property
    def newline_counts(self) -> tuple[int, int]:
        return self.facts.newline_counts

    def start(self, line: int) -> int:
        if line == self.line_count:
            return self.size
        found = self._of_line(line)
        return found.begin + found.lines.start(line - found.first_line)

    def line_at(self, byte: int) -> int:
        if byte == self.size:
            return self.line_count - (self.line_count > 0 and not self.ends_with_newline)
        found = self._of_bytes(byte, byte)
        return found.first_line + found.lines.line_at(byte - found.begin)

    def slice(self, start: int, stop: int) -> bytes:
        if start == stop:
            return b""
        found = self._of_bytes(start, stop)
        return found.lines.data[start - found.begin : stop - found.begin]

    def reach(self, line: int) -> tuple[int, int]:
        found = self._of_line(line)
        return found.first_line, found.last_line

    def edited(self, change: ChangeSet) -> Excerpt:
        """Return the text after the change; its digest is known only if nothing changes."""
        if change.length != self.size:
            raise ValueError(f"made for {change.length} bytes, not for {self.size}")
        left = list(change.edits)
        made: list[Stretch] = []
        lines, every, crlf, shift = self.line_count, *self.newline_counts, 0
        for old in self.stretches:
            inner = [e for e in left if old.begin <= e.start and e.stop <= old.end]
            left = [e for e in left if e not in inner]
            local = (Edit(e.start - old.begin, e.stop - old.begin, e.new) for e in inner)
            new = old.lines.edited(ChangeSet.of(old.lines.size, local))
            first = old.first_line + lines - self.line_count
            made.append(Stretch(first, old.begin + shift, new))
            shift += new.size - old.lines.size
            lines += new.line_count - old.lines.line_count
            every += new.newline_counts[0] - old.lines.newline_counts[0]
            crlf += new.newline_counts[1] - old.lines.newline_counts[1]
        if left:
            raise ValueError(f"byte {left[0].start} is not loaded")
        same = self.facts.digest if self.unchanged_by(change) else None
        closed = self.ends_with_newline
        if self.stretches and self.stretches[-1].end == self.size:
            last = made[-1].lines
            closed = last.ends_with_newline if last.line_count else lines > 0
        facts = Facts(change.new_length, lines, closed, (every, crlf), same)
        return Excerpt(self.encoding, facts, tuple(made))

    def unmarked(self) -> Excerpt:
        bom = self.encoding.bom
        if not bom:
            return self
        bare = replace(self.encoding, bom=b"")
        facts = replace(self.facts, line_count=max(self.line_count, 1))
        made = tuple(
            Stretch(0, 0, Snapshot(bom + s.lines.data, bare)) if s.begin == len(bom) else s
            for s in self.stretches
        )
        return Excerpt(bare, facts, made)

    def _of_line(self, line: int) -> Stretch:
        """Return the stretch that contains the start of the line, or that ends there."""
        for stretch in reversed(self.stretches):
            if stretch.first_line <= line <= stretch.last_line:
                return stretch
        raise ValueError(f"line {line} is not loaded")

    def _of_bytes(self, start: int, stop: int) -> Stretch:
        for stretch in self.stretches:
            if stretch.begin <= start and stop <= stretch.end:
                return stretch
        raise ValueError(f"bytes {start}..{stop} are not loaded")


_STEP = 1 << 17
"""Bytes whose line feeds are counted at once."""


class Unread(_AtHand):
    """A file whose lines nobody needs: only its size and digest are known."""

    def __init__(self, size: int, digest: str) -> None:
        super().__init__(Excerpt(BYTES, Facts(size, 0, False, (0, 0), digest), ()))

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        return hits_of(sought)

    def close_to(self, text: str) -> Closest:
        return nearest_lines(Snapshot(b"", BYTES), text)

    def whole(self) -> Snapshot:
        raise ValueError("the file was not read")


@dataclass(frozen=True, slots=True)
class Survey:
    """A text's encoding, the facts about all of it, and where its lines are.

    `marks`: the byte at which each block starts, and the number of line feeds before it. `steps`:
    the same for smaller parts if the code unit is one byte; these start anywhere in a line.
    """

    encoding: Encoding
    facts: Facts
    marks: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, int], ...]

    def block_of(self, line: int) -> tuple[int, int, int]:
        """Bytes [begin, end) and n: line `line` (0-based, not 0) starts after their nth LF."""
        index = bisect_left(self.steps, line, key=lambda mark: mark[1]) - 1
        begin, before = self.steps[index]
        end = self.steps[index + 1][0] if index + 1 < len(self.steps) else self.facts.size
        return begin, end, line - before


class Surveyor:
    """One pass over a text of `size` bytes that starts with `head` (four bytes are enough).

    Blocks are given in order. A block is whole lines, or a piece of a line too long for one, cut at
    whole code units. `named` is the encoding that the configuration names.
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
        """The number of lines that end before the next block."""
        return self._newlines

    def take(self, block: bytes) -> None:
        """Scan the next block; raises BinaryFile for a NUL byte where the unit is one byte."""
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
        """Return the survey once all blocks were taken; `digest` is their SHA-256."""
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
        """Set the encoding to unknown if the text is not strictly valid UTF-8."""
        if block.isascii() and not final and not self._decoder.getstate()[0]:
            return
        try:
            self._decoder.decode(block, final)
        except UnicodeDecodeError:
            self.encoding = BYTES
            self._sure = True
