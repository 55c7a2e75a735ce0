"""The MCP server: tools, pending plans as resources, manuals as prompts, questions to the user.

Import it only to start a server: importing the protocol library takes most of a second. No text of
a Python exception reaches a client; calls run in threads, so none blocks another. The user sees the
whole diff, and an approval holds for those bytes only; an answer without a decision decides
nothing. No call waits for the user: without an answer, all results are the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import select
import signal
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from io import BytesIO
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

import anyio.from_thread
import anyio.lowlevel
import mcp_types as t
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync as to_thread
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from copydesk import __version__
from copydesk.app import reference, terminal
from copydesk.app.mcp.early import (
    ACKNOWLEDGED,
    HONORED,
    LISTEN,
    MODERN,
    RESOURCES,
    SUBSCRIPTION,
    Table,
    Wire,
    claimed_stdio,
    write_all,
)
from copydesk.app.mcp.messages import (
    MOST_MESSAGE_BYTES,
    ErrorReply,
    ParsedMessage,
    capped,
    error_reply,
    original_arguments,
    parse_message,
    sendable,
    too_large,
    tool_result,
)
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.review import Seen
from copydesk.edit.request import check_why
from copydesk.errors import Cancelled, InvalidArgs, Refusal
from copydesk.tools import refusals
from copydesk.tools.catalog import by_name, crashed
from copydesk.tools.messages import say
from copydesk.tools.report import Answer, Lang
from copydesk.tools.reports import short_diff

Ctx = ServerRequestContext[Any, Any]
MemberOf = Callable[[Ctx], str]
P = TypeVar("P")
R = TypeVar("R")

THREADS: Final = 64
"""The most calls to run at once; others are queued."""

PROGRESS_SECONDS: Final = 0.1
"""The minimum interval between two progress reports."""

TASK_META: Final = "copydesk/task"
"""The key in a call's `_meta` for the label of the caller's task."""

MOST_BYTES: Final = 8_000
"""A longer diff is not shown in a form, so it cannot be decided on there."""

PREFIX: Final = "copydesk://hunk/"
MANUAL_PREFIX: Final = "copydesk://manual/"
MANUAL: Final = MANUAL_PREFIX + "{toolset}/{topic}"
_MIME: Final = "text/markdown"
_MOST_WORDS: Final = 4_000  # bytes of a question, as JSON
_PATIENCE_SECONDS: Final = 600.0  # for the answer of a person
_CALM_SECONDS = 0.05
"""The delay before plans are listed after a change: first the call is answered.

If one call both plans and applies, nothing has changed then.
"""

_SEND_SECONDS: Final = 5.0  # for a client that does not read
_LOOK_SECONDS: Final = 0.5
"""The interval of checks for changes by other processes."""

_TITLE = {"en": "The manual of {toolset}", "zh": "{toolset} 手册"}
_TOPIC = {"en": "One of: {topics}. Default: {first}.", "zh": "可选:{topics}。默认:{first}。"}

_in_call: ContextVar[bool] = ContextVar("in_call", default=False)
"""Whether the code runs for a call of a tool, in any thread."""

_log = logging.getLogger("copydesk")


def question(
    opened: OpenWorkspace, member: str, hunk_id: str, lang: Lang
) -> tuple[Seen, t.ElicitRequestFormParams] | None:
    """The plan as a form, with the digests of the bytes that it shows.

    None if it cannot be shown whole, or cannot be applied now.
    """
    try:
        shown = opened.desk.review.show(opened.person(member), hunk_id)
    except Refusal:
        return None
    diff, cut = short_diff(shown, lang)
    if cut or shown.refusal is not None or len(diff.encode("utf-8", "replace")) > MOST_BYTES:
        return None
    asked = say("ask", lang, {"id": hunk_id, "path": shown.plan.request.path, "owner": member})
    if shown.plan.why:
        asked += "\n" + terminal.line(say("ask.why", lang, {"why": shown.plan.why}))
    fields = {
        "decision": {
            "type": "string",
            "enum": ["approve", "reject"],
            "title": say("ask.decision", lang, {}),
        },
        "reason": {"type": "string", "title": say("ask.reason", lang, {})},
    }
    return shown.seen, t.ElicitRequestFormParams(
        message=sendable(terminal.safe(f"{asked}\n\n{diff}")),
        requested_schema={"type": "object", "properties": fields, "required": ["decision"]},
    )


def decide(
    opened: OpenWorkspace, member: str, seen: Seen, answer: t.ElicitResult, lang: Lang
) -> Decision | None:
    """Record the decision in an answer; None without one, or if file or plan changed meanwhile."""
    content: Mapping[str, object] = answer.content or {}
    verdict, reason = content.get("decision"), content.get("reason")
    if answer.action != "accept" or verdict not in ("approve", "reject"):
        return None
    review, user = opened.desk.review, opened.person(member)
    try:
        if verdict == "approve":
            return review.approve(user, *seen)
        said = reason if isinstance(reason, str) and reason.strip() else say("ask.no", lang, {})
        return review.reject(user, seen.hunk_id, said)
    except Refusal as refusal:
        _log.info("an answer about %s came to nothing: %s", seen.hunk_id, refusal.code)
        return None


def _pending(answer: Answer) -> tuple[str, object]:
    """The id and path of a plan that waits for a person's approval; an empty id if none does."""
    if callable(answer.source):  # a success
        return "", None
    fields, envelope = answer.fields, answer.envelope
    if fields.get("status") == "pending":
        return str(fields.get("hunk_id", "")), fields.get("path")
    if envelope is not None and envelope.error.get("code") == "APPROVAL_REQUIRED":
        return str(answer.facts.get("hunk_id", "")), envelope.path
    return "", None


class Documents:
    """The pending plans of a workspace and its manuals, for the clients of one server."""

    def __init__(
        self,
        opened: OpenWorkspace,
        member_of: MemberOf,
        bus: SubscriptionBus,
        lang: Lang,
        toolsets: Sequence[str],
    ) -> None:
        self._opened, self._member_of, self._bus = opened, member_of, bus
        self.toolsets = [name for name in toolsets if name in reference.MANUALS]
        """Those that have a manual."""
        self._lang: Lang = lang
        self._connections: dict[int, Connection] = {}
        self.due: set[asyncio.Event] = set()
        """What to tell at the end of a call that changes something, so as not to interrupt it.

        Waking the event loop in the middle of a call costs a tenth of a small edit.
        """
        self.groups: list[TaskGroup] = []
        """Those of the servers that run, for tasks that end with them."""

    async def list_resources(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        plans = await to_thread(self._opened.pending, self._member_of(ctx))
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
            + self._manuals()
        )

    async def list_templates(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListResourceTemplatesResult:
        return t.ListResourceTemplatesResult(
            resource_templates=[
                t.ResourceTemplate(uri_template=uri, name=name, mime_type=_MIME)
                for name, uri in {"hunk": PREFIX + "{hunk_id}", "manual": MANUAL}.items()
            ]
        )

    async def read_resource(
        self, ctx: Ctx, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult:
        """A plan as shown, or a part of a manual; raises MCPError if it does not exist."""
        uri, lang = str(params.uri), self._lang
        try:
            if uri.startswith(MANUAL_PREFIX):
                toolset, _, topic = unquote(uri.removeprefix(MANUAL_PREFIX)).partition("/")
                text = reference.part(toolset, topic, lang)
            else:
                show, member = self._opened.pending_report, self._member_of(ctx)
                text = (await to_thread(show, member, _hunk_id(uri), lang)).text
        except Refusal as refusal:
            raise _not_found(uri, refusal.code) from None
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=uri, mime_type=_MIME, text=capped(text, lang))]
        )

    async def subscribe(self, ctx: Ctx, params: t.SubscribeRequestParams) -> t.EmptyResult:
        _hunk_id(str(params.uri))
        _subscribed(_connection(ctx)).add(str(params.uri))
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        _subscribed(_connection(ctx)).discard(str(params.uri))
        return t.EmptyResult()

    async def connected(self, ctx: Ctx, params: t.NotificationParams) -> None:
        """Remember a ready client of the handshake era (to 2025-11-25) while it is connected."""
        connection = _connection(ctx)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or id(connection) in self._connections:
            return
        self._connections[id(connection)] = connection
        connection.exit_stack.callback(self._connections.pop, id(connection), None)

    @asynccontextmanager
    async def watched(self, _: Server[None]) -> AsyncGenerator[None, None]:
        """Notify clients of changes while this context is open."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def notify() -> None:
            if _in_call.get():
                self.due.add(news)
                return
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(news.set)

        with ExitStack() as ends:
            ends.callback(self._opened.on_change(notify))
            async with anyio.create_task_group() as group:
                await group.start(self._watch, news)
                self.groups.append(group)
                ends.callback(self.groups.remove, group)
                yield
                group.cancel_scope.cancel()

    async def _watch(
        self, news: asyncio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        look = self._opened.plans_stamp
        stamp = await self._looked(look, None)
        known = await self._looked(self._waiting, dict[str, object]())
        task_status.started()  # from now on every change is news to the clients
        while True:
            with anyio.move_on_after(_LOOK_SECONDS):
                await news.wait()
            if not news.is_set():
                before, stamp = stamp, await self._looked(look, stamp)
                if stamp == before:
                    continue
            else:
                await anyio.sleep(_CALM_SECONDS)
            news.clear()
            now = await self._looked(self._waiting, known)
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

    async def _looked(self, look: Callable[[], R], known: R) -> R:
        """What is found in a thread; what was known if that fails, for the next look will tell."""
        try:
            return await to_thread(look)
        except Refusal:
            return known
        except Exception:  # best effort: a failed notification must not end the server
            _log.exception("cannot list the plans that wait")
            return known

    def _waiting(self) -> dict[str, object]:
        """The pending plans, each with a value that differs once it is replanned."""
        config = self._opened.settings
        return {
            PREFIX + waiting.plan.id: (waiting.plan, waiting.decision)
            for member in (config.member, *config.members)
            for waiting in self._opened.desk.review.pending(self._opened.member(member))
        }

    def _manuals(self) -> list[t.Resource]:
        """The pages of the manuals as resources; a template has their parts too."""
        return [
            t.Resource(
                uri=f"{MANUAL_PREFIX}{toolset}/{topic}",
                name=f"{toolset} {topic}",
                title=f"{self._title(toolset)}: {topic}",
                mime_type=_MIME,
            )
            for toolset in self.toolsets
            for topic in reference.topics(toolset)
        ]

    async def list_prompts(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[*map(self._prompt, self.toolsets)])

    async def get_prompt(self, ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """The text of a topic; raises MCPError if it does not exist."""
        topics = self._topics(params.name)
        topic = (params.arguments or {}).get("topic") or topics[0]
        if topic not in topics:
            raise MCPError(t.INVALID_PARAMS, f"Unknown topic; there are: {', '.join(topics)}")
        text = capped(reference.read(params.name, topic, self._lang), self._lang)
        message = t.PromptMessage(role="user", content=t.TextContent(text=text))
        return t.GetPromptResult(description=self._title(params.name), messages=[message])

    async def complete(self, ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
        """The topics or toolsets that begin with the typed text."""
        known: Sequence[str] = ()
        if isinstance(params.ref, t.PromptReference) and params.argument.name == "topic":
            known = self._topics(params.ref.name)
        elif isinstance(params.ref, t.ResourceTemplateReference) and params.ref.uri == MANUAL:
            chosen = (params.context.arguments if params.context else None) or {}
            toolset = chosen.get("toolset", self.toolsets[0] if self.toolsets else "")
            if params.argument.name == "toolset":
                known = self.toolsets
            elif toolset in self.toolsets:
                known = reference.all_topics(toolset, self._lang)
        begun = (value for value in known if value.startswith(params.argument.value))
        values = list(islice(begun, 100))  # the limit of the protocol
        return t.CompleteResult(
            completion=t.Completion(values=values, total=len(values), has_more=False)
        )

    def _topics(self, toolset: str) -> tuple[str, ...]:
        if toolset not in self.toolsets:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {sendable(toolset)[:100]}")
        return reference.topics(toolset)

    def _title(self, toolset: str) -> str:
        return _TITLE[self._lang].format(toolset=toolset)

    def _prompt(self, toolset: str) -> t.Prompt:
        topics = reference.topics(toolset)
        words = _TOPIC[self._lang].format(topics=", ".join(topics), first=topics[0])
        topic = t.PromptArgument(name="topic", description=words, required=False)
        title = self._title(toolset)
        return t.Prompt(name=toolset, title=title, description=title, arguments=[topic])


def _connection(ctx: Ctx) -> Connection:
    """The connection of a request: only its exit stack reveals when it closes."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # no other way


def _subscribed(connection: Connection) -> set[str]:
    return cast("set[str]", connection.state.setdefault("copydesk.subscribed", set[str]()))


def _hunk_id(uri: str) -> str:
    if not uri.startswith(PREFIX):
        raise _not_found(uri, "HUNK_NOT_FOUND")
    return uri.removeprefix(PREFIX)


def _not_found(uri: str, code: str) -> MCPError:
    return MCPError(t.INVALID_PARAMS, f"Resource not found: {code}", {"uri": sendable(uri)[:200]})


class CopydeskServer(Server[None]):
    """The library's server, which also announces list changes to clients of the handshake era."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> t.ServerCapabilities:
        """The library's capabilities, except that at runtime only resources change."""
        capabilities = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        for capability in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if capability is not None:
                capability.list_changed = capability is capabilities.resources
        return capabilities


def build(
    opened: OpenWorkspace,
    member_of: MemberOf,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
) -> CopydeskServer:
    """The server of an open workspace.

    `member_of` returns the member that sent a request. With `structured=False` results are text
    only. One server can serve many connections, of both protocol eras.
    """
    bus = InMemorySubscriptionBus()
    settings = opened.settings
    applies = settings.of_member(settings.member).apply or settings.apply
    documents = Documents(opened, member_of, bus, lang, toolsets)
    instructions = reference.instructions(documents.toolsets, lang, auto=applies == "auto")
    tools = _Tools(opened, member_of, tuple(toolsets), lang, structured, documents)

    hint = CacheHint(ttl_ms=60_000, scope="private")
    server = CopydeskServer(
        "copydesk",
        version=__version__,
        title="copydesk",
        instructions=capped(instructions, lang),
        cache_hints={"tools/list": hint, "prompts/list": hint, "resources/templates/list": hint},
        lifespan=documents.watched,
        get_tool_input_schema=tools.input_schema,
        on_list_tools=guarded(tools.list_tools),
        on_call_tool=guarded(tools.call_tool),
        on_list_resources=guarded(documents.list_resources),
        on_list_resource_templates=guarded(documents.list_templates),
        on_read_resource=guarded(documents.read_resource),
        on_subscribe_resource=guarded(documents.subscribe),
        on_unsubscribe_resource=guarded(documents.unsubscribe),
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=guarded(documents.list_prompts),
        on_get_prompt=guarded(documents.get_prompt),
        on_completion=guarded(documents.complete),
    )
    server.add_notification_handler(
        "notifications/initialized", t.NotificationParams, documents.connected
    )
    return server


def guarded(handler: Callable[[Ctx, P], Awaitable[R]]) -> Callable[[Ctx, P], Awaitable[R]]:
    """Wrap a handler: a crash is logged under an id, and the client gets only that id."""

    @wraps(handler)
    async def run(ctx: Ctx, params: P) -> R:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Refusal as refusal:
            words = sendable(refusals.refusal_words(refusal, "en"))
            raise MCPError(t.INTERNAL_ERROR, f"{refusal.code}: {words}") from None
        except Exception:  # a bug must not end the server or reveal its internals
            raise MCPError(t.INTERNAL_ERROR, f"Internal error, log id {logged(ctx)}") from None

    return run


def logged(ctx: Ctx) -> str:
    """Log the current exception; return the id of the log entry."""
    crash = secrets.token_hex(4)
    _log.exception("call %s of %s", crash, sendable(ctx.method))
    return crash


_Offer = tuple[Mapping[str, str], t.ListToolsResult]
"""The tools offered to one member: their own names by those for calls, and their list."""


@dataclass
class _Tools:
    """The handlers of tools, with the tool lists cached for each set of tools."""

    opened: OpenWorkspace
    member_of: MemberOf
    toolsets: tuple[str, ...]
    lang: Lang
    structured: bool
    documents: Documents
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(THREADS))
    offers: dict[frozenset[str], _Offer] = field(default_factory=dict[frozenset[str], "_Offer"])

    def offer(self, member: str) -> _Offer:
        tools = self.opened.tools(member, self.toolsets)
        names = frozenset(tool.name for tool in tools)
        if names not in self.offers:
            definitions = reference.definitions(tools, "mcp", self.lang)
            self.offers[names] = (
                {name: tool.name for name, tool in by_name(tools).items()},
                t.ListToolsResult(tools=[*map(t.Tool.model_validate, definitions)]),
            )
        return self.offers[names]

    def named(self, member: str, name: str) -> str | None:
        """The own name of the tool that a member calls by this name; None if it is not offered."""
        tool = self.opened.catalog.tools.get(name)
        if tool is not None and self.opened.offers(member, tool, self.toolsets):
            return name
        return self.offer(member)[0].get(name)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """A tool's schema; the library looks it up for each call over HTTP."""
        tool = self.opened.catalog.tools.get(name)
        return None if tool is None else dict(tool.schema)

    async def list_tools(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        return self.offer(self.member_of(ctx))[1]

    async def call_tool(self, ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        member = self.member_of(ctx)
        tool = self.named(member, params.name)
        if tool is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {sendable(params.name)[:100]}")
        arguments = original_arguments(ctx.request, params.arguments or {})
        task, within = _task_of(params), _in_call.set(True)
        try:
            answer = await self._run(ctx, member, tool, arguments, task)
        except Exception:  # as in `guarded`, in a form that the caller of a tool can read
            answer = crashed(params.name, logged(ctx), self.lang)
        finally:
            _in_call.reset(within)
            while self.documents.due:
                self.documents.due.pop().set()
        self._ask(ctx, member, answer)
        return tool_result(answer, self.lang, structured=self.structured)

    def _ask(self, ctx: Ctx, member: str, answer: Answer) -> None:
        """Ask the client's user in the background if the answer says that a plan is pending.

        That is once for each plan and connection, and only in the handshake era, which has such
        requests: for a client of the modern one the call would have to stay open meanwhile.
        """
        hunk_id, path = _pending(answer)
        connection = _connection(ctx)
        capabilities = connection.client_capabilities
        can = None if capabilities is None else capabilities.elicitation
        asked = cast("set[str]", connection.state.setdefault("copydesk.asked", set[str]()))
        is_modern, groups = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS, self.documents.groups
        if not hunk_id or hunk_id in asked or can is None or is_modern or not groups:
            return
        asked.add(hunk_id)
        page = None if can.url is None else self.opened.page
        groups[-1].start_soon(self._tell, connection, member, hunk_id, path, page)

    async def _tell(
        self, connection: Connection, member: str, hunk_id: str, path: object, page: str | None
    ) -> None:
        """Show a link to the page, otherwise a form for the decision, otherwise just a message."""
        seen: Seen | None = None
        bell = say("bell", self.lang, {"id": hunk_id, "path": path})
        words, empty = capped(bell, self.lang, _MOST_WORDS), dict[str, Any]()
        params: t.ElicitRequestParams = t.ElicitRequestFormParams(
            message=words, requested_schema={"type": "object", "properties": empty}
        )
        if page is not None:
            link, new_id = f"{page}/hunk/{hunk_id}", secrets.token_hex(8)
            params = t.ElicitRequestURLParams(message=words, url=link, elicitation_id=new_id)
        elif self.opened.settings.elicitation == "decide":
            asked = await to_thread(question, self.opened, member, hunk_id, self.lang)
            seen, params = asked or (None, params)
        with anyio.move_on_after(_PATIENCE_SECONDS):
            try:
                answer = await connection.send_request(t.ElicitRequest(params=params))
                if seen is not None:
                    await to_thread(decide, self.opened, member, seen, answer, self.lang)
            except MCPError:
                pass  # the client cannot ask, or did not want to
            except Exception:  # best effort: a failed question must not end the server
                _log.exception("cannot ask the client's user")

    async def _run(self, ctx: Ctx, member: str, name: str, arguments: object, task: str) -> Answer:
        cancelled, ended = threading.Event(), Future[None]()
        progress = _Progress(asyncio.get_running_loop(), ctx.session.report_progress)

        def call() -> Answer:
            if not ended.set_running_or_notify_cancel():  # nobody would wait for its end
                raise Cancelled()
            try:
                return self.opened.call(
                    member,
                    name,
                    arguments,
                    lang=self.lang,
                    progress=progress,
                    cancelled=cancelled.is_set,
                    toolsets=self.toolsets,
                    task=task,
                )
            finally:
                ended.set_result(None)

        async with self.limiter:  # even while a cancelled call still runs
            try:
                answer = await to_thread(
                    call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )
            except anyio.get_cancelled_exc_class():
                cancelled.set()
                if not ended.cancel():  # a write that has begun is completed
                    with anyio.CancelScope(shield=True):
                        await asyncio.wrap_future(ended)
                raise
        await progress.sent()
        return answer


def _task_of(params: t.CallToolRequestParams) -> str:
    """The label of the caller's task, which a client may send with the call."""
    given: object = (params.meta or {}).get(TASK_META, "")
    try:
        return check_why("task", given if isinstance(given, str) else "\0")
    except InvalidArgs as invalid:
        raise MCPError(t.INVALID_PARAMS, f"_meta {TASK_META}: {invalid.reason}") from None


class _Progress:
    """Takes progress from any thread and sends it at intervals, one message at a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Callable[[float], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop, self._send = loop, send
        self._seen, self._next = 0, 0.0
        self._sending: asyncio.Task[None] | None = None

    def __call__(self, seen: int) -> None:
        now = time.monotonic()
        if seen <= self._seen or now < self._next:
            return
        self._seen, self._next = seen, now + PROGRESS_SECONDS
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._begin, seen)

    async def sent(self) -> None:
        """Wait until pending messages have been sent."""
        if self._sending is not None:
            await self._sending

    def _begin(self, seen: int) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send(float(seen)))


Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]

_CHUNK: Final = 1 << 16
"""The most bytes to read at once; a longer message is written in a thread."""


@asynccontextmanager
async def messages_of(
    wire: Wire, *, at_end: Callable[[], None], most: int = MOST_MESSAGE_BYTES
) -> AsyncGenerator[Streams, None]:
    """The streams that the protocol library serves, over two descriptors.

    `at_end` is called, in a thread, when the input ends. A line above `most` bytes is skipped and
    answered. What was answered early is not sent again.
    """
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](float("inf"))
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    one_writes, answered = anyio.Lock(), dict(wire.answered)

    async def write(data: bytes) -> None:
        async with one_writes:
            with suppress(OSError):  # nobody reads any more, so the input will end too
                if left := _write_at_once(wire.sink, data + b"\n"):
                    await to_thread(write_all, wire.sink, left)

    async def write_messages() -> None:
        async with leaving:
            async for message in leaving:
                sent = message.message
                encoded = _encoded(sent)
                early = None
                if isinstance(sent, t.JSONRPCResponse | t.JSONRPCError):
                    early = answered.pop(sent.id, None)
                elif isinstance(sent, t.JSONRPCNotification) and sent.method == ACKNOWLEDGED:
                    early = answered.pop((sent.params or {})["_meta"][SUBSCRIPTION], None)
                if early is None:
                    await write(encoded)
                elif early.rstrip() != encoded and b'"resultType"' not in early:
                    await write(_CHANGED)  # a plan came meanwhile; the modern era asks by itself

    token, loop = anyio.lowlevel.current_token(), asyncio.get_running_loop()

    def arrive(message: SessionMessage) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            arrived.send_nowait(message)

    def read() -> None:
        with suppress(anyio.RunFinishedError, RuntimeError):  # the loop has ended
            for line in _lines(chain([wire.head], iter(partial(_read, wire.source), b"")), most):
                taken = _taken(line)
                if isinstance(taken, ErrorReply):
                    anyio.from_thread.run(write, taken.reply, token=token)
                elif taken is not None:
                    # It is not awaited: waking this thread would interrupt the call that begins.
                    loop.call_soon_threadsafe(arrive, taken)
            at_end()
            anyio.from_thread.run_sync(arrived.close, token=token)

    async with anyio.create_task_group() as group:
        group.start_soon(write_messages)
        # A daemon, since nothing can end a blocked read from outside.
        threading.Thread(target=read, name="copydesk stdin", daemon=True).start()
        yield incoming, outgoing
        outgoing.close()


def _taken(line: bytes | ErrorReply) -> SessionMessage | ErrorReply | None:
    """The message in a line, or the answer to a bad one; None for an empty line."""
    if isinstance(line, ErrorReply):
        return line
    parsed = parse_message(line) if line.strip() else None
    if not isinstance(parsed, ParsedMessage):
        return parsed
    carrier = (
        None
        if parsed.repaired is None  # else in place of a request of HTTP
        else ServerMessageMetadata(request_context=SimpleNamespace(scope=parsed.repaired))
    )
    return SessionMessage(parsed.message, carrier)


def _encoded(message: t.JSONRPCMessage) -> bytes:
    """The message as JSON; if it cannot be encoded, an error with the same id."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        _log.exception("a message cannot be written")
        request_id = message.id if isinstance(message, t.JSONRPCResponse) else None
        return error_reply(
            t.INTERNAL_ERROR, "The result cannot be written as JSON", request_id
        ).reply


def _write_at_once(sink: int, data: bytes) -> memoryview:
    """Write as much as a pipe takes without blocking; return the rest for a thread."""
    view = memoryview(data)
    if not hasattr(select, "poll") or len(data) > _CHUNK:
        return view
    ready: Any = select.poll()
    ready.register(sink, select.POLLOUT)
    while view and [event for _, event in ready.poll(0)] == [select.POLLOUT]:
        view = view[os.write(sink, view[: select.PIPE_BUF]) :]
    return view


def _lines(chunks: Iterable[bytes], most: int) -> Iterator[bytes | ErrorReply]:
    """The lines; for one above the limit, the answer to it."""
    buffer = bytearray()
    skipped: ErrorReply | None = None
    for chunk in chunks:
        for part in BytesIO(chunk):
            buffer += part
            if len(buffer) > most:
                skipped = skipped or too_large(bytes(buffer[:_CHUNK]), most)
                buffer.clear()
            if part.endswith(b"\n"):
                yield skipped or bytes(buffer)
                skipped = None
                buffer.clear()
    if buffer or skipped:
        yield skipped or bytes(buffer)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""


async def keep_first_answers(
    keep: Callable[[Table, str], None],
    opened: OpenWorkspace,
    member: str,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
) -> None:
    """Keep what a server with these options answers first."""
    table = await recorded(
        build(opened, lambda _: member, toolsets, lang, structured),
        resources=opened.settings.registry == "sqlite",
    )
    await to_thread(keep, table, os.path.join(opened.root, opened.settings.state))


async def recorded(server: CopydeskServer, *, resources: bool) -> Table:
    """What the server answers first, by protocol version; its `resources` are without plans."""
    lists = ("tools/list", "prompts/list", *([RESOURCES] if resources else []))
    table: dict[str, dict[str, str]] = {}
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        hello = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "", "version": ""},
        }
        asked = {"initialize": hello, **{key: dict[str, Any]() for key in ("ping", *lists)}}
        table[version] = await _answers(server, asked)
    meta: dict[str, object] = {
        t.PROTOCOL_VERSION_META_KEY: MODERN,
        t.CLIENT_CAPABILITIES_META_KEY: {},
    }
    modern = {method: {"_meta": meta} for method in ("server/discover", *lists)}
    table[MODERN] = {**await _answers(server, modern), LISTEN: HONORED}
    for answers in table.values() if resources else ():
        result = json.loads(answers[RESOURCES])
        result["resources"] = [
            each for each in result["resources"] if not each["uri"].startswith(PREFIX)
        ]
        answers[RESOURCES] = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return table


async def _answers(
    server: CopydeskServer, asked: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """The results, as JSON, of the requests of one client."""
    arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](1)
    results: dict[str, str] = {}
    async with anyio.create_task_group() as group, arriving, leaving:
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        for method, params in asked.items():
            request = t.JSONRPCRequest(jsonrpc="2.0", id=0, method=method, params=dict(params))
            await arriving.send(SessionMessage(request))
            line = _encoded((await leaving.receive()).message).decode()
            results[method] = line.removeprefix(_RESULT).removesuffix("}")
            if method == "initialize":
                ready = t.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
                await arriving.send(SessionMessage(ready))
        group.cancel_scope.cancel()
    return results


_CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}'
_RESULT: Final = '{"jsonrpc":"2.0","id":0,"result":'
KEEP_AFTER_SECONDS: Final = 0.5
"""How long after its start a server keeps what it answers first: its client's calls go before."""

GRACE_SECONDS: Final = 5.0
"""The time that running calls get after the client has gone."""


def run_stdio(
    opened: OpenWorkspace,
    member: str,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
    *,
    wire: Wire | None = None,
) -> None:
    """Serve one client on standard input and output, as `member`, until it leaves.

    Ends with the input, or on SIGTERM or SIGINT. Standard output carries only protocol messages;
    anything else printed there goes to standard error. Running searches are stopped, and a write
    that has begun is completed; calls that do not end within the grace period are abandoned. `wire`
    is what has been claimed, and perhaps answered, already.
    """

    late, is_first = threading.Timer(GRACE_SECONDS, os._exit, (1,)), threading.Lock()
    late.daemon = True

    def begin_end() -> None:
        """Start the deadline, after which the process exits at once; in any thread, once."""
        if is_first.acquire(blocking=False):
            late.start()

    async def end_on_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            await anext(signals)
            begin_end()
            scope.cancel()

    async def keep(keep: Callable[[Table, str], None]) -> None:
        try:
            await anyio.sleep(KEEP_AFTER_SECONDS)
        finally:  # at the end, if that comes first
            with anyio.CancelScope(shield=True):
                try:
                    await keep_first_answers(keep, opened, member, toolsets, lang, structured)
                except Exception:  # best effort: the next start is only slower
                    _log.exception("cannot keep what the server answers first")

    async def main(claimed_wire: Wire) -> None:
        server = build(opened, lambda _: member, toolsets, lang, structured)
        async with anyio.create_task_group() as group:
            group.start_soon(end_on_signal, group.cancel_scope)
            if claimed_wire.keep is not None:
                group.start_soon(keep, claimed_wire.keep)
            async with messages_of(claimed_wire, at_end=begin_end) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()

    with claimed_stdio() if wire is None else nullcontext(wire) as used:
        try:
            anyio.run(main, used)
        finally:
            late.cancel()
