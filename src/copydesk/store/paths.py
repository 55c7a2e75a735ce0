"""Paths below an open root directory, resolved without ever leaving it, and the names there.

If the kernel has openat2 and there is no symlink on the way, one call resolves a path; after any
error of it, a walk goes name by name and follows symlinks itself. Invariant: whatever is opened was
reached from the root's handle with no symlink followed by the kernel, so a directory that is
swapped for a link after a check leads nowhere else.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from copydesk.errors import FileNotFound, InvalidPath, NotAFile
from copydesk.store import _os
from copydesk.store.contents import flush_dir, is_temp, listed
from copydesk.store.protocol import Closing, DirEntry, FileInfo, failed, kind_of, refusing
from copydesk.text.relpath import RelPath


@dataclass(slots=True)
class ResolvedPath(Closing):
    """An open directory and a name in it that may be missing; closes the directory on exit.

    `name` is empty when the path leads to the directory itself (the root, or a link to `..`).
    `missing` are the parents that do not exist between `dir_fd` and `name`; with `blocked`, the
    first of them (or `name`) exists but is not a directory. `real` is the path without symlinks.
    """

    dir_fd: int
    name: bytes
    real: RelPath
    missing: tuple[bytes, ...] = ()
    blocked: bool = False
    owned: bool = True

    def close(self) -> None:
        """Close the directory, unless it is the root's own handle."""
        if self.owned:
            self.owned = False
            _os.close_quietly(self.dir_fd)

    def require_parent(self) -> None:
        """Raise FileNotFound unless the parent directory exists."""
        if self.missing or self.blocked:
            raise FileNotFound()

    def require_way(self) -> None:
        """Raise NotAFile if a file stands in the place of a parent directory."""
        if self.blocked:
            raise NotAFile("below a file")


class MadeParents(Closing):
    """The missing parents of a place, created; on exit, those still empty are removed.

    A context around the work that needs the parents; from now on the place is in the last of them.
    With `are_kept`, which the work sets when it is done, they stay. The constructor raises NotAFile
    if a file blocks the way, OSError.
    """

    def __init__(self, place: ResolvedPath, *, flush: bool) -> None:
        self._place, self._flush = place, flush
        self._parents: list[tuple[int, bool, bytes]] = []
        """Each handle on the way, whether it is ours to close, and what we created in it."""
        self.are_kept = False
        place.require_way()
        try:
            while place.missing:
                self._descend()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove what is empty, and close the handles on the way."""
        while self._parents:
            parent_fd, was_owned, name = self._parents.pop()
            if name and not self.are_kept:
                remove_if_empty(parent_fd, name)
            if was_owned:
                _os.close_quietly(parent_fd)

    def _descend(self) -> None:
        place = self._place
        parent_fd, name = place.dir_fd, place.missing[0]
        try:
            _os.mkdir(name, dir_fd=parent_fd)
            ours = name
        except FileExistsError:
            ours = b""  # somebody else created it after the walk
        self._parents.append((parent_fd, place.owned, ours))
        place.owned = False
        place.dir_fd = _os.open_dir(parent_fd, name)
        place.owned = True
        place.missing = place.missing[1:]
        if ours and self._flush:
            flush_dir(parent_fd, name)


def remove_if_empty(dir_fd: int, name: bytes) -> None:
    """Remove a directory if it is empty; every error is ignored."""
    with suppress(OSError):  # mostly that somebody put something there
        _os.rmdir(name, dir_fd=dir_fd)


MAX_LINKS = 40

Via = Callable[[RelPath], None]
"""Gets the path of each link, and what follows it, before it is followed, and may refuse."""


class Walk(Closing):
    """One walk along a path; a context that closes the handles which the result does not take.

    `spellings` are the absolute names of the root: a link to one of them or below it is a link into
    the root.
    """

    def __init__(self, root_fd: int, spellings: tuple[bytes, ...], via: Via | None) -> None:
        self._fds = [root_fd]
        self._names: list[bytes] = []
        self._spellings = spellings
        self._links = 0
        self._via = via

    def close(self) -> None:
        """Close the handles below the root's, where the walk is again."""
        while self._names:
            self._up()

    def go(self, names: list[bytes], *, follow: bool) -> ResolvedPath:
        """Resolve `names` to a place; with `follow` also through a link at the end.

        Raises InvalidPath for a way out of the root or more than MAX_LINKS links, Failed, and
        FileNotFound if the `..` of a link follows a missing directory.
        """
        pending = names[::-1]
        while pending:
            name = pending.pop()
            if name == b".":
                continue
            if name == b"..":
                self._up()
            elif not pending:
                target = self._link(name) if follow else None
                if target is None:
                    return self._place([name], blocked=False)
                self._follow(name, target, pending)
            else:
                if (stop := self._enter(name, pending)) is not None:
                    return stop
        return self._place([], blocked=False)

    def _enter(self, name: bytes, pending: list[bytes]) -> ResolvedPath | None:
        try:
            fd = _os.open_dir(self._fds[-1], name)
        except OSError as refused:
            if refused.errno == errno.ENOENT:
                return self._place([name, *reversed(pending)], blocked=False)
            if refused.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise failed("open directory", refused) from refused
        else:
            self._fds.append(fd)
            self._names.append(name)
            return None
        if (target := self._link(name)) is not None:
            self._follow(name, target, pending)
        elif self._is_dir(name):
            self._count()  # a link became a directory between the two calls
            pending.append(name)
        else:
            return self._place([name, *reversed(pending)], blocked=True)
        return None

    def _link(self, name: bytes) -> bytes | None:
        with refusing("read link"), _os.Ignoring(errno.EINVAL, errno.ENOENT):
            return _os.readlink(name, dir_fd=self._fds[-1])
        return None

    def _is_dir(self, name: bytes) -> bool:
        with refusing("stat"), suppress(FileNotFoundError):
            return stat.S_ISDIR(_os.lstat(name, dir_fd=self._fds[-1]).st_mode)
        return False

    def _follow(self, name: bytes, target: bytes, pending: list[bytes]) -> None:
        self._count()
        if self._via is not None:
            self._via(_path_of([*self._names, name, *reversed(pending)]))
        if target.startswith(b"/"):
            target = self._below_root(target)
            self.close()
        # A slash at the end requires a directory, as "." does.
        pending.extend(name or b"." for name in reversed(target.split(b"/")))

    def _below_root(self, target: bytes) -> bytes:
        for spelling in self._spellings:
            if target == spelling or target.startswith(spelling.rstrip(b"/") + b"/"):
                return target[len(spelling) :].lstrip(b"/")
        raise InvalidPath("a symlink leads out of the workspace")

    def _count(self) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise InvalidPath("too many symlinks on the way")

    def _up(self) -> None:
        if not self._names:
            raise InvalidPath("a symlink leads out of the workspace")
        self._names.pop()
        _os.close_quietly(self._fds.pop())

    def _place(self, rest: list[bytes], *, blocked: bool) -> ResolvedPath:
        rest = [name for name in rest if name != b"."]
        if b".." in rest:
            raise FileNotFound()
        real = RelPath(tuple(_text(name) for name in (*self._names, *rest)))
        *missing, name = rest or [b""]
        owned = bool(self._names)
        if owned:
            self._names.pop()
        fd = self._fds.pop() if owned else self._fds[0]
        return ResolvedPath(fd, name, real, tuple(missing), blocked, owned)


def _path_of(names: list[bytes]) -> RelPath:
    """Join the names to a path; `..` in the rest of a link removes the name before it."""
    parts: list[str] = []
    for name in names:
        if name == b"..":
            del parts[-1:]
        elif name not in (b"", b"."):
            parts.append(_text(name))
    return RelPath(tuple(parts))


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise InvalidPath("a symlink leads through a name that is not UTF-8") from None


_SWAPS_TOLERATED = 100


class Root:
    """An open root directory; `close` it when it is no longer in use."""

    def __init__(self, path: str) -> None:
        """Open the directory at `path`; raises Failed."""
        with refusing(f"open {path}"):
            self._fd = _os.open_root(path)
        self.path = os.path.realpath(path)
        # A link with another spelling of the root (/tmp on macOS) leads into the root too.
        self._spellings = tuple({os.fsencode(self.path), os.fsencode(os.path.abspath(path))})

    def close(self) -> None:
        """Close the root; calls in progress must have ended, later ones fail."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _os.close_quietly(fd)

    def peek(self, path: RelPath) -> os.stat_result | None:
        """What `lstat` says of a path, wherever links on the way lead; None if it fails."""
        with suppress(OSError):
            return _os.lstat(str(path).encode(), dir_fd=self._fd)
        return None

    def place(self, path: RelPath, *, follow: bool = True, via: Via | None = None) -> ResolvedPath:
        """Resolve a path; with `follow` a symlink at its end is followed too.

        Parents may be missing: call `ResolvedPath.require_parent`. Raises InvalidPath for a way out
        of the root, Failed.
        """
        straight = self._straight(path)
        if straight is not None and follow and _may_be_link(straight):
            straight.close()
            straight = None
        return straight or self._walk(path, follow=follow, via=via)

    def open_file(self, path: RelPath) -> tuple[int, RelPath]:
        """Open any file without blocking; return its real path too. FileNotFound, NotAFile."""
        if path.parts and _os.offers.openat2:
            try:
                return _os.open_beneath(self._fd, "/".join(path.parts).encode(), _os.FILE), path
            except FileNotFoundError:  # not for a symlink on the way, wherever that leads
                raise FileNotFound() from None
            except OSError:
                pass  # the walk finds the reason, or follows a symlink
        place, fd = self.open_target(path)
        place.close()
        return fd, place.real

    def open_names(self, names: Sequence[bytes]) -> int:
        """Open any file by its names for reading, without following symlinks; raises OSError."""
        if _os.offers.openat2:
            return _os.open_beneath(self._fd, b"/".join(names), _os.FILE)
        *folders, name = names
        fd = self._fd
        with ExitStack() as opened:
            for folder in folders:
                fd = _os.open_dir(fd, folder)
                opened.callback(_os.close_quietly, fd)
            return _os.open_read(fd, name)

    def open_target(self, path: RelPath) -> tuple[ResolvedPath, int]:
        """The same with its place, which the caller must close; raises the same."""
        place = self._straight(path)
        for _ in range(_SWAPS_TOLERATED):
            place = place or self._walk(path, follow=True)
            try:
                fd = _open(place)
            except BaseException:
                place.close()
                raise
            if fd >= 0:
                return place, fd
            place.close()
            place = None  # the name is a symlink
        raise InvalidPath("symlinks on the way keep changing")

    def open_dir(self, path: RelPath) -> ResolvedPath:
        """Open the directory at `path`, without a name; FileNotFound, InvalidPath, Failed."""
        place = self._walk(path, follow=True)
        if not place.name:
            return place
        with place:
            place.require_parent()
            try:
                fd = _os.open_dir(place.dir_fd, place.name)
            except OSError as refused:
                if refused.errno == errno.ENOENT:
                    raise FileNotFound() from None
                if refused.errno in (errno.ENOTDIR, errno.ELOOP):
                    raise InvalidPath("not a directory") from None
                raise failed("open directory", refused) from refused
            return ResolvedPath(fd, b"", place.real)

    def _walk(self, path: RelPath, *, follow: bool = True, via: Via | None = None) -> ResolvedPath:
        with Walk(self._fd, self._spellings, via) as walk:
            return walk.go([part.encode() for part in path.parts], follow=follow)

    def _straight(self, path: RelPath) -> ResolvedPath | None:
        if not path.parts or not _os.offers.openat2:
            return None
        *folders, name = path.parts
        if not folders:
            return ResolvedPath(self._fd, name.encode(), path, owned=False)
        try:
            fd = _os.open_beneath(self._fd, "/".join(folders).encode(), _os.DIR)
        except OSError:
            return None  # the walk finds the reason, or follows a symlink
        return ResolvedPath(fd, name.encode(), path)


def _open(place: ResolvedPath) -> int:
    """Open the file at the place, or return -1 if it is a symlink."""
    place.require_parent()
    if not place.name:
        raise NotAFile("directory")
    try:
        return _os.open_read(place.dir_fd, place.name)
    except OSError as refused:
        if refused.errno == errno.ELOOP:
            return -1
        if refused.errno == errno.ENOENT:
            raise FileNotFound() from None
        if refused.errno in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
            raise NotAFile(_kind(place)) from None
        raise failed("open", refused) from refused


def _may_be_link(place: ResolvedPath) -> bool:
    """Whether the name may be a symlink; False if it certainly is not."""
    try:
        _os.readlink(place.name, dir_fd=place.dir_fd)
    except OSError as refused:
        return refused.errno not in (errno.EINVAL, errno.ENOENT)
    return True


def _kind(place: ResolvedPath) -> str:
    try:
        return kind_of(_os.lstat(place.name, dir_fd=place.dir_fd).st_mode)
    except OSError:
        return "special file"


_NAMES_COMPARED = 500
_NAMES_GIVEN = 3


def entries(dir_fd: int) -> tuple[DirEntry, ...]:
    """The entries sorted by name, without copydesk's temporary files; raises OSError."""
    listed = (_entry(dir_fd, name) for name in sorted(names(dir_fd)))
    return tuple(entry for entry in listed if entry is not None)


def similar(dir_fd: int, name: str) -> tuple[str, ...]:
    """Up to three names in the directory close to `name`, of the first 500; raises OSError."""
    shown = [_shown(other) for other in sorted(names(dir_fd))[:_NAMES_COMPARED]]
    return tuple(difflib.get_close_matches(name, shown, _NAMES_GIVEN))


def names(dir_fd: int) -> list[bytes]:
    """The names in the directory, unsorted and without temporary files; raises OSError."""
    return [name for name in listed(dir_fd) if not is_temp(name)]


def info_of(place: ResolvedPath) -> FileInfo:
    """The properties of the file at the place; raises FileNotFound, Failed."""
    try:
        fd, name = place.dir_fd, place.name
        status = _os.lstat(name, dir_fd=fd) if name else _os.fstat(fd)
        born = _os.birth_ns(fd, name, status)
    except FileNotFoundError:
        raise FileNotFound() from None
    except OSError as refused:
        raise failed("stat", refused) from refused
    times = born, status.st_mtime_ns, status.st_atime_ns
    return FileInfo(place.real, kind_of(status.st_mode), status.st_size, status.st_mode, *times)


def _entry(dir_fd: int, name: bytes) -> DirEntry | None:
    try:
        status = _os.lstat(name, dir_fd=dir_fd)
        target = _os.readlink(name, dir_fd=dir_fd) if stat.S_ISLNK(status.st_mode) else None
    except FileNotFoundError:
        return None  # it was removed meanwhile
    if target is not None:
        return DirEntry(_shown(name), "symlink", link_target=_shown(target))
    if stat.S_ISREG(status.st_mode):
        return DirEntry(_shown(name), "file", size_bytes=status.st_size)
    return DirEntry(_shown(name), "dir" if stat.S_ISDIR(status.st_mode) else "other")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
