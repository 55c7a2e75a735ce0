"""The report of a soak: Markdown with SVG plots, and JSON."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from bench.soak.observer import Violation
from bench.soak.run import Result, machine

_MOST_SHOWN = 20
_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 900, 60, 180, 130, 34, 30
_COLOURS: Final = ("#c1292e", "#235789", "#e08e0b", "#7b3fa0", "#3a9ac9", "#8a5a33", "#d05a9b")
_MORE_COLOURS: Final = ("#7a8290", "#97a80f", "#0b6e4f")
_LAWS: Final = (
    "each line that was reported as written is in a state of its file, in the journal or on disk",
    "no line that was refused, or whose plan is still pending, is in any of them",
    "each line occurs once, in the file and the section that it names",
    "each line of a foreign program is in a state of its file or was saved as an edit",
    "each edit of a file that people have to approve has the bytes before and after that one of"
    " them was shown",
    "all lines of one call or transaction were written, or none",
    "the journal replays from the first bytes to the last; between two edits only foreign"
    " programs changed a file",
    "each text that was read matches the version reported with it",
    "undoing a random tenth of the edits gives the bytes that the diff and the digest require, and"
    " undoing that gives the previous bytes",
    "no journal entry is open and no temporary file is left after `copydesk recover`",
    "memory does not grow with time, and state is at most 64 MiB and 32 KiB for each edit",
)


def markdown(results: Sequence[Result], plots: Mapping[str, str]) -> str:
    """The report; `plots` are the file names of the plots by backend."""
    setting = results[0].setting
    found = [one for result in results for one in result.findings]
    clean = "**Nothing lost, misplaced or unreported.**"
    verdict = f"**{len(found)} findings.**" if found else clean
    who = f"{setting.agents} agents, {setting.people} people, {setting.foreign} foreign programs"
    took = ", ".join(f"{one.seconds / 60:.1f} minutes on {_titled(one)}" for one in results)
    parts = [
        "# A soak of copydesk\n",
        f"{verdict} {who}: {took}. Seed `{setting.seed}`. Machine: {machine()}.\n",
    ]
    if any(result.interrupted for result in results):
        parts.append("The run was interrupted.\n")
    for result in results:
        parts += _one(result, plots.get(result.backend, ""))
    parts.append("## What was checked\n")
    parts += [f"- {law};" for law in _LAWS[:-1]]
    parts += [f"- {_LAWS[-1]}.", ""]
    return "\n".join(parts)


def _titled(result: Result) -> str:
    machines = result.setting.machines
    if result.backend == "redis":
        return f"Redis ({machines} machines: servers that share only the files and a Redis server)"
    return f"SQLite ({machines} HTTP servers that share one state folder)"


def _one(result: Result, plot: str) -> list[str]:
    answers = len(result.calls)
    tokens, counts = result.tokens, result.counts
    doubt = tokens["unsure"] + tokens["sent"]
    seconds = max(result.seconds, 0.001)
    largest = max((one.largest for one in result.samples), default=0)
    state = result.samples[-1].state if result.samples else 0
    rows = {
        "calls answered": f"{answers:,} ({answers / seconds:.0f} a second)",
        "lines reported as written": f"{tokens['ok']:,}",
        "lines refused": f"{tokens['refused']:,}",
        "lines of pending plans": f"{tokens['waiting']:,}",
        "lines in doubt (no answer, or told so)": f"{doubt:,}",
        "edits in the journal": f"{counts['edits']:,}",
        "edits replayed byte for byte": f"{counts['edits replayed']:,}",
        "edits that ended in doubt": f"{counts['edits unsure']:,}",
        "transactions of several files": f"{counts['transactions']:,}",
        "file states examined": f"{counts['states']:,} of {counts['files']} files",
        "writes of foreign programs": f"{counts['foreign writes']:,}",
        "of them saved as an edit": f"{counts['foreign writes saved']:,}",
        "changes between edits explained by them": f"{counts['gaps explained']:,}",
        "decisions of people": _counted(result.people),
        "edits compared with what they were shown": f"{counts['edits that people approved']:,}",
        "recovered at the end": f"{counts['recovered at the end']:,}",
        "temporary files of killed processes, until recovery": f"{counts['left by kills']:,}",
        "undo of a tenth": _counted(result.undo),
        "largest server": f"{largest / 2**20:.0f} MiB",
        "state at the end": f"{state / 2**20:.1f} MiB",
    }
    parts = [f"## {_titled(result)}\n", *_table(("what", "how much"), rows.items())]
    if plot:
        parts += [f"![Calls, waits and memory over time]({plot})\n"]
    parts += ["### Waits\n", *_waits(result)]
    parts += ["### Faults\n", _counted(Counter(one.kind for one in result.faults)) + ".\n"]
    refused = Counter(call.code for call in result.calls if call.code)
    parts += [f"Refusals: {_counted(refused)}.\n", f"Broken: {_counted(result.broken)}.\n"]
    parts += [f"{note}.\n" for note in result.notes]
    if result.refused:
        parts.append("Undo was refused although the lines are unchanged, for example:\n")
        parts += [*(f"- {words}" for words in result.refused[:3]), ""]
    parts += ["### Findings\n", *_findings(result.findings)]
    return parts


def _counted(counts: Mapping[str, int]) -> str:
    rows = sorted(counts.items(), key=lambda row: -row[1])
    return ", ".join(f"{name} {count:,}" for name, count in rows) or "none"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(row)} |" for row in lines), ""]


def waits(result: Result) -> dict[str, dict[str, float]]:
    """The waits in seconds by tool: count, median, p99, longest."""
    by_tool: dict[str, list[float]] = defaultdict(list)
    for call in result.calls:
        by_tool[call.tool].append(call.seconds)
        by_tool["all calls"].append(call.seconds)
    return {
        tool: {
            "count": len(seconds),
            "median": statistics.median(seconds),
            "p99": sorted(seconds)[int(0.99 * (len(seconds) - 1))],
            "longest": max(seconds),
        }
        for tool, seconds in sorted(by_tool.items(), key=lambda row: -len(row[1]))
    }


def longest_waits(result: Result) -> dict[str, float]:
    """The longest wait of each agent and person, in seconds."""
    found: dict[str, float] = defaultdict(float)
    for call in result.calls:
        found[call.who] = max(found[call.who], call.seconds)
    return dict(sorted(found.items()))


def _waits(result: Result) -> list[str]:
    rows = [
        (
            tool,
            f"{row['count']:,.0f}",
            *(f"{1000 * row[name]:,.0f} ms" for name in ("median", "p99", "longest")),
        )
        for tool, row in waits(result).items()
    ]
    worst = ", ".join(f"{who} {seconds:.1f} s" for who, seconds in longest_waits(result).items())
    table = _table(("call", "count", "median", "p99", "longest"), rows)
    return [*table, f"The longest wait of each: {worst or 'none'}.\n"]


def _findings(findings: Sequence[Violation]) -> list[str]:
    if not findings:
        return ["None.", ""]
    kinds = Counter(one.kind for one in findings)
    shown = [f"- {one.kind}: {one.words}" for one in findings[:_MOST_SHOWN]]
    left = [f"- and {len(findings) - _MOST_SHOWN} more"] if len(findings) > _MOST_SHOWN else []
    return [f"{_counted(kinds)}.\n", *shown, *left, ""]


def plot(result: Result) -> str:
    """Calls per second, the longest wait and the largest server over time; marks are faults."""
    seconds = max(result.seconds, 1.0)
    step = max(1.0, seconds / 150)
    calls: Counter[int] = Counter()
    longest: dict[int, float] = defaultdict(float)
    memory: dict[int, float] = defaultdict(float)
    for call in result.calls:
        at = int((call.at - result.begun) / step)
        calls[at] += 1
        longest[at] = max(longest[at], call.seconds)
    for one in result.samples:
        at = int((one.at - result.begun) / step)
        memory[at] = max(memory[at], one.largest / 2**20)
    buckets = range(max(int(seconds / step), 1))
    panels = (
        ("calls a second", [calls[at] / step for at in buckets]),
        ("longest wait, s", [longest[at] for at in buckets]),
        ("largest server, MiB", [memory[at] for at in buckets]),
    )
    height = _TOP + len(panels) * (_PANEL + _GAP)
    right = _WIDTH - _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(_titled(result))}</text>',
    ]
    kinds = sorted({fault.kind for fault in result.faults})
    colours = dict(zip(kinds, (*_COLOURS, *_MORE_COLOURS), strict=False))
    for number, (title, values) in enumerate(panels):
        top = _TOP + number * (_PANEL + _GAP) + 16
        bottom, most = top + _PANEL, max(values, default=0) or 1
        parts.append(f'<text x="{_LEFT}" y="{top - 4}">{title} (up to {most:.4g})</text>')
        parts.append(
            f'<rect x="{_LEFT}" y="{top}" width="{right - _LEFT}" height="{_PANEL}" '
            'fill="none" stroke="#bbb"/>'
        )
        for fault in result.faults:
            x = _LEFT + (fault.at - result.begun) / seconds * (right - _LEFT)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" '
                f'stroke="{colours.get(fault.kind, "#999")}" stroke-opacity="0.45"/>'
            )
        points = " ".join(
            f"{_LEFT + at * step / seconds * (right - _LEFT):.1f},"
            f"{bottom - value / most * _PANEL:.1f}"
            for at, value in enumerate(values)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="#111"/>')
    for number, kind in enumerate(kinds):
        y = _TOP + 24 + 18 * number
        parts.append(
            f'<rect x="{right + 14}" y="{y - 9}" width="10" height="10" '
            f'fill="{colours.get(kind, "#999")}"/><text x="{right + 30}" y="{y}">{kind}</text>'
        )
    label = f"{seconds / 60:.1f} minutes"
    parts.append(f'<text x="{right}" y="{height - 4}" text-anchor="end">{label}</text></svg>\n')
    return "\n".join(parts)


def data(results: Sequence[Result]) -> dict[str, object]:
    """The results for programs."""
    return {
        "status": "error" if any(one.findings for one in results) else "ok",
        "seed": results[0].setting.seed,
        "runs": [
            {
                "backend": one.backend,
                "seconds": round(one.seconds, 1),
                "interrupted": one.interrupted,
                "calls": len(one.calls),
                "lines": dict(one.tokens),
                "counts": dict(one.counts),
                "undo": dict(one.undo),
                "people": dict(one.people),
                "faults": dict(Counter(fault.kind for fault in one.faults)),
                "refusals": dict(Counter(call.code for call in one.calls if call.code)),
                "waits": waits(one),
                "longest_waits": longest_waits(one),
                "findings": [{"kind": each.kind, "words": each.words} for each in one.findings],
            }
            for one in results
        ],
    }


_BEGIN, _END = "<!-- report: begin -->", "<!-- report: end -->"


def write_report(path: Path, text: str) -> None:
    """Write the report; if the page has a marked place for it, write only there."""
    page = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if end:
        text = f"{before}{begin}\n\n{re.sub('^#', '##', text, flags=re.M)}\n{end}{after}"
    path.write_text(text, "utf-8")
