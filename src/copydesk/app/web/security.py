"""Response headers, the same-origin check, and form parsing of the review page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

import anyio.to_thread
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none, a browser sends no origin with a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_FIELDS: Final = 5_000
MOST_FORM: Final = 16 << 20
"""Bytes; every form of the page is smaller."""

MOST_PATH: Final = 2_000
_AT_ONCE: Final = 1 << 16
"""A form of more bytes is parsed in a thread."""

_FORM: Final = "application/x-www-form-urlencoded"


class BadForm(Exception):
    """The body is not a form that the page sends."""

    status = 400


class TooLarge(BadForm):
    """The body is larger than any form of the page."""

    status = 413


class SecurityHeaders:
    """Middleware that adds the security headers to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, sealed)


class RequestGuard:
    """Middleware that refuses other origins, long addresses and large bodies."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = RequestBodyLimitMiddleware(app, most_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if len(scope["path"]) > MOST_PATH:
                await PlainTextResponse("This address is too long.", 414)(scope, receive, send)
                return
            if scope["method"] not in ("GET", "HEAD") and not _is_ours(scope):
                refused = PlainTextResponse("This form was not sent by the page itself.", 403)
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def form_of(request: Request, most_bytes: int = MOST_FORM) -> dict[str, list[str]]:
    """The fields of a form, with LF line ends as browsers send CRLF; raises BadForm."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise BadForm("not a form")
    body = await request.body()
    if len(body) > most_bytes:
        raise TooLarge("more than a form of the page can hold")
    if len(body) < _AT_ONCE:
        return _fields(body)
    return await anyio.to_thread.run_sync(_fields, body)


def _fields(body: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise BadForm("not a form in UTF-8, or too many fields") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return found


def _is_ours(scope: Scope) -> bool:
    """Whether the request comes from a page of this origin, as far as the browser says.

    Another port of the same machine is another origin, though not another site: cookies
    would be sent from there.
    """
    headers = Headers(scope=scope)
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin == f"{scope['scheme']}://{headers.get('host', '')}"
