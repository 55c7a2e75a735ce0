"""A SQLite file that several processes and threads share.

Invariants: rollback journal, never WAL (SQLite up to 3.51.2 may corrupt a WAL in a rare
race); a transaction is whole or not at all; what cannot be used is refused with the name of
its file, and is looked at anew by the next call, so a repair needs no restart; what was
deleted or replaced while it was open is noticed, reported and begun anew.

SQLite itself waits for another process by sleeping, up to a tenth of a second at
a time; so who uses the file holds a lock of ours, and who waits for it is woken.
The rollback journal is kept and overwritten: making and removing a file costs
more than the rest of a small transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import lru_cache
from threading import RLock, local
from typing import Literal, Protocol

from copydesk.desk.backends.codec import SCHEMA, RecordError, UnknownRecord
from copydesk.desk.locks import Exclusion, NoExclusion
from copydesk.errors import SchemaMismatch, StateDamaged, StateFailed

BUSY_SECONDS = 5.0
"""How long SQLite waits for one who does not hold our lock: another program."""

_IN_MEMORY = ":memory:"

Loss = Literal["deleted", "replaced", "emptied"]
"""What happened to a file while it was in use; what it held is lost to who used it."""

_NOTHING = nullcontext()
_JOURNAL_BYTES = 1 << 20
"""A larger rollback journal is cut when its transaction has ended."""

_OPERATION = "use the state folder"
_DAMAGE = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ")
_DAMAGED_WORDS = ("no such table", "no such column", "Could not decode to UTF-8")
_TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_CONSTRAINT")
"""Refusals after which the connection is as good as before."""

_MOVED = "SQLITE_READONLY_DBMOVED"

Identity = tuple[int, int]
"""Device and inode."""


class File(Protocol):
    """A file of the state folder that holds a database."""

    @property
    def path(self) -> str:
        """Where it is."""
        ...

    def prepare(self) -> None:
        """Make its folder; raises StateFailed, also if what has the path is no file."""
        ...

    def identity(self) -> Identity | None:
        """What has the path now; None when nothing has."""
        ...

    def is_empty(self) -> bool:
        """Whether it is a file of no bytes."""
        ...

    def allow(self) -> bool:
        """Give its owner, who has lost it, the right to read and write it; whether that helped."""
        ...

    def discard(self) -> None:
        """Remove it and its rollback journal; they may be gone."""
        ...

    def set_aside(self) -> str:
        """Give it and its rollback journal other names; its new path. Raises StateFailed."""
        ...


class _Used(local):
    """The file in which the thread at hand last began a transaction that writes, by number."""

    file: int | None = None


class Database:
    """One connection, used by one thread at a time, opened when it is first used.

    Without a file it is kept in memory and ends with the process. `synchronous`: FULL
    flushes each transaction to the disk before it is reported, OFF leaves that to the
    operating system. `exclusion` is what all processes that use the file hold in their
    turn. `on_loss` is called when what was in use is gone. `patience` bounds, in seconds,
    the waiting for a program that holds no lock of ours. `most_bytes`: the file is to be
    bounded, and can give pages that are not used back. All methods raise StateFailed.
    """

    def __init__(
        self,
        file: File | None = None,
        synchronous: Literal["FULL", "OFF"] = "OFF",
        exclusion: Exclusion | None = None,
        *,
        on_loss: Callable[[Loss], None] = lambda loss: None,
        patience: float = BUSY_SECONDS,
        most_bytes: int | None = None,
    ) -> None:
        self._file = file
        self.path = file.path if file else _IN_MEMORY
        self._synchronous, self._patience = synchronous, patience
        self._on_loss, self._shrinks = on_loss, most_bytes is not None
        self._journal_bytes = min((most_bytes or 1 << 62) // 8, _JOURNAL_BYTES)
        self._lock = RLock()
        self._exclusion = exclusion or NoExclusion()
        self._key = f"\0database {self.path}"  # no path of a document holds a NUL
        self._inside = False
        self._connection: sqlite3.Connection | None = None
        self._identity: Identity | None = None
        self._count = 0
        self._used = _Used()
        self._schema = ""
        self._on_new: list[Callable[[], None]] = []

    def define(self, schema: str, on_new: Callable[[], None] | None = None) -> None:
        """Add the statements that make some tables; `on_new` is called when another file is used.

        Each store of the file does so before the file is used.
        """
        self._schema = f"{self._schema};\n{schema}" if self._schema else schema
        if on_new is not None:
            self._on_new.append(on_new)

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """A transaction that writes; committed at the end, rolled back by an exception."""
        with self.reading() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._used.file = self._count
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite may have rolled back by itself
                    connection.execute("ROLLBACK")
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
                try:
                    connection = self._connected()
                    self._inside = True
                    yield connection
                except sqlite3.Error as error:
                    if not outer and not _name_of(error).startswith(_TRANSIENT):
                        self._let_go()
                    raise self._refused(error) from error
                finally:
                    self._inside = outer

    @contextmanager
    def decoding(self) -> Generator[None, None, None]:
        """Records that were read are decoded within."""
        try:
            yield
        except UnknownRecord as error:
            raise StateFailed(_OPERATION, f"{error}; use that version", self.path) from error
        except RecordError as error:
            raise StateDamaged(_OPERATION, str(error), self.path) from error

    def is_current(self) -> bool:
        """Whether what this thread last wrote is in the file that all processes use now."""
        if self._file is None or self._used.file is None:
            return True
        return self._used.file == self._count and self._file.identity() == self._identity

    def check_schema(self) -> None:
        """Raise SchemaMismatch if another build wrote the file; nothing else is told."""
        if self.is_there():
            try:
                with self.reading():
                    return
            except SchemaMismatch:
                raise
            except StateFailed:
                return

    def examine(self) -> None:
        """Raise what is wrong with the file as a whole; nothing is made where there is none."""
        if self._file is None or not self.is_there():
            return
        if self._file.is_empty():
            raise StateDamaged(_OPERATION, "it is empty", self.path)
        with self.reading() as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != ("ok",):
                raise StateDamaged(_OPERATION, f"SQLite: {found[0]}", self.path)

    def allow(self) -> bool:
        """Restore the right to read and write the file; False when it was there, or cannot be."""
        return self._file is not None and self._file.allow()

    def set_aside(self) -> str:
        """Rename the file, while no process uses it; its new path."""
        with self._lock, self._exclusion.hold(self._key):
            self._let_go()
            return self._file.set_aside() if self._file else self.path

    def discard(self) -> None:
        """Remove the file, which only held what can be lost."""
        with self._lock, self._exclusion.hold(self._key):
            self._let_go()
            if self._file is not None:
                self._file.discard()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._let_go()

    def is_there(self) -> bool:
        """Whether there is a file yet."""
        return self._file is None or self._file.identity() is not None

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that is there now."""
        if self._connection is not None:
            if self._inside or self._file is None or self._file.identity() == self._identity:
                return self._connection
            self._let_go()
        if self._file is None:
            self._connection = self._open(was_there=False)
            return self._connection
        self._file.prepare()
        before = self._file.identity()
        connection = self._open(was_there=before is not None)
        after = self._file.identity()
        self._connection = connection
        known, self._identity = self._identity, after
        if known is not None and known != before:  # the new one may have the same inode
            self._begin_anew("deleted" if before is None else "replaced")
        return connection

    def _open(self, *, was_there: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = PERSIST")
            if self._shrinks:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute(f"PRAGMA journal_size_limit = {self._journal_bytes}")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("BEGIN")  # tables and their number are of one moment
            is_ready = self._is_ready(connection)
            connection.execute("COMMIT")
            if not is_ready:
                connection.execute("BEGIN IMMEDIATE")
                if not self._is_ready(connection):  # nobody else made it meanwhile
                    self._make(connection, was_there=was_there)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection, *, was_there: bool) -> None:
        is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        for statement in _statements(self._schema):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        if is_empty and was_there:  # a file that was made and used is never empty
            self._begin_anew("emptied")

    def _begin_anew(self, loss: Loss) -> None:
        self._count += 1
        for on_new in self._on_new:
            on_new()
        self._on_loss(loss)

    def _is_ready(self, connection: sqlite3.Connection) -> bool:
        """Whether the file has all that it needs; False when that is to be made."""
        schema = connection.execute("PRAGMA user_version").fetchone()[0]
        tables, others = _shape_of(connection)
        if not schema and not tables:
            return False
        if schema != SCHEMA:
            raise SchemaMismatch(_OPERATION, "schema", self.path, schema, SCHEMA)
        own_tables, own_others = _shape(self._schema)
        for table, columns in own_tables.items():
            missing = columns - tables.get(table, frozenset())
            if missing:
                what = f"column {min(missing)} of " if table in tables else ""
                raise StateDamaged(_OPERATION, f"{what}table {table} is missing", self.path)
        return own_others <= others

    def _refused(self, error: sqlite3.Error) -> StateFailed:
        """What SQLite, or the disk below it, refused."""
        name, words = _name_of(error), f"SQLite: {error}"
        if name.startswith(_DAMAGE) or str(error).startswith(_DAMAGED_WORDS):
            return StateDamaged(_OPERATION, words, self.path)
        if name == _MOVED:
            words = "it was deleted or replaced during this call"
        return StateFailed(_OPERATION, words, self.path)


def _name_of(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")


def _statements(schema: str) -> list[str]:
    """The statements of a schema; a trigger has some of its own."""
    return [each for each in schema.split(";\n") if each.strip()]


_Shape = tuple[Mapping[str, frozenset[str]], frozenset[str]]


def _shape_of(connection: sqlite3.Connection) -> _Shape:
    """The tables with their columns, and the names of indexes and triggers."""
    tables: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT m.name, p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
    ):
        tables.setdefault(table, set()).add(column)
    others = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    )
    shape = {table: frozenset(columns) for table, columns in tables.items()}
    return shape, frozenset(name for (name,) in others)


@lru_cache
def _shape(schema: str) -> _Shape:
    """The same of a file that a schema makes."""
    with closing(sqlite3.connect(_IN_MEMORY)) as connection:
        for statement in _statements(schema):
            connection.execute(statement)
        return _shape_of(connection)
