"""The state folder, for plans, texts, locks and the journal.

Invariant: the folder and the entries in it are real files and folders, not links to others (a
workspace may come from elsewhere, and its state folder with it).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from copydesk.errors import StateDamaged, StateFailed

Looks = tuple[tuple[int, int] | None, tuple[int, ...] | None]
"""Device and inode of a file; those of its log, with the log's size and time, and with those of the
file, which SQLite does not look at while it has a log. None if gone."""

FILE = slice(4, None)
"""The part about the file in what is known of a log."""

OPERATION = "use the state folder"

LOCKS = "locks"
"""The subfolder of the lock files."""

_IGNORED, _OWN_LOCKS = ".gitignore", 2

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | _NO_LINK
_FAULTS = (errno.EIO, errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
"""Errors of a look at a file that do not say that it is missing."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_LOG_HEADER, _LOG_FRAME = 32, 24 + 4096
"""The bytes of the header of a write-ahead log, and of a frame: its header and a page."""
_LOG_BEGIN = re.compile(rb"\x37\x7f\x06[\x82\x83]\x00\x2d\xe2\x18\x00\x00\x10\x00")
_LOOKED_AT = 64
_SURELY_NS = 100_000_000
"""A file marked longer ago cannot be marked again with the same time."""


class StateFolder:
    """The folder `name` in the root, created when something in it is first requested."""

    def __init__(self, root: str, name: str) -> None:
        self._path = Path(root) / name
        self.forgets = Count(self.path("forgotten"), self.make)
        """How often texts were forgotten here."""

    def path(self, name: str) -> str:
        """The path of a name in the folder, without touching the disk."""
        return str(self._path / name)

    def file(self, name: str, *older: str) -> StateFile:
        """A file in the folder; `older` are those that an earlier version used instead."""
        return StateFile(self.path(name), self.make, tuple(map(self.path, older)))

    def folder(self, name: str) -> str:
        """Create a subfolder if missing and return its path; raises StateFailed."""
        self.make()
        _make(self._path / name)
        return str(self._path / name)

    def copies(self) -> list[str]:
        """The files with texts that nothing is removed from: set aside, or an index of notes."""
        at = escape(str(self._path))
        return sorted([*glob(f"{at}/*.damaged-*"), *glob(f"{at}/notes/*/cache-*")])

    def make(self) -> None:
        """Create the folder itself if it is missing; raises StateFailed."""
        _make(self._path)
        self._ignore()

    def _ignore(self) -> None:
        path, flags = self._path / _IGNORED, _CREATE | os.O_EXCL
        with (
            _refusing(path),
            suppress(FileExistsError),
            open(os.open(path, flags, 0o600), "wb", 0) as file,
        ):
            try:
                file.write(b"*\n")
            except OSError:  # an empty one would stay, and git would keep the folder
                path.unlink()
                raise


class StateFile:
    """A database file; `make_folder` creates its folder and raises StateFailed.

    `older` are the paths of what an earlier version kept instead.
    """

    def __init__(
        self,
        path: str,
        make_folder: Callable[[], object] = lambda: None,
        older: tuple[str, ...] = (),
    ) -> None:
        self.path, self._log = path, f"{path}-wal"
        self._make_folder, self._older = make_folder, older

    @property
    def older(self) -> str:
        """A file of an earlier version, if there is one and this one does not exist yet."""
        existing = filter(os.path.lexists, self._older)
        return "" if not self._older or self.identity() else next(existing, "")

    def prepare(self) -> None:
        """Create the folder; raise StateFailed if the path exists but is not a regular file.

        What a process that was killed in `create` has left is removed, under the same lock.
        """
        self._make_folder()
        for left in glob(f"{escape(self.path)}.*.tmp"):
            _unlink_quietly(left)
        with _refusing(self.path), suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(self.path).st_mode):
                raise StateDamaged(OPERATION, "it is not a regular file", self.path)

    def create(self, content: bytes, *, flush: bool) -> None:
        """Create the file with all its content, unless it exists; raises StateFailed.

        The caller holds a lock against other processes that would create it.
        """
        beside = f"{self.path}.{secrets.token_hex(4)}.tmp"
        with ExitStack() as after, _refusing(self.path):
            with open(os.open(beside, _CREATE | os.O_EXCL, 0o600), "wb") as file:
                after.callback(_unlink_quietly, beside)
                file.write(content)
                file.flush()
                if flush:
                    os.fsync(file.fileno())
            with suppress(FileExistsError):
                try:
                    os.link(beside, self.path)
                except OSError as refused:
                    if refused.errno not in _NO_LINKS:
                        raise
                    os.rename(beside, self.path)  # the caller's lock keeps others from making it

    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the path; None if it does not exist."""
        return self.look()[0]

    def look(self) -> Looks:
        """What is now at the paths of the file and of its log; raises StateFailed."""
        try:
            file = os.lstat(self.path)
        except OSError as error:
            if error.errno in _FAULTS:  # it is there: to begin another one would lose its log
                raise _failed(self.path, error) from None
            return None, None
        try:
            log = os.lstat(self._log)
        except OSError as error:
            if error.errno in _FAULTS:
                raise _failed(self._log, error) from None
            return (file.st_dev, file.st_ino), None
        return (file.st_dev, file.st_ino), (
            *(log.st_dev, log.st_ino, log.st_size, log.st_mtime_ns),
            *(file.st_size, file.st_mtime_ns),
        )

    def log_holds(self, frames: int) -> bool:
        """Whether the log has so many frames, some spread over it with the salt of its header.

        Pages within the frames are not compared with their checksums: that would take too long.
        """
        if not frames:
            return True
        try:
            with open(self._log, "rb", buffering=0) as log:  # SQLite's locks are on other files
                header, fd = log.read(_LOG_HEADER), log.fileno()
                some = range(frames - 1, -1, -max(frames // _LOOKED_AT, 1))
                return (
                    _LOG_BEGIN.match(header) is not None
                    and os.fstat(fd).st_size >= _LOG_HEADER + frames * _LOG_FRAME
                    and all(
                        os.pread(fd, 8, _LOG_HEADER + at * _LOG_FRAME + 8) == header[16:24]
                        for at in some
                    )
                )
        except OSError:
            return False

    def is_beside_others(self) -> bool:
        """Whether the folder holds other databases, or locks besides that of who makes this one."""
        folder = os.path.dirname(self.path)
        try:
            names = [name for name in os.listdir(folder) if not name.endswith(".tmp")]
            locks = os.listdir(os.path.join(folder, LOCKS)) if LOCKS in names else []
        except OSError:
            return True
        return len(locks) > _OWN_LOCKS or any(".sqlite" in name for name in names)

    def is_empty(self) -> bool:
        """Whether it is a regular file without bytes."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == 0

    def allow(self) -> bool:
        """Restore the owner's read and write permission; return whether that changed anything."""
        try:
            status = os.lstat(self.path)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o600 == 0o600:
                return False
            os.chmod(self.path, stat.S_IMODE(status.st_mode) | 0o600)
        except OSError:
            return False
        return True

    def discard_log(self) -> None:
        """Remove the write-ahead log, its index and the rollback journal, if they exist."""
        for path in (self._log, f"{self.path}-shm", f"{self.path}-journal"):
            _unlink_quietly(path)

    def discard(self) -> None:
        """Remove the file and its logs, if they exist."""
        self.discard_log()
        _unlink_quietly(self.path)

    def set_aside(self) -> str:
        """Rename the file, or those of an earlier version, with logs; return the last new path."""
        aside = ""
        for path in self._older if self.older else (self.path,):
            if os.path.lexists(path):
                aside = _set_aside(path)
        return aside


def _set_aside(path: str) -> str:
    stem, count = f"{path}.damaged", 1
    while os.path.lexists(f"{stem}-{count}"):
        count += 1
    aside = f"{stem}-{count}"
    with _refusing(path):
        for end in ("-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{end}", f"{aside}{end}")
        os.rename(path, aside)
    return aside


def _make(path: Path) -> None:
    with _refusing(path):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        kind = os.lstat(path).st_mode
    if not stat.S_ISDIR(kind):
        raise StateFailed(OPERATION, "it is not a folder; remove or rename it", str(path))


def _unlink_quietly(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


@contextmanager
def _refusing(path: Path | str) -> Generator[None]:
    """Turn an OSError inside into StateFailed."""
    try:
        yield
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: Path | str, error: OSError) -> StateFailed:
    return StateFailed(OPERATION, error.strerror or str(error), str(path))


class _Sign:
    """A file in the state folder by which processes tell each other that something happened."""

    def __init__(self, path: str, make_folder: Callable[[], object] = lambda: None) -> None:
        self._path, self._make_folder = path, make_folder


class Count(_Sign):
    """Its size says how often it happened: no two are alike."""

    def add(self) -> None:
        """Record that it happens now; raises StateFailed."""
        self._make_folder()
        flags = _CREATE | os.O_APPEND
        with _refusing(self._path), open(os.open(self._path, flags, 0o600), "ab") as file:
            file.write(b".")

    def now(self) -> int:
        """How often it happened; 0 if that is unknown."""
        try:
            return os.lstat(self._path).st_size
        except OSError:
            return 0


class Mark(_Sign):
    """It is empty; its time says when it last happened."""

    def set(self) -> None:
        """Record that it happens now; raises StateFailed."""
        self._make_folder()
        with _refusing(self._path), open(os.open(self._path, _CREATE, 0o600), "wb") as file:
            os.utime(file.fileno())

    def stamp(self) -> tuple[int, int] | None:
        """Inode and time (ns since 1970), which change when it happens again; None if unknown."""
        try:
            status = os.lstat(self._path)
        except OSError:
            with suppress(StateFailed):
                self.set()
            return None
        is_old = time.time_ns() - status.st_mtime_ns > _SURELY_NS
        return (status.st_ino, status.st_mtime_ns) if is_old else None
