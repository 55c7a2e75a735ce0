"""The bytes of files: written in pieces, cut into blocks, digested and packed in threads.

hashlib and zlib let Python's lock go, so a digest made beside the work costs a core and
no time. Invariants: pieces are written all, in their order, or something is raised; a task
of the pool waits for no other one; a process that was forked has a pool of its own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Generic, ParamSpec, Protocol, Self, TypeVar

from copydesk.errors import NotAFile
from copydesk.store import _os
from copydesk.store.protocol import Kept, Piece, Stamp, TargetMoved, failed, kind_of
from copydesk.text import sizes
from copydesk.text.encoding import Encoding


class Closing(ABC):
    """A context that closes itself at the end, whatever ends it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""


_THREADS = 8
_GOING = 64

A = ParamSpec("A")
T = TypeVar("T")


class _Pool:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """The threads of a parent are not there in its child."""
        self.threads = ThreadPoolExecutor(_THREADS, "copydesk-store")
        self.going: deque[Future[None]] = deque()

    def settle(self, most: int) -> None:
        """Wait until no more than so many files are being closed."""
        while len(self.going) > most:
            with suppress(IndexError):  # another thread has taken it
                self.going.popleft().result()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)


def in_thread(call: Callable[A, T], *args: A.args, **named: A.kwargs) -> Future[T]:
    """What comes of a call that is made in another thread, which waits for no other task."""
    return _pool.threads.submit(call, *args, **named)


def close_soon(fd: int) -> None:
    """Close a file soon: of one that lost its name the last handle takes the system time."""
    _pool.going.append(in_thread(_os.close_quietly, fd))
    _pool.settle(_GOING)


def wait_all_closed() -> None:
    """Return when all files are closed that were to be."""
    _pool.settle(0)


_CHUNK = 1 << 20
_GATHERED = 16 << 20


def write_pieces(fd: int, pieces: Iterable[Piece], old_fd: int, *, start: bool = False) -> None:
    """Write the pieces from where `fd` stands, at its first byte; `Kept` comes from `old_fd`.

    Pieces are gathered: they are written in few calls. `start`: the system may
    bring to the disk what is written while the rest is. Raises TargetMoved when
    the old file has become shorter than a kept range.
    """
    out = _Out(fd, start=start)
    for piece in pieces:
        if isinstance(piece, Kept):
            out.flush()
            _copy(old_fd, out, piece.start, piece.stop)
        elif piece:
            out.take(piece)
    out.flush()


class _Out:
    """A file that is written from its first byte on."""

    def __init__(self, fd: int, *, start: bool) -> None:
        self.fd, self._start = fd, start
        self._at = self._size = 0
        self._gathered: list[bytes | memoryview] = []

    def take(self, piece: bytes | memoryview) -> None:
        """Write the piece soon."""
        self._gathered.append(piece)
        self._size += len(piece)
        if self._size >= _GATHERED or len(self._gathered) == _os.MOST_PARTS:
            self.flush()

    def flush(self) -> None:
        gathered, size = self._gathered, self._size
        self._gathered, self._size = [], 0
        if size <= _CHUNK:
            write_all(self.fd, gathered[0] if len(gathered) == 1 else b"".join(gathered))
        else:
            _write_parts(self.fd, gathered)
        self.wrote(size)

    def wrote(self, count: int) -> None:
        """So many more bytes are in the file."""
        if self._start and count > _CHUNK:
            _os.start_writing(self.fd, self._at, count)
        self._at += count


def _write_parts(fd: int, parts: list[bytes | memoryview]) -> None:
    done = _os.write_many(fd, parts)
    for part in parts:
        if done < len(part):
            write_all(fd, memoryview(part)[done:])
            done = 0
        else:
            done -= len(part)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; raises OSError."""
    if not data:
        return
    done = _os.write(fd, data)
    if done == len(data):
        return
    view = memoryview(data)
    while done < len(view):
        count = _os.write(fd, view[done:])
        if count == 0:
            raise OSError(errno.EIO, "nothing was written")
        done += count


def read_at(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` (0-based) on, or what there is of them; raises OSError."""
    data = _os.pread(fd, count, offset)
    if len(data) == count or not data:
        return data
    parts = [data]
    have = len(data)
    while have < count:
        data = _os.pread(fd, count - have, offset + have)
        if not data:
            break
        parts.append(data)
        have += len(data)
    return b"".join(parts)


def sha256_of(fd: int, size: int) -> str:
    """The digest of the first `size` bytes as 64 lower-case hex digits, in bounded memory."""
    digest = hashlib.sha256()
    offset = 0
    while offset < size:
        data = _os.pread(fd, min(_CHUNK, size - offset), offset)
        if not data:
            break
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def from_memory(pieces: Iterable[Piece], old: bytes) -> list[bytes | memoryview]:
    """The pieces with the old bytes in the place of `Kept`."""
    view = memoryview(old)
    return [
        view[_checked(piece, len(old))] if isinstance(piece, Kept) else piece for piece in pieces
    ]


def _checked(kept: Kept, size: int) -> slice:
    if not 0 <= kept.start <= kept.stop <= size:
        raise ValueError(f"{kept} is not within {size} bytes")
    return slice(kept.start, kept.stop)


def _copy(old_fd: int, out: _Out, start: int, stop: int) -> None:
    if not 0 <= start <= stop:
        raise ValueError(f"{Kept(start, stop)} is not a range")
    while start < stop:
        count = _os.copy_range(old_fd, out.fd, start, min(stop - start, _GATHERED))
        if count == 0:
            break
        start += count
        out.wrote(count)
    while start < stop:
        data = _os.pread(old_fd, min(_CHUNK, stop - start), start)
        if not data:
            raise TargetMoved("the old file has become shorter")
        write_all(out.fd, data)
        start += len(data)
        out.wrote(len(data))


_LEAST = 8
"""A byte order mark and a code unit are in one block."""


def blocks(fd: int, size: int, encoding: Encoding) -> Iterator[tuple[int, bytes]]:
    """The blocks, with byte order mark, and their first bytes; ends early if the file shrank."""
    at, unit = 0, encoding.unit
    most = max(sizes.BLOCK, _LEAST)
    newline = encoding.encode("\n")
    while at < size:
        block = read_at(fd, min(most, size - at), at)
        if not block:
            return
        if at + len(block) < size:
            cut = after_last(block, newline)
            block = block[: cut or len(block) - len(block) % unit]
        yield at, block
        at += len(block)


def after_last(block: bytes, newline: bytes) -> int:
    """The offset just after the last line feed of the block; 0 when there is none."""
    at = len(block)
    while (at := block.rfind(newline, 0, at)) >= 0:
        if at % len(newline) == 0:
            return at + len(newline)
        at += len(newline) - 1
    return 0


def after_nth(block: bytes, newline: bytes, nth: int) -> int:
    """The offset just after the nth line feed of the block, nth from 1, which is there."""
    if len(newline) == 1:
        return _skip(block, nth)
    offset = 0
    while nth > 0:
        offset = block.index(newline, offset)
        if offset % len(newline):
            offset += 1
            continue
        offset += len(newline)
        nth -= 1
    return offset


def _skip(block: bytes, nth: int) -> int:
    """The offset just after the nth LF, by halving the stretch that must hold it."""
    low, high = 0, len(block)
    while nth and high - low > 4096:
        middle = (low + high) // 2
        before = block.count(b"\n", low, middle)
        if before >= nth:
            high = middle
        else:
            low, nth = middle, nth - before
    for _ in range(nth):
        low = block.index(b"\n", low) + 1
    return low


_STEP = 4 << 20
_JOINED = 8 << 20


class State(Protocol):
    """A digest under way."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take the next bytes."""

    def copy(self) -> State:
        """The same state once more."""
        ...

    def hexdigest(self) -> str:
        """The digest of what was taken so far, in hex."""
        ...


States = Sequence[tuple[int, State]]
"""The digest of the first so many bytes of a file, for some places in it, in order."""


def digest_in_thread(data: bytes) -> Callable[[], str]:
    """What gives the SHA-256 of the data, in hex; it is made from now on."""
    return in_thread(_sha256, data).result


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _InThread(Closing, Generic[T]):
    """What a thread makes; a context that ends when the thread has."""

    _future: Future[T]
    _stopped = False

    def close(self) -> None:
        """Stop it, and wait until its thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> T:
        """What was made; raises what the making raised."""
        return self._future.result()


class DigestOfFile(_InThread[tuple[str, States]]):
    """The digest in hex of an open file, and its states; of what there was, if it became shorter.

    It reads by itself, since blocks that are handed over one by one wait for Python's lock.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._future = in_thread(self._digest, fd, size)

    def _digest(self, fd: int, size: int) -> tuple[str, States]:
        state: State = hashlib.sha256()
        states: list[tuple[int, State]] = []
        room = memoryview(bytearray(min(size, _STEP)))
        at = 0
        while at < size and not self._stopped:
            count = _os.pread_into(fd, room[: size - at], at)
            if not count:
                break
            state.update(room[:count])
            at += count
            states.append((at, state.copy()))
        return state.hexdigest(), states


class DigestOfPieces(_InThread[str]):
    """The digest of pieces, made while others work; `states` are those of the old file."""

    def __init__(self, pieces: Sequence[Piece], old_fd: int, states: States) -> None:
        self._future = in_thread(self._digest, pieces, old_fd, states)

    def _digest(self, pieces: Sequence[Piece], old_fd: int, states: States) -> str:
        state, done = _state_before(pieces, states)
        for data in _bytes_from(pieces, old_fd, done):
            if self._stopped:
                break
            state.update(data)
        return state.hexdigest()


def _state_before(pieces: Sequence[Piece], states: States) -> tuple[State, int]:
    """The last state that holds of the new content too, and how many bytes it has taken."""
    first = pieces[0] if pieces else b""
    if isinstance(first, Kept) and first.start == 0:
        index = bisect_right(states, first.stop, key=lambda state: state[0])
        if index:
            at, state = states[index - 1]
            return state.copy(), at
    return hashlib.sha256(), 0


def _bytes_from(pieces: Sequence[Piece], old_fd: int, done: int) -> Iterator[bytes | memoryview]:
    """The bytes of the pieces but the first `done`; what is given holds until the next one."""
    given = sum(len(piece) for piece in pieces if not isinstance(piece, Kept))
    room = memoryview(bytearray(min(given, _JOINED)))
    size = 0
    for piece in pieces:
        if size and (isinstance(piece, Kept) or size + len(piece) > len(room)):
            yield room[:size]
            size = 0
        if isinstance(piece, Kept):
            yield from _kept(piece, old_fd, done)
            done = 0
        elif len(piece) > len(room):
            yield piece
        else:
            room[size : size + len(piece)] = piece
            size += len(piece)
    if size:
        yield room[:size]


def _kept(piece: Kept, old_fd: int, done: int) -> Iterator[bytes]:
    at = piece.start + done
    while at < piece.stop:
        data = read_at(old_fd, min(_CHUNK, piece.stop - at), at)
        if not data:
            raise TargetMoved("the old file has become shorter")
        yield data
        at += len(data)


class OpenContent:
    """`Content` of the open file `fd`, which is its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        # zlib and SHA-256 let Python's lock go: this takes a core, and no turn of others
        state, packer = hashlib.sha256(), zlib.compressobj(1)
        parts: list[bytes] = []
        at = size = 0
        try:
            while block := _os.pread(self._fd, sizes.BLOCK, at):
                at += len(block)
                state.update(block)
                parts.append(packer.compress(block))
                size += len(parts[-1])
                if size > most_bytes:
                    return None
        except OSError:
            return None
        finally:
            self.close()
        parts.append(packer.flush())
        return b"".join(parts) if state.hexdigest() == digest else None

    def close(self) -> None:
        _os.close_quietly(self._fd)


def close_of_size(fd: int, size: int) -> None:
    """Close a file, in a thread where its last handle may free many blocks."""
    if size < sizes.BESIDE:
        _os.close_quietly(fd)
    else:
        close_soon(fd)


def stamp_of_open(fd: int) -> Stamp:
    """The stamp of a regular file that is open; raises NotAFile, Failed."""
    now_ns = _os.now_ns()
    try:
        found = _os.fstat(fd)
    except OSError as refused:
        raise failed("stat", refused) from refused
    return stamp_of_regular(found, now_ns)


def stamp_of_regular(found: os.stat_result, now_ns: int) -> Stamp:
    """The stamp of a `stat` made no earlier than `now_ns`; NotAFile for what is no regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(kind_of(found.st_mode))
    return Stamp.of(found, now_ns)
