"""The results as Markdown. Of the machine only its kind is named."""

from __future__ import annotations

import os
import platform
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import apsw

from bench.arena import Cell
from bench.installing import Installed
from bench.results import Section, Table, cell_of, duration

VERDICTS = {True: "ok", False: "MISSED", None: "not measured"}
"""By whether a bar is met."""

_HEAD = """# Results of the benchmark

Run it again: `make bench` (at most 25 minutes on 2 cores), or `make bench-quick` (3 minutes, small
sizes, results in `bench/trial`). Both install the peers below `bench/.peers`, each in an
environment of its own, as pinned in `bench/peers`. `COPYDESK_DRIFT` names the folder of the drift
data set, `../shared/drift` if it is not set.

All contestants of a table ran in one run, in turns, in another order each time, each in its own
process; only the call is timed. Every edit is checked by digest: one that was not made, or was made
otherwise, has a word in the place of its time; `> 15 s` was ended then. Times are medians, with the
least and the most, and of how many; `×` is the ratio to the limit of the table. Memory is the peak
above what the process held before the call (of commands: all of it, and at least that of the small
Python process that starts them, about 14 MB). Absolute times mean little on a shared machine; the
ratios are the bar, and nobody adjusts a bar to a result.
"""


@dataclass(frozen=True)
class Facts:
    """Of the run: its scale, how long it took, the machine's load before and at the end."""

    scale: str
    minutes: float
    load: tuple[float, float]


def page(
    sections: Sequence[Section],
    found: Installed,
    facts: Facts,
    plots: Sequence[tuple[str, str]],
) -> str:
    """The whole page. `plots` are captions and file names."""
    every = [bar.met for section in sections for bar in section.bars]
    counts = ", ".join(f"{words} {every.count(met)}" for met, words in VERDICTS.items())
    parts = [
        _HEAD,
        f"This run: `{facts.scale}`, {facts.minutes:.0f} minutes with installing; load of the "
        f"machine {facts.load[0]:.1f} before, {facts.load[1]:.1f} at the end. "
        f"**Bars: {counts}.**\n",
        machine(),
        packages(),
        "## Bars\n",
        _bars(sections),
        *_missed(sections),
    ]
    if plots:
        parts.append("## Plots\n")
        parts += [f"![{caption}](plots/{name})\n" for caption, name in plots]
    parts += [section_text(section) for section in sections]
    parts += ["## Versions\n", _versions(found)]
    return "\n".join(parts).rstrip("\n") + "\n"


def machine() -> str:
    """The machine of the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}"
    return (
        f"Machine: {os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB of memory, {system}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}.\n"
    )


def packages() -> str:
    """What copydesk ran with: the packages of a plain install, and those of its extras."""
    plain: list[str] = []
    more: list[str] = []
    for wanted in requires("copydesk") or ():
        name = re.split(r"[^\w.-]", wanted)[0]
        try:
            told = f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
        (more if "extra ==" in wanted else plain).append(told)
    others = ", ".join(more) or "none"
    return (
        f"copydesk ran with what `pip install copydesk` gives: {', '.join(plain)}. Of its extras "
        f"there were: {others}.\n"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n")
    except OSError:
        return "processor unknown"
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else "processor unknown"


def _versions(found: Installed) -> str:
    rows = ["| contestant | version |", "|---|---|"]
    for package in ("copydesk", "mcp"):
        try:
            rows.append(_row([package, version(package)]))
        except PackageNotFoundError:
            rows.append(_row([package, "not installed"]))
    rows += [_row([name, told]) for name, told in sorted(found.version.items())]
    rows += [_row([name, f"skipped: {why}"]) for name, why in found.missing.items()]
    return "\n".join(rows) + "\n"


def _bars(sections: Sequence[Section]) -> str:
    rows = ["| | asked | measured | |", "|---|---|---|---|"]
    for section in sections:
        if section.failed:
            rows.append(_row([section.name, "all of it", "could not be run", VERDICTS[None]]))
        for bar in section.bars:
            verdict = VERDICTS[bar.met]
            shown = f"**{verdict}**" if bar.met is False else verdict
            rows.append(_row([section.name, bar.asked, bar.measured, shown]))
    return "\n".join(rows) + "\n"


def _missed(sections: Sequence[Section]) -> list[str]:
    """Why each workload misses what it misses."""
    reasons = tomllib.loads((Path(__file__).parent / "missed.toml").read_text("utf-8"))
    rows = [
        f"- **{section.name}**: {reasons.get(section.name, 'not yet known')}"
        for section in sections
        if any(bar.met is False for bar in section.bars)
    ]
    return ["## What is missed, and why\n", "\n".join(rows) + "\n"] if rows else []


def section_text(section: Section) -> str:
    """The section of a workload: its notes and tables."""
    parts = [f"## {section.name}. {section.title}\n", *(f"{note}\n" for note in section.notes)]
    parts += [_table(table) for table in section.tables]
    return "\n".join(parts)


def _table(table: Table) -> str:
    limit = cell_of(table.cells, table.limit) if table.limit else None
    timed = any(cell.seconds for cell in table.cells) or not table.extra
    head = ["", *(["median", "least - most", "of"] if timed else [])]
    head += [f"× {table.limit.removeprefix('limit: ')}"] if table.limit else []
    head += ["memory, MB"] if table.memory else []
    head += [*table.extra]
    rows = [f"**{table.caption}**\n", _row(head), "|" + "---|" * len(head)]
    for cell in sorted(table.cells, key=_order):
        row = [f"**{cell.name}**" if cell.kind == "copydesk" else cell.name]
        if timed:
            row += _times(cell)
        if table.limit:
            own, least = cell.median, limit and limit.median
            row.append(f"{own / least:.2f}" if own and least else "")
        if table.memory:
            used = cell.above_idle_mb
            row.append("" if used is None or cell.kind == "limit" else f"{used:.1f}")
        row += [column.get(cell.name, cell.failed) for column in table.extra.values()]
        rows.append(_row(row))
    return "\n".join(rows) + "\n"


def _times(cell: Cell) -> list[str]:
    if cell.median is None:
        return [cell.failed or "-", "", ""]
    least, most = duration(min(cell.seconds)), duration(max(cell.seconds))
    return [duration(cell.median), f"{least} - {most}", str(len(cell.seconds))]


def _order(cell: Cell) -> tuple[int, int, float]:
    """The sort key: limits first, then by time; those without a time last."""
    return (cell.kind != "limit", cell.median is None, cell.median or 0.0)


def _row(texts: Sequence[str]) -> str:
    cells = (text.replace("|", "\\|").replace("\n", " ") for text in texts)
    return "| " + " | ".join(cells) + " |"
