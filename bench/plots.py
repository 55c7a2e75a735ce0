"""Plots as SVG, both scales logarithmic, the limit drawn in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 74, 250, 44, 56
COLOURS = (
    "#0b6e4f",
    "#c1292e",
    "#235789",
    "#e08e0b",
    "#7b3fa0",
    "#3a7d9a",
    "#8a5a33",
    "#d05a9b",
    "#5b6470",
    "#97a80f",
)


def plot(
    title: str, across: str, up: str, lines: Mapping[str, Points], limits: Sequence[str] = ()
) -> str:
    """An SVG. `across` and `up` are units: `bytes`, `edits`, `seconds` or `MB`."""
    every = [point for points in lines.values() for point in points]
    if not every:
        return ""
    low_x, high_x = _decades([x for x, _ in every])
    low_y, high_y = _decades([y for _, y in every])

    def at_x(x: float) -> float:
        return LEFT + (math.log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def at_y(y: float) -> float:
        share = (math.log10(y) - low_y) / (high_y - low_y)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for power in range(low_x, high_x + 1):
        x = at_x(10.0**power)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>')
        label = escape(_label(power, across))
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    for power in range(low_y, high_y + 1):
        y = at_y(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        label = escape(_label(power, up))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    middle = (LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{bottom + 40}" text-anchor="middle">{escape(_NAMES[across])}</text>'
    )
    colours = iter(COLOURS * 3)
    ordered = sorted(lines.items(), key=lambda item: (item[0] not in limits, -item[1][-1][1]))
    for number, (name, points) in enumerate(ordered):
        limit, own = name in limits, name.startswith("copydesk")
        colour = "#222" if limit else next(colours)
        style = f'stroke="{colour}" stroke-width="{3 if own else 1.6}"'
        style += ' stroke-dasharray="6 4"' if limit else ""
        path = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in sorted(points))
        parts.append(f'<path d="M{path}" fill="none" {style}/>')
        if not limit:
            parts += [
                f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>'
                for x, y in points
            ]
        y = TOP + 10 + 20 * number
        parts.append(f'<path d="M{right + 14} {y}h26" fill="none" {style}/>')
        weight = ' font-weight="bold"' if own else ""
        parts.append(f'<text x="{right + 46}" y="{y + 4}"{weight}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


_NAMES = {"bytes": "size of the file", "edits": "edits in one batch"}
_PREFIXES = ("", "K", "M", "G", "T")


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _label(power: int, unit: str) -> str:
    if unit == "bytes":
        return f"{10 ** (power % 3)} {_PREFIXES[power // 3]}B"
    if unit == "edits":
        return f"{10**power:,}"
    if unit == "MB":
        return f"{10.0**power:g} MB"
    steps = ((0, "s", 0), (-3, "ms", 3), (-6, "µs", 6))
    _, name, shift = next((s for s in steps if power >= s[0]), steps[-1])
    return f"{10.0 ** (power + shift):g} {name}"
