"""Taking an edit back: a change like any other, in the turn of its file.

What lives here: which edits can be taken back, and from which text to which.
What must not: how a change is carried (`copydesk.edit.relocate`), who may write
(`Writer` asks). Invariant: what is taken back is what the journal says that the
edit did, and only where it stands; taking it back is an edit itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from copydesk.desk.drafting import Drafting
from copydesk.desk.history import History, between, taken_back_by, taken_back_in
from copydesk.desk.journal import CHAIN_LENGTH, Entry, State
from copydesk.desk.member import Member
from copydesk.desk.notes.later import Later
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.seeing import authorized
from copydesk.desk.setting import Setting
from copydesk.desk.writing import Job, Writer
from copydesk.edit.plan import ContextMatch
from copydesk.edit.relocate import carried, drift_of, lines_of, needed
from copydesk.errors import (
    AmbiguousMatch,
    ContentChanged,
    EditNotFound,
    Failed,
    FileNotFound,
    Refusal,
)
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Excerpt, Source
from copydesk.text.unified import unified

_SHOWN = 8
"""So many lines are read to show what stands where an edit was."""


class Undoing:
    """Takes back the edits of one workspace."""

    def __init__(
        self,
        setting: Setting,
        drafting: Drafting,
        history: History,
        writer: Writer,
        notes: Later,
    ) -> None:
        self._set, self._drafting = setting, drafting
        self._history, self._writer = history, writer
        self._notes = notes

    def undo(self, member: Member, tool: str, edit_id: int) -> Undone | NotUndone:
        """Take the edit back, also when later ones changed other lines.

        Raises EditNotFound and AccessDenied; what the file refuses comes back as NotUndone.
        """
        entry = self._set.journal.get(edit_id)
        if entry is None:
            raise self._not_found(member, edit_id)
        authorized(self._set.files, member, entry.path, "write", "read")
        ticket = (self._set.clock(), tool)
        job = Job(member, tool, entry.path, ticket, undoes=edit_id)
        seen: list[Text] = []
        lines: list[tuple[int, int]] = []

        def still() -> None:
            self._check_stands(member, entry)

        if entry.kind == "notes":
            return self._notes.desk.undoing.undo(job, entry, still)

        def make_new() -> _Back:
            still()
            return self._created_again(entry)

        def make(now: Source) -> _Back:
            try:
                return self._back(entry, now, lines)
            except (ContentChanged, AmbiguousMatch):
                start, stop = lines[0] if lines else (0, 0)
                first = min(start, now.line_count)
                last = min(max(first, stop), first + _SHOWN, now.line_count)
                seen[:] = [now.around(first, last)]
                lines[:] = [(first, last)]
                raise

        def make_nothing(now: Source) -> _Back:
            return self._removed(entry, now)

        try:
            if entry.kind == "remove":
                written = self._writer.create(job, make_new)
            elif entry.kind == "create":
                written = self._writer.remove(job, make_nothing, still)
            else:
                written = self._writer.write(job, make, still=still)
        except FileNotFound:
            return NotUndone(entry, self._drafting.missing(member, entry.path))
        except Refusal as refusal:
            if refusal.code in ("EDIT_NOT_FOUND", "ACCESS_DENIED"):
                raise
            return NotUndone(entry, refusal, seen[0] if seen else None, *lines[:1])
        made = written.made
        after = made.after
        if isinstance(after, Excerpt):
            after = after.known_as(written.digest)
        if entry.kind != "create":
            self._drafting.remember(after, entry.path)
        return Undone(
            entry, made.base, made.change, after, made.diff, made.context, written.edit_id
        )

    def _not_found(self, member: Member, edit_id: int) -> EditNotFound:
        reason = self._set.journal.why_missing(edit_id)
        return EditNotFound(edit_id, reason, self._history.newest(member))

    def _check_stands(self, member: Member, entry: Entry) -> None:
        """Raise unless the edit was made and was not taken back; call it in the file's turn."""
        now = self._set.journal.get(entry.edit_id)
        state: State = "failed" if now is None else now.state
        if now is not None and state == "open" and not now.group:  # who wrote it was ended
            state = self._set.recovery.settle(now, self._set.clock())
        if state == "open":
            raise Failed("settle what was broken off", f"{entry.path} is not settled")
        if state == "failed":
            raise EditNotFound(entry.edit_id, "failed", self._history.newest(member))
        by = taken_back_by(self._set.journal, entry.edit_id)
        if by:
            raise ContentChanged(f"it was taken back by edit {by}", undone_by=by)

    def _back(self, entry: Entry, now: Source, lines: list[tuple[int, int]]) -> _Back:
        """The way back on the text as it is now; `lines` is told where it was looked for."""
        inverse, path = entry.inverse, entry.path
        if now.digest == entry.after:
            text = now.holding([(e.start, e.stop) for e in inverse.edits])
            return _Back.of(entry, text, inverse, "exact")
        writes = between(self._set.journal, path, entry.after, now.digest)
        known = None if writes is None else tuple(write.inverse for write in writes)
        text, after = self._texts(entry, now, known)
        taken_back = taken_back_in(self._set.journal, writes or ())
        drift = drift_of(inverse, after, text, known, taken_back)
        lines[:] = [lines_of(inverse, drift.base)]
        try:
            change = carried(inverse, drift)
        except ContentChanged as refusal:
            if writes is not None and drift.met is not None:
                refusal.later_edit_ids = (writes[drift.met].edit_id,)
            raise
        context: ContextMatch = "fuzz"
        if unified(text, change, str(path)) == unified(after, inverse, str(path)):
            context = "exact"
        return _Back.of(entry, text, change, context)

    def _texts(
        self, entry: Entry, now: Source, known: Sequence[ChangeSet] | None
    ) -> tuple[Text, Text]:
        """The text now and the one after the edit, with the lines at hand that matter."""
        named = self._set.named(entry.path)
        if known is None:
            after = None
            if now.size <= sizes.COMPARED:
                after = self._kept(entry, named)
            if after is None:
                raise ContentChanged("the file changed, and the text after the edit is not kept")
            return now.whole(), after
        text: Text
        if now.size <= sizes.LARGE:
            text = now.whole()
        else:
            text = now.holding([*needed(entry.inverse, known)])
        if isinstance(text, Snapshot):
            data = text.data
            for inverse in reversed(known):
                data = inverse.apply(data)
            return text, Snapshot.of(data, named)
        before = text
        for inverse in reversed(known):
            before = before.edited(inverse)
        return text, before

    def _kept(self, entry: Entry, named: str | None) -> Snapshot | None:
        """The text after the edit, from bases: itself, or a later one and the way back from it.

        That of an edit within a transaction never stood in the file by itself.
        """
        back: list[ChangeSet] = []
        last = entry
        while len(back) <= CHAIN_LENGTH:
            found = self._set.bases.find(last.after, named, None)
            if found is not None:
                data = found.data
                for inverse in reversed(back):
                    data = inverse.apply(data)
                return Snapshot.of(data, named)
            later = self._set.journal.next_of(last)
            while later is not None and later.state == "failed":
                later = self._set.journal.next_of(later)
            if later is None or later.before != last.after:
                return None
            back.append(later.inverse)
            last = later
        return None

    def _created_again(self, entry: Entry) -> _Back:
        content = entry.inverse.apply(b"")
        after = Snapshot.of(content, self._set.named(entry.path))
        nothing = Snapshot(b"", replace(after.encoding, bom=b""))
        diff = unified(nothing, entry.inverse, str(entry.path), created=True)
        return _Back(nothing, entry.inverse, after, diff, "exact")

    def _removed(self, entry: Entry, now: Source) -> _Back:
        if now.digest != entry.after or self._set.files.resolve(entry.path) != entry.path:
            writes = between(self._set.journal, entry.path, entry.after, now.digest)
            later = None if writes is None else tuple(write.edit_id for write in writes)
            raise ContentChanged("the file was changed since it was created", later_edit_ids=later)
        base = now.whole()
        change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
        diff = unified(base, change, str(entry.path), removed=True)
        return _Back(base, change, Snapshot(b"", base.encoding), diff, "exact")


@dataclass(frozen=True, slots=True)
class _Back:
    """What is written to take an edit back."""

    base: Text
    change: ChangeSet
    after: Text
    diff: bytes
    context: ContextMatch

    @staticmethod
    def of(entry: Entry, base: Text, change: ChangeSet, context: ContextMatch) -> _Back:
        """The change of a text at the entry's path."""
        diff = unified(base, change, str(entry.path))
        return _Back(base, change, base.edited(change), diff, context)
