"""Contestants side by side: rounds, their time limits, and the check of each edit by digest.

Invariants: one contestant works at a time; every round has its own order; a time is recorded only
for an edit whose file has the right digest.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.contestant import FILE
from bench.field import Entrant
from bench.pool import Pool, Reply, TimedOut, Worker

SETTLE_SECONDS = 0.03
"""After a file was put in place: a file is seldom edited in the instant it was written."""

LARGE_KB = 300 << 10
"""A process that held more than so much starts anew, to be idle again."""


@dataclass
class Cell:
    """One contestant's result in one row: times, memory above idle, or why there are none."""

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

    `restore` puts the file in place before each contestant's turn, and it is taken
    away after it unless it is kept for the next round.
    """

    request: Reply
    restore: Callable[[Path], None] | None = None
    digest: str | None = None
    right: Callable[[Reply], bool] = lambda reply: True
    keep: bool = False


@dataclass
class Limits:
    """How long things may take, in seconds.

    A call; all calls of a peer in a row; a row, between its first and its last
    round; all rows, by the monotonic clock. `given_up` names who is left out from
    now on, and why.
    """

    call: float
    peer: float
    row: float
    until: float
    given_up: dict[str, str] = field(default_factory=dict[str, str])


def compete(
    rows: Sequence[Entrant],
    pool: Pool,
    rounds: Iterable[Round],
    limits: Limits,
    warm: Round,
    expects: str = "success",
) -> list[Cell]:
    """Let all contestants do each round, one after the other; at least one round is made.

    `warm` is done before, so that nothing is loaded in a measured call. `expects`
    "refusal": a contestant does right when it refuses.
    """
    cells = {row.name: Cell(row.name, row.kind) for row in rows}
    workers = _warmed(rows, pool, limits, warm, cells)
    end = limits.until
    for turn, one in enumerate(rounds):
        if turn == 1:  # the slow ones, which take part in the first round only, take nobody's time
            end = min(time.monotonic() + limits.row, limits.until)
        if turn and time.monotonic() > end:
            break
        for name in order(list(workers), turn):
            if not _turn(workers[name], cells[name], one, limits, expects):
                del workers[name]
    for name, cell in cells.items():
        if cell.failed.startswith("> "):
            limits.given_up.setdefault(name, f"left out, {cell.failed} before")
        if cell.failed or max(cell.peak_kb, default=0) > LARGE_KB:
            pool.drop(name)
    for worker in workers.values():
        (worker.root / FILE).unlink(missing_ok=True)
    return list(cells.values())


def order(names: Sequence[str], turn: int) -> list[str]:
    """The order of a round: neighbours vary, but are the same in every run."""
    return random.Random(turn).sample(names, len(names))


def _warmed(
    rows: Sequence[Entrant], pool: Pool, limits: Limits, warm: Round, cells: dict[str, Cell]
) -> dict[str, Worker]:
    workers: dict[str, Worker] = {}
    for row in rows:
        if row.name in limits.given_up:
            cells[row.name].failed = limits.given_up[row.name]
            continue
        try:
            worker = pool.get(row)
            if warm.restore is not None:
                warm.restore(worker.root)
            worker.ask(warm.request, limits.call)
            workers[row.name] = worker
        except (OSError, TimedOut):
            cells[row.name].failed = "does not start"
            pool.drop(row.name)
    return workers


def _turn(worker: Worker, cell: Cell, one: Round, limits: Limits, expects: str) -> bool:
    """Run one contestant; whether it stays in the row."""
    if cell.kind == "peer" and sum(cell.seconds) > limits.peer:
        return False
    if one.restore is not None:
        one.restore(worker.root)
        time.sleep(SETTLE_SECONDS)
    try:
        reply = worker.ask(one.request, limits.call)
        cell.failed = _judged(worker.root, cell, one, reply, expects)
    except TimedOut:
        cell.failed = f"> {limits.call:g} s"
    except OSError:
        cell.failed = "its process died"
    else:
        cell.text = reply.get("text", "")
        if not cell.failed:
            cell.seconds.append(reply["seconds"])
            cell.peak_kb.append(reply["peak_kb"])
            cell.idle_kb.append(reply["idle_kb"])
    if not one.keep:  # what it wrote and did not flush is nobody else's to flush
        (worker.root / FILE).unlink(missing_ok=True)
    return not cell.failed


def _judged(root: Path, cell: Cell, one: Round, reply: Reply, expects: str) -> str:
    """The error, or an empty text."""
    failed: str = reply.get("failed", "")
    if cell.kind == "limit":
        return failed
    if expects == "refusal":
        refusals = ("refused",) if cell.kind == "copydesk" else ("refused", "error")
        failed = "" if failed in refusals else failed or "did not refuse"
    if failed:
        return failed
    if one.digest is not None and digest_of(root / FILE) != one.digest:
        return "wrong"
    return "" if one.right(reply) else "wrong"


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


def linked(master: Path) -> Callable[[Path], None]:
    """What puts the file itself, to be read only, into a contestant's folder, as one just changed.

    So nobody tells from its times that it was read before.
    """

    def restore(root: Path) -> None:
        path = root / FILE
        path.unlink(missing_ok=True)
        path.hardlink_to(master)
        os.utime(path)

    return restore
