"""The no-follow walk: from the root's handle along a path, name by name.

What lives here: reading and following symlinks ourselves. What must not: files.
Invariant: the stack of handles always begins with the root, and `..` in a link
pops it; nothing is ever opened through a symlink or through `..`.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable

from copydesk.errors import FileNotFound, InvalidPath
from copydesk.store import _os
from copydesk.store.closing import Closing
from copydesk.store.place import Place
from copydesk.store.refused import failed
from copydesk.text.relpath import RelPath

MAX_LINKS = 40


class Walk(Closing):
    """One walk; a context that closes the handles which the place does not take.

    `spellings` are the absolute names of the root: a link to one of them, or to
    something below, is a link into the root. `via` is told where each link stands before
    it is followed, with what is still to go after it, and may refuse.
    """

    def __init__(
        self, root_fd: int, spellings: tuple[bytes, ...], via: Callable[[RelPath], None]
    ) -> None:
        self._fds = [root_fd]
        self._names: list[bytes] = []
        self._spellings = spellings
        self._links = 0
        self._via = via

    def close(self) -> None:
        """Close the directories but for the root."""
        self._to_root()

    def go(self, names: list[bytes], *, follow: bool) -> Place:
        """The place that `names` lead to; with `follow` also through a link at the end.

        Raises InvalidPath for a way out or more than MAX_LINKS links, Failed,
        and FileNotFound where a link's `..` follows a missing directory.
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
                stop = self._enter(name, pending)
                if stop is not None:
                    return stop
        return self._place([], blocked=False)

    def _enter(self, name: bytes, pending: list[bytes]) -> Place | None:
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
        target = self._link(name)
        if target is not None:
            self._follow(name, target, pending)
        elif self._is_dir(name):
            self._count()  # a link became a directory between the two calls
            pending.append(name)
        else:
            return self._place([name, *reversed(pending)], blocked=True)
        return None

    def _link(self, name: bytes) -> bytes | None:
        try:
            return _os.readlink(self._fds[-1], name)
        except OSError as refused:
            if refused.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise failed("read link", refused) from refused

    def _is_dir(self, name: bytes) -> bool:
        try:
            found = _os.lstat(self._fds[-1], name)
        except FileNotFoundError:
            return False
        except OSError as refused:
            raise failed("stat", refused) from refused
        return stat.S_ISDIR(found.st_mode)

    def _follow(self, name: bytes, target: bytes, pending: list[bytes]) -> None:
        self._count()
        self._via(_joined([*self._names, name, *reversed(pending)]))
        if target.startswith(b"/"):
            target = self._below_root(target)
            self._to_root()
        # A slash at the end asks for a directory, as "." does.
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

    def _to_root(self) -> None:
        while self._names:
            self._up()

    def _place(self, rest: list[bytes], *, blocked: bool) -> Place:
        rest = [name for name in rest if name != b"."]
        if b".." in rest:
            raise FileNotFound()
        real = RelPath(tuple(_text(name) for name in (*self._names, *rest)))
        *missing, name = rest or [b""]
        owned = bool(self._names)
        if owned:
            self._names.pop()
        fd = self._fds.pop() if owned else self._fds[0]
        return Place(fd, name, real, tuple(missing), blocked, owned)


def _joined(names: list[bytes]) -> RelPath:
    """The path that the names spell; `..` in what a link left to go is taken as written."""
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
