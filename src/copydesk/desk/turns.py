"""Turns at files that nobody who died has left half done.

What lives here: the lanes of one file or of several, in an order that all keep,
and the settling of groups found open there. What must not: reading, writing.
Invariants: within a turn no group is open at its files; lanes are taken in the
order of their keys, those of inodes after those of paths, so no two wait for
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import local

from copydesk.desk.journal import Journal
from copydesk.desk.lanes import Lanes, Ticket, inode_key
from copydesk.desk.recovery import Recovery
from copydesk.errors import Failed, Refusal
from copydesk.store.files import Files
from copydesk.store.holder import NOBODY, Caller
from copydesk.store.protocol import TargetMoved
from copydesk.text.relpath import RelPath


class _Found(local):
    """The groups that the thread at hand found open, and has to have settled."""

    def __init__(self) -> None:
        self.due: tuple[str, ...] = ()


class Turns:
    """The turns of one workspace."""

    def __init__(
        self,
        files: Files,
        lanes: Lanes,
        journal: Journal,
        recovery: Recovery,
        clock: Callable[[], int],
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self._recovery, self._clock = recovery, clock
        self._found = _Found()

    def of(
        self, real: RelPath, ticket: Ticket, caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """The turn of one file, by its real path; raises Failed, Busy."""
        return self.of_all({real: ticket}, caller)

    @contextmanager
    def of_all(self, tickets: Mapping[RelPath, Ticket], caller: Caller = NOBODY) -> Generator[None]:
        """The turns of several files at once.

        Who holds the lane of a file and finds a group open there knows that its
        writer is gone, for that one held all lanes of the group: it lets go, has
        the group settled, and waits for its turn anew. Raises Failed when the
        group cannot be settled, Busy when a turn is not to be had in time.
        """
        until = self._lanes.deadline()
        while True:
            due, self._found.due = self._found.due, ()
            for group in due:
                self._settle(group)
            with ExitStack() as held:
                for real in sorted(tickets, key=str):
                    held.enter_context(self._lanes.turn(str(real), tickets[real], caller, until))
                left = {group for real in tickets for group in self._journal.open_groups(real)}
                if not left:
                    yield
                    return
            for group in sorted(left):
                self._settle(group)

    @contextmanager
    def of_inode(
        self, inode: tuple[int, int], ticket: Ticket, caller: Caller = NOBODY
    ) -> Generator[None]:
        """The turn of a file with several names, by device and inode.

        It is taken within the turns of all paths that are wanted, the smallest first.
        Raises TargetMoved when a group is open there under another name of the file;
        it is settled before the next turn of this thread then, which holds no lane.
        """
        with self._lanes.turn(inode_key(*inode), ticket, caller):
            left = {
                entry.group
                for entry in self._journal.in_doubt()
                if entry.group and self._is_at(entry.path, inode)
            }
            if left:
                self._found.due = tuple(sorted(left))
                raise TargetMoved()
            yield

    def _is_at(self, path: RelPath, inode: tuple[int, int]) -> bool:
        """Whether the path is one of the names of the file."""
        try:
            _, stamp = self._files.stat(path)
        except Refusal:
            return False
        return (stamp.dev, stamp.ino) == inode

    def _settle(self, group: str) -> None:
        for settled in self._recovery.settle_group(group, self._clock()):
            if settled.state == "open":
                where = f"{settled.entry.path}: {settled.reason}"
                raise Failed("settle a transaction that was broken off", where)
