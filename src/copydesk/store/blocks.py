"""A large file in blocks of whole lines.

What lives here: the cutting of blocks, and the place of a line feed in one. What
must not: what is done with them. Invariant: the blocks in their order are the
file from its first byte to the last, each at whole code units.
"""

from __future__ import annotations

from collections.abc import Iterator

from copydesk.store.pieces import read_at
from copydesk.text import sizes
from copydesk.text.encoding import Encoding

_LEAST = 8
"""A byte order mark and a code unit are in one block."""


def blocks(fd: int, size: int, encoding: Encoding) -> Iterator[tuple[int, bytes]]:
    """The blocks with the byte where each starts; a line longer than a block comes in pieces.

    Ends early when the file has become shorter. The byte order mark is in the first.
    """
    at, unit = 0, encoding.unit
    most = max(sizes.BLOCK, _LEAST)
    newline = encoding.encode("\n")
    while at < size:
        block = read_at(fd, min(most, size - at), at)
        if not block:
            return
        if at + len(block) < size:
            cut = after_last(block, newline)
            block = block[: cut or len(block) - len(block) % unit]
        yield at, block
        at += len(block)


def after_last(block: bytes, newline: bytes) -> int:
    """The offset just after the last line feed of the block; 0 when there is none."""
    at = len(block)
    while (at := block.rfind(newline, 0, at)) >= 0:
        if at % len(newline) == 0:
            return at + len(newline)
        at += len(newline) - 1
    return 0


def after_nth(block: bytes, newline: bytes, nth: int) -> int:
    """The offset just after the nth line feed of the block, nth from 1, which is there."""
    if len(newline) == 1:
        return _skip(block, nth)
    offset = 0
    while nth > 0:
        offset = block.index(newline, offset)
        if offset % len(newline):
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
