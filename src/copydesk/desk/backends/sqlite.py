"""The stores in SQLite, all in one file: plans, decisions, statistics and the journal.

A plan that is being written is tied to its journal entry (`tx`) in the transaction that records the
intent, and ends in the one that records how that went: no plan can be written twice, or be called
applied if it was not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import astuple
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from copydesk.desk.backends.api import (
    CHAIN_LENGTH,
    DAY_MS,
    MOST,
    PLANS_KEPT,
    Day,
    Decision,
    Entry,
    Kind,
    LateDiffs,
    Missing,
    OutcomeKind,
    Outlook,
    PlanOutcome,
    Run,
    State,
    Tied,
    UnknownRecord,
    Verdict,
    Version,
    compress,
    days_left,
    decode,
    decode_plan,
    decompress,
    due,
    encode,
    encode_plan,
    known_plan,
    linked,
    share,
)
from copydesk.desk.backends.database import Connection, Database, Value
from copydesk.edit.draft import Approval, Ended, Plan
from copydesk.errors import Failed, HunkNotFound, StateDamaged, StateFailed
from copydesk.store.protocol import FileChange, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from copydesk.store.notes.protocol import Change

REMEMBERED_MS = 24 * 3_600_000
"""How long it is recorded how a plan ended."""

FORGET_EVERY_MS = 60_000
"""The interval of the cleanup."""

STATE = """
CREATE TABLE IF NOT EXISTS changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER);
INSERT OR IGNORE INTO changes VALUES (1, 0);
CREATE TABLE IF NOT EXISTS plans (
    id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    plan BLOB, ended TEXT, ended_ms INTEGER, tx INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS plans_by_age ON plans (created_ms);
CREATE INDEX IF NOT EXISTS plans_waiting ON plans (created_ms, id) WHERE ended IS NULL;
CREATE TRIGGER IF NOT EXISTS plan_added AFTER INSERT ON plans
BEGIN UPDATE changes SET count = count + 1; END;
CREATE TRIGGER IF NOT EXISTS plan_changed AFTER UPDATE ON plans
BEGIN UPDATE changes SET count = count + 1; END;
CREATE TABLE IF NOT EXISTS decisions (
    hunk_id TEXT NOT NULL, prepared_ms INTEGER NOT NULL, owner TEXT NOT NULL, path TEXT NOT NULL,
    verdict TEXT NOT NULL, decided_by TEXT NOT NULL, time_ms INTEGER NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, reason TEXT NOT NULL, told INTEGER NOT NULL,
    PRIMARY KEY (hunk_id, prepared_ms)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS decisions_untold ON decisions (owner) WHERE told = 0;
CREATE TRIGGER IF NOT EXISTS decision_taken AFTER INSERT ON decisions
BEGIN UPDATE changes SET count = count + 1; END;
CREATE TRIGGER IF NOT EXISTS decision_withdrawn AFTER DELETE ON decisions
BEGIN UPDATE changes SET count = count + 1; END;
CREATE TABLE IF NOT EXISTS fared (
    id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, member TEXT NOT NULL, path TEXT NOT NULL,
    how TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS edits (
    edit_id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,
    member TEXT NOT NULL, tool TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, inverse BLOB NOT NULL, diff BLOB NOT NULL,
    hunk_id TEXT NOT NULL, state TEXT NOT NULL, whole BLOB,
    group_id TEXT NOT NULL DEFAULT '', undoes INTEGER NOT NULL DEFAULT 0, undo BLOB,
    why TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lost (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, next INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS days (day INTEGER PRIMARY KEY, newest INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS edits_by_path ON edits (path, edit_id);
CREATE INDEX IF NOT EXISTS edits_by_member ON edits (member, edit_id);
CREATE INDEX IF NOT EXISTS edits_by_hunk ON edits (hunk_id) WHERE hunk_id <> '';
CREATE INDEX IF NOT EXISTS edits_open ON edits (edit_id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS edits_by_group ON edits (group_id) WHERE group_id <> '';
CREATE INDEX IF NOT EXISTS edits_undoing ON edits (undoes) WHERE undoes <> 0
"""
"""All tables of `state.sqlite`."""


class SqliteRegistry:
    """Plans in a file. They need not survive a power cut, so nothing is flushed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        db.define(STATE)
        self._forgot_ms = 0

    def add(self, plan: Plan) -> bool:
        if plan.created_ms - self._forgot_ms > FORGET_EVERY_MS:
            self._forget(plan.created_ms)
            self._forgot_ms = plan.created_ms
        added = self._db.change(
            "INSERT OR IGNORE INTO plans (id, created_ms, expires_ms, plan) VALUES (?, ?, ?, ?)",
            (plan.id, plan.created_ms, plan.expires_ms, encode_plan(plan)),
        )
        return added == 1

    def put(self, plan: Plan) -> None:
        with self._db.writing() as db:
            self.get(plan.id, plan.created_ms)
            db.execute(
                "UPDATE plans SET created_ms = ?2, expires_ms = ?3, plan = ?4 WHERE id = ?1",
                (plan.id, plan.created_ms, plan.expires_ms, encode_plan(plan)),
            )

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        rows = self._db.rows("SELECT plan, ended, expires_ms FROM plans WHERE id = ?", (hunk_id,))
        if not rows:
            raise HunkNotFound(hunk_id, "unknown")
        ((plan, ended, expires_ms),) = rows
        if ended is not None or expires_ms <= now_ms:
            raise HunkNotFound(hunk_id, ended or "expired")
        known = known_plan(plan)
        if known is not None:
            return known
        with self._db.decoding():
            return decode_plan(plan)

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        self._db.change(
            "INSERT INTO plans (id, created_ms, expires_ms, ended, ended_ms)"
            " VALUES (?1, ?3, ?3, ?2, ?3) ON CONFLICT (id) DO UPDATE"
            " SET plan = NULL, ended = ?2, ended_ms = ?3",
            (hunk_id, how, now_ms),
        )

    def reopen(self, plan: Plan) -> bool:
        opened = self._db.change(
            "UPDATE plans SET created_ms = ?2, expires_ms = ?3, plan = ?4, ended = NULL,"
            " ended_ms = NULL WHERE id = ?1 AND ended = 'applied'",
            (plan.id, plan.created_ms, plan.expires_ms, encode_plan(plan)),
        )
        return opened == 1

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All pending plans that this build can decode, oldest first."""
        rows = self._db.rows(
            "SELECT plan FROM plans INDEXED BY plans_waiting"
            " WHERE ended IS NULL AND expires_ms > ? ORDER BY created_ms, id",
            (now_ms,),
        )
        found: list[Plan] = []
        for (plan,) in rows:
            with self._db.decoding(), suppress(UnknownRecord):
                found.append(decode_plan(plan))
        return tuple(found)

    def changes(self) -> int:
        """A number that grows with each change of plans and decisions by any process."""
        with self._db.reading() as db:
            return int(db.execute("SELECT count FROM changes").get)

    def close(self) -> None:
        self._db.close()

    def _forget(self, now_ms: int) -> None:
        self._db.change(
            "DELETE FROM plans WHERE coalesce(ended_ms, expires_ms) < ? AND created_ms <"
            " (SELECT created_ms FROM plans ORDER BY created_ms DESC LIMIT 1 OFFSET ?)",
            (now_ms - REMEMBERED_MS, PLANS_KEPT - 1),
        )


_DECISION_COLUMNS = (
    "hunk_id, prepared_ms, owner, path, verdict, decided_by, time_ms, before, after, reason, told"
)
_ONE = "WHERE hunk_id = ? AND prepared_ms = ?"


class SqliteDecisions:
    """Decisions in a file; `take` and a new file call `mark`. A power cut may lose the last."""

    def __init__(self, db: Database, mark: Callable[[], None] = lambda: None) -> None:
        self._db, self._mark = db, mark
        db.define(STATE, on_new=mark)

    def take(self, decision: Decision) -> Decision:
        row: tuple[Value, ...] = (*decision.plan, *astuple(decision)[1:])  # in column order
        with self._db.writing() as db:
            self._mark()
            places = ", ".join("?" * len(row))
            db.execute(
                f"INSERT OR IGNORE INTO decisions ({_DECISION_COLUMNS}) VALUES ({places})", row
            )
            find = f"SELECT {_DECISION_COLUMNS} FROM decisions {_ONE}"
            return _decision(db.execute(find, decision.plan).get)

    def of(self, plan: Version) -> Decision | None:
        rows = self._db.rows(f"SELECT {_DECISION_COLUMNS} FROM decisions {_ONE}", plan)
        return _decision(rows[0]) if rows else None

    def of_all(self, plans: Sequence[Version]) -> dict[Version, Decision]:
        find = f"SELECT {_DECISION_COLUMNS} FROM decisions {_ONE}"
        with self._db.reading() as db:
            rows = [db.execute(find, plan).fetchone() for plan in plans]
        return {(str(row[0]), int(row[1])): _decision(row) for row in rows if row is not None}

    def withdraw(self, decision: Decision) -> None:
        with self._db.writing() as db:
            which = (*decision.plan, decision.time_ms)
            db.execute(f"DELETE FROM decisions {_ONE} AND time_ms = ?", which)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        return self._found("told = 0 AND owner = ? ORDER BY time_ms, hunk_id, -prepared_ms", owner)

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        return self._found("hunk_id = ? AND prepared_ms < 0 ORDER BY -prepared_ms", hunk_id)

    def _found(self, where: str, value: str) -> tuple[Decision, ...]:
        found = self._db.rows(f"SELECT {_DECISION_COLUMNS} FROM decisions WHERE {where}", (value,))
        return tuple(map(_decision, found))

    def tell(self, decision: Decision) -> None:
        with self._db.writing() as db:
            db.execute(f"UPDATE decisions SET told = 1 {_ONE}", decision.plan)

    def forget(self, before_ms: int) -> None:
        """Drop older decisions on plans that ended; keep PLANS_KEPT, as the clock may be wrong."""
        with self._db.writing() as db:
            db.execute(
                "DELETE FROM decisions WHERE time_ms < ?1 AND time_ms <"
                " (SELECT time_ms FROM decisions ORDER BY time_ms DESC LIMIT 1 OFFSET ?2)"
                " AND NOT EXISTS (SELECT 1 FROM plans WHERE id = hunk_id"
                " AND coalesce(ended_ms, expires_ms) >= ?1)",
                (before_ms, PLANS_KEPT - 1),
            )

    def close(self) -> None:
        self._db.close()


def _decision(row: tuple[Any, ...]) -> Decision:
    hunk_id, prepared_ms, owner, path, verdict, by, time_ms, before, after, reason, told = row
    return Decision(
        plan=(str(hunk_id), int(prepared_ms)),
        owner=owner,
        path=path,
        verdict=cast(Verdict, verdict),
        by=by,
        time_ms=time_ms,
        before=before,
        after=after,
        reason=reason,
        told=bool(told),
    )


class SqlitePlanStats:
    """The log in a file; failing to record never fails the call."""

    def __init__(self, db: Database) -> None:
        self._db = db
        db.define(STATE)

    def note(self, fared: PlanOutcome) -> None:
        """Record it, if the file is usable."""
        with suppress(StateFailed), self._db.writing() as db:
            db.execute(
                "INSERT INTO fared (time_ms, member, path, how) VALUES (?, ?, ?, ?)",
                (fared.time_ms, fared.member, fared.path, fared.how),
            )
            db.execute("DELETE FROM fared WHERE id <= ?", (db.last_insert_rowid() - MOST,))

    def noted(self) -> tuple[PlanOutcome, ...]:
        rows = self._db.rows(
            "SELECT time_ms, member, path, how FROM fared ORDER BY id DESC LIMIT ?", (MOST,)
        )
        return tuple(
            PlanOutcome(at, member, path, cast(OutcomeKind, how)) for at, member, path, how in rows
        )

    def close(self) -> None:
        self._db.close()


_ROW_BYTES = 512
"""The approximate overhead of an entry, in bytes."""

_LOOKS = 16
"""The size is checked after writing one part in this many of the limit."""

_MOST_SINGLE = 2_000
"""The most entries of a damaged file that are read one by one, and looked for as missing."""

_MOST_ID = (1 << 63) - 1
"""SQLite's largest integer."""

_ENTRY_COLUMNS = (
    "time_ms, member, tool, path, kind, before, after, inverse, diff, hunk_id, edit_id, state,"
    " group_id, undoes, undo, why"
)
_ID = 10
"""The position of the id among them."""


class SqliteJournal:
    """The entries of all processes of a workspace, or of one in memory; at most `most_bytes`.

    The ids of a new file begin at 1, or at the minutes since 2020 if there was another one before:
    nobody knows which ids that gave.
    """

    def __init__(self, db: Database, most_bytes: int = 1 << 62) -> None:
        self._db = db
        self._lowest = self._highest = 0
        self._is_lost = False
        self._unreadable: set[int] = set()
        self._day, self._written, self._most_bytes = -1, 0, most_bytes
        db.define(STATE, on_new=self._begin_anew, begin=_begin_ids)
        self._late = LateDiffs()

    def _begin_anew(self) -> None:
        """Clear the caches, which belong to the old file."""
        self._unreadable.clear()
        self._is_lost, self._day = self._highest > 0, -1

    def open(self, entry: Entry) -> int:
        return self.open_all((entry,))[0]

    def open_all(self, entries: Sequence[Entry], plans: Iterable[Tied] = ()) -> tuple[int, ...]:
        rows = [_row(entry) for entry in entries]
        with self._db.writing(flushed=True) as db:
            first = self._last_id(db) + 1
            self._lowest = self._lowest or _first_id(db)
            for at, row in enumerate(rows):
                db.execute(_INSERT, (first + at, *row))
            ids = {entry.hunk_id: first + at for at, entry in enumerate(entries)}
            for hunk_id, created_ms, decided_ms in plans:
                decision = (hunk_id, created_ms)
                if (db.execute(_DECIDED_MS, decision).get or 0) != decided_ms:
                    raise TargetMoved
                db.execute(_TIE, (ids[hunk_id], hunk_id, created_ms))
                if not db.changes():
                    raise HunkNotFound(hunk_id, _how_ended(db, hunk_id))
            if entries and entries[0].time_ms // DAY_MS != self._day:
                self._day = _note_day(db, entries[0].time_ms)
        self._highest = last = first + len(rows) - 1
        with suppress(Failed):  # the entries are recorded
            self._drop_beyond_size(sum(len(row[_INVERSE]) + len(row[_DIFF]) for row in rows))
        return tuple(range(first, last + 1))

    def open_again(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        return self.open_all(entries)

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        with self._db.writing(flushed=True) as db:
            kept = "UPDATE edits SET whole = ? WHERE edit_id = ?"
            db.execute(kept, (compress(old), edit_id))
            if not db.changes():
                raise TargetMoved

    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        """Durably record the inverse of a notes write, replacing the previous one."""
        with self._db.writing(flushed=True) as db:
            found = db.execute("SELECT undo FROM edits WHERE edit_id = ?", (edit_id,)).get
            way = () if found is None else decode(decompress(found))
            kept = (one for one in way if isinstance(one, FileChange | Approval))
            way = compress(encode((*kept, *undo)))
            db.execute("UPDATE edits SET undo = ? WHERE edit_id = ?", (way, edit_id))

    def amend(self, edit_id: int, diff: Callable[[], bytes]) -> None:
        change = "UPDATE edits SET diff = ? WHERE edit_id = ?"
        self._late.record(diff, lambda made: self._db.change(change, (made, edit_id)))

    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        """Record how writes ended, and with them their plans; unflushed."""
        with self._db.writing() as db:
            for edit_id in edit_ids:
                db.execute(
                    "UPDATE edits SET state = ?, whole = NULL WHERE edit_id = ?", (state, edit_id)
                )
                db.execute(_UNTIE if state == "failed" else _END, (edit_id,))

    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        self._late.now()
        try:
            return self._entries(path, member, most, before)
        except StateDamaged:
            readable = list(filter(None, map(self._readable, self._last_ids(1, before)[::-1])))
            if not readable:
                raise
        found = (one for one in readable if path is None or path.covers(one.path))
        return tuple(one for one in found if member in (None, one.member))[:most]

    def _entries(
        self, path: RelPath | None, member: str | None, most: int, before: int | None
    ) -> tuple[Entry, ...]:
        places: list[tuple[str, str, tuple[str, ...]]] = [("", "", ())]
        if path is not None and path.parts:
            # the file itself, or anything below a directory: 0 comes after /
            index, where = " INDEXED BY edits_by_path", str(path)
            below = "path > ? || '/' AND path < ? || '0' AND"
            places = [(index, "path = ? AND", (where,)), (index, below, (where, where))]
        most, before = min(most, _MOST_ID), _MOST_ID if before is None else min(before, _MOST_ID)
        whose, last = ("AND member = ?", (member, most)) if member is not None else ("", (most,))
        with self._db.reading() as db:
            rows = [
                row
                for index, place, values in places
                for row in db.execute(
                    f"SELECT {_ENTRY_COLUMNS} FROM edits WHERE edit_id IN"
                    f" (SELECT edit_id FROM edits{index} WHERE {place} edit_id < ? {whose}"
                    "  ORDER BY edit_id DESC LIMIT ?)",
                    (*values, before, *last),
                )
            ]
        rows.sort(key=lambda row: -row[_ID])
        with self._db.decoding():
            return tuple(_entry(row) for row in rows[:most])

    def lost(self, first: int, before: int | None) -> tuple[Run, ...]:
        with self._db.reading() as db:
            known = db.execute("SELECT first, last, next FROM lost ORDER BY first").fetchall()
            begin = _first_id(db)
        # Ids that were passed over after a loss were never given.
        begin = max((next_ for *_, next_ in known if next_ < (before or _MOST_ID)), default=begin)
        ids = self._last_ids(max(first, begin), before)
        find = "SELECT edit_id FROM edits WHERE edit_id BETWEEN ? AND ?"
        try:
            there = {id_ for (id_,) in self._db.rows(find, (ids.start, ids.stop - 1))}
        except StateDamaged:
            there = {id_ for id_ in ids if self._readable(id_) is not None}
        marks = sorted({ids.start - 1, ids.stop} | there - self._unreadable)
        gaps = [(one + 1, two - 1) for one, two in pairwise(marks) if two - one > 1]
        damaged = self._unreadable
        found = [g for g in gaps if g[1] in damaged or self.why_missing(g[1]) != "pruned"]
        runs = [(max(a, first), min(b, ids.stop - 1)) for a, b, _ in known]
        return (*(run for run in runs if run[0] <= run[1]), *found)

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
        if edit_id > _MOST_ID:
            return None
        self._late.now()
        return next(iter(self._select("edit_id = ?", edit_id)), None)

    def of_hunk(self, hunk_id: str) -> Entry | None:
        last = "hunk_id = ? AND hunk_id <> '' ORDER BY edit_id DESC LIMIT 1"
        return next(iter(self._select(last, hunk_id)), None)

    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        try:
            return self._chain(path, base_digest, now_digest)
        except StateFailed:
            return None  # our writes cannot be told from those of others

    def _chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        select = (
            "SELECT before, after, state, inverse FROM edits WHERE path = ?"
            " ORDER BY edit_id DESC LIMIT ?"
        )
        with (
            self._db.reading() as db,
            closing(db.execute(select, (str(path), CHAIN_LENGTH))) as rows,
        ):
            found = linked(
                cast("Iterable[tuple[str, str, str, bytes]]", rows), base_digest, now_digest
            )
        with self._db.decoding():
            return None if found is None else tuple(decode(decompress(each)) for each in found)

    def next_of(self, entry: Entry) -> Entry | None:
        after = "path = ? AND edit_id > ? ORDER BY edit_id LIMIT 1"
        return next(iter(self._select(after, str(entry.path), entry.edit_id)), None)

    def of_group(self, group: str) -> tuple[Entry, ...]:
        return self._select("group_id = ? AND group_id <> '' ORDER BY edit_id", group)

    def open_at(self, paths: Iterable[RelPath]) -> tuple[int, ...]:
        rows = self._db.rows("SELECT edit_id, path FROM edits WHERE state = 'open'")  # usually few
        if not rows:
            return ()
        names = set(map(str, paths))
        return tuple(edit_id for edit_id, path in rows if path in names)

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
        rows = self._db.rows("SELECT whole FROM edits WHERE edit_id = ?", (edit_id,))
        with self._db.decoding():
            return decompress(rows[0][0]) if rows and rows[0][0] is not None else None

    def prune(self, now_ms: int, keep_days: int, most_bytes: int) -> int:
        """Drop a share of the entries beyond `keep_days` of use, or the size; return how many.

        The former once a day. From now on the size is also checked as entries are added.
        """
        self._late.now()
        self._most_bytes = most_bytes
        today = now_ms // DAY_MS
        with self._db.reading() as db:
            if _fact(db, "pruned") == today and _size(db) <= most_bytes:
                return 0  # the usual case, without a writing transaction
        with self._db.writing() as db:
            self._day = _note_day(db, now_ms)
            gone = 0
            if _fact(db, "pruned") != today:
                _set_fact(db, "pruned", today)
                old = due(_days(db), keep_days)
                if old is not None:
                    gone = _drop(db, old.newest, share(_count(db)))
                    db.execute("DELETE FROM days WHERE day < ?", (old.number,))
        return gone + self._drop_beyond_size()

    def _drop_beyond_size(self, written: int | None = None) -> int:
        """Drop a share of the oldest entries if the file is too large; writes check that rarely."""
        if written is not None:
            self._written += written
            if self._written * _LOOKS <= self._most_bytes:
                return 0
        self._written = 0
        with self._db.reading() as db:
            if (excess := _size(db) - self._most_bytes) <= 0:
                return 0
        with self._db.writing() as db:
            last = number = 0
            oldest = db.execute(
                "SELECT edit_id, length(inverse) + length(diff) + coalesce(length(whole), 0)"
                " + coalesce(length(undo), 0) FROM edits WHERE state <> 'open'"
                " ORDER BY edit_id LIMIT ?",
                (share(_count(db)),),
            )
            while excess > 0 and (row := oldest.fetchone()) is not None:
                last, number = row[0], number + 1
                excess -= row[1] + _ROW_BYTES
            oldest.close()
            return _drop(db, last, number)

    def outlook(self, keep_days: int, most_bytes: int) -> Outlook:
        self._late.now()
        with self._db.reading() as db:
            count, size, days = _count(db), _size(db), _days(db)
            old = due(days, keep_days)
            aged = db.execute(
                "SELECT count(*) FROM edits WHERE edit_id <= ?", (old.newest if old else 0,)
            ).get
            oldest = db.execute("SELECT min(edit_id) FROM edits").get
        beyond = count * (size - most_bytes) // size if size > most_bytes else 0
        left = None if oldest is None else days_left(days, keep_days, oldest)
        return Outlook(count, size, max(aged, beyond), share(count), left)

    def why_missing(self, edit_id: int) -> Missing:
        id_ = min(edit_id, _MOST_ID)
        with self._db.reading() as db:
            lost = "SELECT 1 FROM lost WHERE ? BETWEEN first AND next - 1"
            is_lost = id_ < _first_id(db) or db.execute(lost, (id_,)).fetchone() is not None
            given = _last_id(db)
            older = db.execute(  # the oldest are pruned first
                "SELECT 1 FROM edits WHERE edit_id < ? AND state <> 'open' LIMIT 1", (id_,)
            ).fetchone()
        if edit_id <= 0 or id_ > given:
            return "unknown"
        return "replaced" if is_lost or older is not None else "pruned"

    def close(self) -> None:
        self._late.close()
        self._db.close()

    def _select(self, where: str, *values: str | int) -> tuple[Entry, ...]:
        rows = self._db.rows(f"SELECT {_ENTRY_COLUMNS} FROM edits WHERE {where}", values)
        if not rows:
            return ()
        with self._db.decoding():
            return tuple(map(_entry, rows))

    def _last_id(self, db: Connection) -> int:
        """The highest id that was given; far above it if a file was lost in use."""
        given = _last_id(db)
        if self._is_lost:
            last = max(given, self._highest, db.execute(_MINUTES).get)
            around = db.execute(_AROUND, (self._highest,)).fetchone()
            below, is_there, above = cast("tuple[int | None, int | None, int | None]", around)
            gone = (below or self._lowest - 1) + 1, self._highest, above or last + 1
            if is_there:  # of another journal: only the ids that are passed over
                gone = given + 1, given, last + 1
            db.execute("INSERT OR REPLACE INTO lost VALUES (?, ?, ?)", gone)
            given, self._is_lost = last, False
        return given


_MINUTES = "SELECT (unixepoch() - 1577836800) / 60"
"""Those since 2020: few workspaces see an edit a minute for years."""


_AROUND = (
    "SELECT (SELECT max(edit_id) FROM edits WHERE edit_id < ?1),"
    " (SELECT edit_id FROM edits WHERE edit_id = ?1),"
    " (SELECT min(edit_id) FROM edits WHERE edit_id > ?1)"
)


def _begin_ids(db: Connection, is_used: bool) -> None:
    given = db.execute(_MINUTES).get if is_used else 0
    db.execute("INSERT INTO facts VALUES ('first', ?)", (given + 1,))
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('edits', ?)", (given,))


def _how_ended(db: Connection, hunk_id: str) -> str:
    found = db.execute("SELECT ended FROM plans WHERE id = ?", (hunk_id,)).fetchone()
    return "unknown" if found is None else found[0] or "expired"


_DECIDED_MS = "SELECT time_ms FROM decisions WHERE hunk_id = ? AND prepared_ms = ?"
_TIE = "UPDATE plans SET tx = ? WHERE id = ? AND created_ms = ? AND ended IS NULL AND tx IS NULL"
_OF_ENTRY = "WHERE tx = ?1 AND id = (SELECT hunk_id FROM edits WHERE edit_id = ?1)"
_UNTIE = f"UPDATE plans SET tx = NULL {_OF_ENTRY}"
_END = (
    "UPDATE plans SET ended = 'applied', plan = NULL, tx = NULL,"
    f" ended_ms = (SELECT time_ms FROM edits WHERE edit_id = ?1) {_OF_ENTRY}"
)
_INSERT = (
    "INSERT INTO edits (edit_id, time_ms, member, tool, path, kind, before, after, inverse, diff,"
    " hunk_id, state, group_id, undoes, why, undo)"
    f" VALUES ({', '.join('?' * 16)})"
)


def _last_id(db: Connection) -> int:
    found = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'edits'").fetchone()
    return 0 if found is None else int(found[0])


def _first_id(db: Connection) -> int:
    """The first id of this file."""
    return int(_fact(db, "first") or 0)


def _fact(db: Connection, name: str) -> int | str | None:
    found = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if found is None else cast("int | str", found[0])


def _set_fact(db: Connection, name: str, value: int | str) -> None:
    db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


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


_INVERSE, _DIFF = 7, 8
"""The columns of the texts."""


def _row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.time_ms,
        entry.member,
        entry.tool,
        str(entry.path),
        entry.kind,
        entry.before,
        entry.after,
        compress(encode(entry.inverse)),
        compress(entry.diff),
        entry.hunk_id,
        entry.state,
        entry.group,
        entry.undoes,
        entry.why,
        compress(encode(entry.beside)) if entry.beside else None,
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    time_ms, member, tool, path, kind, before, after, inverse, diff, hunk, edit_id, state = row[:12]
    way: tuple[Any, ...] = () if row[14] is None else decode(decompress(row[14]))
    return Entry(
        time_ms=time_ms,
        member=member,
        tool=tool,
        path=RelPath.parse(path),
        kind=cast(Kind, kind),
        before=before,
        after=after,
        inverse=decode(decompress(inverse)),
        diff=decompress(diff),
        hunk_id=hunk,
        edit_id=edit_id,
        state=cast(State, state),
        group=row[12],
        undoes=row[13],
        undo=tuple(one for one in way if not isinstance(one, FileChange | Approval)),
        file=tuple(one for one in way if isinstance(one, FileChange)),
        why=row[15],
        approval=next((one for one in way if isinstance(one, Approval)), None),
    )
