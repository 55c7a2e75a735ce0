"""The tools of the compat toolset, as a caller meets them who knows them from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.errors import FileNotFound
from copydesk.text.relpath import RelPath
from copydesk.tools.compat import EDITOR, MOST_ENTRIES, compat
from support.batch_calls import call, nulls, put, refused

TEXT = "one\ntwo\nthree\ntwo\n"
MEMBERS = {
    "guest": MemberConfig({"no_write_dirs": ("secret",), "no_read_dirs": ("dark",)}),
    "inner": MemberConfig({"read_dirs": ("src",)}),
}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OpenWorkspace]:
    config = Config(members=MEMBERS, durability="fast")
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        yield opened


@dataclass(frozen=True)
class Case:
    """A call on `a.txt`: what the file reads after, or the code and what `data` holds besides."""

    tool: str
    arguments: Mapping[str, Any]
    after: str | bytes = ""
    before: str | bytes = TEXT
    code: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def check(desk: OpenWorkspace, case: Case) -> dict[str, Any]:
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
    Case(EDITOR, inserting(0, "zero\n"), b"\xef\xbb\xbfzero\r\na\r\n", before=b"\xef\xbb\xbfa\r\n"),
    Case(EDITOR, inserting(1, "x\ny\n"), "one\nx\ny\ntwo\nthree\ntwo\n"),
    Case(EDITOR, inserting(1, "\n"), "one\n\ntwo\nthree\ntwo\n"),
    Case(EDITOR, inserting(4, "end"), f"{TEXT}end\n"),
    Case(EDITOR, inserting(1, "end"), "one\nend", before="one"),
    Case(EDITOR, inserting(1, "end\n"), "one\nend\n", before="one"),
    Case(EDITOR, inserting(1, "X"), "a\nX\nb", before="a\nb"),
    Case(EDITOR, inserting(0, "end"), "end\n", before=""),
    Case(EDITOR, inserting(1, "x"), b"\xff\r\nx\r\n\x80\r\n", before=b"\xff\r\n\x80\r\n"),
    Case(EDITOR, {**inserting(1, "x"), "old_str": "", "view_range": []}, "one\nx\ntwo\nthree\ntwo\n"),
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


@pytest.mark.parametrize(("codec", "head", "ending", "tail"), KEPT)
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
        (EDITOR, inserting(line, "new\n"), old + newline + new + newline),
    ):
        before = head + old + end + tail
        check(desk, Case(tool, arguments, head + after + tail, before=before))


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_lines_are_put_into_an_empty_file(desk: OpenWorkspace, text: bytes) -> None:
    new = "x\n".encode("utf-16-le" if text == b"\xff\xfe" else "utf-8")
    for given in ("x", "x\n"):
        check(desk, Case(EDITOR, inserting(0, given), text + new, before=text))


REFUSED = [
    Case("write_file", {}, code="INVALID_PARAM", data={"argument": "content"}),
    Case("write_file", {"content": "x", "overwrite": True}, code="INVALID_PARAM", data={"argument": "overwrite"}),
    Case("write_file", {"content": "x"}, before=b"a\0b", code="BINARY_FILE"),
    Case("write_file", {"content": "x", "path": "."}, code="IS_DIRECTORY"),
    Case("write_file", {"content": "é"}, before=b"\xff\xe9\n", code="ENCODING_ERROR"),
    Case("write_file", {"content": "x", "path": ".minds/a"}, code="ACCESS_DENIED"),
    Case("edit_file", edits(("two", "2")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 0}),
    Case("edit_file", edits(("one", "two"), ("three", "3"), ("tow", "2")), code="PARTIAL_MATCH_FAIL", data={"failed_index": 2}),
    Case("edit_file", edits(("one\ntwo", "1"), ("two\nthree", "2")), code="COLLISION_DETECTED"),
    Case("edit_file", edits(("one", "1"), ("one", "1")), code="DUPLICATE_EDITS", data={"indices": [0, 1]}),
    Case("edit_file", edits(("one", "1"), ("", "2")), code="INVALID_PARAM", data={"argument": "edits[1].oldText"}),
    Case("edit_file", edits(("one\n", "one\r\n")), code="INVALID_PARAM", data={"argument": "edits"}),
    Case("edit_file", edits(), code="INVALID_PARAM", data={"argument": "edits"}),
    Case("edit_file", {"edits": [{"oldText": "one"}]}, code="INVALID_PARAM", data={"argument": "edits[0].newText"}),
    Case("edit_file", {**edits(("one", "1")), "path": "b.txt"}, code="NOT_FOUND", data={"similar": ["a.txt"]}),
    Case(EDITOR, replacing("two", "2"), code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("four", "2"), code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("aa", "b"), before="aaa", code="PARTIAL_MATCH_FAIL"),
    Case(EDITOR, replacing("", "2"), code="INVALID_PARAM", data={"argument": "old_str"}),
    Case(EDITOR, replacing("one", "one"), code="INVALID_PARAM", data={"argument": "new_str"}),
    Case(EDITOR, {"command": "str_replace"}, code="INVALID_PARAM", data={"argument": "old_str"}),
    Case(EDITOR, {"command": "create"}, code="INVALID_PARAM", data={"argument": "file_text"}),
    Case(EDITOR, {"command": "create", "file_text": "x"}, code="FILE_EXISTS", data={"size_bytes": 18}),
    Case(EDITOR, {"command": "insert", "insert_text": "x"}, code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, {"command": "insert", "insert_line": 1}, code="INVALID_PARAM", data={"argument": "insert_text"}),
    Case(EDITOR, inserting(1, ""), code="INVALID_PARAM", data={"argument": "insert_text"}),
    Case(EDITOR, inserting(1, "x\r"), code="INVALID_PARAM", data={"argument": "insert_text"}),
    Case(EDITOR, inserting(5, "x"), code="INVALID_PARAM", data={"argument": "insert_line", "reason": "the file has 4 lines"}),
    Case(EDITOR, inserting(-1, "x"), code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, inserting(10**30, "x"), code="INVALID_PARAM", data={"argument": "insert_line"}),
    Case(EDITOR, {**inserting(0, "x"), "path": "b.txt"}, code="NOT_FOUND", data={"similar": ["a.txt"]}),
    Case(EDITOR, inserting(1, "é"), before=b"\xff\xe9\n", code="ENCODING_ERROR"),
    Case(EDITOR, {**inserting(1, "x"), "view_range": [1, 2]}, code="INVALID_PARAM", data={"argument": "view_range"}),
    Case(EDITOR, {"command": "view", "file_text": "x"}, code="INVALID_PARAM", data={"argument": "file_text"}),
    Case(EDITOR, {"command": "undo_edit"}, code="INVALID_PARAM", data={"argument": "command"}),
    Case(EDITOR, {}, code="INVALID_PARAM", data={"argument": "command"}),
    Case(EDITOR, {"command": "view", "path": "b.txt"}, code="NOT_FOUND"),
    *(
        Case(EDITOR, {"command": "view", "view_range": given}, code="INVALID_PARAM", data={"argument": named})
        for given, named in (
            ([1], "view_range"),
            ([1, 2, 3], "view_range"),
            ([0, 2], "view_range"),
            ([3, 2], "view_range"),
            ([2, -2], "view_range"),
            ([1, 5], "view_range"),
            ([5, -1], "view_range"),
            ([5, 10**30], "view_range"),
            ([True, 2], "view_range[0]"),
            (["1", "2"], "view_range[0]"),
        )
    ),
    Case("read_text_file", {"head": 1, "tail": 1}, code="INVALID_PARAM", data={"argument": "tail"}),
    Case("read_text_file", {"head": -1}, code="INVALID_PARAM", data={"argument": "head"}),
    Case("read_text_file", {"path": "."}, code="IS_DIRECTORY"),
    Case("read_text_file", {"path": ""}, code="INVALID_PARAM"),
    Case("read_text_file", {}, before=b"a\0b", code="BINARY_FILE"),
]  # fmt: skip


def name_of(case: Case) -> str:
    return f"{case.arguments.get('command', case.tool)}-{case.code or 'ok'}"


@pytest.mark.parametrize("case", WRITTEN, ids=name_of)
def test_what_is_written_and_taken_back(desk: OpenWorkspace, case: Case) -> None:
    found = check(desk, case)
    assert found["stats"]["new_size"] == found["stats"]["bytes_written"]


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_what_is_refused(desk: OpenWorkspace, case: Case) -> None:
    found = check(desk, case)
    reads = case.tool == "read_text_file" or case.arguments.get("command") == "view"
    assert ("applied" in found["data"]) == (not reads)
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


@pytest.mark.parametrize("content", ["", "a\r\nb", "\ufeffa\n"])
@pytest.mark.parametrize("tool", ["write_file", EDITOR])
def test_a_new_file_has_the_very_text(desk: OpenWorkspace, tool: str, content: str) -> None:
    more: dict[str, Any] = {"content": content}
    if tool == EDITOR:
        more = {"command": "create", "file_text": content}
    found = call(desk, tool, path="new/deep/a.txt", **more)
    target = Path(desk.root, "new/deep/a.txt")
    assert found["status"] == "success"
    assert target.read_bytes() == content.encode()
    call(desk, "undo_file_modification", edit_id=found["data"]["edit_id"])
    assert not target.exists()


def test_the_same_text_again_is_no_edit(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    found = call(desk, "write_file", path="a.txt", content=TEXT)
    assert (found["data"]["edit_id"], found["stats"]["bytes_written"]) == (0, 0)


@pytest.mark.parametrize(
    ("more", "content", "truncated"),
    [
        ({}, "1\n2\n3\n4", False),
        ({"head": 2}, "1\n2\n", False),
        ({"head": 4}, "1\n2\n3\n4", False),
        ({"head": 9}, "1\n2\n3\n4", False),
        ({"tail": 2}, "3\n4", False),
        ({"tail": 9}, "1\n2\n3\n4", False),
        ({"tail": 10**30}, "1\n2\n3\n4", False),
        ({"head": 0, "tail": 1}, "4", False),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_reading(
    desk: OpenWorkspace,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, int],
    content: str,
    truncated: bool,
    large: bool,
) -> None:
    if large:
        monkeypatch.setattr("copydesk.text.sizes.LARGE", 0)
    put(desk, "a.txt", "1\r\n2\n3\n4")
    for lang in ("en", "zh"):
        found = desk.call("local", "read_text_file", {"path": "a.txt", **more}, lang=lang)
        assert dict(found.data["data"]) == {"content": content, "truncated": truncated}  # type: ignore[arg-type]
        assert found.data["status"] == "success"
        assert not nulls(found.data)
        assert "?" not in str(found.data["text"])


WIDE = "x" * 100_000
"""As many characters as are shown at once."""


@pytest.mark.parametrize(
    ("text", "more", "next_line"),
    [
        ("a\n" + WIDE + "\nb\n", {}, 2),
        ("a\n" + WIDE + "\nb\n", {"head": 2}, 2),
        (WIDE + "y\nb\n", {}, 2),
        (WIDE + "y\n", {}, None),
        ("a\n" + WIDE + "\nb\n", {"tail": 3}, 2),
        ("é\n" * 5_000_000, {"head": 10**6}, 50_001),
        ("é\n" * 5_000_000, {"tail": 10**6}, None),
    ],
)
def test_what_is_cut_is_said(
    desk: OpenWorkspace, text: str, more: dict[str, int], next_line: int | None
) -> None:
    put(desk, "a.txt", text)
    for lang in ("en", "zh"):
        found: Any = desk.call("local", "read_text_file", {"path": "a.txt", **more}, lang=lang).data
        assert (found["status"], found["data"]["truncated"]) == ("partial", True)
        assert (f"[{next_line}, -1]" in found["text"]) == (next_line is not None), found["text"]
    if next_line is not None:
        given = {"command": "view", "path": "a.txt", "view_range": [next_line, -1]}
        on = call(desk, EDITOR, **given)["data"]["content"]
        assert on.startswith(f"{next_line:6}\t")


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (None, "     1\tone\n     2\ttwo\n     3\tthree\n     4\ttwo\n"),
        ([2, 3], "     2\ttwo\n     3\tthree\n"),
        ([3, -1], "     3\tthree\n     4\ttwo\n"),
        ([4, 4], "     4\ttwo\n"),
    ],
)
def test_viewing(desk: OpenWorkspace, given: list[int] | None, content: str) -> None:
    put(desk, "a.txt", TEXT)
    found = call(desk, EDITOR, command="view", path="a.txt", view_range=given)
    assert found["data"] == {"content": content, "truncated": False}
    assert found["stats"]["total_lines"] == 4


def test_viewing_an_empty_file(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", "")
    for given in (None, [1, -1]):
        found = call(desk, EDITOR, command="view", path="a.txt", view_range=given)
        assert (found["status"], found["data"]["content"]) == ("success", "")


def test_viewing_a_directory(desk: OpenWorkspace) -> None:
    names = ("a.txt", "src/b.txt", "src/in/c.txt", ".git/x", "src/.d", "node_modules/e/f", "dark/g")
    for name in names:
        put(desk, name, "")
    listed = "a.txt\ndark/\ndark/g\nnode_modules/\nsrc/\nsrc/b.txt\nsrc/in/\n"
    found = call(desk, EDITOR, command="view", path=".")
    assert found["data"] == {"content": listed, "truncated": False}
    assert call(desk, EDITOR, command="view", path=desk.root)["data"]["content"] == listed
    one = {"command": "view", "path": "src"}
    assert call(desk, EDITOR, **one)["data"]["content"] == "src/b.txt\nsrc/in/\nsrc/in/c.txt\n"
    refused(desk, "IS_DIRECTORY", None, EDITOR, **one, view_range=[1, 2])
    for member, path, seen in (
        ("guest", ".", listed.replace("dark/\ndark/g\n", "")),
        ("inner", ".", "src/\nsrc/b.txt\nsrc/in/\n"),
        ("guest", "dark", None),
        ("inner", "a.txt", None),
    ):
        answer: Any = desk.call(member, EDITOR, {"command": "view", "path": path}).data
        assert answer["data"].get("content") == seen, answer
        assert answer.get("error", {}).get("code") == (None if seen else "ACCESS_DENIED")


def test_a_long_directory_is_cut(desk: OpenWorkspace) -> None:
    for number in range(MOST_ENTRIES + 1):
        Path(desk.root, f"{number:06}").touch()
    found = call(desk, EDITOR, command="view", path=".")
    assert (found["status"], found["data"]["truncated"]) == ("partial", True)
    assert found["stats"]["entries"] == MOST_ENTRIES


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
                assert found["data"]["content"] == "one\n"
                assert found["context"]["path_resolved"] == "a.txt"
            for path in (f"{root}/../a.txt", f"{root}x/a.txt", f"{root}/out/a.txt"):
                refused(desk, "ACCESS_DENIED", None, "write_file", path=path, content="x")
        for path in ("/", "/etc/hostname", "/../etc/hostname", "//etc/hostname", "../x", "C:\\x"):
            refused(desk, "ACCESS_DENIED", None, EDITOR, command="view", path=path)
        assert not (tmp_path / "a.txt").exists()


def test_a_refusal_tells_what_an_absolute_path_came_to(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    path = f"{desk.root}/./a.txt"
    for more in (edits(("two", "2")), edits(), {**edits(("one", "1")), "no": 1}):
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


def test_other_toolsets_take_no_absolute_paths(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    refused(desk, "ACCESS_DENIED", None, "Read", path=f"{desk.root}/a.txt")


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
    names = {tool.name: set(tool.schema["properties"]) for tool in compat()}
    assert names == {
        "read_text_file": {"path", "head", "tail"},
        "write_file": {"path", "content"},
        "edit_file": {"path", "edits", "dryRun"},
        EDITOR: {"command", "path", "view_range", "file_text"}
        | {"old_str", "new_str", "insert_line", "insert_text"},
    }
