"""A transaction that deletes, moves and edits is brought to all or none, wherever it was killed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Planned
from copydesk.edit.request import ChangeMode
from copydesk.errors import Failed
from copydesk.text.relpath import RelPath
from support.processes import code, outcome
from test_group_recovery import ALL, FAST, dies_at_call, forked, plan

Tree = dict[str, tuple[bytes, int, str]]
TEXT = b"one\ntwo\nthree\n"
BINARY = bytes(range(256))


def make(root: Path) -> None:
    """The files as they are at first; each has its own mode, and two are one."""
    for path in sorted(root.rglob("*"), reverse=True):
        if ".copydesk" not in str(path):
            path.rmdir() if path.is_dir() else path.unlink()
    (root / "d").mkdir()
    for name, data, mode in (
        ("a", TEXT, 0o640),
        ("b", BINARY, 0o755),
        ("c", TEXT, 0o600),
        ("d/linked", TEXT, 0o644),
        ("e", BINARY, 0o644),
    ):
        (root / name).write_bytes(data)
        (root / name).chmod(mode)
    os.link(root / "d/linked", root / "d/other")


def tree(root: Path) -> Tree:
    """All files: bytes, mode, and the first name of the same file."""
    found: Tree = {}
    first: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and ".copydesk/" not in str(path):
            at, name = path.stat(), str(path.relative_to(root))
            found[name] = (path.read_bytes(), at.st_mode, first.setdefault(at.st_ino, name))
    return found


def plans(root: Path) -> list[str]:
    with open_workspace(str(root), FAST) as opened:
        return [
            plan(opened, path="a", range="2", content="TWO\n"),
            plan(opened, "prepare_file_move", path="a", to="m/o/a"),
            plan(opened, "prepare_file_delete", path="b"),
            plan(opened, "prepare_file_delete", path="d/linked"),
            plan(opened, "prepare_file_move", path="e", to="d/e"),
            plan(opened, path="c", range="1", content="ONE\n"),
            plan(opened, "prepare_file_append", path="n/o/w", content="new\n"),
            runnable(opened, "c"),
            runnable(opened, "a"),
        ]


def runnable(opened: OpenWorkspace, path: str) -> str:
    planned = opened.desk.prepare(
        opened.member("local"), "apply_diff", ChangeMode(RelPath.parse(path), executable=True)
    )
    assert isinstance(planned, Planned)
    return planned.id


def check_tree(root: Path, opened: OpenWorkspace, before: Tree) -> bool:
    """All is as before or as after, with modes and links; whether as after."""
    found = tree(root)
    assert not opened.journal.in_doubt()
    if found == before:
        assert not (root / "m").exists()
        assert not (root / "n").exists()
        return False
    assert {name: data for name, (data, _, _) in found.items()} == {
        "m/o/a": b"one\nTWO\nthree\n",
        "c": b"ONE\ntwo\nthree\n",
        "d/other": TEXT,
        "d/e": BINARY,
        "n/o/w": b"new\n",
    }
    assert stat.S_IMODE(found["m/o/a"][1]) == 0o750
    assert stat.S_IMODE(found["c"][1]) == 0o700
    return True


def run(root: Path, numbers: range) -> list[bool]:
    """Kill before each of the calls; whether all was written, for each."""
    ended: list[bool] = []
    for number in numbers:
        make(root)
        before, ids = tree(root), plans(root)
        died = forked(root, ids, dies_at_call(number))
        with open_workspace(str(root), FAST) as opened:
            opened.recovery.run()
            written = check_tree(root, opened, before)
            ended.append(written)
            again = outcome(opened, ALL, hunk_ids=ids)
            expected = "HUNK_NOT_FOUND applied" if written else "ok"
            assert code(again) == expected, json.dumps(again)
            assert check_tree(root, opened, before)
        if not died:
            break
    return ended


def test_all_was_written_and_nothing_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was edited and moved is looked for where it is now."""
    make(tmp_path)
    before, ids = tree(tmp_path), plans(tmp_path)
    with open_workspace(str(tmp_path), FAST) as opened:

        def refused(*_: object) -> None:
            raise Failed("record", "the journal is gone")

        monkeypatch.setattr(opened.journal, "close_all", refused)
        assert code(outcome(opened, ALL, hunk_ids=ids)) == "ok"
        monkeypatch.undo()
        assert opened.journal.in_doubt()
        opened.recovery.run()
        assert check_tree(tmp_path, opened, before)
        assert {entry.state for entry in opened.journal.entries()} == {"done"}


@pytest.mark.slow
def test_killed_before_each_call(tmp_path: Path) -> None:
    ended = run(tmp_path, range(1, 2_000, 2))
    assert True in ended
    assert all(ended[ended.index(True) :]), "from the last commit on all of it is there"
    assert ended.index(True) > 10


@pytest.mark.slow
def test_killed_in_the_middle_of_the_moves(tmp_path: Path) -> None:
    """A few of them; the rest is slow."""
    assert set(run(tmp_path, range(60, 400, 110))) <= {True, False}
