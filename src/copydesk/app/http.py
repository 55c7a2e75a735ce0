"""The HTTP server: MCP at `/mcp`, the review page at `/`.

What lives here: `build_app`, which joins the parts, and `run_http`. What must
not: who may speak (`http_guard`), tools. Nothing of the protocol library is
imported with this module.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from copydesk.app.config import Config, ConfigError
from copydesk.app.opening import Opened
from copydesk.errors import ConfigInvalid
from copydesk.tools.report import Lang

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

PATH: Final = "/mcp"
MOST_SESSIONS: Final = 1_000


def live_tokens(opened: Opened) -> dict[str, str]:
    """The same as the configuration has them now.

    While its file cannot be used, those that it had last: every call of theirs is refused.
    """
    with suppress(ConfigInvalid):
        return tokens_of(opened.config)
    return tokens_of(opened.settings)


def tokens_of(config: Config) -> dict[str, str]:
    """The members by their bearer tokens; raises ConfigError when two members share one."""
    found: dict[str, str] = {}
    for name, member in config.members.items():
        if member.token is None:
            continue
        if member.token in found:
            raise ConfigError(f"{config.source}: members.{name}.token is another member's too")
        found[member.token] = name
    return found


def build_app(
    opened: Opened,
    tokens: Mapping[str, str] | None,
    host: str,
    port: int,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    body_bytes: int | None = None,
    allowed_hosts: Sequence[str] = (),
    announce: Callable[[str], None] | None = None,
) -> Starlette:
    """The ASGI application, for a server bound to `host` and `port`.

    `tokens` gives the member of each bearer token; None for those of the configuration, as it is
    now. Without any from the start, everyone is the default member, which only a loopback host
    may offer: else ConfigError.
    `extra_routes` come first and are behind the check of hosts, not of tokens.
    `allowed_hosts` are more names that this server is reached by. A body of
    more than `body_bytes` (64 MiB) is answered 413. `announce` is told each one-time
    token for the page; without it the page is open to the members' own tokens only.
    """
    from mcp.server.streamable_http_manager import (
        StreamableHTTPASGIApp,
        StreamableHTTPSessionManager,
    )
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, Route
    from starlette.types import ASGIApp

    from copydesk.app import http_guard
    from copydesk.app.inbound import MOST_BYTES
    from copydesk.app.mcp_server import build
    from copydesk.app.web.shield import Sealed
    from copydesk.app.web.site import Site

    def known() -> Mapping[str, str]:
        return live_tokens(opened) if tokens is None else tokens

    if not known() and not http_guard.is_loopback(host):
        raise ConfigError(f"a member needs a token before {host} can be served to others")
    most = MOST_BYTES if body_bytes is None else body_bytes
    default = opened.config.member
    server = build(
        opened, lambda ctx: http_guard.member_of(ctx.request, default), toolsets, lang, structured
    )
    manager = StreamableHTTPSessionManager(
        app=server,
        max_request_body_size=most,
        max_sessions=MOST_SESSIONS,
        # The guard in front knows more: addresses, other names, several headers.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    endpoint: ASGIApp = http_guard.bodies(StreamableHTTPASGIApp(manager), most)
    endpoint = http_guard.TokenGuard(endpoint, known)
    site = Site(opened, known, most, announce)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with manager.run(), site.watched():
            yield

    names = (socket.gethostname(), *allowed_hosts)
    return Starlette(
        routes=[*extra_routes, Route(PATH, endpoint), Mount("/", site.app)],
        middleware=[
            Middleware(Sealed),
            Middleware(http_guard.HostGuard, host=host, names=names),
        ],
        lifespan=lifespan,
    )


def run_http(
    opened: Opened,
    *,
    host: str = "127.0.0.1",
    port: int = 8427,
    toolsets: Sequence[str] | None = None,
    lang: Lang | None = None,
    structured: bool = True,
    extra_routes: Sequence[BaseRoute] = (),
    body_bytes: int | None = None,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until a signal ends it, with the members and tokens of the configuration.

    Port 0 takes one that is free; the address is printed. Raises ConfigError.
    """
    config = opened.config
    shown = f"[{host}]" if ":" in host else host
    at: list[int] = []

    def announce(token: str) -> None:
        print(
            f"copydesk: the review page: http://{shown}:{at[0]}/sign-in?token={token}", flush=True
        )

    app = build_app(
        opened,
        None,
        host,
        port,
        config.toolsets if toolsets is None else toolsets,
        config.lang if lang is None else lang,
        structured,
        extra_routes,
        body_bytes=body_bytes,
        allowed_hosts=allowed_hosts,
        announce=announce,
    )
    with _bound(host, port) as listener:
        at.append(listener.getsockname()[1])
        opened.page = f"http://{shown}:{at[0]}"
        print(f"copydesk: {opened.page}{PATH}", flush=True)
        server_of(app, config.trusted_proxies).run(sockets=[listener])


def server_of(
    app: Starlette, trusted_proxies: Sequence[str] = (), *, grace_seconds: int = 5
) -> uvicorn.Server:
    """The server of the application, with its limits; X-Forwarded-For counts of these proxies."""
    import uvicorn

    from copydesk.app.http_limits import Connections

    networks = tuple(ipaddress.ip_network(each) for each in trusted_proxies)

    def trusted(address: str) -> bool:
        return any(ipaddress.ip_address(address) in network for network in networks)

    settings = uvicorn.Config(
        app,
        # uvicorn calls it for each connection; its annotation asks for a class
        http=cast("Any", Connections(trusted)),
        ws="none",
        log_level="warning",
        server_header=False,
        proxy_headers=bool(networks),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_graceful_shutdown=grace_seconds,
    )
    return uvicorn.Server(settings)


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket; raises ConfigError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
