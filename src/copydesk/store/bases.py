"""The texts that plans and reads are based on, in files of the state folder.

What lives here: a cache shared by all processes of a workspace: one compressed
file for each content, named by its digest. What must not: anything that cannot
be lost. Invariant: what is given for a digest has that digest, or nothing is.
"""

from __future__ import annotations

import os
import secrets
import zlib
from pathlib import Path
from threading import Lock

from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_PRUNE_EVERY = 64


class FileBases:
    """Texts by digest in a folder, the ones used longest ago removed beyond `most_bytes`."""

    def __init__(self, folder: str, most_bytes: int, largest: int = 8 << 20) -> None:
        self._folder = Path(folder)
        self._most, self._largest = most_bytes, largest
        self._kept: set[str] = set()
        self._lock = Lock()

    def keep(self, base: Snapshot) -> None:
        """Remember the text, if it is not too large; a full disk only means that it is not."""
        if len(base.data) > self._largest or base.digest in self._kept:
            return
        path = self._folder / base.digest
        temp = self._folder / f"{secrets.token_hex(8)}.tmp"
        try:
            if path.exists():
                os.utime(path)
            else:
                temp.write_bytes(zlib.compress(base.data, 1))
                os.replace(temp, path)
        except OSError:
            temp.unlink(missing_ok=True)
            return
        with self._lock:
            self._kept.add(base.digest)
            prune = len(self._kept) % _PRUNE_EVERY == 0
        if prune:
            self.prune()

    def find(self, digest: str, named: str | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it is still remembered."""
        if len(digest) < VERSION_LENGTH or not digest.isalnum():
            return None
        for path in self._folder.glob(f"{digest}*"):
            try:
                data = zlib.decompress(path.read_bytes())
                os.utime(path)
            except (OSError, zlib.error):
                continue
            found = Snapshot.of(data, named)
            if found.digest.startswith(digest) and path.name == found.digest:
                return found
        return None

    def prune(self) -> None:
        """Remove the texts used longest ago until the folder is within its bound."""
        found: list[tuple[float, int, str]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                try:
                    stat = entry.stat()
                except OSError:
                    continue
                found.append((stat.st_mtime, stat.st_size, entry.path))
        left = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if left <= self._most:
                break
            Path(path).unlink(missing_ok=True)
            self._kept.discard(os.path.basename(path))
            left -= size
