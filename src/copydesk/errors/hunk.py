"""Refusals of a plan or an edit by its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import Refusal


@dataclass(eq=False)
class InvalidHunkId(Refusal):
    """The id is not eight lower-case hexadecimal characters."""

    code: ClassVar[str] = "INVALID_HUNK_ID"
    hunk_id: str


@dataclass(eq=False)
class HunkNotFound(Refusal):
    """There is no such plan now; `reason` is applied, discarded, expired or unknown."""

    code: ClassVar[str] = "HUNK_NOT_FOUND"
    hunk_id: str
    reason: str


@dataclass(eq=False)
class WrongOwner(Refusal):
    """The plan belongs to another member."""

    code: ClassVar[str] = "WRONG_OWNER"
    hunk_id: str


@dataclass(eq=False)
class WrongMode(Refusal):
    """The plan was made by another tool or toolset."""

    code: ClassVar[str] = "WRONG_MODE"
    hunk_id: str
    planned_with: str
    called_with: str


@dataclass(eq=False)
class EditNotFound(Refusal):
    """No such edit can be taken back; `reason` is unknown, pruned, replaced or failed."""

    code: ClassVar[str] = "EDIT_NOT_FOUND"
    edit_id: int
    reason: str
    newest_edit_id: int | None = None
