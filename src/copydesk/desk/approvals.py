"""The gate of people before every write: whether one has to approve, and approved these bytes.

Invariant: where the policy asks for a person, nothing is written but what that person was shown:
the file, the bytes before and the bytes after are those of the approval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from copydesk.desk.backends.api import (
    REFUSING,
    Decision,
    Entry,
    Records,
    Version,
    encode,
)
from copydesk.desk.member import HumanReason, Member, Policy
from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Approval, Draft
from copydesk.errors import ApprovalRequired, HunkRejected, StateFailed
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import line_counts


def before_of(made: Revision, *, created: bool) -> str:
    """The digest before that an approval binds: SHA-256 in hex, empty for a new file."""
    return "" if created else made.base.digest


def after_of(made: Revision, to: RelPath | None) -> str:
    """The digest after that an approval binds, in hex.

    It is the SHA-256 of the bytes after; for a large file, which is not loaded whole, that of the
    digest before and the change, which together determine them. For a move, of the digest and `to`,
    the real path of the target; for a new mode, of the digest and both modes.
    """
    after = made.after
    if to is not None:
        return hashlib.sha256(f"{made.base.digest} {to}".encode()).hexdigest()
    if isinstance(made, Draft) and (modes := made.request.modes):
        said = f"{made.base.digest} {modes[0]:o} {modes[1]:o}"
        return hashlib.sha256(said.encode()).hexdigest()
    if isinstance(after, Snapshot):
        return after.digest
    return hashlib.sha256(made.base.digest.encode() + encode(made.change)).hexdigest()


def needs_person(member: Member, made: Revision, path: RelPath) -> bool:
    """Whether a person has to approve the change of the file, if it is written alone."""
    policy = member.policy
    if policy.asks_nobody:
        return False
    lines = max(line_counts(made.base, made.change)) if policy.has_limits else 0
    target = made.request.target if isinstance(made, Draft) else None
    paths = (path,) if target is None else (path, target)
    return any(policy.human_reason(one, lines) is not None for one in paths)


_OF_LATE_MS: Final = 60_000
_PAGE: Final = 50


def lapse(decisions: Records, approval: Decision, now_ms: int) -> None:
    """Withdraw an approval of outdated bytes, and notify owner and reviewers."""
    decisions.withdraw(approval)
    said = replace(
        approval,
        plan=(approval.plan[0], -approval.time_ms),  # however many notice it, one is reported
        verdict="lapsed",
        time_ms=now_ms,
        reason="the change is no longer the one that was approved: the file has changed",
        told=False,
    )
    while decisions.take(said).verdict != "lapsed":  # a comment has this key
        said = replace(said, plan=(said.plan[0], said.plan[1] - 1))


class Passed(NamedTuple):
    """Why a person had to approve an edit, if so; what people did to it; when it was decided on."""

    reason: HumanReason | None
    approval: Approval | None
    decided_ms: int


class Approving:
    """Passes edits that need no person's approval or have it.

    What a member may write itself is limited for a transaction with all that it wrote itself in the
    minute before, so that an edit in parts is still one.
    """

    def __init__(self, decisions: Records, journal: Records, clock: Callable[[], int]) -> None:
        self._decisions, self._journal, self._clock = decisions, journal, clock

    def check(
        self,
        member: Member,
        plan: Version | None,
        real: RelPath,
        made: Revision,
        *,
        created: bool,
        together: Sequence[tuple[RelPath, Revision]] = (),
        others: Sequence[RelPath] = (),
        to: RelPath | None = None,
        undoes: Iterable[int] = (),
        edited_by: str = "",
        is_first: bool = False,
    ) -> Passed:
        """Raise unless the change may be written now; return what it passed with.

        `plan` is None for a tool that writes at once; `together`: all changes of the transaction,
        by file, if there are several; `others`: further files whose text the change is made of;
        `to`: the file is moved there; `undoes`: the edits that the transaction undoes; `edited_by`:
        who changed the plan's text. `is_first`: if nobody has to be asked, no decision is looked
        for; if there is one, the record of the intent refuses, and the next attempt looks.
        Raises AccessDenied, HunkRejected, and ApprovalRequired if there is no decision, or one for
        other bytes (which is then withdrawn). If nobody has to be asked, it passes even when
        decisions cannot be read.
        """
        now = member.now()  # rights and policy may have changed meanwhile
        paths = (real, *others) if to is None else (real, *others, to)
        if len(paths) > 1 or now.permission is not member.permission:  # else it was asked before
            now.permission.check("write", *paths)
            # Every answer shows content, and a refusal of the target reveals what is there.
            now.permission.check("read", *(paths[1 + len(others) :] if created else paths))
        is_asked = not (member.policy.asks_nobody and now.policy.asks_nobody)
        decision: Decision | None = None
        if plan is not None and (is_asked or not is_first):
            try:
                decision = self._decisions.of(plan)
            except StateFailed:
                if is_asked:
                    raise
        if decision is not None and decision.verdict in REFUSING:
            raise HunkRejected(decision.plan[0], decision.by, decision.reason)
        reason: HumanReason | None = None
        if is_asked:
            policies = dict.fromkeys((member.policy, now.policy))
            reason = self._reason(
                member, policies, paths, others, together or ((real, made),), undoes
            )
        amended = (edited_by, plan[1]) if plan is not None and edited_by else ("", 0)
        is_approved = decision is not None and decision.verdict == "approved"
        if reason is not None and not is_approved:
            raise ApprovalRequired(reason, None if plan is None else plan[0])
        if decision is None or not is_approved:
            approval = Approval("", 0, "", "", *amended) if edited_by else None
            return Passed(reason, approval, 0 if decision is None else decision.time_ms)
        bound = decision.path, decision.before, decision.after
        if reason is not None and bound != (
            str(real),
            before_of(made, created=created),
            after_of(made, to),
        ):
            lapse(self._decisions, decision, self._clock())
            raise ApprovalRequired("drifted", decision.plan[0])
        approval = Approval(decision.by, decision.time_ms, *bound[1:], *amended)
        return Passed(reason, approval, decision.time_ms)

    def is_approved(
        self, plan: Version | None, real: RelPath, made: Revision, *, created: bool
    ) -> bool:
        """Whether a person has approved exactly these bytes of the plan."""
        decision = None if plan is None else self._decisions.of(plan)
        if decision is None or decision.verdict != "approved":
            return False
        bound = (decision.path, decision.before, decision.after)
        return bound == (str(real), before_of(made, created=created), after_of(made, None))

    def _reason(
        self,
        member: Member,
        policies: Iterable[Policy],
        paths: Sequence[RelPath],
        others: Sequence[RelPath],
        together: Sequence[tuple[RelPath, Revision]],
        undoes: Iterable[int],
    ) -> HumanReason | None:
        """Why a person has to approve the change of the paths; the first of the policies' reasons.

        That is of a transaction with all that the member wrote in the minute before.
        """
        asking = [policy for policy in policies if not policy.asks_nobody]
        lines, files = 0, set(others)
        if any(policy.has_limits for policy in asking):
            late = self._of_late(member.name, undoes)
            lines += sum(max(line_counts(one.base, one.change)) for _, one in together)
            lines += sum(max(one.lines) for one in late)
            files |= {path for path, _ in together} | {one.path for one in late}
        for policy, path in product(asking, paths):
            if (reason := policy.human_reason(path, lines, len(files))) is not None:
                return reason
        return None

    def _of_late(self, member: str, undoes: Iterable[int]) -> list[Entry]:
        """What the member wrote within a minute, unless a person approved it or it is undone."""
        since, before = self._clock() - _OF_LATE_MS, None
        found: list[Entry] = []
        while page := self._journal.entries(member=member, most=_PAGE, before=before):
            found += (one for one in page if one.time_ms > since and one.state != "failed")
            before = page[-1].edit_id if page[-1].time_ms > since else 0
        gone = {*undoes, *(one.undoes for one in found)}
        gone |= {one.edit_id for one in found if one.approval is not None and one.approval.by}
        return [one for one in found if one.edit_id not in gone]
