"""What an edit is for: given with a plan or a write, shown to who reviews it, kept in the history."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from copydesk.app.cli import main
from copydesk.app.reference import all_tools
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.catalog import EditingCall
from copydesk.tools.compat import compat
from support.desks import Setup, call
from support.mcp_calls import BLOCK_ID, FILE, call_of, lay, settings
from support.review_page import AGENT, desk_at, prepared, room_at

WHY = "so that 語 <b>users</b> & \u202eothers see it"
OTHER_SCHEMAS = tuple(tool.name for tool in compat())
"""The tools of compat take the arguments that others have laid down."""

WRITES = [
    tool.name
    for tool in all_tools()
    if not (tool.reads or tool.plain_name in (*OTHER_SCHEMAS, "discard_hunk"))
]


DESK = Setup(settings(), lay=lay)


def whys(desk: OpenWorkspace) -> list[str]:
    """Of all edits, the newest first."""
    return [edit.why for edit in desk.history("local")]


def test_every_tool_that_plans_or_writes_takes_it() -> None:
    taking = [tool.name for tool in all_tools() if issubclass(tool.call, EditingCall)]
    assert taking == WRITES
    assert len(WRITES) > 30


@pytest.mark.parametrize("tool", WRITES)
def test_it_is_kept_with_what_is_planned_or_written(desk: OpenWorkspace, tool: str) -> None:
    team = "team_mgmt_" if tool.startswith("team_mgmt_") else ""
    first = call(desk, f"{team}prepare_file_append", path=FILE, content="x")
    ids = {"{hunk}": first["hunk_id"], "{edit}": 1}
    if "undo" in tool:
        call(desk, f"{team}apply_file_modification", hunk_id=first["hunk_id"])
    given = json.loads(json.dumps(call_of(tool)))
    for name, value in given.items():
        if isinstance(value, str) and value in ids:
            given[name] = ids[value]
        elif value == ["{hunk}"]:
            given[name] = [ids["{hunk}"]]
    answer = desk.call("local", tool, {**given, "why": f" {WHY}\n"})
    assert not answer.is_error, answer.text
    found = dict(answer.data)
    if "hunk_id" in found and "edit_id" not in found:  # a plan
        rows = call(desk, f"{team}list_pending")["hunks"]
        assert [row["why"] for row in rows if row["hunk_id"] == found["hunk_id"]] == [WHY]
    else:
        assert call(desk, f"{team}list_edits")["edits"][0]["why"] == WHY


@pytest.mark.parametrize("edit", ["apply_file_modification", "apply_file_modifications"])
@pytest.mark.parametrize("said", ["", "another reason"])
def test_a_plan_is_written_for_its_reason(desk: OpenWorkspace, edit: str, said: str) -> None:
    """Planned anew without one it keeps it; the apply may give another."""
    plan = call(desk, "prepare_file_append", path=FILE, content="x", why=WHY)
    again = {"existing_hunk_id": plan["hunk_id"]}
    call(desk, "prepare_file_append", path=FILE, content="y", **again)
    together = edit.endswith("s")
    ids = {"hunk_ids": [plan["hunk_id"]]} if together else {"hunk_id": plan["hunk_id"]}
    call(desk, edit, **ids, why=said)
    assert whys(desk) == [said or WHY]
    call(desk, "undo_file_modification", edit_id=1)
    assert whys(desk) == ["", said or WHY], "of the undo nothing was said"


def test_it_is_of_one_call(desk: OpenWorkspace) -> None:
    call(desk, "replace_text", path=FILE, old="alpha", new="a", why=WHY)
    call(desk, "replace_text", path=FILE, old="omega", new="o")
    diff = f"@@REPLACE:{BLOCK_ID}@@\nfig ^{BLOCK_ID}\n"
    plan = call(desk, "prepareBlockDiff", diff=diff, why=WHY)
    call(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
    assert whys(desk) == [WHY, "", WHY]


NO_REASONS: list[tuple[object, str]] = [
    *((f"a{odd}b", "one line") for odd in ("\n", "\x1b[31m", "\u2028", "\x85")),
    *(("x" * 501, "more than 500"), ("\ud800", "surrogate"), ("\0", "NUL"), (["x"], "string")),
]


def test_what_is_no_reason_is_refused(desk: OpenWorkspace) -> None:
    before = (Path(desk.root) / FILE).read_bytes()
    for why, reason in NO_REASONS:
        found = call(desk, "replace_text", path=FILE, old="alpha", new="a", why=why)
        assert (found["error"], found["argument"]) == ("INVALID_ARGS", "why"), why
        assert reason in found["reason"], why
    assert (Path(desk.root) / FILE).read_bytes() == before
    for why in (None, "", " \n", "x" * 500, 7):
        call(desk, "prepare_file_append", path=FILE, content="x", apply="auto", why=why)
        assert whys(desk)[0] == ("" if why is None else str(why).strip())


@pytest.mark.slow
def test_the_page_shows_it_and_runs_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with room_at(tmp_path) as room:
        hunk = prepared(room.desk, path="a.txt", content="two\n", why=WHY)
        reader = room.reader()
        places = ("/", f"/hunk/{hunk}", f"/together?hunk={hunk}")
        pages = [reader.page(place) for place in places]
        reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/apply")
        pages += [reader.page("/history"), reader.page("/edit/1")]
        assert [edit.why for edit in room.desk.history(AGENT)] == [WHY]
    for page in pages:
        assert "so that 語 &lt;b&gt;users&lt;/b&gt; &amp; " in page
        assert "\u202e" not in page
        assert "U+202E" in page


@pytest.mark.slow
def test_the_command_line_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    members = 'durability = "fast"\n[members.ann]\napproval = "human"\n'
    (tmp_path / "copydesk.toml").write_text(members)
    (tmp_path / "a.txt").write_text("one\n")

    def said(*words: str) -> str:
        main([*words, "--root", str(tmp_path)])
        return capsys.readouterr().out

    with open_workspace(str(tmp_path)) as agent:
        given = {"path": "a.txt", "content": "two\n", "why": WHY}
        hunk = str(agent.call("ann", "prepare_file_append", given).data["hunk_id"])
    shown = WHY.replace("\u202e", "\\u202e")
    assert shown in said("pending")
    assert json.loads(said("pending", "--json"))[0]["why"] == WHY
    assert f"Reason given: {shown}" in said("show", hunk)
    assert json.loads(said("show", hunk, "--json"))["why"] == WHY
    monkeypatch.setattr(sys, "stdin", io.StringIO("w\n"))
    assert f"Reason given: {shown}" in said("review")
    assert shown in said("history")
    assert json.loads(said("history", "--json"))[0]["why"] == WHY


def test_a_form_of_the_client_shows_it(tmp_path: Path) -> None:
    from copydesk.app.mcp.server import question

    (tmp_path / "a.txt").write_text("one\n")
    with desk_at(tmp_path) as desk:
        hunk = prepared(desk, path="a.txt", content="two\n", why=WHY)
        asked = question(desk, AGENT, hunk, "en")
        assert asked is not None
        assert "Reason given: so that 語 <b>users</b> & \\u202eothers" in asked[1].message
