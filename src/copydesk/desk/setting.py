"""What a desk works with; handed in by whoever opens a workspace.

What lives here: the seams. What must not: a choice among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from copydesk.desk.bases import Bases
from copydesk.desk.journal import Journal
from copydesk.desk.recovery import Recovery
from copydesk.desk.registry import Registry
from copydesk.desk.turns import Turns
from copydesk.store.protocol import Files, Named

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Setting:
    """What a desk works with: stores, memory, the clock (ms since 1970), ids, encodings.

    `named` gives the encoding that configuration names for a path, `ids` new
    ids of eight hex characters, `ttl_ms` how long a plan waits.
    """

    files: Files
    registry: Registry
    recovery: Recovery
    journal: Journal
    bases: Bases
    turns: Turns
    clock: Callable[[], int]
    ids: Callable[[], str]
    named: Named = lambda path: None
    ttl_ms: int = HOUR_MS
