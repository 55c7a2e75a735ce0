"""The directories and searches of a workspace, limited to what a member may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from copydesk.desk.member import Member
from copydesk.desk.visibility import check_look, is_dir
from copydesk.errors import InvalidPath, Refusal
from copydesk.store import ripgrep
from copydesk.store.files import Files
from copydesk.store.protocol import DirEntry
from copydesk.store.rg_args import parse_rg_args
from copydesk.store.rg_process import Rg, find_rg
from copydesk.store.rg_results import FoundFiles, Lines, MatchCounts, Query, Raw, Snippets
from copydesk.store.ripgrep import Search
from copydesk.text.relpath import RelPath

MOST_ROWS = 200

Progress = Callable[[int], None]
"""Told how many files a search has seen so far."""

__all__ = [
    "DirEntry",
    "FileSearch",
    "FoundFiles",
    "Lines",
    "MatchCounts",
    "Progress",
    "Query",
    "Snippets",
]


class FileSearch:
    """Lists and searches for members; raises AccessDenied for a place that may not be read."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._found: Rg | None = None

    @property
    def rg(self) -> Rg | None:
        """The ripgrep to use; sought when needed, and again while none is found."""
        if self._found is None:
            self._found = find_rg()
        return self._found

    def list_dir(self, member: Member, path: RelPath) -> tuple[DirEntry, ...]:
        """The entries of a directory that the member may read.

        Links are entries by what they lead to; one out of the workspace has no target.
        """
        check_look(self.files, member, path)
        real, entries = self.files.list_dir(path)
        if not member.permission.allows_read(real):
            member.permission.check_walk(real)  # it may have changed since
        shown = (self._shown(member, e, path / e.name, real / e.name) for e in entries)
        return tuple(entry for entry in shown if entry is not None)

    def search(self, member: Member, progress: Progress, cancelled: Callable[[], bool]) -> Searches:
        """The searches of a member; `cancelled` is asked whether to stop."""
        return Searches(self, member, progress, cancelled)

    def _shown(
        self, member: Member, entry: DirEntry, spelled: RelPath, standing: RelPath
    ) -> DirEntry | None:
        """The entry as the member may see it; `standing` is its real path."""
        if entry.kind != "symlink":
            seen = _visible(member, entry.kind == "dir", spelled, standing)
            return entry if seen else None
        try:
            real = self.files.resolve(standing, partial(_check_link, member))
        except InvalidPath:
            real = standing  # it leads out of the workspace
        except Refusal:
            return None
        if not _visible(member, is_dir(self.files, real), spelled, standing, real):
            return None
        # A link that leads to itself was not found under this spelling of its name.
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
        """Search with options of ripgrep, those that are safe.

        `meant` gives the glob, relative to the root, that one among the options stands for.
        """
        args = parse_rg_args(rg_args, meant)
        search = self._allowed(path, args.globs, fold=args.folds)
        return ripgrep.search_raw(search, pattern, path, args, MOST_ROWS)

    def _allowed(self, path: RelPath, globs: Iterable[str], *, fold: bool = False) -> Search:
        permission = self.member.permission
        check_look(self.looking.files, self.member, path)
        for glob in globs:
            permission.check_glob(glob, fold=fold)
        rg, readable = self.looking.rg, permission.allows_read
        return Search(rg, self.looking.files, readable, self.progress, self.cancelled)


def _check_link(member: Member, link: RelPath) -> None:
    if not member.permission.allows_read(link):
        member.permission.check_walk(link)


def _visible(member: Member, is_dir: bool, *paths: RelPath) -> bool:
    allowed = member.permission.allows_walk if is_dir else member.permission.allows_read
    return all(map(allowed, paths))
