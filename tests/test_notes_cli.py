"""`copydesk notes`, and the guided run of notes."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main

NOTE = """\
---
id: 20260101000000-notenot
---

# Plan

Buy apples.
{: id="20260101000000-applesa"}

## Later
{: id="20260101000000-laterla"}

- one
- two
"""
DIFF = """\
@@20260101000000-applesa@@
<<<<<<< SEARCH
Buy apples.
=======
Buy figs.
>>>>>>> REPLACE
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with one note, as the current folder."""
    (tmp_path / "copydesk.toml").write_text('durability = "fast"\n')
    (tmp_path / "plan.md").write_text(NOTE)
    monkeypatch.chdir(tmp_path)
    for name in ("SIYUAN_URL", "SIYUAN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(
    capsys: pytest.CaptureFixture[str], *words: str, given: str = "", status: int = 0
) -> tuple[str, str]:
    """Run a command with something on standard input; what it printed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.StringIO(given))
        assert main(["notes", *words]) == status
    return tuple(capsys.readouterr())


def data(capsys: pytest.CaptureFixture[str], *words: str, given: str = "", status: int = 0) -> Any:
    """The same with --json."""
    return json.loads(run(capsys, *words, "--json", given=given, status=status)[0])


def test_listing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, _ = run(capsys, "ls")
    assert re.search(r"20260101000000-notenot +/plan\n", shown)
    ((notebook),) = data(capsys, "ls")
    assert [one["hpath"] for one in notebook["documents"]] == ["/plan"]
    shown, _ = run(capsys, "ls", "20260101000000-notenot")
    assert re.search(r"20260101000000-applesa  Paragraph    Buy apples\.\n", shown)
    assert re.search(r"20260101000000-laterla  Heading      ## Later\n", shown)
    listed = data(capsys, "ls", "20260101000000-notenot")
    assert [one["type"] for one in listed] == ["h", "p", "h", "l"]


@pytest.mark.slow
def test_a_list_and_a_search_of_some_documents(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "trade").mkdir()
    (root / "trade" / "shop.md").write_text("# Shop\n\nBuy pears.\n")
    for options, wanted in (
        (["--name", "sho"], {"/trade/shop"}),
        (["--folder", "trade"], {"/trade/shop"}),
        (["--name", "sho", "--folder", "home"], set()),
        ([], {"/plan", "/trade/shop"}),
    ):
        ((notebook),) = data(capsys, "ls", *options)
        assert {one["hpath"] for one in notebook["documents"]} - {"/trade"} == wanted
        listed = run(capsys, "ls", *options)[0] + run(capsys, "search", "buy", *options)[0]
        found = str(data(capsys, "search", "buy", *options))
        for path in ("/plan", "/trade/shop"):
            assert (listed.count(path), path in found) == (2 * (path in wanted), path in wanted)


def test_pages_that_one_toolset_has_need_no_name_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manual", "slice-reading"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# slice-reading: ")
    assert main(["manual", "notes", "slice-reading"]) == 0
    assert capsys.readouterr().out == page
    assert main(["manual", "errors"]) == 2, "several have one"


def test_what_is_not_read_is_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "nul.md").write_bytes(b"\0")
    (root / "copydesk.toml").write_text('[notes]\nexclude = ["out*"]\n')
    (root / "out.md").write_text("apples")
    (root / ".gitignore").write_text("private/\n")
    (root / "private").mkdir()
    (root / "private" / "a.md").write_text("apples")
    out, _ = run(capsys, "ls")
    assert out.endswith("1 file is not read:\n- nul.md: contains NUL characters\n")
    assert "out" not in out
    assert "private" not in out
    (listed,) = json.loads(run(capsys, "ls", "--json")[0])
    assert listed["notRead"] == [{"path": "nul.md", "reason": "NUL"}]
    (root / "copydesk.toml").write_text("[notes]\ngitignore = false\n")
    assert "private" in run(capsys, "ls")[0]


def test_showing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "cat", "20260101000000-laterla")[0] == "## Later\n\n- one\n- two\n"
    shown, _ = run(capsys, "cat", "20260101000000-applesa", "--ids")
    assert shown == "@@20260101000000-applesa@@Paragraph\nBuy apples.\n"
    found = data(capsys, "cat", "20260101000000-notenot", "--slice", "0:2")
    assert (found["count"], found["total"]) == (2, 4)
    _, told = run(capsys, "cat", "20200101000000-nowhere", status=1)
    assert "BLOCK_NOT_FOUND" in told


@pytest.mark.slow
def test_a_long_note_is_not_cut(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n\n".join(f"Paragraph {i}." for i in range(1_500))
    (root / "long.md").write_text(f"---\nid: 20260101000000-longlon\n---\n\n{text}\n")
    assert run(capsys, "cat", "20260101000000-longlon")[0] == f"{text}\n"
    assert main(["call", "getBlockContent", "--blockId", "20260101000000-longlon"]) == 0
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.slow
def test_a_diff_is_shown_planned_made_and_taken_back(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "plan.md"
    (root / "diff.txt").write_text(DIFF)
    shown, _ = run(capsys, "diff", "diff.txt", "--dry-run")
    assert "+Buy figs." in shown
    assert path.read_text() == NOTE
    plan = data(capsys, "diff", "--plan", given=DIFF)["hunk_id"]
    assert main(["pending"]) == 0
    assert f"{plan}  plan.md" in capsys.readouterr().out
    assert main(["show", plan]) == 0
    assert "+Buy figs." in capsys.readouterr().out
    assert main(["apply", plan]) == 0
    assert path.read_text() == NOTE.replace("apples.", "figs.")
    assert main(["undo", "1"]) == 0
    assert path.read_text() == NOTE
    capsys.readouterr()
    done = data(capsys, "diff", given=DIFF)
    assert done["edit_ids"] == [3]
    assert main(["history", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [edit["tool"] for edit in listed] == [
        "applyBlockDiff", "undo_file_modification", "prepareBlockDiff"
    ]  # fmt: skip
    refused = data(capsys, "diff", given=DIFF, status=1)
    assert refused["problems"][0]["code"] == "CONTENT_MISMATCH"


@pytest.mark.slow
def test_adding_and_finding(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "append", "20260101000000-laterla", given="Call Ann.\n")
    assert (root / "plan.md").read_text().endswith("- two\n\nCall Ann.\n")
    made = data(capsys, "new", "Guests", "20260101000000-notenot", "--location", "children")
    assert made["hpath"] == "/plan/Guests"
    assert (root / "plan" / "Guests.md").exists()
    today = data(capsys, "daily", given="Rain.\n")
    assert run(capsys, "cat", today["targetId"])[0] == "Rain.\n"
    shown, _ = run(capsys, "search", "ann", "call")
    assert "Call Ann." in shown
    assert data(capsys, "search", "nothing such")["count"] == 0


@pytest.mark.slow
def test_two_notebooks_of_one_workspace(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("wiki", "log"):
        (root / name).mkdir()
        (root / name / f"{name}.md").write_text(f"text of {name}\n")
    (root / "copydesk.toml").write_text('notes = {notebooks = ["wiki", "log"]}\n')
    found = {one["name"]: one for one in data(capsys, "ls")}
    assert set(found) == {"wiki", "log"}
    blocks = {
        name: data(capsys, "ls", one["documents"][0]["id"])[0]["id"] for name, one in found.items()
    }
    diff = "".join(f"@@REPLACE:{blocks[name]}@@\nnew {name}\n" for name in ("log", "wiki"))
    assert len(data(capsys, "diff", given=diff)["edit_ids"]) == 2
    assert (root / "wiki" / "wiki.md").read_text() == "new wiki\n"
    assert (root / "log" / "log.md").read_text() == "new log\n"
    _, told = run(capsys, "daily", given="x", status=2)
    assert "--notebook" in told
    today = data(capsys, "daily", "--notebook", found["log"]["id"], given="x")
    assert "/log/daily note" in str(next((root / "log").rglob("20*.md")))
    assert today["targetType"] == "dailynote"
    assert data(capsys, "search", "new")["count"] == 2


def test_the_guided_run_ends_as_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "notes"]) == 0
    shown = capsys.readouterr().out
    assert "CONTENT_MISMATCH" in shown
    assert "BLOCK_NOT_FOUND" in shown
