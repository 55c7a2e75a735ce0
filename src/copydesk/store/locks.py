"""Mutual exclusion: locks per file among threads in the order of their plans, and among processes.

Lock files are separate from the documents: a rename would swap the inode and the lock with it.
Invariants: within a process a free lock goes to the smallest waiting ticket, and a caller that
waits too long is told who holds it; a process that dies releases its locks at that moment, and a
child that it forked never has them.

Processes poll. Each key has two lock files: who holds `.next` is the only one that tries the lock
itself, so that a process which released it a moment ago cannot take it again before that one. The
others try `.next` the more often the longer they have waited, so that few overtake them (29 to 40
turns at most in 10,000 of eight processes; `flock` alone let 3,300 pass).
"""

from __future__ import annotations

import hashlib
import heapq
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Condition, Lock, local
from types import TracebackType
from typing import ClassVar, Protocol, TypeVar
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


_KEPT = 32
"""Locks whose two files stay open, for the most recently used keys."""

_KNOWN = 1_024
"""Cached paths of lock files."""

_NEXT_SECONDS = 0.00005
"""How often the next one in turn tries the lock."""

_POLL_SECONDS = (0.0005, 0.002)
"""How often a newcomer tries to be the next; drawn anew each time, so that no two keep step."""

_AGEING_SECONDS = 0.002
"""Who has waited for so long tries twice as often as a newcomer, then three times, and so on."""

_STALLED_SECONDS = 1.0
"""After this time, or a quarter of its own if that is less, a waiter no longer minds who is next.

That one may have been stopped (`kill -STOP`, a laptop's lid, a debugger).
"""

_SLOWEST_SECONDS = 0.001
"""How often at least one tries; who waits for long, for a slow holder, tries at this pace."""

DATABASE = "\0database "
"""The prefix of the keys of databases; no document path contains a NUL."""

_RECORD_BYTES = 1_024


Inode = tuple[int, int]
"""Device and inode."""


@dataclass(slots=True, eq=False)
class Handle:
    """An open lock: the descriptors of its file, at `path`, and of the one for the next in turn."""

    lock: int
    gate: int
    path: str
    may_keep: bool = True


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
        self._kept: dict[str, Handle] = {}
        self._known: dict[str, str] = {}
        self._open: dict[int, Inode] = {}
        self._lock = Lock()
        self._held = _Held()
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
        return all(self._is_at_path(handle) for handle in self._held.locks)

    def close(self) -> None:
        """Close the handles that are not in use."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for handle in kept.values():
            self._close(handle)

    def take(self, key: str, seconds: float, caller: Caller) -> Handle:
        """Lock a handle of the key's file that no other thread uses, and return it."""
        deadline = Deadline(seconds)
        while True:
            with self._lock:
                handle = self._kept.pop(key, None)
            handle = handle or self._opened(self._path(key))
            try:
                self._wait(key, handle, deadline)
                if self._is_at_path(handle):
                    if not key.startswith(DATABASE):
                        _record(handle.lock, caller)
                    self._held.locks.append(handle)
                    return handle
            except OSError as error:  # the system refused to lock the file, or to look at it
                self._close(handle)
                raise StateFailed("lock", error.strerror or str(error), handle.path) from None
            except BaseException:
                self._close(handle)
                raise
            self._close(handle)  # somebody removed or replaced the file: others lock a new one

    def release(self, key: str, handle: Handle, *, keep: bool, forked: bool) -> None:
        """Unlock a handle and keep it open for reuse.

        `forked`: this is a child of the process that took the lock, and the handle is closed here.
        """
        try:
            self._held.locks.remove(handle)
        finally:
            if not forked:
                _unlock(handle.lock)
        if forked:
            return
        gone: Handle | None = handle
        if keep and handle.may_keep:
            with self._lock:
                if key not in self._kept:
                    self._kept[key], gone = handle, None
                    if len(self._kept) > _KEPT:
                        gone = self._kept.pop(next(iter(self._kept)))
        if gone is not None:
            self._close(gone)

    def _wait(self, key: str, handle: Handle, deadline: Deadline) -> None:
        """Lock the handle: be the next in turn, then take the lock. Raises Busy."""
        lock, gate = handle.lock, handle.gate
        began = time.monotonic()
        while not _try_lock(gate):
            waited = time.monotonic() - began
            if waited > min(_STALLED_SECONDS, deadline.seconds / 4) and _try_lock(lock):
                handle.may_keep = False
                with suppress(OSError):  # others shall open another one, which nobody blocks
                    os.unlink(_next(handle.path))
                return
            drawn = random.uniform(*_POLL_SECONDS) / (1 + waited / _AGEING_SECONDS)
            _pause(key, lock, deadline, max(drawn, min(_SLOWEST_SECONDS, waited / 2_000)))
        try:
            began = time.monotonic()
            while not _try_lock(lock):
                waited = time.monotonic() - began
                seconds = max(_NEXT_SECONDS, min(_SLOWEST_SECONDS, waited / 2_000))
                _pause(key, lock, deadline, seconds)
        finally:
            _unlock(gate)

    def _is_at_path(self, handle: Handle) -> bool:
        """Whether the handle is open here, and its path still leads to it."""
        try:
            found = os.stat(handle.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self._open.get(handle.lock) == (found.st_dev, found.st_ino)

    def _opened(self, path: str) -> Handle:
        try:
            if self._made:
                with suppress(FileNotFoundError, NotADirectoryError):
                    return self._open_both(path)
            self._make()
            self._made = True
            return self._open_both(path)
        except OSError as error:
            raise StateFailed("lock", error.strerror or str(error), path) from None

    def _open_both(self, path: str) -> Handle:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        fds = list[int]()
        with _forking:
            try:
                for name in (path, _next(path)):
                    fds.append(os.open(name, flags, 0o600))
                    found = os.fstat(fds[-1])
                    self._open[fds[-1]] = found.st_dev, found.st_ino
            except BaseException:
                for fd in fds:
                    self._open.pop(fd, None)
                    os.close(fd)
                raise
        return Handle(fds[0], fds[1], path)

    def _close(self, handle: Handle) -> None:
        with _forking:
            for fd in (handle.lock, handle.gate):
                self._open.pop(fd, None)
                _os.close_quietly(fd)  # it is closed, and unlocked, whatever this says

    def _path(self, key: str) -> str:
        """The key's lock file."""
        found = self._known.get(key)
        if found is None:
            found = f"{self._folder}{os.sep}{hashlib.sha256(key.encode()).hexdigest()[:24]}"
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


def _next(path: str) -> str:
    """The lock file of who is next in turn."""
    return f"{path}.next"


def _pause(key: str, lock: int, deadline: Deadline, seconds: float) -> None:
    """Wait for a moment; raises Busy after the deadline, Cancelled."""
    left = deadline.left
    if not left:
        raise Holder.of(_recorded(lock)).busy(key, deadline.seconds)
    time.sleep(min(left, seconds))
    check_cancelled()


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
