"""The registry that all machines of a workspace share, on a server.

What lives here: plans and how they ended. What must not: files. Invariant: as in
`registry`; who ends a plan while it holds leases still holds them at that moment.

A plan is the hash `plan:ID`; `waiting` are the ids by age, `fading` by the time
from which on nobody asks how they ended.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import cast

from copydesk.desk.records import UnknownRecord, packed, unpacked
from copydesk.desk.redis.leases import Leases
from copydesk.desk.redis.server import Script, Server
from copydesk.desk.retention import PLANS_KEPT
from copydesk.edit.plan import Ended, Plan
from copydesk.errors import HunkNotFound

REMEMBERED_MS = 24 * 3_600_000
"""How long it is known how a plan ended."""

_TINY = 1 << 12
"""A plan of fewer bytes is unpacked once, though all that wait are listed again and again."""

_CHANGED = "redis.call('HINCRBY', p .. 'changes', 'plans', 1)"

_ADD = Script(
    f"""
local id, created, expires, plan, forget = unpack(ARGV)
local spare = redis.call('ZCARD', p .. 'fading') - {PLANS_KEPT}
for _, old in ipairs(redis.call('ZRANGEBYSCORE', p .. 'fading', '-inf', '(' .. forget,
    'LIMIT', 0, math.max(math.min(spare, 100), 0))) do
  redis.call('DEL', p .. 'plan:' .. old)
  redis.call('ZREM', p .. 'waiting', old)
  redis.call('ZREM', p .. 'fading', old)
end
if redis.call('EXISTS', p .. 'plan:' .. id) == 1 then return 0 end
redis.call('HSET', p .. 'plan:' .. id, 'plan', plan, 'expires', expires)
redis.call('ZADD', p .. 'waiting', created, id)
redis.call('ZADD', p .. 'fading', expires, id)
{_CHANGED}
return 1
"""
)
_PUT = Script(
    f"""
local id, created, expires, plan = unpack(ARGV)
local ended, until_ = unpack(redis.call('HMGET', p .. 'plan:' .. id, 'ended', 'expires'))
if ended then return ended end
if not until_ then return 'unknown' end
if tonumber(until_) <= tonumber(created) then return 'expired' end
redis.call('HSET', p .. 'plan:' .. id, 'plan', plan, 'expires', expires)
redis.call('ZADD', p .. 'waiting', created, id)
redis.call('ZADD', p .. 'fading', expires, id)
{_CHANGED}
return ''
"""
)
_GET = Script("return redis.call('HMGET', p .. 'plan:' .. ARGV[1], 'plan', 'ended', 'expires')")
_END = Script(
    f"""
local id, how, now = ARGV[A + 1], ARGV[A + 2], ARGV[A + 3]
redis.call('HSET', p .. 'plan:' .. id, 'ended', how, 'expires', now)
redis.call('HDEL', p .. 'plan:' .. id, 'plan')
redis.call('ZREM', p .. 'waiting', id)
redis.call('ZADD', p .. 'fading', now, id)
{_CHANGED}
return redis.status_reply('OK')
""",
    fenced=True,
)
_WAITING = Script(
    """
local found, now = {}, tonumber(ARGV[1])
for _, id in ipairs(redis.call('ZRANGE', p .. 'waiting', 0, -1)) do
  local plan, expires = unpack(redis.call('HMGET', p .. 'plan:' .. id, 'plan', 'expires'))
  if plan and tonumber(expires) > now then found[#found + 1] = plan end
end
return found
"""
)


class RedisRegistry:
    """Plans on a server."""

    def __init__(self, server: Server, leases: Leases) -> None:
        self._server, self._leases = server, leases

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        ages = (plan.created_ms, plan.expires_ms)
        before_ms = plan.created_ms - REMEMBERED_MS
        return bool(self._server.call(_ADD, plan.id, *ages, packed(plan), before_ms))

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id and still waits."""
        ages = (plan.created_ms, plan.expires_ms)
        reason = self._server.call(_PUT, plan.id, *ages, packed(plan))
        if reason:
            raise HunkNotFound(plan.id, reason.decode())

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        """The plan; raises HunkNotFound with applied, discarded, expired or unknown."""
        plan, ended, expires_ms = self._server.call(_GET, hunk_id)
        if expires_ms is None:
            raise HunkNotFound(hunk_id, "unknown")
        if ended is not None or int(expires_ms) <= now_ms:
            raise HunkNotFound(hunk_id, ended.decode() if ended else "expired")
        with self._server.decoding():
            return _plan(plan)

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """The plan is gone from now on, and it is known how; raises TurnLost."""
        self._leases.fenced(_END, hunk_id, how, now_ms)

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, the oldest first."""
        found: list[Plan] = []
        for plan in self._server.call(_WAITING, now_ms):
            with self._server.decoding(), suppress(UnknownRecord):  # of a newer build
                found.append(_plan(plan))
        return tuple(found)

    def close(self) -> None:
        """Nothing is held."""


def _plan(data: bytes) -> Plan:
    return _tiny(data) if len(data) < _TINY else cast(Plan, unpacked(data))


@lru_cache(maxsize=4096)
def _tiny(data: bytes) -> Plan:
    return cast(Plan, unpacked(data))
