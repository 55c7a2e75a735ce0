"""A change as two columns of lines: what stands there, and what would.

What lives here: the rows of a diff, read off a change set or off a diff that was
recorded. What must not: markup, colours. Invariant: each old line of a row is
one of the text before, each new line one of the text after, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from copydesk.app.web.pairing import paired
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.snapshot import Text
from copydesk.text.unified import Region, regions

CONTEXT: Final = 3
_HEAD: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

Ending = Literal["lf", "crlf", "none"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1, its text without terminator, and how it ends."""

    number: int
    text: str
    ending: Ending


@dataclass(frozen=True, slots=True)
class Row:
    """What stands side by side; one of both may be missing."""

    old: Line | None
    new: Line | None


@dataclass(frozen=True, slots=True)
class Block:
    """Rows without a gap. `kept`: none of its lines changes."""

    rows: tuple[Row, ...]
    kept: bool


@dataclass(frozen=True, slots=True)
class Hunk:
    """Blocks without a gap, and how many lines are left out before them."""

    blocks: tuple[Block, ...]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Sides:
    """A whole change. `skipped`: lines left out after the last hunk; None when not known."""

    hunks: tuple[Hunk, ...]
    skipped: int | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(len(block.rows) for hunk in self.hunks for block in hunk.blocks)

    def first(self, most: int) -> Sides:
        """The first so many rows."""
        hunks: list[Hunk] = []
        for hunk in self.hunks:
            blocks: list[Block] = []
            for block in hunk.blocks:
                if most > 0:
                    blocks.append(Block(block.rows[:most], block.kept))
                most -= len(block.rows)
            if blocks:
                hunks.append(Hunk(tuple(blocks), hunk.skipped))
        return Sides(tuple(hunks))

    def lines(self, side: Literal["old", "new"]) -> Iterator[Line]:
        """The lines of one side, in their order."""
        for hunk in self.hunks:
            for block in hunk.blocks:
                for row in block.rows:
                    line = row.old if side == "old" else row.new
                    if line is not None:
                        yield line


def of_change(base: Text, change: ChangeSet, context: int = CONTEXT) -> Sides:
    """The change of a text, with so many lines around each of its parts.

    Of a text of which only some lines are at hand, those are the most there are.
    """
    old = base.unmarked()
    made: list[Hunk] = []
    shift = end = 0
    for group in _groups(regions(old, change), context):
        low, high = _reach(old, group)
        start = max(group[0].start - context, low, end)
        stop = min(group[-1].stop + context, high)
        blocks: list[Block] = []
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
        made.append(Hunk(tuple(block for block in blocks if block.rows), start - end))
        end = stop
    return Sides(tuple(made), old.line_count - end)


def of_diff(diff: bytes, encoding: Encoding) -> Sides:
    """What a unified diff of one file shows; the diff is one that was made here."""
    made: list[Hunk] = []
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
        made.append(Hunk(tuple(_recorded(body, first, encoding)), max(first[0] - end, 0)))
        end = first[0] + counts[0]
    return Sides(tuple(made))


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
) -> Iterator[Block]:
    """The blocks of a hunk whose lines start at `first` on each side."""
    old, new = first
    kept: list[Row] = []
    gone: list[Line] = []
    come: list[Line] = []
    for sign, raw, ended in body:
        line = _line(0, raw + b"\n" * ended, encoding)
        if sign == b" ":
            if gone or come:
                yield _changed(gone, come)
                gone, come = [], []
            kept.append(Row(replace(line, number=old), replace(line, number=new)))
            old, new = old + 1, new + 1
            continue
        if kept:
            yield Block(tuple(kept), True)
            kept = []
        if sign == b"-":
            gone.append(replace(line, number=old))
            old += 1
        else:
            come.append(replace(line, number=new))
            new += 1
    if kept:
        yield Block(tuple(kept), True)
    if gone or come:
        yield _changed(gone, come)


def _groups(found: Iterable[Region], context: int) -> Iterator[list[Region]]:
    """Regions whose contexts meet or touch."""
    group: list[Region] = []
    for region in found:
        if group and region.start - group[-1].stop > 2 * context:
            yield group
            group = []
        group.append(region)
    if group:
        yield group


def _reach(old: Text, group: Sequence[Region]) -> tuple[int, int]:
    """The lines at hand around the regions."""
    low, _ = old.reach(group[0].start)
    _, high = old.reach(group[-1].stop)
    return low, high


def _kept(old: Text, start: int, stop: int, shift: int) -> Block:
    lines = _lines(old, start, stop)
    moved = (Line(line.number + shift, line.text, line.ending) for line in lines)
    return Block(tuple(map(Row, lines, moved)), True)


def _changed(old: Sequence[Line], new: Sequence[Line]) -> Block:
    pairs = paired([line.text for line in old], [line.text for line in new])
    rows = (Row(None if i is None else old[i], None if j is None else new[j]) for i, j in pairs)
    return Block(tuple(rows), False)


def _lines(old: Text, start: int, stop: int) -> tuple[Line, ...]:
    return tuple(_line(at, old.raw(at, at + 1), old.encoding) for at in range(start, stop))


def _line(number: int, raw: bytes, encoding: Encoding) -> Line:
    """A line from its bytes; `number` counts from 0."""
    text = encoding.decode(raw)
    if text.endswith("\r\n"):
        return Line(number + 1, text[:-2], "crlf")
    if text.endswith("\n"):
        return Line(number + 1, text[:-1], "lf")
    return Line(number + 1, text, "none")
