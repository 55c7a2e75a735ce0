"""Threads for what a large file asks for beside the work: digests, flushes, closing.

What lives here: one small pool, kept for the process. What must not: a task that
waits for another one (all threads might be waiting then). A process that was
forked has a pool of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from copydesk.store import _os
from copydesk.text import sizes

_THREADS = 8

A = ParamSpec("A")
T = TypeVar("T")


class _Pool:
    """The pool of this process."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """The threads of a parent are not there in its child."""
        self.threads = ThreadPoolExecutor(_THREADS, "copydesk-store")


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)


def beside(call: Callable[A, T], *args: A.args, **named: A.kwargs) -> Future[T]:
    """What comes of a call that is made in another thread, which waits for no other task."""
    return _pool.threads.submit(call, *args, **named)


def let_go(fd: int, size: int) -> None:
    """Close a file of so many bytes; of a large one the last handle takes time to go."""
    if size < sizes.BESIDE:
        _os.close_quietly(fd)
    else:
        beside(_os.close_quietly, fd)
