"""The page as a web application: addresses, sessions, and what is seen at each address.

What lives here: the views and the way in. What must not: markup, what a form does
(`deeds`). Invariant: nothing but the way in and the static files is given to who
has no session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from copydesk.app.mcp.limits import Streams, TooMany
from copydesk.app.opening import Opened
from copydesk.app.web import door, hunk, past, pending, trends
from copydesk.app.web.deeds import DEEDS, Done
from copydesk.app.web.entrance import Entrance, Session
from copydesk.app.web.html import Html
from copydesk.app.web.layout import Frame
from copydesk.app.web.news import News
from copydesk.app.web.reviewing import Counted, Item, Person
from copydesk.app.web.shield import BadForm, Shield, form_of
from copydesk.app.web.sides import of_diff
from copydesk.app.web.visit import Visit
from copydesk.app.web.wayin import WayIn, forged, one_of
from copydesk.app.web.wording import words_of
from copydesk.desk.history import taken_back_by
from copydesk.desk.review import Seen, Shown
from copydesk.errors import HunkNotFound, Refusal
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath

MOST_TOGETHER: Final = 100
_STATIC: Final = Path(__file__).parent / "static"
_HUNK: Final = "/hunk/{hunk_id}"
_EDIT: Final = "/edit/{edit_id}"

_log = logging.getLogger("copydesk")


View = Callable[[Visit], Response]


class Site:
    """The review page of an open workspace.

    `reviewers` gives the name that belongs to each lasting token now, `announce` is told each
    one-time token; without it there are none. A body has at most `most_bytes`.
    """

    def __init__(
        self,
        opened: Opened,
        reviewers: Callable[[], Mapping[str, str]],
        most_bytes: int,
        announce: Callable[[str], None] | None,
    ) -> None:
        self._opened = opened
        self._counted = Counted()
        self._counting = threading.Lock()
        self._plans_paths: tuple[RelPath, ...] = ()
        entrance = Entrance(opened.clock, reviewers, announce)
        self.way_in = WayIn(entrance, lambda: opened.settings.members)
        self._streams = Streams()
        self.news = News(opened, lambda: self._plans_paths)
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
        routes = [Route(path, self._seen_by(view), methods=["GET"]) for path, view in views]
        routes += [
            Route(path, self._done_by(deed), methods=["POST"]) for path, deed in DEEDS.items()
        ]
        inner = Starlette(
            routes=[
                *routes,
                *self.way_in.routes(),
                Route("/events", self._events, methods=["GET"]),
                Mount("/static", StaticFiles(directory=_STATIC)),
            ]
        )
        self.app = Shield(inner, most_bytes)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """While it is open, people can come in, and browsers are told what changes."""
        self.way_in.entrance.new_token()
        threading.Thread(target=self._look_ahead, daemon=True).start()
        async with self.news.watched():
            yield

    # what is seen

    def _pending(self, visit: Visit) -> Response:
        items = self._items(visit.person)
        wanted = pending.Filter.of(visit.query)
        return _page(pending.listing(self._frame(visit, len(items)), items, wanted))

    def _hunk(self, visit: Visit) -> Response:
        hunk_id = visit.place["hunk_id"]
        items = self._items(visit.person)
        try:
            shown = visit.person.show(hunk_id)
        except Refusal as refusal:
            return self._no_hunk(visit, hunk_id, refusal, len(items))
        why = words_of(shown.refusal) if shown.refusal else ""
        frame = self._frame(visit, len(items))
        _note_shown(visit, shown)
        beside = _beside(items, hunk_id)
        return _page(hunk.review(frame, shown, why, _look(visit), beside))

    def _no_hunk(self, visit: Visit, hunk_id: str, refusal: Refusal, waiting: int) -> Response:
        entry = None
        if isinstance(refusal, HunkNotFound) and refusal.reason == "applied":
            entry = self._opened.journal.of_hunk(hunk_id)
        title = "This plan does not wait any more."
        if not isinstance(refusal, HunkNotFound):
            title = "This plan cannot be shown."
        edit_id = entry.edit_id if entry else 0
        page = hunk.gone(self._frame(visit, waiting), title, words_of(refusal), edit_id)
        return _page(page, 404)

    def _diff(self, visit: Visit) -> Response:
        hunk_id = visit.place["hunk_id"]
        try:
            shown = visit.person.show(hunk_id)
        except Refusal as refusal:
            return PlainTextResponse(f"{refusal.code}\n", 404)
        return _file(shown.diff, f"{shown.plan.id}.diff")

    def _together(self, visit: Visit) -> Response:
        chosen = list(dict.fromkeys(visit.many))[:MOST_TOGETHER]
        found: list[Shown] = []
        refused: list[tuple[str, str]] = []
        for hunk_id in chosen:
            try:
                shown = visit.person.show(hunk_id)
            except Refusal as refusal:
                refused.append((hunk_id, words_of(refusal)))
                continue
            path = str(shown.plan.request.path)
            if shown.refusal is not None:
                refused.append((path, words_of(shown.refusal)))
            elif shown.decision is not None and shown.decision.verdict != "approved":
                refused.append((path, f"{shown.decision.verdict} by {shown.decision.by}"))
            _note_shown(visit, shown)
            found.append(shown)
        refused += [
            (hunk_id, f"at most {MOST_TOGETHER} plans are applied together")
            for hunk_id in visit.many[MOST_TOGETHER : MOST_TOGETHER + 1]
        ]
        if not chosen:
            return RedirectResponse("/", 303)
        return _page(hunk.together(self._frame(visit), found, refused, _look(visit)))

    def _history(self, visit: Visit) -> Response:
        wanted = past.Filter(
            visit.query.get("path", "")[:1000], visit.query.get("member", "")[:200]
        )
        before = visit.query.get("before", "")
        below = int(before) if before.isascii() and before.isdigit() and len(before) < 16 else None
        try:
            found = visit.person.edits(wanted.path or None, wanted.member or None, past.PAGE, below)
        except Refusal as refusal:
            page = past.history(self._frame(visit), (), (), wanted, 0, words_of(refusal))
            return _page(page)
        members = {edit.member for edit in found.edits}
        members |= set(self._opened.settings.members) | {self._opened.settings.member}
        return _page(
            past.history(self._frame(visit), found.edits, members, wanted, found.go_on, "")
        )

    def _edit(self, visit: Visit) -> Response:
        try:
            entry = visit.person.edit(visit.edit_id)
        except Refusal as refusal:
            page = hunk.gone(self._frame(visit), "This edit cannot be shown.", words_of(refusal))
            return _page(page, 404)
        undone_by = taken_back_by(self._opened.journal, entry.edit_id)
        named = self._opened.settings.encoding_of(str(entry.path))
        sides = of_diff(entry.diff, encoding_of_diff(entry.diff, named))
        return _page(past.edit(self._frame(visit), entry, undone_by, sides, _look(visit)))

    def _edit_diff(self, visit: Visit) -> Response:
        try:
            entry = visit.person.edit(visit.edit_id)
        except Refusal as refusal:
            return PlainTextResponse(f"{refusal.code}\n", 404)
        return _file(entry.diff, f"edit-{entry.edit_id}.diff")

    def _trends(self, visit: Visit) -> Response:
        entries, fates = visit.person.past()
        return _page(trends.trends(self._frame(visit), entries, fates, self._opened.clock()))

    # news

    async def _events(self, request: Request) -> Response:
        session = self.way_in.session(request)
        if session is None:
            return PlainTextResponse("Sign in first.", 401)
        try:
            self._streams.check(session.csrf)
        except TooMany as many:
            retry = {"Retry-After": str(many.seconds)}
            return PlainTextResponse("Too many pages are open.", many.status, retry)

        closing = anyio.Event()

        async def events() -> AsyncIterator[dict[str, str | int]]:
            with suppress(TooMany), self._streams.one_of(session.csrf):
                yield {"event": "hello", "data": "", "retry": 1_000}
                async for count in self.news.listen(
                    closing, lambda: self.way_in.entrance.is_valid(session)
                ):
                    if self.way_in.session(request) is None:
                        return
                    yield {"event": "news", "data": str(count)}

        return EventSourceResponse(
            events(), ping=20, shutdown_event=closing, shutdown_grace_period=2
        )

    # how a view is called

    def _seen_by(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self.way_in.session(request)
            if session is None:
                return RedirectResponse(door.address_of(request.url.path), 303)
            many = tuple(request.query_params.getlist("hunk"))
            try:
                person = self._person(session)
            except Refusal as refusal:
                return PlainTextResponse(words_of(refusal), 503)
            visit = Visit(
                session,
                person,
                request.query_params,
                _place(request),
                many,
                in_part="x-copydesk-part" in request.headers,
            )
            return await anyio.to_thread.run_sync(view, visit)

        return endpoint

    def _done_by(self, deed: Callable[[Visit], Done]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self.way_in.session(request)
            if session is None:
                return PlainTextResponse("Sign in first.", 401)
            try:
                form = await form_of(request)
            except BadForm as bad:
                return PlainTextResponse(str(bad), bad.status)
            if not session.is_form(one_of(form, "csrf")):
                return forged()
            try:
                person = self._person(session)
            except Refusal as refusal:
                return PlainTextResponse(words_of(refusal), 503)
            visit = Visit(session, person, request.query_params, _place(request), form=form)
            done = await anyio.to_thread.run_sync(deed, visit)
            self.news.ring()
            return RedirectResponse(done, 303)

        return endpoint

    def _person(self, session: Session) -> Person:
        return Person(self._opened, self._counted, session.name, is_member=session.fixed)

    def _items(self, person: Person) -> tuple[Item, ...]:
        items = person.items()
        self._plans_paths = tuple({item.plan.request.path for item in items})
        if any(not item.counted for item in items) and self._counting.acquire(blocking=False):
            threading.Thread(target=self._count, args=(person, items), daemon=True).start()
        return items

    def _look_ahead(self) -> None:
        """Look at what waits, so that the first who comes in need not wait for it."""
        try:
            self._items(Person(self._opened, self._counted, "", is_member=False))
        except Exception:  # who comes in will see why
            _log.exception("cannot list the plans that wait")

    def _count(self, person: Person, items: tuple[Item, ...]) -> None:
        """Count what was estimated, and have the lists say it."""
        try:
            person.count(items)
        except Exception:  # the estimates stay
            _log.exception("cannot count the lines of plans")
        finally:
            self._counting.release()
        self.news.ring()

    def _frame(self, visit: Visit, waiting: int | None = None) -> Frame:
        if waiting is None:
            waiting = len(visit.person.waiting())
        session = visit.session
        notices = () if visit.in_part else session.told()
        name = self._opened.root.rstrip("/").rpartition("/")[2] or "/"
        return Frame(session.name, session.csrf, name, waiting, notices)


def _note_shown(visit: Visit, shown: Shown) -> None:
    """Remember what the person sees all of now, which it may approve."""
    if hunk.shows_all(shown, _look(visit)):
        visit.session.saw(Seen(shown.plan.id, shown.before, shown.after))


def _look(visit: Visit) -> hunk.Look:
    view = visit.query.get("view", "")
    context = visit.query.get("context", "")
    found = int(context) if context.isascii() and context.isdigit() and len(context) < 8 else 3
    return hunk.Look(
        "unified" if view == "unified" else "split",
        min(max(found, hunk.CONTEXTS[0]), hunk.CONTEXTS[-1]),
        visit.query.get("all") == "1",
    )


def _beside(items: tuple[Item, ...], hunk_id: str) -> hunk.Beside:
    ids = [item.plan.id for item in items]
    if hunk_id not in ids:
        return hunk.Beside()
    at = ids.index(hunk_id)
    open_ = (item.plan.id for item in (*items[at + 1 :], *items[:at]) if item.decision is None)
    after = ids[at + 1] if at + 1 < len(ids) else ""
    return hunk.Beside(ids[at - 1] if at else "", after, next(open_, ""))


def _place(request: Request) -> dict[str, str]:
    return {name: str(value) for name, value in request.path_params.items()}


def _page(made: Html, status: int = 200) -> Response:
    return HTMLResponse(made.encode("utf-8", "backslashreplace"), status)


def _file(data: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type="text/plain; charset=utf-8", headers=headers)
