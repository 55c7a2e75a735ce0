"""Changes: what the members did to files, as the net difference between a baseline and now.

Several edits of one place are one hunk; an edit and its undo are none; what people and other
programs wrote is context. The baseline of a place is as it was when a person last kept it, or when
git committed it, else before the first edit in view. Invariants: the view is computed from the
journal and the files, and stores nothing; who may not read a file sees nothing of it; to undo is an
ordinary edit; what others changed since is never undone with it.

A file is replayed through its edits as lines with their authors; its name is one more text, of one
line or none, so that to create, remove or move a file is a change as any other. What is no text, or
too large to be replayed, is one line too: its digest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Literal, NamedTuple, Protocol

from copydesk.desk.backends.api import DAY_MS, HOUR_MS, Decision, Entry, Verdict
from copydesk.desk.drafts import Services
from copydesk.desk.gates import Edited, telling
from copydesk.desk.history import MOST_SEARCHED, History, Undoing, entries
from copydesk.desk.member import Member, may_read
from copydesk.desk.outcome import MEMBER, Applied, NotUndone, Planned, Transacted, Withheld
from copydesk.desk.review import noted
from copydesk.edit.draft import Plan
from copydesk.edit.kinds.files import DeleteFile, MoveFile
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.request import NO_TERMS, Request, Terms, check_text
from copydesk.errors import (
    AccessDenied,
    BinaryFile,
    CheckFinding,
    ContentChanged,
    FileNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.store.dotfiles import last_committed
from copydesk.store.protocol import Committed
from copydesk.text import sizes
from copydesk.text.authors import BASE, Authored, LineChange, NetHunk
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import align, blob_id, deleted, regions, renamed, unified
from copydesk.text.encoding import BYTES
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

IN_VIEW_MS = 7 * DAY_MS
"""Edits of the last days, this many milliseconds, are in view unless others are asked for."""

SESSION_MS = HOUR_MS // 2
"""Edits of one member without a task are one session while they are no further apart."""

PERSON = "user of "
"""How the name of a member's person begins."""

_KEPT, _UNDONE, _CHECKPOINT = "kept", "undone", "checkpoint"
"""The keys of decisions on no plan; what was undone is known exactly, however its text looks."""

_MOST_NAMED = 5
_NAMED_BY = 2
"""So many lines above and below a hunk are part of its id, so that it never means another place."""

_UNITS = {"m": 60_000, "h": HOUR_MS, "d": DAY_MS}

Kind = Literal["text", "create", "remove", "move", "content"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which edits: those for which all that is given holds; `since_ms` in ms since 1970.

    `transaction` is the id of an edit: those that were written together with it. `after` is the
    last edit before those that are meant: their order is certain, whatever the clock said.
    """

    task: str = ""
    member: str = ""
    transaction: int = 0
    since_ms: int = 0
    path: RelPath | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class ChangedHunk:
    """One place of a file: whole lines `old` are `new` now; or the whole file, by its `kind`.

    `id` are eight hex digits, and stay as long as the texts do. `old_line` and `new_line` are
    0-based. `edits` are those that it comes from, oldest first; `touched_by` are the members who
    removed lines of theirs since, or "another program". `new` lines are the bytes `span` of now.
    `checks` are what parsers newly find in these lines, or in the file without naming a line.
    `content` is a whole file that is not shown by lines. `net` is what it was made of.
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
    checks: tuple[CheckFinding, ...] = ()
    net: NetHunk = field(default_factory=lambda: NetHunk(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The open changes of a file: `change` makes `now` of `base`; `was` is where it moved from.

    `mode` is that of a removed file. `by_lines`: otherwise the content is no text, or too large,
    and in place of both texts there is nothing that tells more than whether they are equal.
    """

    path: RelPath
    was: RelPath | None
    kind: Literal["edit", "create", "remove"]
    base: Snapshot
    now: Snapshot
    hunks: tuple[ChangedHunk, ...]
    change: ChangeSet
    mode: int = 0o100644
    by_lines: bool = True

    @property
    def diff(self) -> bytes:
        """The unified diff, as `git apply` takes it; empty for content that is not shown."""
        if self.was is not None:
            text = (self.base, self.change) if self.change else None
            return renamed(str(self.was), str(self.path), text)
        if self.kind == "remove":
            return deleted(self.base, self.change, str(self.path), self.mode)
        is_new = self.kind == "create" and self.by_lines
        return unified(self.base, self.change, str(self.path), created=is_new)

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        return sum(len(one.new) for one in self.hunks), sum(len(one.old) for one in self.hunks)


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


class Written(NamedTuple):
    """An edit that undid changes of a file, or put other text in their place."""

    path: RelPath
    edit_id: int


@dataclass(frozen=True, slots=True)
class UndoneChanges:
    """What was written of it, and what was not, with the reasons; `waiting` has to be approved."""

    written: tuple[Written, ...] = ()
    refused: tuple[tuple[ChangedHunk, Refusal], ...] = ()
    waiting: tuple[str, ...] = ()


class TextStep(NamedTuple):
    """What an edit, or None: another program, made of a text; None where there is no file."""

    edit: Entry | None
    before: Snapshot | None
    after: Snapshot | None

    @property
    def old(self) -> Sequence[bytes]:
        """The lines before it, without their ends."""
        return () if self.before is None else self.before.keys

    @property
    def lines(self) -> Sequence[bytes]:
        """The lines after it, without their ends."""
        return () if self.after is None else self.after.keys


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

_Wanted = tuple[Request, Terms, Sequence[ChangedHunk]]


class Changes:
    """The changes of one workspace. Thread-safe."""

    def __init__(self, services: Services, desk: Planner, undoing: Undoing) -> None:
        self._services, self._desk, self._undoing = services, desk, undoing

    def tasks(self, reader: Member) -> tuple[TaskChanges, ...]:
        """The tasks of the last seven days that have open changes, the newest first."""
        seen = self._entries(self._services.clock() - IN_VIEW_MS)
        tasks = _by_task(seen)
        reads = reader.permission.allows_read
        found: list[TaskChanges] = []
        for key, files in self._open(reader, seen, {k: _ids(tasks[k]) for k in tasks}).items():
            first, last = tasks[key][0], tasks[key][-1]
            why = next((edit.why for edit in tasks[key] if edit.why and reads(edit.path)), "")
            found.append(
                TaskChanges(
                    key, first.task, first.member, why, first.time_ms, last.time_ms, tuple(files)
                )
            )
        return tuple(sorted(found, key=lambda task: -task.last_ms))

    def older(self, reader: Member) -> int:
        """How many hunks of older edits are open."""
        seen = self._entries()
        ids = _ids(_of_members(seen)) - _ids(self._entries(self._services.clock() - IN_VIEW_MS))
        return sum(len(file.hunks) for file in self._open(reader, seen, {"": ids}).get("", ()))

    def view(self, reader: Member, what: Selection = EVERYTHING) -> tuple[FileChanges, ...]:
        """The open changes, file by file, in order of their paths; of the last days by default."""
        return tuple(map(self.checked, self._view(reader, what)))

    def _view(self, reader: Member, what: Selection) -> Sequence[FileChanges]:
        is_bound = what.since_ms or what.task or what.transaction or what.after is not None
        since_ms = what.since_ms if is_bound else self._services.clock() - IN_VIEW_MS
        seen = self._entries(since_ms, what.after or 0)
        return self._open(reader, seen, {"": self._selected(seen, what)}, what.path).get("", ())

    def keep(self, person: Member, what: Selection, hunks: Collection[str] | None = None) -> int:
        """Count these hunks (None: all) as the person's own text from now; return how many.

        Raises AccessDenied for a member whose edits a person approves.
        """
        if not person.policy.asks_nobody:
            raise AccessDenied("write", "a person approves its edits")
        chosen = self._chosen(person, what, hunks)
        for file, some in chosen:
            self._record(
                _KEPT,
                person,
                "kept",
                str(file.path),
                before=file.now.digest,
                after=self._last_id(),
                reason=_keys_of(some),
            )
        return sum(len(some) for _, some in chosen)

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

        What others changed since is refused; then nothing is written, unless `partly`. Content that
        is not shown by lines is undone edit by edit, in a transaction of its own, before the rest.
        """
        member = replace(person, why=reason or person.why)
        chosen = self._chosen(person, what, hunks)
        refused: list[tuple[ChangedHunk, Refusal]] = [
            (hunk, ContentChanged("others changed it since"))
            for _, some in chosen
            for hunk in some
            if hunk.touched_by
        ]
        if refused and not partly:
            return UndoneChanges(refused=tuple(refused))
        free = [(file, [hunk for hunk in some if not hunk.touched_by]) for file, some in chosen]
        emptied = _emptied(hunk for _, some in free for hunk in some)
        wanted = [
            one for file, some in free if file.by_lines for one in _undoing(file, some, emptied)
        ]
        opaque = [hunk for file, some in free if not file.by_lines for hunk in some]
        whole = self._undone_edits(member, opaque)
        refused += whole.refused
        if refused and not partly:
            return UndoneChanges(refused=tuple(refused))
        done = self._written(member, wanted, refused, "undone", partly=partly)
        return replace(done, written=whole.written + done.written)

    def _undone_edits(self, member: Member, hunks: Sequence[ChangedHunk]) -> UndoneChanges:
        """Undo the edits of these hunks as the journal has them, all or none."""
        edits = {edit.edit_id: edit for hunk in hunks for edit in hunk.edits}
        if not edits:
            return UndoneChanges()
        oldest_first = [edits[edit_id] for edit_id in sorted(edits)]
        outcome = self._undoing.undo_all(member, "undo_file_modification", oldest_first)
        if isinstance(outcome, NotUndone):
            return UndoneChanges(refused=tuple((hunk, outcome.refusal) for hunk in hunks))
        self._tell(member, hunks, "undone", member.why)
        return UndoneChanges(tuple(Written(one.path, one.edit_id) for one in outcome))

    def rewrite(self, person: Member, what: Selection, hunk: str, text: str) -> UndoneChanges:
        """Replace the new lines of a hunk; raises InvalidArgs if there is no such one."""
        file, changed = self._one(person, what, hunk)
        if changed.kind not in ("text", "create") or not file.by_lines:
            raise InvalidArgs("hunk", "has no lines that could be changed")
        check_text("text", text)
        ended = text if text.endswith("\n") or not text else f"{text}\n"
        parts = ended.replace("\r\n", "\n").split("\n")
        new = file.now.dominant_newline.join(map(file.now.encoding.encode, parts))
        change = ChangeSet.of(file.now.size, [Edit(*changed.span, new)])
        request = patch_of(file.path, file.now, change, created=False)
        member = replace(person, why="")
        return self._written(member, [(request, NO_TERMS, [changed])], [], "rewritten")

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
        said = self._record(_CHECKPOINT, person, "checkpoint", after=self._last_id(), reason=name)
        return _checkpoint(said)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Those that people set, the newest first."""
        return tuple(map(_checkpoint, self._services.records.comments(_CHECKPOINT)[::-1]))

    def since(self, text: str, argument: str = "since") -> Selection:
        """The edits since `2h` ago, a checkpoint, or the start of a task; all for no text.

        There is a checkpoint at the start of each task and session, by the name of its key. Raises
        InvalidArgs of the `argument`.
        """
        ago = _ago(text)
        if ago is not None or not text:
            return Selection(since_ms=0 if ago is None else self._services.clock() - ago)
        last = {
            **{key: edits[0].edit_id - 1 for key, edits in _by_task(self._entries()).items()},
            **{one.name: one.edit_id for one in reversed(self.checkpoints())},
        }
        if text not in last:
            raise InvalidArgs(argument, "is no time such as 2h, no checkpoint and no task")
        return Selection(after=last[text])

    def has(self, task: str) -> bool:
        """Whether there is an edit of this task or session; of any, if none is named."""
        return not task or task in _by_task(self._entries())

    def _one(self, person: Member, what: Selection, hunk: str) -> tuple[FileChanges, ChangedHunk]:
        for file, (changed,) in self._chosen(person, what, [hunk]):
            return file, changed
        raise InvalidArgs("hunk", "is not open: it was kept, undone or changed meanwhile")

    def _chosen(
        self, person: Member, what: Selection, hunks: Collection[str] | None
    ) -> list[tuple[FileChanges, list[ChangedHunk]]]:
        """The files with the open hunks of these ids (None: all).

        Raises ContentChanged if an id is that of several hunks: who chose it did not see which.
        """
        files = self._view(person, what)
        some = [[one for one in file.hunks if hunks is None or one.id in hunks] for file in files]
        ids = [one.id for each in some for one in each]
        if hunks is not None and len(ids) > len(set(ids)):
            raise ContentChanged("two changes have the same id; name none, or undo by edit")
        return [(file, each) for file, each in zip(files, some, strict=True) if each]

    def _written(
        self,
        member: Member,
        wanted: Sequence[_Wanted],
        refused: list[tuple[ChangedHunk, Refusal]],
        verdict: Verdict,
        *,
        partly: bool = False,
    ) -> UndoneChanges:
        """Write the requests as one transaction; those that can be, if `partly`."""
        planned: dict[str, Sequence[ChangedHunk]] = {}
        for request, terms, hunks in wanted:
            try:
                plan = self._desk.prepare(member, request.tool, request, terms).plan
                planned[plan.id] = hunks
            except Refusal as refusal:
                refused += ((hunk, refusal) for hunk in hunks)
        while planned and (partly or not refused):
            outcome = self._desk.apply_all(member, "apply_file_modifications", [*planned])
            if isinstance(outcome, Transacted):
                written = [Written(one.plan.request.path, one.edit_id) for one in outcome.applied]
                for one, hunks in zip(written, planned.values(), strict=True):
                    if verdict == "undone":
                        self._record(
                            _UNDONE,
                            member,
                            verdict,
                            str(one.path),
                            after=str(one.edit_id),
                            reason=_keys_of(hunks),
                        )
                all_hunks = [hunk for hunks in planned.values() for hunk in hunks]
                self._tell(member, all_hunks, verdict, member.why)
                return UndoneChanges(tuple(written), tuple(refused))
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
            named = [f"{hunk.path}:{hunk.new_line + 1}" for hunk in own[:_MOST_NAMED]]
            places = ", ".join([*named, *["…"] * (len(own) > _MOST_NAMED)])
            self._record(own[0].id, person, verdict, places, owner=owner, reason=reason)

    def _record(
        self,
        key: str,
        person: Member,
        verdict: Verdict,
        path: str = "",
        *,
        owner: str = "",
        before: str = "",
        after: str = "",
        reason: str = "",
    ) -> Decision:
        """Store what a person decided; one with an `owner` is told to that member."""
        said = Decision(
            (key, 0),
            owner,
            path,
            verdict,
            by=person.name,
            time_ms=self._services.clock(),
            before=before,
            after=after,
            reason=reason,
            told=not owner,
        )
        return noted(self._services.records, said)

    def _last_id(self) -> str:
        newest = self._services.records.entries(most=1)
        return str(newest[0].edit_id if newest else 0)

    def _entries(self, since_ms: int = 0, after: int = 0) -> tuple[Entry, ...]:
        """The edits since then, oldest first; the newest ones if there are more.

        Their order is that of their ids: edits that a clock dated too early hide none before them,
        however many they are, and one of the future counts only if all newer ones do.
        """
        now_ms, count = self._services.clock(), 0
        heads = self._services.records.heads(after, MOST_SEARCHED)
        for index, head in enumerate(heads):
            if head.time_ms >= since_ms and (count == index or head.time_ms <= now_ms):
                count = index + 1
        end = heads[0].edit_id + 1 if heads else 0
        return tuple(islice(entries(self._services.records, before=end), count))[::-1]

    def _selected(self, seen: Sequence[Entry], what: Selection) -> frozenset[int]:
        """The ids of those edits of members that are selected."""
        chosen = _by_task(seen).get(what.task, ()) if what.task else _of_members(seen)
        first = self._services.records.get(what.transaction) if what.transaction else None
        group = self._services.records.of_group(first.group) if first is not None else ()
        return _ids(
            edit
            for edit in chosen
            if what.member in ("", edit.member)
            and (what.transaction in (0, edit.edit_id) or edit.edit_id in _ids(group))
            and edit.time_ms >= what.since_ms
        )

    def _open(
        self,
        reader: Member,
        seen: Sequence[Entry],
        groups: Mapping[str, frozenset[int]],
        within: RelPath | None = None,
    ) -> dict[str, list[FileChanges]]:
        """The open changes by each group of edits, in files that the reader may read."""
        every = frozenset[int]().union(*groups.values())
        tracks = [
            track
            for track in _tracks(seen)
            if not every.isdisjoint(track.ids)
            and (within is None or within.covers(track.path))
            and all(may_read(self._services.files, reader, path) for path in track.names)
        ]
        committed = last_committed(
            self._services.files.root, {track.path: track.blob for track in tracks}
        )
        decided: dict[str, list[Decision]] = {}
        for verdict in (_KEPT, _UNDONE) if tracks else ():
            for said in self._services.records.comments(verdict):
                decided.setdefault(said.path, []).append(said)
        found: dict[str, list[FileChanges]] = {}
        for track in sorted(tracks, key=lambda track: track.path):
            own = [said for path in track.names for said in decided.get(str(path), ())]
            with suppress(Refusal):  # it cannot be read, or is another file by now
                replay = _Replay(self._services, track, own, committed.get(track.path))
                for key, ids in groups.items():
                    file = None if ids.isdisjoint(replay.known) else replay.changes(ids)
                    found.setdefault(key, []).extend([file] if file else ())
        return {key: files for key, files in found.items() if files}

    def checked(self, file: FileChanges) -> FileChanges:
        """The file with what its changes newly break, at the hunks that are nearest.

        By parsers alone: to look at a view runs no command.
        """
        checks = self._services.checks.parsers
        if file.kind == "remove" or not file.by_lines or not checks.concern(file.path):
            return file
        is_new = file.kind == "create"
        edited = Edited(file.path, file.path, file.base, file.change, is_new, lambda: file.now)
        texts = [hunk for hunk in file.hunks if hunk.kind != "move"]
        found: dict[str, list[CheckFinding]] = {}
        with telling():  # they are not those of an edit that this call makes
            findings = checks.judge(edited) if texts else ()
        for finding in findings or ():
            line = (finding.line or 0) - 1
            near = min(texts, key=lambda hunk: _distance(hunk, line))
            for hunk in [near] if finding.line else texts:
                found.setdefault(hunk.id, []).append(finding)
        hunks = (replace(hunk, checks=tuple(found.get(hunk.id, ()))) for hunk in file.hunks)
        return replace(file, hunks=tuple(hunks))


def steps_back(
    services: Services, edits: Iterable[Entry], now: Snapshot | None, named: str | None
) -> Iterator[TextStep]:
    """Yield how a file became what it is `now`, newest step first, as far as its texts are known.

    `edits` are its own, newest first. Raises BinaryFile.
    """
    text, digest, is_known = now, "" if now is None else now.digest, True
    for edit in edits:
        if edit.moved is not None:
            yield TextStep(edit, text, text)
            continue
        left = text
        if is_known and edit.after != digest:
            left = services.bases.find(edit.after, named, None) if edit.after else None
            is_known = left is not None or not edit.after
            if is_known:
                yield TextStep(None, left, text)
        data = b"" if left is None else left.data
        is_known = is_known and not edit.forgotten and edit.inverse.length == len(data)
        if is_known:
            before = Snapshot.of(edit.inverse.apply(data), named) if edit.before else None
            yield TextStep(edit, before, left)
            text, digest = before, edit.before


def _by_digests(edits: Sequence[Entry], now: Snapshot | None) -> list[TextStep]:
    """The same, oldest first, of a file whose texts are not looked at: each is its digest."""
    made = [(edit, edit.after if edit.moved else edit.before) for edit in edits]
    steps = [TextStep(edit, _as_digest(before), _as_digest(edit.after)) for edit, before in made]
    return [*reversed(steps), TextStep(None, now, now)]


def _as_digest(digest: str) -> Snapshot | None:
    return Snapshot.of(digest.encode()) if digest else None


@dataclass(slots=True)
class _Track:
    """A file through the edits in view, oldest first; those at its new path if it was moved.

    `replaced`: it was removed, and another file was moved to its place.
    """

    path: RelPath
    edits: list[Entry] = field(default_factory=list[Entry])
    replaced: bool = False

    @property
    def names(self) -> set[RelPath]:
        """All its paths."""
        return {self.path, *(one.moved.other for one in self.edits if one.moved is not None)}

    @property
    def ids(self) -> frozenset[int]:
        """The ids of its edits."""
        return _ids(self.edits)

    @property
    def blob(self) -> str:
        """Git's name of the text that was removed; empty while the file is there."""
        gone = self.removed
        return "" if gone is None or gone.forgotten else blob_id(gone.inverse.apply(b""))

    @property
    def removed(self) -> Entry | None:
        """The edit that removed the file, if it is gone."""
        ends = [edit for edit in self.edits if edit.moved is None]
        return ends[-1] if ends and ends[-1].kind == "remove" else None


def _tracks(seen: Sequence[Entry]) -> Iterable[_Track]:
    """The files of some edits, oldest first, through all their moves."""
    tracks: dict[RelPath, _Track] = {}
    replaced: dict[RelPath, _Track] = {}
    for entry in seen:
        if entry.state != "done" or entry.kind == "notes" or entry.is_source or entry.mode_changed:
            continue
        old = entry.path if entry.moved is None else entry.moved.other
        track = tracks.pop(old, None) or _Track(old)
        if old != entry.path and old in replaced:
            tracks[old] = replaced.pop(old)
        if entry.path in tracks:
            replaced[entry.path] = tracks[entry.path]
        track.path = entry.path
        track.edits.append(entry)
        tracks[entry.path] = track
    for track in replaced.values():
        track.replaced = True
    return (*replaced.values(), *tracks.values())


def _ids(edits: Iterable[Entry]) -> frozenset[int]:
    return frozenset(edit.edit_id for edit in edits)


def _of_members(seen: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the edits that are not of people or other programs."""
    return (e for e in seen if e.member != MEMBER and not e.member.startswith(PERSON))


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
    """The lines of a file and their authors, from the first edit in view whose text is known.

    `_text` and `_name` are its text and its name (one line, or none while there is no file), with
    the author of each line; `_now` is the text that it has, None without a file. `by_lines`: the
    lines are those of its text; else a text is one line, its digest. `_last` is the text before the
    file was last removed, without what members wrote; `_undone` are the hunks that an edit undid.
    `known` are the edits by their ids; `_origins` are, of each edit, the one that it undid or, as
    an undo of an undo, made again.
    """

    def __init__(
        self, services: Services, track: _Track, decided: Sequence[Decision], head: Committed | None
    ) -> None:
        self._services, self._path = services, track.path
        self.known = {edit.edit_id: edit for edit in track.edits}
        self._ours = _ids(_of_members(track.edits)).__contains__
        self._encoding = services.encoding_of(track.path)
        self._removed = track.removed
        data = None if track.replaced else self._read()
        self.by_lines, self._now, steps = self._steps(track.edits[::-1], data)
        first = next((step.edit for step in steps if step.edit is not None), None)
        path = track.path if first is None else first.moved.other if first.moved else first.path
        is_new = bool(steps) and steps[0].before is None
        self._name = Authored([] if is_new else [str(path).encode()])
        self._text = self._last = Authored(_lines(steps[0].before if steps else self._now))
        kept: dict[int, list[Sequence[_HunkKey]]] = {}
        self._undone: dict[int, Sequence[_HunkKey]] = {}
        self._origins: dict[int, int] = {}
        for said in decided:
            keys = [*map(_HunkKey.parse, said.reason.split())]
            if said.verdict == "kept":
                kept.setdefault(_moment(steps, int(said.after), said.before), []).append(keys)
            else:
                self._undone[int(said.after)] = keys
        committed: Snapshot | None = None
        if head is not None and head.data is not None:
            with suppress(BinaryFile):
                committed = Snapshot.of(head.data)
        for index, step in enumerate((*steps, None)):
            for hunks in kept.get(index, ()):
                self._settle(hunks)
            if step is not None:
                self._take_in(step)
            if step is None or _is_same(step.after, committed):
                self._commit(head, committed, data)

    def _read(self) -> bytes | None:
        """The bytes of the file; None if it was removed by an edit. FileNotFound by others."""
        files = self._services.files
        if self._removed is not None:
            with suppress(FileNotFound):
                files.stat(self._path)
                raise ContentChanged("another program made a file of its name")
            return None
        document = files.read(self._path)
        if document.real != self._path:
            raise ContentChanged("another file has its name")
        return document.data

    def _steps(
        self, edits: Sequence[Entry], data: bytes | None
    ) -> tuple[bool, Snapshot | None, Sequence[TextStep]]:
        """Whether it can be told by lines; the text now; and the steps that led there.

        By digests if one of its texts is no text or large. `edits` are newest first.
        """
        with suppress(BinaryFile):
            now = None if data is None else Snapshot.of(data, self._encoding)
            steps = [*steps_back(self._services, edits, now, self._encoding)]
            texts = (text for step in steps for text in step[1:] if text is not None)
            if max((text.size for text in texts), default=0) <= sizes.LARGE:
                return True, now, steps[::-1]
        now = None if data is None else _as_digest(hashlib.sha256(data).hexdigest())
        return False, now, _by_digests(edits, now)

    def _take_in(self, step: TextStep) -> None:
        """Do one step to the name and to the text; what it undoes is taken out with its authors."""
        edit, before, after = step
        author = BASE if edit is None or edit.member == MEMBER else edit.edit_id
        undone = self._undone.get(author, ())
        by_id = 0 if edit is None or undone else self._undone_by(edit)
        origin = self._origins.get(by_id, by_id)
        ours = {by_id, origin}.__contains__ if by_id else _edits_of(undone)
        self._origins[author] = origin or max(
            (one for key in undone for one in key.edits), default=author
        )
        author = author if origin == by_id else origin
        name = self._name_after(step, author)
        left = self._name.without(self._name.net(ours)[1], ours)
        if (undone or by_id) and _path_of(left.lines) == _path_of(name):
            self._name = left
        else:
            self._name.change(_gaps(self._name.lines, name), author)
        if edit is None or before is None or after is None or edit.moved:
            changes = [*_gaps(self._text.lines, _lines(after))]
        elif self.by_lines:  # as the edit was made, which comparing its lines may not tell
            found = regions(before, edit.inverse.invert(after.data))
            changes = [(region.start, region.stop, region.new) for region in found]
        else:  # others made what the edit was made on
            self._text.change(_gaps(self._text.lines, _lines(before)), BASE)
            changes = [*_gaps(self._text.lines, _lines(after))]
        if after is None:
            self._last = self._text.without((), self._ours)
        hunks = self._text.net(ours)[1] if undone or by_id else ()
        left = self._text.without(hunks if by_id else _matched(undone, hunks), ours)
        new = _lines(after) if hunks else ()
        if hunks and sorted(left.lines) == sorted(new):  # beside others' lines either order may be
            left.change(_gaps(left.lines, new), origin or author)
            self._text = left
        else:
            self._text.change(changes, author)

    def _undone_by(self, edit: Entry) -> int:
        """The edit that this one undid by its id, or 0; 0 too for a move that is not in view."""
        found = History(self._services).undone(edit)
        return found if not edit.moved or found in self.known else 0

    def _name_after(self, step: TextStep, author: int) -> Sequence[bytes]:
        """The lines of the name after a step.

        A file that is made anew is not the one of its name that was removed before: the author
        behind a NUL tells them apart.
        """
        edit = step.edit
        if step.after is None:
            return []
        if edit is not None and (edit.moved or edit.kind == "create"):
            is_anew = not (edit.moved or edit.undoes or author in self._undone)
            return [str(edit.path).encode() + (b"\0%d" % author if is_anew else b"")]
        return self._name.lines or [str(self._path).encode()]

    def _settle(self, kept: Sequence[_HunkKey]) -> None:
        """Take in what a person kept, as it is at that moment."""
        ours, kinds = _edits_of(kept), {one.kind for one in kept}
        if not kinds.isdisjoint(("create", "remove", "move")):
            self._name = self._name.settled(self._name.net(ours)[1], ours)
        hunks = self._text.net(ours)[1]
        is_whole = not kinds.isdisjoint(("create", "remove"))
        self._text = self._text.settled(hunks if is_whole else _matched(kept, hunks), ours)

    def _commit(self, head: Committed | None, text: Snapshot | None, data: bytes | None) -> None:
        """Take in what git has of the file as it is."""
        if head is None or (self._removed is not None) != (not head.blob):
            return
        self._name = self._name.settled(self._name.net(self._ours)[1], self._ours)
        if text is not None and self.by_lines:
            self._text = self._text.settled_by(_lines(text), self._ours)
        elif data is None or head.blob == blob_id(data):
            self._text = self._text.settled(self._text.net(self._ours)[1], self._ours)

    def changes(self, ids: frozenset[int]) -> FileChanges | None:
        """The open changes by these edits; None without any."""
        ours = ids.__contains__
        (old, texts), (_, names) = self._text.net(ours), self._name.net(ours)
        name = names[0] if names else NetHunk(0, 0)
        if self._now is None:
            return self._removal(name, ours)
        kind: Literal["edit", "create"] = "edit"
        hunks, change = self._text_hunks(texts, old)
        if name.new and not name.old and not old:
            kind, whole = "create", NetHunk(0, 0, [], self._text.lines, {*name.authors})
            for net in texts:
                whole.authors |= net.authors
                whole.touched_by |= net.touched_by
            created = self._hunk("create", repr(whole.new), whole)
            hunks = [replace(created, span=(0, self._now.size))]
        was = _path_of(name.old) if name.new else None
        was = was if was != _path_of(name.new) else None
        if was is not None:
            hunks.append(self._hunk("move", str(was), NetHunk(0, 0, authors=name.authors)))
        if not hunks:
            return None
        base = Snapshot.of(b"".join(old), self._encoding)
        return FileChanges(
            self._path, was, kind, base, self._now, tuple(hunks), change, by_lines=self.by_lines
        )

    def _removal(self, name: NetHunk, ours: Callable[[int], bool]) -> FileChanges | None:
        """The change that the file is gone, with the text that it would have without our edits."""
        removed = self._removed
        if removed is None or not name.old:
            return None
        old = self._last.net(ours)[0]
        text = Snapshot.of(b"".join(old), self._encoding)
        base = text if self.by_lines else Snapshot(removed.inverse.apply(b""), BYTES)
        change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
        mode = removed.removed.mode if removed.removed else 0o100644
        whole = self._hunk("remove", "", NetHunk(0, 0, old, authors=name.authors))
        return FileChanges(
            self._path,
            None,
            "remove",
            base,
            Snapshot(b"", BYTES),
            (whole,),
            change,
            mode,
            self.by_lines,
        )

    def _text_hunks(
        self, texts: Sequence[NetHunk], old: Sequence[bytes]
    ) -> tuple[list[ChangedHunk], ChangeSet]:
        """The hunks of lines, and the change that they are of the old lines."""
        lines = self._text.lines
        starts = [*accumulate(map(len, lines), initial=0)]
        old_starts = [*accumulate(map(len, old), initial=0)]
        edits: list[Edit] = []
        hunks: list[ChangedHunk] = []
        equal = Counter[str]()
        for net in texts:
            top, end = net.new_line, net.new_line + len(net.new)
            stop = net.old_line + len(net.old)
            edits.append(Edit(old_starts[net.old_line], old_starts[stop], b"".join(net.new)))
            around = lines[max(top - _NAMED_BY, 0) : top], lines[end : end + _NAMED_BY]
            identity = repr((net.old, net.new, around, sorted(net.authors)))
            equal[identity] += 1
            hunk = self._hunk("text", f"{equal[identity]} {identity}", net)
            hunks.append(replace(hunk, span=(starts[top], starts[end])))
        return hunks, ChangeSet.of(old_starts[-1], edits if self.by_lines else ())

    def _hunk(self, kind: Kind, identity: str, net: NetHunk) -> ChangedHunk:
        """The hunk of these lines; its id is made of its `identity`, which no other one has."""
        by = {self.known[one].member if one in self.known else MEMBER for one in net.touched_by}
        facts = str(self._path), kind, identity, sorted(net.authors)
        return ChangedHunk(
            id=hashlib.sha256(repr(facts).encode()).hexdigest()[:8],
            path=self._path,
            kind=kind if kind != "text" or self.by_lines else "content",
            old=tuple(net.old) if self.by_lines else (),
            new=tuple(net.new) if self.by_lines else (),
            old_line=net.old_line,
            new_line=net.new_line,
            edits=tuple(self.known[one] for one in sorted(net.authors) if one in self.known),
            touched_by=tuple(sorted(by)),
            net=net,
        )


def _path_of(name: Sequence[bytes]) -> RelPath | None:
    """The path that a name is, without what tells namesakes apart; None for no file."""
    return RelPath.parse(name[0].split(b"\0")[0].decode()) if name else None


def _moment(steps: Sequence[TextStep], last_id: int, digest: str) -> int:
    """How many steps had been made when a person kept changes of a text, after an edit."""
    done = [at for at, step in enumerate(steps, 1) if step.edit and step.edit.edit_id <= last_id]
    count = done[-1] if done else 0
    if count == len(steps) or steps[count].edit is not None:
        return count
    # Another program's step has no id. It came later if the text before it is the one that was
    # kept, else the person has seen what it made.
    before = steps[count].before
    return count if before is not None and before.digest == digest else count + 1


class _HunkKey(NamedTuple):
    """A hunk that a person decided on, by its kind, first line, digest of new lines, and edits."""

    kind: str
    line: int
    digest: str
    edits: frozenset[int]

    @staticmethod
    def parse(text: str) -> _HunkKey:
        kind, line, digest, ids = text.split(":")
        return _HunkKey(kind, int(line), digest, frozenset(map(int, ids.split(","))))


def _keys_of(hunks: Iterable[ChangedHunk]) -> str:
    """The hunks as a decision records them."""
    return " ".join(
        f"{hunk.kind}:{hunk.net.new_line}:{_digest(hunk.net.new)}:"
        + ",".join(str(edit.edit_id) for edit in hunk.edits)
        for hunk in hunks
    )


def _edits_of(hunks: Iterable[_HunkKey]) -> Callable[[int], bool]:
    """Whether an edit is one of those that these hunks come from."""
    return frozenset[int]().union(*(hunk.edits for hunk in hunks)).__contains__


def _matched(named: Iterable[_HunkKey], hunks: Sequence[NetHunk]) -> Iterable[NetHunk]:
    """Those of the hunks that are named, each once: of several equal ones that at its line."""
    found: dict[tuple[int, int], NetHunk] = {}
    digests = [(hunk, _digest(hunk.new)) for hunk in hunks] if named else ()
    for one in named:
        same = [
            hunk
            for hunk, digest in digests
            if digest == one.digest and hunk.authors <= one.edits and hunk.runs not in found
        ]
        if same:
            hunk = min(same, key=lambda hunk: abs(hunk.new_line - one.line))
            found[hunk.runs] = hunk
    return found.values()


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()[:8]


def _lines(text: Snapshot | None) -> list[bytes]:
    """The lines with their ends, and a byte order mark as part of the first."""
    if text is None:
        return []
    plain = text.unmarked()
    return [plain.raw(line, line + 1) for line in range(plain.line_count)]


def _gaps(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[LineChange]:
    """Yield what changes between two texts of which nobody says how one became the other."""
    gaps = align(old, new).gaps()
    return ((gap.base_start, gap.base_stop, new[gap.now_start : gap.now_stop]) for gap in gaps)


def _is_same(text: Snapshot | None, committed: Snapshot | None) -> bool:
    """Whether git has committed this text, but for line ends, which it may convert."""
    if text is None or committed is None:
        return False
    return text.data.replace(b"\r\n", b"\n") == committed.data.replace(b"\r\n", b"\n")


def _distance(hunk: ChangedHunk, line: int) -> int:
    """How many lines there are between a line of now and the hunk."""
    return max(hunk.new_line - line, line - hunk.new_line - len(hunk.new) + 1, 0)


def _ended(file: FileChanges, hunk: ChangedHunk) -> bytes:
    """The old lines; the last has an end if others wrote below what was the end of the file."""
    old = b"".join(hunk.old)
    is_open = old and not old.endswith(file.now.lf) and hunk.span[1] < file.now.size
    return old + file.now.dominant_newline if is_open else old


def _emptied(hunks: Iterable[ChangedHunk]) -> tuple[tuple[RelPath, int], ...]:
    """The directories that were made for files which an undo removes or moves, last made first.

    A person may approve one file's undo before another's: each takes those that are empty by then.
    """
    edits = [edit for hunk in hunks if hunk.kind in ("create", "move") for edit in hunk.edits]
    return tuple(
        (edit.path, edit.made_directories)
        for edit in sorted(edits, key=lambda edit: -edit.edit_id)
        if edit.made_directories
    )


def _undoing(
    file: FileChanges, hunks: Sequence[ChangedHunk], emptied: tuple[tuple[RelPath, int], ...]
) -> Iterator[_Wanted]:
    """Yield the requests that undo these hunks of a file."""
    if texts := [hunk for hunk in hunks if hunk.kind == "text"]:
        back = [Edit(*hunk.span, _ended(file, hunk)) for hunk in texts]
        change = ChangeSet.of(file.now.size, back)
        yield patch_of(file.path, file.now, change, created=False), NO_TERMS, texts
    for hunk in hunks:
        if hunk.kind == "create":
            yield DeleteFile(file.path), Terms(file.now.version, emptied=emptied), [hunk]
        elif hunk.kind == "remove":
            change = ChangeSet.of(0, [Edit(0, 0, file.base.data)])
            created = patch_of(file.path, file.now, change, created=True)
            yield replace(created, executable=bool(file.mode & 0o111)), NO_TERMS, [hunk]
        elif hunk.kind == "move" and file.was is not None:
            yield MoveFile(file.path, file.was), Terms(emptied=emptied), [hunk]


def _checkpoint(said: Decision) -> Checkpoint:
    return Checkpoint(said.reason, said.time_ms, int(said.after), said.by)


def _ago(text: str) -> int | None:
    """How many milliseconds `30m`, `2h` or `3d` are; None for anything else."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else None
