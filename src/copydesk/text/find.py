"""Lines that hold or equal a text, and lines that are close to it.

What lives here: exact search by line, and the near misses for a refusal. What
must not: any choice among candidates, and no near miss is ever a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import AnyStr

from copydesk.errors import EncodingRefused
from copydesk.text.common import Common
from copydesk.text.encoding import UTF8, Encoding
from copydesk.text.escapes import has_raw
from copydesk.text.likely import likely
from copydesk.text.plain import Plain
from copydesk.text.snapshot import Snapshot

_CLOSE = 0.6
_CANDIDATES = 64
_COMPARED = 200
_SCORED = 16
_FEW = 300


def matching_lines(base: Snapshot, text: str, *, whole: bool) -> list[int]:
    """The lines, 0-based, whose shown text equals `text` (`whole`) or contains it."""
    body = base.data[len(base.encoding.bom) :] if base.encoding.bom else base.data
    return list(found_in(body, base.encoding, text, whole=whole))


def found_in(
    data: bytes, encoding: Encoding, text: str, *, whole: bool, escaped: bool = False
) -> Iterator[int]:
    """The same for whole lines of a text with this encoding, without its byte order mark.

    A byte that does not decode is no text; with `escaped` its `\\xNN` finds it.

    Valid UTF-8 is self-synchronising, so a find in the bytes is a find in the
    text. A file with a byte order mark may hold anything after it, and is shown
    otherwise.
    """
    wanted = encoding.pattern(text) if escaped else None
    if escaped and wanted is None:
        return iter(())
    if encoding == UTF8 and wanted is None:
        return _by_find(data, text.encode(), b"\n", b"\r", whole=whole)
    decoded = encoding.text(data)
    if wanted is None and not (encoding.known and has_raw(decoded)):
        return _by_find(decoded, text, "\n", "\r", whole=whole)
    lines = Snapshot(data, replace(encoding, bom=b""))  # where a line ends decides how it decodes
    shown = enumerate(encoding.text(lines.key(line)) for line in range(lines.line_count))
    if wanted is None:
        return (line for line, have in shown if (text == have if whole else text in have))
    matches = wanted.fullmatch if whole else wanted.search
    return (line for line, have in shown if matches(have))


def closest_lines(base: Snapshot, text: str, most: int = 3) -> list[int]:
    """Up to `most` lines, 0-based, that are most like `text`, the closest first."""
    close = Close(text)
    close.take(base, 0)
    return close.lines(most)


class Close:
    """The lines most like a text, of a file that comes in blocks of whole lines.

    Bounded on any file: candidates are the lines that share the rarest pieces
    of the text, only their first characters are compared, and only those with
    the longest common subsequence are compared by their blocks (which is cubic).
    """

    def __init__(self, text: str) -> None:
        self._text = text.strip()[:_COMPARED]
        self._wanted = self._text.casefold()
        self._heads: dict[int, str] = {}
        self._count = 0

    def take(self, base: Snapshot, first_line: int) -> None:
        """Look at the next lines, the first of which is `first_line` of the file."""
        if not self._wanted:
            return
        self._count += base.line_count
        few = self._count <= _FEW
        for line in range(base.line_count) if few else _candidates(base, self._text):
            self._heads[first_line + line] = _head(base, line)
        if not few:
            self._heads = {line: self._heads[line] for line in self._likely()}

    def lines(self, most: int = 3) -> list[int]:
        """Up to `most` lines, 0-based, the closest first."""
        scored: list[tuple[float, int]] = []
        for line in self._likely():
            matcher = SequenceMatcher(None, self._wanted, self._heads[line], autojunk=False)
            size = sum(block.size for block in matcher.get_matching_blocks())
            similarity = _similarity(size, self._wanted, self._heads[line])
            if similarity >= _CLOSE:
                scored.append((-similarity, line))
        return [line for _, line in sorted(scored)[:most]]

    def _likely(self) -> list[int]:
        """The lines that are worth a close look, the likeliest first."""
        heads = self._heads
        return sorted(heads, key=lambda at: (-_bound(self._wanted, heads[at]), at))[:_SCORED]


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


def _by_find(text: AnyStr, wanted: AnyStr, lf: AnyStr, cr: AnyStr, *, whole: bool) -> Iterator[int]:
    """The lines of `text` that hold or are `wanted`, which has no line feed in it."""
    line = at = 0
    while (hit := text.find(wanted, at)) >= 0:
        line += text.count(lf, at, hit)
        begin = max(text.rfind(lf, at, hit) + 1, at)
        end = text.find(lf, hit)
        stop = len(text) if end < 0 else end
        if end > begin and text[end - 1 : end] == cr:
            stop -= 1
        last = hit + len(wanted)
        if (hit == begin and last == stop) if whole else last <= stop:
            yield line
        if end < 0:
            return
        at, line = end + 1, line + 1


def _candidates(base: Snapshot, wanted: str) -> list[int]:
    """Lines that share pieces with `wanted`, in its own case or in lower case, rare ones first."""
    try:
        data = Plain.of(base).data
    except EncodingRefused:
        return []
    found = likely(data, [wanted.encode()], _CANDIDATES)[0]
    return list(dict.fromkeys(spot.line for spot in found))
