"""Limits of the HTTP server: wrong tokens, connections, the time in which a request has to come.

Who sends all of a request at once is served however many unfinished ones others have: those end.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import deque
from dataclasses import dataclass
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_FAILED: Final = 8
"""The most wrong tokens that one sender may send within `WINDOW_MS`."""

MOST_FAILED_ALL: Final = 100
"""The most wrong tokens from all senders together."""

WINDOW_MS: Final = 60_000
MOST_CONNECTIONS: Final = 1_000
IDLE_SECONDS: Final = 10.0
"""The longest time that an unfinished request may send nothing."""

HEADERS_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 120.0


def ip_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The literal address that a text is, if it is one."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def network_of(address: str) -> str:
    """The unit that limits count: an IPv4 address, or the /64 network of an IPv6 customer."""
    ip = ip_of(address)
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip or address)


@dataclass(eq=False)
class TooMany(Exception):
    """Too many wrong tokens; the next one is looked at in so many `seconds`."""

    seconds: int


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
                raise TooMany(max(1, -(-(times[-most] + WINDOW_MS - now_ms) // 1000)))

    def failed(self, sender: str, now_ms: int) -> None:
        """Count a wrong token, unless there are `MOST_FAILED_ALL` of the last minute already."""
        if len(self._failed) < MOST_FAILED_ALL:
            self._failed.append((now_ms, sender))


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for receiving each request."""

    _timer: asyncio.TimerHandle | None = None
    _began = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process the data; expect the rest of a request that is not complete."""
        super().data_received(data)
        is_unfinished = self.conn.their_state is h11.SEND_BODY or (
            self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        )
        if is_unfinished and not self.transport.is_closing():
            self._expect()
        else:
            self._stop()

    def _expect(self) -> None:
        now = self.loop.time()
        if self._timer is None:
            self._began = now
        else:
            self._timer.cancel()
        most = REQUEST_SECONDS if self.conn.their_state is h11.SEND_BODY else HEADERS_SECONDS
        left = min(IDLE_SECONDS, self._began + most - now)
        self._timer = self.loop.call_later(max(0.0, left), self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.flow.read_paused:  # the server itself does not read
            self._began = self.loop.time()
            self._expect()
            return
        self._stop()
        if self.conn.our_state is h11.IDLE:  # behind an answer, or in a body, nobody could tell
            self.transport.write(_LATE)
        self.transport.close()


_LATE: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 35\r\nConnection: close\r\n\r\nThe request did not come in time.\r\n"
)
