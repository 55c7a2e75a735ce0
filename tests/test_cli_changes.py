"""What agents did, on the command line: changes, keep, undo of a task, checkpoints, review --done."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from copydesk.app.cli import main
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.changes import Changes, UndoneChanges

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
TOML = 'durability = "fast"\n[members.ann]\napproval = "human"\n[members.bob]\n'


class Ran(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    (tmp_path / "copydesk.toml").write_text(TOML)
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path


@pytest.fixture
def agents(root: Path) -> Iterator[OpenWorkspace]:
    """The workspace, open in a process of two agents."""
    members = {"bob": MemberConfig(), "cleo": MemberConfig()}
    with open_workspace(str(root), Config(durability="fast", members=members)) as opened:
        yield opened


def edit(agents: OpenWorkspace, line: int, content: str, by: str = "bob t1", **more: str) -> int:
    """The id of an edit of a line, by a member for a task."""
    member, task = by.split(maxsplit=1)
    given = {"path": "a.txt", "range": str(line), "content": content, **more}
    hunk = agents.call(member, "prepare_file_range_edit", given, task=task).fields["hunk_id"]
    answer = agents.call(member, "apply_file_modification", {"hunk_id": hunk}, task=task)
    kept(agents)
    return int(str(answer.fields["edit_id"]))


def kept(agents: OpenWorkspace) -> None:
    """Wait until other processes know the texts that were written."""
    entry = agents.history("bob", most=1)[0]
    bases = agents._backend.bases  # pyright: ignore[reportPrivateUsage]  # it is asked for nowhere else
    bases.find(entry.after, None, entry.path)


def create(agents: OpenWorkspace, path: str, text: str, task: str = "t1") -> None:
    answer = agents.call("bob", "create_new_file", {"path": path, "content": text}, task=task)
    kept(agents)
    assert answer.fields["status"] == "ok", answer.text


Run = Callable[..., Ran]


@pytest.fixture
def run(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        status = main(["--root", str(root), *words])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return command


def ids(run: Run) -> dict[str, str]:
    """The ids of the open changes by their places."""
    files = json.loads(run("changes", "--json").out)["files"]
    return {f"{c['path']}:{c['new_line']}": c["change"] for f in files for c in f["changes"]}


def git(root: Path, *words: str, given: bytes | None = None) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(root), *words]
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout.decode()


def in_git(root: Path) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text(".copydesk/\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")


def test_git_applies_what_changes_prints(agents: OpenWorkspace, run: Run, root: Path) -> None:
    """A person's lines are context of the diff: it makes of theirs what there is now."""
    edit(agents, 5, "five")
    theirs = TEXT.replace("line 20\n", "a person's\n")
    (root / "a.txt").write_text((root / "a.txt").read_text().replace("line 20\n", "a person's\n"))
    edit(agents, 22, "twenty-two")
    create(agents, "new file.txt", "one\ntwo")
    ran = run("changes")
    assert (ran.status, ran.err) == (0, "")
    other = root / "other"
    other.mkdir()
    (other / "a.txt").write_text(theirs)
    git(other, "init", "-q")
    git(other, "apply", given=ran.out.encode())
    for name in ("a.txt", "new file.txt"):
        assert (other / name).read_bytes() == (root / name).read_bytes()


@pytest.mark.slow
def test_git_takes_and_stages_every_change(agents: OpenWorkspace, run: Run, root: Path) -> None:
    """Other line ends and encodings, none at the end, strange names; removed, moved and created."""
    files = {
        "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
        "latin.txt": "eins\nzw\xf6lf\ndrei\n".encode("latin-1"),
        "open end.txt": b"one\ntwo",
        "\u4e2d\u6587.md": "\u4e00\n\u4e8c\n".encode(),
        "gone.txt": b"x\ny\n",
        "old/name.txt": b"".join(b"%d\n" % number for number in range(20)),
        "bom.txt": b"\xef\xbb\xbfone\ntwo\n",
    }
    for name, data in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    in_git(root)
    tree = git(root, "write-tree")

    def wrote(tool: str, **given: str) -> None:
        hunk = agents.call("bob", tool, given).fields["hunk_id"]
        done = agents.call("bob", "apply_file_modification", {"hunk_id": hunk})
        assert done.fields["status"] == "ok", done.text
        kept(agents)

    for name in ("crlf.txt", "latin.txt", "open end.txt", "\u4e2d\u6587.md", "bom.txt"):
        wrote("prepare_file_range_edit", path=name, range="2", content="new")
    wrote("prepare_file_range_edit", path="bom.txt", range="1", content="first")
    wrote("prepare_file_delete", path="gone.txt")
    wrote("prepare_file_move", path="old/name.txt", to="new/name.txt")
    wrote("prepare_file_range_edit", path="new/name.txt", range="5", content="new")
    create(agents, "empty.txt", "")
    create(agents, "created.txt", "a\nb")
    words = [sys.executable, "-m", "copydesk", "--root", str(root), "changes"]
    diff = subprocess.run(words, capture_output=True, check=True).stdout
    assert (diff.count(b"diff --git"), b"rename to new/name.txt" in diff) == (9, True)
    assert run("keep", "--stage").status == 0
    assert git(root, "diff") == "", "git's index has what the files have"
    assert run("changes").out == ""
    staged = git(root, "write-tree")
    git(root, "read-tree", tree.strip())
    git(root, "apply", "--cached", given=diff)
    assert git(root, "write-tree") == staged


def test_what_git_cannot_apply_is_named(agents: OpenWorkspace, run: Run, root: Path) -> None:
    (root / "a.txt").write_bytes(TEXT.encode("utf-16"))
    create(agents, "b.txt", "b\n")
    edit(agents, 5, "five")
    ran = run("changes")
    assert ("a.txt" in ran.out, "b.txt" in ran.out) == (False, True)
    assert "left out: a.txt" in ran.err


@pytest.mark.slow
def test_changes_are_selected(agents: OpenWorkspace, run: Run) -> None:
    edit(agents, 5, "five", why="to count")
    assert run("checkpoint", "half way").status == 0
    edit(agents, 9, "nine", "cleo t2")
    assert "+five\n" in run("changes").out
    since = ("--since", "half way"), ("--since", "1h", "--task", "t2")
    for words in (("--task", "t2"), ("--member", "cleo"), *since):
        ran = run("changes", *words)
        assert re.findall(r"^[+-]\w.*", ran.out, re.MULTILINE) == ["-line 9", "+nine"], words
    assert run("changes", "--task", "t3") == (0, "", "There are no open changes.\n")
    refused = run("changes", "--since", "yesterday")
    assert (refused.status, "2h" in refused.err) == (1, True)
    tasks = run("changes", "--stat").out
    rows = re.findall(r"^(t\d) +(\w+) +1 +\+1 -1 +1 ", tasks, re.MULTILINE)
    assert rows == [("t2", "cleo"), ("t1", "bob")]
    assert "copydesk changes --task t2" in tasks
    one = run("changes", "--stat", "--task", "t1").out
    assert "to count" in one
    assert f"{ids(run)['a.txt:5']}  a.txt:5" in one
    data = json.loads(run("changes", "--json").out)
    assert [task["task"] for task in data["tasks"]] == ["t2", "t1"]
    assert (data["older"], data["files"][0]["changes"][0]["members"]) == (0, ["bob"])


def test_a_change_says_of_which_edits_it_is(agents: OpenWorkspace, run: Run, root: Path) -> None:
    """With why, tool and time of each, and with what it newly breaks."""
    (root / "a.json").write_text('{"a": [1]}\n')
    edit(agents, 1, '{"a": [1, 2]}', path="a.json", why="two are needed")
    edit(agents, 1, '{"a": [1, 2}', path="a.json")
    (change,) = json.loads(run("changes", "--json").out)["files"][0]["changes"]
    first, second = agents.history("bob")[::-1]
    rows = [
        {
            "edit_id": one.edit_id,
            "member": "bob",
            "tool": "prepare_file_range_edit",
            "time_ms": one.time_ms,
            "why": one.why,
        }
        for one in (first, second)
    ]
    assert (change["edits"], change["old_line"], change["new_line"]) == (rows, 1, 1)
    assert [row["why"] for row in change["edits"]] == ["two are needed", ""]
    (check,) = change["checks"]
    assert (check["check"], check["line"]) == ("syntax", 1)
    assert run("changes", "--stat", "--task", "t1").out.endswith("two are needed\n")


def test_what_is_kept_is_no_longer_shown(agents: OpenWorkspace, run: Run, root: Path) -> None:
    for line in (5, 15, 25):
        edit(agents, line, f"new {line}")
    text = (root / "a.txt").read_text()
    assert run("keep", ids(run)["a.txt:15"]).out == "Kept 1 change.\n"
    assert set(ids(run)) == {"a.txt:5", "a.txt:25"}
    refused = run("keep", "00000000")
    assert refused.status == 1
    assert "argument change: is not open: 00000000; changes --json lists" in refused.err
    assert json.loads(run("keep", "--task", "t1", "--json").out)["kept"] == 2
    assert run("changes").out == ""
    assert run("keep").out == "Kept 0 changes.\n"
    assert (root / "a.txt").read_text() == text


def test_a_file_is_kept(agents: OpenWorkspace, run: Run, root: Path) -> None:
    for line in (5, 15):
        edit(agents, line, f"new {line}")
    create(agents, "b.txt", "b")
    create(agents, "d/c.txt", "c")
    assert run("keep", "./b.txt", "a.txt").out == "Kept 3 changes.\n"
    assert set(ids(run)) == {"d/c.txt:1"}
    refused = run("keep", "d/c.txt", "a.txt")
    assert "is not open: a.txt; changes --json lists" in refused.err
    assert set(ids(run)) == {"d/c.txt:1"}, "all that are named, or none"


def test_a_change_that_only_a_task_has_says_so(agents: OpenWorkspace, run: Run) -> None:
    """Of two tasks at one place each has its own change; in the view of both it is one."""
    edit(agents, 5, "five\nsix", by="bob t1")
    edit(agents, 5, "FIVE", by="cleo it's t2")
    rows = json.loads(run("changes", "--task", "it's t2", "--json").out)["files"]
    change = rows[0]["changes"][0]["change"]
    refused = run("keep", change)
    assert refused.status == 1
    assert f"""is open only with --task 'it'"'"'s t2': {change}.""" in refused.err
    assert run("keep", "--task", "it's t2", change).out == "Kept 1 change.\n"


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "sub"])
def test_what_is_kept_is_staged_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    root = tmp_path / folder
    root.mkdir(exist_ok=True)
    (root / "copydesk.toml").write_text(TOML)
    (root / "a.txt").write_text(TEXT)
    in_git(tmp_path)
    monkeypatch.chdir(root)
    with open_workspace(str(root), Config(durability="fast")) as agents:
        for line in (5, 15, 25):
            edit(agents, line, f"new {line}")
        create(agents, "b.txt", "b\n")
    main(["changes", "--json"])
    files = json.loads(capsys.readouterr().out)["files"]
    change = {c["new_line"]: c["change"] for f in files for c in f["changes"]}
    git(root, "diff", "--quiet", "--cached")
    assert main(["keep", "--stage", change[15], change[1]]) == 0
    assert "git's index" in capsys.readouterr().out
    staged = git(root, "diff", "--cached")
    assert re.findall(r"^[+-]\w.*", staged, re.MULTILINE) == ["-line 15", "+new 15", "+b"]
    git(root, "add", ".")
    assert main(["keep", "--stage"]) == 0, "what is in the index already stays as it is there"
    assert git(root, "log", "--format=%s") == "first\n"


def test_it_is_staged_below_lines_that_are_not(agents: OpenWorkspace, run: Run, root: Path) -> None:
    (root / "a.txt").write_text("def f():\n    a = 1\n    b = 2\n    return 0\n\n" * 6)
    in_git(root)
    (root / "a.txt").write_text("# mine\n" * 10 + (root / "a.txt").read_text())
    edit(agents, 18, "    b = 2\n    c = 3")
    assert run("keep", "--stage").status == 0
    assert "@@ -8,0 +9 @@" in git(root, "diff", "--cached", "-U0")
    edit(agents, 12, "    a = 99  ")
    git(root, "config", "apply.whitespace", "fix")
    assert run("keep", "--stage").status == 0
    assert "\n+    a = 99  \n" in git(root, "diff", "--cached", "-U0")
    assert "# mine" not in git(root, "show", ":a.txt")


def test_what_git_cannot_stage_is_not_kept(agents: OpenWorkspace, run: Run, root: Path) -> None:
    edit(agents, 5, "five")
    assert run("keep", "--stage").status == 2, "no repository"
    in_git(root)
    edit(agents, 7, "seven")
    git(root, "rm", "-q", "--cached", "a.txt")
    ran = run("keep", "--stage")
    assert (ran.status, "nothing was kept" in ran.err) == (2, True)
    assert len(ids(run)) >= 1


def test_a_task_is_undone(agents: OpenWorkspace, run: Run, root: Path) -> None:
    edit(agents, 5, "five")
    edit(agents, 9, "nine", "cleo t2")
    create(agents, "b.txt", "b\n")
    (root / "a.txt").write_text("mine\n" + (root / "a.txt").read_text())
    ran = run("undo", "--task", "t1", "--reason", "not so")
    assert (ran.status, ran.err) == (0, "")
    undo = re.findall(r"copydesk undo (\d+)", ran.out)
    assert len(undo) == 2
    assert (root / "a.txt").read_text() == "mine\n" + TEXT.replace("line 9\n", "nine\n")
    assert not (root / "b.txt").exists()
    assert run("undo", "--task", "t1") == (0, "There are no open changes.\n", "")
    assert run("undo", undo[0]).status == 0, "what an output prints works"


def test_what_others_changed_stays(agents: OpenWorkspace, run: Run, root: Path) -> None:
    edit(agents, 5, "five\nsix")
    edit(agents, 20, "twenty")
    (root / "a.txt").write_text((root / "a.txt").read_text().replace("six\n", "a person's\n"))
    before = (root / "a.txt").read_text()
    ran = run("undo", "--task", "t1")
    assert (ran.status, (root / "a.txt").read_text()) == (1, before)
    assert "is not undone. Its lines were changed since by another program." in ran.out
    assert "-line 5\n" in ran.out
    assert "--partly" in ran.out
    data = json.loads(run("undo", "--task", "t1", "--json").out)
    assert (data["status"], {row["path"] for row in data["refused"]}) == ("error", {"a.txt"})
    diff = data["refused"][0]["diff"]
    assert "\n-line 5\n+five\n a person's\n" in diff, "the agent's text, and what is there now"
    assert diff in ran.out
    ran = run("undo", "--task", "t1", "--partly")
    assert ran.status == 1
    assert (root / "a.txt").read_text() == before.replace("twenty\n", "line 19\n")


def test_a_change_that_was_made_after_the_view_was_read_is_refused_too(
    agents: OpenWorkspace, run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the only one can be undone, and nothing else is there to undo partly."""
    edit(agents, 5, "five\nsix")
    (root / "a.txt").write_text((root / "a.txt").read_text().replace("six\n", "a person's\n"))
    undo, view = Changes.undo, Changes.view

    def late(self: Changes, *given: Any, **more: Any) -> UndoneChanges:
        monkeypatch.setattr(Changes, "view", view)
        return undo(self, *given, **more)

    monkeypatch.setattr(Changes, "undo", late)
    monkeypatch.setattr(Changes, "view", lambda *_: ())
    ran = run("undo", "--task", "t1")
    assert ran.status == 1
    assert "is not undone. Its lines were changed since by another program." in ran.out
    assert "--partly" not in ran.out


def test_back_to_a_checkpoint(agents: OpenWorkspace, run: Run, root: Path) -> None:
    assert "copydesk checkpoint NAME" in run("checkpoint").out
    edit(agents, 5, "five")
    said = run("checkpoint", "half way").out
    assert "copydesk undo --to 'half way'" in said
    edit(agents, 6, "six")
    edit(agents, 7, "seven", "cleo t2")
    rows = json.loads(run("checkpoint", "--json").out)
    assert [(row["name"], row["edit_id"]) for row in rows] == [("half way", 1)]
    assert "half way" in run("checkpoint").out
    assert run("checkpoint", "2h").status == 1
    assert run("undo", "--to", "half way").status == 0
    assert (root / "a.txt").read_text() == TEXT.replace("line 5\n", "five\n")


def test_what_to_undo_is_named_in_one_way(run: Run) -> None:
    for words in ([], ["1", "--task", "t1"], ["--partly"], ["1", "--reason", "x"]):
        assert run("undo", *words).status == 2, words


def test_a_task_without_edits_is_none(agents: OpenWorkspace, run: Run) -> None:
    """One whose edits are all kept is a task, with nothing to undo."""
    edit(agents, 5, "five")
    refused = run("undo", "--task", "nope")
    assert (refused.status, refused.out) == (1, "")
    assert "argument task: is no task of any edit" in refused.err
    data = json.loads(run("undo", "--task", "nope", "--json").out)
    assert (data["status"], data["error"]) == ("error", "INVALID_ARGS")
    assert run("keep").status == 0
    assert run("undo", "--task", "t1") == (0, "There are no open changes.\n", "")
    assert run("undo", "--since", "2h") == (0, "There are no open changes.\n", "")


def test_the_option_that_is_wrong_is_named(run: Run) -> None:
    for option in ("to", "since"):
        ran = run("undo", f"--{option}", "nope")
        assert (ran.status, ran.out) == (1, "")
        assert f"argument {option}: is no time" in ran.err


def test_a_text_of_the_person_rewrites_a_change(
    agents: OpenWorkspace, run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(agents, 5, "five")
    monkeypatch.setenv("VISUAL", "sed -i s/five/FIVE/")
    ran = run("review", "--done", stdin="e\n")
    assert re.search(r"Rewrote changes of a\.txt, edit (\d+)\..* copydesk undo \1\n", ran.out)
    assert "Undid" not in ran.out
    assert "FIVE\n" in (root / "a.txt").read_text()


@pytest.mark.parametrize("words", [["reapply"], ["call", "undo_file_modification", "--again"]])
@pytest.mark.parametrize(
    ("lines", "said"),
    [("line 5\n", "1 line became 1 line, as after that edit"), ("theirs\nline 5\n", "had changed")],
)
def test_an_edit_that_is_made_again_is_called_so(
    agents: OpenWorkspace, run: Run, root: Path, words: list[str], lines: str, said: str
) -> None:
    number = edit(agents, 5, "five")
    assert run("undo", str(number)).status == 0
    (root / "a.txt").write_text(TEXT.replace("line 5\n", lines))
    named = [str(number)] if words == ["reapply"] else ["--edit_id", str(number), "--report=full"]
    ran = run(*words, *named)
    assert (ran.status, ran.err) == (0, "")
    assert f"Made edit {number} in a.txt again: " in ran.out
    assert said in ran.out
    assert "Undid" not in ran.out
    assert "To make the edit again" not in ran.out
    assert "five\n" in (root / "a.txt").read_text()


def test_a_file_that_is_made_again_is_called_so(agents: OpenWorkspace, run: Run) -> None:
    create(agents, "new.txt", "one")
    assert run("undo", "1").status == 0
    assert run("reapply", "1").out.startswith("Made edit 1 of new.txt again.\n")


@pytest.mark.slow
def test_each_change_is_asked_for(
    agents: OpenWorkspace, run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (5, 10, 15, 20, 25):
        edit(agents, line, f"new {line}", why="to be new")
    editor = root / "editor.sh"
    editor.write_text("#!/bin/sh\nprintf 'FIFTEEN\\n' > \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    ran = run("review", "--done", stdin="k\nu\nnot ten\ne\n?\nx\nc\nwhy this?\ns\nq\n")
    assert (ran.status, ran.err) == (0, "")
    assert (ran.out.count("Undid changes of"), ran.out.count("Rewrote changes of")) == (1, 1)
    assert "1 kept, 1 undone, 1 edited; 2 left" in ran.out.replace("open", "left")
    assert "[5/5] a.txt:25" in ran.out
    assert "to be new" in ran.out
    text = TEXT.replace("line 15\n", "FIFTEEN\n")
    for line in (5, 20, 25):
        text = text.replace(f"line {line}\n", f"new {line}\n")
    assert (root / "a.txt").read_text() == text
    told = agents.call("bob", "read_file", {"path": "a.txt"})
    assert "not ten" in told.text
    assert "why this?" in told.text
    assert set(ids(run)) == {"a.txt:20", "a.txt:25"}
    assert run("review", "--done").status == 0, "the end of input ends it"
    assert len(ids(run)) == 2


def test_what_became_another_is_not_asked_for(agents: OpenWorkspace, run: Run, root: Path) -> None:
    edit(agents, 5, "five\nsix")
    (root / "a.txt").write_text((root / "a.txt").read_text().replace("six\n", "a person's\n"))
    ran = run("review", "--done", stdin="u\n\ns\n")
    assert ran.out.count("Its lines were changed since by another program.") >= 2
    assert "0 kept, 0 undone, 0 edited; 1 open." in ran.out


def test_a_member_whose_edits_a_person_approves_keeps_nothing(
    agents: OpenWorkspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(agents, 5, "five")
    monkeypatch.setenv("COPYDESK_MEMBER", "ann")
    for words in (("keep",), ("review", "--done")):
        ran = run(*words, stdin="k\n")
        assert "ACCESS_DENIED" in ran.err, words
    assert len(ids(run)) == 1
    monkeypatch.setenv("COPYDESK_MEMBER", "mallory")
    for words in (("keep",), ("review", "--done"), ("checkpoint", "x"), ("undo", "--task", "t1")):
        ran = run(*words)
        assert (ran.status, "declares no such member" in ran.err) == (1, True), words


def test_a_chinese_terminal_gets_chinese(agents: OpenWorkspace, run: Run) -> None:
    edit(agents, 5, "five")
    assert run("--lang", "zh", "keep").out == "已保留 1 个更改。\n"
    assert "没有" in run("--lang", "zh", "changes").err
