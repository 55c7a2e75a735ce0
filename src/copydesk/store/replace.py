"""Another content for a file, in one step: a temporary file, then a rename.

What lives here: the order of the calls that makes it atomic and durable. What
must not: paths (a `Place` is handed in), files with several links (`in_place`).
Invariant: killed at any instant, the name holds the old bytes or the new; when
anything is raised it holds the old ones.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import replace as replace_fields

from copydesk.store import _os
from copydesk.store.attributes import copy_attributes
from copydesk.store.flush import DirFlush, FileFlush
from copydesk.store.hashing import DigestBeside, States
from copydesk.store.pieces import sha256_of, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Kept, Piece, TargetMoved
from copydesk.store.refused import putting_back
from copydesk.store.stamp import Stamp
from copydesk.store.temp import discard, open_temp

_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)


def replace(
    place: Place,
    old_fd: int,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    before_rename: Callable[[Callable[[], str]], None] | None = None,
    states: States = (),
    may_write: Callable[[], None] = lambda: None,
    may_return: Callable[[], None] = lambda: None,
) -> Stamp:
    """Put the pieces in the place of the file open as `old_fd`; the new stamp.

    The new file has the old one's owner, mode, ACL and extended attributes as
    far as the system allows. `before_rename` gets what gives the SHA-256 of the
    new bytes; that is made beside the copying, from the `states` of the old
    file's digest where there are any, and the flush goes on beside it too.
    `may_write` is asked right before the rename, and `may_return` before it is taken
    back; they raise Failed, the first with nothing written.
    Raises TargetMoved when the name does not hold what was expected right
    before the rename, OSError, NotPutBack.
    """
    with staged(
        place,
        old_fd,
        expected,
        expected_sha256,
        pieces,
        durability=durability,
        digested=before_rename is not None,
        states=states,
        may_write=may_write,
        may_return=may_return,
    ) as ready:
        if before_rename is not None:
            before_rename(lambda: ready.digest)
        return ready.commit()


@contextmanager
def staged(
    place: Place,
    old_fd: int,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    digested: bool = False,
    revocable: bool = False,
    states: States = (),
    may_write: Callable[[], None] = lambda: None,
    may_return: Callable[[], None] = lambda: None,
) -> Generator[Replacement]:
    """The new file, complete beside the old one; it is gone after unless it was committed.

    `digested`: with the SHA-256 of its content. `revocable`: the old file is
    kept until the end, so that `put_back` needs no room for it. One that is
    digested and not revocable is still being flushed; `commit` waits for it.
    """
    old = _os.fstat(old_fd)
    if not expected.stands_in(old):
        raise TargetMoved()
    with (
        DirFlush(place.dir_fd, wanted=durability == "full") as flush,
        FileFlush() as file_flush,
        ExitStack() as held,
    ):
        beside: DigestBeside | None = None
        if digested:
            pieces = tuple(pieces)
            beside = held.enter_context(DigestBeside(pieces, old_fd, states))
        own_flush = file_flush if digested and not revocable else None
        temp, ours = copy_beside(place, old_fd, old, pieces, durability=durability, flush=own_flush)
        ready = Replacement(
            place,
            old_fd,
            expected,
            expected_sha256,
            flush,
            file_flush,
            temp,
            ours,
            beside,
            revocable,
            may_write,
            may_return,
        )
        try:
            yield ready
        finally:
            ready.leave()


class Replacement:
    """A new file beside the one that it shall replace; `staged` makes it."""

    def __init__(
        self,
        place: Place,
        old_fd: int,
        expected: Stamp,
        expected_sha256: str,
        flush: DirFlush,
        file_flush: FileFlush,
        temp: bytes,
        ours: os.stat_result,
        beside: DigestBeside | None,
        revocable: bool,
        may_write: Callable[[], None],
        may_return: Callable[[], None],
    ) -> None:
        self._may_write, self._may_return = may_write, may_return
        self._place, self._old_fd = place, old_fd
        self._flush, self._file_flush = flush, file_flush
        self._expected, self._expected_sha256 = expected, expected_sha256
        self._temp, self._ours, self._revocable = temp, ours, revocable
        self._beside = beside

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content, when it is ready; empty when it was not asked for."""
        return "" if self._beside is None else self._beside.result()

    def commit(self) -> Stamp:
        """Give it the name; raises TargetMoved, OSError, and the old file has the name then.

        NotPutBack when it may not have it.
        """
        place = self._place
        self._file_flush.wait()
        self._may_write()
        check_target(place, self._old_fd, self._expected, self._expected_sha256)
        if not (self._revocable and self._exchanged()):
            _os.rename(place.dir_fd, self._temp, place.name)
            self._temp = b""
        try:
            self._flush.now(place.name)
        except OSError:
            with putting_back(self._may_return):
                if holds(place, self._ours):
                    self._return_old()
            raise
        return stamp_of_ours(place, self._ours)

    def put_back(self, sha256: str) -> None:
        """Take a commit back, if what was written, of this digest, still stands there.

        Raises TargetMoved when it does not, OSError.
        """
        require_ours(self._place, self._ours, sha256)
        self._may_return()  # a large file takes a while to be looked through
        self._return_old()
        self._flush.now(self._place.name)

    def _exchanged(self) -> bool:
        """Whether the two files have changed names; False where the system cannot do that.

        Raises TargetMoved when it was another file than the expected one after all.
        """
        dir_fd, name = self._place.dir_fd, self._place.name
        try:
            _os.rename_exchange(dir_fd, self._temp, name)
        except OSError as refused:
            if refused.errno in _CANNOT_EXCHANGE:
                return False
            if refused.errno == errno.ENOENT:
                raise TargetMoved() from None
            raise
        try:
            found = _os.lstat(dir_fd, self._temp)
        except OSError:
            with putting_back(self._may_return):
                if holds(self._place, self._ours):
                    self._return_old()
            raise
        if not replace_fields(self._expected, ctime_ns=found.st_ctime_ns).stands_in(found):
            theirs, self._temp = self._temp, b""  # never to be removed by us
            with putting_back():
                _os.rename_exchange(dir_fd, theirs, name)
            self._temp = theirs
            raise TargetMoved()
        return True

    def _return_old(self) -> None:
        """The old bytes again: the old file itself where it was kept, else a copy of it."""
        place = self._place
        if self._temp:
            try:
                _os.rename(place.dir_fd, self._temp, place.name)
            except FileNotFoundError:  # swept away as a thing that was left
                self._temp = b""
            else:
                self._temp = b""
                return
        old = _os.fstat(self._old_fd)
        whole = [Kept(0, old.st_size)]
        self._temp, _ = copy_beside(place, self._old_fd, old, whole, durability="fast")
        _os.rename(place.dir_fd, self._temp, place.name)
        self._temp = b""

    def leave(self) -> None:
        """Remove what stands beside the file."""
        if self._temp:
            discard(self._place.dir_fd, self._temp)


def copy_beside(
    place: Place,
    old_fd: int,
    old: os.stat_result,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    flush: FileFlush | None = None,
) -> tuple[bytes, os.stat_result]:
    """A finished temporary file with the pieces and the old file's attributes.

    Its name, and what `stat` said of it; when it is to be durable, `flush` brings it
    to the disk, where one is given. Raises OSError with nothing left behind.
    """
    fd, temp = open_temp(place.dir_fd, 0o600, place.name)
    finished = False
    try:
        try:
            write_pieces(fd, pieces, old_fd, start=durability == "full")
            ours = _os.fstat(fd)
            copy_attributes(old_fd, old, fd, ours)
            if durability == "full" and flush is not None:
                flush.take(fd)
                fd = -1
            elif durability == "full":
                _os.sync(fd)
        finally:
            if fd >= 0:
                _os.close(fd)
        finished = True
    finally:
        if not finished:
            discard(place.dir_fd, temp)
    return temp, ours


def check_target(place: Place, old_fd: int, expected: Stamp, expected_sha256: str) -> None:
    """Raise TargetMoved unless the name still holds the file `old_fd` as it was read.

    Where the clock cannot tell, the content does.
    """
    if not expected.settled and sha256_of(old_fd, expected.size) != expected_sha256:
        raise TargetMoved()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except FileNotFoundError:
        raise TargetMoved() from None
    if not expected.stands_in(found):
        raise TargetMoved()


def holds(place: Place, ours: os.stat_result) -> bool:
    """Whether the file that we wrote has the name."""
    try:
        return _os.lstat(place.dir_fd, place.name).st_ino == ours.st_ino
    except FileNotFoundError:
        return False


def require_ours(place: Place, ours: os.stat_result, sha256: str) -> None:
    """Raise TargetMoved unless the place holds the file that we wrote, as we wrote it."""
    try:
        fd = _os.open_read(place.dir_fd, place.name)
    except OSError as refused:
        if refused.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV):
            raise TargetMoved() from None
        raise
    try:
        found = _os.fstat(fd)
        same = (found.st_ino, found.st_size, found.st_nlink) == (ours.st_ino, ours.st_size, 1)
        if not same or sha256_of(fd, found.st_size) != sha256:
            raise TargetMoved()
    finally:
        _os.close_quietly(fd)


def stamp_of_ours(place: Place, ours: os.stat_result) -> Stamp:
    """The stamp of what was just put at the place; the write is done, so nothing is raised.

    A rename changes the ctime, hence the second look. When it finds another
    file the stamp is that of ours as it was, which will match nothing.
    """
    now_ns = _os.now_ns()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except OSError:
        found = ours
    return Stamp.of(found if found.st_ino == ours.st_ino else ours, now_ns)
