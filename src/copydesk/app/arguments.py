"""A tool's arguments as a shell gives them: JSON, `-` for standard input, or `--name value`.

What lives here: that grammar. What must not: the check of the values (the wire
does it). A value is read as the schema's type; a list is given by repeating; a
boolean alone is true. copydesk's own options may stand among the arguments.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

from copydesk.app.usage import UsageError

Own = Mapping[str, str]
"""copydesk's own options by name; a flag is "true"."""

_OWN = ("root", "member", "lang")
_FLAGS = ("json", "help")
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Words:
    """What stands after a tool's name.

    `text` is JSON (or `-`), None when there is none; `named` are arguments
    by name.
    """

    tool: str
    text: str | None
    named: Mapping[str, object]
    own: Own

    def arguments(self, stdin: TextIO) -> object:
        """The arguments, as JSON would give them; raises UsageError."""
        if self.text is None:
            return dict(self.named)
        text, where = (stdin.read(), "standard input") if self.text == "-" else (self.text, "")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            what = where or repr(text[:60])
            raise _wrong(self.tool, f"{what} is no JSON ({error})") from None


def read(tool: str, words: Sequence[str], schema: Mapping[str, Any]) -> Words:
    """Tell apart the words after a tool's name; raises UsageError."""
    known: Mapping[str, Any] = schema["properties"]
    texts: list[str] = []
    named: dict[str, object] = {}
    own: dict[str, str] = {}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if not word.startswith("--") and word != "-h":
            texts.append(word)
            continue
        spelled, mark, value = word.lstrip("-").partition("=")
        name = "help" if word == "-h" else spelled.replace("-", "_")
        form = cast("Mapping[str, Any]", known.get(name, {}))
        if not mark:
            flag = not form and name in _FLAGS
            value = "true" if flag else _value(tool, name, form, rest)
        if not form and name in (*_OWN, *_FLAGS):
            own[name] = value
        elif form.get("type") == "array":
            named[name] = [*cast("list[object]", named.get(name, [])), value]
        elif name in named:
            raise _wrong(tool, f"--{name} is given twice")
        else:
            named[name] = _typed(value, form)
    if len(texts) > 1 or (texts and named):
        extra = texts[1] if len(texts) > 1 else texts[0]
        raise _wrong(tool, f"one JSON, or --name value for each, but not {extra[:100]!r} too")
    return Words(tool, texts[0] if texts else None, named, own)


def _value(tool: str, name: str, form: Mapping[str, Any], rest: deque[str]) -> str:
    """The value that stands after a name."""
    if form.get("type") == "boolean" and not (rest and rest[0] in ("true", "false")):
        return "true"
    if not rest or (not form and name not in _OWN and rest[0].startswith("--")):
        if form or name in _OWN:
            raise _wrong(tool, f"--{name}: its value is missing")
        return ""  # an argument that the tool does not have: the wire says so
    return rest.popleft()


def _typed(text: str, form: Mapping[str, Any]) -> object:
    kinds = [form.get("type"), *(part.get("type") for part in form.get("anyOf", []))]
    digits = text.removeprefix("-")
    if "integer" in kinds and digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS:
        return int(text)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text


def _wrong(tool: str, message: str) -> UsageError:
    return UsageError(f"{tool}: {message}", f"copydesk call {tool} --help shows what it takes.")
