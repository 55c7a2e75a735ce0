"""Temporary files next to a file to be replaced: names, attributes of the old file, flushes.

Invariants: a temporary name belongs to copydesk and is never that of a user's document; a file
named as under construction holds only copydesk's bytes, while any other temporary file may hold
what another program saved; a new file never grants more than the old one did, even if not
everything can be copied.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import TypeVarTuple

from copydesk.store import _os
from copydesk.store.contents import Closing, in_thread, write_pieces
from copydesk.store.protocol import EXECUTABLE, Durability, Piece, Removed

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}(-new)?\.tmp")
_NEW = b"-new.tmp"
_NO_UNNAMED = (
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EISDIR,
    errno.ENOENT,
    errno.EINVAL,
)
GLOB = ".copydesk-????????????*.tmp"


def open_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """Create a temporary file for `target` and open it for writing; raises OSError."""
    while True:
        name = _new_name(target, _NEW)
        try:
            return _os.open_new(dir_fd, name, mode), name
        except FileExistsError:
            continue


def open_unnamed_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """The same, without a name if possible, so that a kill leaves nothing; see `name_temp`."""
    try:
        return _os.open_unnamed(dir_fd, mode), b""
    except OSError as refused:
        if refused.errno not in _NO_UNNAMED:
            raise
    return open_temp(dir_fd, mode, target)


def name_temp(fd: int, dir_fd: int, target: bytes) -> bytes:
    """Give a file without a name a temporary one; return it."""
    while True:
        name = _new_name(target)
        try:
            _os.give_name(fd, dir_fd, name)
        except FileExistsError:
            continue
        return name


def link_temp(from_fd: int, name: bytes, dir_fd: int, target: bytes) -> bytes:
    """Link a file to a temporary name next to `target`; raises OSError."""
    while True:
        temp = _new_name(target)
        try:
            _os.link(from_fd, name, temp, dir_fd)
        except FileExistsError:
            continue
        return temp


def finished(dir_fd: int, name: bytes, target: bytes) -> bytes:
    """Mark a temporary file as complete; return its new name. Raises OSError."""
    if not is_unfinished(name):
        return name
    done = _new_name(target)
    _os.rename(dir_fd, name, done)
    return done


def move_away(dir_fd: int, target: bytes) -> bytes:
    """Rename a file to a temporary name and return that; raises OSError."""
    name = _new_name(target)
    _os.rename(dir_fd, target, name)
    return name


def is_temp(name: bytes) -> bool:
    """Whether the name is one of copydesk's temporary names."""
    return _NAME.fullmatch(name) is not None


def is_unfinished(name: bytes) -> bool:
    """Whether the name is that of a file under construction, which nobody else has written to."""
    return name.endswith(_NEW)


def discard(dir_fd: int, name: bytes) -> None:
    """Remove a temporary file if it still exists; never raises OSError."""
    for _ in range(2):  # a passing fault must not leave it behind
        try:
            _os.unlink(dir_fd, name)
        except FileNotFoundError:
            return
        except OSError:
            continue  # the caller must hear of the earlier failure instead
        return


def stale_temps(dir_fd: int, before_ns: int) -> list[bytes]:
    """Temporary files not touched since `before_ns` that no process has open; raises OSError."""
    stale = [name for name in _temps(dir_fd) if _touched(dir_fd, name) < before_ns]
    return [name for name in stale if not _is_in_use(dir_fd, name)]


def temps_of(dir_fd: int, target: bytes) -> list[bytes]:
    """The names of temporary files that were created for `target`; raises OSError."""
    return [name for name in _temps(dir_fd) if is_temp_of(name, target)]


def is_temp_of(name: bytes, target: bytes) -> bool:
    """Whether a temporary name was created for `target`, as far as the name tells."""
    return name.startswith(_start(target))


def _is_in_use(dir_fd: int, name: bytes) -> bool:
    try:
        fd = _os.open_read(dir_fd, name)
    except OSError:  # it is gone, or not a file that anybody writes
        return False
    try:
        return bool(_os.is_open_elsewhere(fd))
    finally:
        _os.close_quietly(fd)


def _new_name(target: bytes, end: bytes = b".tmp") -> bytes:
    return b"%s%s%s" % (_start(target), os.urandom(3).hex().encode(), end)


def _start(target: bytes) -> bytes:
    """The prefix of all temporary names of a target."""
    return b".copydesk-%s" % hashlib.sha256(target).hexdigest()[:6].encode()


def _temps(dir_fd: int) -> list[bytes]:
    listing_fd = _os.open_listing(dir_fd)
    try:
        return [name for name in map(os.fsencode, os.listdir(listing_fd)) if is_temp(name)]
    finally:
        _os.close_quietly(listing_fd)


def _touched(dir_fd: int, name: bytes) -> int:
    """The last time it was written or renamed; a file moved away keeps its old mtime."""
    try:
        found = _os.lstat(dir_fd, name)
    except FileNotFoundError:
        return 1 << 63
    return max(found.st_mtime_ns, found.st_ctime_ns)


Args = TypeVarTuple("Args")
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


def copy_attributes(old_fd: int, old: os.stat_result, new_fd: int, new: os.stat_result) -> None:
    """Copy owner, extended attributes, ACL and mode of the old file to the new one.

    What the caller is not allowed to set is left out. If the owner cannot be kept, set-user-id is
    dropped; if the group cannot, set-group-id is dropped and the group gets no more rights than
    others. Raises OSError for errors other than missing permission.
    """
    owner = old.st_uid, old.st_gid
    _set_attributes(new_fd, new, owner, old.st_mode, lambda: _copy_extended(old_fd, new_fd))


def attributes_of(fd: int) -> Removed:
    """What a removal of the open file deletes besides its bytes; raises OSError."""
    found = _os.fstat(fd)
    pairs: list[tuple[str, bytes]] = []
    for name in _names(fd):
        with suppress(OSError):  # it was removed, or may not be read
            pairs.append((name, _os.get_attribute(fd, name)))
    owner = found.st_uid, found.st_gid
    return Removed(found.st_mode, tuple(pairs), (found.st_dev, found.st_ino), "", owner)


def restore_attributes(fd: int, removed: Removed) -> None:
    """Give a new file the attributes of a removed one, as `copy_attributes` does; OSError."""
    if removed == EXECUTABLE:
        mode = stat.S_IMODE(_os.fstat(fd).st_mode)
        _os.chmod(fd, mode | (mode & 0o444) >> 2)
        return

    def extend() -> None:
        for name, value in removed.attributes:
            _allowed(_os.set_attribute, fd, name, value)

    _set_attributes(fd, _os.fstat(fd), removed.owner, removed.mode, extend)


def _set_attributes(
    new_fd: int,
    new: os.stat_result,
    owner: tuple[int, int],
    old_mode: int,
    extend: Callable[[], None],
) -> None:
    same_owner = owner[0] == new.st_uid or _allowed(_os.chown, new_fd, owner[0], -1)
    same_group = owner[1] == new.st_gid or _allowed(_os.chown, new_fd, -1, owner[1])
    extend()
    mode = stat.S_IMODE(old_mode)
    if not same_owner:
        mode &= ~stat.S_ISUID
    if not same_group:
        mode = (mode & ~(stat.S_ISGID | stat.S_IRWXG)) | (mode & stat.S_IRWXG & mode << 3)
    _os.chmod(new_fd, mode)


def _copy_extended(old_fd: int, new_fd: int) -> None:
    _allowed(_os.copy_attributes_at_once, old_fd, new_fd)
    wanted = _names(old_fd)
    for name in _names(new_fd):
        # A default ACL of the directory could open the new file to others; labels of a security
        # system are left to that system.
        if name not in wanted and not name.startswith("security."):
            _allowed(_os.remove_attribute, new_fd, name)
    for name in wanted:
        _allowed(_copy_one, old_fd, new_fd, name)


def _copy_one(old_fd: int, new_fd: int, name: str) -> None:
    _os.set_attribute(new_fd, name, _os.get_attribute(old_fd, name))


def _names(fd: int) -> list[str]:
    try:
        return _os.list_attributes(fd)
    except OSError as refused:
        if refused.errno not in _NOT_ALLOWED:
            raise
        return []


def _allowed(call: Callable[[*Args], None], *args: *Args) -> bool:
    try:
        call(*args)
    except OSError as refused:
        if refused.errno not in _NOT_ALLOWED:
            raise
        return False
    return True


class DirFlush(Closing):
    """A directory to flush if that is `wanted`; the constructor raises OSError."""

    def __init__(self, dir_fd: int, *, wanted: bool) -> None:
        self._dir_fd = dir_fd
        self._wanted = wanted
        self._fd = -1
        if wanted:
            with suppress(PermissionError):  # a directory may be writable but not listable
                self._fd = _os.open_listing(dir_fd)

    def close(self) -> None:
        """Close the directory."""
        if self._fd >= 0:
            _os.close_quietly(self._fd)

    def now(self, name: bytes) -> None:
        """Flush the directory after `name` changed, or the file if it is not listable; OSError."""
        if self._fd >= 0:
            _sync_if_possible(self._fd)
        elif self._wanted:
            fd = _os.open_read(self._dir_fd, name)
            try:
                _sync_if_possible(fd)
            finally:
                _os.close_quietly(fd)


_HAND_OVER_SECONDS = 0.001


class FileFlush(Closing):
    """Flushes a new file in a thread; the context waits for the thread to end."""

    def __init__(self) -> None:
        self._done: Future[None] | None = None

    def close(self) -> None:
        """Wait until the flush ends."""
        if self._done is not None:
            wait((self._done,))

    def take(self, fd: int) -> None:
        """Start the flush; the caller keeps the handle."""
        begun = Event()

        def flush() -> None:
            begun.set()
            _os.sync(fd)

        self._done = in_thread(flush)
        begun.wait(_HAND_OVER_SECONDS)  # otherwise it waits until the caller releases the GIL

    def wait(self) -> None:
        """Wait until the file, if one was taken, is on the disk; raises OSError."""
        if self._done is not None:
            self._done.result()


def _sync_if_possible(fd: int) -> None:
    try:
        _os.sync(fd)
    except OSError as refused:
        if refused.errno not in (errno.EINVAL, errno.ENOTSUP):  # some cannot flush directories
            raise


@dataclass(slots=True)
class NewFile:
    """A finished new file next to its target; without a name it is open as `fd`."""

    name: bytes
    fd: int
    stat: os.stat_result

    def named(self, dir_fd: int, target: bytes) -> bytes:
        """Make sure that it has a name, and return it; raises OSError."""
        if self.fd >= 0:
            if not self.name:
                self.name = name_temp(self.fd, dir_fd, target)
            fd, self.fd = self.fd, -1
            _os.close(fd)
        self.name = finished(dir_fd, self.name, target)
        return self.name

    def gone(self, dir_fd: int) -> None:
        """Remove it; never raises OSError."""
        fd, self.fd, name, self.name = self.fd, -1, self.name, b""
        if fd >= 0:
            _os.close_quietly(fd)
        if name:
            discard(dir_fd, name)


def copy_beside(
    dir_fd: int,
    target: bytes,
    old_fd: int,
    old: os.stat_result,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    flush: FileFlush | None = None,
) -> NewFile:
    """Create a finished file with these pieces and the old attributes, nameless if possible."""
    fd, name = open_unnamed_temp(dir_fd, 0o600, target)
    try:
        write_pieces(fd, pieces, old_fd, start=durability == "full")
        ours = _os.fstat(fd)
        copy_attributes(old_fd, old, fd, ours)
        if durability == "full" and flush is not None:
            flush.take(fd)
        elif durability == "full":
            _os.sync(fd)
    except BaseException:
        NewFile(name, fd, old).gone(dir_fd)
        raise
    return NewFile(name, fd, ours)
