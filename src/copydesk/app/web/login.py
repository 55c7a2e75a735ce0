"""Signing in and out: the page, its form, and the session cookie.

Invariant: the cookie is out of reach of scripts and of other sites.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from copydesk.app.mcp.limits import TooMany
from copydesk.app.web.markup import address, render
from copydesk.app.web.security import BadForm, form_of
from copydesk.app.web.sessions import NameRefused, Session, SessionStore


def address_of(path: str, query: str = "") -> str:
    """The address of the sign-in page that redirects to that page afterwards."""
    onward = f"{path}?{query}" if query else path
    return address("sign-in", next=onward if onward != "/" else None)


def within(onward: str) -> str:
    r"""The address, if every browser takes it for one of this server (no `\`, breaks); else `/`."""
    is_ours = onward.startswith("/") and not onward.startswith("//")
    return onward if is_ours and onward.isprintable() and "\\" not in onward else "/"


def page(token: str, name: str, words: str, onward: str, inside: bool) -> Markup:
    """The page; with a `token` it asks for a name only. `words` say what was wrong."""
    return render(
        "login.html",
        token=token,
        name=name,
        words=words,
        onward=onward,
        inside=within(onward) if inside else "",
    )


FAULTS: Final = {
    "taken": "This is a member's name, or looks like one. Sign in with the member's token, or"
    " choose another name.",
    "mixed": "This name mixes letters of several alphabets. Choose a name in one alphabet.",
    "invisible": "This name has characters that cannot be seen, or that stand for others. Choose"
    " a name of plain letters.",
}
_MOST_BYTES: Final = 16 << 10
"""The limit of the sign-in form, which anybody may send."""


class Login:
    """Sign-in and sign-out; `taken` are names that nobody else may choose."""

    def __init__(self, sessions: SessionStore, taken: Callable[[], Collection[str]]) -> None:
        self.sessions = sessions
        self._taken = taken

    def routes(self) -> list[Route]:
        """The routes of sign-in and sign-out."""
        return [
            Route("/sign-in", self._door, methods=["GET"]),
            Route("/sign-in", self._enter, methods=["POST"]),
            Route("/sign-out", self._leave, methods=["POST"]),
        ]

    def session(self, request: Request) -> Session | None:
        """The session of the request's cookie."""
        return self.sessions.session(request.cookies.get(_cookie(request), ""))

    async def _door(self, request: Request) -> Response:
        return self._page(request, "")

    async def _enter(self, request: Request) -> Response:
        try:
            form = await form_of(request, _MOST_BYTES)
        except BadForm as bad:
            return PlainTextResponse(str(bad), bad.status)
        address = request.client.host if request.client else ""
        name, token = one_of(form, "name"), one_of(form, "token").strip()
        try:
            entered = self.sessions.enter(token, name, address, self._taken())
        except TooMany as wait:
            words = f"Too many wrong tokens. Try again in {wait.seconds} s."
            response = self._page(request, words, status=429)
            response.headers["Retry-After"] = str(wait.seconds)
            return response
        except NameRefused as refused:
            return self._page(request, FAULTS[refused.fault], token, status=403)
        if entered is None:
            words = "This token is invalid or was already used. The terminal shows the current one."
            return self._page(request, words, status=403)
        response = RedirectResponse(within(one_of(form, "next")), 303)
        response.set_cookie(
            _cookie(request),
            entered[0],
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _leave(self, request: Request) -> Response:
        session = self.session(request)
        with suppress(BadForm):
            form = await form_of(request)
            if session is not None and session.is_form(one_of(form, "csrf")):
                self.sessions.leave(request.cookies.get(_cookie(request), ""))
                response = RedirectResponse("/sign-in", 303)
                response.delete_cookie(_cookie(request), httponly=True, samesite="strict")
                return response
        return forged()

    def _page(self, request: Request, words: str, token: str = "", status: int = 200) -> Response:
        query = request.query_params
        inside = self.session(request) is not None
        made = page(token or query.get("token", ""), _user(), words, query.get("next", ""), inside)
        return HTMLResponse(made.encode("utf-8", "backslashreplace"), status)


def one_of(form: Mapping[str, list[str]], name: str) -> str:
    """The first value of a field; empty where there is none."""
    return form.get(name, [""])[0]


def forged() -> Response:
    """The answer to a form without the token of the session."""
    return PlainTextResponse("This form is not of your session. Load the page anew.", 403)


def _cookie(request: Request) -> str:
    """The cookie's name: cookies ignore ports, so each server on a machine needs its own."""
    return f"copydesk-{request.url.port or 80}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "reviewer"
