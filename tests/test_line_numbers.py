"""Ten edits by the line numbers of one read, in any order, while others edit the same file."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from copydesk.app.workspace import OpenWorkspace
from support.cost import spread
from support.desks import Setup
from support.processes import Facts, code, outcome
from support.rows import each_row

SEEDS = range(8)


DESK = Setup(stores=("memory", "shared"))


@dataclass(frozen=True)
class Put:
    """Lines first to last, from 1 and inclusive, of the text that was read become `new`."""

    first: int
    last: int
    new: tuple[str, ...]


@dataclass(frozen=True)
class Drift:
    """Another writer puts `new` in after line `after`, from 1, of the text that was read."""

    after: int
    new: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A text, edits of it in an order, and what another writer does between them."""

    lines: tuple[str, ...]
    puts: tuple[Put, ...]
    drifts: tuple[Drift, ...]


def case(seed: int, puts: int = 10) -> Case:
    """A text with repeated lines, ten edits of lines apart, drift at places of its own."""
    dice = random.Random(seed)
    lines = [
        dice.choice(["}", "", "    return", "end"]) if i % 4 == 3 else f"line {i} of {seed}"
        for i in range(1, 201)
    ]
    slots = dice.sample(range(20), puts)
    made: list[Put] = []
    drifts: list[Drift] = []
    for turn, slot in enumerate(slots):
        first = 10 * slot + dice.randint(1, 3)
        last = first + dice.randint(0, 2)
        size = dice.choice([0, 1, 2, 5, last - first + 1])
        made.append(Put(first, last, tuple(f"edit {turn} {k}" for k in range(size))))
        new = tuple(f"drift {turn} {k}" for k in range(dice.randint(1, 4)))
        apart = 10 * dice.randrange(20) + dice.choice([7, 8])
        drifts.append(Drift(apart + (apart % 4 == 3), new))
    return Case(tuple(lines), tuple(made), tuple(drifts))


def expected(case: Case, drifts: int) -> str:
    """The text with all edits and the first so many drifts, made from the last line upwards."""
    lines = list(case.lines)
    changes = [(p.first - 1, p.last, p.new) for p in case.puts]
    for place in {d.after for d in case.drifts[:drifts]}:
        added = [line for d in reversed(case.drifts[:drifts]) if d.after == place for line in d.new]
        changes.append((place, place, tuple(added)))
    for start, stop, new in sorted(changes, reverse=True):
        lines[start:stop] = new
    return "".join(f"{line}\n" for line in lines)


def drift(file: Path, case: Case, turn: int) -> None:
    """The other writer puts its lines in, found by the line of the text that they come after."""
    lines = file.read_text().split("\n")
    what = case.drifts[turn]
    at = lines.index(case.lines[what.after - 1]) + 1
    lines[at:at] = what.new
    file.write_text("\n".join(lines))


def at_once(desk: OpenWorkspace, put: Put, version: object, apply: str = "auto") -> Facts:
    """The answer to an edit by the numbers of the read."""
    content = "".join(f"{line}\n" for line in put.new)
    where = {"path": "f", "range": f"{put.first}~{put.last}", "version": version}
    return outcome(desk, "prepare_file_range_edit", **where, content=content, apply=apply)


def read(desk: OpenWorkspace, file: Path, case: Case) -> object:
    """Write the text of the case and read it once; the version that was read."""
    file.write_text("".join(f"{line}\n" for line in case.lines))
    return outcome(desk, "read_file", path="f")["version"]


@pytest.mark.parametrize("seed", SEEDS)
def test_edits_at_once_land_where_the_read_showed_them(
    desk: OpenWorkspace, tmp_path: Path, seed: int
) -> None:
    file, made = tmp_path / "f", case(seed)
    version = read(desk, file, made)
    for turn, put in enumerate(made.puts):
        fields = at_once(desk, put, version)
        assert (code(fields), fields["changed"]) == ("ok", True), fields
        drift(file, made, turn)
    assert file.read_text() == expected(made, len(made.puts))


@pytest.mark.parametrize("seed", spread(SEEDS, of=3))
def test_plans_land_in_another_order_than_they_were_made(
    desk: OpenWorkspace, tmp_path: Path, seed: int
) -> None:
    """All are prepared first, with drift in between, and applied later, with more of it."""
    file, made = tmp_path / "f", case(seed)
    version = read(desk, file, made)
    plans: list[str] = []
    for turn, put in enumerate(made.puts):
        plan = at_once(desk, put, version, "never")
        assert code(plan) == "ok", plan
        plans.append(plan["hunk_id"])
        if turn % 2:
            drift(file, made, turn // 2)
    random.Random(seed).shuffle(plans)
    for turn, hunk_id in enumerate(plans):
        fields = outcome(desk, "apply_file_modification", hunk_id=hunk_id)
        assert code(fields) == "ok", fields
        if turn % 2:
            drift(file, made, len(plans) // 2 + turn // 2)
    assert file.read_text() == expected(made, len(made.puts))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_version_of_each_write_serves_as_a_read(
    desk: OpenWorkspace, tmp_path: Path, seed: int
) -> None:
    """Edits from the last line upwards may also be numbered by the version a write reported."""
    file, made = tmp_path / "f", case(seed)
    version = read(desk, file, made)
    for put in sorted(made.puts, key=lambda p: -p.first):
        fields = at_once(desk, put, version)
        assert code(fields) == "ok", fields
        version = fields["version"]
    assert file.read_text() == expected(made, 0)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_edits_land_while_another_member_of_the_desk_writes(
    desk: OpenWorkspace, tmp_path: Path, seed: int
) -> None:
    """The other one inserts at its own anchors, from another thread, at the same time."""
    file, made = tmp_path / "f", case(seed)
    version = read(desk, file, made)
    told: list[str] = []

    def other() -> None:
        for what in made.drifts:
            content = "".join(f"{line}\n" for line in what.new)
            where = {"path": "f", "anchor": made.lines[what.after - 1], "match": "equals"}
            call = {**where, "content": content, "apply": "auto"}
            told.append(code(outcome(desk, "prepare_file_insert_after", **call)))

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    found = [at_once(desk, put, version) for put in made.puts]
    thread.join()
    assert [code(fields) for fields in found] == ["ok"] * len(made.puts)
    assert told == ["ok"] * len(made.drifts)
    assert file.read_text() == expected(made, len(made.drifts))


TEXT = "".join(f"line {i}\n" for i in range(1, 21))


def stale(desk: OpenWorkspace, file: Path, now: str, **arguments: object) -> Facts:
    """What is answered to an edit by the numbers of a read when the file is `now` since."""
    file.write_text(TEXT)
    version = outcome(desk, "read_file", path="f")["version"]
    file.write_text(now)
    call = {"path": "f", "version": version, "content": "new\n", **arguments}
    fields = outcome(desk, "prepare_file_range_edit", **call)
    assert file.read_text() == now
    return {**fields, "asked": version}


@each_row("apply", ["never", "auto"])
@each_row(
    "now range_text changed",
    [
        (TEXT.replace("line 5\n", "line five\n"), "5", ["line 5 -> line 5"]),
        (TEXT.replace("line 5\n", ""), "4~6", ["line 5 -> nothing after line 4"]),
        (TEXT.replace("line 5\n", "line 5\nx\n"), "5~6", ["nothing after line 5 -> line 6"]),
        ("all new\n", "1~3", ["lines 1~20 -> line 1"]),
        ("", "1", ["lines 1~20 -> nothing after line 0"]),
    ],
)
def test_a_version_that_cannot_be_carried_is_stale(
    desk: OpenWorkspace, tmp_path: Path, apply: str, now: str, range_text: str, changed: list[str]
) -> None:
    fields = stale(desk, tmp_path / "f", now, range=range_text, apply=apply)
    assert code(fields) == "STALE_READ"
    assert fields["version"] == fields["asked"]
    current = outcome(desk, "read_file", path="f")
    assert fields["current_version"] == current["version"] != fields["version"]
    assert fields["total_lines"] == now.count("\n")
    assert fields["changed"] == changed
    assert fields["reason"]


def test_a_version_that_is_not_remembered_is_stale_unless_it_is_the_current_one(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text(TEXT)
    call = {"path": "f", "range": "2", "content": "new\n", "version": "0123456789ab"}
    fields = outcome(desk, "prepare_file_range_edit", **call)
    assert code(fields) == "STALE_READ"
    assert (fields["version"], fields["total_lines"]) == ("0123456789ab", 20)
    call["version"] = fields["current_version"]
    assert code(outcome(desk, "prepare_file_range_edit", **call)) == "ok"


@each_row(
    "range_text expected_old found",
    [
        ("2", "line 3", "line 2\n"),
        ("2~3", "line 2\n", "line 2\nline 3\n"),
        ("2", "line 2\nline 3\n", "line 2\n"),
        ("2", "line 2.", "line 2\n"),
        ("20", "", None),
        ("2", "line 2", None),
        ("2~3", "line 2\r\nline 3\r\n", None),
    ],
)
@each_row("apply", ["never", "auto"])
def test_expected_old_must_be_what_stands_there(
    desk: OpenWorkspace,
    tmp_path: Path,
    range_text: str,
    expected_old: str,
    found: str | None,
    apply: str,
) -> None:
    """A refusal has both texts; an empty one means that none was given."""
    (tmp_path / "f").write_text(TEXT)
    call = {"path": "f", "range": range_text, "content": "new\n", "expected_old": expected_old}
    fields = outcome(desk, "prepare_file_range_edit", **call, apply=apply)
    if found is None:
        assert code(fields) == "ok"
        return
    assert code(fields) == "CONTENT_CHANGED"
    assert (fields["expected_old"], fields["found"]) == (expected_old, found)
    assert fields["planned_lines"] == (range_text if "~" in range_text else f"{range_text}~2")
    assert (tmp_path / "f").read_text() == TEXT
