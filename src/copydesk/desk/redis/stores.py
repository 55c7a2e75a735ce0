"""Plans, decisions, statistics and remembered texts that all machines of a workspace share."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

from copydesk.desk.backends.api import MOST, Decision, OutcomeKind, PlanOutcome, Version
from copydesk.desk.backends.codec import UnknownRecord, decode, encode
from copydesk.desk.backends.retention import PLANS_KEPT
from copydesk.desk.backends.shown import MOST_SHOWN, VERSIONS, Note, ShownLines
from copydesk.desk.backends.snapshots import LARGEST, MOST_SEEN
from copydesk.desk.redis.leases import Leases, Script, Server
from copydesk.edit.draft import Ended, Plan
from copydesk.errors import BinaryFile, HunkNotFound, ServerFailed
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_DIGEST_LENGTH = 64

_TOUCH = Script(
    """
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'seen', now, ARGV[2])
redis.call('ZREMRANGEBYRANK', p .. 'seen', 0, -1 - ARGV[3])
if redis.call('EXISTS', p .. 'base:' .. ARGV[1]) == 0 then return 0 end
redis.call('ZADD', p .. 'bases', now, ARGV[1])
return 1
"""
)
_KEEP = Script(
    """
local version, text, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function size(name) return redis.call('STRLEN', p .. 'base:' .. name) end
local bytes = redis.call('INCRBY', p .. 'basebytes', #text - size(version))
redis.call('SET', p .. 'base:' .. version, text)
redis.call('ZADD', p .. 'bases', redis.call('INCR', p .. 'uses'), version)
while bytes > most do
  local oldest = redis.call('ZPOPMIN', p .. 'bases')[1]
  if not oldest then return end
  bytes = redis.call('DECRBY', p .. 'basebytes', size(oldest))
  redis.call('DEL', p .. 'base:' .. oldest)
end
"""
)
_FIND = Script(
    """
if ARGV[2] ~= '' and not redis.call('ZSCORE', p .. 'seen', ARGV[2]) then return false end
local text = redis.call('GET', p .. 'base:' .. ARGV[1])
if not text then return false end
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'bases', now, ARGV[1])
if ARGV[2] ~= '' then redis.call('ZADD', p .. 'seen', now, ARGV[2]) end
return text
"""
)
_NOTE_SHOWN = Script(
    """
redis.call('HSET', p .. 'shown', ARGV[1], ARGV[2])
redis.call('ZADD', p .. 'readers', redis.call('INCR', p .. 'uses'), ARGV[1])
local over = redis.call('ZCARD', p .. 'readers') - tonumber(ARGV[3])
if over <= 0 then return end
for _, one in ipairs(redis.call('ZRANGE', p .. 'readers', 0, over - 1)) do
  redis.call('HDEL', p .. 'shown', one)
  redis.call('ZREM', p .. 'readers', one)
end
"""
)
_SHOWN = Script("return redis.call('HGET', p .. 'shown', ARGV[1])")
_READERS = MOST_SHOWN // 4
"""Of so many members and files it is known what was shown."""


class RedisSnapshots:
    """Texts by digest on a server, the ones used longest ago dropped beyond `most_bytes`."""

    def __init__(self, server: Server, most_bytes: int, largest: int = LARGEST) -> None:
        self._server, self._most, self._largest = server, most_bytes, largest

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Remember the text, where it was seen and the notes, if small and the server is there."""
        self.note_shown(*notes)
        if len(base.data) > self._largest:
            return
        with suppress(ServerFailed):
            if not self._touched(base.digest, at):
                self._put(base.digest, zlib.compress(base.data, 1))

    def keep_again(self, base: Snapshot, at: RelPath) -> None:
        self.keep(base, at)

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        try:
            known = self._touched(digest, at)
        except ServerFailed:
            known = True
        if known:
            content.close()
            return
        data = content.packed(digest, self._most // sizes.PART)
        if data is not None:
            with suppress(ServerFailed):
                self._put(digest, data)

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there; ServerFailed."""
        if len(digest) < VERSION_LENGTH:
            return None
        mark = "" if at is None else _mark(digest, at)
        found: bytes | None = self._server.call(_FIND, digest[:VERSION_LENGTH], mark)
        if found is None or not found[:_DIGEST_LENGTH].startswith(digest.encode()):
            return None
        try:
            data = zlib.decompress(found[_DIGEST_LENGTH:])
            snapshot = Snapshot.of(data, named)
        except (zlib.error, BinaryFile):  # kept for a file that has another encoding
            return None
        return snapshot if snapshot.digest.startswith(digest) else None

    def note_shown(self, *notes: Note) -> None:
        """Remember the lines members were shown; of two at a moment one may be lost."""
        with suppress(ServerFailed):
            for note in notes:
                self._note_shown(note)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        for one in self._all_shown(member, at):
            if one.version == version if version is not None else one.read:
                return one
        return None

    def _note_shown(self, note: Note) -> None:
        known = {one.version: one for one in self._all_shown(note.member, note.at)}
        lines = note.found(known.get)
        if lines is None:
            return
        known.pop(lines.version, None)
        last = [lines, *known.values()]
        same = [one for one in last if one.read == lines.read]
        rows = b"\n".join(_row(one) for one in last if one not in same[VERSIONS:])
        self._server.call(_NOTE_SHOWN, _reader(note.member, note.at), rows, _READERS)

    def _all_shown(self, member: str, at: RelPath) -> list[ShownLines]:
        """What is known of the last versions, the one noted last first; ServerFailed."""
        found: bytes | None = self._server.call(_SHOWN, _reader(member, at))
        lines: list[ShownLines] = []
        for row in (found or b"").split(b"\n"):
            with suppress(ValueError):  # it is damaged, or empty
                lines.append(_lines(row))
        return lines

    def close(self) -> None:
        """Nothing is held."""

    def _touched(self, digest: str, at: RelPath) -> bool:
        """Note where it was seen; whether the text is there."""
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call(_TOUCH, version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, data: bytes) -> None:
        text = digest.encode() + data
        self._server.call(_KEEP, digest[:VERSION_LENGTH], text, self._most)


def _reader(member: str, at: RelPath) -> str:
    """What stands for a member who reads a path."""
    name = f"{member}\0{at}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).hexdigest()[:32]


def _row(lines: ShownLines) -> bytes:
    """A version, its number of lines, and the runs that were shown, as words."""
    return f"{lines.version} {lines.total} {lines.encoded()}".encode()


def _lines(row: bytes) -> ShownLines:
    version, total, *runs = row.decode().split(" ")
    return ShownLines.decoded(version, int(total), runs)


def _mark(digest: str, at: RelPath) -> str:
    """What says that the text was seen at the path."""
    name = hashlib.sha256(str(at).encode()).hexdigest()[:16]
    return f"{name}-{digest[:VERSION_LENGTH]}"


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


_TAKE = Script(
    """
local name, owner, time, told, packed = unpack(ARGV)
local key = p .. 'decision:' .. name
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'packed', packed, 'owner', owner, 'time', time, 'told', told)
  redis.call('ZADD', p .. 'decided', time, name)
  if told == '0' then redis.call('ZADD', p .. 'untold:' .. owner, time, name) end
  local of = string.match(name, '^(%S+) %-')
  if of then redis.call('RPUSH', p .. 'comments:' .. of, name) end
  redis.call('HINCRBY', p .. 'changes', 'decisions', 1)
end
return redis.call('HMGET', key, 'packed', 'told')
"""
)
_OF = Script("return redis.call('HMGET', p .. 'decision:' .. ARGV[1], 'packed', 'told')")
_OF_ALL = Script(
    """
local found = {}
for _, name in ipairs(ARGV) do
  local key = p .. 'decision:' .. name
  local there = redis.call('EXISTS', key) == 1
  found[#found + 1] = there and redis.call('HMGET', key, 'packed', 'told') or {}
end
return found
"""
)
_TOGETHER = 2_000
"""So many decisions are asked for at once."""

_DROP = """
local function drop(name)
  local key = p .. 'decision:' .. name
  redis.call('ZREM', p .. 'untold:' .. redis.call('HGET', key, 'owner'), name)
  redis.call('ZREM', p .. 'decided', name)
  local of = string.match(name, '^(%S+) %-')
  if of then redis.call('LREM', p .. 'comments:' .. of, 0, name) end
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
  local ended = redis.call('ZSCORE', p .. 'fading', string.match(name, '^%S+'))
  if not ended or tonumber(ended) < tonumber(ARGV[1]) then drop(name) end
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
_COMMENTS = Script(
    """
local found = {}
for _, name in ipairs(redis.call('LRANGE', p .. 'comments:' .. ARGV[1], 0, -1)) do
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
        facts = (decision.owner, decision.time_ms, int(decision.told))
        row = self._server.call(_TAKE, _name(decision.plan), *facts, _packed(decision))
        with self._server.decoding():
            return _decision(row)

    def of(self, plan: Version) -> Decision | None:
        row = self._server.call(_OF, _name(plan))
        with self._server.decoding():
            return None if row[0] is None else _decision(row)

    def of_all(self, plans: Sequence[Version]) -> dict[Version, Decision]:
        """The decisions on those of the plans that were decided on."""
        found: dict[Version, Decision] = {}
        for start in range(0, len(plans), _TOGETHER):
            some = plans[start : start + _TOGETHER]
            rows = self._server.call(_OF_ALL, *map(_name, some))
            with self._server.decoding():
                found |= {plan: _decision(row) for plan, row in zip(some, rows, strict=True) if row}
        return found

    def withdraw(self, decision: Decision) -> None:
        self._server.call(_WITHDRAW, _name(decision.plan), decision.time_ms)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        rows = self._server.call(_UNTOLD, owner)
        with self._server.decoding():
            return tuple(_decision(row) for row in rows)

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        rows = self._server.call(_COMMENTS, hunk_id)
        with self._server.decoding():
            return tuple(_decision(row) for row in rows)

    def tell(self, decision: Decision) -> None:
        self._server.call(_TELL, _name(decision.plan))

    def forget(self, before_ms: int) -> None:
        """Drop older decisions of plans gone by then; the last stay, as the clock may be wrong."""
        self._server.call(_FORGET, before_ms, PLANS_KEPT)

    def close(self) -> None:
        """Nothing is held."""


def _name(plan: Version) -> str:
    return f"{plan[0]} {plan[1]}"


def _packed(decision: Decision) -> bytes:
    return encode({name: getattr(decision, name) for name in _KEPT})


def _decision(row: list[Any]) -> Decision:
    facts = decode(row[0])
    return Decision(**{name: facts[name] for name in _KEPT if name in facts}, told=row[1] == b"1")


_KEPT = tuple(f.name for f in fields(Decision) if f.name != "told")


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
_REOPEN = Script(
    f"""
local id, created, expires, plan = unpack(ARGV)
if redis.call('HGET', p .. 'plan:' .. id, 'ended') ~= 'applied' then return 0 end
redis.call('HDEL', p .. 'plan:' .. id, 'ended')
redis.call('HSET', p .. 'plan:' .. id, 'plan', plan, 'expires', expires)
redis.call('ZADD', p .. 'waiting', created, id)
redis.call('ZADD', p .. 'fading', expires, id)
{_CHANGED}
return 1
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
        ages = (plan.created_ms, plan.expires_ms)
        before_ms = plan.created_ms - REMEMBERED_MS
        return bool(self._server.call(_ADD, plan.id, *ages, encode(plan), before_ms))

    def put(self, plan: Plan) -> None:
        ages = (plan.created_ms, plan.expires_ms)
        reason = self._server.call(_PUT, plan.id, *ages, encode(plan))
        if reason:
            raise HunkNotFound(plan.id, reason.decode())

    def get(self, hunk_id: str, now_ms: int) -> Plan:
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

    def reopen(self, plan: Plan) -> bool:
        """Let a plan wait that was applied, and taken back since; False if it does not fit."""
        ages = (plan.created_ms, plan.expires_ms)
        return bool(self._server.call(_REOPEN, plan.id, *ages, encode(plan)))

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        found: list[Plan] = []
        for plan in self._server.call(_WAITING, now_ms):
            with self._server.decoding(), suppress(UnknownRecord):  # of a newer build
                found.append(_plan(plan))
        return tuple(found)

    def close(self) -> None:
        """Nothing is held."""


def _plan(data: bytes) -> Plan:
    return _tiny(data) if len(data) < _TINY else cast(Plan, decode(data))


@lru_cache(maxsize=4096)
def _tiny(data: bytes) -> Plan:
    return cast(Plan, decode(data))


_NOTE = Script(
    f"""
redis.call('LPUSH', p .. 'fared', ARGV[1])
redis.call('LTRIM', p .. 'fared', 0, {MOST - 1})
redis.call('HINCRBY', p .. 'changes', 'fared', 1)
"""
)
_NOTED = Script("return redis.call('LRANGE', p .. 'fared', 0, -1)")


class RedisPlanStats:
    """The record on a server; each one stands there with its time in front."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def note(self, fared: PlanOutcome) -> None:
        """Remember it, if the server is there: what was written is no less written without it."""
        rest = encode({"member": fared.member, "path": fared.path, "how": fared.how})
        with suppress(ServerFailed):
            self._server.call(_NOTE, b"%d " % fared.time_ms + rest)

    def noted(self) -> tuple[PlanOutcome, ...]:
        noted = self._server.call(_NOTED)
        with self._server.decoding():
            return tuple(_fared(each) for each in noted)

    def close(self) -> None:
        """Nothing is held."""


def _fared(data: bytes) -> PlanOutcome:
    time_ms, _, rest = data.partition(b" ")
    facts = decode(rest)
    return PlanOutcome(
        int(time_ms), facts["member"], facts["path"], cast(OutcomeKind, facts["how"])
    )
