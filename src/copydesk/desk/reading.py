"""Read, list and search the files of a workspace, limited to what a member may see.

Invariant: no more is shown than requested and allowed, and an answer says what was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from copydesk.desk.backends.snapshots import Note, ShownLines, Snapshots
from copydesk.desk.member import Member, authorized, check_look, is_dir
from copydesk.desk.outcome import Reading
from copydesk.edit.draft import first_line_of, resolve_range, tail_count
from copydesk.errors import (
    AccessDenied,
    ApprovalRequired,
    Failed,
    FileExists,
    InvalidPath,
    RangeOutOfBounds,
    Refusal,
)
from copydesk.store import ripgrep
from copydesk.store.files import Files
from copydesk.store.protocol import DirEntry, FileInfo, Named, Stamp
from copydesk.store.rg_args import parse_rg_args
from copydesk.store.rg_process import (
    FoundFiles,
    FoundLine,
    Lines,
    MatchCounts,
    Query,
    Raw,
    Rg,
    SearchedFile,
    SearchResult,
    Snippets,
    find_rg,
)
from copydesk.store.ripgrep import Search
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.sizes import tokens
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, newline_style
from copydesk.text.source import Facts

MOST_LINES = 500
MOST_CHARACTERS = 100_000
_AT_ONCE = 64
_NUMBER = 5  # tokens of a line number and its separator


def read_lines(
    path: RelPath,
    base: Snapshot,
    mtime_ms: int,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """The lines of `range_text` ("": the file) that may be shown; `most_tokens` with numbers."""
    start, stop = _wanted(range_text, base.line_count)
    lines, cut, within = _shown(base, start, min(stop, start + most_lines), most_tokens)
    return Reading(
        path=path,
        first_line=start + 1,
        lines=lines,
        size_bytes=base.size,
        encoding=base.encoding.label,
        total_lines=base.line_count,
        version=base.version,
        newline_style=base.newline_style,
        ends_with_newline=base.ends_with_newline,
        cut_by_lines=not cut and stop - start > len(lines),
        cut_by_characters=cut,
        cut_in_line=within,
        last_wanted=stop,
        mtime_ms=mtime_ms,
        digest=base.digest,
    )


def read_large(
    path: RelPath,
    stamp: Stamp,
    files: Files,
    named: str | None,
    range_text: str,
    most_lines: int,
    most_tokens: int | None = None,
) -> Reading:
    """Like `read_lines`, for any size, in bounded memory; Failed if it is not the stamp's file."""
    last = tail_count(range_text)
    wanted = first_line_of(range_text) if last is None else min(last, most_lines)
    window_bytes = 4 * MOST_CHARACTERS + 4
    if last is not None and last > most_lines:
        wanted = last
    found = files.window(path, wanted, window_bytes, named, last=last is not None)
    if (found.stamp.dev, found.stamp.ino) != (stamp.dev, stamp.ino):
        raise Failed("read", "EBUSY: the file changes while it is read")
    facts, encoding = found.facts, found.encoding
    window = Snapshot(found.data, Encoding(encoding.name, b"", encoding.unit))
    have, digest = window.line_count, None if facts is None else facts.digest
    parted = found.more and not window.ends_with_newline
    if parted and have > 1:
        have, parted = have - 1, False
    if facts is None:
        start, stop = 0, last or 0
        stop = min(stop, have) if not found.more else stop
    else:
        start, stop = _wanted(range_text, facts.line_count)
    most = min(stop - start, most_lines)
    lines, cut, within = _shown(window, 0, min(most, have), most_tokens)
    within = within or (parted and bool(lines))
    short = found.more and not cut and len(lines) < most
    return Reading(
        path=path,
        first_line=None if facts is None else start + 1,
        lines=lines,
        size_bytes=found.stamp.size,
        encoding=encoding.label,
        total_lines=None if facts is None else facts.line_count,
        version=None if digest is None else digest[:VERSION_LENGTH],
        newline_style=None if facts is None else newline_style(*facts.newline_counts),
        ends_with_newline=_closed(window, facts, more=found.more),
        cut_by_lines=not (cut or short) and stop - start > len(lines),
        cut_by_characters=cut or short or within,
        cut_in_line=within,
        last_wanted=stop,
        mtime_ms=found.stamp.mtime_ns // 1_000_000,
        digest=digest,
    )


def _closed(window: Snapshot, facts: Facts | None, *, more: bool) -> bool | None:
    if facts is not None:
        return facts.ends_with_newline
    return None if more else window.ends_with_newline


def _shown(
    base: Snapshot, start: int, stop: int, most_tokens: int | None
) -> tuple[tuple[str, ...], bool, bool]:
    """Lines [start, stop) within limits, whether these cut them, and whether within a line."""
    lines: list[str] = []
    left, room = MOST_CHARACTERS, most_tokens
    for first in range(start, stop, _AT_ONCE):
        texts = base.texts(first, min(first + _AT_ONCE, stop))
        size = sum(map(len, texts)) + len(texts)
        if room is None and size <= left:
            lines += texts
            left -= size
            continue
        for text in texts:
            kept = text[:left]
            while room is not None and tokens(kept) > room:
                kept = kept[: len(kept) // 2]
            if len(kept) < len(text):
                return (tuple(lines), True, False) if lines else ((kept,), True, True)
            lines.append(text)
            left -= len(text) + 1
            room = None if room is None else max(room - tokens(text) - _NUMBER, 0)
    return tuple(lines), False, False


def _wanted(text: str, total: int) -> tuple[int, int]:
    if not text:
        return 0, total
    last = tail_count(text)
    if last is not None:
        return max(total - last, 0), total
    start, stop = resolve_range(text, total)
    if start == stop and total:
        raise RangeOutOfBounds(text, total)
    return start, stop


MOST_ROWS = 200

Progress = Callable[[int], None]
"""Called with the number of files that a search has seen so far."""

__all__ = [
    "DirEntry",
    "FileInfo",
    "FileSearch",
    "FoundFiles",
    "FoundLine",
    "Lines",
    "MatchCounts",
    "Progress",
    "Query",
    "SearchResult",
    "SearchedFile",
    "Snippets",
]


class FileSearch:
    """Lists and searches for members; raises AccessDenied for a path that may not be read."""

    def __init__(
        self, files: Files, named: Named = lambda path: None, bases: Snapshots | None = None
    ) -> None:
        self.files, self.named, self.bases = files, named, bases
        self._found: Rg | None = None

    @property
    def rg(self) -> Rg | None:
        """The ripgrep to use; looked up when needed, until one is found."""
        if self._found is None:
            self._found = find_rg()
        return self._found

    def list_dir(self, member: Member, path: RelPath) -> tuple[DirEntry, ...]:
        """The entries the member may see; links need a visible target, shown if below the root."""
        check_look(self.files, member, path)
        real, entries = self.files.list_dir(path)
        if not member.permission.allows_read(real):
            member.permission.check_walk(real)  # it may point elsewhere by now
        shown = (self._shown(member, e, path / e.name, real / e.name) for e in entries)
        return tuple(entry for entry in shown if entry is not None)

    def in_order(self, member: Member, path: RelPath) -> tuple[DirEntry, ...]:
        """The entries of a directory sorted by the bytes of their names."""
        found = self.list_dir(member, path)
        return tuple(sorted(found, key=lambda entry: entry.name.encode("utf-8", "surrogatepass")))

    def walk(
        self,
        member: Member,
        top: RelPath,
        is_left_out: Callable[[RelPath, str, DirEntry], bool],
        *,
        skip_refused: bool = False,
    ) -> Iterator[tuple[int, str, DirEntry]]:
        """Yield all below a directory, directories before their entries: depth, path and entry.

        Works at any depth. With `skip_refused`, directories below the top that cannot be listed
        have no entries.
        """
        waiting = [(top, "", iter(self.in_order(member, top)))]
        while waiting:
            place, prefix, entries = waiting[-1]
            entry = next(entries, None)
            if entry is None:
                waiting.pop()
                continue
            name, inner = prefix + entry.name, place / entry.name
            if is_left_out(inner, name, entry):
                continue
            yield len(waiting), name, entry
            if entry.kind == "dir":
                try:
                    waiting.append((inner, f"{name}/", iter(self.in_order(member, inner))))
                except Refusal:
                    if not skip_refused:
                        raise

    def is_directory(self, member: Member, path: RelPath) -> bool:
        """Whether a directory exists at the path; raises AccessDenied."""
        return is_dir(self.files, check_look(self.files, member, path))

    def info(self, member: Member, path: RelPath) -> FileInfo:
        """The properties of a file or directory; raises AccessDenied."""
        return self.files.info(check_look(self.files, member, path))

    def make_directory(self, member: Member, path: RelPath) -> None:
        """Make directories; AccessDenied, NotAFile, ApprovalRequired if a person has to approve."""
        real = authorized(self.files, member, path, "write", "read")
        why = member.now().policy.why_human(real, 0)
        if why is not None:
            raise ApprovalRequired(why)
        self.files.make_dir(real)

    def tree(self, member: Member, top: RelPath, most: int) -> tuple[list[RelPath], list[RelPath]]:
        """Directories (`top` first) and files, `most` + 1 in all at most.

        AccessDenied if the member may not see one of them.
        """
        directories, files = [top], list[RelPath]()
        for directory in directories:
            seen = {entry.name: entry for entry in self.list_dir(member, directory)}
            for entry in self.files.list_dir(directory)[1]:
                if entry.name not in seen:
                    raise AccessDenied("read", "something below it may not be read")
                kept = directories if entry.kind == "dir" else files
                kept.append(directory / entry.name)
                if len(files) + len(directories) > most:
                    return directories, files
        return directories, files

    def check_directories(
        self, member: Member, moved: Mapping[RelPath, RelPath], *, alone: bool
    ) -> None:
        """Raise unless the directories may be made and removed: AccessDenied, FileExists.

        `alone`: no file is moved with them, which a person could see as a plan; then also
        ApprovalRequired if a person has to approve.
        """
        for source, target in moved.items():
            real = authorized(self.files, member, target, "write", "read")
            if is_dir(self.files, real):
                raise FileExists(0)
            authorized(self.files, member, source, "write")
            why = member.now().policy.why_human(real, 0) if alone else None
            if why is not None:
                raise ApprovalRequired(why)

    def move_directories(
        self, member: Member, moved: Mapping[RelPath, RelPath]
    ) -> tuple[RelPath, ...]:
        """Make a moved tree's directories, remove empty old ones; return those that failed."""
        left: list[RelPath] = []
        for target in moved.values():
            try:
                self.files.make_dir(authorized(self.files, member, target, "write", "read"))
            except Refusal:
                left.append(target)
        for source in reversed(tuple(moved)):
            with suppress(Refusal):
                self.files.remove_dir(authorized(self.files, member, source, "write"))
            if is_dir(self.files, source):
                left.append(source)
        return tuple(left)

    def search(self, member: Member, progress: Progress, cancelled: Callable[[], bool]) -> Searches:
        """The searches of a member; `cancelled` says whether to stop."""
        return Searches(self, member, progress, cancelled)

    def _shown(
        self, member: Member, entry: DirEntry, spelled: RelPath, standing: RelPath
    ) -> DirEntry | None:
        """The entry as the member may see it, or None; `standing` is its real path."""
        if entry.kind != "symlink":
            seen = _visible(member, entry.kind == "dir", spelled, standing)
            return entry if seen else None
        try:
            real = self.files.resolve(standing, partial(_check_link, member))
        except InvalidPath:
            real = standing  # it points out of the workspace
        except Refusal:
            return None
        if not _visible(member, is_dir(self.files, real), spelled, standing, real):
            return None
        # A link that resolves to itself was not found under this spelling of its name.
        return replace(entry, link_target=None) if real == standing else entry


@dataclass(frozen=True, slots=True)
class Searches:
    """The searches of one member; AccessDenied for a path or a glob that it may not read."""

    looking: FileSearch
    member: Member
    progress: Progress
    cancelled: Callable[[], bool]

    def files(self, query: Query, most: int) -> FoundFiles:
        """List the files with a match."""
        return ripgrep.search_files(self._allowed(query.path, query.globs), query, most)

    def counts(self, query: Query, most: int) -> MatchCounts:
        """Count lines and matches per file."""
        return ripgrep.count_matches(self._allowed(query.path, query.globs), query, most)

    def snippets(self, query: Query, most: int, before: int, after: int) -> Snippets:
        """Find the lines with a match, with lines around them."""
        search = self._allowed(query.path, query.globs)
        return ripgrep.search_snippets(search, query, most, before, after)

    def raw(
        self, pattern: str, path: RelPath, rg_args: tuple[str, ...], meant: Callable[[str], str]
    ) -> Raw:
        """Search with safe options of ripgrep; `meant` makes a glob relative to the root."""
        args = parse_rg_args(rg_args, meant)
        search = self._allowed(path, args.globs, fold=args.folds)
        return ripgrep.search_raw(search, pattern, path, args, MOST_ROWS)

    def note_shown(self, found: SearchResult, lines: Iterable[FoundLine]) -> None:
        """Record the shown lines, so the member can edit by their numbers."""
        bases = self.looking.bases
        if bases is None:
            return
        for file, runs in lines_shown(found, lines):
            shown = partial(_shown_lines, file.text, runs)
            bases.keep(file.text, file.real, [Note(self.member.name, file.real, shown)])

    def _allowed(self, path: RelPath, globs: Iterable[str], *, fold: bool = False) -> Search:
        permission = self.member.permission
        check_look(self.looking.files, self.member, path)
        for glob in globs:
            permission.check_glob(glob, fold=fold)
        looking, readable = self.looking, permission.allows_read
        return Search(
            looking.rg, looking.files, readable, self.progress, self.cancelled, named=looking.named
        )


def _shown_lines(text: Snapshot, runs: tuple[tuple[int, int], ...]) -> ShownLines:
    return ShownLines(text.version, text.line_count, runs, read=False)


def lines_shown(
    found: SearchResult, lines: Iterable[FoundLine]
) -> Iterator[tuple[SearchedFile, tuple[tuple[int, int], ...]]]:
    """Yield the lines of each known text shown whole by an answer: runs [start, stop), 0-based."""
    numbers: dict[str, set[int]] = {}
    for line in lines:
        whole = {line.line - 1} if not (line.cut or line.is_part) else set[int]()
        numbers.setdefault(line.path, set()).update(whole)
    for file in found.searched:
        if file.path not in numbers:
            continue
        runs: list[tuple[int, int]] = []
        for number in sorted(numbers[file.path]):
            joins = runs and runs[-1][1] == number
            start = runs.pop()[0] if joins else number
            runs.append((start, number + 1))
        yield file, tuple(runs)


def _check_link(member: Member, link: RelPath) -> None:
    if not member.permission.allows_read(link):
        member.permission.check_walk(link)


def _visible(member: Member, is_dir: bool, *paths: RelPath) -> bool:
    allowed = member.permission.allows_walk if is_dir else member.permission.allows_read
    return all(map(allowed, paths))
