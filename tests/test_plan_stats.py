"""How plans fared: what was carried and what was refused is remembered, in memory, SQLite and Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import PlanOutcome
from support.records import STORES, Open, opener_of
from support.review_page import Elements, desk_at, prepared, room_at


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    yield from opener_of(request, tmp_path)


def test_what_is_noted_is_told_the_newest_first(opener: Open) -> None:
    tally = opener()
    first, second = PlanOutcome(1, "a", "x\u202e.txt", "fuzz"), PlanOutcome(2, "b", "y", "rejected")
    tally.note(first)
    tally.note(second)
    assert tally.noted() == (second, first)


@pytest.mark.parametrize("opener", ["sqlite"], indirect=True)
def test_the_last_ones_are_kept_for_all(opener: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.desk.backends.sqlite.MOST_OUTCOMES", 2)
    one, other = opener(), opener()
    for at in (3, 1, 2):
        one.note(PlanOutcome(at, "a", "x", "fuzz"))
    assert [fared.time_ms for fared in other.noted()] == [2, 1]


def hows(desk: OpenWorkspace) -> list[tuple[str, str, str]]:
    return [(fared.member, fared.path, fared.how) for fared in reversed(desk.tally.noted())]


def test_only_what_was_not_written_as_shown_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    with open_workspace(str(tmp_path), Config(durability="fast")) as desk:
        given = {"path": "a.txt", "content": "x"}
        exact, carried, refused = (
            prepared(desk, "prepare_file_range_edit", by="fixer", range=line, **given)
            for line in "132"
        )
        desk.call("fixer", "apply_file_modification", {"hunk_id": exact})
        assert hows(desk) == []
        file.write_text("zero\nx\nTWO\nthree\n")
        for hunk in (carried, refused):
            desk.call("fixer", "apply_file_modification", {"hunk_id": hunk})
        assert hows(desk) == [("fixer", "a.txt", "fuzz"), ("fixer", "a.txt", "rejected")]
        both = [prepared(desk, path=name, by="fixer", content="x") for name in ("a.txt", "b.txt")]
        file.write_text("minus\n" + file.read_text())
        desk.call("fixer", "apply_file_modifications", {"hunk_ids": [*both, refused]})
        assert hows(desk)[2:] == [("fixer", "a.txt", "rejected")]
        desk.call("fixer", "apply_file_modifications", {"hunk_ids": both})
        assert hows(desk)[3:] == [("fixer", "a.txt", "fuzz")]


@pytest.mark.slow
def test_a_persons_no_is_noted_once_and_the_page_tells_all(tmp_path: Path) -> None:
    with room_at(tmp_path, desk_at(tmp_path)) as room:
        reader = room.reader()
        hunk = prepared(room.desk, path="a.txt", content="x")
        reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/reject", reason="no")
        room.desk.call("writer", "apply_file_modification", {"hunk_id": hunk})
        assert hows(room.desk) == [("writer", "a.txt", "rejected")]
        room.desk.call(
            "fixer", "prepare_file_append", {"path": "b.txt", "content": "x", "apply": "auto"}
        )
        text = Elements(reader.page("/trends")).text
        assert "writer001" in text, "exact, fuzz, rejected"
        assert "fixer100" in text
