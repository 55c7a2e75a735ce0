"""The MCP server on standard input and output.

What lives here: `run_stdio`, its start and its end. What must not: the wire
(`stdio_wire`), tools. Nothing of the protocol library is imported with this
module: it takes most of a second, which only a server should pay.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from typing import Final

from copydesk.app.opening import Opened
from copydesk.tools.report import Lang

GRACE_SECONDS: Final = 5.0
"""How long calls that still run may take once the client has gone."""


def run_stdio(
    opened: Opened,
    member: str,
    toolsets: Sequence[str],
    lang: Lang,
    structured: bool,
) -> None:
    """Serve one client on standard input and output, as `member`, until it leaves.

    Ends at the end of the input, or at SIGTERM or SIGINT. Standard output
    carries protocol messages and nothing else; what anything else prints there
    goes to standard error. Searches that run are stopped, and a write that has
    begun is finished; what does not end within the grace is abandoned.
    """
    import anyio

    from copydesk.app.mcp_server import build
    from copydesk.app.stdio_wire import claimed, wire

    server = build(opened, lambda _: member, toolsets, lang, structured)
    ending = _Ending(GRACE_SECONDS)

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


class _Ending:
    """The time that an end may take: when it is over, the process ends as it is."""

    def __init__(self, seconds: float) -> None:
        self._late = threading.Timer(seconds, os._exit, (1,))
        self._late.daemon = True
        self._first = threading.Lock()

    def begin(self) -> None:
        """The end has begun; said again, from any thread, it is the same end."""
        if self._first.acquire(blocking=False):
            self._late.start()

    def done(self) -> None:
        """The end was in time."""
        self._late.cancel()
