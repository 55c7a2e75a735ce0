"""A barrier at any system call of another process, by strace: killed there, refused, or stopped.

The kernel does not run the call at which a process is killed, stopped or refused.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

Way = Literal["killed", "EIO", "ENOSPC", "full", "stopped"]
"""What happens at the call: SIGKILL, an error of that call, ENOSPC from there on, SIGSTOP."""

_INJECTED: Final[dict[Way, str]] = {
    "killed": "signal=KILL",
    "EIO": "error=EIO",
    "ENOSPC": "error=ENOSPC",
    "full": "error=ENOSPC",
    "stopped": "signal=STOP",
}
EVERY: Final = "%file,%desc,%network"
"""All calls that name or use a file or a socket."""

_ROOM = ("write", "writev", "pwrite64", "pwritev", "fsync", "fdatasync", "fallocate", "linkat")
ROOM: Final = ",".join((*_ROOM, "ftruncate", "mkdirat", "copy_file_range", "renameat2"))
"""Those that need room on the disk."""

_NAMES = ("openat", "unlinkat", "unlink", "rmdir", "rename", "renameat", "fchmod", "fchmodat")
_MORE = ("fchown", "fsetxattr", "flock", "fcntl", "close", "sendto")
CHANGING: Final = ",".join((ROOM, *_NAMES, *_MORE))
"""Those after which the disk, a lock or a server is not as before."""

_SECONDS = 20.0


def missing() -> str:
    """Why strace cannot be used here; empty when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian: apt-get install strace)"
    found = subprocess.run(["strace", "-e", "trace=none", "true"], capture_output=True)
    return "" if found.returncode == 0 else f"strace may not trace: {found.stderr.decode().strip()}"


class Call(NamedTuple):
    """A system call: its name, its arguments, and whether it came to an end."""

    name: str
    arguments: str
    ended: bool


@dataclass
class Trace:
    """What strace wrote of a process, in its file."""

    path: Path
    pid: int

    def calls(self) -> list[Call]:
        """The calls of the main thread, in order."""
        found: list[Call] = []
        for line in self.path.read_text("utf-8", "replace").splitlines():
            if matched := re.match(rf"{self.pid} +(\w+)\((.*)", line):
                ended = "= ?" not in line and "<unfinished" not in line
                found.append(Call(matched[1], matched[2], ended))
            elif re.match(rf"{self.pid} +<\.\.\. ", line):
                found[-1] = found[-1]._replace(ended="= ?" not in line)
        return found

    def await_stopped(self, has_answered: Callable[[], bool]) -> bool:
        """Wait until the process stands still at the barrier; False where it came by it."""
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until and not has_answered():
            if "--- stopped by SIGSTOP ---" in self.path.read_text("utf-8", "replace"):
                return True
            time.sleep(0.002)
        return False


class Point(NamedTuple):
    """A call of a run without a barrier: its number from 1, its name, the how many-th of that name.

    `from_here`: of each name, which one is the first from there on.
    """

    at: int
    name: str
    nth: int
    from_here: tuple[tuple[str, int], ...]

    @staticmethod
    def all_of(calls: Sequence[Call]) -> list[Point]:
        """Each call as a point."""
        names = {call.name for call in calls}
        seen: Counter[str] = Counter()
        found: list[Point] = []
        for at, call in enumerate(calls, 1):
            rest = tuple((name, seen[name] + 1) for name in sorted(names))
            seen[call.name] += 1
            found.append(Point(at, call.name, seen[call.name], rest))
        return found

    def hit(self, made: Sequence[Call]) -> int:
        """The number of the call that it is in another run, 0 for none."""
        same = [at for at, call in enumerate(made, 1) if call.name == self.name]
        return same[self.nth - 1] if len(same) >= self.nth else 0

    def injected(self, way: Way) -> list[str]:
        """What strace is told; it counts the calls of each name, and of each thread."""
        room = set(ROOM.split(","))
        wanted = [(self.name, f"{self.nth}")]
        if way == "full":
            wanted = [(name, f"{nth}+") for name, nth in self.from_here if name in room]
        return [f"inject={name}:{_INJECTED[way]}:when={when}" for name, when in wanted]


@contextmanager
def traced(
    pid: int, file: Path, calls: str, way: Way | None = None, point: Point | None = None
) -> Generator[Trace]:
    """Trace these calls of a process meanwhile; at the point this happens."""
    words = ["strace", "-f", "-q", "-y", "-s", "8000", "-o", str(file), "-e", f"trace={calls}"]
    if way is not None and point is not None:
        words += [word for each in point.injected(way) for word in ("-e", each)]
    with subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.PIPE) as strace:
        try:
            until = time.monotonic() + _SECONDS
            while not _is_traced(pid):
                if strace.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"strace did not attach: {strace.communicate()[1]!r}")
                time.sleep(0.001)
            yield Trace(file, pid)
        finally:
            _end(strace, pid)


def _end(strace: subprocess.Popen[bytes], pid: int) -> None:
    """Let go of a process that lives; with one that is gone strace ends by itself.

    It must not be asked to let go of one that is dying: it would wait for it for ever.
    """
    until = time.monotonic() + 1
    while strace.poll() is None and time.monotonic() < until:
        if _status(pid)[:1] in ("R", "S", "D", "T", "t"):
            strace.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                strace.wait(1)
            break
        time.sleep(0.001)
    if strace.poll() is None:
        strace.kill()  # the kernel lets go of all that it traced
    strace.wait()


def _status(pid: int) -> str:
    """The state of a process, a letter; empty if there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].strip()
    return ""


def _is_traced(pid: int) -> bool:
    with suppress(OSError):
        return all(
            "TracerPid:\t0\n" not in Path(f"/proc/{pid}/task/{task}/status").read_text()
            for task in os.listdir(f"/proc/{pid}/task")
        )
    return False


_NAMING: Final = ("linkat", "renameat2", "renameat", "rename", "fchmod", "fchmodat")
"""Calls by which a file gets a name or a mode; those of the state folder are made at its start."""


class Window(NamedTuple):
    """Where the intent is recorded and where the done mark is complete; from 1, 0 for nowhere."""

    intent: int
    done: int


def window(calls: Sequence[Call], *, redis: bool) -> Window:
    """The part of a write between the flushed intent and the done mark.

    In the state folder the intent is the first flush of the log, and the mark the last write to it;
    on a Redis server the answer to the script that has the entries, and that to the last one that
    says `done`. Should a file be changed after that, it is the end.
    """
    named = [at for at, call in enumerate(calls, 1) if call.name in _NAMING and call.ended]
    if redis:
        sent = [at for at, call in enumerate(calls, 1) if call.name == "sendto" and call.ended]
        intents = [at for at in sent if "time_ms" in calls[at - 1].arguments]
        done = [at for at in sent if r"\r\ndone\r\n" in calls[at - 1].arguments]
        end = max([done[-1], *named]) if done else 0
        return Window(intents[-1] if intents else 0, end if intents else 0)
    log = [at for at, call in enumerate(calls, 1) if "/state.sqlite-wal>" in call.arguments]
    flushed = [at for at in log if "sync" in calls[at - 1].name and calls[at - 1].ended]
    if not flushed:
        return Window(0, 0)
    written = [at for at in log if at > flushed[0] and calls[at - 1].name.startswith("pwrite")]
    return Window(flushed[0], max([written[-1], *named]) if written else 0)
