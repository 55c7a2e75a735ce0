"""Read the lines of files.

Invariant: no more is shown than requested, and an answer says what was cut.
"""

from __future__ import annotations

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
from copydesk.text.sizes import tokens
from copydesk.text.snapshot import VERSION_LENGTH, Facts, Snapshot, newline_style

MOST_LINES = 500
MOST_CHARACTERS = 100_000
_AT_ONCE = 64
_NUMBER = 5  # tokens of a line number and its separator


def read_lines(
    path: RelPath,
    base: Snapshot,
    mtime_ms: int,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """The lines of `range_text` ("": the file) that may be shown; `most_tokens` with numbers."""
    start, stop = _wanted(range_text, base.line_count)
    lines, cut, within = _shown(base, start, min(stop, start + most_lines), most_tokens)
    return Reading(
        path=path,
        first_line=start + 1,
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
        last_wanted=stop,
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
    wanted = first_line_of(range_text) if last is None else last
    window_bytes = 4 * MOST_CHARACTERS + 4
    found = files.window(path, wanted, window_bytes, named, last=last is not None)
    if (found.stamp.dev, found.stamp.ino) != (stamp.dev, stamp.ino):
        raise Failed("read", "EBUSY: the file changes while it is read")
    facts, encoding = found.facts, found.encoding
    window = Snapshot(found.data, Encoding(encoding.name, b"", encoding.unit))
    have, digest = window.line_count, None if facts is None else facts.digest
    parted = found.more and not window.ends_with_newline
    if parted and have > 1:
        have, parted = have - 1, False
    if facts is None:
        start, stop = 0, last or 0
        stop = min(stop, have) if not found.more else stop
    else:
        start, stop = _wanted(range_text, facts.line_count)
    most = min(stop - start, most_lines)
    lines, cut, within = _shown(window, 0, min(most, have), most_tokens)
    within = within or (parted and bool(lines))
    short = found.more and not cut and len(lines) < most
    return Reading(
        path=path,
        first_line=None if facts is None else start + 1,
        lines=lines,
        size_bytes=found.stamp.size,
        encoding=encoding.label,
        total_lines=None if facts is None else facts.line_count,
        version=None if digest is None else digest[:VERSION_LENGTH],
        newline_style=None if facts is None else newline_style(*facts.newline_counts),
        ends_with_newline=_closed(window, facts, more=found.more),
        cut_by_lines=not (cut or short) and stop - start > len(lines),
        cut_by_characters=cut or short or within,
        cut_in_line=within,
        last_wanted=stop,
        mtime_ms=found.stamp.mtime_ns // 1_000_000,
        digest=digest,
    )


def _closed(window: Snapshot, facts: Facts | None, *, more: bool) -> bool | None:
    if facts is not None:
        return facts.ends_with_newline
    return None if more else window.ends_with_newline


def _shown(
    base: Snapshot, start: int, stop: int, most_tokens: int | None
) -> tuple[tuple[str, ...], bool, bool]:
    """Lines [start, stop) within limits, whether these cut them, and whether within a line."""
    lines: list[str] = []
    left, room = MOST_CHARACTERS, most_tokens
    for first in range(start, stop, _AT_ONCE):
        texts = base.texts(first, min(first + _AT_ONCE, stop))
        size = sum(map(len, texts)) + len(texts)
        if room is None and size <= left:
            lines += texts
            left -= size
            continue
        for text in texts:
            kept = text[:left]
            while room is not None and tokens(kept) > room:
                kept = kept[: len(kept) // 2]
            if len(kept) < len(text):
                return (tuple(lines), True, False) if lines else ((kept,), True, True)
            lines.append(text)
            left -= len(text) + 1
            room = None if room is None else max(room - tokens(text) - _NUMBER, 0)
    return tuple(lines), False, False


def _wanted(text: str, total: int) -> tuple[int, int]:
    if not text:
        return 0, total
    last = tail_count(text)
    if last is not None:
        return max(total - last, 0), total
    start, stop = resolve_range(text, total)
    if start == stop and total:
        raise RangeOutOfBounds(text, total)
    return start, stop
