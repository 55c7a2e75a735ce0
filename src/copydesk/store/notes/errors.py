"""Refusals of every store of notes: codes and facts; and the ids of blocks.

Invariant: after each refusal the notes are as they were, but for `NotesTorn`, which names what
is not.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Literal

from copydesk.errors import ContentChanged, Refusal

Unavailable = Literal[
    "unreachable", "timeout", "token", "forbidden", "booting", "version", "too_large", "answer"
]
"""Why a store cannot be used; `answer`: it says what it should not."""


class InvalidBlockId(Refusal, code="INVALID_BLOCK_ID"):
    """What was given cannot be the id of a block."""

    block_id: str


class BlockNotFound(Refusal, code="BLOCK_NOT_FOUND"):
    """There is no such block. `lost`: it was there; `nearest` is what stands where it stood."""

    block_id: str
    lost: bool = False
    nearest: str | None = None


class NotebookNotFound(Refusal, code="NOTEBOOK_NOT_FOUND"):
    """There is no such notebook, or it is closed."""

    notebook_id: str
    closed: bool = False


class WrongBlockKind(Refusal, code="INVALID_TARGET"):
    """The block cannot take part in what was asked for: `wanted` names what can."""

    block_id: str
    kind: str
    wanted: str


class BlockChanged(ContentChanged):
    """A block is no longer what the changes were prepared on, or made for."""

    reason: str = "block"
    block_id: str = ""


class NotInvertible(Refusal, code="NOT_INVERTIBLE"):
    """The change could not be taken back, so it is not made: `reason` says why."""

    block_id: str
    reason: str


class AnchorLinked(Refusal, code="ANCHOR_LINKED"):
    """The change would remove names of blocks (`note.md#^name`) that links lead to."""

    anchors: tuple[str, ...]
    linked_from: tuple[str, ...]


class NotesUnavailable(Refusal, code="NOTES_UNAVAILABLE"):
    """The store cannot be reached, or answers with nonsense; `detail` has its words."""

    detail: str
    reason: Unavailable = "answer"


class NotesRolledBack(Refusal, code="ROLLED_BACK"):
    """A change failed, and all were put back. `index`, from 0, is that change."""

    index: int
    block_id: str
    detail: str


class NotesTorn(Refusal, code="NOT_ROLLED_BACK"):
    """A change failed, and these blocks could not be put back as they were."""

    index: int
    detail: str
    left: tuple[str, ...]


_FORM = re.compile(r"[0-9]{14}-[0-9a-z]{7}")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def is_id(value: str) -> bool:
    """Whether this can be an id."""
    return _FORM.fullmatch(value) is not None


def valid(value: str) -> str:
    """The id itself; InvalidBlockId for what cannot be one."""
    if not is_id(value):
        raise InvalidBlockId(value)
    return value


def new_id() -> str:
    """An id that nothing has: of this second, and 36 bits of chance."""
    chance = "".join(secrets.choice(_LETTERS) for _ in range(7))
    return f"{time.strftime('%Y%m%d%H%M%S')}-{chance}"
