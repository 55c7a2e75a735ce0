"""Several files written all or none: recorded, made ready, then given their names.

What lives here: the order of journal, staging and commits, and the way back.
What must not: what is written (plans, drafts); the turns of the files, which
whoever calls holds. Invariants: the intent is in the journal before any file is
touched; what can be written beforehand is; whatever is raised but `Unsettled`,
every file holds its old bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from copydesk.desk.journal import Entry, Journal, State
from copydesk.desk.pieces import kept_and_new
from copydesk.desk.recovery import Recovery
from copydesk.desk.writing import Job, Made, digest_at, entry_of, may_be_written
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
from copydesk.store.protocol import NotPutBack, OpenText, Staged, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, whole

Step = tuple[Job, Made]


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
