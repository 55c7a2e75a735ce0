"""Random mutation testing: change one thing in the source, run the tests that reach it, see red.

    python scripts/mutate.py record                     run the fast tests, note the lines of each
    python scripts/mutate.py record --tests FILE ...    the same for the tests of these files alone
    python scripts/mutate.py run --count 200 --seed 1   try random mutants of all packages
    python scripts/mutate.py run --only desk/member.py  all mutants of a file
    python scripts/mutate.py run --only member.py:52:   all mutants of a line

A mutant that no test notices is printed as SURVIVED with its place and the change. Either a test
is missing, or the mutant is equivalent: no caller can tell the difference. The source on disk
stays as it is: pytest collects the tests once, and each mutant is put into a fork of that process,
where the tests that reach its line run, the quickest first, until one fails. Records are kept in
`.mutants/`, which git ignores; those of a test are replaced when it is recorded again.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "copydesk"
RECORDS = ROOT / ".mutants"
ROOMS = ("text", "edit", "store", "search", "notes", "desk", "tools", "app")

# --- which test reaches which line ---------------------------------------------------------------

Line = tuple[str, str, int]
"""A file below the package, a function in it, and how many lines below the first of it."""

_TRACED = 300
"""So many calls of a function are followed line by line in one test, which may be a long table."""

_WATCHED = 200_000
"""So many calls of any function are looked at in one test: what it reaches is known by then."""


class Recorder:
    """A pytest plugin that notes for each test that passes its lines and its seconds."""

    def __init__(self) -> None:
        self._lines: set[tuple[CodeType, int]] = set()
        self._calls: Counter[CodeType] = Counter()
        self._left = 0
        self._is_ours: dict[CodeType, bool] = {}
        self._rows: dict[str, tuple[float, dict[str, list[int]]]] = {}

    def pytest_runtest_setup(self) -> None:
        self._lines.clear()
        self._calls.clear()
        self._left = _WATCHED
        threading.settrace(self._call)
        sys.settrace(self._call)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if not report.passed:
            return
        found: dict[str, set[int]] = defaultdict(set)
        for code, line in self._lines.copy():
            place = code.co_filename.rpartition("/copydesk/")[2]
            found[f"{place}:{code.co_qualname}"].add(line - code.co_firstlineno)
        lines = {name: sorted(offsets) for name, offsets in found.items()}
        if lines:  # the process that only hands out the tests has none
            self._rows[report.nodeid] = (report.duration, lines)

    def pytest_sessionfinish(self) -> None:
        if self._rows:
            RECORDS.mkdir(exist_ok=True)
            path = RECORDS / f"{time.time_ns():020d}-{os.getpid()}.json"
            path.write_text(json.dumps(self._rows))

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        self._left -= 1
        if self._left < 0:
            sys.settrace(None)
        code = frame.f_code
        ours = self._is_ours.get(code)
        if ours is None:
            place, _, name = code.co_filename.rpartition("/src/copydesk/")
            ours = bool(place) and name.startswith(ROOMS)
            self._is_ours[code] = ours
        if not ours:
            return None
        self._calls[code] += 1
        if self._calls[code] > _TRACED:
            return None
        self._lines.add((code, code.co_firstlineno))
        return self._line

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        self._lines.add((frame.f_code, frame.f_lineno))
        return self._line


def pytest_configure(config: pytest.Config) -> None:
    """In each process of `record`, this file is a plugin."""
    if "MUTATE_RECORD_LINES" in os.environ:
        config.pluginmanager.register(Recorder())


def record(tests: list[str], jobs: int) -> int:
    """Run the fast tests, or these, once; return pytest's exit status."""
    if not tests:
        shutil.rmtree(RECORDS, ignore_errors=True)
    env = os.environ | {"MUTATE_RECORD_LINES": "1", "PYTHONPATH": str(ROOT / "scripts")}
    env["CI"] = "true"
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "mutate", *tests]
    command += ["-n", str(jobs)] if jobs > 1 else []
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


class Records:
    """Which tests reach a line, with their seconds, the quickest first."""

    def __init__(self) -> None:
        rows: dict[str, tuple[float, dict[str, list[int]]]] = {}
        for part in sorted(RECORDS.glob("*.json")):
            rows |= json.loads(part.read_text())
        self.seconds = {test: seconds for test, (seconds, _) in rows.items()}
        self._of_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._of_function: dict[str, list[str]] = defaultdict(list)
        for test in sorted(self.seconds, key=lambda test: (self.seconds[test], test)):
            for function, offsets in rows[test][1].items():
                self._of_function[function].append(test)
                for offset in offsets:
                    self._of_line[function, offset].append(test)

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach the line, or else, as after a change of it, the function."""
        for offset in range(mutant.offset, mutant.offset + mutant.lines):
            tests = self._of_line.get((mutant.function, offset))
            if tests:
                return tests
        return self._of_function.get(mutant.function, [])


# --- the mutants of a file -----------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: bytes [start, stop) of the file become `new`.

    It stands `offset` lines below the first of `function`, and is of so many `lines`.
    """

    path: Path
    source: bytes = field(repr=False)
    line: int
    start: int
    stop: int
    new: str
    function: str
    offset: int
    lines: int

    def __str__(self) -> str:
        old = self.source[self.start : self.stop].decode()
        brief = " ".join(old.split())[:70]
        return f"{self.path.relative_to(ROOT)}:{self.line}: {brief}  ->  {self.new}"


_COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_STATEMENTS = ("return None", "pass", "break")
_BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.BitOr: "&"}


def mutants(path: Path) -> list[Mutant]:
    """All mutants of one file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found: list[Mutant] = []
    relative = path.relative_to(PACKAGE).as_posix()

    def add(node: ast.expr | ast.stmt, new: str, function: str, first: int) -> None:
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        lines = (node.end_lineno or 0) - node.lineno + 1
        offset, name = node.lineno - first, f"{relative}:{function}"
        found.append(Mutant(path, source, node.lineno, start, stop, new, name, offset, lines))

    def visit(node: ast.AST, prefix: str, function: str, first: int) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            function = prefix + node.name
            prefix = f"{function}.<locals>."
            children: list[ast.AST] = list(node.body)
        elif isinstance(node, ast.ClassDef):
            prefix += f"{node.name}."
            children = list(node.body)
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value else []
        else:
            children = list(ast.iter_child_nodes(node))
        if function:
            for target, new in changes(node):
                add(target, new, function, first)
        for child in children:
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                visit(child, prefix, function, first)

    visit(ast.parse(source), "", "", 0)
    return found


def changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What may become of one node."""
    text = ast.unparse
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        op = _COMPARED[type(node.ops[0])]
        yield node, f"({text(node.left)} {op} {text(node.comparators[0])})"
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, "(" + word.join(f"({text(each)})" for each in node.values) + ")"
        for k in range(len(node.values)):
            rest = [each for index, each in enumerate(node.values) if index != k]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield node, "(" + word.join(f"({text(each)})" for each in rest) + ")"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"bool({text(node.operand)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        yield node, f"({text(node.left)} {_BINARY[type(node.op)]} ({text(node.right)}))"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, str(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield node, f"({text(node.orelse)} if {text(node.test)} else {text(node.body)})"
    elif isinstance(node, ast.If | ast.While):
        yield node.test, f"not ({text(node.test)})"
    elif isinstance(node, ast.Return) and node.value is not None:
        if ast.unparse(node.value) not in ("None", "False"):  # which are alike to who asks
            yield node, "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"
    elif isinstance(node, ast.Continue):
        yield node, "break"


# --- running them --------------------------------------------------------------------------------


class Functions:
    """The functions of the rooms as this process has loaded them, ready to be mutated."""

    def __init__(self) -> None:
        for room in ROOMS:
            for path in sorted((PACKAGE / room).rglob("*.py")):
                name = path.relative_to(PACKAGE.parent).with_suffix("").as_posix()
                importlib.import_module(name.replace("/", ".").removesuffix(".__init__"))
        self._found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # tests that start a server in their process hide what was imported by then
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and "/src/copydesk/" in each.__code__.co_filename:
                self._found[_key(each.__code__)].append(each)

    def mutate(self, mutant: Mutant) -> bool:
        """Put the mutant into its function, in this process; whether that could be done."""
        source = mutant.source
        name = f"copydesk.{mutant.path.relative_to(PACKAGE).with_suffix('').as_posix()}"
        file = sys.modules[name.replace("/", ".").removesuffix(".__init__")].__file__ or ""
        new = mutant.new.encode()
        if mutant.lines > 1:  # no line below it moves
            end = b"\n" * (mutant.lines - 1)
            new = new + end if mutant.new in _STATEMENTS else b"(" + new + end + b")"
        changed = source[: mutant.start] + new + source[mutant.stop :]
        old = {_key(code): code for code in _outermost(compile(source, file, "exec"))}
        done = False
        for code in _outermost(compile(changed, file, "exec")):
            before = old[_key(code)]
            if before == code:
                continue
            code = code.replace(co_freevars=before.co_freevars)  # it may lack the cell of super()
            for function in self._found[_key(code)]:
                function.__code__ = code
                done = True
        return done


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _outermost(module: CodeType) -> Iterator[CodeType]:
    """The code of all functions that stand in no other one."""
    for each in module.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & 2:  # CO_NEWLOCALS: a function, no class
                yield each
            else:
                yield from _outermost(each)


class Runner:
    """A pytest plugin that tries mutants on the tests that were collected, each in a fork."""

    def __init__(self, chosen: Sequence[Mutant], budget: float) -> None:
        self._chosen, self._budget = chosen, budget
        self._records = Records()
        self._killers: dict[str, list[str]] = defaultdict(list)
        self._sound: dict[str, bool] = {}
        self.results: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """A failure is enough: no test looks for the smallest example of it."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("ci"), phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = Functions()
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.collect()
        gc.freeze()
        for count, mutant in enumerate(self._chosen):
            started = time.monotonic()
            verdict, tests = self._verdict(mutant, items, functions)
            self.results[verdict] += 1
            if verdict != "killed" or "MUTATE_VERBOSE" in os.environ:
                seconds = time.monotonic() - started
                print(f"{verdict} ({tests} tests, {seconds:.1f} s, {count}) {mutant}", flush=True)
            for each in base.iterdir():
                shutil.rmtree(each, ignore_errors=True)
        return True

    def _verdict(
        self, mutant: Mutant, items: dict[str, pytest.Item], functions: Functions
    ) -> tuple[str, int]:
        while True:
            tests = [test for test in self._tests(mutant) if test in items]
            if not tests:
                return "SURVIVED", 0
            limit = 10 + 3 * sum(self._records.seconds[test] for test in tests)
            killer = _forked(lambda: functions.mutate(mutant), [items[t] for t in tests], limit)
            if killer in ("", "untried", "timeout"):
                return {"": "SURVIVED"}.get(killer, killer), len(tests)
            if killer not in self._sound:
                self._sound[killer] = not _forked(lambda: True, [items[killer]], 120)
            if self._sound[killer]:
                self._killers[mutant.function].insert(0, killer)
                return "killed", len(tests)

    def _tests(self, mutant: Mutant) -> list[str]:
        """The tests to run: first what noticed a mutant of the function, then the quickest."""
        reaching = [t for t in self._records.of(mutant) if self._sound.get(t, True)]
        known = set(reaching)
        first = [t for t in dict.fromkeys(self._killers[mutant.function]) if t in known][:10]
        chosen, left = list(first), self._budget
        for test in reaching:
            left -= self._records.seconds[test]
            if left < 0:
                break
            if test not in first:
                chosen.append(test)
        return chosen or reaching[:1]


def _forked(prepare: Callable[[], bool], items: list[pytest.Item], limit: float) -> str:
    """Run the tests in a fork until one fails: its id; or "", "timeout", "untried"."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(receiver)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        said = "untried"
        try:
            if prepare():
                said = _failing(items)
        finally:
            os.write(sender, said.encode() + b"\n")
            os._exit(0)
    os.close(sender)
    said, until = b"", time.monotonic() + limit
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([receiver], [], [], max(0.0, until - time.monotonic()))
        more = os.read(receiver, 65536) if ready else b"timeout\n"
        said += more or b"\n"
    os.close(receiver)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said.decode().strip() if b"timeout\n" not in said else "timeout"


def _failing(items: list[pytest.Item]) -> str:
    """The id of the first test that fails; empty when all pass."""
    session = items[0].session
    failed: list[str] = []

    class Seen:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    session.config.pluginmanager.register(Seen())
    for item, later in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
        if failed:
            session._setupstate.teardown_exact(None)
            return failed[0]
    return ""


def run(count: int, seed: int, only: list[str], budget: float, tests: list[str]) -> int:
    """Try the mutants; 1 when one survived."""
    if not RECORDS.exists():
        print("There is no record of which test reaches what. Run: python scripts/mutate.py record")
        return 2
    os.environ["CI"] = "true"
    files = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))]
    every = [mutant for path in files for mutant in mutants(path)]
    pool = [m for m in every if not only or any(one in str(m) for one in only)]
    chosen = random.Random(seed).sample(pool, min(count or len(pool), len(pool)))
    runner = Runner(chosen, budget)
    os.chdir(ROOT)
    options = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys", "-q"]
    pytest.main([*options, *(tests or ["tests"])], plugins=[runner])
    print(f"{len(chosen)} of {len(pool)} mutants, seed {seed}: {dict(runner.results)}")
    return 1 if runner.results["SURVIVED"] else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("action", choices=["record", "run"])
    parser.add_argument("--count", type=int, default=0, help="how many, at random (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="those whose report has one of these")
    parser.add_argument("--tests", nargs="*", default=[], help="the tests of these files alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="record: processes")
    parser.add_argument("--budget", type=float, default=20.0, help="run: seconds for one mutant")
    args = parser.parse_args()
    if args.action == "record":
        return record(args.tests, args.jobs)
    count = args.count or (0 if args.only else 100)
    return run(count, args.seed, args.only, args.budget, args.tests)


if __name__ == "__main__":
    sys.exit(main())
