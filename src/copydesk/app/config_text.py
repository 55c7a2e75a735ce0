"""Minimal edits of configuration texts: JSON with comments, and TOML.

Invariant: every edit is verified: the new text is parsed again and must differ from the old one by
the requested change only; a text that cannot be parsed is refused.

TOML is read by the standard library, statement by statement, and only whole statements and values
are cut out or replaced. tomlkit 0.15 does not keep the rest: a removed table takes the comments in
front of the next one along, a new one has line feeds among CRLF, and the headers [[a.c]], [[a.b]]
and [a.c.d] are given back in another order without any edit (decision 29).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

Value: TypeAlias = object
"""A value of JSON or TOML: texts, numbers, lists, mappings."""
Found = TypeVar("Found")


class Unreadable(Exception):
    """The text cannot be edited; `reason` says why, and in which line if one is given."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.reason = f"line {line}: {reason}" if line else reason
        super().__init__(self.reason)


def dig(value: Value, keys: Sequence[str]) -> Value:
    """The value under the keys; None if there is none."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Value]", value).get(key)
    return value


def replaced(value: Value, keys: Sequence[str], new: Value) -> Mapping[str, Value]:
    """The value with `new` under the keys, or with nothing there if it is None."""
    table = dict(cast("Mapping[str, Value]", value)) if isinstance(value, Mapping) else {}
    key, *below = keys
    if below or new is not None:
        table[key] = replaced(table.get(key), below, new) if below else new
    else:
        table.pop(key, None)
    return table


def tidy(value: Value, keys: Sequence[str]) -> Value:
    """The value without the table under the keys, if that is empty."""
    return replaced(value, keys, None) if keys and dig(value, keys) == {} else value


def _newline_of(text: str) -> str:
    """The line end of the text: CRLF if its first line ends with it."""
    return "\r\n" if re.match(r"[^\n]*\r\n", text) else "\n"


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what matches at this place ends."""
    match = pattern.match(text, at)
    return match.end() if match else at


_DEEPEST: Final = 100
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN: Final = re.compile(r"[^\s,:\[\]{}\"/]+")
_BLANKS: Final = re.compile(r"[ \t]*")
_SPACE: Final = re.compile(r"(?>(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*)", re.DOTALL)
_TAIL: Final = re.compile(r"(?:[ \t]*/\*[^\n]*?\*/)*(?:[ \t]*//[^\n]*?(?=\r?\n|\Z))?")
"""The comments that follow on the same line."""
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_OTHERS: Final = "it could not be changed without changing something else in it"
_NO_VALUE: Final = "a value is missing or misspelled"
_SCALARS: Final = {
    True: (_STRING, "a text has no end, or a line break in it", "a text has a wrong escape"),
    False: (_PLAIN, _NO_VALUE, _NO_VALUE),
}
"""How texts and other values are written; why there is none, and why it is wrong."""


@dataclass(slots=True)
class _Node:
    """A value at [start, stop); `end` is after its comma, if it has one, `name` where its key is.

    The members of a list have their numbers as keys.
    """

    start: int = 0
    stop: int = 0
    end: int = 0
    name: int = 0
    value: Value = field(default_factory=dict[str, Value])
    members: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


class _Reader:
    """Finds the values of a JSON text; raises Unreadable."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def wrong(self, reason: str) -> Unreadable:
        return Unreadable(f"it is not valid JSON: {reason}", self.text.count("\n", 0, self.at) + 1)

    def next(self) -> str:
        """Go to the next token; return its first character, nothing at the end."""
        self.at = _end(_SPACE, self.text, self.at)
        if self.text.startswith("/*", self.at):
            raise self.wrong("a comment has no end")
        return self.text[self.at : self.at + 1]

    def node(self, depth: int = 0, *, is_key: bool = False) -> _Node:
        """The next value; a key is a text."""
        char = self.next()
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        node = _Node(self.at)
        if char in ("{", "[") and not is_key:
            self._fill(node, "}" if char == "{" else "]", depth)
        else:
            pattern, missing, misspelled = _SCALARS[is_key or char == '"']
            self.at = _end(pattern, self.text, node.start)
            if self.at == node.start:
                raise self.wrong(missing)
            try:
                node.value = json.loads(self.text[node.start : self.at])
            except ValueError:
                raise self.wrong(misspelled) from None
        node.stop = node.end = self.at
        return node

    def _fill(self, node: _Node, closing: str, depth: int) -> None:
        """Read the members of an object or a list."""
        self.at += 1
        comma = True
        while self.next() != closing:
            if not comma:
                raise self.wrong("a comma is missing")
            name, key = self.at, str(len(node.members))
            if closing == "}":
                key = str(self.node(is_key=True).value)
                if key in node.members:
                    raise self.wrong(f"{json.dumps(key)} is there twice")
                if self.next() != ":":
                    raise self.wrong("a colon is missing")
                self.at += 1
            member = node.members[key] = self.node(depth + 1)
            comma = self.next() == ","
            self.at += comma
            member.name, member.end = name, self.at if comma else member.stop
        self.at += 1
        values = {key: member.value for key, member in node.members.items()}
        node.value = values if closing == "}" else list(values.values())


def _parsed(text: str) -> _Node:
    """The value of the text; an empty object that ends at 0 if it has none. Raises Unreadable."""
    reader = _Reader(text)
    if not reader.next():
        return _Node()
    node = reader.node()
    if reader.next():
        raise reader.wrong("something stands after the end")
    return node


def read_json(text: str) -> Value:
    """The value of the text; an empty text gives an empty object. Raises Unreadable."""
    return _parsed(text).value


def put_json(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields, texts or lists, in the object under the keys; raises Unreadable.

    Missing objects are created; other members, comments and the layout stay unchanged.
    """
    wanted, indent = read_json(text), _INDENT.search(text)
    for name, value in fields.items():
        path = (*keys, name)
        text = _put(text, path, value, indent[1] if indent else "  ")
        wanted = replaced(wanted, path, value)
    return _verified(text, read_json(text), wanted, _OTHERS)


def _verified(text: str, said: Value, wanted: Value, reason: str) -> str:
    """The text, if it says what is wanted."""
    if said != wanted:
        raise Unreadable(reason)
    return text


def _put(text: str, path: Sequence[str], value: Value, unit: str) -> str:
    """The text with one field set, whose keys are the path; `unit` is an indentation."""
    node = _parsed(text)
    if not node.stop:
        newline = _newline_of(text)
        lead = newline if text.strip() and not text.endswith("\n") else ""
        return _put(f"{text}{lead}{{}}{newline}", path, value, unit)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            where = json.dumps(path[depth - 1]) if depth else "the whole"
            raise Unreadable(f"{where} is no object", text.count("\n", 0, node.start) + 1)
        if key not in node.members:
            return _added(text, node, path[depth:], value, unit)
        node = node.members[key]
    if node.value == value:
        return text
    return text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.stop :]


def _added(text: str, node: _Node, path: Sequence[str], value: Value, unit: str) -> str:
    """The text with a member at the end of an object, laid out as what is there."""
    inside = text[node.start + 1 : node.stop - 1]
    # an empty object: as the text; the whole itself, and one below a comment, gets lines
    as_text = "\n" in text.strip() or not text[: node.start].lstrip().startswith("{")
    is_wide = "\n" in inside if node.members else as_text
    newline, unit = (_newline_of(text), unit) if is_wide else ("", "")

    def indent(at: int) -> str:
        """The indentation of the line that contains this character."""
        begin = text.rfind("\n", 0, at) + 1
        return text[begin : _end(_BLANKS, text, begin)] if is_wide else ""

    def member(path: Sequence[str], indent: str) -> str:
        name = f"{json.dumps(path[0], ensure_ascii=False)}: "
        if len(path) == 1:
            return name + json.dumps(value, ensure_ascii=False)
        inner = member(path[1:], indent + unit)
        return f"{name}{{{newline}{indent}{unit}{inner}{newline}{indent}}}"

    if not node.members:
        base = indent(node.start)
        rest = "" if is_wide and not inside.strip() else inside
        end = "" if "\n" in rest else newline + base
        new = newline + base + unit + member(path, base + unit) + end
        return text[: node.start + 1] + new + rest + text[node.stop - 1 :]
    last = list(node.members.values())[-1]
    inner, has_comma = indent(last.name), last.end > last.stop
    new = (newline + inner if is_wide else " ") + member(path, inner)
    at = _end(_TAIL, text, last.end) if is_wide else last.end
    comma, final = ("", "," * is_wide) if has_comma else (",", "")
    return text[: last.end] + comma + text[last.end : at] + new + final + text[at:]


def remove_json(text: str, keys: Sequence[str]) -> str:
    """The text without the member under the keys; raises Unreadable."""
    parent = node = _parsed(text)
    wanted = replaced(node.value, keys, None)
    for key in keys:
        if key not in node.members:
            return text
        parent, node = node, node.members[key]
    before, after = text[: node.name].rstrip(" \t"), text[node.end :]
    *others, last = parent.members.values()
    if not others and not before[parent.start + 1 :].strip():
        rest = text[node.end : parent.stop - 1]
        before, after = text[: parent.start + 1], after if rest.strip() else text[parent.stop - 1 :]
    elif others and last is node and node.end == node.stop:
        comma = others[-1].end - 1
        before = before[:comma] + before[comma + 1 :]
    new = before.removesuffix("\n").removesuffix("\r") + after
    if _tried(read_json, new) != wanted:  # a comment before it, which needs its line end
        new = before + after
    return _verified(new, read_json(new), wanted, _OTHERS)


_INLINE: Final = "the table is written in one line with others; change it by hand"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAY_END: Final = re.compile(r"(?:[\]}]|\"\"\"|''')[ \t\r]*(?:#.*)?\n?\Z")
"""Ends a line that may be the last one of a value of several lines."""


def read_toml(text: str) -> Mapping[str, Value]:
    """The value of the text; raises Unreadable."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of tomllib, and of a number that is too long
        raise Unreadable(f"it is not valid TOML: {error}") from None
    except RecursionError:
        raise Unreadable("it is not valid TOML: it is nested too deeply") from None


def put_toml(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields set in the table under the keys; raises Unreadable.

    A missing table is added at the end; everything else stays unchanged.
    """
    now, newline = read_toml(text), _newline_of(text)
    wanted: Mapping[str, Value] = now
    for name, value in fields.items():
        wanted = replaced(wanted, (*keys, name), value)
    if wanted == now:
        return text
    missing = [key for key in fields if dig(now, (*keys, key)) is None]
    new = "".join(f"{_key(key)} = {_written(fields[key])}{newline}" for key in missing)
    result, is_own = "", False
    for statement, said, is_header in _statements(text):
        key = next(iter(said), "")
        if is_header:
            is_own = said == replaced({}, keys, {})
            if is_own and new:
                statement += ("" if statement.endswith("\n") else newline) + new
                new = ""
        elif is_own and key in fields and said[key] != fields[key]:
            statement = _revalued(statement, fields[key])
        result += statement
    if new:
        result += "" if not result or result.endswith("\n") else newline
        result += newline if result.strip() and not result.endswith(newline * 2) else ""
        result += f"[{'.'.join(map(_key, keys))}]{newline}{new}"
    return _verified(result, _tried(read_toml, result), wanted, _INLINE)


def remove_toml(text: str, keys: Sequence[str]) -> str:
    """The text without the table under the keys and its subtables; raises Unreadable.

    Comments after their last values stay.
    """
    now, above = read_toml(text), keys[:-1]
    if dig(now, keys) is None:
        return text
    result = pending = ""
    at, is_own = 0, False
    for statement, said, is_header in _statements(text):
        if is_header:
            result, pending = result + pending, ""
            is_own = dig(said, keys) is not None
            if is_own and text.endswith(("\n\n", "\n\r\n"), 0, at):  # an empty line
                result = result.removesuffix("\n").removesuffix("\r")
        at += len(statement)
        if not is_own:
            result += statement
        else:  # comments and empty lines are held until something of the table follows
            pending = "" if said else pending + statement
    result += pending
    wanted = tidy(replaced(now, keys, None), above)
    return _verified(result, tidy(_tried(read_toml, result), above), wanted, _INLINE)


def _statements(text: str) -> Iterator[tuple[str, Mapping[str, Value], bool]]:
    """Each statement of a valid TOML text with its lines, what it says alone, if it is a header.

    No beginning of a statement that ends with a line is TOML, so its first lines that are make it.
    """
    statement = ""
    for line in re.findall(r".*\n|.+", text):
        statement += line
        may_end = statement == line or _MAY_END.search(line)
        said = _tried(read_toml, statement) if may_end else None
        if said is not None:
            yield statement, said, statement.lstrip(" \t").startswith("[")
            statement = ""


def _tried(read: Callable[[str], Found], text: str) -> Found | None:
    with suppress(Unreadable):
        return read(text)
    return None


def _revalued(statement: str, value: Value) -> str:
    """A key's statement with another value; its comment stays."""
    stops = (match.start() for match in re.finditer(r"[ \t]*(?:#|\r?\n|\Z)", statement))
    stop = next(at for at in stops if _tried(read_toml, statement[:at]))
    starts = (match.end() for match in re.finditer(r"=[ \t]*", statement))
    start = next(at for at in starts if _tried(read_toml, f"{statement[:at]}0"))
    return statement[:start] + _written(value) + statement[stop:]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _written(name)


def _written(value: Value) -> str:
    """A text or a list of texts as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[Value]', value)))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class Format(NamedTuple):
    """Reads and edits texts of one format; each call may raise Unreadable."""

    read: Callable[[str], Value]
    put: Callable[[str, Sequence[str], Mapping[str, Value]], str]
    remove: Callable[[str, Sequence[str]], str]


JSON: Final = Format(read_json, put_json, remove_json)
TOML: Final = Format(read_toml, put_toml, remove_toml)
