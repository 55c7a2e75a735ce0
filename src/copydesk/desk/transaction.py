"""The one way files are written: read under the lock, made anew, recorded, replaced.

Invariants: what was seen is what is replaced, byte for byte, or it is made again; nothing is
written that the gate has not let pass; the journal has the entry before the file is touched;
of several files, all are written or every one holds its old bytes, unless Unsettled says else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

from copydesk.desk.approval import Approving
from copydesk.desk.backends.api import Entry, Journal, State, Version
from copydesk.desk.locks import Ticket
from copydesk.desk.member import Member
from copydesk.desk.outcome import Revision
from copydesk.desk.recovery import Recovery, Turns, kept_and_new
from copydesk.desk.visibility import authorized
from copydesk.errors import (
    Failed,
    FileExists,
    FileNotFound,
    NotAFile,
    Refusal,
    TurnLost,
    Unsettled,
    check_cancelled,
)
from copydesk.store.files import Files
from copydesk.store.holder import Caller
from copydesk.store.protocol import Named, NotPutBack, OpenText, Piece, Staged, TargetMoved
from copydesk.store.stamp import Stamp
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, whole
from copydesk.text.source import Source

ATTEMPTS = 10
"""How often a write starts again when another program wrote in the meantime."""


R = TypeVar("R", bound=Revision)


@dataclass(frozen=True, slots=True)
class Written(Generic[R]):
    """What was made and written; `edit_id` is 0 when nothing changed, and nothing was written.

    `digest` is the SHA-256 of the file after, in hex.
    """

    made: R
    edit_id: int
    digest: str


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write: who, with what tool, where, in what order among those that wait.

    `undoes` is the edit that it takes back, 0 for none.
    """

    member: Member
    tool: str
    path: RelPath
    ticket: Ticket
    hunk_id: str = ""
    undoes: int = 0

    @property
    def caller(self) -> Caller:
        """For whom the file is locked meanwhile."""
        return self.member.name, self.tool

    @property
    def plan(self) -> Version | None:
        """The plan that is written, as it was prepared; None for a tool that writes at once."""
        return (self.hunk_id, self.ticket[0]) if self.hunk_id else None


@dataclass(frozen=True)
class Job(WriteRequest, ABC, Generic[R]):
    """A write of one file, and how its content is made; its methods are called under the lock."""

    def precondition(self) -> None:
        """Raise a refusal where nothing may be written any more; called before anything else."""

    @abstractmethod
    def revise(self, now: Source) -> R:
        """The revision of the file as it is now; called again when that moves on."""

    def create(self) -> R:
        """The revision where there is no file; a job that only revises raises FileNotFound."""
        raise FileNotFound

    def committed(self) -> None:
        """Called when the file is written; what it raises does not take the write back."""


@dataclass(frozen=True, kw_only=True)
class NewFile(Job[R]):
    """The write of a file that is not there; one that is there is refused."""

    revision: R

    def revise(self, now: Source) -> R:
        raise FileExists(now.size)

    def create(self) -> R:
        return self.revision


class Writer:
    """Writes files one at a time each, through the journal."""

    def __init__(
        self,
        files: Files,
        turns: Turns,
        journal: Journal,
        clock: Callable[[], int],
        named: Named,
        approving: Approving,
    ) -> None:
        self._files, self._turns, self._journal = files, turns, journal
        self._clock, self._named, self._approving = clock, named, approving

    def write(self, job: Job[R]) -> Written[R]:
        """Write the job's revision of the file, or its new file where there is none."""
        return self._locked(job, "write", "file", self._revise)

    def create(self, job: Job[R]) -> Written[R]:
        """Write a file that does not exist; raises FileExists and NotAFile."""
        return self._locked(job, "create", "directory", self._create)

    def remove(self, job: Job[R]) -> Written[R]:
        """Remove the file; the job's revision is the one that takes all of it away."""
        return self._locked(job, "remove", "file", self._remove)

    def _locked(
        self,
        job: Job[R],
        operation: str,
        what: str,
        attempt: Callable[[Job[R], RelPath], Written[R]],
    ) -> Written[R]:
        """The attempt under the lock of the file, again while other programs write to it."""
        for _ in range(ATTEMPTS):
            # Every answer shows content, or tells that there is some.
            real = authorized(self._files, job.member, job.path, "write", "read")
            with self._turns.of(real, job.ticket, job.caller):
                job.precondition()
                try:
                    written = attempt(job, real)
                except TargetMoved:
                    continue
                with suppress(Refusal):  # it is written, and the journal settles the rest
                    job.committed()
                return written
        raise Failed(operation, f"the {what} is changed by another program again and again")

    def _revise(self, job: Job[R], real: RelPath) -> Written[R]:
        with ExitStack() as held:
            try:
                opened = self._opened(job, real, held)
            except FileNotFound:
                return self._create(job, real)
            return self._replace(job, opened, job.revise(opened.source))

    def _opened(self, job: WriteRequest, real: RelPath, held: ExitStack) -> OpenText:
        """The file that was locked, open; raises TargetMoved when it is another one now."""
        opened = held.enter_context(self._files.text(job.path, self._named))
        _require(opened.real == real)
        if opened.stamp.nlink > 1:
            opened = held.enter_context(self._linked(job, opened))
        return opened

    @contextmanager
    def _linked(self, job: WriteRequest, named: OpenText) -> Generator[OpenText]:
        """A file with several names has a lane of its own besides that of the name."""
        lane = named.stamp
        with (
            self._turns.of_inode((lane.dev, lane.ino), job.ticket, job.caller),
            self._files.text(job.path, self._named) as opened,
        ):
            _require(opened.real == named.real)
            _require((opened.stamp.dev, opened.stamp.ino) == (lane.dev, lane.ino))
            yield opened

    def _replace(self, job: WriteRequest, opened: OpenText, made: R) -> Written[R]:
        if made.base.unchanged_by(made.change):
            return Written(made, 0, made.base.digest)
        self._approving.check(job.member, job.plan, opened.real, made, created=False)
        ids: list[int] = []
        digests: list[str] = []

        def record(after: Callable[[], str]) -> None:
            entry = self._entry(job, opened.real, made, "", created=False)
            if opened.stamp.nlink > 1:  # it may be torn: a group of one is settled by whoever comes
                entry = replace(entry, group=f"{entry.time_ms} {entry.path}")
            digests.append(after())  # the last thing that is ready
            check_cancelled()
            ids.append(self._journal.open(replace(entry, after=digests[0])))

        def replaced(
            pieces: Iterable[Piece],
            before_rename: Callable[[Callable[[], str]], None] | None,
        ) -> Stamp:
            return self._files.replace(
                job.path,
                opened.stamp,
                made.base.digest,
                pieces,
                before_in_place=lambda old: self._journal.keep_whole(ids[0], old),
                before_rename=before_rename,
                expected_real=opened.real,
                digest=digests[0] if digests else "",
            )

        try:
            if not isinstance(made.base, Snapshot):
                replaced(kept_and_new(made.change), record)
            elif made.base.size < sizes.BESIDE or opened.stamp.nlink > 1:
                record(lambda: made.after.digest)
                replaced(made.change.pieces(made.base.data), None)
            else:
                replaced(made.change.pieces(memoryview(made.base.data)), record)
        except NotPutBack as left:
            raise Unsettled("write", str(left), (str(opened.real),)) from None
        except (Refusal, TargetMoved) as error:
            if not self._is_written(error, ids, opened.real, digests[-1] if digests else ""):
                raise
        self._journal.close_entry(ids[0], "done")
        return Written(made, ids[0], digests[0])

    def _create(self, job: Job[R], real: RelPath) -> Written[R]:
        made = job.create()
        after = whole(made.after)
        self._approving.check(job.member, job.plan, real, made, created=True)
        entry = self._entry(job, real, made, after.digest, created=True)
        check_cancelled()
        edit_id = self._journal.open(entry)
        try:
            self._files.create(job.path, after.data, expected_real=real)
        except NotPutBack as left:
            raise Unsettled("create", str(left), (str(real),)) from None
        except (Refusal, TargetMoved) as error:
            if not self._is_written(error, [edit_id], real, after.digest):
                raise
        self._journal.close_entry(edit_id, "done")
        return Written(made, edit_id, after.digest)

    def _remove(self, job: Job[R], real: RelPath) -> Written[R]:
        with ExitStack() as held:
            opened = self._opened(job, real, held)
            made = job.revise(opened.source)
            self._approving.check(job.member, job.plan, real, made, created=False)
            entry = replace(self._entry(job, real, made, "", created=False), kind="remove")
            check_cancelled()
            edit_id = self._journal.open(entry)
            try:
                self._files.remove(job.path, opened.stamp, made.base.digest, expected_real=real)
            except NotPutBack as left:
                raise Unsettled("remove", str(left), (str(real),)) from None
            except (Refusal, TargetMoved) as error:
                if not self._is_written(error, [edit_id], real, ""):
                    raise
        self._journal.close_entry(edit_id, "done")
        return Written(made, edit_id, "")

    def _is_written(self, error: Exception, edit_ids: list[int], real: RelPath, after: str) -> bool:
        """Whether the file is as it was to be, though the system refused something.

        A refusal says that nothing was changed, so that is looked up. It is recorded at
        once, while the file is still ours: who comes next could not tell it from a content
        that has changed. Raises Unsettled when it cannot be looked up.
        """
        if not edit_ids:
            return False
        if may_be_written(error) and digest_at(self._files, real, error) == after:
            return True
        with suppress(Refusal):  # it is recorded with the next entry then
            self._journal.close_all(edit_ids, "failed")
        return False

    def _entry(
        self, job: WriteRequest, real: RelPath, made: Revision, after: str, *, created: bool
    ) -> Entry:
        return entry_of(job, real, made, after, self._clock(), created=created)


def entry_of(
    job: WriteRequest, real: RelPath, made: Revision, after: str, time_ms: int, *, created: bool
) -> Entry:
    """The entry of what is about to be written; `after` is the SHA-256 of the text after."""
    return Entry(
        time_ms=time_ms,
        member=job.member.name,
        tool=job.tool,
        path=real,
        kind="create" if created else "edit",
        before="" if created else made.base.digest,
        after=after,
        inverse=made.change.inverse(made.base.slice),
        diff=made.diff,
        hunk_id=job.hunk_id,
        undoes=job.undoes,
    )


def may_be_written(error: BaseException) -> TypeGuard[Failed]:
    """Whether a refusal may have come after the write.

    A lost turn is found before it: what stands there then is of whoever had the turn since,
    though it be the same plan.
    """
    return isinstance(error, Failed) and not isinstance(error, TurnLost)


def digest_at(files: Files, real: RelPath, error: Failed) -> str:
    """The SHA-256 of what stands there, empty for nothing; Unsettled if that cannot be told."""
    try:
        return files.digest(real)[2]
    except FileNotFound:
        return ""
    except Refusal:
        raise Unsettled(error.operation, error.reason, (str(real),)) from None


def _require(still: bool) -> None:
    """What the lane and the permission stand for is what was read; else read again."""
    if not still:
        raise TargetMoved


Step = tuple[WriteRequest, Revision]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is written to one file: at least one step, each on the text after the one before.

    `opened` is the file as it was read, None for one that is to be created.
    """

    real: RelPath
    opened: OpenText | None
    steps: tuple[Step, ...]

    @property
    def change(self) -> ChangeSet:
        """All steps as one change of the text that was read."""
        change = self.steps[0][1].change
        for _, made in self.steps[1:]:
            change = change.then(made.change)
        return change

    @property
    def in_parts(self) -> bool:
        """Whether only some lines are at hand, and the digest after is not known beforehand."""
        return not isinstance(self.steps[-1][1].after, Snapshot)

    @property
    def in_place(self) -> bool:
        """Whether the file has several names, so that it is written in place."""
        return self.opened is not None and self.opened.stamp.nlink > 1


class Stopped(Exception):
    """The system refused, at one of the files if `real` is one; nothing was written."""

    def __init__(self, refusal: Refusal, real: RelPath | None) -> None:
        super().__init__(str(refusal))
        self.refusal, self.real = refusal, real


class Committing:
    """Writes groups of files of one workspace."""

    def __init__(
        self, files: Files, journal: Journal, recovery: Recovery, clock: Callable[[], int]
    ) -> None:
        self._files, self._journal, self._recovery = files, journal, recovery
        self._clock = clock

    def write(self, group: str, files: Sequence[Rewriting]) -> tuple[Entry, ...]:
        """Write all files or none, in the turns of all of them; the entries, as files and steps.

        Raises TargetMoved when another program wrote meanwhile, Stopped when the
        system refused, with all files as before; Unsettled when it refused the way
        back too, which is left to recovery.
        """
        work = _Work(self._files, self._journal, group, files)
        try:
            with ExitStack() as held:  # what is left beside the files goes before they are closed
                work.run(held, self._clock())
        except BaseException as error:
            work.close_failed()
            if not isinstance(error, Refusal | TargetMoved | NotPutBack):
                raise
            if not (work.left and self._is_written(group, error, files, work)):
                raise work.stopped(error) from None
        else:
            work.close_done()
        return work.entries

    def _is_written(
        self, group: str, error: Exception, files: Sequence[Rewriting], work: _Work
    ) -> bool:
        """Have recovery settle what was left; whether all was written after all.

        Raises Unsettled when it cannot bring all files back. Who has lost its turns may
        find that somebody else has settled the group since, or that the journal has lost
        the group: it is recorded anew then, for whoever comes next.
        """
        stamps = [each.opened.stamp for each in files if each.opened is not None]
        inodes = [(stamp.dev, stamp.ino) for stamp in stamps if stamp.nlink > 1]
        left, done = tuple(str(each.real) for each in work.left), False
        with suppress(Refusal):  # of the journal
            known = {entry.edit_id for entry in self._journal.of_group(group)}
            if known.issuperset(entry.edit_id for entry in work.entries):
                settled = self._recovery.settle_in_turn(group, self._clock(), inodes)
                found = self._journal.of_group(group)
                done = all(entry.state == "done" for entry in found)
                left = tuple(str(s.entry.path) for s in settled if s.state in ("open", "unsure"))
            else:
                work.record_again(known)
        if left:
            reason = error.facts().get("reason") if isinstance(error, Refusal) else str(error)
            raise Unsettled("write several files", str(reason), tuple(dict.fromkeys(left)))
        return done


class _Work:
    """The writing of one group. `left` are the files that could not be put back."""

    def __init__(
        self, files: Files, journal: Journal, group: str, rewritings: Sequence[Rewriting]
    ) -> None:
        self._files, self._journal, self._group = files, journal, group
        # In place first: only that may still lack room, and nothing is to be put back then.
        self._order = sorted(rewritings, key=lambda each: not each.in_place)
        self._wanted = rewritings
        self._entries: dict[RelPath, list[Entry]] = {}
        self._ready: dict[RelPath, Staged] = {}
        self._committed: list[Rewriting] = []
        self._at: Rewriting | None = None
        self.left: list[Rewriting] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries with their ids, as files and steps were given."""
        return tuple(entry for each in self._wanted for entry in self._entries[each.real])

    def run(self, held: ExitStack, now_ms: int) -> None:
        """Write all; when it raises, all is put back but what is `left`."""
        for each in self._order:
            if each.in_parts:
                self._stage(each, held)
        self._at = None
        self._open(now_ms)
        try:
            for each in self._order:
                if not each.in_parts:
                    self._stage(each, held)
            for each in self._order:
                self._at = each
                self._ready[each.real].commit()
                self._committed.append(each)
        except BaseException as error:
            self._take_back(known=self._is_not_written(error))
            raise

    def close_done(self) -> None:
        """Record that all was written; where that is refused recovery finds it out too."""
        self._close(self._order, "done")

    def close_failed(self) -> None:
        """Record what was not written, or was put back; what is left stays open."""
        self._close([each for each in self._order if each not in self.left], "failed")

    def record_again(self, known: Collection[int]) -> None:
        """Record what the journal has lost; only what is left is to be settled."""
        lost = [entry for entry in self.entries if entry.edit_id not in known]
        ids = self._journal.open_again([replace(entry, edit_id=0) for entry in lost])
        left = {each.real for each in self.left}
        over = [new for entry, new in zip(lost, ids, strict=True) if entry.path not in left]
        if over:
            self._journal.close_all(over, "failed")

    def stopped(self, error: Exception) -> Exception:
        """The error as those outside know it."""
        if isinstance(error, FileExists | FileNotFound | NotAFile):
            return TargetMoved()  # it came or went since it was looked for
        if isinstance(error, TargetMoved):
            return error
        refusal = error if isinstance(error, Refusal) else Failed("write", str(error))
        return Stopped(refusal, self._at.real if self._at else None)

    def _stage(self, each: Rewriting, held: ExitStack) -> None:
        self._at = each
        first, last = each.steps[0][1], each.steps[-1][1]
        if each.opened is None:
            staged = self._files.stage_new(
                each.real, whole(last.after).data, expected_real=each.real
            )
        else:
            base = first.base
            pieces = each.change.pieces(base.data) if isinstance(base, Snapshot) else None
            staged = self._files.stage(
                each.real,
                each.opened.stamp,
                base.digest,
                kept_and_new(each.change) if each.in_parts or pieces is None else pieces,
                before_in_place=lambda old: self._journal.keep_whole(
                    self._entries[each.real][0].edit_id, old
                ),
                digested=each.in_parts,
                expected_real=each.real,
                digest="" if each.in_parts else last.after.digest,
            )
        self._ready[each.real] = held.enter_context(staged)

    def _open(self, now_ms: int) -> None:
        """Record all that is about to be written; the order tells recovery what came first."""
        made = [
            (each, self._entry(each, index, now_ms))
            for each in self._order
            for index in range(len(each.steps))
        ]
        check_cancelled()
        ids = self._journal.open_all([entry for _, entry in made])
        for (each, entry), edit_id in zip(made, ids, strict=True):
            self._entries.setdefault(each.real, []).append(replace(entry, edit_id=edit_id))

    def _entry(self, each: Rewriting, index: int, now_ms: int) -> Entry:
        job, made = each.steps[index]
        after = self._ready[each.real].digest if each.in_parts else made.after.digest
        created = each.opened is None and index == 0
        entry = entry_of(job, each.real, made, after, now_ms, created=created)
        return replace(entry, group=self._group)

    def _is_not_written(self, error: BaseException) -> bool:
        """Whether the file at hand is surely without what was to be written to it."""
        at = self._at
        if not may_be_written(error) or at is None or at.real not in self._ready:
            return isinstance(error, Refusal | TargetMoved)
        try:
            return digest_at(self._files, at.real, error) != self._entries[at.real][-1].after
        except Unsettled:
            return False

    def _take_back(self, *, known: bool) -> None:
        """Put back what was committed, the last first; `known`: what failed was not written."""
        if not known and self._at is not None and self._at not in self._committed:
            self.left.append(self._at)
        for each in reversed(self._committed):
            try:
                self._ready[each.real].put_back(self._entries[each.real][-1].after)
            except (Refusal, TargetMoved, NotPutBack):
                self.left.append(each)

    def _close(self, rewritings: Sequence[Rewriting], state: State) -> None:
        entries = self._entries
        ids = [one.edit_id for each in rewritings for one in entries.get(each.real, ())]
        with suppress(Refusal):
            self._journal.close_all(ids, state)
