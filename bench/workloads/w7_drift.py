"""W7: hunks carried over drift: how long it takes, and whether the result is right."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable

from bench import drifting
from bench.arena import Cell
from bench.drifting import Carry, Case
from bench.results import Bar, Section, Table, cell_of, under_bar
from bench.setting import Setting

OWN = "copydesk"
MADE = 40
FIVE_MB = 5_000_000
REAL, TRAPS = 1117, 580
"""Asked for of the whole sets: cases with one right place that are carried."""


def run(bench: Setting) -> Section:
    """All ways on each case, in turn."""
    ways: dict[str, tuple[str, Carry]] = {OWN: ("copydesk", drifting.copydesk())}
    if "git" in bench.found.program:
        ways["git merge-file"] = ("peer", drifting.merge_file)
        ways["git apply"] = ("peer", drifting.git_apply)
    if "patch" in bench.found.program:
        ways["GNU patch"] = ("peer", drifting.patch)
    section = Section("W7", "Drift: a hunk planned on a text that has changed since")
    section.notes.append("The tools are commands, so most of their time is that of a process.")
    if bench.drift is None:
        section.notes.append(
            "The drift data set was not found (COPYDESK_DRIFT names its folder), so nothing is "
            "said here of right and wrong, and the times are those of cases made up."
        )
        cells, _ = _score(ways, drifting.made_cases(MADE))
        section.tables.append(Table("made cases, 10 KB to 400 KB", cells, None, memory=False))
        section.bars.append(under_bar("median under 1 ms", cell_of(cells, OWN), 0.001))
    else:
        for name in ("real", "traps"):
            cases = drifting.real_cases(bench.drift, name, bench.scale.drift_step)
            cells, counts = _score(ways, cases)
            section.tables.append(_table(name, cells, counts, bench.scale.drift_step))
            section.bars += _bars(name, cells, counts, whole=bench.scale.drift_step == 1)
    worst = _worst(ways[OWN][1])
    section.tables.append(Table("5 MB of equal lines, one put in", [worst], None, memory=False))
    section.bars.append(under_bar("5 MB of equal lines: under 1 s", worst, 1.0))
    return section


def _score(
    ways: dict[str, tuple[str, Carry]], cases: Iterable[Case]
) -> tuple[list[Cell], dict[str, Counter[tuple[str, str]]]]:
    cells = {name: Cell(name, kind) for name, (kind, _) in ways.items()}
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in ways}
    for case in cases:
        for name, (_, carry) in ways.items():
            began = time.perf_counter()
            got = carry(case.base, case.changes, case.now)
            cells[name].seconds.append(time.perf_counter() - began)
            counts[name][_verdict(case, got), case.expect] += 1
    return list(cells.values()), counts


def _verdict(case: Case, got: bytes | None) -> str:
    if got is None:
        return "missed" if case.expect == "apply" else "refused"
    return "carried" if hashlib.sha256(got).hexdigest() in case.accept else "WRONG"


def _table(
    name: str, cells: list[Cell], counts: dict[str, Counter[tuple[str, str]]], step: int
) -> Table:
    columns = ("carried", "carried of `either`", "rejected", "WRONG")
    extra: dict[str, dict[str, str]] = {column: {} for column in columns}
    for way, count in counts.items():
        must = sum(n for (_, expect), n in count.items() if expect == "apply")
        extra["carried"][way] = f"{count['carried', 'apply']} of {must}"
        extra["carried of `either`"][way] = str(count["carried", "either"])
        extra["rejected"][way] = str(_of(count, "missed") + _of(count, "refused"))
        extra["WRONG"][way] = str(_of(count, "WRONG"))
    part = "" if step == 1 else f", one case in {step}"
    return Table(f"the set `{name}`{part}", cells, None, extra, memory=False)


def _of(count: Counter[tuple[str, str]], verdict: str) -> int:
    return sum(n for (have, _), n in count.items() if have == verdict)


def _bars(
    name: str, cells: list[Cell], counts: dict[str, Counter[tuple[str, str]]], *, whole: bool
) -> list[Bar]:
    own = counts[OWN]
    wrong, carried = _of(own, "WRONG"), own["carried", "apply"]
    bars = [Bar(f"{name}: none wrong", f"{wrong} wrong", wrong == 0)]
    least = REAL if name == "real" else TRAPS
    if whole:
        bars.append(Bar(f"{name}: at least {least} carried", f"{carried}", carried >= least))
    if name == "real":
        bars.append(under_bar("real: median under 1 ms", cell_of(cells, OWN), 0.001))
    return bars


def _worst(carry: Carry) -> Cell:
    case = drifting.equal_lines(FIVE_MB)
    cell = Cell(OWN, "copydesk")
    for _ in range(3):
        began = time.perf_counter()
        carry(case.base, case.changes, case.now)
        cell.seconds.append(time.perf_counter() - began)
    return cell
