"""The reports of ws_mod: which fields each answer has, in which order.

What lives here: outcomes and refusals made into `Report`. What must not: the
words (`words`), the form (`report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import cast

from copydesk.desk.outcome import Applied, Created, Overwritten, Planned, Reading, Rejected
from copydesk.edit.draft import Draft
from copydesk.edit.place import cut
from copydesk.edit.request import Append, BatchEdit, BlockReplace, Insert, RangeEdit
from copydesk.errors import Refusal
from copydesk.text.snapshot import Snapshot
from copydesk.tools import evidence
from copydesk.tools.report import Fields, Lang, Report, shown_diff
from copydesk.tools.words import say
from copydesk.tools.yaml import Value

_LONGEST_FACT = 2_000
_MOST_REGIONS = 50


def planned(mode: str, outcome: Planned, lang: Lang, *, brief: bool = False) -> Report:
    """The report of a plan."""
    draft, plan = outcome.draft, outcome.plan
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "expires_at_ms": plan.expires_ms,
        "action": draft.action,
        **_tool_fields(draft, lang),
        "version": draft.base.version,
        **_warnings(draft, lang),
    }
    if outcome.declined is not None:
        fields |= {"auto_apply": "declined", "auto_apply_reason": outcome.declined}
    fields["normalized"] = _normalized(draft)
    if not brief:
        fields |= _plan_evidence(draft)
    saying = "plan.nothing" if draft.replaces_nothing else f"plan.{draft.action}"
    summary = say(saying, lang, _numbers(draft))
    if outcome.declined is not None:
        summary = say("auto.declined", lang, {"why": outcome.declined}) + " " + summary
    fields["summary"] = summary
    apply = f"{mode.removesuffix(_base_name(mode))}apply_file_modification"
    steps = (
        say("next.apply", lang, {"apply": apply, "id": plan.id}),
        say("next.replan", lang, {"tool": mode, "id": plan.id}),
    )
    if brief:
        return Report(fields, next_steps=steps[:1])
    return _with_diff(fields, draft.diff, draft, steps)


def applied(mode: str, outcome: Applied, lang: Lang, *, brief: bool = False) -> Report:
    """The report of an apply that was written, or had nothing to write."""
    draft, plan = outcome.draft, outcome.plan
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": draft.action,
        "context_match": outcome.context,
        **_applied_fields(draft, brief=brief),
    }
    if outcome.context == "fuzz":
        fields |= _drift(plan.base_digest, None if draft.created else draft.base.digest)
    fields |= {
        "changed": outcome.edit_id != 0,
        "edit_id": outcome.edit_id,
        "version": draft.after.version,
        **_warnings(draft, lang),
        "normalized": _normalized(draft, brief=brief),
        "apply_evidence": _apply_evidence(draft, brief=brief),
    }
    saying = f"apply.{outcome.context}" if outcome.edit_id else "apply.nothing"
    fields["summary"] = say(saying, lang, _numbers(draft))
    return Report(fields) if brief else _with_diff(fields, draft.diff, draft, ())


def rejected(mode: str, outcome: Rejected, lang: Lang) -> Report:
    """The report of an apply that the file refused."""
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
        **_drift(plan.base_digest, now.digest if now else None),
    }
    shown: Fields = {}
    if now is not None:
        start = min(plan.place.start, now.line_count)
        stop = max(plan.place.stop, start)
        around = evidence.AROUND
        shown["current"] = evidence.lines_of(now, start - around, stop + around)
    fields["apply_evidence"] = shown
    why = refusal_words(outcome.refusal, lang)
    fields["summary"] = say("rejected", lang, {"why": why})
    return Report(fields)


def refused(mode: str, path: str | None, refusal: Refusal, lang: Lang) -> Report:
    """The report of a refusal."""
    fields: Fields = {"status": "error", "mode": mode}
    if path is not None:
        fields["path"] = path
    fields |= {"error": refusal.code, **facts_of(refusal)}
    fields["summary"] = refusal_words(refusal, lang)
    return Report(fields)


def created(mode: str, outcome: Created, lang: Lang) -> Report:
    """The report of a new file."""
    return Report(
        {
            "status": "ok",
            "mode": mode,
            "path": str(outcome.path),
            "total_lines": outcome.after.line_count,
            "size_bytes": len(outcome.after.data),
            "normalized_trailing_newline_added": outcome.newline_added,
            "edit_id": outcome.edit_id,
            "version": outcome.after.version,
            **_lost(outcome.after, None, lang),
            "summary": say(
                "create", lang, {"path": outcome.path, "lines": outcome.after.line_count}
            ),
        }
    )


def overwritten(mode: str, outcome: Overwritten, lang: Lang) -> Report:
    """The report of a file that was replaced as a whole."""
    facts = {
        "path": outcome.path,
        "old": outcome.before.line_count,
        "lines": outcome.after.line_count,
    }
    return Report(
        {
            "status": "ok",
            "mode": mode,
            "path": str(outcome.path),
            "old_total_lines": outcome.before.line_count,
            "old_total_bytes": len(outcome.before.data),
            "total_lines": outcome.after.line_count,
            "size_bytes": len(outcome.after.data),
            "newline_style": outcome.after.newline_style,
            "normalized_trailing_newline_added": outcome.newline_added,
            "changed": outcome.edit_id != 0,
            "edit_id": outcome.edit_id,
            "version": outcome.after.version,
            **_lost(outcome.after, outcome.before, lang),
            "summary": say("overwrite" if outcome.edit_id else "overwrite.nothing", lang, facts),
        }
    )


def reading(mode: str, outcome: Reading, lang: Lang, *, numbers: bool) -> Report:
    """The report of some lines of a file."""
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
        cut_line = outcome.cut_by_characters and len(outcome.lines) == 1
        on = {"tool": mode, "path": outcome.path, "range": f"{last + 1}~{outcome.last_wanted}"}
        steps.append(say("next.read_on", lang, on))
        if cut_line:
            search = mode.replace("read_file", "ripgrep_snippets")
            steps.append(say("next.long_line", lang, {"tool": search}))
    if outcome.lines:
        facts = {"first": first or "?", "last": last or "?", "path": outcome.path}
        fields["summary"] = say("read", lang, facts)
    else:
        fields["summary"] = say("read.empty", lang)
    texts = list(outcome.lines)
    shown_texts = evidence.numbered(first, texts) if numbers and first and texts else texts
    body = "\n".join(shown_texts)
    return Report(
        fields,
        body=body + "\n" * bool(texts),
        next_steps=tuple(steps),
        content={"content": body + "\n" * bool(texts)},
    )


def refusal_words(refusal: Refusal, lang: Lang) -> str:
    """What happened and what to do, in words."""
    facts = refusal.facts()
    name = refusal.code
    if name == "HUNK_NOT_FOUND":
        name = f"{name}.{facts['reason']}"
    return say(name, lang, facts)


def _tool_fields(draft: Draft, lang: Lang) -> Fields:
    request, place, base = draft.request, draft.place, draft.base
    if isinstance(request, RangeEdit):
        resolved: Fields = {"start": place.start + 1, "end": place.stop}
        return {"range": {"input": request.range, "resolved": resolved}, "lines": _lines(draft)}
    if isinstance(request, BatchEdit):
        return {"edits_count": len(request.edits), **_regions(draft), "lines": _lines(draft)}
    if isinstance(request, Append):
        return {
            "create": request.create,
            "file_line_count_before": base.line_count,
            "file_line_count_after": draft.after.line_count,
            "appended_line_count": len(draft.new_lines),
            **_blank_lines(draft, lang),
        }
    if isinstance(request, Insert):
        return {
            "position": request.position,
            "anchor": request.anchor.text,
            "match": request.anchor.match,
            "candidates_count": place.candidates,
            "occurrence_resolved": place.occurrence,
            "inserted_at_line": place.start + 1,
            "inserted_line_count": len(draft.new_lines),
            "lines": _lines(draft),
            **_blank_lines(draft, lang),
        }
    return {
        "start_anchor": request.start_anchor.text,
        "end_anchor": request.end_anchor.text,
        "match": request.start_anchor.match,
        "include_anchors": request.include_anchors,
        "require_unique": request.require_unique,
        "strict": request.strict,
        "candidates_count": place.candidates,
        "occurrence_resolved": place.occurrence,
        "first_candidate_taken": place.first_taken,
        **_block(draft),
        "lines": _lines(draft),
    }


def _applied_fields(draft: Draft, *, brief: bool) -> Fields:
    request, place = draft.request, draft.place
    if isinstance(request, Insert):
        return {
            "position": request.position,
            "anchor": request.anchor.text,
            "inserted_at_line": place.start + 1,
            "inserted_line_count": len(draft.new_lines),
        }
    if isinstance(request, BlockReplace):
        return {**_block(draft), "lines": _lines(draft)}
    if isinstance(request, BatchEdit):
        return {**_regions(draft), "lines": _lines(draft)}
    if draft.action == "append":
        end = place.start + len(draft.new_lines)
        fields: Fields = {"append_range": {"start": place.start + 1, "end": end}}
        return fields if brief else {**fields, **_append_tails(draft)}
    resolved: Fields = {"start": place.start + 1, "end": place.stop}
    return {"applied_range": resolved, "lines": _lines(draft)}


def _regions(draft: Draft) -> Fields:
    """The lines of each edit of a batch, the first of them."""
    rows: list[Value] = [
        {"index": index, "start_line": start + 1, "end_line": stop}
        for index, (start, stop) in enumerate(draft.place.parts[:_MOST_REGIONS])
    ]
    return {"regions": rows}


def _block(draft: Draft) -> Fields:
    foot = draft.place.foot or (draft.place.start, draft.place.stop)
    return {
        "block_range": {"start_line": foot[0] + 1, "end_line": foot[1]},
        "replace_slice": {
            "start_line": draft.place.start + 1,
            "delete_count": draft.old_count,
        },
    }


def _lines(draft: Draft) -> Fields:
    old, new = draft.old_count, draft.new_count
    return {"old": old, "new": new, "delta": new - old}


def _normalized(draft: Draft, *, brief: bool = False) -> Fields:
    """All remarks; in a brief report those alone that tell of something done."""
    done = draft.normalized
    fields: Fields = {
        "file_eof_has_newline": done.file_eof_has_newline,
        "content_eof_has_newline": done.content_eof_has_newline,
        "normalized_file_eof_newline_added": done.file_eof_newline_added,
        "normalized_content_eof_newline_added": done.content_eof_newline_added,
        "newline_style": done.newline_style,
        "content_newlines_converted": done.content_newlines_converted,
    }
    if brief:
        wanted = ("normalized_file_eof_newline_added", "normalized_content_eof_newline_added")
        return {name: fields[name] for name in (*wanted, "newline_style")}
    return fields


def _blank_lines(draft: Draft, lang: Lang) -> Fields:
    base, place = draft.base, draft.place
    blank = [not line.strip() for line in draft.new_lines]
    leading = _run(blank)
    before = _run([not base.text(i).strip() for i in range(place.start - 1, -1, -1)])
    if isinstance(draft.request, Append):
        style: Fields = {
            "file_trailing_blank_line_count": before,
            "content_leading_blank_line_count": leading,
        }
        meets = bool(before and leading)
    else:
        trailing = _run(blank[::-1])
        after = _run([not base.text(i).strip() for i in range(place.stop, base.line_count)])
        style = {
            "blank_line_count_before": before,
            "content_leading_blank_line_count": leading,
            "content_trailing_blank_line_count": trailing,
            "blank_line_count_after": after,
        }
        meets = bool((before and leading) or (after and trailing))
    warning = say("style.double_blank", lang) if meets else ""
    return {"blankline_style": style, "style_warning": warning}


def _run(flags: Sequence[bool]) -> int:
    """How many flags at the start are set."""
    return next((i for i, flag in enumerate(flags) if not flag), len(flags))


def _warnings(draft: Draft, lang: Lang) -> Fields:
    if not draft.bad_character:
        return {}
    return {"warnings": [say("warning.replacement_character", lang)]}


def _lost(after: Snapshot, before: Snapshot | None, lang: Lang) -> Fields:
    """The warning about U+FFFD where a whole file was written."""

    def has(text: Snapshot) -> bool:
        return "\ufffd" in text.encoding.decode(text.data)

    if not has(after) or (before is not None and has(before)):
        return {}
    return {"warnings": [say("warning.replacement_character", lang)]}


def _plan_evidence(draft: Draft) -> Fields:
    base, place, request = draft.base, draft.place, draft.request
    before = evidence.before(base, place.start)
    after = evidence.after(base, place.stop)
    old = evidence.lines_of(base, place.start, place.stop)
    if isinstance(request, BatchEdit):
        return {"evidence": {"regions": old}}
    if isinstance(request, RangeEdit):
        return {"evidence": {"before": before, "range": old, "after": after}}
    new = evidence.lines_of(draft.after, place.start, place.start + len(draft.new_lines))
    if isinstance(request, Append):
        return _append_tails(draft)
    if isinstance(request, Insert):
        return {"evidence_preview": {"before": before, "insert_preview": new, "after": after}}
    return {
        "evidence_preview": {
            "before_preview": before,
            "old_preview": old,
            "new_preview": new,
            "after_preview": after,
        }
    }


def _append_tails(draft: Draft) -> Fields:
    last, now = draft.base.line_count, draft.after.line_count
    return {
        "evidence_preview": {
            "before_tail": evidence.before(draft.base, last),
            "append_preview": evidence.lines_of(draft.after, last, now),
            "after_tail": evidence.before(draft.after, now),
        }
    }


def _apply_evidence(draft: Draft, *, brief: bool) -> Fields:
    start = draft.place.start
    stop = start + len(draft.new_lines)
    if brief:
        shown = evidence.lines_of(draft.after, start, min(stop, start + 2))
        return {"written": [cut(line, 80) for line in shown]}
    return {
        "before": evidence.before(draft.after, start),
        "written": evidence.lines_of(draft.after, start, stop),
        "after": evidence.after(draft.after, stop),
    }


def _drift(planned_on: str | None, current: str | None) -> Fields:
    return {
        "file_changed_since_preview": planned_on != current,
        "planned_file_digest_sha256": planned_on or "",
        "current_file_digest_sha256": current or "",
    }


def _numbers(draft: Draft) -> dict[str, object]:
    place, new = draft.place, draft.new_count
    foot = place.foot or (place.start, place.stop)
    return {
        "path": draft.request.path,
        "start": place.start + 1,
        "end": place.stop,
        "block": f"{foot[0] + 1}~{foot[1]}",
        "where": f"{place.start + 1}~{max(place.start + new, place.start + 1)}",
        "old": draft.old_count,
        "new": new,
        "delta": new - draft.old_count,
    }


def _with_diff(fields: Fields, diff: bytes, draft: Draft, steps: tuple[str, ...]) -> Report:
    text, was_cut = shown_diff(diff, draft.base.encoding)
    if was_cut:
        summary = fields.pop("summary")
        fields |= {"diff_truncated": True, "summary": summary}
    return Report(fields, diff=text, next_steps=steps)


def facts_of(refusal: Refusal) -> Fields:
    """The facts of a refusal, as they are shown."""
    return {name: _value(fact) for name, fact in refusal.facts().items()}


def _value(fact: object) -> Value:
    if isinstance(fact, str):
        return cut(fact, _LONGEST_FACT)
    if isinstance(fact, bool | int) or fact is None:
        return fact
    if isinstance(fact, tuple):
        return [_value(item) for item in cast("tuple[object, ...]", fact)]
    if is_dataclass(fact):
        return {f.name: _value(getattr(fact, f.name)) for f in fields_of(fact)}
    raise TypeError(f"no fact: {fact!r}")


def _base_name(mode: str) -> str:
    return mode.removeprefix("team_mgmt_")
