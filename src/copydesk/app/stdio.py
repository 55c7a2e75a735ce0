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
    late = threading.Timer(GRACE_SECONDS, os._exit, (1,))
    late.daemon = True

    async def end_on_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                late.start()
                scope.cancel()
                return

    async def main() -> None:
        with claimed() as (source, sink):
            async with anyio.create_task_group() as group:
                group.start_soon(end_on_signal, group.cancel_scope)
                async with wire(source, sink, at_end=late.start) as (incoming, outgoing):
                    options = server.create_initialization_options()
                    await server.run(incoming, outgoing, options)
                group.cancel_scope.cancel()

    try:
        anyio.run(main)
    finally:
        late.cancel()
