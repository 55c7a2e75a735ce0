"""What git has of files, without running anything that a repository configures."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Sequence

from copydesk.text import sizes
from copydesk.text.relpath import RelPath

_SECONDS = 10
_KIND = re.compile(rb" blob (\d+)$")


def committed(root: str, paths: Sequence[RelPath]) -> dict[RelPath, bytes]:
    """What git's last commit has at these paths, if the root is in a repository; runs no hook."""
    names = [str(path) for path in paths]
    asked = [name for name in names if "\n" not in name]
    # first their sizes: one that is too large is not read
    told = _objects(root, "--batch-check", [f"HEAD:./{name}" for name in asked]).split(b"\n")
    heads = zip(asked, map(_KIND.search, told), strict=False)
    asked = [name for name, head in heads if head and int(head[1]) <= sizes.LARGE]
    data = _objects(root, "--batch", [f"HEAD:./{name}" for name in asked])
    found: dict[RelPath, bytes] = {}
    at = 0
    for name in asked if data else ():
        end = data.index(b"\n", at)
        *_, kind, size = data[at:end].split(b" ")
        at = end + 1
        if size != b"missing":
            if kind == b"blob":
                found[RelPath.parse(name)] = data[at : at + int(size)]
            at += int(size) + 1
    return found


def is_from_git(root: str, path: RelPath, before: Collection[str], now: str) -> bool:
    """Whether git made a file what it is `now`, and has a text that was there before; by blob ids.

    `now` is empty without a file.
    """
    data = _objects(root, "--batch-check", [f":./{path}", *before])
    in_index, *known = data.split(b"\n")[:-1] or [b""]
    is_of_index = in_index.startswith(b"%b " % now.encode()) if now else _is_missing(in_index)
    return is_of_index and not all(map(_is_missing, known))


def _is_missing(told: bytes) -> bool:
    return told.endswith(b" missing")


def _objects(root: str, how: str, names: Sequence[str]) -> bytes:
    """What `git cat-file` says of objects; nothing if it fails, or the root is in no repository."""
    if not names or not _is_in_git(root):
        return b""
    # A missing object is not fetched: that would run what the repository configures.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1"}
    words = ("git", "-c", "core.fsmonitor=false", "-C", root, "cat-file", how)
    asked = "".join(f"{name}\n" for name in names).encode()
    try:
        ran = subprocess.run(
            words, input=asked, capture_output=True, timeout=_SECONDS, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if ran.returncode else ran.stdout


def _is_in_git(root: str) -> bool:
    parts = root.rstrip("/").split("/")
    return any(os.path.exists("/".join((*parts[:end], ".git"))) for end in range(len(parts), 0, -1))
