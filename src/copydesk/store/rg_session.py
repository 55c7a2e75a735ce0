"""One search under way: rg started for a caller, its answers through the gate.

What lives here: what every search needs, from the check of its path to the
warnings at its end. What must not: the shape of a result. Invariant: nothing
about a file that the gate holds back comes out, neither as a packet nor in the
progress nor in a warning.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from copydesk.errors import Failed, FileNotFound, InvalidArgs, NotAFile
from copydesk.store.rg_find import RG_MISSING, Rg
from copydesk.store.rg_found import Warned
from copydesk.store.rg_gate import Gate
from copydesk.store.rg_globs import is_unicode, naming
from copydesk.store.rg_json import Packet, read_end, read_path
from copydesk.store.rg_links import links_to_leave_out, on_disk
from copydesk.store.rg_run import OPERATION, Blame, Clock, Run, running
from copydesk.text.relpath import RelPath

MAX_PATTERN_BYTES = 1 << 16
MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Search:
    """Where is searched and for whom.

    `root` is the absolute path of the workspace. `resolve` gives the real path
    below it or raises (InvalidPath for one that leads out); `readable` says
    whether the caller may read a file, and is asked before the file counts for
    anything. `progress` gets the number of files with a match so far, of those
    the caller may read. `cancelled` is asked about twenty times a second.
    """

    rg: Rg | None
    root: str
    resolve: Callable[[RelPath], RelPath]
    readable: Callable[[RelPath], bool]
    progress: Callable[[int], None] | None = None
    cancelled: Callable[[], bool] | None = None
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What rg is to look for; `flags` are rg's own and safe."""

    pattern: str
    path: RelPath
    flags: Sequence[str]
    include_hidden: bool
    follow_symlinks: bool
    blame: Blame


class Session:
    """A running search; `searching` makes it."""

    def __init__(self, run: Run, gate: Gate, progress: Callable[[int], None] | None) -> None:
        self._run = run
        self._gate = gate
        self._progress = progress
        self._binary: list[Warned] = []

    @property
    def timed_out(self) -> bool:
        """Whether the time was up before rg had ended."""
        return self._run.timed_out

    def packets(self) -> Iterator[tuple[str, Packet]]:
        """The messages about files that may be shown, each with the file's path.

        For each such file: `begin`, then `match` and `context`, then `end`.
        """
        path: str | None = None
        files = 0
        for packet in self._run.packets():
            kind = packet.kind
            if kind == "begin":
                path = self._gate.path_shown(read_path(packet))
                if path is not None:
                    files += 1
                    if self._progress is not None:
                        self._progress(files)
            if path is None or kind == "summary":
                continue
            if kind == "end":
                nul_at = read_end(packet).nul_at_byte
                if nul_at is not None:
                    self._binary.append(Warned(path, "binary", str(nul_at)))
            yield path, packet

    def warnings(self) -> tuple[Warned, ...]:
        """The first MAX_WARNINGS files that were not wholly searched."""
        warned = list(self._binary[:MAX_WARNINGS])
        for complaint in self._run.complaints():
            path = self._gate.path_shown(complaint.path.encode())
            if path is not None and len(warned) < MAX_WARNINGS:
                warned.append(Warned(path, "unreadable", complaint.why))
        return tuple(warned)


@contextmanager
def searching(search: Search, asked: Asked) -> Generator[Session, None, None]:
    """Start rg for the question.

    Raises Failed when there is no rg, FileNotFound and NotAFile for the search
    path, and what `resolve` raises.
    """
    if search.rg is None:
        raise Failed(OPERATION, RG_MISSING)
    clock = Clock(search.timeout_s, search.cancelled)
    real = search.resolve(asked.path)
    is_file = _is_file(on_disk(search.root, real))
    flags = list(asked.flags)
    # Last, and with --iglob, which rg weighs after every --glob.
    if is_file:
        # By name rg would search a binary file beyond its first NUL.
        own = ["--max-depth=1", f"--iglob={naming(part.encode() for part in real.parts)}"]
    else:
        own = ["--hidden", "--iglob=!.git"] if asked.include_hidden else ["--iglob=!.*"]
    if asked.follow_symlinks and not is_file:
        left_out = links_to_leave_out(
            search.root,
            real,
            search.resolve,
            include_hidden=asked.include_hidden,
            stop=clock.check,
        )
        flags += ["--follow", *(f"--glob={glob}" for glob in left_out)]
    start = real.parent if is_file else real
    spelled = f"./{start}" if start.parts else "."
    gate = Gate(asked.path, real, search.resolve, search.readable, asked.follow_symlinks)
    with running(
        search.rg, search.root, [*flags, *own], asked.pattern, spelled, clock, asked.blame
    ) as run:
        yield Session(run, gate, search.progress)


def check_pattern(pattern: str, argument: str, *, across_lines: bool) -> None:
    """Raises InvalidArgs(argument) for a pattern that rg could not take or not mean.

    Empty, with NUL or a lone surrogate, longer than MAX_PATTERN_BYTES; with a
    newline unless the search is one across lines.
    """
    if not pattern:
        raise InvalidArgs(argument, "empty: it would match every line")
    if "\0" in pattern:
        raise InvalidArgs(argument, "NUL")
    if not is_unicode(pattern):
        raise InvalidArgs(argument, "lone surrogate")
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise InvalidArgs(argument, f"longer than {MAX_PATTERN_BYTES} bytes")
    if "\n" in pattern and not across_lines:
        raise InvalidArgs(
            argument, "newline: lines are searched one by one, search for one of its lines"
        )


def _is_file(path: bytes) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFound() from None
    except OSError as refused:
        raise Failed(OPERATION, refused.strerror or str(refused)) from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise NotAFile("symlink" if stat.S_ISLNK(mode) else "other")
    return stat.S_ISREG(mode)
