"""The place of a text that is most like one that is not there; a fact for a refusal.

What lives here: the near miss of a text of one or more lines, bounded in time on
any file. What must not: a match; nothing here decides where an edit goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from copydesk.text.align import align
from copydesk.text.find import closest_lines
from copydesk.text.snapshot import Snapshot

_LINES = 200
_CHARACTERS = 4_000
_PROBES = 12
_HITS = 6
_WORTH = 0.4
_DIFF_LINES = 12
_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Near:
    """Lines [start, stop), 0-based, their similarity in percent, and a short diff.

    In `diff`, `-` is what was sought and `+` what stands there.
    """

    start: int
    stop: int
    similarity: int
    diff: tuple[str, ...]


def nearest(base: Snapshot, wanted: str) -> Near | None:
    """The lines most like `wanted`, if any are worth showing."""
    sought = wanted.replace("\r\n", "\n").split("\n")
    if sought[-1] == "" and len(sought) > 1:
        sought.pop()
    sought = sought[:_LINES]
    best: tuple[float, int] | None = None
    for start in _candidates(base, sought):
        score = _similarity(sought, base, start)
        if best is None or score > best[0]:
            best = (score, start)
    if best is None or best[0] < _WORTH:
        return None
    start = best[1]
    stop = min(start + len(sought), base.line_count)
    return Near(start, stop, round(100 * best[0]), _diff(sought, base.texts(start, stop)))


def _candidates(base: Snapshot, sought: list[str]) -> list[int]:
    """Starts of windows: those in which one of the longer lines sought stands, or one like it."""
    order = sorted(range(len(sought)), key=lambda i: -len(sought[i].strip()))[:_PROBES]
    starts: dict[int, int] = {}
    for index in order:
        line = sought[index].strip()
        if len(line) < 3:
            continue
        for hit in _standing(base, line):
            start = max(hit - index, 0)
            starts[start] = starts.get(start, 0) + 1
    if not starts:
        for index in order[:4]:
            for hit in closest_lines(base, sought[index], 4):
                start = max(hit - index, 0)
                starts[start] = starts.get(start, 0) + 1
    return sorted(starts, key=lambda start: -starts[start])[: 2 * _PROBES]


def _standing(base: Snapshot, line: str) -> list[int]:
    """The first lines that hold the text; nothing that the encoding cannot hold."""
    try:
        raw = line.encode(base.encoding.name if base.encoding.known else "ascii")
    except UnicodeEncodeError:
        return []
    found: list[int] = []
    at = base.data.find(raw)
    while at >= 0 and len(found) < _HITS:
        found.append(base.line_at(at))
        at = base.data.find(raw, at + max(len(raw), 1))
    return found


def _similarity(sought: list[str], base: Snapshot, start: int) -> float:
    """How alike the window and the text are, from 0 to 1; long texts are compared by lines."""
    have = base.texts(start, min(start + len(sought), base.line_count))
    one, other = "\n".join(sought), "\n".join(have)
    if len(one) <= _CHARACTERS and len(other) <= 2 * _CHARACTERS:
        return SequenceMatcher(None, one, other, autojunk=False).ratio()
    same = align([line.strip() for line in sought], [line.strip() for line in have]).matched
    head = SequenceMatcher(None, one[:500], other[:500], autojunk=False).ratio()
    return 0.9 * same / max(len(sought), 1) + 0.1 * head


def _diff(sought: list[str], have: tuple[str, ...]) -> tuple[str, ...]:
    """The lines that differ, and none of those that are the same."""
    out: list[str] = []
    for gap in align(sought, have).gaps():
        out += [f"- {_cut(line)}" for line in sought[gap.base_start : gap.base_stop]]
        out += [f"+ {_cut(line)}" for line in have[gap.now_start : gap.now_stop]]
    if len(out) > _DIFF_LINES:
        out = [*out[:_DIFF_LINES], f"… ({len(out) - _DIFF_LINES} more lines differ)"]
    return tuple(out)


def _cut(line: str) -> str:
    shown = line.replace("\t", "\\t") if line.strip() == "" else line
    return shown if len(shown) <= _WIDTH else f"{shown[:_WIDTH]}…"
