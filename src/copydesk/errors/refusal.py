"""The root of all refusals, and what one may tell.

What lives here: `Refusal` and the types of facts. What must not: a kind of
refusal (its neighbours have them, by what is refused).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LineShown:
    """One line of a file as a caller sees it: 1-based number and decoded text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """One edit of a batch that has no single place: its index from 0, and what is near.

    `lines` are those of the first matches; `nearest_lines`, `similarity` (percent)
    and `difference` (`-` sought, `+` found) tell of the closest place.
    """

    index: int
    reason: str
    matches_count: int
    lines: tuple[int, ...]
    nearest_lines: str | None = None
    similarity: int | None = None
    difference: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Clash:
    """Two edits of a batch, by index from 0, whose regions share a byte."""

    first: int
    second: int
    first_lines: str
    second_lines: str


Told = str | int | LineShown | FailedEdit | Clash
Fact = str | int | bool | tuple[Told, ...] | Mapping[str, Mapping[str, int | str]]
"""What a refusal may tell."""


@dataclass(eq=False)
class Refusal(Exception):
    """The root: what was asked cannot be done, and nothing was written."""

    code: ClassVar[str] = "FAILED"

    def facts(self) -> Mapping[str, Fact]:
        """The facts by name, in the order of the fields, None left out."""
        found = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in found if value is not None}

    def __str__(self) -> str:
        facts = ", ".join(f"{k}={v!r}" for k, v in self.facts().items())
        return f"{self.code}({facts})"
