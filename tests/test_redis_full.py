"""A Redis server that has no room left, on disk or in memory: what copydesk answers then is true.

The server's disk is full as far as it can tell: its files may not grow any more (RLIMIT_FSIZE).
"""

from __future__ import annotations

import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.doctor import examine
from copydesk.app.workspace import OpenWorkspace
from support import redis_servers
from support.redis_servers import RedisServer, running

redis = pytest.importorskip("redis")
pytestmark = pytest.mark.slow

SECONDS = 20.0
WORDS = "x" * 2_000


@contextmanager
def limited(monkeypatch: pytest.MonkeyPatch, **options: str) -> Iterator[RedisServer]:
    """A server that outlives SIGXFSZ, as a full disk sends no signal."""
    started = subprocess.Popen

    def popen(words: list[str], **given: Any) -> subprocess.Popen[bytes]:
        words += [word for name, value in options.items() for word in (f"--{name}", value)]

        def ignore() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        return started(words, **given, preexec_fn=ignore)

    monkeypatch.setattr(redis_servers.subprocess, "Popen", popen)
    with running() as server:
        yield server


def fill_disk(server: RedisServer, room: int) -> None:
    """From now on no file of the server gets larger than its log is, and some bytes."""
    assert server.process is not None
    size = max(path.stat().st_size for path in server.folder.rglob("*") if path.is_file())
    resource.prlimit(
        server.process.pid, resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY)
    )


def free_disk(server: RedisServer) -> None:
    assert server.process is not None
    endless = resource.RLIM_INFINITY
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (endless, endless))


def append(opened: OpenWorkspace, number: int) -> Mapping[str, Any]:
    given = {"path": "a.txt", "content": f"line {number} {WORDS}", "apply": "auto"}
    return opened.call("agent", "prepare_file_append", given).fields


def lines(root: Path) -> list[str]:
    return [line.split(" ")[1] for line in (root / "a.txt").read_text().splitlines()[1:]]


def recorded(opened: OpenWorkspace) -> list[str]:
    opened.recovery.run()
    assert opened.journal.in_doubt() == ()
    edits = [one for one in opened.history("agent", most=1_000) if one.state == "done"]
    return [one.diff.decode().split("\n+line ")[1].split(" ")[0] for one in reversed(edits)]


def check(root: Path, opened: OpenWorkspace, answers: Mapping[int, Mapping[str, Any]]) -> None:
    """The file, history and answers agree."""
    there = lines(root)
    assert there == recorded(opened)
    told = [str(number) for number, answer in answers.items() if "edit_id" in answer]
    assert {*told} <= {*there}
    refused = [str(number) for number, answer in answers.items() if "error" in answer]
    assert not {*refused} & {*there}
    assert len(there) == len({*there})


Limit = Callable[[RedisServer], None]


def no_memory(server: RedisServer) -> None:
    used = str(server.command("INFO", "memory")).split("used_memory': ")[1].split(",")[0]
    server.command("CONFIG", "SET", "maxmemory", str(int(used) + 60_000))


def more_memory(server: RedisServer) -> None:
    server.command("CONFIG", "SET", "maxmemory", "0")


def no_room_for_the_log(server: RedisServer) -> None:
    fill_disk(server, 30_000)


def no_room_for_a_dump(server: RedisServer) -> None:
    """What a server without a log does after a dump failed: it takes no writes any more."""
    server.command("SET", "filler", "y" * 100_000)
    assert server.process is not None
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
    deadline = time.monotonic() + SECONDS
    with suppress(redis.ResponseError):  # MISCONF
        while time.monotonic() < deadline:
            server.command("SET", "some", "thing")
            time.sleep(0.05)


CASES = {
    "memory": ({}, no_memory, more_memory),
    "log": ({"appendfsync": "everysec"}, no_room_for_the_log, free_disk),
    "dump": ({"appendonly": "no", "save": "1 1"}, no_room_for_a_dump, free_disk),
}


@pytest.mark.parametrize("case", CASES)
def test_a_server_without_room_refuses_truly_and_goes_on_when_it_has_some(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, fill, free = CASES[case]
    (tmp_path / "a.txt").write_text("first\n")
    answers: dict[int, Mapping[str, Any]] = {}
    with limited(monkeypatch, **options) as server, server.open(tmp_path, "full") as opened:
        for number in range(5):
            answers[number] = append(opened, number)
        assert all("edit_id" in answer for answer in answers.values())
        fill(server)
        deadline = time.monotonic() + SECONDS
        for number in range(5, 65):
            before = time.monotonic()
            answers[number] = append(opened, number)
            assert time.monotonic() - before < 10, "it stood still"
            assert time.monotonic() < deadline
        refused = [answer for answer in answers.values() if "error" in answer]
        assert len(refused) > 5
        assert {answer["error"] for answer in refused} == {"FAILED"}
        assert opened.call("agent", "read_file", {"path": "a.txt"}).fields["status"] == "ok"
        settings = f'registry = "redis"\nredis_url = "{server.url}"\nregistry_name = "full"\n'
        (tmp_path / "copydesk.toml").write_text(settings)
        wrong = {found.what for found in examine(str(tmp_path)) if not found.ok}
        assert ("Redis memory" if case == "memory" else "Redis disk") in wrong
        free(server)
        while time.monotonic() < deadline:
            number += 1
            answers[number] = append(opened, number)
            if "edit_id" in answers[number]:
                break
            time.sleep(0.2)
        assert "edit_id" in answers[number]
        check(tmp_path, opened, answers)
        with server.open(tmp_path, "full") as other:
            check(tmp_path, other, answers)
            last = other.history("agent", most=1)[0].edit_id
            undone = other.call("agent", "undo_file_modification", {"edit_id": last}).fields
            assert undone["status"] == "ok"


def test_a_server_that_ends_on_a_full_disk_comes_back_with_all_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `appendfsync always` it exits rather than acknowledge what it cannot store."""
    (tmp_path / "a.txt").write_text("first\n")
    answers: dict[int, Mapping[str, Any]] = {}
    with limited(monkeypatch) as server, server.open(tmp_path, "full") as opened:
        for number in range(5):
            answers[number] = append(opened, number)
        fill_disk(server, 30_000)
        for number in range(5, 40):
            answers[number] = append(opened, number)
        assert server.process is not None
        assert server.process.wait(SECONDS) != 0
        assert sum("error" in answer for answer in answers.values()) > 5
        server.start()
        answers[99] = append(opened, 99)
        assert "edit_id" in answers[99], answers[99]
        check(tmp_path, opened, answers)
