"""Minimal edits of configuration texts: which spans of a JSON or TOML text become what.

Invariant: every edit made here is checked: the new text is read again and differs from the
old one by what was asked for and by nothing else; a text that cannot be read is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

Value: TypeAlias = object
"""A value as JSON and TOML have it: texts, numbers, lists, mappings."""


class Unreadable(Exception):
    """The text cannot be edited: `line` is where, 0 for all of it, and `reason` says why."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters [start, stop) by `new`."""

    start: int
    stop: int
    new: str


def applied(text: str, edits: Sequence[TextEdit]) -> str:
    """The text after the edits, which are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += (text[at : edit.start], edit.new)
        at = edit.stop
    return "".join((*parts, text[at:]))


def line_of(text: str, at: int) -> int:
    """The line of a character, from 1."""
    return text.count("\n", 0, at) + 1


def newline_of(text: str) -> str:
    """The line end of the text: CRLF where its first line has it."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def dig(value: Value, keys: Sequence[str]) -> Value:
    """What stands under the keys; None where there is nothing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Value]", value).get(key)
    return value


def with_fields(value: Value, keys: Sequence[str], fields: Mapping[str, Value]) -> Value:
    """The value with the fields under the keys, beside the fields that are there."""
    table = dict(cast("Mapping[str, Value]", value)) if isinstance(value, Mapping) else {}
    if not keys:
        return {**table, **fields}
    table[keys[0]] = with_fields(table.get(keys[0]), keys[1:], fields)
    return table


def without(value: Value, keys: Sequence[str]) -> Value:
    """The value with nothing under the keys."""
    if not isinstance(value, Mapping):
        return value
    table = dict(cast("Mapping[str, Value]", value))
    if len(keys) == 1:
        table.pop(keys[0], None)
    elif keys[0] in table:
        table[keys[0]] = without(table[keys[0]], keys[1:])
    return table
