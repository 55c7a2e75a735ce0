"""Temporary files beside the files they will replace.

What lives here: their names, and the removal of those that a killed process
left. What must not: what is written to them. Invariant: a name of this form is
copydesk's alone and never anybody's document.
"""

from __future__ import annotations

import hashlib
import os
import re

from copydesk.store import _os

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}\.tmp")
GLOB = ".copydesk-????????????.tmp"


def open_temp(dir_fd: int, mode: int, target: bytes) -> tuple[int, bytes]:
    """A new file to take the place of `target`, open for writing, and its name; raises OSError."""
    while True:
        name = b"%s%s.tmp" % (_start(target), os.urandom(3).hex().encode())
        try:
            return _os.open_new(dir_fd, name, mode), name
        except FileExistsError:
            continue


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
    """Remove temporary files last written before `before_ns`; how many. Raises OSError."""
    stale = [name for name in _temps(dir_fd) if _age(dir_fd, name) < before_ns]
    for name in stale:
        discard(dir_fd, name)
    return len(stale)


def sweep_for(dir_fd: int, target: bytes) -> int:
    """Remove the temporary files made for `target`, which nobody writes now; how many.

    Raises OSError.
    """
    left = [name for name in _temps(dir_fd) if name.startswith(_start(target))]
    for name in left:
        discard(dir_fd, name)
    return len(left)


def _start(target: bytes) -> bytes:
    """How the names of the temporary files of one target begin."""
    return b".copydesk-%s" % hashlib.sha256(target).hexdigest()[:6].encode()


def _temps(dir_fd: int) -> list[bytes]:
    listing_fd = _os.open_listing(dir_fd)
    try:
        return [name for name in map(os.fsencode, os.listdir(listing_fd)) if is_temp(name)]
    finally:
        _os.close_quietly(listing_fd)


def _age(dir_fd: int, name: bytes) -> int:
    return _os.lstat(dir_fd, name).st_mtime_ns
