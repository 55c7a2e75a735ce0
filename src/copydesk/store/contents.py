"""The bytes of files: written in pieces, read in blocks, digested in threads; large files as text.

hashlib and zlib release the GIL, so a digest in another thread costs a core but no time.
Invariants: all pieces are written in order, or an exception is raised; a task of the pool waits for
no other task; a forked process has its own pool. What `LargeFile` returns was read from the file in
one state, that of its stamp, or TargetMoved is raised; its memory is bounded unless a whole text is
requested.
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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, ParamSpec, Protocol, Self, TypeVar

from copydesk.errors import BinaryFile, FileTooLarge, NotAFile
from copydesk.store import _os
from copydesk.store.protocol import Kept, Piece, Stamp, TargetMoved, Window, failed, kind_of
from copydesk.text import sizes
from copydesk.text.encoding import UNKNOWN, Encoding, detect_head
from copydesk.text.nearest import Closest, NearestLines
from copydesk.text.relpath import RelPath
from copydesk.text.search import Hits, Sought, hits_of
from copydesk.text.snapshot import VERSION_LENGTH, LineIndex, Snapshot, Text, lines_of
from copydesk.text.source import Excerpt, Survey, Surveyor, Whole


class Closing(ABC):
    """A context manager that calls `close`."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


_THREADS = 8
_GOING = 64

A = ParamSpec("A")
T = TypeVar("T")


class _Pool:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start with new threads: a forked child does not have those of its parent."""
        self.threads = ThreadPoolExecutor(_THREADS, "copydesk-store")
        self.going: deque[Future[None]] = deque()

    def settle(self, most: int) -> None:
        """Wait until at most `most` files are being closed."""
        while len(self.going) > most:
            with suppress(IndexError):  # another thread has taken it
                self.going.popleft().result()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)


def in_thread(call: Callable[A, T], *args: A.args, **named: A.kwargs) -> Future[T]:
    """Run a call in the thread pool; it must not wait for another task of the pool."""
    return _pool.threads.submit(call, *args, **named)


def close_soon(fd: int) -> None:
    """Close a file in a thread: closing the last handle of an unlinked file takes time."""
    _pool.going.append(in_thread(_os.close_quietly, fd))
    _pool.settle(_GOING)


def wait_all_closed() -> None:
    """Wait until all files given to `close_soon` are closed."""
    _pool.settle(0)


_CHUNK = 1 << 20
_GATHERED = 16 << 20


def write_pieces(fd: int, pieces: Iterable[Piece], old_fd: int, *, start: bool = False) -> None:
    """Write the pieces at the position of `fd`, its first byte; `Kept` comes from `old_fd`.

    Pieces are gathered to be written in few calls. `start`: the system may flush what is written
    while the rest is being written. Raises TargetMoved if the old file has become shorter than a
    kept range.
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
        """Queue the piece for writing."""
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
            done = _os.write_many(self.fd, gathered)
            for part in gathered if done < size else ():  # what the one call has not written
                write_all(self.fd, memoryview(part)[done:])
                done = max(done - len(part), 0)
        self.wrote(size)

    def wrote(self, count: int) -> None:
        """Count bytes that were written, and start to flush them."""
        if self._start and count > _CHUNK:
            _os.start_writing(self.fd, self._at, count)
        self._at += count


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
    """`count` bytes from `offset` (0-based) on, fewer at the end of the file; raises OSError."""
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
    """The pieces with the old bytes in place of `Kept`."""
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


_LEAST = 8  # bytes: a byte order mark and a code unit fit in one block


_TAIL = 1 << 14
"""How many bytes at the end of a block are searched for a line end before it is read."""


def blocks(fd: int, size: int, encoding: Encoding) -> Iterator[tuple[int, bytes]]:
    """The blocks, including a byte order mark, with their offsets; fewer if the file shrank."""
    at, unit = 0, encoding.unit
    most = max(sizes.BLOCK, _LEAST)
    newline = encoding.encode("\n")
    while at < size:
        count = min(most, size - at)
        if count > _TAIL and at + count < size:  # a block that ends with a line is not copied
            before = count - _TAIL
            count = before + (after_last(read_at(fd, _TAIL, at + before), newline) or _TAIL)
        block = read_at(fd, count, at)
        if not block:
            return
        if at + len(block) < size:
            cut = after_last(block, newline)
            block = block[: cut or len(block) - len(block) % unit]
        yield at, block
        at += len(block)


def after_last(block: bytes, newline: bytes) -> int:
    """The offset just after the last line feed of the block; 0 if there is none."""
    at = len(block)
    while (at := block.rfind(newline, 0, at)) >= 0:
        if at % len(newline) == 0:
            return at + len(newline)
        at += len(newline) - 1
    return 0


def after_nth(block: bytes, newline: bytes, nth: int) -> int:
    """The offset just after the nth line feed (nth from 1), which must exist."""
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
    """The offset just after the nth LF; halves the range that must contain it."""
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
_ROOMS = 2
_free_rooms: list[memoryview] = []


@contextmanager
def _room() -> Generator[memoryview]:
    """A buffer of `_STEP` bytes; a few are kept, since the system is slow to give new memory."""
    try:
        room = _free_rooms.pop()
    except IndexError:
        room = memoryview(bytearray(_STEP))
    try:
        yield room
    finally:
        if len(_free_rooms) < _ROOMS:
            _free_rooms.append(room)


_APART = 64 << 10
"""Pieces of at least this many bytes are digested in place; smaller ones are gathered."""


class State(Protocol):
    """A digest in progress."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take the next bytes."""

    def copy(self) -> State:
        """A copy of the state."""
        ...

    def hexdigest(self) -> str:
        """The digest so far, in hex."""
        ...


States = Sequence[tuple[int, State]]
"""The digests of prefixes of a file, each with the length of its prefix, in order."""


def digest_in_thread(data: bytes) -> Callable[[], str]:
    """Start to digest the data in a thread; the returned function gives the SHA-256 in hex."""
    return in_thread(_sha256, data).result


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _InThread(Closing, Generic[T]):
    """A result computed in a thread; the context ends when the thread has ended."""

    _future: Future[T]
    _stopped = False

    def close(self) -> None:
        """Stop the job and wait until its thread has ended."""
        self._stopped = True
        if not self._future.cancel():
            wait((self._future,))

    def result(self) -> T:
        """The result; raises the job's exception."""
        return self._future.result()


class DigestOfFile(_InThread[tuple[str, States]]):
    """The digest in hex of an open file and its states; if it became shorter, of what there was.

    It reads the file itself, since blocks handed over one by one would wait for the GIL.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._future = in_thread(self._digest, fd, size)

    def _digest(self, fd: int, size: int) -> tuple[str, States]:
        state: State = hashlib.sha256()
        states: list[tuple[int, State]] = []
        at = 0
        with _room() as room:
            while at < size and not self._stopped:
                count = _os.pread_into(fd, room[: size - at], at)
                if not count:
                    break
                state.update(room[:count])
                at += count
                states.append((at, state.copy()))
        return state.hexdigest(), states


class DigestOfPieces(_InThread[str]):
    """The digest of pieces, computed in the background; `states` are those of the old file."""

    def __init__(self, pieces: Sequence[Piece], old_fd: int, states: States) -> None:
        self._future = in_thread(self._digest, pieces, old_fd, states)

    def _digest(self, pieces: Sequence[Piece], old_fd: int, states: States) -> str:
        state: State = hashlib.sha256()
        done, first = 0, pieces[0] if pieces else b""
        if isinstance(first, Kept) and first.start == 0:
            index = bisect_right(states, first.stop, key=lambda known: known[0])
            if index:  # the last state that the new content shares
                done, known = states[index - 1]
                state = known.copy()
        with _room() as room:
            for data in _bytes_from(pieces, old_fd, done, room):
                if self._stopped:
                    break
                state.update(data)
        return state.hexdigest()


def _bytes_from(
    pieces: Sequence[Piece], old_fd: int, done: int, room: memoryview
) -> Iterator[bytes | memoryview]:
    """The bytes of the pieces after the first `done`; each value is valid until the next one."""
    size = 0
    for piece in pieces:
        count = 0 if isinstance(piece, Kept) or len(piece) >= _APART else len(piece)
        if size and not 0 < count <= len(room) - size:
            yield room[:size]
            size = 0
        if isinstance(piece, Kept):
            yield from _kept(piece, old_fd, done, room)
            done = 0
        elif count:
            room[size : size + count] = piece
            size += count
        else:
            yield piece
    if size:
        yield room[:size]


def _kept(piece: Kept, old_fd: int, done: int, room: memoryview) -> Iterator[memoryview]:
    at = piece.start + done
    while at < piece.stop:
        count = _os.pread_into(old_fd, room[: piece.stop - at], at)
        if not count:
            raise TargetMoved("the old file has become shorter")
        yield room[:count]
        at += count


class OpenContent:
    """The `Content` of the open file `fd`, which it closes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        # zlib and SHA-256 release the GIL: this takes a core, and no turn of others
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
    """Close a file; in a thread if it is large and has no name, which may free many blocks."""
    if size < sizes.BESIDE or _has_name(fd):
        _os.close_quietly(fd)
    else:
        close_soon(fd)


def _has_name(fd: int) -> bool:
    try:
        return _os.fstat(fd).st_nlink > 0
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class OpenFile(Closing):
    """A regular file open for reading, with its real path, until its context ends."""

    real: RelPath
    stamp: Stamp
    fd: int

    def close(self) -> None:
        """Close the file."""
        close_of_size(self.fd, self.stamp.size)


def stamp_of_open(fd: int) -> Stamp:
    """The stamp of an open regular file; raises NotAFile, Failed."""
    now_ns = _os.now_ns()
    try:
        found = _os.fstat(fd)
    except OSError as refused:
        raise failed("stat", refused) from refused
    return stamp_of_regular(found, now_ns)


def stamp_of_regular(found: os.stat_result, now_ns: int) -> Stamp:
    """The stamp of a `stat` made no earlier than `now_ns`; NotAFile if it is not a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(kind_of(found.st_mode))
    return Stamp.of(found, now_ns)


_MARGIN = 4
_HEAD = 4
_BLOCKS = 3  # blocks kept in memory: requested places lie close together
_HELD = 4  # windows read of one text if several places are requested


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The result of one pass over a file, and the states of its digest at each block."""

    survey: Survey
    states: States


class LargeFile:
    """A `Source` over an open file; it lives as long as `fd` does.

    `known` is the result of an earlier pass over the same stamp, and `keep` receives that of this
    pass. `sought` is what will be searched for, so that one pass finds it too. A file of more than
    `whole_bytes` is never read as a whole.
    """

    def __init__(
        self,
        fd: int,
        stamp: Stamp,
        named: str | None,
        whole_bytes: int,
        sought: Sequence[Sought] = (),
        known: Surveyed | None = None,
        keep: Callable[[Surveyed], None] = lambda known: None,
    ) -> None:
        self._fd, self._stamp, self._named, self._whole_bytes = fd, stamp, named, whole_bytes
        self._sought, self._known, self._keep = tuple(sought), known, keep
        self._found: dict[tuple[Sought, ...], tuple[Hits, ...]] = {}
        self._blocks: dict[int, LineIndex] = {}

    @property
    def size(self) -> int:
        return self._stamp.size

    @property
    def digest(self) -> str:
        return self.survey.facts.digest or ""

    @property
    def version(self) -> str:
        return self.digest[:VERSION_LENGTH]

    @property
    def line_count(self) -> int:
        return self.survey.facts.line_count

    @property
    def survey(self) -> Survey:
        """The result of the pass over the file, which is made when first needed."""
        if self._known is None:
            with self._reading():
                self._known = self._pass()
            self._keep(self._known)
        return self._known.survey

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        wanted = tuple(sought)
        if self._known is None:
            self._sought = wanted
        survey = self.survey
        if wanted not in self._found:
            with self._reading():
                search = _Search(wanted, survey.encoding)
                passed = blocks(self._fd, self.size, survey.encoding)
                for (at, block), (_, line) in zip(passed, survey.marks, strict=False):
                    search.take(block, line, last=at + len(block) >= self.size)
                found = search.finish()
            self._found[wanted] = found or Whole(self.whole()).seek(wanted)
        return self._found[wanted]

    def close_to(self, text: str) -> Closest:
        survey, close = self.survey, NearestLines(text)
        encoding, bare = survey.encoding, replace(survey.encoding, bom=b"")
        joined = _Joined(encoding)
        with self._reading():
            passed = blocks(self._fd, self.size, encoding)
            for (at, block), (_, line) in zip(passed, survey.marks, strict=False):
                if at >= sizes.NEAR:
                    break
                for first, lines in joined.take(block, line, last=at + len(block) >= self.size):
                    close.take(Snapshot(lines, bare), first)
        if joined.too_long and self.size <= min(sizes.NEAR, self._whole_bytes):
            return Whole(self.whole()).close_to(text)
        return close.closest

    def around(self, start: int, stop: int) -> Text:
        return self._with([(start, stop)])

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        with self._reading():
            lines = [(self.line_of(start), self.line_of(stop) + 1) for start, stop in spans]
        return self._with(lines)

    def _with(self, lines: Sequence[tuple[int, int]]) -> Text:
        """The text with these ranges of lines [start, stop) loaded, as far as they exist."""
        if self._stamp.nlink > 1:
            return self.whole()  # it will be written in place, from its whole content
        survey = self.survey
        total = survey.facts.line_count
        pieces: list[tuple[int, int, bytes]] = []
        held = 0
        with self._reading():
            wanted = [self._grown(survey, start, min(stop, total)) for start, stop in lines]
            if not survey.facts.ends_with_newline and total:
                wanted.append((max(total - 1 - _MARGIN, 0), total))
            for first, last in wanted:
                begin, end = self.byte(first), self.byte(last)
                held += end - begin
                if end - begin > sizes.WINDOW or held > _HELD * sizes.WINDOW:
                    break
                pieces.append((first, begin, read_at(self._fd, end - begin, begin)))
        if len(pieces) < len(wanted):
            return self.whole()
        return Excerpt.of(survey.encoding, survey.facts, pieces)

    def whole(self) -> Snapshot:
        """The text with all its lines; raises FileTooLarge if it is too large."""
        if self.size > self._whole_bytes:
            raise FileTooLarge(self.size, self._whole_bytes, "whole_bytes")
        with self._reading():
            data = read_at(self._fd, self.size, 0)
        known = self._known
        told = digest_in_thread(data) if known is None else lambda: known.survey.facts.digest or ""
        return Snapshot.of(data, self._named, told)

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Raise TargetMoved if the file changed while it was read."""
        try:
            yield
            stands = self._stamp.stands_in(_os.fstat(self._fd))
        except OSError as refused:
            raise failed("read", refused) from refused
        if not stands:
            raise TargetMoved()

    def _pass(self) -> Surveyed:
        surveyor = Surveyor(read_at(self._fd, _HEAD, 0), self.size, self._named)
        encoding = surveyor.encoding
        search = _Search(self._sought, encoding)
        with DigestOfFile(self._fd, self.size) as beside:
            for at, block in blocks(self._fd, self.size, encoding):
                line = surveyor.lines_before
                surveyor.take(block)
                search.take(block, line, last=at + len(block) >= self.size)
            digest, states = beside.result()
            known = Surveyed(surveyor.finish(digest), states)
        found = search.finish()
        if found is not None and known.survey.encoding == encoding:
            self._found[self._sought] = found
        return known

    def byte(self, line: int) -> int:
        """The byte offset where a line starts; the size for the end and beyond."""
        survey = self.survey
        if line == 0:
            return len(survey.encoding.bom)
        if line >= survey.facts.line_count:
            return self.size
        begin, end, nth = survey.block_of(line)
        if begin not in self._blocks:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            data = read_at(self._fd, end - begin, begin)
            self._blocks[begin] = lines_of(data, 0, survey.encoding.encode("\n"))
        return begin + self._blocks[begin][nth]

    def line_of(self, byte: int) -> int:
        """The line that contains a byte, as `Text.line_at` numbers it."""
        survey = self.survey
        index = bisect_right(survey.steps, byte, key=lambda mark: mark[0]) - 1
        begin, before = survey.steps[max(index, 0)]
        block = read_at(self._fd, byte - begin, begin)
        if survey.encoding.unit == 1:
            return before + block.count(b"\n")
        return before + survey.encoding.decode(block).count("\n")

    def _grown(self, survey: Survey, start: int, stop: int) -> tuple[int, int]:
        """Lines [start, stop) with a few around them, and adjacent blank lines in the window."""
        total, step = survey.facts.line_count, _MARGIN
        first, last = max(start - step, 0), min(stop + step, total)
        low, high = first > 0, last < total
        while (low or high) and step < sizes.WINDOW:
            low = low and self._blank(survey, first, start)
            high = high and self._blank(survey, stop, last)
            step *= 2
            wider = (
                max(start - step, 0) if low else first,
                min(stop + step, total) if high else last,
            )
            if self.byte(wider[1]) - self.byte(wider[0]) > sizes.WINDOW:
                break
            first, last = wider
            low, high = low and first > 0, high and last < total
        return first, last

    def _blank(self, survey: Survey, first: int, last: int) -> bool:
        begin, end = self.byte(first), self.byte(last)
        if end - begin > sizes.WINDOW:
            return False
        return not survey.encoding.decode(read_at(self._fd, end - begin, begin)).strip()


class _Joined:
    """Joins blocks to whole lines; pieces longer than the window are not joined (`too_long`)."""

    def __init__(self, encoding: Encoding) -> None:
        self._newline = encoding.encode("\n")
        self._mark = len(encoding.bom)
        self._begun, self._line = b"", 0
        self.too_long = False

    def take(self, block: bytes, line: int, *, last: bool) -> Iterator[tuple[int, bytes]]:
        """The lines that end in the next block, and their first number; `line` ended before it."""
        block, self._mark = block[self._mark :] if self._mark else block, 0
        if not self._begun:
            self._line = line
        lines = self._begun + block if self._begun else block
        self._begun = b""
        if not last and not block.endswith(self._newline):
            if len(lines) <= sizes.WINDOW:
                self._begun = lines
                return
            self.too_long = True
        yield self._line, lines


class _Search:
    def __init__(self, sought: Sequence[Sought], encoding: Encoding) -> None:
        self._hits, self._encoding = hits_of(sought), encoding
        self._joined = _Joined(encoding)

    def take(self, block: bytes, line: int, *, last: bool) -> None:
        """Search the next block; `line` is the number of lines that ended before it."""
        if not self._hits or self._joined.too_long:
            return
        for first, lines in self._joined.take(block, line, last=last):
            for hits in self._hits:
                hits.take(lines, self._encoding, first)

    def finish(self) -> tuple[Hits, ...] | None:
        """The hits; None if a line was too long to be searched."""
        return None if self._joined.too_long else self._hits


_LONGEST_CHARACTER = 4
_FIRST_STEP = 64 << 10


def from_line(file: LargeFile, fd: int, stamp: Stamp, first_line: int, most_bytes: int) -> Window:
    """Lines from `first_line` on within `most_bytes`; raises OSError, BinaryFile, TargetMoved."""
    survey = file.survey
    start = file.byte(first_line)
    data = read_at(fd, most_bytes, start)
    more = start + len(data) < stamp.size
    return Window(stamp, survey.encoding, data, first_line, survey.facts, more)


def last_lines(fd: int, stamp: Stamp, lines: int, most_bytes: int, named: str | None) -> Window:
    """The last `lines` lines within `most_bytes`; raises OSError, BinaryFile."""
    encoding = detect_head(read_at(fd, _LONGEST_CHARACTER, 0), named)
    start = _start_of_last(fd, stamp.size, encoding, lines)
    data = read_at(fd, most_bytes, start)
    if encoding.unit == 1 and (nul := data.find(b"\0")) >= 0:
        raise BinaryFile(start + nul)
    if encoding.name == "utf-8" and not _decodes(data):
        encoding = Encoding(UNKNOWN, encoding.bom, 1)
    more = start + len(data) < stamp.size
    return Window(stamp, encoding, data, None, None, more)


def _decodes(data: bytes) -> bool:
    """Whether the window is UTF-8, except for a character cut off at its end."""
    for cut in range(_LONGEST_CHARACTER):
        try:
            data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end < len(data) - _LONGEST_CHARACTER:
                return False
        else:
            return True
    return False


def _start_of_last(fd: int, size: int, encoding: Encoding, lines: int) -> int:
    """The byte offset where the last `lines` lines start, found from the end."""
    newline, begin = encoding.encode("\n"), len(encoding.bom)
    wanted = lines + (read_at(fd, len(newline), max(size - len(newline), begin)) == newline)
    at = size
    step = _FIRST_STEP
    while at > begin:
        low = max(begin, at - step)
        low += (low - begin) % encoding.unit
        block = read_at(fd, at - low, low)
        found = _count(block, encoding)
        if found >= wanted:
            return low + after_nth(block, newline, found - wanted + 1)
        wanted, at, step = wanted - found, low, sizes.BLOCK
    return begin


def _count(block: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return block.count(b"\n")
    return encoding.decode(block).count("\n")
