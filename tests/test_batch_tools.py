"""Read, Edit, Write, BatchEdit and MultiEdit, as a caller meets them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.edit.kinds import replace as replacing
from copydesk.tools import catalog
from support.batch_calls import call, pairs, put, refused
from support.cost import bounded, spread, tokens
from support.desks import Setup
from support.rows import each_row

ENCODINGS = (("*.gb", "gb18030"), ("*.sjis", "shift_jis"), ("*.u16", "utf-16-le"))
MEMBERS = {"guest": MemberConfig({"no_write_dirs": ("secret",), "no_read_dirs": ("dark",)})}


def lay_others(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "out").symlink_to("/etc")


DESK = Setup(
    Config(encodings=ENCODINGS, members=MEMBERS, durability="fast"),
    {"folder/file": "a", "nul": b"a\0b"},
    lay_others,
)
AB = {"old_string": "a", "new_string": "b"}
EXPECTED = ("expected_size_bytes", "expected_mtime_ms", "expected_sha256")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def told_by_read(desk: OpenWorkspace) -> dict[str, Any]:
    """What Read tells of `a.txt`, as the others expect it."""
    stats = call(desk, "Read", path="a.txt")["stats"]
    return {key: stats[key.replace("expected", "file")] for key in EXPECTED}


def batch_refused(
    desk: OpenWorkspace, code: str, data: bytes | str, *edits: tuple[str, str], **more: Any
) -> dict[str, Any]:
    target = put(desk, "a.txt", data)
    return refused(desk, code, target, "BatchEdit", path="a.txt", edits=pairs(*edits), **more)


# BatchEdit


@pytest.mark.parametrize(("old", "searches"), [("lime 5", 1), ("line 5 \n", 2)])
def test_a_text_that_cannot_be_corrected_is_looked_for_once(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch, old: str, searches: int
) -> None:
    """The search for what is near is the dear part of a refusal; a plan would search once more."""
    searched: list[object] = []
    nearest_of = replacing.nearest_of

    def counted(*given: Any, **named: Any) -> Any:
        searched.append(given)
        return nearest_of(*given, **named)

    monkeypatch.setattr(replacing, "nearest_of", counted)
    put(desk, "a.txt", "".join(f"line {number}\n" for number in range(9)))
    found = call(desk, "BatchEdit", path="a.txt", edits=pairs((old, "x\n")))
    assert found["status"] == "error"
    assert len(searched) == searches
    assert ("hunk_id" in str(found)) == (searches == 2)


@pytest.mark.parametrize("name", ["BatchEdit", "MultiEdit"])
def test_a_batch(desk: OpenWorkspace, name: str) -> None:
    before = "var a = 1;\nb\nfunction c() {}\nd\n"
    target = put(desk, "src/a.py", before)
    edits = pairs(("function c", "export function c"), ("d\n", "d\n"), ("var a", "const a"))
    found = call(desk, name, path="src/a.py", edits=edits)
    assert target.read_text() == "const a = 1;\nb\nexport function c() {}\nd\n"
    assert found["status"] == "success"
    assert found["data"] == {
        "applied": True,
        "replacements_count": 2,
        "no_op_count": 1,
        "diff_preview": (
            "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,4 +1,4 @@\n"
            "-var a = 1;\n+const a = 1;\n b\n-function c() {}\n+export function c() {}\n d\n"
        ),
        "diff_truncated": False,
        "collisions": [],
        "edit_id": 1,
        "version": sha256(target.read_bytes())[:12],
    }
    assert {**found["stats"], "time_ms": 0} == {
        "time_ms": 0,
        "bytes_written": 40,
        "original_size": 31,
        "new_size": 40,
        "lines_added": 2,
        "lines_removed": 2,
    }
    assert found["context"]["path_resolved"] == "src/a.py"
    entry = desk.journal.get(1)
    assert entry is not None
    made = (entry.tool, entry.member, entry.state, str(entry.path))
    assert made == (name, "local", "done", "src/a.py")
    assert entry.inverse.apply(target.read_bytes()) == before.encode()


@pytest.mark.parametrize(
    ("data", "edits"),
    [
        (b"a\nb\nc\n", [("a", "x\ny"), ("c", "")]),
        (b"\xef\xbb\xbfa\r\nb", [("a\nb", "b\na")]),
        (b"a\xff\nb", [("b", "c")]),
        (b"".join(b"%d\n" % i for i in range(1000)), [(f"\n{i}11\n", "\nx\n") for i in range(1, 10)]),
    ],
)  # fmt: skip
def test_a_dry_run_tells_what_the_real_one_does(
    desk: OpenWorkspace, data: bytes, edits: list[tuple[str, str]]
) -> None:
    target = put(desk, "a.txt", data)
    mtime = target.stat().st_mtime_ns
    dry = call(desk, "BatchEdit", path="a.txt", edits=pairs(*edits), dry_run=True)
    assert (dry["status"], dry["data"]["applied"]) == ("partial", False)
    assert "edit_id" not in dry["data"]
    assert dry["stats"]["bytes_written"] == 0
    assert (target.read_bytes(), target.stat().st_mtime_ns) == (data, mtime)
    assert desk.journal.entries() == ()
    real = call(desk, "BatchEdit", path="a.txt", edits=pairs(*edits))
    assert real["data"]["diff_preview"] == dry["data"]["diff_preview"]
    assert {**real["stats"], "time_ms": 0, "bytes_written": 0} == {**dry["stats"], "time_ms": 0}
    entry = desk.journal.get(1)
    assert entry is not None
    if b"\xff" not in data:
        assert entry.diff.decode() == real["data"]["diff_preview"]


def test_the_diff_is_one_that_patch_takes(desk: OpenWorkspace, tmp_path: Path) -> None:
    patch = shutil.which("patch")
    if patch is None:
        pytest.skip("GNU patch is not installed")
    text = "".join(f"line {i}\n" for i in range(60))
    put(desk, "a.txt", text)
    Path(tmp_path, "copy").write_text(text)
    edits = pairs(("line 7\n", ""), ("line 50", "x\ny"))
    found = call(desk, "BatchEdit", path="a.txt", edits=edits)
    diff = found["data"]["diff_preview"].encode()
    subprocess.run([patch, "-s", "copy"], input=diff, cwd=tmp_path, check=True)
    assert Path(tmp_path, "copy").read_bytes() == Path(tmp_path, "a.txt").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("width", [10, 300, 30_000])
def test_a_long_diff_is_cut(desk: OpenWorkspace, width: int) -> None:
    lines = [f"<{i} {'x' * width}" for i in range(300)]
    put(desk, "a.txt", "".join(f"{line}\n" for line in lines))
    edits = [(f"{line}\n", f"{line} y\n") for line in lines[::2]]
    data = call(desk, "BatchEdit", path="a.txt", edits=pairs(*edits[:2]))["data"]
    assert data["diff_truncated"] == (width == 30_000)
    data = call(desk, "BatchEdit", path="a.txt", edits=pairs(*edits[2:]))["data"]
    assert data["diff_truncated"] is True
    assert data["replacements_count"] == 148
    assert len(data["diff_preview"].encode()) <= 10 << 10
    assert data["diff_preview"].count("\n") <= 100
    assert data["diff_preview"].endswith("\n")
    assert (data["diff_preview"].count("\n") == 100) == (width == 10)


def test_no_match(desk: OpenWorkspace) -> None:
    text = "def one():\n    return 1\n\ndef two():\n    return 2\n    return 2\n"
    edits = (("def one", "x"), ("def too():", "x"), ("return 2", "x"))
    data = batch_refused(desk, "PARTIAL_MATCH_FAIL", text, *edits)["data"]
    none, several = data["failures"]
    where = ["a.txt:4~4 - def too(): + def two():", "a.txt:5, 6"]
    assert data == {
        "applied": False,
        "where": where,
        "failed_index": 1,
        "failures": [none, several],
    }
    assert none == {
        "index": 1,
        "reason": "no match",
        "matches_count": 0,
        "lines": [],
        "nearest_lines": "4~4",
        "similarity": none["similarity"],
        "difference": ["- def too():", "+ def two():"],
    }
    twice = {"index": 2, "reason": "several matches", "matches_count": 2, "lines": [5, 6]}
    assert several == twice
    overlapping = batch_refused(desk, "PARTIAL_MATCH_FAIL", "aaa", ("aa", "b"))
    assert overlapping["data"]["failures"][0]["matches_count"] == 2


def test_collisions_and_duplicates(desk: OpenWorkspace) -> None:
    edits = (("c", "x"), ("a\nb", "x"), ("b\n", "y"))
    found = batch_refused(desk, "COLLISION_DETECTED", "a\nb\nc\n", *edits)
    lines = {"first_lines": "1~2", "second_lines": "2~2"}
    assert found["data"]["collisions"] == [{"first": 1, "second": 2, **lines}]
    found = batch_refused(desk, "DUPLICATE_EDITS", "a b", ("a", "x"), ("b", "y"), ("a", "x"))
    assert found["data"]["indices"] == [0, 2]


def test_of_too_many_collisions_the_number_is_told(desk: OpenWorkspace) -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    edits = [(text[i : 300 - i], str(i)) for i in range(110)]
    found = batch_refused(desk, "COLLISION_DETECTED", text, *edits)
    assert len(found["data"]["collisions"]) == 5_000
    assert found["data"]["collisions_count"] == 110 * 109 // 2
    few = batch_refused(desk, "COLLISION_DETECTED", text, *edits[:10])
    assert len(few["data"]["collisions"]) == 45
    assert "collisions_count" not in few["data"]


@each_row(
    "data edit",
    [(b"caf\xe9", ("caf", "th\xe9")), (b"caf\xe9", ("\xe9", "e")), (b"\xff\xff\xff", ("\xff", ""))],
)
def test_text_beyond_ascii_in_unknown_bytes(
    desk: OpenWorkspace, data: bytes, edit: tuple[str, str]
) -> None:
    found = batch_refused(desk, "ENCODING_ERROR", data, edit)
    assert found["data"]["encoding"] == "unknown"


@each_row("path name", [("a.gb", "gb18030"), ("a.sjis", "shift_jis"), ("a.u16", "utf-16-le")])
def test_a_configured_encoding(desk: OpenWorkspace, path: str, name: str) -> None:
    target = put(desk, path, "一行\r\n日本\r\n".encode(name))
    found = call(desk, "BatchEdit", path=path, edits=pairs(("日本\n", "日本\n中\n"), ("一", "a")))
    assert target.read_bytes() == "a行\r\n日本\r\n中\r\n".encode(name)
    assert "+a行\r\n" in found["data"]["diff_preview"]
    if name == "shift_jis":
        refused(desk, "ENCODING_ERROR", target, "BatchEdit", path=path, edits=pairs(("a", "🎉")))


@each_row("name", ["Read", "Edit", "BatchEdit", "prepare_batch_edit"])
@each_row(
    "path code",
    [
        *((path, "NOT_FOUND") for path in ("missing.txt", "no/such/folder.txt", 5)),
        *((path, "IS_DIRECTORY") for path in ("folder", ".")),
        *(("nul", "BINARY_FILE"), ("pipe", "EXECUTION_ERROR")),
        *((path, "ACCESS_DENIED") for path in ("../a", "/etc/passwd", "folder/../../a", "out")),
        *((path, "INVALID_PARAM") for path in ("", "a\0b", "\ud800", True)),
    ],
)
def test_paths(desk: OpenWorkspace, name: str, path: object, code: str) -> None:
    more = {"Read": {}, "Edit": AB}.get(name, {"edits": [AB]})
    if name == "prepare_batch_edit":
        assert desk.call("local", name, {"path": path, **more}).is_error
        return
    found = refused(desk, code, None, name, path=path, **more)
    assert ("path_resolved" in found["context"]) == (code not in ("ACCESS_DENIED", "INVALID_PARAM"))


def test_a_missing_file_with_a_name_close_to_it(desk: OpenWorkspace) -> None:
    put(desk, "src/words.py", "a")
    for name, more in (("BatchEdit", {"edits": [AB]}), ("Edit", AB), ("Read", {})):
        found = refused(desk, "NOT_FOUND", None, name, path="src/word.py", **more)
        assert found["data"]["similar"] == ["src/words.py"]


def test_access_lists(desk: OpenWorkspace) -> None:
    for path in ("secret/a", "dark/a"):
        put(desk, path, "a")
        for name, more in (
            ("BatchEdit", {"edits": [AB]}),
            ("BatchEdit", {"edits": [AB], "dry_run": True}),
            ("Edit", AB),
            ("Write", {"content": "b", "overwrite": True}),
        ):
            fields: Mapping[str, Any] = desk.call("guest", name, {"path": path, **more}).fields
            if (name, path) != ("Write", "dark/a"):
                assert fields["error"]["code"] == "ACCESS_DENIED", (name, path)
        assert Path(desk.root, path).read_text() == "a"


# arguments


@each_row(
    "edits named",
    [
        ([], ["edits"]),
        ("a", ["edits"]),
        (None, ["edits"]),
        ([5], ["edits[0]"]),
        ([{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "b"}], ["edits[1].old_string"]),
        ([{"old_string": True, "new_string": "b"}], ["edits[0].old_string"]),
        ([{"old_string": "a", "new_string": None}], ["edits[0].new_string"]),
        ([{"old_string": "a"}], ["edits[0]", "new_string"]),
        ([{"old_string": "a", "new_string": "b", "foo": 1}], ["edits[0]", "foo"]),
        ([{"old_string": "a", "new_string": "b", "replace_all": True}], ["edits[0]", "replace_all"]),
        ([{"old_string": "a", "new_string": "b\0"}], ["edits[0].new_string"]),
        ([{"old_string": "\ud800", "new_string": "b"}], ["edits[0].old_string"]),
        ([{"old_string": "a", "new_string": "a"}], ["edits"]),
    ],
)  # fmt: skip
def test_wrong_edits(desk: OpenWorkspace, edits: object, named: list[str]) -> None:
    target = put(desk, "a.txt", "a\n")
    found = refused(desk, "INVALID_PARAM", target, "BatchEdit", path="a.txt", edits=edits)
    said = found["data"]["argument"] + " " + found["data"]["reason"]
    assert said.startswith(named[0])
    assert all(word in said for word in named)
    assert named[0] in found["error"]["message"]


@each_row(
    "name arguments named",
    [
        ("BatchEdit", {"edits": [AB], "foo": 1}, "foo"),
        ("BatchEdit", {"edits": [AB], "dry_run": "yes"}, "dry_run"),
        ("BatchEdit", {"edits": [AB], "expected_mtime_ms": "1"}, "expected_mtime_ms"),
        ("BatchEdit", {"edits": [AB], "expected_size_bytes": -1}, "expected_size_bytes"),
        ("BatchEdit", {"edits": [AB], "expected_sha256": False}, "expected_sha256"),
        ("Edit", {"old_string": "", "new_string": "b"}, "old_string"),
        ("Edit", {"old_string": "a", "new_string": "a"}, "new_string"),
        ("Edit", {"old_string": "a\n", "new_string": "a\r\n"}, "new_string"),
        ("Edit", {"old_string": "a"}, "new_string"),
        *(("Read", {"start_line": line}, "start_line") for line in ("x", -1, 9, 10**30)),
        ("Read", {"limit": -1}, "limit"),
        ("Write", {}, "content"),
        ("Write", {"content": "b", "overwrite": True}, "overwrite"),
    ],
)
def test_wrong_arguments(
    desk: OpenWorkspace, name: str, arguments: dict[str, Any], named: str
) -> None:
    target = put(desk, "a.txt", "a\n")
    found = refused(desk, "INVALID_PARAM", target, name, path="a.txt", **arguments)
    assert found["data"]["argument"] == named


# expectations


def test_what_read_tells_is_what_the_others_expect(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", "a\nb\n")
    known = told_by_read(desk)
    assert call(desk, "BatchEdit", path="a.txt", edits=pairs(("a", "c")), **known)["data"][
        "applied"
    ]
    assert target.read_text() == "c\nb\n"
    stale = {**known, "expected_mtime_ms": None, "expected_size_bytes": None}
    more = {"old_string": "b", "new_string": "d", **stale}
    data = refused(desk, "CONFLICT", target, "Edit", path="a.txt", **more)["data"]
    assert data["expectation"] == "expected_sha256"
    actual = sha256(target.read_bytes())
    assert (data["expected"], data["actual"]) == (known["expected_sha256"], actual)
    capitals = {"expected_sha256": actual.upper()}
    done = call(desk, "BatchEdit", path="a.txt", edits=pairs(("b", "d")), **capitals)
    assert done["data"]["applied"]


@each_row("wrong", zip(EXPECTED, (1, 1, "0" * 64), strict=True))
@each_row("dry", [False, True])
def test_an_expectation_that_does_not_hold(
    desk: OpenWorkspace, wrong: tuple[str, Any], dry: bool
) -> None:
    name, expected = wrong
    more = {name: expected, "dry_run": dry}
    found = batch_refused(desk, "CONFLICT", "a\n", ("no such text", "b"), **more)
    mismatch = {"expected": expected, "actual": told_by_read(desk)[name]}
    told = {"expectation": name, **mismatch, "mismatches": {name: mismatch}}
    assert found["data"] == {"applied": False, **told}


@each_row("held", range(7))
@each_row("name", ["BatchEdit", "Edit", "Write"])
def test_all_expectations_that_do_not_hold_are_told(
    desk: OpenWorkspace, name: str, held: int
) -> None:
    """`held`: those that do hold, as bits; a dry run and the other language tell the same."""
    target = put(desk, "a.txt", "a\n")
    read = told_by_read(desk)
    others = dict(zip(EXPECTED, (987_654_321, 876_543_210, "7" * 64), strict=True))
    wrong = [key for bit, key in enumerate(read) if not held >> bit & 1]
    given: dict[str, Any] = {key: (others if key in wrong else read)[key] for key in read}
    own = {"BatchEdit": {"edits": [AB]}, "Edit": AB, "Write": {"content": "b\n", "overwrite": True}}
    more = {"path": "a.txt", **own[name], **given}
    data = refused(desk, "CONFLICT", target, name, **more)["data"]
    assert data["expectation"] == wrong[0]
    assert data["mismatches"] == {
        key: {"expected": others[key], "actual": read[key]} for key in wrong
    }
    for lang in ("en", "zh"):
        said = str(desk.call("local", name, more, lang=lang).fields["text"])
        for key in read:
            assert (key in said) == (str(others[key]) in said) == (key in wrong), said
            assert str(read[key]) in said or key not in wrong


# Edit


@each_row(
    "data old new after count",
    [
        ("aaa", "aa", "b", "ba", 1),
        ("a a a", "a", "b", "b b b", 3),
        ("a\r\na\r\n", "a\n", "b\nc\n", "b\r\nc\r\nb\r\nc\r\n", 2),
        ("a", "a", "", "", 1),
    ],
)
def test_edit_everywhere(
    desk: OpenWorkspace, data: str, old: str, new: str, after: str, count: int
) -> None:
    target = put(desk, "a.txt", data)
    found = call(desk, "Edit", path="a.txt", old_string=old, new_string=new, replace_all=True)
    assert target.read_bytes() == after.encode()
    assert found["data"]["replacements_count"] == count


def test_edit_once(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", "aaa b")
    for old, more in (("aa", {}), ("z", {"replace_all": True})):
        given = {"path": "a.txt", "old_string": old, "new_string": "x", **more}
        refused(desk, "PARTIAL_MATCH_FAIL", target, "Edit", **given)
    given = {"path": "a.txt", "old_string": "b", "new_string": "c"}
    dry = call(desk, "Edit", **given, dry_run=True)
    assert (dry["status"], target.read_text()) == ("partial", "aaa b")
    assert call(desk, "Edit", **given)["status"] == "success"
    assert target.read_text() == "aaa c"


# Write


def test_write_a_new_file(desk: OpenWorkspace) -> None:
    found = call(desk, "Write", path="new/a.txt", content="a\r\nb")
    assert Path(desk.root, "new/a.txt").read_bytes() == b"a\r\nb"
    head = "diff --git a/new/a.txt b/new/a.txt\nnew file mode"
    assert found["data"]["diff_preview"].startswith(head)
    assert (found["stats"]["original_size"], found["stats"]["bytes_written"]) == (0, 4)
    entry = desk.journal.get(1)
    assert entry is not None
    assert entry.kind == "create"


def test_write_overwrites_what_is_expected_if_it_is_told_to(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", "a\n")
    b, over = {"path": "a.txt", "content": "b\n"}, {"overwrite": True}
    refused(desk, "FILE_EXISTS", target, "Write", **b)
    refused(desk, "FILE_EXISTS", target, "Write", **b, expected_size_bytes=2)
    refused(desk, "CONFLICT", target, "Write", **b, **over, expected_size_bytes=3)
    folder = {**b, "path": "."}
    refused(desk, "IS_DIRECTORY", None, "Write", **folder, **over, expected_size_bytes=3)
    done = call(desk, "Write", **b, **over, expected_size_bytes=2)
    assert (done["status"], target.read_text()) == ("success", "b\n")
    again = call(desk, "Write", **b, **over, expected_size_bytes=2)
    assert (again["stats"]["bytes_written"], again["data"]["edit_id"]) == (0, 0)
    target.unlink()
    refused(desk, "NOT_FOUND", None, "Write", **b, **over, expected_size_bytes=2)
    assert not target.exists()
    assert call(desk, "Write", **b, **over)["status"] == "success"


@each_row(
    "before content after",
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\nb\n", "c\r\nd", b"c\nd"),
        (b"a", "c\r\nd", b"c\r\nd"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffc\n", b"\xef\xbb\xbfc\n"),
        (b"\xff\xfea\0", "\ufeffc\n", b"\xff\xfec\0\n\0"),
        (b"a\n", "\ufeffc\n", b"\xef\xbb\xbfc\n"),
        (b"a\n", "", b""),
        (b"", "a", b"a"),
    ],
)
def test_write_keeps_the_style_of_the_file(
    desk: OpenWorkspace, before: bytes, content: str, after: bytes
) -> None:
    target = put(desk, "a.txt", before)
    more = {"overwrite": True, "expected_sha256": sha256(before)}
    call(desk, "Write", path="a.txt", content=content, **more)
    assert target.read_bytes() == after


# Read


@each_row(
    "more content truncated",
    [
        ({}, "1\n2\n3\n4\n5", False),
        ({"start_line": 4}, "4\n5", False),
        ({"start_line": 2, "limit": 2}, "2\n3\n", True),
        ({"start_line": 4, "limit": 2}, "4\n5", False),
        ({"start_line": 0, "limit": 0}, "1\n2\n3\n4\n5", False),
        ({"limit": 1}, "1\n", True),
    ],
)
def test_read(desk: OpenWorkspace, more: dict[str, int], content: str, truncated: bool) -> None:
    target = put(desk, "a.txt", "1\n2\r\n3\n4\n5")
    found = call(desk, "Read", path="a.txt", **more)
    assert found["data"] == {"content": content, "truncated": truncated}
    assert found["status"] == ("partial" if truncated else "success")
    assert {**found["stats"], "time_ms": 0} == {
        "time_ms": 0,
        "total_lines": 5,
        "lines_read": len(content.splitlines()),
        "file_mtime_ms": target.stat().st_mtime_ns // 1_000_000,
        "file_size_bytes": 10,
        "file_sha256": sha256(target.read_bytes()),
    }


def test_read_an_empty_file_and_many_lines(desk: OpenWorkspace) -> None:
    put(desk, "empty.txt", "")
    assert call(desk, "Read", path="empty.txt")["data"] == {"content": "", "truncated": False}
    put(desk, "a.txt", "".join(f"{i}\n" for i in range(501)))
    found = call(desk, "Read", path="a.txt")
    assert found["data"]["truncated"]
    assert found["stats"]["lines_read"] == 500


@each_row(
    "data content encoding",
    [
        (b"a\r\nb", "a\nb", None),
        ("é\n".encode(), "é\n", None),
        (b"\xef\xbb\xbfa\n", "a\n", "utf-8-sig"),
        (b"\xff\xfea\0\n\0", "a\n", "utf-16-le"),
        (b"caf\xe9 x\n", "caf\\xe9 x\n", "unknown"),
        (b"caf\xe9 x\n" * 1_500_000, "caf\\xe9 x\n" * 500, "unknown"),
    ],
)
def test_read_tells_an_encoding_that_is_not_utf_8(
    desk: OpenWorkspace, data: bytes, content: str, encoding: str | None
) -> None:
    put(desk, "a.txt", data)
    found = call(desk, "Read", path="a.txt")
    assert found["data"]["content"] == content
    assert found["data"].get("encoding") == encoding
    assert ("\\xNN" in found["text"]) == (encoding == "unknown")


# Read: what is cut


WIDE = "x" * 100_000
"""As many characters as are shown at once."""


@pytest.mark.slow
@each_row(
    "text more content next_line",
    [
        (WIDE + "yz", {}, WIDE, None),
        (WIDE + "yz\n", {}, WIDE, None),
        (WIDE + "y\nb\n", {}, WIDE, 2),
        ("a\n" + WIDE + "y\nb", {"start_line": 2}, WIDE, 3),
        ("a\n" + WIDE + "y\n", {"start_line": 2}, WIDE, None),
        ("é" * 100_001, {}, "é" * 100_000, None),
        ("a\n" + WIDE + "\nb\n", {}, "a\n", 2),
        ("a\r\n" + WIDE + "\r\nb\r\n", {}, "a\n", 2),
        ("a\nb\nc", {"limit": 2}, "a\nb\n", 3),
        ("a\nb\nc", {"start_line": 2, "limit": 1}, "b\n", 3),
        # above 8 MiB only what is shown is read
        (WIDE * 90, {}, WIDE, None),
        ("a\n" + WIDE * 90 + "\nb\n", {"start_line": 2}, WIDE, 3),
        ("é\n" * 3_000_000, {"limit": 10**6}, "é\n" * 50_000, 50_001),
    ],
)
def test_what_is_cut_is_shown_as_it_is_and_said(
    desk: OpenWorkspace,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    more: dict[str, int],
    content: str,
    next_line: int | None,
) -> None:
    monkeypatch.setattr(catalog, "READ_SHARE", 100)
    put(desk, "a.txt", text)
    for lang in ("en", "zh"):
        answer = desk.call("local", "Read", {"path": "a.txt", **more}, lang=lang)
        found: Mapping[str, Any] = answer.fields
        assert found["data"]["content"] == content
        assert (found["status"], found["data"]["truncated"]) == ("partial", True)
        said: str = found["text"]
        assert (f"start_line: {next_line}" in said) == (next_line is not None), said
        assert ("100000" in said) == (content[-1] != "\n"), said


def test_lines_of_four_byte_units_are_never_cut_within(desk: OpenWorkspace) -> None:
    """Half of what may be read is line ends there, so it ends before what may be shown does."""
    put(desk, "a.txt", b"\xff\xfe\0\0" + ("ab\r\n" * 600_000).encode("utf-32-le"))
    found = call(desk, "Read", path="a.txt", limit=10**6)
    assert set(found["data"]["content"].split("\n")[:-1]) == {"ab"}
    assert found["data"]["content"].endswith("ab\n")
    assert found["data"]["truncated"]


# U+FFFD


@pytest.mark.parametrize(
    ("name", "arguments", "warned"),
    [
        ("Edit", {"old_string": "a", "new_string": "\ufffd"}, True),
        ("Edit", {"old_string": "a", "new_string": "\ufffd", "dry_run": True}, True),
        ("Edit", {"old_string": "\ufffd", "new_string": "b\ufffd"}, False),
        ("BatchEdit", {"edits": pairs(("a", "b"), ("b", "\ufffd"))}, True),
        ("BatchEdit", {"edits": pairs(("a", "b"))}, False),
        ("Write", {"content": "\ufffd", "overwrite": True, "expected_size_bytes": 8}, False),
    ],
)
def test_a_lost_character_is_warned_of(
    desk: OpenWorkspace, name: str, arguments: dict[str, Any], warned: bool
) -> None:
    put(desk, "a.txt", "a b \ufffd\n")
    found = call(desk, name, path="a.txt", **arguments)
    assert found["status"] != "error", found
    assert ("warnings" in found["data"]) == ("U+FFFD" in found["text"]) == warned
    assert "warnings" in call(desk, "Write", path="new.txt", content="\ufffd")["data"]


# what a refusal costs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "old"),
    spread([
        ("the same line\n" * 70_000, "the some line"),
        ("ab cd " * 170_000, "ab cd ab xd ab"),
        ("这是一行中文文本,含有标点。\n" * 10_000, "这是一行英文文本,含有标点。\n" * 30),
        ("".join(f"    line {i:06d} = compute({i})\n" for i in range(20_000)), "\n".join(f"line {i:06d} = compute({i})" for i in range(500, 530))),
        ("".join(f"{i * i}\n" for i in range(100_000)), "".join(f"{i * i}\n" for i in range(10_000)) + "x"),
        ("".join(f"{i * i}\n" for i in range(100_000)), "".join(f"{i * 7 + i * i}" for i in range(80_000))),
        ("a\n\n\nb\n", "\n\n\n\n\n\n"),
    ], of=2),
    ids=["equal lines", "one line", "Chinese", "indentation", "long", "other and long", "blank"],
)  # fmt: skip
def test_a_refusal_is_short_and_quick(desk: OpenWorkspace, text: str, old: str) -> None:
    put(desk, "a.txt", text)
    with bounded():
        answer = desk.call("local", "BatchEdit", {"path": "a.txt", "edits": pairs((old, "x"))})
    assert answer.fields["error"]["code"] == "PARTIAL_MATCH_FAIL"
    (failure,) = answer.data["data"]["failures"]
    data = answer.data["data"]  # the text to send again, whole, or the diff of what is planned
    corrected = failure.get("corrected_old_string") or data.get("corrected_diff") or ""
    drawn = data.get("hunk_id", "-")  # it costs 2 to 7 tokens, each time
    told = answer.text.replace(drawn, "f04ea19a")
    assert tokens(told) - tokens(json.dumps(corrected)) < 300
