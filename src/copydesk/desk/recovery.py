"""Crash recovery: find interrupted writes in the journal and complete or roll them back.

Invariants: an entry is judged under the lock of its file, a group under those of all its files;
only what copydesk wrote is overwritten, or what another program made of it if the inverse is
certain. Locks are taken in the order of their keys, inodes after paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from threading import local
from types import TracebackType
from typing import Literal

from copydesk.desk.backends.api import Entry, Journal, Registry, State
from copydesk.desk.backends.snapshots import Snapshots
from copydesk.edit.relocate import carried, drift_of
from copydesk.errors import Busy, Failed, FileNotFound, HunkNotFound, Refusal
from copydesk.store.files import Files
from copydesk.store.locks import Lanes, Ticket, inode_key
from copydesk.store.protocol import (
    NOBODY,
    Caller,
    Deadline,
    Document,
    Kept,
    ModeChanged,
    Named,
    NotPutBack,
    Piece,
    Stamp,
    TargetMoved,
)
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot


def kept_and_new(change: ChangeSet) -> Iterator[Piece]:
    """Yield the new content; the store copies the unchanged parts of the old one."""
    at = 0
    for edit in change.edits:
        yield Kept(at, edit.start)
        yield edit.new
        at = edit.stop
    yield Kept(at, change.length)


Inode = tuple[int, int]
"""A file's identity, whatever its name: device and inode."""

How = Literal["written", "not written", "torn", "written over", "unknown"]
"""What became of a file: it is as after the writes, or as before them; a write in place was
interrupted; another program wrote after us, and what we wrote can be told from what it
wrote; nobody can tell."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of the entries' file; `before` is its content without our writes."""

    entries: tuple[Entry, ...]
    how: How
    stamp: Stamp | None = None
    digest: str = ""
    before: tuple[Piece, ...] = ()


class Rollback:
    """Rolls back writes in one workspace. Call its methods under the file's lock."""

    def __init__(
        self, files: Files, lanes: Lanes, journal: Journal, bases: Snapshots, named: Named
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self.bases, self._named = bases, named

    def look(self, entries: tuple[Entry, ...]) -> Found:
        """Return the current state of the file that the entries wrote, oldest first.

        `unknown` if the file was moved since. Raises TargetMoved if it changes meanwhile.
        """
        first, last = entries[0], entries[-1]
        if first.moved is not None:
            return self._look_at_move(entries)
        path = first.path
        if first.mode_changed is not None:
            return self._look_at_mode(first, first.mode_changed, path)
        try:
            real, stamp, digest = self._at(path)
        except Refusal:
            return Found(entries, "unknown")
        if real != path:  # a link points to another file now
            return Found(entries, "unknown")
        if digest == last.after:
            back = tuple(kept_and_new(_inverse(entries)))
            return Found(entries, "written", stamp, digest, back)
        if digest == first.before:
            return Found(entries, "not written", stamp, digest)
        if stamp is None:
            return Found(entries, "unknown")
        try:
            document = self._files.read(path)
        except Refusal:
            return Found(entries, "unknown", stamp, digest)
        if document.stamp != stamp:
            raise TargetMoved()
        before = self._torn(entries, document)
        if before is not None:
            return Found(entries, "torn", stamp, digest, before)
        before = None if stamp.nlink > 1 else self.without(entries, document.data)
        if before is not None:
            return Found(entries, "written over", stamp, digest, before)
        return Found(entries, "unknown", stamp, digest)

    def _at(self, path: RelPath) -> tuple[RelPath, Stamp | None, str]:
        """The real path, the stamp and the digest of a file; None and empty if it is missing."""
        try:
            return self._files.digest(path)
        except FileNotFound:
            return path, None, ""

    def _look_at_move(self, entries: tuple[Entry, ...]) -> Found:
        """Tell which end of a move the file is at; `stamp` and `digest` are of the new end."""
        source, target = entries
        inode = source.moved.inode if source.moved else (0, 0)
        try:
            old_real, old, _ = self._at(source.path)
            new_real, new, digest = self._at(target.path)
        except Refusal:
            return Found(entries, "unknown")
        if (old_real, new_real) != (source.path, target.path):
            return Found(entries, "unknown")
        stands_there = new is not None and (new.dev, new.ino) == inode
        if old is not None and (new is None or (old.dev, old.ino) == inode):
            linked = new if stands_there else None  # a move that links and unlinks was interrupted
            return Found(entries, "not written", linked, digest)
        if new is not None and (stands_there or (old is None and digest == target.after)):
            return Found(entries, "written", new, digest)
        return Found(entries, "unknown", new, digest)

    def _look_at_mode(self, entry: Entry, change: ModeChanged, path: RelPath) -> Found:
        try:
            real, stamp, digest = self._at(path)
        except Refusal:
            return Found((entry,), "unknown")
        if stamp is None or real != path:
            return Found((entry,), "unknown")
        hows: dict[int, How] = {change.before: "not written", change.after: "written"}
        return Found((entry,), hows.get(stamp.mode & 0o7777, "unknown"), stamp, digest)

    def _move_back(self, found: Found) -> None:
        """Move the file back to its old name, and remove the directories made for it."""
        source, target = found.entries
        assert found.stamp is not None, "only a file that stands there is moved back"
        with self._files.stage_move(
            *(target.path, source.path, found.stamp, found.digest),
            expected_real=target.path,
            expected_to=source.path,
        ) as staged:
            staged.commit()
        self._files.remove_parents(target.path, target.made_directories)

    def put_back(self, found: Found, inodes: Collection[Inode] = ()) -> None:
        """Restore the content before, if known; TargetMoved, Refusal, NotPutBack leave it so."""
        first, stamp = found.entries[0], found.stamp
        if first.moved is not None:
            if found.how == "written":
                self._move_back(found)
                return
            target = found.entries[1]
            if found.how == "not written" and stamp is not None:
                self._files.remove(target.path, stamp, found.digest)
            if found.how == "not written":
                self._files.remove_parents(target.path, target.made_directories)
            return
        if first.mode_changed is not None:
            if found.how == "written" and stamp is not None:
                known = first.mode_changed.before, stamp, found.digest
                with self._files.stage_chmod(first.path, *known) as staged:
                    staged.commit()
            return
        if found.how == "written" and first.kind == "remove":
            self._files.restore(
                first.path, first.before, lambda: first.inverse.apply(b""), first.removed
            )
            return
        if found.how in ("not written", "unknown") or stamp is None:
            return
        lane: AbstractContextManager[None] = nullcontext()
        if stamp.nlink > 1 and (stamp.dev, stamp.ino) not in inodes:
            lane = self._lanes.turn(inode_key(stamp.dev, stamp.ino), (first.time_ms, first.hunk_id))
        with lane:
            if first.kind == "create":
                self._files.remove(first.path, stamp, found.digest, expected_real=first.path)
                return
            self._files.replace(
                first.path,
                stamp,
                found.digest,
                found.before,
                before_in_place=lambda now: None,  # the journal has the content before our write
                expected_real=first.path,
            )

    def _torn(self, entries: tuple[Entry, ...], document: Document) -> tuple[Piece, ...] | None:
        """The old bytes of a file whose write in place was interrupted; None if it was not ours."""
        whole = self._journal.whole_of(entries[0].edit_id)
        age_ms = document.stamp.mtime_ns // 1_000_000 - entries[0].time_ms
        if whole is None or not -CLOCKS_MS <= age_ms <= TORN_MS:
            return None
        return (whole,) if is_torn(document.data, whole, _inverse(entries)) else None

    def text_before(self, entry: Entry) -> bytes | None:
        """The text that a write replaced, if it or the text after it is stored."""
        found = self.bases.find(entry.before, None, None)
        if found is not None:
            return found.data
        after = self.bases.find(entry.after, None, None) if entry.kind == "edit" else None
        return None if after is None else entry.inverse.apply(after.data)

    def without(self, entries: tuple[Entry, ...], data: bytes) -> tuple[Piece, ...] | None:
        """A later text without our writes, if others wrote since; None if that is not certain."""
        if entries[0].kind != "edit":
            return None
        named, wanted, inverse = self._named(entries[0].path), entries[-1].after, _inverse(entries)
        try:
            after = self.bases.find(wanted, named, None)
            if after is None:  # texts are stored some milliseconds after the answer
                after = Snapshot.of(data[: inverse.length], named)
                if after.digest != wanted:
                    return None
            back = carried(inverse, drift_of(inverse, after, Snapshot.of(data, named), None, {}))
        except Refusal:
            return None
        return tuple(back.pieces(data))


CLOCKS_MS = 2_000
"""The largest difference allowed between the clocks of the file system and of this process."""


def is_torn(data: bytes, old: bytes, inverse: ChangeSet) -> bool:
    """Whether an interrupted write of `old`, with this `inverse`, can have left `data`.

    Each byte is an old or a new one, and the size is between both.
    """
    if not min(len(old), inverse.length) <= len(data) <= max(len(old), inverse.length):
        return False
    at = was = 0
    for edit in inverse.edits:
        if not _mixed(data, old, at, was, edit.start - at):
            return False
        was += edit.start - at + len(edit.new)
        at = edit.stop
    return _mixed(data, old, at, was, inverse.length - at) and (
        data[inverse.length :] == old[inverse.length : len(data)]
    )


def _mixed(data: bytes, old: bytes, at: int, was: int, count: int) -> bool:
    """Whether each byte at `at` is one from `was` or one that was there before."""
    found = data[at : at + count]
    moved, stood = old[was : was + len(found)], old[at : at + len(found)]
    return found in (moved, stood) or all(
        byte in pair for byte, *pair in zip_longest(found, moved, stood)
    )


def _inverse(entries: tuple[Entry, ...]) -> ChangeSet:
    """The change from the text after all entries to the one before them."""
    return reduce(
        lambda back, entry: back.then(entry.inverse), entries[-2::-1], entries[-1].inverse
    )


LEFT_OVER_MS = 60_000
"""From this age on, a temporary file belongs to no running write."""

TORN_MS = 60_000
"""The longest time after making its entries that a group may begin to write in place."""

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

    def __init__(
        self, files: Files, lanes: Lanes, journal: Journal, registry: Registry, rollback: Rollback
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self._registry, self._rollback = registry, rollback

    def run(self, now_ms: int) -> tuple[Settled, ...]:
        """Recover all open entries and return their outcomes; running writes stay open."""
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
        """The open entries that `run` would have to handle; changes nothing."""
        found: list[Entry] = []
        until = Deadline(LIVING_SECONDS)
        for entry in self._journal.in_doubt():
            with suppress(Busy), self._turns([entry], until):
                now = self._journal.get(entry.edit_id)
                if now is None or now.state != "open":
                    continue
                if entry.group or self._judged(entry) == "unknown":
                    found.append(entry)
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

    def settle(self, entry: Entry, now_ms: int) -> State:
        """Recover an entry without a group and record its outcome; call under the file's lock.

        With `unsure` a plan counts as applied, so that it is not applied twice. The file is not
        torn: a write in place has a group.
        """
        state = _STATES[self._judged(entry)]
        self._sweep([entry])
        self._journal.close_entry(entry.edit_id, state)
        self._end([entry], state, now_ms)
        return state

    def keep_text(self, text: Snapshot, at: RelPath) -> None:
        """Store the text that the inverse of a lost entry applies to."""
        self._rollback.bases.keep_again(text, at)

    def settle_group(
        self, group: str, now_ms: int, until: Deadline | None = None
    ) -> tuple[Settled, ...]:
        """Complete or roll back the group under its files' locks; raises only journal errors."""
        try:
            with self._turns(self._journal.of_group(group), until):
                return self.settle_in_turn(group, now_ms)
        except Refusal as refusal:
            return tuple(Settled.refused(e, refusal) for e in self._journal.of_group(group))

    def settle_in_turn(
        self, group: str, now_ms: int, inodes: Collection[Inode] = ()
    ) -> tuple[Settled, ...]:
        """Like `settle_group`, with all locks of the group and of `inodes` held; raises Refusal."""
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
                return tuple(Settled.refused(entry, refusal) for entry in left)
            break
        return tuple(Settled(entry, "open", reason) for entry in left)

    def _settled(
        self, entries: tuple[Entry, ...], begun_back: bool, now_ms: int, inodes: Collection[Inode]
    ) -> tuple[Settled, ...]:
        """Close all entries; if it raises TargetMoved, Refusal, NotPutBack, it can be run again."""
        chains = _by_path(entries)
        moves = [self._rollback.look(one) for one in chains if one[0].moved]
        found = [self._rollback.look(one) for one in chains if not one[0].moved] + moves
        known = _known(found)
        if not begun_back and all(how in _IN for how in known):
            for each in found:
                self._sweep(each.entries)
            self._close(entries, "done", now_ms)
            return tuple(Settled(entry, "done") for entry in entries)
        for each in reversed(found):
            self._rollback.put_back(each, inodes)
            self._sweep(each.entries)
            first = each.entries[0]
            self._files.remove_parents(first.path, first.made_directories)
            if each.how == "written" and (each in moves or first.mode_changed):
                raise TargetMoved()  # its earlier writes have to be examined again
        unsure = [entry for each in found if each.how == "unknown" for entry in each.entries]
        self._close(unsure, "unsure", now_ms)
        self._close([entry for entry in entries if entry not in unsure], "failed", now_ms)
        return tuple(Settled(e, "unsure" if e in unsure else "failed") for e in entries)

    def _close(self, entries: Sequence[Entry], state: State, now_ms: int) -> None:
        if entries:
            self._journal.close_all([entry.edit_id for entry in entries], state)
            self._end(entries, state, now_ms)

    def _sweep(self, entries: Sequence[Entry]) -> None:
        """Remove a write's leftovers; data of other programs is kept."""
        if entries[0].moved is not None:  # what is there was left by an earlier write
            return
        known = {digest for entry in entries for digest in (entry.before, entry.after)}
        with suppress(Refusal):
            self._files.sweep_for(entries[0].path, known)

    def _settle_alone(self, entry: Entry, now_ms: int, until: Deadline) -> tuple[Settled, ...]:
        try:
            with self._turns([entry], until):
                now = self._journal.get(entry.edit_id)
                if now is None or now.state != "open":  # its writer was alive, and recorded it
                    return ()
                state = self.settle(entry, now_ms)
        except Busy as busy:  # its writer may be alive
            return (Settled.refused(entry, busy),)
        return (Settled(entry, state),)

    def _judged(self, entry: Entry) -> How:
        """The outcome of an entry's write, from the next entry or the current text."""
        later = self._journal.next_of(entry)
        if later is None:
            for _ in range(_ATTEMPTS):
                with suppress(TargetMoved):
                    return self._rollback.look((entry,)).how
            return "unknown"
        if later.before == entry.after:
            return "written"
        if later.before == entry.before:
            return "not written"
        text = self._rollback.text_before(later)
        if text is None or self._rollback.without((entry,), text) is None:
            return "unknown"
        return "written over"

    def _turns(self, entries: Iterable[Entry], until: Deadline | None = None) -> ExitStack:
        """Hold the locks of the entries' files, taken in the order of their keys."""
        tickets = {str(entry.path): (entry.time_ms, entry.hunk_id) for entry in entries}
        with ExitStack() as held:
            for key in sorted(tickets):
                caller = ("copydesk", "recover")
                held.enter_context(self._lanes.turn(key, tickets[key], caller, until))
            return held.pop_all()

    def _end(self, entries: Iterable[Entry], state: State, now_ms: int) -> None:
        """End the plans of written entries that are still pending as they were then."""
        for entry in entries:
            if not entry.hunk_id or state == "failed":
                continue
            with suppress(Refusal):  # the journal has it too, and is checked before an apply
                try:
                    plan = self._registry.get(entry.hunk_id, now_ms)
                except HunkNotFound:
                    continue
                if plan.created_ms <= entry.time_ms:
                    self._registry.end(entry.hunk_id, "applied", now_ms)


_IN: tuple[How, ...] = ("written", "written over")
_STATES: dict[str, State] = {
    "written": "done",
    "written over": "done",
    "not written": "failed",
    "unknown": "unsure",
}


def _by_path(entries: Iterable[Entry]) -> list[tuple[Entry, ...]]:
    """Group the entries by file, in order; moves and changes of mode on their own."""
    chains: dict[str, list[Entry]] = {}
    for entry in entries:
        moved = entry.moved
        target = entry.path if moved is None or not moved.is_source else moved.other
        kind = "move " if moved else "mode " if entry.mode_changed else ""
        chains.setdefault(f"{kind}{target}", []).append(entry)
    return [tuple(chain) for chain in chains.values()]


def _known(found: Sequence[Found]) -> list[How]:
    """The outcome of each file; an unclear one was written if a later one was."""
    last = max((i for i, each in enumerate(found) if each.how in _IN), default=-1)
    return [
        "written over" if each.how == "unknown" and i < last else each.how
        for i, each in enumerate(found)
    ]


class _Found(local):
    """Open groups that this thread found and must recover."""

    def __init__(self) -> None:
        self.due: tuple[str, ...] = ()


class Turns:
    """File locks that first recover any transaction a dead process left open."""

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
        """The lock of one file, by its real path; raises Failed, Busy."""
        return self.of_all({real: ticket}, caller)

    def of_all(
        self, tickets: Mapping[RelPath, Ticket], caller: Caller = NOBODY
    ) -> AbstractContextManager[None]:
        """The locks of several files at once; first recovers groups that are open there.

        The writer of such a group held all its locks, so it is gone. Raises Failed if a group
        cannot be recovered, or Busy.
        """
        return _Turn(self, {str(real): (real, tickets[real]) for real in tickets}, caller)

    def take(
        self, tickets: Mapping[str, tuple[RelPath, Ticket]], caller: Caller
    ) -> list[AbstractContextManager[None]]:
        """Take the locks of the files; see `of_all`."""
        until = self._lanes.deadline()
        while True:
            if self._found.due:
                due, self._found.due = self._found.due, ()
                for group in due:
                    self._settle(group)
            held: list[AbstractContextManager[None]] = []
            left: list[str] = []
            try:
                for key in sorted(tickets):
                    turn = self._lanes.turn(key, tickets[key][1], caller, until)
                    turn.__enter__()
                    held.append(turn)
                for real, _ in tickets.values():
                    left += self._journal.open_groups(real)
            except BaseException as error:
                _end(held, type(error), error, error.__traceback__)
                raise
            if not left:
                return held
            _end(held)
            for group in sorted(set(left)):
                self._settle(group)

    @contextmanager
    def of_inode(
        self, inode: tuple[int, int], ticket: Ticket, caller: Caller = NOBODY
    ) -> Generator[None]:
        """Hold the lock of a file with several names, by device and inode, besides its path locks.

        Raises TargetMoved if a group is open there under another name; the thread's next
        `of_all` settles it first.
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
        """Whether the path is one of the file's names."""
        try:
            _, stamp = self._files.stat(path)
        except Refusal:
            return False
        return (stamp.dev, stamp.ino) == inode

    def _settle(self, group: str) -> None:
        for settled in self._recovery.settle_group(group, self._clock()):
            if isinstance(settled.refusal, Busy):
                raise settled.refusal
            if settled.state == "open":
                where = f"{settled.entry.path}: {settled.reason}"
                raise Failed("recover an unfinished write", where)


class _Turn:
    """The locks of some files, held in a `with` block."""

    __slots__ = ("_caller", "_held", "_tickets", "_turns")

    def __init__(
        self, turns: Turns, tickets: Mapping[str, tuple[RelPath, Ticket]], caller: Caller
    ) -> None:
        self._turns, self._tickets, self._caller = turns, tickets, caller

    def __enter__(self) -> None:
        self._held = self._turns.take(self._tickets, self._caller)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._held, kind, error, trace)


def _end(
    held: list[AbstractContextManager[None]],
    kind: type[BaseException] | None = None,
    error: BaseException | None = None,
    trace: TracebackType | None = None,
) -> None:
    """Exit all contexts, last first, whatever is raised."""
    if held:
        try:
            held[-1].__exit__(kind, error, trace)
        finally:
            held.pop()
            _end(held, kind, error, trace)
