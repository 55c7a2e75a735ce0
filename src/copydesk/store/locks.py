"""Exclusion across processes: one lock file for each key, in the state folder.

What lives here: advisory locks of the operating system. What must not: the
documents (a rename would swap the inode and the lock with it). Invariants: a
process that dies lets go of its locks at that moment; who waits is woken, and
does not look again and again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread, local

from copydesk.errors import StateFailed, check_cancelled, poll_seconds

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        while True:
            try:
                msvcrt.locking(fd, msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten tries of a second; we do not
                continue
            return

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_KEPT = 64
"""So many handles are kept open, of the keys used last."""


def _wait(fd: int) -> None:
    """Lock the handle as soon as it falls free; raises Cancelled, and closes it then.

    A thread waits in the system's queue for it, since that wait cannot be ended from outside.
    """
    if poll_seconds() is None:
        try:
            _lock(fd)
        except BaseException:
            os.close(fd)
            raise
        return
    deciding, locked = Lock(), Event()
    failure: list[BaseException] = []
    given_up = False

    def wait() -> None:
        try:
            _lock(fd)
        except OSError as error:
            failure.append(error)
        with deciding:
            if given_up:
                os.close(fd)
            locked.set()

    Thread(target=wait, name="copydesk lock", daemon=True).start()
    try:
        while not locked.wait(poll_seconds()):
            check_cancelled()
    except BaseException:
        with deciding:
            given_up = True
            if locked.is_set():
                os.close(fd)
        raise
    if failure:
        os.close(fd)
        raise failure[0]


class _Held(local):
    """What the thread at hand has locked: paths and handles."""

    def __init__(self) -> None:
        self.locks: list[tuple[str, int]] = []


class FileLocks:
    """Locks by key, among all processes that use the folder, and all threads of this one.

    `make` makes the folder, or refuses; it is asked first, and when the folder was removed
    while it was in use.
    """

    def __init__(self, folder: str, make: Callable[[], object] = lambda: None) -> None:
        self._folder, self._make, self._made = folder, make, False
        self._kept: dict[str, int] = {}
        self._lock = Lock()
        self._held = _Held()

    @contextmanager
    def hold(self, key: str) -> Generator[None, None, None]:
        """Wait until nobody else holds the key, and hold it."""
        fd = self._taken(key)
        mine = (self._path(key), fd)
        self._held.locks.append(mine)
        try:
            yield
        except BaseException:
            os.close(fd)
            raise
        finally:
            self._held.locks.remove(mine)
        self._keep(key, fd)

    def are_held(self) -> bool:
        """Whether all files that this thread has locked still have their paths.

        Another process may hold the same key by a new file where they do not.
        """
        return all(_is_at(path, fd) for path, fd in self._held.locks)

    def close(self) -> None:
        """Let the handles go that are not in use."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for fd in kept.values():
            os.close(fd)

    def _taken(self, key: str) -> int:
        """A handle of the key's file, locked; no other thread has the same one."""
        path = self._path(key)
        while True:
            with self._lock:
                fd = self._kept.pop(key, -1)
            if fd < 0:
                fd = self._open(path)
            if not _try_lock(fd):
                _wait(fd)
            try:
                if _is_at(path, fd):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed or replaced the file: others lock another one

    def _keep(self, key: str, fd: int) -> None:
        _unlock(fd)
        with self._lock:
            if key in self._kept:
                gone = fd
            else:
                self._kept[key] = fd
                gone = self._kept.pop(next(iter(self._kept))) if len(self._kept) > _KEPT else -1
        if gone >= 0:
            os.close(gone)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, hashlib.sha256(key.encode()).hexdigest()[:24])

    def _open(self, path: str) -> int:
        try:
            if self._made:
                with suppress(FileNotFoundError, NotADirectoryError):
                    return os.open(path, _FLAGS, 0o600)
            self._make()
            self._made = True
            return os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise StateFailed("lock", error.strerror or str(error), path) from None


def _is_at(path: str, fd: int) -> bool:
    """Whether the open file is the one that has the path now."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
