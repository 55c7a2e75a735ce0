"""The texts that plans and reads are based on: kept once by content, compressed, bounded.

Where a text was seen is remembered with it: who names a version of one file
learns nothing of another one.

What lives here: the protocol, and the keeping beside the work. What must not: any
promise that a text is still there; who asks must do without it. Invariant: what is
given for a digest has that digest.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Protocol

from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

MEMORY_BYTES = 64 << 20
"""How many bytes the kept texts take, by default."""

LARGEST = sizes.LARGE
"""A larger text is kept from its file only."""

MOST_SEEN = 1 << 15
"""Of how many pairs of a text and a path it is known that the text was seen there."""


MOST_SHOWN = 4096
"""Of how many members, files and versions it is known which lines were shown."""


@dataclass(frozen=True, slots=True)
class ShownLines:
    """Which lines of one version of a file a member was shown: runs [start, stop), 0-based.

    Runs are in order and do not touch. `version` is empty, and the runs are, where only the
    end of a large file was read, of which no version is known.
    """

    version: str
    total: int
    runs: tuple[tuple[int, int], ...]

    @property
    def complete(self) -> bool:
        """Whether all of that version was shown."""
        return bool(self.version) and sum(stop - start for start, stop in self.runs) == self.total

    def joined(self, other: ShownLines | None) -> ShownLines:
        """With what else was shown of this version."""
        if other is None or other.version != self.version:
            return self
        runs: list[tuple[int, int]] = []
        for start, stop in sorted((*self.runs, *other.runs)):
            if runs and start <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
            else:
                runs.append((start, stop))
        return replace(self, runs=tuple(runs[:_MOST_RUNS]))


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

    def note_shown(self, member: str, at: RelPath, lines: ShownLines) -> None:
        """Remember that the member was shown lines of the file at the real path."""
        ...

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """What the member was shown of a version; without one, of the version it saw last."""
        ...

    def close(self) -> None:
        """Let go of what is held; what was to be kept is kept."""
        ...


_MOST_RUNS = 1_000
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

    def note_shown(self, member: str, at: RelPath, lines: ShownLines) -> None:
        """Remember soon that the member was shown lines of the file."""
        with self._lock:
            self._last = self._thread.submit(self._inner.note_shown, member, at, lines)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """What the member was shown of a version; without one, of the version it saw last."""
        with self._lock:
            last = self._last
        if last is not None:
            last.result()
        return self._inner.shown(member, at, version)

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
