"""The review page as a web application: routes, views, and the event stream.

Invariant: without a session only the sign-in page and the static files are served.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from markupsafe import Markup
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from copydesk.app.web import pages
from copydesk.app.web.actions import ACTIONS, Location, RequestContext
from copydesk.app.web.reviewer import Counted, Item, Reviewer, words_of
from copydesk.app.web.security import (
    BadForm,
    Login,
    RequestGuard,
    Session,
    SessionStore,
    address_of,
    forged,
    form_of,
    one_of,
)
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import version_of
from copydesk.desk.history import taken_back_by
from copydesk.desk.review import Shown, Waiting
from copydesk.errors import HunkNotFound, Refusal
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.tools.diff_model import of_diff

MOST_LISTENERS: Final = 100
PERIOD_SECONDS: Final = 0.25
_FILES_EVERY: Final = 3
"""The files of pending plans are checked once in this many periods."""

_log = logging.getLogger("copydesk")


class ChangeEvents:
    """Notifies listeners when plans, decisions, edits or the files of plans change."""

    def __init__(self, opened: OpenWorkspace, paths: Callable[[], tuple[RelPath, ...]]) -> None:
        self._opened, self._paths = opened, paths
        self._listeners: set[asyncio.Event] = set()
        self._rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def full(self) -> bool:
        """Whether no more listeners are accepted."""
        return len(self._listeners) >= MOST_LISTENERS

    def ring(self) -> None:
        """Report a change made by this process; may be called from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._rung.set)

    async def listen(self, closing: anyio.Event, valid: Callable[[], bool]) -> AsyncIterator[int]:
        """Yield a number for changes, until `closing` is set or it is no longer `valid`."""
        event = asyncio.Event()
        self._listeners.add(event)
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
            self._listeners.discard(event)

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
            self._loop = None

    async def _watch(self) -> None:
        turn = 0
        records: object = None
        files: object = None
        while True:
            with anyio.move_on_after(PERIOD_SECONDS):
                await self._rung.wait()
            changed = self._rung.is_set()
            self._rung.clear()
            if not self._listeners:
                continue
            turn += 1
            try:
                found = await anyio.to_thread.run_sync(self._opened.seen)
                changed, records = changed or found != records, found
                if changed or turn % _FILES_EVERY == 0:
                    seen = await anyio.to_thread.run_sync(self._files)
                    changed, files = changed or seen != files, seen
            except Exception:  # best effort: never fail the server because a notification failed
                _log.exception("cannot look for what changed")
            if changed:
                for event in self._listeners:
                    event.set()

    def _files(self) -> object:
        """A token that changes whenever the file of a pending plan changes."""
        found: dict[RelPath, object] = {}
        for path in self._paths():
            try:
                found[path] = self._opened.files.stat(path)
            except Refusal as refusal:
                found[path] = refusal.code
        return found


_STATIC: Final = Path(__file__).parent / "static"
_HUNK: Final = "/hunk/{hunk_id}"
_EDIT: Final = "/edit/{edit_id}"


View = Callable[[RequestContext], Response]


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
        self._counted = Counted()
        self._counting = threading.Lock()
        self._plans_paths: tuple[RelPath, ...] = ()
        sessions = SessionStore(opened.clock, reviewers, announce)
        self.login = Login(sessions, opened.names)
        self.news = ChangeEvents(opened, lambda: self._plans_paths)
        views: tuple[tuple[str, View], ...] = (
            ("/", self._pending),
            ("/together", self._together),
            ("/history", self._history),
            ("/trends", self._trends),
            (_HUNK, self._hunk),
            (f"{_HUNK}/diff", self._diff),
            (_EDIT, self._edit),
            (f"{_EDIT}/diff", self._edit_diff),
        )
        routes = [Route(path, self._view(view), methods=["GET"]) for path, view in views]
        routes += [
            Route(path, self._action(action), methods=["POST"]) for path, action in ACTIONS.items()
        ]
        inner = Starlette(
            routes=[
                *routes,
                *self.login.routes(),
                Route("/events", self._events, methods=["GET"]),
                Mount("/static", StaticFiles(directory=_STATIC)),
            ],
            exception_handlers={404: self._nowhere},
        )
        self.app = RequestGuard(inner, most_bytes)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """While this is open, people can sign in and browsers receive events."""
        self.login.sessions.new_token()
        threading.Thread(target=self._look_ahead, daemon=True).start()
        async with self.news.watched():
            yield

    # Views

    def _pending(self, ctx: RequestContext) -> Response:
        items = self._items(ctx.reviewer)
        wanted = pages.PlanFilter.of(ctx.query)
        frame = self._frame(ctx, _undecided(items))
        page = _number(ctx.query.get("page", ""), 1)
        return _page(pages.pending(frame, items, wanted, ctx.session.viewed.keys(), page))

    def _hunk(self, ctx: RequestContext) -> Response:
        hunk_id = ctx.path_params["hunk_id"]
        items = ctx.reviewer.items(patience=0)
        try:
            shown = ctx.reviewer.show(hunk_id)
        except Refusal as refusal:
            return self._no_hunk(ctx, hunk_id, refusal, items)
        frame = self._frame(ctx, _undecided(items))
        unseen = _remember_shown(ctx, shown)
        wanted = pages.PlanFilter.of(ctx.query)
        listed = [item for item in items if item.plan.id == hunk_id or wanted.takes(item)]
        neighbours = _neighbours(listed, hunk_id)
        rights = ctx.review.rights(ctx.member, shown)
        comments = ctx.review.comments(shown)
        page = pages.review(
            frame, shown, rights, _options(ctx), neighbours, wanted, comments, unseen
        )
        return _page(page)

    def _no_hunk(
        self, ctx: RequestContext, hunk_id: str, refusal: Refusal, items: Sequence[Item]
    ) -> Response:
        entry = item = None
        if isinstance(refusal, HunkNotFound) and refusal.reason == "applied":
            entry = self._opened.journal.of_hunk(hunk_id)
        title = "This plan is no longer pending."
        if not isinstance(refusal, HunkNotFound):
            title = "This plan cannot be shown."
            item = next((item for item in items if item.plan.id == hunk_id), None)
        edit_id = entry.edit_id if entry else 0
        wanted = pages.PlanFilter.of(ctx.query)
        frame = self._frame(ctx, _undecided(items))
        page = pages.gone(frame, title, words_of(refusal), wanted, edit_id, item)
        return _page(page, 404 if item is None else 200)

    def _diff(self, ctx: RequestContext) -> Response:
        hunk_id = ctx.path_params["hunk_id"]
        try:
            shown = ctx.reviewer.show(hunk_id)
        except Refusal as refusal:
            return PlainTextResponse(f"{refusal.code}: {words_of(refusal)}\n", 404)
        return _file(shown.diff, f"{shown.plan.id}.diff")

    def _together(self, ctx: RequestContext) -> Response:
        chosen = list(dict.fromkeys(ctx.hunk_ids))[: pages.MOST_TOGETHER]
        found: list[Shown] = []
        refused: list[tuple[str, str]] = []
        can = True
        for hunk_id in chosen:
            try:
                shown = ctx.reviewer.show(hunk_id)
            except Refusal as refusal:
                refused.append((hunk_id, words_of(refusal)))
                continue
            path = str(shown.plan.request.path)
            if shown.refusal is not None:
                refused.append((path, words_of(shown.refusal)))
            elif shown.decision is not None and shown.decision.verdict != "approved":
                verdict = shown.decision.verdict.replace("_", " ")
                refused.append((path, f"{verdict} by {shown.decision.by}"))
            elif (barred := ctx.review.rights(ctx.member, shown, len(chosen)).apply) is not None:
                refused.append((path, words_of(barred)))
            was_shown = _remember_shown(ctx, shown) == 0 or ctx.session.was_shown(shown)
            can = can and was_shown
            found.append(shown)
        refused += [
            (hunk_id, f"at most {pages.MOST_TOGETHER} plans are applied together")
            for hunk_id in ctx.hunk_ids[pages.MOST_TOGETHER : pages.MOST_TOGETHER + 1]
        ]
        if not chosen:
            return RedirectResponse("/", 303)
        wanted = pages.PlanFilter.of(ctx.query)
        can_approve = can and all(
            one.refusal is None
            and one.decision is None
            and ctx.review.rights(ctx.member, one).approve is None
            for one in found
        )
        return _page(
            pages.together(
                self._frame(ctx),
                found,
                refused,
                _options(ctx),
                wanted,
                can=can,
                can_approve=can_approve,
            )
        )

    def _history(self, ctx: RequestContext) -> Response:
        wanted = pages.EditFilter(
            ctx.query.get("path", "")[:1000], ctx.query.get("member", "")[:200]
        )
        before = ctx.query.get("before", "")
        below = int(before) if before.isascii() and before.isdigit() and len(before) < 16 else None
        try:
            found = ctx.reviewer.edits(
                wanted.path or None, wanted.member or None, pages.MOST_EDITS, below
            )
        except Refusal as refusal:
            page = pages.history(self._frame(ctx), (), (), wanted, 0, words_of(refusal))
            return _page(page)
        members = {edit.member for edit in found.edits}
        members |= set(self._opened.settings.members) | {self._opened.settings.member}
        return _page(pages.history(self._frame(ctx), found.edits, members, wanted, found.go_on, ""))

    def _edit(self, ctx: RequestContext) -> Response:
        try:
            entry = ctx.reviewer.edit(ctx.edit_id)
        except Refusal as refusal:
            page = pages.gone(self._frame(ctx), "This edit cannot be shown.", words_of(refusal))
            return _page(page, 404)
        undone_by = taken_back_by(self._opened.journal, entry.edit_id)
        named = self._opened.settings.encoding_of(entry.path)
        diff = of_diff(entry.diff, encoding_of_diff(entry.diff, named))
        may_undo = ctx.reviewer.may_undo(entry)
        page = pages.edit(
            self._frame(ctx), entry, undone_by, diff, _options(ctx), may_undo=may_undo
        )
        return _page(page)

    def _edit_diff(self, ctx: RequestContext) -> Response:
        try:
            entry = ctx.reviewer.edit(ctx.edit_id)
        except Refusal as refusal:
            return PlainTextResponse(f"{refusal.code}: {words_of(refusal)}\n", 404)
        return _file(entry.diff, f"edit-{entry.edit_id}.diff")

    def _trends(self, ctx: RequestContext) -> Response:
        entries, fates = ctx.reviewer.past()
        return _page(pages.trends(self._frame(ctx), entries, fates, self._opened.clock()))

    # Events

    async def _events(self, request: Request) -> Response:
        session = self.login.session(request)
        if session is None:
            return PlainTextResponse("Sign in first.", 401)
        if self.news.full:
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

    async def _nowhere(self, request: Request, _: Exception) -> Response:
        """Answer an unknown address: a page for signed-in users, a line for programs."""
        if self.login.session(request) is None or request.method != "GET":
            return PlainTextResponse("Not Found", 404)

        def view(ctx: RequestContext) -> Response:
            words = "There is nothing at this address."
            return _page(pages.gone(self._frame(ctx), "Page not found", words), 404)

        return await self._view(view)(request)

    # How a view is called

    def _view(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self.login.session(request)
            if session is None:
                return RedirectResponse(address_of(request.url.path, request.url.query), 303)
            return await self._called(view, request, session, {})

        return endpoint

    def _action(
        self, action: Callable[[RequestContext], Location]
    ) -> Callable[[Request], Awaitable[Response]]:
        def done(ctx: RequestContext) -> Response:
            location = action(ctx)
            self.news.ring()
            return RedirectResponse(location, 303)

        async def endpoint(request: Request) -> Response:
            session = self.login.session(request)
            if session is None:
                return PlainTextResponse("Sign in first.", 401)
            try:
                form = await form_of(request)
            except BadForm as bad:
                return PlainTextResponse(str(bad), bad.status)
            if not session.is_form(one_of(form, "csrf")):
                return forged()
            return await self._called(done, request, session, form)

        return endpoint

    async def _called(
        self, view: View, request: Request, session: Session, form: Mapping[str, list[str]]
    ) -> Response:
        """The response of a view, run in a thread; 503 if no page can be made for the workspace."""
        try:
            ctx = RequestContext(
                session,
                Reviewer(self._opened, self._counted, session.name, is_member=session.fixed),
                request.query_params,
                {name: str(value) for name, value in request.path_params.items()},
                tuple(request.query_params.getlist("hunk")),
                form,
                is_partial="x-copydesk-part" in request.headers,
            )
            return await anyio.to_thread.run_sync(view, ctx)
        except Refusal as refusal:  # the configuration or the state cannot be used
            return PlainTextResponse(words_of(refusal), 503)

    def _items(self, person: Reviewer) -> tuple[Item, ...]:
        items = person.items()
        self._plans_paths = tuple({item.plan.request.path for item in items})
        if any(not item.counted for item in items) and self._counting.acquire(blocking=False):
            threading.Thread(target=self._count, args=(person, items), daemon=True).start()
        return items

    def _look_ahead(self) -> None:
        """List the pending plans once, so that the first page is not slow."""
        try:
            self._items(Reviewer(self._opened, self._counted, "", is_member=False))
        except Exception:  # the request handler will report the error
            _log.exception("cannot list the plans that wait")

    def _count(self, person: Reviewer, items: tuple[Item, ...]) -> None:
        """Count the lines that were estimated, then refresh the lists."""
        try:
            person.count(items)
        except Exception:  # the estimates stay
            _log.exception("cannot count the lines of plans")
        finally:
            self._counting.release()
        self.news.ring()

    def _frame(self, ctx: RequestContext, waiting: int | None = None) -> pages.Frame:
        if waiting is None:
            waiting = _undecided(ctx.reviewer.waiting())
        session = ctx.session
        notices = () if ctx.is_partial else session.take_notices()
        name = self._opened.root.rstrip("/").rpartition("/")[2] or "/"
        return pages.Frame(session.name, session.csrf, name, waiting, self._opened.clock(), notices)


def _remember_shown(ctx: RequestContext, shown: Shown) -> int:
    """Record what the session was shown; return the next part of "Show all", or 0."""
    if not ctx.is_partial:
        ctx.session.view(version_of(shown.plan), shown.state)
    options = _options(ctx)
    if pages.shows_all(shown, options):
        ctx.session.remember(shown.seen)
        return 0
    if not options.part:
        return 1
    count = pages.parts_of(pages.rows_of(shown, options))
    return ctx.session.show_part(shown.seen, options.context, options.part, count)


def _options(ctx: RequestContext) -> pages.DiffOptions:
    view = ctx.query.get("view", "")
    context = _number(ctx.query.get("context", ""), pages.CONTEXTS[0])
    return pages.DiffOptions(
        "unified" if view == "unified" else "split",
        min(max(context, pages.CONTEXTS[0]), pages.CONTEXTS[-1]),
        _number(ctx.query.get("all", ""), 0),
    )


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else default


def _neighbours(items: Sequence[Item], hunk_id: str) -> pages.Neighbours:
    ids = [item.plan.id for item in items]
    if hunk_id not in ids:
        return pages.Neighbours()
    at = ids.index(hunk_id)
    open_ = (item.plan.id for item in (*items[at + 1 :], *items[:at]) if item.decision is None)
    after = ids[at + 1] if at + 1 < len(ids) else ""
    position = f"{at + 1:,} of {len(ids):,}"
    return pages.Neighbours(ids[at - 1] if at else "", after, next(open_, ""), position)


def _undecided(plans: Iterable[Item | Waiting]) -> int:
    return sum(one.decision is None for one in plans)


def _page(made: Markup, status: int = 200) -> Response:
    return HTMLResponse(made.encode("utf-8", "backslashreplace"), status)


def _file(data: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type="text/plain; charset=utf-8", headers=headers)
