"""What the desk knows of notes: how the room of notes drafts, applies and undoes a block diff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from copydesk.desk.backends.api import Entry
from copydesk.desk.member import Member
from copydesk.desk.outcome import NotUndone, Undone
from copydesk.desk.steps import WriteRequest
from copydesk.edit.draft import Draft, Plan
from copydesk.edit.request import Request


class BlockEdits(Protocol):
    """Edits of blocks; a write passes the same locks, gates and records as one of files."""

    def draft(self, member: Member, request: Request) -> Draft:
        """The changes of a block diff; raises a Refusal."""
        ...

    def planned(self, member: Member, plan: Plan) -> Draft:
        """A plan's changes to the current blocks, for members who may read them; like `apply`."""
        ...

    def apply(
        self,
        member: Member,
        plan: Plan,
        precondition: Callable[[], None],
        after_commit: Callable[[], None],
        *,
        is_stored: bool = True,
    ) -> Draft:
        """Apply a plan once; both calls are made under the locks, before and after the write."""
        ...

    def undo(
        self, job: WriteRequest, entry: Entry, precondition: Callable[[], None]
    ) -> Undone | NotUndone:
        """Undo an edit outside files; `precondition` runs locked; refusals are NotUndone."""
        ...


Blocks = Callable[[], BlockEdits]
"""Opens the room of notes, when it is first asked for."""
