"""W7: hunks carried over drift: how long it takes, and whether the result is right."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from bench import PROJECT, drifting
from bench.arena import Cell
from bench.drifting import Carry, Product
from bench.results import Bar, Section, Table, cell_of, under_bar
from bench.setting import Setting
from bench.traps import Case, made_cases

RULE, WHOLE = "copydesk, the rule in process", "copydesk, apply of a plan made before"
FIVE_MB = 5_000_000
ASKED = {"real": 1117, "traps": 590, "long": 5400, "reindent": 0, "outdent": 870}
"""Of the whole sets: cases with one right place that are carried."""

PEERS_STEP = {"long": 8, "reindent": 8}
"""Of these sets the peers, which start two programs a case, are asked one case in so many."""

Way = Callable[[Case], tuple[float, bytes | None] | None]
"""The seconds and the result of a case; None: it is not asked."""

Counts = Counter[tuple[str, str]]
"""How often each verdict fell on cases with each expectation."""


def run(bench: Setting) -> Section:
    """All ways on each case, in turn."""
    folder = bench.folder("w7")
    folder.mkdir()
    product = Product(folder)
    ways: dict[str, tuple[str, Way]] = {
        RULE: ("copydesk", timed(drifting.rule())),
        WHOLE: ("copydesk", _applied(product)),
    }
    program = bench.found.program
    if "git" in program:
        ways["git merge-file"] = ("peer", timed(drifting.merge_file))
        ways["git apply"] = ("peer", timed(drifting.git_apply))
    if "patch" in program:
        ways["GNU patch"] = ("peer", timed(drifting.patch))
    section = Section("W7", "Drift: a hunk planned on a text that has changed since")
    section.notes.append(
        "WRONG: something was written, and it is not what is right. The tools are commands, so "
        "most of their time is that of a process. A plan of copydesk replaces one range of lines; "
        "cases that do something else are not asked of it. Of the two largest sets the tools are "
        "asked one case in eight."
    )
    sets: dict[str, Iterable[Case]] = {}
    if bench.drift is None:
        section.notes.append(
            f"Skipped: the sets {', '.join(f'`{name}`' for name in ASKED)}; COPYDESK_DRIFT names "
            "the folder they are in, and it was not found. The set `made` is from the project's "
            "own text."
        )
    else:
        step = bench.scale.drift_step
        there = [name for name in ASKED if (bench.drift / f"{name}.jsonl.xz").exists()]
        sets = {name: drifting.cases(bench.drift, name, step) for name in there}
        if missing := sorted(ASKED.keys() - set(there)):
            section.notes.append(f"Skipped, as the folder has them not: {', '.join(missing)}.")
    sets["made"] = made_cases(PROJECT, bench.scale.traps_each)
    for name, cases in sets.items():
        cells, counts = score(ways, cases, PEERS_STEP.get(name, 1))
        whole = name == "made" or bench.scale.drift_step == 1
        part = "" if whole else f", one case in {bench.scale.drift_step}"
        section.tables.append(table(f"the set `{name}`{part}", cells, counts))
        section.bars += _bars(name, counts, whole=whole)
        if name == next(iter(sets)):  # `real`, where it is there
            section.bars.append(
                under_bar(f"{name}: median under 1 ms", cell_of(cells, RULE), 0.001)
            )
    product.close()
    worst = _worst(ways[RULE][1])
    section.tables.append(Table("5 MB of equal lines, one put in", [worst], memory=False))
    section.bars.append(under_bar("5 MB of equal lines: under 1 s", worst, 1.0))
    return section


def timed(carry: Carry) -> Way:
    """A way that is one call."""

    def way(case: Case) -> tuple[float, bytes | None]:
        began = time.perf_counter()
        got = carry(case.base, case.changes, case.now)
        return time.perf_counter() - began, got

    return way


def _applied(product: Product) -> Way:
    def way(case: Case) -> tuple[float, bytes | None] | None:
        if not product.takes(case):
            return None
        product.prepare(case)
        began = time.perf_counter()
        applied = product.apply()
        return time.perf_counter() - began, product.result() if applied else None

    return way


def score(
    ways: Mapping[str, tuple[str, Way]], cases: Iterable[Case], peers_step: int = 1
) -> tuple[list[Cell], dict[str, Counts]]:
    """The times and the verdicts of every way."""
    cells = {name: Cell(name, kind) for name, (kind, _) in ways.items()}
    counts: dict[str, Counts] = {name: Counter() for name in ways}
    for number, case in enumerate(cases):
        for name, (kind, way) in ways.items():
            done = None if kind == "peer" and number % peers_step else way(case)
            if done is not None:
                cells[name].seconds.append(done[0])
                counts[name][verdict(case, done[1]), case.expect] += 1
    return list(cells.values()), counts


def verdict(case: Case, got: bytes | None) -> str:
    """`carried`, `rejected` or `WRONG`."""
    if got is None:
        return "rejected"
    return "carried" if hashlib.sha256(got).hexdigest() in case.accept else "WRONG"


def table(caption: str, cells: list[Cell], counts: Mapping[str, Counts]) -> Table:
    """Carried, rejected and wrong of every way."""
    columns = ("carried", "of `either`", "rejected", "rightly", "WRONG")
    extra: dict[str, dict[str, str]] = {column: {} for column in columns}
    for way, count in counts.items():
        must, may, never = (_all(count, expect) for expect in ("apply", "either", "reject"))
        extra["carried"][way] = f"{count['carried', 'apply']:,} of {must:,}"
        extra["of `either`"][way] = f"{count['carried', 'either']} of {may}"
        extra["rejected"][way] = f"{sum(n for (v, _), n in count.items() if v == 'rejected')}"
        extra["rightly"][way] = f"{count['rejected', 'reject']} of {never}"
        extra["WRONG"][way] = str(wrong(count))
    return Table(caption, cells, None, extra, memory=False)


def _all(count: Counts, expect: str) -> int:
    return sum(n for (_, expected), n in count.items() if expected == expect)


def wrong(count: Counts) -> int:
    """How many results are wrong."""
    return sum(n for (verdict, _), n in count.items() if verdict == "WRONG")


def _bars(name: str, counts: Mapping[str, Counts], *, whole: bool) -> list[Bar]:
    bars = [
        Bar(f"{name}: none wrong, {words}", f"{wrong(counts[way])} wrong", not wrong(counts[way]))
        for way, words in ((RULE, "by the rule"), (WHOLE, "by apply"))
    ]
    carried = counts[RULE]["carried", "apply"]
    if whole and name in ASKED:
        least = ASKED[name]
        bars.append(Bar(f"{name}: at least {least:,} carried", f"{carried:,}", carried >= least))
    return bars


def _worst(way: Way) -> Cell:
    case = drifting.equal_lines(FIVE_MB)
    cell = Cell(RULE, "copydesk")
    for _ in range(3):
        done = way(case)
        assert done is not None
        cell.seconds.append(done[0])
    return cell
