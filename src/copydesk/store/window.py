"""Some lines of a file of any size, in bounded memory.

What lives here: reading what is shown, and finding the end's lines from the end.
What must not: the pass over the file (`large`), what is done with the lines.
Invariant: no more than a block and the window are held, whatever the file has in it.
"""

from __future__ import annotations

from copydesk.errors import BinaryFile
from copydesk.store.blocks import after_nth
from copydesk.store.large import LargeFile
from copydesk.store.pieces import read_at
from copydesk.store.protocol import Window
from copydesk.store.stamp import Stamp
from copydesk.text import sizes
from copydesk.text.encoding import UNKNOWN, Encoding, detect_head

_LONGEST_CHARACTER = 4
_FIRST_STEP = 64 << 10


def from_line(file: LargeFile, fd: int, stamp: Stamp, first_line: int, most_bytes: int) -> Window:
    """The lines from `first_line` on, as far as `most_bytes` go; none beyond the last line.

    Raises OSError, BinaryFile, TargetMoved.
    """
    survey = file.survey
    start = file.byte(first_line)
    data = read_at(fd, most_bytes, start)
    more = start + len(data) < stamp.size
    return Window(stamp, survey.encoding, data, first_line, survey.facts, more)


def last_lines(fd: int, stamp: Stamp, lines: int, most_bytes: int, named: str | None) -> Window:
    """The last so many lines, of which `most_bytes` are read; only they are looked at.

    Raises OSError, BinaryFile.
    """
    encoding = detect_head(read_at(fd, _LONGEST_CHARACTER, 0), named)
    start = _start_of_last(fd, stamp.size, encoding, lines)
    data = read_at(fd, most_bytes, start)
    if encoding.unit == 1 and (nul := data.find(b"\0")) >= 0:
        raise BinaryFile(start + nul)
    if encoding.name == "utf-8" and not _decodes(data):
        encoding = Encoding(UNKNOWN, encoding.bom, 1)
    more = start + len(data) < stamp.size
    return Window(stamp, encoding, data, None, None, more)


def _decodes(data: bytes) -> bool:
    """Whether the window is UTF-8, but for a character that its end may have cut."""
    for cut in range(_LONGEST_CHARACTER):
        try:
            data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end < len(data) - _LONGEST_CHARACTER:
                return False
        else:
            return True
    return False


def _start_of_last(fd: int, size: int, encoding: Encoding, lines: int) -> int:
    """The byte where the last `lines` lines start, read from the end."""
    newline, begin = encoding.encode("\n"), len(encoding.bom)
    wanted = lines + (read_at(fd, len(newline), max(size - len(newline), begin)) == newline)
    at = size
    step = _FIRST_STEP
    while at > begin:
        low = max(begin, at - step)
        low += (low - begin) % encoding.unit
        block = read_at(fd, at - low, low)
        found = _count(block, encoding)
        if found >= wanted:
            return low + after_nth(block, newline, found - wanted + 1)
        wanted, at, step = wanted - found, low, sizes.BLOCK
    return begin


def _count(block: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return block.count(b"\n")
    return encoding.decode(block).count("\n")
