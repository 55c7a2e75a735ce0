"""Some lines of a file of any size, in bounded memory.

What lives here: counting lines block by block, and reading only what is shown.
What must not: what is done with the lines. Invariant: no more than two blocks
and the window are held, whatever the file has in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from copydesk.errors import BinaryFile
from copydesk.store.pieces import read_at
from copydesk.store.protocol import Window
from copydesk.store.stamp import Stamp
from copydesk.text.encoding import Encoding, detect_head

BLOCK = 4 << 20
_LONGEST_CHARACTER = 4


Known = tuple[int, str]
"""The line count and the SHA-256 of a file, where an earlier pass over it told them."""


def look(
    fd: int,
    stamp: Stamp,
    first_line: int,
    most_bytes: int,
    named: str | None,
    known: Known | None,
    *,
    last: bool,
) -> Window:
    """The window from line `first_line` on, or with `last` of the last so many lines.

    `most_bytes` bounds it. With `last` only the end of the file is read; else all of
    it once, for the count of its lines and its digest, or what comes before the
    window when these are `known`. Raises OSError, BinaryFile.
    """
    encoding = detect_head(read_at(fd, _LONGEST_CHARACTER, 0), named)
    if last:
        end_start = _start_of_last(fd, stamp.size, encoding, first_line)
        return _window(fd, stamp, encoding, end_start, None, None, None, most_bytes)
    begin, lines = len(encoding.bom), 0
    start: int | None = begin if first_line == 0 else None
    newline, end = encoding.encode("\n"), b""
    digest = hashlib.sha256()
    with ThreadPoolExecutor(1) as other:
        hashed: Future[None] | None = None
        for at, block in _blocks(fd):
            if known is not None and start is not None:
                break
            if hashed is not None:
                hashed.result()
            if known is None:
                hashed = other.submit(digest.update, block)  # lets the lock of Python go
            _check(block, at, encoding)
            body = block[begin:] if at == 0 and begin else block
            found = _count(body, encoding)
            if start is None and lines + found >= first_line:
                start = at + len(block) - len(body) + _after(body, encoding, first_line - lines)
            lines, end = lines + found, block[-len(newline) :]
        if hashed is not None:
            hashed.result()
    total = lines + (stamp.size > begin and end != newline)
    total, sha256 = known or (total, digest.hexdigest())
    from_ = stamp.size if start is None else start
    return _window(fd, stamp, encoding, from_, first_line, total, sha256, most_bytes)


def _window(
    fd: int,
    stamp: Stamp,
    encoding: Encoding,
    start: int,
    first_line: int | None,
    total: int | None,
    sha256: str | None,
    most_bytes: int,
) -> Window:
    data = read_at(fd, most_bytes, start)
    _check(data, start, encoding)
    if encoding.name == "utf-8" and not _decodes(data):
        encoding = Encoding("unknown", encoding.bom, 1)
    more = start + len(data) < stamp.size
    return Window(stamp, encoding, data, first_line, total, sha256, more)


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
    step = 64 << 10
    while at > begin:
        low = max(begin, at - step)
        low += (low - begin) % encoding.unit
        block = read_at(fd, at - low, low)
        found = _count(block, encoding)
        if found >= wanted:
            return low + _after(block, encoding, found - wanted + 1)
        wanted, at, step = wanted - found, low, BLOCK
    return begin


def _blocks(fd: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while block := read_at(fd, BLOCK, at):
        yield at, block
        at += len(block)


def _check(block: bytes, at: int, encoding: Encoding) -> None:
    if encoding.unit == 1 and (nul := block.find(b"\0")) >= 0:
        raise BinaryFile(at + nul)


def _count(block: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return block.count(b"\n")
    return encoding.decode(block).count("\n")


def _after(block: bytes, encoding: Encoding, nth: int) -> int:
    """The offset just after the nth line feed of the block, nth from 1; 0 for the 0th."""
    newline, offset = encoding.encode("\n"), 0
    if encoding.unit == 1:
        return _skip(block, nth)
    while nth > 0:
        offset = block.index(newline, offset)
        if offset % encoding.unit:
            offset += 1
            continue
        offset += len(newline)
        nth -= 1
    return offset


def _skip(block: bytes, nth: int) -> int:
    """The offset just after the nth LF, by halving the stretch that must hold it."""
    low, high = 0, len(block)
    while nth and high - low > 4096:
        middle = (low + high) // 2
        before = block.count(b"\n", low, middle)
        if before >= nth:
            high = middle
        else:
            low, nth = middle, nth - before
    for _ in range(nth):
        low = block.index(b"\n", low) + 1
    return low
