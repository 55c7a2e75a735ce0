"""Temporary files next to a file to be changed: names, attributes of the old file, flushes.

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
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVarTuple

from copydesk.store import _os
from copydesk.store.protocol import EXECUTABLE, Removed

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}(-new)?\.tmp")
UNFINISHED = b"-new.tmp"
"""The end of the name of a file under construction, which nobody else has written to."""

GLOB = ".copydesk-????????????*.tmp"


def new_temp(target: bytes, end: bytes = b".tmp") -> bytes:
    """A temporary name for `target`, which is free as far as chance goes."""
    told = (hashlib.sha256(target).digest()[:3] + os.urandom(3)).hex()
    return b".copydesk-%s%s" % (told.encode(), end)


def is_temp(name: bytes) -> bool:
    """Whether the name is one of copydesk's temporary names."""
    return _NAME.fullmatch(name) is not None


def is_temp_of(name: bytes, target: bytes) -> bool:
    """Whether a temporary name was created for `target`, as far as the name tells."""
    return name.startswith(b".copydesk-%s" % hashlib.sha256(target).hexdigest()[:6].encode())


def discard(dir_fd: int, name: bytes) -> None:
    """Remove a temporary file if it still exists; never raises OSError."""
    for _ in range(2):  # a passing fault must not leave it behind
        try:
            _os.unlink(name, dir_fd=dir_fd)
        except FileNotFoundError:
            return
        except OSError:
            continue  # the caller must hear of the earlier failure instead
        return


def temps(dir_fd: int) -> list[bytes]:
    """The names of temporary files in a directory; raises OSError."""
    listing_fd = _os.open_listing(dir_fd)
    try:
        return [name for name in map(os.fsencode, os.listdir(listing_fd)) if is_temp(name)]
    finally:
        _os.close_quietly(listing_fd)


def is_stale(dir_fd: int, name: bytes, before_ns: int) -> bool:
    """Whether a file was not touched since `before_ns`, and no process has it open; OSError."""
    with suppress(FileNotFoundError):
        found = _os.lstat(name, dir_fd=dir_fd)
        # A file that was moved away keeps its old mtime.
        if max(found.st_mtime_ns, found.st_ctime_ns) < before_ns:
            try:
                fd = _os.open_read(dir_fd, name)
            except OSError:  # it is not a file that anybody writes
                return True
            try:
                return not _os.is_used(fd, _os.ALONE)
            finally:
                _os.close_quietly(fd)
    return False


Args = TypeVarTuple("Args")
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


def attributes_of(fd: int, found: os.stat_result) -> Removed:
    """What a removal of the open file deletes besides its bytes, as far as it may be read; OSError.

    `found` is its `stat`.
    """
    pairs: list[tuple[str, bytes]] = []
    for name in _names(fd):
        try:
            pairs.append((name, _os.get_attribute(fd, name)))
        except OSError as refused:  # it was removed, or may not be read
            if refused.errno not in _NOT_ALLOWED:
                raise
    owner = found.st_uid, found.st_gid
    return Removed(found.st_mode, tuple(pairs), (found.st_dev, found.st_ino), "", owner)


def set_attributes(fd: int, ours: os.stat_result, wanted: Removed) -> None:
    """Give a new file owner, mode, ACL and extended attributes of an old one.

    What the caller is not allowed to set is left out. If the owner cannot be kept, set-user-id is
    dropped; if the group cannot, set-group-id is dropped and the group gets no more rights than
    others. Raises OSError for errors other than missing permission.
    """
    if wanted == EXECUTABLE:
        _os.chmod(fd, stat.S_IMODE(ours.st_mode) | (ours.st_mode & 0o444) >> 2)
        return
    user, group = wanted.owner
    same_user = user == ours.st_uid or allowed(_os.chown, fd, user, -1)
    same_group = group == ours.st_gid or allowed(_os.chown, fd, -1, group)
    kept = dict(wanted.attributes)
    for name in _names(fd):
        # A default ACL of the directory could open the new file to others; labels of a security
        # system are left to that system.
        if name not in kept and not name.startswith("security."):
            allowed(_os.remove_attribute, fd, name)
    for name, value in wanted.attributes:
        allowed(_os.set_attribute, fd, name, value)
    mode = stat.S_IMODE(wanted.mode)
    if not same_user:
        mode &= ~stat.S_ISUID
    if not same_group:
        mode = (mode & ~(stat.S_ISGID | stat.S_IRWXG)) | (mode & stat.S_IRWXG & mode << 3)
    _os.chmod(fd, mode)


def _names(fd: int) -> list[str]:
    try:
        return _os.list_attributes(fd)
    except OSError as refused:
        if refused.errno not in _NOT_ALLOWED:
            raise
        return []


def allowed(call: Callable[[*Args], object], *args: *Args) -> bool:
    """Whether the call was allowed; other errors are raised."""
    try:
        call(*args)
    except OSError as refused:
        if refused.errno not in _NOT_ALLOWED:
            raise
        return False
    return True


def flush_dir(dir_fd: int, name: bytes) -> None:
    """Flush a directory after `name` changed, or the file if it is not listable; raises OSError."""
    fd = -1
    try:
        try:
            _os.sync(dir_fd)
        except OSError as refused:
            if refused.errno != errno.EBADF:  # it could be opened only for searching
                raise
            fd = _os.open_read(dir_fd, name)
            _os.sync(fd)
    except OSError as refused:
        if refused.errno not in (errno.EINVAL, errno.ENOTSUP):  # some cannot flush directories
            raise
    finally:
        if fd >= 0:
            _os.close_quietly(fd)
