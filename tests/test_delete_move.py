"""Files are deleted and moved as plans: shown, written once, all or none, and taken back whole."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from copydesk import Desk
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import DeleteFile, MoveFile, RangeEdit, Request
from copydesk.errors import (
    AccessDenied,
    ContentChanged,
    FileExists,
    FileNotFound,
    InvalidArgs,
    InvalidPath,
    NotAFile,
    Refusal,
)
from copydesk.text.relpath import RelPath
from support.cost import spread
from support.processes import outcome
from support.redis_servers import RedisServer

Tree = dict[str, tuple[object, ...]]

CONTENTS = {
    "text": b"one\ntwo\nthree\n",
    "no newline": b"one\ntwo",
    "crlf": b"\xef\xbb\xbfone\r\ntwo\r\n",
    "undecodable": b"caf\xe9\n\xff\xfe\n",
    "binary": bytes(range(256)) * 9,
    "utf-16": "one\ntwo\n".encode("utf-16"),
    "empty": b"",
}


def tree(root: Path) -> Tree:
    """All that is below the root: bytes, modes, owners, attributes and which names are one file."""
    found: Tree = {}
    files: dict[tuple[int, int], str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(".copydesk"):
            continue
        at = path.lstat()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("dir",)
        else:
            one = files.setdefault((at.st_dev, at.st_ino), name)
            extra = {each: os.getxattr(path, each) for each in os.listxattr(path)}
            found[name] = (path.read_bytes(), stat.S_IMODE(at.st_mode), at.st_uid, extra, one)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture
def desk(root: Path) -> Iterator[Desk]:
    with Desk(root) as opened:
        yield opened


def delete(desk: Desk, path: str) -> Request:
    return DeleteFile(desk.path(path))


def move(desk: Desk, path: str, to: str) -> Request:
    return MoveFile(desk.path(path), desk.path(to))


def line(desk: Desk, path: str, number: int, new: str) -> Request:
    return RangeEdit(desk.path(path), str(number), f"{new}\n")


def done(desk: Desk, request: Request) -> int:
    return desk.apply(desk.prepare(request).id).edit_id


def git_applies(tmp: Path, diff: bytes, before: Path) -> Tree:
    """What `git apply` makes of a copy of a tree."""
    copy = tmp / "copy"
    subprocess.run(["cp", "-a", str(before), str(copy)], check=True)
    command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn"]
    subprocess.run(command, input=diff, cwd=copy, check=True, env={"GIT_DIR": "none", **os.environ})
    return tree(copy)


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_deleted_file_comes_back(root: Path, desk: Desk, tmp_path: Path, kind: str) -> None:
    path = root / "d/file.txt"
    path.parent.mkdir()
    path.write_bytes(CONTENTS[kind])
    path.chmod(0o750)
    with suppress(OSError):  # the file system has none
        os.setxattr(path, "user.note", b"kept")
    before = tree(root)
    plan = desk.prepare(delete(desk, "d/file.txt"))
    assert b"deleted file mode 100755\n" in plan.draft.diff
    assert tree(root) == before
    if kind != "utf-16":
        assert list(git_applies(tmp_path, plan.draft.diff, root)) in ([], ["d"])
    edit = desk.apply(plan.id).edit_id
    assert tree(root) == {"d": ("dir",)}
    restored = desk.undo(edit)
    assert b"new file mode 100755\n" in restored.diff
    again = restored.edit_id
    assert tree(root) == before
    third = desk.undo(again).edit_id
    assert tree(root) == {"d": ("dir",)}
    path.parent.rmdir()
    desk.undo(third)
    assert tree(root) == before


@pytest.mark.parametrize(
    ("kind", "to"), spread(CONTENTS, ("other.txt", "d/x", "new/deep/er.txt"), of=2)
)
def test_a_moved_file_is_the_same(
    root: Path, desk: Desk, tmp_path: Path, kind: str, to: str
) -> None:
    (root / "d").mkdir()
    path = root / "d/file.txt"
    path.write_bytes(CONTENTS[kind])
    path.chmod(0o640)
    before, inode = tree(root), path.stat().st_ino
    plan = desk.prepare(move(desk, "d/file.txt", to))
    assert f"rename from d/file.txt\nrename to {to}\n".encode() in plan.draft.diff
    assert (root / "d/file.txt").exists()
    made = git_applies(tmp_path, plan.draft.diff, root)
    edit = desk.apply(plan.id).edit_id
    assert (root / to).stat().st_ino == inode
    assert (root / to).read_bytes() == CONTENTS[kind] == made[to][0]
    assert not path.exists()
    back = desk.undo(edit).edit_id
    assert tree(root) == before
    assert path.stat().st_ino == inode
    desk.undo(back)
    assert (root / to).stat().st_ino == inode


def test_names_of_one_file_stay_so(root: Path, desk: Desk) -> None:
    (root / "sub").mkdir()
    (root / "one").write_text("text\n")
    os.link(root / "one", root / "sub/two")
    before = tree(root)
    for request in (delete(desk, "one"), move(desk, "one", "three"), delete(desk, "sub/two")):
        edit = done(desk, request)
        assert tree(root) != before
        desk.undo(edit)
        assert tree(root) == before
    edit = done(desk, delete(desk, "one"))
    (root / "sub/two").write_text("another\n")
    desk.undo(edit)  # the bytes decide: the other name has other ones now
    assert (root / "one").read_text() == "text\n"
    assert (root / "sub/two").read_text() == "another\n"


REFUSED: dict[str, type[Refusal]] = {
    "missing.txt": FileNotFound,
    "dir": NotAFile,
    "link": NotAFile,
    "../out.txt": InvalidPath,
}
NOWHERE: dict[str, type[Refusal]] = {
    "a.txt": FileExists,
    "b.txt": FileExists,
    "dir": NotAFile,
    "link": NotAFile,
    "dangling": NotAFile,
    "b.txt/below": NotAFile,
    "side/a.txt": FileExists,
    ".minds/a.txt": AccessDenied,
    ".copydesk/a.txt": AccessDenied,
    "out/a.txt": InvalidPath,
}


def test_what_cannot_go_or_where_a_file_cannot_go(root: Path, desk: Desk, tmp_path: Path) -> None:
    (root / "dir").mkdir()
    for name in "ab":
        (root / f"{name}.txt").write_text(f"{name}\n")
    for name, to in {"link": "b.txt", "dangling": "nowhere", "side": ".", "out": tmp_path}.items():
        (root / name).symlink_to(to)
    before = tree(root)
    for path, refusal in REFUSED.items():
        with pytest.raises(refusal):
            desk.prepare(move(desk, path, "new.txt"))
        with pytest.raises(refusal):
            desk.prepare(delete(desk, path))
    for to, refusal in NOWHERE.items():
        with pytest.raises(refusal):
            desk.prepare(move(desk, "a.txt", to))
    assert tree(root) == before


def test_a_link_to_a_directory_may_be_on_the_way(root: Path, desk: Desk) -> None:
    (root / "real").mkdir()
    (root / "side").symlink_to("real")
    (root / "side/a.txt").write_text("a\n")
    before = tree(root)
    edit = done(desk, move(desk, "side/a.txt", "side/new/b.txt"))
    assert (root / "real/new/b.txt").read_text() == "a\n"
    desk.undo(edit)
    assert tree(root) == before
    edit = done(desk, delete(desk, "side/a.txt"))
    desk.undo(edit)
    assert tree(root) == before


def test_the_case_of_a_name_is_changed(root: Path, desk: Desk) -> None:
    (root / "readme.md").write_text("a\n")
    edit = done(desk, move(desk, "readme.md", "README.md"))
    assert [path.name for path in root.glob("*.md")] == ["README.md"]
    desk.undo(edit)
    assert [path.name for path in root.glob("*.md")] == ["readme.md"]


@pytest.mark.parametrize("moves", [True, False])
def test_a_changed_file_is_refused_and_the_plan_waits(root: Path, desk: Desk, moves: bool) -> None:
    path = root / "a.txt"
    path.write_text("one\ntwo\n")
    plan = desk.prepare(move(desk, "a.txt", "b.txt") if moves else delete(desk, "a.txt"))
    path.write_text("one\ntwo \n")
    with pytest.raises(ContentChanged):
        desk.apply(plan.id)
    assert path.read_text() == "one\ntwo \n"
    path.rename(root / "c.txt")
    path.symlink_to("c.txt")
    before = tree(root)
    for write in (desk.apply, desk.apply_all):
        with pytest.raises(NotAFile):
            write(plan.id)
    assert tree(root) == before
    path.unlink()
    path.write_text("one\ntwo\n")
    desk.apply(plan.id)
    assert not path.exists()


def test_a_target_that_came_since_is_not_replaced(root: Path, desk: Desk) -> None:
    (root / "a.txt").write_text("a\n")
    plan = desk.prepare(move(desk, "a.txt", "d/b.txt"))
    (root / "d").mkdir()
    (root / "d/b.txt").write_text("theirs\n")
    before = tree(root)
    with pytest.raises(FileExists):
        desk.apply(plan.id)
    with pytest.raises(FileExists):
        desk.apply_all(plan.id)
    assert tree(root) == before
    (root / "d/b.txt").unlink()
    desk.apply(plan.id)
    assert (root / "d/b.txt").read_text() == "a\n"


def test_all_or_none_with_edits_of_the_moved_file_and_of_others(root: Path, desk: Desk) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (root / name).write_text("one\ntwo\nthree\n")
    before = tree(root)
    plans = [
        desk.prepare(line(desk, "a.txt", 1, "eins")),
        desk.prepare(move(desk, "a.txt", "new/a.txt")),
        desk.prepare(line(desk, "a.txt", 3, "drei")),
        desk.prepare(delete(desk, "b.txt")),
        desk.prepare(line(desk, "c.txt", 2, "zwei")),
    ]
    (root / "c.txt").write_text("one\n2\nthree\n")
    with pytest.raises(ContentChanged):
        desk.apply_all(*(plan.id for plan in plans))
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (root / "b.txt").exists()
    assert not (root / "new").exists()
    (root / "c.txt").write_text("one\ntwo\nthree\n")
    outcome = desk.apply_all(*(plan.id for plan in plans))
    assert (root / "new/a.txt").read_text() == "eins\ntwo\ndrei\n"
    assert sorted(path.name for path in root.glob("*.txt")) == ["c.txt"]
    diffs = b"".join(diff for diff, _ in outcome.diffs)
    assert b"rename from a.txt\nrename to new/a.txt\n--- a/a.txt\n+++ b/new/a.txt\n" in diffs
    for one in outcome.applied:  # in the order in which they were given: any is as good
        desk.undo(one.edit_id)
    assert tree(root) == before


CONTRADICTIONS = [
    [("delete", "a.txt", ""), ("edit", "a.txt", "")],
    [("delete", "a.txt", ""), ("move", "a.txt", "x")],
    [("move", "a.txt", "x"), ("move", "a.txt", "y")],
    [("move", "a.txt", "x"), ("move", "b.txt", "x")],
    [("delete", "one", ""), ("edit", "two", "")],
]


def test_plans_that_contradict_each_other(root: Path, desk: Desk) -> None:
    for name in ("a.txt", "b.txt", "one"):
        (root / name).write_text("one\ntwo\n")
    os.link(root / "one", root / "two")
    before = tree(root)
    for requests in CONTRADICTIONS:
        ids: list[str] = []
        for kind, path, to in requests:
            edit = delete(desk, path) if kind == "delete" else line(desk, path, 1, "eins")
            ids.append(desk.prepare(move(desk, path, to) if kind == "move" else edit).id)
        with pytest.raises((InvalidArgs, FileExists)):
            desk.apply_all(*ids)
        assert tree(root) == before


def test_edits_before_and_after_a_move_are_taken_back_where_it_is(root: Path, desk: Desk) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    first = done(desk, line(desk, "a.txt", 1, "eins"))
    moved = done(desk, move(desk, "a.txt", "d/b.txt"))
    third = done(desk, line(desk, "d/b.txt", 3, "drei"))
    desk.undo(first)
    assert (root / "d/b.txt").read_text() == "one\ntwo\ndrei\n"
    desk.undo(moved)
    assert (root / "a.txt").read_text() == "one\ntwo\ndrei\n"
    assert not (root / "d").exists()
    desk.undo(third)
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_an_edit_before_a_deletion_that_was_taken_back(root: Path, desk: Desk) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    first = done(desk, line(desk, "a.txt", 1, "eins"))
    done(desk, line(desk, "a.txt", 3, "drei"))
    desk.undo(done(desk, delete(desk, "a.txt")))
    desk.undo(first)
    assert (root / "a.txt").read_text() == "one\ntwo\ndrei\n"


def test_what_cannot_be_taken_back_is_refused(root: Path, desk: Desk) -> None:
    (root / "a.txt").write_text("one\ntwo\n")
    gone = done(desk, delete(desk, "a.txt"))
    (root / "a.txt").write_text("theirs\n")
    with pytest.raises(FileExists):
        desk.undo(gone)
    moved = done(desk, move(desk, "a.txt", "b.txt"))
    (root / "a.txt").write_text("theirs too\n")
    with pytest.raises(FileExists):
        desk.undo(moved)
    (root / "a.txt").unlink()
    on = done(desk, move(desk, "b.txt", "c.txt"))
    with pytest.raises(ContentChanged) as refusal:
        desk.undo(moved)
    assert refusal.value.later_edit_ids == (on,)
    (root / "c.txt").write_text("another program's\n")
    with pytest.raises(ContentChanged):
        desk.undo(on)
    assert (root / "c.txt").read_text() == "another program's\n"


def test_another_file_of_the_same_name_and_bytes_is_left_alone(root: Path, desk: Desk) -> None:
    made = desk.create("a.txt", "one\ntwo\n").edit_id
    edited = done(desk, line(desk, "a.txt", 1, "eins"))
    gone = done(desk, delete(desk, "a.txt"))
    (root / "a.txt").write_text("eins\ntwo\n")
    for edit in (edited, made):
        with pytest.raises(ContentChanged) as refusal:
            desk.undo(edit)
        assert refusal.value.later_edit_ids == (gone,)
    with pytest.raises(FileExists):
        desk.undo(gone)
    assert (root / "a.txt").read_text() == "eins\ntwo\n"


def test_a_directory_that_was_there_or_is_used_stays(root: Path, desk: Desk) -> None:
    (root / "kept").mkdir()
    (root / "a.txt").write_text("a\n")
    edit = done(desk, move(desk, "a.txt", "kept/x/y/a.txt"))
    (root / "kept/x/other").write_text("theirs\n")
    desk.undo(edit)
    assert sorted(tree(root)) == ["a.txt", "kept", "kept/x", "kept/x/other"]
    done(desk, move(desk, "kept/x/other", "other"))
    assert (root / "kept/x").is_dir()


# As tools


@contextmanager
def tools(
    root: Path, members: dict[str, MemberConfig] | None = None, **settings: Any
) -> Iterator[OpenWorkspace]:
    config = Config(durability="fast", **({"members": members} if members else {}), **settings)
    with open_workspace(str(root), config, shared=False) as opened:
        yield opened


def approve(opened: OpenWorkspace, hunk_id: str) -> None:
    """As a person does who was shown the plan."""
    ann, review = opened.member("ann", "ws_mod"), opened.desk.review
    shown = review.show(ann, hunk_id)
    assert shown.decision is None
    review.approve(ann, hunk_id, shown.before, shown.after)


def test_the_tools_answer_as_the_others_do(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    with tools(tmp_path) as opened:
        plan = outcome(opened, "prepare_file_move", path="a.txt", to="d/c.txt", why="tidy")
        assert (plan["action"], plan["to"]) == ("file_move", "d/c.txt")
        assert "rename from a.txt\nrename to d/c.txt\n" in plan["diff"]
        (row,) = outcome(opened, "list_pending")["hunks"]
        assert (row["action"], row["why"]) == ("file_move", "tidy")
        anew = {"path": "a.txt", "to": "e.txt", "existing_hunk_id": plan["hunk_id"]}
        again = outcome(opened, "prepare_file_move", **anew)
        assert again["hunk_id"] == plan["hunk_id"]
        assert outcome(opened, "show_hunk", hunk_id=plan["hunk_id"])["status"] == "ok"
        done = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert (done["path"], done["to"], done["changed"]) == ("a.txt", "e.txt", True)
        edits = outcome(opened, "list_edits")["edits"]
        kinds = [(one["path"], one["kind"]) for one in edits]
        assert kinds == [("e.txt", "create"), ("a.txt", "remove")]
        assert (edits[0]["moved_from"], edits[1]["moved_to"]) == ("a.txt", "e.txt")
        back = outcome(opened, "undo_file_modification", edit_id=edits[1]["edit_id"])
        assert (back["path"], back["to"], back["action"]) == ("e.txt", "a.txt", "file_move")
        past = outcome(opened, "list_edits")["edits"]
        assert [one["undone_by"] for one in past] == [0, 0, past[1]["edit_id"], past[0]["edit_id"]]
        twice = outcome(opened, "undo_file_modification", edit_id=edits[0]["edit_id"])
        assert (twice["error"], twice["undone_by"]) == ("CONTENT_CHANGED", past[1]["edit_id"])
        taken = outcome(opened, "prepare_file_move", path="a.txt", to="b.bin")
        assert (taken["error"], taken["to"]) == ("FILE_EXISTS", "b.bin")
        gone = outcome(opened, "prepare_file_delete", path="b.bin")
        assert (gone["action"], gone["binary"]) == ("file_delete", True)
        done = outcome(opened, "apply_file_modification", hunk_id=gone["hunk_id"])
        assert "version" not in done
        assert outcome(opened, "undo_file_modification", edit_id=done["edit_id"])["status"] == "ok"
        assert (tmp_path / "b.bin").read_bytes() == b"\0\1"


@pytest.mark.parametrize("whole", [False, True])
def test_a_move_is_made_again_by_the_name_it_was_told(tmp_path: Path, whole: bool) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    ways = ["apply_file_modification", "apply_file_modifications"]
    undo = "undo_file_modification"
    with tools(tmp_path, apply="ask") as opened:
        ids = [
            outcome(opened, "prepare_file_move", path=f"{name}.txt", to=f"{name}/e.txt")["hunk_id"]
            for name in "ab"
        ]
        if whole:
            rows = outcome(opened, ways[1], hunk_ids=ids)["hunks"]
            told = [row["edit_id"] for row in rows]
        else:
            told = [outcome(opened, ways[0], hunk_id=ids[1])["edit_id"]]
        given = {"edit_id": told[-1], "transaction": True}
        undone = opened.call("local", undo, given).text
        again = opened.call("local", undo, {**given, "again": True}).text
        twice = [outcome(opened, undo, **given), outcome(opened, undo, **given, again=True)]
        for edit in told:
            assert f"undid edit {edit}" in undone
            assert f"made edit {edit} again" in again
        assert [one["status"] for one in twice] == ["ok"] * 2


def test_a_taken_target_says_nothing_false_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = tmp_path / "a.txt", hashlib.sha256(b"one\n").hexdigest()
    path.write_text("one\n")
    with tools(tmp_path) as opened:
        plan = outcome(opened, "prepare_file_move", path="a.txt", to="d/b.txt")
        apply = partial(outcome, opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        (tmp_path / "d").mkdir()
        (tmp_path / "d/b.txt").write_text("theirs\n")
        refused = apply()
        assert (refused["error"], refused["to"]) == ("FILE_EXISTS", "d/b.txt")
        assert refused["file_changed_since_preview"] is False
        assert refused["current_file_digest_sha256"] == digest
        path.write_text("two\n")
        refused = apply()
        assert refused["error"] == "FILE_EXISTS"
        assert refused["file_changed_since_preview"] is True
        path.write_text("one\n")
        # It comes after the look: then nobody has looked at the file that was to be moved.
        monkeypatch.setattr("copydesk.desk.applying.check_free", lambda *_: None)
        refused = apply()
        assert refused["error"] == "FAILED"
        assert "file_changed_since_preview" not in refused


def test_auto_moves_at_once_and_deletes_what_was_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with tools(tmp_path) as opened:
        moved = outcome(opened, "prepare_file_move", path="a.txt", to="b.txt", apply="auto")
        assert moved["changed"]
        brief = {"path": "b.txt", "apply": "auto", "report": "brief"}
        kept = outcome(opened, "prepare_file_delete", **brief)
        assert kept["auto_apply"] == "declined"
        seen = outcome(opened, "read_file", path="b.txt", range="1")
        args = {**brief, "version": seen["version"]}
        assert outcome(opened, "prepare_file_delete", **args)["auto_apply"] == "declined"
        outcome(opened, "read_file", path="b.txt")
        assert outcome(opened, "prepare_file_delete", **args)["changed"]
        assert not (tmp_path / "b.txt").exists()
        (tmp_path / "b.txt").write_text("one\n")
        assert outcome(opened, "prepare_file_delete", **args)["error"] == "STALE_READ"


@pytest.mark.parametrize("tool", ["prepare_file_delete", "prepare_file_move"])
def test_a_stale_version_is_refused_with_what_changed(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    args = {"path": "a.txt", **({"to": "b.txt"} if tool.endswith("move") else {})}
    with tools(tmp_path) as opened:
        version = outcome(opened, "read_file", path="a.txt")["version"]
        path.write_text("one\nzwei\nthree\nfour\n")
        known = outcome(opened, tool, **args, version=version)
        assert (known["error"], known["total_lines"]) == ("STALE_READ", 4)
        assert known["reason"] == "the file changed"
        assert known["changed"] == ["line 2 -> line 2", "nothing after line 3 -> line 4"]
        unknown = outcome(opened, tool, **args, version="0123456789ab")
        assert unknown["reason"] == "that version is not remembered"
        assert (unknown["total_lines"], unknown["changed"]) == (4, [])
        now = outcome(opened, tool, **args, version=known["current_version"])
        assert now["status"] == "ok"


def test_a_stale_version_of_a_file_that_is_too_large_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n" * 100)
    with tools(tmp_path, limit_bytes=50) as opened:
        args = {"path": "a.txt", "to": "b.txt", "version": "0123456789ab"}
        stale = outcome(opened, "prepare_file_move", **args)
        assert stale["error"] == "STALE_READ"
        assert "total_lines" not in stale
        args["version"] = stale["current_version"]
        assert outcome(opened, "prepare_file_move", **args)["status"] == "ok"


def test_a_person_approves_and_both_paths_count(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("one\n")
    human = MemberConfig(approval="human", lists={"write_dirs": ("src", "out")})
    members = {"local": human, "ann": MemberConfig()}
    with tools(tmp_path, members) as opened:
        denied = outcome(opened, "prepare_file_move", path="src/a.txt", to="lib/a.txt")
        assert denied["error"] == "ACCESS_DENIED"
        plan = outcome(opened, "prepare_file_move", path="src/a.txt", to="out/a.txt")
        waits = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert waits["status"] == "pending"
        assert (tmp_path / "src/a.txt").exists()
        approve(opened, plan["hunk_id"])
        done = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert done["changed"], done
        assert (tmp_path / "out/a.txt").read_text() == "one\n"


def test_an_approved_move_goes_where_the_person_saw_it_go(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "f.txt").write_text("one\n")
    (tmp_path / "to").symlink_to("a")
    members = {"local": MemberConfig(approval="human"), "ann": MemberConfig()}
    with tools(tmp_path, members) as opened:
        plan = outcome(opened, "prepare_file_move", path="f.txt", to="to/f.txt")
        approve(opened, plan["hunk_id"])
        (tmp_path / "to").unlink()
        (tmp_path / "to").symlink_to("b")
        waits = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert (waits["status"], waits["error"]) == ("pending", "APPROVAL_REQUIRED")
        assert (tmp_path / "f.txt").exists()
        approve(opened, plan["hunk_id"])
        assert outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])["changed"]
    assert (tmp_path / "b/f.txt").read_text() == "one\n"


def test_a_move_tells_nothing_of_a_place_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/there.txt").write_text("x\n")
    (tmp_path / "a.txt").write_text("a\n")
    members = {"local": MemberConfig(lists={"no_read_dirs": ("private",)})}
    with tools(tmp_path, members) as opened:
        for name in ("there.txt", "not.txt"):
            to = {"path": "a.txt", "to": f"private/{name}"}
            assert outcome(opened, "prepare_file_move", **to)["error"] == "ACCESS_DENIED"


def test_nobody_is_told_where_another_moves_a_file_that_may_not_look_there(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "a.txt").write_text("a\n")
    members = {"local": MemberConfig(), "ann": MemberConfig({"no_read_dirs": ("private",)})}
    with tools(tmp_path, members) as opened:
        desk, ann = opened.desk, opened.member("ann")
        plan = outcome(opened, "prepare_file_move", path="a.txt", to="private/name.txt")["hunk_id"]
        assert desk.waiting(opened.member("local"))
        assert not desk.waiting(ann)
        assert not desk.review.pending(ann)
        for show in (desk.show, desk.review.show):
            with pytest.raises(AccessDenied):
                show(ann, plan)
        outcome(opened, "apply_file_modification", hunk_id=plan)
        (left,) = desk.history.page(ann, RelPath.parse("a.txt")).edits
        for entry in (left, desk.history.entry(ann, left.edit_id)):
            assert b"name" not in entry.diff
            assert not entry.file
        shown = opened.call("ann", "show_hunk", {"edit_id": left.edit_id})
        assert not shown.is_error
        assert "name.txt" not in shown.text


def test_what_was_shown_of_a_file_is_known_after_an_edit_and_a_move_of_it(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1\n2\n3\n")
    with tools(tmp_path) as opened:
        assert outcome(opened, "read_file", path="x.txt")["version"]
        two = {"path": "x.txt", "range": "2", "content": "two"}
        ids = [outcome(opened, "prepare_file_range_edit", **two)["hunk_id"]]
        ids.append(outcome(opened, "prepare_file_move", path="x.txt", to="d/y.txt")["hunk_id"])
        done = outcome(opened, "apply_file_modifications", hunk_ids=ids)
        assert [row["lines"]["delta"] for row in done["hunks"]] == [0, 0]
        edit = {"path": "d/y.txt", "range": "1", "content": "one", "apply": "auto"}
        edit["version"] = done["hunks"][-1]["version"]
        assert outcome(opened, "prepare_file_range_edit", **edit).get("changed")


def test_undo_brings_nothing_back_that_the_member_might_not_read_there(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/x.txt").write_text("user\npassword\nend\n")
    lists = {"read_dirs": ("public",), "write_dirs": ("public",)}
    members = {"local": MemberConfig(), "ann": MemberConfig(lists=lists)}
    with tools(tmp_path, members) as opened:
        edit = {"path": "private/x.txt", "range": "2", "expected_old": "password", "apply": "auto"}
        cut = outcome(opened, "prepare_file_range_edit", **edit, content="")
        to = {"path": "private/x.txt", "to": "public/x.txt", "apply": "auto"}
        assert outcome(opened, "prepare_file_move", **to)["changed"]
        asked = {"edit_id": cut["edit_id"]}
        refused = opened.call("ann", "undo_file_modification", asked)
        assert refused.data["error"] == "ACCESS_DENIED"
        assert (tmp_path / "public/x.txt").read_text() == "user\nend\n"
        assert "private" not in str(opened.call("ann", "list_edits", {}).data)
        assert "private" in str(outcome(opened, "list_edits"))
        assert outcome(opened, "undo_file_modification", edit_id=cut["edit_id"])["changed"]


def test_other_machines_apply_and_take_back(tmp_path: Path, redis_server: RedisServer) -> None:
    """What one has planned another applies; a third takes it back, after an edit at the new path."""
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_bytes(b"\x00\xff")
    name = redis_server.fresh_name()
    with redis_server.open(tmp_path, name) as one, redis_server.open(tmp_path, name) as other:
        plans = [
            outcome(one, "prepare_file_move", path="a", to="d/e"),
            outcome(one, "prepare_file_delete", path="b"),
        ]
        done = [outcome(other, "apply_file_modification", hunk_id=p["hunk_id"]) for p in plans]
        assert [each.name for each in tmp_path.iterdir()] == ["d"]  # all state is on the server
        outcome(one, "prepare_file_append", path="d/e", content="two\n", apply="auto")
        for each in done:
            assert outcome(one, "undo_file_modification", edit_id=each["edit_id"])["changed"]
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert not (tmp_path / "d").exists()
