"""Mutual exclusion: fair locks per file among threads, and lock files among processes.

Lock files are separate from the documents: a rename would swap the inode and the lock with it.
Invariants: a free lock goes to the smallest waiting ticket, and a caller that waits too long is
told who holds it; a process that dies releases its locks at that moment, and a child that it forked
never has them; processes get the lock in order of arrival, are woken for it, and leave nothing
behind.

Each waiter has a named pipe in a folder next to the lock file; the names sort by arrival. The
releasing process writes into the first pipe. A pipe that nobody has open belongs to a dead process
and is removed by whoever finds it; so is the pipe of a process that does not take a free lock
because it was stopped: it joins the queue again at the end.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Condition, Lock, local
from types import TracebackType
from typing import Any, ClassVar, Protocol, TypeVar
from weakref import WeakSet

from copydesk.errors import StateFailed, check_cancelled, poll_seconds
from copydesk.store import _os
from copydesk.store.protocol import NOBODY, WAIT_SECONDS, Caller, Deadline, Holder

if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_KEPT = 64
"""Lock files that stay open, for the most recently used keys."""

_KNOWN = 1_024
"""Cached paths of lock files."""

_LOOK_SECONDS = 0.1
"""A waiter retries after this time, in case the process that should wake it died."""

_STALLED_SECONDS = 1.0
"""The first waiter loses its place if it leaves a free lock untaken for this long.

Or for a quarter of the time that the next waiter has, if that is shorter.
"""

_UNQUEUED_SECONDS = 0.002
"""The polling interval on systems without named pipes."""

DATABASE = "\0database "
"""The prefix of the keys of databases; no document path contains a NUL."""

_LONG_NS = 50_000_000
_RECORD_BYTES = 1_024
_NO_PIPES = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EACCES)


Inode = tuple[int, int]
"""Device and inode."""

Handle = tuple[int, tuple[str, Inode]]
"""An open lock file: its descriptor, its path, and the inode that the path led to."""


class _Held(local):
    """Handles that this thread has locked."""

    def __init__(self) -> None:
        self.locks: list[Handle] = []


class FileLocks:
    """Locks by key among all processes that use the folder and all threads of this one.

    `make` creates the folder or refuses; it is called first, and again if the folder is removed
    while in use. `seconds` is the default time to wait for a lock.
    """

    def __init__(
        self, folder: str, make: Callable[[], object] = lambda: None, seconds: float = WAIT_SECONDS
    ) -> None:
        self._folder, self._make, self._made = folder, make, False
        self._seconds = seconds
        self._kept: dict[str, int] = {}
        self._known: dict[str, tuple[str, str]] = {}
        self._open: dict[int, Inode] = {}
        self._lock = Lock()
        self._held = _Held()
        self._count = 0
        with _forking:
            _all.add(self)

    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """Wait until nobody else holds the key, then hold it; raises Busy after `seconds`."""
        return _Hold(self, key, self._seconds if seconds is None else seconds, caller)

    def are_held(self) -> bool:
        """Whether all lock files of this thread still have their paths, so nobody locks others.

        False in a child that was forked while the lock was held: the parent holds it.
        """
        return all(
            self._open.get(fd) == inode and _is_at(path, inode)
            for fd, (path, inode) in self._held.locks
        )

    def close(self) -> None:
        """Close the handles that are not in use."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for fd in kept.values():
            self._close(fd)

    def take(self, key: str, seconds: float, caller: Caller) -> Handle:
        """Lock a handle of the key's file that no other thread uses, and return it."""
        path, queue = self._paths(key)
        deadline: Deadline | None = None
        while True:
            with self._lock:
                fd = self._kept.pop(key, -1)
            if fd < 0:
                fd = self._opened(path)
            try:
                if not (_is_open_to_all(key, queue) and _try_lock(fd)):
                    deadline = deadline or Deadline(seconds)
                    self._wait(key, fd, deadline)
                if _is_at(path, self._open[fd]):
                    if not key.startswith(DATABASE):
                        _record(fd, caller)
                    handle = fd, (path, self._open[fd])
                    self._held.locks.append(handle)
                    return handle
            except OSError as error:  # the system refused to lock the file, or to look at it
                self._close(fd)
                raise StateFailed("lock", error.strerror or str(error), path) from None
            except BaseException:
                self._close(fd)
                raise
            self._close(fd)  # somebody removed or replaced the file: others lock a new one

    def release(self, key: str, handle: Handle, *, keep: bool, forked: bool) -> None:
        """Unlock a handle, wake the first waiter, and keep the handle open for reuse.

        `forked`: this is a child of the process that took the lock, and the handle is closed here.
        """
        fd = handle[0]
        try:
            self._held.locks.remove(handle)
        finally:
            if not forked:
                _unlock(fd)
        if forked:
            return
        queue = self._paths(key)[1]
        if os.access(queue, os.F_OK):
            _wake(queue)
        gone = fd
        if keep:
            with self._lock:
                if key not in self._kept:
                    self._kept[key], gone = fd, -1
                    if len(self._kept) > _KEPT:
                        gone = self._kept.pop(next(iter(self._kept)))
        if gone >= 0:
            self._close(gone)

    def _wait(self, key: str, fd: int, deadline: Deadline) -> None:
        """Lock the file after all that came before; raises Busy."""
        queue = self._paths(key)[1]
        own, pipe = self._enqueued(queue)
        first, taken = own, False
        stalled = Stalled(min(_STALLED_SECONDS, deadline.seconds / 4))
        try:
            while True:
                if own and self._lost_place(queue, own):
                    old = pipe
                    own, pipe = self._enqueued(queue)
                    self._close(old)
                    first = own
                while own and (first := _first(queue, own)) != own:
                    if not _drop_if_dead(os.path.join(queue, first)):
                        break
                if (not own or first == own) and _try_lock(fd):
                    taken = True
                    return
                if first != own and stalled.sees_free(fd, first):
                    if stalled.is_over:
                        with suppress(OSError):
                            os.unlink(os.path.join(queue, first))
                    _wake(queue)  # the first may have tried while this one probed the lock
                    if stalled.is_over:
                        continue
                left = deadline.left
                if not left:
                    raise Holder.of(_recorded(fd)).busy(key, deadline.seconds)
                look = _LOOK_SECONDS if own else _UNQUEUED_SECONDS
                _sleep(pipe, min(left, look, poll_seconds() or look))
                check_cancelled()
        finally:
            if own:
                self._dequeue(queue, own, pipe)
                if not taken:
                    _wake(queue)  # it may have been this one's turn

    def _lost_place(self, queue: str, own: str) -> bool:
        """Whether others removed this process from the queue because it was stopped for a while."""
        return not os.path.lexists(os.path.join(queue, own)) and os.path.isdir(self._folder)

    def _enqueued(self, queue: str) -> tuple[str, int]:
        """Create a pipe in the queue; return its name and handle, an empty name without pipes."""
        if not hasattr(os, "mkfifo"):
            return "", -1
        with self._lock:
            self._count += 1
            name = f"{time.monotonic_ns():020d}-{os.getpid()}-{self._count}"
        hidden, shown = os.path.join(queue, f"~{name}"), os.path.join(queue, name)
        while True:
            try:
                os.mkdir(queue, 0o700)
            except FileExistsError:
                pass
            except OSError as error:
                raise StateFailed("lock", error.strerror or str(error), queue) from None
            pipe = -1
            try:
                os.mkfifo(hidden, 0o600)
                pipe = self._open_handle(hidden, os.O_RDWR | os.O_NONBLOCK)
                os.rename(hidden, shown)  # visible only once it is open
            except OSError as error:
                if pipe >= 0:
                    self._close(pipe)
                if error.errno == errno.ENOENT:
                    continue  # the last waiter has removed the queue
                with suppress(OSError):
                    os.unlink(hidden)
                with suppress(OSError):
                    os.rmdir(queue)
                if error.errno in _NO_PIPES:
                    return "", -1
                raise StateFailed("lock", error.strerror or str(error), queue) from None
            return name, pipe

    def _dequeue(self, queue: str, own: str, pipe: int) -> None:
        with suppress(OSError):
            os.unlink(os.path.join(queue, own))
        self._close(pipe)
        with suppress(OSError):
            for name in os.listdir(queue):
                if name[0] == "~":  # the process died, or is about to try again
                    _drop_if_dead(os.path.join(queue, name))
            os.rmdir(queue)  # fails if others wait

    def _opened(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT
        try:
            if self._made:
                with suppress(FileNotFoundError, NotADirectoryError):
                    return self._open_handle(path, flags)
            self._make()
            self._made = True
            return self._open_handle(path, flags)
        except OSError as error:
            raise StateFailed("lock", error.strerror or str(error), path) from None

    def _open_handle(self, path: str, flags: int) -> int:
        with _forking:
            fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
            found = os.fstat(fd)
            self._open[fd] = found.st_dev, found.st_ino
            return fd

    def _close(self, fd: int) -> None:
        with _forking:
            self._open.pop(fd, None)
            _os.close_quietly(fd)  # it is closed, and unlocked, whatever this says

    def _paths(self, key: str) -> tuple[str, str]:
        """The key's lock file and the folder of its waiters."""
        found = self._known.get(key)
        if found is None:
            path = f"{self._folder}{os.sep}{hashlib.sha256(key.encode()).hexdigest()[:24]}"
            found = path, f"{path}.wait"
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def forget(self) -> None:
        """Close all handles in a forked child: their locks are the parent's."""
        for fd in self._open:
            with suppress(OSError):
                os.close(fd)
        self._open, self._kept, self._lock = {}, {}, Lock()


class _Hold:
    """One key, held within a `with`; a child forked within it does not hold it."""

    __slots__ = ("_caller", "_forks", "_handle", "_key", "_locks", "_seconds")

    def __init__(self, locks: FileLocks, key: str, seconds: float, caller: Caller) -> None:
        self._locks, self._key, self._seconds, self._caller = locks, key, seconds, caller

    def __enter__(self) -> None:
        self._handle = self._locks.take(self._key, self._seconds, self._caller)
        self._forks = _forks

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        forked = self._forks != _forks
        self._locks.release(self._key, self._handle, keep=kind is None, forked=forked)


class Stalled:
    """Detects that the first in a queue leaves a free lock untaken for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first, self._since = "", 0.0
        self.is_over = False

    def sees_free(self, fd: int, first: str) -> bool:
        """Whether the lock is free while `first` still leads the queue; sets `is_over`."""
        now = time.monotonic()
        if first == self._first and _try_lock(fd):
            _unlock(fd)
            self.is_over = now - self._since >= self._seconds
            return True
        self._first, self._since, self.is_over = first, now, False
        return False


_all: WeakSet[FileLocks] = WeakSet()
_forking = Lock()
"""Held while a handle is opened or closed, so that a fork knows all of them."""


_forks = 0
"""The number of forks between the first process and this one."""


def _after_fork() -> None:
    global _forks
    _forks += 1
    for locks in list(_all):
        locks.forget()
    _forking.release()


_FORK_SECONDS = 1.0
"""How long a fork waits for locks that other threads hold."""


class _Guard(Protocol):
    """A lock of the `threading` module."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


_G = TypeVar("_G", bound=_Guard)


class _Guards(local):
    """The locks that the current thread holds while it forks."""

    all: ClassVar[WeakSet[_Guard]] = WeakSet()
    adding: ClassVar[Lock] = Lock()

    def __init__(self) -> None:
        self._held: list[_Guard] = []

    def hold(self) -> None:
        with self.adding:
            guards = list(self.all)
        until = time.monotonic() + _FORK_SECONDS
        while (missed := self._take(guards, until - time.monotonic())) is not None:
            if time.monotonic() >= until:
                rest = [guard for guard in guards if guard not in self._held]
                self._held += [guard for guard in rest if guard.acquire(timeout=0)]
                return
            self.release()  # their holder may wait for one of these
            guards.remove(missed)
            guards.insert(0, missed)

    def _take(self, guards: Sequence[_Guard], seconds: float) -> _Guard | None:
        """Acquire all, waiting only for the first; return the first that is not available."""
        for guard in guards:
            if not guard.acquire(timeout=max(seconds, 0.0)):
                return guard
            self._held.append(guard)
            seconds = 0.0
        return None

    def release(self) -> None:
        while self._held:
            self._held.pop().release()


_guards = _Guards()


def held_at_fork(lock: _G) -> _G:
    """Register a lock that a forking thread holds during the fork, so the child gets it free.

    A lock that another thread holds at that moment stays locked in the child for ever: this lock
    and those that others take within it, such as SQLite's.
    """
    with _guards.adding:
        _guards.all.add(lock)
    return lock


if hasattr(os, "register_at_fork"):  # handlers registered last are called first before a fork
    os.register_at_fork(
        before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_after_fork
    )
    os.register_at_fork(
        before=_guards.hold, after_in_parent=_guards.release, after_in_child=_guards.release
    )


def _is_at(path: str, inode: Inode) -> bool:
    """Whether the path still leads to this inode."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (found.st_dev, found.st_ino) == inode


def _is_open_to_all(key: str, queue: str) -> bool:
    """Whether a newcomer need not queue: nobody does, or, for a database, nobody has long."""
    if not os.access(queue, os.F_OK):  # unlike `exists` it raises no exception internally
        return True
    if not key.startswith(DATABASE):
        return False
    arrived, _, _ = _first(queue, "").partition("-")
    return not arrived.isdecimal() or time.monotonic_ns() - int(arrived) < _LONG_NS


def _first(queue: str, own: str) -> str:
    try:
        return min((name for name in os.listdir(queue) if name[0] != "~"), default=own)
    except OSError:
        return own


def _wake(queue: str) -> None:
    while True:
        first = _first(queue, "")
        if not first or not _drop_if_dead(os.path.join(queue, first), wake=True):
            return


def _drop_if_dead(path: str, *, wake: bool = False) -> bool:
    """Remove a pipe that nobody has open, else optionally wake its owner; return if removed."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            with suppress(OSError):
                os.unlink(path)
        return error.errno in (errno.ENXIO, errno.ENOENT)
    try:
        if wake:
            with suppress(OSError):  # the pipe is full, or its reader left just now
                os.write(fd, b"\n")
    finally:
        os.close(fd)
    return False


def _sleep(pipe: int, seconds: float) -> None:
    """Wait until somebody writes into the pipe, at most `seconds`."""
    if pipe < 0:
        time.sleep(seconds)
        return
    poll: Any = select.poll()
    poll.register(pipe, select.POLLIN)
    if poll.poll(max(1, int(1_000 * seconds))):
        with suppress(BlockingIOError):
            os.read(pipe, 4_096)


def _record(fd: int, caller: Caller) -> None:
    """Write the holder to the first line of a lock file; the rest is from earlier holders."""
    text = Holder.here(caller).text if caller != NOBODY else ""
    with suppress(OSError):  # such as a full disk: it is only information
        os.pwrite(fd, text.encode()[:_RECORD_BYTES] + b"\n", 0)


def _recorded(fd: int) -> bytes:
    try:
        return os.pread(fd, _RECORD_BYTES, 0).partition(b"\n")[0]
    except OSError:
        return b""


Ticket = tuple[int, str]
"""The sort key of waiters: milliseconds since 1970 and a name."""


def inode_key(dev: int, ino: int) -> str:
    """The key for the inode of a file with several names, locked in addition to the names."""
    return f"\0inode {dev} {ino}"  # no path contains a NUL


class Exclusion(Protocol):
    """Exclusion across processes, by key."""

    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """Wait for the key and hold it for the caller across processes; Busy after `seconds`."""
        ...


class NoExclusion:
    """Exclusion for a single process: none."""

    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(slots=True)
class _Lane:
    waiting: list[tuple[Ticket, int]] = field(default_factory=list[tuple[Ticket, int]])
    holder: Holder | None = None
    users: int = 0


class Lanes:
    """The queues of threads that wait for files, each for `seconds` at most."""

    def __init__(self, exclusion: Exclusion | None = None, seconds: float = WAIT_SECONDS) -> None:
        self._exclusion, self._seconds = exclusion or NoExclusion(), seconds
        self._lock = Lock()
        self._free = Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._count = 0

    def deadline(self) -> Deadline:
        """The deadline of a wait that begins now, for several locks."""
        return Deadline(self._seconds)

    def turn(
        self, key: str, ticket: Ticket, caller: Caller = NOBODY, until: Deadline | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock of `key` in the order of tickets; after `until`, Busy names its holder."""
        return _Turn(self, key, ticket, caller, until)

    def take(
        self, key: str, ticket: Ticket, caller: Caller, until: Deadline | None
    ) -> AbstractContextManager[None]:
        """Wait among the threads of this process; return the lock against other processes."""
        deadline = self.deadline() if until is None else until
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane()
            self._count += 1
            mine = (ticket, self._count)
            lane.users += 1
            try:
                heapq.heappush(lane.waiting, mine)
                while lane.holder or lane.waiting[0] != mine:
                    if not deadline.left:
                        raise (lane.holder or Holder()).busy(key, deadline.seconds)
                    self._free.wait(min(deadline.left, poll_seconds() or deadline.left))
                    check_cancelled()
                held = self._exclusion.hold(key, deadline.left, caller)
                holder = Holder.here(caller)
            except BaseException:  # cancelled, Ctrl-C: nobody must wait for one that has gone
                if mine in lane.waiting:
                    lane.waiting.remove(mine)
                    heapq.heapify(lane.waiting)
                self._leave(key, lane)
                raise
            heapq.heappop(lane.waiting)
            lane.holder = holder
        return held

    def give(self, key: str) -> None:
        """Hand the lock to the waiting thread of this process with the smallest ticket."""
        with self._lock:
            lane = self._lanes[key]
            lane.holder = None
            self._leave(key, lane)

    def _leave(self, key: str, lane: _Lane) -> None:
        lane.users -= 1
        if lane.users:
            self._free.notify_all()
        else:
            del self._lanes[key]


class _Turn:
    """One lock, held within a `with`: first in this process, then across processes."""

    __slots__ = ("_caller", "_held", "_key", "_lanes", "_ticket", "_until")

    def __init__(
        self, lanes: Lanes, key: str, ticket: Ticket, caller: Caller, until: Deadline | None
    ) -> None:
        self._lanes, self._key, self._ticket = lanes, key, ticket
        self._caller, self._until = caller, until

    def __enter__(self) -> None:
        self._held = self._lanes.take(self._key, self._ticket, self._caller, self._until)
        try:
            self._held.__enter__()
        except BaseException:
            self._lanes.give(self._key)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._held.__exit__(kind, error, trace)
        finally:
            self._lanes.give(self._key)
