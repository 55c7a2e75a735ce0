"""What a workspace remembers by: this process, the state folder, or a server of many machines.

What lives here: the three choices, each as one value. What must not: what is made
of them (`opening`). Invariant: what is not chosen is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from copydesk.app.config import Config
from copydesk.desk.bases import Bases, BasesBeside
from copydesk.desk.database import BUSY_SECONDS, Database, Loss
from copydesk.desk.decisions import Decisions
from copydesk.desk.journal import Journal
from copydesk.desk.lanes import Lanes
from copydesk.desk.registry import Registry
from copydesk.desk.tally import Tally
from copydesk.errors import Failed
from copydesk.store.protocol import TargetMoved
from copydesk.store.state import EditIds, StateFolder
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

if TYPE_CHECKING:
    from copydesk.desk.redis.server import Server


_log = logging.getLogger("copydesk")

_NEWS_SECONDS = 1.0
"""How long another program that locks the decisions is waited for: each answer asks for news."""

_JOURNAL_BYTES = 64 << 20
"""A journal that ends with the process takes no more memory."""

_COUNT_SECONDS = 0.1
"""How long for the statistics and the remembered texts, which may be left out."""


def _nothing() -> None:
    """Nothing is held, and nobody can take a turn away."""


def _unchanged() -> tuple[int, int]:
    """Nobody else is there."""
    return 0, 0


class Losses:
    """What state files lost while they were in use, until an answer has reported it.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._noted: deque[tuple[str, Loss]] = deque(maxlen=100)

    def note(self, path: str, loss: Loss) -> None:
        """Log it, and keep it for the next answer."""
        self._noted.append((path, loss))
        _log.warning("%s", words_of_loss(path, loss, "en"))

    def take(self) -> list[tuple[str, Loss]]:
        """What was noted since it was last taken: the file, and what happened to it."""
        taken: list[tuple[str, Loss]] = []
        while self._noted:
            with suppress(IndexError):  # another thread was first
                taken.append(self._noted.popleft())
        return taken


def words_of_loss(path: str, loss: Loss, lang: Lang) -> str:
    """What happened to a state file, and what is lost with it."""
    facts = {"file": path, "holds": words_of_content(path, lang)}
    return say(f"state.{loss}", lang, facts)


def words_of_content(path: str, lang: Lang) -> str:
    """What is lost with a state file."""
    return say(f"state.holds.{os.path.basename(path).partition('.')[0]}", lang)


@dataclass(frozen=True, slots=True)
class Memory:
    """All that outlives a call. Files of this workspace are written with `lanes` alone.

    `state` is the state folder, where there is one, `databases` are the files in it by
    what they hold, and `losses` is what they lost while they were in use. `decided_at` is the
    file that is written with each decision. `changes` is another pair when another process has
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
    databases: Mapping[str, Database] = field(default_factory=dict[str, Database])
    losses: Losses = field(default_factory=Losses)

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
    from copydesk.desk.decisions_sqlite import SqliteDecisions
    from copydesk.desk.journal_sqlite import SqliteJournal
    from copydesk.desk.registry_sqlite import SqliteRegistry
    from copydesk.desk.snapshots_sqlite import SqliteSnapshots
    from copydesk.desk.tally_sqlite import SqliteTally

    plans = Database()
    return Memory(
        SqliteRegistry(plans),
        SqliteDecisions(plans),
        SqliteTally(plans),
        SqliteJournal(Database(), most_bytes=min(config.journal_bytes, _JOURNAL_BYTES)),
        BasesBeside(SqliteSnapshots(Database(), config.bases_bytes)),
        Lanes(seconds=config.lock_seconds),
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
    locks = FileLocks(state.path("locks"), lambda: state.folder("locks"), config.lock_seconds)
    losses = Losses()

    def database(
        name: str,
        patience: float = BUSY_SECONDS,
        synchronous: Literal["FULL", "OFF"] = "OFF",
        most_bytes: int | None = None,
    ) -> Database:
        file = state.file(name)
        return Database(
            file,
            synchronous,
            locks,
            on_loss=lambda loss: losses.note(file.path, loss),
            patience=patience,
            most_bytes=most_bytes,
        )

    flushed: Literal["FULL", "OFF"] = "FULL" if config.durability == "full" else "OFF"
    in_plans, in_decisions = database("plans.sqlite"), database("decisions.sqlite", _NEWS_SECONDS)
    in_tally = database("tally.sqlite", _COUNT_SECONDS)
    in_journal = database("journal.sqlite", synchronous=flushed)
    in_snapshots = database("snapshots.sqlite", _COUNT_SECONDS, most_bytes=config.bases_bytes)
    plans, decisions = SqliteRegistry(in_plans), SqliteDecisions(in_decisions)

    def may_write() -> None:
        """A write whose lock or journal entry went with its file is begun again."""
        if not (locks.are_held() and in_journal.is_current()):
            raise TargetMoved

    return Memory(
        plans,
        decisions,
        SqliteTally(in_tally),
        SqliteJournal(in_journal, EditIds(state.path("edit-ids"), state.make)),
        BasesBeside(SqliteSnapshots(in_snapshots, config.bases_bytes)),
        Lanes(locks, config.lock_seconds),
        state,
        in_decisions.path,
        changes=lambda: (plans.changes(), decisions.changes()),
        may_write=may_write,
        let_go=locks.close,
        databases={
            "registry": in_plans,
            "decisions": in_decisions,
            "statistics": in_tally,
            "journal": in_journal,
            "snapshots": in_snapshots,
        },
        losses=losses,
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

    state = StateFolder(root, config.state)
    leases, counts = Leases(server, time.monotonic, seconds=config.lock_seconds), Counts(server)

    def let_go() -> None:
        leases.close()
        server.close()

    return Memory(
        RedisRegistry(server, leases),
        RedisDecisions(server),
        RedisTally(server),
        RedisJournal(server, leases, EditIds(state.path("edit-ids"), state.make)),
        BasesBeside(RedisBases(server, config.bases_bytes)),
        Lanes(leases, config.lock_seconds),
        state,
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
