"""W3: one edit in the middle of files of all sizes, by line number and by anchor."""

from __future__ import annotations

from dataclasses import replace

from bench import field as names
from bench.arena import compete
from bench.contestant import How
from bench.data import Text
from bench.results import Section, Table, cell_of, memory_bar, ratio_bar, size_text
from bench.setting import LARGE, MB, Setting

HOWS: tuple[tuple[How, str], ...] = (("line", "by line number"), ("anchor", "by anchor"))
LARGE_TIMES = 4.0
MOST_MEMORY_MB = 128.0


def run(bench: Setting) -> Section:
    """Prepare and apply, against a copy of the file."""
    section = Section("W3", "One edit in the middle of a file")
    section.notes.append(
        "Tools that take neither a number nor an anchor replace the text, so that both tables "
        "ask the same of them; above 100 MB the second one leaves them out."
    )
    for how, words in HOWS:
        limits, large = bench.limits(), bench.limits(LARGE_TIMES)
        for size in bench.scale.sizes:
            if how == "anchor" and size < MB:
                continue
            peers = ("GNU patch", "GNU sed") if how == "anchor" and size > LARGE else None
            own = (names.COPY, names.COPY_FAST, names.FULL, names.FAST)
            rounds = [bench.edit_round(Text(size), how)] * bench.scale.rounds
            most = replace(large, given_up=limits.given_up) if size > LARGE else limits
            rows = bench.rows(*own, peers=peers)
            cells = compete(rows, bench.pool, rounds, most, bench.warm(how))
            caption = f"{size_text(size)}, {words}"
            section.tables.append(Table(caption, cells, names.COPY))
            if how == "line":
                section.plot("size-time", size, cells)
                section.plot("size-memory", size, cells, memory=True)
                own_cell = cell_of(cells, names.FULL)
                if own_cell is not None:
                    idle = min(own_cell.idle_kb) / 1024
                    line = section.points["size-memory"].setdefault(names.MEMORY, [])
                    line.append((size, idle + MOST_MEMORY_MB))
            if size >= 10 * MB:
                asked = f'{caption}: "full" within 2.5 × of cp + fsync'
                section.bars.append(ratio_bar(asked, cells, names.FULL, names.COPY, 2.5))
            if size >= MB:
                asked = f"{caption}: under {MOST_MEMORY_MB:.0f} MB above idle"
                memory = memory_bar(asked, cell_of(cells, names.FULL), MOST_MEMORY_MB)
                section.bars.append(memory)
    return section
