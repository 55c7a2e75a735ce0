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
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from copydesk.app.config import Config
from copydesk.desk.backends.api import Records
from copydesk.desk.backends.snapshots import SMALL_BASE, BackgroundSnapshots, Snapshots
from copydesk.desk.backends.sqlite import (
    BUSY_SECONDS,
    Database,
    Loss,
    SqliteRecords,
    SqliteSnapshots,
)
from copydesk.errors import Failed
from copydesk.store.locks import FileLocks, LockQueues
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
        with suppress(IndexError):  # until there are no more, whoever else takes some
            while True:
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
    """The records and texts of a workspace, and its file locks.

    `state` is the state folder, if any; `databases` are the files in it by their contents, and
    `losses` is what they lost while in use. `seen` returns a value that differs once anything was
    recorded. `may_write` and `may_return` raise TargetMoved or Failed if the calling thread has
    lost its lock. `ids_folder` returns the folder of the ids and fingerprints of notes in files.
    `on_close` is called last.
    """

    records: Records
    bases: Snapshots
    queues: LockQueues
    ids_folder: Callable[[], str]
    state: StateFolder | None = None
    seen: Callable[[], object] = lambda: None
    may_write: Callable[[], None] = lambda: None
    may_return: Callable[[], None] = lambda: None
    on_close: Callable[[], None] = lambda: None
    databases: Mapping[str, Database] = field(default_factory=dict[str, Database])
    losses: Losses = field(default_factory=Losses)

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self.on_close)
            closing.callback(self.bases.close)
            closing.callback(self.records.close)


def in_process(config: Config) -> Backend:
    """The backend of this process alone; its state ends with the process."""
    state, most = Database(), min(config.journal_bytes, _JOURNAL_BYTES)
    folders = ExitStack()
    return Backend(
        SqliteRecords(state, most_bytes=most),
        BackgroundSnapshots(SqliteSnapshots(Database(), config.bases_bytes)),
        LockQueues(seconds=config.lock_seconds),
        cache(lambda: folders.enter_context(TemporaryDirectory(prefix="copydesk-notes-"))),
        seen=state.version,
        on_close=folders.close,
    )


def shared_backend(root: str, config: Config) -> Backend:
    """The backend that all processes share, in the state folder or on Redis; raises Failed."""
    return _on_server(root, config) if config.registry == "redis" else _in_folder(root, config)


def _in_folder(root: str, config: Config) -> Backend:
    """The backend in the state folder, for the processes of one machine."""
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

    def may_write() -> None:
        """Raise TargetMoved if the lock or journal entry of a write was lost with its file."""
        if not (locks.are_held() and in_state.is_current()):
            raise TargetMoved

    return Backend(
        SqliteRecords(in_state, Mark(state.path("decided"), state.make)),
        BackgroundSnapshots(
            SqliteSnapshots(in_texts, config.bases_bytes, count=state.forgets),
            most_at_once=SMALL_BASE,
        ),
        LockQueues(locks, config.lock_seconds),
        partial(state.folder, "notes"),
        state,
        seen=in_state.version,
        may_write=may_write,
        on_close=locks.close,
        databases={"state": in_state, "texts": in_texts},
        losses=losses,
    )


def _on_server(root: str, config: Config) -> Backend:
    """The backend on a Redis server, for many machines on one file system."""
    server = server_of(root, config)
    from copydesk.desk.redis.leases import Leases
    from copydesk.desk.redis.records import RedisRecords, RedisSnapshots

    leases, losses = Leases(server, time.monotonic, seconds=config.lock_seconds), Losses()
    records = RedisRecords(server, leases, lambda: losses.note("server", "emptied"))
    closing = ExitStack()
    closing.callback(server.close)
    closing.callback(leases.close)
    state = StateFolder(root, config.state)
    texts = RedisSnapshots(server, config.bases_bytes, count=state.forgets)
    return Backend(
        records,
        BackgroundSnapshots(texts, most_at_once=SMALL_BASE),
        LockQueues(leases, config.lock_seconds),
        partial(state.folder, "notes"),
        state,
        seen=records.counts,
        may_write=leases.require,
        may_return=leases.require_for_return,
        losses=losses,
        on_close=closing.close,
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
