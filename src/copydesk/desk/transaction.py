"""The one way in which files are written: steps, all or none, told truly; and the locks for it.

Locks, then reading and composing, the gates, one flushed record of the intents, the steps in order,
the mark that they are done, and only then the locks go. Invariants: what was read is what is
replaced, byte for byte, or it is made again; nothing is written without passing the gates; the
journal has the entries before a file is touched; all steps are done, or every file keeps its old
bytes, unless Unsettled is raised. What a dead process left open at a file is settled before the
lock of that file is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import local
from typing import TypeVar

from copydesk.desk.backends.api import Entry, Records, State, Tied
from copydesk.desk.recovery import Inode, Recovery
from copydesk.desk.steps import Bench, Step, WriteRequest
from copydesk.errors import (
    Busy,
    Failed,
    FileExists,
    FileNotFound,
    NotAFile,
    Refusal,
    Unsettled,
    check_cancelled,
)
from copydesk.store.files import Files
from copydesk.store.locks import LockQueues, Ticket, inode_key
from copydesk.store.protocol import (
    NOBODY,
    Caller,
    Deadline,
    NotPutBack,
    OpenText,
    TargetMoved,
)
from copydesk.text.relpath import RelPath

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


class _Found(local):
    """Open entries that this thread found and must recover; until when it waits for locks."""

    def __init__(self) -> None:
        self.due: tuple[Entry, ...] = ()
        self.until: Deadline | None = None


class Locks:
    """File locks that first recover any transaction a dead process left open."""

    def __init__(
        self, files: Files, queues: LockQueues, journal: Records, recovery: Recovery
    ) -> None:
        self._files, self._queues, self._journal = files, queues, journal
        self._recovery = recovery
        self._found = _Found()

    def settle(self, *paths: RelPath) -> None:
        """Recover what a dead process left open at real paths, or anywhere without any.

        One that lives is not waited for, and who only reads needs no journal.
        """
        with suppress(Refusal):
            found = self._journal.open_at(paths) if paths else None
            if found is None:
                found = tuple(entry.edit_id for entry in self._journal.in_doubt())
            for edit_id in found:
                if (entry := self._journal.get(edit_id)) is not None and entry.state == "open":
                    self._recovery.settle(entry, Deadline(0.0))

    def of(
        self, real: RelPath, ticket: Ticket, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """The lock of one file, by its real path; raises Failed, Busy."""
        return self.of_all({real: ticket}, caller)

    @contextmanager
    def of_all(self, tickets: Mapping[RelPath, Ticket], caller: Caller = NOBODY) -> Generator[None]:
        """Hold the locks of several files; first recovers transactions that are open there.

        The writer of such a one held all its locks, so it is gone. Raises Failed if it cannot be
        recovered, or Busy.
        """
        keys = {str(real): ticket for real, ticket in tickets.items()}
        found, until = self._found, Deadline(self._queues.seconds)
        due, found.due, found.until = found.due, (), until
        while True:
            for entry in due:
                self._settle(entry)
            with ExitStack() as held:
                for key in sorted(keys):
                    held.enter_context(self._queues.lock(key, keys[key], caller, until))
                left = self._journal.open_at(tickets)
                if not left:
                    yield
                    return
            due = tuple(filter(None, map(self._journal.get, left)))

    @contextmanager
    def of_inode(self, inode: Inode, ticket: Ticket, caller: Caller = NOBODY) -> Generator[None]:
        """Hold the lock of a file with several names, by device and inode, besides its path locks.

        Raises TargetMoved if an entry is open there under another name; the thread's next
        `of_all` settles it first.
        """
        with self._queues.lock(inode_key(*inode), ticket, caller, self._found.until):
            doubts = self._journal.in_doubt()
            left = tuple(one for one in doubts if self._is_at(one.path, inode))
            if left:
                self._found.due = left
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
                where = f"{entry.path}: {settled.reason}"
                raise Failed("recover an unfinished write", where)


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
        found: dict[RelPath, OpenText | Refusal] = {}
        several: dict[RelPath, Inode] = {}  # the files with several names
        for real, how in wanted.items():
            one = found[real] = _opened(real, how, held)
            if isinstance(one, OpenText) and one.stamp.nlink > 1:
                several[real] = one.stamp.dev, one.stamp.ino
        for inode in sorted(set(several.values())) if several else ():
            held.enter_context(self._locks.of_inode(inode, ticket, caller))
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
        order = sorted(steps, key=attrgetter("order")) if len(steps) > 1 else steps
        work = _Work(order)
        try:
            with ExitStack() as held:  # temporary files are removed before the locks go
                several, now_ms = len(order) > 1, self._clock()
                at = Bench(self._files, self._journal, held, now_ms, group, several)
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
        return tuple([entry for step in steps for entry in step.entries])

    def _do(self, work: _Work, at: Bench) -> None:
        """Record the intents, in the order that recovery relies on, and do the steps."""
        for step in work.steps:
            if step.is_digested:
                work.now = step
                step.stage(at)
        work.now = None
        self._record(work.steps, at)
        for step in work.steps:
            if not step.is_digested and not step.keeps_text:
                work.now = step
                step.stage(at)
        for step in work.steps:
            work.now = step
            if step.keeps_text:  # on what the steps before have made of the file
                step.stage(at)
            work.is_committing = True
            step.commit(at)
            work.is_committing = False

    def _record(self, steps: Sequence[Step], at: Bench) -> None:
        """Record all intents in one flushed transaction, and tie the plans to them."""
        made: list[tuple[Step, Entry]] = []
        plans: list[Tied] = []
        for step in steps:
            for entry in step.make_entries(at):
                made.append((step, entry))
            for part in step.parts:
                if part.job.hunk_id and part.job.is_stored:
                    plans.append((part.job.hunk_id, part.job.ticket[0], part.decided_ms))
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


@dataclass(slots=True)
class _Work:
    """The steps of a transaction, how far it is, and after an error what could not be restored."""

    steps: Sequence[Step]
    now: Step | None = None
    is_committing: bool = False
    is_written: bool = False
    left: list[Step] = field(default_factory=list[Step])

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


def _opened(real: RelPath, how: Opener, held: ExitStack) -> OpenText | Refusal:
    try:
        opened = held.enter_context(how())
    except Refusal as refusal:
        return refusal
    if opened.real != real:
        raise TargetMoved
    return opened
