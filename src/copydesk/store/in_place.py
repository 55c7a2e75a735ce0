"""Another content for a file that has several names: written in place.

What lives here: overwriting, and undoing a write that broke off. What must not:
the journal (a callback stands for it). Invariant: before the first byte changes
the callback has had the old ones; when TargetMoved or OSError is raised the
file holds them.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable

from copydesk.store import _os
from copydesk.store.pieces import from_memory, read_at, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, InPlaceTorn, Piece, TargetMoved
from copydesk.store.stamp import Stamp


def write_in_place(
    place: Place,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    before_in_place: Callable[[bytes], None],
    durability: Durability,
) -> Stamp:
    """Overwrite the file at the place, keeping its inode; the new stamp.

    Raises TargetMoved, OSError, what the callback raises, and InPlaceTorn when
    the write broke off and the old bytes could not be put back.
    """
    try:
        fd = _os.open_update(place.dir_fd, place.name)
    except OSError as refused:
        if refused.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR):
            raise TargetMoved() from None
        raise
    try:
        old = _checked(fd, expected, expected_sha256)
        new = from_memory(pieces, old)
        before_in_place(old)
        if _checked(fd, expected, expected_sha256) != old:
            raise TargetMoved()
        return _overwrite(fd, old, new, expected, durability)
    finally:
        _os.close_quietly(fd)


def _checked(fd: int, expected: Stamp, expected_sha256: str) -> bytes:
    if not expected.stands_in(_os.fstat(fd)):
        raise TargetMoved()
    data = read_at(fd, expected.size, 0)
    if hashlib.sha256(data).hexdigest() != expected_sha256:
        raise TargetMoved()
    return data


def _overwrite(
    fd: int,
    old: bytes,
    new: list[bytes | memoryview],
    expected: Stamp,
    durability: Durability,
) -> Stamp:
    finished = False
    try:
        stamp = _write_whole(fd, new, expected.mode, durability)
        finished = True
    finally:
        if not finished:
            _restore(fd, old, expected.mode, durability)
    return stamp


def _restore(fd: int, old: bytes, mode: int, durability: Durability) -> None:
    try:
        _write_whole(fd, [old], mode, durability)
    except OSError as refused:
        raise InPlaceTorn(os.strerror(refused.errno or 0)) from refused


def _write_whole(
    fd: int, pieces: list[bytes | memoryview], mode: int, durability: Durability
) -> Stamp:
    _os.seek_start(fd)
    write_pieces(fd, pieces, fd)
    _os.truncate(fd, sum(len(piece) for piece in pieces))
    if durability == "full":
        _os.sync(fd)
    now_ns = _os.now_ns()
    found = _os.fstat(fd)
    if found.st_mode != mode and _mode_put_back(fd, mode):
        found = _os.fstat(fd)
    return Stamp.of(found, now_ns)


def _mode_put_back(fd: int, mode: int) -> bool:
    try:  # a write takes the set-id bits away
        _os.chmod(fd, mode & 0o7777)
    except PermissionError:
        return False
    return True
