"""The texts that plans and reads are based on: stored once by content, compressed, bounded."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Protocol, cast

from copydesk.desk.backends.database import Connection, Database
from copydesk.errors import BinaryFile, Failed, StateDamaged
from copydesk.store.locks import held_at_fork
from copydesk.store.protocol import Content
from copydesk.store.state import Soon
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

Run = tuple[int, int]
"""Lines [start, stop), 0-based."""

MOST_SHOWN = 4096
"""The most records of shown lines, one for each member, file and version."""

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
        found: list[Run] = []
        for first, last in self.runs:
            if first > start and start < stop:
                found.append((start, min(first, stop)))
            start = max(start, last)
        return (*found, (start, stop)) if start < stop else tuple(found)

    def joined(self, other: ShownLines | None) -> ShownLines:
        """Merge with other lines shown of this version; if too many, these lines come first."""
        if other is None or other.version != self.version:
            return self
        runs = join((*self.runs, *other.runs))
        if len(runs) > MOST_RUNS:
            mine = [run for run in runs if not self._leaves_out(run)]
            rest = [run for run in runs if self._leaves_out(run)]
            runs = tuple(sorted([*mine, *rest][:MOST_RUNS]))
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
        pairs = (word.split("-") for word in words[not read :] if word)
        runs = tuple((int(start), int(stop)) for start, stop in pairs)
        return ShownLines(version, total, runs, read)

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
        """Map known lines through the change."""
        known = list(self.written)
        at = shift = i = 0
        for start, stop, count in (*self.regions, (_END, _END, 0)):
            while i < len(runs) and runs[i][1] <= at:
                i += 1
            j = i
            while j < len(runs) and runs[j][0] < start:
                known.append((max(runs[j][0], at) + shift, min(runs[j][1], start) + shift))
                j += 1
            j -= j > i and runs[j - 1][1] > start
            whole = j < len(runs) and runs[j][0] <= start < stop <= runs[j][1]
            if self.amended and whole:
                known.append((start + shift, start + shift + count))
            at, shift = stop, shift + count - (stop - start)
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
        within = ((start, min(stop, self.total)) for start, stop in runs[:MOST_RUNS])
        return ShownLines(self.version, self.total, join(within), read=False)


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
        lines = self.lines() if callable(self.lines) else self.lines
        if isinstance(lines, CarriedLines):
            lines = lines.upon(known(lines.before))
        if not lines.runs and not lines.read:
            return None
        return lines.joined(known(lines.version) if lines.version else None)


def join(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Sort the runs, merge those that meet or touch, and drop empty ones."""
    found: list[Run] = []
    for start, stop in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return tuple(found)


MEMORY_BYTES = 64 << 20
"""Default limit for the stored texts, in bytes."""

LARGEST = sizes.LARGE
"""Bytes; a larger text is only stored from its file."""

MOST_SEEN = 1 << 15
"""For how many pairs of a text and a path it is recorded that the text was seen there."""


class Snapshots(Protocol):
    """Texts by digest. All methods are thread-safe."""

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text, if not too large, as seen at the real path; and record the `notes`."""

    def keep_planned(self, base: Snapshot, at: RelPath) -> None:
        """Store the text of a plan; if it is small, before returning where others may need it."""

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Store a large text from its file, if unchanged and small when packed; closes it."""

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it is known to have been seen at `at`.

        `at` is a real path, `named` is the encoding that the configuration names for the file.
        Without `at` it may have been seen anywhere: use that only for digests that no caller gave.
        """
        ...

    def note_shown(self, *notes: Note) -> None:
        """Record which lines of files members were shown, or have written."""

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """The lines of a version that the member was shown; by default of the last one read."""
        ...

    def close(self) -> None:
        """Store what is queued, then release all resources."""


class SnapshotStore(Snapshots, Protocol):
    """Texts by digest in storage, several in one transaction."""

    def keep_all(
        self, texts: Sequence[tuple[Snapshot, RelPath]], notes: Sequence[Note] = ()
    ) -> None:
        """Store texts that are not too large, as seen at real paths; and record the `notes`."""


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
    """Stores texts in a background thread; a lookup waits for the queue.

    The text of a plan is stored at once up to `most_at_once` bytes: the plan outlives the process,
    however that ends. The queue is stored too when a process ends that did not close this.
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
        self._lock, self._writing = held_at_fork(Lock()), held_at_fork(Lock())

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text soon, if it is not too large, and where it was seen; and the notes."""
        with self._lock:
            kept = base.size <= LARGEST and not self._lately(base.digest, at)
            self._submit([(base, at)] if kept else [], notes)

    def keep_planned(self, base: Snapshot, at: RelPath) -> None:
        """Store the text soon; with the queued ones at once if it is small."""
        self.keep(base, at)
        if base.size <= self._most_at_once:
            self._write_texts()

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Store a large text soon; few may wait, and a new one replaces the oldest."""
        gone: Content | None = content
        with self._lock:
            if not self._lately(digest, at):
                gone = None
                self._waiting.append((digest, content, at))
                if len(self._waiting) > MOST_WAITING:
                    oldest, gone, there = self._waiting.popleft()
                    self._recent.pop((oldest, there), None)
                self._calm.do(self._keep_waiting)
        if gone is not None:
            gone.close()

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        self._soon.now()
        with self._lock:
            asked = [self._packing, *(each[0] for each in self._waiting)]
        if any(one.startswith(digest) for one in asked):
            self._calm.now()
        return self._inner.find(digest, named, at)

    def note_shown(self, *notes: Note) -> None:
        """Record soon which lines of files members were shown, or have written."""
        with self._lock:
            self._submit([], notes)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        self._soon.now()
        return self._inner.shown(member, at, version)

    def close(self) -> None:
        """Store everything queued."""
        for later in (self._soon, self._calm):
            later.close()
            later.now()
        self._inner.close()

    def _submit(self, texts: Sequence[tuple[Snapshot, RelPath]], notes: Sequence[Note]) -> None:
        """Queue the texts and the notes for the next write; call with the lock held."""
        self._texts += texts
        self._notes += notes
        if texts or notes:
            self._soon.do(self._write)

    def _write(self) -> None:
        """Write all that is queued in one transaction."""
        with self._lock:
            notes, self._notes = self._notes, []
        self._write_texts([note.ready() for note in notes])  # before the file is locked

    def _write_texts(self, notes: Sequence[Note] = ()) -> None:
        """Write the queued texts and these notes; returns when all texts are written."""
        with self._writing:
            with self._lock:
                texts, self._texts = self._texts, []
            if texts or notes:
                self._inner.keep_all(texts, notes)

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
                self._packing, content, at = self._waiting.popleft()
            self._inner.keep_content(self._packing, content, at)
            self._packing = ""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, used INTEGER NOT NULL,
    size INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS texts_by_use ON texts (used);
CREATE TABLE IF NOT EXISTS content (id INTEGER PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS seen (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text INTEGER NOT NULL, path BLOB NOT NULL,
    UNIQUE (text, path)
);
CREATE TABLE IF NOT EXISTS shown (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reader BLOB NOT NULL, version TEXT NOT NULL,
    total INTEGER NOT NULL, runs TEXT NOT NULL, UNIQUE (reader, version)
)
"""
# The content has its own table, because an update rewrites its whole row.

_DIGEST = re.compile(f"[0-9a-f]{{{VERSION_LENGTH},64}}")
_SMALL = 1 << 16
"""Bytes; texts up to this size are compressed before checking whether they are stored."""

_LATELY = 8
"""The texts used last, this many, are not marked as used again."""

_ROW_BYTES = 256
"""The minimum overhead of a text, in bytes."""

_PRUNED_AFTER = MOST_SHOWN // 8
"""After this many notes, from all processes, the oldest beyond the limit are dropped."""

_PAGE_BYTES = 4_096
"""SQLite's default, which nothing changes."""

_NEWEST = "SELECT coalesce(max(used), 0) FROM texts"


class SqliteSnapshots:
    """Texts by digest, an LRU of `most_bytes`; a damaged file is recreated."""

    def __init__(
        self, db: Database, most_bytes: int = MEMORY_BYTES, largest: int = LARGEST
    ) -> None:
        self._db = db
        self._most, self._largest = most_bytes, largest
        self._noted = 0
        db.define(_SCHEMA)

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text, where it was seen, and the notes, if there is room for it."""
        self.keep_all([(base, at)], notes)

    def keep_all(
        self, texts: Sequence[tuple[Snapshot, RelPath]], notes: Sequence[Note] = ()
    ) -> None:
        small = [
            (bytes.fromhex(base.digest), _key(at), zlib.compress(base.data, 1))
            for base, at in texts
            if base.size <= min(_SMALL, self._largest)
        ]
        try:
            if small or notes:
                with self._db.writing() as db:
                    _note_shown(db, notes)
                    for whole, path, packed in small:
                        self._put(db, whole, path, packed)
        except Failed as failure:
            self._recover(failure)
        for base, at in texts:
            if _SMALL < base.size <= self._largest:
                self._keep(base.digest, at, partial(zlib.compress, base.data, 1))

    keep_planned = keep

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        read = False

        def packed() -> bytes | None:
            nonlocal read
            read = True
            return content.packed(digest, self._most // sizes.PART)

        self._keep(digest, at, packed)
        if not read:
            content.close()

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        if not _DIGEST.fullmatch(digest):
            return None
        found: tuple[int, bytes, bytes] | None = None
        try:
            with self._db.reading() as db:
                found = self._found(db, digest, at)
        except Failed as failure:
            self._recover(failure)
        if found is None:
            return None
        id_, whole, packed = found
        try:
            data = zlib.decompress(packed)
        except zlib.error:
            data = b""
        if hashlib.sha256(data).digest() != whole:
            with suppress(Failed), self._db.writing() as db:
                _drop(db, [id_])
            return None
        try:
            return Snapshot.of(data, named)
        except BinaryFile:  # stored for a file with another encoding
            return None

    def note_shown(self, *notes: Note) -> None:
        if not notes:
            return
        try:
            with self._db.writing() as db:
                _note_shown(db, notes)
        except Failed as failure:
            self._recover(failure)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        try:
            with self._db.reading() as db:
                return _shown(db, _reader(member, at), version)
        except Failed as failure:
            self._recover(failure)
            return None

    def close(self) -> None:
        self._db.close()

    def _keep(self, digest: str, at: RelPath, packed: Callable[[], bytes | None]) -> None:
        """Store the result of `packed` unless the text is stored already."""
        whole, path = bytes.fromhex(digest), _key(at)
        try:
            with self._db.writing() as db:
                if self._put(db, whole, path, None):
                    return
            content = packed()  # while the file is not locked
            if content is not None:
                with self._db.writing() as db:
                    self._put(db, whole, path, content)
        except Failed as failure:
            self._recover(failure)

    def _put(self, db: Connection, whole: bytes, path: bytes, content: bytes | None) -> bool:
        """Record where the text was seen; False if it is not stored, and no content was given."""
        known = db.execute(
            f"SELECT t.used > ({_NEWEST}) - {_LATELY}, s.id FROM texts t"
            " LEFT JOIN seen s ON s.text = t.id AND s.path = ? WHERE t.digest = ?",
            (path, whole),
        ).fetchone()
        if known is not None and known[0] and known[1] is not None:
            return True
        if known is None:
            if content is None:
                return False
            self._note(db, _insert(db, whole, content), path)
            if _pragma(db, "page_count") > self._most_pages():
                self._evict(db)
                self._cut(db)
            return True
        id_ = _touch(db, whole)
        if id_ is not None:
            self._note(db, id_, path)
        return True

    def _found(
        self, db: Connection, digest: str, at: RelPath | None
    ) -> tuple[int, bytes, bytes] | None:
        """Return id, digest and content of the text, and mark it as used."""
        between = (bytes.fromhex(digest.ljust(64, "0")), bytes.fromhex(digest.ljust(64, "f")))
        path = None if at is None else _key(at)
        seen = "" if path is None else "JOIN seen s ON s.text = t.id AND s.path = ?3"
        row = db.execute(
            f"SELECT t.id, t.digest, c.packed, t.used > ({_NEWEST}) - {_LATELY} FROM texts t {seen}"
            " JOIN content c ON c.id = t.id WHERE t.digest BETWEEN ?1 AND ?2 LIMIT 1",
            between if path is None else (*between, path),
        ).fetchone()
        if row is None:
            return None
        if not row[3]:
            with suppress(Failed), self._db.writing() as writing:
                _touch(writing, row[1])
                if path is not None:
                    self._note(writing, row[0], path)
        return cast("tuple[int, bytes, bytes]", row[:3])

    def _note(self, db: Connection, text: int, path: bytes) -> None:
        """Record where the text was seen, as the latest place; drop the oldest beyond the limit."""
        db.execute("INSERT OR REPLACE INTO seen (text, path) VALUES (?, ?)", (text, path))
        self._noted += 1
        if self._noted * 8 > MOST_SEEN:
            self._noted = 0
            db.execute(
                "DELETE FROM seen WHERE id <="
                " (SELECT id FROM seen ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (MOST_SEEN * 3 // 4,),
            )

    def _most_pages(self) -> int:
        """How many pages the file may have; the rest of the limit is for SQLite's own journal."""
        return self._most * 7 // 8 // _PAGE_BYTES

    def _evict(self, db: Connection) -> None:
        """Drop the least recently used texts until the used pages are within the limit."""
        most = self._most_pages()
        excess = _pragma(db, "page_count") - _pragma(db, "freelist_count") - most
        if excess <= 0:
            return
        excess = (excess + most // 16) * _PAGE_BYTES
        gone: list[int] = []
        for id_, size in db.execute("SELECT id, size FROM texts ORDER BY used"):
            gone.append(id_)
            excess -= size + _ROW_BYTES
            if excess <= 0:
                break
        _drop(db, gone)

    def _cut(self, db: Connection) -> None:
        """Release the pages beyond the limit; none of them is in use."""
        unused = _pragma(db, "page_count") - self._most_pages()
        if unused > 0:
            db.execute(f"PRAGMA incremental_vacuum({unused})").fetchall()  # one row per page

    def _recover(self, failure: Failed) -> None:
        """Begin a new file if this one is damaged; otherwise just try again with the next text."""
        if isinstance(failure, StateDamaged):
            with suppress(Failed):
                self._db.discard()


def _key(at: RelPath) -> bytes:
    return hashlib.sha256(str(at).encode("utf-8", "surrogatepass")).digest()[:8]


def _reader(member: str, at: RelPath) -> bytes:
    name = f"{member}\0{at}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).digest()[:16]


def _shown(db: Connection, reader: bytes, version: str | None) -> ShownLines | None:
    which = "version = ?2" if version else "?2 IS NULL AND runs NOT LIKE 'unread%'"
    row = db.execute(
        f"SELECT version, total, runs FROM shown WHERE reader = ?1 AND {which}"
        " ORDER BY id DESC LIMIT 1",
        (reader, version),
    ).fetchone()
    with suppress(ValueError):  # it is damaged
        return None if row is None else ShownLines.decoded(row[0], row[1], str(row[2]).split())
    return None


def _note_shown(db: Connection, notes: Sequence[Note]) -> None:
    """Add to the shown lines; drop a file's oldest versions, and the oldest of all."""
    for note in notes:
        reader = _reader(note.member, note.at)
        lines = note.found(partial(_shown, db, reader))
        if lines is None:
            continue
        db.execute(
            "INSERT OR REPLACE INTO shown (reader, version, total, runs) VALUES (?, ?, ?, ?)",
            (reader, lines.version, lines.total, lines.encoded()),
        )
        id_ = db.last_insert_rowid()
        db.execute(
            "DELETE FROM shown WHERE id IN (SELECT id FROM shown WHERE reader = ?"
            " AND runs LIKE 'unread%' = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
            (reader, not lines.read, VERSIONS),
        )
        if id_ % _PRUNED_AFTER == 0:
            db.execute(
                "DELETE FROM shown WHERE id <="
                " (SELECT id FROM shown ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (MOST_SHOWN - _PRUNED_AFTER,),
            )


def _insert(db: Connection, digest: bytes, packed: bytes) -> int:
    """Store a text that is not stored yet, as the one used last; return its id."""
    row = (digest, len(packed))
    new = f"INSERT INTO texts (digest, used, size) VALUES (?, ({_NEWEST}) + 1, ?)"
    db.execute(new, row)
    id_ = db.last_insert_rowid()
    db.execute("INSERT INTO content (id, packed) VALUES (?, ?)", (id_, packed))
    return id_


def _touch(db: Connection, digest: bytes) -> int | None:
    found = db.execute(
        f"UPDATE texts SET used = ({_NEWEST}) + 1 WHERE digest = ? RETURNING id", (digest,)
    ).fetchone()
    return None if found is None else int(found[0])


def _drop(db: Connection, ids: list[int]) -> None:
    """Drop some texts, and where they were seen."""
    for table, name in (("content", "id"), ("seen", "text"), ("texts", "id")):
        db.executemany(f"DELETE FROM {table} WHERE {name} = ?", [(id_,) for id_ in ids])


def _pragma(db: Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").get)
