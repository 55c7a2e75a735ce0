"""Reading a file: some of its lines, with what a later edit needs to know of it.

What lives here: which lines are shown and what cuts them. What must not: how
they are laid out. Invariant: no more than asked for and allowed is shown, and
what was cut is said.
"""

from __future__ import annotations

from copydesk.desk.bases import Bases
from copydesk.desk.outcome import Reading
from copydesk.edit import ranges
from copydesk.errors import RangeOutOfBounds
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

MOST_LINES = 500
MOST_CHARACTERS = 100_000


def read_lines(
    path: RelPath,
    base: Snapshot,
    mtime_ms: int,
    range_text: str,
    most_lines: int,
    bases: Bases,
) -> Reading:
    """The lines that `range_text` names ("" is the whole file), as many as may be shown."""
    bases.keep(base)
    start, stop = _wanted(range_text, base.line_count)
    lines: list[str] = []
    left, cut = MOST_CHARACTERS, False
    for line in range(start, min(stop, start + most_lines)):
        text = base.text(line)
        if len(text) > left:
            cut = True
            if not lines:
                lines.append(text[:left])
            break
        lines.append(text)
        left -= len(text) + 1
    return Reading(
        path=path,
        first_line=start + 1,
        lines=tuple(lines),
        size_bytes=len(base.data),
        encoding=base.encoding.label,
        total_lines=base.line_count,
        version=base.version,
        newline_style=base.newline_style,
        ends_with_newline=base.ends_with_newline,
        cut_by_lines=not cut and stop - start > len(lines),
        cut_by_characters=cut,
        last_wanted=stop,
        mtime_ms=mtime_ms,
        digest=base.digest,
    )


def _wanted(text: str, total: int) -> tuple[int, int]:
    if not text:
        return 0, total
    last = ranges.tail(text)
    if last is not None:
        return max(total - last, 0), total
    start, stop = ranges.resolve(text, total)
    if start == stop and total:
        raise RangeOutOfBounds(text, total)
    return start, stop
