"""Changes the content of a file: exchanges it for another file in one step, or writes in place.

Invariants: killed at any instant, a name holds the old bytes or the new (a file with several names
is written in place, and its old bytes are recorded first). After an exception it holds the old
bytes, or those of another program; whatever an exchange of names returns is inspected. Bytes of
another program are in the file that has the name, or `keep` got them, before the last name or
handle goes; if neither is possible, the file keeps its temporary name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from threading import Lock

from copydesk.errors import Refusal
from copydesk.store import _os
from copydesk.store.contents import (
    Closing,
    DigestOfPieces,
    States,
    from_memory,
    read_at,
    sha256_of,
    write_all,
    write_pieces,
)
from copydesk.store.locks import held_at_fork
from copydesk.store.paths import ResolvedPath
from copydesk.store.protocol import (
    Durability,
    Kept,
    NotPutBack,
    Piece,
    Stamp,
    TargetMoved,
    putting_back,
)
from copydesk.store.staging import DirFlush, FileFlush, NewFile, copy_beside, discard
from copydesk.store.state import Soon
from copydesk.text.relpath import RelPath

Keep = Callable[[RelPath, bytes, bytes | None, bool], None]
"""Records what another program wrote to a file, by its real path, before that is lost.

Its third argument is what took the place of that text, None for the current content. The last one:
the text is what was appended to the file that was replaced. Raises Refusal.
"""

LATE_SECONDS = 0.25
"""The delay of the last check of a replaced file."""

_MOST_LATE = 32


def keep_nothing(real: RelPath, theirs: bytes, ours: bytes | None, is_tail: bool) -> None:
    """Record nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """A state of a file with known bytes; `sha256` returns their digest in hex, or empty."""

    ino: int
    size: int
    mtime_ns: int
    sha256: Callable[[], str]

    @staticmethod
    def as_read(expected: Stamp, sha256: str) -> Known:
        return Known(expected.ino, expected.size, expected.mtime_ns, lambda: sha256)

    @staticmethod
    def as_written(ours: os.stat_result, sha256: Callable[[], str]) -> Known:
        return Known(ours.st_ino, ours.st_size, ours.st_mtime_ns, sha256)

    def stands_in(self, found: os.stat_result) -> bool:
        """Whether it is the same file and nobody wrote to it, as far as `stat` can tell."""
        return (self.ino, self.size, self.mtime_ns) == (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
        )


def recorded(place: ResolvedPath, fd: int, known: Known, keep: Keep) -> Known:
    """Record what another program wrote to an open file that lost its name.

    Returns the state that is known then. Raises OSError, Refusal.
    """
    found = _os.fstat(fd)
    size, digest = found.st_size, sha256_of(fd, found.st_size)
    if known.size <= size and sha256_of(fd, known.size) == known.sha256():
        if size > known.size:
            keep(place.real, read_at(fd, size - known.size, known.size), None, True)
    else:
        keep(place.real, read_at(fd, size, 0), None, False)
    return Known.as_written(found, lambda: digest)


def discard_recorded(place: ResolvedPath, temp: bytes, fd: int, known: Known, hooks: Hooks) -> None:
    """Remove the open file's temporary name, after recording what others wrote to the file.

    Raises OSError, NotPutBack with the name in place.
    """
    try:
        known = recorded(place, fd, known, hooks.keep)
    except Refusal as refused:
        raise NotPutBack(f"{temp.decode()}: {refused.facts().get('reason')}") from refused
    if hooks.late is not None:
        hooks.late.take(_os.duplicate(fd), place.real, known)
    discard(place.dir_fd, temp)


def opened(place: ResolvedPath, name: bytes, held: ExitStack) -> int:
    """Open the regular file of this name for reading; -1 for anything else. Raises OSError."""
    try:
        fd = _os.open_read(place.dir_fd, name)
    except OSError as refused:
        if refused.errno in _NO_FILE:
            return -1
        raise
    held.callback(_os.close_quietly, fd)
    return fd if stat.S_ISREG(_os.fstat(fd).st_mode) else -1


_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)


@dataclass(frozen=True, slots=True)
class _Late:
    due: float
    fd: int
    real: RelPath
    known: Known


class LateLooks(Closing):
    """Handles of files without a name, each checked again for late writes, then closed."""

    def __init__(
        self, find: Callable[[RelPath], AbstractContextManager[ResolvedPath]], keep: Keep
    ) -> None:
        self._find, self._keep = find, keep
        self._waiting: deque[_Late] = deque()
        self._lock, self._closed = held_at_fork(Lock()), False
        self._soon = Soon(LATE_SECONDS)

    def take(self, fd: int, real: RelPath, known: Known) -> None:
        """Check the file after a delay, then close the handle."""
        with self._lock:
            self._waiting.append(_Late(time.monotonic() + LATE_SECONDS, fd, real, known))
            early = self._waiting.popleft() if len(self._waiting) > _MOST_LATE else None
        if early is not None:
            self._look(early)
        self._soon.do(self._look_at_due)

    def close(self) -> None:
        """Check all of them now."""
        self._closed = True
        self._soon.close()
        while self._waiting:
            self._look(self._waiting.popleft())

    def _look_at_due(self) -> None:
        while not self._closed:
            with self._lock:
                if not self._waiting or self._waiting[0].due > time.monotonic():
                    break
                late = self._waiting.popleft()
            self._look(late)
        if self._waiting:
            self._soon.do(self._look_at_due)

    def _look(self, late: _Late) -> None:
        with suppress(OSError, Refusal):  # there is nobody to tell
            if not late.known.stands_in(_os.fstat(late.fd)):
                with self._find(late.real) as place:
                    recorded(place, late.fd, late.known, self._keep)
        _os.close_quietly(late.fd)


_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)
_AGAIN_SECONDS = 0.02
"""After this time a file that another program has open for writing is replaced all the same."""

_COMPARED_BYTES = 1 << 20
"""Up to this size what came out of an exchange is compared by its bytes, since times have ticks.

A larger file was written to if its time or size differs, or the time of the last write is so near
to that of our reading that the clock cannot tell.
"""

_LATE_BYTES = 1 << 20
"""A larger file is not kept for a late check that is hardly needed: it would occupy the disk."""


def _anybody_may() -> None:
    """Do nothing: no lease can be lost."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of the writes of a workspace.

    `may_write` is called right before a name changes, `may_return` before that is undone; they
    raise Failed. `keep` records what another program wrote; `note_open` tells that one has a
    replaced file open for writing; `late`, if any, checks replaced files again.
    """

    may_write: Callable[[], None] = _anybody_may
    may_return: Callable[[], None] = _anybody_may
    keep: Keep = keep_nothing
    note_open: Callable[[RelPath], None] = lambda real: None
    late: LateLooks | None = None


def staged_replacement(
    place: ResolvedPath,
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
) -> Replacement:
    """Stage the new file, complete next to the old one open as `old_fd`; `leave` ends it.

    The new file has the owner, mode, ACL and extended attributes of the old one as far as the
    system allows. `digested`: compute the SHA-256 of its content while copying, starting from the
    `states` of the old file's digest if there are any; otherwise `digest` is the SHA-256 if known.
    `revocable`: it may be put back. If it is digested and not revocable, it is still being flushed;
    `commit` waits for that. Raises TargetMoved, OSError.
    """
    old = _os.fstat(old_fd)
    if not expected.stands_in(old):
        raise TargetMoved()
    flush, file_flush = DirFlush(place.dir_fd, wanted=durability == "full"), FileFlush()
    beside: DigestOfPieces | None = None
    try:
        if digested:
            pieces = tuple(pieces)
            beside = DigestOfPieces(pieces, old_fd, states)
        own_flush = file_flush if digested and not revocable else None
        made = copy_beside(
            place.dir_fd, place.name, old_fd, old, pieces, durability=durability, flush=own_flush
        )
    except BaseException:
        for each in (beside, file_flush, flush):
            if each is not None:
                each.close()
        raise
    return Replacement(
        place,
        old_fd,
        expected,
        expected_sha256,
        flush,
        file_flush,
        made,
        (lambda: digest) if beside is None else beside.result,
        hooks,
        beside,
    )


@dataclass(slots=True)
class Replacement:
    """A new file next to the one that it will replace; created by `staged_replacement`."""

    _place: ResolvedPath
    _old_fd: int
    _expected: Stamp
    _expected_sha256: str
    _flush: DirFlush
    _file_flush: FileFlush
    _made: NewFile
    _told: Callable[[], str]
    _hooks: Hooks
    _digesting: DigestOfPieces | None = None
    _written: bool = False
    _had_name: bool = False
    _open_elsewhere: bool = False
    _old: Known = field(init=False)
    _new: Known = field(init=False)

    def __post_init__(self) -> None:
        self._old = Known.as_read(self._expected, self._expected_sha256)
        self._new = Known.as_written(self._made.stat, self._told)

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content, once it is ready; empty if not requested."""
        return self._told()

    def commit(self) -> Stamp:
        """Take the name; TargetMoved, OSError keep the old file there, NotPutBack may not."""
        place = self._place
        self._file_flush.wait()
        temp = self._made.named(place.dir_fd, place.name)
        if not self._exchange():
            self._hooks.may_write()
            check_target(place, self._old_fd, self._expected, self._expected_sha256)
            _os.rename(place.dir_fd, temp, place.name)
            self._made.name = b""
        self._written = True
        if self._open_elsewhere:
            self._hooks.note_open(place.real)
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
        """Undo a commit if the file still has this digest; raises TargetMoved, OSError."""
        require_ours(self._place, self._made.stat, sha256)
        self._hooks.may_return()  # checking a large file takes a while
        self._return_old()
        self._flush.now(self._place.name)

    def leave(self) -> None:
        """Remove the temporary file once it is certain that nothing is lost with it."""
        try:
            self._file_flush.close()
            self._remove_temp()
        finally:
            if self._digesting is not None:
                self._digesting.close()
            self._flush.close()

    def _remove_temp(self) -> None:
        if not self._written and self._had_name and self._hooks.late is not None:
            with suppress(OSError):  # who opened it in that moment may still write to it
                ours = _os.open_read(self._place.dir_fd, self._made.name)
                self._hooks.late.take(ours, self._place.real, self._new)
        for _ in range(2 * self._written):  # a passing fault must not leave it behind
            with suppress(OSError):
                try:
                    self._let_old_go()
                except Refusal:  # it could not be recorded: keep the temporary name
                    return
                self._written = False
                break
        if not self._written:
            self._made.gone(self._place.dir_fd)

    def _exchange(self) -> bool:
        """Exchange the names of the two files; False if the system cannot do that.

        Raises TargetMoved if the file that came out is not the one that was read. If another
        program has that open for writing, it gets its name back for a moment; if the program still
        has it open then, the exchange stands, and that is told.
        """
        place = self._place
        for is_second in (False, True):
            self._hooks.may_write()
            check_target(place, self._old_fd, self._expected, self._expected_sha256)
            if not self._exchanged():
                return False
            self._had_name = True
            try:
                # First the lease, then the content: nobody can open the old file by its name any
                # more, so what was written before a handle was closed is in what is compared now.
                is_held = bool(_os.is_written_by_others(self._old_fd))
                is_same = self._is_old(_os.lstat(place.dir_fd, self._made.name))
            except OSError:
                with putting_back(self._hooks.may_return), suppress(TargetMoved):
                    self._give_back()
                raise
            if is_same and (is_second or not is_held):
                self._open_elsewhere = is_held
                return True
            self._give_back()
            if not is_same:
                break
            _os.pause(_AGAIN_SECONDS)
            found = _os.lstat(place.dir_fd, place.name)
            if self._is_old(found):  # our two renames have changed its ctime
                self._expected = replace_fields(self._expected, ctime_ns=found.st_ctime_ns)
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
        """Whether it is the file as read, by its content where that is small or the clock fails."""
        expected = self._expected
        if not expected.stands_in(found, renamed=True):
            return False
        by_time = expected.settled and expected.size > _COMPARED_BYTES
        return by_time or sha256_of(self._old_fd, expected.size) == self._expected_sha256

    def _give_back(self) -> None:
        """Give the file that came out its name again, and inspect the file that this brings back.

        That is our new file, unless another program took the name meanwhile. Then the latest writer
        keeps the name, and nothing of the other file is lost; raises TargetMoved for that,
        NotPutBack.
        """
        place = self._place
        temp, self._made.name = self._made.name, b""  # no longer ours to remove
        with putting_back(), ExitStack() as held:
            try:
                _os.rename_exchange(place.dir_fd, temp, place.name)
            except FileNotFoundError:  # somebody has removed the name since
                self._let_go(temp)
                raise TargetMoved() from None
            ours = opened(place, temp, held)
            if ours >= 0 and self._new.stands_in(_os.fstat(ours)):
                self._made.name = temp
                return
            if ours < 0 or _os.fstat(ours).st_ino != self._new.ino:  # that is the later one
                _os.rename_exchange(place.dir_fd, temp, place.name)
            self._let_go(temp)
            raise TargetMoved()

    def _is_new(self, fd: int) -> bool:
        """Whether the open file is our own as we wrote it."""
        if not self._new.stands_in(_os.fstat(fd)):
            return False
        digest = self._new.sha256()
        return not digest or sha256_of(fd, self._new.size) == digest

    def _let_go(self, temp: bytes) -> None:
        """Remove a temporary name without losing what another program wrote to its file."""
        place = self._place
        with ExitStack() as held:
            fd = opened(place, temp, held)
            if fd >= 0:
                known = self._new if _os.fstat(fd).st_ino == self._new.ino else self._old
                discard_recorded(place, temp, fd, known, self._hooks)
            else:
                discard(place.dir_fd, temp)

    def _return_old(self) -> None:
        """Restore the old file, or a copy if it is gone; TargetMoved if ours is not as written."""
        place = self._place
        if not holds(place, self._made.stat):
            raise TargetMoved()
        with ExitStack() as held:
            ours = opened(place, place.name, held)
            if not self._has_old():
                old = _os.fstat(self._old_fd)
                whole = [Kept(0, old.st_size)]
                self._made = copy_beside(
                    place.dir_fd, place.name, self._old_fd, old, whole, durability="fast"
                )
            temp = self._made.named(place.dir_fd, place.name)
            exchanged = self._exchanged()
            if not exchanged:
                _os.rename(place.dir_fd, temp, place.name)
                self._made.name = b""
            if ours < 0 or not self._is_new(ours):
                if exchanged:
                    _os.rename_exchange(place.dir_fd, temp, place.name)
                    raise TargetMoved()
                with suppress(Refusal):
                    recorded(place, ours, self._new, self._hooks.keep)
            self._written = False

    def _has_old(self) -> bool:
        if not self._made.name:
            return False
        try:
            return _os.lstat(self._place.dir_fd, self._made.name).st_ino == self._old.ino
        except FileNotFoundError:
            self._made.name = b""
            return False

    def _let_old_go(self) -> None:
        """Release the old file: its bytes are recorded, now also what was written to it since."""
        old = self._old
        if not old.stands_in(_os.fstat(self._old_fd)):
            old = recorded(self._place, self._old_fd, old, self._hooks.keep)
        if self._hooks.late is not None and (old.size <= _LATE_BYTES or self._open_elsewhere):
            self._hooks.late.take(_os.duplicate(self._old_fd), self._place.real, old)


def check_target(place: ResolvedPath, old_fd: int, expected: Stamp, expected_sha256: str) -> None:
    """Raise TargetMoved unless `old_fd` has the name as read, by content if times cannot tell."""
    if not expected.settled and sha256_of(old_fd, expected.size) != expected_sha256:
        raise TargetMoved()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except FileNotFoundError:
        raise TargetMoved() from None
    if not expected.stands_in(found):
        raise TargetMoved()


def holds(place: ResolvedPath, ours: os.stat_result) -> bool:
    """Whether the name leads to the file that we wrote."""
    try:
        return _os.lstat(place.dir_fd, place.name).st_ino == ours.st_ino
    except FileNotFoundError:
        return False


def require_ours(place: ResolvedPath, ours: os.stat_result, sha256: str) -> None:
    """Raise TargetMoved unless the place holds our file as we wrote it."""
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


def stamp_of_ours(place: ResolvedPath, ours: os.stat_result) -> Stamp:
    """The stamp of the file just written; raises nothing, since the write is done.

    A rename changes the ctime, so the file is looked up again. If another file is there, the stamp
    is that of ours before, which will match nothing.
    """
    now_ns = _os.now_ns()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except OSError:
        found = ours
    return Stamp.of(found if found.st_ino == ours.st_ino else ours, now_ns)


def staged_in_place(
    place: ResolvedPath,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    before_in_place: Callable[[bytes], None],
    durability: Durability,
) -> Overwriting:
    """Open the file for writing and prepare the new bytes in memory; `leave` ends it."""
    try:
        fd = _os.open_update(place.dir_fd, place.name)
    except OSError as refused:
        if refused.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR):
            raise TargetMoved() from None
        raise
    try:
        old = _checked(fd, expected, expected_sha256)
        new = from_memory(pieces, old)
    except BaseException:
        _os.close_quietly(fd)
        raise
    return Overwriting(
        fd, expected, expected_sha256, old, new, before_in_place, durability, expected
    )


@dataclass(slots=True)
class Overwriting:
    """A file about to be written in place, with its new bytes in memory."""

    _fd: int
    _expected: Stamp
    _expected_sha256: str
    _old: bytes
    _new: list[bytes | memoryview]
    _before: Callable[[bytes], None]
    _durability: Durability
    _written: Stamp
    digest: str = ""

    def commit(self) -> Stamp:
        """Write the bytes; raises TargetMoved, OSError, NotPutBack, and what `before` raises."""
        self._before(self._old)
        with _alone(self._fd):
            if _checked(self._fd, self._expected, self._expected_sha256) != self._old:
                raise TargetMoved()
            with ExitStack() as failing:
                failing.callback(self._restore, max(len(self._old), sum(map(len, self._new))))
                self._written = self._write(self._new, len(self._old))
                failing.pop_all()
        return self._written

    def put_back(self, sha256: str) -> None:
        """Write the old bytes back if the digest is this one; TargetMoved, OSError, NotPutBack."""
        with _alone(self._fd):
            now = _checked(self._fd, self._written, sha256)
            self._restore(len(now))

    def leave(self) -> None:
        """Close the file."""
        _os.close_quietly(self._fd)

    def _restore(self, size: int) -> None:
        """Write the old bytes to a file of at most `size` bytes; raises NotPutBack."""
        with putting_back():
            self._write([self._old], size)

    def _write(self, pieces: list[bytes | memoryview], old_size: int) -> Stamp:
        """Write all of a file that had at most `old_size` bytes; bytes appended since are kept."""
        fd, mode, size = self._fd, self._expected.mode, sum(map(len, pieces))
        _os.seek_start(fd)
        write_pieces(fd, pieces, fd)
        known = max(size, old_size)
        tail = read_at(fd, max(_os.fstat(fd).st_size - known, 0), known) if size < known else b""
        if tail:
            write_all(fd, tail)
        if size < known:
            _os.truncate(fd, size + len(tail))
        if self._durability == "full":
            _os.sync(fd)
        now_ns = _os.now_ns()
        found = _os.fstat(fd)
        if found.st_mode != mode and _mode_put_back(fd, mode):
            found = _os.fstat(fd)
        return Stamp.of(found, now_ns)


class Chmod:
    """A change of the permission bits of the file open as `fd`; it stays the same file."""

    digest = ""

    def __init__(
        self,
        place: ResolvedPath,
        fd: int,
        expected: Stamp,
        expected_sha256: str,
        mode: int,
        *,
        durability: Durability,
        hooks: Hooks,
    ) -> None:
        self._place, self._fd, self._mode = place, fd, mode
        self._expected, self._expected_sha256 = expected, expected_sha256
        self._durability, self._hooks = durability, hooks

    def commit(self) -> Stamp:
        """Change the bits; return the new stamp. Raises TargetMoved, OSError, NotPutBack."""
        self._hooks.may_write()
        check_target(self._place, self._fd, self._expected, self._expected_sha256)
        now_ns = _os.now_ns()
        try:
            self._change(self._mode)
        except OSError:
            with putting_back(self._hooks.may_return):
                self._change(self._expected.mode & 0o7777)
            raise
        return Stamp.of(_os.fstat(self._fd), now_ns)

    def put_back(self, sha256: str) -> None:
        """Restore the former bits if nobody else has changed them; TargetMoved, OSError."""
        if _os.fstat(self._fd).st_mode & 0o7777 != self._mode:
            raise TargetMoved()
        self._hooks.may_return()
        self._change(self._expected.mode & 0o7777)

    def _change(self, mode: int) -> None:
        _os.chmod(self._fd, mode)
        if self._durability == "full":
            _os.sync(self._fd)


@contextmanager
def _alone(fd: int) -> Generator[None]:
    """Keep others from opening the file, if the system has leases and nobody has it open.

    Programs that want to open it wait until it is written. Elsewhere, what is appended at that very
    moment shows in the size of the file and stays at its end; a lease closes the remaining gap.
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


def _mode_put_back(fd: int, mode: int) -> bool:
    try:  # a write clears the set-id bits
        _os.chmod(fd, mode & 0o7777)
    except PermissionError:
        return False
    return True
