"""The reports of ws_mod: the fields of each outcome and refusal, in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

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
from copydesk.edit.draft import Draft, cut
from copydesk.edit.request import (
    ReplaceText,
)
from copydesk.errors import Refusal
from copydesk.text.encoding import Encoding
from copydesk.text.unified import regions
from copydesk.tools import report_fields
from copydesk.tools.diff_model import View, diff_text, shorten, views_of
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import LONGEST, facts_of, refusal_words
from copydesk.tools.report import (
    MOST_DIFF_CHARACTERS,
    Fields,
    Lang,
    Length,
    Report,
    Value,
    cut_diff,
    shown_diff,
)

HEAD_TOKENS = 250  # tokens of the head of an answer and its next steps
LIST_HEAD_TOKENS = 500  # the same for a list, including notices


def planned(mode: str, outcome: Planned, lang: Lang, length: Length | None = None) -> Report:
    """The report of a plan, in full unless `length` is brief."""
    draft, plan = outcome.draft, outcome.plan
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": draft.action,
        **report_fields.tool_fields(draft, lang),
        "version": draft.base.version,
        **report_fields.warnings(draft, lang),
    }
    if outcome.declined is not None:
        fields |= {"auto_apply": "declined", "auto_apply_reason": outcome.declined}
    if not plan.request.is_operation:
        fields["normalized"] = report_fields.normalized(draft)
    fields |= report_fields.plan_evidence(draft)
    words: list[str] = []
    if outcome.declined is not None:
        words = [say("auto.declined", lang, {"why": say_reason(outcome.declined, lang)})]
        if outcome.refusal is not None:
            words.append(refusal_words(outcome.refusal, lang, _callers(mode)))
    summary = say(_planned_saying(draft), lang, report_fields.numbers(draft))
    fields["summary"] = " ".join((*words, summary))
    apply = f"{_prefix(mode)}apply_file_modification"
    steps = (
        say("next.apply", lang, {"apply": apply, "id": plan.id}),
        say("next.replan", lang, {"tool": mode, "id": plan.id}),
    )
    rest = _rest(mode, plan.id, lang)
    if length != "brief":
        shown = partial(report_fields.evidence_lines, draft)
        path, base = plan.request.path, draft.base
        view = View(path, base.version, base.line_count, "old", 0, shown, outcome.real)
        return _with_diff(fields, draft.diff, base.encoding, lang, steps, rest, (view,))
    report = _with_diff(fields, draft.diff, draft.base.encoding, lang, steps, rest)
    remarks = (*words, *report_fields.remarks(draft, fields, lang))
    return replace(
        report,
        line=f"planned {plan.id} · {_where(draft)}",
        remarks=remarks,
        shows_diff=False,
        next_steps=(),
    )


def applied(mode: str, outcome: Applied, lang: Lang, length: Length | None = None) -> Report:
    """The report of an apply; one line if it was written exactly as planned, unless in full."""
    draft, plan = outcome.draft, outcome.plan
    at = plan.request.target or plan.request.path
    views = (View(at, draft.after.version, side="new"),)
    text, was_cut, display = _diff_and_words(draft.diff, draft.base.encoding, lang)
    make = partial(_applied_fields, mode, outcome, lang, was_cut=was_cut)
    if length == "full":
        rest = _rest(mode, outcome.edit_id, lang)
        return Report(make(), diff=text, display=display, rest=rest, views=views)
    remarks = report_fields.remarks(draft, report_fields.warnings(draft, lang), lang)
    if not outcome.edit_id:
        remarks = (_applied_summary(outcome, lang), *remarks)
    shows = length is None and outcome.context == "fuzz"
    return Report(
        make,
        diff=text,
        display=display,
        rest=_rest(mode, outcome.edit_id, lang) if shows else "",
        line=_written_line(outcome, _version_after(outcome)),
        remarks=remarks,
        shows_diff=shows,
        views=views if shows else (),
    )


def _applied_fields(mode: str, outcome: Applied, lang: Lang, *, was_cut: bool) -> Fields:
    """All fields of an apply; `was_cut`: the diff next to them is cut."""
    draft, plan = outcome.draft, outcome.plan
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": draft.action,
        "context_match": outcome.context,
        **report_fields.applied_fields(draft),
    }
    if outcome.context == "fuzz":
        fields |= _drift(plan.base_digest, None if draft.created else draft.base.digest)
    fields |= {"changed": outcome.edit_id != 0, "edit_id": outcome.edit_id}
    version = _version_after(outcome)
    if version:
        fields["version"] = version
    fields |= report_fields.warnings(draft, lang)
    if not plan.request.is_operation:
        fields["normalized"] = report_fields.normalized(draft)
    fields["apply_evidence"] = report_fields.apply_evidence(draft)
    if was_cut:
        fields["diff_truncated"] = True
    fields["summary"] = _applied_summary(outcome, lang)
    return fields


def _applied_summary(outcome: Applied, lang: Lang) -> str:
    return say(_applied_saying(outcome), lang, report_fields.numbers(outcome.draft))


def _version_after(outcome: Applied) -> str:
    """The version of the file that was written; empty if it was deleted."""
    return "" if outcome.plan.request.deletes else outcome.draft.after.version


def _written_line(outcome: Applied, version: str) -> str:
    draft, planned_at = outcome.draft, outcome.plan.place.start + 1
    drifted = outcome.context == "fuzz" and planned_at != _first_line(draft)
    planned_line = f" (planned {planned_at})" if drifted else ""
    edit = f" · edit {outcome.edit_id}" if outcome.edit_id else ""
    word = "fuzz" if outcome.context == "fuzz" else "ok"
    now = f" · version {version}" if version else ""
    return f"{word} {_where(draft, planned_line)}{edit}{now}"


def _where(draft: Draft, planned_line: str = "") -> str:
    """The file and line of a draft, and the numbers of lines added and removed."""
    request = draft.request
    if request.target is not None:
        return f"{request.path} => {request.target}"
    if request.modes:
        return f"{request.path} (mode {request.modes[1] & 0o777:o})"
    if request.deletes:
        return f"{request.path} (deleted) +0 -{draft.old_count}"
    places = len(draft.place.parts) if request.by_text else 1
    many = f" · {places} places" if places > 1 else ""
    at = f":{_first_line(draft)}{planned_line}"
    return f"{request.path}{at} +{draft.new_count} -{draft.old_count}{many}"


def _first_line(draft: Draft) -> int:
    changed = draft.regions if draft.place.parts else ()
    return (changed[0].start if changed else draft.place.start) + 1


def _prefix(mode: str) -> str:
    """The prefix of the mirror toolset's tools, or empty."""
    return "team_mgmt_" if mode.startswith("team_mgmt_") else ""


def _rest(mode: str, shown: int | str, lang: Lang, key: str = "next.rest") -> str:
    """How to see the rest of a diff: of a plan (if `shown` is a text) or of an edit."""
    name, value = ("hunk_id", f'"{shown}"') if isinstance(shown, str) else ("edit_id", shown)
    return say(key, lang, {"tool": f"{_prefix(mode)}show_hunk", "name": name, "id": value})


def rejected(mode: str, outcome: Rejected, lang: Lang) -> Report:
    """The report of an apply that was refused because of the file."""
    plan, now = outcome.plan, outcome.current
    fields: Fields = {
        "status": "error",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": plan.action,
        "context_match": "rejected",
        "error": outcome.refusal.code,
        **facts_of(outcome.refusal),
    }
    if now is not None or not isinstance(outcome.refusal, _UNREAD):
        fields |= _drift(plan.base_digest, now.digest if now else None)
    if now is not None:
        fields["version"] = now.version
    shown: Fields = {}
    current = fields.pop("current", None)
    if current is not None:
        shown["current"] = current
    elif now is not None:
        start = min(plan.place.start, now.line_count)
        stop = max(plan.place.stop, start)
        around = report_fields.AROUND
        shown["current"] = report_fields.lines_of(now, start - around, stop + around, numbers=True)
    fields["apply_evidence"] = shown
    why = refusal_words(outcome.refusal, lang, (*_callers(mode), *plan.request.voices))
    fields["summary"] = say("rejected", lang, {"why": why})
    return Report(
        fields, views=report_fields.views(outcome.refusal, plan.request.path, now, plan.place)
    )


_UNREAD = (errors.HunkRejected, errors.Busy, errors.Cancelled, errors.CheckFailed)
"""Refusals that do not depend on the content of the file: its state is not reported."""


def _callers(mode: str) -> tuple[str, ...]:
    """The voice of the mirror toolset, whose tools have other names."""
    return ("team_mgmt",) if _prefix(mode) else ()


REPLACE_TEXT = ReplaceText.voices  # the wording of that tool's refusals


def refused(
    mode: str, path: str | None, refusal: Refusal, lang: Lang, voices: Sequence[str] = ()
) -> Report:
    """The report of a refusal, in the wording of `voices`."""
    fields: Fields = {"status": "error", "mode": mode}
    if path is not None:
        fields["path"] = cut(path, LONGEST)
    fields |= {"error": refusal.code, **facts_of(refusal)}
    fields["summary"] = refusal_words(refusal, lang, (*_callers(mode), *voices))
    return Report(fields)


def created(mode: str, outcome: Created, lang: Lang, length: Length | None = None) -> Report:
    """The report of a new file."""
    after = outcome.after
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(outcome.path),
        "total_lines": after.line_count,
        "size_bytes": after.size,
        "normalized_trailing_newline_added": outcome.newline_added,
        "edit_id": outcome.edit_id,
        "version": after.version,
        **report_fields.lost_warning(after, None, lang),
        "summary": say("create", lang, {"path": outcome.path, "lines": after.line_count}),
    }
    if length == "full":
        return Report(fields)
    line = f"ok {outcome.path} (new) +{after.line_count} -0{_edit(outcome.edit_id, after.version)}"
    return Report(fields, line=line, remarks=report_fields.warned_in(fields))


def overwritten(
    mode: str, outcome: Overwritten, lang: Lang, length: Length | None = None
) -> Report:
    """The report of a file that was replaced as a whole."""
    before, after = outcome.before, outcome.after
    facts = {"path": outcome.path, "old": before.line_count, "lines": after.line_count}
    summary = say("overwrite" if outcome.edit_id else "overwrite.nothing", lang, facts)
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(outcome.path),
        "old_total_lines": before.line_count,
        "old_total_bytes": before.size,
        "total_lines": after.line_count,
        "size_bytes": after.size,
        "newline_style": after.newline_style,
        "normalized_trailing_newline_added": outcome.newline_added,
        "changed": outcome.edit_id != 0,
        "edit_id": outcome.edit_id,
        "version": after.version,
        **report_fields.lost_warning(after, before, lang),
        "summary": summary,
    }
    if length == "full":
        return Report(fields)
    counts = f"+{after.line_count} -{before.line_count}"
    line = f"ok {outcome.path} {counts}{_edit(outcome.edit_id, after.version)}"
    nothing = () if outcome.edit_id else (summary,)
    return Report(fields, line=line, remarks=(*nothing, *report_fields.warned_in(fields)))


def _edit(edit_id: int, version: str) -> str:
    return f" · edit {edit_id} · version {version}" if edit_id else f" · version {version}"


def reading(mode: str, outcome: Reading, lang: Lang, *, numbers: bool) -> Report:
    """The report of lines of a file."""
    first = outcome.first_line
    fields: Fields = {"status": "ok", "mode": mode, "path": str(outcome.path)}
    optional: Fields = {
        "total_lines": outcome.total_lines,
        "size_bytes": outcome.size_bytes,
        "version": outcome.version,
        "encoding": outcome.encoding,
        "newline_style": outcome.newline_style,
        "file_eof_has_newline": outcome.ends_with_newline,
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    shown: Fields = {"count": len(outcome.lines)}
    steps: list[str] = []
    last = None if first is None else first + len(outcome.lines) - 1
    if first is not None and outcome.lines:
        shown = {"start": first, "end": last, "count": len(outcome.lines)}
    fields["shown_lines"] = shown
    fields |= {
        "truncated_by_max_lines": outcome.cut_by_lines,
        "truncated_by_char_limit": outcome.cut_by_characters,
    }
    if last is not None and last < outcome.last_wanted:
        on = {"path": str(outcome.path), "range": f"{last + 1}~{outcome.last_wanted}"}
        call = json.dumps(on, ensure_ascii=False)
        steps.append(say("next.read_on", lang, {"tool": mode, "call": call}))
    if outcome.cut_in_line:
        search = mode.replace("read_file", "ripgrep_snippets")
        steps.append(say("next.long_line", lang, {"tool": search}))
    if outcome.lines:
        where = f"{first or '?'}" if first == last else f"{first}~{last}"
        fields["summary"] = say("read", lang, {"where": where, "path": outcome.path})
    else:
        fields["summary"] = say("read.empty", lang)
    texts = list(outcome.lines)
    shown_texts = report_fields.numbered(first, texts) if numbers and first and texts else texts
    body = "\n".join(shown_texts)
    return Report(
        fields,
        body=body + "\n" * bool(texts),
        next_steps=tuple(steps),
        content={"content": body + "\n" * bool(texts)},
        line=report_fields.read_line(outcome, lang),
    )


def _planned_saying(draft: Draft) -> str:
    if draft.replaces_nothing:
        return "plan.nothing"
    if draft.request.is_several:
        return "plan.batch"
    if report_fields.is_binary_deletion(draft):
        return "plan.file_delete.binary"
    fills = draft.action == "replace" and not draft.old_count
    return "plan.append" if fills else f"plan.{draft.action}"


def _applied_saying(outcome: Applied) -> str:
    if not outcome.edit_id:
        return "apply.nothing"
    if outcome.draft.request.is_several:
        return f"apply.batch.{outcome.context}"
    if outcome.draft.request.in_notes:
        return f"apply.block_diff.{outcome.context}"
    if outcome.draft.request.is_operation:
        return f"apply.{outcome.draft.action}"
    return f"apply.{outcome.context}"


def _drift(planned_on: str | None, current: str | None) -> Fields:
    return {
        "file_changed_since_preview": planned_on != current,
        "planned_file_digest_sha256": planned_on or "",
        "current_file_digest_sha256": current or "",
    }


def _with_diff(
    fields: Fields,
    diff: bytes,
    encoding: Encoding,
    lang: Lang,
    steps: tuple[str, ...],
    rest: str,
    views: tuple[View, ...] = (),
) -> Report:
    text, was_cut, display = _diff_and_words(diff, encoding, lang)
    if was_cut:
        summary = fields.pop("summary")
        fields |= {"diff_truncated": True, "summary": summary}
    return Report(fields, diff=text, next_steps=steps, display=display, rest=rest, views=views)


def _diff_and_words(diff: bytes, encoding: Encoding, lang: Lang) -> tuple[str, bool, str]:
    """The diff as text, whether it was cut, and a note if it cannot be applied."""
    text, was_cut = shown_diff(diff, encoding)
    is_other = encoding.unit > 1 or text.encode("utf-8", "surrogatepass") != diff
    return text, was_cut, say("diff.display", lang) if is_other and not was_cut else ""


def short_diff(shown: Shown, lang: Lang) -> tuple[str, bool]:
    """The diff with long lines shortened to what changes in them, and whether it was cut."""
    text = diff_text(shown.diff, shown.draft.base.encoding)
    return cut_diff(shorten(text, lambda count: say("left_out.characters", lang, {"count": count})))


def undone(mode: str, outcome: Undone, lang: Lang, length: Length | None = None) -> Report:
    """The report of an undo, even if nothing was left to undo."""
    entry, after = outcome.entry, outcome.after
    found = regions(outcome.base, outcome.change)
    old = sum(region.stop - region.start for region in found)
    new = sum(len(region.new) for region in found)
    kind = "move" if entry.moved else "mode" if entry.mode_changed else entry.kind
    replaces = "replace" if old and new else "insert" if new else "delete"
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(outcome.path),
        **({"to": str(entry.moved.other)} if entry.moved else {}),
        "edit_id": outcome.edit_id,
        "undone_edit_id": entry.edit_id,
        "action": _UNDOING.get(kind, replaces),
        "context_match": outcome.context,
        "regions": [
            {"start_line": start + 1, "end_line": start + len(region.new)}
            for region, start in report_fields.shifted(found[: report_fields.MOST_REGIONS])
        ],
        "lines": {"old": old, "new": new, "delta": new - old},
    }
    if outcome.context == "fuzz":
        fields |= _drift(entry.after, outcome.base.digest)
    fields["changed"] = outcome.edit_id != 0
    shown: Fields = {}
    if entry.kind != "create" or entry.moved:
        fields["version"] = after.version
        if found:
            start, stop = found[0].start, found[0].start + len(found[0].new)
            shown = {
                "before": report_fields.lines_before(after, start),
                "written": report_fields.lines_of(after, start, stop),
                "after": report_fields.lines_after(after, stop),
            }
    fields["apply_evidence"] = shown
    facts = {"undone": entry.edit_id, "path": outcome.path, "old": old, "new": new}
    if entry.moved:
        facts["to"] = entry.moved.other
    saying = kind if kind in _UNDOING else outcome.context
    summary = say(f"undo.{saying if outcome.edit_id else 'nothing'}", lang, facts)
    again = say("next.redo", lang, {"tool": mode, "id": outcome.edit_id})
    steps = (again,) if outcome.edit_id else ()
    rest = _rest(mode, outcome.edit_id, lang)
    whole = {**fields, "summary": summary}
    report = _with_diff(whole, outcome.diff, outcome.base.encoding, lang, steps, rest)
    if entry.kind != "create":
        report = replace(report, views=(View(outcome.path, after.version, side="new"),))
    if length == "full":
        return report
    word = "fuzz" if outcome.context == "fuzz" else "ok"
    at = f":{found[0].start + 1}" if found else ""
    version = f" · version {after.version}" if "version" in fields else ""
    done = f" · edit {outcome.edit_id}" if outcome.edit_id else ""
    what = f"{outcome.path}{at} +{new} -{old}"
    if entry.moved:
        what = f"{outcome.path} => {entry.moved.other}"
    line = f"{word} {what} · undid edit {entry.edit_id}{done}{version}"
    return replace(
        report,
        line=line,
        remarks=() if outcome.edit_id else (summary,),
        shows_diff=length is None and outcome.context == "fuzz",
        next_steps=(),
    )


def undone_together(
    mode: str, outcomes: Sequence[Undone], lang: Lang, length: Length | None = None
) -> Report:
    """The report of the undo of a transaction, its newest edit first."""
    each = [undone(mode, one, lang, length) for one in outcomes]
    rows: list[Value] = [
        {key: one.fields[key] for key in _UNDONE_ROW if key in one.fields} for one in each
    ]
    summary = say("undo.together", lang, {"edits": len(rows)})
    fields: Fields = {"status": "ok", "mode": mode, "changed": bool(rows), "edits": rows}
    diff = "".join(one.diff for one in each)
    report = Report({**fields, "summary": summary}, diff=diff)
    if length == "full":
        return report
    lines = [one.line for one in each] or [summary]
    shows = length is None and any(one.context == "fuzz" for one in outcomes)
    return replace(report, line=lines[0], remarks=tuple(lines[1:]), shows_diff=shows)


_UNDONE_ROW = ("path", "to", "edit_id", "undone_edit_id", "action", "context_match", "lines")


def not_undone(mode: str, outcome: NotUndone, lang: Lang) -> Report:
    """The report of an undo that was refused."""
    entry, refusal, now = outcome.entry, outcome.refusal, outcome.current
    fields: Fields = {
        "status": "error",
        "mode": mode,
        "path": str(entry.path),
        "edit_id": entry.edit_id,
        "context_match": "rejected",
        "error": refusal.code,
        **facts_of(refusal),
    }
    current = fields.pop("current", None)
    if now is not None:
        fields |= {**_drift(entry.after, now.digest), "version": now.version}
        if current is None:
            around = report_fields.AROUND
            start, stop = outcome.lines
            current = report_fields.lines_of(now, start - around, stop + around, numbers=True)
        fields["apply_evidence"] = {"current": current}
    fields["summary"] = _why_not_undone(outcome, mode, lang)
    return Report(fields, views=report_fields.views(refusal, entry.path, now, outcome.lines))


_UNDOING = {"move": "file_move", "mode": "file_mode", "create": "remove", "remove": "create"}
"""The action of an undo by the kind of the edit; for other kinds it depends on the lines."""


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


_MOST_UNCOUNTED = 10  # a brief answer with more lines starts with their count


def planned_together(
    mode: str,
    planned: Sequence[Planned],
    lang: Lang,
    declined: str | None = None,
    saying: str = "transaction.planned",
) -> Report:
    """The report of the plans of one call; `declined`: why auto wrote none of them."""
    rows: list[Value] = [
        {
            "hunk_id": one.plan.id,
            "path": str(one.plan.request.path),
            "action": one.draft.action,
            "lines": {"old": one.draft.old_count, "new": one.draft.new_count},
        }
        for one in planned
    ]
    diff, was_cut = _shown((one.draft.diff, one.draft.base.encoding) for one in planned)
    fields: Fields = {"status": "ok", "mode": mode, "hunks": rows}
    files = {one.plan.request.path for one in planned}
    summary = say(saying, lang, {"files": len(files)})
    if declined is not None:
        fields |= {"auto_apply": "declined", "auto_apply_reason": declined}
        why = say("auto.declined", lang, {"why": say_reason(declined, lang)})
        summary = f"{why} {summary}"
    if was_cut:
        fields["diff_truncated"] = True
    ids = ", ".join(f'"{one.plan.id}"' for one in planned)
    step = say(
        "next.together", lang, {"tool": f"{_prefix(mode)}apply_file_modifications", "ids": ids}
    )
    rest = _rest(mode, planned[0].plan.id, lang, "next.rest_each")
    return Report({**fields, "summary": summary}, diff=diff, next_steps=(step,), rest=rest)


def transacted(mode: str, outcome: Transacted, lang: Lang, length: Length | None = None) -> Report:
    """The report of plans written together, or without anything to write."""
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
    diff, was_cut = _shown(outcome.diffs)
    if was_cut:
        fields["diff_truncated"] = True
    last = {
        one.plan.request.path: outcome.versions[one.plan.id]
        for one in outcome.applied
        if not one.plan.request.is_operation
    }
    views = views_of(last, outcome.diffs)
    first = next((one.edit_id for one in outcome.applied if one.edit_id), 0)
    rest = _rest(mode, first, lang, "next.rest_each")
    report = Report({**fields, "summary": summary}, diff=diff, views=views, rest=rest)
    if length == "full":
        return report
    each = [
        (
            _written_line(one, outcome.versions[one.plan.id]),
            *report_fields.remarks(one.draft, cast("Fields", row), lang),
        )
        for one, row in zip(outcome.applied, rows, strict=True)
    ]
    lines = [said for several in each for said in several]
    if len(rows) != 1 and (len(rows) > _MOST_UNCOUNTED or not rows):
        lines = [f"{summary} ({outcome.group})" if outcome.group else summary, *lines]
    remarks = tuple(lines[1:])
    return replace(report, line=lines[0], remarks=remarks, shows_diff=length is None and drifted)


def withheld(mode: str, outcome: Withheld, lang: Lang) -> Report:
    """The report of a refused transaction: nothing was written."""
    plan, refusal = outcome.plan, outcome.refusal
    fields: Fields = {"status": "pending" if _waits(outcome) else "error", "mode": mode}
    if plan is not None:
        fields |= {"path": str(plan.request.path), "hunk_id": plan.id}
    fields |= {"error": refusal.code, **facts_of(refusal)}
    fields["hunks"] = [_judged(verdict, told=verdict.plan is plan) for verdict in outcome.verdicts]
    voices = _callers(mode) + (plan.request.voices if plan is not None else ())
    why = refusal_words(refusal, lang, voices)
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
    """Whether only approvals are missing."""
    refused = [verdict.refusal for verdict in outcome.verdicts if verdict.refusal is not None]
    return bool(refused) and all(isinstance(each, errors.ApprovalRequired) for each in refused)


def _written(one: Applied, version: str, lang: Lang) -> Fields:
    """The row of one written plan; `version` is that of its file after all plans."""
    draft = one.draft
    row: Fields = {
        "hunk_id": one.plan.id,
        "path": str(one.plan.request.path),
        "action": draft.action,
        "context_match": one.context,
        "edit_id": one.edit_id,
        "lines": report_fields.line_counts(draft),
        **({"version": version} if version else {}),
        **report_fields.warnings(draft, lang),
    }
    if one.plan.request.target is not None:
        row["to"] = str(one.plan.request.target)
    done = draft.normalized
    if done.file_eof_newline_added or done.content_eof_newline_added:
        row["normalized"] = report_fields.normalized(draft)
    return row


def _judged(verdict: Verdict, *, told: bool) -> Fields:
    """The row of one plan of a refused transaction; without facts if they are `told` above."""
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
            row |= facts_of(verdict.refusal)
    return row


def _shown(diffs: Iterable[tuple[bytes, Encoding]]) -> tuple[str, bool]:
    """The diffs as one text, and whether it is too long for programs."""
    text = "".join(shown_diff(diff, encoding)[0] for diff, encoding in diffs)
    return text, len(text) > MOST_DIFF_CHARACTERS
