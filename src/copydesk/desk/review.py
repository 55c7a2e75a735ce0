"""Review: list pending plans, approve, reject, amend, split and apply them.

Invariants: an approval is for the bytes that were shown, and is refused if the file or the plan has
changed; of two decisions the first one counts; a decided plan does not change. The status of a plan
in its file, cached for each state of the file, is what a fresh check would give.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal, NamedTuple, TypeVar

from copydesk.desk.applying import Applying
from copydesk.desk.backends.api import DAY_MS, Decision, PlanVersion, Records, Verdict, version_of
from copydesk.desk.drafts import Drafting, Services, digest_of, made_at, signs_in
from copydesk.desk.gates import Edited, after_of, before_of, lapse, needs_person
from copydesk.desk.member import Member, authorized, may_read
from copydesk.desk.outcome import Applied, Rejected, Transacted, Withheld
from copydesk.edit.draft import (
    Draft,
    Plan,
    foot_span,
)
from copydesk.edit.kinds.base import Request, check_text
from copydesk.edit.kinds.lines import RangeEdit, range_edit_of
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    CheckFinding,
    ContentChanged,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    Refusal,
    StateFailed,
)
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet
from copydesk.text.diff import line_counts
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

State = Literal["exact", "drifted", "conflict"]
"""A plan's status in the current file: as shown to its owner, relocated to another
place or other line numbers, or not applicable."""

_MOST_STATES = 10_000

Stat = Callable[[RelPath], tuple[RelPath, Stamp]]
K = TypeVar("K")
V = TypeVar("V")

LONGEST_REASON = 4_000
"""The most characters of a comment, or of the reason for a rejection."""

RANGE_EDIT = "prepare_file_range_edit"
"""The tool recorded for split and replanned plans."""

_NEEDS_PERSON = "its own edits like this one are approved by a person"

DECISIONS_KEPT_MS = 7 * DAY_MS
"""How long a decision is kept after it was taken, and after its plan ended or expired."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending plan; `decision` if it is still valid; `state` is cached until the file changes."""

    plan: Plan
    decision: Decision | None
    _look: Callable[[Plan], State]

    @property
    def state(self) -> State:
        """The plan's status in the current file."""
        return self._look(self.plan)


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan on the current file, as shown to a person and bound by an approval.

    `before` and `after` are to be passed back with the approval. For a plan in `conflict` the draft
    is on the text it was planned on, `refusal` says why it cannot be made now, `now` is the file,
    if that is text, and both digests are empty. `signs` say why the new text may not be meant.
    """

    plan: Plan
    draft: Draft
    state: State
    before: str
    after: str
    decision: Decision | None = None
    refusal: Refusal | None = None
    checks: tuple[CheckFinding, ...] | None = None
    now: Snapshot | None = None
    signs: tuple[str, ...] = ()

    @property
    def diff(self) -> bytes:
        return self.draft.diff

    @property
    def seen(self) -> Seen:
        """The value that a reviewer sends back to prove what was shown."""
        return Seen(self.plan.id, self.before, self.after)


class Seen(NamedTuple):
    """A plan as a person saw it: its id and the two digests of `Shown`."""

    hunk_id: str
    before: str
    after: str


class Rights(NamedTuple):
    """Why a reviewer may not decide on a plan, approve it, or have it applied; None if it may."""

    decide: Refusal | None = None
    approve: Refusal | None = None
    apply: Refusal | None = None


class Review:
    """The reviewers' operations in one workspace. Thread-safe."""

    def __init__(self, services: Services, drafting: Drafting, applying: Applying) -> None:
        self._services, self._drafting, self._applying = services, drafting, applying
        self._states: dict[tuple[PlanVersion, RelPath, Stamp], State] = {}
        self._digests: dict[tuple[RelPath, Stamp], str] = {}

    def pending(self, reviewer: Member) -> tuple[Waiting, ...]:
        """The plans of all members on files that the reviewer may read, oldest first."""
        waiting = self._drafting.waiting(reviewer)
        paths = {path for plan in waiting for path in plan.request.paths}
        seen = {path for path in paths if may_read(self._services.files, reviewer, path)}
        plans = [plan for plan in waiting if seen.issuperset(plan.request.paths)]
        found: Mapping[PlanVersion, Decision] = {}
        with suppress(StateFailed):
            found = self._services.records.of_all([version_of(plan) for plan in plans])
        return tuple(
            Waiting(plan, self._standing(plan, found.get(version_of(plan))), self._state)
            for plan in plans
        )

    def states(self, waiting: Sequence[Waiting]) -> list[State]:
        """The plans' status in their current files; each file is looked at once."""
        stat = cache(self._services.files.stat)
        return [self._state(one.plan, stat) for one in waiting]

    def decision(self, plan: Plan) -> Decision | None:
        """The decision on a plan, for display: no outdated approval; None if unreadable."""
        with suppress(StateFailed):
            return self._standing(plan, self._services.records.of(version_of(plan)))
        return None

    def show(self, reviewer: Member, hunk_id: str) -> Shown:
        """The plan on the file now; raises InvalidHunkId, HunkNotFound, AccessDenied, others."""
        plan = self._plan(reviewer, hunk_id, "read")
        at, target = self._drafting.real(plan.request.path), plan.request.target
        try:
            draft = self._draft(plan, reviewer)
        except Refusal as refusal:
            planned = None if plan.request.in_notes else self._drafting.as_planned(plan, at)
            if planned is None:
                raise
            # A move and a mode read nothing of the file, which is shown all the same.
            reads = plan.request.reads != "nothing"
            request = plan.request if reads else Request(plan.request.path)
            now: Snapshot | None = None
            with suppress(Refusal):
                now = self._drafting.at_hand(reviewer, request, lambda text: text.whole())
            decision = self.decision(plan)
            return Shown(plan, planned, "conflict", "", "", decision, refusal, now=now)
        to = None if target is None else self._drafting.real(target)
        before, after = before_of(draft, created=draft.created), after_of(draft, to)
        decision = self._services.records.of(version_of(plan))
        bytes_shown = str(at), before, after
        if (
            decision is not None
            and decision.verdict == "approved"
            and (decision.path, decision.before, decision.after) != bytes_shown
        ):
            with self._applying.lock(plan):  # else the plan itself may be changing the file
                self._applying.check_waits(plan)
                lapse(self._services.records, decision, self._services.clock())
            decision = None
        state = _state_of(plan, draft)
        checks = self._services.checks.judge(*Edited.of_plan(at, draft))
        signs = signs_in(self._owner(plan), draft)
        return Shown(plan, draft, state, before, after, decision, checks=checks, signs=signs)

    def rights(self, reviewer: Member, shown: Shown, together: int = 1) -> Rights:
        """What the reviewer may do with a shown plan, among `together` plans applied together."""
        plan = shown.plan
        if (refused := _refusal(lambda: self._plan(reviewer, plan.id, "write"))) is not None:
            return Rights(refused, refused, refused)
        # One of its own could be one of any number of parts.
        most = sys.maxsize if plan.owner == reviewer.name else 0
        return Rights(
            None,
            _refusal(lambda: self._check_may_approve(reviewer, [shown], max(most, 1), most)),
            _refusal(lambda: self._check_may_approve(reviewer, [shown], together)),
        )

    def approve(self, reviewer: Member, hunk_id: str, before: str, after: str) -> Decision:
        """Approve the plan for the bytes that were shown, given by the digests of `Shown`.

        Raises ContentChanged if these are not the plan's current ones, AlreadyDecided if somebody
        decided first, AccessDenied if the reviewer would itself need approval for such an edit, and
        what `show` raises.
        """
        shown = self._as_seen(reviewer, Seen(hunk_id, before, after))
        if (refused := self.rights(reviewer, shown).approve) is not None:
            raise refused
        return self._take(reviewer, shown.plan, "approved", shown)

    def reject(
        self, reviewer: Member, hunk_id: str, reason: str, *, wants_changes: bool = False
    ) -> Decision:
        """Reject the plan with a reason, which its owner receives.

        `wants_changes` asks for a new plan with the same id. Raises AlreadyDecided if somebody
        decided first, InvalidArgs without a reason or for more than LONGEST_REASON.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        reason = _checked_reason("reason", reason)
        with suppress(Refusal):
            self.show(reviewer, hunk_id)  # withdraws an outdated approval
        verdict: Verdict = "changes_requested" if wants_changes else "rejected"
        decision = self._take(reviewer, plan, verdict, reason=reason)
        if not wants_changes:
            self._applying.note(plan, "rejected")
        return decision

    def comment(self, reviewer: Member, hunk_id: str, text: str, line: int = 0) -> Decision:
        """Comment on the plan; its owner receives the comment, nothing is decided.

        A positive `line` is a line of the text as it would be, 1-based; a negative one of the
        current text. Raises InvalidArgs for no text, for more than LONGEST_REASON and for no such
        line.
        """
        shown = self.show(reviewer, hunk_id)
        text = _checked_reason("text", text)
        side = shown.draft.after if line > 0 else shown.draft.base
        if abs(line) > side.line_count:
            raise InvalidArgs("line", "is not a line of the text")
        plan, line_text = shown.plan, f"{line:+}" if line else ""
        said = self._decided(reviewer, plan, "commented", after=line_text, reason=text)
        return noted(self._services.records, said)

    def comments(self, shown: Shown) -> tuple[Decision, ...]:
        """The comments on a plan and its earlier versions, and lapsed approvals."""
        return self._services.records.comments(shown.plan.id)

    def withdraw(self, reviewer: Member, hunk_id: str) -> None:
        """Withdraw one's own decision while the plan is pending; AlreadyDecided by another."""
        decision = self._services.records.of(version_of(self._plan(reviewer, hunk_id, "write")))
        if decision is None:
            return
        if decision.by != reviewer.name:
            raise AlreadyDecided(hunk_id, decision.by, decision.verdict)
        self._services.records.withdraw(decision)

    def reopen(self, reviewer: Member, plan: Plan) -> Plan:
        """Make an applied plan pending again after its edit was undone.

        It has to be decided on again; only the journal keeps the approval. Raises HunkNotFound if
        it was not written or is not undone, and AccessDenied.
        """
        self._check_may_decide(reviewer, plan)
        entry = self._services.records.of_hunk(plan.id)
        if entry is None or not self._services.records.undone_by(entry.edit_id):
            raise HunkNotFound(plan.id, "applied")
        now_ms = max(self._services.clock(), entry.time_ms + 1)
        until_ms = max(plan.expires_ms, now_ms + self._services.life_ms(needs_person=True))
        anew = replace(plan, created_ms=now_ms, expires_ms=until_ms, is_correction=False)
        decision = self._services.records.of(version_of(plan))
        if not self._services.records.reopen(anew):
            raise HunkNotFound(plan.id, "applied")
        if decision is not None:
            self._services.records.withdraw(decision)
        return anew

    def extend(self, reviewer: Member, hunk_id: str) -> Plan:
        """Extend the plan's lifetime to that of approval plans; decisions stay valid."""
        plan = self._plan(reviewer, hunk_id, "write")
        return self._applying.wait_until(
            plan, self._services.clock() + self._services.life_ms(needs_person=True)
        )

    def amend(self, reviewer: Member, hunk_id: str, new_content: str) -> Shown:
        """Change the plan's new text, which then needs approval; its owner is notified.

        Raises AlreadyDecided if it was decided on, InvalidArgs for a plan of several edits, and
        what the file refuses.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        check_text("new_content", new_content)
        amended = replace(plan, request=plan.request.with_text(new_content))
        return self._amend(reviewer, plan, lambda: self._drafted_anew(amended), plan.tool)

    def replan(
        self, reviewer: Member, hunk_id: str, digest: str, range_text: str, content: str
    ) -> Shown:
        """Replan lines of the file under the same id, if the file has this digest; like `amend`.

        Raises ContentChanged, or InvalidArgs for a plan of a whole file or blocks, or a bad text.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        check_text("content", content)
        if not plan.request.of_lines:
            raise InvalidArgs("hunk_id", "is not of lines of a file")
        edit = RangeEdit(plan.request.path, range_text, content)

        def make() -> Draft:
            base = self._drafting.at_hand(None, edit, lambda now: now.whole())
            if base.digest != digest:
                raise ContentChanged("the file or the plan changed since it was shown")
            return made_at(edit, base)

        return self._amend(reviewer, plan, make, _range_tool(plan))

    def split(self, reviewer: Member, hunk_id: str) -> tuple[Plan, ...]:
        """Split the plan into one for each region that it alters; its owner receives their ids.

        Raises AlreadyDecided if it was decided on; InvalidArgs for a plan of one region, of a file
        that is not loaded whole, and if the parts together would not give the same bytes.
        """
        plan = self._plan(reviewer, hunk_id, "write")
        with self._applying.lock(plan):
            self._applying.check_waits(plan)
            if plan.request.in_notes:
                raise InvalidArgs("hunk_id", "is a block diff, which is changed by its text")
            draft = self._drafted_anew(plan)
            base, path = draft.base, plan.request.path
            apart = draft.regions_apart
            if draft.created or len(apart) < 2 or not isinstance(base, Snapshot):
                raise InvalidArgs("hunk_id", "is of one region, which cannot be split")
            parts = [made_at(range_edit_of(path, base, region), base) for region in apart]
            edits = [edit for part in parts for edit in part.change.edits]
            if base.edited(ChangeSet.of(base.size, edits)) != draft.after:
                raise InvalidArgs("hunk_id", "cannot be split without changing other bytes")
            tool = _range_tool(plan)
            services, new = self._services, self._services.ids
            plans = [  # before the decision, which names their ids
                services.added(self._planned(plan, reviewer, part, tool, new())) for part in parts
            ]
            ending = plans
            try:
                self._take(reviewer, plan, "split", reason=", ".join(one.id for one in plans))
                ending = [plan]
            finally:
                for one in ending:
                    services.records.end(one.id, "discarded", services.clock())
        self._drafting.remember_planned(base, self._drafting.real(path))
        return tuple(plans)

    def apply(
        self, reviewer: Member, seen: Sequence[Seen]
    ) -> Applied | Rejected | Transacted | Withheld:
        """Approve plans as seen and write them at once, all or none, each as its owner.

        Raises what `approve` does, except for plans approved already; on failure the new approvals
        are withdrawn.
        """
        if not seen:
            raise InvalidArgs("hunk_ids", "must not be empty")
        if len({one.hunk_id for one in seen}) < len(seen):
            raise InvalidArgs("hunk_ids", "holds one twice")
        shown = [self._as_seen(reviewer, one) for one in seen]
        self._check_may_approve(reviewer, shown, len(shown))
        first, plans = shown[0].plan, tuple(each.plan for each in shown)
        outcome: Applied | Rejected | Transacted | Withheld
        with ExitStack() as unless_written:
            for each in shown:
                if each.decision is None or each.decision.verdict != "approved":
                    approved = self._take(reviewer, each.plan, "approved", each)
                    unless_written.callback(self._services.records.withdraw, approved)
            if len(plans) == 1:
                outcome = self._applying.write(self._owner(first), first)
            else:
                outcome = self._applying.write_all(plans, self._owner)
            if isinstance(outcome, Applied | Transacted):
                unless_written.pop_all()
        return outcome

    def news(self, member: Member, most: int = 20) -> tuple[tuple[Decision, bool], ...]:
        """Unreported decisions on the member's plans, and whether each is written.

        Besides them, all of its edits that were overwritten in files that it may read.
        """
        untold = self._services.records.untold(member.name)
        allows, ended = member.permission.allows_read, self._drafting.ended
        lost = [said for said in untold if said.verdict == "overwritten"]
        others = [said for said in untold if said not in lost][:most]
        written = [(said, ended(said.plan[0]) == "applied") for said in others]
        return (*written, *((said, False) for said in lost if allows(RelPath.parse(said.path))))

    def tell(self, decisions: Sequence[Decision]) -> None:
        """Mark the decisions as reported to their owners."""
        for decision in decisions:
            self._services.records.tell(decision)

    def _owner(self, plan: Plan) -> Member:
        return self._services.members(plan.owner, plan.toolset)

    def _plan(self, reviewer: Member, hunk_id: str, operation: Literal["read", "write"]) -> Plan:
        plan = self._drafting.plan(reviewer, hunk_id)
        for one in plan.request.paths:
            authorized(self._services.files, reviewer, one, "read")
        if operation == "write":
            self._check_may_decide(reviewer, plan)
        return plan

    def _check_may_decide(self, reviewer: Member, plan: Plan) -> None:
        """Raise AccessDenied unless the reviewer may write there without anyone's approval."""
        path = plan.request.path
        real = authorized(self._services.files, reviewer, path, "read")
        reviewer.permission.check("write", path, real)
        if plan.request.target is not None:
            authorized(self._services.files, reviewer, plan.request.target, "write")
        if reviewer.policy.human_reason(real, 0) is not None:
            raise AccessDenied("approve", _NEEDS_PERSON)

    def _check_may_approve(
        self, reviewer: Member, shown: Sequence[Shown], files: int, lines: int = 0
    ) -> None:
        """Raise AccessDenied if the reviewer would itself need approval for such an edit.

        It is one of all that is shown, of at least so many files and lines.
        """
        if reviewer.policy.asks_nobody:
            return
        lines = max(lines, sum(max(line_counts(o.draft.base, o.draft.change)) for o in shown))
        for plan in (one.plan for one in shown):
            paths = {*plan.request.paths}
            if plan.request.in_notes:
                paths |= {one.path for one in self._applying.blocks(plan, reviewer).documents}
            for path in paths:
                real = self._services.files.resolve(path)
                if reviewer.policy.human_reason(real, lines, max(files, len(paths))) is not None:
                    raise AccessDenied("approve", _NEEDS_PERSON)

    def _as_seen(self, reviewer: Member, seen: Seen) -> Shown:
        """The current plan; raises ContentChanged if it is not what was shown."""
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
        before, after = (shown.before, shown.after) if shown else ("", "")
        decision = self._decided(reviewer, plan, verdict, before, after, reason)
        if shown is not None and shown.decision is not None:
            raise AlreadyDecided(plan.id, shown.decision.by, shown.decision.verdict)
        stored = self._services.records.take(decision)
        if stored != decision:
            raise AlreadyDecided(plan.id, stored.by, stored.verdict)
        return stored

    def _decided(
        self,
        reviewer: Member,
        plan: Plan,
        verdict: Verdict,
        before: str = "",
        after: str = "",
        reason: str = "",
    ) -> Decision:
        """A decision of now, which is not stored yet; old ones are dropped."""
        now_ms = self._services.clock()
        self._services.records.forget(now_ms - DECISIONS_KEPT_MS)
        return Decision(
            version_of(plan),
            plan.owner,
            str(self._services.files.resolve(plan.request.path)),
            verdict,
            by=reviewer.name,
            time_ms=now_ms,
            before=before,
            after=after,
            reason=reason,
        )

    def _standing(self, plan: Plan, decision: Decision | None) -> Decision | None:
        """The decision, unless it is an approval of other bytes than those that are there."""
        if decision is None or decision.verdict != "approved":
            return decision
        try:
            digest = self._digest(plan)
        except FileNotFound:
            digest = ""
        except Refusal:
            return None
        return decision if digest == decision.before else None

    def _state(self, plan: Plan, stat: Stat | None = None) -> State:
        """The plan's current status, cached for each state of its file."""
        if plan.request.in_notes:  # notes are read each time
            return self._judged(plan)
        try:
            real, stamp = (stat or self._services.files.stat)(plan.request.path)
            if plan.request.target is not None:
                self._services.files.check_new(plan.request.target, stamp)
        except FileNotFound:
            return "exact" if plan.base_digest is None else "conflict"
        except Refusal:
            return "conflict"
        key = (version_of(plan), real, stamp)
        return _known(self._states, key, stamp, lambda: self._judged(plan))

    def _judged(self, plan: Plan) -> State:
        try:
            is_base = not plan.request.in_notes and self._digest(plan) == plan.base_digest
            return "exact" if is_base else _state_of(plan, self._draft(plan))
        except Refusal:
            return "conflict"

    def _digest(self, plan: Plan) -> str:
        """The SHA-256 of the plan's current file; raises FileNotFound and others."""
        if plan.request.in_notes:
            return self._applying.blocks(plan).base.digest
        real, stamp = self._services.files.stat(plan.request.path)
        at_hand = partial(self._drafting.at_hand, None, plan.request)
        return _known(self._digests, (real, stamp), stamp, lambda: at_hand(lambda now: now.digest))

    def _amend(self, reviewer: Member, plan: Plan, make: Callable[[], Draft], tool: str) -> Shown:
        """Replace the plan by what `make` drafts under its lock, and decide that it was amended."""
        with self._applying.lock(plan):
            self._applying.check_waits(plan)
            draft = make()
            amended = self._planned(plan, reviewer, draft, tool, plan.id)
            self._take(reviewer, plan, "amended")
            self._services.records.put(amended)
        self._applying.drafts.keep(amended, draft)
        self._drafting.remember_planned(draft.base, self._drafting.real(amended.request.path))
        return self.show(reviewer, plan.id)

    def _planned(self, plan: Plan, reviewer: Member, draft: Draft, tool: str, hunk_id: str) -> Plan:
        now_ms = max(
            self._services.clock(), plan.created_ms + 1
        )  # a decided version stays another plan
        asks = needs_person(self._owner(plan), draft, self._drafting.real(draft.request.path))
        return replace(
            plan,
            id=hunk_id,
            tool=tool,
            request=draft.request,
            place=draft.place,
            action=draft.action,
            base_digest=None if draft.created else draft.base.digest,
            diff_digest=digest_of(draft.diff),
            created_ms=now_ms,
            expires_ms=max(plan.expires_ms, now_ms + self._services.life_ms(needs_person=asks)),
            span=foot_span(draft.base, draft.place),
            edited_by=reviewer.name,
            blocks=draft.reads,
        )

    def _drafted_anew(self, plan: Plan) -> Draft:
        """The plan's edit, for another version of the plan."""
        if plan.base_digest is None and not plan.request.in_notes:
            return self._drafting.of_new(plan.request)
        return self._draft(replace(plan, blocks=None))

    def _draft(self, plan: Plan, reviewer: Member | None = None) -> Draft:
        """The plan's edit on what is there now; a reviewer has to be allowed to read that."""
        request = plan.request
        if request.in_notes:
            return self._applying.blocks(plan, reviewer)
        real = self._services.files.resolve(request.path)
        try:
            return self._drafting.at_hand(
                reviewer, request, partial(self._applying.draft, plan, real)
            )
        except FileNotFound:
            if plan.base_digest is not None:
                raise
            return self._drafting.of_new(request)


def noted(decisions: Records, said: Decision) -> Decision:
    """Store one of many decisions under a key, by its time, or the next one that is free."""
    said = replace(said, plan=(said.plan[0], -said.time_ms))
    while decisions.take(said) != said:  # another one in the same millisecond
        said = replace(said, plan=(said.plan[0], said.plan[1] - 1))
    return said


def _checked_reason(argument: str, text: str) -> str:
    """Return a person's text, stripped; InvalidArgs if it is empty or too long."""
    check_text(argument, text)
    text = text.strip()
    if not text:
        raise InvalidArgs(argument, "must not be empty")
    if len(text) > LONGEST_REASON:
        raise InvalidArgs(argument, f"has more than {LONGEST_REASON} characters")
    return text


def _refusal(check: Callable[[], object]) -> Refusal | None:
    try:
        check()
    except Refusal as refusal:
        return refusal
    return None


def _state_of(plan: Plan, draft: Draft) -> State:
    return "exact" if digest_of(draft.diff) == plan.diff_digest else "drifted"


def _range_tool(plan: Plan) -> str:
    """The tool that replaces lines, of the plan's toolset."""
    return plan.tool.replace(plan.tool.removeprefix("team_mgmt_"), RANGE_EDIT)


def _known(known: dict[K, V], key: K, stamp: Stamp, make: Callable[[], V]) -> V:
    """What is known of a file in this state; it is made, and kept if the state is settled."""
    if (value := known.get(key)) is None:
        value = make()
        if stamp.settled:  # else it may change without another stamp
            if len(known) >= _MOST_STATES:
                known.clear()
            known[key] = value
    return value
