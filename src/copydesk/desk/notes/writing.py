"""The one way notes are written: in the turns of their documents, recorded, all or none.

What lives here: files of notes through the writer of several files, a store that
writes by itself through the journal. What must not: what is written and why.
Invariants: nothing is written but on what was prepared on; the entry is in the
journal before anything is; what cannot be told to be undone is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from copydesk.desk.approving import Approving
from copydesk.desk.committing import Committing, Rewriting, Stopped
from copydesk.desk.journal import Entry
from copydesk.desk.notes.home import Notes
from copydesk.desk.notes.planning import Ready
from copydesk.desk.outcome import Revision
from copydesk.desk.setting import Setting
from copydesk.desk.writing import ATTEMPTS, Job
from copydesk.edit.notes.draft import DocumentText, digest_of_texts, joined
from copydesk.errors import ContentChanged, Failed, Refusal, check_cancelled
from copydesk.store.notes.errors import NotesTorn
from copydesk.store.notes.protocol import ChangesDone
from copydesk.store.protocol import OpenText, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BlocksWritten:
    """What was written, and what the store left: ids by change, none where it could not tell.

    `edit_ids` are those of the journal, one for each file; none when nothing changed.
    """

    ready: Ready
    done: ChangesDone
    edit_ids: tuple[int, ...]
    told: bool = True


def _nothing() -> None:
    """Nobody has to be asked, or told."""


class NotesWriting:
    """Writes the notes of one workspace."""

    def __init__(self, setting: Setting, notes: Notes) -> None:
        self._set, self._notes = setting, notes
        self._approving = Approving(setting.decisions)
        self._committing = Committing(
            setting.files, setting.journal, setting.recovery, setting.clock
        )

    def write(
        self,
        job: Job,
        make: Callable[[], Ready],
        still: Callable[[], None] = _nothing,
        then: Callable[[], None] = _nothing,
    ) -> BlocksWritten:
        """Write what `make` makes of the notes as they are; it is asked again when they move on.

        `still` is called in the turns before anything else and may refuse; `then`
        after the write, in the turns.
        """
        changed: ContentChanged | None = None
        for _ in range(ATTEMPTS):
            ready = make()
            try:
                return self._attempt(job, ready, still, then)
            except TargetMoved:
                changed = None
            except _Moved as moved:
                changed = moved.refusal
        raise changed or Failed("write", "the notes are changed by another program again and again")

    def _attempt(
        self, job: Job, ready: Ready, still: Callable[[], None], then: Callable[[], None]
    ) -> BlocksWritten:
        paths = [document.path for document in ready.documents] or [ready.path]
        self._notes.check(job.member, "write", paths)
        self._notes.check(job.member, "read", paths)
        reals = {self._set.files.resolve(path): path for path in paths}
        with (
            self._set.turns.of_all(dict.fromkeys(reals, job.ticket), job.caller),
            ExitStack() as held,
        ):
            still()
            self._notes.check(job.member.now(), "write", paths)
            self._approve(job, ready)
            if ready.documents and self._notes.home(job.member).in_files:
                made = self._in_files(job, ready, held)
            elif ready.nothing or self._notes.home(job.member).in_files:
                made = BlocksWritten(
                    ready, self._notes.home(job.member).store.execute(ready.prepared), ()
                )
            else:
                made = self._in_store(job, ready)
            with suppress(Refusal):  # it is written, and the journal settles the rest
                then()
            return made

    def _approve(self, job: Job, ready: Ready) -> None:
        """Raise where a person has to see all of it first, and has not approved it."""
        if not ready.documents:
            return
        reals = [self._set.files.resolve(one.path) for one in ready.documents]
        whole = joined(ready.documents)
        self._approving.check(
            job.member,
            job.plan,
            reals[0],
            whole,
            created=whole.created,
            files=len(reals),
            others=reals[1:],
        )

    def _in_files(self, job: Job, ready: Ready, held: ExitStack) -> BlocksWritten:
        documents = {self._set.files.resolve(one.path): one for one in ready.documents}
        opened = self._opened(job, documents, held)
        rewritings = [
            Rewriting(real, opened.get(real), ((_job(job, one), _revision(one)),))
            for real, one in sorted(documents.items(), key=lambda pair: str(pair[0]))
        ]
        for each in rewritings:  # with the texts after them recovery can tell what others did
            after = each.steps[-1][1].after
            if isinstance(after, Snapshot):
                self._set.bases.keep(after, each.real)
        try:
            entries = self._committing.write(self._set.ids() + self._set.ids(), rewritings)
        except Stopped as stopped:
            raise stopped.refusal from None
        edit_ids = tuple(entry.edit_id for entry in entries)
        try:
            done = self._notes.home(job.member).store.execute(ready.prepared)
        except Refusal:  # the texts are written, whoever writes next to them
            return BlocksWritten(ready, ChangesDone(()), edit_ids, told=False)
        return BlocksWritten(ready, done, edit_ids)

    def _opened(
        self, job: Job, documents: dict[RelPath, DocumentText], held: ExitStack
    ) -> dict[RelPath, OpenText]:
        """The files that are there, open, as they were prepared on; raises TargetMoved."""
        there = [real for real, document in documents.items() if not document.created]
        opened = {real: self._open(real, held) for real in there}
        inodes: dict[tuple[int, int], RelPath] = {}
        for real, text in opened.items():
            inode = (text.stamp.dev, text.stamp.ino)
            if inodes.setdefault(inode, real) != real:
                raise Failed("write several documents", f"{real} and {inodes[inode]} are one file")
        linked = sorted(i for i, real in inodes.items() if opened[real].stamp.nlink > 1)
        for inode in linked:
            held.enter_context(self._set.turns.of_inode(inode, job.ticket, job.caller))
        for inode in linked:
            real = inodes[inode]
            opened[real] = self._open(real, held)
            if (opened[real].stamp.dev, opened[real].stamp.ino) != inode:
                raise TargetMoved()
        if any(opened[real].source.digest != documents[real].base.digest for real in there):
            raise TargetMoved()
        return opened

    def _open(self, real: RelPath, held: ExitStack) -> OpenText:
        opened = held.enter_context(self._set.files.text(real, self._set.named))
        if opened.real != real:
            raise TargetMoved()
        return opened

    def _in_store(self, job: Job, ready: Ready) -> BlocksWritten:
        """What the store writes by itself: recorded before, and the way back after."""
        journal = self._set.journal
        check_cancelled()
        edit_id = journal.open(self._entry(job, ready))
        try:
            done = self._notes.home(job.member).store.execute(ready.prepared)
        except NotesTorn:
            journal.close_entry(edit_id, "unsure")
            raise
        except ContentChanged as changed:
            journal.close_entry(edit_id, "failed")
            raise _Moved(changed) from None
        except Refusal:
            journal.close_entry(edit_id, "failed")
            raise
        journal.keep_undo(edit_id, done.undo)
        journal.close_entry(edit_id, "done")
        return BlocksWritten(ready, done, (edit_id,))

    def _entry(self, job: Job, ready: Ready) -> Entry:
        """The entry of what a store is about to write; it has no file to be judged by."""
        now_ms = self._set.clock()
        before, after = map(_joined, (ready.prepared.before, ready.prepared.after))
        return Entry(
            time_ms=now_ms,
            member=job.member.name,
            tool=job.tool,
            path=ready.path,
            kind="notes",
            before=digest_of_texts(before),
            after=digest_of_texts(after or f"{now_ms} {job.tool}"),
            inverse=ChangeSet.of(0, []),
            diff=b"".join(document.diff for document in ready.documents),
            hunk_id=job.hunk_id,
            undoes=job.undoes,
        )


class _Moved(Exception):
    """The store says that what was prepared on is there no more; nothing was written."""

    def __init__(self, refusal: ContentChanged) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def texts_digest(texts: Mapping[str, str]) -> str:
    """The digest that an entry has of the texts of all its documents."""
    return digest_of_texts(_joined(texts))


def _joined(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{path}\n{text}" for path, text in sorted(texts.items()))


def _job(job: Job, document: DocumentText) -> Job:
    return replace(job, path=document.path)


def _revision(document: DocumentText) -> Revision:
    return Revision(document.base, document.change, document.after, document.diff)
