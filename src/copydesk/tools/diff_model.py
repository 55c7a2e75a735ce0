"""A change as two columns of lines, from a change set or from a recorded diff.

Invariants: old lines are those of the text before, new lines those of the text after, in order; a
line of which a part was left out is none that an answer has shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from copydesk.desk.backends.shown import Run, ShownLines, join
from copydesk.errors import LineShown, Refusal
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import UTF8, Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Text
from copydesk.text.unified import (
    CONTEXT,
    HUNK_HEAD,
    DiffText,
    Region,
    hunks_of,
    quoted,
    read_diff,
    regions,
    runs_of,
)
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


_LEFT_OUT = "…["
"""What stands in the place of characters that were left out of a line."""

_CUT = re.compile(r"\(\+\d+ characters\)")
"""What stands where a line of a refusal was cut."""

_LONGEST = 2_000
"""A line of more characters may have been cut."""

MOST_LINES = 20_000
"""So many lines of a diff are looked at."""


@dataclass(frozen=True, slots=True)
class FileLines:
    """The lines of one file that its diff shows: of the text before, and of the one after."""

    old: tuple[Run, ...]
    new: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a report shows of one version of a file.

    `side`: that of the diff of its file, the first of which is 0. `evidence` tells which lines
    stand among the fields. `total`: how many lines the version has; 0 where nobody has counted.
    `real` is the real path, where it is known.
    """

    path: RelPath
    version: str
    total: int = 0
    side: Literal["old", "new"] | None = None
    file: int = 0
    evidence: Callable[[], Iterable[Run]] = tuple
    real: RelPath | None = None

    def lines(self, files: Sequence[FileLines], *, fields: bool) -> ShownLines:
        """The lines, when the diff shows those of `files`; `fields`: these are shown."""
        runs = [*self.evidence()] if fields else []
        if self.side and self.file < len(files):
            runs += files[self.file].old if self.side == "old" else files[self.file].new
        return ShownLines(self.version, self.total, join(runs), read=False)


def view_of(refusal: Refusal, path: RelPath, version: str | None = None) -> tuple[View, ...]:
    """What a refusal shows of a file, which is `version` where the refusal does not say it."""
    found = getattr(refusal, "current_version", None) or getattr(refusal, "version", version)
    if not found:
        return ()
    runs: list[Run] = []
    for name in ("current", "candidates", "closest"):
        told: Iterable[LineShown] = getattr(refusal, name, None) or ()
        for one in told:
            for line, text in ((one.line, one.text), (one.end_line, one.end_text)):
                if line and text is not None and not _CUT.search(text):
                    runs.append((line - 1, line))
    return (View(path, found, evidence=lambda: runs),) if runs else ()


def views_of(
    versions: Mapping[RelPath, str], diffs: Iterable[tuple[bytes, object]]
) -> tuple[View, ...]:
    """What the diffs of some files, one for each, show of the versions after them."""
    heads = {path: b"diff --git " + quoted(f"a/{path}") + b" " for path in versions}
    return tuple(
        View(path, versions[path], side="new", file=at)
        for at, (diff, _) in enumerate(diffs)
        for path, head in heads.items()
        if diff.startswith(head)
    )


def lines_in(diff: Sequence[str], wanted: range | None = None) -> list[FileLines]:
    """What the lines of a diff show of each of its files, in their order.

    `wanted`: of these lines of the diff, counted from 0, alone. Where lines were left out of a
    hunk, those after the last gap are counted from its end.
    """
    files: list[tuple[list[Run], list[Run]]] = []
    hunk: list[tuple[int, DiffText]] = []
    for at, line in enumerate(read_diff(diff[:MOST_LINES])):
        starts = not line.sign and line.text.startswith("diff --git ")
        if starts or line.sign == "@":
            _add(hunk, files, wanted)
            hunk = []
        if starts:
            files.append(([], []))
        elif line.sign == "@" or hunk:
            hunk.append((at, line))
    _add(hunk, files, wanted)
    return [FileLines(join(old), join(new)) for old, new in files]


def _add(
    hunk: Sequence[tuple[int, DiffText]],
    files: Sequence[tuple[list[Run], list[Run]]],
    wanted: range | None,
) -> None:
    """Add the lines of a hunk, whose first one is its head, to those of the last file."""
    if not hunk or not files:
        return
    (_, head), *lines = hunk
    gaps = [i for i, (_, line) in enumerate(lines) if not line.sign and line.text]
    for at, line in lines[: gaps[0]] if gaps else lines:
        _show(files[-1], at, line, line.old, line.new, wanted)
    found = HUNK_HEAD.match(head.text)
    assert found is not None, "it was read as a head"
    old, new = head.old + int(found[2] or 1), head.new + int(found[4] or 1)
    for at, line in reversed(lines[gaps[-1] + 1 :] if gaps else ()):
        old -= line.sign in (" ", "-")
        new -= line.sign in (" ", "+")
        _show(files[-1], at, line, old, new, wanted)


def _show(
    file: tuple[list[Run], list[Run]],
    at: int,
    line: DiffText,
    old: int,
    new: int,
    wanted: range | None,
) -> None:
    text = line.text
    cut = _LEFT_OUT in text or _CUT.search(text) or len(text) > _LONGEST
    if cut or (wanted is not None and at not in wanted):
        return
    if line.sign in (" ", "-"):
        file[0].append((old, old + 1))
    if line.sign in (" ", "+"):
        file[1].append((new, new + 1))
