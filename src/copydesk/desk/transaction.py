"""The one way in which files are written: steps, recovery of what died, locks, and the writer.

Locks, then reading and composing, the gates, one flushed record of the intents, the steps in order,
the mark that they are done, and only then the locks go. Invariants: what was read is what is
replaced, byte for byte, or it is made again; nothing is written without passing the gates; the
journal has the entries before a file is touched; all steps are done, or every file keeps its old
bytes, unless Unsettled is raised. What a dead process left open at a file is settled before the
lock of that file is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from operator import attrgetter
from threading import local
from typing import ClassVar, Literal, TypeVar

from copydesk.desk.backends.api import Entry, Kind, PlanVersion, Records, State, Tied
from copydesk.desk.member import Member
from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Approval
from copydesk.errors import (
    Busy,
    Failed,
    FileExists,
    FileNotFound,
    LockLost,
    NotAFile,
    Refusal,
    Unsettled,
    check_cancelled,
)
from copydesk.store.files import Files, StagedWrite
from copydesk.store.protocol import (
    NOBODY,
    Caller,
    Deadline,
    FileChange,
    Kept,
    MadeDirectories,
    ModeChanged,
    Moved,
    NotPutBack,
    OfTask,
    OpenText,
    Piece,
    Removed,
    Stamp,
    TargetMoved,
)
from copydesk.store.threads import LockQueues, Ticket, inode_key
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

# Steps, a class each: what one file goes through, and how it is taken back.
#
# A step is recorded in the journal (`make_entries`), staged (a large text before it is recorded,
# since its digest is computed on the way), committed, and taken back if a later one fails. Recovery
# has only the entries: it asks what became of the file (`look`), and restores it (`put_back`). Call
# both under the file's lock.


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
    def plan(self) -> PlanVersion | None:
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


End = tuple[Stamp | None, str]
"""The stamp and the digest of what is at a path; None and empty if nothing is."""


class Transaction:
    """One transaction until its end: what its steps share, and how far it has got.

    `is_several`: there is more than one step, so that each may be taken back. `stamps` and
    `digests` are the states and contents that earlier steps left of their files. `left` are the
    steps that could not be taken back after an error.
    """

    def __init__(
        self, files: Files, journal: Records, steps: Sequence[Step], group: str, now_ms: int
    ) -> None:
        self.files, self.journal, self.steps = files, journal, steps
        self.group, self.now_ms, self.is_several = group, now_ms, len(steps) > 1
        self.held = ExitStack()
        self.stamps: dict[RelPath, Stamp] = {}
        self.digests: dict[RelPath, str] = {}
        self.now: Step | None = None
        self.is_committing = self.is_written = False
        self.left: list[Step] = []

    def take_back(self, error: BaseException) -> None:
        """Undo what was committed, last first, unless all is written."""
        if self.is_committing and self.now is not None:
            how = self.now.after_error(self, error)
            if how == "written" and self.now is self.steps[-1]:
                self.is_written = True  # the error came after the last name was exchanged
                return
            self.now.is_committed = how == "written"
            if how not in ("written", "not written"):
                self.left.append(self.now)
        for step in reversed(self.steps):
            if step.is_committed:
                try:
                    step.take_back()
                except (Refusal, TargetMoved, NotPutBack):
                    self.left.append(step)

    def translated(self, error: BaseException) -> BaseException:
        """The error for callers."""
        if isinstance(error, FileExists | FileNotFound | NotAFile):
            return TargetMoved()  # it was created or deleted meanwhile
        if isinstance(error, NotPutBack):
            error = Failed("write", str(error))
        if not isinstance(error, Refusal) or isinstance(error, Unsettled):
            return error
        return Stopped(error, self.now.real if self.now else None)


class Step(ABC):
    """The change of the file at `real`; `opened` is the file as it was read, None for a new one.

    `path` is as the caller named it, which has to lead to the same file until the end (several
    edits may have named it in several ways); `to` is where the file is moved.
    Steps are done by their `order`: writes in place are the only ones that can still run out of
    space, so they come when nothing has to be restored yet; modes and moves follow the texts.
    `keeps_text`: only the name or the mode changes. `tells_doubt`: the errors of its
    `commit` say themselves what is in doubt, so that no Unsettled is raised.
    `is_digested`: the digest after is computed while staging, before there is an entry.
    """

    order: int = 1
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
    def stage(self, transaction: Transaction) -> None:
        """Prepare the change, until the end of the transaction."""

    @abstractmethod
    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        """The journal entries, in the order of the parts."""

    def commit(self, transaction: Transaction) -> None:
        """Make the change. Raises TargetMoved, Refusal, NotPutBack."""
        assert self.staged is not None, "it is staged first"
        self.staged.commit()
        self.is_committed = True
        if transaction.is_several:
            transaction.stamps[self.real] = self.staged.stamp()

    def take_back(self) -> None:
        """Undo the commit; raises Refusal, TargetMoved, NotPutBack."""
        assert self.staged is not None, "it was committed"
        self.staged.put_back(self.entries[-1].after)

    def after_error(self, transaction: Transaction, error: BaseException) -> How:
        """What the file is like after an error of `commit`."""
        if self.staged is None or isinstance(error, TargetMoved | LockLost):
            return "not written"
        if isinstance(error, Refusal) and not isinstance(error, Failed):
            return "not written"  # checks refuse before the exchange; only the system may after it
        with suppress(Refusal, TargetMoved):
            paths = (self.real,) if self.to is None else (self.real, self.to)
            return self.look(transaction.files, transaction.journal, self.entries, *paths).how
        return "unknown"

    @classmethod
    def look(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *paths: RelPath
    ) -> Found:
        """Tell what became of the file that the entries wrote, oldest first.

        It is at the path now; of a move, `paths` are both ends. `unknown` if the file was moved
        since. Raises TargetMoved if it changes meanwhile, Failed for what may pass.
        """
        try:
            ends = [digest_at(files, path) for path in paths]
        except Refusal as refusal:
            return _unknown(entries, refusal)
        if tuple(real for real, *_ in ends) != paths:  # a link points to another file now
            return Found(entries, "unknown")
        return cls.judged(files, journal, entries, *((stamp, digest) for _, stamp, digest in ends))

    @classmethod
    def judged(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *ends: End
    ) -> Found:
        """Tell it by the stamp and the digest of what is at each path."""
        ((stamp, digest),) = ends
        if digest == entries[-1].after:
            back = tuple(kept_and_new(inverse_of(entries)))
            return Found(entries, "written", stamp, digest, back)
        how: How = "not written" if digest == entries[0].before else "unknown"
        return Found(entries, how, stamp, digest)

    @classmethod
    @abstractmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Restore the content before, if known; TargetMoved, Refusal, NotPutBack leave it so."""

    def _entry(self, part: Part, transaction: Transaction, kind: Kind) -> Entry:
        """An entry of a part; the last has the digest of the staged file, if there is one yet."""
        job, made = part.job, part.made
        # Made while a thread still hashes the new text, whose digest the entry waits for.
        inverse, diff = made.change.inverse(made.base.slice), made.diff
        after = self.staged.digest if self.staged is not None and part is self.parts[-1] else ""
        return Entry(
            time_ms=transaction.now_ms,
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
            group=transaction.group,
            why=job.member.why,
            file=(OfTask(job.member.task),) if job.member.task else (),
            approval=part.approval,
        )


class Replace(Step):
    """A file's content is replaced by exchanging it for a new file.

    That of a file with several names is written in place: each name leads to it.
    """

    def __init__(self, real: RelPath, parts: Sequence[Part], opened: OpenText) -> None:
        super().__init__(real, parts, opened)
        base, in_place = parts[0].made.base, opened.stamp.nlink > 1
        self.order = 0 if in_place else 1
        # A text of which only some lines are loaded, or one so large that its digest is computed
        # beside the staging.
        is_large = len(parts) == 1 and not in_place and base.size >= sizes.BESIDE
        self.is_digested = is_large or not isinstance(base, Snapshot)

    def stage(self, transaction: Transaction) -> None:
        base = self.parts[0].made.base
        self.staged = transaction.held.enter_context(
            transaction.files.stage(
                self.path,
                self.stamp,
                base.digest,
                self._pieces(),
                before_in_place=lambda old: transaction.journal.keep_whole(
                    self.entries[0].edit_id, old
                ),
                digested=self.is_digested,
                expected_real=self.real,
                digest="" if self.is_digested else self.parts[-1].made.after.digest,
                revocable=transaction.is_several,
                content=base.data if isinstance(base, Snapshot) else None,
            )
        )

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        made = [self._entry(part, transaction, "edit") for part in self.parts]
        transaction.digests[self.real] = made[-1].after
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
    def judged(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *ends: End
    ) -> Found:
        """A write in place that was interrupted, within a minute of its entry, gets its bytes back.

        That of another program is told: who wrote what cannot be said.
        """
        found = super().judged(files, journal, entries, *ends)
        first, stamp = entries[0], found.stamp
        if found.how != "unknown" or stamp is None:
            return found
        if (old := journal.whole_of(first.edit_id)) is None:
            return found
        try:
            document = files.read(first.path)
        except Refusal as refusal:
            return _unknown(entries, refusal)
        if document.stamp != stamp:
            raise TargetMoved()
        is_ours = -CLOCKS_MS <= stamp.mtime_ns // 1_000_000 - first.time_ms <= TORN_MS
        if is_ours and is_torn(document.data, old, inverse_of(entries)):
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


class Create(Step):
    """A new file; `restores` are the attributes of the removed one that it restores."""

    operation = "create"

    def __init__(
        self, real: RelPath, parts: Sequence[Part], restores: Removed | None = None
    ) -> None:
        super().__init__(real, parts, None)
        self._restores = restores

    def stage(self, transaction: Transaction) -> None:
        data = self.parts[-1].made.after.whole().data
        self.staged = transaction.held.enter_context(
            transaction.files.stage_new(
                self.path, data, expected_real=self.real, removed=self._restores
            )
        )

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        first, *rest = self.parts
        entry = self._entry(first, transaction, "create")
        made = [
            replace(entry, file=(*entry.file, *_above(transaction.files, self.real))),
            *(self._entry(part, transaction, "edit") for part in rest),
        ]
        transaction.digests[self.real] = made[-1].after
        return made

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        path = found.entries[0].path
        if found.how == "written" and found.stamp is not None:
            files.remove(path, found.stamp, found.digest, expected_real=path)


class Remove(Step):
    """A file is deleted; until the end of the transaction it has a temporary name."""

    operation = "remove"

    def stage(self, transaction: Transaction) -> None:
        digest = self.parts[0].made.base.digest
        self.staged = transaction.held.enter_context(
            transaction.files.stage_removal(self.path, self.stamp, digest, expected_real=self.real)
        )

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        entry = self._entry(self.parts[0], transaction, "remove")
        return (
            replace(entry, after="", file=(*entry.file, transaction.files.attributes(self.real))),
        )

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        if found.how == "written":
            entry = found.entries[0]
            files.restore(entry.path, entry.before, lambda: entry.inverse.apply(b""), entry.removed)


class Chmod(Step):
    """The permission bits of a file are changed to `mode`."""

    order, keeps_text = 2, True

    def __init__(self, real: RelPath, part: Part, opened: OpenText, mode: int) -> None:
        super().__init__(real, (part,), opened)
        self._mode = mode

    def stage(self, transaction: Transaction) -> None:
        self.staged = transaction.held.enter_context(
            transaction.files.stage_chmod(
                self.real,
                self._mode,
                transaction.stamps.get(self.real, self.stamp),
                self.entries[-1].after,
                expected_real=self.real,
            )
        )

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        entry = self._entry(self.parts[0], transaction, "edit")
        digest = transaction.digests.get(self.real, entry.after)
        change = ModeChanged(self.stamp.mode & 0o7777, self._mode)
        return (replace(entry, before=digest, after=digest, file=(*entry.file, change)),)

    @classmethod
    def judged(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *ends: End
    ) -> Found:
        ((stamp, digest),) = ends
        change = entries[0].mode_changed
        assert change is not None, "it is of a change of mode"
        mode = None if stamp is None else stamp.mode & 0o7777
        hows: dict[int | None, How] = {change.before: "not written", change.after: "written"}
        return Found(entries, hows.get(mode, "unknown"), stamp, digest)

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        change = found.entries[0].mode_changed
        if found.how == "written" and found.stamp is not None and change is not None:
            path = found.entries[0].path
            with files.stage_chmod(path, change.before, found.stamp, found.digest) as staged:
                staged.commit()


class Move(Step):
    """A file gets the free name `to`; an entry at each of its two names."""

    order, keeps_text, operation = 3, True, "move"

    def __init__(self, real: RelPath, part: Part, opened: OpenText, to: RelPath) -> None:
        super().__init__(real, (part,), opened)
        self.to = self._to = to

    def stage(self, transaction: Transaction) -> None:
        stamp, digest = transaction.stamps.get(self.real, self.stamp), self.entries[-1].after
        self.staged = transaction.held.enter_context(
            transaction.files.stage_move(
                self.real, self._to, stamp, digest, expected_real=self.real, expected_to=self._to
            )
        )

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        entry = self._entry(self.parts[0], transaction, "edit")
        digest, inode = (
            transaction.digests.get(self.real, entry.after),
            (self.stamp.dev, self.stamp.ino),
        )
        nothing = ChangeSet.of(0, [])
        gone, come = Moved(self._to, True, inode), Moved(self.real, False, inode)
        source = replace(
            entry,
            kind="remove",
            before=digest,
            after="",
            inverse=nothing,
            file=(*entry.file, gone),
        )
        target = replace(
            entry,
            path=self._to,
            kind="create",
            before="",
            after=digest,
            inverse=nothing,
            undoes=self.parts[0].job.undoes_source,
            file=(*entry.file, come, *_above(transaction.files, self._to)),
        )
        return source, target

    @classmethod
    def judged(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *ends: End
    ) -> Found:
        """Tell which end the file is at; `stamp` and `digest` are of the new end."""
        source, target = entries
        (old, _), (new, digest) = ends
        inode = source.moved.inode if source.moved else (0, 0)
        stands_there = new is not None and (new.dev, new.ino) == inode
        if old is not None and (new is None or (old.dev, old.ino) == inode):
            # If it stands at both, a move that links and unlinks was interrupted.
            return Found(entries, "not written", new if stands_there else None, digest)
        is_new = new is not None and (stands_there or (old is None and digest == target.after))
        return Found(entries, "written" if is_new else "unknown", new, digest)

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Move the file back to its old path, and remove the directories made for it."""
        source, target = found.entries
        if found.how == "written" and found.stamp is not None:
            with files.stage_move(
                target.path,
                source.path,
                found.stamp,
                found.digest,
                expected_real=target.path,
                expected_to=source.path,
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

    def stage(self, transaction: Transaction) -> None:
        """Do nothing: the store has prepared it."""

    def make_entries(self, transaction: Transaction) -> Sequence[Entry]:
        return (replace(self._made, approval=self.parts[0].approval),)

    def commit(self, transaction: Transaction) -> None:
        self._write(self.entries[0].edit_id)

    def after_error(self, transaction: Transaction, error: BaseException) -> How:
        is_known = isinstance(error, Refusal) and error.code != "NOT_ROLLED_BACK"
        return "not written" if is_known else "unknown"

    @classmethod
    def look(
        cls, files: Files, journal: Records, entries: tuple[Entry, ...], *paths: RelPath
    ) -> Found:
        return Found(entries, "unknown")

    @classmethod
    def put_back(cls, files: Files, found: Found) -> None:
        """Do nothing: only the store can, and only from outside files."""


def step_of(entry: Entry) -> type[Step]:
    """The step that an entry was made of."""
    if entry.kind == "notes":
        return InStore
    if entry.moved is not None:
        return Move
    if entry.mode_changed is not None:
        return Chmod
    own: dict[str, type[Step]] = {"edit": Replace, "create": Create, "remove": Remove}
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
    for edit in change.edits:
        yield Kept(at, edit.start)
        yield edit.new
        at = edit.stop
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
"""Recovery takes a mixture for our own torn write if it was written this soon after the entry.

It is far more than staging takes; a later one is told as another program's.
"""


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


# Recovery finds writes whose process died, and tells what became of each file.
#
# A process marks its writes as done before it releases their locks, so an open entry whose locks
# are free is that of a dead one. Each file is as before the write, or as after it, or in doubt:
# another program wrote to it, which is told and not mended. If all are as after, the transaction is
# done; else the others are put back. Invariants: a transaction is judged under the locks of all its
# files; only what copydesk wrote is overwritten. Locks are taken in the order of their keys, inodes
# after paths.

Inode = tuple[int, int]
"""A file's identity, whatever its name: device and inode."""

LEFT_OVER_MS = 60_000
"""From this age on, a temporary file belongs to no running write."""

LIVING_SECONDS = 0.5
"""How long a start waits in all for locks of others; who still holds one then is alive."""

_RECOVERY_ATTEMPTS = 5
_SETTLED_AGAIN = 20  # times that a writer settles what was open at its files when it came
_MOVING = "another program changes the file again and again"


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry that was found open, and how it ended.

    `open`: it could not be settled; `reason` says why in a few words, and `refusal` is the error,
    if there was one. `unsure`: another program changed the file, so that nobody can tell whether it
    contains the edit.
    """

    entry: Entry
    state: State
    reason: str = ""
    refusal: Refusal | None = None

    @staticmethod
    def refused(entry: Entry, refusal: Refusal) -> Settled:
        """An entry that stays open because of a refusal."""
        return Settled(entry, "open", str(refusal.facts().get("reason", refusal.code)), refusal)


class Recovery:
    """Settles the open entries of one workspace.

    `doubted` is called with the entries of a transaction as they ended, if some are in doubt.
    """

    def __init__(
        self,
        files: Files,
        queues: LockQueues,
        journal: Records,
        doubted: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._files, self._queues, self._journal = files, queues, journal
        self._doubted = doubted

    def run(self) -> tuple[Settled, ...]:
        """Recover all open entries and return their outcomes; running writes stay open."""
        until = Deadline(LIVING_SECONDS)
        return tuple(settled for entry in self._of_each() for settled in self.settle(entry, until))

    def doubts(self) -> tuple[Entry, ...]:
        """The open entries that `run` would have to handle; changes nothing."""
        found: list[Entry] = []
        until = Deadline(LIVING_SECONDS)
        for entry in self._of_each():
            with suppress(Busy), self._locks(self.of(entry), until):
                found += (one for one in self.of(entry) if one.state == "open")
        return tuple(found)

    def sweep(self, now_ms: int, most: int = 1_000) -> tuple[int, tuple[RelPath, ...]]:
        """Remove killed processes' leftovers, recording unknown content; count, and those kept."""
        known: dict[RelPath, set[str]] = {}
        for entry in self._journal.entries(most=most):
            known.setdefault(entry.path, set()).update((entry.before, entry.after))
        removed, kept = 0, list[RelPath]()
        for folder in sorted({path.parent for path in known}, key=str):
            with suppress(Refusal):
                found = self._files.sweep(folder, 1_000_000 * (now_ms - LEFT_OVER_MS), known)
                removed += found[0]
                kept += found[1]
        return removed, tuple(kept)

    def settle(self, entry: Entry, until: Deadline | None = None) -> tuple[Settled, ...]:
        """Complete or roll back the entry's transaction; raises only errors of the journal."""
        entries = self.of(entry)
        try:
            with self._locks(entries, until):
                settled = self.settle_in_turn(self.of(entry))
                if any(one.state == "unsure" for one in settled):
                    self._doubted([replace(one.entry, state=one.state) for one in settled])
                return settled
        except Refusal as refusal:
            return tuple(Settled.refused(one, refusal) for one in entries)

    def settle_in_turn(
        self, entries: tuple[Entry, ...], inodes: Collection[Inode] = ()
    ) -> tuple[Settled, ...]:
        """Like `settle`, with all locks of a transaction and of `inodes` held; raises Refusal.

        For those that its writer, if it lived, has recorded meanwhile there is nothing to do.
        """
        left = tuple(entry for entry in entries if entry.state == "open")
        begun_back = any(entry.state in ("failed", "unsure") for entry in entries)
        reason = _MOVING
        # Each move or mode that is put back asks for one more: then the texts are looked at again.
        for _ in range(_RECOVERY_ATTEMPTS + len(left)):
            try:
                return self._settled(left, inodes, begun_back=begun_back)
            except TargetMoved:
                continue
            except NotPutBack as torn:
                reason = str(torn)
            except Refusal as refusal:
                return tuple(Settled.refused(entry, refusal) for entry in left)
            break
        return tuple(Settled(entry, "open", reason) for entry in left)

    def of(self, entry: Entry) -> tuple[Entry, ...]:
        """All entries of an entry's transaction, as they are now."""
        if entry.group:
            return self._journal.of_group(entry.group)
        now = self._journal.get(entry.edit_id)
        return () if now is None else (now,)

    def _of_each(self) -> Iterable[Entry]:
        """An open entry of each transaction that has some, oldest first."""
        return {entry.group or entry.edit_id: entry for entry in self._journal.in_doubt()}.values()

    def _settled(
        self, entries: tuple[Entry, ...], inodes: Collection[Inode], *, begun_back: bool
    ) -> tuple[Settled, ...]:
        """Close all entries; if it raises TargetMoved, Refusal, NotPutBack, it can be run again."""
        chains = _by_path(entries)
        moves = [self._look(one, one[0].path, one[1].path) for one in chains if one[0].moved]
        now_at = {one.entries[0].path: one.entries[1].path for one in moves if one.how == "written"}
        texts = [one for one in chains if not one[0].moved]
        found = [self._look(one, now_at.get(one[0].path, one[0].path)) for one in texts] + moves
        if not begun_back and all(each.how == "written" for each in found):
            for each in found:
                self._sweep(each.entries, entries)
            self._close(entries, "done")
            return tuple(Settled(entry, "done") for entry in entries)
        for each in reversed(found):  # moves first: what is restored then is at its old name
            self._put_back(each, inodes)
            self._sweep(each.entries, entries)
            first = each.entries[0]
            self._files.remove_parents(first.path, first.made_directories)
            if each.how == "written" and (each in moves or first.mode_changed):
                raise TargetMoved()  # its earlier writes have to be examined again
        unsure = [entry for each in found if each.how == "unknown" for entry in each.entries]
        self._close(unsure, "unsure")
        self._close([entry for entry in entries if entry not in unsure], "failed")
        return tuple(Settled(e, "unsure" if e in unsure else "failed") for e in entries)

    def _look(self, entries: tuple[Entry, ...], *paths: RelPath) -> Found:
        return step_of(entries[0]).look(self._files, self._journal, entries, *paths)

    def _put_back(self, found: Found, inodes: Collection[Inode]) -> None:
        """Restore a file, with the lock of its inode if it has several names."""
        first, stamp = found.entries[0], found.stamp
        queue: AbstractContextManager[None] = nullcontext()
        if stamp is not None and stamp.nlink > 1 and (stamp.dev, stamp.ino) not in inodes:
            queue = self._queues.lock(
                inode_key(stamp.dev, stamp.ino), (first.time_ms, first.hunk_id)
            )
        with queue:
            step_of(first).put_back(self._files, found)

    def _close(self, entries: Sequence[Entry], state: State) -> None:
        if entries:
            self._journal.close_all([entry.edit_id for entry in entries], state)

    def _sweep(self, entries: Sequence[Entry], every: Sequence[Entry]) -> None:
        """Remove a write's leftovers, which any entry of it has; data of other programs is kept."""
        if entries[0].moved is not None:  # what is there was left by an earlier write
            return
        known = {digest for entry in every for digest in (entry.before, entry.after)}
        with suppress(Refusal):
            self._files.sweep_for(entries[0].path, known)

    @contextmanager
    def _locks(self, entries: Iterable[Entry], until: Deadline | None = None) -> Generator[None]:
        """Hold the locks of the entries' files, taken in the order of their keys."""
        tickets = {str(entry.path): (entry.time_ms, entry.hunk_id) for entry in entries}
        with ExitStack() as held:
            for key in sorted(tickets):
                caller = ("copydesk", "recover")
                held.enter_context(self._queues.lock(key, tickets[key], caller, until))
            yield


def _by_path(entries: Iterable[Entry]) -> list[tuple[Entry, ...]]:
    """Group the entries by file, in order; moves and changes of mode on their own."""
    chains: dict[tuple[str, RelPath], list[Entry]] = {}
    for entry in entries:
        moved = entry.moved
        target = entry.path if moved is None or not moved.is_source else moved.other
        kind = "move" if moved else "mode" if entry.mode_changed else ""
        chains.setdefault((kind, target), []).append(entry)
    return [tuple(chain) for chain in chains.values()]


# The locks of a transaction, and who runs it.

ATTEMPTS = 10
"""How often a write is attempted if another program writes meanwhile."""

T = TypeVar("T")


class Stopped(Exception):
    """The system refused, at the file `real` if that is known; nothing was written."""

    def __init__(self, refusal: Refusal, real: RelPath | None) -> None:
        super().__init__(str(refusal))
        self.refusal, self.real = refusal, real


Opener = Callable[[], AbstractContextManager[OpenText]]


def attempted(attempt: Callable[[], T], over: Callable[[], Refusal] | None = None) -> T:
    """The result of an attempt that another program did not disturb; after some, raises `over`."""
    for _ in range(ATTEMPTS):
        with suppress(TargetMoved):
            return attempt()
    raise over() if over else again_and_again("write", "file is")


def again_and_again(operation: str, what: str) -> Failed:
    """The refusal of what another program disturbs in each attempt; `what` as in `file is`."""
    return Failed(operation, f"the {what} changed by another program again and again")


class _OfThread(local):
    """What a thread carries from a failed attempt to the next: open entries that it must recover.

    That a file with several names has some is found only while the locks of paths are held, but to
    settle them takes locks from the start; so `of_inode` leaves them here, and raises TargetMoved.
    `until`: the locks of inodes are waited for no longer than those of the paths.
    """

    due: tuple[Entry, ...] = ()
    until: Deadline | None = None


class Locks:
    """File locks that first recover any transaction a dead process left open."""

    def __init__(
        self, files: Files, queues: LockQueues, journal: Records, recovery: Recovery
    ) -> None:
        self._files, self._queues, self._journal = files, queues, journal
        self._recovery = recovery
        self._of_thread = _OfThread()

    def settle(self, *paths: RelPath) -> None:
        """Recover what a dead process left open at real paths, or anywhere without any.

        A writer that lives is not waited for. Faults of the journal are ignored: who only reads
        needs none.
        """
        with suppress(Refusal):
            ids = (
                self._journal.open_at(paths)
                if paths
                else [entry.edit_id for entry in self._journal.in_doubt()]
            )
            for entry in map(self._journal.get, ids):
                if entry is not None and entry.state == "open":
                    self._recovery.settle(entry, Deadline(0.0))

    @contextmanager
    def of_all(self, tickets: Mapping[RelPath, Ticket], caller: Caller = NOBODY) -> Generator[None]:
        """Hold the locks of several files; first recovers transactions that are open there.

        The writer of such a one held all its locks, so it is gone. Locks are taken in the order of
        their keys, those of inodes after those of paths. Raises Failed if one cannot be recovered,
        or Busy.
        """
        keys = {str(real): ticket for real, ticket in tickets.items()}
        until = self._of_thread.until = Deadline(self._queues.seconds)
        due, self._of_thread.due = self._of_thread.due, ()
        # Locks go before what is open is settled: recovery takes those of all files of that
        # transaction, in order. `_settle` raises for what stays open; but a server that has lost a
        # part of what it knew may still say that something is.
        for _ in range(_SETTLED_AGAIN):
            for entry in due:
                self._settle(entry)
            with ExitStack() as held:
                for key in sorted(keys):
                    held.enter_context(self._queues.lock(key, keys[key], caller, until))
                if not (left := self._journal.open_at(tickets)):
                    yield
                    return
            due = tuple(filter(None, map(self._journal.get, left)))
        raise Failed("recover an unfinished write", f"{next(iter(tickets))}: it stays open")

    @contextmanager
    def of_inode(self, inode: Inode, ticket: Ticket, caller: Caller = NOBODY) -> Generator[None]:
        """Hold the lock of a file with several names, by device and inode, besides its path locks.

        Raises TargetMoved if an entry is open there under another name; the thread's next
        `of_all` settles it first.
        """
        with self._queues.lock(inode_key(*inode), ticket, caller, self._of_thread.until):
            left = tuple(one for one in self._journal.in_doubt() if self._is_at(one.path, inode))
            if left:
                self._of_thread.due = left
                raise TargetMoved()
            yield

    def _is_at(self, path: RelPath, inode: Inode) -> bool:
        """Whether the path is one of the file's names."""
        try:
            _, stamp = self._files.stat(path)
        except Refusal:
            return False
        return (stamp.dev, stamp.ino) == inode

    def _settle(self, entry: Entry) -> None:
        for settled in self._recovery.settle(entry):
            if isinstance(settled.refusal, Busy):
                raise Busy(str(entry.path), settled.refusal.waited_seconds)
            if settled.state == "open":
                raise Failed("recover an unfinished write", f"{entry.path}: {settled.reason}")


class Writer:
    """Writes files through the journal; `ended` is called when plans have ended with a write."""

    def __init__(
        self,
        files: Files,
        locks: Locks,
        journal: Records,
        recovery: Recovery,
        clock: Callable[[], int],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._files, self._locks, self._journal = files, locks, journal
        self._recovery, self._clock, self._ended = recovery, clock, ended

    def opened(
        self, wanted: Mapping[RelPath, Opener], job: WriteRequest, held: ExitStack
    ) -> dict[RelPath, OpenText | Refusal]:
        """Open locked files by their real paths, or say why not.

        For files with several names the locks of their inodes are taken too, all in one order, and
        they are opened once more. Raises TargetMoved if another file is there now.
        """
        found: dict[RelPath, OpenText | Refusal] = {}
        several: dict[RelPath, Inode] = {}  # the files with several names
        for real, how in wanted.items():
            one = found[real] = _opened(real, how, held)
            if not isinstance(one, Refusal) and one.stamp.nlink > 1:
                several[real] = one.stamp.dev, one.stamp.ino
        for inode in sorted(set(several.values())) if several else ():
            held.enter_context(self._locks.of_inode(inode, job.ticket, job.caller))
        for real, inode in several.items():
            again = found[real] = _opened(real, wanted[real], held)
            if isinstance(again, Refusal) or (again.stamp.dev, again.stamp.ino) != inode:
                raise TargetMoved
        return found

    def write(self, steps: Sequence[Step], group: str = "") -> tuple[Entry, ...]:
        """Do all steps or none, under all their locks; return the entries, by step and part.

        Several entries need a `group`. Raises TargetMoved if another program wrote meanwhile;
        Stopped if the system refused, with all files as before; Unsettled if it also refused to
        roll back, which is left to recovery.
        """
        order = sorted(steps, key=attrgetter("order")) if steps[1:] else steps
        transaction = Transaction(self._files, self._journal, order, group, self._clock())
        try:
            with transaction.held:  # temporary files are removed before the locks go
                try:
                    self._do(transaction)
                except BaseException as error:  # Ctrl-C between two files too: all or none
                    transaction.take_back(error)
                    raise
                transaction.is_written = True  # whatever fails from here on
        except BaseException as error:
            if not self._concluded(transaction, error):
                raise transaction.translated(error) from None
        else:
            self._close(order, "done")
        if steps[0].parts[0].job.hunk_id:  # all parts are of plans, or none
            self._ended()
        return tuple([entry for step in steps for entry in step.entries])

    def _do(self, transaction: Transaction) -> None:
        """Record the intents, in the order that recovery relies on, and do the steps."""
        for step in transaction.steps:
            if step.is_digested:
                transaction.now = step
                step.stage(transaction)
        transaction.now = None
        self._record(transaction)
        for step in transaction.steps:
            if not step.is_digested and not step.keeps_text:
                transaction.now = step
                step.stage(transaction)
        for step in transaction.steps:
            transaction.now = step
            if step.keeps_text:  # on what the steps before have made of the file
                step.stage(transaction)
            transaction.is_committing = True
            step.commit(transaction)
            transaction.is_committing = False

    def _record(self, transaction: Transaction) -> None:
        """Record all intents in one flushed transaction, and tie the plans to them."""
        made = [step.make_entries(transaction) for step in transaction.steps]
        plans: list[Tied] = [
            (part.job.hunk_id, part.job.ticket[0], part.decided_ms)
            for step in transaction.steps
            for part in step.parts
            if part.job.hunk_id and part.job.is_stored
        ]
        check_cancelled()
        ids = iter(self._journal.open_all([one for each in made for one in each], plans))
        for step, each in zip(transaction.steps, made, strict=True):
            step.entries = tuple([replace(one, edit_id=next(ids)) for one in each])

    def _concluded(self, transaction: Transaction, error: BaseException) -> bool:
        """Record how it ended after an error; return whether all was written after all.

        What could not be put back is left to recovery. Another process may have settled it, or a
        server lost it: then it is recorded again. Raises Unsettled.
        """
        if transaction.is_written:
            self._close(transaction.steps, "done")
            return isinstance(error, Refusal | TargetMoved | NotPutBack)
        self._close([step for step in transaction.steps if step not in transaction.left], "failed")
        if not transaction.left:
            return False
        stamps = [step.opened.stamp for step in transaction.steps if step.opened is not None]
        inodes = [(stamp.dev, stamp.ino) for stamp in stamps if stamp.nlink > 1]
        left, done = tuple(str(step.real) for step in transaction.left), False
        with suppress(Refusal):  # of the journal
            entries = [entry for step in transaction.steps for entry in step.entries]
            now = self._recovery.of(entries[0])
            if {one.edit_id for one in now}.issuperset(entry.edit_id for entry in entries):
                self._recovery.settle_in_turn(now, inodes)
                now = self._recovery.of(entries[0])  # also where another process settled it
                done = all(entry.state == "done" for entry in now)
                left = tuple(str(e.path) for e in now if e.state in ("open", "unsure"))
            else:
                self._record_again(transaction, {one.edit_id for one in now})
        is_refusal = isinstance(error, Refusal | TargetMoved | NotPutBack)
        if left and is_refusal and not transaction.steps[0].tells_doubt:
            reason = error.facts().get("reason") if isinstance(error, Refusal) else str(error)
            operation = (
                "write several files" if transaction.is_several else transaction.steps[0].operation
            )
            raise Unsettled(operation, str(reason), tuple(dict.fromkeys(left))) from None
        return done

    def _record_again(self, transaction: Transaction, known: Collection[int]) -> None:
        """Record again the entries that the journal lost; only those left need recovery."""
        lost = [
            (step, entry)
            for step in transaction.steps
            for entry in step.entries
            if entry.edit_id not in known
        ]
        ids = self._journal.open_again([replace(entry, edit_id=0) for _, entry in lost])
        over = [
            new for (step, _), new in zip(lost, ids, strict=True) if step not in transaction.left
        ]
        if over:
            self._journal.close_all(over, "failed")

    def _close(self, steps: Iterable[Step], state: State) -> None:
        """Record how steps ended; if that is refused, recovery finds it out."""
        ids = [entry.edit_id for step in steps for entry in step.entries]
        with suppress(Refusal):
            if ids:
                self._journal.close_all(ids, state)


def _opened(real: RelPath, how: Opener, held: ExitStack) -> OpenText | Refusal:
    try:
        opened = held.enter_context(how())
    except Refusal as refusal:
        return refusal
    if opened.real != real:
        raise TargetMoved
    return opened
