"""What differs between two texts: the alignment of their lines, and unified diffs.

Lines to align are any hashables with equality: texts, digests or numbers. Invariants: matched runs
contain equal lines, rise strictly on both sides, and never touch one another on both sides.

Law: `git apply` and GNU `patch`, given the unified diff of `old` and `change`, turn `old` into
exactly `old.edited(change)`, whatever the bytes. Only the lines that the change touches are
compared. UTF-16 and UTF-32 are shown in UTF-8, and there the law holds for the texts in UTF-8. In a
diff a byte order mark is the start of the first line. `patch` compares two texts by Myers'
algorithm, with the same result on every machine: where a deletion and an insertion lead equally
far, the deletion comes first, and unchanged lines are matched as early as possible.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, chain
from operator import add, itemgetter
from typing import Literal, NamedTuple

from copydesk.text.change import ChangeSet, Edit, spliced
from copydesk.text.encoding import UTF8, Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text, computed_once


class Common:
    """LCS lengths of a growing prefix of `a` with every prefix of `b`.

    Bit j of the state is 0 where the line `b[j]` lengthens the subsequence, so a line of `a` costs
    a few operations on one number of len(b) bits.
    """

    def __init__(self, b: Sequence[Hashable]) -> None:
        self._places: dict[Hashable, int] = {}
        for j, line in enumerate(b):
            self._places[line] = self._places.get(line, 0) | 1 << j
        self._ones = (1 << len(b)) - 1
        self.state = self._ones

    def take(self, lines: Sequence[Hashable]) -> None:
        """Append lines to the prefix of `a`."""
        state, ones, places = self.state, self._ones, self._places
        for line in lines:
            if (here := places.get(line)) is not None:
                kept = state & here
                state = ((state + kept) | (state - kept)) & ones
        self.state = state

    def lengths(self) -> list[int]:
        """Return the LCS length with the first j lines of `b`, for j from 0 to len(b)."""
        grown = self.state ^ self._ones
        bits = f"{grown | self._ones + 1:b}"[:0:-1]
        return [0, *accumulate(map(int, bits))]

    def length(self) -> int:
        """Return the LCS length with all of `b`."""
        return (self.state ^ self._ones).bit_count()


def longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the matched pairs of indexes of one longest common subsequence, last pair first."""
    growing = Common(b)
    states = [growing.state]
    for i in range(len(a)):
        growing.take(a[i : i + 1])
        states.append(growing.state)
    i, j = len(a), len(b)
    while i and j:
        if states[i] >> (j - 1) & 1:
            j -= 1
        elif not states[i - 1] >> (j - 1) & 1:
            i -= 1
        else:
            i, j = i - 1, j - 1
            yield i, j


class Weighed(NamedTuple):
    """How well some lines of one text fit a place in another, over all longest alignments.

    `best` is the length of these, `here` the longest with the lines in that place. `tied`: one as
    long as the best has the first or the last of them elsewhere or nowhere. `crossed`: the lines
    around would align better without them, some of them across the place.
    """

    best: int
    here: int
    tied: bool
    crossed: bool


def weigh(
    before: Sequence[Hashable],
    lines: Sequence[Hashable],
    after: Sequence[Hashable],
    theirs: Sequence[Hashable],
    at: int,
) -> Weighed:
    """Weigh `before + lines + after` against `theirs`, with `lines` (not empty) placed at `at`.

    Lengths of common subsequences, for each j: `to_first[j]` of `before`, `to_last[j]` of all above
    the last line, with `theirs[:j]`; `past_first[j]` of all below the first line, `past_last[j]` of
    `after`, with `theirs[j:]`.
    """
    head, tail = Common(theirs), Common(theirs[::-1])
    head.take(before)
    to_first = head.lengths()
    head.take(lines[:-1])
    to_last = head.lengths()
    tail.take(after[::-1])
    past_last = tail.lengths()[::-1]
    tail.take(lines[:0:-1])
    past_first = tail.lengths()[::-1]
    tail.take(lines[:1])
    best = max(map(add, to_first, tail.lengths()[::-1]))
    end = at + len(lines)
    around = to_first[at] + past_last[end]
    tied = _elsewhere(theirs, lines[0], at, to_first, past_first, best) or _elsewhere(
        theirs, lines[-1], end - 1, to_last, past_last, best
    )
    crossed = max(map(add, to_first, past_last)) > around
    if crossed:
        rest = Common([*theirs[:at], *theirs[end:]])
        rest.take(before)
        rest.take(after)
        crossed = rest.length() > around
    return Weighed(best, around + len(lines), tied, crossed)


def _elsewhere(
    theirs: Sequence[Hashable],
    line: Hashable,
    own: int,
    upto: list[int],
    past: list[int],
    best: int,
) -> bool:
    """Whether an alignment of length `best` skips the line or matches it elsewhere than `own`."""
    if max(map(add, upto, past)) >= best:
        return True
    return any(
        upto[j] + 1 + past[j + 1] >= best
        for j, other in enumerate(theirs)
        if other == line and j != own
    )


_CELLS = 64_000_000
"""The most pairs of lines that one alignment weighs exactly; takes about 30 ms and 8 MB."""

_DEPTH = 24
"""The most times that a gap is split again at lines that are unique within it."""


class Run(NamedTuple):
    """The `length` lines from `base_start` match those from `now_start`, both 0-based."""

    base_start: int
    now_start: int
    length: int


class Gap(NamedTuple):
    """The lines between two runs: removed from base, added in now; half-open ranges."""

    base_start: int
    base_stop: int
    now_start: int
    now_stop: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """The matched runs of two sequences of lines, in order.

    Law: every line of either side is in exactly one run or gap; applying the gaps to base gives
    now.
    """

    base_length: int
    now_length: int
    runs: tuple[Run, ...]

    @property
    def matched(self) -> int:
        """The number of matched lines."""
        return sum(run.length for run in self.runs)

    def now_of(self, line: int, length: int = 1) -> int | None:
        """Where base lines [line, line + length) are in now, if one run holds them all."""
        return self._across(line, length, 0)

    def base_of(self, line: int, length: int = 1) -> int | None:
        """Where now lines [line, line + length) were in base, if one run holds them all."""
        return self._across(line, length, 1)

    def _across(self, line: int, length: int, side: Literal[0, 1]) -> int | None:
        """The line of the other text for one of base (side 0) or now (side 1)."""
        if (index := bisect_right(self.runs, line, key=itemgetter(side)) - 1) < 0:
            return None
        run = self.runs[index]
        inner = line - run[side]
        return run[1 - side] + inner if inner + length <= run.length else None

    def room_of(self, line: int, length: int = 1) -> tuple[int, int]:
        """Where base lines [line, line + length) may be in now, between matches; half-open."""
        end = line + length
        above = bisect_left(self.runs, line, key=lambda run: run.base_start)
        below = bisect_right(self.runs, end, key=lambda run: run.base_start + run.length)
        low, high = 0, self.now_length
        if above:
            run = self.runs[above - 1]
            low = run.now_start + min(run.length, line - run.base_start)
        if below < len(self.runs):
            run = self.runs[below]
            high = run.now_start + max(0, end - run.base_start)
        return low, high

    def gaps(self) -> Iterator[Gap]:
        """Yield the non-empty gaps before, between and after the runs."""
        base_at = now_at = 0
        for run in (*self.runs, Run(self.base_length, self.now_length, 0)):
            if base_at < run.base_start or now_at < run.now_start:
                yield Gap(base_at, run.base_start, now_at, run.now_start)
            base_at, now_at = run.base_start + run.length, run.now_start + run.length


def align(
    base: Sequence[Hashable], now: Sequence[Hashable], *, blank: Hashable = None
) -> Alignment:
    """Align two sequences of lines.

    Match the common ends, then lines unique on both sides (as many as keep their order, of equally
    many rather those that are not `blank`), then the same within each gap, then the longest common
    subsequence. Where that would cost too much, match only lines at equal distances from the gap's
    start: time is O(n log n) plus a constant, and an alignment is always valid, if not always the
    longest.
    """
    a, b = list(base), list(now)
    head, tail = common_ends(a, b)
    found = [Run(0, 0, head), Run(len(a) - tail, len(b) - tail, tail)]
    cells = _CELLS
    todo = [(Gap(head, len(a) - tail, head, len(b) - tail), 0)]
    while todo:
        gap, depth = todo.pop()
        if gap.base_start == gap.base_stop or gap.now_start == gap.now_stop:
            continue
        chain = _unique_chain(a, b, gap, blank) if depth < _DEPTH else []
        if chain:
            todo += [(rest, depth + 1) for rest in _extend(a, b, gap, chain, found)]
            continue
        cost = (gap.base_stop - gap.base_start) * (gap.now_stop - gap.now_start)
        if cost <= cells:
            cells -= cost
            ours, theirs = a[gap.base_start : gap.base_stop], b[gap.now_start : gap.now_stop]
            found += [
                Run(gap.base_start + i, gap.now_start + j, 1) for i, j in longest(ours, theirs)
            ]
        else:
            found += _straight(a, b, gap)
    return Alignment(len(a), len(b), tuple(_joined(found)))


def common_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int]:
    """How many lines the two share at the start, and how many of the rest at the end."""
    head = same_after(a, b, 0, 0) if a[:1] == b[:1] else 0
    tail = same_before(a, b, len(a), len(b)) if a[-1:] == b[-1:] else 0
    return head, min(tail, len(a) - head, len(b) - head)


def changed_part(
    old: Sequence[Hashable], new: Sequence[Hashable]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The lines of either side that are left without those that both begin and end with.

    One of these lines is left at either end. None if all are.
    """
    head, tail = common_ends(old, new)
    low, high = max(head - 1, 0), min(len(old) - tail + 1, len(old))
    if high - low == len(old):
        return None
    return (low, high), (low, high + len(new) - len(old))


def same_after(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> int:
    """Return how many lines of `a` from index `i` equal those of `b` from index `j`."""
    return _stretch(
        lambda low, high: a[i + low : i + high] == b[j + low : j + high],
        min(len(a) - i, len(b) - j),
    )


def same_before(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> int:
    """Return how many lines of `a` up to `i` (not included) equal those of `b` up to `j`."""
    return _stretch(
        lambda low, high: a[i - high : i - low] == b[j - high : j - low],
        min(i, j),
    )


def _stretch(are_equal: Callable[[int, int], bool], most: int) -> int:
    """How many lines are equal, of `most`: found by slices that double, then halve, in size."""
    size, step = 0, 1
    while size + step <= most and are_equal(size, size + step):
        size, step = size + step, step * 2
    while step:
        if size + step <= most and are_equal(size, size + step):
            size += step
        step //= 2
    return size


def _straight(a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap) -> Iterator[Run]:
    """Yield runs of equal lines at equal distances from the gap's start."""
    i, j = gap.base_start, gap.now_start
    while i < gap.base_stop and j < gap.now_stop:
        length = min(same_after(a, b, i, j), gap.base_stop - i, gap.now_stop - j)
        yield Run(i, j, length)
        i, j = i + length + 1, j + length + 1


_Link = tuple[tuple[int, int], "_Link | None"]
"""The last pair of a chain, and the chain before it."""


def _unique_chain(
    a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap, blank: Hashable
) -> list[tuple[int, int]]:
    """Return the longest chain, in order on both sides, of lines that are unique on both sides.

    Of two that are equally long it is the one without the `blank` line.
    """
    ours, theirs = a[gap.base_start : gap.base_stop], b[gap.now_start : gap.now_stop]
    place = {line: j for j, line in enumerate(theirs, gap.now_start)}
    counts, others = Counter(ours), Counter(theirs)
    once = {line for line, count in counts.items() if count == 1 == others.get(line)}
    pairs = [(i, place[line]) for i, line in enumerate(ours, gap.base_start) if line in once]
    chain = _in_order(pairs)
    words = _in_order([pair for pair in pairs if a[pair[0]] != blank])
    return max(words, chain, key=len)


def _in_order(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of these pairs, which are sorted, that is in order on both sides."""
    order = [j for _, j in pairs]
    if order == sorted(order):
        return pairs
    ends: list[int] = []  # of the chains of each length: the least line of now that ends one
    chains: list[_Link] = []
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        chains[length : length + 1] = [(pair, chains[length - 1] if length else None)]
    chain: list[tuple[int, int]] = []
    link: _Link | None = chains[-1]
    while link is not None:
        pair, link = link
        chain.append(pair)
    return chain[::-1]


def _extend(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    gap: Gap,
    chain: list[tuple[int, int]],
    found: list[Run],
) -> Iterator[Gap]:
    """Grow each link of the chain both ways and add the runs; yield the gaps between them."""
    base_at, now_at = gap.base_start, gap.now_start
    for i, j in chain:
        if i < base_at:
            continue
        i0, j0 = i, j
        while i0 > base_at and j0 > now_at and a[i0 - 1] == b[j0 - 1]:
            i0, j0 = i0 - 1, j0 - 1
        # it stops before any later link that it does not pass through: that link's line is unique
        more = min(same_after(a, b, i, j), gap.base_stop - i, gap.now_stop - j)
        found.append(Run(i0, j0, i + more - i0))
        if base_at < i0 and now_at < j0:
            yield Gap(base_at, i0, now_at, j0)
        base_at, now_at = i + more, j + more
    yield Gap(base_at, gap.base_stop, now_at, gap.now_stop)


def _joined(found: list[Run]) -> list[Run]:
    """The runs in order; those that touch on both sides are one, empty ones are left out."""
    joined: list[Run] = []
    for run in sorted(run for run in found if run.length):
        last = joined[-1] if joined else Run(0, 0, 0)
        if (last.base_start + last.length, last.now_start + last.length) == run[:2]:
            joined[-1:] = [Run(last.base_start, last.now_start, last.length + run.length)]
        else:
            joined.append(run)
    return joined


CONTEXT = 3
"""Lines of context around a change."""

_PATCH_CONTEXT = 4
MOST_CHANGES = 1_000
"""Texts that differ in more lines get another `patch`: Myers' takes quadratic time."""

HUNK_HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

_REFINED = 4_000
"""A region of more lines is shown as replaced, without comparing its lines."""


class Region(NamedTuple):
    """Old lines [start, stop), 0-based, their bytes [begin, end), and the raw new lines."""

    start: int
    stop: int
    begin: int
    end: int
    new: tuple[bytes, ...]


class DiffText(NamedTuple):
    """A line of a unified diff, with its 0-based number on each side, or that of the next line.

    `sign` is the first character of a hunk's line, and "@" for a hunk header; it is empty for lines
    about a file, and for words in place of lines that were left out.
    """

    sign: str
    text: str
    old: int
    new: int


def read_diff(lines: Iterable[str]) -> Iterator[DiffText]:
    """Yield the lines of a unified diff of any number of files; a hunk ends by its counts."""
    old = new = 0
    left = [0, 0]  # lines left in the hunk, on each side
    for text in lines:
        sign = text[:1]
        if sign in (" ", "-", "+") and (left[0] > 0 or left[1] > 0):
            yield DiffText(sign, text, old, new)
            kept, come = sign != "+", sign != "-"
            old, new = old + kept, new + come
            left = [left[0] - kept, left[1] - come]
        elif sign == "\\":
            yield DiffText("\\", text, old, new)
        elif sign == "@" and (head := HUNK_HEAD.match(text)):
            left = [int(head[2] or 1), int(head[4] or 1)]
            old, new = int(head[1]) - (left[0] > 0), int(head[3]) - (left[1] > 0)
            yield DiffText("@", text, old, new)
        else:
            left = [0, 0] if text.startswith("diff --git ") else left
            yield DiffText("", text, old, new)


def regions(old: Text, change: ChangeSet) -> tuple[Region, ...]:
    """Return the whole-line regions that `change` alters, in order, without unchanged lines."""
    old = old.unmarked()
    return tuple(_regions(old, change, old.line_at))


def hunks_of(found: Iterable[Region], context: int = CONTEXT) -> Iterator[list[Region]]:
    """Yield the regions of each hunk, in order: regions whose contexts meet or touch share one."""
    hunk: list[Region] = []
    for region in found:
        if hunk and region.start - hunk[-1].stop > 2 * context:
            yield hunk
            hunk = []
        hunk += (region,)
    if hunk:
        yield hunk


def runs_of(found: Iterable[Region]) -> Iterator[list[Region]]:
    """Group the regions that have no line between them."""
    return hunks_of(found, 0)


def touched(old: Text, change: ChangeSet) -> list[tuple[int, int, list[Edit]]]:
    """The line ranges [start, stop) that contain the edits; edits that share a line share one.

    The new text of a range ends with a line ending, except at the end of the text. No edit may
    start within a byte order mark: `unmarked` texts have none.
    """
    return [
        (old.line_at(begin), old.line_count if end == old.size else old.line_at(end), edits)
        for begin, end, edits in _touched(old, change)
    ]


def unified(
    old: Text, change: ChangeSet, path: str, *, created: bool = False, removed: bool = False
) -> bytes:
    """The git-style diff; empty when no line changes.

    `created`: the file did not exist before; `removed`: it does not exist after. Lines end with LF;
    the text of a line keeps its own CR. A last line without terminator is followed by the usual
    remark.
    """
    return b"".join(_parts(old, change, path, created=created, removed=removed))


def unified_start(
    old: Text,
    change: ChangeSet,
    path: str,
    most_bytes: int,
    most_lines: int,
    *,
    created: bool = False,
) -> tuple[bytes, bool]:
    """Return the diff up to the first hunk that ends beyond a limit, and whether it is complete."""
    text, lines = bytearray(), 0
    for part in _parts(old, change, path, created=created):
        if len(text) > most_bytes or lines > most_lines:
            return bytes(text), False
        text += part
        lines += part.count(b"\n")
    return bytes(text), True


def line_counts(old: Text, change: ChangeSet) -> tuple[int, int]:
    """Count the lines added and removed, as a diff of the change shows them."""
    if isinstance(old, Snapshot) and _is_within_lines(old, change):
        return len(change.edits), len(change.edits)
    found = [*_regions(old.unmarked(), change, lambda byte: 0)]
    added = sum(len(region.new) for region in found)
    return added, sum(region.stop - region.start for region in found)


def _is_within_lines(old: Snapshot, change: ChangeSet) -> bool:
    """Whether each edit alters a line of its own, and the last line does not change."""
    data, before = old.data, -1
    if old.encoding.unit > 1 or (change.edits and change.edits[-1].stop >= old.size):
        return False
    for edit in change.edits:
        start, stop, new = edit.start, edit.stop, edit.new
        if b"\n" in new or data.find(b"\n", start, stop) >= 0 or data[start:stop] == new:
            return False
        if before >= 0 and data.find(b"\n", before, start) < 0:
            return False
        before = stop
    return True


def renamed(path: str, to: str, edit: tuple[Text, ChangeSet] | None = None) -> bytes:
    """Return the diff of a moved file; `edit` is its text and the change made to it as well."""
    before, after = quoted(f"a/{path}"), quoted(f"b/{to}")
    hunks = b""
    if edit is not None and not edit[0].unchanged_by(edit[1]):
        old = edit[0].unmarked()
        hunks = b"".join(_hunks(old, _regions(old, edit[1], old.line_at)))
    similar = b"" if hunks else b"similarity index 100%\n"
    names = b"rename from " + quoted(path) + b"\nrename to " + quoted(to) + b"\n"
    head = b"diff --git " + before + b" " + after + b"\n" + similar + names
    return head + _names(before, after) + hunks if hunks else head


def mode_changed(path: str, old: int, new: int) -> bytes:
    """Return the diff of a file whose bytes stay, but whose executable bit changes."""
    head = b"diff --git " + quoted(f"a/{path}") + b" " + quoted(f"b/{path}") + b"\n"
    return head + b"old mode " + _git_mode(old) + b"\nnew mode " + _git_mode(new) + b"\n"


def _git_mode(mode: int) -> bytes:
    return b"100755" if mode & 0o111 else b"100644"


def is_binary(text: Snapshot) -> bool:
    """Whether the bytes are not text."""
    return text.encoding.unit == 1 and b"\0" in text.data


def deleted(old: Text, change: ChangeSet, path: str, mode: int) -> bytes:
    """Return the diff of a removed file, any file; the change removes all bytes.

    A binary file is identified by its name and its Git blob hash, without its content.
    """
    text = unified(old, change, path, removed=True)
    head, rest = text.split(b"\n", 1)
    rest = rest.removeprefix(b"deleted file mode 100644\n")
    if is_binary(old.whole()):
        name = blob_id(old.whole().data)
        # As git does: applying it checks the hash, and needs none of the old bytes.
        rest = b"index %s..%s\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n" % (
            name.encode(),
            b"0" * len(name),
        )
    return head + b"\ndeleted file mode " + _git_mode(mode) + b"\n" + rest


def as_executable(diff: bytes) -> bytes:
    """The diff of a new file that may be executed."""
    return diff.replace(b"\nnew file mode 100644\n", b"\nnew file mode 100755\n", 1)


def blob_id(data: bytes, algorithm: str = "sha1") -> str:
    """Git's blob id of the bytes, in hex."""
    head = b"blob %d\0" % len(data)
    return hashlib.new(algorithm, head + data, usedforsecurity=False).hexdigest()


def _parts(
    old: Text, change: ChangeSet, path: str, *, created: bool = False, removed: bool = False
) -> Iterable[bytes]:
    """The diff: its header, then each hunk."""
    old = old.unmarked()
    found = _regions(old, change, old.line_at)
    first = next(found, None)
    if first is None and not created and not removed:
        return ()
    before, after = quoted(f"a/{path}"), quoted(f"b/{path}")
    head = b"diff --git " + before + b" " + after + b"\n"
    if created:
        head += b"new file mode 100644\n"
    if removed:
        head += b"deleted file mode 100644\n"
    if first is None:
        return (head + (b"index 0000000..e69de29\n" if created else b"index e69de29..0000000\n"),)
    none = b"/dev/null"
    head += _names(none if created else before, none if removed else after)
    return chain((head,), _hunks(old, chain((first,), found)))


def _regions(old: Text, change: ChangeSet, line_at: Callable[[int], int]) -> Iterator[Region]:
    """Yield the regions; `line_at` numbers their lines."""
    for begin, end, edits in _touched(old, change):
        raw = old.slice(begin, end)
        was, new = _raw_lines(old, raw), _raw_lines(old, b"".join(spliced(raw, edits, begin)))
        line = line_at(begin)
        if not set(was).isdisjoint(new):
            yield from _refined(line, begin, was, new)
        elif was or new:
            yield Region(line, line + len(was), begin, end, tuple(new))


_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_QUOTED = re.compile(rb'[\x00-\x1f"\\\x7f]| \Z')
"""Characters that git quotes in names."""


@lru_cache
def quoted(name: str) -> bytes:
    r"""The name as git writes it: quoted if it has control characters, `"`, `\` or a last space."""
    raw = name.encode()
    if _QUOTED.search(raw) is None:
        return raw
    named = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    out = "".join(
        f"\\{named[b]}" if b in named else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in raw
    )
    return f'"{out}"'.encode()


def counts(diff: bytes) -> tuple[int, int]:
    """Count the lines added and removed by a one-file diff made by this module."""
    _, _, body = diff.partition(b"\n@@ ")
    return body.count(b"\n+"), body.count(b"\n-")


def _names(before: bytes, after: bytes) -> bytes:
    """The two lines that name the sides."""
    # A tab after a name with a space, or patch would take the rest for a timestamp.
    tabs = b"\t" * (b" " in before), b"\t" * (b" " in after)
    return b"--- " + before + tabs[0] + b"\n+++ " + after + tabs[1] + b"\n"


def _touched(old: Text, change: ChangeSet) -> Iterator[tuple[int, int, list[Edit]]]:
    """Yield bytes [begin, end) of the lines that contain the edits; joined if they share a line."""
    first = last = 0
    edits: list[Edit] = []
    for edit in change.edits:
        begin, end = old.line_begin(edit.start), edit.stop
        ends_line = edit.new.endswith(old.lf) if edit.new else edit.start == begin
        # after an edit that ends where a line starts, the text stays on a line of its own
        if not (ends_line and old.begins_line(end)):
            end = old.line_end(end)
        if edits and begin >= last:
            yield first, last, edits
            edits = []
        if not edits:
            first = last = begin
        edits.append(edit)
        last = max(last, end)
    if edits:
        yield first, last, edits


def _raw_lines(old: Text, raw: bytes) -> list[bytes]:
    """Split bytes into whole lines, terminators included."""
    if old.encoding.unit > 1:
        lines = Snapshot(raw, old.encoding)
        return [lines.raw(i, i + 1) for i in range(lines.line_count)]
    return _LINES.findall(raw)


def _refined(line: int, begin: int, was: list[bytes], new: list[bytes]) -> Iterator[Region]:
    """The regions without unchanged lines; `was` starts at line `line` and byte `begin`."""
    head, tail = common_ends(was, new)
    ours, theirs = was[head : -tail or None], new[head : -tail or None]
    gaps: Iterable[Gap] = [Gap(0, len(ours), 0, len(theirs))] if ours or theirs else []
    if len(ours) + len(theirs) <= _REFINED and not set(ours).isdisjoint(theirs):
        gaps = align(ours, theirs).gaps()
    return _as_regions(line + head, begin + sum(map(len, was[:head])), ours, theirs, gaps)


def _as_regions(
    line: int, begin: int, old: Sequence[bytes], new: Sequence[bytes], gaps: Iterable[Gap]
) -> Iterator[Region]:
    """The regions of these gaps between equal lines; `old` starts at `line` and byte `begin`."""
    at = 0
    for start, stop, low, high in gaps:
        begin += sum(map(len, old[at:start]))
        end = begin + sum(map(len, old[start:stop]))
        yield Region(line + start, line + stop, begin, end, tuple(new[low:high]))
        at, begin = stop, end


def _hunks(
    old: Text, found: Iterable[Region], context: int = CONTEXT, *, as_found: bool = False
) -> Iterator[bytes]:
    """Yield the text of each hunk; regions whose contexts meet share one.

    In a run of regions all old lines come before the new ones, but `as_found`: region by region.
    """
    marked = _marked if old.encoding.unit == 1 else partial(_marked_wide, old)
    shift = 0
    for group in hunks_of(found, context):
        begin, above = old.back(group[0].begin, context)
        end, below = old.on(group[-1].end, context)
        raw, at = old.slice(begin, end), 0
        grown, texts = 0, list[bytes]()
        is_parted = group[1:] and not as_found
        for run in runs_of(group) if is_parted else [[region] for region in group]:
            lines = [line for region in run for line in region.new]
            new, grown = b"".join(lines), grown + len(lines) - (run[-1].stop - run[0].start)
            start, stop = run[0].begin - begin, run[-1].end - begin
            texts += (marked(b" ", raw[at:start]), marked(b"-", raw[start:stop]), marked(b"+", new))
            at = stop
        first = group[0].start - above
        old_size = group[-1].stop + below - first
        new_size = old_size + grown
        head = f"@@ -{first + (old_size > 0)},{old_size} +{first + shift + (new_size > 0)},"
        shift += grown
        yield b"".join((f"{head}{new_size} @@\n".encode(), *texts, marked(b" ", raw[at:])))


def _marked(sign: bytes, raw: bytes) -> bytes:
    """Return whole lines as a diff shows them, each after the sign."""
    if not raw:
        return b""
    shown = sign + raw[:-1].replace(b"\n", b"\n" + sign) + raw[-1:]
    return shown if raw[-1] == 10 else shown + b"\n\\ No newline at end of file\n"


def _marked_wide(old: Text, sign: bytes, raw: bytes) -> bytes:
    """Do `_marked` for lines in UTF-16 or UTF-32, shown in UTF-8."""
    lines = (old.encoding.decode(line).encode() for line in _raw_lines(old, raw))
    return _marked(sign, b"".join(lines))


@dataclass(frozen=True)
class FileEdit:
    """The change of `base` in one file; `created`: the file does not exist yet, `base` is empty."""

    path: RelPath
    base: Snapshot
    change: ChangeSet
    created: bool = False

    @computed_once
    def after(self) -> Snapshot:
        return self.base.edited(self.change)

    @computed_once
    def diff(self) -> bytes:
        return unified(self.base, self.change, str(self.path), created=self.created)


def diff_text(diff: bytes, encoding: Encoding) -> str:
    """A whole diff as text. Paths are UTF-8, lines are in the encoding of the file."""
    head, mark, body = diff.partition(b"\n@@ ")
    own = encoding if encoding.unit == 1 else UTF8  # wide encodings are UTF-8 in a diff
    return head.decode("utf-8", "backslashreplace") + own.decode(mark + body)


class _Step(NamedTuple):
    """A run of lines of one kind (" ", "-" or "+"), and the previous step."""

    kind: str
    size: int
    before: _Step | None


_NO_PATH: tuple[int, _Step | None] = (-(1 << 62), None)


def patch(old: str, new: str, name: str) -> str:
    """Return a unified diff with four lines of context; its three-line head names the file."""
    head = f"Index: {name}\n{'=' * 67}\n--- {name}\toriginal\n+++ {name}\tmodified\n"
    text = Snapshot(old.encode("utf-8", "surrogatepass"), UTF8)
    lines = _LINES.findall(text.data)
    theirs = _LINES.findall(new.encode("utf-8", "surrogatepass"))
    gaps = _fewest(lines, theirs)
    changed = _as_regions(
        0, 0, lines, theirs, align(lines, theirs).gaps() if gaps is None else gaps
    )
    hunks = _hunks(text, changed, _PATCH_CONTEXT, as_found=True)
    return head + b"".join(hunks).decode("utf-8", "surrogatepass")


def _fewest(old: Sequence[bytes], new: Sequence[bytes]) -> list[Gap] | None:
    """The deletions and insertions of a shortest diff; None if it has too many changes.

    Extend paths through the grid of old and new lines by one change at a time, keeping the farthest
    one on each diagonal (old minus new) with the number of old lines it has passed.
    """
    size, now_size = len(old), len(new)

    def along(at: int, diagonal: int, before: _Step | None) -> tuple[int, _Step | None]:
        start = at
        while at < size and at - diagonal < now_size and old[at] == new[at - diagonal]:
            at += 1
        return at, _Step(" ", at - start, before) if at > start else before

    at, step = along(0, 0, None)
    if at >= size and at >= now_size:
        return []
    best: dict[int, tuple[int, _Step | None]] = {0: (at, step)}
    low, high = -MOST_CHANGES, MOST_CHANGES
    for changes in range(1, MOST_CHANGES + 1):
        for diagonal in range(max(low, -changes), min(high, changes) + 1, 2):
            if diagonal > high:
                break
            less, more = best.pop(diagonal - 1, _NO_PATH), best.get(diagonal + 1, _NO_PATH)
            removes = 0 <= less[0] < size
            adds = 0 <= more[0] - diagonal - 1 < now_size
            if removes and not (adds and less[0] < more[0]):
                at, before, kind = less[0] + 1, less[1], "-"
            elif adds:
                at, before, kind = more[0], more[1], "+"
            else:
                best.pop(diagonal, None)
                continue
            count = 1
            if before is not None and before.kind == kind:
                count, before = before.size + 1, before.before
            at, step = along(at, diagonal, _Step(kind, count, before))
            if at >= size and at - diagonal >= now_size:
                return _gaps_of(step, size, now_size)
            best[diagonal] = at, step
            if at >= size:
                high = min(high, diagonal - 1)
            if at - diagonal >= now_size:
                low = max(low, diagonal + 1)
    return None


def _gaps_of(step: _Step | None, at: int, to: int) -> list[Gap]:
    """The deletions and insertions on the way to old line `at` and new line `to`."""
    gaps: list[Gap] = []
    while step is not None:
        start, begin = at - step.size * (step.kind != "+"), to - step.size * (step.kind != "-")
        if step.kind != " ":
            gaps.append(Gap(start, at, begin, to))
        at, to, step = start, begin, step.before
    return gaps[::-1]
