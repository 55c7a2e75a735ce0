"""The steps of a transaction, a class each: what one file goes through, and how it is taken back.

A step is recorded in the journal (`make_entries`), staged (a large text before it is recorded,
since its digest is computed on the way), committed, and taken back if a later one fails. Recovery
has only the entries: it asks what became of the file (`look`), and restores it (`put_back`). Call
both under the file's lock.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest
from typing import ClassVar, Literal

from copydesk.desk.backends.api import Entry, Kind, Records, Version
from copydesk.desk.member import Member
from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Approval
from copydesk.errors import Failed, FileNotFound, LockLost, Refusal
from copydesk.store.files import Files, StagedWrite
from copydesk.store.locks import Ticket
from copydesk.store.protocol import (
    Caller,
    FileChange,
    Kept,
    MadeDirectories,
    ModeChanged,
    Moved,
    OfTask,
    OpenText,
    Piece,
    Removed,
    Stamp,
    TargetMoved,
)
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write: member, tool, path, and its place in the queue.

    `undoes` is the edit that it undoes, 0 for none; for a move, its entry at the new path, and
    `undoes_source` the one at the old path. `edited_by` is who changed the plan's text. A plan that
    `is_stored` ends with the write.
    """

    member: Member
    tool: str
    path: RelPath
    ticket: Ticket
    hunk_id: str = ""
    undoes: int = 0
    undoes_source: int = 0
    edited_by: str = ""
    is_stored: bool = True

    @property
    def caller(self) -> Caller:
        """Who holds the file's lock, as others are told."""
        return self.member.name, self.tool

    @property
    def plan(self) -> Version | None:
        """The version of the plan that is written; None for a tool that writes at once."""
        return (self.hunk_id, self.ticket[0]) if self.hunk_id else None


@dataclass(frozen=True, slots=True)
class Part:
    """One edit of a step, on the result of the one before.

    `approval` is what people did to its plan; `decided_ms` when the decision that the gates saw was
    taken, 0 for none: if there is another one when the intent is recorded, they are asked again.
    """

    job: WriteRequest
    made: Revision
    approval: Approval | None = None
    decided_ms: int = 0


How = Literal["written", "not written", "torn", "unknown"]
"""What became of a file: it is as after the writes, or as before them; a write in place was
interrupted; another program wrote to it, so that nobody can tell."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of the entries' file; `before` is its content without our writes."""

    entries: tuple[Entry, ...]
    how: How
    stamp: Stamp | None = None
    digest: str = ""
    before: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """What the steps of one transaction share, until its end.

    `is_several`: there is more than one step, so that each may be taken back. `stamps` and
    `digests` are the states and contents that earlier steps left of their files.
    """

    files: Files
    journal: Records
    held: ExitStack
    now_ms: int
    group: str
    is_several: bool
    stamps: dict[RelPath, Stamp] = field(default_factory=dict[RelPath, Stamp])
    digests: dict[RelPath, str] = field(default_factory=dict[RelPath, str])


class Step(ABC):
    """The change of the file at `real`; `opened` is the file as it was read, None for a new one.

    `path` is as the caller named it, which has to lead to the same file until the end (several
    edits may have named it in several ways); `to` is where the file is moved.
    Steps are done by their `order`: writes in place are the only ones that can still run out of
    space, so they come when nothing has to be restored yet; modes and moves follow the texts.
    `keeps_text`: only the name or the mode changes. `tells_doubt`: its own errors say so.
    `is_digested`: the digest after is computed while staging, before there is an entry.
    """

    order: ClassVar[int] = 1
    operation: ClassVar[str] = "write"
    keeps_text: ClassVar[bool] = False
    tells_doubt: ClassVar[bool] = False

    def __init__(self, real: RelPath, parts: Sequence[Part], opened: OpenText | None) -> None:
        self.real, self.parts, self.opened = real, parts, opened
        self.path = parts[0].job.path if len(parts) == 1 else real
        self.to: RelPath | None = None
        self.entries: tuple[Entry, ...] = ()
        self.staged: StagedWrite | None = None
        self.is_committed = self.is_digested = False

    @property
    def stamp(self) -> Stamp:
        """The state of the file as it was read."""
        assert self.opened is not None, "it is not a new one"
        return self.opened.stamp

    @abstractmethod
    def stage(self, at: Bench) -> None:
        """Prepare the change, until the end of the transaction."""

    @abstractmethod
    def make_entries(self, at: Bench) -> Iterable[Entry]:
        """The journal entries, in the order of the parts."""

    def commit(self, at: Bench) -> None:
        """Make the change. Raises TargetMoved, Refusal, NotPutBack."""
        assert self.staged is not None, "it is staged first"
        self.staged.commit()
        self.is_committed = True
        if at.is_several:
            at.stamps[self.real] = self.staged.stamp()

    def take_back(self) -> None:
        """Undo the commit; raises Refusal, TargetMoved, NotPutBack."""
        assert self.staged is not None, "it was committed"
        self.staged.put_back(self.entries[-1].after)

    def after_error(self, at: Bench, error: BaseException) -> How:
        """What the file is like after an error of `commit`."""
        if self.staged is None or isinstance(error, TargetMoved | LockLost):
            return "not written"
        if isinstance(error, Refusal) and not isinstance(error, Failed):
            return "not written"
        with suppress(Refusal, TargetMoved):
            return self.look(at.files, at.journal, self.entries, self.real).how
        return "unknown"

    @classmethod
    def look(cls, files: Files, journal: Records, entries: tuple[Entry, ...], at: RelPath) -> Found:
        """Tell what became of the file that the entries wrote, oldest first; it is at `at` now.

        `unknown` if the file was moved since. Raises TargetMoved if it changes meanwhile, Failed
        for what may pass.
        """
        first, last = entries[0], entries[-1]
        try:
            real, stamp, digest = digest_at(files, at)
        except Refusal as refusal:
            return _unknown(entries, refusal)
        if real != at:  # a link points to another file now
            return Found(entries, "unknown")
        if digest == last.after:
            back = tuple(kept_and_new(inverse_of(entries)))
            return Found(entries, "written", stamp, digest, back)
        if digest == first.before:
            return Found(entries, "not written", stamp, digest)
        return cls.look_closer(files, journal, Found(entries, "unknown", stamp, digest))

    @classmethod
    def look_closer(cls, files: Files, journal: Records, found: Found) -> Found:
        """Tell more of a file that is neither as before nor as after."""
        return found

    @classmethod
    @abstractmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Restore the content before, if known; TargetMoved, Refusal, NotPutBack leave it so."""

    def _entry(self, part: Part, at: Bench, kind: Kind) -> Entry:
        """An entry of a part; the last has the digest of the staged file, if there is one yet."""
        job, made = part.job, part.made
        inverse, diff = made.change.inverse(made.base.slice), made.diff  # before the digest is due
        is_last = self.staged is not None and part is self.parts[-1]
        after = self.staged.digest if self.staged is not None and is_last else ""
        return Entry(
            time_ms=at.now_ms,
            member=job.member.name,
            tool=job.tool,
            path=self.real,
            kind=kind,
            before="" if kind == "create" else made.base.digest,
            after=after or ("" if kind == "remove" else made.after.digest),
            inverse=inverse,
            diff=diff,
            hunk_id=job.hunk_id,
            undoes=job.undoes,
            group=at.group,
            why=job.member.why,
            file=(OfTask(job.member.task),) if job.member.task else (),
            approval=part.approval,
        )


class Edit(Step):
    """A file's content is replaced by exchanging it for a new file."""

    beside = sizes.BESIDE
    """The least size of a text whose digest is computed while it is staged, in bytes."""

    def __init__(self, real: RelPath, parts: Sequence[Part], opened: OpenText | None) -> None:
        super().__init__(real, parts, opened)
        base = parts[0].made.base
        if not isinstance(base, Snapshot):  # only some lines are loaded
            self.is_digested = True
        elif len(parts) == 1:
            self.is_digested = base.size >= self.beside

    def stage(self, at: Bench) -> None:
        staged = at.files.stage(
            self.path,
            self.stamp,
            self.parts[0].made.base.digest,
            self._pieces(),
            before_in_place=lambda old: at.journal.keep_whole(self.entries[0].edit_id, old),
            digested=self.is_digested,
            expected_real=self.real,
            digest="" if self.is_digested else self.parts[-1].made.after.digest,
            revocable=at.is_several,
        )
        self.staged = at.held.enter_context(staged)

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        made = [self._entry(part, at, "edit") for part in self.parts]
        at.digests[self.real] = made[-1].after
        return made

    def _pieces(self) -> Iterable[Piece]:
        """The new content; the store copies unchanged parts that are not loaded."""
        base = self.parts[0].made.base
        if isinstance(base, Snapshot) and base.size <= sizes.JOINED:
            return (self.parts[-1].made.after.whole().data,)
        change = reduce(ChangeSet.then, (part.made.change for part in self.parts))
        if isinstance(base, Snapshot):
            return change.pieces(memoryview(base.data))
        return kept_and_new(change)

    @classmethod
    def look_closer(cls, files: Files, journal: Records, found: Found) -> Found:
        """A write in place that was interrupted, within a minute of its entry, gets its bytes back.

        That of another program is told: who wrote what cannot be said.
        """
        first, stamp = found.entries[0], found.stamp
        if stamp is None or (old := journal.whole_of(first.edit_id)) is None:
            return found
        try:
            document = files.read(first.path)
        except Refusal as refusal:
            return _unknown(found.entries, refusal)
        if document.stamp != stamp:
            raise TargetMoved()
        age_ms = stamp.mtime_ns // 1_000_000 - first.time_ms
        is_ours = -CLOCKS_MS <= age_ms <= TORN_MS
        if is_ours and is_torn(document.data, old, inverse_of(found.entries)):
            return replace(found, how="torn", before=(old,))
        return found

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        if found.how in ("written", "torn") and found.stamp is not None:
            files.replace(
                found.entries[0].path,
                found.stamp,
                found.digest,
                found.before,
                before_in_place=lambda now: None,  # the journal has the content before our write
                expected_real=found.entries[0].path,
            )


class EditInPlace(Edit):
    """The content of a file with several names is written in place: each name leads to it."""

    order, beside = 0, sys.maxsize


class Create(Step):
    """A new file; `restores` are the attributes of the removed one that it restores."""

    operation = "create"

    def __init__(
        self, real: RelPath, parts: Sequence[Part], restores: Removed | None = None
    ) -> None:
        super().__init__(real, parts, None)
        self._restores = restores

    def stage(self, at: Bench) -> None:
        data = self.parts[-1].made.after.whole().data
        staged = at.files.stage_new(
            self.path, data, expected_real=self.real, removed=self._restores
        )
        self.staged = at.held.enter_context(staged)

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        first, *rest = self.parts
        entry = self._entry(first, at, "create")
        made = [replace(entry, file=(*entry.file, *_above(at.files, self.real)))]
        made += (self._entry(part, at, "edit") for part in rest)
        at.digests[self.real] = made[-1].after
        return made

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        path = found.entries[0].path
        if found.how == "written" and found.stamp is not None:
            files.remove(path, found.stamp, found.digest, expected_real=path)


class Remove(Step):
    """A file is deleted; until the end of the transaction it has a temporary name."""

    operation = "remove"

    def stage(self, at: Bench) -> None:
        digest = self.parts[0].made.base.digest
        staged = at.files.stage_removal(self.path, self.stamp, digest, expected_real=self.real)
        self.staged = at.held.enter_context(staged)

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        entry = self._entry(self.parts[0], at, "remove")
        return (replace(entry, after="", file=(*entry.file, at.files.attributes(self.real))),)

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        if found.how == "written":
            entry = found.entries[0]
            content = lambda: entry.inverse.apply(b"")  # noqa: E731
            files.restore(entry.path, entry.before, content, entry.removed)


class Chmod(Step):
    """The permission bits of a file are changed to `mode`."""

    order, keeps_text = 2, True

    def __init__(self, real: RelPath, part: Part, opened: OpenText, mode: int) -> None:
        super().__init__(real, (part,), opened)
        self._mode = mode

    def stage(self, at: Bench) -> None:
        known = self._mode, at.stamps.get(self.real, self.stamp), self.entries[-1].after
        staged = at.files.stage_chmod(self.real, *known, expected_real=self.real)
        self.staged = at.held.enter_context(staged)

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        entry = self._entry(self.parts[0], at, "edit")
        digest = at.digests.get(self.real, entry.after)
        change = ModeChanged(self.stamp.mode & 0o7777, self._mode)
        return (replace(entry, before=digest, after=digest, file=(*entry.file, change)),)

    @classmethod
    def look(cls, files: Files, journal: Records, entries: tuple[Entry, ...], at: RelPath) -> Found:
        (entry,) = entries
        change = entry.mode_changed
        assert change is not None, "it is of a change of mode"
        try:
            real, stamp, digest = digest_at(files, at)
        except Refusal as refusal:
            return _unknown(entries, refusal)
        mode = stamp.mode & 0o7777 if stamp is not None and real == at else None
        hows: dict[int | None, How] = {change.before: "not written", change.after: "written"}
        return Found(entries, hows.get(mode, "unknown"), stamp, digest)

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        change = found.entries[0].mode_changed
        if found.how == "written" and found.stamp is not None and change is not None:
            known = change.before, found.stamp, found.digest
            with files.stage_chmod(found.entries[0].path, *known) as staged:
                staged.commit()


class Move(Step):
    """A file gets the free name `to`; an entry at each of its two names."""

    order, keeps_text, operation = 3, True, "move"

    def __init__(self, real: RelPath, part: Part, opened: OpenText, to: RelPath) -> None:
        super().__init__(real, (part,), opened)
        self.to = self._to = to

    def stage(self, at: Bench) -> None:
        stamp, digest = at.stamps.get(self.real, self.stamp), self.entries[-1].after
        ends = self.real, self._to
        staged = at.files.stage_move(
            *ends, stamp, digest, expected_real=self.real, expected_to=self._to
        )
        self.staged = at.held.enter_context(staged)

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        entry = self._entry(self.parts[0], at, "edit")
        digest, inode = at.digests.get(self.real, entry.after), (self.stamp.dev, self.stamp.ino)
        nothing = ChangeSet.of(0, [])
        gone, come = Moved(self._to, True, inode), Moved(self.real, False, inode)
        source = replace(entry, kind="remove", before=digest, after="", inverse=nothing)
        target = replace(
            entry,
            path=self._to,
            kind="create",
            before="",
            after=digest,
            inverse=nothing,
            undoes=self.parts[0].job.undoes_source,
            file=(*entry.file, come, *_above(at.files, self._to)),
        )
        return (replace(source, file=(*entry.file, gone)), target)

    @classmethod
    def look(cls, files: Files, journal: Records, entries: tuple[Entry, ...], at: RelPath) -> Found:
        """Tell which end the file is at; `stamp` and `digest` are of the new end."""
        source, target = entries
        inode = source.moved.inode if source.moved else (0, 0)
        try:
            old_real, old, _ = digest_at(files, source.path)
            new_real, new, digest = digest_at(files, target.path)
        except Refusal as refusal:
            return _unknown(entries, refusal)
        if (old_real, new_real) != (source.path, target.path):
            return Found(entries, "unknown")
        stands_there = new is not None and (new.dev, new.ino) == inode
        if old is not None and (new is None or (old.dev, old.ino) == inode):
            linked = new if stands_there else None  # a move that links and unlinks was interrupted
            return Found(entries, "not written", linked, digest)
        if new is not None and (stands_there or (old is None and digest == target.after)):
            return Found(entries, "written", new, digest)
        return Found(entries, "unknown", new, digest)

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Move the file back to its old path, and remove the directories made for it."""
        source, target = found.entries
        if found.how == "written" and found.stamp is not None:
            known = target.path, source.path, found.stamp, found.digest
            with files.stage_move(
                *known, expected_real=target.path, expected_to=source.path
            ) as staged:
                staged.commit()
        elif found.how == "not written" and found.stamp is not None:
            files.remove(target.path, found.stamp, found.digest)
        if found.how != "unknown":
            files.remove_parents(target.path, target.made_directories)


class InStore(Step):
    """A write by a store of notes outside files, alone in its transaction.

    `write` gets the id of its entry, and records the inverse there. The store checks what it reads
    back; recovery cannot ask it, so an interrupted write is in doubt.
    """

    tells_doubt = True

    def __init__(self, entry: Entry, part: Part, write: Callable[[int], None]) -> None:
        super().__init__(entry.path, (part,), None)
        self._made, self._write = entry, write

    def stage(self, at: Bench) -> None:
        """Do nothing: the store has prepared it."""

    def make_entries(self, at: Bench) -> Iterable[Entry]:
        return (replace(self._made, approval=self.parts[0].approval),)

    def commit(self, at: Bench) -> None:
        self._write(self.entries[0].edit_id)

    def after_error(self, at: Bench, error: BaseException) -> How:
        is_known = isinstance(error, Refusal) and error.code != "NOT_ROLLED_BACK"
        return "not written" if is_known else "unknown"

    @classmethod
    def look(cls, files: Files, journal: Records, entries: tuple[Entry, ...], at: RelPath) -> Found:
        return Found(entries, "unknown")

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Do nothing: only the store can, and only from outside files."""


def edit(real: RelPath, parts: Sequence[Part], opened: OpenText) -> Edit:
    """The step that replaces the content of a file."""
    return (EditInPlace if opened.stamp.nlink > 1 else Edit)(real, parts, opened)


def step_of(entry: Entry) -> type[Step]:
    """The step that an entry was made of."""
    if entry.kind == "notes":
        return InStore
    if entry.moved is not None:
        return Move
    if entry.mode_changed is not None:
        return Chmod
    own: dict[str, type[Step]] = {"edit": Edit, "create": Create, "remove": Remove}
    return own[entry.kind]


def digest_at(files: Files, path: RelPath) -> tuple[RelPath, Stamp | None, str]:
    """The real path, the stamp and the digest of a file; None and empty if it is missing."""
    try:
        return files.digest(path)
    except FileNotFound:
        return path, None, ""


def kept_and_new(change: ChangeSet) -> Iterator[Piece]:
    """Yield the new content; the store copies the unchanged parts of the old one."""
    at = 0
    for edit_ in change.edits:
        yield Kept(at, edit_.start)
        yield edit_.new
        at = edit_.stop
    yield Kept(at, change.length)


def inverse_of(entries: Sequence[Entry]) -> ChangeSet:
    """The change from the text after all entries to the one before them."""
    return reduce(ChangeSet.then, (entry.inverse for entry in reversed(entries)))


def _above(files: Files, path: RelPath) -> tuple[FileChange, ...]:
    """The directories that a new file needs, for its entry."""
    count = files.missing_parents(path)
    return (MadeDirectories(count),) if count else ()


_PASSING = ("EIO", "ENOMEM", "EMFILE", "ENFILE", "EBUSY", "EINTR", "EAGAIN", "ESTALE", "ETIMEDOUT")
"""What the system says of faults that may be gone at the next look."""


def _unknown(entries: tuple[Entry, ...], refusal: Refusal) -> Found:
    """The state of a file that cannot be read; raises Failed if that may pass."""
    if isinstance(refusal, Failed) and refusal.reason.startswith(_PASSING):
        raise refusal
    return Found(entries, "unknown")


CLOCKS_MS = 2_000
"""The largest difference allowed between the clocks of the file system and of this process."""

TORN_MS = 60_000
"""The longest time after making its entries that a transaction may begin to write in place."""


def is_torn(data: bytes, old: bytes, inverse: ChangeSet) -> bool:
    """Whether an interrupted write of `old`, with this `inverse`, can have left `data`.

    Each byte is an old or a new one, and the size is between both.
    """
    if not min(len(old), inverse.length) <= len(data) <= max(len(old), inverse.length):
        return False
    at = was = 0
    for one in inverse.edits:
        if not _mixed(data, old, at, was, one.start - at):
            return False
        was += one.start - at + len(one.new)
        at = one.stop
    return _mixed(data, old, at, was, inverse.length - at) and (
        data[inverse.length :] == old[inverse.length : len(data)]
    )


def _mixed(data: bytes, old: bytes, at: int, was: int, count: int) -> bool:
    """Whether each byte at `at` is one from `was` or one that was there before."""
    found = data[at : at + count]
    moved, stood = old[was : was + len(found)], old[at : at + len(found)]
    return found in (moved, stood) or all(
        byte in pair for byte, *pair in zip_longest(found, moved, stood)
    )
