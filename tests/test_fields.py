"""Every field of a full report: its name, its place in the order, its type, in every situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.report import Answer

TEXT = "".join(f"line {number}\n" for number in range(1, 21))
Shape = type | dict[str, "Shape"]


def shape(value: object) -> Shape:
    """The names and types of a report's fields; those of a list are of its items."""
    if isinstance(value, Mapping):
        return {str(name): shape(inner) for name, inner in value.items()}
    return type(value)


def check(answer: Answer, expected: Mapping[str, Shape]) -> None:
    """The fields are these, in this order, also those within fields."""
    found = shape(answer.fields)
    assert isinstance(found, dict)
    assert found == expected
    assert names(found) == names(expected)


def names(fields: Mapping[str, Shape]) -> list[object]:
    return [[name, names(one) if isinstance(one, dict) else 0] for name, one in fields.items()]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OpenWorkspace]:
    Path(tmp_path, "a.txt").write_text(TEXT)
    members = {"person": MemberConfig(approval="human")}
    config = Config(durability="fast", members=members)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        yield opened


LINES: Shape = {"old": int, "new": int, "delta": int}
SPAN: Shape = {"start": int, "end": int}
REPORT: dict[str, Shape] = {"status": str, "mode": str, "path": str}
PLAN: dict[str, Shape] = {**REPORT, "hunk_id": str, "expires_at_ms": int, "action": str}
APPLY: dict[str, Shape] = {**REPORT, "hunk_id": str, "action": str, "context_match": str}
NORMALIZED: dict[str, Shape] = {
    "normalized": {
        "file_eof_has_newline": bool,
        "content_eof_has_newline": bool,
        "normalized_file_eof_newline_added": bool,
        "normalized_content_eof_newline_added": bool,
        "newline_style": str,
        "content_newlines_converted": int,
    }
}
VERSION: dict[str, Shape] = {"version": str}
SUMMARY: dict[str, Shape] = {"summary": str}
CHANGED: dict[str, Shape] = {"changed": bool, "edit_id": int, **VERSION}
WRITTEN: Shape = {"before": str, "written": str, "after": str}
DRIFT: dict[str, Shape] = {
    "file_changed_since_preview": bool,
    "planned_file_digest_sha256": str,
    "current_file_digest_sha256": str,
}
TAILS: dict[str, Shape] = {
    "evidence_preview": {"before_tail": str, "append_preview": str, "after_tail": str}
}
BLOCK: dict[str, Shape] = {
    "block_range": {"start_line": int, "end_line": int},
    "replace_slice": {"start_line": int, "delete_count": int},
    "lines": LINES,
}
INSERT: dict[str, Shape] = {
    "position": str,
    "anchor": str,
    "match": str,
    "candidates_count": int,
    "occurrence_resolved": int,
    "inserted_at_line": int,
    "inserted_line_count": int,
    "lines": LINES,
    "blankline_style": {
        "blank_line_count_before": int,
        "content_leading_blank_line_count": int,
        "content_trailing_blank_line_count": int,
        "blank_line_count_after": int,
    },
    "style_warning": str,
}
INSERTED: dict[str, Shape] = {
    "position": str,
    "anchor": str,
    "inserted_at_line": int,
    "inserted_line_count": int,
}
RANGE: dict[str, Shape] = {"range": {"input": str, "resolved": SPAN}, "lines": LINES}
RANGE_EVIDENCE: dict[str, Shape] = {"evidence": {"before": str, "range": str, "after": str}}
APPLIED: dict[str, Shape] = {"applied_range": SPAN, "lines": LINES}
INSERT_EVIDENCE: dict[str, Shape] = {
    "evidence_preview": {"before": str, "insert_preview": str, "after": str}
}

RANGES: tuple[dict[str, Shape], ...] = (RANGE, RANGE_EVIDENCE, APPLIED)
Fields = dict[str, Shape]
KINDS: dict[str, tuple[str, str, dict[str, Any], Fields, Fields, Fields]] = {
    "replace": ("prepare_file_range_edit", "replace", {"range": "2~3", "content": "x"}, *RANGES),
    "delete": ("prepare_file_range_edit", "delete", {"range": "2~3", "content": ""}, *RANGES),
    "range at the end": (
        *("prepare_file_range_edit", "append", {"range": "21~", "content": "x"}),
        *(RANGE, RANGE_EVIDENCE, {"append_range": SPAN, **TAILS}),
    ),
    "append": (
        *("prepare_file_append", "append", {"content": "x"}),
        {
            "create": bool,
            "file_line_count_before": int,
            "file_line_count_after": int,
            "appended_line_count": int,
            "blankline_style": {
                "file_trailing_blank_line_count": int,
                "content_leading_blank_line_count": int,
            },
            "style_warning": str,
        },
        TAILS,
        {"append_range": SPAN, **TAILS},
    ),
    **{
        position: (
            *(f"prepare_file_insert_{position}", "insert", {"anchor": "line 7", "content": "x"}),
            *(INSERT, INSERT_EVIDENCE, INSERTED),
        )
        for position in ("after", "before")
    },
    "block": (
        "prepare_file_block_replace",
        "block_replace",
        {"start_anchor": "line 4", "end_anchor": "line 6", "content": "x"},
        {
            "start_anchor": str,
            "end_anchor": str,
            "match": str,
            "include_anchors": bool,
            "require_unique": bool,
            "strict": bool,
            "candidates_count": int,
            "occurrence_resolved": int,
            "first_candidate_taken": bool,
            **BLOCK,
        },
        {
            "evidence_preview": {
                "before_preview": str,
                "old_preview": str,
                "new_preview": str,
                "after_preview": str,
            }
        },
        BLOCK,
    ),
}  # fmt: skip
OF_PLAN = ("a plan", "one that is not written at once", "one with a warning")
OF_APPLY = ("exact", "moved", "rejected", "gone", "waits", "changes nothing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", OF_PLAN)
def test_the_fields_of_a_plan(desk: OpenWorkspace, kind: str, situation: str) -> None:
    tool, action, arguments, own, evidence, _ = KINDS[kind]
    given = {"path": "a.txt", **arguments, "report": "full"}
    more: dict[str, Shape] = {}
    if situation == "one that is not written at once":
        given, more = {**given, "apply": "auto"}, {"auto_apply": str, "auto_apply_reason": str}
    elif situation == "one with a warning" and arguments["content"]:
        given, more = {**given, "content": "\ufffd"}, {"warnings": list}
    member = "person" if "auto_apply" in more else "local"
    answer = desk.call(member, tool, given)
    check(answer, {**PLAN, **own, **VERSION, **more, **NORMALIZED, **evidence, **SUMMARY})
    assert (answer.fields["action"], answer.fields["mode"]) == (action, tool)
    assert {**answer.data} == {**answer.fields, "diff": answer.diff, "next": [*answer.next_steps]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", OF_APPLY)
def test_the_fields_of_an_apply(
    desk: OpenWorkspace, tmp_path: Path, kind: str, situation: str
) -> None:
    tool, action, arguments, _, _, own = KINDS[kind]
    file, member = tmp_path / "a.txt", "person" if situation == "waits" else "local"
    given = {"path": "a.txt", **arguments}
    plan = desk.call(member, tool, given).fields
    if situation == "moved":
        file.write_text(f"above\n{TEXT}")
    elif situation == "rejected":
        file.write_text("".join(f"another text {number}\n" for number in range(30)))
    elif situation == "gone":
        file.unlink()
    elif situation == "changes nothing" and kind == "replace":
        plan = desk.call("local", tool, {**given, "content": "line 2\nline 3"}).fields
    apply = {"hunk_id": plan["hunk_id"], "report": "full"}
    answer = desk.call(member, "apply_file_modification", apply)
    is_end = action == "append"
    match situation:
        case "waits":
            check(answer, {**PLAN, "error": str, "why": str, **SUMMARY})
            assert (answer.fields["status"], answer.fields["action"]) == ("pending", action)
        case "gone":
            told = {key: answer.fields[key] for key in ("status", "context_match", "action")}
            assert told == {"status": "error", "context_match": "rejected", "action": action}
            check(answer, {**APPLY, "error": str, **DRIFT, "apply_evidence": {}, **SUMMARY})
        case "rejected" if not is_end:
            assert answer.fields["context_match"] == "rejected"
            found = shape(answer.fields)
            assert isinstance(found, dict)
            assert list(found)[: len(APPLY) + 1] == [*APPLY, "error"]
            assert list(found)[-1] == "summary"
            assert found["apply_evidence"] == {"current": str}
            assert {**APPLY, "error": str, **DRIFT, **VERSION, **SUMMARY}.items() <= found.items()
        case _:
            drifted = DRIFT if answer.fields["context_match"] == "fuzz" else {}
            assert bool(drifted) is (situation in ("moved", "rejected"))
            end = {**CHANGED, **NORMALIZED, "apply_evidence": WRITTEN, **SUMMARY}
            check(answer, {**APPLY, **own, **drifted, **end})
            nothing = situation == "changes nothing" and kind == "replace"
            assert answer.fields["changed"] is not nothing
            assert {**answer.data} == answer.fields | ({} if nothing else {"diff": answer.diff})


READ: dict[str, Shape] = {
    **REPORT,
    "total_lines": int,
    "size_bytes": int,
    **VERSION,
    "encoding": str,
    "newline_style": str,
    "file_eof_has_newline": bool,
    "shown_lines": {**SPAN, "count": int},
    "truncated_by_max_lines": bool,
    "truncated_by_char_limit": bool,
}
MADE: dict[str, Shape] = {
    "total_lines": int,
    "size_bytes": int,
    "normalized_trailing_newline_added": bool,
    "edit_id": int,
    **VERSION,
    **SUMMARY,
}
OVERWRITTEN: dict[str, Shape] = {
    "old_total_lines": int,
    "old_total_bytes": int,
    "total_lines": int,
    "size_bytes": int,
    "newline_style": str,
    "normalized_trailing_newline_added": bool,
    **CHANGED,
    **SUMMARY,
}
STATED = ("known_old", "actual")
STATS = {"known_old_total_lines": 20, "known_old_total_bytes": len(TEXT)}
ERROR: dict[str, Shape] = {**REPORT, "error": str}
WHOLE: dict[str, tuple[str, dict[str, Any], dict[str, Shape]]] = {
    "read": ("read_file", {}, {**READ, **SUMMARY}),
    "read a part": ("read_file", {"range": "2~3"}, {**READ, **SUMMARY}),
    "read past the end": (
        *("read_file", {"range": "19-99"}),
        {**READ, "range_clipped": bool, **SUMMARY},
    ),
    "create": ("create_new_file", {"path": "b.txt", "content": "x"}, {**REPORT, **MADE}),
    "overwrite": ("overwrite_entire_file", {"content": "x", **STATS}, {**REPORT, **OVERWRITTEN}),
    "overwrite with the same": (
        *("overwrite_entire_file", {"content": TEXT, **STATS}),
        {**REPORT, **OVERWRITTEN},
    ),
    "overwrite what is not known": (
        *("overwrite_entire_file", {"content": "x", **STATS, "known_old_total_lines": 3}),
        {
            **ERROR,
            **{f"{name}_total_{unit}": int for name in STATED for unit in ("lines", "bytes")},
            **VERSION,
            **SUMMARY,
        },
    ),
    "create what is there": (
        "create_new_file",
        {"content": "x"},
        {**ERROR, "size_bytes": int, **SUMMARY},
    ),
    "read what is not there": (
        *("read_file", {"path": "c.txt"}),
        {**ERROR, "similar": list, **SUMMARY},
    ),
    "a range past the end": (
        *("prepare_file_range_edit", {"range": "50", "content": "x"}),
        {**ERROR, "range": str, "total_lines": int, **SUMMARY},
    ),
    "an anchor in many lines": (
        *("prepare_file_insert_after", {"anchor": "line", "content": "x"}),
        {
            **ERROR,
            "argument": str,
            "anchor": str,
            "candidates_count": int,
            "candidates": list,
            **SUMMARY,
        },
    ),
}


@pytest.mark.parametrize(("tool", "arguments", "expected"), WHOLE.values(), ids=WHOLE)
def test_the_fields_of_other_reports(
    desk: OpenWorkspace, tool: str, arguments: dict[str, Any], expected: dict[str, Shape]
) -> None:
    check(desk.call("local", tool, {"path": "a.txt", **arguments}), expected)
