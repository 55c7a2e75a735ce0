"""How long writers of one state file wait for each other: transactions a second, waits, failures.

python -m bench.waiting             8 and 64 processes, the busy handler as it is
python -m bench.waiting 64 0.5:20   64 of them, waits of 0.5 to 20 ms
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from copydesk.desk.backends import sqlite
from copydesk.desk.backends.sqlite import Database
from copydesk.errors import StateFailed
from copydesk.store.state import StateFile

SECONDS = 6.0
SCHEMA = "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text BLOB)"
INSERT = "INSERT INTO t (text) VALUES (randomblob(1500))"


def write(path: str, until: float) -> tuple[list[float], int]:
    """Write every third transaction flushed, as an edit does; the seconds of each, and failures."""
    state, took, failures = Database(StateFile(path), "FULL"), list[float](), 0
    state.define(SCHEMA)
    state.rows("SELECT 1")
    while (begun := time.time()) < until:
        try:
            with state.writing(flushed=len(took) % 3 == 0) as db:
                db.execute(INSERT)
        except StateFailed:
            failures += 1
        took.append(time.time() - begun)
    state.close()
    return took, failures


def measured(processes: int) -> str:
    """One line of figures of so many processes at once."""
    with TemporaryDirectory(dir=".") as folder, multiprocessing.Pool(processes) as pool:
        path = f"{folder}/state.sqlite"
        write(path, 0)  # makes the file
        until = time.time() + SECONDS + processes / 32  # they do not start at once
        found = pool.starmap(write, [(path, until)] * processes, chunksize=1)
    all_ = sorted(seconds for took, _ in found for seconds in took)
    by_one = sorted(len(took) for took, _ in found)
    ms = [all_[int((len(all_) - 1) * share)] * 1_000 for share in (0.5, 0.99, 1)]
    return (
        f"{processes} processes: {len(all_) / SECONDS:,.0f} a second; median {ms[0]:.1f} ms,"
        f" 99 % {ms[1]:.0f} ms, longest {ms[2]:.0f} ms; by one process {by_one[0]} to"
        f" {by_one[-1]}; failures {sum(failed for _, failed in found)}"
    )


def main(arguments: Sequence[str]) -> None:
    if len(arguments) > 1:
        shortest, _, longest = arguments[1].partition(":")
        sqlite._POLL_SECONDS = float(shortest) / 1_000, float(longest) / 1_000  # pyright: ignore[reportPrivateUsage]
    for processes in [int(arguments[0])] if arguments else [8, 64]:
        print(measured(processes))


if __name__ == "__main__":
    main(sys.argv[1:])
