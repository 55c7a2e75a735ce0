"""The tools of the compat toolset, as a caller meets them who knows them from elsewhere.

What stands here in the words of others was told by them: the MCP filesystem server 2026.8.31 and
the reference editor of Anthropic's API, asked the same on the same files.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.mcp.messages import tool_result
from copydesk.app.reference import definitions, ws_mod
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.errors import FileNotFound
from copydesk.text import relpath
from copydesk.text.relpath import RelPath, matches
from copydesk.tools import compat as compat_module
from copydesk.tools.compat import EDITOR, MOST_SHOWN, compat
from copydesk.tools.report import Answer, Fields, Original
from support.batch_calls import call, nulls, put, refused
from support.desks import Setup
from support.rows import each_row

TEXT = "one\ntwo\nthree\ntwo\n"
NESTED = "class A:\n    def f(self):\n        if x:\n            y()\n"
MEMBERS = {
    "guest": MemberConfig({"no_write_dirs": ("secret",), "no_read_dirs": ("dark",)}),
    "inner": MemberConfig({"read_dirs": ("src",)}),
    "asking": MemberConfig(approval="human"),
    "person": MemberConfig(),
}


DESK = Setup(Config(members=MEMBERS, durability="fast"))


@dataclass(frozen=True)
class Case:
    """A call on `a.txt`: what the file reads after, or the code and what `data` holds besides."""

    tool: str
    arguments: Mapping[str, Any]
    after: str | bytes = ""
    before: str | bytes = TEXT
    code: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def check_case(desk: OpenWorkspace, case: Case) -> dict[str, Any]:
    """The call does what the case says; what it wrote is taken back with the very bytes."""
    target = put(desk, "a.txt", case.before)
    raw = target.read_bytes()
    arguments = {"path": "a.txt", **case.arguments}
    if case.code:
        found = refused(desk, case.code, target, case.tool, **arguments)
    else:
        found = call(desk, case.tool, **arguments)
        assert found["status"] == "success", found
        after = case.after.encode() if isinstance(case.after, str) else case.after
        assert target.read_bytes() == after
        assert found["data"]["applied"] is True
        undone = desk.call("local", "undo_file_modification", {"edit_id": found["data"]["edit_id"]})
        assert not undone.is_error, undone.text
        assert target.read_bytes() == raw
    assert {key: found["data"].get(key) for key in case.data} == dict(case.data)
    assert not nulls(found["data"]), found
    return found


def edits(*given: tuple[str, str]) -> dict[str, Any]:
    return {"edits": [{"oldText": old, "newText": new} for old, new in given]}


def replacing(old: str, new: str | None) -> dict[str, Any]:
    more = {} if new is None else {"new_str": new}
    return {"command": "str_replace", "old_str": old, **more}


def inserting(line: int, text: str) -> dict[str, Any]:
    return {"command": "insert", "insert_line": line, "insert_text": text}


WRITTEN = [
    Case("write_file", {"content": "new\n"}, "new\n"),
    Case("write_file", {"content": ""}, ""),
    Case("write_file", {"content": "a\nb\n"}, "a\r\nb\r\n", before="x\r\n"),
    Case("write_file", {"content": "a\n"}, b"\xef\xbb\xbfa\n", before=b"\xef\xbb\xbfx\n"),
    Case("edit_file", edits(("one", "1")), "1\ntwo\nthree\ntwo\n", data={"replacements_count": 1}),
    Case("edit_file", edits(("three\n", ""), ("one", "1")), "1\ntwo\ntwo\n"),
    Case("edit_file", edits(("one", "two"), ("three", "3")), "two\ntwo\n3\ntwo\n"),
    Case("edit_file", edits(("a\nb", "c\nd")), b"\xff\r\nc\r\nd\n\x80", before=b"\xff\r\na\r\nb\n\x80"),
    Case("edit_file", edits(("one", "1"), ("three", "three")), "1\ntwo\nthree\ntwo\n", data={"no_op_count": 1}),
    Case(EDITOR, replacing("one\ntwo", "1\n2"), "1\n2\nthree\ntwo\n"),
    Case(EDITOR, replacing("three\n", ""), "one\ntwo\ntwo\n"),
    Case(EDITOR, replacing("three\n", None), "one\ntwo\ntwo\n"),
    Case(EDITOR, replacing("a", "b"), b"\xef\xbb\xbfb\r\n", before=b"\xef\xbb\xbfa\r\n"),
    Case(EDITOR, inserting(0, "zero"), f"zero\n{TEXT}"),
    Case(EDITOR, inserting(0, "zero\n"), b"\xef\xbb\xbfzero\r\n\r\na\r\n", before=b"\xef\xbb\xbfa\r\n"),
    Case(EDITOR, inserting(1, "x\ny\n"), "one\nx\ny\n\ntwo\nthree\ntwo\n"),
    Case(EDITOR, inserting(1, "\n"), "one\n\n\ntwo\nthree\ntwo\n"),
    Case(EDITOR, inserting(1, ""), "one\n\ntwo\nthree\ntwo\n"),
    Case(EDITOR, {"command": "insert", "insert_line": 1, "new_str": "x"}, "one\nx\ntwo\nthree\ntwo\n"),
    Case(EDITOR, inserting(5, "end"), f"{TEXT}\nend"),
    Case(EDITOR, replacing("", "new\n"), "new\n", before=""),
    Case("write_file", {"content": "a\r\nb\n"}, "a\r\nb\n", before="x\n"),
    Case("edit_file", edits(("one", "two two"), ("two two", "2")), "2\ntwo\nthree\ntwo\n"),
    Case("edit_file", edits(("", "zero\n")), "zero\n", before=""),
    Case("edit_file", edits(("  three", "  3")), "one\ntwo\n3\ntwo\n"),
    Case("edit_file", edits(("if a:\n  b", "if a:\n    c")), "  if a:\n      c\n", before="  if a:\n    b\n"),
    Case("edit_file", edits(("if x:\n    y()", "if not x:\n    z()")), NESTED.replace("x:", "not x:").replace("y", "z"), before=NESTED),
    Case("edit_file", edits(("if x:\n\ty()", "if not x:\n\tz()")), NESTED.replace("x:", "not x:").replace("y", "z").replace("    ", "\t"), before=NESTED.replace("    ", "\t")),
    Case("edit_file", edits(("if x:\n    y()\n", "if x:\n    z()")), NESTED.replace("y", "z") + "    w()\n", before=NESTED + "    w()\n"),
    Case("edit_file", edits(("  go(x)\n  w()", "  go(x)\n  z()")), "f:\n  go(x)\n  z()\ng:\n    go(x)\n    z()\n", before="f:\n  go(x)\n  z()\ng:\n    go(x)\n    w()\n"),
    Case("edit_file", edits(("<li>a</li>", "<li>a</li>\n</ul>\n<ul>")), "<ul>\n  <li>a</li>\n</ul>\n<ul>\n</ul>\n", before="<ul>\n  <li>a</li>\n</ul>\n"),
    Case("edit_file", edits(("   \\xff a", "   \\xff b")), b"  \xff b\n\xe9\n", before=b"  \xff a\n\xe9\n"),
    Case("edit_file", edits(("   \\xff\\x41", "   \\xffZ")), b"  \xffZ\n\xe9\n", before=b"  \xff\\x41\n\xe9\n"),
    Case("edit_file", edits(("q \\xff\nz", "r\ns")), b"\tr\r\n\ts\r\n\xe9", before=b"\tq \xff\r\n\tz\r\n\xe9"),
    Case("edit_file", edits(("a\n  b", "c\nd")), "  c\r\n  d\r\n", before="  a\r\n    b\r\n"),
    Case(EDITOR, inserting(4, "end"), f"{TEXT}end\n"),
    Case(EDITOR, inserting(1, "end"), "one\nend", before="one"),
    Case(EDITOR, inserting(1, "end\n"), "one\nend\n", before="one"),
    Case(EDITOR, inserting(1, "X"), "a\nX\nb", before="a\nb"),
    Case(EDITOR, inserting(0, "end"), "end\n", before=""),
    Case(EDITOR, inserting(1, "x"), b"\xff\r\nx\r\n\x80\r\n", before=b"\xff\r\n\x80\r\n"),
    Case(EDITOR, {**inserting(1, "x"), "old_str": "", "view_range": []}, "one\nx\ntwo\nthree\ntwo\n"),
]  # fmt: skip
MADE = [
    Case("write_file", {"content": "a\r\nb"}, "a\r\nb", before=""),
    Case("write_file", {"content": ""}, "", before=""),
    Case(EDITOR, {"command": "create", "file_text": "a\n\tb\r\n\ufeff"}, "a\n\tb\r\n\ufeff", before=""),
]  # fmt: skip
KEPT = [
    # what stands before the line, how it ends ("" where the file does), what stands after it
    ("ascii", b"", "\n", b"b"),
    ("ascii", b"a\n", "", b""),
    ("ascii", b"a\r\n", "", b""),
    ("ascii", b"\xef\xbb\xbf", "", b""),
    ("ascii", b"\xef\xbb\xbfa\r\n", "\r\n", b"b"),
    ("ascii", b"a\n", "\n", b"\rb\nc\r\nd"),
    ("ascii", b"a\rb\n", "\n", b"\n\n"),
    ("ascii", b"a\x0c\xe2\x80\xa8\r\n", "\r\n", b"\xff\x80"),
    ("utf-16-le", b"\xff\xfea\0\n\0", "\n", b"b\0"),
    ("utf-16-be", b"\xfe\xff\0a\0\r\0\n", "", b""),
]


@each_row("codec head ending tail", KEPT)
def test_no_byte_outside_of_the_edit_changes(
    desk: OpenWorkspace, codec: str, head: bytes, ending: str, tail: bytes
) -> None:
    """Every tool that edits a part of a file, on texts with every kind of end."""
    old, new, end = (text.encode(codec) for text in ("old", "new", ending))
    crlf = "\r\n".encode(codec) in head
    newline = end or ("\r\n" if crlf else "\n").encode(codec)
    line = 1 + head.count(b"\n")
    for tool, arguments, after in (
        ("edit_file", edits(("old", "new")), new + end),
        (EDITOR, replacing("old", "new"), new + end),
        (EDITOR, inserting(line - 1, "new"), new + newline + old + end),
        (EDITOR, inserting(line, "new"), old + newline + new + end),
        (EDITOR, inserting(line, "new\n"), old + newline + new + newline + end),
    ):
        before = head + old + end + tail
        check_case(desk, Case(tool, arguments, head + after + tail, before=before))


@each_row("text", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_lines_are_put_into_an_empty_file(desk: OpenWorkspace, text: bytes) -> None:
    new = "x\n".encode("utf-16-le" if text == b"\xff\xfe" else "utf-8")
    newline = new[len(new) // 2 :]
    for given, after in (("x", new), ("x\n", new + newline)):
        check_case(desk, Case(EDITOR, inserting(0, given), text + after, before=text))


REFUSED = [
    Case("write_file", {}, code="INVALID_PARAM", data={"argument": "content"}),
    Case("write_file", {"content": "x", "overwrite": True}, code="INVALID_PARAM", data={"argument": "overwrite"}),
    Case("write_file", {"content": "x"}, before=b"a\0b", code="BINARY_FILE"),
    Case("write_file", {"content": "x", "path": "."}, code="IS_DIRECTORY"),
    Case("write_file", {"content": "é"}, before=b"\xff\xe9\n", code="ENCODING_ERROR"),
    Case("write_file", {"content": "x", "path": ".minds/a"}, code="ACCESS_DENIED"),
    Case("edit_file", edits(("two", "2")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 0}),
    Case("edit_file", edits(("one", "two"), ("three", "3"), ("tow", "2")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 2}),
    Case("edit_file", edits(("one\ntwo", "1"), ("two\nthree", "2")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 1}),
    Case("edit_file", edits(("one", "1"), ("one", "1")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 1}),
    Case("edit_file", edits(("", "zero\n")), code="INVALID_PARAM", data={"argument": "edits[0].oldText"}),
    Case("edit_file", edits(("", "one\n")), before="\n", code="INVALID_PARAM"),
    Case("edit_file", edits(("a\n\tb", "c\nd")), before="  a\n    b\n", code="PARTIAL_MATCH_FAIL"),
    Case("edit_file", edits(("y()\nz()", "if x:\n    y()\n    z()")), before="if x:\n    y()\n    z()\n", code="PARTIAL_MATCH_FAIL"),
    Case("edit_file", edits((" b ", "c")), before="a\n  b\n\tb\n", code="PARTIAL_MATCH_FAIL"),
    Case("edit_file", {**edits(("one", "1")), "dry_run": True}, code="INVALID_PARAM", data={"argument": "dry_run"}),
    Case("edit_file", {"edits": [{"oldText": "one"}]}, code="INVALID_PARAM", data={"argument": "edits[0].newText"}),
    Case("edit_file", {**edits(("one", "1")), "path": "b.txt"}, code="NOT_FOUND", data={"similar": ["a.txt"]}),
    Case(EDITOR, replacing("two", "2"), code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("four", "2"), code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("aa", "b"), before="aaa", code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("", "2"), code="INVALID_PARAM", data={"argument": "old_str"}),
    Case(EDITOR, {"command": "str_replace"}, code="INVALID_PARAM", data={"argument": "old_str"}),
    Case(EDITOR, {"command": "create", "path": "n.txt"}, code="INVALID_PARAM", data={"argument": "file_text"}),
    Case(EDITOR, {"command": "create", "file_text": "x"}, code="FILE_EXISTS", data={"size_bytes": 18}),
    Case(EDITOR, {"command": "insert", "insert_text": "x"}, code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, {"command": "insert", "insert_line": 1}, code="INVALID_PARAM", data={"argument": "new_str"}),
    Case(EDITOR, inserting(6, "x"), code="INVALID_PARAM", data={"argument": "insert_line", "reason": "the file has 5 lines"}),
    Case(EDITOR, inserting(-1, "x"), code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, inserting(10**30, "x"), code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, inserting(1, "x"), before=b"\xff\xfea\0b", code="ENCODING_ERROR"),
    Case(EDITOR, {**inserting(0, "x"), "path": "b.txt"}, code="NOT_FOUND", data={"similar": ["a.txt"]}),
    Case(EDITOR, inserting(1, "é"), before=b"\xff\xe9\n", code="ENCODING_ERROR"),
    Case(EDITOR, {"command": "undo_edit"}, code="EXECUTION_ERROR"),
    Case(EDITOR, {"command": "redo_edit"}, code="INVALID_PARAM", data={"argument": "command"}),
    Case(EDITOR, {}, code="INVALID_PARAM", data={"argument": "command"}),
    Case(EDITOR, {"command": "view", "path": "b.txt"}, code="NOT_FOUND"),
    *(
        Case(EDITOR, {"command": "view", "view_range": given}, code="INVALID_PARAM", data={"argument": named})
        for named, *wrong in (
            ("view_range", [1], [1, 2, 3], [0, 2], [3, 2], [2, -2], [1, 6], [6, -1], [5, 10**30]),
            ("view_range[0]", [True, 2], ["1", "2"]),
        )
        for given in wrong
    ),
    Case("read_text_file", {"head": 1, "tail": 1}, code="INVALID_PARAM", data={"argument": "tail"}),
    Case("read_text_file", {"path": "."}, code="IS_DIRECTORY"),
    Case("read_text_file", {"path": ""}, code="INVALID_PARAM"),
    Case(EDITOR, {"command": "view"}, before=b"a\0b", code="BINARY_FILE"),
]  # fmt: skip


@each_row("name", ["a.py", "a.yaml", "Makefile", "a.TXT", "a.html", "a.md"])
def test_where_indentation_may_be_free_a_line_is_written_as_given(
    desk: OpenWorkspace, name: str
) -> None:
    before, pair = "a:\n  b\n", ("b", "b\n- c")
    target = put(desk, name, before)
    if "." in name and name.endswith(("TXT", "html", "md")):
        call(desk, "edit_file", path=name, **edits(pair))
        assert target.read_text() == before.replace(*pair)
    else:
        found = refused(desk, "PARTIAL_MATCH_FAIL", target, "edit_file", path=name, **edits(pair))
        assert found["data"]["failures"][0]["corrected_old_string"] == "  b"


def approve(desk: OpenWorkspace, answer: Any) -> str:
    """A person approves the plan that the answer names; its id."""
    assert answer.envelope.error["code"] == "APPROVAL_REQUIRED", answer
    (block,) = answer.original.content
    hunk_id, person = str(answer.facts["hunk_id"]), desk.member("person")
    assert block["text"].startswith("APPROVAL_REQUIRED: ")
    assert hunk_id in block["text"]
    shown = desk.desk.review.show(person, hunk_id)
    desk.desk.review.approve(person, hunk_id, shown.before, shown.after)
    return hunk_id


@pytest.mark.slow
@each_row("case", [*WRITTEN, *MADE])
def test_what_a_person_approved_is_written_by_the_same_call(
    desk: OpenWorkspace, case: Case
) -> None:
    target, again = (Path(desk.root, name) for name in ("a.txt", "b.txt"))
    for file in (target, again):
        file.write_bytes(case.before.encode() if isinstance(case.before, str) else case.before)
        if case in MADE:
            file.unlink()
    arguments = {"path": "a.txt", **case.arguments}
    hunk_id = approve(desk, desk.call("asking", case.tool, arguments))
    assert target.exists() == again.exists()
    assert case in MADE or target.read_bytes() == again.read_bytes()
    done: Any = desk.call("asking", case.tool, arguments)
    own: Any = desk.call("person", case.tool, {**arguments, "path": "b.txt"})
    assert not done.is_error, done.text
    assert target.read_bytes() == again.read_bytes()
    assert done.original.content == tuple(
        {**one, "text": str(one["text"]).replace("b.txt", "a.txt")} for one in own.original.content
    )
    assert done.fields["stats"] == {**own.envelope.stats, "time_ms": done.envelope.stats["time_ms"]}
    entry = desk.desk.history.entry(desk.member("asking"), int(str(done.facts["edit_id"])))
    assert (entry.hunk_id, entry.approval and entry.approval.by) == (hunk_id, "person")


def test_a_directory_that_no_person_could_see_as_a_plan_is_not_made(desk: OpenWorkspace) -> None:
    asked = desk.call("asking", "create_directory", {"path": "new/deep"})
    assert asked.data["error"]["code"] == "APPROVAL_REQUIRED"
    assert not Path(desk.root, "new").exists()


def test_an_approved_move_is_made_by_the_same_call(desk: OpenWorkspace) -> None:
    put(desk, "d/a.txt", TEXT)
    put(desk, "d/b.txt", TEXT)
    Path(desk.root, "to").mkdir()
    arguments = {"source": "d/a.txt", "destination": "to/a.txt"}
    approve(desk, desk.call("asking", "move_file", arguments))
    assert not Path(desk.root, "to/a.txt").exists()
    assert not desk.call("asking", "move_file", arguments).is_error
    assert Path(desk.root, "to/a.txt").read_text() == TEXT
    assert not Path(desk.root, "d/a.txt").exists()


def test_a_plan_of_a_text_that_has_changed_is_not_the_one_that_was_approved(
    desk: OpenWorkspace,
) -> None:
    target, changed = put(desk, "a.txt", TEXT), TEXT + "more\n"

    def asked() -> Answer:
        return desk.call("asking", "write_file", {"path": "a.txt", "content": "new\n"})

    first = approve(desk, asked())
    target.write_text(changed)
    found, again = asked(), asked()
    assert found.data["error"]["code"] == "APPROVAL_REQUIRED"
    assert again.facts["hunk_id"] == found.facts["hunk_id"] != first
    desk.desk.review.reject(desk.member("person"), str(found.facts["hunk_id"]), "no")
    no = asked()
    assert no.is_error
    assert "no" in no.text
    assert target.read_text() == changed


@each_row("case", WRITTEN)
def test_what_is_written_and_taken_back(desk: OpenWorkspace, case: Case) -> None:
    found = check_case(desk, case)
    assert found["stats"]["new_size"] == found["stats"]["bytes_written"]


@pytest.mark.slow
@each_row("case", REFUSED)
def test_what_is_refused(desk: OpenWorkspace, case: Case) -> None:
    found = check_case(desk, case)
    chinese = desk.call("local", case.tool, {"path": "a.txt", **case.arguments}, lang="zh")
    for said in (found["text"], str(chinese.fields["text"])):
        assert "old_string" not in said
        assert "Read" not in said.split()


def test_an_edit_is_dry_first(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    given = {"path": "a.txt", **edits(("one", "1"))}
    dry = call(desk, "edit_file", **given, dryRun=True)
    assert (dry["status"], dry["data"]["applied"]) == ("partial", False)
    assert target.read_text() == TEXT
    assert desk.journal.entries() == ()
    done = call(desk, "edit_file", **given)
    assert done["data"]["diff_preview"] == dry["data"]["diff_preview"]
    assert done["data"]["diff_preview"].endswith("@@ -1,4 +1,4 @@\n-one\n+1\n two\n three\n two\n")


@each_row("content", ["", "a\r\nb", "\ufeffa\n"])
@each_row("tool", ["write_file", EDITOR])
def test_a_new_file_has_the_very_text(desk: OpenWorkspace, tool: str, content: str) -> None:
    target = Path(desk.root, "new", "deep", "a.txt")
    more: dict[str, Any] = {"content": content}
    if tool == EDITOR:
        more = {"command": "create", "file_text": content}
    else:
        refused(desk, "NOT_FOUND", None, tool, path="new/deep/a.txt", **more)
        call(desk, "create_directory", path="new/deep")
    found = call(desk, tool, path="new/deep/a.txt", **more)
    assert found["status"] == "success"
    assert target.read_bytes() == content.encode()
    call(desk, "undo_file_modification", edit_id=found["data"]["edit_id"])
    assert not target.exists()
    shutil.rmtree(Path(desk.root, "new"), ignore_errors=True)


def test_an_edit_of_nothing_is_done(desk: OpenWorkspace) -> None:
    """As there, where the file is written again; here nothing is."""
    target = put(desk, "a.txt", TEXT)
    for tool, more in (
        ("write_file", {"content": TEXT}),
        ("edit_file", edits()),
        ("edit_file", edits(("one\n", "one\r\n"))),
        (EDITOR, replacing("one", "one")),
    ):
        found = call(desk, tool, path="a.txt", **more)
        told = (found["status"], found["data"]["edit_id"], found["stats"]["bytes_written"])
        assert told == ("success", 0, 0), tool
    assert target.read_text() == TEXT
    assert desk.journal.entries() == ()


READ = "1\r\n2\n3\n4"


@each_row(
    "text more content",
    [
        *((READ, more, READ) for more in ({}, {"head": 9}, {"encoding": "utf-8"})),
        *((READ, {"tail": count}, "1\n2\n3\n4") for count in (9, 10**30)),
        (READ, {"head": 2}, "1\r\n2"),
        (READ, {"head": -1}, ""),
        (READ, {"tail": 2}, "3\n4"),
        (READ, {"head": 0, "tail": 1}, "4"),
        ("1\n2\n", {"tail": 1}, ""),
        ("1\n2\n", {"tail": 2}, "2\n"),
        ("1\n2\n", {"head": 2}, "1\n2"),
        ("", {"tail": 1}, ""),
        ("", {"head": 1}, ""),
        ("\ufeffa\n", {}, "\ufeffa\n"),
        (b"a\0\xffb", {}, "a\0\ufffdb"),
        (b"\xff\n", {}, "\\xff\n"),
        ("x" * 200_000, {}, "x" * 200_000),
        ("é\n" * 60_000, {"head": 50_001}, "é\n" * 50_000 + "é"),
    ],
)
def test_reading(
    desk: OpenWorkspace, text: str | bytes, more: dict[str, Any], content: str
) -> None:
    put(desk, "a.txt", text)
    for lang in ("en", "zh"):
        found = desk.call("local", "read_text_file", {"path": "a.txt", **more}, lang=lang)
        assert dict(found.data["data"]) == {"content": content}  # type: ignore[arg-type]
        assert found.text == content


CAT = "Here's the result of running `cat -n` on "


def said(desk: OpenWorkspace, tool: str, **arguments: Any) -> str:
    """The first block of an answer, with the root as "ROOT"."""
    answer: Any = desk.call("local", tool, arguments)
    assert answer.envelope is not None
    return str(answer.original.content[0]["text"]).replace(desk.root, "ROOT")


@each_row(
    "given content",
    [
        (None, "     1\tone\n     2\ttwo\n     3\tthree\n     4\ttwo\n     5\t\n"),
        ([2, 3], "     2\ttwo\n     3\tthree\n"),
        ([4, -1], "     4\ttwo\n     5\t\n"),
        ([4, 4], "     4\ttwo\n"),
        ([1, 5], "     1\tone\n     2\ttwo\n     3\tthree\n     4\ttwo\n     5\t\n"),
    ],
)
def test_viewing(desk: OpenWorkspace, given: list[int] | None, content: str) -> None:
    put(desk, "a.txt", TEXT)
    for tool in (EDITOR, "str_replace_editor"):
        found = said(desk, tool, command="view", path=f"{desk.root}/a.txt", view_range=given)
        assert found == f"{CAT}ROOT/a.txt:\n{content}"


def test_a_long_view_is_cut(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", "line\n" * MOST_SHOWN)
    shown = said(desk, EDITOR, command="view", path="a.txt")
    assert "3200\tline\n  3201\t<response clipped><NOTE>To save on context" in shown
    refused(desk, "INCOMPLETE_READ", None, "write_file", path="a.txt", content="x")
    assert "  3201\tline" in said(desk, EDITOR, command="view", path="a.txt", view_range=[3200, -1])


def test_viewing_a_directory(desk: OpenWorkspace) -> None:
    for name in ("a.txt", "src/b.txt", "src/in/c.txt", ".git/x", "src/.d", "dark/g"):
        put(desk, name, "")
    head = "Here's the files and directories up to 2 levels deep in {}, excluding hidden items:\n"
    listed = "R\nR/a.txt\nR/dark\nR/dark/g\nR/src\nR/src/b.txt\nR/src/in\n\n"
    one = {"command": "view", "path": desk.root}
    assert said(desk, EDITOR, **one) == head.format("ROOT") + listed.replace("R", "ROOT")
    text = said(desk, EDITOR, **{**one, "view_range": [1, 2]})
    assert text == "The `view_range` parameter is not allowed when `path` points to a directory."
    for member, path, seen in (
        ("guest", desk.root, listed.replace("R/dark\nR/dark/g\n", "")),
        ("inner", desk.root, "R\nR/src\nR/src/b.txt\nR/src/in\n\n"),
        ("guest", "dark", None),
        ("inner", "a.txt", None),
    ):
        answer: Any = desk.call(member, EDITOR, {**one, "path": path}).data
        content = head.format(desk.root) + seen.replace("R", desk.root) if seen else None
        assert answer["data"].get("content") == content, answer
        assert answer.get("error", {}).get("code") == (None if seen else "ACCESS_DENIED")


EDITED = "The file ROOT/a.txt has been edited. " + CAT
REVIEW = "Review the changes and make sure they are as expected"
AGAIN = "Edit the file again if necessary."
SIX = "     3\t3\n     4\t4\n     5\t5\n     6\tsix\n     7\t"
UNIQUE = "Please ensure it is unique"


def test_the_words_of_the_editor(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", "".join(f"{number}\n" for number in range(1, 12)))
    put(desk, "b.txt", "x\nx\n")
    made = {"command": "create", "file_text": ""}
    for name, arguments, words in (
        ("n", made, "File created successfully at: ROOT/n"),
        ("n", made, "File already exists at: ROOT/n. Cannot overwrite files using command `create`."),
        ("m", {"command": "create"}, "Parameter `file_text` is required for command: create"),
        ("none", {"command": "view"}, "The path ROOT/none does not exist. Please provide a valid path."),
        ("a.txt", replacing("6", "six"), f"{EDITED}a snippet of ROOT/a.txt:\n     2\t2\n{SIX}7\n     8\t8\n     9\t9\n    10\t10\n{REVIEW}. {AGAIN}"),
        ("a.txt", inserting(6, "new"), f"{EDITED}a snippet of the edited file:\n{SIX}new\n     8\t7\n     9\t8\n    10\t9\n    11\t10\n{REVIEW} (correct indentation, no duplicate lines, etc). {AGAIN}"),
        ("b.txt", replacing("x", "y"), f"No replacement was performed. Multiple occurrences of old_str `x` in lines [1, 2]. {UNIQUE}"),
        ("b.txt", replacing("z", "y"), "No replacement was performed, old_str `z` did not appear verbatim in ROOT/b.txt."),
        ("b.txt", inserting(99, "y"), "Invalid `insert_line` parameter: 99. It should be within the range of lines of the file: [0, 3]"),
        ("b.txt", {"command": "view", "view_range": [3, 2]}, "Invalid `view_range`: [3, 2]. Its second element `2` should be larger or equal than its first `3`"),
        ("b.txt", {"command": "undo_edit"}, "No edit history found for ROOT/b.txt."),
    ):  # fmt: skip
        assert said(desk, EDITOR, path=f"{desk.root}/{name}", **arguments) == words


def test_edits_are_undone_one_by_one(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    undo = {"command": "undo_edit", "path": "a.txt"}
    call(desk, EDITOR, path="a.txt", **replacing("one", "1"))
    call(desk, "write_file", path="a.txt", content="new\n")
    done = said(desk, EDITOR, **undo)
    assert done.startswith(f"Last edit to a.txt undone successfully. {CAT}a.txt:\n     1\t1\n")
    call(desk, EDITOR, path="a.txt", **inserting(0, "zero"))
    for _ in range(2):
        assert call(desk, EDITOR, **undo)["status"] == "success"
    assert target.read_text() == TEXT
    refused(desk, "EXECUTION_ERROR", target, EDITOR, **undo)
    call(desk, EDITOR, command="create", path="new.txt", file_text="x")
    gone = said(desk, EDITOR, command="undo_edit", path="new.txt")
    assert gone.endswith("new.txt undone successfully. There is no file at this path now.")
    assert not Path(desk.root, "new.txt").exists()


def test_what_was_written_since_is_not_undone(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    call(desk, EDITOR, path="a.txt", **replacing("one", "1"))
    target.write_text(f"1\n{TEXT[4:]}since\n")
    call(desk, EDITOR, command="undo_edit", path="a.txt")
    assert target.read_text() == f"{TEXT}since\n"


DIFF = """\
```diff
Index: ROOT/a.txt
===================================================================
--- ROOT/a.txt\toriginal
+++ ROOT/a.txt\tmodified
{}```

"""
PATCHES = [
    (TEXT, [("one", "1")], "@@ -1,4 +1,4 @@\n-one\n+1\n two\n three\n two\n"),
    (TEXT, [], ""),
    ("a", [("a", "b")], "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"),
    ("a", [("a", "")], "@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"),
    ("", [("", "a\n")], "@@ -0,0 +1,1 @@\n+a\n"),
    ("a\na\n", [("a\na\n", "c\na\n")], "@@ -1,2 +1,2 @@\n+c\n a\n-a\n"),
    ("a\nb\nc\nd\na\nb\n", [("a\nb\nc", "c\nb\na")], "@@ -1,6 +1,6 @@\n-a\n-b\n c\n+b\n+a\n d\n a\n b\n"),
    ("".join(f"{n}\n" for n in range(20, 32)), [("20\n", "x\n"), ("29", "y"), ("31\n", "")],
        "@@ -1,12 +1,11 @@\n-20\n+x\n 21\n 22\n 23\n 24\n 25\n 26\n 27\n 28\n-29\n+y\n 30\n-31\n"),
    ("".join(f"{n}\n" for n in range(20, 33)), [("20\n", "x\n"), ("30\n", "y\nz\n")],
        "@@ -1,5 +1,5 @@\n-20\n+x\n 21\n 22\n 23\n 24\n@@ -7,7 +7,8 @@\n 26\n 27\n 28\n 29\n-30\n+y\n+z\n 31\n 32\n"),
]  # fmt: skip


@each_row("before pairs patch", PATCHES)
def test_the_diff_of_an_edit(
    desk: OpenWorkspace, before: str, pairs: list[tuple[str, str]], patch: str
) -> None:
    for text in (before, before.replace("\n", "\r\n")):
        put(desk, "a.txt", text)
        for dry in (True, False):
            found = said(desk, "edit_file", path="a.txt", **edits(*pairs), dryRun=dry)
            assert found == DIFF.format(patch)


def test_a_fence_is_longer_than_those_in_the_diff(desk: OpenWorkspace) -> None:
    put(desk, "a.md", "````\n")
    assert said(desk, "edit_file", path="a.md", **edits(("````", "x"))).startswith("`````diff\n")


@pytest.mark.slow
def test_a_diff_of_very_many_lines(desk: OpenWorkspace) -> None:
    """It is not the shortest one, and a diff of the same texts."""
    put(desk, "a.txt", "".join(f"{n}\n" for n in range(3_000)))
    new = "".join(f"new {n}\n" for n in range(3_000))
    pair = ("".join(f"{n}\n" for n in range(1, 3_000)), new)
    rows = said(desk, "edit_file", path="a.txt", **edits(pair)).split("\n")
    assert rows[5:8] == ["@@ -1,3000 +1,3001 @@", " 0", "-1"]
    assert [row[1:] for row in rows if row[:1] == "+"][1:] == new.splitlines()


GLOBS = [
    ("*", "a", True), ("*", "d/a", False), ("**", "d/.h/a", True), ("*.txt", "d/a.txt", False),
    ("**/*.txt", "a.txt", True), ("**/*.txt", "d/e/a.txt", True), ("d/**", "d", False),
    ("d/**", "d/.h", True), ("d/**/x", "d/x", True), ("?.txt", "a.txt", True), (".*", ".env", True),
    ("{a,b}.{c,d}", "b.c", True), ("{a}", "a", False), ("a{1..3}", "a2", True), ("a{1..3}", "a4", False),
    ("a{3..1}", "a1", True), ("a{3..1}", "a0", False), ("[a-c]", "b", True),
    ("[!a]", "a", False), ("[[:upper:]]*", "Zeta", True), ("+(a|b)", "abba", True), ("a!(b)", "ab", False),
    ("a!(b)", "ac", True), ("?(a)b", "b", True), ("!*.txt", "a.md", True), ("!(a)", "a", True),
    ("!!a", "a", True), ("!!!a", "a", False), ("#a", "#a", False), ("\\#a", "#a", True),
    ("d/", "d", False), ("./a", "a", False), ("a[", "a[", True),
]  # fmt: skip


@each_row("glob path is_named", GLOBS)
def test_globs(glob: str, path: str, is_named: bool) -> None:
    assert matches(path, glob) == is_named


HOSTILE = [
    ("*a" * 6 + "b", "a" * 80), ("+(+(+(a)))b", "a" * 60), ("*(*(a|aa)|a*)b", "a" * 60),
    ("a" + "!(b)" * 8 + "c", "a" * 60), ("**/" * 60 + "b", "a/" * 100 + "c"), ("+(a|a)" * 9 + "b", "a" * 60),
    ("**/*a*a*a*/" * 20 + "b", "aaaa/" * 60 + "c"), ("{1..1000}*a*a*a*b", "a" * 40),
]  # fmt: skip


@pytest.mark.parametrize(("glob", "path"), HOSTILE)
def test_a_glob_asks_for_no_more_than_its_length(
    glob: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    ends = relpath._Name.ends  # pyright: ignore[reportPrivateUsage] # where all steps are made

    def counted(self: Any, part: Any, at: int) -> int:
        nonlocal steps
        steps += 1
        assert steps < 20_000
        return ends(self, part, at)

    monkeypatch.setattr(relpath._Name, "ends", counted)  # pyright: ignore[reportPrivateUsage] # likewise
    assert not matches(path, glob)


@pytest.mark.slow
@each_row("glob", ["a" * 1_001, "{1..10001}", "{1..9999}" + "z" * 900, "{,}" * 15, "@(" * 30 + "a" + ")" * 30])  # fmt: skip
def test_a_glob_that_asks_for_too_much_is_refused(desk: OpenWorkspace, glob: str) -> None:
    put(desk, "a", "")
    for tool, more in (
        ("search_files", {"pattern": glob}),
        ("directory_tree", {"excludePatterns": [glob]}),
    ):
        answer = desk.call("local", tool, {"path": ".", **more})
        assert answer.data["error"]["code"] == "INVALID_PARAM", answer.text
    assert not matches("1", "{1..<" + "9" * 900 + "}")


def test_directories(desk: OpenWorkspace) -> None:
    for name in ("b.txt", "Zeta.md", "_a", "10", "2", ".env", "d/x.txt", "d/e/y.txt"):
        put(desk, name, "x" * 1_500)
    Path(desk.root, "link").symlink_to("d")
    Path(desk.root, "out").symlink_to("/etc/hostname")
    rows = ["10", "2", "Zeta.md", "_a", "b.txt", "d", "link", "out"]
    listed = ["[FILE] .env", *(f"[{'DIR' if row == 'd' else 'FILE'}] {row}" for row in rows)]
    assert said(desk, "list_directory", path=".").split("\n") == listed
    sized = said(desk, "list_directory_with_sizes", path=desk.root).split("\n")
    assert sized[0] == "[FILE] _a                                1.46 KB"
    by_name = ["_a", ".env", "10", "2", "b.txt", "d", "link", "out", "Zeta.md"]
    assert [row.split()[1] for row in sized[:9]] == by_name
    assert sized[9:11] == ["", "Total: 8 files, 1 directories"]
    tree = said(desk, "directory_tree", path=".", excludePatterns=["[!d]*", "e"])
    inner = {"name": "x.txt", "type": "file"}
    outer = {"name": "d", "type": "directory", "children": [inner]}
    assert tree == json.dumps([outer], indent=2)
    found = said(desk, "search_files", path=".", pattern="**/*.txt")
    assert found == "ROOT/b.txt\nROOT/d/e/y.txt\nROOT/d/x.txt"
    assert said(desk, "search_files", path="link", pattern="*") == "ROOT/d/e\nROOT/d/x.txt"
    assert said(desk, "search_files", path=".", pattern="none") == "No matches found"
    assert "out" not in said(desk, "search_files", path=".", pattern="*")
    assert said(desk, "list_allowed_directories") == "Allowed directories:\nROOT"


def test_moving(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    target.chmod(0o600)
    put(desk, "d/e/x.bin", b"\0\xff")
    put(desk, "d/y.txt", "y")
    Path(desk.root, "d/none").mkdir()
    Path(desk.root, "link").symlink_to("a.txt")
    for source, to, words in (
        ("a.txt", "d/y.txt", "Destination already exists: ROOT/d/y.txt"),
        ("a.txt", "d", "Destination already exists: ROOT/d"),
        ("a.txt", "no/x", "ENOENT: no such file or directory, rename 'ROOT/a.txt' -> 'ROOT/no/x'"),
        ("no", "x", "ENOENT: no such file or directory, rename 'ROOT/no' -> 'ROOT/x'"),
        ("d", "d/in", "EINVAL: invalid argument, rename 'ROOT/d' -> 'ROOT/d/in'"),
        ("link", "d/z.txt", "Successfully moved link to d/z.txt"),
        ("d", "moved", "Successfully moved d to moved"),
    ):
        assert said(desk, "move_file", source=source, destination=to) == words
    moved = Path(desk.root, "moved")
    assert not Path(desk.root, "d").exists()
    assert not target.exists()
    assert (moved / "z.txt").read_text() == TEXT
    assert (moved / "z.txt").stat().st_mode & 0o777 == 0o600
    assert (moved / "e/x.bin").read_bytes() == b"\0\xff"
    assert (moved / "none").is_dir()
    assert desk.pending("local") == ()
    call(desk, EDITOR, command="undo_edit", path="moved/e/x.bin")
    assert Path(desk.root, "d/e/x.bin").read_bytes() == b"\0\xff"


def tree(desk: OpenWorkspace) -> set[str]:
    found = Path(desk.root).rglob("*")
    return {str(one.relative_to(desk.root)) for one in found if ".copydesk" not in one.parts}


def moved(desk: OpenWorkspace, member: str, source: str, to: str) -> Answer:
    return desk.call(member, "move_file", {"source": source, "destination": to})


@pytest.mark.parametrize("hidden", ["d/dark/x.txt", "d/e/dark/x.txt"])
def test_a_directory_with_something_hidden_is_not_moved_in_part(
    tmp_path: Path, hidden: str
) -> None:
    members = {"guest": MemberConfig({"no_read_dirs": ("d/dark", "d/e/dark")})}
    with open_workspace(str(tmp_path), Config(members=members), shared=False) as desk:
        put(desk, "d/a.txt", "a")
        put(desk, hidden, "x")
        before = tree(desk)
        answer = moved(desk, "guest", "d", "to")
        assert answer.data["error"]["code"] == "ACCESS_DENIED", answer.text
        assert "dark" not in answer.text
        assert tree(desk) == before


def test_of_a_directory_all_is_moved_or_nothing(desk: OpenWorkspace) -> None:
    put(desk, "d/a.txt", "a")
    Path(desk.root, "d/b").symlink_to("/etc/hostname")
    assert moved(desk, "local", "d", "e").is_error
    assert tree(desk) == {"d", "d/a.txt", "d/b"}
    assert desk.pending("local") == ()


def test_a_directory_is_moved_where_its_files_could_be(desk: OpenWorkspace) -> None:
    put(desk, "d/a.txt", "a")
    put(desk, "d/e/b.txt", "b")
    put(desk, "secret/d/a.txt", "a")
    put(desk, "no/a.txt", "a")
    before = tree(desk)
    for source, to in (("no", "secret/no"), ("secret/d", "free"), ("d", "dark")):
        answer = moved(desk, "guest", source, to)
        assert answer.data["error"]["code"] == "ACCESS_DENIED", answer.text
        assert tree(desk) == before
    answer = moved(desk, "guest", "d", "to")
    assert (answer.is_error, answer.text) == (False, "Successfully moved d to to")
    after = {"secret", "secret/d", "secret/d/a.txt", "no", "no/a.txt"}
    assert tree(desk) == after | {"to", "to/a.txt", "to/e", "to/e/b.txt"}
    assert "Destination already exists" in moved(desk, "guest", "no", "to").text


def test_an_empty_directory_is_not_moved_unseen(desk: OpenWorkspace) -> None:
    Path(desk.root, "d/e").mkdir(parents=True)
    answer = moved(desk, "asking", "d", "to")
    assert answer.data["error"]["code"] == "APPROVAL_REQUIRED", answer.text
    assert tree(desk) == {"d", "d/e"}
    assert not moved(desk, "local", "d", "to").is_error
    assert tree(desk) == {"to", "to/e"}


def test_a_directory_that_stays_is_told(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program puts a file into it while the others are moved."""
    put(desk, "d/a.txt", "a")
    apply_all = desk.desk.apply_all

    def applied(*arguments: Any, **more: Any) -> Any:
        done = apply_all(*arguments, **more)
        put(desk, "d/new.txt", "new")
        return done

    monkeypatch.setattr(desk.desk, "apply_all", applied)
    answer = moved(desk, "local", "d", "to")
    assert not answer.is_error
    assert answer.data["data"]["left"] == ["d"]
    assert answer.text.endswith("something is in them: d")
    assert tree(desk) == {"d", "d/new.txt", "to", "to/a.txt"}


def test_what_is_known_of_a_file(desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    target = put(desk, "a.txt", TEXT)
    target.chmod(0o640)
    os.utime(target, (1_700_000_000, 1_600_000_000))
    rows = said(desk, "get_file_info", path="a.txt").split("\n")
    assert rows[1].startswith("created: ")
    assert rows[:1] + rows[2:] == [
        "size: 18",
        "modified: Sun Sep 13 2020 12:26:40 GMT+0000 (Coordinated Universal Time)",
        "accessed: Tue Nov 14 2023 22:13:20 GMT+0000 (Coordinated Universal Time)",
        "isDirectory: false",
        "isFile: true",
        "permissions: 640",
    ]
    assert "isDirectory: true" in said(desk, "get_file_info", path=desk.root)


def test_media_and_several_files(desk: OpenWorkspace) -> None:
    put(desk, "a b.txt", "x\n")
    put(desk, "a.PNG", b"\x89PNG")
    image: Fields = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    kind: Fields = {"mimeType": "application/octet-stream", "blob": "eAo="}
    uri = f"file://{desk.root}/a%20b.txt"
    other: Fields = {"type": "resource", "resource": {"uri": uri, **kind}}
    for path, block in (("a.PNG", image), ("a b.txt", other)):
        found = desk.call("local", "read_media_file", {"path": path})
        assert found.envelope is not None
        assert found.original == Original((block,), {"content": [block]})
    several = said(desk, "read_multiple_files", paths=["a b.txt", "none", "."])
    assert several == (
        "a b.txt:\nx\n\n\n---\n"
        "none: Error - ENOENT: no such file or directory, open 'ROOT/none'\n---\n"
        ".: Error - EISDIR: illegal operation on a directory, read"
    )


def test_several_files_have_a_bound_together(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat_module, "MOST_TOGETHER", 320)
    put(desk, "a.txt", "x" * 90)
    put(desk, "b.txt", "y" * 1_000)
    several = said(desk, "read_multiple_files", paths=["a.txt", "b.txt", "a.txt", "a.txt", "none"])
    a, full = f"a.txt:\n{'x' * 90}\n", ": Error - was not read: the files before it fill"
    one, two, three, four, five = several.split("\n---\n")
    assert (one, three) == (a, a)
    assert two.startswith(f"b.txt{full}")
    assert four.startswith(f"a.txt{full}")
    assert five.startswith("none: Error - ENOENT")
    alone = said(desk, "read_multiple_files", paths=["b.txt"])
    assert "y" * 1_000 in alone
    found = call(desk, "write_file", path="b.txt", content="z")
    assert found["status"] == "success", found


@pytest.mark.slow
def test_a_very_deep_tree(desk: OpenWorkspace) -> None:
    """Deeper than the interpreter calls; its end is found, and a tree of it is refused."""
    above = os.open(desk.root, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("n", dir_fd=above)
        inner = os.open("n", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.close(above)
    answer = desk.call("local", "directory_tree", {"path": "."})
    assert answer.data["error"]["code"] == "INVALID_PARAM", answer.text
    assert "more than 200 directories deep" in answer.text
    bottom = "n/" * 399 + "n"
    assert said(desk, "search_files", path=".", pattern="n" + "/n" * 399) == f"ROOT/{bottom}"
    assert '"children": []' in said(desk, "directory_tree", path="n/" * 201 + "n")


OUTSIDE = "Access denied - path outside allowed directories"
INVALID = "MCP error -32602: Input validation error: Invalid arguments for tool"


def test_the_words_of_the_filesystem_server(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    Path(desk.root, "out").symlink_to("/etc/hostname")
    for tool, arguments, words in (
        ("read_text_file", {"path": "no/x"}, "ENOENT: no such file or directory, open 'ROOT/no/x'"),
        ("read_text_file", {"path": "a.txt/x"}, "ENOTDIR: not a directory, realpath 'ROOT/a.txt/x'"),
        ("read_text_file", {"path": "/etc/x"}, f"{OUTSIDE}: /etc/x not in ROOT"),
        ("read_text_file", {}, f"{INVALID} read_text_file: Invalid input: expected string, received undefined at path"),
        ("read_text_file", {"path": "a.txt", "head": "1"}, f"{INVALID} read_text_file: Invalid input: expected number, received string at head"),
        ("edit_file", {"path": "a.txt", "edits": ["x"]}, f"{INVALID} edit_file: Invalid input: expected object, received string at edits[0]"),
        ("list_directory", {"path": "a.txt"}, "ENOTDIR: not a directory, scandir 'ROOT/a.txt'"),
        ("get_file_info", {"path": "no"}, "ENOENT: no such file or directory, stat 'ROOT/no'"),
        ("write_file", {"path": "no/x", "content": ""}, "ENOENT: no such file or directory, open 'ROOT/no/x'"),
        ("write_file", {"path": "a.txt", "content": TEXT}, "Successfully wrote to a.txt"),
        ("create_directory", {"path": "d/e/f"}, "Successfully created directory d/e/f"),
        ("create_directory", {"path": "d/e/f"}, "Successfully created directory d/e/f"),
        ("create_directory", {"path": "a.txt"}, "EEXIST: file already exists, mkdir 'ROOT/a.txt'"),
        ("edit_file", {"path": "a.txt", **edits(("zz", ""))}, "Could not find exact match for edit:\nzz"),
        ("edit_file", {"path": "no", **edits(("zz", ""))}, "ENOENT: no such file or directory, open 'ROOT/no'"),
    ):  # fmt: skip
        assert said(desk, tool, **arguments) == words
    denied = said(desk, "read_text_file", path="out")
    assert denied.startswith("Access denied - symlink target outside allowed directories: ")
    Path(desk.root, "loop").symlink_to("loop")
    looping = said(desk, "read_text_file", path="loop")
    assert looping == "ELOOP: too many symbolic links encountered, open 'ROOT/loop'"
    at_home = said(desk, "create_directory", path="~/x")
    assert at_home.startswith(f"{OUTSIDE}: {Path.home()}/x not in ")
    near = desk.call("local", "edit_file", {"path": "a.txt", **edits(("thre", ""), ("thee", ""))})
    assert "edits[1].oldText is not in the file" in near.text


def test_absolute_paths_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = Config(durability="fast")
    with open_workspace(str(tmp_path / "link"), config, shared=False) as desk:
        put(desk, "a.txt", TEXT)
        (tmp_path / "real/out").symlink_to(tmp_path)
        for root in (tmp_path / "real", tmp_path / "link"):
            for spelled in ("a.txt", "./b/../a.txt", "/a.txt", "../link/a.txt"):
                path = f"{root}/{spelled}"
                found = call(desk, "read_text_file", path=path, head=1)
                assert found["data"]["content"] == "one"
                assert found["context"]["path_resolved"] == "a.txt"
            for path in (f"{root}/../a.txt", f"{root}x/a.txt", f"{root}/out/a.txt"):
                refused(desk, "ACCESS_DENIED", None, "write_file", path=path, content="x")
        for path in ("/", "/etc/hostname", "/../etc/hostname", "//etc/hostname", "../x", "C:\\x"):
            refused(desk, "ACCESS_DENIED", None, EDITOR, command="view", path=path)
        refused(desk, "ACCESS_DENIED", None, "Read", path=f"{desk.root}/a.txt")  # no tool of compat
        assert not (tmp_path / "a.txt").exists()


def test_a_refusal_tells_what_an_absolute_path_came_to(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    path = f"{desk.root}/./a.txt"
    for more in (edits(("two", "2")), {**edits(("one", "1")), "no": 1}):
        found = call(desk, "edit_file", path=path, **more)
        assert found["status"] == "error"
        assert found["context"]["path_resolved"] == "a.txt"
    for path in (f"{desk.root}/a\0", "/\0"):
        refused(desk, "INVALID_PARAM", None, "read_text_file", path=path)


def test_a_file_that_somebody_makes_meanwhile_is_written_over(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, stat, asked = put(desk, "a.txt", TEXT), desk.files.stat, list[RelPath]()

    def before_it_was_made(path: RelPath) -> object:
        asked.append(path)
        if len(asked) == 1:
            raise FileNotFound()
        return stat(path)

    monkeypatch.setattr(desk.files, "stat", before_it_was_made)
    assert call(desk, "write_file", path="a.txt", content="x\n")["status"] == "success"
    assert target.read_text() == "x\n"
    asked.clear()
    given = {"command": "create", "path": "a.txt", "file_text": "y"}
    assert call(desk, EDITOR, **given)["error"]["code"] == "FILE_EXISTS"


def test_of_many_writers_of_a_new_file_none_is_refused(desk: OpenWorkspace) -> None:
    def write(number: int) -> str:
        arguments = {"path": f"{number % 5}.txt", "content": f"{number}\n"}
        return str(desk.call("local", "write_file", arguments).fields["status"])

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(write, range(40))) == {"success"}
    for number in range(5):
        assert int(Path(desk.root, f"{number}.txt").read_text()) % 5 == number


def test_rights(desk: OpenWorkspace) -> None:
    target = put(desk, "secret/a.txt", TEXT)
    for tool, more in (
        ("write_file", {"content": "x"}),
        ("edit_file", edits(("one", "1"))),
        (EDITOR, replacing("one", "1")),
        (EDITOR, inserting(0, "x")),
    ):
        for path in ("secret/a.txt", str(target)):
            answer: Any = desk.call("guest", tool, {"path": path, **more}).data
            assert answer["error"]["code"] == "ACCESS_DENIED", answer
    assert target.read_text() == TEXT


def test_the_names_are_those_that_others_have() -> None:
    assert {tool.name: " ".join(sorted(tool.schema["properties"])) for tool in compat()} == {
        "read_text_file": "head path tail",
        "read_media_file": "path",
        "read_multiple_files": "paths",
        "write_file": "content path",
        "edit_file": "dryRun edits path",
        "create_directory": "path",
        "list_directory": "path",
        "list_directory_with_sizes": "path sortBy",
        "directory_tree": "excludePatterns path",
        "move_file": "destination source",
        "search_files": "excludePatterns path pattern",
        "get_file_info": "path",
        "list_allowed_directories": "",
        EDITOR: "command file_text insert_line insert_text new_str old_str path view_range",
    }


def test_an_older_name_is_listed_where_no_other_tool_has_it() -> None:
    listed = {one["name"]: one for one in definitions(compat(), "mcp", "en")}
    assert "read_file" in listed
    assert "str_replace_editor" not in listed  # it is taken, and told by nobody
    writes = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}
    assert listed["read_file"]["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    assert listed["write_file"]["annotations"] == {**writes, "openWorldHint": False}
    content = {"properties": {"content": {"type": "string"}}, "required": ["content"]}
    assert listed["edit_file"]["outputSchema"] == {
        "type": "object",
        "additionalProperties": False,
        **content,
    }
    both = [one["name"] for one in definitions((*ws_mod(), *compat()), "mcp", "en")]
    assert both.count("read_file") == 1


def test_what_is_sent(desk: OpenWorkspace) -> None:
    """The result as the original has it, with and without `--structured`."""
    put(desk, "a.txt", "x" * 1_200_000)

    def sent(answer: Answer, structured: bool) -> dict[str, Any]:
        result = tool_result(answer, "en", structured=structured)
        return result.model_dump(exclude_none=True, by_alias=True)

    answer = desk.call("local", "read_text_file", {"path": "a.txt"})
    for structured in (False, True):
        found = sent(answer, structured)
        assert found["content"] == [{"type": "text", "text": "x" * 1_200_000}]
        assert found["structuredContent"] == {"content": "x" * 1_200_000}
    found = sent(desk.call("local", "read_text_file", {"path": "b.txt"}), True)
    assert found["isError"] is True
    assert "structuredContent" not in found
    assert [block["text"][:6] for block in found["content"]] == ["ENOENT", "Close "]
    answer = desk.call("local", EDITOR, {"path": "a.txt", **inserting(0, "y")})
    assert tool_result(answer, "en", structured=False).structured_content is None
    twin: Any = tool_result(answer, "en", structured=True).structured_content
    assert twin["data"]["edit_id"] == answer.data["data"]["edit_id"]  # type: ignore[call-overload, index]
