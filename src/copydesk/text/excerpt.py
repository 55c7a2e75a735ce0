"""Some lines of a text, around the places that somebody asks for, and facts about all of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from copydesk.text.change import ChangeSet
from copydesk.text.encoding import BYTES, Encoding
from copydesk.text.snapshot import Snapshot, Text


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

    @staticmethod
    def unread(size: int, digest: str) -> Excerpt:
        """A text whose lines nobody needs: only its size and digest are known."""
        return Excerpt(BYTES, Facts(size, 0, False, (0, 0), digest), ())

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
        made: list[Stretch] = []
        before = self.newline_counts[0]
        every, crlf, shift, left = *self.newline_counts, 0, len(change.edits)
        for old in self.stretches:
            inner = change.within(old.begin, old.end)
            new, left = old.lines.edited(inner), left - len(inner.edits)
            made.append(Stretch(old.first_line + every - before, old.begin + shift, new))
            shift += new.size - old.lines.size
            every += new.newline_counts[0] - old.lines.newline_counts[0]
            crlf += new.newline_counts[1] - old.lines.newline_counts[1]
        if left:
            raise ValueError(f"{left} of the edits are where no lines are loaded")
        closed, has_lines = self.ends_with_newline, change.new_length > len(self.encoding.bom)
        if made and self.stretches[-1].end == self.size:
            last = made[-1].lines
            closed = last.ends_with_newline if last.size else has_lines
        same = self.facts.digest if self.unchanged_by(change) else None
        lines = every + (has_lines and not closed)
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
