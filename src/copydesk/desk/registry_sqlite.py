"""The registry that all processes of one machine share, in SQLite.

What lives here: the table of plans. What must not: files. Invariant: as in
`registry`; a plan survives the process, an ended one is remembered for a day.
"""

from __future__ import annotations

from typing import cast

from copydesk.desk.database import Database
from copydesk.desk.records import packed, unpacked
from copydesk.edit.plan import Ended, Plan
from copydesk.errors import HunkNotFound

REMEMBERED_MS = 24 * 3_600_000
"""How long it is known how a plan ended."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS plans (
    id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    plan BLOB, ended TEXT, ended_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS plans_by_age ON plans (created_ms);
CREATE TABLE IF NOT EXISTS changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER);
INSERT OR IGNORE INTO changes VALUES (1, 0)
"""


class SqliteRegistry:
    """Plans in a file. They need not survive a power cut, so nothing is flushed for them."""

    def __init__(self, path: str) -> None:
        self._db = Database(path, _SCHEMA, "OFF")

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        with self._db.writing() as db:
            self._forget(plan.created_ms)
            done = db.execute(
                "INSERT OR IGNORE INTO plans (id, created_ms, expires_ms, plan)"
                " VALUES (?, ?, ?, ?)",
                (plan.id, plan.created_ms, plan.expires_ms, packed(plan)),
            )
            db.execute("UPDATE changes SET count = count + 1")
            return done.rowcount == 1

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id and still waits."""
        with self._db.writing() as db:
            self.get(plan.id, plan.created_ms)
            db.execute(
                "UPDATE plans SET created_ms = ?2, expires_ms = ?3, plan = ?4 WHERE id = ?1",
                (plan.id, plan.created_ms, plan.expires_ms, packed(plan)),
            )
            db.execute("UPDATE changes SET count = count + 1")

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
        return cast(Plan, unpacked(plan))

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """The plan is gone from now on, and it is known how."""
        with self._db.writing() as db:
            db.execute(
                "INSERT INTO plans (id, created_ms, expires_ms, ended, ended_ms)"
                " VALUES (?1, ?3, ?3, ?2, ?3) ON CONFLICT (id) DO UPDATE"
                " SET plan = NULL, ended = ?2, ended_ms = ?3",
                (hunk_id, how, now_ms),
            )
            db.execute("UPDATE changes SET count = count + 1")

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, the oldest first."""
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT plan FROM plans WHERE ended IS NULL AND expires_ms > ?"
                " ORDER BY created_ms, id",
                (now_ms,),
            ).fetchall()
        return tuple(cast(Plan, unpacked(plan)) for (plan,) in rows)

    def changes(self) -> int:
        """A number that grows whenever the set of plans changes, whichever process did it."""
        with self._db.reading() as db:
            return int(db.execute("SELECT count FROM changes").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _forget(self, now_ms: int) -> None:
        """Drop what ended or expired so long ago that nobody asks any more."""
        with self._db.reading() as db:
            db.execute(
                "DELETE FROM plans WHERE coalesce(ended_ms, expires_ms) < ?",
                (now_ms - REMEMBERED_MS,),
            )
