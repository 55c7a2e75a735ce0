"""Per-file turns: one writer at a time, the oldest plan first; files share no lock.

What lives here: the queue inside of one process, and the seam for exclusion
across processes. What must not: the document itself (a rename would swap its
inode and the lock with it). Invariant: a turn is given to the smallest ticket
that waits when the file falls free.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import Protocol

from copydesk.errors import check_cancelled, poll_seconds

Ticket = tuple[int, str]
"""Milliseconds since 1970 and a name: what decides who is first."""


def inode_key(dev: int, ino: int) -> str:
    """The key of the lane of a file with several names, besides those of the names."""
    return f"\0inode {dev} {ino}"  # no path holds a NUL


class Exclusion(Protocol):
    """Exclusion across processes, by key."""

    def hold(self, key: str) -> AbstractContextManager[None]:
        """Wait until no other process holds the key, and hold it."""
        ...


class NoExclusion:
    """For one process alone."""

    def hold(self, key: str) -> AbstractContextManager[None]:
        """Nobody else is there."""
        return nullcontext()


@dataclass(slots=True)
class _Lane:
    free: Condition
    waiting: list[tuple[Ticket, int]] = field(default_factory=list[tuple[Ticket, int]])
    busy: bool = False
    users: int = 0


class Lanes:
    """The lanes of all files."""

    def __init__(self, exclusion: Exclusion | None = None) -> None:
        self._exclusion = exclusion or NoExclusion()
        self._lock = Lock()
        self._lanes: dict[str, _Lane] = {}
        self._count = 0

    @contextmanager
    def turn(self, key: str, ticket: Ticket) -> Generator[None, None, None]:
        """Hold the lane of `key`; those that wait get it in the order of their tickets."""
        with self._lock:
            lane = self._lanes.setdefault(key, _Lane(Condition(self._lock)))
            self._count += 1
            mine = (ticket, self._count)
            heapq.heappush(lane.waiting, mine)
            lane.users += 1
            try:
                while lane.busy or lane.waiting[0] != mine:
                    lane.free.wait(poll_seconds())
                    check_cancelled()
            except BaseException:  # cancelled, Ctrl-C: nobody must wait for one who has gone
                lane.waiting.remove(mine)
                heapq.heapify(lane.waiting)
                self._leave(key, lane)
                raise
            heapq.heappop(lane.waiting)
            lane.busy = True
        try:
            with self._exclusion.hold(key):
                yield
        finally:
            with self._lock:
                lane.busy = False
                self._leave(key, lane)

    def _leave(self, key: str, lane: _Lane) -> None:
        lane.users -= 1
        if lane.users:
            lane.free.notify_all()
        else:
            del self._lanes[key]
