"""The texts that plans and reads are based on, and the lines of them that members were shown.

A text is stored once by its content, compressed; together they are bounded.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import itemgetter
from threading import Lock
from typing import TypeVar

from copydesk.errors import BinaryFile
from copydesk.store.protocol import Content
from copydesk.store.state import Count
from copydesk.store.threads import Soon, held_at_fork
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

Run = tuple[int, int]
"""Lines [start, stop), 0-based."""

MOST_SHOWN = 4096
"""For how many pairs of a member and a file shown lines are recorded; on a server a quarter."""

VERSIONS = 8
"""Shown lines are recorded for this many versions of a file that a member read, and for as many
that it did not read."""

MOST_RUNS = 200
"""The most runs recorded for one version."""

_UNREAD = "unread"
_END = 1 << 62


@dataclass(frozen=True, slots=True)
class ShownLines:
    """The lines of one version of a file that a member was shown: ordered runs that do not touch.

    `version` and the runs are empty if only the end of a large file was read, whose version is
    unknown. `read`: some were shown by reading the file, not only by a search, a plan or a report.
    """

    version: str
    total: int
    runs: tuple[Run, ...]
    read: bool = True

    @property
    def complete(self) -> bool:
        """Whether all lines of that version were shown."""
        return bool(self.version) and sum(stop - start for start, stop in self.runs) == self.total

    def lacks(self, start: int, stop: int) -> tuple[Run, ...]:
        """Those of the lines [start, stop) that were not shown."""
        edges = (start, *(edge for run in self.runs for edge in run), stop)
        within = [min(max(edge, start), stop) for edge in edges]
        return tuple(gap for gap in zip(within[::2], within[1::2], strict=True) if gap[0] < gap[1])

    def joined(self, other: ShownLines | None) -> ShownLines:
        """Merge with other lines shown of this version; if too many, these lines come first."""
        if other is None or other.version != self.version:
            return self
        runs = join((*self.runs, *other.runs))
        if len(runs) > MOST_RUNS:
            runs = tuple(sorted(sorted(runs, key=self._leaves_out)[:MOST_RUNS]))
        total = max(self.total, other.total)  # 0 if it was unknown when recorded
        return ShownLines(self.version, total, runs, self.read or other.read)

    def encoded(self) -> str:
        """Encode the runs as words."""
        words = [f"{start}-{stop}" for start, stop in self.runs]
        return " ".join(words if self.read else [_UNREAD, *words])

    @staticmethod
    def decoded(version: str, total: int, words: Sequence[str]) -> ShownLines:
        """Decode runs of lines from words; raises ValueError if invalid."""
        read = _UNREAD not in words[:1]
        pairs = [word.split("-") for word in words[not read :] if word]
        runs = [(int(start), int(stop)) for start, stop in pairs]
        return ShownLines(version, total, tuple(runs), read)

    def _leaves_out(self, run: Run) -> bool:
        return all(stop <= run[0] or start >= run[1] for start, stop in self.runs)


@dataclass(frozen=True, slots=True)
class LineChange:
    """The line mapping of a member's change.

    `regions` are lines [start, stop) before it, 0-based, in order, each with the number of lines
    that replace them. `written` are lines after it that the member gave whole. `amended`: the new
    lines of a region are known too if all its old ones are.
    """

    regions: tuple[tuple[int, int, int], ...]
    written: tuple[Run, ...] = ()
    amended: bool = False

    def carried(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Map known lines through the change.

        Between two regions, from `end` to `start`, they are moved by `shift`.
        """
        known = list(self.written)
        end = shift = 0
        for start, stop, count in (*self.regions, (_END, _END, 0)):
            first = bisect_right(runs, end, key=itemgetter(1))  # of those that reach beyond `end`
            after = bisect_left(runs, start, key=itemgetter(0))  # of those that begin in the region
            between = runs[first:after]
            known += ((max(run[0], end) + shift, min(run[1], start) + shift) for run in between)
            near = runs[max(after - 1, 0) : after + 1]
            if self.amended and any(run[0] <= start < stop <= run[1] for run in near):
                known.append((start + shift, start + shift + count))
            end, shift = stop, shift + count - (stop - start)
        return join(known)


@dataclass(frozen=True, slots=True)
class CarriedLines:
    """The lines that a member knows of a version that changes produced."""

    before: str
    version: str
    total: int
    changes: tuple[LineChange, ...]

    def upon(self, known: ShownLines | None) -> ShownLines:
        """Map known lines of the previous version to this one."""
        runs = known.runs if known else ()
        for change in self.changes:
            runs = change.carried(runs)
        runs = join((start, min(stop, self.total)) for start, stop in runs[:MOST_RUNS])
        return ShownLines(self.version, self.total, runs, read=False)


Lines = ShownLines | CarriedLines


@dataclass(frozen=True, slots=True)
class Note:
    """Lines a member was shown or wrote, by real path; may be computed later."""

    member: str
    at: RelPath
    lines: Lines | Callable[[], Lines]

    def ready(self) -> Note:
        """The same note with its function evaluated, which may take a while."""
        return replace(self, lines=self.lines()) if callable(self.lines) else self

    def found(self, known: Callable[[str], ShownLines | None]) -> ShownLines | None:
        """All that is now known of the version, merged with what was `known`; None for nothing."""
        lines = self.lines
        assert not callable(lines), "it is ready"
        if isinstance(lines, CarriedLines):
            lines = lines.upon(known(lines.before))
        if not lines.runs and not lines.read:
            return None
        return lines.joined(known(lines.version) if lines.version else None)


def join(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Sort the runs, merge those that meet or touch, and drop empty ones."""
    joined: list[Run] = []
    for start, stop in sorted(runs):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        elif start < stop:
            joined.append((start, stop))
    return tuple(joined)


MEMORY_BYTES = 64 << 20
"""Default limit for the stored texts, in bytes."""

LARGEST = sizes.LARGE
"""Bytes; a larger text is only stored from its file."""

MOST_SEEN = 1 << 15
"""For how many pairs of a text and a path a server records that the text was seen there."""


T = TypeVar("T")

_SMALL = 1 << 16
"""Bytes; texts up to this size are compressed before checking whether they are stored."""

_DIGEST = re.compile(f"[0-9a-f]{{{VERSION_LENGTH},64}}")


class SnapshotStore(ABC):
    """Texts by digest, and the lines of them that members were shown. Thread-safe.

    Texts have at most `largest` bytes each, and up to `most_bytes` when packed. It is a cache: what
    cannot be stored is not. Of each member and file there is one record with the lines shown of the
    last versions, the newest first.
    `count` is how often any process removed texts; what was read before that is not stored.
    """

    def __init__(self, most_bytes: int, largest: int, count: Count | None = None) -> None:
        self._most, self._largest, self._count = most_bytes, largest, count

    def forgets(self) -> int:
        """How often any process has removed texts; those queued before that are dropped."""
        return 0 if self._count is None else self._count.now()

    def forget(self, kept: Collection[str]) -> None:
        """Remove all texts, except those with one of these digests; raises Failed."""
        if self._count is not None:
            self._count.add()
        self._remove(kept)

    @abstractmethod
    def _remove(self, kept: Collection[str]) -> None:
        """Remove all texts but those; raises Failed."""

    @abstractmethod
    def _attempt(self, work: Callable[[], T], *, writes: bool = True) -> T | None:
        """Do the work, as a transaction if the storage has them; None if the storage fails."""

    @abstractmethod
    def _is_stored(self, digest: str, at: RelPath) -> bool:
        """Whether the text is stored; then it is used and was seen there."""

    @abstractmethod
    def _put(self, digest: str, packed: bytes, at: RelPath) -> None:
        """Store a text as seen there, and drop others beyond the bound."""

    @abstractmethod
    def _found(self, digest: str, at: RelPath | None) -> tuple[str, bytes] | None:
        """The whole digest and the packed text, which is used now."""

    @abstractmethod
    def _drop(self, digest: str) -> None:
        """Forget a text, if that can be, whose bytes are damaged."""

    @abstractmethod
    def _record_of(self, reader: str) -> bytes:
        """The record of a member and a file; empty for none."""

    @abstractmethod
    def _put_record(self, reader: str, record: bytes) -> None:
        """Replace that record, and drop others beyond MOST_SHOWN."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text, if not too large, as seen at the real path; and record the `notes`."""
        self.keep_all([(base, at)], notes)

    keep_planned = keep
    """The same for the text of a plan, which others may need once this returns."""

    def note_shown(self, *notes: Note) -> None:
        """Record which lines of files members were shown, or have written."""
        self.keep_all((), notes)

    def keep_all(
        self,
        texts: Sequence[tuple[Snapshot, RelPath]],
        notes: Sequence[Note] = (),
        since: int | None = None,
    ) -> None:
        """Store texts that are not too large, as seen at real paths; and record the `notes`.

        With `since`, only if texts were not removed more often than that.
        """
        small = [
            (base.digest, zlib.compress(base.data, 1), at)
            for base, at in texts
            if base.size <= min(_SMALL, self._largest)
        ]
        if small or notes:
            ready = [note.ready() for note in notes]  # before the file is locked
            self._attempt(lambda: self._keep_packed(small, ready, since))
        for base, at in texts:
            if _SMALL < base.size <= self._largest:
                self._keep(base.digest, at, partial(zlib.compress, base.data, 1), since)

    def _keep_packed(
        self, texts: Sequence[tuple[str, bytes, RelPath]], notes: Sequence[Note], since: int | None
    ) -> None:
        for note in notes:
            self._note(note)
        if since in (None, self.forgets()):  # asked while others cannot write
            for text in texts:
                self._put(*text)

    def keep_content(
        self, digest: str, content: Content, at: RelPath, since: int | None = None
    ) -> bool:
        """Store a large text from its file, if small when packed; closes it.

        False if the file was changed: it may have that text again.
        """
        most = self._most // sizes.PART
        found = self._keep(digest, at, lambda: content.packed(digest, most), since)
        if found is None:
            content.close()
        return found is not False

    def _keep(
        self, digest: str, at: RelPath, packed: Callable[[], bytes | None], since: int | None
    ) -> bool | None:
        """Store the result of `packed`, if not empty; whether there was one.

        None if the text is stored already, or that is unknown.
        """
        if self._attempt(lambda: self._is_stored(digest, at)) is not False:
            return None
        if text := packed():  # meanwhile nothing is locked
            self._attempt(lambda: self._keep_packed([(digest, text, at)], (), since))
        return text is not None

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it is known to have been seen at `at`.

        `at` is a real path, `named` is the encoding that the configuration names for the file.
        Without `at` it may have been seen anywhere: use that only for digests that no caller gave.
        """
        if not _DIGEST.fullmatch(digest):
            return None
        stored = self._attempt(lambda: self._found(digest, at), writes=False)
        if stored is None or not stored[0].startswith(digest):
            return None
        data = b""
        with suppress(zlib.error):
            data = zlib.decompress(stored[1])
        if hashlib.sha256(data).hexdigest() != stored[0]:
            self._drop(stored[0])
            return None
        with suppress(BinaryFile):  # stored for a file with another encoding
            return Snapshot.of(data, named)
        return None

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """The lines of a version that the member was shown; by default of the last one read."""
        reader = _reader(member, at)
        record = self._attempt(lambda: self._record_of(reader), writes=False) or b""
        rows = filter(None, map(_shown, record.decode("ascii", "replace").split("\n")))
        asked = (row for row in rows if (row.version == version if version else row.read))
        return next(asked, None)

    def _note(self, note: Note) -> None:
        """Add to the shown lines; drop a file's oldest versions."""
        reader = _reader(note.member, note.at)
        record = self._record_of(reader).decode("ascii", "replace")
        lines = note.found(lambda version: _shown(_row_of(record, version)))
        if lines is None:
            return
        old, unread = _row_of(record, lines.version), f" {_UNREAD}"
        others = (row for row in record.split("\n") if row and row != old)
        rows = [f"{lines.version} {lines.total} {lines.encoded()}", *others]
        over = [row for row in rows if (unread in row) != lines.read][VERSIONS:]
        self._put_record(reader, "\n".join([row for row in rows if row not in over]).encode())


@lru_cache
def _reader(member: str, at: RelPath) -> str:
    return hashlib.sha256(f"{member}\0{at}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _row_of(record: str, version: str) -> str:
    """The row of a version in a record: the version, its lines, and the runs as words."""
    _, begin, rest = f"\n{record}".partition(f"\n{version} ")
    return f"{version} {rest}".partition("\n")[0] if begin else ""


def _shown(row: str) -> ShownLines | None:
    with suppress(ValueError):  # it is damaged, or empty
        version, total, *runs = row.split(" ")
        return ShownLines.decoded(version, int(total), runs)
    return None


@lru_cache
def place_of(at: RelPath) -> str:
    """What stands for a path where it is recorded that a text was seen there."""
    return hashlib.sha256(str(at).encode("utf-8", "surrogatepass")).hexdigest()[:16]


_RECENT = 64
_PASSED_OVER = 16
"""A recently stored text is stored again only every this many times."""


SMALL_BASE = 256 << 10
"""Bytes; the text of a plan up to this size is stored before the plan is reported."""

CALM_SECONDS = 0.25
"""How long a large text waits to be stored: usually its plan, applied at once, needs the CPU."""

MOST_WAITING = 4
"""The most large texts that wait to be stored; each keeps its file open."""


class BackgroundSnapshots:
    """Like a store, but stores texts in a background thread; a lookup waits for the queue.

    Only the text of a plan is stored at once, by the calling thread, up to `most_at_once` bytes:
    the plan outlives the process, however that ends. The queue is stored too when a process ends
    that did not close this.
    """

    def __init__(
        self, inner: SnapshotStore, calm_seconds: float = CALM_SECONDS, most_at_once: int = -1
    ) -> None:
        self._inner, self._most_at_once = inner, most_at_once
        self._soon, self._calm = Soon(), Soon(calm_seconds)
        self._texts: list[tuple[Snapshot, RelPath]] = []
        self._notes: list[Note] = []
        self._waiting: deque[tuple[str, Content, RelPath]] = deque()
        self._packing = ""
        self._recent: OrderedDict[tuple[str, RelPath], int] = OrderedDict()
        self._since = inner.forgets()
        self._lock, self._writing = held_at_fork(Lock()), held_at_fork(Lock())

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text soon, if it is not too large, and where it was seen; and the `notes`."""
        with self._lock:
            if base.size <= LARGEST and not self._lately(base.digest, at):
                self._texts.append((base, at))
            self._notes += notes
            if self._texts or self._notes:
                self._soon.do(self._write)

    def keep_planned(self, base: Snapshot, at: RelPath) -> None:
        """Store the text soon; with the queued ones at once if it is small."""
        self.keep(base, at)
        is_left = self._texts or self._writing.locked()  # it may be stored since an earlier call
        if is_left and base.size <= self._most_at_once:
            self._write_texts()

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Store a large text soon; few may wait, and a new one replaces the oldest."""
        over: Content | None = content
        with self._lock:
            if not self._lately(digest, at):
                over = None
                self._waiting.append((digest, content, at))
                if len(self._waiting) > MOST_WAITING:
                    oldest, over, seen_at = self._waiting.popleft()
                    self._recent.pop((oldest, seen_at), None)
                self._calm.do(self._keep_waiting)
        if over is not None:
            over.close()

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """As of a store."""
        self._soon.now()
        with self._lock:
            waiting = [self._packing, *(text[0] for text in self._waiting)]
        if any(whole.startswith(digest) for whole in waiting):
            self._calm.now()
        return self._inner.find(digest, named, at)

    def note_shown(self, *notes: Note) -> None:
        """Record soon which lines of files members were shown, or have written."""
        with self._lock:
            self._notes += notes
            self._soon.do(self._write)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """As of a store."""
        self._soon.now()
        return self._inner.shown(member, at, version)

    def forgets(self) -> int:
        """As of a store; drops what is queued if that has changed."""
        with self._lock:
            if (forgets := self._inner.forgets()) != self._since:
                self._since = forgets
                self._texts.clear()
                self._recent.clear()
                while self._waiting:
                    self._waiting.popleft()[1].close()
        return forgets

    def forget(self, kept: Collection[str]) -> None:
        """As of a store."""
        self._inner.forget(kept)
        self.forgets()

    def close(self) -> None:
        """Store everything queued."""
        for later in (self._soon, self._calm):
            later.close()
            later.now()
        self._inner.close()

    def _write(self) -> None:
        """Write all that is queued in one transaction."""
        with self._lock:
            notes, self._notes = self._notes, []
        self._write_texts(notes)

    def _write_texts(self, notes: Sequence[Note] = ()) -> None:
        """Write the queued texts and these notes; returns when all texts are written."""
        with self._writing:
            self.forgets()
            with self._lock:
                texts, self._texts, since = self._texts, [], self._since
            if texts or notes:
                self._inner.keep_all(texts, notes, since)

    def _lately(self, digest: str, at: RelPath) -> bool:
        """Whether the text was stored recently; call with the lock held."""
        times = self._recent.get((digest, at), 0)
        self._recent[digest, at] = (times + 1) % _PASSED_OVER
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return times > 0

    def _keep_waiting(self) -> None:
        """Store the waiting texts, oldest first, until there are none."""
        while self._waiting:  # otherwise only the oldest of more are taken from it
            with self._lock:
                if not self._waiting:
                    return
                self._packing, content, at = self._waiting.popleft()
                since = self._since
            if not self._inner.keep_content(self._packing, content, at, since):
                with self._lock:
                    self._recent.pop((self._packing, at), None)
            self._packing = ""


Snapshots = SnapshotStore | BackgroundSnapshots
"""What keeps texts, at once or soon."""
