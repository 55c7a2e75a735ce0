"""The state folder: where plans, texts, locks and the journal of a workspace are kept.

What lives here: making it, private and ignored by git. What must not: what is
in it. Invariant: it and what is asked of it are real files and folders, no links
to others (a workspace may come from elsewhere, its state folder with it).
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from copydesk.errors import Failed


class StateFolder:
    """The folder `name` in the root, made when it is missing. All methods may raise Failed."""

    def __init__(self, root: str, name: str) -> None:
        self._path = Path(root) / name
        self._name = name
        _make(self._path, name)
        self._ignore()

    def path(self, name: str) -> str:
        """The path of a file in the folder."""
        inner = self._path / name
        try:
            kind = os.lstat(inner).st_mode
        except FileNotFoundError:
            return str(inner)
        except OSError as error:
            raise _failed(f"{self._name}/{name}", error) from None
        if not stat.S_ISREG(kind):
            raise _wrong(f"{self._name}/{name}", "is not a regular file")
        return str(inner)

    def folder(self, name: str) -> str:
        """The path of a folder in it, made when it is missing."""
        _make(self._path / name, f"{self._name}/{name}")
        return str(self._path / name)

    def discard(self, name: str) -> None:
        """Remove a database with its journal, or a folder, of what can be lost; it may be gone."""
        if os.path.isdir(self._path / name):
            shutil.rmtree(self._path / name, ignore_errors=True)
            return
        for each in (name, f"{name}-journal"):
            with suppress(OSError):
                os.unlink(self._path / each)

    def _ignore(self) -> None:
        """Have git pass over the folder."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            fd = os.open(self._path / ".gitignore", flags, 0o600)
        except FileExistsError:
            return
        except OSError as error:
            raise _failed(f"{self._name}/.gitignore", error) from None
        with os.fdopen(fd, "w") as file:
            file.write("*\n")


def _make(path: Path, shown: str) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise _failed(shown, error) from None
    try:
        kind = os.lstat(path).st_mode
    except OSError as error:
        raise _failed(shown, error) from None
    if not stat.S_ISDIR(kind):
        raise _wrong(shown, "is not a folder")


def _failed(shown: str, error: OSError) -> Failed:
    return _wrong(shown, error.strerror or str(error))


def _wrong(shown: str, reason: str) -> Failed:
    return Failed("open the state folder", f"{shown}: {reason}")
