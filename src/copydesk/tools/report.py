"""The form of every answer of ws_mod: fields in order, a diff, next steps; YAML and data.

Invariants: no lone surrogate in any output; the YAML of the text and the data are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from copydesk.text.encoding import UTF8, Encoding

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


Lang = Literal["en", "zh"]
Fields = dict[str, Value]

MOST_DIFF_CHARACTERS = 100_000
MOST_NEXT = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a tool answers. `body` is shown in a fence of `language` after the fields.

    `content` are fields of the data that the text shows as its body. `notices` say what
    happened besides: what was decided, lost, or written by another program.
    """

    fields: Fields
    diff: str = ""
    body: str | None = None
    language: str = "text"
    next_steps: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    content: Fields = field(default_factory=dict[str, Value])

    @property
    def is_error(self) -> bool:
        """Whether this is a refusal."""
        return self.fields.get("status") == "error"

    @property
    def text(self) -> str:
        """The report for a model or a person to read."""
        parts = [fenced(emit(self.fields), "yaml")]
        if self.diff:
            parts.append(fenced(self.diff, "diff"))
        if self.body is not None:
            parts.append(fenced(self.body, self.language))
        lines = (*self.notices, *self.next_steps[:MOST_NEXT])
        parts.append("".join(f"{line}\n" for line in lines))
        return "\n".join(part for part in parts if part)

    @property
    def data(self) -> Mapping[str, Value]:
        """The report for a program."""
        return {**self.fields, **self.content}


def shown_diff(diff: bytes, encoding: Encoding) -> tuple[str, bool]:
    """The diff as text, and whether it was cut."""
    return cut_diff(diff_text(diff, encoding))


def diff_text(diff: bytes, encoding: Encoding) -> str:
    """All of a diff as text. Paths are UTF-8, lines in the file's encoding."""
    head, mark, body = diff.partition(b"\n@@ ")
    own = encoding if encoding.unit == 1 else UTF8  # wide ones are in UTF-8 there
    return head.decode("utf-8", "backslashreplace") + own.decode(mark + body)


def cut_diff(text: str) -> tuple[str, bool]:
    """The first lines of a diff that an answer has room for, and whether it was cut."""
    if len(text) <= MOST_DIFF_CHARACTERS:
        return text, False
    kept = text[: text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1] or text[:MOST_DIFF_CHARACTERS]
    return kept, True
