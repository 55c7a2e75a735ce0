"""Every error code of ws_mod, produced for real, with the facts that it promises."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Answer
from support.desks import Setup

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
CODES = [
    "PATH_REQUIRED",
    "INVALID_ARGS",
    "INVALID_PATH",
    "INVALID_RANGE",
    "RANGE_OUT_OF_BOUNDS",
    "INVALID_HUNK_ID",
    "FILE_NOT_FOUND",
    "FILE_EXISTS",
    "NOT_A_FILE",
    "BINARY_FILE",
    "ENCODING_ERROR",
    "FILE_TOO_LARGE",
    "CONTENT_REQUIRED",
    "ANCHOR_NOT_FOUND",
    "ANCHOR_AMBIGUOUS",
    "OCCURRENCE_OUT_OF_RANGE",
    "STATS_MISMATCH",
    "SUSPICIOUS_DIFF",
    "STALE_READ",
    "HUNK_NOT_FOUND",
    "WRONG_OWNER",
    "WRONG_MODE",
    "ACCESS_DENIED",
    "CONTENT_CHANGED",
    "AMBIGUOUS_MATCH",
    "APPROVAL_REQUIRED",
    "HUNK_REJECTED",
    "FAILED",
]


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
    (
        AFTER,
        {"path": "a.py", "anchor": "a\nb", "content": "x"},
        "INVALID_ARGS",
        {"argument": "anchor"},
    ),
    (
        AFTER,
        {"path": "a.py", "anchor": "one", "content": "x", "match": "regex"},
        "INVALID_ARGS",
        {"argument": "match"},
    ),
    ("read_file", {"path": "/etc/passwd"}, "INVALID_PATH", {"reason": "absolute path"}),
    ("read_file", {"path": "C:/x"}, "INVALID_PATH", {"reason": "absolute path"}),
    ("read_file", {"path": "C:\\x"}, "INVALID_PATH", {"reason": "absolute path"}),
    ("read_file", {"path": "../x"}, "INVALID_PATH", {}),
    ("read_file", {"path": "a\0b"}, "INVALID_PATH", {}),
    ("read_file", {"path": "out/passwd"}, "INVALID_PATH", {}),
    (RANGE, {"path": "a.py", "range": "x"}, "INVALID_RANGE", {"total_lines": 6, "range": "x"}),
    (RANGE, {"path": "a.py", "range": "3~2"}, "INVALID_RANGE", {"total_lines": 6}),
    (RANGE, {"path": "a.py", "range": "-2~"}, "INVALID_RANGE", {"total_lines": 6}),
    (RANGE, {"path": "a.py", "range": "7"}, "RANGE_OUT_OF_BOUNDS", {"total_lines": 6}),
    (RANGE, {"path": "a.py", "range": "8~"}, "RANGE_OUT_OF_BOUNDS", {"total_lines": 6}),
    ("read_file", {"path": "a.py", "range": "7~9"}, "RANGE_OUT_OF_BOUNDS", {"total_lines": 6}),
    (APPLY, {"hunk_id": "ABCDEF01"}, "INVALID_HUNK_ID", {"hunk_id": "ABCDEF01"}),
    (RANGE, {"path": "a.py", "range": "1", "existing_hunk_id": "no"}, "INVALID_HUNK_ID", {}),
    ("read_file", {"path": "b.py"}, "FILE_NOT_FOUND", {"similar": ["a.py"]}),
    (APPEND, {"path": "n.txt", "content": "x", "create": False}, "FILE_NOT_FOUND", {}),
    (
        "overwrite_entire_file",
        {"path": "n", "known_old_total_lines": 0, "known_old_total_bytes": 0, "content": ""},
        "FILE_NOT_FOUND",
        {},
    ),
    ("create_new_file", {"path": "a.py", "content": "x"}, "FILE_EXISTS", {}),
    (
        "create_new_file",
        {"path": "new", "content": "--- a\n+++ b\n"},
        "SUSPICIOUS_DIFF",
        {"line": 1},
    ),
    ("create_new_file", {"path": "folder"}, "NOT_A_FILE", {}),
    ("create_new_file", {"path": "dangling"}, "NOT_A_FILE", {}),
    ("create_new_file", {"path": "pipe"}, "NOT_A_FILE", {}),
    (APPEND, {"path": "a.py/x", "content": "x"}, "NOT_A_FILE", {"kind": "below a file"}),
    (APPEND, {"path": "dangling", "content": "x"}, "NOT_A_FILE", {"kind": "symlink"}),
    (RANGE, {"path": "folder", "range": "1"}, "NOT_A_FILE", {}),
    ("read_file", {"path": "pipe"}, "NOT_A_FILE", {}),
    ("read_file", {"path": "bin"}, "BINARY_FILE", {"nul_at_byte": 4}),
    (
        APPEND,
        {"path": "raw.txt", "content": "é"},
        "ENCODING_ERROR",
        {"encoding": "unknown", "character": "é"},
    ),
    (
        APPEND,
        {"path": "big.txt", "content": "x"},
        "FILE_TOO_LARGE",
        {"size_bytes": 5_000, "limit_bytes": 4_096},
    ),
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
    (
        AFTER,
        {"path": "a.py", "anchor": "return", "content": "x", "occurrence": 3},
        "OCCURRENCE_OUT_OF_RANGE",
        {"candidates_count": 2},
    ),
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
    (
        RANGE,
        {"path": "a.py", "range": "1", "version": "0" * 12},
        "STALE_READ",
        {"version": "0" * 12, "total_lines": 6},
    ),
    (
        RANGE,
        {"path": "a.py", "range": "2", "expected_old": "    return 9\n"},
        "CONTENT_CHANGED",
        {"expected_old": "    return 9\n", "found": "    return 1\n"},
    ),
    (APPLY, {"hunk_id": "0123abcd"}, "HUNK_NOT_FOUND", {"reason": "unknown"}),
    ("read_file", {"path": "secret/key.txt"}, "ACCESS_DENIED", {"operation": "read"}),
    ("list_dir", {"path": "secret"}, "ACCESS_DENIED", {}),
    ("list_dir", {"path": ".minds"}, "ACCESS_DENIED", {}),
    ("create_new_file", {"path": "x.tsk/a"}, "ACCESS_DENIED", {"operation": "write"}),
    ("create_new_file", {"path": ".copydesk/a"}, "ACCESS_DENIED", {}),
    ("ripgrep_files", {"pattern": "k", "path": "secret"}, "ACCESS_DENIED", {}),
    ("ripgrep_files", {"pattern": "k", "globs": ["secret/**"]}, "ACCESS_DENIED", {}),
    ("team_mgmt_read_file", {"path": "../a.py"}, "INVALID_PATH", {}),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "facts"), ROWS, ids=[f"{i}-{r[2]}" for i, r in enumerate(ROWS)]
)
def test_refusal(
    desk: OpenWorkspace, tool: str, arguments: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    check_refusal(desk.call("local", tool, arguments), code, **facts)


def _plan(desk: OpenWorkspace, **changed: Any) -> str:
    arguments = {"path": "a.py", "range": "2", "content": "    return 11\n", **changed}
    report = desk.call("local", RANGE, arguments)
    assert not report.is_error, report.text
    return str(report.fields["hunk_id"])


def _applied(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    desk.call("local", APPLY, {"hunk_id": hunk})
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _discarded(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    desk.desk.discard(desk.member("local"), hunk)
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _wrong_owner(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("reader", APPLY, {"hunk_id": _plan(desk)})


def _wrong_tool(desk: OpenWorkspace, root: Path) -> Answer:
    arguments = {"path": "a.py", "content": "x", "existing_hunk_id": _plan(desk)}
    return desk.call("local", APPEND, arguments)


def _wrong_toolset(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("local", "team_mgmt_apply_file_modification", {"hunk_id": _plan(desk)})


def _changed(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    (root / "a.py").write_text(TEXT.replace("return 1", "return 7"))
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _ambiguous(desk: OpenWorkspace, root: Path) -> Answer:
    (root / "t.txt").write_text("x = 1\n}\n")
    report = desk.call("local", RANGE, {"path": "t.txt", "range": "2", "content": "}}"})
    (root / "t.txt").write_text("}\n}\n")
    return desk.call("local", APPLY, {"hunk_id": report.fields["hunk_id"]})


def _deleted(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    (root / "a.py").unlink()
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _became_binary(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    (root / "a.py").write_bytes(b"\0")
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _became_folder(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    (root / "a.py").unlink()
    (root / "a.py").mkdir()
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _may_not_write(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("reader", "create_new_file", {"path": "n.txt"})


def _create_unseen(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("agent", "create_new_file", {"path": "n.txt"})


def _overwrite_unseen(desk: OpenWorkspace, root: Path) -> Answer:
    known = {"known_old_total_lines": 6, "known_old_total_bytes": len(TEXT)}
    return desk.call("agent", "overwrite_entire_file", {"path": "a.py", "content": "x", **known})


def _undo_unseen(desk: OpenWorkspace, root: Path) -> Answer:
    edit = desk.call("local", APPLY, {"hunk_id": _plan(desk)}).fields["edit_id"]
    return desk.call("agent", "undo_file_modification", {"edit_id": edit})


def _said_no(desk: OpenWorkspace, root: Path) -> Answer:
    hunk = _plan(desk)
    desk.desk.review.reject(desk.member("local"), hunk, "too short")
    return desk.call("local", APPLY, {"hunk_id": hunk})


def _not_granted(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("reader", "team_mgmt_list_dir", {"path": "."})


def _name_too_long(desk: OpenWorkspace, root: Path) -> Answer:
    return desk.call("local", "create_new_file", {"path": "n" * 300})


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


STORIES: list[tuple[Callable[[OpenWorkspace, Path], Answer], str, dict[str, Any]]] = [
    (_applied, "HUNK_NOT_FOUND", {"reason": "applied"}),
    (_discarded, "HUNK_NOT_FOUND", {"reason": "discarded"}),
    (_wrong_owner, "WRONG_OWNER", {}),
    (_wrong_tool, "WRONG_MODE", {"planned_with": RANGE, "called_with": APPEND}),
    (_wrong_toolset, "WRONG_MODE", {"planned_with": RANGE}),
    (
        _changed,
        "CONTENT_CHANGED",
        {
            "context_match": "rejected",
            "planned_lines": "2~2",
            "file_changed_since_preview": True,
            "expected_old": "    return 1\n",
        },
    ),
    (_ambiguous, "AMBIGUOUS_MATCH", {"context_match": "rejected", "candidate_lines": [1, 2]}),
    (_deleted, "FILE_NOT_FOUND", {}),
    (_became_binary, "BINARY_FILE", {"nul_at_byte": 0}),
    (_became_folder, "NOT_A_FILE", {}),
    (_may_not_write, "ACCESS_DENIED", {"operation": "write"}),
    (_create_unseen, "APPROVAL_REQUIRED", {"why": "member"}),
    (_overwrite_unseen, "APPROVAL_REQUIRED", {"why": "member"}),
    (_undo_unseen, "APPROVAL_REQUIRED", {"why": "member"}),
    (_said_no, "HUNK_REJECTED", {"by": "local", "reason": "too short"}),
    (_not_granted, "ACCESS_DENIED", {}),
    (_name_too_long, "INVALID_PATH", {}),
    (_more_than_may_be_written, "FAILED", {}),
    (
        _nested,
        "ANCHOR_AMBIGUOUS",
        {"candidates": blocks((1, "<a>", 4, "</a>"), (2, "<a>", 4, "</a>"))},
    ),
]


@pytest.mark.parametrize(("story", "code", "facts"), STORIES, ids=[s[0].__name__ for s in STORIES])
def test_story(
    desk: OpenWorkspace,
    tmp_path: Path,
    story: Callable[[OpenWorkspace, Path], Answer],
    code: str,
    facts: dict[str, Any],
) -> None:
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.txt") if p.is_file()}
    check_refusal(story(desk, tmp_path), code, **facts)
    assert all(p.read_bytes() == data for p, data in before.items())


def test_every_code_is_produced() -> None:
    produced = {row[2] for row in ROWS} | {story[1] for story in STORIES}
    assert produced == set(CODES)


def test_a_refused_plan_waits_on(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk = _plan(desk)
    (tmp_path / "a.py").write_text("all else\n")
    first = desk.call("local", APPLY, {"hunk_id": hunk})
    assert first.fields["context_match"] == "rejected"
    assert (tmp_path / "a.py").read_text() == "all else\n"
    (tmp_path / "a.py").write_text(TEXT)
    assert not desk.call("local", APPLY, {"hunk_id": hunk}).is_error
    assert "return 11" in (tmp_path / "a.py").read_text()
