"""Cancellation of a call: asked while it waits for a lock, and right before it writes.

Invariant: a call that was cancelled before `check_cancelled` let it pass has written nothing;
after that it is finished and recorded, whoever still waits for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from copydesk.errors.failure import Failed

POLL_SECONDS = 0.05
"""How often a call that waits asks whether it was cancelled."""

_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("cancelled", default=None)


@dataclass(eq=False)
class Cancelled(Failed):
    """The caller cancelled the call before its write began."""

    operation: str = "write"
    reason: str = field(default="the call was cancelled")


@contextmanager
def cancelled_by(asked: Callable[[], bool]) -> Generator[None]:
    """What is called within, in this thread, is cancelled once `asked` says so.

    >>> import threading
    >>> stop = threading.Event()
    >>> with cancelled_by(stop.is_set):
    ...     check_cancelled()
    """
    before = _cancelled.set(asked)
    try:
        yield
    finally:
        _cancelled.reset(before)


def check_cancelled() -> None:
    """Raise Cancelled if the call at hand was cancelled."""
    asked = _cancelled.get()
    if asked is not None and asked():
        raise Cancelled()


def poll_seconds() -> float | None:
    """How long the call may wait before it has to ask again; None for any time."""
    return None if _cancelled.get() is None else POLL_SECONDS
