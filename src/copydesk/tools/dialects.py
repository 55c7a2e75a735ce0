"""Tool definitions as other providers' APIs take them.

What lives here: one converter for each dialect. What must not: the tools.
Law: an answer to a converted schema, its nulls left out, is valid for the
original one, so a call that comes back needs no conversion but that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from copydesk.tools.catalog import Tool
from copydesk.tools.report import Lang

Definition = dict[str, Any]

_NOT_STRICT = frozenset(
    ("default", "title", "$schema", "minimum", "maximum", "minLength", "maxLength", "minItems")
)


def definitions(tools: Iterable[Tool], dialect: str, lang: Lang) -> list[Definition]:
    """The tools in a dialect; KeyError for one that is not in `DIALECTS`."""
    convert = DIALECTS[dialect]
    return [convert(tool, lang) for tool in tools]


def _mcp(tool: Tool, lang: Lang) -> Definition:
    return {
        "name": tool.name,
        "title": tool.title(lang),
        "description": tool.description(lang),
        "inputSchema": tool.described_schema(lang),
        "annotations": {
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.destroys,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


def _openai(tool: Tool, lang: Lang) -> Definition:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description(lang),
        "parameters": tool.described_schema(lang),
        "strict": False,
    }


def _openai_strict(tool: Tool, lang: Lang) -> Definition:
    """Every property required, an optional one nullable, no keyword outside of the subset."""
    schema = cast(Definition, _reduced(tool.described_schema(lang)))
    return {**_openai(tool, lang), "parameters": _all_required(schema), "strict": True}


def _anthropic(tool: Tool, lang: Lang) -> Definition:
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "input_schema": tool.described_schema(lang),
    }


def _gemini(tool: Tool, lang: Lang) -> Definition:
    schema = tool.described_schema(lang)
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "parametersJsonSchema": {**schema, "propertyOrdering": list(schema["properties"])},
    }


def _reduced(schema: object) -> object:
    """The schema without the keywords that strict mode does not take."""
    if isinstance(schema, list):
        return [_reduced(part) for part in cast("list[object]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    found: Definition = {}
    for key, value in cast("Mapping[str, object]", schema).items():
        if key == "properties":
            named = cast("Mapping[str, object]", value)
            found[key] = {name: _reduced(part) for name, part in named.items()}
        elif key not in _NOT_STRICT:
            found[key] = _reduced(value)
    return found


def _all_required(schema: Definition) -> Definition:
    properties: dict[str, Definition] = schema["properties"]
    required: list[str] = schema.get("required", [])
    made: dict[str, Definition] = {}
    for name, form in properties.items():
        inner = dict(form)
        if inner.get("type") == "array" and inner["items"].get("type") == "object":
            inner["items"] = _all_required(inner["items"])
        made[name] = inner if name in required else _nullable(inner)
    return {**schema, "properties": made, "required": list(made), "additionalProperties": False}


def _nullable(form: Definition) -> Definition:
    described = {"description": form.pop("description")} if "description" in form else {}
    kinds = form["anyOf"] if "anyOf" in form else [form]
    return {"anyOf": [*kinds, {"type": "null"}], **described}


DIALECTS: dict[str, Callable[[Tool, Lang], Definition]] = {
    "mcp": _mcp,
    "openai": _openai,
    "openai-strict": _openai_strict,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""The dialects by name."""
