"""Paths below an open root directory, resolved without ever leaving it.

What lives here: the root and the ways to ask it for a place or a file. What
must not: reading or writing files. Invariant: whatever is opened was reached
from the root's handle with no symlink followed by the kernel, so a directory
swapped for a link after a check leads nowhere else.

Where the kernel has openat2 and no symlink is on the way, one call does it;
any error of it falls back to the walk, which finds out what is there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from copydesk.errors import FileNotFound, InvalidPath, NotAFile
from copydesk.store import _os
from copydesk.store.place import Place
from copydesk.store.refused import failed, kind_of
from copydesk.store.walk import Walk
from copydesk.text.relpath import RelPath

_SWAPS_TOLERATED = 100


def _freely(link: RelPath) -> None:
    """Any link may be followed."""


class Root:
    """An open root directory; `close` it when nobody uses it any more."""

    def __init__(self, path: str) -> None:
        """Open the directory at `path`; raises Failed."""
        try:
            self._fd = _os.open_root(path)
        except OSError as refused:
            raise failed("open workspace", refused) from refused
        self.path = os.path.realpath(path)
        # A link written with another spelling of the root (/tmp on macOS) leads into it too.
        self._spellings = tuple({os.fsencode(self.path), os.fsencode(os.path.abspath(path))})

    def close(self) -> None:
        """Let the root go; calls under way must have ended, later ones fail."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _os.close_quietly(fd)

    def place(
        self, path: RelPath, *, follow: bool = True, via: Callable[[RelPath], None] = _freely
    ) -> Place:
        """Where `path` leads; with `follow` a symlink at its end is followed too.

        `via` is told of every link before it is followed, and may refuse.

        Parents may be missing: ask `Place.require_parent`. Raises InvalidPath
        for a way out of the root, Failed.
        """
        straight = self._straight(path)
        if straight is None:
            return self._walk(path, follow=follow, via=via)
        if follow and _may_be_link(straight):
            straight.close()
            return self._walk(path, follow=True, via=via)
        return straight

    def open_file(self, path: RelPath) -> tuple[int, RelPath]:
        """What has the path, of any kind, open for reading and not waited for; its real path.

        Raises FileNotFound, NotAFile for what cannot be opened by its kind,
        InvalidPath, Failed.
        """
        if path.parts and _os.has_openat2():
            try:
                return _os.open_file_beneath(self._fd, _joined(path)), path
            except OSError:
                pass  # the walk finds out why, or a way along a symlink
        place, fd = self.open_target(path)
        place.close()
        return fd, place.real

    def open_names(self, names: Sequence[bytes]) -> int:
        """What has these names, of any kind, open for reading; no symlink on the way.

        Raises OSError.
        """
        if _os.has_openat2():
            return _os.open_file_beneath(self._fd, b"/".join(names))
        *folders, name = names
        fd = self._fd
        try:
            for folder in folders:
                inner = _os.open_dir(fd, folder)
                if fd != self._fd:
                    _os.close_quietly(fd)
                fd = inner
            return _os.open_read(fd, name)
        finally:
            if fd != self._fd:
                _os.close_quietly(fd)

    def open_target(self, path: RelPath) -> tuple[Place, int]:
        """The same with its place, which the caller closes; raises the same."""
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
            place = None  # a symlink has the name
        raise InvalidPath("symlinks on the way keep changing")

    def open_dir(self, path: RelPath) -> Place:
        """The directory at `path`, as a place without a name.

        Raises FileNotFound, InvalidPath when it is no directory, Failed.
        """
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
            return Place(fd, b"", place.real)

    def _walk(
        self, path: RelPath, *, follow: bool, via: Callable[[RelPath], None] = _freely
    ) -> Place:
        with Walk(self._fd, self._spellings, via) as walk:
            return walk.go([part.encode() for part in path.parts], follow=follow)

    def _straight(self, path: RelPath) -> Place | None:
        if not path.parts or not _os.has_openat2():
            return None
        name = path.parts[-1].encode()
        if len(path.parts) == 1:
            return Place(self._fd, name, path, owned=False)
        try:
            fd = _os.open_dir_beneath(self._fd, _joined(path.parent))
        except OSError:
            return None  # the walk finds out why, or a way along a symlink
        return Place(fd, name, path)


def _open(place: Place) -> int:
    """The file at the place, or -1 when a symlink has the name."""
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


def _may_be_link(place: Place) -> bool:
    """Whether a symlink may have the name; False when surely none has."""
    try:
        _os.readlink(place.dir_fd, place.name)
    except OSError as refused:
        return refused.errno not in (errno.EINVAL, errno.ENOENT)
    return True


def _kind(place: Place) -> str:
    try:
        return kind_of(_os.lstat(place.dir_fd, place.name).st_mode)
    except OSError:
        return "special file"


def _joined(path: RelPath) -> bytes:
    return "/".join(path.parts).encode()
