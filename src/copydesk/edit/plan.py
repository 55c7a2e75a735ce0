"""A plan: an edit that was shown and waits to be applied. Its base text is kept by digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from copydesk.edit.locate import Place
from copydesk.edit.request import Action, Request
from copydesk.errors import InvalidHunkId


@dataclass(frozen=True, slots=True)
class BlockReads:
    """What a plan for blocks relies on and comes to.

    `digests` are pairs of a block's id and the SHA-256 in hex of its text, of the
    blocks that are written or deleted whatever they hold. Lines are those of the
    diff that was shown.
    """

    digests: tuple[tuple[str, str], ...]
    lines_removed: int
    lines_added: int


ContextMatch = Literal["exact", "fuzz", "rejected"]
Ended = Literal["applied", "discarded", "expired"]
"""How a plan can have ended."""

_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """One prepared edit.

    `tool` is the one that prepared it, `toolset` the set it was called from.
    `base_digest` and `diff_digest` are SHA-256 in hex; `base_digest` is None
    when the file is to be created. Times are milliseconds since 1970 (UTC).
    `span` is where the lines that it relies on stand in the base, in bytes
    (`span_of`); None for a batch, and for one that relies on an end of the file.
    `edited_by`: the person who gave it another text than its owner did.
    `blocks` is for a block diff, which has no lines of a file as its place. `why` is
    what its owner said it is for, `task` the label of what it was working on.
    """

    id: str
    owner: str
    toolset: str
    tool: str
    request: Request
    place: Place
    action: Action
    base_digest: str | None
    diff_digest: str
    created_ms: int
    expires_ms: int
    span: tuple[int, int] | None = None
    edited_by: str = ""
    blocks: BlockReads | None = None
    why: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """By whom an edit was approved, and by whom its plan was given another text, if it was.

    Times are milliseconds since 1970 (UTC), 0 and an empty name where it did not happen.
    `before` and `after` are what the approval was for, as the desk binds it.
    """

    by: str = ""
    time_ms: int = 0
    before: str = ""
    after: str = ""
    amended_by: str = ""
    amended_ms: int = 0

    @property
    def people(self) -> dict[str, str | int]:
        """Who it was, as every surface names it."""
        return {
            "approved_by": self.by,
            "approved_ms": self.time_ms,
            "amended_by": self.amended_by,
            "amended_ms": self.amended_ms,
        }


def checked_id(text: str) -> str:
    """The id, if it is eight lower-case hex characters; raises InvalidHunkId."""
    if not _ID.fullmatch(text):
        raise InvalidHunkId(text)
    return text
