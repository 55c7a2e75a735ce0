"""YAML 1.2 out: block style, every string that could mean something else in quotes.

What lives here: the emitter and the fence. What must not: parsing. Law: any
YAML 1.2 parser (and 1.1 ones too) reads back exactly the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
"""What a report may hold."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])
_ESCAPED = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]'
)
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BACKTICKS = re.compile(r"`{3,}")


def emit(data: Mapping[str, Value]) -> str:
    """The document, ending with a newline."""
    return "".join(f"{line}\n" for line in _mapping(data, "")) or "{}\n"


def fenced(text: str, language: str) -> str:
    """The text as a fenced block; the fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    closed = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{fence}{language}\n{closed}{fence}\n"


def quoted(text: str) -> str:
    """The text as a double-quoted scalar."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"


def _scalar(value: str | int | bool | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else quoted(value)


def _mapping(data: Mapping[str, Value], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        lines += _entry(f"{indent}{_scalar(key)}:", value, indent)
    return lines


def _entry(head: str, value: Value, indent: str) -> list[str]:
    if isinstance(value, Mapping):
        return [head, *_mapping(value, f"{indent}  ")] if value else [f"{head} {{}}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            return [f"{head} []"]
        return [head, *(line for item in value for line in _item(item, f"{indent}  "))]
    return [f"{head} {_scalar(value)}"]


def _item(value: Value, indent: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        lines = _mapping(value, f"{indent}  ")
        return [f"{indent}- {lines[0].lstrip()}", *lines[1:]]
    return _entry(f"{indent}-", value, indent)
