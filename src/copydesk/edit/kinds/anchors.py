"""Append, Insert, BlockReplace: lines at the end of a file, beside an anchor, or between two.

An anchor is a line that is found by a part of its text. Invariant: it is one line and not empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from copydesk.edit.draft import SHOWN_LENGTH, shown, shown_blocks
from copydesk.edit.kinds.base import (
    Fixed,
    OfContent,
    Place,
    Replacing,
    Span,
    Terms,
    check_is_text,
    check_text,
    end_of,
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


@kind
class Append(OfContent):
    """Put `content` at the end of the file; `create` makes a missing file."""

    _tool, _action = "prepare_file_append", "append"
    quotes = "this tool replaces no lines; leave it out"

    content: str
    create: bool = True

    @property
    def may_create(self) -> bool:
        return self.create

    def locate(self, base: Source) -> Place:
        return end_of(base)


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

        `candidates` shows the first of them, which are at `lines`: of many only some are kept, and
        the last. Raises OccurrenceOutOfRange, and AnchorAmbiguous if none of several is asked for,
        or one whose line was not kept.
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
            around = [one.text for one in close if self.text in one.text]
            if around and not (around == [line] and is_safe(causes)):
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


class Anchored(OfContent):
    """A request whose place is found by the anchors in the fields `_anchors`.

    Each anchor is called by its field's name in errors.
    """

    __slots__ = ()
    _anchors: ClassVar[tuple[str, ...]] = ("anchor",)
    occurrence: Occurrence | None

    def __post_init__(self) -> None:
        OfContent.__post_init__(self)
        for name in self._anchors:
            object.__setattr__(self, name, Anchor.of(getattr(self, name), name))

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        return tuple(getattr(self, name) for name in self._anchors)

    def check(self) -> None:
        OfContent.check(self)
        for anchor in self.anchors:
            check_text(anchor.argument, anchor.text)
        if isinstance(self.occurrence, int) and self.occurrence < 1:
            raise InvalidArgs("occurrence", "must be a number from 1, or last")

    @property
    def sought(self) -> tuple[Sought, ...]:
        """The texts of the anchors; the second one ends the block that the first one starts."""
        return tuple(
            [
                Sought(anchor.text, anchor.match == "equals", ends=index > 0)
                for index, anchor in enumerate(self.anchors)
            ]
        )

    def hits(self, base: Source) -> tuple[Hits, ...]:
        """The lines of each anchor; if no line has `\\xNN` as text, it stands for a byte.

        Raises AnchorNotFound for the first one without a line.
        """
        sought = self.sought
        hits = base.seek(sought)
        again = tuple(
            [
                replace(each, escaped=True) if not of_each.count and "\\x" in each.text else each
                for each, of_each in zip(sought, hits, strict=True)
            ]
        )
        if again != sought:
            hits = base.seek(again)
        for anchor, of_anchor in zip(self.anchors, hits, strict=True):
            if not of_anchor.count:
                raise anchor.missing(base)
        return hits

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """The anchor that was not found becomes what the only line that is like it has."""
        if not isinstance(refusal, AnchorNotFound) or not is_safe(refusal.cause or ()):
            return None
        if refusal.corrected_anchor is None:
            return None
        anchor = replace(getattr(self, refusal.argument), text=refusal.corrected_anchor)
        changed: dict[str, Any] = {refusal.argument: anchor}
        return Fixed(replace(self, **changed), refusal.cause or (), is_certain=False)


@kind
class Insert(Anchored):
    """Put `content` directly after or before the anchor's line."""

    _action, quotes = "insert", Append.quotes

    anchor: AnchorField
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None

    @property
    def tool(self) -> str:
        return f"prepare_file_insert_{self.position}"

    def locate(self, base: Source) -> Place:
        (hits,) = self.hits(base)
        lines, count = hits.lines, hits.count
        index = self.anchor.chosen(self.occurrence, lines, count, lambda: shown(base, lines))
        line = hits.last if index == count - 1 else lines[index]
        at = line + (self.position == "after")
        return Place(at, at, (line, line + 1), count, index + 1)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return (place.foot,) if place.foot is not None and place.candidates > 1 else ()


@kind
class BlockReplace(Replacing, Anchored):
    """Replace the lines between two anchors, or these and the anchors, by `content`.

    `include_anchors` keeps both anchor lines. Without `strict` or without `require_unique` the
    first of several candidates is taken.
    """

    _tool, _action = "prepare_file_block_replace", "block_replace"
    _anchors = ("start_anchor", "end_anchor")

    start_anchor: AnchorField
    end_anchor: AnchorField
    content: str
    occurrence: Occurrence | None = None
    include_anchors: bool = True
    require_unique: bool = True
    strict: bool = True

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        """Nothing if the anchors are unique; with a version, the lines must be known by it."""
        is_certain = place.candidates == 1 and terms.version is None
        return () if is_certain else Replacing.unguarded(self, place, terms)

    def locate(self, base: Source) -> Place:
        """Pair each start with the first end after it; a start nested in the block is ambiguous."""
        anchor, closing = self.start_anchor, self.end_anchor
        first, second = self.hits(base)
        starts, ends = first.lines, second.lines
        if first.count > len(starts):
            raise anchor.ambiguous(first.count, shown(base, starts))
        after = ((start, bisect_right(ends, start)) for start in starts)
        if not (pairs := [(start, ends[at]) for start, at in after if at < len(ends)]):
            lines = shown(base, sorted({*starts[:2], *ends[:2]}))
            raise AnchorNotFound(
                closing.argument, closing.text, closing.match, lines, before_start=True
            )
        heads = [start for start, _ in pairs]
        loose = not (self.strict and self.require_unique)
        first_taken = loose and self.occurrence is None and len(pairs) > 1
        wanted = 1 if first_taken else self.occurrence
        index = anchor.chosen(wanted, heads, len(heads), lambda: shown_blocks(base, pairs))
        start, end = pairs[index]
        nested = [line for line in starts if start < line < end]
        if nested and not loose:
            within = shown_blocks(base, [pair for pair in pairs if start <= pair[0] < end])
            raise anchor.ambiguous(1 + len(nested), within, nested=True)
        inner = (start + 1, end) if self.include_anchors else (start, end + 1)
        return Place(*inner, (start, end + 1), len(pairs), index + 1, first_taken)
