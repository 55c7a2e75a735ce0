"""Find the lines most similar to a text that was not found, in bounded time on any file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from copydesk.errors import EncodingRefused
from copydesk.text import sizes
from copydesk.text.diff import Gap, align, longest, same_after
from copydesk.text.folding import Cause, Correction, corrections, fold, visible
from copydesk.text.search import NormalizedText, places
from copydesk.text.snapshot import Snapshot, Source

_SIZES = (32, 16, 8, 4)
"""Bytes of a piece, at most half of the text: long ones are more selective, short ones are
nearer to what differs. The largest three that fit are used."""

_PIECES = 240
"""The most pieces of one text, or of several texts in all."""

_LEAST_PIECES = 48
_PLACES = 1_000
_LEAST_PLACES = 50
_FIRST = 8
_TINY = 1e-4
_NEAR = 10
"""Estimates within the same 2 ** 10 bytes count as one place."""


@dataclass(slots=True)
class Candidate:
    """The text would start in `line`, 0-based, near byte `at`; its rarest piece is at `seen_at`."""

    line: int
    at: int
    seen_at: int
    seen_below: int
    rarest: float
    weight: float = 0.0


def candidates(data: bytes, texts: Sequence[bytes], most: int) -> list[list[Candidate]]:
    """For each text, return up to `most` likely places in `data` (LF line ends), best first.

    Pieces of the text are searched for; each match of one votes for the place where the text would
    start, with more weight the fewer matches the piece has. Of a piece with very many matches only
    the first ones count, and very little.
    """
    share = max(_PIECES // max(len(texts), 1), _LEAST_PIECES)
    pieces = [list(_pieces(text, share)) for text in texts]
    limit = max(_PLACES // max(len(texts), 1), _LEAST_PLACES)
    keys = list(dict.fromkeys(piece for found in pieces for _, piece in found))
    found = places(data, keys, limit)
    lines = _lines(data, {at for starts in found.values() for at in starts})
    return [
        _voted(text, own, found, lines, limit)[:most]
        for text, own in zip(texts, pieces, strict=True)
    ]


def _voted(
    text: bytes,
    pieces: list[tuple[int, bytes]],
    found: dict[bytes, list[int]],
    lines: dict[int, int],
    limit: int,
) -> list[Candidate]:
    spots: dict[tuple[int, int], Candidate] = {}
    line = last = 0
    for offset, piece in sorted(pieces):
        line += text.count(b"\n", last, offset)
        last = offset
        starts = found[piece]
        popular = len(starts) > limit
        weight = _TINY if popular else 1 / max(len(starts), 1)
        for place in starts[:_FIRST] if popular else starts:
            start, at = max(lines[place] - line, 0), max(place - offset, 0)
            spot = spots.get((start, at >> _NEAR))
            votes = spot.weight if spot else 0.0
            if spot is None or spot.rarest < weight:
                spot = Candidate(start, at, place, lines[place] - start, weight)
                spots[start, at >> _NEAR] = spot
            spot.weight = votes + weight
    return sorted(spots.values(), key=lambda spot: (-spot.weight, spot.at))


def _pieces(text: bytes, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield evenly spread pieces of the text, with offsets; also in lower case if that differs."""
    fitting = [size for size in _SIZES if 2 * size <= len(text)]
    lengths = fitting[:3] or [(len(text) + 1) // 2]
    count = max(most // len(lengths), 1)
    for size in lengths:
        room = len(text) - size
        step = -(-(room + 1) // count)
        for offset in range(0, room + 1, step):
            piece = text[offset : offset + size]
            if piece.isspace() or not piece:
                continue
            yield offset, piece
            if piece != piece.lower():
                yield offset, piece.lower()


def _lines(data: bytes, marks: set[int]) -> dict[int, int]:
    """Map each byte offset to its 0-based line."""
    found: dict[int, int] = {}
    line = last = 0
    for at in sorted(marks):
        line += data.count(b"\n", last, at)
        last = at
        found[at] = line
    return found


_CLOSE = 0.6
_COMPARED = 200
_NEAREST_LINES = 3
_WORTH = 0.45
_SPOTS = 12
_SPOTS_OF_LONG = 3
_LONG = 2_000
"""Bytes; longer texts are compared at fewer places."""

_PAIRS = 40
"""Differing lines that are compared in full; further ones only by their common start."""

_SURE = 0.95
_LEAST_LINES = 4
"""Of a text of fewer lines no ends are sought beyond as many lines of the file."""

_AS_GOOD = 0.05
"""Places whose likeness is less by no more than this may be meant as well."""

_WITHIN = 200
_TOKENS = 500
_SLACK = 80
_DIFF_LINES = 4
_SHOWN = 200
"""Characters of a diff, all lines together; one beyond ASCII counts as three."""

_SHOWN_OF_MANY = 1_600
_LEAST_SHOWN = 80
_VISIBLE = 10_000
"""Characters; in longer lines invisible characters are not made visible."""

_LEAST_WIDTH = 24
_OPEN_END = "\\ No newline at end of file"
_NOT_TEXT = "\\ What is shown as \\xNN there is a byte"
_MOST_EQUAL = 1_000
_HEADS = (32, 16, 8)
"""Characters at the start of a line by which it is found within a longer one."""


@dataclass(frozen=True, slots=True)
class Near:
    """Lines [start, stop), 0-based, their similarity in percent, and a short diff.

    In `diff`, `-` marks what was searched for and `+` what is there, for the lines that differ,
    each cut to the part around the first difference. If no line differs, the last one is followed
    by a line that starts with a backslash and says what does. Lines that look the same are shown by
    `visible`.

    `causes`: why a text that a reader sees there is not found. `corrected` is that text as it is
    there, if it is there once; `alike` are the lines, 0-based, where other places start that may be
    meant too.
    """

    start: int
    stop: int
    similarity: int
    diff: tuple[str, ...]
    causes: tuple[Cause, ...] = ()
    corrected: str | None = None
    alike: tuple[int, ...] = ()


def nearest_of(base: Snapshot, wanted: Sequence[str], *, once: bool = True) -> list[Near | None]:
    """Return the lines most similar to each text, none of which is in `base`, or None.

    It is one pass over the file. A text that differs only in how it is written is nearer than
    anything else. `once`: the text is wanted in one place only.
    """
    try:
        data = NormalizedText.of(base).data
    except EncodingRefused:
        return [None] * len(wanted)
    sought = [text.replace("\r\n", "\n") for text in wanted]
    room = max(min(_SHOWN, _SHOWN_OF_MANY // max(len(wanted), 1)), _LEAST_SHOWN)
    found: list[Near | None] = [
        None if one is None else _equal(data, sought[at], one, room, once=once)
        for at, one in enumerate(corrections(data, sought))
    ]
    left = [at for at, one in enumerate(found) if one is None]
    spots = candidates(data, [_lines_of(sought[at]).encode() for at in left], _SPOTS)
    for at, own in zip(left, spots, strict=True):
        found[at] = _best(data, sought[at], own, room)
    return found


def _equal(data: bytes, text: str, found: Correction, room: int, *, once: bool) -> Near:
    """Return the place of a text that is there written another way."""
    raw = data[found.start : found.stop]
    corrected = found.text if _is_text(found.text) else None
    if once and (found.alike or data.find(raw) != data.rfind(raw)):
        corrected = None
    alike = tuple(data.count(b"\n", 0, at) for at in found.alike[:_NEAREST_LINES])
    start = data.count(b"\n", 0, found.first)
    stop = start + data.count(b"\n", found.first, found.last) + 1
    lines, have = _lines_of(text).split("\n"), _lines_of(found.text).split("\n")
    percent = min(round(100 * _likeness(lines, have)), 99)
    closed = text.endswith("\n")
    diff = _diff(lines, have, room, closed=closed)
    if not diff:
        diff = _remarked(lines, room, open_end=closed and not found.text.endswith("\n"))
    return Near(start, stop, percent, diff, found.causes, corrected, alike)


def _is_text(text: str) -> bool:
    """Whether a caller can send the text: no byte of it failed to decode."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _lines_of(text: str) -> str:
    return text.removesuffix("\n")


def _best(data: bytes, text: str, spots: list[Candidate], room: int) -> Near | None:
    sought = _lines_of(text)
    lines = sought.split("\n")
    size = len(sought.encode())
    best, found = (0.0, 0), None
    tried: dict[int, float] = {}
    for spot in spots[: _SPOTS_OF_LONG if size > _LONG else _SPOTS]:
        have = _window(data, spot, len(lines), size)
        likeness = tried[spot.line] = _likeness(lines, have)
        rank = (likeness, -abs(sum(map(len, have)) - len(sought)))
        if found is None or rank > best:
            best, found = rank, (spot, have)
        if size > _LONG and likeness > _SURE:
            break
    if found is None or best[0] < _WORTH:
        return None
    spot, have = found
    first, percent = spot.line, min(round(100 * best[0]), 99)
    if len(lines) >= _LEAST_LINES:
        first, have = _extent(data, spot, lines, have)
    above, have = _trimmed(lines, have)
    start = first + above
    closed = text.endswith("\n")
    diff = _diff(lines, have, room, closed=closed)
    if not diff:
        last = start + len(have) - 1 == data.count(b"\n")
        diff = _remarked(lines, room, open_end=closed and last and not data.endswith(b"\n"))
    likely = [at for at, likeness in tried.items() if likeness > best[0] - _AS_GOOD]
    alike = tuple(sorted({*likely} - {spot.line, start}))
    return Near(start, start + len(have), percent, diff, alike=alike)


def _extent(
    data: bytes, spot: Candidate, sought: list[str], have: list[str]
) -> tuple[int, list[str]]:
    """The first line of a place and its lines, from the first one sought to the last.

    They may be further apart than in the text: others were put between.
    """
    count = len(sought)
    at = data.rfind(b"\n", 0, spot.seen_at) + 1
    for _ in range(spot.seen_below + count):
        at = data.rfind(b"\n", 0, max(at - 1, 0)) + 1
    first = data.count(b"\n", 0, at)
    raw = data[at : at + 8 * len("\n".join(sought).encode()) + _SLACK].split(b"\n", 3 * count)
    lines = [line.decode("utf-8", "backslashreplace") for line in raw[: 3 * count]]
    low, high = spot.line - first, spot.line - first + len(have)
    if have[0].strip() != sought[0].strip():
        above = (at for at in range(low - 1, -1, -1) if lines[at].strip() == sought[0].strip())
        low = next(above, low)
    if have[-1].strip() != sought[-1].strip():
        below = (at for at in range(high, len(lines)) if lines[at].strip() == sought[-1].strip())
        high = next(below, high - 1) + 1
    return first + low, lines[low:high]


def _trimmed(sought: list[str], have: list[str]) -> tuple[int, list[str]]:
    """Cut unrelated lines off both ends; return how many were cut above, and the rest."""
    gaps = list(align([line.strip() for line in sought], [line.strip() for line in have]).gaps())
    above, stop = 0, len(have)
    for gap in gaps:
        if gap.base_start == gap.base_stop == 0:
            above = gap.now_stop
        elif gap.base_start == gap.base_stop == len(sought):
            stop = gap.now_start
    return above, have[above:stop]


def _window(data: bytes, spot: Candidate, count: int, size: int) -> list[str]:
    """Return `count` lines from the spot on; of a very long line, the part around the spot."""
    start = data.rfind(b"\n", 0, spot.seen_at) + 1
    for _ in range(spot.seen_below):
        start = data.rfind(b"\n", 0, start - 1) + 1
    stop = start - 1
    for _ in range(count):
        end = data.find(b"\n", stop + 1)
        if end < 0:
            stop = max(stop, len(data) - data.endswith(b"\n"))
            break
        stop = end
    if spot.at - start > 8 * _SLACK:
        start = spot.at - _SLACK
    most = size + size // 4
    if stop - spot.at > most + 8 * _SLACK:
        stop = max(spot.at + most + _SLACK, start)
    while start < stop and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:stop].decode("utf-8", "backslashreplace").split("\n")


def _likeness(sought: list[str], have: list[str]) -> float:
    """Return from 0 to 1 how much is equal, of the text searched for and the lines found.

    Lines are equal up to the blanks around them, the number of which counts; those that differ are
    compared inside. Of a line longer than the one searched for, only the matching stretch counts.
    """
    one, other = [line.strip() for line in sought], [line.strip() for line in have]
    same = total = 0
    alignment = align(one, other)
    for run in alignment.runs:
        for i in range(run.length):
            mine, theirs = sought[run.base_start + i], have[run.now_start + i]
            total += len(mine) + len(theirs) + 2
            same += len(mine) + len(theirs) + 2 - abs(len(mine) - len(theirs))
    pairs = 0
    for gap in alignment.gaps():
        for mine, theirs in _paired(gap, sought, have):
            pairs += 1
            alike, stretch = (_within if pairs <= _PAIRS else _at_the_start)(mine, theirs)
            same += 2 * alike
            total += len(mine) + stretch
    return same / total if total else 0.0


def _paired(gap: Gap, sought: list[str], have: list[str]) -> list[tuple[str, str]]:
    mine = sought[gap.base_start : gap.base_stop]
    theirs = have[gap.now_start : gap.now_stop]
    count = max(len(mine), len(theirs))
    mine += [""] * (count - len(mine))
    theirs += [""] * (count - len(theirs))
    return list(zip(mine, theirs, strict=True))


def _within(mine: str, theirs: str) -> tuple[int, int]:
    """Return how many characters are equal, and the length of the stretch of `theirs` with them."""
    if len(mine) <= _WITHIN and len(theirs) <= 2 * _WITHIN:
        blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        told = [block for block in blocks if block.size > 1 or block.size == len(mine)]
        if not told:
            return 0, len(theirs)
        stretch = told[-1].b + told[-1].size - told[0].b
        return sum(block.size for block in told), stretch
    at, there = _first_difference(mine, theirs)
    ours, others = _tokens(mine[at:]), _tokens(theirs[there:])
    pairs = list(longest(ours, others))
    left = len(mine) - at - sum(map(len, ours))
    alike = sum(len(ours[i]) for i, _ in pairs)
    stretch = sum(map(len, others[: pairs[0][1] + 1])) if pairs else 0
    return at + alike + left, at + stretch + left


def _at_the_start(mine: str, theirs: str) -> tuple[int, int]:
    """Like `_within`, but compare only up to the first difference."""
    at, _ = _first_difference(mine, theirs)
    return at, len(mine)


def _tokens(line: str) -> list[str]:
    return re.findall(r"\w+|\W", line[: 8 * _TOKENS])[:_TOKENS]


def _remarked(lines: list[str], room: int, *, open_end: bool) -> tuple[str, ...]:
    """Show the line where texts that look the same differ, with a remark that says how."""
    line, remark = lines[-1], _OPEN_END
    if not open_end:
        line, remark = next((one for one in lines if "\\x" in one), line), _NOT_TEXT
    shown = _cut(line, line.find("\\x") if remark == _NOT_TEXT else len(line), room // 2)
    return f"- {shown}", f"+ {shown}", remark


def line_difference(sought: list[str], have: list[str]) -> tuple[str, ...]:
    """Return the short diff of `Near`, for whole lines."""
    return _line_diff(sought, have, have, _SHOWN)


def _diff(sought: list[str], have: list[str], room: int, *, closed: bool) -> tuple[str, ...]:
    """Return the lines that differ; `closed`: the last line searched for has a line end."""
    same = list(have)
    if len(have) > 1 and have[0].endswith(sought[0]):
        same[0] = sought[0]  # the text may start and end within a line
    if not closed and len(have) == len(sought) > 1 and have[-1].startswith(sought[-1]):
        same[-1] = sought[-1]
    return _line_diff(sought, have, same, room)


def _line_diff(sought: list[str], have: list[str], same: list[str], room: int) -> tuple[str, ...]:
    """Return the lines that differ between `sought` and `same`, as they are in `have`."""
    gaps = list(align(sought, same).gaps())
    count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
    width = max(room // max(min(count, _DIFF_LINES), 1), _LEAST_WIDTH)
    lines: list[str] = []
    for gap in gaps:
        pairs = [_shown(*pair) for pair in _paired(gap, sought, have)]
        places = [_first_difference(*pair) for pair in pairs[:_DIFF_LINES]]
        removed = gap.base_stop - gap.base_start
        added = gap.now_stop - gap.now_start
        for i, (at, there) in enumerate(places):
            if i < removed:
                lines.append(f"- {_cut(pairs[i][0], at, width)}")
            if i < added:
                lines.append(f"+ {_cut(pairs[i][1], there, width)}")
        if len(lines) >= _DIFF_LINES:
            break
    shown: list[str] = []
    for line in lines[:_DIFF_LINES]:
        room -= len(line) + 2 * sum(char > "\x7f" for char in line)
        if room < 0 and len(shown) > 1:
            break
        shown.append(line)
    if count > len(shown):
        shown.append(f"… ({count - len(shown)} more lines differ)")
    return tuple(shown)


def _shown(mine: str, theirs: str) -> tuple[str, str]:
    """Return a pair of lines as shown: if they look the same, with differences made visible."""
    if max(len(mine), len(theirs)) > _VISIBLE or fold(mine) != fold(theirs):
        return mine, theirs
    return visible(mine), visible(theirs)


def _first_difference(mine: str, theirs: str) -> tuple[int, int]:
    """Return where each line first differs from the other; `mine` may be within `theirs`."""
    heads = (mine[:size] for size in _HEADS)
    offset = next((at for head in heads if (at := theirs.find(head)) >= 0), 0)
    low = same_after(mine, theirs, 0, offset)
    return low, offset + low


def _cut(line: str, at: int, width: int) -> str:
    """Cut the line to the part around character `at`, up to `width` characters."""
    if not line.isascii():
        width = max(width // 3, _LEAST_WIDTH)
    start = max(min(at - width // 3, len(line) - width), 0) if at > width // 2 else 0
    shown = line[start : start + width]
    return "…" * (start > 0) + shown + "…" * (start + width < len(line))


@dataclass(frozen=True, slots=True)
class Closest:
    """Up to three lines, 0-based, most similar to a text, nearest first.

    If the text is in the first of them, written another way, `causes` says why it is not found, and
    `corrected` is the text as it is there, if the place is certain.
    """

    lines: tuple[int, ...]
    causes: tuple[Cause, ...] = ()
    corrected: str | None = None


def nearest_lines(source: Source, text: str) -> Closest:
    """Return the lines most similar to `text`, which is in none of them; the first 64 MiB count."""
    found, size = _NearestLines(text), 0
    for first, lines in source.blocks():
        found.take(lines, first)
        size += lines.size
        if size >= sizes.NEAR:
            break
    return found.closest


class _NearestLines:
    """The lines most similar to one text, ignoring case, in a file given in blocks of lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._wanted = text.strip()[:_COMPARED].encode().lower()
        self._found: list[tuple[float, int, int]] = []
        self._equal: list[tuple[tuple[int, ...], int, Correction]] = []

    @property
    def closest(self) -> Closest:
        """The nearest of all lines seen so far."""
        equal = sorted(self._equal, key=lambda one: one[:2])
        best = equal[0][2] if equal else None
        alike = sorted(line for _, line, one in equal if best and one.sure == best.sure)
        lines = tuple(dict.fromkeys((*alike, *(line for _, _, line in self._found))))
        if best is None:
            return Closest(lines)
        certain = len(alike) == 1 and _is_text(best.text)
        return Closest(lines[:_NEAREST_LINES], best.causes, best.text if certain else None)

    def take(self, base: Snapshot, first_line: int) -> None:
        """Search the next lines, the first of which is line `first_line` of the file."""
        if not self._wanted:
            return
        try:
            plain = NormalizedText.of(base).data
        except EncodingRefused:
            return
        (equal,) = corrections(plain, [self._text])
        if equal is not None and "\n" not in equal.text and len(self._equal) < _MOST_EQUAL:
            for at in (equal.first, *equal.alike):
                line = first_line + plain.count(b"\n", 0, at)
                self._equal.append((equal.rank, line, equal))
        data, wanted, size = plain.lower(), self._wanted.decode(), len(self._wanted)
        found: dict[int, tuple[float, int]] = {}
        for spot in candidates(data, [self._wanted], _SPOTS)[0]:
            have = _window(data, spot, 1, size)[0].strip()
            likeness = _likeness([wanted], [have])
            if likeness >= _CLOSE:
                rank = (-likeness, abs(len(have) - len(wanted)))
                found[spot.line] = min(rank, found.get(spot.line, rank))
        ranked = ((*rank, first_line + line) for line, rank in found.items())
        self._found = sorted((*self._found, *ranked))[:_NEAREST_LINES]
