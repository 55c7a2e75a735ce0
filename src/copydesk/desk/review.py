"""The sentences of a person who looks at plans: see what waits, approve, reject, write.

What lives here: what a reviewer is shown, and what is bound to a decision. What
must not: the gate before the write (`approving`), other text for a plan
(`amending`), pages, words. Invariants: an approval is for the bytes that were
shown, and is refused when the file or the plan has moved on; of two that decide
the first one stands, whatever the processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from copydesk.desk.amending import Amending, check_text
from copydesk.desk.applying import Applying, digest_of
from copydesk.desk.approving import after_of, before_of
from copydesk.desk.decisions import Decision, Verdict, version_of
from copydesk.desk.drafting import Drafting
from copydesk.desk.member import Member
from copydesk.desk.outcome import Applied, Rejected, Transacted, Withheld
from copydesk.desk.seeing import authorized, may_read
from copydesk.desk.setting import Setting
from copydesk.desk.standing import Standing, State
from copydesk.desk.transaction import Transactions
from copydesk.edit.draft import Draft, compose
from copydesk.edit.plan import Plan, checked_id
from copydesk.edit.request import BlockDiff
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    ContentChanged,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.text.unified import line_counts

_NEEDS_PERSON = "its own edits like this one are approved by a person"

REMEMBERED_MS = 7 * 24 * 3_600_000
"""So long a decision is known; plans do not wait that long."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A plan that waits. `decision` is the one that stands; None when it is to be taken.

    `state` is looked up when it is asked for, and again only when the file has changed.
    """

    plan: Plan
    decision: Decision | None
    _look: Callable[[Plan], State]

    @property
    def state(self) -> State:
        """How the plan stands in the file as it is now."""
        return self._look(self.plan)


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan on the file as it is now: what a person sees, and what an approval binds.

    `before` and `after` are to be given back with the approval. Of a plan in
    `conflict` the draft is that on the text it was planned on, `refusal` says why
    it cannot be made now, and both digests are empty.
    """

    plan: Plan
    draft: Draft
    state: State
    before: str
    after: str
    decision: Decision | None = None
    refusal: Refusal | None = None

    @property
    def diff(self) -> bytes:
        """The unified diff, git-style."""
        return self.draft.diff


class Seen(NamedTuple):
    """A plan as a person saw it: the two digests that `Shown` had."""

    hunk_id: str
    before: str
    after: str


class Review:
    """What the people who decide on plans of one workspace can do. Safe for many threads."""

    def __init__(
        self,
        setting: Setting,
        drafting: Drafting,
        applying: Applying,
        transactions: Transactions,
    ) -> None:
        self._set, self._drafting = setting, drafting
        self._applying, self._transactions = applying, transactions
        self._standing = Standing(setting, drafting, applying)
        self._amending = Amending(setting, drafting, applying)

    def pending(self, reviewer: Member) -> tuple[Waiting, ...]:
        """The plans of all members on files that the reviewer may read, the oldest first."""
        files = self._set.files
        plans = self._set.registry.waiting(self._set.clock())
        return tuple(
            Waiting(plan, self._standing.decision(plan), self._standing.state)
            for plan in plans
            if may_read(files, reviewer, plan.request.path)
        )

    def decision(self, plan: Plan) -> Decision | None:
        """The decision on a plan that stands; None when it is to be taken."""
        return self._standing.decision(plan)

    def show(self, reviewer: Member, hunk_id: str) -> Shown:
        """The plan on the file as it is now; raises InvalidHunkId, HunkNotFound, AccessDenied.

        Also the refusal of the file, when the plan cannot be made on it and the text
        that it was planned on is not remembered.
        """
        plan = self._plan(reviewer, hunk_id, "read")
        try:
            draft = self._draft(reviewer, plan)
        except Refusal as refusal:
            planned = self._as_planned(plan)
            if planned is None:
                raise
            decision = self._standing.decision(plan)
            return Shown(plan, planned, "conflict", "", "", decision, refusal)
        is_exact = digest_of(draft.diff) == plan.diff_digest
        before, after = before_of(draft, created=draft.created), after_of(draft)
        decision = self._set.decisions.of(version_of(plan))
        if decision is not None and decision.verdict == "approved":
            real = str(self._drafting.real(plan.request.path))
            if (decision.path, decision.before, decision.after) != (real, before, after):
                self._set.decisions.withdraw(decision)
                decision = None
        return Shown(plan, draft, "exact" if is_exact else "drifted", before, after, decision)

    def approve(self, reviewer: Member, hunk_id: str, before: str, after: str) -> Decision:
        """Approve the plan for the bytes that were shown, as `Shown` has their digests.

        Raises ContentChanged when they are not those of the plan as it is now,
        AlreadyDecided when somebody was first, AccessDenied when the reviewer's own
        edits like it are approved by a person, and what `show` raises.
        """
        shown = self._as_seen(reviewer, Seen(hunk_id, before, after))
        is_own = shown.plan.owner == reviewer.name  # who could write it with any number of others
        self._check_may_approve(reviewer, shown, sys.maxsize if is_own else 1)
        return self._take(reviewer, shown.plan, "approved", shown)

    def reject(self, reviewer: Member, hunk_id: str, reason: str) -> Decision:
        """Say no to the plan, and why; it is not written, and its owner is told.

        Raises AlreadyDecided when somebody was first, InvalidArgs without a reason.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        if not reason.strip():
            raise InvalidArgs("reason", "must not be empty")
        check_text("reason", reason)
        with suppress(Refusal):
            self.show(reviewer, hunk_id)  # an approval of what is there no more is withdrawn
        decision = self._take(reviewer, plan, "rejected", reason=reason.strip())
        self._applying.note(plan, "rejected")
        return decision

    def withdraw(self, reviewer: Member, hunk_id: str) -> None:
        """Take one's own decision back, while the plan waits; it is to be decided on anew.

        Raises AlreadyDecided when the decision is another's.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        decision = self._set.decisions.of(version_of(plan))
        if decision is None:
            return
        if decision.by != reviewer.name:
            raise AlreadyDecided(hunk_id, decision.by, decision.verdict)
        self._set.decisions.withdraw(decision)

    def amend(self, reviewer: Member, hunk_id: str, new_content: str) -> Shown:
        """Give the plan another new text; it is to be approved then, and its owner is told.

        Raises AlreadyDecided when it was decided on, InvalidArgs for a plan of several
        edits, and what the file refuses.
        """
        plan = self._plan(reviewer, hunk_id, "write")

        def decide() -> None:
            self._take(reviewer, plan, "amended")

        self._amending.amend(plan, reviewer.name, new_content, decide)
        return self.show(reviewer, hunk_id)

    def split(self, reviewer: Member, hunk_id: str) -> tuple[Plan, ...]:
        """Make a plan of each region that the plan alters; its owner is told their ids.

        Raises AlreadyDecided when it was decided on, InvalidArgs when there is nothing
        to split.
        """
        plan = self._plan(reviewer, hunk_id, "write")

        def decide(ids: str) -> None:
            self._take(reviewer, plan, "split", reason=ids)

        return self._amending.split(plan, reviewer.name, decide)

    def apply(
        self, reviewer: Member, seen: Sequence[Seen]
    ) -> Applied | Rejected | Transacted | Withheld:
        """Approve the plans as they were seen and write them at once, each as its owner.

        Several are written all or none. Raises what `approve` raises, but not for a
        plan that is approved for these bytes already; when nothing is written, the
        approvals that this has given are taken back.
        """
        if not seen:
            raise InvalidArgs("hunk_ids", "must not be empty")
        if len({one.hunk_id for one in seen}) < len(seen):
            raise InvalidArgs("hunk_ids", "holds one twice")
        shown = [self._as_seen(reviewer, one) for one in seen]
        for one in shown:
            self._check_may_approve(reviewer, one, len(shown))
        taken: list[Decision] = []
        done = False
        try:
            for one in shown:
                if one.decision is None or one.decision.verdict != "approved":
                    taken.append(self._take(reviewer, one.plan, "approved", one))
            outcome = self._written(tuple(one.plan for one in shown))
            done = isinstance(outcome, Applied | Transacted)
        finally:
            if not done:
                for decision in taken:
                    self._set.decisions.withdraw(decision)
        return outcome

    def news(self, member: Member, most: int = 20) -> tuple[tuple[Decision, bool], ...]:
        """The decisions on the member's plans that it has not heard of, the oldest first.

        With each, whether the plan is written already.
        """
        found = self._set.decisions.untold(member.name)[:most]
        return tuple((decision, self._is_written(decision)) for decision in found)

    def tell(self, decisions: Sequence[Decision]) -> None:
        """Their owners have heard of the decisions."""
        for decision in decisions:
            self._set.decisions.tell(decision)

    def _is_written(self, decision: Decision) -> bool:
        try:
            self._set.registry.get(decision.plan[0], self._set.clock())
        except HunkNotFound as ended:
            return ended.reason == "applied"
        return False

    def _written(self, plans: tuple[Plan, ...]) -> Applied | Rejected | Transacted | Withheld:
        if len(plans) == 1:
            return self._applying.write(self._owner(plans[0]), plans[0])
        return self._transactions.write(plans, self._owner)

    def _owner(self, plan: Plan) -> Member:
        return self._set.members(plan.owner, plan.toolset)

    def _plan(self, reviewer: Member, hunk_id: str, operation: Literal["read", "write"]) -> Plan:
        """The plan, which the reviewer may read, or decide on."""
        plan = self._set.registry.get(checked_id(hunk_id), self._set.clock())
        path = plan.request.path
        real = authorized(self._set.files, reviewer, path, "read")
        if operation == "write":
            reviewer.permission.check("write", path, real)
            if reviewer.policy.why_human(real, 0) is not None:
                raise AccessDenied("approve", _NEEDS_PERSON)
        return plan

    def _check_may_approve(self, reviewer: Member, shown: Shown, files: int) -> None:
        """Raise AccessDenied when the reviewer would itself need a person for such an edit."""
        if reviewer.policy.asks_nobody:
            return
        plan = shown.plan
        lines = max(line_counts(shown.draft.base, shown.draft.change))
        paths = {plan.request.path}
        if isinstance(plan.request, BlockDiff):
            paths |= {one.path for one in self._applying.blocks(plan, reviewer).documents}
        for path in paths:
            real = self._set.files.resolve(path)
            if reviewer.policy.why_human(real, lines, max(files, len(paths))) is not None:
                raise AccessDenied("approve", _NEEDS_PERSON)

    def _as_seen(self, reviewer: Member, seen: Seen) -> Shown:
        """The plan as it is now, which is what was seen; raises ContentChanged."""
        self._plan(reviewer, seen.hunk_id, "write")
        shown = self.show(reviewer, seen.hunk_id)
        if shown.refusal is not None:
            raise shown.refusal
        if (shown.before, shown.after) != (seen.before, seen.after):
            raise ContentChanged("the file or the plan changed since it was shown")
        return shown

    def _take(
        self,
        reviewer: Member,
        plan: Plan,
        verdict: Verdict,
        shown: Shown | None = None,
        reason: str = "",
    ) -> Decision:
        """Decide, if nobody has."""
        now_ms = self._set.clock()
        decision = Decision(
            plan=version_of(plan),
            owner=plan.owner,
            path=str(self._set.files.resolve(plan.request.path)),
            verdict=verdict,
            by=reviewer.name,
            time_ms=now_ms,
            before=shown.before if shown else "",
            after=shown.after if shown else "",
            reason=reason,
        )
        self._set.decisions.forget(now_ms - REMEMBERED_MS)
        if shown is not None and shown.decision is not None:
            raise AlreadyDecided(plan.id, shown.decision.by, shown.decision.verdict)
        found = self._set.decisions.take(decision)
        if found != decision:
            raise AlreadyDecided(plan.id, found.by, found.verdict)
        return found

    def _draft(self, reviewer: Member, plan: Plan) -> Draft:
        """The plan's edit on the file as it is."""
        if isinstance(plan.request, BlockDiff):
            return self._applying.blocks(plan, reviewer)
        real = self._set.files.resolve(plan.request.path)
        try:
            return self._drafting.at_hand(
                reviewer, plan.request, lambda now: self._applying.draft(plan, real, now)
            )
        except FileNotFound:
            if plan.base_digest is not None:
                raise
            return self._drafting.of_new(plan.request)

    def _as_planned(self, plan: Plan) -> Draft | None:
        """The plan as its owner was shown it; None when that text is not remembered."""
        if isinstance(plan.request, BlockDiff):
            return None
        if plan.base_digest is None:
            return self._drafting.of_new(plan.request)
        named = self._set.named(self._drafting.real(plan.request.path))
        base = self._set.bases.find(plan.base_digest, named, None)
        return None if base is None else compose(plan.request, base, plan.place)
