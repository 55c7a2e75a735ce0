"""Lines that hold or equal a text, and lines that are close to it.

What lives here: exact search by line, and the near misses for a refusal. What
must not: any choice among candidates, and no near miss is ever a match.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from copydesk.errors import EncodingRefused
from copydesk.text.common import Common
from copydesk.text.encoding import UTF8
from copydesk.text.likely import likely
from copydesk.text.plain import Plain
from copydesk.text.snapshot import Snapshot

_CLOSE = 0.6
_CANDIDATES = 64
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

    Bounded on any file: candidates are the lines that share the rarest pieces
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
    """Lines that share pieces with `wanted`, in its own case or in lower case, rare ones first."""
    if base.line_count <= 300:
        return list(range(base.line_count))
    try:
        data = Plain.of(base).data
    except EncodingRefused:
        return []
    found = likely(data, [wanted.encode()], _CANDIDATES)[0]
    return list(dict.fromkeys(spot.line for spot in found))
