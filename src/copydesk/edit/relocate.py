"""Carry a plan's place, or the inverse of an edit, to a text that has changed since.

Invariant: the lines that the edit relies on, or that it left, are found again unchanged, or the
edit is refused; a look-alike is never taken for them. Who calls whom:

    place_of (a plan) -> carried_to (a request, without lines that it only repeats)
        -> relocate (a place) -> Drift.shift (a footprint)
    carried (an undo) -> Drift.shift, for each run of lines
    Drift.shift -> text/change.py, through known changes; else text/relocation.py, by its lines
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, count, islice, pairwise, takewhile

from copydesk.edit.draft import Plan, compose, shown_blocks, span_of, standing
from copydesk.edit.kinds.base import Place, Request, end_of, of_parts
from copydesk.errors import AmbiguousMatch, ContentChanged, LineShown, Refusal, StaleRead
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit, Met, follow, smallest_span
from copydesk.text.diff import Region, align, touched
from copydesk.text.encoding import Encoding
from copydesk.text.outline import WORD, conflicts
from copydesk.text.relocation import (
    OF_SOME,
    Ambiguous,
    Carried,
    LineKeys,
    Reason,
    Relocation,
    overlap,
)
from copydesk.text.snapshot import Snapshot, Source, Text, computed_once, keys_of, terminator_of

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

    `known`: the inverses of every change from `base` to `now`, oldest first; None if another
    program wrote in between: then lines are compared. `own` (only then): the inverses of our own
    changes after that write; lines are compared with the text before these, from which the place
    is mapped.
    """
    if place.foot is None:
        return end_of(now)
    if base.digest == now.digest:
        return place
    if known is None and own:
        left, there = before_all(own, now), None
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
    parts: list[tuple[int, int]] = []
    for start, stop in place.parts:  # an empty one is the end of the text
        by = drift.shift((start, stop)) if start < stop else now.line_count - start
        parts.append((start + by, stop + by))
    for (old, new), (next_old, next_new) in pairwise(sorted(zip(place.parts, parts, strict=True))):
        if old[1] <= next_old[0] and new[1] > next_new[0]:
            raise ContentChanged("parted", place.named)
    return replace(of_parts(tuple(parts)), candidates=place.candidates)


def before_all(inverses: Sequence[ChangeSet], now: Snapshot) -> Snapshot:
    """The text before the changes that have these inverses."""
    return Snapshot(reduce(ChangeSet.then, reversed(inverses)).apply(now.data), now.encoding)


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
    is made without them, unless its caller quoted the old lines (`is_quoted`).
    """
    try:
        place = relocate(planned, base, now, known, own)
        check_not_there(request, (base, planned), (now, place), known)
    except ContentChanged as refusal:
        if is_quoted or refusal.reason not in OF_SOME:
            raise
        if (trimmed := _trimmed(request, planned, base, now, known, own)) is None:
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
    if (trimmed := request.trimmed(base, planned)) is not None:
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
    request, place = plan.request, plan.place
    if place.foot is None:
        return request, request.locate(now) if request.is_operation else end_of(now)
    if plan.base_digest == now.digest:
        return request, place
    try:
        return _found_place(plan, now, find, known, own)
    except (ContentChanged, AmbiguousMatch) as refusal:
        if isinstance(refusal, ContentChanged) and refusal.current is None:
            with suppress(Refusal):  # part of it may be unreadable
                refusal.current = standing(now, place.start, place.stop)
        refusal.version = now.version
        raise


def _found_place(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None],
    known: tuple[ChangeSet, ...] | None,
    own: tuple[ChangeSet, ...],
) -> tuple[Request, Place]:
    request, lines = plan.request, plan.place.named
    base = find() if now.size <= sizes.LARGE else None
    try:
        followed = None if base else _mapped_place(plan, now, known)
    except ContentChanged as refusal:  # the lines that it only repeats may be those that changed
        base = find() if refusal.reason in OF_SOME and comparable(now) else None
        trimmed = base and _trimmed(request, plan.place, base, now.whole(), known, own)
        if not trimmed:
            raise
        request, followed = trimmed
    if followed is not None:
        _check_not_put(plan, request, now, followed, known or ())
        return request, followed
    if not comparable(now):
        raise ContentChanged("the file changed, and is too large to be compared", lines)
    base = base or find()
    if base is None:
        reason = "the file changed, and the text that was planned on is no longer remembered"
        raise ContentChanged(reason, lines)
    request, place = carried_to(request, plan.place, base, now.whole(), known, own)
    if known or own:  # they tell even lines apart that stood there before
        _check_not_put(plan, request, now, place, known or own)
    return request, place


def check_not_there(
    request: Request,
    planned: tuple[Text, Place],
    found: tuple[Text, Place],
    known: Sequence[ChangeSet] | None = None,
) -> None:
    """Raise ContentChanged if somebody made the edit meanwhile, next to what it relies on.

    If the changes since are `known`, it must be these that wrote it.
    """
    (base, before), (now, after) = planned, found
    for (one, place), (_, there) in zip(request.each(before), request.each(after), strict=True):
        was, will = compose(one, base, place), compose(one, now, there)
        for old, new in zip(was.regions, will.regions, strict=False):
            if _line_of_same(old, was.base) is None:
                gap = _gap(old, was.base, new, will.base)
                at = _line_of_same(new, will.base, gap)
                is_put = at is not None and (known is None or _is_put(known, new, will.base, at))
            else:  # it stood there before; once more now?
                is_put = known is None and _copies(new, will.base) > _copies(old, was.base)
            if is_put:
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
    for each in regions:
        if (at := _line_of_same(each, text)) is not None and _is_put(known, each, text, at):
            raise ContentChanged("what it writes stands there already", plan.place.named)


def _is_put(known: Sequence[ChangeSet], region: Region, text: Text, first: int) -> bool:
    """Whether known changes wrote the new lines, which are at line `first`.

    They wrote as many lines there as it adds: fewer only made lines that stood there equal.
    """
    start, stop = text.start(first), text.start(first + len(region.new))
    written = 0
    for edit in reduce(ChangeSet.then, reversed(known)).edits if known else ():
        is_there = edit.start < stop and start < edit.stop
        if is_there and not _ends_text(edit, text, first + len(region.new) - 1):
            written += text.line_at(edit.stop - 1) - text.line_at(edit.start) + 1
    return written >= len(region.new) - (region.stop - region.start)


def _gap(old: Region, base: Text, new: Region, now: Text) -> range:
    """The lines that others inserted where an insertion goes: up to the next line of the base.

    Empty if that is not found nearby, or if the new lines have no words: a brace among inserted
    lines is another brace.
    """
    here = new.start
    if old.start < old.stop or here < new.stop or not any(map(WORD.search, new.new)):
        return range(0)
    keys, known = now.unmarked(), base.unmarked()
    count, own = keys.line_count, keys_of(b"".join(new.new), now.encoding)

    def line_of(line: int, around: range) -> int | None:
        # As many equal ones may be of the insertion itself as it has; then comes that of the base.
        key = known.key(line)
        same = [*islice((at for at in around if keys.key(at) == key), own.count(key) + 1)]
        return same[-1] if same else None

    above, below = -1 if here <= _NEAR else None, count if count <= here + _NEAR else None
    if old.start > 0:
        above = line_of(old.start - 1, range(here - 1, max(here - _NEAR, 0) - 1, -1))
    if old.start < known.line_count:
        below = line_of(old.start, range(here, min(here + _NEAR, count)))
    return range(0) if above is None or below is None else range(above + 1, below)


def _ends_text(edit: Edit, text: Text, line: int) -> bool:
    """Whether an inverse edit deletes all that follows a line, including its line break."""
    end = text.start(line + 1) - len(text.terminator(line))
    return not edit.new and (edit.start, edit.stop) == (end, text.size)


def _line_of_same(region: Region, text: Text, gap: range = range(0)) -> int | None:
    """The line where the new lines already are, at the region or in the gap.

    None also if they are no more than what the region replaces.
    """
    size = len(region.new)
    if size <= region.stop - region.start:
        return None
    places = [region.start, region.stop - size, *gap[: max(len(gap) - size + 1, 0)]]
    return next(filter(_standing(region, text), places), None)


def _standing(region: Region, text: Text) -> Callable[[int], bool]:
    """A function that tells whether the new lines are at a line of the text."""
    lines, new = text.unmarked(), keys_of(b"".join(region.new), text.encoding)
    lines_at = range(lines.line_count - len(new) + 1)
    return lambda first: (
        first in lines_at and all(lines.key(at) == key for at, key in enumerate(new, first))
    )


def _copies(region: Region, text: Text) -> int:
    """How often the lines of an insertion stand at it, one after the other; 0 without words."""
    size, stands = len(region.new), _standing(region, text)
    if region.start < region.stop or not any(map(WORD.search, region.new)):
        return 0
    above = takewhile(stands, count(region.start - size, -size))
    return sum(1 for _ in chain(above, takewhile(stands, count(region.start, size))))


def _mapped_place(plan: Plan, now: Source, known: tuple[ChangeSet, ...] | None) -> Place | None:
    """The plan's place after known changes, or None if they do not tell; raises ContentChanged."""
    foot, span, place = plan.place.foot, plan.span, plan.place
    if known is not None and place.parts:
        text = now.whole()
        return relocate(place, before_all(known, text), text, known)
    if known is None or foot is None or span is None:
        return None
    lines, size = f"{foot[0] + 1}~{foot[1]}", span[1] - span[0]
    followed = follow(*span, known)
    if isinstance(followed, Met):
        reason = _reason_met(followed, size, foot)
        if reason is None:
            return None
        raise ContentChanged(reason, lines)
    start, stop = followed.start, followed.start + size
    around = now.holding([(start, stop)])
    at = around.line_at(start)
    last = at + foot[1] - foot[0]
    if last > around.line_count or span_of(around, at, last) != (start, stop):
        raise ContentChanged("gone", lines)  # the bytes are there, but in longer lines
    return place.moved(at - foot[0])


def _reason_met(met: Met, size: int, foot: tuple[int, int]) -> Reason | None:
    """Why a footprint of `size` bytes is lost.

    None if a larger range was replaced as a whole, perhaps by these lines among others: then lines
    are compared.
    """
    if met.old > size and met.new:
        return None
    return "parted" if not met.old and foot[1] - foot[0] > 1 else "gone"


def comparable(text: Source) -> bool:
    """Whether a text is small enough to be compared line by line with another."""
    return text.size <= sizes.LARGE or (
        text.size <= sizes.COMPARED and text.line_count <= sizes.LINES
    )


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
        self.met = None
        at = None if self.known is None else self._mapped(foot, self.known)
        if at is not None:
            if self._is_in_conflict(foot, at):
                raise self._changed(foot, "conflict_markers", at)
            return at - foot[0]
        if self._relocation is None:
            raise self._changed(foot, "gone")
        verdict = self._relocation.carry(*foot)
        if isinstance(verdict, Carried):
            return verdict.at - foot[0]
        if isinstance(verdict, Ambiguous):
            lines = tuple(line + 1 for line in verdict.candidates)
            raise AmbiguousMatch(self._planned(foot), lines, self._blocks(foot, verdict.candidates))
        raise self._changed(foot, verdict.reason, verdict.at)

    def _lines(self, foot: tuple[int, int]) -> tuple[int, int]:
        """The footprint without what it has beyond the ends of the text."""
        return max(foot[0], 0), min(foot[1], self.base.line_count)

    def _now_shown(self, foot: tuple[int, int]) -> tuple[LineShown, ...] | None:
        """The lines between those that were before and after the footprint."""
        low, high = self._lines(foot)
        if not (isinstance(self.base, Snapshot) and isinstance(self.now, Snapshot)):
            return None
        if self._relocation is not None:
            low, high = self._relocation.room_of(low, max(high, low + 1))
        return standing(self.now, low, high)

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
        low, high = self._lines(foot)
        count = self.now.line_count
        ends = [(at, min(at + high - low, count) - 1) for at in starts if at >= 0]
        return shown_blocks(self.now, [(first, last) for first, last in ends if first <= last])

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
        base, now, (low, high) = self.base, self.now, self._lines(foot)
        followed = follow(*self._span(foot), known, self._taken_back)
        if isinstance(followed, Met):
            self.met = followed.step
            reason = _reason_met(followed, base.start(high) - base.start(low), foot)
            if reason is None:
                return None
            raise self._changed(foot, reason)
        has_start, has_end = foot[0] < 0, foot[1] > base.line_count
        at = 0 if has_start else now.line_at(followed.start)
        end = at + high - low
        is_whole = end == now.line_count if has_end else end <= now.line_count
        is_whole = is_whole and (has_start or now.start(at) == followed.start)
        if not is_whole or any(base.key(low + k) != now.key(at + k) for k in range(high - low)):
            raise self._changed(foot, "gone")  # the bytes are there, but in longer lines
        return -1 if has_start else at

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
        expected = self.base.texts(*self._lines(foot))
        there: tuple[str, ...] | None = None
        if at is not None:
            stop = min(at + foot[1] - foot[0], self.now.line_count)
            there = self.now.texts(max(at, 0), stop)
        return ContentChanged(
            reason,
            self._planned(foot),
            expected_old="".join(f"{line}\n" for line in expected),
            found=None if there is None else "".join(f"{line}\n" for line in there),
            current=self._now_shown(foot),
        )

    def _planned(self, foot: tuple[int, int]) -> str:
        low, high = self._lines(foot)
        return f"{low + 1}~{max(high, low + 1)}"


def stale(
    version: str,
    base: Snapshot | None,
    now: Source,
    reason: str,
    current: tuple[LineShown, ...] | None = None,
) -> StaleRead:
    """The refusal of an edit whose version cannot be carried to `now`; `current` shows lines.

    It tells the first few changes since, as `lines 3~5 -> lines 3~9`.
    """
    changes: tuple[str, ...] = ()
    if base is not None and max(base.size, now.size) <= sizes.LARGE:
        gaps = islice(align(base.keys, now.whole().keys).gaps(), SHOWN_CHANGES)
        changes = tuple(f"{_lines_named(*gap[:2])} -> {_lines_named(*gap[2:])}" for gap in gaps)
    return StaleRead(version, now.version, now.line_count, reason, changes, current)


def _lines_named(start: int, stop: int) -> str:
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
    """Yield the parts of the run whose lines the edit changed.

    Lines that keep their text, but not their line ends, are parts of their own.
    """
    was = [base.raw(line, line + 1) for line in range(run.start, run.stop)]
    keys = [base.key(line) for line in range(run.start, run.stop)]
    new = Snapshot(b"".join(run.new), replace(base.encoding, bom=b""))
    cuts: list[tuple[int, int, int]] = []  # between parts: an old line, a new one, how many stay
    for old, now, length in align(keys, new.keys).runs:
        pairs = [(old + at, now + at) for at in range(length)]
        same = [(a, b, 1) for a, b in pairs if was[a] == run.new[b]]
        cuts += [(old, now, 0), *same, (old + length, now + length, 0)]
    at = new_at = 0
    for old, now, kept in [*cuts, (len(was), len(run.new), 0)]:
        if at < old or new_at < now:
            yield _Run(run.start + at, run.start + old, run.new[new_at:now])
        at, new_at = old + kept, now + kept


def _edits(placed: Sequence[_Placed], drift: Drift) -> Iterator[Edit]:
    end, followed = drift.now.line_count, False
    for run, at in reversed(placed):
        followed = followed or at + run.size < end
        yield from _edits_of(run, at, drift, followed=followed)
        end, followed = at, followed or bool(run.new)


def _edits_of(run: _Run, at: int, drift: Drift, *, followed: bool) -> list[Edit]:
    """The edits of one run; `followed`: more text follows it in the result."""
    base, now = drift.base, drift.now
    stop = at + run.size
    ends = [(base.terminator(run.start + i), now.terminator(at + i)) for i in range(run.size)]
    is_restyled = any(
        was and end and was != end for was, end in ends or _ends_around(run, at, drift)
    )
    is_after_open = not run.size and 0 < at == now.line_count and not now.ends_with_newline
    is_open = followed and bool(run.new) and not terminator_of(run.new[-1], now.encoding)
    is_same = not is_restyled and all(was == end for was, end in ends)
    if run.edits and is_same and not is_after_open and not is_open:
        by = now.start(at) - base.start(run.start)
        return [Edit(edit.start + by, edit.stop + by, edit.new) for edit in run.edits]
    newline = now.newline_near(at, stop)
    lines = [_ended(line, newline, now.encoding) if is_restyled else line for line in run.new]
    if is_open:
        lines[-1] += newline
    if is_after_open and lines:
        lines.insert(0, newline)
    return [Edit(now.start(at), now.start(stop), b"".join(lines))]


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
