"""What was written and what waits: the lists of the tools, the command line and the library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from copydesk import Desk
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import Append, RangeEdit
from copydesk.errors import AccessDenied, ContentChanged, EditNotFound, FileNotFound
from copydesk.tools.ws_mod import HISTORY, when
from support.desks import call

MEMBERS = {
    "local": MemberConfig(team_mgmt=True),
    "ann": MemberConfig(lists={"no_read_dirs": ("secret",)}),
    "bob": MemberConfig(lists={"read_dirs": ("docs",), "write_dirs": ("docs",)}),
}
CONFIG = Config(durability="fast", members=MEMBERS)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    with open_workspace(str(tmp_path), CONFIG, shared=False) as made:
        yield made


def create(
    opened: OpenWorkspace, path: str, member: str = "local", content: str = "one\ntwo\n"
) -> int:
    tool = "team_mgmt_create_new_file" if path.startswith(".minds") else "create_new_file"
    return int(call(opened, tool, member, path=path, content=content)["edit_id"])


def ids(answer: dict[str, Any]) -> list[int]:
    return [edit["edit_id"] for edit in answer["edits"]]


# The edits that were made


def test_the_fields_of_an_edit(opened: OpenWorkspace) -> None:
    Path(opened.root, "a.txt").write_text("one\ntwo\n")
    plan = call(opened, "prepare_file_range_edit", path="a.txt", range="2", content="2\n3\n")
    done = call(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
    (edit,) = call(opened, "list_edits")["edits"]
    moment = edit.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)
    assert when(edit.pop("time_ms")) == moment
    assert edit == {
        "edit_id": done["edit_id"],
        "member": "local",
        "tool": "prepare_file_range_edit",
        "path": "a.txt",
        "kind": "edit",
        "hunk_id": plan["hunk_id"],
        "state": "done",
        "lines": {"added": 2, "removed": 1},
        "undoes": 0,
        "undone_by": 0,
        "why": "",
    }
    back = call(opened, "undo_file_modification", edit_id=done["edit_id"])
    undo, edit = call(opened, "list_edits")["edits"]
    assert (undo["undoes"], edit["undone_by"]) == (edit["edit_id"], back["edit_id"])
    call(opened, "undo_file_modification", edit_id=back["edit_id"])
    redo, undo, edit = call(opened, "list_edits")["edits"]
    assert (undo["undone_by"], edit["undone_by"]) == (redo["edit_id"], 0)
    call(opened, "undo_file_modification", edit_id=redo["edit_id"])
    again, redo, undo, edit = call(opened, "list_edits")["edits"]
    found = (redo["undone_by"], undo["undone_by"], edit["undone_by"])
    assert found == (again["edit_id"], 0, undo["edit_id"])


def test_a_moment_is_told_in_utc() -> None:
    moments = {
        0: "1970-01-01T00:00:00.000Z",
        1_795_249_400_086: "2026-11-21T08:23:20.086Z",
        951_782_399_999: "2000-02-28T23:59:59.999Z",
    }
    assert {time_ms: when(time_ms) for time_ms in moments} == moments


def test_by_path_by_member_and_page_by_page(opened: OpenWorkspace) -> None:
    for index in range(5):
        create(opened, f"docs/{index}.txt")
        create(opened, f"docs-old/{index}.txt", "ann")
    every, odd = list(range(10, 0, -1)), [9, 7, 5, 3, 1]
    assert ids(call(opened, "list_edits")) == every
    paths = {"docs": odd, "docs/": odd, "docs/2.txt": [5], ".": every, "none": []}
    assert {path: ids(call(opened, "list_edits", path=path)) for path in paths} == paths
    members = {"ann": [10, 8, 6, 4, 2], "nobody": []}
    assert {one: ids(call(opened, "list_edits", member=one)) for one in members} == members
    answer = opened.call("local", "list_edits", {"path": "docs", "max_results": 2})
    assert (ids(dict(answer.data)), answer.fields["more"]) == ([9, 7], True)
    found = re.search(r"list_edits\((\{.*\})\)", answer.text)
    assert found is not None
    arguments = json.loads(found[1])
    assert arguments == {"path": "docs", "max_results": 2, "before_edit_id": 7}
    assert ids(call(opened, "list_edits", **arguments)) == [5, 3]
    last = call(opened, "list_edits", path="docs", max_results=2, before_edit_id=3)
    assert (ids(last), last["more"]) == ([1], False)
    everything = call(opened, "list_edits", max_results=10)
    assert (len(ids(everything)), everything["more"]) == (10, False)
    for huge in (1 << 63, 1 << 100):
        assert len(ids(call(opened, "list_edits", before_edit_id=huge))) == 10


def test_the_journal_is_asked_once(opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is a round trip where the journal is on a server."""
    create(opened, "a.txt")
    asked = mock.Mock(side_effect=opened.journal.entries)
    monkeypatch.setattr(opened.journal, "entries", asked)
    assert ids(call(opened, "list_edits", path="a.txt")) == [1]
    assert asked.call_count == 1


def test_only_edits_of_files_that_may_be_read(opened: OpenWorkspace) -> None:
    for path in ("docs/a.txt", "secret/a.txt", "a.txt", ".minds/a.md"):
        create(opened, path)
    assert ids(call(opened, "list_edits")) == [3, 2, 1]
    assert ids(call(opened, "list_edits", "ann")) == [3, 1]
    assert ids(call(opened, "list_edits", "bob")) == [1]
    assert ids(call(opened, "list_edits", "bob", path="docs")) == [1]
    assert ids(call(opened, "team_mgmt_list_edits")) == [4]
    assert ids(call(opened, "team_mgmt_list_edits", path=".")) == [4]
    assert ids(call(opened, "team_mgmt_list_edits", path="a.md")) == [4]
    for member, path in (("ann", "secret"), ("ann", "secret/a.txt"), ("bob", "a.txt")):
        assert call(opened, "list_edits", member, path=path)["error"] == "ACCESS_DENIED"
    assert call(opened, "list_edits", path=".minds")["error"] == "ACCESS_DENIED"
    assert call(opened, "list_edits", path="../x")["error"] == "INVALID_PATH"
    unknown = call(opened, "undo_file_modification", "bob", edit_id=99)
    assert unknown["newest_edit_id"] == 1


@pytest.mark.slow
def test_those_behind_many_are_found(
    opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(opened, "docs/a.txt")
    for index in range(120):
        create(opened, f"secret/{index}.txt", content="")
    found = call(opened, "list_edits", "bob", max_results=1)
    assert (ids(found), found["more"]) == ([1], False)
    monkeypatch.setattr("copydesk.desk.history.MOST_SEARCHED", 70)
    first = call(opened, "list_edits", "bob")
    assert (ids(first), first["more"]) == ([], True)
    answer = opened.call("bob", "list_edits", {})
    before = re.search(r'"before_edit_id": (\d+)', answer.text)
    assert before is not None
    rest = call(opened, "list_edits", "bob", before_edit_id=int(before[1]))
    assert (ids(rest), rest["more"]) == ([1], False)


def test_a_link_shows_the_edits_of_what_it_leads_to(opened: OpenWorkspace) -> None:
    edit = create(opened, "docs/a.txt")
    Path(opened.root, "link.txt").symlink_to("docs/a.txt")
    Path(opened.root, "folder").symlink_to("docs")
    assert ids(call(opened, "list_edits", path="link.txt")) == [edit]
    assert ids(call(opened, "list_edits", path="folder")) == [edit]


def test_a_failed_edit_is_listed_as_such(opened: OpenWorkspace) -> None:
    written = opened.journal.get(create(opened, "a.txt"))
    assert written is not None
    opened.journal.close_all(
        [opened.journal.open(replace(written, edit_id=0, state="open"))], "failed"
    )
    assert call(opened, "list_edits")["edits"][0]["state"] == "failed"


# The plans that wait


def test_the_plans_that_wait(opened: OpenWorkspace) -> None:
    for name in ("docs", "secret", ".minds"):
        (Path(opened.root) / name).mkdir()
        (Path(opened.root) / name / "a.txt").write_text("one\ntwo\nthree\n")
    batch = [{"old_string": "one\ntwo", "new_string": "1"}]
    made = [
        call(opened, tool, member, path=path, **arguments)
        for tool, member, path, arguments in (
            ("prepare_file_range_edit", "local", "docs/a.txt", {"range": "1~2", "content": "x"}),
            ("prepare_file_append", "ann", "docs/a.txt", {"content": "x\ny\n"}),
            (
                "prepare_file_insert_after",
                "local",
                "secret/a.txt",
                {"anchor": "two", "content": "x"},
            ),
            ("prepare_batch_edit", "local", "docs/a.txt", {"edits": batch}),
            ("team_mgmt_prepare_file_append", "local", "a.txt", {"content": "x"}),
        )
    ]
    hunks = [plan["hunk_id"] for plan in made]
    found = call(opened, "list_pending")
    rows = {hunk["hunk_id"]: hunk for hunk in found["hunks"]}
    assert (set(rows), found["total"], found["count"]) == (set(hunks[:4]), 4, 4)
    assert rows[hunks[0]] == {
        "hunk_id": hunks[0],
        "owner": "local",
        "mine": True,
        "tool": "prepare_file_range_edit",
        "path": "docs/a.txt",
        "action": "replace",
        "lines": {"old": 2, "new": 1},
        "why": "",
        "expires_at_ms": made[0]["expires_at_ms"],
    }
    assert [rows[hunk]["mine"] for hunk in hunks[:4]] == [True, False, True, True]
    lines = [(rows[hunk]["lines"]["old"], rows[hunk]["lines"]["new"]) for hunk in hunks[:4]]
    assert lines == [(2, 1), (0, 2), (0, 1), (2, 1)]
    few = call(opened, "list_pending", max_results=1)
    assert (few["hunks"], few["total"]) == (found["hunks"][:1], 4)
    below = call(opened, "list_pending", "ann")
    assert {hunk["hunk_id"] for hunk in below["hunks"]} == {hunks[0], hunks[1], hunks[3]}
    for path in ("docs", "docs/a.txt"):
        assert call(opened, "list_pending", path=path)["total"] == 3
    assert call(opened, "list_pending", path="doc")["total"] == 0
    assert call(opened, "list_pending", "ann", path="secret")["error"] == "ACCESS_DENIED"
    (team,) = call(opened, "team_mgmt_list_pending")["hunks"]
    assert (team["hunk_id"], team["path"]) == (hunks[4], ".minds/a.txt")
    call(opened, "apply_file_modification", hunk_id=hunks[0])
    assert call(opened, "list_pending")["total"] == 3


def test_a_plan_is_let_go_by_its_owner_and_its_toolset(opened: OpenWorkspace) -> None:
    Path(opened.root, ".minds").mkdir()
    mine = call(opened, "prepare_file_append", path="a.txt", content="x")["hunk_id"]
    team = call(opened, "team_mgmt_prepare_file_append", path="a.txt", content="x")["hunk_id"]
    refusals = (
        ("discard_hunk", "ann", mine, "WRONG_OWNER"),
        ("discard_hunk", "local", team, "WRONG_MODE"),
        ("team_mgmt_discard_hunk", "local", mine, "WRONG_MODE"),
        ("discard_hunk", "local", "0" * 8, "HUNK_NOT_FOUND"),
        ("discard_hunk", "local", "nope", "INVALID_HUNK_ID"),
    )
    for tool, member, hunk_id, code in refusals:
        assert call(opened, tool, member, hunk_id=hunk_id)["error"] == code
    done = call(opened, "discard_hunk", hunk_id=mine)
    assert (done["status"], done["path"], done["action"]) == ("ok", "a.txt", "append")
    again = call(opened, "discard_hunk", hunk_id=mine)
    assert (again["error"], again["reason"]) == ("HUNK_NOT_FOUND", "discarded")
    assert call(opened, "team_mgmt_discard_hunk", hunk_id=team)["status"] == "ok"
    assert not Path(opened.root, "a.txt").exists()


def test_the_hints_are_true() -> None:
    hints = {tool.name: (tool.reads, tool.destroys, tool.idempotent) for tool in HISTORY}
    assert hints == {
        "undo_file_modification": (False, True, False),
        "list_edits": (True, False, True),
        "list_pending": (True, False, True),
        "show_hunk": (True, False, True),
        "discard_hunk": (False, True, True),
    }


# The reports of undo


def test_the_report_of_an_undo(opened: OpenWorkspace) -> None:
    Path(opened.root, "a.txt").write_text("".join(f"{i}\n" for i in range(1, 8)))
    plan = call(opened, "prepare_file_range_edit", path="a.txt", range="4", content="four\n")
    edit = call(opened, "apply_file_modification", hunk_id=plan["hunk_id"])["edit_id"]
    undo = {"edit_id": edit, "report": "full"}
    answer = opened.call("local", "undo_file_modification", undo)
    assert list(answer.fields) == [
        *("status", "mode", "path", "edit_id", "undone_edit_id", "action", "context_match"),
        *("regions", "lines", "changed", "version", "apply_evidence", "summary"),
    ]
    assert answer.fields["apply_evidence"] == {
        "before": "1\n2\n3\n",
        "written": "4\n",
        "after": "5\n6\n7\n",
    }
    assert "-four\n+4\n" in answer.diff
    again = answer.fields["edit_id"]
    assert f'"edit_id": {again}' in answer.text.split("```\n")[1]
    brief = opened.call("local", "undo_file_modification", {"edit_id": again, "report": "brief"})
    version = brief.fields["version"]
    assert brief.text == f"ok a.txt:4 +1 -1 · undid edit 2 · edit 3 · version {version}\n"
    assert brief.fields.keys() == answer.fields.keys()


# The command line and the library


def shell(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "copydesk", "--root", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    request = '{"path": "a.txt", "range": "%s", "content": "%s"}'
    for hunk in ("1", "EINS"), ("3", "DREI"):
        planned = shell(tmp_path, "call", "prepare_file_range_edit", request % hunk, "--json")
        assert shell(tmp_path, "apply", json.loads(planned.stdout)["hunk_id"]).returncode == 0
    done = shell(tmp_path, "undo", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "-EINS\n+one\n" in done.stdout
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\nDREI\n"
    again = shell(tmp_path, "undo", "1")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("copydesk: CONTENT_CHANGED: ")
    data = json.loads(shell(tmp_path, "--json", "undo", "1").stdout)
    assert (data["status"], data["undone_by"]) == ("error", 3)
    assert json.loads(shell(tmp_path, "undo", "2", "--json").stdout)["undone_edit_id"] == 2
    listed = shell(tmp_path, "history", ".").stdout
    told = re.findall(r"undo\w+ (?:by )?\d", listed)
    assert told == ["undoes 2", "undoes 1", "undone by 4", "undone by 3"]
    rows = json.loads(shell(tmp_path, "history", "--json").stdout)
    found = [(row["edit_id"], row["undoes"], row["undone_by"]) for row in rows]
    assert found == [(4, 2, 0), (3, 1, 0), (2, 0, 4), (1, 0, 3)]
    missing = shell(tmp_path, "undo", "77")
    assert missing.returncode == 1
    assert "EDIT_NOT_FOUND" in missing.stderr
    assert "copydesk history" in missing.stderr
    for wrong in ("x", "0", "-1"):
        assert shell(tmp_path, "undo", wrong).returncode == 2


def test_in_the_library(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with Desk(tmp_path) as desk:
        path = desk.path("a.txt")
        edit = desk.apply(desk.prepare(RangeEdit(path, "1", "eins")).id).edit_id
        with pytest.raises(EditNotFound):
            desk.undo(edit + 1)
        back = desk.undo(edit)
        assert (back.edit_id, back.entry.edit_id, back.context) == (edit + 1, edit, "exact")
        assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
        with pytest.raises(ContentChanged) as refused:
            desk.undo(edit)
        assert refused.value.undone_by == back.edit_id
        assert [(one.undoes, one.undone_by) for one in desk.history()] == [(1, 0), (0, 2)]
        assert [one.edit_id for one in desk.history("a.txt", before=2)] == [1]
        appended = desk.apply(desk.prepare(Append(path, "end")).id).edit_id
        (tmp_path / "a.txt").unlink()
        with pytest.raises(FileNotFound):
            desk.undo(appended)
        with pytest.raises(AccessDenied):
            desk.history(".minds/a.txt")
