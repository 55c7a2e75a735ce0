"""Arguments: the JSON Schemas of tools, and calls checked and read into typed values.

Invariants: past `checked` there is no lone surrogate, no NUL in a text, no number that cannot be
written, no unknown argument; a value that means "not given" is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any, Protocol, cast

from copydesk.edit.request import Match, Occurrence
from copydesk.errors import InvalidArgs, PathRequired

Schema = Mapping[str, Any]
"""A JSON Schema (2020-12), written by hand in the catalog."""

MOST_BITS = 1 << 13
"""Of a whole number; Python refuses to write out much larger ones."""

MOST_DEPTH = 32
"""How deep values may stand in one another; no tool takes more than a few."""

_SENTINELS: Mapping[str, object] = {"string": "", "integer": 0, "array": [], "object": {}}
"""By type, what stands for "not given" in an optional argument, besides null."""


class _Error(Protocol):
    @property
    def validator(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def absolute_path(self) -> Any: ...
    @property
    def instance(self) -> Any: ...
    @property
    def schema(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Args:
    """The arguments of one call, by name. Make one with `checked`.

    `raw` are all of them as they came, those that mean "not given" too.
    """

    given: Mapping[str, object]
    raw: Mapping[str, object]

    def text(self, name: str, default: str = "") -> str:
        """A string, or the default."""
        return cast(str, self.given.get(name, default))

    def text_or_none(self, name: str) -> str | None:
        """A string, or None when it was not given."""
        return cast("str | None", self.given.get(name))

    def number(self, name: str, default: int) -> int:
        """A whole number, or the default."""
        return int(cast(int, self.given.get(name, default)))

    def flag(self, name: str, default: bool) -> bool:
        """A boolean, or the default."""
        return cast(bool, self.given.get(name, default))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; one string alone is a list of one."""
        found = self.given.get(name, ())
        return (found,) if isinstance(found, str) else tuple(cast("list[str]", found))

    def match(self) -> Match:
        """How an anchor is compared."""
        return "equals" if self.text("match") == "equals" else "contains"

    def occurrence(self) -> Occurrence | None:
        """Which candidate: a number from 1, `last`, or None."""
        found = self.given.get("occurrence")
        if found is None:
            return None
        if found == "last":
            return "last"
        if isinstance(found, str):
            if not (found.isascii() and found.isdigit() and len(found) < 10):
                raise InvalidArgs("occurrence", "must be a number from 1, or last")
            found = int(found)
        number = int(cast(int, found))
        if number < 0:
            raise InvalidArgs("occurrence", "must be a number from 1, or last")
        return number or None


def checked(schema: Schema, arguments: object) -> Args:
    """The arguments, if they are what the schema asks for.

    Raises InvalidArgs, naming the argument; PathRequired for a missing path.
    In an optional argument null and the sentinel of its type ("", 0, [], {}) mean "not
    given": a strict client has to send them all. A number is taken where a text is meant.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArgs("arguments", "must be an object")
    raw = cast("Mapping[str, object]", arguments)
    given = dict(raw)
    known: Mapping[str, Any] = schema["properties"]
    required: list[str] = schema.get("required", [])
    for name in given:
        if name not in known:
            close = ", ".join(known)
            raise InvalidArgs(_shown(name), f"is not an argument of this tool (it takes: {close})")
    for name, value in list(given.items()):
        if name not in required and _not_given(value, known[name]):
            del given[name]
    if "path" in required and given.get("path") in (None, ""):
        raise PathRequired()
    for name in required:
        if name not in given:
            raise InvalidArgs(name, "is required")
    loose: dict[str, object] = {}
    for name, value in given.items():
        if not _are_rows(known[name], value):
            given[name] = loose[name] = _with_texts(known[name], value)
    if not all(map(_all_fit, loose.values())):
        for name, value in loose.items():
            _check_value(name, value)
    if not all(_allows(known[name], value) for name, value in loose.items()):
        error = _first_error(schema, given)
        if error is not None:
            raise error
    return Args(given, raw)


def _not_given(value: object, schema: Schema) -> bool:
    if value is None:
        return True
    if isinstance(value, bool):  # False is a value, though it equals 0
        return False
    kinds = (kind["type"] for kind in schema.get("anyOf", (schema,)))
    return any(value == _SENTINELS[kind] for kind in kinds if kind in _SENTINELS)


def _with_texts(schema: Schema, value: object) -> object:
    """The value, with numbers as texts wherever the schema asks for a text, at any depth."""
    whole = value
    if isinstance(value, list) and "items" in schema:
        return [_with_texts(schema["items"], item) for item in cast("list[object]", value)]
    if isinstance(value, dict) and "properties" in schema:
        known: Mapping[str, Schema] = schema["properties"]
        items = cast("dict[str, object]", value).items()
        return {name: _with_texts(known.get(name, {}), item) for name, item in items}
    if schema.get("type") == "string" and not isinstance(value, bool):
        if isinstance(value, int) and value.bit_length() <= MOST_BITS:
            return str(value)
        if isinstance(value, float) and isfinite(value):
            return repr(value)
    return whole


def _are_rows(schema: Schema, value: object) -> bool:
    """Whether the value is surely a list of objects of texts as the schema asks for, all fit.

    One look at each text: there may be very many of them.
    """
    items = schema.get("items", {})
    if not isinstance(value, list) or not items.get("properties") or items.get("required") is None:
        return False
    rows = cast("list[object]", value)
    names: list[str] = items["required"]
    plain = all(part == _TEXT for part in items["properties"].values())
    if not plain or len(names) != len(items["properties"]) or len(rows) < schema.get("minItems", 0):
        return False
    for row in rows:
        if not isinstance(row, dict) or len(cast("dict[str, object]", row)) != len(names):
            return False
        for name in names:
            text = cast("dict[str, object]", row).get(name)
            if not isinstance(text, str) or "\0" in text or not (text.isascii() or _valid(text)):
                return False
    return True


def _all_fit(value: object, depth: int = MOST_DEPTH) -> bool:
    """Whether `_check_value` has surely nothing against anything in the value."""
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or _valid(value))
    if isinstance(value, int):
        return value.bit_length() <= MOST_BITS
    if isinstance(value, list | dict) and not depth:
        return False
    if isinstance(value, list):
        return all(_all_fit(item, depth - 1) for item in cast("list[object]", value))
    if isinstance(value, dict):
        items = cast("dict[str, object]", value)
        return all(map(_all_fit, items)) and all(_all_fit(x, depth - 1) for x in items.values())
    return not isinstance(value, Mapping)


def _check_value(name: str, value: object, depth: int = MOST_DEPTH) -> None:
    """Every text in the value is valid Unicode without NUL, every number can be written."""
    if isinstance(value, list | Mapping) and not depth:
        raise InvalidArgs(name[:100], "holds too many values in one another")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise InvalidArgs(name, "is too large a number")
    if isinstance(value, str):
        if "\0" in value and name != "path":
            raise InvalidArgs(name, "holds a NUL character")
        if not _valid(value):
            raise InvalidArgs(name, "holds a lone surrogate")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            _check_value(f"{name}.{_shown(key)}", key)
            _check_value(f"{name}.{_shown(key)}", item, depth - 1)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _check_value(f"{name}[{index}]", item, depth - 1)


def _valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    """A name that came from outside, fit for a report."""
    return name.encode("utf-8", "backslashreplace").decode()[:100]


def _first_error(schema: Schema, given: Mapping[str, object]) -> InvalidArgs | None:
    """The first thing that the schema does not allow."""
    validator = _validator(_Key(schema))
    error = cast("_Error | None", next(iter(validator.iter_errors(given)), None))
    if error is None:
        return None
    path = [str(part) for part in error.absolute_path]
    if error.validator in ("required", "additionalProperties"):
        instance: Mapping[str, object] = error.instance
        extra = (key for key in instance if key not in error.schema["properties"])
        missing = (key for key in error.schema["required"] if key not in instance)
        key = next(missing if error.validator == "required" else extra)
        path.append(_shown(key))
    name = path[0] + "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in path[1:])
    return InvalidArgs(name, _reason(schema["properties"][path[0]], error))


_TEXT = {"type": "string"}
_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def _allows(schema: Schema, value: object) -> bool:
    """Whether the value is surely as the schema asks, at a small cost; False is no verdict."""
    kind = _TYPES.get(schema.get("type", ""))
    if kind is None or not isinstance(value, kind):
        return False
    if isinstance(value, str):
        return "enum" not in schema or value in schema["enum"]
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return value >= cast(int, schema.get("minimum", value))
    if isinstance(value, list):
        items = cast("list[object]", value)
        inner = cast("Schema", schema["items"])
        return len(items) >= schema.get("minItems", 0) and all(_allows(inner, x) for x in items)
    known: Mapping[str, Schema] = schema["properties"]
    given = cast("Mapping[str, object]", value)
    for name in schema["required"]:
        if name not in given:
            return False
    for name, item in given.items():
        if name not in known or not _allows(known[name], item):
            return False
    return True


def _reason(schema: Mapping[str, Any], error: _Error) -> str:
    if error.validator == "type" and "type" in schema and len(error.absolute_path) == 1:
        return f"must be of type {schema['type']}"
    if error.validator == "enum" and "enum" in schema:
        return f"must be one of {', '.join(schema['enum'])}"
    if error.validator == "anyOf":
        kinds = [str(part.get("type")) for part in schema.get("anyOf", [])]
        return f"must be of type {' or '.join(kinds)}"
    return error.message[:200]


@dataclass(frozen=True)
class _Key:
    """A schema as a key of a cache: the catalog's own objects live as long as the process."""

    schema: Schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.schema is self.schema


@cache
def _validator(key: _Key) -> Any:
    from jsonschema import Draft202012Validator  # 77 ms of import, which --help need not pay

    return Draft202012Validator(key.schema)


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
