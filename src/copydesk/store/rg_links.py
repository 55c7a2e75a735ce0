"""The links that ripgrep must not follow.

What lives here: a walk of the tree as rg would take it, and the globs that keep
rg away from links out of the workspace. What must not: opening a file.
Invariant: rg started with these globs meets no link that leads out of the root,
unless one is made after the walk; what is found behind such a one is not shown,
because nothing is that was not opened beneath the root.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from copydesk.errors import Failed, Refusal
from copydesk.store.rg_globs import naming
from copydesk.store.workspace import Workspace
from copydesk.text.relpath import RelPath

MAX_DIRS = 100_000
MAX_EXCLUDED = 2_000


@dataclass(frozen=True, slots=True)
class _Dir:
    """A directory on the way: as rg spells it, what it really is, and the one above it."""

    spelled: tuple[bytes, ...]
    real: RelPath
    above: _Dir | None

    def is_inside(self, real: RelPath) -> bool:
        at: _Dir | None = self
        while at is not None:
            if at.real == real:
                return True
            at = at.above
        return False


def links_to_leave_out(
    files: Workspace,
    start: RelPath,
    *,
    include_hidden: bool,
    stop: Callable[[], None],
) -> tuple[str, ...]:
    """Globs against every link below `start` that rg would follow and must not.

    Those are the links that leave the root or lead to no file, links to a
    directory that they stand in, and every directory or link whose name is not
    UTF-8: what is behind it could not be resolved. `start` is a real path. `stop` is called for
    every directory and raises to end the walk. Raises Failed when there are more
    than MAX_DIRS directories (those behind links counted each time) or
    MAX_EXCLUDED such links.
    """
    excluded: list[str] = []
    waiting = [_Dir(tuple(part.encode() for part in start.parts), start, None)]
    seen = 0
    while waiting:
        here = waiting.pop()
        stop()
        seen += 1
        if seen > MAX_DIRS:
            raise Failed("ripgrep", f"more than {MAX_DIRS} directories to follow links in")
        for entry in _entries(files.root, here.real, include_hidden):
            inner = _enter(files, here, entry)
            if isinstance(inner, _Dir):
                waiting.append(inner)
            elif not inner:
                excluded.append("!" + naming((*here.spelled, entry.name)))
        if len(excluded) > MAX_EXCLUDED:
            raise Failed("ripgrep", f"more than {MAX_EXCLUDED} links that lead out")
    return tuple(excluded)


def on_disk(root: str, path: RelPath) -> bytes:
    """The name of the file for system calls: names below the root are UTF-8."""
    return os.path.join(os.fsencode(root), *(part.encode() for part in path.parts))


def _enter(files: Workspace, here: _Dir, entry: os.DirEntry[bytes]) -> _Dir | bool:
    """The directory to walk next; else whether rg may have the entry."""
    is_link = entry.is_symlink()
    if not is_link and not entry.is_dir(follow_symlinks=False):
        return True
    name = _utf8(entry.name)
    if name is None:
        return False
    spelled = (*here.spelled, entry.name)
    if not is_link:
        return _Dir(spelled, here.real / name, here)
    try:
        real = files.resolve(here.real / name)
    except Refusal:
        return False
    target = on_disk(files.root, real)
    if not os.path.isdir(target):
        return os.path.isfile(target)
    if here.is_inside(real):
        return False
    return _Dir(spelled, real, here)


def _entries(root: str, real: RelPath, include_hidden: bool) -> Iterator[os.DirEntry[bytes]]:
    try:
        listing = os.scandir(on_disk(root, real))
    except OSError:
        return  # rg meets the same and says so
    with listing:
        for entry in listing:
            hidden = entry.name.startswith(b".")
            if entry.name != b".git" and (include_hidden or not hidden):
                yield entry


def _utf8(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
