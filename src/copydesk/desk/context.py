"""What a desk works with; handed in by whoever opens a workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from copydesk.desk.backends.api import Decisions, Journal, PlanStats, Registry
from copydesk.desk.backends.snapshots import Snapshots
from copydesk.desk.checks import Checks
from copydesk.desk.foreign import ForeignWrites
from copydesk.desk.member import Member
from copydesk.desk.recovery import Recovery, Turns
from copydesk.store.files import Files
from copydesk.store.protocol import Named

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Setting:
    """What a desk works with: stores, memory, the clock (ms since 1970), ids, encodings.

    `named` gives the encoding that configuration names for a path, `ids` new
    ids of eight hex characters, `ttl_ms` how long a plan waits, `approval_ttl_ms` how long
    one that a person has to approve, `members` a member by its name and toolset.
    """

    files: Files
    registry: Registry
    recovery: Recovery
    journal: Journal
    bases: Snapshots
    turns: Turns
    decisions: Decisions
    tally: PlanStats
    foreign: ForeignWrites
    members: Callable[[str, str], Member]
    checks: Checks
    clock: Callable[[], int]
    ids: Callable[[], str]
    named: Named = lambda path: None
    ttl_ms: int = HOUR_MS
    approval_ttl_ms: int = 7 * DAY_MS

    def life_ms(self, *, needs_person: bool) -> int:
        """How long a plan waits that its owner may write, or that a person has to approve."""
        return max(self.ttl_ms, self.approval_ttl_ms) if needs_person else self.ttl_ms
