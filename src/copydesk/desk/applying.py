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
from itertools import pairwise

from copydesk.desk.approvals import Passed
from copydesk.desk.backends.api import (
    Entry,
    OutcomeKind,
    PlanOutcome,
    counts,
    version_of,
)
from copydesk.desk.blocks import Blocks
from copydesk.desk.checks import Edited
from copydesk.desk.drafts import (
    NOTHING_AHEAD,
    Ahead,
    DraftCache,
    Drafting,
    Setting,
    diff_of,
    digest_of,
    made,
)
from copydesk.desk.member import (
    Member,
    authorized,
    change_of,
    check_free,
    check_no_link,
    note_of_change,
)
from copydesk.desk.outcome import Applied, Rejected, Transacted, Verdict, Withheld
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
from copydesk.edit.draft import ContextMatch, Draft, Plan
from copydesk.errors import (
    ApprovalRequired,
    ContentChanged,
    FileExists,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.store.locks import Ticket
from copydesk.store.protocol import EXECUTABLE, OpenText
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source, Text


def _as_it_waits(found: Plan, plan: Plan) -> Plan:
    """The plan found, with those fields of the other that may change while it is pending."""
    return replace(found, expires_ms=plan.expires_ms, transaction=plan.transaction)


Owner = Callable[[Plan], Member]
"""Returns the member that made a plan, in whose name it is written."""

_NOT_ASKED = Passed(None, None, 0)


@dataclass(slots=True)
class _Item:
    """A plan to be written as a member, and how far it is: refused, drafted, or written.

    The `draft` is on the result of the plans before it; `context` is its status in the file as it
    was read, without them. One that is not stored is not pending either, if it is refused.
    """

    plan: Plan
    member: Member
    is_stored: bool
    context: ContextMatch = "rejected"
    passed: Passed = _NOT_ASKED
    refusal: Refusal | None = None
    entry: Entry | None = None
    draft: Draft = field(init=False)

    @property
    def changes_text(self) -> bool:
        """Whether it changes the file's text."""
        return not self.plan.request.is_operation and not self.draft.replaces_nothing

    @property
    def part(self) -> Part:
        """What is written of it."""
        plan, member = self.plan, self.member.because(self.plan.why)
        job = WriteRequest(
            *(member, plan.tool, plan.request.path, _age(plan), plan.id),
            edited_by=plan.edited_by,
            is_stored=self.is_stored,
        )
        return Part(job, self.draft, self.passed.approval, self.passed.decided_ms)

    @property
    def verdict(self) -> Verdict:
        """What would have happened to it."""
        return Verdict(self.plan, "rejected" if self.refusal else self.context, self.refusal)

    @property
    def applied(self) -> Applied:
        """How it was written."""
        draft, entry = self.draft, self.entry
        if entry is not None and self.changes_text and not isinstance(draft.after, Snapshot):
            draft = replace(draft, after_digest=entry.after)
        return Applied(self.plan, draft, self.context, entry.edit_id if entry else 0)


@dataclass(slots=True)
class _File:
    """One file of a transaction and the plans for it: texts oldest first, then mode, then name.

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
        request = last.plan.request
        return last if request.deletes or request.target is not None else None

    @property
    def edited(self) -> Edited | None:
        """The text after all plans, for checks; None if it is unchanged or not loaded whole."""
        drafts = [item.draft for item in self.items if item.changes_text]
        path, real = self.items[0].plan.request.path, self.to or self.real
        return Edited.of(path, real, *drafts, created=self.opened is None)

    def put_in_order(self) -> None:
        """Sort the plans; InvalidArgs if one deletes the file besides others, or two move it."""
        for item in self.items:
            others = [one.plan.id for one in self.items if one is not item]
            if item.plan.request.deletes and others:
                why = f"{item.plan.id} deletes a file that {others[0]} is for"
                raise InvalidArgs("hunk_ids", why)
        self.items.sort(key=_rank)
        for item, other in pairwise(self.items):
            if 0 < _rank(item) == _rank(other):
                why = f"{item.plan.id} does to a file what another one does too"
                raise InvalidArgs("hunk_ids", why)

    def refuse(self, refusal: Refusal) -> None:
        """Refuse all plans for the file."""
        for item in self.items:
            item.refusal = refusal

    def steps(self) -> list[Step]:
        """The steps of the file; none if the drafts together change nothing."""
        texts = [item.part for item in self.items if item.changes_text]
        if self.opened is None:
            run = EXECUTABLE if self.items[0].plan.request.is_executable else None
            return [Create(self.real, texts, run)] if texts else []
        found: list[Step] = [edit(self.real, texts, self.opened)] if texts else []
        for item in self.items:
            request = item.plan.request
            if (mode := request.mode_after(self.opened.stamp.mode)) is not None:
                found.append(Chmod(self.real, item.part, self.opened, mode))
            elif request.deletes:
                found.append(Remove(self.real, [item.part], self.opened))
            elif request.target is not None and self.to is not None:
                found.append(Move(self.real, item.part, self.opened, self.to))
        return found


@dataclass(slots=True)
class _Outcome:
    """What became of some plans: all were written, or some were refused.

    `stopped`: the system refused. `current` is the text at the place of a plan that was refused.
    """

    items: list[_Item]
    files: list[_File] = field(default_factory=list[_File])
    group: str = ""
    stopped: Refusal | None = None
    current: Text | None = None

    @property
    def is_refused(self) -> bool:
        """Whether a plan was refused."""
        return bool([item for item in self.items if item.refusal is not None])

    @property
    def transacted(self) -> Transacted:
        """How all plans were written."""
        applied = {item.plan.id: item.applied for item in self.items}
        versions: dict[str, str] = {}
        diffs: list[tuple[bytes, Encoding]] = []
        for file in self.files:
            last = applied[file.items[-1].plan.id].draft.after
            is_gone = file.operation is not None and file.to is None
            version = "" if is_gone else last.version
            versions |= dict.fromkeys((item.plan.id for item in file.items), version)
            steps = [applied[item.plan.id].draft for item in file.items if item.entry is not None]
            if steps:
                diffs.append((diff_of(steps), steps[0].base.encoding))
        return Transacted(self.group, tuple(applied.values()), versions, tuple(diffs))


class Applying:
    """Writes the plans of one workspace."""

    def __init__(
        self, setting: Setting, drafting: Drafting, writer: Writer, blocks: Blocks
    ) -> None:
        self._set, self._drafting, self._writer = setting, drafting, writer
        self._blocks = blocks
        self._shown = DraftCache()
        self.show, self.drop_drafts = self._shown.keep, self._shown.clear

    def write(
        self, member: Member, plan: Plan, base: Text | None = None, *, is_stored: bool = True
    ) -> Applied | Rejected:
        """Write a plan under its lock; `base` is its base text if loaded.

        One that is not `is_stored` is not pending either, if it is refused.
        """
        member, current = member.because(plan.why), None
        try:
            if plan.request.in_notes:
                return self._write_blocks(member, plan, is_stored=is_stored)
            outcome = self._run((plan,), lambda _: member, base, is_stored=is_stored)
            (item,), current = outcome.items, outcome.current
            refusal = item.refusal or outcome.stopped
            if refusal is None:
                return item.applied
        except Refusal as refused:
            refusal = refused
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
        if not hunk_ids:
            raise InvalidArgs("hunk_ids", "must not be empty")
        for index, hunk_id in enumerate(hunk_ids):
            if hunk_id in hunk_ids[:index]:
                raise InvalidArgs("hunk_ids", f"{hunk_id[:100]!r} is given twice")
        plans = tuple(self._drafting.own_plan(member, hunk_id, tool) for hunk_id in hunk_ids)
        return self.write_all(plans, lambda _: member)

    def write_all(self, plans: tuple[Plan, ...], owner: Owner) -> Transacted | Withheld:
        """Write plans, each as its owner, all or none."""
        for plan in plans:
            if plan.request.in_notes:
                raise InvalidArgs("hunk_ids", f"{plan.id} is a block diff: apply it by itself")
        outcome = self._run(plans, owner, is_group=True)
        if not outcome.is_refused and outcome.stopped is None:
            return outcome.transacted
        verdicts = tuple(one.verdict for one in outcome.items)
        withheld = Withheld.of(verdicts, outcome.stopped)
        ids = "".join(sorted(plan.id for plan in plans))
        transaction = hashlib.sha256(ids.encode()).hexdigest()[:8]
        for verdict in verdicts:
            if verdict.refusal is not None:
                self.refused(verdict.plan, verdict.refusal)
            self.await_person(verdict.plan, withheld.refusal, transaction)
        return withheld

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
        with self.lock(plan):
            self.check_waits(plan)
            until_ms = max(until_ms, self._set.registry.plan(plan.id, self._set.clock()).expires_ms)
            plan = replace(plan, expires_ms=until_ms, transaction=transaction)
            self._set.registry.put(plan)
        return plan

    def blocks(self, plan: Plan, member: Member | None = None) -> Draft:
        """The current result of a block diff's plan, for its owner or a member; may refuse."""
        owner = self._set.members(plan.owner, plan.toolset)
        return self._blocks().planned(member or owner, plan)

    def _write_blocks(self, member: Member, plan: Plan, *, is_stored: bool) -> Applied:
        """Like `write`, for a block diff."""
        draft = self._blocks().apply(
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
        read = ahead.digest or now.digest
        if plan.request.is_operation and digest != read:
            raise ContentChanged("the file changed since it was planned", version=now.version)
        if digest in (None, now.digest) or plan.place.foot is None:
            return made(plan, now)
        since: tuple[ChangeSet, ...] | None = ()
        own: tuple[ChangeSet, ...] = ()
        if digest != read:
            since, own = self._drafting.known_since(real, digest, read)
        since = None if since is None else (*since, *ahead.inverses)

        def find() -> Snapshot | None:
            if isinstance(base, Snapshot):
                return base
            return self._set.bases.find(digest, self._set.named(real), None)

        return made(plan, now, find, since, (*own, *ahead.inverses))

    def check_waits(self, plan: Plan) -> None:
        """Raise unless the plan is pending and unchanged."""
        now_ms = self._set.clock()
        found = self._set.registry.plan(plan.id, now_ms)
        if found is not plan and _as_it_waits(found, plan) != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime", planned_lines=plan.place.named
            )

    def _ended(self, item: _Item) -> Refusal | None:
        """Why the plan is not pending any more, which explains why it does not fit."""
        try:
            if item.is_stored:
                self.check_waits(item.plan)
        except Refusal as ended:
            return ended
        return None

    def real(self, plan: Plan) -> RelPath:
        """The real path of the plan's file."""
        return self._drafting.real(plan.request.path)

    def lock(self, plan: Plan) -> AbstractContextManager[None]:
        """The lock of the plan's file: while held, the plan is not being applied."""
        return self._set.locks.of(
            self.real(plan), (plan.created_ms, plan.id), (plan.owner, plan.tool)
        )

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

        def attempt() -> _Outcome:
            items = [_Item(plan, owner(plan), is_stored) for plan in plans]
            return self._attempt(items, base, is_group=is_group)

        over = None if len(plans) == 1 else files_move
        if plans[0].request.target is not None and len(plans) == 1:
            over = partial(directory_moves, "write")
        outcome = attempted(attempt, over)
        if not outcome.is_refused and outcome.stopped is None:
            for item in outcome.items:
                if item.context == "fuzz":
                    self.note(item.plan, "fuzz")
        return outcome

    def _attempt(self, items: list[_Item], base: Text | None, *, is_group: bool) -> _Outcome:
        """Do one attempt; raises TargetMoved if another program wrote meanwhile."""
        first, outcome, age = items[0], _Outcome(items), _age(items[0].plan)
        files = self._resolved(items)
        tickets = dict.fromkeys(self._targets(files), age)
        for item in items:
            tickets |= dict.fromkeys(item.member.own_lock, age)
        for real, file in files.items():
            tickets[real] = _age(file.items[0].plan)
        caller = first.member.name, first.plan.tool
        with self._set.locks.of_all(tickets, caller), ExitStack() as held:
            outcome.files = self._opened(files, first.plan, held)
            for file in outcome.files:
                self._draft(file, outcome, base)
            self._approve(outcome.files)
            if not outcome.is_refused and not self._check(outcome.files):
                self._write(outcome, is_group=is_group)
        return outcome

    def _resolved(self, items: Sequence[_Item]) -> dict[RelPath, _File]:
        """The files that the members may write, by their real paths."""
        files: dict[RelPath, _File] = {}
        for item in sorted(items, key=_created):
            path = item.plan.request.path
            try:
                real = authorized(self._set.files, item.member, path, "write", "read")
                if item.plan.request.is_operation:
                    check_no_link(self._set.files, path, real)
            except Refusal as refusal:
                item.refusal = refusal
            else:
                files.setdefault(real, _File(real, [])).items.append(item)
        for file in files.values():
            if len(file.items) > 1:
                file.put_in_order()
        return files

    def _targets(self, files: Mapping[RelPath, _File]) -> list[RelPath]:
        """The real paths that files are moved to, each free of other writes and moves."""
        found: list[RelPath] = []
        for file in files.values():
            item = file.items[-1]
            if (to := item.plan.request.target) is None:
                continue
            try:
                to = authorized(self._set.files, item.member, to, "write", "read")
                if to in found or to in files:
                    raise FileExists(to=str(to))
            except Refusal as refusal:
                item.refusal = refusal
            else:
                file.to = to
                found.append(to)
        return found

    def _opened(self, files: Mapping[RelPath, _File], first: Plan, held: ExitStack) -> list[_File]:
        """Open the files, in order of their paths; two names of one file are one."""
        order = sorted(files, key=str) if len(files) > 1 else files
        wanted = {
            real: partial(self._drafting.opened, real, files[real].items[0].plan.request, ())
            for real in order
        }  # not a move or change of mode, if there is another plan
        caller = first.owner, first.tool
        found: dict[object, _File] = {}
        for real, one in self._writer.opened(wanted, _age(first), caller, held).items():
            file = files[real]
            if isinstance(one, FileNotFound):
                found[real] = file
                continue
            if isinstance(one, Refusal):
                file.refuse(one)
                continue
            file.opened, stamp = one, one.stamp
            target = file.items[-1].plan.request.target
            if file.to is not None and target is not None:
                try:
                    check_free(self._set.files, target, file.to, real, stamp)
                except Refusal as refusal:
                    file.items[-1].refusal = refusal
            same = found.setdefault((stamp.dev, stamp.ino), file)
            if same is file:
                continue
            if same.operation or file.operation:
                names = f"{same.real} and {real}"
                raise InvalidArgs(
                    "hunk_ids", f"{names} are names of one file, which is to be deleted or moved"
                )
            same.items = sorted([*same.items, *file.items], key=_created)
        return [*found.values()]

    def _draft(self, file: _File, outcome: _Outcome, planned_on: Text | None) -> None:
        """Draft all plans for the file, each on the previous result."""
        now = file.opened.source if file.opened else None
        is_one = len(file.items) == 1
        if now is not None and len(file.items) > 1 + (file.to is not None):
            try:
                now = now.whole()
            except Refusal as refusal:
                file.refuse(refusal)
                return
        read = "" if now is None or is_one else now.digest
        base = now if isinstance(now, Snapshot) else None
        inverses: list[ChangeSet] = []
        for item in (item for item in file.items if item.refusal is None):
            plan = item.plan
            try:
                if now is not None:
                    shown = None if inverses else self._shown.of(plan, now)
                    known = base if read and plan.base_digest == read else planned_on
                    ahead = Ahead(read, tuple(inverses)) if inverses else NOTHING_AHEAD
                    draft = shown or self.draft(plan, file.real, now, known, ahead)
                elif plan.base_digest is not None:
                    raise FileNotFound()
                else:
                    draft = self._drafting.of_new(plan.request)
            except Refusal as refusal:
                item.refusal = self._ended(item) or refusal
                if now is not None and is_one and len(outcome.files) == 1:
                    last = now.line_count
                    start, stop = min(plan.place.start, last), min(plan.place.stop, last)
                    outcome.current = now.around(start, stop)
                continue
            item.draft = draft
            item.context = self._context(item, file, base)
            if not is_one:
                inverses.append(draft.change.inverse(draft.base.slice))
                if isinstance(draft.after, Snapshot):
                    now = draft.after

    def _approve(self, files: Sequence[_File]) -> None:
        """Refuse those plans that need a person's approval and have none.

        A person is shown each plan alone, on the current file; so a plan that is made on the result
        of others passes if it is the same change, moved.
        """
        drafted = [(file, one) for file in files for one in file.items if one.refusal is None]
        together = [(file.real, item.draft) for file, item in drafted]
        ahead: ChangeSet | None = None
        last: _File | None = None
        for file, item in drafted:
            draft, plan = item.draft, item.plan
            if file is not last:
                last, ahead = file, None
            if draft.replaces_nothing:
                continue
            try:
                is_alone = ahead is None or item.member.policy.asks_nobody
                shown = draft if is_alone else self._alone(file, plan)
                item.passed = self._set.approving.check(
                    *(item.member, version_of(plan), file.real, shown),
                    created=file.opened is None,
                    together=together,
                    to=None if plan.request.target is None else file.to,
                    edited_by=plan.edited_by,
                )
                if plan.request.is_operation:
                    continue
                reason = item.passed.reason
                if reason and ahead is not None and shown.change.rebase(ahead) != draft.change:
                    raise ApprovalRequired("drifted", plan.id)
            except Refusal as refusal:
                item.refusal = refusal
            ahead = draft.change if ahead is None else ahead.then(draft.change)

    def _check(self, files: Sequence[_File]) -> bool:
        """Refuse the plans where checks find something new in the resulting text; if there are."""
        concerned = [file for file in files if self._set.checks.concern(file.to or file.real)]
        if not concerned:
            return False
        found = self._set.checks.judge(*[file.edited for file in concerned]) or ()
        refused = False
        for file in concerned:
            own = tuple(one for one in found if one.path == str(file.items[0].plan.request.path))
            for item in (item for item in file.items if item.changes_text):
                approved = partial(self._is_approved, file, item)
                try:
                    item.member.now().permission.check("write", file.to or file.real)
                    self._set.checks.gate(own, item.member.accept, item.plan.id, approved)
                except Refusal as refusal:
                    item.refusal, refused = refusal, True
        return refused

    def _is_approved(self, file: _File, item: _Item) -> bool:
        """Whether a person was shown the text as the plan makes it, and approved it."""
        bound = version_of(item.plan), file.real, item.draft
        return self._set.approving.is_approved(*bound, created=file.opened is None)

    def _write(self, outcome: _Outcome, *, is_group: bool) -> None:
        """Do the steps of all files, all or none, and record what their members know by it."""
        steps = [step for file in outcome.files for step in file.steps()]
        is_group = is_group or any(step.to is not None for step in steps)
        written: dict[str, Entry] = {}
        try:
            if steps:
                outcome.group = self._set.ids() + self._set.ids() if is_group else ""
                entries = self._writer.write(steps, outcome.group)
                written = {entry.hunk_id: entry for entry in entries}  # of a move, at its new path
        except Stopped as stopped:
            ended = [(item, self._ended(item)) for item in outcome.items]
            if isinstance(stopped.refusal, HunkNotFound) and any(why for _, why in ended):
                for item, why in ended:
                    item.refusal = why
                return
            outcome.stopped = stopped.refusal
            for file in outcome.files:
                if file.real == stopped.real:
                    file.refuse(stopped.refusal)
            return
        for item in outcome.items:
            item.entry = written.get(item.plan.id)
            if item.entry is None and item.is_stored:
                self.end(item.plan)
        for file in outcome.files:
            self._note_changes(file)

    def _alone(self, file: _File, plan: Plan) -> Draft:
        """The plan on the file as it was read, without the others."""
        if file.opened is None:
            return self._drafting.of_new(plan.request)
        return self.draft(plan, file.real, file.opened.source.whole())

    def _context(self, item: _Item, file: _File, base: Snapshot | None) -> ContextMatch:
        """The plan's status in the file as read, which is `base` if loaded."""
        plan, draft = item.plan, item.draft
        is_new = file.opened is None and plan.base_digest is None
        if is_new or plan.request.is_operation:
            return "exact"
        if digest_of(draft.diff) == plan.diff_digest:
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
            base, after = edits[0].draft.base, edits[-1].draft.after
            entry = edits[-1].entry
            for name in {item.plan.owner for item in edits}:
                changes = [
                    change_of(item.draft, own=item.plan.owner == name and not item.plan.edited_by)
                    for item in edits
                ]
                digest = entry.after if entry else ""
                note = note_of_change(name, file.real, base, after, digest, *changes)
                self._drafting.remember(after, file.real, [note])
        if moved is not None and moved.entry is not None:
            plan = moved.plan
            self._drafting.note_moved(plan.owner, file.real, plan.request, moved.draft.base)


def _nothing() -> None:
    """Do nothing: the plan is not stored."""


def _rank(item: _Item) -> int:
    return item.plan.request.rank


def _age(plan: Plan) -> Ticket:
    """The sort key of waiting plans."""
    return plan.created_ms, plan.id


def _created(item: _Item) -> int:
    return item.plan.created_ms
