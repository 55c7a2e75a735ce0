"""The server that all machines of a workspace share: Redis, or Valkey.

What lives here: the connection, scripts that are one step each, and what the
server refuses as a refusal of ours. What must not: what is kept there.
Invariants: a command is sent once (a lost answer is never asked for again by
itself, so nothing happens twice); a script that is fenced does nothing when a
lease is not held any more, an open entry is not there any more, or the server is
another one than gave the leases; no refusal tells the password.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from copydesk.desk.records import RecordError
from copydesk.errors import ServerFailed, TurnLost

PATIENCE_SECONDS = 4.0
"""How long an answer is waited for."""

_MOST_CONNECTIONS = 1 << 16
_LOST = "LOST"

Argument = str | bytes | int
Pairs = Sequence[tuple[str, str]]
"""Leases by key, or open entries by id, each with the value that no other one has."""

EPOCH = """
local function epoch()
  local run = redis.call('INFO', 'server'):match('run_id:(%x+)') or ''
  return (redis.call('GET', p .. 'generation') or '') .. '-' .. run:sub(1, 16)
end
"""
"""Which server this is: the generation of its data, and the run of its process.

A flush ends a generation, a restart or a failover to a replica ends a run. A lease
of another epoch is not honored: the server may have forgotten that somebody else
had it since.
"""

_FENCE = f"""
local L = 2 * tonumber(ARGV[1]) + 1
local A = L + 1 + 2 * tonumber(ARGV[L + 1])
local now = L > 1 and epoch()
for i = 2, L, 2 do
  local value = ARGV[i + 1]
  if redis.call('GET', p .. 'lease:' .. ARGV[i]) ~= value or value:match('[^:]*$') ~= now then
    return redis.error_reply('{_LOST} ' .. ARGV[i])
  end
end
for i = L + 2, A, 2 do
  local mark, state, path =
    unpack(redis.call('HMGET', p .. 'e:' .. ARGV[i], 'mark', 'state', 'path'))
  if mark ~= ARGV[i + 1] or state ~= 'open' then
    return redis.error_reply('{_LOST} ' .. (path or ARGV[2] or ''))
  end
end
"""
"""Leases and open entries stand before the other arguments; the next one is ARGV[A + 1]."""


@dataclass(frozen=True, slots=True)
class Script:
    """A step that the server makes as one, in Lua; `p` is what all keys begin with.

    `fenced`: it is given leases and open entries, and refused when one of them is gone.
    """

    body: str
    fenced: bool = False
    text: str = field(init=False)
    sha1: str = field(init=False)

    def __post_init__(self) -> None:
        text = "local p = KEYS[1]\n" + (EPOCH + _FENCE if self.fenced else "") + self.body
        object.__setattr__(self, "text", text)
        name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha1", name)


class Server:
    """The keys of one workspace on one server. Safe to use from many threads.

    `url` as `redis://`, `rediss://` or `unix://` has it; `name` is that of the
    workspace, the same on all machines. Nothing is sent before the first call.
    All methods raise ServerFailed.
    """

    def __init__(self, url: str, name: str) -> None:
        self.address = address_of(url)
        self._prefix = f"copydesk:{{{name}}}:"  # in braces: one slot for all keys
        try:
            self._client = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
                url,
                protocol=2,
                socket_timeout=PATIENCE_SECONDS,
                socket_connect_timeout=PATIENCE_SECONDS,
                max_connections=_MOST_CONNECTIONS,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise self._failed(error) from None
        self._execute: Callable[..., Any] = self._client.execute_command  # pyright: ignore[reportUnknownMemberType]  # of replies

    def call(self, script: Script, *arguments: Argument) -> Any:
        """What the script gives."""
        return self._run(script, arguments)

    def fenced(self, script: Script, held: Pairs, opened: Pairs, *arguments: Argument) -> Any:
        """The same, if all leases are held and all entries open; else raises TurnLost."""
        leases, entries = chain.from_iterable(held), chain.from_iterable(opened)
        return self._run(script, (len(held), *leases, len(opened), *entries, *arguments))

    def wait(self, key: str, seconds: float) -> None:
        """Wait until something is put into the list, and take it; at most so long."""
        self._send("BLPOP", self._prefix + key, f"{seconds:.3f}")

    def info(self) -> dict[str, str]:
        """What the server tells of itself, by name."""
        told = cast("dict[str, object]", self._send("INFO"))
        return {name: str(value) for name, value in told.items()}

    def setting(self, name: str) -> str:
        """A setting of the server; empty when it does not tell."""
        try:
            found = self._execute("CONFIG", "GET", name)
        except redis.ResponseError:
            return ""
        except redis.RedisError as error:
            raise self._failed(error) from None
        pair = cast("list[bytes]", found)
        return pair[1].decode() if pair else ""

    @contextmanager
    def decoding(self) -> Generator[None, None, None]:
        """Records that the server gave are decoded within: one that cannot be read is refused."""
        try:
            yield
        except RecordError as error:
            raise ServerFailed("read what Redis keeps", f"{self.address}: {error}") from error

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _run(self, script: Script, arguments: Sequence[Argument]) -> Any:
        rest = (1, self._prefix, *arguments)
        try:
            return self._execute("EVALSHA", script.sha1, *rest)
        except NoScriptError:
            return self._send("EVAL", script.text, *rest)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def _send(self, *command: Argument) -> Any:
        try:
            return self._execute(*command)
        except redis.RedisError as error:
            raise self._refused(error) from None

    def _refused(self, error: redis.RedisError) -> ServerFailed | TurnLost:
        words = str(error)
        if isinstance(error, redis.ResponseError) and f"{_LOST} " in words:
            return TurnLost.of(words.partition(f"{_LOST} ")[2])
        return self._failed(error)

    def _failed(self, error: Exception) -> ServerFailed:
        words = str(error).rstrip(".") or type(error).__name__
        return ServerFailed("use Redis", f"{self.address}: {words}")


def address_of(url: str) -> str:
    """The address for showing: without user, password and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
