"""A change as rows of a terminal, unified or side by side: marked words, hanging wrapped lines.

Invariant: no row is wider than the screen, and nothing of a file's text acts on the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from copydesk.app import terminal
from copydesk.tools.diff_model import (
    ENDINGS,
    DiffBlock,
    DiffLine,
    DiffModel,
    DiffRow,
    Span,
    windows,
)

SPLIT_COLUMNS: Final = 140
"""A screen of so many columns shows both sides beside one another."""

_STYLES: Final = {"-": "31", "+": "32", " ": ""}
_FEWEST: Final = 8
"""So many columns a text has in any case."""

_HANG: Final = 2
_TAB: Final = 4


@dataclass(frozen=True, slots=True)
class Look:
    """How a change is drawn. `whole`: lines are shown whole, however long they are."""

    columns: int
    coloured: bool
    split: bool = False
    whole: bool = False


class _Piece(NamedTuple):
    """Characters that stay together, the columns they take, and how they are told."""

    text: str
    columns: int
    is_marked: bool


def diff_rows(model: DiffModel, look: Look, left_out: Callable[[int], str]) -> Iterator[str]:
    """The rows of a change, made as they are asked for; `left_out` says a number of characters."""
    numbers = [line.number for hunk in model.hunks for line in _ends(hunk.blocks)]
    digits = len(str(max(numbers, default=0)))
    if (look.columns - 3) // 2 - digits - 3 < _FEWEST:
        look = replace(look, split=False)
    if look.columns - 2 * digits - 4 < _FEWEST:
        digits = 0  # no room for numbers
    drawn = _Drawn(look, digits, left_out)
    for at, hunk in enumerate(model.hunks):
        if at or hunk.skipped:
            yield "⋯"
        for block in hunk.blocks:
            yield from (drawn.split if look.split else drawn.unified)(block)
    if model.skipped:
        yield "⋯"


def text_rows(text: str, columns: int) -> Iterator[str]:
    """Any text as rows that are not wider than the screen."""
    for line in text.removesuffix("\n").split("\n"):
        for pieces in _wrapped(_pieces(line, ()), max(columns, _FEWEST)):
            yield "".join(piece.text for piece in pieces)


def _ends(blocks: Sequence[DiffBlock]) -> Iterator[DiffLine]:
    """The last lines of a hunk, which have its largest numbers."""
    for row in blocks[-1].rows[-1:] if blocks else ():
        yield from (line for line in (row.old, row.new) if line is not None)


class _Drawn:
    """The rows of blocks in one look."""

    def __init__(self, look: Look, digits: int, left_out: Callable[[int], str]) -> None:
        self._look, self._digits, self._left_out = look, digits, left_out

    def unified(self, block: DiffBlock) -> Iterator[str]:
        """Both numbers, a sign and the text: all removed lines of a run, then all added ones."""
        blank = " " * self._digits
        room = self._look.columns - (2 * self._digits + 3 if self._digits else 1)
        for side in (0,) if block.kept else (0, 1):
            for row in block.rows:
                line = (row.old, row.new)[side]
                if line is None:
                    continue
                old = blank if side else f"{line.number:>{self._digits}}"
                new = row.new if block.kept else line if side else None
                after = f"{new.number:>{self._digits}}" if new else blank
                sign = " " if block.kept else "-+"[side]
                gutters = (f"{old} {after} ", f"{blank} {blank} ") if blank else ("", "")
                for at, (text, _) in enumerate(self._line(row, side, sign, room)):
                    yield gutters[at > 0] + text

    def split(self, block: DiffBlock) -> Iterator[str]:
        """The old line, and beside it the new one."""
        half = (self._look.columns - 3) // 2
        for row in block.rows:
            sides: list[list[tuple[str, int]]] = []
            for side, line in enumerate((row.old, row.new)):
                sign = " " if block.kept else "-+"[side]
                room = half - self._digits - 2
                gutter = f"{line.number if line else '':>{self._digits}} "
                rest = " " * len(gutter)
                drawn = self._line(row, side, sign, room) if line else ()
                sides.append(
                    [
                        ((rest if at else gutter) + text, columns + len(gutter))
                        for at, (text, columns) in enumerate(drawn)
                    ]
                )
            for left, right in zip_longest(*sides, fillvalue=("", 0)):
                yield f"{left[0]}{' ' * (half - left[1])} │ {right[0]}".rstrip(" ")

    def _line(self, row: DiffRow, side: int, sign: str, room: int) -> Iterator[tuple[str, int]]:
        """The rows of one line with its sign, and how many columns each takes."""
        line = (row.old, row.new)[side]
        assert line is not None, "only lines that are there are drawn"
        marks, text = row.marks[side], line.text
        is_plain = len(text) < room and text.isascii() and text.isprintable()
        if is_plain and not marks and not row.shows_endings:  # most are: no character is looked at
            yield _painted(sign, [_Piece(text, 0, False)], self._style(sign)), 1 + len(text)
            return
        pieces = self._shown(text, marks)
        if row.shows_endings:
            pieces = chain(pieces, _pieces(ENDINGS[line.ending], ()))
        for at, found in enumerate(_wrapped(pieces, max(room - 1, _FEWEST))):
            lead = " " if at else sign
            columns = 1 + sum(piece.columns for piece in found)
            if self._look.coloured:
                yield _painted(lead, found, self._style(sign)), columns
                continue
            yield lead + "".join(piece.text for piece in found), columns
            if any(piece.is_marked for piece in found):
                under = "".join(" ^"[piece.is_marked] * piece.columns for piece in found).rstrip()
                yield f" {under}", 1 + len(under)

    def _style(self, sign: str) -> str:
        return _STYLES[sign] if self._look.coloured else ""

    def _shown(self, text: str, marks: Sequence[Span]) -> Iterator[_Piece]:
        """The pieces of a line; of a long one the parts around its marks."""
        at = 0
        for start, stop in [(0, len(text))] if self._look.whole else windows(text, marks):
            if start > at:
                yield from _pieces(self._left_out(start - at), ())
            inside = [(max(a, start) - start, min(b, stop) - start) for a, b in marks]
            yield from _pieces(text[start:stop], [span for span in inside if span[0] < span[1]])
            at = stop
        if at < len(text):
            yield from _pieces(self._left_out(len(text) - at), ())


def _pieces(text: str, marks: Sequence[Span]) -> Iterator[_Piece]:
    """The characters of a text; harmful ones escaped, a tab as an arrow where it changes."""
    column = at = 0
    found = () if text.isascii() else terminal.HIDDEN.finditer(text)
    hidden = {each.start() for each in found}
    for start, stop in (*marks, (len(text), len(text))):
        for index in range(at, stop):
            is_marked = index >= start
            shown, width = text[index], 1
            if shown == "\t":
                width = _TAB - column % _TAB
                shown = ("→" if is_marked else " ") + " " * (width - 1)
            elif not shown.isascii() and index not in hidden:
                width = terminal.columns(shown)
            elif not shown.isprintable() or not shown.isascii():
                *first, shown = list(terminal.line(shown))  # an escape goes on in the next row
                yield from (_Piece(each, 1, is_marked) for each in first)
                column += len(first)
            column += width
            yield _Piece(shown, width, is_marked)
        at = stop


def _wrapped(pieces: Iterator[_Piece] | Sequence[_Piece], room: int) -> Iterator[list[_Piece]]:
    """The pieces in rows of so many columns; all but the first one hang."""
    row: list[_Piece] = []
    used = 0
    for piece in pieces:
        if used + piece.columns > room and used > _HANG:
            yield row
            row, used = [_Piece(" " * _HANG, _HANG, False)], _HANG
        row.append(piece)
        used += piece.columns
    yield row


def _painted(lead: str, pieces: Sequence[_Piece], style: str) -> str:
    """The row in its colour, marked pieces in reverse."""
    parts = [f"\x1b[{style}m" if style else "", lead]
    marked = False
    for piece in pieces:
        if piece.is_marked != marked:
            parts.append("\x1b[7m" if piece.is_marked else "\x1b[27m")
            marked = piece.is_marked
        parts.append(piece.text)
    parts += ["\x1b[27m"] if marked else []
    return "".join(parts) + ("\x1b[0m" if style else "")
