"""A tool's arguments as a shell gives them: JSON, `-` for standard input, or `--name value`.

What lives here: that grammar. What must not: the check of the values (the wire
does it). A value is read as the schema's type; a list is given by repeating.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from copydesk.errors import InvalidArgs

_OPTIONS = ("root", "member", "lang")


def without_options(options: argparse.Namespace) -> list[str]:
    """The words after the tool, without copydesk's own options, which are set in `options`."""
    words: list[str] = []
    rest = iter(options.arguments)
    for word in rest:
        name, mark, value = word.removeprefix("--").partition("=")
        if word == "--json":
            options.json = True
        elif word.startswith("--") and name in _OPTIONS:
            setattr(options, name, value if mark else next(rest, None))
        else:
            words.append(word)
    return words


def parsed(words: Sequence[str], schema: Mapping[str, Any], stdin: TextIO) -> object:
    """The arguments, as JSON would give them; raises InvalidArgs."""
    if not words:
        return {}
    if len(words) == 1 and not words[0].startswith("--"):
        text = stdin.read() if words[0] == "-" else words[0]
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidArgs("arguments", f"is not JSON: {error}") from None
    return _named(words, schema["properties"])


def _named(words: Sequence[str], known: Mapping[str, Any]) -> dict[str, object]:
    given: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            raise InvalidArgs("arguments", f"--name expected, not {word!r}")
        name, mark, value = word[2:].partition("=")
        name = name.replace("-", "_")
        form = known.get(name, {"type": "string"})
        if not mark:
            following = next(rest, None)
            if following is None:
                raise InvalidArgs(name, "a value is missing")
            value = following
        if form.get("type") == "array":
            given[name] = [*_list(given.get(name)), value]
        else:
            given[name] = _typed(value, form)
    return given


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _typed(text: str, form: Mapping[str, Any]) -> object:
    kinds = [form.get("type"), *(part.get("type") for part in form.get("anyOf", []))]
    if "integer" in kinds and text.lstrip("-").isdigit():
        return int(text)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text
