"""What was shown of the plans that wait, so that most applies need not make it again.

What lives here: the last drafts of this process, within a bound. What must not:
anything that decides what is written. Law: a draft that is given is the one that
its plan comes to on the very content it is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from copydesk.edit.draft import Draft
from copydesk.edit.plan import Plan
from copydesk.text.snapshot import Snapshot
from copydesk.text.source import Source

MOST = 32
"""So many drafts are kept."""

LARGEST = 256 << 10
"""Bytes; a draft of a larger text is not kept."""


class Shown:
    """Drafts by the id of their plan, the ones shown last. Safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Plan, Draft]] = OrderedDict()
        self._lock = Lock()

    def keep(self, plan: Plan, draft: Draft) -> None:
        """Remember the draft, if it is not too large."""
        with self._lock:
            self._kept.pop(plan.id, None)
            if isinstance(draft.base, Snapshot) and draft.base.size <= LARGEST:
                self._kept[plan.id] = (plan, draft)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def of(self, plan: Plan, now: Source) -> Draft | None:
        """The draft of the plan, if the content is the one that it was shown on."""
        with self._lock:
            kept, draft = self._kept.get(plan.id, (None, None))
        if draft is None or kept != plan or draft.created or now.size != draft.base.size:
            return None
        return draft if now.whole() == draft.base else None
