"""The state of a workspace in SQLite: a file that is shared, and what lies in the two there are.

`state.sqlite` has the records: plans, decisions, statistics and the journal. A plan that is written
is tied to its journal entry (`plan`) in the transaction that records the intent, and ends in the
statement that records how that went: no plan can be written twice, or be called applied if it was
not written. `texts.sqlite` is a cache of texts, and of the lines of them that were shown.

Invariants of a file: a transaction is applied as a whole or not at all; an error names the file,
which the next call tries again, so a repair needs no restart; if the file is deleted or replaced
while open, that is noticed and reported, and a new one begun.

It uses apsw's own SQLite, since it needs the write-ahead log: a commit takes one flush instead of
four, and readers never wait. SQLite up to 3.51.2 may corrupt such a log in a rare race. Its own
way to wait for another writer sleeps up to a tenth of a second at a time; ours some milliseconds.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import astuple, replace
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from threading import Event, RLock, local
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import apsw

from copydesk.desk.backends.api import (
    CHAIN_LENGTH,
    DAY_MS,
    ENDED_KEPT_MS,
    ENDS,
    MOST_OUTCOMES,
    PLANS_KEPT,
    SCHEMA,
    Day,
    Decision,
    Entry,
    Head,
    IdRange,
    Loss,
    Missing,
    PlanOutcome,
    PlanVersion,
    RecordError,
    Records,
    State,
    Tied,
    UnknownRecord,
    compress,
    decode_inverse,
    decode_plan,
    decompress,
    due,
    encode,
    encode_plan,
    known_plans,
    linked,
    notifying,
    share,
    unpack,
)
from copydesk.desk.backends.snapshots import (
    LARGEST,
    MEMORY_BYTES,
    MOST_SHOWN,
    SnapshotStore,
    place_of,
)
from copydesk.edit.draft import Approval, Ended, Plan
from copydesk.errors import Failed, HunkNotFound, SchemaMismatch, StateDamaged, StateFailed
from copydesk.store.protocol import Deadline, FileChange, TargetMoved
from copydesk.store.state import FILE, OPERATION, Count, Looks, Mark, StateFile
from copydesk.store.threads import DATABASE, Exclusion, NoExclusion, held_at_fork
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH

if TYPE_CHECKING:
    from copydesk.notes.protocol import Change

BUSY_SECONDS = 5.0
"""How long a transaction waits for those of other processes."""

_POLL_SECONDS = (0.0005, 0.005)
"""Between tries to begin a transaction, drawn at random: equal waits would meet again."""

_IN_MEMORY = ":memory:"

_LOG_BYTES = 1 << 20
"""A larger log is truncated once all of it is in the file."""

_LAST_SCHEMA = 4
"""The last schema of several files."""

_OPEN_RETRIES = 2
"""When a file is opened whose folder is being deleted."""

_DAMAGE = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ")
_DAMAGED_WORDS = ("no such table", "no such column", "'utf-8' codec can't decode")
_TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_CONSTRAINT")
"""Errors after which the connection is still usable."""

_AS_BEFORE = "PRAGMA synchronous = NORMAL"
_UNFLUSHED = "BEGIN IMMEDIATE", "COMMIT"
_FLUSHED = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE", f"COMMIT; {_AS_BEFORE}"
"""How a writing transaction begins and ends."""

_OPENING = f"{DATABASE}opening"
_HAS_LOG = b"\2\2"
"""The versions of its format in the header of a file with a log, from byte 18 on."""

_HEADER = b"SQLite format 3\0"
"""How each file begins."""

_PAGES, _OWN = slice(28, 32), slice(60, 72)
"""In the header: the number of pages, and what no transaction changes: schema and id
(`PRAGMA user_version`, `application_id`)."""

_opening = held_at_fork(RLock())
"""Held while a file is opened: who makes one removes the log of another one that was there."""

_MOVED = "it was deleted or replaced during this call"

T = TypeVar("T")
Value = str | int | float | bytes | None


class Cursor(Protocol):
    """The rows of a statement; `get` is the only row, its value if that has just one, or None."""

    get: Any

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Connection(Protocol):
    """The part of `apsw.Connection` that is used; its own types need Python 3.12.

    `changes` counts the rows that the last writing statement changed, `total_changes` those of all.
    """

    in_transaction: bool
    execute: Callable[..., Cursor]
    executemany: Callable[..., Cursor]
    changes: Callable[[], int]
    total_changes: Callable[[], int]
    config: Callable[[int, bool], object]
    serialize: Callable[[str], bytes]
    read: Callable[[str, int, int, int], tuple[bool, bytes]]

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
        self._own = b""
        self._count = 0
        self._used = _Used()
        self._deadline = Deadline(patience)
        self.define("")

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
        begin, commit = _FLUSHED if flushed and self._is_flushed else _UNFLUSHED
        with self.reading() as connection:
            try:
                connection.execute(begin)
                self._used.file = self._count
                yield connection
                connection.execute(commit)
                self._look_after()
            except BaseException:
                if connection.in_transaction:  # SQLite may have rolled back itself
                    connection.execute("ROLLBACK")
                if begin == _FLUSHED[0]:
                    connection.execute(_AS_BEFORE)
                raise

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

    def change(
        self, statement: str, values: Sequence[Value] = (), *, looked: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction, unflushed; return its rows. `looked` as in `rows`."""
        return self.rows(statement, values, is_change=True, looked=looked)

    def rows(
        self,
        statement: str,
        values: Sequence[Value] | Mapping[str, Value] = (),
        *,
        is_change: bool = False,
        looked: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a reading statement, or of one that `is_change`.

        `looked`: the call looks at the files before it relies on this, or has just looked; they are
        looked at only if this fails.
        """
        with self._lock:
            connection = self._connection if looked else None
            try:
                rows = [*(connection or self._connected()).execute(statement, values)]
            except (apsw.Error, UnicodeDecodeError) as error:
                if connection is not None and not self._inside:
                    return self.rows(statement, values, is_change=is_change)
                raise self._refused(error, inside=self._inside) from error
            if is_change and not self._inside:
                self._look_after()
            return rows

    def decoded(self, decode: Callable[[Any], T], data: Any) -> T:
        """Decode records; its errors become StateFailed or StateDamaged."""
        try:
            return decode(data)
        except UnknownRecord as error:
            raise StateFailed(OPERATION, f"{error}; use that version", self.path) from error
        except RecordError as error:
            raise StateDamaged(OPERATION, str(error), self.path) from error

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
                raise StateFailed(OPERATION, "another process reads it; try again", self.path)
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
            raise StateDamaged(OPERATION, "it is empty", self.path)
        with self.reading() as connection:
            if (problem := connection.execute("PRAGMA quick_check(1)").get) != "ok":
                raise StateDamaged(OPERATION, f"SQLite: {problem}", self.path)

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
            with suppress(apsw.Error, StateFailed):
                if self._connection and self._file and self._file.look() == (self._known[0], None):
                    self._connected()  # its log was deleted, which has to get into the file
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
        if (looks := file.look()) != self._known:
            is_same = _are_same(looks, self._known) and file.log_holds(self._frames()[0])
            if not (is_same and self._has_header(file, looks)):
                return False
            self._known = looks  # another process of ours wrote to it
        return True

    def _has_header(self, file: StateFile, looks: Looks) -> bool:
        """Whether the file in use was not emptied; StateDamaged if it was overwritten or cut.

        It is read through SQLite: to close another handle of it would release SQLite's locks.
        """
        assert self._connection is not None
        with suppress(apsw.Error):  # SQLite will say it itself
            _, header = self._connection.read("main", 0, 0, _OWN.stop)
            is_ours = header.startswith(_HEADER) and header[_OWN] == self._own
            now, before = ((log or (0,) * 6)[FILE][0] for _, log in (looks, self._known))
            # Its header may count pages that are just being written, but then it grows.
            is_cut = now < before and now < int.from_bytes(header[_PAGES]) * _PAGE_BYTES
            if not file.is_empty() and (is_cut or not is_ours):
                raise StateDamaged(OPERATION, "it was cut or overwritten", self.path)
            return is_ours
        return True

    def _look_after(self) -> None:
        """Take in what this process just wrote to the log; raise if that is not in the file."""
        if self._file is not None:
            try:
                looks = self._file.look()
            except StateFailed:  # it is written: the next transaction finds out where
                return
            if looks[0] != self._known[0]:
                raise StateFailed(OPERATION, _MOVED, self.path)
            is_file_as_known = (looks[1] or ())[FILE] == (self._known[1] or ())[FILE]
            if looks[1] and is_file_as_known and _are_same(looks, self._known):
                self._known = looks  # else the next transaction finds out

    def _frames(self) -> tuple[int, int]:
        """How many frames of the log are valid, and how many of them are in the file too."""
        assert self._connection is not None
        with suppress(apsw.Error):  # it is in a transaction: look before the next one
            _, frames, stored = self._connection.execute("PRAGMA wal_checkpoint(NOOP)").get
            return frames, stored
        return 0, 0

    def _connected(self) -> Connection:
        """The connection to the file that has the path now; one that was lost is begun anew."""
        if self._connection is not None and (self._inside or self._is_in_place()):
            return self._connection
        with _opening, self._exclusion.hold(_OPENING):
            if self._connection is not None and self._is_in_place():
                return self._connection  # another process was writing to the log
            for _ in range(_OPEN_RETRIES):
                # They are raised if its folder was just deleted.
                with suppress(apsw.IOError, apsw.CantOpenError, StateFailed):
                    return self._reopened()
            return self._reopened()

    def _reopened(self) -> Connection:
        """Open the file, or make it; `self._known` says which file and log were in use before.

        - The log in use was deleted: SQLite still has it open, and writes it into the file.
        - The log in use is there, but was cut or overwritten, or its file was replaced: it goes, so
          that it never gets into a file. What was in it alone is lost with it ("cut").
        - Another log is the own one of a file that replaced ours ("replaced"), and stays.
        - There is no file: a log that is there was of another one, and goes; a file is made.
        - The file is empty: it goes too, so that who has it open notices by its inode ("emptied").
        """
        file = self._file
        if file is None:
            self._connection = self._open(self.path)
            return self._connection
        self._refuse_older()
        file.prepare()
        known, (before, log) = self._known[0], file.look()
        if is_emptied := file.is_empty():
            before = None
        if self._connection is not None:  # while it is open, no other log can have its inode
            if log is None:  # deleted, but still open
                self._connection.execute("PRAGMA wal_checkpoint")
            if log is None or _are_same((known, log), self._known):
                file.discard_log()
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
            file.discard()
            file.create(image, flush=self._is_flushed)
        connection = self._connection = self._open(self.path)
        self._known, (_, header) = file.look(), connection.read("main", 0, 0, _OWN.stop)
        self._own = header[_OWN]
        if is_emptied:
            self._begin_anew("emptied")
        elif known is not None and known != before:  # the new file may reuse the inode
            self._begin_anew("deleted" if before is None else "replaced")
        return connection

    def _refuse_older(self) -> None:
        """Never begin anew beside an earlier version, which may run and takes other locks."""
        if self._file is not None and (older := self._file.older):
            raise SchemaMismatch(OPERATION, "schema", older, _LAST_SCHEMA, SCHEMA)

    def _open(self, path: str) -> Connection:
        opened = apsw.Connection(path)
        connection = cast(Connection, opened)
        try:
            opened.set_busy_handler(self._wait)
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
                    self._make(connection)
                connection.execute("COMMIT; PRAGMA wal_checkpoint")  # the header gets into the file
        except BaseException:
            connection.close()
            raise
        return connection

    def _wait(self, tries: int) -> bool:
        """What SQLite calls, with the number of tries so far, while another process writes."""
        if not tries:
            self._deadline = Deadline(self._patience)
        shortest, longest = _POLL_SECONDS  # who waits long asks more often, and starves seldom
        Event().wait(random.uniform(shortest, longest * self._deadline.left / self._patience))
        return self._deadline.left > 0

    def _make(self, connection: Connection) -> None:
        """Make the tables, in a file that is empty, or that lacks indexes or triggers."""
        is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").get
        connection.execute(self._schema)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        if is_empty:
            connection.execute(f"PRAGMA application_id = {random.getrandbits(31)}")
            self._begin(connection, self._file is not None and self._file.is_beside_others())

    def _begin_anew(self, loss: Loss) -> None:
        self._count += 1
        self._on_new()
        self._on_loss(loss)

    def _is_ready(self, connection: Connection) -> bool:
        """Whether the file has all that it needs; False if that has to be created."""
        schema = connection.execute("PRAGMA user_version").get
        shape, own = _shape_of(connection), _shape(self._schema)
        if not schema and not any(kind == "table" for kind, *_ in shape):
            return False
        if schema != SCHEMA:
            raise SchemaMismatch(OPERATION, "schema", self.path, schema, SCHEMA)
        for kind, table, column in sorted(own - shape):
            if kind == "table":
                is_there = any(name == table for _, name, _ in shape)
                what = f"column {column} of " if is_there else ""
                raise StateDamaged(OPERATION, f"{what}table {table} is missing", self.path)
        return own <= shape

    def _refused(self, error: Exception, *, inside: bool) -> StateFailed:
        name, words = _name_of(error), f"SQLite: {error}"
        if not (inside or name.startswith(_TRANSIENT)) and self._is_in_place():
            self._let_go()
        if name.startswith(_DAMAGE) or str(error).startswith(_DAMAGED_WORDS):
            return StateDamaged(OPERATION, words, self.path)
        return StateFailed(OPERATION, words, self.path)


def _name_of(error: Exception) -> str:
    """The name of SQLite's error code, the extended one if there is one."""
    code = getattr(error, "extendedresult", -1)
    extended = apsw.mapping_extended_result_codes.get(code)
    return str(extended or apsw.mapping_result_codes.get(code & 0xFF, ""))


def _are_same(before: Looks, now: Looks) -> bool:
    """Whether they are of the same files, whatever was written to the log in between."""
    return before[0] == now[0] and (before[1] or ())[:2] == (now[1] or ())[:2]


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
        connection.execute(schema)
        return _shape_of(connection)


FORGET_EVERY_MS = 60_000
"""The interval of the cleanup."""

STATE = """
CREATE TABLE IF NOT EXISTS plans (
    id INTEGER PRIMARY KEY, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    plan BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS ended (
    id INTEGER PRIMARY KEY, created_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
    how TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS plan_ended AFTER INSERT ON ended
BEGIN DELETE FROM plans WHERE id = NEW.id; END;
CREATE TABLE IF NOT EXISTS decisions (
    hunk_id TEXT NOT NULL, prepared_ms INTEGER NOT NULL, owner TEXT NOT NULL, path TEXT NOT NULL,
    verdict TEXT NOT NULL, decided_by TEXT NOT NULL, time_ms INTEGER NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, reason TEXT NOT NULL, told INTEGER NOT NULL,
    PRIMARY KEY (hunk_id, prepared_ms)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS decisions_untold ON decisions (owner) WHERE told = 0;
CREATE TABLE IF NOT EXISTS fared (
    id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, member TEXT NOT NULL, path TEXT NOT NULL,
    how TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS edits (
    edit_id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,
    member TEXT NOT NULL, tool TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, inverse BLOB NOT NULL, diff BLOB NOT NULL,
    hunk_id TEXT NOT NULL, plan INTEGER, state TEXT NOT NULL, whole BLOB, group_id TEXT NOT NULL,
    undoes INTEGER NOT NULL, undo BLOB, why TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS edits_by_path ON edits (path, edit_id);
CREATE INDEX IF NOT EXISTS edits_by_member ON edits (member, edit_id);
CREATE INDEX IF NOT EXISTS edits_by_hunk ON edits (hunk_id) WHERE hunk_id <> '';
CREATE INDEX IF NOT EXISTS edits_open ON edits (edit_id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS edits_by_group ON edits (group_id) WHERE group_id <> '';
CREATE INDEX IF NOT EXISTS edits_undoing ON edits (undoes) WHERE undoes <> 0;
CREATE TRIGGER IF NOT EXISTS plan_written AFTER UPDATE OF state ON edits
WHEN NEW.plan IS NOT NULL AND OLD.state = 'open' AND NEW.state <> 'failed'
BEGIN INSERT OR REPLACE INTO ended
    SELECT id, created_ms, NEW.time_ms, 'applied' FROM plans WHERE id = NEW.plan; END;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lost (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, next INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS days (day INTEGER PRIMARY KEY, newest INTEGER NOT NULL)
"""
"""All tables of `state.sqlite`. A plan is in `plans` or in `ended`; ids of plans are numbers here.

`plan` of an edit is the plan that is tied to it, which ends with it. `undo` has all that `Entry`
has in `undo`, `file` and `approval`. `lost`: the entries from `first` to `last` were in a file that
was lost, and the ids after them up to `next` were passed over.
"""


_DECISION_COLUMNS = (
    "hunk_id, prepared_ms, owner, path, verdict, decided_by, time_ms, before, after, reason, told"
)
_DECISIONS = f"SELECT {_DECISION_COLUMNS} FROM decisions WHERE"
_ONE = "hunk_id = ? AND prepared_ms = ?"

_ROW_BYTES = 512
"""The approximate overhead of an entry, in bytes."""

_SIZE_CHECKS = 16
"""The size is checked after writing one part in this many of the limit."""

_OLDEST = (
    "SELECT max(edit_id), count(*) FROM ("
    " SELECT edit_id, sum(size) OVER (ORDER BY edit_id) - size AS before FROM ("
    "  SELECT edit_id, ?1 + length(inverse) + length(diff) + coalesce(length(whole), 0)"
    "  + coalesce(length(undo), 0) AS size FROM edits WHERE state <> 'open'"
    "  ORDER BY edit_id LIMIT ?2)) WHERE before < ?3"
)
"""The last of the oldest entries, at most so many, that take so many bytes together; how many."""

_MOST_SINGLE = 2_000
"""The most entries of a damaged file that are read one by one, and looked for as missing."""

_MOST_ID = (1 << 63) - 1
"""SQLite's largest integer."""

_AS_STORED = (
    *("time_ms", "member", "tool", "kind", "before", "after", "hunk_id", "state", "undoes", "why"),
)
"""The columns of an entry that hold its field of the same name as it is."""

_stored_of: Callable[[Entry], tuple[Value, ...]] = attrgetter(*_AS_STORED)

_COLUMNS = (*_AS_STORED, "path", "inverse", "diff", "group_id", "undo")
"""Those of all its fields besides its id."""

_ENDS = ", ".join(f"('{state}', '{end}')" for state, ends in ENDS.items() for end in ends)
_INSERT = (
    f"INSERT INTO edits ({', '.join(_COLUMNS)}, plan)"
    f" SELECT {', '.join(f':{name}' for name in _COLUMNS)}, :plan WHERE :plan IS NULL"
    " OR EXISTS (SELECT 1 FROM plans"
    "  WHERE id = :plan AND created_ms = :created_ms AND expires_ms > :time_ms)"
    " AND NOT EXISTS (SELECT 1 FROM edits WHERE state = 'open' AND plan = :plan)"
    " AND :decided_ms = coalesce((SELECT time_ms FROM decisions"
    "  WHERE hunk_id = :hunk_id AND prepared_ms = :created_ms), 0) RETURNING edit_id"
)
"""Adds an entry, unless a plan is to be tied to it that may not be written (any longer)."""


class SqliteRecords(Records):
    """The records of all processes of a workspace, in a file, or of one, in memory.

    The journal takes at most `most_bytes`. `decided` is marked with each decision, in the same
    transaction. What need not survive a power cut is not flushed. The ids of a new file begin at 1,
    or at the minutes since 2020 if there was another one before: nobody knows which ids that gave.
    """

    def __init__(
        self, db: Database, decided: Mark | None = None, *, most_bytes: int = 1 << 62
    ) -> None:
        super().__init__()
        self._db, self._decided = db, decided
        self._no_news: dict[str, tuple[int, int] | None] = {}
        self._forgot_ms = self._lowest = self._highest = self._written = 0
        self._is_lost, self._day, self._most_bytes = False, -1, most_bytes
        self._unreadable: set[int] = set()
        db.define(STATE, self._begin_anew, _begin_ids)

    def _begin_anew(self) -> None:
        """Clear what was known of the former file."""
        self._unreadable.clear()
        self._is_lost, self._day = self._highest > 0, -1
        if self._decided is not None:
            self._decided.set()

    def changes(self) -> object:
        return self._db.rows(
            "SELECT count(*), total(created_ms) FROM plans UNION ALL"
            " SELECT count(*), total(ended_ms) FROM ended UNION ALL"
            " SELECT count(*), total(time_ms) FROM decisions"
        )

    @notifying
    def add(self, plan: Plan) -> bool:
        if plan.created_ms - self._forgot_ms > FORGET_EVERY_MS:
            self._forget_plans(plan.created_ms)
        added = self._db.change(
            "INSERT OR IGNORE INTO plans (id, created_ms, expires_ms, plan) SELECT ?1, ?2, ?3, ?4"
            " WHERE NOT EXISTS (SELECT 1 FROM ended WHERE id = ?1) RETURNING id",
            _plan_row(plan),
        )
        return bool(added)

    @notifying
    def put(self, plan: Plan) -> None:
        with self._db.writing() as db:
            self.plan(plan.id, plan.created_ms)
            db.execute(
                "UPDATE plans SET created_ms = ?2, expires_ms = ?3, plan = ?4 WHERE id = ?1",
                _plan_row(plan),
            )

    def plan(self, hunk_id: str, now_ms: int) -> Plan:
        rows = self._db.rows(
            "SELECT plan, expires_ms, NULL FROM plans WHERE id = ?1"
            " UNION ALL SELECT NULL, 0, how FROM ended WHERE id = ?1",
            (_key(hunk_id),),
        )
        if not rows:
            raise HunkNotFound(hunk_id, "unknown")
        ((plan, expires_ms, ended),) = rows
        if expires_ms <= now_ms:
            raise HunkNotFound(hunk_id, ended or "expired")
        return self._db.decoded(decode_plan, plan)

    @notifying
    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        self._db.change(
            "INSERT OR REPLACE INTO ended (id, created_ms, ended_ms, how) VALUES"
            " (?1, coalesce((SELECT created_ms FROM plans WHERE id = ?1), ?3), ?3, ?2)",
            (_key(hunk_id), how, now_ms),
        )

    @notifying
    def reopen(self, plan: Plan) -> bool:
        row = _plan_row(plan)
        with self._db.writing() as db:
            db.execute("DELETE FROM ended WHERE id = ? AND how = 'applied'", row[:1])
            insert = "INSERT INTO plans (id, created_ms, expires_ms, plan) SELECT ?, ?, ?, ?"
            db.execute(f"{insert} WHERE changes()", row)
            return db.changes() == 1

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        rows = self._db.rows(
            "SELECT plan FROM plans WHERE expires_ms > ? ORDER BY created_ms, id", (now_ms,)
        )
        return self._db.decoded(known_plans, (plan for (plan,) in rows))

    def _forget_plans(self, now_ms: int) -> None:
        """Drop plans that ended or expired long ago; keep PLANS_KEPT, as the clock may be wrong."""
        with self._db.writing() as db:
            both = "SELECT created_ms FROM plans UNION ALL SELECT created_ms FROM ended"
            oldest = f"SELECT * FROM ({both}) ORDER BY created_ms DESC LIMIT 1 OFFSET ?"
            before = now_ms - ENDED_KEPT_MS, db.execute(oldest, (PLANS_KEPT - 1,)).get
            db.execute("DELETE FROM plans WHERE expires_ms < ? AND created_ms < ?", before)
            db.execute("DELETE FROM ended WHERE ended_ms < ? AND created_ms < ?", before)
        self._forgot_ms = now_ms

    @notifying
    def take(self, decision: Decision) -> Decision:
        row: tuple[Value, ...] = (*decision.plan, *astuple(decision)[1:])  # in column order
        with self._db.writing() as db:
            if self._decided is not None:
                self._decided.set()
            places = ", ".join("?" * len(row))
            db.execute(
                f"INSERT OR IGNORE INTO decisions ({_DECISION_COLUMNS}) VALUES ({places})", row
            )
            return _decision(db.execute(f"{_DECISIONS} {_ONE}", decision.plan).get)

    def of_all(self, plans: Sequence[PlanVersion]) -> dict[PlanVersion, Decision]:
        return {plan: each for plan in plans for each in self._decisions(_ONE, *plan)}

    @notifying
    def withdraw(self, decision: Decision) -> None:
        which = (*decision.plan, decision.time_ms)
        self._db.change(f"DELETE FROM decisions WHERE {_ONE} AND time_ms = ?", which)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        """As of all; while nobody decides, without a look at the file."""
        stamp = None if self._decided is None else self._decided.stamp()
        if stamp is not None and self._no_news.get(owner) == stamp:
            return ()
        where = "told = 0 AND owner = ? ORDER BY time_ms, hunk_id, -prepared_ms"
        decisions = self._decisions(where, owner)
        self._no_news[owner] = None if decisions else stamp
        return decisions

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        return self._decisions("hunk_id = ? AND prepared_ms < 0 ORDER BY -prepared_ms", hunk_id)

    def _decisions(self, where: str, *values: Value) -> tuple[Decision, ...]:
        return tuple(map(_decision, self._db.rows(f"{_DECISIONS} {where}", values)))

    def tell(self, decision: Decision) -> None:
        self._db.change(f"UPDATE decisions SET told = 1 WHERE {_ONE}", decision.plan)

    def forget(self, before_ms: int) -> None:
        """As of all; PLANS_KEPT are kept, as the clock may be wrong, and those of no plan."""
        plan = "SELECT printf('%08x', id) FROM"
        self._db.change(
            "DELETE FROM decisions WHERE time_ms < ?1 AND time_ms <"
            " (SELECT time_ms FROM decisions ORDER BY time_ms DESC LIMIT 1 OFFSET ?2)"
            f" AND length(hunk_id) = 8 AND hunk_id NOT IN ({plan} plans WHERE expires_ms >= ?1"
            f"  UNION ALL {plan} ended WHERE ended_ms >= ?1)",
            (before_ms, PLANS_KEPT - 1),
        )

    def forget_reasons(self, ours: Callable[[Decision], bool]) -> None:
        for decision in filter(ours, self._decisions("reason <> ''")):
            self._db.change(f"UPDATE decisions SET reason = '' WHERE {_ONE}", decision.plan)

    def note(self, fared: PlanOutcome) -> None:
        with suppress(StateFailed), self._db.writing() as db:
            db.execute(
                "INSERT INTO fared (time_ms, member, path, how) VALUES (?, ?, ?, ?)",
                astuple(fared),
            )
            db.execute("DELETE FROM fared WHERE id <= last_insert_rowid() - ?", (MOST_OUTCOMES,))

    def noted(self) -> tuple[PlanOutcome, ...]:
        last = "SELECT time_ms, member, path, how FROM fared ORDER BY id DESC LIMIT ?"
        return tuple(PlanOutcome(*row) for row in self._db.rows(last, (MOST_OUTCOMES,)))

    def open_all(self, entries: Sequence[Entry], plans: Iterable[Tied] = ()) -> tuple[int, ...]:
        tied, ids = {plan[0]: plan for plan in plans}, list[int]()
        rows = [_row(entry, tied.pop(entry.hunk_id, None)) for entry in entries]
        with self._db.writing(flushed=True) as db:
            if self._is_lost:
                self._note_loss(db)
            self._lowest = self._lowest or _fact(db, "first")
            for row in rows:
                edit_id = db.execute(_INSERT, row).get
                if edit_id is None:
                    raise _why_not(db, row)
                ids.append(edit_id)
            if entries and entries[0].time_ms // DAY_MS != self._day:
                self._day = _note_day(db, entries[0].time_ms)
        self._highest = ids[-1] if ids else self._highest
        self._is_lost = False
        self._written += sum(len(row["inverse"]) + len(row["diff"]) + _ROW_BYTES for row in rows)
        if self._written * _SIZE_CHECKS > self._most_bytes:
            with suppress(Failed):  # the entries are recorded
                self._drop_beyond_size()
        return tuple(ids)

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        with self._db.writing(flushed=True) as db:
            db.execute("UPDATE edits SET whole = ? WHERE edit_id = ?", (compress(old), edit_id))
            if not db.changes():
                raise TargetMoved

    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        with self._db.writing(flushed=True) as db:
            known = _besides(db.execute("SELECT undo FROM edits WHERE edit_id = ?", (edit_id,)).get)
            kept = (part for part in known if isinstance(part, FileChange | Approval))
            packed = compress(encode((*kept, *undo)))
            db.execute("UPDATE edits SET undo = ? WHERE edit_id = ?", (packed, edit_id))

    def _amending(self, edit_id: int) -> Callable[[bytes], object]:
        change = "UPDATE edits SET diff = ? WHERE edit_id = ? AND inverse <> x''"
        return lambda diff: self._db.change(change, (diff, edit_id))

    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        self._db.change(
            "UPDATE edits SET state = ?1, whole = NULL"
            " WHERE edit_id IN (SELECT value FROM json_each(?2))"
            f" AND (state, ?1) IN (VALUES {_ENDS})",
            (state, str([*edit_ids])),  # as JSON
            looked=True,
        )

    def forget_texts(self, entries: Sequence[Entry]) -> None:
        self._late.now()  # what would put a whole diff back
        with self._db.writing(flushed=True) as db:
            db.execute("PRAGMA secure_delete = ON")  # also if there is no room to rewrite the file
            db.executemany(
                "UPDATE edits SET inverse = x'', diff = :diff, undo = :undo, whole = NULL, why = ''"
                " WHERE edit_id = :edit_id AND state <> 'open'",
                [{**_row(entry), "edit_id": entry.edit_id} for entry in entries],
            )
        self._db.scrub()

    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        self._late.now()
        try:
            return self._last(path, member, most, before)
        except StateDamaged:
            readable = list(filter(None, map(self._readable, self._last_ids(1, before)[::-1])))
            if not readable:
                raise
        there = (entry for entry in readable if path is None or path.covers(entry.path))
        return tuple(entry for entry in there if member in (None, entry.member))[:most]

    def heads(self, last_id: int, most: int) -> Sequence[Head]:
        find = f"SELECT {', '.join(Head._fields)} FROM edits WHERE edit_id > ?"
        self._late.now()
        try:
            rows = self._db.rows(f"{find} ORDER BY edit_id DESC LIMIT ?", (last_id, most))
        except StateDamaged:
            return super().heads(last_id, most)
        return [Head(*row) for row in rows]

    def _last(
        self, path: RelPath | None, member: str | None, most: int, before: int | None
    ) -> tuple[Entry, ...]:
        find = "SELECT edit_id FROM edits"
        places = [f"{find} WHERE"]
        if path is not None and path.parts:
            # the file itself, or anything below a directory: 0 comes after /
            find += " INDEXED BY edits_by_path WHERE"
            below = "path > :path || '/' AND path < :path || '0'"
            places = [f"{find} path = :path AND", f"{find} {below} AND"]
        ends = "edit_id < :before ORDER BY edit_id DESC LIMIT :most"
        by = "" if member is None else "member = :member AND"
        some = " UNION ALL ".join(f"SELECT * FROM ({place} {by} {ends})" for place in places)
        values: dict[str, Value] = {
            "path": str(path),
            "member": member,
            "most": min(most, _MOST_ID),
            "before": min(_MOST_ID if before is None else before, _MOST_ID),
        }
        return self._select(f"edit_id IN ({some}) ORDER BY edit_id DESC LIMIT :most", values)

    def lost(self, first: int, before: int | None) -> tuple[IdRange, ...]:
        """As of all: those of files that were lost, that cannot be read, that have just gone."""
        with self._db.reading() as db:
            losses = [*db.execute("SELECT first, last, next FROM lost ORDER BY first")]
            begin = _fact(db, "first")
        # Ids that were passed over after a loss were never given.
        begin = max((next_ for *_, next_ in losses if next_ < (before or _MOST_ID)), default=begin)
        ids = self._last_ids(max(first, begin), before)
        find = "SELECT edit_id FROM edits WHERE edit_id BETWEEN ? AND ?"
        try:
            there = {id_ for (id_,) in self._db.rows(find, (ids.start, ids.stop - 1))}
        except StateDamaged:
            there = {id_ for id_ in ids if self._readable(id_) is not None}
        marks = sorted({ids.start - 1, ids.stop} | there - self._unreadable)
        gaps = [(low + 1, high - 1) for low, high in pairwise(marks) if high - low > 1]
        gone = (g for g in gaps if g[1] in self._unreadable or self.why_missing(g[1]) != "pruned")
        runs = [(max(a, first), min(b, ids.stop - 1)) for a, b, _ in losses]
        return (*(run for run in runs if run[0] <= run[1]), *gone)

    def _last_ids(self, first: int, before: int | None) -> range:
        """The last ids that were given from the first on, at most as many as are read singly."""
        with self._db.reading() as db:
            given = _last_id(db)
        stop = min(given + 1, before or _MOST_ID)
        return range(max(first, stop - _MOST_SINGLE), stop)

    def _readable(self, edit_id: int) -> Entry | None:
        """The entry, if its pages can be read."""
        with suppress(StateDamaged):
            return self.get(edit_id)
        self._unreadable.add(edit_id)
        return None

    def get(self, edit_id: int) -> Entry | None:
        self._late.now()
        return next(iter(self._select("edit_id = ?", (min(edit_id, _MOST_ID),))), None)

    def of_hunk(self, hunk_id: str) -> Entry | None:
        last = "hunk_id = ? AND hunk_id <> '' ORDER BY edit_id DESC LIMIT 1"
        return next(iter(self._select(last, (hunk_id,))), None)

    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        links = (
            "SELECT before, after, state, inverse FROM edits WHERE path = ?"
            " ORDER BY edit_id DESC LIMIT ?"
        )
        with suppress(StateFailed):
            with self._db.reading() as db:
                rows = cast(Any, db.execute(links, (str(path), CHAIN_LENGTH)))
                inverses = linked(rows, base_digest, now_digest)
                rows.close()  # most are not read
            if inverses is not None:
                return tuple(self._db.decoded(unpack, inverse) for inverse in inverses)
        return None  # or our writes cannot be told from those of others

    def next_of(self, entry: Entry) -> Entry | None:
        after = "path = ? AND edit_id > ? ORDER BY edit_id LIMIT 1"
        return next(iter(self._select(after, (str(entry.path), entry.edit_id))), None)

    def of_group(self, group: str) -> tuple[Entry, ...]:
        return self._select("group_id = ? AND group_id <> '' ORDER BY edit_id", (group,))

    def open_at(self, paths: Iterable[RelPath]) -> tuple[int, ...]:
        find = "SELECT edit_id, path FROM edits WHERE state = 'open'"  # usually few
        names = set(map(str, paths))
        return tuple(id_ for id_, path in self._db.rows(find, looked=True) if path in names)

    def undone_by(self, edit_id: int) -> tuple[int, ...]:
        rows = self._db.rows(
            "SELECT edit_id FROM edits WHERE undoes = ? AND undoes <> 0 AND state <> 'failed'"
            " ORDER BY edit_id",
            (edit_id,),
        )
        return tuple(id_ for (id_,) in rows)

    def in_doubt(self) -> tuple[Entry, ...]:
        self._late.now()
        return self._select("state = 'open' ORDER BY edit_id")

    def whole_of(self, edit_id: int) -> bytes | None:
        find = "SELECT whole FROM edits WHERE edit_id = ? AND whole IS NOT NULL"
        rows = self._db.rows(find, (edit_id,))
        return self._db.decoded(decompress, rows[0][0]) if rows else None

    def prune(self, now_ms: int, keep_days: int, most_bytes: int) -> int:
        """Drop a share of the entries beyond `keep_days` of use, or the size; return how many.

        The former once a day. From now on the size is also checked as entries are added.
        """
        self._late.now()
        self._most_bytes = most_bytes
        today, gone = now_ms // DAY_MS, 0
        with self._db.reading() as db:
            is_first = _fact(db, "pruned") != today
        if is_first:  # else there is usually no writing transaction
            with self._db.writing() as db:
                self._day = _note_day(db, now_ms)
                old = None if _fact(db, "pruned") == today else due(_days(db), keep_days)
                db.execute("INSERT OR REPLACE INTO facts VALUES ('pruned', ?)", (today,))
                if old is not None:
                    gone = _drop(db, old.newest, share(_count(db)))
                    db.execute("DELETE FROM days WHERE day < ?", (old.number,))
        return gone + self._drop_beyond_size()

    def _drop_beyond_size(self) -> int:
        """Drop a share of the oldest entries if the file is too large; writes check that rarely."""
        self._written = 0
        with self._db.reading() as db:
            if (excess := _size(db) - self._most_bytes) <= 0:
                return 0
        with self._db.writing() as db:
            last, number = db.execute(_OLDEST, (_ROW_BYTES, share(_count(db)), excess)).get
            return _drop(db, last or 0, number)

    def _measure(self, last: int) -> tuple[int, int, int, int, Sequence[Day]]:
        self._late.now()
        with self._db.reading() as db:
            aged = "SELECT count(*) FROM edits WHERE edit_id <= ?"
            oldest = db.execute("SELECT min(edit_id) FROM edits").get or 0
            return _count(db), _size(db), oldest, db.execute(aged, (last,)).get, _days(db)

    def why_missing(self, edit_id: int) -> Missing:
        id_ = min(edit_id, _MOST_ID)
        with self._db.reading() as db:
            lost = "SELECT 1 FROM lost WHERE ? BETWEEN first AND next - 1"
            is_lost = id_ < _fact(db, "first") or db.execute(lost, (id_,)).get is not None
            given = _last_id(db)
            older = db.execute(  # the oldest are pruned first
                "SELECT 1 FROM edits WHERE edit_id < ? AND state <> 'open' LIMIT 1", (id_,)
            ).get
        if edit_id <= 0 or id_ > given:
            return "unknown"
        return "replaced" if is_lost or older is not None else "pruned"

    def close(self) -> None:
        self._late.close()
        self._late.now()
        self._db.close()

    def _select(
        self, where: str, values: Sequence[Value] | Mapping[str, Value] = ()
    ) -> tuple[Entry, ...]:
        find = f"SELECT edit_id, {', '.join(_COLUMNS)} FROM edits WHERE {where}"
        return tuple(self._db.decoded(_entry, row) for row in self._db.rows(find, values))

    def _note_loss(self, db: Connection) -> None:
        """A file was lost in use: name the ids that are gone, and go on far above them."""
        given = _last_id(db)
        next_ = max(given, self._highest, db.execute(_MINUTES).get) + 1
        below, is_there, above = db.execute(_AROUND, (self._highest,)).get
        loss = (below or self._lowest - 1) + 1, self._highest, above or next_
        if is_there:  # of another journal: only the ids that are passed over
            loss = given + 1, given, next_
        db.execute("INSERT OR REPLACE INTO lost (first, last, next) VALUES (?, ?, ?)", loss)
        _give_from(db, next_)


def _key(hunk_id: str) -> int:
    """The number of a plan: its id is eight hex characters."""
    return int(hunk_id, 16)


def _plan_row(plan: Plan) -> tuple[Value, ...]:
    return _key(plan.id), plan.created_ms, plan.expires_ms, encode_plan(plan)


def _decision(row: Sequence[Any]) -> Decision:
    return replace(Decision((row[0], row[1]), *row[2:]), told=bool(row[-1]))


def _why_not(db: Connection, row: Mapping[str, Any]) -> Exception:
    """Why a plan may not be written: what was decided on it, or its end, which may be to come."""
    decided = f"SELECT time_ms FROM decisions WHERE {_ONE}"
    if (db.execute(decided, (row["hunk_id"], row["created_ms"])).get or 0) != row["decided_ms"]:
        return TargetMoved()
    ends = "SELECT how FROM ended WHERE id = ?1 UNION ALL SELECT 'expired' FROM plans WHERE id = ?1"
    return HunkNotFound(row["hunk_id"], db.execute(ends, (row["plan"],)).get or "unknown")


_MINUTES = "SELECT (unixepoch() - 1577836800) / 60"
"""Those since 2020: few workspaces see an edit a minute for years."""


_AROUND = (
    "SELECT (SELECT max(edit_id) FROM edits WHERE edit_id < ?1),"
    " (SELECT edit_id FROM edits WHERE edit_id = ?1),"
    " (SELECT min(edit_id) FROM edits WHERE edit_id > ?1)"
)


def _begin_ids(db: Connection, is_used: bool) -> None:
    first = db.execute(_MINUTES).get + 1 if is_used else 1
    db.execute("INSERT INTO facts VALUES ('first', ?)", (first,))
    _give_from(db, first)


def _give_from(db: Connection, first: int) -> None:
    """The next id is this one, or a higher one."""
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'edits'")
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('edits', ?)", (first - 1,))


def _last_id(db: Connection) -> int:
    return int(db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'edits'").get or 0)


def _fact(db: Connection, name: str) -> int:
    """A recorded number; 0 for none."""
    return int(db.execute("SELECT value FROM facts WHERE name = ?", (name,)).get or 0)


def _note_day(db: Connection, now_ms: int) -> int:
    """Record a day of use, and drop days ahead that a wrong clock recorded; return the day."""
    today = now_ms // DAY_MS
    db.execute("DELETE FROM days WHERE day > ?", (today + 1,))
    db.execute("INSERT OR IGNORE INTO days VALUES (?, ?)", (today, _last_id(db)))
    return today


def _days(db: Connection) -> list[Day]:
    return [Day(*row) for row in db.execute("SELECT day, newest FROM days ORDER BY day")]


def _count(db: Connection) -> int:
    return int(db.execute("SELECT count(*) FROM edits").get)


def _size(db: Connection) -> int:
    """The bytes in use; the file does not shrink, and free pages are reused."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (int(db.execute(f"PRAGMA {name}").get) for name in names)
    return (pages - free) * size


def _drop(db: Connection, last: int, most: int) -> int:
    """Drop the oldest closed entries up to an id and a limit; return their number."""
    db.execute(
        "DELETE FROM edits WHERE edit_id IN (SELECT edit_id FROM edits"
        " WHERE edit_id <= ? AND state <> 'open' ORDER BY edit_id LIMIT ?)",
        (last, most),
    )
    return db.changes()


def _row(entry: Entry, plan: Tied | None = None) -> dict[str, Any]:
    """The columns of an entry by name, and the plan that is tied to it, as `_INSERT` names them."""
    key, created_ms, decided_ms = (None,) * 3 if plan is None else (_key(plan[0]), *plan[1:])
    return {
        **dict(zip(_AS_STORED, _stored_of(entry), strict=True)),
        "path": str(entry.path),
        "inverse": compress(encode(entry.inverse)),
        "diff": compress(entry.diff),
        "group_id": entry.group,
        "undo": compress(encode(entry.beside)) if entry.beside else None,
        "plan": key,
        "created_ms": created_ms,
        "decided_ms": decided_ms,
    }


def _entry(row: tuple[Any, ...]) -> Entry:
    """An entry from its id and its columns."""
    columns: dict[str, Any] = dict(zip(("edit_id", *_COLUMNS), row, strict=True))
    besides = _besides(columns["undo"])
    return Entry(
        **{name: columns[name] for name in ("edit_id", *_AS_STORED)},
        path=RelPath.parse(columns["path"]),
        inverse=decode_inverse(columns["inverse"]),
        diff=decompress(columns["diff"]),
        group=columns["group_id"],
        undo=tuple(part for part in besides if not isinstance(part, FileChange | Approval)),
        file=tuple(part for part in besides if isinstance(part, FileChange)),
        approval=next((part for part in besides if isinstance(part, Approval)), None),
    )


def _besides(packed: bytes | None) -> tuple[Any, ...]:
    """What the column `undo` holds."""
    return () if packed is None else unpack(packed)


TEXTS = """
CREATE TABLE IF NOT EXISTS texts (
    id INTEGER PRIMARY KEY, used INTEGER NOT NULL, digest TEXT NOT NULL, seen TEXT NOT NULL,
    packed BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS shown (
    id INTEGER PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL
)
"""
"""All tables of `texts.sqlite`.

The ids are the first digits of digests: no index is written. An update of `used`, always as long,
changes one page, however large the row. `seen` holds the last places, 16 characters each.
"""

_NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
_PLACES = 64
_SEEN = f"iif(instr(seen, ?2), seen, substr(?2 || seen, 1, {16 * _PLACES}))"

_LATELY = 8
"""The texts used last, this many, are not marked as used again when they are found."""

_TEXT_BYTES = 256
"""The minimum overhead of a text, in bytes."""

_TEXT_CHECKS = 64
"""The size is checked after storing one part in this many of the limit."""

_PRUNED_AFTER = MOST_SHOWN // 8
"""After this many records of a process, and its first, the oldest beyond the limit are dropped."""

_PAGE_BYTES = 4_096
"""SQLite's default, which nothing changes."""


class SqliteSnapshots(SnapshotStore):
    """Texts in a file, the least recently used ones dropped first; a damaged file is recreated."""

    def __init__(
        self,
        db: Database,
        most_bytes: int = MEMORY_BYTES,
        largest: int = LARGEST,
        count: Count | None = None,
    ) -> None:
        super().__init__(most_bytes, largest, count)
        self._db = db
        self._unchecked, self._noted = most_bytes, 0
        self._lately = deque[int](maxlen=_LATELY)
        db.define(TEXTS)

    def _attempt(self, work: Callable[[], T], *, writes: bool = True) -> T | None:
        """As of all; a damaged file is begun anew."""
        try:
            with self._db.writing() if writes else nullcontext():
                return work()
        except StateDamaged:
            with suppress(Failed):
                self._db.discard()
        except Failed:
            pass
        return None

    def _is_stored(self, digest: str, at: RelPath) -> bool:
        touch = f"UPDATE texts SET used = {_NOW}, seen = {_SEEN} WHERE id = ?1 RETURNING id"
        return bool(self._db.change(touch, (_id(digest), place_of(at))))

    def _put(self, digest: str, packed: bytes, at: RelPath) -> None:
        id_ = _id(digest)
        self._db.change(
            f"INSERT INTO texts (id, used, seen, digest, packed) VALUES (?1, {_NOW}, ?2, ?3, ?4)"
            f" ON CONFLICT (id) DO UPDATE SET used = excluded.used, seen = {_SEEN}",
            (id_, place_of(at), digest, packed),
        )
        self._lately.append(id_)
        self._unchecked += len(packed) + _TEXT_BYTES
        if self._unchecked * _TEXT_CHECKS > self._most:
            self._unchecked = 0
            self._evict()

    def _found(self, digest: str, at: RelPath | None) -> tuple[str, bytes] | None:
        id_, place = _id(digest), "" if at is None else place_of(at)
        find = "SELECT digest, packed FROM texts WHERE id = ? AND instr(seen, ?)"
        rows = self._db.rows(find, (id_, place))
        if rows and id_ not in self._lately:
            self._lately.append(id_)
            with suppress(Failed):
                self._db.change(f"UPDATE texts SET used = {_NOW} WHERE id = ?", (id_,))
        return cast("tuple[str, bytes]", rows[0]) if rows else None

    def _drop(self, digest: str) -> None:
        with suppress(Failed):
            self._db.change("DELETE FROM texts WHERE id = ?", (_id(digest),))

    def _remove(self, kept: Collection[str]) -> None:
        with self._db.writing() as db:
            db.execute("PRAGMA secure_delete = ON")
            texts = db.execute("SELECT id, digest FROM texts")
            gone = [(id_,) for id_, digest in texts if digest not in kept]
            db.executemany("DELETE FROM texts WHERE id = ?", gone)
        self._db.scrub()

    def _evict(self) -> None:
        """Drop the least recently used texts until the used pages are within the limit.

        An eighth of the limit is for SQLite's own journal, and two parts of it for what is stored
        before the size is checked again. A sixteenth more is dropped, so that this is seldom.
        Unused pages beyond the limit are released.
        """
        most = (self._most * 7 // 8 - 2 * self._most // _TEXT_CHECKS) // _PAGE_BYTES
        if (excess := self._pragma("page_count") - self._pragma("freelist_count") - most) > 0:
            left = (excess + most // 16) * _PAGE_BYTES
            for id_, size in self._db.rows("SELECT id, length(packed) FROM texts ORDER BY used"):
                if left > 0:
                    self._db.change("DELETE FROM texts WHERE id = ?", (id_,))
                    left -= size + _TEXT_BYTES
        if (unused := self._pragma("page_count") - most) > 0:
            self._db.rows(f"PRAGMA incremental_vacuum({unused})")  # one row per page

    def _pragma(self, name: str) -> int:
        return int(self._db.rows(f"PRAGMA {name}")[0][0])

    def _record_of(self, reader: str) -> bytes:
        rows = self._db.rows("SELECT record FROM shown WHERE id = ?", (_id(reader),))
        return rows[0][0] if rows else b""

    def _put_record(self, reader: str, record: bytes) -> None:
        self._db.change(
            f"INSERT OR REPLACE INTO shown (id, used, record) VALUES (?, {_NOW}, ?)",
            (_id(reader), record),
        )
        if self._noted % _PRUNED_AFTER == 0:
            self._db.change(
                "DELETE FROM shown WHERE id IN"
                " (SELECT id FROM shown ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (MOST_SHOWN - _PRUNED_AFTER,),
            )
        self._noted += 1

    def close(self) -> None:
        self._db.close()


def _id(digest: str) -> int:
    return int(digest[:VERSION_LENGTH], 16)
