"""replace_text and several ranges of one call, as a caller meets them, and against naive models."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.draft import compose
from copydesk.edit.relocate import check_not_there, relocate
from copydesk.edit.request import Place, RangeEdit, RangeEdits, ReplaceText, StringEdit
from copydesk.errors import Busy, Refusal
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools import ws_mod
from support.cost import examples
from support.desks import Setup, call
from support.mcp_transports import stdio_client
from support.rows import each_row

PATH = RelPath.parse("a.txt")
TEXT = "alpha beta\r\nbeta\r\ngamma beta beta\r\ndelta"


def settings_of(**member: Any) -> Config:
    return Config(durability="fast", members={"local": MemberConfig(**member)})


DESK = Setup(settings_of(team_mgmt=True), {"a.txt": TEXT})


def put(desk: OpenWorkspace, text: str) -> Path:
    target = Path(desk.root, "a.txt")
    target.write_bytes(text.encode())
    return target


@each_row(
    "old new every after",
    [
        ("alpha", "ALPHA", False, "ALPHA beta\r\nbeta\r\ngamma beta beta\r\ndelta\r\n"),
        ("beta\ngamma", "x\ny\nz", False, "alpha beta\r\nx\r\ny\r\nz beta beta\r\ndelta\r\n"),
        ("gamma beta ", "", False, "alpha beta\r\nbeta\r\nbeta\r\ndelta\r\n"),
        ("beta", "b", True, "alpha b\r\nb\r\ngamma b b\r\ndelta\r\n"),
        ("\r\ndelta", "\n", False, "alpha beta\r\nbeta\r\ngamma beta beta\r\n"),
        ("delta", "", False, "alpha beta\r\nbeta\r\ngamma beta beta\r\n"),
    ],
)
def test_it_is_written_in_one_call(
    desk: OpenWorkspace, old: str, new: str, every: bool, after: str
) -> None:
    """Inside of lines too; the file ends with a newline then, and every other byte stays."""
    put(desk, TEXT)
    done = call(desk, "replace_text", path="a.txt", old=old, new=new, all=every)
    assert (done["status"], done["changed"], done["context_match"]) == ("ok", True, "exact")
    assert done["normalized"]["normalized_file_eof_newline_added"] is ("delta" not in old)
    target = Path(desk.root, "a.txt")
    assert target.read_bytes() == after.encode()
    call(desk, "undo_file_modification", edit_id=done["edit_id"])
    assert target.read_bytes() == TEXT.encode()


@each_row(
    "arguments error said",
    [
        ({"old": "beta", "new": "b"}, "PARTIAL_MATCH_FAIL", ["4 places", "all: true"]),
        ({"old": "gama beta beta", "new": "b"}, "PARTIAL_MATCH_FAIL", ["old is not in", "closest"]),
        ({"old": "nowhere at all", "new": "b", "all": True}, "PARTIAL_MATCH_FAIL", ["old is not"]),
        ({"old": "", "new": "b"}, "INVALID_ARGS", ["old"]),
        ({"old": "beta\r\n", "new": "beta\n"}, "INVALID_ARGS", ["new", "same as old"]),
        ({"old": "delta", "new": "b", "version": "0" * 12}, "STALE_READ", []),
        ({"old": "delta", "new": "b", "path": "b.txt"}, "FILE_NOT_FOUND", ["create_new_file"]),
    ],
)
def test_what_is_refused(
    desk: OpenWorkspace, arguments: dict[str, Any], error: str, said: list[str]
) -> None:
    found = call(desk, "replace_text", **{"path": "a.txt", **arguments})
    assert found["error"] == error
    assert all(part in found["summary"] for part in said), found["summary"]
    assert Path(desk.root, "a.txt").read_bytes() == TEXT.encode()
    assert desk.pending("local") == ()


@pytest.mark.parametrize(
    ("member", "why"),
    [({"approval": "human"}, "APPROVAL_REQUIRED"), ({"auto_lines": 1}, "more lines than")],
)
def test_it_waits_where_the_caller_may_not_write(
    tmp_path: Path, member: dict[str, Any], why: str
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    with open_workspace(str(tmp_path), settings_of(**member), shared=False) as desk:
        plan = call(desk, "replace_text", path="a.txt", old="beta", new="b\nb", all=True)
        assert plan["auto_apply"] == "declined"
        assert why in plan["auto_apply_reason"]
        (row,) = call(desk, "list_pending")["hunks"]
        assert (row["tool"], row["lines"]) == ("replace_text", {"old": 3, "new": 7})
        assert (tmp_path / "a.txt").read_bytes() == TEXT.encode()


def test_a_plan_of_every_place_is_carried(desk: OpenWorkspace) -> None:
    """What came since is not what was planned, and stays."""
    target = Path(desk.root, "a.txt")
    plan = call(desk, "replace_text", path="a.txt", old="beta", new="b", all=True, apply="never")
    assert (plan["edits_count"], len(plan["regions"])) == (4, 3)
    target.write_bytes(b"first\r\nanother beta\r\n" + TEXT.encode())
    done = call(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
    assert done["context_match"] == "fuzz"
    assert target.read_bytes() == (
        b"first\r\nanother beta\r\n" + TEXT.replace("beta", "b").encode() + b"\r\n"
    )


def test_a_plan_is_made_anew_and_in_the_mirror(desk: OpenWorkspace) -> None:
    first = call(desk, "replace_text", path="a.txt", old="alpha", new="a", apply="never")
    anew = {"old": "delta", "new": "d", "existing_hunk_id": first["hunk_id"]}
    assert call(desk, "replace_text", path="a.txt", **anew)["hunk_id"] == first["hunk_id"]
    assert Path(desk.root, "a.txt").read_bytes() == TEXT.replace("delta", "d\r\n").encode()
    call(desk, "team_mgmt_create_new_file", path="m.md", content="one\n")
    done = call(desk, "team_mgmt_replace_text", path="m.md", old="on", new="tw")
    assert done["mode"] == "team_mgmt_apply_file_modification"
    assert Path(desk.root, ".minds", "m.md").read_text() == "twe\n"


# several ranges

LINES = "".join(f"line {number}\n" for number in range(1, 13))


def test_several_ranges_are_one_write_and_one_undo(desk: OpenWorkspace) -> None:
    target = put(desk, LINES)
    version = call(desk, "read_file", path="a.txt")["version"]
    target.write_text(f"new\n{LINES}")
    edits = [
        {"range": "9~10", "content": ""},
        {"range": 2, "content": "two\n"},
        {"range": "13~", "content": "end", "expected_old": None},
    ]
    given = {"version": version, "edits": edits, "apply": "auto"}
    done = call(desk, "prepare_file_range_edit", path="a.txt", **given)
    assert (done["action"], done["lines"]) == ("replace", {"old": 3, "new": 2, "delta": -1})
    wanted = LINES.replace("line 2\n", "two\n").replace("line 9\nline 10\n", "")
    assert target.read_text() == f"new\n{wanted}end\n"
    assert call(desk, "undo_file_modification", edit_id=done["edit_id"])["status"] == "ok"
    assert target.read_text() == f"new\n{LINES}"


@each_row(
    "arguments error",
    [
        ({"edits": [{"range": "1~3", "content": ""}, {"range": "3", "content": "x"}]}, "COLLISION"),
        ({"edits": [{"range": "13~", "content": "x"}, {"range": "13~", "content": "y"}]}, "COLLI"),
        ({"range": "~", "content": "y", "edits": [{"range": "3", "content": "x"}]}, "COLLISION_DETECTED"),
        ({"range": "~", "edits": [{"range": "3", "content": "x"}]}, "INVALID_ARGS"),
        ({"edits": [{"range": "1", "content": ""}, {"range": "14", "content": "x"}]}, "RANGE_OUT"),
        ({"edits": [{"range": "1", "content": ""}, {"range": "13~", "content": ""}]}, "CONTENT_RE"),
        ({"edits": [{"range": "1"}]}, "INVALID_ARGS"),
        ({"edits": [{"range": "1", "content": "", "x": ""}]}, "INVALID_ARGS"),
        ({"content": "x", "edits": [{"range": "1", "content": ""}]}, "INVALID_ARGS"),
        ({"expected_old": "x", "edits": [{"range": "1", "content": ""}]}, "INVALID_ARGS"),
        ({"edits": "[{"}, "INVALID_ARGS"),
        ({"edits": "{}"}, "INVALID_ARGS"),
        ({"edits": "[" * 100_000}, "INVALID_ARGS"),
        ({"edits": '[{"range": "1", "content": "\\ud800"}]'}, "INVALID_ARGS"),
        ({"edits": "[]"}, "INVALID_ARGS"),
        ({}, "INVALID_ARGS"),
        ({"range": ""}, "INVALID_RANGE"),
        ({"edits": [{"range": "1", "content": "", "expected_old": "line 1"}, {"range": "3", "content": "", "expected_old": "line 4"}]}, "CONTENT_CHANGED"),
    ],
)  # fmt: skip
def test_ranges_that_are_refused(
    desk: OpenWorkspace, arguments: dict[str, Any], error: str
) -> None:
    target = put(desk, LINES)
    found = call(desk, "prepare_file_range_edit", path="a.txt", apply="auto", **arguments)
    assert found["error"].startswith(error), found
    assert target.read_text() == LINES
    assert desk.pending("local") == ()


def test_every_range_has_to_be_known_to_be_written_at_once(desk: OpenWorkspace) -> None:
    put(desk, LINES)
    known = [
        {"range": "1", "content": "x", "expected_old": "line 1"},
        {"range": "13~", "content": "y"},
    ]
    unknown = [*known, {"range": "3", "content": "z", "expected_old": ""}]
    for edits, written in ((unknown, False), (known, True)):
        done = call(desk, "prepare_file_range_edit", path="a.txt", edits=edits, apply="auto")
        assert done.get("changed", False) is written, done


def test_a_rejected_range_rejects_all(desk: OpenWorkspace) -> None:
    target = put(desk, LINES)
    edits = [{"range": "2", "content": "two"}, {"range": "8", "content": "eight"}]
    plan = call(desk, "prepare_file_range_edit", path="a.txt", edits=edits)
    (row,) = call(desk, "list_pending")["hunks"]
    assert row["lines"] == {"old": 2, "new": 2}
    changed = LINES.replace("line 8", "line eight")
    target.write_text(changed)
    done = call(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
    assert (done["error"], done["planned_lines"]) == ("CONTENT_CHANGED", "8~8")
    assert target.read_text() == changed


BATCHES = ("BatchEdit", "MultiEdit", "prepare_batch_edit")


@each_row(
    "tool edit",
    [
        ("prepare_file_range_edit", {"range": "2", "content": "two\n"}),
        *((tool, {"old_string": "line 2\n", "new_string": "two\n"}) for tool in BATCHES),
        ("edit_file", {"oldText": "line 2\n", "newText": "two\n"}),
    ],
)
def test_edits_are_taken_as_the_text_of_a_list(
    desk: OpenWorkspace, tool: str, edit: dict[str, str]
) -> None:
    target = put(desk, LINES)
    more = {"apply": "auto", "version": None} if tool.startswith("prepare") else {}
    if tool == "prepare_file_range_edit":
        more["version"] = call(desk, "read_file", path="a.txt")["version"]
    done = call(desk, tool, path="a.txt", edits=f" {json.dumps([edit])}", **more)
    assert done["status"] in ("ok", "success")
    assert target.read_text() == LINES.replace("line 2\n", "two\n")


# laws

WORDS = st.sampled_from(["a", "b", "}", "", "  x", "if y:"])
BODY = st.lists(WORDS, min_size=4, max_size=9)
NEW = st.lists(WORDS, max_size=3)


def edit_of(lines: tuple[int, int], new: list[str]) -> RangeEdit:
    start, stop = lines
    named = f"{start + 1}~" if start == stop else f"{start + 1}~{stop}"
    return RangeEdit(PATH, named, "".join(f"{line}\n" for line in new))


@st.composite
def cases(draw: st.DrawFn) -> tuple[bytes, list[RangeEdit]]:
    """A text and some ranges of it that share no line, in any order."""
    body = draw(BODY)
    closed = draw(st.booleans()) or not body[-1]
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    text = ending.join(body) + ending * closed
    total = Snapshot(text.encode(), UTF8).line_count
    bounds = draw(st.lists(st.integers(0, total), unique=True, min_size=4, max_size=6))
    bounds.sort()
    pairs = [(bounds[i], bounds[i + 1]) for i in range(0, len(bounds) - 1, 2)]
    edits = [edit_of(pair, draw(NEW)) for pair in pairs]
    if draw(st.booleans()):
        edits.append(edit_of((total, total), draw(NEW.filter(bool))))
    return text.encode(), draw(st.permutations(edits))


@pytest.mark.slow
@given(cases())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.filter_too_much])
def test_several_ranges_are_each_alone_from_the_bottom_up(
    case: tuple[bytes, list[RangeEdit]],
) -> None:
    """Also on a file that is drifted: what each alone refuses, all together refuse."""
    data, edits = case
    base, request = Snapshot(data, UTF8), RangeEdits(PATH, tuple(edits))
    together = compose(request, base, request.locate(base))
    alone = base
    for edit in sorted(edits, key=lambda each: -int(each.range.partition("~")[0])):
        place = edit.locate(base)
        alone = compose(edit, alone, place).after  # those below it are made, those above stay
        assert isinstance(alone, Snapshot)
    assert together.after.data == alone.data  # type: ignore[union-attr]  # it is all at hand


@pytest.mark.slow
@given(cases(), st.integers(0, 9), st.lists(WORDS, max_size=2), st.integers(0, 2))
@settings(max_examples=examples(300))
def test_ranges_are_carried_as_each_alone_is(
    case: tuple[bytes, list[RangeEdit]], at: int, put: list[str], gone: int
) -> None:
    """A stale text: all go where each would go alone, or one that is refused refuses all."""
    data, edits = case
    base = Snapshot(data, UTF8)
    lines = data.decode().splitlines(keepends=True)
    at = min(at, len(lines))
    lines[at : at + gone] = [f"{line}\n" for line in put]
    now = Snapshot("".join(lines).encode(), UTF8)
    request = RangeEdits(PATH, tuple(edits))

    def carried(one: RangeEdit | RangeEdits) -> Place:
        place = one.locate(base)
        moved = relocate(place, base, now)
        if moved.foot is not None:  # an append goes to the end, whatever stands there
            check_not_there(one, (base, place), (now, moved))
        return moved

    try:
        alone = [carried(edit) for edit in edits]
    except Refusal:
        with pytest.raises(Refusal):
            carried(request)
        return
    spans = sorted((each.start, each.stop) for each in alone)
    order = [index for index, _ in sorted(enumerate(edits), key=lambda e: e[1].locate(base).start)]
    in_order = [alone[index] for index in order]
    if spans != [(each.start, each.stop) for each in in_order]:
        with pytest.raises(Refusal):  # carried past one another
            carried(request)
        return
    assert carried(request).parts == tuple((each.start, each.stop) for each in alone)


@given(BODY, st.sampled_from(["a", "b", "x", "if", "\n", "}\n", "a\na"]), NEW)
@settings(max_examples=examples(200))
def test_every_place_is_replaced_as_python_does(body: list[str], old: str, new: list[str]) -> None:
    text, put = "".join(f"{line}\n" for line in body), " ".join(new)
    request = ReplaceText(PATH, (StringEdit(old, put),), everywhere=True)
    base = Snapshot(text.encode(), UTF8)
    if old not in text or old == put:
        with pytest.raises(Refusal):
            request.locate(base)
        return
    place = request.locate(base)
    assert place.candidates == text.count(old)
    found = compose(request, base, place).after.data  # type: ignore[union-attr]  # it is all at hand
    wanted = text.replace(old, put)
    assert found.decode() == (wanted if not wanted or wanted.endswith("\n") else f"{wanted}\n")


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_client_over_stdio(tmp_path: Path) -> None:
    """Named, edited in several places and replaced, each in one call of a real client."""
    (tmp_path / "a.txt").write_text(LINES)
    async with stdio_client(tmp_path, "auto") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"replace_text", "prepare_file_range_edit"} <= names

        async def text_of(tool: str, **given: Any) -> str:
            found = await client.call_tool(tool, {"path": "a.txt", **given})
            assert not found.is_error, found
            return "".join(getattr(part, "text", "") for part in found.content)

        said = await text_of("read_file")
        version = re.search(r"version ([0-9a-f]{12})", said)
        assert version
        edits = [{"range": "2", "content": "two\n"}, {"range": "11~12", "content": ""}]
        more = {"version": version[1], "apply": "auto"}
        await text_of("prepare_file_range_edit", edits=edits, **more)
        await text_of("replace_text", old="ne 3", new="NE 3")
    wanted = LINES.replace("line 2\n", "two\n").replace("ne 3", "NE 3")
    assert (tmp_path / "a.txt").read_text() == wanted.replace("line 11\nline 12\n", "")


# In all files of a directory

TREE = {
    "src/a.js": "getUser();\nlet x = getUser;\n",
    "src/lib/b.js": "import { getUser } from './a';\r\ngetUser()\r\n",
    "src/c.js": "nothing here\n",
    "src/.hidden.js": "getUser\n",
    "src/bytes.js": "\xe9 getUser\n",
    "other/d.js": "getUser\n",
}


def lay_tree(root: Path) -> dict[str, bytes]:
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("latin-1"))
    return files_of(root)


def files_of(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in TREE}


EVERYWHERE = {"path": "src", "old": "getUser", "new": "fetchUser", "all": True}


def test_a_directory_is_changed_as_a_whole(desk: OpenWorkspace, tmp_path: Path) -> None:
    before = lay_tree(tmp_path)
    answer = desk.call("local", "replace_text", EVERYWHERE)
    rows: Any = answer.data["hunks"]
    changed = ("src/a.js", "src/bytes.js", "src/lib/b.js")
    assert sorted(row["path"] for row in rows) == sorted(changed)
    assert files_of(tmp_path) == {
        name: data.replace(b"getUser", b"fetchUser") if name in changed else data
        for name, data in before.items()
    }
    assert answer.text.count("\n") == 3
    assert len({entry.group for entry in desk.journal.entries()}) == 1
    for row in rows:
        call(desk, "undo_file_modification", edit_id=row["edit_id"])
    assert files_of(tmp_path) == before


def test_a_directory_is_only_planned(desk: OpenWorkspace, tmp_path: Path) -> None:
    before = lay_tree(tmp_path)
    plan = desk.call("local", "replace_text", {**EVERYWHERE, "apply": "never"})
    assert files_of(tmp_path) == before
    rows: Any = plan.data["hunks"]
    ids = [row["hunk_id"] for row in rows]
    assert len(ids) == 3
    assert all(one in plan.text for one in ids)
    assert plan.diff.count("diff --git") == 3
    assert call(desk, "apply_file_modifications", hunk_ids=ids)["changed"]
    assert files_of(tmp_path) != before


def test_no_file_of_a_directory_is_changed_where_one_may_not_be(tmp_path: Path) -> None:
    before = lay_tree(tmp_path)
    members = {
        "ann": MemberConfig({"no_write_dirs": ("src/lib",)}),
        "human": MemberConfig(approval="human"),
        "short": MemberConfig(auto_lines=1),
    }
    with open_workspace(str(tmp_path), Config(members=members), shared=False) as opened:
        refused = opened.call("ann", "replace_text", EVERYWHERE)
        assert refused.data["error"] == "ACCESS_DENIED"
        assert opened.pending("ann") == ()
        asked = opened.call("human", "replace_text", EVERYWHERE)
        assert asked.data["status"] == "pending"
        assert len(opened.pending("human")) == 3
        planned = opened.call("short", "replace_text", EVERYWHERE)
        assert "Not written yet" in str(planned.data["summary"])
    assert files_of(tmp_path) == before


@each_row(
    "arguments code argument",
    [
        ({"old": "nobodyHasThis"}, "INVALID_ARGS", "old"),
        ({"old": ""}, "INVALID_ARGS", "old"),
        ({"old": "x", "new": "x"}, "INVALID_ARGS", "new"),
        ({"all": False}, "NOT_A_FILE", None),
        ({"path": "none"}, "FILE_NOT_FOUND", None),
        ({"old": "getUser();\nnot this"}, "INVALID_ARGS", "old"),
        ({"old": "\n"}, "INVALID_ARGS", "old"),
        ({"version": "123456789abc"}, "INVALID_ARGS", "version"),
        ({"existing_hunk_id": "abcdef12"}, "INVALID_ARGS", "existing_hunk_id"),
    ],
)
def test_a_directory_is_refused(
    desk: OpenWorkspace, tmp_path: Path, arguments: dict[str, Any], code: str, argument: str | None
) -> None:
    before = lay_tree(tmp_path)
    found = call(desk, "replace_text", **{**EVERYWHERE, **arguments})
    assert (found["error"], found.get("argument")) == (code, argument)
    assert files_of(tmp_path) == before
    assert desk.pending("local") == ()


def test_lines_that_end_otherwise_are_found_in_a_directory(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    lay_tree(tmp_path)
    given = {"path": ".", "old": "'./a';\ngetUser()", "new": "'./b';\ngetUser()", "all": True}
    assert call(desk, "replace_text", **given)["changed"] is True
    after = b"import { getUser } from './b';\r\ngetUser()\r\n"
    assert (tmp_path / "src/lib/b.js").read_bytes() == after


def test_a_binary_file_is_no_hindrance_and_another_encoding_is_named(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    lay_tree(tmp_path)
    (tmp_path / "src/a.bin").write_bytes(b"getUser\n\0")
    refused = call(desk, "replace_text", **{**EVERYWHERE, "new": "\u4ef7"})
    assert (refused["error"], refused["path"]) == ("ENCODING_ERROR", "src/bytes.js")
    assert desk.pending("local") == ()
    assert call(desk, "replace_text", **EVERYWHERE)["changed"] is True
    assert (tmp_path / "src/a.bin").read_bytes() == b"getUser\n\0"


@pytest.mark.parametrize("raised", [Busy("src/c.js", 1), KeyboardInterrupt()])
def test_no_plan_is_left_behind(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    before = lay_tree(tmp_path)

    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(desk.desk, "apply_all", fails)
    with suppress(KeyboardInterrupt):
        assert desk.call("local", "replace_text", EVERYWHERE).data["error"] == "BUSY"
    assert desk.pending("local") == ()
    assert files_of(tmp_path) == before


def test_a_directory_that_cannot_be_searched_whole_is_refused(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, search = lay_tree(tmp_path), ws_mod.search_files

    def late(*given: Any) -> Any:
        return replace(search(*given), timed_out=True)

    monkeypatch.setattr(ws_mod, "search_files", late)
    found = call(desk, "replace_text", **EVERYWHERE)
    assert (found["error"], found["argument"]) == ("INVALID_ARGS", "path")
    assert files_of(tmp_path) == before
