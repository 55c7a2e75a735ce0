"""RangeEdit and RangeEdits: other lines for lines that are named by their numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import attrgetter
from typing import ClassVar

from copydesk.edit.draft import SHOWN_EXPECTED
from copydesk.edit.kinds.base import (
    Action,
    Composed,
    Fixed,
    Place,
    Replacing,
    Request,
    Several,
    Span,
    Terms,
    check_text,
    compose_lines,
    content_lines,
    count_lines,
    end_of,
    kind,
    line_count_of,
    of_parts,
    tuple_of,
)
from copydesk.edit.kinds.correction import lines_shown, of_text
from copydesk.edit.kinds.replace import fixed
from copydesk.errors import (
    Clash,
    CollisionDetected,
    ContentChanged,
    InvalidArgs,
    InvalidRange,
    RangeOutOfBounds,
    Refusal,
)
from copydesk.text.diff import Region, changed_part
from copydesk.text.nearest import explain, unnumbered
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Source, Text

_SHAPE = re.compile(
    r"(?:L?(?P<first>[0-9]{1,18}) *)?"
    r"(?:(?P<tilde>~|(?<=[0-9 ])(?:-|\.\.)) *(?:L?(?P<last>[0-9]{1,18}) *)?)?",
    re.ASCII,
)
"""Also what can only mean the same: `12-15`, `12 ~ 15`, `12..15`, `L12`."""

_TAIL = re.compile(r"-([0-9]{1,18})~", re.ASCII)


def resolve_range(text: str, total: int) -> Span:
    """Return the lines [start, stop), 0-based, that `text` names among `total` lines.

    `start == stop == total` is the place after the last line (`N~` with N one more than the number
    of lines), and all of an empty text. Raises InvalidRange and RangeOutOfBounds, both with the
    line count.
    """
    if not (named := _SHAPE.fullmatch(text.strip(" "))) or not named[0]:
        raise InvalidRange(text, "not one of N, N~M, N~, ~M, ~", total)
    first, last = (int(named[end]) if named[end] else None for end in ("first", "last"))
    if not named["tilde"]:
        last = first
    if 0 in (first, last):
        raise InvalidRange(text, "lines are counted from 1", total)
    if first is not None and last is not None and first > last:
        raise InvalidRange(text, "the first line is after the last", total)
    if total == 0 and text.strip(" ") in ("~", "1", "1~"):
        return 0, 0
    beyond = first == total + 1 and last is None
    if not beyond and ((first or 1) > total or (last or 1) > total):
        raise RangeOutOfBounds(text, total)
    return (first or 1) - 1, total if last is None else last


def first_line_of(text: str) -> int:
    """The first line, 0-based, that a range names; 0 if it names none."""
    named = _SHAPE.fullmatch(text.strip(" "))
    return max(int(named["first"]) - 1, 0) if named and named["first"] else 0


def tail_count(text: str) -> int | None:
    """N of `-N~`, the last N lines; None for any other text."""
    named = _TAIL.fullmatch(text)
    return int(named[1]) if named and int(named[1]) else None


def lines_wanted(text: str, total: int) -> tuple[int, int, bool]:
    """The lines [start, stop) that a range names, and whether it goes past the end."""
    last = tail_count(text) if text else total
    if last is not None:
        return max(total - last, 0), total, False
    try:
        start, stop = resolve_range(text, total)
    except RangeOutOfBounds:
        start = first_line_of(text)
        if start >= total:
            raise
        return start, total, True
    if start == stop and total:
        raise RangeOutOfBounds(text, total)
    return start, stop, False


@kind
class RangeEdit(Replacing):
    """Replace the lines that `range` names (1-based, inclusive, as text) by `content`."""

    _tool = "prepare_file_range_edit"

    range: str
    content: str = ""

    def locate(self, base: Source) -> Place:
        start, stop = resolve_range(self.range, base.line_count)
        if start < stop:
            return Place(start, stop, (start, stop))
        return end_of(base) if base.line_count else Place(0, 0, (-1, 1))

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """Its content as the lines are that it names, if `expected_old` says them otherwise."""
        if not isinstance(refusal, ContentChanged):
            return None
        if refusal.expected_old is None or len(refusal.expected_old) > SHOWN_EXPECTED:
            return None
        place, shown = self.locate(base), lines_shown(base.whole())
        old, there, new = (
            "".join(f"{line}\n" for line in lines)
            for lines in (
                content_lines(refusal.expected_old),
                shown[place.start : place.stop],
                content_lines(self.content),
            )
        )
        causes = ("line_numbers",) if unnumbered(old) == there else explain(old, there)
        better = of_text(shown, old, there, new, causes) if len(causes) == 1 else None
        return None if better is None else fixed(replace(self, content=better.new), [better])

    def trimmed(self, base: Text, place: Place) -> tuple[RangeEdit, Place] | None:
        lines = content_lines(self.content)
        if (part := changed_part([*base.texts(place.start, place.stop)], lines)) is None:
            return None
        old, new = part
        content = "".join(f"{line}\n" for line in lines[slice(*new)])
        span = place.start + old[0], place.start + old[1]
        return replace(self, content=content), Place(*span, span)

    def by_number(self, place: Place) -> list[tuple[Span, str]]:
        return [((place.start, place.stop), self.content)] if place.foot is not None else []

    def action(self, place: Place) -> Action:
        if place.foot is None:
            return "append"
        return "replace" if self.content else "delete"


@kind
class RangeEdits(Request):
    """Make all `edits`, or none; the line numbers of all refer to the same text."""

    reads, _tool = "whole", RangeEdit._tool
    _read_as: ClassVar = {**Request._read_as, "edits": tuple_of}

    edits: Several[RangeEdit]

    def check(self) -> None:
        if not self.edits:
            raise InvalidArgs("edits", "must not be empty")
        for index, each in enumerate(self.edits):
            check_text(f"edits[{index}].content", each.content)
            if each.path != self.path:
                raise InvalidArgs(f"edits[{index}].path", "must be the path of all")

    @property
    def count(self) -> int:
        return len(self.edits)

    def locate(self, base: Source) -> Place:
        """Raises CollisionDetected if two ranges share a line or a place."""
        parts = tuple([resolve_range(edit.range, base.line_count) for edit in self.edits])
        clashes: list[Clash] = []
        order = sorted(range(len(parts)), key=lambda each: (parts[each], each))
        widest = order[0] if order else 0
        for index in order[1:]:
            start, stop = parts[index]
            if start < parts[widest][1] or parts[index] == parts[widest]:
                one, other = sorted((widest, index))
                clashes.append(Clash(one, other, _named(parts[one]), _named(parts[other])))
            if stop > parts[widest][1] or start == stop:  # one more at this place clashes with it
                widest = index
        if clashes:
            raise CollisionDetected(tuple(sorted(clashes, key=attrgetter("first", "second"))))
        return of_parts(parts)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        return compose_lines(
            base,
            [(edit.content, part) for edit, part in zip(self.edits, place.parts, strict=True)],
            may_delete=True,
        )

    def trimmed(self, base: Text, place: Place) -> tuple[RangeEdits, Place] | None:
        parts = zip(self.edits, place.parts, strict=True)
        whole = [(edit, Place(*part, part)) for edit, part in parts]
        each = [edit.trimmed(base, at) or (edit, at) for edit, at in whole]
        if each == whole:
            return None
        edits = tuple(edit for edit, _ in each)
        return replace(self, edits=edits), of_parts(tuple((at.start, at.stop) for _, at in each))

    def by_number(self, place: Place) -> list[tuple[Span, str]]:
        return [*zip(place.parts, (edit.content for edit in self.edits), strict=True)]

    def action(self, place: Place) -> Action:
        return "replace" if any(edit.content for edit in self.edits) else "delete"

    def each(self, place: Place) -> list[tuple[Request, Place]]:
        """Those at the end rely on no lines, and are left out."""
        parts = zip(self.edits, place.parts, strict=True)
        return [(edit, Place(*part, part)) for edit, part in parts if part[0] < part[1]]

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        olds = terms.expected_olds or (None,) * len(place.parts)
        parts = zip(place.parts, olds, strict=True)
        return tuple(part for part, old in parts if part[0] < part[1] and old is None)

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        parts = zip(place.parts, self.edits, strict=True)
        return sorted((*part, len(content_lines(edit.content))) for part, edit in parts)

    def counts(self, place: Place) -> tuple[int, int]:
        return count_lines(edit.content for edit in self.edits), line_count_of(place.runs)


def _named(part: Span) -> str:
    start, stop = part
    return f"{start + 1}~{stop}" if start < stop else f"{start + 1}~"


def range_edit_of(path: RelPath, base: Text, region: Region) -> RangeEdit:
    """The request for one changed region; an insertion includes an adjacent line to rely on."""
    new = [base.encoding.decode(line) for line in region.new]
    start, stop = region.start, region.stop
    if start == stop and start == base.line_count:
        return RangeEdit(path, f"{start + 1}~", "".join(new))
    if start == stop:
        stop += 1
        new.append(base.encoding.decode(base.raw(start, stop)))
    return RangeEdit(path, f"{start + 1}~{stop}", "".join(new))
