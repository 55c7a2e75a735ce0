"""W2: one atomic batch of many unique edits."""

from __future__ import annotations

from bench import field as names
from bench.arena import Cell, Limits, compete
from bench.data import Text
from bench.results import Section, Table, ahead_bar, between, cell_of, ratio_bar, size_text
from bench.setting import MB, Setting

PLOT_BYTES = 10 * MB
NO_BATCH = ("OpenHands editor", "GNU sed")


def run(bench: Setting) -> Section:
    """All edits in one call; a contestant that makes them one by one says so in its time."""
    section = Section("W2", "One atomic batch of k unique edits")
    section.notes.append(
        "aider and mcp-text-editor take a batch, but write the file without a rename; aider "
        "writes it once for each edit. OpenHands and sed have no batch."
    )
    limits = bench.limits()
    found: dict[tuple[int, int], list[Cell]] = {}
    for count, size in bench.scale.batches:
        cells = found[count, size] = _compete(bench, count, size, limits)
        caption = f"{count:,} edits in {size_text(size)}"
        section.tables.append(Table(caption, cells, names.FSYNC))
        if size >= MB:
            asked = f'{caption}: "full" within 3 × of fsync + rename'
            section.bars.append(ratio_bar(asked, cells, names.FULL, names.FSYNC, 3.0))
        section.bars += [
            ahead_bar(f'{caption}: "{name}" ahead of every peer', cells, own)
            for name, own in (("full", names.FULL), ("fast", names.FAST))
        ]
    many, few = found.get((10_000, 100 * MB)), found.get((1_000, 100 * MB))
    if many and few:
        ends = cell_of(many, names.FULL), cell_of(few, names.FULL)
        asked = '10,000 edits at most 1.5 × the time of 1,000, 100 MB, "full"'
        section.bars.append(between(asked, *ends, 1.5))
    limits = bench.limits()
    for count in bench.scale.batch_edits:
        cells = found.get((count, PLOT_BYTES)) or _compete(bench, count, PLOT_BYTES, limits)
        section.plot("edits-time", count, cells)
        section.plot("edits-memory", count, cells, memory=True)
    return section


def _compete(bench: Setting, count: int, size: int, limits: Limits) -> list[Cell]:
    rows = bench.rows(names.FSYNC, names.RENAME, names.FULL, names.FAST)
    rows = [row for row in rows if row.name not in NO_BATCH]
    rounds = [bench.edit_round(Text(size), "batch", count)] * bench.scale.rounds
    return compete(rows, bench.pool, rounds, limits, bench.warm("batch"))
