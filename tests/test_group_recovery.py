"""A transaction that was broken off is brought to all or none, by whoever comes next."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.cli import main
from copydesk.app.config import Config
from copydesk.app.doctor import examine
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.transaction import Settled, is_torn
from copydesk.errors import Failed
from copydesk.store import _os
from copydesk.store.files import StagedWrite
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet, Edit
from support.cost import spread
from support.faults import WRITE_PATH
from support.processes import Facts, code, outcome
from support.texts import changes, files

BASE = "".join(f"line {i}\n" for i in range(1, 21))
FAST = Config(durability="fast")
APPLY, ALL = "apply_file_modification", "apply_file_modifications"
NAMES = ("a", "d/b", "linked")
TWO = BASE.replace("line 2\n", "TWO\n")

Die = Callable[[OpenWorkspace], None]


def make(root: Path) -> None:
    (root / "d").mkdir(exist_ok=True)
    for name in NAMES:
        (root / name).write_text(BASE)
    if not (root / "d/other").exists():
        os.link(root / "linked", root / "d/other")


def plan(opened: OpenWorkspace, tool: str = "prepare_file_range_edit", **arguments: object) -> str:
    found = outcome(opened, tool, **arguments)
    assert found["status"] == "ok", found
    return str(found["hunk_id"])


def plans(root: Path) -> list[str]:
    """Plans for the second line of each file, and for a new one."""
    with open_workspace(str(root), FAST) as opened:
        ids = [plan(opened, path=name, range="2", content="TWO\n") for name in NAMES]
        return [*ids, plan(opened, "prepare_file_append", path="n/e/w", content="new\n")]


def forked(root: Path, ids: list[str], die: Die) -> bool:
    """Apply the plans in another process that dies as it is told; whether it did."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            opened = open_workspace(str(root), FAST)
            die(opened)
            report = outcome(opened, ALL, hunk_ids=ids)
            status = 0 if code(report) == "ok" else 2
            print(json.dumps(report), flush=True)
        finally:
            os._exit(status)
    ended = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0
    return os.WIFSIGNALED(ended)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def await_texts(opened: OpenWorkspace) -> None:
    """Texts are kept beside the work; who asks for one waits until all are there."""
    opened.desk._services.bases.find("0" * 64, None, None)


def after_commits(count: int) -> Die:
    """Die when so many files of the transaction were given their names."""

    def die(opened: OpenWorkspace) -> None:
        left = count
        for name in ("stage", "stage_new"):
            setattr(opened.files, name, counting(getattr(opened.files, name)))

        def step() -> None:
            nonlocal left
            if left == 0:
                await_texts(opened)
                kill()
            left -= 1

        Counted.step = staticmethod(step)

    return die


class Counted:
    """A staged write that tells before it is committed."""

    step: Callable[[], None]

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __enter__(self) -> Counted:
        self.ready = self.inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self.inner.__exit__(*error)

    def commit(self) -> Any:
        Counted.step()
        return self.ready.commit()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ready, name)


def counting(stage: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: Counted(stage(*arguments, **named))


def before_closing(opened: OpenWorkspace) -> None:
    """Die when all files have their names, and the journal does not say so yet."""

    def close_all(*_: object) -> None:
        await_texts(opened)
        kill()

    opened.journal.close_all = close_all  # type: ignore[method-assign]


def tree(root: Path) -> dict[str, str]:
    found = (p for p in root.rglob("*") if p.is_file() and ".copydesk/" not in str(p))
    return {str(p.relative_to(root)): p.read_text() for p in found}


def check_all_or_none(root: Path, opened: OpenWorkspace, ids: list[str]) -> bool:
    """All files are as before or all as after, and the journal says so; whether as after."""
    found = tree(root)
    before = dict.fromkeys((*NAMES, "d/other"), BASE)
    after = {**dict.fromkeys(before, TWO), "n/e/w": "new\n"}
    assert found in (before, after)
    assert not opened.journal.in_doubt()
    groups: dict[str, list[str]] = {}
    for entry in opened.journal.entries():
        if entry.hunk_id in ids:
            groups.setdefault(entry.group, []).append(entry.state)
    last, *earlier = groups.values() or [["failed"] * len(ids)]
    assert last == ["done" if found == after else "failed"] * len(ids)
    assert all(states == ["failed"] * len(ids) for states in earlier)
    return found == after


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(tmp_path)
    return tmp_path


def before_the_mode(opened: OpenWorkspace) -> None:
    """Die when the file has its new text, and not its new mode yet."""
    opened.files.stage_chmod = lambda *_, **named: kill()  # type: ignore[method-assign, assignment]


def test_of_new_text_and_a_new_mode_nothing_is_told_as_anothers(root: Path) -> None:
    """The old text, which the dead one left under a temporary name, is that of the transaction."""
    with open_workspace(str(root), FAST) as opened:
        ids = [plan(opened, path="a", range="2", content="TWO\n")]
        diff = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
        ids += [row["hunk_id"] for row in outcome(opened, "apply_diff", diff=diff)["hunks"]]
    assert forked(root, ids, before_the_mode)
    with open_workspace(str(root), FAST) as opened:
        assert (root / "a").read_text() == BASE
        found = [(entry.tool, entry.state) for entry in opened.journal.entries()]
    assert sorted(found) == [("apply_diff", "failed"), ("prepare_file_range_edit", "failed")]


# Killed before each call


def dies_at_call(number: int) -> Die:
    """Die instead of making the system call of this number."""

    def die(opened: OpenWorkspace) -> None:
        count = 0

        def wrapped(call: Callable[..., object]) -> Callable[..., object]:
            def counted(*arguments: object, **named: object) -> object:
                nonlocal count
                count += 1
                if count == number:
                    kill()
                return call(*arguments, **named)

            return counted

        for name in WRITE_PATH:
            setattr(_os, name, wrapped(getattr(_os, name)))

    return die


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lives", [False, True], ids=["start", "live"])
def test_killed_before_each_call(root: Path, lives: bool, step: int) -> None:
    """Whoever is next finds all or none, and the plans are applied once.

    That is a process that starts, or one that was there and comes to one of the files.
    """
    ended: list[bool] = []
    for number in range(step - lives, 1_000, step):  # between them, the two ways have all
        make(root)
        (root / "n/e/w").unlink(missing_ok=True)
        ids = plans(root)
        with open_workspace(str(root), FAST) as live:
            died = forked(root, ids, dies_at_call(number))
            if died and lives:
                same = {"path": NAMES[number % 3], "range": "5", "content": "line 5\n"}
                assert code(outcome(live, ALL, hunk_ids=[plan(live, **same)])) == "ok"
                ended.append(check_all_or_none(root, live, ids))
        with open_workspace(str(root), FAST) as opened:
            written = check_all_or_none(root, opened, ids)
            assert not lives or not died or written == ended.pop()
            ended.append(written)
            again = outcome(opened, ALL, hunk_ids=ids)
            expected = "HUNK_NOT_FOUND applied" if written else "ok"
            assert code(again) == expected, json.dumps(again)
            assert check_all_or_none(root, opened, ids)
        if not died:
            break
    assert ended.index(True) > 20 // step
    assert all(ended[ended.index(True) :]), "from the last commit on all of it is there"
    assert ended.count(True) > 3 // step


# Who settles it


def apply_mine(live: OpenWorkspace) -> tuple[str, Facts]:
    return APPLY, {"hunk_id": plan(live, path="a", range="9", content="NINE\n")}


def discard_mine(live: OpenWorkspace) -> tuple[str, Facts]:
    return "discard_hunk", {"hunk_id": plan(live, path="a", range="9", content="NINE\n")}


def undo_mine(live: OpenWorkspace) -> tuple[str, Facts]:
    tool, arguments = apply_mine(live)
    return "undo_file_modification", {"edit_id": outcome(live, tool, **arguments)["edit_id"]}


def plan_anew(live: OpenWorkspace) -> tuple[str, Facts]:
    edit = {"path": "a", "range": "9", "content": "NINE\n"}
    anew = {**edit, "existing_hunk_id": plan(live, **edit)}
    return "prepare_file_range_edit", anew


def directly(tool: str, **arguments: object) -> Callable[[OpenWorkspace], tuple[str, Facts]]:
    return lambda live: (tool, arguments)


COMERS: dict[str, tuple[Callable[[OpenWorkspace], tuple[str, Facts]], tuple[str, str]]] = {
    "apply": (apply_mine, ("line 9\n", "NINE\n")),
    "discard": (discard_mine, ("", "")),
    "undo": (undo_mine, ("", "")),
    "anew": (plan_anew, ("", "")),
    "string": (directly("Edit", path="a", old_string="line 7", new_string="x"), ("line 7", "x")),
    "append": (
        directly("prepare_file_append", path="a", content="end\n", apply="auto"),
        ("line 20\n", "line 20\nend\n"),
    ),
}
"""Calls that come to the file `a`, and what they replace there."""


@pytest.mark.parametrize(("name", "count"), spread(COMERS, range(5), of=3))
def test_every_call_settles_it_first(root: Path, count: int, name: str) -> None:
    """A process that lived on finds no file of a transaction that is half done."""
    ready, replaced = COMERS[name]
    with open_workspace(str(root), FAST) as live:
        tool, arguments = ready(live)
        forked(root, plans(root), after_commits(count) if count < 4 else before_closing)
        assert [entry for entry in live.journal.in_doubt() if entry.group]
        report = outcome(live, tool, **arguments)
        assert report["status"] in ("ok", "success"), report
        states = {e.state for e in live.journal.entries() if e.group}
        assert states == ({"done"} if count == 4 else {"failed"})
    expected = TWO if count == 4 else BASE
    assert tree(root) == {
        **dict.fromkeys((*NAMES, "d/other"), expected),
        "a": expected.replace(*replaced),
        **({"n/e/w": "new\n"} if count == 4 else {}),
    }
    assert (root / "n").exists() == (count == 4)


def test_what_is_said_to_stay_open_is_not_settled_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a server that has lost a part of what it knew."""
    given = {"path": "a", "apply": "auto"}
    with open_workspace(str(root), FAST) as opened:
        edit = outcome(opened, "prepare_file_append", **given, content="x\n")
        with monkeypatch.context() as patched:
            patched.setattr(opened.journal, "open_at", lambda _: (int(edit["edit_id"]),))
            refused = outcome(opened, "prepare_file_append", **given, content="y\n")
            assert "it stays open" in json.dumps(refused)
        assert outcome(opened, "prepare_file_append", **given, content="y\n")["status"] == "ok"


@pytest.mark.parametrize(("name", "settles"), [("d/other", True), ("apart", False)])
def test_who_writes_a_file_with_two_names_settles_what_is_open_under_the_other(
    root: Path, name: str, settles: bool
) -> None:
    """A file of the transaction that is not there, as the new one here, is no name of it."""
    (root / "apart").write_text(BASE)
    os.link(root / "apart", root / "apart_too")
    with open_workspace(str(root), FAST) as live:
        forked(root, plans(root), after_commits(0))
        report = outcome(live, "prepare_file_append", path=name, content="end\n", apply="auto")
        assert (code(report), report["changed"]) == ("ok", True)
        assert bool(live.journal.in_doubt()) is not settles
    assert tree(root)[name] == f"{BASE}end\n"


@pytest.mark.parametrize("count", [3, 4])
def test_a_file_half_created_can_be_created(root: Path, count: int) -> None:
    """When it is rolled back its name is free, else it is taken."""
    with open_workspace(str(root), FAST) as live:
        forked(root, plans(root), before_closing if count == 4 else after_commits(count))
        report = outcome(live, "create_new_file", path="n/e/w", content="x\n")
        assert code(report) == ("FILE_EXISTS" if count == 4 else "ok")
        assert tree(root)["n/e/w"] == ("new\n" if count == 4 else "x\n")
        assert tree(root)["a"] == (TWO if count == 4 else BASE)


@pytest.mark.slow
def test_a_transaction_settles_the_one_before(root: Path) -> None:
    with open_workspace(str(root), FAST) as live:
        mine = [plan(live, path=name, range="9", content="NINE\n") for name in NAMES]
        forked(root, plans(root), after_commits(2))
        assert code(outcome(live, ALL, hunk_ids=mine)) == "ok"
    assert tree(root) == {name: BASE.replace("line 9\n", "NINE\n") for name in (*NAMES, "d/other")}


@pytest.mark.slow
def test_two_that_come_at_once_settle_it_once(root: Path) -> None:
    """Threads that find it at different files do not wait for each other."""
    for _ in range(10):
        make(root)
        with open_workspace(str(root), FAST) as live:
            forked(root, plans(root), after_commits(3))
            done: list[Facts] = []

            def edit(name: str, live: OpenWorkspace = live, done: list[Facts] = done) -> None:
                arguments = {"path": name, "content": "end\n", "apply": "auto"}
                done.append(outcome(live, "prepare_file_append", **arguments))

            threads = [threading.Thread(target=edit, args=(name,)) for name in NAMES]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [code(each) for each in done] == ["ok"] * 3
        assert tree(root) == dict.fromkeys((*NAMES, "d/other"), f"{BASE}end\n")


# What others did meanwhile


def theirs(**texts: str) -> Callable[[Path], None]:
    """Another program writes some files anew."""

    def write(root: Path) -> None:
        for name, text in texts.items():
            (root / name).write_text(text)

    return write


def link(file: Path) -> None:
    """The file is elsewhere, and a link leads to it."""
    file.rename(file.parent / "moved")
    file.symlink_to("moved")


@pytest.mark.parametrize(
    ("count", "meanwhile", "left", "states"),
    [
        # others wrote elsewhere in a file: it stays as it is, the others go back
        (4, theirs(a=f"top\n{TWO}"), {"a": f"top\n{TWO}", "linked": BASE}, {"failed", "unsure"}),
        (3, theirs(a=f"top\n{TWO}"), {"a": f"top\n{TWO}", "linked": BASE}, {"failed", "unsure"}),
        # before ours came they wrote
        (0, theirs(a=f"top\n{BASE}"), {"a": f"top\n{BASE}", "linked": BASE}, {"failed", "unsure"}),
        # they wrote the very lines that we wrote: nobody can tell, the others go back
        (3, theirs(a="other\n"), {"a": "other\n", "linked": BASE}, {"failed", "unsure"}),
        (4, theirs(a="other\n"), {"a": "other\n", "linked": BASE}, {"failed", "unsure"}),
        # they took the file back themselves
        (4, theirs(a=BASE), {"a": BASE, "linked": BASE}, {"failed"}),
        # they put a link in its place
        (3, lambda root: link(root / "a"), {"a": TWO, "linked": BASE}, {"failed", "unsure"}),
        # they removed it
        (3, lambda root: (root / "a").unlink(), {"linked": BASE}, {"failed", "unsure"}),
    ],
)
def test_what_another_program_wrote_stays(
    root: Path,
    count: int,
    meanwhile: Callable[[Path], None],
    left: dict[str, str],
    states: set[str],
) -> None:
    """`linked` is written first, then `a`, `d/b` and the new file."""
    forked(root, plans(root), after_commits(count) if count < 4 else before_closing)
    meanwhile(root)
    with open_workspace(str(root), FAST) as opened:
        found = tree(root)
        assert {name: found.get(name) for name in ("a", "linked")} == {"a": None, **left}
        assert {entry.state for entry in opened.journal.entries()} == states
        assert not opened.journal.in_doubt()
        assert {settled.state for settled in opened.recovered} == states


@pytest.mark.parametrize("comes", ["a start", "a living process"])
def test_what_stays_in_doubt_is_told_once_and_can_be_undone(
    root: Path, comes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the call that settled it, with what was put back; its plan is not said to be applied."""
    ids = plans(root)
    with ExitStack() as stack:

        def start() -> OpenWorkspace:
            return stack.enter_context(open_workspace(str(root), FAST))

        living = start() if comes == "a living process" else None
        assert forked(root, ids, before_closing)
        theirs(a=f"{TWO}end\n")(root)
        opened = living or start()
        found = outcome(opened, "apply_file_modification", hunk_id=ids[0])
        assert code(found) == "HUNK_NOT_FOUND unsure"
        ended = {row["path"]: row["state"] for row in found["in_doubt"]}
        assert ended == {"a": "unsure", "d/b": "failed", "linked": "failed", "n/e/w": "failed"}
        (doubt,) = {row["edit_id"] for row in found["in_doubt"] if row["state"] == "unsure"}
        assert found["edit_id"] == doubt
        together = outcome(opened, ALL, hunk_ids=ids[:2])
        assert code(together) == "HUNK_NOT_FOUND unsure"
        assert "in_doubt" not in together
        assert told_by_commands(root, capsys) == [doubt]
        undone = outcome(opened, "undo_file_modification", edit_id=doubt)
        assert (code(undone), (root / "a").read_text()) == ("ok", f"{BASE}end\n")
        assert told_by_commands(root, capsys) == []


def told_by_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    """The edits in doubt that `copydesk doctor` names, and `copydesk recover`."""
    (said,) = (one.found for one in examine(str(root)) if one.what == "journal")
    named = [int(edit_id) for edit_id in re.findall(r"(\d+) \(a\)", said)]
    capsys.readouterr()
    assert main(["--root", str(root), "recover"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("ended before it said so") == len(named)
    assert all(f"edit {edit_id} of a " in out for edit_id in named)
    assert main(["--root", str(root), "recover", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out).get("in_doubt", [])
    assert [(row["edit_id"], row["path"], row["state"]) for row in rows] == [
        (edit_id, "a", "unsure") for edit_id in named
    ]
    return named


def test_the_text_found_in_doubt_is_kept(root: Path) -> None:
    """So that it is there after yet another program wrote."""
    assert forked(root, plans(root), before_closing)
    theirs(a="other\n")(root)
    with open_workspace(str(root), FAST) as opened:
        theirs(a="later\n")(root)
        kept = opened.desk._services.bases.find(hashlib.sha256(b"other\n").hexdigest(), None, None)
        assert kept is not None


def test_what_stays_in_doubt_is_logged_if_no_answer_tells_it(
    root: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """`copydesk recover` tells it in its table, and only there."""
    for command in (False, True):
        make(root)
        assert forked(root, plans(root), before_closing)
        theirs(a="other\n")(root)
        caplog.clear()
        if command:
            assert main(["--root", str(root), "recover", "--json"]) == 1
            ended = json.loads(capsys.readouterr().out)
            assert "foreign_writes" not in ended
            assert {row["state"] for row in ended["settled"]} == {"failed", "unsure"}
        else:
            open_workspace(str(root), FAST).close()
        assert any("edit 2 of a " in line for line in caplog.messages) is not command


def test_what_cannot_be_put_back_waits_for_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk is full nothing is written there; when it is not, all goes on."""
    ids = plans(root)
    with open_workspace(str(root), FAST) as live:
        forked(root, ids, after_commits(3))

        def full(*_: object, **__: object) -> None:
            raise Failed("write", "ENOSPC: No space left on device")

        monkeypatch.setattr(live.files, "replace", full)
        arguments = {"path": "d/b", "content": "end\n", "apply": "auto"}
        report = outcome(live, "prepare_file_append", **arguments)
        assert report["auto_apply_reason"] == "FAILED"
        report = outcome(live, "apply_file_modification", hunk_id=report["hunk_id"])
        assert (code(report), "ENOSPC" in report["reason"]) == ("FAILED", True)
        monkeypatch.undo()
        assert code(outcome(live, "apply_file_modification", hunk_id=report["hunk_id"])) == "ok"
        assert tree(root) == {**dict.fromkeys((*NAMES, "d/other"), BASE), "d/b": f"{BASE}end\n"}
        assert code(outcome(live, ALL, hunk_ids=ids)) == "ok"


@pytest.mark.parametrize("others_first", [False, True])
def test_who_failed_is_told_what_is_in_doubt_whoever_settled_it(
    root: Path, others_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its turn was lost, so another process may have settled the transaction before."""
    with open_workspace(str(root), FAST) as opened:
        ids = [plan(opened, path=name, range="2", content="TWO\n") for name in ("a", "d/b")]
        commit, settle = StagedWrite.commit, opened.recovery.settle_in_turn

        def failing(staged: StagedWrite) -> Stamp:
            if str(staged.real) == "a":
                return commit(staged)
            theirs(a="other\n")(root)
            raise Failed("write", "EIO: Input/output error")

        def settling(*arguments: Any) -> tuple[Settled, ...]:
            if others_first:
                settle(*arguments)
            return settle(*arguments)

        monkeypatch.setattr(StagedWrite, "commit", failing)
        monkeypatch.setattr(opened.recovery, "settle_in_turn", settling)
        report = outcome(opened, ALL, hunk_ids=ids)
        assert (code(report), report["paths"]) == ("FAILED", ["a"])
        assert {e.state for e in opened.journal.entries()} == {"unsure", "failed"}


# A write in place that was broken off


def dies_in_a_write(fd: int, data: bytes | memoryview) -> int:
    os.write(fd, bytes(data)[:70])
    kill()
    return 0


def dies_writing(opened: OpenWorkspace) -> None:
    """Die in the middle of the write in place, which is the first commit."""

    def armed() -> None:
        _os.write = dies_in_a_write

    for name in ("stage", "stage_new"):
        setattr(opened.files, name, counting(getattr(opened.files, name)))
    Counted.step = staticmethod(armed)


def test_a_torn_file_is_put_back(root: Path) -> None:
    ids = plans(root)
    forked(root, ids, dies_writing)
    assert tree(root)["linked"] not in (BASE, TWO)
    with open_workspace(str(root), FAST) as opened:
        assert not check_all_or_none(root, opened, ids)
        assert (root / "linked").samefile(root / "d/other")


@pytest.mark.parametrize("name", ["linked", "d/other"])
def test_a_torn_file_of_a_single_edit_is_put_back_by_who_comes(root: Path, name: str) -> None:
    """Under whichever of its names."""
    with open_workspace(str(root), FAST) as live:
        hunk = plan(live, path="linked", range="2", content="TWO\n")
        child = os.fork()
        if child == 0:
            opened = open_workspace(str(root), FAST)
            _os.write = dies_in_a_write
            outcome(opened, "apply_file_modification", hunk_id=hunk)
            os._exit(1)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert tree(root)["linked"] not in (BASE, TWO)
        arguments = {"path": name, "content": "end\n", "apply": "auto"}
        assert code(outcome(live, "prepare_file_append", **arguments)) == "ok"
        assert tree(root)["linked"] == f"{BASE}end\n"
        assert code(outcome(live, "apply_file_modification", hunk_id=hunk)) == "ok"


@pytest.mark.slow
@given(files.flatmap(lambda data: st.tuples(st.just(data), changes(data))), st.data())
def test_what_an_overwriting_can_leave_is_torn(
    case: tuple[bytes, ChangeSet], data: st.DataObject
) -> None:
    """The first bytes new, the others old; then the size of the new one; then some put back."""
    old, change = case
    new = change.apply(old)
    written = data.draw(st.integers(0, len(new)))
    left = new[:written] + old[written:]
    assert is_torn(left, old, change.invert(old))
    whole = new + old[len(new) :]
    restored = data.draw(st.integers(0, len(old)))
    again = old[:restored] + whole[restored:]
    assert is_torn(again, old, change.invert(old))


@pytest.mark.parametrize(
    ("found", "torn"),
    [
        (b"one two three", True),
        (b"one XX three", True),
        (b"one XX threee", True),
        (b"one ZZ three", True),  # what was put in is not known
        (b"one two thre", True),  # the size is the new one, the bytes not yet
        (b"one two thr", False),
        (b"one XX thrEe", False),
        (b"One two three", False),
        (b"", False),
        (b"one two three four", False),
    ],
)
def test_what_is_torn(found: bytes, torn: bool) -> None:
    old, new = b"one two three", b"one XX three"
    inverse = ChangeSet.of(len(new), [Edit(4, 6, b"two")])
    assert inverse.apply(new) == old
    assert is_torn(found, old, inverse) is torn


@pytest.mark.parametrize(
    ("found", "torn"),
    [(b"one two three", True), (b"one threehree", True), (b"one threehxee", False)],
)
def test_what_is_torn_of_a_shorter_text(found: bytes, torn: bool) -> None:
    """What is beyond the new end are old bytes."""
    old, new = b"one two three", b"one three"
    inverse = ChangeSet.of(len(new), [Edit(4, 4, b"two ")])
    assert inverse.apply(new) == old
    assert is_torn(found, old, inverse) is torn


# What is told


@pytest.fixture
def broken(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        monkeypatch.delenv(name)
    forked(root, plans(root), after_commits(2))
    return root


@pytest.mark.slow
def test_the_doctor_tells_and_changes_nothing(broken: Path) -> None:
    before = tree(broken)
    bad = [finding for finding in examine(str(broken)) if not finding.ok]
    assert [finding.what for finding in bad] == ["recovery"]
    assert all(name in bad[0].found for name in NAMES)
    assert "copydesk recover" in bad[0].mend
    assert tree(broken) == before
    assert main(["recover", "--root", str(broken)]) == 0
    assert all(finding.ok for finding in examine(str(broken)))


@pytest.mark.slow
def test_recover_tells_what_it_did(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recover", "--root", str(broken), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["path"]: row["state"] for row in data["settled"]} == dict.fromkeys(
        (*NAMES, "n/e/w"), "failed"
    )
    assert len({row["transaction_id"] for row in data["settled"]}) == 1
    assert main(["recover", "--root", str(broken), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"settled": [], "leftovers_removed": 0}


@pytest.mark.slow
def test_recover_says_where_somebody_has_to_look(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (broken / "a").write_text("other\n")
    assert main(["recover", "--root", str(broken), "--lang", "en"]) == 1
    told = capsys.readouterr().out
    assert "check it yourself" in told
    assert len(told.split("\n")) == 6
    assert tree(broken)["a"] == "other\n"


def test_one_under_way_is_no_fault(root: Path) -> None:
    """The doctor waits for the files of a process that is alive, and then there is nothing."""
    with open_workspace(str(root), FAST) as opened:
        ids = plans(root)
        began, go = threading.Event(), threading.Event()
        close_all = opened.journal.close_all

        def slowly(*arguments: Any) -> None:
            began.set()
            go.wait()
            close_all(*arguments)

        opened.journal.close_all = slowly  # type: ignore[method-assign]
        worker = threading.Thread(target=outcome, args=(opened, ALL), kwargs={"hunk_ids": ids})
        worker.start()
        began.wait()
        found: list[bool] = []
        doctor = threading.Thread(
            target=lambda: found.append(all(f.ok for f in examine(str(root))))
        )
        doctor.start()
        go.set()
        worker.join()
        doctor.join()
    assert found == [True]
