"""W5: the text to replace is not there, but one that is close."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import field as names
from bench.arena import Cell, Limits, Round, compete, digest_of, placed
from bench.data import LineEdit, Text
from bench.field import Entrant
from bench.installing import count_tokens
from bench.jobs import write_job
from bench.results import Bar, Section, Table, cell_of, size_text, under_bar
from bench.setting import MB, Setting

MOST_TOKENS = 300
NO_TEXT = ("GNU sed", "mcp-text-editor")
"""They are told a place by its number, so that no text can be missing."""

HOSTILE = {
    "10 MB of one line": b"value = compute(0x1235, mode='fast') " * (10 * MB // 37) + b"\n",
    "10 MB of equal lines": b'value = compute(0x1235, mode="fast")\n' * (10 * MB // 37),
}
_WANTED = 'value = compute(0x1234, mode="fast")'


def run(bench: Setting) -> Section:
    """Time to the refusal, what it costs to read, and whether the near place is in it."""
    section = Section("W5", "The text is not there, a near match is")
    section.notes.append(
        "Tokens are those of the answer, by o200k_base; an answer is cut at 20,000 characters."
    )
    limits = bench.limits()
    every = [row for row in bench.rows(names.FULL) if row.name not in NO_TEXT]
    for size, most in ((MB, 0.050), (10 * MB, 0.300)):
        text = Text(size)
        (mark,) = text.marks(1)
        old = (mark.before[-1], mark.old[0].replace("compute", "computed"), mark.after[0])
        edit = LineEdit(mark.line - 1, old, (*old, "    added"), mark.before[:-1], mark.after[1:])
        cells = _compete(bench, every, bench.master(text), edit, limits)
        shown = {c.name: "yes" if mark.old[0].strip() in c.text else "no" for c in cells}
        section.tables.append(_table(bench, size_text(size), cells, shown))
        section.bars += _bars(section.tables[-1], most)
    own = bench.rows(names.FULL, peers=())
    for name, data in HOSTILE.items():
        master = bench.home / "hostile.txt"
        master.write_bytes(data)
        edit = LineEdit(1, (_WANTED,), ("other",), (), ())
        cells = _compete(bench, own, master, edit, bench.limits())
        section.tables.append(_table(bench, name, cells, {}))
        section.bars += _bars(section.tables[-1], 0.300)
    return section


def _compete(
    bench: Setting, rows: Sequence[Entrant], master: Path, edit: LineEdit, limits: Limits
) -> list[Cell]:
    job = write_job(bench.folder("job"), "batch", [edit])
    one = Round({"do": "edit", "job": str(job)}, placed(master), digest_of(master))
    rounds = [one] * bench.scale.rounds
    return compete(rows, bench.pool, rounds, limits, bench.warm("line"), expects="refusal")


def _table(bench: Setting, caption: str, cells: Sequence[Cell], shown: dict[str, str]) -> Table:
    extra = {"near place shown": shown} if shown else {}
    return Table(caption, cells, None, {**extra, "tokens": _tokens(bench, cells)}, memory=False)


def _bars(table: Table, most: float) -> list[Bar]:
    own = cell_of(table.cells, names.FULL)
    bars = [under_bar(f"{table.caption}: under {most * 1e3:.0f} ms", own, most)]
    shown = table.extra.get("near place shown", {}).get(names.FULL)
    tokens = table.extra["tokens"].get(names.FULL)
    if shown:
        met = shown == "yes" if own else None
        bars.append(Bar(f"{table.caption}: the near place is shown", shown, met))
    asked = f"{table.caption}: under {MOST_TOKENS} tokens"
    if own is None or tokens is None:
        return [*bars, Bar(asked, "not measured", None)]
    return [*bars, Bar(asked, f"{tokens} tokens", int(tokens) < MOST_TOKENS)]


def _tokens(bench: Setting, cells: Sequence[Cell]) -> dict[str, str]:
    """How many tokens each answer has; none where the counter is not installed."""
    counts = count_tokens(bench.found, [cell.text for cell in cells], "o200k_base")
    return {cell.name: str(count) for cell, count in zip(cells, counts, strict=False)}
