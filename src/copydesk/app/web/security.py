"""Sign-in, sessions, limits for who guesses tokens, and protection of pages and forms.

Invariants: a one-time token opens one session; tokens and session ids are compared by digest, in
constant time, and never logged; scripts and other sites cannot read the cookie; the name that a
person chooses is in one alphabet and has no hidden characters.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import re
import secrets
import unicodedata
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Literal, TypeVar
from urllib.parse import parse_qs

import anyio.to_thread
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.app.config import LONG_TOKEN
from copydesk.app.terminal import BESIDE_OTHERS, HIDDEN
from copydesk.app.web.markup import LANG, address, phrase, render, translated
from copydesk.desk.backends.api import PlanVersion
from copydesk.desk.review import Seen, State
from copydesk.tools.messages import Lang

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # otherwise a browser sends no origin with a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_FIELDS: Final = 5_000
MOST_FORM: Final = 16 << 20
"""In bytes; every form of the page is smaller."""

MOST_PATH: Final = 2_000
MOST_FAILED: Final = 8
"""The most wrong tokens that one sender may send within `WINDOW_MS`."""

MOST_FAILED_ALL: Final = 100
"""The most wrong tokens from all senders together."""

WINDOW_MS: Final = 60_000


@dataclass(eq=False)
class BadForm(Exception):
    """The body is not a form of the page; `status` is that of the answer."""

    words: str
    status: int = 400


def error_page(words: str, status: int) -> Response:
    """A page that says what is wrong, with a way on."""
    page = render("error.html", title=phrase("This did not work"), words=translated(words))
    return HTMLResponse(page.encode("utf-8", "backslashreplace"), status)


@dataclass
class SecurityHeaders:
    """Middleware that adds the security headers to every response, errors included."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, sealed)


class RequestGuard:
    """Middleware that refuses other origins, long addresses and large bodies.

    It chooses the language of the answer, which a session may choose otherwise.
    """

    def __init__(self, app: ASGIApp, most_bytes: int, lang: Callable[[], Lang]) -> None:
        self._app = RequestBodyLimitMiddleware(app, most_bytes)
        self._lang = lang

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self._app
        if scope["type"] == "http":
            LANG.set(_language(Headers(scope=scope), self._lang()))
            if len(scope["path"]) > MOST_PATH:
                app = error_page("This address is too long.", 414)
            elif scope["method"] not in ("GET", "HEAD") and not _is_ours(scope):
                app = error_page("This form was not sent by the page itself.", 403)
        await app(scope, receive, send)


def _language(headers: Headers, configured: Lang) -> Lang:
    """Chinese if it is configured, or if the browser names it before English."""
    named = re.findall(r"\b(en|zh)\b", headers.get("accept-language", "").lower())
    return "zh" if "zh" in (configured, *named[:1]) else "en"


async def form_of(request: Request, most_bytes: int = MOST_FORM) -> dict[str, list[str]]:
    """The fields of a form, with LF line ends as browsers send CRLF; raises BadForm."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadForm("This is not a form of the page.")
    body = await request.body()
    if len(body) > most_bytes:
        raise BadForm("This is more than a form of the page can hold.", 413)
    if len(body) < 1 << 16:  # who signs in waits for no thread
        return _fields(body)
    return await anyio.to_thread.run_sync(_fields, body)


def _fields(body: bytes) -> dict[str, list[str]]:
    try:
        fields = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise BadForm("This is not a form in UTF-8, or has too many fields.") from None
    return {
        name: [value.replace("\r\n", "\n") for value in values] for name, values in fields.items()
    }


def _is_ours(scope: Scope) -> bool:
    """Whether the request comes from a page of this origin, as far as the browser says.

    Another port of the same machine is another origin but not another site: cookies would be sent
    from there.
    """
    headers = Headers(scope=scope)
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin == f"{scope['scheme']}://{headers.get('host', '')}"


Fault = Literal["invisible", "mixed", "taken"]

_LOOK_ALIKES: Final = str.maketrans(
    "\u0430\u0431\u0432\u0433\u0435\u0456\u043a\u043c\u043d\u043e\u04bb\u043f\u0440\u0455\u0441\u0442"
    "\u0443\u0445\u044c\u0458\u0461\u04cf\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    "\u0570\u0578\u057d\u0585\u0131\u0251\u0261"
    "1|!0$5i",  # after letters of Cyrillic, Greek, Armenian, and Latin that is not ASCII
    "abbreikmhohnpsct" + "yxbjwldqw" + "abyenikuvoptuxw" + "hnuo" + "lag" + "lllossl",
)


def fault_of(name: str, members: Iterable[str]) -> Fault | None:
    """The reason to refuse a sign-in name, or None."""
    stands_for_others = unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFC", name)
    if HIDDEN.search(name) or not name.isprintable() or stands_for_others:
        return "invisible"
    words = {unicodedata.name(each, "").partition(" ")[0] for each in name if each.isalpha()}
    if len(words - BESIDE_OTHERS) > 1:
        return "mixed"
    skeleton = _skeleton(name)
    return "taken" if any(_skeleton(member) == skeleton for member in members) else None


def _skeleton(name: str) -> str:
    """The name as the eye reads it: without case and accents, one letter for its look-alikes."""
    plain = unicodedata.normalize("NFKD", name.casefold()).translate(_LOOK_ALIKES)
    letters = "".join(each for each in plain if each.isalnum())
    return letters.replace("rn", "m").replace("vv", "w").replace("i", "l") or name


SESSION_MS: Final = 12 * 3_600_000
"""A session expires when it has not been used for this time."""

MOST_SESSIONS: Final = 200
MOST_NAME: Final = 60
_MOST_NOTICES: Final = 5
_MOST_SEEN: Final = 10_000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Remembered(OrderedDict[_Key, _Value]):
    """A mapping of the last keys that were set. Safe to use from many threads."""

    def __init__(self, most: int = _MOST_SEEN) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            with suppress(KeyError):  # another thread did it
                self.popitem(last=False)


Notice = Mapping[str, object]
"""A message shown once, on the next page: its `kind`, which is good, bad or plain, its `words`.

`undo` is the address of the form that takes back what it says, of the plans `seen`.
"""


@dataclass(slots=True)
class Session:
    """One browser of one person; a `fixed` one is a member's and ends with `token` (a digest)."""

    name: str
    fixed: bool
    csrf: str
    used_ms: int
    token: bytes = b""
    lang: Lang | None = None
    """What the person chose on the page."""
    notices: list[Notice] = field(default_factory=list[Notice])
    viewed: Remembered[tuple[PlanVersion, State], None] = field(
        default_factory=lambda: Remembered()
    )
    """The plans that were looked at, each with its state in the file."""
    seen: Remembered[Seen, None] = field(default_factory=lambda: Remembered())
    """The plans that were shown in full."""
    parts: Remembered[tuple[Seen, int], frozenset[int]] = field(
        default_factory=lambda: Remembered()
    )
    """The parts that were shown of a plan with so much context."""
    refused: tuple[Mapping[str, str], str] = field(default_factory=lambda: ({}, ""))
    """Of the last undo of changes: why by hunk, and the hunks that could still be undone."""

    def show_part(self, seen: Seen, context: int, part: int, count: int) -> int:
        """Record that one of `count` parts was shown; return the first unseen part, or 0."""
        shown = self.parts.get((seen, context), frozenset()) | {min(part, count)}
        self.parts[seen, context] = shown
        unseen = next((each for each in range(1, count + 1) if each not in shown), 0)
        if not unseen:
            self.seen[seen] = None
        return unseen

    def notify(self, kind: str, words: str, undo: str = "", *seen: Seen) -> None:
        """Add a notice to the next page."""
        self.notices.append({"kind": kind, "words": words, "undo": undo, "seen": seen})
        del self.notices[:-_MOST_NOTICES]

    def take_notices(self) -> tuple[Notice, ...]:
        """Return and clear the pending notices."""
        notices, self.notices = self.notices, []
        return tuple(notices)

    def is_form(self, csrf: str) -> bool:
        """Whether the CSRF token belongs to this session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


@dataclass(eq=False)
class NameRefused(Exception):
    """A one-time token came with a misleading name; the token stays valid."""

    fault: Fault


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


class SessionStore:
    """The sessions of one server. Safe to use from many threads.

    `reviewers` returns the current names by lasting token; `clock` is in milliseconds since 1970.
    `announce` receives each new one-time token; without it there are none.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        reviewers: Callable[[], Mapping[str, str]],
        announce: Callable[[str], None] | None,
    ) -> None:
        self._clock = clock
        self._reviewers = reviewers
        self._announce = announce
        self._once = b""
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._guesses = Guesses()
        self._lock = Lock()

    def new_token(self) -> None:
        """Announce a one-time token that replaces the previous one."""
        if self._announce is None:
            return
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._once = digest(token)
        self._announce(token)

    def enter(
        self, token: str, name: str, cookie: str, taken: Collection[str] = ()
    ) -> tuple[str, Session] | None:
        """Open a session for the bearer of a token; return its id and the session.

        Returns None for a wrong token, which counts for the browser's `cookie` and the name. A
        one-time token is used up, and the next one is announced; its bearer chooses the `name`,
        which must not look like one of those `taken`. Raises NameRefused, and TooMany for a wrong
        token, or a short one while too many wrong ones come from everybody.
        """
        name = unicodedata.normalize("NFC", name.strip()[:MOST_NAME].strip())
        now_ms = self._clock()
        given = digest(token)
        with self._lock:
            known = owner_of(given, self._reviewers())
            is_once = bool(self._once) and hmac.compare_digest(self._once, given)
            if len(token) < LONG_TOKEN:  # it could be guessed by who drops the cookie at each try
                self._guesses.check("", now_ms)
            if known is None and not is_once:
                sender = digest(f"{cookie} {name}").hex()
                try:
                    self._guesses.check(sender, now_ms)
                finally:
                    self._guesses.failed(sender, now_ms)
                return None
            csrf = secrets.token_urlsafe(24)
            if known is None:
                session = Session(name or "reviewer", False, csrf, now_ms)
                if fault := fault_of(session.name, taken):
                    raise NameRefused(fault)
                self._once = b""
            else:
                session = Session(known, True, csrf, now_ms, given)
            session_id = secrets.token_urlsafe(32)
            self._sessions[digest(session_id)] = session
            if len(self._sessions) > MOST_SESSIONS:
                # Drop the oldest of the token with most sessions, so no user can end another's.
                ((most, _),) = Counter(
                    other.token for other in self._sessions.values()
                ).most_common(1)
                del self._sessions[
                    next(key for key, other in self._sessions.items() if other.token == most)
                ]
        if known is None:
            self.new_token()
        return session_id, session

    def session(self, session_id: str) -> Session | None:
        """The session with this id unless it has expired; this renews it."""
        key, now_ms = digest(session_id), self._clock()
        with self._lock:
            session = self._sessions.pop(key, None)
            if (
                session is None
                or now_ms - session.used_ms > SESSION_MS
                or not self.is_valid(session)
            ):
                return None
            session.used_ms = now_ms
            self._sessions[key] = session  # as the one used last
            return session

    def is_valid(self, session: Session) -> bool:
        """Whether the token that opened the session is still valid."""
        return not session.fixed or owner_of(session.token, self._reviewers()) == session.name

    def leave(self, session_id: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(digest(session_id), None)


def digest(text: str) -> bytes:
    """The SHA-256 by which a token or session id is known."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def owner_of(given: bytes, tokens: Mapping[str, str]) -> str | None:
    """The owner of the token with a digest; compares with all, so that the time tells nothing."""
    owners = [name for token, name in tokens.items() if hmac.compare_digest(digest(token), given)]
    return owners[-1] if owners else None


def address_of(path: str, query: str = "") -> str:
    """The address of the sign-in page that redirects to this page afterwards."""
    onward = f"{path}?{query}" if query else path
    return address("sign-in", next=onward if onward != "/" else None)


def within(onward: str) -> str:
    r"""The address if every browser resolves it to this server (no `\`, breaks); otherwise `/`."""
    is_ours = onward.startswith("/") and not onward.startswith("//")
    return onward if is_ours and onward.isprintable() and "\\" not in onward else "/"


FAULTS: Final = {
    "taken": "This is a member's name, or looks like one. Sign in with the member's token, or"
    " choose another name.",
    "mixed": "This name mixes letters of several alphabets. Choose a name in one alphabet.",
    "invisible": "This name has characters that cannot be seen, or that stand for others. Choose"
    " a name of plain letters.",
}
_TOO_MANY: Final = (
    "Too many wrong tokens. Wait {seconds} s; a right one of {length} characters or more, as the"
    " terminal shows, is accepted at once."
)
_LANGUAGES: Final[Mapping[str, Lang]] = {"en": "en", "zh": "zh"}
_MOST_BYTES: Final = 16 << 10
"""The limit of the sign-in form, which anybody can send."""


@dataclass(frozen=True, slots=True)
class Login:
    """Sign-in and sign-out; `taken` are reserved names."""

    sessions: SessionStore
    taken: Callable[[], Collection[str]]

    def routes(self) -> list[Route]:
        """The routes of sign-in and sign-out."""
        return [
            Route("/sign-in", self._page, methods=["GET"]),
            Route("/sign-in", self._enter, methods=["POST"]),
            Route("/sign-out", self._leave, methods=["POST"]),
        ]

    def session(self, request: Request) -> Session | None:
        """The session of the request's cookie; the answer is in its language."""
        session = self.sessions.session(_own(request))
        if session is not None:
            session.lang = _LANGUAGES.get(request.query_params.get("lang", "")) or session.lang
            LANG.set(session.lang or LANG.get())
        return session

    async def _enter(self, request: Request) -> Response:
        try:
            form = await form_of(request, _MOST_BYTES)
        except BadForm as bad:
            return error_page(bad.words, bad.status)
        name, token = one_of(form, "name"), one_of(form, "token").strip()
        try:
            entered = self.sessions.enter(token, name, _own(request), self.taken())
        except TooMany as wait:
            response = await self._page(
                request, phrase(_TOO_MANY, seconds=wait.seconds, length=LONG_TOKEN), status=429
            )
            response.headers["Retry-After"] = str(wait.seconds)
            return response
        except NameRefused as refused:
            return await self._page(request, phrase(FAULTS[refused.fault]), token, 403)
        if entered is None:
            words = "This token is invalid or was already used. The terminal shows the current one."
            return await self._page(request, phrase(words), status=403)
        response = RedirectResponse(within(one_of(form, "next")), 303)
        _set_cookie(request, response, entered[0])
        return response

    async def _leave(self, request: Request) -> Response:
        session = self.session(request)
        with suppress(BadForm):
            form = await form_of(request)
            if session is not None and session.is_form(one_of(form, "csrf")):
                self.sessions.leave(_own(request))
                response = RedirectResponse("/sign-in", 303)
                response.delete_cookie(_cookie(request), httponly=True, samesite="strict")
                return response
        return forged()

    async def _page(
        self, request: Request, words: str = "", token: str = "", status: int = 200
    ) -> Response:
        """The page; with a token it asks for a name only. `words` is the error."""
        onward = request.query_params.get("next", "")
        page = render(
            "login.html",
            token=token or request.query_params.get("token", ""),
            name=_user(),
            words=words,
            onward=onward,
            inside=within(onward) if self.session(request) is not None else "",
        )
        response = HTMLResponse(page.encode("utf-8", "backslashreplace"), status)
        if not _own(request):
            _set_cookie(request, response, secrets.token_urlsafe(32))
        return response


def one_of(form: Mapping[str, list[str]], name: str) -> str:
    """The first value of a field; empty if it is missing."""
    return form.get(name, [""])[0]


def forged() -> Response:
    """The response to a form without the session's token."""
    return error_page("This form is not of your session. Load the page anew.", 403)


def _cookie(request: Request) -> str:
    """The cookie's name: cookies ignore ports, so each server on a machine needs its own."""
    return f"copydesk-{request.url.port or 80}"


def _own(request: Request) -> str:
    """The browser's cookie: the id of its session, or what tells it from other browsers."""
    return request.cookies.get(_cookie(request), "")


def _set_cookie(request: Request, response: Response, value: str) -> None:
    response.set_cookie(
        _cookie(request),
        value,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "reviewer"
