"""Outcomes of calls, and writes of other programs while a file was being replaced.

Invariant: the entry of such a write is that of an edit that removed the other program's text, so
that undoing it restores that text; it is stored on disk even if the journal in use ends with the
process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from copydesk.desk.backends.api import Entry, Records, State
from copydesk.desk.backends.snapshots import ShownLines, Snapshots
from copydesk.desk.member import Member
from copydesk.edit.draft import ContextMatch, Draft, Plan
from copydesk.edit.kinds.base import Fixed
from copydesk.edit.kinds.patch import PatchEdit
from copydesk.edit.patch_parse import FilePatch, parse_diff
from copydesk.errors import CheckFinding, FileNotFound, Refusal
from copydesk.store.files import Files
from copydesk.store.protocol import Named
from copydesk.store.threads import held_at_fork
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import common_ends, diff_text, unified
from copydesk.text.encoding import Encoding, encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text

TOOL = "foreign_write"
"""The tool name of such an entry."""

MEMBER = "another program"


@dataclass(frozen=True, slots=True)
class Saved:
    """A write of another program that is not in the file; `edit_id` is the edit to undo.

    With a `state`, how an edit ended whose process died: `unsure`, as the file does not tell, or
    `failed`, put back beside one that is.

    `lasting_id` is its id in the journal of the state folder: the same, unless the journal in use
    is in memory. Both are 0 if nothing was written yet: another program holds the replaced file
    open for writing, and what it writes from now on is not in the file.
    """

    path: RelPath
    edit_id: int
    lasting_id: int
    state: State | None = None


class ForeignWrites:
    """What other programs wrote at the wrong moment, until it is told. Thread-safe.

    Their writes are saved, for which `lasting` opens a disk journal; `bases` keeps the texts of
    edits in doubt.
    """

    def __init__(
        self,
        files: Files,
        journal: Records,
        bases: Snapshots,
        clock: Callable[[], int],
        named: Named,
        lasting: Callable[[], Records] | None = None,
    ) -> None:
        self._files, self._journal, self._lasting = files, journal, lasting
        self._clock, self._named, self._bases = clock, named, bases
        self._untold: list[Saved] = []
        self._lock = held_at_fork(Lock())

    def note_open(self, real: RelPath) -> None:
        """Tell that another program holds the replaced file open for writing."""
        with self._lock:
            if (saved := Saved(real, 0, 0)) not in self._untold:
                self._untold.append(saved)

    def keep(self, real: RelPath, theirs: bytes, ours: bytes | None, is_tail: bool) -> None:
        """Record `theirs`, which `ours` (or the current content) replaced; raises Refusal.

        `is_tail`: it is only what was appended to the file that was replaced.
        """
        is_gone = False
        if ours is None:
            try:
                ours = self._files.read(real).data
            except FileNotFound:
                ours, is_gone = b"", True
        if is_tail:
            theirs = ours + theirs
        if ours == theirs and not is_gone:
            return
        before = Snapshot.of(theirs, self._named(real))
        change = ChangeSet.of(len(theirs), [_difference(theirs, ours)])
        entry = Entry(
            time_ms=self._clock(),
            member=MEMBER,
            tool=TOOL,
            path=real,
            kind="remove" if is_gone else "edit",
            before=hashlib.sha256(theirs).hexdigest(),
            after="" if is_gone else hashlib.sha256(ours).hexdigest(),
            inverse=change.invert(theirs),
            diff=unified(before, change, str(real)),
            state="done",
        )
        lasting_id = 0 if self._lasting is None else _recorded(self._lasting(), entry)
        edit_id = _recorded(self._journal, entry)
        with self._lock:
            self._untold.append(Saved(real, edit_id, lasting_id or edit_id))

    def note_doubt(self, entries: Sequence[Entry]) -> None:
        """Tell how the edits of a dead process ended (oldest first), of which some are in doubt.

        The texts as they were planned, which undo needs, and those that are there are kept.
        """
        text: Snapshot | None = None
        for entry in entries:
            if entry.state != "unsure" or entry.kind != "edit" or entry.mode_changed:
                continue
            named = self._named(entry.path)
            with suppress(Refusal):
                there = self._files.read(entry.path).data
                self._bases.keep(Snapshot.of(there, named), entry.path)
            with suppress(Refusal, ValueError):  # its diff is not whole
                if text is None or text.digest != entry.before:
                    text = self._bases.find(entry.before, named, None)
                if text is not None and (text := planned_text(entry, text)) is not None:
                    self._bases.keep(text, entry.path)
        with self._lock:
            self._untold += [
                Saved(one.path, one.edit_id, one.edit_id, one.state) for one in entries
            ]

    def told(self, member: Member) -> tuple[Saved, ...]:
        """Unreported foreign writes of files that the member may read."""
        if not self._untold:
            return ()
        with self._lock:
            found = [one for one in self._untold if member.permission.allows_read(one.path)]
            self._untold = [one for one in self._untold if one not in found]
        return tuple(found)

    @property
    def any_untold(self) -> bool:
        """Whether there are unreported foreign writes."""
        return bool(self._untold)

    def take_untold(self) -> tuple[Saved, ...]:
        """All unreported foreign writes, regardless of rights."""
        with self._lock:
            found, self._untold = self._untold, []
        return tuple(found)


def planned_text(entry: Entry, base: Snapshot) -> Snapshot | None:
    """The text that an edit was to make of this one; None if its diff does not say. May refuse."""
    request = PatchEdit(entry.path, recorded_patch(entry).hunks)
    made = base.edited(request.compose(base, request.locate(base), created=False).change)
    return made if made.digest == entry.after else None


def recorded_patch(entry: Entry) -> FilePatch:
    """The patch of one file that the diff of an edit is; raises InvalidArgs if it is none."""
    (patch,) = parse_diff(encoding_of_diff(entry.diff, None).decode(entry.diff))
    return patch


def _recorded(journal: Records, entry: Entry) -> int:
    edit_id = journal.open(entry)
    journal.close_all([edit_id], "done")
    return edit_id


def _difference(old: bytes, new: bytes) -> Edit:
    """The edit of the lines between those that both texts share at the start and at the end."""
    mine, theirs = (re.findall(rb".*\n|.+", text) for text in (old, new))
    head, tail = common_ends(mine, theirs)
    start = sum(map(len, mine[:head]))
    kept = sum(map(len, mine[len(mine) - tail :]))
    return Edit(start, len(old) - kept, new[start : len(new) - kept])


class Drafted:
    """What a plan would write, or has written, as one reads it."""

    __slots__ = ()
    plan: Plan
    draft: Draft

    @property
    def path(self) -> RelPath:
        """The file; where it was, if it is moved."""
        return self.draft.request.path

    @property
    def diff(self) -> str:
        """The unified diff; `draft.diff` are its bytes, as `git apply` takes them."""
        return diff_text(self.draft.diff, self.draft.base.encoding)

    def __repr__(self) -> str:
        lines = f"+{self.draft.new_count} -{self.draft.old_count}"
        return f"{type(self).__name__}({self.plan}, {lines})"


@dataclass(frozen=True, slots=True, repr=False)
class Planned(Drafted):
    """A pending plan.

    `real` is the real path. `declined`: why `auto`, if requested, did not write; `refusal`: the
    error when it tried. `checks` are the new findings in the text as it would be; None if no check
    applies. `signs` say why the new text may not be what is meant. `fixed`: the request was
    corrected to this one.
    """

    plan: Plan
    draft: Draft
    real: RelPath
    declined: str | None = None
    refusal: Refusal | None = None
    checks: tuple[CheckFinding, ...] | None = None
    signs: tuple[str, ...] = ()
    fixed: Fixed | None = None

    @property
    def id(self) -> str:
        """The id to apply the plan by."""
        return self.plan.id


@dataclass(frozen=True, slots=True, repr=False)
class Applied(Drafted):
    """A plan was written as `draft`, to the file at that moment; `edit_id` 0: nothing to change.

    `causes`: its old text was not there as given, but differed by them.
    """

    plan: Plan
    draft: Draft
    context: ContextMatch
    edit_id: int
    foreign_writes: tuple[Saved, ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The plan could not be applied to the current file; nothing was written, it stays pending."""

    plan: Plan
    refusal: Refusal
    current: Text | None


@dataclass(frozen=True, slots=True)
class Transacted:
    """Several plans were written, all of them, listed in this order.

    `group` is the id of the transaction, empty if nothing had to be changed. `versions` are those
    of the files after all plans, by plan id, empty for a file that was deleted; `diffs` has one for
    each file that was changed.
    """

    group: str
    applied: tuple[Applied, ...]
    versions: Mapping[str, str]
    diffs: tuple[tuple[bytes, Encoding], ...]
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """What would have happened to one of several plans: written (`context`) or refused."""

    plan: Plan
    context: ContextMatch
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """Several plans were not written and stay pending; `refusal` is that of `plan`, if any."""

    refusal: Refusal
    plan: Plan | None
    verdicts: tuple[PlanVerdict, ...]


@dataclass(frozen=True, slots=True)
class Created:
    """A new file was written."""

    path: RelPath
    after: Snapshot
    newline_added: bool
    edit_id: int
    diff: bytes
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A file was replaced as a whole, or was the same already (`edit_id` 0)."""

    path: RelPath
    before: Snapshot
    after: Snapshot
    newline_added: bool
    edit_id: int
    diff: bytes
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Some lines of a file; `first_line` is 1-based.

    `mtime_ms` is in milliseconds since 1970, `digest` the SHA-256 in hex. `wanted` are the lines
    [start, stop) requested, 0-based, shown or not; `clipped`: the range went past the end.
    `cut_in_line`: the only line shown is just its start. `total_lines`, `version`, `newline_style`
    and `ends_with_newline` are None if only the end of a large file was read.
    """

    path: RelPath
    first_line: int | None
    lines: tuple[str, ...]
    size_bytes: int
    encoding: str
    total_lines: int | None
    version: str | None
    newline_style: str | None
    ends_with_newline: bool | None
    cut_by_lines: bool
    cut_by_characters: bool
    cut_in_line: bool
    wanted: tuple[int, int]
    clipped: bool
    mtime_ms: int
    digest: str | None

    @property
    def shown(self) -> ShownLines:
        """The lines that were shown whole."""
        if self.version is None or self.first_line is None or self.total_lines is None:
            return ShownLines("", 1, ())
        first = self.first_line - 1
        last = first + len(self.lines) - self.cut_in_line
        return ShownLines(self.version, self.total_lines, ((first, last),) if first < last else ())


class Revision(Protocol):
    """A change of a text that is written, or is to be."""

    @property
    def base(self) -> Text:
        """The text before."""
        ...

    @property
    def change(self) -> ChangeSet:
        """The change itself."""
        ...

    @property
    def after(self) -> Text:
        """The text after."""
        ...

    @property
    def diff(self) -> bytes:
        """The unified diff."""
        ...


@dataclass(frozen=True, slots=True)
class Undone:
    """An edit was undone by another one, or nothing was left of it (`edit_id` 0).

    `change` was made on `base`, the file at that moment. `context` is `exact` if the diff is
    exactly the inverse of the edit's.
    """

    entry: Entry
    base: Text
    change: ChangeSet
    after: Text
    diff: bytes
    context: ContextMatch
    edit_id: int
    foreign_writes: tuple[Saved, ...] = ()
    at: RelPath | None = None

    @property
    def path(self) -> RelPath:
        """The path of the undo: the file may have moved since the edit."""
        return self.at or self.entry.path


@dataclass(frozen=True, slots=True)
class NotUndone:
    """An undo was refused; `current` is the file with `lines` (0-based) loaded."""

    entry: Entry
    refusal: Refusal
    current: Text | None = None
    lines: tuple[int, int] = (0, 0)
