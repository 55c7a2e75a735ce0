"""The journal of a workspace, in SQLite, flushed before any file is touched.

What lives here: the table of entries. What must not: documents. Invariant: an
entry is on the disk when `open` returns (with `durable`); how it ended is
recorded with the next one, since a crash in between is settled by digests.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from copydesk.desk.database import Database
from copydesk.desk.journal import CHAIN_LENGTH, Entry, Kind, State, linked
from copydesk.desk.records import full, packed, squeezed, unpacked
from copydesk.errors import Failed, StateFailed
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from copydesk.store.notes.protocol import Change

_SCHEMA = """
CREATE TABLE IF NOT EXISTS edits (
    edit_id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,
    member TEXT NOT NULL, tool TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, inverse BLOB NOT NULL, diff BLOB NOT NULL,
    hunk_id TEXT NOT NULL, state TEXT NOT NULL, whole BLOB,
    group_id TEXT NOT NULL DEFAULT '', undoes INTEGER NOT NULL DEFAULT 0, undo BLOB
);
CREATE INDEX IF NOT EXISTS edits_by_path ON edits (path, edit_id);
CREATE INDEX IF NOT EXISTS edits_by_hunk ON edits (hunk_id) WHERE hunk_id <> '';
CREATE INDEX IF NOT EXISTS edits_open ON edits (edit_id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS edits_by_group ON edits (group_id) WHERE group_id <> '';
CREATE INDEX IF NOT EXISTS edits_undoing ON edits (undoes) WHERE undoes <> 0
"""

_MOST_ID = (1 << 63) - 1
"""SQLite knows no larger integer."""

_COLUMNS = (
    "time_ms, member, tool, path, kind, before, after, inverse, diff, hunk_id, edit_id, state,"
    " group_id, undoes, undo"
)


class SqliteJournal:
    """The entries of all processes that work on the workspace."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._ended: dict[int, State] = {}
        db.define(_SCHEMA, on_new=self._ended.clear)  # they are not of the new file
        self._beside: ThreadPoolExecutor | None = None
        self._amended: list[Future[None]] = []
        self._lock = Lock()

    def open(self, entry: Entry) -> int:
        """Record what is about to be written; the new id."""
        return self.open_all((entry,))[0]

    def open_all(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Record, durably, all of what is about to be written, or nothing; the new ids."""
        rows = [_row(entry) for entry in entries]
        with self._flushing() as db:
            return tuple(cast(int, db.execute(_INSERT, row).lastrowid) for row in rows)

    def open_again(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """The same of what was lost, with the state folder."""
        return self.open_all(entries)

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        """Record, durably, all old bytes of a file that is about to be written in place."""
        with self._db.writing() as db:
            db.execute("UPDATE edits SET whole = ? WHERE edit_id = ?", (squeezed(old), edit_id))

    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        """Record, durably, the way back of what a store of notes has written."""
        with self._db.writing() as db:
            way = squeezed(packed(undo))
            db.execute("UPDATE edits SET undo = ? WHERE edit_id = ?", (way, edit_id))

    def amend(self, edit_id: int, diff: Callable[[], bytes]) -> None:
        """Record the diff of an entry that was opened with the start of it only."""
        with self._lock:
            if self._beside is None:
                self._beside = ThreadPoolExecutor(1, "copydesk-journal")
            self._amended.append(self._beside.submit(self._amend, edit_id, diff))

    def _amend(self, edit_id: int, diff: Callable[[], bytes]) -> None:
        made = squeezed(diff())
        with suppress(Failed):  # the start of it is recorded
            self._db.change("UPDATE edits SET diff = ? WHERE edit_id = ?", (made, edit_id))

    def close_entry(self, edit_id: int, state: State) -> None:
        """Record how the write ended; it reaches the disk with the next entry."""
        self._ended[edit_id] = state

    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        """Record, durably and at once, how the writes of a group ended."""
        with self._db.reading():
            self._ended.update(dict.fromkeys(edit_ids, state))
        self._settle()

    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        """The last entries, the newest first; with `before` those of lower ids."""
        self._settle()
        before, most = before and min(before, _MOST_ID), min(most, _MOST_ID)
        with self._db.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM edits WHERE (?1 IS NULL OR path = ?1"
                " OR (path > ?1 || '/' AND path < ?1 || '0'))"  # 0 comes after /
                " AND (?2 IS NULL OR member = ?2) AND (?4 IS NULL OR edit_id < ?4)"
                " ORDER BY edit_id DESC LIMIT ?3",
                (str(path) if path and path.parts else None, member, most, before),
            ).fetchall()
        with self._db.decoding():
            return tuple(_entry(row) for row in rows)

    def get(self, edit_id: int) -> Entry | None:
        """One entry."""
        if edit_id > _MOST_ID:
            return None
        self._settle()
        with self._db.reading() as db:
            row = db.execute(
                f"SELECT {_COLUMNS} FROM edits WHERE edit_id = ?", (edit_id,)
            ).fetchone()
        with self._db.decoding():
            return None if row is None else _entry(row)

    def of_hunk(self, hunk_id: str) -> Entry | None:
        """The newest entry that was written for a plan."""
        found = self._select("hunk_id = ? AND hunk_id <> '' ORDER BY edit_id DESC LIMIT 1", hunk_id)
        return found[0] if found else None

    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        """The inverses of the writes that made one text of another, the first write first."""
        try:
            return self._chain(path, base_digest, now_digest)
        except StateFailed:
            return None  # what copydesk wrote cannot be told from what others did

    def _chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        select = (
            "SELECT before, after, state, edit_id, inverse FROM edits WHERE path = ?"
            " ORDER BY edit_id DESC LIMIT ?"
        )
        with (
            self._db.reading() as db,
            closing(db.execute(select, (str(path), CHAIN_LENGTH))) as rows,
        ):
            links = (
                (before, after, str(self._ended.get(edit_id, state)), cast(bytes, inverse))
                for before, after, state, edit_id, inverse in rows
            )
            found = linked(links, base_digest, now_digest)
        with self._db.decoding():
            return None if found is None else tuple(unpacked(full(each)) for each in found)

    def next_of(self, entry: Entry) -> Entry | None:
        """The next entry of the same path."""
        found = self._select(
            "path = ? AND edit_id > ? ORDER BY edit_id LIMIT 1", str(entry.path), entry.edit_id
        )
        return found[0] if found else None

    def of_group(self, group: str) -> tuple[Entry, ...]:
        """The entries of a group, the oldest first."""
        return self._select("group_id = ? AND group_id <> '' ORDER BY edit_id", group)

    def open_groups(self, path: RelPath) -> tuple[str, ...]:
        """The groups that have open entries at the path, the oldest first."""
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT edit_id, group_id FROM edits INDEXED BY edits_open"  # few are open
                " WHERE state = 'open' AND group_id <> '' AND path = ? ORDER BY edit_id",
                (str(path),),
            ).fetchall()
            return tuple(dict.fromkeys(str(g) for id_, g in rows if id_ not in self._ended))

    def undone_by(self, edit_id: int) -> tuple[int, ...]:
        """The entries that take the edit back and have not failed, the oldest first."""
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT edit_id, state FROM edits WHERE undoes = ? AND undoes <> 0"
                " ORDER BY edit_id",
                (edit_id,),
            ).fetchall()
            ended = dict(self._ended)
        return tuple(id_ for id_, state in rows if ended.get(id_, state) != "failed")

    def in_doubt(self) -> tuple[Entry, ...]:
        """The open entries, the oldest first."""
        self._settle()
        return self._select("state = 'open' ORDER BY edit_id")

    def whole_of(self, edit_id: int) -> bytes | None:
        """All old bytes of a file that was written in place, while the entry is open."""
        with self._db.reading() as db:
            row = db.execute("SELECT whole FROM edits WHERE edit_id = ?", (edit_id,)).fetchone()
        with self._db.decoding():
            return None if row is None or row[0] is None else full(row[0])

    def prune(self, before_ms: int, most_bytes: int) -> int:
        """Drop the entries older than `before_ms`, and the oldest beyond `most_bytes`; how many."""
        self._settle()
        with self._db.reading() as db:
            pages = db.execute("SELECT page_count FROM pragma_page_count").fetchone()[0]
            size = pages * db.execute("SELECT page_size FROM pragma_page_size").fetchone()[0]
            oldest = db.execute(
                "SELECT min(time_ms) FROM edits WHERE edit_id = (SELECT min(edit_id) FROM edits)"
            ).fetchone()[0]
        if size <= most_bytes and (oldest is None or oldest >= before_ms):
            return 0  # the usual case, without a transaction that writes
        with self._db.writing() as db:
            gone = db.execute(
                "DELETE FROM edits WHERE state <> 'open' AND (time_ms < ?1 OR edit_id <="
                " (SELECT coalesce(max(edit_id), 0) FROM (SELECT edit_id, sum(length(inverse)"
                " + length(diff) + coalesce(length(whole), 0)) OVER (ORDER BY edit_id DESC)"
                " AS size FROM edits) WHERE size > ?2))",
                (before_ms, most_bytes),
            )
            return gone.rowcount

    def close(self) -> None:
        """Record what has ended and close the file."""
        self._settle()
        if self._beside is not None:
            self._beside.shutdown()
        self._db.close()

    def _select(self, where: str, *values: str | int) -> tuple[Entry, ...]:
        """The entries; those that have ended in this process are shown so."""
        with self._db.reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM edits WHERE {where}", values).fetchall()
            ended = dict(self._ended)
        with self._db.decoding():
            found = [_entry(row) for row in rows]
        return tuple(replace(e, state=ended.get(e.edit_id, e.state)) for e in found)

    def _settle(self) -> None:
        with self._lock:
            amended, self._amended = self._amended, []
        for each in amended:
            each.result()
        if self._ended:
            with self._flushing():
                pass

    @contextmanager
    def _flushing(self) -> Generator[sqlite3.Connection, None, None]:
        """A transaction that also records how entries have ended."""
        with self._db.writing() as db:
            ended = dict(self._ended)
            db.executemany(
                "UPDATE edits SET state = ?, whole = NULL WHERE edit_id = ?",
                [(state, edit_id) for edit_id, state in ended.items()],
            )
            yield db
        for edit_id in ended:
            self._ended.pop(edit_id, None)


_INSERT = (
    "INSERT INTO edits (time_ms, member, tool, path, kind, before, after, inverse, diff, hunk_id,"
    " state, group_id, undoes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _row(entry: Entry) -> tuple[object, ...]:
    return (
        entry.time_ms,
        entry.member,
        entry.tool,
        str(entry.path),
        entry.kind,
        entry.before,
        entry.after,
        squeezed(packed(entry.inverse)),
        squeezed(entry.diff),
        entry.hunk_id,
        entry.state,
        entry.group,
        entry.undoes,
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    time_ms, member, tool, path, kind, before, after, inverse, diff, hunk, edit_id, state = row[:12]
    return Entry(
        time_ms=time_ms,
        member=member,
        tool=tool,
        path=RelPath.parse(path),
        kind=cast(Kind, kind),
        before=before,
        after=after,
        inverse=unpacked(full(inverse)),
        diff=full(diff),
        hunk_id=hunk,
        edit_id=edit_id,
        state=cast(State, state),
        group=row[12],
        undoes=row[13],
        undo=() if row[14] is None else unpacked(full(row[14])),
    )
