"""A change as two columns of lines, and the words in which two lines differ.

Invariants: old lines are those of the text before, new lines those of the text after, in order; the
parts left out of a long line contain no change that would fit; a line with parts left out does not
count as shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile, zip_longest
from typing import Final, Literal, TypeVar, cast

from copydesk.desk.backends.snapshots import Run, ShownLines, join
from copydesk.errors import LineShown, Refusal
from copydesk.text.change import ChangeSet
from copydesk.text.diff import (
    CONTEXT,
    HUNK_HEAD,
    DiffText,
    align,
    diff_text,
    hunks_of,
    quoted,
    read_diff,
    regions,
    runs_of,
    same_after,
    same_before,
)
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Text, computed_once

_MOST_CELLS: Final = 4_000
"""With more possible pairs, lines are paired in order instead of by similarity."""

_ALIKE: Final = 0.35  # less similar lines are not paired
_MOST_PIECES: Final = (
    16 << 20
)  # characters: two longer lines have one mark each, around all that differs
_MOST_WORDS: Final = 20_000  # characters in two lines whose words are compared
_LONGEST_WORD: Final = 60  # a longer word is marked in part
LONG: Final = 1_000  # a line with more characters is shown in parts
_AROUND: Final = 120  # characters shown around a difference in a long line
_MOST_MARKED: Final = 600
"""Characters shown at each end of a long difference."""

_MOST_MARKS: Final = 20

_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""The letters of Chinese and Japanese, which has no blanks between its words."""

_WORDS: Final = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+|\s+|.", re.DOTALL)
_PIECES: Final = re.compile(r".{0,160}?[ty37)\]}][^\w.-]|.{0,160}?[QZ37+/]|.{1,160}", re.DOTALL)
"""Parts of a long line, split by content and not by distance from the start."""

Pair = tuple[int | None, int | None]
Span = tuple[int, int]
"""Characters [start, stop) of a line, 0-based."""

Marks = tuple[Sequence[Span], Sequence[Span]]
"""The removed spans of an old line, and the added spans of the new one."""


def pair_lines(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Indices (0-based) of old and new lines to show side by side; None for a missing partner."""
    height, width = len(old), len(new)
    in_order = list(zip_longest(range(height), range(width)))
    if height == width or not old or not new or height * width > _MOST_CELLS:
        return in_order
    ours, theirs = (
        [Counter(w for w in _WORDS.findall(line[:2_000]) if not w.isspace()) for line in lines]
        for lines in (old, new)
    )
    best = [[0.0] * (width + 1) for _ in range(height + 1)]
    like = [[0.0] * width for _ in range(height)]
    for i in range(height - 1, -1, -1):
        for j in range(width - 1, -1, -1):
            every = ours[i].total() + theirs[j].total()
            like[i][j] = 2 * (ours[i] & theirs[j]).total() / every if every else 1.0
            with_both = best[i + 1][j + 1] + like[i][j] if like[i][j] >= _ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], with_both)
    if best[0][0] == 0.0:
        return in_order
    pairs: list[Pair] = []
    i = j = 0
    while i < height and j < width:
        is_pair = like[i][j] >= _ALIKE and best[i][j] == best[i + 1][j + 1] + like[i][j]
        is_old_alone = not is_pair and best[i][j] == best[i + 1][j]
        takes_old, takes_new = is_pair or is_old_alone, not is_old_alone
        pairs.append((i if takes_old else None, j if takes_new else None))
        i, j = i + takes_old, j + takes_new
    return [*pairs, *zip_longest(range(i, height), range(j, width))]  # of one side alone


def intraline(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """The removed spans of the old line, and the added spans of the new one.

    Nothing is marked in lines with too little in common for marks to help. The time depends only on
    the length of the lines: long lines are compared by pieces, then the words of the pieces that
    differ, up to a number of characters; pieces beyond that are marked whole.
    """
    head = same_after(old, new, 0, 0)
    tail = min(same_before(old, new, len(old), len(new)), min(len(old), len(new)) - head)
    head -= _into_word(
        old[max(head - _LONGEST_WORD - 1, 0) : head], old[head : head + 1], new[head : head + 1]
    )
    ends = len(old) - tail, len(new) - tail
    behind = old[ends[0] : ends[0] + _LONGEST_WORD + 1][::-1]
    tail -= _into_word(behind, old[head : ends[0]][-1:], new[head : ends[1]][-1:])
    whole = (head, len(old) - tail), (head, len(new) - tail)
    pieces = [whole]
    if _MOST_WORDS < sum(stop - start for start, stop in whole) <= _MOST_PIECES:
        pieces = list(_differing(_PIECES, old, new, whole))
    room = _MOST_WORDS
    changes: list[tuple[Span, Span]] = []
    for piece in pieces:
        size = sum(stop - start for start, stop in piece)
        changes += _differing(_WORDS, old, new, piece) if size <= room else (piece,)
        room -= size if size <= room else 0
    gone, come = [ours for ours, _ in changes], [theirs for _, theirs in changes]
    common = "".join(old[start:stop] for start, stop, span in parts(0, len(old), gone) if not span)
    has_common_word = any(map(str.isalnum, common)) or not any(map(str.isalnum, old))
    if not has_common_word or 3 * len(common) < min(len(old.strip()), len(new.strip())):
        return [], []
    return _bridged(old, gone), _bridged(new, come)


def _differing(
    tokens: re.Pattern[str], old: str, new: str, within: tuple[Span, Span]
) -> Iterator[tuple[Span, Span]]:
    """The parts of two lines that differ if both are split into such tokens and aligned."""
    a, b = (
        tokens.findall(line, start, stop)
        for line, (start, stop) in zip((old, new), within, strict=True)
    )
    at_a, at_b = (
        list(accumulate(map(len, words), initial=start))
        for words, (start, _) in zip((a, b), within, strict=True)
    )
    for gap in align(a, b).gaps():
        yield (at_a[gap.base_start], at_a[gap.base_stop]), (at_b[gap.now_start], at_b[gap.now_stop])


def windows(text: str, marked: Sequence[Span]) -> Sequence[Span]:
    """The parts of the line to show, in order, with gaps between neighbours."""
    if len(text) <= LONG:
        return ((0, len(text)),)
    wanted = [(0, _AROUND if marked else LONG - _AROUND), (len(text) - _AROUND, len(text))]
    for start, stop in marked[:_MOST_MARKS]:
        first, last = start - _AROUND, stop + _AROUND
        # both ends of what is marked; if that is short, they meet
        wanted += [
            (first, min(start + _MOST_MARKED, last)),
            (max(stop - _MOST_MARKED, first), last),
        ]
    return join((max(start, 0), min(stop, len(text))) for start, stop in wanted)


def is_cut(text: str, marked: Sequence[Span]) -> bool:
    """Whether `windows` leaves out a marked part, or any part if none is marked."""
    shown = windows(text, marked)
    return any(
        not any(low <= start and stop <= high for low, high in shown)
        for start, stop in marked or ((0, len(text)),)
    )


def shorten(diff: str, left_out: Callable[[int], str], *, marks_whole: bool = True) -> str:
    """A unified diff without the unchanged parts of long lines.

    `left_out` returns the text for a number of characters. `marks_whole`: keep a line whole if its
    change is too long to show in parts; otherwise show both ends of the change.
    """
    rows = diff.split("\n")
    if max(map(len, rows)) <= LONG:
        return diff
    shown: list[str] = []
    old: list[str] = []
    new: list[str] = []

    def flush() -> None:
        spans: dict[tuple[str, int], list[Span]] = {}
        for i, j in pair_lines(old, new) if any(len(text) > LONG for text in old + new) else ():
            if i is not None and j is not None:
                gone, come = intraline(old[i].partition("\n")[0], new[j].partition("\n")[0])
                none = [(0, 0)] if gone or come else []  # of a side that does not change
                spans["-", i], spans["+", j] = gone or none, come or none
        for sign, lines in (("-", old), ("+", new)):
            for number, line in enumerate(lines):
                marked = spans.get((sign, number), [])
                cut = marks_whole and is_cut(line, marked)
                shown.append(sign + (line if cut else _parts(line, marked, left_out)))
            lines.clear()

    for sign, line, _, _ in read_diff(rows):
        match sign:
            case "-" | "+":
                (old if sign == "-" else new).append(line[1:])
            case "\\" if old or new:
                (new or old)[-1] += f"\n{line}"
            case _:
                flush()
                shown.append(_parts(line, [], left_out))
    flush()
    return "\n".join(shown)


def _parts(line: str, marked: Sequence[Span], left_out: Callable[[int], str]) -> str:
    """The windows of a line, with the length of each gap."""
    return "".join(
        line[start:stop] if window else left_out(stop - start)
        for start, stop, window in parts(0, len(line), windows(line, marked))
    )


_AnySpan = TypeVar("_AnySpan", bound=tuple[int, int, *tuple[object, ...]])


def parts(
    start: int, stop: int, spans: Iterable[_AnySpan]
) -> Iterator[tuple[int, int, _AnySpan | None]]:
    """The characters [start, stop) of a line in parts, each with the span that it is of, if any."""
    at = start
    for span in spans:
        begin, end = max(span[0], start), min(span[1], stop)
        if begin >= end:
            continue
        if at < begin:
            yield at, begin, None
        yield begin, end, span
        at = end
    if at < stop:
        yield at, stop, None


def _into_word(common: str, *differs: str) -> int:
    """The number of characters at the end of `common` whose word continues in the difference."""
    letters = sum(1 for _ in takewhile(str.isalnum, reversed(common)))
    return letters if letters <= _LONGEST_WORD and any(map(str.isalnum, differs)) else 0


def _bridged(text: str, spans: Iterable[Span]) -> list[Span]:
    """The spans that are not empty, joined where only white space separates them."""
    joined: list[Span] = []
    for start, stop in spans:
        if start < stop:
            is_next = joined and not text[joined[-1][1] : start].strip()
            joined.append((joined.pop()[0] if is_next else start, stop))
    return joined


Ending = Literal["lf", "crlf", "none"]
ENDINGS: Final[dict[Ending, str]] = {"crlf": "␍␊", "lf": "␊", "none": "no newline"}
"""How a line ending is shown when it matters."""
_ENDING_OF: Final[dict[str, Ending]] = {"\r\n": "crlf", "\n": "lf", "": "none"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: its number (1-based), its text without terminator, and its ending."""

    number: int
    text: str
    ending: Ending


@dataclass(frozen=True)
class DiffRow:
    """An old and a new line side by side; one of them may be missing."""

    old: DiffLine | None
    new: DiffLine | None

    @computed_once
    def marks(self) -> Marks:
        """The characters that differ, in the old line and in the new one."""
        if self.old is None or self.new is None or self.old.text == self.new.text:
            return (), ()
        return intraline(self.old.text, self.new.text)

    @property
    def is_spacing(self) -> bool:
        """Whether both lines are there and differ in white space alone."""
        lines = [line.text for line in (self.old, self.new) if line is not None]
        return len(lines) == 2 and len({"".join(text.split()) for text in lines}) == 1

    @property
    def shows_endings(self) -> bool:
        """Whether to show line endings: if they are the only difference, or one is missing."""
        endings = {line.ending for line in (self.old, self.new) if line is not None}
        return len(endings) > 1 or (endings == {"none"} and None in (self.old, self.new))

    @property
    def is_cut(self) -> bool:
        """Whether showing a changed long line in parts leaves out some of its change."""
        texts = [line.text for line in (self.old, self.new) if line is not None]
        if all(len(text) <= LONG for text in texts):
            return False
        if len(texts) < 2:
            return True
        return texts[0] != texts[1] and any(
            is_cut(text, marked)
            for text, marked in zip(texts, self.marks, strict=True)
            if marked or not any(self.marks)  # else this side does not change
        )


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """Consecutive rows. `kept`: they are context; none of them changes."""

    rows: tuple[DiffRow, ...]
    is_context: bool


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Consecutive blocks, and the number of lines left out before them."""

    blocks: tuple[DiffBlock, ...]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class DiffModel:
    """A whole change. `skipped`: lines left out after the last hunk; None if unknown."""

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
        """Whether showing long lines in parts leaves out some of the change."""
        return any(
            row.is_cut
            for hunk in self.hunks
            for block in hunk.blocks
            if not block.is_context
            for row in block.rows
        )

    def without_space(self) -> DiffModel:
        """The model in which lines that differ in white space alone are context."""
        return replace(
            self,
            hunks=tuple(
                DiffHunk(
                    tuple(
                        DiffBlock(tuple(rows), block.is_context or is_spacing)
                        for block in hunk.blocks
                        for is_spacing, rows in groupby(block.rows, lambda row: row.is_spacing)
                    ),
                    hunk.skipped,
                )
                for hunk in self.hunks
            ),
        )

    def first(self, most: int, start: int = 0) -> DiffModel:
        """The first `most` rows from `start` on; blocks are split where necessary."""
        hunks: list[DiffHunk] = []
        at = 0
        for hunk in self.hunks:
            blocks: list[DiffBlock] = []
            for block in hunk.blocks:
                rows = block.rows[max(start - at, 0) : max(start + most - at, 0)]
                blocks += [DiffBlock(rows, block.is_context)] if rows else []
                at += len(block.rows)
            if blocks:
                hunks.append(DiffHunk(tuple(blocks), hunk.skipped))
        return DiffModel(tuple(hunks))

    def lines(self, side: Literal["old", "new"]) -> Iterator[DiffLine]:
        """The lines of one side, in order."""
        rows = (row for hunk in self.hunks for block in hunk.blocks for row in block.rows)
        return filter(None, (row.old if side == "old" else row.new for row in rows))


def of_change(base: Text, change: ChangeSet, context: int = CONTEXT) -> DiffModel:
    """The model of a change, with up to `context` loaded lines around each part."""
    old = base.unmarked()
    hunks: list[DiffHunk] = []
    shift = end = 0
    for group in hunks_of(regions(old, change), context):
        low, high = old.reach(group[0].start)[0], old.reach(group[-1].stop)[1]
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
        hunks.append(DiffHunk(tuple(block for block in blocks if block.rows), start - end))
        end = stop
    return DiffModel(tuple(hunks), old.line_count - end)


def of_place(now: Text, old: Sequence[bytes], old_line: int, span: Span, within: Span) -> DiffModel:
    """The model of one place that changed: the lines [start, stop) of a text were `old` before.

    Lines are 0-based; `old_line` is the first of `old` in the text before. `within` [start, stop)
    is the place with the lines of context, which have not changed.
    """
    text = now.unmarked()
    (start, stop), (low, high) = span, within
    shift = start - old_line
    gone = [_line(at, text.encoding.decode(raw)) for at, raw in enumerate(old, old_line)]
    blocks = (
        _kept(text, low, start, -shift, is_new=True),
        _changed([(gone, _lines(text, start, stop))]),
        _kept(text, stop, high, len(old) - (stop - start) - shift, is_new=True),
    )
    return DiffModel((DiffHunk(tuple(block for block in blocks if block.rows)),))


def of_diff(diff: bytes, encoding: Encoding) -> DiffModel:
    """The model of a recorded unified diff of one file."""
    hunks: list[DiffHunk] = []
    lines: list[DiffText] = []
    skipped = end = 0
    for line in (*read_diff(diff_text(diff, encoding).split("\n")), None):
        if line is not None and line.sign not in ("", "@"):
            lines.append(line)
            continue
        if lines:
            hunks.append(DiffHunk(tuple(_recorded(lines)), skipped))
            end = lines[-1].old + (lines[-1].sign in (" ", "-"))
            lines = []
        if line is not None and line.sign == "@":
            skipped = max(line.old - end, 0)
    return DiffModel(tuple(hunks))


def _recorded(lines: Sequence[DiffText]) -> Iterator[DiffBlock]:
    """The blocks of a hunk; a line before one that starts with a backslash has no newline."""
    numbered = [
        (line, _line(line.new if line.sign == "+" else line.old, line.text[1:] + ending))
        for line, after in zip(lines, (*lines[1:], None), strict=True)
        for ending in ("" if after is not None and after.sign == "\\" else "\n",)
        if line.sign != "\\"
    ]
    for is_kept, run in groupby(numbered, lambda pair: pair[0].sign == " "):
        pairs = list(run)
        if is_kept:
            yield DiffBlock(
                tuple(DiffRow(old, replace(old, number=line.new + 1)) for line, old in pairs), True
            )
        else:
            old, new = ([own for line, own in pairs if line.sign == sign] for sign in "-+")
            yield _changed([(old, new)])


def _kept(text: Text, start: int, stop: int, shift: int, *, is_new: bool = False) -> DiffBlock:
    """The context [start, stop) of the text before (or the new one); numbers differ by `shift`."""
    lines = _lines(text, start, stop)
    others = (replace(line, number=line.number + shift) for line in lines)
    pairs = zip(others, lines, strict=True) if is_new else zip(lines, others, strict=True)
    return DiffBlock(tuple(DiffRow(old, new) for old, new in pairs), True)


def _changed(pairs: Iterable[tuple[Sequence[DiffLine], Sequence[DiffLine]]]) -> DiffBlock:
    """The block for a run of changed lines, from pairs of old and new lines."""
    return DiffBlock(
        tuple(
            DiffRow(None if i is None else old[i], None if j is None else new[j])
            for old, new in pairs
            for i, j in pair_lines([line.text for line in old], [line.text for line in new])
        ),
        False,
    )


def _lines(old: Text, start: int, stop: int) -> tuple[DiffLine, ...]:
    return tuple(_line(at, old.encoding.decode(old.raw(at, at + 1))) for at in range(start, stop))


def _line(number: int, text: str) -> DiffLine:
    """A line from its text and ending; `number` is 0-based."""
    end = next(end for end in _ENDING_OF if text.endswith(end))
    return DiffLine(number + 1, text.removesuffix(end), _ENDING_OF[end])


_LEFT_OUT = "…["  # marks characters that were left out of a line
_CUT = re.compile(r"\(\+\d+ characters\)")  # marks where a line of a refusal was cut
_BOM = "\ufeff"
_LONGEST = 2_000  # a line with more characters may have been cut
MOST_LINES = 20_000  # lines of a diff to read


@dataclass(frozen=True, slots=True)
class FileLines:
    """The lines of one file that its diff shows: old ones and new ones."""

    old: tuple[Run, ...]
    new: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The lines of one version of a file that a report shows.

    `side`: that of the diff of file number `file` (0-based). `evidence` returns the lines shown
    among the fields. `total`: the number of lines of the version, 0 if unknown. `real` is the real
    path if known.
    """

    path: RelPath
    version: str
    total: int = 0
    side: Literal["old", "new"] | None = None
    file: int = 0
    evidence: Callable[[], Iterable[Run]] = tuple
    real: RelPath | None = None

    def lines(self, files: Sequence[FileLines], *, fields: bool) -> ShownLines:
        """The lines shown if the diff shows `files`; `fields`: the fields are shown too."""
        runs = [*self.evidence()] if fields else []
        if self.side and self.file < len(files):
            runs += files[self.file].old if self.side == "old" else files[self.file].new
        return ShownLines(self.version, self.total, join(runs), read=False)


def view_of(refusal: Refusal, path: RelPath, version: str | None = None) -> tuple[View, ...]:
    """The lines of a file that a refusal shows, in `version` unless the refusal names one."""
    version = getattr(refusal, "current_version", None) or getattr(refusal, "version", version)
    if not version:
        return ()
    runs: list[Run] = [
        (line - 1, line)
        for name in ("current", "candidates", "closest")
        for row in cast("tuple[LineShown, ...]", getattr(refusal, name, None) or ())
        for line, text in ((row.line, row.text), (row.end_line, row.end_text))
        if line and text is not None and not _CUT.search(text)
    ]
    return (View(path, version, evidence=lambda: runs),) if runs else ()


def views_of(
    versions: Mapping[RelPath, str], diffs: Iterable[tuple[bytes, object]]
) -> tuple[View, ...]:
    """The lines of new versions that the diffs of some files show."""
    heads = {path: b"diff --git " + quoted(f"a/{path}") + b" " for path in versions}
    return tuple(
        View(path, versions[path], side="new", file=at)
        for at, (diff, _) in enumerate(diffs)
        for path, head in heads.items()
        if diff.startswith(head)
    )


def lines_in(diff: Sequence[str], wanted: range | None = None) -> list[FileLines]:
    """The lines of each file that a diff shows, in order.

    `wanted`: only these lines of the diff (0-based). If lines of a hunk are left out, those after
    the last gap are counted from its end.
    """
    files: list[tuple[list[Run], list[Run]]] = []
    hunk: list[tuple[int, DiffText]] = []
    for at, line in enumerate((*read_diff(diff[:MOST_LINES]), DiffText("@", "", 0, 0))):
        starts = not line.sign and line.text.startswith("diff --git ")
        if starts or line.sign == "@":
            if hunk and files:
                _add(hunk, *files[-1], wanted)
            hunk = []
        if starts:
            files.append(([], []))
        elif line.sign == "@" or hunk:
            hunk += ((at, line),)
    return [FileLines(join(old), join(new)) for old, new in files]


def _add(
    hunk: Sequence[tuple[int, DiffText]], old: list[Run], new: list[Run], wanted: range | None
) -> None:
    """Add the lines of a hunk, which starts with its head, to those of its file."""
    (_, head), *lines = hunk
    texts = [line.text for _, line in lines]
    every = "\n".join(texts)
    may_be_cut = (
        _LEFT_OUT in every or _CUT.search(every) or max(map(len, texts), default=0) > _LONGEST
    )
    if _BOM in every:  # a mark alone is not a line of its file
        lines = [
            row
            for row, (_, after) in zip(lines, [*lines[1:], hunk[0]], strict=True)
            if row[1].text[1:] != _BOM or after.sign != "\\"
        ]
    gaps = [i for i, (_, line) in enumerate(lines) if not line.sign and line.text]
    placed = [*lines[: gaps[0] if gaps else None]]
    if gaps and (rest := lines[gaps[-1] + 1 :]):
        counts = HUNK_HEAD.match(head.text)
        assert counts is not None, "it was read as a head"
        by = head.old + int(counts[2] or 1) - sum(line.sign in (" ", "-") for _, line in rest)
        by_new = head.new + int(counts[4] or 1) - sum(line.sign in (" ", "+") for _, line in rest)
        by, by_new = by - rest[0][1].old, by_new - rest[0][1].new
        placed += [
            (at, line._replace(old=line.old + by, new=line.new + by_new)) for at, line in rest
        ]
    for at, line in placed:
        text = line.text
        lacks = may_be_cut and (_LEFT_OUT in text or _CUT.search(text) or len(text) > _LONGEST)
        if lacks or (wanted is not None and at not in wanted):
            continue
        for runs, own, number in ((old, "-", line.old), (new, "+", line.new)):
            if line.sign not in (" ", own):
                continue
            if runs and runs[-1][1] == number:  # joined at once, which costs no call
                runs[-1] = (runs[-1][0], number + 1)
            else:
                runs += ((number, number + 1),)
