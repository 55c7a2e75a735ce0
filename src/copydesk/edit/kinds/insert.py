"""Insert: new lines after or before the line of an anchor; and how anchors are found.

An anchor is a line that is found by a part of its text. Invariant: it is one line and not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from copydesk.edit.draft import SHOWN_LENGTH, shown
from copydesk.edit.kinds.append import Append
from copydesk.edit.kinds.base import (
    Fixed,
    OfContent,
    Place,
    Span,
    Terms,
    check_is_text,
    check_text,
    kind,
)
from copydesk.edit.kinds.correction import is_safe
from copydesk.errors import (
    AnchorAmbiguous,
    AnchorNotFound,
    InvalidArgs,
    LineShown,
    OccurrenceOutOfRange,
    Refusal,
)
from copydesk.text.nearest import explain, nearest_lines
from copydesk.text.snapshot import Hits, Sought, Source

Match = Literal["contains", "equals"]
Occurrence = int | Literal["last"]
"""Which of several candidates: 1-based, or the last one."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line to find: `text` is a part of it (`contains`) or all of it (`equals`)."""

    text: str
    match: Match = "contains"
    argument: str = "anchor"

    @staticmethod
    def of(given: Anchor | str, argument: str = "anchor") -> Anchor:
        """An anchor under this name in errors; a text alone is a part of the line."""
        anchor = given if isinstance(given, Anchor) else Anchor(given, argument=argument)
        return anchor if anchor.argument == argument else replace(anchor, argument=argument)

    def __post_init__(self) -> None:
        check_is_text(self.argument, self.text)
        if not self.text:
            raise InvalidArgs(self.argument, "must not be empty")
        if "\n" in self.text:
            raise InvalidArgs(self.argument, "must be a part of one line, without a line feed")

    def chosen(
        self,
        occurrence: Occurrence | None,
        lines: Sequence[int],
        count: int,
        candidates: Callable[[], tuple[LineShown, ...]],
    ) -> int:
        """The index of the candidate asked for, or of the only one of `count`.

        `candidates` shows the first of them, which are at `lines`. Raises OccurrenceOutOfRange, and
        AnchorAmbiguous if none of several is asked for, or one whose line is not known.
        """
        if occurrence == "last":
            return count - 1
        if occurrence is not None and occurrence > count:
            raise OccurrenceOutOfRange(str(occurrence), count, candidates())
        index = (occurrence or count) - 1
        if (occurrence is None and count > 1) or len(lines) <= index < count - 1:
            raise self.ambiguous(count, candidates())
        return index

    def ambiguous(
        self, count: int, candidates: tuple[LineShown, ...], *, nested: bool | None = None
    ) -> AnchorAmbiguous:
        """The refusal of several candidates."""
        return AnchorAmbiguous(self.argument, self.text, count, candidates, nested=nested)

    def missing(self, base: Source) -> AnchorNotFound:
        """The refusal if no line matches, with the lines most similar to it."""
        near = nearest_lines(base, self.text)
        close = shown(base, near.lines, 3)
        causes, corrected = tuple[str, ...](near.causes), near.corrected
        if self.match == "equals" and close:
            line = base.around(near.lines[0], near.lines[0] + 1).text(near.lines[0])
            causes = explain(self.text, line)
            corrected = line if causes and len(line) <= SHOWN_LENGTH else None
            if any(self.text in one.text for one in close):
                causes = ("part_of_line",)
        return AnchorNotFound(
            self.argument,
            self.text,
            self.match,
            close or None,
            cause=causes or None,
            corrected_anchor=corrected,
        )


if TYPE_CHECKING:

    class AnchorField:
        """A field that is given as a text or an anchor, and read as an anchor."""

        def __get__(self, request: object, kind: type | None = None) -> Anchor: ...
        def __set__(self, request: object, anchor: str | Anchor) -> None: ...

else:
    AnchorField = Anchor


def corrected_anchor(anchor: Anchor, refusal: Refusal) -> Anchor | None:
    """The anchor as the only line that is like it has it; None if that is not safe."""
    if not isinstance(refusal, AnchorNotFound) or refusal.argument != anchor.argument:
        return None
    if refusal.corrected_anchor is None or not is_safe(refusal.cause or ()):
        return None
    return replace(anchor, text=refusal.corrected_anchor)


def check_anchors(occurrence: Occurrence | None, *anchors: Anchor) -> None:
    """Raise InvalidArgs for an invalid text of one of them, or an occurrence below 1."""
    for anchor in anchors:
        check_text(anchor.argument, anchor.text)
    if isinstance(occurrence, int) and occurrence < 1:
        raise InvalidArgs("occurrence", "must be a number from 1, or last")


def sought_by(*anchors: Anchor) -> tuple[Sought, ...]:
    """The texts to search for; the second anchor ends the block that the first one starts."""
    return tuple(
        [
            Sought(anchor.text, anchor.match == "equals", ends=index > 0)
            for index, anchor in enumerate(anchors)
        ]
    )


def seek(base: Source, *anchors: Anchor) -> tuple[Hits, ...]:
    """Find the lines of each anchor; if no line has `\\xNN` as text, it stands for a byte.

    Raises AnchorNotFound for the first one without a line.
    """
    sought = sought_by(*anchors)
    found = base.seek(sought)
    again = tuple(
        [
            replace(each, escaped=True) if not hits.count and "\\x" in each.text else each
            for each, hits in zip(sought, found, strict=True)
        ]
    )
    if again != sought:
        found = base.seek(again)
    for anchor, hits in zip(anchors, found, strict=True):
        if not hits.count:
            raise anchor.missing(base)
    return found


@kind
class Insert(OfContent):
    """Put `content` directly after or before the anchor's line."""

    _action, quotes = "insert", Append.quotes

    anchor: AnchorField
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None

    def __post_init__(self) -> None:
        OfContent.__post_init__(self)
        object.__setattr__(self, "anchor", Anchor.of(self.anchor))

    @property
    def tool(self) -> str:
        return f"prepare_file_insert_{self.position}"

    def check(self) -> None:
        check_text("content", self.content)
        check_anchors(self.occurrence, self.anchor)

    @property
    def sought(self) -> tuple[Sought, ...]:
        return sought_by(self.anchor)

    def locate(self, base: Source) -> Place:
        (hits,) = seek(base, self.anchor)
        lines, count = hits.lines, hits.count
        index = self.anchor.chosen(self.occurrence, lines, count, lambda: shown(base, lines))
        line = hits.last if index == count - 1 else lines[index]
        at = line + (self.position == "after")
        return Place(at, at, (line, line + 1), count, index + 1)

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        anchor = corrected_anchor(self.anchor, refusal)
        if anchor is None or not isinstance(refusal, AnchorNotFound):
            return None
        return Fixed(replace(self, anchor=anchor), refusal.cause or (), is_certain=False)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return (place.foot,) if place.foot is not None and place.candidates > 1 else ()
