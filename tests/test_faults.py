"""Each system call of a write fails in turn: the old bytes or the new, all or none, and told so."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import overwritten
from copydesk.desk.backends.sqlite import Database, SqliteRecords
from copydesk.errors import Failed
from copydesk.store.files import Files, StagedWrite
from copydesk.store.protocol import Durability, Stamp
from support.cost import spread
from support.faults import NUMBERS, Faults
from support.processes import Facts, code, outcome
from support.writes import (
    A2,
    B2,
    DEEDS,
    LINKS,
    START,
    Call,
    Deed,
    Tree,
    directly,
    line,
    make,
    planned,
    together,
    tree,
)


def check_done(
    root: Path, opened: OpenWorkspace, deed: Deed, before: Tree, report: Facts, number: int
) -> bool:
    """The call was done, or nothing was; the journal says the same. Whether it was done."""
    done = code(report) == "ok"
    if not done:
        assert number, report
        assert report["error"] == "FAILED", report
        assert str(report["reason"]).startswith(errno.errorcode[number]), report
        if "paths" in report:  # the way back was refused too: recovery finds it now
            recovered = opened.recovery.run()
            (state,) = {each.state for each in recovered}
            done = state == "done"
    entries = opened.journal.entries(most=100)
    assert not [entry for entry in entries if entry.state in ("open", "unsure")]
    if not done:
        assert tree(root) == before
        return False
    after = {**before, **deed.after}
    for name in deed.gone:
        del after[name]
    found = tree(root)
    assert {k: v for k, v in found.items() if v != b"/"} == {
        k: v for k, v in after.items() if v != b"/"
    }
    assert not any(name.endswith(".tmp") for name in found)
    ids = {row["edit_id"] for row in report.get("hunks", [report]) if "edit_id" in row}
    assert {entry.edit_id for entry in entries if entry.state == "done"} >= ids
    return True


def each_in_turn(
    root: Path,
    opened: OpenWorkspace,
    deed: Deed,
    fails: Callable[[int], Any],
    ends: Callable[[], str],
    number: int,
    sign: int = 1,
) -> set[str]:
    """Let each call fail in turn, until none is left to fail; the names of those that did.

    What goes on beside the work may come later than the answer, so the end is where three
    in a row have nothing left to fail. A negative `sign` is handed on with the number.
    """
    reached: set[str] = set()
    untouched = 0
    ready: Call | None = None
    before: Tree = {}
    for fail_at in range(sign, 1_000 * sign, sign):
        if ready is None:
            make(root)
            ready = deed.ready(opened)
            before = tree(root)
        tool, arguments = ready
        fails(fail_at)
        try:
            report = outcome(opened, tool, **arguments)
        finally:
            failed = ends()
        if check_done(root, opened, deed, before, report, number):
            ready = None
        reached.add(failed)
        untouched = 0 if failed else untouched + 1
        if untouched == 3:
            return reached
    raise AssertionError("there is no end of calls")


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEDS)
@pytest.mark.parametrize(
    ("number", "durability"), [*((number, "full") for number in NUMBERS), (errno.EIO, "fast")]
)
def test_each_call_fails_in_turn(
    tmp_path: Path,
    name: str,
    number: int,
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What fails is refused, nothing is left of it, and the next call does it."""
    faults = Faults(monkeypatch)
    if number != errno.EIO:  # with one of the numbers, the calls of the look fail as well
        monkeypatch.setattr(overwritten, "LOOKED_BACK_MS", 0)
    expected = {"write"} if DEEDS[name].writes else set()
    expected |= {"rename_exchange"} if "three" in name else set()
    expected |= {"sync"} if durability == "full" else set()

    def fails(is_looked: bool, fail_at: int) -> None:
        if is_looked:
            opened.desk.overwrites.look()
        faults.start(fail_at, number)

    def ends() -> str:
        faults.stop()
        return faults.failed

    with open_workspace(str(tmp_path), Config(durability=durability), shared=False) as opened:
        reached: set[str] = set()
        # A look at the files, before the call or not, shifts a call, which may be missed by it.
        for is_looked in (False, True, True):
            fail = partial(fails, is_looked)
            for sign in (1, -1):
                reached |= each_in_turn(tmp_path, opened, DEEDS[name], fail, ends, number, sign)
            if reached >= expected:
                break
    assert reached >= expected
    assert ("sync" in reached) == (durability == "full")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), spread((errno.ENOSPC, errno.EIO), DEEDS, of=3))
def test_the_disk_is_full_from_a_call_on(
    tmp_path: Path, name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call that needs room succeeds any more, that of the way back neither."""
    faults = Faults(monkeypatch)

    def fails(fail_at: int) -> None:
        faults.start(fail_at, number, lasting=True)

    def ends() -> str:
        faults.stop()
        return faults.failed

    with open_workspace(str(tmp_path), Config(durability="full"), shared=False) as opened:
        each_in_turn(tmp_path, opened, DEEDS[name], fails, ends, number)


# Each file of a transaction


class Died(BaseException):
    """Stands for the end of a process."""


class Commits:
    """Makes the k-th commit of a staged write fail, before it was done or after.

    With `lasting`, nothing that was written can be put back either; with Died, nothing that
    comes after it is done, and the journal is not told.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.fail_at = 0
        self.after = self.lasting = False
        self.failed = ""
        self.error: BaseException = Failed("write", "EIO: Input/output error")
        commit, put_back = StagedWrite.commit, StagedWrite.put_back
        replace, restore = Files.replace, Files.restore

        def failing(staged: StagedWrite) -> Stamp:
            self.count += 1
            if self.count < self.fail_at or (self.failed and not self.lasting) or not self.fail_at:
                return commit(staged)
            if self.after and not self.failed:
                commit(staged)
            self.failed = self.failed or str(staged.real)
            raise self.error

        def back(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **named: Any) -> Any:
                if self.failed and self.lasting and self.fail_at:
                    raise self.error
                return call(*arguments, **named)

            return called

        monkeypatch.setattr(StagedWrite, "commit", failing)
        monkeypatch.setattr(StagedWrite, "put_back", back(put_back))
        monkeypatch.setattr(Files, "replace", back(replace))
        monkeypatch.setattr(Files, "restore", back(restore))
        for name in ("close_all",):
            monkeypatch.setattr(SqliteRecords, name, self._closing(getattr(SqliteRecords, name)))

    def _closing(self, close: Callable[..., None]) -> Callable[..., None]:
        def closing(*arguments: Any) -> None:
            if self.failed and self.fail_at and isinstance(self.error, Died):
                raise self.error
            close(*arguments)

        return closing

    def start(self, fail_at: int, *, after: bool, lasting: bool) -> None:
        """Count from now on; 0: no commit fails."""
        self.count, self.fail_at, self.failed = 0, fail_at, ""
        self.after, self.lasting = after, lasting

    def stop(self) -> None:
        """No commit fails any more."""
        self.fail_at = 0


def all_back(opened: OpenWorkspace) -> Call:
    """The way back of a whole transaction."""
    tool, arguments = DEEDS["three of a kind"].ready(opened)
    done = outcome(opened, tool, **arguments)["hunks"][0]
    return "undo_file_modification", {"edit_id": done["edit_id"], "transaction": True}


COMMITTED = {
    **DEEDS,
    "all back": Deed(
        all_back, {name: START[name] for name in ("a.txt", "d/b.txt", "d/c.txt")}, ("m/a.txt",)
    ),
}


GROUPS = ("move", "undo of a move", "three files", "three kinds", "three of a kind", "all back")
"""What is put back where it fails."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("name", "lasting"),
    [*((name, False) for name in COMMITTED), *((name, True) for name in GROUPS)],
)
def test_each_commit_fails_in_turn(
    tmp_path: Path, name: str, after: bool, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or none; who is told of files that may hold a part is told of each that does."""
    commits, deed = Commits(monkeypatch), COMMITTED[name]
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        for turn in range(1, 20):
            make(tmp_path)
            tool, arguments = deed.ready(opened)
            before = tree(tmp_path)
            commits.start(turn, after=after, lasting=lasting)
            report = outcome(opened, tool, **arguments)
            commits.stop()
            if report["status"] == "error":
                now = tree(tmp_path)
                differ = {k for k in {*before, *now} if before.get(k, b"/") != now.get(k, b"/")}
                other = {other: one for one, other in LINKS.items()}
                assert {other.get(k, k) for k in differ} <= set(report.get("paths", ())), report
            check_done(tmp_path, opened, deed, before, report, errno.EIO)
            if not commits.failed:
                break
    assert turn > 1


def dies(commits: Commits, opened: OpenWorkspace, call: Call, turn: int, *, after: bool) -> str:
    """Whoever makes the call is ended at this commit; the file of it, empty if there is none."""
    commits.error = Died()
    commits.start(turn, after=after, lasting=True)
    with suppress(Died):
        outcome(opened, call[0], **call[1])
    commits.stop()
    return commits.failed


@pytest.mark.parametrize(("after", "name"), spread((False, True), COMMITTED, of=3))
def test_who_was_ended_at_a_commit_is_recovered(
    tmp_path: Path, name: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is written or nothing, the journal says which, and the plan waits if it is not."""
    commits, deed = Commits(monkeypatch), COMMITTED[name]
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        states: list[str] = []
        for turn in range(1, 20):
            make(tmp_path)
            tool, arguments = deed.ready(opened)
            before = tree(tmp_path)
            if not dies(commits, opened, (tool, arguments), turn, after=after):
                break
            (state,) = {each.state for each in opened.recovery.run()}
            states.append(state)
            now = tree(tmp_path)
            assert now == before if state == "failed" else set(deed.after.items()) <= now.items()
            assert not set(deed.gone) & now.keys() or state == "failed"
            assert not opened.journal.in_doubt()
            again = code(outcome(opened, tool, **arguments))
            assert again == ("HUNK_NOT_FOUND applied" if state == "done" else "ok") or not (
                {"hunk_id", "hunk_ids"} & arguments.keys()
            )
    assert states == ["failed"] * (len(states) - after) + ["done"] * after


FOREIGN, B = b"theirs\n", START["d/b.txt"]


def put(name: str, data: bytes = FOREIGN) -> Callable[[Path], object]:
    """Another program saves a file, by a new one in its place."""

    def act(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "saved").write_bytes(data)
        (root / "saved").replace(root / name)

    return act


def take(name: str) -> Callable[[Path], object]:
    """Another program removes a file."""
    return lambda root: (root / name).unlink()


def turn(name: str) -> Callable[[Path], object]:
    """Another program puts a link in the place of a file, which is elsewhere then."""

    def act(root: Path) -> None:
        (root / name).rename(root / "elsewhere")
        (root / name).symlink_to(root / "elsewhere")

    return act


def folder(name: str) -> Callable[[Path], object]:
    """Another program puts a folder in the place of a file."""

    def act(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).mkdir(parents=True)

    return act


def both(root: Path) -> None:
    """A move by two names was ended between them."""
    (root / "m/o").mkdir(parents=True)
    os.link(root / "a.txt", root / "m/o/ved.txt")


def nothing(root: Path) -> None:
    """Nobody else does anything."""


A, MOVED = START["a.txt"], "m/o/ved.txt"


@pytest.mark.parametrize(
    ("name", "at", "after", "meanwhile", "states", "left"),
    [
        # a move: at which end the file is, and whether what stands at the other is another's
        ("move", 1, True, nothing, "done", {"a.txt": None, MOVED: A}),
        ("move", 1, False, nothing, "failed", {"a.txt": A, "m": None}),
        ("move", 1, False, both, "failed", {"a.txt": A, "m": None}),
        ("move", 1, False, put(MOVED), "failed", {"a.txt": A, MOVED: FOREIGN}),
        ("move", 1, False, put(MOVED, A), "failed", {"a.txt": A, MOVED: A}),
        ("move", 1, False, put("a.txt"), "failed", {"a.txt": FOREIGN, MOVED: None}),
        ("move", 1, False, take("a.txt"), "unsure", {"a.txt": None, MOVED: None}),
        ("move", 1, False, turn("a.txt"), "unsure", {"a.txt": A, MOVED: None}),
        ("move", 1, True, put("a.txt"), "done", {"a.txt": FOREIGN, MOVED: A}),
        ("move", 1, True, put(MOVED), "unsure", {"a.txt": None, MOVED: FOREIGN}),
        ("move", 1, True, put(MOVED, A), "done", {"a.txt": None, MOVED: A}),
        ("move", 1, True, take(MOVED), "unsure", {"a.txt": None, MOVED: None}),
        ("move", 1, True, turn(MOVED), "unsure", {"a.txt": None, MOVED: A}),
        ("move", 1, False, folder("a.txt"), "unsure", {"a.txt": b"/", MOVED: None}),
        ("move", 1, True, folder(MOVED), "unsure", {"a.txt": None, MOVED: b"/"}),
        # one file
        ("replace", 1, True, folder("a.txt"), "unsure", {"a.txt": b"/"}),
        ("replace", 1, True, put("a.txt"), "unsure", {"a.txt": FOREIGN}),
        ("replace", 1, True, put("a.txt", b"0\n" + A2), "unsure", {"a.txt": b"0\n" + A2}),
        ("replace", 1, True, take("a.txt"), "unsure", {"a.txt": None}),
        ("replace", 1, False, turn("a.txt"), "unsure", {"a.txt": A}),
        ("create deep", 1, True, put("n/e/w.txt"), "unsure", {"n/e/w.txt": FOREIGN}),
        ("create deep", 1, False, put("n/e/w.txt"), "unsure", {"n/e/w.txt": FOREIGN}),
        ("delete", 1, False, put("a.txt"), "unsure", {"a.txt": FOREIGN}),
        ("delete", 1, True, put("a.txt"), "unsure", {"a.txt": FOREIGN}),
        # several: the others go back, what another program wrote stays
        ("three files", 2, True, put("a.txt"), "failed unsure", {"a.txt": FOREIGN}),
        ("three files", 3, True, put("a.txt"), "failed unsure", {"a.txt": FOREIGN, "d/b.txt": B}),
        ("three files", 2, True, put("a.txt", b"0\n" + A2), "failed unsure", {"d/b.txt": B}),
        ("three kinds", 2, True, put("n/w.txt"), "failed unsure", {"n/w.txt": FOREIGN}),
        (
            "three of a kind",
            4,
            True,
            put("d/c.txt", START["d/c.txt"]),
            "failed",
            {"a.txt": A, "m": None, "d/b.txt": START["d/b.txt"]},
        ),
        (
            "three of a kind",
            4,
            True,
            put("d/b.txt"),
            "failed unsure",
            {"d/b.txt": FOREIGN, "m": None},
        ),
        (
            "three of a kind",
            3,
            True,
            put("m/a.txt"),
            "failed unsure",
            {"m/a.txt": FOREIGN, "a.txt": A},
        ),
        ("three of a kind", 4, True, put("m/a.txt"), "failed unsure", {"m/a.txt": FOREIGN}),
    ],
)
def test_what_another_program_did_since_a_writer_was_ended_stays(
    tmp_path: Path,
    name: str,
    at: int,
    after: bool,
    meanwhile: Callable[[Path], object],
    states: str,
    left: dict[str, bytes | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of another program is removed or written over; in doubt it is told as unsure."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        call = DEEDS[name].ready(opened)
        assert dies(commits, opened, call, at, after=after)
        opened.desk._services.bases.find(
            "0" * 64, None, None
        )  # the texts are kept, beside the work
        meanwhile(tmp_path)
        found = opened.recovery.run()
        now = tree(tmp_path)
    assert " ".join(sorted({each.state for each in found})) == states
    assert {path: now.get(path) for path in left} == left


def runnable(opened: OpenWorkspace) -> Call:
    """A file gets another mode, behind an edit of another one."""
    diff = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
    ids = [row["hunk_id"] for row in outcome(opened, "apply_diff", diff=diff)["hunks"]]
    tool, arguments = line("d/b.txt", 2, "B2")
    return "apply_file_modifications", {"hunk_ids": [*ids, planned(opened, tool, **arguments)]}


def chmod(mode: int) -> Callable[[Path], object]:
    """Another program gives the file this mode."""
    return lambda root: (root / "a.txt").chmod(mode)


@pytest.mark.parametrize(
    ("at", "after", "meanwhile", "states", "mode", "edited"),
    [
        (2, False, nothing, "failed", 0o644, False),
        (2, True, nothing, "done", 0o755, True),
        (2, True, chmod(0o644), "failed", 0o644, False),
        (2, True, chmod(0o600), "failed unsure", 0o600, False),
        (2, False, chmod(0o600), "failed unsure", 0o600, False),
        (2, True, turn("a.txt"), "failed unsure", 0o755, False),
        (2, True, put("d/b.txt"), "failed unsure", 0o644, None),
        (1, True, nothing, "failed", 0o644, False),
    ],
)
def test_a_mode_is_changed_with_what_is_written_or_not_at_all(
    tmp_path: Path,
    at: int,
    after: bool,
    meanwhile: Callable[[Path], object],
    states: str,
    mode: int,
    edited: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused, or ended, at a commit; another mode that another program gave it stays."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        for lasting in (False, True):
            make(tmp_path)
            (tmp_path / "a.txt").chmod(0o644)
            tool, arguments = runnable(opened)
            commits.start(at, after=after, lasting=lasting)
            done = code(outcome(opened, tool, **arguments)) == "ok"
            assert done == (at == 2 and after), "all is there"
            commits.stop()
            opened.recovery.run()
            assert (tmp_path / "a.txt").stat().st_mode & 0o777 == (0o755 if done else 0o644)
            assert (tmp_path / "d/b.txt").read_bytes() == (B2 if done else START["d/b.txt"])
        make(tmp_path)
        (tmp_path / "a.txt").chmod(0o644)
        assert dies(commits, opened, runnable(opened), at, after=after)
        meanwhile(tmp_path)
        found = opened.recovery.run()
        assert " ".join(sorted({each.state for each in found})) == states
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode
        left = {True: B2, False: START["d/b.txt"], None: FOREIGN}[edited]
        assert (tmp_path / "d/b.txt").read_bytes() == left


@pytest.mark.parametrize(
    ("theirs", "state"), [(b"", "failed"), (b"0\n", "unsure")], ids=["alone", "another writes"]
)
def test_what_the_journal_lost_meanwhile_is_recorded_anew_and_brought_back(
    tmp_path: Path, theirs: bytes, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of what could not be put back: the other files hold their old bytes."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = DEEDS["three files"].ready(opened)
        before = tree(tmp_path)

        def lost(*_: object) -> None:
            with opened.journal._db.writing() as db:  # type: ignore[attr-defined]
                db.execute("DELETE FROM edits")
                db.execute("DELETE FROM plans")
            raise Failed("put back", "EIO: Input/output error")

        monkeypatch.setattr(StagedWrite, "put_back", lost)
        commits.start(2, after=False, lasting=True)
        report = outcome(opened, tool, **arguments)
        commits.stop()
        assert (code(report), report["paths"]) == ("FAILED", ["a.txt"])
        assert tree(tmp_path) == {**before, "a.txt": A2}
        (tmp_path / "a.txt").write_bytes(theirs + A2)
        found = opened.recovery.run()
        assert [(str(each.entry.path), each.state) for each in found] == [("a.txt", state)]
        left = A if state == "failed" else theirs + A2
        assert tree(tmp_path) == {**before, "a.txt": left}
        said = {"failed": "HUNK_NOT_FOUND unknown", "unsure": "HUNK_NOT_FOUND unsure"}
        assert code(outcome(opened, tool, **arguments)) == said[state]


def test_what_cannot_be_looked_up_now_is_left_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, digest = Commits(monkeypatch), Files.digest
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = DEEDS["three files"].ready(opened)
        before = tree(tmp_path)

        def blind(*given: Any) -> Any:
            if commits.failed and commits.fail_at:
                raise commits.error
            return digest(*given)

        monkeypatch.setattr(Files, "digest", blind)
        commits.start(2, after=True, lasting=False)
        report = outcome(opened, tool, **arguments)
        commits.stop()
        assert (code(report), report["paths"]) == ("FAILED", ["d/b.txt"])
        assert tree(tmp_path) == {**before, "d/b.txt": B2}
        states = {str(entry.path): entry.state for entry in opened.journal.entries(most=3)}
        assert states == {"a.txt": "failed", "d/b.txt": "open", "d/c.txt": "failed"}


def test_a_way_back_that_was_begun_is_gone_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file is back and recorded so: what is left of the others goes back too."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        call = DEEDS["three files"].ready(opened)
        before = tree(tmp_path)
        assert dies(commits, opened, call, 3, after=True)
        put("a.txt", A)(tmp_path)
        (back,) = (one for one in opened.journal.in_doubt() if str(one.path) == "a.txt")
        opened.journal.close_all([back.edit_id], "failed")
        assert {each.state for each in opened.recovery.run()} == {"failed"}
        assert tree(tmp_path) == before
        assert code(outcome(opened, call[0], **call[1])) == "ok"


def test_each_plan_of_what_was_written_is_ended_by_who_recovers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another one of them is not known any more."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = DEEDS["three files"].ready(opened)
        assert dies(commits, opened, (tool, arguments), 3, after=True)
        opened.registry.end(arguments["hunk_ids"][0], "discarded", 1)
        assert len(opened.registry.waiting(0)) == 2
        assert {each.state for each in opened.recovery.run()} == {"done"}
        assert not opened.registry.waiting(0)


@pytest.mark.parametrize(
    ("after", "theirs", "state"),
    [
        (False, b"", "failed"),
        (True, b"", "done"),
        (True, b"0\n", "unsure"),
        (False, b"0\n", "unsure"),
    ],
)
def test_how_a_write_ended_is_settled_before_the_next(
    tmp_path: Path, after: bool, theirs: bytes, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that may have been written is not written again, and one that was not waits."""
    commits = Commits(monkeypatch)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = DEEDS["replace"].ready(opened)
        assert dies(commits, opened, (tool, arguments), 1, after=after)
        (dead,) = opened.journal.in_doubt()
        with (tmp_path / "a.txt").open("ab") as file:
            file.write(theirs)
        edit = {"path": "a.txt", "old_string": "a3", "new_string": "A3"}
        assert outcome(opened, "Edit", **edit)["status"] == "success"
        assert not opened.recovery.doubts()
        found = opened.journal.get(dead.edit_id)
        assert found is not None
        assert found.state == state
        again = outcome(opened, tool, **arguments)
        said = {"failed": "ok", "done": "HUNK_NOT_FOUND applied", "unsure": "HUNK_NOT_FOUND unsure"}
        assert code(again) == said[state]


# The state folder


@pytest.mark.parametrize(("moment", "name"), spread(("begin", "commit"), DEEDS, of=3))
def test_each_transaction_of_the_database_fails_in_turn(
    tmp_path: Path, name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be recorded is not written; what is written is never written twice."""
    count = fail_at = 0
    failed = ""
    writing = Database.writing

    def turn_of(now: str) -> None:
        """Fail at this moment of the transaction that is to fail."""
        nonlocal failed
        if count == fail_at and now == moment:
            failed = "database"
            raise apsw.FullError("database or disk is full")

    @contextmanager
    def failing(self: Database, *, flushed: bool = False) -> Generator[apsw.Connection]:
        nonlocal count
        if self.path.endswith("texts.sqlite"):  # written beside the work, by another thread
            with writing(self) as connection:
                yield connection
            return
        count += 1
        with writing(self, flushed=flushed) as connection:
            turn_of("begin")
            yield connection
            turn_of("commit")

    deed = DEEDS[name]
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        monkeypatch.setattr(Database, "writing", failing)
        for turn in range(1, 100):
            make(tmp_path)
            tool, arguments = deed.ready(opened)
            before = tree(tmp_path)
            count, fail_at, failed = 0, turn, ""
            report = outcome(opened, tool, **arguments)
            fail_at = 0
            if code(report) == "ok":
                assert tree(tmp_path) != before
                again = outcome(opened, tool, **arguments)
                if "hunk_id" in arguments or "hunk_ids" in arguments:
                    assert code(again) == "HUNK_NOT_FOUND applied"
            else:
                assert "full" in report["reason"]
                assert tree(tmp_path) == before
                assert code(outcome(opened, tool, **arguments)) == "ok"
            found = opened.recovery.run()
            assert {each.state for each in found} <= {"done"}
            if not failed:
                break
        assert not opened.journal.in_doubt()
        assert turn > 1


@pytest.mark.slow
def test_a_full_state_folder_is_a_refusal(tmp_path: Path) -> None:
    """SQLite itself says that it is full; when there is room again the plans are written."""
    with open_workspace(str(tmp_path), Config(durability="full")) as opened:
        make(tmp_path)
        big = "x" * 100_000
        edits = [line("a.txt", 2, os.urandom(50_000).hex()), line("d/b.txt", 2, big)]
        tool, arguments = together(*edits)(opened)
        before = tree(tmp_path)
        database = opened.journal._db._connection  # type: ignore[attr-defined]
        (most,) = database.execute("PRAGMA max_page_count").fetchone()
        database.execute("PRAGMA max_page_count = 1")
        report = outcome(opened, tool, **arguments)
        assert code(report) == "FAILED"
        assert "full" in report["reason"]
        assert tree(tmp_path) == before
        database.execute(f"PRAGMA max_page_count = {most}")
        assert code(outcome(opened, tool, **arguments)) == "ok"


# A disk that is full indeed


def on_small_disk(folder: Path, work: Callable[[], None]) -> None:
    """Do the work in a child that sees a disk with little room at the folder, and nobody else does."""
    folder.mkdir()
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if ctypes.CDLL(None).unshare(_NEW_MOUNTS):
                raise Skipped("no mounts of its own")
            options = (
                ["--make-rprivate", "/"],
                ["-t", "tmpfs", "-o", "size=4m", "none", str(folder)],
            )
            for words in options:
                done = subprocess.run(["mount", *words], capture_output=True, check=False)
                if done.returncode:
                    raise Skipped(done.stderr.decode().strip())
            work()
        except Skipped as reason:
            os.write(telling, f"skip {reason}".encode())
        except BaseException:
            os.write(telling, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(told) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if said.startswith("skip "):
        pytest.skip(said)
    assert not said, said


_NEW_MOUNTS = 0x20000


class Skipped(Exception):
    """Nothing can be mounted here."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts of one's own are Linux's")
@pytest.mark.parametrize(("room", "name"), spread((0, 4, 8, 12, 20, 40), DEEDS, of=13))
def test_a_full_disk(tmp_path: Path, name: str, room: int) -> None:
    """With so many KiB left all is written or nothing; when there is room again it is."""
    disk = tmp_path / "disk"

    def work() -> None:
        with open_workspace(str(disk), Config(durability="full")) as opened:
            check_full(disk, opened, DEEDS[name], room)

    on_small_disk(disk, work)


def check_full(disk: Path, opened: OpenWorkspace, deed: Deed, room: int) -> None:
    make(disk)
    tool, arguments = deed.ready(opened)
    before = tree(disk)
    filler = disk / "filler"
    fill(filler, room)
    report = outcome(opened, tool, **arguments)
    if code(report) != "ok":
        assert re.search(r"ENOSPC|full|I/O", str(report["reason"])), report
    filler.unlink()
    if code(report) != "ok":
        assert tree(disk) == before
        assert code(outcome(opened, tool, **arguments)) == "ok"
    after = {**before, **deed.after}
    assert {k: v for k, v in tree(disk).items() if v != b"/"} == {
        k: v for k, v in after.items() if v != b"/" and k not in deed.gone
    }


def fill(filler: Path, room: int) -> None:
    """Leave so many KiB of the disk free."""
    file = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(file, bytes(4096))
    assert os.statvfs(filler).f_bavail == 0
    os.ftruncate(file, os.fstat(file).st_size - 1024 * room)
    os.close(file)


# An outside check: strace lets the calls of the whole process fail

PROGRAM = """
import sys
from copydesk.app.config import Config
from copydesk.app.workspace import open_workspace
with open_workspace(sys.argv[1], Config(durability="full")) as opened:
    print("ready", flush=True)
    sys.stdin.readline()
    report = opened.call("local", "apply_file_modifications", {"hunk_ids": sys.argv[2:]})
    print(report.fields["status"], report.fields.get("reason", ""), flush=True)
    sys.stdin.readline()
"""
INJECTED = [
    *((call, "ENOSPC") for call in ("write", "pwrite64", "fsync", "renameat2", "openat")),
    *((call, "EIO") for call in ("fsync", "fdatasync", "renameat2", "pread64", "ftruncate")),
    *((call, "EACCES") for call in ("openat", "renameat2", "mkdirat", "unlinkat", "fchmod")),
]


def stops_here() -> str:
    """Why strace cannot be used here; empty when it can."""
    try:
        found = subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True)
    except FileNotFoundError:
        return "strace is not installed"
    return "" if found.returncode == 0 else f"strace may not trace: {found.stderr!r}"


@pytest.mark.slow
@pytest.mark.parametrize(("call", "error"), INJECTED, ids=str)
def test_the_kernel_refuses_a_call(tmp_path: Path, call: str, error: str) -> None:
    """From outside, without a hand in our code: the k-th call of the process fails."""
    reason = stops_here()
    if reason:
        pytest.skip(reason)
    deed = DEEDS["three kinds"]
    ends: list[str] = []
    for turn in sorted({round(1.6**n) for n in range(15)}):
        root = tmp_path / str(turn)
        root.mkdir()
        make(root)
        with open_workspace(str(root), Config(durability="full")) as opened:
            _, arguments = deed.ready(opened)
        before = tree(root)
        ends.append(injected(root, arguments["hunk_ids"], call, error, turn))
        with open_workspace(str(root)) as opened:  # recovery, if that is needed
            assert not opened.journal.in_doubt()
            after = tree(root)
            if ends[-1] == "ok":
                assert after != before
            if after == before:
                assert code(outcome(opened, "apply_file_modifications", **arguments)) == "ok"
        found = {k: v for k, v in tree(root).items() if v != b"/"}
        assert found == {k: v for k, v in {**before, **deed.after}.items() if v != b"/"}
        if ends[-1] == "ok" and ends[-3:] == ["ok"] * 3:
            break  # the calls that are left are after the write
    assert "ok" in ends


def injected(root: Path, hunk_ids: list[str], call: str, error: str, turn: int) -> str:
    """How the apply of the plans ended while the call number `turn` after its start failed."""
    command = [sys.executable, "-c", PROGRAM, str(root), *hunk_ids]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        inject = f"inject={call}:error={error}:when={turn}"
        trace = ["strace", "-f", "-q", "-p", str(process.pid), "-e", f"trace={call}", "-e", inject]
        with subprocess.Popen([*trace, "-o", str(root) + ".strace"], stderr=subprocess.PIPE) as it:
            attached(process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline()
            it.terminate()
        process.stdin.close()
        process.wait()
    return line.split(" ")[0].strip() or "crashed"


def attached(pid: int) -> None:
    """Wait until a process is traced."""
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        os.sched_yield()


# Each statement of the database, and each commit of it


class Steps:
    """Makes the k-th statement of any database fail, before it was done or after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.fail_at = 0
        self.after = False
        self.failed = ""
        steps = self

        class Failing(apsw.Connection):
            def execute(self, sql: str, /, *values: Any) -> apsw.Cursor:
                return steps.step(sql, lambda: super(Failing, self).execute(sql, *values))

            def executemany(self, sql: str, /, *values: Any) -> apsw.Cursor:
                return steps.step(sql, lambda: super(Failing, self).executemany(sql, *values))

        monkeypatch.setattr(apsw, "Connection", Failing)

    def start(self, fail_at: int, *, after: bool) -> None:
        """Count from now on."""
        self.count, self.fail_at, self.after, self.failed = 0, fail_at, after, ""

    def step(self, sql: str, do: Callable[[], apsw.Cursor]) -> apsw.Cursor:
        """One statement; what takes a transaction back never fails."""
        if sql == "ROLLBACK":
            return do()
        self.count += 1
        if self.count != self.fail_at:
            return do()
        self.failed = sql
        if self.after:
            do()
        raise apsw.FullError("database or disk is full")


MORE = {
    **DEEDS,
    "Edit": Deed(directly("Edit", path="a.txt", old_string="a2", new_string="A2"), {"a.txt": A2}),
    "Write": Deed(directly("Write", path="n.txt", content="new\n"), {"n.txt": b"new\n"}),
    "auto": Deed(
        directly(
            "prepare_file_range_edit",
            path="a.txt",
            range="2",
            content="A2",
            expected_old="a2",
            apply="auto",
        ),
        {"a.txt": A2},
    ),
}


@pytest.mark.parametrize(("after", "name"), spread((False, True), MORE, of=7))
def test_each_statement_of_the_database_fails_in_turn(
    tmp_path: Path, name: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal means that nothing was changed, a report that it was, and the journal knows."""
    steps = Steps(monkeypatch)
    deed = MORE[name]
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        for turn in range(1, 500):
            make(tmp_path)
            tool, arguments = deed.ready(opened)
            before = tree(tmp_path)
            steps.start(turn, after=after)
            report = outcome(opened, tool, **arguments)
            failed = steps.failed
            steps.start(0, after=False)
            if report["status"] == "error" or "hunk_id" not in report or "edit_id" in report:
                written = report["status"] in ("ok", "success")
            else:
                written = False  # a plan that waits
            assert (tree(tmp_path) != before) == written, (failed, report)
            opened.recovery.run()  # a commit that was done though it was refused is settled
            assert not opened.journal.in_doubt(), (failed, report)
            assert (tree(tmp_path) != before) == written, (failed, report)
            edit_id = report.get("data", report).get("edit_id")
            if written and edit_id:
                entry = opened.journal.get(int(edit_id))
                assert entry is not None
                assert entry.state == "done", (failed, entry)
            if not failed:
                break
        else:
            raise AssertionError("there is no end of statements")


@pytest.mark.parametrize("name", [name for name in MORE if "three" not in name])
def test_what_was_written_though_it_was_refused_is_reported_as_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails after the file has changed: a refusal says that nothing was changed."""
    deed = MORE[name]
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        make(tmp_path)
        tool, arguments = deed.ready(opened)
        before = tree(tmp_path)
        for step in ("stage", "stage_new", "stage_removal"):
            monkeypatch.setattr(opened.files, step, refused_after(getattr(opened.files, step)))
        report = outcome(opened, tool, **arguments)
        assert report["status"] in ("ok", "success"), report
        assert tree(tmp_path) != before
        assert not opened.journal.in_doubt()
        newest = opened.journal.entries(most=1)[0]
        assert (newest.state, newest.edit_id) == ("done", report.get("data", report)["edit_id"])


def refused_after(
    call: Callable[..., AbstractContextManager[object]],
) -> Callable[..., AbstractContextManager[object]]:
    """The call, and then a refusal."""

    @contextmanager
    def refused(*arguments: Any, **named: Any) -> Iterator[object]:
        with call(*arguments, **named) as staged:
            yield staged
        raise Failed("write", "ENOSPC: No space left on device")

    return refused
