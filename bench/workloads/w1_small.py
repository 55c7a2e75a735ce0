"""W1: one small edit of a 10 KB file, many times."""

from __future__ import annotations

from collections.abc import Iterator

from bench import field as names
from bench.arena import Round, compete, placed
from bench.data import LineEdit, Text
from bench.jobs import write_job
from bench.results import Section, Table, ratio_bar
from bench.setting import KB, Setting

ROW_TIMES = 8.0


def run(bench: Setting) -> Section:
    """Each contestant edits its own file, one edit a round, on top of the one before."""
    rows = bench.rows(
        names.RENAME,
        names.FSYNC,
        names.JOURNALLED,
        names.JOURNALLED_FAST,
        names.FULL,
        names.FAST,
        names.EMPTY,
        names.EMPTY_TWO,
        names.STDIO_FULL,
        names.STDIO_FAST,
        names.STDIO_TWO,
    )
    limits = bench.limits(ROW_TIMES)
    cells = compete(rows, bench.pool, _rounds(bench), limits, bench.warm("line"))
    section = Section("W1", f"One small edit of a 10 KB file, up to {bench.scale.edits} times")
    section.notes.append(
        "Prepare and apply, the journal included. The peers flush nothing; commands pay for "
        "their process, servers for their pipe."
    )
    section.notes.append(
        "Three commits: a plan kept, an entry of the journal on the disk before the file is "
        "touched, the plan ended. Done bare they are the limit of what is promised, beside that "
        "of a file alone."
    )
    section.tables.append(Table("10 KB, by line number", cells, names.FSYNC))
    section.bars = [
        ratio_bar(asked, cells, own, limit, most)
        for asked, own, limit, most in (
            ('"full" within 3 × of fsync + rename', names.FULL, names.FSYNC, 3.0),
            ('"fast" within 2.5 × of rename alone', names.FAST, names.RENAME, 2.5),
            (
                'over MCP stdio, one call, "full": under 2 × of an empty call',
                names.STDIO_FULL,
                names.EMPTY,
                2.0,
            ),
            (
                'over MCP stdio, one call, "fast": under 2 × of an empty call',
                names.STDIO_FAST,
                names.EMPTY,
                2.0,
            ),
            (
                'over MCP stdio, prepare and apply, "full": under 2 × of two empty calls',
                names.STDIO_TWO,
                names.EMPTY_TWO,
                2.0,
            ),
        )
    ]
    return section


def _rounds(bench: Setting) -> Iterator[Round]:
    text = Text(10 * KB)
    marks = text.marks(16)
    now = {mark.line: mark.old for mark in marks}
    restore = placed(bench.master(text))
    for turn in range(bench.scale.edits):
        mark = marks[turn * 7 % len(marks)]
        new = (f"{mark.old[0]}  # revision {turn:04d}",)
        edit = LineEdit(mark.line, now[mark.line], new, mark.before, mark.after)
        now[mark.line] = new
        digest = text.digest([LineEdit(m.line, m.old, now[m.line], (), ()) for m in marks])
        job = write_job(bench.folder("job"), "line", [edit])
        request = {"do": "edit", "job": str(job)}
        yield Round(request, restore if turn == 0 else None, digest, keep=True)
