"""Files that lost their name to ours: what another program wrote to them is kept.

Invariant: bytes of another program are in the file that has the name, or `keep` was given them,
before the last name or handle goes; when neither could be done the file keeps its temporary name.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from threading import Lock

from copydesk.errors import Refusal
from copydesk.store import _os
from copydesk.store.contents import Closing, read_at, sha256_of
from copydesk.store.paths import ResolvedPath
from copydesk.store.protocol import NotPutBack, Stamp
from copydesk.store.soon import Soon
from copydesk.store.staging import discard
from copydesk.text.relpath import RelPath

Keep = Callable[[RelPath, bytes, bytes | None], None]
"""Records what another program wrote to a file, by its real path, before that is gone.

The last argument is what took its place, None for what stands there now. Raises Refusal.
"""

_GRACE_SECONDS = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016)
LATE_SECONDS = 0.25
"""So much later a file that lost its name is looked at for the last time."""

_MOST_LATE = 32


def keep_nothing(real: RelPath, theirs: bytes, ours: bytes | None) -> None:
    """Nobody records anything here."""


@dataclass(frozen=True, slots=True)
class Known:
    """A state of a file with known bytes; `sha256` is their digest in hex, or empty."""

    ino: int
    size: int
    mtime_ns: int
    sha256: Callable[[], str]

    @staticmethod
    def as_read(expected: Stamp, sha256: str) -> Known:
        return Known(expected.ino, expected.size, expected.mtime_ns, lambda: sha256)

    @staticmethod
    def as_written(ours: os.stat_result, sha256: Callable[[], str]) -> Known:
        return Known(ours.st_ino, ours.st_size, ours.st_mtime_ns, sha256)

    def stands_in(self, found: os.stat_result) -> bool:
        """Whether that is the same file, and nobody wrote to it, as far as `stat` can tell."""
        return (self.ino, self.size, self.mtime_ns) == (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
        )

    def extends_to(self, found: os.stat_result) -> bool:
        """Whether that is the same file, with nothing taken from its end."""
        return self.ino == found.st_ino and self.size <= found.st_size


def awaited(fd: int) -> bool:
    """Whether nobody has the file open for writing any more, after a short while at most."""
    for seconds in _GRACE_SECONDS:
        if seconds:
            _os.pause(seconds)
        if not _os.is_written_by_others(fd):
            return True
    return False


def rescue(place: ResolvedPath, fd: int, known: Known, keep: Keep) -> Known:
    """Keep what another program wrote to the open file that lost its name, appended if it can be.

    Gives the state known then. Raises OSError, Refusal.
    """
    found = _os.fstat(fd)
    digest = sha256_of(fd, found.st_size)
    kept = Known(found.st_ino, found.st_size, found.st_mtime_ns, lambda: digest)
    if known.extends_to(found) and sha256_of(fd, known.size) == known.sha256():
        tail = read_at(fd, found.st_size - known.size, known.size)
        if not tail or _appended(place, tail):
            return kept
    keep(place.real, read_at(fd, found.st_size, 0), None)
    return kept


def rescued(place: ResolvedPath, temp: bytes, fd: int, known: Known, keep: Keep) -> None:
    """Remove the open file's temporary name once nothing is lost; OSError, NotPutBack."""
    awaited(fd)
    try:
        rescue(place, fd, known, keep)
    except Refusal as refused:
        raise NotPutBack(f"{temp.decode()}: {refused.facts().get('reason')}") from refused
    discard(place.dir_fd, temp)


def opened(place: ResolvedPath, name: bytes, held: ExitStack) -> int:
    """The regular file of this name, open for reading; -1 for anything else. Raises OSError."""
    try:
        fd = _os.open_read(place.dir_fd, name)
    except OSError as refused:
        if refused.errno in _NO_FILE:
            return -1
        raise
    held.callback(_os.close_quietly, fd)
    return fd if stat.S_ISREG(_os.fstat(fd).st_mode) else -1


_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)


def _appended(place: ResolvedPath, tail: bytes) -> bool:
    """Whether the bytes are now at the end of the file that has the name."""
    if place.missing or place.blocked:
        return False
    try:
        fd = _os.open_append(place.dir_fd, place.name)
    except OSError:
        return False
    try:
        written = _os.write(fd, tail) == len(tail)
        return written and _os.lstat(place.dir_fd, place.name).st_ino == _os.fstat(fd).st_ino
    except OSError:
        return False
    finally:
        _os.close_quietly(fd)


@dataclass(frozen=True, slots=True)
class _Late:
    due: float
    fd: int
    real: RelPath
    known: Known


class LateLooks(Closing):
    """Handles of nameless files, each looked at once more for late writes, then closed."""

    def __init__(
        self, find: Callable[[RelPath], AbstractContextManager[ResolvedPath]], keep: Keep
    ) -> None:
        self._find, self._keep = find, keep
        self._waiting: deque[_Late] = deque()
        self._lock, self._closed = Lock(), False
        self._soon = Soon(LATE_SECONDS)

    def take(self, fd: int, real: RelPath, known: Known) -> None:
        """Look at the file in a moment, and close the handle."""
        with self._lock:
            self._waiting.append(_Late(time.monotonic() + LATE_SECONDS, fd, real, known))
            early = self._waiting.popleft() if len(self._waiting) > _MOST_LATE else None
        if early is not None:
            self._look(early)
        self._soon.do(self._look_at_due)

    def close(self) -> None:
        """Look at all of them now."""
        self._closed = True
        self._soon.close()
        while self._waiting:
            self._look(self._waiting.popleft())

    def _look_at_due(self) -> None:
        while not self._closed:
            with self._lock:
                if not self._waiting or self._waiting[0].due > time.monotonic():
                    break
                late = self._waiting.popleft()
            self._look(late, again=True)
        if self._waiting:
            self._soon.do(self._look_at_due)

    def _look(self, late: _Late, *, again: bool = False) -> None:
        try:
            found = _os.fstat(late.fd)
            if not late.known.stands_in(found):
                late = replace(late, known=self._rescue(late))
            if again and _os.is_written_by_others(late.fd) and not self._closed:
                self.take(late.fd, late.real, late.known)  # it is kept open: look again
                return
        except (OSError, Refusal):
            pass  # nobody is there who could be told
        _os.close_quietly(late.fd)

    def _rescue(self, late: _Late) -> Known:
        with self._find(late.real) as place:
            return rescue(place, late.fd, late.known, self._keep)
