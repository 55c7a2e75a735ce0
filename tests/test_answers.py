"""Answers: what they tell of each kind of edit, at each length, and the notices on any of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Answer, Envelope, Fields, Original
from copydesk.tools.reports import with_notices
from support.desks import Setup
from support.rows import each_row

TEXT = "".join(f"line {number}\n" for number in range(1, 21))
DESK = Setup(files={"a.txt": TEXT})
DRIFT = ("file_changed_since_preview", "planned_file_digest_sha256", "current_file_digest_sha256")
END = ("changed", "edit_id", "version", "normalized", "apply_evidence", "summary")


def call(desk: OpenWorkspace, tool: str, **arguments: object) -> Answer:
    answer = desk.call("local", tool, {"path": "a.txt", **arguments})
    assert not answer.is_error, answer.text
    return answer


def applied(desk: OpenWorkspace, plan: Answer, **arguments: object) -> Answer:
    given = {"hunk_id": plan.fields["hunk_id"], **arguments}
    return desk.call("local", "apply_file_modification", given)


KINDS: list[tuple[str, dict[str, Any], tuple[str, ...], tuple[str, ...], str]] = [
    ("prepare_file_range_edit", {"range": "2~3", "content": "x"}, ("range", "lines"), ("applied_range", "lines"), "evidence"),
    ("prepare_file_range_edit", {"range": "21~", "content": "x"}, ("range", "lines"), ("append_range", "evidence_preview"), "evidence"),
    ("prepare_file_range_edit", {"edits": [{"range": "2", "content": "x"}, {"range": "9", "content": ""}]}, ("edits_count", "regions", "lines"), ("regions", "lines"), "evidence"),
    ("prepare_batch_edit", {"edits": [{"old_string": "line 4", "new_string": "x"}]}, ("edits_count", "regions", "lines"), ("regions", "lines"), "evidence"),
    ("prepare_file_append", {"content": "x"}, ("create", "file_line_count_before", "file_line_count_after", "appended_line_count", "blankline_style", "style_warning"), ("append_range", "evidence_preview"), "evidence_preview"),
    ("prepare_file_insert_after", {"anchor": "line 7", "content": "x"}, ("position", "anchor", "match", "candidates_count", "occurrence_resolved", "inserted_at_line", "inserted_line_count", "lines", "blankline_style", "style_warning"), ("position", "anchor", "inserted_at_line", "inserted_line_count"), "evidence_preview"),
    ("prepare_file_block_replace", {"start_anchor": "line 4", "end_anchor": "line 6", "content": "x"}, ("start_anchor", "end_anchor", "match", "include_anchors", "require_unique", "strict", "candidates_count", "occurrence_resolved", "first_candidate_taken", "block_range", "replace_slice", "lines"), ("block_range", "replace_slice", "lines"), "evidence_preview"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "planned", "done", "evidence"), KINDS)
def test_a_kind_has_fields_of_its_own(
    desk: OpenWorkspace,
    tool: str,
    arguments: dict[str, Any],
    planned: tuple[str, ...],
    done: tuple[str, ...],
    evidence: str,
) -> None:
    plan = call(desk, tool, **arguments)
    head = ("status", "mode", "path", "hunk_id", "expires_at_ms", "action")
    assert tuple(plan.fields) == (*head, *planned, "version", "normalized", evidence, "summary")
    written = applied(desk, plan)
    head = ("status", "mode", "path", "hunk_id", "action", "context_match")
    assert tuple(written.fields) == (*head, *done, *END)


def test_an_operation_has_no_lines_beside_its_diff(desk: OpenWorkspace) -> None:
    moved = call(desk, "prepare_file_move", to="b.txt")
    assert tuple(moved.fields)[5:] == ("action", "to", "size_bytes", "version", "summary")
    assert tuple(applied(desk, moved).fields)[6:] == (
        *("to", "size_bytes", "changed", "edit_id", "version", "apply_evidence", "summary"),
    )
    deleted = call(desk, "prepare_file_delete", path="b.txt")
    fields = applied(desk, deleted).fields
    assert tuple(fields)[6:] == (
        *("size_bytes", "binary", "lines", "changed", "edit_id", "apply_evidence", "summary"),
    )
    assert fields["apply_evidence"] == {}


def test_a_plan_that_changes_nothing_says_so(desk: OpenWorkspace) -> None:
    plan = call(desk, "prepare_file_range_edit", range="2", content="line 2")
    assert plan.fields["changed"] is False
    assert "changed" not in call(desk, "prepare_file_range_edit", range="2", content="x").fields


@pytest.mark.parametrize(
    ("length", "first"),
    [
        (None, "fuzz a.txt:3 (planned 2)"),
        ("brief", "fuzz a.txt:3 (planned 2)"),
        ("full", "```yaml"),
    ],
)
def test_an_edit_that_moved_shows_its_diff_in_any_length(
    desk: OpenWorkspace, tmp_path: Path, length: str | None, first: str
) -> None:
    plan = call(desk, "prepare_file_range_edit", range="2", content="x")
    Path(tmp_path, "a.txt").write_text(f"above\n{TEXT}")
    answer = applied(desk, plan, report=length)
    assert answer.text.startswith(first)
    assert "```diff" in answer.text
    assert set(DRIFT) < set(answer.fields)
    assert answer.data["diff"]


def test_an_edit_at_its_place_is_one_line_whose_data_are_complete(desk: OpenWorkspace) -> None:
    answer = applied(desk, call(desk, "prepare_file_range_edit", range="2", content="x"))
    assert answer.text.count("\n") == 1
    assert answer.data["diff"]
    assert not set(DRIFT) & set(answer.fields)


FACTS: Fields = {"status": "ok"}
ENVELOPE = Envelope("success", "Done.", {})
BLOCK: Fields = {"type": "text", "text": "theirs"}


@each_row(
    "answer text",
    [
        (Answer(FACTS), "```yaml\nstatus: ok\nnews:\n  - 1\n```\n\nTold.\n"),
        (Answer(FACTS, line="ok", remarks=("warned",)), "ok\nwarned\nTold.\n"),
        (Answer(FACTS, said="a note"), "a note\n\nTold."),
        (Answer(FACTS, line="ok", remarks=("warned",), envelope=ENVELOPE), "ok\nwarned\nTold.\n"),
        (Answer(FACTS, envelope=ENVELOPE, original=Original((BLOCK,))), "theirs\n\nTold."),
    ],
)
def test_a_notice_is_the_last_fact_and_is_read_in_every_form(answer: Answer, text: str) -> None:
    noted = with_notices(answer, "news", [1], ["Told."])
    assert noted.text == text
    assert tuple(noted.facts) == ("status", "news")
    assert answer.facts == FACTS


def test_a_notice_is_within_the_data_and_the_words_of_an_envelope() -> None:
    noted = with_notices(Answer(FACTS, envelope=ENVELOPE), "news", [1], ["Told."])
    read = json.loads(noted.text)
    assert read == noted.data
    assert (read["data"], read["text"]) == ({"status": "ok", "news": [1]}, "Done. Told.")
