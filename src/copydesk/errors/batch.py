"""Refusals of several edits of one file at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import Clash, FailedEdit, Refusal


@dataclass(eq=False)
class PartialMatchFail(Refusal):
    """Some text of a batch stands nowhere, or in several places."""

    code: ClassVar[str] = "PARTIAL_MATCH_FAIL"
    failed_index: int
    failures: tuple[FailedEdit, ...]


@dataclass(eq=False)
class CollisionDetected(Refusal):
    """Regions of a batch overlap; all pairs are named, or how many there are is told."""

    code: ClassVar[str] = "COLLISION_DETECTED"
    collisions: tuple[Clash, ...]
    collisions_count: int | None = None


@dataclass(eq=False)
class DuplicateEdits(Refusal):
    """Two edits of a batch are the same, by index from 0."""

    code: ClassVar[str] = "DUPLICATE_EDITS"
    indices: tuple[int, int]


@dataclass(eq=False)
class Conflict(Refusal):
    """The file is not as expected; `mismatches`: all that differs, as `expected` and `actual`."""

    code: ClassVar[str] = "CONFLICT"
    expectation: str
    expected: int | str
    actual: int | str
    mismatches: Mapping[str, Mapping[str, int | str]]
