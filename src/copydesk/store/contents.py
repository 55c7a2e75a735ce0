"""What files are made of: bytes, written in pieces and digested; attributes; temporary names.

Invariants: all pieces are written in order, or an exception is raised; a temporary name belongs to
copydesk and is never that of a user's document; a file named as under construction holds only
copydesk's bytes, while any other temporary file may hold what another program saved; a new file
never grants more than the old one did, even if not everything can be copied.
"""

from __future__ import annotations

import binascii
import errno
import hashlib
import os
import re
import stat
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVarTuple

from copydesk.store import _os
from copydesk.store.protocol import EXECUTABLE, Closing, Kept, Piece, Removed, Stamp, TargetMoved
from copydesk.store.threads import close_of_size, in_thread
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from _hashlib import HASH

# Bytes

_CHUNK = 1 << 20
_GATHERED = 16 << 20


def write_pieces(fd: int, pieces: Sequence[Piece], old_fd: int, *, start: bool = False) -> None:
    """Write the pieces at the position of `fd`, its first byte; `Kept` comes from `old_fd`.

    Pieces are gathered to be written in few calls. `start`: the system may flush what is written
    while the rest is being written. Raises TargetMoved if the old file has become shorter than a
    kept range.
    """
    if len(pieces) == 1 and not isinstance(pieces[0], Kept) and len(pieces[0]) <= _CHUNK:
        write_all(fd, pieces[0])
        return
    at = 0
    for parts in _gathered(pieces):
        counts = _copied(old_fd, fd, parts) if isinstance(parts, Kept) else _written(fd, parts)
        for count in counts:
            if start and count > _CHUNK:
                _os.start_writing(fd, at, count)
            at += count


def _gathered(pieces: Iterable[Piece]) -> Iterator[Kept | list[bytes | memoryview]]:
    """The pieces in order; those that are to be written come in lists, one for each call."""
    parts: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, Kept) or size >= _GATHERED or len(parts) == _os.MOST_PARTS:
            yield parts
            parts, size = [], 0
        if isinstance(piece, Kept):
            yield piece
        elif piece:
            parts.append(piece)
            size += len(piece)
    yield parts


def _written(fd: int, parts: Sequence[bytes | memoryview]) -> tuple[int]:
    """Write bytes in one call, if they are many; their number."""
    size = sum(map(len, parts))
    done = _os.write_many(fd, parts) if size > _CHUNK else 0
    if done < size:
        write_all(fd, memoryview(b"".join(parts))[done:])
    return (size,)


def _copied(old_fd: int, fd: int, part: Kept) -> Iterator[int]:
    """Copy a range, in the kernel as far as it can; yields the number of bytes of each call."""
    at = part.start
    while at < part.stop:
        count = _os.copy_range(old_fd, fd, at, min(part.stop - at, _GATHERED))
        if count == 0:
            break
        at += count
        yield count
    while at < part.stop:
        if not (data := _os.pread(old_fd, min(_CHUNK, part.stop - at), at)):
            raise TargetMoved("the old file has become shorter")
        write_all(fd, data)
        at += len(data)
        yield len(data)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; raises OSError."""
    left = data
    while left:
        count = _os.write(fd, left)
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        left = memoryview(left)[count:]


def read_at(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` (0-based) on, fewer at the end of the file; raises OSError."""
    data = _os.pread(fd, count, offset)
    while len(data) < count and (more := _os.pread(fd, count - len(data), offset + len(data))):
        data += more
    return data


def sha256_of(fd: int, size: int) -> str:
    """The digest of the first `size` bytes as 64 lower-case hex digits, in bounded memory."""
    digest = hashlib.sha256()
    at = 0
    # No more than there is: room for a whole chunk is mapped and unmapped each time.
    while at < size and (data := _os.pread(fd, min(_CHUNK, size - at), at)):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


def from_memory(pieces: Iterable[Piece], old: bytes) -> list[bytes | memoryview]:
    """The pieces with the old bytes in place of `Kept`."""
    view = memoryview(old)
    return [
        view[piece.start : piece.stop] if isinstance(piece, Kept) else piece for piece in pieces
    ]


_STEP = 4 << 20
"""Bytes that are digested at once."""

_APART = 64 << 10
"""Pieces of so many bytes on average are digested one by one; smaller ones are joined."""

States = Sequence[tuple[int, "HASH"]]
"""The digests of prefixes of a file, each with the length of its prefix, in order."""


class Digest(Closing):
    """The SHA-256 of pieces, computed in a thread; the context ends when the thread has ended.

    `known` are states of the digest of the file that is open as `old_fd`; `states` are those of
    this one, once there is a result. It reads the file itself, since blocks handed over one by one
    would wait for the GIL.
    """

    def __init__(self, pieces: Sequence[Piece], old_fd: int = -1, known: States = ()) -> None:
        self.states: list[tuple[int, HASH]] = []
        self._stopped = False
        self._future = in_thread(self._digest, pieces, old_fd, known)

    def close(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> str:
        """The digest in hex; raises TargetMoved if the old file has become shorter, OSError."""
        return self._future.result()

    def _digest(self, pieces: Sequence[Piece], old_fd: int, known: States) -> str:
        state, at, first = hashlib.sha256(), 0, pieces[0] if pieces else b""
        if isinstance(first, Kept) and first.start == 0:
            index = bisect_right(known, first.stop, key=itemgetter(0))
            if index:  # the last state that the new content shares
                at, shared = known[index - 1]
                state, pieces = shared.copy(), (Kept(at, first.stop), *pieces[1:])
        for data in _bytes_of(pieces, old_fd):
            if self._stopped:
                break
            state.update(data)
            at += len(data)
            self.states.append((at, state.copy()))
        return state.hexdigest()


def _bytes_of(pieces: Iterable[Piece], old_fd: int) -> Iterator[bytes | memoryview]:
    """The bytes of the pieces, few at a time; each value is valid until the next one."""
    for parts in _gathered(pieces):
        if isinstance(parts, Kept):
            at, room = parts.start, memoryview(bytearray(min(_STEP, parts.stop - parts.start)))
            while at < parts.stop:
                if not (read := _os.pread_into(old_fd, room[: parts.stop - at], at)):
                    raise TargetMoved("the old file has become shorter")
                yield room[:read]
                at += read
        elif sum(map(len, parts)) < _APART * len(parts):
            yield b"".join(parts)
        else:
            yield from parts


@dataclass(frozen=True, slots=True)
class OpenFile(Closing):
    """A regular file open for reading, with its real path, until its context ends; a `Content`."""

    real: RelPath
    stamp: Stamp
    fd: int

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        """Compress the bytes and close; b"" beyond `most_bytes`, None for another SHA-256."""
        # zlib and SHA-256 release the GIL: this takes a core, and no turn of others
        state, packer = hashlib.sha256(), zlib.compressobj(1)
        parts: list[bytes] = []
        at = size = 0
        try:
            while block := _os.pread(self.fd, sizes.BLOCK, at):
                at += len(block)
                state.update(block)
                parts.append(packer.compress(block))
                size += len(parts[-1])
                if size > most_bytes:
                    return b""
        except OSError:
            return None
        finally:
            self.close()
        return b"".join((*parts, packer.flush())) if state.hexdigest() == digest else None

    def close(self) -> None:
        """Close the file."""
        close_of_size(self.fd, self.stamp.size)


# Temporary names

_NAME = re.compile(rb"\.copydesk-[0-9a-f]{12}(-new)?\.tmp")
UNFINISHED = b"-new.tmp"
"""The end of the name of a file under construction, which nobody else has written to."""

GLOB = ".copydesk-????????????*.tmp"


def new_temp(target: bytes, end: bytes = b".tmp") -> bytes:
    """A temporary name for `target`, which is free as far as chance goes."""
    digest = hashlib.sha256(target).digest()[:3] + os.urandom(3)
    return b".copydesk-%s%s" % (binascii.hexlify(digest), end)


def is_temp(name: bytes) -> bool:
    """Whether the name is one of copydesk's temporary names."""
    return _NAME.fullmatch(name) is not None


def is_temp_of(name: bytes, target: bytes) -> bool:
    """Whether a temporary name was created for `target`, as far as the name tells."""
    return name.startswith(b".copydesk-%s" % hashlib.sha256(target).hexdigest()[:6].encode())


def discard(dir_fd: int, name: bytes) -> None:
    """Remove a temporary file if it still exists; never raises OSError."""
    for _ in range(2):  # a passing fault must not leave it behind
        with suppress(OSError):  # the caller must hear of the earlier failure instead
            with suppress(FileNotFoundError):
                _os.unlink(name, dir_fd=dir_fd)
            return


def temps(dir_fd: int) -> list[bytes]:
    """The names of temporary files in a directory; raises OSError."""
    return [name for name in listed(dir_fd) if is_temp(name)]


def listed(dir_fd: int) -> list[bytes]:
    """All names in a directory, unsorted; raises OSError."""
    listing_fd = _os.open_listing(dir_fd)
    try:
        return [os.fsencode(name) for name in os.listdir(listing_fd)]
    finally:
        _os.close_quietly(listing_fd)


def is_stale(dir_fd: int, name: bytes, before_ns: int) -> bool:
    """Whether a file was not touched since `before_ns`, and no process has it open; OSError."""
    with suppress(FileNotFoundError):
        status = _os.lstat(name, dir_fd=dir_fd)
        # A file that was moved away keeps its old mtime.
        if max(status.st_mtime_ns, status.st_ctime_ns) < before_ns:
            try:
                fd = _os.open_read(dir_fd, name)
            except OSError:  # it is not a file that anybody writes
                return True
            try:
                return not _os.is_used(fd, _os.ALONE)
            finally:
                _os.close_quietly(fd)
    return False


# Attributes and flushes

Args = TypeVarTuple("Args")
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


def attributes_of(fd: int, status: os.stat_result) -> Removed:
    """What a removal of the open file deletes besides its bytes, as far as it may be read; OSError.

    `status` is its `stat`.
    """
    pairs: list[tuple[str, bytes]] = []
    for name in _names(fd):
        with _os.Ignoring(*_NOT_ALLOWED):  # it was removed, or may not be read
            pairs.append((name, _os.get_attribute(fd, name)))
    inode, owner = (status.st_dev, status.st_ino), (status.st_uid, status.st_gid)
    return Removed(status.st_mode, tuple(pairs), inode, "", owner)


def set_attributes(fd: int, ours: os.stat_result, wanted: Removed) -> None:
    """Give a new file owner, mode, ACL and extended attributes of an old one.

    What the caller is not allowed to set is left out. If the owner cannot be kept, set-user-id is
    dropped; if the group cannot, set-group-id is dropped and the group gets no more rights than
    others. Raises OSError for errors other than missing permission.
    """
    if wanted == EXECUTABLE:
        _os.chmod(fd, ours.st_mode & 0o7777 | (ours.st_mode & 0o444) >> 2)
        return
    user, group = wanted.owner
    same_user = user == ours.st_uid or allowed(_os.chown, fd, user, -1)
    same_group = group == ours.st_gid or allowed(_os.chown, fd, -1, group)
    attributes = dict(wanted.attributes)
    for name in _names(fd):
        # A default ACL of the directory could open the new file to others; labels of a security
        # system are left to that system.
        if name not in attributes and not name.startswith("security."):
            allowed(_os.remove_attribute, fd, name)
    for name, value in wanted.attributes:
        allowed(_os.set_attribute, fd, name, value)
    mode = wanted.mode & 0o7777
    if not same_user:
        mode &= ~stat.S_ISUID
    if not same_group:
        mode = (mode & ~(stat.S_ISGID | stat.S_IRWXG)) | (mode & stat.S_IRWXG & mode << 3)
    _os.chmod(fd, mode)


def _names(fd: int) -> list[str]:
    with _os.Ignoring(*_NOT_ALLOWED):
        return _os.list_attributes(fd)
    return []


def allowed(call: Callable[[*Args], object], *args: *Args) -> bool:
    """Whether the call was allowed; other errors are raised."""
    with _os.Ignoring(*_NOT_ALLOWED):
        call(*args)
        return True
    return False


def flush_dir(dir_fd: int, name: bytes) -> None:
    """Flush a directory after `name` changed, or the file if it is not listable; raises OSError."""
    with _os.Ignoring(errno.EBADF):  # it could be opened only for searching
        _flush(dir_fd)
        return
    fd = _os.open_read(dir_fd, name)
    try:
        _flush(fd)
    finally:
        _os.close_quietly(fd)


def _flush(fd: int) -> None:
    with _os.Ignoring(*_CANNOT_FLUSH):
        _os.sync(fd)


_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)  # some cannot flush directories
