"""Which removed line stands beside which added one, which words differ in the two, and which
parts of a long line are shown.

Invariant: what is left out of a line never holds a mark that fits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from copydesk.text.diff import align, same_after, same_before
from copydesk.text.unified import read_diff

_MOST_CELLS: Final = 4_000
"""With more possible pairs, lines are paired in order instead of by similarity."""

_ALIKE: Final = 0.35
"""Lines less similar than this are not paired."""

_MOST_PIECES: Final = 16 << 20
"""Two longer lines have one mark each, around all that differs."""

_MOST_WORDS: Final = 20_000
"""Of so many characters of two lines the words are compared."""

_LONGEST_WORD: Final = 60
"""A longer one is marked in part."""

LONG: Final = 1_000
"""A line of more characters is shown in parts."""

_AROUND: Final = 120
"""So many characters are shown around what differs in a long line."""

_MOST_MARKED: Final = 600
"""So many characters at each end of what differs are shown, when it is longer itself."""

_MOST_MARKS: Final = 20

_WORDS: Final = re.compile(r"[^\W_]+|\s+|.", re.DOTALL)
_PIECES: Final = re.compile(r".{0,160}?[ty37)\]}][^\w.-]|.{0,160}?[QZ37+/]|.{1,160}", re.DOTALL)
"""Parts of a long line; the text says where they end, not how far from the start it is."""

Pair = tuple[int | None, int | None]
Span = tuple[int, int]
"""Characters [start, stop) of a line, from 0."""

Marks = tuple[Sequence[Span], Sequence[Span]]
"""The removed spans of an old line, and the added spans of the new one."""


def pair_lines(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Indices from 0 of lines that stand side by side, None for a line that is alone."""
    if len(old) == len(new) or not old or not new or len(old) * len(new) > _MOST_CELLS:
        return _in_order(len(old), len(new))
    ours, theirs = [_bag(line) for line in old], [_bag(line) for line in new]
    height, width = len(old), len(new)
    best = [[0.0] * (width + 1) for _ in range(height + 1)]
    like = [[0.0] * width for _ in range(height)]
    for i in range(height - 1, -1, -1):
        for j in range(width - 1, -1, -1):
            like[i][j] = _alike(ours[i], theirs[j])
            with_both = best[i + 1][j + 1] + like[i][j] if like[i][j] >= _ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], with_both)
    if best[0][0] == 0.0:
        return _in_order(height, width)
    found: list[Pair] = []
    i = j = 0
    while i < height and j < width:
        if like[i][j] >= _ALIKE and best[i][j] == best[i + 1][j + 1] + like[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            found.append((i, None))
            i += 1
        else:
            found.append((None, j))
            j += 1
    found += [(k, None) for k in range(i, height)]
    found += [(None, k) for k in range(j, width)]
    return found


def intraline(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """The removed spans of the old line, and the added spans of the new one.

    Nothing is marked in lines that have too little in common for marks to help. Time grows with
    the length of the lines alone: long ones are compared by pieces, then the words of those that
    differ, up to a number of them; a piece beyond it is marked whole.
    """
    head = same_after(old, new, 0, 0)
    tail = min(same_before(old, new, len(old), len(new)), min(len(old), len(new)) - head)
    head -= _into_word(
        old[max(head - _LONGEST_WORD - 1, 0) : head], old[head : head + 1], new[head : head + 1]
    )
    ends = len(old) - tail, len(new) - tail
    behind = old[ends[0] : ends[0] + _LONGEST_WORD + 1][::-1]
    tail -= _into_word(behind, old[head : ends[0]][-1:], new[head : ends[1]][-1:])
    whole = (head, len(old) - tail), (head, len(new) - tail)
    pieces = [whole]
    if _MOST_WORDS < sum(stop - start for start, stop in whole) <= _MOST_PIECES:
        pieces = list(_differing(_PIECES, old, new, whole))
    room = _MOST_WORDS
    gone: list[Span] = []
    come: list[Span] = []
    for ours, theirs in pieces:
        size = ours[1] - ours[0] + theirs[1] - theirs[0]
        found = [(ours, theirs)]
        if size <= room:
            found = list(_differing(_WORDS, old, new, (ours, theirs)))
            room -= size
        gone += [span for span, _ in found]
        come += [span for _, span in found]
    kept = len(old) - sum(stop - start for start, stop in gone)
    if 3 * kept < min(len(old.strip()), len(new.strip())):
        return [], []
    return _bridged(old, _spans(gone)), _bridged(new, _spans(come))


def _differing(
    tokens: re.Pattern[str], old: str, new: str, within: tuple[Span, Span]
) -> Iterator[tuple[Span, Span]]:
    """The parts of two lines that differ when both are aligned by such tokens."""
    a, b = (
        tokens.findall(line, start, stop)
        for line, (start, stop) in zip((old, new), within, strict=True)
    )
    at_a, at_b = _starts(a, within[0][0]), _starts(b, within[1][0])
    for gap in align(a, b).gaps():
        yield (at_a[gap.base_start], at_a[gap.base_stop]), (at_b[gap.now_start], at_b[gap.now_stop])


def windows(text: str, marked: Sequence[Span]) -> Iterator[Span]:
    """The parts of the line that are shown, in order, with a gap between neighbours."""
    if len(text) <= LONG:
        yield 0, len(text)
        return
    wanted = [(0, _AROUND)]
    for start, stop in marked[:_MOST_MARKS]:
        if stop - start <= 2 * _MOST_MARKED:
            wanted.append((start - _AROUND, stop + _AROUND))
        else:
            wanted += [
                (start - _AROUND, start + _MOST_MARKED),
                (stop - _MOST_MARKED, stop + _AROUND),
            ]
    if not marked:
        wanted[0] = (0, LONG - _AROUND)
    wanted.append((len(text) - _AROUND, len(text)))
    low, high = 0, 0
    for start, stop in wanted:
        start, stop = max(start, 0), min(stop, len(text))
        if start <= high:
            high = max(high, stop)
            continue
        yield low, high
        low, high = start, stop
    yield low, high


def is_cut(text: str, marked: Sequence[Span]) -> bool:
    """Whether `windows` leaves out a marked part of the line, or any part if none is marked."""
    shown = tuple(windows(text, marked))
    return any(
        not any(low <= start and stop <= high for low, high in shown)
        for start, stop in marked or ((0, len(text)),)
    )


def shorten(diff: str, left_out: Callable[[int], str], *, marks_whole: bool = True) -> str:
    """A unified diff with the unchanged parts of long lines left out.

    `left_out` gives the words for a number of characters. `marks_whole`: a line whose change
    is too long to be shown in parts is kept; else both ends of the change are.
    """
    made: list[str] = []
    old: list[str] = []
    new: list[str] = []

    def flush() -> None:
        spans: dict[tuple[str, int], list[Span]] = {}
        for i, j in pair_lines(old, new) if any(len(one) > LONG for one in old + new) else ():
            if i is not None and j is not None:
                bare = old[i].partition("\n")[0], new[j].partition("\n")[0]
                spans["-", i], spans["+", j] = intraline(*bare)
                if spans["-", i] or spans["+", j]:
                    spans["-", i], spans["+", j] = (
                        marked or [(0, 0)] for marked in (spans["-", i], spans["+", j])
                    )
        for sign, lines in (("-", old), ("+", new)):
            for number, line in enumerate(lines):
                marked = spans.get((sign, number), [])
                cut = marks_whole and is_cut(line, marked)
                made.append(sign + (line if cut else _parts(line, marked, left_out)))
            lines.clear()

    for sign, line, _, _ in read_diff(diff.split("\n")):
        if sign in ("-", "+"):
            (old if sign == "-" else new).append(line[1:])
        elif sign == "\\" and (old or new):
            (new or old)[-1] += f"\n{line}"
        else:
            flush()
            made.append(_parts(line, [], left_out))
    flush()
    return "\n".join(made)


def _parts(line: str, marked: Sequence[Span], left_out: Callable[[int], str]) -> str:
    """The windows of a line, with the length of each gap."""
    parts: list[str] = []
    at = 0
    for start, stop in windows(line, marked):
        parts += [left_out(start - at)] if start > at else []
        parts.append(line[start:stop])
        at = stop
    return "".join(parts) + (left_out(len(line) - at) if at < len(line) else "")


def _into_word(kept: str, *differs: str) -> int:
    """How many of the last characters of `kept` belong to a word that goes on where they differ."""
    if not any(map(str.isalnum, differs)):
        return 0
    end = len(kept)
    start = end
    while start and end - start <= _LONGEST_WORD and kept[start - 1].isalnum():
        start -= 1
    return end - start if end - start <= _LONGEST_WORD else 0


def _in_order(old: int, new: int) -> list[Pair]:
    count = max(old, new)
    return [(i if i < old else None, i if i < new else None) for i in range(count)]


def _bag(line: str) -> Counter[str]:
    return Counter(word for word in _WORDS.findall(line[:2_000]) if not word.isspace())


def _alike(one: Counter[str], other: Counter[str]) -> float:
    """The share of words that two lines have in common, 0 to 1."""
    every = one.total() + other.total()
    return 2 * (one & other).total() / every if every else 1.0


def _starts(words: Sequence[str], first: int) -> list[int]:
    """Where each word starts, and where the last one ends."""
    found = [first]
    for word in words:
        found.append(found[-1] + len(word))
    return found


def _spans(found: Sequence[Span]) -> list[Span]:
    return [span for span in found if span[0] < span[1]]


def _bridged(text: str, found: list[Span]) -> list[Span]:
    """The spans, joined where only white space separates them."""
    made: list[Span] = []
    for start, stop in found:
        if made and not text[made[-1][1] : start].strip():
            made[-1] = (made[-1][0], stop)
        else:
            made.append((start, stop))
    return made
