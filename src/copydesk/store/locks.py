"""Exclusion across processes: one lock file for each key, in the state folder.

What lives here: advisory locks of the operating system. What must not: the
documents (a rename would swap the inode and the lock with it). Invariant: a
process that dies lets go of its locks at that moment.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from copydesk.errors import Failed

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        while True:
            try:
                msvcrt.locking(fd, msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten tries of a second; we do not
                continue
            return
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)


class FileLocks:
    """Locks by key, among all processes that use the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, key: str) -> Generator[None, None, None]:
        """Wait until no other process holds the key, and hold it."""
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        path = os.path.join(self._folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Failed("lock", f"{error.strerror}: {path}") from None
        try:
            _lock(fd)
            yield
        finally:
            os.close(fd)
