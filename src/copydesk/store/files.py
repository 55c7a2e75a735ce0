"""The files below one root directory, read and written; OSError becomes a refusal here.

Invariant: no handle except the root's outlives the call or the context that opened it (a large file
is closed in a thread as the call ends).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace as replace_fields
from typing import TypeVar

from copydesk.errors import (
    BinaryFile,
    Failed,
    FileNotFound,
    FileTooLarge,
    InvalidPath,
    NotAFile,
    Refusal,
)
from copydesk.store import _os
from copydesk.store._os import Offers
from copydesk.store.contents import (
    UNFINISHED,
    Digest,
    OpenFile,
    States,
    attributes_of,
    discard,
    is_stale,
    is_temp,
    is_temp_of,
    read_at,
    sha256_of,
    temps,
)
from copydesk.store.large import LargeFile, Survey, last_lines
from copydesk.store.paths import (
    MadeParents,
    ResolvedPath,
    Root,
    entries,
    info_of,
    names,
    remove_if_empty,
    similar,
)
from copydesk.store.protocol import (
    Closing,
    Committed,
    DirEntry,
    Document,
    Durability,
    FileInfo,
    Named,
    OpenText,
    Piece,
    Removed,
    Stamp,
    TargetMoved,
    Window,
    failed,
    kind_of,
    refusing,
)
from copydesk.store.threads import close_of_size, wait_all_closed
from copydesk.store.writes import (
    Chmod,
    Creation,
    Hooks,
    Keep,
    LateLooks,
    Move,
    Overwriting,
    Removal,
    Replacement,
    Target,
    keep_nothing,
    offered_at,
    opened,
    refuse_existing,
    rename_free,
)
from copydesk.store.writes import StagedWrite as StagedWrite  # for the layers above
from copydesk.text import sizes
from copydesk.text.encoding import BYTES
from copydesk.text.relpath import PATH_BYTES, RelPath
from copydesk.text.snapshot import Excerpt, Snapshot, Sought

T = TypeVar("T")

MOST_NEW_PARENTS = 100
"""Limit of directories created for one new file; each is flushed to disk."""

_READS_TRIED = 5
_SURVEYED = 64
_CHANGING = "EBUSY: the file changes while it is read"


class Files(Closing):
    """The files below the directory `root`.

    Every method raises InvalidPath for a path that leads out of the root and Failed for what the
    operating system refuses. Methods that need a file raise FileNotFound if there is none and
    NotAFile(kind) if it is not a regular one. Each does all of its work or raises with nothing
    changed; `NotPutBack` is the one exception. Safe to call from many threads until `close`; two
    writers of one file are not excluded here, that is the job of the lock of the layer above.

    `limit_bytes` is the size of the largest file to edit, `whole_bytes` that of the largest to load
    whole. `may_write` raises TargetMoved or Failed if a writer has lost its lock; it is called
    right before each step that changes what a name leads to or what a file contains, and
    `may_return` right before that is undone. `keep` records what another program wrote to a file at
    the moment when it was replaced; `note_open` is called if another program still has that open
    for writing.
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
        note_open: Callable[[RelPath], None] = lambda real: None,
    ) -> None:
        self._surveyed: dict[tuple[Stamp, str | None], Survey] = {}
        self._root = Root(os.fspath(root))
        self._late, self._flush = LateLooks(keep), durability == "full"
        self._hooks = Hooks(may_write, may_return, keep, note_open, self._late, self._flush)
        self._limit_bytes = limit_bytes
        self._whole_bytes = whole_bytes

    def close(self) -> None:
        self._late.close()
        wait_all_closed()
        self._root.close()

    @property
    def root(self) -> str:
        """The root's real path when it was opened, to show and for other programs."""
        return self._root.path

    def resolve(self, path: RelPath, via: Callable[[RelPath], None] = lambda link: None) -> RelPath:
        """The real path, a missing end as written; `via` gets each link before and may refuse."""
        place = self._root.place(path, via=via)
        place.close()
        return place.real

    def stat(self, path: RelPath) -> tuple[RelPath, Stamp]:
        """The real path and the stamp of a regular file, without opening it."""
        now_ns = _os.now_ns()
        with self._root.place(path) as place:
            place.require_parent()
            if not place.name:
                raise NotAFile("directory")
            try:
                found = _os.lstat(place.name, dir_fd=place.dir_fd)
            except FileNotFoundError:
                raise FileNotFound() from None
            except OSError as refused:
                raise failed("stat", refused) from refused
            return place.real, _regular(found, now_ns)

    def info(self, path: RelPath, *, follow: bool = True) -> FileInfo:
        """The properties of the path's target, of any kind, or of a final link itself."""
        with self._root.place(path, follow=follow) as place:
            place.require_parent()
            return info_of(place)

    def make_dir(self, path: RelPath) -> None:
        """Create a directory and its missing parents; NotAFile if a file has one of the names."""
        with refusing("mkdir"), self._root.place(path / "in it") as place:
            self._check_name(place)
            with MadeParents(place, flush=self._flush) as parents:
                parents.keep()

    def remove_dir(self, path: RelPath) -> None:
        """Remove a directory if it is empty and the system lets us. Raises InvalidPath, Failed."""
        with refusing("rmdir"), self._root.place(path, follow=False) as place:
            remove_if_empty(place.dir_fd, place.name)

    def open_names(self, names: Sequence[bytes]) -> int:
        """Open a regular file by its names, without links; FileNotFound, NotAFile, Failed."""
        try:
            fd = self._root.open_names(names)
        except OSError as refused:
            if refused.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO):
                raise FileNotFound() from None
            if refused.errno in (errno.ELOOP, errno.EXDEV, errno.EAGAIN):
                raise InvalidPath("a symlink is on the way") from None
            raise failed("open", refused) from refused
        return _opened(fd, RelPath(())).fd

    def read(self, path: RelPath) -> Document:
        """The whole file; FileTooLarge above the limit."""
        file, data = self._settled(self.open_for_reading(path), path, self._data)
        return Document(file.real, data, file.stamp)

    def committed(self, paths: Mapping[RelPath, str]) -> dict[RelPath, Committed]:
        """What git's last commit has at these paths, if the root is in a repository.

        With a path comes git's name of the text that was removed there, if it was.
        """
        from copydesk.store.git import committed  # rarely needed

        return committed(self.root, paths)

    def has_moved(self, path: RelPath, stamp: Stamp) -> bool:
        """Whether a file that is not at the path any more has another name below the root."""
        name = _other_name(self.root, path, stamp)
        with suppress(Refusal):  # the number alone may be that of a new file
            return bool(name) and self.stat(RelPath.parse(name))[1].mtime_ns == stamp.mtime_ns
        return False

    def is_from_git(self, path: RelPath, before: Collection[str], now: str) -> bool:
        """Whether git made a file what it is `now`, and has a text that was there; by blob ids."""
        from copydesk.store.git import is_from_git  # rarely needed

        return is_from_git(self.root, path, before, now)

    def _data(self, file: OpenFile) -> bytes:
        """All bytes of the file; TargetMoved if there are fewer, FileTooLarge, OSError."""
        size = file.stamp.size
        if size > self._limit_bytes:
            raise FileTooLarge(size, self._limit_bytes)
        if size > self._whole_bytes:
            raise FileTooLarge(size, self._whole_bytes, "whole_bytes")
        data = _os.pread(file.fd, size, 0)
        if len(data) < size:  # at the end of the file, or interrupted
            data = read_at(file.fd, size, 0)
            if len(data) < size:
                raise TargetMoved()
        return data

    def _settled(
        self, file: OpenFile, path: RelPath, read: Callable[[OpenFile], T]
    ) -> tuple[OpenFile, T]:
        """What `read` finds in the file, now closed; it is opened again if it changes."""
        for again in range(_READS_TRIED):
            file = self.open_for_reading(path) if again else file
            try:
                found = read(file)
                if file.stamp.stands_in(_os.fstat(file.fd)):
                    return file, found
            except TargetMoved:
                continue
            except OSError as refused:
                raise failed("read", refused) from refused
            finally:
                close_of_size(file.fd, file.stamp.size)
        raise Failed("read", _CHANGING)

    def window(
        self, path: RelPath, first_line: int, most_bytes: int, named: str | None, *, last: bool
    ) -> Window:
        """Read some lines of a file of any size, in bounded memory.

        They start at line `first_line` (0-based), or with `last` are that many lines at the end.
        `named` is the encoding that the configuration names. Raises BinaryFile.
        """
        with refusing("read"), self.open_for_reading(path) as file:
            if last:
                return last_lines(file, first_line, most_bytes, named)
            try:
                return self._large(file, named).window(first_line, most_bytes)
            except TargetMoved:
                raise Failed("read", _CHANGING) from None

    def text(self, path: RelPath, named: Named, sought: Sequence[Sought] = ()) -> OpenText:
        """Open the file as text, in parts if large; `sought` is found on the way. FileTooLarge."""
        file = _opened(*self._root.open_file(path))
        if file.stamp.size <= sizes.LARGE:
            file, data = self._settled(file, path, self._data)
            told = Digest((data,)).result if file.stamp.size >= sizes.BESIDE else None
            return OpenText(file.real, file.stamp, Snapshot.of(data, named(file.real), told))
        try:
            if file.stamp.size > self._limit_bytes:
                raise FileTooLarge(file.stamp.size, self._limit_bytes)
            source = self._large(file, named(file.real), sought)
        except BaseException:
            file.close()
            raise
        return OpenText(file.real, file.stamp, source, file.close)

    def any_content(self, path: RelPath, named: Named) -> OpenText:
        """Open any file whole; one that is not text is shown as bytes. Raises FileTooLarge."""
        try:
            with self.text(path, named) as opened:
                return OpenText(opened.real, opened.stamp, opened.source.whole())
        except BinaryFile:
            document = self.read(path)
            return OpenText(document.real, document.stamp, Snapshot(document.data, BYTES))

    def unread(self, path: RelPath) -> OpenText:
        """A file of any size and content, of which only size and digest are known."""
        real, stamp, digest = self.digest(path)
        return OpenText(real, stamp, Excerpt.unread(stamp.size, digest))

    def open_for_reading(self, path: RelPath) -> OpenFile:
        """Open the file for reading, whatever its size; the caller closes it."""
        return _opened(*self._root.open_file(path))

    def list_dir(self, path: RelPath) -> tuple[RelPath, tuple[DirEntry, ...]]:
        """A directory's real path and its entries by name, without copydesk's temporary files."""
        with self._root.open_dir(path) as place, refusing("list"):
            return place.real, entries(place.dir_fd)

    def similar(self, path: RelPath) -> tuple[str, ...]:
        """Up to three existing names close to a missing one, closest first."""
        with self._root.place(path) as place:
            if place.missing or place.blocked:
                return ()
            with refusing("list"):
                return similar(place.dir_fd, place.real.name)

    def offers(self) -> Offers:
        """What the system and the file system of the root offer; makes files. Raises Failed."""
        with refusing("make a file"), self._root.open_dir(RelPath(())) as place:
            return offered_at(place)

    def digest(self, path: RelPath) -> tuple[RelPath, Stamp, str]:
        """The real path, the stamp and the SHA-256 in hex of a file, in bounded memory."""

        def sha256(file: OpenFile) -> str:
            return sha256_of(file.fd, file.stamp.size)

        file, digest = self._settled(self.open_for_reading(path), path, sha256)
        return file.real, file.stamp, digest

    def replace(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        expected_real: RelPath | None = None,
    ) -> Stamp:
        """Do what `stage` prepares; return the new stamp."""
        with self.stage(
            path,
            expected,
            expected_sha256,
            pieces,
            before_in_place=before_in_place,
            expected_real=expected_real,
            revocable=False,
        ) as staged:
            staged.commit()
            return staged.stamp()

    def stage(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        digested: bool = False,
        expected_real: RelPath | None = None,
        digest: str = "",
        revocable: bool = True,
    ) -> StagedWrite:
        """Prepare to replace the file's bytes by `pieces`.

        Without `commit` the context ends with nothing changed.

        `expected` and `expected_sha256` (64 lower-case hex digits, of the whole old content)
        describe what was read; TargetMoved is raised, here or by `commit`, if the file has changed
        since, or if the path does not lead to `expected_real`. `pieces` is iterated at most once;
        `digest` is its SHA-256 if known; `digested`: compute it. A file with several links is
        written in place, and `commit` calls `before_in_place` with its old bytes first (a
        TargetMoved may still follow). NotPutBack is raised if a write failed and the old bytes
        could not be restored.
        """
        with refusing("write"), ExitStack() as held:
            old = self._target(held, path, expected, expected_sha256, expected_real)
            if expected.nlink > 1:
                _os.close_quietly(old.fd)  # a lease requires that nobody else has the file open
                old.fd, known = -1, (expected, expected_sha256)
                return Overwriting(held, self._hooks, old.place, *known, pieces, before_in_place)
            return Replacement(
                held,
                self._hooks,
                old,
                pieces,
                digested=digested,
                digest=digest,
                revocable=revocable,
                states=self._states_of(expected, expected_sha256) if digested else (),
            )

    def create(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
    ) -> tuple[RelPath, Stamp]:
        """Create a file; FileExists, NotAFile for a taken name, FileNotFound without parent."""
        with self.stage_new(
            path, data, make_parents=make_parents, expected_real=expected_real
        ) as staged:
            staged.commit()
            return staged.real, staged.stamp()

    def check_new(self, path: RelPath, own: Stamp | None = None) -> None:
        """Raise what `create` would raise; the file `own` may have the name in another case."""
        with refusing("create"), ExitStack() as held:
            self._new(held, path, None, own).require_way()

    def missing_parents(self, path: RelPath) -> int:
        """The number of directories that a new file would need created."""
        with self._root.place(path, follow=False) as place:
            return len(place.missing)

    def remove_parents(self, path: RelPath, count: int) -> None:
        """Remove up to `count` empty directories above a path, the lowest first."""
        for _ in range(count):
            path = path.parent
            with refusing("remove"), self._root.place(path, follow=False) as place:
                if place.missing or place.blocked or not place.name:
                    return
                try:
                    _os.rmdir(place.name, dir_fd=place.dir_fd)
                except OSError as refused:
                    if refused.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        return
                    if refused.errno != errno.ENOENT:
                        raise

    def attributes(self, real: RelPath) -> Removed:
        """What a removal of the file would delete besides its bytes."""
        with refusing("read"), self.open_for_reading(real) as file:
            found = attributes_of(file.fd, _os.fstat(file.fd))
            if file.stamp.nlink == 1:
                return found
            return replace_fields(found, other_name=_other_name(self._root.path, real, file.stamp))

    def stage_new(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
        removed: Removed | None = None,
    ) -> StagedWrite:
        """Prepare what `create` does; without `commit` the context ends with nothing changed.

        The missing parents exist meanwhile. With `removed`, the file gets the attributes of that
        file, and becomes another name of the same file again if that has these bytes.
        """
        with refusing("create"), ExitStack() as held:
            place = self._new(held, path, expected_real)
            other = self._other(held, removed) if removed is not None else None
            if not make_parents:
                place.require_parent()
            parents = held.enter_context(MadeParents(place, flush=self._flush))
            return Creation(held, self._hooks, place, parents, data, removed, other)

    def _other(self, held: ExitStack, removed: Removed) -> tuple[int, bytes] | None:
        """The directory and name of the file that the removed one was another name of."""
        if removed.other_name:
            with suppress(OSError, Refusal):
                path = RelPath.parse(removed.other_name)
                place = held.enter_context(self._root.place(path, follow=False))
                place.require_parent()
                found = _os.lstat(place.name, dir_fd=place.dir_fd)
                if (found.st_dev, found.st_ino) == removed.inode:
                    return place.dir_fd, place.name
        return None

    def stage_move(
        self,
        path: RelPath,
        to: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
        expected_to: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare a move to a free name; parents are created. FileExists, NotAFile."""
        with refusing("move"), ExitStack() as held:
            old = self._target(held, path, expected, expected_sha256, expected_real)
            target = self._new(held, to, expected_to, expected)
            parents = held.enter_context(MadeParents(target, flush=self._flush))
            return Move(held, self._hooks, old, target, parents)

    def stage_chmod(
        self,
        path: RelPath,
        mode: int,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare a change of the permission bits of a file."""
        with refusing("change the mode"), ExitStack() as held:
            old = self._target(held, path, expected, expected_sha256, expected_real)
            return Chmod(held, self._hooks, old, mode)

    def remove(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> None:
        """Remove a file that is unchanged since it was read; else TargetMoved."""
        with self.stage_removal(path, expected, expected_sha256, expected_real=expected_real) as s:
            s.commit()

    def stage_removal(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> StagedWrite:
        """Prepare what `remove` does; without `commit` nothing changes."""
        with refusing("remove"), ExitStack() as held:
            old = self._target(held, path, expected, expected_sha256, expected_real)
            return Removal(held, self._hooks, old)

    def restore(
        self, path: RelPath, sha256: str, data: Callable[[], bytes], removed: Removed | None
    ) -> None:
        """Restore a removed file with digest `sha256`; FileExists, NotAFile for a taken name."""
        with refusing("put back"), ExitStack() as held:
            place = self._new(held, path, path)
            for name in _temps_of(place):
                if not name.endswith(UNFINISHED):
                    with opened(place, name) as fd:
                        if fd >= 0 and sha256_of(fd, _os.fstat(fd).st_size) == sha256:
                            self._hooks.may_return()
                            rename_free(place.dir_fd, name, place.name)
                            return
        with self.stage_new(path, data(), expected_real=path, removed=removed) as staged:
            staged.commit()

    def sweep(
        self, path: RelPath, before_ns: int, known: Mapping[RelPath, Collection[str]]
    ) -> tuple[int, tuple[RelPath, ...]]:
        """Remove copydesk's temporary files that a killed process left in a directory.

        Only those last touched before `before_ns` (since the epoch); returns their number. `known`
        are the hex digests of what copydesk recorded of files; a file with another digest is
        recorded first, as another program's. Those that cannot be recorded stay and are returned
        too.
        """
        removed, kept = 0, list[RelPath]()
        with refusing("sweep"), self._root.open_dir(path) as place:
            here = [name.encode() for name in {p.name for p in known if p.parent == place.real}]
            left = [name for name in temps(place.dir_fd) if is_stale(place.dir_fd, name, before_ns)]
            for name in left:
                of = (n for n in (*here, *names(place.dir_fd)) if is_temp_of(name, n))
                if self._swept(place.real, name, next(of, b""), known):
                    removed += 1
                else:
                    kept.append(RelPath((*place.real.parts, name.decode())))
        return removed, tuple(kept)

    def _swept(
        self, folder: RelPath, name: bytes, target: bytes, known: Mapping[RelPath, Collection[str]]
    ) -> bool:
        """Remove a temporary file made for `target` (if known); return whether it was removed."""
        with suppress(UnicodeDecodeError, OSError, Refusal):  # it stays
            of = RelPath((*folder.parts, (target or name).decode()))
            with self._root.place(of, follow=False) as place:
                if target or name.endswith(UNFINISHED):
                    return self._removed(place, name, known.get(of, ()))
        return False

    def sweep_for(self, path: RelPath, known: Collection[str]) -> int:
        """Remove a file's unfinished writes, recording unknown content; return their number."""
        with refusing("sweep"), self._root.place(path, follow=False) as place:
            return sum(self._removed(place, name, known) for name in _temps_of(place))

    def _large(self, file: OpenFile, named: str | None, sought: Sequence[Sought] = ()) -> LargeFile:
        key = (file.stamp, named)

        def keep(known: Survey) -> None:
            if file.stamp.settled:
                if len(self._surveyed) >= _SURVEYED:
                    self._surveyed.clear()
                self._surveyed[key] = known

        return LargeFile(file, named, self._whole_bytes, sought, self._surveyed.get(key), keep)

    def _states_of(self, stamp: Stamp, sha256: str) -> States:
        """The states of the digest of a file, if a pass over it has saved any."""
        for (known_stamp, _), known in list(self._surveyed.items()):
            if known_stamp == stamp and known.facts.digest == sha256:
                return known.states
        return ()

    def _removed(self, place: ResolvedPath, name: bytes, known: Collection[str]) -> bool:
        """Remove a temporary file, recording unknown content; False if not a file. OSError."""
        if not name.endswith(UNFINISHED):
            with opened(place, name) as fd:
                if fd < 0:
                    return False
                size = _os.fstat(fd).st_size
                if size and sha256_of(fd, size) not in known:
                    self._hooks.keep(place.real, read_at(fd, size, 0), None, False)
        discard(place.dir_fd, name)
        return True

    def _target(
        self,
        held: ExitStack,
        path: RelPath,
        expected: Stamp,
        sha256: str,
        expected_real: RelPath | None,
    ) -> Target:
        """The file to be changed, open for reading until `held` ends."""
        place, fd = self._root.open_target(path)
        target = Target(place, fd, expected, sha256)
        held.callback(target.close)
        if expected_real is not None and place.real != expected_real:
            raise TargetMoved()
        return target

    def _new(
        self,
        held: ExitStack,
        path: RelPath,
        expected_real: RelPath | None,
        own: Stamp | None = None,
    ) -> ResolvedPath:
        """The place of a file that does not exist, except perhaps as `own` in another case."""
        place = held.enter_context(self._root.place(path, follow=False))
        self._check_name(place)
        if not place.missing and not place.blocked:
            refuse_existing(place, own)  # first: a link's real path is its target's
        if expected_real is not None and place.real != expected_real:
            raise TargetMoved()
        return place

    def _check_name(self, place: ResolvedPath) -> None:
        """Raise InvalidPath for a file that no program could name, or with too many new parents."""
        if len(place.missing) > MOST_NEW_PARENTS:
            raise InvalidPath(f"more than {MOST_NEW_PARENTS} directories would have to be made")
        whole = os.path.join(os.fsencode(self._root.path), str(place.real).encode())
        if len(whole) > PATH_BYTES:
            raise InvalidPath(f"the path has more than {PATH_BYTES} bytes with that of the root")
        most = _os.name_bytes(place.dir_fd)
        if any(len(name) > most for name in (*place.missing, place.name)):
            raise InvalidPath(f"a name has more than {most} bytes")


def _opened(fd: int, real: RelPath) -> OpenFile:
    """The open file if it is a regular one; else it is closed. Raises NotAFile, Failed."""
    now_ns = _os.now_ns()
    try:
        return OpenFile(real, _regular(_os.fstat(fd), now_ns), fd)
    except BaseException as error:
        _os.close_quietly(fd)
        if isinstance(error, OSError):
            raise failed("stat", error) from error
        raise


def _regular(found: os.stat_result, now_ns: int) -> Stamp:
    """The stamp of a `stat` made no earlier than `now_ns`; NotAFile if it is not a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(kind_of(found.st_mode))
    return Stamp.of(found, now_ns)


def _temps_of(place: ResolvedPath) -> list[bytes]:
    """The names of temporary files that were made for the file at the place; raises OSError."""
    if place.missing or place.blocked or not place.name:
        return []
    return [name for name in temps(place.dir_fd) if is_temp_of(name, place.name)]


_NAMES_SOUGHT = 200_000
"""The most names to search for another hard link of a file."""


def _other_name(root: str, real: RelPath, stamp: Stamp) -> str:
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
