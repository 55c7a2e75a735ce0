"""The toolset `edit`: a selection of ws_mod's tools, and one of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from copydesk.app import reference
from copydesk.app.config import TOOLSETS, Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.report import Answer, Lang
from support.desks import Setup
from support.rows import each_row

TEXT = "".join(f"line {i}\n" for i in range(1, 41))
AUTO = Config(members={"local": MemberConfig(apply="auto")})
DESK = Setup(AUTO, {"a.txt": TEXT})
NINE = {
    *("read_file", "ripgrep_search", "replace_text", "prepare_file_range_edit", "write_file"),
    *("apply_patch", "apply_file_modification", "undo_file_modification", "manual"),
}


def call(desk: OpenWorkspace, tool: str, lang: Lang = "en", **arguments: Any) -> Answer:
    """The answer of a tool to a caller of the toolset."""
    (own,) = (each for each in desk.tools("local", ["edit"]) if each.called == tool)
    return desk.call("local", own.name, arguments, lang=lang, toolsets=("edit",))


def planned(desk: OpenWorkspace, lines: str = "2") -> str:
    """A plan for these lines of `a.txt`."""
    given = {"path": "a.txt", "range": lines, "content": "two\n", "apply": "never"}
    return str(call(desk, "prepare_file_range_edit", **given).data["hunk_id"])


def renamed(desk: OpenWorkspace) -> object:
    """The edit of line 7, which becomes `seven`."""
    done = call(desk, "replace_text", path="a.txt", old="line 7\n", new="seven\n")
    return done.data["edit_id"]


def again(desk: OpenWorkspace, edit_id: object) -> Answer:
    return call(desk, "undo_file_modification", edit_id=edit_id, again=True)


SEVEN = TEXT.replace("line 7\n", "seven\n")
TWO = TEXT.replace("line 2\n", "two\n")


def patch(*files: str) -> str:
    return "*** Begin Patch\n" + "\n".join(files) + "\n*** End Patch"


def listed(desk: OpenWorkspace, *toolsets: str) -> list[str]:
    tools = desk.tools("local", toolsets)
    return [one["name"] for one in reference.definitions(tools, "mcp", "en")]


def test_it_has_nine_tools(desk: OpenWorkspace) -> None:
    assert sorted(listed(desk, "edit")) == sorted(NINE)


def test_two_toolsets_have_one_tool_of_a_name(desk: OpenWorkspace) -> None:
    """The compat toolset has its own `write_file`, which is faithful to another program."""
    for toolsets in (("edit", "compat"), TOOLSETS):
        names = listed(desk, *toolsets)
        assert len(set(names)) == len(names)
        (write,) = (t for t in desk.tools("local", toolsets) if t.name == "write_file")
        assert write.toolset == "compat"


def test_a_plan_of_one_is_applied_by_the_other(desk: OpenWorkspace, tmp_path: Path) -> None:
    done = desk.call("local", "apply_file_modification", {"hunk_id": planned(desk)})
    assert done.data["context_match"] == "exact"
    assert (tmp_path / "a.txt").read_text() == TWO


def test_a_file_is_written_new_or_over_the_old_one(desk: OpenWorkspace, tmp_path: Path) -> None:
    made = call(desk, "write_file", path="new/b.txt", content="one\n")
    assert made.text.startswith("ok new/b.txt (new) +1 -0 · edit ")
    assert made.data["mode"] == "write_file"
    over = call(desk, "write_file", path="new/b.txt", content="two\n")
    assert over.data["changed"] is True
    assert (tmp_path / "new" / "b.txt").read_text() == "two\n"
    same = call(desk, "write_file", path="new/b.txt", content="two\n")
    assert same.text.startswith("ok new/b.txt +0 -0 · version "), "nothing was written"
    call(desk, "undo_file_modification", edit_id=over.data["edit_id"])
    assert (tmp_path / "new" / "b.txt").read_text() == "one\n"


def test_a_file_is_not_written_over_by_who_knows_a_part_or_an_older_text(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    call(desk, "read_file", path="a.txt", range="1~3")
    part = call(desk, "write_file", path="a.txt", content="x\n")
    assert part.data["error"] == "INCOMPLETE_READ"
    call(desk, "read_file", path="a.txt")
    (tmp_path / "a.txt").write_text("theirs\n")
    stale = call(desk, "write_file", path="a.txt", content="x\n")
    assert stale.data["error"] == "STALE_READ"
    assert (tmp_path / "a.txt").read_text() == "theirs\n"
    call(desk, "read_file", path="a.txt")
    assert not call(desk, "write_file", path="a.txt", content="x\n").is_error


def test_without_an_id_there_is_a_list(desk: OpenWorkspace) -> None:
    assert call(desk, "apply_file_modification").text == "No plans are pending.\n"
    hunk_id = planned(desk)
    assert f"{hunk_id} a.txt replace" in call(desk, "apply_file_modification").text
    done = call(desk, "apply_file_modification", hunk_id=hunk_id)
    edits = call(desk, "undo_file_modification").text
    assert f"{done.data['edit_id']} a.txt +1 -1" in edits


def test_several_plans_are_written_together(desk: OpenWorkspace, tmp_path: Path) -> None:
    both = f"{planned(desk)}, {planned(desk, '9')}"
    assert call(desk, "apply_file_modification", hunk_id=both).data["changed"] is True
    assert (tmp_path / "a.txt").read_text().count("two\n") == 2


@each_row("lang", ["en", "zh"])
def test_advice_names_its_own_tools(desk: OpenWorkspace, lang: Lang) -> None:
    for answer in (
        call(desk, "read_file", lang, path="missing.txt"),
        call(desk, "replace_text", lang, path="a.txt", old="none", new="x"),
        call(desk, "undo_file_modification", lang, edit_id=99),
        call(desk, "apply_patch", lang, patch=PATCH, apply="never"),
        call(desk, "apply_file_modification", lang, hunk_id="x"),
    ):
        said = " ".join((str(answer.facts["summary"]), *answer.next_steps))
        others = {tool.name for tool in desk.tools("local", ["ws_mod"])} - NINE
        assert not [name for name in others if name in said.replace("apply_file_modifications", "")]


PATCH = patch("*** Add File: c.txt\n+one", "*** Update File: a.txt\n@@\n-line 5\n+five")


def test_the_plans_of_a_patch_are_applied_as_said(desk: OpenWorkspace, tmp_path: Path) -> None:
    plan = call(desk, "apply_patch", patch=PATCH, apply="never")
    (step,) = plan.next_steps
    given = step[step.index("(") + 2 : step.index(")") - 1].split(": ", 1)
    assert given[0] == '"hunk_id"'
    done = call(desk, "apply_file_modification", hunk_id=given[1].strip('"'))
    assert done.data["changed"] is True
    assert (tmp_path / "c.txt").read_text() == "one\n"


def test_what_was_undone_is_made_again_and_what_stands_is_not_made_twice(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    edit_id = renamed(desk)
    assert again(desk, edit_id).data["changed"] is False
    assert (tmp_path / "a.txt").read_text() == SEVEN
    call(desk, "undo_file_modification", edit_id=edit_id)
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert f"· made edit {edit_id} again · edit {edit_id + 2} ·" in again(desk, edit_id).text
    assert (tmp_path / "a.txt").read_text() == SEVEN


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_another_program_overwrote_is_made_again(
    desk: OpenWorkspace, tmp_path: Path, newline: str
) -> None:
    """An editor saves an old buffer over the edit, with lines of its own."""
    old = TEXT.replace("\n", newline)
    (tmp_path / "a.txt").write_bytes(old.encode())
    edit_id = renamed(desk)
    (tmp_path / "a.txt").write_bytes(b"theirs\n" + old.encode())
    found = again(desk, edit_id)
    assert found.data["changed"] is True, found.text
    expected = "theirs\n" + old.replace("line 7", "seven")
    assert (tmp_path / "a.txt").read_bytes() == expected.encode()


def test_a_new_file_that_was_removed_is_made_again(desk: OpenWorkspace, tmp_path: Path) -> None:
    done = call(desk, "write_file", path="b.txt", content="one\n")
    (tmp_path / "b.txt").unlink()
    again(desk, done.data["edit_id"])
    assert (tmp_path / "b.txt").read_text() == "one\n"


def test_a_place_that_is_not_certain_is_not_written(desk: OpenWorkspace, tmp_path: Path) -> None:
    edit_id, twice = renamed(desk), "line 7\nother\nline 7\n"
    (tmp_path / "a.txt").write_text(twice)
    assert again(desk, edit_id).is_error
    assert (tmp_path / "a.txt").read_text() == twice


def test_a_search_has_three_modes(desk: OpenWorkspace) -> None:
    assert "5: line 5" in call(desk, "ripgrep_search", pattern="line 5$", mode="text").text
    assert call(desk, "ripgrep_search", pattern="line", mode="files").data["files"] == ["a.txt"]
    counts: Any = call(desk, "ripgrep_search", pattern="line", mode="count").data["counts"]
    assert counts[0]["lines"] == 40


def test_a_directory_is_listed(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert "a.txt\t" in call(desk, "read_file", path=".").text
    assert "d/" in call(desk, "read_file", path=".").text
    assert call(desk, "read_file", path="d").text == "d: 0 entries\n"


def test_another_file_of_the_old_name_is_not_edited_again(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """The edited file was moved; another one got its name, and has the same lines."""
    edit_id = renamed(desk)
    call(desk, "apply_patch", patch=patch("*** Update File: a.txt", "*** Move to: b.txt"))
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(TEXT)
    again(desk, edit_id)
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert (tmp_path / "b.txt").read_text() == SEVEN


def test_a_file_that_was_deleted_since_is_not_edited_again(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    edit_id = renamed(desk)
    call(desk, "read_file", path="a.txt")
    assert not call(desk, "apply_patch", patch=patch("*** Delete File: a.txt")).is_error
    (tmp_path / "a.txt").write_text(TEXT)
    assert again(desk, edit_id).data["error"] == "CONTENT_CHANGED"
    assert (tmp_path / "a.txt").read_text() == TEXT


def test_the_old_text_that_an_editor_saved_gets_the_edit_in_the_same_lines(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """The lines are everywhere in the file, but it is the text that was edited."""
    target, same = tmp_path / "a.txt", "x\n" * 40
    target.write_text(same)
    given = {"path": "a.txt", "range": "20", "content": "y\n", "expected_old": "x\n"}
    done = call(desk, "prepare_file_range_edit", **given)
    after = target.read_text()
    target.write_text(same)
    again(desk, done.data["edit_id"])
    assert target.read_text() == after != same


@pytest.mark.slow
@each_row("name", ["list_dir.py", "list_pending/x.txt", "my-list_dir", "x.list_dir"])
def test_a_path_with_the_name_of_a_tool_stays_as_it_is(
    desk: OpenWorkspace, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("word\n" + TEXT * 200)
    cut = call(desk, "read_file", path=name)
    assert f'"path": "{name}"' in cut.next_steps[0]
    plan = call(desk, "replace_text", path=name, old="word", new="x", apply="never")
    assert name in str(plan.facts["summary"])


def test_the_entries_of_a_directory_have_the_ranges_of_lines(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """One from the end, one that passes the end, one behind it."""
    for name in ("one", "two", "three"):
        (tmp_path / "d" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "d" / name).write_text("x")
    assert call(desk, "read_file", path="d", range="-2~").text.endswith("three\t1\ntwo\t1\n```\n")
    assert call(desk, "read_file", path="d", range="3~9").text.endswith("```\ntwo\t1\n```\n")
    behind = call(desk, "read_file", path="d", range="9~")
    assert behind.data["argument"] == "range"
    assert "one\t1" in call(desk, "read_file", path="d", max_lines=1).text, "with its size"


def test_a_list_of_ids_may_have_blanks_and_repeat_one(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk_id = planned(desk)
    assert call(desk, "apply_file_modification", hunk_id=" , ").data["error"] == "INVALID_HUNK_ID"
    done = call(desk, "apply_file_modification", hunk_id=f"{hunk_id}, {hunk_id},")
    assert done.data["context_match"] == "exact"
    assert (tmp_path / "a.txt").read_text() == TWO


def test_advice_can_be_followed(desk: OpenWorkspace, tmp_path: Path) -> None:
    """It names no argument that the tool lacks."""
    call(desk, "read_file", path="a.txt")
    (tmp_path / "a.txt").write_text("theirs\n")
    stale = call(desk, "write_file", path="a.txt", content="x\n")
    assert "call with version" not in str(stale.facts["summary"])
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text("word\n")
    call(desk, "replace_text", path=".", old="word", new="x", all=True, apply="never")
    assert "60 plans are pending" in call(desk, "apply_file_modification").text
    assert call(desk, "apply_file_modification").next_steps == ()
    (step,) = desk.call("local", "apply_file_modification", {}).next_steps
    assert "list_pending with a path" in step


HUMAN = Config(members={"local": MemberConfig(apply="auto", approval="human")})


def test_a_new_file_that_a_person_approves_is_planned_as_said(tmp_path: Path) -> None:
    with open_workspace(str(tmp_path), HUMAN, shared=False) as desk:
        refused = call(desk, "write_file", path="b.txt", content="one\n")
        assert "apply_patch makes a new file" in str(refused.facts["summary"])
        added = patch("*** Add File: b.txt\n+one")
        assert call(desk, "apply_patch", patch=added).data["hunk_id"]
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize("files", [1, 2])
def test_a_patch_that_a_person_approved_is_written_as_said(tmp_path: Path, files: int) -> None:
    """The same call again would only plan it once more."""
    added = patch(*(f"*** Add File: {n}.txt\n+one" for n in range(files)))
    with open_workspace(str(tmp_path), HUMAN, shared=False) as desk:
        waits = call(desk, "apply_patch", patch=added)
        assert waits.data["status"] == "pending"
        assert "same call" not in str(waits.facts["summary"])
        reviewer = desk.member("person")
        rows: Any = waits.data["hunks"]
        for row in rows:
            shown = desk.desk.review.show(reviewer, row["hunk_id"])
            desk.desk.review.approve(reviewer, row["hunk_id"], shown.before, shown.after)
        if files > 1:
            given = waits.next_steps[0].split('{"hunk_id": "')[1].split('"')[0]
        else:
            given = str(waits.data["hunk_id"])
        done = call(desk, "apply_file_modification", hunk_id=given)
        assert not done.is_error, done.text
    assert len([*tmp_path.glob("*.txt")]) == files


@each_row("lang", ["en", "zh"])
@each_row("topic", sorted({*NINE, "PATCH_REJECTED", "STALE_READ"}))
def test_the_manual_has_its_tools_and_codes(desk: OpenWorkspace, lang: Lang, topic: str) -> None:
    found = call(desk, "manual", lang, topic=topic)
    assert not found.is_error
    assert topic in found.text
    assert call(desk, "manual", lang).data["toolset"] == "edit"


def test_a_path_that_is_nearly_right_is_answered_with_the_right_one(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "near.py").write_text("x\n")
    for path, said in (
        ("nea.py", "(see similar). write_file"),
        ("other/zzz", "Look with read_file"),
    ):
        refused = call(desk, "replace_text", path=path, old="x", new="y")
        assert said in str(refused.data["summary"]), refused.text


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "errors, and no tool or code that they explain."),
        ("zh", "也不是其中说明的工具或错误码。"),
    ],
)
def test_an_unknown_topic_is_refused_with_the_pages(
    desk: OpenWorkspace, lang: Lang, said: str
) -> None:
    refused = call(desk, "manual", lang, topic="nope")
    assert said in str(refused.data["summary"])
    assert len(refused.text) < 600


def test_backslashes_part_names_unless_a_name_has_them(desk: OpenWorkspace) -> None:
    root = Path(desk.root)
    (root / "src").mkdir()
    (root / "src" / "old.py").write_text("a\n")
    (root / "own\\name").write_text("a\n")
    (root / "my\\dir").mkdir()
    for tool, path, given in (
        ("write_file", "src\\old.py", {"content": "b\n"}),
        ("replace_text", "src\\old.py", {"old": "b", "new": "c", "apply": "auto"}),
        ("Edit", "src\\old.py", {"old_string": "c", "new_string": "d"}),
        ("Write", "src\\new.py", {"content": "x\n"}),
        ("create_directory", "src\\sub", {}),
        ("write_file", "my\\dir/new.py", {"content": "x\n"}),
        ("replace_text", "own\\name", {"old": "a", "new": "b", "apply": "auto"}),
    ):
        answer = desk.call("local", tool, {"path": path, **given})
        assert not answer.is_error, answer.text
    assert (root / "src" / "old.py").read_text() == "d\n"
    assert (root / "src" / "new.py").read_text() == "x\n"
    assert (root / "src" / "sub").is_dir()
    assert (root / "own\\name").read_text() == "b\n"
    assert (root / "my\\dir" / "new.py").read_text() == "x\n"
    assert {each.name for each in root.iterdir() if "\\" in each.name} == {"own\\name", "my\\dir"}


def test_a_name_that_is_not_utf8_is_refused_as_that(desk: OpenWorkspace) -> None:
    """It is listed with its bytes escaped, which is no name of it."""
    root = Path(desk.root)
    Path(os.fsdecode(os.fsencode(root) + b"/bad\xff.txt")).write_text("a\n")
    rows = desk.call("local", "list_dir", {"path": "."}).data["entries"]
    (listed,) = (row["name"] for row in rows if row["name"].startswith("bad"))
    for path in (listed, f"dir{listed[3:]}/a.txt"):
        answer = desk.call("local", "read_file", {"path": path})
        assert (answer.data["error"], answer.data["reason"]) == ("INVALID_PATH", "not UTF-8")
        assert "Rename it" in answer.text
    (root / "dir").mkdir()
    answer = desk.call("local", "write_file", {"path": "dir\\xab.txt", "content": "x\n"})
    assert not answer.is_error, "a name that only looks like one"
    assert (root / "dir" / "xab.txt").read_text() == "x\n"
