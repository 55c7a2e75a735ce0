"""The edits of the past: seen by a member, undone by another edit, and forgotten.

Invariant: a member is shown no edit of a file that it may not read; an undo reverts what the
journal says that the edit did, and only where that is still there. What is forgotten leaves the
journal, the plans and the snapshots; who wrote what and when stays. Such an entry keeps its time,
member, path and digests, and cannot be undone. What is in the files of the workspace stays there,
and is stored again when it is read or edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from itertools import islice, product, takewhile
from typing import Any

from copydesk.desk.backends.api import CHAIN_LENGTH, Decision, Entry, Records, State, linked
from copydesk.desk.drafts import Blocks, Drafting, Services
from copydesk.desk.member import (
    Member,
    authorized,
    check_free,
    check_look,
    line_change,
    note_of_change,
)
from copydesk.desk.outcome import NotUndone, Saved, Undone
from copydesk.desk.transaction import (
    Chmod,
    Create,
    Move,
    Part,
    Remove,
    Replace,
    Step,
    Stopped,
    Writer,
    WriteRequest,
    again_and_again,
    attempted,
)
from copydesk.edit.draft import ContextMatch, Plan
from copydesk.edit.relocate import Drift, carried, drift_of, lines_of, needed
from copydesk.edit.request import MoveFile
from copydesk.errors import (
    AmbiguousMatch,
    BinaryFile,
    ContentChanged,
    EditNotFound,
    Failed,
    FileNotFound,
    HunkNotFound,
    Refusal,
)
from copydesk.store.protocol import ModeChanged, OpenText
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Collision, Edit
from copydesk.text.diff import as_executable, deleted, mode_changed, renamed, unified
from copydesk.text.encoding import BYTES
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Excerpt, Snapshot, Source, Text

PAGE = 50
"""Entries fetched at a time."""

MOST_SEARCHED = 10_000
"""The most entries looked through for one answer."""


@dataclass(frozen=True, slots=True)
class Past(Entry):
    """A recorded edit; `undone_by` is the id of the edit that undid it, or 0."""

    undone_by: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some edits, newest first; `go_on`: there are older ones, with ids below it; 0: none.

    `lost` are the runs [first, last] of ids since the oldest of them that were lost or damaged.
    """

    edits: tuple[Past, ...]
    go_on: int = 0
    lost: tuple[tuple[int, int], ...] = ()


class History:
    """The history of one workspace."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def page(
        self,
        member: Member,
        path: RelPath | None = None,
        by: str | None = None,
        most: int = PAGE,
        before: int | None = None,
    ) -> Page:
        """The last edits of a file, below a directory, or of all files.

        `by` is the member that made them; `before`: only lower ids. Raises AccessDenied for a path
        that the member may not look into.
        """
        real = None if path is None else check_look(self._services.files, member, path)
        seen = entries(self._services.records, real, by, before)
        allows = member.permission.allows_read
        readable = (entry for entry in islice(seen, MOST_SEARCHED) if allows(entry.path))
        edits = tuple(
            self._past(member, entry) for entry in islice(readable, min(most, MOST_SEARCHED))
        )
        go_on = 0
        if next(readable, None) is not None:
            go_on = edits[-1].edit_id
        elif (next_one := next(seen, None)) is not None:
            go_on = next_one.edit_id + 1
        return Page(edits, go_on, self._services.records.lost(go_on or 1, before))

    def entry(self, member: Member, edit_id: int) -> Entry:
        """Return an edit that the member may see. Raises EditNotFound, AccessDenied."""
        if (entry := self._services.records.get(edit_id)) is None:
            raise self.not_found(member, edit_id)
        member.permission.check("read", entry.path)
        return replace(entry, **_seen(member, entry))

    def place(self, member: Member, entry: Entry) -> RelPath:
        """Where the file of an edit is now; ContentChanged if it was deleted, AccessDenied."""
        since = located(self._services.records, entry)
        if since.gone and entry.after:
            raise ContentChanged("the file was deleted since", later_edit_ids=(since.gone,))
        member.permission.check("read", since.path)
        return since.path

    def text_after(self, entry: Entry, named: str | None) -> Snapshot | None:
        """The text after the edit, from snapshots, or from a later text and its inverses."""
        back: list[ChangeSet] = []
        last = entry
        while len(back) <= CHAIN_LENGTH:
            if (found := self._services.bases.find(last.after, named, None)) is not None:
                return _before(found, back, named)
            later = self._services.records.next_of(last)
            while later is not None and later.state == "failed":
                later = self._services.records.next_of(later)
            if later is None or later.before != last.after or later.forgotten:
                return None
            back.append(later.inverse)
            last = later
        return None

    def undone_by(self, member: Member, edit_id: int) -> int:
        """The edit that undid this one and is in effect, or 0; raises as `entry`."""
        return taken_back_by(self._services.records, self.entry(member, edit_id).edit_id)

    def undone(self, undo: Entry) -> int:
        """The edit that this one undid, or 0; of a move, whose old end it names, the new end.

        It is 0 too if the journal does not have both ends of the move that was undone.
        """
        if undo.moved is None or not undo.undoes:
            return undo.undoes
        source, ends = self._services.records.get(undo.undoes), [undo.path, undo.moved.other]
        found = (
            one.edit_id
            for one in (self._services.records.of_group(source.group) if source else ())
            if one.moved and not one.is_source and [one.moved.other, one.path] == ends
        )
        return next(found, 0)

    def not_found(self, member: Member, edit_id: int) -> EditNotFound:
        """The refusal for a missing edit, with the reason."""
        return EditNotFound(
            edit_id, self._services.records.why_missing(edit_id), self.newest(member)
        )

    def newest(self, member: Member) -> int | None:
        """The id of the newest edit that the member may see, if there is one."""
        return next((edit.edit_id for edit in self.page(member, most=1).edits), None)

    def _past(self, member: Member, entry: Entry) -> Past:
        known = {field.name: getattr(entry, field.name) for field in fields(Entry)}
        undone_by = taken_back_by(self._services.records, entry.edit_id)
        return Past(**known | _seen(member, entry), undone_by=undone_by)


def _seen(member: Member, entry: Entry) -> dict[str, Any]:
    """The fields that hide the other path of a move from a member who may not read it."""
    if entry.moved is None or member.permission.allows_read(entry.moved.other):
        return {}
    return {"file": tuple(one for one in entry.file if one is not entry.moved), "diff": b""}


def standing_doubts(journal: Records, most: int = 1_000) -> list[Saved]:
    """Those of the last `most` edits that are in doubt and were not undone, newest first."""
    return [
        Saved(RelPath.parse(head.path), head.edit_id, head.edit_id, "unsure")
        for head in journal.heads(0, most)
        if head.state == "unsure" and not taken_back_by(journal, head.edit_id)
    ]


def taken_back_by(journal: Records, edit_id: int) -> int:
    """The newest edit that undid another and is still in effect; 0 if there is none.

    Undos form a tree: from the newest on, an edit stands unless one that undid it stands.
    """
    by: dict[int, tuple[int, ...]] = {}
    left = [edit_id]
    while left:
        one = left.pop()
        by[one] = journal.undone_by(one)
        left += by[one]
    standing: set[int] = set()
    for one in sorted(by, reverse=True):  # an edit is older than its undo
        if standing.isdisjoint(by[one]):
            standing.add(one)
    return max(standing.intersection(by[edit_id]), default=0)


def entries(
    journal: Records,
    path: RelPath | None = None,
    by: str | None = None,
    before: int | None = None,
) -> Iterator[Entry]:
    """Yield all entries of the journal, newest first, fetched as needed, `PAGE` at a time."""
    while found := journal.entries(path, by, PAGE, before):
        yield from found
        if len(found) < PAGE:
            return
        before = found[-1].edit_id


@dataclass(frozen=True, slots=True)
class Location:
    """The current place of an edited file, and the later writes to it, oldest first.

    `moves` are the later moves, as the entries at their new paths. `gone` is the edit that deleted
    it, 0 while it exists.
    """

    path: RelPath
    writes: tuple[Entry, ...]
    moves: tuple[Entry, ...] = ()
    gone: int = 0


def located(journal: Records, entry: Entry) -> Location:
    """Find the file of an edit, following later moves; not another file with its old name."""
    path, last = entry.path, entry.edit_id
    gone = entry.edit_id if not entry.after else 0
    writes: list[Entry] = []
    moves: list[Entry] = []
    while len(writes) + len(moves) < CHAIN_LENGTH:
        for one in _since(journal, path, last):
            if one.state == "failed" or (gone and one.undoes != gone):
                continue
            moved = one.moved
            if moved is not None and moved.is_source:
                break
            gone = one.edit_id if one.kind == "remove" else 0
            writes.append(one)
        else:
            break
        path = moved.other
        arrived = [each for each in journal.of_group(one.group) if each.path == path and each.moved]
        last = arrived[0].edit_id if arrived else one.edit_id + 1
        moves += arrived[:1]
    return Location(path, tuple(writes), tuple(moves), gone)


def _since(journal: Records, path: RelPath, edit_id: int) -> list[Entry]:
    """The entries of a path that are newer than an id, oldest first."""
    latest = islice(entries(journal, path), CHAIN_LENGTH)
    newer = takewhile(lambda entry: entry.edit_id > edit_id, latest)
    return [entry for entry in newer if entry.path == path][::-1]


def between(
    journal: Records, entry: Entry, now_digest: str, since: Location | None = None
) -> tuple[Entry, ...] | None:
    """The writes from the edit's text to another, oldest first; None as in `Records.chain`."""
    writes = (since or located(journal, entry)).writes
    links = ((e.before, e.after, e.state, e) for e in reversed(writes))
    found = linked(links, entry.after, now_digest)
    return None if found is None else without_removals(found)


def without_removals(writes: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The writes, except those that removed the file and restored it unchanged."""
    left: list[Entry] = []
    for write in writes:
        if left and not write.before and not left[-1].after and left[-1].before == write.after:
            left.pop()
        else:
            left.append(write)
    return tuple(left)


def taken_back_in(journal: Records, writes: tuple[Entry, ...]) -> dict[int, int]:
    """Map each write that a later one undid to that one, by index; undoing an undo redoes."""
    last: dict[int, int] = {}
    found: dict[int, int] = {}
    for index, entry in enumerate(writes):
        origin = _first_of(journal, entry)
        first = origin.undoes or origin.edit_id
        if first in last:
            found[last[first]] = index
        last[first] = index
    return found


def _first_of(journal: Records, entry: Entry) -> Entry:
    """The edit at the start of the chain of undos that ends with this one, as far as known."""
    while entry.undoes and (undone := journal.get(entry.undoes)) is not None:
        entry = undone
    return entry


_SHOWN = 8
"""The most lines read to show the current text at the place of an edit."""


_Back = tuple[Undone, Step | None]
"""The inverse of an edit in the current file, and what writes it; None if nothing is left."""


class _Declined(Exception):
    """The file now has other text at the place of an edit."""

    def __init__(self, outcome: NotUndone) -> None:
        super().__init__(str(outcome.refusal))
        self.outcome = outcome


class Undoing:
    """Undoes the edits of one workspace."""

    def __init__(
        self,
        services: Services,
        drafting: Drafting,
        history: History,
        writer: Writer,
        blocks: Blocks,
    ) -> None:
        self._services, self._drafting = services, drafting
        self._history, self._writer = history, writer
        self._blocks = blocks

    def undo(
        self, member: Member, tool: str, edit_id: int, *, is_together: bool
    ) -> tuple[Undone, ...] | NotUndone:
        """Undo an edit, keeping later ones, or with it all of its transaction, newest first.

        One edit of several files, a block diff, is undone in all of them: half of a move would have
        the blocks twice.
        Raises EditNotFound, AccessDenied; what the file refuses is returned as NotUndone.
        """
        journal = self._services.records
        if (entry := journal.get(edit_id)) is None:
            raise self._history.not_found(member, edit_id)
        member.permission.check("read", entry.path)  # the old text is restored, and shown
        if entry.kind == "notes":
            at = located(journal, entry).path
            authorized(self._services.files, member, at, "write", "read")
            job = WriteRequest(
                member, tool, at, (self._services.clock(), tool), undoes=entry.edit_id
            )
            undone = self._blocks().undo(job, entry, partial(self.check_stands, member, entry, at))
            return undone if isinstance(undone, NotUndone) else (undone,)
        moved = entry.moved
        # Plans that are written together have an id each: what shares one was one edit.
        is_together = (
            is_together
            or len({one.hunk_id for one in journal.of_group(_first_of(journal, entry).group)}) == 1
        )
        group = journal.of_group(entry.group) if is_together or moved else ()
        edits = [one for one in group if not one.is_source]
        if len(edits) < 2 or not is_together:
            ends = (entry.path, moved.other) if moved else ()
            entry = next((one for one in edits if one.moved and one.path in ends), entry)
            edits = [entry]
        return self.undo_all(member, tool, edits, entry)

    def undo_all(
        self, member: Member, tool: str, edits: Sequence[Entry], asked: Entry | None = None
    ) -> tuple[Undone, ...] | NotUndone:
        """Undo these edits of files (oldest first) or none; raises as `undo`. One was `asked`."""
        entry = asked or edits[-1]
        over = partial(again_and_again, "write", "files are" if len(edits) > 1 else "file is")
        return attempted(lambda: self._attempt(member, tool, entry, edits), over)

    def _attempt(
        self, member: Member, tool: str, entry: Entry, edits: Sequence[Entry]
    ) -> tuple[Undone, ...] | NotUndone:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        journal, ticket = self._services.records, (self._services.clock(), tool)
        files: dict[RelPath, list[Entry]] = {}
        places: dict[int, RelPath] = {}
        by = {one.edit_id: taken_back_by(journal, one.edit_id) for one in edits}
        gone = {one.path for one in edits if one.kind == "create" and by[one.edit_id]}
        for one in reversed(edits):
            if not by[one.edit_id] and one.path not in gone:
                at = places[one.edit_id] = located(journal, one).path
                member.permission.check("read", one.path)
                if one.moved is not None:
                    authorized(self._services.files, member, one.moved.other, "write", "read")
                real = authorized(self._services.files, member, at, "write", "read")
                if real != at and one.kind == "create":
                    reason = "the file was changed since it was created"
                    return NotUndone(one, ContentChanged(reason))
                files.setdefault(real, []).append(one)
        if not files:
            undo = by.get(entry.edit_id) or max(by.values())
            return NotUndone(entry, ContentChanged(f"it was undone by edit {undo}", undone_by=undo))
        paths = [*files, *(one.moved.other for one in edits if one.moved), *member.own_lock]
        made: list[_Back] = []
        with (
            self._services.locks.of_all(dict.fromkeys(paths, ticket), (member.name, tool)),
            ExitStack() as held,
        ):
            at_work = entry
            try:
                for at, own in files.items():
                    for at_work in own:
                        self.check_stands(member, at_work, places[at_work.edit_id])
                        self._history.place(member, at_work)
                    made += self._file_back(WriteRequest(member, tool, at, ticket), own, held)
                entries = self._written(member, made, by)
            except FileNotFound:
                path = located(journal, at_work).path
                return NotUndone(at_work, self._drafting.missing(member, path))
            except Stopped as stopped:
                return NotUndone(entry, stopped.refusal)
            except _Declined as declined:
                return declined.outcome
            except Refusal as refusal:
                if refusal.code in ("EDIT_NOT_FOUND", "ACCESS_DENIED"):
                    raise
                return NotUndone(at_work, refusal)
        for one in reversed(edits):  # empty directories of files that are gone from there again
            with suppress(Refusal):
                self._services.files.remove_parents(one.path, one.made_directories)
        written = {one.undoes: one for one in entries if not one.is_source}
        for each, step in made:
            if isinstance(step, Move):
                written[each.entry.edit_id] = written[step.parts[0].job.undoes_source]
        told = [each for each, step in made if step is not None or len(edits) == 1]
        return tuple(self._noted(member, each, written.get(each.entry.edit_id)) for each in told)

    def _written(
        self, member: Member, made: Sequence[_Back], by: Mapping[int, int]
    ) -> tuple[Entry, ...]:
        """Pass the gate and write; nothing is checked but who may do it: the text was there."""
        left = [(back, step) for back, step in made if step is not None]
        together = [(back.path, back) for back, _ in left]
        for back, step in left:
            self._services.approving.check(
                member,
                None,
                back.path,
                back,
                created=back.entry.kind == "remove",
                together=together,
                to=step.to,
                undoes=by,
            )
        if not left:
            return ()
        steps = tuple(dict.fromkeys(step for _, step in left))
        is_one = len(together) == 1 and not isinstance(steps[0], Move)
        return self._writer.write(steps, "" if is_one else self._services.group_id())

    def _file_back(self, job: WriteRequest, edits: Sequence[Entry], held: ExitStack) -> list[_Back]:
        """The inverses of the edits of one file, newest first, each with its new text."""
        at, texts = job.path, [one for one in edits if not (one.moved or one.mode_changed)]
        oldest = texts[-1] if texts else None

        def part(back: Undone, source: int = 0) -> Part:
            return Part(replace(job, undoes=back.entry.edit_id, undoes_source=source), back)

        if oldest is not None and oldest.kind == "remove":
            self._services.files.check_new(at)
            back = self._created_again(oldest, at)
            return [(back, Create(at, [part(back)], oldest.removed))]
        opened = self._writer.opened({at: lambda: self._opening(at, texts)}, job, held)[at]
        if isinstance(opened, Refusal):
            raise opened
        now = opened.source
        if oldest is not None and oldest.kind == "create":
            back = self._removed(oldest, texts[0].after, at, now)
            return [(back, Remove(at, [part(back)], opened))]
        backs: list[Undone] = []
        text = now if len(texts) < 2 else now.whole()
        for one in texts:
            backs.append(back := self._back(one, at, text))
            if isinstance(back.after, Snapshot):
                text = back.after
        left = {
            back.entry.edit_id: part(back)
            for back in backs
            if not back.base.unchanged_by(back.change)
        }
        whole = Replace(at, [*left.values()], opened) if left else None
        found: list[_Back] = [
            (back, whole if back.entry.edit_id in left else None) for back in backs
        ]
        for one in edits:
            if (change := one.mode_changed) is not None:
                back = self._mode_back(one, change, at, now)
                found.append((back, Chmod(at, part(back), opened, change.before)))
        for one in edits:
            if one.moved is not None:
                back, to = self._moved_back(one, at, now), one.moved.other
                check_free(self._services.files, to, to, at, opened.stamp)
                source = next(
                    each.edit_id
                    for each in self._services.records.of_group(one.group)
                    if each.path == to and each.is_source
                )
                found.append((back, Move(at, part(back, source), opened, to)))
        return found

    def _opening(self, at: RelPath, texts: Sequence[Entry]) -> AbstractContextManager[OpenText]:
        """Open the file as far as its edits need."""
        files, named = self._services.files, self._services.encoding_of
        if not texts:
            return files.unread(at)
        return files.any_content(at, named) if texts[-1].kind == "create" else files.text(at, named)

    def _noted(self, member: Member, back: Undone, written: Entry | None) -> Undone:
        """Return the undone edit, and record its lines as shown to the member."""
        entry, at, after = back.entry, back.path, back.after
        digest = written.after if written is not None else ""
        if isinstance(after, Excerpt) and digest:
            after = after.known_as(digest)
        if entry.moved is not None:
            self._drafting.note_moved(member.name, at, MoveFile(at, entry.moved.other), back.base)
        elif entry.kind == "edit" and not entry.mode_changed:
            change = line_change(back.base, back.change, own=False)
            digest = digest or after.digest
            note = note_of_change(member.name, at, back.base, after, digest, change)
            self._drafting.remember(after, at, [note])
        return replace(back, after=after, edit_id=written.edit_id if written is not None else 0)

    def check_stands(self, member: Member, entry: Entry, at: RelPath) -> None:
        """Raise unless the edit is in effect; `at` is its file, whose lock is held."""
        now = self._services.records.get(entry.edit_id)
        state: State = "failed" if now is None else now.state
        if state == "open":
            raise Failed("recover an unfinished write", f"the state of {entry.path} is not known")
        if now is None or state == "failed" or now.forgotten:
            reason = "failed" if now is None or state == "failed" else "forgotten"
            raise EditNotFound(entry.edit_id, reason, self._history.newest(member))
        if located(self._services.records, entry).path != at:
            raise ContentChanged("the file was moved at this moment")
        if by := taken_back_by(self._services.records, entry.edit_id):
            raise ContentChanged(f"it was undone by edit {by}", undone_by=by)

    def _back(self, entry: Entry, at: RelPath, now: Source) -> Undone:
        """The inverse on the current text; raises _Declined where that is another one."""
        inverse = entry.inverse
        if now.digest == entry.after:
            text = now.holding([(e.start, e.stop) for e in inverse.edits])
            diff = unified(text, inverse, str(at))
            return Undone(entry, text, inverse, text.edited(inverse), diff, "exact", 0, at=at)
        writes = between(self._services.records, entry, now.digest) or ()
        is_known = writes and not any(write.forgotten for write in writes)
        known = tuple(write.inverse for write in writes) if is_known else None
        drift: Drift | None = None
        try:
            text, after = self._texts(entry, now, known)
            drift = drift_of(
                inverse, after, text, known, taken_back_in(self._services.records, writes)
            )
            change = self._carried(entry, inverse, drift, writes)
        except (ContentChanged, AmbiguousMatch) as refusal:
            start, stop = lines_of(inverse, drift.base) if drift else (0, 0)
            first = min(start, now.line_count)
            last = min(max(first, stop), first + _SHOWN, now.line_count)
            shown = now.around(first, last)
            raise _Declined(NotUndone(entry, refusal, shown, (first, last))) from None
        diff = unified(text, change, str(at))
        context: ContextMatch = "exact" if diff == unified(after, inverse, str(at)) else "fuzz"
        return Undone(entry, text, change, text.edited(change), diff, context, 0, at=at)

    def _carried(
        self, entry: Entry, inverse: ChangeSet, drift: Drift, writes: tuple[Entry, ...]
    ) -> ChangeSet:
        """Carry the inverse through later writes; the refusal names the one that prevents it.

        An undo of an older edit may change the lines next to those of this one: what it put there
        was there before this edit, or would have been. It is followed by bytes; where both touch,
        they have to be whole lines, or words would come without theirs.
        """
        try:
            return carried(inverse, drift)
        except ContentChanged as refusal:
            at, known, journal = drift.met, drift.known, self._services.records
            if at is None or known is None:
                raise
            refusal.later_edit_ids = (writes[at].edit_id,)
            undone = _first_of(journal, writes[at])
            if (undone.undoes or undone.edit_id) >= entry.edit_id:
                raise
            after = reduce(lambda text, one: text.edited(one), reversed(known[at + 1 :]), drift.now)
            before, later = after.edited(known[at]), writes[at + 1 :]
            earlier = Drift(drift.base, before, known[:at], taken_back_in(journal, writes[:at]))
            change: ChangeSet | Collision | None = None
            with suppress(ContentChanged, AmbiguousMatch, ValueError):  # what is not loaded
                back = self._carried(entry, inverse, earlier, writes[:at])
                forward = known[at].inverse(after.slice)
                if _are_apart(back, forward, before):
                    change = back.rebase(forward)
            if not isinstance(change, ChangeSet):
                raise
            left = Drift(after, drift.now, known[at + 1 :], taken_back_in(journal, later))
        return self._carried(entry, change, left, later)

    def _texts(
        self, entry: Entry, now: Source, known: Sequence[ChangeSet] | None
    ) -> tuple[Text, Text]:
        """The current text and the one after the edit, with the relevant lines loaded."""
        named = self._services.encoding_of(entry.path)
        if known is None:
            after = self._history.text_after(entry, named) if now.size <= sizes.COMPARED else None
            if after is None:
                raise ContentChanged("the file changed, and the text after the edit is not kept")
            return now.whole(), after
        is_large = now.size > sizes.LARGE
        text = now.holding([*needed(entry.inverse, known)]) if is_large else now.whole()
        if isinstance(text, Snapshot):
            return text, _before(text, known, named)
        return text, reduce(lambda each, inverse: each.edited(inverse), reversed(known), text)

    def _created_again(self, entry: Entry, at: RelPath) -> Undone:
        after = _as_text(entry.inverse.apply(b""), self._services.encoding_of(entry.path))
        nothing = Snapshot(b"", replace(after.encoding, bom=b""))
        diff = unified(nothing, entry.inverse, str(entry.path), created=True)
        if entry.removed is not None and entry.removed.mode & 0o111:
            diff = as_executable(diff)
        return Undone(entry, nothing, entry.inverse, after, diff, "exact", 0, at=at)

    def _removed(self, entry: Entry, last: str, at: RelPath, now: Source) -> Undone:
        """Remove a file that was created, and then edited to the digest `last` at once."""
        if now.digest != last or self._services.files.resolve(at) != at:
            writes = between(self._services.records, replace(entry, after=last), now.digest)
            later = None if writes is None else tuple(write.edit_id for write in writes)
            raise ContentChanged("the file was changed since it was created", later_edit_ids=later)
        base = now.whole()
        change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
        _, stamp = self._services.files.stat(at)
        diff = deleted(base, change, str(at), stamp.mode)
        return Undone(entry, base, change, Snapshot(b"", base.encoding), diff, "exact", 0, at=at)

    def _moved_back(self, entry: Entry, at: RelPath, now: Source) -> Undone:
        """Move the file back to its old path, with whatever copydesk wrote to it since."""
        assert entry.moved is not None, "only a move is taken back so"
        since = located(self._services.records, entry)
        if since.path != entry.path:
            later = tuple(one.edit_id for one in since.moves)
            raise ContentChanged("the file was moved on since", later_edit_ids=later)
        is_known = now.digest == entry.after or between(
            self._services.records, entry, now.digest, since
        )
        if not is_known or self._services.files.resolve(entry.path) != entry.path:
            raise ContentChanged("another program changed the file since it was moved")
        return _unchanged(entry, at, now, renamed(str(entry.path), str(entry.moved.other)))

    def _mode_back(self, entry: Entry, change: ModeChanged, at: RelPath, now: Source) -> Undone:
        """Restore the mode that the file had, if it still has the one that it got."""
        _, stamp = self._services.files.stat(at)
        if stamp.mode & 0o7777 != change.after:
            raise ContentChanged("the mode of the file was changed since")
        return _unchanged(entry, at, now, mode_changed(str(at), change.after, change.before))


def _unchanged(entry: Entry, at: RelPath, now: Source, diff: bytes) -> Undone:
    """The undo of an edit that did not change the text."""
    base = now.around(0, 0)
    return Undone(entry, base, ChangeSet.of(base.size, []), base, diff, "exact", 0, at=at)


def _are_apart(one: ChangeSet, other: ChangeSet, text: Text) -> bool:
    """Whether two changes of a text touch nowhere, or only where both are of whole lines."""
    newline = text.encoding.encode("\n")
    beside = {
        edit
        for pair in product(one.edits, other.edits)
        for edit in pair
        if pair[0].start <= pair[1].stop and pair[1].start <= pair[0].stop
    }
    return all(
        not part or part.endswith(newline)
        for edit in beside
        for part in (
            text.slice(max(edit.start - len(newline), 0), edit.start),
            text.slice(edit.start, edit.stop),
            edit.new,
        )
    )


def _before(text: Snapshot, inverses: Sequence[ChangeSet], named: str | None) -> Snapshot:
    """The text before writes with these inverses, oldest first."""
    data = reduce(lambda each, inverse: inverse.apply(each), reversed(inverses), text.data)
    return Snapshot.of(data, named)


def _as_text(data: bytes, named: str | None) -> Snapshot:
    try:
        return Snapshot.of(data, named)
    except BinaryFile:
        return Snapshot(data, BYTES)


_MOST_KEPT = 10_000
"""Stored texts are kept for the last edits of other files, this many."""


@dataclass(frozen=True, slots=True)
class Forgettable:
    """What may be forgotten: the texts of `edits` (newest first) and plans, and those stored of
    `paths`; and what people `said` when they decided.

    `open` edits are being written, or in doubt, and need their texts. `lost` are the ids of older
    edits that stay, but cannot be undone without the texts.
    """

    edits: tuple[Entry, ...]
    open: tuple[Entry, ...]
    lost: tuple[int, ...]
    plans: tuple[Plan, ...]
    paths: frozenset[RelPath]
    said: Callable[[Decision], bool]


class Forgetting:
    """Forgets texts of one workspace; `lock` is the lock of a plan's file."""

    def __init__(
        self,
        services: Services,
        drafting: Drafting,
        lock: Callable[[Plan], AbstractContextManager[None]],
    ) -> None:
        self._services, self._drafting, self._lock = services, drafting, lock

    def of_path(self, path: RelPath) -> Forgettable:
        """All of a file, or of a folder, under each name that it has had; raises Failed."""
        left, paths = [self._drafting.real(path)], {path}
        found: dict[int, Entry] = {}
        while left:
            at = left.pop()
            paths.add(at)
            for entry in entries(self._services.records, at):
                found[entry.edit_id] = entry
                if entry.moved is not None and not _covers(paths, entry.moved.other):
                    left.append(entry.moved.other)

        def said(decision: Decision) -> bool:
            return _covers(paths, RelPath(tuple(decision.path.split("/"))))

        plans = [one for one in self._plans() if self._is_at(one, paths)]
        return self._of(found.values(), plans, paths, said)

    def of_edit(self, edit: Entry) -> Forgettable:
        """One edit; of a move, both ends."""
        group = self._services.records.of_group(edit.group)
        ends = [one for one in group if edit.moved and one.moved] or [edit]
        plans = [one for one in self._plans() if one.id == edit.hunk_id]
        paths = {one.path for one in ends}
        return self._of(ends, plans, paths, lambda decision: decision.plan[0] == edit.hunk_id)

    def of_member(self, member: str) -> Forgettable:
        """All that a member wrote and plans."""
        found = [*entries(self._services.records, by=member)]
        plans = [one for one in self._plans() if one.owner == member]
        paths = {one.path for one in found} | {one for each in plans for one in each.request.paths}
        return self._of(found, plans, paths, lambda decision: decision.owner == member)

    def forget(self, what: Forgettable) -> None:
        """Remove all that; raises Failed, Busy, and may be repeated then."""
        for plan in what.plans:
            with self._lock(plan), suppress(HunkNotFound):  # it was written meanwhile
                self._services.records.plan(plan.id, 0)
                self._services.records.end(plan.id, "discarded", self._services.clock())
        self._services.bases.forget(self._kept(what))
        self._services.records.forget_reasons(what.said)
        self._services.records.forget_texts([entry.without_texts() for entry in what.edits])

    def _of(
        self,
        found: Iterable[Entry],
        plans: Sequence[Plan],
        paths: set[RelPath],
        said: Callable[[Decision], bool],
    ) -> Forgettable:
        edits = sorted(found, key=lambda entry: -entry.edit_id)
        closed = tuple(one for one in edits if one.state != "open" and not one.forgotten)
        ids = {one.edit_id for one in edits}
        last = {one.path: one.edit_id for one in reversed(closed)}
        lost = {
            entry.edit_id
            for path, newest in last.items()
            for entry in entries(self._services.records, path, before=newest)
            if entry.path == path and entry.state == "done" and not entry.forgotten
        }
        being_written = tuple(one for one in edits if one.state == "open")
        kept = tuple(sorted(lost - ids))
        return Forgettable(closed, being_written, kept, tuple(plans), frozenset(paths), said)

    def _plans(self) -> tuple[Plan, ...]:
        """All plans that have not ended, also those that have expired."""
        self._services.locks.settle()
        return self._services.records.waiting(0)

    def _is_at(self, plan: Plan, paths: set[RelPath]) -> bool:
        return any(
            _covers(paths, one) or _covers(paths, self._drafting.real(one))
            for one in plan.request.paths
        )

    def _kept(self, what: Forgettable) -> set[str]:
        """The digests of texts that other edits and plans need."""
        paths = set(what.paths)
        kept = {
            digest
            for one in islice(entries(self._services.records), _MOST_KEPT)
            if not _covers(paths, one.path)
            for digest in (one.before, one.after)
        }
        plans = self._services.records.waiting(self._services.clock())
        kept |= {one.base_digest or "" for one in plans if not self._is_at(one, paths)}
        return kept - {digest for one in what.edits for digest in (one.before, one.after)} - {""}


def _covers(paths: set[RelPath], path: RelPath) -> bool:
    """Whether the path, or a folder above it, is among these."""
    return any(RelPath(path.parts[:end]) in paths for end in range(len(path.parts) + 1))
