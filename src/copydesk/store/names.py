"""Creating, removing and moving files; staged writes.

Invariants: killed at any instant, a name holds the old file, the new one, or nothing; a file that
exists, or appears at the same moment, is never overwritten. After an exception all names are as
they were, or as another program left them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol, Self

from copydesk.errors import FileExists, NotAFile, Refusal
from copydesk.store import _os
from copydesk.store.contents import read_at, sha256_of, write_all
from copydesk.store.paths import MadeParents, ResolvedPath
from copydesk.store.protocol import (
    Durability,
    Removed,
    Stamp,
    TargetMoved,
    failed,
    kind_of,
    putting_back,
    refusing,
)
from copydesk.store.replace import (
    Hooks,
    Known,
    LateLooks,
    check_target,
    discard_recorded,
    holds,
    opened,
    recorded,
    require_ours,
    stamp_of_ours,
)
from copydesk.store.staging import (
    DirFlush,
    discard,
    is_temp,
    link_temp,
    move_away,
    open_temp,
    restore_attributes,
)
from copydesk.text.relpath import RelPath


class Way(Protocol):
    """How a staged write is done: by replacement, in place, creation, removal, move or chmod."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content in hex if requested; else empty."""
        ...

    def commit(self) -> Stamp:
        """Carry it out; raises TargetMoved, FileExists, NotAFile, OSError, NotPutBack."""
        ...

    def put_back(self, sha256: str) -> None:
        """Undo the commit; raises TargetMoved, OSError, NotPutBack."""


class StagedWrite:
    """A ready write of the file at `real`, with the parents created for it; `commit` does it.

    A context: at its end `close`, if given, removes what was not committed.
    """

    def __init__(
        self,
        operation: str,
        way: Way,
        real: RelPath,
        hooks: Hooks,
        parents: MadeParents | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self._operation, self._way, self._hooks = operation, way, hooks
        self.real, self._parents, self._close = real, parents, close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if self._close is not None:
                self._close()
            if isinstance(error, OSError):
                raise error
        except OSError as refused:
            raise failed(self._operation, refused) from refused

    @property
    def digest(self) -> str:
        """The SHA-256 of the new content in hex if requested; else empty."""
        with refusing(self._operation):
            return self._way.digest

    def commit(self) -> Stamp:
        """Write it; return the new stamp. TargetMoved, FileExists, NotAFile, Failed, NotPutBack."""
        try:
            stamp = self._way.commit()
        except OSError as refused:
            raise failed(self._operation, refused) from refused
        if self._parents is not None:
            self._parents.keep()
        return stamp

    def put_back(self, sha256: str) -> None:
        """Undo `commit`. Raises TargetMoved, Failed, NotPutBack.

        TargetMoved also if the file has another digest; a move or a chmod does not check it.
        """
        self._hooks.may_return()
        with refusing("put back"):
            self._way.put_back(sha256)
        if self._parents is not None:
            self._parents.let_go()


_NO_SUCH_CALL = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
_DEFAULT_MODE = 0o666


@contextmanager
def staged_new(
    place: ResolvedPath,
    data: bytes,
    *,
    durability: Durability,
    hooks: Hooks,
    removed: Removed | None = None,
    other: tuple[int, bytes] | None = None,
) -> Generator[Creation]:
    """Stage a new file, complete but for its name; it is removed at the end unless committed.

    It has the default mode, or the attributes of a `removed` file. `other` is the directory and
    name of a file; the new name is linked to it if it has these bytes. Raises FileExists, NotAFile,
    OSError, with nothing left behind.
    """
    refuse_existing(place)
    with DirFlush(place.dir_fd, wanted=durability == "full") as flush:
        made = None if other is None else _linked(place, other, data)
        if made is None:
            fd, temp = open_temp(place.dir_fd, _DEFAULT_MODE, place.name)
            made = temp, _filled(place, fd, temp, data, durability, removed)
        ready = Creation(place, data, durability, flush, *made, hooks, removed)
        try:
            yield ready
        finally:
            ready.leave()


@dataclass(slots=True)
class Creation:
    """A new file with a temporary name; created by `staged_new`."""

    _place: ResolvedPath
    _data: bytes
    _durability: Durability
    _flush: DirFlush
    _temp: bytes
    _ours: os.stat_result
    _hooks: Hooks
    _removed: Removed | None = None
    digest: str = ""

    def commit(self) -> Stamp:
        """Take the name; FileExists, NotAFile, OSError leave it as it was, NotPutBack may not."""
        self._hooks.may_write()
        self._put()
        try:
            self._flush.now(self._place.name)
        except OSError:
            with putting_back():
                self._take_away()
            raise
        return stamp_of_ours(self._place, self._ours)

    def put_back(self, sha256: str) -> None:
        """Remove the file again if it has this digest; raises TargetMoved, OSError."""
        require_ours(self._place, self._ours, sha256)
        if not self._take_away():
            raise TargetMoved()
        self._flush.now(b".")

    def leave(self) -> None:
        """Remove the staged file if it was not committed."""
        if self._temp:
            discard(self._place.dir_fd, self._temp)

    def _take_away(self) -> bool:
        """Whether our file is gone again; a file that another program wrote to stays."""
        known = Known.as_written(self._ours, lambda: hashlib.sha256(self._data).hexdigest())
        return holds(self._place, self._ours) and taken_away(self._place, known, self._hooks)

    def _put(self) -> None:
        temp, self._temp = self._temp, b""
        try:
            _give_name(self._place, temp)
        except OSError as refused:
            if refused.errno == errno.EEXIST:
                refuse_existing(self._place)
                raise FileExists() from None  # it has gone again
            if refused.errno not in _NO_SUCH_CALL:
                raise
        else:
            return
        fd = _os.open_new(self._place.dir_fd, self._place.name, _DEFAULT_MODE)
        place, name = self._place, self._place.name
        self._ours = _filled(place, fd, name, self._data, self._durability, self._removed)


@dataclass(slots=True)
class _OfOpenFile:
    """A change of the name of the file open as `_old_fd`, if it is as it was read."""

    _place: ResolvedPath
    _old_fd: int
    _expected: Stamp
    _expected_sha256: str
    _durability: Durability
    _hooks: Hooks


@dataclass(slots=True)
class Removal(_OfOpenFile):
    """The removal of an open file's name; until `leave` it has a temporary one for `put_back`."""

    _temp: bytes = b""
    digest: str = ""

    @property
    def _known(self) -> Known:
        return Known.as_read(self._expected, self._expected_sha256)

    def commit(self) -> Stamp:
        """Remove it and return the stamp it had; raises TargetMoved, OSError, NotPutBack."""
        place, expected, sha256 = self._place, self._expected, self._expected_sha256
        if not expected.stands_in(_os.fstat(self._old_fd)):
            raise TargetMoved()
        with DirFlush(place.dir_fd, wanted=self._durability == "full") as flush:
            self._hooks.may_write()
            check_target(place, self._old_fd, expected, sha256)
            self._temp = taken_aside(place, self._known, self._hooks)
            if not self._temp:
                raise TargetMoved()
            if _os.is_written_by_others(self._old_fd):
                self._hooks.note_open(place.real)
            try:
                flush.now(b".")
            except OSError:
                with putting_back():
                    self.put_back("")
                raise
        return expected

    def put_back(self, sha256: str) -> None:
        """Give the file its name again unless that is taken; raises OSError."""
        give_back(self._place, self._temp)
        self._temp = b""

    def leave(self) -> None:
        """Remove the temporary name once it is certain that nothing is lost with it."""
        for _ in range(2 * bool(self._temp)):  # a passing fault must not leave it behind
            with suppress(OSError):
                try:
                    self._let_go()
                except Refusal:  # it could not be recorded: keep the temporary name
                    return
                return

    def _let_go(self) -> None:
        known = self._known
        if not known.stands_in(_os.fstat(self._old_fd)):
            known = recorded(self._place, self._old_fd, known, self._hooks.keep)
        if self._hooks.late is not None:
            self._hooks.late.take(_os.duplicate(self._old_fd), self._place.real, known)
        discard(self._place.dir_fd, self._temp)
        self._temp = b""


@dataclass(slots=True)
class Move(_OfOpenFile):
    """The move of an open file to a free name; it keeps its attributes and other names."""

    _target: ResolvedPath
    digest: str = ""

    def commit(self) -> Stamp:
        """Move it; raises TargetMoved, FileExists, NotAFile, OSError, NotPutBack."""
        self._hooks.may_write()
        check_target(self._place, self._old_fd, self._expected, self._expected_sha256)
        refuse_existing(self._target, self._expected)
        _move(self._place, self._target)
        now_ns = _os.now_ns()
        try:
            found = _os.lstat(self._target.dir_fd, self._target.name)
            is_ours = found.st_ino == self._expected.ino
            if is_ours:
                self._flush()
        except OSError:
            with putting_back(self._hooks.may_return):
                _move(self._target, self._place)
            raise
        if not is_ours:  # another file had got the name
            with putting_back():
                _move(self._target, self._place)
            raise TargetMoved()
        return Stamp.of(found, now_ns)

    def put_back(self, sha256: str) -> None:
        """Move it back if it is still there; raises TargetMoved, OSError."""
        try:
            found = _os.lstat(self._target.dir_fd, self._target.name)
        except FileNotFoundError:
            raise TargetMoved() from None
        if found.st_ino != self._expected.ino:
            raise TargetMoved()
        self._hooks.may_return()
        _move(self._target, self._place)
        self._flush()

    def _flush(self) -> None:
        if self._durability == "full":
            for place in (self._target, self._place):
                with DirFlush(place.dir_fd, wanted=True) as flush:
                    flush.now(b".")


def _move(place: ResolvedPath, target: ResolvedPath) -> None:
    """Rename a file unless the new name is taken; raises FileExists, NotAFile, OSError."""
    try:
        _os.rename_no_replace(place.dir_fd, place.name, target.name, target.dir_fd)
    except FileExistsError:
        if _is_same_file(place, target):  # the names differ in case only, which the system ignores
            _os.rename(place.dir_fd, place.name, target.name, target.dir_fd)
            return
        refuse_existing(target)
        raise FileExists() from None  # it has gone again
    except FileNotFoundError:
        raise TargetMoved() from None
    except OSError as refused:
        if refused.errno not in _NO_SUCH_CALL:
            raise
        try:
            _os.link(place.dir_fd, place.name, target.name, target.dir_fd)
        except FileExistsError:
            refuse_existing(target)
            raise FileExists() from None
        _os.unlink(place.dir_fd, place.name)


def _is_same_file(place: ResolvedPath, target: ResolvedPath) -> bool:
    """Whether both are the same name of one file, as on a system that ignores case."""
    one = _os.lstat(place.dir_fd, place.name)
    other = _os.lstat(target.dir_fd, target.name)
    return one.st_nlink == 1 and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def taken_away(place: ResolvedPath, known: Known, hooks: Hooks) -> bool:
    """Remove the file if it is as `known`; OSError leaves it in place, NotPutBack may not."""
    temp = taken_aside(place, known, hooks, late=hooks.late)
    if temp:
        discard(place.dir_fd, temp)
    return bool(temp)


def taken_aside(
    place: ResolvedPath, known: Known, hooks: Hooks, *, late: LateLooks | None = None
) -> bytes:
    """Move the file, if it is as `known`, to a temporary name and return that.

    Returns an empty name if the file differs; it then has its name again, and what was written to
    it at that moment stays. `late` checks it again. Raises OSError with the file in place,
    NotPutBack.
    """
    try:
        temp = move_away(place.dir_fd, place.name)
    except FileNotFoundError:
        return b""
    with ExitStack() as held:
        fd = -1
        try:
            fd = opened(place, temp, held)
            if fd >= 0 and _is(known, fd):
                if late is not None:
                    late.take(_os.duplicate(fd), place.real, known)
                return temp
        except OSError:
            with putting_back():
                give_back(place, temp)
            raise
        with putting_back():
            try:
                give_back(place, temp)
            except FileExistsError:  # another program has created a new one
                if fd >= 0:
                    discard_recorded(place, temp, fd, known, hooks)
        return b""


def _is(known: Known, fd: int) -> bool:
    """Whether the open file is as `known`, including its content if the digest is known."""
    digest = known.sha256()
    return known.stands_in(_os.fstat(fd)) and digest in ("", sha256_of(fd, known.size))


def give_back(place: ResolvedPath, temp: bytes) -> None:
    """Give the name back unless it is taken; OSError keeps the temporary name."""
    try:
        _os.rename_no_replace(place.dir_fd, temp, place.name)
    except FileExistsError:
        raise
    except OSError:  # the system cannot do this, or not now
        _os.link(place.dir_fd, temp, place.name)
        discard(place.dir_fd, temp)


def refuse_existing(place: ResolvedPath, own: Stamp | None = None) -> None:
    """Raise FileExists or NotAFile if anything but the file `own` has the name."""
    if not place.name:
        raise NotAFile("directory")
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except FileNotFoundError:
        return
    if (
        own is not None
        and found.st_nlink == 1
        and (own.dev, own.ino) == (found.st_dev, found.st_ino)
    ):
        return
    if stat.S_ISREG(found.st_mode):
        raise FileExists(found.st_size)
    raise NotAFile(kind_of(found.st_mode))


def _filled(
    place: ResolvedPath,
    fd: int,
    name: bytes,
    data: bytes,
    durability: Durability,
    removed: Removed | None,
) -> os.stat_result:
    with ExitStack() as failing:
        failing.callback(discard, place.dir_fd, name)
        try:
            write_all(fd, data)
            if removed is not None:
                restore_attributes(fd, removed)
            if durability == "full":
                _os.sync(fd)
            ours = _os.fstat(fd)
        finally:
            _os.close(fd)
        failing.pop_all()
    return ours


def _linked(
    place: ResolvedPath, other: tuple[int, bytes], data: bytes
) -> tuple[bytes, os.stat_result] | None:
    """Link the other file to a temporary name; return that and its stat, None for other bytes."""
    with suppress(OSError), ExitStack() as held:
        temp = link_temp(*other, place.dir_fd, place.name)
        failing = held.enter_context(ExitStack())
        failing.callback(discard, place.dir_fd, temp)
        fd = opened(place, temp, held)
        found = _os.fstat(fd) if fd >= 0 else None
        is_same = found is not None and found.st_size == len(data)
        if found is not None and is_same and read_at(fd, len(data), 0) == data:
            failing.pop_all()
            return temp, found
    return None


def _give_name(place: ResolvedPath, temp: bytes) -> None:
    """Rename the temporary file unless the name is taken; it is gone in any case."""
    with ExitStack() as leaving:
        leaving.callback(discard, place.dir_fd, temp)
        try:
            _os.rename_no_replace(place.dir_fd, temp, place.name)
        except OSError as refused:
            if refused.errno not in _NO_SUCH_CALL:
                raise
            _os.link(place.dir_fd, temp, place.name)
        else:
            leaving.pop_all()


_NAMES_SOUGHT = 200_000
"""The most names to search for another hard link of a file."""


def other_name(root: str, real: RelPath, stamp: Stamp) -> str:
    """Another name of the file below the root, searched within bounds; empty if not found."""
    folders, looked_at = [root], 0
    while folders and looked_at < _NAMES_SOUGHT:
        try:
            found = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in found:
            looked_at += 1
            with suppress(OSError, UnicodeEncodeError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.inode() == stamp.ino and not is_temp(os.fsencode(entry.name)):
                    name = os.path.relpath(entry.path, root)
                    same = entry.stat(follow_symlinks=False).st_dev == stamp.dev
                    if same and name != str(real) and name.encode():
                        return name
    return ""
