"""Fair locks per file: one writer at a time, the oldest plan first; files share no lock.

Invariant: a lock is given to the smallest ticket that waits when it falls free; who waits
for too long is told who holds it.
"""

from __future__ import annotations

import heapq
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Condition, Lock
from types import TracebackType
from typing import Protocol

from copydesk.errors import check_cancelled, poll_seconds
from copydesk.store.protocol import NOBODY, WAIT_SECONDS, Caller, Deadline, Holder

Ticket = tuple[int, str]
"""Milliseconds since 1970 and a name: what decides who is first."""


def inode_key(dev: int, ino: int) -> str:
    """The key of the lane of a file with several names, besides those of the names."""
    return f"\0inode {dev} {ino}"  # no path holds a NUL


class Exclusion(Protocol):
    """Exclusion across processes, by key."""

    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """Wait for the key, and hold it for the caller across processes; Busy after `seconds`."""
        ...


class NoExclusion:
    """For one process alone."""

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
    """The lanes of all files. A turn is waited for so many `seconds`."""

    def __init__(self, exclusion: Exclusion | None = None, seconds: float = WAIT_SECONDS) -> None:
        self._exclusion, self._seconds = exclusion or NoExclusion(), seconds
        self._lock = Lock()
        self._free = Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._count = 0

    def deadline(self) -> Deadline:
        """Until when one waits who begins to wait now, for all the lanes that it wants."""
        return Deadline(self._seconds)

    def turn(
        self, key: str, ticket: Ticket, caller: Caller = NOBODY, until: Deadline | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock of `key` in the order of tickets; after `until` Busy names its holder."""
        return _Turn(self, key, ticket, caller, until)

    def take(
        self, key: str, ticket: Ticket, caller: Caller, until: Deadline | None
    ) -> AbstractContextManager[None]:
        """Wait for the lock among the threads of this process; what excludes other processes."""
        deadline = self.deadline() if until is None else until
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane()
            self._count += 1
            mine = (ticket, self._count)
            heapq.heappush(lane.waiting, mine)
            lane.users += 1
            try:
                while lane.holder or lane.waiting[0] != mine:
                    if not deadline.left:
                        raise (lane.holder or Holder()).busy(key, deadline.seconds)
                    self._free.wait(min(deadline.left, poll_seconds() or deadline.left))
                    check_cancelled()
            except BaseException:  # cancelled, Ctrl-C: nobody must wait for one who has gone
                lane.waiting.remove(mine)
                heapq.heapify(lane.waiting)
                self._leave(key, lane)
                raise
            heapq.heappop(lane.waiting)
            lane.holder = Holder.here(caller)
        return self._exclusion.hold(key, deadline.left, caller)

    def give(self, key: str) -> None:
        """Give the lock to the thread of this process that waits with the smallest ticket."""
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
    """One lock, held within a `with`: of this process first, then across processes."""

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
