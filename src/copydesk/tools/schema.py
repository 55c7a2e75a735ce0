"""JSON Schemas of the tools' arguments, and the few forms that recur in them.

What lives here: small makers of schemas that every provider takes (no `$ref`,
no `oneOf`, a `type` beside every `enum`). What must not: what a tool means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from copydesk.tools.wire import Schema

Property = dict[str, Any]

_UNLISTED = ("additionalProperties", "minimum")
"""Keywords that calls are checked by and clients are not sent: each request pays for them, and
`additionalProperties` makes google-genai's conversion of MCP tools fail."""


def text(description: str = "") -> Property:
    """A string."""
    return _described({"type": "string"}, description)


def number(description: str = "", default: int | None = None) -> Property:
    """A whole number, 0 or more."""
    found: Property = {"type": "integer", "minimum": 0}
    if default is not None:
        found["default"] = default
    return _described(found, description)


def flag(default: bool, description: str = "") -> Property:
    """A boolean with its default."""
    return _described({"type": "boolean", "default": default}, description)


def choice(*values: str, description: str = "") -> Property:
    """One of some words, the first being the default."""
    return _described({"type": "string", "enum": list(values), "default": values[0]}, description)


def word(*values: str, description: str = "") -> Property:
    """One of some words, none of which is the default."""
    return _described({"type": "string", "enum": list(values)}, description)


def numbers(description: str = "") -> Property:
    """A list of whole numbers."""
    return _described({"type": "array", "items": {"type": "integer"}}, description)


def texts(description: str = "") -> Property:
    """A list of strings."""
    return _described({"type": "array", "items": {"type": "string"}}, description)


def number_or_text(description: str = "") -> Property:
    """A whole number or a string."""
    return _described({"anyOf": [{"type": "integer"}, {"type": "string"}]}, description)


def arguments(properties: dict[str, Property], *required: str) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def described(schema: Schema, texts: Mapping[str, str]) -> Property:
    """A copy of the schema with the text of each argument as its `description`."""
    found = within(schema, lambda part: described(part, texts))
    for name, form in found.get("properties", {}).items():
        if name in texts:
            form["description"] = texts[name]
    return found


def with_null(schema: Schema) -> Property:
    """The schema, with every optional argument null too."""
    found = within(schema, with_null)
    needed: list[str] = found.get("required", [])
    forms: dict[str, Property] = found.get("properties", {})
    for name in forms.keys() - set(needed):
        forms[name] = _nullable(forms[name])
    return found


def listed(schema: Schema) -> Property:
    """The schema with null as MCP clients are sent it, which every request pays for.

    Left out: the default of a choice, which is its first word, and what calls are checked
    by all the same.
    """
    found = within(schema, listed)
    if any("enum" in kind for kind in found.get("anyOf", ())):
        found.pop("default", None)
    if not found.get("required", True):
        del found["required"]
    return {key: part for key, part in found.items() if key not in _UNLISTED}


def within(schema: Schema, convert: Callable[[Schema], Property]) -> Property:
    """A copy of the schema with those in it converted."""
    found = dict(schema)
    if "properties" in found:
        named = cast("Mapping[str, Schema]", found["properties"])
        found["properties"] = {name: convert(part) for name, part in named.items()}
    if "items" in found:
        found["items"] = convert(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [convert(part) for part in found["anyOf"]]
    return found


def _nullable(form: Schema) -> Property:
    """The same or null; what is said of it stays outside of the choice."""
    said = {key: form[key] for key in ("description", "default") if key in form}
    kinds = form.get("anyOf") or [{key: part for key, part in form.items() if key not in said}]
    return {"anyOf": [*kinds, {"type": "null"}], **said}


def _described(found: Property, description: str) -> Property:
    return {**found, "description": description} if description else found
