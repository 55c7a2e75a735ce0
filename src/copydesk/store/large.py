"""A large file as a text: one pass finds its lines and digest, then lines around a place are read.

Invariants: what is returned was read from the file in one state, that of its stamp, or TargetMoved
is raised; the memory is bounded unless the whole text is requested; the pass reports what
`Snapshot.of` would for the same bytes.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from copydesk.errors import BinaryFile, FileTooLarge
from copydesk.store import _os
from copydesk.store.contents import Digest, OpenFile, States, read_at
from copydesk.store.protocol import Kept, TargetMoved, Window, refusing
from copydesk.text import sizes
from copydesk.text.encoding import BYTES, UNKNOWN, UTF8, Encoding, detect_head
from copydesk.text.snapshot import (
    Excerpt,
    Facts,
    Hits,
    LineIndex,
    Snapshot,
    Sought,
    Source,
    Text,
    crlf_of,
    hits_of,
    lines_of,
    narrow,
)

_LEAST = 8  # bytes: a block is so many times whole; a byte order mark and any code unit fit
_HEAD = 4
_MARGIN = 4
_HELD = 4  # windows read of one text if several places are requested

_TAIL = 1 << 14
"""How many bytes at the end of a block are searched for a line end before it is read."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a file finds: the encoding, facts about all of it, where its lines are.

    `marks`: the byte at which each block starts, and the number of line feeds before it. A block is
    whole lines; a line longer than a window is cut into several, and `has_long` says that there is
    one. `states` are those of the digest.
    """

    encoding: Encoding
    facts: Facts
    marks: Sequence[tuple[int, int]]
    has_long: bool
    states: States


class LargeFile(Source):
    """A text over an open file; it lives as long as that.

    `known` is the survey of an earlier pass over the same stamp, and `keep` receives that of this
    pass. `sought` is what will be searched for, so that one pass finds it too. A file of more than
    `whole_bytes` is never read as a whole.
    """

    def __init__(
        self,
        file: OpenFile,
        named: str | None,
        whole_bytes: int,
        sought: Sequence[Sought],
        known: Survey | None,
        keep: Callable[[Survey], None],
    ) -> None:
        self._file, self._named, self._whole_bytes = file, named, whole_bytes
        self._sought, self._known, self._keep = tuple(sought), known, keep
        self._found: dict[tuple[Sought, ...], tuple[Hits, ...]] = {}
        self._index: tuple[int, LineIndex] = (-1, [])
        """The lines of the block that was looked at last: requested places lie close together."""

    @property
    def size(self) -> int:
        return self._file.stamp.size

    @property
    def digest(self) -> str:
        return self.survey.facts.digest or ""

    @property
    def line_count(self) -> int:
        return self.survey.facts.line_count

    @property
    def survey(self) -> Survey:
        """The result of the pass over the file, which is made when first needed."""
        if self._known is None:
            self._known = self._pass()
            self._keep(self._known)
        return self._known

    def _read(self, start: int, stop: int) -> bytes:
        """Bytes [start, stop); TargetMoved if the file changed since it was opened, Failed."""
        with refusing("read"):
            data = read_at(self._file.fd, stop - start, start)
            stands = self._file.stamp.stands_in(_os.fstat(self._file.fd))
        if not stands:
            raise TargetMoved()
        return data

    def _pass(self) -> Survey:
        """Read all of the file once; raises BinaryFile for a NUL byte where the unit is one byte.

        The encoding is set to unknown in the end if it was to be UTF-8, and is not strictly valid.
        """
        size, encoding = self.size, detect_head(self._read(0, _HEAD), self._named)
        lf, cr, searches = encoding.encode("\n"), encoding.encode("\r"), hits_of(self._sought)
        decoder, is_valid = codecs.getincrementaldecoder("utf-8")(), True
        marks: list[tuple[int, int]] = []
        newlines, crlf, end, has_long = 0, 0, b"", False
        with Digest([Kept(0, size)], self._file.fd) as beside:
            for at, block in self._lines(encoding):
                if encoding.unit == 1 and (nul := block.find(b"\0")) >= 0:
                    raise BinaryFile(at + nul)
                if encoding == UTF8 and not (block.isascii() and not decoder.getstate()[0]):
                    is_valid = is_valid and _goes_on(decoder, block)
                for hits in searches:
                    hits.take(block if at else block[len(encoding.bom) :], encoding, newlines)
                marks.append((at, newlines))
                plain, is_cut = narrow(block, encoding), end == cr and block.startswith(lf)
                crlf += crlf_of(plain) + is_cut
                newlines += plain.count(b"\n")
                end = block[-encoding.unit :]
                has_long |= at + len(block) < size and end != lf
            with refusing("read"):
                digest = beside.result()
        self._read(0, 0)  # all of that is of one state
        if encoding == UTF8 and not (is_valid and _goes_on(decoder, b"", final=True)):
            encoding = BYTES
        elif not has_long:
            self._found[self._sought] = searches
        closed = size % encoding.unit == 0 and end == lf
        lines = newlines + (size > len(encoding.bom) and not closed)
        facts = Facts(size, lines, closed, (newlines, crlf), digest)
        return Survey(encoding, facts, marks, has_long, beside.states)

    def _lines(self, encoding: Encoding) -> Iterator[tuple[int, bytes]]:
        """Whole lines, some at a time, with their offset; a line longer than a window in pieces."""
        lf, least = encoding.encode("\n"), max(sizes.BLOCK, _LEAST) & -_LEAST
        at, most = 0, least
        while at < self.size:
            count = min(most, self.size - at)
            is_last = at + count == self.size
            if count > _TAIL and not is_last:  # a block that ends with a line is not copied
                before = count - _TAIL
                count = before + (_after_last(self._read(at + before, at + count), lf) or _TAIL)
            block = self._read(at, at + count)
            end = len(block) if is_last else _after_last(block, lf)
            if not end and most < sizes.WINDOW:
                most *= 2
                continue
            yield at, block[: end or None]
            at += end or count
            most = least if end else most

    def blocks(self) -> Iterator[tuple[int, Snapshot]]:
        survey = self.survey
        if survey.has_long:
            yield 0, self.whole()
            return
        inner = replace(survey.encoding, bom=b"")
        for (at, block), (_, first) in zip(
            self._lines(survey.encoding), survey.marks, strict=False
        ):
            yield first, Snapshot(block, inner if at else survey.encoding)

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        key = tuple(sought)
        if self._known is None:
            self._sought = key
        encoding = self.survey.encoding
        if key not in self._found:
            searches = self._found[key] = hits_of(key)
            for first, lines in self.blocks():
                for hits in searches:
                    hits.take(lines.body, encoding, first)
        return self._found[key]

    def around(self, start: int, stop: int) -> Text:
        return self._with([(start, stop)])

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        return self._with(
            [(self._line_at(start), self._line_at(stop) + 1) for start, stop in spans]
        )

    def _with(self, lines: Sequence[tuple[int, int]]) -> Text:
        """The text with these ranges of lines [start, stop) loaded, as far as they exist."""
        if self._file.stamp.nlink > 1:
            return self.whole()  # it will be written in place, from its whole content
        facts, total = self.survey.facts, self.line_count
        ranges = [self._grown(start, min(stop, total)) for start, stop in lines]
        if not facts.ends_with_newline and total:
            ranges.append((max(total - 1 - _MARGIN, 0), total))
        pieces: list[tuple[int, int, bytes]] = []
        loaded = 0
        for first, last in ranges:
            begin, end = self._byte(first), self._byte(last)
            loaded += end - begin
            if end - begin > sizes.WINDOW or loaded > _HELD * sizes.WINDOW:
                return self.whole()
            pieces.append((first, begin, self._read(begin, end)))
        return Excerpt.of(self.survey.encoding, facts, pieces)

    def _grown(self, start: int, stop: int) -> tuple[int, int]:
        """Lines [start, stop) with a few around them, and adjacent blank lines in the window."""
        first = self._beyond(start, -_MARGIN, sizes.WINDOW)
        room = sizes.WINDOW - (self._byte(stop) - self._byte(first))
        return first, self._beyond(stop, _MARGIN, room)

    def _beyond(self, line: int, by: int, room: int) -> int:
        """The line `by` lines on; while all between is blank, twice as far, within `room` bytes."""
        here = self._byte(line)
        edge = min(max(line + by, 0), self.line_count)
        while 0 < edge < self.line_count:
            begin, end = sorted((here, self._byte(edge)))
            if end - begin > room or self.survey.encoding.decode(self._read(begin, end)).strip():
                break
            by *= 2
            wider = min(max(line + by, 0), self.line_count)
            if abs(self._byte(wider) - here) > room:
                break
            edge = wider
        return edge

    def whole(self) -> Snapshot:
        """The text with all its lines; raises FileTooLarge if it is too large."""
        if self.size > self._whole_bytes:
            raise FileTooLarge(self.size, self._whole_bytes, "whole_bytes")
        data, known = self._read(0, self.size), self._known
        digest = Digest((data,)).result if known is None else lambda: known.facts.digest or ""
        return Snapshot.of(data, self._named, digest)

    def window(self, first_line: int, most_bytes: int) -> Window:
        """Lines from `first_line` on within `most_bytes`."""
        start = self._byte(first_line)
        stop = min(start + most_bytes, self.size)
        survey, data = self.survey, self._read(start, stop)
        return Window(self._file.stamp, survey.encoding, data, survey.facts, stop < self.size)

    def _byte(self, line: int) -> int:
        """The byte offset where a line starts; the size for the end and beyond."""
        survey = self.survey
        if line == 0:
            return len(survey.encoding.bom)
        if line >= survey.facts.line_count:
            return self.size
        block = bisect_left(survey.marks, line, key=itemgetter(1)) - 1
        begin, before = survey.marks[block]
        if self._index[0] != block:
            is_last = block + 1 == len(survey.marks)
            data = self._read(begin, self.size if is_last else survey.marks[block + 1][0])
            self._index = block, lines_of(data, 0, survey.encoding.encode("\n"))
        return begin + self._index[1][line - before]

    def _line_at(self, byte: int) -> int:
        """The line that contains a byte, as `Text.line_at` numbers it."""
        survey = self.survey
        block = max(bisect_right(survey.marks, byte, key=itemgetter(0)) - 1, 0)
        begin, before = survey.marks[block]
        return before + narrow(self._read(begin, byte), survey.encoding).count(b"\n")


def _goes_on(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    """Whether the text is valid as far as the end of this block."""
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def _after_last(block: bytes, newline: bytes) -> int:
    """The offset just after the last line feed of the block; 0 if there is none."""
    at = len(block)
    while (at := block.rfind(newline, 0, at)) >= 0:
        if at % len(newline) == 0:
            return at + len(newline)
        at += len(newline) - 1
    return 0


_LONGEST_CHARACTER = 4
_FIRST_STEP = 64 << 10


def last_lines(file: OpenFile, lines: int, most_bytes: int, named: str | None) -> Window:
    """The last `lines` lines within `most_bytes`, without a pass; raises OSError, BinaryFile."""
    fd, size = file.fd, file.stamp.size
    encoding = detect_head(read_at(fd, _HEAD, 0), named)
    start = _start_of_last(fd, size, encoding, lines)
    data = read_at(fd, most_bytes, start)
    if encoding.unit == 1 and (nul := data.find(b"\0")) >= 0:
        raise BinaryFile(start + nul)
    if encoding.name == "utf-8" and not _decodes(data):
        encoding = Encoding(UNKNOWN, encoding.bom)
    return Window(file.stamp, encoding, data, None, start + len(data) < size)


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
    feeds = lines + (read_at(fd, len(newline), max(size - len(newline), begin)) == newline)
    at, step = size, _FIRST_STEP
    while at > begin:
        low = max(begin, at - step)
        low += (low - begin) % encoding.unit
        block = read_at(fd, at - low, low)
        if (count := narrow(block, encoding).count(b"\n")) >= feeds:
            return low + lines_of(block, 0, newline)[count - feeds + 1]
        feeds, at, step = feeds - count, low, sizes.BLOCK
    return begin
