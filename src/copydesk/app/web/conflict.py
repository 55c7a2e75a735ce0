"""A plan in conflict, three ways: what it was made on, what it makes of that, what is there now.

Invariant: each place shown holds every line that the plan alters or relies on there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from copydesk.app.web.diff_view import colours_of, render_line
from copydesk.desk.review import Shown
from copydesk.edit.request import FileOperation
from copydesk.text.diff import align
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import DiffLine

_MOST_BYTES: Final = 2_000_000
_MOST_LINES: Final = 200
_CONTEXT: Final = 3


class _Line(NamedTuple):
    number: int
    text: Markup
    kind: str


class _Way(NamedTuple):
    """One of the three texts at a place; `rest`: so many lines more are not shown."""

    title: str
    lines: list[_Line]
    rest: int


class NewPlan(NamedTuple):
    """What can be planned instead: lines [start, stop] of the text now, from 1, and a new text."""

    start: int
    stop: int
    content: str


class MergeConflict(NamedTuple):
    """The places of a plan that cannot be made; `elsewhere`: so many others have changed."""

    places: list[list[_Way]]
    elsewhere: int
    new_plan: NewPlan | None


class _Edit(NamedTuple):
    """Lines [start, stop) of the base, and how many stand there on another side."""

    start: int
    stop: int
    lines: int


def conflict_of(one: Shown) -> MergeConflict | None:
    """The plan three ways; None where it is in no conflict, or a text is not at hand."""
    base, planned, now = one.draft.base, one.draft.after, one.now
    if not (isinstance(base, Snapshot) and isinstance(planned, Snapshot) and now is not None):
        return None
    is_edit = not isinstance(one.draft.request, FileOperation) and not one.draft.created
    if not is_edit or base.size + now.size > _MOST_BYTES:
        return None
    ours = [_Edit(region.start, region.stop, len(region.new)) for region in one.draft.regions]
    gaps = align(_raw(base), _raw(now)).gaps()
    theirs = [_Edit(g.base_start, g.base_stop, g.now_stop - g.now_start) for g in gaps]
    found = list(_spans(ours, theirs, one.draft.place.foot))
    path = str(one.plan.request.path)
    places: list[list[_Way]] = []
    new_plan: NewPlan | None = None
    for span in found:
        wide = _widened(span, base.line_count, (*ours, *theirs))
        places.append(
            [
                _way(
                    "As it was", path, base, _run(wide, span, ()), _altered(ours, theirs), " gone"
                ),
                _way("As planned", path, planned, _run(wide, span, ours), _made(ours), " come"),
                _way("As it is", path, now, _run(wide, span, theirs), _made(theirs), " come"),
            ]
        )
        part = span if _run(span, span, theirs) else wide  # a range has at least one line
        lines = _run(part, span, theirs)
        if len(found) == 1 and lines:
            made = b"".join(planned.raw(n, n + 1) for n in _run(part, span, ours))
            text = planned.encoding.decode(made).replace("\r\n", "\n")
            if "\r" not in text:  # of which a browser would make the end of a line
                new_plan = NewPlan(lines.start + 1, lines.stop, text)
    elsewhere = sum(not any(a <= e.stop and e.start <= b for a, b in found) for e in theirs)
    return MergeConflict(places, elsewhere, new_plan)


def _way(title: str, path: str, text: Snapshot, lines: range, altered: set[int], kind: str) -> _Way:
    shown = [DiffLine(number + 1, text.text(number), "lf") for number in lines[:_MOST_LINES]]
    colours = colours_of(path, shown)
    rows = [
        _Line(
            each.number,
            render_line(each.text, colours.get(each.number, ())),
            kind if each.number - 1 in altered else "",
        )
        for each in shown
    ]
    return _Way(title, rows, max(len(lines) - _MOST_LINES, 0))


def _raw(text: Snapshot) -> list[bytes]:
    plain = text.unmarked()
    return [plain.raw(line, line + 1) for line in range(plain.line_count)]


def _spans(
    ours: Sequence[_Edit], theirs: Sequence[_Edit], foot: tuple[int, int] | None
) -> Iterator[tuple[int, int]]:
    """The base lines of each place: what edits of both sides that touch each other alter."""
    relied = [foot] if foot is not None and 0 <= foot[0] <= foot[1] else []
    own = {(one.start, one.stop) for one in ours} | set(relied)
    spans = sorted(own | {(one.start, one.stop) for one in theirs})
    at = 0
    while at < len(spans):
        start, stop = spans[at]
        is_own = False
        while at < len(spans) and spans[at][0] <= stop:
            stop = max(stop, spans[at][1])
            is_own = is_own or spans[at] in own
            at += 1
        if is_own:
            yield start, stop


def _widened(span: tuple[int, int], most: int, edits: Sequence[_Edit]) -> tuple[int, int]:
    """The span with some lines around it that no edit touches."""
    start, stop = span
    low = max([0, start - _CONTEXT, *(one.stop for one in edits if one.stop < start)])
    high = min([most, stop + _CONTEXT, *(one.start for one in edits if one.start > stop)])
    return low, high


def _run(part: tuple[int, int], span: tuple[int, int], edits: Sequence[_Edit]) -> range:
    """The lines that stand after the edits where `part` stood, which has the span in it."""
    low, high = part
    return range(
        _moved(low, edits, after=low < span[0]), _moved(high, edits, after=high == span[1])
    )


def _moved(line: int, edits: Sequence[_Edit], *, after: bool) -> int:
    """Where a line of the base stands after the edits; `after` what is inserted right there."""
    ahead = (one for one in edits if one.stop <= line and (after or one.start < line))
    return line + sum(one.lines - (one.stop - one.start) for one in ahead)


def _made(edits: Sequence[_Edit]) -> set[int]:
    found: set[int] = set()
    for one in edits:
        start = _moved(one.start, edits, after=False)
        found |= set(range(start, start + one.lines))
    return found


def _altered(*sides: Sequence[_Edit]) -> set[int]:
    return {line for edits in sides for one in edits for line in range(one.start, one.stop)}
