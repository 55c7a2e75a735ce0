"""Output to a terminal: escaping, colours, tables, times, JSON.

No control character or mark of direction from a file reaches the terminal, in JSON neither.
"""

from __future__ import annotations

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
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from copydesk.desk.outcome import Saved
from copydesk.text.unified import read_diff
from copydesk.tools.answers import Answer, saved_words
from copydesk.tools.report import Lang, Report

HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # what makes a sign an emoji or a text is hidden behind any other character
    "|(?<![\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f](?!\u20e3)"
)
"""Control characters, direction marks, characters without width, lone surrogates."""

_BREAKS = re.compile("[\t\n]")
_STYLES = {"+": "32", "-": "31", "@": "36"}
_HEAD = ("diff ", "index ", "--- ", "+++ ", "new file ", "deleted file ")
_PATIENCE_SECONDS = 0.5
_BEAT_SECONDS = 0.1


def colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal and colours are wanted (not with NO_COLOR or TERM=dumb)."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not unwanted


def has_person() -> bool:
    """Whether somebody sees what is printed and can type."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def safe(text: str) -> str:
    """The text with harmful characters as `\\xNN` or `\\uNNNN`; CR before LF is dropped."""
    return HIDDEN.sub(_shown, text.replace("\r\n", "\n"))


def line(text: str) -> str:
    """The text as one line: a line break or a tab in it is shown as `\\x0a` or `\\x09`."""
    return _BREAKS.sub(_shown, HIDDEN.sub(_shown, text))


def as_json(data: object) -> str:
    """The data as indented JSON, harmful characters escaped."""
    return HIDDEN.sub(_json_escape, json.dumps(data, ensure_ascii=False, indent=2)) + "\n"


def json_line(data: object) -> str:
    """The data as one line of JSON, harmful characters escaped."""
    return HIDDEN.sub(_json_escape, json.dumps(data, ensure_ascii=False)) + "\n"


def diff(text: str, coloured: bool) -> str:
    """A text with the lines of its unified diffs coloured."""
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
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))


def ago(milliseconds: int) -> str:
    """A length of time, rounded: 40s, 12m, 3h, 5d."""
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
    """Keys of the terminal, one at a time and without Enter, while it is entered."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._typed: list[str] = []
        self._mode: list[Any] = []

    @staticmethod
    def work() -> bool:
        """Whether the terminal can give single keys."""
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
        """End the process as the signal does by default, but give the terminal its echo back."""
        self.__exit__()
        os.kill(os.getpid(), number)

    @contextmanager
    def lines(self) -> Generator[None]:
        """Within it the terminal gives lines, and shows what is typed."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def next(self, seconds: float = 0.0) -> str:
        """The next key, "" where none comes in that time; raises EOFError at the end of input."""
        if not self._typed:
            self._read(seconds)
        if not self._typed:
            return ""
        if self._typed[0] == "\x04":
            raise EOFError
        return self._typed.pop(0)

    def typed_ahead(self, unwanted: str) -> str:
        """Drop the unwanted ones of the keys that were typed already; which they were."""
        while self._read(0.0):
            pass
        dropped = "".join(key for key in self._typed if key in unwanted)
        self._typed = [key for key in self._typed if key not in unwanted]
        return dropped

    def _read(self, seconds: float) -> bool:
        """Take what is typed in that time; whether anything was."""
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
"""Arrows and the page keys stand for keys that move."""


class Counter:
    """A progress line of a long search, after half a second and on a terminal only."""

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


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f"


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def out(text: str) -> None:
    """Write the text to standard output."""
    sys.stdout.write(text)


def dump(data: object) -> None:
    """Write one JSON value to standard output."""
    out(as_json(data))


def is_refused(report: Answer) -> bool:
    """Whether nothing was done: refused, or a person has to approve it first."""
    return report.is_error or report.fields.get("status") == "pending"


def short(report: Answer) -> None:
    """Print the summary, the warnings, the notices and the diff of a report."""
    data = report.data
    warnings = [data.get("style_warning"), *cast("list[object]", data.get("warnings", []))]
    for words in (data["summary"], *warnings, *notices(report)):
        if words:
            out(line(str(words)) + "\n")
    if report.diff:
        out("\n" + diff(report.diff, colours(sys.stdout)))


def notices(answer: Answer) -> tuple[str, ...]:
    """What a report says besides, of other things than the call."""
    return answer.notices if isinstance(answer, Report) else ()


def saved(found: Sequence[Saved], lang: Lang) -> None:
    """Print what other programs wrote that was saved as an edit."""
    for one in found:
        words = saved_words(one.path, one.edit_id, f"copydesk undo {one.edit_id}", lang)
        out(line(words) + "\n")
