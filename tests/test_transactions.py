"""Several plans at once: all or none, in one file or in several, each to be taken back alone."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Transacted
from copydesk.desk.transaction import ATTEMPTS
from copydesk.errors import ContentChanged, Failed, HunkNotFound
from copydesk.store.files import StagedWrite
from copydesk.store.protocol import Stamp, TargetMoved
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.cost import examples
from support.processes import Facts, code, outcome

BASE = "".join(f"line {i}\n" for i in range(1, 21))
FAST = Config(durability="fast", members={"local": MemberConfig(team_mgmt=True)})
ALL = "apply_file_modifications"
ONE = "apply_file_modification"


class Room:
    """One workspace, its calls in short."""

    def __init__(self, root: Path, *, shared: bool = False, config: Config = FAST) -> None:
        self.root = root
        self.opened: OpenWorkspace = open_workspace(str(root), config, shared=shared)

    def call(self, tool: str, **arguments: object) -> Facts:
        return outcome(self.opened, tool, **arguments)

    def plan(self, tool: str, **arguments: object) -> str:
        """A plan; its id."""
        found = self.call(tool, **arguments)
        assert found["status"] == "ok", found
        return str(found["hunk_id"])

    def line(self, path: str, number: object, content: str) -> str:
        """The plan to put something in the place of some lines."""
        arguments = {"path": path, "range": str(number), "content": content}
        return self.plan("prepare_file_range_edit", **arguments)

    def together(self, *ids: str, **arguments: object) -> Facts:
        return self.call(ALL, hunk_ids=list(ids), **arguments)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(text.encode())

    def read(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def waiting(self) -> set[str]:
        return {plan.id for plan in self.opened.registry.waiting(0)}

    def states(self) -> list[tuple[str, str, str]]:
        """Path, kind and state of each entry, the oldest first."""
        entries = reversed(self.opened.journal.entries())
        return [(str(e.path), e.kind, e.state) for e in entries]


@pytest.fixture(params=[False, True], ids=["memory", "shared"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """A workspace with two files."""
    made = Room(tmp_path, shared=request.param)
    made.write("a", BASE)
    made.write("b", BASE)
    yield made
    made.opened.close()


def rows(report: Facts, *names: str) -> list[tuple[Any, ...]]:
    """Some fields of each plan in a report."""
    return [tuple(row.get(name) for name in names) for row in report["hunks"]]


def check_untouched(room: Room, report: Facts, ids: list[str], failing: str, why: str) -> None:
    """Nothing was written, all plans wait, and the first that cannot be written is named."""
    assert code(report).split(" ")[0] == why, report
    assert report["hunk_id"] == failing
    assert room.waiting() == set(ids)
    assert not [state for state in room.states() if state[2] != "failed"]


def before_stage(room: Room, monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Before a file is staged this is called with its path."""
    stage = room.opened.files.stage

    def staged(path: Any, *arguments: Any, **named: Any) -> Any:
        act(str(path))
        return stage(path, *arguments, **named)

    monkeypatch.setattr(room.opened.files, "stage", staged)


# What is written


def test_all_are_written(room: Room) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("b", "3~4", ""), room.line("a", 9, "x\ny\n")]
    report = room.together(*ids)
    assert (report["status"], report["mode"], report["changed"]) == ("ok", ALL, True)
    assert rows(report, "hunk_id", "path", "action", "context_match") == [
        (ids[0], "a", "replace", "exact"),
        (ids[1], "b", "delete", "exact"),
        (ids[2], "a", "replace", "exact"),
    ]
    assert [row["lines"]["delta"] for row in report["hunks"]] == [0, -2, 1]
    assert room.read("a") == BASE.replace("line 2\n", "TWO\n").replace("line 9\n", "x\ny\n")
    assert room.read("b") == BASE.replace("line 3\nline 4\n", "")
    assert room.waiting() == set()
    entries = room.opened.journal.entries()
    assert {entry.group for entry in entries} == {report["transaction_id"]}
    assert {entry.edit_id for entry in entries} == {row["edit_id"] for row in report["hunks"]}
    assert room.states() == [("a", "edit", "done"), ("a", "edit", "done"), ("b", "edit", "done")]
    for row in report["hunks"]:
        assert row["version"] == room.call("read_file", path=row["path"])["version"]
        assert code(room.call(ONE, hunk_id=row["hunk_id"])) == "HUNK_NOT_FOUND applied"


@pytest.mark.parametrize("brief", [False, True])
def test_the_diff_is_one_for_each_file(room: Room, brief: bool) -> None:
    ids = [room.line("b", 2, "TWO\n"), room.line("a", 2, "TWO\n"), room.line("a", 19, "")]
    arguments = {"hunk_ids": ids, "report": "brief" if brief else "full"}
    report = room.opened.call("local", ALL, arguments)
    assert report.text.count("diff --git") == (0 if brief else 2)
    if not brief:
        room.write("a", BASE)
        room.write("b", BASE)
        applied = room.read("a"), room.read("b")
        git = ["git", "apply", "--unsafe-paths", "-p1", "-"]
        subprocess.run(git, cwd=room.root, input=report.diff.encode(), check=True)
        assert (room.read("a"), room.read("b")) != applied
        assert room.read("a") == BASE.replace("line 2\n", "TWO\n").replace("line 19\n", "")
        assert room.read("b") == BASE.replace("line 2\n", "TWO\n")


def test_files_are_created(room: Room) -> None:
    ids = [
        room.plan("prepare_file_append", path="n/e/w", content="one\n"),
        room.line("a", 1, "ONE\n"),
        room.plan("prepare_file_append", path="n/e/w", content="two"),
    ]
    report = room.together(*ids)
    assert room.read("n/e/w") == "one\ntwo\n"
    assert rows(report, "context_match") == [("exact",)] * 3
    assert "normalized" not in report["hunks"][0]
    assert report["hunks"][2]["normalized"]["normalized_content_eof_newline_added"] is True
    assert [s for s in room.states() if s[0] != "a"] == [
        ("n/e/w", "create", "done"),
        ("n/e/w", "edit", "done"),
    ]


def test_what_changes_nothing_is_told_so(room: Room) -> None:
    same = room.line("a", 2, "line 2\n")
    report = room.together(same, room.line("b", 2, "TWO\n"))
    assert rows(report, "edit_id") == [(0,), (1,)]
    assert room.waiting() == set()
    report = room.together(room.line("a", 2, "line 2\n"), room.line("a", 3, "line 3\n"))
    assert (report["status"], report["changed"], report["transaction_id"]) == ("ok", False, "")
    assert (len(room.states()), room.waiting()) == (1, set())


def test_edits_that_cancel_each_other_out(room: Room) -> None:
    """The second one, planned on the first's result, takes it away again."""
    first = room.line("a", 2, "")
    second = room.plan(
        "prepare_file_insert_after", path="a", anchor="line 1", match="equals", content="line 2\n"
    )
    report = room.together(first, second)
    assert code(report) in ("ok", "CONTENT_CHANGED")
    assert room.read("a") == BASE


def test_two_names_of_one_file(room: Room) -> None:
    os.link(room.root / "a", room.root / "c")
    ids = [room.line("c", 2, "TWO\n"), room.line("a", 3, "THREE\n"), room.line("b", 1, "ONE\n")]
    report = room.together(*ids)
    assert code(report) == "ok"
    assert (room.root / "a").samefile(room.root / "c")
    assert room.read("c") == BASE.replace("line 2\n", "TWO\n").replace("line 3\n", "THREE\n")


@pytest.mark.parametrize("names", [("a", "c"), ("c", "a")])
def test_of_two_names_one_is_deleted_and_one_edited(room: Room, names: tuple[str, str]) -> None:
    edited, deleted = names
    os.link(room.root / "a", room.root / "c")
    ids = [room.line(edited, 2, "TWO\n"), room.plan("prepare_file_delete", path=deleted)]
    report = room.together(*ids)
    assert code(report) == "INVALID_ARGS"
    assert "names of one file" in report["reason"]
    assert room.read("a") == room.read("c") == BASE


def test_a_link_and_its_target(room: Room) -> None:
    (room.root / "l").symlink_to("a")
    report = room.together(room.line("l", 2, "TWO\n"), room.line("a", 3, "THREE\n"))
    assert code(report) == "ok"
    assert (room.root / "l").is_symlink()
    assert room.read("a") == BASE.replace("line 2\n", "TWO\n").replace("line 3\n", "THREE\n")


def unshown(room: Room, path: str, member: str = "local") -> list[tuple[int, int]] | None:
    """Which lines of the file as it is nobody has shown to the member, or heard from it."""
    version = Snapshot.of((room.root / path).read_bytes()).version
    bases, count = room.opened.desk._services.bases, room.read(path).count("\n")
    shown = bases.shown(member, RelPath.parse(path), version)
    return None if shown is None else list(shown.lacks(0, count))


@pytest.mark.parametrize("amended", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_member_knows_the_lines_that_it_wrote_and_not_those_of_a_reviewer(
    room: Room, together: bool, amended: bool
) -> None:
    for path in "ab":
        room.call("read_file", path=path)
        assert unshown(room, path) == []
    ids = [room.line("a", 2, "x\ny\n"), room.line("a", 9, "z\n"), room.line("b", 1, "ONE\n")]
    if amended:
        room.opened.desk.review.amend(room.opened.member("eve"), ids[0], "v\nw\n")
    if together:
        assert code(room.together(*ids)) == "ok"
    else:
        assert {code(room.call(ONE, hunk_id=one)) for one in ids} == {"ok"}
    assert unshown(room, "a") == ([(1, 3)] if amended else [])
    assert unshown(room, "b") == []


def test_of_the_plans_of_two_members_each_knows_the_lines_of_its_own(room: Room) -> None:
    opened, hunks = room.opened, []
    for member, line in (("local", 2), ("eve", 9)):
        opened.call(member, "read_file", {"path": "a"})
        arguments = {"path": "a", "range": str(line), "content": f"{member}\n"}
        hunks.append(opened.call(member, "prepare_file_range_edit", arguments).fields["hunk_id"])
    plans = tuple(opened.registry.plan(str(hunk), 0) for hunk in hunks)
    opened.desk.applying.write_all(plans, lambda plan: opened.member(plan.owner))
    assert room.read("a") == BASE.replace("line 2\n", "local\n").replace("line 9\n", "eve\n")
    assert unshown(room, "a") == [(8, 9)]
    assert unshown(room, "a", "eve") == [(1, 2)]


@pytest.mark.parametrize("edits", [0, 1])
@pytest.mark.parametrize("together", [False, True])
def test_what_is_known_of_a_file_moves_with_it(room: Room, together: bool, edits: int) -> None:
    room.call("read_file", path="a")
    ids = [room.line("a", 2, "x\ny\n") for _ in range(edits)]
    if not together:
        assert [code(room.call(ONE, hunk_id=one)) for one in ids] == ["ok"] * edits
    ids = [*(ids if together else ()), room.plan("prepare_file_move", path="a", to="c")]
    assert code(room.together(*ids) if together else room.call(ONE, hunk_id=ids[0])) == "ok"
    assert unshown(room, "c") == []


def test_a_plan_that_was_written_waits_no_longer(room: Room) -> None:
    """Somebody who wants it to wait has read it before it was written."""
    hunk, other = room.line("a", 2, "TWO\n"), room.line("a", 3, "THREE\n")
    read = [room.opened.registry.plan(one, 0) for one in (hunk, other)]
    assert code(room.call(ONE, hunk_id=hunk)) == "ok"
    applying, until_ms = room.opened.desk.applying, read[1].expires_ms + 1
    with pytest.raises(HunkNotFound):
        applying.wait_until(read[0], until_ms)
    assert room.waiting() == {other}
    assert applying.wait_until(read[1], until_ms).expires_ms == until_ms
    assert applying.wait_until(read[1], read[1].expires_ms, "t").transaction == "t"
    kept = room.opened.registry.plan(other, 0)
    assert (kept.expires_ms, kept.transaction) == (until_ms, "t")
    fields = {"path": "a", "range": "4", "content": "FOUR\n", "existing_hunk_id": other}
    room.plan("prepare_file_range_edit", **fields)
    with pytest.raises(ContentChanged):
        applying.wait_until(kept, until_ms + 1)
    assert room.opened.registry.plan(other, 0).request != kept.request


def test_a_plan_for_what_an_older_one_makes_is_written_with_it(room: Room) -> None:
    first = room.line("a", 2, "TWO\n")
    room.write("a", BASE.replace("line 2\n", "TWO\n"))
    second = room.line("a", 2, "ZWEI\n")
    room.write("a", BASE)
    report = room.together(first, second)
    assert code(report) == "ok"
    assert room.read("a") == BASE.replace("line 2\n", "ZWEI\n")


@pytest.mark.parametrize("beside", [0, sizes.BESIDE])
def test_an_edit_of_two_names(room: Room, beside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BESIDE", beside)
    os.link(room.root / "a", room.root / "c")
    assert code(room.call(ONE, hunk_id=room.line("c", 2, "TWO\n"))) == "ok"
    assert room.read("a") == room.read("c") == BASE.replace("line 2\n", "TWO\n")
    (entry,) = room.opened.journal.entries()
    assert entry.after == sha256((room.root / "a").read_bytes()).hexdigest()


def test_mode_and_line_ends_stay(room: Room) -> None:
    room.write("a", BASE.replace("\n", "\r\n"))
    (room.root / "a").chmod(0o755)
    report = room.together(room.line("a", 2, "x\ny\n"), room.line("a", 8, "z\n"))
    assert code(report) == "ok"
    assert rows(report, "context_match") == [("exact",), ("exact",)], "each in the file as read"
    expected = BASE.replace("line 2\n", "x\ny\n").replace("line 8\n", "z\n")
    assert room.read("a") == expected.replace("\n", "\r\n")
    assert (room.root / "a").stat().st_mode & 0o777 == 0o755


def test_a_large_file(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan for it is made in parts, several on the whole."""
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"), room.line("b", 9, "NINE\n")]
    monkeypatch.setattr(sizes, "LARGE", 0)
    staged: list[str] = []
    before_stage(room, monkeypatch, staged.append)
    report = room.together(*ids)
    assert code(report) == "ok"
    assert staged == ["a", "b"], "each of them once"
    assert room.read("a") == BASE.replace("line 2\n", "TWO\n")
    assert room.read("b") == BASE.replace("line 2\n", "TWO\n").replace("line 9\n", "NINE\n")
    monkeypatch.undo()
    for row, path in zip(report["hunks"], "abb", strict=True):
        assert row["version"] == room.call("read_file", path=path)["version"]
    assert {state[2] for state in room.states()} == {"done"}


@pytest.mark.parametrize("joined", [0, sizes.JOINED])
def test_edits_are_one_change(room: Room, joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "JOINED", joined)
    ids = [room.line("a", number, f"{number}\nmore\n") for number in (2, 9, 15)]
    assert code(room.together(*ids)) == "ok"
    expected = BASE
    for number in (2, 9, 15):
        expected = expected.replace(f"line {number}\n", f"{number}\nmore\n")
    assert room.read("a") == expected


def test_a_file_that_is_written_in_place_comes_first(room: Room) -> None:
    """Only that may still lack room: nothing is to be put back then."""
    os.link(room.root / "b", room.root / "c")
    report = room.together(room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"))
    assert rows(report, "edit_id") == [(2,), (1,)]


def test_each_is_taken_back_alone(room: Room) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("a", 9, "x\ny\n"), room.line("b", 1, "ONE\n")]
    first, second, third = (row["edit_id"] for row in room.together(*ids)["hunks"])
    for edit_id, name, left in (
        (first, "a", BASE.replace("line 9\n", "x\ny\n")),
        (third, "b", BASE),
        (second, "a", BASE),
    ):
        assert code(room.call("undo_file_modification", edit_id=edit_id)) == "ok"
        assert room.read(name) == left


def test_the_mirror_toolset(room: Room) -> None:
    room.write(".minds/m", BASE)
    mine = {"path": "m", "range": "2", "content": "TWO\n"}
    hunk = str(room.call("team_mgmt_prepare_file_range_edit", **mine)["hunk_id"])
    assert code(room.together(hunk, room.line("a", 1, ""))) == "WRONG_MODE"
    report = room.call("team_mgmt_apply_file_modifications", hunk_ids=[hunk])
    assert code(report) == "ok"
    assert room.read(".minds/m") == BASE.replace("line 2\n", "TWO\n")


# Drift


def test_files_that_changed_since(room: Room) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("a", 9, "NINE\n"), room.line("b", 9, "NINE\n")]
    room.write("a", "top\n" + BASE)
    report = room.together(*ids)
    assert rows(report, "context_match") == [("fuzz",), ("fuzz",), ("exact",)]
    expected = BASE.replace("line 2\n", "TWO\n").replace("line 9\n", "NINE\n")
    assert room.read("a") == f"top\n{expected}"


def test_a_file_that_was_to_be_created_and_came_meanwhile(room: Room) -> None:
    new = room.plan("prepare_file_append", path="n", content="mine\n")
    ids = [new, room.line("a", 2, "TWO\n")]
    room.write("n", "theirs\n")
    report = room.together(*ids)
    assert rows(report, "context_match") == [("fuzz",), ("exact",)]
    assert room.read("n") == "theirs\nmine\n"


@pytest.mark.parametrize("case", [
    ("a\n", ("a\n", "b\n"), "\n", (ATTEMPTS, "FAILED")),
    ("", ("", "b\n"), "\n", (ATTEMPTS, "FAILED")),
    ("a", ("a", "b\n"), "\n", (1, "CONTENT_CHANGED")),  # their line goes on with the edit's
    ("h\na", ("h\n", "b\n"), "", (ATTEMPTS, "FAILED")),  # theirs are parts of one line
])  # fmt: skip
@pytest.mark.parametrize("together", [False, True])
def test_an_edit_of_a_file_that_is_always_appended_to_is_refused(
    room: Room,
    case: tuple[str, tuple[str, str], str, tuple[int, str]],
    together: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It begins anew some times; what is appended stays, and the plan can be applied later."""
    text, (old, new), end, tries = case
    commit, written = StagedWrite.commit, list[str]()

    def late(staged: StagedWrite) -> Stamp:
        if str(staged.real) == "f":
            written.append(f"line {len(written)}{end}")
            with (room.root / "f").open("a") as file:
                file.write(written[-1])
        return commit(staged)

    room.write("f", text)
    if old:
        edits = [{"old_string": old, "new_string": new}]
        ids = [room.plan("prepare_batch_edit", path="f", edits=edits)]
    else:
        ids = [room.plan("prepare_file_append", path="f", content=new)]
    monkeypatch.setattr(StagedWrite, "commit", late)
    if together:
        report = room.together(*ids, room.line("a", 2, "TWO\n"))
    else:
        report = room.call("apply_file_modification", hunk_id=ids[0])
    assert report["status"] == "error"
    assert (len(written), report["error"]) == tries
    assert room.read("f") == text + "".join(written)
    assert "TWO" not in room.read("a")


def test_another_program_writes_meanwhile(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading and the writing, a few times: what it wrote stays, and so do the edits."""
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n")]
    left = 3

    def meanwhile(path: str) -> None:
        nonlocal left
        if left and path == "b":
            left -= 1
            room.write("b", f"top {left}\n{BASE}")

    before_stage(room, monkeypatch, meanwhile)
    report = room.together(*ids)
    assert code(report) == "ok"
    assert room.read("a") == BASE.replace("line 2\n", "TWO\n")
    assert room.read("b") == "top 0\n" + BASE.replace("line 2\n", "TWO\n")


def test_what_another_program_put_at_an_end_of_the_file_is_not_put_twice(room: Room) -> None:
    for number, content, now in (
        ("2", "b\nx\n", "a\nb\nx\n"),
        ("2", "b\nx\n", "0\na\nb\nx\n"),
        ("2", "b\nx\n", "a\nb\nx"),
        ("1", "x\na\n", "x\na\nb\n"),
        ("1", "x\ny\na\n", "x\ny\na\nb\n0\n"),
    ):
        (room.root / "e").unlink(missing_ok=True)
        room.write("e", "a\nb\n")
        hunk = room.line("e", number, content)
        room.write("e", now)
        assert code(room.call(ONE, hunk_id=hunk)) == "CONTENT_CHANGED", now
        assert room.read("e") == now


BETWEEN = [
    ("x\n", "y\nx\n", True),
    ("x\n", "y\nx\nz\n", True),
    ("x\ny\n", "z\nx\ny\nz\n", True),
    ("x\ny\n", "x\nz\ny\n", False),
    ("x\n", "y\n  x\n", False),
    ("}\n", "if z {\n}\ny\n", False),  # the brace of something else
    ("line 7\n", "y\n", False),  # it stands there, but below the place
    ("line 5\ny\n", "y\n", False),  # the first of them is the line above
]


@pytest.mark.parametrize(("where", "anchor", "outside"), [
    ("after", "line 5", False),
    ("after", "line 20", True),
    ("before", "line 5", True),
    ("before", "line 1", False),
])  # fmt: skip
def test_lines_are_not_put_twice(room: Room, where: str, anchor: str, outside: bool) -> None:
    tool = f"prepare_file_insert_{where}"
    for number, (content, between, is_there) in enumerate(BETWEEN):
        path = f"f{number}"
        room.write(path, BASE)
        call = {"path": path, "anchor": anchor, "match": "equals"}
        hunk = room.plan(tool, **call, content=content)
        texts = (f"{anchor}\n", between) if where == "after" else (between, f"{anchor}\n")
        now = BASE.replace(f"{anchor}\n", "".join(texts))
        if outside:
            room.write(path, now)
        else:
            room.call(tool, **call, content=between, apply="auto")
        assert room.read(path) == now
        told = code(room.call(ONE, hunk_id=hunk))
        if is_there:
            assert (told, room.read(path)) == ("CONTENT_CHANGED", now), content
        else:
            assert (told, sorted(room.read(path))) == ("ok", sorted(now + content)), content


@pytest.mark.parametrize("outside", [False, True])
def test_where_the_text_planned_on_is_not_kept_only_the_journal_tells_the_way(
    room: Room, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunk, other = room.line("a", 9, "NINE\n"), room.line("a", 2, "")
    expected = BASE.replace("line 2\n", "")
    if outside:
        room.write("a", expected)
    else:
        assert code(room.call("apply_file_modification", hunk_id=other)) == "ok"
    monkeypatch.setattr(room.opened.desk._services.bases, "find", lambda *_: None)
    report = room.call("apply_file_modification", hunk_id=hunk)
    if outside:
        assert code(report) == "CONTENT_CHANGED"
        assert "no longer remembered" in report["reason"]
    else:
        assert code(report) == "ok"
        expected = expected.replace("line 9\n", "NINE\n")
    assert room.read("a") == expected


def test_ctrl_c_leaves_nothing_to_recover(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n")]

    def interrupted(path: str) -> None:
        if path == "b":
            raise KeyboardInterrupt

    before_stage(room, monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        room.together(*ids)
    monkeypatch.undo()
    assert {state[2] for state in room.states()} == {"failed"}
    assert code(room.together(*ids)) == "ok"


@pytest.mark.parametrize("times", [1, 1000])
def test_a_late_foreign_write(room: Room, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one file is written and the next one moves, the first is put back and all begins anew."""
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n")]
    left, stage = times, room.opened.files.stage
    seen: list[str] = []

    class Late:
        """A staged write before whose commit somebody writes."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __enter__(self) -> Late:
            self.ready = self.inner.__enter__()
            return self

        def __exit__(self, *error: Any) -> Any:
            return self.inner.__exit__(*error)

        def commit(self) -> Any:
            nonlocal left
            seen.append(room.read("a"))
            if left:
                left -= 1
                room.write("b", f"top {left}\n{BASE}")
            return self.ready.commit()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ready, name)

    def late(path: Any, *arguments: Any, **named: Any) -> Any:
        staged = stage(path, *arguments, **named)
        return Late(staged) if str(path) == "b" else staged

    monkeypatch.setattr(room.opened.files, "stage", late)
    report = room.together(*ids)
    done = BASE.replace("line 2\n", "TWO\n")
    assert set(seen) == {done}, "the first file was written already"
    if times == 1:
        assert code(report) == "ok"
        assert (room.read("a"), room.read("b")) == (done, f"top 0\n{done}")
        assert [state[2] for state in room.states()] == ["failed"] * 2 + ["done"] * 2
        return
    assert code(report) == "FAILED"
    assert room.read("a") == BASE
    assert room.read("b") == f"top {left}\n{BASE}"
    assert {state[2] for state in room.states()} == {"failed"}
    left = 0
    assert code(room.together(*ids)) == "ok"


def test_what_is_written_is_not_written_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the write could not be recorded: who comes next finds it out, and ends the plan."""
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"), room.line("b", 9, "x\n")]

    def full(*_: object) -> None:
        raise Failed("write", "ENOSPC: No space left on device")

    monkeypatch.setattr(room.opened.journal, "close_all", full)
    assert code(room.call("apply_file_modification", hunk_id=ids[0])) == "ok"
    assert code(room.together(*ids[1:])) == "ok"
    monkeypatch.undo()
    written = room.read("a"), room.read("b")
    assert len(room.opened.journal.in_doubt()) == 3
    assert code(room.together(*ids[:2])) == "HUNK_NOT_FOUND applied"
    for one in ids:
        assert code(room.call("apply_file_modification", hunk_id=one)) == "HUNK_NOT_FOUND applied"
    assert (room.read("a"), room.read("b")) == written
    assert room.waiting() == set()


@pytest.mark.parametrize(("tool", "arguments", "what"), [
    ("create_new_file", {"path": "n", "content": "x\n"}, "directory"),
    ("Edit", {"path": "a", "old_string": "line 2\n", "new_string": ""}, "file"),
    ("prepare_file_move", {"path": "a", "to": "n"}, "directory"),
    ("prepare_file_delete", {"path": "a"}, "file"),
])  # fmt: skip
def test_what_is_changed_again_and_again_is_named(
    room: Room, tool: str, arguments: Facts, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(staged: StagedWrite) -> Stamp:
        raise TargetMoved

    monkeypatch.setattr(StagedWrite, "commit", moved)
    report = room.call(tool, **arguments)
    if "hunk_id" in report:
        report = room.call("apply_file_modification", hunk_id=report["hunk_id"])
    found = report["error"]
    reason = found["message"] if isinstance(found, dict) else report["reason"]
    assert f"the {what} is changed by another program again and again" in reason
    assert set(tree(room)) == {"a", "b"}


# What is refused


A2, B2, B9, LINK = ("a", 2, "TWO\n"), ("b", 2, "TWO\n"), ("b", 9, "NINE\n"), ("l", "", "x\n")
SPOILED: dict[str, tuple[Sequence[tuple[str, object, str]], Callable[[Path], object], int, str]] = {
    "changed": (
        *([A2, B2, B9], lambda root: (root / "b").write_text(BASE.replace("line 2\n", "other\n"))),
        *(1, "CONTENT_CHANGED"),
    ),
    "gone": ([A2, B2], lambda root: (root / "b").unlink(), 1, "FILE_NOT_FOUND"),
    "binary": ([A2, B2], lambda root: (root / "b").write_text("\0" + BASE), 1, "BINARY_FILE"),
    "folder": (
        *([B2, A2], lambda root: ((root / "b").unlink(), (root / "b").mkdir()), 0, "NOT_A_FILE"),
    ),
    "collide": (
        *([A2, ("b", 1, "x\n"), ("a", "2~3", "both\n")], lambda root: None, 2, "CONTENT_CHANGED"),
    ),
    "denied": (
        *([A2, LINK], lambda root: (root / "l").symlink_to(".minds/l"), 1, "ACCESS_DENIED"),
    ),
    "outside": (
        *([A2, LINK], lambda root: (root / "l").symlink_to("/etc/passwd"), 1, "INVALID_PATH"),
    ),
}
"""The plans, what goes wrong then, which of them cannot be written, and its code."""


@pytest.mark.parametrize("name", SPOILED)
def test_one_that_cannot_be_written_keeps_all(room: Room, name: str) -> None:
    edits, spoil, at, why = SPOILED[name]
    ids = [
        room.line(path, number, new)
        if number
        else room.plan("prepare_file_append", path=path, content=new)
        for path, number, new in edits
    ]
    (room.root / ".minds").mkdir()
    spoil(room.root)
    before = room.read("a")
    report = room.together(*ids)
    check_untouched(room, report, ids, ids[at], why)
    assert room.read("a") == before
    told = [(row["hunk_id"], row["status"], row.get("error")) for row in report["hunks"]]
    others = [(one, "ok", None) for one in ids]  # the others could have been
    assert told == [*others[:at], (ids[at], "error", why), *others[at + 1 :]]


def test_each_that_cannot_be_written_is_told_with_its_facts(room: Room) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"), room.line("b", 9, "NINE\n")]
    room.write("a", BASE.replace("line 2\n", "x\n"))
    room.write("b", BASE.replace("line 9\n", "x\n"))
    ids.append(room.line("b", 12, "TWELVE\n"))  # behind one that cannot be written
    report = room.together(*ids)
    assert (report["hunk_id"], report["planned_lines"]) == (ids[0], "2~2")
    assert rows(report, "error", "planned_lines", "context_match") == [
        ("CONTENT_CHANGED", None, "rejected"),
        (None, None, "exact"),
        ("CONTENT_CHANGED", "9~9", "rejected"),
        (None, None, "exact"),
    ]
    assert "2 of 4" in str(report["summary"])


NO_IDS: list[tuple[Any, str]] = [
    ([], "INVALID_ARGS"),
    (["{a}", "{a}"], "INVALID_ARGS"),
    (["{a}", "x"], "INVALID_HUNK_ID"),
    (["{a}", "{a} "], "INVALID_HUNK_ID"),
    (["{a}", "deadbeef"], "HUNK_NOT_FOUND unknown"),
    (["{a}", 7], "INVALID_HUNK_ID"),  # a number is taken for its digits
    (["{a}", True], "INVALID_ARGS"),
    ("{a}", "INVALID_ARGS"),
    (None, "INVALID_ARGS"),
    (["{a}", "{theirs}"], "WRONG_OWNER"),
    (["{a}", "{gone}"], "HUNK_NOT_FOUND discarded"),
]


def test_ids_that_are_none(room: Room) -> None:
    theirs = room.opened.call("ann", "prepare_file_append", {"path": "a", "content": "x\n"})
    known = {"a": room.line("a", 2, "TWO\n"), "gone": room.line("a", 3, "x\n")}
    known["theirs"] = str(theirs.fields["hunk_id"])
    room.call("discard_hunk", hunk_id=known["gone"])
    for row in NO_IDS:
        ids, error = row
        if isinstance(ids, list):
            ids = [one.format(**known) if isinstance(one, str) else one for one in ids]
        elif isinstance(ids, str):
            ids = ids.format(**known)
        report = room.call(ALL, **({} if ids is None else {"hunk_ids": ids}))
        assert code(report) == error, row
        assert room.read("a") == BASE
        assert known["a"] in room.waiting()


def test_a_plan_made_anew_is_not_written(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seam is the store's own method, called between looking up the plans and their turn."""
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n")]
    resolve = room.opened.files.resolve

    def meanwhile(path: Any, *via: Any) -> Any:
        monkeypatch.undo()
        anew = {"path": "b", "range": "3", "content": "x\n", "existing_hunk_id": ids[1]}
        assert room.plan("prepare_file_range_edit", **anew) == ids[1]
        return resolve(path, *via)

    monkeypatch.setattr(room.opened.files, "resolve", meanwhile)
    check_untouched(room, room.together(*ids), ids, ids[1], "CONTENT_CHANGED")


def test_a_plan_made_anew_has_a_later_time_though_the_clock_stands(tmp_path: Path) -> None:
    """By it the two are told apart, in the transaction that records the intent as well."""
    (tmp_path / "a").write_text(BASE)
    with open_workspace(str(tmp_path), FAST, clock=lambda: 1_700_000_000_000) as opened:
        mine = {"path": "a", "range": "2", "content": "TWO\n"}
        hunk_id = outcome(opened, "prepare_file_range_edit", **mine)["hunk_id"]
        first = opened.registry.plan(hunk_id, 0)
        outcome(opened, "prepare_file_range_edit", **mine, existing_hunk_id=hunk_id)
        assert opened.registry.plan(hunk_id, 0).created_ms > first.created_ms


def test_too_many_open_files_is_a_refusal(room: Room) -> None:
    import resource

    names = [f"f{i}" for i in range(40)]
    for name in names:
        room.write(name, BASE)
    ids = [room.line(name, 2, "TWO\n") for name in names]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 20, limits[1]))
    try:
        report = room.together(*ids)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert code(report) == "FAILED"
    assert "oo many open files" in report["reason"]
    assert all(room.read(name) == BASE for name in names)
    assert code(room.together(*ids)) == "ok"


# Order


AFTER = {"anchor": "line 10", "content": "after\n"}
BEFORE = {"anchor": "line 13", "content": "before\n"}
BLOCK = {"start_anchor": "line 15", "end_anchor": "line 17", "content": "block\nof two\n"}
BATCH = [
    {"old_string": "line 2\n", "new_string": "two\n"},
    {"old_string": "line 19\n", "new_string": "nine\nteen\n"},
]
KINDS: dict[str, Callable[[Room, str], str]] = {
    "range": lambda room, name: room.line(name, "5~6", "five\nand six\nand more\n"),
    "delete": lambda room, name: room.line(name, "8", ""),
    "append": lambda room, name: room.plan("prepare_file_append", path=name, content="end\n"),
    "after": lambda room, name: room.plan("prepare_file_insert_after", path=name, **AFTER),
    "before": lambda room, name: room.plan("prepare_file_insert_before", path=name, **BEFORE),
    "block": lambda room, name: room.plan("prepare_file_block_replace", path=name, **BLOCK),
    "batch": lambda room, name: room.plan("prepare_batch_edit", path=name, edits=BATCH),
}


@pytest.fixture(scope="module")
def one_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    made = Room(tmp_path_factory.mktemp("room"))
    yield made
    made.opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("one", KINDS)
def test_two_plans_on_one_base_give_the_same_in_either_order(one_room: Room, one: str) -> None:
    """Applied one by one in either order, or together however they are named."""
    for other in list(KINDS)[: list(KINDS).index(one)]:
        made: set[str] = set()
        for kinds, way in itertools.product(
            ((one, other), (other, one)), ("alone", "reversed", "together")
        ):
            one_room.write("a", BASE)
            ids = [KINDS[kind](one_room, "a") for kind in kinds]
            if way == "alone":
                assert [code(one_room.call(ONE, hunk_id=id_)) for id_ in ids] == ["ok", "ok"]
            else:
                assert code(one_room.together(*(ids[::-1] if way == "reversed" else ids))) == "ok"
            made.add(one_room.read("a"))
        assert len(made) == 1, other


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.permutations(list(KINDS)), st.data())
def test_all_plans_in_any_order(one_room: Room, order: list[str], data: st.DataObject) -> None:
    """Some together and some alone, in any order: it is as all of them at once."""
    one_room.write("all", BASE)
    assert code(one_room.together(*(make(one_room, "all") for make in KINDS.values()))) == "ok"
    one_room.write("a", BASE)
    ids = [KINDS[kind](one_room, "a") for kind in order]
    while ids:
        count = data.draw(st.integers(1, len(ids)))
        assert code(one_room.together(*ids[:count])) == "ok"
        ids = ids[count:]
    assert one_room.read("a") == one_room.read("all")


def test_the_outcome_is_typed(room: Room) -> None:
    ids = [room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n")]
    done = room.opened.desk.apply_all(room.opened.member("local"), ALL, ids)
    assert isinstance(done, Transacted)
    assert [one.plan.id for one in done.applied] == ids
    assert set(done.versions) == set(ids)


# What is taken back together

UNDO = "undo_file_modification"


def tree(room: Room) -> dict[str, tuple[bytes, int]]:
    found = (path for path in room.root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(room.root)): (path.read_bytes(), path.stat().st_mode)
        for path in found
        if ".copydesk" not in path.parts
    }


def lay(room: Room) -> None:
    for name in ("moved", "gone", "run"):
        room.write(name, BASE)
    (room.root / "gone").chmod(0o640)


def everything(room: Room) -> list[int]:
    """One transaction of every kind of edit; the ids of its edits."""
    lay(room)
    mode = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    ids = [
        room.line("a", 2, "TWO\n"),
        room.line("a", 9, "x\ny\n"),
        room.line("b", "3~4", ""),
        room.line("moved", 1, "ONE\n"),
        room.plan("prepare_file_move", path="moved", to="d/e/moved"),
        room.plan("prepare_file_delete", path="gone"),
        room.plan("prepare_file_append", path="n/new", content="1\n"),
        room.plan("prepare_file_append", path="n/new", content="2\n"),
        room.call("apply_diff", diff=mode)["hunks"][0]["hunk_id"],
    ]
    return [row["edit_id"] for row in room.together(*ids)["hunks"]]


def test_a_transaction_is_taken_back_whole_and_made_again(room: Room) -> None:
    lay(room)
    before = tree(room)
    edits = everything(room)
    after = tree(room)
    assert set(after) == {"a", "b", "d/e/moved", "n/new", "run"}
    back = room.call(UNDO, edit_id=edits[3], transaction=True)
    assert back["status"] == "ok", back
    assert tree(room) == before
    assert not (room.root / "d").exists()
    assert {row["undone_edit_id"] for row in back["edits"]} | {edits[7]} == set(edits)
    assert not room.opened.journal.in_doubt()
    again = room.call(UNDO, edit_id=back["edits"][0]["edit_id"], transaction=True)
    assert again["status"] == "ok", again
    assert tree(room) == after


def test_edits_since_stay_and_edits_that_were_undone_are_left_alone(room: Room) -> None:
    edits = everything(room)
    room.call(UNDO, edit_id=edits[2])
    room.together(room.line("a", 5, "FIVE\n"), room.line("b", 8, "EIGHT\n"))
    back = room.call(UNDO, edit_id=edits[0], transaction=True)
    assert back["status"] == "ok", back
    assert edits[2] not in {row["undone_edit_id"] for row in back["edits"]}
    assert room.read("a") == BASE.replace("line 5\n", "FIVE\n")
    assert room.read("b") == BASE.replace("line 8\n", "EIGHT\n")
    assert room.read("moved") == BASE
    twice = room.call(UNDO, edit_id=edits[0], transaction=True)
    assert (twice["error"], twice["undone_by"]) == ("CONTENT_CHANGED", back["edits"][-1]["edit_id"])


SPOILS: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: (root / "b").write_text("other\n"),
    "removed": lambda root: (root / "d/e/moved").unlink(),
    "there again": lambda root: (root / "gone").write_text("new\n"),
    "in the way": lambda root: (root / "moved").write_text("new\n"),
    "changed": lambda root: (root / "n/new").write_text("1\n"),
    "another mode": lambda root: (root / "run").chmod(0o600),
}


@pytest.mark.parametrize("how", SPOILS)
def test_nothing_is_taken_back_where_one_file_refuses(room: Room, how: str) -> None:
    edits = everything(room)
    SPOILS[how](room.root)
    before, entries = tree(room), room.opened.journal.entries()
    refused = room.call(UNDO, edit_id=edits[0], transaction=True)
    assert refused["status"] == "error", refused
    assert tree(room) == before
    assert room.opened.journal.entries() == entries


def test_a_transaction_of_one_edit_is_that_edit(room: Room) -> None:
    done = room.call("apply_file_modification", hunk_id=room.line("a", 2, "TWO\n"))
    back = room.call(UNDO, edit_id=done["edit_id"], transaction=True)
    assert [row["undone_edit_id"] for row in back["edits"]] == [done["edit_id"]]
    assert room.read("a") == BASE
    assert room.call(UNDO, edit_id=99, transaction=True)["error"] == "EDIT_NOT_FOUND"


def moved(room: Room) -> dict[str, list[int]]:
    """Two moves in one transaction; the ids of both entries of each, by the old name."""
    ids = [
        room.plan("prepare_file_move", path=name, to=to)
        for name, to in (("a", "x/a"), ("b", "y/b"))
    ]
    assert code(room.together(*ids)) == "ok"
    entries = room.opened.journal.entries()
    return {
        name: sorted(entry.edit_id for entry in entries if entry.hunk_id == hunk)
        for name, hunk in zip("ab", ids, strict=True)
    }


@pytest.mark.parametrize(("name", "end"), [*itertools.product("ab", (0, 1))])
def test_a_move_is_taken_back_by_the_id_of_either_end(room: Room, name: str, end: int) -> None:
    room.write("b", "other\n")
    before, edits = tree(room), moved(room)
    back = room.call(UNDO, edit_id=edits[name][end])
    assert back["status"] == "ok", back
    other = "y/b" if name == "a" else "x/a"
    assert set(tree(room)) == {name, other}
    assert tree(room)[name] == before[name]
    for edit_id in edits[name]:
        assert room.call(UNDO, edit_id=edit_id)["error"] == "CONTENT_CHANGED"
    assert room.call(UNDO, edit_id=edits[other[-1]][1 - end])["status"] == "ok"
    assert tree(room) == before


def test_large_files_are_taken_back(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "LARGE", 0)
    edits = everything(room)
    back = room.call(UNDO, edit_id=edits[0], transaction=True)
    assert back["status"] == "ok", back
    assert {room.read(name) for name in ("a", "b", "moved", "gone", "run")} == {BASE}


def test_who_may_not_write_one_of_the_files_takes_nothing_back(tmp_path: Path) -> None:
    members = {"local": MemberConfig(), "ann": MemberConfig({"no_write_dirs": ("private",)})}
    room = Room(tmp_path, config=Config(durability="fast", members=members))
    for name in ("a", "private/b"):
        room.write(name, BASE)
    ids = [room.line("a", 2, "TWO\n"), room.line("private/b", 2, "TWO\n")]
    edits = [row["edit_id"] for row in room.together(*ids)["hunks"]]
    before = tree(room)
    for edit_id in edits:
        asked = {"edit_id": edit_id, "transaction": True}
        refused = room.opened.call("ann", UNDO, asked).fields
        assert refused["error"] == "ACCESS_DENIED", refused
    assert tree(room) == before
    room.opened.close()


def test_a_file_with_two_names_is_written_and_taken_back_in_the_turn_of_both(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(room.root / "a", room.root / "c")
    turns, taken = room.opened.desk._services.locks, list[int]()
    of_inode = turns.of_inode

    def noted(inode: tuple[int, int], *arguments: Any) -> Any:
        taken.append(inode[1])
        return of_inode(inode, *arguments)

    monkeypatch.setattr(turns, "of_inode", noted)
    report = room.together(room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"))
    assert taken == [(room.root / "a").stat().st_ino]
    back = room.call(UNDO, edit_id=report["hunks"][0]["edit_id"], transaction=True)
    assert back["status"] == "ok"
    assert taken == [(room.root / "a").stat().st_ino] * 2
    assert room.read("a") == room.read("c") == BASE


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_what_is_known_stays_when_an_edit_is_taken_back(
    room: Room, together: bool, moved: bool
) -> None:
    room.call("read_file", path="a")
    own = room.plan("prepare_file_move", path="a", to="c") if moved else room.line("a", 2, "TWO\n")
    made = room.together(own, room.line("b", 2, "TWO\n"))
    first = next(row["edit_id"] for row in made["hunks"] if row["hunk_id"] == own)
    now = "c" if moved else "a"
    assert code(room.call(ONE, hunk_id=room.line(now, 9, "NINE\n"))) == "ok"
    back = room.call(UNDO, edit_id=first, transaction=together)
    assert back["status"] == "ok"
    assert room.read("a") == BASE.replace("line 9\n", "NINE\n")
    assert unshown(room, "a") == ([] if moved else [(1, 2)]), "a diff that was cut may lack them"


def test_an_edit_without_an_end_is_taken_back(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.opened.journal, "close_all", lambda *_: None)
    done = room.call(ONE, hunk_id=room.line("a", 2, "TWO\n"))
    monkeypatch.undo()
    assert [state[2] for state in room.states()] == ["open"]
    assert room.call(UNDO, edit_id=done["edit_id"])["status"] == "ok"
    assert room.read("a") == BASE


def test_an_edit_that_another_takes_back_at_that_moment_is_not_taken_back_twice(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = room.together(room.line("a", 2, "TWO\n"), room.line("b", 2, "TWO\n"))
    first, second = (row["edit_id"] for row in report["hunks"])
    turns, of_all = room.opened.desk._services.locks, room.opened.desk._services.locks.of_all

    def another_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert room.call(UNDO, edit_id=second)["status"] == "ok"
        return of_all(*arguments)

    monkeypatch.setattr(turns, "of_all", another_first)
    refused = room.call(UNDO, edit_id=first, transaction=True)
    assert code(refused) == "CONTENT_CHANGED"
    assert refused["undone_by"] == second + 1
    assert (room.read("a"), room.read("b")) == (BASE.replace("line 2\n", "TWO\n"), BASE)


def test_an_edit_is_taken_back_of_a_file_that_was_deleted_and_is_there_again(room: Room) -> None:
    first = room.call("apply_file_modification", hunk_id=room.line("a", 2, "TWO\n"))
    gone = room.plan("prepare_file_delete", path="a")
    deleted = room.call("apply_file_modification", hunk_id=gone)
    assert room.call(UNDO, edit_id=first["edit_id"])["status"] == "error"
    assert not (room.root / "a").exists()
    assert room.call(UNDO, edit_id=deleted["edit_id"])["status"] == "ok"
    room.call("apply_file_modification", hunk_id=room.line("a", 9, "NINE\n"))
    assert room.call(UNDO, edit_id=first["edit_id"])["status"] == "ok"
    assert room.read("a") == BASE.replace("line 9\n", "NINE\n")


def test_a_mode_alone_is_changed_and_taken_back(room: Room) -> None:
    (room.root / "a").chmod(0o644)
    diff = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
    hunk = room.call("apply_diff", diff=diff)["hunks"][0]["hunk_id"]
    done = room.call("apply_file_modification", hunk_id=hunk)
    assert (code(done), done["changed"]) == ("ok", True)
    assert (room.root / "a").stat().st_mode & 0o777 == 0o755
    assert room.call(UNDO, edit_id=done["edit_id"])["status"] == "ok"
    assert (room.root / "a").stat().st_mode & 0o777 == 0o644
