"""After a crash: what was under way is found in the journal, and settled.

What lives here: how an open entry is settled. What must not: an edit of its
own making. Invariant: an entry is settled in its file's turn, so that of a
process that is alive is not touched before it has let go of the file.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from copydesk.desk.journal import Entry, Journal, State
from copydesk.desk.lanes import Lanes
from copydesk.desk.registry import Registry
from copydesk.errors import FileNotFound, HunkNotFound, Refusal
from copydesk.store.protocol import Document, Files, InPlaceTorn, TargetMoved

TORN_MS = 2_000
"""A file that was last written so soon after its entry was made was written by that entry."""

LEFT_OVER_MS = 60_000
"""A temporary file as old as this is nobody's any more."""


class Recovery:
    """Settles the open entries of one workspace."""

    def __init__(self, files: Files, lanes: Lanes, journal: Journal, registry: Registry) -> None:
        self._files, self._lanes = files, lanes
        self._journal, self._registry = journal, registry

    def run(self, now_ms: int) -> tuple[Entry, ...]:
        """Settle all open entries; gives them as they were found."""
        found = self._journal.in_doubt()
        for entry in found:
            with self._lanes.turn(str(entry.path), (entry.time_ms, entry.hunk_id)):
                self.settle(entry, now_ms)
                with suppress(Refusal):
                    self._files.sweep(entry.path.parent, 1_000_000 * (now_ms - LEFT_OVER_MS))
        return found

    def settle(self, entry: Entry, now_ms: int) -> State:
        """How the write of an entry ended, recorded; call it in the file's turn.

        `unsure`: somebody else wrote since, so that nobody can tell; a plan
        counts as applied then, lest it be applied twice.
        """
        state = self._judged(entry)
        self._journal.close_entry(entry.edit_id, state)
        if entry.hunk_id and state != "failed":
            self._end(entry, now_ms)
        return state

    def _judged(self, entry: Entry) -> State:
        later = self._journal.next_of(entry)
        document: Document | None = None
        if later is not None:
            seen = later.before
        else:
            try:
                document = self._files.read(entry.path)
            except FileNotFound:
                seen = ""
            except Refusal:
                return "unsure"
            else:
                seen = hashlib.sha256(document.data).hexdigest()
        if seen == entry.after:
            return "done"
        if seen == entry.before:
            return "failed"
        return self._restored(entry, document, seen) if document else "unsure"

    def _restored(self, entry: Entry, document: Document, seen: str) -> State:
        """Put the old bytes back into a file whose write in place broke off."""
        whole = self._journal.whole_of(entry.edit_id)
        age_ms = document.stamp.mtime_ns // 1_000_000 - entry.time_ms
        if whole is None or not -TORN_MS <= age_ms <= TORN_MS:
            return "unsure"
        lane = f"inode {document.stamp.dev} {document.stamp.ino}"
        try:
            with self._lanes.turn(lane, (entry.time_ms, entry.hunk_id)):
                self._files.replace(
                    entry.path,
                    document.stamp,
                    seen,
                    [whole],
                    before_in_place=lambda torn: None,  # the bytes worth keeping are `whole`
                    expected_real=document.real,
                )
        except (Refusal, TargetMoved, InPlaceTorn):
            return "open"
        return "failed"

    def _end(self, entry: Entry, now_ms: int) -> None:
        """The plan of a written entry is gone, if it still waits as it was then."""
        try:
            plan = self._registry.get(entry.hunk_id, now_ms)
        except HunkNotFound:
            return
        if plan.created_ms <= entry.time_ms:
            self._registry.end(entry.hunk_id, "applied", now_ms)
