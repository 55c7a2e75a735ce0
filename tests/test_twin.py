"""With `structured` an answer is sent as data as well: it shows what the text shows, and no less."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from copydesk.app.mcp.messages import tool_result
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Answer
from support.desks import FAST, Setup

LINES = [f"row {number} value {number * 7}" for number in range(3_000)]
MANY = {f"many/f{number:04}.py": "hit\n" for number in range(700)}
WIDE = "".join(f"{number} {'y' * 100}\n" for number in range(400))

DESK = Setup(
    config=replace(FAST, structured=True),
    files={"lots.txt": "\n".join(LINES) + "\n", "wide.txt": WIDE, **MANY},
)


def both(desk: OpenWorkspace, tool: str, /, **arguments: object) -> tuple[Answer, dict[str, Any]]:
    """An answer, and its data for programs as it is sent."""
    answer = desk.call("local", tool, arguments)
    sent = tool_result(answer, "en", structured=True).structured_content
    assert isinstance(sent, dict)
    return answer, sent


def test_lines_that_are_read_are_whole(desk: OpenWorkspace) -> None:
    """A client that is shown the data alone writes the file back as it was."""
    answer, sent = both(desk, "Read", path="wide.txt")
    assert sent["data"]["content"] == WIDE == json.loads(answer.text)["data"]["content"]
    again = {"path": "wide.txt", "content": sent["data"]["content"] + "z\n", "overwrite": True}
    _, done = both(desk, "Write", **again, expected_sha256=sent["stats"]["file_sha256"])
    assert done["stats"]["new_size"] == len(WIDE) + 2, done


def test_arguments_and_preview_are_whole(desk: OpenWorkspace) -> None:
    old = "\n".join(LINES[:300])
    edits = [{"old_string": old, "new_string": f"{old}\n{'q' * 90}"}]
    _, sent = both(desk, "BatchEdit", path="lots.txt", edits=edits, dry_run=True)
    assert sent["context"]["params_input"]["edits"] == edits
    assert sent["data"]["diff_preview"].count("\n") < 100
    assert "characters)" not in sent["data"]["diff_preview"]


@pytest.mark.parametrize("report", ["full", "brief"])
def test_a_long_diff_is_that_of_the_text_with_the_call_for_the_rest(
    desk: OpenWorkspace, report: str
) -> None:
    given = {"path": "lots.txt", "range": "~", "content": "z\n" * 2_500, "report": report}
    answer, sent = both(desk, "prepare_file_range_edit", **given)
    assert sent["diff"].splitlines()[-1] == "+z"
    assert any("lines left out" in line for line in sent["diff"].splitlines())
    assert sent["next"][-1].startswith("The diff is shortened"), sent["next"]
    assert "apply_file_modification" in sent["next"][0]
    assert ("apply_file_modification" in answer.text) == (report == "full")
    _, part = both(desk, "show_hunk", hunk_id=sent["hunk_id"])
    last = part["shown_lines"]["end"]
    assert part["content"].count("\n") == last
    assert f'"range": "{last + 1}~"' in part["next"][0]


def test_a_brief_plan_of_a_patch_has_its_diff(desk: OpenWorkspace) -> None:
    text = "new.py\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"
    answer, sent = both(desk, "apply_blocks", text=text, report="brief")
    assert "+x\n" in sent["diff"]
    assert "+x\n" not in answer.text


@pytest.mark.parametrize(
    ("tool", "arguments", "key", "row", "total"),
    [
        ("list_dir", {"path": "many"}, "entries", r"f\d", 700),
        ("ripgrep_files", {"pattern": "hit", "max_files": 700}, "files", "many/", 700),
        ("ripgrep_count", {"pattern": "hit", "max_files": 700}, "counts", "many/", 700),
        ("ripgrep_search", {"pattern": "hit"}, "lines", r"\d+:", 200),
        ("ripgrep_search", {"pattern": "value", "path": "lots.txt"}, "lines", r"\d+:", 200),
        ("ripgrep_snippets", {"pattern": "hit", "max_results": 300}, "results", r"\d+:", 300),
        (
            "ripgrep_snippets",
            {"pattern": "value", "path": "lots.txt", "max_results": 300, "context_before": 2},
            "results",
            r"\d+:",
            300,
        ),
    ],
)
def test_a_list_has_the_rows_of_the_text(
    desk: OpenWorkspace, tool: str, arguments: dict[str, object], key: str, row: str, total: int
) -> None:
    answer, sent = both(desk, tool, **arguments)
    rows = [row if isinstance(row, dict) else {"path": row} for row in sent[key]]
    shown = {str(row.get("path", row.get("name"))) for row in rows}
    assert 0 < len(sent[key]) < total
    assert f"{key}_left_out" not in sent
    assert len(json.dumps(sent)) < 20_000
    told = [line for line in answer.text.splitlines() if re.match(row, line)]
    assert len(told) == len(sent[key])
    if key in ("lines", "results"):
        assert sent["versions"].keys() == shown
    else:
        assert all(name in answer.text for name in shown)
    assert f" {total - len(told)} " in sent["next"][0]


def test_a_folder_has_as_many_rows_as_are_asked_for(desk: OpenWorkspace) -> None:
    answer, sent = both(desk, "read_file", path="many", range="11~", max_lines=10)
    listed = [line for line in answer.text.splitlines() if re.match(r"f\d", line)]
    assert len(sent["entries"]) == len(listed) == 10
    assert sent["entries"][0]["name"] == "f0010.py"


def test_edits_and_plans_have_the_rows_of_the_text(desk: OpenWorkspace) -> None:
    for number in range(60):
        both(desk, "prepare_file_append", path=f"many/f{number:04}.py", content="x\n")
    answer, sent = both(desk, "list_pending", max_results=60)
    assert 0 < len(sent["hunks"]) < 60 == sent["total"]
    assert all(row["hunk_id"] in answer.text for row in sent["hunks"])
    assert str(60 - len(sent["hunks"])) in sent["next"][0]
