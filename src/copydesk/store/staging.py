"""Beside a file that is replaced: temporary names, the attributes of the old file, flushes.

Invariants: a temporary name is copydesk's alone and never anybody's document; what has the name of
a file under construction holds bytes of copydesk alone, any other may be what another program
saved; a new file never grants more than the old one did, also when not everything can be copied.
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
    """A new file for `target`, open for writing, and its temporary name; raises OSError."""
    while True:
        name = _new_name(target, _NEW)
        try:
            return _os.open_new(dir_fd, name, mode), name
        except FileExistsError:
            continue


def open_unnamed_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """The same without a name where possible, so nothing is left by a kill; see `name_temp`."""
    try:
        return _os.open_unnamed(dir_fd, mode), b""
    except OSError as refused:
        if refused.errno not in _NO_UNNAMED:
            raise
    return open_temp(dir_fd, mode, target)


def name_temp(fd: int, dir_fd: int, target: bytes) -> bytes:
    """The name that a file without one has from now on."""
    while True:
        name = _new_name(target)
        try:
            _os.give_name(fd, dir_fd, name)
        except FileExistsError:
            continue
        return name


def link_temp(from_fd: int, name: bytes, dir_fd: int, target: bytes) -> bytes:
    """A temporary name next to `target` for the file of another name; raises OSError."""
    while True:
        temp = _new_name(target)
        try:
            _os.link(from_fd, name, temp, dir_fd)
        except FileExistsError:
            continue
        return temp


def finished(dir_fd: int, name: bytes, target: bytes) -> bytes:
    """The name of a complete file from now on, which another file may have next; raises OSError."""
    if not is_unfinished(name):
        return name
    done = _new_name(target)
    _os.rename(dir_fd, name, done)
    return done


def move_away(dir_fd: int, target: bytes) -> bytes:
    """Take the file of this name out of the way; its new name. Raises OSError."""
    name = _new_name(target)
    _os.rename(dir_fd, target, name)
    return name


def is_temp(name: bytes) -> bool:
    """Whether the name is one of ours."""
    return _NAME.fullmatch(name) is not None


def is_unfinished(name: bytes) -> bool:
    """Whether it is the name of a file under construction: nobody else has written to it."""
    return name.endswith(_NEW)


def discard(dir_fd: int, name: bytes) -> None:
    """Remove a temporary file, if it is still there; never raises OSError."""
    for _ in range(2):  # a fault that passes shall not leave it behind
        try:
            _os.unlink(dir_fd, name)
        except FileNotFoundError:
            return
        except OSError:
            continue  # what failed before is what the caller must hear of
        return


def stale_temps(dir_fd: int, before_ns: int) -> list[bytes]:
    """Temporary files last touched before `before_ns` that no process has open; OSError."""
    stale = [name for name in _temps(dir_fd) if _touched(dir_fd, name) < before_ns]
    return [name for name in stale if not _is_in_use(dir_fd, name)]


def temps_of(dir_fd: int, target: bytes) -> list[bytes]:
    """The names of the temporary files that were made for `target`; raises OSError."""
    return [name for name in _temps(dir_fd) if is_temp_of(name, target)]


def is_temp_of(name: bytes, target: bytes) -> bool:
    """Whether a temporary name was made for `target`, as far as the name tells."""
    return name.startswith(_start(target))


def _is_in_use(dir_fd: int, name: bytes) -> bool:
    try:
        fd = _os.open_read(dir_fd, name)
    except OSError:  # it is gone, or no file that anybody writes
        return False
    try:
        return bool(_os.is_open_elsewhere(fd))
    finally:
        _os.close_quietly(fd)


def _new_name(target: bytes, end: bytes = b".tmp") -> bytes:
    return b"%s%s%s" % (_start(target), os.urandom(3).hex().encode(), end)


def _start(target: bytes) -> bytes:
    """How the names of the temporary files of one target begin."""
    return b".copydesk-%s" % hashlib.sha256(target).hexdigest()[:6].encode()


def _temps(dir_fd: int) -> list[bytes]:
    listing_fd = _os.open_listing(dir_fd)
    try:
        return [name for name in map(os.fsencode, os.listdir(listing_fd)) if is_temp(name)]
    finally:
        _os.close_quietly(listing_fd)


def _touched(dir_fd: int, name: bytes) -> int:
    """When it was last written, or renamed: what was taken out of the way is as old as it was."""
    try:
        found = _os.lstat(dir_fd, name)
    except FileNotFoundError:
        return 1 << 63
    return max(found.st_mtime_ns, found.st_ctime_ns)


Args = TypeVarTuple("Args")
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


def copy_attributes(old_fd: int, old: os.stat_result, new_fd: int, new: os.stat_result) -> None:
    """Make owner, extended attributes, ACL and mode of the new file those of the old one.

    What the caller is not allowed to set is left out; a set-id bit goes with
    the owner it stands for, and a group that is not the old one gets no more
    than others had. Raises OSError for what is not a matter of permission.
    """
    owner = old.st_uid, old.st_gid
    _set_attributes(new_fd, new, owner, old.st_mode, lambda: _copy_extended(old_fd, new_fd))


def attributes_of(fd: int) -> Removed:
    """What a removal of the open file takes away next to its bytes; raises OSError."""
    found = _os.fstat(fd)
    pairs: list[tuple[str, bytes]] = []
    for name in _names(fd):
        with suppress(OSError):  # it went, or may not be read
            pairs.append((name, _os.get_attribute(fd, name)))
    owner = found.st_uid, found.st_gid
    return Removed(found.st_mode, tuple(pairs), (found.st_dev, found.st_ino), "", owner)


def restore_attributes(fd: int, removed: Removed) -> None:
    """Give a new file what a removed one had, as `copy_attributes` does; raises OSError."""
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
        # A default ACL of the directory would open the new file to others;
        # the labels of a security system are its own business.
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
    """A directory that will be flushed, if that is wanted; raises OSError when it is made."""

    def __init__(self, dir_fd: int, *, wanted: bool) -> None:
        self._dir_fd = dir_fd
        self._wanted = wanted
        self._fd = -1
        if wanted:
            with suppress(PermissionError):  # one may write where one may not list
                self._fd = _os.open_listing(dir_fd)

    def close(self) -> None:
        """Close the directory."""
        if self._fd >= 0:
            _os.close_quietly(self._fd)

    def now(self, name: bytes) -> None:
        """Flush the directory after `name` changed, or that file if not listable; OSError."""
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
    """A new file that is flushed in a thread; a context, it ends when that has."""

    def __init__(self) -> None:
        self._done: Future[None] | None = None

    def close(self) -> None:
        """Wait until it is flushed."""
        if self._done is not None:
            wait((self._done,))

    def take(self, fd: int) -> None:
        """Begin; the handle stays the caller's."""
        begun = Event()

        def flush() -> None:
            begun.set()
            _os.sync(fd)

        self._done = in_thread(flush)
        begun.wait(_HAND_OVER_SECONDS)  # else it waits until the caller lets go of Python's lock

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


@dataclass(slots=True)
class NewFile:
    """A finished new file next to its target; it may have no name yet, and `fd` then."""

    name: bytes
    fd: int
    stat: os.stat_result

    def named(self, dir_fd: int, target: bytes) -> bytes:
        """Its name from now on; raises OSError."""
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
    """A finished new file with pieces and attributes, nameless if possible; raises OSError."""
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
