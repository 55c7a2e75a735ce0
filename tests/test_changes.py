"""The change view: what members did to files in net, kept and undone by the hunk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import copydesk.desk.changes as changes_module
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import DAY_MS, HOUR_MS, Decision
from copydesk.desk.changes import ChangedHunk, Changes, FileChanges, Selection
from copydesk.desk.member import SELF
from copydesk.desk.outcome import Applied, NotUndone, Transacted, Undone
from copydesk.edit.kinds.files import DeleteFile, MoveFile
from copydesk.edit.kinds.lines import RangeEdit
from copydesk.edit.kinds.patch import PatchEdit, PatchHunk
from copydesk.edit.request import Request
from copydesk.errors import AccessDenied, ContentChanged, InvalidArgs
from copydesk.store.checks import Commands, Diagnostic, Rule
from copydesk.store.protocol import now_ms
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from support.desks import Setup, call

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
OTHERS = {
    "other": MemberConfig(),
    "careful": MemberConfig(approval="human"),
    "blind": MemberConfig(lists={"no_read_dirs": ("a.txt",)}),
}
DESK = Setup(
    Config(durability="fast", members=OTHERS),
    {"a.txt": TEXT, "b.txt": TEXT, "sub/c.txt": "one\n"},
    stores=("shared", "redis"),
)
ALL = Selection()


def view_of(desk: OpenWorkspace) -> Changes:
    return desk.desk.changes


def write(desk: OpenWorkspace, request: Request, by: str = "local", task: str = "") -> int:
    member = desk.member(by).because("", task)
    plan = desk.desk.prepare(member, request.tool, request).plan
    outcome = desk.desk.apply(member, "apply_file_modification", plan.id)
    assert isinstance(outcome, Applied)
    return outcome.edit_id


def edit(desk: OpenWorkspace, lines: str, text: str, by: str = "local", path: str = "a.txt") -> int:
    return write(desk, RangeEdit(RelPath.parse(path), lines, text), by)


def hunks(desk: OpenWorkspace, what: Selection = ALL) -> list[ChangedHunk]:
    files = view_of(desk).view(desk.person("local"), what)
    return [hunk for file in files for hunk in file.hunks]


def ids(desk: OpenWorkspace) -> list[str]:
    return [hunk.id for hunk in hunks(desk)]


def texts(found: list[ChangedHunk]) -> list[tuple[str, str]]:
    return [(b"".join(one.old).decode(), b"".join(one.new).decode()) for one in found]


def only(desk: OpenWorkspace, what: Selection = ALL) -> FileChanges:
    (file,) = view_of(desk).view(desk.person("local"), what)
    return file


def save(desk: OpenWorkspace, old: str, new: str, path: str = "a.txt") -> None:
    """Another program writes."""
    file = Path(desk.root, path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_several_edits_of_one_place_are_one_hunk(desk: OpenWorkspace) -> None:
    first = edit(desk, "3", "drei\n")
    edit(desk, "10~12", "zehn\n")
    again = edit(desk, "3", "DREI\n")
    assert texts(hunks(desk)) == [("line 3\n", "DREI\n"), ("line 10\nline 11\nline 12\n", "zehn\n")]
    assert [one.edit_id for one in hunks(desk)[0].edits] == [first, again]


def test_an_edit_and_its_undo_are_none(desk: OpenWorkspace) -> None:
    made = edit(desk, "3", "drei\n")
    assert call(desk, "undo_file_modification", edit_id=made)["status"] == "ok"
    assert hunks(desk) == []
    assert view_of(desk).tasks(desk.person("local")) == ()


@pytest.mark.parametrize("how", ["by id", "as a task"])
def test_an_edit_and_its_undo_are_none_in_the_task_that_undid_it(
    desk: OpenWorkspace, how: str
) -> None:
    paths = {name: RelPath.parse(name) for name in ("a.txt", "b.txt", "sub/c.txt", "d.txt")}
    a = {"task": "A"}
    create = PatchEdit(RelPath.parse("n1/new.txt"), (PatchHunk("", "new\n"),), creates=True)
    made = [
        write(desk, RangeEdit(paths["a.txt"], "2", "22\n"), **a),
        write(desk, create, **a),
        write(desk, DeleteFile(paths["b.txt"]), **a),
        write(desk, MoveFile(paths["sub/c.txt"], paths["d.txt"]), **a),
        write(desk, RangeEdit(paths["d.txt"], "1", "eins\n"), **a),
    ]
    save(desk, "line 20\n", "mine\nmine too\n")
    write(desk, RangeEdit(paths["a.txt"], "4", "44\n"), task="C")
    agent = desk.member("local").because("", "B")
    if how == "by id":
        undone = [desk.desk.undo(agent, "undo_file_modification", one) for one in made[::-1]]
        assert not any(isinstance(one, NotUndone) for one in undone)
    else:
        assert view_of(desk).undo(agent, Selection(task="A")).refused == ()
    write(desk, RangeEdit(paths["a.txt"], "1", "11\n"), task="B")
    person = desk.person("local")
    assert {one.key for one in view_of(desk).tasks(person)} == {"B", "C"}
    assert hunks(desk, Selection(task="A")) == []
    assert texts(hunks(desk, Selection(task="B"))) == [("line 1\n", "11\n")]
    assert view_of(desk).undo(person, Selection(task="B")).refused == ()
    assert texts(hunks(desk)) == [("line 4\n", "44\n")]
    assert not Path(desk.root, "n1").exists()
    assert Path(desk.root, "b.txt").read_text() == TEXT
    assert Path(desk.root, "sub/c.txt").read_text() == "one\n"


def test_what_was_kept_and_undone_is_a_change_of_who_undid_it(desk: OpenWorkspace) -> None:
    made = write(desk, RangeEdit(RelPath.parse("a.txt"), "2", "22\n"), task="A")
    view_of(desk).keep(desk.person("local"), ALL)
    desk.desk.undo(desk.member("local").because("", "B"), "undo_file_modification", made)
    assert texts(hunks(desk, Selection(task="B"))) == [("22\n", "line 2\n")]
    assert texts(hunks(desk, Selection(after=made))) == [("22\n", "line 2\n")]


@pytest.mark.parametrize("by", ["agent", "person"])
@pytest.mark.parametrize("kind", ["edit", "create", "remove", "move"])
def test_what_was_undone_and_made_again_is_of_who_made_it(
    desk: OpenWorkspace, kind: str, by: str
) -> None:
    path = RelPath.parse("b.txt")
    request = {
        "edit": RangeEdit(path, "2", "22\n"),
        "create": PatchEdit(RelPath.parse("n.txt"), (PatchHunk("", "new\n"),), creates=True),
        "remove": DeleteFile(path),
        "move": MoveFile(path, RelPath.parse("d.txt")),
    }[kind]
    last = write(desk, request, task="A")
    shown, person = hunks(desk), desk.person("local")
    if by == "person":
        last = view_of(desk).undo(person, Selection(task="A")).written[0].edit_id
        assert hunks(desk) == []
    for number in range(by == "person", 4):
        agent = desk.member("local").because("", f"B{number}")
        who = person if by == "person" else agent
        undone = desk.desk.undo(who, "undo_file_modification", last)
        assert isinstance(undone, Undone)
        last = undone.edit_id
        expected = shown if number % 2 else []
        assert hunks(desk) == hunks(desk, Selection(task="A")) == expected
        assert hunks(desk, Selection(task=f"B{number}")) == []


@pytest.mark.parametrize("apart", ["members", "tasks"])
@pytest.mark.parametrize("depth", [2, 3])
def test_moves_of_one_file_are_none_once_all_are_undone(
    desk: OpenWorkspace, apart: str, depth: int
) -> None:
    names = ["b.txt", "k2.txt", "sub/k3.txt", "k4.txt"]
    paths = [RelPath.parse(name) for name in names[: depth + 1]]
    whose = [
        {"by": ("rev", "local")[n % 2]} if apart == "members" else {"task": f"T{n}"}
        for n in range(4)
    ]
    wanted = [
        Selection(member=each["by"]) if "by" in each else Selection(task=each["task"])
        for each in whose
    ]
    moves = [
        write(desk, MoveFile(old, new), **whose[n]) for n, (old, new) in enumerate(pairwise(paths))
    ]
    agent = desk.member("local").because("", "T1" if apart == "tasks" else "")
    undos: list[int] = []
    for left, move in reversed([*enumerate(moves)]):
        undone = desk.desk.undo(agent, "undo_file_modification", move)
        assert isinstance(undone, Undone)
        undos.append(undone.edit_id)
        open_moves = [one for hunk in hunks(desk) for one in hunk.edits]
        assert [one.edit_id for one in open_moves] == moves[:left]
    assert [hunks(desk, each) for each in (ALL, *wanted)] == [[]] * 5
    assert desk.desk.changes.tasks(desk.person("local")) == ()
    for count, undo in enumerate(reversed(undos), 1):
        assert isinstance(desk.desk.undo(agent, "undo_file_modification", undo), Undone)
        assert [one.edit_id for hunk in hunks(desk) for one in hunk.edits] == moves[:count]


@pytest.mark.parametrize("seed", range(5))
def test_any_edits_that_another_task_undid_are_none(desk: OpenWorkspace, seed: int) -> None:
    draw, made = Random(seed), dict[int, str]()
    path = Path(desk.root, "a.txt")
    for step in range(40):
        lines = path.read_text().splitlines(keepends=True)
        at, how = draw.randint(1, max(1, len(lines) - 3)), draw.random()
        if how < 0.2:
            lines[at - 1 : at] = [f"person {step}\n"] * draw.choice((0, 1, 2))
            path.write_text("".join(lines))
        elif how < 0.5 and made:
            undone = draw.choice([*made])
            agent = desk.member("local").because("", "undoing")
            outcome = desk.desk.undo(agent, "undo_file_modification", undone)
            if isinstance(outcome, Undone):
                del made[undone]
        else:
            task = draw.choice("AB")
            new = "".join(f"agent {step} {n}\n" for n in range(draw.choice((0, 1, 3))))
            request = RangeEdit(RelPath.parse("a.txt"), f"{at}~{at + draw.choice((0, 1))}", new)
            made[write(desk, request, task=task)] = task
    assert hunks(desk, Selection(task="undoing")) == []
    file = only(desk)
    assert file.change.apply(file.base.data) == file.now.data
    assert b"agent" not in file.base.data


def test_what_others_write_is_context(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    save(desk, "line 20\n", "mine\nmine too\n")
    edit(desk, "10", "zehn\n")
    save(desk, "line 1\n", "")
    assert texts(hunks(desk)) == [("line 3\n", "drei\n"), ("line 10\n", "zehn\n")]
    file = only(desk)
    assert file.change.apply(file.base.data) == file.now.data
    assert b"mine too\n" in file.base.data
    assert b"line 1\n" not in file.base.data


def test_git_applies_its_diff(desk: OpenWorkspace, tmp_path: Path) -> None:
    edit(desk, "3", "drei\n")
    write(desk, DeleteFile(RelPath.parse("sub/c.txt")))
    write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("d.txt")))
    edit(desk, "30", "the end", path="d.txt")
    call(desk, "create_new_file", path="new.txt", content="new\n")
    files = view_of(desk).view(desk.person("local"))
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (copy / name).write_text(TEXT)
    (copy / "sub/c.txt").write_text("one\n")
    diff = b"".join(file.diff for file in files)
    subprocess.run(["git", "apply"], cwd=copy, input=diff, check=True)
    for name in ("a.txt", "d.txt", "new.txt"):
        assert (copy / name).read_bytes() == Path(desk.root, name).read_bytes()
    assert not (copy / "b.txt").exists()
    assert not (copy / "sub/c.txt").exists()


def test_what_is_kept_is_open_no_more(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    edit(desk, "10", "zehn\n")
    first, second = hunks(desk)
    before = Path(desk.root, "a.txt").read_bytes()
    assert view_of(desk).keep(desk.person("local"), ALL, [first.id]) == 1
    assert Path(desk.root, "a.txt").read_bytes() == before
    assert ids(desk) == [second.id]
    edit(desk, "3", "trois\n")
    assert texts(hunks(desk)) == [("drei\n", "trois\n"), ("line 10\n", "zehn\n")]
    save(desk, "line 20\n", "")
    assert texts(hunks(desk)) == [("drei\n", "trois\n"), ("line 10\n", "zehn\n")]
    assert view_of(desk).keep(desk.person("local"), ALL) == 2
    assert hunks(desk) == []


def test_of_equal_hunks_the_right_one_is_kept(desk: OpenWorkspace) -> None:
    save(desk, TEXT, "a\nx\nb\nx\nc\nx\nd\n")
    made = call(desk, "replace_text", path="a.txt", old="x", new="y", all=True, apply="auto")
    assert made["status"] == "ok"
    found = hunks(desk)
    assert [one.new_line for one in found] == [1, 3, 5]
    assert len({one.id for one in found}) == 3
    view_of(desk).keep(desk.person("local"), ALL, [found[1].id])
    save(desk, "a\n", "a\nnew\nnew\n")
    assert [one.new_line for one in hunks(desk)] == [3, 7]


def test_what_is_undone_is_one_transaction_and_told(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    edit(desk, "10", "zehn\n", by="other")
    edit(desk, "5", "five\n", path="b.txt")
    save(desk, "line 20\n", "mine\n")
    first, second, third = hunks(desk)
    outcome = view_of(desk).undo(desk.person("local"), ALL, [first.id, third.id], reason="not here")
    assert outcome.refused == ()
    groups = {desk.journal.get(one.edit_id).group for one in outcome.written}  # type: ignore[union-attr]
    assert len(groups) == 1
    assert groups != {""}
    assert Path(desk.root, "a.txt").read_text() == TEXT.replace("line 10\n", "zehn\n").replace(
        "line 20\n", "mine\n"
    )
    assert Path(desk.root, "b.txt").read_text() == TEXT
    assert ids(desk) == [second.id]
    told = desk.call("local", "list_edits", {}).text
    assert "user of local undid your change of a.txt:3, b.txt:5: not here" in told
    assert "undid" not in desk.call("local", "list_edits", {}).text
    assert "undid" not in desk.call("other", "list_edits", {}).text
    last = outcome.written[0].edit_id
    undone = call(desk, "undo_file_modification", edit_id=last, transaction=True)
    assert undone["status"] == "ok"
    assert "drei\n" in Path(desk.root, "a.txt").read_text()


def test_what_others_changed_since_is_not_undone_with_it(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\nand more\n")
    edit(desk, "10", "zehn\n")
    save(desk, "and more\n", "")
    first, second = hunks(desk)
    assert first.touched_by == ("another program",)
    before = Path(desk.root, "a.txt").read_bytes()
    person = desk.person("local")
    outcome = view_of(desk).undo(person, ALL)
    assert [(hunk.id, why.code) for hunk, why in outcome.refused] == [(first.id, "CONTENT_CHANGED")]
    assert outcome.written == ()
    assert Path(desk.root, "a.txt").read_bytes() == before
    outcome = view_of(desk).undo(person, ALL, partly=True)
    assert len(outcome.written) == len(outcome.refused) == 1
    assert ids(desk) == [first.id]
    assert second.new[0] not in Path(desk.root, "a.txt").read_bytes()


def test_what_others_replaced_the_first_lines_of_is_not_undone(desk: OpenWorkspace) -> None:
    """The line that the agent had replaced would not come back, and nobody would be told."""
    edit(desk, "3~4", "drei\nvier\n")
    save(desk, "drei\n", "mine\n")
    (rest,) = hunks(desk)
    assert (rest.new, rest.touched_by) == ((b"vier\n",), ("another program",))
    outcome = view_of(desk).undo(desk.person("local"), ALL, partly=True)
    assert [why.code for _, why in outcome.refused] == ["CONTENT_CHANGED"]
    assert "mine\nvier\n" in Path(desk.root, "a.txt").read_text()


def test_another_members_edit_is_no_part_of_a_members(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\nand more\n")
    edit(desk, "4", "", by="other")
    edit(desk, "10", "zehn\n", by="other")
    (own,) = hunks(desk, Selection(member="local"))
    assert own.touched_by == ("other",)
    ten = ("line 10\n", "zehn\n")
    assert texts(hunks(desk, Selection(member="other"))) == [("and more\n", ""), ten]
    assert texts(hunks(desk)) == [("line 3\n", "drei\n"), ten]


def test_files_that_come_go_and_move(desk: OpenWorkspace) -> None:
    write(desk, DeleteFile(RelPath.parse("sub/c.txt")))
    write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("d.txt")))
    edit(desk, "2", "zwei\n", path="d.txt")
    call(desk, "create_new_file", path="new.txt", content="new\n")
    kinds = [f"{one.path} {one.kind}" for one in hunks(desk)]
    assert kinds == ["d.txt text", "d.txt move", "new.txt create", "sub/c.txt remove"]
    outcome = view_of(desk).undo(desk.person("local"), ALL)
    assert outcome.refused == ()
    assert Path(desk.root, "b.txt").read_text() == TEXT
    assert Path(desk.root, "sub/c.txt").read_text() == "one\n"
    assert not Path(desk.root, "new.txt").exists()
    assert not Path(desk.root, "d.txt").exists()
    assert hunks(desk) == []


@pytest.mark.parametrize("kind", ["create", "remove", "move"])
def test_a_whole_file_is_kept(desk: OpenWorkspace, kind: str) -> None:
    if kind == "remove":
        write(desk, DeleteFile(RelPath.parse("b.txt")))
    elif kind == "move":
        write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("new.txt")))
    else:
        call(desk, "create_new_file", path="new.txt", content="one\ntwo\n")
    assert view_of(desk).keep(desk.person("local"), ALL) == 1
    assert hunks(desk) == []
    if kind != "remove":
        edit(desk, "2", "zwei\n", path="new.txt")
        assert [one.kind for one in hunks(desk)] == ["text"]
        assert only(desk).kind == "edit"
    else:
        call(desk, "create_new_file", path="b.txt", content="one\n")
        assert [one.kind for one in hunks(desk)] == ["create"]


def test_a_file_that_came_and_went_is_none(desk: OpenWorkspace) -> None:
    call(desk, "create_new_file", path="new.txt", content="one\n")
    write(desk, DeleteFile(RelPath.parse("new.txt")))
    assert hunks(desk) == []


def test_a_created_file_that_others_wrote_to_is_not_removed(desk: OpenWorkspace) -> None:
    call(desk, "create_new_file", path="new.txt", content="one\ntwo\n")
    save(desk, "two\n", "two\nmine\n", "new.txt")
    assert view_of(desk).undo(desk.person("local"), ALL).refused == ()
    assert Path(desk.root, "new.txt").read_text() == "mine\n"


def test_a_file_that_changes_late_stays(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(desk, "create_new_file", path="new.txt", content="one\n")
    prepare = desk.desk.prepare

    def late(*given: object) -> object:
        save(desk, "one\n", "one\nmine\n", "new.txt")
        return prepare(*given)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(desk.desk, "prepare", late)
    outcome = view_of(desk).undo(desk.person("local"), ALL)
    assert [why.code for _, why in outcome.refused] == ["STALE_READ"]
    assert Path(desk.root, "new.txt").read_text() == "one\nmine\n"
    assert desk.pending("local") == ()


def test_tasks_and_sessions(desk: OpenWorkspace) -> None:
    write(desk, RangeEdit(RelPath.parse("a.txt"), "1", "eins\n"), task="T-1")
    edit(desk, "2", "zwei\n")
    edit(desk, "3", "drei\n", by="other")
    write(desk, RangeEdit(RelPath.parse("b.txt"), "1", "eins\n"), task="T-1")
    found = view_of(desk).tasks(desk.person("local"))
    assert {(one.name, one.member, one.open, one.lines) for one in found} == {
        ("T-1", "local", 2, (2, 2)),
        ("", "local", 1, (1, 1)),
        ("", "other", 1, (1, 1)),
    }
    (named,) = (one for one in found if one.name)
    assert texts(hunks(desk, Selection(task=named.key))) == [("line 1\n", "eins\n")] * 2
    view_of(desk).undo(desk.person("local"), Selection(task="T-1"))
    assert Path(desk.root, "b.txt").read_text() == TEXT
    assert texts(hunks(desk)) == [("line 2\nline 3\n", "zwei\ndrei\n")]


def test_since_a_checkpoint(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    person = desk.person("local")
    made = view_of(desk).checkpoint(person, "before the rest")
    edit(desk, "3", "DREI\n")
    edit(desk, "9", "neun\n")
    since = view_of(desk).since("before the rest")
    assert texts(hunks(desk, since)) == [("drei\n", "DREI\n"), ("line 9\n", "neun\n")]
    save(desk, "line 20\n", "mine\n")
    view_of(desk).undo(person, since)
    assert Path(desk.root, "a.txt").read_text() == TEXT.replace("line 3\n", "drei\n").replace(
        "line 20\n", "mine\n"
    )
    assert view_of(desk).checkpoints() == (made,)
    assert len(hunks(desk, view_of(desk).since("2h"))) == 1
    for name in ("", "2h", "x" * 101, "a\nb"):
        with pytest.raises(InvalidArgs):
            view_of(desk).checkpoint(person, name)
    with pytest.raises(InvalidArgs):
        view_of(desk).since("never")


@contextmanager
def by_clock(root: Path, off_ms: list[int]) -> Iterator[OpenWorkspace]:
    """A workspace whose clock is off by so much."""
    DESK.lay_files(root)
    with open_workspace(
        str(root), DESK.config, clock=lambda: now_ms() + off_ms[0], shared=True
    ) as desk:
        yield desk


@pytest.mark.parametrize("back_ms", [5_000, 30 * DAY_MS])
def test_no_clock_hides_an_edit(tmp_path: Path, back_ms: int) -> None:
    off_ms = [0]
    with by_clock(tmp_path, off_ms) as desk:
        edit(desk, "3", "drei\n")
        view_of(desk).checkpoint(desk.person("local"), "here")
        off_ms[0] = -back_ms
        edit(desk, "9", "neun\n")
        off_ms[0] = 0
        edit(desk, "12", "zwoelf\n")
        assert [one.new_line for one in hunks(desk)] == [2, 8, 11]
        assert view_of(desk).older(desk.person("local")) == 0
        assert [one.new_line for one in hunks(desk, view_of(desk).since("here"))] == [8, 11]
        recent = [2, 8, 11] if back_ms < HOUR_MS else [2, 11]  # by its time, as far as it is known
        assert [one.new_line for one in hunks(desk, view_of(desk).since("2h"))] == recent


def test_however_many_edits_of_a_clock_that_was_behind_hide_none(tmp_path: Path) -> None:
    DESK.lay_files(tmp_path)
    off_ms = [0]
    with open_workspace(
        str(tmp_path), DESK.config, clock=lambda: now_ms() + off_ms[0], shared=True
    ) as desk:
        edit(desk, "3", "drei\n")
        off_ms[0] = -30 * DAY_MS
        last = desk.journal.get(edit(desk, "9", "neun\n"))
        assert last is not None
        many = desk.journal.open_all([replace(last, path=RelPath.parse("other"))] * 120)
        desk.journal.close_all(many, "failed")
        off_ms[0] = 0
        assert [one.new_line for one in hunks(desk)] == [2, 8]
        assert view_of(desk).older(desk.person("local")) == 0


def test_a_task_that_puts_a_line_back_is_undone_alone(desk: OpenWorkspace) -> None:
    replaced = RangeEdit(RelPath.parse("a.txt"), "2", "X\n")
    write(desk, replaced, task="S")
    before = Path(desk.root, "a.txt").read_text()
    write(desk, replace(replaced, content="line 2\n"), task="T")
    person = desk.person("local")
    assert hunks(desk, Selection(task="S")) == []
    view_of(desk).undo(person, Selection(task="T"))
    assert Path(desk.root, "a.txt").read_text() == before
    assert texts(hunks(desk, Selection(task="S"))) == [("line 2\n", "X\n")]


def test_no_clock_brings_in_an_edit_that_is_too_old(tmp_path: Path) -> None:
    off_ms = [-30 * DAY_MS]
    with by_clock(tmp_path, off_ms) as desk:
        edit(desk, "3", "drei\n")
        for off_ms[0], line in (400 * DAY_MS, "6"), (-30 * DAY_MS, "9"):
            edit(desk, line, f"new {line}\n")
        off_ms[0] = 0
        assert hunks(desk) == []
        assert view_of(desk).older(desk.person("local")) == 3
        assert hunks(desk, view_of(desk).since("2h")) == []


def test_back_to_a_checkpoint_is_the_text_of_then(desk: OpenWorkspace) -> None:
    """Also where a line comes back after it that had stood there before."""
    edit(desk, "2", "X\n")
    person = desk.person("local")
    view_of(desk).checkpoint(person, "here")
    before = Path(desk.root, "a.txt").read_text()
    edit(desk, "2", "line 2\n")
    since = view_of(desk).since("here")
    assert texts(hunks(desk, since)) == [("X\n", "line 2\n")]
    view_of(desk).undo(person, since)
    assert Path(desk.root, "a.txt").read_text() == before


def test_new_text_in_place_and_a_comment(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n", by="other")
    edit(desk, "10", "zehn\n", by="other")
    first, second = hunks(desk)
    person = desk.person("local")
    view_of(desk).comment(person, ALL, second.id, "why ten?")
    assert len(view_of(desk).rewrite(person, ALL, first.id, "three").written) == 1
    assert "three\n" in Path(desk.root, "a.txt").read_text()
    assert ids(desk) == [second.id]
    told = desk.call("other", "list_edits", {}).text
    assert "user of local says of your change of a.txt:10: why ten?" in told
    assert "user of local changed what you wrote in a.txt:3." in told
    with pytest.raises(InvalidArgs):
        view_of(desk).rewrite(person, ALL, first.id, "again")
    with pytest.raises(InvalidArgs):
        view_of(desk).comment(person, ALL, second.id, " ")


def test_who_may_see_and_decide(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    edit(desk, "3", "drei\n", path="b.txt")
    blind, careful = desk.member("blind"), desk.member("careful")
    assert [str(file.path) for file in view_of(desk).view(blind)] == ["b.txt"]
    assert [str(f.path) for task in view_of(desk).tasks(blind) for f in task.files] == ["b.txt"]
    assert careful.policy is not SELF
    with pytest.raises(AccessDenied):
        view_of(desk).keep(careful, ALL)
    before = Path(desk.root, "a.txt").read_bytes()
    outcome = view_of(desk).undo(careful, ALL)
    assert outcome.written == ()
    assert len(outcome.waiting) == 2
    assert Path(desk.root, "a.txt").read_bytes() == before


def git(desk: OpenWorkspace, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *own, *words], cwd=desk.root, check=True, capture_output=True)


def committed(desk: OpenWorkspace, *names: str) -> None:
    """A repository in which these files are committed."""
    git(desk, "init")
    git(desk, "add", *names)
    git(desk, "commit", "-m", "first")


@pytest.mark.slow
def test_what_git_committed_counts_as_kept(desk: OpenWorkspace) -> None:
    committed(desk, "a.txt", "b.txt", "sub")
    edit(desk, "3", "drei\n")
    edit(desk, "12~13", "")
    call(desk, "create_new_file", path="new.txt", content="one\n")
    assert len(hunks(desk)) == 3
    git(desk, "commit", "-a", "-m", "second")
    assert [str(one.path) for one in hunks(desk)] == ["new.txt"]
    edit(desk, "20", "zwanzig\n")
    git(desk, "add", "new.txt")
    git(desk, "commit", "-m", "third")
    edit(desk, "1", "eins\n", path="new.txt")
    assert texts(hunks(desk)) == [("line 22\n", "zwanzig\n"), ("one\n", "eins\n")]
    assert only(desk, Selection(path=RelPath.parse("new.txt"))).kind == "edit"


@pytest.mark.parametrize("seed", range(6))
def test_any_hunks_undone_leave_the_tree_without_them(desk: OpenWorkspace, seed: int) -> None:
    draw = Random(seed)
    lines = 30
    for step in range(25):
        at = draw.randint(1, max(1, lines - 3))
        if draw.random() < 0.3:
            text = Path(desk.root, "a.txt").read_text().splitlines(keepends=True)
            text[at - 1 : at] = [f"person {step}\n"] * draw.choice((0, 1, 2))
            Path(desk.root, "a.txt").write_text("".join(text))
        else:
            new = "".join(f"agent {step} {n}\n" for n in range(draw.choice((0, 1, 3))))
            edit(desk, f"{at}~{at + draw.choice((0, 1))}", new, draw.choice(("local", "other")))
        lines = len(Path(desk.root, "a.txt").read_text().splitlines())
    file = only(desk)
    assert file.change.apply(file.base.data) == file.now.data
    assert b"agent" not in file.base.data
    free = [one for one in file.hunks if not one.touched_by]
    gone = [one.id for one in free if draw.random() < 0.5]
    expected = file.now.data
    for hunk in reversed(free):
        if hunk.id in gone:
            start, stop = hunk.span
            expected = expected[:start] + b"".join(hunk.old) + expected[stop:]
    outcome = view_of(desk).undo(desk.person("local"), ALL, gone)
    assert outcome.refused == ()
    assert Path(desk.root, "a.txt").read_bytes() == expected
    assert [one.new for one in hunks(desk)] == [one.new for one in file.hunks if one.id not in gone]


def test_an_agent_lists_and_undoes_a_task_in_one_call_each(desk: OpenWorkspace) -> None:
    write(desk, RangeEdit(RelPath.parse("a.txt"), "3", "drei\n"), task="T-1")
    write(desk, RangeEdit(RelPath.parse("b.txt"), "1~2", ""), task="T-1")
    edit(desk, "10", "zehn\n")
    listed = call(desk, "list_edits", task="T-1")
    rows = [(one["path"], one["added"], one["removed"]) for one in listed["list_changes"]]
    assert rows == [("a.txt", 1, 1), ("b.txt", 0, 2)]
    (first,) = listed["list_changes"][0]["hunks"]
    (shown,) = only(desk, Selection(path=RelPath.parse("a.txt"), task="T-1")).hunks
    assert first["edit_ids"] == [shown.edits[0].edit_id]
    assert desk.call("local", "list_edits", {"task": "T-1"}).text.count("a.txt +1 -1") == 1
    undone = call(desk, "undo_file_modification", task="T-1")
    assert (undone["status"], undone["paths"]) == ("ok", ["a.txt", "b.txt"])
    assert Path(desk.root, "b.txt").read_text() == TEXT
    assert texts(hunks(desk)) == [("line 10\n", "zehn\n")]
    assert call(desk, "undo_file_modification", task="T-1")["error"] == "INVALID_ARGS"


@pytest.mark.usefixtures("small_limit")
def test_directories_go_with_the_task_that_made_them(desk: OpenWorkspace) -> None:
    root, task = Path(desk.root), {"task": "T"}
    (root / "old").mkdir()
    (root / "old/d.txt").write_text("d\n")

    def new(path: str, text: str = "new\n", **of: str) -> None:
        write(desk, PatchEdit(RelPath.parse(path), (PatchHunk("", text),), creates=True), **of)

    new("n1/e.txt", **task)
    new("n1/m/w.txt", **task)
    new("n1/m/large.txt", "line\n" * LARGE_LINES, **task)
    new("n2/theirs/e.txt", task="other")
    new("n2/theirs/m/e.txt", **task)
    new("n3/m/e.txt", **task)
    write(desk, MoveFile(RelPath.parse("n3/m/e.txt"), RelPath.parse("n4/e.txt")), **task)
    write(desk, MoveFile(RelPath.parse("old/d.txt"), RelPath.parse("n5/z/d.txt")), **task)
    new("old/new.txt", **task)
    done = view_of(desk).undo(desk.person("local"), Selection(task="T"))
    assert len(done.written) == 7
    left = sorted(str(path.relative_to(root)) for path in root.glob("[no][0-9l]*/**/*"))
    assert left == ["n2/theirs", "n2/theirs/e.txt", "old/d.txt"]


@pytest.mark.usefixtures("small_limit")
def test_directories_of_a_large_file_go_with_both_its_names(desk: OpenWorkspace) -> None:
    new, hunk = RelPath.parse("n1/m/large.txt"), PatchHunk("", "line\n" * LARGE_LINES)
    write(desk, PatchEdit(new, (hunk,), creates=True))
    write(desk, MoveFile(new, RelPath.parse("n2/k/large.txt")))
    assert view_of(desk).undo(desk.person("local"), ALL).written
    assert not [*Path(desk.root).glob("n*")]


@pytest.mark.parametrize("is_together", [True, False])
def test_directories_go_once_a_person_has_approved_their_undo(
    desk: OpenWorkspace, *, is_together: bool
) -> None:
    root, person, careful = Path(desk.root), desk.person("local"), desk.member("careful")
    for path in ("n1/e.txt", "n1/m/w.txt", "n3/m/e.txt"):
        write(desk, PatchEdit(RelPath.parse(path), (PatchHunk("", "new\n"),), creates=True))
    write(desk, MoveFile(RelPath.parse("n3/m/e.txt"), RelPath.parse("n4/e.txt")))
    write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("n5/z/b.txt")))
    waiting = view_of(desk).undo(careful, ALL).waiting
    assert (root / "n3/m").is_dir()
    for plan in desk.pending("careful"):
        shown = desk.desk.review.show(person, plan.id)
        desk.desk.review.approve(person, plan.id, shown.before, shown.after)
    for some in [waiting] if is_together else [[one] for one in waiting]:
        done = desk.desk.apply_all(careful, "apply_file_modifications", some)
        assert isinstance(done, Transacted)
    assert sorted(path.name for path in root.glob("[bn]*")) == ["b.txt"]


def test_a_directory_stays_while_its_file_is_not_undone(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    call(desk, "create_new_file", path="n1/e.txt", content="one\ntwo\n")
    write(desk, MoveFile(RelPath.parse("n1/e.txt"), RelPath.parse("n2/e.txt")))
    save(desk, "two\n", "", "n2/e.txt")
    done = view_of(desk).undo(desk.person("local"), ALL, partly=True)
    assert [str(one.path) for one in done.written] == ["a.txt"]
    assert len(done.refused) == 1
    assert Path(desk.root, "n1").is_dir()


def test_a_task_that_others_changed_is_refused_as_a_whole(desk: OpenWorkspace) -> None:
    write(desk, RangeEdit(RelPath.parse("a.txt"), "3", "drei\nmore\n"), task="T-1")
    save(desk, "more\n", "")
    refused = call(desk, "undo_file_modification", task="T-1")
    assert (refused["status"], refused["error"]) == ("error", "CONTENT_CHANGED")
    assert [(one["path"], one["line"]) for one in refused["refused"]] == [("a.txt", 3)]
    assert "a.txt:3" in refused["summary"]


def test_a_careful_agents_undo_of_a_task_waits_for_a_person(desk: OpenWorkspace) -> None:
    write(desk, RangeEdit(RelPath.parse("a.txt"), "3", "drei\n"), task="T-1")
    refused = call(desk, "undo_file_modification", by="careful", task="T-1")
    assert (refused["status"], refused["error"]) == ("error", "APPROVAL_REQUIRED")
    assert [plan.id for plan in desk.pending("careful")] == refused["hunk_ids"]


@pytest.mark.slow
def test_what_was_kept_stays_kept_for_long(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n")
    edit(desk, "10", "zehn\n")
    first, second = hunks(desk)
    person = desk.person("local")
    view_of(desk).checkpoint(person, "here")
    view_of(desk).keep(person, ALL, [first.id])

    later_ms = desk.clock() + 1
    for number in range(1_001):
        version, time_ms = (f"{number:08x}", -number - 1), later_ms + number
        said = Decision(version, "other", "a.txt", "commented", "eve", time_ms, reason="x")
        desk.journal.take(said)
    desk.journal.forget(later_ms + 10_000)
    assert ids(desk) == [second.id]
    assert [one.name for one in view_of(desk).checkpoints()] == ["here"]


def test_lines_that_were_never_committed_come_back(desk: OpenWorkspace) -> None:
    committed(desk, "a.txt")
    save(desk, "line 2\n", "mine 2\n")
    save(desk, "line 5\n", "mine 5\n")
    before = Path(desk.root, "a.txt").read_bytes()
    edit(desk, "2", "agent\n")
    edit(desk, "5", "")
    assert texts(hunks(desk)) == [("mine 2\n", "agent\n"), ("mine 5\n", "")]
    assert view_of(desk).undo(desk.person("local"), ALL).refused == ()
    assert Path(desk.root, "a.txt").read_bytes() == before


def test_line_ends_that_git_converts_are_no_difference(desk: OpenWorkspace) -> None:
    crlf = TEXT.replace("\n", "\r\n").encode()
    Path(desk.root, "a.txt").write_bytes(crlf)
    Path(desk.root, ".gitattributes").write_text("* text eol=crlf\n")
    committed(desk, "a.txt")
    edit(desk, "2", "agent\n")
    edit(desk, "4", "")
    assert len(hunks(desk)) == 2
    git(desk, "commit", "-am", "second")
    assert hunks(desk) == []
    edit(desk, "6", "agent\n")
    view_of(desk).undo(desk.person("local"), ALL)
    assert Path(desk.root, "a.txt").read_bytes() == crlf.replace(b"line 2\r", b"agent\r").replace(
        b"line 4\r\n", b""
    )


def test_keeping_a_task_keeps_nothing_of_another(desk: OpenWorkspace) -> None:
    write(desk, RangeEdit(RelPath.parse("a.txt"), "2", "x\n"), task="T-1")
    write(desk, RangeEdit(RelPath.parse("a.txt"), "3", "y\n"), by="other", task="T-2")
    view_of(desk).keep(desk.person("local"), Selection("T-1"))
    assert texts(hunks(desk)) == [("line 3\n", "y\n")]
    view_of(desk).undo(desk.person("local"), ALL)
    assert Path(desk.root, "a.txt").read_text() == TEXT.replace("line 2\n", "x\n")


def test_a_keep_is_of_what_was_seen_after_another_program_wrote(desk: OpenWorkspace) -> None:
    save(desk, TEXT, "a\nx\nb\nc\nd\ne\nf\nx\ng\n")
    call(desk, "replace_text", path="a.txt", old="x", new="y", all=True, apply="auto")
    save(desk, "a\n", "n\n" * 6 + "a\n")
    first, second = hunks(desk)
    view_of(desk).keep(desk.person("local"), ALL, [first.id])
    assert [one.new_line for one in hunks(desk)] == [second.new_line]
    edit(desk, "5", "five\n", path="b.txt")
    edit(desk, "4", "g\n", path="b.txt")
    save(desk, "line 3\n", "p\n", "b.txt")
    of_b = Selection(path=RelPath.parse("b.txt"))
    *_, last = hunks(desk, of_b)
    view_of(desk).keep(desk.person("local"), of_b, [last.id])
    assert texts(hunks(desk, of_b)) == [("line 4\nline 5\n", "")]


def test_new_text_in_a_file_of_two_byte_units(desk: OpenWorkspace) -> None:
    file = Path(desk.root, "wide.txt")
    file.write_bytes("\ufeffone\r\ntwo\r\nthree\r\n".encode("utf-16-le"))
    edit(desk, "2", "zwei\n", path="wide.txt")
    (hunk,) = hunks(desk)
    view_of(desk).rewrite(desk.person("local"), ALL, hunk.id, "deux\nencore\n")
    assert file.read_bytes().decode("utf-16") == "one\r\ndeux\r\nencore\r\nthree\r\n"


def test_a_line_below_what_was_the_end_stays_a_line(desk: OpenWorkspace) -> None:
    save(desk, TEXT, "one\nlast")
    edit(desk, "2", "last\nnew\n")
    save(desk, "new\n", "new\nmine\n")
    view_of(desk).undo(desk.person("local"), ALL)
    assert Path(desk.root, "a.txt").read_text() == "one\nlast\nmine\n"


def test_the_id_of_a_kept_hunk_is_never_that_of_another(desk: OpenWorkspace) -> None:
    save(desk, TEXT, "a\nx\nb\nc\nd\nx\ne\n")
    edit(desk, "2", "y\n")
    edit(desk, "6", "y\n")
    first, second = hunks(desk)
    person = desk.person("local")
    assert view_of(desk).keep(person, ALL, [first.id]) == 1
    assert view_of(desk).keep(person, ALL, [first.id]) == 0
    assert ids(desk) == [second.id]


def test_hunks_of_one_id_are_undecided(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(desk, "2", "y\n")
    edit(desk, "8", "z\n")
    made = changes_module._Replay._hunk

    def of_one_id(*given: Any) -> ChangedHunk:
        return replace(made(*given), id="00000000")

    monkeypatch.setattr(changes_module._Replay, "_hunk", of_one_id)
    (first, *_) = hunks(desk)
    for decide in (view_of(desk).keep, view_of(desk).undo):
        with pytest.raises(ContentChanged):
            decide(desk.person("local"), ALL, [first.id])


def test_a_later_move_is_shown_after_one_was_kept(desk: OpenWorkspace) -> None:
    write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("c.txt")))
    view_of(desk).keep(desk.person("local"), ALL)
    write(desk, MoveFile(RelPath.parse("c.txt"), RelPath.parse("d.txt")))
    assert str(only(desk).was) == "c.txt"


def test_a_file_made_again_by_another_task_is_its_own(desk: OpenWorkspace) -> None:
    for task in ("T-1", "T-2"):
        create = PatchEdit(RelPath.parse("n.txt"), (PatchHunk("", f"{task}\n"),), creates=True)
        write(desk, create, task=task)
        if task == "T-1":
            write(desk, DeleteFile(RelPath.parse("n.txt")), task=task)
    assert view_of(desk).undo(desk.person("local"), Selection("T-2")).refused == ()
    assert not Path(desk.root, "n.txt").exists()
    assert hunks(desk) == []


def test_a_file_of_the_name_of_a_removed_one_is_another(desk: OpenWorkspace) -> None:
    write(desk, DeleteFile(RelPath.parse("b.txt")))
    Path(desk.root, "b.txt").write_text("mine\n")
    assert hunks(desk) == []


def test_a_reason_of_an_edit_is_shown_to_who_may_read_its_file(desk: OpenWorkspace) -> None:
    for name, why in (("a.txt", "SECRET in a.txt"), ("b.txt", "")):
        member = desk.member("local").because(why, "T-1")
        request = RangeEdit(RelPath.parse(name), "1", "q\n")
        plan = desk.desk.prepare(member, request.tool, request).plan
        desk.desk.apply(member, "apply_file_modification", plan.id)
    (task,) = view_of(desk).tasks(desk.member("blind"))
    assert task.why == ""
    assert view_of(desk).tasks(desk.person("local"))[0].why == "SECRET in a.txt"


@pytest.mark.usefixtures("small_limit")
def test_half_of_a_pair_is_no_comment(desk: OpenWorkspace) -> None:
    edit(desk, "2", "y\n")
    with pytest.raises(InvalidArgs):
        view_of(desk).comment(desk.person("local"), ALL, ids(desk)[0], "x\ud800")


BINARY = bytes(range(256)) * 4


LARGE_LINES = 4_000
"""Lines of a file that counts as large where `small_limit` is in force."""


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are large."""
    monkeypatch.setattr(sizes, "LARGE", 10_000)


def put(desk: OpenWorkspace, name: str, data: bytes) -> Path:
    file = Path(desk.root, name)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("data", ["large", "binary", "empty", "text"])
@pytest.mark.usefixtures("small_limit")
def test_a_removed_file_comes_back_as_it_was(desk: OpenWorkspace, data: str) -> None:
    """Where it is not shown by lines, too."""
    texts = {"large": b"one\n" * LARGE_LINES, "binary": BINARY, "empty": b"", "text": b"one\n"}
    file = put(desk, "big.bin", texts[data])
    file.chmod(0o750)
    write(desk, DeleteFile(RelPath.parse("big.bin")))
    (changed,) = only(desk).hunks
    old = (b"one\n",) if data == "text" else ()
    assert (str(changed.path), changed.kind, changed.old, changed.new) == (
        *("big.bin", "remove", old, ()),
    )
    outcome = view_of(desk).undo(desk.person("local"), ALL)
    assert [(str(path), bool(edit_id)) for path, edit_id in outcome.written] == [("big.bin", True)]
    assert file.read_bytes() == texts[data]
    mode = file.stat().st_mode & 0o777
    assert mode == 0o750 if data in ("large", "binary") else mode & 0o111
    assert hunks(desk) == []
    told = desk.call("local", "list_edits", {}).text
    assert "undid your change of big.bin:1" in told


def test_git_removes_a_binary_file_by_its_diff(desk: OpenWorkspace, tmp_path: Path) -> None:
    put(desk, "x.bin", BINARY)
    put(desk, "y.bin", BINARY)
    write(desk, DeleteFile(RelPath.parse("x.bin")))
    write(desk, MoveFile(RelPath.parse("y.bin"), RelPath.parse("z.bin")))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("x.bin", "y.bin"):
        (copy / name).write_bytes(BINARY)
    diff = b"".join(file.diff for file in view_of(desk).view(desk.person("local")))
    subprocess.run(["git", "apply"], cwd=copy, input=diff, check=True)
    assert [path.name for path in copy.iterdir()] == ["z.bin"]
    assert view_of(desk).undo(desk.person("local"), ALL).refused == ()
    assert Path(desk.root, "y.bin").read_bytes() == Path(desk.root, "x.bin").read_bytes() == BINARY
    assert not Path(desk.root, "z.bin").exists()
    assert hunks(desk) == []


@pytest.mark.usefixtures("small_limit")
def test_a_large_file_is_kept_and_undone_as_a_whole(desk: OpenWorkspace) -> None:
    text = b"line\n" * LARGE_LINES
    file = put(desk, "large.txt", text)
    edit(desk, "7", "seven\n", path="large.txt")
    edit(desk, "9", "nine\n", path="large.txt", by="other")
    edit(desk, "3", "three\n")
    kinds = [(str(one.path), one.kind) for one in hunks(desk)]
    assert kinds == [("a.txt", "text"), ("large.txt", "content")]
    large = Selection(path=RelPath.parse("large.txt"))
    assert only(desk, large).diff == b""
    assert [one.member for one in hunks(desk, large)[0].edits] == ["local", "other"]
    assert view_of(desk).keep(desk.person("local"), large) == 1
    assert hunks(desk, large) == []
    edit(desk, "1", "one\n", path="large.txt")
    (changed,) = hunks(desk, large)
    view_of(desk).undo(desk.person("local"), large, [changed.id])
    expected = [b"line\n"] * 6 + [b"seven\n", b"line\n", b"nine\n"]
    assert file.read_bytes() == b"".join(expected) + text[45:]
    assert hunks(desk, large) == []


@pytest.mark.usefixtures("small_limit")
def test_a_large_file_that_others_changed_since(desk: OpenWorkspace) -> None:
    file = put(desk, "large.txt", b"line\n" * LARGE_LINES)
    edit(desk, "7", "seven\n", path="large.txt")
    save(desk, "seven\n", "7\n", "large.txt")
    before = file.read_bytes()
    outcome = view_of(desk).undo(desk.person("local"), ALL)
    assert outcome.written == ()
    assert file.read_bytes() == before


def test_a_removal_that_git_committed_counts_as_kept(desk: OpenWorkspace) -> None:
    put(desk, "x.bin", BINARY)
    committed(desk, "a.txt", "b.txt", "x.bin")
    for name in ("b.txt", "x.bin", "sub/c.txt"):
        write(desk, DeleteFile(RelPath.parse(name)))
    assert [str(one.path) for one in hunks(desk)] == ["b.txt", "sub/c.txt", "x.bin"]
    git(desk, "commit", "-am", "second")
    assert [str(one.path) for one in hunks(desk)] == ["sub/c.txt"], "git never had it"


def test_a_file_that_git_has_is_no_new_one(desk: OpenWorkspace) -> None:
    git(desk, "init")
    put(desk, "y.bin", BINARY)
    write(desk, MoveFile(RelPath.parse("y.bin"), RelPath.parse("z.bin")))
    call(desk, "create_new_file", path="new.txt", content="one\n")
    assert [one.kind for one in hunks(desk)] == ["create", "move"]
    git(desk, "add", ".")
    git(desk, "commit", "-m", "first")
    assert hunks(desk) == []


def test_a_hunk_names_what_it_breaks(desk: OpenWorkspace) -> None:
    put(desk, "c.py", b"a = 1\nb = 2\nc = 3\nd = 4\n")
    edit(desk, "1", "a = one\n", path="c.py")
    edit(desk, "4", "d = (\n", path="c.py")
    first, second = hunks(desk)
    assert first.checks == ()
    assert [(one.check, one.path, one.line) for one in second.checks] == [("syntax", "c.py", 4)]
    listed = call(desk, "list_edits", task=view_of(desk).tasks(desk.person("local"))[0].key)
    assert "checks" not in listed


def test_a_look_at_changes_runs_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(self: Commands, rule: Rule, files: Mapping[str, bytes]) -> list[Diagnostic]:
        ran.extend(files)
        return []

    monkeypatch.setattr(Commands, "run", run)
    rule = Rule("*.txt", "words", command=("true", "{path}"))
    (tmp_path / "a.txt").write_text("one\n")
    with open_workspace(str(tmp_path), Config(checks=(rule,)), shared=False) as desk:
        given = {"path": "a.txt", "old": "one", "new": "two"}
        assert desk.call("local", "replace_text", given).data["edit_id"] == 1
        assert ran, "a write is checked"
        ran.clear()
        (tmp_path / "a.txt").write_text("two\nby a person\n")  # which no check has seen
        assert [str(one.path) for one in hunks(desk)] == ["a.txt"]
        assert ran == []


def test_what_was_written_together(desk: OpenWorkspace) -> None:
    alone = edit(desk, "1", "eins\n")
    both = [
        call(desk, "prepare_file_range_edit", path=name, range="3", content="drei\n")["hunk_id"]
        for name in ("a.txt", "b.txt")
    ]
    call(desk, "apply_file_modifications", hunk_ids=both)
    found = hunks(desk, Selection(transaction=desk.history("local", most=1)[0].edit_id))
    assert [(str(one.path), one.new_line) for one in found] == [("a.txt", 2), ("b.txt", 2)]
    single = hunks(desk, Selection(transaction=alone))
    assert [(str(one.path), one.new_line) for one in single] == [("a.txt", 0)]


def test_back_to_the_start_of_a_task(desk: OpenWorkspace) -> None:
    """Each task and each session begins with a checkpoint of its name."""
    edit(desk, "1", "eins\n", by="other")
    write(desk, RangeEdit(RelPath.parse("a.txt"), "3", "drei\n"), task="T-1")
    edit(desk, "5", "five\n", by="other")
    since = view_of(desk).since("T-1")
    assert [one.new_line for one in hunks(desk, since)] == [2, 4]
    (session,) = (one for one in view_of(desk).tasks(desk.person("local")) if not one.name)
    assert len(hunks(desk, view_of(desk).since(session.key))) == 3


def test_a_removed_file_has_the_lines_that_others_left(desk: OpenWorkspace) -> None:
    edit(desk, "3", "drei\n", path="b.txt")
    save(desk, "drei\n", "", "b.txt")
    write(desk, DeleteFile(RelPath.parse("b.txt")))
    assert view_of(desk).undo(desk.person("local"), ALL).refused == ()
    assert Path(desk.root, "b.txt").read_text() == TEXT.replace("line 3\n", "")
    assert hunks(desk) == []


def test_a_file_that_another_took_the_place_of_is_shown(desk: OpenWorkspace) -> None:
    write(desk, DeleteFile(RelPath.parse("a.txt")))
    write(desk, MoveFile(RelPath.parse("b.txt"), RelPath.parse("a.txt")))
    assert sorted(one.kind for one in hunks(desk)) == ["move", "remove"]
    person = desk.person("local")
    outcome = view_of(desk).undo(person, ALL)
    assert [(one.kind, why.code) for one, why in outcome.refused] == [("remove", "FILE_EXISTS")]
    assert view_of(desk).undo(person, ALL, partly=True).written
    assert view_of(desk).undo(person, ALL).refused == ()
    assert Path(desk.root, "a.txt").read_text() == Path(desk.root, "b.txt").read_text() == TEXT
    assert hunks(desk) == []
