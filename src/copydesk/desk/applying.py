"""Apply plans, one, or several all or none, to the current files, each once.

Invariant: a plan that was written is never written again, whichever process dies in between; of two
plans for one file the older is made first, the younger on its result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Final, Generic, TypeVar

from copydesk.desk.backends.api import (
    Entry,
    OutcomeKind,
    PlanOutcome,
    counts,
)
from copydesk.desk.drafts import (
    Blocks,
    DraftCache,
    Drafting,
    Services,
    diff_of,
    digest_of,
    draft_plan,
)
from copydesk.desk.gates import Edited, Passed
from copydesk.desk.member import (
    Member,
    authorized,
    change_of,
    check_free,
    check_no_link,
    note_of_change,
)
from copydesk.desk.outcome import Applied, PlanVerdict, Rejected, Revision, Transacted, Withheld
from copydesk.desk.transaction import (
    ATTEMPTS,
    Chmod,
    Create,
    Move,
    Opener,
    Part,
    Remove,
    Replace,
    Step,
    Stopped,
    Writer,
    WriteRequest,
    again_and_again,
    attempted,
)
from copydesk.edit.draft import ContextMatch, Draft, Plan
from copydesk.edit.kinds.base import Request
from copydesk.errors import (
    ApprovalRequired,
    ContentChanged,
    FileExists,
    FileNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.store.protocol import EXECUTABLE, OpenText, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source, Text

Owner = Callable[[Plan], Member]
"""Returns the member that made a plan, in whose name it is written."""

_NOT_ASKED = Passed(None, None, 0)

R = TypeVar("R", bound=Revision)


@dataclass(slots=True)
class _Item:
    """An edit to be written, and how far it is: refused, made, or written.

    A direct write is one of a plan that was never stored, with a neutral `request`; it has no
    `plan` and `draft`, and its `context` is not used. `is_new`: it makes a file, so that none is
    opened. `made` is the edit on the current file, or on the result of the plans before it; then it
    is known whether it `changes_nothing`. `context` is the plan's status in the file as it was
    read, without the others.
    """

    job: WriteRequest
    request: Request
    is_new: bool = False
    context: ContextMatch = "rejected"
    passed: Passed = _NOT_ASKED
    refusal: Refusal | None = None
    entry: Entry | None = None
    changes_nothing: bool = True
    target: RelPath | None = None
    plan: Plan = field(init=False)
    made: Revision = field(init=False)
    draft: Draft = field(init=False)

    @property
    def changes_text(self) -> bool:
        """Whether it changes the file's text."""
        return not self.changes_nothing and not self.request.is_operation

    @property
    def part(self) -> Part:
        """What is written of it."""
        return Part(self.job, self.made, self.passed.approval, self.passed.decided_ms)

    @property
    def applied(self) -> Applied:
        """How the plan was written."""
        draft, entry = self.draft, self.entry
        if entry is not None and self.changes_text and not isinstance(draft.after, Snapshot):
            draft = replace(draft, after_digest=entry.after)
        return Applied(self.plan, draft, self.context, entry.edit_id if entry else 0)


@dataclass(slots=True)
class _File:
    """One file of a transaction and the edits of it: texts oldest first, then mode, then name.

    `opened` is None if there is no file; `to` is where it is moved.
    """

    real: RelPath
    items: list[_Item]
    opened: OpenText | None = None
    to: RelPath | None = None

    @property
    def operation(self) -> _Item | None:
        """The plan that removes or moves the file, which is its last."""
        last = self.items[-1]
        return last if last.request.deletes or last.target is not None else None

    @property
    def edited(self) -> Edited | None:
        """The text after all edits, for checks; None if it is unchanged or not loaded whole."""
        made = [item.made for item in self.items if item.changes_text]
        path, real = self.items[0].job.path, self.to or self.real
        return Edited.of(path, real, *made, created=self.opened is None)

    def put_in_order(self) -> None:
        """Sort the plans; InvalidArgs if one deletes the file besides others, or two move it."""
        for item in self.items:
            others = [one.job.hunk_id for one in self.items if one is not item]
            if item.request.deletes and others:
                why = f"{item.job.hunk_id} deletes a file that {others[0]} is for"
                raise InvalidArgs("hunk_ids", why)
        self.items.sort(key=lambda item: item.request.rank)
        for item, other in pairwise(self.items):
            if 0 < item.request.rank == other.request.rank:
                why = f"{item.job.hunk_id} does to a file what another one does too"
                raise InvalidArgs("hunk_ids", why)

    def refuse(self, refusal: Refusal) -> None:
        """Refuse all edits of the file."""
        for item in self.items:
            item.refusal = refusal

    def steps(self) -> list[Step]:
        """The steps of the file; none if the edits together change nothing."""
        texts = [item.part for item in self.items if item.changes_text]
        if (opened := self.opened) is None:
            run = EXECUTABLE if self.items[0].request.is_executable else None
            return [Create(self.real, texts, run)] if texts else []
        found: list[Step] = [Replace(self.real, texts, opened)] if texts else []
        for item in self.items:
            if not item.request.is_operation:
                continue
            if (mode := item.request.mode_after(opened.stamp.mode)) is not None:
                found.append(Chmod(self.real, item.part, opened, mode))
            elif item.request.deletes:
                found.append(Remove(self.real, [item.part], opened))
            elif self.to is not None and item.target is not None:
                found.append(Move(self.real, item.part, opened, self.to))
        return found


@dataclass(slots=True)
class _Outcome:
    """What became of some edits: all were written, or some were refused.

    `stopped`: the system refused. `current` is the text at the place of a plan that was refused.
    """

    items: list[_Item]
    files: list[_File] = field(default_factory=list[_File])
    group: str = ""
    stopped: Refusal | None = None
    current: Text | None = None

    @property
    def refusal(self) -> Refusal | None:
        """Why nothing was written, if so."""
        return next((item.refusal for item in self.items if item.refusal), self.stopped)


def _transacted(outcome: _Outcome) -> Transacted:
    """How all plans were written."""
    applied = {item.plan.id: item.applied for item in outcome.items}
    versions: dict[str, str] = {}
    diffs: list[tuple[bytes, Encoding]] = []
    for file in outcome.files:
        last = applied[file.items[-1].plan.id].draft.after
        is_gone = file.operation is not None and file.to is None
        version = "" if is_gone else last.version
        versions |= dict.fromkeys((item.plan.id for item in file.items), version)
        steps = [applied[item.plan.id].draft for item in file.items if item.entry is not None]
        if steps:
            diffs.append((diff_of(steps), steps[0].base.encoding))
    return Transacted(outcome.group, tuple(applied.values()), versions, tuple(diffs))


@dataclass(frozen=True, slots=True)
class DirectWrite(Generic[R]):
    """A finished write, with the new SHA-256 in hex; `edit_id` 0 if nothing changed."""

    made: R
    edit_id: int
    digest: str


class Applying:
    """Writes the edits of one workspace: plans, and those that are made at once."""

    def __init__(
        self, services: Services, drafting: Drafting, writer: Writer, blocks: Blocks
    ) -> None:
        self._services, self._drafting, self._writer = services, drafting, writer
        self._blocks = blocks
        self.drafts = DraftCache()

    def write(
        self, member: Member, plan: Plan, base: Text | None = None, *, is_stored: bool = True
    ) -> Applied | Rejected:
        """Write a plan under its lock; `base` is its base text if loaded.

        One that is not `is_stored` is not pending either, if it is refused.
        """
        current: Text | None = None
        try:
            if plan.request.in_notes:
                return self._write_blocks(member, plan, is_stored=is_stored)
            outcome = self._run((plan,), lambda _: member, base, is_stored=is_stored)
            refusal, current = outcome.refusal, outcome.current
        except Refusal as refused:
            refusal = refused
        else:
            if refusal is None:
                return outcome.items[0].applied
        if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
            raise refusal
        self.refused(plan, refusal)
        waiting = self.await_person(plan, refusal) if is_stored else plan
        return Rejected(waiting, refusal, current)

    def write_all(self, plans: tuple[Plan, ...], owner: Owner) -> Transacted | Withheld:
        """Write plans, each as its owner, all or none."""
        for plan in plans:
            if plan.request.in_notes:
                raise InvalidArgs("hunk_ids", f"{plan.id} is a block diff: apply it by itself")
        outcome = self._run(plans, owner, is_group=True)
        refusal = outcome.refusal
        if refusal is None:
            return _transacted(outcome)
        verdicts = tuple(
            PlanVerdict(item.plan, "rejected" if item.refusal else item.context, item.refusal)
            for item in outcome.items
        )
        first = next((verdict.plan for verdict in verdicts if verdict.refusal is not None), None)
        withheld = Withheld(outcome.stopped or refusal, first, verdicts)
        ids = "".join(sorted(plan.id for plan in plans))
        transaction = hashlib.sha256(ids.encode()).hexdigest()[:8]
        for verdict in verdicts:
            if verdict.refusal is not None:
                self.refused(verdict.plan, verdict.refusal)
            self.await_person(verdict.plan, withheld.refusal, transaction)
        return withheld

    def create(self, member: Member, tool: str, path: RelPath, made: R) -> DirectWrite[R]:
        """Write a new file; raises FileExists, NotAFile, and as `edit`."""

        def make(_: OpenText | None) -> R:
            self._services.files.check_new(path)
            return made

        job = WriteRequest(member, tool, path, (self._services.clock(), tool))
        over = partial(again_and_again, "create", "directory is")
        return attempted(lambda: self._write_at_once(job, make, is_new=True), over)

    def edit(
        self, member: Member, tool: str, path: RelPath, revise: Callable[[Source], R]
    ) -> DirectWrite[R]:
        """Write what `revise` makes of the current file; raises its refusals, Failed, Unsettled."""

        def make(opened: OpenText | None) -> R:
            if opened is None:
                raise FileNotFound
            return revise(opened.source)

        job = WriteRequest(member, tool, path, (self._services.clock(), tool))
        return attempted(lambda: self._write_at_once(job, make, is_new=False))

    def _write_at_once(
        self, job: WriteRequest, make: Callable[[OpenText | None], R], *, is_new: bool
    ) -> DirectWrite[R]:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        item = _Item(job, _AT_ONCE, is_new)
        with self._locked([item]) as outcome:
            if item.refusal is not None:  # every answer reveals content, or that some exists
                raise item.refusal
            made = item.made = make(outcome.files[0].opened)
            item.changes_nothing = not is_new and made.base.unchanged_by(made.change)
            self._pass_and_write(outcome)
        if (refusal := outcome.refusal) is not None:
            raise refusal
        if item.entry is None:
            return DirectWrite(made, 0, made.base.digest)
        return DirectWrite(made, item.entry.edit_id, item.entry.after)

    def end(self, plan: Plan) -> None:
        """Mark a plan as applied that had nothing to write."""
        with suppress(Refusal):
            self._services.records.end(plan.id, "applied", self._services.clock())

    def note(self, plan: Plan, how: OutcomeKind) -> None:
        """Record that the plan was not written as it was shown."""
        path = str(plan.request.path)
        self._services.records.note(PlanOutcome(self._services.clock(), plan.owner, path, how))

    def refused(self, plan: Plan, refusal: Refusal) -> None:
        """Record that the file refused the plan, if it was the file."""
        if counts(refusal):
            self.note(plan, "rejected")

    def await_person(self, plan: Plan, refusal: Refusal, transaction: str = "") -> Plan:
        """The plan; it stays pending longer (for its transaction) if a person has to approve it."""
        if not isinstance(refusal, ApprovalRequired):
            return plan
        until_ms = plan.created_ms + self._services.life_ms(needs_person=True)
        with suppress(Refusal):  # its lifetime stays the same
            return self.wait_until(plan, until_ms, transaction)
        return plan

    def wait_until(self, plan: Plan, until_ms: int, transaction: str = "") -> Plan:
        """Keep the plan pending until then, unless it is pending longer; a correction is accepted.

        Raises HunkNotFound.
        """
        transaction = transaction or plan.transaction
        is_long = plan.expires_ms >= until_ms and not plan.is_correction
        if is_long and plan.transaction == transaction:
            return plan
        with self.lock(plan):
            self.check_waits(plan)
            until_ms = max(
                until_ms, self._services.records.plan(plan.id, self._services.clock()).expires_ms
            )
            plan = replace(plan, expires_ms=until_ms, transaction=transaction, is_correction=False)
            self._services.records.put(plan)
        return plan

    def blocks(self, plan: Plan, member: Member | None = None) -> Draft:
        """The current result of a block diff's plan, for its owner or a member; may refuse."""
        return self._blocks().planned(
            member or self._services.members(plan.owner, plan.toolset), plan
        )

    def _write_blocks(self, member: Member, plan: Plan, *, is_stored: bool) -> Applied:
        """Like `write`, for a block diff."""
        draft = self._blocks().apply(
            member.because(plan.why, plan.task),
            plan,
            partial(self.check_waits, plan) if is_stored else lambda: None,
            partial(self.end, plan) if is_stored else lambda: None,
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
        read: str = "",
        ahead: Sequence[ChangeSet] = (),
    ) -> Draft:
        """The plan's edit on the current text; may refuse. `base`: its base text, if loaded.

        `ahead` are the inverses of earlier edits of the same transaction, oldest first, that made
        this text of the one that was read, of the digest `read` (empty: it is this text).
        """
        digest, read = plan.base_digest, read or now.digest
        if plan.request.is_operation and digest != read:
            raise ContentChanged("the file changed since it was planned", version=now.version)
        if digest in (None, now.digest) or plan.place.foot is None:
            return draft_plan(plan, now)
        known: tuple[ChangeSet, ...] | None = ()
        own: tuple[ChangeSet, ...] = ()
        if digest != read:
            known, own = self._drafting.known_since(real, digest, read)
        known = None if known is None else (*known, *ahead)

        def find() -> Snapshot | None:
            if isinstance(base, Snapshot):
                return base
            return self._services.bases.find(digest, self._services.encoding_of(real), None)

        return draft_plan(plan, now, find, known, (*own, *ahead))

    def check_waits(self, plan: Plan) -> None:
        """Raise unless the plan is pending and unchanged."""
        if (stored := self._drafting.pending(plan.id)) is plan:
            return
        # These may change while it is pending.
        as_it_was = replace(
            stored,
            expires_ms=plan.expires_ms,
            transaction=plan.transaction,
            is_correction=plan.is_correction,
        )
        if as_it_was != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime", planned_lines=plan.place.named
            )

    def lock(self, plan: Plan) -> AbstractContextManager[None]:
        """The lock of the plan's file: while held, the plan is not being applied."""
        real, ticket = self._drafting.real(plan.request.path), (plan.created_ms, plan.id)
        return self._services.locks.of_all({real: ticket}, (plan.owner, plan.tool))

    def _run(
        self,
        plans: Sequence[Plan],
        owner: Owner,
        base: Text | None = None,
        *,
        is_stored: bool = True,
        is_group: bool = False,
    ) -> _Outcome:
        """Write the plans, all or none; `base` is the base text of the only one, if loaded.

        `is_group`: they get the id of a transaction even if there is only one.
        """

        for number in range(ATTEMPTS):
            items = [self._item(plan, owner(plan), is_stored=is_stored) for plan in plans]
            with suppress(TargetMoved), self._locked(items) as outcome:
                for file in outcome.files:
                    self._draft(file, outcome, base)
                self._pass_and_write(outcome, is_group=is_group, is_first_attempt=number == 0)
                if outcome.refusal is None:
                    self._note_written(outcome)
                else:
                    self._explain(outcome)
                return outcome
        is_move = len(plans) == 1 and plans[0].request.target is not None
        one = "directory is" if is_move else "file is"
        raise again_and_again("write", one if len(plans) == 1 else "files are")

    def _item(self, plan: Plan, member: Member, *, is_stored: bool) -> _Item:
        """A plan that a member writes; if not `is_stored`, it is not pending if it is refused."""
        member, age = member.because(plan.why, plan.task), (plan.created_ms, plan.id)
        job = WriteRequest(
            member,
            plan.tool,
            plan.request.path,
            ticket=age,
            hunk_id=plan.id,
            edited_by=plan.edited_by,
            is_stored=is_stored,
        )
        item = _Item(job, plan.request, target=plan.request.target)
        item.plan = plan
        return item

    @contextmanager
    def _locked(self, items: list[_Item]) -> Generator[_Outcome]:
        """Authorize the edits, lock their files, and open those; what refuses is in the items.

        Raises TargetMoved if another program moves a file meanwhile.
        """
        outcome, job = _Outcome(items), items[0].job
        files = self._resolved(items)
        # A member with limits writes one transaction at a time, since what it wrote is summed.
        own = (key for item in items for key in item.job.member.own_lock)
        new = (file.to for file in files.values() if file.to is not None)
        tickets = {
            **dict.fromkeys(chain(own, new), job.ticket),
            **{real: file.items[0].job.ticket for real, file in files.items()},
        }
        with self._services.locks.of_all(tickets, job.caller), ExitStack() as held:
            outcome.files = self._opened(files, job, held)
            yield outcome

    def _resolved(self, items: Sequence[_Item]) -> dict[RelPath, _File]:
        """The files that the members may write, by their real paths, and where they are moved.

        Each file is moved to a path that is free of other writes and moves.
        """
        files: dict[RelPath, _File] = {}
        for item in sorted(items, key=_created) if items[1:] else items:
            job = item.job
            try:
                real = authorized(self._services.files, job.member, job.path, "write", "read")
                if item.request.is_operation:
                    check_no_link(self._services.files, job.path, real)
            except Refusal as refusal:
                item.refusal = refusal
            else:
                files.setdefault(real, _File(real, [])).items.append(item)
        for file in files.values():
            if file.items[1:]:
                file.put_in_order()
            item = file.items[-1]
            if item.target is None:
                continue
            try:
                to = authorized(self._services.files, item.job.member, item.target, "write", "read")
                if to in files or to in [other.to for other in files.values()]:
                    raise FileExists(to=str(to))
                file.to = to
            except Refusal as refusal:
                item.refusal = refusal
        return files

    def _opened(
        self, files: Mapping[RelPath, _File], job: WriteRequest, held: ExitStack
    ) -> list[_File]:
        """Open the files, in order of their paths; two names of one file are one."""
        wanted: dict[RelPath, Opener] = {}
        found: dict[object, _File] = {}
        for real in sorted(files, key=str) if len(files) > 1 else files:
            first = files[real].items[0]  # not a move or change of mode, if there is another plan
            if first.is_new:
                found[real] = files[real]
            else:
                wanted[real] = partial(self._drafting.opened, real, first.request, ())
        for real, one in self._writer.opened(wanted, job, held).items():
            file = files[real]
            if isinstance(one, Refusal):
                if isinstance(one, FileNotFound):
                    found[real] = file
                else:
                    file.refuse(one)
                continue
            file.opened, stamp = one, one.stamp
            target = file.items[-1].target
            if file.to is not None and target is not None:
                try:
                    check_free(self._services.files, target, file.to, real, stamp)
                except Refusal as refusal:
                    file.items[-1].refusal = refusal
            same = found.setdefault((stamp.dev, stamp.ino), file)
            if same is not file and (same.operation or file.operation):
                names = f"{same.real} and {real}"
                raise InvalidArgs(
                    "hunk_ids", f"{names} are names of one file, which is to be deleted or moved"
                )
            if same is not file:
                same.items = sorted([*same.items, *file.items], key=_created)
        return [*found.values()]

    def _draft(self, file: _File, outcome: _Outcome, planned_on: Text | None) -> None:
        """Draft all plans for the file, each on the previous result.

        `planned_on` is the base text of the only plan, if it is loaded.
        """
        now = file.opened.source if file.opened else None
        is_one = not file.items[1:]
        # A text is drafted on the last one's result, which needs the whole file; a move is not.
        if now is not None and len(file.items) > 1 + (file.to is not None):
            try:
                now = now.whole()
            except Refusal as refusal:
                file.refuse(refusal)
                return
        # One plan alone may need no digest: the draft that was shown is taken as it is.
        digest_read = "" if now is None or is_one else now.digest
        text_read = now if isinstance(now, Snapshot) else None
        inverses: list[ChangeSet] = []
        for item in file.items:
            plan, shown = item.plan, None
            try:
                if item.refusal is not None:
                    raise item.refusal
                if now is not None:
                    shown = None if inverses else self.drafts.of(plan, now)
                    is_on_read = digest_read and plan.base_digest == digest_read
                    base = text_read if is_on_read else planned_on
                    draft = shown or self.draft(plan, file.real, now, base, digest_read, inverses)
                elif plan.base_digest is not None:
                    raise FileNotFound()
                else:
                    draft = self._drafting.of_new(plan.request)
            except Refusal as refusal:
                item.refusal = refusal
                if inverses and isinstance(refusal, ContentChanged) and refusal.current:
                    # What it shows is a text between two plans, which is in no file.
                    item.refusal = ContentChanged(
                        "another plan of this call changes lines that it relies on",
                        planned_lines=plan.place.named,
                    )
                    try:
                        self._alone(file, plan)
                    except Refusal as alone:
                        item.refusal = alone
                if now is not None and is_one and len(outcome.files) == 1:
                    last = now.line_count
                    start, stop = min(plan.place.start, last), min(plan.place.stop, last)
                    outcome.current = now.around(start, stop)
                continue
            item.draft = item.made = draft
            item.changes_nothing = draft.replaces_nothing
            item.context = "exact" if shown is not None else self._context(item, file, text_read)
            if not is_one:
                inverses.append(draft.change.inverse(draft.base.slice))
                if isinstance(draft.after, Snapshot):
                    now = draft.after

    def _pass_and_write(
        self, outcome: _Outcome, *, is_group: bool = False, is_first_attempt: bool = False
    ) -> None:
        """Write the edits that were made, if they pass the gates of people and of checks."""
        self._approve(outcome.files, is_first_attempt=is_first_attempt)
        if outcome.refusal is None:
            self._check(outcome.files)
        if outcome.refusal is None:
            self._write(outcome, is_group=is_group)

    def _approve(self, files: Sequence[_File], *, is_first_attempt: bool) -> None:
        """Refuse those edits that need a person's approval and have none.

        A person is shown each plan alone, on the current file; so a plan that is made on the result
        of others passes if it is the same change, moved.
        """
        together = [(f.real, one.made) for f in files for one in f.items if one.refusal is None]
        for file in files:
            ahead: ChangeSet | None = None
            for item in file.items:
                if item.refusal is not None or item.changes_nothing:
                    continue
                change, job = item.made.change, item.job
                try:
                    is_alone = ahead is None or job.member.policy.asks_nobody
                    shown = item.made if is_alone else self._alone(file, item.plan)
                    item.passed = self._services.approving.check(
                        job.member,
                        job.plan,
                        file.real,
                        shown,
                        created=file.opened is None,
                        together=together,
                        to=None if item.target is None else file.to,
                        edited_by=job.edited_by,
                        is_first_attempt=is_first_attempt,
                    )
                    if item.request.is_operation:
                        continue
                    reason = item.passed.reason
                    if reason and ahead is not None and shown.change.rebase(ahead) != change:
                        raise ApprovalRequired("drifted", job.hunk_id)
                except Refusal as refusal:
                    item.refusal = refusal
                ahead = change if ahead is None else ahead.then(change)

    def _check(self, files: Sequence[_File]) -> None:
        """Refuse those edits in whose resulting texts checks find something new."""
        concerned = [file for file in files if self._services.checks.concern(file.to or file.real)]
        findings = self._services.checks.judge(*[file.edited for file in concerned]) or ()
        for file in concerned:
            own = tuple(each for each in findings if each.path == str(file.items[0].job.path))
            for item in (item for item in file.items if item.changes_text):
                member = item.job.member
                approved = partial(  # whether a person was shown the text as the plan makes it
                    self._services.approving.is_approved,
                    item.job.plan,
                    file.real,
                    item.made,
                    created=file.opened is None,
                )
                try:
                    member.now().permission.check("write", file.to or file.real)
                    self._services.checks.gate(
                        own, member.accept, item.job.hunk_id or None, approved
                    )
                except Refusal as refusal:
                    item.refusal = refusal

    def _write(self, outcome: _Outcome, *, is_group: bool) -> None:
        """Do the steps of all files, all or none."""
        steps = [step for file in outcome.files for step in file.steps()]
        if not steps:
            return
        if is_group or steps[-1].to is not None:
            outcome.group = self._services.group_id()
        try:
            entries = self._writer.write(steps, outcome.group)
        except Stopped as stopped:
            outcome.stopped = stopped.refusal
            for file in outcome.files:
                if file.real == stopped.real:
                    file.refuse(stopped.refusal)
        else:
            written = {entry.hunk_id: entry for entry in entries}  # of a move, at its new path
            for item in outcome.items:
                item.entry = written.get(item.job.hunk_id)

    def _explain(self, outcome: _Outcome) -> None:
        """Refuse as ended the plans that have: that explains why they do not fit."""
        for item in outcome.items:
            try:
                if item.job.is_stored:
                    self.check_waits(item.plan)
            except Refusal as ended:
                item.refusal, outcome.stopped = ended, None

    def _note_written(self, outcome: _Outcome) -> None:
        """End the plans that changed nothing, and record what their members know by the others."""
        for item in outcome.items:
            if item.entry is None and item.job.is_stored:
                self.end(item.plan)
            if item.context == "fuzz":
                self.note(item.plan, "fuzz")
        for file in outcome.files:
            self._note_changes(file)
        for path, count in dict.fromkeys(chain(*(item.plan.emptied for item in outcome.items))):
            with suppress(Refusal):
                self._services.files.remove_parents(path, count)

    def _alone(self, file: _File, plan: Plan) -> Draft:
        """The plan on the file as it was read, without the others."""
        if file.opened is None:
            return self._drafting.of_new(plan.request)
        return self.draft(plan, file.real, file.opened.source.whole())

    def _context(self, item: _Item, file: _File, base: Snapshot | None) -> ContextMatch:
        """The plan's status in the file as read, which is `base` if loaded."""
        plan, draft = item.plan, item.draft
        is_new = file.opened is None and plan.base_digest is None
        if is_new or plan.request.is_operation or digest_of(draft.diff) == plan.diff_digest:
            return "exact"
        if base is None or draft.base is base:
            return "fuzz"
        if plan.base_digest == base.digest:
            return "exact"
        try:
            alone = self.draft(plan, file.real, base)
        except Refusal:
            return "fuzz"
        return "exact" if digest_of(alone.diff) == plan.diff_digest else "fuzz"

    def _note_changes(self, file: _File) -> None:
        """Record the lines known to the plans' owners."""
        moved = file.operation
        edits = [item for item in file.items if item.entry is not None and item is not moved]
        if edits:
            base, after, entry = edits[0].draft.base, edits[-1].draft.after, edits[-1].entry
            digest = entry.after if entry else ""
            for name in {item.plan.owner for item in edits}:
                changes = [
                    change_of(item.draft, own=item.plan.owner == name and not item.plan.edited_by)
                    for item in edits
                ]
                note = note_of_change(name, file.real, base, after, digest, *changes)
                self._drafting.remember(after, file.real, [note])
        if moved is not None and moved.entry is not None:
            plan = moved.plan
            self._drafting.note_moved(plan.owner, file.real, plan.request, moved.draft.base)


_AT_ONCE: Final = Request(RelPath(()))
"""Of a direct write: it changes a text, and what it makes of that is made by its caller."""


def _created(item: _Item) -> int:
    return item.job.ticket[0]
