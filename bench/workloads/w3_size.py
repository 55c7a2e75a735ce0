"""W3: one edit in the middle of files of all sizes, by line number and by anchor."""

from __future__ import annotations

from bench import field as names
from bench.arena import compete
from bench.contestant import How
from bench.data import Text
from bench.results import Section, Table, cell_of, memory_bar, ratio_bar
from bench.setting import MB, Setting

HOWS: tuple[tuple[How, str], ...] = (("line", "by line number"), ("anchor", "by anchor"))
LARGE_TRIALS = 3


def run(bench: Setting) -> Section:
    """Prepare and apply, against a copy of the file."""
    section = Section("W3", "One edit in the middle of a file")
    section.notes.append(
        "Tools that take neither a number nor an anchor replace the text, so that both tables "
        "ask the same of them; above 100 MB the second one leaves them out."
    )
    for how, words in HOWS:
        limits = bench.limits()
        for size in bench.scale.sizes:
            if how == "anchor" and size < MB:
                continue
            peers = ("GNU patch", "GNU sed") if how == "anchor" and size > 100 * MB else None
            own = (names.COPY, names.COPY_FAST, names.FULL, names.FAST)
            rows = bench.rows(*own, peers=peers)
            one = bench.edit_round(Text(size), how)
            rounds = [one] * (bench.scale.trials if size <= 100 * MB else LARGE_TRIALS)
            warm = bench.warm(how)
            cells = compete(rows, bench.pool, rounds, limits, warm)
            caption = f"{size / MB:g} MB, {words}"
            section.tables.append(Table(caption, cells, names.COPY))
            if how == "line":
                section.plot("size-time", size, cells)
                section.plot("size-memory", size, cells, memory=True)
            if size >= 10 * MB:
                asked = f'{caption}: "full" within 2.5 × of cp + fsync'
                section.bars.append(ratio_bar(asked, cells, names.FULL, names.COPY, 2.5))
            if size >= MB:
                asked = f"{caption}: under 128 MB above idle"
                section.bars.append(memory_bar(asked, cell_of(cells, names.FULL), 128.0))
    return section
