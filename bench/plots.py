"""Plots as SVG, both scales logarithmic, the limits drawn in as dashes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 880, 480
LEFT, RIGHT, TOP, BOTTOM = 74, 270, 44, 56
OWN = ("#4fb286", "#0b6e4f")
COLOURS = (
    *("#c1292e", "#235789", "#e08e0b", "#7b3fa0", "#3a9ac9"),
    *("#8a5a33", "#d05a9b", "#7a8290", "#97a80f"),
)
DASHES = ("7 4", "2 3", "12 3 2 3")
NAMES = {
    "bytes": "size of the file",
    "edits": "edits in one batch",
    "agents": "agents at once",
    "files": "files in the workspace",
    "journal": "edits in the journal (the first point: none)",
    "partitions": "workspaces that the agents are dealt out to",
}


class Scale:
    """One axis: whole decades around the values, from pixel `low` to pixel `high`."""

    def __init__(self, values: Sequence[float], low: float, high: float) -> None:
        self.first, self.last = decades(values)
        self._low, self._high = low, high

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return self._low + share * (self._high - self._low)

    def powers(self) -> range:
        """The powers of ten on it."""
        return range(self.first, self.last + 1)


def plot(
    title: str,
    across: str,
    up: str,
    lines: Mapping[str, Points],
    limits: Sequence[str],
    peers: Sequence[str],
) -> str:
    """An SVG; empty without a point. `across` is one of `NAMES`; `up`: `seconds`, `MB` or `rate`.

    `limits` and `peers` name lines that may be there: by their place in these
    lists they look the same in all plots.
    """
    every = [point for points in lines.values() for point in points]
    if not every:
        return ""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_scale = Scale([x for x, _ in every], LEFT, right)
    y_scale = Scale([y for _, y in every], bottom, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for power in x_scale.powers():
        x = x_scale.at(10.0**power)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>')
        told = label(power, across)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{told}</text>')
    for power in y_scale.powers():
        y = y_scale.at(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        told = label(power, up)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{told}</text>')
    parts.append(
        f'<text x="{(LEFT + right) / 2}" y="{bottom + 40}" text-anchor="middle">'
        f"{escape(NAMES[across])}</text>"
    )
    styles = _styles(lines, limits, peers)
    ordered = sorted(lines, key=lambda name: (name not in limits, -max(lines[name])[1]))
    for number, name in enumerate(ordered):
        style = styles[name]
        places = [(f"{x_scale.at(x):.1f}", f"{y_scale.at(y):.1f}") for x, y in sorted(lines[name])]
        path = "L".join(f"{x} {y}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" {style}/>')
        if name not in limits:
            parts += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="#fff" {style}/>' for x, y in places]
        y = TOP + 10 + 20 * number
        weight = ' font-weight="bold"' if name not in limits and name not in peers else ""
        parts.append(f'<path d="M{right + 14} {y}h26" fill="none" {style}/>')
        parts.append(f'<text x="{right + 46}" y="{y + 4}"{weight}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _styles(
    lines: Mapping[str, Points], limits: Sequence[str], peers: Sequence[str]
) -> dict[str, str]:
    """How each line is drawn."""
    own = sorted(name for name in lines if name not in limits and name not in peers)
    styles: dict[str, str] = {}
    for at, name in enumerate(limits):
        dash = DASHES[at % len(DASHES)]
        styles[name] = f'stroke="#222" stroke-width="1.6" stroke-dasharray="{dash}"'
    for at, name in enumerate(peers):
        styles[name] = f'stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="1.6"'
    for at, name in enumerate(own):
        styles[name] = f'stroke="{OWN[at % len(OWN)]}" stroke-width="3"'
    return styles


def decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten just below and just above all values; one apart at least."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def label(power: int, unit: str) -> str:
    """Ten to the power, as the axis says it."""
    if unit not in ("MB", "bytes", "seconds"):
        return f"{10**power:,}"
    if unit == "MB":
        return f"{10.0**power:g} MB"
    if unit == "bytes":
        return f"{10 ** (power % 3)} {('', 'K', 'M', 'G', 'T')[power // 3]}B"
    shift, name = next((s, n) for s, n in ((0, "s"), (3, "ms"), (99, "µs")) if power >= -s)
    return f"{10.0 ** (power + min(shift, 6)):g} {name}"
