"""The one way a file is written: read in its turn, made anew, recorded, replaced.

What lives here: the loop from the lane to the journal. What must not: what is
edited and why (the caller's `make` says it). Invariants: what `make` saw is
what is replaced, byte for byte, or it is asked again; the entry is in the
journal before the file is touched; a success is reported only for bytes that
were written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from copydesk.desk.journal import Entry, Journal
from copydesk.desk.lanes import Lanes, Ticket
from copydesk.desk.member import Member
from copydesk.errors import Failed, FileNotFound, Refusal
from copydesk.store.protocol import Document, Files, InPlaceTorn, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

ATTEMPTS = 10
"""How often a write starts again when another program wrote in the meantime."""


class Made(Protocol):
    """What is to be written: a change of a snapshot, and its diff."""

    @property
    def base(self) -> Snapshot:
        """The text before."""
        ...

    @property
    def change(self) -> ChangeSet:
        """The change of it."""
        ...

    @property
    def after(self) -> Snapshot:
        """The text after."""
        ...

    @property
    def diff(self) -> bytes:
        """The unified diff."""
        ...


M = TypeVar("M", bound=Made)


@dataclass(frozen=True, slots=True)
class Job:
    """One write: who, with what tool, where, in what order among those that wait."""

    member: Member
    tool: str
    path: RelPath
    ticket: Ticket
    hunk_id: str = ""


class Writer:
    """Writes files one at a time each, through the journal."""

    def __init__(
        self,
        files: Files,
        lanes: Lanes,
        journal: Journal,
        clock: Callable[[], int],
        named: Callable[[RelPath], str | None],
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self._clock, self._named = clock, named

    def write(
        self,
        job: Job,
        make: Callable[[Snapshot], M],
        make_new: Callable[[], M] | None = None,
        still: Callable[[], None] = lambda: None,
        then: Callable[[], None] = lambda: None,
    ) -> tuple[M, int]:
        """Write what `make` makes of the file as it is in its turn; with the edit's id.

        The id is 0 when nothing changed, and then nothing is written.
        `make_new` is asked when there is no file. `still` is called in the turn
        before anything else and may refuse; `then` after the write, in the turn.
        """
        for _ in range(ATTEMPTS):
            real = self._files.resolve(job.path)
            job.member.permission.check("write", job.path, real)
            job.member.permission.check("read", job.path, real)  # every answer shows content
            with self._lanes.turn(str(real), job.ticket):
                still()
                try:
                    written = self._write_in_turn(job, real, make, make_new)
                except TargetMoved:
                    continue
                with suppress(Refusal):  # it is written, and the journal settles the rest
                    then()
                return written
        raise Failed("write", "the file is changed by another program again and again")

    def create(self, job: Job, make_new: Callable[[], M]) -> tuple[M, int]:
        """Write a file that does not exist; raises FileExists and NotAFile."""
        for _ in range(ATTEMPTS):
            real = self._files.resolve(job.path)
            job.member.permission.check("write", job.path, real)
            with self._lanes.turn(str(real), job.ticket):
                try:
                    return self._create_in_turn(job, real, make_new())
                except TargetMoved:
                    continue
        raise Failed("create", "the directory is changed by another program again and again")

    def _write_in_turn(
        self,
        job: Job,
        real: RelPath,
        make: Callable[[Snapshot], M],
        make_new: Callable[[], M] | None,
    ) -> tuple[M, int]:
        try:
            document = self._files.read(job.path)
        except FileNotFound:
            if make_new is None:
                raise
            return self._create_in_turn(job, real, make_new())
        _require(document.real == real)
        with self._linked(document, job.ticket):
            if document.stamp.nlink > 1:
                lane, document = document.stamp, self._files.read(job.path)
                _require(document.real == real)
                _require((document.stamp.dev, document.stamp.ino) == (lane.dev, lane.ino))
            made = make(Snapshot.of(document.data, self._named(real)))
            return made, self._replace(job, document, made)

    @contextmanager
    def _linked(self, document: Document, ticket: Ticket) -> Generator[None, None, None]:
        """A file with several names has a lane of its own besides that of the name."""
        if document.stamp.nlink <= 1:
            yield
            return
        with self._lanes.turn(f"inode {document.stamp.dev} {document.stamp.ino}", ticket):
            yield

    def _replace(self, job: Job, document: Document, made: Made) -> int:
        if made.after.data == document.data:
            return 0
        edit_id = self._journal.open(self._entry(job, document.real, made, created=False))
        try:
            self._files.replace(
                job.path,
                document.stamp,
                made.base.digest,
                made.change.pieces(document.data),
                before_in_place=lambda old: self._journal.keep_whole(edit_id, old),
                expected_real=document.real,
            )
        except InPlaceTorn as torn:
            raise Failed("write in place", f"{torn}; the journal has the old bytes") from None
        except (Refusal, TargetMoved):
            self._journal.close_entry(edit_id, "failed")
            raise
        self._journal.close_entry(edit_id, "done")
        return edit_id

    def _create_in_turn(self, job: Job, real: RelPath, made: M) -> tuple[M, int]:
        edit_id = self._journal.open(self._entry(job, real, made, created=True))
        try:
            self._files.create(job.path, made.after.data, expected_real=real)
        except (Refusal, TargetMoved):
            self._journal.close_entry(edit_id, "failed")
            raise
        self._journal.close_entry(edit_id, "done")
        return made, edit_id

    def _entry(self, job: Job, real: RelPath, made: Made, *, created: bool) -> Entry:
        return Entry(
            time_ms=self._clock(),
            member=job.member.name,
            tool=job.tool,
            path=real,
            kind="create" if created else "edit",
            before="" if created else made.base.digest,
            after=made.after.digest,
            inverse=made.change.invert(made.base.data),
            diff=made.diff,
            hunk_id=job.hunk_id,
        )


def _require(still: bool) -> None:
    """What the lane and the permission stand for is what was read; else read again."""
    if not still:
        raise TargetMoved
