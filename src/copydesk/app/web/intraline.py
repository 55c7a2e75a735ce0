"""Which removed line stands beside which added one, and which words differ in the two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from copydesk.text.diff import align, same_after, same_before

_MOST_CELLS: Final = 4_000
"""With more possible pairs, lines are paired in order instead of by similarity."""

_ALIKE: Final = 0.35
"""Lines less similar than this are not paired."""

_MOST_TOKENS: Final = 1_200
"""A line of more words than this has one mark, around all that differs."""

_LONGEST_WORD: Final = 60
"""A longer one is marked in part."""

_WORDS: Final = re.compile(r"[^\W_]+|\s+|.", re.DOTALL)

Pair = tuple[int | None, int | None]
Span = tuple[int, int]
"""Characters [start, stop) of a line, from 0."""


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

    Nothing is marked in lines that have too little in common for marks to help.
    """
    head = same_after(old, new, 0, 0)
    tail = min(same_before(old, new, len(old), len(new)), min(len(old), len(new)) - head)
    head -= _into_word(
        old[max(head - _LONGEST_WORD - 1, 0) : head], old[head : head + 1], new[head : head + 1]
    )
    ends = len(old) - tail, len(new) - tail
    behind = old[ends[0] : ends[0] + _LONGEST_WORD + 1][::-1]
    tail -= _into_word(behind, old[head : ends[0]][-1:], new[head : ends[1]][-1:])
    ours, theirs = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(ours) + len(theirs) > 8 * _MOST_TOKENS:
        return _spans([(head, len(old) - tail)]), _spans([(head, len(new) - tail)])
    a, b = _WORDS.findall(ours), _WORDS.findall(theirs)
    if len(a) + len(b) > _MOST_TOKENS:
        return _spans([(head, len(old) - tail)]), _spans([(head, len(new) - tail)])
    kept = head + tail
    gone: list[Span] = []
    come: list[Span] = []
    at_a, at_b = _starts(a, head), _starts(b, head)
    matching = align(a, b)
    for gap in matching.gaps():
        gone.append((at_a[gap.base_start], at_a[gap.base_stop]))
        come.append((at_b[gap.now_start], at_b[gap.now_stop]))
    for run in matching.runs:
        kept += sum(len(word) for word in a[run.base_start : run.base_start + run.length])
    if 3 * kept < min(len(old.strip()), len(new.strip())):
        return [], []
    return _bridged(old, _spans(gone)), _bridged(new, _spans(come))


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
