"""The desk of files: prepare, apply, discard, undo, edits without a plan, for one member at a time.

Invariants: only `Writer` writes; a plan that was refused stays pending; a plan is applied once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from copydesk.desk.applying import Applying
from copydesk.desk.backends.api import drop_plans
from copydesk.desk.backends.snapshots import LARGEST, CarriedLines, Note, Run, ShownLines
from copydesk.desk.changes import Changes
from copydesk.desk.drafts import (
    Blocks,
    DraftedRequest,
    Drafting,
    Services,
    digest_of,
    draft_plan,
    signs_in,
)
from copydesk.desk.gates import Edited, needs_person
from copydesk.desk.history import Forgetting, History, Undoing
from copydesk.desk.member import (
    Member,
    authorized,
    check_look,
    check_shown,
    line_change,
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
    Saved,
    Transacted,
    Undone,
    Withheld,
)
from copydesk.desk.overwritten import Overwrites
from copydesk.desk.review import Review
from copydesk.desk.transaction import Writer
from copydesk.edit.draft import Draft, Plan, foot_span, whole_text
from copydesk.edit.kinds.base import Fixed, Preconditions
from copydesk.edit.kinds.correction import signs_of
from copydesk.edit.kinds.lines import first_line_of, lines_wanted, tail_count
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.kinds.replace import Batch, compile_in_order
from copydesk.edit.request import (
    NO_TERMS,
    Request,
    Terms,
    check_no_patch,
)
from copydesk.errors import (
    BinaryFile,
    ContentChanged,
    EditNotFound,
    EncodingRefused,
    Failed,
    FileExists,
    FileNotFound,
    InvalidArgs,
    RangeOutOfBounds,
    Refusal,
    StaleRead,
    StatsMismatch,
    SuspiciousText,
    Unsettled,
    WrongMode,
)
from copydesk.store.checks import suffix_of
from copydesk.store.files import Files
from copydesk.store.protocol import Document, Stamp
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import FileEdit, counts, line_counts, unified, unified_start
from copydesk.text.encoding import NO_ESCAPES, Encoding, Escapes, of_new_file
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, Source, computed_once, newline_style

_CORRECTED_MS = 600_000
"""The life of a plan whose old text was corrected, or of which other hunks were refused."""

_MOST_NAMED = 5
"""The most runs of unseen lines that are listed."""

_HOW_ON = "read them, give expected_old, or check the plan and apply it"
_HOW_ON_DELETING = "read them, or check the plan and apply it"


class FileDesk:
    """The desk of one workspace, and of its notes. Thread-safe."""

    def __init__(self, services: Services, writer: Writer, blocks: Blocks) -> None:
        self._services = services
        self._drafting = Drafting(services)
        self.blocks = blocks
        self.applying = Applying(services, self._drafting, writer, blocks)
        self.history = History(services)
        self.foreign = services.foreign
        self.forgetting = Forgetting(services, self._drafting, self.applying.lock)
        self._undoing = Undoing(services, self._drafting, self.history, writer, blocks)
        self.review = Review(services, self._drafting, self.applying)
        self.changes = Changes(services, self, self._undoing)
        self.overwrites = Overwrites(services, self.history, self.contents)

    def prepare(
        self,
        member: Member,
        tool: str,
        request: Request,
        terms: Terms = NO_TERMS,
        *,
        fixed: Fixed | None = None,
    ) -> Planned | Applied:
        """Plan the edit, or make it at once if asked to and certain; or raise its refusals.

        `fixed`: the caller has corrected it so.
        """
        now_ms = self._services.clock()
        existing: Plan | None = None
        if terms.existing_hunk_id is not None:
            existing = self._drafting.own_plan(member, terms.existing_hunk_id, tool)
            if existing.tool != tool:
                raise WrongMode(existing.id, existing.tool, tool)
            # Id and time name a version of a plan: one of the same millisecond needs another.
            now_ms = max(now_ms, existing.created_ms + 1)
        if request.in_notes:
            draft = self.blocks().draft(member, request)
            drafted = DraftedRequest(draft, request.path, draft.place)
        else:
            drafted = self._drafting.of(member, request, terms)
            drafted = replace(drafted, fixed=fixed or drafted.fixed)
            draft = drafted.draft
        real = self._drafting.real
        if existing and real(existing.request.path) != real(draft.request.path):
            # A page or a person may still have the plan as one of that file.
            reason = f"is of {existing.request.path}: leave it out to plan an edit of another file"
            raise InvalidArgs("existing_hunk_id", reason)
        asks, fixed = needs_person(member, draft, drafted.real), drafted.fixed
        life_ms = self._services.life_ms(needs_person=asks) if fixed is None else _CORRECTED_MS
        checks = self._services.checks.judge(*Edited.of_plan(drafted.real, draft))
        signs = signs_in(member, draft)
        plan = Plan(
            id=existing.id if existing else self._services.ids(),
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
            is_correction=fixed is not None,
            emptied=terms.emptied,
        )
        declined = self._declined(member, drafted, terms, signs) if terms.auto else None
        refusal: Refusal | None = None
        if terms.auto and declined is None:
            outcome = self._write_now(member, plan, draft, existing)
            if isinstance(outcome, Applied):
                return as_corrected(outcome, fixed)
            plan, refusal, declined = outcome.plan, outcome.refusal, outcome.refusal.code
        else:
            plan = self._reserved(plan, existing)
            self.applying.drafts.keep(plan, draft)
        if plan.request.reads != "nothing":
            at = real(plan.request.path) if plan.request.in_notes else drafted.real
            self._drafting.remember_planned(draft.base, at)
        return Planned(plan, draft, drafted.real, declined, refusal, checks, signs, fixed)

    def _write_now(
        self, member: Member, plan: Plan, draft: Draft, existing: Plan | None
    ) -> Applied | Rejected:
        """Write a plan before anybody was shown it; if that is refused, it is pending.

        A new plan is stored only then, so that its id has to be free. Raises Unsettled for one.
        """
        is_stored = existing is not None
        if is_stored:
            plan = self._reserved(plan, existing)
        while not is_stored and self._drafting.ended(plan.id) != "unknown":  # the id is taken
            plan = replace(plan, id=self._services.ids())
        self.applying.drafts.keep(plan, draft)
        outcome = self.applying.write(member, plan, draft.base, is_stored=is_stored)
        if is_stored or isinstance(outcome, Applied):
            return outcome
        if isinstance(outcome.refusal, Unsettled):
            raise outcome.refusal
        plan = self._reserved(plan, None)
        return replace(outcome, plan=self.applying.await_person(plan, outcome.refusal))

    def declined(self, member: Member, planned: Planned, terms: Terms) -> str | None:
        """Why a plan may not be written without being shown first; None if it may."""
        draft = planned.draft
        drafted = DraftedRequest(draft, planned.real, draft.place, planned.fixed)
        return self._declined(member, drafted, terms, planned.signs)

    def has_seen(self, member: Member, planned: Planned) -> bool:
        """Whether the member was shown a line of the text that a plan is for."""
        base = planned.draft.base
        lines, bases = (0, base.line_count), self._services.bases
        return unshown(bases, member, planned.real, base.version, lines, is_old=False) != (lines,)

    def read(
        self,
        member: Member,
        path: RelPath,
        range_text: str = "",
        most_lines: int = 0,
        most_tokens: int | None = None,
    ) -> Reading:
        """Read some lines of a file; store the text as a base, and record the shown lines."""
        authorized(self._services.files, member, path, "read")
        try:
            real, stamp = self._services.files.stat(path)
            member.permission.check("read", real)  # the path may point to another file by now
            self._services.locks.settle(real)
            if stamp.size > sizes.LARGE:
                named = self._services.encoding_of(real)
                seen = _read_large(
                    path, stamp, self._services.files, named, range_text, most_lines, most_tokens
                )
                if seen.digest is not None:
                    lines = seen.total_lines or 0
                    self._drafting.remember_large(seen.digest, seen.size_bytes, lines, real)
                self._services.bases.note_shown(Note(member.name, real, seen.shown))
                return seen
            document = self._services.files.read(path)
            member.permission.check("read", document.real)
        except FileNotFound:
            raise self._drafting.missing(member, path) from None
        base = Snapshot.of(document.data, self._services.encoding_of(document.real))
        mtime_ms = document.stamp.mtime_ns // 1_000_000
        try:
            found = _read_lines(path, base, mtime_ms, range_text, most_lines, most_tokens)
        except Refusal:
            self._services.bases.keep(base, document.real)  # the refusal may count its lines
            raise
        self._services.bases.keep(
            base, document.real, [Note(member.name, document.real, found.shown)]
        )
        return found

    def contents(
        self,
        member: Member,
        path: RelPath,
        shown: Callable[[Snapshot], Iterable[Run]] | None = None,
    ) -> tuple[Document, Snapshot | None]:
        """A whole file: bytes, and text if it is one; the `shown` lines of it are recorded."""
        authorized(self._services.files, member, path, "read")
        try:
            document = self._services.files.read(path)
        except FileNotFound:
            raise self._drafting.missing(member, path) from None
        member.permission.check("read", document.real)  # the path may point to another one by now
        try:
            base = Snapshot.of(document.data, self._services.encoding_of(document.real))
        except BinaryFile:
            return document, None
        if shown is not None:
            lines = ShownLines(base.version, base.line_count, tuple(shown(base)))
            self._services.bases.keep(
                base, document.real, [Note(member.name, document.real, lines)]
            )
        return document, base

    def note_shown(
        self,
        member: Member,
        path: RelPath,
        lines: ShownLines | Callable[[], ShownLines],
        real: RelPath | None = None,
    ) -> None:
        """Record lines that an answer showed the member; a function is called later."""
        self._services.bases.note_shown(Note(member.name, real or self._drafting.real(path), lines))

    def apply(self, member: Member, tool: str, hunk_id: str) -> Applied | Rejected:
        """Write the plan to the current file, once.

        Raises InvalidHunkId, HunkNotFound, WrongOwner, WrongMode, AccessDenied; what the file
        refuses is returned as Rejected.
        """
        return self.applying.write(member, self._drafting.own_plan(member, hunk_id, tool))

    def apply_all(
        self, member: Member, tool: str, hunk_ids: Sequence[str]
    ) -> Transacted | Withheld:
        """Write several plans, in one file or in several, all or none.

        Raises InvalidArgs for no ids or one given twice, and as a single apply does InvalidHunkId,
        HunkNotFound, WrongOwner, WrongMode, which name the id; what the files refuse is returned as
        Withheld.
        """
        if not hunk_ids:
            raise InvalidArgs("hunk_ids", "must not be empty")
        for index, hunk_id in enumerate(hunk_ids):
            if hunk_id in hunk_ids[:index]:
                raise InvalidArgs("hunk_ids", f"{hunk_id[:100]!r} is given twice")
        plans = tuple(self._drafting.own_plan(member, hunk_id, tool) for hunk_id in hunk_ids)
        return self.applying.write_all(plans, lambda _: member)

    def undo(self, member: Member, tool: str, edit_id: int) -> Undone | NotUndone:
        """Undo an edit in the current file, even if other lines changed since.

        Raises EditNotFound and AccessDenied; what the file refuses is returned as NotUndone.
        """
        outcome = self.undo_together(member, tool, edit_id, is_whole=False)
        if isinstance(outcome, NotUndone):
            return outcome
        for undone in sorted(outcome, key=lambda one: one.entry.edit_id != edit_id):
            return undone
        entry = self.history.entry(member, edit_id)
        return NotUndone(entry, ContentChanged("nothing of it is left"))

    def undo_together(
        self, member: Member, tool: str, edit_id: int, *, is_whole: bool = True
    ) -> tuple[Undone, ...] | NotUndone:
        """Undo all edits of an edit's transaction that are in effect, or none.

        If not `is_whole`, only those that must be: an edit, with the other documents of a block
        diff.
        """
        return self._undoing.undo(member, tool, edit_id, is_together=is_whole)

    def reapply(
        self, member: Member, tool: str, edit_id: int, *, auto: bool = True
    ) -> Applied | Planned | None:
        """Make an edit anew that another program overwrote, or plan it; None if it stands.

        Raises EditNotFound, AccessDenied, ContentChanged, AmbiguousMatch and those of `prepare`.
        """
        entry = self.history.entry(member, edit_id)
        if entry.forgotten or entry.state == "failed":
            raise EditNotFound(edit_id, "forgotten" if entry.forgotten else "failed")
        if (request := self.overwrites.anew(member, entry)) is None:
            return None
        outcome = self.prepare(member.because(entry.why), tool, request, Terms(auto=auto))
        self.overwrites.end(edit_id)
        return outcome

    def discard(self, member: Member, hunk_id: str, tool: str | None = None) -> Plan:
        """Discard the plan; InvalidHunkId, HunkNotFound, WrongOwner; WrongMode for a `tool`."""
        plan = self._drafting.own_plan(member, hunk_id, tool)
        with self.applying.lock(plan):
            plan = self._services.records.plan(plan.id, self._services.clock())
            self._services.records.end(plan.id, "discarded", self._services.clock())
        return plan

    def own(self, member: Member, tool: str, hunk_id: str) -> Planned:
        """The member's own plan, as it was shown; of what is none it raises as `apply` does."""
        self._drafting.own_plan(member, hunk_id, tool)
        return self.show(member, hunk_id)

    def set_aside(self, plan: Plan) -> Plan:
        """Keep a plan for its owner alone until they accept it, as long as a correction."""
        until_ms = self._services.clock() + _CORRECTED_MS
        return self._reserved(replace(plan, expires_ms=until_ms, is_correction=True), plan)

    def accept(self, member: Member, planned: Planned) -> None:
        """Make a plan that was kept for its owner alone one like any other."""
        is_for_person = needs_person(member, planned.draft, planned.real)
        life_ms = self._services.life_ms(needs_person=is_for_person)
        self.applying.wait_until(planned.plan, self._services.clock() + life_ms)

    def waiting(self, member: Member, path: RelPath | None = None) -> tuple[Plan, ...]:
        """All members' plans on files this one may read (there or below), oldest first."""
        files = self._services.files
        seen = (
            plan
            for plan in self._drafting.waiting(member)
            if all(may_read(files, member, one) for one in plan.request.paths)
        )
        if path is None:
            return tuple(seen)
        real = check_look(files, member, path)
        return tuple(p for p in seen if real.covers(files.resolve(p.request.path)))

    def show(self, member: Member, hunk_id: str) -> Planned:
        """The plan as it was shown, on its base if that is stored, else on the current file."""
        plan = self._drafting.plan(member, hunk_id)
        real, *_ = (
            authorized(self._services.files, member, one, "read") for one in plan.request.paths
        )
        if plan.request.in_notes:
            return Planned(plan, self.blocks().draft(member, plan.request), real)
        if (draft := self._drafting.as_planned(plan, real)) is None:
            draft = self._drafting.at_hand(member, plan.request, lambda now: draft_plan(plan, now))
        checks = self._services.checks.judge(*Edited.of_plan(real, draft))
        return Planned(plan, draft, real, checks=checks, signs=signs_in(member, draft))

    def drop_texts(self) -> None:
        """Drop the texts in memory that answer later calls, as some were forgotten."""
        self.applying.drafts.clear()
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
        authorized(self._services.files, member, path, "write", "read")
        if not may_be_diff:
            check_no_patch(content)
        added = bool(content) and not content.endswith("\n")
        nothing = self._drafting.nothing_at(path)
        crlf = content[: content.rfind("\n") + 1].endswith("\r\n")
        new = nothing.encoding.encode(content + ("\r\n" if crlf else "\n") * added)
        made = FileEdit(path, nothing, ChangeSet.of(0, [Edit(0, 0, new)]), created=True)
        self._check_signs(member, tool, made)
        written = self.applying.create(member, tool, path, made)
        note_whole(self._services.bases, member, self._drafting.real(path), made.after)
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
            check_shown(self._services.bases, member, real)
            seen = self._services.bases.shown(member.name, real) if known is None else None
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
        note_whole(self._services.bases, member, real, made.after)
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
        if signs := signs_of(made.path, made.base, made.change, member.usual_signs):
            request = patch_of(made.path, made.base, made.change, created=made.created)
            planned = self.prepare(member, tool, request)
            assert isinstance(planned, Planned), "it was not to be written"
            raise SuspiciousText(signs, planned.plan.id)

    def _declined(
        self, member: Member, drafted: DraftedRequest, terms: Terms, signs: Sequence[str]
    ) -> str | None:
        """The same; `signs` say why its new text may not be what is meant."""
        declined = self._uncertain(member, drafted, terms) or next(iter(signs), None)
        is_as_given = drafted.fixed is None or (
            drafted.fixed.is_certain
            and member.corrects
            and not needs_person(member, drafted.draft, drafted.real)
        )
        return declined or (None if is_as_given else "the old text is not in the file as given")

    def _uncertain(self, member: Member, drafted: DraftedRequest, terms: Terms) -> str | None:
        """Why the place of an edit, or what it replaces, is not certain; None if it is."""
        draft, place, version = drafted.draft, drafted.draft.place, terms.version
        if not place.parts and (place.first_taken or (place.candidates > 1 and version is None)):
            return "several places match the anchor; give version to be certain of one"
        most = member.auto_lines
        if most is not None and max(draft.old_count, draft.new_count) > most:
            return "more lines than may be written without being shown first"
        if not (lines := draft.request.unguarded(drafted.named, terms)):
            return None
        deletes = draft.request.deletes  # then only a version says what: it takes no expected_old
        if version is None:
            unsaid = "no version says what is deleted"
            return unsaid if deletes else "neither version nor expected_old says what is replaced"
        bases, is_old = self._services.bases, version != draft.base.version
        missing = unshown(bases, member, drafted.real, version, *lines, is_old=is_old)
        if not missing:
            return None
        more = ["..."] * (len(missing) > _MOST_NAMED)
        shown = ", ".join([*(f"{a + 1}~{b}" for a, b in missing[:_MOST_NAMED]), *more])
        unsaid = f"lines {shown} of version {version} were not shown to you"
        return f"{unsaid}; {_HOW_ON_DELETING if deletes else _HOW_ON}"

    def _reserved(self, plan: Plan, existing: Plan | None) -> Plan:
        """Store the plan under a new id, or in place of `existing`."""
        if existing is not None:
            with self.applying.lock(existing):
                self.applying.check_waits(existing)
                self._services.records.put(plan)
            return plan
        return self._services.added(plan)


def as_corrected(outcome: Applied, fixed: Fixed | None) -> Applied:
    """The outcome of an edit that was corrected and written."""
    return outcome if fixed is None else replace(outcome, context="fuzz", causes=fixed.causes)


# Edits without a plan: several strings, one string everywhere, new lines, a whole file.

SHOWN_DIFF = 16 << 10
"""Bytes; of a larger diff only the start is made before the answer; the journal gets all."""

SHOWN_LINES = 100
"""The same limit in lines."""

_MARKUP = frozenset([".htm", ".html", ".markdown", ".md", ".svg", ".tex", ".txt", ".xhtml", ".xml"])
"""Suffixes of texts where a line that is indented less still means the same."""


@dataclass(frozen=True, kw_only=True)
class Rewrite(FileEdit):
    """A whole file as it was and as it is, or would be (`edit_id` 0: nothing was written).

    `diff` is the unified diff of all edits, or the start of a long one. `digest` is the SHA-256 of
    the text after, if writing computed it. Make one with `of`.
    """

    replacements: int
    no_ops: int
    edit_id: int = 0
    digest: str = ""
    escapes: Escapes = NO_ESCAPES
    foreign_writes: tuple[Saved, ...] = ()
    signs: tuple[str, ...] = ()

    @staticmethod
    def of(
        member: Member, path: RelPath, base: Snapshot, batch: Batch, *, created: bool = False
    ) -> Rewrite:
        """Return the result of the member's batch on `base`."""
        return Rewrite(
            path,
            base,
            batch.change,
            created,
            replacements=len(batch.spans) - batch.no_op_count,
            no_ops=batch.no_op_count,
            escapes=batch.escapes,
            signs=signs_of(path, base, batch.change, member.usual_signs),
        )

    def check_signs(self) -> Rewrite:
        """The same; raises SuspiciousText if its new text may not be what is meant."""
        if self.signs:
            raise SuspiciousText(self.signs)
        return self

    def written(self, edit_id: int, digest: str) -> Rewrite:
        """The same, now written."""
        rewrite = replace(self, edit_id=edit_id, digest=digest)
        rewrite.__dict__["_shown"] = self._shown
        if "after" in self.__dict__:
            rewrite.__dict__["after"] = replace(self.after, told=lambda: digest)
        return rewrite

    @property
    def version(self) -> str:
        return (self.digest or self.after.digest)[:VERSION_LENGTH]

    @property
    def size(self) -> int:
        return self.change.new_length

    @computed_once
    def after(self) -> Snapshot:
        """The text after; a large one takes a while to make."""
        after, known = self.base.edited(self.change), self.digest
        return replace(after, told=lambda: known) if known else after

    @computed_once
    def diff(self) -> bytes:
        """The part of the unified diff that is shown."""
        return self._shown[0]

    @property
    def is_whole_diff(self) -> bool:
        """Whether `diff` is all of it."""
        return self._shown[1]

    def carried(self) -> CarriedLines:
        """The lines of the text after that are known by those of the base."""
        change = line_change(self.base, self.change)
        return CarriedLines(self.base.version, self.version, self.after.line_count, (change,))

    def whole_diff(self) -> bytes:
        """Make all of the diff; with very many edits it takes longer than making them."""
        return unified(self.base, self.change, str(self.path), created=self.created)

    @property
    def line_counts(self) -> tuple[int, int]:
        return self._shown[2]

    @computed_once
    def _shown(self) -> tuple[bytes, bool, tuple[int, int]]:
        """What is reported about the change, computed while it is written."""
        diff, whole = unified_start(
            self.base, self.change, str(self.path), SHOWN_DIFF, SHOWN_LINES, created=self.created
        )
        return diff, whole, counts(diff) if whole else line_counts(self.base, self.change)


Compiled = Callable[[Snapshot], Batch]
"""Makes the edits of a text, or refuses them."""


def in_order(path: RelPath, edits: Sequence[tuple[str, str]], *, corrects: bool) -> Compiled:
    """What makes the edits one after the other; raises as `compile_in_order`."""
    return partial(
        compile_in_order,
        edits=edits,
        is_code=suffix_of(path) not in _MARKUP,
        corrects=corrects,
    )


def insert(base: Snapshot, after_line: int, content: str) -> Batch:
    """Insert the lines of `content` after a line, 1-based; 0 inserts at the start.

    A newline at the end of the content begins one more, empty line; after the newline at the
    end of the file there is one more line to insert after. All other bytes stay, the end of the
    file too. Raises RangeOutOfBounds, EncodingRefused.
    """
    total = base.line_count
    lines = total + (base.ends_with_newline or not total)
    if not 0 <= after_line <= lines:
        raise RangeOutOfBounds(str(after_line), lines)
    if base.ragged and after_line == lines:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end", 0)
    at = min(after_line, total)
    offset, beside = base.start(at), base.raw(max(after_line - 1, 0), min(after_line + 1, total))
    content = content if after_line else base.encoding.unmarked(content)
    text, escapes = base.encoding.meant(content.replace("\r\n", "\n"), beside)
    newline = base.newline_near(at, at)
    new = newline.join(map(base.encoding.bytes_of, text.split("\n")))
    new = newline + new if after_line == lines else new + newline
    change = ChangeSet.of(base.size, [Edit(offset, offset, new)])
    return Batch(change, ((offset, offset),), 0, escapes)


class Batching:
    """The edits of one workspace that are made without a plan."""

    def __init__(self, services: Services, applying: Applying) -> None:
        self._services, self._applying = services, applying

    def edit(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        compiled: Compiled,
        expected: Preconditions,
        *,
        dry: bool,
    ) -> Rewrite:
        """Make all that is `compiled` or none (`dry`: none); raises as that, Conflict, the file's.

        `compiled` gets the text under the file's lock, and again if that changes meanwhile.
        """
        real = authorized(self._services.files, member, path, "write", "read")

        def revise(now: Source) -> Rewrite:
            base = now.whole()
            if not expected.nothing:
                _, stamp = self._services.files.stat(path)
                expected.check(base, stamp.mtime_ns // 1_000_000)
            return Rewrite.of(member, path, base, compiled(base))

        if dry:
            with self._services.files.text(path, self._services.encoding_of) as opened:
                rewrite = revise(opened.source)
            if not rewrite.base.unchanged_by(rewrite.change):
                self._services.checks.judge(Edited.of(path, real, rewrite, created=False))
            return rewrite
        written = self._applying.edit(member, tool, path, lambda now: revise(now).check_signs())
        done = written.made.written(written.edit_id, written.digest)
        if done.size <= LARGEST:
            self._services.bases.keep(done.after, real, [Note(member.name, real, done.carried)])
        if done.edit_id and not done.is_whole_diff:
            self._services.records.amend(done.edit_id, done.whole_diff)
        return done

    def write(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        content: str,
        expected: Preconditions,
        *,
        overwrite: bool,
        blindly: bool = False,
        dry: bool = False,
    ) -> Rewrite:
        """Write a whole file: a new one, or with `overwrite` one that is as expected.

        `blindly`: also overwrite without expectations, and keep CRLF in the content. A new file
        gets exactly the content. An overwritten one keeps its encoding, its byte order mark and its
        most frequent line ends. Raises FileExists, FileNotFound if something was expected of a
        missing file, InvalidArgs if nothing was of an existing one, IncompleteRead if the member
        was shown only a part of it, and EncodingRefused.
        """
        real = authorized(self._services.files, member, path, "write", "read")
        try:
            size = self._services.files.stat(path)[1].size
        except FileNotFound:
            if not expected.nothing:
                raise
            return self._create(member, tool, path, content, dry=dry)
        if not overwrite:
            raise FileExists(size)
        if expected.nothing and not blindly:
            raise InvalidArgs(
                "overwrite",
                "needs one of expected_mtime_ms, _size_bytes, _sha256; 0 is as not given",
            )

        def compiled(base: Snapshot) -> Batch:
            check_shown(self._services.bases, member, real)
            text = whole_text(base, content)
            is_final = blindly and "\r\n" in text
            if not is_final and base.newline_style != "none":  # it has line ends to be kept to
                is_crlf = base.newline_name(base.dominant_newline) == "crlf"
                text = text.replace("\r\n", "\n").replace("\n", "\r\n" if is_crlf else "\n")
            return _whole(base, base.start(0), text)

        done = self.edit(member, tool, path, compiled, expected, dry=dry)
        if not dry:
            note_whole(self._services.bases, member, real, done.after)
        return done

    def _create(
        self, member: Member, tool: str, path: RelPath, content: str, *, dry: bool
    ) -> Rewrite:
        real = self._services.files.resolve(path)
        nothing = Snapshot(b"", of_new_file(self._services.encoding_of(real)))
        rewrite = Rewrite.of(member, path, nothing, _whole(nothing, 0, content), created=True)
        if dry:
            return rewrite
        rewrite.check_signs()
        written = self._applying.create(member, tool, path, rewrite)
        done = rewrite.written(written.edit_id, written.digest)
        note_whole(self._services.bases, member, real, done.after)
        return done


def _whole(base: Snapshot, start: int, content: str) -> Batch:
    """The batch of one edit that replaces all bytes from `start` on by `content`."""
    edit = Edit(start, base.size, base.encoding.encode(content))
    return Batch(ChangeSet.of(base.size, [edit]), ((start, base.size),), 0)


# Lines of files. No more is shown than requested, and an answer says what was cut: a range at its
# end, one that is counted from the end of the file at its start.

MOST_CHARACTERS = 100_000
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
    is_tail = range_text.startswith("-")
    lines, at, cut, within = _shown(base, start, stop, most_lines, most_tokens, tail=is_tail)
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
    """Like `_read_lines`, for any size, in bounded memory; Failed if it is not the stamp's file.

    The last lines are read from the end, without a pass over the file, so that nothing is known of
    the whole: neither its digest nor its `facts`, nor the numbers of these lines.
    """
    tail = tail_count(range_text)
    # The line where it starts; of the last lines, how many may be shown.
    begin = first_line_of(range_text) if tail is None else min(tail, most_lines or MOST_CHARACTERS)
    window_bytes = 4 * MOST_CHARACTERS + 4
    found = files.window(path, begin, window_bytes, named, last=tail is not None)
    while tail is not None and found.more and begin > 1:  # its end is what was asked for
        begin //= 2
        found = files.window(path, begin, window_bytes, named, last=True)
    if (found.stamp.dev, found.stamp.ino) != (stamp.dev, stamp.ino):
        raise Failed("read", "EBUSY: the file changes while it is read")
    facts, encoding = found.facts, found.encoding
    window = Snapshot(found.data, Encoding(encoding.name, b"", encoding.unit))
    loaded, digest = window.line_count, None if facts is None else facts.digest
    goes_on = found.more and not window.ends_with_newline  # the last loaded line
    if goes_on and loaded > 1:  # it is shown only if it is alone
        loaded, goes_on = loaded - 1, False
    start, stop, clipped = (
        (0, loaded, False) if facts is None else lines_wanted(range_text, facts.line_count)
    )
    shown_stop = min(stop - start, loaded)
    lines, _, is_cut, cut_in_line = _shown(
        window, 0, shown_stop, most_lines, most_tokens, tail=facts is None, number=start
    )
    cut_in_line = cut_in_line or (goes_on and bool(lines))
    wanted = stop - start if tail is None else begin
    most = min(wanted, most_lines) if most_lines else wanted
    is_cut = is_cut or cut_in_line or (found.more and len(lines) < most)
    # Of the last lines all that may be shown may be there, but more were asked for.
    is_less = stop - start > len(lines) or (tail is not None and len(lines) == begin < tail)
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
        cut_by_lines=not is_cut and is_less,
        cut_by_characters=is_cut,
        cut_in_line=cut_in_line,
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
    first = stop - count if tail else start
    if base.start(first + count) - base.start(first) <= left:
        # Most requests fit, which all lines together show: alone, a line is at most one token more,
        # since each is rounded, and one for a digit at its start.
        texts = base.texts(first, first + count)
        whole, beside = "\n".join(texts), _NUMBER + 2 + len(str(number + first + count)) // 4
        if len(whole) <= left and sizes.counted(whole) + count * beside <= room:
            return texts, first, False, False
    order = range(stop - 1, first - 1, -1) if tail else range(first, first + count)
    cut = within = False
    for line in order:
        text = base.text(line)
        beside = _NUMBER + len(str(number + line)) // 4 + text[:1].isdigit()
        kept = text[: max(left, 0)]
        while (taken := beside + sizes.counted(kept)) > room and kept:
            kept = kept[: len(kept) // 2]
        cut = len(kept) < len(text) or taken > room
        if cut:
            within = not lines
            lines += [kept] * within
            break
        lines.append(text)
        left -= len(text) + 1
        room -= taken
    if tail:
        return tuple(reversed(lines)), stop - len(lines), cut, within
    return tuple(lines), start, cut, within
