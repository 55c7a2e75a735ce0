"""The edits of the past, as far as a member may see them, and taking one back by another edit.

Invariant: a member is shown no edit of a file that it may not read; what is taken back is
what the journal says that the edit did, and only where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice

from copydesk.desk.backends.api import CHAIN_LENGTH, Entry, Journal, Kind, State, linked
from copydesk.desk.context import Setting
from copydesk.desk.drafts import Drafting
from copydesk.desk.member import Member
from copydesk.desk.notes.lazy_notes import LazyNotes
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.transaction import Job, Writer
from copydesk.desk.visibility import authorized, check_look, line_change, note_of_change
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
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Excerpt, Source
from copydesk.text.unified import unified

PAGE = 50
"""So many entries are fetched at a time."""

MOST_SEEN = 10_000
"""So many entries are looked through for one answer."""


@dataclass(frozen=True, slots=True)
class Past(Entry):
    """An edit of the past; `undone_by` is the one that took it back, 0 when it stands."""

    undone_by: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some edits, the newest first; `go_on`: there are older ones, of ids below it; 0: none."""

    edits: tuple[Past, ...]
    go_on: int = 0


class History:
    """The past of one workspace."""

    def __init__(self, setting: Setting) -> None:
        self._set = setting

    def page(
        self,
        member: Member,
        path: RelPath | None = None,
        by: str | None = None,
        most: int = PAGE,
        before: int | None = None,
    ) -> Page:
        """The last edits, of a file, of what is below a directory, of all.

        `by` is the member that made them; with `before` those of lower ids. Raises
        AccessDenied for a path that the member may not look into.
        """
        real: RelPath | None = None
        if path is not None:
            real = check_look(self._set.files, member, path)
        found: list[Past] = []
        seen = entries(self._set.journal, real, by, before)
        for entry in islice(seen, MOST_SEEN):
            before = entry.edit_id
            if not member.permission.allows_read(entry.path):
                continue
            if len(found) == most:
                return Page(tuple(found), found[-1].edit_id)
            found.append(self._past(entry))
        return Page(tuple(found), 0 if next(seen, None) is None else before or 0)

    def entry(self, member: Member, edit_id: int) -> Entry:
        """An edit that the member may see. Raises EditNotFound, AccessDenied."""
        entry = self._set.journal.get(edit_id)
        if entry is None:
            raise self.not_found(member, edit_id)
        member.permission.check("read", entry.path)
        return entry

    def not_found(self, member: Member, edit_id: int) -> EditNotFound:
        """The refusal for an edit that there is not, with the reason."""
        reason = self._set.journal.why_missing(edit_id)
        return EditNotFound(edit_id, reason, self.newest(member))

    def newest(self, member: Member) -> int | None:
        """The id of the newest edit that the member may see, if there is one."""
        edits = self.page(member, most=1).edits
        return edits[0].edit_id if edits else None

    def _past(self, entry: Entry) -> Past:
        known = {field.name: getattr(entry, field.name) for field in fields(Entry)}
        return Past(**known, undone_by=taken_back_by(self._set.journal, entry.edit_id))


def taken_back_by(journal: Journal, edit_id: int) -> int:
    """The newest edit that took another one back, and stands itself; 0 when none does."""
    by: dict[int, tuple[int, ...]] = {}
    left = [edit_id]
    while left:
        one = left.pop()
        by[one] = journal.undone_by(one)
        left += by[one]
    standing: set[int] = set()
    for one in sorted(by, reverse=True):  # an edit is older than what takes it back
        if standing.isdisjoint(by[one]):
            standing.add(one)
    return max(standing.intersection(by[edit_id]), default=0)


def entries(
    journal: Journal,
    path: RelPath | None = None,
    by: str | None = None,
    before: int | None = None,
) -> Iterator[Entry]:
    """All entries of the journal, the newest first, fetched as they are asked for."""
    while page := journal.entries(path, by, PAGE, before):
        yield from page
        before = page[-1].edit_id


def between(
    journal: Journal, path: RelPath, base_digest: str, now_digest: str
) -> tuple[Entry, ...] | None:
    """The writes that made one text of another, the first one first; as `Journal.chain`."""
    own = (e for e in islice(entries(journal, path), CHAIN_LENGTH) if e.path == path)
    return linked(((e.before, e.after, e.state, e) for e in own), base_digest, now_digest)


def taken_back_in(journal: Journal, writes: tuple[Entry, ...]) -> dict[int, int]:
    """Which of the writes, by index, were taken back by a later one of them, and by which.

    An edit, what took it back, what took that back, and so on, each take back the one before.
    """
    last: dict[int, int] = {}
    found: dict[int, int] = {}
    for index, entry in enumerate(writes):
        first = _first_of(journal, entry)
        if first in last:
            found[last[first]] = index
        last[first] = index
    return found


def _first_of(journal: Journal, entry: Entry) -> int:
    """The edit at the start of the edits that took one another back up to this one."""
    at: Entry | None = entry
    first = entry.edit_id
    while at is not None and at.undoes:
        first = at.undoes
        at = journal.get(first)
    return first


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
        notes: LazyNotes,
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
            raise self._history.not_found(member, edit_id)
        authorized(self._set.files, member, entry.path, "write", "read")
        seen: list[Text] = []
        lines: list[tuple[int, int]] = []
        job = _UndoJob(
            *(member, tool, entry.path, (self._set.clock(), tool)),
            undoes=edit_id,
            undoing=self,
            entry=entry,
            seen=seen,
            lines=lines,
        )
        if entry.kind == "notes":
            return self._notes.desk.undo(job, entry, job.precondition)
        try:
            written = self._writer.write(job)
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
            change = line_change(made.base, made.change, own=False)
            note = note_of_change(member.name, entry.path, made.base, after, written.digest, change)
            self._drafting.remember(after, entry.path, [note])
        return Undone(
            entry, made.base, made.change, after, made.diff, made.context, written.edit_id
        )

    def check_stands(self, member: Member, entry: Entry) -> None:
        """Raise unless the edit was made and was not taken back; call it in the file's turn."""
        now = self._set.journal.get(entry.edit_id)
        state: State = "failed" if now is None else now.state
        if now is not None and state == "open":  # who wrote it was ended
            state = self._set.recovery.settle(now, self._set.clock())
        if state == "open":
            raise Failed("recover an unfinished write", f"the state of {entry.path} is not known")
        if state == "failed":
            raise EditNotFound(entry.edit_id, "failed", self._history.newest(member))
        by = taken_back_by(self._set.journal, entry.edit_id)
        if by:
            raise ContentChanged(f"it was undone by edit {by}", undone_by=by)

    def back(self, entry: Entry, now: Source, lines: list[tuple[int, int]]) -> _Back:
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

    def created_again(self, entry: Entry) -> _Back:
        content = entry.inverse.apply(b"")
        after = Snapshot.of(content, self._set.named(entry.path))
        nothing = Snapshot(b"", replace(after.encoding, bom=b""))
        diff = unified(nothing, entry.inverse, str(entry.path), created=True)
        return _Back(nothing, entry.inverse, after, diff, "exact")

    def removed(self, entry: Entry, now: Source) -> _Back:
        if now.digest != entry.after or self._set.files.resolve(entry.path) != entry.path:
            writes = between(self._set.journal, entry.path, entry.after, now.digest)
            later = None if writes is None else tuple(write.edit_id for write in writes)
            raise ContentChanged("the file was changed since it was created", later_edit_ids=later)
        base = now.whole()
        change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
        diff = unified(base, change, str(entry.path), removed=True)
        return _Back(base, change, Snapshot(b"", base.encoding), diff, "exact")


_BACK: dict[Kind, Kind] = {"create": "remove", "remove": "create"}


@dataclass(frozen=True, kw_only=True)
class _UndoJob(Job["_Back"]):
    """The write that takes an edit back.

    Where the file refuses it, `seen` gets the text at its place, and `lines` which that are.
    """

    undoing: Undoing
    entry: Entry
    seen: list[Text]
    lines: list[tuple[int, int]]

    @property
    def kind(self) -> Kind:
        """The opposite of what was done."""
        return _BACK.get(self.entry.kind, "edit")

    def precondition(self) -> None:
        self.undoing.check_stands(self.member, self.entry)

    def revise(self, now: Source) -> _Back:
        if self.entry.kind == "create":
            return self.undoing.removed(self.entry, now)
        try:
            return self.undoing.back(self.entry, now, self.lines)
        except (ContentChanged, AmbiguousMatch):
            start, stop = self.lines[0] if self.lines else (0, 0)
            first = min(start, now.line_count)
            last = min(max(first, stop), first + _SHOWN, now.line_count)
            self.seen[:] = [now.around(first, last)]
            self.lines[:] = [(first, last)]
            raise

    def create(self) -> _Back:
        return (
            self.undoing.created_again(self.entry)
            if self.entry.kind == "remove"
            else super().create()
        )


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
