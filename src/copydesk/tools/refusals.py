"""Rendering of refusals: message, next valid call, and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

from copydesk import errors
from copydesk.edit.draft import cut
from copydesk.errors import CheckFinding, Fact, FailedEdit, LineShown, Refusal, RejectedHunk
from copydesk.tools import report_fields
from copydesk.tools.messages import has, say, say_notes_refusal, say_reason
from copydesk.tools.report import LONGEST, Fields, Lang, Value, named

_SAID_CAUSES = 3  # texts missing from the file whose causes are given
_SAID = 10  # numbers in a list in words


def refusal_words(
    refusal: Refusal,
    lang: Lang,
    voices: Sequence[str] = (),
    more: Mapping[str, Fact] = MappingProxyType({}),
) -> str:
    """What happened and what to do, in words; for a block diff, one line per problem.

    `voices` select special wordings: those of a toolset (`batch`), those of a tool that makes one
    edit (`edit`). `more` are additional facts.
    """
    if refusal.code in ("BLOCK_DIFF_REFUSED", "INVALID_SLICE"):
        return say_notes_refusal(refusal, lang)
    facts = {key: _short(fact) for key, fact in refusal.facts().items()}
    facts |= {**_in_words(refusal, lang, voices), **more}
    name = _OWN_WORDS.get(type(refusal), refusal.code)
    flags = {"nested": "nested", "before_start": "before_start", "to": "move"}
    special = (
        *(facts.get(key) for key in ("reason", "setting", "kind")),
        *(word for key, word in flags.items() if facts.get(key)),
        facts.get("variant"),
    )
    for word in (*special, *voices):
        if has(f"{name}.{word}"):
            name = f"{name}.{word}"
    mirror = "team_mgmt" in voices
    reason = f"reason.{facts.get('reason')}"
    if has(reason):
        return say(name, lang, {**facts, "reason": say(reason, lang)}, mirror=mirror)
    for key in ("reason", "operation", "rule", "kind", "wanted", "verdict"):
        if isinstance(fact := facts.get(key), str):
            facts[key] = say_reason(fact, lang)
    several: list[str] = []
    if isinstance(refusal, errors.PartialMatchFail) and "edit" not in voices:
        near = [_near_words(one, lang) for one in refusal.failures if one.cause]
        several = [say("PARTIAL_MATCH_FAIL.differs", lang, one) for one in near[:_SAID_CAUSES]]
    if isinstance(refusal, errors.PartialMatchFail) and refusal.hunk_id:
        name = name if "edit" in voices else "PARTIAL_MATCH_FAIL.planned"
        several.append(say("corrected.planned", lang, {"id": refusal.hunk_id}))
    if isinstance(refusal, errors.PatchRejected):
        hunks = [_hunk_words(one, lang) for one in refusal.rejected[:_SAID_CAUSES]]
        several = [say("PATCH_REJECTED.one", lang, one) for one in hunks]
    return " ".join((say(name, lang, facts, mirror=mirror), *several))


_OWN_WORDS: dict[type[Refusal], str] = {
    errors.Cancelled: "CANCELLED",
    errors.ConfigInvalid: "CONFIG_INVALID",
    errors.Crashed: "CRASH",
    errors.StateFailed: "STATE_FAILED",
    errors.StateDamaged: "STATE_DAMAGED",
    errors.SchemaMismatch: "STATE_SCHEMA",
    errors.ServerFailed: "SERVER_FAILED",
    errors.LockLost: "TURN_LOST",
    errors.Unsettled: "UNSETTLED",
}
"""Refusals that share their code with another one but have their own message."""


def _in_words(refusal: Refusal, lang: Lang, voices: Sequence[str]) -> dict[str, Fact]:
    """Facts of a refusal that only its message needs."""
    if isinstance(refusal, errors.ApprovalRequired):
        if refusal.checks:
            one, names = check_words(refusal.checks[0], lang), ", ".join(refusal.accept or ())
            variant = "checks" if refusal.accept else ""
            return {"reason": one, "first": one, "names": names, "variant": variant}
        saying = f"approval.{refusal.why}"
        return {"reason": say(saying, lang) if has(saying) else refusal.why}
    if isinstance(refusal, errors.CheckFailed):
        failing = [one for one in refusal.checks if one.mode == "refuse"]
        few = "; ".join(check_words(one, lang) for one in failing[:_SAID_CAUSES])
        return {"failing": len(failing), "first": few}
    if isinstance(refusal, errors.Conflict):
        told = [
            {"expectation": name, **{key: _short(value) for key, value in one.items()}}
            for name, one in refusal.mismatches.items()
        ]
        comma = "；" if lang == "zh" else "; "
        return {"mismatched": comma.join(say("CONFLICT.one", lang, one) for one in told)}
    if isinstance(refusal, errors.PartialMatchFail):
        failures = refusal.failures
        if "edit" in voices:
            first, lines = failures[0], dict.fromkeys(failures[0].lines)
            old, reader = ("old_str", "view") if "compat" in voices else ("old_string", "Read")
            if "replace_text" in voices:
                old, reader = "old", f"{'team_mgmt_' * ('team_mgmt' in voices)}read_file"
            return {
                "reason": first.reason,
                "matches_count": first.matches_count,
                "lines": _first_few(lines, lang),
                "old": old,
                "reader": reader,
                **_near_words(first, lang),
            }
        indices = [failure.index for failure in failures]
        return {"failing": len(failures), "indices": _first_few(indices, lang)}
    if isinstance(refusal, errors.PatchRejected):
        return {"failing": len(refusal.rejected)}
    if isinstance(refusal, errors.RangeOutOfBounds):
        variant = "some" if refusal.total_lines else "empty"
        return {"next_line": refusal.total_lines + 1, "variant": variant}
    if isinstance(refusal, errors.ContentRequired) and refusal.total_lines:
        return {"variant": "end"}
    if isinstance(refusal, errors.AnchorNotFound):
        return _anchor_words(refusal, lang)
    shown: dict[str, Fact] = {}
    if isinstance(refusal, errors.StaleRead | errors.ContentChanged) and refusal.current:
        shown["current_lines"] = f"{refusal.current[0].line}~{refusal.current[-1].line}"
    if isinstance(refusal, errors.ContentChanged):
        variant = "cause" if refusal.cause else "moved" if refusal.stands_at else "shown"
        shown |= {"variant": variant, "causes": report_fields.cause_words(refusal.cause, lang)}
    return shown


def _anchor_words(refusal: errors.AnchorNotFound, lang: Lang) -> dict[str, Fact]:
    """The line closest to an anchor that matches no line, in words."""
    if refusal.before_start or not refusal.closest:
        return {}
    variant = _variant(refusal.cause, refusal.corrected_anchor)
    variant = "part_of_line" if "part_of_line" in (refusal.cause or ()) else variant
    near_line = refusal.closest[0].line
    return {
        "variant": variant,
        "near_line": near_line,
        "causes": report_fields.cause_words(refusal.cause, lang),
    }


def _variant(cause: Sequence[str] | None, corrected: str | None) -> str:
    """What is known of the text that is closest to one that was not found."""
    if not cause:
        return "near"
    return "cause" if corrected is None else "corrected"


def _near_words(failure: FailedEdit, lang: Lang) -> dict[str, Fact]:
    """The lines closest to a text that is not in the file, in words."""
    if failure.nearest_lines is None:
        return {}
    variant = "cause" if failure.cause else "near"
    if failure.corrected_old_string is not None:
        variant = "corrected"
    causes, lines = report_fields.cause_words(failure.cause, lang), failure.nearest_lines
    return {"index": failure.index, "variant": variant, "nearest_lines": lines, "causes": causes}


def _hunk_words(one: RejectedHunk, lang: Lang) -> dict[str, Fact]:
    """Which hunk of a patch does not fit, and why, in words."""
    name = f"PATCH_REJECTED.{one.reason}"
    if one.nearest_lines is not None:
        name += f".{_variant(one.cause, one.corrected_lines)}"
    facts: dict[str, Fact] = {
        "nearest_lines": one.nearest_lines or "",
        "causes": report_fields.cause_words(one.cause, lang),
        "places": _first_few(one.lines or (), lang),
        "refused_as": one.refused_as or "",
    }
    what = say(name, lang, facts)
    return {"path": one.path, "hunk": one.hunk, "patch_line": one.patch_line, "what": what}


def _first_few(numbers: Iterable[int], lang: Lang) -> str:
    """The numbers as a list in words; only the first of many."""
    few = list(map(str, islice(numbers, _SAID + 1)))
    if len(few) > _SAID:
        few[_SAID] = "…"
    if lang == "zh" or len(few) < 2:
        return "、".join(few)
    return f"{', '.join(few[:-1])}{', ' if len(few) > _SAID else ' and '}{few[-1]}"


def _short(fact: Any) -> Any:
    return cut(fact, LONGEST) if isinstance(fact, str) else fact


def check_words(one: CheckFinding, lang: Lang) -> str:
    """A check's finding, or why it did not run, in one line."""
    if one.not_run is not None:
        facts = {"check": one.check, "what": one.message}
        return say(f"check.not_run.{one.not_run}", lang, facts)
    at = f":{one.line}" if one.line else ""
    more = f" {say('check.more', lang, {'count': one.more})}" if one.more else ""
    return f"{one.check}: {named(one.path)}{at}: {one.message}{more}"


def check_row(one: CheckFinding, lang: Lang) -> Fields:
    """The finding of a check for a program."""
    message = one.message if one.not_run is None else check_words(one, lang)
    return cast(Fields, _value(replace(one, message=message)))


def facts_of(refusal: Refusal) -> Fields:
    """The facts of a refusal as they are shown."""
    return {name: _named_value(name, fact) for name, fact in refusal.facts().items()}


def _named_value(name: str, fact: object) -> Value:
    """Convert a fact for display: current lines get numbers, a corrected text stays whole."""
    if name == "current" and isinstance(fact, tuple):
        return numbered_lines(cast("tuple[LineShown, ...]", fact))
    if name.startswith("corrected_") and isinstance(fact, str):
        return fact
    return _value(fact)


def numbered_lines(lines: Sequence[LineShown]) -> str:
    """Numbered lines, each ended by a newline; gaps give the number of missing lines."""
    shown: list[str] = []
    before: int | None = None
    for one in lines:
        if before is not None and one.line > before + 1:
            shown.append(f"… ({one.line - before - 1} lines left out)")
        shown += report_fields.numbered(one.line, [one.text])
        before = one.line
    return "".join(f"{line}\n" for line in shown)


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
        return {name: _named_value(name, part) for name, part in held if part is not None}
    raise TypeError(f"no fact: {fact!r}")
