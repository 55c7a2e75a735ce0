"""The desk of files: prepare, apply, discard, create, overwrite, undo, for one member at a time.

Invariants: only `Writer` writes; a plan that was refused stays pending; a plan is applied once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from copydesk.desk.applying import Applying
from copydesk.desk.backends.api import drop_plans
from copydesk.desk.backends.snapshots import Note, Run, ShownLines
from copydesk.desk.changes import Changes
from copydesk.desk.drafts import Blocks, Drafted, Drafting, Setting, digest_of, made, signs_in
from copydesk.desk.gates import Edited, Findings, needs_person
from copydesk.desk.history import Forgetting, History, Undoing
from copydesk.desk.member import (
    Member,
    authorized,
    check_look,
    check_shown,
    may_read,
    note_whole,
    unshown,
)
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    Reading,
    Rejected,
    Transacted,
    Undone,
    Withheld,
)
from copydesk.desk.overwritten import Overwrites
from copydesk.desk.review import Review
from copydesk.desk.transaction import Writer
from copydesk.edit.draft import Draft, Plan, checked_id, compose, foot_span, whole_text
from copydesk.edit.kinds.base import Fixed
from copydesk.edit.kinds.lines import first_line_of, lines_wanted, tail_count
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.request import (
    Request,
    Terms,
    check_no_patch,
)
from copydesk.edit.signs import signs_of
from copydesk.errors import (
    BinaryFile,
    ContentChanged,
    EditNotFound,
    Failed,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    Refusal,
    StaleRead,
    StatsMismatch,
    SuspiciousText,
    Unsettled,
    WrongMode,
)
from copydesk.store.files import Files
from copydesk.store.protocol import Document, Stamp
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, Source, newline_style
from copydesk.text.unified import FileEdit

ON_NO_TERMS = Terms()

_CORRECTED_MS = 600_000
"""The life of a plan whose old text was corrected."""

_MOST_NAMED = 5
"""The most runs of unseen lines that are listed."""

_HOW_ON = "read them, give expected_old, or check the plan and apply it"
_HOW_ON_DELETING = "read them, or check the plan and apply it"


class FileDesk:
    """The desk of one workspace, and of its notes. Thread-safe."""

    def __init__(self, setting: Setting, writer: Writer, blocks: Blocks) -> None:
        self._set = setting
        self._drafting = Drafting(setting)
        self.blocks = blocks
        self.applying = Applying(setting, self._drafting, writer, blocks)
        self.history = History(setting)
        self.foreign = setting.foreign
        self.forgetting = Forgetting(setting, self._drafting, self.applying.lock)
        self._undoing = Undoing(setting, self._drafting, self.history, writer, blocks)
        self.undo_all = self._undoing.undo_all
        self.review = Review(setting, self._drafting, self.applying)
        self.changes = Changes(setting, self)
        self.overwrites = Overwrites(setting, self.history, self.contents)
        self.overwritten = self.overwrites.of

    def prepare(
        self, member: Member, tool: str, request: Request, terms: Terms = ON_NO_TERMS
    ) -> Planned | Applied:
        """Plan the edit, or make it at once if asked to and certain; or raise its refusals."""
        now_ms = self._set.clock()
        existing: Plan | None = None
        if terms.existing_hunk_id is not None:
            existing = self._drafting.own_plan(member, terms.existing_hunk_id, tool)
            if existing.tool != tool:
                raise WrongMode(existing.id, existing.tool, tool)
            # A version is known by its plan's time: within a millisecond as well.
            now_ms = max(now_ms, existing.created_ms + 1)
        if request.in_notes:
            draft = self.blocks().draft(member, request)
            drafted = Drafted(draft, request.path, draft.place)
        else:
            drafted = self._drafting.of(member, request, terms)
            draft = drafted.draft
        real = self._drafting.real
        if existing and real(existing.request.path) != real(draft.request.path):
            # A page or a person may still have the plan as one of that file.
            reason = f"is of {existing.request.path}: leave it out to plan an edit of another file"
            raise InvalidArgs("existing_hunk_id", reason)
        asks, fixed = needs_person(member, draft, drafted.real), drafted.fixed
        life_ms = self._set.life_ms(needs_person=asks) if fixed is None else _CORRECTED_MS
        checks, signs = self._checked(drafted.real, draft), signs_in(member, draft)
        plan = Plan(
            id=existing.id if existing else self._set.ids(),
            owner=member.name,
            toolset=member.toolset,
            tool=tool,
            request=draft.request,
            place=draft.place,
            action=draft.action,
            base_digest=None if draft.created else draft.base.digest,
            diff_digest=digest_of(draft.diff),
            created_ms=now_ms,
            expires_ms=now_ms + life_ms,
            span=foot_span(draft.base, draft.place),
            blocks=draft.reads,
            why=member.why or (existing.why if existing else ""),
            task=member.task or (existing.task if existing else ""),
            transaction=member.transaction or (existing.transaction if existing else ""),
        )
        declined: str | None = None
        refusal: Refusal | None = None
        if terms.auto:
            declined = self._uncertain(member, drafted, terms) or next(iter(signs), None)
            declined = declined or _uncorrected(member, fixed)
        is_written, is_stored = terms.auto and declined is None, existing is not None
        if not is_written or is_stored:
            plan = self._reserved(plan, existing)
        self.applying.show(plan, draft)
        if is_written:
            while not is_stored and self._is_taken(plan.id):
                plan = replace(plan, id=self._set.ids())
            outcome = self.applying.write(member, plan, draft.base, is_stored=is_stored)
            if isinstance(outcome, Applied):
                return as_corrected(outcome, fixed)
            refusal, declined = outcome.refusal, outcome.refusal.code
            if not is_stored:
                if isinstance(refusal, Unsettled):
                    raise refusal
                plan = self._reserved(plan, None)
            plan = self.applying.await_person(plan, refusal)
        if plan.request.reads != "nothing":
            at = real(plan.request.path) if plan.request.in_notes else drafted.real
            self._drafting.remember_planned(draft.base, at)
        return Planned(plan, draft, declined, refusal, drafted.real, checks, signs, fixed)

    def declined(self, member: Member, planned: Planned, terms: Terms) -> str | None:
        """Why a plan may not be written without being shown first; None if it may."""
        draft = planned.draft
        real = planned.real or self._drafting.real(draft.request.path)
        uncertain = self._uncertain(member, Drafted(draft, real, draft.place), terms)
        declined = uncertain or next(iter(planned.signs), None)
        return declined or _uncorrected(member, planned.fixed)

    def read(
        self,
        member: Member,
        path: RelPath,
        range_text: str = "",
        most_lines: int = 0,
        most_tokens: int | None = None,
    ) -> Reading:
        """Read some lines of a file; store the text as a base, and record the shown lines."""
        authorized(self._set.files, member, path, "read")
        try:
            real, stamp = self._set.files.stat(path)
            member.permission.check("read", real)  # the path may point to another file by now
            self._set.locks.settle(real)
            if stamp.size > sizes.LARGE:
                named = self._set.named(real)
                limits = range_text, most_lines, most_tokens
                seen = _read_large(path, stamp, self._set.files, named, *limits)
                if seen.digest is not None:
                    lines = seen.total_lines or 0
                    self._drafting.remember_large(seen.digest, seen.size_bytes, lines, real)
                self._set.bases.note_shown(Note(member.name, real, seen.shown))
                return seen
            document = self._set.files.read(path)
            member.permission.check("read", document.real)
        except FileNotFound:
            raise self._drafting.missing(member, path) from None
        base = Snapshot.of(document.data, self._set.named(document.real))
        mtime_ms = document.stamp.mtime_ns // 1_000_000
        try:
            found = _read_lines(path, base, mtime_ms, range_text, most_lines, most_tokens)
        except Refusal:
            self._set.bases.keep(base, document.real)  # the refusal may count its lines
            raise
        note = Note(member.name, document.real, found.shown)
        self._set.bases.keep(base, document.real, [note])
        return found

    def contents(
        self,
        member: Member,
        path: RelPath,
        shown: Callable[[Snapshot], Iterable[Run]] | None = None,
    ) -> tuple[Document, Snapshot | None]:
        """A whole file: bytes, and text if it is one; the `shown` lines of it are recorded."""
        authorized(self._set.files, member, path, "read")
        try:
            document = self._set.files.read(path)
        except FileNotFound:
            raise self._drafting.missing(member, path) from None
        member.permission.check("read", document.real)  # the path may point to another one by now
        try:
            base = Snapshot.of(document.data, self._set.named(document.real))
        except BinaryFile:
            return document, None
        if shown is not None:
            lines = ShownLines(base.version, base.line_count, tuple(shown(base)))
            self._set.bases.keep(base, document.real, [Note(member.name, document.real, lines)])
        return document, base

    def note_shown(
        self,
        member: Member,
        path: RelPath,
        lines: ShownLines | Callable[[], ShownLines],
        real: RelPath | None = None,
    ) -> None:
        """Record lines that an answer showed the member; a function is called later."""
        self._set.bases.note_shown(Note(member.name, real or self._drafting.real(path), lines))

    def apply(self, member: Member, tool: str, hunk_id: str) -> Applied | Rejected:
        """Write the plan to the current file, once.

        Raises InvalidHunkId, HunkNotFound, WrongOwner, WrongMode, AccessDenied; what the file
        refuses is returned as Rejected.
        """
        try:
            plan = self._drafting.own_plan(member, hunk_id, tool)
        except HunkNotFound as gone:  # what was written at once was no plan, but has an id
            is_written = gone.reason == "unknown" and self._set.journal.of_hunk(hunk_id)
            raise HunkNotFound(hunk_id, "applied") if is_written else gone from None
        return self.applying.write(member, plan)

    def apply_all(
        self, member: Member, tool: str, hunk_ids: Sequence[str]
    ) -> Transacted | Withheld:
        """Write several plans, in one file or in several, all or none.

        Raises what `apply` raises, and InvalidArgs for no ids or one given twice; what a file
        refuses is returned as Withheld.
        """
        return self.applying.apply_all(member, tool, hunk_ids)

    def undo(self, member: Member, tool: str, edit_id: int) -> Undone | NotUndone:
        """Undo an edit in the current file, even if other lines changed since.

        Raises EditNotFound and AccessDenied; what the file refuses is returned as NotUndone.
        """
        return self._undoing.undo(member, tool, edit_id)

    def undo_together(
        self, member: Member, tool: str, edit_id: int
    ) -> tuple[Undone, ...] | NotUndone:
        """Undo all edits of an edit's transaction that are in effect, or none."""
        return self._undoing.undo_together(member, tool, edit_id)

    def reapply(
        self, member: Member, tool: str, edit_id: int, *, auto: bool = True
    ) -> Applied | Planned | None:
        """Make an edit anew that another program overwrote, or plan it; None if it stands.

        Raises EditNotFound, AccessDenied, ContentChanged, AmbiguousMatch and those of `prepare`.
        """
        entry = self.history.entry(member, edit_id)
        if entry.forgotten or entry.state == "failed":
            raise EditNotFound(edit_id, "forgotten" if entry.forgotten else "failed")
        request = self.overwrites.anew(member, entry)
        if request is None:
            return None
        outcome = self.prepare(member.because(entry.why), tool, request, Terms(auto=auto))
        self.overwrites.end(edit_id)
        return outcome

    def discard(self, member: Member, hunk_id: str, tool: str | None = None) -> Plan:
        """Discard the plan; InvalidHunkId, HunkNotFound, WrongOwner; WrongMode for a `tool`."""
        plan = self._drafting.own_plan(member, hunk_id, tool)
        with self.applying.lock(plan):
            plan = self._set.registry.plan(plan.id, self._set.clock())
            self._set.registry.end(plan.id, "discarded", self._set.clock())
        return plan

    def waiting(self, member: Member, path: RelPath | None = None) -> tuple[Plan, ...]:
        """All members' plans on files this one may read (there or below), oldest first."""
        files = self._set.files
        plans = self._drafting.waiting()
        seen = (
            plan
            for plan in plans
            if all(may_read(files, member, one) for one in plan.request.paths)
        )
        if path is None:
            return tuple(seen)
        real = check_look(files, member, path)
        return tuple(p for p in seen if real.covers(files.resolve(p.request.path)))

    def show(self, member: Member, hunk_id: str) -> Planned:
        """The plan as it was shown, on its base if that is stored, else on the current file."""
        plan = self._set.registry.plan(checked_id(hunk_id), self._set.clock())
        real, *_ = (authorized(self._set.files, member, one, "read") for one in plan.request.paths)
        if plan.request.in_notes:
            return Planned(plan, self.blocks().draft(member, plan.request))
        base = None
        if plan.base_digest is not None:
            base = self._set.bases.find(plan.base_digest, self._set.named(real), None)
        if base is not None:
            draft = compose(plan.request, base, plan.place)
        elif plan.base_digest is None:
            draft = self._drafting.of_new(plan.request)
        else:
            draft = self._drafting.at_hand(member, plan.request, lambda now: made(plan, now))
        checks, signs = self._checked(real, draft), signs_in(member, draft)
        return Planned(plan, draft, checks=checks, signs=signs)

    def drop_texts(self) -> None:
        """Drop the texts in memory that answer later calls, as some were forgotten."""
        self.applying.drop_drafts()
        drop_plans()

    def missing(self, member: Member, path: RelPath) -> FileNotFound:
        """The refusal for a missing file, with similar names in its directory."""
        return self._drafting.missing(member, path)

    def create(
        self, member: Member, tool: str, path: RelPath, content: str, *, may_be_diff: bool = False
    ) -> Created:
        """Write a new file; a last line without newline gets one, like that of the line before.

        Raises SuspiciousDiff, SuspiciousText, FileExists and NotAFile; AccessDenied also if the
        member may write but not read, since any other answer would reveal what is there.
        """
        authorized(self._set.files, member, path, "write", "read")
        if not may_be_diff:
            check_no_patch(content)
        added = bool(content) and not content.endswith("\n")
        nothing = self._drafting.nothing_at(path)
        crlf = content[: content.rfind("\n") + 1].endswith("\r\n")
        new = nothing.encoding.encode(content + ("\r\n" if crlf else "\n") * added)
        change = ChangeSet.of(0, [Edit(0, 0, new)])
        made = FileEdit(path, nothing, change, created=True)
        self._check_signs(member, tool, made)
        written = self.applying.create(member, tool, path, made)
        note_whole(self._set.bases, member, self._drafting.real(path), made.after)
        return Created(path, made.after, added, written.edit_id, made.diff)

    def overwrite(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        known: tuple[int, int] | None,
        content: str,
        *,
        may_be_diff: bool,
    ) -> Overwritten:
        """Replace the whole file, if it has `known` lines and bytes, else as the member knows it.

        Raises SuspiciousDiff, SuspiciousText, FileNotFound, StatsMismatch, EncodingRefused, and
        IncompleteRead if the member was shown only a part of it; without `known` also StaleRead if
        it was shown another text.
        """
        if not may_be_diff:
            check_no_patch(content)
        added = bool(content) and not content.endswith("\n")
        real, doubted = self._drafting.real(path), list[FileEdit]()

        def revise(now: Source) -> FileEdit:
            if known is not None and (now.line_count, now.size) != known:
                raise StatsMismatch(*known, now.line_count, now.size, now.version)
            check_shown(self._set.bases, member, real)
            seen = self._set.bases.shown(member.name, real) if known is None else None
            if seen is not None and seen.version != now.version:
                reason = "the file changed since it was read"
                raise StaleRead(seen.version, now.version, now.line_count, reason)
            base = now.whole()
            text = whole_text(base, content + "\n" * added).replace("\r\n", "\n")
            newline = base.dominant_newline
            new = newline.join(base.encoding.encode(part) for part in text.split("\n"))
            change = ChangeSet.of(base.size, [Edit(base.start(0), base.size, new)])
            made = FileEdit(path, base, change)
            if found := signs_of(path, base, change, member.usual_signs):
                doubted.append(made)
                raise SuspiciousText(found)
            return made

        try:
            written = self.applying.edit(member, tool, path, revise)
        except SuspiciousText:
            self._check_signs(member, tool, doubted[-1])
            raise
        except FileNotFound:
            raise self._drafting.missing(member, path) from None
        made = written.made
        note_whole(self._set.bases, member, real, made.after)
        return Overwritten(path, made.base, made.after, added, written.edit_id, made.diff)

    def rewrite(
        self, member: Member, tool: str, path: RelPath, base: Snapshot | None, change: ChangeSet
    ) -> int:
        """Make this change in the unchanged file; the edit id. ContentChanged, FileExists."""
        old = base if base is not None else Snapshot.of(b"")
        made = FileEdit(path, old, change, created=base is None)
        if base is None:
            return self.applying.create(member, tool, path, made).edit_id

        def same(now: Source) -> FileEdit:
            if now.digest != old.digest:
                raise ContentChanged("the file or the plan changed since it was shown")
            return made

        return self.applying.edit(member, tool, path, same).edit_id

    def _check_signs(self, member: Member, tool: str, made: FileEdit) -> None:
        """Raise SuspiciousText, with the id of a plan, for a whole file with faults in its text."""
        signs = signs_of(made.path, made.base, made.change, member.usual_signs)
        if signs:
            request = patch_of(made.path, made.base, made.change, created=made.created)
            planned = self.prepare(member, tool, request)
            assert isinstance(planned, Planned), "it was not to be written"
            raise SuspiciousText(signs, planned.plan.id)

    def _checked(self, real: RelPath, draft: Draft) -> Findings | None:
        """New findings of checks in the text that the plan would write."""
        if not self._set.checks.concern(real):
            return None
        return self._set.checks.judge(*Edited.of_plan(real, draft))

    def _uncertain(self, member: Member, drafted: Drafted, terms: Terms) -> str | None:
        """Why an edit may not be made without being shown first; None if it may."""
        draft = drafted.draft
        place, version = draft.place, terms.version
        is_one = not place.parts
        if is_one and (place.first_taken or (place.candidates > 1 and version is None)):
            return "several places match the anchor; give version to be certain of one"
        most = member.auto_lines
        if most is not None and max(draft.old_count, draft.new_count) > most:
            return "more lines than may be written without being shown first"
        lines = draft.request.unguarded(drafted.named, terms)
        if not lines:
            return None
        deletes = draft.request.deletes  # that takes no expected_old
        if version is None and deletes:
            return "no version says what is deleted"
        if version is None:
            return "neither version nor expected_old says what is replaced"
        is_old = version != draft.base.version
        missing = unshown(self._set.bases, member, drafted.real, version, *lines, is_old=is_old)
        if not missing:
            return None
        shown = ", ".join(f"{a + 1}~{b}" for a, b in missing[:_MOST_NAMED])
        shown += ", ..." * (len(missing) > _MOST_NAMED)
        how_on = _HOW_ON_DELETING if deletes else _HOW_ON
        return f"lines {shown} of version {version} were not shown to you; {how_on}"

    def _is_taken(self, hunk_id: str) -> bool:
        """Whether a plan has, or had, this id."""
        try:
            self._set.registry.plan(hunk_id, self._set.clock())
        except HunkNotFound as gone:
            return gone.reason != "unknown"
        return True

    def _reserved(self, plan: Plan, existing: Plan | None) -> Plan:
        """Store the plan under a new id, or in place of `existing`."""
        if existing is not None:
            with self.applying.lock(existing):
                self.applying.check_waits(existing)
                self._set.registry.put(plan)
            return plan
        while not self._set.registry.add(plan):
            plan = replace(plan, id=self._set.ids())
        return plan


def _uncorrected(member: Member, fixed: Fixed | None) -> str | None:
    """Why a corrected edit is not written without being shown; None if it may be."""
    if fixed is None or (fixed.is_certain and member.corrects):
        return None
    return "the old text is not in the file as given"


def as_corrected(outcome: Applied, fixed: Fixed | None) -> Applied:
    """The outcome of an edit that was corrected and written."""
    return outcome if fixed is None else replace(outcome, context="fuzz", causes=fixed.causes)


# Lines of files. No more is shown than requested, and an answer says what was cut: a range at its
# end, one that is counted from the end of the file at its start.

MOST_CHARACTERS = 100_000
_AT_ONCE = 64
_NUMBER = 2  # tokens of a line number below 1,000 and the line end; its separator joins a word


def _read_lines(
    path: RelPath,
    base: Snapshot,
    mtime_ms: int,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """The lines of `range_text` ("": the file) that may be shown, `most_lines` of them (0: all).

    `most_tokens` are those of the lines with their numbers.
    """
    start, stop, clipped = lines_wanted(range_text, base.line_count)
    limits = most_lines, most_tokens
    lines, at, cut, within = _shown(base, start, stop, *limits, tail=range_text.startswith("-"))
    return Reading(
        path=path,
        first_line=at + 1,
        lines=lines,
        size_bytes=base.size,
        encoding=base.encoding.label,
        total_lines=base.line_count,
        version=base.version,
        newline_style=base.newline_style,
        ends_with_newline=base.ends_with_newline,
        cut_by_lines=not cut and stop - start > len(lines),
        cut_by_characters=cut,
        cut_in_line=within,
        wanted=(start, stop),
        clipped=clipped,
        mtime_ms=mtime_ms,
        digest=base.digest,
    )


def _read_large(
    path: RelPath,
    stamp: Stamp,
    files: Files,
    named: str | None,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """Like `read_lines`, for any size, in bounded memory; Failed if it is not the stamp's file."""
    last = tail_count(range_text)
    first = first_line_of(range_text)
    if last is not None:
        first = min(last, most_lines or MOST_CHARACTERS)
    window_bytes = 4 * MOST_CHARACTERS + 4
    found = files.window(path, first, window_bytes, named, last=last is not None)
    while last is not None and found.more and first > 1:  # its end is what was asked for
        first //= 2
        found = files.window(path, first, window_bytes, named, last=True)
    if (found.stamp.dev, found.stamp.ino) != (stamp.dev, stamp.ino):
        raise Failed("read", "EBUSY: the file changes while it is read")
    facts, encoding = found.facts, found.encoding
    window = Snapshot(found.data, Encoding(encoding.name, b"", encoding.unit))
    have, digest = window.line_count, None if facts is None else facts.digest
    parted = found.more and not window.ends_with_newline
    if parted and have > 1:
        have, parted = have - 1, False
    if facts is None:
        start, stop, clipped = 0, have, False
    else:
        start, stop, clipped = lines_wanted(range_text, facts.line_count)
    most = min(stop - start, have)
    limits = most_lines, most_tokens
    lines, _, cut, within = _shown(window, 0, most, *limits, tail=facts is None, number=start)
    within = within or (parted and bool(lines))
    asked = stop - start if last is None else first
    most = min(asked, most_lines) if most_lines else asked
    cut = cut or within or (found.more and len(lines) < most)
    is_less = stop - start > len(lines) or (last is not None and len(lines) == first < last)
    closed = window.ends_with_newline if facts is None else facts.ends_with_newline
    return Reading(
        path=path,
        first_line=None if facts is None else start + 1,
        lines=lines,
        size_bytes=found.stamp.size,
        encoding=encoding.label,
        total_lines=None if facts is None else facts.line_count,
        version=None if digest is None else digest[:VERSION_LENGTH],
        newline_style=None if facts is None else newline_style(*facts.newline_counts),
        ends_with_newline=None if facts is None and found.more else closed,
        cut_by_lines=not cut and is_less,
        cut_by_characters=cut,
        cut_in_line=within,
        wanted=(start, stop),
        clipped=clipped,
        mtime_ms=found.stamp.mtime_ns // 1_000_000,
        digest=digest,
    )


def _shown(
    base: Snapshot,
    start: int,
    stop: int,
    most_lines: int,
    most_tokens: int | None,
    *,
    tail: bool,
    number: int = 0,
) -> tuple[tuple[str, ...], int, bool, bool]:
    """Lines of [start, stop) within limits, where they start, whether a limit cut them, or a line.

    `tail`: the last of the lines instead of the first. `number`: that of the first line of `base`.
    """
    lines: list[str] = []
    left, room = MOST_CHARACTERS, inf if most_tokens is None else most_tokens
    count = min(stop - start, most_lines or stop - start)
    order = range(stop - 1, stop - 1 - count, -1) if tail else range(start, start + count)
    cut = within = False
    for line in order:
        text = base.text(line)
        beside = _NUMBER + len(str(number + line)) // 4 + text[:1].isdigit()
        kept = text[: max(left, 0)]
        while kept and sizes.counted(kept) + beside > room:
            kept = kept[: len(kept) // 2]
        cut = len(kept) < len(text) or room < beside
        if cut:
            within = not lines
            lines += [kept] * within
            break
        lines.append(text)
        left -= len(text) + 1
        room -= sizes.counted(text) + beside
    if tail:
        return tuple(reversed(lines)), stop - len(lines), cut, within
    return tuple(lines), start, cut, within
