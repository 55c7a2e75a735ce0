"""What a member hears of people: that they have to look first, and what they decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from copydesk.desk.backends.api import REFUSING, Decision
from copydesk.desk.checks import Findings
from copydesk.desk.foreign import Saved
from copydesk.edit.draft import Plan
from copydesk.edit.locate import cut
from copydesk.errors import ApprovalRequired
from copydesk.text.relpath import RelPath
from copydesk.tools import refusals
from copydesk.tools.envelope import Envelope
from copydesk.tools.messages import say
from copydesk.tools.notes_answer import NoteAnswer
from copydesk.tools.report import Fields, Lang, Report, Value

FOREIGN_WRITE = "FOREIGN_WRITE_SAVED"
"""The code of a write of another program that was saved as an edit."""

_LONGEST_REASON = 300
"""Characters of a reason that an answer says in words; its data has more."""

MOST_NEWS = 5
"""So many decisions are told with one answer; the others with the next ones."""


def pending(mode: str, plan: Plan, refusal: ApprovalRequired, lang: Lang) -> Report:
    """The report of an apply that a person has to approve first: the plan waits on."""
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
    answer: Report | Envelope | NoteAnswer,
    news: Sequence[tuple[Decision, bool]],
    lang: Lang,
    apply: Callable[[str], str],
) -> Report | Envelope | NoteAnswer:
    """The answer, and what was decided meanwhile; True: the plan was written already.

    A report has `decisions` as its last field, an envelope among its data. `apply` is how a
    plan is written, in words.
    """
    told = [one for one in news if not _says(answer.fields, one[0])]
    if not told:
        return answer
    rows: list[Value] = [_row(decision, written) for decision, written in told]
    words = [_words(decision, written, lang, apply) for decision, written in told]
    return with_notices(answer, "decisions", rows, words)


def with_notices(
    answer: Report | Envelope | NoteAnswer, name: str, value: list[Value], words: Sequence[str]
) -> Report | Envelope | NoteAnswer:
    """The answer with one more field, and what it says in words."""
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
    return replace(answer, fields=fields, notices=(*answer.notices, *words))


def with_saved(
    answer: Report | Envelope | NoteAnswer,
    saved: Sequence[Saved],
    lang: Lang,
    undo: Callable[[int], str],
) -> Report | Envelope | NoteAnswer:
    """The answer, and what other programs wrote that is in the journal and not in its file.

    A report has `foreign_writes` as its last field, an envelope among its data. `undo` is how
    an edit is undone, in words.
    """
    rows: list[Value] = [saved_data(one) for one in saved]
    words = [saved_words(one.path, one.edit_id, undo(one.edit_id), lang) for one in saved]
    return with_notices(answer, "foreign_writes", rows, words)


def with_checks(
    answer: Report | Envelope | NoteAnswer, checked: Mapping[RelPath, Findings], lang: Lang
) -> Report | Envelope | NoteAnswer:
    """The answer with new findings of checks in what it wrote or planned; else a line in full."""
    found = [one for findings in checked.values() for one in findings]
    told = answer.data_fields if isinstance(answer, Envelope) else answer.fields
    is_full = isinstance(answer, Report) and not answer.is_error
    if not checked or "checks" in told or not (found or is_full):
        return answer
    rows: list[Value] = [refusals.check_row(one, lang) for one in found]
    if isinstance(answer, Report) and (not answer.line or not found):
        return replace(answer, fields={**answer.fields, "checks": rows})
    words = [refusals.check_words(one, lang) for one in found]
    return with_notices(answer, "checks", rows, words)


def saved_data(saved: Saved) -> Fields:
    """A write of another program that was saved, for a program."""
    return {"code": FOREIGN_WRITE, "path": str(saved.path), "edit_id": saved.edit_id}


def saved_words(path: RelPath, edit_id: int, undo: str, lang: Lang) -> str:
    """The same for a person or a model; `undo` is how the edit is undone."""
    return say(FOREIGN_WRITE, lang, {"path": path, "edit_id": edit_id, "undo": undo})


def with_decision(report: Report, decision: Decision | None) -> Report:
    """The report of a plan with the decision that stands on it, as its last field."""
    if decision is None:
        return report
    fields: Fields = {**report.fields, "decision": _row(decision, written=False)}
    return replace(report, fields=fields)


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
