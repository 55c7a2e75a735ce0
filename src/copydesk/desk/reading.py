"""Read the lines of files.

Invariant: no more is shown than requested, and an answer says what was cut. A range is cut at its
end, one that is counted from the end of the file at its start.
"""

from __future__ import annotations

from math import inf

from copydesk.desk.outcome import Reading
from copydesk.edit.kinds.lines import first_line_of, resolve_range, tail_count
from copydesk.errors import (
    Failed,
    RangeOutOfBounds,
)
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.sizes import counted
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, newline_style

MOST_CHARACTERS = 100_000
_AT_ONCE = 64
_NUMBER = 2  # tokens of a line number below 1,000 and the line end; its separator joins a word


def read_lines(
    path: RelPath,
    base: Snapshot,
    mtime_ms: int,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """The lines of `range_text` ("": the file) that may be shown, `most_lines` of them (0: all).

    `most_tokens` are those of the lines with their numbers.
    """
    start, stop, clipped = wanted(range_text, base.line_count)
    limits = most_lines, most_tokens
    lines, at, cut, within = _shown(base, start, stop, *limits, tail=range_text.startswith("-"))
    return Reading(
        path=path,
        first_line=at + 1,
        lines=lines,
        size_bytes=base.size,
        encoding=base.encoding.label,
        total_lines=base.line_count,
        version=base.version,
        newline_style=base.newline_style,
        ends_with_newline=base.ends_with_newline,
        cut_by_lines=not cut and stop - start > len(lines),
        cut_by_characters=cut,
        cut_in_line=within,
        wanted=(start, stop),
        clipped=clipped,
        mtime_ms=mtime_ms,
        digest=base.digest,
    )


def read_large(
    path: RelPath,
    stamp: Stamp,
    files: Files,
    named: str | None,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """Like `read_lines`, for any size, in bounded memory; Failed if it is not the stamp's file."""
    last = tail_count(range_text)
    first = first_line_of(range_text)
    if last is not None:
        first = min(last, most_lines or MOST_CHARACTERS)
    window_bytes = 4 * MOST_CHARACTERS + 4
    found = files.window(path, first, window_bytes, named, last=last is not None)
    while last is not None and found.more and first > 1:  # its end is what was asked for
        first //= 2
        found = files.window(path, first, window_bytes, named, last=True)
    if (found.stamp.dev, found.stamp.ino) != (stamp.dev, stamp.ino):
        raise Failed("read", "EBUSY: the file changes while it is read")
    facts, encoding = found.facts, found.encoding
    window = Snapshot(found.data, Encoding(encoding.name, b"", encoding.unit))
    have, digest = window.line_count, None if facts is None else facts.digest
    parted = found.more and not window.ends_with_newline
    if parted and have > 1:
        have, parted = have - 1, False
    if facts is None:
        start, stop, clipped = 0, have, False
    else:
        start, stop, clipped = wanted(range_text, facts.line_count)
    most = min(stop - start, have)
    limits = most_lines, most_tokens
    lines, _, cut, within = _shown(window, 0, most, *limits, tail=facts is None, number=start)
    within = within or (parted and bool(lines))
    asked = stop - start if last is None else first
    most = min(asked, most_lines) if most_lines else asked
    cut = cut or within or (found.more and len(lines) < most)
    is_less = stop - start > len(lines) or (last is not None and len(lines) == first < last)
    closed = window.ends_with_newline if facts is None else facts.ends_with_newline
    return Reading(
        path=path,
        first_line=None if facts is None else start + 1,
        lines=lines,
        size_bytes=found.stamp.size,
        encoding=encoding.label,
        total_lines=None if facts is None else facts.line_count,
        version=None if digest is None else digest[:VERSION_LENGTH],
        newline_style=None if facts is None else newline_style(*facts.newline_counts),
        ends_with_newline=None if facts is None and found.more else closed,
        cut_by_lines=not cut and is_less,
        cut_by_characters=cut,
        cut_in_line=within,
        wanted=(start, stop),
        clipped=clipped,
        mtime_ms=found.stamp.mtime_ns // 1_000_000,
        digest=digest,
    )


def _shown(
    base: Snapshot,
    start: int,
    stop: int,
    most_lines: int,
    most_tokens: int | None,
    *,
    tail: bool,
    number: int = 0,
) -> tuple[tuple[str, ...], int, bool, bool]:
    """Lines of [start, stop) within limits, where they start, whether a limit cut them, or a line.

    `tail`: the last of the lines instead of the first. `number`: that of the first line of `base`.
    """
    lines: list[str] = []
    left, room = MOST_CHARACTERS, inf if most_tokens is None else most_tokens
    count = min(stop - start, most_lines or stop - start)
    order = range(stop - 1, stop - 1 - count, -1) if tail else range(start, start + count)
    cut = within = False
    for line in order:
        text = base.text(line)
        beside = _NUMBER + len(str(number + line)) // 4 + text[:1].isdigit()
        kept = text[: max(left, 0)]
        while kept and counted(kept) + beside > room:
            kept = kept[: len(kept) // 2]
        cut = len(kept) < len(text) or room < beside
        if cut:
            within = not lines
            lines += [kept] * within
            break
        lines.append(text)
        left -= len(text) + 1
        room -= counted(text) + beside
    if tail:
        return tuple(reversed(lines)), stop - len(lines), cut, within
    return tuple(lines), start, cut, within


def wanted(text: str, total: int) -> tuple[int, int, bool]:
    """The lines [start, stop) that a range names, and whether it goes past the end."""
    if not text:
        return 0, total, False
    last = tail_count(text)
    if last is not None:
        return max(total - last, 0), total, False
    try:
        start, stop = resolve_range(text, total)
    except RangeOutOfBounds:
        start = first_line_of(text)
        if start >= total:
            raise
        return start, total, True
    if start == stop and total:
        raise RangeOutOfBounds(text, total)
    return start, stop, False
