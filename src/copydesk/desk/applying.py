"""Apply plans, one, or several all or none, to the current files, each once.

Invariant: a plan that was written is never written again, whichever process dies in between; of two
plans for one file the older is made first, the younger on its result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from copydesk.desk.backends.api import (
    Entry,
    OutcomeKind,
    PlanOutcome,
    counts,
    version_of,
)
from copydesk.desk.checks import Edited, Passed
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
from copydesk.desk.steps import (
    Chmod,
    Create,
    Move,
    Part,
    Remove,
    Step,
    WriteRequest,
    edit,
)
from copydesk.desk.transaction import Stopped, Writer, attempted, directory_moves, files_move
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
    FileExists,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    Refusal,
    WrongMode,
    WrongOwner,
)
from copydesk.store.locks import Ticket
from copydesk.store.protocol import EXECUTABLE, OpenText, Removed
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


Owner = Callable[[Plan], Member]
"""Returns the member that made a plan, in whose name it is written."""


def _beside_bytes(plan: Plan) -> Removed | None:
    """The unusual attributes of a file that the plan creates."""
    is_run = isinstance(plan.request, PatchEdit) and plan.request.executable
    return EXECUTABLE if is_run else None


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
    passed: dict[str, Passed] = field(default_factory=dict[str, Passed])

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

    def steps(self, owner: Owner, *, is_stored: bool) -> list[Step]:
        """The steps of the file; none if the drafts together change nothing."""
        found: list[Step] = []
        parts = {plan.id: self._part(plan, owner(plan), is_stored=is_stored) for plan in self.plans}
        texts = [parts[plan.id] for plan in self.edits]
        if self.opened is None:
            return [Create(self.real, texts, _beside_bytes(self.plans[0]))] if texts else []
        if texts:
            found.append(edit(self.real, texts, self.opened))
        for plan in self.plans:
            part, request = parts[plan.id], plan.request
            if isinstance(request, ChangeMode):
                mode = request.bits_after(self.opened.stamp.mode)
                if mode is not None:
                    found.append(Chmod(self.real, part, self.opened, mode))
            elif isinstance(request, DeleteFile):
                found.append(Remove(self.real, [part], self.opened))
            elif isinstance(request, MoveFile) and self.to is not None:
                found.append(Move(self.real, part, self.opened, self.to))
        return found

    def _part(self, plan: Plan, member: Member, *, is_stored: bool) -> Part:
        job = WriteRequest(
            *(member.because(plan.why), plan.tool, plan.request.path, _age(plan), plan.id),
            edited_by=plan.edited_by,
            is_stored=is_stored,
        )
        passed = self.passed.get(plan.id, Passed(None, None, 0))
        return Part(job, self.drafts[plan.id], passed.approval, passed.decided_ms)


@dataclass(slots=True)
class _Outcome:
    """What became of some plans: all `entries` were written, or some were `refused`, by plan id.

    `stopped`: the system refused. `current` is the text at the place of a plan that was refused.
    """

    files: list[_File]
    refused: dict[str, Refusal]
    group: str = ""
    entries: tuple[Entry, ...] = ()
    stopped: Refusal | None = None
    current: Text | None = None

    def applied(self, plan: Plan) -> Applied:
        """How the plan was written."""
        (file,) = (one for one in self.files if plan in one.plans)
        entry = next((one for one in reversed(self.entries) if one.hunk_id == plan.id), None)
        draft = file.drafts[plan.id]
        if entry is not None and not isinstance(plan.request, FileOperation):
            draft = replace(draft, after_digest=entry.after)
        edit_id = entry.edit_id if entry is not None else 0
        return Applied(plan, draft, file.contexts[plan.id], edit_id)

    def transacted(self, plans: Sequence[Plan]) -> Transacted:
        """How all plans were written."""
        applied = {plan.id: self.applied(plan) for plan in plans}
        written = {entry.hunk_id for entry in self.entries}
        versions: dict[str, str] = {}
        diffs: list[tuple[bytes, Encoding]] = []
        for file in self.files:
            last = applied[file.plans[-1].id].draft.after
            is_gone = file.operation is not None and file.to is None
            version = "" if is_gone else last.version
            versions |= dict.fromkeys((plan.id for plan in file.plans), version)
            steps = [applied[plan.id].draft for plan in file.plans if plan.id in written]
            if steps:
                diffs.append((diff_of(steps), steps[0].base.encoding))
        return Transacted(self.group, tuple(applied.values()), versions, tuple(diffs))


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

    def write(
        self, member: Member, plan: Plan, base: Text | None = None, *, is_stored: bool = True
    ) -> Applied | Rejected:
        """Write a plan under its lock; `base` is its base text if loaded.

        One that is not `is_stored` is not pending either, if it is refused.
        """
        member, current = member.because(plan.why), None
        try:
            if isinstance(plan.request, BlockDiff):
                return self._write_blocks(member, plan, is_stored=is_stored)
            outcome = self._run((plan,), lambda _: member, base, is_stored=is_stored)
            current = outcome.current
            refusal = outcome.refused.get(plan.id) or outcome.stopped
        except Refusal as refused:
            refusal = refused
        else:
            if refusal is None:
                return outcome.applied(plan)
        if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
            raise refusal
        self.refused(plan, refusal)
        waiting = self.await_person(plan, refusal) if is_stored else plan
        return Rejected(waiting, refusal, current)

    def apply_all(
        self, member: Member, tool: str, hunk_ids: Sequence[str]
    ) -> Transacted | Withheld:
        """Write all plans to the current files, or none.

        Raises InvalidArgs for no ids or one given twice, and as a single apply does InvalidHunkId,
        HunkNotFound, WrongOwner, WrongMode, which name the id; what the files refuse is returned as
        Withheld.
        """
        return self.write_all(self._plans(member, tool, hunk_ids), lambda _: member)

    def write_all(self, plans: tuple[Plan, ...], owner: Owner) -> Transacted | Withheld:
        """Write plans, each as its owner, all or none."""
        for plan in plans:
            if isinstance(plan.request, BlockDiff):
                raise InvalidArgs("hunk_ids", f"{plan.id} is a block diff: apply it by itself")
        outcome = self._run(plans, owner, is_group=True)
        if not outcome.refused and outcome.stopped is None:
            return outcome.transacted(plans)
        contexts: dict[str, ContextMatch] = {}
        for one in outcome.files:
            contexts |= one.contexts
        withheld = Withheld.of(plans, contexts, outcome.refused, outcome.stopped)
        ids = "".join(sorted(plan.id for plan in plans))
        transaction = hashlib.sha256(ids.encode()).hexdigest()[:8]
        for plan in plans:
            if plan.id in outcome.refused:
                self.refused(plan, outcome.refused[plan.id])
            self.await_person(plan, withheld.refusal, transaction)
        return withheld

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
            until_ms = max(until_ms, self._set.registry.plan(plan.id, self._set.clock()).expires_ms)
            plan = replace(plan, expires_ms=until_ms, transaction=transaction)
            self._set.registry.put(plan)
        return plan

    def blocks(self, plan: Plan, member: Member | None = None) -> BlockDraft:
        """The current result of a block diff's plan, for its owner or a member; may refuse."""
        owner = self._set.members(plan.owner, plan.toolset)
        return self._notes.desk.planned(member or owner, plan)

    def _write_blocks(self, member: Member, plan: Plan, *, is_stored: bool) -> Applied:
        """Like `write`, for a block diff."""
        draft = self._notes.desk.apply(
            member,
            plan,
            partial(self.check_waits, plan) if is_stored else _nothing,
            partial(self.end, plan) if is_stored else _nothing,
            is_stored=is_stored,
        )
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
        found = self._set.registry.plan(plan.id, now_ms)
        if found is not plan and _as_it_waits(found, plan) != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime", planned_lines=plan.place.named
            )

    def _ended(self, plan: Plan, *, is_stored: bool) -> Refusal | None:
        """Why the plan is not pending any more, which explains why it does not fit."""
        try:
            if is_stored:
                self.check_waits(plan)
        except Refusal as ended:
            return ended
        return None

    def real(self, plan: Plan) -> RelPath:
        """The real path of the plan's file."""
        return self._drafting.real(plan.request.path)

    def turn(self, plan: Plan) -> AbstractContextManager[None]:
        """The lock of the plan's file: while held, the plan is not being applied."""
        return self._set.turns.of(
            self.real(plan), (plan.created_ms, plan.id), (plan.owner, plan.tool)
        )

    def _plans(self, member: Member, tool: str, hunk_ids: Sequence[str]) -> tuple[Plan, ...]:
        if not hunk_ids:
            raise InvalidArgs("hunk_ids", "must not be empty")
        for index, hunk_id in enumerate(hunk_ids):
            if hunk_id in hunk_ids[:index]:
                raise InvalidArgs("hunk_ids", f"{hunk_id[:100]!r} is given twice")
        plans: list[Plan] = []
        for hunk_id in hunk_ids:
            plan = self._set.registry.plan(checked_id(hunk_id), self._set.clock())
            if plan.owner != member.name:
                raise WrongOwner(hunk_id)
            if plan.toolset != member.toolset:
                raise WrongMode(hunk_id, plan.tool, tool)
            plans.append(plan)
        return tuple(plans)

    def _run(
        self,
        plans: tuple[Plan, ...],
        owner: Owner,
        base: Text | None = None,
        *,
        is_stored: bool = True,
        is_group: bool = False,
    ) -> _Outcome:
        """Write the plans, all or none; `base` is the base text of the only one, if loaded.

        `is_group`: they get the id of a transaction even if there is only one.
        """
        over = None if len(plans) == 1 else files_move
        if isinstance(plans[0].request, MoveFile) and len(plans) == 1:
            over = partial(directory_moves, "write")
        work = partial(self._attempt, plans, owner, base, is_stored=is_stored, is_group=is_group)
        outcome = attempted(work, over)
        for one in outcome.files:
            for plan in one.plans:
                is_written = not outcome.refused and outcome.stopped is None
                if is_written and one.contexts[plan.id] == "fuzz":
                    self.note(plan, "fuzz")
        return outcome

    def _attempt(
        self,
        plans: tuple[Plan, ...],
        owner: Owner,
        base: Text | None,
        *,
        is_stored: bool,
        is_group: bool,
    ) -> _Outcome:
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
            opened = self._opened(files, plans[0], held, refused)
            outcome = _Outcome(opened, refused)
            for file in opened:
                self._draft(file, outcome, base, is_stored=is_stored)
            for file in opened:
                self._approve(file, owner, opened, refused)
            if not refused:
                self._check(opened, owner, refused)
            if refused:
                return outcome
            steps = [step for file in opened for step in file.steps(owner, is_stored=is_stored)]
            is_group = is_group or any(isinstance(step, Move) for step in steps)
            try:
                if steps:
                    outcome.group = self._set.ids() + self._set.ids() if is_group else ""
                    outcome.entries = self._writer.write(steps, outcome.group)
            except Stopped as stopped:
                ended = {one.id: self._ended(one, is_stored=is_stored) for one in plans}
                if isinstance(stopped.refusal, HunkNotFound) and any(ended.values()):
                    refused |= {hunk_id: why for hunk_id, why in ended.items() if why is not None}
                    return outcome
                outcome.stopped = stopped.refusal
                at = [file for file in opened if file.real == stopped.real]
                refused |= {one.id: stopped.refusal for file in at for one in file.plans}
                return outcome
            for plan in plans:
                if is_stored and plan.id not in {entry.hunk_id for entry in outcome.entries}:
                    self.end(plan)
            for file in opened:
                self._note_changes(file, {one.hunk_id: one.after for one in outcome.entries})
        return outcome

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
        self,
        files: Mapping[RelPath, _File],
        first: Plan,
        held: ExitStack,
        refused: dict[str, Refusal],
    ) -> list[_File]:
        """Open the files, in order of their paths; two names of one file are one."""
        wanted = {
            real: partial(self._drafting.opened, real, file.plans[0].request, ())
            for real, file in sorted(files.items(), key=lambda pair: str(pair[0]))
        }  # not a move or change of mode, if there is another plan
        caller = first.owner, first.tool
        found: dict[object, _File] = {}
        for real, one in self._writer.opened(wanted, _age(first), caller, held).items():
            file = files[real]
            if isinstance(one, Refusal) and not isinstance(one, FileNotFound):
                refused |= dict.fromkeys((plan.id for plan in file.plans), one)
                continue
            if isinstance(one, Refusal):
                found[real] = file
                continue
            file.opened, stamp = one, one.stamp
            for plan in file.plans:
                if file.to is not None and isinstance(plan.request, MoveFile):
                    check_free(self._set.files, plan.request.to, file.to, real, stamp)
            same = found.setdefault((stamp.dev, stamp.ino), file)
            if same is not file and (same.operation or file.operation):
                names = f"{same.real} and {real}"
                raise InvalidArgs(
                    "hunk_ids", f"{names} are names of one file, which is to be deleted or moved"
                )
            if same is not file:
                same.plans = sorted([*same.plans, *file.plans], key=_created)
        return [*found.values()]

    def _draft(
        self, file: _File, outcome: _Outcome, planned_on: Text | None, *, is_stored: bool
    ) -> None:
        """Draft all plans for the file, each on the previous result."""
        now, refused = file.opened.source if file.opened else None, outcome.refused
        if now is not None and len(file.plans) > 1 + (file.to is not None):
            try:
                now = Whole(now.whole())
            except Refusal as refusal:
                refused |= dict.fromkeys((plan.id for plan in file.plans), refusal)
                return
        read = now.digest if now is not None and len(file.plans) > 1 else ""
        base = now.whole() if isinstance(now, Whole) else None
        inverses: list[ChangeSet] = []
        for plan in file.plans:
            try:
                if now is None and plan.base_digest is not None:
                    raise FileNotFound()
                if now is None:
                    draft = self._drafting.of_new(plan.request)
                else:
                    shown = None if inverses else self._shown.of(plan, now)
                    known = base if read and plan.base_digest == read else planned_on
                    ahead = Ahead(read, tuple(inverses)) if inverses else NOTHING_AHEAD
                    draft = shown or self.draft(plan, file.real, now, known, ahead)
            except Refusal as refusal:
                refused[plan.id] = self._ended(plan, is_stored=is_stored) or refusal
                if now is not None and len(outcome.files) == len(file.plans) == 1:
                    last = now.line_count
                    start, stop = min(plan.place.start, last), min(plan.place.stop, last)
                    outcome.current = now.around(start, stop)
                continue
            file.drafts[plan.id] = draft
            file.contexts[plan.id] = self._context(plan, file, draft, base)
            if len(file.plans) > 1:
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
                passed = self._set.approving.check(
                    *(member, version_of(plan), file.real, shown),
                    created=file.opened is None,
                    together=together,
                    to=file.to if isinstance(plan.request, MoveFile) else None,
                    edited_by=plan.edited_by,
                )
                file.passed[plan.id] = passed
                if isinstance(plan.request, FileOperation):
                    continue
                if passed.why and ahead is not None and shown.change.rebase(ahead) != draft.change:
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
        return self._set.approving.is_approved(*bound, created=created)

    def _alone(self, file: _File, plan: Plan) -> Draft:
        """The plan on the file as it was read, without the others."""
        if file.opened is None:
            return self._drafting.of_new(plan.request)
        return self.draft(plan, file.real, Whole(file.opened.source.whole()))

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
            alone = self.draft(plan, file.real, Whole(base))
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
            self._drafting.remember(after, file.real, [note])


def _nothing() -> None:
    """Do nothing: the plan is not stored."""


def _rank(plan: Plan) -> int:
    """The order of writes to a file: text, mode, name."""
    return isinstance(plan.request, FileOperation) + isinstance(plan.request, MoveFile)


def _age(plan: Plan) -> Ticket:
    """The sort key of waiting plans."""
    return plan.created_ms, plan.id


def _created(plan: Plan) -> int:
    return plan.created_ms
