"""The server that the conformance suite talks to: copydesk's own, with the suite's fixtures.

Every request goes through copydesk's HTTP app, guards and handlers; a handler
that does not know a name that begins with `test` hands it to the fixtures.
Usage: server.py ROOT PORT
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import mcp_types as t
import uvicorn
from fixtures import (
    NO_ARGUMENTS,
    PROMPTS,
    RESOURCES,
    SCHEMAS,
    TEMPLATE,
    Ctx,
    prompt_content,
    resource,
    tools,
)
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning
from rounds import CONTEXT, TOOLS

from copydesk.app.mcp import http
from copydesk.app.mcp.server import CopydeskServer
from copydesk.app.workspace import open_workspace

real_build = http.build


def build(*args: Any) -> CopydeskServer:
    """copydesk's server, with the fixtures behind its handlers."""
    server = real_build(*args)
    bus = InMemorySubscriptionBus()
    runs = {**tools(bus), **TOOLS}

    def own(method: str) -> Any:
        entry = server.get_request_handler(method)
        assert entry is not None
        return entry

    def put(method: str, handler: Any) -> None:
        server.add_request_handler(method, own(method).params_type, handler)

    listing, calling = own("tools/list").handler, own("tools/call").handler
    own_schema = server.get_tool_input_schema

    async def list_tools(ctx: Ctx, params: Any) -> Any:
        listed = await listing(ctx, params)
        more = [
            t.Tool(name=name, description="For a test", input_schema=schema_of(name))
            for name in runs
        ]
        return listed.model_copy(update={"tools": [*listed.tools, *more]})

    def schema_of(name: str) -> dict[str, Any]:
        return SCHEMAS.get(name, NO_ARGUMENTS)

    async def call_tool(ctx: Ctx, params: t.CallToolRequestParams) -> Any:
        run = runs.get(params.name, calling)
        return await run(ctx, params)

    put("tools/list", list_tools)
    put("tools/call", call_tool)
    server.get_tool_input_schema = lambda name: (
        schema_of(name) if name in runs else own_schema and own_schema(name)
    )
    _add_prompts(own, put)
    _add_resources(own, put)
    listen, more = own("subscriptions/listen").handler, ListenHandler(bus)

    async def subscribe(ctx: Ctx, params: t.SubscriptionsListenRequestParams) -> Any:
        wanted = params.notifications
        fixture = wanted.tools_list_changed or wanted.prompts_list_changed
        return await (more if fixture else listen)(ctx, params)

    put("subscriptions/listen", subscribe)
    server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, _set_level)
    keys = RequestStateSecurity(keys=[b"0123456789abcdef0123456789abcdef"])
    server.middleware.append(RequestStateBoundary(keys, default_audience=server.name))
    return server


def _add_prompts(own: Any, put: Any) -> None:
    listing, getting = own("prompts/list").handler, own("prompts/get").handler
    completing = own("completion/complete").handler
    names = {prompt.name for prompt in PROMPTS}

    async def list_prompts(ctx: Ctx, params: Any) -> Any:
        listed = await listing(ctx, params)
        return listed.model_copy(update={"prompts": [*listed.prompts, *PROMPTS]})

    async def get_prompt(ctx: Ctx, params: t.GetPromptRequestParams) -> Any:
        if params.name not in names:
            return await getting(ctx, params)
        if params.name == "test_input_required_result_prompt" and not params.input_responses:
            return t.InputRequiredResult(input_requests=CONTEXT)
        content = prompt_content(params.name, params.arguments or {})
        return t.GetPromptResult(
            messages=[t.PromptMessage(role="user", content=block) for block in content]
        )

    async def complete(ctx: Ctx, params: t.CompleteRequestParams) -> Any:
        if getattr(params.ref, "name", "") in names:
            return t.CompleteResult(completion=t.Completion(values=["paris"], total=1))
        return await completing(ctx, params)

    put("prompts/list", list_prompts)
    put("prompts/get", get_prompt)
    put("completion/complete", complete)


def _add_resources(own: Any, put: Any) -> None:
    listing, reading = own("resources/list").handler, own("resources/read").handler
    templates = own("resources/templates/list").handler

    async def list_resources(ctx: Ctx, params: Any) -> Any:
        listed = await listing(ctx, params)
        return listed.model_copy(update={"resources": [*listed.resources, *RESOURCES]})

    async def list_templates(ctx: Ctx, params: Any) -> Any:
        listed = await templates(ctx, params)
        return listed.model_copy(
            update={"resource_templates": [*listed.resource_templates, TEMPLATE]}
        )

    async def read(ctx: Ctx, params: t.ReadResourceRequestParams) -> Any:
        found = resource(str(params.uri))
        if found is None:
            return await reading(ctx, params)
        return t.ReadResourceResult(contents=[found])

    put("resources/list", list_resources)
    put("resources/templates/list", list_templates)
    put("resources/read", read)
    for method in ("resources/subscribe", "resources/unsubscribe"):
        _accept_fixtures(own, put, method)


def _accept_fixtures(own: Any, put: Any, method: str) -> None:
    real = own(method).handler

    async def handle(ctx: Ctx, params: Any) -> Any:
        if resource(str(params.uri)) is not None:
            return t.EmptyResult()
        return await real(ctx, params)

    put(method, handle)


async def _set_level(ctx: Ctx, params: t.SetLevelRequestParams) -> t.EmptyResult:
    return t.EmptyResult()


def main() -> None:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    root, port = sys.argv[1], int(sys.argv[2])
    http.build = build  # type: ignore[assignment]
    with open_workspace(root, shared=False) as opened:
        app = http.build_app(opened, {}, "127.0.0.1", port, opened.config.toolsets, "en", True)
        print("ready", flush=True)
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
