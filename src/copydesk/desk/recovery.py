"""After a crash: what was under way is found in the journal, and settled.

What lives here: how open entries are settled, one by one or as a group, all or
none. What must not: how a file is judged and put back (`rollback`). Invariant:
an entry is settled in the turn of its file, a group in the turns of all its
files, so that of a process that is alive is not touched before it has let go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from copydesk.desk.journal import Entry, Journal, State
from copydesk.desk.lanes import Lanes
from copydesk.desk.registry import Registry
from copydesk.desk.rollback import TORN_MS, Found, How, Inode, Rollback
from copydesk.errors import Busy, HunkNotFound, Refusal
from copydesk.store.files import Files
from copydesk.store.holder import Deadline
from copydesk.store.protocol import NotPutBack, TargetMoved

LEFT_OVER_MS = 60_000
"""A temporary file as old as this is nobody's any more."""

GROUP_TORN_MS = 60_000
"""So long after its entries were made a group may begin to write in place."""

LIVING_SECONDS = 0.5
"""So long a start waits, for all open entries, for locks that others hold: those are alive."""

_ATTEMPTS = 5
_TORN = "it was torn in the middle, and the old bytes could not be put back"
_MOVING = "another program changes the file again and again"


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry that was found open, and how it ended.

    `open`: it could not be settled, and `reason` says why. `unsure`: another
    program changed the file, so that nobody can tell whether the edit is in it.
    """

    entry: Entry
    state: State
    reason: str = ""


class Recovery:
    """Settles the open entries of one workspace."""

    def __init__(
        self, files: Files, lanes: Lanes, journal: Journal, registry: Registry, rollback: Rollback
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self._registry, self._rollback = registry, rollback

    def run(self, now_ms: int) -> tuple[Settled, ...]:
        """Settle all open entries; what was found, and how each ended.

        What somebody is writing at this moment is left to them, and told as open.
        """
        found: list[Settled] = []
        groups: set[str] = set()
        until = Deadline(LIVING_SECONDS)
        for entry in self._journal.in_doubt():
            if not entry.group:
                found += self._settle_alone(entry, now_ms, until)
            elif entry.group not in groups:
                groups.add(entry.group)
                found += self.settle_group(entry.group, now_ms, until)
        return tuple(found)

    def doubts(self) -> tuple[Entry, ...]:
        """The open entries that `run` would have something to do for; nothing is changed."""
        found: list[Entry] = []
        until = Deadline(LIVING_SECONDS)
        for entry in self._journal.in_doubt():
            with suppress(Busy), self._turns([entry], until):
                now = self._journal.get(entry.edit_id)
                if now is None or now.state != "open":
                    continue
                if entry.group or self._judged(entry)[0] in ("torn", "unknown"):
                    found.append(entry)
        return tuple(found)

    def sweep(self, now_ms: int, most: int = 1_000) -> int:
        """Remove what killed processes left beside the files that were last written; how many."""
        folders = {entry.path.parent for entry in self._journal.entries(most=most)}
        count = 0
        for folder in sorted(folders, key=str):
            with suppress(Refusal):
                count += self._files.sweep(folder, 1_000_000 * (now_ms - LEFT_OVER_MS))
        return count

    def settle(self, entry: Entry, now_ms: int) -> State:
        """How the write of an entry ended, recorded; call it in the file's turn.

        `unsure`: a plan counts as applied then, lest it be applied twice. `open`:
        the file is torn and could not be put back.
        """
        how, found = self._judged(entry)
        state = _STATES[how]
        if how == "torn" and found is not None:
            try:
                self._rollback.put_back(found)
            except (Refusal, TargetMoved, NotPutBack):
                return "open"  # the journal keeps the old bytes until it is closed
        self._sweep([entry], how)
        self._journal.close_entry(entry.edit_id, state)
        self._end([entry], state, now_ms)
        return state

    def settle_group(
        self, group: str, now_ms: int, until: Deadline | None = None
    ) -> tuple[Settled, ...]:
        """Bring all files of the group to all or none, in their turns; raises nothing."""
        try:
            with self._turns(self._journal.of_group(group), until):
                return self.settle_in_turn(group, now_ms)
        except Refusal as refusal:
            return tuple(Settled(e, "open", str(refusal)) for e in self._journal.of_group(group))

    def settle_in_turn(
        self, group: str, now_ms: int, inodes: Collection[Inode] = ()
    ) -> tuple[Settled, ...]:
        """The same, where the turns of all files of the group are held; raises Refusal.

        `inodes` are those of them with several names whose turns are held too.
        """
        entries = self._journal.of_group(group)
        left = tuple(entry for entry in entries if entry.state == "open")
        begun_back = any(entry.state in ("failed", "unsure") for entry in entries)
        reason = _MOVING
        for _ in range(_ATTEMPTS):
            try:
                return self._settled(left, begun_back, now_ms, inodes)
            except TargetMoved:
                continue
            except NotPutBack as torn:
                reason = str(torn)
            except Refusal as refusal:
                reason = str(refusal.facts().get("reason", refusal.code))
            break
        return tuple(Settled(entry, "open", reason) for entry in left)

    def _settled(
        self,
        entries: tuple[Entry, ...],
        begun_back: bool,
        now_ms: int,
        inodes: Collection[Inode],
    ) -> tuple[Settled, ...]:
        """All entries closed; raises TargetMoved, Refusal, NotPutBack with some files put back.

        The way back can be begun again: a file that is back is left as it is.
        """
        found = [self._rollback.look(chain, GROUP_TORN_MS) for chain in _by_path(entries)]
        known = _known(found)
        if not begun_back and all(how in _IN for how in known):
            for each in found:
                self._sweep(each.entries, each.how)
            self._close(entries, "done", now_ms)
            return tuple(Settled(entry, "done") for entry in entries)
        for each in reversed(found):
            self._rollback.put_back(each, inodes)
            self._sweep(each.entries, each.how)
        unsure = [entry for each in found if each.how == "unknown" for entry in each.entries]
        self._close(unsure, "unsure", now_ms)
        self._close([entry for entry in entries if entry not in unsure], "failed", now_ms)
        return tuple(Settled(e, "unsure" if e in unsure else "failed") for e in entries)

    def _close(self, entries: Sequence[Entry], state: State, now_ms: int) -> None:
        if entries:
            self._journal.close_all([entry.edit_id for entry in entries], state)
            self._end(entries, state, now_ms)

    def _sweep(self, entries: Sequence[Entry], how: How) -> None:
        """Remove what the write of a file left beside it; of another program's nothing is lost.

        What was taken from the name stands there; only where nothing was written, or the
        file was new, it is what was to be written, which may be half done.
        """
        first = entries[0]
        known = {digest for entry in entries for digest in (entry.before, entry.after)}
        ours = how == "not written" or first.kind == "create"
        with suppress(Refusal):
            self._files.sweep_for(first.path, None if ours else known)

    def _settle_alone(self, entry: Entry, now_ms: int, until: Deadline) -> tuple[Settled, ...]:
        try:
            with self._turns([entry], until):
                now = self._journal.get(entry.edit_id)
                if now is None or now.state != "open":  # its writer was alive, and has recorded it
                    return ()
                state = self.settle(entry, now_ms)
        except Busy as busy:  # its writer may be alive
            return (Settled(entry, "open", str(busy)),)
        return (Settled(entry, state, _TORN if state == "open" else ""),)

    def _judged(self, entry: Entry) -> tuple[How, Found | None]:
        """What became of the write of one entry: what was written next, or stands there, tells."""
        later = self._journal.next_of(entry)
        if later is None:
            for _ in range(_ATTEMPTS):
                with suppress(TargetMoved):
                    found = self._rollback.look((entry,), TORN_MS)
                    return found.how, found
            return "unknown", None
        if later.before == entry.after:
            return "written", None
        return ("not written" if later.before == entry.before else "unknown"), None

    def _turns(self, entries: Iterable[Entry], until: Deadline | None = None) -> ExitStack:
        """The lanes of the entries' files, in the order of their keys."""
        tickets = {str(entry.path): (entry.time_ms, entry.hunk_id) for entry in entries}
        with ExitStack() as held:
            for key in sorted(tickets):
                caller = ("copydesk", "recover")
                held.enter_context(self._lanes.turn(key, tickets[key], caller, until))
            return held.pop_all()

    def _end(self, entries: Iterable[Entry], state: State, now_ms: int) -> None:
        """The plans of written entries are gone, where they still wait as they were then."""
        for entry in entries:
            if not entry.hunk_id or state == "failed":
                continue
            with suppress(Refusal):  # the journal has it too, and is asked before an apply
                try:
                    plan = self._registry.get(entry.hunk_id, now_ms)
                except HunkNotFound:
                    continue
                if plan.created_ms <= entry.time_ms:
                    self._registry.end(entry.hunk_id, "applied", now_ms)


_IN: tuple[How, ...] = ("written", "written over")
_STATES: dict[How, State] = {
    "written": "done",
    "written over": "done",
    "not written": "failed",
    "torn": "failed",
    "unknown": "unsure",
}


def _by_path(entries: Iterable[Entry]) -> list[tuple[Entry, ...]]:
    """The entries of each file, files and entries in the order of their ids."""
    chains: dict[str, list[Entry]] = {}
    for entry in entries:
        chains.setdefault(str(entry.path), []).append(entry)
    return [tuple(chain) for chain in chains.values()]


def _known(found: Sequence[Found]) -> list[How]:
    """How each file is found; files are written in the order of their entries.

    So one that nobody can tell of was written, if a later one was.
    """
    last = max((i for i, each in enumerate(found) if each.how in _IN), default=-1)
    return [
        "written over" if each.how == "unknown" and i < last else each.how
        for i, each in enumerate(found)
    ]
