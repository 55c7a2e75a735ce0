"""The plots: edits over time; how plans fared, by member and by file.

What lives here: counting, and inline SVG. What must not: the journal, colours
(the style sheet has them). Invariant: every number that is drawn also stands in
the page as text.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from copydesk.app.web.html import NOTHING, Html, joined, named, shown, tag
from copydesk.app.web.layout import Frame, address, empty, page
from copydesk.desk.journal import Entry

_HOUR_MS: Final = 3_600_000
_STEPS: Final = (
    *(_HOUR_MS // 12, _HOUR_MS // 4, _HOUR_MS, 3 * _HOUR_MS, 12 * _HOUR_MS),
    *(24 * _HOUR_MS, 7 * 24 * _HOUR_MS),
)
_MOST_COLUMNS: Final = 60
_MOST_SERIES: Final = 6
_MOST_FILES: Final = 15
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 800, 200, 32, 36, 24, 10


@dataclass(frozen=True, slots=True)
class PlanResult:
    """How one plan fared: written as shown, carried elsewhere (`fuzz`), or not (`rejected`)."""

    member: str
    path: str
    how: str


@dataclass(slots=True)
class _Tally:
    exact: int = 0
    fuzz: int = 0
    rejected: int = 0

    @property
    def total(self) -> int:
        return self.exact + self.fuzz + self.rejected


def trends(
    frame: Frame, entries: Sequence[Entry], fates: Sequence[PlanResult], now_ms: int
) -> Html:
    """The page."""
    title = tag("div", tag("h1", "Trends"), class_="top")
    if not entries and not fates:
        return page(frame, "Trends", "trends", title, empty("Nothing was written yet."))
    panels = (
        _panel(
            "Edits over time",
            f"{named(len(entries), 'edit')}, by member.",
            _over_time(entries, now_ms),
        ),
        _panel("Members", _WORDS, _bars("Member", fates, lambda fate: fate.member, 100)),
        _panel("Files", _WORDS, _bars("File", fates, lambda fate: fate.path, _MOST_FILES)),
    )
    body = tag("div", *panels, class_="panels", id="panels", data_live=True)
    return page(frame, "Trends", "trends", title, body)


_WORDS: Final = (
    "Exact: written as planned. Fuzz: the file had changed, and the edit was carried to its place. "
    "Rejected: by the file as it was, or by a person."
)


def _panel(title: str, words: str, *content: Html) -> Html:
    return tag(
        "section",
        tag("h2", title),
        tag("p", words),
        *content,
        class_="sheet panel",
        aria_label=title,
    )


def _over_time(entries: Sequence[Entry], now_ms: int) -> Html:
    """Stacked columns, each of the same length of time."""
    if not entries:
        return NOTHING
    first = min(entry.time_ms for entry in entries)
    step = next((s for s in _STEPS if (now_ms - first) // s < _MOST_COLUMNS), _STEPS[-1])
    start = max(first // step, now_ms // step - _MOST_COLUMNS + 1)
    count = max(now_ms // step - start + 1, 12)
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
    most = _round_up(max(heights))
    parts = [*_grid(most), *_times(start, step, count)]
    wide = (_WIDTH - _LEFT - _RIGHT) / count
    for column in range(count):
        below = 0
        for at, name in enumerate(series):
            value = cells[column, at]
            if not value:
                continue
            x, width = _LEFT + column * wide + wide * 0.12, wide * 0.76
            y, height = _y(below + value, most), _y(below, most) - _y(below + value, most)
            said = f"{_said(start + column, step)}: {named(value, 'edit')} by {name}"
            parts.append(
                tag(
                    "g",
                    tag("title", said),
                    tag(
                        "rect",
                        x=_n(x),
                        y=_n(y),
                        width=_n(width),
                        height=_n(height),
                        rx=1,
                        class_=f"e{at}",
                    ),
                )
            )
            below += value
    words = f"Edits over time: {named(sum(heights), 'edit')}, at most {max(heights)} in one column"
    svg = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="plot",
        role="img",
        aria_label=words,
    )
    plot = tag(
        "div", svg, class_="scroll timeline", tabindex=0, role="region", aria_label="The plot"
    )
    rows = (
        tag(
            "tr",
            tag("th", _said(start + column, step), scope="row"),
            tag("td", str(heights[column])),
        )
        for column in range(count)
        if heights[column]
    )
    head = tag("thead", tag("tr", tag("th", "From", scope="col"), tag("th", "Edits", scope="col")))
    numbers = tag(
        "details",
        tag("summary", "In numbers"),
        tag("table", head, tag("tbody", joined(rows)), class_="bars"),
    )
    return joined((plot, _legend([(f"e{at}", name) for at, name in enumerate(series)]), numbers))


def _bars(
    what: str, fates: Sequence[PlanResult], key: Callable[[PlanResult], str], most: int
) -> Html:
    """A table with a bar in each row."""
    tallies: dict[str, _Tally] = {}
    for fate in fates:
        tally = tallies.setdefault(key(fate), _Tally())
        tally.exact += fate.how == "exact"
        tally.fuzz += fate.how == "fuzz"
        tally.rejected += fate.how == "rejected"
    if not tallies:
        return tag("p", "No plan was applied yet.")
    longest = max(tally.total for tally in tallies.values())
    ranked = sorted(
        tallies.items(), key=lambda one: (-one[1].fuzz - one[1].rejected, -one[1].total, one[0])
    )
    rows = (
        tag(
            "tr",
            tag("th", tag("a", name, href=_of(what, name)), scope="row"),
            tag("td", _bar(tally, longest), class_="share"),
            tag("td", str(tally.exact)),
            tag("td", str(tally.fuzz)),
            tag("td", str(tally.rejected)),
        )
        for name, tally in ranked[:most]
    )
    heads = (tag("th", head, scope="col") for head in (what, "Share", "Exact", "Fuzz", "Rejected"))
    table = tag(
        "table",
        tag("thead", tag("tr", joined(heads))),
        tag("tbody", joined(rows)),
        class_="bars fates",
    )
    legend = _legend([("exact", "exact"), ("fuzz", "fuzz"), ("no", "rejected")])
    rest = len(ranked) - most
    more = tag("p", f"and {named(rest, what.lower())} more") if rest > 0 else NOTHING
    scroll = tag(
        "div", table, class_="scroll", tabindex=0, role="region", aria_label=f"{what}s in numbers"
    )
    return joined((scroll, more, legend))


def _of(what: str, name: str) -> str:
    return address("history", **{"member" if what == "Member" else "path": name})


def _bar(tally: _Tally, longest: int) -> Html:
    parts: list[Html] = []
    at = 0.0
    for kind, value in (("exact", tally.exact), ("fuzz", tally.fuzz), ("no", tally.rejected)):
        width = 100 * value / longest
        if value:
            parts.append(tag("rect", x=_n(at), y=0, width=_n(width), height=10, class_=kind))
        at += width
    return tag("svg", *parts, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")


def _legend(rows: Iterable[tuple[str, str]]) -> Html:
    made = (
        tag(
            "span",
            tag(
                "svg",
                tag("rect", width=10, height=10, rx=2, class_=kind),
                viewBox="0 0 10 10",
                class_="plot",
                aria_hidden="true",
            ),
            shown(words),
        )
        for kind, words in rows
    )
    return tag("div", joined(made), class_="legend bars")


def _grid(most: int) -> list[Html]:
    parts: list[Html] = []
    for value in sorted({0, most // 2, most}):
        y = _n(_y(value, most))
        parts.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(
            tag("text", str(value), x=_LEFT - 8, y=_n(_y(value, most) + 4), text_anchor="end")
        )
    return parts


def _times(start: int, step: int, count: int) -> list[Html]:
    wide = (_WIDTH - _LEFT - _RIGHT) / count
    every = max(count // 6, 1)
    return [
        tag(
            "text",
            _said(start + column, step),
            x=_n(_LEFT + (column + 0.5) * wide),
            y=_HEIGHT - 6,
            text_anchor="middle",
        )
        for column in range(every // 2, count, every)
    ]


def _said(column: int, step: int) -> str:
    at = time.gmtime(column * step // 1000)
    return time.strftime("%m-%d" if step >= 24 * _HOUR_MS else "%m-%d %H:%M", at)


def _y(value: int, most: int) -> float:
    return _HEIGHT - _BOTTOM - value * (_HEIGHT - _BOTTOM - _TOP) / most


def _round_up(most: int) -> int:
    """An even number that is not less, with few digits that are not 0."""
    size = 1
    while size * 10 < most:
        size *= 10
    return next((m * size for m in (2, 4, 6, 8, 10) if m * size >= most), 20 * size)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
