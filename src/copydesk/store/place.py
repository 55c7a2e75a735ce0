"""A name in an open directory below the root: where a path leads.

What lives here: the value, and the making of parents that are missing. What
must not: finding it (that is `walk`). Invariant: `dir_fd` was reached from the
root without following a symlink, and `real` spells the way to `name`.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from copydesk.errors import FileNotFound, NotAFile
from copydesk.store import _os
from copydesk.store.closing import Closing
from copydesk.store.flush import DirFlush
from copydesk.text.relpath import RelPath


@dataclass(slots=True)
class Place(Closing):
    """An open directory and a name in it that may be missing; closes the directory on exit.

    `name` is empty when the path leads to the directory itself (the root, or a
    link to `..`). `missing` are the parents that do not exist between `dir_fd`
    and `name`; with `blocked` the first of them (or `name`) stands there but is
    no directory. `real` is the whole path without symlinks.
    """

    dir_fd: int
    name: bytes
    real: RelPath
    missing: tuple[bytes, ...] = ()
    blocked: bool = False
    owned: bool = True

    def close(self) -> None:
        """Close the directory; the root's own handle is left alone."""
        if self.owned:
            self.owned = False
            _os.close_quietly(self.dir_fd)

    def require_parent(self) -> None:
        """Raise FileNotFound unless the parent directory exists."""
        if self.missing or self.blocked:
            raise FileNotFound()

    def require_way(self) -> None:
        """Raise NotAFile when a file stands where a parent directory would."""
        if self.blocked:
            raise NotAFile("below a file")


class MadeParents:
    """The missing parents of a place, made one by one; those still empty go unless kept.

    A context around the work that needs them: the place stands in the last of
    them inside. Raises NotAFile when a file blocks the way, OSError.
    """

    def __init__(self, place: Place, *, flush: bool) -> None:
        self._place = place
        self._flush = flush
        self._made: list[tuple[int, bool, bytes]] = []
        self._kept = False

    def __enter__(self) -> Self:
        self._place.require_way()
        try:
            while self._place.missing:
                self._descend()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def keep(self) -> None:
        """The work is done: leave the directories where they are."""
        self._kept = True

    def let_go(self) -> None:
        """The work was taken back: they go if they are empty."""
        self._kept = False

    def _descend(self) -> None:
        place = self._place
        name, *rest = place.missing
        is_ours = _make(place.dir_fd, name)
        self._made.append((place.dir_fd, place.owned, name if is_ours else b""))
        place.owned = False
        place.dir_fd = _os.open_dir(place.dir_fd, name)
        place.owned = True
        place.missing = tuple(rest)
        if is_ours and self._flush:
            with DirFlush(self._made[-1][0], wanted=True) as flush:
                flush.now(name)

    def _leave(self) -> None:
        while self._made:
            parent_fd, was_owned, name = self._made.pop()
            if name and not self._kept:
                _remove_if_empty(parent_fd, name)
            if was_owned:
                _os.close_quietly(parent_fd)


def _make(dir_fd: int, name: bytes) -> bool:
    try:
        _os.mkdir(dir_fd, name)
    except FileExistsError:
        return False  # somebody else made it after the walk
    return True


def _remove_if_empty(dir_fd: int, name: bytes) -> None:
    try:
        _os.rmdir(dir_fd, name)
    except OSError as refused:
        if refused.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return  # somebody put something there: then it is not ours to remove
