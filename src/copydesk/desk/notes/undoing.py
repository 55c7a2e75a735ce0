"""Taking back what a store of notes has written: the way back that the journal keeps.

What lives here: that one sentence. What must not: files, which are taken back as
files are. Invariant: taking back is an edit itself, with a way back of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from copydesk.desk.journal import Entry
from copydesk.desk.notes.planning import Planning
from copydesk.desk.notes.writing import NotesWriting, texts_digest
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.writing import Job
from copydesk.edit.notes.draft import DocumentText, joined
from copydesk.errors import InvalidArgs, Refusal
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot

_NO_WAY_BACK = "made what its store cannot take back; remove it there"


class NotesUndoing:
    """Takes back the edits of notes that no file holds."""

    def __init__(self, planning: Planning, writing: NotesWriting) -> None:
        self._planning, self._writing = planning, writing

    def undo(self, job: Job, entry: Entry, still: Callable[[], None]) -> Undone | NotUndone:
        """Take the edit back on the blocks as they are; `still` says in the turn that it stands.

        What the store refuses comes back as NotUndone.
        """
        try:
            if not entry.undo:
                still()
                raise InvalidArgs("edit_id", _NO_WAY_BACK)
            made = self._writing.write(
                job, lambda: self._planning.prepared(job.member, entry.undo, entry.path), still
            )
        except Refusal as refusal:
            if refusal.code in ("EDIT_NOT_FOUND", "ACCESS_DENIED"):
                raise
            return NotUndone(entry, refusal)
        documents = made.ready.documents
        nothing = DocumentText(entry.path, Snapshot(b"", UTF8), ChangeSet.of(0, []))
        first = joined(documents) if documents else nothing
        found = texts_digest(made.ready.prepared.before)
        return Undone(
            entry,
            first.base,
            first.change,
            first.after,
            b"".join(document.diff for document in documents),
            "exact" if found == entry.after else "fuzz",
            made.edit_ids[0] if made.edit_ids else 0,
        )
