"""Refusals of every store of notes: codes and facts; and the ids of blocks.

Invariant: after each refusal the notes are as they were, but for `NotesTorn`, which names what
is not.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from copydesk.errors import ContentChanged, Refusal

Unavailable = Literal[
    "unreachable", "timeout", "token", "forbidden", "booting", "version", "too_large", "answer"
]
"""Why a store cannot be used; `answer`: it says what it should not."""


@dataclass(eq=False)
class InvalidBlockId(Refusal):
    """What was given cannot be the id of a block."""

    code: ClassVar[str] = "INVALID_BLOCK_ID"
    block_id: str


@dataclass(eq=False)
class BlockNotFound(Refusal):
    """There is no such block. `lost`: it was there; `nearest` is what stands where it stood."""

    code: ClassVar[str] = "BLOCK_NOT_FOUND"
    block_id: str
    lost: bool = False
    nearest: str | None = None


@dataclass(eq=False)
class NotebookNotFound(Refusal):
    """There is no such notebook, or it is closed."""

    code: ClassVar[str] = "NOTEBOOK_NOT_FOUND"
    notebook_id: str
    closed: bool = False


@dataclass(eq=False)
class WrongBlockKind(Refusal):
    """The block cannot take part in what was asked for: `wanted` names what can."""

    code: ClassVar[str] = "INVALID_TARGET"
    block_id: str
    kind: str
    wanted: str


@dataclass(eq=False)
class BlockChanged(ContentChanged):
    """A block is no longer what the changes were prepared on, or made for."""

    reason: str = "block"
    block_id: str = ""


@dataclass(eq=False)
class NotInvertible(Refusal):
    """The change could not be taken back, so it is not made: `reason` says why."""

    code: ClassVar[str] = "NOT_INVERTIBLE"
    block_id: str
    reason: str


@dataclass(eq=False)
class AnchorLinked(Refusal):
    """The change would remove names of blocks (`note.md#^name`) that links lead to."""

    code: ClassVar[str] = "ANCHOR_LINKED"
    anchors: tuple[str, ...]
    linked_from: tuple[str, ...]


@dataclass(eq=False)
class NotesUnavailable(Refusal):
    """The store cannot be reached, or answers with nonsense; `detail` has its words."""

    code: ClassVar[str] = "NOTES_UNAVAILABLE"
    detail: str
    reason: Unavailable = "answer"


@dataclass(eq=False)
class NotesRolledBack(Refusal):
    """A change failed, and all were put back. `index`, from 0, is that change."""

    code: ClassVar[str] = "ROLLED_BACK"
    index: int
    block_id: str
    detail: str


@dataclass(eq=False)
class NotesTorn(Refusal):
    """A change failed, and these blocks could not be put back as they were."""

    code: ClassVar[str] = "NOT_ROLLED_BACK"
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
