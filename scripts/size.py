"""Count the modules, statements and lines of `src`, by package.

    python scripts/size.py                              the working tree
    python scripts/size.py --rev 08c151d --rev HEAD     revisions of git, one table each
    python scripts/size.py --deep                       subfolders have rows of their own

A statement is an `ast.stmt` of a Python file, so comments, blank lines and the length of lines
do not matter; a docstring is one statement, however long, and its column says how many there are.
Lines are those of Python files; `other` are lines of all other files (templates, Lua, messages,
manuals). A module directly in the package has a row of its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("modules", "statements", "docstrings", "lines", "other")
File = tuple[str, bytes]
"""A path below `src/copydesk`, as `text/change.py`, and its content."""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def in_tree() -> Iterator[File]:
    """The files of the working tree; what git ignores, such as `__pycache__`, is left out."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "src/copydesk"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    for name in sorted(set(filter(None, names.decode().split("\0")))):
        if (ROOT / name).is_file():  # one that was removed is still in the index
            yield name.removeprefix("src/copydesk/"), (ROOT / name).read_bytes()


def in_revision(revision: str) -> Iterator[File]:
    """The files of a revision of git."""
    command = ["git", "archive", "--format=tar", revision, "src/copydesk"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                yield member.name.removeprefix("src/copydesk/"), content.read()


def counted(name: str, content: bytes) -> tuple[int, ...]:
    """What one file adds to each of the columns."""
    lines = content.count(b"\n")
    if not name.endswith(".py"):
        return 0, 0, 0, 0, lines
    nodes = list(ast.walk(ast.parse(content, name)))
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    documented = [node for node in nodes if isinstance(node, _DOCUMENTED)]
    docstrings = sum(ast.get_docstring(node, clean=False) is not None for node in documented)
    return 1, statements, docstrings, lines, 0


def table(files: Iterable[File], *, deep: bool = False) -> dict[str, tuple[int, ...]]:
    """The columns of each package, and of `total`, which is last."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * len(COLUMNS))
    total = [0] * len(COLUMNS)
    for name, content in files:
        *folders, _ = name.split("/")
        row = rows["/".join(folders if deep else folders[:1]) or name]
        for k, more in enumerate(counted(name, content)):
            row[k] += more
            total[k] += more
    return {name: tuple(rows[name]) for name in sorted(rows)} | {"total": tuple(total)}


def printed(rows: dict[str, tuple[int, ...]]) -> str:
    """The rows as plain text."""
    width = max(map(len, rows))
    told = [f"{'':{width}}" + "".join(f"{column:>12}" for column in COLUMNS)]
    told += [f"{name:{width}}" + "".join(f"{n:>12,}" for n in row) for name, row in rows.items()]
    return "\n".join(told)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rev", action="append", default=[], help="a revision of git")
    parser.add_argument("--deep", action="store_true", help="subfolders too")
    args = parser.parse_args()
    tables = [(rev, in_revision(rev)) for rev in args.rev] or [("working tree", in_tree())]
    for title, files in tables:
        print(f"{title}\n{printed(table(files, deep=args.deep))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
