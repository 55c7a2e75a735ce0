"""Refusals in answers: their message, next valid call, facts, and code in an envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

from copydesk import errors
from copydesk.edit.draft import cut
from copydesk.errors import CheckFinding, Fact, FailedEdit, LineShown, Refusal, RejectedHunk
from copydesk.text.relpath import RelPath
from copydesk.tools.messages import has, in_library, say, say_notes_refusal, say_reason
from copydesk.tools.report import (
    LONGEST,
    Answer,
    Envelope,
    Fields,
    Lang,
    Value,
    known,
    named,
    numbered,
)

_SAID_CAUSES = 3  # texts missing from the file whose causes are given
_SAID = 10  # numbers in a list in words
_MOST_PLACES, _DIFFERENCE = 10, 40  # texts that do not fit, and characters of a line of one


_ENDING = ("apply_file_modification", "apply_file_modifications", "discard_hunk")
"""The tools that end a plan, by their names in ws_mod."""


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
    shown = {key: _short(fact) for key, fact in refusal.facts().items()}
    facts = {**shown, **_in_words(refusal, lang, voices), **more}
    name = _OWN_WORDS.get(type(refusal), refusal.code)
    for word in (
        *(facts.get(key) for key in ("reason", "setting", "kind")),
        *(key for key in ("nested", "before_start") if facts.get(key)),
        "move" if facts.get("to") else "",
        facts.get("encoding") if facts.get("character") else "",
        facts.get("variant"),
        *voices,
        "similar" if facts.get("similar") else "",
    ):
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
    match refusal:
        case errors.PartialMatchFail(hunk_id=hunk_id):
            if "edit" not in voices:
                near = (_near_words(failure, lang) for failure in refusal.failures if failure.cause)
                several = [
                    say("PARTIAL_MATCH_FAIL.differs", lang, words)
                    for words in islice(near, _SAID_CAUSES)
                ]
                name = "PARTIAL_MATCH_FAIL.planned" if hunk_id else name
            if hunk_id:
                several.append(say("corrected.planned", lang, {"id": hunk_id}))
        case errors.PatchRejected(rejected=rejected):
            several = [_hunk_words(hunk, lang) for hunk in rejected[:_SAID_CAUSES]]
        case _:
            pass
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
    match refusal:
        case errors.ApprovalRequired(checks=(check, *_)):
            first, names = check_words(check, lang), ", ".join(refusal.accept or ())
            variant = "checks" if refusal.accept else ""
            return {"reason": first, "first": first, "names": names, "variant": variant}
        case errors.ApprovalRequired(why=why):
            saying = f"approval.{why}"
            return {"reason": say(saying, lang) if has(saying) else why}
        case errors.CheckFailed(checks=checks):
            failing = [check_words(check, lang) for check in checks if check.mode == "refuse"]
            return {"failing": len(failing), "first": "; ".join(failing[:_SAID_CAUSES])}
        case errors.Conflict(mismatches=mismatches):
            rows = (
                {"expectation": name, **{key: _short(value) for key, value in values.items()}}
                for name, values in mismatches.items()
            )
            comma = "；" if lang == "zh" else "; "
            return {"mismatched": comma.join(say("CONFLICT.one", lang, row) for row in rows)}
        case errors.PartialMatchFail(failures=(failure, *_)) if "edit" in voices:
            old, reader = ("old_str", "view") if "compat" in voices else ("old_string", "Read")
            if "replace_text" in voices:
                old, reader = "old", f"{'team_mgmt_' * ('team_mgmt' in voices)}read_file"
            return {
                "reason": failure.reason,
                "matches_count": failure.matches_count,
                "lines": _first_few(dict.fromkeys(failure.lines), lang),
                "old": old,
                "reader": reader,
                **_near_words(failure, lang),
                **({"variant": "planned"} if refusal.hunk_id and failure.cause else {}),
            }
        case errors.PartialMatchFail(failures=failures):
            return {
                "failing": len(failures),
                "indices": _first_few((failure.index for failure in failures), lang),
            }
        case errors.PatchRejected(rejected=rejected):
            return {"failing": len(rejected)}
        case errors.WrongMode(called_with=called) if (
            own := called.removeprefix("team_mgmt_")
        ) in _ENDING:
            return {"variant": "now", "other": f"team_mgmt_{called}" if own == called else own}
        case errors.RangeOutOfBounds(total_lines=total):
            return {"next_line": total + 1, "variant": "some" if total else "empty"}
        case errors.ContentRequired(total_lines=total) if total:
            return {"variant": "end"}
        case errors.AnchorNotFound(closest=(near, *_), cause=cause) if not refusal.before_start:
            variant = _variant(cause, refusal.corrected_anchor)
            return {
                "variant": "part_of_line" if "part_of_line" in (cause or ()) else variant,
                "near_line": near.line,
                "causes": cause_words(cause, lang),
            }
        case errors.StaleRead(current=current) | errors.ContentChanged(current=current):
            shown: dict[str, Fact] = (
                {"current_lines": f"{current[0].line}~{current[-1].line}"} if current else {}
            )
            if isinstance(refusal, errors.ContentChanged):
                variant = "cause" if refusal.cause else "moved" if refusal.stands_at else "shown"
                shown |= {"variant": variant, "causes": cause_words(refusal.cause, lang)}
            return shown
        case _:
            return {}


def cause_words(causes: Sequence[str] | None, lang: Lang) -> str:
    """Why two texts that look the same differ."""
    return ("、" if lang == "zh" else ", ").join(
        say(f"cause.{cause}", lang) if has(f"cause.{cause}") else cause for cause in causes or ()
    )


def _variant(cause: Sequence[str] | None, corrected: str | None) -> str:
    """What is known of the text that is closest to one that was not found."""
    return "near" if not cause else "cause" if corrected is None else "corrected"


def _near_words(failure: FailedEdit, lang: Lang) -> dict[str, Fact]:
    """The lines closest to a text that is not in the file, in words."""
    if failure.nearest_lines is None:
        return {}
    return {
        "index": failure.index,
        "variant": (
            _variant(failure.cause, None) if failure.corrected_old_string is None else "corrected"
        ),
        "nearest_lines": failure.nearest_lines,
        "causes": cause_words(failure.cause, lang),
        "alike": _first_few(failure.similar_lines or (), lang),
    }


def _hunk_words(hunk: RejectedHunk, lang: Lang) -> str:
    """Which hunk of a patch does not fit, and why, in words."""
    name = f"PATCH_REJECTED.{hunk.reason}"
    if hunk.nearest_lines is not None:
        name += f".{_variant(hunk.cause, hunk.corrected_lines)}"
    facts = {
        "nearest_lines": hunk.nearest_lines,
        "causes": cause_words(hunk.cause, lang),
        "places": _first_few(hunk.lines or (), lang),
        "refused_as": hunk.refused_as,
    }
    where = {"path": hunk.path, "hunk": hunk.hunk, "patch_line": hunk.patch_line}
    return say("PATCH_REJECTED.one", lang, {**where, "what": say(name, lang, facts)})


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


def check_words(finding: CheckFinding, lang: Lang) -> str:
    """A check's finding, or why it did not run, in one line."""
    if finding.not_run is not None:
        return say(
            f"check.not_run.{finding.not_run}",
            lang,
            {"check": finding.check, "what": finding.message},
        )
    at = f":{finding.line}" if finding.line else ""
    more = f" {say('check.more', lang, {'count': finding.more})}" if finding.more else ""
    return f"{finding.check}: {named(finding.path)}{at}: {finding.message}{more}"


def check_row(finding: CheckFinding, lang: Lang) -> Fields:
    """The finding of a check for a program."""
    not_run = finding.not_run is not None
    return cast(
        Fields, _value(replace(finding, message=check_words(finding, lang)) if not_run else finding)
    )


_VOICES = ("edit", "replace_text", "library")  # the first two where one text was not found
Refusal.words = lambda refusal: in_library(
    refusal_words(refusal, "en", _VOICES[2 * (len(getattr(refusal, "failures", ())) != 1) :])
)


def places_of(refusal: Refusal, path: str | None) -> Fields:
    """Where the first of several texts that do not fit may be meant, and how they differ there."""
    failing: tuple[FailedEdit | RejectedHunk, ...] = ()
    if isinstance(refusal, errors.PatchRejected):
        failing = refusal.rejected
    elif isinstance(refusal, errors.PartialMatchFail) and not refusal.hunk_id:
        failing = refusal.failures
    rows: list[Value] = []
    for one in failing[:_MOST_PLACES]:
        name = one.path if isinstance(one, RejectedHunk) else cut(path or "", LONGEST)
        lines = one.nearest_lines or ", ".join(map(str, one.lines or ()))
        differing = (line[:_DIFFERENCE].rstrip() for line in (one.difference or ())[:2])
        rows.append(" ".join((f"{name}:{lines}" if lines else name, *differing)))
    return {"where": rows} if len(rows) > 1 else {}


def facts_of(refusal: Refusal) -> Fields:
    """The facts of a refusal as they are shown."""
    return {name: _value(fact, name) for name, fact in refusal.facts().items()}


def numbered_lines(lines: Sequence[LineShown]) -> str:
    """Numbered lines, each ended by a newline; gaps give the number of missing lines."""
    shown: list[str] = []
    expected = lines[0].line if lines else 0
    for row in lines:
        if row.line > expected:
            shown.append(f"… ({row.line - expected} lines left out)")
        shown += numbered(row.line, [row.text])
        expected = row.line + 1
    return "".join(f"{line}\n" for line in shown)


def _value(fact: object, name: str = "") -> Value:
    """Convert a fact for display: current lines get numbers, a corrected text stays whole."""
    match fact:
        case tuple() if name == "current":
            return numbered_lines(cast("tuple[LineShown, ...]", fact))
        case str() if name.startswith("corrected_"):
            return fact
        case str():
            return cut(fact, LONGEST)
        case bool() | int() | None:
            return fact
        case tuple():
            return [_value(item) for item in cast("tuple[object, ...]", fact)]
        case Mapping():
            return {name: _value(part) for name, part in cast("Mapping[str, object]", fact).items()}
        case _ if is_dataclass(fact):
            parts = ((part.name, getattr(fact, part.name)) for part in fields_of(fact))
            return {name: _value(part, name) for name, part in parts if part is not None}
        case _:
            raise TypeError(f"no fact: {fact!r}")


# In an envelope, and of the tools of notes.


_SAME = (
    *("ACCESS_DENIED", "CONFLICT", "BINARY_FILE", "FILE_EXISTS", "ENCODING_ERROR"),
    *("INCOMPLETE_READ", "PARTIAL_MATCH_FAIL", "COLLISION_DETECTED", "DUPLICATE_EDITS"),
    *("APPROVAL_REQUIRED", "CHECK_FAILED", "SUSPICIOUS_TEXT"),
)
"""Codes that the envelope has too."""
_CODES = {
    **{code: code for code in _SAME},
    "FILE_NOT_FOUND": "NOT_FOUND",
    **dict.fromkeys(("INVALID_ARGS", "PATH_REQUIRED", "CONTENT_REQUIRED"), "INVALID_PARAM"),
    **dict.fromkeys(("INVALID_RANGE", "RANGE_OUT_OF_BOUNDS"), "INVALID_PARAM"),
    "BUSY": "TIMEOUT",
}


def in_envelope(
    refusal: Refusal,
    arguments: object,
    path: str | None,
    lang: Lang,
    *,
    writes: bool,
    voices: Sequence[str] = ("batch",),
) -> Answer:
    """The envelope of a refusal; `path` as given, `writes`: the tool would have written.

    The message uses the wording of `voices`.
    """
    words = refusal_words(refusal, lang, voices)
    error: Fields = {"code": code_of(refusal), "message": words}
    envelope = Envelope("error", words, arguments, _resolved(refusal, path), error=error)
    facts: Fields = {"applied": False} if writes else {}
    facts |= places_of(refusal, path)
    if isinstance(refusal, errors.PartialMatchFail) and "where" not in facts:
        facts |= known(path=envelope.path)  # beside the place: a long answer may be cut
    return Answer({**facts, **facts_of(refusal)}, envelope=envelope)


def code_of(refusal: Refusal) -> str:
    """The envelope's code for a refusal; the envelope has only a few."""
    match refusal:
        case errors.Crashed():
            return "INTERNAL_ERROR"
        case errors.NotAFile(kind="directory"):
            return "IS_DIRECTORY"
        case errors.InvalidPath(reason=reason):
            malformed = "NUL" in reason or "surrogate" in reason
            return "INVALID_PARAM" if malformed else "ACCESS_DENIED"
        case errors.Failed(reason=reason) if reason.startswith(("EACCES", "EPERM", "EROFS")):
            return "PERMISSION_DENIED"
        case errors.Failed(reason=reason) if reason.startswith(("ETIMEDOUT", "ETIME")):
            return "TIMEOUT"
        case _:
            return _CODES.get(refusal.code, "EXECUTION_ERROR")


def _resolved(refusal: Refusal, path: str | None) -> str | None:
    """The path as a success would show it; None if it is outside the workspace."""
    is_malformed = isinstance(refusal, errors.InvalidArgs) and refusal.argument == "path"
    if path and not is_malformed and not isinstance(refusal, errors.InvalidPath):
        with suppress(Refusal):
            return cut(str(RelPath.parse(path)), LONGEST)
    return None


def note_refused(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> Answer:
    """The answer for a refusal of the tools of notes."""
    code, words = refusal.code, refusal_words(refusal, lang, ("notes",))
    status = "not_found" if code in ("BLOCK_NOT_FOUND", "NOTEBOOK_NOT_FOUND") else "error"
    fields = {"status": status, "mode": name, "error": code, **facts_of(refusal), "summary": words}
    return Answer(fields, said=f"[{code}] {words}")
