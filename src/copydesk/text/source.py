"""Where a text comes from when an edit is made: all of it at hand, or a large file.

What lives here: what an edit asks before it knows its lines. What must not:
files (the store has the large ones). Law: for one content every source gives
the same answers, but for what they refuse as too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from copydesk.text.find import closest_lines
from copydesk.text.seek import Hits, Sought, hits_of
from copydesk.text.snapshot import Snapshot, Text


class Source(Protocol):
    """One text at one moment. May raise BinaryFile, FileTooLarge, and what its store raises."""

    @property
    def size(self) -> int:
        """How many bytes there are."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hex."""
        ...

    @property
    def version(self) -> str:
        """The short name of this content that callers hand back."""
        ...

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        ...

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        """The lines that match each text."""
        ...

    def close_to(self, text: str) -> Sequence[int]:
        """The few lines, 0-based, that are most like the text, the closest first."""
        ...

    def around(self, start: int, stop: int) -> Text:
        """The text with lines [start, stop), 0-based, those around and the end at hand."""
        ...

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        """The text with the lines that hold the bytes [start, stop) of each span at hand.

        With those around them, and the end.
        """
        ...

    def whole(self) -> Snapshot:
        """The text with all its lines at hand."""
        ...


class Whole:
    """A text that is all at hand."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base

    @property
    def size(self) -> int:
        return self._base.size

    @property
    def digest(self) -> str:
        return self._base.digest

    @property
    def version(self) -> str:
        return self._base.version

    @property
    def line_count(self) -> int:
        return self._base.line_count

    def seek(self, sought: Sequence[Sought]) -> tuple[Hits, ...]:
        bom, found = self._base.encoding.bom, hits_of(sought)
        data = self._base.data[len(bom) :] if bom else self._base.data
        for hits in found:
            hits.take(data, self._base.encoding, 0)
        return found

    def close_to(self, text: str) -> Sequence[int]:
        return closest_lines(self._base, text)

    def around(self, start: int, stop: int) -> Text:
        return self._base

    def holding(self, spans: Sequence[tuple[int, int]]) -> Text:
        return self._base

    def whole(self) -> Snapshot:
        return self._base
