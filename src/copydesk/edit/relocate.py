"""A place of one text, found again in a later one; or a refusal that says why not.

What lives here: the words of `copydesk.text.carry` and `copydesk.text.follow`
made refusals of edits. What must not: the rules themselves. Invariant: what is
found again is the very lines that the edit relied on; a look-alike never is.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from copydesk.edit.place import Place, end_of, of_parts
from copydesk.errors import AmbiguousMatch, ContentChanged, StaleRead
from copydesk.text.align import align
from copydesk.text.carry import Ambiguous, Carried, Keys, Reason, Relocation
from copydesk.text.change import ChangeSet
from copydesk.text.follow import Followed, follow
from copydesk.text.snapshot import Snapshot

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
    drift = _Drift(base, now, known)
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
            raise ContentChanged("parted", f"{place.start + 1}~{place.stop}")
    return moved


class _Drift:
    """What lies between two texts, for any number of footprints."""

    def __init__(
        self, base: Snapshot, now: Snapshot, known: tuple[ChangeSet, ...] | None
    ) -> None:
        self._base, self._now, self._known = base, now, known

    def shift(self, foot: tuple[int, int]) -> int:
        """By how many lines a footprint has moved."""
        at = None if self._known is None else self._followed(foot, self._known)
        if at is not None:
            return at - foot[0]
        found = self._relocation.carry(*foot)
        if isinstance(found, Carried):
            return found.at - foot[0]
        if isinstance(found, Ambiguous):
            lines = tuple(line + 1 for line in found.candidates)
            raise AmbiguousMatch(self._planned(foot), lines)
        raise self._changed(foot, found.reason)

    @cached_property
    def _relocation(self) -> Relocation:
        return Relocation(Keys.of(self._base.keys), Keys.of(self._now.keys))

    def _followed(self, foot: tuple[int, int], known: tuple[ChangeSet, ...]) -> int | None:
        """The footprint's first line after the known changes; raises ContentChanged.

        None when it stood in something larger that was replaced as a whole (the
        file, a range around it), which does not say what became of each line.
        """
        base, now = self._base, self._now
        low, high = max(foot[0], 0), min(foot[1], base.line_count)
        start = base.start(low) if foot[0] >= 0 else -1
        if foot[1] > base.line_count:
            stop = len(base.data) + 1
        else:  # what follows the last line's text, its terminator too, may change
            stop = base.start(high)
            stop -= len(base.terminator(high - 1)) if base.key(high - 1) else 0
        found = follow(start, stop, known)
        if not isinstance(found, Followed):
            if found.old > base.start(high) - base.start(low) and found.new:
                return None
            inserted = not found.old and foot[1] - foot[0] > 1
            raise self._changed(foot, "parted" if inserted else "gone")
        if foot[0] < 0:
            return -1 if now.line_count == high else self._torn(foot)
        at = now.line_at(found.start)
        count = high - low
        if at + count > now.line_count or now.start(at) != found.start:
            return self._torn(foot)
        same = all(base.key(low + k) == now.key(at + k) for k in range(count))
        return at if same else self._torn(foot)

    def _torn(self, foot: tuple[int, int]) -> int:
        """The bytes are there, but the lines are longer now."""
        raise self._changed(foot, "gone")

    def _changed(self, foot: tuple[int, int], reason: Reason) -> ContentChanged:
        old = self._base.texts(max(foot[0], 0), min(foot[1], self._base.line_count))
        expected = "".join(f"{line}\n" for line in old)
        return ContentChanged(reason, self._planned(foot), expected_old=expected)

    def _planned(self, foot: tuple[int, int]) -> str:
        return f"{max(foot[0] + 1, 1)}~{min(foot[1], self._base.line_count)}"


def stale(version: str, base: Snapshot | None, now: Snapshot, reason: str) -> StaleRead:
    """The refusal of an edit made on a version that cannot be carried to `now`."""
    changed = _changed(base, now) if base else ()
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
