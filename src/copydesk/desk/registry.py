"""Where plans wait: the protocol, and the registry in the memory of the process.

What lives here: plans by id, and how those that are gone have ended. What must
not: files, locks of files. Invariant: a plan ends once; what ended stays known
for a while, so that the refusal can say how it did.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Protocol

from copydesk.edit.plan import Ended, Plan
from copydesk.errors import HunkNotFound

REMEMBERED_ENDS = 10_000
"""How many ended plans a registry remembers at least."""


class Registry(Protocol):
    """Plans by id. All methods are safe to call from many threads."""

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        ...

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id and still waits.

        Raises HunkNotFound as `get` does at the moment when the plan was made.
        """
        ...

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        """The plan; raises HunkNotFound with applied, discarded, expired or unknown."""
        ...

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """The plan is gone from now on, and it is known how; who ends it holds its file's lane."""
        ...

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, the oldest first."""
        ...

    def close(self) -> None:
        """Let go of what the registry holds."""
        ...


class MemoryRegistry:
    """The plans of one process; they end with it."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._ends: OrderedDict[str, Ended] = OrderedDict()
        self._lock = Lock()

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        with self._lock:
            if plan.id in self._plans or plan.id in self._ends:
                return False
            self._plans[plan.id] = plan
            return True

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id and still waits."""
        with self._lock:
            self._waiting(plan.id, plan.created_ms)
            self._plans[plan.id] = plan

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        """The plan; raises HunkNotFound with applied, discarded, expired or unknown."""
        with self._lock:
            return self._waiting(hunk_id, now_ms)

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """The plan is gone from now on, and it is known how."""
        with self._lock:
            self._plans.pop(hunk_id, None)
            self._remember(hunk_id, how)

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, the oldest first."""
        with self._lock:
            self._expire(now_ms)
            return tuple(sorted(self._plans.values(), key=lambda p: (p.created_ms, p.id)))

    def close(self) -> None:
        """Nothing is held."""

    def _waiting(self, hunk_id: str, now_ms: int) -> Plan:
        self._expire(now_ms)
        plan = self._plans.get(hunk_id)
        if plan is None:
            raise HunkNotFound(hunk_id, self._ends.get(hunk_id, "unknown"))
        return plan

    def _expire(self, now_ms: int) -> None:
        for plan in [p for p in self._plans.values() if p.expires_ms <= now_ms]:
            del self._plans[plan.id]
            self._remember(plan.id, "expired")

    def _remember(self, hunk_id: str, how: Ended) -> None:
        self._ends[hunk_id] = how
        while len(self._ends) > REMEMBERED_ENDS:
            self._ends.popitem(last=False)
