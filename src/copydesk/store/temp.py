"""Temporary files beside the files they will replace.

What lives here: their names, and the removal of those that a killed process
left. What must not: what is written to them. Invariant: a name of this form is
copydesk's alone and never anybody's document.
"""

from __future__ import annotations

import os
import re

from copydesk.store import _os

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}\.tmp")
GLOB = ".copydesk-????????????.tmp"


def open_temp(dir_fd: int, mode: int) -> tuple[int, bytes]:
    """A new file in the directory, open for writing, and its name; raises OSError."""
    while True:
        name = b".copydesk-%s.tmp" % os.urandom(6).hex().encode()
        try:
            return _os.open_new(dir_fd, name, mode), name
        except FileExistsError:
            continue


def is_temp(name: bytes) -> bool:
    """Whether the name is one of ours."""
    return _NAME.fullmatch(name) is not None


def discard(dir_fd: int, name: bytes) -> None:
    """Remove a temporary file, if it is still there; never raises OSError."""
    try:
        _os.unlink(dir_fd, name)
    except OSError:
        return  # what failed before is what the caller must hear of


def sweep(dir_fd: int, before_ns: int) -> int:
    """Remove temporary files last written before `before_ns`; how many. Raises OSError."""
    listing_fd = _os.open_listing(dir_fd)
    try:
        names = [os.fsencode(name) for name in os.listdir(listing_fd)]
        stale = [name for name in names if is_temp(name) and _age(dir_fd, name) < before_ns]
        for name in stale:
            discard(dir_fd, name)
    finally:
        _os.close_quietly(listing_fd)
    return len(stale)


def _age(dir_fd: int, name: bytes) -> int:
    return _os.lstat(dir_fd, name).st_mtime_ns
