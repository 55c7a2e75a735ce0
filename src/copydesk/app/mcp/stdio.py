"""The MCP server on standard input and output: one JSON message a line.

Every line that expects an answer gets one; a message is written whole or not at all.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR
from mcp_types.jsonrpc import JSONRPCResponse

from copydesk.app.mcp.messages import (
    MOST_MESSAGE_BYTES,
    ErrorReply,
    RequestScope,
    error_reply,
    parse_message,
    too_large,
)
from copydesk.app.mcp.server import build
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Lang

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]

_CHUNK: Final = 1 << 16
_log = logging.getLogger("copydesk")


@contextmanager
def claimed() -> Generator[tuple[int, int], None, None]:
    """Take the standard input and output for the protocol alone, as new descriptors.

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

    `at_end` is called, in a thread, when the input has ended. A line above
    `most` bytes is skipped and answered.
    """
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    one_writes = anyio.Lock()

    async def write(data: bytes) -> None:
        async with one_writes:
            with suppress(OSError):  # nobody reads any more: the input will end as well
                await anyio.to_thread.run_sync(_write_all, sink, data + b"\n")

    async def write_messages() -> None:
        async with leaving:
            async for message in leaving:
                await write(_encoded(message))

    token = anyio.lowlevel.current_token()

    def read() -> None:
        with suppress(anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            for line in _lines(source, most):
                taken = _taken(line, most)
                if isinstance(taken, ErrorReply):
                    anyio.from_thread.run(write, taken.reply, token=token)
                elif taken is not None:
                    anyio.from_thread.run(arrived.send, taken, token=token)
            at_end()
            anyio.from_thread.run_sync(arrived.close, token=token)

    async with anyio.create_task_group() as group:
        group.start_soon(write_messages)
        # A daemon, since a read from a descriptor cannot be ended from outside.
        threading.Thread(target=read, name="copydesk stdin", daemon=True).start()
        yield incoming, outgoing
        outgoing.close()


def _taken(line: bytes | _TooLong, most: int) -> SessionMessage | ErrorReply | None:
    """The message in a line, or the answer to a bad one; None for an empty line."""
    if isinstance(line, _TooLong):
        return too_large(line.head, most)
    if not line.strip():
        return None
    found = parse_message(line)
    if isinstance(found, ErrorReply):
        return found
    if found.repaired is None:
        return SessionMessage(found.message)
    carrier = ServerMessageMetadata(request_context=RequestScope(found.repaired))
    return SessionMessage(found.message, carrier)


def _encoded(message: SessionMessage) -> bytes:
    """The message as JSON; one that cannot be encoded becomes an error under the same id."""
    try:
        return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        _log.exception("a message cannot be written")
        sent = message.message
        request_id = sent.id if isinstance(sent, JSONRPCResponse) else None
        return error_reply(INTERNAL_ERROR, "The result cannot be written as JSON", request_id).reply


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


class _TooLong:
    """A line above the limit; `head` is its beginning."""

    def __init__(self, head: bytes) -> None:
        self.head = head


def _lines(source: int, most: int) -> Iterator[bytes | _TooLong]:
    held = bytearray()
    skipped: _TooLong | None = None
    while chunk := _read(source):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            held += end
            yield skipped or (_TooLong(bytes(held[:_CHUNK])) if len(held) > most else bytes(held))
            skipped = None
            held.clear()
        held += rest
        if len(held) > most:
            skipped = skipped or _TooLong(bytes(held[:_CHUNK]))
            held.clear()
    if held or skipped:
        yield skipped or bytes(held)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""


GRACE_SECONDS: Final = 5.0
"""How long running calls may take once the client has gone."""


def run_stdio(
    opened: OpenWorkspace, member: str, toolsets: Sequence[str], lang: Lang, structured: bool
) -> None:
    """Serve one client on standard input and output, as `member`, until it leaves.

    Ends at the end of the input, or at SIGTERM or SIGINT. Standard output
    carries protocol messages and nothing else; what anything else prints there
    goes to standard error. Searches that run are stopped, and a write that has
    begun is finished; what does not end within the grace is abandoned.
    """
    server = build(opened, lambda _: member, toolsets, lang, structured)
    ending = _Shutdown(GRACE_SECONDS)

    async def end_on_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                ending.begin()
                scope.cancel()
                return

    async def main() -> None:
        with claimed() as (source, sink):
            async with anyio.create_task_group() as group:
                group.start_soon(end_on_signal, group.cancel_scope)
                async with wire(source, sink, at_end=ending.begin) as (incoming, outgoing):
                    options = server.create_initialization_options()
                    await server.run(incoming, outgoing, options)
                group.cancel_scope.cancel()

    try:
        anyio.run(main)
    finally:
        ending.done()


class _Shutdown:
    """A deadline for the shutdown, after which the process exits at once."""

    def __init__(self, seconds: float) -> None:
        self._late = threading.Timer(seconds, os._exit, (1,))
        self._late.daemon = True
        self._first = threading.Lock()

    def begin(self) -> None:
        """Start the deadline. Idempotent, and may be called from any thread."""
        if self._first.acquire(blocking=False):
            self._late.start()

    def done(self) -> None:
        """Cancel the deadline: the shutdown was in time."""
        self._late.cancel()
