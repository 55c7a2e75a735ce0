"""Another content for a file, in one step: a temporary file, then a rename.

What lives here: the order of the calls that makes it atomic and durable. What
must not: paths (a `Place` is handed in), files with several links (`in_place`).
Invariant: killed at any instant, the name holds the old bytes or the new; when
anything is raised it holds the old ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from copydesk.store import _os
from copydesk.store.attributes import copy_attributes
from copydesk.store.flush import DirFlush
from copydesk.store.hashing import DigestBeside, States
from copydesk.store.pieces import sha256_of, write_pieces
from copydesk.store.place import Place
from copydesk.store.protocol import Durability, Kept, Piece, TargetMoved
from copydesk.store.stamp import Stamp
from copydesk.store.temp import discard, open_temp


def replace(
    place: Place,
    old_fd: int,
    expected: Stamp,
    expected_sha256: str,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
    before_rename: Callable[[str], None] | None = None,
    states: States = (),
) -> Stamp:
    """Put the pieces in the place of the file open as `old_fd`; the new stamp.

    The new file has the old one's owner, mode, ACL and extended attributes as
    far as the system allows. `before_rename` gets the SHA-256 of the new bytes
    when these are ready; it is made beside the copying, from the `states` of
    the old file's digest where there are any. Raises TargetMoved when the name
    does not hold what was expected right before the rename, OSError.
    """
    old = _os.fstat(old_fd)
    if not expected.stands_in(old):
        raise TargetMoved()
    with DirFlush(place.dir_fd, wanted=durability == "full") as flush:
        if before_rename is None:
            temp, ours = copy_beside(place, old_fd, old, pieces, durability=durability)
            digest = ""
        else:
            pieces = tuple(pieces)
            with DigestBeside(pieces, old_fd, states) as beside:
                temp, ours = copy_beside(place, old_fd, old, pieces, durability=durability)
                digest = _result(beside, place, temp)
        try:
            if before_rename is not None:
                before_rename(digest)
            check_target(place, old_fd, expected, expected_sha256)
            _os.rename(place.dir_fd, temp, place.name)
            temp = b""
        finally:
            if temp:
                discard(place.dir_fd, temp)
        try:
            flush.now(place.name)
        except OSError:
            _put_back(place, old_fd, old, ours)
            raise
    return stamp_of_ours(place, ours)


def _result(beside: DigestBeside, place: Place, temp: bytes) -> str:
    """The digest; nothing is left behind when there is none."""
    try:
        return beside.result()
    except BaseException:
        discard(place.dir_fd, temp)
        raise


def copy_beside(
    place: Place,
    old_fd: int,
    old: os.stat_result,
    pieces: Iterable[Piece],
    *,
    durability: Durability,
) -> tuple[bytes, os.stat_result]:
    """A finished temporary file with the pieces and the old file's attributes.

    Its name, and what `stat` said of it. Raises OSError with nothing left behind.
    """
    fd, temp = open_temp(place.dir_fd, 0o600)
    finished = False
    try:
        try:
            write_pieces(fd, pieces, old_fd)
            ours = _os.fstat(fd)
            copy_attributes(old_fd, old, fd, ours)
            if durability == "full":
                _os.sync(fd)
        finally:
            _os.close(fd)
        finished = True
    finally:
        if not finished:
            discard(place.dir_fd, temp)
    return temp, ours


def check_target(place: Place, old_fd: int, expected: Stamp, expected_sha256: str) -> None:
    """Raise TargetMoved unless the name still holds the file `old_fd` as it was read.

    Where the clock cannot tell, the content does.
    """
    if not expected.settled and sha256_of(old_fd, expected.size) != expected_sha256:
        raise TargetMoved()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except FileNotFoundError:
        raise TargetMoved() from None
    if not expected.stands_in(found):
        raise TargetMoved()


def stamp_of_ours(place: Place, ours: os.stat_result) -> Stamp:
    """The stamp of what was just put at the place; the write is done, so nothing is raised.

    A rename changes the ctime, hence the second look. When it finds another
    file the stamp is that of ours as it was, which will match nothing.
    """
    now_ns = _os.now_ns()
    try:
        found = _os.lstat(place.dir_fd, place.name)
    except OSError:
        found = ours
    return Stamp.of(found if found.st_ino == ours.st_ino else ours, now_ns)


def _put_back(place: Place, old_fd: int, old: os.stat_result, ours: os.stat_result) -> None:
    """After a flush that failed: the old bytes again, so that the refusal is true."""
    whole = [Kept(0, old.st_size)]
    temp, _ = copy_beside(place, old_fd, old, whole, durability="fast")
    try:
        if _os.lstat(place.dir_fd, place.name).st_ino == ours.st_ino:
            _os.rename(place.dir_fd, temp, place.name)
            temp = b""
    finally:
        if temp:
            discard(place.dir_fd, temp)
