"""Many processes on one workspace: no reported success is lost, none is written twice."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import open_workspace
from support.processes import Facts, code, gather, outcome, results, workers

BASE = "".join(f"line {i}\n" for i in range(1, 31)) + "the anchor\n" + "tail\n"


def check_lines(text: str, told: list[Facts], base: str = BASE) -> None:
    """Every line that was reported is in the text once, the others are not, the base is there."""
    expected = Counter(fact["line"] for fact in told if fact["code"] == "ok")
    refused = {fact["line"] for fact in told if fact["code"] != "ok"}
    lines = text.split("\n")
    ours = expected.keys() | refused
    assert Counter(line for line in lines if line in ours) == expected
    assert [line for line in lines if line not in ours] == base.split("\n")


@pytest.mark.parametrize(
    ("processes", "count"),
    [pytest.param(3, 15, id="few"), pytest.param(8, 50, id="many", marks=pytest.mark.slow)],
)
def test_every_success_is_in_the_file_once(tmp_path: Path, processes: int, count: int) -> None:
    (tmp_path / "f").write_text(BASE)
    facts = [{"path": "f", "name": f"p{i}", "count": count} for i in range(processes)]
    told = [fact for each in results(tmp_path, *(("insert", f) for f in facts)) for fact in each]
    ended = [fact for fact in told if "line" in fact]
    assert len(ended) == processes * count
    check_lines((tmp_path / "f").read_text(), ended)
    codes = Counter(fact["code"] for fact in ended)
    assert codes["ok"] > processes * count * 0.9, codes
    assert codes.keys() <= {"ok", "CONTENT_CHANGED", "AMBIGUOUS_MATCH"}
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        entries = opened.journal.entries(most=1_000_000)
    assert Counter(e.state for e in entries) == {"done": codes["ok"]}
    assert {e.edit_id for e in entries} == {f["edit_id"] for f in ended if f["code"] == "ok"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "count"),
    [pytest.param(3, 10, id="few"), pytest.param(8, 50, id="many", marks=pytest.mark.slow)],
)
def test_lines_written_anew_by_number_are_the_right_ones(
    tmp_path: Path, processes: int, count: int
) -> None:
    """Each process writes a line of its own anew, by number and version, among the others."""
    base = "".join(f"own p{i} 0\nbetween {i}\n" for i in range(processes))
    (tmp_path / "f").write_text(base)
    works = [("number", {"path": "f", "name": f"p{i}", "count": count}) for i in range(processes)]
    works.append(("insert", {"path": "g", "name": "other", "count": count}))
    (tmp_path / "g").write_text(BASE)
    *told, _ = results(tmp_path, *works)
    assert [len(each) for each in told] == [count] * processes
    assert {fact["code"] for each in told for fact in each} == {"ok"}
    done = "".join(f"own p{i} {count}\nbetween {i}\n" for i in range(processes))
    assert (tmp_path / "f").read_text() == done


@pytest.mark.slow
def test_a_plan_is_written_by_one_of_the_processes(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(BASE)
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        plans = [
            outcome(opened, "prepare_file_append", path="f", content=f"new {i}\n")
            for i in range(10)
        ]
    ids = [plan["hunk_id"] for plan in plans]
    told = results(tmp_path, *[("apply", {"hunk_ids": ids})] * 4)
    for each in zip(*told, strict=True):
        assert Counter(f["code"] for f in each) == {"ok": 1, "HUNK_NOT_FOUND applied": 3}
    added = [{"line": f"new {i}", "code": "ok"} for i in range(10)]
    check_lines((tmp_path / "f").read_text(), added)


EDIT: Facts = {"tool": "prepare_file_range_edit", "path": "f", "range": "2~3", "content": "new\n"}
BEFORE, AFTER = "line 1\n", BASE.removeprefix("line 1\nline 2\nline 3\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("now", "context", "after"),
    [
        (BASE, "exact", f"{BEFORE}new\n{AFTER}"),
        (f"top\n{BASE}", "fuzz", f"top\n{BEFORE}new\n{AFTER}"),
        (f"{BASE}end\n", "exact", f"{BEFORE}new\n{AFTER}end\n"),
        (BASE.replace("line 3", "line three"), None, None),
    ],
    ids=["unchanged", "moved", "changed elsewhere", "changed there"],
)
def test_a_plan_is_applied_by_another_process(
    tmp_path: Path, now: str, context: str | None, after: str | None
) -> None:
    """What it was based on is in the state folder, so drift is no hindrance."""
    (tmp_path / "f").write_text(BASE)
    ((plan,),) = results(tmp_path, ("prepare", EDIT))
    (tmp_path / "f").write_text(now)
    ((done,),) = results(tmp_path, ("apply", {"hunk_ids": [plan["hunk_id"]]}))
    if after is None:
        assert done == {"code": "CONTENT_CHANGED", "context": "rejected"}
    else:
        assert done == {"code": "ok", "context": context}
    assert (tmp_path / "f").read_text() == (now if after is None else after)


@pytest.mark.slow
def test_without_its_base_a_plan_is_applied_to_an_unchanged_file_only(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(BASE)
    (told,) = results(tmp_path, ("prepare", EDIT))
    (tmp_path / ".copydesk" / "texts.sqlite").write_bytes(b"damaged" * 1_000)
    (tmp_path / "f").write_text(f"top\n{BASE}")
    apply = ("apply", {"hunk_ids": [told[0]["hunk_id"]]})
    assert results(tmp_path, apply)[0][0]["code"] == "CONTENT_CHANGED"
    assert (tmp_path / "f").read_text() == f"top\n{BASE}"
    (tmp_path / "f").write_text(BASE)
    assert results(tmp_path, apply)[0][0]["code"] == "ok"
    assert (tmp_path / "f").read_text() == f"{BEFORE}new\n{AFTER}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="few"), pytest.param(8, id="many", marks=pytest.mark.slow)]
)
def test_a_process_killed_in_the_middle_is_in_nobodys_way(tmp_path: Path, rounds: int) -> None:
    """The survivors go on within a second, and what anybody reported is there."""
    for turn in range(rounds):
        root = tmp_path / str(turn)
        root.mkdir()
        (root / "f").write_text(BASE)
        told, unsure, longest = killed(root, after=3 + turn % 5, count=12)
        text = (root / "f").read_text()
        assert longest < 1.0
        if unsure and unsure in text.split("\n"):
            told.append({"line": unsure, "code": "ok"})
        check_lines(text, told)
        assert sum(fact["code"] == "ok" for fact in told) > len(told) * 0.9


def killed(root: Path, after: int, count: int) -> tuple[list[Facts], str, float]:
    """Kill one of three workers while it writes its line number `after`.

    Gives what all of them told, the line that the killed one may have written
    or not (if any), and the longest time between two answers of the survivors after.
    """
    works = [("insert", {"path": "f", "name": f"p{i}", "count": count}) for i in range(3)]
    told: list[Facts] = []
    at: list[float] = []
    with workers(root, *works) as ready:
        victim, *others = ready
        threads = [threading.Thread(target=gather, args=(w, told, at), daemon=True) for w in others]
        for each in (victim, *others):
            each.go()
        for thread in threads:
            thread.start()
        unsure = ""
        while unsure != f"p0-{after}":
            fact = victim.line()
            assert fact, "the victim ended by itself"
            unsure = fact.get("begins", "")
            told.extend([fact] if "line" in fact else [])
        victim.kill()
        killed_at = time.monotonic()
        for fact in victim.lines():
            unsure = fact.get("begins", "")
            told.extend([fact] if "line" in fact else [])
        for thread in threads:
            thread.join()
    later = [killed_at, *(t for t in at if t > killed_at)]
    gaps = [b - a for a, b in itertools.pairwise(later)]
    return told, unsure, max(gaps, default=0.0)


@pytest.mark.slow
def test_two_names_of_one_file_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(BASE)
    os.link(tmp_path / "f", tmp_path / "g")
    works = [("insert", {"path": "fg"[i % 2], "name": f"p{i}", "count": 10}) for i in range(4)]
    told = [fact for each in results(tmp_path, *works) for fact in each if "line" in fact]
    assert (tmp_path / "f").stat().st_ino == (tmp_path / "g").stat().st_ino
    check_lines((tmp_path / "f").read_text(), told)
    assert Counter(fact["code"] for fact in told)["ok"] > 36


@pytest.mark.slow
def test_the_state_folder_is_private_and_ignored(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(BASE)
    results(tmp_path, ("prepare", EDIT))
    state = tmp_path / ".copydesk"
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / ".gitignore").read_text() == "*\n"
    names = {path.name for path in state.iterdir()}
    assert names >= {".gitignore", "locks", "state.sqlite", "texts.sqlite"}


@pytest.mark.slow
def test_a_report_that_was_refused_says_how_the_plan_ended(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(BASE)
    ((plan,),) = results(tmp_path, ("prepare", EDIT))
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        opened.desk.discard(opened.member("local"), plan["hunk_id"])
    ((done,),) = results(tmp_path, ("apply", {"hunk_ids": [plan["hunk_id"]]}))
    assert done["code"] == "HUNK_NOT_FOUND discarded"
    assert code({"status": "ok"}) == "ok"


def test_processes_wait_for_each_other_at_a_note(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("".join(f"p{i}\n\n" for i in range(4)) + "end\n")
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        (box,) = outcome(opened, "listNotebooks")["notebooks"]
        note = box["documents"][0]["id"]
        text = outcome(opened, "getBlockContent", blockId=note, showId=True)["content"]
        blocks = [part.split("@@")[1] for part in text.split("\n\n")]
        facts = [{"note": note, "name": f"a{i}", "count": 8} for i in range(2)]
        others = [{"block": blocks[i], "name": f"p{i}", "count": 8} for i in range(4)]
    works = [("append_to_note", fact) for fact in facts] + [("edit_block", o) for o in others]
    told = [fact for each in results(tmp_path, *works) for fact in each]
    assert Counter(fact["code"] for fact in told) == {"ok": 48}
    first, *appended = (tmp_path / "note.md").read_text().split("\n\nend\n\n")
    assert first == "\n\n".join(f"p{i}-7" for i in range(4))
    lines = [f"a{i}-{j}" for i in range(2) for j in range(8)]
    assert sorted("".join(appended).split()) == sorted(lines)
