"""SHA-256 in a second thread, beside the reading or the copying of a file.

What lives here: the digests of a text, of a file, and of a new content made of
pieces of an old one. What must not: whose digests they are. hashlib lets
Python's lock go, so this costs a core and no time; small pieces are put together
first, since to take the lock again costs more than they do. Invariant: a state
kept for a byte is that of all bytes before it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from typing import Protocol

from copydesk.store import _os
from copydesk.store.closing import Closing
from copydesk.store.pieces import read_at
from copydesk.store.protocol import Kept, Piece, TargetMoved
from copydesk.store.threads import beside

_STEP = 4 << 20
_CHUNK = 1 << 20
_JOINED = 8 << 20


class State(Protocol):
    """A digest under way."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        ...

    def copy(self) -> State:
        """The same state once more."""
        ...

    def hexdigest(self) -> str:
        """The digest of what was taken so far, in hex."""
        ...


States = Sequence[tuple[int, State]]
"""The digest of the first so many bytes of a file, for some places in it, in order."""


def digest_beside(data: bytes) -> Callable[[], str]:
    """What gives the SHA-256 of the data, in hex; it is made from now on."""
    return beside(_sha256, data).result


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class DigestOfFile(Closing):
    """The digest of an open file, made while others read it; keeps the states on the way.

    A context: it ends when the thread has. It reads by itself, since blocks that
    are handed over one by one wait for Python's lock each time.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._stopped = False
        self._future = beside(self._digest, fd, size)

    def close(self) -> None:
        """Stop it, and wait until its thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> tuple[str, States]:
        """The digest in hex, and its states; of what there was, if the file became shorter."""
        return self._future.result()

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


class DigestBeside(Closing):
    """The digest of pieces, made while others work; `states` are those of the old file.

    A context: it ends when the thread has. Raises in `result` what the reading
    raised: OSError, TargetMoved.
    """

    def __init__(self, pieces: Sequence[Piece], old_fd: int, states: States) -> None:
        self._stopped = False
        self._future = beside(self._digest, pieces, old_fd, states)

    def close(self) -> None:
        """Stop it, and wait until its thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> str:
        """The digest, when it is made."""
        return self._future.result()

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
    """The bytes of the pieces, without the first `done`, which lie in the first piece.

    What is given holds until the next is asked for.
    """
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
    """The bytes of the old file that are kept, without the first `done`."""
    at = piece.start + done
    while at < piece.stop:
        data = read_at(old_fd, min(_CHUNK, piece.stop - at), at)
        if not data:
            raise TargetMoved("the old file has become shorter")
        yield data
        at += len(data)
