"""What the tests of locks share: another process that holds one, who waits, in which order."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from copydesk.store.threads import LockQueues, Ticket

SOON = 10.0
"""Seconds after which a test that waits for an event has failed."""


def until(true: Callable[[], bool]) -> None:
    """Wait for something that other threads do and that nobody tells of."""
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


HOLDER = """
import sys, time
from copydesk.store.protocol import NOBODY, Caller
from copydesk.store.threads import FileLocks
with FileLocks(sys.argv[1]).hold("file"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `file`."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def waiting(queues: LockQueues, key: str) -> int:
    """How many wait in the queue."""
    queue = queues._queues.get(key)
    return len(queue.waiting) if queue else 0


def order_of(queues: LockQueues, tickets: list[Ticket]) -> list[Ticket]:
    """The order in which the tickets, which all wait, get their turns; never two at once."""
    order: list[Ticket] = []
    inside: list[int] = []

    def work(ticket: Ticket) -> None:
        with queues.lock("file", ticket):
            inside.append(1)
            assert len(inside) == 1
            order.append(ticket)
            inside.pop()

    threads = [threading.Thread(target=work, args=(ticket,), daemon=True) for ticket in tickets]
    with queues.lock("file", (0, "")):
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: waiting(queues, "file") == count)  # type: ignore[misc]
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    return order
