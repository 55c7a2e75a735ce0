"""Access to notes: the open store, the rights of members, and the values that the desk returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock

from copydesk.desk.member import Member, Operation, Permission, authorized
from copydesk.errors import AccessDenied
from copydesk.notes.protocol import (
    Coverage,
    Crumb,
    Heading,
    NoteBlock,
    NoteStore,
    SplitBlocks,
)
from copydesk.store.files import Files
from copydesk.store.locks import held_at_fork
from copydesk.text.relpath import RelPath

__all__ = ["Coverage", "Crumb", "Heading", "NoteBlock"]
"""Re-exported for the tools, which do not import the store."""


@dataclass(frozen=True, slots=True)
class OpenNotes:
    """An open store, with what the desk needs to know about it.

    `split` is how it parses a text; `valid` says what can be one of its ids; `path_of` maps a
    notebook and a path in it (empty for the notebook itself) to the document's path, as access
    lists and the journal use it. `in_files`: the documents are files of the workspace, and are
    written as such.
    """

    store: NoteStore
    split: SplitBlocks
    valid: Callable[[str], bool]
    path_of: Callable[[str, str], RelPath]
    in_files: bool


class Notes:
    """The notes of one workspace; each store is opened when first needed.

    `open_home` opens the store that members with a permission see; it may be one for all.
    Thread-safe.
    """

    def __init__(self, open_home: Callable[[Permission], OpenNotes], files: Files) -> None:
        self._open, self._files = open_home, files
        self._opened: dict[Permission, OpenNotes] = {}
        self._lock = held_at_fork(Lock())

    def home(self, member: Member) -> OpenNotes:
        """The store as the member sees it; the first call opens it and may raise its errors."""
        with self._lock:
            found = self._opened.get(member.permission)
            if found is None:
                found = self._opened[member.permission] = self._open(member.permission)
            return found

    def store(self, member: Member) -> NoteStore:
        return self.home(member).store

    def path(self, member: Member, block: NoteBlock) -> RelPath:
        """The path of the block's document."""
        return self.home(member).path_of(block.box, block.path)

    def check(self, member: Member, operation: Operation, paths: Iterable[RelPath]) -> None:
        """Raise AccessDenied unless the member may do the operation in all these documents."""
        for path in dict.fromkeys(paths):
            authorized(self._files, member, path, operation)

    def check_blocks(
        self, member: Member, operation: Operation, blocks: Iterable[NoteBlock]
    ) -> None:
        """Like `check`, for the documents of blocks."""
        self.check(member, operation, (self.path(member, block) for block in blocks))

    def may_read(self, member: Member, block: NoteBlock) -> bool:
        """Whether the member may read the block's document."""
        try:
            self.check_blocks(member, "read", [block])
        except AccessDenied:
            return False
        return True

    def may_see(self, member: Member, notebook_id: str) -> bool:
        """Whether the member may read something in a notebook."""
        path = self.home(member).path_of(notebook_id, "")
        return member.permission.allows_walk(path) or member.permission.allows_read(path)

    def close(self) -> None:
        with self._lock:
            for home in self._opened.values():
                home.store.close()
            self._opened.clear()


@dataclass(frozen=True, slots=True)
class Info:
    """Facts about a block; for a document below another one, `parent_id` is the other's.

    `markdown` is the text it stands for: its own, for a heading that of its section, for a document
    that of all its blocks. `child_count` is None for a block that cannot have children; `outline`
    is empty unless it is a document.
    """

    block: NoteBlock
    markdown: str
    child_count: int | None
    outline: tuple[Heading, ...]
    breadcrumb: tuple[Crumb, ...]


@dataclass(frozen=True, slots=True)
class Infos:
    """The requested blocks, in order, and the ids without a block."""

    found: tuple[Info, ...]
    missing: tuple[str, ...]
    asked: int


@dataclass(frozen=True, slots=True)
class BlockContent:
    """Blocks to show: those of a slice, if one was given.

    `start` is the 0-based index of the first of them among all `total`; `after` is the id of the
    block after the last one, empty at the end.
    """

    target: NoteBlock
    blocks: tuple[NoteBlock, ...]
    total: int
    start: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True)
class NotesWritten:
    """The result of a write other than a block diff: the document or block, and the new blocks.

    `edit_ids` are those of the journal. `created`: the document is new. `path` is that of the
    document if it is a file.
    """

    target: NoteBlock
    new_ids: tuple[str, ...]
    edit_ids: tuple[int, ...]
    diff: bytes
    created: bool = False
    path: RelPath | None = None
