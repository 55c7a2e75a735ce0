"""Which lines of files an answer shows whole: by the hunks of its diff, also where that was cut.

Invariant: a line of which a part was left out is not among them, nor one that only may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from copydesk.desk.backends.shown import Run, ShownLines, join
from copydesk.errors import LineShown, Refusal
from copydesk.text.relpath import RelPath
from copydesk.text.unified import HUNK_HEAD, DiffText, quoted, read_diff

_LEFT_OUT = "…["
"""What stands in the place of characters that were left out of a line."""

_CUT = re.compile(r"\(\+\d+ characters\)")
"""What stands where a line of a refusal was cut."""

_LONGEST = 2_000
"""A line of more characters may have been cut."""

MOST_LINES = 20_000
"""So many lines of a diff are looked at."""


@dataclass(frozen=True, slots=True)
class FileLines:
    """The lines of one file that its diff shows: of the text before, and of the one after."""

    old: tuple[Run, ...]
    new: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a report shows of one version of a file.

    `side`: that of the diff of its file, the first of which is 0. `evidence` tells which lines
    stand among the fields. `total`: how many lines the version has; 0 where nobody has counted.
    `real` is the real path, where it is known.
    """

    path: RelPath
    version: str
    total: int = 0
    side: Literal["old", "new"] | None = None
    file: int = 0
    evidence: Callable[[], Iterable[Run]] = tuple
    real: RelPath | None = None

    def lines(self, files: Sequence[FileLines], *, fields: bool) -> ShownLines:
        """The lines, when the diff shows those of `files`; `fields`: these are shown."""
        runs = [*self.evidence()] if fields else []
        if self.side and self.file < len(files):
            runs += files[self.file].old if self.side == "old" else files[self.file].new
        return ShownLines(self.version, self.total, join(runs), read=False)


def view_of(refusal: Refusal, path: RelPath, version: str | None = None) -> tuple[View, ...]:
    """What a refusal shows of a file, which is `version` where the refusal does not say it."""
    found = getattr(refusal, "current_version", None) or getattr(refusal, "version", version)
    if not found:
        return ()
    runs: list[Run] = []
    for name in ("current", "candidates", "closest"):
        told: Iterable[LineShown] = getattr(refusal, name, None) or ()
        for one in told:
            for line, text in ((one.line, one.text), (one.end_line, one.end_text)):
                if line and text is not None and not _CUT.search(text):
                    runs.append((line - 1, line))
    return (View(path, found, evidence=lambda: runs),) if runs else ()


def views_of(
    versions: Mapping[RelPath, str], diffs: Iterable[tuple[bytes, object]]
) -> tuple[View, ...]:
    """What the diffs of some files, one for each, show of the versions after them."""
    heads = {path: b"diff --git " + quoted(f"a/{path}") + b" " for path in versions}
    return tuple(
        View(path, versions[path], side="new", file=at)
        for at, (diff, _) in enumerate(diffs)
        for path, head in heads.items()
        if diff.startswith(head)
    )


def lines_in(diff: Sequence[str], wanted: range | None = None) -> list[FileLines]:
    """What the lines of a diff show of each of its files, in their order.

    `wanted`: of these lines of the diff, counted from 0, alone. Where lines were left out of a
    hunk, those after the last gap are counted from its end.
    """
    files: list[tuple[list[Run], list[Run]]] = []
    hunk: list[tuple[int, DiffText]] = []
    for at, line in enumerate(read_diff(diff[:MOST_LINES])):
        starts = not line.sign and line.text.startswith("diff --git ")
        if starts or line.sign == "@":
            _add(hunk, files, wanted)
            hunk = []
        if starts:
            files.append(([], []))
        elif line.sign == "@" or hunk:
            hunk.append((at, line))
    _add(hunk, files, wanted)
    return [FileLines(join(old), join(new)) for old, new in files]


def _add(
    hunk: Sequence[tuple[int, DiffText]],
    files: Sequence[tuple[list[Run], list[Run]]],
    wanted: range | None,
) -> None:
    """Add the lines of a hunk, whose first one is its head, to those of the last file."""
    if not hunk or not files:
        return
    (_, head), *lines = hunk
    gaps = [i for i, (_, line) in enumerate(lines) if not line.sign and line.text]
    for at, line in lines[: gaps[0]] if gaps else lines:
        _show(files[-1], at, line, line.old, line.new, wanted)
    found = HUNK_HEAD.match(head.text)
    assert found is not None, "it was read as a head"
    old, new = head.old + int(found[2] or 1), head.new + int(found[4] or 1)
    for at, line in reversed(lines[gaps[-1] + 1 :] if gaps else ()):
        old -= line.sign in (" ", "-")
        new -= line.sign in (" ", "+")
        _show(files[-1], at, line, old, new, wanted)


def _show(
    file: tuple[list[Run], list[Run]],
    at: int,
    line: DiffText,
    old: int,
    new: int,
    wanted: range | None,
) -> None:
    text = line.text
    cut = _LEFT_OUT in text or _CUT.search(text) or len(text) > _LONGEST
    if cut or (wanted is not None and at not in wanted):
        return
    if line.sign in (" ", "-"):
        file[0].append((old, old + 1))
    if line.sign in (" ", "+"):
        file[1].append((new, new + 1))
