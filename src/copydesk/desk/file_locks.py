"""Locks of files as the desk takes them; what a dead process left open there is settled first."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import local

from copydesk.desk.backends.api import Entry, Records
from copydesk.desk.recovery import Recovery
from copydesk.errors import Busy, Failed, Refusal
from copydesk.store.files import Files
from copydesk.store.locks import LockQueues, Ticket, inode_key
from copydesk.store.protocol import NOBODY, Caller, Deadline, TargetMoved
from copydesk.text.relpath import RelPath


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
        keys = sorted((str(real), real) for real in tickets)
        until = self._queues.deadline()
        due, self._found.due, self._found.until = self._found.due, (), until
        while True:
            for entry in due:
                self._settle(entry)
            with ExitStack() as held:
                for key, real in keys:
                    held.enter_context(self._queues.lock(key, tickets[real], caller, until))
                left = self._journal.open_at(tickets)
                if not left:
                    yield
                    return
            due = tuple(filter(None, map(self._journal.get, left)))

    @contextmanager
    def of_inode(
        self, inode: tuple[int, int], ticket: Ticket, caller: Caller = NOBODY
    ) -> Generator[None]:
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

    def _is_at(self, path: RelPath, inode: tuple[int, int]) -> bool:
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
