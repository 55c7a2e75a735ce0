"""Exclusion across machines: a lease for each key, renewed while it is held.

What lives here: leases on the server, and the thread that renews them. What must
not: files, clocks (one is handed in). Invariants: a lease is held by one alone;
one who died loses it soon; who lost it is told so before it may write. Each
lease has a number, higher than that of any before, a part that chance made, so
that no two are the same though the server forgets what it counted, and the epoch
of the server that gave it. Who holds a lease names the journal entries that it
has open, too: a server that has lost them lets nobody write.

Who waits stands in a queue on the server, in the order of arrival, and is woken by
who lets go. It says again and again that it is there: of one who does not, the place
in the queue runs out. The lease of one who died is looked for when it runs out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread, local
from typing import Any

from copydesk.desk.redis.server import EPOCH, Argument, Script, Server
from copydesk.errors import ServerFailed, TurnLost, check_cancelled, poll_seconds
from copydesk.store.holder import NOBODY, WAIT_SECONDS, Caller, Holder

LEASE_MS = 5_000
"""So long a lease lasts that nobody renews."""

_RENEWALS = 10 / 3
"""How often it is renewed in that time."""

_LONGEST_WAIT_SECONDS = 1.0
"""A wait is at most so long, should it be that nobody says that a lease fell free."""

_WAITS_MS = 3 * round(1_000 * _LONGEST_WAIT_SECONDS)
"""Who waits and does not ask for so long has gone."""

_QUEUE = f"""
local key, queue = ARGV[1], p .. 'queue:' .. ARGV[1]
local function waits(name) return p .. 'waits:' .. key .. ':' .. name end
local function freed(name) return p .. 'freed:' .. key .. ':' .. name end
local function first()
  while true do
    local name = redis.call('ZRANGE', queue, 0, 0)[1]
    if not name or redis.call('EXISTS', waits(name)) == 1 then return name end
    redis.call('ZREM', queue, name)
  end
end
local function leave(name)
  redis.call('ZREM', queue, name)
  redis.call('DEL', waits(name), freed(name))
end
local function wake()
  local name = first()
  if not name or redis.call('EXISTS', p .. 'lease:' .. key) == 1 then return end
  redis.call('DEL', freed(name))
  redis.call('RPUSH', freed(name), 1)
  redis.call('PEXPIRE', freed(name), {_WAITS_MS})
end
"""
"""The queue of a key: a set of names by arrival, and of each a sign that it still waits."""

_TAKE = Script(
    EPOCH
    + _QUEUE
    + f"""
local left = redis.call('PTTL', p .. 'lease:' .. key)
local before = first()
if left ~= -2 or (before and before ~= ARGV[2]) then
  if not redis.call('ZSCORE', queue, ARGV[2]) then
    redis.call('ZADD', queue, redis.call('INCR', p .. 'arrivals'), ARGV[2])
  end
  redis.call('SET', waits(ARGV[2]), 1, 'PX', {_WAITS_MS})
  return {{0, left, redis.call('GET', p .. 'holder:' .. key) or ''}}
end
leave(ARGV[2])
redis.call('SET', p .. 'holder:' .. key, ARGV[4])
redis.call('SET', p .. 'generation', ARGV[2], 'NX')
local value = redis.call('INCR', p .. 'token') .. ':' .. ARGV[2] .. ':' .. epoch()
redis.call('SET', p .. 'lease:' .. ARGV[1], value, 'PX', ARGV[3])
return {{value, 0, ''}}
"""
)
_LEAVE = Script(_QUEUE + "leave(ARGV[2]) wake()")
_LET_GO = Script(
    _QUEUE
    + """
if redis.call('GET', p .. 'lease:' .. ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', p .. 'lease:' .. key, p .. 'holder:' .. key)
wake()
return 1
"""
)
_RENEW = Script(
    """
local kept = {}
for i = 2, #ARGV, 2 do
  if redis.call('GET', p .. 'lease:' .. ARGV[i]) == ARGV[i + 1] then
    redis.call('PEXPIRE', p .. 'lease:' .. ARGV[i], ARGV[1])
    kept[#kept + 1] = i / 2 - 1
  end
end
return kept
"""
)
_KEEP = Script(
    """
for i = 2, L, 2 do redis.call('PEXPIRE', p .. 'lease:' .. ARGV[i], ARGV[A + 1]) end
return redis.status_reply('OK')
""",
    fenced=True,
)


@dataclass(eq=False, slots=True)
class _Lease:
    """Held at least `until` (of our clock), and `depth` times."""

    key: str
    value: str
    until: float
    depth: int = 0


@dataclass
class _Mine(local):
    """What the thread at hand holds, by key, and the entries that it has open, by id."""

    leases: dict[str, _Lease] = field(default_factory=dict[str, _Lease])
    opened: dict[str, str] = field(default_factory=dict[str, str])


class Leases:
    """The leases that one process takes. `monotonic` gives seconds, never fewer than before."""

    def __init__(
        self,
        server: Server,
        monotonic: Callable[[], float],
        lease_ms: int = LEASE_MS,
        *,
        seconds: float = WAIT_SECONDS,
    ) -> None:
        self._server, self._monotonic, self._lease_ms = server, monotonic, lease_ms
        self._seconds = seconds
        self._mine = _Mine()
        self._all: set[_Lease] = set()
        self._lock = Lock()
        self._closing = Event()
        self._thread: Thread | None = None

    @contextmanager
    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> Generator[None]:
        """Wait until nobody else holds the key, and hold it; raises ServerFailed, Busy.

        Who holds it already holds it once more.
        """
        name, mine = _shared(key), self._mine.leases
        lease = mine.get(name)
        if lease is None:
            lease = mine[name] = self._taken(
                name, self._seconds if seconds is None else seconds, Holder.here(caller)
            )
        lease.depth += 1
        try:
            self._watch(lease)
            yield
        finally:
            lease.depth -= 1
            if not lease.depth:
                del mine[name]
                if not mine:
                    self._mine.opened.clear()
                self._let_go(lease)

    def held(self) -> tuple[tuple[str, str], ...]:
        """The leases that this thread holds, by key and value."""
        return tuple((lease.key, lease.value) for lease in self._mine.leases.values())

    def opened(self, entries: Mapping[str, str]) -> None:
        """From now on this thread may write only while these entries, by id, are open too."""
        if self._mine.leases:
            self._mine.opened.update(entries)

    def closed(self, ids: Iterable[str]) -> None:
        """The entries need not be open any more."""
        for each in ids:
            self._mine.opened.pop(each, None)

    def fenced(self, script: Script, *arguments: Argument) -> Any:
        """What the script gives, if this thread has lost nothing; else raises TurnLost."""
        opened = tuple(self._mine.opened.items())
        return self._server.fenced(script, self.held(), opened, *arguments)

    def require(self) -> None:
        """Raise TurnLost unless all that this thread holds is its own, for some time more.

        Right after it one may write. Raises ServerFailed when nobody can tell. It is
        asked twice, for a connection to a server that was restarted fails once.
        """
        if self._mine.leases:
            until = self._until()
            try:
                self.fenced(_KEEP, self._lease_ms)
            except ServerFailed:
                until = self._until()
                self.fenced(_KEEP, self._lease_ms)
            self._extend(self._mine.leases.values(), until)
            self._require_time()

    def require_for_return(self) -> None:
        """The same, for one who takes back what it has just written, though the server be away.

        Then our own clock tells whether somebody else can have had the turn.
        """
        try:
            self.require()
        except ServerFailed:
            self._require_time()

    def close(self) -> None:
        """Renew nothing any more."""
        self._closing.set()

    def _taken(self, key: str, seconds: float, holder: Holder) -> _Lease:
        chance, deadline = secrets.token_hex(8), self._monotonic() + seconds
        waits = False
        try:
            while True:
                until = self._until()
                asked = key, chance, self._lease_ms, holder.text
                value, left_ms, held_by = self._server.call(_TAKE, *asked)
                if value:
                    waits = False
                    return _Lease(key, value.decode(), until)
                waits = True
                left = deadline - self._monotonic()
                if left <= 0:
                    raise Holder.of(held_by).busy(key, seconds)
                most = min(_LONGEST_WAIT_SECONDS, poll_seconds() or _LONGEST_WAIT_SECONDS, left)
                self._server.wait(
                    f"freed:{key}:{chance}", min(max(left_ms, 0) / 1_000 + 0.002, most)
                )
                check_cancelled()
        finally:
            if waits:
                with suppress(ServerFailed):  # its place in the queue runs out
                    self._server.call(_LEAVE, key, chance)

    def _until(self) -> float:
        """How long a lease lasts that the server gives or renews after this moment."""
        return self._monotonic() + self._lease_ms / 1_000

    def _require_time(self) -> None:
        """Raise TurnLost unless half of the time is left of all that this thread holds."""
        latest = self._monotonic() + self._lease_ms / 2_000
        for lease in self._mine.leases.values():
            if lease.until < latest:
                raise TurnLost.of(lease.key)

    def _extend(self, leases: Iterable[_Lease], until: float) -> None:
        with self._lock:
            for lease in leases:
                lease.until = max(lease.until, until)

    def _let_go(self, lease: _Lease) -> None:
        with self._lock:
            self._all.discard(lease)
        with suppress(ServerFailed):  # it ends by itself
            self._server.call(_LET_GO, lease.key, lease.value)

    def _watch(self, lease: _Lease) -> None:
        """Have the lease renewed until it is let go."""
        with self._lock:
            self._all.add(lease)
            if self._thread is None or not self._thread.is_alive():  # after a fork it is not
                self._thread = Thread(target=self._renew, name="copydesk-leases", daemon=True)
                self._thread.start()

    def _renew(self) -> None:
        """Renew what is held, until for a while nothing is."""
        idle = False
        while not self._closing.wait(self._lease_ms / 1_000 / _RENEWALS):
            with self._lock:
                leases = list(self._all)
                if idle and not leases:
                    self._thread = None
                    return
            idle = not leases
            if leases:
                self._renew_once(leases)

    def _renew_once(self, leases: Sequence[_Lease]) -> None:
        until = self._until()
        held = [part for each in leases for part in (each.key, each.value)]
        try:
            kept: list[int] = self._server.call(_RENEW, self._lease_ms, *held)
        except ServerFailed:
            return  # who writes is told of it
        self._extend((leases[at] for at in kept), until)


def _shared(key: str) -> str:
    """The key as all machines know it: each numbers the devices in its own way."""
    return f"\0inode {key.split(' ')[-1]}" if key.startswith("\0inode ") else key
