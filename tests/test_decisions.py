"""The contract of decisions, for all stores of them; who approves by the policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.desk.backends.api import PLANS_KEPT, Decision
from copydesk.desk.backends.sqlite import Database, SqliteRecords
from copydesk.desk.member import Approver, HumanReason, Policy
from copydesk.errors import StateFailed
from copydesk.store.state import Mark, StateFile
from copydesk.text.relpath import RelPath
from support.records import STORES, Open, opener_of


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    yield from opener_of(request, tmp_path)


def decision(
    hunk: str = "aaaaaaaa", prepared_ms: int = 1, by: str = "eve", time_ms: int = 10
) -> Decision:
    """An approval of ann's plan."""
    return Decision((hunk, prepared_ms), "ann", "a.txt", "approved", by, time_ms, "b0", "a0", "ok")


def test_the_first_decision_stands(opener: Open) -> None:
    one, other = opener(), opener()
    first = decision()
    assert one.of(first.plan) is None
    assert one.take(first) == first
    assert other.take(replace(decision(by="bob"), verdict="rejected")) == first
    assert other.of(first.plan) == first


def test_of_many_that_decide_at_once_all_hear_of_the_same(opener: Open) -> None:
    stores = [opener() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        took = list(pool.map(lambda k: stores[k].take(decision(by=f"p{k}")).by, range(8)))
    assert len(set(took)) == 1


def test_what_was_withdrawn_can_be_decided_on_again(opener: Open) -> None:
    decisions = opener()
    first = decisions.take(decision())
    assert decisions.of(("aaaaaaaa", 2)) is None, "a plan prepared anew is another"
    decisions.withdraw(first)
    later = decisions.take(decision(time_ms=20, by="bob"))
    decisions.withdraw(first)  # no longer the one that stands
    assert decisions.of(first.plan) == later


def test_the_owner_hears_of_each_once(opener: Open) -> None:
    one, other = opener(), opener()
    late, early = decision("bbbbbbbb", time_ms=20), decision("cccccccc", time_ms=5)
    for each in (late, early, replace(decision("dddddddd"), owner="bob")):
        one.take(each)
    assert other.untold("ann") == (early, late)
    other.tell(early)
    assert one.untold("ann") == (late,)
    assert one.of(early.plan) == replace(early, told=True)


def test_comments_are_many_and_decide_nothing(opener: Open) -> None:
    one, other = opener(), opener()
    said = [
        replace(decision(hunk, -ms, time_ms=ms), verdict="commented", after=line)
        for hunk, ms, line in (("aaaaaaaa", 7, "+3"), ("aaaaaaaa", 8, ""), ("bbbbbbbb", 7, "-1"))
    ]
    for each in said:
        assert one.take(each) == each
    assert one.take(replace(said[0], reason="at the same moment")) == said[0]
    assert other.comments("aaaaaaaa") == tuple(said[:2])
    assert other.comments("cccccccc") == ()
    assert other.of(("aaaaaaaa", 7)) is None
    assert set(other.untold("ann")) == set(said)
    other.tell(said[0])
    assert one.comments("aaaaaaaa")[0].told
    other.withdraw(said[1])
    assert one.comments("aaaaaaaa") == (replace(said[0], told=True),)


@pytest.mark.slow
def test_old_decisions_are_forgotten_but_the_last_ones_are_not(opener: Open) -> None:
    decisions = opener()
    old = decisions.take(decision(time_ms=5))
    kept = decisions.take(decision("bbbbbbbb", time_ms=6))
    decisions.forget(7)
    assert (decisions.of(old.plan), decisions.of(kept.plan)) == (old, kept)
    for number in range(PLANS_KEPT - 1):
        decisions.take(decision(f"{number:08x}", time_ms=9))
    decisions.forget(6)
    assert (decisions.of(("aaaaaaaa", 1)), decisions.of(kept.plan)) == (None, kept)


def test_the_decisions_on_many_plans_are_those_on_each(opener: Open) -> None:
    decisions = opener()
    assert decisions.of_all([]) == {}
    taken = [decisions.take(decision(f"{number:08x}", 3, time_ms=number)) for number in range(5)]
    decisions.take(decision("00000007", -4))
    asked = [*(one.plan for one in taken[1:]), ("ffffffff", 1), ("00000001", 4)]
    assert decisions.of_all(asked) == {one.plan: decisions.of(one.plan) for one in taken[1:]}


Rules = tuple[tuple[Callable[[RelPath], bool], Approver], ...]


def below(folder: str) -> Callable[[RelPath], bool]:
    """Whether a path is in a folder."""
    return lambda path: path.parts[:1] == (folder,)


MIXED: Rules = ((below("src"), "human"), (below("docs"), "self"))
OVERRULED: Rules = ((below("src"), "human"), (below("src"), "self"))


WHO_APPROVES: list[tuple[Policy, str, int, int, HumanReason | None]] = [
    (Policy(), "a", 10**6, 100, None),
    (Policy("human"), "a", 0, 1, "member"),
    (Policy("self", MIXED), "src/a", 1, 1, "path"),
    (Policy("self", MIXED), "docs/a", 1, 1, None),
    (Policy("human", MIXED), "docs/a", 1, 1, None),
    (Policy("human", MIXED), "b", 1, 1, "member"),
    (Policy("self", OVERRULED), "src/a", 1, 1, None),
    (Policy(most_lines=10), "a", 10, 1, None),
    (Policy(most_lines=10), "a", 11, 1, "lines"),
    (Policy(most_lines=0), "a", 1, 1, "lines"),
    (Policy(most_files=2), "a", 1, 2, None),
    (Policy(most_files=2), "a", 1, 3, "files"),
    (Policy("human", MIXED, 5), "docs/a", 6, 1, "lines"),
]


def test_who_approves() -> None:
    for policy, path, lines, files, why in WHO_APPROVES:
        assert policy.human_reason(RelPath.parse(path), lines, files) == why, (policy, path)
        assert not (policy.asks_nobody and why)


@pytest.mark.slow
def test_news_are_never_missed_for_the_time_of_a_file(tmp_path: Path) -> None:
    """What another process decides is seen, however soon after the last look."""
    path, decided = str(tmp_path / "state.sqlite"), tmp_path / "decided"
    other, told = (SqliteRecords(Database(StateFile(path)), Mark(str(decided))) for _ in range(2))
    assert told.untold("ann") == ()  # it makes the file
    for number in range(300):
        if number % 7 == 0:  # as if it was written long ago: the look is remembered
            os.utime(decided, ns=(number, number))
        assert told.untold("ann") == ()
        assert told.untold("ann") == ()
        one = decision(f"{number:08x}", time_ms=number)
        other.take(one)
        assert told.untold("ann") == (one,)
        assert told.untold("bob") == ()
        told.tell(one)
    other.close()
    told.close()


def test_nothing_is_decided_that_cannot_be_marked(tmp_path: Path) -> None:
    """Other processes would never hear of it."""
    (tmp_path / "decided").mkdir()
    database = Database(StateFile(str(tmp_path / "state.sqlite")))
    decisions = SqliteRecords(database, Mark(str(tmp_path / "decided")))
    with pytest.raises(StateFailed):
        decisions.take(decision())
    assert decisions.of(decision().plan) is None
    decisions.close()


def test_asking_for_news_takes_no_transaction_while_nobody_decides(tmp_path: Path) -> None:
    looks: list[str] = []

    class Looking(Database):
        def rows(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
            looks.append(statement)
            return super().rows(statement, values)

    decided = tmp_path / "decided"
    told = SqliteRecords(Looking(StateFile(str(tmp_path / "state.sqlite"))), Mark(str(decided)))
    told.untold("ann")
    os.utime(decided, ns=(1, 1))
    assert [told.untold("ann") for _ in range(5)] == [()] * 5
    assert len(looks) == 2
    told.close()
