"""A SQLite file that several processes and threads share.

What lives here: opening, short transactions, one at a time. What must not:
tables. Invariant: rollback journal, never WAL (SQLite up to 3.51.2 may corrupt a
WAL in a rare race); a transaction is whole or not at all.

SQLite itself waits for another process by sleeping, up to a tenth of a second at
a time; so who uses the file holds a lock of ours, and who waits for it is woken.
The rollback journal is kept and overwritten: making and removing a file costs
more than the rest of a small transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from threading import RLock
from types import MappingProxyType
from typing import Literal

from copydesk.desk.lanes import Exclusion, NoExclusion
from copydesk.errors import Failed

BUSY_SECONDS = 30.0
"""How long SQLite waits for one who does not hold our lock: another program."""

_NOTHING = nullcontext()
_JOURNAL_BYTES = 1 << 20
"""A larger rollback journal is cut when its transaction has ended."""


class Database:
    """One connection, used by one thread at a time.

    `synchronous`: FULL flushes each transaction to the disk before it is
    reported, OFF leaves that to the operating system. `added` are columns, by
    table and name, that a file of an earlier version may not have yet.
    `exclusion` is what all processes that use the file hold in their turn. A file that
    `shrinks` can give pages that are not used back to the disk.
    """

    def __init__(
        self,
        path: str,
        schema: str,
        synchronous: Literal["FULL", "OFF"],
        added: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        exclusion: Exclusion | None = None,
        shrinks: bool = False,
    ) -> None:
        self._lock = RLock()
        self._exclusion = exclusion or NoExclusion()
        self._key = f"\0database {path}"  # no path of a document holds a NUL
        self._inside = False
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise _failed(error) from error
        with self.reading() as connection:
            if shrinks:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = PERSIST")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
        with self.writing() as connection:
            for table, columns in added.items():
                _add(connection, table, columns)
            for statement in filter(str.strip, schema.split(";\n")):
                connection.execute(statement)

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """A transaction that writes; committed at the end, rolled back by an exception."""
        with self.reading() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def change(self, statement: str, values: Sequence[str | int | bytes | None]) -> int:
        """A transaction of one statement; how many rows it changed."""
        with self.reading() as connection:
            return connection.execute(statement, values).rowcount

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """The connection, for statements that read.

        Within it the file is this thread's; a turn within a turn is the same one.
        """
        with self._lock:
            outer = self._inside
            with _NOTHING if outer else self._exclusion.hold(self._key):
                self._inside = True
                try:
                    yield self._connection
                except sqlite3.Error as error:
                    raise _failed(error) from error
                finally:
                    self._inside = outer

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite may have rolled back by itself
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def _add(connection: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> None:
    """Give an existing table the columns that it does not have."""
    have = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    for name, kind in columns.items():
        if have and name not in have:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _failed(error: sqlite3.Error) -> Failed:
    """What SQLite, or the disk below it, refused."""
    return Failed("use the state folder", f"SQLite: {error}")
