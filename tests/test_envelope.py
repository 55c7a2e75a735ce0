"""The Standard Envelope: its keys, its codes, and that it can always be sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk import errors
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools import refusals
from copydesk.tools.refusals import code_of
from support.desks import Setup
from support.rows import each_row

CODES = {
    *("NOT_FOUND", "ACCESS_DENIED", "PERMISSION_DENIED", "INVALID_PARAM", "TIMEOUT", "INTERNAL_ERROR"),
    *("EXECUTION_ERROR", "CONFLICT", "IS_DIRECTORY", "BINARY_FILE", "FILE_EXISTS", "ENCODING_ERROR"),
    *("COLLISION_DETECTED", "PARTIAL_MATCH_FAIL", "DUPLICATE_EDITS", "APPROVAL_REQUIRED"),
}  # fmt: skip
TOOLS = ("Read", "Edit", "Write", "BatchEdit", "MultiEdit")


def envelope_of(answer: Any) -> dict[str, Any]:
    """The answer is an envelope, and its text can be read back."""
    assert answer.envelope is not None
    fields: dict[str, Any] = answer.fields
    assert set(fields) - {"error"} == {"status", "data", "text", "stats", "context"}
    assert fields["status"] in ("success", "partial", "error")
    assert ("error" in fields) == (fields["status"] == "error")
    assert isinstance(fields["data"], dict)
    assert fields["text"]
    assert isinstance(fields["stats"]["time_ms"], int)
    assert fields["context"]["cwd"] == "."
    assert isinstance(fields["context"]["params_input"], dict)
    assert set(fields["context"]) <= {"cwd", "params_input", "path_resolved"}
    if "error" in fields:
        assert set(fields["error"]) == {"code", "message"}
        assert fields["error"]["code"] in CODES
        assert fields["error"]["message"]
    told = json.loads(answer.text.encode(), parse_constant=pytest.fail)
    assert {**told, "context": 0} == {**json.loads(json.dumps(fields)), "context": 0}
    assert answer.data == fields
    return fields


DESK = Setup(files={"a.txt": "a\nb\n"})


def test_an_answer_is_put_into_words_once(desk: OpenWorkspace) -> None:
    edit = {"path": "a.txt", "old_string": "a", "new_string": "b", "report": "full"}
    for arguments in (edit, {"path": 1}):
        answer = desk.call("local", "Edit", arguments)
        assert envelope_of(answer)["status"] in ("success", "error")
        assert answer.text is answer.text


def deep(levels: int) -> object:
    """Lists and objects in one another."""
    found: object = 1
    for _ in range(levels):
        found = [{"a": found}]
    return found


@each_row("name", TOOLS)
@each_row(
    "arguments",
    [
        *(None, [], "text", 5, {}, {"path": None}, {"\ud800": "\ud800"}),
        *({"path": "a.txt", "edits": float("nan")}, {"path": "a.txt", "content": float("inf")}),
        {"path": "a.txt", "content": b"bytes", "edits": ({"old_string": {1, 2}},)},
        {"path": "\ud800"},
        {"path": "a.txt", "edits": deep(5_000), "content": deep(100), "start_line": deep(100)},
        {"path": "a.txt", "old_string": deep(5_000), "other": deep(5_000)},
        {"path": "a.txt", "edits": [{"old_string": 10**5_000}], "limit": 10**5_000},
        {"path": "a.txt", "content": {"a": -(10**5_000)}, "old_string": "a", "new_string": 10**5_000},
        {"path": 10**5_000},
    ],
)  # fmt: skip
def test_any_arguments(desk: OpenWorkspace, name: str, arguments: object) -> None:
    fields = envelope_of(desk.call("local", name, arguments))
    assert fields["status"] == "error"
    assert fields["error"]["code"] == "INVALID_PARAM"


@each_row(
    "name more",
    [
        ("Read", {}),
        ("Read", {"limit": 1}),
        ("Edit", {"old_string": "a", "new_string": "c", "report": "full"}),
        ("Edit", {"old_string": "z", "new_string": "c"}),
        ("Write", {"content": "x"}),
        ("BatchEdit", {"edits": [{"old_string": "a", "new_string": "c"}], "dry_run": True}),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "c"}], "report": "full"}),
    ],
)
@each_row("lang", ["en", "zh"])
@each_row("nothing", [(), ("limit", "expected_size_bytes", "expected_sha256")])
def test_the_arguments_as_given(
    desk: OpenWorkspace, name: str, more: dict[str, Any], lang: Any, nothing: tuple[str, ...]
) -> None:
    """Those that mean "not given" too, whatever becomes of the call."""
    taken = desk.catalog.tools[name].schema["properties"]
    empty = {key: "" if key == "expected_sha256" else None for key in nothing if key in taken}
    arguments = {**empty, "path": "./a.txt", **more}
    answer = desk.call("local", name, arguments, lang=lang)
    fields = envelope_of(answer)
    assert fields["context"] == {"cwd": ".", "params_input": arguments, "path_resolved": "a.txt"}
    assert json.loads(answer.text)["context"] == fields["context"]


def test_long_texts_as_given(desk: OpenWorkspace) -> None:
    long = "one line of many\n" * 1_000
    full = {"content": long, "report": "full"}
    for more in (full, {**full, "overwrite": None}):
        for _ in ("written", "refused"):
            answer = desk.call("local", "Write", {"path": "long.txt", **more})
            arguments = {"path": "long.txt", **more}
            assert envelope_of(answer)["context"]["params_input"] == arguments
            assert len(answer.text) < 12_000
    edits = [{"old_string": long, "new_string": long[1:]}, {"old_string": "a", "new_string": ""}]
    given = {"path": "long.txt", "edits": edits}
    answer = desk.call("local", "BatchEdit", given)
    assert envelope_of(answer)["status"] == "error"
    where = {"cwd": ".", "path_resolved": "long.txt"}
    assert answer.data["context"] == {**where, "params_input": given}


def test_a_model_is_not_shown_again_what_it_has_written(desk: OpenWorkspace) -> None:
    edits = [{"old_string": "x" * 1_000, "new_string": "漢" * 1_000}] * 50
    answer = desk.call("local", "BatchEdit", {"path": "a.txt", "edits": edits})
    assert envelope_of(answer)["context"]["params_input"]["edits"] == edits
    assert len(answer.text) < 1_500


def test_read_has_nothing_to_apply(desk: OpenWorkspace) -> None:
    assert "applied" not in envelope_of(desk.call("local", "Read", {"path": "no"}))["data"]
    written = envelope_of(desk.call("local", "Write", {"path": "a.txt", "content": ""}))
    assert written["data"]["applied"] is False


@each_row(
    "refusal code",
    [
        (errors.FileNotFound(), "NOT_FOUND"),
        (errors.NotAFile("directory"), "IS_DIRECTORY"),
        (errors.NotAFile("socket"), "EXECUTION_ERROR"),
        (errors.InvalidPath("path leaves the workspace"), "ACCESS_DENIED"),
        (errors.InvalidPath("NUL in path"), "INVALID_PARAM"),
        (errors.AccessDenied("write", "no_write_dirs"), "ACCESS_DENIED"),
        (errors.ApprovalRequired("member"), "APPROVAL_REQUIRED"),
        (errors.FileTooLarge(5, 4), "EXECUTION_ERROR"),
        (errors.Failed("write", "EACCES: Permission denied"), "PERMISSION_DENIED"),
        (errors.Failed("write", "EROFS: Read-only file system"), "PERMISSION_DENIED"),
        (errors.Failed("write", "ENOSPC: No space left on device"), "EXECUTION_ERROR"),
        (errors.Failed("read", "ETIMEDOUT: Connection timed out"), "TIMEOUT"),
        (errors.PathRequired(), "INVALID_PARAM"),
        (errors.ContentRequired(), "INVALID_PARAM"),
        (errors.BinaryFile(5), "BINARY_FILE"),
        (errors.EncodingRefused("unknown", "é", 0), "ENCODING_ERROR"),
        (errors.Conflict("size", 1, 2, {"size": {"expected": 1, "actual": 2}}), "CONFLICT"),
        (errors.FileExists(5), "FILE_EXISTS"),
        (errors.DuplicateEdits((0, 1)), "DUPLICATE_EDITS"),
        (errors.HunkNotFound("00000000", "unknown"), "EXECUTION_ERROR"),
    ],
)
def test_codes(refusal: errors.Refusal, code: str) -> None:
    assert code_of(refusal) == code
    envelope_of(refusals.in_envelope(refusal, {}, None, "en", writes=True).timed(0))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES, max_size=4), st.text() | st.none())
def test_whatever_is_given_can_be_sent(arguments: dict[str, object], path: str | None) -> None:
    found = refusals.in_envelope(errors.PathRequired(), arguments, path, "en", writes=True)
    envelope_of(found.timed(1))
