"""Texts of files: `Snapshot` has all bytes in memory, `Excerpt` only the lines around some places.

Invariants: a line ends with LF or CRLF and nothing else; the byte order mark belongs to no line;
the spans of all lines, in order, cover all bytes after it. Line numbers in this package are 0-based
and ranges half-open unless a name says otherwise (`..._line` in reports is 1-based).
Laws: for the same content every source gives the same answers, except what it refuses as too large.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from operator import add
from typing import TYPE_CHECKING, AnyStr, ClassVar, Self

from copydesk.text import sizes
from copydesk.text.change import ChangeSet, spliced
from copydesk.text.encoding import BYTES, UTF8, Encoding, detect, has_raw

if TYPE_CHECKING:  # type checkers see a plain property
    computed_once = property
else:

    class computed_once:
        """A property that is computed on first access and cached, like `cached_property`.

        It takes no lock, unlike Python 3.11's: a value computed twice is the same.
        """

        def __init__(self, compute):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, owned, owner=None):
            if owned is None:
                return self
            value = owned.__dict__[self._name] = self._compute(owned)
            return value


VERSION_LENGTH = 12
"""Hex characters of the SHA-256 that make a version."""

_LONG = 4_096
"""The span of a line of more bytes is remembered."""

_LINE_BY_LINE = frozenset(("utf-8", "ascii", "unknown"))
"""Encodings in which lines decode alone as they do together: no error spans a line feed."""


class Source(ABC):
    """A file's text at one moment. Raises BinaryFile, FileTooLarge, and the store's errors."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""

    @property
    @abstractmethod
    def line_count(self) -> int:
        """The number of lines; 0 for a text without bytes after the byte order mark."""

    @property
    def version(self) -> str:
        """The short name of this content that callers pass back: 12 hex characters."""
        return self.digest[:VERSION_LENGTH]

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Snapshot]]:
        """Yield all lines, some at a time, each time with the number of the first one."""

    @abstractmethod
    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        """Return the lines that match each text."""

    @abstractmethod
    def around(self, start: int, stop: int) -> Text:
        """The text with lines [start, stop), 0-based, some around them and the end loaded."""

    @abstractmethod
    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        """The text with the lines around each byte span, and its end, loaded."""

    @abstractmethod
    def whole(self) -> Snapshot:
        """The text with all lines loaded; ValueError if that needs the file, and it is closed."""


class Text(Source):
    """A text as an edit sees it: all of it, or the lines that the edit is about.

    Lines and bytes are numbered in the whole text. Asking for a line that is not loaded raises
    ValueError, which is a bug of the caller.
    """

    encoding: Encoding

    @property
    @abstractmethod
    def ends_with_newline(self) -> bool:
        """Whether the last line has a terminator; an empty text has no last line: False."""

    @property
    @abstractmethod
    def newline_counts(self) -> tuple[int, int]:
        """The number of terminators, and how many of them are CRLF."""

    @abstractmethod
    def start(self, line: int) -> int:
        """The byte where line `line` starts; `line_count` gives the end of the text."""

    @abstractmethod
    def line_at(self, byte: int) -> int:
        """The line that holds the byte; `line_count` for the end after a terminator."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop)."""

    @abstractmethod
    def reach(self, line: int) -> tuple[int, int]:
        """The loaded lines [start, stop) around the start of `line`, without a gap."""

    @abstractmethod
    def edited(self, change: ChangeSet) -> Text:
        """The text after the change."""

    @abstractmethod
    def unmarked(self) -> Text:
        """The text with its byte order mark counted as part of the first line."""

    def around(self, start: int, stop: int) -> Self:
        return self

    def holding(self, spans: Sequence[tuple[int, int]]) -> Self:
        return self

    def whole(self) -> Snapshot:
        raise ValueError("only some lines of the text are loaded")

    def blocks(self) -> Iterator[tuple[int, Snapshot]]:
        yield 0, self.whole()

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        found, body = hits_of(sought), self.whole().body
        for hits in found:
            hits.take(body, self.encoding, 0)
        return found

    def line_begin(self, byte: int) -> int:
        """The byte where the line of `line_at(byte)` starts."""
        return self.start(self.line_at(byte))

    def begins_line(self, byte: int) -> bool:
        """Whether a line starts at the byte."""
        return self.line_begin(byte) == byte

    def line_end(self, byte: int) -> int:
        """The byte after the line of `line_at(byte)`."""
        return self.start(min(self.line_at(byte) + 1, self.line_count))

    def back(self, byte: int, lines: int) -> tuple[int, int]:
        """Go `lines` lines back from a line's start or the end: the byte, and how many lines."""
        count, first = 0, len(self.encoding.bom) if self.encoding.bom else 0
        while count < lines and byte > first:
            byte, count = self.line_begin(byte - 1), count + 1
        return byte, count

    def on(self, byte: int, lines: int) -> tuple[int, int]:
        """Go `lines` lines on from a line's start or the end: the byte, and how many lines."""
        count = 0
        while count < lines and byte < self.size:
            byte, count = self.line_end(byte), count + 1
        return byte, count

    def unchanged_by(self, change: ChangeSet) -> bool:
        """Whether the change only replaces bytes by the same bytes."""
        return all(self.slice(edit.start, edit.stop) == edit.new for edit in change.edits)

    @property
    def ragged(self) -> bool:
        """Whether the last bytes are no whole code unit (a broken UTF-16 or UTF-32 file)."""
        return self.size % self.encoding.unit != 0

    def raw(self, start: int, stop: int) -> bytes:
        """The bytes of lines [start, stop), terminators included."""
        return self.slice(self.start(start), self.start(stop))

    def terminator(self, line: int) -> bytes:
        """The bytes that end the line: LF or CRLF in the file's encoding, or nothing."""
        start, stop, unit = self.start(line), self.start(line + 1), self.encoding.unit
        end = self.slice(max(start, stop - 2 * unit - stop % unit), stop)
        return terminator_of(end, self.encoding)

    def key(self, line: int) -> bytes:
        """The bytes of the line without its terminator, by which lines are compared."""
        return keys_of(self.raw(line, line + 1), self.encoding)[0]

    def text(self, line: int) -> str:
        """The line as it is shown: no terminator, `\\xNN` for bytes that do not decode."""
        return self.encoding.decode(self.key(line))

    def texts(self, start: int, stop: int) -> tuple[str, ...]:
        """The shown texts of lines [start, stop)."""
        return tuple(self.text(line) for line in range(start, stop))

    def newline_near(self, start: int, stop: int) -> bytes:
        """The terminator for new lines at [start, stop): as before, after, in most lines, or LF."""
        before = self.terminator(start - 1) if start > 0 else b""
        after = self.terminator(stop) if not before and stop < self.line_count else b""
        return before or after or self.dominant_newline

    @property
    def dominant_newline(self) -> bytes:
        """The terminator of most lines; LF if there is none or a tie."""
        every, crlf = self.newline_counts
        return self.encoding.encode("\r\n") if 2 * crlf > every else self.lf

    def newline_name(self, terminator: bytes) -> str:
        """`lf` or `crlf`."""
        return "crlf" if b"\r" in terminator else "lf"

    @property
    def newline_style(self) -> str:
        """`lf`, `crlf`, `mixed`, or `none` for a text without any terminator."""
        return newline_style(*self.newline_counts)

    @computed_once
    def lf(self) -> bytes:
        """A line feed in the file's encoding."""
        return b"\n" if self.encoding.unit == 1 else self.encoding.encode("\n")


@dataclass(frozen=True)
class Snapshot(Text):
    """All bytes of a file at one moment, and their encoding; `told` returns a known SHA-256."""

    data: bytes
    encoding: Encoding
    told: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    # The last long line scanned, so that many edits in it do not each scan it. Texts are frozen and
    # most have no long line: this is of the class, and an attribute of a text once it has one.
    _long_line: ClassVar[tuple[int, int]] = (0, 0)

    @staticmethod
    def of(
        data: bytes, named: str | None = None, told: Callable[[], str] | None = None
    ) -> Snapshot:
        """Make the snapshot of `data` in encoding `named`; BinaryFile for NUL outside UTF-16/32."""
        return Snapshot(data, detect(data, named), told)

    @computed_once
    def size(self) -> int:
        return len(self.data)

    @property
    def body(self) -> bytes:
        """The bytes after the byte order mark."""
        return self.data[len(self.encoding.bom) :] if self.encoding.bom else self.data

    @computed_once
    def digest(self) -> str:
        return self.told() if self.told else hashlib.sha256(self.data).hexdigest()

    @computed_once
    def line_count(self) -> int:
        if self.encoding.unit > 1 or self.size > SHORT:
            return len(self._starts) - 1
        is_open = not self.ends_with_newline and self.size > len(self.encoding.bom)
        return self.data.count(b"\n") + is_open

    @computed_once
    def ends_with_newline(self) -> bool:
        if self.encoding.unit == 1:
            return self.data[-1:] == b"\n"
        return not self.ragged and self.data.endswith(self.lf)

    @computed_once
    def newline_counts(self) -> tuple[int, int]:
        is_open = self.line_count > 0 and not self.ends_with_newline
        return self.line_count - is_open, crlf_of(narrow(self.data, self.encoding))

    def start(self, line: int) -> int:
        return self._starts[line]

    def line_at(self, byte: int) -> int:
        if byte < self.size:
            return line_of(self._starts, byte)
        return self.line_count - (self.line_count > 0 and not self.ends_with_newline)

    def raw(self, start: int, stop: int) -> bytes:
        return self.data[self._starts[start] : self._starts[stop]]

    def texts(self, start: int, stop: int) -> tuple[str, ...]:
        if self.encoding.name not in _LINE_BY_LINE or start >= stop:
            return super().texts(start, stop)
        text = self.encoding.decode(self.raw(start, stop))
        *lines, last = text.split("\n")
        if "\r" in text:  # the last line has no terminator
            lines = [line.removesuffix("\r") for line in lines]
        return tuple(lines) if text[-1:] == "\n" else (*lines, last)

    def line_begin(self, byte: int) -> int:
        return super().line_begin(byte) if self.encoding.unit > 1 else self._line(byte)[0]

    def line_end(self, byte: int) -> int:
        return super().line_end(byte) if self.encoding.unit > 1 else self._line(byte)[1]

    def _line(self, byte: int) -> tuple[int, int]:
        """Where the line of a byte begins and ends; the last long one is remembered."""
        begin, end = self._long_line
        if not begin <= byte < end:
            begin = self.data.rfind(b"\n", 0, byte) + 1 or len(self.encoding.bom)
            end = self.data.find(b"\n", byte) + 1 or self.size
            if end - begin > _LONG:
                vars(self)["_long_line"] = begin, end
        return begin, end

    def slice(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]

    def reach(self, line: int) -> tuple[int, int]:
        return 0, self.line_count

    def edited(self, change: ChangeSet) -> Snapshot:
        return Snapshot(change.apply(self.data), self.encoding)

    def unmarked(self) -> Snapshot:
        if not self.encoding.bom:
            return self
        return Snapshot(self.data, replace(self.encoding, bom=b""), self.told)

    def whole(self) -> Snapshot:
        return self

    def unchanged_by(self, change: ChangeSet) -> bool:
        """Whether the text after the change is this one."""
        if not change.edits:
            return True
        first, last = change.edits[0], change.edits[-1]
        # Bytes may come in one place and go in another. Most changes are told by their first bytes,
        # before a part of the text as long as all of it is copied.
        if change.new_length != change.length or not self.data.startswith(first.new, first.start):
            return False
        old = self.data[first.start : last.stop]
        return b"".join(spliced(old, change.edits, first.start)) == old

    @computed_once
    def keys(self) -> tuple[bytes, ...]:
        """The bytes of all lines without their terminators."""
        return tuple(keys_of(self.body, self.encoding))

    def keys_in_blocks(self) -> Iterator[Sequence[bytes]]:
        """Yield the keys of all lines, some at a time, so that not all are held at once."""
        at = len(self.encoding.bom)
        while at < self.size:
            end = self.line_end(min(at + sizes.BLOCK, self.size - 1))
            yield keys_of(self.data[at:end], self.encoding)
            at = end

    @computed_once
    def _starts(self) -> LineIndex:
        lf = b"\n" if self.encoding.unit == 1 else self.lf
        return lines_of(self.data, len(self.encoding.bom), lf)


def newline_style(every: int, crlf: int) -> str:
    """Name the style of `every` terminators, of which `crlf` are CRLF."""
    if not every or not crlf:
        return "lf" if every else "none"
    return "crlf" if crlf == every else "mixed"


@dataclass(frozen=True, slots=True)
class Facts:
    """Results of one pass over a text; `newline_counts`: all and CRLF; `digest` if computed."""

    size: int
    line_count: int
    ends_with_newline: bool
    newline_counts: tuple[int, int]
    digest: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive whole lines, with the number and the byte offset of the first one."""

    first_line: int
    begin: int
    lines: Snapshot

    @property
    def last_line(self) -> int:
        """The line after the last one."""
        return self.first_line + self.lines.line_count

    @property
    def end(self) -> int:
        """The byte after the last line."""
        return self.begin + self.lines.size


@dataclass(frozen=True)
class Excerpt(Text):
    """Some lines of a text, and facts about all of it. Make one with `of`."""

    encoding: Encoding
    facts: Facts
    stretches: tuple[Stretch, ...]

    @staticmethod
    def of(encoding: Encoding, facts: Facts, pieces: Iterable[tuple[int, int, bytes]]) -> Excerpt:
        """Join `pieces` (line, byte, whole lines; no byte order mark), given in any order."""
        inner = replace(encoding, bom=b"")
        joined: list[tuple[int, int, bytes]] = []
        for line, byte, data in sorted(pieces):
            if joined and byte <= joined[-1][1] + len(joined[-1][2]):
                first, begin, have = joined[-1]
                joined[-1] = (first, begin, have + data[begin + len(have) - byte :])
            else:
                joined.append((line, byte, data))
        made = (Stretch(line, byte, Snapshot(data, inner)) for line, byte, data in joined)
        return Excerpt(encoding, facts, tuple(made))

    @staticmethod
    def unread(size: int, digest: str) -> Excerpt:
        """A text whose lines nobody needs: only its size and digest are known."""
        return Excerpt(BYTES, Facts(size, 0, False, (0, 0), digest), ())

    @property
    def size(self) -> int:
        return self.facts.size

    @property
    def digest(self) -> str:
        """The SHA-256 in hex; raises ValueError if it was not computed yet."""
        if self.facts.digest is None:
            raise ValueError("the digest is not known yet")
        return self.facts.digest

    def known_as(self, digest: str) -> Excerpt:
        """Return the text with its SHA-256 filled in."""
        return replace(self, facts=replace(self.facts, digest=digest))

    @property
    def line_count(self) -> int:
        return self.facts.line_count

    @property
    def ends_with_newline(self) -> bool:
        return self.facts.ends_with_newline

    @property
    def newline_counts(self) -> tuple[int, int]:
        return self.facts.newline_counts

    def start(self, line: int) -> int:
        if line == self.line_count:
            return self.size
        found = self._of_line(line)
        return found.begin + found.lines.start(line - found.first_line)

    def line_at(self, byte: int) -> int:
        if byte == self.size:
            return self.line_count - (self.line_count > 0 and not self.ends_with_newline)
        found = self._of_bytes(byte, byte)
        return found.first_line + found.lines.line_at(byte - found.begin)

    def slice(self, start: int, stop: int) -> bytes:
        if start == stop:
            return b""
        found = self._of_bytes(start, stop)
        return found.lines.data[start - found.begin : stop - found.begin]

    def reach(self, line: int) -> tuple[int, int]:
        found = self._of_line(line)
        return found.first_line, found.last_line

    def edited(self, change: ChangeSet) -> Excerpt:
        """Return the text after the change; its digest is known only if nothing changes."""
        if change.length != self.size:
            raise ValueError(f"made for {change.length} bytes, not for {self.size}")
        made: list[Stretch] = []
        before = self.newline_counts[0]
        every, crlf, shift, left = *self.newline_counts, 0, len(change.edits)
        for old in self.stretches:
            inner = change.within(old.begin, old.end)
            new, left = old.lines.edited(inner), left - len(inner.edits)
            made.append(Stretch(old.first_line + every - before, old.begin + shift, new))
            shift += new.size - old.lines.size
            every += new.newline_counts[0] - old.lines.newline_counts[0]
            crlf += new.newline_counts[1] - old.lines.newline_counts[1]
        if left:
            raise ValueError(f"{left} of the edits are where no lines are loaded")
        closed, has_lines = self.ends_with_newline, change.new_length > len(self.encoding.bom)
        if made and self.stretches[-1].end == self.size:
            last = made[-1].lines
            closed = last.ends_with_newline if last.size else has_lines
        same = self.facts.digest if self.unchanged_by(change) else None
        lines = every + (has_lines and not closed)
        facts = Facts(change.new_length, lines, closed, (every, crlf), same)
        return Excerpt(self.encoding, facts, tuple(made))

    def unmarked(self) -> Excerpt:
        bom = self.encoding.bom
        if not bom:
            return self
        bare = replace(self.encoding, bom=b"")
        facts = replace(self.facts, line_count=max(self.line_count, 1))
        made = tuple(
            Stretch(0, 0, Snapshot(bom + s.lines.data, bare)) if s.begin == len(bom) else s
            for s in self.stretches
        )
        return Excerpt(bare, facts, made)

    def _of_line(self, line: int) -> Stretch:
        """Return the stretch that contains the start of the line, or that ends there."""
        for stretch in reversed(self.stretches):
            if stretch.first_line <= line <= stretch.last_line:
                return stretch
        raise ValueError(f"line {line} is not loaded")

    def _of_bytes(self, start: int, stop: int) -> Stretch:
        for stretch in self.stretches:
            if stretch.begin <= start and stop <= stretch.end:
                return stretch
        raise ValueError(f"bytes {start}..{stop} are not loaded")


SHORT = 1 << 12
"""A text of up to this many bytes is split into lines at once."""

_BLOCK = 1 << 12
"""Bytes of a block whose line feeds are counted at once."""

_AHEAD = 16
"""At least so many blocks are counted at a time."""


def lines_of(data: bytes, first: int, lf: bytes) -> LineIndex:
    """Where the lines of `data` from byte `first` on start, and last where they end.

    `lf` is a line feed, one code unit.
    """
    size = len(data)
    if lf == b"\n" and size - first > SHORT:
        return _Counted(data, first)
    starts = _cut(data, first, size) if lf == b"\n" else [first, *_wide_ends(data, first, lf)]
    return starts if starts[-1] == size else [*starts, size]


def line_of(index: LineIndex, byte: int) -> int:
    """The line that contains the byte, which is not the end; -1 before the first."""
    return bisect_right(index, byte) - 1 if isinstance(index, list) else index.at(byte)


class _Counted:
    """Like a list of starts, but counts line feeds block by block, only as far as needed."""

    def __init__(self, data: bytes, first: int) -> None:
        self._data, self._first = data, first
        self._used = (-1, list[int]())
        self._before = [0]
        """The line feeds before each block; replaced, not changed, since threads share it."""

    def __len__(self) -> int:
        """The number of starts; counts all blocks, since callers mostly look up a line next."""
        return self._counted(len(self._data))[-1] + (not self._data.endswith(b"\n")) + 1

    def __getitem__(self, line: int) -> int:
        if line == 0:
            return self._first
        if self._before[-1] < line and self._counted(line=line)[-1] < line:
            return len(self._data)  # the text ends without a line feed
        before = self._before
        block = bisect_left(before, line) - 1
        used, starts = self._used
        if used != block:
            low = self._first + block * _BLOCK
            starts = _cut(self._data, low, low + _BLOCK)
            self._used = (block, starts)
        return starts[line - before[block]]

    def at(self, byte: int) -> int:
        """The line that contains the byte; -1 before the first."""
        if byte < self._first:
            return -1
        block = (byte - self._first) // _BLOCK
        low = self._first + block * _BLOCK
        return self._counted(block)[block] + self._data.count(b"\n", low, byte)

    def _counted(self, block: int = 0, line: int = 0) -> list[int]:
        """The line feeds before each block, as far as this block and this line, or the end.

        Each time twice as many are counted as before.
        """
        data, size, before = self._data, len(self._data), self._before
        while before[-1] < line or len(before) <= block:
            known = len(before)
            low = self._first + (known - 1) * _BLOCK
            if low >= size:
                break
            stop = min(low + max(known, _AHEAD) * _BLOCK, size)
            counts = (data.count(b"\n", at, at + _BLOCK) for at in range(low, stop, _BLOCK))
            self._before = before = [*before[:-1], *accumulate(counts, initial=before[-1])]
        return before


LineIndex = list[int] | _Counted


def _cut(data: bytes, first: int, stop: int) -> list[int]:
    """Return `first`, and the byte after each line feed in [first, stop)."""
    sizes = map(len, data[first:stop].split(b"\n"))
    starts = list(map(add, accumulate(sizes, initial=0), count(first)))
    starts.pop()
    return starts


def _wide_ends(data: bytes, first: int, lf: bytes) -> Iterator[int]:
    """Yield the bytes just after each LF code unit that is aligned with `first`."""
    unit, at = len(lf), first
    while (at := data.find(lf, at)) >= 0:
        at += unit
        if at % unit == 0:
            yield at


def terminator_of(line: bytes, encoding: Encoding) -> bytes:
    """The bytes that end a line: LF or CRLF in the encoding, or nothing."""
    lf, crlf, unit = b"\n", b"\r\n", encoding.unit
    if unit > 1:
        lf, crlf = encoding.encode("\n"), encoding.encode("\r\n")
        if len(line) % unit:
            return b""  # an incomplete last unit ends no line
    return crlf if line[-2 * unit :] == crlf else lf if line[-unit:] == lf else b""


def keys_of(data: bytes, encoding: Encoding) -> list[bytes]:
    """The lines without their terminators."""
    if encoding.unit > 1:
        starts = lines_of(data, 0, encoding.encode("\n"))
        lines = [data[starts[i] : starts[i + 1]] for i in range(len(starts) - 1)]
        return [line[: len(line) - len(terminator_of(line, encoding))] for line in lines]
    *keys, last = data.split(b"\n")
    if b"\r" in data:  # the last line has no terminator
        keys = [key.removesuffix(b"\r") for key in keys]
    return [*keys, last] if last else keys


def narrow(data: bytes, encoding: Encoding) -> bytes:
    """The text with a code unit of one byte, in which line ends are counted."""
    return data if encoding.unit == 1 else encoding.decode(data).encode("utf-8", "surrogatepass")


def crlf_of(data: bytes) -> int:
    """How many lines of narrow text end with CRLF."""
    return data.count(b"\r\n") if b"\r" in data else 0  # most texts have none


def found_in(
    data: bytes, encoding: Encoding, text: str, *, whole: bool, escaped: bool = False
) -> Iterator[int]:
    """Yield the numbers of the lines that contain (`whole`: equal) the text; `data` has no BOM.

    A byte that does not decode is not text; with `escaped`, its `\\xNN` matches it.

    Valid UTF-8 is self-synchronizing, so a match in the bytes is a match in the text. What follows
    a byte order mark may be invalid, and is searched as decoded text.
    """
    wanted = encoding.pattern(text) if escaped else None
    if escaped and wanted is None:
        return iter(())
    if encoding == UTF8 and wanted is None:
        return _by_find(data, text.encode(), b"\n", b"\r", whole=whole)
    decoded = encoding.text(data)
    if wanted is None and not (encoding.known and has_raw(decoded)):
        return _by_find(decoded, text, "\n", "\r", whole=whole)
    # decoding depends on where lines end
    shown = enumerate(map(encoding.text, keys_of(data, encoding)))
    if wanted is None:
        return (line for line, have in shown if (text == have if whole else text in have))
    matches = wanted.fullmatch if whole else wanted.search
    return (line for line, have in shown if matches(have))


def _by_find(text: AnyStr, wanted: AnyStr, lf: AnyStr, cr: AnyStr, *, whole: bool) -> Iterator[int]:
    """Yield the lines of `text` that contain or equal `wanted`, which has no line feed."""
    line = at = 0
    while (hit := text.find(wanted, at)) >= 0:
        line += text.count(lf, at, hit)
        begin = max(text.rfind(lf, at, hit) + 1, at)
        end = text.find(lf, hit)
        stop = len(text) if end < 0 else end - text.endswith(cr, begin, end)
        last = hit + len(wanted)
        if (hit == begin and last == stop) if whole else last <= stop:
            yield line
        if end < 0:
            return
        at, line = end + 1, line + 1


KEPT = 1 << 20
"""The most line numbers stored; further matches are only counted."""

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Sought:
    """A text that a line must contain or (`whole`) equal.

    `ends`: this text ends ranges that the one before it in the list starts, so only the first match
    after each of its matches is kept, and the first few of the others. `escaped`: the text is as it
    was shown to the caller, with `\\xNN` for bytes.
    """

    text: str
    whole: bool = False
    ends: bool = False
    escaped: bool = False


class Hits:
    """The lines that match one text, 0-based, in order: the first ones, and how many."""

    def __init__(self, sought: Sought, starts: Hits | None = None) -> None:
        self.sought = sought
        self.count = 0
        self.last = -1
        self.lines = array("q")
        self._starts = starts if sought.ends else None
        self._looked = 0

    def take(self, data: bytes, encoding: Encoding, first_line: int) -> None:
        """Search the next whole lines, the first of which is line `first_line`."""
        sought = self.sought
        for line in found_in(
            data, encoding, sought.text, whole=sought.whole, escaped=sought.escaped
        ):
            self.count += 1
            self.last = first_line + line
            if len(self.lines) < KEPT and (self._starts is None or self._closes(self.last)):
                self.lines.append(self.last)

    def _closes(self, line: int) -> bool:
        """Whether a start is between the last stored line and this one, or few are stored yet."""
        starts = self._starts.lines if self._starts else ()
        before = self._looked
        self._looked = bisect_left(starts, line, before)
        return self._looked > before or len(self.lines) < _SHOWN


def hits_of(sought: Sequence[Sought]) -> tuple[Hits, ...]:
    """Return empty hits for each text; where it `ends` another, they refer to that one's."""
    made: list[Hits] = []
    for each in sought:
        made.append(Hits(each, made[-1] if made else None))
    return tuple(made)
