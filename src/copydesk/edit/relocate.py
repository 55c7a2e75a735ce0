"""A place of one text, found again in a later one; or a refusal that says why not.

What lives here: the words of `copydesk.text.carry` made refusals of edits. What
must not: the rule itself. Invariant: what is found again is the very lines that
the edit relied on; a look-alike never is.
"""

from __future__ import annotations

from copydesk.edit.place import Place, end_of
from copydesk.errors import AmbiguousMatch, ContentChanged, StaleRead
from copydesk.text.align import align
from copydesk.text.carry import Ambiguous, Carried, carry
from copydesk.text.snapshot import Snapshot

SHOWN_CHANGES = 5


def relocate(place: Place, base: Snapshot, now: Snapshot) -> Place:
    """Where the place of `base` is in `now`; raises ContentChanged or AmbiguousMatch."""
    if place.foot is None:
        return end_of(now)
    if base.digest == now.digest:
        return place
    found = carry(base.keys, now.keys, *place.foot)
    if isinstance(found, Carried):
        return place.moved(found.at - place.foot[0])
    planned = f"{max(place.foot[0] + 1, 1)}~{min(place.foot[1], base.line_count)}"
    if isinstance(found, Ambiguous):
        raise AmbiguousMatch(planned, tuple(line + 1 for line in found.candidates))
    old = base.texts(max(place.foot[0], 0), min(place.foot[1], base.line_count))
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
