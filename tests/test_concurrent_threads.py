"""Many threads on one file: what is reported as written is there once, what is refused is not."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.app.workspace import OpenWorkspace
from copydesk.text.relpath import RelPath
from support.desks import Setup
from support.processes import Facts, code, outcome

Resolve = Callable[..., RelPath]

THREADS = 20
BASE = "".join(f"line {i}\n" for i in range(1, 101))


DESK = Setup(files={"f": BASE}, stores=("memory", "shared"))


def at_once(count: int, work: Callable[[int], Facts]) -> list[Facts]:
    """What the work gave in each of so many threads, which began together."""
    found: dict[int, Facts] = {}
    start = threading.Barrier(count)

    def run(i: int) -> None:
        start.wait()
        found[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[i] for i in range(count)]


def check_lines(text: str, added: dict[str, str], base: str = BASE) -> None:
    """The text is the base with the lines whose code is `ok`, each once, and no other."""
    expected = Counter(base.split("\n")) + Counter(k for k, v in added.items() if v == "ok")
    assert Counter(text.split("\n")) == expected
    kept = [line for line in text.split("\n") if line not in added]
    assert kept == base.split("\n")


def asked(i: int) -> tuple[str, Facts]:
    """One of several kinds of edits that add the line `new i`."""
    content = {"path": "f", "content": f"new {i}\n"}
    kinds: list[tuple[str, Facts]] = [
        ("prepare_file_append", {}),
        ("prepare_file_insert_after", {"anchor": f"line {i + 10}", "match": "equals"}),
        ("prepare_file_insert_before", {"anchor": "line 50", "match": "equals"}),
        ("prepare_file_insert_after", {"anchor": "line 50", "match": "equals"}),
    ]
    tool, own = kinds[i % len(kinds)]
    return tool, {**content, **own}


@pytest.mark.slow
def test_plans_applied_at_once_are_all_written_once(desk: OpenWorkspace, tmp_path: Path) -> None:
    plans = [outcome(desk, tool, **args) for tool, args in map(asked, range(THREADS))]

    def work(i: int) -> Facts:
        return outcome(desk, "apply_file_modification", hunk_id=plans[i]["hunk_id"])

    found = at_once(THREADS, work)
    check_lines((tmp_path / "f").read_text(), {f"new {i}": code(f) for i, f in enumerate(found)})
    assert Counter(map(code, found))["ok"] >= THREADS // 2
    refused = {code(f) for f in found} - {"ok"}
    assert refused <= {"CONTENT_CHANGED", "AMBIGUOUS_MATCH"}
    edits = [f["edit_id"] for f in found if code(f) == "ok"]
    assert len(set(edits)) == len(edits)
    assert sorted(e.edit_id for e in desk.journal.entries() if e.state == "done") == sorted(edits)


def test_edits_made_at_once_are_all_written_once(desk: OpenWorkspace, tmp_path: Path) -> None:
    def work(i: int) -> Facts:
        tool, args = asked(i)
        return outcome(desk, tool, **args, apply="auto")

    found = at_once(THREADS, work)
    written = {f"new {i}": "ok" if f.get("changed") else "waits" for i, f in enumerate(found)}
    check_lines((tmp_path / "f").read_text(), written)
    assert list(written.values()).count("ok") >= THREADS // 2
    assert all(f.get("changed") or f["auto_apply"] == "declined" for f in found)


@pytest.mark.slow
def test_ranges_of_one_read_are_written_at_once(desk: OpenWorkspace, tmp_path: Path) -> None:
    """Each thread replaces lines of its own by another number of lines; all of them land."""
    version = outcome(desk, "read_file", path="f")["version"]

    def work(i: int) -> Facts:
        return outcome(
            desk,
            "prepare_file_range_edit",
            path="f",
            range=f"{5 * i + 1}~{5 * i + 2}",
            version=version,
            content=f"new {i}\n" * (i % 4),
            apply="auto",
        )

    found = at_once(THREADS, work)
    assert [code(f) for f in found] == ["ok"] * THREADS
    lines = BASE.split("\n")
    for i in reversed(range(THREADS)):
        lines[5 * i : 5 * i + 2] = [f"new {i}"] * (i % 4)
    assert (tmp_path / "f").read_text() == "\n".join(lines)


@pytest.mark.parametrize("tool", ["prepare_file_append", "prepare_file_insert_after"])
def test_a_plan_is_written_once(desk: OpenWorkspace, tmp_path: Path, tool: str) -> None:
    """Sixteen threads apply the same plan; one of them writes."""
    anchor = {"anchor": "line 9", "match": "equals"} if tool.endswith("after") else {}
    plan = outcome(desk, tool, path="f", content="new 0\n", **anchor)

    def work(i: int) -> Facts:
        return outcome(desk, "apply_file_modification", hunk_id=plan["hunk_id"])

    found = Counter(map(code, at_once(16, work)))
    assert found == {"ok": 1, "HUNK_NOT_FOUND applied": 15}
    check_lines((tmp_path / "f").read_text(), {"new 0": "ok"})


@pytest.mark.slow
def test_a_plan_made_anew_is_written_once_as_one_of_both(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """While some apply a plan others make it anew; what is written is what one apply was told."""
    for turn in range(10):
        (tmp_path / "f").write_text(BASE)
        plan = outcome(desk, "prepare_file_append", path="f", content=f"old {turn}\n")
        hunk = plan["hunk_id"]

        def work(i: int, turn: int = turn, hunk: str = hunk) -> Facts:
            if i % 2:
                return outcome(desk, "apply_file_modification", hunk_id=hunk)
            anew = {"path": "f", "content": f"new {turn} {i}\n", "existing_hunk_id": hunk}
            return outcome(desk, "prepare_file_append", **anew)

        found = at_once(8, work)
        applied = [f for i, f in enumerate(found) if i % 2 and code(f) == "ok"]
        refused = {code(f) for f in found} - {"ok"}
        assert refused <= {"HUNK_NOT_FOUND applied", "CONTENT_CHANGED"}
        assert len(applied) <= 1
        added = (tmp_path / "f").read_text().removeprefix(BASE)
        if applied:
            evidence = applied[0]["apply_evidence"]["written"]
            assert evidence == added
            assert added.count("\n") == 1
        else:
            assert added == ""
            assert code(outcome(desk, "apply_file_modification", hunk_id=hunk)) == "ok"


def test_what_was_made_anew_is_not_written_by_an_apply_of_the_old(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seam is the store's own method, called between looking up the plan and the turn."""
    old = outcome(desk, "prepare_file_append", path="f", content="old\n")
    hunk, resolve = old["hunk_id"], desk.files.resolve

    def meanwhile(path: RelPath, *via: object) -> RelPath:
        monkeypatch.undo()
        anew = {"path": "f", "content": "new\n", "existing_hunk_id": hunk}
        assert code(outcome(desk, "prepare_file_append", **anew)) == "ok"
        return resolve(path, *via)

    monkeypatch.setattr(desk.files, "resolve", meanwhile)
    refused = outcome(desk, "apply_file_modification", hunk_id=hunk)
    assert code(refused) == "CONTENT_CHANGED"
    assert (tmp_path / "f").read_text() == BASE
    assert code(outcome(desk, "apply_file_modification", hunk_id=hunk)) == "ok"
    assert (tmp_path / "f").read_text() == f"{BASE}new\n"


def test_what_was_applied_is_not_made_anew(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for apply in ("never", "auto"):
        (tmp_path / "f").write_text(BASE)
        plan = outcome(desk, "prepare_file_append", path="f", content="old\n")
        hunk, resolve = plan["hunk_id"], desk.files.resolve

        def meanwhile(
            path: RelPath, *via: object, hunk: str = hunk, resolve: Resolve = resolve
        ) -> RelPath:
            monkeypatch.undo()
            assert code(outcome(desk, "apply_file_modification", hunk_id=hunk)) == "ok"
            return resolve(path, *via)

        monkeypatch.setattr(desk.files, "resolve", meanwhile)
        anew = {"path": "f", "content": "new\n", "existing_hunk_id": hunk, "apply": apply}
        fields = outcome(desk, "prepare_file_append", **anew)
        assert code(fields) == "HUNK_NOT_FOUND applied"
        assert (tmp_path / "f").read_text() == f"{BASE}old\n"


@pytest.mark.slow
def test_a_plan_is_discarded_or_written_never_both(desk: OpenWorkspace, tmp_path: Path) -> None:
    caller = desk.member("local")
    for turn in range(20):
        (tmp_path / "f").write_text(BASE)
        plan = outcome(desk, "prepare_file_append", path="f", content=f"new {turn}\n")

        def work(i: int, hunk: str = plan["hunk_id"]) -> Facts:
            if i % 2:
                return outcome(desk, "apply_file_modification", hunk_id=hunk)
            try:
                desk.desk.discard(caller, hunk)
            except Exception as refusal:
                return {"status": "error", "error": str(refusal)}
            return {"status": "ok"}

        found = at_once(4, work)
        assert [code(f) for f in found].count("ok") == 1
        written = code(found[1]) == "ok" or code(found[3]) == "ok"
        assert (tmp_path / "f").read_text() == BASE + f"new {turn}\n" * written


def test_a_file_is_created_by_one(desk: OpenWorkspace, tmp_path: Path) -> None:
    def work(i: int) -> Facts:
        return outcome(desk, "create_new_file", path="a/b/new", content=f"by {i}\n" * 100)

    found = at_once(THREADS, work)
    (winner,) = [i for i, f in enumerate(found) if code(f) == "ok"]
    assert Counter(map(code, found)) == {"ok": 1, "FILE_EXISTS": THREADS - 1}
    assert (tmp_path / "a/b/new").read_text() == f"by {winner}\n" * 100


def test_appends_to_a_file_that_is_not_there_are_all_written(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """One of them creates it, the others append to what it created."""

    def work(i: int) -> Facts:
        return outcome(desk, "prepare_file_append", path="n", content=f"new {i}\n", apply="auto")

    found = at_once(THREADS, work)
    codes = ["ok" if f.get("changed") else f["auto_apply_reason"] for f in found]
    written = {f"new {i}": c for i, c in enumerate(codes)}
    check_lines((tmp_path / "n").read_text(), written, base="")
    assert codes == ["ok"] * THREADS


def test_an_overwrite_replaces_only_what_was_known(desk: OpenWorkspace, tmp_path: Path) -> None:
    def work(i: int) -> Facts:
        known = {"known_old_total_lines": 100, "known_old_total_bytes": len(BASE)}
        return outcome(desk, "overwrite_entire_file", path="f", content=f"by {i}\n", **known)

    found = at_once(THREADS, work)
    (winner,) = [i for i, f in enumerate(found) if code(f) == "ok"]
    assert Counter(map(code, found)) == {"ok": 1, "STATS_MISMATCH": THREADS - 1}
    assert (tmp_path / "f").read_text() == f"by {winner}\n"


@pytest.mark.slow
def test_two_names_of_one_file_lose_nothing(desk: OpenWorkspace, tmp_path: Path) -> None:
    """The file is large, so that the writes, which are made in place, take their time."""
    large = "".join(f"{i:099}\n" for i in range(20_000))
    (tmp_path / "f").write_text(large)
    os.link(tmp_path / "f", tmp_path / "g")
    os.symlink("g", tmp_path / "h")

    def work(i: int) -> Facts:
        for k in range(4):
            call = {"path": "fgh"[i % 3], "content": f"new {i} {k}\n", "apply": "auto"}
            found = outcome(desk, "prepare_file_append", **call)
            if not found.get("changed"):
                break
        return found

    found = at_once(6, work)
    assert [code(f) for f in found] == ["ok"] * 6
    added = {f"new {i} {k}": "ok" for i in range(6) for k in range(4)}
    check_lines((tmp_path / "f").read_text(), added, base=large)
    assert (tmp_path / "f").stat().st_ino == (tmp_path / "g").stat().st_ino
    assert os.readlink(tmp_path / "h") == "g"
