"""What a terminal shows: colours where they are wanted, tables, times.

What lives here: the look. What must not: what is shown. Invariant: text from
files never reaches the terminal with its control characters alive.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from typing import TextIO

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_STYLES = {"+": "32", "-": "31", "@": "36", "d": "1", "n": "1"}


def colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that wants colours (NO_COLOR says it does not)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def safe(text: str) -> str:
    """The text with control characters and marks of direction shown as `\\xNN`; CR before LF goes."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def diff(text: str, coloured: bool) -> str:
    """A unified diff, its lines coloured."""
    if not coloured:
        return safe(text)
    lines = safe(text).split("\n")
    return "\n".join(_line(line) for line in lines)


def strong(text: str, coloured: bool) -> str:
    """A text that stands out."""
    return f"\x1b[1m{text}\x1b[0m" if coloured else text


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two blanks between them."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def when(time_ms: int) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))


def ago(milliseconds: int) -> str:
    """A length of time, rounded: 40s, 12m, 3h."""
    seconds = max(milliseconds, 0) // 1000
    if seconds < 90:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 5400 else f"{seconds // 3600}h"


def complain(text: str) -> None:
    """One line on standard error."""
    print(f"copydesk: {safe(text)}", file=sys.stderr)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _line(line: str) -> str:
    head = line[:1]
    style = _STYLES.get(head)
    if style is None or (head in "dn" and not line.startswith(("diff ", "new file"))):
        return line
    if line.startswith(("--- ", "+++ ")):
        style = "1"
    return f"\x1b[{style}m{line}\x1b[0m"
