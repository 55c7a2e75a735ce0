"""The workspace on the disk: `Files` below one root directory.

What lives here: each method that reads, as resolve, check, call, and OSError
turned into a refusal. What must not: the writes (`writing`), system calls,
locks, access rules. Invariant: no handle outlives the call that opened it, but
the root's (that of a large file is closed in a thread as the call ends).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from copydesk.errors import Failed, FileNotFound, FileTooLarge, InvalidPath, NotAFile
from copydesk.store import _os, listing
from copydesk.store.beneath import Root
from copydesk.store.closing import Closing
from copydesk.store.content import OpenContent
from copydesk.store.displaced import Keep, keep_nothing
from copydesk.store.hashing import States, digest_beside
from copydesk.store.large import Known, LargeFile
from copydesk.store.pieces import read_at, sha256_of
from copydesk.store.protocol import (
    Document,
    Durability,
    Entry,
    Named,
    OpenFile,
    OpenText,
    TargetMoved,
    Window,
)
from copydesk.store.refused import failed, kind_of
from copydesk.store.replace import Hooks
from copydesk.store.stamp import Stamp
from copydesk.store.threads import all_let_go, let_go
from copydesk.store.window import from_line, last_lines
from copydesk.store.writing import Writing
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.search import Sought
from copydesk.text.snapshot import Snapshot
from copydesk.text.source import Whole

_READS_TRIED = 5
_SURVEYED = 64
_CHANGING = "EBUSY: the file changes while it is read"


class Workspace(Closing, Writing):
    """`Files` below the directory `root`; see `protocol` for what each method promises.

    Keeps the directory open until `close`, and may be used from many threads
    until then. `limit_bytes` is the largest file that is edited, `whole_bytes`
    the largest that is loaded whole. `may_write` raises a refusal when a writer
    has lost the right to write; it is asked right before a file is changed, and
    `may_return` right before that is taken back. `keep` records what another program
    wrote to a file at the moment that it was replaced.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        limit_bytes: int = 64 << 20,
        whole_bytes: int = sizes.WHOLE,
        may_write: Callable[[], None] = lambda: None,
        may_return: Callable[[], None] = lambda: None,
        keep: Keep = keep_nothing,
    ) -> None:
        self._surveyed: dict[tuple[Stamp, str | None], Known] = {}
        hooks = Hooks(may_write, may_return, keep)
        super().__init__(Root(os.fspath(root)), durability, self._states_of, hooks)
        self._limit_bytes = limit_bytes
        self._whole_bytes = whole_bytes

    def close(self) -> None:
        """Let the root directory go."""
        self._late.close()
        all_let_go()
        self._root.close()

    @property
    def root(self) -> str:
        """The root's real path when it was opened, for showing and for other programs."""
        return self._root.path

    def resolve(self, path: RelPath, via: Callable[[RelPath], None] = lambda link: None) -> RelPath:
        with self._root.place(path, via=via) as place:
            return place.real

    def stat(self, path: RelPath) -> tuple[RelPath, Stamp]:
        now_ns = _os.now_ns()
        with self._root.place(path) as place:
            place.require_parent()
            if not place.name:
                raise NotAFile("directory")
            try:
                found = _os.lstat(place.dir_fd, place.name)
            except FileNotFoundError:
                raise FileNotFound() from None
            except OSError as refused:
                raise failed("stat", refused) from refused
            return place.real, _stamp(found, now_ns)

    def kind(self, path: RelPath) -> str:
        """What stands at the path, in the words of NotAFile; a link at its end is a "symlink"."""
        with self._root.place(path, follow=False) as place:
            place.require_parent()
            if not place.name:
                return "directory"
            try:
                return kind_of(_os.lstat(place.dir_fd, place.name).st_mode)
            except FileNotFoundError:
                raise FileNotFound() from None
            except OSError as refused:
                raise failed("stat", refused) from refused

    def open_names(self, names: Sequence[bytes]) -> int:
        """A regular file by the names on its way, none a link, open for reading.

        Names may be other than UTF-8. Raises FileNotFound, NotAFile, InvalidPath, Failed.
        """
        try:
            fd = self._root.open_names(names)
        except OSError as refused:
            if refused.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO):
                raise FileNotFound() from None
            if refused.errno in (errno.ELOOP, errno.EXDEV, errno.EAGAIN):
                raise InvalidPath("a symlink is on the way") from None
            raise failed("open", refused) from refused
        kind = kind_of(_os.fstat(fd).st_mode)
        if kind != "file":
            _os.close_quietly(fd)
            raise NotAFile(kind)
        return fd

    def read(self, path: RelPath) -> Document:
        for _ in range(_READS_TRIED):
            with self.open_for_reading(path) as file:
                data = self._read_whole(file)
                if data is not None:
                    return Document(file.real, data, file.stamp)
        raise Failed("read", _CHANGING)

    def window(
        self, path: RelPath, first_line: int, most_bytes: int, named: str | None, *, last: bool
    ) -> Window:
        with self.open_for_reading(path) as file:
            fd, stamp = file.fd, file.stamp
            try:
                if last:
                    return last_lines(fd, stamp, first_line, most_bytes, named)
                return from_line(self._large(file, named), fd, stamp, first_line, most_bytes)
            except OSError as refused:
                raise failed("read", refused) from refused
            except TargetMoved:
                raise Failed("read", _CHANGING) from None

    @contextmanager
    def text(
        self, path: RelPath, named: Named, sought: Sequence[Sought] = ()
    ) -> Generator[OpenText]:
        for _ in range(_READS_TRIED):
            with self.open_for_reading(path) as file:
                real, stamp = file.real, file.stamp
                if stamp.size > self._limit_bytes:
                    raise FileTooLarge(stamp.size, self._limit_bytes)
                if stamp.size > sizes.LARGE:
                    yield OpenText(real, stamp, self._large(file, named(real), sought))
                    return
                data = self._read_whole(file)
            if data is not None:
                told = digest_beside(data) if len(data) >= sizes.BESIDE else None
                yield OpenText(real, stamp, Whole(Snapshot.of(data, named(real), told)))
                return
        raise Failed("read", _CHANGING)

    def _large(self, file: OpenFile, named: str | None, sought: Sequence[Sought] = ()) -> LargeFile:
        key = (file.stamp, named)

        def keep(known: Known) -> None:
            if file.stamp.settled:
                if len(self._surveyed) >= _SURVEYED:
                    self._surveyed.clear()
                self._surveyed[key] = known

        known = self._surveyed.get(key)
        return LargeFile(file.fd, file.stamp, named, self._whole_bytes, sought, known, keep)

    @contextmanager
    def open_for_reading(self, path: RelPath) -> Generator[OpenFile]:
        fd, real = self._root.open_file(path)
        size = 0
        try:
            stamp = _stamp_of_open(fd)
            size = stamp.size
            yield OpenFile(real, stamp, fd)
        finally:
            if size < sizes.BESIDE:
                _os.close_quietly(fd)
            else:
                let_go(fd)

    def content(self, path: RelPath) -> OpenContent:
        fd, _ = self._root.open_file(path)
        return OpenContent(fd)

    def list_dir(self, path: RelPath) -> tuple[RelPath, tuple[Entry, ...]]:
        with self._root.open_dir(path) as place:
            try:
                return place.real, listing.entries(place.dir_fd)
            except OSError as refused:
                raise failed("list", refused) from refused

    def similar(self, path: RelPath) -> tuple[str, ...]:
        with self._root.place(path) as place:
            if place.missing or place.blocked:
                return ()
            try:
                return listing.similar(place.dir_fd, place.real.name)
            except OSError as refused:
                raise failed("list", refused) from refused

    def digest(self, path: RelPath) -> tuple[RelPath, Stamp, str]:
        for _ in range(_READS_TRIED):
            with self.open_for_reading(path) as file:
                try:
                    sha256 = sha256_of(file.fd, file.stamp.size)
                    stands = file.stamp.stands_in(_os.fstat(file.fd))
                except OSError as refused:
                    raise failed("read", refused) from refused
                if stands:
                    return file.real, file.stamp, sha256
        raise Failed("read", _CHANGING)

    def _states_of(self, stamp: Stamp, sha256: str) -> States:
        """The states of the digest of a file, where a pass over it has left any."""
        for (known_stamp, _), known in list(self._surveyed.items()):
            if known_stamp == stamp and known.survey.facts.digest == sha256:
                return known.states
        return ()

    def _read_whole(self, file: OpenFile) -> bytes | None:
        """The bytes, or None when somebody wrote meanwhile."""
        size = file.stamp.size
        if size > self._limit_bytes:
            raise FileTooLarge(size, self._limit_bytes)
        if size > self._whole_bytes:
            raise FileTooLarge(size, self._whole_bytes, "whole_bytes")
        try:
            data = read_at(file.fd, size, 0)
            found = _os.fstat(file.fd)
        except OSError as refused:
            raise failed("read", refused) from refused
        return data if len(data) == size and file.stamp.stands_in(found) else None


def _stamp_of_open(fd: int) -> Stamp:
    now_ns = _os.now_ns()
    try:
        found = _os.fstat(fd)
    except OSError as refused:
        raise failed("stat", refused) from refused
    return _stamp(found, now_ns)


def _stamp(found: os.stat_result, now_ns: int) -> Stamp:
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(kind_of(found.st_mode))
    return Stamp.of(found, now_ns)
