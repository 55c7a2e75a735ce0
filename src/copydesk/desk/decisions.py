"""What people decided on plans: approved for these very bytes, or rejected with a reason.

A plan as it was prepared is decided on once; an approval is for the bytes that were shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from copydesk.edit.plan import Plan

Verdict = Literal["approved", "rejected", "amended", "split"]
"""`amended` and `split` end a plan as it was: a person gave it another text, or made several
plans of it, which all wait anew."""

Version = tuple[str, int]
"""A plan as it was prepared: its id, and when (ms since 1970); prepared anew it is another."""


def version_of(plan: Plan) -> Version:
    """What a decision on the plan is about."""
    return plan.id, plan.created_ms


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, by a person, at `time_ms` (ms since 1970).

    `before` and `after` are the SHA-256 in hex of the file as it was shown and
    as it would be (`before` empty for a new file). `owner` is the member whose
    plan it is, `reason` what the person said. `told`: the owner has heard of it.
    """

    plan: Version
    owner: str
    path: str
    verdict: Verdict
    by: str
    time_ms: int
    before: str = ""
    after: str = ""
    reason: str = ""
    told: bool = False


class Decisions(Protocol):
    """Decisions by plan. All methods are safe to call from many threads."""

    def take(self, decision: Decision) -> Decision:
        """Keep the decision, unless one is there: the one that is there then."""
        ...

    def of(self, plan: Version) -> Decision | None:
        """The decision on a plan, if it was decided on."""
        ...

    def withdraw(self, decision: Decision) -> None:
        """Forget a decision, so that the plan has to be shown anew; no other one."""
        ...

    def untold(self, owner: str) -> tuple[Decision, ...]:
        """What the member has not heard of yet, the oldest first."""
        ...

    def tell(self, decision: Decision) -> None:
        """The owner has heard of it."""
        ...

    def forget(self, before_ms: int) -> None:
        """Drop the decisions that are older."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...
