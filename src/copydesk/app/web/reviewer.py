"""The desk as one person at the review page sees it; the desk decides and writes."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock, Thread
from typing import Final, NamedTuple

from copydesk.app.web.markup import LANG, say, translated
from copydesk.app.web.security import Remembered
from copydesk.app.workspace import OpenWorkspace, user_of
from copydesk.desk.backends.api import Decision, Entry, Version, version_of
from copydesk.desk.changes import TaskChanges
from copydesk.desk.drafts import DAY_MS
from copydesk.desk.member import Member, Operation, Permission
from copydesk.desk.review import Seen, Shown, State, Waiting
from copydesk.edit.draft import Plan, checked_id
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    AmbiguousMatch,
    ContentChanged,
    FileNotFound,
    HunkNotFound,
    InvalidHunkId,
    Refusal,
    StateFailed,
)
from copydesk.store.access import Rules
from copydesk.text.relpath import RelPath
from copydesk.text.unified import line_counts
from copydesk.tools.messages import say_reason
from copydesk.tools.refusals import refusal_words

_MOST_PAST: Final = 2_000
_MOST_COUNTED: Final = 20_000
_PATIENCE_SECONDS: Final = 0.06
"""Time to count the lines of plans for a list; after that they are estimated."""

_MOST_PEOPLE: Final = 4
"""Of so many people the tasks with open changes are remembered, which hold texts."""

_OPEN_SECONDS: Final = 5
"""How long the tasks with open changes stand, unless an edit or a decision is recorded."""

Counts = tuple[int, int]
"""Lines added and removed."""

_log = logging.getLogger("copydesk")


class Task(NamedTuple):
    """The key of plans that are listed together: their member, and a label or a transaction."""

    owner: str
    label: str = ""
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A pending plan in the list. `breaks` is the number of new findings of checks.

    `counted`: the counts are exact, not estimated.
    """

    plan: Plan
    task: Task
    state: State
    decision: Decision | None
    counts: Counts
    breaks: int
    counted: bool
    expires_soon: bool = False

    @property
    def path(self) -> str:
        return str(self.plan.request.path)

    @property
    def verdict(self) -> str:
        """The decision's verdict; empty for an undecided plan."""
        return self.decision.verdict if self.decision else ""

    @property
    def sign(self) -> str:
        """A key that changes when the plan's row in the list changes."""
        decided_ms = self.decision.time_ms if self.decision else 0
        ages = f"{self.plan.created_ms}.{self.plan.expires_ms}.{self.expires_soon}"
        return f"{ages}.{self.state}.{self.counts}.{self.breaks}.{decided_ms}"


def expires_soon(plan: Plan, now_ms: int) -> bool:
    """Whether a plan has less than a day left, or less than a quarter of a shorter life."""
    return plan.expires_ms - now_ms < min(DAY_MS, (plan.expires_ms - plan.created_ms) // 4)


PlanResult = tuple[str, str, str]
"""A member, a path, and how a plan ended: written as planned (`exact`), relocated (`fuzz`), or
`rejected`."""


class Counted:
    """What was counted for lists. Safe to use from many threads.

    `changed` is called when lines that a list estimated have been counted in the background.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self.paths: dict[str, tuple[RelPath, ...]] = {}
        """The files of the plans and of the changes that were listed last."""
        self.open: Remembered[tuple[str, bool], tuple[float, object, tuple[TaskChanges, ...]]]
        self.open = Remembered(_MOST_PEOPLE)
        """The tasks with open changes, by person, with the time and the state of the records."""
        self.counts: Remembered[tuple[Version, State], tuple[Counts, int]] = Remembered(
            _MOST_COUNTED
        )
        """Lines and new findings by plan and its state; those that were asked for last."""
        self.counting = Lock()


class Reviewer:
    """One person who reviews the plans of one workspace."""

    def __init__(
        self, opened: OpenWorkspace, counted: Counted, name: str, *, is_member: bool
    ) -> None:
        self.opened, self._counted = opened, counted
        self.name, self._is_member = name, is_member
        self.member = self._member()
        self.review = opened.desk.review
        """The desk's decisions on plans; `member` makes them."""

    def _member(self) -> Member:
        config = self.opened.config
        if not self._is_member:
            rules = Rules(state_dir=config.state)
            return Member(self.name, _Either(rules, rules.team_mgmt()), refresh=self._member)
        own = self.opened.member(self.name)
        permission: Permission = own.permission
        if config.of_member(self.name).team_mgmt:
            minds = self.opened.member(self.name, "team_mgmt").permission
            permission = _Either(permission, minds)
        return replace(own, permission=permission, refresh=self._member)

    @property
    def person(self) -> Member:
        """Who decides on changes: the person; a member whose edits need approval, as itself."""
        own = self.member
        if not own.policy.asks_nobody:
            return own
        return replace(own, name=user_of(own.name), refresh=lambda: self.person)

    def changes(self, *, is_fresh: bool = True) -> tuple[TaskChanges, ...]:
        """The tasks with open changes, newest first; or as they were some seconds ago at most."""
        key, began, records = (self.name, self._is_member), time.monotonic(), self.opened.seen()
        known = self._counted.open.get(key)
        if not is_fresh and known and began - known[0] < _OPEN_SECONDS and known[1] == records:
            return known[2]
        tasks = self.opened.desk.changes.tasks(self.member)
        self._counted.open[key] = began, records, tasks
        paths = {file.path for task in tasks for file in task.files}
        self._counted.paths["changes"] = tuple(paths)
        return tasks

    def open_changes(self) -> int:
        """The number of open changes, at most some seconds old."""
        return sum(task.open for task in self.changes(is_fresh=False))

    def items(self, patience: float = _PATIENCE_SECONDS) -> tuple[Item, ...]:
        """Pending plans by member and task, latest begun first.

        Lines are counted and checks made for the seconds of `patience`; lines of the other plans
        are estimated, and with patience counted in the background, as all are where checks run
        commands.
        """
        listed = _arranged(self.waiting())
        states = self.review.states([one for _, one in listed])
        runs_commands = any(rule.command for rule in self.opened.config.checks)
        until = time.monotonic() + patience * (not runs_commands)
        now_ms = self.opened.clock()
        items: list[Item] = []
        for (task, one), state in zip(listed, states, strict=True):
            counted = self._counted.counts.get((version_of(one.plan), state))
            if counted is None and patience and time.monotonic() < until:
                counted = self._count(one.plan, state)
            known = counted or (estimate(one.plan), 0)
            of = state, one.decision, *known, counted is not None
            items.append(Item(one.plan, task, *of, expires_soon(one.plan, now_ms)))
        if patience:
            self._counted.paths["plans"] = tuple({item.plan.request.path for item in items})
            left = [(item.plan, item.state) for item in items if not item.counted]
            if left and self._counted.counting.acquire(blocking=False):
                Thread(target=self._count_all, args=(left,), daemon=True).start()
        return tuple(items)

    def _count(self, plan: Plan, state: State) -> tuple[Counts, int] | None:
        key = version_of(plan), state
        try:
            self.show(plan.id)
        except Refusal:
            self._counted.counts[key] = estimate(plan), 0  # no better one will be known
        return self._counted.counts.get(key)

    def _count_all(self, plans: Sequence[tuple[Plan, State]]) -> None:
        try:
            for plan, state in plans:
                self._count(plan, state)
        except Exception:  # the estimates stay
            _log.exception("cannot count the lines of plans")
        finally:
            self._counted.counting.release()
        self._counted.changed()

    def show(self, hunk_id: str) -> Shown:
        """A plan on the current file; raises Refusal."""
        shown = self.review.show(self.member, hunk_id)
        counts = line_counts(shown.draft.base, shown.draft.change)
        key = version_of(shown.plan), shown.state
        self._counted.counts[key] = counts, len(shown.checks or ())
        return shown

    def amend(self, seen: Seen, content: str) -> Shown:
        """Replace the text of the plan that was shown; raises Refusal."""
        if self.show(seen.hunk_id).seen[1:] != seen[1:]:
            raise ContentChanged("the file or the plan changed since it was shown")
        return self.review.amend(self.member, seen.hunk_id, content)

    def waiting(self) -> tuple[Waiting, ...]:
        return self.review.pending(self.member)

    def waits(self, hunk_id: str) -> bool:
        try:
            self.opened.registry.plan(checked_id(hunk_id), self.opened.clock())
        except Refusal:
            return False
        return True

    def past(self) -> tuple[tuple[Entry, ...], list[PlanResult]]:
        """The last edits, and the results of plans."""
        entries = self.opened.journal.entries(most=_MOST_PAST)
        may = self.member.permission.allows_read
        edits = tuple(entry for entry in entries if may(entry.path) and entry.state != "failed")
        try:
            outcomes = self.opened.tally.noted()
        except StateFailed:  # the edits are shown anyway
            outcomes = ()
        results = [
            (one.member, one.path, one.how)
            for one in outcomes
            if may(RelPath(tuple(one.path.split("/"))))
        ]
        carried = Counter((member, path) for member, path, how in results if how == "fuzz")
        written = Counter((entry.member, str(entry.path)) for entry in edits if entry.hunk_id)
        exact = (written - carried).elements()  # those that were carried are reported already
        return edits, [*results, *((*key, "exact") for key in exact)]

    def may_undo(self, entry: Entry) -> bool:
        """Whether the person may write there without approval, and the text is still there."""
        try:
            self.member.permission.check("write", entry.path)
        except AccessDenied:
            return False
        return self.member.policy.human_reason(entry.path, 0) is None and not entry.forgotten


class _Either:
    """The union of two permissions: a person works on files and on the team's minds."""

    def __init__(self, one: Permission, other: Permission) -> None:
        self._one, self._other = one, other

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied unless one permission allows the operation on all the paths."""
        self._allowed(lambda one: one.check(operation, *paths))

    def check_walk(self, *paths: RelPath) -> None:
        if not all(map(self.allows_walk, paths)):
            self._one.check_walk(*paths)

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a glob of paths that neither permission may read."""
        self._allowed(lambda one: one.check_glob(glob, fold=fold))

    def _allowed(self, check: Callable[[Permission], None]) -> None:
        try:
            check(self._one)
        except AccessDenied as denied:
            try:
                check(self._other)
            except AccessDenied:
                raise denied from None

    def allows_read(self, path: RelPath) -> bool:
        """Whether one of the permissions allows reading the file."""
        return self._one.allows_read(path) or self._other.allows_read(path)

    def allows_walk(self, path: RelPath) -> bool:
        return self._one.allows_walk(path) or self._other.allows_walk(path)


def _arranged(waiting: Sequence[Waiting]) -> list[tuple[Task, Waiting]]:
    """The plans grouped by task; a transaction of a single plan is not a task."""
    sizes = Counter((one.plan.owner, one.plan.transaction) for one in waiting)
    tasks: list[tuple[Task, Waiting]] = []
    begun: dict[Task, tuple[int, str]] = {}
    for one in waiting:  # oldest first
        plan = one.plan
        is_of = not plan.task and sizes[plan.owner, plan.transaction] > 1
        task = Task(plan.owner, plan.task, plan.transaction if is_of else "")
        begun.setdefault(task, (-plan.created_ms, plan.id))
        tasks.append((task, one))

    def place(of: tuple[Task, Waiting]) -> tuple[tuple[int, str], str, int, str]:
        plan = of[1].plan
        return begun[of[0]], str(plan.request.path), plan.created_ms, plan.id

    return sorted(tasks, key=place)


def estimate(plan: Plan) -> Counts:
    """The counts that the request suggests: its lines against those of its range."""
    return plan.request.counts(plan.place)


_GONE = {
    "applied": "It was applied.",
    "discarded": "It was discarded.",
    "expired": "It expired.",
}
_UNKNOWN = "There is no such plan, or it ended long ago."
_FIRST = "{name} was first: this plan is {verdict}."
_OTHERS = (
    "edits of yours like this one are approved by another person, or by you with a one-time token"
    " that copydesk serve prints, or at a terminal (copydesk review)."
)
_CHANGED = {
    "conflict_markers": "the lines that it relies on are between conflict markers now.",
    "gone": "the lines that it relies on are not there any more.",
    "indented": "the lines that it relies on were indented anew.",
    "owner": "equal lines stand there, but in another function or section.",
    "parted": "something was put between the lines that it relies on.",
}


def words_of(refusal: Refusal) -> str:
    """The refusal in a sentence or two, for the person at the page."""
    match refusal:
        case AlreadyDecided():
            verdict = translated(refusal.verdict.replace("_", " "))
            return say(_FIRST, name=refusal.by, verdict=verdict)
        case HunkNotFound() | InvalidHunkId():
            return translated(_GONE.get(getattr(refusal, "reason", ""), _UNKNOWN))
        case ContentChanged():
            reason = say_reason(refusal.reason, LANG.get())
            return translated(_CHANGED.get(refusal.reason, f"{reason}."))
        case AmbiguousMatch():
            return translated("its lines could now be in more than one place.")
        case AccessDenied(operation="approve"):
            return translated(_OTHERS)
        case FileNotFound():
            return translated("the file is not there any more.")
        case _:
            return refusal_words(refusal, LANG.get())
