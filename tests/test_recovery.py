"""Killed at any line of a write: the next start settles what was under way, and nothing twice."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.app.cli import main
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import open_workspace
from copydesk.desk.transaction import LEFT_OVER_MS, Settled
from copydesk.errors import Busy
from copydesk.store.contents import new_temp
from copydesk.store.files import Files
from copydesk.store.protocol import Deadline
from copydesk.text.relpath import RelPath

BEFORE = "a\nb\nc\n"
AFTER = "a\nb\nNEW\nc\n"

CHILD = """
import os, signal, sys
from contextlib import contextmanager
from copydesk.app.workspace import open_workspace
root, where, hunk = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
opened = open_workspace(root)
if where == "before the journal":
    opened.journal.open_all = die
if where == "before the rename":
    opened.files.stage = die
if where == "after the rename":
    real = opened.files.stage
    @contextmanager
    def stage(*args, **named):
        with real(*args, **named) as staged:
            yield staged
        die()
    opened.files.stage = stage
if where == "before the end is recorded":
    opened.journal.close_all = die
if where == "in the middle of a write in place":
    from copydesk.store import _os
    def write(fd, data):
        os.write(fd, bytes(data)[:7])
        os.fsync(fd)
        die()
    _os.write = write
opened.call("local", "apply_file_modification", {"hunk_id": hunk})
"""


def plan(root: Path) -> str:
    with open_workspace(str(root)) as opened:
        arguments = {"path": "f.txt", "anchor": "b", "content": "NEW"}
        report = opened.call("local", "prepare_file_insert_after", arguments)
        return str(report.fields["hunk_id"])


def kill_at(root: Path, where: str, hunk: str) -> None:
    code = textwrap.dedent(CHILD)
    done = subprocess.run([sys.executable, "-c", code, str(root), where, hunk], check=False)
    assert done.returncode == -signal.SIGKILL


def check_left(root: Path, hunk: str, left: str, code: str | None, after: str) -> None:
    """What the killed process left, how the plan is answered then, and the file in the end."""
    assert (root / "f.txt").read_text() == left
    with open_workspace(str(root)) as opened:
        assert (root / "f.txt").read_text() in (BEFORE, AFTER)
        assert not opened.journal.in_doubt()
        report = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert report.fields.get("error") == code, report.text
        if code is not None:
            assert report.fields["reason"] == "applied"
    assert (root / "f.txt").read_text() == after


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "left", "code"),
    [
        ("before the journal", BEFORE, None),
        ("before the rename", BEFORE, None),
        ("after the rename", AFTER, "HUNK_NOT_FOUND"),
        ("before the end is recorded", AFTER, "HUNK_NOT_FOUND"),
    ],
)
def test_killed(tmp_path: Path, where: str, left: str, code: str | None) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    kill_at(tmp_path, where, hunk)
    check_left(tmp_path, hunk, left, code, AFTER)


@pytest.mark.slow
def test_a_torn_file_with_two_names_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    os.link(tmp_path / "f.txt", tmp_path / "g.txt")
    hunk = plan(tmp_path)
    kill_at(tmp_path, "in the middle of a write in place", hunk)
    assert (tmp_path / "f.txt").read_text() not in (BEFORE, AFTER)
    with open_workspace(str(tmp_path)) as opened:
        assert (tmp_path / "g.txt").read_text() == BEFORE
        assert (tmp_path / "f.txt").stat().st_nlink == 2
        report = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert report.fields["changed"] is True, report.text
    assert (tmp_path / "g.txt").read_text() == AFTER


@pytest.mark.slow
def test_another_live_process_settles_it_too(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    with open_workspace(str(tmp_path)) as opened:  # it was open before the other one died
        kill_at(tmp_path, "after the rename", hunk)
        report = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert report.fields["error"] == "HUNK_NOT_FOUND"
    assert (tmp_path / "f.txt").read_text() == AFTER


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "theirs", "state"),
    [
        ("before the rename", "", "failed"),
        ("after the rename", "", "done"),
        ("after the rename", "x\n", "unsure"),
        ("before the rename", "x\n", "unsure"),
    ],
)
@pytest.mark.parametrize("next_one", ["reads", "prepares", "writes", "lists"])
def test_how_a_write_ended_is_settled_by_who_comes_next(
    tmp_path: Path, where: str, theirs: str, state: str, next_one: str
) -> None:
    """Another process, which was there before; what another program wrote is told and stays."""
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    with open_workspace(str(tmp_path)) as opened:
        kill_at(tmp_path, where, hunk)
        with (tmp_path / "f.txt").open("a") as file:
            file.write(theirs)
        left = (tmp_path / "f.txt").read_text()
        arguments = {"path": "f.txt", "content": "end\n"}
        if next_one == "reads":
            opened.call("local", "read_file", {"path": "f.txt"})
        elif next_one == "lists":
            assert len(opened.pending("local")) == (state == "failed")
        else:
            arguments |= {"apply": "auto"} if next_one == "writes" else {}
            assert not opened.call("local", "prepare_file_append", arguments).is_error
        entry = opened.journal.of_hunk(hunk)
        assert entry is not None
        assert (entry.hunk_id, entry.state) == (hunk, state)
    with open_workspace(str(tmp_path)) as opened:
        assert opened.recovered == ()
    assert (tmp_path / "f.txt").read_text() == left + "end\n" * (next_one == "writes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "theirs", "state"),
    [
        ("after the rename", AFTER + "x\n", "unsure"),
        ("after the rename", "x\n" + AFTER, "unsure"),
        ("before the rename", BEFORE + "x\n", "unsure"),
    ],
)
def test_what_others_wrote_after_a_death_is_told_and_stays(
    tmp_path: Path, where: str, theirs: str, state: str
) -> None:
    """The process was killed before it had stored the text that it wrote."""
    (tmp_path / "f.txt").write_text(BEFORE)
    kill_at(tmp_path, where, plan(tmp_path))
    (tmp_path / "f.txt").write_text(theirs)
    with open_workspace(str(tmp_path)) as opened:
        assert [each.state for each in opened.recovered] == [state]
    assert (tmp_path / "f.txt").read_text() == theirs


def test_a_start_does_not_wait_for_one_who_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    monkeypatch.setattr("copydesk.desk.transaction.LIVING_SECONDS", 0)
    found: list[Settled] = []

    def start(*args: object, **named: object) -> object:
        with open_workspace(str(tmp_path), Config(lock_seconds=5)) as other:
            found.extend(other.recovered)
        return real(*args, **named)  # type: ignore[arg-type]  # as it was called

    with open_workspace(str(tmp_path)) as opened:
        real = opened.files.stage
        monkeypatch.setattr(opened.files, "stage", start)
        report = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
    assert report.fields["status"] == "ok"
    assert [each.state for each in found] == ["open"]
    assert isinstance(found[0].refusal, Busy)
    assert found[0].refusal.waited_seconds == 0, "it is left to its writer at once"


@pytest.mark.parametrize("kind", ["edit", "transaction"])
@pytest.mark.parametrize(("lang", "words"), [("en", "is locked by"), ("zh", "锁定")])
def test_what_cannot_be_recovered_yet_is_said_in_words(
    tmp_path: Path,
    kind: str,
    lang: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("f.txt", "g.txt"):
        (tmp_path / name).write_text(BEFORE)
    monkeypatch.setattr("copydesk.desk.transaction.LIVING_SECONDS", 0)
    with open_workspace(str(tmp_path)) as opened:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(opened.journal, "close_all", lambda *_: None)
            made = [
                opened.call("local", "prepare_file_append", {"path": name, "content": "x"})
                for name in ("f.txt", "g.txt")
            ]
            ids = [str(report.fields["hunk_id"]) for report in made]
            if kind == "edit":
                opened.call("local", "apply_file_modification", {"hunk_id": ids[0]})
            else:
                opened.call("local", "apply_file_modifications", {"hunk_ids": ids})
        assert opened.journal.in_doubt()
        with opened.queues.lock("f.txt", (0, ""), ("ann", "Edit")):
            assert main(["--root", str(tmp_path), "--lang", lang, "recover"]) == 1
            plain = capsys.readouterr().out
            assert main(["--root", str(tmp_path), "--lang", lang, "recover", "--json"]) == 1
            data = json.loads(capsys.readouterr().out)
    for said in (plain, data["settled"][0]["reason"]):
        assert "BUSY: f.txt" in said
        assert words in said
        assert "waited_seconds" not in said
        assert "BUSY(" not in said


def test_what_its_living_writer_has_recorded_meanwhile_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(BEFORE)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        opened.call("local", "Edit", {"path": "a", "old_string": "b\n", "new_string": "b\nNEW\n"})
        (entry,) = opened.journal.entries()
        assert entry.state == "done"
        seen = replace(entry, state="open")
        assert opened.recovery.settle(seen, Deadline(1)) == ()
        assert opened.journal.get(entry.edit_id) == entry


def test_when_the_plan_cannot_be_ended_the_edit_is_still_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    with open_workspace(str(tmp_path)) as opened:
        from copydesk.errors import Failed

        def full(*_: object) -> None:
            raise Failed("use the state folder", "SQLite: database or disk is full")

        monkeypatch.setattr(opened.registry, "end", full)
        report = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert report.fields["changed"] is True
        monkeypatch.undo()
        again = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert again.fields["error"] == "HUNK_NOT_FOUND"
    assert (tmp_path / "f.txt").read_text() == AFTER


def test_an_auto_edit_never_takes_the_id_of_a_waiting_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    hunk = plan(tmp_path)
    ids = [hunk, "abadcafe"]  # the first one is taken
    monkeypatch.setattr(secrets, "randbelow", lambda most: int(ids.pop(0), 16) - 0xA0000000)
    with open_workspace(str(tmp_path)) as opened:
        arguments = {"path": "f.txt", "content": "end", "apply": "auto"}
        report = opened.call("local", "prepare_file_append", arguments)
        assert report.fields["hunk_id"] == "abadcafe"
        kept = opened.call("local", "apply_file_modification", {"hunk_id": hunk})
        assert not kept.is_error


def test_a_member_may_write_so_many_lines_unseen(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    config = Config(members={"local": MemberConfig(auto_lines=1)})
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        two = {"path": "f.txt", "content": "x\ny", "apply": "auto"}
        report = opened.call("local", "prepare_file_append", two)
        assert report.fields["auto_apply"] == "declined"
        one = opened.call("local", "prepare_file_append", {**two, "content": "x"})
        assert one.fields["changed"] is True


@pytest.mark.slow
def test_what_the_database_refuses_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    monkeypatch.setattr("copydesk.desk.backends.sqlite.BUSY_SECONDS", 0.1)
    with open_workspace(str(tmp_path)) as opened:
        other = apsw.Connection(str(tmp_path / ".copydesk" / "state.sqlite"))
        other.execute("BEGIN EXCLUSIVE")
        report = opened.call("local", "create_new_file", {"path": "n.txt", "content": "x"})
        other.execute("ROLLBACK")
        other.close()
        assert report.fields["error"] == "FAILED"
        assert "log_id" not in report.fields
        assert "locked" in str(report.fields["reason"])
    assert not (tmp_path / "n.txt").exists()


def test_the_sweep_is_of_our_own_leftovers(tmp_path: Path) -> None:
    left = tmp_path / ".copydesk-0123456789ab-new.tmp"
    left.write_text("left over")
    os.utime(left, (1, 1))
    with Files(str(tmp_path)) as files:
        early, late = time.time_ns() - 60 * 10**9, time.time_ns() + 60 * 10**9
        assert files.sweep(RelPath(()), early, {}) == (0, ())  # somebody may need it
        assert files.sweep(RelPath(()), late, {}) == (1, ())
    assert not list(tmp_path.iterdir())


def test_what_a_killed_write_left_next_to_its_file_goes_with_its_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, however new: its writer is known to be gone."""
    (tmp_path / "f.txt").write_text(BEFORE)
    with open_workspace(str(tmp_path), shared=False) as opened:
        arguments = {"path": "f.txt", "old_string": "b", "new_string": "x"}
        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "close_all", lambda *_: None)
            opened.call("local", "Edit", arguments)
        folder = os.open(tmp_path, os.O_RDONLY)
        left = tmp_path / os.fsdecode(new_temp(b"f.txt"))
        os.link(tmp_path / "f.txt", left)
        os.close(folder)
        assert [each.state for each in opened.recovery.run()] == ["done"]
        assert not left.exists()
    assert (tmp_path / "f.txt").read_text() == "a\nx\nc\n"


def test_what_a_process_that_lives_may_still_need_is_not_swept(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text(BEFORE)
    left = tmp_path / ".copydesk-0123456789ab-new.tmp"
    with open_workspace(str(tmp_path), shared=False) as opened:
        opened.call("local", "Edit", {"path": "f.txt", "old_string": "b", "new_string": "x"})
        left.write_text("being written")
        now_ms = time.time_ns() // 1_000_000
        assert opened.recovery.sweep(now_ms) == (0, ())
        assert left.exists()
        assert opened.recovery.sweep(now_ms + 2 * LEFT_OVER_MS)[0] == 1
        assert not left.exists()
