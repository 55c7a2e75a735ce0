"""Every field of a full report: its name, its place in the order, its type, in every situation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Answer
from support.desks import Setup

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


DESK = Setup(
    Config(durability="fast", members={"person": MemberConfig(approval="human")}), {"a.txt": TEXT}
)

Fields = dict[str, Shape]
TYPES = {"str": str, "int": int, "bool": bool, "list": list}


def of(spelled: str) -> Fields:
    """The fields that `name:type name:type` spells."""
    return {name: TYPES[kind] for name, kind in (word.split(":") for word in spelled.split())}


def texts(*names: str) -> Shape:
    return dict.fromkeys(names, str)


LINES: Shape = of("old:int new:int delta:int")
SPAN: Shape = of("start:int end:int")
REPORT = of("status:str mode:str path:str")
PLAN = {**REPORT, **of("hunk_id:str expires_at_ms:int action:str")}
APPLY = {**REPORT, **of("hunk_id:str action:str context_match:str")}
NORMALIZED: Fields = {
    "normalized": {
        **of("file_eof_has_newline:bool content_eof_has_newline:bool"),
        **of("normalized_file_eof_newline_added:bool normalized_content_eof_newline_added:bool"),
        **of("newline_style:str content_newlines_converted:int"),
    }
}
VERSION, SUMMARY = of("version:str"), of("summary:str")
CHANGED = {**of("changed:bool edit_id:int"), **VERSION}
WRITTEN = texts("before", "written", "after")
DRIFT: Fields = {
    **of("file_changed_since_preview:bool"),
    **of("planned_file_digest_sha256:str current_file_digest_sha256:str"),
}
TAILS: Fields = {"evidence_preview": texts("before_tail", "append_preview", "after_tail")}
BLOCK: Fields = {
    "block_range": of("start_line:int end_line:int"),
    "replace_slice": of("start_line:int delete_count:int"),
    "lines": LINES,
}
INSERTED = of("position:str anchor:str inserted_at_line:int inserted_line_count:int")
INSERT: Fields = {
    **of("position:str anchor:str match:str candidates_count:int occurrence_resolved:int"),
    **of("inserted_at_line:int inserted_line_count:int"),
    "lines": LINES,
    "blankline_style": {
        **of("blank_line_count_before:int content_leading_blank_line_count:int"),
        **of("content_trailing_blank_line_count:int blank_line_count_after:int"),
    },
    "style_warning": str,
}
RANGE: Fields = {"range": {"input": str, "resolved": SPAN}, "lines": LINES}
RANGE_EVIDENCE: Fields = {"evidence": texts("before", "range", "after")}
APPLIED: Fields = {"applied_range": SPAN, "lines": LINES}
INSERT_EVIDENCE: Fields = {"evidence_preview": texts("before", "insert_preview", "after")}
APPENDED: Fields = {"append_range": SPAN, **TAILS}
APPEND: Fields = {
    **of("create:bool file_line_count_before:int file_line_count_after:int"),
    "appended_line_count": int,
    "blankline_style": of(
        "file_trailing_blank_line_count:int content_leading_blank_line_count:int"
    ),
    "style_warning": str,
}
BLOCK_PLAN: Fields = {
    **of("start_anchor:str end_anchor:str match:str include_anchors:bool require_unique:bool"),
    **of("strict:bool candidates_count:int occurrence_resolved:int first_candidate_taken:bool"),
    **BLOCK,
}
PREVIEWS = texts("before_preview", "old_preview", "new_preview", "after_preview")

RANGES = (RANGE, RANGE_EVIDENCE, APPLIED)
BY_ANCHOR = ("insert", {"anchor": "line 7", "content": "x"}, INSERT, INSERT_EVIDENCE, INSERTED)
BY_BLOCK = {"start_anchor": "line 4", "end_anchor": "line 6", "content": "x"}
RANGE_EDIT = "prepare_file_range_edit"
KINDS: dict[str, tuple[str, str, dict[str, Any], Fields, Fields, Fields]] = {
    "replace": (RANGE_EDIT, "replace", {"range": "2~3", "content": "x"}, *RANGES),
    "delete": (RANGE_EDIT, "delete", {"range": "2~3", "content": ""}, *RANGES),
    "range at the end": (RANGE_EDIT, "append", {"range": "21~", "content": "x"}, RANGE, RANGE_EVIDENCE, APPENDED),
    "append": ("prepare_file_append", "append", {"content": "x"}, APPEND, TAILS, APPENDED),
    "after": ("prepare_file_insert_after", *BY_ANCHOR),
    "before": ("prepare_file_insert_before", *BY_ANCHOR),
    "block": ("prepare_file_block_replace", "block_replace", BY_BLOCK, BLOCK_PLAN, {"evidence_preview": PREVIEWS}, BLOCK),
}  # fmt: skip
OF_PLAN = ("a plan", "one that is not written at once", "one with a warning")
OF_APPLY = ("exact", "moved", "rejected", "gone", "waits", "changes nothing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", OF_PLAN)
def test_the_fields_of_a_plan(desk: OpenWorkspace, kind: str, situation: str) -> None:
    tool, action, arguments, own, evidence, _ = KINDS[kind]
    given = {"path": "a.txt", **arguments, "report": "full"}
    more: Fields = {}
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


READ: Fields = {
    **REPORT,
    **of("total_lines:int size_bytes:int version:str encoding:str newline_style:str"),
    "file_eof_has_newline": bool,
    "shown_lines": of("start:int end:int count:int"),
    **of("truncated_by_max_lines:bool truncated_by_char_limit:bool"),
}
MADE: Fields = {
    **of("total_lines:int size_bytes:int normalized_trailing_newline_added:bool edit_id:int"),
    **of("version:str summary:str"),
}
OVERWRITTEN: Fields = {
    **of("old_total_lines:int old_total_bytes:int total_lines:int size_bytes:int"),
    **of("newline_style:str normalized_trailing_newline_added:bool"),
    **CHANGED,
    **SUMMARY,
}
STATED = [
    f"{name}_total_{unit}:int" for name in ("known_old", "actual") for unit in ("lines", "bytes")
]
STATS = {"known_old_total_lines": 20, "known_old_total_bytes": len(TEXT)}
ERROR = {**REPORT, "error": str}
WHOLE: dict[str, tuple[str, dict[str, Any], Fields]] = {
    "read": ("read_file", {}, {**READ, **SUMMARY}),
    "read a part": ("read_file", {"range": "2~3"}, {**READ, **SUMMARY}),
    "read past the end": ("read_file", {"range": "19-99"}, {**READ, "range_clipped": bool, **SUMMARY}),
    "create": ("create_new_file", {"path": "b.txt", "content": "x"}, {**REPORT, **MADE}),
    "overwrite": ("overwrite_entire_file", {"content": "x", **STATS}, {**REPORT, **OVERWRITTEN}),
    "overwrite with the same": ("overwrite_entire_file", {"content": TEXT, **STATS}, {**REPORT, **OVERWRITTEN}),
    "overwrite what is not known": ("overwrite_entire_file", {"content": "x", **STATS, "known_old_total_lines": 3}, {**ERROR, **of(" ".join(STATED)), **VERSION, **SUMMARY}),
    "create what is there": ("create_new_file", {"content": "x"}, {**ERROR, "size_bytes": int, **SUMMARY}),
    "read what is not there": ("read_file", {"path": "c.txt"}, {**ERROR, "similar": list, **SUMMARY}),
    "a range past the end": (RANGE_EDIT, {"range": "50", "content": "x"}, {**ERROR, **of("range:str total_lines:int"), **SUMMARY}),
    "an anchor in many lines": ("prepare_file_insert_after", {"anchor": "line", "content": "x"}, {**ERROR, **of("argument:str anchor:str candidates_count:int candidates:list"), **SUMMARY}),
}  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "expected"), WHOLE.values(), ids=WHOLE)
def test_the_fields_of_other_reports(
    desk: OpenWorkspace, tool: str, arguments: dict[str, Any], expected: Fields
) -> None:
    check(desk.call("local", tool, {"path": "a.txt", **arguments}), expected)
