"""Other programs write while copydesk does: each of their writes is in the file or in the journal."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import pytest

from copydesk import Desk
from copydesk.app.cli import main
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import overwritten
from copydesk.desk.outcome import TOOL, Applied, _difference
from copydesk.edit.request import Anchor, Insert
from copydesk.errors import Failed
from copydesk.store import _os
from copydesk.store import files as writes
from copydesk.store.contents import is_temp, is_temp_of
from copydesk.store.protocol import Durability
from copydesk.text.relpath import RelPath
from support.cost import spread
from support.faults import WRITE_PATH
from support.lacking import needs
from support.processes import Facts, code, outcome, results
from support.review_page import prepared, room_at
from support.writes import DEEDS, Deed, make

TARGETS = {
    "create": "n.txt",
    "create deep": "n/e/w.txt",
    "append creates": "n/w.txt",
    "remove": "n.txt",
    "in place": "h.txt",
    "three files": "d/b.txt",
}
"""The file that the other program writes, where it is not a.txt."""


class Between:
    """Does something before the k-th system call of a write, and something else a few calls later.

    Only calls of the thread that made it count: what looks for overwritten edits afterwards has one
    of its own, and what is done in it could be half done when the test looks.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self._thread = 0, threading.current_thread()
        self.at: dict[int, Callable[[], None]] = {}
        self._waiting: list[Callable[[], None]] | None = None
        monkeypatch.setattr(_os, "lease", self._leasing(_os.lease))
        monkeypatch.setattr(writes, "LATE_SECONDS", 3600.0)
        for name in WRITE_PATH:
            monkeypatch.setattr(_os, name, self._wrapped(getattr(_os, name)))

    def start(self, at: dict[int, Callable[[], None]]) -> None:
        self.count, self.at = 0, at

    def _wrapped(self, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **named: object) -> object:
            if threading.current_thread() is not self._thread:
                return call(*args, **named)
            self.count += 1
            act = self.at.pop(self.count, None)
            if act is not None and self._waiting is not None:
                self._waiting.append(act)
            elif act is not None:
                act()
            return call(*args, **named)

        return wrapped

    def _leasing(self, lease: Callable[[int, int], bool | None]) -> Callable[..., bool | None]:
        """While a file is leased whoever opens it waits; this thread would for ever."""

        def leasing(fd: int, kind: int) -> bool | None:
            given = lease(fd, kind)
            if kind == _os.ALONE and given:
                self._waiting = []
            elif kind == _os.FREE and self._waiting is not None:
                waited, self._waiting = self._waiting, None
                for act in waited:
                    act()
            return given

        return leasing


class Program:
    """Another program that writes to a file, each of its `lines` once."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.lines: list[bytes] = []
        self._fd = -1

    def act(self) -> None:
        """Write a line, or begin to; what is begun is ended by the next call."""
        line = b"foreign %d\n" % len(self.lines)
        with suppress(FileNotFoundError, NotADirectoryError):
            {"append": self._append, "hold": self._hold, "save": self._save, "cut": self._cut}[
                self.kind
            ](line)

    def _append(self, line: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(line)
        self.lines.append(line)

    def _hold(self, line: bytes) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            return
        os.write(self._fd, line)
        os.close(self._fd)
        self._fd = -1
        self.lines.append(line)

    def _save(self, line: bytes) -> None:
        beside = self.path.with_name("saved")
        beside.write_bytes(self.path.read_bytes() + line)
        beside.replace(self.path)
        self.lines.append(line)

    def _cut(self, line: bytes) -> None:
        self.path.read_bytes()  # it must be there
        self.path.write_bytes(line)
        self.lines[:] = [line]

    def end(self) -> None:
        """It writes what it has begun."""
        if self._fd >= 0:
            self.act()


def kept(opened: OpenWorkspace, *reports: Facts) -> bytes:
    """All that was saved in the journal, if it was told."""
    told = {
        int(row["edit_id"])
        for report in reports
        for row in report.get("foreign_writes", [])
        if row["code"] == "FOREIGN_WRITE_SAVED"
    }
    entries = [entry for entry in opened.journal.entries(most=20) if entry.tool == TOOL]
    assert {entry.edit_id for entry in entries if entry.edit_id not in told} <= _told_before
    _told_before.update(told)
    return b"\n".join(edit.new for e in entries for edit in e.inverse.edits)


_told_before: set[int] = set()


def check_kept(
    root: Path, opened: OpenWorkspace, deed: Deed, program: Program, report: Facts, more: Facts
) -> None:
    """What the program wrote is there, and the report says what became of our own."""
    found = b"".join(
        p.read_bytes() for p in root.rglob("*") if p.is_file() and ".copy" not in str(p)
    )
    saved = kept(opened, report, more)
    for line in program.lines:
        assert line in found or line in saved, (line, report)
    entries = opened.journal.entries(most=20)
    assert not [e for e in entries if e.state == "open"]
    assert not [path for path in root.rglob("*") if is_temp(path.name.encode())]
    if program.kind in ("append", "hold") and code(report) == "ok":
        for name, data in deed.after.items():
            assert set(data.split()) <= set((root / name).read_bytes().split())


KINDS = ("append", "hold", "save", "cut")
FAST = {(name, kind) for name in ("replace", "in place", "remove", "create") for kind in KINDS}


def no_pause(seconds: float) -> None:
    """The other program does nothing in it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "laters"),
    [
        pytest.param(name, kind, laters, marks=[pytest.mark.slow] * slow)
        for name in DEEDS
        for kind in KINDS
        for laters, slow in (((0, 2), (name, kind) not in FAST), ((1, 4), True))
    ],
)
def test_another_program_writes_before_each_call(
    tmp_path: Path, name: str, kind: str, laters: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once (0), and twice with so many calls in between."""
    between = Between(monkeypatch)
    monkeypatch.setattr(_os, "pause", no_pause)
    monkeypatch.setattr(overwritten, "LOOKED_BACK_MS", 0)  # all edits before are overwritten here
    deed = DEEDS[name]
    _told_before.clear()
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        for later in laters:
            for first in range(1, 500):
                make(tmp_path)
                tool, arguments = deed.ready(opened)
                target = tmp_path / TARGETS.get(name, "a.txt")
                program = Program(target, kind)
                at = {first: program.act, **({first + later: program.act} if later else {})}
                between.start(at)
                report = outcome(opened, tool, **arguments)
                is_over = bool(at)
                between.start({})
                program.end()
                opened.files._late.close()  # type: ignore[attr-defined] # the late looks, now
                opened.files._late._closed = False  # type: ignore[attr-defined]
                more = outcome(opened, "list_dir", path="d")
                check_kept(tmp_path, opened, deed, program, report, more)
                if is_over:
                    break
            else:
                raise AssertionError("there is no end of calls")


EXCHANGING = ("replace", "overwrite", "undo", "three files")


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize(("name", "kind"), [*product(EXCHANGING, KINDS)])
def test_another_program_writes_at_the_last_moment(
    tmp_path: Path, name: str, kind: str, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last check and the exchange, where only a look at the file that came out can tell.

    Where the system cannot exchange names it is the check right before the rename that tells.
    """
    monkeypatch.setattr(_os, "pause", no_pause)
    deed, exchange = DEEDS[name], _os.rename_exchange
    _told_before.clear()
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = deed.ready(opened)
        program = Program(tmp_path / TARGETS.get(name, "a.txt"), kind)
        acts = [program.act]

        def exchanged(fd: int, one: bytes, other: bytes) -> None:
            if acts and other == program.path.name.encode():
                acts.pop()()
            if not can_exchange:
                raise OSError(errno.EINVAL, "it cannot")
            exchange(fd, one, other)

        monkeypatch.setattr(_os, "rename_exchange", exchanged)
        report = outcome(opened, tool, **arguments)
        program.end()
        opened.files._late.close()  # type: ignore[attr-defined] # the late looks, now
        more = outcome(opened, "list_dir", path="d")
        assert not acts
        assert program.lines
        check_kept(tmp_path, opened, deed, program, report, more)


@needs("openat2")  # else each fifth call is one of each reading, which gives up before a write
@pytest.mark.parametrize("step", [3, 5])
@pytest.mark.parametrize(
    "name",
    [
        "replace",
        pytest.param("three files", marks=pytest.mark.slow),
        pytest.param("undo", marks=pytest.mark.slow),
    ],
)
def test_an_edit_of_a_file_that_is_appended_to_without_pause_may_be_refused(
    tmp_path: Path, name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses nothing, and what is told is true."""
    between = Between(monkeypatch)
    monkeypatch.setattr(_os, "pause", no_pause)
    deed = DEEDS[name]
    _told_before.clear()
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        tool, arguments = deed.ready(opened)
        before = (tmp_path / "a.txt").read_bytes()
        program = Program(tmp_path / "a.txt", "append")
        between.start(dict.fromkeys(range(step, 100_000, step), program.act))
        report = outcome(opened, tool, **arguments)
        between.start({})
        opened.files._late.close()  # type: ignore[attr-defined]
        opened.files._late._closed = False  # type: ignore[attr-defined]
        more = outcome(opened, "list_dir", path="d")
        check_kept(tmp_path, opened, deed, program, report, more)
        text = (tmp_path / "a.txt").read_bytes()
        if code(report) != "ok":
            assert "again and again" in report["reason"]
            assert text == before + b"".join(program.lines)
        assert max(Counter(text.splitlines()).values()) == 1
        assert len(program.lines) > 10


class Reader:
    """Another program reads a file right after our text took its name, and saves it with a line more.

    It does so when that write was rolled back, since a third program has saved the file `disturb`.
    """

    def __init__(self, path: Path, disturb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.other = path, disturb
        self.text = ""
        self.is_saved = False
        self.exchange = _os.rename_exchange
        monkeypatch.setattr(_os, "rename_exchange", self.exchanging)

    def exchanging(self, fd: int, one: bytes, other: bytes) -> None:
        before = self.path.read_text()
        self.exchange(fd, one, other)
        now = self.path.read_text()
        if not self.text and now != before:
            self.text = now.replace("new\n", "theirs\nnew\n")
            save(self.other, "third\n" + self.other.read_text())
        elif self.text and now != before and not self.is_saved:
            save(self.path, self.text)
            self.is_saved = True


def save(path: Path, text: str) -> None:
    beside = path.with_name("saved")
    beside.write_text(text)
    beside.replace(path)


PATCH = """*** Begin Patch
*** Update File: a.txt
@@
 a2
+new
*** Update File: d/b.txt
@@
 b2
+new
*** End Patch
"""


@needs("exchange")
@pytest.mark.parametrize("tool", ["apply_file_modifications", "apply_patch"])
def test_what_was_read_before_it_was_rolled_back_is_not_written_twice(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write starts again, and finds its lines in what the other program has saved."""
    make(tmp_path)
    config = Config(durability="fast", toolsets=("ws_mod", "patch"))
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        arguments: Facts = {"patch": PATCH, "apply": "auto"}
        if tool != "apply_patch":
            plans = [
                outcome(opened, "prepare_file_insert_after", path=p, anchor=line, content="new")
                for p, line in (("a.txt", "a2"), ("d/b.txt", "b2"))
            ]
            arguments = {"hunk_ids": [plan["hunk_id"] for plan in plans]}
        reader = Reader(tmp_path / "a.txt", tmp_path / "d/b.txt", monkeypatch)
        report = outcome(opened, tool, **arguments)
        opened.files._late.close()  # type: ignore[attr-defined] # the late looks, now
    assert reader.is_saved
    assert code(report) == "CONTENT_CHANGED" or report.get("auto_apply_reason"), report
    assert (tmp_path / "a.txt").read_text() == reader.text == "a1\na2\ntheirs\nnew\na3\n"
    assert (tmp_path / "d/b.txt").read_text() == "third\nb1\nb2\nb3\n"


# Who is told


@pytest.fixture
def overwrite_in_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Call it with a name: a program writes to that file right after the exchange was looked at."""
    if not _os.offers.exchange:
        pytest.skip("names are not exchanged")
    real = writes.Target.holds_content

    def start(name: str) -> None:
        path = tmp_path / name
        before = path.stat().st_ino

        def looked_at(old: writes.Target) -> bool:
            is_same, fd = real(old), old.fd
            if os.fstat(fd).st_ino == before != path.stat().st_ino:
                monkeypatch.setattr(writes.Target, "holds_content", real)
                with open(f"/proc/self/fd/{fd}", "r+b") as file:
                    file.write(b"FOREIGN WAS HERE")
            return is_same

        monkeypatch.setattr(writes.Target, "holds_content", looked_at)

    return start


TEXT = "a long enough line\nb\n"
SAVED = {"en": "another program wrote a.txt", "zh": "另一个程序写入了它"}
Start = Callable[[str], None]


def lasting(root: Path) -> list[str]:
    """What is found by the next process: each saved write brought back alone."""
    found: list[str] = []
    with open_workspace(str(root), Config(durability="fast")) as opened:
        for entry in opened.journal.entries(most=100):
            if entry.tool == TOOL:
                found += [edit.new.decode() for edit in entry.inverse.edits]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lang", "command"),
    spread(("en", "zh"), ("apply", "apply several", "undo", "call", "review"), of=3),
)
def test_every_command_says_what_another_program_wrote(
    tmp_path: Path,
    command: str,
    lang: str,
    overwrite_in_the_exchange: Start,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.txt").write_text(TEXT)
    (tmp_path / "copydesk.toml").write_text('durability = "fast"\n')

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["--root", str(tmp_path), "--lang", lang, *words])
        return status, *capsys.readouterr()

    def plan(name: str) -> str:
        insert = ["--path", name, "--anchor", "b", "--content", "N", "--json"]
        return str(json.loads(run("call", "prepare_file_insert_after", *insert)[1])["hunk_id"])

    hunk = plan("a.txt")
    words = {
        "apply": ["apply", hunk],
        "apply several": ["apply", hunk, plan("b.txt")],
        "undo": ["undo", "1"],
        "review": ["review"],
        "call": ["call", "apply_file_modification", "--hunk-id", hunk],
    }[command]
    if command == "undo":
        assert run("apply", hunk)[0] == 0
    overwrite_in_the_exchange("a.txt")
    monkeypatch.setattr("sys.stdin", io.StringIO("w\n"))
    status, out, _ = run(*words)
    assert status == 0
    assert SAVED[lang] in out
    edit_id = max(entry["edit_id"] for entry in json.loads(run("history", "--json")[1]))
    assert f"copydesk undo {edit_id}" in out
    assert any("FOREIGN WAS HERE" in text for text in lasting(tmp_path))
    assert run("undo", str(edit_id))[0] == 0
    assert "FOREIGN WAS HERE" in (tmp_path / "a.txt").read_text()


KILLED = """
import os, sys
from copydesk import Desk
from copydesk.edit.request import Anchor, Insert
from copydesk.store import _os
root, shared = sys.argv[1:]
exchange = _os.rename_exchange
def saved_and_killed(fd, one, other):
    with open(root + "/saved", "w") as file:
        file.write("FOREIGN WAS HERE")
    os.rename(root + "/saved", root + "/a.txt")
    exchange(fd, one, other)
    os._exit(9)
_os.rename_exchange = saved_and_killed
with Desk(root, shared=shared == "shared") as desk:
    desk.edit(Insert(desk.path("a.txt"), Anchor("b"), "N"))
"""


def killed(root: Path, shared: str) -> None:
    """A desk is killed when its file has just taken the name from one that was saved at that moment."""
    (root / "a.txt").write_text(TEXT)
    ran = subprocess.run([sys.executable, "-c", KILLED, str(root), shared], check=False)
    assert ran.returncode == 9
    assert (root / "a.txt").read_text() == f"{TEXT}N\n"


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("words", [["recover"], ["recover", "--json"], ["history"]])
def test_after_a_kill_the_next_command_says_what_another_program_wrote(
    tmp_path: Path,
    words: list[str],
    lang: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    killed(tmp_path, "shared")
    assert main(["--root", str(tmp_path), "--lang", lang, *words]) == 0
    out = capsys.readouterr().out
    if "--json" in words:
        assert json.loads(out)["foreign_writes"] == [
            {"code": "FOREIGN_WRITE_SAVED", "path": "a.txt", "edit_id": 2}
        ]
        return
    if words == ["history"]:  # it has its own output
        (out,) = caplog.messages
    assert SAVED[lang] in out
    assert "copydesk undo 2" in out


@pytest.mark.slow
@pytest.mark.parametrize("file", ["is there", "is removed", "has another name"])
def test_recover_removes_no_only_copy_of_what_another_program_saved(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that is killed and has no journal on the disk leaves it in a temporary file."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main(["--root", str(tmp_path), *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    name = "b.txt" if file == "has another name" else "a.txt"
    append = ["--path", name, "--content", "x", "--apply", "auto"]
    run("call", "prepare_file_append", *append)
    killed(tmp_path, "alone")
    if file == "is removed":
        (tmp_path / "a.txt").unlink()
    elif file == "has another name":
        (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    (left,) = tmp_path.glob(".copydesk-*.tmp")
    assert left.read_text() == "FOREIGN WAS HERE"
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 120 * 10**9)  # it is two minutes old
    found = run("recover")
    if file == "has another name":
        assert found["leftovers_kept"] == [left.name]
        assert left.read_text() == "FOREIGN WAS HERE"
        assert main(["--root", str(tmp_path), "recover"]) == 0
        assert f"Kept {left.name}" in capsys.readouterr().out
        return
    (saved,) = found["foreign_writes"]
    assert (saved["code"], saved["path"]) == ("FOREIGN_WRITE_SAVED", "a.txt")
    assert "leftovers_kept" not in found
    assert not left.exists()
    run("undo", str(saved["edit_id"]))
    assert (tmp_path / "a.txt").read_text() == "FOREIGN WAS HERE"
    assert "foreign_writes" not in run("recover"), "it is said once"


@pytest.mark.slow
def test_recover_keeps_what_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a file that a write had to leave under its temporary name (`NotPutBack`)."""
    killed(tmp_path, "alone")
    (left,) = tmp_path.glob(".copydesk-*.tmp")
    (tmp_path / left.name.replace(".tmp", "-new.tmp")).write_text("half of a new fi")
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        assert outcome(opened, "create_new_file", path="b.txt", content="x")["status"] == "ok"
        later = opened.clock() + 120_000

        def full(*_: object) -> int:
            raise Failed("use the state folder", "database or disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "open", full)
            assert opened.recovery.sweep(later) == (1, (RelPath.parse(left.name),))
        assert left.read_text() == "FOREIGN WAS HERE"
        assert opened.recovery.sweep(later) == (1, ())
    assert any("FOREIGN WAS HERE" in text for text in lasting(tmp_path))


def test_what_copydesk_has_recorded_is_swept_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        append = {"path": "a.txt", "content": "N", "apply": "auto"}
        assert outcome(opened, "prepare_file_append", **append)["changed"]
        digest = hashlib.sha256(b"a.txt").hexdigest()[:6]
        for i, old in enumerate((TEXT, f"{TEXT}N\n")):
            left = tmp_path / f".copydesk-{digest}00000{i}.tmp"
            left.write_text(old)
            assert is_temp_of(left.name.encode(), b"a.txt")
        assert opened.recovery.sweep(opened.clock() + 120_000) == (2, ())
        assert opened.desk.foreign.take_untold() == ()
        assert len(opened.journal.entries()) == 1


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("how", ["apply", "apply_all", "edit", "batch", "overwrite", "undo"])
def test_a_result_of_the_library_has_what_another_program_wrote(
    tmp_path: Path,
    how: str,
    shared: bool,
    overwrite_in_the_exchange: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It can be undone by the desk at hand, and is on the disk when that is closed."""
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    with Desk(tmp_path, shared=shared) as desk:
        request = Insert(desk.path("a.txt"), Anchor("b"), "N")
        first = desk.apply(desk.prepare(request).id)
        assert first.foreign_writes == ()
        plan = desk.prepare(request)
        deeds: dict[str, Callable[[], Any]] = {
            "apply": lambda: desk.apply(plan.id),
            "apply_all": lambda: desk.apply_all(plan.id),
            "edit": lambda: desk.edit(request),
            "batch": lambda: desk.batch("a.txt", [("b\n", "c\n")]),
            "overwrite": lambda: desk.overwrite("a.txt", "c\n", known_lines=3, known_bytes=23),
            "undo": lambda: desk.undo(first.edit_id),
        }
        overwrite_in_the_exchange("a.txt")
        done = deeds[how]()
        (saved,) = done.foreign_writes
        assert str(saved.path) == "a.txt"
        assert desk.foreign_writes() == (), "it is said once"
        assert any("FOREIGN WAS HERE" in text for text in lasting(tmp_path))
        desk.undo(saved.edit_id)
        assert "FOREIGN WAS HERE" in path.read_text()
    assert caplog.messages == []


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_written_after_the_last_result_is_on_the_disk_and_logged(
    tmp_path: Path,
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The old file is looked at once more when the desk is closed, before its journal is."""
    monkeypatch.setattr(writes, "LATE_SECONDS", 3600.0)
    (tmp_path / "a.txt").write_text(TEXT)
    with (tmp_path / "a.txt").open("r+b") as late:
        with Desk(tmp_path, shared=shared) as desk:
            done = desk.edit(Insert(desk.path("a.txt"), Anchor("b"), "N"))
            assert isinstance(done, Applied)
            late.write(b"FOREIGN WAS HERE")
            late.flush()
        assert lasting(tmp_path) == ["FOREIGN WAS HEREne\nb\n"]
    with open_workspace(str(tmp_path)) as opened:
        (found,) = (entry for entry in opened.journal.entries() if entry.tool == TOOL)
    (message,) = caplog.messages
    assert "FOREIGN_WRITE_SAVED" in message
    assert f"copydesk undo {found.edit_id}" in message


def test_without_a_foreign_write_the_library_keeps_nothing_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with Desk(tmp_path) as desk:
        desk.edit(Insert(desk.path("a.txt"), Anchor("b"), "N"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("action", ["apply", "undo"])
def test_the_page_says_what_another_program_wrote(
    tmp_path: Path, action: str, overwrite_in_the_exchange: Start
) -> None:
    with room_at(tmp_path) as room:
        (room.root / "a.txt").write_text(TEXT)
        reader = room.reader()
        hunk = prepared(room.desk, path="a.txt", content="N\n")
        if action == "undo":
            reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/apply")
            overwrite_in_the_exchange(str(room.root / "a.txt"))
            page = reader.send("/edit/1", "/edit/1/undo")
        else:
            overwrite_in_the_exchange(str(room.root / "a.txt"))
            page = reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/apply")
        assert "another program wrote a.txt" in page
        assert "undo edit" in page


# Real programs

HOLDER = 'exec 3>>"$1"; echo open; read _ || exit 0; echo foreign 0 >&3; exec 3>&-; echo written'


@pytest.mark.parametrize(
    ("settled", "name"),
    spread((False, True), [name for name in DEEDS if "creat" not in name], of=3),
)
def test_a_file_that_another_program_keeps_open_is_written(
    tmp_path: Path, name: str, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a log is. That is told at once, and what it writes to its old handle later is an edit."""
    monkeypatch.setattr(writes, "LATE_SECONDS", 3600.0)
    target, deed = tmp_path / TARGETS.get(name, "a.txt"), DEEDS[name]
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        make(tmp_path)
        if settled:  # so old that the clock tells each later write
            for path in tmp_path.rglob("*.txt"):
                os.utime(path, ns=(1, 1))
            time.sleep(0.05)
        tool, arguments = deed.ready(opened)
        command = ["sh", "-c", HOLDER, "sh", str(target)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            inode = target.stat().st_ino
            report = outcome(opened, tool, **arguments)
            assert code(report) == "ok", report
            if name == "move":  # the file itself is moved, and the handle leads to it
                target = tmp_path / "m/o/ved.txt"
            is_gone = not target.exists() or target.stat().st_ino != inode
            said = [str(target.relative_to(tmp_path))] if is_gone and _os.offers.leases else None
            assert report.get("open_elsewhere") == said
            assert [e.state for e in opened.journal.entries(most=20)].count("failed") == 0
            found = {path.name: path.read_bytes() for path in tmp_path.rglob("*.txt")}
            assert {Path(n).name: data for n, data in deed.after.items()}.items() <= found.items()
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "written\n"
        opened.files._late.close()  # type: ignore[attr-defined] # the late looks, now
        saved = kept(opened, report, outcome(opened, "list_dir", path="d"))
        there = target.read_bytes() if target.exists() else b""
        assert (b"foreign 0" in saved) is is_gone
        assert (b"foreign 0\n" in there) is not is_gone
        assert not [path for path in tmp_path.rglob("*") if is_temp(path.name.encode())]


SHELL = (
    'i=0; until [ -e "$2" ]; do i=$((i+1)); echo "foreign $3 $i" >> "$1"; echo $i > "$2.$3"; done'
)
PYTHON = """
import os, sys, time
path, stop, name, how = sys.argv[1:]
count = 0
while not os.path.exists(stop):
    count += 1
    line = f"foreign {name} {count}\\n"
    if how == "append":
        with open(path, "a") as file:
            time.sleep(0.001)  # it is open for longer than others
            file.write(line)
    else:
        with open(path) as file:
            old = file.read()
        with open(path + ".saved", "w") as file:
            file.write(old + line)
        os.replace(path + ".saved", path)
    with open(f"{stop}.{name}", "w") as file:
        file.write(str(count))
    time.sleep(0.004)
"""
PROGRAMS = {
    "shell": ["sh", "-c", SHELL + "; :", "sh"],
    "append": [sys.executable, "-c", PYTHON],
    "save": [sys.executable, "-c", PYTHON],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("programs", "writers", "durability"),
    [
        (("append",), 2, "full"),
        (("save",), 2, "full"),
        (("append",), 4, "fast"),
        (("save",), 4, "fast"),
        (("shell", "append"), 2, "fast"),
    ],
)
def test_real_programs_write_all_the_time(
    tmp_path: Path, programs: tuple[str, ...], writers: int, durability: Durability
) -> None:
    """Hundreds of their lines (`make foreign`: thousands), and each is in the file or in an edit that was told."""
    root, stop = tmp_path / "root", tmp_path / "stop"
    root.mkdir()
    path = root / "f.txt"
    path.write_text("above\nanchor\nbelow\n")
    running = [
        subprocess.Popen([*PROGRAMS[name], str(path), str(stop), name, name]) for name in programs
    ]
    try:
        works = [
            ("insert_for", {"path": "f.txt", "name": f"p{i}", "seconds": 5}) for i in range(writers)
        ]
        told = results(root, *works, settings={"durability": durability})
    finally:
        stop.touch()
        for each in running:
            each.wait(30)
    ids = {row["edit_id"] for facts in told for fact in facts for row in fact["foreign_writes"]}
    with open_workspace(str(root), Config(durability="fast")) as opened:
        saved = [entry for entry in opened.journal.entries(most=100_000) if entry.tool == TOOL]
        assert {entry.edit_id for entry in saved} == ids
        kept = {n for e in saved for d in e.inverse.edits for n in d.new.decode().split("\n")}
    lines = Counter(path.read_text().split("\n"))
    count = 0
    for name in programs:
        for i in range(1, int(Path(f"{stop}.{name}").read_text()) + 1):
            count += 1
            assert lines[f"foreign {name} {i}"] == 1 or f"foreign {name} {i}" in kept
    ours = [fact["line"] for facts in told for fact in facts if fact["code"] == "ok"]
    if "save" not in programs:  # it may save what it read before our edit
        assert all(lines[line] == 1 for line in ours)
        assert sum(line.startswith("p") for line in lines) == len(ours)
    print(f"\n{programs}: {count} lines, {len(ids)} saved in the journal, {len(ours)} edits")
    assert count > 150
    codes = {fact["code"] for facts in told for fact in facts} - {""}  # of a last look, no edit
    assert ours or codes == {"FAILED"}, "where others never pause, an edit may be refused"


def test_what_a_foreign_write_changed_is_recorded_as_whole_lines() -> None:
    texts = [bytes(each) for size in range(6) for each in product(b"a\n", repeat=size)] + [
        b"\r\n\ra\n",
        b"a\r\ra\n",
    ]
    for old, new in product(texts, repeat=2):
        edit = _difference(old, new)
        assert old[: edit.start] + edit.new + old[edit.stop :] == new
        lines, others = io.BytesIO(old).readlines(), io.BytesIO(new).readlines()
        same = list(takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False)))
        assert edit.start == sum(len(line) for line, _ in same)
        rest = zip(lines[len(same) :][::-1], others[len(same) :][::-1], strict=False)
        after = takewhile(lambda pair: pair[0] == pair[1], rest)
        assert edit.stop == len(old) - sum(len(line) for line, _ in after)


@pytest.mark.parametrize(
    ("theirs", "ours", "now", "kind"),
    [
        (b"x\n", b"a\n", b"a\n", "edit"),
        (b"x\n", None, b"a\n", "edit"),
        (b"x\n", None, None, "remove"),
        (b"", None, None, "remove"),
        (b"", None, b"a\n", "edit"),
        (b"a\n", None, b"a\n", None),
        (b"a\n", b"a\n", b"a\n", None),
        (b"", None, b"", None),
    ],
)
def test_a_saved_write_comes_back_by_undo(
    tmp_path: Path, theirs: bytes, ours: bytes | None, now: bytes | None, kind: str | None
) -> None:
    """What is in the file already is no entry; a file that is gone is made again, also empty."""
    path = tmp_path / "a.txt"
    if now is not None:
        path.write_bytes(now)
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        opened.desk.foreign.keep(RelPath.parse("a.txt"), theirs, ours, False)
        entries = opened.journal.entries()
        assert [(entry.kind, entry.state) for entry in entries] == [(kind, "done")] * bool(kind)
        for entry in entries:
            outcome(opened, "undo_file_modification", edit_id=entry.edit_id)
            assert path.read_bytes() == theirs
