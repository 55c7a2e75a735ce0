"""Work in other threads: beside a call, which waits for it in the end, or a moment after the call.

Beside: hashlib, zlib and the system's calls release the GIL, so a digest or a flush in another
thread costs a core but no time. Invariants: a task of the pool waits for no other task; a forked
process has its own pool.

After: a thread that is woken competes for the GIL and a core in the middle of the call that woke
it; this took a tenth of the time of a small edit. While work comes now and then, the thread of
`Soon` polls for it; in an idle process it sleeps. The work of several calls is done together.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Condition, Event, Lock, Thread
from typing import ParamSpec, TypeVar

from copydesk.store import _os
from copydesk.store.locks import held_at_fork
from copydesk.store.protocol import Closing
from copydesk.text import sizes

_THREADS = 8
_MOST_CLOSING = 64
"""Files that may be waiting for a thread to close them; each occupies a handle, and the disk."""

A = ParamSpec("A")
T = TypeVar("T")


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
if hasattr(os, "register_at_fork"):
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

_IDLE_SECONDS = 5.0
"""After this time without work the thread sleeps until it is woken."""


class Soon(Closing):
    """Runs jobs in a thread after `seconds`, or as the process ends; `now` runs them at once."""

    def __init__(self, seconds: float = SOON_SECONDS) -> None:
        self._seconds = seconds
        self._changed, self._working = held_at_fork(Condition()), held_at_fork(Lock())
        self._left: list[Callable[[], None]] = []
        self._due = 0.0
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
            with self._changed:
                works, self._left = self._left, []
            for work in works:
                try:
                    work()
                except Exception:  # a bug in one job must not end the others or the thread
                    _log.exception("work after a call")

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
                if self._due > now:
                    self._changed.wait(self._due - now)
                    continue
            self.now()
