"""A place of one text, found again in a later one; or a refusal that says why not.

What lives here: the words of `copydesk.text.carry` and `copydesk.text.follow`
made refusals of edits. What must not: the rules themselves. Invariant: what is
found again is the very lines that the edit relied on; a look-alike never is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise

from copydesk.edit.draft import compose
from copydesk.edit.place import Place, end_of, of_parts, span_of, text_for
from copydesk.edit.plan import Plan
from copydesk.edit.request import Request
from copydesk.errors import AmbiguousMatch, ContentChanged, StaleRead
from copydesk.text import sizes
from copydesk.text.align import align
from copydesk.text.carry import Ambiguous, Carried, Keys, Reason, Relocation
from copydesk.text.change import ChangeSet
from copydesk.text.follow import Followed, follow, follow_through
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Source
from copydesk.text.unified import Region

SHOWN_CHANGES = 5


def relocate(
    place: Place, base: Snapshot, now: Snapshot, known: tuple[ChangeSet, ...] | None = None
) -> Place:
    """Where the place of `base` is in `now`; raises ContentChanged or AmbiguousMatch.

    `known` are the inverses of all changes that made `now` of `base`, the first
    change first; None when they are not known, and then lines are compared.
    """
    if place.foot is None:
        return end_of(now)
    if base.digest == now.digest:
        return place
    drift = Drift(base, now, known)
    if not place.parts:
        return place.moved(drift.shift(place.foot))
    shifts = [drift.shift(part) for part in place.parts]
    moved = of_parts(
        tuple((a + by, b + by) for (a, b), by in zip(place.parts, shifts, strict=True))
    )
    order = sorted(range(len(shifts)), key=lambda i: place.parts[i])
    for one, other in pairwise(order):
        if place.parts[one][1] <= place.parts[other][0] and (
            moved.parts[one][1] > moved.parts[other][0]
        ):
            raise ContentChanged("parted", place.named)
    return moved


def place_of(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None] = lambda: None,
    known: tuple[ChangeSet, ...] | None = None,
) -> Place:
    """The plan's place in `now`; `find` gives what it was planned on, if that is remembered.

    `known` is as in `relocate`; of a large text the bytes are followed through
    it, for which neither text need be at hand. Raises ContentChanged, AmbiguousMatch.
    """
    if plan.place.foot is None:
        return end_of(now)
    if plan.base_digest == now.digest:
        return plan.place
    followed = _followed(plan, now, known) if now.size > sizes.LARGE else None
    base = None if followed else find()
    if base is None and followed is None:
        followed = _followed(plan, now, known)
    if followed is not None:
        _check_not_put(plan, now, followed, known or ())
        return followed
    lines = plan.place.named
    if not comparable(now):
        raise ContentChanged("the file changed, and is too large to be compared", lines)
    if base is None:
        reason = "the file changed, and the text that was planned on is no longer remembered"
        raise ContentChanged(reason, lines)
    text = now.whole()
    place = relocate(plan.place, base, text, known)
    check_not_there(plan.request, (base, plan.place), (text, place))
    return place


def check_not_there(
    request: Request, planned: tuple[Text, Place], found: tuple[Text, Place]
) -> None:
    """Raise ContentChanged where somebody made the edit meanwhile, and it would be made twice.

    The lines that it puts stand there already, next to those that it relies on, and
    did not in the text that was planned on.
    """
    was, will = compose(request, *planned), compose(request, *found)
    for one, other in zip(was.regions, will.regions, strict=False):
        if _stands(other, will.base) and not _stands(one, was.base):
            raise ContentChanged("what it writes stands there already", planned[1].named)


def _check_not_put(plan: Plan, now: Source, place: Place, known: Sequence[ChangeSet]) -> None:
    """As `check_not_there`, where all changes since are known and the base is not at hand."""
    will = compose(plan.request, text_for(plan.request, now, place), place)
    there = [(region, _standing(region, will.base)) for region in will.regions]
    if not any(at is not None for _, at in there):
        return
    back = reduce(ChangeSet.then, reversed(known))
    for region, at in there:
        if at is not None:
            start, stop = will.base.start(at), will.base.start(at + len(region.new))
            if any(edit.start < stop and start < edit.stop for edit in back.edits):
                raise ContentChanged("what it writes stands there already", plan.place.named)


def _stands(region: Region, text: Text) -> bool:
    """Whether the new lines, more than they replace, stand at the region, and go beyond it."""
    return _standing(region, text) is not None


def _standing(region: Region, text: Text) -> int | None:
    """The line from which the new lines of the region stand there, and go beyond it."""
    size = len(region.new)
    if size <= region.stop - region.start:
        return None
    old, lf, cr = text.unmarked(), text.encoding.encode("\n"), text.encoding.encode("\r")
    new = [line.removesuffix(lf).removesuffix(cr) for line in region.new]
    return next(
        (
            first
            for first in (region.start, region.stop - size)
            if first >= 0
            and first + size <= old.line_count
            and [old.key(line) for line in range(first, first + size)] == new
        ),
        None,
    )


def _followed(plan: Plan, now: Source, known: tuple[ChangeSet, ...] | None) -> Place | None:
    """The plan's place after changes that are all known; raises ContentChanged.

    None when they are not, or do not tell what became of each line.
    """
    foot, span, place = plan.place.foot, plan.span, plan.place
    if known is None or foot is None:
        return None
    if place.parts:
        text = now.whole()
        back = reduce(ChangeSet.then, reversed(known))
        return relocate(place, Snapshot(back.apply(text.data), text.encoding), text, known)
    if span is None:
        return None
    found = follow(*span, known)
    if not isinstance(found, Followed):
        if found.old > span[1] - span[0] and found.new:
            return None
        inserted = not found.old and foot[1] - foot[0] > 1
        raise ContentChanged("parted" if inserted else "gone", _lines(*foot))
    start, stop = found.start, found.start + span[1] - span[0]
    around = now.holding([(start, stop)])
    at = around.line_at(start)
    last = at + foot[1] - foot[0]
    if last > around.line_count or span_of(around, at, last) != (start, stop):
        raise ContentChanged("gone", _lines(*foot))  # the bytes are there, but in longer lines
    return place.moved(at - foot[0])


def comparable(text: Text | Source) -> bool:
    """Whether the lines of a text, all of them at hand, may be compared with those of another."""
    if text.size <= sizes.LARGE:
        return True
    return text.size <= sizes.COMPARED and text.line_count <= sizes.LINES


def _lines(start: int, stop: int) -> str:
    return f"{start + 1}~{stop}"


class Drift:
    """What lies between two texts, for any number of footprints.

    `known` are the inverses of all changes that made `now` of `base`, the first
    change first; where it is None, lines are compared, for which both texts must
    be whole. `taken_back` says of a change which later one took it back, and then
    lines may have stood apart meanwhile; None: nothing may have come between them.
    """

    def __init__(
        self,
        base: Text,
        now: Text,
        known: Sequence[ChangeSet] | None,
        taken_back: Mapping[int, int] | None = None,
    ) -> None:
        self.base, self.now, self.known = base, now, known
        self._taken_back = taken_back
        self.met: int | None = None
        """Which of the known changes met the last footprint."""

    def shift(self, foot: tuple[int, int]) -> int:
        """By how many lines a footprint has moved; raises ContentChanged, AmbiguousMatch."""
        self.met = None
        at = None if self.known is None else self._followed(foot, self.known)
        if at is not None:
            return at - foot[0]
        relocation = self._relocation
        if relocation is None:
            raise self._changed(foot, "gone")
        found = relocation.carry(*foot)
        if isinstance(found, Carried):
            return found.at - foot[0]
        if isinstance(found, Ambiguous):
            lines = tuple(line + 1 for line in found.candidates)
            raise AmbiguousMatch(self._planned(foot), lines)
        raise self._changed(foot, found.reason, found.at)

    @cached_property
    def _relocation(self) -> Relocation | None:
        base, now = self.base, self.now
        if isinstance(base, Snapshot) and isinstance(now, Snapshot):
            if max(base.size, now.size) <= sizes.LARGE:
                return Relocation(Keys.of(base.keys), Keys.of(now.keys))
            if comparable(base) and comparable(now):
                return Relocation(Keys.by_digest(base), Keys.by_digest(now))
        return None  # too large, or only some lines are at hand

    def _followed(self, foot: tuple[int, int], known: Sequence[ChangeSet]) -> int | None:
        """The footprint's first line after the known changes; raises ContentChanged.

        None when it stood in something larger that was replaced as a whole (the
        file, a range around it), which does not say what became of each line.
        """
        base, now = self.base, self.now
        low, high = max(foot[0], 0), min(foot[1], base.line_count)
        span, taken_back = self._span(foot), self._taken_back
        if taken_back is None:
            found = follow(*span, known)
        else:
            found = follow_through(*span, known, taken_back)
        if not isinstance(found, Followed):
            self.met = found.step
            if found.old > base.start(high) - base.start(low) and found.new:
                return None
            inserted = not found.old and foot[1] - foot[0] > 1
            raise self._changed(foot, "parted" if inserted else "gone")
        at = now.line_at(found.start) if foot[0] >= 0 else 0
        end = at + high - low
        whole = end <= now.line_count if foot[1] <= base.line_count else end == now.line_count
        if foot[0] >= 0:
            whole = whole and now.start(at) == found.start
        if not whole or any(base.key(low + k) != now.key(at + k) for k in range(high - low)):
            raise self._changed(foot, "gone")  # the bytes are there, but in longer lines
        return at if foot[0] >= 0 else -1

    def _span(self, foot: tuple[int, int]) -> tuple[int, int]:
        """The footprint's bytes, as `span_of` gives them, and one beyond the ends of the text."""
        base, (first, last) = self.base, foot
        start = base.start(first) if first >= 0 else -1
        if last > base.line_count:
            return start, base.size + 1
        if last == 0:
            return start, 0
        return start, span_of(base, last - 1, last)[1]

    def _changed(
        self, foot: tuple[int, int], reason: Reason, at: int | None = None
    ) -> ContentChanged:
        """The refusal; `at` is the line of now where the footprint stands, changed."""
        old = self.base.texts(max(foot[0], 0), min(foot[1], self.base.line_count))
        expected = "".join(f"{line}\n" for line in old)
        found = None
        if at is not None:
            stop = min(at + foot[1] - foot[0], self.now.line_count)
            found = "".join(f"{line}\n" for line in self.now.texts(max(at, 0), stop))
        return ContentChanged(reason, self._planned(foot), expected_old=expected, found=found)

    def _planned(self, foot: tuple[int, int]) -> str:
        return f"{max(foot[0] + 1, 1)}~{min(foot[1], self.base.line_count)}"


def stale(version: str, base: Snapshot | None, now: Source, reason: str) -> StaleRead:
    """The refusal of an edit made on a version that cannot be carried to `now`."""
    small = base is not None and max(base.size, now.size) <= sizes.LARGE
    changed = _changed(base, now.whole()) if base and small else ()
    return StaleRead(version, now.version, now.line_count, reason, changed)


def _changed(base: Snapshot, now: Snapshot) -> tuple[str, ...]:
    """What changed, as `lines 3~5 are now lines 3~9`, the first few."""
    found: list[str] = []
    a = b = 0
    runs = [(r.base_start, r.now_start, r.length) for r in align(base.keys, now.keys).runs]
    for start, now_start, length in [*runs, (base.line_count, now.line_count, 0)]:
        if start > a or now_start > b:
            found.append(f"{_named(a, start)} -> {_named(b, now_start)}")
        a, b = start + length, now_start + length
    return tuple(found[:SHOWN_CHANGES])


def _named(start: int, stop: int) -> str:
    return f"lines {start + 1}~{stop}" if start < stop else f"nothing after line {start}"
