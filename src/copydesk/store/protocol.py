"""What the layers above see of files: values, and what a write that failed raises.

Paths are `RelPath`; `real` is the path with every symlink resolved, which is what access
is checked against and what locks are keyed by. Refusals (from `copydesk.errors`) are for
callers; `TargetMoved` is for the layer above, which reads again and tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from copydesk.store.stamp import Stamp
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.source import Facts, Source

Named = Callable[[RelPath], str | None]
"""The encoding that configuration names for a real path, if any."""

Durability = Literal["full", "fast"]
"""`full` flushes file and directory before a write is reported; `fast` is atomic only."""

EntryKind = Literal["file", "dir", "symlink", "other"]


class TargetMoved(Exception):
    """The target is no longer what was expected; nothing was written. Read again."""

    def __str__(self) -> str:
        return "another program moved or changed it"


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
class DirEntry:
    """One name of a directory; `size_bytes` of files only, `link_target` of symlinks only.

    What is not UTF-8 in `name` or `link_target` is shown as `\\xNN`.
    """

    name: str
    kind: EntryKind
    size_bytes: int | None = None
    link_target: str | None = None
