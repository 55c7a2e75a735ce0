"""The change set, which every edit becomes; and following a span of bytes through several of them.

Invariants: the edits are sorted, do not overlap, and have at least one byte that is kept between
neighbours: edits that touch are one. An edit may still replace bytes by the same ones. A span that
was followed has the same bytes, kept or restored by a change known to have undone the one that
replaced them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

AnyBytes = TypeVar("AnyBytes", bytes, memoryview)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes [start, stop) of the old text, 0-based, by `new`."""

    start: int
    stop: int
    new: bytes


@dataclass(frozen=True, slots=True)
class Collision:
    """Two edits of one text that cannot both be made; the caller decides which one loses."""

    mine: Edit
    theirs: Edit


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Replacements of byte spans in a text of `length` bytes. Make one with `of`.

    Laws, for every text `t` of the right length and all change sets `a`, `b` on it:
    `a.invert(t).apply(a.apply(t)) == t`;
    `a.invert(t).invert(a.apply(t)) == a`;
    if `a.rebase(b)` is no collision, neither is `b.rebase(a)`, and
    `a.rebase(b).apply(b.apply(t)) == b.rebase(a).apply(a.apply(t))`;
    a rebased set replaces the very bytes that it replaced before;
    for `c` on the text after `a`, `a.then(c).apply(t) == c.apply(a.apply(t))`.
    """

    length: int
    edits: tuple[Edit, ...]

    @staticmethod
    def of(length: int, edits: Iterable[Edit]) -> ChangeSet:
        """Return the change set that makes `edits`, in any order, to a text of `length` bytes.

        Edits that touch are merged; edits that do nothing (an empty span replaced by nothing) are
        dropped. Insertions at one place keep their order. Raises ValueError for a span outside the
        text or overlaps.
        """
        merged: list[Edit] = []
        for edit in sorted(edits, key=attrgetter("start", "stop")):
            if not 0 <= edit.start <= edit.stop <= length:
                raise ValueError(f"span {edit.start}..{edit.stop} outside of 0..{length}")
            if edit.start == edit.stop and not edit.new:
                continue
            if merged and edit.start <= merged[-1].stop:
                last = merged[-1]
                if edit.start < last.stop:
                    raise ValueError(f"edits overlap at byte {edit.start}")
                merged[-1] = Edit(last.start, edit.stop, last.new + edit.new)
            else:
                merged.append(edit)
        return ChangeSet(length, tuple(merged))

    def __bool__(self) -> bool:
        """Whether anything is replaced or inserted."""
        return bool(self.edits)

    @property
    def new_length(self) -> int:
        """The length in bytes of the text after the change."""
        return self.length + sum(len(e.new) - (e.stop - e.start) for e in self.edits)

    def pieces(self, text: AnyBytes) -> list[AnyBytes | bytes]:
        """The new text in order, as slices of `text` and inserted bytes."""
        if len(text) != self.length:
            raise ValueError(f"made for {self.length} bytes, not for {len(text)}")
        return spliced(text, self.edits)

    def within(self, start: int, stop: int) -> ChangeSet:
        """The change of bytes [start, stop) alone, by the edits that are wholly there."""
        moved = (
            Edit(edit.start - start, edit.stop - start, edit.new)
            for edit in self.edits
            if start <= edit.start and edit.stop <= stop
        )
        return ChangeSet(stop - start, tuple(moved))

    def apply(self, text: bytes) -> bytes:
        """Return the new text."""
        return b"".join(self.pieces(text))

    def invert(self, text: bytes) -> ChangeSet:
        """Return the change that turns the new text back into `text`."""
        if len(text) != self.length:
            raise ValueError(f"made for {self.length} bytes, not for {len(text)}")
        return self.inverse(lambda start, stop: text[start:stop])

    def inverse(self, old: Callable[[int, int], bytes]) -> ChangeSet:
        """Return the inverse; `old` returns bytes [start, stop) of the text before the change."""
        shift = 0
        back: list[Edit] = []
        for edit in self.edits:
            start = edit.start + shift
            stop = start + len(edit.new)
            back.append(Edit(start, stop, old(edit.start, edit.stop)))
            shift = stop - edit.stop
        # the kept bytes between edits stay
        return ChangeSet(self.length + shift, tuple(back))

    def rebase(self, over: ChangeSet) -> ChangeSet | Collision:
        """Return this change for the text that `over` makes, or the first two edits that collide.

        Spans that share a byte collide; so do an insertion strictly within a replaced span, and two
        insertions at one place (their order would be arbitrary). Spans that only touch do not.
        """
        if over.length != self.length:
            raise ValueError(f"made for {self.length} bytes, not for {over.length}")
        moved: list[Edit] = []
        shift = 0
        theirs = iter(over.edits)
        other = next(theirs, None)
        for edit in self.edits:
            while other is not None and _before(other, edit):
                shift += len(other.new) - (other.stop - other.start)
                other = next(theirs, None)
            if other is not None and not _before(edit, other):
                return Collision(edit, other)
            moved.append(Edit(edit.start + shift, edit.stop + shift, edit.new))
        return ChangeSet.of(over.new_length, moved)

    def then(self, later: ChangeSet) -> ChangeSet:
        """Combine this change, and `later` on the text after it, into one.

        New texts of this change and spans replaced by `later`, where they meet, are one span of the
        text between the two, [low, high): `ab[XY]cd` with `Yc` replaced by `Z` has the span `XYc`.
        It gets first the new texts of this change, then those of `later`, and is then `XZ`.
        """
        if later.length != self.new_length:
            raise ValueError(f"made for {later.length} bytes, not for {self.new_length}")
        mine = self.inverse(lambda start, stop: b"").edits  # where this one's new texts are
        made: list[Edit] = []
        i = j = shift = 0
        for low, high in _joined((each.start, each.stop) for each in (*mine, *later.edits)):
            start, grown = low - shift, 0
            # what stays zero is of the old text, so it is within a span that `later` replaces
            new = bytearray(high - low)
            while i < len(mine) and mine[i].stop <= high:
                new[mine[i].start - low : mine[i].stop - low] = self.edits[i].new
                shift = mine[i].stop - self.edits[i].stop
                i += 1
            while j < len(later.edits) and later.edits[j].stop <= high:
                edit = later.edits[j]
                new[edit.start - low + grown : edit.stop - low + grown] = edit.new
                grown += len(edit.new) - (edit.stop - edit.start)
                j += 1
            made.append(Edit(start, high - shift, bytes(new)))
        return ChangeSet.of(self.length, made)

    def __str__(self) -> str:
        """The one-line form: kept, replaced:inserted, kept, in bytes, as in `12 3:5 40`."""
        words: list[str] = []
        at = 0
        for edit in self.edits:
            if edit.start > at:
                words.append(str(edit.start - at))
            words.append(f"{edit.stop - edit.start}:{len(edit.new)}")
            at = edit.stop
        if self.length > at or not words:
            words.append(str(self.length - at))
        return " ".join(words)


def spliced(text: AnyBytes, edits: Iterable[Edit], begin: int = 0) -> list[AnyBytes | bytes]:
    """The text, which starts at byte `begin` of the old one, with the edits, in order."""
    parts: list[AnyBytes | bytes] = []
    at = begin
    for edit in edits:
        parts += (text[at - begin : edit.start - begin], edit.new)
        at = edit.stop
    parts.append(text[at - begin :])
    return parts


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order; those that meet or touch are one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def _before(one: Edit, other: Edit) -> bool:
    """Whether `one` is wholly before `other`, with no byte and no position in common."""
    if one.start == one.stop == other.start == other.stop:
        return False
    return one.stop <= other.start


@dataclass(frozen=True, slots=True)
class Followed:
    """The span starts at byte `start` of the newer text; its length is unchanged."""

    start: int


@dataclass(frozen=True, slots=True)
class Met:
    """Change `step` (0-based) replaced `old` bytes of the span by `new`, or inserted within it."""

    old: int
    new: int
    step: int = 0


_DEEPEST = 50
"""The most levels of undone changes, one within the other, that are followed."""


def follow(
    start: int,
    stop: int,
    inverses: Sequence[ChangeSet],
    taken_back: Mapping[int, int] | None = None,
) -> Followed | Met:
    """Follow the bytes [start, stop), at least one, through known changes.

    `inverses` are the inverses of the changes, first change first; each maps the text after its
    change to the one before. -1 as `start`, and one more than the number of bytes as `stop`, stand
    for the ends of the text, so that an insertion there is one between the span's bytes.

    Laws: a span is followed exactly when no change replaces a byte of it or inserts strictly within
    it; then the newer text has the same bytes there; two spans that share no byte keep their order.

    `taken_back` maps the index of a change to that of the later one that undid it; then other bytes
    may have been between the span's bytes meanwhile. Laws: a span is followed only if its bytes,
    restored ones included, are together in the newest text; if nothing was undone, it then always
    is. Restored bytes count only if nothing changed in their place, or on both sides of it while
    they were deleted.
    """
    return _Way(inverses, taken_back).follow(start, stop)


def smallest_span(start: int, stop: int, inverses: Sequence[ChangeSet]) -> tuple[int, int]:
    """The smallest span of the newest text that contains what became of bytes [start, stop)."""
    for inverse in inverses:
        found = _around(start, stop, inverse)
        start, stop = found.new_start, found.new_stop
    return start, stop


class _Around(NamedTuple):
    """The smallest span, in both texts, that contains a span and all edits that meet it."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


def _around(start: int, stop: int, inverse: ChangeSet, *, touching: bool = False) -> _Around:
    """What is around bytes [start, stop) in both texts; `touching`: adjacent edits count as met."""
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
    """Known changes, some of them undone by later ones.

    A span is followed change by change. Where an edit meets it, it is cut at the edit's borders:
    the bytes outside go on; those inside were replaced, and go on after the change that undid the
    edit, if it put them back whole. At last all pieces must be side by side, in order.
    """

    def __init__(
        self, inverses: Sequence[ChangeSet], taken_back: Mapping[int, int] | None, depth: int = 0
    ) -> None:
        self._inverses, self._depth = inverses, depth
        self._taken_back, self._together = taken_back or {}, taken_back is None

    def follow(self, start: int, stop: int) -> Followed | Met:
        """Follow the bytes [start, stop) piece by piece; the pieces must end up together."""
        todo = [(start, stop, 0)]  # a stack: the leftmost piece is on top
        parted = Met(0, 1)
        first = at = -2  # no byte, not even the start of the text at -1
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
        """By how many bytes what was at `old` has moved when it is restored; Met if it was not."""
        gone = Met(len(edit.new), edit.stop - edit.start, step)
        last = self._taken_back.get(step)
        if last is None or self._depth == _DEEPEST:
            return gone
        first = step + 1
        pairs = self._taken_back.items()
        inner = {one - first: other - first for one, other in pairs if other < last}
        way = _Way(self._inverses[first:last], inner, self._depth + 1)
        margin = int(edit.start == edit.stop)  # a deletion is a position between two bytes
        ends = [(edit.start, edit.stop)]
        if margin:
            ends = [(edit.start - 1, edit.start), (edit.stop, edit.stop + 1)]
        found = [way.follow(*end) for end in ends]
        places = {  # of a position one side is enough: the other may have gone meanwhile
            one.start + margin * (index == 0)
            for index, one in enumerate(found)
            if isinstance(one, Followed)
        }
        if not places and isinstance(found[0], Met):
            return replace(found[0], step=first + found[0].step)
        low = min(places)
        high = low + edit.stop - edit.start
        back = _around(low, high, self._inverses[last], touching=True)
        whole = len(places) == 1 and (back.old_start, back.old_stop) == (low, high)
        if not whole or back.new_stop - back.new_start != len(edit.new):
            return gone
        return back.new_start - old


def _first_met(start: int, stop: int, inverse: ChangeSet) -> tuple[Edit | None, int, int, int]:
    """The first edit that meets bytes [start, stop), the bytes it replaced, and the prior shift."""
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
