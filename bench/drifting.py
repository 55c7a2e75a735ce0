"""Ways to carry a hunk over drift, and the cases that judge them.

What lives here: copydesk's rule as its tests drive it, the tools that people
have, the data set's form. What must not: clocks. The data set is not part of
the project; without it cases are made, for the time alone.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import LineEdit, Text, revised, with_line_after

PROJECT = Path(__file__).parent.parent

Change = tuple[int, int, list[bytes]]
"""Base lines [start, stop), from 0, and the lines that replace them, terminators included."""

Carry = Callable[[bytes, Sequence[Change], bytes], "bytes | None"]


@dataclass(frozen=True, slots=True)
class Case:
    """A hunk planned on `base`, the text as it is `now`, and what may come of it."""

    kind: str
    expect: str
    base: bytes
    changes: list[Change]
    now: bytes
    accept: frozenset[str]


def real_cases(folder: Path, name: str, step: int) -> Iterator[Case]:
    """The cases of one of the data set's files, one in `step` of them."""
    texts = {row["id"]: row["latin1"].encode("latin-1") for row in _rows(folder, "texts")}
    for index, row in enumerate(_rows(folder, name)):
        if index % step:
            continue
        changes = [(a, b, [x.encode("latin-1") for x in new]) for a, b, new in row["changes"]]
        yield Case(
            row["kind"],
            row["expect"],
            texts[row["base"]],
            changes,
            texts[row["current"]],
            frozenset(row["accept_sha256"]),
        )


def made_cases(count: int) -> Iterator[Case]:
    """Hunks in texts of 10 KB to 400 KB in which one in five marked lines has changed."""
    for number in range(count):
        text = Text(10_000 + 390_000 * number // max(count - 1, 1))
        marks = text.marks(20)
        target = marks[7 + number % 6]
        drift = [
            with_line_after(mark, f"# {number}") if index % 2 else revised(mark, f"drift {number}")
            for index, mark in enumerate(marks)
            if mark is not target
        ]
        base, now = _edited(text, []), _edited(text, drift)
        new = [f"{target.old[0]}  # carried\n".encode()]
        change = (target.line - 1, target.line, new)
        yield Case("made", "unknown", base, [change], now, frozenset())


def equal_lines(size: int) -> Case:
    """A text of equal lines into which one line more was put, and a hunk in its middle."""
    line = b"the same line again and again\n"
    count = size // len(line)
    base = line * count
    now = line * (count // 3) + b"another one\n" + line * (count - count // 3)
    change = (count // 2, count // 2 + 1, [b"edited\n"])
    return Case("equal lines", "unknown", base, [change], now, frozenset())


def _edited(text: Text, edits: Sequence[LineEdit]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        text.write(path, edits)
        return path.read_bytes()


def _rows(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    with lzma.open(folder / f"{part}.jsonl.xz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def copydesk() -> Carry:
    """The rule of `copydesk.text.carry`, in the small editor that its tests have around it."""
    path = PROJECT / "tests" / "drift_adapter.py"
    spec = importlib.util.spec_from_file_location("drift_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    carry: Carry = module.carry_hunk
    return carry


def merge_file(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """`git merge-file`, which knows the base."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("now", now), ("base", base), ("edited", replaced(base, changes))):
            (Path(folder) / name).write_bytes(data)
        command = ["git", "merge-file", "-p", "now", "base", "edited"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None


def patch(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """GNU patch with its default fuzz."""
    return _by_diff(["patch", "-p1", "-s", "--binary", "-i", "p"], base, changes, now)


def git_apply(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """`git apply`."""
    return _by_diff(["git", "apply", "--whitespace=nowarn", "p"], base, changes, now)


def _by_diff(
    command: list[str], base: bytes, changes: Sequence[Change], now: bytes
) -> bytes | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").write_bytes(base)
        (folder / "b").write_bytes(replaced(base, changes))
        (folder / "f").write_bytes(now)
        diff = ["diff", "-u", "--label", "a/f", "--label", "b/f", "a", "b"]
        made = subprocess.run(diff, cwd=folder, capture_output=True, check=False)
        (folder / "p").write_bytes(made.stdout)
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        return (folder / "f").read_bytes() if done.returncode == 0 else None


def replaced(base: bytes, changes: Sequence[Change]) -> bytes:
    """The base with the hunk made."""
    parts = base.split(b"\n")
    tail = parts.pop()
    lines = [part + b"\n" for part in parts] + ([tail] if tail else [])
    out: list[bytes] = []
    at = 0
    for start, stop, new in changes:
        out += lines[at:start] + new
        at = stop
    return b"".join(out + lines[at:])
