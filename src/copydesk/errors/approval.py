"""Refusals of what a person has to decide, or has decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import Refusal


@dataclass(eq=False)
class ApprovalRequired(Refusal):
    """A person has to approve it first; `why` is member, path, lines, files or drifted.

    With a `hunk_id` the plan waits for the person; without one the tool writes
    at once, which this member may not do there.
    """

    code: ClassVar[str] = "APPROVAL_REQUIRED"
    why: str
    hunk_id: str | None = None


@dataclass(eq=False)
class HunkRejected(Refusal):
    """A person has looked at the plan and said no; `reason` is what was said."""

    code: ClassVar[str] = "HUNK_REJECTED"
    hunk_id: str
    by: str
    reason: str


@dataclass(eq=False)
class AlreadyDecided(Refusal):
    """Somebody was first: the plan was approved or rejected (`verdict`) before."""

    code: ClassVar[str] = "ALREADY_DECIDED"
    hunk_id: str
    by: str
    verdict: str
