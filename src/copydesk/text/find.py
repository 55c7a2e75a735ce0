"""Lines that hold or equal a text, and lines that are close to it.

What lives here: exact search by line, and the near misses for a refusal. What
must not: any choice among candidates, and no near miss is ever a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from copydesk.errors import EncodingRefused
from copydesk.text.common import Common
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot

_CLOSE = 0.6
_PROBES = 8
_HITS = 64
_COMPARED = 200
_SCORED = 16


def matching_lines(base: Snapshot, text: str, *, whole: bool) -> list[int]:
    """The lines, 0-based, whose shown text equals `text` (`whole`) or contains it."""
    if base.encoding == UTF8:
        return _by_bytes(base, text.encode(), whole=whole)
    shown = (base.text(line) for line in range(base.line_count))
    if whole:
        return [line for line, have in enumerate(shown) if have == text]
    return [line for line, have in enumerate(shown) if text in have]


def closest_lines(base: Snapshot, text: str, most: int = 3) -> list[int]:
    """Up to `most` lines, 0-based, that are most like `text`, the closest first.

    Bounded on any file: candidates are the lines that share one of a few pieces
    of the text, only their first characters are compared, and only those with
    the longest common subsequence are compared by their blocks (which is cubic).
    """
    wanted = text.strip()[:_COMPARED].casefold()
    if not wanted:
        return []
    heads = {line: _head(base, line) for line in _candidates(base, text.strip()[:_COMPARED])}
    likely = sorted(heads, key=lambda line: (-_bound(wanted, heads[line]), line))[:_SCORED]
    scored: list[tuple[float, int]] = []
    for line in likely:
        matcher = SequenceMatcher(None, wanted, heads[line], autojunk=False)
        size = sum(block.size for block in matcher.get_matching_blocks())
        similarity = _similarity(size, wanted, heads[line])
        if similarity >= _CLOSE:
            scored.append((-similarity, line))
    return [line for _, line in sorted(scored)[:most]]


def _head(base: Snapshot, line: int) -> str:
    """The start of the line, as far as it is compared."""
    return base.encoding.decode(base.key(line)[: 8 * _COMPARED]).strip()[: 2 * _COMPARED].casefold()


def _similarity(same: int, wanted: str, have: str) -> float:
    """From 0 to 1, for so many equal characters; a longer line may hold the text within."""
    ratio = 2 * same / (len(wanted) + len(have))
    return max(ratio, 0.9 * same / len(wanted)) if len(have) > len(wanted) else ratio


def _bound(wanted: str, have: str) -> float:
    """A similarity that no comparison by blocks exceeds, at a small cost."""
    common = Common(wanted)
    common.take(have)
    return _similarity(common.length(), wanted, have)


def _by_bytes(base: Snapshot, wanted: bytes, *, whole: bool) -> list[int]:
    """Valid UTF-8 is self-synchronising, so a find in the bytes is a find in the text.

    A file with a byte order mark may hold anything after it, and is shown otherwise.
    """
    found: list[int] = []
    data, at = base.data, 0
    while (at := data.find(wanted, at)) >= 0:
        line = base.line_at(at)
        stop = base.start(line + 1)
        if not whole or base.key(line) == wanted:
            inside = at + len(wanted) <= stop - len(base.terminator(line))
            if inside:
                found.append(line)
        at = stop
    return found


def _candidates(base: Snapshot, wanted: str) -> list[int]:
    """Lines that hold one of a few pieces of `wanted`, in its own case or in lower case."""
    if base.line_count <= 300:
        return list(range(base.line_count))
    size = min(5, len(wanted))
    step = max((len(wanted) - size) // _PROBES, 1)
    lines: dict[int, int] = {}
    for offset in range(0, max(len(wanted) - size, 0) + 1, step)[: 2 * _PROBES]:
        piece = wanted[offset : offset + size]
        for cased in dict.fromkeys((piece, piece.lower())) if piece.strip() else ():
            for line in _holding(base, cased):
                lines[line] = lines.get(line, 0) + 1
    best = sorted(lines, key=lambda line: -lines[line])
    return best[:64]


def _holding(base: Snapshot, piece: str) -> Iterator[int]:
    """The first lines that hold the piece; in wide encodings, that may hold it."""
    try:
        raw = base.encoding.encode(piece)
    except EncodingRefused:
        return  # the file cannot hold this piece, so no line of it does
    at = base.start(0)
    for _ in range(_HITS):
        at = base.data.find(raw, at)
        if at < 0:
            return
        line = base.line_at(at)
        yield line
        at = base.start(line + 1)
