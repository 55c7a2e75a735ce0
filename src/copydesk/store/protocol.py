"""What the layers above see of the disk: one protocol and its values.

What lives here: `Files`, and the types that its methods take and give. What
must not: a system call. Invariant: every method either does the whole of what
it says or raises with nothing changed (`NotPutBack` is the one exception, and
it says so).

Paths are `RelPath`; `real` is the path with every symlink resolved, which is
what access is checked against and what locks are keyed by. Refusals (from
`copydesk.errors`) are for callers; `TargetMoved` is for the layer above, which
reads again and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from copydesk.store.rg_results import Counts, Lines, Query, Raw, Snippets
from copydesk.store.rg_results import Files as FoundFiles
from copydesk.store.stamp import Stamp
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.search import Sought
from copydesk.text.source import Facts, Source

Named = Callable[[RelPath], str | None]
"""The encoding that configuration names for a real path, if any."""

__all__ = [
    "Content",
    "Counts",
    "Document",
    "Durability",
    "Entry",
    "EntryKind",
    "Files",
    "FoundFiles",
    "Kept",
    "Lines",
    "NotPutBack",
    "OpenFile",
    "Piece",
    "Query",
    "Raw",
    "Snippets",
    "Staged",
    "TargetMoved",
    "Window",
]

Durability = Literal["full", "fast"]
"""`full` flushes file and directory before a write is reported; `fast` is atomic only."""

EntryKind = Literal["file", "dir", "symlink", "other"]


class TargetMoved(Exception):
    """The target is no longer what was expected; nothing was written. Read again."""


class NotPutBack(Exception):
    """A write failed, and what was written could not be put back; the journal knows both.

    A file written in place may be torn then; any other one holds the old bytes or
    the new. The message is the operating system's word for it.
    """


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file at one moment: its bytes, and the stamp that belongs to them."""

    real: RelPath
    data: bytes
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file open for reading; `fd` lives as long as the context that gave it."""

    real: RelPath
    stamp: Stamp
    fd: int


class Content(Protocol):
    """The bytes of a file that stays open until `close`, whatever becomes of its name."""

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        """The bytes compressed by zlib, and the file is let go.

        None when their SHA-256 is not `digest`, in hex, when they cannot be read, and
        when they take more than `most_bytes`.
        """
        ...

    def close(self) -> None:
        """Let the file go."""
        ...


@dataclass(frozen=True, slots=True)
class OpenText:
    """A file open as a text to be edited; `source` lives as long as the context that gave it.

    Its methods raise TargetMoved when the file is changed meanwhile, and Failed.
    """

    real: RelPath
    stamp: Stamp
    source: Source


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes `start` to `stop` (0-based, stop exclusive) of the file as it was before."""

    start: int
    stop: int


Piece = bytes | memoryview | Kept


class Staged(Protocol):
    """A write that is ready beside its target; nothing is changed until `commit`."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content in hex, where it was asked for; else empty."""
        ...

    def commit(self) -> Stamp:
        """Write it; the new stamp.

        Raises TargetMoved, FileExists, NotAFile, Failed, with the target as it was; NotPutBack.
        """
        ...

    def put_back(self, sha256: str) -> None:
        """Take the commit back, if what was written, of this digest, still stands there.

        TargetMoved when it does not; Failed; NotPutBack.
        """
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """Whole lines of a file, from a place on, and what the pass over the file told.

    `data` has no byte order mark. `first_line` is 0-based, None with `facts` when
    only the end was looked at. `more`: the file goes on after `data`.
    """

    stamp: Stamp
    encoding: Encoding
    data: bytes
    first_line: int | None
    facts: Facts | None
    more: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a directory; `size_bytes` of files only, `link_target` of symlinks only.

    What is not UTF-8 in `name` or `link_target` is shown as `\\xNN`.
    """

    name: str
    kind: EntryKind
    size_bytes: int | None = None
    link_target: str | None = None


class Files(Protocol):
    """The files below one root.

    Every method raises InvalidPath for a path that leads out of the root and
    Failed for what the operating system refuses. Methods that need a file
    raise FileNotFound when there is none and NotAFile(kind) when it is not a
    regular one. Safe to call from many threads; nothing here excludes two
    writers of one file, that is the lock of the layer above.
    """

    def resolve(self, path: RelPath, via: Callable[[RelPath], None] = lambda link: None) -> RelPath:
        """The real path; what is missing at its end is taken as written.

        `via` gets the real place of each link on the way, with what is still to go after
        it, before it is followed, and may raise a refusal.
        """
        ...

    def stat(self, path: RelPath) -> tuple[RelPath, Stamp]:
        """The real path and the stamp of a regular file, without opening it."""
        ...

    def read(self, path: RelPath) -> Document:
        """The whole file; FileTooLarge above the limit."""
        ...

    def text(
        self, path: RelPath, named: Named, sought: Sequence[Sought] = ()
    ) -> AbstractContextManager[OpenText]:
        """The file as a text; a large one is held in parts only. FileTooLarge above the limit.

        `sought` is what will be sought in it, so that one pass may find it.
        """
        ...

    def window(
        self, path: RelPath, first_line: int, most_bytes: int, named: str | None, *, last: bool
    ) -> Window:
        """Some lines of a file of any size, in bounded memory.

        From line `first_line` (0-based) on, or with `last` the last so many lines.
        `named` is the encoding that configuration names. Raises BinaryFile.
        """
        ...

    def open_for_reading(self, path: RelPath) -> AbstractContextManager[OpenFile]:
        """The file open for reading, of any size."""
        ...

    def content(self, path: RelPath) -> Content:
        """The bytes of a file of any size, to be read later; whoever asks closes it."""
        ...

    def replace(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        before_rename: Callable[[Callable[[], str]], None] | None = None,
        expected_real: RelPath | None = None,
        digest: str = "",
    ) -> Stamp:
        """Put `pieces` in the place of the file's bytes; give the new stamp.

        `expected` and `expected_sha256` (64 lower-case hex digits, of the whole
        old content) are what was read; TargetMoved when that is not what stands
        there any more, or when the path does not lead to `expected_real`.
        `pieces` is iterated at most once; `digest` is the SHA-256 of them, where it is
        known. `before_rename` is called before anything
        changes, with what gives the SHA-256 of the new content when it is ready
        (a TargetMoved may still follow the call; it is not called for a write in
        place). A file with several links is written in place, and
        `before_in_place` gets its old bytes first (a TargetMoved may still
        follow the call). NotPutBack when such a write
        broke off and the old bytes could not be put back.
        """
        ...

    def stage(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        digested: bool = False,
        expected_real: RelPath | None = None,
        digest: str = "",
    ) -> AbstractContextManager[Staged]:
        """The same as `replace`, ready and not yet done; what was not committed is gone after.

        `before_in_place` is called by `commit`. `digested`: with the digest of the new content.
        """
        ...

    def stage_new(
        self, path: RelPath, data: bytes, *, expected_real: RelPath | None = None
    ) -> AbstractContextManager[Staged]:
        """The same as `create`, ready and not yet done; what was not committed is gone after.

        The missing parents are there meanwhile.
        """
        ...

    def create(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
    ) -> tuple[RelPath, Stamp]:
        """A new file; never one that was there or appears at the same moment.

        FileExists for a regular file, NotAFile(kind) for anything else that has
        the name (a dangling symlink too) and for a parent that is a file;
        FileNotFound for a missing parent unless `make_parents`.
        """
        ...

    def check_new(self, path: RelPath) -> None:
        """Raise what `create` would for what stands there now; nothing is made."""
        ...

    def remove(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> None:
        """Remove a file that is still what was read; else TargetMoved."""
        ...

    def list_dir(self, path: RelPath) -> tuple[RelPath, tuple[Entry, ...]]:
        """The real path of a directory and its entries by name; InvalidPath when it is none.

        Temporary files of copydesk are left out.
        """
        ...

    def sweep(self, path: RelPath, before_ns: int) -> int:
        """Remove copydesk's own temporary files in a directory that are older; how many."""
        ...

    def sweep_for(self, path: RelPath, known: Collection[str] | None = None) -> int:
        """Remove what writes of a file that were broken off have left beside it; how many.

        Nobody may be writing it. With `known`, the digests in hex of what copydesk has
        recorded, any other content is recorded first, as another program's.
        """
        ...

    def digest(self, path: RelPath) -> tuple[RelPath, Stamp, str]:
        """The real path, the stamp and the SHA-256 in hex of a file, in bounded memory."""
        ...

    def similar(self, path: RelPath) -> tuple[str, ...]:
        """Up to three names beside a missing one that are close to it, closest first."""
        ...
