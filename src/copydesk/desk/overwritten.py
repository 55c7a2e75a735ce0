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
from functools import partial
from heapq import nlargest
from itertools import chain, islice, takewhile, zip_longest
from typing import Final, NamedTuple

from copydesk.desk.backends.api import DAY_MS, HOUR_MS, Decision, Entry, Head
from copydesk.desk.changes import TextStep, steps_back
from copydesk.desk.drafts import Services
from copydesk.desk.history import MOST_SEARCHED, PAGE, History
from copydesk.desk.member import Member, may_read
from copydesk.desk.outcome import MEMBER, TOOL, recorded_patch
from copydesk.edit.kinds.files import ChangeMode, DeleteFile, MoveFile
from copydesk.edit.kinds.patch import PatchEdit, patch_of
from copydesk.edit.patch_parse import EXECUTABLE
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
from copydesk.store.dotfiles import is_from_git
from copydesk.store.protocol import Closing, Document, Stamp, StatResult
from copydesk.store.threads import Soon
from copydesk.text import sizes
from copydesk.text.authors import BASE, Authored, NetHunk
from copydesk.text.diff import Alignment, align, blob_id, common_ends
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

OVERWRITTEN: Final = "overwritten"
"""The verdict on such an edit, and the key under which it is recorded."""

LOOKED_BACK_MS = HOUR_MS
"""How old an edit may be that is looked for; later its authors have gone on."""

MOST_FILES = 32
"""So many files a look is at; of more, the others come with the next looks."""

_NEWEST = 8
"""So many of them are those that were edited last."""

LOOK_SECONDS = 0.25
"""How long after a call the files are looked at; several calls within it are one."""

_SHARE = 0.1
"""Of the time, at most, looks take beside the calls: others may save long files all the time."""

_LOOKED_AT_FIRST = 128 << 10
"""Bytes: the sizes of files times the steps to replay. No call waits for a look at more: what is
lost there is told by a later one."""

_STEPS = 3
"""An edit, and what another program wrote before it and after it."""

# `bench/overwritten.py` measures what these tell of real commits, miss, and tell falsely.

_FEW_NAMES = 2
"""So many names may be replaced in the lines of an edit, or more if each is in several places."""

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


class _Lost(NamedTuple):
    """An edit that a step overwrote, from a line (1-based) on; `next_ms`: when another followed."""

    edit: Entry
    line: int
    step: TextStep
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
    """A file as it was last looked at: its newest edit, its state, and git's names of its text.

    All edits up to `gone_id` are overwritten, and told; the next look replays about `steps` steps.
    """

    edit_id: int
    stamp: Stamp | None
    blobs: frozenset[str]
    gone_id: int = 0
    steps: int = _STEPS

    def stands(self, found: StatResult | None) -> bool:
        """Whether nobody wrote since, for certain."""
        return self.holds(found) and (self.stamp is None or self.stamp.settled)

    def holds(self, found: StatResult | None) -> bool:
        """Whether the file is in the same state, as far as `stat` can tell."""
        if self.stamp is None or found is None:
            return self.stamp is None and found is None
        return self.stamp.stands_in(found)


Contents = Callable[[Member, RelPath], tuple[Document, Snapshot | None]]
"""Reads a file for a member; without a text if it is binary."""


class Overwrites(Closing):
    """The overwritten edits of one workspace. Thread-safe."""

    def __init__(self, services: Services, history: History, contents: Contents) -> None:
        self._services, self._history, self._contents = services, history, contents
        self._soon = Soon(LOOK_SECONDS, _SHARE)
        self._edited: dict[RelPath, _Edited] = {}  # first those not looked at for longest
        self._known = 0  # the last edit that is among them
        self._looked: dict[RelPath, _Looked] = {}

    def look_soon(self) -> None:
        """Look at the files a moment after the call, or as the workspace is closed."""
        self._soon.do(self._look)

    def look(self) -> None:
        """Look at them now."""
        self.look_soon()
        self._soon.now()

    def look_again(self) -> None:
        """Look now at the short ones that have changed since: the next answer has to tell.

        Long ones, and those that are being looked at, are told by a later answer.
        """
        short, left = list[RelPath](), _LOOKED_AT_FIRST
        for path in self._turn():
            looked, found = self._looked.get(path), self._services.files.peek(path)
            if looked is None or looked.holds(found):
                continue
            now = 0 if found is None else found.st_size
            before = 0 if looked.stamp is None else looked.stamp.size
            if (cost := max(now, before) * looked.steps) <= left:
                left -= cost
                short.append(path)
        if short:
            self._soon.at_once(partial(self._look, short))

    def close(self) -> None:
        """Look if that was to be done soon."""
        self._soon.close()
        self._soon.now()

    def of(self, reader: Member) -> tuple[OverwrittenEdit, ...]:
        """Those of the last day, of all members, that the reader may read; in order of their ids.

        An edit that was made again is none of them.
        """
        found: list[OverwrittenEdit] = []
        since_ms = self._services.clock() - DAY_MS
        for said in self._services.records.comments(OVERWRITTEN):
            entry, path = self._services.records.get(-said.plan[1]), RelPath.parse(said.path)
            is_open = entry is not None and not said.reason and said.time_ms >= since_ms
            if entry is not None and is_open and may_read(self._services.files, reader, path):
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
        patch = recorded_patch(entry)
        if entry.kind == "create":
            return PatchEdit(at, patch.hunks, creates=True, executable=patch.mode == EXECUTABLE)
        named = self._services.encoding_of(entry.path)
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
        if (said := self._services.records.of((OVERWRITTEN, -edit_id))) is not None:
            self._services.records.withdraw(said)
            self._services.records.take(replace(said, reason="made again", told=True))

    def _look(self, paths: Iterable[RelPath] | None = None) -> None:
        """Look at these files, or at those whose turn it is."""
        self._take_edits()
        chosen = self._turn() if paths is None else paths
        turn = {path: self._edited[path] for path in chosen if path in self._edited}
        self._edited = {path: one for path, one in self._edited.items() if path not in turn} | turn
        for path, edited in turn.items():
            with suppress(Refusal):  # it cannot be read, or is no text
                for said in self._at(path, edited):
                    self._services.records.take(said)

    def _take_edits(self) -> None:
        """Find the newest edit of each file that was edited lately; drop those of others."""
        new: dict[RelPath, list[Head]] = {}
        since_ms = self._services.clock() - LOOKED_BACK_MS
        heads = self._services.records.heads(self._known, MOST_SEARCHED)
        for head in takewhile(lambda head: head.time_ms >= since_ms, heads):
            new.setdefault(RelPath.parse(head.path), []).append(head)
        self._known = heads[0].edit_id if heads else self._known
        found = self._edited | {path: self._edited_by(path, some) for path, some in new.items()}
        self._edited = {path: one for path, one in found.items() if one.time_ms >= since_ms}

    def _turn(self) -> dict[RelPath, _Edited]:
        """The files that the next look is at."""
        edited = self._edited
        newest = nlargest(_NEWEST, edited, key=lambda path: edited[path].edit_id)
        return {
            path: edited[path] for path in islice({**dict.fromkeys(newest), **edited}, MOST_FILES)
        }

    def _edited_by(self, path: RelPath, edits: Sequence[Head]) -> _Edited:
        """The newest of some new edits of a file, newest first."""
        newest, old = edits[0], self._edited.get(path)
        befores = [one.before for one in edits]
        afters = [*(one.after for one in edits[1:]), old.after if old else befores[-1]]
        is_linked = befores == afters and all(one.state == "done" for one in edits)
        return _Edited(newest.edit_id, newest.time_ms, newest.after, is_linked)

    def _at(self, path: RelPath, edited: _Edited) -> Iterator[Decision]:
        """Yield what is to be told of the edits of one file."""
        looked, found = self._looked.get(path), self._services.files.peek(path)
        if looked is not None and looked.edit_id == edited.edit_id and looked.stands(found):
            return
        if found is not None and found.st_size > sizes.CORRECTED:
            return
        document = self._read(path)
        data, stamp = (None, None) if document is None else (document.data, document.stamp)
        blobs = frozenset[str]() if data is None else _blobs(data)
        now = (looked or _Looked(0, None, blobs))._replace(
            edit_id=edited.edit_id, stamp=stamp, blobs=blobs
        )
        digest = "" if data is None else hashlib.sha256(data).hexdigest()
        if edited.is_linked and digest == edited.after:
            self._looked[path] = now
            return
        there = [
            one for one in self._services.records.entries(path, None, PAGE) if one.path == path
        ]
        is_being_written = any(one.state in ("open", "unsure") for one in there)
        # What was read has all these edits, and no other one, if the file is the same after all.
        if (
            is_being_written
            or there[0].edit_id != edited.edit_id
            or not now.holds(self._services.files.peek(path))
        ):
            return
        self._looked[path] = now  # also if it is no text: then it is refused here
        older = [one.before for one in there if one.edit_id <= now.gone_id]
        losses = _Losses(self._steps(path, there, data, looked), older)
        lost = {one.edit.edit_id: one for one in self._lost(path, losses, looked)}
        for edit, line, step, next_ms in lost.values():
            time_ms = next_ms or (stamp.mtime_ns // 1_000_000 if stamp else self._services.clock())
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
        if losses.standing:  # every one is recorded by now
            left = losses.standing.keys() - lost.keys()
            gone_id = min(left, default=max(losses.standing) + 1) - 1
            self._looked[path] = now._replace(gone_id=gone_id, steps=_STEPS + 2 * len(left))

    def _read(self, path: RelPath) -> Document | None:
        """The file at a real path; None without one."""
        try:
            document = self._services.files.read(path)
        except FileNotFound:
            return None
        if document.real != path:
            raise NotAFile("symlink")
        return document

    def _lost(self, path: RelPath, losses: _Losses, looked: _Looked | None) -> Iterator[_Lost]:
        """Yield the edits of a file that are overwritten."""
        files = self._services.files
        for lost in losses.lost.values():
            before, after = lost.step.before, lost.step.after
            was = looked.stamp if looked is not None and after is None else None
            is_moved = was is not None and files.has_moved(path, was)
            known = frozenset[str]() if looked is None else looked.blobs
            old, now = (
                frozenset[str]() if one is None else _blobs(one.data) for one in (before, after)
            )
            if not is_moved and not is_from_git(files.root, path, known | old, now):
                yield lost

    def _steps(
        self,
        path: RelPath,
        there: Sequence[Entry],
        data: bytes | None,
        looked: _Looked | None,
    ) -> list[TextStep]:
        """The edits, and what came between, oldest first; none if nothing came since the look.

        `there` are the newest edits, newest first. What was told is left out: a file
        that another program saves again and again would be replayed from its start each time.
        """
        named = self._services.encoding_of(path)
        text = None if data is None else Snapshot.of(data, named)
        edits = (
            edit
            for edit in there
            if edit.state != "failed" and edit.tool != TOOL and not edit.mode_changed
        )
        steps: list[TextStep] = []
        for step in steps_back(self._services, takewhile(self._is_of_text, edits), text, named):
            edit = step.edit
            is_known = edit is not None and looked is not None and edit.edit_id <= looked.edit_id
            if is_known and all(one.edit for one in steps):
                return []
            if edit is not None and looked is not None and edit.edit_id <= looked.gone_id:
                break
            steps.append(step)
            if edit is not None and edit.kind == "create":
                break
        return steps[::-1]

    def _is_of_text(self, edit: Entry) -> bool:
        """Whether it is an edit of the last hour that changed lines."""
        is_late = edit.time_ms >= self._services.clock() - LOOKED_BACK_MS
        return is_late and edit.kind in ("edit", "create") and not edit.moved


def _blobs(data: bytes) -> frozenset[str]:
    """What git may call a text, which it stores with LF alone where it converts line ends."""
    plain = data.replace(b"\r\n", b"\n")
    return frozenset(map(blob_id, {data, plain} if b"\r" in data else (data,)))


class _Losses:
    """The edits that others' steps have overwritten, and that did not come back since: `lost`.

    After each step that was taken in, `standing` are all edits so far, each with the ids under
    which lines of it may stand; `_texts`, by its digest, those of them that were in a text.
    `_authored` are the lines with their authors, `_counts` how many each has, `_left` how many a
    lost edit has left, which are like others. `_seen` are all lines that were ever there.
    """

    def __init__(self, steps: Sequence[TextStep], older: Sequence[str] = ()) -> None:
        """`older` are the digests of texts before the first step."""
        self.lost: dict[int, _Lost] = {}
        self.standing: dict[int, tuple[Entry, set[int]]] = {}
        self._texts: dict[str, list[int]] = {digest: [] for digest in older if digest}
        self._authored = Authored(steps[0].old if steps else ())
        self._counts: dict[int, int] = {}
        self._left: dict[int, int] = {}
        self._seen = set(steps[0].old if steps else ())
        for step, later in zip_longest(steps, steps[1:]):
            self._take(step, later)

    def _take(self, step: TextStep, later: TextStep | None) -> None:
        """Take in a step; `later` is the next one, if there is one."""
        edit = step.edit
        if edit is None and not self.standing:
            self._authored = Authored(step.lines)
            self._seen.update(step.lines)
            return
        alignment = align(step.old, step.lines)
        if edit is None:
            self._lose(step, alignment, later)
        else:
            # A line that it puts back has one of the lost edits, or of those before, as its author.
            ids = {edit.edit_id}.union(*(self.standing[one][1] for one in self.lost))
            self._texts[step.before.digest if step.before else ""] = [*self.standing]
            self.standing[edit.edit_id] = edit, ids
        changes = [
            (gap.base_start, gap.base_stop, step.lines[gap.now_start : gap.now_stop])
            for gap in alignment.gaps()
        ]
        self._seen.update(chain.from_iterable(new for _, _, new in changes))
        self._authored.change(changes, BASE if edit is None else edit.edit_id)
        self._counts = self._authored.counts()
        for edit_id in [*self.lost]:
            count = self._counts.get(edit_id, 0)
            if count > self._left.setdefault(edit_id, count):  # they are back
                del self.lost[edit_id], self._left[edit_id]
                if edit is not None:  # what was put back is looked for under that edit
                    del self.standing[edit_id]

    def _lose(self, step: TextStep, alignment: Alignment, later: TextStep | None) -> None:
        """Find the edits that another program's step has overwritten."""
        done = {
            edit_id: self._authored.net(ids.__contains__)[1]
            for edit_id, (_, ids) in self.standing.items()
            if edit_id not in self.lost and not ids.isdisjoint(self._counts)  # else all is gone
        }
        foreign = _Foreign(step, alignment, self._seen, chain.from_iterable(done.values()))
        next_ms = later.edit.time_ms if later is not None and later.edit is not None else None
        older = self._texts.get(step.after.digest) if step.after is not None else None
        for edit_id in _undone(done, foreign, older):
            edit, line = self.standing[edit_id][0], done[edit_id][0].new_line + 1
            self.lost[edit_id] = _Lost(edit, line, step, next_ms)


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
        step: TextStep,
        alignment: Alignment,
        seen: set[bytes],
        done: Iterable[NetHunk],
    ) -> None:
        self._alignment, self._now, self._seen = alignment, step.lines, seen
        assert step.before is not None, "an edit left it"
        self._encoding = step.before.encoding
        gaps = [*alignment.gaps()]
        old, new = step.old, step.lines
        self._alike: dict[int, int] = {}  # lines taken out, and those that came in of their shape
        for gap in gaps:
            sides = old[gap.base_start : gap.base_stop], new[gap.now_start : gap.now_stop]
            for run in align(*([*map(self._shape, side)] for side in sides)).runs:
                base, now = gap.base_start + run.base_start, gap.now_start + run.now_start
                self._alike |= {base + k: now + k for k in range(run.length)}
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
        if not (brought := self._brought(hunk)):
            return len(left) == len(hunk.new) and self._is_back(hunk)
        gone = brought & self._gone & self._words(left)
        if self._is_renamed(hunk):
            return False
        is_clear = brought.total() >= _CLEAR or self._seen.issuperset(self._room(hunk))
        return is_clear and gone.total() >= _GONE * brought.total()

    def _is_renamed(self, hunk: NetHunk) -> bool:
        """Whether the lines stand there with a few names replaced by others, each by one.

        Not if these are the names that the edit had replaced.
        """
        names: dict[str, str] = {}
        places, now = 0, list[bytes]()
        for at, line in enumerate(hunk.new, hunk.new_line):
            if self._alignment.now_of(at) is not None or not line.strip():
                continue
            if at not in self._alike:
                return False
            now.append(self._now[self._alike[at]])
            sides = (_WORD.findall(self._encoding.decode(one)) for one in (line, now[-1]))
            for old, new in zip(*sides, strict=True):
                if names.setdefault(old, new) != new:
                    return False
                places += old != new
        parts = {_differing(old, new) for old, new in names.items() if old != new}
        taken = self._words(hunk.old) - self._words(hunk.new)
        is_back = 2 * (taken & self._words(now)).total() > taken.total()
        return len(parts) <= max(_FEW_NAMES, places // 2) and not is_back

    def _shape(self, line: bytes) -> str:
        """The line without its words and blanks."""
        return "".join(_WORD.sub("w", self._encoding.decode(line)).split())

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


def _differing(old: str, new: str) -> tuple[str, str]:
    """What differs of two names between the ends that they share."""
    head, tail = common_ends(old, new)
    return old[head : len(old) - tail], new[head : len(new) - tail]
