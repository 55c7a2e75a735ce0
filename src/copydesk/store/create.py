"""New files, and the removal of files.

What lives here: the order of the calls. What must not: parents and paths (a
`Place` is handed in). Invariant: a file that was there, or appears at the same
moment, is never clobbered; a new file appears with all its bytes or not at all,
save on systems that have neither an exclusive rename nor links.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from copydesk.errors import FileExists, NotAFile
from copydesk.store import _os
from copydesk.store.displaced import Known, awaited, opened, rescued
from copydesk.store.flush import DirFlush
from copydesk.store.pieces import sha256_of, write_all
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Kept, TargetMoved
from copydesk.store.refused import kind_of, putting_back
from copydesk.store.replace import (
    Hooks,
    check_target,
    copy_beside,
    holds,
    require_ours,
    stamp_of_ours,
)
from copydesk.store.stamp import Stamp
from copydesk.store.temp import discard, move_away, open_temp

_NO_SUCH_CALL = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
_DEFAULT_MODE = 0o666


@contextmanager
def staged(
    place: Place, data: bytes, *, durability: Durability, hooks: Hooks
) -> Generator[Creation]:
    """The new file with the default mode, complete without its name; it is gone after
    unless it was committed. Raises FileExists, NotAFile, OSError, with nothing left behind.
    """
    refuse_existing(place)
    with DirFlush(place.dir_fd, wanted=durability == "full") as flush:
        fd, temp = open_temp(place.dir_fd, _DEFAULT_MODE, place.name)
        ours = _filled(place, fd, temp, data, durability)
        ready = Creation(place, data, durability, flush, temp, ours, hooks)
        try:
            yield ready
        finally:
            ready.leave()


class Creation:
    """A new file that has no name yet; `staged` makes it."""

    def __init__(
        self,
        place: Place,
        data: bytes,
        durability: Durability,
        flush: DirFlush,
        temp: bytes,
        ours: os.stat_result,
        hooks: Hooks,
    ) -> None:
        self._place, self._data, self._hooks = place, data, hooks
        self._durability: Durability = durability
        self._flush, self._temp, self._ours = flush, temp, ours
        self.digest = ""

    def commit(self) -> Stamp:
        """Give it the name; raises FileExists, NotAFile, OSError, and the name is free then.

        NotPutBack when it may not be.
        """
        self._hooks.may_write()
        self._put()
        try:
            self._flush.now(self._place.name)
        except OSError:
            with putting_back():
                self._take_away()
            raise
        return stamp_of_ours(self._place, self._ours)

    def put_back(self, sha256: str) -> None:
        """Remove it again, if what was written, of this digest, still stands there.

        Raises TargetMoved when it does not, OSError.
        """
        require_ours(self._place, self._ours, sha256)
        if not self._take_away():
            raise TargetMoved()
        self._flush.now(b".")

    def leave(self) -> None:
        """Remove what has no name yet."""
        if self._temp:
            discard(self._place.dir_fd, self._temp)

    def _take_away(self) -> bool:
        """Whether our file is gone again; what another program wrote to it stays."""
        known = Known.as_written(self._ours, lambda: hashlib.sha256(self._data).hexdigest())
        return holds(self._place, self._ours) and taken_away(self._place, known, self._hooks)

    def _put(self) -> None:
        temp, self._temp = self._temp, b""
        try:
            _give_name(self._place, temp)
        except OSError as refused:
            if refused.errno == errno.EEXIST:
                refuse_existing(self._place)
                raise FileExists() from None  # it has gone again
            if refused.errno not in _NO_SUCH_CALL:
                raise
        else:
            return
        fd = _os.open_new(self._place.dir_fd, self._place.name, _DEFAULT_MODE)
        self._ours = _filled(self._place, fd, self._place.name, self._data, self._durability)


def remove(
    place: Place,
    old_fd: int,
    expected: Stamp,
    expected_sha256: str,
    *,
    durability: Durability,
    hooks: Hooks,
) -> None:
    """Remove the name of the file open as `old_fd`; raises TargetMoved, OSError, NotPutBack."""
    old = _os.fstat(old_fd)
    if not expected.stands_in(old):
        raise TargetMoved()
    with DirFlush(place.dir_fd, wanted=durability == "full") as flush:
        hooks.may_write()
        check_target(place, old_fd, expected, expected_sha256)
        if not taken_away(place, Known.as_read(expected, expected_sha256), hooks):
            raise TargetMoved()
        try:
            flush.now(b".")
        except OSError:
            with putting_back():
                made = copy_beside(place, old_fd, old, [Kept(0, old.st_size)], durability="fast")
                _give_name(place, made.named(place))
            raise


def taken_away(place: Place, known: Known, hooks: Hooks) -> bool:
    """Whether the file at the place is gone, as it is known; else it has its name again.

    It gets a temporary name first, so that what is removed can be looked at; what was
    written to it at that very moment stays. Raises OSError with the file in its place,
    NotPutBack.
    """
    try:
        temp = move_away(place.dir_fd, place.name)
    except FileNotFoundError:
        return False
    with ExitStack() as held:
        fd = -1
        try:
            fd = opened(place, temp, held)
            if fd >= 0 and awaited(fd) and _is(known, fd):
                if hooks.late is not None:
                    hooks.late.take(_os.duplicate(fd), place.real, known)
                discard(place.dir_fd, temp)
                return True
        except OSError:
            with putting_back():
                _give_back(place, temp)
            raise
        with putting_back():
            try:
                _give_back(place, temp)
            except FileExistsError:  # another program has made a new one
                if fd >= 0:
                    rescued(place, temp, fd, known, hooks.keep)
        return False


def _is(known: Known, fd: int) -> bool:
    """Whether the open file is as it is known, its content too, where its digest is known."""
    digest = known.sha256()
    return known.stands_in(_os.fstat(fd)) and digest in ("", sha256_of(fd, known.size))


def _give_back(place: Place, temp: bytes) -> None:
    """Give the name back unless something has it; raises OSError with the temporary one kept."""
    try:
        _os.rename_no_replace(place.dir_fd, temp, place.name)
    except FileExistsError:
        raise
    except OSError:  # the system cannot, or not now
        _os.link(place.dir_fd, temp, place.name)
        discard(place.dir_fd, temp)


def refuse_existing(place: Place) -> None:
    """Raise FileExists or NotAFile when anything has the name."""
    if not place.name:
        raise NotAFile("directory")
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except FileNotFoundError:
        return
    if stat.S_ISREG(found.st_mode):
        raise FileExists(found.st_size)
    raise NotAFile(kind_of(found.st_mode))


def _filled(
    place: Place, fd: int, name: bytes, data: bytes, durability: Durability
) -> os.stat_result:
    finished = False
    try:
        try:
            write_all(fd, data)
            if durability == "full":
                _os.sync(fd)
            ours = _os.fstat(fd)
        finally:
            _os.close(fd)
        finished = True
    finally:
        if not finished:
            discard(place.dir_fd, name)
    return ours


def _give_name(place: Place, temp: bytes) -> None:
    """Move the temporary file to the name unless something has it; it is gone in any case."""
    moved = False
    try:
        try:
            _os.rename_no_replace(place.dir_fd, temp, place.name)
            moved = True
        except OSError as refused:
            if refused.errno not in _NO_SUCH_CALL:
                raise
            _os.link(place.dir_fd, temp, place.name)
    finally:
        if not moved:
            discard(place.dir_fd, temp)
