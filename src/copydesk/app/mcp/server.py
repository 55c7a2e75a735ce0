"""The MCP server: the catalog's tools for a client, on any transport.

Import it only where a server is started: the protocol library takes most of a second. No text
of a Python exception reaches a client; calls run in threads, so none blocks another.
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
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import mcp_types as t
from anyio.abc import TaskStatus
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from copydesk import __version__
from copydesk.app.mcp.elicitation import Elicitor
from copydesk.app.mcp.messages import capped, original_arguments, sendable, tool_result
from copydesk.app.mcp.resources import Hunks, Manuals
from copydesk.app.workspace import OpenWorkspace
from copydesk.edit.request import check_why
from copydesk.errors import InvalidArgs, Refusal
from copydesk.tools import refusals
from copydesk.tools.catalog import Answer, Tool, by_name, crashed
from copydesk.tools.dialects import definitions
from copydesk.tools.report import Lang

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
        """Run the call in a thread."""
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
