"""Random mutation testing: change one thing in the source, run the tests that reach it, see red.

    python scripts/mutate.py record                     run the fast tests, note what each calls
    python scripts/mutate.py run --count 200 --seed 1   try random mutants of text/, edit/ and desk/
    python scripts/mutate.py run --only desk/member.py  all mutants of the files whose path has this

A mutant that no test notices is printed as SURVIVED with its place and the change. Either a test
is missing, or the mutant is equivalent: no caller can tell the difference. The source is mutated
in a copy; the checkout stays as it is. Records are kept in `.mutants/`, which git ignores.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "copydesk"
RECORDS = ROOT / ".mutants"
ROOMS = ("text", "edit", "desk")

# --- which test calls which function: this file as a pytest plugin -------------------------------

_called: dict[str, set[str]] = defaultdict(set)
_seconds: dict[str, float] = {}
_codes: dict[CodeType, str] = {}


def _name(code: CodeType) -> str:
    """A function as `desk/member.py:52`, empty outside of the package."""
    place = code.co_filename.rpartition("/copydesk/")[2]
    inside = "/src/copydesk/" in code.co_filename
    return f"{place}:{code.co_firstlineno}" if inside else ""


def pytest_runtest_setup(item: object) -> None:
    """Note each function that is called from here on, in every thread."""
    if "COPYDESK_RECORD_CALLS" not in os.environ:
        return
    calls = _called[item.nodeid]  # type: ignore[attr-defined]

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            code = frame.f_code
            name = _codes.get(code)
            if name is None:
                name = _codes[code] = _name(code)
            if name:
                calls.add(name)

    threading.setprofile(note)
    sys.setprofile(note)


def pytest_runtest_logreport(report: object) -> None:
    """Note how long each test takes."""
    if report.when == "call":  # type: ignore[attr-defined]
        _seconds[report.nodeid] = report.duration  # type: ignore[attr-defined]


def pytest_sessionfinish(session: object) -> None:
    """Write what this process, one of several, has noted."""
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    if "COPYDESK_RECORD_CALLS" in os.environ and _called:
        rows = [[test, _seconds.get(test, 1.0), sorted(names)] for test, names in _called.items()]
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"calls-{os.getpid()}.json").write_text(json.dumps(rows))


def record(tests: list[str]) -> int:
    """Run the fast tests, or these, once; return pytest's exit status."""
    shutil.rmtree(RECORDS, ignore_errors=True)
    env = os.environ | {"COPYDESK_RECORD_CALLS": "1", "PYTHONPATH": str(ROOT / "scripts")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "auto",
        "-m",
        "not slow",
        "-p",
        "mutate",
        *tests,
    ]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def recorded() -> dict[str, list[tuple[float, str]]]:
    """For each function the tests that call it, with their seconds, the quickest first."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for part in RECORDS.glob("calls-*.json"):
        for test, seconds, names in json.loads(part.read_text()):
            for name in names:
                found[name].append((seconds, test))
    return {name: sorted(tests) for name, tests in found.items()}


# --- the mutants of a file -----------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: bytes [start, stop) of the file become `new`; `function` is where it stands."""

    path: Path
    line: int
    start: int
    stop: int
    new: str
    function: str

    def __str__(self) -> str:
        old = self.path.read_bytes()[self.start : self.stop].decode()
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
_BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.BitOr: "&"}


def mutants(path: Path) -> list[Mutant]:
    """All mutants of one file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found: list[Mutant] = []
    relative = path.relative_to(PACKAGE).as_posix()

    def add(node: ast.expr | ast.stmt, new: str, function: str) -> None:
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, node.lineno, start, stop, new, function))

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            function = f"{relative}:{first}"
            children: list[ast.AST] = list(node.body)
        elif isinstance(node, ast.ClassDef):
            children = list(node.body)
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value else []
        else:
            children = list(ast.iter_child_nodes(node))
        if function:
            for target, new in changes(node):
                add(target, new, function)
        for child in children:
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                visit(child, function)

    visit(ast.parse(source), "")
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
        yield node, f"({text(node.left)} {_BINARY[type(node.op)]} {text(node.right)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, str(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield node, f"({text(node.orelse)} if {text(node.test)} else {text(node.body)})"
    elif isinstance(node, ast.If | ast.While):
        yield node.test, f"not ({text(node.test)})"
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield node, "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"
    elif isinstance(node, ast.Continue):
        yield node, "break"


# --- running them --------------------------------------------------------------------------------


def noticed(mutant: Mutant, copy: Path, tests: list[str], seconds: float) -> bool:
    """Whether one of the tests fails, or does not end in time, with the mutant in the copy."""
    target = copy / "copydesk" / mutant.path.relative_to(PACKAGE)
    source = mutant.path.read_bytes()
    changed = source[: mutant.start] + mutant.new.encode() + source[mutant.stop :]
    target.write_bytes(changed)
    for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        stale.unlink()
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            return process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            return True
        finally:
            target.write_bytes(source)


def run(count: int, seed: int, only: str, jobs: int) -> int:
    """Try the mutants; 1 when one survived."""
    calls = recorded()
    if not calls:
        print("There is no record of which test calls what. Run: python scripts/mutate.py record")
        return 2
    files = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))]
    pool = [m for path in files for m in mutants(path) if only in str(path)]
    chosen = pool if only and not count else random.Random(seed).sample(pool, min(count, len(pool)))
    copies: SimpleQueue[Path] = SimpleQueue()
    results: Counter[str] = Counter()

    def attempt(mutant: Mutant) -> None:
        tests: list[str] = []
        budget = 40.0
        for seconds, test in calls.get(mutant.function, ()):
            budget -= seconds
            if budget < 0 or len(tests) == 400:
                break
            tests.append(test)
        copy = copies.get()
        try:
            verdict = "killed" if tests and noticed(mutant, copy, tests, 180) else "SURVIVED"
        finally:
            copies.put(copy)
        results[verdict] += 1
        if verdict != "killed":
            print(f"{verdict} ({len(tests)} tests) {mutant}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for k in range(jobs):
            shutil.copytree(ROOT / "src", Path(folder) / str(k))
            copies.put(Path(folder) / str(k))
        with ThreadPoolExecutor(jobs) as workers:
            list(workers.map(attempt, chosen))
    print(f"{len(chosen)} of {len(pool)} mutants, seed {seed}: {dict(results)}")
    return 1 if results["SURVIVED"] else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("action", choices=["record", "run"])
    parser.add_argument("--count", type=int, default=0, help="how many, at random (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose path has this")
    parser.add_argument("--tests", nargs="*", default=[], help="record: these files alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.action == "record":
        return record(args.tests)
    return run(args.count or (0 if args.only else 100), args.seed, args.only, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
