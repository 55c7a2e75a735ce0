"""The writes of a workspace: `Files` as far as it changes files.

What lives here: each method as resolve, check, call, and OSError turned into a
refusal. What must not: system calls, locks, access rules, reading. Invariant:
no handle outlives the call or the context that opened it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import replace as replace_fields

from copydesk.errors import InvalidPath
from copydesk.store import _os, temp
from copydesk.store.beneath import Root
from copydesk.store.create import refuse_existing, remove
from copydesk.store.create import staged as staged_new
from copydesk.store.displaced import LateLooks, opened
from copydesk.store.hashing import States
from copydesk.store.in_place import staged as staged_in_place
from copydesk.store.pieces import read_at, sha256_of
from copydesk.store.place import MadeParents, Place
from copydesk.store.protocol import Durability, Piece, Staged, TargetMoved
from copydesk.store.refused import failed
from copydesk.store.replace import Hooks, staged
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
        hooks: Hooks,
    ) -> None:
        """`states` gives those of a file's digest, where a pass over it has left any.

        The hook `may_write` raises a refusal when the right to write was lost; it is asked
        right before each step that changes what a name leads to, or what stands in a file.
        """
        self._root, self._states = root, states
        self._late = LateLooks(lambda real: root.place(real, follow=False), hooks.keep)
        self._hooks = replace_fields(hooks, late=self._late)
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
        digest: str = "",
    ) -> Stamp:
        ready = self.stage(
            path,
            expected,
            expected_sha256,
            pieces,
            before_in_place=before_in_place,
            digested=before_rename is not None,
            expected_real=expected_real,
            digest=digest,
            revocable=False,
        )
        with ready as staged:
            if before_rename is not None and expected.nlink == 1:
                before_rename(lambda: staged.digest)
            return staged.commit()

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
        digest: str = "",
        revocable: bool = True,
    ) -> Generator[Staged]:
        durability = self._durability
        is_alone = expected.nlink == 1
        with (
            _refusing("write"),
            self._target(path, expected_real, held=is_alone) as (place, old_fd),
        ):
            if is_alone:
                made = staged(
                    place,
                    old_fd,
                    expected,
                    expected_sha256,
                    pieces,
                    durability=durability,
                    hooks=self._hooks,
                    digested=digested,
                    digest=digest,
                    revocable=revocable,
                    states=self._states(expected, expected_sha256),
                )
                with made as replacement:
                    yield _Ready("write", replacement, self._hooks.may_return)
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
                yield _Ready("write", overwriting, self._hooks.may_return)

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
                new = staged_new(place, data, durability=self._durability, hooks=self._hooks)
                with new as creation:
                    stamp = creation.commit()
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
            staged_new(place, data, durability=self._durability, hooks=self._hooks) as creation,
        ):
            yield _Ready("create", creation, self._hooks.may_return, parents)

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
                hooks=self._hooks,
            )

    def sweep(self, path: RelPath, before_ns: int) -> int:
        """Remove temporary files of copydesk in a directory that a killed process left.

        Those last written before `before_ns` (since the epoch); how many.
        """
        with _refusing("sweep"), self._root.open_dir(path) as place:
            return temp.sweep(place.dir_fd, before_ns)

    def sweep_for(self, path: RelPath, known: Collection[str] | None = None) -> int:
        with _refusing("sweep"), self._root.place(path, follow=False) as place:
            if place.missing or place.blocked or not place.name:
                return 0
            left = temp.temps_of(place.dir_fd, place.name)
            for name in left:
                if known is not None:
                    self._keep_unless(place, name, known)
                temp.discard(place.dir_fd, name)
            return len(left)

    def _keep_unless(self, place: Place, name: bytes, known: Collection[str]) -> None:
        """Record the content of a temporary file, unless its digest is known."""
        with ExitStack() as held:
            fd = opened(place, name, held)
            size = _os.fstat(fd).st_size if fd >= 0 else 0
            if size and sha256_of(fd, size) not in known:
                self._hooks.keep(place.real, read_at(fd, size, 0), None)

    def _asking_after(self, before_in_place: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """The callback, and after it whether one may write."""

        def before(old: bytes) -> None:
            before_in_place(old)
            self._hooks.may_write()

        return before

    @contextmanager
    def _target(
        self, path: RelPath, expected_real: RelPath | None, *, held: bool = True
    ) -> Generator[tuple[Place, int]]:
        """The place of a file and the file, open for reading; -1 unless it is to be `held` open."""
        place, fd = self._root.open_target(path)
        try:
            if not held:  # a lease is given to who alone has the file open
                _os.close_quietly(fd)
                fd = -1
            _require_real(place, expected_real)
            yield place, fd
        finally:
            if fd >= 0:
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
