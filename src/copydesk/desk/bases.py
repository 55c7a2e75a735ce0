"""The texts that plans and reads are based on: kept once by content, compressed, bounded.

Where a text was seen is remembered with it: who names a version of one file
learns nothing of another one.

What lives here: the protocol, the memory of one process, and the keeping beside
the work. What must not: any promise that a text is still there; who asks must do
without it. Invariant: what is given for a digest has that digest.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Protocol

from copydesk.errors import BinaryFile
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

MEMORY_BYTES = 64 << 20
"""How many compressed bytes are kept, by default."""

LARGEST = sizes.LARGE
"""A larger text is kept from its file only."""

MOST_SEEN = 1 << 16
"""Of how many pairs of a text and a path it is known that the text was seen there."""


class Bases(Protocol):
    """Texts by digest. All methods are safe to call from many threads."""

    def keep(self, base: Snapshot, at: RelPath) -> None:
        """Remember the text, if it is not too large, and that it was seen at the real path."""
        ...

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Remember a large text from its file, if it has the digest still and packs well.

        Closes the content. What cannot be read is not remembered.
        """
        ...

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it is remembered to have been seen there.

        `at` is a real path, `named` is the encoding that configuration names for the file. Without
        `at` it may have been seen anywhere: that is for digests that no caller gave.
        """
        ...

    def close(self) -> None:
        """Let go of what is held; what was to be kept is kept."""
        ...


class MemoryBases:
    """The texts that one process remembers; the ones used longest ago go first."""

    def __init__(self, most_bytes: int = MEMORY_BYTES, largest: int = LARGEST) -> None:
        self._most, self._largest = most_bytes, largest
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._seen: OrderedDict[tuple[str, RelPath], None] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def keep(self, base: Snapshot, at: RelPath) -> None:
        """Remember the text, if it is not too large, and where it was seen."""
        if base.size > self._largest:
            return
        with self._lock:
            self._saw(base.version, at)
            if base.version in self._kept:
                self._kept.move_to_end(base.version)
                return
        self._put(base.digest, zlib.compress(base.data, 1))

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Remember a large text from its file."""
        data = content.packed(digest, self._most // sizes.PART)
        if data is not None:
            with self._lock:
                self._saw(digest[:VERSION_LENGTH], at)
            self._put(digest, data)

    def _put(self, digest: str, data: bytes) -> None:
        version = digest[:VERSION_LENGTH]
        with self._lock:
            if version not in self._kept:
                self._kept[version] = (digest, data)
                self._bytes += len(data)
            while self._bytes > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= len(gone)

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there."""
        with self._lock:
            if at is not None:
                if (digest[:VERSION_LENGTH], at) not in self._seen:
                    return None
                self._saw(digest[:VERSION_LENGTH], at)
            kept = self._kept.get(digest[:VERSION_LENGTH])
            if kept is None or not kept[0].startswith(digest):
                return None
            self._kept.move_to_end(digest[:VERSION_LENGTH])
        try:
            return Snapshot.of(zlib.decompress(kept[1]), named)
        except BinaryFile:  # kept for a file that has another encoding
            return None

    def close(self) -> None:
        """Nothing is held."""

    def _saw(self, version: str, at: RelPath) -> None:
        """Note the pair as the one used last; call it with the lock held."""
        self._seen[version, at] = None
        self._seen.move_to_end((version, at))
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)


_RECENT = 64
_PASSED_OVER = 16
"""A text that was kept a moment ago is kept anew only every so many times."""


CALM_SECONDS = 0.25
"""So long a large text waits to be kept: mostly its plan is applied at once, and has the cores."""

MOST_WAITING = 4
"""So many large texts wait to be kept; each holds its file open."""


class BasesBeside:
    """Keeps texts in a thread beside the work; who asks for one waits until all are kept."""

    def __init__(self, inner: Bases, calm_seconds: float = CALM_SECONDS) -> None:
        self._inner, self._calm_seconds = inner, calm_seconds
        self._hurry = Event()
        self._thread = ThreadPoolExecutor(1, "copydesk-bases")
        self._last: Future[None] | None = None
        self._thread_of_large = ThreadPoolExecutor(1, "copydesk-large-bases")
        self._large: Future[None] | None = None
        self._waiting: deque[tuple[str, Content, RelPath]] = deque()
        self._packing = ""
        self._recent: OrderedDict[tuple[str, RelPath], int] = OrderedDict()
        self._lock = Lock()

    def keep(self, base: Snapshot, at: RelPath) -> None:
        """Remember the text soon, if it is not too large, and where it was seen."""
        if base.size > LARGEST:
            return
        with self._lock:
            if self._lately(base.digest, at):
                return
            self._last = self._thread.submit(self._inner.keep, base, at)

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Remember a large text soon; few wait at most, and the newest takes the oldest's place."""
        gone: Content | None = content
        with self._lock:
            if not self._lately(digest, at):
                gone = None
                self._waiting.append((digest, content, at))
                if len(self._waiting) > MOST_WAITING:
                    oldest, gone, there = self._waiting.popleft()
                    self._recent.pop((oldest, there), None)
                if self._large is None:
                    self._large = self._thread_of_large.submit(self._keep_waiting)
        if gone is not None:
            gone.close()

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there."""
        with self._lock:
            last, large = self._last, self._large
            asked = [self._packing, *(each[0] for each in self._waiting)]
        if last is not None:
            last.result()
        if large is not None and any(one.startswith(digest) for one in asked):
            self._hurry.set()
            large.result()
        return self._inner.find(digest, named, at)

    def close(self) -> None:
        """Keep what is to be kept."""
        self._thread.shutdown()
        self._hurry.set()
        self._thread_of_large.shutdown()
        self._inner.close()

    def _lately(self, digest: str, at: RelPath) -> bool:
        """Whether the text was kept a moment ago; call it with the lock held."""
        times = self._recent.get((digest, at), 0)
        self._recent[digest, at] = (times + 1) % _PASSED_OVER
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return times > 0

    def _keep_waiting(self) -> None:
        """Keep the texts that wait, the oldest first, until there is none."""
        while True:
            with self._lock:
                self._packing = ""
                if not self._waiting:
                    self._large = None
                    self._hurry.clear()
                    return
            self._hurry.wait(self._calm_seconds)
            with self._lock:
                digest, content, at = self._waiting.popleft()
                self._packing = digest
            self._inner.keep_content(digest, content, at)
