"""The reports of an edit that was taken back, or could not be.

What lives here: these outcomes made into `Report`. What must not: the words
(`messages`), the form (`report`).
"""

from __future__ import annotations

from copydesk.desk.outcome import NotUndone, Undone
from copydesk.errors import ContentChanged
from copydesk.text.snapshot import Text
from copydesk.text.unified import Region, regions
from copydesk.tools import evidence, reports
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang, Report, shown_diff
from copydesk.tools.yaml import Value

_MOST_REGIONS = 50
_BRIEF_LINES = 2


def done(mode: str, outcome: Undone, lang: Lang, *, brief: bool = False) -> Report:
    """The report of an edit that was taken back, or of which nothing was left."""
    entry, after = outcome.entry, outcome.after
    found = regions(outcome.base, outcome.change)
    old = sum(region.stop - region.start for region in found)
    new = sum(len(region.new) for region in found)
    fields: Fields = {
        "status": "ok",
        "mode": mode,
        "path": str(entry.path),
        "edit_id": outcome.edit_id,
        "undone_edit_id": entry.edit_id,
        "action": _action(outcome, old, new),
        "context_match": outcome.context,
        "regions": _rows(found),
        "lines": {"old": old, "new": new, "delta": new - old},
    }
    if outcome.context == "fuzz":
        fields |= _drift(entry.after, outcome.base.digest)
    fields["changed"] = outcome.edit_id != 0
    shown: Fields = {}
    if entry.kind != "create":
        fields["version"] = after.version
        shown = _evidence(after, found, brief=brief)
    fields["apply_evidence"] = shown
    facts = {"undone": entry.edit_id, "path": entry.path, "old": old, "new": new}
    summary = say(_saying(outcome), lang, facts)
    if brief:
        return Report({**fields, "summary": summary})
    diff, was_cut = shown_diff(outcome.diff, outcome.base.encoding)
    if was_cut:
        fields["diff_truncated"] = True
    again = say("next.redo", lang, {"tool": mode, "id": outcome.edit_id})
    steps = (again,) if outcome.edit_id else ()
    return Report({**fields, "summary": summary}, diff=diff, next_steps=steps)


def refused(mode: str, outcome: NotUndone, lang: Lang) -> Report:
    """The report of an edit that could not be taken back."""
    entry, refusal, now = outcome.entry, outcome.refusal, outcome.current
    fields: Fields = {
        "status": "error",
        "mode": mode,
        "path": str(entry.path),
        "edit_id": entry.edit_id,
        "context_match": "rejected",
        "error": refusal.code,
        **reports.facts_of(refusal),
    }
    if now is not None:
        fields |= _drift(entry.after, now.digest)
        around = evidence.AROUND
        start, stop = outcome.lines
        lines = evidence.lines_of(now, start - around, stop + around)
        fields["apply_evidence"] = {"current": lines}
    fields["summary"] = _why_not(outcome, mode, lang)
    return Report(fields)


def _rows(found: tuple[Region, ...]) -> list[Value]:
    """The lines, as they are counted now, of the first regions."""
    rows: list[Value] = []
    shift = 0
    for region in found[:_MOST_REGIONS]:
        start = region.start + shift
        rows.append({"start_line": start + 1, "end_line": start + len(region.new)})
        shift += len(region.new) - (region.stop - region.start)
    return rows


def _evidence(after: Text, found: tuple[Region, ...], *, brief: bool) -> Fields:
    """What stands now where the first region is."""
    if not found:
        return {}
    start, stop = found[0].start, found[0].start + len(found[0].new)
    if brief:
        return {"written": evidence.lines_of(after, start, min(stop, start + _BRIEF_LINES))}
    return {
        "before": evidence.before(after, start),
        "written": evidence.lines_of(after, start, stop),
        "after": evidence.after(after, stop),
    }


def _action(outcome: Undone, old: int, new: int) -> str:
    """What taking the edit back does to the file."""
    if outcome.entry.kind in ("create", "remove"):
        return "remove" if outcome.entry.kind == "create" else "create"
    if old and new:
        return "replace"
    return "insert" if new else "delete"


def _saying(outcome: Undone) -> str:
    if not outcome.edit_id:
        return "undo.nothing"
    if outcome.entry.kind in ("create", "remove"):
        return f"undo.{outcome.entry.kind}"
    return f"undo.{outcome.context}"


def _why_not(outcome: NotUndone, mode: str, lang: Lang) -> str:
    edit_id, refusal = outcome.entry.edit_id, outcome.refusal
    changed = refusal if isinstance(refusal, ContentChanged) else None
    if changed and changed.undone_by:
        facts = {"id": edit_id, "by": changed.undone_by, "tool": mode}
        return say("undo.already", lang, facts)
    why = reports.refusal_words(refusal, lang, ("undo",))
    words = say("undo.refused", lang, {"id": edit_id, "why": why})
    if not (changed and changed.later_edit_ids):
        return words
    return f"{words} {say('undo.later', lang, {'ids': changed.later_edit_ids, 'tool': mode})}"


def _drift(after: str, current: str) -> Fields:
    return {
        "file_changed_since_preview": after != current,
        "planned_file_digest_sha256": after,
        "current_file_digest_sha256": current,
    }
