"""Many processes at the same files, one of them killed: what was reported is there, nobody waits."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import open_workspace
from support.cost import first
from support.processes import Facts, gather, workers

BASE = "above\nanchor\nbelow\n"
MANY = [
    pytest.param(3, 8, id="few"),
    pytest.param(8, 60, id="many", marks=pytest.mark.slow),
]
WAITED_SECONDS = Config().lock_seconds / 2
"""Who waited for a dead one would wait for twice as long, until it is refused."""


def killed(root: Path, *works: tuple[str, Facts]) -> tuple[list[Facts], Facts, float]:
    """Let all work, and kill the first one in the middle of its work.

    What they told of each line, the line that the killed one had begun (empty for
    none), and by how much longer one of the others waited after than before, in seconds.
    """
    told: list[Facts] = []
    answers: list[list[float]] = [[] for _ in works]
    with workers(root, *works) as ready:
        victim, *others = ready
        threads = [
            threading.Thread(target=gather, args=(worker, told, at), daemon=True)
            for worker, at in zip(others, answers, strict=False)
        ]
        for worker in ready:
            worker.go()
        for thread in threads:
            thread.start()
        begun: Facts = {}
        half = f"-{works[0][1]['count'] // 2}"
        while not str(begun.get("begins", "")).endswith(half):
            begun = took(victim.line(), told)
        victim.kill()
        killed_at = time.monotonic()
        for fact in victim.lines():
            begun = took(fact, told)
        for thread in threads:
            thread.join()
    before = [[t for t in at if t <= killed_at] for at in answers]
    after = [[killed_at, *(t for t in at if t > killed_at)] for at in answers]
    return told, begun, longest(after) - longest(before)


def longest(answers: list[list[float]]) -> float:
    """The longest time between two answers of one worker."""
    return max((b - a for at in answers for a, b in itertools.pairwise(at)), default=0.0)


def took(fact: Facts, told: list[Facts]) -> Facts:
    """Note what the worker told; the line that it has begun and not ended."""
    assert fact, "it ended by itself"
    if "line" in fact:
        told.append(fact)
        return {}
    return fact


def check_lines(root: Path, told: list[Facts], begun: Facts, paths: list[str]) -> None:
    """Each line that was reported is in each of its files once, one that was begun in all or none."""
    with open_workspace(str(root), Config(durability="fast")) as opened:
        assert not opened.journal.in_doubt()
    lines = {path: (root / path).read_text().split("\n") for path in paths}
    if begun:
        where = begun.get("paths", paths)
        there = {begun["begins"] in lines[path] for path in where}
        assert len(there) == 1, "all or none"
        told = [
            *told,
            {"line": begun["begins"], "paths": where, "code": "ok" if True in there else ""},
        ]
    for path in paths:
        here = [fact for fact in told if path in fact.get("paths", paths)]
        expected = Counter(fact["line"] for fact in here if fact["code"] == "ok")
        assert Counter(line for line in lines[path] if "-" in line) == expected
        assert [line for line in lines[path] if "-" not in line] == BASE.split("\n")


@pytest.mark.parametrize(("processes", "count"), MANY)
def test_one_file(tmp_path: Path, processes: int, count: int) -> None:
    """All of them put lines into one file, some at once and some planned first."""
    (tmp_path / "f").write_text(BASE)
    works = [("insert", {"path": "f", "name": f"p{i}", "count": count}) for i in range(processes)]
    told, begun, waited = killed(tmp_path, *works)
    check_lines(tmp_path, told, begun, ["f"])
    assert len(told) >= (processes - 1) * count
    assert sum(fact["code"] == "ok" for fact in told) > 0.9 * len(told)
    assert waited < WAITED_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("at_once", first(3, 1))
@pytest.mark.parametrize(("processes", "count"), MANY)
def test_fifty_files(tmp_path: Path, processes: int, count: int, at_once: int) -> None:
    """Each edit is of one file or of three together, in any order; none waits for another's."""
    paths = [f"f{i}" for i in range(50)]
    for path in paths:
        (tmp_path / path).write_text(BASE)
    facts = {"paths": paths, "count": count, "at_once": at_once}
    works = [("transact", {**facts, "name": f"p{i}"}) for i in range(processes)]
    told, begun, waited = killed(tmp_path, *works)
    check_lines(tmp_path, told, begun, paths)
    assert len(told) >= (processes - 1) * count
    assert all(fact["code"] == "ok" for fact in told)
    assert waited < WAITED_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "count"), MANY)
def test_the_same_few_files(tmp_path: Path, processes: int, count: int) -> None:
    """All transactions meet each other, in other orders each: no two wait for each other for ever."""
    paths = ["a", "b", "c", "d"]
    for path in paths:
        (tmp_path / path).write_text(BASE)
    facts = {"paths": paths, "count": count, "at_once": 3}
    works = [("transact", {**facts, "name": f"p{i}"}) for i in range(processes)]
    told, begun, _ = killed(tmp_path, *works)
    check_lines(tmp_path, told, begun, paths)
    assert len(told) >= (processes - 1) * count
    assert {fact["code"] for fact in told} <= {"ok", "CONTENT_CHANGED"}
    assert sum(fact["code"] == "ok" for fact in told) > 0.9 * len(told)
