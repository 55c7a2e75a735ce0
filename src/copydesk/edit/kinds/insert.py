"""Insert: new lines after or before the line of an anchor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from copydesk.edit.draft import shown
from copydesk.edit.kinds.anchors import (
    Anchor,
    Occurrence,
    check_anchors,
    corrected_anchor,
    seek,
    sought_by,
)
from copydesk.edit.kinds.append import Append
from copydesk.edit.kinds.base import Fixed, OfContent, Place, Span, Terms, check_text
from copydesk.errors import AnchorNotFound, Refusal
from copydesk.text.lines import Sought
from copydesk.text.snapshot import Source


@dataclass(frozen=True, slots=True)
class Insert(OfContent):
    """Put `content` directly after or before the anchor's line."""

    _action, quotes = "insert", Append.quotes

    anchor: Anchor
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None

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
