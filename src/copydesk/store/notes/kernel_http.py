"""One request to a SiYuan kernel over HTTP, and what it answers.

What lives here: the connection, the token, the limits, the envelope
`{code, msg, data}`. What must not: which calls there are. Invariants: nothing
is sent to another host than the one configured; an answer is bounded in size
and in time; the token stands in no message.

A code of 0 says only that the kernel answered: whether it did what it was asked
for is for the layer above to see.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import IPPROTO_TCP, TCP_NODELAY, socket
from typing import cast
from urllib.parse import urlsplit

from copydesk.errors import InvalidArgs
from copydesk.store.notes.errors import NotesUnavailable, Unavailable

MOST_BYTES = 64 << 20
"""An answer above is refused."""

_PIECE = 1 << 16
_KEPT = 4
_BOOTING = "not been fully booted"


class KernelRefused(Exception):
    """The kernel answered with a code other than 0, and its words."""

    def __init__(self, path: str, code: int, message: str) -> None:
        super().__init__(f"{path}: {message or code}")
        self.code = code


class AnswerLost(NotesUnavailable):
    """The request was sent, and what became of it is not known."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a kernel listens: the parts of an http(s) URL. `base` has no slash at its end."""

    secure: bool
    host: str
    port: int
    base: str

    @staticmethod
    def of(url: str) -> Address:
        """The address that a URL names; InvalidArgs(`SIYUAN_URL`) for one that names none.

        A name and password, a query or a fragment in it are refused.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgs("SIYUAN_URL", "is no URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgs("SIYUAN_URL", "must be an http or https URL")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidArgs("SIYUAN_URL", "must hold neither a user nor a query")
        secure = parts.scheme == "https"
        chosen = port if port is not None else (443 if secure else 80)
        return Address(secure, parts.hostname, chosen, parts.path.rstrip("/"))


class KernelHttp:
    """Asks a kernel. Safe to use from many threads.

    `timeout_s` is for the connection, for each wait, and for the whole of an
    answer. What only reads goes over connections that are kept; what writes has
    one of its own, so that no write is ever sent twice.
    """

    def __init__(
        self,
        address: Address,
        token: str,
        timeout_s: float = 30.0,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._address = address
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._kept: list[HTTPConnection] = []

    def ask(self, path: str, body: Mapping[str, object], *, reads: bool = False) -> object:
        """The data of the answer. `reads`: the question may be put again.

        Raises KernelRefused for a code other than 0, and NotesUnavailable for
        everything that is no answer of a kernel to us; AnswerLost when the
        request had been sent by then.
        """
        status, answer = self._exchange(path, json.dumps(body).encode(), reads=reads)
        if status == 401:
            raise NotesUnavailable(f"{path}: HTTP 401", "token")
        if status == 403:
            raise NotesUnavailable(f"{path}: HTTP 403", "forbidden")
        if status != 200:
            raise AnswerLost(f"{path}: HTTP {status}")
        return _data(path, answer)

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._kept:
            self._kept.pop().close()

    def _exchange(self, path: str, data: bytes, *, reads: bool) -> tuple[int, bytes]:
        """Send one request; the status and the body of the answer."""
        while reads and self._kept:
            try:
                connection = self._kept.pop()
            except IndexError:  # another thread has it
                break
            with suppress(ConnectionError):  # the kernel had let go of it
                return self._talk(path, connection, data)
        connection = self._connect(path)
        try:
            return self._talk(path, connection, data)
        except ConnectionError as problem:
            raise AnswerLost(f"{path}: {_words(problem)}", "unreachable") from None

    def _connect(self, path: str) -> HTTPConnection:
        address = self._address
        kind = HTTPSConnection if address.secure else HTTPConnection
        connection = kind(address.host, address.port, timeout=self._timeout_s)
        try:
            connection.connect()
        except (OSError, HTTPException) as problem:
            raise NotesUnavailable(f"{path}: {_words(problem)}", "unreachable") from None
        connection.sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        return connection

    def _talk(self, path: str, connection: HTTPConnection, data: bytes) -> tuple[int, bytes]:
        """One exchange on a connection, which is kept or closed then; ConnectionError."""
        until = time.monotonic() + self._timeout_s
        keep = False
        waiting = connection.sock  # the connection may forget it when the answer has begun
        waiting.settimeout(self._timeout_s)
        try:
            connection.request("POST", self._address.base + path, data, self._headers)
            with closing(connection.getresponse()) as response:
                body = self._body(path, waiting, response, until)
                keep = not response.will_close and (response.isclosed() or response.length == 0)
                return response.status, body
        except TimeoutError:
            raise AnswerLost(f"{path}: no answer in time", "timeout") from None
        except ConnectionError:
            raise
        except (OSError, HTTPException) as problem:
            raise AnswerLost(f"{path}: {_words(problem)}", "unreachable") from None
        finally:
            if keep and len(self._kept) < _KEPT:
                self._kept.append(connection)
            else:
                connection.close()

    def _body(self, path: str, waiting: socket, response: HTTPResponse, until: float) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            waiting.settimeout(left)
            piece = response.read1(_PIECE)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > self._most_bytes:
                raise AnswerLost(f"{path}: more than {self._most_bytes} bytes", "too_large")


def _data(path: str, answer: bytes) -> object:
    try:
        value: object = json.loads(answer)
    except (ValueError, RecursionError):
        raise AnswerLost(f"{path}: no JSON") from None
    if not isinstance(value, dict):
        raise AnswerLost(f"{path}: no envelope")
    envelope = cast(dict[str, object], value)
    code = envelope.get("code")
    if type(code) is not int:
        raise AnswerLost(f"{path}: no code")
    message = envelope.get("msg")
    words = message if isinstance(message, str) else ""
    if code != 0 and _BOOTING in words:
        booting: Unavailable = "booting"
        raise NotesUnavailable(f"{path}: {words}", booting)
    if code != 0:
        raise KernelRefused(path, code, words)
    return envelope.get("data")


def _words(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
