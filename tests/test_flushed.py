"""A server that forgot everything in the middle of a write: nothing is reported that is not so.

The server is flushed, replaced by an empty one, or set back to what it knew before,
right before each script that one write sends; then another machine writes the same files.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends import redis as redis_backend
from copydesk.desk.backends.redis import Server
from copydesk.store import _os
from copydesk.store.threads import SOON_SECONDS
from support.processes import Facts, outcome, workers
from support.redis_servers import RedisServer, running

FILES = ("f", "g", "h")
BASE = "one\ntwo\n"
MINE, THEIRS = "mine", "theirs"

Disturb = Callable[[RedisServer], None]
Call = Callable[..., Facts]
"""Makes the call, in the workspace that it was prepared in or in another one."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server that the tests of this file may flush and restart."""
    with running(forgets=True) as started:
        yield started


def flushed(server: RedisServer) -> None:
    """As an administrator does by mistake."""
    server.command("FLUSHALL")


def flushed_later(server: RedisServer) -> None:
    """The same, when all is recorded that a call leaves to be recorded after it."""
    time.sleep(2 * SOON_SECONDS)
    flushed(server)


def replaced(server: RedisServer) -> None:
    """A restart without what was kept: another run, and no data."""
    server.kill()
    server.start()


class Before:
    """Does something right before the script of a number, counted from 1, that this thread sends."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.left, self.act, self.thread = number, act, threading.get_ident()
        self.inside = False

    def install(self, patched: pytest.MonkeyPatch) -> None:
        run = Server.call

        def counted(server: Server, *given: object) -> object:
            if threading.get_ident() == self.thread and not self.inside:
                self.left -= 1
                if not self.left:
                    self.inside = True
                    self.act()
                    self.inside = False
            return run(server, *given)  # type: ignore[arg-type]

        patched.setattr(Server, "call", counted)


def planned(opened: OpenWorkspace, files: tuple[str, ...], line: str) -> list[str]:
    """Plans that put a line at the end of each file."""
    return [
        str(outcome(opened, "prepare_file_append", path=file, content=f"{line}\n")["hunk_id"])
        for file in files
    ]


def prepared(opened: OpenWorkspace) -> Call:
    """A plan, and nothing written."""
    return lambda by=opened: outcome(by, "prepare_file_append", path="f", content=f"{MINE}\n")


def transact(opened: OpenWorkspace) -> Call:
    """Three files at once."""
    ids = planned(opened, FILES, MINE)
    return lambda by=opened: outcome(by, "apply_file_modifications", hunk_ids=ids)


def one(opened: OpenWorkspace) -> Call:
    """One file."""
    (hunk_id,) = planned(opened, FILES[:1], MINE)
    return lambda by=opened: outcome(by, "apply_file_modification", hunk_id=hunk_id)


def in_place(opened: OpenWorkspace) -> Call:
    """A file with several names, and another one."""
    root = Path(opened.root)
    _os.link(-100, bytes(root / "f"), bytes(root / "f2"))
    ids = planned(opened, FILES[:2], MINE)
    return lambda by=opened: outcome(by, "apply_file_modifications", hunk_ids=ids)


WANTED = {prepared: (), one: FILES[:1], in_place: FILES[:2]}
"""What is written, where that is not all files."""

EXCHANGE = _os.rename_exchange
"""As it is: what fails for one writer does not fail for another."""


def taken_back(opened: OpenWorkspace) -> Call:
    """Three files, of which the last cannot be written, so that the others are put back."""
    ids = planned(opened, FILES, MINE)

    def failing(dir_fd: int, old: bytes, new: bytes) -> None:
        if new == b"h":
            raise OSError(5, "Input/output error")
        EXCHANGE(dir_fd, old, new)

    def run(by: OpenWorkspace = opened) -> Facts:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_os, "rename_exchange", failing)
            return outcome(by, "apply_file_modifications", hunk_ids=ids)

    return run


def check_told(root: Path, found: Facts, wanted: tuple[str, ...], theirs: bool) -> str:
    """What was told is so; the outcome in a word."""
    texts = {file: (root / file).read_text() for file in FILES}
    written = {file for file, text in texts.items() if MINE in text}
    for file, text in texts.items():
        lines = text.splitlines()
        assert [line for line in lines if line not in (MINE, THEIRS)] == BASE.splitlines()
        assert lines.count(THEIRS) == theirs, "another machine was told that it wrote"
        assert lines.count(MINE) <= 1, file
    if found["status"] == "ok":
        assert written == set(wanted)
        return "ok"
    if "paths" in found:
        assert written <= set(found["paths"])
        return "unsure"
    assert written == set()
    return "refused"


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("write", [one, transact, in_place, taken_back])
@pytest.mark.parametrize(
    "disturb", [flushed, *(pytest.param(each, marks=SLOW) for each in (flushed_later, replaced))]
)
@pytest.mark.parametrize(
    "theirs", [False, pytest.param(True, marks=SLOW)], ids=["alone", "another writes"]
)
def test_the_server_forgets_before_each_script(
    tmp_path: Path,
    server: RedisServer,
    write: Callable[[OpenWorkspace], Call],
    disturb: Disturb,
    theirs: bool,
) -> None:
    seen: set[str] = set()
    number, reached = 0, True
    while reached:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()
        for file in FILES:
            (root / file).write_text(BASE)
        name = server.fresh_name()
        with server.open(root, name) as opened, server.open(root, name) as other:
            run = write(opened)
            told: list[Facts] = []
            ended: list[str] = []

            def act(
                other: OpenWorkspace = other,
                told: list[Facts] = told,
                ended: list[str] = ended,
            ) -> None:
                if write is one:
                    ended.extend(entry.state for entry in other.journal.entries())
                disturb(server)
                if not theirs:
                    return
                outcome(other, "read_file", path="f")
                for _ in range(2):  # a connection to a server that is gone fails once
                    for file in FILES:
                        if file in {fact["path"] for fact in told}:
                            continue
                        facts = {"path": file, "content": f"{THEIRS}\n", "apply": "auto"}
                        with pytest.MonkeyPatch.context() as unharmed:
                            unharmed.setattr(_os, "rename_exchange", EXCHANGE)
                            done = outcome(other, "prepare_file_append", **facts)
                        if done.get("changed"):
                            told.append(done)
                assert len(told) == 3, told

            before = Before(number, act)
            with pytest.MonkeyPatch.context() as patched:
                before.install(patched)
                found = run()
            reached = before.left <= 0
            wanted = WANTED.get(write, FILES)
            seen.add(check_told(root, found, wanted, theirs and reached))
            if write is one and found["status"] == "ok" and "done" not in ended:
                kept = opened.journal.get(int(found["edit_id"]))
                known = kept is not None and kept.state == "done"
                assert known or "state_lost" in found, number
            settled(server, name, root, wanted, theirs=theirs)
    assert number > 5
    assert "refused" in seen
    assert ("ok" in seen) == (write is not taken_back)
    assert ("unsure" in seen) == (write is not one)


def settled(
    server: RedisServer, name: str, root: Path, wanted: tuple[str, ...], *, theirs: bool = False
) -> None:
    """The next who comes finds all or none, or what others wrote into, which stays and is told."""
    with server.open(root, name) as opened:
        for file in FILES:
            facts = {"path": file, "content": "last\n", "apply": "auto"}
            done = outcome(opened, "prepare_file_append", **facts)
            assert done.get("changed"), json.dumps(done)
        written = {file for file in wanted if MINE in (root / file).read_text()}
        if theirs:
            entries = opened.journal.entries()
            written -= {str(entry.path) for entry in entries if entry.state == "unsure"}
        assert written in (set(), set(wanted))
        assert opened.journal.in_doubt() == ()


Kept = dict[bytes, tuple[bytes, int]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "write",
    [transact, *(pytest.param(each, marks=SLOW) for each in (one, in_place, taken_back))],
)
@pytest.mark.parametrize("lag", [1, pytest.param(2, marks=SLOW), pytest.param(4, marks=SLOW)])
def test_the_server_forgets_the_last_scripts(
    tmp_path: Path,
    server: RedisServer,
    write: Callable[[OpenWorkspace], Call],
    lag: int,
) -> None:
    """As when a replica takes over that has not heard of them; what it has heard of it keeps.

    That may be leases that were let go since: nobody renews them, so they run out.
    """
    number, reached = 0, True
    while reached:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()
        for file in FILES:
            (root / file).write_text(BASE)
        name = server.fresh_name()
        flushed(server)  # so that a snapshot is small
        with server.open(root, name) as opened:
            run = write(opened)
            kept: list[Kept] = []
            keep = Before(number, lambda kept=kept: kept.append(server.snapshot()))  # type: ignore[misc]
            back = Before(number + lag, lambda kept=kept: server.restore(kept[0]))  # type: ignore[misc]
            with pytest.MonkeyPatch.context() as patched:
                keep.install(patched)
                back.install(patched)
                found = run()
            reached = back.left <= 0
            wanted = WANTED.get(write, FILES)
            check_told(root, found, wanted, theirs=False)
            server.end_leases(name)
            settled(server, name, root, wanted)
    assert number > 5


@pytest.mark.slow
@pytest.mark.parametrize("goes_on", ["after one script", pytest.param("after all", marks=SLOW)])
@pytest.mark.parametrize(
    "write",
    [prepared, one, *(pytest.param(each, marks=SLOW) for each in (transact, in_place, taken_back))],
)
def test_the_server_stands_still_before_each_script(
    tmp_path: Path,
    server: RedisServer,
    write: Callable[[OpenWorkspace], Call],
    goes_on: str,
) -> None:
    """What was sent meanwhile is done when it goes on, though nobody waits for it any more.

    One that is impatient applies what another prepared. That it gives up too soon on a busy
    machine is no fault, so this goes on until a call was not stopped and came to its end.
    """
    seen: set[str] = set()
    number, ended = 0, False
    while not ended:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()
        for file in FILES:
            (root / file).write_text(BASE)
        name = server.fresh_name()
        with pytest.MonkeyPatch.context() as impatient:
            impatient.setattr(redis_backend, "PATIENCE_SECONDS", 0.1)
            opened = server.open(root, name, recover=False)
        with opened, server.open(root, name) as other:
            run = write(other)
            stop = Before(number, server.stop)
            proceed = Before(number + 1, server.proceed)
            try:
                with pytest.MonkeyPatch.context() as patched:
                    stop.install(patched)
                    if goes_on == "after one script":
                        proceed.install(patched)
                    found = run(opened)
            finally:
                server.proceed()
            last = "write" if write is taken_back else None
            ended = stop.left > 0 and found.get("operation") == last
            wanted = WANTED.get(write, FILES)
            said = check_told(root, found, wanted, theirs=False)
            seen.add(said)
            if said == "unsure":
                assert "copydesk recover" in found["summary"]
            if said == "refused" and write is not taken_back:
                assert found["error"] == "FAILED"
                assert "call again" in found["summary"].lower()
            server.end_leases(name)
            again = run()
            if write is taken_back:
                assert check_told(root, again, wanted, theirs=False) == "refused"
            elif write is not prepared:
                applied = again.get("reason") == "applied"
                assert applied or again["status"] == "ok", json.dumps(again)
                assert said == "unsure" or applied == (said == "ok")
                assert check_told(root, {"status": "ok"}, wanted, theirs=False) == "ok"
            settled(server, name, root, wanted)
    assert "ok" in seen or write is taken_back
    assert "refused" in seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "count"),
    [pytest.param(2, 12, id="few"), pytest.param(4, 100, id="many", marks=SLOW)],
)
@pytest.mark.parametrize("disturbs", [(flushed,), (flushed, replaced)], ids=["flush", "restart"])
def test_what_is_reported_is_so_though_the_server_forgets_again_and_again(
    tmp_path: Path,
    server: RedisServer,
    processes: int,
    count: int,
    disturbs: tuple[Disturb, ...],
) -> None:
    """Each success is in all its files, each refusal in none, and the rest is told as in doubt.

    How many calls come between two losses does not depend on how fast they are.
    """
    paths = [f"f{i}" for i in range(6)]
    for path in paths:
        (tmp_path / path).write_text("above\nanchor\nbelow\n")
    facts = {"paths": paths, "count": count, "at_once": 2}
    works = [("transact_anyway", {**facts, "name": f"p{i}"}) for i in range(processes)]
    name, chance = server.fresh_name(), random.Random(count)
    told: list[Facts] = []
    settings = server.settings(name, lease_ms=1_500)
    with workers(tmp_path, *works, settings=settings) as ready:
        threads = [
            threading.Thread(target=lambda w=worker: told.extend(w.lines()), daemon=True)
            for worker in ready
        ]
        for worker, thread in zip(ready, threads, strict=True):
            worker.go()
            thread.start()
        while any(thread.is_alive() for thread in threads):
            disturb = chance.choice(disturbs)
            calls = chance.randint(1, 4) * processes * (1 if disturb is flushed else 3)
            after = min(len(told) + calls, processes * count)
            while len(told) < after and any(thread.is_alive() for thread in threads):
                time.sleep(0.002)
            time.sleep(0.03 * chance.random())
            disturb(server)
        assert [worker.process.wait() for worker in ready] == [0] * processes
    assert len(told) == processes * count
    with server.open(tmp_path, name):
        pass  # recovers
    lines = {path: (tmp_path / path).read_text().split("\n") for path in paths}
    halves = 0
    for fact in told:
        there = [lines[path].count(fact["line"]) for path in fact["paths"]]
        assert set(there) <= {0, 1}
        if not fact["unsure"]:
            assert there == [fact["code"] == "ok"] * 2, fact
        halves += len(set(there)) == 2
    codes = Counter(fact["code"] + " unsure" * bool(fact["unsure"]) for fact in told)
    print(codes, "halves left:", halves)
    assert codes["ok"] > processes * count * 0.1


@pytest.mark.slow
def test_ids_that_a_server_lost_are_not_given_again_and_the_loss_is_told(
    tmp_path: Path, server: RedisServer
) -> None:
    """Each process knows its own ids alone: another one may have got higher ones."""
    (tmp_path / "f").write_text(BASE)
    config = server.config("flushed")
    with open_workspace(str(tmp_path), config) as ann, open_workspace(str(tmp_path), config) as ben:
        add = {"path": "f", "content": "more\n", "apply": "auto"}
        outcome(ann, "prepare_file_append", **add)
        lost = outcome(ben, "prepare_file_append", **add)["edit_id"]
        flushed(server)
        told = outcome(ann, "prepare_file_append", **add)
        assert told["edit_id"] > lost
        assert "lost the state" in told["state_lost"][0]
        assert outcome(ben, "undo_file_modification", edit_id=lost)["reason"] == "replaced"
        assert (tmp_path / "f").read_text() == BASE + 3 * "more\n"


@pytest.mark.slow
def test_an_entry_that_a_server_dropped_is_missing_alone(
    tmp_path: Path, server: RedisServer
) -> None:
    (tmp_path / "f").write_text(BASE)
    with open_workspace(str(tmp_path), server.config("dropped")) as desk:
        add = {"path": "f", "content": "more\n", "apply": "auto"}
        ids = [outcome(desk, "prepare_file_append", **add)["edit_id"] for _ in range(3)]
        (key,) = cast("list[bytes]", server.command("KEYS", f"*:e:{ids[1]}"))
        server.command("DEL", key.decode())
        listed = [edit["edit_id"] for edit in outcome(desk, "list_edits")["edits"]]
        assert listed == [ids[2], ids[0]]
        assert outcome(desk, "undo_file_modification", edit_id=ids[2])["changed"]
