"""Tool definitions as other providers' APIs take them.

What lives here: one converter for each dialect. What must not: the tools.
Law: an answer to a converted schema, its nulls left out at every depth, is valid
for the original one, so a call that comes back needs no conversion but that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from copydesk.tools.catalog import Tool
from copydesk.tools.report import Lang

Definition = dict[str, Any]

_STRUCTURE = ("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf")
_BOUNDS = ("minimum", "maximum", "minItems", "maxItems")
_KEPT = frozenset((*_STRUCTURE, *_BOUNDS))
"""The keywords that OpenAI's strict mode and Gemini take, `description` besides."""

_DEFAULT = ("Default: {}.", "默认：{}。")


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
    schema = _nullable_optionals(_reduced(tool.described_schema(lang), lang))
    return {**_openai(tool, lang), "parameters": schema, "strict": True}


def _anthropic(tool: Tool, lang: Lang) -> Definition:
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "input_schema": tool.described_schema(lang),
    }


def _gemini(tool: Tool, lang: Lang) -> Definition:
    schema = _reduced(tool.described_schema(lang), lang)
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "parametersJsonSchema": {**schema, "propertyOrdering": list(schema["properties"])},
    }


def _reduced(schema: Mapping[str, Any], lang: Lang) -> Definition:
    """The schema with the keywords that are kept; a default moves to the description."""
    found = {key: value for key, value in schema.items() if key in _KEPT}
    words = [schema["description"]] if "description" in schema else []
    if "default" in schema:
        words.append(_DEFAULT[lang == "zh"].format(json.dumps(schema["default"])))
    if words:
        found["description"] = " ".join(words)
    return _within(found, lambda part: _reduced(part, lang))


def _nullable_optionals(schema: Mapping[str, Any]) -> Definition:
    """The schema with all properties required, at every depth; an optional one may be null."""
    found = _within(dict(schema), _nullable_optionals)
    if "properties" in found:
        required: list[str] = found.get("required", [])
        made: dict[str, Definition] = found["properties"]
        found["properties"] = {
            name: form if name in required else _nullable(form) for name, form in made.items()
        }
        found |= {"required": list(made), "additionalProperties": False}
    return found


def _within(schema: Definition, convert: Callable[[Mapping[str, Any]], Definition]) -> Definition:
    """The schema with those in it converted."""
    found = dict(schema)
    if "properties" in found:
        named = cast("Mapping[str, Mapping[str, Any]]", found["properties"])
        found["properties"] = {name: convert(part) for name, part in named.items()}
    if "items" in found:
        found["items"] = convert(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [convert(part) for part in found["anyOf"]]
    return found


def _nullable(form: Mapping[str, Any]) -> Definition:
    rest = {key: value for key, value in form.items() if key != "description"}
    described = {"description": form["description"]} if "description" in form else {}
    return {"anyOf": [*rest.get("anyOf", [rest]), {"type": "null"}], **described}


DIALECTS: dict[str, Callable[[Tool, Lang], Definition]] = {
    "mcp": _mcp,
    "openai": _openai,
    "openai-strict": _openai_strict,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""The dialects by name."""
