"""Lines of a Markdown text and the columns in them.

What lives here: cutting bytes into lines, the text of bytes and back. What
must not: what a block is. Invariant: a line of Markdown ends with LF, CRLF or
a CR alone; U+2028, form feed and the like end no line.
"""

from __future__ import annotations

import re
from itertools import accumulate

BOM = b"\xef\xbb\xbf"

SPACES = re.compile(rb"[ \t]*").match
"""The spaces and tabs from a byte on; always matches."""

BLANK = b" \t"
"""What stands on a blank line."""

TAB = 4
"""A tab goes to the next column that this divides."""

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")


def cut(data: bytes, at: int = 0) -> tuple[list[bytes], list[int]]:
    """The lines from byte `at` on, without terminators, and the byte where each starts.

    A text that ends with a terminator has no line after it.
    """
    returns = data.count(b"\r")
    if not returns or returns == data.count(b"\r\n") == data.count(b"\n"):
        end = b"\r\n" if returns else b"\n"
        lines = data[at:].split(end)
        starts = list(accumulate((len(line) + len(end) for line in lines), initial=at))
    else:
        found = list(_LINE.finditer(data, at))
        lines = [each[1] for each in found]
        starts = [each.start() for each in found]
        if len(found) > 1 and not found[-1][0] and not found[-2][2]:
            lines.pop()  # the empty match after a last line without terminator
    if not lines[-1]:
        lines.pop()
    del starts[len(lines) :]
    return lines, starts


def encode(text: str) -> bytes:
    """The bytes of a text; what `decode` made of bytes that are no UTF-8 becomes those bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """The text of the bytes; bytes that are no UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def newline_of(data: bytes) -> bytes:
    """The terminator most lines have: CRLF, CR when there is no LF at all, else LF."""
    pairs, feeds, returns = data.count(b"\r\n"), data.count(b"\n"), data.count(b"\r")
    if 2 * pairs > feeds:
        return b"\r\n"
    return b"\r" if returns and not feeds else b"\n"
