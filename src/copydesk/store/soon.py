"""Work that a call leaves to be done a moment later, in a thread, when the call is over.

A thread that is woken wants Python's lock, and a core, in the middle of the call that woke it: a
tenth of a small edit was spent so. While there is work now and then the thread looks for it by
itself; an idle process is left in peace. What several calls leave is done together.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Lock, Thread

from copydesk.store.contents import Closing

SOON_SECONDS = 0.03
"""So long work waits: a call of an agent is over then, and it has not asked for the next one."""

_log = logging.getLogger("copydesk")

_IDLE_SECONDS = 5.0
"""When the thread has found nothing for so long it has to be woken."""


class Soon(Closing):
    """Does what it is given in a thread, after so many `seconds`; `now` does it at once."""

    def __init__(self, seconds: float = SOON_SECONDS) -> None:
        self._seconds = seconds
        self._changed, self._working = Condition(), Lock()
        self._left: list[Callable[[], None]] = []
        self._due = 0.0
        self._thread: Thread | None = None
        self._pid = 0
        self._asleep = self._closed = False

    def do(self, work: Callable[[], None]) -> None:
        """Do the work soon, once, however often it is given until then; it raises nothing."""
        with self._changed:
            if work not in self._left:
                if not self._left:
                    self._due = time.monotonic() + self._seconds
                self._left.append(work)
            if self._pid != os.getpid() and not self._closed:  # it is the thread of a parent
                self._asleep = False
                self._thread = Thread(target=self._run, name="copydesk-soon", daemon=True)
                with suppress(RuntimeError):  # no thread can be had: `now` does it
                    self._thread.start()
                    self._pid = os.getpid()
            elif self._asleep:
                self._changed.notify()

    def now(self) -> None:
        """Do what is left, in the thread that asks; when it returns all of it is done."""
        with self._working:
            with self._changed:
                works, self._left = self._left, []
            for work in works:
                try:
                    work()
                except Exception:  # a bug in one must end neither the others nor the thread
                    _log.exception("work after a call")

    def close(self) -> None:
        """End the thread; what is left is done by `now`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread if self._pid == os.getpid() else None
        if thread is not None:
            thread.join()

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
