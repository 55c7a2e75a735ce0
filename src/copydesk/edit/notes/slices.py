"""Slices of a sequence of blocks, as callers write them, and which blocks they mean.

Invariant: an invalid slice is refused; a valid one that is empty lies outside of the blocks.

    id2:id5   from one block to another, both included
    id2:+3    three blocks, from this one on         id5:-3   three, up to this one
    0:5       by index from 0, the end not included  -2:      the last two
    id8:END   to the end                             BEGIN:id2  from the start
    id2       this block alone      5  from the sixth on      -3  the last three

Ends that are left out are BEGIN and END; ids and indices may be mixed. Indices
beyond the blocks count as their ends. Digits are an index, BEGIN and END are
what they say, all else is an id: an anchor of such a name is reached by an
index. No blanks, capitals as shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from copydesk.edit.notes.errors import InvalidSlice, SliceReason, shown
from copydesk.edit.notes.grammar import is_block_id

_INDEX = re.compile(r"-?[0-9]{1,18}")
_COUNT = re.compile(r"(?P<sign>[+-])(?P<count>[0-9]{1,18})")


def select(text: str, ids: Sequence[str]) -> range:
    """The indices, from 0, of the blocks in a slice; `ids` are all blocks in order.

    Raises InvalidSlice.
    """
    return _Slice(text, ids).selected()


class _Slice:
    """A slice and the blocks it is of."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        self._text = text
        self._ids = ids
        self._total = len(ids)

    def selected(self) -> range:
        """The blocks it means."""
        if not self._text:
            raise self._refusal("empty")
        left, colon, right = self._text.partition(":")
        if not colon:
            return self._single(left)
        count = _COUNT.fullmatch(right)
        anchored = bool(left) and left != "BEGIN" and not _INDEX.fullmatch(left)
        if count is not None and anchored:
            return self._counted(left, count["sign"], int(count["count"]))
        if right.startswith("+") and count is not None:
            raise self._refusal("anchor", right)
        start, stop = self._end(left, "BEGIN"), self._end(right, "END")
        if not isinstance(start, str) and not isinstance(stop, str):
            return self._indexed(start or 0, stop)
        first, last = self._first(start), self._last(stop)
        if first >= last:
            raise self._refusal("reversed")
        return range(first, last)

    def _single(self, part: str) -> range:
        at = self._end(part, "")
        if isinstance(at, str):
            place = self._place(at)
            return range(place, place + 1)
        return range(self._first(at), self._total)

    def _counted(self, anchor: str, sign: str, count: int) -> range:
        place = self._place(str(self._end(anchor, "BEGIN")))
        if not count:
            raise self._refusal("count", f"{sign}{count}")
        if sign == "+":
            return range(place, min(place + count, self._total))
        return range(max(place + 1 - count, 0), place + 1)

    def _indexed(self, start: int, stop: int | None) -> range:
        """Both ends by index; reversed if they are so for any number of blocks."""
        if stop is not None and (start < 0) == (stop < 0) and start >= stop:
            raise self._refusal("reversed")
        first, last = self._first(start), self._last(stop)
        return range(first, max(first, last))

    def _end(self, part: str, keyword: str) -> int | str | None:
        """An end: an index, an id, or None for the keyword and for nothing."""
        if part == keyword or not part:
            return None
        if _INDEX.fullmatch(part):
            return int(part)
        if part in ("BEGIN", "END"):
            raise self._refusal("keyword", part)
        if not is_block_id(part):
            raise self._refusal("form", part)
        return part

    def _first(self, end: int | str | None) -> int:
        """The index that an end means, where it is the start."""
        if end is None:
            return 0
        if isinstance(end, str):
            return self._place(end)
        return min(end, self._total) if end >= 0 else max(self._total + end, 0)

    def _last(self, end: int | str | None) -> int:
        """The index after the last block that an end means."""
        if end is None:
            return self._total
        return self._place(end) + 1 if isinstance(end, str) else self._first(end)

    def _place(self, block_id: str) -> int:
        if block_id in self._ids:
            return self._ids.index(block_id)
        lower = block_id.upper() in ("BEGIN", "END")
        raise self._refusal("keyword" if lower else "unknown", block_id)

    def _refusal(self, reason: SliceReason, part: str | None = None) -> InvalidSlice:
        told = None if part is None else shown(part)
        return InvalidSlice(shown(self._text), reason, self._total, told)
