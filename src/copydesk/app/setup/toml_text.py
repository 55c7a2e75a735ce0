"""Edits of TOML texts: tables and the values in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from copydesk.app.setup import (
    TextEdit,
    Unreadable,
    Value,
    applied,
    dig,
    newline_of,
    with_fields,
    without,
)

_INLINE: Final = "the table is written in one line with others; change it by hand"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SPACE: Final = re.compile(r"[ \t]*")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")


@dataclass(frozen=True, slots=True)
class _Part:
    """A header (`value_start` is -1) or a key with its value; `stop` is the end of its line.

    `keys` begin at the top of the document.
    """

    keys: tuple[str, ...]
    start: int
    stop: int
    value_start: int = -1
    value_stop: int = -1
    is_array: bool = False


def read(text: str) -> Value:
    """The value of the text; raises Unreadable."""
    try:
        found: Value = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is not valid TOML: {error}") from None
    except RecursionError:
        raise Unreadable("it is not valid TOML: it is nested too deeply") from None
    return found


def put(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text where the table under the keys has these fields; raises Unreadable.

    A table that is missing is added at the end; everything else stays as it is.
    """
    now = read(text)
    table = dig(now, keys)
    if isinstance(table, Mapping):
        old = cast("Mapping[str, Value]", table)
        if all(name in old and old[name] == value for name, value in fields.items()):
            return text
    parts = list(_parts(text))
    heads = [p for p in parts if p.value_start < 0 and p.keys == tuple(keys) and not p.is_array]
    newline = newline_of(text)
    if not heads:
        edits = [TextEdit(len(text), len(text), _new_table(text, keys, fields, newline))]
    else:
        edits = _changed(text, parts, heads[0], fields, newline)
    made = applied(text, edits)
    if _after(made) != with_fields(now, keys, fields):
        raise Unreadable(_INLINE)
    return made


def remove(text: str, keys: Sequence[str]) -> str:
    """The text without the table under the keys and those below it; raises Unreadable."""
    now, name = read(text), tuple(keys)
    if dig(now, keys) is None:
        return text
    edits: list[TextEdit] = []
    stop = -1
    for part in _parts(text):
        if part.keys[: len(name)] != name:
            continue
        if part.value_start < 0 and part.start != stop:
            edits.append(TextEdit(part.start, part.stop, ""))
        elif edits:
            edits[-1] = TextEdit(edits[-1].start, part.stop, "")
        stop = part.stop
    edits = [_with_blank_line(text, edit) for edit in edits]
    made = applied(text, edits)
    if tidy(_after(made), keys) != tidy(without(now, keys), keys):
        raise Unreadable(_INLINE)
    return made


def tidy(value: Value, keys: Sequence[str]) -> Value:
    """Without the tables above the last of the keys that have nothing in them."""
    for depth in range(len(keys) - 1, 0, -1):
        if dig(value, keys[:depth]) == {}:
            value = without(value, keys[:depth])
    return value


def _with_blank_line(text: str, edit: TextEdit) -> TextEdit:
    """The removal of a table, with the empty line before it."""
    for blank in ("\r\n\r\n", "\n\n"):
        if text.endswith(blank, 0, edit.start):
            return TextEdit(edit.start - len(blank) // 2, edit.stop, "")
    return edit


def _after(made: str) -> Value:
    try:
        return read(made)
    except Unreadable:
        raise Unreadable(_INLINE) from None


def _new_table(text: str, keys: Sequence[str], fields: Mapping[str, Value], newline: str) -> str:
    lead = "" if not text or text.endswith("\n") else newline
    lead += newline if text.strip() and not (text + lead).endswith(newline * 2) else ""
    lines = [f"[{'.'.join(map(_key, keys))}]"]
    lines += [f"{_key(name)} = {_written(value)}" for name, value in fields.items()]
    return lead + "".join(line + newline for line in lines)


def _changed(
    text: str, parts: Sequence[_Part], head: _Part, fields: Mapping[str, Value], newline: str
) -> list[TextEdit]:
    """The edits of the values of a table that has a header of its own."""
    edits: list[TextEdit] = []
    new = ""
    at = head.stop
    mine = {part.keys: part for part in parts if part.value_start >= 0}
    for name, value in fields.items():
        found = mine.get((*head.keys, name))
        if found is None:
            new += f"{_key(name)} = {_written(value)}{newline}"
        elif read("x = " + text[found.value_start : found.value_stop]) != {"x": value}:
            edits.append(TextEdit(found.value_start, found.value_stop, _written(value)))
    if new:
        lead = newline if not text.endswith("\n", 0, at) else ""
        edits.append(TextEdit(at, at, lead + new))
    return sorted(edits, key=lambda edit: edit.start)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _written(value: Value) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[Value]', value)))}]"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Value]", value).items()
        return f"{{ {', '.join(f'{_key(name)} = {_written(one)}' for name, one in pairs)} }}"
    return json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parts(text: str) -> Iterator[_Part]:
    """The headers and keys of a text that is valid TOML."""
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        start = at = _past_space(text, at)
        if at >= len(text):
            return
        if text[at] == "[":
            is_array = text.startswith("[[", at)
            keys, at = _keys(text, at + 1 + is_array)
            table = keys
            stop = _end_of_line(text, text.index("]", at) + 1 + is_array)
            yield _Part(keys, start, stop, is_array=is_array)
        else:
            keys, at = _keys(text, at)
            value = _past_blanks(text, text.index("=", at) + 1)
            end = _value_end(text, value)
            stop = _end_of_line(text, end)
            yield _Part((*table, *keys), start, stop, value, end)
        at = stop


def _past_blanks(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _past_space(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text[at] in " \t\r\n":
            at += 1
        else:
            break
    return at


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """A dotted key, and where it ends."""
    keys: list[str] = []
    while True:
        at = _past_blanks(text, at)
        found = _BASIC.match(text, at) or _LITERAL.match(text, at) or _BARE.match(text, at)
        if found is None:
            raise Unreadable("it has a key that is not understood")
        quoted = found[0][0] in "\"'"
        keys.append(next(iter(tomllib.loads(f"x = {found[0]}").values())) if quoted else found[0])
        at = _past_blanks(text, found.end())
        if not text.startswith(".", at):
            return tuple(keys), at
        at += 1


def _value_end(text: str, at: int) -> int:
    """Where the value that begins at `at` ends."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "\"'":
            at = _string_end(text, at)
            if not depth:
                return at
            continue
        if char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
            if not depth:
                return at + 1
        elif char == "#" and depth:
            at = _past_space(text, at)
            continue
        elif not depth and char in "#\n":
            break
        at += 1
    return len(text[:at].rstrip())


def _string_end(text: str, at: int) -> int:
    quote = text[at]
    long = quote * 3
    if not text.startswith(long, at):
        found = (_BASIC if quote == '"' else _LITERAL).match(text, at)
        return found.end() if found else len(text)
    at += 3
    while not text.startswith(long, at):
        at += 2 if quote == '"' and text[at] == "\\" else 1
    while text.startswith(quote, at):  # up to two more quotes may belong to the text
        at += 1
    return at
