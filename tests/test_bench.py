"""The parts of the benchmark that do not measure: figures, bars, pages, plots, texts, traps."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import PROJECT
from bench.arena import Cell, Limits, Round, compete, digest_of, order, placed
from bench.contestant import FILE, Contestant, Job, outside
from bench.crowd import PARTS, Place, crowd
from bench.data import Text, envelope, revised, unified, with_line_after
from bench.drifting import data_set, replaced
from bench.field import Entrant
from bench.installing import Installed
from bench.jobs import write_job
from bench.plots import decades, label, plot
from bench.pool import Pool
from bench.queueing import Call, simulate
from bench.report import Facts, page
from bench.results import (
    Bar,
    Section,
    Table,
    ahead_bar,
    between,
    duration,
    memory_bar,
    ratio_bar,
    size_text,
    under_bar,
)
from bench.scaling import put, section_of
from bench.traps import KINDS, Case, made_case, made_cases, project_lines
from bench.workloads import w15_messages
from bench.workloads.w6_race import Race, ahead, nothing_lost, quarter
from bench.workloads.w7_drift import Way, score, verdict
from bench.workloads.w9_notes import size_of, write_notes

OWN, LIMIT, PEER = "copydesk", "limit: cp", "a tool"


def cell(name: str, *seconds: float, failed: str = "", mb: float = 0.0) -> Cell:
    """What one did that held 10 MB before and `mb` more at its peak."""
    kind = {OWN: "copydesk", LIMIT: "limit"}.get(name, "peer")
    memory = [10 << 10] * len(seconds)
    peak = [int((10 + mb) * 1024)] * len(seconds)
    return Cell(name, kind, list(seconds), peak, memory, failed)


def race(
    edits: int, seconds: float = 1.0, *, lost: int = 0, damaged: bool = False, timely: bool = True
) -> Race:
    return Race(seconds, edits, lost, 0, damaged, timely)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # figures
        (duration(0.000_001_2), "1.2 µs"),
        (duration(0.000_999_4), "999 µs"),
        (duration(0.000_999_6), "1 ms"),
        (duration(0.0123), "12.3 ms"),
        (duration(0.9996), "1 s"),
        (duration(12.34), "12.3 s"),
        (size_text(10_000), "10 KB"),
        (size_text(100_000_000), "100 MB"),
        (size_text(1_000_000_000), "1 GB"),
        # a median is of the times, and of none when it failed
        (cell(OWN, 3, 1, 2).median, 2),
        (cell(OWN, 3, 1, 2, failed="wrong").median, None),
        (cell(OWN).median, None),
        (cell(OWN, 1, mb=5).above_idle_mb, 5.0),
        (cell(OWN, 1, mb=5).peak_mb, 15.0),
        (cell(OWN, 1, mb=-5).above_idle_mb, 0.0),
        # ratios to a limit: at most
        (between("", cell(OWN, 0.3), cell(LIMIT, 0.1), 3.0), "+ 3.00 × (300 ms against 100 ms)"),
        (between("", cell(OWN, 0.31), cell(LIMIT, 0.1), 3.0), "- 3.10 × (310 ms against 100 ms)"),
        (between("", None, cell(LIMIT, 0.1), 3.0), "? not measured"),
        (between("", cell(OWN, 1), cell(LIMIT, 1, failed="> 15 s"), 3.0), "? not measured"),
        (ratio_bar("", [cell(OWN, 1), cell(LIMIT, 1)], OWN, LIMIT, 1.0), "+ 1.00 × (1 s against 1 s)"),
        (ratio_bar("", [cell(OWN, 1)], OWN, LIMIT, 1.0), "? not measured"),
        (ratio_bar("", [cell(OWN, 1, failed="wrong"), cell(LIMIT, 1)], OWN, LIMIT, 1.0), "? not measured"),
        # times and memory: less than
        (under_bar("", cell(OWN, 0.019), 0.020), "+ 19 ms"),
        (under_bar("", cell(OWN, 0.020), 0.020), "- 20 ms"),
        (under_bar("", None, 0.020), "? not measured"),
        (memory_bar("", cell(OWN, 1, mb=127), 128), "+ 127 MB"),
        (memory_bar("", cell(OWN, 1, mb=128), 128), "- 128 MB"),
        (memory_bar("", cell(OWN, 1, mb=1, failed="refused"), 128), "? not measured"),
        # ahead of every peer that did the edit
        (ahead_bar("", [cell(OWN, 1), cell(PEER, 2)], OWN), f"+ 1 s; the first peer, {PEER}, 2 s"),
        (ahead_bar("", [cell(OWN, 2), cell(PEER, 1)], OWN), f"- 2 s; the first peer, {PEER}, 1 s"),
        (ahead_bar("", [cell(OWN, 1), cell(PEER, 1)], OWN), f"- 1 s; the first peer, {PEER}, 1 s"),
        (ahead_bar("", [cell(OWN, 1), cell(LIMIT, 0.5)], OWN), "? not measured"),
        (ahead_bar("", [cell(OWN, 2), cell(PEER, 1, failed="wrong")], OWN), "? not measured"),
        # races
        (nothing_lost("", [race(10)], 10), "+ 0 lost, 0 not made"),
        (nothing_lost("", [race(10), race(10, lost=1)], 10), "- 1 lost, 0 not made"),
        (nothing_lost("", [race(9)], 10), "- 0 lost, 1 not made"),
        (nothing_lost("", [race(9, timely=False)], 10), "+ 0 lost, 1 not made"),
        (nothing_lost("", [race(9, lost=1, timely=False)], 10), "- 1 lost, 1 not made"),
        (nothing_lost("", [race(10, damaged=True)], 10), "- 0 lost, 0 not made, damaged"),
        (nothing_lost("", [], 10), "? not measured"),
        (nothing_lost("", "failed", 10), "? not measured"),
        (quarter("", [race(25)], [race(100)]), "+ 0.25 (25/s against 100/s)"),
        (quarter("", [race(24)], [race(100)]), "- 0.24 (24/s against 100/s)"),
        (quarter("", [race(25)], "failed"), "? not measured"),
        (ahead("", [race(9)], {PEER: [race(10, lost=2)], "b": "failed"}), f"+ 9/s; the first, {PEER}, 8/s"),
        (ahead("", [race(9)], {PEER: [race(18, 2.0)]}), f"- 9/s; the first, {PEER}, 9/s"),
        (ahead("", [race(9)], {}), "? not measured"),
        # the axes of plots
        (decades([0.002, 0.9]), (-3, 0)),
        (decades([10.0, 10.0]), (1, 2)),
        (decades([1e4, 1e9]), (4, 9)),
        (label(4, "bytes"), "10 KB"),
        (label(9, "bytes"), "1 GB"),
        (label(4, "edits"), "10,000"),
        (label(2, "MB"), "100 MB"),
        (label(1, "seconds"), "10 s"),
        (label(-2, "seconds"), "10 ms"),
        (label(-4, "seconds"), "100 µs"),
    ],
)  # fmt: skip
def test_figures_and_bars(made: object, expected: object) -> None:
    """A bar is written `verdict: measured`, verdicts are `+`, `-` and `?`."""
    if isinstance(made, Bar):
        sign = {True: "+", False: "-", None: "?"}[made.met]
        made = f"{sign} {made.measured}"
    assert made == expected


# --- plots


def test_a_plot_has_a_line_for_each_and_dashes_for_limits() -> None:
    lines = {OWN: [(1e4, 0.01), (1e6, 0.1)], PEER: [(1e4, 0.1)], LIMIT: [(1e4, 0.001), (1e6, 0.1)]}
    svg = plot("a < b", "bytes", "seconds", lines, [LIMIT, "not there"], [PEER])
    drawn = ET.fromstring(svg)
    kinds = [child.tag.rpartition("}")[2] for child in drawn]
    assert kinds.count("circle") == 3  # the limit has none
    texts = [child.text for child in drawn if child.tag.endswith("text")]
    assert {"a < b", OWN, PEER, LIMIT, "10 KB", "1 MB", "100 ms", "size of the file"} <= {*texts}
    assert "not there" not in texts
    assert sum("stroke-dasharray" in child.attrib for child in drawn) == 2  # its line and its key
    assert plot("", "bytes", "seconds", {OWN: []}, [], []) == ""


def test_a_plot_is_logarithmic() -> None:
    svg = plot("", "edits", "seconds", {PEER: [(1, 0.01), (10, 0.1), (100, 1)]}, [], [PEER])
    circles = [child.attrib for child in ET.fromstring(svg) if child.tag.endswith("circle")]
    (x, y), (x2, y2), (x3, y3) = [(float(c["cx"]), float(c["cy"])) for c in circles]
    assert (x3 - x2, y2 - y3) == pytest.approx((x2 - x, y - y2), abs=0.11)
    assert x < x2 < x3
    assert y > y2 > y3


# --- the page


def test_the_page_tells_what_was_missed_and_who_was_left_out() -> None:
    cells = [
        cell(OWN, 0.2, 0.3, 0.4, mb=3),
        cell(PEER, failed="> 15 s"),
        cell(LIMIT, 0.1),
        cell("a|b", 0.4),
    ]
    bars = [Bar("one", "1", True), Bar("two", "2 | 3", False), Bar("three", "not measured", None)]
    section = Section("W1", "Edits", ["A note."], [Table("10 KB", cells, LIMIT)], bars)
    found = Installed(version={"sed": "4.9"}, missing={"aider-chat": "could not be installed"})
    broken = Section("W2", "could not be run", failed=True)
    facts = Facts("quick", 2.4, (0.1, 1.5))
    lines = page([section, broken], found, facts, [("Plot", "p.svg")]).split("\n")
    for line in (
        "| W1 | one | 1 | ok |",
        "| W1 | two | 2 \\| 3 | **MISSED** |",
        "| W1 | three | not measured | not measured |",
        "| W2 | all of it | could not be run | not measured |",
        "| limit: cp | 100 ms | 100 ms - 100 ms | 1 | 1.00 |  |",
        "| **copydesk** | 300 ms | 200 ms - 400 ms | 3 | 3.00 | 3.0 |",
        "| a tool | > 15 s |  |  |  |  |",
        "| aider-chat | skipped: could not be installed |",
        "| sed | 4.9 |",
        "![Plot](plots/p.svg)",
    ):
        assert line in lines
    names = [line.split(" | ")[0] for line in lines if line.startswith(("| limit", "| **c", "| a"))]
    assert names == ["| limit: cp", "| **copydesk**", "| a\\|b", "| a tool", "| aider-chat"]
    assert any("ok 1, MISSED 1, not measured 1" in line for line in lines)
    why = lines.index("## What is missed, and why")
    assert lines[why + 2].startswith("- **W1**: An edit is also")
    (told,) = (line for line in lines if "what `pip install copydesk` gives" in line)
    plain, _, extras = told.partition("Of its extras")
    assert "ahocorasick-rs 1" in plain
    assert "ahocorasick" not in extras
    assert str(PROJECT) not in "\n".join(lines)


# --- texts and jobs


@pytest.mark.slow
def test_marked_lines_are_unique_and_where_they_are_said_to_be(tmp_path: Path) -> None:
    text = Text(3_000_000)  # more than one volume
    marks = text.marks(100)
    assert text.write(tmp_path / FILE) == text.digest() == digest_of(tmp_path / FILE)
    lines = (tmp_path / FILE).read_text().split("\n")[:-1]
    assert len(lines) == text.line_count()
    for mark in marks:
        at = mark.line - 1
        assert (*lines[at - 3 : at], *lines[at : at + 4]) == (*mark.before, *mark.old, *mark.after)
        assert lines.count(mark.old[0]) == 1


PATCH, APPLY = ("patch", "-p1", "-s", "-i", "job.patch"), ("git", "apply", "job.patch")
SED = ("sed", "-i", "-f", "job.sed", FILE)


@pytest.mark.parametrize(
    ("how", "command"),
    [
        *[(how, command) for how in ("line", "anchor", "batch") for command in (PATCH, APPLY)],
        ("line", SED),
        ("anchor", SED),
    ],
)
def test_jobs_do_the_same_in_every_form(tmp_path: Path, how: Any, command: tuple[str, ...]) -> None:
    text = Text(100_000)
    marks = text.marks(20 if how == "batch" else 1)
    edits = [with_line_after(m, "    new") if how == "anchor" else revised(m, "x") for m in marks]
    root = write_job(tmp_path / "job", how, edits)
    text.write(root / FILE)
    env = {**os.environ, **outside(root)}
    subprocess.run(command, cwd=root, check=True, env=env)
    assert digest_of(root / FILE) == text.digest(edits)


def test_an_envelope_and_a_diff_hold_the_same_lines() -> None:
    edits = [with_line_after(mark, "new") for mark in Text(10_000).marks(3)]
    diff, codex = unified(edits, FILE).split("\n"), envelope(edits, FILE).split("\n")
    assert [x for x in diff[2:] if x[:2] != "@@"] == [x for x in codex[2:-2] if x != "@@"] + [""]
    heads = [x for x in diff if x.startswith("@@")]
    lines = [edit.line - 3 for edit in edits]
    assert heads == [f"@@ -{at},7 +{at + shift},8 @@" for shift, at in enumerate(lines)]


# --- rounds


class Stuck(Contestant):
    """Never ends."""

    def edit(self, job: Job) -> Callable[[], object]:
        return lambda: threading.Event().wait()


class Refusing(Contestant):
    """Cannot do it."""

    def edit(self, job: Job) -> Callable[[], object]:
        def call() -> None:
            raise ValueError("no")

        return call


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(tmp_path / "pool")
    yield made
    made.close()


def entrant(name: str, kind: Any, module: str, **options: str) -> Entrant:
    return Entrant(name, kind, module, options, sys.executable)


@pytest.mark.slow
def test_only_who_did_the_edit_has_a_time(tmp_path: Path, pool: Pool) -> None:
    text = Text(10_000)
    edits = [revised(mark, "x") for mark in text.marks(1)]
    job = write_job(tmp_path / "job", "line", edits)
    text.write(tmp_path / "master")
    right = Round({"do": "edit", "job": str(job)}, placed(tmp_path / "master"), text.digest(edits))
    rows = [
        entrant("writes the same again", "peer", "bench.limits:Rewrite", fsync="no"),
        entrant("the limit", "limit", "bench.limits:Rewrite", fsync="no"),
        entrant("does", "peer", "bench.peers.commands:Sed"),
        entrant("refuses", "peer", "tests.test_bench:Refusing"),
        entrant("has none", "peer", "bench.limits:RawTail"),
        entrant("is not there", "peer", "bench.limits:Nothing"),
    ]
    limits = Limits(call=60, peer=60, row=60, until=time.monotonic() + 600)
    cells = {c.name: c for c in compete(rows, pool, [right] * 3, limits, right)}
    assert {name: (c.failed, len(c.seconds)) for name, c in cells.items()} == {
        "writes the same again": ("wrong", 0),
        "the limit": ("", 3),
        "does": ("", 3),
        "refuses": ("error", 0),
        "has none": ("unsupported", 0),
        "is not there": ("does not start", 0),
    }
    refusals = compete(rows[:4], pool, [right], limits, right, expects="refusal")
    assert {c.name: c.failed for c in refusals} == {
        "writes the same again": "did not refuse",
        "the limit": "",
        "does": "did not refuse",
        "refuses": "wrong",  # its file is not the edited one, which this round asks for
    }


@pytest.mark.slow
def test_who_takes_too_long_is_ended_and_left_out(tmp_path: Path, pool: Pool) -> None:
    job = write_job(tmp_path / "job", "line", [])
    (tmp_path / "master").write_bytes(b"one\n")
    one = Round({"do": "edit", "job": str(job)}, placed(tmp_path / "master"))
    rows = [entrant("stuck", "peer", "tests.test_bench:Stuck")]
    limits = Limits(call=1, peer=1, row=1, until=time.monotonic() + 600)
    warm = Round({"do": "read_end", "lines": 1})
    assert [c.failed for c in compete(rows, pool, [one] * 3, limits, warm)] == ["> 1 s"]
    assert [c.failed for c in compete(rows, pool, [one], limits, warm)] == [
        "left out, > 1 s before"
    ]


def test_every_round_has_an_order_of_its_own() -> None:
    names = [*"abcdef"]
    orders = [order(names, turn) for turn in range(50)]
    assert all(sorted(one) == names for one in orders)
    assert orders == [order(names, turn) for turn in range(50)]
    assert len({one[one.index("a") - 1] for one in orders}) == 5  # everyone comes before `a`


# --- drift


@pytest.mark.parametrize("kind", KINDS)
def test_a_trap_is_what_it_says(kind: str) -> None:
    pool = [b"line %d\n" % number for number in range(20_000)]
    for seed in range(10):
        case = made_case(pool, kind, seed)
        assert case == made_case(pool, kind, seed)
        ((start, stop, new),) = case.changes
        assert 0 < stop - start == len(new)
        assert len(case.accept) == (case.expect != "reject")
        assert (case.now == case.base) == (kind == "none")
        base, now = case.base.split(b"\n"), case.now.split(b"\n")
        target = base[start:stop]
        found = [places(text, target) for text in (base, now)]
        if "twin" in kind:  # there is one more, or as many when the target went
            assert len(found[1]) - len(found[0]) == 1 - ("deleted" in kind)
        if kind == "twin at the old line":
            assert start in found[1]
        if kind == "none":
            assert verdict(case, replaced(case.base, case.changes)) == "carried"


def places(text: list[bytes], wanted: list[bytes]) -> list[int]:
    return [at for at in range(len(text)) if text[at : at + len(wanted)] == wanted]


def test_verdicts_are_counted() -> None:
    right = frozenset({hashlib.sha256(b"right").hexdigest()})
    cases = [
        Case("", "apply", b"", [], b"", right),
        Case("", "either", b"", [], b"", right),
        Case("", "reject", b"", [], b"", frozenset()),
    ]
    answers: dict[str, bytes | None] = {"always": b"right", "never": None, "wrong": b"left"}

    def way(got: bytes | None) -> Way:
        return lambda case: (0.0, got)

    ways = {name: ("peer", way(got)) for name, got in answers.items()}
    cells, counts = score({**ways, "not asked": ("peer", lambda case: None)}, cases)
    assert {name: dict(count) for name, count in counts.items()} == {
        "always": {("carried", "apply"): 1, ("carried", "either"): 1, ("WRONG", "reject"): 1},
        "never": {("rejected", expect): 1 for expect in ("apply", "either", "reject")},
        "wrong": {("WRONG", expect): 1 for expect in ("apply", "either", "reject")},
        "not asked": {},
    }
    assert [len(c.seconds) for c in cells] == [3, 3, 3, 0]
    empty = Case("", "apply", b"", [], b"", frozenset({hashlib.sha256(b"").hexdigest()}))
    assert verdict(empty, b"") == "carried"


def test_traps_are_made_from_the_text_of_the_project() -> None:
    cases = list(made_cases(PROJECT, 2))
    assert [case.kind for case in cases] == [kind for kind in KINDS for _ in range(2)]
    text = set(project_lines(PROJECT))
    added = (b"def one():", b"def two():")
    lines = {line for case in cases for line in case.base.split(b"\n")} - {*added}
    assert {line + b"\n" for line in lines} <= text


@pytest.mark.parametrize("named", [True, False])
def test_the_data_set_is_where_the_variable_says(tmp_path: Path, named: bool) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real.jsonl.xz").touch()
    folder = tmp_path / ("there" if named else "not there")
    assert data_set({"COPYDESK_DRIFT": str(folder)}) == (folder if named else None)


def test_folders_of_notes_are_made_of_pages(tmp_path: Path) -> None:
    size = write_notes(tmp_path, 45, 450_000)
    files = list(tmp_path.rglob("*.md"))
    assert (len(files), len({file.parent for file in files})) == (45, 40)
    assert size == size_of(tmp_path) >= 450_000
    assert len({file.read_bytes() for file in files}) == 45
    assert all(file.read_text("utf-8").count("```") % 2 == 0 for file in files)


ALONE = Call(cpu=0.002, wait=0.004, held_cpu=0.001, held_wait=0.003, served=False)


@pytest.mark.parametrize(
    ("agents", "partitions", "rate"), [(1, 1, 100), (50, 1, 250), (50, 50, 2 / 0.003)]
)
def test_the_model_meets_its_bounds(agents: int, partitions: int, rate: float) -> None:
    """One agent takes the sum; one journal its own time; many journals are bound by two cores."""
    told = simulate(ALONE, agents=agents, machines=1, partitions=partitions, cores=2)
    assert told.rate == pytest.approx(rate, rel=0.08)
    assert (told.held > 0.9) == (agents > partitions)


def test_a_section_of_another_command_keeps_its_place() -> None:
    page = "# Results\n\n## W13. Notes\n\n## Versions\n\n| a | b |\n"
    once = put(page, "## W14. Scaling\n\none\n")
    assert once == page.replace("## Versions", "## W14. Scaling\n\none\n\n## Versions")
    assert put(once, "## W14. Scaling\n\ntwo") == once.replace("one", "two")
    assert put(page, section_of(once)) == once
    assert not section_of(page)


@pytest.mark.slow
def test_agents_keep_what_they_were_told(tmp_path: Path) -> None:
    place = Place(str(tmp_path), 3)
    place.make()
    place.fill(7)
    told = crowd([place], 2, 0.5)
    assert (told.refused, told.lost) == (0, 0)
    assert {"read", "edit", "plan"} <= told.seconds.keys()
    assert sum(told.parts[part] for part in PARTS) > 0.5
    with place.open() as opened:
        assert len(opened.journal.entries(most=1_000)) == 9 + len(told.seconds["edit"]) + 2


def test_the_rules_beside_real_messages(tmp_path: Path) -> None:
    assert w15_messages.data_set({"COPYDESK_REAL": str(tmp_path)}) is None
    once, aider = w15_messages.placed_once, w15_messages.placed_as_aider
    assert once("a\nb\n", "a\n", "c\n") == "c\nb\n"
    assert once("a\na\n", "a\n", "c\n") is None
    assert once("", "", "c\n") == "c\n"
    assert once("a\n", "", "c\n") is None
    assert aider("a\na\n", "a\n", "c\n") == "c\na\n"
    assert aider("  a\n    b\n", "a\n  b\n", "c\n\n") == "  c\n\n"
    assert aider("  a\n b\n", "a\nb\n", "c\n") is None
    assert aider("a", "", "b") == "ab"


def test_messages_are_scored(tmp_path: Path) -> None:
    block = {"path": "a.txt", "search": "b\n", "replace": "c\n", "how": "exact"}
    case = {
        "turns": [{"blocks": [block], "failed": 0}],
        "before": {"a.txt": "a\n  b\n"},
        "after": {"a.txt": "a\n  c\n"},
    }
    with lzma.open(tmp_path / "messages.jsonl.xz", "wt") as lines:
        lines.write(json.dumps(case) + "\n")
    (only,) = w15_messages.cases(tmp_path / "messages.jsonl.xz")
    tally: Counter[str] = Counter()
    after = w15_messages.by_desk(only, tmp_path, tally)
    assert w15_messages.verdict(only, after) == "one call"
    wrong = {**after, "a.txt": "other\n"}
    assert w15_messages.verdict(only, wrong) == "WRONG"
    assert w15_messages.verdict(only, dict(case["before"])) == "refused"  # type: ignore[call-overload]  # of texts
    half = {**wrong, "\0refused": "yes"}
    assert w15_messages.verdict(only, half) == "half written"
