"""The contract of registries, for every registry that there is."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from copydesk.desk.backends.api import (
    ENDED_KEPT_MS,
    PLANS_KEPT,
    SCHEMA,
    Decision,
    Records,
    drop_plans,
)
from copydesk.desk.backends.redis import RedisRecords, Script
from copydesk.desk.backends.sqlite import FORGET_EVERY_MS, Database, SqliteRecords
from copydesk.edit.draft import Ended, Plan
from copydesk.edit.request import Place, RangeEdit
from copydesk.errors import HunkNotFound, ServerFailed
from copydesk.store.state import StateFile
from copydesk.text.relpath import RelPath
from support.cost import sqlite_steps
from support.records import KEPT, STORES, Open, opener_of
from support.redis_calls import connections

NOW = 1_000_000


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    yield from opener_of(request, tmp_path)


@pytest.fixture
def registry(opener: Open) -> Records:
    """One registry."""
    return opener()


def plan(hunk_id: str, created: int = NOW, *, lasts: int = 1_000, content: str = "x\n") -> Plan:
    """A plan of that age."""
    return Plan(
        id=hunk_id,
        owner="ann",
        toolset="ws_mod",
        tool="prepare_file_range_edit",
        request=RangeEdit(RelPath(("a", "b.txt")), "1~2", content),
        place=Place(0, 2, (0, 2)),
        action="replace",
        base_digest="0" * 64,
        diff_digest="f" * 64,
        created_ms=created,
        expires_ms=created + lasts,
    )


A, B, C = plan("aaaaaaaa", NOW + 2), plan("bbbbbbbb", NOW), plan("cccccccc", NOW)
ENDS: tuple[Ended, ...] = ("applied", "discarded", "expired")


def check_plan(registry: Records, hunk_id: str, expected: Plan | str, now: int = NOW + 5) -> None:
    """What `get` gives, or the reason why it gives nothing."""
    found: Plan | str
    try:
        found = registry.plan(hunk_id, now)
    except HunkNotFound as refusal:
        found = f"{refusal.reason} {refusal.hunk_id}"
    assert found == (f"{expected} {hunk_id}" if isinstance(expected, str) else expected)


def test_what_was_added_is_there_and_an_id_is_taken_once(registry: Records) -> None:
    check_plan(registry, A.id, "unknown")
    assert registry.add(A)
    assert registry.add(B)
    assert not registry.add(replace(A, owner="bob"))
    check_plan(registry, A.id, A)
    check_plan(registry, B.id, B)


@pytest.mark.parametrize("how", ENDS)
def test_a_plan_that_ended_is_gone_and_it_is_known_how(registry: Records, how: Ended) -> None:
    registry.add(A)
    registry.end(A.id, how, NOW + 3)
    check_plan(registry, A.id, how)
    check_plan(registry, A.id, how, A.expires_ms + 1)
    assert not registry.add(A)
    check_plan(registry, A.id, how)
    assert registry.waiting(NOW + 5) == ()


@pytest.mark.parametrize("how", ENDS)
def test_only_what_was_applied_can_wait_again(registry: Records, how: Ended) -> None:
    assert not registry.reopen(A)
    registry.add(A)
    assert not registry.reopen(A)
    registry.end(A.id, how, NOW + 3)
    anew = replace(A, created_ms=NOW + 4, expires_ms=NOW + 2_000)
    assert registry.reopen(anew) is (how == "applied")
    check_plan(registry, A.id, anew if how == "applied" else how)
    assert registry.waiting(NOW + 5) == ((anew,) if how == "applied" else ())
    assert not registry.reopen(anew)


def test_what_was_never_added_can_have_ended(registry: Records) -> None:
    registry.end(A.id, "applied", NOW)
    check_plan(registry, A.id, "applied")


def test_a_plan_expires_at_its_time_and_not_before(registry: Records) -> None:
    registry.add(A)
    check_plan(registry, A.id, A, A.expires_ms - 1)
    check_plan(registry, A.id, "expired", A.expires_ms)
    check_plan(registry, A.id, "expired", A.expires_ms + 10)
    assert registry.waiting(A.expires_ms) == ()


def test_put_replaces_a_plan_that_waits(registry: Records) -> None:
    registry.add(A)
    anew = plan(A.id, NOW + 4, content="other\n")
    registry.put(anew)
    check_plan(registry, A.id, anew)
    check_plan(registry, A.id, anew, A.expires_ms)
    assert registry.waiting(NOW + 5) == (anew,)


def refused_put(registry: Records, anew: Plan) -> str:
    with pytest.raises(HunkNotFound) as refused:
        registry.put(anew)
    return refused.value.reason


@pytest.mark.parametrize("how", ENDS)
def test_put_does_not_bring_back_what_ended(registry: Records, how: Ended) -> None:
    assert refused_put(registry, A) == "unknown"
    registry.add(A)
    registry.add(B)
    assert refused_put(registry, plan(B.id, B.expires_ms)) == "expired"
    registry.end(A.id, how, NOW + 3)
    assert refused_put(registry, plan(A.id, NOW + 4)) == how
    check_plan(registry, A.id, how)


def test_those_that_wait_come_by_age_then_by_id(registry: Records) -> None:
    gone, old = plan("dddddddd"), plan("eeeeeeee", NOW - 10, lasts=11)
    for each in (A, C, B, gone, old):
        registry.add(each)
    registry.end(gone.id, "discarded", NOW)
    assert registry.waiting(NOW) == (old, B, C, A)
    assert registry.waiting(NOW + 5) == (B, C, A)


def test_two_connections_see_each_other(opener: Open) -> None:
    one, other = opener(), opener()
    one.add(A)
    check_plan(other, A.id, A)
    assert not other.add(A)
    anew = plan(A.id, NOW + 4)
    other.put(anew)
    check_plan(one, A.id, anew)
    other.end(A.id, "applied", NOW + 5)
    check_plan(one, A.id, "applied")
    assert one.waiting(NOW + 5) == ()


def test_an_id_is_taken_once_among_many_threads(opener: Open) -> None:
    """Each thread adds all ids in its own order; every id is taken by one of them."""
    plans = [plan(f"{i:08x}") for i in range(20)]
    taken: list[str] = []
    start = threading.Barrier(4)

    def work(turn: int) -> None:
        registry = opener()
        start.wait()
        for i in range(len(plans)):
            each = plans[(i * (2 * turn + 1)) % len(plans)]
            if registry.add(each):
                taken.append(each.id)

    first = opener()
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, i) for i in range(4)]:
            done.result()
    assert sorted(taken) == [each.id for each in plans]
    assert first.waiting(NOW) == tuple(plans)


@pytest.mark.parametrize("opener", KEPT, indirect=True)
def test_plans_survive_the_process(opener: Open) -> None:
    first = opener()
    for each in (A, B, C):
        first.add(each)
    first.end(B.id, "applied", NOW + 1)
    first.close()
    again = opener()
    check_plan(again, A.id, A)
    check_plan(again, B.id, "applied")
    check_plan(again, C.id, "expired", C.expires_ms)
    assert again.waiting(NOW + 5) == (C, A)


@pytest.mark.slow
@pytest.mark.parametrize("opener", KEPT, indirect=True)
def test_a_correction_is_known_as_one_to_all_processes(opener: Open) -> None:
    one, other, fixed = opener(), opener(), replace(A, is_correction=True)
    one.add(fixed)
    drop_plans()
    check_plan(other, A.id, fixed)
    assert other.waiting(NOW + 5) == (fixed,)
    other.put(A)
    drop_plans()
    check_plan(one, A.id, A)


def test_an_end_is_forgotten_soon_after_a_day_but_the_last_ones_are_not(registry: Records) -> None:
    registry.add(A)
    registry.end(A.id, "applied", NOW)
    registry.add(plan("bbbbbbbb", NOW + ENDED_KEPT_MS))
    check_plan(registry, A.id, "applied")
    registry.add(plan("cccccccc", NOW + ENDED_KEPT_MS + FORGET_EVERY_MS + 1))
    check_plan(registry, A.id, "applied")
    for number in range(PLANS_KEPT):
        registry.add(plan(f"{number:08x}", NOW + ENDED_KEPT_MS + FORGET_EVERY_MS + 1))
    registry.add(plan("dddddddd", NOW + ENDED_KEPT_MS + 2 * FORGET_EVERY_MS + 2))
    check_plan(registry, A.id, "unknown")


@pytest.mark.parametrize("kind", KEPT)
def test_every_change_is_seen(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "state.sqlite")
    if kind == "redis":
        server, leases = connections(request)()
        one: Records = RedisRecords(server, leases)
        changes = one.changes
    else:
        one, other = (SqliteRecords(Database(StateFile(path))) for _ in range(2))
        changes = other.changes
    seen = [changes()]
    for change in (
        lambda: one.add(A),
        lambda: one.put(plan(A.id, NOW + 3)),
        lambda: one.end(A.id, "applied", NOW + 4),
    ):
        change()
        seen.append(changes())
    assert len(set(map(str, seen))) == len(seen)
    one.waiting(NOW)
    assert changes() == seen[-1]
    one.close()


def test_a_plan_of_a_newer_build_is_refused_plainly(request: pytest.FixtureRequest) -> None:
    server, leases = connections(request)()
    registry, one = RedisRecords(server, leases), plan("00000001")
    registry.add(one)
    pack: Callable[[object], bytes] = msgpack.packb
    newer = pack([SCHEMA + 1, {}, None])
    record = zlib.crc32(newer).to_bytes(4, "big") + newer
    put = "redis.call('HSET', p .. 'plan:' .. ARGV[1], 'plan', ARGV[2])"
    server.call(Script(put), one.id, record)
    with pytest.raises(
        ServerFailed, match=f"schema {SCHEMA + 1}; this build reads schema {SCHEMA}"
    ):
        registry.plan(one.id, one.created_ms)
    assert registry.waiting(one.created_ms) == ()


@pytest.mark.slow
def test_a_decision_is_known_as_long_as_its_plan_waits(registry: Records) -> None:
    waits, over = plan("aaaaaaaa", lasts=10_000), plan("bbbbbbbb", lasts=1_000)
    for one in (waits, over):
        registry.add(one)
        made = Decision((one.id, -NOW), "ann", "a", "commented", "eve", NOW, reason="so")
        registry.take(made)
        registry.take(replace(made, plan=(one.id, NOW), verdict="approved"))
    for number in range(PLANS_KEPT):
        registry.take(Decision((f"{number:08x}", 1), "ann", "a", "approved", "eve", NOW + 9_000))
    registry.forget(NOW + 5_000)
    assert (len(registry.comments("aaaaaaaa")), len(registry.comments("bbbbbbbb"))) == (1, 0)
    assert registry.of(("aaaaaaaa", NOW)) is not None
    assert registry.of(("bbbbbbbb", NOW)) is None
    registry.forget(NOW + 10_001)
    assert registry.of(("aaaaaaaa", NOW)) is None


def test_plans_that_ended_cost_nothing() -> None:
    """What waits is found with the same work, however many plans have ended since."""

    def steps(ended: int) -> int:
        db = Database()
        registry = SqliteRecords(db)
        registry.add(plan("aaaaaaaa"))
        for number in range(ended):
            registry.add(plan(f"b{number:07x}"))
            registry.end(f"b{number:07x}", "applied", NOW + 1)
        found = sqlite_steps(db, lambda: registry.waiting(NOW))
        registry.close()
        return found

    assert steps(300) <= steps(30) + 20
