"""Lines that match texts, found in one pass over a file that comes in blocks.

What lives here: what is sought, and the lines found, as many as are kept. What
must not: files, any choice among the lines. Invariant: memory is bounded,
whatever the file has in it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.text.encoding import Encoding
from copydesk.text.find import found_in

KEPT = 1 << 20
"""So many lines are kept by their numbers; more are only counted."""

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Sought:
    """A text that a line holds or (`whole`) is.

    `ends`: of the one before this, the first such line after each line is
    wanted, and of the others none but the first few. `escaped`: the text is sought as it
    was shown, bytes by their `\\xNN`.
    """

    text: str
    whole: bool = False
    ends: bool = False
    escaped: bool = False


class Hits:
    """The lines that match one text, 0-based, in order: the first ones, and how many."""

    def __init__(self, sought: Sought, starts: Hits | None = None) -> None:
        self.sought = sought
        self.count = 0
        self.last = -1
        self._lines = array("q")
        self._starts = starts if sought.ends else None
        self._looked = 0

    @property
    def lines(self) -> Sequence[int]:
        """The lines that are kept."""
        return self._lines

    def take(self, data: bytes, encoding: Encoding, first_line: int) -> None:
        """Look at the next whole lines, of which `first_line` is the first."""
        sought = self.sought
        for line in found_in(
            data, encoding, sought.text, whole=sought.whole, escaped=sought.escaped
        ):
            self._add(first_line + line)

    def _add(self, line: int) -> None:
        self.count += 1
        self.last = line
        if len(self._lines) < KEPT and (self._starts is None or self._closes(line)):
            self._lines.append(line)

    def _closes(self, line: int) -> bool:
        """Whether a line of the other text stands between the last line kept and this one."""
        starts = self._starts.lines if self._starts else ()
        before = self._looked
        self._looked = bisect_left(starts, line, before)
        return self._looked > before or len(self._lines) < _SHOWN


def hits_of(sought: Sequence[Sought]) -> tuple[Hits, ...]:
    """Empty hits for each text, those that end another one bound to it."""
    made: list[Hits] = []
    for each in sought:
        made.append(Hits(each, made[-1] if made else None))
    return tuple(made)
