"""What git has of files, without running anything that a repository configures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from copydesk.text.relpath import RelPath

_SECONDS = 10


def committed(root: str, paths: Sequence[RelPath]) -> dict[RelPath, bytes]:
    """What git's last commit has at these paths, if the root is in a repository; runs no hook."""
    names = [str(path) for path in paths]
    asked = [name for name in names if "\n" not in name]
    if not asked or not _is_in_git(root):
        return {}
    # A missing object is not fetched: that would run what the repository configures.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    words = ("git", "-c", "core.fsmonitor=false", "-C", root, "cat-file", "--batch")
    try:
        ran = subprocess.run(
            words,
            input="".join(f"HEAD:./{name}\n" for name in asked).encode(),
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[RelPath, bytes] = {}
    at, data = 0, ran.stdout
    for name in asked if ran.returncode == 0 else ():
        end = data.index(b"\n", at)
        *_, kind, size = data[at:end].split(b" ")
        at = end + 1
        if size != b"missing":
            if kind == b"blob":
                found[RelPath.parse(name)] = data[at : at + int(size)]
            at += int(size) + 1
    return found


def _is_in_git(root: str) -> bool:
    parts = root.rstrip("/").split("/")
    return any(os.path.exists("/".join((*parts[:end], ".git"))) for end in range(len(parts), 0, -1))
