"""The HTTP server: MCP at `/mcp`, the review page at `/`, and the checks in front of both.

A request with a foreign Host or Origin is refused before any of it is read. A token is compared in
constant time and never logged. Who sends all of a request at once is served however many unfinished
ones others have: those end.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import anyio.to_thread
import h11
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from copydesk.app.config import LONG_TOKEN, Config, ConfigError
from copydesk.app.mcp.messages import MOST_MESSAGE_BYTES, ErrorReply, parse_message
from copydesk.app.mcp.server import build
from copydesk.app.web.app import ReviewApp
from copydesk.app.web.security import Guesses, SecurityHeaders, TooMany, digest, owner_of
from copydesk.app.workspace import OpenWorkspace
from copydesk.errors import ConfigInvalid
from copydesk.tools.report import Lang

PATH: Final = "/mcp"
MOST_SESSIONS: Final = 1_000
MOST_CONNECTIONS: Final = 1_000
IDLE_SECONDS: Final = 10.0
"""The longest time that an unfinished request may send nothing."""

HEADERS_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.5
"""The interval for checking the token of a running request again."""

LARGE_BYTES: Final = 1 << 20
"""Bodies of at least this size are parsed in a thread."""

_log = logging.getLogger("copydesk")


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


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` can be reached from this machine only."""
    address = ip_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


class HostGuard:
    """Refuses requests and Origins with host names other than `names` (DNS rebinding).

    A literal address cannot be rebound, so loopback addresses are allowed, and all addresses if the
    server is bound to more. A request that ends before all of it has come is logged, in a line.
    """

    def __init__(self, app: ASGIApp, host: str, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in ("localhost", host, *names))
        self._open = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        # no stream can be resumed: its answers have no ids, and the SDK fails on one
        kept = [pair for pair in scope["headers"] if pair[0] != b"last-event-id"]
        scope = {**scope, "headers": kept}
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._ours(f"//{hosts[0]}"):
            await PlainTextResponse("Invalid Host header", 421)(scope, receive, send)
        elif not all(self._ours(origin) for origin in origins):
            await PlainTextResponse("Invalid Origin header", 403)(scope, receive, send)
        else:
            try:
                await self._app(scope, receive, send)
            except* ClientDisconnect:  # in a group if a task group stood between
                request = ascii(f"{scope['method']} {scope['path']}"[:200])
                _log.warning("A request ended before all of it had come: %s", request)

    def _ours(self, url: str) -> bool:
        try:
            name = urlsplit(url).hostname
        except ValueError:
            return False
        address = ip_of(name or "")
        return name in self._names or (address is not None and (self._open or address.is_loopback))


def access_of(token: str, tokens: Mapping[str, str]) -> AccessToken | None:
    """What the bearer of a token may do; None for a wrong one."""
    given = digest(token)
    member = owner_of(given, tokens)
    return None if member is None else AccessToken(token=given.hex(), client_id=member, scopes=[])


class TokenGuard:
    """Lets bearers of valid tokens through; `member_of` returns the member.

    Lets everyone through while no token was ever configured. A request ends when its token does.
    """

    def __init__(self, app: ASGIApp, tokens: Callable[[], Mapping[str, str]]) -> None:
        self._open, self._tokens = app, tokens
        self._guarded = RequireAuthMiddleware(self._while_valid, [])
        self._had_tokens = False
        self._guesses = Guesses()
        self._right: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._had_tokens = self._had_tokens or bool(self._tokens())
        if not self._had_tokens:
            await self._open(scope, receive, send)
            return
        try:
            access = self._bearer(scope)
        except TooMany as wait:
            words = f"Too many wrong tokens: try again in {wait.seconds} s"
            later = PlainTextResponse(words, 429, {"Retry-After": str(wait.seconds)})
            await later(scope, receive, send)
        else:
            user = {} if access is None else {"user": AuthenticatedUser(access)}
            await self._guarded({**scope, **user}, receive, send)

    def _bearer(self, scope: Scope) -> AccessToken | None:
        """Whose token it is; TooMany for who guesses. Right tokens, long or known, are exempt."""
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        # behind a trusted proxy, the address that it reports
        client, access = scope.get("client"), access_of(token, self._tokens())
        address, now_ms = network_of(client[0]) if client else "", time.monotonic_ns() // 1_000_000
        if access is None or (access.token not in self._right and len(token) < LONG_TOKEN):
            self._guesses.check(address, now_ms)
        if access is None:
            self._guesses.failed(address, now_ms)
        else:
            self._right.add(access.token)
        return access

    async def _while_valid(self, scope: Scope, receive: Receive, send: Send) -> None:
        given: AccessToken = scope["user"].access_token

        async def watch(own: anyio.CancelScope) -> None:
            # as long as the token is the member's
            while owner_of(bytes.fromhex(given.token), self._tokens()) == given.client_id:
                await anyio.sleep(LOOK_SECONDS)
            own.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch, group.cancel_scope)
            await self._open(scope, receive, send)
            group.cancel_scope.cancel()


def member_of(request: object, default: str) -> str:
    """The member that sent an HTTP request."""
    user = request.scope.get("user") if isinstance(request, Request) else None
    token = getattr(user, "access_token", None)
    return token.client_id if isinstance(token, AccessToken) else default


@dataclass
class MessageRepair:
    """Repairs or answers the messages that the protocol library cannot parse."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        is_large = len(body) >= LARGE_BYTES
        parsed = (
            await anyio.to_thread.run_sync(parse_message, body) if is_large else parse_message(body)
        )
        if isinstance(parsed, ErrorReply):
            await Response(parsed.reply, 400, media_type="application/json")(scope, receive, send)
            return
        replayed: list[Message] = [
            {"type": "http.request", "body": parsed.body, "more_body": False}
        ]

        async def replay() -> Message:
            return replayed.pop() if replayed else await receive()

        await self.app({**scope, **(parsed.repaired or {})}, replay, send)


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


def live_tokens(opened: OpenWorkspace) -> dict[str, str]:
    """The current members by bearer token; the last valid ones while the file is invalid."""
    try:
        return tokens_of(opened.config)
    except ConfigInvalid:
        return tokens_of(opened.settings)


def tokens_of(config: Config) -> dict[str, str]:
    """The members by bearer token; raises ConfigError if two members share one."""
    tokens: dict[str, str] = {}
    for name, member in config.members.items():
        if member.token is not None and tokens.setdefault(member.token, name) != name:
            raise ConfigError(f"{config.source}: members.{name}.token is another member's too")
    return tokens


def build_app(
    opened: OpenWorkspace,
    tokens: Mapping[str, str] | None,
    host: str,
    port: int,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
    *,
    body_bytes: int = MOST_MESSAGE_BYTES,
    announce: Callable[[str], None] | None = None,
) -> Starlette:
    """The ASGI application for a server bound to `host` and `port`.

    `tokens` maps bearer tokens to members; None means those of the current configuration. If there
    are none at the start, everyone is the default member, which is allowed on a loopback host only:
    otherwise ConfigError. A body of more than `body_bytes` gets status 413. `announce` receives
    each one-time token for the page; without it, only the members' own tokens open the page.
    """
    known: Callable[[], Mapping[str, str]] = (
        partial(live_tokens, opened) if tokens is None else lambda: tokens
    )
    if not known() and not is_loopback(host):
        how = "name its token below [members.NAME] in copydesk.toml"
        raise ConfigError(f"a member needs a token before {host} can be served to others: {how}")
    default = opened.config.member
    server = build(opened, lambda ctx: member_of(ctx.request, default), toolsets, lang, structured)
    manager = StreamableHTTPSessionManager(
        app=server,
        max_request_body_size=body_bytes,
        max_sessions=MOST_SESSIONS,
        # The guard in front is stricter: addresses, other names, several headers.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    repaired = MessageRepair(StreamableHTTPASGIApp(manager))
    endpoint = TokenGuard(RequestBodyLimitMiddleware(repaired, body_bytes), known)
    site = ReviewApp(opened, known, body_bytes, announce)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with manager.run(), site.watched():
            yield

    return Starlette(
        routes=[Route(PATH, endpoint), Mount("/", site.app)],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(HostGuard, host=host, names=(socket.gethostname(),)),
        ],
        lifespan=lifespan,
    )


def run_http(
    opened: OpenWorkspace,
    host: str,
    port: int,
    on_address: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal, on a free port for 0, and print the address; raises ConfigError.

    `on_address` is called with each address that signs a person in.
    """
    config = opened.config
    with bound(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        page = opened.page = f"http://{shown}:{listener.getsockname()[1]}"

        def announce(token: str) -> None:
            print(f"copydesk: the review page: {page}/sign-in?token={token}", flush=True)
            on_address(f"{page}/sign-in?token={token}")

        app = build_app(
            *(opened, None, host, port, config.toolsets, config.lang, config.structured),
            announce=announce,
        )
        print(f"copydesk: {page}{PATH}", flush=True)
        server_of(app, config.trusted_proxies).run(sockets=[listener])


def server_of(
    app: Starlette,
    trusted_proxies: Sequence[str] = (),
    *,
    grace_seconds: int = 5,
    most_connections: int = MOST_CONNECTIONS,
) -> uvicorn.Server:
    """The application's server with its limits; X-Forwarded-For of these proxies is trusted."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            limit_concurrency=most_connections,
            timeout_graceful_shutdown=grace_seconds,
        )
    )


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; raises ConfigError if the address is not available."""
    listener = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET,
        socket.SOCK_STREAM,
        # asyncio sets TCP_NODELAY only if it knows the protocol; without it answers wait 40 ms
        socket.IPPROTO_TCP,
    )
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
