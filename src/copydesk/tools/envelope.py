"""The Standard Envelope v1.0: what the tools of the batch toolset answer with.

Invariant: no other top-level key, no lone surrogate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal, cast

from copydesk.edit.locate import cut
from copydesk.errors import Crashed, Failed, InvalidArgs, InvalidPath, NotAFile, Refusal
from copydesk.text.relpath import RelPath
from copydesk.tools.arguments import MOST_BITS, MOST_DEPTH
from copydesk.tools.refusals import LONGEST, facts_of, refusal_words
from copydesk.tools.report import ANSWER_TOKENS, Fields, Lang, Value, fits

Status = Literal["success", "partial", "error"]

_CODES = {
    "FILE_NOT_FOUND": "NOT_FOUND",
    "INVALID_ARGS": "INVALID_PARAM",
    "PATH_REQUIRED": "INVALID_PARAM",
    "INVALID_RANGE": "INVALID_PARAM",
    "RANGE_OUT_OF_BOUNDS": "INVALID_PARAM",
    "CONTENT_REQUIRED": "INVALID_PARAM",
    "BUSY": "TIMEOUT",
}

_SAME = frozenset(
    (
        *("ACCESS_DENIED", "CONFLICT", "BINARY_FILE", "FILE_EXISTS", "ENCODING_ERROR"),
        "INCOMPLETE_READ",
        *("PARTIAL_MATCH_FAIL", "COLLISION_DETECTED", "DUPLICATE_EDITS"),
        *("APPROVAL_REQUIRED", "CHECK_FAILED"),
    )
)

_DENIED = ("EACCES", "EPERM", "EROFS")
_TIMED_OUT = ("ETIMEDOUT", "ETIME")

_TEXTS = (
    *("content", "old_string", "new_string", "oldText", "newText"),
    *("file_text", "old_str", "new_str", "insert_text"),
)
_LONGEST_TEXT = 100_000
"""Characters of a text to be written or replaced that a program is told again.

Of any other argument, which no call has use for when it is long, LONGEST.
"""

_LONGEST_OF: dict[str, int] = dict.fromkeys(map(str, _TEXTS), _LONGEST_TEXT)

_SHOWN = 48
"""Characters of one text among the arguments that a model is shown again; a third beyond ASCII."""

_SHOWN_ITEMS = 2
"""Items of one list among them."""


@dataclass(frozen=True, slots=True)
class Original:
    """An answer in the form of another program, for which a tool stands.

    `content` are its content blocks and `structured` its structured content, as MCP has them;
    `remarks` are told after them. `only_text`: that one has no structured content, and who asks
    for it is given the envelope.
    """

    content: tuple[Fields, ...]
    structured: Fields | None = None
    remarks: tuple[str, ...] = ()
    only_text: bool = False

    @property
    def blocks(self) -> tuple[Fields, ...]:
        remarks: list[Fields] = [{"type": "text", "text": one} for one in self.remarks]
        return (*self.content, *remarks)

    @property
    def text(self) -> str:
        return "\n\n".join(str(one["text"]) for one in self.blocks if "text" in one)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One answer. `data` is always an object, `stats` always holds `time_ms`.

    `line` is what a model is told instead, with what `data_fields` warn of, if it asked for a
    brief answer. `original`: it is told in the form of another program, whole.
    """

    status: Status
    data_fields: Fields
    words: str
    stats: Fields
    context: Fields
    error: Fields = field(default_factory=dict[str, Value])
    line: str = ""
    budget: int = ANSWER_TOKENS
    original: Original | None = None

    def timed(self, milliseconds: int) -> Envelope:
        """The same, with how long it took."""
        return replace(self, stats={"time_ms": milliseconds, **self.stats})

    @property
    def is_error(self) -> bool:
        """Whether nothing was done."""
        return self.status == "error"

    @property
    def fields(self) -> Fields:
        found: Fields = {"status": self.status, "data": self.data_fields, "text": self.words}
        if self.error:
            found["error"] = self.error
        return {**found, "stats": self.stats, "context": self.context}

    @property
    def data(self) -> Mapping[str, Value]:
        return self.fields

    @property
    def text(self) -> str:
        """The envelope as JSON, without long arguments just written; lists cut to the budget."""
        if self.original is not None:
            return self.original.text
        if self.line:
            return self.line
        given = {**self.context, "params_input": _cut(self.context.get("params_input", {}))}
        shown = {**self.fields, "context": given}
        most = _MOST_ITEMS
        while not fits(text := _json(shown), self.budget or _UNBOUNDED) and most:
            shown["data"] = _shortened(self.data_fields, most)
            most //= 2
        return text

    @property
    def diff(self) -> str:
        """The diff is in the data."""
        return ""


def context_of(arguments: object, path: str | None) -> Fields:
    """What was asked, where; `path` is None when none was resolved."""
    given: Value = {}
    if isinstance(arguments, Mapping):
        given = _clean(cast("object", arguments))
    found: Fields = {"cwd": ".", "params_input": given}
    if path is not None:
        found["path_resolved"] = path
    return found


def refused(
    refusal: Refusal,
    arguments: object,
    path: str | None,
    lang: Lang,
    *,
    writes: bool,
    voices: Sequence[str] = ("batch",),
) -> Envelope:
    """A refusal in its envelope; `path` as it was given, `writes`: of a tool that would write.

    It is told in the words of `voices`.
    """
    applied: Fields = {"applied": False} if writes else {}
    words = refusal_words(refusal, lang, voices)
    error: Fields = {"code": code_of(refusal), "message": words}
    where = context_of(arguments, _resolved(refusal, path))
    return Envelope("error", {**applied, **facts_of(refusal)}, words, {}, where, error)


def code_of(refusal: Refusal) -> str:
    """The envelope's code for a refusal, one of the few that the envelope has."""
    if isinstance(refusal, Crashed):
        return "INTERNAL_ERROR"
    if isinstance(refusal, NotAFile):
        return "IS_DIRECTORY" if refusal.kind == "directory" else "EXECUTION_ERROR"
    if isinstance(refusal, InvalidPath):
        malformed = "NUL" in refusal.reason or "surrogate" in refusal.reason
        return "INVALID_PARAM" if malformed else "ACCESS_DENIED"
    if isinstance(refusal, Failed):
        if refusal.reason.startswith(_DENIED):
            return "PERMISSION_DENIED"
        return "TIMEOUT" if refusal.reason.startswith(_TIMED_OUT) else "EXECUTION_ERROR"
    if refusal.code in _SAME:
        return refusal.code
    return _CODES.get(refusal.code, "EXECUTION_ERROR")


def _resolved(refusal: Refusal, path: str | None) -> str | None:
    """The path as a success would show it; None when it is none of the workspace."""
    if not path or isinstance(refusal, InvalidPath):
        return None
    if isinstance(refusal, InvalidArgs) and refusal.argument == "path":
        return None
    try:
        return cut(str(RelPath.parse(path)), LONGEST)
    except Refusal:
        return None


def _clean(value: object, most: int = LONGEST, depth: int = MOST_DEPTH + 2) -> Value:
    """The value as JSON has it, with every text fit for output and cut where it is too long.

    Of what no call has use for, numbers that cannot be written are cut too, and
    what stands in more than `depth` values.
    """
    if isinstance(value, str):
        if len(value) <= most and value.isascii():
            return value
        return cut(value.encode("utf-8", "backslashreplace").decode(), most)
    if isinstance(value, Mapping | list | tuple) and not depth:
        return "…"
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {
            str(_clean(str(key))): _clean(item, _LONGEST_OF.get(str(key), LONGEST), depth - 1)
            for key, item in items
        }
    if isinstance(value, list | tuple):
        return [_clean(item, depth=depth - 1) for item in cast("Sequence[object]", value)]
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return cut(hex(value), LONGEST)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return cast(Value, value if isfinite(value) else None)
    return _clean(repr(value))


_MOST_ITEMS = 64
_UNBOUNDED = 1 << 62


def _json(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortened(data: Fields, most: int) -> Fields:
    """The data with the first `most` items of each list, and how many are left out."""
    found: Fields = {}
    for key, value in data.items():
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > most:
            found |= {key: value[:most], f"{key}_left_out": len(value) - most}
        else:
            found[key] = value
    return found


def _cut(value: Value) -> Value:
    """The value with every long text cut, and every long list."""
    if isinstance(value, str):
        return cut(value, _SHOWN if value.isascii() else _SHOWN // 3)
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        shown = [_cut(item) for item in value[:_SHOWN_ITEMS]]
        left_out = len(value) - len(shown)
        return [*shown, f"… (+{left_out} items)"] if left_out else shown
    return value
