"""The Standard Envelope v1.0: what the tools of the batch toolset answer with.

What lives here: its form, and refusals put into it. What must not: which tool
fills it with what. Invariant: no other top-level key, no lone surrogate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from copydesk.errors import Failed, InvalidPath, NotAFile, Refusal
from copydesk.tools.report import Fields, Lang
from copydesk.tools.reports import facts_of, refusal_words
from copydesk.tools.yaml import Value

Status = Literal["success", "partial", "error"]

_CODES = {
    "FILE_NOT_FOUND": "NOT_FOUND",
    "INVALID_ARGS": "INVALID_PARAM",
    "PATH_REQUIRED": "INVALID_PARAM",
    "INVALID_RANGE": "INVALID_PARAM",
    "RANGE_OUT_OF_BOUNDS": "INVALID_PARAM",
    "FAILED": "EXECUTION_ERROR",
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """One answer. `data` is always an object, `stats` always holds `time_ms`."""

    status: Status
    data_fields: Fields
    words: str
    stats: Fields
    context: Fields
    error: Fields = field(default_factory=dict[str, Value])

    def timed(self, milliseconds: int) -> Envelope:
        """The same, with how long it took."""
        return replace(self, stats={"time_ms": milliseconds, **self.stats})

    @property
    def is_error(self) -> bool:
        """Whether nothing was done."""
        return self.status == "error"

    @property
    def fields(self) -> Fields:
        """The envelope."""
        found: Fields = {"status": self.status, "data": self.data_fields, "text": self.words}
        if self.error:
            found["error"] = self.error
        return {**found, "stats": self.stats, "context": self.context}

    @property
    def data(self) -> Mapping[str, Value]:
        """The envelope for a program."""
        return self.fields

    @property
    def text(self) -> str:
        """The envelope for a model: the same, as JSON."""
        return json.dumps(self.fields, ensure_ascii=False, separators=(",", ":"))

    @property
    def diff(self) -> str:
        """The diff is in the data."""
        return ""


def context_of(arguments: object, path: str | None) -> Fields:
    """What was asked, where."""
    given = cast("Mapping[str, object]", arguments if isinstance(arguments, Mapping) else {})
    found: Fields = {"cwd": ".", "params_input": cast("Fields", _clean(given))}
    if path is not None:
        found["path_resolved"] = path
    return found


def refused(refusal: Refusal, arguments: object, path: str | None, lang: Lang) -> Envelope:
    """A refusal in its envelope."""
    data: Fields = {"applied": False, **facts_of(refusal)}
    words = refusal_words(refusal, lang)
    error: Fields = {"code": code_of(refusal), "message": words}
    return Envelope("error", data, words, {}, context_of(arguments, path), error)


def code_of(refusal: Refusal) -> str:
    """The envelope's code for a refusal."""
    if isinstance(refusal, NotAFile):
        return "IS_DIRECTORY" if refusal.kind == "directory" else "EXECUTION_ERROR"
    if isinstance(refusal, InvalidPath):
        malformed = "NUL" in refusal.reason or "surrogate" in refusal.reason
        return "INVALID_PARAM" if malformed else "ACCESS_DENIED"
    if isinstance(refusal, Failed) and refusal.reason.startswith(("EACCES", "EPERM", "EROFS")):
        return "PERMISSION_DENIED"
    return _CODES.get(refusal.code, refusal.code)


def _clean(value: object) -> object:
    """The value with every text fit for output."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(_clean(str(key))): _clean(item) for key, item in items}
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[object]", value)]
    if isinstance(value, float) and value != value:
        return None
    return value
