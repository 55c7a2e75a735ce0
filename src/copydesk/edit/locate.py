"""Where a request goes: its place in the lines of one snapshot, and what it relies on there.

Invariant: the footprint holds the replaced lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from copydesk.edit.batch import is_everywhere, place_parts
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockDiff,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    FileOperation,
    Insert,
    MoveFile,
    Occurrence,
    PatchEdit,
    RangeEdits,
    Request,
    SeveralEdits,
)
from copydesk.errors import (
    AnchorAmbiguous,
    AnchorNotFound,
    Clash,
    CollisionDetected,
    InvalidRange,
    LineShown,
    OccurrenceOutOfRange,
    RangeOutOfBounds,
)
from copydesk.text.diff import same_after
from copydesk.text.folding import explain
from copydesk.text.search import Hits, Sought
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Source, Unread, Whole

_SHAPE = re.compile(r"(?P<first>[0-9]{1,18})?((?P<tilde>~)(?P<last>[0-9]{1,18})?)?", re.ASCII)
_TAIL = re.compile(r"-([0-9]{1,18})~", re.ASCII)


def resolve_range(text: str, total: int) -> tuple[int, int]:
    """The lines [start, stop), 0-based, that `text` names among `total` lines.

    `start == stop == total` is the place after the last line (`N~` with N one
    more than there are lines), and the whole of an empty text. Raises
    InvalidRange and RangeOutOfBounds, both with the line count.
    """
    found = _SHAPE.fullmatch(text)
    if not found or not text:
        raise InvalidRange(text, "not one of N, N~M, N~, ~M, ~", total)
    first = int(found["first"]) if found["first"] else None
    last = int(found["last"]) if found["last"] else None
    if not found["tilde"]:
        last = first
    if first == 0 or last == 0:
        raise InvalidRange(text, "lines are counted from 1", total)
    if first is not None and last is not None and first > last:
        raise InvalidRange(text, "the first line is after the last", total)
    if total == 0 and text in ("~", "1", "1~"):
        return 0, 0
    beyond = first == total + 1 and last is None
    if not beyond and ((first or 1) > total or (last or 1) > total):
        raise RangeOutOfBounds(text, total)
    return (first or 1) - 1, total if last is None else last


def first_line_of(text: str) -> int:
    """The first line, 0-based, that a range names if there is such a line; 0 for no range."""
    found = _SHAPE.fullmatch(text)
    return max(int(found["first"]) - 1, 0) if found and found["first"] else 0


def tail_count(text: str) -> int | None:
    """N of `-N~`, the last N lines; None for any other text."""
    found = _TAIL.fullmatch(text)
    return int(found[1]) if found and int(found[1]) else None


SHOWN_CANDIDATES = 10
SHOWN_LENGTH = 200
SHOWN_STANDING = 40
AROUND = 3
"""Lines shown before and after those that an edit is about."""


@dataclass(frozen=True, slots=True)
class Place:
    """Lines [start, stop), 0-based, to be replaced (none when they are equal).

    `foot` is the run of lines that the edit relies on, as [start, stop); -1 and 1 stand
    for the two ends of an empty text. None: the edit relies on nothing and goes to the end
    of the text. `candidates` and `occurrence` (1-based) say how an anchor was chosen,
    `first_taken` that it was the first one only because the caller allowed it. `parts` are
    the lines of each edit of a batch; it relies on these alone, and `foot` spans them.
    Of a text that is replaced everywhere `candidates` is how often it stands in the parts.
    """

    start: int
    stop: int
    foot: tuple[int, int] | None
    candidates: int = 1
    occurrence: int = 1
    first_taken: bool = False
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def named(self) -> str:
        """The lines as they are told, from 1; of an insertion, the two that it stands between."""
        if self.start == self.stop:
            return f"{max(self.start, 1)}~{self.start + 1}"
        return f"{self.start + 1}~{self.stop}"

    def moved(self, by: int) -> Place:
        """The same place `by` lines further down."""
        foot = self.foot and (self.foot[0] + by, self.foot[1] + by)
        return replace(self, start=self.start + by, stop=self.stop + by, foot=foot)


def locate(request: Request, text: Snapshot | Source) -> Place:
    """The place of the request in the text; raises the refusals of its kind."""
    base = Whole(text) if isinstance(text, Snapshot) else text
    if isinstance(request, Append) or (isinstance(request, PatchEdit) and request.creates):
        return end_of(base)
    if isinstance(request, BatchEdit):
        parts, count = place_parts(base.whole(), request)
        place = of_parts(parts)
        return replace(place, candidates=count) if is_everywhere(request) else place
    if isinstance(request, RangeEdits):
        return of_parts(_ranges(request, base.line_count))
    if isinstance(request, Insert):
        return _insertion(request, base)
    if isinstance(request, BlockReplace):
        return _block(request, base)
    if isinstance(request, BlockDiff):
        raise TypeError("a block diff goes to blocks, not to lines")
    if isinstance(request, FileOperation):
        return Place(0, base.line_count, None)
    start, stop = resolve_range(request.range, base.line_count)
    if start < stop:
        return Place(start, stop, (start, stop))
    return end_of(base) if base.line_count else Place(0, 0, (-1, 1))


def _ranges(request: RangeEdits, total: int) -> tuple[tuple[int, int], ...]:
    """The lines of each range; raises CollisionDetected where two share a line or a place."""
    parts = tuple(resolve_range(edit.range, total) for edit in request.edits)
    clashes: list[Clash] = []
    widest: int | None = None
    for index in sorted(range(len(parts)), key=lambda each: (parts[each], each)):
        start, stop = parts[index]
        if widest is not None and (start < parts[widest][1] or parts[index] == parts[widest]):
            one, other = sorted((widest, index))
            clashes.append(Clash(one, other, _told(parts[one]), _told(parts[other])))
        if widest is None or stop > parts[widest][1] or start == stop:
            widest = index
    if clashes:
        raise CollisionDetected(tuple(sorted(clashes, key=lambda each: (each.first, each.second))))
    return parts


def _told(part: tuple[int, int]) -> str:
    start, stop = part
    return f"{start + 1}~{stop}" if start < stop else f"{start + 1}~"


def sought_by(request: Request) -> tuple[Sought, ...]:
    """What `locate` seeks for the request, so that a source may find it in its first pass."""
    if isinstance(request, Insert):
        return (_sought(request.anchor),)
    if isinstance(request, BlockReplace):
        end = _sought(request.end_anchor)
        return _sought(request.start_anchor), replace(end, ends=True)
    return ()


def text_for(request: Request, base: Source, place: Place) -> Text:
    """The text with the lines at hand that `compose` needs for the request at its place."""
    if isinstance(request, SeveralEdits | DeleteFile):
        return base.whole()
    if isinstance(request, MoveFile | ChangeMode):
        return Unread(base.size, base.digest).around(0, 0)
    return base.around(place.start, place.stop)


def of_parts(parts: tuple[tuple[int, int], ...]) -> Place:
    """The place of several edits that stand in these lines; no lines are the end of the text."""
    span = (min(start for start, _ in parts), max(stop for _, stop in parts))
    return Place(*span, span, parts=parts)


def end_of(base: Text | Source) -> Place:
    """The end of the text, wherever that is when it is written."""
    return Place(base.line_count, base.line_count, None)


def span_of(base: Text, first: int, last: int) -> tuple[int, int]:
    """The bytes of lines [first, last), at least one, without the last terminator."""
    end = base.start(last)
    terminator = len(base.terminator(last - 1))
    blank = end - base.start(last - 1) == terminator
    return base.start(first), end if blank else end - terminator


def foot_span(base: Text, place: Place) -> tuple[int, int] | None:
    """The bytes that the edit relies on; None for a batch, and for an end of the text."""
    foot = place.foot
    if foot is None or place.parts or foot[0] < 0:
        return None
    return span_of(base, *foot)


def shown(
    base: Text | Source, lines: Sequence[int], most: int = SHOWN_CANDIDATES
) -> tuple[LineShown, ...]:
    """The first of `lines` (0-based) with their numbers from 1 and their texts, cut."""

    def text(line: int) -> str:
        return (base if isinstance(base, Text) else base.around(line, line + 1)).text(line)

    return tuple(LineShown(line + 1, cut(text(line))) for line in lines[:most])


def shown_blocks(base: Text | Source, blocks: Sequence[tuple[int, int]]) -> tuple[LineShown, ...]:
    """The first of `blocks`, each by its first line and its last one, both 0-based."""
    ends = shown(base, [last for _, last in blocks])
    return tuple(
        replace(start, end_line=end.line, end_text=end.text)
        for start, end in zip(shown(base, [first for first, _ in blocks]), ends, strict=True)
    )


def standing(
    base: Text | Source, start: int, stop: int, expected: Sequence[str] = ()
) -> tuple[LineShown, ...]:
    """Lines [start, stop) with a few around; long ones cut where they differ from `expected`."""
    last = base.line_count
    low, high = max(min(start, last) - AROUND, 0), min(max(stop, start) + AROUND, last)
    text = base if isinstance(base, Text) else base.around(low, high)
    lines: Sequence[int] = range(low, high)
    if high - low > SHOWN_STANDING:
        half = SHOWN_STANDING // 2
        lines = (*range(low, low + half), *range(high - half, high))

    def shown_line(line: int) -> LineShown:
        own = text.text(line)
        there = expected[line - start] if 0 <= line - start < len(expected) else None
        at = 0 if there is None else same_after(own, there, 0, 0)
        return LineShown(line + 1, cut(own, at=at))

    return tuple(map(shown_line, lines))


def cut(text: str, length: int = SHOWN_LENGTH, at: int = 0) -> str:
    """The text, or what is around character `at`, with marks that say how much is left out."""
    if len(text) <= length:
        return text
    start = max(min(at - length // 3, len(text) - length), 0) if at >= length else 0
    after = len(text) - length - start
    head = f"(+{start} characters) …" if start else ""
    return head + text[start : start + length] + (f"… (+{after} characters)" if after else "")


def _sought(anchor: Anchor) -> Sought:
    return Sought(anchor.text, anchor.match == "equals")


def _seek(request: Request, base: Source) -> tuple[Hits, ...]:
    """The lines of the request's anchors; bytes are found by their `\\xNN` where no text is."""
    sought = sought_by(request)
    found = base.seek(sought)
    again = tuple(
        replace(each, escaped=not hits.count) for each, hits in zip(sought, found, strict=True)
    )
    if not any(each.escaped and "\\x" in each.text for each in again):
        return found
    return base.seek(again)


def _insertion(request: Insert, base: Source) -> Place:
    (hits,) = _seek(request, base)
    _require(hits, request.anchor, base)
    lines, count = hits.lines, hits.count
    index = _chosen(request.occurrence, lines, count, request.anchor, lambda: shown(base, lines))
    line = hits.last if index == count - 1 else lines[index]
    at = line + (request.position == "after")
    return Place(at, at, (line, line + 1), count, index + 1)


def _require(hits: Hits, anchor: Anchor, base: Source) -> None:
    if not hits.count:
        raise _missing(anchor, base)


def _missing(anchor: Anchor, base: Source) -> AnchorNotFound:
    """The refusal of an anchor that no line matches, with the lines most like it."""
    near = base.close_to(anchor.text)
    close = shown(base, near.lines, 3)
    causes, corrected = tuple[str, ...](near.causes), near.corrected
    if anchor.match == "equals" and close:
        line = base.around(near.lines[0], near.lines[0] + 1).text(near.lines[0])
        causes = explain(anchor.text, line)
        corrected = line if causes and len(line) <= SHOWN_LENGTH else None
        if any(anchor.text in one.text for one in close):
            causes = ("part_of_line",)
    return AnchorNotFound(
        anchor.argument,
        anchor.text,
        anchor.match,
        close or None,
        cause=causes or None,
        corrected_anchor=corrected,
    )


def _chosen(
    occurrence: Occurrence | None,
    lines: Sequence[int],
    count: int,
    anchor: Anchor,
    told: Callable[[], tuple[LineShown, ...]],
) -> int:
    """The index of the candidate asked for, or of the only one; `told` shows the first `lines`."""
    if occurrence == "last":
        return count - 1
    if occurrence is not None and occurrence > count:
        raise OccurrenceOutOfRange(str(occurrence), count, told())
    index = (occurrence or count) - 1
    if (occurrence is None and count > 1) or len(lines) <= index < count - 1:
        raise AnchorAmbiguous(anchor.argument, anchor.text, count, told())
    return index


def _block(request: BlockReplace, base: Source) -> Place:
    """Each start pairs with the first end after it; what is nested inside is ambiguous."""
    first, second = _seek(request, base)
    _require(first, request.start_anchor, base)
    _require(second, request.end_anchor, base)
    starts, ends = first.lines, second.lines
    if first.count > len(starts):
        anchor = request.start_anchor
        raise AnchorAmbiguous(anchor.argument, anchor.text, first.count, shown(base, starts))
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
    index = _chosen(
        wanted, heads, len(heads), request.start_anchor, lambda: shown_blocks(base, pairs)
    )
    start, end = pairs[index]
    nested = [line for line in starts if start < line < end]
    if nested and not loose:
        raise AnchorAmbiguous(
            request.start_anchor.argument,
            request.start_anchor.text,
            1 + len(nested),
            shown_blocks(base, [pair for pair in pairs if start <= pair[0] < end]),
            nested=True,
        )
    inner = (start + 1, end) if request.include_anchors else (start, end + 1)
    return Place(*inner, (start, end + 1), len(pairs), index + 1, first_taken)
