"""Temporary files beside the files they will replace.

What lives here: their names, and the removal of those that a killed process
left. What must not: what is written to them. Invariant: a name of this form is
copydesk's alone and never anybody's document.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re

from copydesk.store import _os

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}\.tmp")
_NO_UNNAMED = (
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EISDIR,
    errno.ENOENT,
    errno.EINVAL,
)
GLOB = ".copydesk-????????????.tmp"


def open_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """A new file to take the place of `target`, open for writing, and its name; raises OSError."""
    while True:
        name = _new_name(target)
        try:
            return _os.open_new(dir_fd, name, mode), name
        except FileExistsError:
            continue


def open_unnamed_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """The same without its name yet, where the system can: what is killed then leaves nothing.

    The name is empty then; `name_temp` gives it one.
    """
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


def move_away(dir_fd: int, target: bytes) -> bytes:
    """Take the file of this name out of the way; its new name. Raises OSError."""
    name = _new_name(target)
    _os.rename(dir_fd, target, name)
    return name


def is_temp(name: bytes) -> bool:
    """Whether the name is one of ours."""
    return _NAME.fullmatch(name) is not None


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


def sweep(dir_fd: int, before_ns: int) -> int:
    """Remove temporary files that were last touched before `before_ns`; how many.

    What a process that is alive has open stays. Raises OSError.
    """
    stale = [name for name in _temps(dir_fd) if _touched(dir_fd, name) < before_ns]
    return sum(_discarded_if_left(dir_fd, name) for name in stale)


def temps_of(dir_fd: int, target: bytes) -> list[bytes]:
    """The names of the temporary files that were made for `target`; raises OSError."""
    return [name for name in _temps(dir_fd) if name.startswith(_start(target))]


def _discarded_if_left(dir_fd: int, name: bytes) -> bool:
    try:
        fd = _os.open_read(dir_fd, name)
    except FileNotFoundError:
        return False
    try:
        if _os.is_open_elsewhere(fd):
            return False
    finally:
        _os.close_quietly(fd)
    discard(dir_fd, name)
    return True


def _new_name(target: bytes) -> bytes:
    return b"%s%s.tmp" % (_start(target), os.urandom(3).hex().encode())


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
    found = _os.lstat(dir_fd, name)
    return max(found.st_mtime_ns, found.st_ctime_ns)
