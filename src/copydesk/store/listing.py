"""The names in a directory, for listings and for a hint where one is missing; what a name has."""

from __future__ import annotations

import difflib
import os
import stat

from copydesk.errors import FileNotFound
from copydesk.store import _os
from copydesk.store.paths import ResolvedPath
from copydesk.store.protocol import DirEntry, FileInfo, failed, kind_of
from copydesk.store.staging import is_temp

_NAMES_COMPARED = 500
_NAMES_GIVEN = 3


def entries(dir_fd: int) -> tuple[DirEntry, ...]:
    """The entries by name, copydesk's temporary files left out; raises OSError."""
    found = (_entry(dir_fd, name) for name in sorted(names(dir_fd)))
    return tuple(entry for entry in found if entry is not None)


def similar(dir_fd: int, name: str) -> tuple[str, ...]:
    """Up to three names of the directory close to `name`, of the first 500; raises OSError."""
    shown = [_shown(other) for other in sorted(names(dir_fd))[:_NAMES_COMPARED]]
    return tuple(difflib.get_close_matches(name, shown, _NAMES_GIVEN))


def names(dir_fd: int) -> list[bytes]:
    """The names in the directory, in no order; raises OSError."""
    fd = _os.open_listing(dir_fd)
    try:
        found = [os.fsencode(name) for name in os.listdir(fd)]
    finally:
        _os.close_quietly(fd)
    return [name for name in found if not is_temp(name)]


def info_of(place: ResolvedPath) -> FileInfo:
    """What is known of what stands at the place; raises FileNotFound, Failed."""
    try:
        fd, name = place.dir_fd, place.name
        found = _os.lstat(fd, name) if name else _os.fstat(fd)
        born = _os.birth_ns(fd, name, found)
    except FileNotFoundError:
        raise FileNotFound() from None
    except OSError as refused:
        raise failed("stat", refused) from refused
    times = born, found.st_mtime_ns, found.st_atime_ns
    return FileInfo(place.real, kind_of(found.st_mode), found.st_size, found.st_mode, *times)


def _entry(dir_fd: int, name: bytes) -> DirEntry | None:
    try:
        found = _os.lstat(dir_fd, name)
        target = _os.readlink(dir_fd, name) if stat.S_ISLNK(found.st_mode) else None
    except FileNotFoundError:
        return None  # it went away meanwhile
    if target is not None:
        return DirEntry(_shown(name), "symlink", link_target=_shown(target))
    if stat.S_ISREG(found.st_mode):
        return DirEntry(_shown(name), "file", size_bytes=found.st_size)
    return DirEntry(_shown(name), "dir" if stat.S_ISDIR(found.st_mode) else "other")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
