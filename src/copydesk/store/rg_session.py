"""One search under way: ripgrep finds candidates by name, and is asked again by descriptor.

What lives here: what every search needs, from the check of its path to the
warnings at its end. What must not: the shape of a result. Invariant: what comes
out was read from a file that was opened beneath the root and that the caller may
read by the path it was opened by; nothing of the first pass is shown.

A name means what it leads to at the moment, and another process may exchange a
directory for a symlink between two looks. So the first ripgrep walks the tree and
says only which files may match. Each of them is opened by the workspace, beneath
its root, and a second ripgrep is given the open descriptors in the place of names:
it searches the folder of its own descriptors, the standard ones not being files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from copydesk.errors import (
    AccessDenied,
    Failed,
    FileNotFound,
    InvalidArgs,
    InvalidPath,
    NotAFile,
    Refusal,
)
from copydesk.store.refused import failed
from copydesk.store.rg_find import RG_MISSING, Rg
from copydesk.store.rg_found import Warned
from copydesk.store.rg_globs import is_unicode
from copydesk.store.rg_json import Packet, read_end, read_path
from copydesk.store.rg_links import links_to_leave_out
from copydesk.store.rg_run import OPERATION, Blame, Clock, Complaint, Run, running
from copydesk.store.workspace import Workspace
from copydesk.text.relpath import RelPath

MAX_PATTERN_BYTES = 1 << 16
MAX_WARNINGS = 20
FIRST_BATCH, BATCH = 64, 512

_DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"
_SPARE = 16
"""Descriptors left over for the pipes of ripgrep, and for others at the same time."""
_CANDIDATES = ("--files-with-matches", "--null", "--no-line-number")
# The last that matches decides, and --iglob is weighed after every --glob: the numbers
# are searched whatever globs, types and ignore files say of the names they stand for.
_OPENED = (
    "--json",
    "--line-number",
    "--follow",
    "--max-depth=1",
    "--no-ignore",
    "--sort=path",
    "--iglob=/*",
)


@dataclass(frozen=True, slots=True)
class Search:
    """Where is searched and for whom.

    `readable` says whether the caller may read a file, and is asked before the file
    counts for anything. `progress` gets the number of files with a match so far, of
    those the caller may read. `cancelled` is asked about twenty times a second.
    """

    rg: Rg | None
    files: Workspace
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

    def __init__(self, search: Search, asked: Asked, rg: Rg, clock: Clock, real: RelPath) -> None:
        self._search, self._asked, self._rg, self._clock = search, asked, rg, clock
        self._real = real
        self._warned: list[Warned] = []
        self._complaints: list[Complaint] = []
        self.timed_out = False

    def packets(self) -> Iterator[tuple[str, Packet]]:
        """The messages about files that may be shown, each with the file's path.

        For each such file: `begin`, then `match` and `context`, then `end`.
        """
        found = 0
        for batch in self._batches():
            with batch, self._running(_DESCRIPTORS, ".", _OPENED, batch.numbers) as run:
                path = ""
                for packet in run.packets():
                    kind = packet.kind
                    if kind == "summary":
                        continue
                    if kind == "begin":
                        path = batch.paths[_number(packet)]
                        found += 1
                        if self._search.progress is not None:
                            self._search.progress(found)
                    elif kind == "end" and b'"binary_offset":null' not in packet.head:
                        nul_at = read_end(packet).nul_at_byte
                        self._warned.append(Warned(path, "binary", str(nul_at)))
                    yield path, packet
                for complaint in run.complaints():
                    number = complaint.path.removeprefix("./")
                    if number.isdigit() and int(number) in batch.paths:
                        self._warned.append(
                            Warned(batch.paths[int(number)], "unreadable", complaint.why)
                        )
            if self.timed_out:
                return

    def warnings(self) -> tuple[Warned, ...]:
        """The first MAX_WARNINGS files that were not wholly searched."""
        warned = self._warned[:MAX_WARNINGS]
        for complaint in self._complaints:
            if len(warned) == MAX_WARNINGS:
                break
            names = _names(complaint.path.encode())
            path = self._path_shown(names)
            if path is not None and self._is_unreadable(names):
                warned.append(Warned(path, "unreadable", complaint.why))
        return tuple(warned)

    def _batches(self) -> Iterator[_Batch]:
        """The candidates, opened; a few at first, so that the first answers come soon."""
        candidates = self._candidates()
        size = FIRST_BATCH
        while True:
            batch = _Batch(size)
            try:
                for names in islice(candidates, len(batch.numbers)):
                    self._open_into(batch, names)
            except BaseException:
                batch.close()
                raise
            if not batch.tried:
                batch.close()
                return
            if batch.paths:
                yield batch
            batch.close()
            size = BATCH

    def _candidates(self) -> Iterator[tuple[bytes, ...]]:
        """The names, from the root, of files that seemed to match as they were walked over."""
        real = self._real
        if self._search.files.kind(real) == "file":
            yield tuple(part.encode() for part in real.parts)
            return
        asked = self._asked
        own = ["--hidden", "--iglob=!.git"] if asked.include_hidden else ["--iglob=!.*"]
        if asked.follow_symlinks:
            left_out = links_to_leave_out(
                self._search.files,
                real,
                include_hidden=asked.include_hidden,
                stop=self._clock.check,
            )
            own += ["--follow", *(f"--glob={glob}" for glob in left_out)]
        spelled = f"./{real}" if real.parts else "."
        root = self._search.files.root
        with self._running(root, spelled, (*own, *_CANDIDATES)) as run:
            for name in run.names():
                yield _names(name)
            self._complaints.extend(run.complaints())

    @contextmanager
    def _running(
        self, folder: str, path: str, own: Sequence[str], descriptors: Sequence[int] = ()
    ) -> Generator[Run]:
        asked = self._asked
        flags = [*asked.flags, *own]
        with running(
            self._rg, folder, flags, asked.pattern, path, self._clock, asked.blame, descriptors
        ) as run:
            yield run
            self.timed_out |= run.timed_out

    def _open_into(self, batch: _Batch, names: tuple[bytes, ...]) -> None:
        path = self._path_shown(names)
        if path is None:
            batch.skip()
            return
        try:
            fd = self._search.files.open_names(self._real_names(names))
        except Failed as refused:
            if refused.reason.startswith(("EMFILE", "ENFILE", "ENOMEM")):
                raise
            self._warned.append(Warned(path, "unreadable", refused.reason))
        except Refusal:
            pass  # it is gone, or a symlink has come into its way
        else:
            batch.put(fd, path)
            return
        batch.skip()

    def _real_names(self, names: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The names with the links on the way followed, if they are to be; raises a refusal."""
        if not self._asked.follow_symlinks:
            return names
        try:
            path = RelPath(tuple(name.decode() for name in names))
        except UnicodeDecodeError:
            raise InvalidPath("a name that is not UTF-8") from None
        real = self._search.files.resolve(path, self._check_readable)
        self._check_readable(real)
        return tuple(part.encode() for part in real.parts)

    def _check_readable(self, path: RelPath) -> None:
        if not self._search.readable(path):
            raise AccessDenied("read", "")

    def _path_shown(self, names: tuple[bytes, ...]) -> str | None:
        """The path that the caller is shown for the file, or None: a rule forbids it."""
        start = len(self._real.parts)
        if names[:start] != tuple(part.encode() for part in self._real.parts):
            return None
        below = names[start:]
        shown = tuple(name.decode("utf-8", "backslashreplace") for name in below)
        if not self._may_read(shown):
            return None
        # A rule is asked about both spellings of a name that is not UTF-8: it can name neither.
        replaced = tuple(name.decode("utf-8", "replace") for name in below)
        if replaced != shown and not self._may_read(replaced):
            return None
        return str(RelPath((*self._asked.path.parts, *shown)))

    def _may_read(self, below: tuple[str, ...]) -> bool:
        starts = {self._real.parts, self._asked.path.parts}
        return all(self._search.readable(RelPath((*start, *below))) for start in starts)

    def _is_unreadable(self, names: tuple[bytes, ...]) -> bool:
        """Whether the file or directory is there, beneath the root, and cannot be opened."""
        real = names
        try:
            real = self._real_names(names)
            os.close(self._search.files.open_names(real))
        except Failed:
            return True
        except FileNotFound:  # a link that leads to nothing
            return real != names
        except Refusal:
            return False
        return False


class _Batch:
    """Open files under descriptor numbers, in the order in which rg visits them.

    The numbers are taken before the files are opened, so that the n-th file has the
    n-th number by name. There are fewer than `size` where descriptors are few.
    """

    def __init__(self, size: int) -> None:
        self.numbers: list[int] = []
        self.paths: dict[int, str] = {}
        self.tried = 0
        try:
            self._take(size)
        except OSError:
            self.close()
            raise

    def _take(self, size: int) -> None:
        with ExitStack() as stack:
            empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, empty)
            try:
                while len(self.numbers) < size:
                    self.numbers.append(os.dup(empty))
            except OSError as refused:
                if refused.errno not in (errno.EMFILE, errno.ENFILE) or len(self.numbers) <= _SPARE:
                    raise
                for _ in range(_SPARE):
                    os.close(self.numbers.pop())
        self.numbers.sort(key=str)

    def put(self, fd: int, path: str) -> None:
        """Keep the open file under the next number."""
        number = self.numbers[self.tried]
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
        self.paths[number] = path
        self.tried += 1

    def skip(self) -> None:
        """Leave a number without a file."""
        self.tried += 1

    def __enter__(self) -> _Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all of them."""
        while self.numbers:
            os.close(self.numbers.pop())


@contextmanager
def searching(search: Search, asked: Asked) -> Generator[Session]:
    """A session for the question.

    Raises FileNotFound, NotAFile and InvalidPath for the search path, and Failed when
    there is no rg and for what the system refuses.
    """
    if search.rg is None:
        raise Failed(OPERATION, RG_MISSING)
    clock = Clock(search.timeout_s, search.cancelled)
    try:
        real = search.files.resolve(asked.path)
        kind = search.files.kind(real)
        if kind == "symlink":
            raise InvalidPath("symlinks on the way keep changing")
        if kind not in ("file", "directory"):
            raise NotAFile(kind)
        yield Session(search, asked, search.rg, clock, real)
    except OSError as refused:
        raise failed(OPERATION, refused) from refused


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


def _number(packet: Packet) -> int:
    """The descriptor that a `begin` packet is about: its path is such as `./7`."""
    return int(read_path(packet).removeprefix(b"./"))


def _names(spelled: bytes) -> tuple[bytes, ...]:
    """The names of a path as rg spells it, such as `./a/b`."""
    return tuple(name for name in spelled.split(b"/") if name not in (b"", b"."))
