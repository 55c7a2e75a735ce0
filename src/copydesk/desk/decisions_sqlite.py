"""The decisions that all processes of one machine share, in SQLite.

What lives here: the table of decisions. What must not: plans, files. Invariant:
as in `decisions`; of two that decide at once one is first, whatever the processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from copydesk.desk.database import Database
from copydesk.desk.decisions import Decision, Verdict, Version
from copydesk.desk.registry_sqlite import CHANGES
from copydesk.desk.retention import PLANS_KEPT

_SCHEMA = """
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
BEGIN UPDATE changes SET count = count + 1; END
"""

_COLUMNS = (
    "hunk_id, prepared_ms, owner, path, verdict, decided_by, time_ms, before, after, reason, told"
)
_ONE = "WHERE hunk_id = ? AND prepared_ms = ?"


class SqliteDecisions:
    """Decisions in a file; `mark` is called in the transaction of each.

    A power cut may forget the last ones: then they are asked for again.
    """

    def __init__(self, db: Database, mark: Callable[[], None] = lambda: None) -> None:
        self._db, self._mark = db, mark
        db.define(CHANGES + _SCHEMA, on_new=mark)

    def take(self, decision: Decision) -> Decision:
        """Keep the decision, unless one is there: the one that is there then."""
        row = (
            *decision.plan,
            decision.owner,
            decision.path,
            decision.verdict,
            decision.by,
            decision.time_ms,
            decision.before,
            decision.after,
            decision.reason,
            decision.told,
        )
        with self._db.writing() as db:
            self._mark()
            places = ", ".join("?" * len(row))
            db.execute(f"INSERT OR IGNORE INTO decisions ({_COLUMNS}) VALUES ({places})", row)
            found = db.execute(f"SELECT {_COLUMNS} FROM decisions {_ONE}", decision.plan)
            return _decision(found.fetchone())

    def of(self, plan: Version) -> Decision | None:
        """The decision on a plan, if it was decided on."""
        with self._db.reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM decisions {_ONE}", plan).fetchone()
        return None if row is None else _decision(row)

    def withdraw(self, decision: Decision) -> None:
        """Forget a decision, so that the plan has to be shown anew; no other one."""
        with self._db.writing() as db:
            which = (*decision.plan, decision.time_ms)
            db.execute(f"DELETE FROM decisions {_ONE} AND time_ms = ?", which)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        """What the member has not heard of yet, the oldest first."""
        with self._db.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM decisions WHERE told = 0 AND owner = ?"
                " ORDER BY time_ms, hunk_id",
                (owner,),
            ).fetchall()
        return tuple(_decision(row) for row in rows)

    def tell(self, decision: Decision) -> None:
        """The owner has heard of it."""
        with self._db.writing() as db:
            db.execute(f"UPDATE decisions SET told = 1 {_ONE}", decision.plan)

    def forget(self, before_ms: int) -> None:
        """Drop the decisions that are older, but never the last ones: the clock may be wrong."""
        with self._db.writing() as db:
            db.execute(
                "DELETE FROM decisions WHERE time_ms < ? AND time_ms <"
                " (SELECT time_ms FROM decisions ORDER BY time_ms DESC LIMIT 1 OFFSET ?)",
                (before_ms, PLANS_KEPT - 1),
            )

    def close(self) -> None:
        """Close the file."""
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
