"""Large files that changed since a plan was made: as small ones are carried, so are they."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config
from copydesk.app.opening import Opened, open_workspace
from copydesk.desk.outcome import Applied, Planned
from copydesk.edit.request import Anchor, Append, Insert, RangeEdit, Request
from copydesk.errors import Refusal
from copydesk.text import sizes
from copydesk.text.excerpt import Excerpt
from copydesk.text.snapshot import Snapshot
from test_large import PATH, TOOL, Desks, desks, numbered
from texts import LineEdit, files, requests

__all__ = ["desks"]


def prepared(desk: Opened, request: Request) -> Planned:
    plan = desk.desk.prepare(desk.member("local"), TOOL, request)
    assert isinstance(plan, Planned)
    return plan


def applied(desk: Opened, plan: Planned) -> str:
    """What the apply came to: how the plan stood, or why it was refused."""
    done = desk.desk.apply(desk.member("local"), "apply", plan.plan.id)
    return done.context if isinstance(done, Applied) else done.refusal.code


# By copydesk itself


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """A workspace in which a file of 100 KB is larger than what is compared."""
    for name, size in (("LARGE", 4 << 10), ("COMPARED", 8 << 10), ("BLOCK", 256), ("WINDOW", 2048)):
        monkeypatch.setattr(sizes, name, size)
    config = Config(durability="fast", whole_bytes=16 << 10)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        yield opened


def test_plans_on_other_lines_apply_in_any_order(desk: Opened, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    edits: list[tuple[Request, bytes, bytes]] = [
        (RangeEdit(PATH, "10~12", "one\n"), b"000010 of many lines\n000011 of many lines\n"
         b"000012 of many lines\n", b"one\n"),
        (RangeEdit(PATH, "13", ""), b"000013 of many lines\n", b""),
        (Insert(PATH, Anchor("004000"), "above\nbelow\n", "before"), b"004000", b"above\nbelow\n004000"),
        (RangeEdit(PATH, "5000", "end"), b"005000 of many lines", b"end"),
    ]  # fmt: skip
    expected = numbered(5000)
    for _, old, new in edits:
        expected = expected.replace(old, new)
    for order in permutations(range(len(edits))):
        path.write_bytes(numbered(5000))
        plans = [prepared(desk, edit) for edit, _, _ in edits]
        assert all(isinstance(plan.draft.base, Excerpt) for plan in plans)
        found = [applied(desk, plans[i]) for i in order]
        assert set(found) <= {"exact", "fuzz"}
        assert path.read_bytes() == expected


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (RangeEdit(PATH, "500", "other"), "CONTENT_CHANGED"),
        (RangeEdit(PATH, "499~501", "other"), "CONTENT_CHANGED"),
        (RangeEdit(PATH, "501", ""), "CONTENT_CHANGED"),
        (Insert(PATH, Anchor("000500"), "between", "after"), "CONTENT_CHANGED"),
        (Insert(PATH, Anchor("000501"), "under it", "after"), "fuzz"),
        (RangeEdit(PATH, "502", "other"), "fuzz"),
        (RangeEdit(PATH, "499", ""), "fuzz"),
        (RangeEdit(PATH, "499", "000500 of many lines\n000501 of many lines"), "fuzz"),
        (Append(PATH, "end"), "exact"),
    ],
)
def test_what_an_edit_before_it_does_to_a_plan(
    desk: Opened, tmp_path: Path, first: Request, code: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(numbered(5000))
    plan, other = prepared(desk, RangeEdit(PATH, "500~501", "new")), prepared(desk, first)
    applied(desk, other)
    before = path.read_bytes()
    assert applied(desk, plan) == code
    if code == "CONTENT_CHANGED":
        assert path.read_bytes() == before
    else:
        old = b"\n000500 of many lines\n000501 of many lines\n"
        at = before.rindex(old)
        assert path.read_bytes() == before[:at] + b"\nnew\n" + before[at + len(old) :]


@settings(max_examples=60)
@given(st.data(), files, st.sampled_from([8, 40, 1 << 20]))
def test_both_ways_carry_through_edits_of_copydesk(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, text: bytes, block: int
) -> None:
    """The way in parts carries as the way of the whole does, to the same bytes, or refuses.

    It has no lines to compare where a larger range was replaced as a whole.
    """
    edits: list[LineEdit] = data.draw(
        st.lists(requests(Snapshot.of(text)), min_size=2, max_size=4), "edits"
    )
    order = data.draw(st.permutations(range(len(edits))), "order")
    with Desks(tmp_path_factory.mktemp("any")) as desks:
        desks.write(text)
        found = [_outcomes(desks.opened[0], edits, order)]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sizes, "LARGE", 0)
            patched.setattr(sizes, "BLOCK", block)
            found.append(_outcomes(desks.opened[1], edits, order))
        for one, other in zip(*found, strict=True):
            if other == "CONTENT_CHANGED" != one:
                return
            assert one == other
        after = [(root / "a.txt").read_bytes() for root in desks.roots]
        assert after[0] == after[1]


def _outcomes(desk: Opened, edits: Sequence[LineEdit], order: Sequence[int]) -> list[str]:
    plans: list[Planned | str] = []
    for edit in edits:
        try:
            plans.append(prepared(desk, edit))
        except Refusal as refusal:
            plans.append(refusal.code)
    chosen = [plans[i] for i in order]
    return [plan if isinstance(plan, str) else applied(desk, plan) for plan in chosen]
