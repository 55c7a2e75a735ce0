"""A SQLite file that several processes and threads share.

What lives here: opening, short transactions, retries while another one writes.
What must not: tables. Invariant: rollback journal, never WAL (SQLite up to
3.51.2 may corrupt a WAL in a rare race); a transaction is whole or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import RLock
from types import MappingProxyType
from typing import Literal

from copydesk.errors import Failed

BUSY_SECONDS = 30.0


class Database:
    """One connection, used by one thread at a time.

    `synchronous`: FULL flushes each transaction to the disk before it is
    reported, OFF leaves that to the operating system. `added` are columns, by
    table and name, that a file of an earlier version may not have yet.
    """

    def __init__(
        self,
        path: str,
        schema: str,
        synchronous: Literal["FULL", "OFF"],
        added: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._lock = RLock()
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        except sqlite3.Error as error:
            raise _failed(error) from error
        with self.writing() as connection:
            for table, columns in added.items():
                _add(connection, table, columns)
            for statement in filter(str.strip, schema.split(";")):
                connection.execute(statement)

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """A transaction that writes; committed at the end, rolled back by an exception."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise _failed(error) from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """The connection, for statements that read."""
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise _failed(error) from error

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
