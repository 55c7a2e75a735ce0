"""Killed at a system call between the flushed intent and the done mark, whichever it is.

The barrier is strace, the judge another desk in a process of its own: `bench/kills`, of which this
takes some of the points; `make kills` takes all.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.crowd import redis_server
from bench.kills.barrier import CHANGING, ROOM, Point, Way, missing
from bench.kills.deeds import DEEDS, STATE
from bench.kills.run import Act, Outcome, Place, attempt, placed, points

from support.redis_servers import RedisServer, running

POINTS = 4
"""Of each kind of write and each backend."""

Told = Callable[[str, object], None]


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("kills")
    with contextlib.ExitStack() as ended:
        server = None
        if request.param == "redis":
            server = ended.enter_context(redis_server(folder / "redis"))
            if server is None:
                pytest.skip("there is no redis-server (Debian: apt-get install redis-server)")
        yield ended.enter_context(placed(folder, server))


def some(of: list[Point], most: int) -> list[Point]:
    """So many of them, evenly spread, the first and the last among them."""
    step = max((len(of) - 1) / (most - 1), 1)
    return [of[round(at * step)] for at in range(most) if round(at * step) < len(of)]


def found_wrong(outcomes: list[Outcome]) -> list[str]:
    return [
        f"{one.call} {one.at}, {one.looking}: {one.verdict.wrong}"
        for one in outcomes
        if one.verdict.wrong
    ]


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS)
def test_killed_at_a_system_call(place: Place, deed: str, record_property: Told) -> None:
    """Old or new bytes whole, all or none, a true history, one apply, nothing left, undo works."""
    outcomes: list[Outcome] = []
    killed = Counter[str]()
    for _ in range(4):  # on a busy machine the calls of another run may be others: then once more
        alone = points(place, deed)
        outcomes += (
            attempt(place, deed, "killed", point, last=alone.marks)[0]
            for point in some(alone.around(0)[1:], POINTS)
        )
        assert found_wrong(outcomes) == []
        killed = Counter(one.phase for one in outcomes)
        if killed["between"] >= POINTS // 2:
            break
    became = Counter(one.verdict.became for one in outcomes)
    record_property("told", f"{deed}: killed {dict(killed)}, became {dict(became)}")
    assert killed["between"] >= POINTS // 2, "calls of another run are others"
    assert set(became) <= {"all", "none"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["EIO", "ENOSPC", "full"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_system_call_is_refused(place: Place, deed: str, way: Way, record_property: Told) -> None:
    """What is answered is so, while the process lives and afterwards."""
    if place.server is not None:
        pytest.skip("a server's own disk is its own matter")
    calls = CHANGING if way == "EIO" else ROOM
    alone = points(place, deed, calls)
    drawn = some(alone.around(len(alone.calls)), POINTS // 2)
    outcomes = [attempt(place, deed, way, each, calls=calls, last=alone.marks)[0] for each in drawn]
    assert found_wrong(outcomes) == []
    became = Counter(one.verdict.became for one in outcomes)
    record_property("told", f"{deed}, {way}: {len(outcomes)} refused, became {dict(became)}")
    assert set(became) <= {"all", "none"}


def stopped(place: Place, deed: str, act: Act, then: Act | None = None) -> Counter[str]:
    """Something happens to the state while a write stands at a call, whichever it is."""
    alone = points(place, deed)
    outcomes = [
        attempt(place, deed, "stopped", point, last=alone.marks, act=act, then=then)[0]
        for point in some(alone.around(0)[1:], POINTS // 2)
    ]
    assert found_wrong(outcomes) == []
    return Counter(one.verdict.became for one in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["edit", "several", "all kinds", "undo"])
def test_the_state_folder_is_deleted_at_a_system_call(
    tmp_path: Path, deed: str, record_property: Told
) -> None:
    """All or none, as it is answered."""
    if reason := missing():
        pytest.skip(reason)
    with placed(tmp_path) as place:
        became = stopped(place, deed, lambda place: shutil.rmtree(place.root / STATE))
    record_property("told", f"{deed}, state deleted: {dict(became)}")


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    """A server that a test may flush and end."""
    if reason := missing():
        pytest.skip(reason)
    with running() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flushed", "killed", "restarted"])
@pytest.mark.parametrize("deed", ["edit", "several", "all kinds", "undo"])
def test_the_server_loses_its_data_or_its_life_at_a_system_call(
    tmp_path: Path,
    own_server: RedisServer,
    deed: str,
    how: str,
    record_property: Told,
) -> None:
    """All or none, as it is answered, or told as in doubt."""

    def flush(_: Place) -> None:
        own_server.command("FLUSHALL")

    def kill(_: Place) -> None:
        own_server.kill()

    def start(_: Place) -> None:
        if own_server.process is None:
            own_server.start()

    def restart(place: Place) -> None:
        kill(place)
        start(place)

    act = {"flushed": flush, "killed": kill, "restarted": restart}[how]
    with placed(tmp_path, own_server) as place:
        became = stopped(place, deed, act, start)
    record_property("told", f"{deed}, server {how}: {dict(became)}")
