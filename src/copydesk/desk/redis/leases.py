"""The Redis or Valkey server that all machines of a workspace share, and their leases of files.

A command is sent only once, so nothing happens twice. A fenced script does nothing if a lease is no
longer held, or the server is not the one that gave it. No error shows the password.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain
from threading import Event, Lock, Thread, local
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError
from redis.retry import Retry

from copydesk.desk.backends.api import MOST, PLANS_KEPT, RecordError
from copydesk.errors import LockLost, ServerFailed, check_cancelled, poll_seconds
from copydesk.store.locks import held_at_fork
from copydesk.store.protocol import NOBODY, WAIT_SECONDS, Deadline, Holder

PATIENCE_SECONDS = 4.0
"""How long to wait for a reply."""

_MOST_CONNECTIONS = 1 << 16
_MOST_MOVES = 4
"""The most nodes of a cluster that are asked for one call."""
_LOST = "LOST"

_LONGEST_WAIT_SECONDS = 1.0
"""The longest single wait, in case nobody announces that a lease is free."""

_WAITS_MS = 3 * round(1_000 * _LONGEST_WAIT_SECONDS)
"""A waiter that has not asked for this long is considered gone."""


T = TypeVar("T")
Argument = str | bytes | int
Pairs = Sequence[tuple[str, str]]
"""Leases by key, or open entries by id, each with its unique value."""


@cache
def _sections() -> dict[str, tuple[list[str], str]]:
    """The sections of scripts.lua by name: the pieces that each uses, and its own text."""
    text = (files("copydesk.desk.redis") / "scripts.lua").read_text("utf-8")
    found = re.findall(r"^---- (\w+)(?:: (.*))?\n((?:(?!---- ).*\n)*)", text, re.MULTILINE)
    return {name: (uses.split(), body) for name, uses, body in found}


def _text_of(name: str) -> str:
    uses, body = _sections()[name]
    return "".join(map(_text_of, uses)) + body


class Script:
    """An atomic step in Lua; keys begin with `p`. `fenced`: needs its leases and open entries."""

    def __init__(self, body: str, fenced: bool = False) -> None:
        self.text = "local p = KEYS[1]\n" + (_text_of("fenced") if fenced else "") + body
        self.sha1 = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """Return a script from scripts.lua, with the constants that it takes from here."""
    uses, body = _sections()[name]
    body = "".join(_text_of(piece) for piece in uses if piece != "fenced") + body
    constants = {"WAITS_MS": _WAITS_MS, "PLANS_KEPT": PLANS_KEPT, "MOST": MOST}
    given = (f"local {one} = {value}\n" for one, value in constants.items() if one in body)
    return Script("".join(given) + body, fenced="fenced" in uses)


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
            raise self._failed(error) from None

    def call(self, script: Script | str, *arguments: Argument) -> Any:
        """Run a script, or that of scripts.lua with this name; return its result."""
        return self._run(script, arguments)

    def fenced(self, script: Script | str, held: Pairs, opened: Pairs, *arguments: Argument) -> Any:
        """Like `call`, if all leases are held and all entries open; else raises LockLost."""
        leases, entries = chain.from_iterable(held), chain.from_iterable(opened)
        return self._run(script, (len(held), *leases, len(opened), *entries, *arguments))

    def wait(self, key: str, seconds: float) -> None:
        """Wait until something is pushed to the list, and pop it; at most `seconds`."""
        self._send("BLPOP", self._prefix + key, f"{seconds:.3f}")

    def info(self) -> dict[str, str]:
        """The server's INFO, by field."""
        told = cast("dict[str, object]", self._send("INFO"))
        return {name: str(value) for name, value in told.items()}

    def setting(self, name: str) -> str:
        """A server setting, or an empty string if the server hides it."""
        try:
            found = self._followed("CONFIG", "GET", name)
        except redis.ResponseError:
            return ""
        except redis.RedisError as error:
            raise self._failed(error) from None
        pair = cast("list[bytes]", found)
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
        client = self._clients.get(url)
        if client is None:
            client = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
                url,
                protocol=2,
                socket_timeout=PATIENCE_SECONDS,
                socket_connect_timeout=PATIENCE_SECONDS,
                max_connections=_MOST_CONNECTIONS,
                retry=Retry(NoBackoff(), 0),
            )
            self._clients[url] = client
        return client

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

    def _run(self, step: Script | str, arguments: Sequence[Argument]) -> Any:
        known = step if isinstance(step, Script) else script(step)
        rest = (1, self._prefix, *arguments)
        try:
            return self._followed("EVALSHA", known.sha1, *rest)
        except NoScriptError:
            return self._send("EVAL", known.text, *rest)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def _send(self, *command: Argument) -> Any:
        try:
            return self._followed(*command)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def _refused(self, error: redis.RedisError) -> ServerFailed | LockLost:
        words = str(error)
        if isinstance(error, redis.ResponseError) and f"{_LOST} " in words:
            return LockLost.of(words.partition(f"{_LOST} ")[2])
        return self._failed(error)

    def _failed(self, error: Exception) -> ServerFailed:
        words = str(error).rstrip(".") or type(error).__name__
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
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


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
    opened: dict[str, str] = field(default_factory=dict[str, str])


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
        lease = mine.get(name)
        if lease is None:
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
                self._let_go(lease)

    def held(self) -> tuple[tuple[str, str], ...]:
        """The leases that this thread holds, by key and value."""
        return tuple((lease.key, lease.value) for lease in self._mine.leases.values())

    def opened(self, entries: Mapping[str, str]) -> None:
        """From now on, this thread may write only while these entries, by id, are open as well."""
        if self._mine.leases:
            self._mine.opened.update(entries)

    def closed(self, ids: Iterable[str]) -> None:
        """The entries need not be open any longer."""
        for each in ids:
            self._mine.opened.pop(each, None)

    def fenced(self, script: Script | str, *arguments: Argument) -> Any:
        """The script's result; raises LockLost if this thread has lost a lease."""
        opened = tuple(self._mine.opened.items())
        return self._server.fenced(script, self.held(), opened, *arguments)

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
                if again and self._short() is None:
                    continue
                raise
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
                if value:
                    waits = False
                    return _Lease(key, value.decode(), leased_until)
                waits = True
                left = deadline - self._monotonic()
                if left <= 0:
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
        short = self._short()
        if short is not None:
            raise LockLost.of(short)

    def _short(self) -> str | None:
        """The key of a lease of this thread with less than half of its time left; or None."""
        latest = self._monotonic() + self._lease_ms / 2_000
        return next((each.key for each in self._mine.leases.values() if each.until < latest), None)

    def _extend(self, leases: Iterable[_Lease], until: float) -> None:
        with self._lock:
            for lease in leases:
                lease.until = max(lease.until, until)

    def _let_go(self, lease: _Lease) -> None:
        with self._lock:
            self._all.discard(lease)
        with suppress(ServerFailed):  # it expires
            self._server.call("release", lease.key, lease.value)

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
        held = [part for each in leases for part in (each.key, each.value)]
        try:
            kept: list[int] = self._server.call("renew", self._lease_ms, *held)
        except ServerFailed:
            return  # writers are told
        self._extend((leases[at] for at in kept), until)


def _shared(key: str) -> str:
    """The key as all machines use it: each numbers devices in its own way."""
    return f"\0inode {key.split(' ')[-1]}" if key.startswith("\0inode ") else key
