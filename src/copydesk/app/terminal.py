"""Output to a terminal: escaping, colours, tables, times, JSON, the rows of a change, and failures.

Invariants: no control character or direction mark from a file reaches the terminal, not even in
JSON; no row of a change is wider than the screen.
"""

from __future__ import annotations

import collections
import json
import math
import os
import re
import select
import signal
import sqlite3
import sys
import termios
import time
import tty
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TextIO, cast

from copydesk.app.cli.parser import UsageError, said
from copydesk.app.config import ConfigError
from copydesk.desk.outcome import Saved
from copydesk.errors import Refusal
from copydesk.text.diff import read_diff
from copydesk.tools import refusals
from copydesk.tools.diff_model import (
    ENDINGS,
    DiffBlock,
    DiffModel,
    DiffRow,
    Span,
    windows,
)
from copydesk.tools.messages import has, in_shell, say, say_reason
from copydesk.tools.report import Answer, Lang
from copydesk.tools.reports import refused, saved_words

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
_WORD = re.compile(r"[^\W_](?>(?:[^\W_]|[\u0300-\u036f])*)")
"""Letters and digits, and the marks on them."""

_BREAKS = re.compile("[\t\n]")
_STYLES = {"+": "32", "-": "31", "@": "36"}
_HEAD = ("diff ", "index ", "--- ", "+++ ", "new file ", "deleted file ")
_PATIENCE_SECONDS = 0.5
_BEAT_SECONDS = 0.1
_LOOK_SECONDS = 0.5
"""The time between two prompts while a key is awaited."""


def colours(stream: TextIO) -> bool:
    """Whether to use colours: on a terminal, without NO_COLOR or TERM=dumb."""
    return stream.isatty() and not (os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")


def has_person() -> bool:
    """Whether input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def safe(text: str) -> str:
    """The text with harmful characters as `\\xNN` or `\\uNNNN`; CR before LF is dropped."""
    return with_codes(text.replace("\r\n", "\n"), _code)


def line(text: str) -> str:
    """The text as one line: line breaks and tabs are shown as `\\x0a` and `\\x09`."""
    return _BREAKS.sub(lambda match: _code(match[0]), with_codes(text, _code))


@lru_cache(maxsize=4)  # a line is drawn in pieces, each of which asks
def unseen(text: str) -> tuple[int, ...]:
    """Where a text has hidden characters, and letters of another script than their word's."""
    offsets = [each.start() for each in HIDDEN.finditer(text)]
    for word in () if text.isascii() else _WORD.finditer(text):
        if not word[0].isascii():
            offsets += (word.start() + at for at in _strangers(word[0]))
    return tuple(sorted(offsets))


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
    places = set(unseen(text))
    if not places:
        return text
    return "".join(name(each) if at in places else each for at, each in enumerate(text))


def as_json(data: object, indent: int | None = 2) -> str:
    """The data as JSON, in one line without an `indent`; harmful characters are escaped."""
    return HIDDEN.sub(_json_escape, json.dumps(data, ensure_ascii=False, indent=indent)) + "\n"


def diff(text: str, coloured: bool) -> str:
    """The text with the lines of its unified diffs coloured."""
    shown = safe(text)
    if not coloured:
        return shown
    return "\n".join(
        _styled(row, "1" if not sign and row.startswith(_HEAD) else _STYLES.get(sign, ""))
        for sign, row, _, _ in read_diff(shown.split("\n"))
    )


def strong(text: str, coloured: bool) -> str:
    """The text in bold."""
    return _styled(text, "1" if coloured else "")


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are as wide as their widest cell.

    On a terminal that is too narrow, the last column is wrapped, and the columns that do not fit
    beside the others stand in further lines of each row.
    """
    shown = [[line(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    room = screen_columns(sys.stdout) or sys.maxsize
    last, used = len(widths) - 1, 0
    lines: list[list[int]] = [[]]
    for at, width in enumerate(widths):
        if lines[-1] and used + (min(width, _FEWEST_WORDS) if at == last else width) > room:
            lines.append([])
            used = len(_FURTHER)
        lines[-1].append(at)
        used += width + 2
    text = ""
    for row in shown:
        for number, in_line in enumerate(lines):
            if number and all(row[at] in ("", "-") for at in in_line):
                continue
            *cells, final = in_line
            padded = (row[at] + " " * (widths[at] - columns(row[at]) + 2) for at in cells)
            lead = (_FURTHER if number else "") + "".join(padded)
            rest = room - columns(lead)
            wrapped = text_rows(row[final], rest) if columns(row[final]) > rest else [row[final]]
            text += "".join(
                f"{' ' * columns(lead) if below else lead}{words}".rstrip() + "\n"
                for below, words in enumerate(wrapped)
            )
    return text


def when(time_ms: int) -> str:
    """A time in milliseconds since 1970, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))


def ago(milliseconds: int) -> str:
    """A duration in milliseconds, rounded: 40s, 12m, 3h, 5d."""
    seconds = (max(milliseconds, 0) + 500) // 1000
    units = ("s", 1, 90), ("m", 60, 5_400), ("h", 3_600, 171_000), ("d", 86_400, math.inf)
    unit, size = next((unit, size) for unit, size, below in units if seconds < below)
    return f"{(seconds + size // 2) // size}{unit}"


def print_answer(answer: Answer) -> None:
    """Print an answer in full, a diff in colours."""
    text = diff(answer.text, colours(sys.stdout)) if answer.diff else safe(answer.text)
    out(text if text.endswith("\n") else f"{text}\n")


def complain(text: str) -> None:
    """Print a message on standard error; what is said before comes before it."""
    sys.stdout.flush()
    for row in safe(f"copydesk: {text}").split("\n"):
        tell(row, sys.stderr)


def screen_columns(stream: TextIO) -> int:
    """The columns of the terminal that the stream writes to; 0 if it is none, or if unknown."""
    return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0


def tell(text: str, stream: TextIO | None = None) -> None:
    """Print a message. Where the terminal is too narrow, its sentences and commands have lines.

    Such a command is whole, so that it can be copied, and without the full stop after it.
    """
    to: TextIO = sys.stdout if stream is None else stream
    message, room = line(text), screen_columns(to) or sys.maxsize
    if columns(message) <= room:
        to.write(message + "\n")
        return
    for sentence in _SENTENCE.split(message):
        step = _STEP.fullmatch(sentence)
        words, command = (step[1], f"  {step[2]}\n") if step else (sentence, "")
        if columns(words + command) < room:
            words, command = words + command[1:-1], ""
        to.writelines(f"{row.rstrip()}\n" for row in text_rows(words, room))
        to.write(command)


_SENTENCE = re.compile("(?<=[.!?]) (?=[A-Z])|(?<=。)(?=.)")
_STEP = re.compile("(.*[:：]) ?(copydesk .*?)[.。]?")
"""A sentence that ends with a command."""


class Keys:
    """Answers of a person: single keys from a terminal, within a `with`, or else lines.

    `named` gives the keys that stand for others, as an escape sequence of the terminal. However the
    process ends, and while it is stopped, the terminal is as it was found.
    """

    def __init__(self, named: Mapping[str, str] = MappingProxyType({})) -> None:
        self.single = has_person() and os.environ.get("TERM", "dumb") != "dumb"
        """Whether the terminal can deliver single keys, without Enter."""
        self._named = named
        self._mode = termios.tcgetattr(sys.stdin) if self.single else []
        self._typed: list[str] = []
        self._drawn = ""
        self._restoring = ExitStack()

    def __enter__(self) -> Keys:
        if self.single:
            for number in (*_ENDINGS, signal.SIGTSTP):
                handler = signal.getsignal(number)
                if handler is not signal.SIG_IGN:  # as nohup has it
                    signal.signal(number, self._end if number in _ENDINGS else self._pause)
                    self._restoring.callback(signal.signal, number, handler)
            drain = termios.TCSADRAIN
            self._restoring.callback(termios.tcsetattr, sys.stdin, drain, self._mode)
            tty.setcbreak(sys.stdin, drain)
        return self

    def __exit__(self, *_: object) -> None:
        self._restoring.close()

    def _end(self, number: int, _: object) -> None:
        """End the process as the signal does by default, after restoring the terminal."""
        with suppress(termios.error):  # the terminal may be gone
            self._restoring.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _pause(self, number: int, _: object) -> None:
        """Stop as Ctrl-Z does by default; go on with keys, and draw the question anew."""
        self._restoring.close()
        os.kill(os.getpid(), number)
        self.__enter__()
        self._drawn = ""

    @contextmanager
    def lines(self) -> Generator[None]:
        """Restore line mode and echo within the block."""
        self.__exit__()
        sys.stdout.flush()
        try:
            yield
        finally:
            self.__enter__()

    def line(self, question: str) -> str:
        """The line that answers a question, without white space around it."""
        with self.lines():
            return input(f"{question} ").strip()

    def run(self, steps: Callable[[], None]) -> int:
        """Take steps until all are taken, or the person ends them; return the exit status."""
        try:
            with self:
                steps()
        except (EOFError, KeyboardInterrupt) as ended:
            out("\n")
            return 130 if isinstance(ended, KeyboardInterrupt) else 0
        return 0

    def answer(self, prompts: Iterable[str]) -> str:
        """The next key, or the one letter of a line, in lower case; "?" for any other line.

        While a key is awaited, `prompts` gives what is drawn; its end is that of the question, and
        the answer is "". Raises EOFError at the end of input.
        """
        self._drawn = ""
        for words in prompts:
            if not self.single:
                sys.stdout.flush()
                line = input(words).strip().lower()
                return line if len(line) == 1 else "?"
            if words != self._drawn:
                room = os.get_terminal_size(sys.stdout.fileno()).columns - 1
                blank = f"\r{' ' * min(columns(self._drawn), room)}\r" if self._drawn else ""
                out(blank + words)
                self._drawn = words
            sys.stdout.flush()
            if key := self._next(_LOOK_SECONDS):
                out((key if key.isprintable() else "") + "\n")
                return key.lower()
        out("\n")
        return ""

    def _next(self, seconds: float) -> str:
        """The next key, "" if none comes in that time."""
        if not self._typed:
            self._read(seconds)
        if self._typed[:1] == ["\x04"]:
            raise EOFError
        return self._typed.pop(0) if self._typed else ""

    def typed_ahead(self, unwanted: str) -> list[str]:
        """Drop unwanted keys that were typed already; return them."""
        while self.single and self._read(0.0):
            pass
        typed, self._typed = self._typed, [key for key in self._typed if key not in unwanted]
        return [key for key in typed if key in unwanted]

    def _read(self, seconds: float) -> bool:
        """Read the keys typed in that time; return whether there were any."""
        if not select.select([sys.stdin], [], [], seconds)[0]:
            return False
        typed = os.read(sys.stdin.fileno(), 4_096).decode("utf-8", "replace")
        if not typed:
            raise EOFError
        self._typed += [self._named.get(key, key) for key in _KEY.findall(typed)]
        return True


_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)


class Counter:
    """A progress line for a long search; it appears after half a second, on a terminal only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = time.monotonic() + _PATIENCE_SECONDS if stream.isatty() else math.inf
        self._drawn = ""

    def __call__(self, seen: int) -> None:
        """Show the count."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _BEAT_SECONDS
            self._drawn = f"\r{seen} files searched\x1b[K"
            print(self._drawn, end="", file=self._stream, flush=True)

    def clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def _code(character: str) -> str:
    if character.isascii():
        return f"\\x{ord(character):02x}"
    return character.encode("ascii", "backslashreplace").decode()


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f"


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


def browse(address: str) -> None:
    """Open an address in the browser, if there is a screen for one."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(address)


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
            tell(str(words))
    if report.diff:
        out("\n" + diff(report.diff, colours(sys.stdout)))


def saved(writes: Sequence[Saved], lang: Lang) -> None:
    """Print other programs' writes that were saved as edits."""
    for write in writes:
        tell(saved_words(write, f"copydesk undo {write.edit_id}", lang))


SPLIT_COLUMNS: Final = 140
"""The minimum number of columns to show both sides of a change."""

_FEWEST: Final = 8
"""The minimum number of columns for a text."""

_FEWEST_WORDS: Final = 24
"""The minimum number of columns for the last column of a table, beside others."""

_FURTHER: Final = "    "
"""Before the further lines of a row."""

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
    lines = chain(model.lines("old"), model.lines("new"))
    digits = len(str(max((line.number for line in lines), default=0)))
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
    """Any text as rows that fit the screen, broken at spaces where there are some."""
    for line in text.removesuffix("\n").split("\n"):
        for pieces in _wrapped(_pieces(line, ()), max(columns, _FEWEST), at_spaces=True):
            yield "".join(piece.text for piece in pieces)


class _Drawn:
    """Draws the rows of blocks in one look."""

    def __init__(self, look: Look, digits: int, left_out: Callable[[int], str]) -> None:
        self._look, self._digits, self._left_out = look, digits, left_out

    def unified(self, block: DiffBlock) -> Iterator[str]:
        """Both numbers, a sign and the text: all removed lines of a run, then all added ones."""
        for sides in ((0, 1),) if block.is_context else ((0,), (1,)):
            for row in block.rows:
                numbers = [
                    f"{line.number if line and at in sides else '':>{self._digits}} "
                    for at, line in enumerate((row.old, row.new))
                ]
                gutter = "".join(numbers) if self._digits else ""
                for text, _ in self._line(block, row, sides[0], gutter, self._look.columns):
                    yield text

    def split(self, block: DiffBlock) -> Iterator[str]:
        """The old line with the new one beside it."""
        half = (self._look.columns - 3) // 2
        for row in block.rows:
            sides = [
                self._line(
                    block, row, side, f"{line.number if line else '':>{self._digits}} ", half
                )
                for side, line in enumerate((row.old, row.new))
            ]
            for left, right in zip_longest(*sides, fillvalue=("", 0)):
                yield f"{left[0]}{' ' * (half - left[1])} │ {right[0]}".rstrip(" ")

    def _line(
        self, block: DiffBlock, row: DiffRow, side: int, gutter: str, columns: int
    ) -> Iterator[tuple[str, int]]:
        """The rows of one line, if it is there, each with its width in columns."""
        line = (row.old, row.new)[side]
        if line is None:
            return
        marks, text = row.marks[side], line.text
        sign = " " if block.is_context else "-+"[side]
        style = _STYLES.get(sign, "") if self._look.coloured else ""
        room = columns - len(gutter) - 2  # the sign, and the last column, where a cursor may stay
        pieces = self._shown(text, marks)
        if len(text) <= room and text.isascii() and text.isprintable() and not marks:
            pieces = iter([_Piece(text, len(text), False)])  # usual: no character is examined
        if row.shows_endings:
            pieces = chain(pieces, _pieces(ENDINGS[line.ending], ()))
        for shown in _wrapped(pieces, max(room, _FEWEST)):
            width = len(gutter) + 1
            yield gutter + _painted(sign, shown, style), width + sum(p.columns for p in shown)
            gutter, sign = " " * len(gutter), " "
            under = "".join(" ^"[piece.is_marked] * piece.columns for piece in shown).rstrip()
            if under and not style:
                yield " " * width + under, width + len(under)

    def _shown(self, text: str, marks: Sequence[Span]) -> Iterator[_Piece]:
        """The pieces of a line; of a long line, the parts around its marks."""
        spans = [(0, len(text))] if self._look.whole else windows(text, marks)
        at = 0
        for start, stop in (*spans, (len(text), len(text))):
            if start > at:
                yield from _pieces(self._left_out(start - at), ())
            inside = [(max(a, start) - start, min(b, stop) - start) for a, b in marks]
            yield from _pieces(text[start:stop], inside)
            at = stop


def _pieces(text: str, marks: Sequence[Span]) -> Iterator[_Piece]:
    """The characters of a text; harmful ones escaped, a changed tab as an arrow."""
    marked = {at for span in marks for at in range(*span)}
    hidden = set(unseen(text))
    column = 0
    for at, character in enumerate(text):
        if character == "\t":
            width = _TAB - column % _TAB
            parts = [(("→" if at in marked else " ").ljust(width), width)]
        elif at in hidden or character == "\n":
            parts = [(each, 1) for each in _code(character)]  # it may continue in the next row
        else:
            parts = [(character, columns(character))]
        for shown, width in parts:
            column += width
            yield _Piece(shown, width, at in marked)


def _wrapped(
    pieces: Iterator[_Piece] | Sequence[_Piece], room: int, *, at_spaces: bool = False
) -> Iterator[list[_Piece]]:
    """The pieces wrapped at `room` columns; all rows but the first are indented."""
    row: list[_Piece] = []
    used = 0
    for piece in pieces:
        is_wrapped = False
        while used + piece.columns > room and used > _HANG:
            is_wrapped = True  # not far from the end of the row: Chinese has hardly any spaces
            ends = range(len(row), max(len(row) // 2, 1), -1)
            spaces = (at for at in ends if row[at - 1].text == " ")
            cut = next(spaces, len(row)) if at_spaces and piece.text != " " else len(row)
            yield row[:cut]
            row = [_Piece(" " * _HANG, _HANG, False), *row[cut:]]
            used = sum(each.columns for each in row)
        if not (is_wrapped and at_spaces and piece.text == " "):
            row.append(piece)
            used += piece.columns
    yield row


def _painted(lead: str, pieces: Sequence[_Piece], style: str) -> str:
    """The row in its colour, with marked pieces in reverse."""
    parts = [lead]
    for is_marked, run in groupby(pieces, attrgetter("is_marked")):
        text = "".join(piece.text for piece in run)
        parts.append(f"\x1b[7m{text}\x1b[27m" if is_marked and style else text)
    return _styled("".join(parts), style)


_SEE = {
    "HUNK_NOT_FOUND": "cli.see_pending",
    "INVALID_HUNK_ID": "cli.see_pending",
    "FAILED": "cli.see_doctor",
}


FAILURES = (Refusal, UsageError, ConfigError, sqlite3.Error, OSError)
"""Those that are not bugs; any other keeps its traceback."""


def report_failure(error: Exception, *, as_json: bool, lang: Lang = "en") -> int:
    """Report it in words or as JSON; return the exit status."""
    if isinstance(error, Refusal):
        words, hint = refusal_words(error, lang), ""
        data = refusal_data(error, lang) if as_json else {}
    else:
        code, *texts = _unusable(error)
        words, hint = (said(text, lang) for text in texts)
        ended = words if words.endswith(("?", "？")) else f"{words}."
        summary = f"{ended} {hint}" if hint else words
        data = {"status": "error", "error": code, "summary": summary}
    if as_json:
        dump(data)
    else:
        complain(words)
        if hint:
            tell(f"  {hint}", sys.stderr)
    return 1 if isinstance(error, Refusal) else 2


def refusal_data(refusal: Refusal, lang: Lang, **known_facts: str) -> dict[str, object]:
    """A refusal for a program; `known_facts` are added to its own facts."""
    fields = refused("", None, refusal, lang).fields
    return {**known_facts, **{name: fact for name, fact in fields.items() if name != "mode"}}


def refusal_words(refusal: Refusal, lang: Lang) -> str:
    """A refusal for a person: code, problem, next step."""
    return _for_person(refusal.code, refusals.refusal_words(refusal, lang), refusal.facts(), lang)


def print_refusal(answer: Answer, lang: Lang, hunk_id: str = "") -> None:
    """Print a tool's refusal for a person."""
    fields = answer.fields
    words = _for_person(str(fields["error"]), str(fields["summary"]), fields, lang)
    complain(f"{hunk_id}: {words}" if hunk_id else words)
    for notice in answer.notices:
        complain(notice)


def _for_person(code: str, words: str, facts: Mapping[str, object], lang: Lang) -> str:
    """A refusal without what only concerns agents; `words` are those for them."""
    reason = str(facts.get("reason") or facts.get("why"))
    name = f"{code}.{reason}.person"
    if not has(name) and not has(f"{code}.{reason}"):
        name = f"{code}.person"
    if has(name):
        key = f"reason.{reason}"
        why = say(key, lang) if has(key) else say_reason(reason, lang)
        words = say(name, lang, {**facts, "reason": why})
    see = f" {say(_SEE[code], lang)}" if code in _SEE else ""
    return f"{code}: {in_shell(words)}{see}"


def _unusable(error: Exception) -> tuple[str, str, str]:
    """Code, message and next step of a failure that is not a refusal."""
    if isinstance(error, UsageError):
        return "USAGE", str(error), error.hint
    if isinstance(error, ConfigError):
        return "CONFIGURATION", str(error), ""
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return "WORKSPACE", words, "copydesk doctor says what is wrong and how to fix it."
