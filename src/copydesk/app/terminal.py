"""Output to a terminal: escaping, colours, tables, times, JSON, and the rows of a change.

Invariants: no control character or direction mark from a file reaches the terminal, not even in
JSON; no row of a change is wider than the screen.
"""

from __future__ import annotations

import collections
import json
import os
import re
import select
import signal
import sys
import termios
import time
import tty
import unicodedata
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple, TextIO, cast

from copydesk.desk.outcome import Saved
from copydesk.text.unified import read_diff
from copydesk.tools.diff_model import (
    ENDINGS,
    DiffBlock,
    DiffLine,
    DiffModel,
    DiffRow,
    Span,
    windows,
)
from copydesk.tools.report import Answer, Lang
from copydesk.tools.reports import saved_words

HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f"
    "\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # emoji and text selectors are hidden after any other character
    "|(?<![\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f](?!\u20e3)"
)
"""Control and format characters, what looks like a space or like nothing, lone surrogates."""

BESIDE_OTHERS: Final = frozenset(
    ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO")
)
"""Scripts that look like no other one, and that names combine with Latin letters."""

_OF_NO_SCRIPT = BESIDE_OTHERS | {"MICRO", "FEMININE", "MASCULINE", "MODIFIER", "SUPERSCRIPT"}
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*+")
"""Letters and digits, and the marks on them."""

_BREAKS = re.compile("[\t\n]")
_STYLES = {"+": "32", "-": "31", "@": "36"}
_HEAD = ("diff ", "index ", "--- ", "+++ ", "new file ", "deleted file ")
_PATIENCE_SECONDS = 0.5
_BEAT_SECONDS = 0.1


def colours(stream: TextIO) -> bool:
    """Whether to use colours: on a terminal, without NO_COLOR or TERM=dumb."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not unwanted


def has_person() -> bool:
    """Whether input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def safe(text: str) -> str:
    """The text with harmful characters as `\\xNN` or `\\uNNNN`; CR before LF is dropped."""
    return with_codes(text.replace("\r\n", "\n"), _code)


def line(text: str) -> str:
    """The text as one line: line breaks and tabs are shown as `\\x0a` and `\\x09`."""
    return _BREAKS.sub(lambda found: _code(found[0]), with_codes(text, _code))


@lru_cache(maxsize=4)  # a line is drawn in pieces, each of which asks
def unseen(text: str) -> tuple[int, ...]:
    """Where a text has hidden characters, and letters of another script than their word's."""
    found = [each.start() for each in HIDDEN.finditer(text)]
    for word in () if text.isascii() else _WORD.finditer(text):
        if not word[0].isascii():
            found += (word.start() + at for at in _strangers(word[0]))
    return tuple(sorted(found))


def _strangers(word: str) -> list[int]:
    """Where a word has letters of other scripts than most of it, which may be look-alikes."""
    names = {
        at: unicodedata.name(letter, "").partition(" ")[0]
        for at, letter in enumerate(word)
        if letter.isalpha()
    }
    scripts = collections.Counter(name for name in names.values() if name not in _OF_NO_SCRIPT)
    if len(scripts) < 2:
        return []
    most = max(scripts, key=lambda name: (scripts[name], name == "LATIN"))
    return [at for at, name in names.items() if name in scripts and name != most]


def with_codes(text: str, name: Callable[[str], str]) -> str:
    """The text with each character that a reader cannot see or may mistake given by its name."""
    places = unseen(text)
    if not places:
        return text
    characters = list(text)
    for at in places:
        characters[at] = name(text[at])
    return "".join(characters)


def as_json(data: object) -> str:
    """The data as indented JSON, harmful characters escaped."""
    return HIDDEN.sub(_json_escape, json.dumps(data, ensure_ascii=False, indent=2)) + "\n"


def json_line(data: object) -> str:
    """The data as one line of JSON, harmful characters escaped."""
    return HIDDEN.sub(_json_escape, json.dumps(data, ensure_ascii=False)) + "\n"


def diff(text: str, coloured: bool) -> str:
    """The text with the lines of its unified diffs coloured."""
    shown = safe(text)
    if not coloured:
        return shown
    painted: list[str] = []
    for sign, one, _, _ in read_diff(shown.split("\n")):
        style = _STYLES.get(sign) or ("1" if not sign and one.startswith(_HEAD) else None)
        painted.append(f"\x1b[{style}m{one}\x1b[0m" if style else one)
    return "\n".join(painted)


def strong(text: str, coloured: bool) -> str:
    """The text in bold."""
    return f"\x1b[1m{text}\x1b[0m" if coloured else text


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are as wide as their widest cell."""
    if not rows:
        return ""
    shown = [[line(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    padded = (
        "  ".join(
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in shown
    )
    return "".join(f"{row.rstrip()}\n" for row in padded)


def when(time_ms: int) -> str:
    """A time in milliseconds since 1970, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))


def ago(milliseconds: int) -> str:
    """A duration in milliseconds, rounded: 40s, 12m, 3h, 5d."""
    seconds = (max(milliseconds, 0) + 500) // 1000
    if seconds < 90:
        return f"{seconds}s"
    if seconds < 5400:
        return f"{(seconds + 30) // 60}m"
    hours = (seconds + 1800) // 3600
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def print_answer(answer: Answer) -> None:
    """Print an answer in full, a diff in colours."""
    text = diff(answer.text, colours(sys.stdout)) if answer.diff else safe(answer.text)
    out(text if text.endswith("\n") else f"{text}\n")


def complain(text: str) -> None:
    """Print a message on standard error."""
    print(f"copydesk: {safe(text)}", file=sys.stderr)


class Keys:
    """Single keys from the terminal, without Enter, within a `with`."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._typed: list[str] = []
        self._mode: list[Any] = []

    @staticmethod
    def work() -> bool:
        """Whether the terminal can deliver single keys."""
        return has_person() and os.environ.get("TERM", "dumb") != "dumb"

    def __enter__(self) -> Keys:
        self._mode = termios.tcgetattr(self._input)
        signal.signal(signal.SIGTERM, self._terminate)
        tty.setcbreak(self._input, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._mode)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminate(self, number: int, _: object) -> None:
        """End the process as the signal does by default, after restoring the terminal."""
        self.__exit__()
        os.kill(os.getpid(), number)

    @contextmanager
    def lines(self) -> Generator[None]:
        """Restore line mode and echo within the block."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def next(self, seconds: float = 0.0) -> str:
        """The next key, "" if none comes in that time; raises EOFError at the end of input."""
        if not self._typed:
            self._read(seconds)
        if not self._typed:
            return ""
        if self._typed[0] == "\x04":
            raise EOFError
        return self._typed.pop(0)

    def typed_ahead(self, unwanted: str) -> str:
        """Drop unwanted keys that were typed already; return them."""
        while self._read(0.0):
            pass
        dropped = "".join(key for key in self._typed if key in unwanted)
        self._typed = [key for key in self._typed if key not in unwanted]
        return dropped

    def _read(self, seconds: float) -> bool:
        """Read the keys typed in that time; return whether there were any."""
        if not select.select([self._input], [], [], seconds)[0]:
            return False
        typed = os.read(self._input, 4_096).decode("utf-8", "replace")
        if not typed:
            raise EOFError
        for found in _KEY.finditer(typed):
            self._typed.append(_NAMED_KEYS.get(found[0], found[0]))
        return True


_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
_NAMED_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "\x1b[5~"), "b"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "\x1b[6~"), " "),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "j"),
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "k"),
    "\r": "\n",
}
"""Arrow and page keys as navigation keys."""


class Counter:
    """A progress line for a long search; it appears after half a second, on a terminal only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._drawn = False

    def __call__(self, seen: int) -> None:
        """Show the count."""
        now = time.monotonic()
        if self._stream is not None and now >= self._next:
            self._next = now + _BEAT_SECONDS
            self._drawn = True
            self._stream.write(f"\r{seen} files searched\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        if self._stream is not None and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _code(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f"


def columns(text: str) -> int:
    """The number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def out(text: str) -> None:
    """Write the text to standard output."""
    sys.stdout.write(text)


def agrees(question: str, *, terminal_only: bool = True) -> bool:
    """Ask for a yes; without a terminal it is no, or read from what is piped in."""
    is_terminal = sys.stdin.isatty()
    if terminal_only and not is_terminal:
        return False
    print(question, end=" ", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()
    if not is_terminal:
        print(file=sys.stderr)
    return answer in ("y", "yes", "是")


def dump(data: object) -> None:
    """Write one JSON value to standard output."""
    out(as_json(data))


def is_refused(report: Answer) -> bool:
    """Whether nothing was done: the call was refused, or waits for approval."""
    return report.is_error or report.fields.get("status") == "pending"


def short(report: Answer) -> None:
    """Print the summary, the warnings, the notices and the diff of a report."""
    data = report.data
    warnings = [data.get("style_warning"), *cast("list[object]", data.get("warnings", []))]
    for words in (data["summary"], *warnings, *report.notices):
        if words:
            out(line(str(words)) + "\n")
    if report.diff:
        out("\n" + diff(report.diff, colours(sys.stdout)))


def saved(found: Sequence[Saved], lang: Lang) -> None:
    """Print other programs' writes that were saved as edits."""
    for one in found:
        words = saved_words(one.path, one.edit_id, f"copydesk undo {one.edit_id}", lang)
        out(line(words) + "\n")


SPLIT_COLUMNS: Final = 140
"""The minimum number of columns to show both sides of a change."""

_ROW_STYLES: Final = {"-": "31", "+": "32", " ": ""}
_FEWEST: Final = 8
"""The minimum number of columns for a text."""

_HANG: Final = 2
_TAB: Final = 4


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw a change. `whole`: show lines completely, however long they are."""

    columns: int
    coloured: bool
    split: bool = False
    whole: bool = False


class _Piece(NamedTuple):
    """Characters that stay together, their width, and whether they are marked as changed."""

    text: str
    columns: int
    is_marked: bool


def diff_rows(model: DiffModel, look: Look, left_out: Callable[[int], str]) -> Iterator[str]:
    """The rows of a change, lazily; `left_out` words a number of omitted characters."""
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
    """Any text as rows that fit the screen."""
    for line in text.removesuffix("\n").split("\n"):
        for pieces in _wrapped(_pieces(line, ()), max(columns, _FEWEST)):
            yield "".join(piece.text for piece in pieces)


def _ends(blocks: Sequence[DiffBlock]) -> Iterator[DiffLine]:
    """The last lines of a hunk, which have its largest numbers."""
    for row in blocks[-1].rows[-1:] if blocks else ():
        yield from (line for line in (row.old, row.new) if line is not None)


class _Drawn:
    """Draws the rows of blocks in one look."""

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
        """The old line with the new one beside it."""
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
        """The rows of one line with its sign, each with its width in columns."""
        line = (row.old, row.new)[side]
        assert line is not None, "only lines that are there are drawn"
        marks, text = row.marks[side], line.text
        is_plain = len(text) < room and text.isascii() and text.isprintable()
        if is_plain and not marks and not row.shows_endings:  # usual: no character is examined
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
        return _ROW_STYLES[sign] if self._look.coloured else ""

    def _shown(self, text: str, marks: Sequence[Span]) -> Iterator[_Piece]:
        """The pieces of a line; of a long line, the parts around its marks."""
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
    """The characters of a text; harmful ones escaped, a changed tab as an arrow."""
    column = at = 0
    hidden = set(unseen(text))
    for start, stop in (*marks, (len(text), len(text))):
        for index in range(at, stop):
            is_marked = index >= start
            shown, width = text[index], 1
            if shown == "\t":
                width = _TAB - column % _TAB
                shown = ("→" if is_marked else " ") + " " * (width - 1)
            elif index in hidden or shown == "\n":
                *first, shown = list(_code(shown))  # an escape may continue in the next row
                yield from (_Piece(each, 1, is_marked) for each in first)
                column += len(first)
            elif not shown.isascii():
                width = columns(shown)
            column += width
            yield _Piece(shown, width, is_marked)
        at = stop


def _wrapped(pieces: Iterator[_Piece] | Sequence[_Piece], room: int) -> Iterator[list[_Piece]]:
    """The pieces wrapped at `room` columns; all rows but the first are indented."""
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
    """The row in its colour, with marked pieces in reverse."""
    parts = [f"\x1b[{style}m" if style else "", lead]
    marked = False
    for piece in pieces:
        if piece.is_marked != marked:
            parts.append("\x1b[7m" if piece.is_marked else "\x1b[27m")
            marked = piece.is_marked
        parts.append(piece.text)
    parts += ["\x1b[27m"] if marked else []
    return "".join(parts) + ("\x1b[0m" if style else "")
