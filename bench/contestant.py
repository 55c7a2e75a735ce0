"""Contestants of a benchmark: tools, all driven the same way, and how their memory is measured.

A contestant runs in its own process (`bench.worker`) and environment; only the call that one of
its methods returns is timed. Invariant: a call that returns means that the tool reported success;
a tool that refuses raises `Refused` with the text it showed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FILE = "f.txt"
"""The file of most workloads, below the root of the contestant."""

How = Literal["line", "anchor", "batch"]


class Refused(Exception):
    """The tool did not make the edit; the text is what it showed."""


class Unsupported(Exception):
    """The tool has no such operation."""


@dataclass(frozen=True, slots=True)
class Change:
    """Put the lines `new` in the place of `old`, at line `line` (from 1)."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Edits of one file, in a folder that holds them in the forms that tools take.

    `how`: by line number, by the text of the line, or all at once.
    """

    folder: Path

    @property
    def body(self) -> dict[str, Any]:
        """The job as it was written."""
        body: dict[str, Any] = json.loads((self.folder / "job.json").read_text())
        return body

    @property
    def how(self) -> How:
        """How the place is given to the tool."""
        how: How = self.body["how"]
        return how

    @property
    def changes(self) -> list[Change]:
        """The edits, by line."""
        rows = self.body["edits"]
        return [Change(row[0], tuple(row[1]), tuple(row[2])) for row in rows]

    @property
    def patch(self) -> Path:
        """A unified diff of the edits."""
        return self.folder / "job.patch"

    @property
    def envelope(self) -> Path:
        """The edits in the form of apply_patch."""
        return self.folder / "job.codex"

    @property
    def script(self) -> Path:
        """The edits as a script for sed."""
        return self.folder / "job.sed"


class Contestant:
    """A tool. Methods that it does not have raise `Unsupported`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.root = Path()

    def open(self, root: Path) -> None:
        """Start on the folder `root`; not timed."""
        self.root = root

    def close(self) -> None:
        """Let go of what `open` took."""

    def edit(self, job: Job) -> Callable[[], object]:
        """The call that makes the job's edits of FILE."""
        raise Unsupported

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """The call that puts `new` in the place of the one `old` in the file."""
        raise Unsupported

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """The call that shows lines [first, last] of FILE, from 1; `total` lines are in it."""
        raise Unsupported

    def read_end(self, lines: int) -> Callable[[], str]:
        """The call that shows the last lines of FILE, without a count of all."""
        raise Unsupported

    def reset_peak(self) -> None:
        """Forget the peak of memory so far."""
        reset_peak(os.getpid())

    def peak_kb(self) -> int:
        """The peak of resident memory since it was forgotten."""
        return memory_kb(os.getpid(), "VmHWM")

    def idle_kb(self) -> int:
        """The resident memory now."""
        return memory_kb(os.getpid(), "VmRSS")


class Command(Contestant):
    """A tool that is started for every edit; its memory is what `wait4` tells."""

    _peak = 0

    def run(self, *argv: str, stdin: Path | None = None) -> str:
        """Run the command in the root; what it printed. Raises Refused unless it exits with 0."""
        with open(stdin or os.devnull, "rb") as source:
            process = subprocess.Popen(
                argv,
                cwd=self.root,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C.UTF-8", **outside(self.root)},
            )
            assert process.stdout is not None
            shown = process.stdout.read().decode("utf-8", "replace")
            process.stdout.close()
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self._peak = usage.ru_maxrss
        if process.returncode:
            raise Refused(shown or f"exit {process.returncode}")
        return shown

    def reset_peak(self) -> None:
        """Nothing runs."""
        self._peak = 0

    def peak_kb(self) -> int:
        """The peak of the last command."""
        return self._peak

    def idle_kb(self) -> int:
        """Nothing runs between edits."""
        return 0


def outside(folder: Path) -> dict[str, str]:
    """What keeps git from seeing a repository that the folder may be in."""
    return {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}


def reset_peak(pid: int) -> None:
    """Reset the peak memory of a process, if the system can."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


def memory_kb(pid: int, field: str) -> int:
    """`VmHWM` (peak) or `VmRSS` of a process in KiB; 0 if unknown."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(found[0]) if found else 0
