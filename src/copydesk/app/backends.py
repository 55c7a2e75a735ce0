"""Storage backends: in process, a state folder (SQLite) or a Redis server, imported if chosen."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from copydesk.app.config import Config
from copydesk.desk.backends.api import Decision, Decisions, Journal, PlanStats, Registry
from copydesk.desk.backends.database import BUSY_SECONDS, Database, Loss
from copydesk.desk.backends.snapshots import SMALL_BASE, BackgroundSnapshots, Snapshots
from copydesk.edit.draft import Plan
from copydesk.errors import Failed
from copydesk.store.locks import Lanes
from copydesk.store.protocol import TargetMoved
from copydesk.store.state import LOCKS, Mark, StateFolder
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

if TYPE_CHECKING:
    from copydesk.desk.redis.leases import Server


_log = logging.getLogger("copydesk")

_JOURNAL_BYTES = 64 << 20
"""The most memory, in bytes, of a journal that ends with the process."""

_OLDER = ("journal.sqlite", "plans.sqlite", "snapshots.sqlite")
"""The files of state before schema 5."""

_COUNT_SECONDS = 0.1
"""How long to wait for the snapshots, which are optional."""


def _nothing() -> None:
    """Do nothing: there is no lock that could be lost."""


def _unknown() -> None:
    """Return None: without shared state, other processes' decisions are unknown."""


def _unchanged() -> object:
    """Return None: no other process shares this backend."""
    return None


class Losses:
    """State lost while in use, kept until an answer has reported it. Thread-safe."""

    def __init__(self) -> None:
        self._noted: deque[tuple[str, Loss]] = deque(maxlen=100)

    def note(self, path: str, loss: Loss) -> None:
        """Log a loss, and keep it for the next answer."""
        self._noted.append((path, loss))
        _log.warning("%s", words_of_loss(path, loss, "en"))

    def take(self) -> list[tuple[str, Loss]]:
        """The losses since the last call: files, and the reasons."""
        taken: list[tuple[str, Loss]] = []
        while self._noted:
            with suppress(IndexError):  # another thread was first
                taken.append(self._noted.popleft())
        return taken


def words_of_loss(path: str, loss: Loss, lang: Lang) -> str:
    """A sentence about a state file's problem and what is lost."""
    facts = {"file": path, "holds": words_of_content(path, lang)}
    return say("state.server" if path == "server" else f"state.{loss}", lang, facts)


def words_of_content(path: str, lang: Lang) -> str:
    """A sentence about what is lost with a state file."""
    return say(f"state.holds.{os.path.basename(path).partition('.')[0]}", lang)


@dataclass(frozen=True, slots=True)
class Backend:
    """The stores of a workspace, and its file locks.

    `state` is the state folder, if any; `databases` are the files in it by their contents, and
    `losses` is what they lost while in use. `decided` returns a stamp that differs after each
    decision of any process, None if unknown. `changes` returns a value that differs once plans were
    changed or decided on, `seen` one that differs once anything was recorded. `may_write` and
    `may_return` raise Failed if the calling thread has lost its lock. `on_close` is called last.
    """

    registry: Registry
    decisions: Decisions
    tally: PlanStats
    journal: Journal
    bases: Snapshots
    lanes: Lanes
    state: StateFolder | None = None
    decided: Callable[[], tuple[int, int] | None] = _unknown
    changes: Callable[[], object] = _unchanged
    seen: Callable[[], object] = _unchanged
    may_write: Callable[[], None] = _nothing
    may_return: Callable[[], None] = _nothing
    on_close: Callable[[], None] = _nothing
    databases: Mapping[str, Database] = field(default_factory=dict[str, Database])
    losses: Losses = field(default_factory=Losses)

    def close(self) -> None:
        stores = (self.registry, self.decisions, self.tally, self.journal, self.bases)
        with ExitStack() as closing:
            closing.callback(self.on_close)
            for store in reversed(stores):
                closing.callback(store.close)


def in_process(config: Config) -> Backend:
    """The backend of this process alone; its state ends with the process."""
    from copydesk.desk.backends.snapshots import SqliteSnapshots
    from copydesk.desk.backends.sqlite import (
        SqliteDecisions,
        SqliteJournal,
        SqlitePlanStats,
        SqliteRegistry,
    )

    state = Database()
    return Backend(
        SqliteRegistry(state),
        SqliteDecisions(state),
        SqlitePlanStats(state),
        SqliteJournal(state, most_bytes=min(config.journal_bytes, _JOURNAL_BYTES)),
        BackgroundSnapshots(SqliteSnapshots(Database(), config.bases_bytes)),
        Lanes(seconds=config.lock_seconds),
        seen=state.version,
    )


def shared_backend(root: str, config: Config) -> Backend:
    """The backend that all processes share, in the state folder or on Redis; raises Failed."""
    return _on_server(root, config) if config.registry == "redis" else _in_folder(root, config)


def _in_folder(root: str, config: Config) -> Backend:
    """The backend in the state folder, for the processes of one machine."""
    from copydesk.desk.backends.snapshots import SqliteSnapshots
    from copydesk.desk.backends.sqlite import (
        SqliteDecisions,
        SqliteJournal,
        SqlitePlanStats,
        SqliteRegistry,
    )
    from copydesk.store.locks import FileLocks

    state = StateFolder(root, config.state)
    locks = FileLocks(state.path(LOCKS), lambda: state.folder(LOCKS), config.lock_seconds)
    losses = Losses()

    def database(
        name: str,
        patience: float = BUSY_SECONDS,
        synchronous: Literal["FULL", "OFF"] = "OFF",
        most_bytes: int | None = None,
        older: Sequence[str] = (),
    ) -> Database:
        file = state.file(name, *older)
        return Database(
            file,
            synchronous,
            locks,
            on_loss=lambda loss: losses.note(file.path, loss),
            patience=patience,
            most_bytes=most_bytes,
        )

    flushed: Literal["FULL", "OFF"] = "FULL" if config.durability == "full" else "OFF"
    in_state = database("state.sqlite", synchronous=flushed, older=_OLDER)
    in_texts = database("texts.sqlite", _COUNT_SECONDS, most_bytes=config.bases_bytes)
    plans, decided = SqliteRegistry(in_state), Mark(state.path("decided"), state.make)

    def may_write() -> None:
        """Raise TargetMoved if the lock or journal entry of a write was lost with its file."""
        if not (locks.are_held() and in_state.is_current()):
            raise TargetMoved

    return Backend(
        plans,
        SqliteDecisions(in_state, decided.set),
        SqlitePlanStats(in_state),
        SqliteJournal(in_state),
        BackgroundSnapshots(SqliteSnapshots(in_texts, config.bases_bytes), most_at_once=SMALL_BASE),
        Lanes(locks, config.lock_seconds),
        state,
        decided.stamp,
        changes=plans.changes,
        seen=in_state.version,
        may_write=may_write,
        on_close=locks.close,
        databases={"state": in_state, "texts": in_texts},
        losses=losses,
    )


def _on_server(root: str, config: Config) -> Backend:
    """The backend on a Redis server, for many machines on one file system."""
    server = server_of(root, config)
    from copydesk.desk.redis.journal import RedisJournal
    from copydesk.desk.redis.leases import Leases
    from copydesk.desk.redis.stores import (
        Counts,
        RedisDecisions,
        RedisPlanStats,
        RedisRegistry,
        RedisSnapshots,
    )

    state = StateFolder(root, config.state)
    leases, counts = Leases(server, time.monotonic, seconds=config.lock_seconds), Counts(server)
    losses = Losses()

    def on_close() -> None:
        leases.close()
        server.close()

    return Backend(
        RedisRegistry(server, leases),
        RedisDecisions(server),
        RedisPlanStats(server),
        RedisJournal(server, leases, lambda: losses.note("server", "emptied")),
        BackgroundSnapshots(RedisSnapshots(server, config.bases_bytes), most_at_once=SMALL_BASE),
        Lanes(leases, config.lock_seconds),
        state,
        changes=counts.plans_and_decisions,
        seen=counts.all,
        may_write=leases.require,
        may_return=leases.require_for_return,
        losses=losses,
        on_close=on_close,
    )


def server_of(root: str, config: Config) -> Server:
    """The configured server; raises Failed. Sends nothing yet."""
    if importlib.util.find_spec("redis") is None:
        raise Failed("use Redis", "its client is not installed: pip install 'copydesk[redis]'")
    from copydesk.desk.redis.leases import Server

    return Server(config.redis_url, config.registry_name or name_of(root))


def name_of(root: str) -> str:
    """The default name of a workspace; the same on machines that mount it at the same path."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]


Stamp = tuple[int, int]


class NotifyingDecisions:
    """A decision store that notifies listeners on change, and remembers which owners have no news.

    While `stamp` returns the same value, `untold` answers so without a transaction; None: unknown.
    """

    def __init__(
        self, inner: Decisions, notify: Callable[[], None], stamp: Callable[[], Stamp | None]
    ) -> None:
        self._inner, self._notify, self._stamp = inner, notify, stamp
        self._nothing: dict[str, Stamp] = {}
        self.of, self.tell, self.comments = inner.of, inner.tell, inner.comments
        self.of_all, self.forget, self.close = inner.of_all, inner.forget, inner.close

    def take(self, decision: Decision) -> Decision:
        found = self._inner.take(decision)
        self._notify()
        return found

    def withdraw(self, decision: Decision) -> None:
        self._inner.withdraw(decision)
        self._notify()

    def untold(self, owner: str) -> tuple[Decision, ...]:
        stamp = self._stamp()
        if stamp is not None and self._nothing.get(owner) == stamp:
            return ()
        found = self._inner.untold(owner)
        if found or stamp is None:
            self._nothing.pop(owner, None)
        else:
            self._nothing[owner] = stamp
        return found


class NotifyingRegistry:
    """A registry that notifies listeners when its plans change."""

    def __init__(self, inner: Registry, notify: Callable[[], None]) -> None:
        self._inner, self._notify = inner, notify
        self.get, self.waiting, self.close = inner.get, inner.waiting, inner.close

    def add(self, plan: Plan) -> bool:
        added = self._inner.add(plan)
        if added:
            self._notify()
        return added

    def put(self, plan: Plan) -> None:
        self._inner.put(plan)
        self._notify()

    def reopen(self, plan: Plan) -> bool:
        """Make a plan pending again, and notify listeners."""
        opened = self._inner.reopen(plan)
        self._notify()
        return opened

    def end(self, hunk_id: str, how: str, now_ms: int) -> None:
        self._inner.end(hunk_id, how, now_ms)  # type: ignore[arg-type]
        self._notify()
