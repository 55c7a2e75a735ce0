"""A model of many machines: a queueing network of cores and journals, simulated event by event.

Its input is the service times measured for a single agent; it knows nothing of caches, networks
or a shared host.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """Mean seconds of one call: on a core, waiting alone (the file's flush), and with the journal
    held: on a core, and waiting (the journal's flush). `served`: on the journal's own machine."""

    cpu: float
    wait: float
    held_cpu: float
    held_wait: float
    served: bool


@dataclass(frozen=True)
class Outcome:
    """Calls a second, the 99th percentile in seconds, and how much a journal is held."""

    rate: float
    p99: float
    held: float


class _Station:
    """A number of servers with one first-come, first-served queue."""

    def __init__(self, servers: int) -> None:
        self.free, self.queue = servers, deque[Callable[[], None]]()

    def take(self, then: Callable[[], None]) -> None:
        """Go on once one is free."""
        if self.free:
            self.free -= 1
            then()
        else:
            self.queue.append(then)

    def give(self) -> None:
        """One is free again."""
        if self.queue:
            self.queue.popleft()()
        else:
            self.free += 1


def simulate(
    call: Call,
    *,
    agents: int,
    machines: int,
    partitions: int,
    cores: int,
    think: float = 0.0,
    seconds: float = 20.0,
) -> Outcome:
    """Agents that call, think and call again; each in one partition (a workspace with a journal).

    Partitions and agents are dealt out to the machines in turn. All times are drawn from
    exponential distributions, with a fixed seed. The first tenth is not counted.
    """
    draw, order = random.Random(20260728), itertools.count()
    events: list[tuple[float, int, Callable[[], None]]] = []
    hosts = [_Station(cores) for _ in range(machines)]
    servers = [_Station(cores) for _ in range(partitions if call.served else 0)]
    journals = [_Station(1) for _ in range(partitions)]
    now, held, took = 0.0, 0.0, list[float]()

    def after(mean: float, then: Callable[[], None]) -> None:
        due = now + (draw.expovariate(1 / mean) if mean > 0 else 0.0)
        heapq.heappush(events, (due, next(order), then))

    def on_core(host: _Station, mean: float, then: Callable[[], None]) -> None:
        def done() -> None:
            host.give()
            then()

        host.take(lambda: after(mean, done))

    def agent(number: int) -> None:
        partition = number % partitions
        journal = journals[partition]
        # an agent is where its workspace is, unless a server has the journal
        host = hosts[number % machines if call.served else partition % machines]
        keeper = servers[partition] if call.served else host
        began = since = 0.0

        def begin() -> None:
            nonlocal began
            began = now
            on_core(host, call.cpu, lambda: after(call.wait, lambda: journal.take(hold)))

        def hold() -> None:
            nonlocal since
            since = now
            on_core(keeper, call.held_cpu, lambda: after(call.held_wait, let_go))

        def let_go() -> None:
            nonlocal held
            journal.give()
            if now > seconds / 10:
                held += now - since
                took.append(now - began)
            after(think, begin)

        after(think, begin)

    for number in range(agents):
        agent(number)
    while events and events[0][0] < seconds:
        now, _, then = heapq.heappop(events)
        then()
    span = seconds * 0.9
    took.sort()
    p99 = took[int(len(took) * 0.99)] if took else 0.0
    return Outcome(len(took) / span, p99, held / span / partitions)
