"""What an answer leaves out to stay within its budget of tokens: lines of a diff or of any text.

Invariant: what is left out is said where it is left out, with the numbers of the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from copydesk.text.sizes import most_tokens, tokens
from copydesk.tools.intraline import HUNK_HEAD, LONG, shorten

LONGEST_LINE = 2_000
"""A line of more characters is cut, after the unchanged parts of it were left out."""

_LONGEST = 16
"""A text of so many characters a token is too long in any case."""

_LEAST = 3
"""So many lines of a hunk are shown in any case."""

LinesLeftOut = Callable[[int, int], str]
"""Words for lines that are left out: the first and the last, from 1."""

CharactersLeftOut = Callable[[int], str]
"""Words for characters that are left out."""


@dataclass(frozen=True, slots=True)
class Words:
    """What is said in the place of what is left out, in one language."""

    lines: LinesLeftOut
    characters: CharactersLeftOut


def fit_text(text: str, room: int, words: Words) -> tuple[str, int]:
    """The first lines of a text, at most `room` tokens of them.

    Also the number, from 1, of the first line that is not shown whole; 0 where all are.
    """
    if fits(text, room):
        return text, 0
    whole = _lines(text)
    lines = [_cut(line, words) for line in whole]
    kept = _first(lines, room)
    cut = next((at for at in range(kept) if lines[at] != whole[at]), kept)
    if kept < len(lines):
        lines[kept:] = [words.lines(kept + 1, len(lines))]
    return _joined(lines), cut + 1 if cut < len(whole) else 0


def row_tokens(row: str) -> int:
    """What a row of a list takes in an answer, never less than among other rows."""
    return tokens(f"{row}\n") + 1


def first_rows(rows: Iterable[str], room: int | None) -> list[str]:
    """The first rows, as many as there are `room` tokens for, but one in any case; None: all."""
    shown: list[str] = []
    for row in rows:
        if room is not None:
            room -= row_tokens(row)
            if room < 0 and shown:
                break
        shown.append(row)
    return shown


def fit_diff(diff: str, room: int, words: Words) -> tuple[str, int]:
    """A unified diff in at most about `room` tokens, with the first line not shown whole.

    Each file and each hunk keeps its head, its first lines and its last ones, as far as there
    is room for all of them; long lines keep what changes in them. Of the line, see `fit_text`.
    """
    if fits(diff, room):
        return diff, 0
    whole = _lines(diff)
    if any(len(line) > LONG for line in whole):
        diff = shorten(diff, words.characters, marks_whole=False)
    lines = [_cut(line, words) for line in _lines(diff)]
    cut = next((at for at, line in enumerate(lines) if line != whole[at]), len(lines))
    sections = _sections(lines)
    heads = sum(tokens(lines[each.head]) + 1 for each in sections if each.head is not None)
    least = sum(tokens(line) + 1 for each in sections for line in lines[each.start :][:_LEAST])
    if heads + least > room:
        kept, first = fit_text(_joined(lines), room, words)
        return kept, min(first or cut + 1, cut + 1) if first or cut < len(lines) else 0
    for each, share in zip(sections, _shares(sections, lines, room - heads), strict=True):
        each.show(lines, share)
    shown: list[str] = []
    for each in sections:
        shown += [] if each.head is None else [lines[each.head]]
        shown += lines[each.start : each.start + each.first]
        gap = each.start + each.first, each.stop - each.last
        if gap[0] < gap[1]:
            shown.append(words.lines(gap[0] + 1, gap[1]))
            cut = min(cut, gap[0])
        shown += lines[gap[1] : each.stop]
    return _joined(shown), cut + 1 if cut < len(lines) else 0


@dataclass(slots=True)
class _Section:
    """The head of a file or of a hunk and the lines [start, stop) below it; how many are shown."""

    head: int | None
    start: int
    stop: int
    first: int = field(default=0, init=False)
    last: int = field(default=0, init=False)

    def show(self, lines: Sequence[str], room: int) -> None:
        """Choose as many of the first and the last lines as there is room for."""
        below = lines[self.start : self.stop]
        self.first = _first(below, room)
        if self.first == len(below):
            return
        self.first = max(_first(below, 2 * room // 3), min(_LEAST, len(below)))
        self.last = _first(below[self.first :][::-1], room // 3)


def _sections(lines: Sequence[str]) -> list[_Section]:
    """The diff by its heads; the lines about a file are one section without lines to leave out."""
    found: list[_Section] = []
    left = [0, 0]
    for at, line in enumerate(lines):
        hunk = HUNK_HEAD.match(line) if sum(left) <= 0 else None
        if hunk:
            left = [int(hunk[1] or 1), int(hunk[2] or 1)]
            found.append(_Section(at, at + 1, at + 1))
        elif sum(left) <= 0 and not line.startswith("\\"):
            found.append(_Section(at, at + 1, at + 1))
        else:
            found[-1].stop = at + 1
            left[0] -= line[:1] in (" ", "-")
            left[1] -= line[:1] in (" ", "+")
    return found


def _shares(sections: Sequence[_Section], lines: Sequence[str], room: int) -> list[int]:
    """How many tokens each section may take; what small ones leave goes to the larger ones."""
    sizes = [sum(tokens(line) + 1 for line in lines[s.start : s.stop]) for s in sections]
    shares = [0] * len(sections)
    order = sorted(range(len(sections)), key=sizes.__getitem__)
    for done, at in enumerate(order):
        shares[at] = min(sizes[at], room // (len(order) - done))
        room -= shares[at]
    return shares


def _first(lines: Sequence[str], room: int) -> int:
    """How many of the lines there is room for."""
    for at, line in enumerate(lines):
        room -= tokens(line) + 1
        if room < 0:
            return at
    return len(lines)


def _cut(line: str, words: Words) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return line[:LONGEST_LINE] + words.characters(len(line) - LONGEST_LINE)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def fits(text: str, room: int) -> bool:
    """Whether the text takes no more tokens; a very long one is not counted."""
    return len(text) < _LONGEST * room and (most_tokens(text) <= room or tokens(text) <= room)
