"""The decisions that all machines of a workspace share, on a server.

What lives here: decisions in and out. What must not: plans, files. Invariant: as
in `decisions`; of two that decide at once one is first, whatever the machines.

A decision is the hash `decision:HUNK TIME`; `decided` are all by age, and
`untold:OWNER` those that their owner has not heard of.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from copydesk.desk.decisions import Decision, Version
from copydesk.desk.records import packed, unpacked
from copydesk.desk.redis.server import Script, Server
from copydesk.desk.retention import PLANS_KEPT

_TAKE = Script(
    """
local name, owner, time, told, packed = unpack(ARGV)
local key = p .. 'decision:' .. name
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'packed', packed, 'owner', owner, 'time', time, 'told', told)
  redis.call('ZADD', p .. 'decided', time, name)
  if told == '0' then redis.call('ZADD', p .. 'untold:' .. owner, time, name) end
  redis.call('HINCRBY', p .. 'changes', 'decisions', 1)
end
return redis.call('HMGET', key, 'packed', 'told')
"""
)
_OF = Script("return redis.call('HMGET', p .. 'decision:' .. ARGV[1], 'packed', 'told')")
_DROP = """
local function drop(name)
  local key = p .. 'decision:' .. name
  redis.call('ZREM', p .. 'untold:' .. redis.call('HGET', key, 'owner'), name)
  redis.call('ZREM', p .. 'decided', name)
  redis.call('DEL', key)
  redis.call('HINCRBY', p .. 'changes', 'decisions', 1)
end
"""
_WITHDRAW = Script(
    _DROP
    + "if redis.call('HGET', p .. 'decision:' .. ARGV[1], 'time') == ARGV[2] then drop(ARGV[1]) end"
)
_FORGET = Script(
    _DROP
    + """
local spare = redis.call('ZCARD', p .. 'decided') - ARGV[2]
for _, name in ipairs(redis.call('ZRANGEBYSCORE', p .. 'decided', '-inf', '(' .. ARGV[1],
    'LIMIT', 0, math.max(spare, 0))) do
  drop(name)
end
"""
)
_UNTOLD = Script(
    """
local found = {}
for _, name in ipairs(redis.call('ZRANGE', p .. 'untold:' .. ARGV[1], 0, -1)) do
  found[#found + 1] = redis.call('HMGET', p .. 'decision:' .. name, 'packed', 'told')
end
return found
"""
)
_TELL = Script(
    """
local key = p .. 'decision:' .. ARGV[1]
if redis.call('EXISTS', key) == 1 then
  redis.call('HSET', key, 'told', 1)
  redis.call('ZREM', p .. 'untold:' .. redis.call('HGET', key, 'owner'), ARGV[1])
end
"""
)


class RedisDecisions:
    """Decisions on a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def take(self, decision: Decision) -> Decision:
        """Keep the decision, unless one is there: the one that is there then."""
        facts = (decision.owner, decision.time_ms, int(decision.told))
        row = self._server.call(_TAKE, _name(decision.plan), *facts, _packed(decision))
        with self._server.decoding():
            return _decision(row)

    def of(self, plan: Version) -> Decision | None:
        """The decision on a plan, if it was decided on."""
        row = self._server.call(_OF, _name(plan))
        with self._server.decoding():
            return None if row[0] is None else _decision(row)

    def withdraw(self, decision: Decision) -> None:
        """Forget a decision, so that the plan has to be shown anew; no other one."""
        self._server.call(_WITHDRAW, _name(decision.plan), decision.time_ms)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        """What the member has not heard of yet, the oldest first."""
        rows = self._server.call(_UNTOLD, owner)
        with self._server.decoding():
            return tuple(_decision(row) for row in rows)

    def tell(self, decision: Decision) -> None:
        """The owner has heard of it."""
        self._server.call(_TELL, _name(decision.plan))

    def forget(self, before_ms: int) -> None:
        """Drop the decisions that are older, but never the last ones: the clock may be wrong."""
        self._server.call(_FORGET, before_ms, PLANS_KEPT)

    def close(self) -> None:
        """Nothing is held."""


def _name(plan: Version) -> str:
    return f"{plan[0]} {plan[1]}"


def _packed(decision: Decision) -> bytes:
    return packed({name: getattr(decision, name) for name in _KEPT})


def _decision(row: list[Any]) -> Decision:
    facts = unpacked(row[0])
    return Decision(**{name: facts[name] for name in _KEPT if name in facts}, told=row[1] == b"1")


_KEPT = tuple(f.name for f in fields(Decision) if f.name != "told")
