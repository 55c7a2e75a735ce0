"""What would take long to find out again about a notebook: where ids are, what texts hold.

What lives here: the tables and the questions. What must not: anything that
cannot be made again from the files and the sidecars. Invariant: what is found is
a hint, to be looked at in the file; a cache that is gone or broken is an empty one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import RLock
from typing import NamedTuple, TypeVar

from copydesk.store.notes.folder_sidecar import Seen
from copydesk.store.stamp import Stamp

_VERSION = 1
_BUSY_SECONDS = 30.0
_ASKED = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
  path TEXT PRIMARY KEY, dev INTEGER, ino INTEGER, size INTEGER, mtime_ns INTEGER,
  ctime_ns INTEGER, settled INTEGER, digest TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (
  path TEXT, at INTEGER, rank INTEGER, length INTEGER, folded TEXT,
  PRIMARY KEY (path, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS anchors (id TEXT, path TEXT, PRIMARY KEY (id, path)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS anchors_of ON anchors (path);
CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, path TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ids_of ON ids (path);
CREATE TABLE IF NOT EXISTS sidecars (
  name TEXT PRIMARY KEY, path TEXT, size INTEGER, mtime_ns INTEGER) WITHOUT ROWID
"""

Answer = TypeVar("Answer")


class Text(NamedTuple):
    """A leaf, a heading or a document for a search; `at` is its place in the order of blocks."""

    at: int
    rank: int
    length: int
    folded: str


class Indexed(NamedTuple):
    """The state of a file when its texts were taken."""

    stamp: tuple[int, int, int, int, int]
    settled: bool
    digest: str


def stamp_key(stamp: Stamp) -> tuple[int, int, int, int, int]:
    """What of a stamp is kept."""
    return stamp.dev, stamp.ino, stamp.size, stamp.mtime_ns, stamp.ctime_ns


class Cache:
    """A SQLite file that may be deleted at any time. Safe to use from many threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def indexed(self) -> dict[str, Indexed]:
        """The documents whose texts are here, by path."""

        def ask(connection: sqlite3.Connection) -> dict[str, Indexed]:
            rows = connection.execute(
                "SELECT path, dev, ino, size, mtime_ns, ctime_ns, settled, digest FROM documents"
            )
            return {
                path: Indexed((dev, ino, size, mtime, ctime), bool(settled), digest)
                for path, dev, ino, size, mtime, ctime, settled, digest in rows
            }

        return self._try(ask)

    def index(
        self,
        path: str,
        stamp: Stamp,
        digest: str,
        texts: Iterable[Text] | None,
        anchors: Iterable[str],
    ) -> None:
        """Keep the texts of a document; with None they are those that are kept."""
        kept = None if texts is None else list(texts)
        named = list(anchors)

        def ask(connection: sqlite3.Connection) -> None:
            connection.execute(
                "REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (path, *stamp_key(stamp), stamp.settled, digest),
            )
            if kept is not None:
                connection.execute("DELETE FROM texts WHERE path = ?", (path,))
                connection.execute("DELETE FROM anchors WHERE path = ?", (path,))
                rows = ((path, *text) for text in kept)
                connection.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?)", rows)
                pairs = ((anchor, path) for anchor in named)
                connection.executemany("REPLACE INTO anchors VALUES (?, ?)", pairs)

        self._try(ask)

    def forget(self, paths: Iterable[str]) -> None:
        """The texts of documents that are no more."""
        gone = [(path,) for path in paths]

        def ask(connection: sqlite3.Connection) -> None:
            for table in ("documents", "texts", "anchors"):
                connection.executemany(f"DELETE FROM {table} WHERE path = ?", gone)

        self._try(ask)

    def search(self, words: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Where texts are that hold all of the words, which are case folded; the best first."""
        where = " AND ".join("instr(folded, ?)" for _ in words)

        def ask(connection: sqlite3.Connection) -> list[tuple[str, int]]:
            return connection.execute(
                f"SELECT path, at FROM texts WHERE {where} ORDER BY rank, length, path, at", words
            ).fetchall()

        yield from self._try(ask)

    def anchored(self, block_id: str) -> list[str]:
        """The documents whose text names a block so."""

        def ask(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "SELECT path FROM anchors WHERE id = ? ORDER BY path", (block_id,)
            )
            return [path for (path,) in rows]

        return self._try(ask)

    def where(self, block_id: str) -> str | None:
        """The document that the block is in, or was in last."""

        def ask(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT path FROM ids WHERE id = ?", (block_id,)).fetchone()
            return None if row is None else str(row[0])

        return self._try(ask)

    def keep_ids(self, path: str, ids: Iterable[str]) -> None:
        """Blocks that are in a document, or were."""
        rows = [(block_id, path) for block_id in ids]

        def ask(connection: sqlite3.Connection) -> None:
            connection.executemany("REPLACE INTO ids VALUES (?, ?)", rows)

        self.together(lambda: self._try(ask))

    def of_others(self, path: str, ids: Sequence[str]) -> dict[str, str]:
        """Those of the ids that blocks of other documents have, or had, with their paths."""
        found: dict[str, str] = {}

        def ask(connection: sqlite3.Connection) -> None:
            for start in range(0, len(ids), _ASKED):
                part = ids[start : start + _ASKED]
                rows = connection.execute(
                    f"SELECT id, path FROM ids WHERE id IN ({','.join('?' * len(part))})", part
                )
                found.update((one, other) for one, other in rows if other != path)

        self._try(ask)
        return found

    def sidecars(self) -> dict[str, tuple[str, Seen]]:
        """The sidecars whose ids are here, by file name: the path of the document, the file."""

        def ask(connection: sqlite3.Connection) -> dict[str, tuple[str, Seen]]:
            rows = connection.execute("SELECT name, path, size, mtime_ns FROM sidecars")
            return {name: (path, Seen(name, size, mtime)) for name, path, size, mtime in rows}

        return self._try(ask)

    def keep_sidecar(self, seen: Seen, path: str) -> None:
        """The ids of a sidecar are here."""

        def ask(connection: sqlite3.Connection) -> None:
            row = (seen.name, path, seen.size, seen.mtime_ns)
            connection.execute("REPLACE INTO sidecars VALUES (?, ?, ?, ?)", row)

        self._try(ask)

    def drop_sidecars(self, names: Iterable[str]) -> None:
        """Sidecars that are no more."""
        gone = [(name,) for name in names]

        def ask(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM sidecars WHERE name = ?", gone)

        self._try(ask)

    def together(self, work: Callable[[], Answer]) -> Answer:
        """Do the work as one transaction, which is faster."""
        with self._lock:
            connection = self._open()
            if connection.in_transaction:
                return work()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                return work()
            try:
                return work()
            finally:
                with suppress(sqlite3.Error):
                    if self._connection is not None and self._connection.in_transaction:
                        self._connection.execute("COMMIT")

    def _try(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """The answer; of a new cache where this one fails, of one in memory where none can be."""
        with self._lock:
            for remove in (False, True):
                try:
                    return ask(self._open(remove=remove))
                except sqlite3.Error:
                    self._shut()
            self._connection = _made(":memory:")
            return ask(self._connection)

    def _open(self, *, remove: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            if remove:
                for end in ("", "-journal"):
                    with suppress(OSError):
                        os.unlink(self._path + end)
            try:
                self._connection = _made(self._path)
            except sqlite3.Error:
                if remove:
                    self._connection = _made(":memory:")
                else:
                    return self._open(remove=True)
        return self._connection

    def _shut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _made(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = PERSIST")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    return connection
