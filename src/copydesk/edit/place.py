"""Where an edit goes, in lines of one snapshot, and what it relies on there.

What lives here: `Place`, and how each request finds its own. What must not: the
new text, the drift (see `copydesk.text.carry`). Invariant: the footprint holds
the replaced lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from copydesk.edit import ranges
from copydesk.edit.batch import compile_batch, part_lines
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    Insert,
    Occurrence,
    Request,
)
from copydesk.errors import (
    AnchorAmbiguous,
    AnchorNotFound,
    LineShown,
    OccurrenceOutOfRange,
)
from copydesk.text.find import closest_lines, matching_lines
from copydesk.text.snapshot import Snapshot

SHOWN_CANDIDATES = 10
SHOWN_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Lines [start, stop), 0-based, to be replaced (none when they are equal).

    `foot` is the run of lines that the edit relies on, as [start, stop); -1 and
    one more than there are lines stand for the two ends of the text. None: the
    edit relies on nothing and goes to the end of the text. `candidates` and
    `occurrence` (1-based) say how an anchor was chosen, `first_taken` that it
    was the first one only because the caller allowed it. `parts` are the lines of
    each edit of a batch; it relies on these alone, and `foot` spans them.
    """

    start: int
    stop: int
    foot: tuple[int, int] | None
    candidates: int = 1
    occurrence: int = 1
    first_taken: bool = False
    parts: tuple[tuple[int, int], ...] = ()

    def moved(self, by: int) -> Place:
        """The same place `by` lines further down."""
        foot = self.foot and (self.foot[0] + by, self.foot[1] + by)
        return replace(self, start=self.start + by, stop=self.stop + by, foot=foot)


def locate(request: Request, base: Snapshot) -> Place:
    """The place of the request in `base`; raises the refusals of its kind."""
    if isinstance(request, Append):
        return end_of(base)
    if isinstance(request, BatchEdit):
        return of_parts(part_lines(base, compile_batch(base, request.edits).spans))
    if isinstance(request, Insert):
        return _insertion(request, base)
    if isinstance(request, BlockReplace):
        return _block(request, base)
    start, stop = ranges.resolve(request.range, base.line_count)
    if start < stop:
        return Place(start, stop, (start, stop))
    return end_of(base) if base.line_count else Place(0, 0, (-1, 1))


def of_parts(parts: tuple[tuple[int, int], ...]) -> Place:
    """The place of a batch whose edits stand in these lines."""
    span = (min(start for start, _ in parts), max(stop for _, stop in parts))
    return Place(*span, span, parts=parts)


def end_of(base: Snapshot) -> Place:
    """The end of the text, wherever that is when it is written."""
    return Place(base.line_count, base.line_count, None)


def shown(base: Snapshot, lines: list[int], most: int = SHOWN_CANDIDATES) -> tuple[LineShown, ...]:
    """The first of `lines` (0-based) with their numbers from 1 and their texts, cut."""
    return tuple(LineShown(i + 1, cut(base.text(i))) for i in lines[:most])


def cut(text: str, length: int = SHOWN_LENGTH) -> str:
    """The text, or the start of it and a mark that says how much is left out."""
    return text if len(text) <= length else f"{text[:length]}… (+{len(text) - length} characters)"


def _insertion(request: Insert, base: Snapshot) -> Place:
    lines = _found(request.anchor, base)
    index = _chosen(request.occurrence, lines, base, request.anchor)
    line = lines[index]
    at = line + (request.position == "after")
    return Place(at, at, (line, line + 1), len(lines), index + 1)


def _found(anchor: Anchor, base: Snapshot) -> list[int]:
    lines = matching_lines(base, anchor.text, whole=anchor.match == "equals")
    if not lines:
        close = shown(base, closest_lines(base, anchor.text), 3)
        raise AnchorNotFound(anchor.argument, anchor.text, anchor.match, close or None)
    return lines


def _chosen(occurrence: Occurrence | None, lines: list[int], base: Snapshot, anchor: Anchor) -> int:
    """The index of the candidate asked for; without an occurrence there must be only one."""
    if occurrence is None:
        if len(lines) > 1:
            raise AnchorAmbiguous(anchor.argument, anchor.text, len(lines), shown(base, lines))
        return 0
    if occurrence == "last":
        return len(lines) - 1
    if occurrence > len(lines):
        raise OccurrenceOutOfRange(str(occurrence), len(lines), shown(base, lines))
    return occurrence - 1


def _block(request: BlockReplace, base: Snapshot) -> Place:
    """Each start pairs with the first end after it; what is nested inside is ambiguous."""
    starts, ends = _found(request.start_anchor, base), _found(request.end_anchor, base)
    pairs: list[tuple[int, int]] = []
    at = 0
    for start in starts:
        while at < len(ends) and ends[at] <= start:
            at += 1
        if at < len(ends):
            pairs.append((start, ends[at]))
    if not pairs:
        anchor = request.end_anchor
        found = shown(base, sorted({*starts[:2], *ends[:2]}))
        raise AnchorNotFound(anchor.argument, anchor.text, anchor.match, found, before_start=True)
    heads = [start for start, _ in pairs]
    loose = not (request.strict and request.require_unique)
    first_taken = loose and request.occurrence is None and len(pairs) > 1
    wanted = 1 if first_taken else request.occurrence
    index = _chosen(wanted, heads, base, request.start_anchor)
    start, end = pairs[index]
    nested = [line for line in starts if start < line < end]
    if nested and not loose:
        raise AnchorAmbiguous(
            request.start_anchor.argument,
            request.start_anchor.text,
            1 + len(nested),
            shown(base, [start, *nested]),
            nested=True,
        )
    inner = (start + 1, end) if request.include_anchors else (start, end + 1)
    return Place(*inner, (start, end + 1), len(pairs), index + 1, first_taken)
