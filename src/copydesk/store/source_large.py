"""A large file as the source of a text: passed over in blocks, read in parts.

Invariants: what is given was read from the file in one state, the one of its stamp, or
TargetMoved is raised; memory is bounded, but where a whole text is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from copydesk.errors import BinaryFile, FileTooLarge
from copydesk.store import _os
from copydesk.store.contents import (
    DigestOfFile,
    States,
    after_nth,
    blocks,
    digest_in_thread,
    read_at,
)
from copydesk.store.protocol import Stamp, TargetMoved, Window, failed
from copydesk.text import sizes
from copydesk.text.encoding import UNKNOWN, Encoding, detect_head
from copydesk.text.nearest import Closest, NearestLines
from copydesk.text.search import Hits, Sought, hits_of
from copydesk.text.snapshot import VERSION_LENGTH, LineIndex, Snapshot, Text, lines_of
from copydesk.text.source import Excerpt, Survey, Surveyor, Whole

_MARGIN = 4
_HEAD = 4
_BLOCKS = 3
"""So many blocks are held, since places that are asked for lie close together."""
_HELD = 4
"""So many windows are held of one text, where several places are wanted."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a pass over a file told, and the states of its digest on the way."""

    survey: Survey
    states: States


class LargeFile:
    """A `Source` over an open file; it lives as long as `fd` does.

    `known` is what an earlier pass told of the same stamp, and `keep` is given
    what this one tells. `sought` is what will be sought, so that the one pass
    finds it too. A file of more than `whole_bytes` is never read as a whole.
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
        """What the pass over the file tells; made when it is first asked for."""
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
        """The text with these runs of lines [start, stop) at hand, as far as there are lines."""
        if self._stamp.nlink > 1:
            return self.whole()  # it will be written in place, from all that it holds
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
        """The text with all its lines; raises FileTooLarge when that is too much."""
        if self.size > self._whole_bytes:
            raise FileTooLarge(self.size, self._whole_bytes, "whole_bytes")
        with self._reading():
            data = read_at(self._fd, self.size, 0)
        known = self._known
        told = digest_in_thread(data) if known is None else lambda: known.survey.facts.digest or ""
        return Snapshot.of(data, self._named, told)

    @contextmanager
    def _reading(self) -> Generator[None]:
        """What is read within is of the file as it was opened."""
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
        """The byte where a line starts; the size for the end and what is beyond."""
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
        return begin + self._blocks[begin].start(nth)

    def line_of(self, byte: int) -> int:
        """The line that holds a byte, as `Text.line_at` tells it."""
        survey = self.survey
        index = bisect_right(survey.steps, byte, key=lambda mark: mark[0]) - 1
        begin, before = survey.steps[max(index, 0)]
        block = read_at(self._fd, byte - begin, begin)
        if survey.encoding.unit == 1:
            return before + block.count(b"\n")
        return before + survey.encoding.decode(block).count("\n")

    def _grown(self, survey: Survey, start: int, stop: int) -> tuple[int, int]:
        """Lines [start, stop) with a few around, and the blank lines next to them in the window."""
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
    """Blocks as whole lines; pieces longer than the window are not joined (`too_long`)."""

    def __init__(self, encoding: Encoding) -> None:
        self._newline = encoding.encode("\n")
        self._mark = len(encoding.bom)
        self._begun, self._line = b"", 0
        self.too_long = False

    def take(self, block: bytes, line: int, *, last: bool) -> Iterator[tuple[int, bytes]]:
        """The lines that end in the next block, and the first's number; `line` ended before it."""
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
        """The next block; `line` is how many lines have ended before it."""
        if not self._hits or self._joined.too_long:
            return
        for first, lines in self._joined.take(block, line, last=last):
            for hits in self._hits:
                hits.take(lines, self._encoding, first)

    def finish(self) -> tuple[Hits, ...] | None:
        """The hits; None when a line was too long to be searched."""
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
    """The last so many lines within `most_bytes`; raises OSError, BinaryFile."""
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
    """Whether the window is UTF-8, but for a character that its end may have cut."""
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
    """The byte where the last `lines` lines start, read from the end."""
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
