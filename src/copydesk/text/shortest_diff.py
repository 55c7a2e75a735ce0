"""The shortest diff of two lists of lines, by Myers' algorithm, with a fixed choice among equals.

Invariants: where deleting and inserting lead equally far, the deletion comes first; unchanged lines
are matched as early as they can be. So the diff of two texts is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from copydesk.text.diff import align

CONTEXT = 4
MOST_CHANGES = 1_000
"""Of texts that differ in more lines another diff is made: this one takes the square of them."""


class _Step(NamedTuple):
    """So many lines of one kind (" ", "-", "+"), and the steps before it."""

    kind: str
    size: int
    before: _Step | None


_NO_PATH: tuple[int, _Step | None] = (-(1 << 62), None)


def patch(old: str, new: str, name: str) -> str:
    """A unified diff with four lines of context, whose head names the file on three lines."""
    head = f"Index: {name}\n{'=' * 67}\n--- {name}\toriginal\n+++ {name}\tmodified\n"
    return head + "".join(_hunks(_lines(old), _lines(new)))


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + [last] * bool(last)


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The hunks: changes with less than twice the context between them are shown together."""
    rows: list[str] = []
    start, at, to = (0, 0), 0, 0
    steps = _steps(old, new)
    for index, (kind, count) in enumerate(steps):
        if kind != " ":
            if not rows:
                lead = old[max(at - CONTEXT, 0) : at]
                rows, start = [f" {line}" for line in lead], (at - len(lead), to - len(lead))
            there = old[at : at + count] if kind == "-" else new[to : to + count]
            rows += [kind + line for line in there]
        elif rows:
            joins = count <= 2 * CONTEXT and index < len(steps) - 1
            rows += [f" {line}" for line in old[at : at + (count if joins else CONTEXT)]]
            if not joins:
                yield _hunk(rows, *start)
                rows = []
        at += count * (kind != "+")
        to += count * (kind != "-")
    if rows:
        yield _hunk(rows, *start)


def _hunk(rows: Sequence[str], old_start: int, new_start: int) -> str:
    old_count = sum(row[0] != "+" for row in rows)
    new_count = sum(row[0] != "-" for row in rows)
    old_at, new_at = old_start + bool(old_count), new_start + bool(new_count)
    text = "".join(
        row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows
    )
    return f"@@ -{old_at},{old_count} +{new_at},{new_count} @@\n{text}"


def _steps(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int]]:
    """How the old lines become the new ones: kinds of steps, with how many lines each has."""
    found = _shortest(old, new)
    if found is None:
        return list(_aligned(old, new))
    steps: list[tuple[str, int]] = []
    at: _Step | None = found
    while at is not None:
        steps.append((at.kind, at.size))
        at = at.before
    return [step for step in reversed(steps) if step[1]]


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The steps of a diff that may not be the shortest one."""
    at = to = 0
    for run in (*align(old, new).runs, None):
        base, now = (len(old), len(new)) if run is None else (run.base_start, run.now_start)
        yield from ((kind, n) for kind, n in (("-", base - at), ("+", now - to)) if n)
        if run is not None:
            yield " ", run.length
            at, to = base + run.length, now + run.length


def _shortest(old: Sequence[str], new: Sequence[str]) -> _Step | None:
    """The last of the fewest steps; None for too many.

    Paths through the grid of old and new lines are extended by one change at a time, the farthest
    one on each diagonal (old minus new) being kept with how many old lines it has passed.
    """
    size, now_size = len(old), len(new)

    def along(at: int, diagonal: int, before: _Step | None) -> tuple[int, _Step | None]:
        start = at
        while at < size and at - diagonal < now_size and old[at] == new[at - diagonal]:
            at += 1
        return at, _Step(" ", at - start, before) if at > start else before

    at, step = along(0, 0, None)
    if at >= size and at >= now_size:
        return step or _Step(" ", 0, None)
    best: dict[int, tuple[int, _Step | None]] = {0: (at, step)}
    low, high = -MOST_CHANGES, MOST_CHANGES
    for changes in range(1, MOST_CHANGES + 1):
        for diagonal in range(max(low, -changes), min(high, changes) + 1, 2):
            if diagonal > high:
                break
            less, more = best.pop(diagonal - 1, _NO_PATH), best.get(diagonal + 1, _NO_PATH)
            removes = 0 <= less[0] < size
            adds = 0 <= more[0] - diagonal - 1 < now_size
            if removes and not (adds and less[0] < more[0]):
                at, before, kind = less[0] + 1, less[1], "-"
            elif adds:
                at, before, kind = more[0], more[1], "+"
            else:
                best.pop(diagonal, None)
                continue
            count = 1
            if before is not None and before.kind == kind:
                count, before = before.size + 1, before.before
            at, step = along(at, diagonal, _Step(kind, count, before))
            if at >= size and at - diagonal >= now_size:
                return step
            best[diagonal] = at, step
            if at >= size:
                high = min(high, diagonal - 1)
            if at - diagonal >= now_size:
                low = max(low, diagonal + 1)
    return None
