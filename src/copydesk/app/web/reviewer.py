"""The desk as one person at the review page sees it; the desk decides and writes."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, NamedTuple

from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision, Entry, Version, version_of
from copydesk.desk.drafts import DAY_MS
from copydesk.desk.history import Page
from copydesk.desk.member import Member, Operation, Permission
from copydesk.desk.outcome import NotUndone, Saved, Undone
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
from copydesk.tools.refusals import refusal_words
from copydesk.tools.ws_mod import UNDO

_MOST_PAST: Final = 2_000
_MOST_COUNTED: Final = 20_000
_PATIENCE_SECONDS: Final = 0.06
"""Time to count the lines of plans for a list; after that they are estimated."""

Counts = tuple[int, int]
"""Lines added and removed."""


class Task(NamedTuple):
    """The key of plans that are listed together: their member, and a label or a transaction."""

    owner: str
    label: str = ""
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A pending plan in the list. `counted`: the counts are exact, not estimated."""

    plan: Plan
    task: Task
    state: State
    decision: Decision | None
    counts: Counts
    counted: bool
    expires_soon: bool = False

    @property
    def path(self) -> str:
        return str(self.plan.request.path)

    @property
    def sign(self) -> str:
        """A key that changes when the plan's row in the list changes."""
        decided_ms = self.decision.time_ms if self.decision else 0
        ages = f"{self.plan.created_ms}.{self.plan.expires_ms}.{self.expires_soon}"
        return f"{ages}.{self.state}.{self.counts}.{decided_ms}"


def expires_soon(plan: Plan, now_ms: int) -> bool:
    """Whether a plan has less than a day left, or less than a quarter of a shorter life."""
    return plan.expires_ms - now_ms < min(DAY_MS, (plan.expires_ms - plan.created_ms) // 4)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan: written as planned (`exact`), relocated (`fuzz`), or `rejected`."""

    member: str
    path: str
    how: str


class Reviewer:
    """One person who reviews the plans of one workspace."""

    def __init__(
        self, opened: OpenWorkspace, counted: Counted, name: str, *, is_member: bool
    ) -> None:
        self._opened, self._counted = opened, counted
        self.name, self._is_member = name, is_member
        self.member = self._member()
        self.review = opened.desk.review
        """The desk's decisions on plans; `member` makes them."""

    def _member(self) -> Member:
        config = self._opened.config
        if not self._is_member:
            rules = Rules(state_dir=config.state)
            return Member(self.name, _Either(rules, rules.team_mgmt()), refresh=self._member)
        own = self._opened.member(self.name)
        permission: Permission = own.permission
        if config.of_member(self.name).team_mgmt:
            minds = self._opened.member(self.name, "team_mgmt").permission
            permission = _Either(permission, minds)
        return replace(own, permission=permission, refresh=self._member)

    def items(self, patience: float = _PATIENCE_SECONDS) -> tuple[Item, ...]:
        """Pending plans by member and task, latest begun first; `patience` limits the counting."""
        listed = _arranged(self.waiting())
        states = self.review.states([one for _, one in listed])
        until = time.monotonic() + patience
        now_ms = self._opened.clock()
        found: list[Item] = []
        for (task, one), state in zip(listed, states, strict=True):
            counts = self._counted.of(one.plan)
            if counts is None and patience and time.monotonic() < until:
                counts = self._count(one.plan)
            known = counts if counts is not None else estimate(one.plan)
            soon = expires_soon(one.plan, now_ms)
            of = state, one.decision, known, counts is not None, soon
            found.append(Item(one.plan, task, *of))
        return tuple(found)

    def count(self, items: Sequence[Item]) -> bool:
        """Count the lines of plans that were estimated; return whether there were any."""
        left = [item for item in items if not item.counted]
        for item in left:
            self._count(item.plan)
        return bool(left)

    def show(self, hunk_id: str) -> Shown:
        """A plan on the current file; raises Refusal."""
        shown = self.review.show(self.member, hunk_id)
        self._counted.keep(shown)
        return shown

    def amend(self, seen: Seen, content: str) -> Shown:
        """Replace the text of the plan that was shown; raises Refusal."""
        shown = self.show(seen.hunk_id)
        if (shown.before, shown.after) != (seen.before, seen.after):
            raise ContentChanged("the file or the plan changed since it was shown")
        return self.review.amend(self.member, seen.hunk_id, content)

    def waiting(self) -> tuple[Waiting, ...]:
        return self.review.pending(self.member)

    def waits(self, hunk_id: str) -> bool:
        try:
            self._opened.registry.plan(checked_id(hunk_id), self._opened.clock())
        except Refusal:
            return False
        return True

    def past(self) -> tuple[tuple[Entry, ...], tuple[PlanResult, ...]]:
        """The last edits, and the results of plans."""
        entries = self._opened.journal.entries(most=_MOST_PAST)
        may = self.member.permission.allows_read
        found = tuple(entry for entry in entries if may(entry.path) and entry.state != "failed")
        try:
            noted = self._opened.tally.noted()
        except StateFailed:  # the edits are shown anyway
            noted = ()
        odd = [one for one in noted if may(RelPath(tuple(one.path.split("/"))))]
        carried = Counter((one.member, one.path) for one in odd if one.how == "fuzz")
        fates = [PlanResult(one.member, one.path, one.how) for one in odd]
        for entry in found:
            key = entry.member, str(entry.path)
            if not entry.hunk_id:
                continue
            if carried[key]:  # it is reported already
                carried[key] -= 1
            else:
                fates.append(PlanResult(*key, "exact"))
        return found, tuple(fates)

    def edits(self, path: str | None, by: str | None, most: int, before: int | None = None) -> Page:
        """Past edits, newest first; raises Refusal for an invalid path."""
        wanted = None if path is None else RelPath.parse(path)
        return self._opened.desk.history.page(self.member, wanted, by, most, before)

    def edit(self, edit_id: int) -> Entry:
        """One past edit; raises EditNotFound and AccessDenied."""
        return self._opened.desk.history.entry(self.member, edit_id)

    def undo(self, edit_id: int) -> Undone | NotUndone:
        """Undo an edit; raises Refusal."""
        return self._opened.desk.undo(self.member, UNDO, edit_id)

    def may_undo(self, entry: Entry) -> bool:
        """Whether the person may write there without approval, and the text is still there."""
        try:
            self.member.permission.check("write", entry.path)
        except AccessDenied:
            return False
        return self.member.policy.human_reason(entry.path, 0) is None and not entry.forgotten

    def saved(self) -> tuple[Saved, ...]:
        """Writes of other programs that were saved as edits and not yet reported."""
        return self._opened.desk.foreign.told(self.member)

    def _count(self, plan: Plan) -> Counts | None:
        try:
            self.show(plan.id)
        except Refusal:
            self._counted.put(plan, estimate(plan))  # no better value will be known
        return self._counted.of(plan)


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


class Counted:
    """A cache of the lines that each plan adds and removes. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[Version, Counts] = OrderedDict()
        self._lock = Lock()

    def of(self, plan: Plan) -> Counts | None:
        """The counts, if known."""
        with self._lock:
            return self._known.get(version_of(plan))

    def keep(self, shown: Shown) -> None:
        """Cache the counts of a plan as it is shown."""
        self.put(shown.plan, line_counts(shown.draft.base, shown.draft.change))

    def put(self, plan: Plan, counts: Counts) -> None:
        with self._lock:
            self._known[version_of(plan)] = counts
            while len(self._known) > _MOST_COUNTED:
                self._known.popitem(last=False)


def _arranged(waiting: Sequence[Waiting]) -> list[tuple[Task, Waiting]]:
    """The plans grouped by task; a transaction of a single plan is not a task."""
    sizes = Counter((one.plan.owner, one.plan.transaction) for one in waiting)
    found: list[tuple[Task, Waiting]] = []
    begun: dict[Task, tuple[int, str]] = {}
    for one in waiting:  # oldest first
        plan = one.plan
        is_of = not plan.task and sizes[plan.owner, plan.transaction] > 1
        task = Task(plan.owner, plan.task, plan.transaction if is_of else "")
        begun.setdefault(task, (-plan.created_ms, plan.id))
        found.append((task, one))

    def place(one: tuple[Task, Waiting]) -> tuple[tuple[int, str], str, int, str]:
        plan = one[1].plan
        return begun[one[0]], str(plan.request.path), plan.created_ms, plan.id

    return sorted(found, key=place)


def estimate(plan: Plan) -> Counts:
    """The counts that the request suggests: its lines against those of its range."""
    return plan.request.counts(plan.place)


_GONE = {
    "applied": "It was applied.",
    "discarded": "It was discarded.",
    "expired": "It expired.",
    "unknown": "There is no such plan, or it ended long ago.",
}
_CHANGED = {
    "conflict_markers": "the lines that it relies on are between conflict markers now.",
    "gone": "the lines that it relies on are not there any more.",
    "indented": "the lines that it relies on were indented anew.",
    "owner": "equal lines stand there, but in another function or section.",
    "parted": "something was put between the lines that it relies on.",
}


def words_of(refusal: Refusal) -> str:
    """The refusal in a sentence or two, for the person at the page."""
    if isinstance(refusal, AlreadyDecided):
        verdict = refusal.verdict.replace("_", " ")
        return f"{refusal.by} was first: this plan is {verdict}."
    if isinstance(refusal, HunkNotFound):
        return _GONE.get(refusal.reason, _GONE["unknown"])
    if isinstance(refusal, InvalidHunkId):
        return _GONE["unknown"]
    if isinstance(refusal, ContentChanged):
        return _CHANGED.get(refusal.reason, f"{refusal.reason}.")
    if isinstance(refusal, AmbiguousMatch):
        return "its lines could now be in more than one place."
    if isinstance(refusal, AccessDenied) and refusal.operation == "approve":
        return (
            "edits of yours like this one are approved by another person, or by you with a"
            " one-time token that copydesk serve prints, or at a terminal (copydesk review)."
        )
    if isinstance(refusal, FileNotFound):
        return "the file is not there any more."
    return refusal_words(refusal, "en")
