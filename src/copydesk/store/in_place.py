"""Another content for a file that has several names: written in place.

What lives here: overwriting, and undoing a write that broke off. What must not:
the journal (a callback stands for it). Invariant: before the first byte changes
the callback has had the old ones; when TargetMoved or OSError is raised the
file holds them.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from copydesk.store import _os
from copydesk.store.pieces import from_memory, read_at, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Piece, TargetMoved
from copydesk.store.refused import putting_back
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

    Raises TargetMoved, OSError, what the callback raises, and NotPutBack when
    the write broke off and the old bytes could not be put back.
    """
    with staged(
        place,
        expected,
        expected_sha256,
        pieces,
        before_in_place=before_in_place,
        durability=durability,
    ) as ready:
        return ready.commit()


@contextmanager
def staged(
    place: Place,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    before_in_place: Callable[[bytes], None],
    durability: Durability,
) -> Generator[Overwriting]:
    """The file open for writing, and its new bytes in memory."""
    try:
        fd = _os.open_update(place.dir_fd, place.name)
    except OSError as refused:
        if refused.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR):
            raise TargetMoved() from None
        raise
    try:
        old = _checked(fd, expected, expected_sha256)
        new = from_memory(pieces, old)
        yield Overwriting(fd, expected, expected_sha256, old, new, before_in_place, durability)
    finally:
        _os.close_quietly(fd)


class Overwriting:
    """A file that is about to be written in place; `staged` makes it."""

    def __init__(
        self,
        fd: int,
        expected: Stamp,
        expected_sha256: str,
        old: bytes,
        new: list[bytes | memoryview],
        before_in_place: Callable[[bytes], None],
        durability: Durability,
    ) -> None:
        self._fd, self._expected, self._expected_sha256 = fd, expected, expected_sha256
        self._old, self._new, self._before = old, new, before_in_place
        self._durability: Durability = durability
        self._written = expected
        self.digest = ""

    def commit(self) -> Stamp:
        """Write it; raises TargetMoved, OSError, what the callback raises, and NotPutBack."""
        self._before(self._old)
        if _checked(self._fd, self._expected, self._expected_sha256) != self._old:
            raise TargetMoved()
        self._written = _overwrite(self._fd, self._old, self._new, self._expected, self._durability)
        return self._written

    def put_back(self, sha256: str) -> None:
        """Write the old bytes again, if what was written, of this digest, still stands there.

        Raises TargetMoved when it does not, OSError, NotPutBack.
        """
        _checked(self._fd, self._written, sha256)
        _restore(self._fd, self._old, self._expected.mode, self._durability)


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
    with putting_back():
        _write_whole(fd, [old], mode, durability)


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
