"""Answers other than reports: the Standard Envelope v1.0 and those of notes; notices on any answer.

Invariant: an envelope has no other top-level key and no lone surrogate.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from threading import Lock
from typing import Literal, cast

from copydesk import errors
from copydesk.desk.backends.api import REFUSING, Decision
from copydesk.desk.checks import Findings
from copydesk.desk.outcome import Saved
from copydesk.edit.draft import Plan, cut
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import computed_once
from copydesk.tools import refusals
from copydesk.tools.arguments import MOST_BITS, MOST_DEPTH
from copydesk.tools.messages import say
from copydesk.tools.refusals import LONGEST, facts_of, refusal_words
from copydesk.tools.report import ANSWER_TOKENS, Fields, Lang, Report, Value, fits

Status = Literal["success", "partial", "error"]

_CODES = {
    "FILE_NOT_FOUND": "NOT_FOUND",
    **dict.fromkeys(("INVALID_ARGS", "PATH_REQUIRED", "CONTENT_REQUIRED"), "INVALID_PARAM"),
    **dict.fromkeys(("INVALID_RANGE", "RANGE_OUT_OF_BOUNDS"), "INVALID_PARAM"),
    "BUSY": "TIMEOUT",
}
_SAME = (
    *("ACCESS_DENIED", "CONFLICT", "BINARY_FILE", "FILE_EXISTS", "ENCODING_ERROR"),
    *("INCOMPLETE_READ", "PARTIAL_MATCH_FAIL", "COLLISION_DETECTED", "DUPLICATE_EDITS"),
    *("APPROVAL_REQUIRED", "CHECK_FAILED"),
)
"""Codes that the envelope has too."""

_DENIED = ("EACCES", "EPERM", "EROFS")
_TIMED_OUT = ("ETIMEDOUT", "ETIME")

_TEXTS = (
    *("content", "old_string", "new_string", "oldText", "newText"),
    *("file_text", "old_str", "new_str", "insert_text"),
)
_LONGEST_OF: dict[str, int] = dict.fromkeys(map(str, _TEXTS), 100_000)
"""The most characters of a text to write or replace that data gives back; LONGEST for others."""

_SHOWN = 48
"""The most characters of an argument repeated to a model; a third of that beyond ASCII."""

_SHOWN_ITEMS = 2  # items of one list among the arguments


@dataclass(frozen=True, slots=True)
class Original:
    """An answer in the form of the program that a compat tool replaces.

    `content` are its content blocks and `structured` its structured content, as in MCP; `remarks`
    follow them. `only_text`: that program has no structured content, so whoever requests it gets
    the envelope.
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
class CallContext:
    """The arguments of a call, and the path that it resolved, if any.

    They are converted for JSON when an answer is read, since those of a large batch take a while.
    """

    arguments: object
    path: str | None

    def fields(self, *, brief: bool = False) -> Fields:
        """The fields for the envelope; `brief`: without long texts and lists."""
        is_object = isinstance(self.arguments, Mapping)
        given: Value = _clean(self.arguments, brief=brief) if is_object else {}
        found: Fields = {"cwd": ".", "params_input": given}
        return found if self.path is None else {**found, "path_resolved": self.path}


@dataclass(frozen=True)
class Envelope:
    """One answer. `data` is always an object; `stats` always has `time_ms`.

    `line` is the text for a model that asked for a brief answer, with the warnings in
    `data_fields`. `original`: the answer in the form of another program, complete.
    """

    status: Status
    data_fields: Fields
    words: str
    stats: Fields
    context: CallContext
    error: Fields = field(default_factory=dict[str, Value])
    line: str = ""
    budget: int = ANSWER_TOKENS
    original: Original | None = None

    def timed(self, milliseconds: int) -> Envelope:
        """The envelope with the duration of the call."""
        return replace(self, stats={"time_ms": milliseconds, **self.stats})

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.status == "error"

    @property
    def fields(self) -> Fields:
        return self._fields(brief=False)

    def _fields(self, *, brief: bool) -> Fields:
        found: Fields = {"status": self.status, "data": self.data_fields, "text": self.words}
        if self.error:
            found["error"] = self.error
        return {**found, "stats": self.stats, "context": self.context.fields(brief=brief)}

    @property
    def data(self) -> Mapping[str, Value]:
        return self.fields

    @computed_once
    def text(self) -> str:
        """The envelope as JSON, without long texts just written; lists are cut to the budget."""
        if self.original is not None:
            return self.original.text
        if self.line:
            return self.line
        shown = self._fields(brief=True)
        most = _MOST_ITEMS
        while True:
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            if not most or fits(text, self.budget or _UNBOUNDED):
                return text
            shown["data"] = _shortened(self.data_fields, most)
            most //= 2

    @property
    def diff(self) -> str:
        """Empty: the diff is in the data."""
        return ""


def refused(
    refusal: Refusal,
    arguments: object,
    path: str | None,
    lang: Lang,
    *,
    writes: bool,
    voices: Sequence[str] = ("batch",),
) -> Envelope:
    """The envelope of a refusal; `path` as given, `writes`: the tool would have written.

    The message uses the wording of `voices`.
    """
    applied: Fields = {"applied": False} if writes else {}
    words = refusal_words(refusal, lang, voices)
    error: Fields = {"code": code_of(refusal), "message": words}
    where = CallContext(arguments, _resolved(refusal, path))
    return Envelope("error", {**applied, **facts_of(refusal)}, words, {}, where, error)


def code_of(refusal: Refusal) -> str:
    """The envelope's code for a refusal; the envelope has only a few."""
    if isinstance(refusal, errors.Crashed):
        return "INTERNAL_ERROR"
    if isinstance(refusal, errors.NotAFile):
        return "IS_DIRECTORY" if refusal.kind == "directory" else "EXECUTION_ERROR"
    if isinstance(refusal, errors.InvalidPath):
        malformed = "NUL" in refusal.reason or "surrogate" in refusal.reason
        return "INVALID_PARAM" if malformed else "ACCESS_DENIED"
    if isinstance(refusal, errors.Failed):
        if refusal.reason.startswith(_DENIED):
            return "PERMISSION_DENIED"
        return "TIMEOUT" if refusal.reason.startswith(_TIMED_OUT) else "EXECUTION_ERROR"
    if refusal.code in _SAME:
        return refusal.code
    return _CODES.get(refusal.code, "EXECUTION_ERROR")


def _resolved(refusal: Refusal, path: str | None) -> str | None:
    """The path as a success would show it; None if it is outside the workspace."""
    if not path or isinstance(refusal, errors.InvalidPath):
        return None
    if isinstance(refusal, errors.InvalidArgs) and refusal.argument == "path":
        return None
    try:
        return cut(str(RelPath.parse(path)), LONGEST)
    except Refusal:
        return None


def _clean(
    value: object, most: int = LONGEST, depth: int = MOST_DEPTH + 2, *, brief: bool = False
) -> Value:
    """Convert a value for JSON; texts become valid for output, and too long ones are cut.

    Numbers that are too long are cut too, and values nested deeper than `depth`. `brief`: texts are
    cut to a few words and lists to their first items.
    """
    if isinstance(value, str):
        text = value
        if len(text) > most or not text.isascii():
            text = cut(text.encode("utf-8", "backslashreplace").decode(), most)
        return cut(text, _SHOWN if text.isascii() else _SHOWN // 3) if brief else text
    if isinstance(value, Mapping | list | tuple) and not depth:
        return "…"
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {
            str(_clean(str(key))): _clean(
                item, _LONGEST_OF.get(str(key), LONGEST), depth - 1, brief=brief
            )
            for key, item in items
        }
    if isinstance(value, list | tuple):
        every = cast("Sequence[object]", value)
        shown = every[:_SHOWN_ITEMS] if brief else every
        cleaned = [_clean(item, depth=depth - 1, brief=brief) for item in shown]
        left_out = len(every) - len(shown)
        return [*cleaned, f"… (+{left_out} items)"] if left_out else cleaned
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return _clean(hex(value), brief=brief)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return cast(Value, value if isfinite(value) else None)
    return _clean(repr(value), brief=brief)


_MOST_ITEMS = 64
_UNBOUNDED = 1 << 62


def _shortened(data: Fields, most: int) -> Fields:
    """The data with the first `most` items of each list, and the numbers of those left out."""
    found: Fields = {}
    for key, value in data.items():
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > most:
            found |= {key: value[:most], f"{key}_left_out": len(value) - most}
        else:
            found[key] = value
    return found


LISTED = 20  # documents listed of each notebook by default
FOUND = 20  # blocks found by a search by default
LENGTH = 8_000  # characters of a result shown at once by default
MOST_TEXTS = 200
MOST_CHARACTERS = 32 << 20  # of all texts together; the oldest are dropped first


class LongTexts:
    """Texts by name. Safe to use from many threads. With `length` None nothing is cut."""

    def __init__(self, length: int | None = LENGTH) -> None:
        self.length = length
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._count = 0
        self._size = 0
        self._lock = Lock()

    def is_long(self, text: str) -> bool:
        """Whether the text is too long to be shown at once."""
        return self.length is not None and len(text) > self.length

    def keep(self, member: str, tool: str, text: str) -> str:
        """Save a text; return its name."""
        with self._lock:
            self._count += 1
            name = f"{tool}_{self._count}"
            self._texts[member, name] = text
            self._size += len(text)
            while len(self._texts) > 1 and (
                len(self._texts) > MOST_TEXTS or self._size > MOST_CHARACTERS
            ):
                self._size -= len(self._texts.popitem(last=False)[1])
            return name

    def find(self, member: str, name: str) -> str | None:
        """The text with this name, if it is still stored."""
        with self._lock:
            return self._texts.get((member, name))

    def names(self, member: str) -> tuple[str, ...]:
        """The names of the member's texts, oldest first."""
        with self._lock:
            return tuple(name for owner, name in self._texts if owner == member)


_NOT_FOUND = ("BLOCK_NOT_FOUND", "NOTEBOOK_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """An answer about notes; its `status` is success, not_found or error."""

    fields: Fields
    text: str
    diff: str = ""

    @property
    def data(self) -> Mapping[str, Value]:
        return self.fields

    @property
    def is_error(self) -> bool:
        return self.fields["status"] != "success"


Answer = Report | Envelope | NoteAnswer
"""The result of a tool call. Each has `fields` in order, `text` to read, `data` for a program,
the `diff` that the text shows, and `is_error`."""


def note_answered(fields: Fields, text: str, diff: str = "") -> NoteAnswer:
    """A successful answer."""
    return NoteAnswer({"status": "success", **fields}, text, diff)


def note_shown(
    kept: LongTexts, member: str, tool: str, fields: Fields, text: str, lang: Lang
) -> NoteAnswer:
    """A requested text as `content` after the fields; a long one is cut."""
    if not kept.is_long(text):
        return note_answered({**fields, "content": text}, text)
    name = kept.keep(member, tool, text)
    start = text[: kept.length]
    omitted = len(text) - len(start)
    facts = {"omitted": omitted, "total": len(text), "name": name, "next": len(start)}
    cut: Fields = {"truncated": True, "omitted": omitted, "var": name}
    note = say("notes.cut", lang, facts)
    return note_answered({**fields, **cut, "content": start}, f"{start}\n\n{note}")


def note_refused(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> NoteAnswer:
    """The answer for a refusal of this toolset."""
    status = "not_found" if refusal.code in _NOT_FOUND else "error"
    words = refusals.refusal_words(refusal, lang, ("notes",))
    fields: Fields = {"status": status, "mode": name, "error": refusal.code}
    fields |= refusals.facts_of(refusal)
    fields["summary"] = words
    return NoteAnswer(fields, f"[{refusal.code}] {words}")


FOREIGN_WRITE = "FOREIGN_WRITE_SAVED"
"""The code for a write of another program that was saved as an edit."""

_LONGEST_REASON = 300  # characters of a reason in words; the data has more
MOST_NEWS = 5  # decisions reported with one answer; the others with the next ones


def pending(mode: str, plan: Plan, refusal: errors.ApprovalRequired, lang: Lang) -> Report:
    """The report of an apply that waits for approval; the plan stays pending."""
    return Report(
        {
            "status": "pending",
            "mode": mode,
            "path": str(plan.request.path),
            "hunk_id": plan.id,
            "expires_at_ms": plan.expires_ms,
            "action": plan.action,
            "error": refusal.code,
            **refusals.facts_of(refusal),
            "summary": refusals.refusal_words(refusal, lang),
        }
    )


def with_news(
    answer: Answer,
    news: Sequence[tuple[Decision, bool]],
    lang: Lang,
    apply: Callable[[str], str],
) -> Answer:
    """The answer with new decisions; True: the plan has been written already.

    A report has `decisions` as its last field, an envelope among its data. `apply` returns the
    words for how to write a plan.
    """
    told = [one for one in news if not _says(answer.fields, one[0])]
    if not told:
        return answer
    rows: list[Value] = [_row(decision, written) for decision, written in told]
    words = [_words(decision, written, lang, apply) for decision, written in told]
    return with_notices(answer, "decisions", rows, words)


def with_notices(answer: Answer, name: str, value: list[Value], words: Sequence[str]) -> Answer:
    """The answer with one more field, and the words for it."""
    if isinstance(answer, Envelope):
        data: Fields = {**answer.data_fields, name: value}
        line = answer.line and "".join((answer.line, *(f"{one}\n" for one in words)))
        said = " ".join((answer.words, *words))
        answer = replace(answer, data_fields=data, words=said, line=line)
        if answer.original is not None:
            remarks = (*answer.original.remarks, *words)
            answer = replace(answer, original=replace(answer.original, remarks=remarks))
        return answer
    fields: Fields = {**answer.fields, name: value}
    if isinstance(answer, NoteAnswer):
        return replace(answer, fields=fields, text="\n\n".join((answer.text, *words)))
    return replace(answer, made=fields, notices=(*answer.notices, *words))


def with_saved(
    answer: Answer,
    saved: Sequence[Saved],
    lang: Lang,
    undo: Callable[[int], str],
) -> Answer:
    """The answer with writes of other programs that were saved in the journal.

    A report has `foreign_writes` as its last field, an envelope among its data; `open_elsewhere`
    are the paths of files that another program holds open. `undo` returns the words for how to undo
    an edit.
    """
    rows: dict[str, list[Value]] = {"open_elsewhere": [], "foreign_writes": []}
    words: dict[str, list[str]] = {name: [] for name in rows}
    for one in saved:
        name = "foreign_writes" if one.edit_id else "open_elsewhere"
        rows[name].append(saved_data(one) if one.edit_id else str(one.path))
        words[name].append(saved_words(one.path, one.edit_id, undo(one.edit_id), lang))
    for name, found in rows.items():
        if found:
            answer = with_notices(answer, name, found, words[name])
    return answer


def with_checks(answer: Answer, checked: Mapping[RelPath, Findings], lang: Lang) -> Answer:
    """Add new findings of checks to the answer; without any, a success gets an empty list."""
    if not checked:
        return answer
    found = [one for findings in checked.values() for one in findings]
    told = answer.data_fields if isinstance(answer, Envelope) else answer.fields
    is_full = isinstance(answer, Report) and not answer.is_error
    if "checks" in told or not (found or is_full):
        return answer
    rows: list[Value] = [refusals.check_row(one, lang) for one in found]
    if isinstance(answer, Report) and (not answer.line or not found):
        return replace(answer, made={**answer.fields, "checks": rows})
    words = [refusals.check_words(one, lang) for one in found]
    return with_notices(answer, "checks", rows, words)


def saved_data(saved: Saved) -> Fields:
    """A saved write of another program as data."""
    return {"code": FOREIGN_WRITE, "path": str(saved.path), "edit_id": saved.edit_id}


def saved_words(path: RelPath, edit_id: int, undo: str, lang: Lang) -> str:
    """A saved write of another program in words; `undo` says how to undo the edit.

    Without an edit: that the program holds the file open.
    """
    key = FOREIGN_WRITE if edit_id else "open_elsewhere"
    return say(key, lang, {"path": path, "edit_id": edit_id, "undo": undo})


def with_decision(report: Report, decision: Decision | None) -> Report:
    """The report of a plan with the decision on it, as its last field."""
    if decision is None:
        return report
    fields: Fields = {**report.fields, "decision": _row(decision, written=False)}
    return replace(report, made=fields)


def _says(fields: Fields, decision: Decision) -> bool:
    if fields.get("hunk_id") != decision.plan[0]:
        return False
    if decision.verdict in REFUSING:
        return fields.get("error") == "HUNK_REJECTED"
    return decision.verdict == "approved" and fields.get("status") == "ok"


def _row(decision: Decision, written: bool) -> Fields:
    row: Fields = {
        "hunk_id": decision.plan[0],
        "path": decision.path,
        "verdict": decision.verdict,
        "by": decision.by,
        "time_ms": decision.time_ms,
    }
    if decision.verdict == "commented" and decision.after:
        row["line"] = int(decision.after[1:])
        row["side"] = "new" if decision.after.startswith("+") else "old"
    if decision.reason:
        row["reason"] = cut(decision.reason, refusals.LONGEST)
    if written:
        row["written"] = True
    return row


def _words(decision: Decision, written: bool, lang: Lang, apply: Callable[[str], str]) -> str:
    facts = {
        "by": decision.by,
        "id": decision.plan[0],
        "path": decision.path,
        "why": cut(decision.reason, _LONGEST_REASON),
        "apply": apply(decision.plan[0]),
        "line": decision.after,
    }
    said: str = decision.verdict
    if said == "commented":
        said = f"commented.{'line' if decision.after else 'plan'}"
    elif said == "approved" and written:
        said = "written"
    return say(f"decision.{said}", lang, facts)
