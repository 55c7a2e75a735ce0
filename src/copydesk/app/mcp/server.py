"""The MCP server: the catalog's tools for a client, and questions to its user about a pending plan.

Import it only to start a server: importing the protocol library takes most of a second. No text of
a Python exception reaches a client; calls run in threads, so none blocks another. The user sees the
whole diff, and an approval holds for those bytes only; an answer without a decision decides
nothing. No call waits for the user: without an answer, all results are the same.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import mcp_types as t
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync as to_thread
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from copydesk import __version__
from copydesk.app import terminal
from copydesk.app.mcp.messages import (
    MOST_MESSAGE_BYTES,
    ErrorReply,
    RequestScope,
    capped,
    error_reply,
    original_arguments,
    parse_message,
    sendable,
    too_large,
    tool_result,
)
from copydesk.app.mcp.resources import Hunks, Manuals
from copydesk.app.reference import definitions
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.edit.request import check_why
from copydesk.errors import Cancelled, InvalidArgs, Refusal
from copydesk.tools import refusals
from copydesk.tools.catalog import by_name, crashed
from copydesk.tools.messages import say
from copydesk.tools.report import Answer, Lang
from copydesk.tools.reports import short_diff

MOST_BYTES: Final = 8_000
"""A longer diff is not shown in a form, so it cannot be decided on there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A plan as shown in a form; `before` and `after` are the digests of these bytes."""

    hunk_id: str
    before: str
    after: str
    params: t.ElicitRequestFormParams


def question(opened: OpenWorkspace, member: str, hunk_id: str, lang: Lang) -> Question | None:
    """The plan as a form; None if it cannot be shown whole, or cannot be applied now."""
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
    """Record the decision in an answer; None without one, or if file or plan changed meanwhile."""
    content: Mapping[str, object] = answer.content or {}
    verdict, reason = content.get("decision"), content.get("reason")
    if answer.action != "accept" or verdict not in ("approve", "reject"):
        return None
    review, user = opened.desk.review, opened.person(member)
    try:
        if verdict == "approve":
            return review.approve(user, asked.hunk_id, asked.before, asked.after)
        said = reason if isinstance(reason, str) and reason.strip() else say("ask.no", lang, {})
        return review.reject(user, asked.hunk_id, said)
    except Refusal as refusal:
        _log.info("an answer about %s came to nothing: %s", asked.hunk_id, refusal.code)
        return None


_ASKED: Final = "copydesk.asked"
_MOST_BYTES: Final = 4_000
_PATIENCE_SECONDS: Final = 600.0


class Elicitor:
    """Asks the users of one server's clients, once for each plan and connection.

    Only the handshake era has such requests; for a client of the modern one, the call would have to
    stay open meanwhile, which is not wanted here.
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
        """Ask the client's user in the background if the answer says that a plan is pending."""
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
        page = None if can.url is None else self._opened.page
        link = None if page is None else f"{page}/hunk/{hunk_id}"
        self._groups[-1].start_soon(self._tell, connection, member, hunk_id, path, link)

    async def _tell(
        self, connection: Connection, member: str, hunk_id: str, path: object, link: str | None
    ) -> None:
        """Show a link to the page, otherwise a form for the decision, otherwise just a message."""
        asked: Question | None = None
        if link is None and self._opened.settings.elicitation == "decide":
            asked = await to_thread(question, self._opened, member, hunk_id, self._lang)
        words = capped(
            say("bell", self._lang, {"id": hunk_id, "path": path}), self._lang, _MOST_BYTES
        )
        if link is not None:
            url = t.ElicitRequestURLParams(
                message=words, url=link, elicitation_id=secrets.token_hex(8)
            )
            await _sent(connection, url)
        elif asked is None:
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            form = t.ElicitRequestFormParams(message=words, requested_schema=empty)
            await _sent(connection, form)
        else:
            answer = await _sent(connection, asked.params)
            if answer is not None:
                await to_thread(decide, self._opened, member, asked, answer, self._lang)


def _pending(answer: Answer) -> tuple[str, object]:
    """The id and path of a plan that waits for a person's approval; an empty id if none does."""
    if callable(answer.made):  # a success
        return "", None
    fields = answer.fields
    if fields.get("status") == "pending":
        return str(fields.get("hunk_id", "")), fields.get("path")
    envelope = answer.envelope
    if envelope is None or envelope.error.get("code") != "APPROVAL_REQUIRED":
        return "", None
    return str(answer.facts.get("hunk_id", "")), envelope.path


async def _sent(connection: Connection, asked: t.ElicitRequestParams) -> t.ElicitResult | None:
    """The user's answer; None if none comes in time."""
    with anyio.move_on_after(_PATIENCE_SECONDS):
        try:
            return await connection.send_request(t.ElicitRequest(params=asked))
        except MCPError:
            return None  # the client cannot ask, or did not want to
        except Exception:  # best effort: a question that failed must not end the server
            _log.exception("cannot ask the client's user")
    return None


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

_log = logging.getLogger("copydesk")


class CopydeskServer(Server[None]):
    """The library's server, which also announces list changes to clients of the handshake era."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The library's options, with resource changes announced by default."""
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
        """The library's capabilities, except that tools and prompts never change at runtime."""
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

    `member_of` returns the member that sent a request. With `structured=False` results are text
    only. One server can serve many connections, of both protocol eras.
    """
    bus = InMemorySubscriptionBus()
    settings = opened.settings
    applies = settings.of_member(settings.member).apply or settings.apply
    manuals = Manuals(toolsets, lang, auto=applies == "auto")
    elicitor, hunks = Elicitor(opened, lang), Hunks(opened, member_of, bus, lang, manuals)
    tools = _Tools(opened, member_of, tuple(toolsets), lang, structured, elicitor, hunks)

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None, None]:
        async with hunks.watched(), elicitor.running():
            yield None

    hint = CacheHint(ttl_ms=60_000, scope="private")
    server = CopydeskServer(
        "copydesk",
        version=__version__,
        title="copydesk",
        instructions=capped(manuals.instructions(), lang),
        cache_hints={"tools/list": hint, "prompts/list": hint, "resources/templates/list": hint},
        lifespan=lifespan,
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
    elicitor: Elicitor
    hunks: Hunks
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(THREADS))
    offers: dict[frozenset[str], _Offer] = field(default_factory=dict[frozenset[str], "_Offer"])

    def offer(self, member: str) -> _Offer:
        tools = self.opened.tools(member, self.toolsets)
        names = frozenset(tool.name for tool in tools)
        if names not in self.offers:
            listed = [t.Tool.model_validate(one) for one in definitions(tools, "mcp", self.lang)]
            own_names = {name: tool.name for name, tool in by_name(tools).items()}
            self.offers[names] = own_names, t.ListToolsResult(tools=listed)
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
        given = {} if params.arguments is None else params.arguments
        arguments = original_arguments(ctx.request, given)
        task = _task_of(params)
        try:
            with self.hunks.notified_after():
                answer = await self._run(ctx, member, tool, arguments, task)
        except Exception:  # as in `guarded`, in a form that the caller of a tool can read
            answer = crashed(params.name, logged(ctx), self.lang)
        self.elicitor.ask(ctx, member, answer)
        return tool_result(answer, self.lang, structured=self.structured)

    async def _run(self, ctx: Ctx, member: str, name: str, arguments: object, task: str) -> Answer:
        state = _CallState()
        progress = _Progress(asyncio.get_running_loop(), ctx.session.report_progress)

        def call() -> Answer:
            with state:
                return self.opened.call(
                    member,
                    name,
                    arguments,
                    lang=self.lang,
                    progress=progress,
                    cancelled=state.cancelled.is_set,
                    toolsets=self.toolsets,
                    task=task,
                )

        own = anyio.CapacityLimiter(1)
        async with self.limiter:  # even while a cancelled call still runs
            try:
                answer = await to_thread(call, abandon_on_cancel=True, limiter=own)
            except anyio.get_cancelled_exc_class():
                if state.cancel():
                    with anyio.CancelScope(shield=True):  # a write that has begun is completed
                        await to_thread(state.ended.wait, limiter=own)
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


class _CallState:
    """The state of a call: cancelled or not, running or not; a context inside its thread."""

    def __init__(self) -> None:
        self.cancelled, self.ended = threading.Event(), threading.Event()
        self._lock, self._begun = threading.Lock(), False

    def __enter__(self) -> None:
        with self._lock:
            if self.cancelled.is_set():  # nobody would wait for its end
                raise Cancelled()
            self._begun = True

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    def cancel(self) -> bool:
        """Cancel the call; return whether it has begun, so that its end must be awaited."""
        with self._lock:
            self.cancelled.set()
            return self._begun


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


Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]

_CHUNK: Final = 1 << 16
_AT_ONCE: Final = 1 << 16
"""In bytes; a longer message is written in a thread."""


@contextmanager
def claimed() -> Generator[tuple[int, int], None, None]:
    """Reserve standard input and output for the protocol, as new descriptors.

    Meanwhile descriptor 0 is the null device and 1 is standard error.
    """
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(sink, 1)
        os.dup2(source, 0)  # `source` stays open: a thread may be reading from it


@asynccontextmanager
async def wire(
    source: int, sink: int, *, at_end: Callable[[], None], most: int = MOST_MESSAGE_BYTES
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """The streams that the protocol library serves, over two descriptors.

    `at_end` is called, in a thread, when the input ends. A line above `most` bytes is skipped and
    answered.
    """
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    one_writes = anyio.Lock()

    async def write(data: bytes) -> None:
        async with one_writes:
            with suppress(OSError):  # nobody reads any more, so the input will end too
                left = _write_at_once(sink, data + b"\n")
                if left:
                    await to_thread(_write_all, sink, left)

    async def write_messages() -> None:
        async with leaving:
            async for message in leaving:
                await write(_encoded(message))

    token = anyio.lowlevel.current_token()

    loop = asyncio.get_running_loop()

    def arrive(message: SessionMessage) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            arrived.send_nowait(message)

    def read() -> None:
        with suppress(anyio.RunFinishedError, RuntimeError):  # the loop has ended
            for line in _lines(source, most):
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
    if not isinstance(line, ErrorReply) and not line.strip():
        return None
    found = line if isinstance(line, ErrorReply) else parse_message(line)
    if isinstance(found, ErrorReply):
        return found
    if found.repaired is None:
        return SessionMessage(found.message)
    carrier = ServerMessageMetadata(request_context=RequestScope(found.repaired))
    return SessionMessage(found.message, carrier)


def _encoded(message: SessionMessage) -> bytes:
    """The message as JSON; if it cannot be encoded, an error with the same id."""
    try:
        return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        _log.exception("a message cannot be written")
        sent = message.message
        request_id = sent.id if isinstance(sent, t.JSONRPCResponse) else None
        return error_reply(
            t.INTERNAL_ERROR, "The result cannot be written as JSON", request_id
        ).reply


def _write_at_once(sink: int, data: bytes) -> memoryview:
    """Write as much as a pipe takes without blocking; return the rest for a thread."""
    view = memoryview(data)
    if not hasattr(select, "poll") or len(data) > _AT_ONCE:
        return view
    ready: Any = select.poll()
    ready.register(sink, select.POLLOUT)
    while view and [event for _, event in ready.poll(0)] == [select.POLLOUT]:
        view = view[os.write(sink, view[: select.PIPE_BUF]) :]
    return view


def _write_all(sink: int, data: memoryview) -> None:
    view = data
    while view:
        view = view[os.write(sink, view) :]


def _lines(source: int, most: int) -> Iterator[bytes | ErrorReply]:
    """The lines, without their ends; for one above the limit, the answer to it."""
    held = bytearray()
    skipped: ErrorReply | None = None
    while chunk := _read(source):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            held += end
            if len(held) > most:
                skipped = skipped or too_large(bytes(held[:_CHUNK]), most)
            yield skipped or bytes(held)
            skipped = None
            held.clear()
        held += rest
        if len(held) > most:
            skipped = skipped or too_large(bytes(held[:_CHUNK]), most)
            held.clear()
    if held or skipped:
        yield skipped or bytes(held)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""


GRACE_SECONDS: Final = 5.0
"""The time that running calls get after the client has gone."""


def run_stdio(
    opened: OpenWorkspace, member: str, toolsets: Sequence[str], lang: Lang, structured: bool
) -> None:
    """Serve one client on standard input and output, as `member`, until it leaves.

    Ends with the input, or on SIGTERM or SIGINT. Standard output carries only protocol messages;
    anything else printed there goes to standard error. Running searches are stopped, and a write
    that has begun is completed; calls that do not end within the grace period are abandoned.
    """
    server = build(opened, lambda _: member, toolsets, lang, structured)
    late, is_first = threading.Timer(GRACE_SECONDS, os._exit, (1,)), threading.Lock()
    late.daemon = True

    def begin_end() -> None:
        """Start the deadline, after which the process exits at once; in any thread, once."""
        if is_first.acquire(blocking=False):
            late.start()

    async def end_on_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                begin_end()
                scope.cancel()
                return

    async def main() -> None:
        with claimed() as (source, sink):
            async with anyio.create_task_group() as group:
                group.start_soon(end_on_signal, group.cancel_scope)
                async with wire(source, sink, at_end=begin_end) as (incoming, outgoing):
                    options = server.create_initialization_options()
                    await server.run(incoming, outgoing, options)
                group.cancel_scope.cancel()

    try:
        anyio.run(main)
    finally:
        late.cancel()
