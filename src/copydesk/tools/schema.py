"""JSON Schemas of the tools' arguments, and the few forms that recur in them.

What lives here: small makers of schemas that every provider takes (no `$ref`,
no `oneOf`, a `type` beside every `enum`). What must not: what a tool means.
"""

from __future__ import annotations

from typing import Any

Property = dict[str, Any]


def text(description: str = "") -> Property:
    """A string."""
    return _described({"type": "string"}, description)


def number(description: str = "", default: int | None = None, least: int = 0) -> Property:
    """A whole number, `least` or more."""
    found: Property = {"type": "integer", "minimum": least}
    if default is not None:
        found["default"] = default
    return _described(found, description)


def flag(default: bool, description: str = "") -> Property:
    """A boolean with its default."""
    return _described({"type": "boolean", "default": default}, description)


def switch(description: str = "") -> Property:
    """A boolean that is false when it is not given."""
    return _described({"type": "boolean"}, description)


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


def _described(found: Property, description: str) -> Property:
    return {**found, "description": description} if description else found
