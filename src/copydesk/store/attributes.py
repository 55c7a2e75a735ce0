"""What a file has besides its bytes: owner, mode, ACL, extended attributes.

What lives here: giving them to the file that takes another's place. What must
not: names and directories. Invariant: the new file never grants more than the
old one did, also when the system does not let us copy everything.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeVarTuple

from copydesk.store import _os

Args = TypeVarTuple("Args")
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


def copy_attributes(old_fd: int, old: os.stat_result, new_fd: int, new: os.stat_result) -> None:
    """Make owner, extended attributes, ACL and mode of the new file those of the old one.

    What the caller is not allowed to set is left out; a set-id bit goes with
    the owner it stands for, and a group that is not the old one gets no more
    than others had. Raises OSError for what is not a matter of permission.
    """
    same_owner = old.st_uid == new.st_uid or _allowed(_os.chown, new_fd, old.st_uid, -1)
    same_group = old.st_gid == new.st_gid or _allowed(_os.chown, new_fd, -1, old.st_gid)
    _copy_extended(old_fd, new_fd)
    mode = stat.S_IMODE(old.st_mode)
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
