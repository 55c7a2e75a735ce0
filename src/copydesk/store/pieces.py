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


def write_pieces(fd: int, pieces: Iterable[Piece], old_fd: int) -> None:
    """Write the pieces from where `fd` stands; `Kept` comes from `old_fd`.

    Small pieces are gathered up to one chunk of 1 MiB. Raises TargetMoved when
    the old file has become shorter than a kept range.
    """
    gathered: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, Kept) or size + len(piece) > _CHUNK:
            write_all(fd, b"".join(gathered))
            gathered.clear()
            size = 0
        if isinstance(piece, Kept):
            _copy(old_fd, fd, piece.start, piece.stop)
        else:
            gathered.append(piece)
            size += len(piece)
    write_all(fd, gathered[0] if len(gathered) == 1 else b"".join(gathered))


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


def _copy(old_fd: int, fd: int, start: int, stop: int) -> None:
    if not 0 <= start <= stop:
        raise ValueError(f"{Kept(start, stop)} is not a range")
    while start < stop:
        count = _os.copy_range(old_fd, fd, start, stop - start)
        if count == 0:
            break
        start += count
    while start < stop:
        data = _os.pread(old_fd, min(_CHUNK, stop - start), start)
        if not data:
            raise TargetMoved("the old file has become shorter")
        write_all(fd, data)
        start += len(data)
