"""Lines that hold or equal a text, and lines that are close to it.

What lives here: exact search by line, and the near misses for a refusal. What
must not: any choice among candidates, and no near miss is ever a match.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from copydesk.errors import EncodingRefused
from copydesk.text.snapshot import Snapshot

_CLOSE = 0.6
_PROBES = 8
_HITS = 64
_COMPARED = 400


def matching_lines(base: Snapshot, text: str, *, whole: bool) -> list[int]:
    """The lines, 0-based, whose shown text equals `text` (`whole`) or contains it."""
    if base.encoding.name == "utf-8":
        return _by_bytes(base, text.encode(), whole=whole)
    shown = (base.text(line) for line in range(base.line_count))
    if whole:
        return [line for line, have in enumerate(shown) if have == text]
    return [line for line, have in enumerate(shown) if text in have]


def closest_lines(base: Snapshot, text: str, most: int = 3) -> list[int]:
    """Up to `most` lines, 0-based, that are most like `text`, the closest first.

    Bounded on any file: candidates are the lines that share one of a few pieces
    of the text, and only their first characters are compared.
    """
    wanted = text.strip()[:_COMPARED]
    scored: list[tuple[float, int]] = []
    for line in _candidates(base, wanted):
        have = base.text(line).strip()[: 2 * _COMPARED]
        matcher = SequenceMatcher(None, wanted.casefold(), have.casefold(), autojunk=False)
        similarity = matcher.ratio()
        if len(have) > len(wanted):
            size = sum(block.size for block in matcher.get_matching_blocks())
            similarity = max(similarity, 0.9 * size / len(wanted))
        if similarity >= _CLOSE:
            scored.append((-similarity, line))
    return [line for _, line in sorted(scored)[:most]]


def _by_bytes(base: Snapshot, wanted: bytes, *, whole: bool) -> list[int]:
    """UTF-8 is self-synchronising, so a find in the bytes is a find in the text."""
    found: list[int] = []
    data, at = base.data, len(base.encoding.bom)
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
        if not piece.strip():
            continue
        try:
            raw = base.encoding.encode(piece)
        except EncodingRefused:
            continue  # the file cannot hold this piece, so no line of it does
        at, hits = 0, 0
        while hits < _HITS and (at := base.data.find(raw, at)) >= 0:
            line = base.line_at(at)
            lines[line] = lines.get(line, 0) + 1
            at, hits = base.start(min(line + 1, base.line_count)), hits + 1
            if at >= len(base.data):
                break
    best = sorted(lines, key=lambda line: -lines[line])
    return best[:64]
