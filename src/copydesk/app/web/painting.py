"""One line of a text as markup: colours, marks, and not more of it than an eye can take.

What lives here: how spans of characters become elements, and which parts of a
very long line are shown. What must not: which characters those are. Invariant:
what is left out is told, with how much it is, and never holds a mark that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from copydesk.app.web.colours import Coloured
from copydesk.app.web.html import Html, joined, named, shown, tag
from copydesk.app.web.pairing import Span

LONG: Final = 1_000
"""A line of more characters is shown in parts."""

_AROUND: Final = 120
"""So many characters are shown around what differs in a long line."""

_MOST_MARKED: Final = 600
"""So many characters at each end of what differs are shown, when it is longer itself."""


_MOST_MARKS: Final = 20


def painted(
    text: str,
    colours: Sequence[Coloured] = (),
    marked: Sequence[Span] = (),
    *,
    whole: bool = False,
) -> Html:
    """The line, its marked characters in `mark` elements, the coloured ones in classes.

    `whole`: all of it, however long.
    """
    if not text:
        return Html("")
    if whole:
        return _marked(text, 0, len(text), colours, marked)
    parts: list[Html] = []
    at = 0
    for start, stop in _windows(text, marked):
        if start > at:
            parts.append(_left_out(start - at))
        parts.append(_marked(text, start, stop, colours, marked))
        at = stop
    if at < len(text):
        parts.append(_left_out(len(text) - at))
    return joined(parts)


def is_cut(text: str, marked: Sequence[Span]) -> bool:
    """Whether something of a changed line is left out that is not the same on the other side."""
    shown = tuple(_windows(text, marked))
    return any(
        not any(low <= start and stop <= high for low, high in shown)
        for start, stop in marked or ((0, len(text)),)
    )


def _windows(text: str, marked: Sequence[Span]) -> Iterator[Span]:
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


def _left_out(count: int) -> Html:
    return tag("span", f"… {named(count, 'character')} …", class_="cut")


def _marked(
    text: str, start: int, stop: int, colours: Sequence[Coloured], marked: Sequence[Span]
) -> Html:
    """Characters [start, stop) with their marks."""
    parts: list[Html] = []
    at = start
    for begin, end in marked:
        begin, end = max(begin, start), min(end, stop)
        if begin >= end:
            continue
        parts.append(_coloured(text, at, begin, colours))
        parts.append(tag("mark", _coloured(text, begin, end, colours)))
        at = end
    parts.append(_coloured(text, at, stop, colours))
    return joined(parts)


def _coloured(text: str, start: int, stop: int, colours: Sequence[Coloured]) -> Html:
    """Characters [start, stop) with their colours."""
    parts: list[Html] = []
    at = start
    for begin, end, kind in colours:
        begin, end = max(begin, start), min(end, stop)
        if begin >= end:
            continue
        parts.append(shown(text[at:begin]))
        parts.append(tag("span", text[begin:end], class_=f"s-{kind}"))
        at = end
    parts.append(shown(text[at:stop]))
    return joined(parts)
