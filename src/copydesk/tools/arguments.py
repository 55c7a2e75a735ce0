"""Arguments of tools: a typed class per tool defines its JSON Schema, checks and values.

Invariants: after `read` there is no lone surrogate, no NUL in a text, no number too large to print
and no unknown argument; a value that means "not given" is replaced by the default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import get_annotations
from keyword import iskeyword
from math import isfinite
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from copydesk.edit.request import check_text, check_why
from copydesk.errors import InvalidArgs, PathRequired

Schema = Mapping[str, Any]
"""A JSON Schema (2020-12)."""

Property = dict[str, Any]

MOST_BITS = 1 << 13  # of an integer; Python refuses to print much larger ones
MOST_DEPTH = 32  # nesting of values; no tool needs more than a few levels


class Arguments:
    """The arguments of a call as attributes; a class attribute is the default of an optional one.

    The type of an attribute says what is accepted: `str`, `bool`, `Count`, `int`, a `Literal`, a
    tuple of them or of a TypedDict of texts, or `int | str`; add `| None` if there is no other
    default. One that Python takes for a keyword has a `_` at its end. `raw` has all arguments as
    they arrived, even those that mean "not given". `open`: unknown arguments are ignored.
    """

    open: ClassVar[bool] = False

    raw: Mapping[str, object]

    def __init__(self, raw: Mapping[str, object], values: Mapping[str, object]) -> None:
        self.__dict__.update(values, raw=raw)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True, eq=False)  # hashed, since it annotates a type
class _Form:
    """A kind of values: its schema, and how to read one.

    A value in `empty` means "not given" in an optional argument. `read` raises InvalidArgs with the
    place inside the value, "" for the whole.
    """

    schema: Schema
    read: Callable[[object], object]
    empty: tuple[object, ...] = ()


def _read_text(value: object, *, is_path: bool = False) -> str:
    """Read a text; RelPath will refuse a NUL in a path as INVALID_PATH."""
    if isinstance(value, str):
        checked = value.replace("\0", "") if is_path else value
        if "\0" in checked or not checked.isascii():
            check_text("", checked)
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(_read_number(value))
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    raise InvalidArgs("", "must be of type string")


def _read_number(value: object, *, is_count: bool = False) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgs("", "must be of type integer")
    if value.bit_length() > MOST_BITS:
        raise InvalidArgs("", "is too large a number")
    if is_count and value < 0:
        raise InvalidArgs("", "must be 0 or more")
    return value


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidArgs("", "must be of type boolean")


def _read_number_or_text(value: object) -> int | str:
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, bool | list | dict) or (isinstance(value, float) and value % 1):
        raise InvalidArgs("", "must be of type integer or string")
    return _read_number(value)


_TEXT = _Form({"type": "string"}, _read_text, ("",))
_PATH = replace(_TEXT, read=partial(_read_text, is_path=True))
_NUMBER = _Form({"type": "integer"}, _read_number, (0,))
_COUNT = _Form({"type": "integer", "minimum": 0}, partial(_read_number, is_count=True), (0,))
_FLAG = _Form({"type": "boolean"}, _read_flag)
_NUMBER_OR_TEXT = _Form(
    {"anyOf": [_NUMBER.schema, _TEXT.schema]}, _read_number_or_text, (*_TEXT.empty, *_NUMBER.empty)
)

Why = Annotated[
    str, _Form({"type": "string"}, lambda value: check_why("", _read_text(value)), ("",))
]
"""The reason for an edit, in one line."""

Count = Annotated[int, _COUNT]
"""A whole number, 0 or more; 0 means "not given"."""

Amount = Annotated[int, replace(_COUNT, empty=())]
"""A whole number, 0 or more, of which 0 is one."""


def _word(words: tuple[str, ...]) -> _Form:
    def read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise InvalidArgs("", f"must be one of {', '.join(words)}")

    return _Form({"type": "string", "enum": list(words)}, read, ("",))


def _list(item: _Form, *, least: int | None = None) -> _Form:
    """A list; a list of objects has at least one, and may be given as JSON text."""
    of_objects = item.schema["type"] == "object"
    least = int(of_objects) if least is None else least

    def read(value: object) -> tuple[object, ...]:
        if of_objects and isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = cast(object, json.loads(value))
            except (ValueError, RecursionError):
                raise InvalidArgs(
                    "", "must be of type array; this text is not valid JSON"
                ) from None
        if not isinstance(value, list):
            raise InvalidArgs("", "must be of type array")
        items = cast("list[object]", value)
        if len(items) < least:
            raise InvalidArgs("", "must not be empty")
        return tuple(_read_at(f"[{i}]", item.read, each) for i, each in enumerate(items))

    return _Form(
        {"type": "array", **({"minItems": least} if least else {}), "items": item.schema},
        read,
        ([], *["[]"] * of_objects),
    )


def list_of(kind: type) -> _Form:
    """A list of objects of this type that may be empty."""
    return _list(_form_of("", kind), least=0)


def _object(names: tuple[str, ...], required: frozenset[str]) -> _Form:
    """An object of texts, read as a dictionary; null and "" are dropped for optional keys."""

    def read(value: object) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise InvalidArgs("", "must be of type object")
        texts = cast("dict[str, object]", value)
        for name in required:  # of very many objects nearly all are valid
            text = texts.get(name)
            if not isinstance(text, str) or not text.isascii() or "\0" in text:
                break
        else:
            if len(texts) == len(required):
                return texts
        for name in names:
            if name in required and name not in texts:
                raise InvalidArgs(f".{name}", "is required")
        for name in texts:
            if name not in names:
                raise InvalidArgs(f".{_shown(name)}", _unknown(names))
        return {
            name: _read_at(f".{name}", _read_text, texts[name])
            for name in names
            if name in required or texts.get(name) not in (None, "")
        }

    return _Form(
        {
            "type": "object",
            "properties": dict.fromkeys(names, _TEXT.schema),
            "required": [name for name in names if name in required],
            "additionalProperties": False,
        },
        read,
    )


def _read_at(prefix: str, read: Callable[[object], object], value: object) -> object:
    """Read a value; a refusal also names its place."""
    try:
        return read(value)
    except InvalidArgs as wrong:
        raise InvalidArgs(prefix + wrong.argument, wrong.reason) from None


def read(kind: type[A], arguments: object) -> A:
    """Read the arguments of a call.

    Raises InvalidArgs, naming the argument; PathRequired for a missing path. In an optional
    argument null and the sentinel of its type ("", 0, []) mean "not given": a strict client has to
    send them all. A number is accepted in place of a text.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArgs("arguments", "must be an object")
    raw = cast("Mapping[str, object]", arguments)
    forms, required, _ = _signature_of(cast(Any, kind))  # mypy takes no class for hashable
    for name in raw:
        if name not in forms and not kind.open:
            raise InvalidArgs(_shown(name), _unknown(forms))
    values = {
        name: value
        for name, value in raw.items()
        if name in forms and (value is False or value not in (None, *forms[name].empty))
    }
    if "path" in required and values.get("path", "") == "":
        raise PathRequired()
    for name in required:
        if name not in values:
            raise InvalidArgs(name, "is required")
    return kind(
        raw,
        {
            name + "_" * iskeyword(name): _read_at(name, forms[name].read, values[name])
            for name in values
        },
    )


def schema_of(kind: type[Arguments]) -> Schema:
    """The JSON Schema of a tool's arguments; do not modify it."""
    return _signature_of(cast(Any, kind))[2]


@cache
def _signature_of(kind: type[Arguments]) -> tuple[dict[str, _Form], list[str], Schema]:
    """The arguments of a tool, first those of the class, then those of its bases.

    Their forms, the names of those that are required, for which no value means "not given", and
    the schema.
    """
    hints = get_type_hints(kind, include_extras=True)
    bases = kind.__mro__[: kind.__mro__.index(Arguments)]
    names = [name for base in bases for name in get_annotations(base)]
    last = reversed(dict.fromkeys(reversed(names)))  # a base's own, where two have it
    hinted = {
        name.removesuffix("_"): hints[name]
        for name in last
        if get_origin(hints[name]) is not ClassVar
    }
    defaults = {name: getattr(kind, name + "_" * iskeyword(name), ...) for name in hinted}
    required = [name for name, default in defaults.items() if default is ...]
    forms = {name: _form_of(name, hint) for name, hint in hinted.items()}
    shown = {
        name: {"default": default}
        for name, default in defaults.items()
        if isinstance(default, bool) or default not in (..., None, "", 0, ())
    }
    schema = {
        "type": "object",
        "properties": {
            name: {**form.schema, **shown.get(name, {})} for name, form in forms.items()
        },
        "required": required,
        "additionalProperties": False,
    }
    return forms | {name: replace(forms[name], empty=()) for name in required}, required, schema


def _form_of(name: str, hint: Any) -> _Form:
    """The form of the values of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (str, bool, int):
        return {bool: _FLAG, int: _NUMBER, str: _PATH if name == "path" else _TEXT}[hint]
    if origin is Annotated:
        return cast(_Form, parts[1])
    if origin is Literal:
        return _word(parts)
    if origin is tuple:
        return _list(_form_of("", parts[0]))
    if is_typeddict(hint):
        return _object(tuple(get_annotations(hint)), hint.__required_keys__)
    kinds = [part for part in parts if part is not type(None)]
    assert origin in (Union, UnionType), f"no argument can be of type {hint}"
    return _form_of(name, kinds[0]) if len(kinds) == 1 else _NUMBER_OR_TEXT


def _unknown(names: Iterable[str]) -> str:
    return f"is not an argument of this tool (it takes: {', '.join(names)})"


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()[:100]


def described(schema: Schema, texts: Mapping[str, str]) -> Property:
    """A copy of the schema with the text of each argument as its `description`."""
    copy = within(schema, lambda part: described(part, texts))
    for name in copy.get("properties", {}).keys() & texts.keys():
        copy["properties"][name]["description"] = texts[name]
    return copy


def with_null(schema: Schema) -> Property:
    """The schema with null allowed for optional arguments; descriptions stay outside `anyOf`."""
    copy = within(schema, with_null)
    forms: dict[str, Property] = copy.get("properties", {})
    for name in forms.keys() - set(copy.get("required", ())):
        form = forms[name]
        described_as: Property = {
            key: form[key] for key in ("description", "default") if key in form
        }
        kinds = form.get("anyOf") or [
            {key: part for key, part in form.items() if key not in described_as}
        ]
        forms[name] = {"anyOf": [*kinds, {"type": "null"}], **described_as}
    return copy


_UNLISTED = ("additionalProperties", "minimum", "minItems")
"""Keywords that calls are checked by but clients do not get, since each request pays for them.

`additionalProperties` would also make google-genai's conversion of MCP tools fail.
"""


def listed(schema: Schema) -> Property:
    """The schema with null as MCP clients get it, kept short because every request pays for it.

    Null is one of the types of an optional argument. Left out are the words of a choice that its
    description lists, and keywords that calls are checked by anyway.
    """
    copy = within(schema, listed)
    kinds: list[Property] = copy.pop("anyOf", [])
    for kind in kinds:
        if "enum" in kind and all(word in copy.get("description", "") for word in kind["enum"]):
            del kind["enum"]
    if any("enum" in kind for kind in kinds):  # null is none of its words
        copy["anyOf"] = kinds
    elif kinds:
        every = {key: part for kind in kinds for key, part in kind.items()}
        copy = every | copy | {"type": [kind["type"] for kind in kinds]}
    left_out = _UNLISTED if copy.get("required") else (*_UNLISTED, "required")
    return {key: part for key, part in copy.items() if key not in left_out}


def within(schema: Schema, convert: Callable[[Schema], Property]) -> Property:
    """A copy of the schema with its inner schemas converted."""
    inner: Mapping[str, Callable[[Any], Any]] = {
        "properties": lambda named: {name: convert(part) for name, part in named.items()},
        "items": convert,
        "anyOf": lambda kinds: [convert(kind) for kind in kinds],
    }
    return {key: inner[key](part) if key in inner else part for key, part in schema.items()}
