"""Threads for what a large file asks for beside the work: digests, flushes, closing.

What lives here: one small pool, kept for the process. What must not: a task that
waits for another one (all threads might be waiting then). A process that was
forked has a pool of its own.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from copydesk.store import _os

_THREADS = 8
_GOING = 64

A = ParamSpec("A")
T = TypeVar("T")


class _Pool:
    """The pool of this process."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """The threads of a parent are not there in its child."""
        self.threads = ThreadPoolExecutor(_THREADS, "copydesk-store")
        self.going: deque[Future[None]] = deque()

    def settle(self, most: int) -> None:
        """Wait until no more than so many files are being closed."""
        while len(self.going) > most:
            with suppress(IndexError):  # another thread has taken it
                self.going.popleft().result()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)


def beside(call: Callable[A, T], *args: A.args, **named: A.kwargs) -> Future[T]:
    """What comes of a call that is made in another thread, which waits for no other task."""
    return _pool.threads.submit(call, *args, **named)


def let_go(fd: int) -> None:
    """Close a file soon: of one that lost its name the last handle takes the system time."""
    _pool.going.append(beside(_os.close_quietly, fd))
    _pool.settle(_GOING)


def all_let_go() -> None:
    """Return when all files are closed that were to be."""
    _pool.settle(0)
