"""Statistics of plans that were not written as they were shown: carried elsewhere, or refused.

What is noted here changes nothing that is decided or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from copydesk.errors import Cancelled, Refusal

How = Literal["fuzz", "rejected"]
"""`fuzz`: it was written where it stood by then; `rejected`: by the file, or by a person."""

MOST = 5_000
"""So many of the last ones are kept."""

_ANOTHERS = ("APPROVAL_REQUIRED", "HUNK_REJECTED", "ALREADY_DECIDED")
"""Refusals that say nothing of the file: what a person decides is noted when it is."""


@dataclass(frozen=True, slots=True)
class Fared:
    """How the plan of a member for a file fared, at `time_ms` (ms since 1970)."""

    time_ms: int
    member: str
    path: str
    how: How


class Tally(Protocol):
    """The record of one workspace. All methods are safe to call from many threads."""

    def note(self, fared: Fared) -> None:
        """Remember it."""
        ...

    def noted(self) -> tuple[Fared, ...]:
        """The last ones, at most `MOST`, the newest first."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def counts(refusal: Refusal) -> bool:
    """Whether a refusal is one of the file as it is."""
    return refusal.code not in _ANOTHERS and not isinstance(refusal, Cancelled)
