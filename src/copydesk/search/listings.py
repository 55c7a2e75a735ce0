"""List and search the files of a workspace, limited to what a member may see.

Invariant: no more is shown than requested and allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from copydesk.desk.backends.snapshots import Note, Run, ShownLines, Snapshots, join
from copydesk.desk.member import Member, authorized, check_look, is_dir
from copydesk.errors import AccessDenied, ApprovalRequired, FileExists, InvalidPath, Refusal
from copydesk.search.ripgrep import FoundLine, Rg, Search, SearchedFile, SearchResult, find_rg
from copydesk.store.files import Files
from copydesk.store.protocol import DirEntry, FileInfo, Named
from copydesk.text.relpath import RelPath

Progress = Callable[[int], None]
"""Called with the number of files that a search has seen so far."""

__all__ = ["DirEntry", "FileInfo", "FileSearch", "Progress", "lines_shown"]


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
        self._found = self._found or find_rg()
        return self._found

    def list_dir(self, member: Member, path: RelPath) -> tuple[DirEntry, ...]:
        """The entries the member may see; links need a visible target, shown if below the root."""
        check_look(self.files, member, path)
        real, entries = self.files.list_dir(path)
        _check_seen(member, real)  # it may point elsewhere by now
        shown = (self._shown(member, e, path / e.name, real / e.name) for e in entries)
        return tuple(entry for entry in shown if entry is not None)

    def in_order(self, member: Member, path: RelPath) -> tuple[DirEntry, ...]:
        """The entries of a directory sorted by the bytes of their names."""
        return tuple(
            sorted(
                self.list_dir(member, path),
                key=lambda entry: entry.name.encode("utf-8", "surrogatepass"),
            )
        )

    def walk(
        self,
        member: Member,
        top: RelPath,
        is_left_out: Callable[[RelPath, str, DirEntry], bool],
        *,
        skip_refused: bool = False,
        levels: int | None = None,
    ) -> Iterator[tuple[int, str, DirEntry]]:
        """Yield all below a directory, directories before their entries: depth, path and entry.

        Works at any depth, down to so many `levels`. With `skip_refused`, directories below the top
        that cannot be listed have no entries.
        """
        waiting = [(top, "", iter(self.in_order(member, top)))]
        while waiting:
            folder, prefix, entries = waiting[-1]
            entry = next(entries, None)
            if entry is None:
                waiting.pop()
                continue
            name, inner = prefix + entry.name, folder / entry.name
            if is_left_out(inner, name, entry):
                continue
            yield len(waiting), name, entry
            if entry.kind == "dir" and len(waiting) != levels:
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
        reason = member.now().policy.human_reason(real, 0)
        if reason is not None:
            raise ApprovalRequired(reason)
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
                (directories if entry.kind == "dir" else files).append(directory / entry.name)
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
            reason = member.now().policy.human_reason(real, 0) if alone else None
            if reason is not None:
                raise ApprovalRequired(reason)

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

    def search(
        self,
        member: Member,
        path: RelPath,
        globs: Iterable[str],
        progress: Progress,
        cancelled: Callable[[], bool],
        *,
        fold: bool,
    ) -> Search:
        """The search of a path with globs; `cancelled` says whether to stop.

        AccessDenied for a path or a glob that the member may not read; `fold`: globs ignore case.
        """
        check_look(self.files, member, path)
        for glob in globs:
            member.permission.check_glob(glob, fold=fold)
        return Search(
            self.rg,
            self.files,
            member.permission.allows_read,
            progress,
            cancelled,
            named=self.named,
        )

    def note_shown(self, member: Member, result: SearchResult, lines: Iterable[FoundLine]) -> None:
        """Record the shown lines, so the member can edit by their numbers."""
        if self.bases is not None:
            for file, runs in lines_shown(result, lines):
                shown = ShownLines(file.text.version, file.text.line_count, runs, read=False)
                self.bases.keep(file.text, file.real, [Note(member.name, file.real, shown)])

    def _shown(
        self, member: Member, entry: DirEntry, spelled: RelPath, standing: RelPath
    ) -> DirEntry | None:
        """The entry as the member may see it, or None; `standing` is its real path."""
        if entry.kind != "symlink":
            return entry if _visible(member, entry.kind == "dir", spelled, standing) else None
        try:
            real = self.files.resolve(standing, partial(_check_seen, member))
        except InvalidPath:
            real = standing  # it points out of the workspace
        except Refusal:
            return None
        if not _visible(member, is_dir(self.files, real), spelled, standing, real):
            return None
        # A link that resolves to itself was not found under this spelling of its name.
        return replace(entry, link_target=None) if real == standing else entry


def lines_shown(
    result: SearchResult, lines: Iterable[FoundLine]
) -> Iterator[tuple[SearchedFile, tuple[Run, ...]]]:
    """Yield the lines of each known text shown whole by an answer: runs [start, stop), 0-based."""
    runs: dict[str, list[Run]] = {}
    for line in lines:
        each = runs.setdefault(line.path, [])
        if not (line.cut or line.is_part):
            each.append((line.line - 1, line.line))
    for file in result.searched:
        if file.path in runs:
            yield file, join(runs[file.path])


def _check_seen(member: Member, path: RelPath) -> None:
    if not member.permission.allows_read(path):
        member.permission.check_walk(path)


def _visible(member: Member, is_dir: bool, *paths: RelPath) -> bool:
    allowed = member.permission.allows_walk if is_dir else member.permission.allows_read
    return all(map(allowed, paths))
