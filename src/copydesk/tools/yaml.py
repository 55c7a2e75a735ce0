"""YAML 1.2 out: block style, every string that could mean something else in quotes.

What lives here: the emitter and the fence. What must not: parsing. Law: any
YAML 1.2 parser (and 1.1 ones too) reads back exactly the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
"""What a report may hold."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])
_ESCAPED = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]'
)
_SCALARS = (str, int)
_FLAGS = {True: "true", False: "false"}
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BACKTICKS = re.compile(r"`{3,}")


def emit(data: Mapping[str, Value]) -> str:
    """The document, ending with a newline."""
    lines: list[str] = []
    _mapping(lines, data, "")
    return "\n".join((*lines, "")) or "{}\n"


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
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else quoted(value)
    if value is None:
        return "null"
    return _FLAGS[value] if isinstance(value, bool) else str(value)


_key = lru_cache(maxsize=1024)(_scalar)


def _mapping(lines: list[str], data: Mapping[str, Value], indent: str) -> None:
    for key, value in data.items():
        _entry(lines, f"{indent}{_key(key)}:", value, indent)


def _entry(lines: list[str], head: str, value: Value, indent: str) -> None:
    if value is None or isinstance(value, _SCALARS):
        lines.append(f"{head} {_scalar(value)}")
    elif isinstance(value, Mapping):
        if value:
            lines.append(head)
            _mapping(lines, value, f"{indent}  ")
        else:
            lines.append(f"{head} {{}}")
    elif value:
        lines.append(head)
        for item in value:
            _item(lines, item, f"{indent}  ")
    else:
        lines.append(f"{head} []")


def _item(lines: list[str], value: Value, indent: str) -> None:
    if isinstance(value, Mapping) and value:
        first = len(lines)
        _mapping(lines, value, f"{indent}  ")
        lines[first] = f"{indent}- {lines[first].lstrip()}"
    else:
        _entry(lines, f"{indent}-", value, indent)
