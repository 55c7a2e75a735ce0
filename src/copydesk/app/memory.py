"""What a workspace remembers by: this process, the state folder, or a server of many machines.

What lives here: the three choices, each as one value. What must not: what is made
of them (`opening`). Invariant: what is not chosen is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from copydesk.app.config import Config
from copydesk.desk.bases import Bases, BasesBeside
from copydesk.desk.decisions import Decisions, MemoryDecisions
from copydesk.desk.journal import Journal, MemoryJournal
from copydesk.desk.lanes import Lanes
from copydesk.desk.registry import MemoryRegistry, Registry
from copydesk.desk.tally import MemoryTally, Tally
from copydesk.errors import Failed
from copydesk.store.state import StateFolder

if TYPE_CHECKING:
    from copydesk.desk.redis.server import Server


def _nothing() -> None:
    """Nothing is held, and nobody can take a turn away."""


def _unchanged() -> tuple[int, int]:
    """Nobody else is there."""
    return 0, 0


@dataclass(frozen=True, slots=True)
class Memory:
    """All that outlives a call. Files of this workspace are written with `lanes` alone.

    `state` is the state folder, where there is one. `decided_at` is the file that is
    written with each decision. `changes` is another pair when another process has
    changed plans or decided; `seen` is another value when anything was recorded, None
    where the files of the state folder tell that. `may_write` and `may_return` raise
    Failed when the thread that asks has lost a turn. `let_go` is called last.
    """

    registry: Registry
    decisions: Decisions
    tally: Tally
    journal: Journal
    bases: Bases
    lanes: Lanes
    state: StateFolder | None = None
    decided_at: str | None = None
    changes: Callable[[], tuple[int, int]] = _unchanged
    seen: Callable[[], object] | None = None
    may_write: Callable[[], None] = _nothing
    may_return: Callable[[], None] = _nothing
    let_go: Callable[[], None] = _nothing

    def close(self) -> None:
        """Let go of all that is held."""
        self.registry.close()
        self.decisions.close()
        self.tally.close()
        self.journal.close()
        self.bases.close()
        self.let_go()


def of_process(config: Config) -> Memory:
    """The memory of this process, which ends with it."""
    from copydesk.desk.snapshots_sqlite import SqliteSnapshots

    return Memory(
        MemoryRegistry(),
        MemoryDecisions(),
        MemoryTally(),
        MemoryJournal(),
        BasesBeside(SqliteSnapshots(":memory:", config.bases_bytes)),
        Lanes(),
    )


def shared_memory(root: str, config: Config) -> Memory:
    """What all processes share, in the state folder or on the server; raises Failed."""
    return _of_server(root, config) if config.registry == "redis" else _of_folder(root, config)


def _of_folder(root: str, config: Config) -> Memory:
    """The state folder, for the processes of one machine."""
    from copydesk.desk.decisions_sqlite import SqliteDecisions
    from copydesk.desk.journal_sqlite import SqliteJournal
    from copydesk.desk.registry_sqlite import SqliteRegistry
    from copydesk.desk.snapshots_sqlite import SqliteSnapshots
    from copydesk.desk.tally_sqlite import SqliteTally
    from copydesk.store.locks import FileLocks

    state = StateFolder(root, config.state)
    locks = FileLocks(state.folder("locks"))
    plans = SqliteRegistry(state.path("plans.sqlite"), locks)
    decided_at = state.path("decisions.sqlite")
    decisions = SqliteDecisions(decided_at, locks)
    tally = SqliteTally(state.path("tally.sqlite"), locks)
    durable = config.durability == "full"
    journal = SqliteJournal(state.path("journal.sqlite"), durable=durable, exclusion=locks)
    texts = SqliteSnapshots(
        state.path("snapshots.sqlite"),
        config.bases_bytes,
        exclusion=locks,
        discard=lambda: state.discard("snapshots.sqlite"),
    )
    state.discard("bases")  # where an earlier version kept each text in two files
    return Memory(
        plans,
        decisions,
        tally,
        journal,
        BasesBeside(texts),
        Lanes(locks),
        state,
        decided_at,
        changes=lambda: (plans.changes(), decisions.changes()),
        let_go=locks.close,
    )


def _of_server(root: str, config: Config) -> Memory:
    """A server, for many machines on one file system."""
    server = server_of(root, config)
    from copydesk.desk.redis.bases import RedisBases
    from copydesk.desk.redis.counts import Counts
    from copydesk.desk.redis.decisions import RedisDecisions
    from copydesk.desk.redis.journal import RedisJournal
    from copydesk.desk.redis.leases import Leases
    from copydesk.desk.redis.registry import RedisRegistry
    from copydesk.desk.redis.tally import RedisTally

    leases, counts = Leases(server, time.monotonic), Counts(server)

    def let_go() -> None:
        leases.close()
        server.close()

    return Memory(
        RedisRegistry(server, leases),
        RedisDecisions(server),
        RedisTally(server),
        RedisJournal(server, leases),
        BasesBeside(RedisBases(server, config.bases_bytes)),
        Lanes(leases),
        StateFolder(root, config.state),
        changes=counts.plans_and_decisions,
        seen=counts.all,
        may_write=leases.require,
        may_return=leases.require_for_return,
        let_go=let_go,
    )


def server_of(root: str, config: Config) -> Server:
    """The server that is configured; raises Failed. Nothing is sent yet."""
    if importlib.util.find_spec("redis") is None:
        raise Failed("use Redis", "its client is not installed: pip install 'copydesk[redis]'")
    from copydesk.desk.redis.server import Server

    return Server(config.redis_url, config.registry_name or name_of(root))


def name_of(root: str) -> str:
    """The name of a workspace where none is configured: machines that mount it alike agree."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
