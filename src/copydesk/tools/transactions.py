"""Several plans written all or none: the tool, and its reports.

What lives here: the outcomes of a transaction made into `Report`. What must not:
the texts (`messages`), the form (`report`), what is written together (the desk).
"""

from __future__ import annotations

from collections.abc import Iterable

from copydesk.desk.outcome import Applied, Transacted, Verdict, Withheld
from copydesk.edit.request import BatchEdit
from copydesk.errors import ApprovalRequired
from copydesk.text.encoding import Encoding
from copydesk.tools import parts, reports
from copydesk.tools.catalog import Context
from copydesk.tools.messages import say
from copydesk.tools.report import MOST_DIFF_CHARACTERS, Fields, Lang, Report, shown_diff
from copydesk.tools.wire import Args
from copydesk.tools.yaml import Value

APPLY_ALL = "apply_file_modifications"


def apply_file_modifications(context: Context, name: str, args: Args) -> Report:
    """Write several plans, all or none."""
    outcome = context.desk.apply_all(context.member, name, args.texts("hunk_ids"))
    if isinstance(outcome, Withheld):
        return withheld(name, outcome, context.lang)
    return transacted(name, outcome, context.lang, brief=args.text("report") == "brief")


def transacted(mode: str, outcome: Transacted, lang: Lang, *, brief: bool = False) -> Report:
    """The report of plans that were written together, or had nothing to write."""
    rows: list[Value] = [
        _written(one, outcome.versions[one.plan.id], lang) for one in outcome.applied
    ]
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "transaction_id": outcome.group,
        "changed": bool(outcome.group),
        "hunks": rows,
    }
    facts = {"hunks": len(rows), "files": len(outcome.diffs)}
    drifted = any(one.context == "fuzz" for one in outcome.applied)
    how = "nothing" if not outcome.group else "fuzz" if drifted else "exact"
    summary = say(f"transaction.{how}", lang, facts)
    if brief:
        return Report({**fields, "summary": summary})
    diff, was_cut = _shown(outcome.diffs)
    if was_cut:
        fields["diff_truncated"] = True
    return Report({**fields, "summary": summary}, diff=diff)


def withheld(mode: str, outcome: Withheld, lang: Lang) -> Report:
    """The report of plans of which none was written, since not all could be."""
    plan, refusal = outcome.plan, outcome.refusal
    fields: Fields = {"status": "pending" if _waits(outcome) else "error", "mode": mode}
    if plan is not None:
        fields |= {"path": str(plan.request.path), "hunk_id": plan.id}
    fields |= {"error": refusal.code, **reports.facts_of(refusal)}
    fields["hunks"] = [_judged(verdict, told=verdict.plan is plan) for verdict in outcome.verdicts]
    batch = plan is not None and isinstance(plan.request, BatchEdit)
    why = reports.refusal_words(refusal, lang, ("batch",) if batch else ())
    sound = [verdict.plan.id for verdict in outcome.verdicts if verdict.refusal is None]
    facts = {
        "count": len(outcome.verdicts),
        "failed": len(outcome.verdicts) - len(sound),
        "id": plan.id if plan else None,
        "path": plan.request.path if plan else None,
        "why": why,
    }
    fields["summary"] = say("transaction.withheld", lang, facts)
    steps: tuple[str, ...] = ()
    if plan is not None and sound and refusal.code != "FAILED":
        ids = ", ".join(f'"{one}"' for one in sound)
        steps = (say("next.without", lang, {"tool": mode, "ids": ids}),)
    return Report(fields, next_steps=steps)


def _waits(outcome: Withheld) -> bool:
    """Whether people have to approve, and nothing else is in the way."""
    refused = [verdict.refusal for verdict in outcome.verdicts if verdict.refusal is not None]
    return bool(refused) and all(isinstance(each, ApprovalRequired) for each in refused)


def _written(one: Applied, version: str, lang: Lang) -> Fields:
    """One plan that was written; `version` is that of its file after all of them."""
    draft = one.draft
    row: Fields = {
        "hunk_id": one.plan.id,
        "path": str(one.plan.request.path),
        "action": draft.action,
        "context_match": one.context,
        "edit_id": one.edit_id,
        "lines": {
            "old": draft.old_count,
            "new": draft.new_count,
            "delta": draft.new_count - draft.old_count,
        },
        "version": version,
        **parts.warnings(draft, lang),
    }
    done = draft.normalized
    if done.file_eof_newline_added or done.content_eof_newline_added:
        row["normalized"] = parts.normalized(draft)
    return row


def _judged(verdict: Verdict, *, told: bool) -> Fields:
    """What one plan would have come to; the facts of one that is `told` stand above."""
    row: Fields = {
        "hunk_id": verdict.plan.id,
        "path": str(verdict.plan.request.path),
        "action": verdict.plan.action,
        "status": "ok" if verdict.refusal is None else "error",
        "context_match": verdict.context,
    }
    if verdict.refusal is not None:
        row["error"] = verdict.refusal.code
        if not told:
            row |= reports.facts_of(verdict.refusal)
    return row


def _shown(diffs: Iterable[tuple[bytes, Encoding]]) -> tuple[str, bool]:
    """The diffs as one text, and whether it was cut."""
    text = "".join(shown_diff(diff, encoding)[0] for diff, encoding in diffs)
    if len(text) <= MOST_DIFF_CHARACTERS:
        return text, False
    return text[: text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1], True
