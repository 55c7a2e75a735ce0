"""The results as Markdown.

What lives here: the page's text. What must not: judging. Nothing of the machine
but its kind stands in it.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.arena import Cell
from bench.installing import Installed
from bench.results import Bar, Section, Table, cell_of, duration

_HEAD = """# Results of the benchmark

Run it again: `make bench` (about 25 minutes on 2 cores), `make bench-quick` (about 3). Peers are
installed below `bench/.peers`, each in an environment of its own, pinned in `bench/peers`.

All contestants of a table ran in one run, in turns, each in its own process; only the call is
timed. Every edit is checked by digest: one that was not made, or was made otherwise, has a word in
the place of its time. Times are medians with the least and the most; `×` is the ratio to the limit
of the table. Memory is the peak above what the process held before the call (of commands: all of
it, which reads at least the {floor:.0f} MB of the Python that starts them). Absolute times mean
little on a shared machine; the ratios are the bar, and nobody adjusts a bar to a result.
"""


def page(
    sections: Sequence[Section],
    found: Installed,
    scale: str,
    minutes: float,
    floor_mb: float,
    plots: Sequence[tuple[str, str]],
) -> str:
    """The whole page. `plots` are captions and file names."""
    every = [bar for section in sections for bar in section.bars]
    met, missed = (sum(bar.met is known for bar in every) for known in (True, False))
    parts = [
        _HEAD.format(floor=floor_mb),
        f"This run: `{scale}`, {minutes:.0f} minutes. Bars met: {met}, missed: {missed}, "
        f"not measured: {len(every) - met - missed}.\n",
        _machine(),
        _versions(found),
        "## Bars\n",
        *(_bars(section) for section in sections if section.bars),
    ]
    if plots:
        parts.append("## Plots\n")
        parts += [f"![{caption}](plots/{name})\n" for caption, name in plots]
    parts += [_section(section) for section in sections]
    return "\n".join(parts).rstrip("\n") + "\n"


def _machine() -> str:
    cores = os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}"
    return (
        f"Machine: {cores} cores ({_processor()}), {memory:.0f} GiB of memory, {system}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}.\n"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "processor unknown"
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else "processor unknown"


def _versions(found: Installed) -> str:
    rows = ["| contestant | version |", "|---|---|"]
    for package in ("copydesk", "mcp"):
        try:
            rows.append(f"| {package} | {version(package)} |")
        except PackageNotFoundError:
            rows.append(f"| {package} | not installed |")
    rows += [
        f"| {name} | {told.split('/')[-1]} |"
        for name, told in found.version.items()
        if name != "bpe-openai"
    ]
    rows += [f"| {name} | skipped: {_cell(why)} |" for name, why in found.missing.items()]
    return "\n".join(rows) + "\n"


def _bars(section: Section) -> str:
    rows = [f"**{section.name}. {section.title}**\n", "| asked | measured | |", "|---|---|---|"]
    rows += [
        f"| {_cell(bar.asked)} | {_cell(bar.measured)} | {_verdict(bar)} |" for bar in section.bars
    ]
    return "\n".join(rows) + "\n"


def _verdict(bar: Bar) -> str:
    return {True: "met", False: "**missed**", None: "-"}[bar.met]


def _section(section: Section) -> str:
    parts = [f"## {section.name}. {section.title}\n", *(f"{note}\n" for note in section.notes)]
    parts += [_table(table) for table in section.tables]
    return "\n".join(parts)


def _table(table: Table) -> str:
    limit = cell_of(table.cells, table.limit) if table.limit else None
    timed = any(cell.seconds for cell in table.cells) or not table.extra
    head = ["", *(["median", "least - most"] if timed else [])]
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
        return [cell.failed or "-", ""]
    return [duration(cell.median), f"{duration(min(cell.seconds))} - {duration(max(cell.seconds))}"]


def _order(cell: Cell) -> tuple[int, int, float]:
    return (cell.kind != "limit", cell.median is None, cell.median or 0.0)


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(text) for text in texts) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
