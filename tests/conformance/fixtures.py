"""The tools, prompts and resources named `test_*` that the conformance suite asks for.

Nothing of this is in the product: the suite wants servers that have them, to
look at the protocol beneath. `rounds` has those that ask the client back.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError

Ctx = ServerRequestContext[Any, Any]
ToolRun = Callable[[Ctx, t.CallToolRequestParams], Awaitable[Any]]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="

RICH_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(words: str, *, error: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=words)], is_error=error)


def image() -> t.ImageContent:
    return t.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        resource=t.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


def always(*content: t.ContentBlock, error: bool = False) -> ToolRun:
    async def run(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=list(content), is_error=error)

    return run


async def progress(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(0.05)
    return text("done")


async def log(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await anyio.sleep(0.05)
    return text("done")


async def sample(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    prompt = t.TextContent(text=(params.arguments or {})["prompt"])
    answer = await ctx.session.create_message(
        [t.SamplingMessage(role="user", content=prompt)],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return text(f"LLM response: {getattr(answer.content, 'text', '')}")


def elicits(schema: dict[str, Any], words: str) -> ToolRun:
    async def run(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        message = (params.arguments or {}).get("message", "Please answer")
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return text(f"{words}: action={answer.action}, content={json.dumps(answer.content)}")

    return run


async def needs_sampling(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is needed", needed)
    return text("done")


async def reconnect(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await anyio.sleep(0.2)
    return text("done")


def changes(bus: SubscriptionBus, event: Any) -> ToolRun:
    async def run(ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        await bus.publish(event)
        return text("done")

    return run


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_STRING = {"type": "string"}
_PERSON = {**_object(username=_STRING, email=_STRING), "required": ["username", "email"]}
_DEFAULTS = _object(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
_ENUMS = _object(
    untitledSingle={"type": "string", "enum": _OPTIONS},
    titledSingle={"type": "string", "oneOf": _TITLED},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
)
_HEADERS = _object(region={"type": "string", "x-mcp-header": "Region"})

NO_ARGUMENTS: dict[str, Any] = _object()
SCHEMAS = {
    "json_schema_2020_12_tool": RICH_SCHEMA,
    "test_custom_headers": _HEADERS,
    "test_type_array": _object(name={"type": ["string", "null"]}),
    "test_sampling": _object(prompt=_STRING),
    "test_elicitation": _object(message=_STRING),
}


def tools(bus: SubscriptionBus) -> dict[str, ToolRun]:
    """The tools that answer at once, by name."""
    mixed = embedded(
        "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
    )
    whole = embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."
    )
    simple = t.TextContent(text="This is a simple text response for testing.")
    failed = t.TextContent(text="This tool intentionally returns an error for testing")
    return {
        "test_simple_text": always(simple),
        "test_image_content": always(image()),
        "test_audio_content": always(t.AudioContent(data=WAV, mime_type="audio/wav")),
        "test_embedded_resource": always(whole),
        "test_multiple_content_types": always(
            t.TextContent(text="Multiple content types test:"), image(), mixed
        ),
        "test_error_handling": always(failed, error=True),
        "test_tool_with_progress": progress,
        "test_tool_with_logging": log,
        "test_logging_tool": log,
        "test_sampling": sample,
        "test_elicitation": elicits(_PERSON, "User response"),
        "test_elicitation_sep1034_defaults": elicits(_DEFAULTS, "Elicitation completed"),
        "test_elicitation_sep1330_enums": elicits(_ENUMS, "Elicitation completed"),
        "test_missing_capability": needs_sampling,
        "test_reconnection": reconnect,
        "test_custom_headers": always(simple),
        "test_type_array": always(simple),  # for the inspector: a schema that it finds fault with
        "json_schema_2020_12_tool": always(simple),
        "test_trigger_tool_change": changes(bus, ToolsListChanged()),
        "test_trigger_prompt_change": changes(bus, PromptsListChanged()),
    }


def _prompt(name: str, *arguments: str) -> t.Prompt:
    described = [t.PromptArgument(name=a, description=a, required=True) for a in arguments]
    return t.Prompt(name=name, description="For a test", arguments=described)


PROMPTS = (
    _prompt("test_simple_prompt"),
    _prompt("test_prompt_with_arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "resourceUri"),
    _prompt("test_prompt_with_image"),
    _prompt("test_input_required_result_prompt"),
)


def prompt_content(name: str, given: dict[str, str]) -> list[t.ContentBlock]:
    """What a prompt holds."""
    match name:
        case "test_simple_prompt":
            return [t.TextContent(text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return [t.TextContent(text=words)]
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            return [
                embedded(given["resourceUri"], "text/plain", words),
                t.TextContent(text="Please process the embedded resource above."),
            ]
        case _:
            return [image(), t.TextContent(text="Please analyze the image above.")]


RESOURCES = tuple(
    t.Resource(uri=f"test://{name}", name=name, description="For a test")
    for name in ("static-text", "static-binary", "watched-resource")
)
TEMPLATE = t.ResourceTemplate(uri_template="test://template/{id}/data", name="template")


def resource(uri: str) -> t.TextResourceContents | t.BlobResourceContents | None:
    """What a resource holds; None for one that there is not."""
    if uri == "test://static-binary":
        return t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    head, tail = "test://template/", "/data"
    if uri.startswith(head) and uri.endswith(tail):
        number = uri[len(head) : -len(tail)]
        data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        words, mime_type = json.dumps(data), "application/json"
    elif uri in ("test://static-text", "test://watched-resource"):
        words, mime_type = "This is the content of the static text resource.", "text/plain"
    else:
        return None
    return t.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
