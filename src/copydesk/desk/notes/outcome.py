"""What the desk answers about notes: typed results, from which the answers are made.

What lives here: one frozen type for each kind of answer. What must not: words.
"""

from __future__ import annotations

from dataclasses import dataclass

from copydesk.store.notes.protocol import Crumb, Heading, NoteBlock, Notebook

__all__ = ["Content", "Crumb", "Heading", "Info", "Infos", "NoteBlock", "Notebook", "Written"]


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a block without its whole text.

    `markdown` is the text that stands for it: its own, of a heading that of its
    section, of a document that of all its blocks. `child_count` is None for a
    block that holds none; `outline` is empty for what is no document.
    """

    block: NoteBlock
    markdown: str
    child_count: int | None
    outline: tuple[Heading, ...]
    breadcrumb: tuple[Crumb, ...]


@dataclass(frozen=True, slots=True)
class Infos:
    """What was asked for, in that order, and the ids of which there is no block."""

    found: tuple[Info, ...]
    missing: tuple[str, ...]
    asked: int


@dataclass(frozen=True, slots=True)
class Content:
    """Blocks to be shown: those of a slice, when one was asked for.

    `start` is the index, from 0, of the first of them among all `total`; `after`
    is the id of the block behind the last one, empty at the end.
    """

    target: NoteBlock
    blocks: tuple[NoteBlock, ...]
    total: int
    start: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """Notes were written outside of a block diff: the document or block, and the new blocks.

    `edit_ids` are those of the journal. `created`: the document is new.
    """

    target: NoteBlock
    new_ids: tuple[str, ...]
    edit_ids: tuple[int, ...]
    diff: bytes
    created: bool = False
