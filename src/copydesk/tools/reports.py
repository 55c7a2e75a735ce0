"""The reports of ws_mod: which fields each answer has, in which order.

What lives here: outcomes and refusals made into `Report`. What must not: the
words (`messages`), the form (`report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from itertools import islice
from typing import cast

from copydesk.desk.outcome import Applied, Created, Overwritten, Planned, Reading, Rejected
from copydesk.edit.draft import Draft
from copydesk.edit.locate import cut
from copydesk.edit.request import BatchEdit, BlockDiff
from copydesk.errors import (
    ApprovalRequired,
    Cancelled,
    ConfigInvalid,
    Conflict,
    Crashed,
    Fact,
    HunkRejected,
    PartialMatchFail,
    Refusal,
    SchemaMismatch,
    ServerFailed,
    StateDamaged,
    StateFailed,
    TurnLost,
    Unsettled,
)
from copydesk.tools import evidence, parts
from copydesk.tools.messages import has, say, say_notes_refusal, say_reason
from copydesk.tools.report import Fields, Lang, Report, shown_diff
from copydesk.tools.yaml import Value

LONGEST = 2_000
"""Characters of one text that a caller is told back, or of one fact."""

_SAID = 10
"""So many numbers of a list are said in words."""


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
        **parts.tool_fields(draft, lang),
        "version": draft.base.version,
        **parts.warnings(draft, lang),
    }
    if outcome.declined is not None:
        fields |= {"auto_apply": "declined", "auto_apply_reason": outcome.declined}
    fields["normalized"] = parts.normalized(draft)
    if not brief:
        fields |= parts.plan_evidence(draft)
    summary = say(_planned_saying(draft), lang, parts.numbers(draft))
    if outcome.declined is not None:
        summary = (
            say("auto.declined", lang, {"why": say_reason(outcome.declined, lang)}) + " " + summary
        )
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
        **parts.applied_fields(draft, brief=brief),
    }
    if outcome.context == "fuzz":
        fields |= _drift(plan.base_digest, None if draft.created else draft.base.digest)
    fields |= {
        "changed": outcome.edit_id != 0,
        "edit_id": outcome.edit_id,
        "version": draft.after.version,
        **parts.warnings(draft, lang),
        "normalized": parts.normalized(draft),
        "apply_evidence": parts.apply_evidence(draft, brief=brief),
    }
    fields["summary"] = say(_applied_saying(outcome), lang, parts.numbers(draft))
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
    }
    if not isinstance(outcome.refusal, HunkRejected):  # that one is said without reading the file
        fields |= _drift(plan.base_digest, now.digest if now else None)
    shown: Fields = {}
    if now is not None:
        start = min(plan.place.start, now.line_count)
        stop = max(plan.place.stop, start)
        around = evidence.AROUND
        shown["current"] = evidence.lines_of(now, start - around, stop + around)
    fields["apply_evidence"] = shown
    voices = _VOICES.get(type(plan.request), ())
    why = refusal_words(outcome.refusal, lang, voices)
    fields["summary"] = say("rejected", lang, {"why": why})
    return Report(fields)


_VOICES: dict[type, tuple[str, ...]] = {BatchEdit: ("batch",), BlockDiff: ("notes",)}
"""Whose words a plan is refused in."""


def refused(
    mode: str, path: str | None, refusal: Refusal, lang: Lang, voices: Sequence[str] = ()
) -> Report:
    """The report of a refusal, in the words of `voices`."""
    fields: Fields = {"status": "error", "mode": mode}
    if path is not None:
        fields["path"] = cut(path, LONGEST)
    fields |= {"error": refusal.code, **facts_of(refusal)}
    fields["summary"] = refusal_words(refusal, lang, voices)
    return Report(fields)


def created(mode: str, outcome: Created, lang: Lang) -> Report:
    """The report of a new file."""
    return Report(
        {
            "status": "ok",
            "mode": mode,
            "path": str(outcome.path),
            "total_lines": outcome.after.line_count,
            "size_bytes": outcome.after.size,
            "normalized_trailing_newline_added": outcome.newline_added,
            "edit_id": outcome.edit_id,
            "version": outcome.after.version,
            **parts.lost_warning(outcome.after, None, lang),
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
            "old_total_bytes": outcome.before.size,
            "total_lines": outcome.after.line_count,
            "size_bytes": outcome.after.size,
            "newline_style": outcome.after.newline_style,
            "normalized_trailing_newline_added": outcome.newline_added,
            "changed": outcome.edit_id != 0,
            "edit_id": outcome.edit_id,
            "version": outcome.after.version,
            **parts.lost_warning(outcome.after, outcome.before, lang),
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
        on = {"tool": mode, "path": outcome.path, "range": f"{last + 1}~{outcome.last_wanted}"}
        steps.append(say("next.read_on", lang, on))
    if outcome.cut_in_line:
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


def refusal_words(refusal: Refusal, lang: Lang, voices: Sequence[str] = ()) -> str:
    """What happened and what to do, in words; of a block diff, a line for each problem.

    `voices` is whose words to take where a refusal has such: those of a toolset
    (`batch`), those of a tool that makes one edit (`edit`).
    """
    if refusal.code in ("BLOCK_DIFF_REFUSED", "INVALID_SLICE"):
        return say_notes_refusal(refusal, lang)
    given = refusal.facts().items()
    facts = {key: cut(fact, LONGEST) if isinstance(fact, str) else fact for key, fact in given}
    facts |= _in_words(refusal, lang, voices)
    name = _OWN_WORDS.get(type(refusal), refusal.code)
    for kind in (facts.get("reason"), facts.get("setting")):
        if has(f"{name}.{kind}"):
            name = f"{name}.{kind}"
    for special in ("nested", "before_start"):
        if facts.get(special):
            name = f"{name}.{special}"
    for voice in voices:
        if has(f"{name}.{voice}"):
            name = f"{name}.{voice}"
    reason = f"reason.{facts.get('reason')}"
    if has(reason):
        return say(name, lang, {**facts, "reason": say(reason, lang)})
    return say(name, lang, {**facts, "reason": say_reason(str(facts.get("reason")), lang)})


_OWN_WORDS: dict[type[Refusal], str] = {
    Cancelled: "CANCELLED",
    ConfigInvalid: "CONFIG_INVALID",
    Crashed: "CRASH",
    StateFailed: "STATE_FAILED",
    StateDamaged: "STATE_DAMAGED",
    SchemaMismatch: "STATE_SCHEMA",
    ServerFailed: "SERVER_FAILED",
    TurnLost: "TURN_LOST",
    Unsettled: "UNSETTLED",
}
"""Refusals that share their code with another one and say something else."""


def _planned_saying(draft: Draft) -> str:
    if draft.replaces_nothing:
        return "plan.nothing"
    if isinstance(draft.request, BatchEdit):
        return "plan.batch"
    fills = draft.action == "replace" and not draft.old_count
    return "plan.append" if fills else f"plan.{draft.action}"


def _applied_saying(outcome: Applied) -> str:
    if not outcome.edit_id:
        return "apply.nothing"
    if isinstance(outcome.draft.request, BatchEdit):
        return f"apply.batch.{outcome.context}"
    if isinstance(outcome.draft.request, BlockDiff):
        return f"apply.block_diff.{outcome.context}"
    return f"apply.{outcome.context}"


def _in_words(refusal: Refusal, lang: Lang, voices: Sequence[str]) -> dict[str, Fact]:
    """Facts of a refusal that words alone need."""
    if isinstance(refusal, ApprovalRequired):
        saying = f"approval.{refusal.why}"
        return {"reason": say(saying, lang) if has(saying) else refusal.why}
    if isinstance(refusal, Conflict):
        told = [
            {"expectation": name, **{key: _short(value) for key, value in one.items()}}
            for name, one in refusal.mismatches.items()
        ]
        comma = "；" if lang == "zh" else "; "
        return {"mismatched": comma.join(say("CONFLICT.one", lang, one) for one in told)}
    if isinstance(refusal, PartialMatchFail):
        failures = refusal.failures
        if "edit" in voices:
            first, lines = failures[0], dict.fromkeys(failures[0].lines)
            count = {"matches_count": first.matches_count}
            return {"reason": first.reason, **count, "lines": _first_few(lines)}
        indices = [failure.index for failure in failures]
        return {"failing": len(failures), "indices": _first_few(indices)}
    return {}


def _first_few(numbers: Iterable[int]) -> str:
    shown = list(map(str, islice(numbers, _SAID + 1)))
    return ", ".join([*shown[:_SAID], *["…"] * (len(shown) > _SAID)])


def _short(fact: int | str) -> int | str:
    return cut(fact, LONGEST) if isinstance(fact, str) else fact


def _drift(planned_on: str | None, current: str | None) -> Fields:
    return {
        "file_changed_since_preview": planned_on != current,
        "planned_file_digest_sha256": planned_on or "",
        "current_file_digest_sha256": current or "",
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
        return cut(fact, LONGEST)
    if isinstance(fact, bool | int) or fact is None:
        return fact
    if isinstance(fact, tuple):
        return [_value(item) for item in cast("tuple[object, ...]", fact)]
    if isinstance(fact, Mapping):
        named = cast("Mapping[str, object]", fact)
        return {name: _value(part) for name, part in named.items()}
    if is_dataclass(fact):
        held = ((f.name, getattr(fact, f.name)) for f in fields_of(fact))
        return {name: _value(part) for name, part in held if part is not None}
    raise TypeError(f"no fact: {fact!r}")


def _base_name(mode: str) -> str:
    return mode.removeprefix("team_mgmt_")
