"""Searches with ripgrep, for one workspace and one caller.

Invariant: every result was read from a file that was opened beneath the root and that the caller
may read by the path it was opened by. Only such files count towards a limit, a total or the
progress; no search reads standard input, runs another program or writes.

What a name leads to can change between two looks: another process may exchange a directory for a
symlink. So the first ripgrep walks the tree and only reports which files may match. The workspace
opens each of them beneath its root, and a second ripgrep gets the open descriptors in place of
names: it searches the folder of its own descriptors (the standard ones are not files).

Order and matching are those of rg: paths sorted by their parts, `.gitignore` respected, files with
NUL bytes searched up to the first one, UTF-16 with a BOM searched as text. `.gitignore` also counts
outside of git repositories; then those above the root do not. If the search path itself is a file,
it is searched whatever globs and ignore files say. Hidden files are searched only on request, even
if a glob names one; `.git` never, unless the search path itself leads into it.

Links are not followed unless requested, except for the search path, which is resolved first. If
they are, a walk of our own finds the links out of the workspace, and rg is told to exclude them, so
that it does not search behind them.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TypeVar

from copydesk import errors
from copydesk.errors import Refusal
from copydesk.store import _os, rg_process
from copydesk.store.contents import read_at
from copydesk.store.files import Files
from copydesk.store.protocol import Named, failed
from copydesk.store.rg_args import (
    MAX_CONTEXT,
    RgArgs,
    checked_globs,
    ignore_files,
    is_unicode,
    links_to_leave_out,
)
from copydesk.store.rg_process import Decode, FoundLine, Packet, Query, RgLine, SearchResult, Warned
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

MAX_PATTERN_BYTES = 1 << 16
MAX_WARNINGS = 20
VERSION_BYTES = 16 << 20  # a version requires reading the whole file
MOST_VERSION_BYTES = 32 << 20  # the most bytes read for the versions of one search
FIRST_BATCH, BATCH = 64, 512

_DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"
_SPARE = 16  # descriptors left for the pipes of ripgrep and for other threads
_CANDIDATES = ("--files-with-matches", "--null", "--no-line-number")
# The last glob that matches decides, and every --iglob comes after all --glob: the numbers are
# searched whatever globs, types and ignore files say about their names.
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
    """The workspace and the caller of a search.

    `readable` says whether the caller may read a file; it is called before the file counts for
    anything. `progress` gets the number of files with a match so far, of those the caller may read.
    `cancelled` is called about twenty times a second. `named` returns the encoding that the
    configuration names for a file.
    """

    rg: rg_process.Rg | None
    files: Files
    readable: Callable[[RelPath], bool]
    progress: Callable[[int], None] | None = None
    cancelled: Callable[[], bool] | None = None
    timeout_s: float = 30.0
    named: Named = lambda path: None


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open file: the path to show, and its real path if that is UTF-8."""

    path: str
    real: RelPath | None


@dataclass(slots=True)
class _Searched:
    """The file whose lines rg currently reports.

    `base` is its text as long as it contains each line reported so far: the version is that of
    bytes in which every shown line was found, whoever writes meanwhile.
    """

    at: _Opened
    base: Snapshot | None

    def line(self, found: RgLine) -> tuple[RgLine, Decode]:
        """The line, whole if the text is known, and the function to show its bytes."""
        base, number = self.base, found.number - 1
        if base is None:
            return found, rg_process.shown
        if 0 <= number < base.line_count:
            data, encoding = base.key(number), base.encoding
            if encoding.unit > 1:  # rg reports it in UTF-8
                data = encoding.text(data).encode("utf-8", "surrogatepass")
            if data == found.data if found.whole else data.startswith(found.data):
                decode = encoding.decode if encoding.unit == 1 else rg_process.shown
                return replace(found, data=data, whole=True), decode
        self.base = None
        return found, rg_process.shown


Result = TypeVar("Result", bound=SearchResult)
Item = TypeVar("Item")


class SearchSession:
    """A running search, created by `searching`. `flags` are rg's own and safe."""

    def __init__(
        self,
        search: Search,
        query: Query,
        flags: Sequence[str],
        blame: rg_process.Blame,
        rg: rg_process.Rg,
        real: RelPath,
    ) -> None:
        self._search, self._query, self._flags, self._blame = search, query, flags, blame
        self._rg, self._real = rg, real
        self._clock = rg_process.Clock(search.timeout_s, search.cancelled)
        self._warned: list[Warned] = []
        self._complaints: list[tuple[str, str]] = []
        self._searched: list[_Searched] = []
        self._open: tuple[int, _Opened] | None = None
        self._version_bytes = MOST_VERSION_BYTES
        self.timed_out = False

    def packets(self) -> Iterator[tuple[str, Packet]]:
        """The messages on files that may be shown, each with its path: `begin`, lines, `end`."""
        found = 0
        for numbers, paths in self._batches():
            self._open = min(paths.items(), key=lambda each: str(each[0]))
            with self._running(_DESCRIPTORS, ".", _OPENED, numbers) as run:
                path = ""
                for packet in run.packets():
                    kind = packet.kind
                    if kind == "summary":
                        continue
                    if kind == "begin":
                        number = int(packet.path.removeprefix(b"./"))
                        path, self._open = paths[number].path, (number, paths[number])
                        found += 1
                        if self._search.progress is not None:
                            self._search.progress(found)
                    elif kind == "end" and b'"binary_offset":null' not in packet.head:
                        nul_at = str(packet.data["binary_offset"])
                        self._warned.append(Warned(path, "binary", nul_at))
                    yield path, packet
                for spelled, why in run.complaints():
                    named = spelled.removeprefix("./")
                    if named.isdigit() and int(named) in paths:
                        self._warned.append(Warned(paths[int(named)].path, "unreadable", why))
            if self.timed_out:
                return

    def warnings(self) -> tuple[Warned, ...]:
        """The first MAX_WARNINGS files that were not completely searched."""
        warned = self._warned[:MAX_WARNINGS]
        for spelled, why in self._complaints:
            if len(warned) == MAX_WARNINGS:
                break
            names = _names(spelled.encode())
            path = self._path_shown(names)
            if path is not None and self._is_unreadable(names):
                warned.append(Warned(path, "unreadable", why))
        return tuple(warned)

    def line(self, found: RgLine) -> tuple[RgLine, Decode]:
        """A line of the file of the last packet, and the function to show its bytes."""
        assert self._open is not None
        number, at = self._open
        if not self._searched or self._searched[-1].at is not at:
            self._searched.append(_Searched(at, self._text(number, at)))
        return self._searched[-1].line(found)

    def _text(self, number: int, at: _Opened) -> Snapshot | None:
        """The text of an open file if it is small enough to report its version."""
        if at.real is None:
            return None
        try:
            size = _os.fstat(number).st_size
            if size > min(VERSION_BYTES, self._version_bytes):
                return None
            self._version_bytes -= size
            return Snapshot.of(read_at(number, size, 0), self._search.named(at.real))
        except (OSError, errors.BinaryFile):
            return None

    def told(self, found: Result, paths: Collection[str] = ()) -> Result:
        """The result with warnings and versions; `paths` are the files with results."""
        searched = tuple(
            rg_process.SearchedFile(one.at.path, one.at.real, one.base)
            for one in self._searched
            if one.at.real is not None and one.base is not None and one.at.path in paths
        )
        return replace(
            found,
            timed_out=self.timed_out,
            reached=self._open[1].path if self.timed_out and self._open else "",
            warnings=self.warnings(),
            searched=searched,
        )

    def _batches(self) -> Iterator[tuple[list[int], dict[int, _Opened]]]:
        """Open the candidates in batches; the first one is small, so that results come soon."""
        candidates = self._candidates()
        for size in chain((FIRST_BATCH,), repeat(BATCH)):
            with _reserved(size) as numbers:
                paths: dict[int, _Opened] = {}
                tried = 0
                for number, names in zip(numbers, candidates, strict=False):
                    tried += 1
                    opened = self._open_as(number, names)
                    if opened is not None:
                        paths[number] = opened
                if not tried:
                    return
                if paths:
                    yield numbers, paths

    def _candidates(self) -> Iterator[tuple[bytes, ...]]:
        """The names, from the root, of files that matched while rg walked the tree."""
        real = self._real
        if self._search.files.kind(real) == "file":
            yield tuple(part.encode() for part in real.parts)
            return
        query = self._query
        own = ["--hidden", "--iglob=!.git"] if query.include_hidden else ["--iglob=!.*"]
        if query.follow_symlinks:
            left_out = links_to_leave_out(
                self._search.files,
                real,
                include_hidden=query.include_hidden,
                stop=self._clock.check,
            )
            own += ["--follow", *(f"--glob={glob}" for glob in left_out)]
        spelled = f"./{real}" if real.parts else "."
        root = self._search.files.root
        own += ignore_files(root, real, self._flags)
        with self._running(root, spelled, (*own, *_CANDIDATES)) as run:
            for name in run.names():
                yield _names(name)
            self._complaints.extend(run.complaints())

    @contextmanager
    def _running(
        self, folder: str, path: str, own: Sequence[str], descriptors: Sequence[int] = ()
    ) -> Generator[rg_process.RgRun]:
        flags, pattern = [*self._flags, *own], self._query.pattern
        with rg_process.running(
            self._rg, folder, flags, pattern, path, self._clock, self._blame, descriptors
        ) as run:
            yield run
            self.timed_out |= run.timed_out

    def _open_as(self, number: int, names: tuple[bytes, ...]) -> _Opened | None:
        """Open a file as this descriptor; None if it must not be searched."""
        path = self._path_shown(names)
        if path is None:
            return None
        try:
            real = self._real_names(names)
            fd = self._search.files.open_names(real)
        except errors.Failed as refused:
            if refused.reason.startswith(("EMFILE", "ENFILE", "ENOMEM")):
                raise
            self._warned.append(Warned(path, "unreadable", refused.reason))
            return None
        except Refusal:
            return None  # it is gone, or a symlink got in its way
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
        try:
            return _Opened(path, RelPath(tuple(name.decode() for name in real)))
        except UnicodeDecodeError:
            return _Opened(path, None)

    def _real_names(self, names: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The names with links resolved if the query follows links; raises a refusal."""
        if not self._query.follow_symlinks:
            return names
        try:
            path = RelPath(tuple(name.decode() for name in names))
        except UnicodeDecodeError:
            raise errors.InvalidPath("a name that is not UTF-8") from None
        real = self._search.files.resolve(path, self._check_readable)
        self._check_readable(real)
        return tuple(part.encode() for part in real.parts)

    def _check_readable(self, path: RelPath) -> None:
        if not self._search.readable(path):
            raise errors.AccessDenied("read", "")

    def _path_shown(self, names: tuple[bytes, ...]) -> str | None:
        """The path to show to the caller; None if a rule forbids the file."""
        start = len(self._real.parts)
        if names[:start] != tuple(part.encode() for part in self._real.parts):
            return None
        below = names[start:]
        spelled = tuple(name.decode("utf-8", "backslashreplace") for name in below)
        if not self._may_read(spelled):
            return None
        # Rules see both spellings of a name that is not UTF-8, since they can name neither.
        replaced = tuple(name.decode("utf-8", "replace") for name in below)
        if replaced != spelled and not self._may_read(replaced):
            return None
        return str(RelPath((*self._query.path.parts, *spelled)))

    def _may_read(self, below: tuple[str, ...]) -> bool:
        starts = {self._real.parts, self._query.path.parts}
        return all(self._search.readable(RelPath((*start, *below))) for start in starts)

    def _is_unreadable(self, names: tuple[bytes, ...]) -> bool:
        """Whether the file or directory exists beneath the root but cannot be opened."""
        real = names
        try:
            real = self._real_names(names)
            os.close(self._search.files.open_names(real))
        except errors.Failed:
            return True
        except errors.FileNotFound:  # a dangling link
            return real != names
        except Refusal:
            return False
        return False


@contextmanager
def _reserved(size: int) -> Generator[list[int]]:
    """Reserve descriptor numbers, sorted like rg's names, before files open; maybe fewer."""
    numbers: list[int] = []
    try:
        empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while len(numbers) < size:
                numbers.append(os.dup(empty))
        except OSError as refused:
            if refused.errno not in (errno.EMFILE, errno.ENFILE) or len(numbers) <= _SPARE:
                raise
            for _ in range(_SPARE):
                os.close(numbers.pop())
        finally:
            os.close(empty)
        numbers.sort(key=str)
        yield numbers
    finally:
        for number in numbers:
            os.close(number)


@contextmanager
def searching(
    search: Search, query: Query, flags: Sequence[str], globs_argument: str = "globs"
) -> Generator[SearchSession]:
    """Start a search session; raises FileNotFound, NotAFile, InvalidPath, Failed."""
    if search.rg is None:
        raise errors.Failed(rg_process.OPERATION, rg_process.RG_MISSING)
    blame = rg_process.Blame(query.pattern_argument, globs_argument)
    try:
        real = search.files.resolve(query.path)
        kind = search.files.kind(real)
        if kind == "symlink":
            raise errors.InvalidPath("symlinks on the way keep changing")
        if kind not in ("file", "directory"):
            raise errors.NotAFile(kind)
        yield SearchSession(search, query, flags, blame, search.rg, real)
    except OSError as refused:
        raise failed(rg_process.OPERATION, refused) from refused


def check_pattern(pattern: str, argument: str, *, across_lines: bool) -> None:
    """Raise InvalidArgs(argument) if empty, too long, not text, or of several lines unasked."""
    if not pattern:
        raise errors.InvalidArgs(argument, "empty: it would match every line")
    if "\0" in pattern:
        raise errors.InvalidArgs(argument, "NUL")
    if not is_unicode(pattern):
        raise errors.InvalidArgs(argument, "lone surrogate")
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise errors.InvalidArgs(argument, f"longer than {MAX_PATTERN_BYTES} bytes")
    if "\n" in pattern and not across_lines:
        raise errors.InvalidArgs(
            argument, "newline: lines are searched one by one, search for one of its lines"
        )


def _names(spelled: bytes) -> tuple[bytes, ...]:
    """The names in a path as rg spells it, such as `./a/b`."""
    return tuple(name for name in spelled.split(b"/") if name not in (b"", b"."))


def _first(found: Iterator[Item], most: int) -> tuple[tuple[Item, ...], bool]:
    """The first `most` items, and whether there are more."""
    items = tuple(islice(found, most))
    return items, len(items) == most and next(found, None) is not None


def _files(session: SearchSession, most: int) -> rg_process.FoundFiles:
    begun = (path for path, packet in session.packets() if packet.kind == "begin")
    paths, truncated = _first(begun, most)
    return session.told(rg_process.FoundFiles(paths=paths, truncated=truncated))


def _counts(session: SearchSession, most: int) -> rg_process.MatchCounts:
    rows: list[rg_process.Count] = []
    total_files = total_lines = total_matches = 0
    for path, packet in session.packets():
        if packet.kind != "end":
            continue
        stats = packet.data["stats"]
        row = rg_process.Count(path, stats["matched_lines"], stats["matches"])
        total_files += 1
        total_lines += row.lines
        total_matches += row.matches
        if len(rows) < most:
            rows.append(row)
    return session.told(
        rg_process.MatchCounts(
            rows=tuple(rows),
            total_files=total_files,
            total_lines=total_lines,
            total_matches=total_matches,
            truncated=total_files > len(rows),
        )
    )


def _snippets(session: SearchSession, most: int, before: int, after: int) -> rg_process.Snippets:
    """The first `most` matching lines; rg was run with the same context."""
    results: list[tuple[FoundLine, list[FoundLine]]] = []  # each with the lines after it
    recent: deque[FoundLine] = deque(maxlen=before)
    waiting = results[:]
    truncated = False
    for path, packet in session.packets():
        if packet.kind in ("begin", "end"):
            recent.clear()
            waiting.clear()
        else:
            found, decode = session.line(rg_process.read_line(packet))
            line = rg_process.show_line(path, found, decode=decode)
            for _, below in waiting:
                below.append(line)
            if line.is_match:
                if len(results) == most:
                    truncated = True
                else:
                    results.append((replace(line, before=tuple(recent)), []))
                    waiting.append(results[-1])
            waiting = [result for result in waiting if result[0].line + after > line.line]
            recent.append(line)
        if truncated and not waiting:
            break
    closed = tuple(replace(line, after=tuple(below)) for line, below in results)
    paths = {line.path for line in closed}
    return session.told(rg_process.Snippets(results=closed, truncated=truncated), paths)


def _rows(session: SearchSession, rg_args: RgArgs) -> Iterator[FoundLine]:
    width = min(rg_process.LINE_CHARACTERS, rg_args.max_columns or rg_process.LINE_CHARACTERS)
    for path, packet in session.packets():
        if packet.kind in ("begin", "end"):
            continue
        found = rg_process.read_line(packet)
        if b"\0" in found.data and not rg_args.as_text:
            continue  # with --binary; rg itself would not print it
        for each in _single(found):
            line, decode = session.line(each)
            if rg_args.only_matching:
                yield from rg_process.show_matches(path, line, width, decode)
            else:
                yield rg_process.show_line(path, line, width, decode)


def _single(found: RgLine) -> Iterator[RgLine]:
    """The lines of a match across lines, each with its part of the spans."""
    start = 0
    for below, data in enumerate(found.data.split(b"\n")):
        stop = start + len(data)
        is_last = stop == len(found.data)
        spans = tuple(
            (max(first, start) - start, min(last, stop) - start)
            for first, last in found.spans
            if first <= stop and (last > start or first >= start)
        )
        line = data if is_last else data.removesuffix(b"\r")
        yield RgLine(found.number + below, line, found.is_match, spans, found.whole or not is_last)
        start = stop + 1


MAX_ROWS = 10_000  # files, results or rows of one search


def search_files(search: Search, query: Query, max_files: int) -> rg_process.FoundFiles:
    """The first `max_files` files with a match.

    Like every search here, it raises InvalidArgs for pattern, globs and limits, FileNotFound and
    NotAFile for the search path, and Failed without rg, if rg breaks down or if the caller cancels.
    If the time is up, the results so far are returned with `timed_out`.
    """
    _check_number(max_files, "max_files")
    with searching(search, query, _flags(query, "--max-count=1")) as session:
        return _files(session, max_files)


def count_matches(search: Search, query: Query, max_files: int) -> rg_process.MatchCounts:
    """The matching lines and matches per file; `rows` has the first `max_files` files."""
    _check_number(max_files, "max_files")
    with searching(search, query, _flags(query)) as session:
        return _counts(session, max_files)


def search_snippets(
    search: Search, query: Query, max_results: int, before: int, after: int
) -> rg_process.Snippets:
    """The first `max_results` matching lines with context, at most MAX_CONTEXT; it may overlap."""
    _check_number(max_results, "max_results")
    _check_number(before, "context_before", 0, MAX_CONTEXT)
    _check_number(after, "context_after", 0, MAX_CONTEXT)
    flags = _flags(query, f"--before-context={before}", f"--after-context={after}")
    with searching(search, query, flags) as session:
        return _snippets(session, max_results, before, after)


def search_raw(
    search: Search, pattern: str, path: RelPath, rg_args: RgArgs, max_rows: int
) -> rg_process.Raw:
    """At most `max_rows` results: FoundFiles for `-l`, MatchCounts for `-c`, else Lines."""
    _check_number(max_rows, "max_rows")
    check_pattern(pattern, "pattern", across_lines=rg_args.multiline)
    is_sorted = any(flag.startswith("--sort") for flag in rg_args.flags)
    flags = rg_args.flags if is_sorted else ("--sort=path", *rg_args.flags)
    query = Query(pattern, path, include_hidden=rg_args.hidden)
    with searching(search, query, flags, "rg_args") as session:
        match rg_args.mode:
            case "files":
                return _files(session, max_rows)
            case "counts":
                return _counts(session, max_rows)
            case "lines":
                rows, truncated = _first(_rows(session, rg_args), max_rows)
                found = rg_process.Lines(rows=rows, truncated=truncated, context=rg_args.context)
                return session.told(found, {row.path for row in rows})


def _flags(query: Query, *more: str) -> tuple[str, ...]:
    check_pattern(query.pattern, query.pattern_argument, across_lines=False)
    globs = (f"--glob={glob}" for glob in checked_globs(query.globs, "globs"))
    fixed = ("--fixed-strings",) if query.fixed_strings else ()
    return ("--sort=path", _CASE[query.case], *fixed, *more, *globs)


def _check_number(value: int, argument: str, least: int = 1, most: int = MAX_ROWS) -> None:
    if not least <= value <= most:
        raise errors.InvalidArgs(argument, f"a number from {least} to {most} is wanted")


_CASE = {"smart": "--smart-case", "sensitive": "--case-sensitive", "insensitive": "--ignore-case"}
