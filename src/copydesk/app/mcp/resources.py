"""Pending plans as MCP resources with change notifications, and the manuals as prompts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, cast
from urllib.parse import unquote

import anyio
import anyio.to_thread
import mcp_types as t
from anyio.abc import TaskStatus
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from copydesk.app import manuals
from copydesk.app.mcp.messages import capped, sendable
from copydesk.app.workspace import OpenWorkspace
from copydesk.errors import Refusal
from copydesk.tools.report import Lang

Ctx = ServerRequestContext[Any, Any]

PREFIX: Final = "copydesk://hunk/"
MANUAL_PREFIX: Final = "copydesk://manual/"
MANUAL: Final = MANUAL_PREFIX + "{toolset}/{topic}"
_MIME: Final = "text/markdown"
_SUBSCRIBED: Final = "copydesk.subscribed"
_CALM_SECONDS = 0.05
"""The delay before plans are listed after a change: first the call is answered.

If one call both plans and applies, nothing has changed then.
"""

_SEND_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5
"""The interval of checks for changes by other processes."""

_in_call: ContextVar[bool] = ContextVar("in_call", default=False)
"""Whether the code runs for a call inside `Hunks.notified_after`, in any thread."""

_log = logging.getLogger("copydesk")


class Hunks:
    """The pending plans of a workspace, for the clients of one server."""

    def __init__(
        self,
        opened: OpenWorkspace,
        member_of: Callable[[Ctx], str],
        bus: SubscriptionBus,
        lang: Lang,
        manuals_: Manuals,
    ) -> None:
        self._opened, self._member_of, self._bus = opened, member_of, bus
        self._manuals = manuals_
        self._lang: Lang = lang
        self._connections: dict[int, Connection] = {}
        self._due: set[asyncio.Event] = set()

    @contextmanager
    def notified_after(self) -> Generator[None]:
        """Notify clients of a call's changes only at its end, so that they do not interrupt it.

        Waking the event loop in the middle of a call costs a tenth of a small edit.
        """
        token = _in_call.set(True)
        try:
            yield
        finally:
            _in_call.reset(token)
            while self._due:
                self._due.pop().set()

    async def list_resources(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        plans = await anyio.to_thread.run_sync(self._opened.pending, self._member_of(ctx))
        return t.ListResourcesResult(
            resources=[
                t.Resource(
                    uri=PREFIX + plan.id,
                    name=plan.id,
                    title=sendable(f"{plan.action} {plan.request.path}"),
                    description=sendable(f"{plan.tool} ({plan.owner})"),
                    mime_type=_MIME,
                )
                for plan in plans
            ]
            + self._manuals.resources()
        )

    async def list_templates(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListResourceTemplatesResult:
        template = t.ResourceTemplate(
            uri_template=PREFIX + "{hunk_id}", name="hunk", mime_type=_MIME
        )
        pages = t.ResourceTemplate(uri_template=MANUAL, name="manual", mime_type=_MIME)
        return t.ListResourceTemplatesResult(resource_templates=[template, pages])

    async def read_resource(
        self, ctx: Ctx, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult:
        """A plan as shown, or a part of a manual; raises MCPError if it does not exist."""
        uri = str(params.uri)
        if uri.startswith(MANUAL_PREFIX):
            return _markdown(uri, self._manuals.resource(uri), self._lang)
        hunk_id = _hunk_id(uri)
        show = self._opened.pending_report
        try:
            report = await anyio.to_thread.run_sync(show, self._member_of(ctx), hunk_id, self._lang)
        except Refusal as refusal:
            raise _not_found(uri, refusal.code) from None
        return _markdown(uri, report.text, self._lang)

    async def subscribe(self, ctx: Ctx, params: t.SubscribeRequestParams) -> t.EmptyResult:
        _hunk_id(str(params.uri))
        _subscribed(_connection(ctx)).add(str(params.uri))
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        _subscribed(_connection(ctx)).discard(str(params.uri))
        return t.EmptyResult()

    async def connected(self, ctx: Ctx, params: t.NotificationParams) -> None:
        """Remember a ready client of the handshake era until its connection closes."""
        connection = _connection(ctx)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or id(connection) in self._connections:
            return
        self._connections[id(connection)] = connection
        connection.exit_stack.callback(self._connections.pop, id(connection), None)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Notify clients of changes while this context is open."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def told() -> None:
            if _in_call.get():
                self._due.add(news)
                return
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(news.set)

        leave = self._opened.on_change(told)
        try:
            async with anyio.create_task_group() as group:
                await group.start(self._watch, news)
                yield
                group.cancel_scope.cancel()
        finally:
            leave()

    async def _watch(
        self, news: asyncio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        changes = await self._changes(None)
        known = await self._waiting({})
        task_status.started()  # from now on every change is news to the clients
        while True:
            with anyio.move_on_after(_LOOK_SECONDS):
                await news.wait()
            if not news.is_set():
                before, changes = changes, await self._changes(changes)
                if changes == before:
                    continue
            else:
                await anyio.sleep(_CALM_SECONDS)
            news.clear()
            now = await self._waiting(known)
            # A plan new to this process may have changed since a client was notified.
            changed = {uri for uri in {**known, **now} if now.get(uri) != known.get(uri)}
            if known.keys() != now.keys():
                await self._bus.publish(ResourcesListChanged())
            for uri in sorted(changed):
                await self._bus.publish(ResourceUpdated(uri=uri))
            for connection in tuple(self._connections.values()):
                with anyio.move_on_after(_SEND_SECONDS):
                    if known.keys() != now.keys():
                        await connection.send_resource_list_changed()
                    for uri in sorted(changed & _subscribed(connection)):
                        await connection.send_resource_updated(uri)
            known = now

    async def _changes(self, known: object) -> object:
        """A value that differs once another process has planned or decided something."""
        try:
            return await anyio.to_thread.run_sync(self._opened.changes)
        except Refusal:  # the next check will tell
            return known

    async def _waiting(self, known: dict[str, object]) -> dict[str, object]:
        """The pending plans, each with a value that differs once it is replanned."""
        try:
            return await anyio.to_thread.run_sync(self._read_waiting)
        except Refusal:  # the next check will tell
            return known
        except Exception:  # best effort: a notification that failed must not end the server
            _log.exception("cannot list the plans that wait")
            return known

    def _read_waiting(self) -> dict[str, object]:
        config = self._opened.settings
        return {
            PREFIX + one.plan.id: (one.plan, one.decision)
            for member in (config.member, *config.members)
            for one in self._opened.desk.review.pending(self._opened.member(member))
        }


def _markdown(uri: str, text: str, lang: Lang) -> t.ReadResourceResult:
    contents = t.TextResourceContents(uri=uri, mime_type=_MIME, text=capped(text, lang))
    return t.ReadResourceResult(contents=[contents])


def _connection(ctx: Ctx) -> Connection:
    """The connection of a request: only its exit stack reveals when it closes."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def _subscribed(connection: Connection) -> set[str]:
    return cast("set[str]", connection.state.setdefault(_SUBSCRIBED, set[str]()))


def _hunk_id(uri: str) -> str:
    if not uri.startswith(PREFIX):
        raise _not_found(uri, "HUNK_NOT_FOUND")
    return uri.removeprefix(PREFIX)


def _not_found(uri: str, code: str) -> MCPError:
    return MCPError(t.INVALID_PARAMS, f"Resource not found: {code}", {"uri": sendable(uri)[:200]})


_MOST_COMPLETED: Final = 100
"""The limit of the protocol."""

_TITLE = {"en": "The manual of {toolset}", "zh": "{toolset} 手册"}
_TOPIC = {"en": "One of: {topics}. Default: {first}.", "zh": "可选:{topics}。默认:{first}。"}


class Manuals:
    """The manuals of some toolsets, in one language. `auto` is the default of apply."""

    def __init__(self, toolsets: Sequence[str], lang: Lang, *, auto: bool = False) -> None:
        known, self._auto = manuals.toolsets(), auto
        self._toolsets = tuple(name for name in toolsets if name in known)
        self._lang: Lang = lang

    def instructions(self) -> str:
        """The instructions that a client gives its model about this server."""
        return manuals.instructions(self._toolsets, self._lang, auto=self._auto)

    def resources(self) -> list[t.Resource]:
        """The pages as resources; a template has their parts too."""
        return [
            t.Resource(
                uri=f"{MANUAL_PREFIX}{toolset}/{topic}",
                name=f"{toolset} {topic}",
                title=f"{self._title(toolset)}: {topic}",
                mime_type=_MIME,
            )
            for toolset in self._toolsets
            for topic in manuals.topics(toolset)
        ]

    def resource(self, uri: str) -> str:
        """A page, or a part of one; raises MCPError if it does not exist."""
        toolset, _, topic = unquote(uri.removeprefix(MANUAL_PREFIX)).partition("/")
        try:
            return manuals.part(toolset, topic, self._lang)
        except Refusal as refusal:
            raise _not_found(uri, refusal.code) from None

    async def list_prompts(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[self._prompt(name) for name in self._toolsets])

    async def get_prompt(self, ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """The text of a topic; raises MCPError if it does not exist."""
        topics = self._topics(params.name)
        topic = (params.arguments or {}).get("topic") or topics[0]
        if topic not in topics:
            raise MCPError(t.INVALID_PARAMS, f"Unknown topic; there are: {', '.join(topics)}")
        text = capped(manuals.read(params.name, topic, self._lang), self._lang)
        message = t.PromptMessage(role="user", content=t.TextContent(text=text))
        return t.GetPromptResult(description=self._title(params.name), messages=[message])

    async def complete(self, ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
        """The topics or toolsets that begin with the typed text."""
        found: list[str] = []
        if isinstance(params.ref, t.PromptReference) and params.argument.name == "topic":
            found = list(self._topics(params.ref.name))
        elif isinstance(params.ref, t.ResourceTemplateReference) and params.ref.uri == MANUAL:
            chosen = (params.context.arguments if params.context else None) or {}
            toolset = chosen.get("toolset", self._toolsets[0] if self._toolsets else "")
            if params.argument.name == "toolset":
                found = list(self._toolsets)
            elif toolset in self._toolsets:
                found = list(manuals.names(toolset, self._lang))
        found = [one for one in found if one.startswith(params.argument.value)][:_MOST_COMPLETED]
        return t.CompleteResult(
            completion=t.Completion(values=found, total=len(found), has_more=False)
        )

    def _topics(self, toolset: str) -> tuple[str, ...]:
        if toolset not in self._toolsets:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {sendable(toolset)[:100]}")
        return manuals.topics(toolset)

    def _title(self, toolset: str) -> str:
        return _TITLE[self._lang].format(toolset=toolset)

    def _prompt(self, toolset: str) -> t.Prompt:
        topics = manuals.topics(toolset)
        words = _TOPIC[self._lang].format(topics=", ".join(topics), first=topics[0])
        topic = t.PromptArgument(name="topic", description=words, required=False)
        title = self._title(toolset)
        return t.Prompt(name=toolset, title=title, description=title, arguments=[topic])
