"""Changes: what the members did to files, as the net difference between a baseline and now.

Several edits of one place are one hunk; an edit and its undo are none; what people and other
programs wrote is context. The baseline of a place is as it was when a person last kept it, or when
git committed it, else before the first edit in view. Invariants: the view is computed from the
journal and the files, and stores nothing; who may not read a file sees nothing of it; to undo is an
ordinary edit; what others changed since is never undone with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from threading import Event
from typing import Literal, NamedTuple, Protocol

from copydesk.desk.backends.api import Decision, Entry, Verdict
from copydesk.desk.drafts import DAY_MS, HOUR_MS, Setting
from copydesk.desk.history import MOST_SEEN, entries
from copydesk.desk.member import Member, may_read
from copydesk.desk.outcome import MEMBER, Applied, Planned, Transacted, Withheld
from copydesk.edit.draft import Plan
from copydesk.edit.kinds.files import DeleteFile, MoveFile
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.request import Request, Terms, check_text
from copydesk.errors import (
    AccessDenied,
    BinaryFile,
    ContentChanged,
    FileNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.text import sizes
from copydesk.text.authors import BASE, Authored, NetHunk
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import align
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import counts, regions, renamed, unified

SEEN_MS = 7 * DAY_MS
"""Edits of the last days, this many milliseconds, are in view unless others are asked for."""

SESSION_MS = HOUR_MS // 2
"""Edits of one member without a task are one session while they are no further apart."""

PERSON = "user of "
"""How the name of a member's person begins."""

_KEPT, _UNDONE, _CHECKPOINT = "kept", "undone", "checkpoint"
"""The keys of decisions on no plan; what was undone is known exactly, however its text looks."""

_MOST_NAMED = 5
_NAMED_BY = 2
"""So many lines above and below a hunk are part of its id: another place is never meant by it."""

_UNITS = {"m": 60_000, "h": HOUR_MS, "d": DAY_MS}

Kind = Literal["text", "create", "remove", "move"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which edits: those for which all that is given holds; `since_ms` in ms since 1970."""

    task: str = ""
    member: str = ""
    transaction: str = ""
    since_ms: int = 0
    path: RelPath | None = None


@dataclass(frozen=True, slots=True)
class ChangedHunk:
    """One place of a file: whole lines `old` are `new` now; or the whole file, by its `kind`.

    `id` are eight hex digits, and stay as long as the texts do. `old_line` and `new_line` are
    0-based. `edits` are those that it comes from, oldest first; `touched_by` are the members who
    removed lines of theirs since, or "another program". `new` lines are the bytes `span` of now.
    """

    id: str
    path: RelPath
    kind: Kind
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    old_line: int
    new_line: int
    edits: tuple[Entry, ...]
    touched_by: tuple[str, ...] = ()
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The open changes of a file: `change` makes `now` of `base`; `was` is where it moved from."""

    path: RelPath
    was: RelPath | None
    kind: Literal["edit", "create", "remove"]
    base: Snapshot
    now: Snapshot
    hunks: tuple[ChangedHunk, ...]
    change: ChangeSet

    @property
    def diff(self) -> bytes:
        """The unified diff, as `git apply` takes it."""
        if self.was is not None:
            text = (self.base, self.change) if self.change else None
            return renamed(str(self.was), str(self.path), text)
        made = {"created": self.kind == "create", "removed": self.kind == "remove"}
        return unified(self.base, self.change, str(self.path), **made)

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        return counts(self.diff)


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """The open changes of a task, or of a session of a member without one (`name` is empty).

    `key` selects it (`Selection.task`). `why` is the first that was given.
    """

    key: str
    name: str
    member: str
    why: str
    first_ms: int
    last_ms: int
    files: tuple[FileChanges, ...]

    @property
    def open(self) -> int:
        """How many hunks are neither kept nor undone."""
        return sum(len(file.hunks) for file in self.files)

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        added, removed = zip(*(file.lines for file in self.files), strict=True)
        return sum(added), sum(removed)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A moment with a name; `edit_id` is the last edit before it, 0 for none."""

    name: str
    time_ms: int
    edit_id: int
    by: str


@dataclass(frozen=True, slots=True)
class UndoneChanges:
    """What was written of it, and what was not, with the reasons; `waiting` has to be approved."""

    written: tuple[Applied, ...] = ()
    refused: tuple[tuple[ChangedHunk, Refusal], ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(slots=True)
class _Track:
    """A file through the edits in view; `was` is its path before them if it was moved."""

    path: RelPath
    was: RelPath | None = None
    edits: list[Entry] = field(default_factory=list[Entry])
    moves: list[Entry] = field(default_factory=list[Entry])

    @property
    def names(self) -> set[RelPath]:
        """All its paths."""
        old = {one.moved.other for one in self.moves if one.moved is not None}
        return {self.path, *old}

    @property
    def ids(self) -> set[int]:
        """The ids of its edits."""
        return {one.edit_id for one in (*self.edits, *self.moves)}


class Planner(Protocol):
    """The part of the desk that plans, and writes plans all or none."""

    def prepare(
        self, member: Member, tool: str, request: Request, terms: Terms
    ) -> Planned | Applied: ...

    def apply_all(
        self, member: Member, tool: str, hunk_ids: Sequence[str]
    ) -> Transacted | Withheld: ...

    def discard(self, member: Member, hunk_id: str) -> Plan: ...


EVERYTHING = Selection()

_NO_TERMS = Terms()


class Changes:
    """The changes of one workspace. Thread-safe."""

    def __init__(self, setting: Setting, desk: Planner) -> None:
        self._set, self._desk = setting, desk

    def tasks(self, reader: Member) -> tuple[TaskChanges, ...]:
        """The tasks of the last seven days that have open changes, the newest first."""
        seen = self._entries(self._set.clock() - SEEN_MS)
        replays = [*self._replays(reader, seen)]
        found: list[TaskChanges] = []
        for key, edits in _by_task(seen).items():
            files = _open(replays, frozenset(edit.edit_id for edit in edits))
            if files:
                first, last = edits[0], edits[-1]
                reads = reader.permission.allows_read
                why = next((edit.why for edit in edits if edit.why and reads(edit.path)), "")
                times = first.time_ms, last.time_ms
                found.append(TaskChanges(key, first.task, first.member, why, *times, files))
        return tuple(sorted(found, key=lambda task: -task.last_ms))

    def older(self, reader: Member) -> int:
        """How many hunks of older edits are open."""
        seen, before_ms = self._entries(), self._set.clock() - SEEN_MS
        ids = frozenset(edit.edit_id for edit in _of_members(seen) if edit.time_ms < before_ms)
        files = _open(self._replays(reader, seen), ids) if ids else ()
        return sum(len(file.hunks) for file in files)

    def view(self, reader: Member, what: Selection = EVERYTHING) -> tuple[FileChanges, ...]:
        """The open changes, file by file, in order of their paths; of the last days by default."""
        is_bound = what.since_ms or what.task or what.transaction
        since_ms = what.since_ms if is_bound else self._set.clock() - SEEN_MS
        seen = self._entries(since_ms)
        files = _open(self._replays(reader, seen), _selected(seen, what))
        return tuple(file for file in files if what.path is None or what.path.covers(file.path))

    def keep(self, person: Member, what: Selection, hunks: Collection[str] | None = None) -> int:
        """Count these hunks (None: all) as the person's own text from now; return how many.

        Raises AccessDenied for a member whose edits a person approves.
        """
        if not person.policy.asks_nobody:
            raise AccessDenied("write", "a person approves its edits")
        kept, files = 0, self.view(person, what)
        _check_named(files, hunks)
        for file in files:
            chosen = [hunk for hunk in file.hunks if hunks is None or hunk.id in hunks]
            if chosen:
                words = " ".join(map(_as_kept, chosen))
                at = file.path, self._last_id(), words
                self._record(_KEPT, "kept", person, *at, before=file.now.digest)
                kept += len(chosen)
        return kept

    def undo(
        self,
        person: Member,
        what: Selection,
        hunks: Collection[str] | None = None,
        *,
        reason: str = "",
        partly: bool = False,
    ) -> UndoneChanges:
        """Undo these hunks (None: all) by one transaction; the members are told, with the reason.

        What others changed since is refused; then nothing is written, unless `partly`.
        """
        files = self.view(person, what)
        _check_named(files, hunks)
        chosen = [
            hunk for file in files for hunk in file.hunks if hunks is None or hunk.id in hunks
        ]
        refused: list[tuple[ChangedHunk, Refusal]] = [
            (hunk, ContentChanged("others changed it since")) for hunk in chosen if hunk.touched_by
        ]
        wanted: list[tuple[Request, Terms, list[ChangedHunk]]] = []
        for file in files:
            free = [hunk for hunk in file.hunks if hunk in chosen and not hunk.touched_by]
            wanted += _undoing(file, free) if free else ()
        if refused and not partly:
            return UndoneChanges(refused=tuple(refused))
        return self._written(person, wanted, refused, reason, "undone", partly=partly)

    def rewrite(self, person: Member, what: Selection, hunk: str, text: str) -> UndoneChanges:
        """Replace the new lines of a hunk; raises InvalidArgs if there is no such one."""
        file, changed = self._one(person, what, hunk)
        if changed.kind not in ("text", "create"):
            raise InvalidArgs("hunk", "has no lines that could be changed")
        check_text("text", text)
        ended = text if text.endswith("\n") or not text else f"{text}\n"
        parts = ended.replace("\r\n", "\n").split("\n")
        new = file.now.dominant_newline.join(map(file.now.encoding.encode, parts))
        change = ChangeSet.of(file.now.size, [Edit(*changed.span, new)])
        request = patch_of(file.path, file.now, change, created=False)
        wanted = [(request, _NO_TERMS, [changed])]
        return self._written(person, wanted, [], "", "rewritten", partly=False)

    def comment(self, person: Member, what: Selection, hunk: str, text: str) -> None:
        """Say something of a hunk, which its members get with their next answers."""
        check_text("text", text)
        if not text.strip():
            raise InvalidArgs("text", "must not be empty")
        self._tell(person, [self._one(person, what, hunk)[1]], "remarked", text)

    def checkpoint(self, person: Member, name: str) -> Checkpoint:
        """Name this moment; raises InvalidArgs for a name that is none, or is a time."""
        if not name.strip() or len(name) > 100 or not name.isprintable() or _ago(name) is not None:
            raise InvalidArgs("name", "must be a short name, and no time")
        made = self._record(_CHECKPOINT, "checkpoint", person, "", self._last_id(), name)
        Event().wait(0.002)  # what is edited next is later than this, by the clock too
        return _checkpoint(made)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All of them, the newest first."""
        return tuple(map(_checkpoint, self._set.decisions.comments(_CHECKPOINT)[::-1]))

    def since(self, text: str) -> int:
        """When that was, in ms since 1970: `2h` ago, a checkpoint, or the start of a task."""
        ago = _ago(text)
        if ago is not None:
            return self._set.clock() - ago
        for checkpoint in self.checkpoints():
            if checkpoint.name == text:
                return checkpoint.time_ms + 1
        tasks = _by_task(self._entries())
        if text not in tasks:
            raise InvalidArgs("since", "is no time such as 2h, no checkpoint and no task")
        return tasks[text][0].time_ms

    def _one(self, person: Member, what: Selection, hunk: str) -> tuple[FileChanges, ChangedHunk]:
        for file in self.view(person, what):
            for changed in file.hunks:
                if changed.id == hunk:
                    return file, changed
        raise InvalidArgs("hunk", "is not open: it was kept, undone or changed meanwhile")

    def _last_id(self) -> str:
        return "".join(str(edit.edit_id) for edit in self._entries(most=1)) or "0"

    def _written(
        self,
        person: Member,
        wanted: Sequence[tuple[Request, Terms, list[ChangedHunk]]],
        refused: list[tuple[ChangedHunk, Refusal]],
        reason: str,
        verdict: Verdict,
        *,
        partly: bool,
    ) -> UndoneChanges:
        """Write the requests as one transaction; those that can be, if `partly`."""
        planned: dict[str, list[ChangedHunk]] = {}
        member = replace(person, why=reason or person.why)
        for request, terms, hunks in wanted:
            try:
                plan = self._desk.prepare(member, request.tool, request, terms).plan
                planned[plan.id] = hunks
            except Refusal as refusal:
                refused += ((hunk, refusal) for hunk in hunks)
        outcome = None
        while planned and (partly or not refused):
            outcome = self._desk.apply_all(member, "apply_file_modifications", [*planned])
            if isinstance(outcome, Transacted):
                done = [hunk for hunks in planned.values() for hunk in hunks]
                for one in outcome.applied if verdict == "undone" else ():
                    words = " ".join(map(_as_kept, planned[one.plan.id]))
                    self._record(
                        _UNDONE, verdict, person, one.plan.request.path, one.edit_id, words
                    )
                self._tell(person, done, verdict, reason)
                return UndoneChanges(outcome.applied, tuple(refused))
            if outcome.refusal.code == "APPROVAL_REQUIRED":
                return UndoneChanges((), tuple(refused), tuple(planned))
            lost = {one.plan.id: one.refusal for one in outcome.verdicts if one.refusal}
            for hunk_id, why in (lost or dict.fromkeys(planned, outcome.refusal)).items():
                refused += ((hunk, why) for hunk in planned.pop(hunk_id))
                self._desk.discard(member, hunk_id)
        for hunk_id in planned:
            self._desk.discard(member, hunk_id)
        return UndoneChanges(refused=tuple(refused))

    def _tell(
        self, person: Member, hunks: Sequence[ChangedHunk], verdict: Verdict, reason: str
    ) -> None:
        """Let each member of these edits know, in one line of its next answer."""
        of_owner: dict[str, list[ChangedHunk]] = {}
        for hunk in hunks:
            for owner in {edit.member for edit in hunk.edits} - {person.name}:
                of_owner.setdefault(owner, []).append(hunk)
        for owner, own in of_owner.items():
            places = ", ".join(f"{hunk.path}:{hunk.new_line + 1}" for hunk in own[:_MOST_NAMED])
            places += ", …" * (len(own) > _MOST_NAMED)
            self._record(own[0].id, verdict, person, places, "", reason, owner)

    def _record(
        self,
        key: str,
        verdict: Verdict,
        person: Member,
        path: RelPath | str,
        after: int | str,
        reason: str,
        owner: str = "",
        before: str = "",
    ) -> Decision:
        """Store what a person decided; one with an `owner` is told to that member."""
        now_ms = self._set.clock()
        said = Decision(
            (key, -now_ms),
            owner,
            str(path),
            verdict,
            person.name,
            now_ms,
            before,
            str(after),
            reason=reason,
            told=not owner,
        )
        while self._set.decisions.take(said) != said:  # another one in the same millisecond
            said = replace(said, plan=(key, said.plan[1] - 1))
        return said

    def _entries(self, since_ms: int = 0, most: int = MOST_SEEN) -> tuple[Entry, ...]:
        """The edits since then, oldest first; the newest ones if there are more."""
        found: list[Entry] = []
        for entry in islice(entries(self._set.journal), most):
            if entry.time_ms < since_ms:
                break
            found.append(entry)
        return tuple(found[::-1])

    def _replays(self, reader: Member, seen: Sequence[Entry]) -> Iterator[_Replay]:
        """Yield the files of some edits that the reader may read, in order of their paths."""
        tracks = [track for track in _tracks(seen) if self._may_read(reader, track)]
        committed = self._set.files.committed([track.path for track in tracks])
        kept: dict[str, list[Decision]] = {}
        for key in (_KEPT, _UNDONE):
            for said in self._set.decisions.comments(key):
                kept.setdefault(said.path, []).append(said)
        for track in sorted(tracks, key=lambda track: track.path):
            names = {str(path) for path in track.names}
            decided = [said for name in names for said in kept.get(name, ())]
            with suppress(BinaryFile, FileNotFound):  # a file that is no text, or is gone
                yield _Replay(self._set, track, decided, committed.get(track.path))

    def _may_read(self, reader: Member, track: _Track) -> bool:
        return all(may_read(self._set.files, reader, path) for path in track.names)


def _tracks(seen: Sequence[Entry]) -> Iterable[_Track]:
    """The files of some edits, oldest first, through all their moves."""
    tracks: dict[RelPath, _Track] = {}
    for entry in seen:
        if entry.state != "done" or entry.kind == "notes" or entry.is_source:
            continue
        if entry.moved is not None:
            before = tracks.pop(entry.moved.other, None) or _Track(entry.moved.other)
            before.was, before.path = before.was or before.path, entry.path
            before.moves.append(entry)
            tracks[entry.path] = before
        elif not entry.mode_changed:
            tracks.setdefault(entry.path, _Track(entry.path)).edits.append(entry)
    return tracks.values()


def _open(replays: Iterable[_Replay], ids: frozenset[int]) -> tuple[FileChanges, ...]:
    """The open changes by these edits."""
    with_some = (replay for replay in replays if ids.intersection(replay.track.ids))
    files = (replay.changes(ids) for replay in with_some)
    return tuple(file for file in files if file is not None)


def _of_members(seen: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the edits that are not of people or other programs."""
    return (e for e in seen if e.member != MEMBER and not e.member.startswith(PERSON))


def _selected(seen: Sequence[Entry], what: Selection) -> frozenset[int]:
    """The ids of those edits of members that are selected."""
    chosen = _by_task(seen).get(what.task, ()) if what.task else _of_members(seen)
    return frozenset(
        edit.edit_id
        for edit in chosen
        if what.member in ("", edit.member)
        and what.transaction in ("", edit.group)
        and edit.time_ms >= what.since_ms
    )


def _by_task(seen: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Members' edits by task, else by session; the key is the task or names the first edit."""
    found: dict[str, list[Entry]] = {}
    sessions: dict[str, tuple[str, int]] = {}
    for edit in _of_members(seen):
        key = edit.task
        if not key:
            key, last_ms = sessions.get(edit.member, ("", 0))
            if not key or edit.time_ms - last_ms > SESSION_MS:
                key = f"{edit.member}/{edit.edit_id}"
            sessions[edit.member] = key, edit.time_ms
        found.setdefault(key, []).append(edit)
    return found


class _Replay:
    """The lines of a file and their authors, from the first edit in view whose text is known."""

    def __init__(
        self, setting: Setting, track: _Track, kept: Sequence[Decision], committed: bytes | None
    ) -> None:
        self._set, self.track = setting, track
        self._named = setting.named(track.path)
        self._was = track.was
        self._created_by = self._removed_by = 0
        self._ours = {edit.edit_id for edit in _of_members((*track.edits, *track.moves))}
        self._left: list[tuple[int, str, list[_Kept]]] = []
        self._undone: dict[int, list[_Kept]] = {}
        for one in kept:
            hunks = [*map(_kept_of, one.reason.split())]
            if one.verdict == "kept":
                self._left.append((int(one.after), one.before, hunks))
            else:
                self._undone[int(one.after)] = hunks
        self._is_gone = bool(track.edits) and track.edits[-1].kind == "remove"
        if self._is_gone and self._is_there():
            raise FileNotFound  # another program made one of that name: it is another file
        self._now = Snapshot.of(b"" if self._is_gone else self._read(), self._named)
        steps = self._steps()
        edit, before, _ = steps[0] if steps else (None, self._now.data, b"")
        self._is_new = edit is not None and edit.kind == "create"
        self._authored = Authored(_lines(Snapshot.of(before, self._named)))
        self._known = {one.edit_id: one for one, *_ in steps if one is not None}
        self._known |= {one.edit_id: one for one in track.moves}
        for index, step in enumerate(steps):
            coming = next((one.edit_id for one, *_ in steps[index:] if one is not None), None)
            # what was kept of the text that another program then replaced, and no later one
            self._settle(coming, None if step[0] else Snapshot.of(step[1]).digest)
            self._take_in(*step)
            if committed is not None and step[2].split() == committed.split():
                self._settle_all(committed)
        self._settle(None)
        if committed is not None:
            self._settle_all(committed)

    def _settle_all(self, committed: bytes) -> None:
        """Take in what git has of the text as it is."""
        text = _lines(Snapshot.of(committed, self._named))
        self._authored.settle_by(text, self._ours.__contains__)
        self._created_by, self._was = 0, None

    def _is_there(self) -> bool:
        with suppress(FileNotFound):
            self._set.files.stat(self.track.path)
            return True
        return False

    def _read(self) -> bytes:
        document = self._set.files.read(self.track.path)
        if document.real != self.track.path or document.stamp.size > sizes.LARGE:
            raise FileNotFound
        return document.data

    def _steps(self) -> list[tuple[Entry | None, bytes, bytes]]:
        """The edits, and None for what others wrote between, with the texts before and after."""
        steps: list[tuple[Entry | None, bytes, bytes]] = []
        text, digest = self._now.data, "" if self._is_gone else self._now.digest
        for edit in reversed(self.track.edits):
            if edit.forgotten:
                break  # what was before is not known
            if edit.after != digest:
                left = self._set.bases.find(edit.after, self._named, None) if edit.after else None
                if edit.after and left is None:
                    break
                steps.append((None, left.data if left else b"", text))
                text = steps[-1][1]
            if edit.inverse.length != len(text):
                break
            steps.append((edit, edit.inverse.apply(text), text))
            text, digest = steps[-1][1], edit.before
        return steps[::-1]

    def _take_in(self, edit: Entry | None, before: bytes, after: bytes) -> None:
        old, new = Snapshot.of(before, self._named), Snapshot.of(after, self._named)
        if edit is None:
            theirs, ours = _lines(old), _lines(new)
            gaps = align(theirs, ours).gaps()
            changes = [(g.base_start, g.base_stop, ours[g.now_start : g.now_stop]) for g in gaps]
            self._authored.change(changes, BASE)
            return
        left = self._without(self._undone.get(edit.edit_id, ()))
        if edit.edit_id in self._undone and left.lines == _lines(new):
            self._authored = left
            return
        author = BASE if edit.member == MEMBER else edit.edit_id
        found = regions(old, edit.inverse.invert(after))
        self._authored.change([(one.start, one.stop, one.new) for one in found], author)
        if edit.kind == "create":
            self._created_by = author if self._is_new or self._created_by else 0
            self._removed_by, self._is_new = 0, False
        elif edit.kind == "remove":
            self._removed_by = author

    def _without(self, undone: Sequence[_Kept]) -> Authored:
        """The lines without hunks that a person undid."""
        ours = {edit_id for one in undone for edit_id in one.edits}
        _, hunks = self._authored.net(ours.__contains__)
        gone = {hunk.runs: hunk for one in undone for hunk in one.found_in(hunks)}
        return self._authored.without(gone.values(), ours.__contains__)

    def _settle(self, before_id: int | None, digest: str | None = None) -> None:
        """Take in what was kept before an edit (None: up to now), as far as it is there.

        With a `digest` only what was kept of that text.
        """
        for last_id, kept_of, kept in self._left:
            is_later = before_id is not None and last_id >= before_id
            if is_later or digest not in (None, kept_of):
                continue
            ours = frozenset(edit_id for one in kept for edit_id in one.edits)
            _, hunks = self._authored.net(ours.__contains__)
            for one in [*kept]:
                same = one.found_in(hunks)
                if one.kind == "remove" and self._removed_by in one.edits:
                    self._authored, self._removed_by = Authored([]), 0
                    self._created_by, self._is_new = 0, True
                elif one.kind == "create" and self._created_by in one.edits:
                    self._created_by, same = 0, hunks
                elif one.kind == "move":
                    left = (move for move in self.track.moves if move.edit_id > last_id)
                    self._was = next((one.moved.other for one in left if one.moved), None)
                    same = []
                elif one.kind != "text" or not same:
                    continue
                kept.remove(one)
                self._authored.settle(same, ours.__contains__)
                _, hunks = self._authored.net(ours.__contains__)

    def changes(self, ids: frozenset[int]) -> FileChanges | None:
        """The open changes by these edits; None without any."""
        old, found = self._authored.net(ids.__contains__)
        path, now = self.track.path, self._now
        base = Snapshot.of(b"".join(old), self._named)
        if self._is_gone:
            if self._removed_by not in ids or not old:
                return None
            whole = self._hunk("remove", "", NetHunk(0, 0, old, [], {self._removed_by}))
            change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
            return FileChanges(path, None, "remove", base, now, (whole,), change)
        lines = _lines(now)
        starts = [*accumulate(map(len, lines), initial=0)]
        old_starts = [*accumulate(map(len, old), initial=0)]
        edits: list[Edit] = []
        hunks: list[ChangedHunk] = []
        equal: dict[str, int] = {}
        for one in found:
            top, end = one.new_line, one.new_line + len(one.new)
            span = starts[top], starts[end]
            first, last = one.old_line, one.old_line + len(one.old)
            edits.append(Edit(old_starts[first], old_starts[last], now.slice(*span)))
            around = lines[max(top - _NAMED_BY, 0) : top], lines[end : end + _NAMED_BY]
            name = repr((one.old, one.new, around, sorted(one.authors)))
            equal[name] = equal.get(name, 0) + 1
            hunks.append(replace(self._hunk("text", f"{equal[name]} {name}", one), span=span))
        change = ChangeSet.of(base.size, edits)
        is_created = self._created_by in ids and not old
        if is_created:
            touched = {author for one in found for author in one.touched_by}
            authors = {author for one in found for author in one.authors} | {self._created_by}
            whole = self._hunk("create", repr(lines), NetHunk(0, 0, [], lines, authors, touched))
            hunks = [replace(whole, span=(0, now.size))]
        moves = {one.edit_id for one in self.track.moves} & ids
        was = self._was if moves and self._was != path else None
        if was is not None:
            hunks.append(self._hunk("move", str(was), NetHunk(0, 0, authors=moves)))
        if not hunks:
            return None
        return FileChanges(
            path, was, "create" if is_created else "edit", base, now, tuple(hunks), change
        )

    def _hunk(self, kind: Kind, name: str, net: NetHunk) -> ChangedHunk:
        """The hunk of these lines; its id is made of `name`, which tells it from all others."""
        names = {
            self._known[one].member if one in self._known else MEMBER for one in net.touched_by
        }
        facts = str(self.track.path), kind, name, sorted(net.authors)
        return ChangedHunk(
            hashlib.sha256(repr(facts).encode()).hexdigest()[:8],
            self.track.path,
            kind,
            tuple(net.old),
            tuple(net.new),
            net.old_line,
            net.new_line,
            tuple(self._known[one] for one in sorted(net.authors) if one in self._known),
            tuple(sorted(names)),
        )


class _Kept(NamedTuple):
    """A hunk that was kept: its kind, first line now, the digest of its new lines, its edits."""

    kind: str
    line: int
    digest: str
    edits: Sequence[int]

    def found_in(self, hunks: Iterable[NetHunk]) -> list[NetHunk]:
        """The hunk among these, if it is there: of several equal ones that at its line."""
        same = [
            hunk
            for hunk in hunks
            if hunk.authors.issubset(self.edits) and _digest(hunk.new) == self.digest
        ]
        return sorted(same, key=lambda hunk: abs(hunk.new_line - self.line))[:1]


def _as_kept(hunk: ChangedHunk) -> str:
    """The hunk as `_kept_of` reads it."""
    ids = ",".join(str(edit.edit_id) for edit in hunk.edits)
    return f"{hunk.kind}:{hunk.new_line}:{_digest(hunk.new)}:{ids}"


def _kept_of(text: str) -> _Kept:
    kind, line, digest, ids = text.split(":")
    return _Kept(kind, int(line), digest, [*map(int, ids.split(","))])


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()[:8]


def _lines(text: Snapshot) -> list[bytes]:
    """The lines with their ends, and a byte order mark as part of the first."""
    plain = text.unmarked()
    return [plain.raw(line, line + 1) for line in range(plain.line_count)]


def _check_named(files: Iterable[FileChanges], hunks: Collection[str] | None) -> None:
    """Raise ContentChanged if an id is that of several hunks: who chose it did not see which."""
    ids = [hunk.id for file in files for hunk in file.hunks if hunks and hunk.id in hunks]
    if len(ids) > len(set(ids)):
        raise ContentChanged("two changes have the same id; name none, or undo by edit")


def _ended(file: FileChanges, hunk: ChangedHunk) -> bytes:
    """The old lines; the last has an end if others wrote below what was the end of the file."""
    old = b"".join(hunk.old)
    is_open = old and not old.endswith(file.now.lf) and hunk.span[1] < file.now.size
    return old + file.now.dominant_newline if is_open else old


def _undoing(
    file: FileChanges, hunks: Sequence[ChangedHunk]
) -> Iterator[tuple[Request, Terms, list[ChangedHunk]]]:
    """Yield the requests that undo these hunks of a file."""
    texts = [hunk for hunk in hunks if hunk.kind == "text"]
    if texts:
        back = [Edit(*hunk.span, _ended(file, hunk)) for hunk in texts]
        change = ChangeSet.of(file.now.size, back)
        yield patch_of(file.path, file.now, change, created=False), _NO_TERMS, texts
    for hunk in hunks:
        if hunk.kind == "create":
            yield DeleteFile(file.path), Terms(version=file.now.version), [hunk]
        elif hunk.kind == "remove":
            change = ChangeSet.of(0, [Edit(0, 0, file.base.data)])
            made = patch_of(file.path, file.now, change, created=True)
            gone = next((edit.removed for edit in hunk.edits[::-1] if edit.removed), None)
            runs = gone is not None and bool(gone.mode & 0o111)
            yield replace(made, executable=runs), _NO_TERMS, [hunk]
        elif hunk.kind == "move" and file.was is not None:
            yield MoveFile(file.path, file.was), _NO_TERMS, [hunk]


def _checkpoint(said: Decision) -> Checkpoint:
    return Checkpoint(said.reason, said.time_ms, int(said.after), said.by)


def _ago(text: str) -> int | None:
    """How many milliseconds `30m`, `2h` or `3d` are; None for anything else."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else None
