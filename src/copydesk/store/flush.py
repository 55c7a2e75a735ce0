"""The flush of a directory, so that a rename in it survives a power cut.

What lives here: the handle for it, opened before the rename. What must not:
the rename. Invariant: once the context is entered only the flush itself can
still fail.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from types import TracebackType
from typing import Self

from copydesk.store import _os


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


def _sync_if_possible(fd: int) -> None:
    try:
        _os.sync(fd)
    except OSError as refused:
        if refused.errno not in (errno.EINVAL, errno.ENOTSUP):  # some systems flush no directory
            raise
