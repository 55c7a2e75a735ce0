"""The registry that all processes of one machine share, in SQLite.

What lives here: the table of plans. What must not: files. Invariant: as in
`registry`; a plan survives the process, an ended one is remembered for a day.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import cast

from copydesk.desk.database import Database
from copydesk.desk.records import UnknownRecord, packed, unpacked
from copydesk.desk.retention import PLANS_KEPT
from copydesk.edit.plan import Ended, Plan
from copydesk.errors import HunkNotFound

REMEMBERED_MS = 24 * 3_600_000
"""How long it is known how a plan ended."""

FORGET_EVERY_MS = 60_000
"""So often is looked for what is to be forgotten."""

_SMALL = 1 << 16
"""A plan of fewer bytes is unpacked once, though it is asked for several times."""

_TINY = 1 << 12
"""A plan of fewer bytes is unpacked once, though all that wait are listed again and again."""

CHANGES = """
CREATE TABLE IF NOT EXISTS changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER);
INSERT OR IGNORE INTO changes VALUES (1, 0);
"""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS plans (
    id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    plan BLOB, ended TEXT, ended_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS plans_by_age ON plans (created_ms);
CREATE TRIGGER IF NOT EXISTS plan_added AFTER INSERT ON plans
BEGIN UPDATE changes SET count = count + 1; END;
CREATE TRIGGER IF NOT EXISTS plan_changed AFTER UPDATE ON plans
BEGIN UPDATE changes SET count = count + 1; END
"""


class SqliteRegistry:
    """Plans in a file. They need not survive a power cut, so nothing is flushed for them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        db.define(CHANGES + _SCHEMA)
        self._forgot_ms = 0

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        if plan.created_ms - self._forgot_ms > FORGET_EVERY_MS:
            self._forget(plan.created_ms)
            self._forgot_ms = plan.created_ms
        added = self._db.change(
            "INSERT OR IGNORE INTO plans (id, created_ms, expires_ms, plan) VALUES (?, ?, ?, ?)",
            (plan.id, plan.created_ms, plan.expires_ms, packed(plan)),
        )
        return added == 1

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id and still waits."""
        with self._db.writing() as db:
            self.get(plan.id, plan.created_ms)
            db.execute(
                "UPDATE plans SET created_ms = ?2, expires_ms = ?3, plan = ?4 WHERE id = ?1",
                (plan.id, plan.created_ms, plan.expires_ms, packed(plan)),
            )

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        """The plan; raises HunkNotFound with applied, discarded, expired or unknown."""
        with self._db.reading() as db:
            row = db.execute(
                "SELECT plan, ended, expires_ms FROM plans WHERE id = ?", (hunk_id,)
            ).fetchone()
        if row is None:
            raise HunkNotFound(hunk_id, "unknown")
        plan, ended, expires_ms = row
        if ended is not None or expires_ms <= now_ms:
            raise HunkNotFound(hunk_id, ended or "expired")
        with self._db.decoding():
            return _plan(plan) if len(plan) < _SMALL else cast(Plan, unpacked(plan))

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """The plan is gone from now on, and it is known how."""
        self._db.change(
            "INSERT INTO plans (id, created_ms, expires_ms, ended, ended_ms)"
            " VALUES (?1, ?3, ?3, ?2, ?3) ON CONFLICT (id) DO UPDATE"
            " SET plan = NULL, ended = ?2, ended_ms = ?3",
            (hunk_id, how, now_ms),
        )

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, the oldest first.

        Those that only a newer build can read are left out.
        """
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT plan FROM plans WHERE ended IS NULL AND expires_ms > ?"
                " ORDER BY created_ms, id",
                (now_ms,),
            ).fetchall()
        found: list[Plan] = []
        for (plan,) in rows:
            with self._db.decoding(), suppress(UnknownRecord):
                found.append(_tiny(plan) if len(plan) < _TINY else cast(Plan, unpacked(plan)))
        return tuple(found)

    def changes(self) -> int:
        """A number that grows with each change of plans and decisions, whichever process did it."""
        with self._db.reading() as db:
            return int(db.execute("SELECT count FROM changes").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _forget(self, now_ms: int) -> None:
        """Drop what ended or expired so long ago that nobody asks any more.

        The last ones stay whatever the clock says: it may be wrong.
        """
        self._db.change(
            "DELETE FROM plans WHERE coalesce(ended_ms, expires_ms) < ? AND created_ms <"
            " (SELECT created_ms FROM plans ORDER BY created_ms DESC LIMIT 1 OFFSET ?)",
            (now_ms - REMEMBERED_MS, PLANS_KEPT - 1),
        )


@lru_cache(maxsize=32)
def _plan(data: bytes) -> Plan:
    return cast(Plan, unpacked(data))


@lru_cache(maxsize=4096)
def _tiny(data: bytes) -> Plan:
    return cast(Plan, unpacked(data))
