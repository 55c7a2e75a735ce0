"""Who added and who removed each line of a text, over any number of changes.

Lines are in runs. A removed line stays, with who removed it, until what removed it is known to
count no more; a change that puts removed lines back at their place revives them. So the net change
of some authors is read off at once, and what others wrote is context in it: it is on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from copydesk.text.diff import align, common_ends

BASE = 0
"""The author of what was there first, and of what nobody we know of wrote."""

OTHER = -1
"""Who removed what somebody we know of had written, but is not known."""

LineChange = tuple[int, int, Sequence[bytes]]
"""Old lines [start, stop), 0-based, are replaced by new ones."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Some lines with one author; `removed` is who removed them, BASE while they are there."""

    lines: Sequence[bytes]
    added: int = BASE
    removed: int = BASE


@dataclass(slots=True)
class NetHunk:
    """What some authors made of `old` lines; both texts have the same lines around it.

    `old_line` and `new_line` are 0-based. `authors` are theirs; `touched_by` those of others who
    removed lines that they had added. `runs` [start, stop) are where it is in the lines.
    """

    old_line: int
    new_line: int
    old: list[bytes] = field(default_factory=list[bytes])
    new: list[bytes] = field(default_factory=list[bytes])
    authors: set[int] = field(default_factory=set[int])
    touched_by: set[int] = field(default_factory=set[int])
    runs: tuple[int, int] = (0, 0)


class Authored:
    """The lines of a text that changes, with their authors, which are positive numbers."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._runs = [_Run(lines)] if lines else []

    def change(self, changes: Iterable[LineChange], author: int) -> None:
        """Replace lines; the changes are in order and of one text."""
        for start, stop, new in reversed([*changes]):
            stop_at = self._cut(stop)
            start_at = self._cut(start) if start != stop else stop_at
            if start != stop:
                stop_at = self._cut(stop)
            while start_at and self._runs[start_at - 1].removed:  # what was here before
                start_at -= 1
            gap = self._runs[start_at:stop_at]
            # what was removed here stays beside what its author wrote instead, right below
            below = self._runs[stop_at : stop_at + 1] if start == stop else ()
            is_above = any(run.added != BASE for run in below)
            self._runs[start_at:stop_at] = _merged(_replaced(gap, new, author, is_above))

    def _cut(self, line: int) -> int:
        """Split so that a run begins at this line; return its index: removed runs are before it."""
        at = 0
        for index, run in enumerate(self._runs):
            if run.removed:
                continue
            if at == line:
                return index
            if line < at + len(run.lines):
                parts = run.lines[: line - at], run.lines[line - at :]
                self._runs[index : index + 1] = [replace(run, lines=part) for part in parts]
                return index + 1
            at += len(run.lines)
        return len(self._runs)

    def net(self, ours: Callable[[int], bool]) -> tuple[list[bytes], list[NetHunk]]:
        """The lines without what our authors did, and what they did to these, in order."""
        base: list[bytes] = []
        found: list[NetHunk] = []
        now_line = 0
        for start, stop in self._stretches(ours):
            hunk, lost = NetHunk(len(base), now_line, runs=(start, stop)), False
            for run in self._runs[start:stop]:
                is_ours, by_us = ours(run.added), ours(run.removed)
                if not run.removed:
                    hunk.new += run.lines
                elif by_us and not is_ours:
                    hunk.old += run.lines
                elif is_ours and not by_us:
                    hunk.touched_by.add(run.removed)
                    lost = True
                hunk.authors |= {one for one in (run.added, run.removed) if ours(one)}
            if lost and not hunk.new:  # others decided what is here now
                hunk.old = []
            head, tail = common_ends(hunk.old, hunk.new)
            now_line += len(hunk.new)
            base += hunk.old
            if hunk.old != hunk.new:
                hunk.old_line, hunk.new_line = hunk.old_line + head, hunk.new_line + head
                hunk.old = hunk.old[head : len(hunk.old) - tail]
                hunk.new = hunk.new[head : len(hunk.new) - tail]
                found.append(hunk)
            for run in self._runs[stop : stop + 1]:  # the one that is context
                base += run.lines
                now_line += len(run.lines)
        return base, found

    def _stretches(self, ours: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """Yield the runs [start, stop) between those that are there and not ours; perhaps none."""
        start = 0
        for index, run in enumerate(self._runs):
            if not run.removed and not ours(run.added):
                yield start, index
                start = index + 1
        yield start, len(self._runs)

    @property
    def lines(self) -> list[bytes]:
        """The lines that are there."""
        return [line for run in self._runs if not run.removed for line in run.lines]

    def without(self, hunks: Iterable[NetHunk], ours: Callable[[int], bool]) -> Authored:
        """The lines as if our authors had not made these hunks of them as they are."""
        left = Authored([])
        left._runs = [*self._runs]
        for hunk in sorted(hunks, key=lambda hunk: -hunk.runs[0]):
            start, stop = hunk.runs
            back = [run for run in left._runs[start:stop] if run.removed and not ours(run.added)]
            left._runs[start:stop] = [
                replace(run, removed=BASE) if ours(run.removed) else run for run in back
            ]
        return left

    def settle(self, hunks: Iterable[NetHunk], ours: Callable[[int], bool]) -> None:
        """Count what our authors did in these hunks of the lines as they are as there at first.

        What other authors removed there stays theirs.
        """
        for hunk in sorted(hunks, key=lambda hunk: -hunk.runs[0]):
            start, stop = hunk.runs
            left = [run for run in self._runs[start:stop] if not ours(run.removed)]
            self._runs[start:stop] = [
                replace(run, added=BASE) if ours(run.added) else run for run in left
            ]

    def settle_by(self, text: Sequence[bytes], ours: Callable[[int], bool]) -> None:
        """Count as there at first what our authors did and this text has too.

        That are the hunks whose new lines, with one line around, are together in the text; all if
        it is the text. What was only removed may have been in no text that anybody else has.
        """
        now = self.lines
        _, hunks = self.net(ours)
        alike = align([_plain(line) for line in text], [_plain(line) for line in now])
        if alike.base_length == alike.now_length == alike.matched:
            self.settle(hunks, ours)
            return
        settled: list[NetHunk] = []
        for hunk in hunks:
            low = max(hunk.new_line - 1, 0)
            high = min(hunk.new_line + len(hunk.new) + 1, len(now))
            at = alike.base_of(low, high - low) if hunk.new else None
            is_at_ends = at is not None and (
                (low > 0 or at == 0) and (high < len(now) or at + high - low == len(text))
            )
            settled += [hunk] if is_at_ends else []
        self.settle(settled, ours)


def _plain(line: bytes) -> bytes:
    """The line without its end, which git may convert."""
    return line.rstrip(b"\r\n")


def _replaced(
    gap: Sequence[_Run], new: Sequence[bytes], author: int, is_above: bool
) -> Iterator[_Run]:
    """Yield the runs of a gap, those that are there removed, with the new lines among them.

    New lines that were removed here are these again; the others come as early as they can if they
    are `is_above`, else as late.
    """
    gone = [line for run in gap if run.removed for line in run.lines]
    back = {
        matched.base_start + offset: matched.now_start + offset
        for matched in align(gone, new).runs
        for offset in range(matched.length)
    }
    line = taken = 0
    last = max(back, default=-1)
    if is_above and last < 0:
        yield _Run(new, author)
        taken = len(new)
    for run in gap:
        if not run.removed:
            if run.added != BASE or author != BASE:
                yield replace(run, removed=author or OTHER)
            continue
        for text in run.lines:
            at = back.get(line)
            if at is None:
                yield replace(run, lines=[text])
            else:
                if taken < at:
                    yield _Run(new[taken:at], author)
                yield replace(run, lines=[text], removed=BASE)
                taken = at + 1
                if is_above and line == last:
                    yield _Run(new[taken:], author)
                    taken = len(new)
            line += 1
    if taken < len(new):
        yield _Run(new[taken:], author)


def _merged(runs: Iterable[_Run]) -> list[_Run]:
    """The runs, with neighbours of the same authors as one."""
    merged: list[_Run] = []
    for run in (run for run in runs if run.lines):
        if merged and (merged[-1].added, merged[-1].removed) == (run.added, run.removed):
            merged[-1] = replace(run, lines=[*merged[-1].lines, *run.lines])
        else:
            merged.append(run)
    return merged
