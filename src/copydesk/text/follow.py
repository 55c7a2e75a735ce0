"""Where a span of an older text stands in a newer one, by the very changes made in between.

What lives here: the span's way through changes that are known. What must not:
equal lines, likeness, guesses (`copydesk.text.carry` has those). Invariant: the
bytes of a span that was followed are the same bytes, not equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from copydesk.text.change import ChangeSet


@dataclass(frozen=True, slots=True)
class Followed:
    """The span starts at byte `start` of the newer text; its length is what it was."""

    start: int


@dataclass(frozen=True, slots=True)
class Met:
    """A change replaced `old` bytes by `new` ones, some of the span's or between them."""

    old: int
    new: int


def follow(start: int, stop: int, inverses: Iterable[ChangeSet]) -> Followed | Met:
    """Follow the bytes [start, stop), at least one, through changes that are known.

    `inverses` are those of the changes, the first change first; each takes the
    text after its change back to the one before. -1 for `start`, and one more
    than there are bytes for `stop`, stand for the two ends of the text, so that
    an insertion there is one between the span's bytes.

    Laws: a span is followed exactly when no change replaces a byte of it or
    inserts strictly within it; then the newer text has there what the older had;
    two spans that share no byte keep their order.
    """
    for inverse in inverses:
        shift = 0
        for edit in inverse.edits:
            first = edit.start - shift
            last = first + len(edit.new)
            if first >= stop:
                break
            if last > start:
                return Met(last - first, edit.stop - edit.start)
            shift += edit.stop - edit.start - len(edit.new)
        start, stop = start + shift, stop + shift
    return Followed(start)
