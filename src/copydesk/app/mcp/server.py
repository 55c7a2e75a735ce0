"""The MCP server: the catalog's tools for a client, and questions to its user about a pending plan.

Import it only where a server is started: the protocol library takes most of a second. No text
of a Python exception reaches a client; calls run in threads, so none blocks another. The user is
shown the whole diff, and an approval holds for those bytes only; an answer that is no decision
decides nothing. No call waits for it: without it all answers are the same.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.to_thread
import mcp_types as t
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import run_sync as to_thread
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from copydesk import __version__
from copydesk.app import terminal
from copydesk.app.mcp.messages import capped, original_arguments, sendable, tool_result
from copydesk.app.mcp.resources import Hunks, Manuals
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.edit.request import check_why
from copydesk.errors import InvalidArgs, Refusal
from copydesk.tools import refusals
from copydesk.tools.answers import Answer, Envelope
from copydesk.tools.catalog import Tool, by_name, crashed
from copydesk.tools.messages import say
from copydesk.tools.reference import definitions
from copydesk.tools.report import Lang
from copydesk.tools.reports import short_diff

MOST_BYTES: Final = 8_000
"""A longer diff is not shown in a form, so it cannot be decided on there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A plan as it was shown in a form; `before` and `after` are the digests of these bytes."""

    hunk_id: str
    before: str
    after: str
    params: t.ElicitRequestFormParams


def question(opened: OpenWorkspace, member: str, hunk_id: str, lang: Lang) -> Question | None:
    """The plan as a form; None when it cannot be shown whole, or cannot be made now."""
    try:
        shown = opened.desk.review.show(opened.person(member), hunk_id)
    except Refusal:
        return None
    diff, cut = short_diff(shown, lang)
    if cut or shown.refusal is not None or len(diff.encode("utf-8", "replace")) > MOST_BYTES:
        return None
    facts: dict[str, object] = {"id": hunk_id, "path": shown.plan.request.path, "owner": member}
    asked = say("ask", lang, facts)
    if shown.plan.why:
        asked += "\n" + terminal.line(say("ask.why", lang, {"why": shown.plan.why}))
    message = terminal.safe(f"{asked}\n\n{diff}")
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "enum": ["approve", "reject"],
                "title": say("ask.decision", lang, {}),
            },
            "reason": {"type": "string", "title": say("ask.reason", lang, {})},
        },
        "required": ["decision"],
    }
    params = t.ElicitRequestFormParams(message=sendable(message), requested_schema=schema)
    return Question(hunk_id, shown.before, shown.after, params)


def decide(
    opened: OpenWorkspace, member: str, asked: Question, answer: t.ElicitResult, lang: Lang
) -> Decision | None:
    """Record the decision in an answer; None if it has none, or file or plan changed meanwhile."""
    content: Mapping[str, object] = answer.content or {}
    verdict, reason = content.get("decision"), content.get("reason")
    if answer.action != "accept" or verdict not in ("approve", "reject"):
        return None
    review, user = opened.desk.review, opened.person(member)
    try:
        if verdict == "approve":
            return review.approve(user, asked.hunk_id, asked.before, asked.after)
        why = reason if isinstance(reason, str) and reason.strip() else say("ask.no", lang, {})
        return review.reject(user, asked.hunk_id, why)
    except Refusal as refusal:
        _log.info("an answer about %s came to nothing: %s", asked.hunk_id, refusal.code)
        return None


_ASKED: Final = "copydesk.asked"
_MOST_BYTES: Final = 4_000
_PATIENCE_SECONDS: Final = 600.0


class Elicitor:
    """Asks the users of one server's clients, once for each plan and connection.

    Only the handshake era has such requests; a client of the modern one would
    have to hold the call open while it asks, which is not wanted here.
    """

    def __init__(self, opened: OpenWorkspace, lang: Lang) -> None:
        self._opened = opened
        self._lang: Lang = lang
        self._groups: list[TaskGroup] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Allow questions while this context is open."""
        async with anyio.create_task_group() as group:
            self._groups.append(group)
            try:
                yield
            finally:
                self._groups.remove(group)
                group.cancel_scope.cancel()

    def ask(self, ctx: ServerRequestContext[Any, Any], member: str, answer: Answer) -> None:
        """Ask the client's user, in the background, if the answer says that a plan is pending."""
        hunk_id, path = _pending(answer)
        if not hunk_id or not self._groups:
            return
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # no other way
        asked = cast("set[str]", connection.state.setdefault(_ASKED, set[str]()))
        capabilities = connection.client_capabilities
        can = None if capabilities is None else capabilities.elicitation
        if can is None or hunk_id in asked or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        asked.add(hunk_id)
        page = self._opened.page
        link = f"{page}/hunk/{hunk_id}" if can.url is not None and page is not None else None
        self._groups[-1].start_soon(self._tell, connection, member, hunk_id, path, link)

    async def _tell(
        self, connection: Connection, member: str, hunk_id: str, path: object, link: str | None
    ) -> None:
        """Show a link to the page, else a form with the decision, else a message alone."""
        asked: Question | None = None
        if link is None and self._opened.settings.elicitation == "decide":
            asked = await to_thread(question, self._opened, member, hunk_id, self._lang)
        words = capped(
            say("bell", self._lang, {"id": hunk_id, "path": path}), self._lang, _MOST_BYTES
        )
        if link is not None:
            params = t.ElicitRequestURLParams(
                message=words, url=link, elicitation_id=secrets.token_hex(8)
            )
            await _sent(connection, t.ElicitRequest(params=params))
        elif asked is None:
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            form = t.ElicitRequestFormParams(message=words, requested_schema=empty)
            await _sent(connection, t.ElicitRequest(params=form))
        else:
            answer = await _sent(connection, t.ElicitRequest(params=asked.params))
            if answer is not None:
                await to_thread(decide, self._opened, member, asked, answer, self._lang)


def _pending(answer: Answer) -> tuple[str, object]:
    """The id and the path of the plan that a person has to approve; an empty id for none."""
    fields = answer.fields
    if fields.get("status") == "pending":
        return str(fields.get("hunk_id", "")), fields.get("path")
    if not isinstance(answer, Envelope) or answer.error.get("code") != "APPROVAL_REQUIRED":
        return "", None
    return str(answer.data_fields.get("hunk_id", "")), answer.context.path


async def _sent(connection: Connection, request: t.ElicitRequest) -> t.ElicitResult | None:
    """The user's answer; None if none comes in time."""
    with anyio.move_on_after(_PATIENCE_SECONDS):
        try:
            return await connection.send_request(request)
        except MCPError:
            return None  # it has no way to be asked, or did not want to
        except Exception:  # best effort: a question that failed must not end the server
            _log.exception("cannot ask the client's user")
    return None


Ctx = ServerRequestContext[Any, Any]
MemberOf = Callable[[Ctx], str]
P = TypeVar("P")
R = TypeVar("R")

THREADS: Final = 64
"""How many calls run at once; more wait for their turn."""

PROGRESS_SECONDS: Final = 0.1
"""The least time between two reports of progress."""

TASK_META: Final = "copydesk/task"
"""The key of a call's `_meta` that labels what the caller works on."""

_log = logging.getLogger("copydesk")


class CopydeskServer(Server[None]):
    """The library's server, which also announces list changes to clients of the handshake era."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the library has it, with changes of resources announced unless told otherwise."""
        told = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> t.ServerCapabilities:
        """As the library has it, but tools and prompts never change while a server runs."""
        found = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        for capability in (found.tools, found.prompts):
            if capability is not None:
                capability.list_changed = False
        return found


def build(
    opened: OpenWorkspace,
    member_of: MemberOf,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
) -> CopydeskServer:
    """The server of an open workspace.

    `member_of` gives the member that sent a request. With `structured=False` results are
    text only. One server may serve many connections, of both protocol eras.
    """
    elicitor = Elicitor(opened, lang)
    tools = _Tools(opened, member_of, tuple(toolsets), lang, structured, elicitor)
    bus = InMemorySubscriptionBus()
    settings = opened.settings
    applies = settings.of_member(settings.member).apply or settings.apply
    manuals = Manuals(toolsets, lang, auto=applies == "auto")
    hunks = Hunks(opened, member_of, bus, lang, manuals)
    hint = CacheHint(ttl_ms=60_000, scope="private")
    server = CopydeskServer(
        "copydesk",
        version=__version__,
        title="copydesk",
        instructions=capped(manuals.instructions(), lang),
        cache_hints={"tools/list": hint, "prompts/list": hint, "resources/templates/list": hint},
        lifespan=_lifespan(hunks, elicitor),
        get_tool_input_schema=tools.input_schema,
        on_list_tools=guarded(tools.list_tools),
        on_call_tool=guarded(tools.call_tool),
        on_list_resources=guarded(hunks.list_resources),
        on_list_resource_templates=guarded(hunks.list_templates),
        on_read_resource=guarded(hunks.read_resource),
        on_subscribe_resource=guarded(hunks.subscribe),
        on_unsubscribe_resource=guarded(hunks.unsubscribe),
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=guarded(manuals.list_prompts),
        on_get_prompt=guarded(manuals.get_prompt),
        on_completion=guarded(manuals.complete),
    )
    server.add_notification_handler(
        "notifications/initialized", t.NotificationParams, hunks.connected
    )
    return server


def guarded(handler: Callable[[Ctx, P], Awaitable[R]]) -> Callable[[Ctx, P], Awaitable[R]]:
    """Wrap a handler: a crash is logged under an id, and the client gets that id alone."""

    @wraps(handler)
    async def run(ctx: Ctx, params: P) -> R:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Refusal as refusal:
            words = sendable(refusals.refusal_words(refusal, "en"))
            raise MCPError(t.INTERNAL_ERROR, f"{refusal.code}: {words}") from None
        except Exception:  # a bug must not end the server, nor show its insides
            raise MCPError(t.INTERNAL_ERROR, f"Internal error, log id {logged(ctx)}") from None

    return run


def logged(ctx: Ctx) -> str:
    """Log the current exception; the id that it is logged under."""
    crash = secrets.token_hex(4)
    _log.exception("call %s of %s", crash, sendable(ctx.method))
    return crash


def _lifespan(
    hunks: Hunks, elicitor: Elicitor
) -> Callable[[Server[None]], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None, None]:
        async with hunks.watched(), elicitor.running():
            yield None

    return lifespan


@dataclass
class _Tools:
    """The handlers of tools, with the tool lists cached for each set of tools."""

    opened: OpenWorkspace
    member_of: MemberOf
    toolsets: tuple[str, ...]
    lang: Lang
    structured: bool
    elicitor: Elicitor
    limiter: anyio.CapacityLimiter = field(init=False)
    offers: dict[frozenset[str], _Offer] = field(default_factory=dict[frozenset[str], "_Offer"])

    def __post_init__(self) -> None:
        self.limiter = anyio.CapacityLimiter(THREADS)

    def offer(self, member: str) -> _Offer:
        tools = self.opened.tools(member, self.toolsets)
        names = frozenset(tool.name for tool in tools)
        if names not in self.offers:
            self.offers[names] = _Offer.of(tools, self.lang)
        return self.offers[names]

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """A tool's schema; the library looks it up at each call over HTTP."""
        tool = self.opened.catalog.tools.get(name)
        return None if tool is None else dict(tool.schema)

    async def list_tools(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        return self.offer(self.member_of(ctx)).listed

    async def call_tool(self, ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        member = self.member_of(ctx)
        tool = self.offer(member).names.get(params.name)
        if tool is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {sendable(params.name)[:100]}")
        given = {} if params.arguments is None else params.arguments
        arguments = original_arguments(ctx.request, given)
        task = _task_of(params)
        try:
            answer = await self._run(ctx, member, tool, arguments, task)
        except Exception:  # as in `guarded`, in the form that a tool's caller can read
            answer = crashed(params.name, logged(ctx), self.lang)
        self.elicitor.ask(ctx, member, answer)
        return tool_result(answer, self.lang, structured=self.structured)

    async def _run(self, ctx: Ctx, member: str, name: str, arguments: object, task: str) -> Answer:
        async with _channel(ctx) as (progress, gone):

            def call() -> Answer:
                return self.opened.call(
                    member,
                    name,
                    arguments,
                    lang=self.lang,
                    progress=progress,
                    cancelled=gone.is_set,
                    text_only=not self.structured,
                    task=task,
                )

            return await anyio.to_thread.run_sync(call, limiter=self.limiter)


def _task_of(params: t.CallToolRequestParams) -> str:
    """The label of the caller's task, which a client may give with the call."""
    given: object = (params.meta or {}).get(TASK_META, "")
    try:
        return check_why("task", given if isinstance(given, str) else "\0")
    except InvalidArgs as invalid:
        raise MCPError(t.INVALID_PARAMS, f"_meta {TASK_META}: {invalid.reason}") from None


@asynccontextmanager
async def _channel(ctx: Ctx) -> AsyncGenerator[tuple[_Progress, threading.Event], None]:
    """The channel between a working thread and its caller: progress out, cancellation in."""
    gone = threading.Event()
    send, receive = anyio.create_memory_object_stream[int](1)

    async def accompany(*, task_status: TaskStatus[None]) -> None:
        try:
            task_status.started()
            async for seen in receive:
                await ctx.session.report_progress(float(seen))
        finally:
            gone.set()

    async with receive, anyio.create_task_group() as group:
        await group.start(accompany)  # from now on a cancelled call is known to be one
        async with send:
            yield _Progress(asyncio.get_running_loop(), send.send_nowait), gone


class _Progress:
    """Takes progress from any thread and forwards it at intervals."""

    def __init__(self, loop: asyncio.AbstractEventLoop, offer: Callable[[int], None]) -> None:
        self._loop, self._offer = loop, offer
        self._seen, self._next = 0, 0.0

    def __call__(self, seen: int) -> None:
        now = time.monotonic()
        if seen <= self._seen or now < self._next:
            return
        self._seen, self._next = seen, now + PROGRESS_SECONDS
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._pass, seen)

    def _pass(self, seen: int) -> None:
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._offer(seen)


@dataclass(frozen=True)
class _Offer:
    """The tools that one member sees; `names` are their own by those they are called by."""

    names: Mapping[str, str]
    listed: t.ListToolsResult

    @classmethod
    def of(cls, tools: Sequence[Tool], lang: Lang) -> _Offer:
        listed = [t.Tool.model_validate(one) for one in definitions(tools, "mcp", lang)]
        names = {name: tool.name for name, tool in by_name(tools).items()}
        return cls(names, t.ListToolsResult(tools=listed))
