"""W4: the last 500 lines of large files."""

from __future__ import annotations

from bench import field as names
from bench.arena import Round, compete, linked
from bench.data import Text
from bench.pool import Reply
from bench.results import Section, Table, cell_of, memory_bar, ratio_bar, size_text, under_bar
from bench.setting import Setting

LINES = 500


def run(bench: Setting) -> Section:
    """By numbers, with the count of all lines; and from the end, without it."""
    section = Section("W4", f"Read the last {LINES} lines")
    section.notes.append("The system has the file in memory; the tools have not seen it before.")
    counting, tail = bench.limits(), bench.limits()
    for size in bench.scale.reading:
        text = Text(size)
        total = text.line_count()
        shown = [line.strip() for line in text.lines(total - LINES, total) if "entry_" in line]

        def right(reply: Reply, shown: list[str] = shown) -> bool:
            return all(line in reply["text"] for line in shown)

        restore = linked(bench.master(text))
        by_number = {"do": "read", "first": total - LINES + 1, "last": total, "total": total}
        from_end = {"do": "read_end", "lines": LINES}
        warm = Round(from_end, restore)

        peers = ["mcp-text-editor", "OpenHands editor", "GNU sed"]
        rows = bench.rows(names.COUNT, names.FULL, peers=peers)
        rounds = [Round(by_number, restore, None, right)] * bench.scale.rounds
        cells = compete(rows, bench.pool, rounds, counting, warm)
        caption = f"{size_text(size)}, with the count of lines"
        section.tables.append(Table(caption, cells, names.COUNT))
        asked = f"{caption}: within 1.5 × of counting"
        section.bars.append(ratio_bar(asked, cells, names.FULL, names.COUNT, 1.5))
        asked = f"{caption}: under 64 MB above idle"
        section.bars.append(memory_bar(asked, cell_of(cells, names.FULL), 64.0))

        rows = bench.rows(names.TAIL, names.FULL, peers=["MCP filesystem server"])
        rounds = [Round(from_end, restore, None, right)] * bench.scale.rounds
        cells = compete(rows, bench.pool, rounds, tail, warm)
        caption = f"{size_text(size)}, from the end"
        section.tables.append(Table(caption, cells, names.TAIL))
        own = cell_of(cells, names.FULL)
        section.bars.append(under_bar(f"{caption}: under 20 ms", own, 0.020))
        section.bars.append(memory_bar(f"{caption}: under 64 MB above idle", own, 64.0))
    return section
