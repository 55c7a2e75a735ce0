"""A place of one text, found again in a later one; or a refusal that says why not.

What lives here: the words of `copydesk.text.carry` made refusals of edits. What
must not: the rule itself. Invariant: what is found again is the very lines that
the edit relied on; a look-alike never is.
"""

from __future__ import annotations

from itertools import pairwise

from copydesk.edit.place import Place, end_of, of_parts
from copydesk.errors import AmbiguousMatch, ContentChanged, StaleRead
from copydesk.text.align import align
from copydesk.text.carry import Ambiguous, Carried, Keys, Relocation
from copydesk.text.snapshot import Snapshot

SHOWN_CHANGES = 5


def relocate(place: Place, base: Snapshot, now: Snapshot) -> Place:
    """Where the place of `base` is in `now`; raises ContentChanged or AmbiguousMatch."""
    if place.foot is None:
        return end_of(now)
    if base.digest == now.digest:
        return place
    relocation = Relocation(Keys.of(base.keys), Keys.of(now.keys))
    if not place.parts:
        return place.moved(_shift(relocation, place.foot, base))
    shifts = [_shift(relocation, part, base) for part in place.parts]
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


def _shift(relocation: Relocation, foot: tuple[int, int], base: Snapshot) -> int:
    """By how many lines a footprint has moved."""
    found = relocation.carry(*foot)
    if isinstance(found, Carried):
        return found.at - foot[0]
    planned = f"{max(foot[0] + 1, 1)}~{min(foot[1], base.line_count)}"
    if isinstance(found, Ambiguous):
        raise AmbiguousMatch(planned, tuple(line + 1 for line in found.candidates))
    old = base.texts(max(foot[0], 0), min(foot[1], base.line_count))
    raise ContentChanged(found.reason, planned, expected_old="".join(f"{line}\n" for line in old))


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
