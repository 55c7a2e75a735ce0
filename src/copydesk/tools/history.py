"""The tools that look back and take back: undo, the edits that were made, the plans that wait.

What lives here: schemas, the step to the desk's sentences, the fields of the lists.
What must not: what can be taken back (the desk says that), the reports of undo (`undone`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from copydesk.desk.history import Past
from copydesk.desk.outcome import NotUndone
from copydesk.edit.plan import Plan
from copydesk.edit.request import BatchEdit, content_lines
from copydesk.text.unified import counts
from copydesk.tools import reports
from copydesk.tools.catalog import Context, Tool
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Report, Value
from copydesk.tools.wire import Args, arguments, choice, number, text

UNDO = "undo_file_modification"
RESULTS = 50


def undo_file_modification(context: Context, name: str, args: Args) -> Report:
    """Take an edit back."""
    edit_id = args.number("edit_id", 0)
    outcome = context.desk.undo(context.member, name, edit_id)
    if isinstance(outcome, NotUndone):
        return reports.not_undone(name, outcome, context.lang)
    brief = args.text("report") == "brief"
    return reports.undone(name, outcome, context.lang, brief=brief)


def list_edits(context: Context, name: str, args: Args) -> Report:
    """The edits that were made, the newest first."""
    where, by = args.text("path"), args.text("member")
    page = context.desk.history.page(
        context.member,
        context.path(where, folder=True) if where else None,
        by or None,
        args.number("max_results", RESULTS),
        args.number("before_edit_id", 0) or None,
    )
    rows: list[Value] = [past_fields(edit) for edit in page.edits]
    fields: Fields = {
        "status": "ok",
        "mode": name,
        "count": len(rows),
        "edits": rows,
        "more": page.go_on != 0,
        "summary": say("edits" if rows else "edits.none", context.lang, {"count": len(rows)}),
    }
    if not page.go_on:
        return Report(fields)
    given = {"path": where, "member": by, "max_results": args.number("max_results", 0)}
    asked = {key: value for key, value in given.items() if value}
    call = json.dumps({**asked, "before_edit_id": page.go_on}, ensure_ascii=False)
    return Report(
        fields, next_steps=(say("next.older", context.lang, {"tool": name, "call": call}),)
    )


def list_pending(context: Context, name: str, args: Args) -> Report:
    """The plans that wait, the oldest first."""
    where = args.text("path")
    path = context.path(where, folder=True) if where else None
    plans = context.desk.waiting(context.member, path)
    shown = plans[: args.number("max_results", RESULTS)]
    rows: list[Value] = [
        _plan_fields(plan, context.member.name) | _decided(context, plan) for plan in shown
    ]
    return Report(
        {
            "status": "ok",
            "mode": name,
            "count": len(rows),
            "total": len(plans),
            "hunks": rows,
            "summary": say(
                "pending" if rows else "pending.none", context.lang, {"count": len(plans)}
            ),
        }
    )


def discard_hunk(context: Context, name: str, args: Args) -> Report:
    """Discard a plan."""
    plan = context.desk.discard(context.member, args.text("hunk_id"), name)
    facts = {"id": plan.id, "path": plan.request.path}
    return Report(
        {
            "status": "ok",
            "mode": name,
            "path": str(plan.request.path),
            "hunk_id": plan.id,
            "action": plan.action,
            "summary": say("discarded", context.lang, facts),
        }
    )


def past_fields(edit: Past) -> Fields:
    """One edit of the past, as every surface tells of it."""
    added, removed = counts(edit.diff)
    return {
        "edit_id": edit.edit_id,
        "time": when(edit.time_ms),
        "time_ms": edit.time_ms,
        "member": edit.member,
        "tool": edit.tool,
        "path": str(edit.path),
        "kind": edit.kind,
        "hunk_id": edit.hunk_id,
        "lines": {"added": added, "removed": removed},
        "state": edit.state,
        "undoes": edit.undoes,
        "undone_by": edit.undone_by,
    }


def when(time_ms: int) -> str:
    """A moment, given in milliseconds since 1970, in ISO 8601, UTC."""
    seconds, rest = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def _plan_fields(plan: Plan, member: str) -> Fields:
    old, new = _planned_lines(plan)
    return {
        "hunk_id": plan.id,
        "owner": plan.owner,
        "mine": plan.owner == member,
        "tool": plan.tool,
        "path": str(plan.request.path),
        "action": plan.action,
        "expires_at_ms": plan.expires_ms,
        "lines": {"old": old, "new": new},
    }


def _decided(context: Context, plan: Plan) -> Fields:
    """What a person decided on the plan, if that stands."""
    decision = context.desk.review.decision(plan)
    return {} if decision is None else {"decision": decision.verdict, "decided_by": decision.by}


def _planned_lines(plan: Plan) -> tuple[int, int]:
    """How many lines a plan replaces, and how many stand in their place."""
    place, request = plan.place, plan.request
    if plan.blocks is not None:
        return plan.blocks.lines_removed, plan.blocks.lines_added
    if isinstance(request, BatchEdit):
        old = len({line for start, stop in place.parts for line in range(start, stop)})
        grown = sum(edit.new.count("\n") - edit.old.count("\n") for edit in request.edits)
        return old, old + grown
    return place.stop - place.start, len(content_lines(request.content))


HISTORY = (
    Tool(
        UNDO,
        "ws_mod",
        arguments({"edit_id": number(), "report": choice("full", "brief")}, "edit_id"),
        undo_file_modification,
        destroys=True,
        also=("notes", "compat"),
    ),
    Tool(
        "list_edits",
        "ws_mod",
        arguments(
            {
                "path": text(),
                "member": text(),
                "max_results": number(default=RESULTS),
                "before_edit_id": number(),
            }
        ),
        list_edits,
        reads=True,
        idempotent=True,
        also=("notes",),
    ),
    Tool(
        "list_pending",
        "ws_mod",
        arguments({"path": text(), "max_results": number(default=RESULTS)}),
        list_pending,
        reads=True,
        idempotent=True,
        also=("notes",),
    ),
    Tool(
        "discard_hunk",
        "ws_mod",
        arguments({"hunk_id": text()}, "hunk_id"),
        discard_hunk,
        destroys=True,
        idempotent=True,
        also=("notes",),
    ),
)
"""The rows of the catalog, which the mirror toolset has too."""
