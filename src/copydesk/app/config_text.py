"""Minimal edits of configuration texts, as spans of JSON or TOML.

Invariant: every edit is verified: the new text is parsed again and must differ from the old one by
the requested change only; a text that cannot be parsed is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

Value: TypeAlias = object
"""A value of JSON or TOML: texts, numbers, lists, mappings."""


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
    """The line of a character (1-based)."""
    return text.count("\n", 0, at) + 1


def newline_of(text: str) -> str:
    """The line end of the text: CRLF if its first line ends with it."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def dig(value: Value, keys: Sequence[str]) -> Value:
    """The value under the keys; None if there is none."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Value]", value).get(key)
    return value


def with_fields(value: Value, keys: Sequence[str], fields: Mapping[str, Value]) -> Value:
    """The value with these fields set under the keys; other fields stay."""
    table = dict(cast("Mapping[str, Value]", value)) if isinstance(value, Mapping) else {}
    if not keys:
        return {**table, **fields}
    table[keys[0]] = with_fields(table.get(keys[0]), keys[1:], fields)
    return table


def without(value: Value, keys: Sequence[str]) -> Value:
    """The value without what is under the keys."""
    if not isinstance(value, Mapping):
        return value
    table = dict(cast("Mapping[str, Value]", value))
    if len(keys) == 1:
        table.pop(keys[0], None)
    elif keys[0] in table:
        table[keys[0]] = without(table[keys[0]], keys[1:])
    return table


_DEEPEST: Final = 100
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN: Final = re.compile(r"[^\s,:\[\]{}\"/]+")
_JSON_SPACE: Final = re.compile(r"[ \t\r\n]*")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")


@dataclass(slots=True)
class _Node:
    """A value of the text, at [start, stop)."""

    start: int
    stop: int
    value: Value
    members: list[_Member] = field(default_factory=list["_Member"])
    is_object: bool = False


@dataclass(slots=True)
class _Member:
    """A member of an object; `comma` is the position of the comma after it, or -1."""

    key: str
    start: int
    node: _Node
    comma: int = -1


class _JsonReader:
    """Parses a text into nodes; raises Unreadable."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> _Node | None:
        """The single value of the text; None if there are only comments, or nothing."""
        self._skip()
        if self.at == len(self.text):
            return None
        found = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._wrong("something stands after the end")
        return found

    def _wrong(self, reason: str) -> Unreadable:
        return Unreadable(f"it is not valid JSON: {reason}", line_of(self.text, self.at))

    def _skip(self) -> None:
        text = self.text
        while True:
            found = _JSON_SPACE.match(text, self.at)
            self.at = found.end() if found else self.at
            if text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self._wrong("a comment has no end")
                self.at = end + 2
            else:
                return

    def _value(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self._wrong("it is nested too deeply")
        char = self.text[self.at : self.at + 1]
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        start = self.at
        if char == '"':
            text = self._string()
            return _Node(start, self.at, text)
        found = _PLAIN.match(self.text, start)
        try:
            value: Value = json.loads(found[0] if found else "")
        except ValueError:
            raise self._wrong("a value is missing or misspelled") from None
        self.at = found.end() if found else start
        return _Node(start, self.at, value)

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self._wrong("a text has no end, or a line break in it")
        try:
            value: str = json.loads(found[0])
        except ValueError:
            raise self._wrong("a text has a wrong escape") from None
        self.at = found.end()
        return value

    def _object(self, depth: int) -> _Node:
        node = _Node(self.at, 0, None, is_object=True)
        values: dict[str, Value] = {}
        self.at += 1
        while not self._ends("}", node.members[-1].comma if node.members else 0):
            start, key = self.at, self._string()
            if key in values:
                raise self._wrong(f"{json.dumps(key)} is there twice")
            self._skip()
            if self.text[self.at : self.at + 1] != ":":
                raise self._wrong("a colon is missing")
            self.at += 1
            self._skip()
            member = _Member(key, start, self._value(depth + 1))
            values[key] = member.node.value
            member.comma = self._comma()
            node.members.append(member)
        node.stop, node.value = self.at, values
        return node

    def _array(self, depth: int) -> _Node:
        node, values, comma = _Node(self.at, 0, None), list[Value](), 0
        self.at += 1
        while not self._ends("]", comma):
            values.append(self._value(depth + 1).value)
            comma = self._comma()
        node.stop, node.value = self.at, values
        return node

    def _ends(self, closing: str, comma: int) -> bool:
        """Whether the closing bracket comes; otherwise another value needs a comma before it."""
        self._skip()
        if self.text.startswith(closing, self.at):
            self.at += 1
            return True
        if comma < 0:
            raise self._wrong("a comma is missing")
        return False

    def _comma(self) -> int:
        self._skip()
        if not self.text.startswith(",", self.at):
            return -1
        self.at += 1
        return self.at - 1


def read_json(text: str) -> Value:
    """The value of the text; an empty text gives an empty object. Raises Unreadable."""
    found = _JsonReader(text).whole()
    return {} if found is None else found.value


def put_json(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields set in the object under the keys; raises Unreadable.

    Missing objects are created; other members, comments and the layout stay unchanged.
    """
    now = text
    for _ in range(len(fields) + 2):  # existing fields change together, new ones one by one
        now = applied(now, sorted(_put(now, keys, fields), key=lambda edit: edit.start))
    return _checked(now, with_fields(read_json(text), keys, fields))


def remove_json(text: str, keys: Sequence[str]) -> str:
    """The text without the member under the keys; raises Unreadable."""
    node = _JsonReader(text).whole() or _Node(0, 0, {})
    for key in keys[:-1]:
        found = [member.node for member in node.members if member.key == key]
        if not found:
            return text
        node = found[0]
    places = [at for at, member in enumerate(node.members) if member.key == keys[-1]]
    if not places:
        return text
    own, wanted = node.members[places[0]], without(read_json(text), keys)
    before = len(text[: own.start].rstrip(" \t"))
    line = len(text[:before].removesuffix("\n").removesuffix("\r"))
    try:
        return _checked(applied(text, _removal(text, node, places[0], line)), wanted)
    except Unreadable:  # the line before ends with a comment, which needs its line end
        return _checked(applied(text, _removal(text, node, places[0], before)), wanted)


def _checked(text: str, wanted: Value) -> str:
    if read_json(text) != wanted:
        raise Unreadable("it could not be changed without changing something else in it")
    return text


def _put(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> list[TextEdit]:
    layout = _Layout(text)
    node = _JsonReader(text).whole()
    if node is None:
        lead = layout.newline if text.strip() and not text.endswith("\n") else ""
        made = layout.written(_nested(keys, fields), "")
        return [TextEdit(len(text), len(text), lead + made + layout.newline)]
    for depth, key in enumerate(keys):
        if not node.is_object:
            where = json.dumps(keys[depth - 1]) if depth else "the whole"
            raise Unreadable(f"{where} is no object", line_of(text, node.start))
        found = [member.node for member in node.members if member.key == key]
        if not found:
            return layout.added(node, key, _nested(keys[depth + 1 :], fields), root=depth == 0)
        node = found[0]
    if not node.is_object:
        return [TextEdit(node.start, node.stop, layout.written(fields, layout.indent(node.start)))]
    there = {member.key: member.node for member in node.members}
    edits = [
        TextEdit(old.start, old.stop, layout.written(fields[key], layout.indent(old.start)))
        for key, old in there.items()
        if key in fields and old.value != fields[key]
    ]
    missing = [key for key in fields if key not in there]
    if edits or not missing:
        return edits
    return layout.added(node, missing[0], fields[missing[0]])


def _nested(keys: Sequence[str], fields: Mapping[str, Value]) -> Mapping[str, Value]:
    for key in reversed(keys):
        fields = {key: fields}
    return fields


def _removal(text: str, node: _Node, at: int, start: int) -> list[TextEdit]:
    """The edits that remove a member, starting at `start`."""
    own, last = node.members[at], at == len(node.members) - 1
    stop = own.comma + 1 if own.comma >= 0 else own.node.stop
    if len(node.members) == 1 and not text[node.start + 1 : start].strip():
        rest = text[stop : node.stop - 1]
        return [TextEdit(node.start + 1, node.stop - 1 if not rest.strip() else stop, "")]
    edits = [TextEdit(start, stop, "")]
    if last and own.comma < 0 and at:
        comma = node.members[at - 1].comma
        edits.insert(0, TextEdit(comma, comma + 1, ""))
    return edits


class _Layout:
    """The layout of the text: line ends and indentation."""

    def __init__(self, text: str) -> None:
        self._text, self.newline = text, newline_of(text)
        found = _INDENT.search(text)
        self._unit = found[1] if found else "  "
        self._is_wide = "\n" in text.strip() or not text.lstrip().startswith("{")

    def indent(self, at: int) -> str:
        """The indentation of the line that contains this character."""
        begin = self._text.rfind("\n", 0, at) + 1
        line = self._text[begin:at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def written(self, value: Value, indent: str) -> str:
        """A value as JSON; its first line is at `indent`, lists of texts take one line."""
        if not isinstance(value, Mapping) or not value:
            return json.dumps(value, ensure_ascii=False)
        pairs = cast("Mapping[str, Value]", value)
        if not self._is_wide:
            return json.dumps(pairs, ensure_ascii=False)
        inner = indent + self._unit
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {self.written(one, inner)}"
            for key, one in pairs.items()
        ]
        return f"{{{self.newline}{f',{self.newline}'.join(lines)}{self.newline}{indent}}}"

    def added(self, node: _Node, key: str, value: Value, *, root: bool = False) -> list[TextEdit]:
        """The edits that add a member at the end of an object."""
        text, name = self._text, json.dumps(key, ensure_ascii=False)
        inside = text[node.start + 1 : node.stop - 1]
        if root and not node.members:
            self._is_wide = True
        if not self._is_wide or (node.members and "\n" not in inside):
            self._is_wide = False
            member = f"{name}: {self.written(value, '')}"
            if not node.members:
                return [TextEdit(node.start + 1, node.start + 1, member)]
            last = node.members[-1]
            if last.comma >= 0:
                return [TextEdit(last.comma + 1, last.comma + 1, f" {member}")]
            return [TextEdit(last.node.stop, last.node.stop, f", {member}")]
        if not node.members:
            base = self.indent(node.start)
            inner = base + self._unit
            blank = not inside.strip()
            end = self.newline + base if blank or "\n" not in inside else ""
            member = f"{self.newline}{inner}{name}: {self.written(value, inner)}{end}"
            stop = node.stop - 1 if blank else node.start + 1
            return [TextEdit(node.start + 1, stop, member)]
        last = node.members[-1]
        inner = self.indent(last.start)
        member = f"{self.newline}{inner}{name}: {self.written(value, inner)}"
        if last.comma >= 0:
            at = self._end_of_line(last.comma + 1)
            return [TextEdit(at, at, f"{member},")]
        at = self._end_of_line(last.node.stop)
        if at == last.node.stop:
            return [TextEdit(at, at, f",{member}")]
        return [TextEdit(last.node.stop, last.node.stop, ","), TextEdit(at, at, member)]

    def _end_of_line(self, at: int) -> int:
        """The end of the comments that follow on the same line; `at` if there are none."""
        text, end = self._text, at
        while True:
            while text[at : at + 1] in (" ", "\t"):
                at += 1
            if text.startswith("//", at):
                stop = text.find("\n", at)
                stop = len(text) if stop < 0 else stop
                return stop - 1 if text[stop - 1] == "\r" else stop
            closing = text.find("*/", at + 2) if text.startswith("/*", at) else -1
            if closing < 0 or "\n" in text[at:closing]:
                return end
            at = end = closing + 2


_INLINE: Final = "the table is written in one line with others; change it by hand"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOML_SPACE: Final = re.compile(r"[ \t]*")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")


@dataclass(frozen=True, slots=True)
class _Part:
    """A header (`value_start` is -1) or a key with its value; `stop` is the end of its line.

    `keys` start at the top of the document.
    """

    keys: tuple[str, ...]
    start: int
    stop: int
    value_start: int = -1
    value_stop: int = -1
    is_array: bool = False


def read_toml(text: str) -> Value:
    """The value of the text; raises Unreadable."""
    try:
        found: Value = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is not valid TOML: {error}") from None
    except RecursionError:
        raise Unreadable("it is not valid TOML: it is nested too deeply") from None
    return found


def put_toml(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields set in the table under the keys; raises Unreadable.

    A missing table is added at the end; everything else stays unchanged.
    """
    now = read_toml(text)
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


def remove_toml(text: str, keys: Sequence[str]) -> str:
    """The text without the table under the keys and its subtables; raises Unreadable."""
    now, name = read_toml(text), tuple(keys)
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
    """The value without those tables on the path of the keys that are empty."""
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
        return read_toml(made)
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
    """The edits of the values of a table that has its own header."""
    edits: list[TextEdit] = []
    new = ""
    at = head.stop
    mine = {part.keys: part for part in parts if part.value_start >= 0}
    for name, value in fields.items():
        found = mine.get((*head.keys, name))
        if found is None:
            new += f"{_key(name)} = {_written(value)}{newline}"
        elif read_toml("x = " + text[found.value_start : found.value_stop]) != {"x": value}:
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
    """The headers and keys of a valid TOML text."""
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
    found = _TOML_SPACE.match(text, at)
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
