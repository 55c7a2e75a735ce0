"""Write files: read under the lock, make the new content, journal it, replace the file.

Invariants: what was read is what is replaced, byte for byte, or it is made again; nothing is
written without passing the gates; the journal has the entry before the file is touched; of several
files, all are written or every one keeps its old bytes, unless Unsettled is raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

from copydesk.desk.backends.api import Entry, Journal, Kind, State, Version
from copydesk.desk.checks import Approving, Checks, Edited
from copydesk.desk.member import Member, authorized, check_free
from copydesk.desk.outcome import Revision
from copydesk.desk.recovery import Recovery, Turns, kept_and_new
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
from copydesk.store.files import Files, StagedWrite
from copydesk.store.locks import Ticket
from copydesk.store.protocol import (
    Caller,
    FileChange,
    MadeDirectories,
    ModeChanged,
    Moved,
    Named,
    NotPutBack,
    OpenText,
    Piece,
    Removed,
    Stamp,
    TargetMoved,
)
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, whole
from copydesk.text.source import Source

ATTEMPTS = 10
"""How often a write is attempted if another program writes meanwhile."""


R = TypeVar("R", bound=Revision)


@dataclass(frozen=True, slots=True)
class Written(Generic[R]):
    """A finished write at `real`, with its SHA-256 in hex; `edit_id` 0 if nothing changed."""

    made: R
    edit_id: int
    digest: str
    real: RelPath


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


@dataclass(frozen=True)
class Job(WriteRequest, ABC, Generic[R]):
    """A write of one file, and how to make its content; its methods are called under the lock."""

    @property
    def kind(self) -> Kind:
        """The operation; `edit` creates a missing file if the job can."""
        return "edit"

    @property
    def to(self) -> RelPath | None:
        """The destination of a move."""
        return None

    @property
    def keeps_text(self) -> bool:
        """Whether only the name or the mode of the file changes."""
        return self.to is not None

    def mode_after(self, now: int) -> int | None:
        """The permission bits to set on a file of this mode; None to keep them."""
        return None

    @property
    def is_whole_file(self) -> bool:
        """Whether the job is about a whole file, text or not."""
        return False

    @property
    def restores(self) -> Removed | None:
        """The attributes of the old file to restore on the new one."""
        return None

    def precondition(self) -> None:
        """Raise a refusal if nothing may be written any more; called before anything else."""

    @abstractmethod
    def revise(self, now: Source) -> R:
        """Return the revision of the current file; called again if that changes."""

    def create(self) -> R:
        """Return the revision of a missing file; a job that only revises raises FileNotFound."""
        raise FileNotFound

    def ended(self) -> None:
        """Run if there was nothing to write."""


@dataclass(frozen=True, kw_only=True)
class CreateJob(Job[R]):
    """The write of a new file; refuses if it exists."""

    revision: R

    @property
    def kind(self) -> Kind:
        return "create"

    def revise(self, now: Source) -> R:
        raise FileExists(now.size)

    def create(self) -> R:
        return self.revision


class Writer:
    """Writes files through the journal: one, or several all or none."""

    def __init__(
        self,
        files: Files,
        turns: Turns,
        journal: Journal,
        recovery: Recovery,
        clock: Callable[[], int],
        named: Named,
        approving: Approving,
        checks: Checks,
    ) -> None:
        self._files, self._turns, self._journal = files, turns, journal
        self._recovery, self._clock = recovery, clock
        self._named, self._approving, self._checks = named, approving, checks

    def write(self, job: Job[R]) -> Written[R]:
        """Run the job and write its file; raises its refusals, Failed, Unsettled."""
        for _ in range(ATTEMPTS):
            # Every answer reveals content, or that some exists.
            real = authorized(self._files, job.member, job.path, "write", "read")
            target, to = job.to, None
            tickets = dict.fromkeys((real, *job.member.own_turn), job.ticket)
            if target is not None:
                to = authorized(self._files, job.member, target, "write", "read")
                tickets[to] = job.ticket
            with self._turns.of_all(tickets, job.caller):
                job.precondition()
                try:
                    with ExitStack() as held:
                        written = self._attempt(job, real, to, held)
                except TargetMoved:
                    continue
                if not written.edit_id:
                    job.ended()
                return written
        what = "directory" if job.kind == "create" or job.to is not None else "file"
        raise Failed(
            _OPERATIONS[job.kind], f"the {what} is changed by another program again and again"
        )

    def write_all(self, group: str, files: Sequence[Rewriting]) -> tuple[Entry, ...]:
        """Write all files or none, under all their locks; return the entries, by file and step.

        Raises TargetMoved if another program wrote meanwhile; Stopped if the system refused, with
        all files as before; Unsettled if the system also refused to roll back, which is left to
        recovery.
        """
        work = _Transaction(self._files, self._journal, self._approving, group, files)
        try:
            work.run(self._clock())
        except BaseException as error:  # Ctrl-C too: entries of restored files are closed
            work.close_failed()
            if not isinstance(error, Refusal | TargetMoved | NotPutBack):
                raise
            if not (work.left and self._is_written(group, error, files, work)):
                raise work.stopped(error) from None
        else:
            work.close_done()
        return work.entries

    def _attempt(
        self, job: Job[R], real: RelPath, to: RelPath | None, held: ExitStack
    ) -> Written[R]:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        opened: OpenText | None = None
        kind = job.kind
        if kind != "create":
            try:
                opened = self._opened(job, real, held)
            except FileNotFound:
                if kind == "remove":
                    raise
        made = job.create() if opened is None else job.revise(opened.source)
        mode = None if opened is None else job.mode_after(opened.stamp.mode)
        is_text = to is None and mode is None
        if is_text and opened and kind == "edit" and made.base.unchanged_by(made.change):
            return Written(made, 0, made.base.digest, real)
        if to is not None and opened is not None:
            check_free(self._files, job.to or to, to, real, opened.stamp)
        undoes, created = (job.undoes,), opened is None
        self._approving.check(
            job.member, job.plan, real, made, created=created, to=to, undoes=undoes
        )
        removes = kind == "remove"
        if not removes and to is None and not job.undoes:
            self._check(job, real, made, created=opened is None)
        steps = ((job, made),)
        file = Rewriting(real, opened, steps, removes, to, job.restores, mode)
        entry = self._write_one(file)
        return Written(made, entry.edit_id, entry.after, real)

    def _check(self, job: Job[R], real: RelPath, made: R, *, created: bool) -> None:
        """Raise if the checks refuse the new text."""
        if not self._checks.concern(real):
            return
        found = self._checks.judge(Edited.of(job.path, real, made, created=created))
        self._checks.gate(
            found,
            job.member.accept,
            job.hunk_id or None,
            lambda: self._approving.is_approved(job.plan, real, made, created=created),
        )

    def _opened(self, job: Job[R], real: RelPath, held: ExitStack) -> OpenText:
        """Open the locked file; raises TargetMoved if another one is there now."""
        opened = held.enter_context(self._read(job))
        _require(opened.real == real)
        if opened.stamp.nlink > 1:
            opened = held.enter_context(self._linked(job, opened))
        return opened

    def _read(self, job: Job[R]) -> AbstractContextManager[OpenText]:
        if job.keeps_text:
            return self._files.unread(job.path)
        if job.is_whole_file:
            return self._files.any_content(job.path, self._named)
        return self._files.text(job.path, self._named)

    @contextmanager
    def _linked(self, job: Job[R], named: OpenText) -> Generator[OpenText]:
        """Hold the inode lock of a file with hard links, in addition to the path lock."""
        lane = named.stamp
        with (
            self._turns.of_inode((lane.dev, lane.ino), job.ticket, job.caller),
            self._read(job) as opened,
        ):
            _require(opened.real == named.real)
            _require((opened.stamp.dev, opened.stamp.ino) == (lane.dev, lane.ino))
            yield opened

    def _write_one(self, file: Rewriting) -> Entry:
        """Write one file; return its entry, for a move the one at its new path."""
        if file.to is not None or file.mode is not None:
            try:
                return self.write_all(f"{self._clock()} {file.real}", (file,))[-1]
            except Stopped as stopped:
                raise stopped.refusal from None
        work = _Transaction(self._files, self._journal, self._approving, "", (file,))
        try:
            work.run(self._clock())
        except (Refusal, TargetMoved, NotPutBack) as error:
            if not work.entries or not self._is_one_written(error, file, work.entries[0]):
                raise
        work.close_done()
        return work.entries[0]

    def _is_one_written(self, error: Exception, file: Rewriting, entry: Entry) -> bool:
        """Whether the file has its new content although the system refused something.

        A refusal claims that nothing was changed, so check that. It is recorded at once, while the
        file is still locked: later writers could not tell it from a content that has changed.
        Raises Unsettled if the file cannot be read.
        """
        if isinstance(error, NotPutBack):
            raise Unsettled(_OPERATIONS[file.kind], str(error), (str(file.real),)) from None
        if may_be_written(error) and digest_at(self._files, file.real, error) == entry.after:
            return True
        with suppress(Refusal):  # then recovery finds it out
            self._journal.close_all([entry.edit_id], "failed")
        return False

    def _is_written(
        self, group: str, error: Exception, files: Sequence[Rewriting], work: _Transaction
    ) -> bool:
        """Let recovery settle what is left; whether all was written after all, else Unsettled.

        Another process may have settled the group, or the journal lost it: then it is recorded
        again.
        """
        stamps = [each.opened.stamp for each in files if each.opened is not None]
        inodes = [(stamp.dev, stamp.ino) for stamp in stamps if stamp.nlink > 1]
        left, done = tuple(str(each.real) for each in work.left), False
        with suppress(Refusal):  # of the journal
            known = {entry.edit_id for entry in self._journal.of_group(group)}
            if known.issuperset(entry.edit_id for entry in work.entries):
                self._recovery.settle_in_turn(self._journal.of_group(group), inodes)
                found = self._journal.of_group(group)  # also where another process settled it
                done = all(entry.state == "done" for entry in found)
                left = tuple(str(e.path) for e in found if e.state in ("open", "unsure"))
            else:
                work.record_again(known)
        if left:
            reason = error.facts().get("reason") if isinstance(error, Refusal) else str(error)
            raise Unsettled("write several files", str(reason), tuple(dict.fromkeys(left)))
        return done


_OPERATIONS: dict[Kind, str] = {"edit": "write", "create": "create", "remove": "remove"}
"""The operation's name in the message for a failed write."""


def may_be_written(error: BaseException) -> TypeGuard[Failed]:
    """Whether a refusal may have come after the write; a lost lock is noticed before it."""
    return isinstance(error, Failed) and not isinstance(error, TurnLost)


def digest_at(files: Files, real: RelPath, error: Failed) -> str:
    """The SHA-256 of the file, empty if it is missing; raises Unsettled if unreadable."""
    try:
        return files.digest(real)[2]
    except FileNotFound:
        return ""
    except Refusal:
        raise Unsettled(error.operation, error.reason, (str(real),)) from None


def _require(still: bool) -> None:
    """Raise TargetMoved if the file opened is not the one we locked and authorised."""
    if not still:
        raise TargetMoved


Step = tuple[WriteRequest, Revision]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The steps of a write to one file, at least one, each on the previous result.

    `opened` is the file as it was read, None if it is to be created. `removes`: the file is
    deleted; its only step leaves it empty. `to`: its only step moves it there, after everything
    else is written. `restores`: attributes for a file that is created. `mode`: its only step sets
    these permission bits, after its text is written.
    """

    real: RelPath
    opened: OpenText | None
    steps: tuple[Step, ...]
    removes: bool = False
    to: RelPath | None = None
    restores: Removed | None = None
    mode: int | None = None

    @property
    def key(self) -> tuple[RelPath, bool]:
        """A key that is unique in a transaction."""
        return self.to or self.real, self.mode is not None

    @property
    def keeps_text(self) -> bool:
        """Whether only the name or the mode changes."""
        return self.to is not None or self.mode is not None

    @property
    def kind(self) -> Kind:
        if self.removes:
            return "remove"
        return "create" if self.opened is None else "edit"

    @property
    def change(self) -> ChangeSet:
        """All steps as one change of the text that was read."""
        change = self.steps[0][1].change
        for _, made in self.steps[1:]:
            change = change.then(made.change)
        return change

    @property
    def pieces(self) -> Iterable[Piece]:
        """The new content; the store copies unchanged parts that are not loaded."""
        base = self.steps[0][1].base
        if self.in_parts or not isinstance(base, Snapshot):
            return kept_and_new(self.change)
        if base.size <= sizes.JOINED:
            return (whole(self.steps[-1][1].after).data,)
        return self.change.pieces(memoryview(base.data))

    @property
    def in_parts(self) -> bool:
        """Whether only some lines are loaded, so that the digest after is not known beforehand."""
        return not isinstance(self.steps[-1][1].base, Snapshot)

    @property
    def in_place(self) -> bool:
        """Whether the file has several names, so that it must be written in place."""
        is_linked = self.opened is not None and self.opened.stamp.nlink > 1
        return is_linked and not self.removes


class Stopped(Exception):
    """The system refused, at the file `real` if that is known; nothing was written."""

    def __init__(self, refusal: Refusal, real: RelPath | None) -> None:
        super().__init__(str(refusal))
        self.refusal, self.real = refusal, real


class _Transaction:
    """Two-phase write of several files: journal entries, staged files, exchange of names.

    `left` are the files that could not be restored. A transaction without a `group` has one file,
    whose digest alone tells its outcome.
    """

    def __init__(
        self,
        files: Files,
        journal: Journal,
        approving: Approving,
        group: str,
        rewritings: Sequence[Rewriting],
    ) -> None:
        self._files, self._journal, self._group = files, journal, group
        self._approving = approving
        # In place first: only those can still run out of space, when nothing has to be restored
        # yet. Modes and then moves come last, when the moved files are written.
        self._order = rewritings
        if len(rewritings) > 1:
            self._order = sorted(
                rewritings,
                key=lambda one: (one.to is not None, one.mode is not None, not one.in_place),
            )
        self._wanted = rewritings
        self._entries: dict[int, list[Entry]] = {}  # by the `id()` of the rewriting
        self._ready: dict[int, StagedWrite] = {}
        self._stamps: dict[RelPath, Stamp] = {}
        self._committed: list[Rewriting] = []
        self._at: Rewriting | None = None
        self.left: list[Rewriting] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries with their ids, in order of files and steps; none before they are made."""
        entries = self._entries
        return tuple(entry for each in self._wanted for entry in entries.get(id(each), ()))

    def run(self, now_ms: int) -> None:
        """Write all; on an error everything except `left` is restored."""
        with ExitStack() as held:  # temporary files are removed before the files are closed
            for each in self._order:
                if self._is_digested(each):
                    self._stage(each, held)
            self._at = None
            self._open(now_ms)
            try:
                for each in self._order:
                    if id(each) not in self._ready and not each.keeps_text:
                        self._stage(each, held)
                for each in self._order:
                    if each.keeps_text:
                        self._stage(each, held)
                    self._at = each
                    self._stamps[each.real] = self._ready[id(each)].commit()
                    self._committed.append(each)
            except BaseException as error:  # Ctrl-C between two files too: all or none
                if self._group:
                    self._take_back(known=self._is_not_written(error))
                raise

    def close_done(self) -> None:
        """Record that all was written; if that is refused, recovery finds it out."""
        self._close(self._order, "done")

    def close_failed(self) -> None:
        """Record entries that were not written or were restored; `left` stays open."""
        self._close([each for each in self._order if each not in self.left], "failed")

    def record_again(self, known: Collection[int]) -> None:
        """Record again the entries that the journal lost; only `left` needs recovery."""
        lost = [entry for entry in self.entries if entry.edit_id not in known]
        ids = self._journal.open_again([replace(entry, edit_id=0) for entry in lost])
        left = {entry.path for each in self.left for entry in self._entries[id(each)]}
        over = [new for entry, new in zip(lost, ids, strict=True) if entry.path not in left]
        if over:
            self._journal.close_all(over, "failed")

    def stopped(self, error: Exception) -> Exception:
        """Translate the error for callers."""
        if isinstance(error, FileExists | FileNotFound | NotAFile):
            return TargetMoved()  # it was created or deleted meanwhile
        if isinstance(error, TargetMoved):
            return error
        refusal = error if isinstance(error, Refusal) else Failed("write", str(error))
        return Stopped(refusal, self._at.real if self._at else None)

    def _is_digested(self, each: Rewriting) -> bool:
        """Whether the digest after is computed while staging, before there is an entry."""
        if each.keeps_text:
            return False
        if self._group or each.in_place:
            return each.in_parts
        return each.in_parts or each.steps[0][1].base.size >= sizes.BESIDE

    def _stage(self, each: Rewriting, held: ExitStack) -> None:
        self._at = each
        (request, first), last = each.steps[0], each.steps[-1][1]
        path = each.real if self._group else request.path
        base, real = first.base, each.real
        staged: AbstractContextManager[StagedWrite]
        if each.keeps_text and each.opened is not None:
            stamp = self._stamps.get(real, each.opened.stamp)
            sha256 = self._entries[id(each)][-1].after
            if each.to is not None:
                paths = {"expected_real": real, "expected_to": each.to}
                staged = self._files.stage_move(real, each.to, stamp, sha256, **paths)
            else:
                assert each.mode is not None, "it keeps its text and its name"
                known = each.mode, stamp, sha256
                staged = self._files.stage_chmod(real, *known, expected_real=real)
        elif each.opened is None:
            data, restores = whole(last.after).data, each.restores
            staged = self._files.stage_new(path, data, expected_real=real, removed=restores)
        elif each.removes:
            stamp = each.opened.stamp
            staged = self._files.stage_removal(path, stamp, base.digest, expected_real=real)
        else:
            digested = self._is_digested(each)
            staged = self._files.stage(
                path,
                each.opened.stamp,
                base.digest,
                each.pieces,
                before_in_place=lambda old: self._journal.keep_whole(
                    self._entries[id(each)][0].edit_id, old
                ),
                digested=digested,
                expected_real=real,
                digest="" if digested else last.after.digest,
                revocable=bool(self._group),
            )
        self._ready[id(each)] = held.enter_context(staged)

    def _open(self, now_ms: int) -> None:
        """Record all intended writes, in the order that recovery relies on."""
        made = [
            (each, entry)
            for each in self._order
            for index in range(len(each.steps))
            for entry in self._entries_of(each, index, now_ms)
        ]
        check_cancelled()
        jobs = (job for each in self._order for job, _ in each.steps)
        plans = [job.plan for job in jobs if job.plan is not None and job.is_stored]
        ids = self._journal.open_all([entry for _, entry in made], plans)
        for (each, entry), edit_id in zip(made, ids, strict=True):
            self._entries.setdefault(id(each), []).append(replace(entry, edit_id=edit_id))

    def _entries_of(self, each: Rewriting, index: int, now_ms: int) -> tuple[Entry, ...]:
        """The entry of a step; for a move those of its two ends."""
        entry = self._entry(each, index, now_ms)
        if each.opened is None or not each.keeps_text:
            return (entry,)
        stamp = each.opened.stamp
        digest = self._moved_digest(each)
        if each.mode is not None:
            change = ModeChanged(stamp.mode & 0o7777, each.mode)
            return (replace(entry, before=digest, after=digest, file=(change,)),)
        assert each.to is not None, "it keeps its text and its mode"
        nothing = ChangeSet.of(0, [])
        gone, come = (
            Moved(other, is_source, (stamp.dev, stamp.ino))
            for other, is_source in ((each.to, True), (each.real, False))
        )
        entry = replace(entry, inverse=nothing, before=digest)
        return (
            replace(entry, kind="remove", after="", file=(gone,)),
            replace(
                entry,
                path=each.to,
                kind="create",
                before="",
                after=digest,
                undoes=each.steps[index][0].undoes_source,
                file=(come, *self._made_for(each.to)),
            ),
        )

    def _moved_digest(self, each: Rewriting) -> str:
        """The digest of a file when it is moved; the transaction may write to it before."""
        own = (one for one in self._wanted if not one.keeps_text and one.real == each.real)
        first = next(own, None)
        made = (first or each).steps[-1][1]
        ready = None if first is None else self._ready.get(id(first))
        return (ready.digest if ready is not None else "") or made.after.digest

    def _made_for(self, path: RelPath) -> tuple[FileChange, ...]:
        """The directories that a new file needs, for its entry."""
        count = self._files.missing_parents(path)
        return (MadeDirectories(count),) if count else ()

    def _entry(self, each: Rewriting, index: int, now_ms: int) -> Entry:
        job, made = each.steps[index]
        kind = each.kind if index == 0 else "edit"
        after, file = "", tuple[FileChange, ...]()
        inverse, diff = made.change.inverse(made.base.slice), made.diff  # before the digest is due
        if each.removes:
            file = (self._files.attributes(each.real),)
        elif not each.keeps_text:
            if kind == "create":
                file = self._made_for(each.real)
            ready = self._ready.get(id(each))
            after = ready.digest if ready is not None else made.after.digest
        return Entry(
            time_ms=now_ms,
            member=job.member.name,
            tool=job.tool,
            path=each.real,
            kind=kind,
            before="" if kind == "create" else made.base.digest,
            after=after,
            inverse=inverse,
            diff=diff,
            hunk_id=job.hunk_id,
            undoes=job.undoes,
            group=self._group,
            why=job.member.why,
            approval=self._approving.approval(job.plan, job.edited_by),
            file=file,
        )

    def _is_not_written(self, error: BaseException) -> bool:
        """Whether the file certainly does not have the new content."""
        at = self._at
        if at is None or id(at) not in self._ready:
            return True
        if not may_be_written(error):
            return isinstance(error, Refusal | TargetMoved)
        try:
            if at.to is not None:
                return digest_at(self._files, at.real, error) != ""
            if at.mode is not None:
                return False
            return digest_at(self._files, at.real, error) != self._entries[id(at)][-1].after
        except Unsettled:
            return False

    def _take_back(self, *, known: bool) -> None:
        """Roll back the committed files, last first; `known`: the failed one was not written."""
        if not known and self._at is not None and self._at not in self._committed:
            self.left.append(self._at)
        for each in reversed(self._committed):
            try:
                self._ready[id(each)].put_back(self._entries[id(each)][-1].after)
            except (Refusal, TargetMoved, NotPutBack):
                self.left.append(each)

    def _close(self, rewritings: Sequence[Rewriting], state: State) -> None:
        entries = self._entries
        ids = [one.edit_id for each in rewritings for one in entries.get(id(each), ())]
        with suppress(Refusal):  # then recovery finds it out
            if ids:
                self._journal.close_all(ids, state)
