"""How often anything was changed on the server, whichever machine did it.

What lives here: looking at the counters that the steps of the others keep. What
must not: what was changed.
"""

from __future__ import annotations

from copydesk.desk.redis.server import Script, Server

_COUNTS = Script(
    "return redis.call('HMGET', p .. 'changes', 'plans', 'decisions', 'edits', 'fared')"
)


class Counts:
    """The counters of one workspace."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def all(self) -> tuple[int, ...]:
        """Of plans, decisions, edits, and how plans fared; raises ServerFailed."""
        return tuple(int(count or 0) for count in self._server.call(_COUNTS))

    def plans_and_decisions(self) -> tuple[int, int]:
        """The first two; raises ServerFailed."""
        plans, decisions = self.all()[:2]
        return plans, decisions
