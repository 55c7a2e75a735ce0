"""How the outcomes of the desk become answers: the fields of each in order, and its one line.

What they tell of a kind of edit is one row of `_ROWS`; nothing else asks which kind a request is.
Last comes what is added to any answer: decisions, checks, losses, writes of other programs. The
field `mode` is the name of the tool, as clients have always had it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from copydesk import errors
from copydesk.desk.backends.api import REFUSING, Decision, Entry
from copydesk.desk.backends.snapshots import Run
from copydesk.desk.changes import FileChanges, UndoneChanges
from copydesk.desk.gates import Findings
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    PlanVerdict,
    Reading,
    Rejected,
    Saved,
    Transacted,
    Undone,
    Withheld,
)
from copydesk.desk.review import Shown
from copydesk.edit.draft import Draft, Plan, cut
from copydesk.edit.request import ReplaceText
from copydesk.errors import Refusal
from copydesk.text.diff import Region, diff_text, is_binary, regions, same_after
from copydesk.text.encoding import NO_ESCAPES, Encoding, Escapes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.tools.diff_model import View, shorten, view_of, views_of
from copydesk.tools.messages import has, say, say_reason
from copydesk.tools.refusals import (
    cause_words,
    check_row,
    check_words,
    facts_of,
    places_of,
    refusal_words,
)
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
    numbered,
    shown_diff,
)

if TYPE_CHECKING:
    from copydesk.edit.request import (
        Append,
        BlockReplace,
        DeleteFile,
        Insert,
        RangeEdit,
        RangeEdits,
        Request,
    )
    from copydesk.notes.plan import BlockDiff, BlockDraft, HunkMade


HEAD_TOKENS = 250  # tokens of the head of an answer and its next steps
LIST_HEAD_TOKENS = 500  # the same for a list, including notices
REPLACE_TEXT = ReplaceText.voices  # the wording of that tool's refusals
_CUT: Fields = {"diff_truncated": True}
_MOST_UNCOUNTED = 10  # a brief answer with more lines starts with their count


def _sized(
    whole: Answer, length: Length | None, line: str, said: Iterable[str], *, drifted: bool = False
) -> Answer:
    """The answer in the asked length: in full, or one line and remarks.

    Where the edit was written to another place than planned, the diff stands below the line.
    """
    if length == "full":
        return whole
    short = replace(whole, line=line, remarks=tuple(said))
    return replace(short, next_steps=()) if drifted else replace(short, brief=True, views=())


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


def _prefix(tool: str) -> str:
    """The prefix of the mirror toolset's tools, or empty."""
    return "team_mgmt_" if tool.startswith("team_mgmt_") else ""


def _callers(tool: str) -> tuple[str, ...]:
    """The voice of the mirror toolset, whose tools have other names."""
    return ("team_mgmt",) if _prefix(tool) else ()


def _rest(tool: str, shown: int | str, lang: Lang, key: str = "next.rest") -> str:
    """How to see the rest of a diff: of a plan (if `shown` is a text) or of an edit."""
    name, value = ("hunk_id", f'"{shown}"') if isinstance(shown, str) else ("edit_id", shown)
    return say(key, lang, {"tool": f"{_prefix(tool)}show_hunk", "name": name, "id": value})


def _done(word: str, what: str, edit_id: int, version: str) -> str:
    """The line about a write: what was written, its id if anything changed, and the version."""
    edit = f" · edit {edit_id}" if edit_id else ""
    return f"{word} {what}{edit}" + (f" · version {version}" if version else "")


# Plans.


def planned(tool: str, outcome: Planned, lang: Lang, length: Length | None = None) -> Answer:
    """The answer with a plan, in full unless `length` is brief.

    That of a corrected edit is always the same: its id, the cause, and the diff.
    """
    draft, plan, row = outcome.draft, outcome.plan, row_of(outcome.draft.request)
    path, base, refusal = plan.request.path, draft.base, outcome.refusal
    why = [
        *_not_at_once((outcome,), outcome.declined, lang),
        *([] if refusal is None else [refusal_words(refusal, lang, _callers(tool))]),
    ]
    summary = "plan.nothing" if draft.replaces_nothing else row.plan_words(draft)
    diff, was_cut, display = _diff(draft.diff, base.encoding, lang)
    is_full = outcome.fixed is None
    fields: Fields = {
        "status": "ok",
        "mode": tool,
        "path": str(path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": draft.action,
        **(row.planned(draft, draft.request, lang) if is_full else {}),
        "version": base.version,
        **warnings(draft, lang, outcome.signs),
        **_declined(outcome.declined),
        **({} if is_full and not draft.replaces_nothing else {"changed": False}),
        **({} if is_full else {"hunks": [_corrected_row(outcome)]}),
        **({"normalized": normalized(draft)} if row.of_text and is_full else {}),
        **(row.evidence(draft) if is_full else {}),
        **was_cut,
        "summary": " ".join((*why, say(summary, lang, row.numbers(draft)))),
    }
    steps = (
        say(
            "next.apply", lang, {"apply": f"{_prefix(tool)}apply_file_modification", "id": plan.id}
        ),
        *([say("next.replan", lang, {"tool": tool, "id": plan.id})] if is_full else []),
    )
    view = View(
        path, base.version, base.line_count, "old", 0, partial(row.shown, draft), outcome.real
    )
    whole = Answer(
        fields,
        diff,
        display=display,
        next_steps=steps,
        rest=_rest(tool, plan.id, lang),
        views=(view,),
    )
    if length != "brief" or not is_full:
        return whole
    line = f"planned {plan.id} · {row.where(draft, '')}"
    return _sized(whole, length, line, (*why, *remarks(draft, fields, lang)))


def _corrected_row(planned: Planned) -> Fields:
    """The plan of a corrected edit in short; `cause` is why its old text was not found."""
    return known(
        hunk_id=planned.plan.id,
        path=str(planned.plan.request.path),
        cause=None if planned.fixed is None else [*planned.fixed.causes],
    )


def _not_at_once(planned: Sequence[Planned], declined: str | None, lang: Lang) -> list[str]:
    """How plans were corrected, and why auto wrote none of them."""
    fixed = (outcome.fixed.causes for outcome in planned if outcome.fixed is not None)
    causes = dict.fromkeys(cause for causes in fixed for cause in causes)
    return [
        *([corrected_words([*causes], lang)] if causes else []),
        *(
            []
            if declined is None
            else [say("auto.declined", lang, {"why": say_reason(declined, lang)})]
        ),
    ]


def _declined(reason: str | None) -> Fields:
    return {} if reason is None else {"auto_apply": "declined", "auto_apply_reason": reason}


def planned_together(
    tool: str,
    planned: Sequence[Planned],
    lang: Lang,
    declined: str | None = None,
    saying: str = "transaction.planned",
) -> Answer:
    """The answer with the plans of one call; `declined`: why auto wrote none of them."""
    rows: list[Value] = [
        {
            **_corrected_row(outcome),
            "action": outcome.draft.action,
            "lines": {"old": outcome.draft.old_count, "new": outcome.draft.new_count},
            **warnings(outcome.draft, lang, outcome.signs),
        }
        for outcome in planned
    ]
    diff, was_cut = _diffs((outcome.draft.diff, outcome.draft.base.encoding) for outcome in planned)
    files = {"files": len({outcome.plan.request.path for outcome in planned})}
    fields: Fields = {
        "status": "ok",
        "mode": tool,
        "changed": False,
        "hunks": rows,
        **_declined(declined),
        **was_cut,
        "summary": " ".join((*_not_at_once(planned, declined, lang), say(saying, lang, files))),
    }
    ids = [outcome.plan.id for outcome in planned]
    return Answer(
        fields,
        diff,
        next_steps=(_together(tool, ids, lang),),
        rest=_rest(tool, ids[0], lang, "next.rest_each"),
    )


def _together(tool: str, hunk_ids: Sequence[str], lang: Lang) -> str:
    """The step that writes several plans."""
    ids = ", ".join(f'"{hunk_id}"' for hunk_id in hunk_ids)
    return say(
        "next.together", lang, {"tool": f"{_prefix(tool)}apply_file_modifications", "ids": ids}
    )


def already_there(tool: str, there: Sequence[errors.RejectedHunk], lang: Lang) -> Answer:
    """The answer to a patch whose new lines are all in the files already, each in one place."""
    summary = say("patch.there", lang, {"count": len(there)})
    head: Fields = {"status": "ok", "mode": tool, "changed": False}
    return Answer({**head, "already_there": there_rows(there), "summary": summary})


def there_rows(there: Sequence[errors.RejectedHunk]) -> list[Value]:
    """The hunks that are made already, each with its line if that is known."""
    lines = (None if hunk.lines is None else str(hunk.lines[0]) for hunk in there)
    return [
        known(path=hunk.path, hunk=hunk.hunk, lines=line)
        for hunk, line in zip(there, lines, strict=True)
    ]


# Writes.


def applied(tool: str, outcome: Applied, lang: Lang, length: Length | None = None) -> Answer:
    """The answer to an apply; one line if it was written exactly as planned, unless in full."""
    draft, request = outcome.draft, outcome.plan.request
    diff, was_cut, display = _diff(draft.diff, draft.base.encoding, lang)
    drifted, path = outcome.context == "fuzz", request.target or request.path
    view = View(path, draft.after.version, side="new")
    rest = _rest(tool, outcome.edit_id, lang) if drifted or length == "full" else ""
    # one line is enough for most callers, so that the fields are computed for programs alone
    make = partial(_applied_fields, tool, outcome, lang, was_cut)
    whole = Answer(make, diff, display=display, rest=rest, views=(view,))
    said = (
        *(() if outcome.edit_id else (_applied_summary(outcome, lang),)),
        *((corrected_words(outcome.causes, lang),) if outcome.causes else ()),
        *remarks(draft, warnings(draft, lang), lang),
    )
    return _sized(
        whole, length, _applied_line(outcome, _version_after(outcome)), said, drifted=drifted
    )


def _applied_fields(tool: str, outcome: Applied, lang: Lang, was_cut: Fields) -> Fields:
    """All fields of an apply; `was_cut` is among them if the diff is cut."""
    draft, plan, row = outcome.draft, outcome.plan, row_of(outcome.draft.request)
    current, version = None if draft.created else draft.base.digest, _version_after(outcome)
    return {
        "status": "ok",
        "mode": tool,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": draft.action,
        "context_match": outcome.context,
        **({"cause": [*outcome.causes]} if outcome.causes else {}),
        **row.applied(draft, draft.request, lang),
        **(_drift(plan.base_digest, current) if outcome.context == "fuzz" else {}),
        "changed": outcome.edit_id != 0,
        "edit_id": outcome.edit_id,
        **({"version": version} if version else {}),
        **warnings(draft, lang),
        **({"normalized": normalized(draft)} if row.of_text else {}),
        "apply_evidence": row.written(draft),
        **was_cut,
        "summary": _applied_summary(outcome, lang),
    }


def _applied_summary(outcome: Applied, lang: Lang) -> str:
    row = row_of(outcome.draft.request)
    return say(
        row.applied_words(outcome) if outcome.edit_id else "apply.nothing",
        lang,
        {"why": corrected_words(outcome.causes, lang), **row.numbers(outcome.draft)},
    )


def _how(outcome: Applied) -> str:
    """`corrected` if only its old text was, in an unchanged file; else as its context says."""
    is_on_base = outcome.plan.base_digest == outcome.draft.base.digest
    return "corrected" if outcome.causes and is_on_base else outcome.context


def _version_after(outcome: Applied) -> str:
    """The version of the file that was written; empty if it was deleted."""
    return "" if outcome.plan.request.deletes else outcome.draft.after.version


def _applied_line(outcome: Applied, version: str) -> str:
    draft, planned_at = outcome.draft, outcome.plan.place.start + 1
    drifted = _how(outcome) == "fuzz" and planned_at != first_line(draft)
    where = row_of(draft.request).where(draft, f" (planned {planned_at})" * drifted)
    return _done("fuzz" if outcome.context == "fuzz" else "ok", where, outcome.edit_id, version)


def _drift(planned_on: str | None, current: str | None) -> Fields:
    return {
        "file_changed_since_preview": planned_on != current,
        "planned_file_digest_sha256": planned_on or "",
        "current_file_digest_sha256": current or "",
    }


def transacted(tool: str, outcome: Transacted, lang: Lang, length: Length | None = None) -> Answer:
    """The answer about plans written together, or without anything to write."""
    versions = outcome.versions
    rows = [_transacted_row(edit, versions[edit.plan.id], lang) for edit in outcome.applied]
    drifted = any(edit.context == "fuzz" for edit in outcome.applied)
    how = (
        max(map(_how, outcome.applied), key=("exact", "corrected", "fuzz").index)
        if outcome.group
        else "nothing"
    )
    facts = {"hunks": len(rows), "files": len(outcome.diffs)}
    summary = say(f"transaction.{how}", lang, facts)
    diff, was_cut = _diffs(outcome.diffs)
    fields: Fields = {
        "status": "ok",
        "mode": tool,
        "transaction_id": outcome.group,
        "changed": bool(outcome.group),
        "hunks": [*rows],
        **was_cut,
        "summary": summary,
    }
    texts = {
        edit.plan.request.path: versions[edit.plan.id]
        for edit in outcome.applied
        if row_of(edit.plan.request).of_text
    }
    first = next((edit.edit_id for edit in outcome.applied if edit.edit_id), 0)
    whole = Answer(
        fields,
        diff,
        views=views_of(texts, outcome.diffs),
        rest=_rest(tool, first, lang, "next.rest_each"),
    )
    is_told = len(rows) > _MOST_UNCOUNTED or not rows
    lines = [f"{summary} ({outcome.group})" if outcome.group else summary] if is_told else []
    for edit, row in zip(outcome.applied, rows, strict=True):
        why = (corrected_words(edit.causes, lang),) if edit.causes else ()
        lines += _applied_line(edit, versions[edit.plan.id]), *why, *remarks(edit.draft, row, lang)
    return _sized(whole, length, lines[0], lines[1:], drifted=drifted)


def _transacted_row(edit: Applied, version: str, lang: Lang) -> Fields:
    """The row of one written plan; `version` is that of its file after all plans."""
    draft, target, done = edit.draft, edit.plan.request.target, edit.draft.normalized
    is_normalized = done.file_eof_newline_added or done.content_eof_newline_added
    return {
        "hunk_id": edit.plan.id,
        "path": str(edit.plan.request.path),
        "action": draft.action,
        "context_match": edit.context,
        **({"cause": [*edit.causes]} if edit.causes else {}),
        "edit_id": edit.edit_id,
        "lines": line_counts(draft),
        **({"version": version} if version else {}),
        **warnings(draft, lang),
        **({} if target is None else {"to": str(target)}),
        **({"normalized": normalized(draft)} if is_normalized else {}),
    }


def rewritten(
    tool: str, outcome: Created | Overwritten, lang: Lang, length: Length | None = None
) -> Answer:
    """The answer about a file that is new, or was replaced as a whole."""
    path, after, edit_id = outcome.path, outcome.after, outcome.edit_id
    before = outcome.before if isinstance(outcome, Overwritten) else None
    old_lines = 0 if before is None else before.line_count
    saying = "create" if before is None else "overwrite" if edit_id else "overwrite.nothing"
    summary = say(saying, lang, {"path": path, "lines": after.line_count, "old": old_lines})
    warnings = warned(lost(after, before), NO_ESCAPES, lang)
    fields: Fields = {
        "status": "ok",
        "mode": tool,
        "path": str(path),
        **known(
            old_total_lines=None if before is None else before.line_count,
            old_total_bytes=None if before is None else before.size,
        ),
        "total_lines": after.line_count,
        "size_bytes": after.size,
        **known(newline_style=None if before is None else after.newline_style),
        "normalized_trailing_newline_added": outcome.newline_added,
        **known(changed=None if before is None else edit_id != 0),
        "edit_id": edit_id,
        "version": after.version,
        **listed(warnings),
        "summary": summary,
    }
    counts = f"+{after.line_count} -{old_lines}" if edit_id else "+0 -0"
    what = f"{path}{' (new)' * (before is None)} {counts}"
    said = warnings if edit_id else [summary, *warnings]
    return _sized(Answer(fields), length, _done("ok", what, edit_id, after.version), said)


# Undo.


_UNDOING = {"move": "file_move", "mode": "file_mode", "create": "remove", "remove": "create"}
"""The action of an undo by the kind of the edit; for other kinds it depends on the lines."""

_UNDONE_ROW = ("path", "to", "edit_id", "undone_edit_id", "action", "context_match", "lines")


def undone(
    tool: str, outcome: Undone, lang: Lang, length: Length | None = None, *, again: int = 0
) -> Answer:
    """The answer to an undo, even if nothing was left to undo; `again` is the edit it redid."""
    entry, after, edit_id, path = outcome.entry, outcome.after, outcome.edit_id, outcome.path
    drifted, is_text = outcome.context == "fuzz", entry.kind != "create"
    changed = regions(outcome.base, outcome.change)
    old = sum(region.stop - region.start for region in changed)
    new = sum(len(region.new) for region in changed)
    kind = "move" if entry.moved else "mode" if entry.mode_changed else entry.kind
    to: Fields = {"to": str(entry.moved.other)} if entry.moved else {}
    saying = kind if kind in _UNDOING else outcome.context
    facts = {"undone": entry.edit_id, "again": again, "path": path, "old": old, "new": new, **to}
    summary = say(f"undo.{saying if edit_id else 'nothing'}", lang, facts)
    if again := again * bool(edit_id):
        summary = say("undo.again" if kind in _UNDOING else f"undo.again.{saying}", lang, facts)
    version = after.version if is_text or entry.moved else ""
    diff, was_cut, display = _diff(outcome.diff, outcome.base.encoding, lang)
    replaces = "replace" if old and new else "insert" if new else "delete"
    fields: Fields = {
        "status": "ok",
        "mode": tool,
        "path": str(path),
        **to,
        "edit_id": edit_id,
        "undone_edit_id": entry.edit_id,
        "action": _UNDOING.get(kind, replaces),
        "context_match": outcome.context,
        "regions": [
            {"start_line": start + 1, "end_line": start + len(region.new)}
            for region, start in shifted(changed[:MOST_REGIONS])
        ],
        "lines": {"old": old, "new": new, "delta": new - old},
        **(_drift(entry.after, outcome.base.digest) if drifted else {}),
        "changed": edit_id != 0,
        **({"version": version} if version else {}),
        "apply_evidence": (
            _written(after, changed[0].start, len(changed[0].new)) if changed and version else {}
        ),
        **was_cut,
        "summary": summary,
    }
    redo = say("next.redo", lang, {"tool": tool, "id": edit_id})
    whole = Answer(
        fields,
        diff,
        display=display,
        next_steps=(redo,) if edit_id and not again else (),
        rest=_rest(tool, edit_id, lang),
        views=(View(path, after.version, side="new"),) if is_text else (),
    )
    at = f":{changed[0].start + 1}" if changed else ""
    what = f" => {entry.moved.other}" if entry.moved else f"{at} +{new} -{old}"
    did = f"made edit {again} again" if again else f"undid edit {entry.edit_id}"
    line = _done("fuzz" if drifted else "ok", f"{path}{what} · {did}", edit_id, version)
    return _sized(whole, length, line, () if edit_id else (summary,), drifted=drifted)


def undone_together(
    tool: str,
    outcomes: Sequence[Undone],
    lang: Lang,
    length: Length | None = None,
    *,
    redone: Callable[[Entry], int] | None,
) -> Answer:
    """The answer to the undo of a transaction, its newest edit first.

    If it made one again, `redone` tells which edit each undo that it took back had undone.
    """
    answers = [
        undone(
            tool,
            outcome,
            lang,
            length,
            again=(redone(outcome.entry) or outcome.entry.undoes) if redone else 0,
        )
        for outcome in outcomes
    ]
    rows: list[Value] = [
        {key: answer.facts[key] for key in _UNDONE_ROW if key in answer.facts} for answer in answers
    ]
    summary = say(f"undo.together{'.again' if redone else ''}", lang, {"edits": len(rows)})
    head: Fields = {"status": "ok", "mode": tool, "changed": bool(rows)}
    whole = Answer(
        {**head, "edits": rows, "summary": summary}, "".join(answer.diff for answer in answers)
    )
    lines = [answer.line for answer in answers] or [summary]
    return _sized(
        whole,
        length,
        lines[0],
        lines[1:],
        drifted=any(outcome.context == "fuzz" for outcome in outcomes),
    )


# Refusals.


def refused(
    tool: str, path: str | None, refusal: Refusal, lang: Lang, voices: Sequence[str] = ()
) -> Answer:
    """The answer of a refusal, in the wording of `voices`."""
    head = {**known(path=path and cut(path, LONGEST)), **places_of(refusal, path)}
    return _refused(tool, refusal, head, refusal_words(refusal, lang, (*_callers(tool), *voices)))


def _refused(
    tool: str,
    refusal: Refusal,
    head: Fields,
    summary: str,
    status: str = "error",
    facts: Fields | None = None,
    views: tuple[View, ...] = (),
) -> Answer:
    """The answer of a refusal; `head` are the fields before its code, `facts` those after it."""
    return Answer(
        {
            "status": status,
            "mode": tool,
            **head,
            "error": refusal.code,
            **(facts_of(refusal) if facts is None else facts),
            "summary": summary,
        },
        views=views,
    )


def rejected(tool: str, outcome: Rejected, lang: Lang) -> Answer:
    """The answer to an apply that was refused because of the file."""
    plan, refusal, now = outcome.plan, outcome.refusal, outcome.current
    head: Fields = {
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": plan.action,
        "context_match": "rejected",
    }
    facts, views = _at_place(
        refusal,
        plan.request.path,
        plan.base_digest,
        now,
        (plan.place.start, plan.place.stop),
    )
    if now is None:
        current = facts.pop("current", None)
        # Of a file that nobody has looked at nothing is said.
        facts |= _drift(plan.base_digest, None) if isinstance(refusal, errors.FileNotFound) else {}
        facts["apply_evidence"] = known(current=current)
    why = refusal_words(refusal, lang, (*_callers(tool), *plan.request.voices))
    if not isinstance(refusal, errors.HunkRejected):  # which says itself that nothing was written
        why = say("rejected", lang, {"why": why})
    return _refused(tool, refusal, head, why, "error", facts, views)


def stands(tool: str, edit_id: int, lang: Lang) -> Answer:
    """The answer for an edit that is to be made again, and is still in the file."""
    summary = say("undo.stands", lang, {"id": edit_id})
    head: Fields = {"status": "ok", "mode": tool, "edit_id": edit_id}
    return Answer({**head, "changed": False, "summary": summary})


def not_undone(tool: str, outcome: NotUndone, lang: Lang) -> Answer:
    """The answer to an undo that was refused."""
    entry, refusal = outcome.entry, outcome.refusal
    head: Fields = {"path": str(entry.path), "edit_id": entry.edit_id, "context_match": "rejected"}
    facts, views = _at_place(refusal, entry.path, entry.after, outcome.current, outcome.lines)
    facts.pop("current", None)
    return _refused(
        tool, refusal, head, _why_not_undone(outcome, tool, lang), "error", facts, views
    )


def file_changes(file: FileChanges) -> dict[str, Value]:
    """The open changes of a file as data."""
    added, removed = file.lines
    hunks: list[Value] = [
        {
            "id": hunk.id,
            "line": hunk.new_line + 1,
            "added": len(hunk.new),
            "removed": len(hunk.old),
            "edit_ids": [edit.edit_id for edit in hunk.edits],
            **({"touched_by": [*hunk.touched_by]} if hunk.touched_by else {}),
            **({"checks": [check_row(each, "en") for each in hunk.checks]} if hunk.checks else {}),
        }
        for hunk in file.hunks
    ]
    return {
        "path": str(file.path),
        "action": file.kind,
        "added": added,
        "removed": removed,
        **known(moved_from=str(file.was) if file.was else None),
        "hunks": hunks,
    }


def changes_undone(tool: str, undone: UndoneChanges, lang: Lang) -> Answer:
    """The answer to an undo of a task; nothing was written where something is refused."""
    lost: list[Value] = [
        {
            "path": str(hunk.path),
            "line": hunk.new_line + 1,
            "reason": refusal_words(why, lang),
            "touched_by": [*hunk.touched_by],
            "old": b"".join(hunk.old).decode("utf-8", "replace"),
            "new": b"".join(hunk.new).decode("utf-8", "replace"),
        }
        for hunk, why in undone.refused
    ]
    paths = list(dict.fromkeys(str(edit.path) for edit in undone.written))
    facts: Fields = {"edit_ids": [edit.edit_id for edit in undone.written], "paths": paths}
    key, said = "changes.undone", dict[str, object](count=len(paths))
    if undone.waiting:
        facts = {"error": errors.ApprovalRequired.code, "hunk_ids": [*undone.waiting]}
        key, said = "changes.waiting", {"ids": undone.waiting}
    elif undone.refused:
        first, why = undone.refused[0]
        facts = {"error": why.code, "refused": lost}
        key, said = "changes.refused", {"place": f"{first.path}:{first.new_line + 1}"}
    head: Fields = {"status": "ok" if undone.written else "error", "mode": tool}
    return Answer({**head, **facts, "summary": say(key, lang, said)})


def _at_place(
    refusal: Refusal, path: RelPath, digest: str | None, now: Text | None, lines: tuple[int, int]
) -> tuple[Fields, tuple[View, ...]]:
    """The facts of a refusal, with what is at the lines now if the file was read; and the views."""
    facts = facts_of(refusal)
    start = min(lines[0], now.line_count) if now is not None else 0
    stop = max(lines[1], start)
    if now is not None:
        around = start - _AROUND, stop + _AROUND
        facts |= {**_drift(digest, now.digest), "version": now.version}
        own = None if "current" in facts else lines_of(now, *around, numbers=True)
        facts["apply_evidence"] = {"current": facts.pop("current", own)}
    return facts, views(refusal, path, now, (start, stop))


def _why_not_undone(outcome: NotUndone, tool: str, lang: Lang) -> str:
    edit_id, refusal = outcome.entry.edit_id, outcome.refusal
    changed = refusal if isinstance(refusal, errors.ContentChanged) else None
    if changed and changed.undone_by:
        return say("undo.already", lang, {"id": edit_id, "by": changed.undone_by, "tool": tool})
    why = refusal_words(refusal, lang, (*_callers(tool), "undo"), {"edit_id": edit_id})
    words = say("undo.refused", lang, {"id": edit_id, "why": why})
    if changed and changed.later_edit_ids:
        words += " " + say("undo.later", lang, {"ids": changed.later_edit_ids, "tool": tool})
    return words


def withheld(tool: str, outcome: Withheld, lang: Lang) -> Answer:
    """The answer of a refused transaction: nothing was written."""
    plan, refusal, verdicts = outcome.plan, outcome.refusal, outcome.verdicts
    of_plan: Fields = {} if plan is None else {"path": str(plan.request.path), "hunk_id": plan.id}
    refusals = [verdict.refusal for verdict in verdicts if verdict.refusal is not None]
    waits = refusals and all(isinstance(each, errors.ApprovalRequired) for each in refusals)
    rows: list[Value] = [_judged(verdict, told=verdict.plan is plan) for verdict in verdicts]
    # a person decides on the plan, so what is said is not about the call
    voices = _callers(tool) + (() if plan is None or waits else plan.request.voices)
    facts = {
        "count": len(verdicts),
        "failed": len(refusals),
        "id": plan.id if plan else None,
        "path": plan.request.path if plan else None,
        "why": refusal_words(refusal, lang, voices),
    }
    summary, status = say("transaction.withheld", lang, facts), "pending" if waits else "error"
    facts_and_rows: Fields = {**facts_of(refusal), "hunks": rows}
    answer = _refused(tool, refusal, of_plan, summary, status, facts_and_rows)
    if waits and len(refusals) == len(verdicts) > 1:
        return replace(
            answer, next_steps=(_together(tool, [verdict.plan.id for verdict in verdicts], lang),)
        )
    sound = [f'"{verdict.plan.id}"' for verdict in verdicts if verdict.refusal is None]
    if plan is None or not sound or refusal.code == "FAILED":
        return answer
    step = say("next.without", lang, {"tool": tool, "ids": ", ".join(sound)})
    return replace(answer, next_steps=(step,))


def _judged(verdict: PlanVerdict, *, told: bool) -> Fields:
    """The row of one plan of a refused transaction; without facts if they are `told` above."""
    refusal = verdict.refusal
    return {
        "hunk_id": verdict.plan.id,
        "path": str(verdict.plan.request.path),
        "action": verdict.plan.action,
        "status": "ok" if refusal is None else "error",
        "context_match": verdict.context,
        **known(error=None if refusal is None else refusal.code),
        **({} if told or refusal is None else facts_of(refusal)),
    }


def pending(tool: str, plan: Plan, refusal: errors.ApprovalRequired, lang: Lang) -> Answer:
    """The answer to an apply that waits for approval; the plan stays pending."""
    head: Fields = {
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": plan.action,
    }
    return _refused(tool, refusal, head, refusal_words(refusal, lang), "pending")


# Readings.


def reading(tool: str, outcome: Reading, lang: Lang, *, numbers: bool) -> Answer:
    """The answer with lines of a file."""
    first, count, path = outcome.first_line, len(outcome.lines), str(outcome.path)
    last = None if first is None else first + count - 1
    shown = known(start=first, end=last) if count else {}
    summary = say("read.empty", lang)
    if count:
        where = f"{first}" if first == last else f"{first}~{last}"
        summary = say(
            "read" if first else "read.last", lang, {"where": where, "count": count, "path": path}
        )
    fields: Fields = {
        "status": "ok",
        "mode": tool,
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
        call = json.dumps({"path": path, "range": left_out}, ensure_ascii=False)
        steps.append(say("next.read_on", lang, {"tool": tool, "call": call}))
    if outcome.cut_in_line:
        steps.append(
            say("next.long_line", lang, {"tool": tool.replace("read_file", "ripgrep_snippets")})
        )
    texts = numbered(first, outcome.lines) if numbers and first else outcome.lines
    body = "".join(f"{text}\n" for text in texts)
    return Answer(
        fields,
        body=body,
        next_steps=tuple(steps),
        content={"content": body},
        line=_read_line(outcome, lang),
        budget=0,  # it is cut already
    )


def _read_line(outcome: Reading, lang: Lang) -> str:
    """The path and the lines read, and anything unusual about the file."""
    first, count, total = outcome.first_line, len(outcome.lines), outcome.total_lines
    saying, where = "read.line" if count else "read.line.none", str(first)
    if first is None or total is None:
        saying = "read.line.last"
    elif count > 1:
        where = f"{first}-{first + count - 1}"
    facts = {
        "path": named(str(outcome.path)),
        "bytes": outcome.size_bytes,
        "total": total,
        "count": count,
        "where": where,
    }
    style = outcome.newline_style
    is_cut = first is None and outcome.cut_by_characters and not outcome.cut_in_line
    lacks_newline = outcome.ends_with_newline is False and outcome.size_bytes and total != 0
    parts = {
        say(saying, lang, facts): True,
        say("read.clipped", lang): outcome.clipped,
        say("read.cut_at_start", lang): is_cut,
        f"version {outcome.version}": outcome.version is not None,
        f"{style}": style in ("crlf", "mixed"),
        f"encoding {outcome.encoding}": outcome.encoding != "utf-8",
        say("read.no_newline", lang): lacks_newline,
    }
    return " · ".join(part for part, is_told in parts.items() if is_told)


# What is added to any answer.


FOREIGN_WRITE = "FOREIGN_WRITE_SAVED"
"""The code for a write of another program that was saved as an edit."""

_LONGEST_REASON = 300  # characters of a reason in words; the data has more
_FILES_APART = 2  # of so many files at most, overwritten edits are told in a line each
_MOST_LOST = 10  # ids of overwritten edits in a line
MOST_NEWS = 5  # decisions reported with one answer; the others with the next ones


def with_notices(answer: Answer, name: str, value: Value, words: Sequence[str]) -> Answer:
    """The answer with one more fact, its last, and the words for it."""
    return replace(answer, source={**answer.facts, name: value}, notices=(*answer.notices, *words))


def with_news(
    answer: Answer,
    news: Sequence[tuple[Decision, bool]],
    lang: Lang,
    apply: Callable[[str], str],
) -> Answer:
    """The answer with new `decisions`; True: the plan has been written already.

    `apply` returns the words for how to write a plan.
    """
    unsaid = [
        (decision, written)
        for decision, written in news
        if decision.verdict != "overwritten" and not _says(answer.fields, decision)
    ]
    rows: list[Value] = [_row(*each) for each in unsaid]
    words = [_words(*each, lang, apply) for each in unsaid]
    return with_notices(answer, "decisions", rows, words) if unsaid else answer


def with_overwritten(
    answer: Answer,
    news: Sequence[tuple[Decision, bool]],
    lang: Lang,
    reapply: Callable[[int], str],
) -> Answer:
    """The answer with those edits of the news that other programs have `overwritten`.

    One line tells those of a file, or of all files if there are many. `reapply` returns the words
    for how to make an edit again.
    """
    lost = sorted(
        (decision for decision, _ in news if decision.verdict == "overwritten"), key=_edit_id
    )
    if not lost:
        return answer
    rows: list[Value] = [
        {
            "edit_id": _edit_id(decision),
            "path": decision.path,
            "line": int(decision.after),
            "time_ms": decision.time_ms,
            **({} if decision.before else {"removed": True}),
        }
        for decision in lost
    ]
    by_path = {
        decision.path: [other for other in lost if other.path == decision.path] for decision in lost
    }
    groups = [lost] if len(by_path) > _FILES_APART else by_path.values()
    words = [overwritten_words(some, lang, reapply) for some in groups]
    return with_notices(answer, "overwritten", rows, words)


def overwritten_words(lost: Sequence[Decision], lang: Lang, reapply: Callable[[int], str]) -> str:
    """Some edits that were overwritten, in one line; the first of them is named in full."""
    first, files = lost[0], len({decision.path for decision in lost})
    ids = ", ".join(str(_edit_id(decision)) for decision in lost[:_MOST_LOST])
    facts = {
        "id": _edit_id(first),
        "ids": ids + ", ..." * (len(lost) > _MOST_LOST),
        "path": first.path,
        "line": first.after,
        "count": len(lost),
        "files": files,
        "time": datetime.fromtimestamp(first.time_ms / 1000, UTC).astimezone().strftime("%H:%M"),
        "reapply": reapply(_edit_id(first)),
    }
    key = "many" if files > 1 else "one" if len(lost) == 1 else "several"
    if files == 1 and not first.before:
        key = "removed"
    return say(f"overwritten.{key}", lang, facts)


def _edit_id(overwritten: Decision) -> int:
    return -overwritten.plan[1]


def with_saved(
    answer: Answer, saved: Sequence[Saved], lang: Lang, undo: Callable[[int], str]
) -> Answer:
    """The answer with writes of other programs that were saved in the journal.

    They are its `foreign_writes`; `open_elsewhere` are the paths of files that another program
    holds open, and `in_doubt` the edits of a process that died. `undo` returns the words for how
    to undo an edit.
    """
    for name, writes in (
        ("open_elsewhere", [write for write in saved if not write.edit_id]),
        ("foreign_writes", [write for write in saved if write.edit_id and not write.state]),
        ("in_doubt", [write for write in saved if write.state]),
    ):
        if writes:
            rows = [saved_data(write) if write.edit_id else str(write.path) for write in writes]
            words = [saved_words(write, undo(write.edit_id), lang) for write in writes]
            answer = with_notices(answer, name, rows, words)
    return answer


def with_checks(answer: Answer, checked: Mapping[RelPath, Findings], lang: Lang) -> Answer:
    """Add new findings of checks to the answer; without any, a success gets an empty list."""
    if not checked or "checks" in answer.facts:
        return answer
    findings = [finding for of_file in checked.values() for finding in of_file]
    if not findings and (answer.is_error or not answer.is_report):
        return answer
    rows: list[Value] = [check_row(finding, lang) for finding in findings]
    unshown = [] if answer.is_report and not answer.line else findings  # the text has the fields
    return with_notices(answer, "checks", rows, [check_words(each, lang) for each in unshown])


def saved_data(saved: Saved) -> Fields:
    """A saved write of another program, or the end of an edit, as data."""
    kind: Fields = {"state": saved.state} if saved.state else {"code": FOREIGN_WRITE}
    return {**kind, "path": str(saved.path), "edit_id": saved.edit_id}


def saved_words(saved: Saved, undo: str, lang: Lang) -> str:
    """The same in words; `undo` says how to undo the edit.

    Without an edit: that the program holds the file open.
    """
    key = f"in_doubt.{saved.state}" if saved.state else FOREIGN_WRITE
    facts = {"path": saved.path, "edit_id": saved.edit_id, "undo": undo}
    return say(key if saved.edit_id else "open_elsewhere", lang, facts)


def with_decision(answer: Answer, decision: Decision | None) -> Answer:
    """The answer with a plan, and the decision on it as its last field."""
    row = None if decision is None else _row(decision, written=False)
    return with_notices(answer, "decision", row, ()) if row else answer


def _says(fields: Fields, decision: Decision) -> bool:
    refused = decision.verdict in REFUSING and fields.get("error") == "HUNK_REJECTED"
    applied = decision.verdict == "approved" and fields.get("status") == "ok"
    return fields.get("hunk_id") == decision.plan[0] and (refused or applied)


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
    said: str = "written" if written and decision.verdict == "approved" else decision.verdict
    if said == "commented":
        said = f"commented.{'line' if decision.after else 'plan'}"
    elif said == "undone" and decision.reason:
        said = "undone.why"
    return say(f"decision.{said}", lang, facts)


# Kinds of edits.


_AROUND = 3
_MOST_LINES = 8  # of evidence; of more lines the first _HEAD are shown, and the last
_HEAD = 5
_WIDTH = 200  # characters shown of a line
_REPLACED = 60  # characters of a line that an edit by numbers replaced
MOST_REGIONS = 50  # places of an edit that are named
_SHOWN_REGIONS = 5  # places of which lines are shown
_SHOWN_ESCAPES = 8
_OLD_SHOWN, _NEW_SHOWN = 30, 50  # characters of blocks in the line of a hunk


@dataclass(frozen=True, slots=True)
class Row:
    """How answers tell of one kind of edit; every function gets a draft of that kind.

    `planned` and `applied` are the fields of a plan and of an apply that only this kind has;
    `evidence` and `written` are the lines that each of them shows, and `shown` those of the base
    that `evidence` shows whole. `plan_words` and `applied_words` are the keys of their summaries,
    `numbers` the facts in these. `where` is the file and place in one line, with a remark on the
    line. `notices` are warnings of this kind. `of_text`: line ends are normalized. Where a function
    takes `Any`, that is the draft, and then the request, of this kind.
    """

    planned: Callable[[Any, Any, Lang], Fields]
    applied: Callable[[Any, Any, Lang], Fields]
    numbers: Callable[[Any], dict[str, object]]
    where: Callable[[Draft, str], str]
    plan_words: Callable[[Draft], str]
    applied_words: Callable[[Applied], str]
    evidence: Callable[[Draft], Fields] = lambda draft: {}
    written: Callable[[Draft], Fields] = lambda draft: {}
    shown: Callable[[Draft], Sequence[Run]] = lambda draft: ()
    notices: Callable[[Any, Lang], Sequence[str]] = lambda draft, lang: ()
    of_text: bool = True


def row_of(request: Request) -> Row:
    """The row of the request's kind."""
    return _ROWS[type(request).__name__]


def line_counts(draft: Draft) -> Fields:
    """The numbers of lines that a draft replaces and writes, and the difference."""
    old, new = draft.old_count, draft.new_count
    return {"old": old, "new": new, "delta": new - old}


def normalized(draft: Draft) -> Fields:
    """The line ends that were added or converted."""
    done = draft.normalized
    return {
        "file_eof_has_newline": done.file_eof_has_newline,
        "content_eof_has_newline": done.content_eof_has_newline,
        "normalized_file_eof_newline_added": done.file_eof_newline_added,
        "normalized_content_eof_newline_added": done.content_eof_newline_added,
        "newline_style": done.newline_style,
        "content_newlines_converted": done.content_newlines_converted,
    }


def first_line(draft: Draft) -> int:
    """The first line (1-based) that changes."""
    changed = draft.regions if draft.place.parts else ()
    return (changed[0].start if changed else draft.place.start) + 1


# Edits at one place: by range, at the end, at an anchor, between two anchors.


def _resolved(draft: Draft) -> Fields:
    return {"start": draft.place.start + 1, "end": draft.place.stop}


def _range_applied(draft: Draft, request: RangeEdit | Append, lang: Lang) -> Fields:
    start = draft.place.start
    if draft.place.foot is not None:
        return {"applied_range": _resolved(draft), "lines": line_counts(draft)}
    return {
        "append_range": {"start": start + 1, "end": start + len(draft.new_lines)},
        **_append_tails(draft),
    }


def _append_planned(draft: Draft, request: Append, lang: Lang) -> Fields:
    before, leading, _, _ = _blank_lines(draft)
    return {
        "create": request.create,
        "file_line_count_before": draft.base.line_count,
        "file_line_count_after": draft.after.line_count,
        "appended_line_count": len(draft.new_lines),
        "blankline_style": {
            "file_trailing_blank_line_count": before,
            "content_leading_blank_line_count": leading,
        },
        "style_warning": say("style.double_blank", lang) if before and leading else "",
    }


def _append_tails(draft: Draft) -> Fields:
    """The lines around the end, and the appended ones; each is shown once."""
    last, now = draft.base.line_count, draft.after.line_count
    shown_to_end = now - last <= _MOST_LINES
    return {
        "evidence_preview": {
            "before_tail": lines_before(draft.base, last),
            "append_preview": lines_of(draft.after, last, now if shown_to_end else last + _HEAD),
            "after_tail": "" if shown_to_end else lines_before(draft.after, now),
        }
    }


def _insert_planned(draft: Draft, request: Insert, lang: Lang) -> Fields:
    before, leading, trailing, after = _blank_lines(draft)
    meets = (before and leading) or (after and trailing)
    return {
        "position": request.position,
        "anchor": request.anchor.text,
        "match": request.anchor.match,
        "candidates_count": draft.place.candidates,
        "occurrence_resolved": draft.place.occurrence,
        "inserted_at_line": draft.place.start + 1,
        "inserted_line_count": len(draft.new_lines),
        "lines": line_counts(draft),
        "blankline_style": {
            "blank_line_count_before": before,
            "content_leading_blank_line_count": leading,
            "content_trailing_blank_line_count": trailing,
            "blank_line_count_after": after,
        },
        "style_warning": say("style.double_blank", lang) if meets else "",
    }


def _insert_applied(draft: Draft, request: Insert, lang: Lang) -> Fields:
    return {
        "position": request.position,
        "anchor": request.anchor.text,
        "inserted_at_line": draft.place.start + 1,
        "inserted_line_count": len(draft.new_lines),
    }


def _blank_lines(draft: Draft) -> tuple[int, int, int, int]:
    """How many blank lines are above the place, first and last in the new text, and below."""
    base, place = draft.base, draft.place
    blank = [not line.strip() for line in draft.new_lines]
    above = range(place.start - 1, base.reach(place.start)[0] - 1, -1)
    below = range(place.stop, base.reach(place.stop)[1])
    around = ((not base.text(line).strip() for line in lines) for lines in (above, below))
    before, after, leading, trailing = (
        sum(1 for _ in takewhile(bool, flags)) for flags in (*around, blank, reversed(blank))
    )
    return before, leading, trailing, after


def _block_planned(draft: Draft, request: BlockReplace, lang: Lang) -> Fields:
    return {
        "start_anchor": request.start_anchor.text,
        "end_anchor": request.end_anchor.text,
        "match": request.start_anchor.match,
        "include_anchors": request.include_anchors,
        "require_unique": request.require_unique,
        "strict": request.strict,
        "candidates_count": draft.place.candidates,
        "occurrence_resolved": draft.place.occurrence,
        "first_candidate_taken": draft.place.first_taken,
        **_block_applied(draft, request, lang),
    }


def _block_applied(draft: Draft, request: BlockReplace, lang: Lang) -> Fields:
    start, stop = draft.place.foot or (draft.place.start, draft.place.stop)
    return {
        "block_range": {"start_line": start + 1, "end_line": stop},
        "replace_slice": {"start_line": draft.place.start + 1, "delete_count": draft.old_count},
        "lines": line_counts(draft),
    }


def _evidence(field: str, names: Sequence[str], draft: Draft) -> Fields:
    """The lines before the place, its old ones, its new ones and those after it, by these names.

    Those without a name are not shown.
    """
    place = draft.place
    before, old, after = in_place(draft.base, place.start, place.stop, draft.after)
    new = _place_written(draft)["written"] if names[2] else ""
    texts = zip(names, (before, old, new, after), strict=True)
    return {field: {name: text for name, text in texts if name}}


def _written(after: Text, start: int, count: int, before: Text | None = None) -> Fields:
    """The new lines of an edit in the text `after` it, with a few lines around them."""
    shown = in_place(after, start, start + count, before)
    return Fields(zip(("before", "written", "after"), shown, strict=True))


def _place_written(draft: Draft) -> Fields:
    return _written(draft.after, draft.place.start, len(draft.new_lines), draft.base)


def _place_shown(draft: Draft) -> list[Run]:
    base, start, stop = draft.base, draft.place.start, draft.place.stop
    if stop - start <= _MOST_LINES:  # no line is left out
        return _whole(base, max(start - _AROUND, 0), min(stop + _AROUND, base.line_count))
    return [
        each
        for run in ((start - _AROUND, start), (start, stop), (stop, stop + _AROUND))
        for each in lines_whole(base, *run)
    ]


def _place_numbers(draft: Draft) -> dict[str, object]:
    place, new = draft.place, draft.new_count
    start, stop = place.foot or (place.start, place.stop)
    return {
        "path": draft.request.path,
        "start": place.start + 1,
        "end": place.stop,
        "block": f"{start + 1}~{stop}",
        "where": f"{place.start + 1}~{max(place.start + new, place.start + 1)}",
        **line_counts(draft),
    }


def _place_where(draft: Draft, at: str) -> str:
    return f"{draft.request.path}:{first_line(draft)}{at} +{draft.new_count} -{draft.old_count}"


# Several edits at once: by ranges, by texts, by the hunks of a patch.


def _ranges_applied(draft: Draft, request: RangeEdits, lang: Lang) -> Fields:
    return {
        "regions": [
            {**part, "input": edit.range}
            for part, edit in zip(_parts(draft), request.edits, strict=False)
        ],
        "lines": line_counts(draft),
    }


def replaced_ends(draft: Draft) -> list[Fields]:
    """The first and the last line that an edit by numbers replaced in each of its first places."""
    return [
        {
            "lines": f"{start + 1}~{stop}",
            "first": cut(draft.base.text(start).strip(), _REPLACED),
            "last": cut(draft.base.text(stop - 1).strip(), _REPLACED) if start + 1 < stop else None,
        }
        for (start, stop), _ in draft.request.by_number(draft.place)[:MOST_REGIONS]
        if start < stop
    ]


def _parts(draft: Draft) -> list[Fields]:
    """The lines of each of several edits, MOST_REGIONS at most."""
    return [
        {"index": index, "start_line": start + 1, "end_line": stop}
        for index, (start, stop) in enumerate(draft.place.parts[:MOST_REGIONS])
    ]


def _several_evidence(draft: Draft) -> Fields:
    """The old lines that several edits will change, in the first few regions."""
    return {
        "evidence": {
            "regions": [
                {
                    "start_line": region.start + 1,
                    "end_line": region.stop,
                    "old": lines_of(
                        draft.base, region.start, region.stop, other=(draft.after, start)
                    ),
                }
                for region, start in shifted(draft.regions[:_SHOWN_REGIONS])
            ],
            **_more_regions(draft),
        }
    }


def _several_written(draft: Draft) -> Fields:
    """The lines that several edits wrote and those next to them, in the first few regions.

    A deleted region ends one line before it starts.
    """
    return {
        "regions": [
            {
                "start_line": start + 1,
                "end_line": stop,
                "before": lines_of(draft.after, start - 1, start),
                "written": lines_of(draft.after, start, stop, other=(draft.base, region.start)),
                "after": lines_of(draft.after, stop, stop + 1),
            }
            for region, start in shifted(draft.regions[:_SHOWN_REGIONS])
            for stop in (start + len(region.new),)
        ],
        **_more_regions(draft),
    }


def _more_regions(draft: Draft) -> Fields:
    more = len(draft.regions) - _SHOWN_REGIONS
    return {"regions_left_out": more} if more > 0 else {}


# Block diffs of notes.


def _notes(draft: BlockDraft, request: BlockDiff, lang: Lang, *, done: bool) -> Fields:
    return {
        "documents": [str(document.path) for document in draft.documents],
        "hunks": hunk_rows(draft.made(), done=done),
        **({"edit_ids": list(draft.edit_ids)} if done else {}),
        "lines": line_counts(draft),
    }


def hunk_text(hunk: HunkMade) -> str:
    """A hunk in one line: what happens to which block."""
    old, new = _quoted(hunk.old, _OLD_SHOWN), _quoted(hunk.new, _OLD_SHOWN)
    changes = {"UPDATE": f"{old} → {new}", "REPLACE": f"→ {new}", "DELETE": old, "MOVE": hunk.new}
    said = changes.get(hunk.kind) or _quoted(hunk.new, _NEW_SHOWN)
    ids = f" [{', '.join(hunk.new_ids)}]" if hunk.new_ids else ""
    return f"{hunk.kind} {hunk.block_id}: {said}{ids}"


def hunk_rows(hunks: Iterable[HunkMade], *, done: bool) -> list[Value]:
    """The hunks for a program, each with the ids of its new blocks."""
    return [
        {
            "edit": {"type": hunk.kind, "blockId": hunk.block_id},
            "operation": hunk_text(hunk),
            **({"success": True} if done else {}),
            **({"newBlockId": ids[0], "newBlockIds": list(ids)} if (ids := hunk.new_ids) else {}),
        }
        for hunk in hunks
    ]


def _quoted(text: str, most: int) -> str:
    return f'"{start_of(one_line(text), most)}"'


def one_line(text: str) -> str:
    """The text in one line, with its line ends shown as `\\n`."""
    return text.replace("\r", "").replace("\n", "\\n")


def start_of(text: str, most: int) -> str:
    """The text, or its first `most` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}..."


# Operations on a whole file: they show no lines beside their diff.


def _deletion(draft: Draft, request: DeleteFile, lang: Lang) -> Fields:
    binary = is_binary_deletion(draft)
    lines: Fields = {} if binary else {"lines": line_counts(draft)}
    return {"size_bytes": draft.base.size, "binary": binary, **lines}


def is_binary_deletion(draft: Draft) -> bool:
    """Whether the deleted file is binary: its bytes are in no diff."""
    base = draft.base
    return draft.request.deletes and isinstance(base, Snapshot) and is_binary(base)


def _modes(draft: Draft) -> list[str]:
    return [f"{tool & 0o777:o}" for tool in draft.request.modes or ()]


# A template's `format` is a function of the draft, or of the outcome, like any other.
_RANGE = Row(
    planned=lambda draft, request, lang: {
        "range": {"input": request.range, "resolved": _resolved(draft)},
        "lines": line_counts(draft),
    },
    applied=_range_applied,
    numbers=_place_numbers,
    where=_place_where,
    # a text put into an empty file, or after its end, is appended
    plan_words=lambda draft: f"plan.{draft.action}" if draft.old_count else "plan.append",
    applied_words=lambda outcome: f"apply.{_how(outcome)}",
    evidence=partial(_evidence, "evidence", ("before", "range", "", "after")),
    written=_place_written,
    shown=_place_shown,
)
_SEVERAL = Row(
    planned=lambda draft, request, lang: {
        "edits_count": request.count * draft.place.candidates,
        **row_of(request).applied(draft, request, lang),
    },
    applied=lambda draft, request, lang: {
        "regions": _parts(draft),
        "lines": line_counts(draft),
    },
    numbers=lambda draft: {
        "path": draft.request.path,
        "edits": draft.request.count * draft.place.candidates,
        "places": min(len(draft.regions), len(draft.place.parts)),
        **line_counts(draft),
    },
    where=lambda draft, at: (
        _place_where(draft, at)
        + (f" · {len(draft.place.parts)} places" if len(draft.place.parts) > 1 else "")
    ),
    plan_words="plan.batch".format,
    applied_words=lambda outcome: f"apply.batch.{_how(outcome)}",
    evidence=_several_evidence,
    written=_several_written,
)


def _operation(
    fields: Callable[[Any, Any, Lang], Fields],
    numbers: Callable[[Any], dict[str, object]],
    where: Callable[[Draft, str], str],
    words: Callable[[Draft], str] = "plan.{0.action}".format,
) -> Row:
    """The row of an operation on a whole file, which has the same fields before and after."""
    return Row(
        planned=fields,
        applied=fields,
        numbers=numbers,
        where=where,
        plan_words=words,
        applied_words="apply.{0.draft.action}".format,
        of_text=False,
    )


# By the names of the classes: the kinds of notes are not imported before a note is edited.
_ROWS: dict[str, Row] = {
    "RangeEdit": _RANGE,
    "Append": replace(_RANGE, planned=_append_planned, evidence=_append_tails),
    "Insert": replace(
        _RANGE,
        planned=_insert_planned,
        applied=_insert_applied,
        evidence=partial(_evidence, "evidence_preview", ("before", "", "insert_preview", "after")),
        plan_words="plan.insert".format,
    ),
    "BlockReplace": replace(
        _RANGE,
        planned=_block_planned,
        applied=_block_applied,
        evidence=partial(
            _evidence,
            "evidence_preview",
            ("before_preview", "old_preview", "new_preview", "after_preview"),
        ),
        plan_words="plan.block_replace".format,
    ),
    "RangeEdits": replace(
        _SEVERAL,
        applied=_ranges_applied,
        where=_place_where,
    ),
    "BatchEdit": _SEVERAL,
    "ReplaceText": _SEVERAL,
    "PatchEdit": _SEVERAL,
    "BlockDiff": Row(
        planned=partial(_notes, done=False),
        applied=partial(_notes, done=True),
        numbers=lambda draft: {
            "path": draft.request.path,
            "hunks": len(draft.plan.hunks),
            "documents": len(draft.documents),
            "old": draft.old_count,
            "new": draft.new_count,
        },
        where=_place_where,
        plan_words="plan.block_diff".format,
        applied_words="apply.block_diff.{0.context}".format,
        notices=lambda draft, lang: [
            say(f"notes.notice.{kind}", lang, {"block_id": block_id, "detail": detail})
            for kind, block_id, detail in draft.notices
        ],
    ),
    "DeleteFile": _operation(
        fields=_deletion,
        numbers=lambda draft: {
            "path": draft.request.path,
            "lines": draft.old_count,
            "bytes": draft.base.size,
        },
        where="{0.request.path} (deleted) +0 -{0.old_count}".format,
        words=lambda draft: "plan.file_delete" + ".binary" * is_binary_deletion(draft),
    ),
    "MoveFile": _operation(
        fields=lambda draft, move, lang: {"to": str(move.to), "size_bytes": draft.base.size},
        numbers=lambda draft: {"path": draft.request.path, "to": draft.request.target},
        where="{0.request.path} => {0.request.target}".format,
    ),
    "ChangeMode": _operation(
        fields=lambda draft, change, lang: Fields(
            zip(("old_mode", "new_mode"), _modes(draft), strict=True)
        ),
        numbers=lambda draft: {"path": draft.request.path, "new_mode": _modes(draft)[1]},
        where=lambda draft, at: f"{draft.request.path} (mode {_modes(draft)[1]})",
    ),
}


# The lines that answers show, and what they say of the new text of any edit.


def lines_of(
    base: Text,
    start: int,
    stop: int,
    *,
    numbers: bool = False,
    other: tuple[Text, int] | None = None,
) -> str:
    """Lines [start, stop) (0-based) as far as they exist, each ended by a newline.

    They are unchanged, except that long runs are cut inside and long lines are cut; with `numbers`
    each line has its number. `other`: the corresponding text and its first line; a long line is cut
    around its first difference from that text.
    """
    start, stop = max(start, 0), min(stop, base.line_count)
    shown: list[str] = []
    for first, last in _runs(start, stop):
        texts: Sequence[str] = base.texts(first, last)
        if not _are_short(texts):
            texts = [
                cut(text, _WIDTH, _first_difference(text, other, line))
                for line, text in enumerate(texts, first - start)
            ]
        if shown:
            shown.append(f"… ({stop - start - _MOST_LINES} lines left out)")
        shown += numbered(first + 1, texts) if numbers else texts
    return "".join([f"{line}\n" for line in shown])


def lines_before(base: Text, line: int) -> str:
    """A few lines before line `line` (0-based)."""
    return lines_of(base, line - _AROUND, line)


def in_place(base: Text, start: int, stop: int, other: Text | None = None) -> tuple[str, str, str]:
    """A few lines before the lines [start, stop) of a text, these lines, and a few after them.

    `other` is the text before or after it was changed there. What `lines_of` shows, read at once if
    all is short.
    """
    first = max(start - _AROUND, 0)
    if stop - start <= _MOST_LINES:
        texts = base.texts(first, min(stop + _AROUND, base.line_count))
        if _are_short(texts):
            lines, at, end = [f"{text}\n" for text in texts], start - first, stop - first
            return "".join(lines[:at]), "".join(lines[at:end]), "".join(lines[end:])
    own = lines_of(base, start, stop, other=None if other is None else (other, start))
    return lines_before(base, start), own, lines_of(base, stop, stop + _AROUND)


def _are_short(texts: Sequence[str]) -> bool:
    """Whether each line is shown whole; mostly they all are."""
    return not texts or max(map(len, texts)) <= _WIDTH


def _first_difference(text: str, other: tuple[Text, int] | None, line: int) -> int:
    """Where a long line first differs from the line at this offset in the other text."""
    if other is None or len(text) <= _WIDTH or not 0 <= other[1] + line < other[0].line_count:
        return 0
    return same_after(text, other[0].text(other[1] + line), 0, 0)


def _runs(start: int, stop: int) -> tuple[Run, ...]:
    """The runs of lines to show: of many lines, the first and the last."""
    ends = (start, start + _HEAD), (stop - (_MOST_LINES - _HEAD), stop)
    return ((start, stop),) if stop - start <= _MOST_LINES else ends


def lines_whole(base: Text, start: int, stop: int) -> list[Run]:
    """The lines that `lines_of` shows whole."""
    return [
        each
        for run in _runs(max(start, 0), min(stop, base.line_count))
        for each in _whole(base, *run)
    ]


def _whole(base: Text, start: int, stop: int) -> list[Run]:
    texts = base.texts(start, stop)
    if _are_short(texts):
        return [(start, stop)]
    return [(line, line + 1) for line, text in enumerate(texts, start) if len(text) <= _WIDTH]


def views(
    refusal: Refusal, path: RelPath, now: Text | None, lines: tuple[int, int]
) -> tuple[View, ...]:
    """The lines of the current text that a refusal at these lines shows."""
    if now is None or getattr(refusal, "current", None) is not None:
        return view_of(refusal, path, now.version if now else None)
    shown = partial(lines_whole, now, lines[0] - _AROUND, lines[1] + _AROUND)
    return (View(path, now.version, now.line_count, evidence=shown),)


def shifted(changed: Iterable[Region]) -> Iterator[tuple[Region, int]]:
    """Regions of a text with their first lines (0-based) after all of them are changed."""
    shift = 0
    for region in changed:
        yield region, region.start + shift
        shift += len(region.new) - (region.stop - region.start)


def warnings(draft: Draft, lang: Lang, signs: Sequence[str] = ()) -> Fields:
    """The warnings about the new text of a draft."""
    return listed(
        [
            *warned(draft.bad_character, draft.escapes, lang, signs),
            *row_of(draft.request).notices(draft, lang),
        ]
    )


def listed(warnings: Sequence[str]) -> Fields:
    """The warnings as a field, if there are any."""
    return {"warnings": [*warnings]} if warnings else {}


def remarks(draft: Draft, fields: Fields, lang: Lang) -> tuple[str, ...]:
    """The remarks of a brief answer: what was normalized, and warnings."""
    done, place = draft.normalized, draft.place
    counts = {
        "remark.file_eof_newline": done.file_eof_newline_added,
        "remark.newlines": done.content_newlines_converted,
        "remark.first_taken": place.first_taken and place.candidates,
    }
    return (
        *(
            say(saying, lang, {"count": count, "style": done.newline_style})
            for saying, count in counts.items()
            if count
        ),
        *warned_in(fields),
    )


def corrected_words(causes: Sequence[str], lang: Lang) -> str:
    """Why the old text of an edit was not in the file as given, for one that was corrected."""
    own = [f"corrected.{cause}" for cause in causes if has(f"corrected.{cause}")]
    left = [cause for cause in causes if f"corrected.{cause}" not in own]
    said = [say("corrected", lang, {"causes": cause_words(left, lang)})] if left else []
    return " ".join([*said, *(say(name, lang) for name in own)])


def warned_in(fields: Fields) -> tuple[str, ...]:
    """The warnings among the fields of a report."""
    listed = cast("Sequence[str]", fields.get("warnings", ()))
    return tuple(str(each) for each in (fields.get("style_warning"), *listed) if each)


def warned(bad: bool, escapes: Escapes, lang: Lang, signs: Sequence[str] = ()) -> list[str]:
    """The warnings about a text that may not be meant, new U+FFFD, and bytes and their escapes."""
    lost = [say("warning.replacement_character", lang)] if bad else []
    said = [*(say_reason(sign, lang) for sign in signs), *lost]
    for saying, escaped in (
        ("warning.bytes_meant", escapes.meant),
        ("warning.escapes_kept", escapes.kept),
    ):
        if escaped:
            shown = (*sorted(escaped)[:_SHOWN_ESCAPES], *("…",) * (len(escaped) > _SHOWN_ESCAPES))
            said.append(say(saying, lang, {"shown_bytes": shown}))
    return said


def lost(after: Snapshot, before: Snapshot | None) -> bool:
    """Whether a whole file has U+FFFD now but did not before."""
    if "\ufffd" not in after.encoding.text(after.data):
        return False
    return before is None or "\ufffd" not in before.encoding.text(before.data)
