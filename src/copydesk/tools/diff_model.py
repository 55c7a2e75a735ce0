"""A change as two columns of lines, from a change set or from a recorded diff.

Invariant: old lines are those of the text before, new lines those of the text after, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from copydesk.text.change import ChangeSet
from copydesk.text.encoding import UTF8, Encoding
from copydesk.text.snapshot import Text
from copydesk.text.unified import CONTEXT, DiffText, Region, hunks_of, read_diff, regions, runs_of
from copydesk.tools.intraline import LONG, Marks, intraline, is_cut, pair_lines

Ending = Literal["lf", "crlf", "none"]
ENDINGS: Final[dict[Ending, str]] = {"crlf": "␍␊", "lf": "␊", "none": "no newline"}
"""How an ending is shown where it matters."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: its number from 1, its text without terminator, and how it ends."""

    number: int
    text: str
    ending: Ending


@dataclass(frozen=True)
class DiffRow:
    """An old and a new line side by side; one of them may be missing."""

    old: DiffLine | None
    new: DiffLine | None

    @cached_property
    def marks(self) -> Marks:
        """The characters that differ, of the old line and of the new one."""
        if self.old is None or self.new is None or self.old.text == self.new.text:
            return (), ()
        return intraline(self.old.text, self.new.text)

    @property
    def shows_endings(self) -> bool:
        """Whether to show line endings: where only they differ, or where one is missing."""
        endings = {line.ending for line in (self.old, self.new) if line is not None}
        return len(endings) > 1 or (endings == {"none"} and None in (self.old, self.new))

    @property
    def is_cut(self) -> bool:
        """Whether a part of a long line that changes is left out where it is shown in parts."""
        sides = [line for line in (self.old, self.new) if line is not None]
        if all(len(line.text) <= LONG for line in sides):
            return False
        if self.old is None or self.new is None:
            return True
        both = list(zip(sides, self.marks, strict=True))
        return self.old.text != self.new.text and any(
            is_cut(line.text, marked)
            for line, marked in both
            if marked or not any(self.marks)  # else nothing of this side changes
        )


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

    @property
    def is_cut(self) -> bool:
        """Whether a changed part of a long line is left out where it is shown in parts."""
        return any(
            row.is_cut
            for hunk in self.hunks
            for block in hunk.blocks
            if not block.kept
            for row in block.rows
        )

    def first(self, most: int, start: int = 0) -> DiffModel:
        """The first `most` rows from one on; a block is parted where it must be."""
        hunks: list[DiffHunk] = []
        at = 0
        for hunk in self.hunks:
            blocks: list[DiffBlock] = []
            for block in hunk.blocks:
                rows = block.rows[max(start - at, 0) : max(start + most - at, 0)]
                blocks += [DiffBlock(rows, block.kept)] if rows else []
                at += len(block.rows)
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
    """A change's model, with up to `context` lines around each part, as far as at hand."""
    old = base.unmarked()
    made: list[DiffHunk] = []
    shift = end = 0
    for group in hunks_of(regions(old, change), context):
        low, high = _reach(old, group)
        start = max(group[0].start - context, low, end)
        stop = min(group[-1].stop + context, high)
        blocks: list[DiffBlock] = []
        at = start
        for run in runs_of(group):
            blocks.append(_kept(old, at, run[0].start, shift))
            pairs: list[tuple[Sequence[DiffLine], Sequence[DiffLine]]] = []
            for region in run:
                first = region.start + shift
                new = [
                    _line(n, old.encoding.decode(raw)) for n, raw in enumerate(region.new, first)
                ]
                pairs.append((_lines(old, region.start, region.stop), new))
                shift += len(region.new) - (region.stop - region.start)
            blocks.append(_changed(pairs))
            at = run[-1].stop
        blocks.append(_kept(old, at, stop, shift))
        made.append(DiffHunk(tuple(block for block in blocks if block.rows), start - end))
        end = stop
    return DiffModel(tuple(made), old.line_count - end)


def of_diff(diff: bytes, encoding: Encoding) -> DiffModel:
    """The model of a recorded unified diff of one file."""
    made: list[DiffHunk] = []
    lines: list[DiffText] = []
    skipped = end = 0
    for one in (*read_diff(diff_text(diff, encoding).split("\n")), None):
        if one is not None and one.sign not in ("", "@"):
            lines.append(one)
            continue
        if lines:
            made.append(DiffHunk(tuple(_recorded(lines)), skipped))
            end = lines[-1].old + (lines[-1].sign in (" ", "-"))
            lines = []
        if one is not None and one.sign == "@":
            skipped = max(one.old - end, 0)
    return DiffModel(tuple(made))


def diff_text(diff: bytes, encoding: Encoding) -> str:
    """All of a diff as text. Paths are UTF-8, lines in the file's encoding."""
    head, mark, body = diff.partition(b"\n@@ ")
    own = encoding if encoding.unit == 1 else UTF8  # wide ones are in UTF-8 there
    return head.decode("utf-8", "backslashreplace") + own.decode(mark + body)


def _recorded(lines: Sequence[DiffText]) -> Iterator[DiffBlock]:
    """The blocks of a hunk."""
    sides: dict[str, list[DiffLine]] = {" ": [], "-": [], "+": []}
    after: list[DiffLine] = []
    for at, (sign, text, old, new) in enumerate(lines):
        if sign == "\\":
            continue
        if sign == " " and (sides["-"] or sides["+"]):
            yield _changed([(sides["-"], sides["+"])])
            sides = {" ": [], "-": [], "+": []}
        elif sign != " " and sides[" "]:
            yield DiffBlock(tuple(map(DiffRow, sides[" "], after)), True)
            sides[" "], after = [], []
        ended = at + 1 == len(lines) or lines[at + 1].sign != "\\"
        line = _line(new if sign == "+" else old, text[1:] + "\n" * ended)
        sides[sign].append(line)
        if sign == " ":
            after.append(replace(line, number=new + 1))
    if sides[" "]:
        yield DiffBlock(tuple(map(DiffRow, sides[" "], after)), True)
    if sides["-"] or sides["+"]:
        yield _changed([(sides["-"], sides["+"])])


def _reach(old: Text, group: Sequence[Region]) -> tuple[int, int]:
    """The lines at hand around the regions."""
    low, _ = old.reach(group[0].start)
    _, high = old.reach(group[-1].stop)
    return low, high


def _kept(old: Text, start: int, stop: int, shift: int) -> DiffBlock:
    lines = _lines(old, start, stop)
    moved = (DiffLine(line.number + shift, line.text, line.ending) for line in lines)
    return DiffBlock(tuple(map(DiffRow, lines, moved)), True)


def _changed(pairs: Iterable[tuple[Sequence[DiffLine], Sequence[DiffLine]]]) -> DiffBlock:
    """The block of a run of changed lines, told by its parts."""
    return DiffBlock(
        tuple(
            DiffRow(None if i is None else old[i], None if j is None else new[j])
            for old, new in pairs
            for i, j in pair_lines([line.text for line in old], [line.text for line in new])
        ),
        False,
    )


def _lines(old: Text, start: int, stop: int) -> tuple[DiffLine, ...]:
    decode = old.encoding.decode
    return tuple(_line(at, decode(old.raw(at, at + 1))) for at in range(start, stop))


def _line(number: int, text: str) -> DiffLine:
    """A line from its text with its ending; `number` counts from 0."""
    if text.endswith("\r\n"):
        return DiffLine(number + 1, text[:-2], "crlf")
    if text.endswith("\n"):
        return DiffLine(number + 1, text[:-1], "lf")
    return DiffLine(number + 1, text, "none")
