"""The sentences of the domain: prepare, apply, discard, create, overwrite.

What lives here: what each of them checks and in what order. What must not:
concrete stores, JSON, words, the clock (it is handed in). Invariants: only
`Writer` writes; a plan that was refused waits on; a plan is applied once.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from copydesk.desk.member import Member
from copydesk.desk.outcome import (
    Applied,
    Created,
    Overwritten,
    Planned,
    Reading,
    Rejected,
    Revision,
)
from copydesk.desk.reading import LARGE, MOST_LINES, read_large, read_lines
from copydesk.desk.seeing import may_read, missing
from copydesk.desk.setting import Setting
from copydesk.desk.writing import Job, Writer
from copydesk.edit import suspicion
from copydesk.edit.draft import Draft, check_expected, compose
from copydesk.edit.place import Place, end_of, locate
from copydesk.edit.plan import ContextMatch, Plan, checked_id
from copydesk.edit.relocate import place_of, relocate, stale
from copydesk.edit.request import Append, BlockReplace, Insert, RangeEdit, Request, Terms
from copydesk.errors import (
    AmbiguousMatch,
    ContentChanged,
    FileExists,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    NotAFile,
    Refusal,
    StatsMismatch,
    WrongMode,
    WrongOwner,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import UTF8, of_new_file
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import unified

ON_NO_TERMS = Terms()


class Desk:
    """The desk of one workspace. Safe to use from many threads."""

    def __init__(self, setting: Setting, writer: Writer) -> None:
        self._set, self._writer = setting, writer

    def prepare(
        self, member: Member, tool: str, request: Request, terms: Terms = ON_NO_TERMS
    ) -> Planned | Applied:
        """Plan the edit, or make it at once when that was asked for and is certain.

        Raises the refusals of the request's kind; nothing is planned then.
        """
        now_ms = self._set.clock()
        existing = self._existing(member, tool, terms.existing_hunk_id, now_ms)
        draft = self._draft(member, request, terms)
        plan = Plan(
            id=existing.id if existing else self._set.ids(),
            owner=member.name,
            toolset=member.toolset,
            tool=tool,
            request=request,
            place=draft.place,
            action=draft.action,
            base_digest=None if draft.created else draft.base.digest,
            diff_digest=_digest(draft.diff),
            created_ms=now_ms,
            expires_ms=now_ms + self._set.ttl_ms,
        )
        plan = self._reserved(plan, existing)
        declined: str | None = None
        if terms.auto:
            declined = _uncertain(draft, terms, member)
            if declined is None:
                outcome = self._write(member, plan, draft.base)
                if isinstance(outcome, Applied):
                    return outcome
                declined = outcome.refusal.code
        self._set.bases.keep(draft.base, self._real(request.path))
        return Planned(plan, draft, declined)

    def read(
        self, member: Member, path: RelPath, range_text: str = "", most_lines: int = MOST_LINES
    ) -> Reading:
        """Some lines of a file; what was read is remembered as a base."""
        member.permission.check("read", path, self._set.files.resolve(path))
        try:
            real, stamp = self._set.files.stat(path)
            if stamp.size > LARGE:
                named = self._set.named(real)
                return read_large(path, self._set.files, named, range_text, most_lines)
            document = self._set.files.read(path)
        except FileNotFound:
            raise self.missing(member, path) from None
        base = Snapshot.of(document.data, self._set.named(document.real))
        mtime_ms = document.stamp.mtime_ns // 1_000_000
        self._set.bases.keep(base, document.real)
        return read_lines(path, base, mtime_ms, range_text, most_lines)

    def apply(self, member: Member, tool: str, hunk_id: str) -> Applied | Rejected:
        """Write the plan, on the file as it is now, once.

        Raises InvalidHunkId, HunkNotFound, WrongOwner, WrongMode, AccessDenied;
        what the file refuses comes back as Rejected.
        """
        plan = self._set.registry.get(checked_id(hunk_id), self._set.clock())
        if plan.owner != member.name:
            raise WrongOwner(hunk_id)
        if plan.toolset != member.toolset:
            raise WrongMode(hunk_id, plan.tool, tool)
        return self._write(member, plan)

    def discard(self, member: Member, hunk_id: str) -> Plan:
        """Let the plan go; raises InvalidHunkId, HunkNotFound, WrongOwner."""
        plan = self._set.registry.get(checked_id(hunk_id), self._set.clock())
        if plan.owner != member.name:
            raise WrongOwner(hunk_id)
        with self._turn(plan):
            plan = self._set.registry.get(plan.id, self._set.clock())
            self._set.registry.end(plan.id, "discarded", self._set.clock())
        return plan

    def waiting(self, member: Member) -> tuple[Plan, ...]:
        """The plans of all members on files that this one may read, the oldest first."""
        plans = self._set.registry.waiting(self._set.clock())
        return tuple(p for p in plans if may_read(self._set.files, member, p.request.path))

    def show(self, member: Member, hunk_id: str) -> Planned:
        """The plan as it was shown; the draft is made again from what it was based on.

        When that text is no longer remembered, it is made on the file as it is.
        """
        plan = self._set.registry.get(checked_id(hunk_id), self._set.clock())
        real = self._set.files.resolve(plan.request.path)
        member.permission.check("read", plan.request.path, real)
        if plan.base_digest is None:
            return Planned(plan, self._draft_of_new(plan.request))
        base = self._set.bases.find(plan.base_digest, self._set.named(real), None)
        if base is None:
            now = self._read(member, plan.request.path)
            return Planned(plan, compose(plan.request, now, place_of(plan, None, now)))
        return Planned(plan, compose(plan.request, base, plan.place))

    def create(self, member: Member, tool: str, path: RelPath, content: str) -> Created:
        """Write a new file; a last line without newline gets one.

        Raises FileExists and NotAFile; of what the member may not read only that it is there.
        """
        added = bool(content) and not content.endswith("\n")
        nothing = self._new(path)
        new = nothing.encoding.encode(content + "\n" * added)
        change = ChangeSet.of(0, [Edit(0, 0, new)])
        after = Snapshot(new, nothing.encoding)
        diff = unified(nothing, change, str(path), created=True)
        made = Revision(nothing, change, after, diff)
        now_ms = self._set.clock()
        job = Job(member, tool, path, (now_ms, tool))
        try:
            _, edit_id = self._writer.create(job, lambda: made)
        except (FileExists, NotAFile):
            if may_read(self._set.files, member, path):
                raise
            raise FileExists() from None
        self._set.bases.keep(after, self._real(path))
        return Created(path, after, added, edit_id, diff)

    def overwrite(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        known: tuple[int, int],
        content: str,
        *,
        may_be_diff: bool,
    ) -> Overwritten:
        """Replace the whole file, if it has `known` lines and bytes.

        Raises SuspiciousDiff, FileNotFound, StatsMismatch, EncodingRefused.
        """
        if not may_be_diff:
            suspicion.check(content)
        added = bool(content) and not content.endswith("\n")

        def make(base: Snapshot) -> Revision:
            if (base.line_count, len(base.data)) != known:
                raise StatsMismatch(*known, base.line_count, len(base.data), base.version)
            text = (content + "\n" * added).replace("\r\n", "\n")
            newline = base.dominant_newline
            new = newline.join(base.encoding.encode(part) for part in text.split("\n"))
            start = base.start(0)
            change = ChangeSet.of(len(base.data), [Edit(start, len(base.data), new)])
            after = Snapshot(change.apply(base.data), base.encoding)
            return Revision(base, change, after, unified(base, change, str(path)))

        job = Job(member, tool, path, (self._set.clock(), tool))
        try:
            made, edit_id = self._writer.write(job, make)
        except FileNotFound:
            raise self.missing(member, path) from None
        self._set.bases.keep(made.after, self._real(path))
        return Overwritten(path, made.base, made.after, added, edit_id, made.diff)

    def _existing(self, member: Member, tool: str, hunk_id: str | None, now_ms: int) -> Plan | None:
        if hunk_id is None:
            return None
        plan = self._set.registry.get(checked_id(hunk_id), now_ms)
        if plan.owner != member.name:
            raise WrongOwner(hunk_id)
        if (plan.tool, plan.toolset) != (tool, member.toolset):
            raise WrongMode(hunk_id, plan.tool, tool)
        return plan

    def _draft(self, member: Member, request: Request, terms: Terms) -> Draft:
        """The edit on the file as it is, its place understood in the version that was read."""
        real = self._set.files.resolve(request.path)
        member.permission.check("write", request.path, real)
        member.permission.check("read", request.path, real)
        try:
            now = self._read(member, request.path)
        except FileNotFound:
            if not (isinstance(request, Append) and request.create):
                raise self.missing(member, request.path) from None
            return self._draft_of_new(request)
        place = self._place_now(request, now, real, terms.version)
        if terms.expected_old is not None:
            if isinstance(request, Append | Insert):
                raise InvalidArgs("expected_old", "this tool replaces no lines; leave it out")
            check_expected(terms.expected_old, now, place)
        return compose(request, now, place)

    def _new(self, path: RelPath) -> Snapshot:
        """The text of a file that is not there yet."""
        return Snapshot(b"", of_new_file(self._set.named(self._set.files.resolve(path))))

    def _draft_of_new(self, request: Request) -> Draft:
        nothing = self._new(request.path)
        return compose(request, nothing, end_of(nothing), created=True)

    def _place_now(
        self, request: Request, now: Snapshot, real: RelPath, version: str | None
    ) -> Place:
        if version is None or version == now.version:
            return locate(request, now)
        base = self._set.bases.find(version, self._set.named(real), real)
        if base is None:
            raise stale(version, None, now, "that version is not remembered")
        place = locate(request, base)
        try:
            known = self._set.journal.chain(real, base.digest, now.digest) if place.foot else None
            return relocate(place, base, now, known)
        except (ContentChanged, AmbiguousMatch) as refusal:
            reason = refusal.reason if isinstance(refusal, ContentChanged) else "ambiguous"
            raise stale(version, base, now, reason) from None

    def missing(self, member: Member, path: RelPath) -> FileNotFound:
        """The refusal for a missing file, with the names beside it that are close to its own."""
        return missing(self._set.files, member, path)

    def _read(self, member: Member, path: RelPath) -> Snapshot:
        member.permission.check("read", path, self._set.files.resolve(path))
        document = self._set.files.read(path)
        return Snapshot.of(document.data, self._set.named(document.real))

    def _reserved(self, plan: Plan, existing: Plan | None) -> Plan:
        """The plan in the registry, under an id of its own or in the place of `existing`."""
        if existing is not None:
            with self._turn(existing):
                self._check_waits(existing)
                self._set.registry.put(plan)
            return plan
        while not self._set.registry.add(plan):
            plan = replace(plan, id=self._set.ids())
        return plan

    def _turn(self, plan: Plan) -> AbstractContextManager[None]:
        """The lane of the plan's file: within it no apply of the plan is under way."""
        real = self._real(plan.request.path)
        return self._set.lanes.turn(str(real), (plan.created_ms, plan.id))

    def _real(self, path: RelPath) -> RelPath:
        """The real path; when it leads nowhere, the path, since nobody can be writing there."""
        try:
            return self._set.files.resolve(path)
        except Refusal:
            return path

    def _check_waits(self, plan: Plan) -> None:
        """Raise unless the plan waits as it is, and was not written; call it in its turn."""
        now_ms = self._set.clock()
        if self._set.registry.get(plan.id, now_ms) != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime",
                planned_lines=f"{plan.place.start + 1}~{plan.place.stop}",
            )
        entry = self._set.journal.of_hunk(plan.id)
        if entry is None or entry.state == "failed" or entry.time_ms < plan.created_ms:
            return
        was_open = entry.state == "open"  # who wrote it was ended before it could say so
        state = self._set.recovery.settle(entry, now_ms) if was_open else entry.state
        if state != "failed":
            self._set.registry.end(plan.id, "applied", now_ms)
            raise HunkNotFound(plan.id, "applied")

    def _write(
        self, member: Member, plan: Plan, base: Snapshot | None = None
    ) -> Applied | Rejected:
        """Write the plan in its turn, if it waits then, as it is.

        `base` is the text planned on, where it is at hand; else it is looked up.
        """
        seen: list[Snapshot] = []

        def make(now: Snapshot) -> Draft:
            seen[:] = [now]
            known = base
            if known is None and plan.base_digest not in (None, now.digest):
                known = self._set.bases.find(plan.base_digest or "", named, None)
            since = None
            if known is not None and plan.place.foot and known.digest != now.digest:
                since = self._set.journal.chain(real, known.digest, now.digest)
            return compose(plan.request, now, place_of(plan, known, now, since))

        def still() -> None:
            self._check_waits(plan)

        def then() -> None:
            self._set.registry.end(plan.id, "applied", self._set.clock())

        path = plan.request.path
        job = Job(member, plan.tool, path, (plan.created_ms, plan.id), plan.id)
        try:
            named = self._set.named(real := self._set.files.resolve(path))
            creates = None if plan.base_digest else lambda: self._draft_of_new(plan.request)
            draft, edit_id = self._writer.write(job, make, creates, still, then)
        except Refusal as refusal:
            if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
                raise
            return Rejected(plan, refusal, seen[0] if seen else None)
        self._set.bases.keep(draft.after, real)
        context: ContextMatch = "exact" if _digest(draft.diff) == plan.diff_digest else "fuzz"
        return Applied(plan, draft, context, edit_id)


def _uncertain(draft: Draft, terms: Terms, member: Member) -> str | None:
    """Why an edit may not be made without being shown first; None when it may."""
    place = draft.place
    seen = terms.version is not None or terms.expected_old is not None
    if place.first_taken or (place.candidates > 1 and terms.version is None):
        return "several places match the anchor; give version to be certain of one"
    guarded = not isinstance(draft.request, RangeEdit | BlockReplace) or place.foot is None
    if not guarded and not seen:
        return "neither version nor expected_old says what is replaced"
    most = member.auto_lines
    if most is not None and max(draft.old_count, draft.new_count) > most:
        return "more lines than may be written without being shown first"
    return None


def _digest(diff: bytes) -> str:
    return Snapshot(diff, UTF8).digest
