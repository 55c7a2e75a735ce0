"""What calls leave to be done a moment later: once, in order, by a thread or by who asks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from copydesk.store import files as writes
from copydesk.store import threads
from copydesk.store.files import Files
from copydesk.store.threads import Soon
from copydesk.text.relpath import RelPath

ENOUGH = 30.0
"""Seconds; nothing that works takes so long."""


def test_a_thread_does_it_with_nobody_asking() -> None:
    done = threading.Event()
    with Soon(0.001) as later:
        later.do(done.set)
        assert done.wait(ENOUGH)


def test_the_thread_is_woken_when_it_has_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", -1.0)
    with Soon(0.001) as later:
        for _ in range(20):
            done = threading.Event()
            later.do(done.set)
            assert done.wait(ENOUGH)


def test_the_thread_works_for_its_share_of_the_time() -> None:
    began: list[float] = []
    ended = threading.Event()

    def work() -> None:
        began.append(time.monotonic())
        time.sleep(0.05)
        ended.set()

    with Soon(0.001, share=0.1) as later:
        for _ in range(2):
            ended.clear()
            later.do(work)
            assert ended.wait(ENOUGH)
            time.sleep(0.01)  # the thread has noted how long it took
    assert began[1] - began[0] >= 0.5


def test_it_rests_also_from_what_was_given_meanwhile() -> None:
    began: list[float] = []
    ended = threading.Event()

    def work() -> None:
        began.append(time.monotonic())
        if len(began) < 2:
            later.do(work)
            time.sleep(0.05)
        else:
            ended.set()

    with Soon(0.001, share=0.1) as later:
        later.do(work)
        assert ended.wait(ENOUGH)
    assert began[1] - began[0] >= 0.5


def test_one_job_at_a_time_and_nobody_waits_for_another_for_long() -> None:
    done: list[int] = []
    begun, over = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        over.wait(ENOUGH)

    with Soon(3600) as later:
        later.at_once(lambda: done.append(1))
        later.do(wait)
        other = threading.Thread(target=later.now)
        other.start()
        assert begun.wait(ENOUGH)
        later.at_once(lambda: done.append(2))
        over.set()
        other.join()
        later.at_once(lambda: done.append(3))
    assert done == [1, 3]


def test_nobody_waits_a_moment_for_what_runs_longer_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_MOMENT_SECONDS", ENOUGH)
    begun, over = threading.Event(), threading.Event()
    now = time.monotonic()

    def wait() -> None:
        monkeypatch.setattr(time, "monotonic", lambda: now + 2 * ENOUGH)
        begun.set()
        over.wait(2 * ENOUGH)

    with Soon(3600) as later:
        later.do(wait)
        other = threading.Thread(target=later.now)
        other.start()
        assert begun.wait(ENOUGH)
        asking = threading.Thread(target=later.at_once, args=(over.set,), daemon=True)
        asking.start()
        asking.join(ENOUGH / 2)
        is_over = not asking.is_alive()
        over.set()
        other.join()
    assert is_over


def test_who_asks_has_it_done_at_once_in_order_and_once() -> None:
    done: list[int] = []
    works = [lambda n=n: done.append(n) for n in range(3)]  # type: ignore[misc]
    with Soon(3600) as later:
        for work in (*works, *works):
            later.do(work)
        later.now()
        assert done == [0, 1, 2]
        later.do(works[1])
        later.now()
        assert done == [0, 1, 2, 1]


def test_what_is_left_at_the_end_is_done_by_who_asks() -> None:
    done: list[int] = []
    later = Soon(3600)
    later.do(lambda: done.append(1))
    later.close()
    assert done == []
    later.now()
    assert done == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_has_a_thread_of_its_own() -> None:
    with Soon(0.001) as later:
        first = threading.Event()
        later.do(first.set)
        assert first.wait(ENOUGH)
        child = os.fork()
        if not child:
            done = threading.Event()
            later.do(done.set)
            os._exit(0 if done.wait(ENOUGH) else 1)
        assert os.waitpid(child, 0)[1] == 0


LEAVING = """
import os
from copydesk.store.threads import Soon
later = Soon(3600)
later.do(lambda: print("done", flush=True))
os.fork() and os.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_what_is_left_as_a_process_ends_is_done_by_it_and_not_by_its_child() -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("done\n", "")


@pytest.mark.slow
def test_a_late_write_to_a_replaced_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the thread that looks once more, before anything is closed."""
    monkeypatch.setattr(writes, "LATE_SECONDS", 0.2)
    saved = threading.Event()
    (tmp_path / "a.txt").write_bytes(b"old\n")
    found: list[bytes] = []

    def keep(real: RelPath, theirs: bytes, ours: bytes | None, is_tail: bool) -> None:
        found.append(theirs)
        saved.set()

    path = RelPath.parse("a.txt")
    with Files(tmp_path, durability="fast", keep=keep) as files:
        read = files.read(path)
        with (tmp_path / "a.txt").open("r+b") as theirs:
            digest = files.digest(path)[2]
            files.replace(path, read.stamp, digest, [b"new\n"], before_in_place=lambda old: None)
            theirs.write(b"THEIRS")
            theirs.flush()
            assert saved.wait(ENOUGH)
    assert found[0].startswith(b"THEIRS")
    assert (tmp_path / "a.txt").read_bytes() == b"new\n"
