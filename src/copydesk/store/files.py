"""The files below one root directory, read and written; OSError becomes a refusal here.

First how one file is written: the new content, name or mode is prepared, then put in place at once;
then `Files`, through which the layers above do that, and read.

Invariants: killed at any instant, a name holds the old bytes or the new, or nothing where there was
no file or is to be none (a file with several names is written in place, and its old bytes are
recorded first; where the system can neither link nor rename without replacing, a new file is
written under its own name); a file that exists, or appears at the same moment, is never overwritten
by one that is created or moved. After an exception a name holds the old bytes, or those of another
program; whatever an exchange of names returns is inspected. Bytes of another program are in the
file that has the name, or `keep` got them, before the last name or handle goes; if neither is
possible, the file keeps its temporary name. No handle outlives the call or the context that opened
it, except the root's, those of replaced files for a quarter of a second (`LateLooks`), and that of
a large file, which is closed in a thread as the call ends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from threading import Lock
from typing import ClassVar, TypeVar

from copydesk.errors import (
    BinaryFile,
    Failed,
    FileExists,
    FileNotFound,
    FileTooLarge,
    InvalidPath,
    NotAFile,
    Refusal,
)
from copydesk.store import _os
from copydesk.store._os import Offers
from copydesk.store.contents import (
    UNFINISHED,
    Digest,
    OpenFile,
    States,
    allowed,
    attributes_of,
    discard,
    flush_dir,
    from_memory,
    is_stale,
    is_temp,
    is_temp_of,
    new_temp,
    read_at,
    set_attributes,
    sha256_of,
    temps,
    write_all,
    write_pieces,
)
from copydesk.store.large import LargeFile, Survey, last_lines
from copydesk.store.paths import (
    MadeParents,
    ResolvedPath,
    Root,
    entries,
    info_of,
    names,
    remove_if_empty,
    similar,
)
from copydesk.store.protocol import (
    Closing,
    DirEntry,
    Document,
    Durability,
    FileInfo,
    Kept,
    Named,
    NotPutBack,
    OpenText,
    Piece,
    Removed,
    Stamp,
    StatResult,
    TargetMoved,
    Window,
    failed,
    kind_of,
    putting_back,
    refusing,
)
from copydesk.store.threads import (
    Soon,
    close_of_size,
    flush_in_thread,
    held_at_fork,
    wait_all_closed,
)
from copydesk.text import sizes
from copydesk.text.encoding import BYTES
from copydesk.text.relpath import PATH_BYTES, RelPath
from copydesk.text.snapshot import Excerpt, Snapshot, Sought

Keep = Callable[[RelPath, bytes, bytes | None, bool], None]
"""Records what another program wrote to a file, by its real path, before that is lost.

Its third argument is what took the place of that text, None for the current content. The last one:
the text is what was appended to the file that was replaced. Raises Refusal.
"""


def keep_nothing(real: RelPath, theirs: bytes, ours: bytes | None, is_tail: bool) -> None:
    """Record nothing."""


T = TypeVar("T")

# What is known of a file


@dataclass(frozen=True, slots=True)
class Known:
    """A state of a file with known bytes; `sha256` is their digest in hex, or empty.

    Unlike a `Stamp` it stands after a rename and a chmod: it has neither ctime nor mode.
    """

    ino: int
    size: int
    mtime_ns: int
    sha256: str

    @staticmethod
    def of(status: os.stat_result, sha256: str) -> Known:
        """A file that we wrote."""
        return Known(status.st_ino, status.st_size, status.st_mtime_ns, sha256)

    def stands_in(self, status: os.stat_result) -> bool:
        """Whether it is the same file and nobody wrote to it, as far as `stat` can tell."""
        return (self.ino, self.size, self.mtime_ns) == (
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
        )

    def is_in(self, fd: int) -> bool:
        """Whether the open file is in this state, with these bytes if the digest is known."""
        if not self.stands_in(_os.fstat(fd)):
            return False
        return not self.sha256 or sha256_of(fd, self.size) == self.sha256


@contextmanager
def opened(place: ResolvedPath, name: bytes) -> Generator[int]:
    """Open the regular file of this name for reading; -1 for anything else. Raises OSError."""
    fd = -1
    with _os.Ignoring(*_NO_FILE):
        fd = _os.open_read(place.dir_fd, name)
    try:
        yield fd if fd >= 0 and stat.S_ISREG(_os.fstat(fd).st_mode) else -1
    finally:
        if fd >= 0:
            _os.close_quietly(fd)


# The name is free, or that of a symlink, of a socket or device, or of a directory.
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)


def inode_at(place: ResolvedPath, name: bytes) -> int:
    """The number of the inode that has the name; 0 if nothing has. Raises OSError."""
    try:
        return _os.lstat(name, dir_fd=place.dir_fd).st_ino
    except FileNotFoundError:
        return 0


def stamp_of_ours(place: ResolvedPath, ours: os.stat_result) -> Stamp:
    """The stamp of the file just written; raises nothing, since the write is done.

    A rename changes the ctime, so the file is looked up again. If another file is there, the stamp
    is that of ours before, which will match nothing.
    """
    now_ns = _os.now_ns()
    try:
        status = _os.lstat(place.name, dir_fd=place.dir_fd)
    except OSError:
        status = ours
    return Stamp.of(status if status.st_ino == ours.st_ino else ours, now_ns)


def require_ours(place: ResolvedPath, ours: os.stat_result, sha256: str) -> None:
    """Raise TargetMoved unless the place holds our file as we wrote it."""
    with opened(place, place.name) as fd:
        status = _os.fstat(fd) if fd >= 0 else None
        if (
            status is None
            or (status.st_ino, status.st_nlink, status.st_size) != (ours.st_ino, 1, ours.st_size)
            or sha256_of(fd, status.st_size) != sha256
        ):
            raise TargetMoved()


def refuse_existing(place: ResolvedPath, own: Stamp | None = None) -> None:
    """Raise FileExists or NotAFile if anything but the file `own` has the name."""
    if not place.name:
        raise NotAFile("directory")
    try:
        status = _os.lstat(place.name, dir_fd=place.dir_fd)
    except FileNotFoundError:
        return
    if own is not None and (status.st_dev, status.st_ino, status.st_nlink) == (own.dev, own.ino, 1):
        return
    if stat.S_ISREG(status.st_mode):
        raise FileExists(status.st_size)
    raise NotAFile(kind_of(status.st_mode))


# What other programs wrote

LATE_SECONDS = 0.25
"""The delay of the last check of a replaced file."""

_MOST_LATE = 32


def recorded(real: RelPath, fd: int, known: Known, keep: Keep) -> Known:
    """Record what another program wrote to an open file that lost its name.

    Returns the state that is known then. Raises OSError, Refusal.
    """
    status = _os.fstat(fd)
    size, digest = status.st_size, sha256_of(fd, status.st_size)
    if known.size <= size and sha256_of(fd, known.size) == known.sha256:
        if size > known.size:
            keep(real, read_at(fd, size - known.size, known.size), None, True)
    else:
        keep(real, read_at(fd, size, 0), None, False)
    return Known.of(status, digest)


class LateLooks(Closing):
    """Handles of files without a name, each checked again for late writes, then closed."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._waiting: deque[tuple[float, int, RelPath, Known]] = deque()
        self._lock, self._closed = held_at_fork(Lock()), False
        self._soon = Soon(LATE_SECONDS)

    def take(self, fd: int, real: RelPath, known: Known) -> None:
        """Check the file after a delay, then close the handle."""
        with self._lock:
            self._waiting.append((time.monotonic() + LATE_SECONDS, fd, real, known))
            early = self._waiting.popleft() if len(self._waiting) > _MOST_LATE else None
        if early is not None:
            self._look(*early)
        self._soon.do(self._look_at_due)

    def close(self) -> None:
        """Check all of them now."""
        self._closed = True
        self._soon.close()
        while self._waiting:
            self._look(*self._waiting.popleft())

    def _look_at_due(self) -> None:
        while not self._closed:
            with self._lock:
                if not self._waiting or self._waiting[0][0] > time.monotonic():
                    break
                late = self._waiting.popleft()
            self._look(*late)
        if self._waiting:
            self._soon.do(self._look_at_due)

    def _look(self, due: float, fd: int, real: RelPath, known: Known) -> None:
        with suppress(OSError, Refusal):  # there is nobody to tell
            if not known.stands_in(_os.fstat(fd)):
                recorded(real, fd, known, self._keep)
        _os.close_quietly(fd)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What all writes of a workspace share.

    `may_write` is called right before a name changes, `may_return` before our finished change is
    undone; they raise TargetMoved or Failed. Not so where a file of another program gets its name
    back, or a torn one its old bytes: whoever has the lock now needs that. `keep` records what
    another program wrote; `note_open` tells that one has a replaced file open for writing; `late`
    checks replaced files again. `flush`: a write is on the disk before it is reported.
    """

    may_write: Callable[[], None]
    may_return: Callable[[], None]
    keep: Keep
    note_open: Callable[[RelPath], None]
    late: LateLooks
    flush: bool


# Parts of a write


class Target:
    """The file at `place` that is to be changed, open as `fd`, and what was read of it.

    `content` are its bytes if they are loaded; then they are compared, else their digest.
    """

    content: bytes | None = None

    def __init__(self, place: ResolvedPath, fd: int, expected: Stamp, sha256: str) -> None:
        self.place, self.fd, self.expected, self.sha256 = place, fd, expected, sha256
        self.open_elsewhere = False

    def holds_content(self) -> bool:
        """Whether the open file begins with the bytes that were read."""
        content, size = self.content, self.expected.size
        if content is None:
            return sha256_of(self.fd, size) == self.sha256
        # In parts: room for all of a long text is mapped anew, which takes longer than reading it.
        return all(
            read_at(self.fd, min(sizes.BLOCK, size - at), at) == content[at : at + sizes.BLOCK]
            for at in range(0, size, sizes.BLOCK)
        )

    @property
    def known(self) -> Known:
        """The state that was read."""
        expected = self.expected
        return Known(expected.ino, expected.size, expected.mtime_ns, self.sha256)

    def close(self) -> None:
        """Close the file and its directory."""
        if self.fd >= 0:
            close_of_size(self.fd, self.expected.size)
        self.place.close()

    def check(self) -> None:
        """Raise TargetMoved unless it has the name as read, by content if times cannot tell."""
        expected, place = self.expected, self.place
        if not expected.settled and not self.holds_content():
            raise TargetMoved()
        try:
            status = _os.lstat(place.name, dir_fd=place.dir_fd)
        except FileNotFoundError:
            raise TargetMoved() from None
        if not expected.stands_in(status):
            raise TargetMoved()

    def let_go(self, hooks: Hooks, *, always: bool = False) -> bool:
        """Record what was written to it since, and hand its handle over for the late look.

        Returns whether its temporary name may go; not if that could not be recorded. A large file
        is looked at late only if another program has it open, or `always`.
        """
        for _ in range(2):  # a passing fault must not leave the temporary name behind
            known = self.known
            try:
                if not known.stands_in(_os.fstat(self.fd)):
                    known = recorded(self.place.real, self.fd, known, hooks.keep)
            except OSError:
                continue
            except Refusal:  # it could not be recorded
                return False
            if always or known.size <= _LATE_BYTES or self.open_elsewhere:
                hooks.late.take(self.fd, self.place.real, known)
                self.fd = -1
            return True
        return False


_LATE_BYTES = 1 << 20
"""A larger file is not kept for a late check that is hardly needed: it would occupy the disk."""


class NewFile:
    """A complete new file next to its place, open as `fd`; it has no name yet, or `temp`.

    It gets the attributes `like`, as far as the system allows; without them it has the default
    mode. `beside`: a thread flushes it, and `named` waits for that. The constructor raises
    TargetMoved, OSError.
    """

    def __init__(
        self,
        place: ResolvedPath,
        pieces: Sequence[Piece],
        like: Removed | None,
        old_fd: int = -1,
        *,
        flush: bool,
        beside: bool = False,
        temp: bytes = b"",
    ) -> None:
        self._place, self.temp = place, temp
        # Nobody else may read what was in an old file before the new one has its mode.
        mode = 0o600 if old_fd >= 0 else _DEFAULT_MODE
        self.fd = _os.open_new(place.dir_fd, temp, mode) if temp else self._opened(mode)
        self._flushing = None
        try:
            write_pieces(self.fd, pieces, old_fd, start=flush)
            self.stat = _os.fstat(self.fd)
            if sys.platform == "darwin" and old_fd >= 0:
                allowed(_os.copy_attributes_at_once, old_fd, self.fd)
            if like is not None:
                set_attributes(self.fd, self.stat, like)
            if flush and beside:
                self._flushing = flush_in_thread(self.fd)
            elif flush:
                _os.sync(self.fd)
        except BaseException:
            self.gone()
            raise

    def _opened(self, mode: int) -> int:
        """Open a file without a name if possible, so that a kill leaves nothing."""
        place = self._place
        with _os.Ignoring(*_NO_UNNAMED):
            return _os.open_unnamed(place.dir_fd, mode)
        return self._with_temp(lambda name: _os.open_new(place.dir_fd, name, mode), UNFINISHED)

    def _with_temp(self, make: Callable[[bytes], T], end: bytes = b".tmp") -> T:
        """Make it with a temporary name that is free, which it has from then on."""
        while True:
            name = new_temp(self._place.name, end)
            with suppress(FileExistsError):
                result = make(name)
                self.temp = name
                return result

    def named(self) -> bytes:
        """Make sure that it has a temporary name as a finished file; return that. OSError."""
        place = self._place
        if self._flushing is not None:
            self._flushing.result()
        if not self.temp:
            self._with_temp(lambda name: _os.give_name(self.fd, place.dir_fd, name))
        self.close()
        if self.temp.endswith(UNFINISHED):
            name = new_temp(place.name)
            _os.rename(place.dir_fd, self.temp, name)
            self.temp = name
        return self.temp

    def take_name(self) -> None:
        """Take the name of the place, which must be free; EEXIST, OSError."""
        place = self._place
        if self.temp:
            rename_free(place.dir_fd, self.temp, place.name)
            self.temp = b""
        else:
            _os.give_name(self.fd, place.dir_fd, place.name)

    def gone(self) -> None:
        """Close it, and remove its temporary name; never raises OSError."""
        if self._flushing is not None:
            wait((self._flushing,))
        fd, temp, self.fd, self.temp = self.fd, self.temp, -1, b""
        if fd >= 0:
            _os.close_quietly(fd)
        if temp:
            discard(self._place.dir_fd, temp)

    def close(self) -> None:
        """Close it; OSError if some of it could not be written."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            _os.close(fd)


_DEFAULT_MODE = 0o666
# EISDIR and ENOENT are said by kernels that do not know O_TMPFILE, the others by file systems.
_NO_UNNAMED = (
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EISDIR,
    errno.ENOENT,
    errno.EINVAL,
)
# EPERM: a file system without links.
_NO_SUCH_CALL = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)


def rename_free(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Rename a file to a free name; EEXIST if it is taken, OSError."""
    try:
        _os.rename_no_replace(dir_fd, old, new, to_fd)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # the system cannot do this, or not now
        _os.link(dir_fd, old, new, to_fd)
        try:
            _os.unlink(old, dir_fd=dir_fd)
        except OSError:  # the file must not keep two names
            discard(dir_fd if to_fd is None else to_fd, new)
            raise


def taken_aside(place: ResolvedPath, known: Known, hooks: Hooks, *, late: bool = False) -> bytes:
    """Move the file, if it is as `known`, to a temporary name and return that.

    Returns an empty name if the file differs; it then has its name again, and what was written to
    it at that moment stays. `late`: it is checked again. Raises OSError with the file in place,
    NotPutBack.
    """
    temp = new_temp(place.name)
    try:
        _os.rename(place.dir_fd, place.name, temp)
    except FileNotFoundError:
        return b""
    try:
        with opened(place, temp) as fd:
            if fd >= 0 and known.is_in(fd):
                if late:
                    hooks.late.take(_os.duplicate(fd), place.real, known)
                return temp
    except OSError:
        with putting_back():
            rename_free(place.dir_fd, temp, place.name)
        raise
    with putting_back():
        try:
            rename_free(place.dir_fd, temp, place.name)
        except FileExistsError:  # another program has created a new one
            discard_recorded(place, temp, known, hooks)
    return b""


def discard_recorded(place: ResolvedPath, temp: bytes, known: Known, hooks: Hooks) -> None:
    """Remove a temporary name, after recording what others wrote to its file.

    Raises OSError, NotPutBack with the name in place.
    """
    with opened(place, temp) as fd:
        if fd >= 0:
            try:
                known = recorded(place.real, fd, known, hooks.keep)
            except Refusal as refused:
                raise NotPutBack(f"{temp.decode()}: {refused.facts().get('reason')}") from refused
            hooks.late.take(_os.duplicate(fd), place.real, known)
        discard(place.dir_fd, temp)


def offered_at(place: ResolvedPath) -> _os.Offers:
    """What the file system of a directory offers, tried with two temporary files; OSError."""
    with ExitStack() as stack:
        first, second = (NewFile(place, (), None, flush=False) for _ in range(2))
        for each in (first, second):
            stack.callback(each.gone)
        unnamed, names = not first.temp, (first.named(), second.named())
        with opened(place, first.temp) as fd:
            leases = _os.lease(fd, _os.READING) is not None  # it ends as the file is closed
        exchange = False
        with suppress(OSError):
            _os.rename_exchange(place.dir_fd, *names)
            exchange = True
    return replace_fields(_os.offers, unnamed=unnamed, exchange=exchange, leases=leases)


# The writes


class StagedWrite(Closing):
    """A ready write of the file at `real`; `commit` does it.

    A context: at its end what was not committed is removed, and all is closed. A write is made
    within the context of `stack`, from which it takes what has to be closed. `undone` is the name
    for which the directory is flushed after `put_back`, by default that of the place; None: it is
    not flushed.
    """

    operation: ClassVar[str] = "write"
    undone: ClassVar[bytes | None] = b""

    def __init__(
        self,
        stack: ExitStack,
        hooks: Hooks,
        place: ResolvedPath,
        parents: MadeParents | None = None,
    ) -> None:
        self._hooks, self._place, self.real, self._parents = hooks, place, place.real, parents
        self._held = stack.pop_all()

    def close(self) -> None:
        self._held.close()

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content in hex if requested; else empty."""
        return ""

    def commit(self) -> None:
        """Write it. Raises TargetMoved, FileExists, NotAFile, Failed, NotPutBack."""
        try:
            self._change()
            try:
                self._flush()
            except OSError:
                with putting_back(self._hooks.may_return):
                    try:
                        self._undo()
                    except TargetMoved:
                        raise NotPutBack("another program wrote to it meanwhile") from None
                raise
        except OSError as refused:
            raise failed(self.operation, refused) from refused
        if self._parents is not None:
            self._parents.are_kept = True

    def put_back(self, sha256: str) -> None:
        """Undo `commit`. Raises TargetMoved, Failed, NotPutBack.

        TargetMoved also if the file has another digest; a move or a chmod does not check it.
        """
        with refusing("put back"):
            self._check_stands(sha256)
            self._hooks.may_return()
            self._undo()
            if self.undone is not None:
                self._flush(self.undone)
        if self._parents is not None:
            self._parents.are_kept = False

    def _flush(self, name: bytes = b"") -> None:
        """Flush the directory after `name` changed, by default that of the place; OSError."""
        if self._hooks.flush:
            flush_dir(self._place.dir_fd, name or self._place.name)

    @abstractmethod
    def _check_stands(self, sha256: str) -> None:
        """Raise TargetMoved unless it is as `commit` left it, as far as that can be seen."""

    @abstractmethod
    def stamp(self) -> Stamp:
        """The stamp of the file that was just written; raises nothing, since the write is done."""

    @abstractmethod
    def _change(self) -> None:
        """Ask `may_write` and carry it out; raises as `commit`, and OSError."""

    @abstractmethod
    def _undo(self) -> None:
        """Undo the change; TargetMoved if it is not as it was left, NotPutBack, OSError."""


_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)
_AGAIN_SECONDS = 0.02
"""A file that another program has open for writing gets its name back for so long, only once."""

_COMPARED_BYTES = 1 << 20
"""Up to this size what came out of an exchange is compared by its bytes, since times have ticks.

A larger file was written to if its time or size differs, or the time of the last write is so near
to that of our reading that the clock cannot tell.
"""


class Replacement(StagedWrite):
    """A new file next to the one that it will replace.

    `digested`: compute the SHA-256 of its content while copying, starting from the `states` of the
    old file's digest if there are any; otherwise `digest` is the SHA-256 if known. `revocable`: it
    may be put back. If it is digested and not revocable, it is still being flushed; `commit` waits
    for that. Raises TargetMoved, OSError.
    """

    def __init__(
        self,
        stack: ExitStack,
        hooks: Hooks,
        old: Target,
        pieces: Iterable[Piece],
        *,
        digested: bool,
        digest: str,
        revocable: bool,
        states: States,
    ) -> None:
        status = _os.fstat(old.fd)
        if not old.expected.stands_in(status):
            raise TargetMoved()
        self._old, self._is_written, self._had_name = old, False, False
        self._told: Callable[[], str] = lambda: digest
        pieces = tuple(pieces)
        if digested:
            self._told = stack.enter_context(Digest(pieces, old.fd, states)).result
        like, beside = attributes_of(old.fd, status), digested and not revocable
        self._new = NewFile(old.place, pieces, like, old.fd, flush=hooks.flush, beside=beside)
        self._made = self._new.stat
        stack.callback(self._leave)
        super().__init__(stack, hooks, old.place)

    @property
    def digest(self) -> str:
        with refusing(self.operation):
            return self._told()

    @property
    def _ours(self) -> Known:
        """Our file as we wrote it."""
        return Known.of(self._made, self._told())

    def _change(self) -> None:
        place, old = self._place, self._old
        temp = self._new.named()
        if not self._exchange():  # what others write between check and rename, only `_leave` finds
            self._hooks.may_write()
            old.check()
            _os.rename(place.dir_fd, temp, place.name)
            self._new.temp, old.open_elsewhere = b"", _os.is_used(old.fd, _os.READING)
        self._is_written = True
        if old.open_elsewhere:
            self._hooks.note_open(place.real)

    def stamp(self) -> Stamp:
        return stamp_of_ours(self._place, self._made)

    def _check_stands(self, sha256: str) -> None:
        require_ours(self._place, self._made, sha256)

    def _leave(self) -> None:
        """Remove the temporary file once it is certain that nothing is lost with it."""
        if self._is_written and not self._old.let_go(self._hooks):
            return
        if self._had_name and not self._is_written:
            with suppress(OSError):  # who opened it in that moment may still write to it
                ours = _os.open_read(self._place.dir_fd, self._new.temp)
                self._hooks.late.take(ours, self._place.real, self._ours)
        self._new.gone()

    def _exchange(self) -> bool:
        """Exchange the names of the two files; False if the system cannot do that.

        The lock is ours and the file as it was read; names are exchanged; what came out is asked
        for its writers, then compared. Another file goes back, for TargetMoved. The same one goes
        back for a moment if another program has it open for writing; if the program still has it
        open in the second round, the exchange stands, and that is told.
        """
        place, old = self._place, self._old
        for is_second in (False, True):
            self._hooks.may_write()
            old.check()
            if not self._exchanged():
                return False
            self._had_name = True
            try:
                # First the lease, then the content: nobody can open the old file by its name any
                # more, so what was written before a handle was closed is in what is compared now.
                old.open_elsewhere = _os.is_used(old.fd, _os.READING)
                is_same = self._is_old(_os.lstat(self._new.temp, dir_fd=place.dir_fd))
            except OSError:
                with putting_back(self._hooks.may_return), suppress(TargetMoved):
                    self._give_back()
                raise
            if is_same and (is_second or not old.open_elsewhere):
                return True
            self._give_back()
            if not is_same:
                break
            _os.pause(_AGAIN_SECONDS)
            status = _os.lstat(place.name, dir_fd=place.dir_fd)
            if self._is_old(status):  # our two renames have changed its ctime
                old.expected = replace_fields(old.expected, ctime_ns=status.st_ctime_ns)
        raise TargetMoved()

    def _exchanged(self) -> bool:
        try:
            _os.rename_exchange(self._place.dir_fd, self._new.temp, self._place.name)
        except FileNotFoundError:
            raise TargetMoved() from None
        except OSError as refused:
            if refused.errno not in _CANNOT_EXCHANGE:
                raise
            return False
        return True

    def _is_old(self, status: os.stat_result) -> bool:
        """Whether it is the file as read, by its content where that is small or the clock fails."""
        expected = self._old.expected
        if not expected.stands_in(status, renamed=True):
            return False
        return (expected.settled and expected.size > _COMPARED_BYTES) or self._old.holds_content()

    def _give_back(self) -> None:
        """Give the file that came out its name again, and inspect the file that this brings back.

        The latest writer keeps the name, and nothing of the other file is lost. What has the name
        and the temporary one after the exchange back, and then:

        - old, ours: nobody wrote to ours, which may be tried again
        - old, ours with more in it: that is recorded, the file goes
        - old, a third, which took the name meanwhile: they are exchanged once more, and what was
          written to the old one is recorded before it goes
        - none, old: somebody removed the name, nothing was exchanged; the same

        Raises TargetMoved but for the first, NotPutBack.
        """
        place, ours = self._place, self._ours
        temp, self._new.temp = self._new.temp, b""  # no longer ours to remove
        with putting_back():
            with suppress(FileNotFoundError):  # somebody has removed the name since
                _os.rename_exchange(place.dir_fd, temp, place.name)
                with opened(place, temp) as fd:
                    status = _os.fstat(fd) if fd >= 0 else None
                if status is not None and ours.stands_in(status):
                    self._new.temp = temp
                    return
                if status is None or status.st_ino != ours.ino:  # that is the later one
                    _os.rename_exchange(place.dir_fd, temp, place.name)
            known = ours if inode_at(place, temp) == ours.ino else self._old.known
            discard_recorded(place, temp, known, self._hooks)
        raise TargetMoved()

    def _undo(self) -> None:
        """Restore the old file, or a copy if it is gone.

        Ours is opened before it loses the name. If others wrote to it by then, names are exchanged
        again, for TargetMoved; where they cannot be exchanged, what was written is recorded.
        """
        place, old, ours = self._place, self._old, self._ours
        if inode_at(place, place.name) != ours.ino:
            raise TargetMoved()
        with opened(place, place.name) as fd:
            if not self._new.temp or inode_at(place, self._new.temp) != old.expected.ino:
                status = _os.fstat(old.fd)
                whole, like = [Kept(0, status.st_size)], attributes_of(old.fd, status)
                self._new = NewFile(place, whole, like, old.fd, flush=False)
            temp = self._new.named()
            exchanged = self._exchanged()
            if not exchanged:
                _os.rename(place.dir_fd, temp, place.name)
                self._new.temp = b""
            if fd < 0 or not ours.is_in(fd):
                if exchanged:
                    _os.rename_exchange(place.dir_fd, temp, place.name)
                    raise TargetMoved()
                with suppress(Refusal):
                    recorded(place.real, fd, ours, self._hooks.keep)
            self._is_written = False


class Overwriting(StagedWrite):
    """A file with several names about to be written in place, with its new bytes in memory.

    `before` gets the old bytes first. Raises TargetMoved, OSError.
    """

    def __init__(
        self,
        stack: ExitStack,
        hooks: Hooks,
        place: ResolvedPath,
        expected: Stamp,
        sha256: str,
        pieces: Iterable[Piece],
        before: Callable[[bytes], None],
    ) -> None:
        try:
            self._fd = _os.open_update(place.dir_fd, place.name)
        except OSError as refused:
            if refused.errno in _NO_FILE:
                raise TargetMoved() from None
            raise
        stack.callback(_os.close_quietly, self._fd)
        self._expected = self._written = expected
        self._sha256, self._written_sha256, self._before = sha256, "", before
        self._old = self._checked(sha256)
        self._new = from_memory(pieces, self._old)
        super().__init__(stack, hooks, place)

    def _change(self) -> None:
        self._before(self._old)
        self._hooks.may_write()
        with self._alone():
            if self._checked(self._sha256) != self._old:
                raise TargetMoved()
            try:
                self._written = self._write(self._new, len(self._old))
            except BaseException:
                self._restore(max(len(self._old), sum(map(len, self._new))))
                raise

    def stamp(self) -> Stamp:
        return self._written

    def _check_stands(self, sha256: str) -> None:
        self._written_sha256 = sha256  # looked at in `_undo`, when nobody can open the file

    def _undo(self) -> None:
        with self._alone():
            self._restore(len(self._checked(self._written_sha256)))

    def _flush(self, name: bytes = b"") -> None:
        """Do nothing: its writes are flushed."""

    def _restore(self, size: int) -> None:
        """Write the old bytes to a file of at most `size` bytes; raises NotPutBack."""
        with putting_back():
            self._write([self._old], size)

    def _write(self, pieces: Sequence[bytes | memoryview], old_size: int) -> Stamp:
        """Write all of a file that had at most `old_size` bytes; bytes appended since are kept."""
        fd, mode, size = self._fd, self._expected.mode, sum(map(len, pieces))
        _os.seek(fd, 0, os.SEEK_SET)
        write_pieces(fd, pieces, fd)
        known = max(size, old_size)  # what is behind was appended meanwhile, and moves up
        tail = read_at(fd, max(_os.fstat(fd).st_size - known, 0), known) if size < known else b""
        write_all(fd, tail)
        if size < known:
            _os.truncate(fd, size + len(tail))
        if self._hooks.flush:
            _os.sync(fd)
        now_ns, status = _os.now_ns(), _os.fstat(fd)
        if status.st_mode != mode:  # a write clears the set-id bits
            with suppress(PermissionError):
                _os.chmod(fd, mode & 0o7777)
                status = _os.fstat(fd)
        return Stamp.of(status, now_ns)

    def _checked(self, sha256: str) -> bytes:
        """The bytes of the file; TargetMoved if they have another digest, or another time."""
        if not self._written.stands_in(_os.fstat(self._fd)):
            raise TargetMoved()
        data = read_at(self._fd, self._written.size, 0)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise TargetMoved()
        return data

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep others from opening the file, if the system has leases and nobody has it open.

        Programs that want to open it wait until it is written. Elsewhere, what is appended at that
        very moment shows in the size of the file and stays at its end; a lease closes the remaining
        gap. Most that have it open close it within some milliseconds; then it is written without.
        """
        taken = False
        for seconds in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016):
            if seconds:
                _os.pause(seconds)
            taken = bool(_os.lease(self._fd, _os.ALONE))
            if taken:
                break
        try:
            yield
        finally:
            if taken:
                _os.lease(self._fd, _os.FREE)


class Creation(StagedWrite):
    """A new file, complete but for its name, with default mode or the attributes of `like`.

    `other` is the directory and name of a file; the new name is linked to it if it has these bytes.
    Raises FileExists, NotAFile, OSError.
    """

    operation, undone = "create", b"."

    def __init__(
        self,
        stack: ExitStack,
        hooks: Hooks,
        place: ResolvedPath,
        parents: MadeParents,
        data: bytes,
        like: Removed | None,
        other: tuple[int, bytes] | None,
    ) -> None:
        refuse_existing(place)
        self._data, self._like = data, like
        new: NewFile | None = None
        if other is not None:
            with suppress(OSError, TargetMoved):
                new = _Linked(place, other, data)
        self._new = new or NewFile(place, [data], like, flush=hooks.flush)
        stack.callback(lambda: self._new.gone())  # another one, or nothing once it has its name
        super().__init__(stack, hooks, place, parents)

    def _change(self) -> None:
        self._hooks.may_write()
        try:
            self._take_name()
        except FileExistsError:
            refuse_existing(self._place)
            raise FileExists() from None  # it has gone again

    def _flush(self, name: bytes = b"") -> None:
        self._new.close()
        super()._flush(name)

    def stamp(self) -> Stamp:
        return stamp_of_ours(self._place, self._new.stat)

    def _check_stands(self, sha256: str) -> None:
        require_ours(self._place, self._new.stat, sha256)

    def _take_name(self) -> None:
        with _os.Ignoring(*_NO_SUCH_CALL):
            self._new.take_name()
            return
        self._new.gone()  # it can only be written under its name, which a kill may leave torn
        place, flush = self._place, self._hooks.flush
        self._new = NewFile(place, [self._data], self._like, flush=flush, temp=place.name)
        self._new.temp = b""

    def _undo(self) -> None:
        """Remove our file; one that another program wrote to stays."""
        place, ours = self._place, self._new.stat
        if inode_at(place, place.name) != ours.st_ino:
            raise TargetMoved()
        known = Known.of(ours, hashlib.sha256(self._data).hexdigest())
        temp = taken_aside(place, known, self._hooks, late=True)
        if not temp:
            raise TargetMoved()
        discard(place.dir_fd, temp)


class _Linked(NewFile):
    """Another name of the file `other` with these bytes; TargetMoved for other bytes, OSError."""

    def __init__(self, place: ResolvedPath, other: tuple[int, bytes], data: bytes) -> None:
        self._place, self.fd, self.temp, self._flushing = place, -1, b"", None
        self._with_temp(lambda name: _os.link(*other, name, place.dir_fd))
        try:
            with opened(place, self.temp) as fd:
                if fd < 0 or _os.fstat(fd).st_size != len(data):
                    raise TargetMoved()
                self.stat = _os.fstat(fd)
                if read_at(fd, len(data), 0) != data:
                    raise TargetMoved()
        except BaseException:
            self.gone()
            raise


class Removal(StagedWrite):
    """The removal of a file's name; until the end it has a temporary one for `put_back`."""

    operation, undone = "remove", None

    def __init__(self, stack: ExitStack, hooks: Hooks, old: Target) -> None:
        self._old, self._temp = old, b""
        stack.callback(self._leave)
        super().__init__(stack, hooks, old.place)

    def _change(self) -> None:
        old, place = self._old, self._place
        if not old.expected.stands_in(_os.fstat(old.fd)):
            raise TargetMoved()
        self._hooks.may_write()
        old.check()
        self._temp = taken_aside(place, old.known, self._hooks)
        if not self._temp:
            raise TargetMoved()
        if _os.is_used(old.fd, _os.READING):
            self._hooks.note_open(place.real)

    def _flush(self, name: bytes = b"") -> None:
        super()._flush(b".")

    def stamp(self) -> Stamp:
        return self._old.expected

    def _check_stands(self, sha256: str) -> None:
        """Do nothing: what stands is a free name, which `_undo` takes or not."""

    def _undo(self) -> None:
        """Give the file its name again unless that is taken; OSError keeps the temporary name."""
        rename_free(self._place.dir_fd, self._temp, self._place.name)
        self._temp = b""

    def _leave(self) -> None:
        if self._temp and self._old.let_go(self._hooks, always=True):
            discard(self._place.dir_fd, self._temp)


class Move(StagedWrite):
    """The move of a file to the free name `target`; it keeps its attributes and other names."""

    operation = "move"

    def __init__(
        self,
        stack: ExitStack,
        hooks: Hooks,
        old: Target,
        target: ResolvedPath,
        parents: MadeParents,
    ) -> None:
        self._old, self._from, self._stamp = old, old.place, old.expected
        super().__init__(stack, hooks, target, parents)

    def _change(self) -> None:
        target, expected = self._place, self._old.expected
        self._hooks.may_write()
        self._old.check()
        refuse_existing(target, expected)
        _move(self._from, target)
        now_ns = _os.now_ns()
        try:
            status = _os.lstat(target.name, dir_fd=target.dir_fd)
        except OSError:
            with putting_back(self._hooks.may_return):
                self._undo()
            raise
        if status.st_ino != expected.ino:  # another file had got the name
            with putting_back():
                self._undo()
            raise TargetMoved()
        self._stamp = Stamp.of(status, now_ns)

    def stamp(self) -> Stamp:
        return self._stamp

    def _check_stands(self, sha256: str) -> None:
        if inode_at(self._place, self._place.name) != self._old.expected.ino:
            raise TargetMoved()

    def _undo(self) -> None:
        _move(self._place, self._from)

    def _flush(self, name: bytes = b"") -> None:
        super()._flush(b".")
        if self._hooks.flush:
            flush_dir(self._from.dir_fd, b".")


def _move(place: ResolvedPath, target: ResolvedPath) -> None:
    """Rename a file unless the new name is taken; raises FileExists, NotAFile, OSError."""
    try:
        rename_free(place.dir_fd, place.name, target.name, target.dir_fd)
    except FileNotFoundError:
        raise TargetMoved() from None
    except FileExistsError:
        moved = _os.lstat(place.name, dir_fd=place.dir_fd)
        taking = _os.lstat(target.name, dir_fd=target.dir_fd)
        # The names differ in case only, which the system ignores.
        if (moved.st_dev, moved.st_ino, moved.st_nlink) != (taking.st_dev, taking.st_ino, 1):
            refuse_existing(target)
            raise FileExists() from None  # it has gone again
        _os.rename(place.dir_fd, place.name, target.name, target.dir_fd)


class Chmod(StagedWrite):
    """A change of the permission bits of a file; it stays the same file."""

    operation = "change the mode"

    def __init__(self, stack: ExitStack, hooks: Hooks, old: Target, mode: int) -> None:
        self._old, self._mode = old, mode
        super().__init__(stack, hooks, old.place)

    def _change(self) -> None:
        self._hooks.may_write()
        self._old.check()
        _os.chmod(self._old.fd, self._mode)

    def _flush(self, name: bytes = b"") -> None:
        if self._hooks.flush:
            _os.sync(self._old.fd)

    def stamp(self) -> Stamp:
        now_ns = _os.now_ns()
        return Stamp.of(_os.fstat(self._old.fd), now_ns)

    def _check_stands(self, sha256: str) -> None:
        if _os.fstat(self._old.fd).st_mode & 0o7777 != self._mode:
            raise TargetMoved()

    def _undo(self) -> None:
        _os.chmod(self._old.fd, self._old.expected.mode & 0o7777)


# All files below a root

MOST_NEW_PARENTS = 100
"""Limit of directories created for one new file; each is flushed to disk."""

_READS_TRIED = 5
_SURVEYED = 64
_CHANGING = "EBUSY: the file changes while it is read"


class Files(Closing):
    """The files below the directory `root`.

    Every method raises InvalidPath for a path that leads out of the root and Failed for what the
    operating system refuses. Methods that need a file raise FileNotFound if there is none and
    NotAFile(kind) if it is not a regular one. Each does all of its work or raises with nothing
    changed; `NotPutBack` is the one exception. Safe to call from many threads until `close`; two
    writers of one file are not excluded here, that is the job of the lock of the layer above.

    `limit_bytes` is the size of the largest file to edit, `whole_bytes` that of the largest to load
    whole. `may_write` raises TargetMoved or Failed if a writer has lost its lock; it is called
    right before each step that changes what a name leads to or what a file contains, and
    `may_return` right before that is undone. `keep` records what another program wrote to a file at
    the moment when it was replaced; `note_open` is called if another program still has that open
    for writing.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        limit_bytes: int = 64 << 20,
        whole_bytes: int = sizes.WHOLE,
        may_write: Callable[[], None] = lambda: None,
        may_return: Callable[[], None] = lambda: None,
        keep: Keep = keep_nothing,
        note_open: Callable[[RelPath], None] = lambda real: None,
    ) -> None:
        self._surveyed: dict[tuple[Stamp, str | None], Survey] = {}
        self._root = Root(os.fspath(root))
        self._late, self._flush = LateLooks(keep), durability == "full"
        self._hooks = Hooks(may_write, may_return, keep, note_open, self._late, self._flush)
        self._limit_bytes = limit_bytes
        self._whole_bytes = whole_bytes

    def close(self) -> None:
        self._late.close()
        wait_all_closed()
        self._root.close()

    @property
    def root(self) -> str:
        """The root's real path when it was opened, to show and for other programs."""
        return self._root.path

    def resolve(self, path: RelPath, via: Callable[[RelPath], None] = lambda link: None) -> RelPath:
        """The real path, a missing end as written; `via` gets each link before and may refuse."""
        place = self._root.place(path, via=via)
        place.close()
        return place.real

    def stat(self, path: RelPath) -> tuple[RelPath, Stamp]:
        """The real path and the stamp of a regular file, without opening it."""
        now_ns = _os.now_ns()
        with self._root.place(path) as place:
            place.require_parent()
            if not place.name:
                raise NotAFile("directory")
            try:  # without a context: it is asked for often
                status = _os.lstat(place.name, dir_fd=place.dir_fd)
            except FileNotFoundError:
                raise FileNotFound() from None
            except OSError as refused:
                raise failed("stat", refused) from refused
            return place.real, _regular(status, now_ns)

    def peek(self, path: RelPath) -> StatResult | None:
        """What `stat` says of a real path, at little cost; None if it says nothing."""
        return self._root.peek(path)

    def info(self, path: RelPath, *, follow: bool = True) -> FileInfo:
        """The properties of the path's target, of any kind, or of a final link itself."""
        with self._root.place(path, follow=follow) as place:
            place.require_parent()
            return info_of(place)

    def make_dir(self, path: RelPath) -> None:
        """Create a directory and its missing parents; NotAFile if a file has one of the names."""
        # As for a file in it: what is above a file is made.
        with refusing("mkdir"), self._root.place(path / "in it") as place:
            self._check_name(place)
            with MadeParents(place, flush=self._flush) as parents:
                parents.are_kept = True

    def remove_dir(self, path: RelPath) -> None:
        """Remove a directory if it is empty and the system lets us. Raises InvalidPath, Failed."""
        with refusing("rmdir"), self._root.place(path, follow=False) as place:
            remove_if_empty(place.dir_fd, place.name)

    def open_names(self, names: Sequence[bytes]) -> int:
        """Open a regular file by its names, without links; FileNotFound, NotAFile, Failed."""
        try:
            fd = self._root.open_names(names)
        except OSError as refused:
            if refused.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO):
                raise FileNotFound() from None
            if refused.errno in (errno.ELOOP, errno.EXDEV, errno.EAGAIN):
                raise InvalidPath("a symlink is on the way") from None
            raise failed("open", refused) from refused
        return _opened(fd, RelPath(())).fd

    def read(self, path: RelPath) -> Document:
        """The whole file; FileTooLarge above the limit."""
        file, data = self._settled(self.open_for_reading(path), path, self._data)
        return Document(file.real, data, file.stamp)

    def has_moved(self, path: RelPath, stamp: Stamp) -> bool:
        """Whether a file that is not at the path any more has another name below the root."""
        name = _other_name(self.root, path, stamp)
        with suppress(Refusal):  # the number alone may be that of a new file
            return bool(name) and self.stat(RelPath.parse(name))[1].mtime_ns == stamp.mtime_ns
        return False

    def _data(self, file: OpenFile) -> bytes:
        """All bytes of the file; TargetMoved if there are fewer, FileTooLarge, OSError."""
        size = file.stamp.size
        if size > self._limit_bytes:
            raise FileTooLarge(size, self._limit_bytes)
        if size > self._whole_bytes:
            raise FileTooLarge(size, self._whole_bytes, "whole_bytes")
        data = read_at(file.fd, size, 0)
        if len(data) < size:
            raise TargetMoved()
        return data

    def _settled(
        self, file: OpenFile, path: RelPath, read: Callable[[OpenFile], T]
    ) -> tuple[OpenFile, T]:
        """What `read` finds in the file, now closed; it is opened again if it changes."""
        for again in range(_READS_TRIED):
            file = self.open_for_reading(path) if again else file
            try:
                result = read(file)
                if file.stamp.stands_in(_os.fstat(file.fd)):
                    return file, result
            except TargetMoved:
                continue
            except OSError as refused:
                raise failed("read", refused) from refused
            finally:
                close_of_size(file.fd, file.stamp.size)
        raise Failed("read", _CHANGING)

    def window(
        self, path: RelPath, first_line: int, most_bytes: int, named: str | None, *, last: bool
    ) -> Window:
        """Read some lines of a file of any size, in bounded memory.

        They start at line `first_line` (0-based), or with `last` are that many lines at the end.
        `named` is the encoding that the configuration names. Raises BinaryFile.
        """
        with refusing("read"), self.open_for_reading(path) as file:
            if last:
                return last_lines(file, first_line, most_bytes, named)
            try:
                return self._large(file, named).window(first_line, most_bytes)
            except TargetMoved:
                raise Failed("read", _CHANGING) from None

    def text(self, path: RelPath, named: Named, sought: Sequence[Sought] = ()) -> OpenText:
        """Open the file as text, in parts if large; `sought` is found on the way. FileTooLarge."""
        file = _opened(*self._root.open_file(path))
        if file.stamp.size <= sizes.LARGE:
            file, data = self._settled(file, path, self._data)
            # Not ended by us: of bytes in memory it may be computed as long as the snapshot lives.
            digest = Digest((data,)).result if file.stamp.size >= sizes.BESIDE else None
            return OpenText(file.real, file.stamp, Snapshot.of(data, named(file.real), digest))
        try:
            if file.stamp.size > self._limit_bytes:
                raise FileTooLarge(file.stamp.size, self._limit_bytes)
            source = self._large(file, named(file.real), sought)
        except BaseException:
            file.close()
            raise
        return OpenText(file.real, file.stamp, source, file.close)

    def any_content(self, path: RelPath, named: Named) -> OpenText:
        """Open any file whole; one that is not text is shown as bytes. Raises FileTooLarge."""
        try:
            with self.text(path, named) as opened:
                return OpenText(opened.real, opened.stamp, opened.source.whole())
        except BinaryFile:
            document = self.read(path)
            return OpenText(document.real, document.stamp, Snapshot(document.data, BYTES))

    def unread(self, path: RelPath) -> OpenText:
        """A file of any size and content, of which only size and digest are known."""
        real, stamp, digest = self.digest(path)
        return OpenText(real, stamp, Excerpt.unread(stamp.size, digest))

    def open_for_reading(self, path: RelPath) -> OpenFile:
        """Open the file for reading, whatever its size; the caller closes it."""
        return _opened(*self._root.open_file(path))

    def list_dir(self, path: RelPath) -> tuple[RelPath, tuple[DirEntry, ...]]:
        """A directory's real path and its entries by name, without copydesk's temporary files."""
        with self._root.open_dir(path) as place, refusing("list"):
            return place.real, entries(place.dir_fd)

    def similar(self, path: RelPath) -> tuple[str, ...]:
        """Up to three existing names close to a missing one, closest first."""
        with self._root.place(path) as place:
            if place.missing or place.blocked:
                return ()
            with refusing("list"):
                return similar(place.dir_fd, place.real.name)

    def offers(self) -> Offers:
        """What the system and the file system of the root offer; makes files. Raises Failed."""
        with refusing("make a file"), self._root.open_dir(RelPath(())) as place:
            return offered_at(place)

    def digest(self, path: RelPath) -> tuple[RelPath, Stamp, str]:
        """The real path, the stamp and the SHA-256 in hex of a file, in bounded memory."""
        file, digest = self._settled(
            self.open_for_reading(path), path, lambda file: sha256_of(file.fd, file.stamp.size)
        )
        return file.real, file.stamp, digest

    def replace(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        expected_real: RelPath | None = None,
    ) -> Stamp:
        """Do what `stage` prepares; return the new stamp."""
        with self.stage(
            path,
            expected,
            expected_sha256,
            pieces,
            before_in_place=before_in_place,
            expected_real=expected_real,
            revocable=False,
        ) as staged:
            staged.commit()
            return staged.stamp()

    def stage(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        digested: bool = False,
        expected_real: RelPath | None = None,
        digest: str = "",
        revocable: bool = True,
        content: bytes | None = None,
    ) -> StagedWrite:
        """Prepare to replace the file's bytes by `pieces`, which is iterated at most once.

        Without `commit` the context ends with nothing changed.

        `expected` and `expected_sha256` (64 lower-case hex digits, of the whole old content)
        describe what was read, and `content` are its bytes if loaded. TargetMoved is raised, here
        or by `commit`, if the file has changed since, or if the path does not lead to
        `expected_real`. `digest` is the SHA-256 of the new content if known; `digested`: compute
        it. A file with several links is written in place, and `commit` calls `before_in_place` with
        its old bytes first (a TargetMoved may still follow). NotPutBack is raised if a write failed
        and the old bytes could not be restored.
        """
        with refusing("write"), ExitStack() as stack:
            old = self._target(stack, path, expected, expected_sha256, expected_real)
            old.content = content
            if expected.nlink > 1:
                _os.close_quietly(old.fd)  # a lease requires that nobody else has the file open
                old.fd, known = -1, (expected, expected_sha256)
                return Overwriting(stack, self._hooks, old.place, *known, pieces, before_in_place)
            return Replacement(
                stack,
                self._hooks,
                old,
                pieces,
                digested=digested,
                digest=digest,
                revocable=revocable,
                states=self._states_of(expected, expected_sha256) if digested else (),
            )

    def create(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
    ) -> tuple[RelPath, Stamp]:
        """Create a file; FileExists, NotAFile for a taken name, FileNotFound without parent."""
        with self.stage_new(
            path, data, make_parents=make_parents, expected_real=expected_real
        ) as staged:
            staged.commit()
            return staged.real, staged.stamp()

    def check_new(self, path: RelPath, own: Stamp | None = None) -> None:
        """Raise what `create` would raise; the file `own` may have the name in another case."""
        with refusing("create"), ExitStack() as stack:
            self._new(stack, path, None, own).require_way()

    def missing_parents(self, path: RelPath) -> int:
        """The number of directories that a new file would need created."""
        with self._root.place(path, follow=False) as place:
            return len(place.missing)

    def remove_parents(self, path: RelPath, count: int) -> None:
        """Remove up to `count` empty directories above a path, the lowest first."""
        for _ in range(count):
            path = path.parent
            with refusing("remove"), self._root.place(path, follow=False) as place:
                if place.missing or place.blocked or not place.name:
                    return
                try:
                    _os.rmdir(place.name, dir_fd=place.dir_fd)
                except OSError as refused:
                    if refused.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        return
                    if refused.errno != errno.ENOENT:
                        raise

    def attributes(self, real: RelPath) -> Removed:
        """What a removal of the file would delete besides its bytes."""
        with refusing("read"), self.open_for_reading(real) as file:
            is_alone = file.stamp.nlink == 1
            other = "" if is_alone else _other_name(self._root.path, real, file.stamp)
            return replace_fields(attributes_of(file.fd, _os.fstat(file.fd)), other_name=other)

    def stage_new(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
        removed: Removed | None = None,
    ) -> StagedWrite:
        """Prepare what `create` does; without `commit` the context ends with nothing changed.

        The missing parents exist meanwhile. With `removed`, the file gets the attributes of that
        file, and becomes another name of the same file again if that has these bytes.
        """
        with refusing("create"), ExitStack() as stack:
            place = self._new(stack, path, expected_real)
            other = self._other(stack, removed) if removed is not None else None
            if not make_parents:
                place.require_parent()
            parents = stack.enter_context(MadeParents(place, flush=self._flush))
            return Creation(stack, self._hooks, place, parents, data, removed, other)

    def _other(self, stack: ExitStack, removed: Removed) -> tuple[int, bytes] | None:
        """The directory and name of the file that the removed one was another name of."""
        if removed.other_name:
            with suppress(OSError, Refusal):
                path = RelPath.parse(removed.other_name)
                place = stack.enter_context(self._root.place(path, follow=False))
                place.require_parent()
                status = _os.lstat(place.name, dir_fd=place.dir_fd)
                if (status.st_dev, status.st_ino) == removed.inode:
                    return place.dir_fd, place.name
        return None

    def stage_move(
        self,
        path: RelPath,
        to: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
        expected_to: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare a move to a free name; parents are created. FileExists, NotAFile."""
        with refusing("move"), ExitStack() as stack:
            old = self._target(stack, path, expected, expected_sha256, expected_real)
            target = self._new(stack, to, expected_to, expected)
            parents = stack.enter_context(MadeParents(target, flush=self._flush))
            return Move(stack, self._hooks, old, target, parents)

    def stage_chmod(
        self,
        path: RelPath,
        mode: int,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare a change of the permission bits of a file."""
        with refusing("change the mode"), ExitStack() as stack:
            old = self._target(stack, path, expected, expected_sha256, expected_real)
            return Chmod(stack, self._hooks, old, mode)

    def remove(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> None:
        """Remove a file that is unchanged since it was read; else TargetMoved."""
        with self.stage_removal(path, expected, expected_sha256, expected_real=expected_real) as s:
            s.commit()

    def stage_removal(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare what `remove` does; without `commit` nothing changes."""
        with refusing("remove"), ExitStack() as stack:
            old = self._target(stack, path, expected, expected_sha256, expected_real)
            return Removal(stack, self._hooks, old)

    def restore(
        self, path: RelPath, sha256: str, data: Callable[[], bytes], removed: Removed | None
    ) -> None:
        """Restore a removed file with digest `sha256`; FileExists, NotAFile for a taken name."""
        with refusing("put back"), ExitStack() as stack:
            place = self._new(stack, path, path)
            for name in _temps_of(place):
                if not name.endswith(UNFINISHED):
                    with opened(place, name) as fd:
                        if fd >= 0 and sha256_of(fd, _os.fstat(fd).st_size) == sha256:
                            self._hooks.may_return()
                            rename_free(place.dir_fd, name, place.name)
                            return
        with self.stage_new(path, data(), expected_real=path, removed=removed) as staged:
            staged.commit()

    def sweep(
        self, path: RelPath, before_ns: int, known: Mapping[RelPath, Collection[str]]
    ) -> tuple[int, tuple[RelPath, ...]]:
        """Remove copydesk's temporary files that a killed process left in a directory.

        Only those last touched before `before_ns` (since the epoch); returns their number. `known`
        are the hex digests of what copydesk recorded of files; a file with another digest is
        recorded first, as another program's. Those that cannot be recorded stay and are returned
        too.
        """
        removed, remaining = 0, list[RelPath]()
        with refusing("sweep"), self._root.open_dir(path) as place:
            here = [name.encode() for name in {p.name for p in known if p.parent == place.real}]
            left = [name for name in temps(place.dir_fd) if is_stale(place.dir_fd, name, before_ns)]
            for name in left:
                of = (n for n in (*here, *names(place.dir_fd)) if is_temp_of(name, n))
                if self._swept(place.real, name, next(of, b""), known):
                    removed += 1
                else:
                    remaining.append(RelPath((*place.real.parts, name.decode())))
        return removed, tuple(remaining)

    def _swept(
        self, folder: RelPath, name: bytes, target: bytes, known: Mapping[RelPath, Collection[str]]
    ) -> bool:
        """Remove a temporary file made for `target` (if known); return whether it was removed."""
        with suppress(UnicodeDecodeError, OSError, Refusal):  # it stays
            of = RelPath((*folder.parts, (target or name).decode()))
            with self._root.place(of, follow=False) as place:
                if target or name.endswith(UNFINISHED):
                    return self._removed(place, name, known.get(of, ()))
        return False

    def sweep_for(self, path: RelPath, known: Collection[str]) -> int:
        """Remove a file's unfinished writes, recording unknown content; return their number."""
        with refusing("sweep"), self._root.place(path, follow=False) as place:
            return sum(self._removed(place, name, known) for name in _temps_of(place))

    def _large(self, file: OpenFile, named: str | None, sought: Sequence[Sought] = ()) -> LargeFile:
        key = (file.stamp, named)

        def keep(known: Survey) -> None:
            if file.stamp.settled:
                if len(self._surveyed) >= _SURVEYED:
                    self._surveyed.clear()
                self._surveyed[key] = known

        return LargeFile(file, named, self._whole_bytes, sought, self._surveyed.get(key), keep)

    def _states_of(self, stamp: Stamp, sha256: str) -> States:
        """The states of the digest of a file, if a pass over it has saved any."""
        known = (one for (known_stamp, _), one in [*self._surveyed.items()] if known_stamp == stamp)
        return next((one.states for one in known if one.facts.digest == sha256), ())

    def _removed(self, place: ResolvedPath, name: bytes, known: Collection[str]) -> bool:
        """Remove a temporary file, recording unknown content; False if not a file. OSError."""
        if not name.endswith(UNFINISHED):
            with opened(place, name) as fd:
                if fd < 0:
                    return False
                size = _os.fstat(fd).st_size
                if size and sha256_of(fd, size) not in known:
                    self._hooks.keep(place.real, read_at(fd, size, 0), None, False)
        discard(place.dir_fd, name)
        return True

    def _target(
        self,
        stack: ExitStack,
        path: RelPath,
        expected: Stamp,
        sha256: str,
        expected_real: RelPath | None,
    ) -> Target:
        """The file to be changed, open for reading until `stack` ends."""
        place, fd = self._root.open_target(path)
        target = Target(place, fd, expected, sha256)
        stack.callback(target.close)
        if expected_real is not None and place.real != expected_real:
            raise TargetMoved()
        return target

    def _new(
        self,
        stack: ExitStack,
        path: RelPath,
        expected_real: RelPath | None,
        own: Stamp | None = None,
    ) -> ResolvedPath:
        """The place of a file that does not exist, except perhaps as `own` in another case."""
        place = stack.enter_context(self._root.place(path, follow=False))
        self._check_name(place)
        if not place.missing and not place.blocked:
            refuse_existing(place, own)  # first: a link's real path is its target's
        if expected_real is not None and place.real != expected_real:
            raise TargetMoved()
        return place

    def _check_name(self, place: ResolvedPath) -> None:
        """Raise InvalidPath for a file that no program could name, or with too many new parents."""
        if len(place.missing) > MOST_NEW_PARENTS:
            raise InvalidPath(f"more than {MOST_NEW_PARENTS} directories would have to be made")
        whole = os.path.join(os.fsencode(self._root.path), str(place.real).encode())
        if len(whole) > PATH_BYTES:
            raise InvalidPath(f"the path has more than {PATH_BYTES} bytes with that of the root")
        most = _os.name_bytes(place.dir_fd)
        if any(len(name) > most for name in (*place.missing, place.name)):
            raise InvalidPath(f"a name has more than {most} bytes")


def _opened(fd: int, real: RelPath) -> OpenFile:
    """The open file if it is a regular one; else it is closed. Raises NotAFile, Failed."""
    now_ns = _os.now_ns()
    try:
        return OpenFile(real, _regular(_os.fstat(fd), now_ns), fd)
    except BaseException as error:
        _os.close_quietly(fd)
        if isinstance(error, OSError):
            raise failed("stat", error) from error
        raise


_KIND = 0o170000
"""The bits of a mode that `stat.S_IFMT` tells; a call for each file takes longer."""


def _regular(status: os.stat_result, now_ns: int) -> Stamp:
    """The stamp of a `stat` made no earlier than `now_ns`; NotAFile if it is not a regular file."""
    if status.st_mode & _KIND != stat.S_IFREG:
        raise NotAFile(kind_of(status.st_mode))
    return Stamp.of(status, now_ns)


def _temps_of(place: ResolvedPath) -> list[bytes]:
    """The names of temporary files that were made for the file at the place; raises OSError."""
    if place.missing or place.blocked or not place.name:
        return []
    return [name for name in temps(place.dir_fd) if is_temp_of(name, place.name)]


_NAMES_SOUGHT = 200_000
"""The most names to search for another hard link of a file."""


def _other_name(root: str, real: RelPath, stamp: Stamp) -> str:
    """Another name of the file below the root, searched within bounds; empty if not found."""
    folders, looked_at = [root], 0
    while folders and looked_at < _NAMES_SOUGHT:
        try:
            listed = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in listed:
            looked_at += 1
            with suppress(OSError, UnicodeEncodeError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.inode() == stamp.ino and not is_temp(os.fsencode(entry.name)):
                    name = os.path.relpath(entry.path, root)
                    same = entry.stat(follow_symlinks=False).st_dev == stamp.dev
                    if same and name != str(real) and name.encode():
                        return name
    return ""
