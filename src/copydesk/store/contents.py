"""Bytes of files: how they are read, written in pieces and digested meanwhile.

Invariant: all pieces are written in order, or an exception is raised.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from copydesk.errors import NotAFile
from copydesk.store import _os
from copydesk.store.protocol import Closing, Kept, Piece, Stamp, TargetMoved, kind_of
from copydesk.store.threads import close_of_size, in_thread
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from _hashlib import HASH

_CHUNK = 1 << 20
_GATHERED = 16 << 20


def write_pieces(fd: int, pieces: Iterable[Piece], old_fd: int, *, start: bool = False) -> None:
    """Write the pieces at the position of `fd`, its first byte; `Kept` comes from `old_fd`.

    Pieces are gathered to be written in few calls. `start`: the system may flush what is written
    while the rest is being written. Raises TargetMoved if the old file has become shorter than a
    kept range.
    """
    at = 0
    for parts in _gathered(pieces):
        counts = (
            _copied(old_fd, fd, parts) if isinstance(parts, Kept) else (_write_parts(fd, parts),)
        )
        for count in counts:
            if start and count > _CHUNK:
                _os.start_writing(fd, at, count)
            at += count


def _gathered(pieces: Iterable[Piece]) -> Iterator[Kept | list[bytes | memoryview]]:
    """The pieces in order; those that are to be written come in lists, one for each call."""
    parts: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, Kept) or size >= _GATHERED or len(parts) == _os.MOST_PARTS:
            yield parts
            parts, size = [], 0
        if isinstance(piece, Kept):
            yield piece
        elif piece:
            parts.append(piece)
            size += len(piece)
    yield parts


def _write_parts(fd: int, parts: Sequence[bytes | memoryview]) -> int:
    size = sum(map(len, parts))
    if size <= _CHUNK:
        write_all(fd, parts[0] if len(parts) == 1 else b"".join(parts))
    elif (done := _os.write_many(fd, parts)) < size:
        write_all(fd, memoryview(b"".join(parts))[done:])
    return size


def _copied(old_fd: int, fd: int, kept: Kept) -> Iterator[int]:
    """Copy a range, in the kernel as far as it can; yields the number of bytes of each call."""
    at = kept.start
    while at < kept.stop:
        count = _os.copy_range(old_fd, fd, at, min(kept.stop - at, _GATHERED))
        if count == 0:
            break
        at += count
        yield count
    while at < kept.stop:
        data = _os.pread(old_fd, min(_CHUNK, kept.stop - at), at)
        if not data:
            raise TargetMoved("the old file has become shorter")
        write_all(fd, data)
        at += len(data)
        yield len(data)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; raises OSError."""
    left = data
    while left:
        count = _os.write(fd, left)
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        left = memoryview(left)[count:]


def read_at(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` (0-based) on, fewer at the end of the file; raises OSError."""
    data = _os.pread(fd, count, offset)
    while len(data) < count and (more := _os.pread(fd, count - len(data), offset + len(data))):
        data += more
    return data


def sha256_of(fd: int, size: int) -> str:
    """The digest of the first `size` bytes as 64 lower-case hex digits, in bounded memory."""
    digest = hashlib.sha256()
    at = 0
    # No more than there is: room for a whole chunk is mapped and unmapped each time.
    while at < size and (data := _os.pread(fd, min(_CHUNK, size - at), at)):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


def from_memory(pieces: Iterable[Piece], old: bytes) -> list[bytes | memoryview]:
    """The pieces with the old bytes in place of `Kept`."""
    view = memoryview(old)
    return [view[one.start : one.stop] if isinstance(one, Kept) else one for one in pieces]


_STEP = 4 << 20
"""Bytes that are digested at once."""

_APART = 64 << 10
"""Pieces of so many bytes on average are digested one by one; smaller ones are joined."""

States = Sequence[tuple[int, "HASH"]]
"""The digests of prefixes of a file, each with the length of its prefix, in order."""


class Digest(Closing):
    """The SHA-256 of pieces, computed in a thread; the context ends when the thread has ended.

    `known` are states of the digest of the file that is open as `old_fd`; `states` are those of
    this one, once there is a result. It reads the file itself, since blocks handed over one by one
    would wait for the GIL.
    """

    def __init__(self, pieces: Sequence[Piece], old_fd: int = -1, known: States = ()) -> None:
        self.states: list[tuple[int, HASH]] = []
        self._stopped = False
        self._future = in_thread(self._digest, pieces, old_fd, known)

    def close(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> str:
        """The digest in hex; raises TargetMoved if the old file has become shorter, OSError."""
        return self._future.result()

    def _digest(self, pieces: Sequence[Piece], old_fd: int, known: States) -> str:
        state, at, first = hashlib.sha256(), 0, pieces[0] if pieces else b""
        if isinstance(first, Kept) and first.start == 0:
            index = bisect_right(known, first.stop, key=itemgetter(0))
            if index:  # the last state that the new content shares
                at, shared = known[index - 1]
                state, pieces = shared.copy(), (Kept(at, first.stop), *pieces[1:])
        for data in _bytes_of(pieces, old_fd):
            if self._stopped:
                break
            state.update(data)
            at += len(data)
            self.states.append((at, state.copy()))
        return state.hexdigest()


def _bytes_of(pieces: Iterable[Piece], old_fd: int) -> Iterator[bytes | memoryview]:
    """The bytes of the pieces, few at a time; each value is valid until the next one."""
    for parts in _gathered(pieces):
        if isinstance(parts, Kept):
            at, room = parts.start, memoryview(bytearray(min(_STEP, parts.stop - parts.start)))
            while at < parts.stop:
                read = _os.pread_into(old_fd, room[: parts.stop - at], at)
                if not read:
                    raise TargetMoved("the old file has become shorter")
                yield room[:read]
                at += read
        elif sum(map(len, parts)) < _APART * len(parts):
            yield b"".join(parts)
        else:
            yield from parts


@dataclass(frozen=True, slots=True)
class OpenFile(Closing):
    """A regular file open for reading, with its real path, until its context ends; a `Content`."""

    real: RelPath
    stamp: Stamp
    fd: int

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        """Compress the bytes and close; None for another SHA-256 or more than `most_bytes`."""
        # zlib and SHA-256 release the GIL: this takes a core, and no turn of others
        state, packer = hashlib.sha256(), zlib.compressobj(1)
        parts: list[bytes] = []
        at = size = 0
        try:
            while block := _os.pread(self.fd, sizes.BLOCK, at):
                at += len(block)
                state.update(block)
                parts.append(packer.compress(block))
                size += len(parts[-1])
                if size > most_bytes:
                    return None
        except OSError:
            return None
        finally:
            self.close()
        return b"".join((*parts, packer.flush())) if state.hexdigest() == digest else None

    def close(self) -> None:
        """Close the file."""
        close_of_size(self.fd, self.stamp.size)


def stamp_of_regular(found: os.stat_result, now_ns: int) -> Stamp:
    """The stamp of a `stat` made no earlier than `now_ns`; NotAFile if it is not a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(kind_of(found.st_mode))
    return Stamp.of(found, now_ns)
