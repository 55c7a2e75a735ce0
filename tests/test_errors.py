"""Every error code of ws_mod, produced for real, with the facts that it promises."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Answer, Lang
from support.desks import Setup
from support.rows import each_row

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
CODES = {
    *("PATH_REQUIRED", "INVALID_ARGS", "INVALID_PATH", "INVALID_RANGE", "RANGE_OUT_OF_BOUNDS"),
    *("INVALID_HUNK_ID", "FILE_NOT_FOUND", "FILE_EXISTS", "NOT_A_FILE", "BINARY_FILE"),
    *("ENCODING_ERROR", "FILE_TOO_LARGE", "CONTENT_REQUIRED", "ANCHOR_NOT_FOUND"),
    *("ANCHOR_AMBIGUOUS", "OCCURRENCE_OUT_OF_RANGE", "STATS_MISMATCH", "SUSPICIOUS_DIFF"),
    *("STALE_READ", "HUNK_NOT_FOUND", "WRONG_OWNER", "WRONG_MODE", "ACCESS_DENIED"),
    *("CONTENT_CHANGED", "AMBIGUOUS_MATCH", "APPROVAL_REQUIRED", "HUNK_REJECTED", "FAILED"),
}


def lay_others(root: Path) -> None:
    (root / "folder").mkdir()
    os.symlink("/etc", root / "out")
    os.symlink("nowhere", root / "dangling")
    os.mkfifo(root / "pipe")


FILES: dict[str, str | bytes] = {
    "a.py": TEXT,
    "bin": b"text\0more\n",
    "raw.txt": b"caf\xe9\n",
    "big.txt": b"x" * 5_000,
    "secret/key.txt": "k\n",
}
MEMBERS = {
    "local": MemberConfig({"no_read_dirs": ("secret",)}, team_mgmt=True),
    "reader": MemberConfig({"no_write_dirs": ("**",)}),
    "agent": MemberConfig(approval="human"),
}
DESK = Setup(Config(members=MEMBERS, limit_bytes=4_096, durability="fast"), FILES, lay_others)


def check_refusal(report: Answer, code: str, /, **facts: Any) -> None:
    """The report is this refusal, with these facts among its fields."""
    assert report.fields["status"] == "error", report.text
    assert report.fields["error"] == code, report.text
    assert report.fields["summary"]
    for name, value in facts.items():
        found = report.fields.get(name)
        assert found == value, f"{name}: {found!r} instead of {value!r}"
    assert "?" not in str(report.fields["summary"]).replace("was a character lost", "")


def candidates(*lines: tuple[int, str]) -> list[dict[str, object]]:
    """Lines as a refusal shows them."""
    return [{"line": line, "text": text} for line, text in lines]


def blocks(*both_ends: tuple[int, str, int, str]) -> list[dict[str, object]]:
    """Blocks as a refusal shows them."""
    names = ("line", "text", "end_line", "end_text")
    return [dict(zip(names, ends, strict=True)) for ends in both_ends]


RANGE = "prepare_file_range_edit"
AFTER = "prepare_file_insert_after"
BLOCK = "prepare_file_block_replace"
APPEND = "prepare_file_append"
APPLY = "apply_file_modification"

ROWS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("read_file", {}, "PATH_REQUIRED", {}),
    ("read_file", {"path": ""}, "PATH_REQUIRED", {"path": ""}),
    ("read_file", {"path": "a.py", "lines": 3}, "INVALID_ARGS", {"argument": "lines"}),
    ("read_file", {"path": ["3"]}, "INVALID_ARGS", {"argument": "path"}),
    ("read_file", {"path": 3}, "FILE_NOT_FOUND", {}),  # some clients send numbers for texts
    ("read_file", {"path": "a.py", "max_lines": -1}, "INVALID_ARGS", {"argument": "max_lines"}),
    ("read_file", {"path": "a.py", "max_lines": "9"}, "INVALID_ARGS", {"argument": "max_lines"}),
    (APPEND, {"path": "a.py", "content": "\ud800"}, "INVALID_ARGS", {"argument": "content"}),
    (APPEND, {"path": "a.py"}, "INVALID_ARGS", {"argument": "content"}),
    (AFTER, {"path": "a.py", "anchor": "a\nb", "content": "x"}, "INVALID_ARGS", {"argument": "anchor"}),
    (AFTER, {"path": "a.py", "anchor": "one", "content": "x", "match": "regex"}, "INVALID_ARGS", {"argument": "match"}),
    *(("read_file", {"path": path}, "INVALID_PATH", {"reason": "absolute path"}) for path in ("/etc/passwd", "C:/x", "C:\\x", "~/x", "~", "file:///x")),
    *(("read_file", {"path": path}, "INVALID_PATH", {}) for path in ("../x", "a\0b", "out/passwd")),
    (RANGE, {"path": "a.py", "range": "x"}, "INVALID_RANGE", {"total_lines": 6, "range": "x"}),
    *((RANGE, {"path": "a.py", "range": lines}, "INVALID_RANGE", {"total_lines": 6}) for lines in ("3~2", "-2~")),
    *((RANGE, {"path": "a.py", "range": lines}, "RANGE_OUT_OF_BOUNDS", {"total_lines": 6}) for lines in ("7", "8~")),
    ("read_file", {"path": "a.py", "range": "7~9"}, "RANGE_OUT_OF_BOUNDS", {"total_lines": 6}),
    (APPLY, {"hunk_id": "ABCDEF01"}, "INVALID_HUNK_ID", {"hunk_id": "ABCDEF01"}),
    (RANGE, {"path": "a.py", "range": "1", "existing_hunk_id": "no"}, "INVALID_HUNK_ID", {}),
    ("read_file", {"path": "b.py"}, "FILE_NOT_FOUND", {"similar": ["a.py"]}),
    ("read_file", {"path": "b/a.py"}, "FILE_NOT_FOUND", {"similar": ["a.py"]}),
    ("read_file", {"path": "b/secret/key.txt"}, "FILE_NOT_FOUND", {}),
    (APPEND, {"path": "n.txt", "content": "x", "create": False}, "FILE_NOT_FOUND", {}),
    ("overwrite_entire_file", {"path": "n", "known_old_total_lines": 0, "known_old_total_bytes": 0, "content": ""}, "FILE_NOT_FOUND", {}),
    ("create_new_file", {"path": "a.py", "content": "x"}, "FILE_EXISTS", {}),
    ("create_new_file", {"path": "new", "content": "--- a\n+++ b\n"}, "SUSPICIOUS_DIFF", {"line": 1}),
    *(("create_new_file", {"path": path}, "NOT_A_FILE", {}) for path in ("folder", "dangling", "pipe")),
    (APPEND, {"path": "a.py/x", "content": "x"}, "NOT_A_FILE", {"kind": "below a file"}),
    (APPEND, {"path": "dangling", "content": "x"}, "NOT_A_FILE", {"kind": "symlink"}),
    (RANGE, {"path": "folder", "range": "1"}, "NOT_A_FILE", {}),
    ("read_file", {"path": "pipe"}, "NOT_A_FILE", {}),
    ("read_file", {"path": "bin"}, "BINARY_FILE", {"nul_at_byte": 4}),
    (APPEND, {"path": "raw.txt", "content": "é"}, "ENCODING_ERROR", {"encoding": "unknown", "character": "é"}),
    (APPEND, {"path": "big.txt", "content": "x"}, "FILE_TOO_LARGE", {"size_bytes": 5_000, "limit_bytes": 4_096}),
    (APPEND, {"path": "a.py", "content": ""}, "CONTENT_REQUIRED", {}),
    (AFTER, {"path": "a.py", "anchor": "one", "content": ""}, "CONTENT_REQUIRED", {}),
    (
        AFTER,
        {"path": "a.py", "anchor": "def too():", "content": "x"},
        "ANCHOR_NOT_FOUND",
        {"closest": candidates((5, "def two():"), (1, "def one():"))},
    ),
    (
        AFTER,
        {"path": "a.py", "anchor": "return", "content": "x"},
        "ANCHOR_AMBIGUOUS",
        {"candidates_count": 2, "candidates": candidates((2, "    return 1"), (6, "    return 2"))},
    ),
    (AFTER, {"path": "a.py", "anchor": "return", "content": "x", "occurrence": 3}, "OCCURRENCE_OUT_OF_RANGE", {"candidates_count": 2}),
    (
        "overwrite_entire_file",
        {"path": "a.py", "known_old_total_lines": 5, "known_old_total_bytes": 9, "content": "x"},
        "STATS_MISMATCH",
        {"actual_total_lines": 6, "actual_total_bytes": len(TEXT)},
    ),
    (
        "overwrite_entire_file",
        {
            "path": "a.py",
            "known_old_total_lines": 6,
            "known_old_total_bytes": len(TEXT),
            "content": "--- a/a.py\n+++ b/a.py\n",
        },
        "SUSPICIOUS_DIFF",
        {"line": 1},
    ),
    (RANGE, {"path": "a.py", "range": "1", "version": "0" * 12}, "STALE_READ", {"version": "0" * 12, "total_lines": 6}),
    (
        RANGE,
        {"path": "a.py", "range": "2", "expected_old": "    return 9\n"},
        "CONTENT_CHANGED",
        {"expected_old": "    return 9\n", "found": "    return 1\n"},
    ),
    (APPLY, {"hunk_id": "0123abcd"}, "HUNK_NOT_FOUND", {"reason": "unknown"}),
    ("read_file", {"path": "secret/key.txt"}, "ACCESS_DENIED", {"operation": "read"}),
    *(("list_dir", {"path": path}, "ACCESS_DENIED", {}) for path in ("secret", ".minds")),
    ("create_new_file", {"path": "x.tsk/a"}, "ACCESS_DENIED", {"operation": "write"}),
    ("create_new_file", {"path": ".copydesk/a"}, "ACCESS_DENIED", {}),
    ("ripgrep_files", {"pattern": "k", "path": "secret"}, "ACCESS_DENIED", {}),
    ("ripgrep_files", {"pattern": "k", "globs": ["secret/**"]}, "ACCESS_DENIED", {}),
    ("team_mgmt_read_file", {"path": "../a.py"}, "INVALID_PATH", {}),
]  # fmt: skip


@each_row("tool arguments code facts", ROWS)
def test_refusal(
    desk: OpenWorkspace, tool: str, arguments: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    check_refusal(desk.call("local", tool, arguments), code, **facts)


@pytest.fixture(autouse=True)
def _others_stay(desk: OpenWorkspace, tmp_path: Path) -> Iterator[None]:
    """No other file is touched by what is refused."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.txt") if path.is_file()}
    yield
    assert all(path.read_bytes() == data for path, data in before.items())


def plan_of(desk: OpenWorkspace, **changed: Any) -> str:
    arguments = {"path": "a.py", "range": "2", "content": "    return 11\n", **changed}
    report = desk.call("local", RANGE, arguments)
    assert not report.is_error, report.text
    return str(report.fields["hunk_id"])


UNSEEN = {"path": "a.py", "known_old_total_lines": 6, "known_old_total_bytes": len(TEXT)}
BY_OTHERS: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    ("reader", APPLY, {"hunk_id": "{hunk}"}, "WRONG_OWNER", {}),
    ("local", APPEND, {"path": "a.py", "content": "x", "existing_hunk_id": "{hunk}"}, "WRONG_MODE", {"planned_with": RANGE, "called_with": APPEND}),
    ("local", f"team_mgmt_{APPLY}", {"hunk_id": "{hunk}"}, "WRONG_MODE", {"planned_with": RANGE}),
    ("reader", "create_new_file", {"path": "n.txt"}, "ACCESS_DENIED", {"operation": "write"}),
    ("agent", "create_new_file", {"path": "n.txt"}, "APPROVAL_REQUIRED", {"why": "member"}),
    ("agent", "overwrite_entire_file", {"content": "x", **UNSEEN}, "APPROVAL_REQUIRED", {"why": "member"}),
    ("reader", "team_mgmt_list_dir", {"path": "."}, "ACCESS_DENIED", {}),
    ("local", "create_new_file", {"path": "n" * 300}, "INVALID_PATH", {}),
]  # fmt: skip


@each_row("who tool arguments code facts", BY_OTHERS)
def test_refusal_of_others(
    desk: OpenWorkspace,
    who: str,
    tool: str,
    arguments: dict[str, Any],
    code: str,
    facts: dict[str, Any],
) -> None:
    """Of other members, other tools, and with the id of a plan for `{hunk}`."""
    hunk = plan_of(desk)
    given = {name: hunk if value == "{hunk}" else value for name, value in arguments.items()}
    check_refusal(desk.call(who, tool, given), code, **facts)


@pytest.mark.parametrize("tool", [APPLY, f"{APPLY}s", "discard_hunk"])
def test_a_plan_of_another_toolset_names_the_tool_to_call(desk: OpenWorkspace, tool: str) -> None:
    def given(hunk: str) -> dict[str, Any]:
        return {"hunk_ids": [hunk]} if tool.endswith("s") else {"hunk_id": hunk}

    hunk = plan_of(desk)
    summary = str(desk.call("local", f"team_mgmt_{tool}", given(hunk)).facts["summary"])
    assert summary.endswith(f"Call {tool} now.")
    assert not desk.call("local", tool, given(hunk)).is_error
    arguments = {"path": "n.md", "content": "x\n"}
    hunk = str(desk.call("local", "team_mgmt_prepare_file_append", arguments).facts["hunk_id"])
    summary = str(desk.call("local", tool, given(hunk)).facts["summary"])
    assert summary.endswith(f"Call team_mgmt_{tool} now.")
    assert not desk.call("local", f"team_mgmt_{tool}", given(hunk)).is_error


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_patch_is_not_told_of_an_argument_that_it_lacks(desk: OpenWorkspace, lang: Lang) -> None:
    arguments = {"path": "n.md", "content": "x\n"}
    hunk = str(desk.call("local", "team_mgmt_prepare_file_append", arguments).facts["hunk_id"])
    given = {"patch": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch", "with": [hunk]}
    answer = desk.call("local", "apply_patch", given, lang=lang)
    assert answer.facts["error"] == "WRONG_MODE"
    assert "existing_hunk_id" not in answer.text


Meanwhile = Callable[[OpenWorkspace, str, Path], object]
CHANGED = {"context_match": "rejected", "planned_lines": "2~2", "expected_old": "    return 1\n"}
OVERTAKEN: list[tuple[Meanwhile, str, dict[str, Any]]] = [
    (lambda desk, hunk, file: desk.call("local", APPLY, {"hunk_id": hunk}), "HUNK_NOT_FOUND", {"reason": "applied"}),
    (lambda desk, hunk, file: desk.desk.discard(desk.member("local"), hunk), "HUNK_NOT_FOUND", {"reason": "discarded"}),
    (lambda desk, hunk, file: desk.desk.review.reject(desk.member("local"), hunk, "too short"), "HUNK_REJECTED", {"by": "local", "reason": "too short"}),
    (lambda desk, hunk, file: file.write_text(TEXT.replace("return 1", "return 7")), "CONTENT_CHANGED", {**CHANGED, "file_changed_since_preview": True}),
    (lambda desk, hunk, file: file.unlink(), "FILE_NOT_FOUND", {}),
    (lambda desk, hunk, file: file.write_bytes(b"\0"), "BINARY_FILE", {"nul_at_byte": 0}),
    (lambda desk, hunk, file: (file.unlink(), file.mkdir()), "NOT_A_FILE", {}),
]  # fmt: skip


@pytest.mark.parametrize(("meanwhile", "code", "facts"), OVERTAKEN)
def test_refusal_of_a_plan_that_was_overtaken(
    desk: OpenWorkspace, tmp_path: Path, meanwhile: Meanwhile, code: str, facts: dict[str, Any]
) -> None:
    hunk = plan_of(desk)
    meanwhile(desk, hunk, tmp_path / "a.py")
    check_refusal(desk.call("local", APPLY, {"hunk_id": hunk}), code, **facts)


def _ambiguous(desk: OpenWorkspace, root: Path) -> Answer:
    (root / "t.txt").write_text("x = 1\n}\n")
    hunk = plan_of(desk, path="t.txt", content="}}")
    (root / "t.txt").write_text("}\n}\n")
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _undo_unseen(desk: OpenWorkspace, root: Path) -> Answer:
    edit = desk.call("local", APPLY, {"hunk_id": plan_of(desk)}).fields["edit_id"]
    return desk.call("agent", "undo_file_modification", {"edit_id": edit})


def _more_than_may_be_written(desk: OpenWorkspace, root: Path) -> Answer:
    """The system refuses a file of more than a megabyte."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        return desk.call("local", "create_new_file", {"path": "big", "content": "x" * (2 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def _nested(desk: OpenWorkspace, root: Path) -> Answer:
    (root / "n.txt").write_text("<a>\n<a>\nx\n</a>\n")
    arguments = {"path": "n.txt", "start_anchor": "<a>", "end_anchor": "</a>", "content": "y"}
    return desk.call("local", BLOCK, {**arguments, "occurrence": 1})


Story = Callable[[OpenWorkspace, Path], Answer]
STORIES: list[tuple[Story, str, dict[str, Any]]] = [
    (_ambiguous, "AMBIGUOUS_MATCH", {"context_match": "rejected", "candidate_lines": [1, 2]}),
    (_undo_unseen, "APPROVAL_REQUIRED", {"why": "member"}),
    (_more_than_may_be_written, "FAILED", {}),
    (_nested, "ANCHOR_AMBIGUOUS", {"candidates": blocks((1, "<a>", 4, "</a>"), (2, "<a>", 4, "</a>"))}),
]  # fmt: skip


@pytest.mark.parametrize(("story", "code", "facts"), STORIES, ids=[s[0].__name__ for s in STORIES])
def test_story(
    desk: OpenWorkspace, tmp_path: Path, story: Story, code: str, facts: dict[str, Any]
) -> None:
    check_refusal(story(desk, tmp_path), code, **facts)


def test_every_code_is_produced() -> None:
    rows = (*ROWS, *BY_OTHERS, *OVERTAKEN, *STORIES)
    assert {row[-2] for row in rows} == CODES


def test_a_refused_plan_waits_on(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk = plan_of(desk)
    (tmp_path / "a.py").write_text("all else\n")
    first = desk.call("local", APPLY, {"hunk_id": hunk})
    assert first.fields["context_match"] == "rejected"
    assert (tmp_path / "a.py").read_text() == "all else\n"
    (tmp_path / "a.py").write_text(TEXT)
    assert not desk.call("local", APPLY, {"hunk_id": hunk}).is_error
    assert "return 11" in (tmp_path / "a.py").read_text()
