"""Flushes: of a directory, so that a rename in it survives a power cut, and of a file.

What lives here: the handle of the directory, opened before the rename, and the
thread that flushes a large file while others work. What must not: the rename.
Invariant: once the context is entered only the flush itself can still fail.
"""

from __future__ import annotations

import errno
from concurrent.futures import Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Self

from copydesk.store import _os
from copydesk.store.closing import Closing
from copydesk.store.threads import beside


class DirFlush:
    """A directory that will be flushed, if that is wanted; raises OSError on entry."""

    def __init__(self, dir_fd: int, *, wanted: bool) -> None:
        self._dir_fd = dir_fd
        self._wanted = wanted
        self._fd = -1

    def __enter__(self) -> Self:
        if self._wanted:
            with suppress(PermissionError):  # one may write where one may not list
                self._fd = _os.open_listing(self._dir_fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd >= 0:
            _os.close_quietly(self._fd)

    def now(self, name: bytes) -> None:
        """Flush the directory after `name` changed in it; raises OSError.

        Where it cannot be listed the file of that name is flushed, which takes
        the rename with it on every journalling file system.
        """
        if self._fd >= 0:
            _sync_if_possible(self._fd)
        elif self._wanted:
            fd = _os.open_read(self._dir_fd, name)
            try:
                _sync_if_possible(fd)
            finally:
                _os.close_quietly(fd)


class FileFlush(Closing):
    """A new file that is flushed in a thread; a context, it ends when that has."""

    def __init__(self) -> None:
        self._done: Future[None] | None = None

    def close(self) -> None:
        """Wait until it is flushed."""
        if self._done is not None:
            wait((self._done,))

    def take(self, fd: int) -> None:
        """Begin; the handle stays the caller's."""
        self._done = beside(_os.sync, fd)

    def wait(self) -> None:
        """Return when the file that was taken, if any was, is on the disk; raises OSError."""
        if self._done is not None:
            self._done.result()


def _sync_if_possible(fd: int) -> None:
    try:
        _os.sync(fd)
    except OSError as refused:
        if refused.errno not in (errno.EINVAL, errno.ENOTSUP):  # some systems flush no directory
            raise
