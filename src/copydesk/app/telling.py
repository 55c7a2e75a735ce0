"""Decisions as a server uses them: told when there is another one, and cheap to ask for news.

What lives here: the step around a store of decisions. What must not: decisions.
Law: what is answered is what the store within would answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from copydesk.desk.decisions import Decision, Decisions

_SETTLED_NS = 100_000_000
"""A file that was written longer ago cannot have been written again with the same time."""

_Stamp = tuple[int, int, int]


class ToldDecisions:
    """Decisions that tell when there is another one.

    Every answer to a member asks whether there is news for it, and mostly there is
    none: then the time of the file at `path` says so, without a transaction.
    """

    def __init__(self, inner: Decisions, tell: Callable[[], None], path: str | None) -> None:
        self._inner, self._tell, self._path = inner, tell, path
        self._nothing: dict[str, _Stamp] = {}
        self.of, self.tell = inner.of, inner.tell
        self.forget, self.close = inner.forget, inner.close

    def take(self, decision: Decision) -> Decision:
        """Keep the decision, unless one is there: the one that is there then."""
        found = self._inner.take(decision)
        self._tell()
        return found

    def withdraw(self, decision: Decision) -> None:
        """Forget a decision, so that the plan has to be shown anew."""
        self._inner.withdraw(decision)
        self._tell()

    def untold(self, owner: str) -> tuple[Decision, ...]:
        """What the member has not heard of yet, the oldest first."""
        stamp = self._stamp()
        if stamp is not None and self._nothing.get(owner) == stamp:
            return ()
        found = self._inner.untold(owner)
        if found or stamp is None:
            self._nothing.pop(owner, None)
        else:
            self._nothing[owner] = stamp
        return found

    def _stamp(self) -> _Stamp | None:
        """What tells whether the file was written since; None when nothing tells it yet."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        settled = time.time_ns() - found.st_mtime_ns > _SETTLED_NS
        return (found.st_ino, found.st_size, found.st_mtime_ns) if settled else None
