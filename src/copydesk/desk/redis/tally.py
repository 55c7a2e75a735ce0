"""The record of how plans fared that all machines of a workspace share, on a server.

What lives here: the list of the last ones. What must not: plans, files.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from copydesk.desk.records import packed, unpacked
from copydesk.desk.redis.server import Script, Server
from copydesk.desk.tally import MOST, Fared, How
from copydesk.errors import ServerFailed

_NOTE = Script(
    f"""
redis.call('LPUSH', p .. 'fared', ARGV[1])
redis.call('LTRIM', p .. 'fared', 0, {MOST - 1})
redis.call('HINCRBY', p .. 'changes', 'fared', 1)
"""
)
_NOTED = Script("return redis.call('LRANGE', p .. 'fared', 0, -1)")


class RedisTally:
    """The record on a server; each one stands there with its time in front."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def note(self, fared: Fared) -> None:
        """Remember it, if the server is there: what was written is no less written without it."""
        rest = packed({"member": fared.member, "path": fared.path, "how": fared.how})
        with suppress(ServerFailed):
            self._server.call(_NOTE, b"%d " % fared.time_ms + rest)

    def noted(self) -> tuple[Fared, ...]:
        """The last ones, the newest first."""
        noted = self._server.call(_NOTED)
        with self._server.decoding():
            return tuple(_fared(each) for each in noted)

    def close(self) -> None:
        """Nothing is held."""


def _fared(data: bytes) -> Fared:
    time_ms, _, rest = data.partition(b" ")
    facts = unpacked(rest)
    return Fared(int(time_ms), facts["member"], facts["path"], cast(How, facts["how"]))
