"""What is added to any answer (decisions, checks, losses), and answers without a file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from copydesk import errors
from copydesk.desk.backends.api import REFUSING, Decision
from copydesk.desk.checks import Findings
from copydesk.desk.outcome import Saved
from copydesk.edit.draft import cut
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath
from copydesk.tools.messages import say
from copydesk.tools.refusals import check_row, check_words, facts_of, refusal_words
from copydesk.tools.report import LONGEST, Answer, Envelope, Fields, Lang, Value

_CODES = {
    "FILE_NOT_FOUND": "NOT_FOUND",
    **dict.fromkeys(("INVALID_ARGS", "PATH_REQUIRED", "CONTENT_REQUIRED"), "INVALID_PARAM"),
    **dict.fromkeys(("INVALID_RANGE", "RANGE_OUT_OF_BOUNDS"), "INVALID_PARAM"),
    "BUSY": "TIMEOUT",
}
_SAME = (
    *("ACCESS_DENIED", "CONFLICT", "BINARY_FILE", "FILE_EXISTS", "ENCODING_ERROR"),
    *("INCOMPLETE_READ", "PARTIAL_MATCH_FAIL", "COLLISION_DETECTED", "DUPLICATE_EDITS"),
    *("APPROVAL_REQUIRED", "CHECK_FAILED", "SUSPICIOUS_TEXT"),
)
"""Codes that the envelope has too."""

_DENIED = ("EACCES", "EPERM", "EROFS")
_TIMED_OUT = ("ETIMEDOUT", "ETIME")


def refused(
    refusal: Refusal,
    arguments: object,
    path: str | None,
    lang: Lang,
    *,
    writes: bool,
    voices: Sequence[str] = ("batch",),
) -> Answer:
    """The envelope of a refusal; `path` as given, `writes`: the tool would have written.

    The message uses the wording of `voices`.
    """
    applied: Fields = {"applied": False} if writes else {}
    words = refusal_words(refusal, lang, voices)
    error: Fields = {"code": code_of(refusal), "message": words}
    envelope = Envelope("error", words, arguments, _resolved(refusal, path), error=error)
    return Answer({**applied, **facts_of(refusal)}, envelope=envelope)


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

    def clear(self) -> None:
        """Drop all texts."""
        with self._lock:
            self._texts.clear()
            self._size = 0

    def names(self, member: str) -> tuple[str, ...]:
        """The names of the member's texts, oldest first."""
        with self._lock:
            return tuple(name for owner, name in self._texts if owner == member)


_NOT_FOUND = ("BLOCK_NOT_FOUND", "NOTEBOOK_NOT_FOUND")


def note_answered(fields: Fields, text: str, diff: str = "") -> Answer:
    """A successful answer about notes."""
    return Answer({"status": "success", **fields}, diff, said=text)


def note_shown(
    kept: LongTexts, member: str, tool: str, fields: Fields, text: str, lang: Lang
) -> Answer:
    """A requested text as `content` after the fields; a long one is cut."""
    if not kept.is_long(text):
        return note_answered({**fields, "content": text}, text)
    name, start = kept.keep(member, tool, text), text[: kept.length]
    omitted = len(text) - len(start)
    facts = {"omitted": omitted, "total": len(text), "name": name, "next": len(start)}
    part: Fields = {"truncated": True, "omitted": omitted, "var": name, "content": start}
    return note_answered({**fields, **part}, f"{start}\n\n{say('notes.cut', lang, facts)}")


def note_refused(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> Answer:
    """The answer for a refusal of the tools of notes."""
    words = refusal_words(refusal, lang, ("notes",))
    fields: Fields = {
        "status": "not_found" if refusal.code in _NOT_FOUND else "error",
        "mode": name,
        "error": refusal.code,
        **facts_of(refusal),
        "summary": words,
    }
    return Answer(fields, said=f"[{refusal.code}] {words}")


FOREIGN_WRITE = "FOREIGN_WRITE_SAVED"
"""The code for a write of another program that was saved as an edit."""

_LONGEST_REASON = 300  # characters of a reason in words; the data has more
MOST_NEWS = 5  # decisions reported with one answer; the others with the next ones


def with_notices(answer: Answer, name: str, value: list[Value], words: Sequence[str]) -> Answer:
    """The answer with one more fact, its last, and the words for it."""
    notices = (*answer.notices, *words)
    return replace(answer, made={**answer.facts, name: value}, notices=notices)


def with_news(
    answer: Answer,
    news: Sequence[tuple[Decision, bool]],
    lang: Lang,
    apply: Callable[[str], str],
) -> Answer:
    """The answer with new `decisions`; True: the plan has been written already.

    `apply` returns the words for how to write a plan.
    """
    told = [one for one in news if not _says(answer.fields, one[0])]
    if not told:
        return answer
    rows: list[Value] = [_row(decision, written) for decision, written in told]
    words = [_words(decision, written, lang, apply) for decision, written in told]
    return with_notices(answer, "decisions", rows, words)


def with_saved(
    answer: Answer, saved: Sequence[Saved], lang: Lang, undo: Callable[[int], str]
) -> Answer:
    """The answer with writes of other programs that were saved in the journal.

    They are its `foreign_writes`; `open_elsewhere` are the paths of files that another program
    holds open. `undo` returns the words for how to undo an edit.
    """
    opened = [one for one in saved if not one.edit_id]
    written = [one for one in saved if one.edit_id]
    paths: list[Value] = [str(one.path) for one in opened]
    rows: list[Value] = [saved_data(one) for one in written]
    for name, value, told in (
        ("open_elsewhere", paths, opened),
        ("foreign_writes", rows, written),
    ):
        if told:
            words = [saved_words(one.path, one.edit_id, undo(one.edit_id), lang) for one in told]
            answer = with_notices(answer, name, value, words)
    return answer


def with_checks(answer: Answer, checked: Mapping[RelPath, Findings], lang: Lang) -> Answer:
    """Add new findings of checks to the answer; without any, a success gets an empty list."""
    if not checked or "checks" in answer.facts:
        return answer
    found = [one for findings in checked.values() for one in findings]
    if not found and (answer.is_error or not answer.is_report):
        return answer
    rows: list[Value] = [check_row(one, lang) for one in found]
    in_fields = answer.is_report and not answer.line  # which the text shows
    words = [] if in_fields else [check_words(one, lang) for one in found]
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


def with_decision(answer: Answer, decision: Decision | None) -> Answer:
    """The answer with a plan, and the decision on it as its last field."""
    if decision is None:
        return answer
    return replace(answer, made={**answer.facts, "decision": _row(decision, written=False)})


def _says(fields: Fields, decision: Decision) -> bool:
    if fields.get("hunk_id") != decision.plan[0]:
        return False
    if decision.verdict in REFUSING:
        return fields.get("error") == "HUNK_REJECTED"
    return decision.verdict == "approved" and fields.get("status") == "ok"


def _row(decision: Decision, written: bool) -> Fields:
    line, side = decision.after[1:], "new" if decision.after.startswith("+") else "old"
    is_of_line = decision.verdict == "commented" and decision.after
    return {
        "hunk_id": decision.plan[0],
        "path": decision.path,
        "verdict": decision.verdict,
        "by": decision.by,
        "time_ms": decision.time_ms,
        **({"line": int(line), "side": side} if is_of_line else {}),
        **({"reason": cut(decision.reason, LONGEST)} if decision.reason else {}),
        **({"written": True} if written else {}),
    }


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
