"""Which documents a folder holds: its Markdown files, found by one walk.

What lives here: the walk, and how documents stand to each other. What must not:
what is in a file. Invariants: hidden names, files that may not be read, and links
that leave the root are no documents; a file is one document, by whatever links
lead to it.

`Foo.md` is a document, and the folder `Foo` beside it holds those below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import FileNotFound, Refusal
from copydesk.store.access import Rules
from copydesk.store.protocol import Files
from copydesk.store.stamp import Stamp
from copydesk.text.relpath import RelPath

ENDINGS = (".md", ".markdown")
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the workspace that is a notebook, as one member may see it."""

    files: Files
    root: RelPath
    rules: Rules

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All documents with their stamps, by path, in order."""
        found: dict[RelPath, Stamp] = {}
        links: list[RelPath] = []
        seen: set[RelPath] = set()
        waiting = [self.root]
        while waiting:
            for path, kind in self._entries(waiting.pop(), seen):
                if kind == "dir":
                    waiting.append(path)
                elif kind == "symlink":
                    links.append(path)
                elif is_document(path):
                    stamp = self.stamp(path)
                    if stamp is not None:
                        found[path] = stamp
        reals = set(found)
        for path in sorted(links):
            self._follow(path, found, reals, seen)
        return MappingProxyType(dict(sorted(found.items())))

    def stamp(self, path: RelPath) -> Stamp | None:
        """The stamp of a document; None for a file that is none, or may not be read."""
        if not self.root.covers(path) or not is_document(path) or self._hidden(path):
            return None
        try:
            real, stamp = self.files.stat(path)
        except Refusal:
            return None
        return stamp if self.rules.allows_read(real) and self.rules.allows_read(path) else None

    def gone(self, path: RelPath) -> bool:
        """Whether nothing is there any more, neither a file to read nor another one."""
        try:
            self.files.stat(path)
        except FileNotFound:
            return True
        except Refusal:
            return False
        return False

    def parent(self, path: RelPath) -> RelPath | None:
        """The document below which one stands; None at the top, or in a folder without one."""
        above = path.parent
        if above == self.root or not self.root.covers(above):
            return None
        for ending in ENDINGS:
            beside = RelPath((*above.parts[:-1], above.name + ending))
            if self.stamp(beside) is not None:
                return beside
        return None

    def below(self, path: RelPath) -> RelPath:
        """The folder that holds the documents below one."""
        return RelPath((*path.parts[:-1], stem(path)))

    def names(self, path: RelPath) -> frozenset[str]:
        """The names in a folder, case folded; none when it is not there."""
        try:
            _, entries = self.files.list_dir(path)
        except Refusal:
            return frozenset()
        return frozenset(entry.name.casefold() for entry in entries)

    def _entries(self, path: RelPath, seen: set[RelPath]) -> Iterator[tuple[RelPath, str]]:
        """What stands in a directory that is looked at for the first time."""
        if not self.rules.allows_walk(path) and path != self.root:
            return
        try:
            if len(path.parts) > _DEEPEST:
                return
            real, entries = self.files.list_dir(path)
        except Refusal:
            return
        if real in seen:
            return
        seen.add(real)
        for entry in entries:
            if not entry.name.startswith("."):
                yield path / entry.name, entry.kind

    def _follow(
        self,
        path: RelPath,
        found: dict[RelPath, Stamp],
        reals: set[RelPath],
        seen: set[RelPath],
    ) -> None:
        """Take in what a link leads to, unless it is in the notebook by itself."""
        try:
            real = self.files.resolve(path)
        except Refusal:
            return
        if real in reals or any(part.startswith(".") for part in real.parts):
            return
        if is_document(path):
            stamp = self.stamp(path)
            if stamp is not None:
                reals.add(real)
                found[path] = stamp
                return
        if self.root.covers(real) or real.covers(self.root) or not self.rules.allows_walk(real):
            return
        for inner, kind in self._entries(path, seen):
            if kind == "file" and is_document(inner):
                stamp = self.stamp(inner)
                if stamp is not None:
                    found[inner] = stamp
            elif kind in ("dir", "symlink"):
                self._follow(inner, found, reals, seen)

    def _hidden(self, path: RelPath) -> bool:
        return any(part.startswith(".") for part in path.parts[len(self.root.parts) :])


def is_document(path: RelPath) -> bool:
    """Whether the name is one of a document."""
    return path.name.lower().endswith(ENDINGS) and bool(stem(path))


def stem(path: RelPath) -> str:
    """The name without its ending."""
    name = path.name
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name
