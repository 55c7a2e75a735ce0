"""Locks, and work in other threads: beside a call, or a moment after it.

One holder a lock; threads wait in the order of their plans, processes by polling. Lock files are
separate from the documents: a rename would swap the inode and the lock with it. Invariants: within
a process a free lock goes to the smallest waiting ticket, and a caller that waits too long is told
who holds it; a process that dies releases its locks at that moment, and a child that it forked
never has them. Whoever takes several takes them in one order, since two would wait for each other
otherwise: `desk/transaction.py` sorts them.

Processes poll. Each key has two lock files: who holds the second, `.next`, has the turn, and is the
only one that tries the lock itself, so that a process which released it a moment ago cannot take it
again before that one (only who has waited for long tries as well, since it may have been stopped).
The others try for the turn the more often the longer they have waited, so that few overtake them
(29 to 40 turns at most in 10,000 of eight processes; `flock` alone let 3,300 pass).

Beside a call, which waits for it in the end: hashlib, zlib and the system's calls release the GIL,
so a digest or a flush in another thread costs a core but no time. Invariants: a task of the pool
waits for no other task; a forked process has its own pool.

After a call: a thread that is woken competes for the GIL and a core in the middle of the call that
woke it; this took a tenth of the time of a small edit. While work comes now and then, the thread of
`Soon` polls for it; in an idle process it sleeps. The work of several calls is done together.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Condition, Event, Lock, RLock, Thread, local
from typing import Generic, ParamSpec, Protocol, TypeVar, Union
from weakref import WeakSet

from copydesk.errors import StateFailed, check_cancelled, poll_seconds
from copydesk.store import _os
from copydesk.store.protocol import NOBODY, WAIT_SECONDS, Caller, Closing, Deadline, Holder
from copydesk.text import sizes

_NEXT = ".next"  # the end of the name of the lock file of who is next in turn
_KEPT = 32
"""Locks whose two files stay open, for the most recently used keys."""

_NEXT_SECONDS = 0.00005
"""How often the next one in turn tries the lock."""

_POLL_SECONDS = (0.001, 0.004)
"""How often a newcomer tries to be the next; drawn anew each time, so that no two keep step."""

_AGEING_SECONDS = 0.002
"""Who has waited for so long tries twice as often as a newcomer, then three times, and so on."""

_STALLED_SECONDS = 1.0
"""After this time, or a quarter of its own if that is less, a waiter without the turn tries too.

Who has it may have been stopped (`kill -STOP`, a laptop's lid, a debugger).
"""

_SLOWEST_SECONDS = 0.001
"""The longest pause: a two-thousandth of what was waited so far, so that few tries are in vain."""

DATABASE = "\0database "
"""The prefix of the keys of databases; no document path contains a NUL."""

_RECORD_BYTES = 1_024


@dataclass(slots=True, eq=False)
class Handle:
    """An open lock: the descriptors of its file, at `path`, and of the one of the turn.

    `inode` are device and number of the file. It may not be kept once its turn has no name any
    more: others open a new one.
    """

    lock: int
    turn: int
    path: str
    inode: tuple[int, int]
    may_keep: bool = True


T = TypeVar("T")


class _OfThread(local, Generic[T]):
    """A list of what the current thread has taken; each thread has its own."""

    def __init__(self) -> None:
        self.taken: list[T] = []


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
        self._lock, self._locked = Lock(), _OfThread[Handle]()
        self._open: set[Handle] = set()
        self._kept: dict[str, Handle] = {}
        with _forking:
            _all.add(self)

    @contextmanager
    def hold(
        self, key: str, until: Deadline | None = None, holder: Holder | None = None
    ) -> Generator[None]:
        """Wait until nobody else holds the key, then hold it; raises Busy after `until`.

        A child that is forked within it does not hold it. `holder` is told to who waits.
        """
        handle = self._take(key, Deadline(self._seconds) if until is None else until)
        self._locked.taken.append(handle)
        try:
            if not key.startswith(DATABASE):
                record = b"%s\n" % (b"" if holder is None else holder.text.encode()[:_RECORD_BYTES])
                with suppress(OSError):  # such as a full disk: it is only information
                    os.pwrite(handle.lock, record, 0)  # not cut: readers stop at the line end
            yield
        finally:
            self._let_go(key, handle)

    def are_held(self) -> bool:
        """Whether all lock files of this thread still have their paths, so nobody locks others.

        False in a child that was forked while the lock was held: the parent holds it.
        """
        return all(map(self._is_at_path, self._locked.taken))

    def close(self) -> None:
        """Close the handles that are not in use."""
        with self._lock:
            idle, self._kept = self._kept, {}
        for handle in idle.values():
            self._close(handle)

    def _take(self, key: str, deadline: Deadline) -> Handle:
        """Lock a handle of the key's file that no other thread uses, and return it."""
        while True:
            with self._lock:
                handle = self._kept.pop(key, None)
            handle = handle or self._opened(key)
            try:
                self._wait(key, handle, deadline)
                if self._is_at_path(handle):
                    return handle
            except OSError as error:  # the system refused to lock the file, or to look at it
                self._close(handle)
                raise StateFailed("lock", error.strerror or str(error), handle.path) from None
            except BaseException:
                self._close(handle)
                raise
            self._close(handle)  # somebody removed or replaced the file: others lock a new one

    def _let_go(self, key: str, handle: Handle) -> None:
        """Unlock a handle and keep it open for reuse."""
        self._locked.taken.remove(handle)
        if handle not in self._open:  # in a forked child: the lock is the parent's
            return
        fcntl.flock(handle.lock, fcntl.LOCK_UN)
        surplus: Handle | None = handle
        with self._lock:
            if handle.may_keep and key not in self._kept:
                self._kept[key], surplus = handle, None
                if len(self._kept) > _KEPT:
                    surplus = self._kept.pop(next(iter(self._kept)))
        if surplus is not None:
            self._close(surplus)

    def _wait(self, key: str, handle: Handle, deadline: Deadline) -> None:
        """Lock the handle: be the next in turn, then take the lock. Raises Busy."""
        lock, turn, began = handle.lock, handle.turn, 0.0
        while not _try_lock(turn):
            began = began or time.monotonic()
            waited = time.monotonic() - began
            if waited > min(_STALLED_SECONDS, deadline.seconds / 4) and _try_lock(lock):
                handle.may_keep = False
                # Others shall open another one, which nobody blocks. Then two may have the turn for
                # a while; the lock has one holder all the same.
                with suppress(OSError):
                    os.unlink(handle.path + _NEXT)
                return
            drawn = random.uniform(*_POLL_SECONDS) / (1 + waited / _AGEING_SECONDS)
            _pause(key, lock, deadline, max(drawn, min(_SLOWEST_SECONDS, waited / 2_000)))
        try:
            began = 0.0
            while not _try_lock(lock):
                began = began or time.monotonic()
                waited = time.monotonic() - began
                seconds = max(_NEXT_SECONDS, min(_SLOWEST_SECONDS, waited / 2_000))
                _pause(key, lock, deadline, seconds)
        finally:
            fcntl.flock(turn, fcntl.LOCK_UN)

    def _is_at_path(self, handle: Handle) -> bool:
        """Whether the handle is open here, and its path still leads to it."""
        try:
            status = os.stat(handle.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return handle in self._open and handle.inode == (status.st_dev, status.st_ino)

    def _opened(self, key: str) -> Handle:
        """Open the lock files of a key; raises StateFailed."""
        path = f"{self._folder}{os.sep}{hashlib.sha256(key.encode()).hexdigest()[:24]}"
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
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with _forking:
            lock = os.open(path, flags, 0o600)
            try:
                turn, status = os.open(path + _NEXT, flags, 0o600), os.fstat(lock)
            except BaseException:
                os.close(lock)
                raise
            handle = Handle(lock, turn, path, (status.st_dev, status.st_ino))
            self._open.add(handle)
        return handle

    def _close(self, handle: Handle) -> None:
        with _forking:
            self._open.discard(handle)
            _os.close_quietly(handle.lock)  # it is closed, and unlocked, whatever this says
            _os.close_quietly(handle.turn)

    def forget(self) -> None:
        """Close all handles in a forked child: their locks are the parent's."""
        for handle in self._open:
            _os.close_quietly(handle.lock)
            _os.close_quietly(handle.turn)
        self._open, self._kept, self._lock = set(), {}, Lock()


_all: WeakSet[FileLocks | LockQueues] = WeakSet()

_FORK_SECONDS = 1.0
"""How long a fork waits for locks that other threads hold."""


_Guard = Union["Lock", "RLock", "Condition"]
_G = TypeVar("_G", bound=_Guard)
_guarded: WeakSet[_Guard] = WeakSet()
_forking = Lock()
"""Held while a handle is opened or closed, so that a fork knows all of them."""


_at_fork = _OfThread[_Guard]()
"""The locks that the current thread holds while it forks."""


def held_at_fork(lock: _G) -> _G:
    """Register a lock that a forking thread holds during the fork, so the child gets it free.

    A lock that another thread holds at that moment stays locked in the child for ever: this lock
    and those that others take within it, such as SQLite's.
    """
    with _forking:
        _guarded.add(lock)
    return lock


def _before_fork() -> None:
    with _forking:
        guards = list(_guarded)
    until = time.monotonic() + _FORK_SECONDS
    while (missed := _missed(guards, until - time.monotonic())) is not None:
        if time.monotonic() >= until:
            rest = [guard for guard in guards if guard not in _at_fork.taken]
            _at_fork.taken += [guard for guard in rest if guard.acquire(timeout=0)]
            break
        _release()  # whose holder may wait for one of these: begin anew with that one
        guards.remove(missed)
        guards.insert(0, missed)
    _forking.acquire()  # last: who holds one of the others may be about to open a handle


def _missed(guards: list[_Guard], seconds: float) -> _Guard | None:
    """Acquire all, waiting only for the first; return the first that is not available."""
    for guard in guards:
        if not guard.acquire(timeout=max(seconds, 0.0)):
            return guard
        _at_fork.taken.append(guard)
        seconds = 0.0
    return None


def _release() -> None:
    while _at_fork.taken:
        _at_fork.taken.pop().release()


def _in_parent() -> None:
    _forking.release()
    _release()


def _in_child() -> None:
    for locks in list(_all):
        locks.forget()
    _in_parent()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pause(key: str, lock: int, deadline: Deadline, seconds: float) -> None:
    """Wait for a moment; raises Busy after the deadline, Cancelled."""
    if not (left := deadline.left):
        record = b""
        with suppress(OSError):
            record = os.pread(lock, _RECORD_BYTES, 0).partition(b"\n")[0]
        raise Holder.of(record).busy(key, deadline.seconds)
    time.sleep(min(left, seconds))
    check_cancelled()


Ticket = tuple[int, str]
"""The sort key of waiters: milliseconds since 1970 and a name."""


def inode_key(dev: int, ino: int) -> str:
    """The key for the inode of a file with several names, locked in addition to the names."""
    return f"\0inode {dev} {ino}"  # no path contains a NUL


class Exclusion(Protocol):
    """Exclusion across processes, by key."""

    def hold(
        self, key: str, until: Deadline | None = None, holder: Holder | None = None
    ) -> AbstractContextManager[None]:
        """Wait for the key and hold it across processes; Busy after `until`."""
        ...


class NoExclusion:
    """Exclusion for a single process: none."""

    def hold(
        self, key: str, until: Deadline | None = None, holder: Holder | None = None
    ) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(slots=True)
class _Queue:
    holder: Holder | None = None
    waiting: list[tuple[Ticket, int]] = field(default_factory=list[tuple[Ticket, int]])


class LockQueues:
    """The queues of threads that wait for files, each for `seconds` at most."""

    def __init__(self, exclusion: Exclusion | None = None, seconds: float = WAIT_SECONDS) -> None:
        self._exclusion, self.seconds = exclusion or NoExclusion(), seconds
        # The lock itself is entered: in a Condition's own `__enter__` Ctrl-C could leave it held.
        self._lock = held_at_fork(Lock())
        self._free = Condition(self._lock)
        self._queues: dict[str, _Queue] = {}
        self._count = 0
        _all.add(self)

    def forget(self) -> None:
        """Forget, in a forked child, what threads of the parent hold and wait for."""
        self._queues.clear()

    @contextmanager
    def lock(
        self, key: str, ticket: Ticket, caller: Caller = NOBODY, until: Deadline | None = None
    ) -> Generator[None]:
        """Hold the lock of `key`, first in this process in the order of tickets, then across all.

        After `until`, Busy names its holder.
        """
        deadline = Deadline(self.seconds) if until is None else until
        queue = self._queue(key, ticket, deadline, caller)
        try:
            holder = None if caller == NOBODY else queue.holder
            with self._exclusion.hold(key, deadline, holder):
                yield
        finally:
            with self._lock:
                queue.holder = None
                self._leave(key, queue)

    def _queue(self, key: str, ticket: Ticket, deadline: Deadline, caller: Caller) -> _Queue:
        """Wait among the threads of this process, and become the queue's holder."""
        with self._lock:
            queue = self._queues.setdefault(key, _Queue())
            self._count += 1
            mine = (ticket, self._count)
            queue.waiting.append(mine)
            try:
                while queue.holder or min(queue.waiting) != mine:
                    if not deadline.left:
                        raise (queue.holder or Holder()).busy(key, deadline.seconds)
                    self._free.wait(min(deadline.left, poll_seconds() or deadline.left))
                    check_cancelled()
                queue.holder = Holder.here(caller)
            except BaseException:  # cancelled, Ctrl-C: nobody must wait for one that has gone
                queue.waiting.remove(mine)
                self._leave(key, queue)
                raise
            queue.waiting.remove(mine)
        return queue

    def _leave(self, key: str, queue: _Queue) -> None:
        """Wake those who wait; forget a queue that nobody uses."""
        if queue.waiting:
            self._free.notify_all()
        elif queue.holder is None:
            self._queues.pop(key, None)


_THREADS = 8
_MOST_CLOSING = 64
"""Files that may be waiting for a thread to close them; each occupies a handle, and the disk."""

A = ParamSpec("A")


class _Pool:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start with new threads: a forked child does not have those of its parent."""
        self.threads = ThreadPoolExecutor(_THREADS, "copydesk-store")
        self.closing: deque[Future[None]] = deque()

    def settle(self, most: int) -> None:
        """Wait until at most `most` files are being closed."""
        while len(self.closing) > most:
            with suppress(IndexError):  # another thread has taken it
                self.closing.popleft().result()


_pool = _Pool()
os.register_at_fork(after_in_child=_pool.renew)


def in_thread(call: Callable[A, T], *args: A.args, **named: A.kwargs) -> Future[T]:
    """Run a call in the thread pool; it must not wait for another task of the pool."""
    return _pool.threads.submit(call, *args, **named)


_HAND_OVER_SECONDS = 0.001


def flush_in_thread(fd: int) -> Future[None]:
    """Start to flush a file in a thread; the caller keeps the handle until the flush has ended."""
    begun = Event()

    def flush() -> None:
        begun.set()
        _os.sync(fd)

    done = in_thread(flush)
    begun.wait(_HAND_OVER_SECONDS)  # otherwise it waits until the caller releases the GIL
    return done


def close_soon(fd: int) -> None:
    """Close a file in a thread: closing the last handle of an unlinked file takes time."""
    _pool.closing.append(in_thread(_os.close_quietly, fd))
    _pool.settle(_MOST_CLOSING)


def wait_all_closed() -> None:
    """Wait until all files given to `close_soon` are closed."""
    _pool.settle(0)


def close_of_size(fd: int, size: int) -> None:
    """Close a file; in a thread if it is large and has no name, which may free many blocks."""
    with suppress(OSError):
        if size < sizes.BESIDE or _os.fstat(fd).st_nlink > 0:
            _os.close_quietly(fd)
            return
    close_soon(fd)


SOON_SECONDS = 0.03
"""The delay of deferred work: the agent's call is over, and the next one has not started."""

_log = logging.getLogger("copydesk")

_MOMENT_SECONDS = 0.02

_IDLE_SECONDS = 5.0
"""After this time without work the thread sleeps until it is woken."""


class Soon(Closing):
    """Runs jobs in a thread after `seconds`, or as the process ends; `now` runs them at once.

    The thread rests after its jobs, so that they have that `share` of the time at most.
    """

    def __init__(self, seconds: float = SOON_SECONDS, share: float = 1.0) -> None:
        self._seconds, self._share = seconds, share
        self._changed, self._working = held_at_fork(Condition()), held_at_fork(Lock())
        self._left: list[Callable[[], None]] = []
        self._due = self._rested = self._began = 0.0
        self._thread: Thread | None = None
        self._pid = 0
        self._asleep = self._closed = False

    def do(self, work: Callable[[], None]) -> None:
        """Run the job soon, only once even if it is given again before; raises nothing."""
        with self._changed:
            if work not in self._left:
                if not self._left:
                    self._due = time.monotonic() + self._seconds
                self._left.append(work)
            if self._pid != os.getpid() and not self._closed:  # it is the parent's thread
                self._asleep = False
                self._thread = Thread(target=self._run, name="copydesk-soon", daemon=True)
                with suppress(RuntimeError):  # no thread is available: `now` runs it
                    self._thread.start()
                    self._pid = os.getpid()
                    atexit.register(self._end)
            elif self._asleep:
                self._changed.notify()

    def now(self) -> None:
        """Run all queued jobs in the calling thread."""
        with self._working:
            self._began = time.monotonic()
            with self._changed:
                works, self._left = self._left, []
            for work in works:
                _logged(work)

    def at_once(self, work: Callable[[], None]) -> None:
        """Run a job in the calling thread, unless another one runs for more than a moment."""
        left = self._began + _MOMENT_SECONDS - time.monotonic()
        if self._working.acquire(timeout=max(left, 0.0)):
            try:
                self._began = time.monotonic()
                _logged(work)
            finally:
                self._working.release()

    def close(self) -> None:
        """End the thread; `now` runs the remaining jobs."""
        atexit.unregister(self._end)
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread if self._pid == os.getpid() else None
        if thread is not None:
            thread.join()

    def _end(self) -> None:
        """Run the remaining jobs as the process ends, unless they are those of its parent."""
        if self._pid == os.getpid():
            self.now()

    def _run(self) -> None:
        used = time.monotonic()
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                if not self._left:
                    self._asleep = now - used > _IDLE_SECONDS
                    self._changed.wait(None if self._asleep else self._seconds)
                    self._asleep = False
                    continue
                used = now
                if (due := max(self._due, self._rested)) > now:
                    self._changed.wait(due - now)
                    continue
            self.now()
            over = time.monotonic()
            self._rested = over + (over - now) * (1 / self._share - 1)


def _logged(work: Callable[[], None]) -> None:
    """Run a job; what fails is logged."""
    try:
        work()
    except Exception:  # a bug in one job must not end the others or the thread
        _log.exception("work after a call")
