"""W6: eight processes at once, on one file and then on their own files."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from bench import field as names
from bench.arena import Cell, Reply, TimedOut, placed, say
from bench.data import Text
from bench.field import Entrant
from bench.results import Bar, Section, Table
from bench.setting import KB, Setting

TRIES = 50
RACES = 3


@dataclass(frozen=True)
class Race:
    """One race: edits that are in the file a second, and what happened to the others."""

    rate: float
    done: int
    lost: int
    refused: int
    damaged: bool


def run(bench: Setting) -> Section:
    """Each edit puts a line of its own after the process's marked line."""
    count, each = bench.scale.processes, bench.scale.edits_each
    section = Section("W6", f"{count} processes, {each} edits each")
    section.notes.append(
        "Lost: reported as made, but not in the file at the end. An edit that was refused is "
        f"tried again, up to {TRIES} times. Damaged: a line that nobody edited is gone."
    )
    peers = [r.name for r in bench.rows() if r.name in _WITH_REPLACE]
    rows = bench.rows(names.FLOCK, names.FLOCK_FAST, names.FULL, names.FAST, peers=peers)
    for same, caption in ((True, "one file"), (False, "own files")):
        races = _races(bench, rows, same=same)
        section.tables.append(_table(caption, rows, races, count * each))
        section.bars += _bars(caption, races, count * each, same=same)
    return section


_WITH_REPLACE = ("aider", "OpenHands editor", "mcp-text-editor", "MCP filesystem server")


def _races(bench: Setting, rows: list[Entrant], *, same: bool) -> dict[str, list[Race] | str]:
    found: dict[str, list[Race] | str] = {row.name: [] for row in rows}
    for _ in range(RACES if bench.scale.name == "full" else 1):
        for row in rows:
            so_far = found[row.name]
            if isinstance(so_far, str):
                continue
            if so_far and row.kind == "peer":
                continue  # one race of theirs is enough to see
            say(f"  race of {row.name}, {'one file' if same else 'own files'}")
            try:
                so_far.append(_race(bench, row, same=same))
            except (OSError, TimedOut) as error:
                found[row.name] = str(error)
    return found


def _race(bench: Setting, row: Entrant, *, same: bool) -> Race:
    scale = bench.scale
    root = bench.folder("w6")
    root.mkdir()
    text = Text(10 * KB)
    marks = [mark.old[0] for mark in text.marks(scale.processes)]
    master = bench.master(text)
    paths = ["f.txt" if same else f"f{n}.txt" for n in range(scale.processes)]
    placed(master)(root)
    for path in paths:
        if path != "f.txt":
            shutil.copyfile(master, root / path)
    request = {
        "do": "race",
        "root": str(root),
        "paths": paths,
        "marks": marks,
        "count": scale.edits_each,
        "tries": TRIES,
        "seconds": scale.race_seconds,
    }
    try:
        reply = bench.pool.get(row).ask(request, scale.race_seconds + 60)
        if "replies" not in reply:
            raise OSError(reply.get("text", "failed"))
        replies = sorted(reply["replies"], key=lambda one: one["number"])
        return _judged(root, paths, replies, master)
    except (OSError, TimedOut):
        bench.pool.drop(row.name)
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _judged(root: Path, paths: list[str], replies: list[Reply], master: Path) -> Race:
    """What stands in the files against what was reported."""
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
    return Race(there / seconds, done, done - there, refused, damaged)


def _table(
    caption: str, rows: list[Entrant], races: dict[str, list[Race] | str], asked: int
) -> Table:
    cells: list[Cell] = []
    columns = ("edits/s", "made", "lost", "refused", "damaged")
    extra: dict[str, dict[str, str]] = {column: {} for column in columns}
    for row in rows:
        found = races[row.name]
        cell = Cell(row.name, row.kind, failed=found if isinstance(found, str) else "")
        cells.append(cell)
        if isinstance(found, str) or not found:
            continue
        rates = [race.rate for race in found]
        worst = max(found, key=lambda race: race.lost)
        span = f" ({min(rates):.0f}-{max(rates):.0f})" if len(rates) > 1 else ""
        extra["edits/s"][row.name] = f"{statistics.median(rates):.0f}{span}"
        extra["made"][row.name] = f"{worst.done} of {asked}"
        extra["lost"][row.name] = str(worst.lost)
        extra["refused"][row.name] = str(worst.refused)
        extra["damaged"][row.name] = "yes" if any(race.damaged for race in found) else "no"
    return Table(caption, cells, None, extra, memory=False)


def _bars(caption: str, races: dict[str, list[Race] | str], asked: int, *, same: bool) -> list[Bar]:
    bars: list[Bar] = []
    for name, limit, words in (
        (names.FULL, names.FLOCK, '"full"'),
        (names.FAST, names.FLOCK_FAST, '"fast"'),
    ):
        own = races.get(name)
        if not isinstance(own, list) or not own:
            bars.append(Bar(f"{caption}, {words}", "not measured", None))
            continue
        lost = max(race.lost + asked - race.done for race in own)
        harmed = any(race.damaged for race in own)
        shown = f"{lost} lost or not made" + (", damaged" if harmed else "")
        bars.append(Bar(f"{caption}, {words}: nothing lost", shown, not lost and not harmed))
        rate, least = _rate(own), _rate(races.get(limit))
        if same:
            asked_for = f"{caption}, {words}: at least a quarter of the flock loop"
            if least:
                shown = f"{rate / least:.2f} ({rate:.0f}/s against {least:.0f}/s)"
                bars.append(Bar(asked_for, shown, rate >= least / 4))
            else:
                bars.append(Bar(asked_for, "not measured", None))
            continue
        peers = {n: _rate(r) for n, r in races.items() if n in _WITH_REPLACE and _rate(r)}
        python = {n: r for n, r in peers.items() if n != "MCP filesystem server"}
        if python:
            best = max(python, key=lambda n: python[n])
            shown = f"{rate:.0f}/s; the first of them, {best}, {python[best]:.0f}/s"
            asked_for = f"{caption}, {words}: ahead of every Python peer"
            bars.append(Bar(asked_for, shown, rate > python[best]))
    return bars


def _rate(races: list[Race] | str | None) -> float:
    return statistics.median(r.rate for r in races) if isinstance(races, list) and races else 0.0
