"""Where plans wait. A plan ends once; how it did stays known for a while, for the refusal."""

from __future__ import annotations

from typing import Protocol

from copydesk.edit.plan import Ended, Plan


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
