"""Refusals of a place in a file: none, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import LineShown, Refusal


@dataclass(eq=False)
class AnchorNotFound(Refusal):
    """No line matches the anchor; `closest` are the lines most like it, if any are close.

    `before_start`: lines match the end anchor, but none of them after a start
    anchor; `closest` are lines of both then.
    """

    code: ClassVar[str] = "ANCHOR_NOT_FOUND"
    argument: str
    anchor: str
    match: str
    closest: tuple[LineShown, ...] | None = None
    before_start: bool | None = None


@dataclass(eq=False)
class AnchorAmbiguous(Refusal):
    """Several places match and none was chosen, or one in which others start (`nested`)."""

    code: ClassVar[str] = "ANCHOR_AMBIGUOUS"
    argument: str
    anchor: str
    candidates_count: int
    candidates: tuple[LineShown, ...]
    nested: bool | None = None


@dataclass(eq=False)
class OccurrenceOutOfRange(Refusal):
    """There are fewer candidates than the occurrence asked for."""

    code: ClassVar[str] = "OCCURRENCE_OUT_OF_RANGE"
    occurrence: str
    candidates_count: int
    candidates: tuple[LineShown, ...] = ()


@dataclass(eq=False)
class ContentChanged(Refusal):
    """What the edit relies on, or has written when it is to be undone, is not what stands there."""

    code: ClassVar[str] = "CONTENT_CHANGED"
    reason: str
    planned_lines: str | None = None
    expected_old: str | None = None
    found: str | None = None
    later_edit_ids: tuple[int, ...] | None = None
    undone_by: int | None = None


@dataclass(eq=False)
class AmbiguousMatch(Refusal):
    """The target could now be in more than one place."""

    code: ClassVar[str] = "AMBIGUOUS_MATCH"
    planned_lines: str
    candidate_lines: tuple[int, ...]
