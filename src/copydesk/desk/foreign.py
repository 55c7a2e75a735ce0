"""What another program wrote to a file at the moment that it was replaced: kept as an edit.

Invariant: the entry is that of an edit that took the other program's text away, so that to undo it
brings that text back; it is on the disk, also where the journal at hand ends with the process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from copydesk.desk.backends.api import Entry, Journal
from copydesk.desk.member import Member
from copydesk.errors import FileNotFound
from copydesk.store.files import Files
from copydesk.store.protocol import Named
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import common_ends
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import unified

TOOL = "foreign_write"
"""What stands for the tool in such an entry."""

MEMBER = "another program"


@dataclass(frozen=True, slots=True)
class Saved:
    """A write of another program that is not in the file; `edit_id` is the edit to undo.

    `lasting_id` is its id in the journal of the state folder: the same, unless the journal
    at hand is one in memory.
    """

    path: RelPath
    edit_id: int
    lasting_id: int


class ForeignWrites:
    """Other programs' saved writes in a workspace, thread-safe; `lasting` opens a disk journal."""

    def __init__(
        self,
        files: Files,
        journal: Journal,
        clock: Callable[[], int],
        named: Named,
        lasting: Callable[[], Journal] | None = None,
    ) -> None:
        self._files, self._journal, self._lasting = files, journal, lasting
        self._clock, self._named = clock, named
        self._untold: list[Saved] = []
        self._lock = Lock()

    def keep(self, real: RelPath, theirs: bytes, ours: bytes | None) -> None:
        """Record `theirs`, which `ours` (or the content now) replaced; raises Refusal."""
        is_gone = False
        if ours is None:
            try:
                ours = self._files.read(real).data
            except FileNotFound:
                ours, is_gone = b"", True
        if ours == theirs and not is_gone:
            return
        named = self._named(real)
        before = Snapshot.of(theirs, named)
        change = ChangeSet.of(len(theirs), [_difference(theirs, ours)])
        entry = Entry(
            time_ms=self._clock(),
            member=MEMBER,
            tool=TOOL,
            path=real,
            kind="remove" if is_gone else "edit",
            before=hashlib.sha256(theirs).hexdigest(),
            after="" if is_gone else hashlib.sha256(ours).hexdigest(),
            inverse=change.invert(theirs),
            diff=unified(before, change, str(real)),
            state="done",
        )
        lasting_id = 0 if self._lasting is None else _recorded(self._lasting(), entry)
        edit_id = _recorded(self._journal, entry)
        with self._lock:
            self._untold.append(Saved(real, edit_id, lasting_id or edit_id))

    def told(self, member: Member) -> tuple[Saved, ...]:
        """Those that nobody was told of yet, of files that the member may read."""
        if not self._untold:
            return ()
        with self._lock:
            found = [one for one in self._untold if member.permission.allows_read(one.path)]
            self._untold = [one for one in self._untold if one not in found]
        return tuple(found)

    @property
    def any_untold(self) -> bool:
        """Whether there are some that nobody was told of yet."""
        return bool(self._untold)

    def take_untold(self) -> tuple[Saved, ...]:
        """Those that nobody was told of yet, whoever may read them."""
        with self._lock:
            found, self._untold = self._untold, []
        return tuple(found)


def _recorded(journal: Journal, entry: Entry) -> int:
    edit_id = journal.open(entry)
    journal.close_entry(edit_id, "done")
    return edit_id


def _difference(old: bytes, new: bytes) -> Edit:
    """The lines between those at the start and at the end that both texts have."""
    mine, theirs = (re.findall(rb".*\n|.+", text) for text in (old, new))
    head, tail = common_ends(mine, theirs)
    start = sum(map(len, mine[:head]))
    kept = sum(map(len, mine[len(mine) - tail :]))
    return Edit(start, len(old) - kept, new[start : len(new) - kept])
