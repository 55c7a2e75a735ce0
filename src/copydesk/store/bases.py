"""The texts that plans and reads are based on, in files of the state folder.

What lives here: a cache shared by all processes of a workspace: one compressed
file for each content, named by its digest, and an empty one in `seen/` for each
path where it was seen. What must not: anything that cannot be lost. Invariant:
what is given for a digest has that digest, or nothing is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from pathlib import Path
from threading import Lock

from copydesk.errors import BinaryFile
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_PRUNE_AFTER = 8
"""Each process prunes after it has written one part in so many of the bound."""

MOST_SEEN = 1 << 15
"""Of how many pairs of a text and a path it is known that the text was seen there."""


class FileBases:
    """Texts by digest in a folder, the ones used longest ago removed beyond `most_bytes`."""

    def __init__(self, folder: str, most_bytes: int, largest: int = 8 << 20) -> None:
        self._folder, self._seen = folder, os.path.join(folder, "seen")
        self._most, self._largest = most_bytes, largest
        self._written = self._noted = 0
        self._lock = Lock()

    def keep(self, base: Snapshot, at: RelPath) -> None:
        """Remember the text and where it was seen, if it is not too large.

        A full disk only means that it is not remembered.
        """
        if len(base.data) > self._largest:
            return
        path = os.path.join(self._folder, base.digest)
        try:
            os.utime(path)
        except FileNotFoundError:
            self._write(path, zlib.compress(base.data, 1))
        except OSError:
            return
        self._note(self._mark(base.digest, at))

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Remember a large text from its file, and where it was seen."""
        path = os.path.join(self._folder, digest)
        try:
            os.utime(path)
        except OSError:
            data = content.packed(digest, self._most // sizes.PART)
            if data is None:
                return
            self._write(path, data)
        else:
            content.close()
        self._note(self._mark(digest, at))

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there."""
        if len(digest) < VERSION_LENGTH or not digest.isalnum():
            return None
        if at is not None:
            try:
                os.utime(self._mark(digest, at))
            except OSError:
                return None
        for path in Path(self._folder).glob(f"{digest}*"):
            data = _content(path)
            if data is not None:
                try:
                    return Snapshot.of(data, named)
                except BinaryFile:  # kept for a file that has another encoding
                    return None
        return None

    def _mark(self, digest: str, at: RelPath) -> str:
        """The file that says that the text was seen at the path."""
        name = hashlib.sha256(str(at).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return os.path.join(self._seen, f"{name}-{digest[:VERSION_LENGTH]}")

    def _note(self, mark: str) -> None:
        try:
            os.utime(mark)
        except FileNotFoundError:
            pass
        except OSError:
            return
        else:
            return
        try:
            _make(mark)
        except FileNotFoundError:
            try:
                os.makedirs(self._seen, 0o700, exist_ok=True)
                _make(mark)
            except OSError:
                return
        except OSError:
            return
        with self._lock:
            self._noted += 1
            prune = self._noted * _PRUNE_AFTER > MOST_SEEN
        if prune:
            self.prune()

    def _write(self, path: str, packed: bytes) -> None:
        temp = os.path.join(self._folder, f"{secrets.token_hex(8)}.tmp")
        try:
            _make(temp, packed)
            os.replace(temp, path)
        except OSError:
            _remove(temp)
            return
        with self._lock:
            self._written += len(packed)
            prune = self._written * _PRUNE_AFTER > self._most
            if prune:
                self._written = 0
        if prune:
            self.prune()

    def close(self) -> None:
        """Nothing is held."""

    def prune(self) -> None:
        """Remove the texts used longest ago until the folder is within its bound.

        With them goes where they were seen, and of that also what is beyond its own bound.
        """
        marks, found = _listed(self._seen), _listed(self._folder)  # a text is there before its mark
        left = sum(size for _, size, _ in found)
        gone = 0
        for _, size, path in found:
            if left <= self._most:
                break
            _remove(path)
            left -= size
            gone += 1
        texts = {Path(path).name[:VERSION_LENGTH] for _, _, path in found[gone:]}
        with self._lock:
            self._noted = 0
        known = [path for _, _, path in marks if path[-VERSION_LENGTH:] in texts]
        kept = set(known[max(len(known) - MOST_SEEN // 2, 0) :])
        for _, _, path in marks:
            if path not in kept:
                _remove(path)


def _make(path: str, data: bytes = b"") -> None:
    """A private file with the data; raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _listed(folder: str) -> list[tuple[int, int, str]]:
    """Time of last use, size and path of each file in the folder, the oldest first."""
    found: list[tuple[int, int, str]] = []
    try:
        entries = os.scandir(folder)
    except OSError:
        return []
    with entries:
        for entry in entries:
            try:
                stat = entry.stat()
            except OSError:
                continue
            if entry.is_file():
                found.append((stat.st_mtime_ns, stat.st_size, entry.path))
    return sorted(found)


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
