"""SEARCH against the text of a block, and what differs when it is not the same.

What lives here: the comparison, and the facts that help to mend a mismatch. What
must not: any choice of another block. Invariants: blank lines at the ends and
CRLF do not count, indentation does; the facts are bounded in time and in size,
whatever both texts hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from copydesk.edit.notes.hunk import content, lines_of
from copydesk.text.align import Gap, align, same_after

_TOKENS = re.compile(r"[0-9A-Za-z_]+|[^\s]")
_WEIGHED = 100_000
"""Characters that differ, of either side, that are compared word by word; beyond, by line alone."""

_DIFF_LINES = 24
_DIFF_CHARACTERS = 2_000
_WIDTH = 160


Reason = Literal["text", "part", "more", "blanks"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a SEARCH is not a block's text.

    `reason`: `part` (the block holds it, and more), `more` (it holds the block, and
    more), `blanks` (they differ in white space alone) or `text`. `similarity` in
    percent, of characters that are not white space; never 100. `difference`: lines
    of SEARCH (`-`), of the block (`+`), of both (blanks), long ones cut to what is
    around the difference.
    """

    reason: Reason
    similarity: int
    difference: tuple[str, ...]


def same(search: str, markdown: str, *, strict: bool = True) -> bool:
    """Whether SEARCH holds the block's text; not `strict`: with runs of white space as one blank.

    Letters are compared as they are: no case is folded, no accent composed.
    """
    if content(lines_of(search)) == content(lines_of(markdown)):
        return True
    return not strict and search.split() == markdown.split()


def compare(search: str, markdown: str) -> Mismatch:
    """What differs between a SEARCH and a text that is not the same."""
    sought, have = content(lines_of(search)), content(lines_of(markdown))
    mine, theirs = sought.split("\n"), have.split("\n")
    gaps = list(align(mine, theirs).gaps())
    reason: Reason = "text"
    if sought.split() == have.split():
        reason = "blanks"
    elif sought and have and (sought in have or have in sought):
        reason = "part" if sought in have else "more"
    return Mismatch(reason, _similarity(mine, theirs, gaps), tuple(_diff(mine, theirs, gaps)))


def _similarity(mine: list[str], theirs: list[str], gaps: list[Gap]) -> int:
    """Percent of the characters of both that are the same and in the same order."""
    total = sum(map(_weight, mine)) + sum(map(_weight, theirs))
    same_weight, room = total, _WEIGHED
    for gap in gaps:
        ours, others = mine[gap.base_start : gap.base_stop], theirs[gap.now_start : gap.now_stop]
        same_weight -= sum(map(_weight, ours)) + sum(map(_weight, others))
        ours, others = _words(ours, room), _words(others, room)
        room = max(room - sum(map(len, ours)), 0)
        runs = align(ours, others).runs
        kept = (len(ours[run.base_start + i]) for run in runs for i in range(run.length))
        same_weight += 2 * sum(kept)
    return min(100 * same_weight // total if total else 0, 99)


def _weight(line: str) -> int:
    return sum(map(len, line.split()))


def _words(lines: list[str], room: int) -> list[str]:
    """Words of ASCII and single other characters, without white space; at most `room` of them."""
    words: list[str] = []
    for line in lines:
        if room <= 0:
            break
        words += _TOKENS.findall(line[:room])
        room -= len(line) + 1
    return words


def _diff(mine: list[str], theirs: list[str], gaps: list[Gap]) -> Iterator[str]:
    """The lines that differ, each gap with a line of both before and after it."""
    count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
    shown = told = 0
    size = 0
    last = -1  # the last line of SEARCH that was shown as one of both
    for gap in gaps:
        for line in _gap_lines(mine, theirs, gap, last):
            size += len(line)
            if shown and (shown >= _DIFF_LINES or size > _DIFF_CHARACTERS):
                yield f"… ({count - told} more lines differ)"
                return
            shown += 1
            told += line[0] in "-+"
            yield line
        last = gap.base_stop


def _gap_lines(mine: list[str], theirs: list[str], gap: Gap, last: int) -> Iterator[str]:
    removed, added = gap.base_stop - gap.base_start, gap.now_stop - gap.now_start
    if gap.base_start and gap.base_start - 1 > last:
        yield f"  {_cut(mine[gap.base_start - 1], 0)}"
    for i in range(removed):
        line = mine[gap.base_start + i]
        at = same_after(line, theirs[gap.now_start + i], 0, 0) if i < added else 0
        yield f"- {_cut(line, at)}"
    for i in range(added):
        line = theirs[gap.now_start + i]
        at = same_after(line, mine[gap.base_start + i], 0, 0) if i < removed else 0
        yield f"+ {_cut(line, at)}"
    if gap.base_stop < len(mine):
        yield f"  {_cut(mine[gap.base_stop], 0)}"


def _cut(line: str, at: int) -> str:
    """What is around character `at`."""
    start = max(min(at - _WIDTH // 3, len(line) - _WIDTH), 0)
    shown = line[start : start + _WIDTH]
    return "…" * (start > 0) + shown + "…" * (start + _WIDTH < len(line))
