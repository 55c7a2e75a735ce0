"""Locks: the oldest ticket first, one at a time for each file, no file in another's way."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.errors import Busy, Failed
from copydesk.store.protocol import Deadline, Holder
from copydesk.store.threads import Exclusion, FileLocks, LockQueues, Ticket
from support.cost import examples
from support.locking import SOON, holder, order_of, until, waiting

TICKETS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", "d", "e"])),
    min_size=1,
    max_size=7,
)


@settings(max_examples=examples(60))
@given(TICKETS)
def test_tickets_decide_the_order(tickets: list[Ticket]) -> None:
    assert order_of(LockQueues(), tickets) == sorted(tickets)


@settings(max_examples=examples(15))
@given(TICKETS)
def test_tickets_decide_the_order_with_locks_across_processes(
    tmp_path_factory: pytest.TempPathFactory, tickets: list[Ticket]
) -> None:
    folder = str(tmp_path_factory.getbasetemp())
    assert order_of(LockQueues(FileLocks(folder)), tickets) == sorted(tickets)


def test_equal_tickets_come_as_they_came() -> None:
    queues, order = LockQueues(), list[int]()

    def work(name: int) -> None:
        with queues.lock("file", (1, "same")):
            order.append(name)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
    with queues.lock("file", (0, "")):
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: waiting(queues, "file") == count)  # type: ignore[misc]
    for thread in threads:
        thread.join(SOON)
    assert order == list(range(8))


class Blocked:
    """An exclusion that lets nobody have one key until it is told to."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.asked, self.open = threading.Event(), threading.Event()

    @contextmanager
    def hold(
        self, key: str, until: Deadline | None = None, holder: Holder | None = None
    ) -> Iterator[None]:
        if key == self.key:
            self.asked.set()
            assert self.open.wait(SOON)
        yield


def files(folder: Path) -> Exclusion:
    return FileLocks(str(folder))


def test_files_share_no_lock() -> None:
    """While one file waits for another process, all others go on."""
    blocked = Blocked("slow")
    queues = LockQueues(blocked)

    def work() -> None:
        with queues.lock("slow", (0, "")):
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert blocked.asked.wait(SOON)
    done: list[int] = []
    for i in range(100):
        with queues.lock(f"file {i}", (0, "")):
            done.append(i)
    assert done == list(range(100))
    assert thread.is_alive()
    blocked.open.set()
    thread.join(SOON)


def test_files_are_written_in_parallel(tmp_path: Path) -> None:
    """All of them are in their turns at once, or the barrier breaks."""
    queues = LockQueues(files(tmp_path))
    together = threading.Barrier(8, timeout=SOON)

    def work(name: int) -> None:
        with queues.lock(f"file {name}", (name, "")):
            together.wait()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert not together.broken


def test_a_turn_that_raises_gives_the_lane_back() -> None:
    queues = LockQueues()
    for _ in range(2):
        with pytest.raises(ValueError, match="boom"), queues.lock("file", (0, "")):
            raise ValueError("boom")
    assert not queues._queues


def test_a_lock_that_cannot_be_had_is_a_refusal_and_gives_the_lane_back(tmp_path: Path) -> None:
    queues = LockQueues(FileLocks(str(tmp_path / "none")))
    for _ in range(2):
        with pytest.raises(Failed), queues.lock("file", (0, "")):
            pass
    assert not queues._queues


def test_who_waits_too_long_is_told_who_holds_the_lock() -> None:
    queues, order = LockQueues(), list[int]()

    def work(ticket: int) -> None:
        with queues.lock("file", (ticket, "")):
            order.append(ticket)

    threads = [threading.Thread(target=work, args=(each,), daemon=True) for each in (2, 3)]
    with queues.lock("file", (0, ""), ("ann", "Edit")):
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: waiting(queues, "file") == count)  # type: ignore[misc]
        with pytest.raises(Busy) as busy, queues.lock("file", (1, ""), until=Deadline(0.0)):
            pass
        found = busy.value
        named = (found.holder_member, found.holder_tool, found.holder_process)
        assert named == ("ann", "Edit", os.getpid())
        assert waiting(queues, "file") == 2
    for thread in threads:
        thread.join(SOON)
    assert order == [2, 3], "the others keep their order"
    assert not queues._queues


def test_one_who_stops_waiting_is_in_nobodys_way() -> None:
    """An exception that another thread sets, as Ctrl-C does."""
    queues, passed = LockQueues(), list[str]()
    gone = threading.Event()

    def stopped() -> None:
        try:
            with queues.lock("file", (1, "stopped")):
                passed.append("stopped")
        except KeyboardInterrupt:
            gone.set()

    def patient() -> None:
        with queues.lock("file", (2, "patient")):
            passed.append("patient")

    threads = [
        threading.Thread(target=stopped, daemon=True),
        threading.Thread(target=patient, daemon=True),
    ]
    with queues.lock("file", (0, "")):
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: waiting(queues, "file") == count)  # type: ignore[misc]
        ident = ctypes.c_ulong(threads[0].ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
        with queues._free:
            queues._free.notify_all()
        assert gone.wait(SOON)
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert passed == ["patient"]
    assert not queues._queues


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "kill -9"])
def test_a_process_that_is_gone_holds_nothing(tmp_path: Path, how: str) -> None:
    got = threading.Event()

    def work() -> None:
        with FileLocks(str(tmp_path)).hold("file"):
            got.set()

    with holder(tmp_path) as process:
        with FileLocks(str(tmp_path)).hold("another file"):
            pass
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert not got.wait(0.1)
        assert process.stdin is not None
        if how == "end":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGKILL)
        assert got.wait(SOON)
        thread.join(SOON)
