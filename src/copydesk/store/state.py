"""The state folder: where plans, texts, locks and the journal of a workspace are kept.

What lives here: making it, private and ignored by git. What must not: what is
in it. Invariant: it is a real directory, no link to one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from copydesk.errors import Failed


class StateFolder:
    """The folder `name` in the root, made when it is missing."""

    def __init__(self, root: str, name: str) -> None:
        self._path = Path(root) / name
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
            kind = os.lstat(self._path).st_mode
        except OSError as error:
            raise Failed("open the state folder", f"{error.strerror}: {name}") from None
        if not stat.S_ISDIR(kind):
            raise Failed("open the state folder", f"{name} is not a directory")
        ignore = self._path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def path(self, name: str) -> str:
        """The path of a file in the folder."""
        return str(self._path / name)

    def folder(self, name: str) -> str:
        """The path of a folder in it, made when it is missing."""
        inner = self._path / name
        inner.mkdir(mode=0o700, exist_ok=True)
        return str(inner)
