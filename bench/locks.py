"""Processes that want one file's lock all the time, beside a plain `flock` loop in the same run.

`python -m bench.locks`. Bars: at least 0.8 of the plain loop's turns; no wait longer than 3 x
processes x hold + 100 ms; at most 64 turns of others while one waits. Exit status 1: one is missed.
"""

from __future__ import annotations

import argparse
import bisect
import fcntl
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

SHARE, TURNS, MORE_SECONDS = 0.8, 64, 0.1

Kind = Literal["flock", "copydesk"]
Wait = tuple[float, float]
"""When a process asked, and when it had the lock."""


class Plain:
    """The lock of a file by `flock` alone."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT)

    def __enter__(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)


@dataclass(frozen=True)
class Race:
    """One race: turns, the longest wait in seconds, the most turns of others within one."""

    turns: int
    longest: float
    overtaken: int


def race(
    folder: Path, kind: Kind, processes: int, hold: float, seconds: float, *, spins: bool
) -> Race:
    """Let so many processes take turns for a while; `spins`: who holds the lock needs a core."""
    context = get_context("fork")
    barrier, told = context.Barrier(processes), context.Queue()
    args = (folder, kind, hold, seconds, spins, barrier, told)
    children = [context.Process(target=_work, args=args, daemon=True) for _ in range(processes)]
    for child in children:
        child.start()
    waits: list[list[Wait]] = [told.get(timeout=seconds + 60) for _ in children]
    for child in children:
        child.join(20)
    every = sorted(got for mine in waits for _, got in mine)
    overtaken = [
        bisect.bisect_left(every, got) - bisect.bisect_right(every, asked)
        for mine in waits
        for asked, got in mine
    ]
    longest = max(got - asked for mine in waits for asked, got in mine)
    return Race(len(every), longest, max(overtaken))


def _work(
    folder: Path, kind: Kind, hold: float, seconds: float, spins: bool, barrier: Any, told: Any
) -> None:
    """Ask again and again, and hold the lock each time."""
    turn = _locks(folder, kind)
    waits: list[Wait] = []
    barrier.wait(60)
    until = time.monotonic() + seconds
    while (asked := time.monotonic()) < until:
        with turn():
            got = time.monotonic()
            if not spins:
                time.sleep(hold)
            while time.monotonic() - got < hold:
                pass
        waits.append((asked, got))
    told.put(waits)


def _locks(folder: Path, kind: Kind) -> Callable[[], AbstractContextManager[None]]:
    if kind == "flock":
        plain = Plain(folder / "plain")
        return lambda: plain
    from copydesk.store.threads import FileLocks, LockQueues

    (folder / "locks").mkdir(exist_ok=True)
    queues = LockQueues(FileLocks(str(folder / "locks")))
    return lambda: queues.lock("file", (0, ""))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.locks", description=__doc__)
    parser.add_argument("--processes", type=int, default=8, help="(8)")
    parser.add_argument("--hold", type=float, default=0.3, help="milliseconds (0.3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each race (5)")
    parser.add_argument("--rounds", type=int, default=3, help="of both, in turn (3)")
    parser.add_argument("--spin", action="store_true", help="who holds it needs a core meanwhile")
    options = parser.parse_args(words)
    hold = options.hold / 1_000
    races: dict[Kind, list[Race]] = {"flock": [], "copydesk": []}
    with tempfile.TemporaryDirectory(prefix="locks-") as name:
        for _ in range(options.rounds):
            for kind, found in races.items():
                where = Path(name)
                given = (options.processes, hold, options.seconds)
                found.append(race(where, kind, *given, spins=options.spin))
    print("| lock | turns | longest wait | most turns of others within a wait |\n|---|---|---|---|")
    for kind, found in races.items():
        turns = ", ".join(str(one.turns) for one in found)
        longest = max(one.longest for one in found)
        print(
            f"| {kind} | {turns} | {longest * 1_000:.0f} ms | {max(o.overtaken for o in found)} |"
        )
    ours = races["copydesk"]
    share = statistics.median(
        mine.turns / plain.turns for mine, plain in zip(ours, races["flock"], strict=True)
    )
    longest, most = max(o.longest for o in ours), 3 * options.processes * hold + MORE_SECONDS
    overtaken = max(one.overtaken for one in ours)
    bars = {
        f"{share:.2f} of the turns of flock, at least {SHARE}": share >= SHARE,
        f"longest wait {longest * 1_000:.0f} ms, at most {most * 1_000:.0f}": longest <= most,
        f"{overtaken} turns of others, at most {TURNS}": overtaken <= TURNS,
    }
    for bar, held in bars.items():
        print(f"- {'held' if held else 'MISSED'}: {bar}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
