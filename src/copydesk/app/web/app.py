"""The review page as a web application: routes and the event stream.

Invariant: without a session only the sign-in page and the static files are served.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from copydesk.app.web.markup import phrase
from copydesk.app.web.pages import (
    ACTIONS,
    VIEWS,
    Action,
    ListCache,
    RequestContext,
    Reviewer,
    gone,
    words_of,
)
from copydesk.app.web.security import (
    BadForm,
    Login,
    RequestGuard,
    SessionStore,
    address_of,
    error_page,
    forged,
    form_of,
    one_of,
)
from copydesk.app.workspace import OpenWorkspace
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath

MOST_LISTENERS: Final = 100
PERIOD_SECONDS: Final = 0.25
_FILES_EVERY: Final = 3
"""The files of pending plans and open changes are checked once in this many periods."""

_log = logging.getLogger("copydesk")


class ChangeEvents:
    """Notifies listeners when plans, decisions, edits or the files of plans change."""

    def __init__(self, opened: OpenWorkspace, paths: Callable[[], Iterable[RelPath]]) -> None:
        self._opened, self._paths = opened, paths
        self.listeners: set[asyncio.Event] = set()
        self._rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """Report a change made by this process; may be called from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._rung.set)

    async def listen(self, closing: anyio.Event, valid: Callable[[], bool]) -> AsyncIterator[int]:
        """Yield a number for changes, until `closing` is set or it is no longer `valid`."""
        event = asyncio.Event()
        self.listeners.add(event)
        count = 0
        try:
            while not closing.is_set() and valid():
                with anyio.move_on_after(PERIOD_SECONDS):
                    await event.wait()
                if event.is_set() and valid():
                    event.clear()
                    count += 1
                    yield count
        finally:
            self.listeners.discard(event)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Notify listeners while this is open."""
        self._loop = asyncio.get_running_loop()
        leave = self._opened.on_change(self.ring)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch)
                yield
                group.cancel_scope.cancel()
        finally:
            leave()

    async def _watch(self) -> None:
        turn = 0
        records: object = None
        files: object = None
        while True:
            with anyio.move_on_after(PERIOD_SECONDS):
                await self._rung.wait()
            changed = self._rung.is_set()
            self._rung.clear()
            if not self.listeners:
                continue
            turn += 1
            try:
                now = await anyio.to_thread.run_sync(self._opened.records_stamp)
                changed, records = changed or now != records, now
                if changed or turn % _FILES_EVERY == 0:
                    now = await anyio.to_thread.run_sync(self._files)
                    changed, files = changed or now != files, now
            except Exception:  # best effort: never fail the server because a notification failed
                _log.exception("cannot look for what changed")
            if changed:
                for event in self.listeners:
                    event.set()

    def _files(self) -> object:
        """A token that changes whenever a file of pending plans or open changes does."""
        states: dict[RelPath, object] = {}
        for path in self._paths():
            try:
                states[path] = self._opened.files.stat(path)
            except Refusal as refusal:
                states[path] = refusal.code
        return states


class ReviewApp:
    """The review page of an open workspace.

    `reviewers` returns the current names by lasting token, `announce` receives each one-time token;
    without it there are none. A body has at most `most_bytes`.
    """

    def __init__(
        self,
        opened: OpenWorkspace,
        reviewers: Callable[[], Mapping[str, str]],
        most_bytes: int,
        announce: Callable[[str], None] | None,
    ) -> None:
        self._opened = opened
        self._cache = ListCache(lambda: self.news.ring())
        self.login = Login(SessionStore(opened.clock, reviewers, announce), opened.names)
        self.news = ChangeEvents(
            opened, lambda: {path for paths in [*self._cache.paths.values()] for path in paths}
        )
        views = [
            *(("GET", *each) for each in VIEWS.items()),
            *(("POST", path, self._done(action)) for path, action in ACTIONS.items()),
        ]
        inner = Starlette(
            routes=[
                *(
                    Route(path, partial(self._called, view), methods=[method])
                    for method, path, view in views
                ),
                *self.login.routes(),
                Route("/events", self._events, methods=["GET"]),
                Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
            ],
            exception_handlers={404: self._nowhere, 405: self._nowhere},
        )
        self.app = RequestGuard(inner, most_bytes, lambda: opened.config.lang)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """While this is open, people can sign in and browsers receive events."""
        self.login.sessions.new_token()
        threading.Thread(target=self._look_ahead, daemon=True).start()
        async with self.news.watched():
            yield

    def _look_ahead(self) -> None:
        """List the pending plans once, so that the first page is not slow."""
        try:
            Reviewer(self._opened, self._cache, "", is_member=False).items()
        except Exception:  # the request handler will report the error
            _log.exception("cannot list the plans that wait")

    def _done(self, action: Action) -> Callable[[RequestContext], Response]:
        def done(ctx: RequestContext) -> Response:
            location = action(ctx)
            self.news.ring()
            return RedirectResponse(location, 303)

        return done

    async def _called(
        self, view: Callable[[RequestContext], Response], request: Request
    ) -> Response:
        """The response of a view, run in a thread; 503 if no page can be made for the workspace."""
        session, is_form = self.login.session(request), request.method == "POST"
        if session is None:
            sign_in = RedirectResponse(address_of(request.url.path, request.url.query), 303)
            return error_page("Sign in first.", 401) if is_form else sign_in
        try:
            form = await form_of(request) if is_form else {}
        except BadForm as bad:
            return error_page(bad.words, bad.status)
        if is_form and not session.is_form(one_of(form, "csrf")):
            return forged()
        try:
            ctx = RequestContext(
                session,
                Reviewer(self._opened, self._cache, session.name, is_member=session.fixed),
                request.query_params,
                {name: str(value) for name, value in request.path_params.items()},
                tuple(request.query_params.getlist("hunk")),
                form,
                is_partial="x-copydesk-part" in request.headers,
            )
            return await anyio.to_thread.run_sync(view, ctx)
        except Refusal as refusal:  # the configuration or the state cannot be used
            return error_page(words_of(refusal), 503)

    async def _events(self, request: Request) -> Response:
        session = self.login.session(request)
        if session is None:
            return PlainTextResponse("Sign in first.", 401)
        if len(self.news.listeners) >= MOST_LISTENERS:
            return PlainTextResponse("Too many pages are open.", 503, {"Retry-After": "5"})
        closing = anyio.Event()

        async def events() -> AsyncIterator[dict[str, str | int]]:
            yield {"event": "hello", "data": "", "retry": 1_000}
            async for count in self.news.listen(
                closing, lambda: self.login.sessions.is_valid(session)
            ):
                if self.login.session(request) is None:
                    return
                yield {"event": "news", "data": str(count)}

        return EventSourceResponse(
            events(), ping=20, shutdown_event=closing, shutdown_grace_period=2
        )

    async def _nowhere(self, request: Request, wrong: Exception) -> Response:
        """Answer an unknown address: a page for people, a line for programs."""
        words, status = "There is nothing at this address.", getattr(wrong, "status_code", 404)
        if self.login.session(request) is None or request.method != "GET":
            if "text/html" not in request.headers.get("accept", ""):
                return PlainTextResponse("Not Found", status)
            return error_page(words, status)
        return await self._called(
            lambda ctx: gone(ctx, phrase("Page not found"), phrase(words)), request
        )
