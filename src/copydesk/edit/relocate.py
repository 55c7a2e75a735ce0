"""Carry a plan's place, or the inverse of an edit, to a text that has changed since.

Invariant: the lines that the edit relies on, or that it left, are found again unchanged, or the
edit is refused; a look-alike is never taken for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, pairwise

from copydesk.edit.draft import Plan, compose, shown_blocks, span_of, standing
from copydesk.edit.kinds.base import Place, Request, end_of, of_parts
from copydesk.errors import AmbiguousMatch, ContentChanged, LineShown, Refusal, StaleRead
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit, Met, follow, smallest_span
from copydesk.text.diff import align
from copydesk.text.encoding import Encoding
from copydesk.text.relocation import (
    OF_SOME,
    WORD,
    Ambiguous,
    Carried,
    LineKeys,
    Reason,
    Relocation,
    conflicts,
    overlap,
)
from copydesk.text.snapshot import Snapshot, Source, Text, computed_once, terminator_of
from copydesk.text.unified import Region, touched

SHOWN_CHANGES = 5

_NEAR = 200
"""How many lines others may have inserted at a place for equal ones to be looked for in them."""


def relocate(
    place: Place,
    base: Snapshot,
    now: Snapshot,
    known: tuple[ChangeSet, ...] | None = None,
    own: tuple[ChangeSet, ...] = (),
) -> Place:
    """Return where the place of `base` is in `now`; raises ContentChanged or AmbiguousMatch.

    `known`: the inverses of all changes between, in order; None: lines are compared. `own`: those
    of the last ones, which are known; then lines are compared with the text before these first.
    """
    if place.foot is None:
        return end_of(now)
    if base.digest == now.digest:
        return place
    if known is None and own:
        left = before_all(own, now)
        there = None
        with suppress(ContentChanged, AmbiguousMatch):  # the later edits may tell
            there = relocate(place, base, left)
        if there is not None:
            try:
                return relocate(there, left, now, own)
            except (ContentChanged, AmbiguousMatch) as refusal:
                refusal.planned_lines = place.named
                raise
    drift = Drift(base, now, known)
    if not place.parts:
        return place.moved(drift.shift(place.foot))
    parts = tuple(_moved(part, drift) for part in place.parts)
    for (old, new), (next_old, next_new) in pairwise(sorted(zip(place.parts, parts, strict=True))):
        if old[1] <= next_old[0] and new[1] > next_new[0]:
            raise ContentChanged("parted", place.named)
    return replace(of_parts(parts), candidates=place.candidates)


def before_all(inverses: Sequence[ChangeSet], now: Snapshot) -> Snapshot:
    """The text before the changes that have these inverses."""
    return Snapshot(reduce(ChangeSet.then, reversed(inverses)).apply(now.data), now.encoding)


def _moved(part: tuple[int, int], drift: Drift) -> tuple[int, int]:
    """Return where some lines are now; an empty range moves to the end of the text."""
    if part[0] == part[1]:
        return drift.now.line_count, drift.now.line_count
    by = drift.shift(part)
    return part[0] + by, part[1] + by


def carried_to(
    request: Request,
    planned: Place,
    base: Snapshot,
    now: Snapshot,
    known: tuple[ChangeSet, ...] | None,
    own: tuple[ChangeSet, ...] = (),
    *,
    is_quoted: bool = False,
) -> tuple[Request, Place]:
    """Return the request and its place in `now`; raises ContentChanged or AmbiguousMatch.

    `known` and `own` are as in `relocate`. If lines that the request only repeats were changed, it
    is made without them, unless the old lines `is_quoted`.
    """
    try:
        place = relocate(planned, base, now, known, own)
        check_not_there(request, (base, planned), (now, place))
    except ContentChanged as refusal:
        if is_quoted or refusal.reason not in OF_SOME:
            raise
        trimmed = _trimmed(request, planned, base, now, known, own)
        if trimmed is None:
            raise
        return trimmed
    return request, place


def _trimmed(
    request: Request,
    planned: Place,
    base: Snapshot,
    now: Snapshot,
    known: tuple[ChangeSet, ...] | None,
    own: tuple[ChangeSet, ...],
) -> tuple[Request, Place] | None:
    """The request without the lines that it repeats, and its place, if that is certain."""
    trimmed = request.trimmed(base, planned)
    if trimmed is not None:
        with suppress(ContentChanged, AmbiguousMatch):
            return carried_to(*trimmed, base, now, known, own)
    return None


def place_of(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None] = lambda: None,
    known: tuple[ChangeSet, ...] | None = None,
    own: tuple[ChangeSet, ...] = (),
) -> tuple[Request, Place]:
    """The plan's request and place in `now`, as from `carried_to`; `find` loads its base.

    For a large text `known` is tried before the base. Raises ContentChanged, AmbiguousMatch.
    """
    if plan.place.foot is None:
        return plan.request, plan.request.locate(now) if plan.request.is_operation else end_of(now)
    if plan.base_digest == now.digest:
        return plan.request, plan.place
    try:
        return _found_place(plan, now, find, known, own)
    except ContentChanged as refusal:
        if refusal.current is None:
            with suppress(Refusal):  # part of it may be unreadable
                refusal.current = standing(now, plan.place.start, plan.place.stop)
        refusal.version = now.version
        raise


def _found_place(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None],
    known: tuple[ChangeSet, ...] | None,
    own: tuple[ChangeSet, ...],
) -> tuple[Request, Place]:
    request, followed = plan.request, None
    try:
        followed = _mapped_place(plan, now, known) if now.size > sizes.LARGE else None
        base = None if followed else find()
    except ContentChanged as refusal:
        base = find() if refusal.reason in OF_SOME and comparable(now) else None
        trimmed = base and _trimmed(request, plan.place, base, now.whole(), known, own)
        if not trimmed:
            raise
        request, followed = trimmed
    if base is None and followed is None:
        followed = _mapped_place(plan, now, known)
    if followed is not None:
        _check_not_put(plan, request, now, followed, known or ())
        return request, followed
    lines = plan.place.named
    if not comparable(now):
        raise ContentChanged("the file changed, and is too large to be compared", lines)
    if base is None:
        reason = "the file changed, and the text that was planned on is no longer remembered"
        raise ContentChanged(reason, lines)
    request, place = carried_to(request, plan.place, base, now.whole(), known, own)
    if known or own:  # they tell even lines apart that stood there before
        _check_not_put(plan, request, now, place, known or own)
    return request, place


def check_not_there(
    request: Request, planned: tuple[Text, Place], found: tuple[Text, Place]
) -> None:
    """Raise ContentChanged if somebody made the edit meanwhile, next to what it relies on."""
    (base, _), (now, _) = planned, found
    for (one, place), (_, there) in zip(
        request.each(planned[1]), request.each(found[1]), strict=True
    ):
        was, will = compose(one, base, place), compose(one, now, there)
        for old, new in zip(was.regions, will.regions, strict=False):
            if _standing(old, was.base) is not None:
                continue
            gap = _gap(old, was.base, new, will.base)
            if _standing(new, will.base, gap) is not None:
                raise ContentChanged("what it writes stands there already", place.named)


def _check_not_put(
    plan: Plan, request: Request, now: Source, place: Place, known: Sequence[ChangeSet]
) -> None:
    """Do `check_not_there` by the known changes since the plan, which need no base."""
    text = request.load(now, place)
    drafts = [compose(one, text, at) for one, at in request.each(place)]
    regions = [each for will in drafts for each in will.regions]
    if not isinstance(text, Snapshot):  # the new lines may extend beyond the loaded ones
        most = max((len(each.new) for each in regions), default=0)
        first, stop = max(place.start - most, 0), min(place.stop + most, now.line_count)
        text = now.around(first, stop)
    there = [
        (at, at + len(each.new)) for each in regions if (at := _standing(each, text)) is not None
    ]
    back = reduce(ChangeSet.then, reversed(known)).edits if there else ()
    for first, last in there:
        start, stop = text.start(first), text.start(last)
        if any(
            edit.start < stop and start < edit.stop and not _ends_text(edit, text, last - 1)
            for edit in back
        ):
            raise ContentChanged("what it writes stands there already", plan.place.named)


def _gap(old: Region, base: Text, new: Region, now: Text) -> range:
    """The lines that others inserted where an insertion goes: up to the next line of the base.

    Empty if that is not found nearby, or if the new lines have no words: a brace among inserted
    lines is another brace.
    """
    here = new.start
    if old.start < old.stop or here < new.stop or not any(map(WORD.search, new.new)):
        return range(0)
    keys, known = now.unmarked(), base.unmarked()
    last, first = min(here + _NEAR, keys.line_count), max(here - _NEAR, 0)
    stop = keys.line_count if keys.line_count <= here + _NEAR else None
    if old.start < known.line_count:
        below = known.key(old.start)
        stop = next((at for at in range(here, last) if keys.key(at) == below), None)
    start = 0 if here <= _NEAR else None
    if old.start > 0:
        above = known.key(old.start - 1)
        before = range(here - 1, first - 1, -1)
        start = next((at + 1 for at in before if keys.key(at) == above), None)
    return range(0) if start is None or stop is None else range(start, stop)


def _ends_text(edit: Edit, text: Text, line: int) -> bool:
    """Whether an inverse edit deletes all that follows a line, including its line break."""
    raw = text.slice(text.start(line), text.start(line + 1))
    lf, cr = text.encoding.encode("\n"), text.encoding.encode("\r")
    end = text.start(line) + len(raw.removesuffix(lf).removesuffix(cr))
    return not edit.new and (edit.start, edit.stop) == (end, text.size)


def _standing(region: Region, text: Text, gap: range = range(0)) -> int | None:
    """The line where the new lines already are, at the region or in the gap.

    None also if they are no more than what the region replaces.
    """
    size = len(region.new)
    if size <= region.stop - region.start:
        return None
    old, lf, cr = text.unmarked(), text.encoding.encode("\n"), text.encoding.encode("\r")
    new = [line.removesuffix(lf).removesuffix(cr) for line in region.new]
    places: list[int] = [region.start, region.stop - size, *gap[: max(len(gap) - size + 1, 0)]]
    for first in places:
        lines = range(first, first + size)
        if 0 <= first <= old.line_count - size and [*map(old.key, lines)] == new:
            return first
    return None


def _mapped_place(plan: Plan, now: Source, known: tuple[ChangeSet, ...] | None) -> Place | None:
    """The plan's place after known changes, or None if they do not tell; raises ContentChanged."""
    foot, span, place = plan.place.foot, plan.span, plan.place
    if known is None or foot is None:
        return None
    if place.parts:
        text = now.whole()
        return relocate(place, before_all(known, text), text, known)
    if span is None:
        return None
    lines = f"{foot[0] + 1}~{foot[1]}"
    found = follow(*span, known)
    if isinstance(found, Met):
        reason = _reason(found, span[1] - span[0], foot)
        if reason is None:
            return None
        raise ContentChanged(reason, lines)
    start, stop = found.start, found.start + span[1] - span[0]
    around = now.holding([(start, stop)])
    at = around.line_at(start)
    last = at + foot[1] - foot[0]
    if last > around.line_count or span_of(around, at, last) != (start, stop):
        raise ContentChanged("gone", lines)  # the bytes are there, but in longer lines
    return place.moved(at - foot[0])


def _reason(met: Met, size: int, foot: tuple[int, int]) -> Reason | None:
    """Why a footprint of `size` bytes is lost; None if a larger range was replaced as a whole."""
    if met.old > size and met.new:
        return None
    return "parted" if not met.old and foot[1] - foot[0] > 1 else "gone"


def comparable(text: Text | Source) -> bool:
    """Whether a text is small enough to be compared line by line with another."""
    if text.size <= sizes.LARGE:
        return True
    return text.size <= sizes.COMPARED and text.line_count <= sizes.LINES


class Drift:
    """Maps any number of footprints from one text to a later one.

    `known` are the inverses of all changes from `base` to `now`, in order; if it is None, lines are
    compared, for which both texts must be whole. `taken_back` maps a change to the later one that
    undid it; then lines may have been apart meanwhile. If it is None, nothing may have come between
    them.
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
        """Return by how many lines a footprint moved; raises ContentChanged, AmbiguousMatch."""
        try:
            return self._shift(foot)
        except ContentChanged as refusal:
            refusal.current = self._standing(foot)
            raise

    def _standing(self, foot: tuple[int, int]) -> tuple[LineShown, ...] | None:
        """The lines between those that were before and after the footprint."""
        base, now = self.base, self.now
        low, high = max(foot[0], 0), min(foot[1], base.line_count)
        if not (isinstance(base, Snapshot) and isinstance(now, Snapshot)):
            return None
        if self._relocation is not None:
            low, high = self._relocation.room_of(low, max(high, low + 1))
        return standing(now, low, high)

    def _shift(self, foot: tuple[int, int]) -> int:
        self.met = None
        at = None if self.known is None else self._mapped(foot, self.known)
        if at is not None:
            if self._is_in_conflict(foot, at):
                raise self._changed(foot, "conflict_markers", at)
            return at - foot[0]
        relocation = self._relocation
        if relocation is None:
            raise self._changed(foot, "gone")
        found = relocation.carry(*foot)
        if isinstance(found, Carried):
            return found.at - foot[0]
        if isinstance(found, Ambiguous):
            lines = tuple(line + 1 for line in found.candidates)
            raise AmbiguousMatch(self._planned(foot), lines, self._blocks(foot, found.candidates))
        raise self._changed(foot, found.reason, found.at)

    def _is_in_conflict(self, foot: tuple[int, int], at: int) -> bool:
        """Whether the footprint is between conflict markers now, and was not before."""
        base, now = self.base, self.now
        if not (isinstance(base, Snapshot) and isinstance(now, Snapshot)):
            return False
        is_marked = now.encoding.encode("<<<<<<<") in now.data
        is_there = is_marked and overlap(conflicts(now.keys), at, at + foot[1] - foot[0])
        return is_there and not overlap(conflicts(base.keys), *foot)

    def _blocks(self, foot: tuple[int, int], starts: Sequence[int]) -> tuple[LineShown, ...]:
        """The first and last line of each of the first places that the footprint may be at."""
        size, now = min(foot[1], self.base.line_count) - max(foot[0], 0), self.now
        ends = [(at, min(at + size, now.line_count) - 1) for at in starts if at >= 0]
        return shown_blocks(now, [each for each in ends if each[0] <= each[1]])

    @computed_once
    def _relocation(self) -> Relocation | None:
        base, now = self.base, self.now
        if isinstance(base, Snapshot) and isinstance(now, Snapshot):
            if max(base.size, now.size) <= sizes.LARGE:
                return Relocation(LineKeys.of(base.keys), LineKeys.of(now.keys))
            if comparable(base) and comparable(now):
                return Relocation(LineKeys.by_digest(base), LineKeys.by_digest(now))
        return None  # too large, or only some lines are loaded

    def _mapped(self, foot: tuple[int, int], known: Sequence[ChangeSet]) -> int | None:
        """The footprint's first line now, or None if unknown; raises ContentChanged."""
        base, now = self.base, self.now
        low, high = max(foot[0], 0), min(foot[1], base.line_count)
        found = follow(*self._span(foot), known, self._taken_back)
        if isinstance(found, Met):
            self.met = found.step
            reason = _reason(found, base.start(high) - base.start(low), foot)
            if reason is None:
                return None
            raise self._changed(foot, reason)
        at = now.line_at(found.start) if foot[0] >= 0 else 0
        end = at + high - low
        whole = end <= now.line_count if foot[1] <= base.line_count else end == now.line_count
        if foot[0] >= 0:
            whole = whole and now.start(at) == found.start
        if not whole or any(base.key(low + k) != now.key(at + k) for k in range(high - low)):
            raise self._changed(foot, "gone")  # the bytes are there, but in longer lines
        return at if foot[0] >= 0 else -1

    def _span(self, foot: tuple[int, int]) -> tuple[int, int]:
        """The footprint's bytes, as from `span_of`, or one beyond the ends of the text."""
        base, (first, last) = self.base, foot
        start = base.start(first) if first >= 0 else -1
        if last > base.line_count:
            return start, base.size + 1
        return start, span_of(base, last - 1, last)[1] if last else 0

    def _changed(
        self, foot: tuple[int, int], reason: Reason, at: int | None = None
    ) -> ContentChanged:
        """The refusal; `at` is the line of now where the footprint is, changed."""
        old = self.base.texts(max(foot[0], 0), min(foot[1], self.base.line_count))
        expected = "".join(f"{line}\n" for line in old)
        found = None
        if at is not None:
            stop = min(at + foot[1] - foot[0], self.now.line_count)
            found = "".join(f"{line}\n" for line in self.now.texts(max(at, 0), stop))
        return ContentChanged(reason, self._planned(foot), expected_old=expected, found=found)

    def _planned(self, foot: tuple[int, int]) -> str:
        first = max(foot[0] + 1, 1)
        return f"{first}~{max(min(foot[1], self.base.line_count), first)}"


def stale(
    version: str,
    base: Snapshot | None,
    now: Source,
    reason: str,
    current: tuple[LineShown, ...] | None = None,
) -> StaleRead:
    """The refusal of an edit whose version cannot be carried to `now`; `current` shows lines."""
    small = base is not None and max(base.size, now.size) <= sizes.LARGE
    changed = _changed(base, now.whole()) if base and small else ()
    return StaleRead(version, now.version, now.line_count, reason, changed, current)


def _changed(base: Snapshot, now: Snapshot) -> tuple[str, ...]:
    """The first few changes, as `lines 3~5 -> lines 3~9`."""
    gaps = islice(align(base.keys, now.keys).gaps(), SHOWN_CHANGES)
    return tuple(f"{_named(*gap[:2])} -> {_named(*gap[2:])}" for gap in gaps)


def _named(start: int, stop: int) -> str:
    if start < stop:
        return f"line {stop}" if start + 1 == stop else f"lines {start + 1}~{stop}"
    return f"nothing after line {start}"


def drift_of(
    inverse: ChangeSet,
    after: Text,
    now: Text,
    known: Sequence[ChangeSet] | None,
    taken_back: Mapping[int, int],
) -> Drift:
    """The `Drift` from the text after an edit to now; a BOM that it changes belongs to line 1."""
    if any(edit.start < len(after.encoding.bom) for edit in inverse.edits):
        after, now = after.unmarked(), now.unmarked()
    return Drift(after, now, known, taken_back)


def needed(inverse: ChangeSet, known: Sequence[ChangeSet]) -> Iterator[tuple[int, int]]:
    """Yield the bytes now, of the edit and later changes, that determine the text after it."""
    for at, one in enumerate((inverse, *known)):
        for edit in one.edits:
            yield smallest_span(edit.start, edit.stop, known[at:])


def lines_of(inverse: ChangeSet, after: Text) -> tuple[int, int]:
    """The first run of lines that the inverse touches, 0-based, half-open."""
    start, stop, _ = touched(after, inverse)[0]
    return start, stop


def carried(inverse: ChangeSet, drift: Drift) -> ChangeSet:
    """Return the change that undoes the edit now; raises ContentChanged, AmbiguousMatch.

    Each run of lines that the inverse touches is carried as one, or, if that fails, only those of
    its lines that the edit changed. An empty run, where lines come back, is located between its two
    neighbours. Lines that come back take the line endings there now, if somebody changed these.

    Law: in the text after the edit this is the inverse itself.
    """
    base, now = drift.base, drift.now
    if base.encoding.encode("\n") != now.encoding.encode("\n"):
        raise ContentChanged(_OTHER_ENCODING)
    placed = [
        one
        for start, stop, edits in touched(base, inverse)
        for one in _placed(_run(base, start, stop, edits), drift)
    ]
    for (one, at), (other, then) in pairwise(placed):
        if at + one.size > then:
            raise ContentChanged("parted", f"{one.start + 1}~{other.stop}")
    change = ChangeSet.of(now.size, _edits(placed, drift))
    is_recoded = drift.known is None and base.encoding.name != now.encoding.name
    if is_recoded and not all(edit.new.isascii() for edit in change.edits):
        raise ContentChanged(_OTHER_ENCODING)
    return change


_OTHER_ENCODING = "the file has another encoding now"


@dataclass(frozen=True, slots=True)
class _Run:
    """Lines [start, stop) after the edit, the raw lines to restore, and the edits doing so."""

    start: int
    stop: int
    new: tuple[bytes, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def foot(self) -> tuple[int, int]:
        """The lines that it relies on."""
        return (self.start, self.stop) if self.size else (self.start - 1, self.start + 1)


_Placed = tuple[_Run, int]
"""A run, and its first line in the text now."""


def _run(base: Text, start: int, stop: int, edits: Sequence[Edit]) -> _Run:
    low, high = base.start(start), base.start(stop)
    inner = ChangeSet.of(high - low, (Edit(e.start - low, e.stop - low, e.new) for e in edits))
    new = Snapshot(inner.apply(base.slice(low, high)), replace(base.encoding, bom=b""))
    return _Run(start, stop, tuple(new.raw(i, i + 1) for i in range(new.line_count)), tuple(edits))


def _placed(run: _Run, drift: Drift) -> list[_Placed]:
    try:
        return [(run, run.start + drift.shift(run.foot))]
    except (ContentChanged, AmbiguousMatch):
        parts = list(_parts(run, drift.base))
        if [part.foot for part in parts] == [run.foot]:
            raise
    return [(part, part.start + drift.shift(part.foot)) for part in parts]


def _parts(run: _Run, base: Text) -> Iterator[_Run]:
    """Yield the parts of the run whose lines the edit changed."""
    was = [base.raw(i, i + 1) for i in range(run.start, run.stop)]
    new = Snapshot(b"".join(run.new), replace(base.encoding, bom=b""))
    keys = [base.key(i) for i in range(run.start, run.stop)]
    a = b = 0
    for i, j, length in [*align(keys, new.keys).runs, (len(was), len(run.new), 0)]:
        if a < i or b < j:
            yield _Run(run.start + a, run.start + i, run.new[b:j])
        a, b = i, j
        for k in range(length + 1):  # these lines keep their text, but perhaps not their ends
            if k == length or was[i + k] == run.new[j + k]:
                if a < i + k:
                    yield _Run(run.start + a, run.start + i + k, run.new[b : j + k])
                a, b = i + k + 1, j + k + 1
        a, b = i + length, j + length


def _edits(placed: Sequence[_Placed], drift: Drift) -> Iterator[Edit]:
    end, followed = drift.now.line_count, False
    for run, at in reversed(placed):
        followed = followed or at + run.size < end
        yield from _edits_of(run, at, drift, followed=followed)
        end, followed = at, followed or bool(run.new)


def _edits_of(run: _Run, at: int, drift: Drift, *, followed: bool) -> Iterator[Edit]:
    """Yield the edits of one run; `followed`: more text follows it in the result."""
    base, now = drift.base, drift.now
    stop = at + run.size
    ends = [(base.terminator(run.start + i), now.terminator(at + i)) for i in range(run.size)]
    around = ends or [*_ends_around(run, at, drift)]
    restyled = any(one and other and one != other for one, other in around)
    open_before = not run.size and 0 < at == now.line_count and not now.ends_with_newline
    encoding = now.encoding
    open_end = followed and bool(run.new) and not terminator_of(run.new[-1], encoding)
    same = all(one == other for one, other in ends) and not restyled
    if run.edits and same and not open_before and not open_end:
        by = now.start(at) - base.start(run.start)
        yield from (Edit(e.start + by, e.stop + by, e.new) for e in run.edits)
        return
    newline = now.newline_near(at, stop)
    lines = [_ended(line, newline, encoding) for line in run.new] if restyled else list(run.new)
    if open_end:
        lines[-1] += newline
    if open_before and lines:
        lines.insert(0, newline)
    yield Edit(now.start(at), now.start(stop), b"".join(lines))


def _ends_around(run: _Run, at: int, drift: Drift) -> Iterator[tuple[bytes, bytes]]:
    """Yield the line endings of the neighbours of an empty run, before and now."""
    if run.start:
        yield drift.base.terminator(run.start - 1), drift.now.terminator(at - 1)
    if run.stop < drift.base.line_count:
        yield drift.base.terminator(run.stop), drift.now.terminator(at)


def _ended(raw: bytes, newline: bytes, encoding: Encoding) -> bytes:
    """The raw line with another terminator, if it has one."""
    ending = terminator_of(raw, encoding)
    return raw[: len(raw) - len(ending)] + newline if ending else raw
