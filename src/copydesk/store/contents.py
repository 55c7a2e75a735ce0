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
from itertools import takewhile
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

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

if TYPE_CHECKING:
    from _hashlib import HASH


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


_HAND_OVER_SECONDS = 0.001


def flush_in_thread(fd: int) -> Future[None]:
    """Start to flush a file in a thread; the caller keeps the handle until the flush has ended."""
    begun = Event()

    def flush() -> None:
        begun.set()
        _os.sync(fd)

    done = in_thread(flush)
    begun.wait(_HAND_OVER_SECONDS)  # otherwise it waits until the caller releases the GIL
    return done


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
    at = 0
    for parts in _gathered(pieces):
        counts = (
            _copied(old_fd, fd, parts) if isinstance(parts, Kept) else (_write_parts(fd, parts),)
        )
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


def _write_parts(fd: int, parts: Sequence[bytes | memoryview]) -> int:
    size = sum(map(len, parts))
    if size <= _CHUNK:
        write_all(fd, parts[0] if len(parts) == 1 else b"".join(parts))
    else:
        done = _os.write_many(fd, parts)
        for part in parts if done < size else ():  # what the one call has not written
            write_all(fd, memoryview(part)[done:])
            done = max(done - len(part), 0)
    return size


def _copied(old_fd: int, fd: int, kept: Kept) -> Iterator[int]:
    """Copy a range, in the kernel as far as it can; yields the number of bytes of each call."""
    at = kept.start
    while at < kept.stop:
        count = _os.copy_range(old_fd, fd, at, min(kept.stop - at, _GATHERED))
        if count == 0:
            break
        at += count
        yield count
    while at < kept.stop:
        data = _os.pread(old_fd, min(_CHUNK, kept.stop - at), at)
        if not data:
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
    return [view[one.start : one.stop] if isinstance(one, Kept) else one for one in pieces]


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


_STEP = 4 << 20
"""Bytes that are digested at once."""

_APART = 64 << 10
"""Pieces of at least this many bytes are digested in place; smaller ones are gathered."""

States = Sequence[tuple[int, "HASH"]]
"""The digests of prefixes of a file, each with the length of its prefix, in order."""


def digest_in_thread(data: bytes) -> Callable[[], str]:
    """Start to digest the data in a thread; the returned function gives the SHA-256 in hex."""
    return in_thread(lambda: hashlib.sha256(data).hexdigest()).result


class Digest(Closing):
    """The digest of pieces, computed in a thread; the context ends when the thread has ended.

    `known` are states of the digest of the file that is open as `old_fd`; `states` are those of
    this one, once there is a result. It reads the file itself, since blocks handed over one by one
    would wait for the GIL.
    """

    def __init__(self, pieces: Sequence[Piece], old_fd: int, known: States = ()) -> None:
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
            index = bisect_right(known, first.stop, key=lambda state: state[0])
            if index:  # the last state that the new content shares
                at, shared = known[index - 1]
                state = shared.copy()
        for data in _bytes_from(pieces, old_fd, at, memoryview(bytearray(_STEP))):
            if self._stopped:
                break
            state.update(data)
            at += len(data)
            self.states.append((at, state.copy()))
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
            at, done = piece.start + done, 0
            while at < piece.stop:
                read = _os.pread_into(old_fd, room[: piece.stop - at], at)
                if not read:
                    raise TargetMoved("the old file has become shorter")
                yield room[:read]
                at += read
        elif count:
            room[size : size + count] = piece
            size += count
        else:
            yield piece
    if size:
        yield room[:size]


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
    try:
        is_quick = size < sizes.BESIDE or _os.fstat(fd).st_nlink > 0
    except OSError:
        is_quick = False
    if is_quick:
        _os.close_quietly(fd)
    else:
        close_soon(fd)


@dataclass(frozen=True, slots=True)
class OpenFile(Closing):
    """A regular file open for reading, with its real path, until its context ends."""

    real: RelPath
    stamp: Stamp
    fd: int

    def close(self) -> None:
        """Close the file."""
        close_of_size(self.fd, self.stamp.size)


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
                found = self._searched(self._passed(), wanted, survey.encoding)
            self._found[wanted] = found or Whole(self.whole()).seek(wanted)
        return self._found[wanted]

    def close_to(self, text: str) -> Closest:
        survey, close = self.survey, NearestLines(text)
        bare, joined = replace(survey.encoding, bom=b""), _Joined(survey.encoding, self.size)
        with self._reading():
            near = takewhile(lambda passed: passed[0] < sizes.NEAR, self._passed())
            for first, lines in joined.lines(near):
                close.take(Snapshot(lines, bare), first)
        if joined.too_long and self.size <= min(sizes.NEAR, self._whole_bytes):
            return Whole(self.whole()).close_to(text)
        return close.closest

    def _passed(self) -> Iterator[Passed]:
        """The blocks once more."""
        survey = self.survey
        passed = blocks(self._fd, self.size, survey.encoding)
        for (at, block), (_, line) in zip(passed, survey.marks, strict=False):
            yield at, block, line

    def _searched(
        self, passed: Iterable[Passed], sought: Sequence[Sought], encoding: Encoding
    ) -> tuple[Hits, ...] | None:
        """The hits in all blocks; None if a line was too long to be searched."""
        found, joined = hits_of(sought), _Joined(encoding, self.size)
        for first, lines in joined.lines(passed):
            for hits in () if joined.too_long else found:
                hits.take(lines, encoding, first)
        return None if found and joined.too_long else found

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

        def surveyed() -> Iterator[Passed]:
            for at, block in blocks(self._fd, self.size, encoding):
                line = surveyor.lines_before
                surveyor.take(block)
                yield at, block, line

        with Digest([Kept(0, self.size)], self._fd) as beside:
            found = self._searched(surveyed(), self._sought, encoding)
            known = Surveyed(surveyor.finish(beside.result()), beside.states)
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
        return before + _count(read_at(self._fd, byte - begin, begin), survey.encoding)

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


Passed = tuple[int, bytes, int]
"""A block: its offset, its bytes, and the number of lines that ended before it."""


class _Joined:
    """Joins blocks to whole lines; pieces longer than the window are not joined (`too_long`)."""

    def __init__(self, encoding: Encoding, size: int) -> None:
        self._newline, self._bom, self._size = encoding.encode("\n"), len(encoding.bom), size
        self.too_long = False

    def lines(self, passed: Iterable[Passed]) -> Iterator[tuple[int, bytes]]:
        """The lines that end in each block, and their first number."""
        begun, first = b"", 0
        for at, block, line in passed:
            lines = begun + (block if at else block[self._bom :])
            first = first if begun else line
            begun = b""
            if at + len(block) < self._size and not block.endswith(self._newline):
                if len(lines) <= sizes.WINDOW:
                    begun = lines
                    continue
                self.too_long = True
            yield first, lines


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
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(data) - _LONGEST_CHARACTER
    return True


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
            return low + lines_of(block, 0, newline)[found - wanted + 1]
        wanted, at, step = wanted - found, low, sizes.BLOCK
    return begin


def _count(block: bytes, encoding: Encoding) -> int:
    if encoding.unit == 1:
        return block.count(b"\n")
    return encoding.decode(block).count("\n")
