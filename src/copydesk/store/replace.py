"""Another content for a file, in one step: a temporary file, then an exchange of names.

What lives here: the order of the calls that makes it atomic and durable. What
must not: paths (a `Place` is handed in), files with several links (`in_place`).
Invariants: killed at any instant, the name holds the old bytes or the new; when
anything is raised it holds the old ones, or what another program wrote. What came
out of the exchange is looked at: what was not read is given its name back.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from copydesk.errors import Refusal
from copydesk.store import _os
from copydesk.store.attributes import copy_attributes
from copydesk.store.displaced import (
    Keep,
    Known,
    LateLooks,
    awaited,
    keep_nothing,
    opened,
    rescue,
    rescued,
)
from copydesk.store.flush import DirFlush, FileFlush
from copydesk.store.hashing import DigestBeside, States
from copydesk.store.pieces import read_at, sha256_of, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Kept, NotPutBack, Piece, TargetMoved
from copydesk.store.refused import putting_back
from copydesk.store.stamp import Stamp
from copydesk.store.temp import discard, name_temp, open_unnamed_temp

_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)
_TRIES = 8
_LATE_BYTES = 1 << 20
"""The disk space of a larger file is not held back for a late look that is hardly needed."""


def _anybody_may() -> None:
    """There is no turn that could be lost."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the writes of a workspace ask and tell.

    `may_write` is asked right before a name changes, `may_return` before that is taken
    back; they raise Failed. `keep` records what another program wrote, `late` looks at
    replaced files once more, where there is one.
    """

    may_write: Callable[[], None] = _anybody_may
    may_return: Callable[[], None] = _anybody_may
    keep: Keep = keep_nothing
    late: LateLooks | None = None


@contextmanager
def staged(
    place: Place,
    old_fd: int,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    hooks: Hooks,
    digested: bool = False,
    digest: str = "",
    revocable: bool = False,
    states: States = (),
) -> Generator[Replacement]:
    """The new file, complete beside the old one open as `old_fd`; gone after unless committed.

    It has the old one's owner, mode, ACL and extended attributes as far as the system
    allows. `digested`: with the SHA-256 of its content, made beside the copying, from the
    `states` of the old file's digest where there are any; else `digest` is that, where it
    is known. `revocable`: it may be put back. One that is digested and not revocable is
    still being flushed; `commit` waits for it. Raises TargetMoved, OSError.
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
        made = copy_beside(place, old_fd, old, pieces, durability=durability, flush=own_flush)
        told = (lambda: digest) if beside is None else beside.result
        ready = Replacement(
            place, old_fd, expected, expected_sha256, flush, file_flush, made, told, hooks
        )
        try:
            yield ready
        finally:
            file_flush.close()
            ready.leave()


class Beside:
    """A finished new file beside its target; it may have no name yet, and `fd` then."""

    def __init__(self, name: bytes, fd: int, found: os.stat_result) -> None:
        self.name, self.fd, self.stat = name, fd, found

    def named(self, place: Place) -> bytes:
        """Its name from now on; raises OSError."""
        if self.fd >= 0:
            if not self.name:
                self.name = name_temp(self.fd, place.dir_fd, place.name)
            fd, self.fd = self.fd, -1
            _os.close(fd)
        return self.name

    def gone(self, place: Place) -> None:
        """Remove it; never raises OSError."""
        fd, self.fd, name, self.name = self.fd, -1, self.name, b""
        if fd >= 0:
            _os.close_quietly(fd)
        if name:
            discard(place.dir_fd, name)


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
        made: Beside,
        told: Callable[[], str],
        hooks: Hooks,
    ) -> None:
        self._place, self._old_fd, self._hooks = place, old_fd, hooks
        self._flush, self._file_flush = flush, file_flush
        self._expected, self._expected_sha256 = expected, expected_sha256
        self._made, self._told = made, told
        self._old = Known.as_read(expected, expected_sha256)
        self._new = Known.as_written(made.stat, told)
        self._written = self._ours_is_named = False

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content, when it is ready; empty when it was not asked for."""
        return self._told()

    def commit(self) -> Stamp:
        """Give it the name; raises TargetMoved, OSError, and the old file has the name then.

        NotPutBack when it may not have it.
        """
        place = self._place
        self._file_flush.wait()
        temp = self._made.named(place)
        if not self._exchange():
            self._hooks.may_write()
            check_target(place, self._old_fd, self._expected, self._expected_sha256)
            _os.rename(place.dir_fd, temp, place.name)
            self._made.name = b""
        self._written = True
        try:
            self._flush.now(place.name)
        except OSError:
            with putting_back(self._hooks.may_return):
                try:
                    self._return_old()
                except TargetMoved:
                    raise NotPutBack("another program wrote to it meanwhile") from None
            raise
        return stamp_of_ours(place, self._made.stat)

    def put_back(self, sha256: str) -> None:
        """Take a commit back, if what was written, of this digest, still stands there.

        Raises TargetMoved when it does not, OSError.
        """
        require_ours(self._place, self._made.stat, sha256)
        self._hooks.may_return()  # a large file takes a while to be looked through
        self._return_old()
        self._flush.now(self._place.name)

    def leave(self) -> None:
        """Remove what stands beside the file, when it is sure that nothing is lost with it."""
        for _ in range(2 * self._written):  # a fault that passes shall not leave it behind
            with suppress(OSError):
                try:
                    self._let_old_go()
                except Refusal:  # it could not be recorded: the file keeps its temporary name
                    return
                self._written = False
                break
        if not self._written:
            self._made.gone(self._place)

    def _exchange(self) -> bool:
        """Let the two files change names; False where the system cannot do that.

        Raises TargetMoved when what came out is not the file as it was read. Where
        another program has that open for writing it is given its name back until it has
        written, or has not for so long that it may just keep it open.
        """
        place, may_stay_open = self._place, False
        for left in reversed(range(_TRIES)):
            self._hooks.may_write()
            check_target(place, self._old_fd, self._expected, self._expected_sha256)
            if not self._exchanged():
                return False
            try:
                moved = not self._is_old(_os.lstat(place.dir_fd, self._made.name))
                is_open = not moved and bool(_os.is_written_by_others(self._old_fd))
                if not (moved or is_open) or (is_open and may_stay_open):
                    return True
            except OSError:
                with putting_back(self._hooks.may_return), suppress(TargetMoved):
                    self._give_back()
                raise
            self._give_back()
            if moved:
                raise TargetMoved()
            may_stay_open = not awaited(self._old_fd) or left == 1
        raise TargetMoved()

    def _exchanged(self) -> bool:
        try:
            _os.rename_exchange(self._place.dir_fd, self._made.name, self._place.name)
        except OSError as refused:
            if refused.errno in _CANNOT_EXCHANGE:
                return False
            if refused.errno == errno.ENOENT:
                raise TargetMoved() from None
            raise
        return True

    def _is_old(self, found: os.stat_result) -> bool:
        """Whether it is the file as it was read; where the clock cannot tell the content does."""
        expected = self._expected
        return replace_fields(expected, ctime_ns=found.st_ctime_ns).stands_in(found) and (
            expected.settled or sha256_of(self._old_fd, expected.size) == self._expected_sha256
        )

    def _give_back(self) -> None:
        """Give the file that came out its name again, and look at what that brings back.

        It is our new file, unless another program was at the name meanwhile too. What
        wrote last keeps the name then, and of the other one nothing is lost. Raises
        TargetMoved for that, NotPutBack.
        """
        place = self._place
        temp, self._made.name = self._made.name, b""  # it is not ours to be removed
        with putting_back(), ExitStack() as held:
            theirs = opened(place, temp, held)
            try:
                _os.rename_exchange(place.dir_fd, temp, place.name)
            except FileNotFoundError:  # somebody has removed the name since
                self._rescued(temp)
                raise TargetMoved() from None
            ours = opened(place, temp, held)
            if ours >= 0 and _os.fstat(ours).st_ino == self._new.ino and self._is_new(ours):
                self._made.name = temp
                self._keep_seen(theirs, ours)
                return
            if ours < 0 or _os.fstat(ours).st_ino != self._new.ino:  # that is the later one
                _os.rename_exchange(place.dir_fd, temp, place.name)
            self._rescued(temp)
            raise TargetMoved()

    def _is_new(self, fd: int) -> bool:
        """Whether our own file is as we wrote it, and will be."""
        free = awaited(fd)
        if not (free and self._new.stands_in(_os.fstat(fd))):
            return False
        digest = self._new.sha256()
        return not digest or sha256_of(fd, self._new.size) == digest

    def _keep_seen(self, theirs: int, ours: int) -> None:
        """Record the other program's file, if it saved one whole, though it has its name again.

        For a moment our file could be read in its place, and be saved over it later.
        """
        if theirs < 0:
            return
        found, old = _os.fstat(theirs), self._old
        if old.extends_to(found) and sha256_of(theirs, old.size) == old.sha256():
            return
        data = read_at(theirs, found.st_size, 0)
        with suppress(Refusal):  # it has its name
            self._hooks.keep(self._place.real, data, read_at(ours, self._new.size, 0))

    def _rescued(self, temp: bytes) -> None:
        """Remove a temporary name; nothing that another program wrote to its file is lost."""
        place = self._place
        with ExitStack() as held:
            fd = opened(place, temp, held)
            if fd >= 0:
                known = self._new if _os.fstat(fd).st_ino == self._new.ino else self._old
                rescued(place, temp, fd, known, self._hooks.keep)
            else:
                discard(place.dir_fd, temp)

    def _return_old(self) -> None:
        """The old file again; it is copied where it was not kept.

        Raises TargetMoved when our file does not stand at the name as we wrote it.
        """
        place = self._place
        if not holds(place, self._made.stat):
            raise TargetMoved()
        with ExitStack() as held:
            ours = opened(place, place.name, held)
            if not self._has_old():
                old = _os.fstat(self._old_fd)
                whole = [Kept(0, old.st_size)]
                self._made = copy_beside(place, self._old_fd, old, whole, durability="fast")
            temp = self._made.named(place)
            exchanged = self._exchanged()
            if not exchanged:
                _os.rename(place.dir_fd, temp, place.name)
                self._made.name = b""
            if ours < 0 or not self._is_new(ours):
                if exchanged:
                    _os.rename_exchange(place.dir_fd, temp, place.name)
                    raise TargetMoved()
                with suppress(Refusal):
                    rescue(place, ours, self._new, self._hooks.keep)
            self._written = False

    def _has_old(self) -> bool:
        """Whether the old file stands beside ours still."""
        if not self._made.name:
            return False
        try:
            return _os.lstat(self._place.dir_fd, self._made.name).st_ino == self._old.ino
        except FileNotFoundError:
            self._made.name = b""
            return False

    def _let_old_go(self) -> None:
        """The old file's bytes are recorded, and so is what was written to it since."""
        if not self._old.stands_in(_os.fstat(self._old_fd)):
            rescue(self._place, self._old_fd, self._old, self._hooks.keep)
            return
        late = self._hooks.late
        is_open = _os.is_written_by_others(self._old_fd)
        if late is not None and (is_open is not False or self._expected.size <= _LATE_BYTES):
            late.take(_os.duplicate(self._old_fd), self._place.real, self._old)


def copy_beside(
    place: Place,
    old_fd: int,
    old: os.stat_result,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    flush: FileFlush | None = None,
) -> Beside:
    """A finished new file with the pieces and the old file's attributes, without a name if it can.

    When it is to be durable, `flush` brings it to the disk, where one is given.
    Raises OSError with nothing left behind.
    """
    fd, name = open_unnamed_temp(place.dir_fd, 0o600, place.name)
    with ExitStack() as failing:
        failing.callback(Beside(name, fd, old).gone, place)
        write_pieces(fd, pieces, old_fd, start=durability == "full")
        ours = _os.fstat(fd)
        copy_attributes(old_fd, old, fd, ours)
        if durability == "full" and flush is not None:
            flush.take(fd)
        elif durability == "full":
            _os.sync(fd)
        failing.pop_all()
    return Beside(name, fd, ours)


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
