"""W6: eight processes at once, on one file and then on their own files."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import field as names
from bench import say
from bench.arena import Cell, placed
from bench.data import Text
from bench.field import Entrant
from bench.pool import Reply, TimedOut
from bench.results import Bar, Section, Table
from bench.setting import KB, Setting

PROCESSES = 8
TRIES = 50
WITH_REPLACE = ("aider", "OpenHands editor", "mcp-text-editor", "MCP filesystem server")
PYTHON = WITH_REPLACE[:3]


@dataclass(frozen=True)
class Race:
    """One race: edits in the file, edits reported, and the time.

    `timely`: no process was stopped by the clock.
    """

    seconds: float
    done: int
    lost: int
    refused: int
    damaged: bool
    timely: bool = True

    @property
    def rate(self) -> float:
        """Edits in the file a second."""
        return (self.done - self.lost) / self.seconds


Races = Mapping[str, Sequence[Race] | str]
"""By contestant; a text says why there is none."""


def run(bench: Setting) -> Section:
    """Each edit puts a line of its own after the process's marked line."""
    each = bench.scale.edits_each
    section = Section("W6", f"{PROCESSES} processes, {each} edits each")
    section.notes.append(
        "Lost: reported as made, but not in the file at the end. An edit that was refused is "
        f"tried again, up to {TRIES} times. A race ends after {bench.scale.race_seconds:g} s, a "
        "peer's after half of it. Damaged: a line that nobody edited is gone. Of several races the "
        "worst is shown, and the median rate."
    )
    own = (names.FLOCK, names.FLOCK_FAST, names.FULL, names.FAST)
    rows = bench.rows(*own, peers=WITH_REPLACE)
    for same, caption in ((True, "one file"), (False, "own files")):
        races = _races(bench, rows, same=same)
        asked = PROCESSES * each
        section.tables.append(_table(caption, rows, races, asked))
        for name, limit, words in (
            (names.FULL, names.FLOCK, "full"),
            (names.FAST, names.FLOCK_FAST, "fast"),
        ):
            told = f'{caption}, "{words}"'
            section.bars.append(nothing_lost(told, races.get(name), asked))
            section.bars.append(
                quarter(told, races.get(name), races.get(limit))
                if same
                else ahead(told, races.get(name), {n: races[n] for n in PYTHON if n in races})
            )
    return section


def _races(bench: Setting, rows: Sequence[Entrant], *, same: bool) -> dict[str, list[Race] | str]:
    """One race of each, then again of those that are compared and quick; a peer's is to see."""
    found: dict[str, list[Race] | str] = {row.name: [] for row in rows}
    for turn in range(bench.scale.races):
        for row in rows:
            so_far = found[row.name]
            if isinstance(so_far, str) or (turn and row.kind == "peer"):
                continue
            slow = sum(race.seconds for race in so_far) > bench.scale.race_seconds / 2
            if turn and (slow or time.monotonic() > bench.until):
                continue
            say(f"  race of {row.name}, {'one file' if same else 'own files'}")
            try:
                so_far.append(_race(bench, row, same=same))
            except (OSError, TimedOut):
                found[row.name] = "failed"
    return found


def _race(bench: Setting, row: Entrant, *, same: bool) -> Race:
    seconds = bench.scale.race_seconds / (2 if row.kind == "peer" else 1)
    root = bench.folder("w6")
    root.mkdir()
    text = Text(10 * KB)
    master = bench.master(text)
    paths = ["f.txt" if same else f"f{n}.txt" for n in range(PROCESSES)]
    placed(master)(root)
    for path in paths:
        if path != "f.txt":
            shutil.copyfile(master, root / path)
    request = {
        "do": "race",
        "root": str(root),
        "paths": paths,
        "marks": [mark.old[0] for mark in text.marks(PROCESSES)],
        "count": bench.scale.edits_each,
        "tries": TRIES,
        "seconds": seconds,
    }
    try:
        reply = bench.pool.get(row).ask(request, seconds + 30)
        if "replies" not in reply:
            raise OSError(reply.get("text", "failed"))
        replies = sorted(reply["replies"], key=lambda one: one["number"])
        return _judged(root, paths, replies, master, seconds)
    except (OSError, TimedOut):
        bench.pool.drop(row.name)
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _judged(root: Path, paths: list[str], replies: list[Reply], master: Path, most: float) -> Race:
    """Compare the files with the reports."""
    lines = {path: (root / path).read_text("utf-8", "replace").split("\n") for path in paths}
    done = sum(len(reply["done"]) for reply in replies)
    there = 0
    for path, reply in zip(paths, replies, strict=True):
        have = set(lines[path])
        there += sum(token in have for token in reply["done"])
    before = master.read_text().split("\n")
    damaged = any(
        [line for line in now if not line.startswith("token-")] != before for now in lines.values()
    )
    seconds = max(r["ended"] for r in replies) - min(r["began"] for r in replies)
    refused = sum(reply["refused"] for reply in replies)
    timely = all(reply["ended"] - reply["began"] < most for reply in replies)
    return Race(seconds, done, done - there, refused, damaged, timely)


def _table(caption: str, rows: Sequence[Entrant], races: Races, asked: int) -> Table:
    cells: list[Cell] = []
    columns = ("edits/s", "made", "lost", "refused", "damaged")
    extra: dict[str, dict[str, str]] = {column: {} for column in columns}
    for row in rows:
        found = races[row.name]
        cells.append(Cell(row.name, row.kind, failed=found if isinstance(found, str) else ""))
        if isinstance(found, str) or not found:
            continue
        rates = [race.rate for race in found]
        worst = max(found, key=lambda race: race.lost + asked - race.done)
        span = f" ({min(rates):.0f} - {max(rates):.0f})" if len(rates) > 1 else ""
        extra["edits/s"][row.name] = f"{statistics.median(rates):.0f}{span}"
        extra["made"][row.name] = f"{worst.done:,} of {asked:,}"
        extra["lost"][row.name] = str(worst.lost)
        extra["refused"][row.name] = str(worst.refused)
        extra["damaged"][row.name] = "yes" if any(race.damaged for race in found) else "no"
    return Table(caption, cells, None, extra, memory=False)


def nothing_lost(told: str, own: Sequence[Race] | str | None, asked: int) -> Bar:
    """The bar that none is gone, nothing else was touched, and all were made that had the time."""
    words = f"{told}: nothing lost"
    if not own or isinstance(own, str):
        return Bar(words, "not measured", None)
    lost, unmade = max(race.lost for race in own), max(asked - race.done for race in own)
    failed = any(race.timely and race.done < asked for race in own)
    harmed = any(race.damaged for race in own)
    shown = f"{lost} lost, {unmade} not made" + (", damaged" if harmed else "")
    return Bar(words, shown, not (lost or failed or harmed))


def quarter(told: str, own: Sequence[Race] | str | None, limit: Sequence[Race] | str | None) -> Bar:
    """The bar against the plain loop."""
    words = f"{told}: at least a quarter of the flock loop"
    rate, least = _rate(own), _rate(limit)
    if not rate or not least:
        return Bar(words, "not measured", None)
    return Bar(words, f"{rate / least:.2f} ({rate:.0f}/s against {least:.0f}/s)", rate >= least / 4)


def ahead(told: str, own: Sequence[Race] | str | None, peers: Races) -> Bar:
    """The bar against the peers in Python."""
    words = f"{told}: ahead of every Python peer"
    rates = {name: _rate(races) for name, races in peers.items()}
    rate, best = _rate(own), max(rates, key=lambda name: rates[name], default="")
    if not rate or not best or not rates[best]:
        return Bar(words, "not measured", None)
    return Bar(words, f"{rate:.0f}/s; the first, {best}, {rates[best]:.0f}/s", rate > rates[best])


def _rate(races: Sequence[Race] | str | None) -> float:
    """The median; 0 where there is none."""
    return statistics.median(r.rate for r in races) if races and not isinstance(races, str) else 0.0
