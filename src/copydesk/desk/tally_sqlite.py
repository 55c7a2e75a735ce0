"""The record of how plans fared that all processes of one machine share, in SQLite.

What lives here: the table. What must not: plans, files. A power cut may forget the
last ones: they are for looking at.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from copydesk.desk.database import Database
from copydesk.desk.tally import MOST, Fared, How
from copydesk.errors import StateFailed

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fared (
    id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, member TEXT NOT NULL, path TEXT NOT NULL,
    how TEXT NOT NULL
)
"""


class SqliteTally:
    """The record in a file. What is only noted never refuses what was done."""

    def __init__(self, db: Database) -> None:
        self._db = db
        db.define(_SCHEMA)

    def note(self, fared: Fared) -> None:
        """Remember it, if the file can be used."""
        with suppress(StateFailed), self._db.writing() as db:
            last = db.execute(
                "INSERT INTO fared (time_ms, member, path, how) VALUES (?, ?, ?, ?)",
                (fared.time_ms, fared.member, fared.path, fared.how),
            ).lastrowid
            db.execute("DELETE FROM fared WHERE id <= ?", ((last or 0) - MOST,))

    def noted(self) -> tuple[Fared, ...]:
        """The last ones, the newest first."""
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT time_ms, member, path, how FROM fared ORDER BY id DESC LIMIT ?", (MOST,)
            ).fetchall()
        return tuple(Fared(at, member, path, cast(How, how)) for at, member, path, how in rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
