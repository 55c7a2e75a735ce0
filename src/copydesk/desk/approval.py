"""The gate before every write: what a person has to see is not written before.

Invariant: where the policy asks for a person, nothing is written but what that person was
shown: the file, the bytes before and the bytes after are those of the approval.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Final

from copydesk.desk.backends.api import REFUSING, Decision, Decisions, Version
from copydesk.desk.backends.codec import encode
from copydesk.desk.member import Member, Why
from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Approval, Draft
from copydesk.edit.request import ChangeMode, MoveFile
from copydesk.errors import ApprovalRequired, HunkRejected, StateFailed
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import line_counts


def before_of(made: Revision, *, created: bool) -> str:
    """What an approval binds of the file as it is: its SHA-256 in hex, empty for a new file."""
    return "" if created else made.base.digest


def after_of(made: Revision, to: RelPath | None) -> str:
    """What an approval binds of the file as it would be, in hex.

    The SHA-256 of the bytes after; of a large file, which is not held whole, that
    of the digest before and the change, which together make them. Of a move, of the digest
    and `to`, the real path that it leads to; of another mode, of the digest and both modes.
    """
    after = made.after
    if to is not None:
        return hashlib.sha256(f"{made.base.digest} {to}".encode()).hexdigest()
    if isinstance(made, Draft) and isinstance(made.request, ChangeMode):
        modes = f"{made.request.mode:o} {made.request.wanted:o}"
        return hashlib.sha256(f"{made.base.digest} {modes}".encode()).hexdigest()
    if isinstance(after, Snapshot):
        return after.digest
    return hashlib.sha256(made.base.digest.encode() + encode(made.change)).hexdigest()


def needs_person(member: Member, made: Revision, path: RelPath) -> bool:
    """Whether a person has to approve the change of the file, written by itself."""
    policy = member.policy
    if policy.asks_nobody:
        return False
    lines = 0
    if policy.most_lines is not None:
        lines = max(line_counts(made.base, made.change))
    request = made.request if isinstance(made, Draft) else None
    paths = (path, request.to) if isinstance(request, MoveFile) else (path,)
    return any(policy.why_human(one, lines) is not None for one in paths)


_MOST_PASSED: Final = 1_000


def lapse(decisions: Decisions, approval: Decision, now_ms: int) -> None:
    """Withdraw an approval of what is there no more, and have its owner and reviewers told."""
    decisions.withdraw(approval)
    said = replace(
        approval,
        plan=(approval.plan[0], -approval.time_ms),  # however many see it, it is told once
        verdict="lapsed",
        time_ms=now_ms,
        reason="the change is no longer the one that was approved: the file has changed",
        told=False,
    )
    while decisions.take(said).verdict != "lapsed":  # a comment of that moment
        said = replace(said, plan=(said.plan[0], said.plan[1] - 1))


class Approving:
    """Lets pass what its member may approve, or what a person has approved."""

    def __init__(self, decisions: Decisions, clock: Callable[[], int]) -> None:
        self._decisions, self._clock = decisions, clock
        self._passed: OrderedDict[Version, Decision | None] = OrderedDict()
        self._lock = Lock()

    def check(
        self,
        member: Member,
        plan: Version | None,
        real: RelPath,
        made: Revision,
        *,
        created: bool,
        files: int = 1,
        others: Sequence[RelPath] = (),
        to: RelPath | None = None,
    ) -> Why | None:
        """Raise unless the change may be written now; else why a person had to approve it.

        `plan` is None for a tool that writes at once; `files`: so many are written together;
        `others`: the change is one of these files' texts; `to`: the file is moved there. Raises
        AccessDenied, HunkRejected, and ApprovalRequired where there is no decision or one for other
        bytes (which is then forgotten). If nobody has to be asked it passes though decisions cannot
        be read.
        """
        decision = self._check(member, plan, real, made, created, files, others, to)
        if plan is not None:
            with self._lock:  # its entry in the journal is made next
                self._passed[plan] = decision[1]
                if len(self._passed) > _MOST_PASSED:
                    self._passed.popitem(last=False)
        return decision[0]

    def approval(self, plan: Version | None, amended_by: str) -> Approval | None:
        """What people did to a plan that is written now; None when nobody did anything."""
        if plan is None:
            return None
        with self._lock:
            is_known, decision = plan in self._passed, self._passed.pop(plan, None)
        if not is_known:
            with suppress(StateFailed):
                decision = self._decisions.of(plan)
        amended = (amended_by, plan[1]) if amended_by else ("", 0)
        if decision is None or decision.verdict != "approved":
            return Approval("", 0, "", "", *amended) if amended_by else None
        bound = decision.before, decision.after
        return Approval(decision.by, decision.time_ms, *bound, *amended)

    def is_approved(
        self, plan: Version | None, real: RelPath, made: Revision, *, created: bool
    ) -> bool:
        """Whether a person has approved these very bytes of the plan."""
        decision = None if plan is None else self._decisions.of(plan)
        if decision is None or decision.verdict != "approved":
            return False
        bound = (decision.path, decision.before, decision.after)
        return bound == (str(real), before_of(made, created=created), after_of(made, None))

    def _check(
        self,
        member: Member,
        plan: Version | None,
        real: RelPath,
        made: Revision,
        created: bool,
        files: int,
        others: Sequence[RelPath],
        to: RelPath | None,
    ) -> tuple[Why | None, Decision | None]:
        now = member.now()  # rights and policy may have been taken away while it waited
        now.permission.check("write", real, *others)
        if not created:
            now.permission.check("read", real, *others)  # every answer shows content
        if to is not None:
            now.permission.check("write", to)
            now.permission.check("read", to)  # a refusal tells what stands there
            others = *others, to
        policies = [one.policy for one in (member, now) if not one.policy.asks_nobody]
        try:
            decision = None if plan is None else self._decisions.of(plan)
        except StateFailed:
            if policies:
                raise
            decision = None
        if decision is not None and decision.verdict in REFUSING:
            raise HunkRejected(decision.plan[0], decision.by, decision.reason)
        if not policies:
            return None, decision
        lines = 0
        if any(policy.most_lines is not None for policy in policies):
            lines = max(line_counts(made.base, made.change))
        why: Why | None = None
        for policy in policies:
            for path in (real, *others):
                why = why or policy.why_human(path, lines, files)
        if why is None:
            return None, decision
        if plan is None:
            raise ApprovalRequired(why)
        if decision is None or decision.verdict != "approved":
            raise ApprovalRequired(why, plan[0])
        bound = (decision.path, decision.before, decision.after)
        if bound != (str(real), before_of(made, created=created), after_of(made, to)):
            lapse(self._decisions, decision, self._clock())
            raise ApprovalRequired("drifted", plan[0])
        return why, decision
