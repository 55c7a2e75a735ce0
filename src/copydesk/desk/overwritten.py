"""Edits that vanish: another program saves over them, soon after they were reported.

An edit is overwritten when what it did to its file is gone, and no edit of copydesk's took it out.
The texts between are replayed with the author of each line, as far as the journal and the stored
texts tell them; what a step that nobody recorded took out is compared with what each edit brought.
Invariants: an edit is told once, by whichever process finds it out first; lines that moved, were
re-indented or laid out anew keep their words, and are not told; nor is what git took out of a file
and has.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from copydesk.desk.backends.api import Decision, Entry
from copydesk.desk.drafts import DAY_MS, HOUR_MS, Setting
from copydesk.desk.history import PAGE, History, entries
from copydesk.desk.member import Member, may_read
from copydesk.desk.outcome import MEMBER, TOOL
from copydesk.edit.kinds.files import ChangeMode, DeleteFile, MoveFile
from copydesk.edit.kinds.patch import PatchEdit, patch_of
from copydesk.edit.patch_parse import EXECUTABLE, parse_diff
from copydesk.edit.relocate import carried, drift_of
from copydesk.edit.request import Request
from copydesk.errors import (
    AmbiguousMatch,
    ContentChanged,
    FileNotFound,
    InvalidArgs,
    NotAFile,
    Refusal,
)
from copydesk.store.protocol import Closing, Document, Stamp
from copydesk.store.threads import Soon
from copydesk.text import sizes
from copydesk.text.authors import BASE, Authored, NetHunk
from copydesk.text.diff import Alignment, align
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import blob_id

OVERWRITTEN: Final = "overwritten"
"""The verdict on such an edit, and the key under which it is recorded."""

SEEN_MS = HOUR_MS
"""How old an edit may be that is looked for; later its authors have gone on."""

MOST_FILES = 32
_MOST_EDITS = 500

LOOK_SECONDS = 0.25
"""How long after a call the files are looked at; several calls within it are one."""

_FEW = 2
"""Entries fetched at a time, to see whether there are new ones: mostly there is one, or none."""

_WORD = re.compile(r"[^\W\u2e80-\uffff]+|[\u2e80-\uffff]")
"""A word; of East Asian text, which does not part them, a character."""

_GONE = 0.75
"""The least share of what an edit brought, in words, that has to be gone."""

_CLEAR = 3
"""Words; where fewer are gone and a line is new, somebody may have corrected them."""


@dataclass(frozen=True, slots=True)
class OverwrittenEdit:
    """An edit that another program overwrote at `time_ms` (ms since 1970).

    `line` (1-based) is where it began in the text that was overwritten.
    """

    entry: Entry
    path: RelPath
    line: int
    time_ms: int


class _Step(NamedTuple):
    """What an edit, or None: another program, made of a text; None after it: there is no file."""

    edit: Entry | None
    before: Snapshot
    after: Snapshot | None

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines after it."""
        return self.after.keys if self.after is not None else ()


class _Lost(NamedTuple):
    """An edit that a step overwrote, from a line (1-based) on; `next_ms`: when another followed."""

    edit: Entry
    line: int
    step: _Step
    next_ms: int | None


class _Edited(NamedTuple):
    """The newest edit of a file, its time, and the digest of the text that it left.

    `is_linked`: it and those since the last look were made one on the text of the other.
    """

    edit_id: int
    time_ms: int
    after: str
    is_linked: bool


class _Looked(NamedTuple):
    """A file as it was last looked at: its newest edit, its state, and git's name of its text."""

    edit_id: int
    stamp: Stamp | None
    blob: str

    def still_holds(self, edit_id: int, stamp: Stamp | None) -> bool:
        """Whether nobody wrote since."""
        is_settled = self.stamp is None or self.stamp.settled
        return is_settled and (self.edit_id, self.stamp) == (edit_id, stamp)


Contents = Callable[[Member, RelPath], tuple[Document, Snapshot | None]]
"""Reads a file for a member; without a text if it is binary."""


class Overwrites(Closing):
    """The overwritten edits of one workspace. Thread-safe."""

    def __init__(self, setting: Setting, history: History, contents: Contents) -> None:
        self._set, self._history, self._contents = setting, history, contents
        self._soon = Soon(LOOK_SECONDS)
        self._edited: dict[RelPath, _Edited] = {}
        self._looked: dict[RelPath, _Looked] = {}

    def look_soon(self) -> None:
        """Look at the files a moment after the call, or as the workspace is closed."""
        self._soon.do(self._look)

    def look(self) -> None:
        """Look at them now."""
        self.look_soon()
        self._soon.now()

    def close(self) -> None:
        """Look if that was to be done soon."""
        self._soon.close()
        self._soon.now()

    def of(self, reader: Member) -> tuple[OverwrittenEdit, ...]:
        """Those of the last day, of all members, that the reader may read; in order of their ids.

        An edit that was made again is none of them.
        """
        found: list[OverwrittenEdit] = []
        since_ms = self._set.clock() - DAY_MS
        for said in self._set.decisions.comments(OVERWRITTEN):
            entry, path = self._set.journal.get(-said.plan[1]), RelPath.parse(said.path)
            is_open = entry is not None and not said.reason and said.time_ms >= since_ms
            if entry is not None and is_open and may_read(self._set.files, reader, path):
                found.append(OverwrittenEdit(entry, path, int(said.after), said.time_ms))
        return tuple(found)

    def anew(self, member: Member, entry: Entry) -> Request | None:
        """The edit as the files are now; None if it stands there.

        Raises ContentChanged, AmbiguousMatch, InvalidArgs, and the refusals of a file.
        """
        if entry.kind == "notes":
            raise InvalidArgs("again", "is for files; notes are edited anew")
        if by := self._history.undone_by(member, entry.edit_id):
            raise ContentChanged(f"it was undone by edit {by}", undone_by=by)
        if entry.moved is not None:
            ends = entry.path, entry.moved.other
            return MoveFile(*(ends if entry.is_source else ends[::-1]))
        if entry.kind == "remove":
            return DeleteFile(entry.path)
        at = self._history.place(member, entry)
        if entry.mode_changed is not None:
            return ChangeMode(at, bool(entry.mode_changed.after & 0o111))
        (patch,) = parse_diff(encoding_of_diff(entry.diff, None).decode(entry.diff))
        if entry.kind == "create":
            run = patch.mode == EXECUTABLE
            return PatchEdit(at, patch.hunks, creates=True, executable=run)
        named = self._set.named(entry.path)
        after = self._history.text_after(entry, named)
        if after is None:  # then only to the one place that has its lines
            return PatchEdit(at, patch.hunks)
        now = Snapshot.of(self._contents(member, at)[0].data, named)
        with suppress(ContentChanged, AmbiguousMatch):
            carried(entry.inverse, drift_of(entry.inverse, after, now, None, {}))
            return None
        before = Snapshot.of(entry.inverse.apply(after.data), named)
        change = entry.inverse.invert(after.data)
        change = carried(change, drift_of(change, before, now, None, {}))
        return patch_of(at, now, change, created=False)

    def end(self, edit_id: int) -> None:
        """Record that the edit was made again."""
        said = self._set.decisions.of((OVERWRITTEN, -edit_id))
        if said is not None:
            self._set.decisions.withdraw(said)
            self._set.decisions.take(replace(said, reason="made again", told=True))

    def _look(self) -> None:
        for path, edited in self._newest().items():
            with suppress(Refusal):  # it cannot be read, or is no text
                for said in self._at(path, edited):
                    self._set.decisions.take(said)

    def _newest(self) -> dict[RelPath, _Edited]:
        """The newest edit of each file that was edited lately, newest first."""
        known = max((edited.edit_id for edited in self._edited.values()), default=0)
        new: dict[RelPath, list[Entry]] = {}
        since_ms = self._set.clock() - SEEN_MS
        page = _FEW if self._edited else PAGE
        for entry in islice(entries(self._set.journal, page=page), _MOST_EDITS):
            if entry.edit_id <= known or entry.time_ms < since_ms or len(new) == MOST_FILES:
                break
            new.setdefault(entry.path, []).append(entry)
        found = {path: self._edited_by(path, some) for path, some in new.items()}
        found |= {path: edited for path, edited in self._edited.items() if path not in found}
        recent = ((path, edited) for path, edited in found.items() if edited.time_ms >= since_ms)
        self._edited = dict(islice(recent, MOST_FILES))
        return self._edited

    def _edited_by(self, path: RelPath, edits: Sequence[Entry]) -> _Edited:
        """The newest of some new edits of a file, newest first."""
        newest, old = edits[0], self._edited.get(path)
        befores = [one.before for one in edits]
        afters = [*(one.after for one in edits[1:]), old.after if old else befores[-1]]
        is_linked = befores == afters and all(one.state == "done" for one in edits)
        return _Edited(newest.edit_id, newest.time_ms, newest.after, is_linked)

    def _at(self, path: RelPath, edited: _Edited) -> Iterator[Decision]:
        """Yield what is to be told of the edits of one file."""
        looked, stamp = self._looked.get(path), self._stamp(path)
        if looked is not None and looked.still_holds(edited.edit_id, stamp):
            return
        if stamp is not None and stamp.size > sizes.CORRECTED:
            return
        data = None if stamp is None else self._set.files.read(path).data
        now = _Looked(edited.edit_id, stamp, "" if data is None else blob_id(data))
        digest = "" if data is None else hashlib.sha256(data).hexdigest()
        if edited.is_linked and digest == edited.after:
            self._looked[path] = now
            return
        there = [one for one in self._set.journal.entries(path, None, PAGE) if one.path == path]
        is_being_written = any(one.state in ("open", "unsure") for one in there)
        # What was read has all these edits, and no other one, if the file is the same after all.
        if is_being_written or there[0].edit_id != edited.edit_id or self._stamp(path) != stamp:
            return
        self._looked[path] = now
        for edit, line, step, next_ms in self._lost(path, there, data, looked):
            time_ms = next_ms or (stamp.mtime_ns // 1_000_000 if stamp else self._set.clock())
            yield Decision(
                (OVERWRITTEN, -edit.edit_id),
                edit.member,
                str(path),
                OVERWRITTEN,
                MEMBER,
                max(time_ms, edit.time_ms),
                before="" if step.after is None else step.after.digest,
                after=str(line),
            )

    def _lost(
        self,
        path: RelPath,
        there: Sequence[Entry],
        data: bytes | None,
        looked: _Looked | None,
    ) -> Iterator[_Lost]:
        """Yield the edits of a file that are overwritten; `there` are the newest, newest first."""
        files, steps = self._set.files, self._steps(path, there, data, looked)
        for lost in _lost_in(steps):
            before, after = blob_id(lost.step.before.data), lost.step.after
            was = looked.stamp if looked is not None and after is None else None
            is_moved = was is not None and files.has_moved(path, was)
            texts = {before, looked.blob if looked is not None else ""} - {""}
            blob = "" if after is None else blob_id(after.data)
            if not is_moved and not files.is_from_git(path, texts, blob):
                yield lost

    def _steps(
        self,
        path: RelPath,
        there: Sequence[Entry],
        data: bytes | None,
        looked: _Looked | None,
    ) -> list[_Step]:
        """The edits, and what came between, oldest first; none if nothing came since the look."""
        named, since_ms = self._set.named(path), self._set.clock() - SEEN_MS
        text = None if data is None else Snapshot.of(data, named)
        digest = "" if text is None else text.digest
        steps: list[_Step] = []
        for edit in there:
            if edit.state == "failed" or edit.tool == TOOL or edit.mode_changed:
                continue
            is_known = looked is not None and edit.edit_id <= looked.edit_id
            if is_known and edit.after == digest and all(step.edit for step in steps):
                return []
            if edit.kind not in ("edit", "create") or edit.moved or edit.forgotten:
                break
            if edit.time_ms < since_ms:
                break
            if edit.after != digest or text is None:
                left = self._set.bases.find(edit.after, named, None)
                if left is None:
                    break
                steps.append(_Step(None, left, text))
                text = left
            before = Snapshot.of(edit.inverse.apply(text.data), named)
            steps.append(_Step(edit, before, text))
            if edit.kind == "create":
                break
            text, digest = before, edit.before
        return steps[::-1]

    def _stamp(self, path: RelPath) -> Stamp | None:
        """The state of the file at a real path; None without one."""
        try:
            real, stamp = self._set.files.stat(path)
        except FileNotFound:
            return None
        if real != path:
            raise NotAFile("symlink")
        return stamp


def _lost_in(steps: Sequence[_Step]) -> Iterable[_Lost]:
    """The edits that others' steps have overwritten, and that did not come back since."""
    authored = Authored(steps[0].before.keys if steps else ())
    standing: dict[int, tuple[Entry, set[int]]] = {}
    lost: dict[int, _Lost] = {}
    left: dict[int, int] = {}  # lines of lost edits that are like others
    seen: set[bytes] = set()
    texts: dict[str, list[int]] = {}  # by digest, the edits that are in them
    for step, later in zip_longest(steps, steps[1:]):
        seen.update(step.before.keys)
        alignment = align(step.before.keys, step.lines)
        if step.edit is not None:
            # A line that it puts back has one of the lost edits, or of those before, as its author.
            ids = {step.edit.edit_id}.union(*(standing[one][1] for one in lost))
            texts[step.before.digest] = [*standing]
            standing[step.edit.edit_id] = step.edit, ids
        else:
            done = {
                edit_id: authored.net(ids.__contains__)[1]
                for edit_id, (_, ids) in standing.items()
                if edit_id not in lost
            }
            foreign = _Foreign(step, alignment, seen, chain.from_iterable(done.values()))
            next_ms = later.edit.time_ms if later is not None and later.edit is not None else None
            older = texts.get(step.after.digest) if step.after is not None else None
            for edit_id in _undone(done, foreign, older):
                edit, line = standing[edit_id][0], done[edit_id][0].new_line + 1
                lost[edit_id] = _Lost(edit, line, step, next_ms)
        changes = [
            (gap.base_start, gap.base_stop, step.lines[gap.now_start : gap.now_stop])
            for gap in alignment.gaps()
        ]
        authored.change(changes, BASE if step.edit is None else step.edit.edit_id)
        for edit_id in [*lost]:
            count = sum(len(hunk.new) for hunk in authored.net(edit_id.__eq__)[1])
            if count > left.setdefault(edit_id, count):  # they are back
                del lost[edit_id], left[edit_id]
                if step.edit is not None:  # what was put back is looked for under that edit
                    del standing[edit_id]
    return lost.values()


def _undone(
    done: Mapping[int, Sequence[NetHunk]], foreign: _Foreign, older: Sequence[int] | None
) -> Sequence[int]:
    """Those of some edits that a foreign step has undone; it may have made a text of `older` ones.

    Only the layout of an older text is no sign: a formatter makes it too.
    """
    if older is not None:
        since = [edit_id for edit_id, hunks in done.items() if hunks and edit_id not in older]
        hunks = [hunk for edit_id in since for hunk in done[edit_id]]
        if any(b"".join(hunk.old).split() != b"".join(hunk.new).split() for hunk in hunks):
            return since
    return [edit_id for edit_id, hunks in done.items() if foreign.has_undone(hunks)]


class _Foreign:
    """What another program's step took out of a text, and put in.

    `seen` are all lines before it, `done` are what edits had done to it.
    """

    def __init__(
        self,
        step: _Step,
        alignment: Alignment,
        seen: set[bytes],
        done: Iterable[NetHunk],
    ) -> None:
        self._alignment, self._now, self._seen = alignment, step.lines, seen
        self._encoding = step.before.encoding
        gaps = [*alignment.gaps()]
        old, new = step.before.keys, step.lines
        taken = [line for gap in gaps for line in old[gap.base_start : gap.base_stop]]
        come = [line for gap in gaps for line in new[gap.now_start : gap.now_stop]]
        # What an edit had taken out, and is back there, has not come from another place.
        back = [line for hunk in done if self._is_back(hunk) for line in hunk.old]
        self._gone = self._words(taken) - (self._words(come) - self._words(back))

    def has_undone(self, hunks: Sequence[NetHunk]) -> bool:
        """Whether all that an edit did is gone; hunks without words of their own are no sign."""
        telling = [hunk for hunk in hunks if self._brought(hunk)]
        return bool(hunks) and all(map(self._is_undone, telling or hunks))

    def _is_undone(self, hunk: NetHunk) -> bool:
        lines = enumerate(hunk.new, hunk.new_line)
        left = [line for at, line in lines if self._alignment.now_of(at) is None]
        brought = self._brought(hunk)
        if not brought:
            return len(left) == len(hunk.new) and self._is_back(hunk)
        gone = brought & self._gone & self._words(left)
        is_clear = brought.total() >= _CLEAR or self._seen.issuperset(self._room(hunk))
        return is_clear and gone.total() >= _GONE * brought.total()

    def _is_back(self, hunk: NetHunk) -> bool:
        """Whether the old lines, not only blank ones, are there again.

        Among lines that are like others, what came may be found some lines above or below.
        """
        old, size = hunk.old, len(hunk.old)
        low, high = self._alignment.room_of(hunk.new_line, len(hunk.new))
        return any(map(bytes.strip, old)) and any(
            [*self._now[at : at + size]] == old
            and 2 * sum(self._alignment.base_of(k) is None for k in range(at, at + size)) >= size
            for at in range(max(low - size, 0), high + 1)
        )

    def _room(self, hunk: NetHunk) -> Sequence[bytes]:
        """The lines that are now where those of the hunk were."""
        low, high = self._alignment.room_of(hunk.new_line, len(hunk.new))
        return self._now[low:high]

    def _brought(self, hunk: NetHunk) -> Counter[str]:
        """The words of the new lines that the old ones do not have."""
        return self._words(hunk.new) - self._words(hunk.old)

    def _words(self, lines: Iterable[bytes]) -> Counter[str]:
        return Counter(_WORD.findall(" ".join(map(self._encoding.decode, lines)).lower()))
