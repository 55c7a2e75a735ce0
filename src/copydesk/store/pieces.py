"""Writing a content that comes in pieces.

What lives here: short writes, copying inside the kernel, bounded memory. What
must not: names of files. Invariant: all of the pieces are written in their
order, or OSError or TargetMoved is raised.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable

from copydesk.store import _os
from copydesk.store.protocol import Kept, Piece, TargetMoved

_CHUNK = 1 << 20
_GATHERED = 16 << 20


def write_pieces(fd: int, pieces: Iterable[Piece], old_fd: int, *, start: bool = False) -> None:
    """Write the pieces from where `fd` stands, at its first byte; `Kept` comes from `old_fd`.

    Pieces are gathered: they are written in few calls. `start`: the system may
    bring to the disk what is written while the rest is. Raises TargetMoved when
    the old file has become shorter than a kept range.
    """
    out = _Out(fd, start=start)
    for piece in pieces:
        if isinstance(piece, Kept):
            out.flush()
            _copy(old_fd, out, piece.start, piece.stop)
        elif piece:
            out.take(piece)
    out.flush()


class _Out:
    """A file that is written from its first byte on."""

    def __init__(self, fd: int, *, start: bool) -> None:
        self.fd, self._start = fd, start
        self._at = self._size = 0
        self._gathered: list[bytes | memoryview] = []

    def take(self, piece: bytes | memoryview) -> None:
        """Write the piece soon."""
        self._gathered.append(piece)
        self._size += len(piece)
        if self._size >= _GATHERED or len(self._gathered) == _os.MOST_PARTS:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        gathered, size = self._gathered, self._size
        self._gathered, self._size = [], 0
        if size <= _CHUNK:
            write_all(self.fd, gathered[0] if len(gathered) == 1 else b"".join(gathered))
        else:
            _write_parts(self.fd, gathered)
        self.wrote(size)

    def wrote(self, count: int) -> None:
        """So many more bytes are in the file."""
        if self._start and count > _CHUNK:
            _os.start_writing(self.fd, self._at, count)
        self._at += count


def _write_parts(fd: int, parts: list[bytes | memoryview]) -> None:
    """Write every byte of the parts; raises OSError."""
    done = _os.write_many(fd, parts)
    for part in parts:
        if done < len(part):
            write_all(fd, memoryview(part)[done:])
            done = 0
        else:
            done -= len(part)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; raises OSError."""
    if not data:
        return
    done = _os.write(fd, data)
    if done == len(data):
        return
    view = memoryview(data)
    while done < len(view):
        count = _os.write(fd, view[done:])
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        done += count


def read_at(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` (0-based) on, or what there is of them; raises OSError."""
    data = _os.pread(fd, count, offset)
    if len(data) == count or not data:
        return data
    parts = [data]
    have = len(data)
    while have < count:
        data = _os.pread(fd, count - have, offset + have)
        if not data:
            break
        parts.append(data)
        have += len(data)
    return b"".join(parts)


def sha256_of(fd: int, size: int) -> str:
    """The digest of the first `size` bytes as 64 lower-case hex digits, in bounded memory."""
    digest = hashlib.sha256()
    offset = 0
    while offset < size:
        data = _os.pread(fd, min(_CHUNK, size - offset), offset)
        if not data:
            break
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def from_memory(pieces: Iterable[Piece], old: bytes) -> list[bytes | memoryview]:
    """The pieces with the old bytes in the place of `Kept`."""
    view = memoryview(old)
    return [
        view[_checked(piece, len(old))] if isinstance(piece, Kept) else piece for piece in pieces
    ]


def _checked(kept: Kept, size: int) -> slice:
    if not 0 <= kept.start <= kept.stop <= size:
        raise ValueError(f"{kept} is not within {size} bytes")
    return slice(kept.start, kept.stop)


def _copy(old_fd: int, out: _Out, start: int, stop: int) -> None:
    if not 0 <= start <= stop:
        raise ValueError(f"{Kept(start, stop)} is not a range")
    while start < stop:
        count = _os.copy_range(old_fd, out.fd, start, min(stop - start, _GATHERED))
        if count == 0:
            break
        start += count
        out.wrote(count)
    while start < stop:
        data = _os.pread(old_fd, min(_CHUNK, stop - start), start)
        if not data:
            raise TargetMoved("the old file has become shorter")
        write_all(out.fd, data)
        start += len(data)
        out.wrote(len(data))
