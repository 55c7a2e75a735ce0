"""Who added, removed and put back each line of a text, over any number of changes.

Lines are in runs. A removed line stays, with who removed it, until that removal is kept for good or
undone; a change that puts removed lines back at their place revives them. So the net change
of some authors is read off at once, and what others wrote is context in it: it is on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, takewhile
from typing import NamedTuple

from copydesk.text.diff import align, common_ends

BASE = 0
"""The author of what was there first, and of what nobody we know of wrote."""

OTHER = -1
"""Somebody unknown who changed it before anybody we know of; after our author n it is -1 - n.

So `OTHER - n` says when an unknown author wrote, and `OTHER - (OTHER - n)` is n again.
"""

LineChange = tuple[int, int, Sequence[bytes]]
"""Old lines [start, stop), 0-based, are replaced by new ones."""


class _Run(NamedTuple):
    """Some lines, and `by` whom they were added, removed, put back and so on, oldest first."""

    lines: Sequence[bytes]
    by: tuple[int, ...] = (BASE,)

    @property
    def is_there(self) -> bool:
        return len(self.by) % 2 == 1

    def was_there(self, edit: int) -> bool:
        """Whether they were there after an edit; its id is its author's."""
        return sum(OTHER - by < edit if by < BASE else by <= edit for by in self.by) % 2 == 1

    def turns(self, ours: Callable[[int], bool]) -> list[int]:
        """Who did what its own side did not take back, we and others in turn; indices of `by`."""
        turns: list[int] = []
        for at, author in enumerate(self.by):
            if turns and ours(self.by[turns[-1]]) == ours(author):
                turns.pop()
            else:
                turns.append(at)
        return turns

    def without(self, ours: Callable[[int], bool]) -> tuple[int, ...]:
        """What others have done, as far as it does not rest on what ours did.

        So the lines are there without ours if it is an odd number of things.
        """
        before = [*takewhile(lambda one: not ours(one), self.by)]
        if len(before) % 2 == 0:
            return tuple(before)
        first = next(iter(self.turns(ours)), len(self.by))
        return tuple(one for one in self.by[: first + 1] if not ours(one))


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
        self._last = BASE

    def change(self, changes: Iterable[LineChange], author: int) -> None:
        """Replace lines; the changes are in order and of one text."""
        self._last = max(self._last, author)
        by = author or OTHER - self._last
        runs, todo, line = list[_Run](), self._runs[::-1], 0
        for start, stop, new in changes:
            runs += _taken(todo, start - line)
            gap = _taken(todo, stop - start)
            while runs and not runs[-1].is_there:  # what was here before
                gap.insert(0, runs.pop())
            while todo and not todo[-1].is_there:
                gap.append(todo.pop())
            # what was removed here stays beside what its author wrote instead, right below
            is_above = start == stop and any(run.by[0] > BASE for run in todo[-1:])
            runs += _replaced(gap, new, by, is_above)
            line = stop
        self._runs = _merged(runs + todo[::-1])

    def net(self, ours: Callable[[int], bool]) -> tuple[list[bytes], list[NetHunk]]:
        """The lines without what our authors did, and what they did to these, in order."""
        base: list[bytes] = []
        found: list[NetHunk] = []
        now_line = 0
        near: dict[int, list[NetHunk]] = {}  # by author, those that no older line parts
        took: set[int] = set()
        for start, stop in self._stretches(ours):
            # Without ours nothing is here but what others removed: so in most of a long text.
            if any(ours(one) for run in self._runs[start:stop] for one in run.by):
                hunk = NetHunk(len(base), now_line, runs=(start, stop))
                _fill(hunk, self._runs[start:stop], ours, took)
                for author in hunk.authors:
                    near.setdefault(author, []).append(hunk)
                now_line += len(hunk.new)
                base += hunk.old
                if hunk.old != hunk.new:
                    head, tail = common_ends(hunk.old, hunk.new)
                    hunk.old_line, hunk.new_line = hunk.old_line + head, hunk.new_line + head
                    hunk.old = hunk.old[head : len(hunk.old) - tail]
                    hunk.new = hunk.new[head : len(hunk.new) - tail]
                    found.append(hunk)
            for run in self._runs[stop : stop + 1]:  # the one that is context
                for author in [one for one in near if run.was_there(one)]:
                    _share(near.pop(author), author in took)
                    took.discard(author)
                base += run.lines
                now_line += len(run.lines)
        for author, parts in near.items():
            _share(parts, author in took)
        return base, found

    def _stretches(self, ours: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """Yield the runs [start, stop) between those that are there and not ours; perhaps none."""
        start = 0
        for index, run in enumerate(self._runs):
            if run.is_there and not any(map(ours, run.by)):
                yield start, index
                start = index + 1
        yield start, len(self._runs)

    @property
    def lines(self) -> list[bytes]:
        """The lines that are there."""
        return [line for run in self._runs if run.is_there for line in run.lines]

    def counts(self) -> dict[int, int]:
        """How many of the lines that are there each author added; 0 if they only removed lines."""
        counts: dict[int, int] = {}
        for run in self._runs:
            author, count = (run.by[0], len(run.lines)) if run.is_there else (run.by[-1], 0)
            counts[author] = counts.get(author, 0) + count
        return counts

    def without(self, hunks: Iterable[NetHunk], ours: Callable[[int], bool]) -> Authored:
        """The lines as if our authors had not made these hunks of them as they are."""

        return self._mapped(hunks, lambda run: run.without(ours))

    def settled(self, hunks: Iterable[NetHunk], ours: Callable[[int], bool]) -> Authored:
        """The lines as if what our authors did in these hunks had been there at first.

        What other authors removed there stays theirs.
        """

        def left(run: _Run) -> tuple[int, ...]:
            last = max((at for at, one in enumerate(run.by) if ours(one)), default=-1)
            return (BASE,) * (last % 2 == 0) + run.by[last + 1 :]

        return self._mapped(hunks, left)

    def _mapped(
        self, hunks: Iterable[NetHunk], left: Callable[[_Run], tuple[int, ...]]
    ) -> Authored:
        """The lines where what is `left` in these hunks is all that was done to a run."""
        mapped = Authored([])
        mapped._last = self._last
        mapped._runs = [*self._runs]
        for start, stop in sorted((hunk.runs for hunk in hunks), reverse=True):
            runs = mapped._runs[start:stop]
            mapped._runs[start:stop] = [_Run(run.lines, by) for run in runs if (by := left(run))]
        return mapped

    def settled_by(self, text: Sequence[bytes], ours: Callable[[int], bool]) -> Authored:
        """The lines as if what our authors did, and this text has too, had been there at first.

        That are the hunks whose new lines, with one line around, are together in the text; all if
        it is the text. What was only removed may have been in no text that anybody else has.
        """
        now, (_, hunks) = self.lines, self.net(ours)
        alike = align(*([line.rstrip(b"\r\n") for line in side] for side in (text, now)))

        def has(hunk: NetHunk) -> bool:
            low = max(hunk.new_line - 1, 0)
            high = min(hunk.new_line + len(hunk.new) + 1, len(now))
            if (at := alike.base_of(low, high - low) if hunk.new else None) is None:
                return False
            return (low > 0 or at == 0) and (high < len(now) or at + high - low == len(text))

        is_same = alike.base_length == alike.now_length == alike.matched
        return self.settled(hunks if is_same else filter(has, hunks), ours)


def _fill(hunk: NetHunk, runs: Iterable[_Run], ours: Callable[[int], bool], took: set[int]) -> None:
    """Put in a hunk what some runs make of it; add to `took` who of ours removed others' lines."""
    since, lost, is_new = 0, False, False  # of the part behind the last line that stands
    olds: set[tuple[int, ...]] = set()  # by whom the old lines were written
    over: set[int] = set()  # who wrote over lines of ours that are there again
    for run in runs:
        turns = [run.by[at] for at in run.turns(ours)]
        was_there = len(run.without(ours)) % 2
        is_new = is_new or (run.is_there and not was_there)
        if run.is_there and was_there:
            if lost and not is_new:  # others decided what is here now
                del hunk.old[since:]
            since, lost, is_new = len(hunk.old) + len(run.lines), False, False
        if was_there:
            hunk.old += run.lines
            olds.add(run.by)
        if run.is_there:
            hunk.new += run.lines
            over.update(one for one in turns[1:] if not ours(one))
        elif was_there:
            took.add(turns[-1])
        elif turns and not ours(turns[-1]):
            hunk.touched_by.add(turns[-1])
            lost = True
        if not was_there and turns and not ours(turns[0]):  # others put it back
            hunk.touched_by.add(turns[0])
        hunk.authors |= {one for one in run.by if ours(one)}
    if len(olds) > 1:  # one may have come in place of the other
        hunk.touched_by |= over.intersection(chain.from_iterable(olds))
    if lost and not is_new:
        del hunk.old[since:]


def _share(parts: Sequence[NetHunk], took: bool) -> None:
    """If an author of these parts `took` out lines of others, all of them are touched where one is.

    Which of the parts the others then wrote over, nobody can tell.
    """
    touched = set[int]().union(*(hunk.touched_by for hunk in parts)) if took else set[int]()
    for hunk in parts:
        hunk.touched_by |= touched


def _taken(todo: list[_Run], lines: int) -> list[_Run]:
    """Take so many lines that are there off the end of the runs, which are in reverse order.

    The last of them may be a part of a run. Removed runs above a line come with it.
    """
    taken: list[_Run] = []
    while lines:
        run = todo.pop()
        if run.is_there:
            if len(run.lines) > lines:
                todo.append(run._replace(lines=run.lines[lines:]))
                run = run._replace(lines=run.lines[:lines])
            lines -= len(run.lines)
        taken.append(run)
    return taken


def _replaced(gap: Sequence[_Run], new: Sequence[bytes], by: int, is_above: bool) -> list[_Run]:
    """The runs of a gap, those that are there removed, with the new lines among them.

    New lines that were removed here are these again; the others come as early as they can if they
    are `is_above`, else as late.
    """
    gone = [line for run in gap if not run.is_there for line in run.lines]
    back = {
        matched.base_start + offset: matched.now_start + offset
        for matched in align(gone, new).runs
        for offset in range(matched.length)
    }
    runs: list[_Run] = []
    line = taken = after_back = 0
    for run in gap:
        if run.is_there:
            if max(*run.by, by) > BASE:
                runs.append(run._replace(by=(*run.by, by)))
            continue
        for text in run.lines:
            at = back.get(line)
            line += 1
            if at is None:
                runs.append(run._replace(lines=[text]))
                continue
            runs += _Run(new[taken:at], (by,)), _Run([text], (*run.by, by))
            taken, after_back = at + 1, len(runs)
    runs.insert(after_back if is_above else len(runs), _Run(new[taken:], (by,)))
    return runs


def _merged(runs: Iterable[_Run]) -> list[_Run]:
    """The runs, with neighbours of the same authors as one."""
    merged: list[_Run] = []
    for _, same in groupby((run for run in runs if run.lines), lambda run: run.by):
        first, *others = same
        lines = chain(first.lines, *(run.lines for run in others))
        merged.append(_Run([*lines], first.by) if others else first)
    return merged
