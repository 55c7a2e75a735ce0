"""The one way a file is written: read in its turn, made anew, recorded, replaced.

What lives here: the loop from the lane to the journal. What must not: what is
edited and why (the caller's `make` says it), who approves (`approving`).
Invariants: what `make` saw is what is replaced, byte for byte, or it is asked
again; nothing is written that the gate has not let pass; the entry is in the
journal before the file is touched; a success is reported only for bytes that
were written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeGuard, TypeVar

from copydesk.desk.approving import Approving
from copydesk.desk.decisions import Version
from copydesk.desk.journal import Entry, Journal
from copydesk.desk.lanes import Ticket
from copydesk.desk.member import Member
from copydesk.desk.pieces import kept_and_new
from copydesk.desk.seeing import authorized
from copydesk.desk.turns import Turns
from copydesk.errors import (
    Failed,
    FileNotFound,
    Refusal,
    TurnLost,
    Unsettled,
    check_cancelled,
)
from copydesk.store.files import Files
from copydesk.store.holder import Caller
from copydesk.store.protocol import Named, NotPutBack, OpenText, Piece, TargetMoved
from copydesk.store.stamp import Stamp
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text, whole
from copydesk.text.source import Source

ATTEMPTS = 10
"""How often a write starts again when another program wrote in the meantime."""


class Made(Protocol):
    """What is to be written: a change of a text, and its diff."""

    @property
    def base(self) -> Text:
        """The text before."""
        ...

    @property
    def change(self) -> ChangeSet:
        """The change of it."""
        ...

    @property
    def after(self) -> Text:
        """The text after."""
        ...

    @property
    def diff(self) -> bytes:
        """The unified diff."""
        ...


M = TypeVar("M", bound=Made)


@dataclass(frozen=True, slots=True)
class Written(Generic[M]):
    """What was made and written; `edit_id` is 0 when nothing changed, and nothing was written.

    `digest` is the SHA-256 of the file after, in hex.
    """

    made: M
    edit_id: int
    digest: str


@dataclass(frozen=True, slots=True)
class Job:
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

    def write(
        self,
        job: Job,
        make: Callable[[Source], M],
        make_new: Callable[[], M] | None = None,
        still: Callable[[], None] = lambda: None,
        then: Callable[[], None] = lambda: None,
    ) -> Written[M]:
        """Write what `make` makes of the file as it is in its turn.

        `make_new` is asked when there is no file. `still` is called in the turn
        before anything else and may refuse; `then` after the write, in the turn.
        """
        for _ in range(ATTEMPTS):
            # Every answer shows content, or tells that there is some.
            real = authorized(self._files, job.member, job.path, "write", "read")
            with self._turns.of(real, job.ticket, job.caller):
                still()
                try:
                    written = self._write_in_turn(job, real, make, make_new)
                except TargetMoved:
                    continue
                with suppress(Refusal):  # it is written, and the journal settles the rest
                    then()
                return written
        raise Failed("write", "the file is changed by another program again and again")

    def create(self, job: Job, make_new: Callable[[], M]) -> Written[M]:
        """Write a file that does not exist; raises FileExists and NotAFile."""
        for _ in range(ATTEMPTS):
            real = authorized(self._files, job.member, job.path, "write", "read")
            with self._turns.of(real, job.ticket, job.caller):
                try:
                    return self._create_in_turn(job, real, make_new())
                except TargetMoved:
                    continue
        raise Failed("create", "the directory is changed by another program again and again")

    def remove(
        self, job: Job, make: Callable[[Source], M], still: Callable[[], None]
    ) -> Written[M]:
        """Remove the file in its turn; `make` gives the change that takes all of it away.

        `still` is called in the turn before anything else; both may refuse.
        """
        for _ in range(ATTEMPTS):
            real = authorized(self._files, job.member, job.path, "write", "read")
            with self._turns.of(real, job.ticket, job.caller):
                still()
                try:
                    return self._remove_in_turn(job, real, make)
                except TargetMoved:
                    continue
        raise Failed("remove", "the file is changed by another program again and again")

    def _write_in_turn(
        self,
        job: Job,
        real: RelPath,
        make: Callable[[Source], M],
        make_new: Callable[[], M] | None,
    ) -> Written[M]:
        with ExitStack() as held:
            try:
                opened = held.enter_context(self._files.text(job.path, self._named))
            except FileNotFound:
                if make_new is None:
                    raise
                return self._create_in_turn(job, real, make_new())
            _require(opened.real == real)
            if opened.stamp.nlink > 1:
                opened = held.enter_context(self._linked(job, opened))
            return self._replace(job, opened, make(opened.source))

    @contextmanager
    def _linked(self, job: Job, named: OpenText) -> Generator[OpenText]:
        """A file with several names has a lane of its own besides that of the name."""
        lane = named.stamp
        with (
            self._turns.of_inode((lane.dev, lane.ino), job.ticket, job.caller),
            self._files.text(job.path, self._named) as opened,
        ):
            _require(opened.real == named.real)
            _require((opened.stamp.dev, opened.stamp.ino) == (lane.dev, lane.ino))
            yield opened

    def _replace(self, job: Job, opened: OpenText, made: M) -> Written[M]:
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

    def _create_in_turn(self, job: Job, real: RelPath, made: M) -> Written[M]:
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

    def _remove_in_turn(self, job: Job, real: RelPath, make: Callable[[Source], M]) -> Written[M]:
        with ExitStack() as held:
            opened = held.enter_context(self._files.text(job.path, self._named))
            _require(opened.real == real)
            if opened.stamp.nlink > 1:
                opened = held.enter_context(self._linked(job, opened))
            made = make(opened.source)
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

    def _entry(self, job: Job, real: RelPath, made: Made, after: str, *, created: bool) -> Entry:
        return entry_of(job, real, made, after, self._clock(), created=created)


def entry_of(
    job: Job, real: RelPath, made: Made, after: str, time_ms: int, *, created: bool
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
