"""Which lines of which version of a file a member was shown, and what of that an edit keeps.

Invariant: a run holds no line that was not shown whole, or written whole by the member itself;
what is beyond a bound is forgotten, never assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from copydesk.text.relpath import RelPath

Run = tuple[int, int]
"""Lines [start, stop), 0-based."""

MOST_SHOWN = 4096
"""Of how many members, files and versions it is known which lines were shown."""

VERSIONS = 8
"""Of so many versions of a file that a member read it is known what it was shown, and of as many
others."""

MOST_RUNS = 200
"""So many runs of one version are remembered."""

_UNREAD = "unread"
_END = 1 << 62


@dataclass(frozen=True, slots=True)
class ShownLines:
    """Which lines of one version of a file a member was shown: runs in order that do not touch.

    `version` is empty, and the runs are, where only the end of a large file was read, of which
    no version is known. `read`: some were shown by reading the file, not by a search, a plan or
    a report alone.
    """

    version: str
    total: int
    runs: tuple[Run, ...]
    read: bool = True

    @property
    def complete(self) -> bool:
        """Whether all of that version was shown."""
        return bool(self.version) and sum(stop - start for start, stop in self.runs) == self.total

    def lacks(self, start: int, stop: int) -> tuple[Run, ...]:
        """Which of the lines [start, stop) were not shown."""
        found: list[Run] = []
        for first, last in self.runs:
            if first > start and start < stop:
                found.append((start, min(first, stop)))
            start = max(start, last)
        return (*found, (start, stop)) if start < stop else tuple(found)

    def joined(self, other: ShownLines | None) -> ShownLines:
        """With what else was shown of this version; beyond the bound these lines come first."""
        if other is None or other.version != self.version:
            return self
        runs = join((*self.runs, *other.runs))
        if len(runs) > MOST_RUNS:
            mine = [run for run in runs if not self._leaves_out(run)]
            rest = [run for run in runs if self._leaves_out(run)]
            runs = tuple(sorted([*mine, *rest][:MOST_RUNS]))
        total = max(self.total, other.total)  # 0 where who noted it did not know
        return ShownLines(self.version, total, runs, self.read or other.read)

    def encoded(self) -> str:
        """The runs as words."""
        words = [f"{start}-{stop}" for start, stop in self.runs]
        return " ".join(words if self.read else [_UNREAD, *words])

    @staticmethod
    def decoded(version: str, total: int, words: Sequence[str]) -> ShownLines:
        """The lines, their runs as words; raises ValueError for what are none."""
        read = _UNREAD not in words[:1]
        pairs = (word.split("-") for word in words[not read :] if word)
        runs = tuple((int(start), int(stop)) for start, stop in pairs)
        return ShownLines(version, total, runs, read)

    def _leaves_out(self, run: Run) -> bool:
        return all(stop <= run[0] or start >= run[1] for start, stop in self.runs)


@dataclass(frozen=True, slots=True)
class LineChange:
    """What a member's change does to lines.

    `regions` are lines [start, stop) before it, 0-based, in order, each with the number of lines
    that stand in their place after it. `written` are lines after it that the member gave whole.
    `amended`: the new lines of a region are known too where all its old ones are.
    """

    regions: tuple[tuple[int, int, int], ...]
    written: tuple[Run, ...] = ()
    amended: bool = False

    def carried(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """The lines after the change that are known to one who knows these lines before it."""
        known = list(self.written)
        at = shift = i = 0
        for start, stop, count in (*self.regions, (_END, _END, 0)):
            while i < len(runs) and runs[i][1] <= at:
                i += 1
            j = i
            while j < len(runs) and runs[j][0] < start:
                known.append((max(runs[j][0], at) + shift, min(runs[j][1], start) + shift))
                j += 1
            j -= j > i and runs[j - 1][1] > start
            whole = j < len(runs) and runs[j][0] <= start < stop <= runs[j][1]
            if self.amended and whole:
                known.append((start + shift, start + shift + count))
            at, shift = stop, shift + count - (stop - start)
        return join(known)


@dataclass(frozen=True, slots=True)
class CarriedLines:
    """What a member knows of a version that its changes have made of another one."""

    before: str
    version: str
    total: int
    changes: tuple[LineChange, ...]

    def upon(self, known: ShownLines | None) -> ShownLines:
        """The lines of it that are known to one who knows these lines of the version before."""
        runs = known.runs if known else ()
        for change in self.changes:
            runs = change.carried(runs)
        within = ((start, min(stop, self.total)) for start, stop in runs[:MOST_RUNS])
        return ShownLines(self.version, self.total, join(within), read=False)


Lines = ShownLines | CarriedLines


@dataclass(frozen=True, slots=True)
class Note:
    """What a member was shown of the file at a real path, or wrote; a function tells it later."""

    member: str
    at: RelPath
    lines: Lines | Callable[[], Lines]

    def ready(self) -> Note:
        """The same with what its function tells, which may take a while."""
        return replace(self, lines=self.lines()) if callable(self.lines) else self

    def found(self, known: Callable[[str], ShownLines | None]) -> ShownLines | None:
        """All that is known now of the version, with what was `known` before; None for nothing."""
        lines = self.lines() if callable(self.lines) else self.lines
        if isinstance(lines, CarriedLines):
            lines = lines.upon(known(lines.before))
        if not lines.runs and not lines.read:
            return None
        return lines.joined(known(lines.version) if lines.version else None)


def join(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The runs in order, those that meet or touch as one, and none without a line."""
    found: list[Run] = []
    for start, stop in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return tuple(found)
