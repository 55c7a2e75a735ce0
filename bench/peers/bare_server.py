"""The least MCP server: the SDK's low-level one with one tool that does nothing."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def _tools(context: Any, params: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[t.Tool(name="nothing", input_schema={"type": "object"})])


async def _call(context: Any, params: Any) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text="")])


async def main() -> None:
    """Serve one client."""
    server = Server("bare", version="1", on_list_tools=_tools, on_call_tool=_call)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
