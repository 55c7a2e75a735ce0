"""The patch toolset: several files in one transaction, told where they do not fit, taken back."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.config import TOOLSETS, Config, MemberConfig
from copydesk.app.reference import all_tools
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.text import sizes
from copydesk.tools.catalog import Catalog
from support.desks import Setup, call
from support.rows import each_row

START = {
    "a.py": b"class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n",
    "crlf.txt": b"\xef\xbb\xbfone\r\ntwo\r\n",
    "gone.bin": b"\0\1\2",
    "run.sh": b"#!/bin/sh\necho 1\n",
    "open.txt": b"one\ntwo",
}
PATCH = """\
*** Begin Patch
*** Update File: a.py
@@ def g
-        return 1
+        return 2
*** Update File: crlf.txt
@@
-one
+ONE
*** Add File: sub/dir/new.txt
+new
*** Update File: run.sh
*** Move to: bin/run
@@
-echo 1
+echo 2
*** Delete File: gone.bin
*** End Patch
"""
AFTER = {
    "a.py": START["a.py"][:-2] + b"2\n",
    "crlf.txt": b"\xef\xbb\xbfONE\r\ntwo\r\n",
    "sub/dir/new.txt": b"new\n",
    "bin/run": b"#!/bin/sh\necho 2\n",
    "open.txt": b"one\ntwo",
}


def settings_of(**member: Any) -> Config:
    return Config(durability="fast", members={"local": MemberConfig(**member)})


def opened_at(root: Path, **member: Any) -> OpenWorkspace:
    return open_workspace(str(root), settings_of(**member), shared=False)


def opened_shared(root: Path) -> OpenWorkspace:
    return open_workspace(str(root), Config(durability="fast"))


def made(root: Path) -> None:
    for name, data in START.items():
        (root / name).write_bytes(data)
    (root / "run.sh").chmod(0o750)


DESK = Setup(settings_of(), lay=made)


def ids_of(plan: dict[str, Any]) -> list[str]:
    return [row["hunk_id"] for row in plan["hunks"]]


def undone(desk: OpenWorkspace, done: dict[str, Any]) -> None:
    """All edits of the call are taken back, the last one first."""
    for row in reversed(done["hunks"]):
        found = call(desk, "undo_file_modification", edit_id=row["edit_id"])
        assert found["status"] == "ok", found


def files(root: str | Path) -> dict[str, bytes]:
    found = (path for path in Path(root).rglob("*") if ".copydesk" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.is_file()}


def test_a_patch_of_five_files_is_one_transaction_and_goes_back_whole(desk: OpenWorkspace) -> None:
    plan = call(desk, "apply_patch", patch=PATCH)
    assert files(desk.root) == START
    actions = ["replace", "replace", "append", "replace", "file_move", "file_delete"]
    assert [row["action"] for row in plan["hunks"]] == actions
    done = call(desk, "apply_file_modifications", hunk_ids=ids_of(plan))
    assert files(desk.root) == AFTER
    assert mode_of(desk, "bin/run") == 0o750
    assert len(call(desk, "list_edits")["edits"]) == len(actions) + 1  # a move has two ends
    undone(desk, done)
    assert files(desk.root) == START
    assert mode_of(desk, "run.sh") == 0o750


def test_auto_writes_what_is_certain_and_a_deletion_only_of_what_was_shown(
    desk: OpenWorkspace,
) -> None:
    text = "*** Begin Patch\n*** Delete File: open.txt\n*** End Patch"
    plan = call(desk, "apply_patch", patch=text, apply="auto")
    assert plan["auto_apply"] == "declined"
    assert "not shown" in plan["auto_apply_reason"]
    for row in call(desk, "list_pending")["hunks"]:
        call(desk, "discard_hunk", hunk_id=row["hunk_id"])
    call(desk, "read_file", path="open.txt")
    assert call(desk, "apply_patch", patch=text, apply="auto")["changed"] is True
    assert "open.txt" not in files(desk.root)
    kept = PATCH.replace("*** Delete File: gone.bin\n", "")
    answer = desk.call("local", "apply_patch", {"patch": kept, "apply": "auto"})
    lines = answer.text.splitlines()
    assert lines[0].startswith("ok a.py:6 +1 -1 · edit ")
    assert files(desk.root)["bin/run"] == AFTER["bin/run"]


ADD = "*** Add File: open.txt\n+1\n+2\n"
AGAIN = f"*** Delete File: open.txt\n{ADD}"
MORE = "*** Update File: open.txt\n@@\n-2\n+3\n"


@each_row(
    "body shown is_known",
    [
        (ADD, "", False),
        (ADD, "2~2", True),
        (ADD, "~", True),
        (ADD + MORE, "", False),
        (ADD + MORE, "~", True),
        (AGAIN, "", True),
        (AGAIN, "1~1", True),
        (AGAIN, "~", True),
        (AGAIN + MORE, "~", True),
    ],
)
def test_a_file_that_is_added_again_is_replaced_whole(
    tmp_path: Path, body: str, shown: str, is_known: bool
) -> None:
    """It is planned if its text was shown, or is deleted, and written if all of it was shown."""
    root = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    root.mkdir()
    made(root)
    text = f"*** Begin Patch\n{body}*** End Patch"
    with opened_at(root) as desk:
        if shown:
            call(desk, "read_file", path="open.txt", range=shown)
        planned = call(desk, "apply_patch", patch=text, apply="never")
        assert files(root) == START
        if not is_known:
            assert planned["error"] == "FILE_EXISTS"
            assert call(desk, "list_pending")["count"] == 0
            return
        facts = call(desk, "apply_patch", patch=text, apply="auto")
        if shown != "~":
            assert "were not shown to you" in facts["auto_apply_reason"]
            assert files(root) == START
            facts = call(desk, "apply_file_modifications", hunk_ids=ids_of(planned))
        assert facts["changed"]
        assert files(root)["open.txt"] == (b"1\n3\n" if MORE in body else b"1\n2\n")
        undone(desk, facts)
        assert files(root) == START


def test_a_missing_file_is_not_deleted_and_added(desk: OpenWorkspace) -> None:
    text = f"*** Begin Patch\n{AGAIN.replace('open.txt', 'none.txt')}*** End Patch"
    assert call(desk, "apply_patch", patch=text, apply="auto")["error"] == "FILE_NOT_FOUND"


def test_one_hunk_that_does_not_fit_leaves_every_file(desk: OpenWorkspace) -> None:
    text = PATCH.replace("-echo 1", "-  echo 1")
    found = call(desk, "apply_patch", patch=text, apply="auto")
    assert (found["status"], found["error"]) == ("error", "PATCH_REJECTED")
    (told,) = found["rejected"]
    assert (told["path"], told["hunk"], told["patch_line"]) == ("run.sh", 1, 14)
    assert (told["nearest_lines"], told["cause"]) == ("2~2", ["indentation"])
    assert told["corrected_lines"] == "echo 1\n"
    assert "run.sh, hunk 1 (line 14 of the patch)" in found["summary"]
    both = call(desk, "apply_patch", patch=text.replace("crlf.txt", "crlf.text"))
    told = [(one["path"], one.get("refused_as")) for one in both["rejected"]]
    assert told == [("crlf.text", "FILE_NOT_FOUND"), ("run.sh", None)]
    assert [one["path"] for one in both["fits"]] == ["a.py", "sub/dir/new.txt", "gone.bin"]
    assert files(desk.root) == START


@each_row(
    "patch path error",
    [
        ("*** Add File: a.py\n+x\n", "a.py", "FILE_EXISTS"),
        ("*** Update File: a.py\n*** Move to: open.txt\n", "open.txt", "FILE_EXISTS"),
        ("*** Delete File: nowhere\n", "nowhere", "FILE_NOT_FOUND"),
        ("*** Delete File: ../x\n", "../x", "INVALID_PATH"),
        ("*** Add File: .copydesk/x\n+x\n", ".copydesk/x", "ACCESS_DENIED"),
        ("*** Update File: gone.bin\n@@\n-x\n+y\n", "gone.bin", "BINARY_FILE"),
    ],
)
def test_a_file_that_is_refused_refuses_the_patch(
    desk: OpenWorkspace, patch: str, path: str, error: str
) -> None:
    text = f"*** Begin Patch\n*** Add File: n\n+n\n{patch}*** End Patch\n"
    found = call(desk, "apply_patch", patch=text, apply="auto")
    assert (found["error"], found["path"]) == (error, path)
    assert found["summary"].startswith(f"{path}: ")
    assert files(desk.root) == START
    (fits,) = found["fits"]  # and no part of the file that is refused
    assert fits["path"] == "n"
    call(desk, "discard_hunk", hunk_id=fits["hunk_id"])
    assert desk.pending("local") == ()


def git(root: Path, *words: str) -> bytes:
    names = ["-c", "user.name=a", "-c", "user.email=a", "-c", "core.autocrlf=false"]
    ran = subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True)
    return ran.stdout


def test_what_git_shows_of_a_commit_makes_it_of_its_parent(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    made(old)
    (old / "twice").write_bytes(b"a\nb\nc\nd\n" * 4)
    (old / "gone.bin").write_bytes(b"text\nno end")
    shutil.copytree(old, new, dirs_exist_ok=True)
    git(new, "init", "-q")
    git(new, "add", ".")
    git(new, "commit", "-qm", "one")
    (new / "gone.bin").unlink()
    (new / "bin").mkdir()
    (new / "run.sh").rename(new / "bin" / "rün")
    for name, data in {
        "twice": b"a\nb\nc\nd\n" * 2 + b"a\nB\nc\nd\n" + b"a\nb\nc\nd\n",
        "crlf.txt": b"one\ntwo\r\n",
        "tool": b"#!/bin/sh\n",
        "empty": b"",
        "open.txt": b"one\ntwo\nthree",
    }.items():
        (new / name).write_bytes(data)
    (new / "tool").chmod(0o755)
    git(new, "add", ".")
    git(new, "commit", "-qm", "two")
    text = git(new, "show", "-M").decode()
    shutil.rmtree(new / ".git")
    with opened_at(old) as desk:
        done = call(desk, "apply_diff", diff=text, apply="auto", report="full")
        assert done["changed"] is True, done
        assert files(old) == files(new)
        modes = {name: (old / name).stat().st_mode & 0o111 for name in files(old)}
        assert modes == {name: (new / name).stat().st_mode & 0o111 for name in modes}
        usual, run = mode_of(desk, "empty"), mode_of(desk, "tool")
        assert run == usual | (usual & 0o444) >> 2
        call(desk, "apply_diff", diff=text, apply="auto")
        assert files(old) == files(new)


def test_a_deletion_by_a_diff_is_of_the_text_that_it_shows(desk: OpenWorkspace) -> None:
    head = "--- a/open.txt\n+++ /dev/null\n"
    part = call(desk, "apply_diff", diff=f"{head}@@ -1,1 +0,0 @@\n-one\n", apply="auto")
    assert part["rejected"][0]["reason"] == "not_whole"
    whole = f"{head}@@ -1,2 +0,0 @@\n-one\n-two\n\\ No newline at end of file\n"
    assert call(desk, "apply_diff", diff=whole, apply="auto")["changed"] is True
    assert "open.txt" not in files(desk.root)


def test_the_patch_may_have_the_name_that_it_has_elsewhere(desk: OpenWorkspace) -> None:
    text = "*** Begin Patch\n*** Add File: n\n+n\n*** End Patch\n"
    for given in ({}, {"patch": "", "input": ""}, {"patch": text, "input": text}):
        assert call(desk, "apply_patch", **given)["error"] == "INVALID_ARGS"
    assert call(desk, "apply_patch", patch="", input=text, apply="auto")["changed"] is True


def mode_of(desk: OpenWorkspace, name: str) -> int:
    return stat.S_IMODE(Path(desk.root, name).stat().st_mode)


TO_644, TO_755 = "old mode 100755\nnew mode 100644\n", "old mode 100644\nnew mode 100755\n"
RUN_TO_644 = f"diff --git a/run.sh b/run.sh\n{TO_644}"
MOVED = f"diff --git a/run.sh b/bin/r\n{TO_644}similarity index {{}}%\nrename from run.sh\nrename to bin/r\n"


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        (RUN_TO_644, "run.sh", 0o640),
        (f"diff --git a/gone.bin b/gone.bin\n{TO_755}", "gone.bin", 0o755),
        (f"diff --git a/open.txt b/open.txt\n{TO_755}--- a/open.txt\n+++ b/open.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n\\ No newline at end of file\n", "open.txt", 0o755),
        (f"{MOVED.format(60)}--- a/run.sh\n+++ b/bin/r\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo 1\n+echo 2\n", "bin/r", 0o640),
        (MOVED.format(100), "bin/r", 0o640),
    ],
    ids=["taken away", "of any file", "with an edit", "with an edit and a move", "with a move"],
)  # fmt: skip
@pytest.mark.parametrize("links", [1, 2])
def test_a_mode_is_changed_and_taken_back(
    desk: OpenWorkspace, text: str, name: str, after: int, links: int
) -> None:
    root, old_name = Path(desk.root), name if name != "bin/r" else "run.sh"
    for one in ("gone.bin", "open.txt"):
        (root / one).chmod(0o644)
    for one in ("run.sh", "gone.bin", "open.txt") if links > 1 else ():
        os.link(root / one, root / f"{one}.other")
    was, before = files(desk.root), mode_of(desk, old_name)
    planned = call(desk, "apply_diff", diff=text)
    assert mode_of(desk, old_name) == before
    done = call(desk, "apply_file_modifications", hunk_ids=ids_of(planned))
    assert done["status"] == "ok", done
    assert done["diff"].startswith("\n".join(text.split("\n")[:3]))
    assert mode_of(desk, name) == after
    assert (root / name).stat().st_nlink == links
    undone(desk, done)
    assert (files(desk.root), mode_of(desk, old_name)) == (was, before)
    assert not desk.journal.in_doubt()


def test_a_plan_says_that_nothing_is_changed(desk: OpenWorkspace) -> None:
    text = "new.py\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"
    assert call(desk, "apply_blocks", text=text)["changed"] is False
    assert (
        "changed" not in desk.call("local", "apply_blocks", {"text": text, "report": "brief"}).text
    )


def test_a_mode_alone_is_a_plan_like_any_other(desk: OpenWorkspace) -> None:
    planned = call(desk, "apply_diff", diff=RUN_TO_644)["hunks"][0]
    shown = call(desk, "show_hunk", hunk_id=planned["hunk_id"])
    assert TO_644 in shown["content"], shown
    Path(desk.root, "run.sh").write_bytes(b"other\n")
    stale = call(desk, "apply_file_modification", hunk_id=planned["hunk_id"])
    assert (stale["status"], stale["error"]) == ("error", "CONTENT_CHANGED")
    again = call(desk, "apply_diff", diff=RUN_TO_644, apply="auto", report="full")
    assert (again["hunks"][0]["action"], mode_of(desk, "run.sh")) == ("file_mode", 0o640)
    assert call(desk, "apply_diff", diff=RUN_TO_644, apply="auto")["changed"] is False
    edit_id = again["hunks"][0]["edit_id"]
    call(desk, "apply_diff", diff=RUN_2.replace("echo 1", "other"), apply="auto")
    Path(desk.root, "run.sh").chmod(0o600)
    refused = call(desk, "undo_file_modification", edit_id=edit_id)
    assert (refused["error"], mode_of(desk, "run.sh")) == ("CONTENT_CHANGED", 0o600)
    Path(desk.root, "run.sh").chmod(0o640)
    assert call(desk, "undo_file_modification", edit_id=edit_id)["action"] == "file_mode"
    assert mode_of(desk, "run.sh") == 0o750
    back = call(desk, "list_edits")["edits"][0]
    assert call(desk, "undo_file_modification", edit_id=back["edit_id"])["status"] == "ok"
    assert mode_of(desk, "run.sh") == 0o640


RUN_2 = "--- a/run.sh\n+++ b/run.sh\n@@ -1,1 +1,2 @@\n echo 1\n+more\n"


def test_a_plain_diff_means_the_name_that_is_there(desk: OpenWorkspace) -> None:
    body = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    names = ("open.txt.orig", "open.txt"), ("open.txt", "other"), ("o/open.txt", "n/open.txt")
    for old, new in names:
        done = call(desk, "apply_diff", diff=f"--- {old}\n+++ {new}\n{body}", apply="auto")
        assert done.get("changed") is True, done
        undone(desk, done)
        assert files(desk.root) == START


def test_blocks_of_several_files(desk: OpenWorkspace) -> None:
    text = (
        "open.txt\n```\n<<<<<<< SEARCH\ntwo\n=======\nTWO\n>>>>>>> REPLACE\n```\n\n"
        "sub/new.txt\n```\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n```\n"
    )
    assert call(desk, "apply_blocks", text=text, apply="auto")["changed"] is True
    assert files(desk.root)["open.txt"] == b"one\nTWO\n"
    assert files(desk.root)["sub/new.txt"] == b"new\n"


def test_plans_of_a_patch_follow_a_file_that_changed_or_are_refused_together(
    desk: OpenWorkspace,
) -> None:
    ids = ids_of(call(desk, "apply_patch", patch=PATCH))
    target = Path(desk.root, "a.py")
    target.write_bytes(b"import os\n\n" + START["a.py"])
    done = call(desk, "apply_file_modifications", hunk_ids=ids)
    assert done["hunks"][0]["context_match"] == "fuzz"
    assert target.read_bytes() == b"import os\n\n" + AFTER["a.py"]
    undone(desk, done)
    ids = ids_of(call(desk, "apply_patch", patch=PATCH))
    Path(desk.root, "sub/dir").mkdir(parents=True, exist_ok=True)
    Path(desk.root, "sub/dir/new.txt").write_bytes(b"of another\n")
    before = files(desk.root)
    found = call(desk, "apply_file_modifications", hunk_ids=ids)
    assert found["error"] == "FILE_EXISTS"
    assert files(desk.root) == before


def test_an_open_end_is_not_carried_into_the_middle_of_a_file(desk: OpenWorkspace) -> None:
    """Somebody else wrote more lines: a line without a newline would run into them."""
    target = Path(desk.root, "open.txt")
    target.write_bytes(b"one\ntwo\n")
    diff = "--- open.txt\n+++ open.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline\n"
    (row,) = call(desk, "apply_diff", diff=diff)["hunks"]
    target.write_bytes(b"one\ntwo\nthree\n")
    found = call(desk, "apply_file_modification", hunk_id=row["hunk_id"])
    assert (found["error"], found["rejected"][0]["reason"]) == ("PATCH_REJECTED", "not_at_end")
    assert target.read_bytes() == b"one\ntwo\nthree\n"


def test_a_person_may_change_the_lines_of_a_hunk(desk: OpenWorkspace) -> None:
    text = PATCH.split("*** Update File: crlf")[0] + "*** End Patch"
    (hunk_id,) = ids_of(call(desk, "apply_patch", patch=text))
    desk.desk.review.amend(desk.member("local"), hunk_id, "        return 3\r\n        pass")
    call(desk, "apply_file_modification", hunk_id=hunk_id)
    after = START["a.py"][:-2] + b"3\n        pass\n"
    assert Path(desk.root, "a.py").read_bytes() == after


def test_a_person_is_asked_where_the_policy_says_so(tmp_path: Path) -> None:
    made(tmp_path)
    with opened_at(tmp_path, approval="human") as desk:
        text = PATCH.replace("*** Delete File: gone.bin\n", "")
        found = call(desk, "apply_patch", patch=text, apply="auto")
        assert found["status"] == "pending"
        assert len(desk.pending("local")) == 5
        assert files(tmp_path) == START


NO_TEXT = {
    "binary": "diff --git a/x.png b/x.png\nindex 1111111..2222222 100644\n"
    "Binary files a/x.png and b/x.png differ\n",
    "patch": "diff --git a/x.png b/x.png\nindex 1111111..2222222 100644\nGIT binary patch\n"
    "delta 6\nNcmZ3\n\ndelta 6\nNcmZ4\n\n",
    "link": "diff --git a/x.png b/x.png\nnew file mode 120000\nindex 0000000..2222222\n"
    "--- /dev/null\n+++ b/x.png\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n",
    "changed link": "diff --git a/x.png b/x.png\nindex 1111111..2222222 120000\n"
    "--- a/x.png\n+++ b/x.png\n@@ -1 +1 @@\n-b.txt\n\\ No newline at end of file\n+a.txt\n"
    "\\ No newline at end of file\n",
    "plain": "Binary files a/x.png and b/x.png differ\n",
}


@pytest.mark.parametrize("kind", NO_TEXT)
def test_what_is_no_text_is_skipped_where_the_caller_says_so(
    desk: OpenWorkspace, kind: str
) -> None:
    hunk = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-{1}\n+{1} 2\n"
    for rest in (
        hunk.format("new.txt", "one") + NO_TEXT[kind] + hunk.format("second.txt", "two"),
        NO_TEXT[kind] + hunk.format("new.txt", "one") + hunk.format("second.txt", "two"),
        hunk.format("new.txt", "one") + hunk.format("second.txt", "two") + NO_TEXT[kind],
    ):
        for name, line in (("new.txt", "one\n"), ("second.txt", "two\n")):
            Path(desk.root, name).write_text(line)
        before = files(desk.root)
        assert call(desk, "apply_diff", diff=rest, apply="auto")["error"] == "INVALID_PATCH"
        answer = desk.call(
            "local", "apply_diff", {"diff": rest, "apply": "auto", "skip": ["binary"]}
        )
        assert answer.facts["skipped"] == ["x.png"], answer.facts
        assert "Skipped as asked, no text: x.png." in answer.text
        made = {"new.txt": b"one 2\n", "second.txt": b"two 2\n"}
        assert files(desk.root) == {**before, **made}
    alone = call(desk, "apply_diff", diff=NO_TEXT[kind], apply="auto", skip=["binary"])
    assert alone["error"] == "INVALID_PATCH"


QUOTED = '"{}/\\303\\244 b/x.png"'


@pytest.mark.parametrize(
    ("skipped", "name"),
    [
        ("diff --git {0} {1}\nBinary files {0} and {1} differ\n".format(
            QUOTED.format("a"), QUOTED.format("b")), "\u00e4 b/x.png"),
        ("diff --git l l\nnew file mode 120000\n--- /dev/null\n+++ l\n@@ -0,0 +1 @@\n+t\n", "l"),
        ("diff --git a/x b/y.png b/x b/y.png\nBinary files differ\n", "x b/y.png"),
        ("diff --git a/x.png b/y.png\nsimilarity index 90%\nrename from x.png\nrename to y.png\n"
         "Binary files a/x.png and b/y.png differ\n", "y.png"),
        ("Binary files old/x.png and new/x.png differ\n", "x.png"),
        ("Binary files a/x and y.png and b/x and y.png differ\n", "x and y.png"),
        ("Binary files /dev/null and b/x.png differ\n", "x.png"),
        ("Binary files a/x.png and /dev/null differ\n", "x.png"),
        ("Binary files x.png.orig and x.png differ\n", "x.png"),
        (f"Binary files {QUOTED.format('a')} and {QUOTED.format('b')} differ\n", "\u00e4 b/x.png"),
    ],
)  # fmt: skip
def test_what_is_skipped_is_told_by_its_name(desk: OpenWorkspace, skipped: str, name: str) -> None:
    Path(desk.root, "new.txt").write_text("one\n")
    sent = skipped + "--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-one\n+two\n"
    facts = call(desk, "apply_diff", diff=sent, apply="auto", skip=["binary"])
    assert facts["skipped"] == [name], facts


GONE = "diff --git a/l b/l\ndeleted file mode {}\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
CAME = "diff --git a/l b/l\nnew file mode {}\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+two\n"


@pytest.mark.parametrize("modes", [("100644", "120000"), ("120000", "100644"), ("120000",) * 2])
def test_a_file_that_becomes_a_symlink_is_skipped_as_a_whole(
    desk: OpenWorkspace, modes: tuple[str, str]
) -> None:
    for name in ("l", "new.txt"):
        Path(desk.root, name).write_text("one\n")
    sent = "".join(half.format(mode) for half, mode in zip((GONE, CAME), modes, strict=True))
    alone = call(desk, "apply_diff", diff=sent, apply="auto", skip=["binary"])
    assert alone["error"] == "INVALID_PATCH"
    sent += "--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-one\n+two\n"
    facts = call(desk, "apply_diff", diff=sent, apply="auto", skip=["binary"])
    assert facts["skipped"] == ["l"], facts
    assert Path(desk.root, "l").read_text() == "one\n"
    assert Path(desk.root, "new.txt").read_text() == "two\n"


def test_it_is_a_toolset_of_its_own() -> None:
    assert "patch" in TOOLSETS
    catalog, own = Catalog(all_tools()), {"apply_patch", "apply_diff", "apply_blocks"}
    names = {tool.name for tool in catalog.of(["patch"])}
    assert {*own, "apply_file_modifications"} <= names
    assert not {tool.name for tool in catalog.of(["ws_mod"])} & own


Shell = Callable[..., tuple[int, bytes, bytes]]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Shell:
    """Runs a command in the workspace: its status and what it printed."""
    made(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, given: str = "") -> tuple[int, bytes, bytes]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        capfdbinary.readouterr()
        try:
            status = main(words)
        except SystemExit as ended:
            status = int(str(ended.code or 0))
        sys.stdout.flush()
        printed = capfdbinary.readouterr()
        return status, printed.out, printed.err

    return run


def test_the_command_has_the_exit_codes_and_the_words_of_apply_patch(
    tmp_path: Path, shell: Shell
) -> None:
    said = "A sub/dir/new.txt\nM a.py\nM crlf.txt\nM bin/run\nD gone.bin\n"
    status, out, _ = shell("apply-patch", given=PATCH)
    assert (status, out.decode()) == (0, f"Success. Updated the following files:\n{said}")
    assert files(tmp_path) == AFTER
    status, out, complaint = shell("apply-patch", given=PATCH)
    assert (status, out) == (1, b"")
    assert b"PATCH_REJECTED" in complaint
    assert shell("apply-patch", PATCH.replace("a.py", "b.py"))[0] == 1
    fitting = "*** Begin Patch\n*** Add File: x\n+x\n*** Delete File: y\n*** End Patch\n"
    status, out, _ = shell("apply-patch", "--json", given=fitting)
    assert (status, b"fits" in out) == (1, False)
    assert b"kept" not in b"".join(shell("apply-patch", given=fitting)[1:])
    assert shell("apply-patch")[0] == 2
    assert shell("apply-patch", "a", "b")[0] == 2
    assert files(tmp_path) == AFTER
    assert shell("pending", "--json")[1] == b"[]\n"


def test_a_diff_that_deletes_an_empty_file_deletes_no_other(desk: OpenWorkspace) -> None:
    form = "diff --git a/{0} b/{0}\ndeleted file mode 100644\nindex e69de29..0000000\n"
    call(desk, "read_file", path="open.txt")
    facts = call(desk, "apply_diff", diff=form.format("open.txt"), apply="auto")
    assert facts["error"] == "PATCH_REJECTED", facts
    assert [row["reason"] for row in facts["rejected"]] == ["not_whole"]
    assert files(desk.root) == START
    assert call(desk, "list_pending")["count"] == 0
    Path(desk.root, "empty").touch()
    call(desk, "read_file", path="empty")
    assert call(desk, "apply_diff", diff=form.format("empty"), apply="auto")["changed"]
    assert files(desk.root) == START


def test_the_command_prints_notices_once_whether_the_patch_fits_or_not(
    tmp_path: Path, shell: Shell
) -> None:
    form = "*** Begin Patch\n*** Update File: a.py\n@@ def g\n-        return 1\n+{}\n@@\n{}*** End Patch"
    for lost, status in (("-zz\n", 1), ("-class A:\n+class B:\n", 0)):
        with opened_shared(tmp_path) as desk:
            plan = call(desk, "prepare_file_append", path="open.txt", content="x", apply="never")
        assert shell("reject", str(plan["hunk_id"]), "--reason", "not so")[0] == 0
        ended, printed, told = shell("apply-patch", form.format("        return 2", lost))
        assert ended == status, told
        assert (told.count(b"not so"), printed.count(b"not so")) == (1, 0), told
        assert b"ten minutes" not in told
        assert b"not so" not in shell("apply-patch", form.format("        return 2", "-zz\n"))[2]
        (tmp_path / "a.py").write_bytes(START["a.py"])


def test_the_command_writes_nothing_that_has_to_be_looked_at(tmp_path: Path, shell: Shell) -> None:
    body = "    print(\u201chi\u201d)\n    b()\n    c()\n    d()\n"
    (tmp_path / "a.py").write_text(f"def f():\n{body}")
    before = files(tmp_path)
    form = "*** Begin Patch\n*** Update File: a.py\n@@\n{}*** End Patch\n"
    for body in (
        '-    print("hi")\n+    print("ho")\n',
        "-print(\u201chi\u201d)\n+p()\n",
        "-    b()\n-    c()\n-    d()\n+    # ... existing code ...\n",
    ):
        status, out, _ = shell("apply-patch", given=form.format(body))
        assert status == 1, out
        assert files(tmp_path) == before
    status, out, _ = shell("apply-patch", given=form.format("-    x()\n+    b()\n+    c()\n"))
    assert (status, files(tmp_path)) == (0, before), out


def test_the_diff_of_a_plan_is_one_that_git_takes(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9\nx\n")
    text = "--- latin\n+++ latin\n@@ -1,2 +1,2 @@\n caf\\xe9\n-x\n+\\xe9y\n"
    with opened_shared(tmp_path) as desk:
        (row,) = call(desk, "apply_diff", diff=text)["hunks"]
    status, out, _ = shell("diff", row["hunk_id"])
    assert status == 0
    git(tmp_path, "init", "-q")
    (tmp_path / "p").write_bytes(out)
    git(tmp_path, "apply", "p")
    assert (tmp_path / "latin").read_bytes() == b"caf\xe9\n\xe9y\n"
    assert shell("diff", "00000000")[0] == 1


def _patches_without_end(root: Path, number: int, told: int, kind: str) -> None:
    try:
        with opened_shared(root) as desk:
            while True:
                number += 1
                os.write(told, b"b")
                found = call(desk, "apply_patch", patch=_generation(number, kind), apply="never")
                os.write(told, b"p")
                done = call(desk, "apply_file_modifications", hunk_ids=ids_of(found))
                assert done["status"] == "ok", done
                os.write(told, b"d")
    except BaseException as error:
        os.write(told, repr(error).encode())
    finally:
        os._exit(1)


def _generation(number: int, kind: str) -> str:
    """The patch that makes a generation of the one before.

    Two edits, a move, a new file and a removal; or three moves, a new file and a removal.
    """
    old = number - 1
    if kind == "moves":
        moves = (
            f"*** Update File: {old % 3}/m{i}-{old}\n*** Move to: {number % 3}/m{i}-{number}\n"
            for i in range(3)
        )
        ends = f"*** Add File: {number % 3}/new-{number}\n+text\n*** Delete File: {old % 3}/new-{old}\n"
        return f"*** Begin Patch\n{''.join(moves)}{ends}*** End Patch\n"
    return (
        "*** Begin Patch\n"
        f"*** Update File: one.txt\n@@\n-generation {old}\n+generation {number}\n"
        f"*** Update File: d/two.txt\n@@\n-generation {old}\n+generation {number}\n"
        f"*** Update File: moved-{old}.txt\n*** Move to: moved-{number}.txt\n"
        f"@@\n-generation {old}\n+generation {number}\n"
        f"*** Add File: new-{number}.txt\n+generation {number}\n"
        f"*** Delete File: new-{old}.txt\n"
        "*** End Patch\n"
    )


def _tree_of(number: int, kind: str) -> dict[str, bytes]:
    if kind == "moves":
        moved = {f"{number % 3}/m{i}-{number}": bytes([i, 0]) * 9 for i in range(3)}
        return {**moved, f"{number % 3}/new-{number}": b"text\n"}
    text = f"generation {number}\n".encode()
    long = b"".join(b"line %d\n" % i for i in range(2_000))
    return {
        "one.txt": b"first\n" + text,
        "d/two.txt": long + text,
        f"moved-{number}.txt": text,
        f"new-{number}.txt": text,
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["edits", "moves"])
def test_killed_in_the_middle_all_files_are_of_one_generation(tmp_path: Path, kind: str) -> None:
    """So many rounds as `COPYDESK_KILL_ROUNDS` says."""
    for name, data in _tree_of(0, kind).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    chance, number, between = random.Random(15), 0, 0
    for _ in range(int(os.environ.get("COPYDESK_KILL_ROUNDS", "25"))):
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            _patches_without_end(tmp_path, number, telling, kind)
        os.close(telling)
        words = b""
        while b"p" not in words:
            words += os.read(told, 100)
            assert set(words) <= set(b"bpd"), words
        time.sleep(chance.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        words += os.read(told, 10_000)
        os.close(told)
        assert set(words) <= set(b"bpd"), words
        with opened_shared(tmp_path):  # recovers what was under way
            found = files(tmp_path)
        reported = number + words.count(b"d")
        assert found in (_tree_of(reported, kind), _tree_of(reported + 1, kind)), words
        between += words.endswith(b"p")
        number = reported + (found != _tree_of(reported, kind))
    assert between


@each_row(
    "head",
    [
        "--- a.txt\n+++ b.txt\n",
        "--- a.txt\n+++ a.txt.new\n",
        "diff --git a/a.txt b/b.txt\n--- a/a.txt\n+++ b/b.txt\n",
        "diff --git a/a.txt b/a.txt\n--- a/b.txt\n+++ b/b.txt\n",
    ],
)
def test_a_diff_of_two_files_changes_neither(desk: OpenWorkspace, head: str) -> None:
    targets = [Path(desk.root, name) for name in ("a.txt", "b.txt", "a.txt.new")]
    for target in targets:
        target.write_text("one\n")
    told = call(desk, "apply_diff", diff=f"{head}@@ -1 +1 @@\n-one\n+two\n", apply="auto")
    assert told["error"] == "INVALID_PATCH"
    assert "a.txt" in str(told["summary"])
    assert not desk.desk.waiting(desk.member("local"))
    assert {target.read_text() for target in targets} == {"one\n"}


BEGIN = "*** Begin Patch\n*** Update File: a.py\n"
HUNK = "@@ -1 +1 @@\n-class A:\n+class B:\n"
BLOCK = "<<<<<<< SEARCH\nclass A:\n=======\nclass B:\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize(
    ("tool", "argument", "made"),
    [
        ("apply_patch", "patch", f"{BEGIN}{HUNK * 6}*** End Patch\n"),
        ("apply_diff", "diff", f"--- a/a.py\n+++ b/a.py\n{HUNK * 6}"),
        ("apply_blocks", "text", "a.py\n" + BLOCK * 6),
        ("edit_file", "edits", [{"oldText": "a", "newText": "b"}] * 6),
    ],
)
def test_more_changes_than_a_call_places_are_refused_by_their_number(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch, tool: str, argument: str, made: Any
) -> None:
    """Each is sought alone, so that a hundred thousand took a quarter of a minute."""
    monkeypatch.setattr(sizes, "PLACED", 5)
    given = {argument: made} | ({"path": "a.py"} if tool == "edit_file" else {})
    answer = desk.call("local", tool, given)
    assert answer.is_error
    reason = "has 6 changes, and one call takes 5; send them in several"
    assert f"{argument}: {reason}" in answer.text or f"{argument} {reason}" in answer.text
    told = desk.call("local", tool, given, lang="zh").text
    assert "有 6 处改动，而一次调用最多 5 处，请分几次发送" in told
    monkeypatch.setattr(sizes, "PLACED", 6)
    assert reason not in desk.call("local", tool, given).text


@each_row("body", ["@@\n-a\n+b\n", "@@\n+b\n"])
def test_a_missing_file_that_is_named_twice_is_missing(desk: OpenWorkspace, body: str) -> None:
    patch = f"*** Begin Patch\n*** Update File: no.txt\n{body}*** Update File: no.txt\n{body}*** End Patch"
    facts = desk.call("local", "apply_patch", {"patch": patch, "apply": "auto"}).data
    assert facts["error"] == "FILE_NOT_FOUND"
    assert not Path(desk.root, "no.txt").exists()


def test_hunks_of_a_file_that_is_named_twice_are_not_placed_together(desk: OpenWorkspace) -> None:
    file = Path(desk.root, "w.txt")
    file.write_text("a\nb\na\nb\n")
    head = "--- a/w.txt\n+++ b/w.txt\n"
    diff = f"{head}@@ -3,2 +3,2 @@\n a\n-b\n+B\n{head}@@ -1 +1 @@\n-a\n+A\n"
    facts = desk.call("local", "apply_diff", {"diff": diff, "apply": "auto"}).data
    assert facts["rejected"][0]["reason"] == "several_places"
    file.write_text("x\nfoo\ny\n")
    diff = f"{head}@@ -2 +2 @@\n-foo\n+bar\n{head}@@ -1,2 +1,2 @@\n x\n-bar\n+baz\n@@ -9 +9,0 @@\n"
    answer = desk.call("local", "apply_diff", {"diff": diff, "apply": "auto"})
    assert (file.read_text(), answer.data["dropped_hunks"]) == ("x\nbaz\ny\n", 1), answer.text


def test_a_directory_that_is_spoken_of_is_no_file(desk: OpenWorkspace) -> None:
    Path(desk.root, "lib", "sub").mkdir(parents=True)
    file = Path(desk.root, "w.txt")
    file.write_text("a\nb\n")
    block = "<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n"
    words = "Everything in lib/sub stays.\n\n"
    text = f"w.txt\n{block.format('a', 'A')}\n{words}{block.format('b', 'B')}"
    answer = desk.call("local", "apply_blocks", {"text": text, "apply": "auto"})
    assert file.read_text() == "A\nB\n", answer.text


def test_what_differs_is_seen_first_where_many_places_are_alike(desk: OpenWorkspace) -> None:
    function = (
        "def function_{0}(a, b):\n    value = a * {0}\n    other = b + value\n    return other\n"
    )
    Path(desk.root, "many.py").write_text("\n".join(function.format(at) for at in range(20)))
    old = function.format(3).replace("b + value", "b - value")
    block = f"many.py\n<<<<<<< SEARCH\n{old}=======\nx\n>>>>>>> REPLACE\n"
    refused = desk.call("local", "apply_blocks", {"text": block})
    assert 0 < refused.text.index("b - value") < 300
    assert len(call(desk, "apply_blocks", text=block)["rejected"][0]["similar_lines"]) == 3
