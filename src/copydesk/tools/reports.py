"""How the outcomes of the desk become answers: the fields of each in order, and its one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from copydesk import errors
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    Reading,
    Rejected,
    Transacted,
    Undone,
    Verdict,
    Withheld,
)
from copydesk.desk.review import Shown
from copydesk.edit.draft import Plan, cut
from copydesk.edit.request import ReplaceText
from copydesk.errors import Refusal
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Text
from copydesk.text.unified import regions
from copydesk.tools import report_fields
from copydesk.tools.diff_model import View, diff_text, shorten, views_of
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import facts_of, refusal_words
from copydesk.tools.report import (
    LONGEST,
    MOST_DIFF_CHARACTERS,
    Answer,
    Fields,
    Lang,
    Length,
    Value,
    cut_diff,
    known,
    named,
    shown_diff,
)
from copydesk.tools.report_fields import first_line, line_counts, row_of

HEAD_TOKENS = 250  # tokens of the head of an answer and its next steps
LIST_HEAD_TOKENS = 500  # the same for a list, including notices
REPLACE_TEXT = ReplaceText.voices  # the wording of that tool's refusals
_CUT: Fields = {"diff_truncated": True}
_MOST_PLACES, _DIFFERENCE = 10, 80  # hunks that do not fit, and characters of a line of one
_MOST_UNCOUNTED = 10  # a brief answer with more lines starts with their count


def _sized(
    whole: Answer, length: Length | None, line: str, said: Iterable[str], *, drifted: bool = False
) -> Answer:
    """The answer in the asked length: in full, or one line and remarks.

    Without a length it has the diff as well if the edit was written to another place than planned.
    """
    if length == "full":
        return whole
    if length is None and drifted:
        return replace(whole, line=line, remarks=tuple(said), next_steps=())
    brief = replace(whole, line=line, remarks=tuple(said), next_steps=(), shows_diff=False)
    return replace(brief, rest="", views=())


def _diff(diff: bytes, encoding: Encoding, lang: Lang) -> tuple[str, Fields, str]:
    """The diff as text, a field if it is cut, and a note if it cannot be applied."""
    text, was_cut = shown_diff(diff, encoding)
    if was_cut:
        return text, _CUT, ""
    is_other = encoding.unit > 1 or text.encode("utf-8", "surrogatepass") != diff
    return text, {}, say("diff.display", lang) if is_other else ""


def _diffs(diffs: Iterable[tuple[bytes, Encoding]]) -> tuple[str, Fields]:
    """The diffs of several files as one text, and a field if it is too long for programs."""
    text = "".join(shown_diff(diff, encoding)[0] for diff, encoding in diffs)
    return text, _CUT if len(text) > MOST_DIFF_CHARACTERS else {}


def short_diff(shown: Shown, lang: Lang) -> tuple[str, bool]:
    """The diff with long lines shortened to what changes in them, and whether it was cut."""
    text = diff_text(shown.diff, shown.draft.base.encoding)
    return cut_diff(shorten(text, lambda count: say("left_out.characters", lang, {"count": count})))


def _prefix(mode: str) -> str:
    """The prefix of the mirror toolset's tools, or empty."""
    return "team_mgmt_" if mode.startswith("team_mgmt_") else ""


def _callers(mode: str) -> tuple[str, ...]:
    """The voice of the mirror toolset, whose tools have other names."""
    return ("team_mgmt",) if _prefix(mode) else ()


def _rest(mode: str, shown: int | str, lang: Lang, key: str = "next.rest") -> str:
    """How to see the rest of a diff: of a plan (if `shown` is a text) or of an edit."""
    name, value = ("hunk_id", f'"{shown}"') if isinstance(shown, str) else ("edit_id", shown)
    return say(key, lang, {"tool": f"{_prefix(mode)}show_hunk", "name": name, "id": value})


def _done(word: str, what: str, edit_id: int, version: str) -> str:
    """The line about a write: what was written, its id if anything changed, and the version."""
    edit = f" · edit {edit_id}" if edit_id else ""
    return f"{word} {what}{edit}" + (f" · version {version}" if version else "")


# Plans.


def planned(mode: str, outcome: Planned, lang: Lang, length: Length | None = None) -> Answer:
    """The answer with a plan, in full unless `length` is brief."""
    draft, plan, row = outcome.draft, outcome.plan, row_of(outcome.draft.request)
    path, base, why = plan.request.path, draft.base, list[str]()
    if outcome.fixed is not None:
        why.append(report_fields.corrected_words(outcome.fixed.causes, lang))
    if outcome.declined is not None:
        why.append(say("auto.declined", lang, {"why": say_reason(outcome.declined, lang)}))
        if outcome.refusal is not None:
            why.append(refusal_words(outcome.refusal, lang, _callers(mode)))
    summary = "plan.nothing" if draft.replaces_nothing else row.plan_words(draft)
    diff, was_cut, display = _diff(draft.diff, base.encoding, lang)
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": draft.action,
        **row.planned(draft, draft.request, lang),
        "version": base.version,
        **report_fields.warnings(draft, lang, outcome.signs),
        **_declined(outcome.declined),
        **({} if outcome.fixed is None else {"changed": False, "hunks": [_corrected_row(outcome)]}),
        **({"normalized": report_fields.normalized(draft)} if row.of_text else {}),
        **row.evidence(draft),
        **was_cut,
        "summary": " ".join((*why, say(summary, lang, row.numbers(draft)))),
    }
    apply = f"{_prefix(mode)}apply_file_modification"
    steps = (
        say("next.apply", lang, {"apply": apply, "id": plan.id}),
        say("next.replan", lang, {"tool": mode, "id": plan.id}),
    )
    lines = partial(row.shown, draft)
    view = View(path, base.version, base.line_count, "old", 0, lines, outcome.real)
    rest = _rest(mode, plan.id, lang)
    whole = Answer(fields, diff, display=display, next_steps=steps, rest=rest, views=(view,))
    if length != "brief":
        return whole
    said = (*why, *report_fields.remarks(draft, fields, lang))
    return _sized(whole, length, f"planned {plan.id} · {row.where(draft, '')}", said)


def _corrected_row(planned: Planned) -> Fields:
    """The plan of a corrected edit in short; `cause` is why its old text was not found."""
    cause: Fields = {} if planned.fixed is None else {"cause": [*planned.fixed.causes]}
    return {"hunk_id": planned.plan.id, "path": str(planned.plan.request.path), **cause}


def _declined(reason: str | None) -> Fields:
    return {} if reason is None else {"auto_apply": "declined", "auto_apply_reason": reason}


def planned_together(
    mode: str,
    planned: Sequence[Planned],
    lang: Lang,
    declined: str | None = None,
    saying: str = "transaction.planned",
) -> Answer:
    """The answer with the plans of one call; `declined`: why auto wrote none of them."""
    rows: list[Value] = [
        {
            **_corrected_row(one),
            "action": one.draft.action,
            "lines": {"old": one.draft.old_count, "new": one.draft.new_count},
            **report_fields.warnings(one.draft, lang, one.signs),
        }
        for one in planned
    ]
    diff, was_cut = _diffs((one.draft.diff, one.draft.base.encoding) for one in planned)
    summary = say(saying, lang, {"files": len({one.plan.request.path for one in planned})})
    if declined is not None:
        why = say("auto.declined", lang, {"why": say_reason(declined, lang)})
        summary = f"{why} {summary}"
    causes = [cause for one in planned if one.fixed is not None for cause in one.fixed.causes]
    changed: Fields = {}
    if causes:
        summary = f"{report_fields.corrected_words([*dict.fromkeys(causes)], lang)} {summary}"
        changed = {"changed": False}
    head: Fields = {"status": "ok", "mode": mode, **changed}
    fields: Fields = {**head, "hunks": rows, **_declined(declined), **was_cut}
    ids = ", ".join(f'"{one.plan.id}"' for one in planned)
    tool = f"{_prefix(mode)}apply_file_modifications"
    steps = (say("next.together", lang, {"tool": tool, "ids": ids}),)
    rest = _rest(mode, planned[0].plan.id, lang, "next.rest_each")
    return Answer({**fields, "summary": summary}, diff, next_steps=steps, rest=rest)


def already_there(mode: str, there: Sequence[errors.RejectedHunk], lang: Lang) -> Answer:
    """The answer to a patch whose new lines are all in the files already, each in one place."""
    rows: list[Value] = [
        {"path": one.path, "hunk": one.hunk, "lines": str((one.lines or (0,))[0])} for one in there
    ]
    summary = say("patch.there", lang, {"count": len(rows)})
    fields: Fields = {"status": "ok", "mode": mode, "changed": False, "already_there": rows}
    return Answer({**fields, "summary": summary})


# Writes.


def applied(mode: str, outcome: Applied, lang: Lang, length: Length | None = None) -> Answer:
    """The answer to an apply; one line if it was written exactly as planned, unless in full."""
    draft, request = outcome.draft, outcome.plan.request
    diff, was_cut, display = _diff(draft.diff, draft.base.encoding, lang)
    drifted, path = outcome.context == "fuzz", request.target or request.path
    view = View(path, draft.after.version, side="new")
    rest = _rest(mode, outcome.edit_id, lang) if drifted or length == "full" else ""
    # one line is enough for most callers, so that the fields are computed for programs alone
    make = partial(_applied_fields, mode, outcome, lang, was_cut)
    whole = Answer(make, diff, display=display, rest=rest, views=(view,))
    said = report_fields.remarks(draft, report_fields.warnings(draft, lang), lang)
    if outcome.causes:
        said = (report_fields.corrected_words(outcome.causes, lang), *said)
    if not outcome.edit_id:
        said = (_applied_summary(outcome, lang), *said)
    line = _applied_line(outcome, _version_after(outcome))
    return _sized(whole, length, line, said, drifted=drifted)


def _applied_fields(mode: str, outcome: Applied, lang: Lang, was_cut: Fields) -> Fields:
    """All fields of an apply; `was_cut` is among them if the diff is cut."""
    draft, plan, row = outcome.draft, outcome.plan, row_of(outcome.draft.request)
    drift: Fields = {}
    if outcome.context == "fuzz":
        drift = _drift(plan.base_digest, None if draft.created else draft.base.digest)
    version = _version_after(outcome)
    return {
        "status": "ok",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": draft.action,
        "context_match": outcome.context,
        **({"cause": [*outcome.causes]} if outcome.causes else {}),
        **row.applied(draft, draft.request, lang),
        **drift,
        "changed": outcome.edit_id != 0,
        "edit_id": outcome.edit_id,
        **({"version": version} if version else {}),
        **report_fields.warnings(draft, lang),
        **({"normalized": report_fields.normalized(draft)} if row.of_text else {}),
        "apply_evidence": row.written(draft),
        **was_cut,
        "summary": _applied_summary(outcome, lang),
    }


def _applied_summary(outcome: Applied, lang: Lang) -> str:
    row = row_of(outcome.draft.request)
    saying = row.applied_words(outcome) if outcome.edit_id else "apply.nothing"
    return say(saying, lang, row.numbers(outcome.draft))


def _version_after(outcome: Applied) -> str:
    """The version of the file that was written; empty if it was deleted."""
    return "" if outcome.plan.request.deletes else outcome.draft.after.version


def _applied_line(outcome: Applied, version: str) -> str:
    draft, planned_at = outcome.draft, outcome.plan.place.start + 1
    drifted = outcome.context == "fuzz" and planned_at != first_line(draft)
    where = row_of(draft.request).where(draft, f" (planned {planned_at})" * drifted)
    return _done("fuzz" if outcome.context == "fuzz" else "ok", where, outcome.edit_id, version)


def _drift(planned_on: str | None, current: str | None) -> Fields:
    return {
        "file_changed_since_preview": planned_on != current,
        "planned_file_digest_sha256": planned_on or "",
        "current_file_digest_sha256": current or "",
    }


def transacted(mode: str, outcome: Transacted, lang: Lang, length: Length | None = None) -> Answer:
    """The answer about plans written together, or without anything to write."""
    versions = outcome.versions
    rows = [_transacted_row(one, versions[one.plan.id], lang) for one in outcome.applied]
    drifted = any(one.context == "fuzz" for one in outcome.applied)
    how = "nothing" if not outcome.group else "fuzz" if drifted else "exact"
    facts = {"hunks": len(rows), "files": len(outcome.diffs)}
    summary = say(f"transaction.{how}", lang, facts)
    diff, was_cut = _diffs(outcome.diffs)
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "transaction_id": outcome.group,
        "changed": bool(outcome.group),
        "hunks": [*rows],
        **was_cut,
        "summary": summary,
    }
    requests = {one.plan.id: one.plan.request for one in outcome.applied}
    texts = {
        request.path: versions[plan_id]
        for plan_id, request in requests.items()
        if row_of(request).of_text
    }
    first = next((one.edit_id for one in outcome.applied if one.edit_id), 0)
    rest = _rest(mode, first, lang, "next.rest_each")
    whole = Answer(fields, diff, views=views_of(texts, outcome.diffs), rest=rest)
    lines: list[str] = []
    if len(rows) > _MOST_UNCOUNTED or not rows:
        lines.append(f"{summary} ({outcome.group})" if outcome.group else summary)
    for one, row in zip(outcome.applied, rows, strict=True):
        lines.append(_applied_line(one, versions[one.plan.id]))
        lines += [report_fields.corrected_words(one.causes, lang)] if one.causes else []
        lines += report_fields.remarks(one.draft, row, lang)
    return _sized(whole, length, lines[0], lines[1:], drifted=drifted)


def _transacted_row(one: Applied, version: str, lang: Lang) -> Fields:
    """The row of one written plan; `version` is that of its file after all plans."""
    draft, target, done = one.draft, one.plan.request.target, one.draft.normalized
    is_normalized = done.file_eof_newline_added or done.content_eof_newline_added
    return {
        "hunk_id": one.plan.id,
        "path": str(one.plan.request.path),
        "action": draft.action,
        "context_match": one.context,
        **({"cause": [*one.causes]} if one.causes else {}),
        "edit_id": one.edit_id,
        "lines": line_counts(draft),
        **({"version": version} if version else {}),
        **report_fields.warnings(draft, lang),
        **({} if target is None else {"to": str(target)}),
        **({"normalized": report_fields.normalized(draft)} if is_normalized else {}),
    }


def rewritten(
    mode: str, outcome: Created | Overwritten, lang: Lang, length: Length | None = None
) -> Answer:
    """The answer about a file that is new, or was replaced as a whole."""
    path, after, edit_id = outcome.path, outcome.after, outcome.edit_id
    before = outcome.before if isinstance(outcome, Overwritten) else None
    facts: dict[str, object] = {"path": path, "lines": after.line_count}
    old, style, changed, saying, what = Fields(), Fields(), Fields(), "create", f"{path} (new)"
    if before is not None:
        old = {"old_total_lines": before.line_count, "old_total_bytes": before.size}
        style, changed = {"newline_style": after.newline_style}, {"changed": edit_id != 0}
        saying, what = "overwrite" if edit_id else "overwrite.nothing", str(path)
        facts["old"] = before.line_count
    summary = say(saying, lang, facts)
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(path),
        **old,
        "total_lines": after.line_count,
        "size_bytes": after.size,
        **style,
        "normalized_trailing_newline_added": outcome.newline_added,
        **changed,
        "edit_id": edit_id,
        "version": after.version,
        **report_fields.lost_warning(after, before, lang),
        "summary": summary,
    }
    what += f" +{after.line_count} -{facts.get('old', 0)}"
    said = (*(() if edit_id else (summary,)), *report_fields.warned_in(fields))
    return _sized(Answer(fields), length, _done("ok", what, edit_id, after.version), said)


# Undo.


_UNDOING = {"move": "file_move", "mode": "file_mode", "create": "remove", "remove": "create"}
"""The action of an undo by the kind of the edit; for other kinds it depends on the lines."""

_UNDONE_ROW = ("path", "to", "edit_id", "undone_edit_id", "action", "context_match", "lines")


def undone(mode: str, outcome: Undone, lang: Lang, length: Length | None = None) -> Answer:
    """The answer to an undo, even if nothing was left to undo."""
    entry, after, edit_id, path = outcome.entry, outcome.after, outcome.edit_id, outcome.path
    drifted, is_text = outcome.context == "fuzz", entry.kind != "create"
    changed = regions(outcome.base, outcome.change)
    old = sum(region.stop - region.start for region in changed)
    new = sum(len(region.new) for region in changed)
    kind = "move" if entry.moved else "mode" if entry.mode_changed else entry.kind
    to: Fields = {"to": str(entry.moved.other)} if entry.moved else {}
    saying = kind if kind in _UNDOING else outcome.context
    facts = {"undone": entry.edit_id, "path": path, "old": old, "new": new, **to}
    summary = say(f"undo.{saying if edit_id else 'nothing'}", lang, facts)
    version = after.version if is_text or entry.moved else ""
    shown: Fields = {}
    if changed and version:
        start, stop = changed[0].start, changed[0].start + len(changed[0].new)
        shown = {
            "before": report_fields.lines_before(after, start),
            "written": report_fields.lines_of(after, start, stop),
            "after": report_fields.lines_after(after, stop),
        }
    diff, was_cut, display = _diff(outcome.diff, outcome.base.encoding, lang)
    replaces = "replace" if old and new else "insert" if new else "delete"
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(path),
        **to,
        "edit_id": edit_id,
        "undone_edit_id": entry.edit_id,
        "action": _UNDOING.get(kind, replaces),
        "context_match": outcome.context,
        "regions": [
            {"start_line": start + 1, "end_line": start + len(region.new)}
            for region, start in report_fields.shifted(changed[: report_fields.MOST_REGIONS])
        ],
        "lines": {"old": old, "new": new, "delta": new - old},
        **(_drift(entry.after, outcome.base.digest) if drifted else {}),
        "changed": edit_id != 0,
        **({"version": version} if version else {}),
        "apply_evidence": shown,
        **was_cut,
        "summary": summary,
    }
    again = say("next.redo", lang, {"tool": mode, "id": edit_id})
    whole = Answer(
        fields,
        diff,
        display=display,
        next_steps=(again,) if edit_id else (),
        rest=_rest(mode, edit_id, lang),
        views=(View(path, after.version, side="new"),) if is_text else (),
    )
    what = f"{path}{f':{changed[0].start + 1}' if changed else ''} +{new} -{old}"
    if entry.moved:
        what = f"{path} => {entry.moved.other}"
    what += f" · undid edit {entry.edit_id}"
    line = _done("fuzz" if drifted else "ok", what, edit_id, version)
    return _sized(whole, length, line, () if edit_id else (summary,), drifted=drifted)


def undone_together(
    mode: str, outcomes: Sequence[Undone], lang: Lang, length: Length | None = None
) -> Answer:
    """The answer to the undo of a transaction, its newest edit first."""
    each = [undone(mode, one, lang, length) for one in outcomes]
    rows: list[Value] = [
        {key: one.facts[key] for key in _UNDONE_ROW if key in one.facts} for one in each
    ]
    summary = say("undo.together", lang, {"edits": len(rows)})
    fields: Fields = {"status": "ok", "mode": mode, "changed": bool(rows), "edits": rows}
    whole = Answer({**fields, "summary": summary}, "".join(one.diff for one in each))
    lines = [one.line for one in each] or [summary]
    drifted = any(one.context == "fuzz" for one in outcomes)
    return _sized(whole, length, lines[0], lines[1:], drifted=drifted)


# Refusals.


_UNREAD = (errors.HunkRejected, errors.Busy, errors.Cancelled, errors.CheckFailed)
"""Refusals that do not depend on the content of the file: its state is not reported."""


def refused(
    mode: str, path: str | None, refusal: Refusal, lang: Lang, voices: Sequence[str] = ()
) -> Answer:
    """The answer of a refusal, in the wording of `voices`."""
    head = known(path=path and cut(path, LONGEST))
    if isinstance(refusal, errors.PatchRejected):
        head["where"] = [*_places_of(refusal.rejected)]
    return _refused(mode, refusal, head, refusal_words(refusal, lang, (*_callers(mode), *voices)))


def _places_of(rejected: Sequence[errors.RejectedHunk]) -> Iterator[str]:
    """The place of each of the first hunks that do not fit, and how it differs, in one line."""
    room = _DIFFERENCE if len(rejected) == 1 else _DIFFERENCE // 2
    for one in rejected[:_MOST_PLACES]:
        lines = one.nearest_lines or ", ".join(map(str, one.lines or ()))
        differing = (line[:room].rstrip() for line in (one.difference or ())[:2])
        yield " ".join((f"{one.path}:{lines}" if lines else one.path, *differing))


def _refused(
    mode: str,
    refusal: Refusal,
    head: Fields,
    summary: str,
    status: str = "error",
    facts: Fields | None = None,
    views: tuple[View, ...] = (),
) -> Answer:
    """The answer of a refusal; `head` are the fields before its code, `facts` those after it."""
    told = {"error": refusal.code, **(facts_of(refusal) if facts is None else facts)}
    fields: Fields = {"status": status, "mode": mode, **head, **told, "summary": summary}
    return Answer(fields, views=views)


def rejected(mode: str, outcome: Rejected, lang: Lang) -> Answer:
    """The answer to an apply that was refused because of the file."""
    plan, refusal, now = outcome.plan, outcome.refusal, outcome.current
    head: Fields = {
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": plan.action,
        "context_match": "rejected",
    }
    lines = plan.place.start, plan.place.stop
    facts, views = _at_place(refusal, plan.request.path, plan.base_digest, now, lines)
    if now is None:
        current = facts.pop("current", None)
        unread = isinstance(refusal, _UNREAD)
        facts |= {} if unread else _drift(plan.base_digest, None)
        facts["apply_evidence"] = known(current=current)
    why = refusal_words(refusal, lang, (*_callers(mode), *plan.request.voices))
    return _refused(mode, refusal, head, say("rejected", lang, {"why": why}), "error", facts, views)


def not_undone(mode: str, outcome: NotUndone, lang: Lang) -> Answer:
    """The answer to an undo that was refused."""
    entry, refusal = outcome.entry, outcome.refusal
    head: Fields = {"path": str(entry.path), "edit_id": entry.edit_id, "context_match": "rejected"}
    facts, views = _at_place(refusal, entry.path, entry.after, outcome.current, outcome.lines)
    facts.pop("current", None)
    summary = _why_not_undone(outcome, mode, lang)
    return _refused(mode, refusal, head, summary, "error", facts, views)


def _at_place(
    refusal: Refusal, path: RelPath, digest: str | None, now: Text | None, lines: tuple[int, int]
) -> tuple[Fields, tuple[View, ...]]:
    """The facts of a refusal, with what is at the lines now if the file was read; and the views."""
    facts = facts_of(refusal)
    start = min(lines[0], now.line_count) if now is not None else 0
    stop = max(lines[1], start)
    if now is not None:
        around = start - report_fields.AROUND, stop + report_fields.AROUND
        facts |= {**_drift(digest, now.digest), "version": now.version}
        own = None if "current" in facts else report_fields.lines_of(now, *around, numbers=True)
        facts["apply_evidence"] = {"current": facts.pop("current", own)}
    return facts, report_fields.views(refusal, path, now, (start, stop))


def _why_not_undone(outcome: NotUndone, mode: str, lang: Lang) -> str:
    edit_id, refusal = outcome.entry.edit_id, outcome.refusal
    changed = refusal if isinstance(refusal, errors.ContentChanged) else None
    if changed and changed.undone_by:
        facts = {"id": edit_id, "by": changed.undone_by, "tool": mode}
        return say("undo.already", lang, facts)
    why = refusal_words(refusal, lang, (*_callers(mode), "undo"))
    words = say("undo.refused", lang, {"id": edit_id, "why": why})
    if not (changed and changed.later_edit_ids):
        return words
    return f"{words} {say('undo.later', lang, {'ids': changed.later_edit_ids, 'tool': mode})}"


def withheld(mode: str, outcome: Withheld, lang: Lang) -> Answer:
    """The answer of a refused transaction: nothing was written."""
    plan, refusal, verdicts = outcome.plan, outcome.refusal, outcome.verdicts
    of_plan: Fields = {} if plan is None else {"path": str(plan.request.path), "hunk_id": plan.id}
    why = [one.refusal for one in verdicts if one.refusal is not None]
    waits = why and all(isinstance(one, errors.ApprovalRequired) for one in why)
    rows: list[Value] = [_judged(one, told=one.plan is plan) for one in verdicts]
    voices = _callers(mode) + (plan.request.voices if plan is not None else ())
    facts = {
        "count": len(verdicts),
        "failed": len(why),
        "id": plan.id if plan else None,
        "path": plan.request.path if plan else None,
        "why": refusal_words(refusal, lang, voices),
    }
    summary, status = say("transaction.withheld", lang, facts), "pending" if waits else "error"
    told: Fields = {**facts_of(refusal), "hunks": rows}
    answer = _refused(mode, refusal, of_plan, summary, status, told)
    sound = [f'"{one.plan.id}"' for one in verdicts if one.refusal is None]
    if plan is None or not sound or refusal.code == "FAILED":
        return answer
    step = say("next.without", lang, {"tool": mode, "ids": ", ".join(sound)})
    return replace(answer, next_steps=(step,))


def _judged(verdict: Verdict, *, told: bool) -> Fields:
    """The row of one plan of a refused transaction; without facts if they are `told` above."""
    refusal = verdict.refusal
    why: Fields = {} if refusal is None else {"error": refusal.code}
    return {
        "hunk_id": verdict.plan.id,
        "path": str(verdict.plan.request.path),
        "action": verdict.plan.action,
        "status": "ok" if refusal is None else "error",
        "context_match": verdict.context,
        **why,
        **({} if told or refusal is None else facts_of(refusal)),
    }


def pending(mode: str, plan: Plan, refusal: errors.ApprovalRequired, lang: Lang) -> Answer:
    """The answer to an apply that waits for approval; the plan stays pending."""
    head: Fields = {
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": plan.action,
    }
    return _refused(mode, refusal, head, refusal_words(refusal, lang), "pending")


# Readings.


def reading(mode: str, outcome: Reading, lang: Lang, *, numbers: bool) -> Answer:
    """The answer with lines of a file."""
    first, count, path = outcome.first_line, len(outcome.lines), str(outcome.path)
    last = None if first is None else first + count - 1
    shown = known(start=first, end=last) if count and first is not None else {}
    summary = say("read.empty", lang)
    if count:
        where = f"{first or '?'}" if first == last else f"{first}~{last}"
        summary = say("read", lang, {"where": where, "path": path})
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": path,
        **known(
            total_lines=outcome.total_lines,
            size_bytes=outcome.size_bytes,
            version=outcome.version,
            encoding=outcome.encoding,
            newline_style=outcome.newline_style,
            file_eof_has_newline=outcome.ends_with_newline,
        ),
        "shown_lines": {**shown, "count": count},
        "truncated_by_max_lines": outcome.cut_by_lines,
        "truncated_by_char_limit": outcome.cut_by_characters,
        **({"range_clipped": True} if outcome.clipped else {}),
        "summary": summary,
    }
    steps: list[str] = []
    start, stop = outcome.wanted
    if first is not None and count < stop - start:
        left_out = f"{first + count}~{stop}" if first == start + 1 else f"{start + 1}~{first - 1}"
        on = {"path": path, "range": left_out}
        call = json.dumps(on, ensure_ascii=False)
        steps.append(say("next.read_on", lang, {"tool": mode, "call": call}))
    if outcome.cut_in_line:
        search = mode.replace("read_file", "ripgrep_snippets")
        steps.append(say("next.long_line", lang, {"tool": search}))
    texts: Sequence[str] = outcome.lines
    if numbers and first:
        texts = report_fields.numbered(first, texts)
    body = "".join(f"{text}\n" for text in texts)
    content: Fields = {"content": body}
    line = _read_line(outcome, lang)
    return Answer(fields, body=body, next_steps=tuple(steps), content=content, line=line)


def _read_line(outcome: Reading, lang: Lang) -> str:
    """The path and the lines read, and anything unusual about the file."""
    first, count, total = outcome.first_line, len(outcome.lines), outcome.total_lines
    facts = {"path": named(str(outcome.path)), "bytes": outcome.size_bytes, "total": total}
    facts |= {"count": count}
    saying = "read.line" if count else "read.line.none"
    if first is None or total is None:
        saying = "read.line.last"
    elif count:
        facts["where"] = str(first) if count == 1 else f"{first}-{first + count - 1}"
    parts = [say(saying, lang, facts)]
    if outcome.clipped:
        parts.append(say("read.clipped", lang))
    if outcome.version is not None:
        parts.append(f"version {outcome.version}")
    if outcome.newline_style in ("crlf", "mixed"):
        parts.append(outcome.newline_style)
    if outcome.encoding != "utf-8":
        parts.append(f"encoding {outcome.encoding}")
    if outcome.ends_with_newline is False and outcome.size_bytes and total != 0:
        parts.append(say("read.no_newline", lang))
    return " · ".join(parts)
