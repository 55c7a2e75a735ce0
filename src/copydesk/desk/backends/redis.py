"""The state of a workspace on a Redis or Valkey server that all its machines share.

The server gives leases of files, and keeps records and texts; each change is one script, in
`redis.lua`. A command is sent only once, so nothing happens twice. A fenced script does nothing if
a lease is no longer held, or the server is not the one that gave it. No error shows the password.

Invariants: an entry is stored when `open` returns, as durably as the server does, and only if the
writer held all its leases at that moment; its outcome is recorded at once, or with the next record,
and never on another entry with the same id, given by a server that lost data. Each change is one
step; the indexes, and the sum of the bytes, match the entries that exist.

An entry is the hash `e:ID`: `fixed` (packed), `inverse`, `diff`, `state`, `mark`, and while they
are needed `whole` and `undo`; besides, what the scripts look up. Sets ordered by id are `edits`,
`open`, `at:PATH`, `below:FOLDER`, `hunk:ID`, `group:NAME`, `undoing:ID`, and `openat:PATH`.
A plan is tied to its entry (`tx`) by the script that records it, and ends in that which closes it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from importlib.resources import files
from itertools import chain, takewhile
from threading import Event, Lock, Thread, local
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError
from redis.retry import Retry

from copydesk.desk.backends.api import (
    CHAIN_LENGTH,
    DAY_MS,
    ENDED_KEPT_MS,
    ENDS,
    MOST_OUTCOMES,
    PLANS_KEPT,
    Day,
    Decision,
    Entry,
    Head,
    IdRange,
    Loss,
    Missing,
    PlanOutcome,
    PlanVersion,
    RecordError,
    Records,
    State,
    Tied,
    compress,
    decode,
    decode_inverse,
    decode_plan,
    decompress,
    due,
    encode,
    encode_plan,
    known_plans,
    linked,
    minutes_since_2020,
    notifying,
    share,
    unpack,
)
from copydesk.desk.backends.snapshots import (
    LARGEST,
    MOST_SEEN,
    MOST_SHOWN,
    SnapshotStore,
    place_of,
)
from copydesk.edit.draft import Ended, Plan
from copydesk.errors import HunkNotFound, LockLost, ServerFailed, check_cancelled, poll_seconds
from copydesk.store.protocol import NOBODY, WAIT_SECONDS, Deadline, Holder, TargetMoved
from copydesk.store.state import Count
from copydesk.store.threads import held_at_fork
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH

if TYPE_CHECKING:
    from copydesk.notes.protocol import Change

PATIENCE_SECONDS = 4.0
"""How long to wait for a reply."""

_MOST_CONNECTIONS = 1 << 16
_MOST_MOVES = 4
"""The most nodes of a cluster that are asked for one call."""

_LOST = "LOST "
"""How the error of a fenced script begins; the key of the lost lease follows."""

_LONGEST_WAIT_SECONDS = 1.0
"""The longest single wait, in case nobody announces that a lease is free."""

_WAITS_MS = 3 * round(1_000 * _LONGEST_WAIT_SECONDS)
"""A waiter that has not asked for this long is considered gone."""

_ENDS = "".join(f" {state}>{end} " for state, ends in ENDS.items() for end in ends)
_BEGIN = (
    f"local p = KEYS[1]\nlocal WAITS_MS, PLANS_KEPT = {_WAITS_MS}, {PLANS_KEPT}\n"
    f"local MOST_OUTCOMES = {MOST_OUTCOMES}\nlocal ENDS = '{_ENDS}'\n"
)
"""How each script begins: the prefix of all keys, and the constants that it takes from here."""

T = TypeVar("T")
Argument = str | bytes | int


@cache
def _sections() -> dict[str, tuple[str, str]]:
    """The sections of redis.lua by name: the names of the pieces that each uses, its own text."""
    text = (files("copydesk.desk.backends") / "redis.lua").read_text("utf-8")
    sections = re.findall(r"^---- (\w+)(?:: (.*))?\n((?:(?!---- ).*\n)*)", text, re.MULTILINE)
    return {name: (uses, body) for name, uses, body in sections}


def _text_of(name: str) -> str:
    """A section after the pieces that it uses, and those that they use."""
    uses, body = _sections()[name]
    return "".join(map(_text_of, uses.split())) + body


class Script:
    """An atomic step in Lua; keys begin with `p`. `fenced`: needs its leases and open entries."""

    def __init__(self, body: str, fenced: bool = False) -> None:
        self.text = _BEGIN + (_text_of("fenced") if fenced else "") + body
        self.sha1 = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """The script of redis.lua with this name."""
    return Script(_text_of(name))


class Server:
    """The keys of one workspace on one server. Thread-safe.

    `url` begins with `redis://`, `rediss://` or `unix://`; `name` is that of the workspace, the
    same on all machines. For a Redis Cluster any node may be named: all keys have one hash tag, and
    the node with their slot is found. Nothing is sent before the first call. All methods raise
    ServerFailed.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url, self.address = url, address_of(url)
        self._prefix = f"copydesk:{{{name}}}:"  # in braces: one slot for all keys
        self._clients: dict[str, redis.Redis] = {}
        self._owner = url
        try:
            self._client(url)
        except ValueError as error:
            raise self._refused(error) from None

    def call(self, step: Script | str, *arguments: Argument) -> Any:
        """Run a script, or that of redis.lua with this name; return its result."""
        known = step if isinstance(step, Script) else script(step)
        rest = (1, self._prefix, *arguments)
        try:
            return self._followed("EVALSHA", known.sha1, *rest)
        except NoScriptError:
            return self._send("EVAL", known.text, *rest)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def wait(self, key: str, seconds: float) -> None:
        """Wait until something is pushed to the list, and pop it; at most `seconds`."""
        self._send("BLPOP", self._prefix + key, f"{seconds:.3f}")

    def info(self) -> dict[str, str]:
        """The server's INFO, by field."""
        return {name: str(value) for name, value in self._send("INFO").items()}

    def setting(self, name: str) -> str:
        """A server setting, or an empty string if the server hides it."""
        try:
            pair: list[bytes] = self._followed("CONFIG", "GET", name)
        except redis.ResponseError:
            return ""
        except redis.RedisError as error:
            raise self._refused(error) from None
        return pair[1].decode() if pair else ""

    def decoded(self, decode: Callable[[Any], T], data: Any) -> T:
        """Decode the server's records; its errors become ServerFailed."""
        try:
            return decode(data)
        except RecordError as error:
            raise ServerFailed("read what Redis keeps", f"{self.address}: {error}") from error

    def close(self) -> None:
        for client in [*self._clients.values()]:
            client.close()

    def _client(self, url: str) -> redis.Redis:
        if url not in self._clients:
            self._clients[url] = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
                url,
                protocol=2,
                socket_timeout=PATIENCE_SECONDS,
                socket_connect_timeout=PATIENCE_SECONDS,
                max_connections=_MOST_CONNECTIONS,
                retry=Retry(NoBackoff(), 0),
            )
        return self._clients[url]

    def _followed(self, *command: Argument) -> Any:
        """The reply of the node that has the keys; a node without them does nothing."""
        for left in reversed(range(_MOST_MOVES)):
            owner = self._owner
            client = cast(Any, self._client(owner))  # it has no types for replies
            try:
                return client.execute_command(*command)
            except MovedError as moved:
                if not left:
                    raise
                host, port = cast("tuple[str, int]", moved.node_addr)  # pyright: ignore[reportUnknownMemberType]  # untyped
                self._owner = _url_at(self._url, host, port)
            except redis.ConnectionError:
                if self._owner == owner:
                    self._owner = self._url  # it redirects the next call
                raise
        raise AssertionError

    def _send(self, *command: Argument) -> Any:
        try:
            return self._followed(*command)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> ServerFailed | LockLost:
        words = str(error)
        if isinstance(error, redis.ResponseError) and _LOST in words:
            return LockLost.of(words.partition(_LOST)[2])
        words = words.rstrip(".") or type(error).__name__
        return ServerFailed("use Redis", f"{self.address}: {words}")


def _url_at(url: str, host: str, port: int) -> str:
    """The URL of another cluster node; a node that does not know its name has the same host."""
    parts = urlsplit(url)
    host = host or parts.hostname or ""
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    before, sign, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{before}{sign}{at}").geturl()


def address_of(url: str) -> str:
    """The address to show: without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


LEASE_MS = 5_000
"""How long a lease lasts without renewal."""

_RENEWALS = 10 / 3
"""How often a lease is renewed in that time."""


@dataclass(eq=False, slots=True)
class _Lease:
    """Held at least `until` (by our clock), `depth` times."""

    key: str
    value: str
    until: float
    depth: int = 0


@dataclass
class _Mine(local):
    """This thread's leases by key, and its open entries by id."""

    leases: dict[str, _Lease] = field(default_factory=dict[str, _Lease])
    opened: dict[int, str] = field(default_factory=dict[int, str])


class Leases:
    """The leases of one process. `monotonic` returns seconds and never goes back."""

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
        self._lock = held_at_fork(Lock())
        self._closing = Event()
        self._thread: Thread | None = None

    @contextmanager
    def hold(
        self, key: str, until: Deadline | None = None, holder: Holder | None = None
    ) -> Generator[None]:
        """Wait for the key and hold it, again if already held; raises ServerFailed, Busy."""
        name, mine = _shared(key), self._mine.leases
        if (lease := mine.get(name)) is None:
            until = Deadline(self._seconds) if until is None else until
            lease = mine[name] = self._taken(name, until, holder or Holder.here(NOBODY))
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
                with self._lock:
                    self._all.discard(lease)
                with suppress(ServerFailed):  # it expires
                    self._server.call("release", lease.key, lease.value)

    def held(self) -> tuple[tuple[str, str], ...]:
        """The leases that this thread holds, by key and value."""
        return tuple((lease.key, lease.value) for lease in self._mine.leases.values())

    def opened(self, entries: Mapping[int, str]) -> None:
        """From now on, this thread may write only while these entries, by id, are open as well."""
        if self._mine.leases:
            self._mine.opened.update(entries)

    def closed(self, ids: Iterable[int]) -> None:
        """The entries need not be open any longer."""
        for edit_id in ids:
            self._mine.opened.pop(edit_id, None)

    def fenced(self, step: Script | str, *arguments: Argument) -> Any:
        """The script's result; raises LockLost unless this thread's leases and entries stand."""
        held, opened = self.held(), self._mine.opened
        leases = [part for lease in held for part in lease]
        entries = [part for entry in opened.items() for part in entry]
        return self._server.call(step, len(held), *leases, len(opened), *entries, *arguments)

    def require(self) -> None:
        """Raise LockLost unless this thread still holds all its leases, for some time more.

        After it, one may write at once. Raises ServerFailed if that cannot be checked. It asks
        again while there is time: a connection to a restarted server fails once, and the reply of
        one that hung may come too late.
        """
        if not self._mine.leases:
            return
        for again in (True, False):
            until = self._until()
            try:
                self.fenced("keep_leases", self._lease_ms)
            except ServerFailed:
                if not again or self._short() is not None:
                    raise
            else:
                self._extend(self._mine.leases.values(), until)
                if self._short() is None:
                    return
        self._require_time()

    def require_for_return(self) -> None:
        """Like `require`, for a rollback; falls back to the local clock if the server is down."""
        try:
            self.require()
        except ServerFailed:
            self._require_time()

    def close(self) -> None:
        """Stop renewing; waits for a renewal under way."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _taken(self, key: str, until: Deadline, holder: Holder) -> _Lease:
        chance, deadline = secrets.token_hex(8), self._monotonic() + until.left
        waits = False
        try:
            while True:
                leased_until = self._until()
                asked = key, chance, self._lease_ms, holder.text
                value, left_ms, held_by = self._server.call("take_lease", *asked)
                waits = not value
                if value:
                    return _Lease(key, value.decode(), leased_until)
                if (left := deadline - self._monotonic()) <= 0:
                    raise Holder.of(held_by).busy(key, until.seconds)
                most = min(_LONGEST_WAIT_SECONDS, poll_seconds() or _LONGEST_WAIT_SECONDS, left)
                self._server.wait(
                    f"freed:{key}:{chance}", min(max(left_ms, 0) / 1_000 + 0.002, most)
                )
                check_cancelled()
        finally:
            if waits:
                with suppress(ServerFailed):  # its place in the queue expires
                    self._server.call("leave_queue", key, chance)

    def _until(self) -> float:
        """Until when a lease lasts that the server gives or renews after this moment."""
        return self._monotonic() + self._lease_ms / 1_000

    def _require_time(self) -> None:
        """Raise LockLost unless half of the time is left for all leases of this thread."""
        if (short := self._short()) is not None:
            raise LockLost.of(short)

    def _short(self) -> str | None:
        """The key of a lease of this thread with less than half of its time left; or None."""
        latest, leases = self._monotonic() + self._lease_ms / 2_000, self._mine.leases.values()
        return next((lease.key for lease in leases if lease.until < latest), None)

    def _extend(self, leases: Iterable[_Lease], until: float) -> None:
        with self._lock:
            for lease in leases:
                lease.until = max(lease.until, until)

    def _watch(self, lease: _Lease) -> None:
        with self._lock:
            self._all.add(lease)
            if self._thread is None or not self._thread.is_alive():  # dead after a fork
                self._thread = Thread(target=self._renew, name="copydesk-leases", daemon=True)
                self._thread.start()

    def _renew(self) -> None:
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
        pairs = [part for lease in leases for part in (lease.key, lease.value)]
        try:
            renewed: list[int] = self._server.call("renew", self._lease_ms, *pairs)
        except ServerFailed:
            return  # writers are told
        self._extend((leases[at] for at in renewed), until)


def _shared(key: str) -> str:
    """The key as all machines use it: each numbers devices in its own way."""
    return f"\0inode {key.split(' ')[-1]}" if key.startswith("\0inode ") else key


_LEAST_GAP = 500_000  # between ids before and after a server lost its data; half of the script's
_FIELDS = ("fixed", "inverse", "diff", "state", "mark", "undo")
_FIXED = (
    *("time_ms", "member", "tool", "kind", "before", "after"),
    *("hunk_id", "group", "undoes", "why", "file", "approval"),
)
"""The constant fields of an entry, besides its path."""

_EVERY = 1 << 62
_DOWN, _UP = ("down", "+inf"), ("up", "-inf")
"""The ways through an index, by id, and where each begins."""

_FIRST = 64
"""Entries requested first; each further request doubles the number."""

_MOST_MARKS = 10_000
"""For how many entries, those last seen open, the marks are kept."""

Row = list[Any]
Named = tuple[int, str]
"""An entry, even if the server lost data: its id, and its unique mark."""


class RedisRecords(Records):
    """The records of all machines that work on the workspace."""

    def __init__(
        self, server: Server, leases: Leases, on_loss: Callable[[Loss], None] = lambda loss: None
    ) -> None:
        super().__init__()
        self._server, self._leases, self._on_loss = server, leases, on_loss
        self._day = -1
        self._marks: dict[int, str] = {}
        self._highest = 0
        self._ended: dict[Named, State] = {}
        self._undo: dict[Named, bytes] = {}
        self._lock = held_at_fork(Lock())

    def changes(self) -> tuple[int, ...]:
        """The numbers of changes of plans and decisions; raises ServerFailed."""
        return self.counts()[:2]

    def counts(self) -> tuple[int, ...]:
        """The numbers of changes of plans, decisions, edits and plan outcomes; ServerFailed."""
        return tuple(int(count or 0) for count in self._server.call("counts"))

    @notifying
    def add(self, plan: Plan) -> bool:
        before_ms = plan.created_ms - ENDED_KEPT_MS
        return bool(self._server.call("add_plan", *_plan_row(plan), before_ms))

    @notifying
    def put(self, plan: Plan) -> None:
        if reason := self._server.call("put_plan", *_plan_row(plan)):
            raise HunkNotFound(plan.id, reason.decode())

    def plan(self, hunk_id: str, now_ms: int) -> Plan:
        plan, ended, expires_ms = self._server.call("get_plan", hunk_id)
        if expires_ms is None:
            raise HunkNotFound(hunk_id, "unknown")
        if ended is not None or int(expires_ms) <= now_ms:
            raise HunkNotFound(hunk_id, ended.decode() if ended else "expired")
        return self._server.decoded(decode_plan, plan)

    @notifying
    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """End the plan and record how; raises LockLost."""
        self._leases.fenced("end_plan", hunk_id, how, now_ms)

    @notifying
    def reopen(self, plan: Plan) -> bool:
        return bool(self._server.call("reopen_plan", *_plan_row(plan)))

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        return self._server.decoded(known_plans, self._server.call("waiting", now_ms))

    @notifying
    def take(self, decision: Decision) -> Decision:
        facts = decision.owner, decision.time_ms, int(decision.told), _packed(decision)
        row = self._server.call("take_decision", _plan_name(decision.plan), *facts)
        return self._server.decoded(_decision, row)

    def of_all(self, plans: Sequence[PlanVersion]) -> dict[PlanVersion, Decision]:
        decisions: dict[PlanVersion, Decision] = {}
        for start in range(0, len(plans), _TOGETHER):
            names = map(_plan_name, plans[start : start + _TOGETHER])
            decisions |= {each.plan: each for each in self._decisions("decisions_of", *names)}
        return decisions

    @notifying
    def withdraw(self, decision: Decision) -> None:
        self._server.call("withdraw", _plan_name(decision.plan), decision.time_ms)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        return self._decisions("untold", owner)

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        return self._decisions("comments", hunk_id)

    def _decisions(self, step: str, *arguments: str) -> tuple[Decision, ...]:
        rows = self._server.call(step, *arguments)
        return self._server.decoded(lambda rows: tuple(map(_decision, rows)), rows)

    def tell(self, decision: Decision) -> None:
        self._server.call("tell", _plan_name(decision.plan))

    def forget(self, before_ms: int) -> None:
        """Drop older decisions on plans that ended; keep PLANS_KEPT, as the clock may be wrong."""
        self._server.call("forget", before_ms, PLANS_KEPT)

    def forget_reasons(self, ours: Callable[[Decision], bool]) -> None:
        for decision in self._decisions("decided"):
            if decision.reason and ours(decision):
                packed = _packed(replace(decision, reason=""))
                self._server.call("repack", _plan_name(decision.plan), packed)

    def note(self, fared: PlanOutcome) -> None:
        rest = encode({"member": fared.member, "path": fared.path, "how": fared.how})
        with suppress(ServerFailed):
            self._server.call("note_outcome", b"%d " % fared.time_ms + rest)

    def noted(self) -> tuple[PlanOutcome, ...]:
        return self._server.decoded(_outcomes, self._server.call("outcomes"))

    def open_all(self, entries: Sequence[Entry], plans: Iterable[Tied] = ()) -> tuple[int, ...]:
        tied = {hunk_id: (created_ms, decided_ms) for hunk_id, created_ms, decided_ms in plans}
        opened = self._open(entries, self._leases.fenced, "open", tied)
        self._leases.opened(opened)
        return tuple(opened)

    def open_again(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Record again entries that the server lost, without checking leases."""
        return tuple(self._open(entries, self._server.call, "reopen", {}))

    def _open(
        self,
        entries: Sequence[Entry],
        send: Callable[..., list[Any]],
        step: str,
        plans: dict[str, tuple[int, int]],
    ) -> dict[int, str]:
        """Record the entries by a step; return their marks by their ids."""
        self._send()
        marks = [secrets.token_hex(8) for _ in entries]
        arguments = [
            part
            for entry, mark in zip(entries, marks, strict=True)
            for part in (*_arguments(entry), *plans.pop(entry.hunk_id, ("", 0)), mark)
        ]
        minutes = minutes_since_2020(entries[0].time_ms) if entries else 0
        reply = send(step, self._highest, minutes, *arguments)
        if reply and isinstance(reply[0], bytes):  # the plan that may not be written, and why
            hunk_id, reason = (part.decode() for part in reply)
            raise HunkNotFound(hunk_id, reason) if reason else TargetMoved
        day = entries[0].time_ms // DAY_MS if entries else self._day
        if day != self._day:
            with suppress(ServerFailed):  # the next entry repeats it
                self._server.call("days", day, 0)
                self._day = day
        opened = dict(zip(reply, marks, strict=True))
        if self._highest and reply and reply[0] - self._highest > _LEAST_GAP:
            self._on_loss("replaced")  # it began anew, for this process or for another one
        for named in opened.items():
            self._remember(*named)
        return opened

    def _remember(self, edit_id: int, mark: str) -> None:
        with self._lock:
            self._highest = max(self._highest, edit_id)
            self._marks.pop(edit_id, None)
            self._marks[edit_id] = mark
            if len(self._marks) > _MOST_MARKS:
                del self._marks[next(iter(self._marks))]

    def _named(self, edit_id: int) -> Named:
        with self._lock:
            return edit_id, self._marks.get(edit_id, "")

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        self._leases.fenced("keep_whole", edit_id, compress(old))

    def _amending(self, edit_id: int) -> Callable[[bytes], object]:
        return partial(self._server.call, "replace", *self._named(edit_id), "diff")

    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        """Record the inverse of a write, best effort."""
        named = self._named(edit_id)
        with self._lock:
            self._undo[named] = compress(encode(undo))
        with suppress(ServerFailed):
            self._send()

    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        self._leases.closed(edit_ids)
        named = [self._named(edit_id) for edit_id in edit_ids]
        with self._lock:
            ended = (one for one in named if state in ENDS.get(self._ended.get(one, "open"), ()))
            self._ended |= dict.fromkeys(ended, state)
        self._send()

    def forget_texts(self, entries: Sequence[Entry]) -> None:
        self._settle()
        for entry in entries:
            fixed, _, diff, *_ = _arguments(entry)
            self._server.call("forget_text", *self._named(entry.edit_id), fixed, diff)

    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        self._settle()
        indexes = ("edits",) if not path or not path.parts else (f"at:{path}", f"below:{path}")
        way = _DOWN if before is None else ("down", f"({before}")
        there = (self._entries(index, most, way, member=member or "") for index in indexes)
        return tuple(sorted(chain.from_iterable(there), key=lambda entry: -entry.edit_id)[:most])

    def heads(self, last_id: int, most: int) -> Sequence[Head]:
        self._settle()
        heads: list[Head] = []
        rows = self._rows("edits", most, fields=("fixed", "state", "mark"))
        for edit_id, fixed, *how in takewhile(lambda row: int(row[0]) > last_id, rows):
            facts = self._server.decoded(decode, fixed)
            known = {name: facts[name] for name in ("path", "time_ms", "before", "after")}
            heads.append(Head(int(edit_id), state=self._state(edit_id, *how), **known))
        return heads

    def get(self, edit_id: int) -> Entry | None:
        self._settle()
        row = self._server.call("one", edit_id, *_FIELDS)
        return None if row[0] is None else self._server.decoded(self._entry, [edit_id, *row])

    def of_hunk(self, hunk_id: str) -> Entry | None:
        return next(self._entries(f"hunk:{hunk_id}", 1), None)

    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        rows = self._rows(f"at:{path}", CHAIN_LENGTH, fields=("fixed", "state", "mark"))
        links = ((*_digests(row), self._state(row[0], *row[2:]), int(row[0])) for row in rows)
        if (ids := linked(links, base_digest, now_digest)) is None:
            return None
        inverses = [self._server.call("one", edit_id, "inverse")[0] for edit_id in ids]
        return tuple(map(unpack, inverses)) if all(inverses) else None

    def next_of(self, entry: Entry) -> Entry | None:
        return next(self._entries(f"at:{entry.path}", 1, ("up", f"({entry.edit_id}")), None)

    def of_group(self, group: str) -> tuple[Entry, ...]:
        return tuple(self._entries(f"group:{group}", _EVERY, _UP)) if group else ()

    def open_at(self, paths: Iterable[RelPath]) -> tuple[int, ...]:
        entries = self._server.call("open_at", *map(str, paths))
        with self._lock:
            return tuple(int(id_) for id_, mark in entries if _name(id_, mark) not in self._ended)

    def undone_by(self, edit_id: int) -> tuple[int, ...]:
        rows = self._rows(f"undoing:{edit_id}", _EVERY, _UP, fields=("state", "mark"))
        return tuple(int(id_) for id_, *how in rows if self._state(id_, *how) != "failed")

    def in_doubt(self) -> tuple[Entry, ...]:
        self._settle()
        return tuple(self._entries("open", _EVERY, _UP))

    def whole_of(self, edit_id: int) -> bytes | None:
        whole = self._server.call("one", edit_id, "whole")[0]
        return None if whole is None else decompress(whole)

    def prune(self, now_ms: int, keep_days: int, most_bytes: int) -> int:
        """Drop a share of the old (once a day) or excess entries; return their number."""
        self._settle()
        first, days = self._server.call("days", now_ms // DAY_MS, 1)
        old = due(_days(days), keep_days) if first else None
        upto, at, count, left = old.newest if old else 0, "-inf", 0, share(self._measure(0)[0])
        while left > count:
            gone, last = self._server.call("prune", upto, most_bytes, left - count, at)
            count += int(gone)
            if not last:
                break
            at = f"({last}"
        if old is not None:
            self._server.call("since", old.number)
        return count

    def _measure(self, last: int) -> tuple[int, int, int, int, Sequence[Day]]:
        self._settle()
        *measured, days = self._server.call("held", last)
        count, size, oldest, aged = map(int, measured)
        return count, size, oldest, aged, _days(days)

    def why_missing(self, edit_id: int) -> Missing:
        first, given = (int(edit_id or 0) for edit_id in self._server.call("given"))
        if 0 < edit_id < first or given < edit_id <= self._highest:
            return "replaced"
        return "pruned" if first <= edit_id <= given else "unknown"

    def lost(self, first: int, before: int | None) -> tuple[IdRange, ...]:
        """Nothing: a server loses all or nothing, and says so."""
        return ()

    def close(self) -> None:
        """Record outcomes, best effort: without them recovery uses the digests."""
        with suppress(ServerFailed):
            self._settle()
        self._late.close()
        self._late.now()

    def _entries(
        self, index: str, most: int, way: tuple[str, str] = _DOWN, *, member: str = ""
    ) -> Iterator[Entry]:
        rows = self._rows(index, most, way, member=member)
        return (self._server.decoded(self._entry, row) for row in rows)

    def _rows(
        self,
        index: str,
        most: int,
        way: tuple[str, str] = _DOWN,
        *,
        member: str = "",
        fields: Sequence[str] = _FIELDS,
    ) -> Iterator[Row]:
        """Yield ids and fields of the entries of an index, fetched in batches."""
        (direction, start), left, at_once = way, most, _FIRST
        while left > 0:
            scan = index, start, min(left, at_once), member, direction
            last, rows = self._server.call("scan", *scan, *fields)
            yield from (row for row in rows if row[1] is not None)  # else it was lost alone
            left, at_once = left - len(rows), 2 * at_once
            if not last:
                return
            start = f"({last}"

    def _entry(self, row: Row) -> Entry:
        edit_id, fixed, inverse, diff, state, mark, undo = row
        self._remember(*_name(edit_id, mark))
        facts = decode(fixed)
        return Entry(
            **{name: facts[name] for name in _FIXED if name in facts},
            path=RelPath.parse(facts["path"]),
            inverse=decode_inverse(inverse),
            diff=decompress(diff),
            edit_id=int(edit_id),
            state=self._state(edit_id, state, mark),
            undo=() if undo is None else unpack(undo),
        )

    def _state(self, edit_id: Any, recorded: bytes, mark: bytes | None) -> State:
        """An entry's outcome that could not be recorded yet; else the recorded state."""
        with self._lock:
            return self._ended.get(_name(edit_id, mark), cast(State, recorded.decode()))

    def _settle(self) -> None:
        self._late.now()
        self._send()

    def _send(self) -> None:
        """Record outcomes that could not be recorded earlier."""
        with self._lock:
            ended, undo = dict(self._ended), dict(self._undo)
        for named, way in undo.items():
            self._server.call("replace", *named, "undo", way)
        if ended:
            triples = [part for named, state in ended.items() for part in (*named, state)]
            if self._server.call("close", *triples):
                self._on_loss("emptied")
        with self._lock:
            for named, _ in undo.items() & self._undo.items():
                del self._undo[named]
            for named, _ in ended.items() & self._ended.items():
                del self._ended[named]


def _plan_name(plan: PlanVersion) -> str:
    return f"{plan[0]} {plan[1]}"


def _plan_row(plan: Plan) -> tuple[str | int | bytes, ...]:
    return plan.id, plan.created_ms, plan.expires_ms, encode_plan(plan)


def _packed(decision: Decision) -> bytes:
    return encode({name: getattr(decision, name) for name in _KEPT})


def _decision(row: Sequence[Any]) -> Decision:
    facts = decode(row[0])
    return Decision(**{name: facts[name] for name in _KEPT if name in facts}, told=row[1] == b"1")


def _outcomes(noted: Iterable[bytes]) -> tuple[PlanOutcome, ...]:
    """Plan outcomes; each is prefixed with its time."""
    parts = (each.partition(b" ") for each in noted)
    return tuple(PlanOutcome(time_ms=int(time), **decode(rest)) for time, _, rest in parts)


_KEPT = tuple(f.name for f in fields(Decision) if f.name != "told")


def _name(edit_id: Any, mark: bytes | None) -> Named:
    """The name of an entry on the server; entries of earlier versions have no mark."""
    return int(edit_id), (mark or b"").decode()


def _days(noted: Sequence[bytes]) -> list[Day]:
    return [Day(*map(int, each.split(b":"))) for each in noted]


def _arguments(entry: Entry) -> tuple[str | bytes | int, ...]:
    """Return the arguments of the script that records an entry."""
    path = str(entry.path)
    fixed = {"path": path, **{name: getattr(entry, name) for name in _FIXED}}
    return (
        encode(fixed),
        compress(encode(entry.inverse)),
        compress(entry.diff),
        path,
        entry.hunk_id,
        entry.group,
        entry.undoes,
        entry.time_ms,
        entry.member,
    )


def _digests(row: Row) -> tuple[str, str]:
    facts = decode(row[1])
    return facts["before"], facts["after"]


_TOGETHER = 2_000
"""The most decisions requested at once."""


_DIGEST_LENGTH = 64


class RedisSnapshots(SnapshotStore):
    """Texts on a server, the least recently used ones dropped first; reading raises ServerFailed.

    Of two that note what the same member was shown at once, one may be lost.
    """

    def __init__(
        self,
        server: Server,
        most_bytes: int,
        largest: int = LARGEST,
        count: Count | None = None,
    ) -> None:
        super().__init__(most_bytes, largest, count)
        self._server = server

    def _attempt(self, work: Callable[[], T], *, writes: bool = True) -> T | None:
        with suppress(ServerFailed) if writes else nullcontext():
            return work()
        return None

    def _is_stored(self, digest: str, at: RelPath) -> bool:
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call("touch_text", version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, packed: bytes, at: RelPath) -> None:
        if not self._is_stored(digest, at):
            text = digest.encode() + packed
            self._server.call("keep_text", digest[:VERSION_LENGTH], text, self._most)

    def _found(self, digest: str, at: RelPath | None) -> tuple[str, bytes] | None:
        mark = "" if at is None else _mark(digest, at)
        text: bytes | None = self._server.call("find_text", digest[:VERSION_LENGTH], mark)
        if text is None:
            return None
        return text[:_DIGEST_LENGTH].decode("ascii", "replace"), text[_DIGEST_LENGTH:]

    def _remove(self, kept: Collection[str]) -> None:
        self._server.call("forget_texts", *(digest[:VERSION_LENGTH] for digest in kept))

    def _record_of(self, reader: str) -> bytes:
        return self._server.call("shown", reader) or b""

    def _put_record(self, reader: str, record: bytes) -> None:
        self._server.call("note_shown", reader, record, MOST_SHOWN // 4)

    def _drop(self, digest: str) -> None:
        """Leave it: the least recently used ones go."""

    def close(self) -> None:
        """Do nothing: it holds no resources."""


def _mark(digest: str, at: RelPath) -> str:
    return f"{place_of(at)}-{digest[:VERSION_LENGTH]}"
