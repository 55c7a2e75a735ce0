"""What tools ask of directories and searches (`copydesk.app.looking` does it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from copydesk.desk.member import Member
from copydesk.store.protocol import Counts, Entry, Lines, Query, Raw, Snippets
from copydesk.store.protocol import FoundFiles as Files
from copydesk.text.relpath import RelPath

Progress = Callable[[int], None]
"""Told how many files a search has seen so far."""

__all__ = [
    "Counts",
    "Entry",
    "Files",
    "Lines",
    "Looking",
    "Progress",
    "Query",
    "Raw",
    "Snippets",
    "Watch",
]


@dataclass(frozen=True, slots=True)
class Watch:
    """Who watches a long search: `progress` is told, `cancelled` is asked."""

    progress: Progress
    cancelled: Callable[[], bool]


class Looking(Protocol):
    """What can be seen of a workspace. Raises AccessDenied for a place that may not be read."""

    def list_dir(self, member: Member, path: RelPath) -> tuple[Entry, ...]:
        """The entries of a directory that the member may read."""
        ...

    def files(self, member: Member, query: Query, most: int, watch: Watch) -> Files:
        """The files with a match."""
        ...

    def counts(self, member: Member, query: Query, most: int, watch: Watch) -> Counts:
        """Lines and matches per file."""
        ...

    def snippets(
        self, member: Member, query: Query, most: int, before: int, after: int, watch: Watch
    ) -> Snippets:
        """The lines with a match, with lines around them."""
        ...

    def raw(
        self,
        member: Member,
        pattern: str,
        path: RelPath,
        rg_args: tuple[str, ...],
        watch: Watch,
        meant: Callable[[str], str],
    ) -> Raw:
        """What ripgrep finds with options of its own, those that are safe.

        `meant` gives the glob, relative to the root, that one among the options stands for.
        """
        ...
