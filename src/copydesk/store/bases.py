"""The texts that plans and reads are based on, in files of the state folder.

What lives here: a cache shared by all processes of a workspace: one compressed
file for each content, named by its digest. What must not: anything that cannot
be lost. Invariant: what is given for a digest has that digest, or nothing is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from pathlib import Path
from threading import Lock

from copydesk.errors import BinaryFile
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_PRUNE_AFTER = 8
"""Each process prunes after it has written one part in so many of the bound."""


class FileBases:
    """Texts by digest in a folder, the ones used longest ago removed beyond `most_bytes`."""

    def __init__(self, folder: str, most_bytes: int, largest: int = 8 << 20) -> None:
        self._folder = Path(folder)
        self._most, self._largest = most_bytes, largest
        self._written = 0
        self._lock = Lock()

    def keep(self, base: Snapshot) -> None:
        """Remember the text, if it is not too large; a full disk only means that it is not."""
        if len(base.data) > self._largest:
            return
        path = self._folder / base.digest
        try:
            os.utime(path)
        except FileNotFoundError:
            self._write(path, zlib.compress(base.data, 1))
        except OSError:
            return

    def find(self, digest: str, named: str | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it is still remembered."""
        if len(digest) < VERSION_LENGTH or not digest.isalnum():
            return None
        for path in self._folder.glob(f"{digest}*"):
            data = _content(path)
            if data is not None:
                try:
                    return Snapshot.of(data, named)
                except BinaryFile:  # kept for a file that has another encoding
                    return None
        return None

    def _write(self, path: Path, packed: bytes) -> None:
        temp = self._folder / f"{secrets.token_hex(8)}.tmp"
        try:
            temp.write_bytes(packed)
            os.replace(temp, path)
        except OSError:
            temp.unlink(missing_ok=True)
            return
        with self._lock:
            self._written += len(packed)
            prune = self._written * _PRUNE_AFTER > self._most
            if prune:
                self._written = 0
        if prune:
            self.prune()

    def prune(self) -> None:
        """Remove the texts used longest ago until the folder is within its bound."""
        found: list[tuple[int, int, str]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                try:
                    stat = entry.stat()
                except OSError:
                    continue
                found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        left = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if left <= self._most:
                break
            Path(path).unlink(missing_ok=True)
            left -= size


def _content(path: Path) -> bytes | None:
    """The text in the file; None, and the file is gone, when it is not what its name says."""
    try:
        packed = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    try:
        data = zlib.decompress(packed)
    except zlib.error:
        data = b""
    if hashlib.sha256(data).hexdigest() == path.name:
        return data
    path.unlink(missing_ok=True)
    return None
