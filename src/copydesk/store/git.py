"""What git has of files, without running anything that a repository configures."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from copydesk.store.protocol import Committed
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

_SECONDS = 10
_BLOB = re.compile(rb"([0-9a-f]+) blob (\d+)$")


def committed(root: str, paths: Mapping[RelPath, str]) -> dict[RelPath, Committed]:
    """What git's last commit has at these paths, if the root is in a repository; runs no hook.

    With a path comes git's name of the text that was removed there, if it was.
    """
    asked = [path for path in paths if "\n" not in str(path)]
    names = [(f"HEAD:./{path}", f":./{path}", paths[path] or "none") for path in asked]
    lines = _objects(root, "--batch-check", chain.from_iterable(names)).split(b"\n")
    commits: dict[RelPath, Committed] = {}
    small: list[RelPath] = []  # what is too large is not read
    for path, head, index, removed in zip(
        asked, lines[::3], lines[1::3], lines[2::3], strict=False
    ):
        if blob := _BLOB.match(head):
            commits[path] = Committed(blob[1].decode(), None)
            small += [path] if int(blob[2]) <= sizes.LARGE else []
        elif paths[path] and _is_missing(index) and not _is_missing(removed):
            commits[path] = Committed("", None)
    data = _objects(root, "--batch", [f"HEAD:./{path}" for path in small])
    at = 0
    for path in small if data else ():
        end = data.index(b"\n", at) + 1
        at = end + int(data[:end].rsplit(b" ", 1)[1]) + 1
        commits[path] = commits[path]._replace(data=data[end : at - 1])
    return commits


def is_from_git(root: str, path: RelPath, before: Collection[str], now: Collection[str]) -> bool:
    """Whether git made a file what it is `now`, and has a text that was there before; by blob ids.

    `now` is empty without a file, and of several ids one is that of the file.
    """
    data = _objects(root, "--batch-check", [f":./{path}", *before])
    in_index, *known = data.split(b"\n")[:-1] or [b""]
    is_of_index = in_index[: in_index.find(b" ")].decode("utf-8", "replace") in now
    return (is_of_index if now else _is_missing(in_index)) and not all(map(_is_missing, known))


def _is_missing(line: bytes) -> bool:
    return line.endswith(b" missing")


def _objects(root: str, how: str, names: Iterable[str]) -> bytes:
    """What `git cat-file` says of objects; nothing if it fails, or the root is in no repository."""
    asked = "".join(f"{name}\n" for name in names).encode()
    if not asked or not _is_in_git(root):
        return b""
    # A missing object is not fetched: that would run what the repository configures.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1"}
    words = ("git", "-c", "core.fsmonitor=false", "-C", root, "cat-file", how)
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
