"""The tools for what was done: undo, the list of edits, pending plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from copydesk.desk.history import Past
from copydesk.desk.outcome import NotUndone
from copydesk.edit.draft import Plan
from copydesk.edit.locate import cut, resolve_range
from copydesk.edit.request import BatchEdit, FileOperation, RangeEdits, content_lines
from copydesk.errors import InvalidArgs
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.sizes import tokens
from copydesk.text.snapshot import VERSION_LENGTH
from copydesk.text.unified import counts
from copydesk.tools import reports
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Context, EditingCall, Tool, ToolCall
from copydesk.tools.diff_model import View, diff_text, lines_in
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Length, Report, Value, first_rows, listing, named

UNDO = "undo_file_modification"
RESULTS = 50
_WHY = 120
"""Characters of what an edit is for in a row of a list."""


class UndoCall(EditingCall):
    """Undo an edit."""

    edit_id: Count
    transaction: bool = False
    report: Length | None = None

    def run(self, context: Context, name: str) -> Report:
        if self.transaction:
            together = context.desk.undo_together(context.member, name, self.edit_id)
            if isinstance(together, NotUndone):
                return reports.not_undone(name, together, context.lang)
            return reports.undone_together(name, together, context.lang, self.report)
        outcome = context.desk.undo(context.member, name, self.edit_id)
        if isinstance(outcome, NotUndone):
            return reports.not_undone(name, outcome, context.lang)
        return reports.undone(name, outcome, context.lang, self.report)


class ListEditsCall(ToolCall):
    """The edits that were made, the newest first."""

    path: str = ""
    member: str = ""
    max_results: Count = RESULTS
    before_edit_id: Count = 0

    def run(self, context: Context, name: str) -> Report:
        page = context.desk.history.page(
            context.member,
            context.path(self.path, folder=True) if self.path else None,
            self.member or None,
            self.max_results,
            self.before_edit_id or None,
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
        shown = first_rows(map(_past_row, page.edits), context.rows_tokens)
        go_on = page.go_on if len(shown) == len(rows) else page.edits[len(shown) - 1].edit_id
        steps: tuple[str, ...] = ()
        if go_on:
            asked = {key: getattr(self, key) for key in ("path", "member", "max_results")}
            given = {key: value for key, value in asked.items() if self.raw.get(key)}
            call = json.dumps({**given, "before_edit_id": go_on}, ensure_ascii=False)
            steps = (say("next.older", context.lang, {"tool": name, "call": call}),)
        return listing(fields, shown, next_steps=steps)


class ListPendingCall(ToolCall):
    """The pending plans, the oldest first."""

    path: str = ""
    max_results: Count = RESULTS

    def run(self, context: Context, name: str) -> Report:
        path = context.path(self.path, folder=True) if self.path else None
        plans = context.desk.waiting(context.member, path)
        rows: list[Value] = [
            _plan_fields(plan, context.member.name) | _decided(context, plan)
            for plan in plans[: self.max_results]
        ]
        said = "pending" if rows else "pending.none"
        fields: Fields = {
            "status": "ok",
            "mode": name,
            "count": len(rows),
            "total": len(plans),
            "hunks": rows,
            "summary": say(said, context.lang, {"count": len(plans)}),
        }
        each = (_plan_row(cast("dict[str, Any]", row)) for row in rows)
        shown = first_rows(each, context.rows_tokens)
        left_out = {"count": len(plans) - len(shown)}
        steps = (say("next.more_pending", context.lang, left_out),) if left_out["count"] else ()
        return listing(fields, shown, next_steps=steps)


class DiscardCall(ToolCall):
    """Discard a plan."""

    hunk_id: str

    def run(self, context: Context, name: str) -> Report:
        plan = context.desk.discard(context.member, self.hunk_id, name)
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


class ShowHunkCall(ToolCall):
    """Lines of the diff of a plan or of an edit."""

    hunk_id: str = ""
    edit_id: Count = 0
    range: str = ""

    def run(self, context: Context, name: str) -> Report:
        if bool(self.hunk_id) == bool(self.edit_id):
            raise InvalidArgs("hunk_id", "give either this or edit_id, not both")
        asked: Fields
        if self.hunk_id:
            shown = context.desk.show(context.member, self.hunk_id)
            path, diff, encoding = (
                shown.plan.request.path,
                shown.draft.diff,
                shown.draft.base.encoding,
            )
            asked = {"hunk_id": self.hunk_id}
            views = [View(path, shown.draft.base.version, side="old")]
        else:
            entry = context.desk.history.entry(context.member, self.edit_id)
            path, diff, encoding = entry.path, entry.diff, encoding_of_diff(entry.diff, None)
            asked = {"edit_id": self.edit_id}
            before, after = (digest[:VERSION_LENGTH] for digest in (entry.before, entry.after))
            views = [View(path, before, side="old"), View(path, after, side="new")]
        lines = diff_text(diff, encoding).removesuffix("\n").split("\n") if diff else []
        start, stop = resolve_range(self.range or "~", len(lines))
        kept = lines[start:stop]
        shown_lines: Fields = {"start": start + 1, "end": stop, "count": len(kept)}
        fields: Fields = {
            "status": "ok",
            "mode": name,
            "path": str(path),
            **asked,
            "total_lines": len(lines),
            "shown_lines": shown_lines,
        }
        room = context.budget - reports.HEAD_TOKENS if context.budget else None
        steps: tuple[str, ...] = ()
        taken = 0
        for at, line in enumerate(kept):
            taken += tokens(line) + 1
            if room is not None and taken > room and at:
                kept, stop = kept[:at], start + at
                shown_lines |= {"end": stop, "count": at}
                call = json.dumps({**asked, "range": f"{stop + 1}~"})
                steps = (say("next.read_on", context.lang, {"tool": name, "call": call}),)
                break
        for view in views:
            found = view.lines(lines_in(lines, range(start, stop)), fields=False)
            context.desk.note_shown(context.member, path, found)
        facts = {"where": f"{start + 1}~{stop}", "total": len(lines), "path": named(str(path))}
        line = say("show_hunk.lines", context.lang, facts)
        text = "".join(f"{one}\n" for one in kept)
        return Report(
            fields,
            body=text,
            language="diff",
            next_steps=steps,
            line=line,
            content={"content": text},
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
        "why": edit.why,
        **_people(edit),
        **_moved(edit),
    }


def _moved(edit: Past) -> Fields:
    if edit.moved is None:
        return {}
    return {"moved_to" if edit.moved.is_source else "moved_from": str(edit.moved.other)}


def _people(edit: Past) -> Fields:
    """Who approved the edit and who amended its plan, where a person did."""
    return {} if edit.approval is None else {n: v for n, v in edit.approval.people.items() if v}


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
        "why": plan.why,
    }


def _decided(context: Context, plan: Plan) -> Fields:
    """What a person decided on the plan, if that stands."""
    decision = context.desk.review.decision(plan)
    return {} if decision is None else {"decision": decision.verdict, "decided_by": decision.by}


def _past_row(edit: Past) -> str:
    """An edit in one line, its id first; what most edits are is not said."""
    added, removed = counts(edit.diff)
    parts = [
        f"{edit.edit_id} {named(str(edit.path))} +{added} -{removed}",
        *([] if edit.kind == "edit" or edit.moved else [edit.kind]),
        *(f"{key.replace('_', ' ')} {named(str(path))}" for key, path in _moved(edit).items()),
        edit.member,
        _second(edit.time_ms),
        *([] if edit.state == "done" else [edit.state]),
        *([f"undoes {edit.undoes}"] if edit.undoes else []),
        *([f"undone by {edit.undone_by}"] if edit.undone_by else []),
        *_because(edit.why),
    ]
    return " · ".join(parts)


def _plan_row(row: Mapping[str, Any]) -> str:
    """A plan in one line, its id first."""
    lines = row["lines"]
    parts = [
        f"{row['hunk_id']} {named(row['path'])} {row['action']} +{lines['new']} -{lines['old']}",
        row["owner"],
        f"until {_second(row['expires_at_ms'])}",
        *([f"{row['decision']} by {row['decided_by']}"] if "decision" in row else []),
        *_because(row["why"]),
    ]
    return " · ".join(parts)


def _because(why: str) -> list[str]:
    return [f"why: {named(cut(why, _WHY))}"] if why else []


def _second(time_ms: int) -> str:
    return f"{when(time_ms)[:19]}Z"


def _planned_lines(plan: Plan) -> tuple[int, int]:
    """How many lines a plan replaces, and how many stand in their place."""
    place, request = plan.place, plan.request
    if plan.blocks is not None:
        return plan.blocks.lines_removed, plan.blocks.lines_added
    if isinstance(request, BatchEdit):
        old = len({line for start, stop in place.parts for line in range(start, stop)})
        grown = sum(edit.new.count("\n") - edit.old.count("\n") for edit in request.edits)
        return old, old + grown * place.candidates
    if isinstance(request, RangeEdits):
        old = sum(stop - start for start, stop in place.parts)
        return old, sum(len(content_lines(edit.content)) for edit in request.edits)
    if isinstance(request, FileOperation):
        return place.stop - place.start, 0
    return place.stop - place.start, len(content_lines(request.content))


HISTORY = (
    Tool(UNDO, "ws_mod", UndoCall, destroys=True, also=("notes", "compat", "patch")),
    Tool(
        "list_edits", "ws_mod", ListEditsCall, reads=True, idempotent=True, also=("notes", "patch")
    ),
    Tool("list_pending", "ws_mod", ListPendingCall, reads=True, idempotent=True, also=("notes",)),
    Tool(
        "show_hunk",
        "ws_mod",
        ShowHunkCall,
        reads=True,
        idempotent=True,
        also=("batch", "notes", "patch"),
    ),
    Tool("discard_hunk", "ws_mod", DiscardCall, destroys=True, idempotent=True, also=("notes",)),
)
"""The rows of the catalog, which the mirror toolset has too."""
