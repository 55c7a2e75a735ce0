"""Apply plans, one, or several all or none, to the current files, each once.

Invariant: a plan that was written is never written again, whichever process dies in between; of two
plans for one file the older is made first, the younger on its result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from copydesk.desk.backends.api import (
    Entry,
    Kind,
    OutcomeKind,
    PlanOutcome,
    counts,
    version_of,
)
from copydesk.desk.checks import Approving, Edited
from copydesk.desk.drafts import (
    NOTHING_AHEAD,
    Ahead,
    DraftCache,
    Drafting,
    Setting,
    diff_of,
    digest_of,
    made,
    made_as_planned,
)
from copydesk.desk.member import (
    Member,
    authorized,
    change_of,
    check_free,
    check_no_link,
    note_of_change,
)
from copydesk.desk.notes import LazyNotes
from copydesk.desk.outcome import Applied, Rejected, Transacted, Withheld
from copydesk.desk.transaction import (
    ATTEMPTS,
    Job,
    Rewriting,
    Stopped,
    Writer,
    WriteRequest,
)
from copydesk.edit.draft import ContextMatch, Draft, Plan, checked_id
from copydesk.edit.request import (
    BlockDiff,
    ChangeMode,
    DeleteFile,
    FileOperation,
    MoveFile,
    PatchEdit,
)
from copydesk.errors import (
    ApprovalRequired,
    ContentChanged,
    Failed,
    FileExists,
    FileNotFound,
    InvalidArgs,
    Refusal,
    WrongMode,
    WrongOwner,
)
from copydesk.store.locks import Ticket
from copydesk.store.protocol import EXECUTABLE, OpenText, Removed, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Source, Whole

if TYPE_CHECKING:
    from copydesk.edit.notes.plan import BlockDraft


def _as_it_waits(found: Plan, plan: Plan) -> Plan:
    """The plan found, with those fields of the other that may change while it is pending."""
    return replace(found, expires_ms=plan.expires_ms, transaction=plan.transaction)


class Applying:
    """Writes the plans of one workspace."""

    def __init__(
        self, setting: Setting, drafting: Drafting, writer: Writer, notes: LazyNotes
    ) -> None:
        self._set, self._drafting, self._writer = setting, drafting, writer
        self._notes = notes
        self._shown = DraftCache()

    def show(self, plan: Plan, draft: Draft) -> None:
        """Record the draft that was shown, to reuse it if the file is unchanged."""
        self._shown.keep(plan, draft)

    def write(self, member: Member, plan: Plan, base: Text | None = None) -> Applied | Rejected:
        """Write a pending plan under its lock; `base` is its base text if loaded."""
        member = member.because(plan.why)
        if isinstance(plan.request, BlockDiff):
            return self._write_blocks(member, plan)
        seen: list[Text] = []
        path = plan.request.path
        try:
            if isinstance(plan.request, FileOperation):
                real = authorized(self._set.files, member, path, "write", "read")
                check_no_link(self._set.files, path, real)
            ticket = plan.created_ms, plan.id
            job = _ApplyJob(
                *(member, plan.tool, path, ticket, plan.id),
                applying=self,
                of=plan,
                planned_on=base,
                seen=seen,
                edited_by=plan.edited_by,
            )
            written = self._writer.write(job)
        except Refusal as refusal:
            if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
                raise
            self.refused(plan, refusal)
            return Rejected(self.await_person(plan, refusal), refusal, seen[0] if seen else None)
        draft, real = written.made, written.real
        if isinstance(plan.request, FileOperation):
            self._drafting.note_moved(member.name, real, plan.request, draft.base)
            return Applied(plan, draft, "exact", written.edit_id)
        if not isinstance(draft.base, Snapshot):
            draft = replace(draft, after_digest=written.digest)
        change = change_of(draft, own=not plan.edited_by)
        note = note_of_change(member.name, real, draft.base, draft.after, written.digest, change)
        self._drafting.remember(draft.after, real, [note])
        context: ContextMatch = "exact" if digest_of(draft.diff) == plan.diff_digest else "fuzz"
        if context == "fuzz":
            self.note(plan, "fuzz")
        return Applied(plan, draft, context, written.edit_id)

    def shown(self, plan: Plan, now: Source) -> Draft | None:
        """The draft that was shown of the plan, if the file is still the one it was shown on."""
        return self._shown.of(plan, now)

    def new(self, plan: Plan) -> Draft:
        """The plan's edit on a missing file."""
        return self._drafting.of_new(plan.request)

    def end(self, plan: Plan) -> None:
        """Mark a plan as applied that had nothing to write."""
        with suppress(Refusal):
            self._set.registry.end(plan.id, "applied", self._set.clock())

    def note(self, plan: Plan, how: OutcomeKind) -> None:
        """Record that the plan was not written as it was shown."""
        path = str(plan.request.path)
        self._set.tally.note(PlanOutcome(self._set.clock(), plan.owner, path, how))

    def refused(self, plan: Plan, refusal: Refusal) -> None:
        """Record that the file refused the plan, if it was the file."""
        if counts(refusal):
            self.note(plan, "rejected")

    def await_person(self, plan: Plan, refusal: Refusal, transaction: str = "") -> Plan:
        """The plan; it stays pending longer (for its transaction) if a person has to approve it."""
        if not isinstance(refusal, ApprovalRequired):
            return plan
        until_ms = plan.created_ms + self._set.life_ms(needs_person=True)
        with suppress(Refusal):  # its lifetime stays the same
            return self.wait_until(plan, until_ms, transaction)
        return plan

    def wait_until(self, plan: Plan, until_ms: int, transaction: str = "") -> Plan:
        """Keep the plan pending until then, unless it is pending longer; raises HunkNotFound."""
        transaction = transaction or plan.transaction
        if plan.expires_ms >= until_ms and plan.transaction == transaction:
            return plan
        with self.turn(plan):
            self.check_waits(plan)
            until_ms = max(until_ms, self._set.registry.get(plan.id, self._set.clock()).expires_ms)
            plan = replace(plan, expires_ms=until_ms, transaction=transaction)
            self._set.registry.put(plan)
        return plan

    def blocks(self, plan: Plan, member: Member | None = None) -> BlockDraft:
        """The current result of a block diff's plan, for its owner or a member; may refuse."""
        owner = self._set.members(plan.owner, plan.toolset)
        return self._notes.desk.planned(member or owner, plan)

    def _write_blocks(self, member: Member, plan: Plan) -> Applied | Rejected:
        """Like `write`, for a block diff."""

        def still() -> None:
            self.check_waits(plan)

        def then() -> None:
            self.end(plan)

        try:
            draft = self._notes.desk.apply(member, plan, still, then)
        except Refusal as refusal:
            if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
                raise
            self.refused(plan, refusal)
            return Rejected(self.await_person(plan, refusal), refusal, None)
        context: ContextMatch = "exact" if digest_of(draft.diff) == plan.diff_digest else "fuzz"
        if context == "fuzz":
            self.note(plan, "fuzz")
        return Applied(plan, draft, context, draft.edit_ids[0] if draft.edit_ids else 0)

    def draft(
        self,
        plan: Plan,
        real: RelPath,
        now: Source,
        base: Text | None = None,
        ahead: Ahead = NOTHING_AHEAD,
    ) -> Draft:
        """The plan's edit on the current text; may refuse. `base`: its base text, if loaded."""
        digest = plan.base_digest
        if isinstance(plan.request, FileOperation):
            return made_as_planned(plan, ahead.digest or now.digest, now)
        if digest in (None, now.digest) or plan.place.foot is None:
            return made(plan, now)
        read = ahead.digest or now.digest
        since = () if digest == read else self._set.journal.chain(real, digest, read)
        since = None if since is None else (*since, *ahead.inverses)

        def find() -> Snapshot | None:
            if isinstance(base, Snapshot):
                return base
            return self._set.bases.find(digest, self._set.named(real), None)

        return made(plan, now, find, since)

    def check_waits(self, plan: Plan) -> None:
        """Raise unless the plan is pending and unchanged."""
        now_ms = self._set.clock()
        found = self._set.registry.get(plan.id, now_ms)
        if found is not plan and _as_it_waits(found, plan) != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime", planned_lines=plan.place.named
            )

    def real(self, plan: Plan) -> RelPath:
        """The real path of the plan's file."""
        return self._drafting.real(plan.request.path)

    def turn(self, plan: Plan) -> AbstractContextManager[None]:
        """The lock of the plan's file: while held, the plan is not being applied."""
        return self._set.turns.of(
            self.real(plan), (plan.created_ms, plan.id), (plan.owner, plan.tool)
        )


@dataclass(frozen=True, kw_only=True)
class _ApplyJob(Job[Draft]):
    """The write of one plan; if the file refuses it, `seen` gets the lines at its place."""

    applying: Applying
    of: Plan
    planned_on: Text | None
    seen: list[Text]

    @property
    def kind(self) -> Kind:
        return "remove" if isinstance(self.of.request, DeleteFile) else "edit"

    @property
    def to(self) -> RelPath | None:
        return self.of.request.to if isinstance(self.of.request, MoveFile) else None

    @property
    def keeps_text(self) -> bool:
        return isinstance(self.of.request, MoveFile | ChangeMode)

    def mode_after(self, now: int) -> int | None:
        of = self.of.request
        return of.bits_after(now) if isinstance(of, ChangeMode) else None

    @property
    def is_whole_file(self) -> bool:
        return isinstance(self.of.request, FileOperation)

    @property
    def restores(self) -> Removed | None:
        return _beside_bytes(self.of)

    def precondition(self) -> None:
        self.applying.check_waits(self.of)

    def revise(self, now: Source) -> Draft:
        plan = self.of
        shown = self.applying.shown(plan, now)
        if shown is not None:
            return shown
        try:
            return self.applying.draft(plan, self.applying.real(plan), now, self.planned_on)
        except Refusal:
            last = now.line_count
            self.seen[:] = [now.around(min(plan.place.start, last), min(plan.place.stop, last))]
            raise

    def create(self) -> Draft:
        return super().create() if self.of.base_digest else self.applying.new(self.of)

    def ended(self) -> None:
        self.applying.end(self.of)


def _beside_bytes(plan: Plan) -> Removed | None:
    """The unusual attributes of a file that the plan creates."""
    is_run = isinstance(plan.request, PatchEdit) and plan.request.executable
    return EXECUTABLE if is_run else None


Owner = Callable[[Plan], Member]
"""Returns the member that made a plan, in whose name it is written."""


@dataclass(slots=True)
class _File:
    """One file of a transaction: the plans for it, oldest first, and their drafts by id.

    `opened` is None if there is no file; `to` is where it is moved. A plan's context is its status
    in the file as read, without the others.
    """

    real: RelPath
    plans: list[Plan]
    opened: OpenText | None = None
    to: RelPath | None = None
    drafts: dict[str, Draft] = field(default_factory=dict[str, Draft])
    contexts: dict[str, ContextMatch] = field(default_factory=dict[str, ContextMatch])

    @property
    def inode(self) -> tuple[int, int]:
        """The file's identity, whatever its name."""
        assert self.opened is not None, "only what was opened has one"
        return self.opened.stamp.dev, self.opened.stamp.ino

    @property
    def operation(self) -> Plan | None:
        """The plan that removes or moves the file."""
        own = (one for one in self.plans if isinstance(one.request, DeleteFile | MoveFile))
        return next(own, None)

    @property
    def edits(self) -> list[Plan]:
        """The plans that change the file's text."""
        edits = (one for one in self.plans if not isinstance(one.request, FileOperation))
        return [one for one in edits if not self.drafts[one.id].replaces_nothing]

    @property
    def edited(self) -> Edited | None:
        """The text after all plans, for checks; None if it is unchanged or not loaded whole."""
        drafts = [self.drafts[one.id] for one in self.edits]
        path, real = self.plans[0].request.path, self.to or self.real
        return Edited.of(path, real, *drafts, created=self.opened is None)

    def check_plans(self) -> None:
        """Raise InvalidArgs if a plan deletes the file besides others, or two move or chmod it."""
        for plan in self.plans:
            others = [one for one in self.plans if one is not plan]
            if isinstance(plan.request, DeleteFile) and others:
                raise InvalidArgs(
                    "hunk_ids", f"{plan.id} deletes a file that {others[0].id} is for"
                )
            if isinstance(plan.request, MoveFile | ChangeMode) and any(
                isinstance(one.request, type(plan.request)) for one in others
            ):
                raise InvalidArgs("hunk_ids", f"{plan.id} does to a file what another one does too")

    def rewritings(self, owner: Owner) -> list[Rewriting]:
        """The writes to the file; empty if the drafts together change nothing."""
        mode = None if self.opened is None else self.mode_after(self.opened.stamp.mode)
        steps = [
            (
                WriteRequest(
                    *(owner(plan).because(plan.why), plan.tool, plan.request.path),
                    *(_age(plan), plan.id),
                    edited_by=plan.edited_by,
                ),
                self.drafts[plan.id],
            )
            for plan in self.plans
            if not self.drafts[plan.id].replaces_nothing
            and (mode is not None or not isinstance(plan.request, ChangeMode))
        ]
        last = tuple(steps.pop() for _ in range(self.operation is not None))
        changed = tuple(steps.pop() for _ in range(mode is not None))
        beside = None if self.opened else _beside_bytes(self.plans[0])
        whole = Rewriting(self.real, self.opened, tuple(steps), restores=beside)
        found = [
            whole,
            Rewriting(self.real, self.opened, changed, mode=mode),
            Rewriting(self.real, self.opened, last, self.to is None, self.to),
        ]
        return [each for each in found if each.steps]

    def mode_after(self, now: int) -> int | None:
        """The permission bits that one of the plans sets on a file of this mode."""
        changes = (one.request for one in self.plans if isinstance(one.request, ChangeMode))
        return next((change.bits_after(now) for change in changes), None)


class Transactions:
    """Writes several plans of one workspace at once."""

    def __init__(
        self,
        setting: Setting,
        drafting: Drafting,
        applying: Applying,
        writer: Writer,
        approving: Approving,
    ) -> None:
        self._set, self._drafting, self._applying = setting, drafting, applying
        self._writer, self._approving = writer, approving

    def apply(self, member: Member, tool: str, hunk_ids: Sequence[str]) -> Transacted | Withheld:
        """Write all plans to the current files, or none.

        Raises InvalidArgs for no ids or one given twice, and as a single apply does InvalidHunkId,
        HunkNotFound, WrongOwner, WrongMode, which name the id; what the files refuse is returned as
        Withheld.
        """
        return self.write(self._plans(member, tool, hunk_ids), lambda _: member)

    def write(self, plans: tuple[Plan, ...], owner: Owner) -> Transacted | Withheld:
        """Write plans, each as its owner, all or none."""
        for plan in plans:
            if isinstance(plan.request, BlockDiff):
                raise InvalidArgs("hunk_ids", f"{plan.id} is a block diff: apply it by itself")
        for _ in range(ATTEMPTS):
            with suppress(TargetMoved):
                outcome = self._attempt(owner, plans)
                self._note(outcome)
                return outcome
        raise Failed("write", "the files are changed by another program again and again")

    def _note(self, outcome: Transacted | Withheld) -> None:
        """Record which plans were relocated, or which the files refused."""
        if isinstance(outcome, Withheld):
            ids = "".join(sorted(verdict.plan.id for verdict in outcome.verdicts))
            transaction = hashlib.sha256(ids.encode()).hexdigest()[:8]
            for verdict in outcome.verdicts:
                if verdict.refusal is not None:
                    self._applying.refused(verdict.plan, verdict.refusal)
                self._applying.await_person(verdict.plan, outcome.refusal, transaction)
            return
        for applied in outcome.applied:
            if applied.context == "fuzz":
                self._applying.note(applied.plan, "fuzz")

    def _plans(self, member: Member, tool: str, hunk_ids: Sequence[str]) -> tuple[Plan, ...]:
        if not hunk_ids:
            raise InvalidArgs("hunk_ids", "must not be empty")
        for index, hunk_id in enumerate(hunk_ids):
            if hunk_id in hunk_ids[:index]:
                raise InvalidArgs("hunk_ids", f"{hunk_id[:100]!r} is given twice")
        plans: list[Plan] = []
        for hunk_id in hunk_ids:
            plan = self._set.registry.get(checked_id(hunk_id), self._set.clock())
            if plan.owner != member.name:
                raise WrongOwner(hunk_id)
            if plan.toolset != member.toolset:
                raise WrongMode(hunk_id, plan.tool, tool)
            plans.append(plan)
        return tuple(plans)

    def _attempt(self, owner: Owner, plans: tuple[Plan, ...]) -> Transacted | Withheld:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        refused: dict[str, Refusal] = {}
        files: dict[RelPath, _File] = {}
        for plan in sorted(plans, key=_created):
            path = plan.request.path
            try:
                real = authorized(self._set.files, owner(plan), path, "write", "read")
                if isinstance(plan.request, FileOperation):
                    check_no_link(self._set.files, path, real)
            except Refusal as refusal:
                refused[plan.id] = refusal
            else:
                files.setdefault(real, _File(real, [])).plans.append(plan)
        for file in files.values():
            file.check_plans()
            file.plans.sort(key=_rank)
        tickets = {real: _age(file.plans[0]) for real, file in files.items()}
        targets = self._targets(owner, files, refused)
        targets += (turn for plan in plans for turn in owner(plan).own_turn)
        tickets = {**dict.fromkeys(targets, _age(plans[0])), **tickets}
        caller = owner(plans[0]).name, plans[0].tool
        with self._set.turns.of_all(tickets, caller), ExitStack() as held:
            opened = self._opened(files.values(), held, refused)
            for file in opened:
                self._draft(file, refused)
            for file in opened:
                self._approve(file, owner, opened, refused)
            if not refused:
                self._check(opened, owner, refused)
            if refused:
                return Withheld.of(plans, _contexts(opened), refused)
            try:
                group, entries = self._written(owner, opened)
            except Stopped as stopped:
                at = [file for file in opened if file.real == stopped.real]
                refused = {plan.id: stopped.refusal for file in at for plan in file.plans}
                return Withheld.of(plans, _contexts(opened), refused, stopped.refusal)
            written = {entry.hunk_id for entry in entries}
            for plan in plans:
                if plan.id not in written:
                    self._applying.end(plan)
            for file in opened:
                self._note_changes(file, {entry.hunk_id: entry.after for entry in entries})
        return _transacted(group, plans, opened, entries)

    def _targets(
        self, owner: Owner, files: Mapping[RelPath, _File], refused: dict[str, Refusal]
    ) -> list[RelPath]:
        """The real paths that files are moved to, each free of other writes and moves."""
        found: list[RelPath] = []
        for file in files.values():
            plan = file.operation
            if plan is None or not isinstance(plan.request, MoveFile):
                continue
            try:
                to = authorized(self._set.files, owner(plan), plan.request.to, "write", "read")
                if to in found or to in files:
                    raise FileExists(to=str(to))
            except Refusal as refusal:
                refused[plan.id] = refusal
            else:
                file.to = to
                found.append(to)
        return found

    def _opened(
        self, files: Iterable[_File], held: ExitStack, refused: dict[str, Refusal]
    ) -> list[_File]:
        """Open the files, in order of their paths; two names of one file are one."""
        found: list[_File] = []
        for file in sorted(files, key=lambda each: str(each.real)):
            try:
                file.opened = self._open(file, held)
            except FileNotFound:
                found.append(file)
            except Refusal as refusal:
                refused |= dict.fromkeys((plan.id for plan in file.plans), refusal)
            else:
                found.append(file)
        linked = [file for file in found if file.opened and file.opened.stamp.nlink > 1]
        if not linked:
            return found
        one_of = self._reopened(linked, held)
        return [file for file in found if file not in linked or file in one_of]

    def _reopened(self, linked: Sequence[_File], held: ExitStack) -> list[_File]:
        """Open files with several names again, each once, holding the locks of their inodes."""
        inodes: dict[tuple[int, int], _File] = {}
        for file in linked:
            one = inodes.setdefault(file.inode, file)
            if one is not file and (one.operation or file.operation):
                names = f"{one.real} and {file.real}"
                raise InvalidArgs(
                    "hunk_ids", f"{names} are names of one file, which is to be deleted or moved"
                )
            if one is not file:
                one.plans = sorted([*one.plans, *file.plans], key=_created)
        for inode in sorted(inodes):
            one = inodes[inode]
            first = one.plans[0]
            caller = first.owner, first.tool
            held.enter_context(self._set.turns.of_inode(inode, _age(first), caller))
        for inode, file in inodes.items():
            file.opened = self._open(file, held)
            if file.inode != inode:
                raise TargetMoved()
        return list(inodes.values())

    def _open(self, file: _File, held: ExitStack) -> OpenText:
        first = file.plans[0].request  # not a move or change of mode, if there is another
        opened = held.enter_context(self._drafting.opened(file.real, first))
        if opened.real != file.real:
            raise TargetMoved()
        for plan in file.plans:
            if file.to is not None and isinstance(plan.request, MoveFile):
                check_free(self._set.files, plan.request.to, file.to, file.real, opened.stamp)
        return opened

    def _draft(self, file: _File, refused: dict[str, Refusal]) -> None:
        """Draft all plans for the file, each on the previous result."""
        now = file.opened.source if file.opened else None
        if now is not None and len(file.plans) > 1 + (file.to is not None):
            try:
                now = Whole(now.whole())
            except Refusal as refusal:
                refused |= dict.fromkeys((plan.id for plan in file.plans), refusal)
                return
        read = now.digest if now else ""
        base = now.whole() if isinstance(now, Whole) else None
        inverses: list[ChangeSet] = []
        for plan in file.plans:
            try:
                self._applying.check_waits(plan)
                if now is None and plan.base_digest is not None:
                    raise FileNotFound()
                if now is None:
                    draft = self._drafting.of_new(plan.request)
                else:
                    known = base if plan.base_digest == read else None
                    ahead = Ahead(read, tuple(inverses))
                    draft = self._applying.draft(plan, file.real, now, known, ahead)
            except Refusal as refusal:
                refused[plan.id] = refusal
                continue
            file.drafts[plan.id] = draft
            file.contexts[plan.id] = self._context(plan, file, draft, base)
            inverses.append(draft.change.inverse(draft.base.slice))
            if isinstance(draft.after, Snapshot):
                now = Whole(draft.after)

    def _approve(
        self, file: _File, owner: Owner, files: Sequence[_File], refused: dict[str, Refusal]
    ) -> None:
        """Refuse those plans for the file that need a person's approval and have none.

        A person is shown each plan alone, on the current file; so a plan that is made on the result
        of others passes if it is the same change, moved.
        """
        ahead: ChangeSet | None = None
        together = [(one.real, draft) for one in files for draft in one.drafts.values()]
        for plan in (plan for plan in file.plans if plan.id in file.drafts):
            draft, member = file.drafts[plan.id], owner(plan)
            if draft.replaces_nothing:
                continue
            try:
                is_alone = ahead is None or member.policy.asks_nobody
                shown = draft if is_alone else self._alone(file, plan)
                why = self._approving.check(
                    *(member, version_of(plan), file.real, shown),
                    created=file.opened is None,
                    together=together,
                    to=file.to if isinstance(plan.request, MoveFile) else None,
                )
                if isinstance(plan.request, FileOperation):
                    continue
                if why and ahead is not None and shown.change.rebase(ahead) != draft.change:
                    raise ApprovalRequired("drifted", plan.id)
            except Refusal as refusal:
                refused[plan.id] = refusal
            ahead = draft.change if ahead is None else ahead.then(draft.change)

    def _check(self, files: Sequence[_File], owner: Owner, refused: dict[str, Refusal]) -> None:
        """Refuse the plans for files where checks find something new in the resulting text."""
        found = self._set.checks.judge(*(file.edited for file in files)) or ()
        for file in files:
            own = tuple(one for one in found if one.path == str(file.plans[0].request.path))
            for plan in file.edits:
                approved = partial(self._is_approved, file, plan)
                try:
                    self._set.checks.gate(own, owner(plan).accept, plan.id, approved)
                except Refusal as refusal:
                    refused[plan.id] = refusal

    def _is_approved(self, file: _File, plan: Plan) -> bool:
        """Whether a person was shown the text as the plan makes it, and approved it."""
        bound, created = (version_of(plan), file.real, file.drafts[plan.id]), file.opened is None
        return self._approving.is_approved(*bound, created=created)

    def _alone(self, file: _File, plan: Plan) -> Draft:
        """The plan on the file as it was read, without the others."""
        if file.opened is None:
            return self._drafting.of_new(plan.request)
        return self._applying.draft(plan, file.real, Whole(file.opened.source.whole()))

    def _context(
        self, plan: Plan, file: _File, draft: Draft, base: Snapshot | None
    ) -> ContextMatch:
        """The plan's status in the file as read, which is `base` if loaded."""
        is_new = file.opened is None and plan.base_digest is None
        if isinstance(plan.request, FileOperation):
            return "exact"
        if is_new or digest_of(draft.diff) == plan.diff_digest:
            return "exact"
        if base is None or draft.base is base:
            return "fuzz"
        if plan.base_digest == base.digest:
            return "exact"
        try:
            alone = self._applying.draft(plan, file.real, Whole(base))
        except Refusal:
            return "fuzz"
        return "exact" if digest_of(alone.diff) == plan.diff_digest else "fuzz"

    def _note_changes(self, file: _File, digests: Mapping[str, str]) -> None:
        """Record the lines known to the plans' owners; `digests` are those written."""
        moved = file.operation
        plans = [plan for plan in file.plans if plan.id in digests and plan is not moved]
        if plans:
            self._note_edits(file, plans, digests[plans[-1].id])
        if moved is not None and moved.id in digests:
            base = file.drafts[moved.id].base
            self._drafting.note_moved(moved.owner, file.real, moved.request, base)

    def _note_edits(self, file: _File, plans: Sequence[Plan], digest: str) -> None:
        drafts = [file.drafts[plan.id] for plan in plans]
        base, after = drafts[0].base, drafts[-1].after
        for name in {plan.owner for plan in plans}:
            changes = [
                change_of(draft, own=plan.owner == name and not plan.edited_by)
                for plan, draft in zip(plans, drafts, strict=True)
            ]
            note = note_of_change(name, file.real, base, after, digest, *changes)
            self._set.bases.note_shown(note)

    def _written(self, owner: Owner, files: Sequence[_File]) -> tuple[str, tuple[Entry, ...]]:
        """Write the files; return the transaction's id and entries, none if nothing changes."""
        rewritings = [made for file in files for made in file.rewritings(owner)]
        if not rewritings:
            return "", ()
        for each in rewritings:
            self._drafting.remember(each.steps[-1][1].after, each.real)
        group = self._set.ids() + self._set.ids()
        return group, self._writer.write_all(group, rewritings)


def _rank(plan: Plan) -> int:
    """The order of writes to a file: text, mode, name."""
    return isinstance(plan.request, FileOperation) + isinstance(plan.request, MoveFile)


def _age(plan: Plan) -> Ticket:
    """The sort key of waiting plans."""
    return plan.created_ms, plan.id


def _created(plan: Plan) -> int:
    return plan.created_ms


def _contexts(files: Sequence[_File]) -> dict[str, ContextMatch]:
    return {hunk_id: context for file in files for hunk_id, context in file.contexts.items()}


def _transacted(
    group: str, plans: Sequence[Plan], files: Sequence[_File], entries: Sequence[Entry]
) -> Transacted:
    written = {entry.hunk_id: entry for entry in entries}
    applied: dict[str, Applied] = {}
    versions: dict[str, str] = {}
    diffs: list[tuple[bytes, Encoding]] = []
    for file in files:
        for plan in file.plans:
            draft, entry = file.drafts[plan.id], written.get(plan.id)
            if entry is not None:
                draft = replace(draft, after_digest=entry.after)
            edit_id = entry.edit_id if entry else 0
            applied[plan.id] = Applied(plan, draft, file.contexts[plan.id], edit_id)
        last = applied[file.plans[-1].id].draft.after
        is_gone = file.operation is not None and file.to is None
        version = "" if is_gone else last.version
        versions |= dict.fromkeys((plan.id for plan in file.plans), version)
        steps = [applied[plan.id].draft for plan in file.plans if plan.id in written]
        if steps:
            diffs.append((diff_of(steps), steps[0].base.encoding))
    return Transacted(group, tuple(applied[plan.id] for plan in plans), versions, tuple(diffs))
