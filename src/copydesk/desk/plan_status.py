"""The status of plans in their files as these are now, cached for each state of a file.

Invariant: what is told is what a look without the cache would tell.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Literal, TypeVar

from copydesk.desk.applying import Applying, digest_of
from copydesk.desk.backends.api import Decision, Version, version_of
from copydesk.desk.context import Setting
from copydesk.desk.drafts import Drafting
from copydesk.edit.plan import Plan
from copydesk.edit.request import BlockDiff, MoveFile
from copydesk.errors import FileNotFound, Refusal, StateFailed
from copydesk.store.protocol import Stamp
from copydesk.text.relpath import RelPath

State = Literal["exact", "drifted", "conflict"]
"""How a plan stands in the file as it is: as it was shown to its owner, carried to another
place or other line numbers, or not to be made there."""

_MOST_STATES = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Standing:
    """The plans of one workspace in their files. Safe for many threads."""

    def __init__(self, setting: Setting, drafting: Drafting, applying: Applying) -> None:
        self._set, self._drafting, self._applying = setting, drafting, applying
        self._states: OrderedDict[tuple[Version, RelPath, Stamp], State] = OrderedDict()
        self._digests: OrderedDict[tuple[RelPath, Stamp], str] = OrderedDict()
        self._lock = Lock()

    def decision(self, plan: Plan) -> Decision | None:
        """The decision on the plan, unless it is an approval of a file that is another now.

        None when decisions cannot be read: it is for showing alone.
        """
        try:
            decision = self._set.decisions.of(version_of(plan))
        except StateFailed:
            return None
        if decision is None or decision.verdict != "approved":
            return decision
        try:
            digest = self._digest(plan)
        except FileNotFound:
            digest = ""
        except Refusal:
            return None
        return decision if digest == decision.before else None

    def state(self, plan: Plan) -> State:
        """How the plan stands now; looked up once for each state of its file."""
        if isinstance(plan.request, BlockDiff):
            return self._of_blocks(plan)
        try:
            real, stamp = self._set.files.stat(plan.request.path)
            if isinstance(plan.request, MoveFile):
                self._set.files.check_new(plan.request.to, stamp)
        except FileNotFound:
            return "exact" if plan.base_digest is None else "conflict"
        except Refusal:
            return "conflict"
        key = (version_of(plan), real, stamp)
        with self._lock:
            known = self._states.get(key)
        if known is None:
            known = self._judged(plan, real)
            if stamp.settled:
                _keep(self._states, key, known, self._lock)
        return known

    def _judged(self, plan: Plan, real: RelPath) -> State:
        try:
            if self._digest(plan) == plan.base_digest:
                return "exact"
            draft = self._drafting.on_file(
                plan.request, lambda now: self._applying.draft(plan, real, now)
            )
        except Refusal:
            return "conflict"
        return "exact" if digest_of(draft.diff) == plan.diff_digest else "drifted"

    def _of_blocks(self, plan: Plan) -> State:
        """The same for a block diff, whose notes are looked at each time."""
        try:
            draft = self._applying.blocks(plan)
        except Refusal:
            return "conflict"
        return "exact" if digest_of(draft.diff) == plan.diff_digest else "drifted"

    def _digest(self, plan: Plan) -> str:
        """The SHA-256 of the plan's file as it is; raises FileNotFound and others."""
        if isinstance(plan.request, BlockDiff):
            return self._applying.blocks(plan).base.digest
        real, stamp = self._set.files.stat(plan.request.path)
        with self._lock:
            known = self._digests.get((real, stamp)) if stamp.settled else None
        if known is None:
            known = self._drafting.on_file(plan.request, lambda now: now.digest)
            if stamp.settled:
                _keep(self._digests, (real, stamp), known, self._lock)
        return known


def _keep(known: OrderedDict[K, V], key: K, value: V, lock: Lock) -> None:
    """Remember the value, within the bound."""
    with lock:
        known[key] = value
        if len(known) > _MOST_STATES:
            known.popitem(last=False)
