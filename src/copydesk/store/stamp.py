"""The stamp of a file: what `stat` says that tells one state of a file from the next.

Invariant: two equal stamps of which the older is settled mean that nobody wrote to the
file in between (network clocks and mmap aside).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

_FINE_CLOCK_NS = 20_000_000
_COARSE_CLOCK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """One state of one regular file; equality leaves `settled` out.

    Sizes in bytes, times in nanoseconds since the epoch, `mode` with the type
    bits. `settled` is False when the stamp was taken so soon after the last
    write that a further write could have left the same times: then only the
    content can tell, and who relies on the stamp compares it as well.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    nlink: int
    settled: bool = field(default=True, compare=False)

    @staticmethod
    def of(found: os.stat_result, now_ns: int) -> Stamp:
        """The stamp of a `stat` made no earlier than `now_ns`."""
        return Stamp(
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            found.st_mode,
            found.st_nlink,
            _settled(found.st_ctime_ns, now_ns),
        )

    def stands_in(self, found: os.stat_result) -> bool:
        """Whether `found` is the same file in the same state, as far as `stat` can tell."""
        return (
            self.ino == found.st_ino
            and self.ctime_ns == found.st_ctime_ns
            and self.mtime_ns == found.st_mtime_ns
            and self.size == found.st_size
            and self.mode == found.st_mode
            and self.nlink == found.st_nlink
            and self.dev == found.st_dev
        )


def _settled(ctime_ns: int, now_ns: int) -> bool:
    # A whole second is the mark of a file system that keeps no finer times (FAT, HFS+).
    tick = _FINE_CLOCK_NS if ctime_ns % _SECOND_NS else _COARSE_CLOCK_NS
    return now_ns - ctime_ns > tick
