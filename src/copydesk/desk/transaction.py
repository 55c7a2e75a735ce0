"""The one way in which files are written: steps, all or none, told truly.

Locks, then reading and composing, the gates, one flushed record of the intents, the steps in order,
the mark that they are done, and only then the locks go. Invariants: what was read is what is
replaced, byte for byte, or it is made again; nothing is written without passing the gates; the
journal has the entries before a file is touched; all steps are done, or every file keeps its old
bytes, unless Unsettled is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic, NoReturn, TypeVar

from copydesk.desk.approvals import Approving
from copydesk.desk.backends.api import Entry, Records, State, Tied
from copydesk.desk.checks import Checks, Edited
from copydesk.desk.file_locks import Locks
from copydesk.desk.member import authorized
from copydesk.desk.outcome import Revision
from copydesk.desk.recovery import Recovery
from copydesk.desk.steps import Bench, Create, Part, Step, WriteRequest, edit
from copydesk.errors import (
    Failed,
    FileExists,
    FileNotFound,
    NotAFile,
    Refusal,
    Unsettled,
    check_cancelled,
)
from copydesk.store.files import Files
from copydesk.store.locks import Ticket
from copydesk.store.protocol import Caller, Named, NotPutBack, OpenText, TargetMoved
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Source

ATTEMPTS = 10
"""How often a write is attempted if another program writes meanwhile."""

R = TypeVar("R", bound=Revision)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written(Generic[R]):
    """A finished write at `real`, with its SHA-256 in hex; `edit_id` 0 if nothing changed."""

    made: R
    edit_id: int
    digest: str
    real: RelPath


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
    raise over() if over else Failed("write", _AGAIN)


_AGAIN = "the file is changed by another program again and again"


def directory_moves(operation: str) -> Refusal:
    """The refusal of a write whose directory another program changes."""
    return Failed(operation, "the directory is changed by another program again and again")


def files_move() -> Refusal:
    """The refusal of a write of several files that another program changes."""
    return Failed("write", "the files are changed by another program again and again")


class Writer:
    """Writes files through the journal; `ended` is called when plans have ended with a write."""

    def __init__(
        self,
        files: Files,
        locks: Locks,
        journal: Records,
        recovery: Recovery,
        clock: Callable[[], int],
        named: Named,
        approving: Approving,
        checks: Checks,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._files, self._locks, self._journal = files, locks, journal
        self._recovery, self._clock, self._named = recovery, clock, named
        self._approving, self._checks, self._ended = approving, checks, ended

    def create(self, job: WriteRequest, made: R) -> Written[R]:
        """Write a new file; raises FileExists, NotAFile, and as `edit`."""

        def create() -> R:
            self._files.check_new(job.path)
            return made

        return attempted(
            lambda: self._attempt(job, None, create), lambda: directory_moves("create")
        )

    def edit(self, job: WriteRequest, revise: Callable[[Source], R]) -> Written[R]:
        """Write what `revise` makes of the current file; raises its refusals, Failed, Unsettled."""
        return attempted(lambda: self._attempt(job, revise, _missing))

    def _attempt(
        self, job: WriteRequest, revise: Callable[[Source], R] | None, create: Callable[[], R]
    ) -> Written[R]:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        # Every answer reveals content, or that some exists.
        real = authorized(self._files, job.member, job.path, "write", "read")
        tickets = dict.fromkeys((real, *job.member.own_lock), job.ticket)
        with self._locks.of_all(tickets, job.caller), ExitStack() as held:
            opened: OpenText | None = None
            if revise is not None:
                opened = self.opened_one(
                    real, lambda: self._files.text(job.path, self._named), job, held
                )
            made = create() if opened is None or revise is None else revise(opened.source)
            if opened is not None and made.base.unchanged_by(made.change):
                return Written(made, 0, made.base.digest, real)
            created = opened is None
            passed = self._approving.check(job.member, job.plan, real, made, created=created)
            if self._checks.concern(real):
                found = self._checks.judge(Edited.of(job.path, real, made, created=created))
                job.member.now().permission.check("write", real)  # checks may take long
                self._checks.gate(found, job.member.accept, None, lambda: False)
            parts = (Part(job, made, passed.approval, passed.decided_ms),)
            step = Create(real, parts) if opened is None else edit(real, parts, opened)
            try:
                (entry,) = self.write((step,))
            except Stopped as stopped:
                raise stopped.refusal from None
        return Written(made, entry.edit_id, entry.after, real)

    def opened_one(
        self, real: RelPath, how: Opener, job: WriteRequest, held: ExitStack
    ) -> OpenText:
        """Open a locked file; raises as `how`, and TargetMoved if another one is there now."""
        found = self.opened({real: how}, job.ticket, job.caller, held)[real]
        if isinstance(found, Refusal):
            raise found
        return found

    def opened(
        self,
        wanted: Mapping[RelPath, Opener],
        ticket: Ticket,
        caller: Caller,
        held: ExitStack,
    ) -> dict[RelPath, OpenText | Refusal]:
        """Open locked files by their real paths, or say why not.

        For files with several names the locks of their inodes are taken too, all in one order, and
        they are opened once more. Raises TargetMoved if another file is there now.
        """
        found = {real: _opened(real, how, held) for real, how in wanted.items()}
        inodes = {
            (one.stamp.dev, one.stamp.ino): one.stamp
            for one in found.values()
            if isinstance(one, OpenText) and one.stamp.nlink > 1
        }
        for inode in sorted(inodes):
            held.enter_context(self._locks.of_inode(inode, ticket, caller))
        for real, one in found.items():
            if isinstance(one, OpenText) and (one.stamp.dev, one.stamp.ino) in inodes:
                again = found[real] = _opened(real, wanted[real], held)
                if isinstance(again, Refusal):
                    raise TargetMoved
                if (again.stamp.dev, again.stamp.ino) != (one.stamp.dev, one.stamp.ino):
                    raise TargetMoved
        return found

    def write(self, steps: Sequence[Step], group: str = "") -> tuple[Entry, ...]:
        """Do all steps or none, under all their locks; return the entries, by step and part.

        Several entries need a `group`. Raises TargetMoved if another program wrote meanwhile;
        Stopped if the system refused, with all files as before; Unsettled if it also refused to
        roll back, which is left to recovery.
        """
        order = sorted(steps, key=attrgetter("order")) if len(steps) > 1 else steps
        work = _Work(order)
        try:
            with ExitStack() as held:  # temporary files are removed before the locks go
                at = Bench(self._files, self._journal, held, self._clock(), group)
                try:
                    self._do(work, at)
                except BaseException as error:  # Ctrl-C between two files too: all or none
                    work.take_back(at, error)
                    raise
                work.is_written = True  # whatever fails from here on
        except BaseException as error:
            if not self._is_written(work, group, error):
                raise work.translated(error) from None
        else:
            self._close(order, "done")
        if steps[0].parts[0].job.hunk_id:
            self._ended()
        return tuple(entry for step in steps for entry in step.entries)

    def _do(self, work: _Work, at: Bench) -> None:
        """Record the intents and do the steps."""
        several = len(work.steps) > 1
        for step in work.steps:
            if step.is_digested:
                work.now = step
                step.stage(at, revocable=several)
        work.now = None
        self._record(work.steps, at)
        for step in work.steps:
            if not step.is_digested and not step.keeps_text:
                work.now = step
                step.stage(at, revocable=several)
        for step in work.steps:
            work.now = step
            if step.keeps_text:  # on what the steps before have made of the file
                step.stage(at, revocable=several)
            work.is_committing = True
            step.commit(at)
            work.is_committing = False

    def _record(self, steps: Sequence[Step], at: Bench) -> None:
        """Record all intents, in the order that recovery relies on, and tie the plans to them."""
        made = [(step, entry) for step in steps for entry in step.make_entries(at)]
        plans: list[Tied] = [
            (*part.job.plan, part.decided_ms)
            for step in steps
            for part in step.parts
            if part.job.plan is not None and part.job.is_stored
        ]
        check_cancelled()
        ids = self._journal.open_all([entry for _, entry in made], plans)
        for (step, entry), edit_id in zip(made, ids, strict=True):
            step.entries = (*step.entries, replace(entry, edit_id=edit_id))

    def _is_written(self, work: _Work, group: str, error: BaseException) -> bool:
        """Record how it ended after an error; whether all was written after all.

        What could not be put back is left to recovery. Another process may have settled it, or a
        server lost it: then it is recorded again. Raises Unsettled.
        """
        if work.is_written:
            self._close(work.steps, "done")
            return isinstance(error, Refusal | TargetMoved | NotPutBack)
        self._close([step for step in work.steps if step not in work.left], "failed")
        if not work.left:
            return False
        stamps = [step.opened.stamp for step in work.steps if step.opened is not None]
        inodes = [(stamp.dev, stamp.ino) for stamp in stamps if stamp.nlink > 1]
        left, done = tuple(str(step.real) for step in work.left), False
        with suppress(Refusal):  # of the journal
            entries = [entry for step in work.steps for entry in step.entries]
            now = self._now(entries, group)
            if {one.edit_id for one in now}.issuperset(entry.edit_id for entry in entries):
                self._recovery.settle_in_turn(now, inodes)
                now = self._now(entries, group)  # also where another process settled it
                done = all(entry.state == "done" for entry in now)
                left = tuple(str(e.path) for e in now if e.state in ("open", "unsure"))
            else:
                self._record_again(work, {one.edit_id for one in now})
        is_refusal = isinstance(error, Refusal | TargetMoved | NotPutBack)
        if left and is_refusal and not work.steps[0].tells_doubt:
            reason = error.facts().get("reason") if isinstance(error, Refusal) else str(error)
            several = len(work.steps) > 1
            operation = "write several files" if several else work.steps[0].operation
            raise Unsettled(operation, str(reason), tuple(dict.fromkeys(left))) from None
        return done

    def _now(self, entries: Sequence[Entry], group: str) -> tuple[Entry, ...]:
        """The entries as they are recorded now."""
        if group:
            return self._journal.of_group(group)
        return tuple(filter(None, (self._journal.get(one.edit_id) for one in entries)))

    def _record_again(self, work: _Work, known: Collection[int]) -> None:
        """Record again the entries that the journal lost; only those left need recovery."""
        lost = [
            (step, entry)
            for step in work.steps
            for entry in step.entries
            if entry.edit_id not in known
        ]
        ids = self._journal.open_again([replace(entry, edit_id=0) for _, entry in lost])
        over = [new for (step, _), new in zip(lost, ids, strict=True) if step not in work.left]
        if over:
            self._journal.close_all(over, "failed")

    def _close(self, steps: Iterable[Step], state: State) -> None:
        """Record how steps ended; if that is refused, recovery finds it out."""
        ids = [entry.edit_id for step in steps for entry in step.entries]
        with suppress(Refusal):
            if ids:
                self._journal.close_all(ids, state)


class _Work:
    """The steps of a transaction, how far it is, and after an error what could not be restored."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.now: Step | None = None
        self.is_committing = self.is_written = False
        self.left: list[Step] = []

    def take_back(self, at: Bench, error: BaseException) -> None:
        """Undo what was committed, last first, unless all is written."""
        if self.is_committing and self.now is not None:
            how = self.now.after_error(at, error)
            if how == "written" and self.now is self.steps[-1]:
                self.is_written = True
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


def _missing() -> NoReturn:
    raise FileNotFound


def _opened(real: RelPath, how: Opener, held: ExitStack) -> OpenText | Refusal:
    try:
        opened = held.enter_context(how())
    except Refusal as refusal:
        return refusal
    if opened.real != real:
        raise TargetMoved
    return opened
