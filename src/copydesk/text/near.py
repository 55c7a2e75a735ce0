"""The place of a text that is most like one that is not there; a fact for a refusal.

What lives here: the near misses of texts of one or more lines, bounded in time
and in what is shown, on any file. What must not: a match; nothing here decides
where an edit goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from copydesk.errors import EncodingRefused
from copydesk.text.align import Gap, align
from copydesk.text.common import longest
from copydesk.text.likely import Spot, likely
from copydesk.text.plain import Plain
from copydesk.text.snapshot import Snapshot

_WORTH = 0.45
_SPOTS = 12
_SPOTS_OF_LONG = 3
_LONG = 4_000
"""Bytes; longer texts are compared at fewer spots."""

_PAIRS = 16
"""So many lines that differ are compared within; beyond, they count as different."""

_WITHIN = 200
_TOKENS = 1_000
_SLACK = 400
_DIFF_LINES = 8
_SHOWN = 400
"""Characters of a diff, all its lines together; one beyond ASCII counts as three."""

_SHOWN_OF_MANY = 2_400
_LEAST_SHOWN = 120
_LEAST_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Near:
    """Lines [start, stop), 0-based, their similarity in percent, and a short diff.

    In `diff`, `-` is what was sought and `+` what stands there, of the lines
    that differ, each cut to what is around the first difference.
    """

    start: int
    stop: int
    similarity: int
    diff: tuple[str, ...]


def nearest(base: Snapshot, wanted: str) -> Near | None:
    """The lines most like `wanted`, which does not stand in `base`, if any are worth showing."""
    return nearest_of(base, [wanted])[0]


def nearest_of(base: Snapshot, wanted: Sequence[str]) -> list[Near | None]:
    """`nearest` of each text, in one pass over the file."""
    try:
        plain = Plain.of(base)
    except EncodingRefused:
        return [None] * len(wanted)
    sought = [text.replace("\r\n", "\n").removesuffix("\n") for text in wanted]
    room = max(min(_SHOWN, _SHOWN_OF_MANY // max(len(wanted), 1)), _LEAST_SHOWN)
    spots = likely(plain.data, [text.encode() for text in sought], _SPOTS)
    return [_best(plain.data, text, own, room) for text, own in zip(sought, spots, strict=True)]


def _best(data: bytes, sought: str, spots: list[Spot], room: int) -> Near | None:
    lines = sought.split("\n")
    size = len(sought.encode())
    found: tuple[float, Spot, list[str]] | None = None
    for spot in spots[: _SPOTS_OF_LONG if size > _LONG else _SPOTS]:
        have = _window(data, spot, len(lines), size)
        likeness = _likeness(lines, have)
        if found is None or likeness > found[0]:
            found = (likeness, spot, have)
    if found is None or found[0] < _WORTH:
        return None
    likeness, spot, have = found
    percent = min(round(100 * likeness), 99)
    return Near(spot.line, spot.line + len(have), percent, _diff(lines, have, room))


def _window(data: bytes, spot: Spot, count: int, size: int) -> list[str]:
    """So many lines from the spot on; of a very long line what is around the spot."""
    start = data.rfind(b"\n", 0, spot.seen_at) + 1
    for _ in range(spot.seen_below):
        start = data.rfind(b"\n", 0, start - 1) + 1
    stop = start - 1
    for _ in range(count):
        stop = data.find(b"\n", stop + 1)
        if stop < 0:
            stop = len(data)
            break
    if spot.at - start > 2 * _SLACK:
        start = spot.at - _SLACK
    stop = max(min(stop, spot.at + 2 * size + 2 * _SLACK), start)
    while start < stop and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:stop].decode("utf-8", "backslashreplace").split("\n")


def _likeness(sought: list[str], have: list[str]) -> float:
    """From 0 to 1: how much of both is the same, of what was sought and where it stands.

    Lines are the same but for blanks around them; those that differ are compared
    within. Of a line that holds more than was sought, only that stretch counts.
    """
    one, other = [line.strip() for line in sought], [line.strip() for line in have]
    same = total = 0
    alignment = align(one, other)
    for run in alignment.runs:
        for i in range(run.length):
            mine, theirs = sought[run.base_start + i], have[run.now_start + i]
            same += 2 * len(one[run.base_start + i]) + 2
            total += len(mine) + len(theirs) + 2
    pairs = 0
    for gap in alignment.gaps():
        for mine, theirs in _paired(gap, sought, have):
            pairs += 1
            alike, stretch = _within(mine, theirs) if pairs <= _PAIRS else (0, len(theirs))
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
    """How many characters are the same, and how long the stretch of `theirs` is that has them."""
    if len(mine) <= _WITHIN and len(theirs) <= 2 * _WITHIN:
        blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        told = [block for block in blocks if block.size > 1 or block.size == len(mine)]
        if not told:
            return 0, len(theirs)
        stretch = told[-1].b + told[-1].size - told[0].b
        return sum(block.size for block in told), stretch
    ours, others = _tokens(mine), _tokens(theirs)
    pairs = list(longest(ours, others))
    if not pairs:
        return 0, len(theirs)
    stretch = sum(map(len, others[pairs[-1][1] : pairs[0][1] + 1]))
    left = len(mine) - sum(map(len, ours))
    return sum(len(ours[i]) for i, _ in pairs) + left, stretch + left


def _tokens(line: str) -> list[str]:
    return re.findall(r"\w+|\W", line[: 8 * _TOKENS])[:_TOKENS]


def _diff(sought: list[str], have: list[str], room: int) -> tuple[str, ...]:
    """The lines that differ, and none of those that are the same."""
    same = list(have)
    if len(have) > 1 and have[0].endswith(sought[0]):
        same[0] = sought[0]  # the text may start and end within a line
    if len(have) == len(sought) > 1 and have[-1].startswith(sought[-1]):
        same[-1] = sought[-1]
    gaps = list(align(sought, same).gaps())
    count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
    width = max(room // max(min(count, _DIFF_LINES), 1), _LEAST_WIDTH)
    lines: list[str] = []
    for gap in gaps:
        pairs = _paired(gap, sought, have)
        places = [_first_difference(*pair) for pair in pairs[:_DIFF_LINES]]
        removed = gap.base_stop - gap.base_start
        added = gap.now_stop - gap.now_start
        for (mine, _), (at, _) in zip(pairs[:removed], places, strict=False):
            lines.append(f"- {_cut(mine, at, width)}")
        for (_, theirs), (_, at) in zip(pairs[:added], places, strict=False):
            lines.append(f"+ {_cut(theirs, at, width)}")
        if len(lines) >= _DIFF_LINES:
            break
    shown = lines[:_DIFF_LINES]
    if count > len(shown):
        shown.append(f"… ({count - len(shown)} more lines differ)")
    return tuple(shown)


def _first_difference(mine: str, theirs: str) -> tuple[int, int]:
    """Where each line first differs from the other; `mine` may stand within `theirs`."""
    offset = max(theirs.find(mine[:_LEAST_WIDTH]), 0) if mine else 0
    low, high = 0, min(len(mine), len(theirs) - offset)
    while low < high:
        middle = (low + high + 1) // 2
        if mine[low:middle] == theirs[offset + low : offset + middle]:
            low = middle
        else:
            high = middle - 1
    return low, offset + low


def _cut(line: str, at: int, width: int) -> str:
    """What is around character `at`, as wide as may be shown."""
    if not line.isascii():
        width = max(width // 3, _LEAST_WIDTH)
    start = max(min(at - width // 3, len(line) - width), 0)
    shown = line[start : start + width]
    return "…" * (start > 0) + shown + "…" * (start + width < len(line))
