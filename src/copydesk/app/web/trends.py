"""The plots: edits over time; how plans fared, by member and by file.

Invariant: every number that is drawn is also on the page as text.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from copydesk.app.web.markup import address, named, render
from copydesk.app.web.pages import Frame, around
from copydesk.app.web.reviewer import PlanResult
from copydesk.desk.backends.api import Entry

_HOUR_MS: Final = 3_600_000
_STEPS: Final = (
    *(_HOUR_MS // 12, _HOUR_MS // 4, _HOUR_MS, 3 * _HOUR_MS, 12 * _HOUR_MS),
    *(24 * _HOUR_MS, 7 * 24 * _HOUR_MS),
)
_MOST_COLUMNS: Final = 60
_MOST_SERIES: Final = 6
_MOST_FILES: Final = 15
_LEFT, _WIDTH, _FLOOR, _HEIGHT = 32, 732, 176, 166
"""The plotting area within the drawing of `trends.html`, which is 800 by 200."""


class _Bar(NamedTuple):
    """A rectangle; `words` say what it stands for, `kind` is its class."""

    kind: str
    x: str
    width: str
    y: str = "0"
    height: str = "10"
    words: str = ""


class _Plot(NamedTuple):
    """Stacked columns, each of the same length of time."""

    bars: list[_Bar]
    grid: list[tuple[int, str, str]]
    times: list[tuple[str, str]]
    legend: list[tuple[str, str]]
    numbers: list[tuple[str, int]]
    total: int
    highest: int


class _Row(NamedTuple):
    name: str
    address: str
    bars: list[_Bar]
    counts: tuple[int, int, int]


class _Shares(NamedTuple):
    """A table with a bar in each row; `more` rows are left out."""

    rows: list[_Row]
    more: int


def trends(
    frame: Frame, entries: Sequence[Entry], results: Sequence[PlanResult], now_ms: int
) -> Markup:
    """The page."""
    return render(
        "trends.html",
        **around(frame, "Trends", "trends"),
        any=bool(entries or results),
        edits=len(entries),
        plot=_over_time(entries, now_ms) if entries else None,
        members=_shares("member", results, 100),
        files=_shares("path", results, _MOST_FILES),
    )


def _over_time(entries: Sequence[Entry], now_ms: int) -> _Plot:
    first = min(entry.time_ms for entry in entries)
    step = next((s for s in _STEPS if (now_ms - first) // s < _MOST_COLUMNS), _STEPS[-1])
    count = max(now_ms // step - max(first // step, now_ms // step - _MOST_COLUMNS + 1) + 1, 12)
    start = now_ms // step - count + 1
    members = [name for name, _ in Counter(entry.member for entry in entries).most_common()]
    series = [*members[: _MOST_SERIES - 1], "others"] if len(members) > _MOST_SERIES else members
    cells: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        column = entry.time_ms // step - start
        if column >= 0:
            at = series.index(entry.member) if entry.member in series else len(series) - 1
            cells[min(column, count - 1), at] += 1
    heights = [sum(cells[column, at] for at in range(len(series))) for column in range(count)]
    top = _round_up(max(heights))
    wide = _WIDTH / count
    bars: list[_Bar] = []
    for column in range(count):
        below = 0
        for at, name in enumerate(series):
            value = cells[column, at]
            if value:
                y = _y(below + value, top)
                words = f"{_time(start + column, step)}: {named(value, 'edit')} by {name}"
                x, width = _LEFT + column * wide + wide * 0.12, wide * 0.76
                height = _y(below, top) - y
                bars.append(_Bar(f"e{at}", _n(x), _n(width), _n(y), _n(height), words))
            below += value
    every = max(count // 6, 1)
    return _Plot(
        bars,
        [(v, _n(_y(v, top)), _n(_y(v, top) + 4)) for v in sorted({0, top // 2, top})],
        [
            (_time(start + column, step), _n(_LEFT + (column + 0.5) * wide))
            for column in range(every // 2, count, every)
        ],
        [(f"e{at}", name) for at, name in enumerate(series)],
        [
            (_time(start + column, step), heights[column])
            for column in range(count)
            if heights[column]
        ],
        sum(heights),
        max(heights),
    )


def _shares(key: Literal["member", "path"], results: Sequence[PlanResult], most: int) -> _Shares:
    counted = Counter(
        (result.member if key == "member" else result.path, result.how) for result in results
    )
    tallies = {
        name: (counted[name, "exact"], counted[name, "fuzz"], counted[name, "rejected"])
        for name, _ in counted
    }
    ranked = sorted(tallies.items(), key=lambda one: (-one[1][1] - one[1][2], -sum(one[1]), one[0]))
    longest = max(map(sum, tallies.values()), default=0)
    rows: list[_Row] = []
    for name, counts in ranked[:most]:
        bars: list[_Bar] = []
        x = 0.0
        for kind, value in zip(("exact", "fuzz", "no"), counts, strict=True):
            if value:
                bars.append(_Bar(kind, _n(x), _n(100 * value / longest)))
            x += 100 * value / longest
        rows.append(_Row(name, address("history", **{key: name}), bars, counts))
    return _Shares(rows, len(ranked) - most)


def _time(column: int, step: int) -> str:
    at = time.gmtime(column * step // 1000)
    return time.strftime("%m-%d" if step >= 24 * _HOUR_MS else "%m-%d %H:%M", at)


def _y(value: int, top: int) -> float:
    return _FLOOR - value * _HEIGHT / top


def _round_up(most: int) -> int:
    """An even number that is not less, with few digits that are not 0."""
    size = 1
    while size * 10 < most:
        size *= 10
    return next((m * size for m in (2, 4, 6, 8, 10) if m * size >= most), 20 * size)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
