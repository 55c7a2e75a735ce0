"""BlockReplace: other lines between two anchors."""

from __future__ import annotations

from bisect import bisect_right

from copydesk.edit.draft import shown, shown_blocks
from copydesk.edit.kinds.base import Place, Replacing, Span, Terms, kind
from copydesk.edit.kinds.insert import Anchored, AnchorField, Occurrence
from copydesk.errors import AnchorNotFound
from copydesk.text.snapshot import Source


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
        pairs = [(start, ends[at]) for start, at in after if at < len(ends)]
        if not pairs:
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
