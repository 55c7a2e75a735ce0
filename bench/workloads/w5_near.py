"""W5: the text to replace is not there, but one that is close."""

from __future__ import annotations

import json
import subprocess

from bench import field as names
from bench.arena import Cell, Limits, Round, compete, digest_of, placed
from bench.data import LineEdit, Text
from bench.jobs import write_job
from bench.results import Bar, Section, Table, cell_of, under_bar
from bench.setting import MB, Setting

MOST_TOKENS = 300
_COUNTING = """
import json, sys, bpe_openai
encode = bpe_openai.get_encoding("o200k_base").encode
print(json.dumps([len(encode(text)) for text in json.load(sys.stdin)]))
"""


def run(bench: Setting) -> Section:
    """Time to the refusal, what it costs to read, and whether the near place is in it."""
    section = Section("W5", "The text is not there, a near match is")
    limits = bench.limits()
    for size, most in ((MB, 0.050), (10 * MB, 0.300)):
        text = Text(size)
        (mark,) = text.marks(1)
        old = (mark.before[-1], mark.old[0].replace("compute", "computed"), mark.after[0])
        edit = LineEdit(mark.line - 1, old, (*old, "    added"), mark.before[:-1], mark.after[1:])
        job = write_job(bench.folder("job"), "batch", [edit])
        master = bench.master(text)
        one = Round({"do": "edit", "job": str(job)}, placed(master), digest_of(master))
        cells = _compete(bench, one, limits)
        shown = {c.name: "yes" if mark.old[0].strip() in c.text else "no" for c in cells}
        tokens = _tokens(bench, cells)
        caption = f"{size / MB:g} MB"
        told = {name: str(count) for name, count in tokens.items()}
        extra = {"near place shown": shown, "tokens": told}
        section.tables.append(Table(caption, cells, None, extra, memory=False))
        section.bars += _bars(caption, cells, most, shown, tokens)
    section.notes.append("Tokens are counted with o200k_base; what is refused is not written.")
    section.bars += _hostile(bench)
    return section


def _compete(bench: Setting, one: Round, limits: Limits) -> list[Cell]:
    rows = [row for row in bench.rows(names.FULL) if row.name != "GNU sed"]
    rounds = [one] * bench.scale.trials
    return compete(rows, bench.pool, rounds, limits, bench.warm("line"), expects="refusal")


def _bars(
    caption: str,
    cells: list[Cell],
    most: float,
    shown: dict[str, str],
    tokens: dict[str, int],
) -> list[Bar]:
    own = cell_of(cells, names.FULL)
    count = tokens.get(names.FULL)
    return [
        under_bar(f"{caption}: under {most * 1e3:.0f} ms", own, most),
        Bar(
            f"{caption}: the near place is shown",
            shown.get(names.FULL, "not measured") if own else "not measured",
            shown.get(names.FULL) == "yes" if own else None,
        ),
        Bar(
            f"{caption}: under {MOST_TOKENS} tokens",
            "not measured" if own is None or count is None else f"{count} tokens",
            None if own is None or count is None else count < MOST_TOKENS,
        ),
    ]


def _hostile(bench: Setting) -> list[Bar]:
    """10 MB on which a search for near places may run away."""
    wanted = 'value = compute(0x1234, mode="fast")'
    texts = {
        "10 MB of one line": b"value = compute(0x1235, mode='fast') " * (10 * MB // 37) + b"\n",
        "10 MB of equal lines": b'value = compute(0x1235, mode="fast")\n' * (10 * MB // 38),
    }
    bars: list[Bar] = []
    for name, data in texts.items():
        master = bench.home / "hostile.txt"
        master.write_bytes(data)
        edit = LineEdit(1, (wanted,), ("other",), (), ())
        job = write_job(bench.folder("job"), "batch", [edit])
        one = Round({"do": "edit", "job": str(job)}, placed(master), digest_of(master))
        cells = compete(
            bench.rows(names.FULL, peers=()),
            bench.pool,
            [one] * bench.scale.trials,
            bench.limits(),
            bench.warm("line"),
            expects="refusal",
        )
        bars.append(under_bar(f"{name}: under 300 ms", cell_of(cells, names.FULL), 0.300))
    return bars


def _tokens(bench: Setting, cells: list[Cell]) -> dict[str, int]:
    """How many tokens each answer has; none where the counter is not installed."""
    python = bench.found.python.get("tokens")
    if python is None:
        return {}
    done = subprocess.run(
        [python, "-c", _COUNTING],
        input=json.dumps([cell.text for cell in cells]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {}
    return dict(zip([cell.name for cell in cells], json.loads(done.stdout), strict=True))
