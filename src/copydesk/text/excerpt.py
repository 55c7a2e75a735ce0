"""A large text of which some lines are at hand.

What lives here: `Excerpt` and its stretches. What must not: where the lines come
from. Invariant: the stretches are whole lines of the text at their true places,
in order, and no two of them touch; what is known of the whole is in `Facts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import Encoding
from copydesk.text.snapshot import Snapshot, Text


@dataclass(frozen=True, slots=True)
class Facts:
    """What one pass over a whole text tells; `digest` is None when nobody has made it yet.

    `newline_counts` are all terminators, and those that are CRLF.
    """

    size: int
    line_count: int
    ends_with_newline: bool
    newline_counts: tuple[int, int]
    digest: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive whole lines: the first one's number and byte in the text, and the lines."""

    first_line: int
    begin: int
    lines: Snapshot

    @property
    def last_line(self) -> int:
        """The line after the last one."""
        return self.first_line + self.lines.line_count

    @property
    def end(self) -> int:
        """The byte after the last one."""
        return self.begin + self.lines.size


@dataclass(frozen=True)
class Excerpt(Text):
    """Some lines of a text, and what is known of the whole. Make one with `of`."""

    encoding: Encoding
    facts: Facts
    stretches: tuple[Stretch, ...]

    @staticmethod
    def of(encoding: Encoding, facts: Facts, pieces: Iterable[tuple[int, int, bytes]]) -> Excerpt:
        """The excerpt of `pieces`, in any order: a line, its byte, and whole lines from there on.

        Pieces may overlap and touch. Those that hold the start of the text are
        without the byte order mark.
        """
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
        """The SHA-256 in hex; raises ValueError while nobody has made it."""
        if self.facts.digest is None:
            raise ValueError("the digest is not known yet")
        return self.facts.digest

    def known_as(self, digest: str) -> Excerpt:
        """The same text, its SHA-256 being known."""
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
        """The text after the change; its digest is known only when nothing changes."""
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
            raise ValueError(f"byte {left[0].start} is not at hand")
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
        """The stretch in which the line starts, or that ends before it."""
        for stretch in reversed(self.stretches):
            if stretch.first_line <= line <= stretch.last_line:
                return stretch
        raise ValueError(f"line {line} is not at hand")

    def _of_bytes(self, start: int, stop: int) -> Stretch:
        for stretch in self.stretches:
            if stretch.begin <= start and stop <= stretch.end:
                return stretch
        raise ValueError(f"bytes {start}..{stop} are not at hand")
