"""Map a span of an older text to a newer one through the changes made in between.

Invariant: the bytes of a span that was followed are the same bytes, or were put back by a change
that is known to have undone the one that replaced them; lines are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from copydesk.text.change import ChangeSet, Edit


@dataclass(frozen=True, slots=True)
class Followed:
    """The span starts at byte `start` of the newer text; its length is what it was."""

    start: int


@dataclass(frozen=True, slots=True)
class Met:
    """A change replaced `old` bytes by `new` ones, some of the span's or between them.

    `step` is which of the changes, from 0.
    """

    old: int
    new: int
    step: int = 0


_DEEPEST = 50
"""So many changes that were taken back are followed within one another."""


def follow(
    start: int,
    stop: int,
    inverses: Sequence[ChangeSet],
    taken_back: Mapping[int, int] | None = None,
) -> Followed | Met:
    """Follow the bytes [start, stop), at least one, through changes that are known.

    `inverses` are those of the changes, the first change first; each takes the
    text after its change back to the one before. -1 for `start`, and one more
    than there are bytes for `stop`, stand for the two ends of the text, so that
    an insertion there is one between the span's bytes.

    Laws: a span is followed exactly when no change replaces a byte of it or
    inserts strictly within it; then the newer text has there what the older had;
    two spans that share no byte keep their order.

    `taken_back` says of a change, by its index, which later one took it back, and
    then other bytes may have stood between the span's bytes meanwhile. Laws: a span
    is followed only when its bytes stand together in the newest text, what was put
    back by the taking back of what replaced it being the same bytes; where nothing
    was taken back, always then. What was put back counts only if nothing was
    changed in its place, or next to it where it was gone, until it came back.
    """
    return _Way(inverses, taken_back).follow(start, stop)


def smallest_span(start: int, stop: int, inverses: Sequence[ChangeSet]) -> tuple[int, int]:
    """The least span of the newest text that holds what became of the bytes [start, stop)."""
    for inverse in inverses:
        found = _around(start, stop, inverse)
        start, stop = found.new_start, found.new_stop
    return start, stop


class _Around(NamedTuple):
    """The least span of both texts that holds a span and all edits that meet it."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


def _around(start: int, stop: int, inverse: ChangeSet, *, touching: bool = False) -> _Around:
    """What stands around the older text's bytes [start, stop) in both texts.

    `touching`: an edit that only touches the span meets it too.
    """
    low, high = start, stop
    before = shift = 0
    is_whole = True
    for edit in inverse.edits:
        first = edit.start - shift
        last = first + len(edit.new)
        if first - touching >= stop:
            break
        if last + touching > start:
            low, high, is_whole = min(low, first), max(high, last), False
        shift += edit.stop - edit.start - len(edit.new)
        if is_whole:
            before = shift
    return _Around(low, high, low + before, high + shift)


class _Way:
    """Known changes, some of which were taken back by later ones."""

    def __init__(
        self, inverses: Sequence[ChangeSet], taken_back: Mapping[int, int] | None, depth: int = 0
    ) -> None:
        self._inverses, self._depth = inverses, depth
        self._taken_back, self._together = taken_back or {}, taken_back is None

    def follow(self, start: int, stop: int) -> Followed | Met:
        """Follow the bytes [start, stop) piece by piece; the pieces must end up together."""
        todo = [(start, stop, 0)]
        parted = Met(0, 1)
        first = at = -2
        while todo:
            low, high, step = todo.pop()
            while step < len(self._inverses):
                edit, old, old_stop, shift = _first_met(low, high, self._inverses[step])
                if edit is None:
                    low, high, step = low + shift, high + shift, step + 1
                    continue
                if self._together:
                    return Met(old_stop - old, edit.stop - edit.start, step)
                for cut in (old_stop, old):
                    if low < cut < high:
                        todo.append((cut, high, step))
                        high = cut
                if old == old_stop:
                    parted = Met(0, edit.stop - edit.start, step)
                elif old <= low:
                    by = self._by(step, edit, old)
                    if isinstance(by, Met):
                        return by
                    low, high, step = low + by, high + by, self._taken_back[step] + 1
            if at == -2:
                first = low
            elif low != at:
                return parted
            at = high
        return Followed(first)

    def _by(self, step: int, edit: Edit, old: int) -> int | Met:
        """By how many bytes those that the edit replaced are moved when they come back.

        `old` is where they stood. Met when they did not come back.
        """
        gone = Met(len(edit.new), edit.stop - edit.start, step)
        last = self._taken_back.get(step)
        if last is None or self._depth == _DEEPEST:
            return gone
        first = step + 1
        inner = {one - first: other - first for one, other in self._taken_back.items()}
        way = _Way(self._inverses[first:last], inner, self._depth + 1)
        margin = int(edit.start == edit.stop)  # what was deleted stood between two bytes
        ends = [(edit.start, edit.stop)]
        if margin:
            ends = [(edit.start - 1, edit.start), (edit.stop, edit.stop + 1)]
        found = [way.follow(*end) for end in ends]
        for one in found:
            if isinstance(one, Met):
                return replace(one, step=first + one.step)
        starts = [one.start for one in found if isinstance(one, Followed)]
        low, size = starts[0], edit.stop - edit.start + 2 * margin
        if starts[-1] != low + margin:
            return gone
        back = _around(low, low + size, self._inverses[last], touching=not margin)
        whole = (back.old_start, back.old_stop) == (low, low + size)
        if not whole or back.new_stop - back.new_start != len(edit.new) + 2 * margin:
            return gone
        return back.new_start + margin - old


def _first_met(start: int, stop: int, inverse: ChangeSet) -> tuple[Edit | None, int, int, int]:
    """The first edit that meets the older text's bytes [start, stop), and those it replaced.

    Last by how much the bytes before it are moved; all of them where there is no such edit.
    """
    shift = 0
    for edit in inverse.edits:
        first = edit.start - shift
        last = first + len(edit.new)
        if first >= stop:
            break
        if last > start:
            return edit, first, last, shift
        shift += edit.stop - edit.start - len(edit.new)
    return None, 0, 0, shift
