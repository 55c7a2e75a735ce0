"""W1: one small edit of a 10 KB file, many times."""

from __future__ import annotations

from collections.abc import Iterator

from bench import field as names
from bench.arena import Round, compete, placed
from bench.data import LineEdit, Text
from bench.jobs import write_job
from bench.results import Section, Table, ratio_bar
from bench.setting import KB, Setting


def run(bench: Setting) -> Section:
    """Each contestant edits its own file, one edit a round, on top of the one before."""
    rows = bench.rows(
        names.RENAME,
        names.FSYNC,
        names.FULL,
        names.FAST,
        names.EMPTY,
        names.STDIO_FULL,
        names.STDIO_FAST,
        names.STDIO_TWO,
    )
    warm = bench.warm("line")
    cells = compete(rows, bench.pool, _rounds(bench), bench.limits(), warm)
    section = Section("W1", f"One small edit of a 10 KB file, {bench.scale.rounds} times")
    section.notes.append(
        "Prepare and apply, the journal included. The peers flush nothing; commands pay for "
        "their process, servers for their pipe."
    )
    section.tables.append(Table("10 KB, by line number", cells, names.FSYNC))
    section.bars = [
        ratio_bar('"full" within 3 × of fsync + rename', cells, names.FULL, names.FSYNC, 3.0),
        ratio_bar('"fast" within 2.5 × of rename alone', cells, names.FAST, names.RENAME, 2.5),
        ratio_bar(
            'over MCP stdio, "full", under 2 × of an empty call',
            cells,
            names.STDIO_FULL,
            names.EMPTY,
            2.0,
        ),
        ratio_bar(
            'over MCP stdio, "fast", under 2 × of an empty call',
            cells,
            names.STDIO_FAST,
            names.EMPTY,
            2.0,
        ),
    ]
    return section


def _rounds(bench: Setting) -> Iterator[Round]:
    text = Text(10 * KB)
    marks = text.marks(16)
    now = {mark.line: mark.old for mark in marks}
    restore = placed(bench.master(text))
    for turn in range(bench.scale.rounds):
        mark = marks[turn * 7 % len(marks)]
        new = (f"{mark.old[0]}  # revision {turn:04d}",)
        edit = LineEdit(mark.line, now[mark.line], new, mark.before, mark.after)
        now[mark.line] = new
        digest = text.digest([LineEdit(m.line, m.old, now[m.line], (), ()) for m in marks])
        job = write_job(bench.folder("job"), "line", [edit])
        yield Round({"do": "edit", "job": str(job)}, restore if turn == 0 else None, digest)
