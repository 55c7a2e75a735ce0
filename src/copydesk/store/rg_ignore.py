"""What ripgrep is told to leave out as it walks: links, and what `.gitignore` files name.

Invariant: what is met in the wrong place can only leave a file out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from copydesk.errors import Failed, Refusal
from copydesk.store.files import Files
from copydesk.store.rg_args import naming
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
    files: Files,
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


def _enter(files: Files, here: _Dir, entry: os.DirEntry[bytes]) -> _Dir | bool:
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


def ignore_files(root: str, real: RelPath, flags: Sequence[str]) -> list[str]:
    """What makes `.gitignore` count where `root` is in no git repository.

    rg would then take those of all folders above too, such as that of a home folder, which
    mostly ignores everything. Where there is one, rg takes none from above the search
    path, and is given those between the root and that by their names.
    """
    above = Path(root).parents
    if any(os.path.lexists(folder / ".git") for folder in (Path(root), *above)):
        return []
    if not any(os.path.lexists(folder / ".gitignore") for folder in above):
        return ["--no-require-git"]
    between = [RelPath(real.parts[:depth]) for depth in range(len(real.parts))]
    if any(flag.startswith("--no-ignore") for flag in flags):
        between = []
    names = [("./" if not folder.parts else f"./{folder}/") + ".gitignore" for folder in between]
    there = (name for name in names if os.path.isfile(os.path.join(root, name)))
    return [
        "--no-require-git",
        "--no-ignore-parent",
        *(f"--ignore-file={name}" for name in there),
    ]
