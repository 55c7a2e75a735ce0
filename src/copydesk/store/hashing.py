"""SHA-256 in a second thread, beside the reading or the copying of a file.

What lives here: the digest of blocks as they come, and that of a new content
made of pieces of an old one. What must not: whose digests they are. hashlib lets
Python's lock go, so this costs a core and no time; small pieces are put together
first, since to take the lock again costs more than they do. Invariant: a state
kept for a byte is that of all bytes before it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from types import TracebackType
from typing import Protocol, Self

from copydesk.store.pieces import read_at
from copydesk.store.protocol import Kept, Piece, TargetMoved

_AHEAD = 4
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
    made: list[str] = []
    thread = Thread(target=lambda: made.append(hashlib.sha256(data).hexdigest()), daemon=True)
    thread.start()

    def told() -> str:
        thread.join()
        return made[0]

    return told


class Hashing:
    """The digest of blocks that are given in order; keeps the states on the way."""

    def __init__(self) -> None:
        self._state: State = hashlib.sha256()
        self._at = 0
        self.states: list[tuple[int, State]] = []
        self._thread = ThreadPoolExecutor(1)
        self._under_way: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown(cancel_futures=True)

    def take(self, block: bytes) -> None:
        """The next block; waits when the digest is a few blocks behind."""
        if len(self._under_way) >= _AHEAD:
            self._under_way.popleft().result()
        self._under_way.append(self._thread.submit(self._update, block))

    def hexdigest(self) -> str:
        """The digest of all blocks."""
        while self._under_way:
            self._under_way.popleft().result()
        return self._state.hexdigest()

    def _update(self, block: bytes) -> None:
        self._state.update(block)
        self._at += len(block)
        if self._at - (self.states[-1][0] if self.states else 0) >= _STEP:
            self.states.append((self._at, self._state.copy()))


class DigestBeside:
    """The digest of pieces, made while others work; `states` are those of the old file.

    A context: it ends when the thread has. Raises in `result` what the reading
    raised: OSError, TargetMoved.
    """

    def __init__(self, pieces: Sequence[Piece], old_fd: int, states: States) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._stopped = False
        self._future = self._thread.submit(self._digest, pieces, old_fd, states)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped = True
        self._thread.shutdown(cancel_futures=True)

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
