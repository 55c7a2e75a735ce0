"""Crash recovery: find writes whose process died, and tell what became of each file.

A process marks its writes as done before it releases their locks, so an open entry whose locks are
free is that of a dead one. Each file is as before the write, or as after it, or in doubt: another
program wrote to it, which is told and not mended. If all are as after, the transaction is done;
else the others are put back.

Invariants: a transaction is judged under the locks of all its files; only what copydesk wrote is
overwritten. Locks are taken in the order of their keys, inodes after paths.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from copydesk.desk.backends.api import Entry, Records, State
from copydesk.desk.steps import Found, step_of
from copydesk.errors import Busy, Refusal
from copydesk.store.files import Files
from copydesk.store.locks import LockQueues, inode_key
from copydesk.store.protocol import Deadline, NotPutBack, TargetMoved
from copydesk.text.relpath import RelPath

Inode = tuple[int, int]
"""A file's identity, whatever its name: device and inode."""

LEFT_OVER_MS = 60_000
"""From this age on, a temporary file belongs to no running write."""

LIVING_SECONDS = 0.5
"""How long a start waits in all for locks of others; who still holds one then is alive."""

_ATTEMPTS = 5
_MOVING = "another program changes the file again and again"


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry that was found open, and how it ended.

    `open`: it could not be settled; `reason` says why in a few words, and `refusal` is the error,
    if there was one. `unsure`: another program changed the file, so that nobody can tell whether it
    contains the edit.
    """

    entry: Entry
    state: State
    reason: str = ""
    refusal: Refusal | None = None

    @staticmethod
    def refused(entry: Entry, refusal: Refusal) -> Settled:
        """An entry that stays open because of a refusal."""
        reason = str(refusal.facts().get("reason", refusal.code))
        return Settled(entry, "open", reason, refusal)


class Recovery:
    """Settles the open entries of one workspace."""

    def __init__(self, files: Files, queues: LockQueues, journal: Records) -> None:
        self._files, self._queues, self._journal = files, queues, journal

    def run(self) -> tuple[Settled, ...]:
        """Recover all open entries and return their outcomes; running writes stay open."""
        until = Deadline(LIVING_SECONDS)
        return tuple(
            settled
            for entries in self._transactions(self._journal.in_doubt())
            for settled in self.settle(entries[0], until)
        )

    def doubts(self) -> tuple[Entry, ...]:
        """The open entries that `run` would have to handle; changes nothing."""
        found: list[Entry] = []
        until = Deadline(LIVING_SECONDS)
        for entries in self._transactions(self._journal.in_doubt()):
            with suppress(Busy), self._locks(entries, until):
                found += (one for one in self._of(entries[0]) if one.state == "open")
        return tuple(found)

    def sweep(self, now_ms: int, most: int = 1_000) -> tuple[int, tuple[RelPath, ...]]:
        """Remove killed processes' leftovers, recording unknown content; count, and those kept."""
        known: dict[RelPath, set[str]] = {}
        for entry in self._journal.entries(most=most):
            known.setdefault(entry.path, set()).update((entry.before, entry.after))
        removed, kept = 0, list[RelPath]()
        for folder in sorted({path.parent for path in known}, key=str):
            with suppress(Refusal):
                found = self._files.sweep(folder, 1_000_000 * (now_ms - LEFT_OVER_MS), known)
                removed += found[0]
                kept += found[1]
        return removed, tuple(kept)

    def settle(self, entry: Entry, until: Deadline | None = None) -> tuple[Settled, ...]:
        """Complete or roll back the entry's transaction; raises only errors of the journal."""
        entries = self._of(entry)
        try:
            with self._locks(entries, until):
                return self.settle_in_turn(self._of(entry))
        except Refusal as refusal:
            return tuple(Settled.refused(one, refusal) for one in entries)

    def settle_in_turn(
        self, entries: tuple[Entry, ...], inodes: Collection[Inode] = ()
    ) -> tuple[Settled, ...]:
        """Like `settle`, with all locks of a transaction and of `inodes` held; raises Refusal.

        For those that its writer, if it lived, has recorded meanwhile there is nothing to do.
        """
        left = tuple(entry for entry in entries if entry.state == "open")
        begun_back = any(entry.state in ("failed", "unsure") for entry in entries)
        reason = _MOVING
        for _ in range(_ATTEMPTS + len(left)):
            try:
                return self._settled(left, inodes, begun_back=begun_back)
            except TargetMoved:
                continue
            except NotPutBack as torn:
                reason = str(torn)
            except Refusal as refusal:
                return tuple(Settled.refused(entry, refusal) for entry in left)
            break
        return tuple(Settled(entry, "open", reason) for entry in left)

    def _of(self, entry: Entry) -> tuple[Entry, ...]:
        """All entries of an entry's transaction, as they are now."""
        if entry.group:
            return self._journal.of_group(entry.group)
        now = self._journal.get(entry.edit_id)
        return () if now is None else (now,)

    def _transactions(self, entries: Iterable[Entry]) -> list[list[Entry]]:
        found: dict[object, list[Entry]] = {}
        for entry in entries:
            found.setdefault(entry.group or entry.edit_id, []).append(entry)
        return [*found.values()]

    def _settled(
        self, entries: tuple[Entry, ...], inodes: Collection[Inode], *, begun_back: bool
    ) -> tuple[Settled, ...]:
        """Close all entries; if it raises TargetMoved, Refusal, NotPutBack, it can be run again."""
        chains = _by_path(entries)
        moves = [self._look(one, one[0].path) for one in chains if one[0].moved]
        now_at = {one.entries[0].path: one.entries[1].path for one in moves if one.how == "written"}
        texts = [one for one in chains if not one[0].moved]
        found = [self._look(one, now_at.get(one[0].path, one[0].path)) for one in texts] + moves
        if not begun_back and all(each.how == "written" for each in found):
            for each in found:
                self._sweep(each.entries, entries)
            self._close(entries, "done")
            return tuple(Settled(entry, "done") for entry in entries)
        for each in reversed(found):  # moves first: what is restored then is at its old name
            self._put_back(each, inodes)
            self._sweep(each.entries, entries)
            first = each.entries[0]
            self._files.remove_parents(first.path, first.made_directories)
            if each.how == "written" and (each in moves or first.mode_changed):
                raise TargetMoved()  # its earlier writes have to be examined again
        unsure = [entry for each in found if each.how == "unknown" for entry in each.entries]
        self._close(unsure, "unsure")
        self._close([entry for entry in entries if entry not in unsure], "failed")
        return tuple(Settled(e, "unsure" if e in unsure else "failed") for e in entries)

    def _look(self, entries: tuple[Entry, ...], at: RelPath) -> Found:
        return step_of(entries[0]).look(self._files, self._journal, entries, at)

    def _put_back(self, found: Found, inodes: Collection[Inode]) -> None:
        """Restore a file, with the lock of its inode if it has several names."""
        first, stamp = found.entries[0], found.stamp
        queue: AbstractContextManager[None] = nullcontext()
        if stamp is not None and stamp.nlink > 1 and (stamp.dev, stamp.ino) not in inodes:
            queue = self._queues.lock(
                inode_key(stamp.dev, stamp.ino), (first.time_ms, first.hunk_id)
            )
        with queue:
            step_of(first).put_back(self._files, found)

    def _close(self, entries: Sequence[Entry], state: State) -> None:
        if entries:
            self._journal.close_all([entry.edit_id for entry in entries], state)

    def _sweep(self, entries: Sequence[Entry], every: Sequence[Entry]) -> None:
        """Remove a write's leftovers, which any entry of it has; data of other programs is kept."""
        if entries[0].moved is not None:  # what is there was left by an earlier write
            return
        known = {digest for entry in every for digest in (entry.before, entry.after)}
        with suppress(Refusal):
            self._files.sweep_for(entries[0].path, known)

    @contextmanager
    def _locks(self, entries: Iterable[Entry], until: Deadline | None = None) -> Generator[None]:
        """Hold the locks of the entries' files, taken in the order of their keys."""
        tickets = {str(entry.path): (entry.time_ms, entry.hunk_id) for entry in entries}
        with ExitStack() as held:
            for key in sorted(tickets):
                caller = ("copydesk", "recover")
                held.enter_context(self._queues.lock(key, tickets[key], caller, until))
            yield


def _by_path(entries: Iterable[Entry]) -> list[tuple[Entry, ...]]:
    """Group the entries by file, in order; moves and changes of mode on their own."""
    chains: dict[tuple[str, RelPath], list[Entry]] = {}
    for entry in entries:
        moved = entry.moved
        target = entry.path if moved is None or not moved.is_source else moved.other
        kind = "move" if moved else "mode" if entry.mode_changed else ""
        chains.setdefault((kind, target), []).append(entry)
    return [tuple(chain) for chain in chains.values()]
