"""Leases: held by one, renewed, run out with their holder, and who lost one may not write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from copydesk.desk.backends import redis as redis_backend
from copydesk.desk.backends.redis import Leases, Script, Server
from copydesk.errors import LockLost, ServerFailed
from copydesk.store.threads import LockQueues, Ticket, inode_key
from support.locking import SOON, order_of, until
from support.redis_calls import connections
from support.redis_servers import LONG_MS, running

_END = Script("return redis.call('PEXPIRE', p .. 'lease:' .. ARGV[1], ARGV[2])")
_LEFT = Script("return redis.call('PTTL', p .. 'lease:' .. ARGV[1])")

Connect = Callable[[], tuple[Server, Leases]]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Connect:
    return connections(request)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is woken or fails: it does not look by itself."""
    monkeypatch.setattr(redis_backend, "PATIENCE_SECONDS", 8 * SOON)
    monkeypatch.setattr(redis_backend, "_LONGEST_WAIT_SECONDS", 4 * SOON)


@dataclass
class Clock:
    """A clock that a test sets, in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def lost(server: Server, key: str, after_ms: int = 0) -> None:
    """The lease runs out now, or soon, though it was given for longer."""
    assert server.call(_END, key, after_ms) == 1


@dataclass
class Waiter:
    """A thread that waits for a key, says when it has it, and keeps it until it is told."""

    leases: Leases
    key: str = "file"
    has: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        with self.leases.hold(self.key):
            self.has.set()
            assert self.go.wait(SOON)


@pytest.mark.usefixtures("patient")
def test_a_lease_is_held_by_one(connect: Connect) -> None:
    _, one = connect()
    _, other = connect()
    with one.hold("file"):
        waiter = Waiter(other)
        with other.hold("another file"):
            assert not waiter.has.wait(0.1)
    assert waiter.has.wait(SOON), "who lets go wakes who waits"
    assert [key for key, _ in one.held()] == []
    waiter.go.set()
    waiter.thread.join(SOON)


def test_tokens_grow_and_no_two_leases_are_the_same(connect: Connect) -> None:
    _, one = connect()
    _, other = connect()
    values: list[str] = []
    for leases in (one, other, one):
        with leases.hold("a"), leases.hold("b"):
            values += [value for _, value in leases.held()]
    tokens = [int(value.partition(":")[0]) for value in values]
    assert tokens == sorted(set(tokens))
    assert len({value.partition(":")[2] for value in values}) == 6


def test_one_key_may_be_held_twice_by_one_thread(connect: Connect) -> None:
    """Two inodes of two devices are one for all machines: each numbers devices in its own way."""
    server, leases = connect()
    with leases.hold(inode_key(1, 7)):
        with leases.hold(inode_key(2, 7)):
            assert len(leases.held()) == 1
        leases.require()
    assert leases.held() == ()
    assert server.call(_LEFT, "\0inode 7") == -2


def test_a_lease_is_renewed_while_it_is_held(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_backend, "_RENEWALS", LONG_MS / 10)
    server, leases = connect()
    with leases.hold("file"):
        for _ in range(3):
            lost(server, "file", after_ms=LONG_MS // 2)
            until(lambda: LONG_MS // 2 < server.call(_LEFT, "file") <= LONG_MS)
        leases.require()
    assert server.call(_LEFT, "file") == -2


@pytest.mark.slow
def test_a_lease_that_nobody_renews_runs_out_and_its_holder_may_not_write(
    connect: Connect,
) -> None:
    (server, one), (_, other) = connect(), connect()
    with one.hold("file"), one.hold("kept"):
        assert 0 < server.call(_LEFT, "file") <= LONG_MS
        one.close()  # as if the process stood still
        lost(server, "file", after_ms=100)
        with other.hold("file"):
            with pytest.raises(LockLost) as refused:
                one.require()
            assert "file" in refused.value.reason
            with pytest.raises(LockLost):
                one.require_for_return()
            other.require()
        with pytest.raises(LockLost):
            one.require()  # nobody has it, but somebody had
    with one.hold("file"):
        one.require()
    assert server.call(_LEFT, "file") == -2


def test_closing_waits_for_the_renewal_that_is_under_way(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connections are closed next, and not under somebody who reads from one."""
    monkeypatch.setattr(redis_backend, "_RENEWALS", LONG_MS / 10)
    server, leases = connect()
    renews, go = threading.Event(), threading.Event()
    renewed: list[bool] = []
    renew_once = leases._renew_once

    def slowly(held: Sequence[Any]) -> None:
        renews.set()
        assert go.wait(SOON)
        renew_once(held)
        renewed.append(True)

    leases._renew_once = slowly  # type: ignore[method-assign]
    with leases.hold("file"):
        assert renews.wait(SOON)
        closing = threading.Thread(target=leases.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        go.set()
        closing.join(SOON)
        assert renewed
    server.close()


def test_who_lets_go_of_a_lost_lease_takes_it_from_nobody(connect: Connect) -> None:
    (server, one), (_, other) = connect(), connect()
    with one.hold("file"):
        lost(server, "file")
        waiter = Waiter(other)
        assert waiter.has.wait(SOON)
    assert server.call(_LEFT, "file") > 0
    waiter.go.set()
    waiter.thread.join(SOON)


def test_a_fenced_step_does_nothing_for_who_lost_a_lease(connect: Connect) -> None:
    server, leases = connect()
    step = Script("return redis.call('INCR', p .. 'steps')", fenced=True)
    with leases.hold("a"), leases.hold("b c"):
        assert leases.fenced(step) == 1
        lost(server, "b c")
        with pytest.raises(LockLost) as refused:
            leases.fenced(step)
        assert "b c" in refused.value.reason
    assert leases.fenced(step) == 2, "who holds nothing needs nothing"


@pytest.mark.parametrize(
    ("seconds", "asked", "raises"),
    [
        ([3, 3], 2, LockLost),
        ([3, 0], 2, None),  # a server that stood still: nobody has had the turn since
        ([0, 4], 1, None),
        ([-0.1, 0], 2, None),  # a connection to a server that was restarted
        ([-0.1, -0.1], 2, ServerFailed),
        ([-4, 0], 1, ServerFailed),  # no time is left to ask again
    ],
)
def test_who_writes_asks_twice_while_there_is_time(
    request: pytest.FixtureRequest,
    seconds: list[float],
    asked: int,
    raises: type[Exception] | None,
) -> None:
    """So long each answer takes; a negative one fails after that time."""
    server, _ = connections(request)()
    clock, count = Clock(), 0
    leases = Leases(server, clock)
    ask = leases.fenced

    def slow(*given: object) -> object:
        nonlocal count
        took = seconds[count]
        count += 1
        clock.now += abs(took)
        if took < 0:
            raise ServerFailed("use Redis", "it does not answer")
        return ask(*given)  # type: ignore[arg-type]

    with leases.hold("file"):
        leases.fenced = slow  # type: ignore[method-assign, assignment]
        with pytest.raises(raises) if raises else nullcontext():
            leases.require()
        assert count == asked
    leases.close()


def test_without_the_server_one_may_go_back_for_a_while_but_not_on() -> None:
    clock = Clock()
    with running() as server:
        connection = Server(server.url, "test")
        leases = Leases(connection, clock)
        with leases.hold("file"):
            server.kill()
            with pytest.raises(ServerFailed) as refused:
                leases.require()
            assert server.url in refused.value.reason
            leases.require_for_return()
            clock.now += 4
            with pytest.raises(LockLost):
                leases.require_for_return()
        with pytest.raises(ServerFailed), leases.hold("other"):
            pass
        assert leases.held() == ()
        leases.close()
        connection.close()


def test_tickets_decide_the_order_within_a_process(connect: Connect) -> None:
    tickets: list[Ticket] = [(3, "a"), (1, "b"), (2, "a"), (1, "a")]
    assert order_of(LockQueues(connect()[1]), tickets) == sorted(tickets)


@pytest.mark.usefixtures("patient")
def test_of_many_that_wait_each_has_its_turn_soon(connect: Connect) -> None:
    """Nobody sleeps until a lease would have run out: a turn is passed on at once."""
    inside: list[int] = []
    turns: list[int] = []

    def work(leases: Leases) -> None:
        for _ in range(25):
            with leases.hold("file"):
                inside.append(1)
                assert len(inside) == 1
                turns.append(1)
                inside.pop()

    threads = [threading.Thread(target=work, args=(connect()[1],), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert len(turns) == 100
