"""A SQLite file that several processes and threads share.

Invariants: a transaction is applied as a whole or not at all; an error names the file, which the
next call tries again, so a repair needs no restart; if the file is deleted or replaced while open,
that is noticed and reported, and a new one begun.

It uses apsw's own SQLite, since it needs the write-ahead log: a commit takes one flush instead of
four, and readers never wait. SQLite up to 3.51.2 may corrupt such a log in a rare race. Its own
way to wait for another writer sleeps up to a tenth of a second at a time; ours some milliseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import lru_cache
from threading import Event, RLock, local
from typing import Any, Literal, Protocol, TypeVar, cast

import apsw

from copydesk.desk.backends.api import SCHEMA, RecordError, UnknownRecord
from copydesk.errors import SchemaMismatch, StateDamaged, StateFailed
from copydesk.store.locks import DATABASE, Exclusion, NoExclusion, held_at_fork
from copydesk.store.protocol import Deadline
from copydesk.store.state import Looks, StateFile

BUSY_SECONDS = 5.0
"""How long a transaction waits for those of other processes."""

_POLL_SECONDS = (0.0005, 0.005)
"""Between tries to begin a transaction, drawn at random: equal waits would meet again."""

_IN_MEMORY = ":memory:"

Loss = Literal["deleted", "replaced", "emptied", "damaged", "cut"]
"""What happened to a file while in use; its content is lost, or for "cut" the end of it."""

_LOG_BYTES = 1 << 20
"""A larger log is truncated once all of it is in the file."""

_LAST_SCHEMA = 4
"""The last schema of several files."""

_OPENINGS = 2
"""Retries when opening a file whose folder is being deleted."""

_OPERATION = "use the state folder"
_DAMAGE = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ")
_DAMAGED_WORDS = ("no such table", "no such column", "'utf-8' codec can't decode")
_TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_CONSTRAINT")
"""Errors after which the connection is still usable."""

_OPENING = f"{DATABASE}opening"
_HAS_LOG = b"\2\2"
"""The versions of its format in the header of a file with a log, from byte 18 on."""

_opening = held_at_fork(RLock())
"""Held while a file is opened: who makes one removes the log of another one that was there."""

_MOVED = "it was deleted or replaced during this call"

T = TypeVar("T")
Value = str | int | float | bytes | None


class Cursor(Protocol):
    """The rows of a statement; `get` is the only row, its value if that has just one, or None."""

    fetchone: Callable[[], Any]
    fetchall: Callable[[], list[tuple[Any, ...]]]
    close: Callable[[], None]

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    @property
    def get(self) -> Any: ...


class Connection(Protocol):
    """The part of `apsw.Connection` that is used; its own types need Python 3.12.

    `changes` counts the rows that the last writing statement changed, `total_changes` those of all.
    """

    in_transaction: bool
    execute: Callable[..., Cursor]
    executemany: Callable[..., Cursor]
    changes: Callable[[], int]
    total_changes: Callable[[], int]
    last_insert_rowid: Callable[[], int]
    config: Callable[[int, bool], object]
    serialize: Callable[[str], bytes]

    def close(self) -> object: ...


class _Used(local):
    """The number of the file in which the current thread last began a writing transaction."""

    file: int | None = None


class Database:
    """One connection, used by one thread at a time, opened on first use.

    Without a file it is in memory and ends with the process. `synchronous`: with FULL a transaction
    can be flushed to the disk before it is reported; a power cut loses others, but tears none. OFF
    leaves all that to the operating system. `exclusion` is held while the file is opened.
    `on_loss` is called if the content in use is gone. `patience` limits, in seconds, the wait for
    other processes. `most_bytes`: the file is bounded; it can release unused pages, and has a
    rollback journal instead of a log, which would hold most of it a second time. All methods raise
    StateFailed.
    """

    def __init__(
        self,
        file: StateFile | None = None,
        synchronous: Literal["FULL", "OFF"] = "OFF",
        exclusion: Exclusion | None = None,
        *,
        on_loss: Callable[[Loss], None] = lambda loss: None,
        patience: float = BUSY_SECONDS,
        most_bytes: int | None = None,
    ) -> None:
        self._file = file
        self.path = file.path if file else _IN_MEMORY
        self._is_flushed, self._patience = synchronous == "FULL", patience
        self._on_loss, self._most_bytes = on_loss, most_bytes
        self._lock = held_at_fork(RLock())
        self._exclusion = exclusion or NoExclusion()
        self._inside = False
        self._connection: Connection | None = None
        self._known: Looks = (None, None)
        self._count = 0
        self._used = _Used()
        self._schema = ""
        self._on_new: Callable[[], None] = lambda: None
        self._begin: Callable[[Connection, bool], object] = lambda new, is_used: None

    def define(
        self,
        schema: str,
        on_new: Callable[[], None] = lambda: None,
        begin: Callable[[Connection, bool], object] = lambda new, is_used: None,
    ) -> None:
        """Set the statements of the tables, before first use; `on_new` is called for another file.

        `begin` is called with a new file whose tables were made, and whether there was one before.
        """
        self._schema, self._on_new, self._begin = schema, on_new, begin

    @contextmanager
    def writing(self, *, flushed: bool = False) -> Generator[Connection]:
        """Run a writing transaction; commit at the end, roll back on an exception."""
        with self.reading() as connection:
            try:
                if flushed and self._is_flushed:
                    connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                self._used.file = self._count
                yield connection
                connection.execute("COMMIT")
                self._look_after(connection)
            finally:
                if connection.in_transaction:  # SQLite may have rolled back on its own
                    connection.execute("ROLLBACK")
                if flushed and self._is_flushed:
                    connection.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Yield the connection for reading; others may write meanwhile if the file has a log."""
        with self._lock:
            outer = self._inside
            try:
                connection = self._connected()
                self._inside = True
                yield connection
            except (apsw.Error, UnicodeDecodeError) as error:
                raise self._refused(error, inside=outer) from error
            finally:
                self._inside = outer

    def rows(
        self, statement: str, values: Sequence[Value] | Mapping[str, Value] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a reading statement."""
        with self._lock:
            try:
                return self._connected().execute(statement, values).fetchall()
            except (apsw.Error, UnicodeDecodeError) as error:
                raise self._refused(error, inside=self._inside) from error

    def change(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Run one statement as a transaction, unflushed; return how many rows it changed."""
        with self._lock:
            self.rows(statement, values)
            connection = cast(Connection, self._connection)
            self._look_after(connection)
            return connection.changes()

    def decoded(self, decode: Callable[[Any], T], data: Any) -> T:
        """Decode records; its errors become StateFailed or StateDamaged."""
        try:
            return decode(data)
        except UnknownRecord as error:
            raise StateFailed(_OPERATION, f"{error}; use that version", self.path) from error
        except RecordError as error:
            raise StateDamaged(_OPERATION, str(error), self.path) from error

    def is_current(self) -> bool:
        """Whether this thread's last write is in the file that all processes use now."""
        if self._file is None or self._used.file is None:
            return True
        with self._lock:  # it may ask SQLite, whose connection serves one thread at a time
            return self._used.file == self._count and self._is_in_place()

    def version(self) -> object:
        """A token that changes after any process writes; None if unknown."""
        if not self.is_there():
            return None
        with suppress(StateFailed), self.reading() as connection:
            others = connection.execute("PRAGMA data_version").get
            return self._known[0], self._count, connection.total_changes(), others
        return None

    def scrub(self) -> None:
        """Rewrite the file: no byte of what was deleted stays in it, or in a log or journal.

        It takes as much space again meanwhile, and other processes wait to write.
        """
        with self.reading() as connection:
            if self._most_bytes is not None:  # its journal is removed, and is kept again from now
                connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("VACUUM")
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get[0]:
                raise StateFailed(_OPERATION, "another process reads it; try again", self.path)
            if self._most_bytes is not None:
                connection.execute("PRAGMA journal_mode = PERSIST")

    def check_schema(self) -> None:
        """Raise SchemaMismatch if another version wrote the file."""
        self._refuse_older()
        try:
            with self.reading() if self.is_there() else nullcontext():
                pass
        except StateFailed as failure:
            if isinstance(failure, SchemaMismatch):
                raise

    def examine(self) -> None:
        """Raise the problem of the file as a whole, if any; does not create it."""
        self._refuse_older()
        if self._file is None or not self.is_there():
            return
        if self._file.is_empty():
            raise StateDamaged(_OPERATION, "it is empty", self.path)
        with self.reading() as connection:
            found = connection.execute("PRAGMA quick_check(1)").get
            if found != "ok":
                raise StateDamaged(_OPERATION, f"SQLite: {found}", self.path)

    def allow(self) -> bool:
        """Restore the right to read and write the file; False if it was there, or that fails."""
        return self._file is not None and self._file.allow()

    def set_aside(self) -> str:
        """Rename the file, while no process uses it; return its new path."""
        with self._lock, self._exclusion.hold(_OPENING):
            self._let_go()
            return self._file.set_aside() if self._file else self.path

    def discard(self) -> None:
        """Remove the damaged cache file and report it."""
        with self._lock, self._exclusion.hold(_OPENING):
            self._let_go()
            if self._file is not None:
                self._file.discard()
                self._known = None, None
                self._begin_anew("damaged")

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def is_there(self) -> bool:
        return self._file is None or self._file.identity() is not None

    def _let_go(self) -> None:
        """Close the connection; a log that was cut or replaced must not get into the file."""
        is_in_place = False  # as when that cannot be seen: the log stays for the next one
        with suppress(StateFailed):
            is_in_place = self._is_in_place()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, not is_in_place)
                connection.close()

    def _is_in_place(self) -> bool:
        """Whether file and log still have their paths, and the log all that SQLite wrote to it."""
        file = self._file
        if file is None or self._connection is None:
            return True
        found = file.look()
        if found != self._known:
            if not _are_same(found, self._known) or not file.log_holds(self._frames()[0]):
                return False
            self._known = found  # another process of ours wrote to it
        return True

    def _look_after(self, connection: Connection) -> None:
        """Take in what this process just wrote to the log; raise if that is not in the file."""
        if self._file is not None and not connection.in_transaction:
            try:
                file, log = self._file.look()
            except StateFailed:  # it is written: the next transaction finds out where
                return
            if file != self._known[0]:
                raise StateFailed(_OPERATION, _MOVED, self.path)
            if log and self._known[1] and log[:2] == self._known[1][:2]:
                self._known = file, log  # else the next transaction finds out

    def _frames(self) -> tuple[int, int]:
        """How many frames of the log are valid, and how many of them are in the file too."""
        assert self._connection is not None
        with suppress(apsw.Error):  # it is in a transaction: look before the next one
            _, frames, stored = self._connection.execute("PRAGMA wal_checkpoint(NOOP)").get
            return frames, stored
        return 0, 0

    def _connected(self) -> Connection:
        connection, file = self._connection, self._file
        if connection is not None and (
            self._inside or file is None or file.look() == self._known or self._is_in_place()
        ):
            return connection
        with _opening, self._exclusion.hold(_OPENING):
            if self._connection is not None and self._is_in_place():
                return self._connection  # another process was writing to the log
            for _ in range(_OPENINGS):
                # They are raised if its folder was just deleted.
                with suppress(apsw.IOError, apsw.CantOpenError, StateFailed):
                    return self._opened()
            return self._opened()

    def _opened(self) -> Connection:
        file = self._file
        if file is None:
            self._connection = self._open(self.path)
            return self._connection
        self._refuse_older()
        file.prepare()
        known, (before, log) = self._known[0], file.look()
        if self._connection is not None:  # while it is open, no other log can have its inode
            if log is None:  # deleted, but still open
                self._connection.execute("PRAGMA wal_checkpoint")
            if log is None or _are_same((known, log), self._known):
                file.discard_log()  # of another file, or cut, overwritten or deleted
            frames, stored = self._frames()
            self._let_go()
            if known == before and frames > stored:
                self._begin_anew("cut")
        if before is None:  # made at once: a process that is killed leaves no file without tables
            file.discard_log()
            with closing(self._open(_IN_MEMORY)) as empty:
                image = empty.serialize("main")
                if self._most_bytes is None:
                    image = image[:18] + _HAS_LOG + image[20:]
                file.create(image, flush=self._is_flushed)
        connection = self._connection = self._open(self.path)
        self._known = file.look()
        if known is not None and known != before:  # the new file may reuse the inode
            self._begin_anew("deleted" if before is None else "replaced")
        return connection

    def _refuse_older(self) -> None:
        """Never begin anew beside an earlier version, which may run and takes other locks."""
        if self._file is not None and (older := self._file.older):
            raise SchemaMismatch(_OPERATION, "schema", older, _LAST_SCHEMA, SCHEMA)

    def _open(self, path: str) -> Connection:
        opened = apsw.Connection(path)
        connection = cast(Connection, opened)
        try:
            opened.set_busy_handler(self._waits())
            most = _LOG_BYTES
            if self._most_bytes is None:
                connection.execute("PRAGMA journal_mode = WAL")
            else:
                most = min(self._most_bytes // 8, most)
                connection.execute("PRAGMA journal_mode = PERSIST")
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute(f"PRAGMA journal_size_limit = {most}")
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if self._is_flushed else 'OFF'}")
            connection.execute("BEGIN")  # reads tables and schema number at one moment
            is_ready = self._is_ready(connection)
            connection.execute("COMMIT")
            if not is_ready:
                connection.execute("BEGIN IMMEDIATE")
                if not self._is_ready(connection):  # unless another process made it meanwhile
                    self._make(connection, was_there=path != _IN_MEMORY)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _waits(self) -> Callable[[int], bool]:
        """What SQLite calls, with the number of tries so far, while another process writes."""
        deadline = Deadline(self._patience)

        def wait(tries: int) -> bool:
            nonlocal deadline
            deadline = deadline if tries else Deadline(self._patience)
            shortest, longest = _POLL_SECONDS  # who waits long asks more often, and starves seldom
            Event().wait(random.uniform(shortest, longest * deadline.left / self._patience))
            return deadline.left > 0

        return wait

    def _make(self, connection: Connection, *, was_there: bool) -> None:
        is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").get
        for statement in _statements(self._schema):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        if is_empty:
            is_used = self._file is not None and (was_there or self._file.is_beside_others())
            self._begin(connection, is_used)
        if is_empty and was_there:  # a file that was set up is never empty
            self._begin_anew("emptied")

    def _begin_anew(self, loss: Loss) -> None:
        self._count += 1
        self._on_new()
        self._on_loss(loss)

    def _is_ready(self, connection: Connection) -> bool:
        """Whether the file has all that it needs; False if that has to be created."""
        schema = connection.execute("PRAGMA user_version").get
        found, own = _shape_of(connection), _shape(self._schema)
        if not schema and not any(kind == "table" for kind, *_ in found):
            return False
        if schema != SCHEMA:
            raise SchemaMismatch(_OPERATION, "schema", self.path, schema, SCHEMA)
        for kind, table, column in sorted(own - found):
            if kind == "table":
                is_there = any(name == table for _, name, _ in found)
                what = f"column {column} of " if is_there else ""
                raise StateDamaged(_OPERATION, f"{what}table {table} is missing", self.path)
        return own <= found

    def _refused(self, error: Exception, *, inside: bool) -> StateFailed:
        name, words = _name_of(error), f"SQLite: {error}"
        if not (inside or name.startswith(_TRANSIENT)) and self._is_in_place():
            self._let_go()
        if name.startswith(_DAMAGE) or str(error).startswith(_DAMAGED_WORDS):
            return StateDamaged(_OPERATION, words, self.path)
        return StateFailed(_OPERATION, words, self.path)


def _name_of(error: Exception) -> str:
    """The name of SQLite's error code, the extended one if there is one."""
    code = getattr(error, "extendedresult", -1)
    found = apsw.mapping_extended_result_codes.get(code)
    return str(found or apsw.mapping_result_codes.get(code & 0xFF, ""))


def _statements(schema: str) -> list[str]:
    """Split a schema into statements; a trigger contains statements itself."""
    return [each for each in schema.split(";\n") if each.strip()]


def _are_same(one: Looks, other: Looks) -> bool:
    """Whether they are of the same files, whatever was written to the log in between."""
    return one[0] == other[0] and (one[1] or ())[:2] == (other[1] or ())[:2]


_Shape = frozenset[tuple[str, str, str]]


def _shape_of(connection: Connection) -> _Shape:
    """Kind and name of all tables, indexes and triggers, the tables with each of their columns."""
    return frozenset(
        (kind, name, column or "")
        for kind, name, column in connection.execute(
            "SELECT m.type, m.name, p.name FROM sqlite_master AS m"
            " LEFT JOIN pragma_table_info(m.name) AS p ON m.type = 'table'"
            " WHERE m.name NOT LIKE 'sqlite_%'"
        )
    )


@lru_cache
def _shape(schema: str) -> _Shape:
    """The shape of a file that a schema creates."""
    with closing(cast(Connection, apsw.Connection(_IN_MEMORY))) as connection:
        for statement in _statements(schema):
            connection.execute(statement)
        return _shape_of(connection)
