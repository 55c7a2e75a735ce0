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
from copydesk.store.pieces import from_memory, read_at, write_all, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Piece, TargetMoved
from copydesk.store.refused import putting_back
from copydesk.store.stamp import Stamp


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
        with _alone(self._fd):
            if _checked(self._fd, self._expected, self._expected_sha256) != self._old:
                raise TargetMoved()
            self._written = _overwrite(
                self._fd, self._old, self._new, self._expected, self._durability
            )
        return self._written

    def put_back(self, sha256: str) -> None:
        """Write the old bytes again, if what was written, of this digest, still stands there.

        Raises TargetMoved when it does not, OSError, NotPutBack.
        """
        with _alone(self._fd):
            now = _checked(self._fd, self._written, sha256)
            _restore(self._fd, self._old, len(now), self._expected.mode, self._durability)


@contextmanager
def _alone(fd: int) -> Generator[None]:
    """Nobody else opens the file meanwhile, where the system has leases and nobody has it open.

    Who wants to waits until it is written. Elsewhere, what is appended at that very
    moment is seen by the size of the file and stays at its end; a lease closes the rest.
    """
    taken = False
    for seconds in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016):
        if seconds:
            _os.pause(seconds)
        taken = bool(_os.lease(fd, "F_WRLCK"))
        if taken:
            break
    try:
        yield
    finally:
        if taken:
            _os.lease(fd, "F_UNLCK")


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
        stamp = _write_whole(fd, new, len(old), expected.mode, durability)
        finished = True
    finally:
        if not finished:
            size = max(len(old), sum(map(len, new)))
            _restore(fd, old, size, expected.mode, durability)
    return stamp


def _restore(fd: int, old: bytes, size: int, mode: int, durability: Durability) -> None:
    with putting_back():
        _write_whole(fd, [old], size, mode, durability)


def _write_whole(
    fd: int, pieces: list[bytes | memoryview], old_size: int, mode: int, durability: Durability
) -> Stamp:
    """Write all of a file that had at most `old_size` bytes; what was appended since stays."""
    size = sum(map(len, pieces))
    _os.seek_start(fd)
    write_pieces(fd, pieces, fd)
    known = max(size, old_size)
    tail = read_at(fd, max(_os.fstat(fd).st_size - known, 0), known) if size < known else b""
    if tail:
        write_all(fd, tail)
    if size < known:
        _os.truncate(fd, size + len(tail))
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
