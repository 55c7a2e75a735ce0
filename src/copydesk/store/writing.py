"""The writes of a workspace: `Files` as far as it changes files.

What lives here: each method as resolve, check, call, and OSError turned into a
refusal. What must not: system calls, locks, access rules, reading. Invariant:
no handle outlives the call or the context that opened it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from copydesk.errors import InvalidPath
from copydesk.store import _os, temp
from copydesk.store.beneath import Root
from copydesk.store.create import create, refuse_existing, remove
from copydesk.store.create import staged as staged_new
from copydesk.store.hashing import States
from copydesk.store.in_place import staged as staged_in_place
from copydesk.store.in_place import write_in_place
from copydesk.store.place import MadeParents, Place
from copydesk.store.protocol import Durability, Piece, Staged, TargetMoved
from copydesk.store.refused import failed
from copydesk.store.replace import replace, staged
from copydesk.store.stamp import Stamp
from copydesk.store.threads import let_go
from copydesk.text.relpath import PATH_BYTES, RelPath

MOST_NEW_PARENTS = 100
"""So many directories are made for one new file; each is flushed to the disk."""


class Writing:
    """The methods of `Files` that write; see `protocol` for what each promises."""

    def __init__(
        self,
        root: Root,
        durability: Durability,
        states: Callable[[Stamp, str], States],
        may_write: Callable[[], None],
        may_return: Callable[[], None],
    ) -> None:
        """`states` gives those of a file's digest, where a pass over it has left any.

        `may_write` raises a refusal when the right to write was lost; it is asked right
        before each step that changes what a name leads to, or what stands in a file;
        `may_return` before such a step is taken back.
        """
        self._root, self._states = root, states
        self._may_write, self._may_return = may_write, may_return
        self._durability: Durability = durability

    def replace(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        pieces: Iterable[Piece],
        *,
        before_in_place: Callable[[bytes], None],
        before_rename: Callable[[Callable[[], str]], None] | None = None,
        expected_real: RelPath | None = None,
    ) -> Stamp:
        durability = self._durability
        with (
            _refusing("write"),
            self._target(path, expected_real) as (place, old_fd),
        ):
            if expected.nlink == 1:
                return replace(
                    place,
                    old_fd,
                    expected,
                    expected_sha256,
                    pieces,
                    durability=durability,
                    before_rename=before_rename,
                    states=self._states(expected, expected_sha256),
                    may_write=self._may_write,
                    may_return=self._may_return,
                )
            return write_in_place(
                place,
                expected,
                expected_sha256,
                pieces,
                before_in_place=self._asking_after(before_in_place),
                durability=durability,
            )

    @contextmanager
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
    ) -> Generator[Staged]:
        durability = self._durability
        with (
            _refusing("write"),
            self._target(path, expected_real) as (place, old_fd),
        ):
            if expected.nlink == 1:
                made = staged(
                    place,
                    old_fd,
                    expected,
                    expected_sha256,
                    pieces,
                    durability=durability,
                    digested=digested,
                    revocable=True,
                    states=self._states(expected, expected_sha256),
                    may_write=self._may_write,
                    may_return=self._may_return,
                )
                with made as replacement:
                    yield _Ready("write", replacement, self._may_return)
                return
            in_place = staged_in_place(
                place,
                expected,
                expected_sha256,
                pieces,
                before_in_place=self._asking_after(before_in_place),
                durability=durability,
            )
            with in_place as overwriting:
                yield _Ready("write", overwriting, self._may_return)

    def create(
        self,
        path: RelPath,
        data: bytes,
        *,
        make_parents: bool = True,
        expected_real: RelPath | None = None,
    ) -> tuple[RelPath, Stamp]:
        with _refusing("create"), self._new(path, expected_real) as place:
            if not make_parents:
                place.require_parent()
            with MadeParents(place, flush=self._durability == "full") as parents:
                stamp = create(place, data, durability=self._durability, may_write=self._may_write)
                parents.keep()
            return place.real, stamp

    def check_new(self, path: RelPath) -> None:
        with _refusing("create"), self._new(path, None) as place:
            place.require_way()

    @contextmanager
    def stage_new(
        self, path: RelPath, data: bytes, *, expected_real: RelPath | None = None
    ) -> Generator[Staged]:
        flush = self._durability == "full"
        with (
            _refusing("create"),
            self._new(path, expected_real) as place,
            MadeParents(place, flush=flush) as parents,
            staged_new(
                place, data, durability=self._durability, may_write=self._may_write
            ) as creation,
        ):
            yield _Ready("create", creation, self._may_return, parents)

    def remove(
        self,
        path: RelPath,
        expected: Stamp,
        expected_sha256: str,
        *,
        expected_real: RelPath | None = None,
    ) -> None:
        with (
            _refusing("remove"),
            self._target(path, expected_real) as (place, old_fd),
        ):
            remove(
                place,
                old_fd,
                expected,
                expected_sha256,
                durability=self._durability,
                may_write=self._may_write,
            )

    def sweep(self, path: RelPath, before_ns: int) -> int:
        """Remove temporary files of copydesk in a directory that a killed process left.

        Those last written before `before_ns` (since the epoch); how many.
        """
        with _refusing("sweep"), self._root.open_dir(path) as place:
            return temp.sweep(place.dir_fd, before_ns)

    def sweep_for(self, path: RelPath) -> int:
        with _refusing("sweep"), self._root.place(path, follow=False) as place:
            if place.missing or place.blocked or not place.name:
                return 0
            return temp.sweep_for(place.dir_fd, place.name)

    def _asking_after(self, before_in_place: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """The callback, and after it whether one may write."""

        def before(old: bytes) -> None:
            before_in_place(old)
            self._may_write()

        return before

    @contextmanager
    def _target(self, path: RelPath, expected_real: RelPath | None) -> Generator[tuple[Place, int]]:
        """The place of a file and the file, open for reading."""
        place, fd = self._root.open_target(path)
        try:
            _require_real(place, expected_real)
            yield place, fd
        finally:
            let_go(fd)
            place.close()

    @contextmanager
    def _new(self, path: RelPath, expected_real: RelPath | None) -> Generator[Place]:
        """The place of a file that does not exist."""
        with self._root.place(path, follow=False) as place:
            self._check_name(place)
            if not place.missing and not place.blocked:
                refuse_existing(place)  # first: a link's real path is its target's
            _require_real(place, expected_real)
            yield place

    def _check_name(self, place: Place) -> None:
        """Raise InvalidPath for a file that no program could name, or with too many new parents."""
        if len(place.missing) > MOST_NEW_PARENTS:
            raise InvalidPath(f"more than {MOST_NEW_PARENTS} directories would have to be made")
        whole = os.path.join(os.fsencode(self._root.path), str(place.real).encode())
        if len(whole) > PATH_BYTES:
            raise InvalidPath(f"the path has more than {PATH_BYTES} bytes with that of the root")
        most = _os.name_bytes(place.dir_fd)
        if any(len(name) > most for name in (*place.missing, place.name)):
            raise InvalidPath(f"a name has more than {most} bytes")


class _Ready:
    """A staged write whose OSError is a refusal; it keeps the parents that were made for it."""

    def __init__(
        self,
        operation: str,
        inner: Staged,
        may_return: Callable[[], None],
        parents: MadeParents | None = None,
    ) -> None:
        self._operation, self._inner, self._parents = operation, inner, parents
        self._may_return = may_return

    @property
    def digest(self) -> str:
        with _refusing(self._operation):
            return self._inner.digest

    def commit(self) -> Stamp:
        with _refusing(self._operation):
            stamp = self._inner.commit()
        if self._parents is not None:
            self._parents.keep()
        return stamp

    def put_back(self, sha256: str) -> None:
        self._may_return()
        with _refusing("put back"):
            self._inner.put_back(sha256)
        if self._parents is not None:
            self._parents.let_go()


@contextmanager
def _refusing(operation: str) -> Generator[None]:
    """What the operating system refuses within is a refusal."""
    try:
        yield
    except OSError as refused:
        raise failed(operation, refused) from refused


def _require_real(place: Place, expected: RelPath | None) -> None:
    if expected is not None and place.real != expected:
        raise TargetMoved()
