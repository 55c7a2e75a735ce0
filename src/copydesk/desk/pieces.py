"""A change of a text as the pieces that the store writes.

What lives here: that one step. What must not: files.
"""

from __future__ import annotations

from collections.abc import Iterator

from copydesk.store.protocol import Kept, Piece
from copydesk.text.change import ChangeSet


def kept_and_new(change: ChangeSet) -> Iterator[Piece]:
    """The new content, what is kept of the old one being left to the store to copy."""
    at = 0
    for edit in change.edits:
        yield Kept(at, edit.start)
        yield edit.new
        at = edit.stop
    yield Kept(at, change.length)
