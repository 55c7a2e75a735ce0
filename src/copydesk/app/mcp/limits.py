"""Limits of the HTTP server: wrong tokens, event streams, connections, unfinished requests.

Nobody gets more than a share, by address and in total; a client that sends its request at once is
served however many unfinished requests others have.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_FAILED: Final = 8
"""The most wrong tokens that one sender may send within `WINDOW_MS`."""

MOST_FAILED_ALL: Final = 100
"""The most wrong tokens from all senders together."""

WINDOW_MS: Final = 60_000
MOST_STREAMS: Final = 32
"""The most open event streams of one member, or of one address without tokens."""

MOST_STREAMS_ALL: Final = 100
MOST_CONNECTIONS: Final = 256
"""The most connections from one address, unless it is a trusted proxy."""

MOST_CONNECTIONS_ALL: Final = 1_000
MOST_HALF_SENT: Final = 32
"""The most unfinished requests of one address; then the oldest is closed."""

MOST_HALF_SENT_ALL: Final = 256
IDLE_SECONDS: Final = 10.0
"""The longest time that an unfinished request may send nothing."""

HEADERS_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 120.0
RETRY_SECONDS: Final = 5


def network_of(address: str) -> str:
    """The unit that limits count: an IPv4 address, or the /64 network of an IPv6 customer."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


class TooMany(Exception):
    """A limit is reached; `status` and `seconds` are for the response and its Retry-After."""

    def __init__(self, status: int, seconds: int) -> None:
        super().__init__(status, seconds)
        self.status, self.seconds = status, seconds


class Guesses:
    """Counts the wrong tokens of the last minute, by sender and in all. Not thread-safe."""

    def __init__(self) -> None:
        self._failed: deque[tuple[int, str]] = deque()

    def check(self, sender: str, now_ms: int) -> None:
        """Raise TooMany if the sender has to wait before its next token is checked."""
        while self._failed and now_ms - self._failed[0][0] >= WINDOW_MS:
            self._failed.popleft()
        own = [at for at, whose in self._failed if whose == sender]
        for times, most in (([at for at, _ in self._failed], MOST_FAILED_ALL), (own, MOST_FAILED)):
            if len(times) >= most:
                raise TooMany(429, max(1, -(-(times[-most] + WINDOW_MS - now_ms) // 1000)))

    def failed(self, sender: str, now_ms: int) -> None:
        """Count a wrong token, unless there are `MOST_FAILED_ALL` of the last minute already."""
        if len(self._failed) < MOST_FAILED_ALL:
            self._failed.append((now_ms, sender))


class Streams:
    """Counts the open event streams of each holder."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_of(self, holder: str) -> Generator[None]:
        """Count one more stream while this context is open; raises TooMany."""
        self.check(holder)
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            self._open += Counter()  # forget holders without any

    def check(self, holder: str) -> None:
        """Raise TooMany if another stream would exceed a limit."""
        if self._open[holder] >= MOST_STREAMS:
            raise TooMany(429, RETRY_SECONDS)
        if self._open.total() >= MOST_STREAMS_ALL:
            raise TooMany(503, RETRY_SECONDS)


class Connections:
    """Counts the connections of one server, and creates their protocols."""

    def __init__(self, trusted: Callable[[str], bool] = lambda address: False) -> None:
        self._trusted = trusted
        self._of: Counter[str] = Counter()
        self._half_sent: OrderedDict[LimitedProtocol, str] = OrderedDict()

    def __call__(self, *args: Any, **named: Any) -> LimitedProtocol:
        """Create a protocol for uvicorn."""
        made = LimitedProtocol(*args, **named)
        made.limits = self
        return made

    def enter(self, address: str) -> bool:
        """Count a connection; False if it exceeds a limit."""
        key = network_of(address)
        is_over_share = self._of[key] >= MOST_CONNECTIONS and not self._trusted(address)
        if is_over_share or self._of.total() >= MOST_CONNECTIONS_ALL:
            return False
        self._of[key] += 1
        return True

    def leave(self, address: str) -> None:
        """Count a connection as ended."""
        self._of[network_of(address)] -= 1
        self._of += Counter()

    def half_sent(self, one: LimitedProtocol, address: str) -> None:
        """Count a request as unfinished; close the oldest if there are too many."""
        if one in self._half_sent:
            return
        key = network_of(address)
        self._half_sent[one] = key
        own = [each for each, whose in self._half_sent.items() if whose == key]
        if len(own) > MOST_HALF_SENT and not self._trusted(address):
            own[0].give_up()
        elif len(self._half_sent) > MOST_HALF_SENT_ALL:
            next(iter(self._half_sent)).give_up()

    def sent(self, one: LimitedProtocol) -> None:
        """Count a request as finished."""
        self._half_sent.pop(one, None)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for receiving each request."""

    limits: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or answer that there are too many."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._counted = self.limits.enter(self._address)
        if self._counted:
            self._await_request()
        else:
            self._refuse(503, "Service Unavailable", "Too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's share of the limits."""
        self._come()
        if self._counted:
            self._counted = False
            self.limits.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process the data, and check whether the request is complete."""
        if not self._counted:
            return
        super().data_received(data)
        is_unfinished = self.conn.their_state is h11.SEND_BODY or (
            self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        )
        if is_unfinished and not self.transport.is_closing():
            self._await_request()
        else:
            self._come()

    def give_up(self) -> None:
        """Close the connection: the request did not arrive in time."""
        self._come()
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        if cycle is None or cycle.response_complete:
            self._refuse(408, "Request Timeout", "The request did not come in time")
        else:
            self.transport.close()

    def _await_request(self) -> None:
        now = self.loop.time()
        if self._timer is None:
            self._began = now
            self.limits.half_sent(self, self._address)
        else:
            self._timer.cancel()
        in_body = self.conn.their_state is h11.SEND_BODY
        most = REQUEST_SECONDS if in_body else HEADERS_SECONDS
        left = min(IDLE_SECONDS, self._began + most - now)
        self._timer = self.loop.call_later(max(0.0, left), self._late)

    def _late(self) -> None:
        if self.flow.read_paused:  # the server itself does not read
            self._began = self.loop.time()
            self._await_request()
        else:
            self.give_up()

    def _come(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.limits.sent(self)

    def _refuse(self, status: int, reason: str, words: str) -> None:
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(words)}\r\nRetry-After: {RETRY_SECONDS}\r\n"
            "Connection: close\r\n\r\n"
        )
        self.transport.write((head + words).encode())
        self.transport.close()
