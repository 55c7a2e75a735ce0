"""A change as two columns of lines, from a change set or from a recorded diff.

Invariant: old lines are those of the text before, new lines those of the text after, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.snapshot import Text
from copydesk.text.unified import CONTEXT, Region, hunks_of, regions
from copydesk.tools.intraline import pair_lines

_HEAD: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

Ending = Literal["lf", "crlf", "none"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: its number from 1, its text without terminator, and how it ends."""

    number: int
    text: str
    ending: Ending


@dataclass(frozen=True, slots=True)
class DiffRow:
    """An old and a new line side by side; one of them may be missing."""

    old: DiffLine | None
    new: DiffLine | None


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """Consecutive rows. `kept`: they are context, none of them changes."""

    rows: tuple[DiffRow, ...]
    kept: bool


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Consecutive blocks, and the number of lines left out before them."""

    blocks: tuple[DiffBlock, ...]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class DiffModel:
    """A whole change. `skipped`: lines left out after the last hunk; None when not known."""

    hunks: tuple[DiffHunk, ...]
    skipped: int | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(len(block.rows) for hunk in self.hunks for block in hunk.blocks)

    @property
    def has_gaps(self) -> bool:
        """Whether lines are known to be left out."""
        return bool(self.skipped) or any(hunk.skipped for hunk in self.hunks)

    def first(self, most: int) -> DiffModel:
        """The first `most` rows."""
        hunks: list[DiffHunk] = []
        for hunk in self.hunks:
            blocks: list[DiffBlock] = []
            for block in hunk.blocks:
                if most > 0:
                    blocks.append(DiffBlock(block.rows[:most], block.kept))
                most -= len(block.rows)
            if blocks:
                hunks.append(DiffHunk(tuple(blocks), hunk.skipped))
        return DiffModel(tuple(hunks))

    def lines(self, side: Literal["old", "new"]) -> Iterator[DiffLine]:
        """The lines of one side, in their order."""
        for hunk in self.hunks:
            for block in hunk.blocks:
                for row in block.rows:
                    line = row.old if side == "old" else row.new
                    if line is not None:
                        yield line


def of_change(base: Text, change: ChangeSet, context: int = CONTEXT) -> DiffModel:
    """The model of a change, with `context` lines around each part.

    Of a text of which only some lines are at hand, those are the most there are.
    """
    old = base.unmarked()
    made: list[DiffHunk] = []
    shift = end = 0
    for group in hunks_of(regions(old, change), context):
        low, high = _reach(old, group)
        start = max(group[0].start - context, low, end)
        stop = min(group[-1].stop + context, high)
        blocks: list[DiffBlock] = []
        at = start
        for region in group:
            blocks.append(_kept(old, at, region.start, shift))
            new = tuple(
                _line(region.start + shift + index, raw, old.encoding)
                for index, raw in enumerate(region.new)
            )
            blocks.append(_changed(_lines(old, region.start, region.stop), new))
            shift += len(region.new) - (region.stop - region.start)
            at = region.stop
        blocks.append(_kept(old, at, stop, shift))
        made.append(DiffHunk(tuple(block for block in blocks if block.rows), start - end))
        end = stop
    return DiffModel(tuple(made), old.line_count - end)


def of_diff(diff: bytes, encoding: Encoding) -> DiffModel:
    """The model of a recorded unified diff of one file."""
    made: list[DiffHunk] = []
    lines = diff.split(b"\n")
    at, end = 0, 1
    while at < len(lines):
        head = _HEAD.match(lines[at])
        at += 1
        if head is None:
            continue
        counts = int(head[2] or 1), int(head[4] or 1)
        first = int(head[1]) + (counts[0] == 0), int(head[3]) + (counts[1] == 0)
        body, at = _body(lines, at, counts)
        made.append(DiffHunk(tuple(_recorded(body, first, encoding)), max(first[0] - end, 0)))
        end = first[0] + counts[0]
    return DiffModel(tuple(made))


def _body(
    lines: Sequence[bytes], at: int, counts: tuple[int, int]
) -> tuple[list[tuple[bytes, bytes, bool]], int]:
    """Sign, bytes and whether it is ended, of each line of a hunk; and where the hunk ends.

    The lines of a diff end with LF; it is the counts that say where a hunk ends.
    """
    old, new = counts
    found: list[tuple[bytes, bytes, bool]] = []
    while at < len(lines):
        sign = lines[at][:1]
        if sign == b"\\" and found:
            found[-1] = (*found[-1][:2], False)
        elif old > 0 or new > 0:
            old -= sign in (b" ", b"-")
            new -= sign in (b" ", b"+")
            found.append((sign, lines[at][1:], True))
        else:
            break
        at += 1
    return found, at


def _recorded(
    body: Iterable[tuple[bytes, bytes, bool]], first: tuple[int, int], encoding: Encoding
) -> Iterator[DiffBlock]:
    """The blocks of a hunk whose lines start at `first` on each side."""
    old, new = first
    kept: list[DiffRow] = []
    gone: list[DiffLine] = []
    come: list[DiffLine] = []
    for sign, raw, ended in body:
        line = _line(0, raw + b"\n" * ended, encoding)
        if sign == b" ":
            if gone or come:
                yield _changed(gone, come)
                gone, come = [], []
            kept.append(DiffRow(replace(line, number=old), replace(line, number=new)))
            old, new = old + 1, new + 1
            continue
        if kept:
            yield DiffBlock(tuple(kept), True)
            kept = []
        if sign == b"-":
            gone.append(replace(line, number=old))
            old += 1
        else:
            come.append(replace(line, number=new))
            new += 1
    if kept:
        yield DiffBlock(tuple(kept), True)
    if gone or come:
        yield _changed(gone, come)


def _reach(old: Text, group: Sequence[Region]) -> tuple[int, int]:
    """The lines at hand around the regions."""
    low, _ = old.reach(group[0].start)
    _, high = old.reach(group[-1].stop)
    return low, high


def _kept(old: Text, start: int, stop: int, shift: int) -> DiffBlock:
    lines = _lines(old, start, stop)
    moved = (DiffLine(line.number + shift, line.text, line.ending) for line in lines)
    return DiffBlock(tuple(map(DiffRow, lines, moved)), True)


def _changed(old: Sequence[DiffLine], new: Sequence[DiffLine]) -> DiffBlock:
    pairs = pair_lines([line.text for line in old], [line.text for line in new])
    rows = (DiffRow(None if i is None else old[i], None if j is None else new[j]) for i, j in pairs)
    return DiffBlock(tuple(rows), False)


def _lines(old: Text, start: int, stop: int) -> tuple[DiffLine, ...]:
    return tuple(_line(at, old.raw(at, at + 1), old.encoding) for at in range(start, stop))


def _line(number: int, raw: bytes, encoding: Encoding) -> DiffLine:
    """A line from its bytes; `number` counts from 0."""
    text = encoding.decode(raw)
    if text.endswith("\r\n"):
        return DiffLine(number + 1, text[:-2], "crlf")
    if text.endswith("\n"):
        return DiffLine(number + 1, text[:-1], "lf")
    return DiffLine(number + 1, text, "none")
