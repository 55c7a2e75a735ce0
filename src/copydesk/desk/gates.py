"""The gates before every write: people who have to approve it, parsers and commands that check it.

Invariants: where the policy asks for a person, nothing is written but what that person was shown:
the file, the bytes before and the bytes after are those of the approval. Of the findings of checks
only one that the old text does not have counts; a text is checked once, and again only when it
changes; what cannot be checked is reported, and refused only if the check is required.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, product
from threading import Lock
from typing import Final, NamedTuple

from copydesk.desk.backends.api import REFUSING, Decision, Entry, PlanVersion, Records, encode
from copydesk.desk.member import HumanReason, Member, Policy
from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Approval, Draft
from copydesk.errors import (
    ApprovalRequired,
    CheckFailed,
    CheckFinding,
    HunkRejected,
    StateFailed,
)
from copydesk.store.checks import (
    MOST_BYTES,
    SYNTAX,
    Commands,
    Diagnostic,
    NotRun,
    Rule,
    may_be_other,
    parses,
    suffix_of,
    syntax,
)
from copydesk.store.threads import held_at_fork
from copydesk.text.change import ChangeSet
from copydesk.text.diff import line_counts, regions
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

# People


def before_of(made: Revision, *, created: bool) -> str:
    """The digest before that an approval binds: SHA-256 in hex, empty for a new file."""
    return "" if created else made.base.digest


def after_of(made: Revision, to: RelPath | None) -> str:
    """The digest after that an approval binds, in hex.

    It is the SHA-256 of the bytes after; for a large file, which is not loaded whole, that of the
    digest before and the change, which together determine them. For a move, of the digest and `to`,
    the real path of the target; for a new mode, of the digest and both modes.
    """
    before = made.base.digest
    if to is not None:
        bound = f"{before} {to}".encode()
    elif isinstance(made, Draft) and (modes := made.request.modes):
        bound = f"{before} {modes[0]:o} {modes[1]:o}".encode()
    elif isinstance(made.after, Snapshot):
        return made.after.digest
    else:
        bound = before.encode() + encode(made.change)
    return hashlib.sha256(bound).hexdigest()


def needs_person(member: Member, made: Revision, path: RelPath) -> bool:
    """Whether a person has to approve the change of the file, if it is written alone."""
    policy = member.policy
    if policy.asks_nobody:
        return False
    lines = max(line_counts(made.base, made.change)) if policy.has_limits else 0
    target = made.request.target if isinstance(made, Draft) else None
    paths = (path,) if target is None else (path, target)
    return any(policy.human_reason(at, lines) is not None for at in paths)


_OF_LATE_MS: Final = 60_000
_PAGE: Final = 50


def lapse(decisions: Records, approval: Decision, now_ms: int) -> None:
    """Withdraw an approval of outdated bytes, and notify owner and reviewers."""
    decisions.withdraw(approval)
    lapsed = replace(
        approval,
        # Negative: see Decision. However many notice it, one is reported.
        plan=(approval.plan[0], -approval.time_ms),
        verdict="lapsed",
        time_ms=now_ms,
        reason="the change is no longer the one that was approved: the file has changed",
        told=False,
    )
    while decisions.take(lapsed).verdict != "lapsed":  # a comment has this key
        lapsed = replace(lapsed, plan=(lapsed.plan[0], lapsed.plan[1] - 1))


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

    def __init__(self, records: Records, clock: Callable[[], int]) -> None:
        self._records, self._clock = records, clock

    def check(
        self,
        member: Member,
        plan: PlanVersion | None,
        real: RelPath,
        made: Revision,
        *,
        created: bool,
        together: Sequence[tuple[RelPath, Revision]] = (),
        others: Sequence[RelPath] = (),
        to: RelPath | None = None,
        undoes: Iterable[int] = (),
        edited_by: str = "",
        is_first_attempt: bool = False,
    ) -> Passed:
        """Raise unless the change may be written now; return what it passed with.

        `plan` is None for a tool that writes at once; `together`: all changes of the transaction,
        by file, if there are several; `others`: further files whose text the change is made of;
        `to`: the file is moved there; `undoes`: the edits that the transaction undoes; `edited_by`:
        who changed the plan's text. `is_first_attempt`: if nobody has to be asked, no decision is
        looked for; if there is one, the record of the intent refuses, and the next attempt looks.
        Raises AccessDenied, HunkRejected, and ApprovalRequired if there is no decision, or one for
        other bytes (which is then withdrawn). If nobody has to be asked, it passes even when
        decisions cannot be read.
        """
        now = member.now()  # rights and policy may have changed meanwhile
        paths = (real, *others) if to is None else (real, *others, to)
        if len(paths) > 1 or now.permission is not member.permission:  # else it was asked before
            now.permission.check("write", *paths)
            # Every answer shows content, and a refusal of the target reveals what is there.
            target = () if to is None else (to,)
            now.permission.check("read", *(target if created else paths))
        is_asked = not (member.policy.asks_nobody and (now is member or now.policy.asks_nobody))
        decision: Decision | None = None
        if plan is not None and (is_asked or not is_first_attempt):
            try:
                decision = self._records.of(plan)
            except StateFailed:
                if is_asked:
                    raise
        if decision is not None and decision.verdict in REFUSING:
            raise HunkRejected(decision.plan[0], decision.by, decision.reason)
        reason: HumanReason | None = None
        if is_asked:
            changes = together or ((real, made),)
            reason = self._reason(member, now.policy, paths, others, changes, undoes)
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
            lapse(self._records, decision, self._clock())
            raise ApprovalRequired("drifted", decision.plan[0])
        approval = Approval(decision.by, decision.time_ms, *bound[1:], *amended)
        return Passed(reason, approval, decision.time_ms)

    def is_approved(
        self, plan: PlanVersion | None, real: RelPath, made: Revision, *, created: bool
    ) -> bool:
        """Whether a person has approved exactly these bytes of the plan."""
        decision = None if plan is None else self._records.of(plan)
        if decision is None or decision.verdict != "approved":
            return False
        bound = decision.path, decision.before, decision.after
        return bound == (str(real), before_of(made, created=created), after_of(made, None))

    def _reason(
        self,
        member: Member,
        policy: Policy,
        paths: Sequence[RelPath],
        others: Sequence[RelPath],
        together: Sequence[tuple[RelPath, Revision]],
        undoes: Iterable[int],
    ) -> HumanReason | None:
        """Why a person has to approve the change of the paths; by the policy of then or of now.

        Lines and files are counted over the whole transaction and over what the member wrote in
        the minute before.
        """
        asking = [one for one in dict.fromkeys((member.policy, policy)) if not one.asks_nobody]
        lines, files = 0, set(others)
        if any(one.has_limits for one in asking):
            late = self._of_late(member.name, undoes)
            now = sum(max(line_counts(one.base, one.change)) for _, one in together)
            lines = now + sum(max(one.lines) for one in late)
            files |= {path for path, _ in together} | {one.path for one in late}
        for asked, path in product(asking, paths):
            if (reason := asked.human_reason(path, lines, len(files))) is not None:
                return reason
        return None

    def _of_late(self, member: str, undoes: Iterable[int]) -> list[Entry]:
        """What the member wrote within a minute, unless a person approved it or it is undone."""
        since, before = self._clock() - _OF_LATE_MS, None
        entries: list[Entry] = []
        while page := self._records.entries(member=member, most=_PAGE, before=before):
            entries += (
                entry for entry in page if entry.time_ms > since and entry.state != "failed"
            )
            before = page[-1].edit_id if page[-1].time_ms > since else 0
        approved = (entry.edit_id for entry in entries if entry.approval and entry.approval.by)
        passed = {*undoes, *(entry.undoes for entry in entries), *approved}
        return [entry for entry in entries if entry.edit_id not in passed]


# Checks

MOST_TOLD = 10
"""The most findings reported per check."""

_MOST_KEPT = 512

Findings = tuple[CheckFinding, ...]


@dataclass(frozen=True, slots=True)
class Edited:
    """A file to be written: its path as named, its real path, and both texts."""

    path: RelPath
    real: RelPath
    base: Snapshot
    change: ChangeSet
    created: bool
    text: Callable[[], Snapshot]

    @staticmethod
    def of(path: RelPath, real: RelPath, *made: Revision, created: bool) -> Edited | None:
        """The result of revisions in sequence; None for a file that is not loaded whole."""
        base = made[0].base if made else None
        if not isinstance(base, Snapshot):
            return None

        def text() -> Snapshot:
            after = made[-1].after
            assert isinstance(after, Snapshot), "its base is one"
            return after

        change = reduce(ChangeSet.then, (one.change for one in made))
        return Edited(path, real, base, change, created, text)

    @staticmethod
    def of_plan(real: RelPath, draft: Draft) -> list[Edited | None]:
        """Like `of`, for a plan's draft; empty for blocks and operations on a whole file."""
        request = draft.request
        if not request.of_lines or draft.replaces_nothing:
            return []
        return [Edited.of(request.path, real, draft, created=draft.created)]


_told: ContextVar[dict[RelPath, Findings] | None] = ContextVar("checks", default=None)


@contextmanager
def telling() -> Generator[dict[RelPath, Findings]]:
    """Collect the new findings of a call's checks, by file; an empty tuple for none."""
    findings: dict[RelPath, Findings] = {}
    token = _told.set(findings)
    try:
        yield findings
    finally:
        _told.reset(token)


_Key = tuple[object, ...]


class Checks:
    """The checks of one workspace. Thread-safe."""

    def __init__(self, rules: Sequence[Rule] = (), commands: Commands | None = None) -> None:
        self._rules, self._commands = rules, commands
        self._kept: dict[_Key, list[Diagnostic] | NotRun] = {}
        self._lock = held_at_fork(Lock())

    @cached_property
    def parsers(self) -> Checks:
        """Those that run no command."""
        return Checks([rule for rule in self._rules if not rule.command])

    def concern(self, real: RelPath) -> bool:
        """Whether there may be a check for the file."""
        return bool(self._rules) or parses(suffix_of(real))

    def judge(self, *edits: Edited | None) -> Findings | None:
        """New findings in the new texts; None if no check applies; raises Cancelled."""
        found: list[CheckFinding] = []
        groups: dict[Rule, list[Edited]] = {}
        for edit in filter(None, edits):
            for rule in self._rules_of(edit):
                groups.setdefault(rule, []).append(edit)
        checked: dict[RelPath, None] = {}
        for rule, group in groups.items():
            for batch in [group] if rule.is_together else [[one] for one in group]:
                if (new := self._of(rule, batch)) is not None:
                    found += new
                    checked |= dict.fromkeys(one.path for one in batch)
        if (told := _told.get()) is not None:
            for path in checked:
                told[path] = tuple(each for each in found if each.path == str(path))
        return tuple(found) if checked else None

    def gate(
        self,
        findings: Findings | None,
        accepted: Iterable[str],
        hunk_id: str | None,
        approved: Callable[[], bool],
    ) -> None:
        """Raise CheckFailed or ApprovalRequired, unless a person `approved` exactly these bytes."""
        if not findings:
            return
        if any(one.mode == "refuse" for one in findings):
            raise CheckFailed(findings)
        asking = {one.check for one in findings if one.mode == "ask"}.difference(accepted)
        if asking and not approved():
            to_accept = tuple(sorted(asking)) if hunk_id else None
            raise ApprovalRequired("checks", hunk_id, to_accept, findings)

    def _rules_of(self, edit: Edited) -> list[Rule]:
        path = edit.real
        rules = {SYNTAX: Rule("*")} if parses(suffix_of(path)) else {}
        for rule in self._rules:
            if rule.applies(path) and (rule.command or rule.name in rules):
                rules[rule.name] = rule
        return [rule for rule in rules.values() if rule.mode != "off"]

    def _of(self, rule: Rule, batch: Sequence[Edited]) -> list[CheckFinding] | None:
        """New findings of a check; None if the built-in one does not apply."""
        first = str(batch[0].path)
        try:
            if any(max(one.base.size, one.change.new_length) > MOST_BYTES for one in batch):
                raise NotRun("large", str(MOST_BYTES))
            new = self._syntax(batch[0]) if not rule.command else self._command(rule, batch)
        except NotRun as none:
            if not rule.command and not rule.required:
                return None
            mode = rule.mode if rule.required else "tell"
            return [CheckFinding(rule.name, mode, first, none.detail, not_run=none.reason)]
        names = {str(one.real): str(one.path) for one in batch}
        findings = [
            CheckFinding(rule.name, rule.mode, names[one.path], one.text, one.line or None)
            for one in new[:MOST_TOLD]
        ]
        if len(new) > MOST_TOLD:
            findings[-1] = replace(findings[-1], more=len(new) - MOST_TOLD)
        return findings

    def _syntax(self, edit: Edited) -> list[Diagnostic]:
        """Where the text no longer parses; nothing if it did not parse before."""
        suffix = suffix_of(edit.real)
        faults = self._parsed(edit, suffix, edit.text())
        if not faults or (edit.created and may_be_other(suffix, edit.text().data)):
            return []
        return [] if not edit.created and self._parsed(edit, suffix, edit.base) else faults

    def _parsed(self, edit: Edited, suffix: str, text: Snapshot) -> list[Diagnostic]:
        def parse() -> list[Diagnostic]:
            fault = syntax(suffix, text.data)
            return [] if fault is None else [Diagnostic("", *fault)]

        real = str(edit.real)  # several files may have equal bytes
        return [replace(one, path=real) for one in self._once((suffix, text.digest), parse)]

    def _command(self, rule: Rule, batch: Sequence[Edited]) -> list[Diagnostic]:
        """A command's findings in the new texts, minus those in the old ones."""
        after = self._run(rule, {str(one.real): one.text() for one in batch})
        there = {str(one.real): one.base for one in batch if not one.created}
        if not (after and there):
            return after
        places = {str(one.real): _places(one) for one in batch}
        before = Counter(_key(one, places[one.path][0](one.line)) for one in self._run(rule, there))
        new: list[Diagnostic] = []
        for one in after:
            key = _key(one, places[one.path][1](one.line))
            if before[key]:
                before[key] -= 1
            else:
                new.append(one)
        return new

    def _run(self, rule: Rule, texts: Mapping[str, Snapshot]) -> list[Diagnostic]:
        key = (rule, *((path, text.digest) for path, text in texts.items()))

        def run() -> list[Diagnostic]:
            if self._commands is None:
                raise NotRun("untrusted")
            return self._commands.run(rule, {path: text.data for path, text in texts.items()})

        return self._once(key, run)

    def _once(self, key: _Key, check: Callable[[], list[Diagnostic]]) -> list[Diagnostic]:
        """A check's findings, cached by bytes."""
        with self._lock:
            outcome = self._kept.pop(key, None)
        if outcome is None:
            try:
                outcome = check()
            except NotRun as none:
                if none.passes:
                    raise
                outcome = none
        with self._lock:
            self._kept[key] = outcome  # as the last one that was used
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        if isinstance(outcome, NotRun):
            raise NotRun(outcome.reason, outcome.detail)
        return outcome


_NUMBERED = re.compile(r"\bline \d+")


def _key(problem: Diagnostic, place: object) -> tuple[str, object, str]:
    """The identity of a finding: text and relative place, without line numbers."""
    return problem.path, place, _NUMBERED.sub("line", problem.text)


_Place = Callable[[int], object]


def _places(edit: Edited) -> tuple[_Place, _Place]:
    """Two functions that put lines of the old and of the new text on one scale.

    By it findings are compared: `changed` within a change, else the line's number in the new text.
    """
    runs = [(one.start, one.stop, len(one.new)) for one in regions(edit.base, edit.change)]
    grown = [new - (stop - start) for start, stop, new in runs]
    sums = accumulate(grown, initial=0)
    begins = [start + moved for (start, *_), moved in zip(runs, sums, strict=False)]

    def before(line: int) -> object:
        moved = sum(by for (start, *_), by in zip(runs, grown, strict=True) if start < line)
        return "changed" if any(a < line <= b for a, b, _ in runs) else line + moved

    def after(line: int) -> object:
        now = ((begin, begin + new) for begin, (*_, new) in zip(begins, runs, strict=True))
        return "changed" if any(a < line <= b for a, b in now) else line

    return before, after
