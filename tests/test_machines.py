"""Many machines on one workspace, by a server: processes that share nothing else but the files.

No reported success is lost and none is written twice, though a worker stands
still for longer than its lease, is killed, or the server is.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import test_group_recovery
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.redis import Leases
from copydesk.store import _os
from support.processes import Facts, Worker, outcome, results, workers
from support.redis_servers import LONG_MS, RedisServer, cluster, command, running
from test_concurrent_processes import AFTER, BASE, BEFORE, EDIT, check_lines

SLOW = pytest.mark.slow
FIRST = "first\n"


@pytest.fixture
def name(redis_server: RedisServer) -> str:
    """A workspace that this test alone uses."""
    return redis_server.fresh_name()


def few_or_many(*few: int) -> list[object]:
    """How many processes and edits: those given, and four times fifty."""
    return [pytest.param(*few, id="few"), pytest.param(4, 50, id="many", marks=SLOW)]


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "count"), few_or_many(3, 8))
@pytest.mark.parametrize("own", [False, pytest.param(True, marks=SLOW)], ids=["one file", "own"])
def test_every_success_is_there_once(
    tmp_path: Path, redis_server: RedisServer, name: str, processes: int, count: int, own: bool
) -> None:
    files = [f"f{i if own else 0}" for i in range(processes)]
    for file in files:
        (tmp_path / file).write_text(BASE)
    works = [
        ("insert", {"path": file, "name": f"p{i}", "count": count}) for i, file in enumerate(files)
    ]
    settings = redis_server.settings(name)
    told = results(tmp_path, *works, settings=settings)
    ended = [[fact for fact in each if "line" in fact] for each in told]
    everything = [fact for each in ended for fact in each]
    assert len(everything) == processes * count
    for file in set(files):
        mine = [each for of, each in zip(files, ended, strict=True) if of == file]
        check_lines((tmp_path / file).read_text(), [fact for each in mine for fact in each])
    codes = Counter(fact["code"] for fact in everything)
    assert codes["ok"] > processes * count * 0.9, codes
    assert codes.keys() <= {"ok", "CONTENT_CHANGED", "AMBIGUOUS_MATCH"}
    with redis_server.open(tmp_path, name) as opened:
        entries = opened.journal.entries(most=1_000_000)
    assert Counter(e.state for e in entries) == {"done": codes["ok"]}
    assert {e.edit_id for e in entries} == {f["edit_id"] for f in everything if f["code"] == "ok"}


@pytest.mark.slow
def test_a_plan_is_applied_by_another_machine(
    tmp_path: Path, redis_server: RedisServer, name: str
) -> None:
    """What it was based on is on the server, so drift is no hindrance; and the edit is undone."""
    (tmp_path / "f").write_text(BASE)
    settings = redis_server.settings(name)
    ((plan,),) = results(tmp_path, ("prepare", {**EDIT}), settings=settings)
    (tmp_path / "f").write_text(f"top\n{BASE}")
    with redis_server.open(tmp_path, name) as opened, redis_server.open(tmp_path, name) as other:
        assert [each.id for each in other.pending("local")] == [plan["hunk_id"]]
        before = other.plans_stamp(), other.records_stamp()
        done = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert done["context_match"] == "fuzz"
        now = other.plans_stamp(), other.records_stamp()
        assert now[0] != before[0]
        assert now[1] != before[1]
        assert (tmp_path / "f").read_text() == f"top\n{BEFORE}new\n{AFTER}"
        again = outcome(other, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert (again["error"], again["reason"]) == ("HUNK_NOT_FOUND", "applied")
        (past,) = other.history("local")
        assert outcome(other, "undo_file_modification", edit_id=past.edit_id)["status"] == "ok"
    assert (tmp_path / "f").read_text() == f"top\n{BASE}"
    assert not (tmp_path / ".copydesk" / "state.sqlite").exists()


def test_workspaces_of_other_names_know_nothing_of_each_other(
    tmp_path: Path, redis_server: RedisServer, name: str
) -> None:
    (tmp_path / "f").write_text(BASE)
    elsewhere = redis_server.open(tmp_path, redis_server.fresh_name())
    with redis_server.open(tmp_path, name) as opened, elsewhere as other:
        outcome(opened, "prepare_file_append", path="f", content="x")
        assert len(opened.pending("local")) == 1
        assert other.pending("local") == ()


def planned(opened: OpenWorkspace, *paths: str, content: str = FIRST) -> list[str]:
    """Plans that write the first line of each file anew."""
    return [
        str(
            outcome(opened, "prepare_file_range_edit", path=path, range="1", content=content)[
                "hunk_id"
            ]
        )
        for path in paths
    ]


def until_stopped(worker: Worker, server: RedisServer, name: str) -> None:
    """Wait until it stands still; its leases run out then."""
    worker.go()
    pid, status = os.waitpid(worker.process.pid, os.WUNTRACED)
    assert pid == worker.process.pid
    assert os.WIFSTOPPED(status), "it ended instead"
    server.end_leases(name)


def stopping(when: str, ids: list[str], how: str = "SIGSTOP") -> tuple[str, Facts]:
    """The work of one that is stopped in the middle."""
    return "stop", {"when": when, "hunk_ids": ids, "signal": how}


def refused(worker: Worker) -> bool:
    """Whether one that goes on is refused for the lock that it has lost."""
    told = goes_on(worker)
    return told["code"] == "FAILED" and "the lock of f was lost" in told["summary"]


def goes_on(worker: Worker) -> Facts:
    """What a stopped one says once it goes on."""
    os.kill(worker.process.pid, signal.SIGCONT)
    (told,) = worker.lines()
    return told


@pytest.mark.slow
@pytest.mark.parametrize("when", ["recording", "ready"])
def test_who_stood_still_for_longer_than_its_lease_does_not_write(
    tmp_path: Path, redis_server: RedisServer, name: str, when: str
) -> None:
    """Another one has the turn, and has not written yet: nothing but the lease tells of it."""
    (tmp_path / "f").write_text(BASE)
    with redis_server.open(tmp_path, name) as opened:
        ids = planned(opened, "f")
        settings = redis_server.settings(name)
        with workers(tmp_path, stopping(when, ids), settings=settings) as (worker,):
            until_stopped(worker, redis_server, name)
            with opened.queues.lock("f", (0, "")):
                assert refused(worker)
        assert (tmp_path / "f").read_text() == BASE
        assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []
        assert opened.journal.in_doubt() == ()
        states = [entry.state for entry in opened.journal.entries()]
        assert states == ([] if when == "recording" else ["failed"])
        assert outcome(opened, "apply_file_modification", hunk_id=ids[0])["status"] == "ok"
    assert (tmp_path / "f").read_text() == FIRST + BASE.partition("\n")[2]


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["another plan", "the same plan"])
def test_what_was_written_since_stays(
    tmp_path: Path, redis_server: RedisServer, name: str, again: bool
) -> None:
    (tmp_path / "f").write_text(BASE)
    with redis_server.open(tmp_path, name) as opened:
        mine, second = planned(opened, "f"), planned(opened, "f", content="second\n")
        settings = redis_server.settings(name)
        with workers(tmp_path, stopping("ready", mine), settings=settings) as (worker,):
            until_stopped(worker, redis_server, name)
            (written,) = mine if again else second
            assert outcome(opened, "apply_file_modification", hunk_id=written)["status"] == "ok"
            if again:  # that another process applied the plan says more than that a lock was lost
                assert goes_on(worker)["code"] == "HUNK_NOT_FOUND applied"
            else:
                assert refused(worker)
        text = (tmp_path / "f").read_text()
        assert text == (FIRST if again else "second\n") + BASE.partition("\n")[2]
        assert [e.state for e in opened.journal.entries()] == ["done", "failed"]
        assert opened.journal.in_doubt() == ()


@pytest.mark.slow
def test_a_transaction_that_stood_still_is_settled_by_others_and_says_so(
    tmp_path: Path, redis_server: RedisServer, name: str
) -> None:
    """Its first file had its new bytes; who came to it put them back, and wrote."""
    for file in "fg":
        (tmp_path / file).write_text(BASE)
    with redis_server.open(tmp_path, name) as opened:
        ids = planned(opened, "f", "g")
        work = stopping("exchanged", ids)
        with workers(tmp_path, work, settings=redis_server.settings(name)) as (worker,):
            until_stopped(worker, redis_server, name)
            assert (tmp_path / "f").read_text().startswith(FIRST)
            done = outcome(opened, "prepare_file_append", path="f", content="end\n", apply="auto")
            assert done["status"] == "ok"
            os.kill(worker.process.pid, signal.SIGCONT)
            (told,) = worker.lines()
        assert told["code"] == "FAILED"
        assert (tmp_path / "f").read_text() == f"{BASE}end\n"
        assert (tmp_path / "g").read_text() == BASE
        assert [e.state for e in opened.journal.entries()] == ["done", "failed", "failed"]
        found = outcome(opened, "apply_file_modifications", hunk_ids=ids)
        assert found["status"] == "ok", found
    assert (tmp_path / "f").read_text() == FIRST + BASE.partition("\n")[2] + "end\n"


@pytest.mark.slow
@pytest.mark.parametrize("files", ["f", "fg"])
def test_who_is_killed_in_the_middle_is_in_nobodys_way(
    tmp_path: Path, redis_server: RedisServer, name: str, files: str
) -> None:
    for file in files:
        (tmp_path / file).write_text(BASE)
    with redis_server.open(tmp_path, name) as opened:
        ids = planned(opened, *files)
        work = stopping("exchanged" if len(ids) > 1 else "ready", ids, "SIGKILL")
        with workers(tmp_path, work, settings=redis_server.settings(name)) as (worker,):
            worker.go()
            assert list(worker.lines()) == []
        redis_server.end_leases(name, after_ms=300)
        done = outcome(opened, "prepare_file_append", path="f", content="end\n", apply="auto")
        assert done.get("changed"), done
        assert (tmp_path / "f").read_text() == f"{BASE}end\n"
        tool = "apply_file_modification" + "s" * (len(ids) > 1)
        arguments = {"hunk_ids": ids} if len(ids) > 1 else {"hunk_id": ids[0]}
        assert outcome(opened, tool, **arguments)["status"] == "ok"
        assert opened.journal.in_doubt() == ()
    for file in files:
        assert (tmp_path / file).read_text().startswith(FIRST)


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A server that the test may end; leases that were held then are ended by the test."""
    monkeypatch.setattr(Leases.__init__, "__defaults__", (LONG_MS,))
    with running() as server:
        yield server


Dying = Callable[[OpenWorkspace, RedisServer, pytest.MonkeyPatch], None]


def dies_when_recorded(
    opened: OpenWorkspace, server: RedisServer, patched: pytest.MonkeyPatch
) -> None:
    """The server dies when the plan is recorded, before anything is written."""
    recorded = opened.journal.open_all

    def record(entries: object, plans: object) -> tuple[int, ...]:
        edit_ids = recorded(entries, plans)  # type: ignore[arg-type]
        server.kill()
        return edit_ids

    patched.setattr(opened.journal, "open_all", record)


def dies_when_written(
    opened: OpenWorkspace, server: RedisServer, patched: pytest.MonkeyPatch
) -> None:
    """The server dies when the file has its new bytes, before anybody was told."""
    exchange = _os.rename_exchange

    def exchanged(dir_fd: int, one: bytes, other: bytes) -> None:
        exchange(dir_fd, one, other)
        server.kill()

    patched.setattr(_os, "rename_exchange", exchanged)


@pytest.mark.parametrize("dies", [dies_when_recorded, dies_when_written])
def test_the_server_dies_in_the_middle(
    tmp_path: Path, own_server: RedisServer, monkeypatch: pytest.MonkeyPatch, dies: Dying
) -> None:
    """What was reported is there, what was refused is not, and both by one more apply at most."""
    (tmp_path / "f").write_text(BASE)
    now, after = f"top\n{BASE}", "top\n" + FIRST + BASE.partition("\n")[2]
    with own_server.open(tmp_path, "test") as opened:
        (mine,) = planned(opened, "f")
        (tmp_path / "f").write_text(now)  # so that there is more to be noted of it
        with monkeypatch.context() as patched:
            dies(opened, own_server, patched)
            found = outcome(opened, "apply_file_modification", hunk_id=mine)
        written = dies is dies_when_written
        assert found["status"] == ("ok" if written else "error"), found
        assert (tmp_path / "f").read_text() == (after if written else now)
        refused = outcome(opened, "prepare_file_append", path="f", content="x")
        assert (refused["error"], refused["operation"]) == ("FAILED", "use Redis")
        assert outcome(opened, "read_file", path="f")["status"] == "ok"
        own_server.start()
        own_server.end_leases("test")
        with own_server.open(tmp_path, "test", recover=False) as other:
            again = outcome(other, "apply_file_modification", hunk_id=mine)
            assert again.get("reason") == "applied" if written else again["status"] == "ok"
            assert other.journal.in_doubt() == ()
            states = [entry.state for entry in other.journal.entries()]
            assert states == (["done"] if written else ["done", "failed"])
        assert [e.state for e in opened.journal.entries()] == states
    assert (tmp_path / "f").read_text() == after


def test_the_server_dies_in_the_middle_of_a_transaction(
    tmp_path: Path, own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two files is put back: nobody else can have had the turn so soon."""
    for file in "fg":
        (tmp_path / file).write_text(BASE)
    exchange = _os.rename_exchange

    def exchanged(*given: object) -> None:
        exchange(*given)  # type: ignore[arg-type]
        own_server.kill()

    with own_server.open(tmp_path, "test") as opened:
        ids = planned(opened, "f", "g")
        with monkeypatch.context() as patched:
            patched.setattr(_os, "rename_exchange", exchanged)
            found = outcome(opened, "apply_file_modifications", hunk_ids=ids)
        assert found["status"] == "error"
        assert {(tmp_path / file).read_text() for file in "fg"} == {BASE}
        own_server.start()
        own_server.end_leases("test")
        assert outcome(opened, "apply_file_modifications", hunk_ids=ids)["status"] == "ok"
        assert {(tmp_path / file).read_text() for file in "fg"} == {FIRST + BASE.partition("\n")[2]}
        assert opened.journal.in_doubt() == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "count", "deaths"),
    [pytest.param(2, 12, 2, id="few"), pytest.param(4, 50, 12, id="many", marks=SLOW)],
)
def test_the_server_dies_again_and_again(
    tmp_path: Path, own_server: RedisServer, processes: int, count: int, deaths: int
) -> None:
    (tmp_path / "f").write_text(BASE)
    works = [
        ("insert_surely", {"path": "f", "name": f"p{i}", "count": count}) for i in range(processes)
    ]
    chance = random.Random(deaths)
    told: list[Facts] = []
    settings = own_server.settings("test", lease_ms=1_500)  # each death is waited for
    with workers(tmp_path, *works, settings=settings) as ready:
        threads = [
            threading.Thread(target=lambda w=worker: told.extend(w.lines()), daemon=True)
            for worker in ready
        ]
        for worker, thread in zip(ready, threads, strict=True):
            worker.go()
            thread.start()
        for turn in range(deaths):
            while len(told) < processes * count * (turn + 1) // (deaths + 1):
                assert any(thread.is_alive() for thread in threads)
                time.sleep(0.002)
            time.sleep(0.02 * chance.random())
            own_server.kill()
            own_server.start()
        for thread in threads:
            thread.join()
        assert [worker.process.returncode for worker in ready] == [0] * processes
    assert len(told) == processes * count
    assert {fact["code"] for fact in told} <= {"ok", "CONTENT_CHANGED", "AMBIGUOUS_MATCH"}
    check_lines((tmp_path / "f").read_text(), told)
    with own_server.open(tmp_path, "test") as opened:
        done = [entry for entry in opened.journal.entries(most=10_000) if entry.state == "done"]
        assert opened.journal.in_doubt() == ()
    assert len(done) == sum(fact["code"] == "ok" for fact in told)


@SLOW
@pytest.mark.parametrize("lives", [False, True], ids=["start", "live"])
def test_killed_before_each_call(
    tmp_path: Path, own_server: RedisServer, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    """The same as in the state folder: all or none, once a dead one's leases have run out.

    Those of the living do not: such a one is refused on a busy machine, and rightly.
    """
    forked = test_group_recovery.forked

    def outlived(root: Path, ids: list[str], die: test_group_recovery.Die) -> bool:
        died = forked(root, ids, die)
        own_server.end_leases("test")
        return died

    monkeypatch.setattr(test_group_recovery, "forked", outlived)
    monkeypatch.setattr(test_group_recovery, "FAST", own_server.config("test"))
    test_group_recovery.make(tmp_path)
    test_group_recovery.test_killed_before_each_call(tmp_path, lives, 4)


@pytest.mark.slow
def test_a_cluster_has_a_workspace_on_one_node(tmp_path: Path) -> None:
    """Any node may be named; every script runs, and all keys are in the slot of one hash tag."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    with cluster() as urls:
        for at, url in enumerate(urls):
            config = Config(
                registry="redis", redis_url=url, registry_name="our-project", durability="fast"
            )
            with open_workspace(str(tmp_path), config) as opened:

                def call(tool: str, opened: OpenWorkspace = opened, **arguments: object) -> Any:
                    answer = opened.call("local", tool, arguments)
                    assert not answer.is_error, answer.text
                    return answer.data

                for old, new in (("one", "1"), ("1", "one")):
                    call("replace_text", path="a.txt", old=old, new=new)
                plans = [
                    call("prepare_file_range_edit", path="a.txt", range=f"{line}", content=text)
                    for line, text in ((1, "eins\n"), (2, f"zwei {at}\n"), (3, "drei\n"))
                ]
                first, second, third = (plan["hunk_id"] for plan in plans)
                assert len(call("list_pending")["hunks"]) == 3
                call("discard_hunk", hunk_id=third)
                call("apply_file_modifications", hunk_ids=[first, second])
                (last, *_) = call("list_edits", path="a.txt")["edits"]
                call("undo_file_modification", edit_id=last["edit_id"], transaction=True)
                call("create_new_file", path=f"b{at}.txt", content="b\n")
        ports = [int(url.rpartition(":")[2].partition("/")[0]) for url in urls]
        keys: list[list[bytes]] = [command(port, "KEYS", "*") for port in ports]
        slots = {command(ports[0], "CLUSTER", "KEYSLOT", key) for each in keys for key in each}
    assert len(slots) == 1
    assert sorted(map(bool, keys)) == [False, True]
