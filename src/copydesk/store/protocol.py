"""What the layers above see of files: values, stamps, holders of locks, and failed writes.

Paths are `RelPath`; `real` is the path with every symlink resolved, which access checks and locks
use. Refusals (from `copydesk.errors`) are for callers; `TargetMoved` is for the layer above, which
reads again and retries. A refusal by the system has a reason that starts with the symbolic name of
the error number.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, Self

from copydesk.errors import Busy, Failed
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Facts, Source


class Closing(ABC):
    """A context manager that calls `close`."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


WAIT_SECONDS = 10.0
"""How long to wait for a lock by default."""

Caller = tuple[str, str]
"""For whom a lock is held: a member and a tool; both are empty outside of tool calls."""

NOBODY: Caller = "", ""


def now_ms() -> int:
    """Milliseconds since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


class Deadline:
    """The end of a wait that begins now and takes at most this many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left, 0 at the end."""
        return max(0.0, self._at - time.monotonic())


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock; `since_ms` counts from 1970."""

    member: str = ""
    tool: str = ""
    process: int = 0
    machine: str = ""
    since_ms: int = 0

    @staticmethod
    def here(caller: Caller) -> Holder:
        """This process as a holder for the caller, from now on."""
        return Holder(*caller, os.getpid(), platform.node(), now_ms())

    @property
    def text(self) -> str:
        """The holder in one line; `of` parses it."""
        return json.dumps([self.member, self.tool, self.process, self.machine, self.since_ms])

    @staticmethod
    def of(text: str | bytes) -> Holder:
        """Parse the holder from a line; an unknown holder if it is invalid."""
        with suppress(ValueError, TypeError, OverflowError):
            member, tool, process, machine, since_ms = json.loads(text)
            holder = Holder(str(member), str(tool), int(process), str(machine), int(since_ms))
            if holder.since_ms >= 0:
                return holder
        return Holder()

    def busy(self, key: str, seconds: float) -> Busy:
        """The refusal after an unsuccessful wait."""
        return Busy(
            _shown(key),
            round(seconds),
            self.member or None,
            self.tool or None,
            self.process or None,
            self.machine or None,
            _utc(self.since_ms) if self.since_ms else None,
        )


def _shown(key: str) -> str:
    """The locked target, in the caller's terms."""
    if key.startswith("\0inode "):
        return "a file with several names"
    return os.path.basename(key) if key.startswith("\0") else key


def _utc(since_ms: int) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since_ms / 1_000))
    return ""


_FINE_CLOCK_NS = 20_000_000
_COARSE_CLOCK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """One state of one regular file; equality ignores `settled`.

    Sizes in bytes, times in nanoseconds since the epoch, `mode` with the type bits. `settled` is
    False when the stamp was taken so soon after the last write that a further write could have left
    the same times: then only the content can tell, so whoever relies on the stamp compares that
    too. Two equal stamps of which the older is settled mean that nobody wrote to the file in
    between (network clocks and mmap aside).
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    nlink: int
    settled: bool = field(default=True, compare=False)

    @staticmethod
    def of(status: os.stat_result, now_ns: int) -> Stamp:
        """The stamp of a `stat` made no earlier than `now_ns`."""
        return Stamp(
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
            status.st_nlink,
            # A whole second suggests a file system without finer times (FAT, HFS+).
            now_ns - status.st_ctime_ns
            > (_FINE_CLOCK_NS if status.st_ctime_ns % _SECOND_NS else _COARSE_CLOCK_NS),
        )

    def stands_in(self, status: os.stat_result, *, renamed: bool = False) -> bool:
        """Whether `status` is of the same file in the same state, as far as `stat` can tell.

        `renamed`: the file may have been renamed since, which changes its ctime.
        """
        return (
            self.ino == status.st_ino
            and (renamed or self.ctime_ns == status.st_ctime_ns)
            and self.mtime_ns == status.st_mtime_ns
            and self.size == status.st_size
            and self.mode == status.st_mode
            and self.nlink == status.st_nlink
            and self.dev == status.st_dev
        )


StatResult = os.stat_result
"""What `stat` says of a file; those who may not ask the system themselves are handed it."""


class Committed(NamedTuple):
    """What git's last commit has of a file: its blob id, and its bytes unless they are many.

    The id is empty where git has the text that was removed, and no file of that name any more.
    """

    blob: str
    data: bytes | None


Named = Callable[[RelPath], str | None]
"""Returns the encoding that the configuration names for a real path, if any."""

Durability = Literal["full", "fast"]
"""`full` flushes file and directory before it reports a write; `fast` is only atomic."""

EntryKind = Literal["file", "dir", "symlink", "other"]


class TargetMoved(Exception):
    """The target is not what was expected, and what was written is undone. Read it again."""

    def __str__(self) -> str:
        return "another program moved or changed it"


class NotPutBack(Exception):
    """A write failed and could not be undone; the journal knows both contents.

    A file written in place may be torn; any other file has the old bytes or the new ones. The
    message is the reason: that of the operating system, of a refusal, or that another program
    wrote to the file.
    """


@dataclass(frozen=True, slots=True)
class Removed:
    """What a removal deletes besides the bytes; the journal keeps it for the inverse.

    A new file may get the same: those of the file that it replaces or restores.

    `inode` is device and number; `other_name` is another name of the same file below the root,
    empty if there is none or it was not found; `owner` are the numbers of user and group.
    """

    mode: int
    attributes: tuple[tuple[str, bytes], ...] = ()
    inode: tuple[int, int] = (0, 0)
    other_name: str = ""
    owner: tuple[int, int] = (0, 0)


EXECUTABLE = Removed(0o111, owner=(-1, -1))
"""What a new executable file gets: `set_attributes` then lets those execute it who may read it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One end of a move; `other` is the other end. The file keeps its inode."""

    other: RelPath
    is_source: bool
    inode: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class MadeDirectories:
    """The number of directories that were created for the file moved there."""

    count: int


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """The permission bits of a file, before and after."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """That the texts of an edit were forgotten: the SHA-256 of its diff in hex, and its lines."""

    diff: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class OfTask:
    """The label of the task that an edit is part of."""

    name: str


FileChange = Removed | Moved | MadeDirectories | ModeChanged | Forgotten | OfTask
"""What is recorded of a write besides the bytes: of the file tree, of its texts, of its task."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The properties of a file or directory without its content; times in ns since the epoch."""

    real: RelPath
    kind: str
    size: int
    mode: int
    birth_ns: int
    mtime_ns: int
    atime_ns: int


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file at one moment: its bytes and the stamp that belongs to them."""

    real: RelPath
    data: bytes
    stamp: Stamp


class Content(Protocol):
    """The bytes of a file that stays open until `close`, whatever happens to its name."""

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        """Compress the bytes and close; b"" beyond `most_bytes`, None for another SHA-256."""
        ...

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, slots=True)
class OpenText(Closing):
    """A file open for editing, a context; TargetMoved or Failed if it changes meanwhile.

    `source` may only be read within the context, which ends with `at_end`.
    """

    real: RelPath
    stamp: Stamp
    source: Source
    at_end: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Close the file, if it is read in parts."""
        self.at_end()


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes `start` to `stop` (0-based, stop exclusive) of the old file."""

    start: int
    stop: int


Piece = bytes | memoryview | Kept


@dataclass(frozen=True, slots=True)
class Window:
    """Whole lines of a file from some place on, and what the pass over the file found.

    `data` has no byte order mark. `facts` are None when only the end was read. `more`: the file
    continues after `data`.
    """

    stamp: Stamp
    encoding: Encoding
    data: bytes
    facts: Facts | None
    more: bool


@dataclass(frozen=True, slots=True)
class DirEntry:
    r"""A name in a directory; `size_bytes` of files; non-UTF-8 bytes are shown as `\xNN`."""

    name: str
    kind: EntryKind
    size_bytes: int | None = None
    link_target: str | None = None


def failed(operation: str, refused: OSError) -> Failed:
    """The refusal for an OSError, such as `ENOSPC: No space left on device`."""
    number = refused.errno or 0
    name = errno.errorcode.get(number, "OSError")
    return Failed(operation, f"{name}: {os.strerror(number) if number else refused}")


@contextmanager
def refusing(operation: str) -> Generator[None]:
    """Turn an OSError inside into a refusal."""
    try:
        yield
    except OSError as refused:
        raise failed(operation, refused) from refused


@contextmanager
def putting_back(may_return: Callable[[], None] = lambda: None) -> Generator[None]:
    """Undo a failed write: errors inside become NotPutBack; `may_return` can refuse it first."""
    try:
        may_return()
    except Failed as refused:
        raise NotPutBack(refused.reason) from refused
    try:
        yield
    except OSError as refused:
        raise NotPutBack(failed("put back", refused).reason) from refused


def kind_of(mode: int) -> str:
    """The kind of a file in the terms of NotAFile."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}
