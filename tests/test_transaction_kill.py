"""Killed at any instant of a transaction: after recovery all of it is there, or none."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.store.contents import is_temp
from copydesk.store.protocol import Durability
from copydesk.text.relpath import RelPath
from support.cost import first
from support.processes import code, outcome

REPLACED = ("a.txt", "d/b.txt", "d/large.txt")
LINKED, OTHER_NAME = "linked.txt", "d/other.txt"
TWICE = ("a.txt", LINKED)

STEPS = 7
"""How many plans make a generation."""

SIZES = {"a.txt": 20, "d/b.txt": 200, "d/large.txt": 20_000, LINKED: 2_000}


def text(name: str, generation: int) -> str:
    """A file of one generation: the number stands at its start, and for some at the end too."""
    middle = "".join(f"{name} line {i}\n" for i in range(SIZES[name]))
    return f"first {generation}\n{middle}last {generation if name in TWICE else 0}\n"


def created(generation: int) -> str:
    return f"new/{generation}.txt"


def make(root: Path) -> None:
    """The files of generation 0."""
    for name in SIZES:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text(name, 0))
    os.link(root / LINKED, root / OTHER_NAME)
    (root / "new").mkdir()


def plan(opened: OpenWorkspace, generation: int) -> list[str]:
    """The plans that make the generation: one or two in each file, and one that creates a file."""
    wanted: list[tuple[str, dict[str, object]]] = [
        ("prepare_file_append", {"path": created(generation), "content": f"{generation}\n"})
    ]
    for name in SIZES:
        ends = ((1, "first"), (SIZES[name] + 2, "last"))
        for line, word in ends if name in TWICE else ends[:1]:
            content = {"path": name, "range": str(line), "content": f"{word} {generation}\n"}
            wanted.append(("prepare_file_range_edit", content))
    return [str(outcome(opened, tool, **arguments)["hunk_id"]) for tool, arguments in wanted]


def work_without_end(root: Path, config: Config, generation: int, told: int) -> None:
    """Make one generation after the other; tells `b` before each and `d` when it was reported."""
    try:
        with open_workspace(str(root), config) as opened:
            while True:
                generation += 1
                ids = plan(opened, generation)
                os.write(told, b"b")
                report = outcome(opened, "apply_file_modifications", hunk_ids=ids)
                assert code(report) == "ok", report
                os.write(told, b"d")
    except BaseException as error:
        os.write(told, repr(error).encode())
    finally:
        os._exit(1)


BEGUN_SECONDS = 60


@dataclass
class Child:
    """A forked process at work, and the pipe in which it tells how far it is."""

    pid: int
    told: int

    def await_begun(self) -> None:
        """Wait until a transaction begins."""
        ready, _, _ = select.select([self.told], [], [], BEGUN_SECONDS)
        assert ready, "it has not begun: it stands still"
        word = os.read(self.told, 1)
        assert word == b"b", word + os.read(self.told, 2000)


@contextmanager
def forked(root: Path, config: Config, generation: int) -> Iterator[Child]:
    told, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        work_without_end(root, config, generation, telling)
    os.close(telling)
    try:
        yield Child(pid, told)
    finally:
        os.close(told)


def killed(root: Path, config: Config, generation: int, delay: float) -> tuple[int, bool]:
    """Kill a process `delay` seconds after a transaction began.

    How many generations it reported, and whether it was in the middle of one more.
    """
    with forked(root, config, generation) as child:
        child.await_begun()
        time.sleep(delay)
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        rest = os.read(child.told, 10_000)
    assert set(rest) <= set(b"bd"), rest
    return rest.count(b"d"), not rest.endswith(b"d")


def duration(root: Path, config: Config) -> float:
    """How long a transaction takes, in seconds: the shortest of the first few."""
    took: list[float] = []
    with forked(root, config, 0) as child:
        for _ in range(5):
            child.await_begun()
            began = time.monotonic()
            assert os.read(child.told, 1) == b"d"
            took.append(time.monotonic() - began)
        child.await_begun()
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    return min(took)


def generation_of(root: Path, name: str) -> int | None:
    """Which generation the file is of; None when it is of none."""
    found = (root / name).read_text()
    generation = int(found[:20].split("\n")[0].split(" ")[1])
    return generation if found == text(name, generation) else None


def check_each(root: Path, allowed: tuple[int, int]) -> None:
    """Before anything is recovered, each file that is not written in place is whole."""
    for name in REPLACED:
        assert generation_of(root, name) in allowed
    for generation in allowed:
        path = root / created(generation)
        if generation and path.exists():
            assert path.read_text() == f"{generation}\n"


def check_generation(root: Path, opened: OpenWorkspace, allowed: tuple[int, int]) -> int:
    """All files are of one generation, and the journal says so; which one."""
    found = {name: generation_of(root, name) for name in SIZES}
    (generation,) = set(found.values())
    assert generation in allowed, found
    assert (root / created(generation)).exists() == (generation > 0)
    assert not (root / created(generation + 1)).exists()
    assert (root / LINKED).stat().st_ino == (root / OTHER_NAME).stat().st_ino
    left = [p for p in root.rglob("*.tmp") if is_temp(p.name.encode())]
    assert left == []
    assert not opened.journal.in_doubt()
    groups: dict[str, list[str]] = {}
    for entry in opened.journal.entries(most=5 * STEPS):
        groups.setdefault(entry.group, []).append(entry.state)
    *whole, oldest = groups.values()
    assert all(states in (["done"] * STEPS, ["failed"] * STEPS) for states in whole)
    assert set(oldest) in ({"done"}, {"failed"})
    entry = opened.journal.entries(RelPath.parse(created(generation)), most=1)
    assert [each.state for each in entry] == ["done"] * bool(generation)
    return generation


KILLS = [pytest.param(10, id="short"), pytest.param(80, id="long", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("durability", first("full", "fast"))
@pytest.mark.parametrize("kills", KILLS)
def test_killed_in_a_transaction(tmp_path: Path, durability: Durability, kills: int) -> None:
    """Every second time it is not the next start that settles it, but who comes to the file next.

    It goes on until both ends were seen, all of the transaction and none of it.
    """
    config = Config(durability=durability)
    make(tmp_path)
    usual = duration(tmp_path, config)
    chance = random.Random(kills)
    told: Counter[str] = Counter()
    with open_workspace(str(tmp_path), config) as opened:
        generation = check_generation(tmp_path, opened, (5, 6))
    rare = kills // 40
    while told["in the middle"] < kills or min(told["all"], told["none"]) < rare:
        assert told["in the middle"] < 10 * kills, told
        turn = told["in the middle"] + told["between"]
        latest = (1.1, 1.6, 2.4)[turn % 3] * usual  # on a busy machine it takes longer
        delay = latest * chance.random()
        reported, in_middle = killed(tmp_path, config, generation, delay)
        known = generation + reported
        check_each(tmp_path, (known, known + 1))
        with open_workspace(str(tmp_path), config, recover=turn % 2 == 0) as opened:
            if turn % 2:
                come(opened)
            generation = check_generation(tmp_path, opened, (known, known + 1))
        told["in the middle" if in_middle else "between"] += 1
        if in_middle:
            told["all" if generation > known else "none"] += 1
    print(f"\n{durability}: killed {dict(told)}")


def come(opened: OpenWorkspace) -> None:
    """An edit that changes nothing comes to each of the files."""
    for name in SIZES:
        same = {"path": name, "range": "2", "content": f"{name} line 0\n", "apply": "auto"}
        done = outcome(opened, "prepare_file_range_edit", **same, expected_old=same["content"])
        assert done.get("changed") is False, done


LARGE_LINES = 200_000


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(80, marks=pytest.mark.slow)])
def test_killed_while_a_large_file_is_written(tmp_path: Path, kills: int) -> None:
    """Its new content is made before the journal has the entry: a plain start finds nothing left."""
    lines = [f"line {i} of a file that is held in parts only, not as a whole\n" for i in range(4)]
    (tmp_path / "large.txt").write_text("".join(lines) * (LARGE_LINES // 4))
    chance = random.Random(kills)
    for _ in range(kills):
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            write_large_without_end(tmp_path, telling)
        os.close(telling)
        assert os.read(told, 1) == b"b"
        time.sleep(0.15 * chance.random())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(told)
        with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
            assert not opened.journal.in_doubt()
        assert not [p for p in tmp_path.iterdir() if is_temp(p.name.encode())]
        whole = (tmp_path / "large.txt").read_text()
        assert whole.count("\n") == LARGE_LINES // 4 * 4


def write_large_without_end(root: Path, told: int) -> None:
    """Edit after edit of the large file."""
    try:
        with open_workspace(str(root), Config(durability="fast")) as opened:
            os.write(told, b"b")
            while True:
                at = str(random.randrange(1, LARGE_LINES))
                plan = {"path": "large.txt", "range": at, "content": f"{random.random()}\n"}
                found = outcome(opened, "prepare_file_range_edit", **plan)
                outcome(opened, "apply_file_modification", hunk_id=found["hunk_id"])
    finally:
        os._exit(1)
