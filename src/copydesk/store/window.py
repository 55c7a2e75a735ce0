"""Some lines of a file of any size, in bounded memory.

What lives here: counting lines block by block, and reading only what is shown.
What must not: text (the caller decodes). Invariant: no more than a block and
the window is held, whatever the file has in it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from copydesk.errors import BinaryFile
from copydesk.store.pieces import read_at
from copydesk.text.encoding import Encoding

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Window:
    """Whole lines, as bytes from `start`, and what the pass over the file told.

    `first_line` is 0-based, None with `total_lines` and `digest` when only the
    end was looked at. `more`: the bytes were cut before the lines ended.
    """

    data: bytes
    first_line: int | None
    total_lines: int | None
    digest: str | None
    more: bool


def forward(fd: int, size: int, encoding: Encoding, first_line: int, most_bytes: int) -> Window:
    """The window from line `first_line` (0-based) on, of at most `most_bytes`.

    The whole file is read once, for the count of its lines and its digest.
    Raises BinaryFile for a NUL where the code unit is one byte.
    """
    begin, lines = len(encoding.bom), 0
    start = begin if first_line == 0 else None
    digest = hashlib.sha256()
    at, last = 0, b""
    while block := read_at(fd, BLOCK, at):
        digest.update(block)
        if encoding.unit == 1 and (nul := block.find(b"\0")) >= 0:
            raise BinaryFile(at + nul)
        body = block[begin:] if at == 0 else block
        found = _count(body, encoding)
        if start is None and lines + found >= first_line:
            offset = _after(body, encoding, first_line - lines)
            start = at + len(block) - len(body) + offset
        lines += found
        at, last = at + len(block), block
    closed = last.endswith(encoding.encode("\n"))
    total = lines + (at > begin and not closed)
    from_ = size if start is None else start
    data = read_at(fd, most_bytes, from_)
    return Window(data, first_line, total, digest.hexdigest(), from_ + len(data) < size)


def backward(fd: int, size: int, encoding: Encoding, lines: int, most_bytes: int) -> Window:
    """The window of the last `lines` lines; only the end of the file is read.

    Raises BinaryFile for a NUL in it where the code unit is one byte.
    """
    newline = encoding.encode("\n")
    wanted = lines + (read_at(fd, len(newline), max(size - len(newline), 0)) == newline)
    begin = len(encoding.bom)
    at = size
    start = begin
    while at > begin and wanted > 0:
        low = max(begin, at - BLOCK)
        low += (low - begin) % encoding.unit
        block = read_at(fd, at - low, low)
        if encoding.unit == 1 and (nul := block.rfind(b"\0")) >= 0:
            raise BinaryFile(low + nul)
        found = _count(block, encoding)
        if found >= wanted:
            start = low + _after(block, encoding, found - wanted + 1)
            break
        wanted, at = wanted - found, low
    data = read_at(fd, most_bytes, start)
    return Window(data, None, None, None, start + len(data) < size)


def _count(block: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return block.count(b"\n")
    return encoding.decode(block).count("\n")


def _after(block: bytes, encoding: Encoding, nth: int) -> int:
    """The offset just after the nth line feed of the block, nth from 1; 0 for the 0th."""
    newline, offset = encoding.encode("\n"), 0
    while nth > 0:
        offset = block.index(newline, offset)
        if offset % encoding.unit:
            offset += 1
            continue
        offset += len(newline)
        nth -= 1
    return offset
