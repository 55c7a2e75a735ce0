"""The results of a workload: tables, bars, lines of a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.arena import Cell

Lines = dict[str, list[tuple[float, float]]]
"""By contestant: where and how much."""


@dataclass(frozen=True)
class Bar:
    """A required value, the measured one, and whether it is met.

    `met` is None when it could not be measured.
    """

    asked: str
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Table:
    """The cells of one row of a workload, against a limit.

    `extra` are columns of texts, by contestant.
    """

    caption: str
    cells: Sequence[Cell]
    limit: str | None = None
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    memory: bool = True


@dataclass
class Section:
    """A workload's results; `points` are the lines of the plots, by plot."""

    name: str
    title: str
    notes: list[str] = field(default_factory=list[str])
    tables: list[Table] = field(default_factory=list[Table])
    bars: list[Bar] = field(default_factory=list[Bar])
    points: dict[str, Lines] = field(default_factory=dict[str, Lines])
    failed: bool = False

    def plot(self, name: str, x: float, cells: Sequence[Cell], *, memory: bool = False) -> None:
        """Add a point for every contestant that has one; limits have no memory of their own."""
        lines = self.points.setdefault(name, {})
        for cell in cells:
            y = cell.peak_mb if memory else cell.median
            if y and not (memory and cell.kind == "limit"):
                lines.setdefault(cell.name, []).append((x, y))


def cell_of(cells: Sequence[Cell], name: str) -> Cell | None:
    """The cell of a contestant, if it was measured."""
    return next((c for c in cells if c.name == name and c.median is not None), None)


def ratio_bar(asked: str, cells: Sequence[Cell], name: str, limit: str, most: float) -> Bar:
    """The bar that one contestant takes at most `most` times as long as another."""
    return between(asked, cell_of(cells, name), cell_of(cells, limit), most)


def between(asked: str, cell: Cell | None, limit: Cell | None, most: float) -> Bar:
    """The same for two cells."""
    if cell is None or limit is None or not cell.median or not limit.median:
        return Bar(asked, "not measured", None)
    ratio = cell.median / limit.median
    shown = f"{ratio:.2f} × ({duration(cell.median)} against {duration(limit.median)})"
    return Bar(asked, shown, ratio <= most)


def under_bar(asked: str, cell: Cell | None, most_seconds: float) -> Bar:
    """The bar that a contestant takes less than so long."""
    if cell is None or cell.median is None:
        return Bar(asked, "not measured", None)
    return Bar(asked, duration(cell.median), cell.median < most_seconds)


def memory_bar(asked: str, cell: Cell | None, most_mb: float) -> Bar:
    """The bar that a contestant takes less than so much memory above what it held before."""
    if cell is None or cell.above_idle_mb is None:
        return Bar(asked, "not measured", None)
    return Bar(asked, f"{cell.above_idle_mb:.0f} MB", cell.above_idle_mb < most_mb)


def ahead_bar(asked: str, cells: Sequence[Cell], name: str) -> Bar:
    """The bar that a contestant is faster than every peer."""
    own = cell_of(cells, name)
    peers = [c for c in cells if c.kind == "peer" and c.median is not None]
    if own is None or not own.median or not peers:
        return Bar(asked, "not measured", None)
    best = min(peers, key=lambda c: c.median or 0.0)
    assert best.median is not None
    shown = f"{duration(own.median)}; the first peer, {best.name}, {duration(best.median)}"
    return Bar(asked, shown, own.median < best.median)


def duration(seconds: float) -> str:
    """Three significant digits, with a unit."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if float(f"{seconds:.3g}") >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"


def size_text(size: float) -> str:
    """A size in decimal units: `10 KB`, `1 GB`."""
    unit, name = next((u, n) for u, n in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")) if size >= u)
    return f"{size / unit:g} {name}"
