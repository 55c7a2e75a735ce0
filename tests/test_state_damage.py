"""Each file of the state folder, damaged in each way: what needs it is refused, the rest goes on."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import time_ns
from typing import Any

import apsw
import pytest

from copydesk import Desk
from copydesk.app.cli import main
from copydesk.app.config import Config, MemberConfig
from copydesk.app.doctor import examine, repair
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import SCHEMA, Entry, PlanVersion
from copydesk.desk.outcome import Applied
from copydesk.edit.request import Append
from copydesk.errors import SchemaMismatch
from copydesk.text.relpath import RelPath
from copydesk.tools.report import Answer
from support.cost import first, spread
from support.mcp_transports import HELLO, Process, request

FAST = Config(durability="fast")
TEXT = "one\ntwo\nthree\n"

NEEDED: dict[str, set[str]] = {
    "state.sqlite": {"plan", "apply", "history", "undo", "write"},
    "texts.sqlite": set(),
}
"""What cannot be done without a file."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with some edits, and a plan that waits; its files have several pages."""
    root = tmp_path_factory.mktemp("used")
    (root / "a.txt").write_text(TEXT)
    (root / "big.txt").write_text("line\n" * 20_000)
    people = Config(durability="fast", members={"agent": MemberConfig(approval="human")})
    with open_workspace(str(root), people) as opened:
        for number in range(60):
            content = f"{number} " + "x" * 200
            name = f"n{number}.txt"
            assert not refused(call(opened, "create_new_file", path=name, content=content))
            plan = call(opened, "prepare_file_append", by="agent", path=name, content=content)
            opened.desk.review.reject(opened.member("local"), plan["hunk_id"], "no " + "y" * 100)
        for number in range(60):
            waits = call(opened, "prepare_file_append", path="a.txt", content=f"end {number}\n")
    (root / "hunk").write_text(waits["hunk_id"])
    return root


def call(
    opened: OpenWorkspace, tool: str, /, by: str = "local", **arguments: object
) -> dict[str, Any]:
    """The fields of an answer."""
    answer = opened.call(by, tool, arguments)
    assert isinstance(answer, Answer)
    return dict(answer.fields)


def refused(fields: dict[str, Any]) -> bool:
    return fields["status"] == "error"


def done(opened: OpenWorkspace, root: Path) -> dict[str, dict[str, Any]]:
    """What came of each thing that can be asked for."""
    hunk = (root / "hunk").read_text()
    return {
        "read": call(opened, "read_file", path="a.txt"),
        "plan": call(opened, "prepare_file_range_edit", path="a.txt", range="1", content="ONE"),
        "apply": call(opened, "apply_file_modification", hunk_id=hunk),
        "history": call(opened, "list_edits"),
        "undo": call(opened, "undo_file_modification", edit_id=3),
        "write": call(opened, "create_new_file", path="new.txt", content="new\n"),
    }


def change(at: Callable[[int], int], bytes_: bytes) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        with file.open("r+b") as opened:
            opened.seek(at(file.stat().st_size))
            opened.write(bytes_)

    return damage


def drop_tables(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in found:
            if not name.startswith("sqlite_"):
                db.execute(f"DROP TABLE {name}")


def be_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def cut(share: float) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, int(file.stat().st_size * share))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "header": change(lambda size: 0, b"\xa5" * 100),
    "first page": change(lambda size: 100, b"\xa5" * 3_000),
    "middle": change(lambda size: size // 2, b"\xa5" * 8_192),
    "one bit": change(lambda size: size - 300, b"\xa5"),
    "half": cut(0.5),
    "empty": cut(0),
    "text": lambda file: file.write_text("this is not a database\n" * 1_000) and None,
    "folder": be_a_folder,
    "tables": drop_tables,
}
SURE = {"header", "text", "folder", "tables"}
"""After these nothing can be read of the file."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "damage"), spread(NEEDED, DAMAGES, of=3))
def test_a_damaged_file_stops_only_what_needs_it(
    used: Path, tmp_path: Path, name: str, damage: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(used, root)
    file = root / ".copydesk" / name
    DAMAGES[damage](file)
    with open_workspace(str(root), FAST) as opened:
        found = done(opened, root)
        check_damage(found, root, name, sure=damage in SURE)
        opened._backend.bases.shown("local", RelPath.parse("a.txt"))  # which waits for the texts
        if damage in SURE - {"folder", "tables"} and name == "texts.sqlite":
            told = [*found.values(), call(opened, "list_dir", path="")]
            lost = [words for fields in told for words in fields.get("state_lost", [])]
            assert len(lost) == 1, "once"
            assert f"{file} was damaged" in lost[0]
        bad = {one.what for one in examine(str(root)) if not one.ok}
        if damage in SURE:  # remembered texts are begun anew by themselves
            assert len(bad) == (name != "texts.sqlite" or damage == "folder")
        done_ = repair(str(root))
        assert {one.what for one in done_} == bad or name == "texts.sqlite"
        assert [one for one in examine(str(root)) if not one.ok] == []
        aside = [path for path in file.parent.iterdir() if ".damaged-" in path.name]
        assert bool(aside) is bool(done_), "renamed, never deleted"
        again = call(opened, "prepare_file_range_edit", path="a.txt", range="1", content="1")
        assert not refused(again), again
        last = call(opened, "apply_file_modification", hunk_id=again["hunk_id"])
        assert not refused(last), last
    assert (root / "a.txt").read_text().startswith("1\n")


def check_damage(found: dict[str, dict[str, Any]], root: Path, name: str, *, sure: bool) -> None:
    file = str(root / ".copydesk" / name)
    assert "one\n" in (root / "a.txt").read_text()
    assert (root / "new.txt").exists() is not refused(found["write"])
    for asked, fields in found.items():
        assert "log_id" not in fields, (asked, fields)
        if asked not in NEEDED[name]:
            assert not refused(fields), (asked, fields)
        elif refused(fields) and fields["error"] == "FAILED":
            assert fields["file"] == file
            assert file in fields["summary"]
        else:
            assert not sure, (asked, fields)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with closing(apsw.Connection(str(file))) as db:
        db.set_busy_timeout(10_000)  # texts may still be kept, by a thread
        db.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def denied(file: Path) -> Iterator[None]:
    file.chmod(0)
    yield
    file.chmod(0o600)


@contextmanager
def read_only(file: Path) -> Iterator[None]:
    file.parent.chmod(0o500)
    yield
    file.parent.chmod(0o700)


NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a user who is not root: one who runs the tests as root is nobody meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def as_nobody(root: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.slow
@pytest.mark.parametrize("hindrance", [locked, denied, read_only])
@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_cannot_be_used_for_now_is_left_alone(
    used: Path,
    folder: Path,
    name: str,
    hindrance: Callable[[Path], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("copydesk.app.workspace.BUSY_SECONDS", 0.05)
    root = folder / "root"
    shutil.copytree(used, root)
    file = root / ".copydesk" / name
    with as_nobody(root):
        with hindrance(file), open_workspace(str(root), FAST) as opened:
            found = done(opened, root)
            if hindrance is not read_only:
                check_damage(found, root, name, sure=hindrance is denied)
            if hindrance is locked and name != "texts.sqlite":  # who only reads goes on
                assert refused(found["plan"])
                assert refused(found["write"])
                again = call(opened, "apply_file_modification", hunk_id=(root / "hunk").read_text())
                assert refused(again), "written once, or not at all"
            assert not refused(found["read"])
            assert all("log_id" not in fields for fields in found.values())
            if hindrance is locked:
                assert repair(str(root)) == []
            if hindrance is denied:
                assert [one.ok for one in repair(str(root))] == [True]
                assert not refused(done(opened, root)["history"])
        with open_workspace(str(root), FAST) as opened:
            assert not refused(call(opened, "create_new_file", path="last.txt", content="x"))
    assert not [path for path in file.parent.iterdir() if ".damaged-" in path.name]


def scribbled(file: Path) -> ExitStack:
    """The file's bytes are replaced."""
    file.write_bytes(b"no database" * 1_000)
    return ExitStack()


@pytest.mark.parametrize("hindrance", [locked, scribbled])
@pytest.mark.parametrize("how", ["call", "call --json", "apply", "library"])
def test_an_edit_that_was_written_is_reported_whatever_its_end_meets(
    tmp_path: Path,
    how: str,
    hindrance: Callable[[Path], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Between the write and the end of the process another program gets at the journal."""
    monkeypatch.setattr("copydesk.app.workspace.BUSY_SECONDS", 0.05)
    (tmp_path / "a.txt").write_text(TEXT)
    journal = tmp_path / ".copydesk/state.sqlite"
    hindered = ExitStack()
    closed = OpenWorkspace.close

    def close(opened: OpenWorkspace) -> None:
        if (tmp_path / "a.txt").read_text() != TEXT:
            hindered.enter_context(hindrance(journal))
        closed(opened)

    monkeypatch.setattr(OpenWorkspace, "close", close)
    edit = ["prepare_file_append", "--path", "a.txt", "--content", "end"]
    with hindered:
        if how == "library":
            with Desk(tmp_path, shared=True) as desk:
                plan = desk.prepare(Append(desk.path("a.txt"), "end\n"))
                assert isinstance(desk.apply(plan.id), Applied)
        else:
            root = ["--root", str(tmp_path)]
            words = [*root, "call", *edit, "--apply", "auto"]
            if how == "apply":
                assert main([*root, "call", *edit]) == 0
                (row,) = capsys.readouterr().out.partition("hunk_id: ")[2].split()[:1]
                words = [*root, "apply", row.strip('"')]
            words += ["--json"] if "json" in how else []
            assert main(words) == 0
            out, err = capsys.readouterr()
            assert "Written to a.txt" in out or out.startswith("ok a.txt:4 +1 -0 · edit 1 ")
            assert "changed" not in err
    assert (tmp_path / "a.txt").read_text() == f"{TEXT}end\n"
    if hindrance is locked:
        with open_workspace(str(tmp_path), FAST) as opened:
            assert [e.state for e in opened.journal.entries()] == ["done"]


def test_without_decisions_nothing_passes_that_a_person_has_to_see(
    used: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(used, root)
    file = root / ".copydesk" / "state.sqlite"
    people = Config(durability="fast", members={"agent": MemberConfig(approval="human")})
    plan = {"path": "a.txt", "content": "x"}
    with open_workspace(str(root), people) as opened:
        hunk = call(opened, "prepare_file_append", by="agent", **plan)["hunk_id"]
    DAMAGES["header"](file)
    with open_workspace(str(root), people) as opened:
        found = call(opened, "apply_file_modification", by="agent", hunk_id=hunk)
        assert (found["error"], found["file"]) == ("FAILED", str(file))
        found = call(opened, "prepare_file_append", by="agent", apply="auto", **plan)
        assert (found["error"], found["file"]) == ("FAILED", str(file))
        found = call(opened, "create_new_file", by="agent", path="n.txt", content="x")
        assert (found["error"], found["file"]) == ("FAILED", str(file))
        assert (root / "a.txt").read_text() == TEXT
        assert not (root / "n.txt").exists()
        assert [one.what for one in repair(str(root))] == ["state"]
        hunk = call(opened, "prepare_file_append", by="agent", **plan)["hunk_id"]
        found = call(opened, "apply_file_modification", by="agent", hunk_id=hunk)
        assert found["status"] == "pending"


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_a_newer_build_is_refused_and_one_that_only_adds_is_not(
    used: Path, tmp_path: Path, name: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(used, root)
    file = root / ".copydesk" / name
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        table = next(each for (each,) in tables if not each.startswith("sqlite_"))
        db.execute(f"ALTER TABLE {table} ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")
        db.execute("CREATE TABLE later (one INTEGER)")
    with open_workspace(str(root), FAST) as opened:
        assert not any(refused(fields) for fields in done(opened, root).values())
        with closing(apsw.Connection(str(file))) as db:
            db.set_busy_timeout(10_000)  # texts are still kept, by a thread
            db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(SchemaMismatch) as mismatch:
        open_workspace(str(root), FAST)
    numbers = (mismatch.value.file, mismatch.value.found_schema, mismatch.value.own_schema)
    assert numbers == (str(file), SCHEMA + 1, SCHEMA)


def killed_at(statement: int, root: Path) -> bool:
    """Whether a process that makes a first edit comes to so many statements; there it is killed."""
    child = os.fork()
    if not child:
        left = iter(range(statement - 1))

        def trace(*_: object) -> bool:
            return next(left, None) is not None or os.kill(os.getpid(), signal.SIGKILL) is None

        apsw.connection_hooks.append(lambda opened: setattr(opened, "exec_trace", trace))
        with Desk(root, shared=True) as desk:
            desk.apply(desk.prepare(Append(desk.path("a.txt"), "end\n")).id)
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def test_what_a_killed_process_left_of_a_state_file_goes_when_the_file_is_opened(
    tmp_path: Path,
) -> None:
    """Of one that was being made, and of one that is there; other files in the folder stay."""
    (tmp_path / "a.txt").write_text("one\n")
    for _ in range(2):
        state = tmp_path / ".copydesk"
        state.mkdir(exist_ok=True)
        left = [state / f"{name}.sqlite.0123abcd.tmp" for name in ("state", "texts")]
        for path in (*left, state / "mine.tmp"):
            path.write_bytes(b"half of a file")
        with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
            given = {"path": "a.txt", "content": "two\n", "apply": "auto"}
            assert opened.call("local", "prepare_file_append", given).data["status"] == "ok"
        assert [path for path in left if path.exists()] == []
        assert (state / "mine.tmp").exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_who_is_killed_while_the_files_are_made_leaves_none_that_counts_as_lost(
    tmp_path: Path,
) -> None:
    for statement in count(1):
        root = tmp_path / f"{statement}"
        root.mkdir()
        (root / "a.txt").write_text(TEXT)
        (root / "copydesk.toml").write_text('durability = "fast"\n')
        if not killed_at(statement, root):
            break
        with open_workspace(str(root)) as opened:
            made = call(opened, "create_new_file", path="new.txt", content="x\n")
            read = call(opened, "read_file", path="a.txt")
            opened._backend.bases.shown("local", RelPath.parse("a.txt"))  # which opens the texts
            lost = opened._backend.losses.take()
            assert [*made.get("state_lost", ()), *read.get("state_lost", ()), *lost] == []
    assert statement > 50


def ids_of(lost: Sequence[str]) -> set[int]:
    """The ids in runs like `3~5`."""
    ends = ([int(end) for end in run.split("~")] for run in lost)
    return {edit_id for run in ends for edit_id in range(run[0], run[-1] + 1)}


PAGE = 4096
PAGES: dict[str, Callable[[int], Callable[[Path], None]]] = {
    "other bytes": lambda page: change(lambda _: page * PAGE, b"\xa5" * PAGE),
    "zeros": lambda page: change(lambda _: page * PAGE, bytes(PAGE)),
    "no cells": lambda page: change(lambda _: page * PAGE + 3, bytes(2)),
}


def check_listed(root: Path) -> set[int]:
    """All edits are listed or named as lost, or the list is refused; return those lost."""
    with open_workspace(str(root), FAST) as opened:
        answer = call(opened, "list_edits", max_results=100)
        if refused(answer):
            assert answer["file"] == str(root / ".copydesk" / "state.sqlite")
            return set()
        listed = {row["edit_id"] for row in answer["edits"]}
        lost = ids_of(answer.get("lost_edits", ()))
        assert (listed | lost, listed & lost) == (set(range(1, 61)), set())
        for edit_id in lost:
            undone = call(opened, "undo_file_modification", edit_id=edit_id)
            assert undone["error"] in ("FAILED", "EDIT_NOT_FOUND")
            assert undone.get("reason") != "pruned"
        return lost


def last_page_of_edits(file: Path) -> int:
    """The number, counted from 0, of the page with the last rows of the table."""
    find = "SELECT pageno FROM dbstat WHERE name = 'edits' AND pagetype = 'leaf' ORDER BY path"
    with closing(apsw.Connection(str(file))) as db:
        pages = [int(page) for (page,) in db.execute(find)]
    assert len(pages) > 2
    return pages[-1] - 1


@pytest.mark.parametrize("how", first(*PAGES))
def test_the_edits_of_a_damaged_page_are_named(used: Path, tmp_path: Path, how: str) -> None:
    root = tmp_path / "root"
    shutil.copytree(used, root)
    file = root / ".copydesk" / "state.sqlite"
    PAGES[how](last_page_of_edits(file))(file)
    assert max(check_listed(root)) == 60


@pytest.mark.slow
@pytest.mark.parametrize("how", PAGES)
def test_whichever_page_is_damaged_no_edit_is_missing_silently(
    used: Path, tmp_path: Path, how: str
) -> None:
    lost: set[int] = set()
    for page in range(1, (used / ".copydesk" / "state.sqlite").stat().st_size // PAGE):
        root = tmp_path / f"{page}"
        shutil.copytree(used, root)
        PAGES[how](page)(root / ".copydesk" / "state.sqlite")
        lost |= check_listed(root)
    assert lost == set(range(1, 61))


LOGS: dict[str, Callable[[Path], object]] = {
    "half": cut(0.5),
    "empty": cut(0),
    "its last bytes": cut(0.95),
    "header": change(lambda _: 0, b"\xa5" * 32),
    "middle": change(lambda size: size // 2, b"\xa5" * 8_192),
    "whole": lambda log: change(lambda _: 0, os.urandom(log.stat().st_size))(log),
    "text": lambda log: log.write_text("this is not a log\n"),
    "deleted": Path.unlink,
}


# Deleted or replaced under a running server


class Server:
    """A running `copydesk mcp`."""

    def __init__(self, root: Path) -> None:
        self._process = Process(
            *(root, sys.executable, "-m", "copydesk", "mcp", "--structured"),
            *("--root", str(root)),
        )
        self._ids = count(2)
        self._process.send(
            request(1, "initialize", HELLO),
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        )
        assert self._process.answer()["id"] == 1

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        number = next(self._ids)
        self._process.send(request(number, "tools/call", {"name": tool, "arguments": arguments}))
        while (answer := self._process.answer()).get("id") != number:
            pass
        fields: dict[str, Any] = answer["result"]["structuredContent"]
        return fields

    def close(self) -> None:
        self._process.close()


FULL = (100, 0, 1, 4_096, 12_000, 20_000, 28_672)
"""The most bytes that a file can take before the disk is full: within each step of making one."""


def test_a_workspace_opens_where_the_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what a process that was killed left there is removed."""

    link = os.link

    def refused(*names: Any, **more: Any) -> None:
        if str(names[1]).endswith(".sqlite"):  # the root is on another file system
            raise PermissionError(errno.EPERM, "Operation not permitted")
        link(*names, **more)

    (tmp_path / ".copydesk").mkdir()
    left = tmp_path / ".copydesk" / "state.sqlite.0123abcd.tmp"
    left.write_bytes(b"half")
    monkeypatch.setattr(os, "link", refused)
    (tmp_path / "f").write_text("a\n")
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        append = {"path": "f", "content": "b", "apply": "auto"}
        done = opened.call("local", "prepare_file_append", append).fields
    assert done.get("edit_id") == 1, done
    assert [p.name for p in left.parent.iterdir() if ".tmp" in p.name] == []


@pytest.mark.parametrize(
    ("room", "when"), first(*((room, "start") for room in FULL), (4_096, "call"), (0, "call"))
)
def test_a_disk_that_was_full_at_the_first_call_has_lost_nothing(
    tmp_path: Path, room: int, when: str
) -> None:
    """At the start, which makes the file of plans and journal, or since then."""
    (tmp_path / "a.txt").write_text(TEXT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = {"path": "a.txt", "content": "four\n"}
    with ExitStack() as stack:
        if when == "call":
            opened = stack.enter_context(open_workspace(str(tmp_path), FAST))
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            if when == "start":
                opened = stack.enter_context(open_workspace(str(tmp_path), FAST))
            full = [opened.call("local", "prepare_file_append", plan).text for _ in range(2)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        found = done_first(opened)
    for text in full:
        assert "SQLite: disk I/O error" in text or "File too large" in text, text
    with open_workspace(str(tmp_path), FAST) as opened:
        found += done_first(opened)
    for text in (*full, *found):
        assert "lost" not in text, text
    # Of the two bytes there may have been room for the first, which says the same.
    assert (tmp_path / ".copydesk" / ".gitignore").read_text() in ("*\n", "*"[: room or 2])


def done_first(opened: OpenWorkspace) -> list[str]:
    """The answers to calls that use each file of the state folder."""
    reports = [
        opened.call("local", "read_file", {"path": "a.txt"}),
        opened.call("local", "prepare_file_append", {"path": "a.txt", "content": "five\n"}),
        opened.call("local", "list_edits", {}),
        opened.call("local", "create_new_file", {"path": f"{time_ns()}", "content": "new\n"}),
    ]
    assert not [one.text for one in reports if one.is_error]
    return [one.text for one in reports]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], Server]]]:
    """A workspace, and what starts one more server on it."""
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "copydesk.toml").write_text('durability = "fast"\n')
    with ExitStack() as running:
        yield tmp_path, lambda: running.enter_context(closing(Server(tmp_path)))


def lost(fields: dict[str, Any]) -> set[str]:
    """The files that an answer says were lost, and how."""
    return {
        f"{word} {Path(words.split()[3]).name}"
        for words in fields.get("state_lost", ())
        for word in ("deleted", "replaced", "empty")
        if word in words
    }


@pytest.mark.slow
def test_the_state_folder_is_deleted_between_calls(
    served: tuple[Path, Callable[[], Server]],
) -> None:
    root, start = served
    one, other = start(), start()
    waits = one.call("prepare_file_append", path="a.txt", content="waits")["hunk_id"]
    assert one.call("create_new_file", path="1.txt", content="1\n")["status"] == "ok"
    assert other.call("create_new_file", path="2.txt", content="2\n")["status"] == "ok"
    for turn in range(3):
        while (root / ".copydesk").exists():  # texts are remembered beside the work
            shutil.rmtree(root / ".copydesk", ignore_errors=True)
        for server in (one, other):
            name = f"{turn}{server is one}.txt"
            made = server.call("create_new_file", path=name, content="x\n")
            assert made["status"] == "ok", made
            assert "deleted state.sqlite" in lost(made) | {
                word.replace("replaced", "deleted") for word in lost(made)
            }
            again = server.call("read_file", path=name)
            twice = lost(again) & lost(made)  # texts may be begun anew while it is deleted
            assert twice <= {"deleted texts.sqlite"}, "it is told once"
    gone = one.call("apply_file_modification", hunk_id=waits)
    assert gone["error"] == "HUNK_NOT_FOUND"
    assert (root / "1.txt").read_text() == "1\n"
    hunk = other.call("prepare_file_append", path="a.txt", content="four")["hunk_id"]
    assert one.call("apply_file_modification", hunk_id=hunk)["status"] == "ok"
    assert (root / "a.txt").read_text() == TEXT + "four\n"


def test_the_records_are_emptied_under_a_running_desk(tmp_path: Path) -> None:
    """It is told once, and begun anew; no id is given twice."""
    (tmp_path / "a.txt").write_text(TEXT)
    file = tmp_path / ".copydesk" / "state.sqlite"
    with open_workspace(str(tmp_path), FAST) as opened:
        given: list[int] = []
        for turn in range(3):
            made = call(opened, "prepare_file_append", path="a.txt", content="x\n", apply="auto")
            assert lost(made) == ({"empty state.sqlite"} if turn else set())
            again = call(opened, "create_new_file", path=f"{turn}.txt", content="x\n")
            assert lost(again) == set(), "it is told once"
            listed = call(opened, "list_edits")
            ids = {row["edit_id"] for row in listed["edits"]}
            assert ids == {made["edit_id"], again["edit_id"]}
            assert not ids & {*given}
            given += ids
            os.truncate(file, 0)
        gone = call(opened, "undo_file_modification", edit_id=given[0])
        assert gone["error"] == "EDIT_NOT_FOUND"
        assert not refused(call(opened, "read_file", path="a.txt"))
    assert (tmp_path / "a.txt").read_text() == f"{TEXT}x\nx\nx\n"


@pytest.mark.slow
def test_the_records_are_emptied_under_running_servers(
    served: tuple[Path, Callable[[], Server]],
) -> None:
    """Whoever comes later notices too, also if who began them anew has ended."""
    root, start = served
    for ends in (False, True):
        one, other = start(), start()
        for server in (one, other):
            server.call("create_new_file", path=f"{time_ns()}", content="x\n")
        os.truncate(root / ".copydesk" / "state.sqlite", 0)
        made = one.call("create_new_file", path=f"{time_ns()}", content="x\n")
        assert lost(made) == {"empty state.sqlite"}
        if ends:
            one.close()
        later = other.call("create_new_file", path=f"{time_ns()}", content="x\n")
        assert lost(later) == {"replaced state.sqlite"}
        listed = other.call("list_edits")["edits"]
        assert [row["edit_id"] for row in listed] == [later["edit_id"], made["edit_id"]]


def other_database(file: Path) -> bytes:
    with closing(sqlite3.connect(file.with_name("other"))) as db:
        db.execute("CREATE TABLE t (a)")
        return db.serialize()


def other_records(file: Path) -> bytes:
    """Of another workspace."""
    root = file.parent / "other"
    root.mkdir()
    with open_workspace(str(root), FAST) as opened:
        call(opened, "create_new_file", path="a.txt", content="x\n")
    return (root / ".copydesk" / file.name).read_bytes()


OVERWRITES: dict[str, Callable[[Path], bytes]] = {
    "garbage": lambda file: b"garbage" * 1_000,
    "half": lambda file: file.read_bytes()[: file.stat().st_size // 2],
    "one page": lambda file: file.read_bytes()[:PAGE],
    "other database": other_database,
    "other records": other_records,
}


@pytest.mark.parametrize("how", spread(OVERWRITES, of=2))
def test_nothing_is_written_once_the_records_were_overwritten(tmp_path: Path, how: str) -> None:
    """Under a running desk, which goes on when they were set aside."""
    (tmp_path / "a.txt").write_text(TEXT)
    file = tmp_path / ".copydesk" / "state.sqlite"
    edit = {"path": "a.txt", "content": "x\n", "apply": "auto"}
    with open_workspace(str(tmp_path), FAST) as opened:
        assert call(opened, "prepare_file_append", **edit)["edit_id"] == 1
        harm = OVERWRITES[how](file)
        with file.open("r+b") as harmed:
            harmed.write(harm)
            harmed.truncate()
        for _ in range(2):
            found = call(opened, "prepare_file_append", **edit)
            assert (found["error"], found["file"]) == ("FAILED", str(file))
        assert (tmp_path / "a.txt").read_text() == f"{TEXT}x\n"
        assert file.read_bytes() == harm
        file.write_bytes(b"garbage" * 1_000)  # part of it may still be read, by who opens it now
        assert [one.what for one in repair(str(tmp_path))] == ["state"]
        assert call(opened, "prepare_file_append", **edit)["edit_id"] > 1
        assert len(call(opened, "list_edits")["edits"]) == 1


def test_records_that_shrank_since_texts_were_forgotten_are_whole(tmp_path: Path) -> None:
    content = "".join(f"{number}\n" for number in range(50_000))
    with open_workspace(str(tmp_path), FAST) as opened, open_workspace(str(tmp_path)) as other:
        for desk in (opened, other):
            call(desk, "create_new_file", path=f"{desk is other}.txt", content=content)
        file = tmp_path / ".copydesk" / "state.sqlite"
        with closing(apsw.Connection(str(file))) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert not refused(call(other, "list_edits"))
        before = file.stat().st_size
        assert main(["--root", str(tmp_path), "forget", "False.txt", "--yes"]) == 0
        assert file.stat().st_size < before
        for desk in (other, opened):
            assert (
                call(desk, "create_new_file", path=f"{desk is other}2", content="")["edit_id"] > 2
            )


def test_a_log_that_was_deleted_before_the_end_is_in_the_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with Desk(tmp_path, shared=True) as desk:
        for number in range(3):
            desk.apply(desk.prepare(Append(desk.path("a.txt"), f"{number}\n")))
        (tmp_path / ".copydesk" / "state.sqlite-wal").unlink()
    with Desk(tmp_path, shared=True) as desk:
        assert [edit.edit_id for edit in desk.history()] == [3, 2, 1]


@pytest.mark.slow
def test_a_file_stands_where_the_state_folder_was(
    served: tuple[Path, Callable[[], Server]],
) -> None:
    root, start = served
    one = start()
    one.call("create_new_file", path="1.txt", content="1\n")
    shutil.rmtree(root / ".copydesk")
    (root / ".copydesk").write_text("no folder")
    refused = one.call("create_new_file", path="2.txt", content="2\n")
    assert ".copydesk" in refused["summary"], "it is named, and not a crash"
    assert not (root / "2.txt").exists()
    assert one.call("read_file", path="1.txt")["status"] == "ok"
    (root / ".copydesk").unlink()
    assert one.call("create_new_file", path="2.txt", content="2\n")["status"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", first(*NEEDED))
def test_one_file_is_deleted(served: tuple[Path, Callable[[], Server]], name: str) -> None:
    root, start = served
    one = start()
    one.call("create_new_file", path="1.txt", content="1\n")
    one.call("prepare_file_append", path="a.txt", content="x")
    (root / ".copydesk" / name).unlink(missing_ok=True)
    hunk = one.call("prepare_file_append", path="a.txt", content="x")
    done_ = one.call("apply_file_modification", hunk_id=hunk["hunk_id"])
    assert (hunk["status"], done_["status"]) == ("ok", "ok")
    told = lost(hunk) | lost(done_)
    if name == "state.sqlite":
        assert told == {f"deleted {name}"}


def check_noticed(root: Path, how: str, *calls: Callable[..., dict[str, Any]]) -> None:
    """Each edit that is reported afterwards is in the history and can be undone; lost ones are named."""
    numbers, told = count(1), list[str]()

    def ask(call: Callable[..., dict[str, Any]], tool: str, **arguments: object) -> dict[str, Any]:
        answer = call(tool, **arguments)
        assert not refused(answer), str(answer)
        told.extend(words for words in answer.get("state_lost", ()) if "state.sqlite" in words)
        return answer

    def edit(call: Callable[..., dict[str, Any]]) -> int:
        path = f"{next(numbers)}.txt"
        return int(ask(call, "create_new_file", path=path, content="x\n" * 300)["edit_id"])

    given = {edit(call) for call in calls * 4}
    LOGS[how](root / ".copydesk" / "state.sqlite-wal")
    ask(calls[-1], "list_edits")
    later = {edit(call) for call in calls * 2}
    is_lost = how != "deleted"
    assert (len(told), len(later)) == (len(calls) * is_lost, 2 * len(calls)), "told once by each"
    for call in calls:
        answer = ask(call, "list_edits")
        listed = {row["edit_id"] for row in answer["edits"]}
        lost = ids_of(answer.get("lost_edits", ()))
        assert later <= listed
        assert (listed | lost, listed & lost, bool(lost)) == (given | later, set(), is_lost)
    for edit_id in later:
        ask(calls[0], "undo_file_modification", edit_id=edit_id)


@pytest.mark.parametrize("how", spread(LOGS, of=3))
def test_a_log_that_is_cut_or_overwritten_is_noticed(tmp_path: Path, how: str) -> None:
    with open_workspace(str(tmp_path), FAST) as opened:
        check_noticed(tmp_path, how, partial(call, opened))
    assert [one.what for one in examine(str(tmp_path)) if not one.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("how", LOGS)
def test_a_log_that_is_cut_or_overwritten_is_noticed_by_both_servers(
    served: tuple[Path, Callable[[], Server]], how: str
) -> None:
    root, start = served
    one, other = start(), start()
    check_noticed(root, how, one.call, other.call)
    one.close()
    other.close()
    assert [one.what for one in examine(str(root)) if not one.ok] == []


@pytest.mark.slow
def test_a_backup_is_put_in_the_place_of_the_folder(
    served: tuple[Path, Callable[[], Server]],
) -> None:
    root, start = served
    one = start()
    one.call("create_new_file", path="1.txt", content="1\n")
    shutil.copytree(root / ".copydesk", root / "backup")
    kept = one.call("list_edits")["edits"]
    second = one.call("create_new_file", path="2.txt", content="2\n")
    (root / ".copydesk").rename(root / "old")
    (root / "backup").rename(root / ".copydesk")
    listed = one.call("list_edits")
    assert [row["edit_id"] for row in listed["edits"]] == [row["edit_id"] for row in kept]
    assert "replaced state.sqlite" in lost(listed)
    third = one.call("create_new_file", path="3.txt", content="3\n")
    assert third["status"] == "ok"
    undone = one.call("undo_file_modification", edit_id=third["edit_id"])
    assert undone["status"] == "ok"
    assert [(root / f"{n}.txt").exists() for n in (1, 2, 3)] == [True, True, False], second


APPEND = {"content": "x\n", "apply": "auto"}
WRITES: dict[str, Callable[[OpenWorkspace], dict[str, Any]]] = {
    "a file": lambda opened: call(opened, "prepare_file_append", path="a.txt", **APPEND),
    "two names": lambda opened: call(opened, "prepare_file_append", path="linked.txt", **APPEND),
    "a new file": lambda opened: call(opened, "create_new_file", path="new.txt", content="x\n"),
    "no file": lambda opened: call(opened, "undo_file_modification", edit_id=1),
    "two files": lambda opened: call(
        opened,
        "apply_file_modifications",
        hunk_ids=[
            call(opened, "prepare_file_append", path=path, content="x\n")["hunk_id"]
            for path in ("a.txt", "b.txt")
        ],
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["locks", "state.sqlite", ""])
def test_a_write_whose_lock_or_journal_entry_is_lost_begins_again(
    tmp_path: Path, name: str, write: str
) -> None:
    """Whoever comes meanwhile would neither wait for it nor find it in the journal."""
    paths = [tmp_path / path for path in ("a.txt", "b.txt", "linked.txt", "made.txt", "new.txt")]
    for path in paths[:3]:
        path.write_text(TEXT)
    os.link(tmp_path / "linked.txt", tmp_path / "link.txt")

    def texts() -> list[str]:
        return [path.read_text() if path.exists() else "" for path in paths]

    with open_workspace(str(tmp_path), FAST) as opened:
        call(opened, "create_new_file", path="made.txt", content="x\n")
        opened.desk._services.bases.find("0" * 64, None, None)  # nothing is kept beside the work
        open_all, lost, before = opened.journal.open_all, list[int](), texts()

        def lose(entries: Sequence[Entry], plans: Iterable[PlanVersion] = ()) -> tuple[int, ...]:
            given = open_all(entries, plans)
            if not lost:
                lost.extend(given)
                (tmp_path / ".copydesk" / name).rename(tmp_path / "aside")
            return given

        opened.journal.open_all = lose  # type: ignore[method-assign]
        found = WRITES[write](opened)
        states = {entry.edit_id: entry.state for entry in opened.journal.entries()}
        assert {states.pop(edit_id, "failed") for edit_id in lost} == {"failed"}
        states.pop(1, None)
        is_written = texts() != before
        assert [*states.values()] == ["done"] * len(lost) * is_written
        # The plan is lost with the folder, and what is to be undone with the journal.
        assert is_written is (found["status"] == "ok")
        assert is_written or name != "locks"


@pytest.mark.slow
def test_the_state_folder_is_deleted_during_calls(
    served: tuple[Path, Callable[[], Server]],
) -> None:
    """Each edit that is reported is in the file, once and whole, however often the state goes."""
    root, start = served
    target = root / "log.txt"
    target.write_text("")
    told: list[str] = []
    refusals: list[dict[str, Any]] = []
    answered = threading.Semaphore(0)

    def work(server: Server, mark: str) -> None:
        for number in range(40):
            line = f"{mark}{number}"
            found = server.call(
                "prepare_file_append", path="log.txt", content=f"{line}\n", apply="auto"
            )
            if found.get("changed"):
                told.append(line)
            else:
                refusals.append(found)  # or it was planned only, since it could not be written
            answered.release()

    def wipe() -> None:
        """After every sixth answer, whatever the two servers do at that moment."""
        for _ in range(80 // 6):
            for _ in range(6):
                if not answered.acquire(timeout=60):
                    return
            shutil.rmtree(root / ".copydesk", ignore_errors=True)

    workers = [threading.Thread(target=work, args=(start(), mark)) for mark in "ab"]
    wiper = threading.Thread(target=wipe)
    for thread in (*workers, wiper):
        thread.start()
    for thread in workers:
        thread.join()
    wiper.join()
    lines = target.read_text().split("\n")[:-1]
    assert sorted(set(told) - set(lines)) == [], "reported, and lost from the file"
    assert len(lines) == len(set(lines))
    assert set(lines) <= {f"{mark}{number}" for mark in "ab" for number in range(40)}
    assert all("log_id" not in one for one in refusals)
    assert {one.get("error", "") for one in refusals} <= {"", "FAILED", "HUNK_NOT_FOUND"}
    assert len(told) > 40
