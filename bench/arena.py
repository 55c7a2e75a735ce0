"""Contestants side by side: workers, rounds, and whether the edit was made.

What lives here: the processes, the order of the rounds, the check by digest.
What must not: any one workload. Invariants: one contestant works at a time; the
order turns by one in every round; a time is kept only for an edit whose file
has the digest that it must have.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.contestant import FILE
from bench.field import Entrant

PROJECT = Path(__file__).parent.parent
START_SECONDS = 120.0
SETTLE_SECONDS = 0.03
"""After a file was put in place: a file is seldom edited in the instant it was written."""

LARGE_KB = 300 << 10
"""A process that held more than so much starts anew, to be idle again."""

Reply = dict[str, Any]


class TimedOut(Exception):
    """A contestant took longer than it may."""


class Worker:
    """The process of one contestant on one folder."""

    def __init__(self, entrant: Entrant, root: Path) -> None:
        self.entrant, self.root = entrant, root
        self._process = subprocess.Popen(
            [
                entrant.python,
                "-m",
                "bench.worker",
                entrant.module,
                json.dumps(dict(entrant.options)),
                str(root),
            ],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(root.parent)},
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._answer(START_SECONDS)
        except (TimedOut, OSError) as error:
            self.kill()
            raise OSError(f"{entrant.name} does not start: {error}") from None

    def ask(self, request: Reply, seconds: float) -> Reply:
        """Its reply; raises TimedOut, and OSError when it has ended."""
        self.send(request)
        return self._answer(seconds)

    def send(self, request: Reply) -> None:
        """Send a request whose reply is fetched later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def reply(self, seconds: float) -> Reply:
        """The reply to what was sent."""
        return self._answer(seconds)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (subprocess.TimeoutExpired, OSError):
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """End it and what it started: its own group, nothing else."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answer(self, seconds: float) -> Reply:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(until - time.monotonic(), 0)):
                    raise TimedOut(f"more than {seconds:.0f} s")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                if not data:
                    raise OSError("its process has ended")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: Reply = json.loads(line)
        return reply


@dataclass
class Cell:
    """What one contestant did in one row: times, memory above idle, or why there are none."""

    name: str
    kind: str
    seconds: list[float] = field(default_factory=list[float])
    peak_kb: list[int] = field(default_factory=list[int])
    idle_kb: list[int] = field(default_factory=list[int])
    failed: str = ""
    text: str = ""

    @property
    def median(self) -> float | None:
        """The median of the times."""
        return statistics.median(self.seconds) if self.seconds and not self.failed else None

    @property
    def above_idle_mb(self) -> float | None:
        """The largest peak of memory above what was held before the call, in MiB."""
        if not self.peak_kb or self.failed:
            return None
        pairs = zip(self.peak_kb, self.idle_kb, strict=True)
        return max(max(peak - idle, 0) for peak, idle in pairs) / 1024

    @property
    def peak_mb(self) -> float | None:
        """The largest peak of memory, in MiB."""
        return max(self.peak_kb) / 1024 if self.peak_kb and not self.failed else None


@dataclass(frozen=True)
class Round:
    """One request of a row, and what must be true of the file, or of the reply, afterwards.

    `restore` puts the file in place, before each contestant's turn.
    """

    request: Reply
    restore: Callable[[Path], None] | None = None
    digest: str | None = None
    right: Callable[[Reply], bool] = lambda reply: True


@dataclass
class Limits:
    """How long things may take. `given_up` names who is left out from now on, and why."""

    call_seconds: float
    cell_seconds: float
    given_up: dict[str, str] = field(default_factory=dict[str, str])


class Pool:
    """The workers, each started once; one that failed or grew large starts anew."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._workers: dict[str, Worker] = {}
        self._started = 0

    def get(self, entrant: Entrant) -> Worker:
        """The worker of a contestant; raises OSError when it does not start."""
        if entrant.name not in self._workers:
            self._started += 1
            root = self._home / f"{self._started:03d}"
            root.mkdir(parents=True)
            self._workers[entrant.name] = Worker(entrant, root)
        return self._workers[entrant.name]

    def drop(self, name: str) -> None:
        """End a worker and remove its folder."""
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.kill()
            shutil.rmtree(worker.root, ignore_errors=True)

    def close(self) -> None:
        """Let all workers end."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


def compete(
    rows: Sequence[Entrant],
    pool: Pool,
    rounds: Iterable[Round],
    limits: Limits,
    warm: Round,
    expects: str = "success",
) -> list[Cell]:
    """Let all contestants do each round in turn, the first one first in every other round.

    `warm` is done before, so that nothing is loaded in a measured call. `expects`
    "refusal": a contestant does right when it refuses.
    """
    cells = {row.name: Cell(row.name, row.kind) for row in rows}
    workers: dict[str, Worker] = {}
    for row in rows:
        cell = cells[row.name]
        if row.name in limits.given_up:
            cell.failed = limits.given_up[row.name]
            continue
        try:
            worker = pool.get(row)
            if warm.restore is not None:
                warm.restore(worker.root)
            worker.ask(warm.request, limits.call_seconds)
            workers[row.name] = worker
        except (OSError, TimedOut) as error:
            cell.failed = f"does not start: {error}"
            pool.drop(row.name)
    for turn, one in enumerate(rounds):
        for name in _turned(list(workers), turn):
            if not _turn(workers[name], cells[name], one, limits, expects):
                del workers[name]
    for name, cell in cells.items():
        if cell.failed.startswith("over "):
            limits.given_up.setdefault(name, f"left out: {cell.failed} on a smaller one")
        if cell.failed or max(cell.peak_kb, default=0) > LARGE_KB:
            pool.drop(name)
    for worker in workers.values():
        (worker.root / FILE).unlink(missing_ok=True)
    return list(cells.values())


def _turned(names: list[str], turn: int) -> list[str]:
    at = turn % len(names) if names else 0
    return names[at:] + names[:at]


def _turn(worker: Worker, cell: Cell, one: Round, limits: Limits, expects: str) -> bool:
    """One contestant's turn; whether it takes further part in the row."""
    if sum(cell.seconds) > limits.cell_seconds:
        return False
    if one.restore is not None:
        one.restore(worker.root)
        time.sleep(SETTLE_SECONDS)
    try:
        reply = worker.ask(one.request, limits.call_seconds)
    except TimedOut:
        cell.failed = f"over {limits.call_seconds:.0f} s"
        return False
    except OSError:
        cell.failed = "its process died"
        return False
    cell.text = reply.get("text", "")
    failed = reply.get("failed", "")
    if expects == "refusal" and cell.kind != "limit":
        failed = "" if failed in ("refused", "error") else failed or "did not refuse"
    if not failed and cell.kind != "limit" and not _right(worker.root, one, reply):
        failed = "wrong"
    if failed:
        cell.failed = failed
        return False
    cell.seconds.append(reply["seconds"])
    cell.peak_kb.append(reply["peak_kb"])
    cell.idle_kb.append(reply["idle_kb"])
    return True


def _right(root: Path, one: Round, reply: Reply) -> bool:
    if one.digest is not None and digest_of(root / FILE) != one.digest:
        return False
    return one.right(reply)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def placed(master: Path) -> Callable[[Path], None]:
    """What puts a copy of the file, flushed, into a contestant's folder."""

    def restore(root: Path) -> None:
        path = root / FILE
        path.unlink(missing_ok=True)
        shutil.copyfile(master, path)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    return restore


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
