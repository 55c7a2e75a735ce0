"""The documents of a folder, and an index of ids and texts in SQLite."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from copydesk.errors import FileNotFound, FileTooLarge, Refusal
from copydesk.store.access import Rules
from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.store.notes.folder_sidecar import SidecarFile
from copydesk.store.protocol import Stamp
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

ENDINGS = (".md", ".markdown")
_DEEPEST = 100

_WIDE = (b"\xff\xfe", b"\xfe\xff")


class NotRead(Exception):
    """A file named like a document that is none: UTF-16, NUL, TOO_LARGE or UNREADABLE."""

    def __init__(self, reason: str, stamp: Stamp) -> None:
        super().__init__(reason)
        self.reason, self.stamp = reason, stamp


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is a notebook, as one member sees it, without what `ignored` leaves out."""

    files: Files
    root: RelPath
    rules: Rules
    ignored: GitIgnore

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All documents with their stamps, by path, in order."""
        found: dict[RelPath, Stamp] = {}
        links: list[RelPath] = []
        seen: set[RelPath] = set()
        waiting = [self.root]
        self.ignored.forget()
        while waiting:
            for path, kind in self._entries(waiting.pop(), seen):
                if kind == "dir":
                    waiting.append(path)
                elif kind == "symlink":
                    links.append(path)
                elif is_document(path):
                    stamp = self._stamp(path)
                    if stamp is not None:
                        found[path] = stamp
        reals = set(found)
        for path in sorted(links):
            self._follow(path, found, reals, seen)
        return MappingProxyType(dict(sorted(found.items())))

    def stamp(self, path: RelPath) -> Stamp | None:
        """The stamp of a document; None for another file, or one that may not be read."""
        if not self.root.covers(path) or not is_document(path) or self._hidden(path):
            return None
        return None if self.ignored.leaves_out(path, self.root) else self._stamp(path)

    def read(self, path: RelPath, stamp: Stamp) -> tuple[bytes, Stamp] | None:
        """The bytes of a document that had this stamp; None if they may not be read, NotRead."""
        if stamp.size > sizes.NOTE:
            raise NotRead("TOO_LARGE", stamp)
        try:
            found = self.files.read(path)
        except FileNotFound:
            return None
        except FileTooLarge:
            raise NotRead("TOO_LARGE", stamp) from None
        except Refusal:
            raise NotRead("UNREADABLE", stamp) from None
        if not self.rules.allows_read(found.real):
            return None
        if found.data[:2] in _WIDE:
            raise NotRead("UTF-16", found.stamp)
        if b"\0" in found.data:
            raise NotRead("NUL", found.stamp)
        return found.data, found.stamp

    def _stamp(self, path: RelPath) -> Stamp | None:
        try:
            real, stamp = self.files.stat(path)
        except Refusal:
            return None
        return stamp if self.rules.allows_read(real) and self.rules.allows_read(path) else None

    def gone(self, path: RelPath) -> bool:
        """Whether nothing exists at the path any more."""
        try:
            self.files.stat(path)
        except FileNotFound:
            return True
        except Refusal:
            return False
        return False

    def parent(self, path: RelPath) -> RelPath | None:
        """The parent document; None at the top, or in a folder without one."""
        above = path.parent
        if above == self.root or not self.root.covers(above):
            return None
        for ending in ENDINGS:
            beside = RelPath((*above.parts[:-1], above.name + ending))
            if self.stamp(beside) is not None:
                return beside
        return None

    def below(self, path: RelPath) -> RelPath:
        """The folder that holds the documents below one."""
        return RelPath((*path.parts[:-1], stem(path)))

    def names(self, path: RelPath) -> frozenset[str]:
        """The names in a folder, case folded; empty if it is missing."""
        try:
            _, entries = self.files.list_dir(path)
        except Refusal:
            return frozenset()
        return frozenset(entry.name.casefold() for entry in entries)

    def _entries(self, path: RelPath, seen: set[RelPath]) -> Iterator[tuple[RelPath, str]]:
        if not self.rules.allows_walk(path) and path != self.root:
            return
        try:
            if len(path.parts) > _DEEPEST:
                return
            real, entries = self.files.list_dir(path)
        except Refusal:
            return
        if real in seen:
            return
        seen.add(real)
        for entry in entries:
            if not entry.name.startswith("."):
                inner = path / entry.name
                if not self.ignored.names(inner, directory=entry.kind == "dir"):
                    yield inner, entry.kind

    def _follow(
        self, path: RelPath, found: dict[RelPath, Stamp], reals: set[RelPath], seen: set[RelPath]
    ) -> None:
        """Scan the target of a link, unless it is in the notebook anyway."""
        try:
            real = self.files.resolve(path)
        except Refusal:
            return
        if real in reals or any(part.startswith(".") for part in real.parts):
            return
        if is_document(path):
            stamp = self.stamp(path)
            if stamp is not None:
                reals.add(real)
                found[path] = stamp
                return
        if self.ignored.names(path, directory=True):
            return
        if self.root.covers(real) or real.covers(self.root) or not self.rules.allows_walk(real):
            return
        for inner, kind in self._entries(path, seen):
            if kind == "file" and is_document(inner):
                stamp = self.stamp(inner)
                if stamp is not None:
                    found[inner] = stamp
            elif kind in ("dir", "symlink"):
                self._follow(inner, found, reals, seen)

    def _hidden(self, path: RelPath) -> bool:
        return any(part.startswith(".") for part in path.parts[len(self.root.parts) :])


def is_document(path: RelPath) -> bool:
    """Whether the name is one of a document."""
    return path.name.lower().endswith(ENDINGS) and bool(stem(path))


def stem(path: RelPath) -> str:
    """The name without its ending."""
    name = path.name
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


_VERSION = 2
_BUSY_SECONDS = 30.0
_ASKED = 500
_JOURNAL_BYTES = 1 << 16
_LEVEL = 1
"""Of compression: a stronger one is slower than reading the files, and saves a fifth."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS paths (number INTEGER PRIMARY KEY, path TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS documents (
  path TEXT PRIMARY KEY, dev INTEGER, ino INTEGER, size INTEGER, mtime_ns INTEGER,
  ctime_ns INTEGER, settled INTEGER, digest TEXT, unread TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (path INTEGER PRIMARY KEY, marks BLOB, folded BLOB);
CREATE TABLE IF NOT EXISTS anchors (id TEXT, path TEXT, PRIMARY KEY (id, path)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS anchors_of ON anchors (path);
CREATE TABLE IF NOT EXISTS ids (hash INTEGER PRIMARY KEY, path INTEGER);
CREATE TABLE IF NOT EXISTS sidecars (
  name TEXT PRIMARY KEY, path TEXT, size INTEGER, mtime_ns INTEGER) WITHOUT ROWID
"""

Answer = TypeVar("Answer")
Statement = tuple[str, Sequence[tuple[object, ...]]]
"""An SQL statement, and the rows of values that it is run with."""


class IndexedText(NamedTuple):
    """A leaf, a heading or a document to search; `at` is its position in document order."""

    at: int
    rank: int
    length: int
    folded: str


class Indexed(NamedTuple):
    """The state of a file when it was indexed; `unread` is why it is no document."""

    stamp: tuple[int, int, int, int, int]
    settled: bool
    digest: str
    unread: str

    def is_of(self, stamp: Stamp) -> bool:
        """Whether the file is as it was then."""
        return self.settled and self.stamp == stamp_key(stamp)


def stamp_key(stamp: Stamp) -> tuple[int, int, int, int, int]:
    """The part of a stamp that is saved."""
    return stamp.dev, stamp.ino, stamp.size, stamp.mtime_ns, stamp.ctime_ns


class NotesIndex:
    """A SQLite file that may be deleted at any time. Safe to use from many threads.

    It is kept small: the texts of a document are one compressed value, and an id is known by its
    hash. So `where` and `of_others` may name a document that does not have the id.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def indexed(self) -> dict[str, Indexed]:
        rows = self._rows(
            "SELECT path, dev, ino, size, mtime_ns, ctime_ns, settled, digest, unread "
            "FROM documents"
        )
        return {
            path: Indexed((dev, ino, size, mtime, ctime), bool(settled), digest, unread)
            for path, dev, ino, size, mtime, ctime, settled, digest, unread in rows
        }

    def digest(self, path: str) -> str:
        """The digest of a document when it was indexed; empty if it was not."""
        rows = self._rows("SELECT digest FROM documents WHERE path = ?", (path,))
        return str(rows[0][0]) if rows else ""

    def index(
        self,
        path: str,
        stamp: Stamp,
        digest: str,
        texts: Iterable[IndexedText] | None,
        anchors: Iterable[str],
        unread: str = "",
    ) -> None:
        """Index a document; without texts those of before stay."""
        row = (path, *stamp_key(stamp), stamp.settled, digest, unread)
        changes: list[Statement] = [
            ("REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [row])
        ]
        if texts is not None:
            marks, folded = _packed(texts)
            changes += [
                ("INSERT OR IGNORE INTO paths (path) VALUES (?)", [(path,)]),
                (f"REPLACE INTO texts VALUES ({_NUMBER}, ?, ?)", [(path, marks, folded)]),
                ("DELETE FROM anchors WHERE path = ?", [(path,)]),
                ("REPLACE INTO anchors VALUES (?, ?)", [(anchor, path) for anchor in anchors]),
            ]
        self._change(*changes)

    def forget(self, paths: Iterable[str]) -> None:
        gone = [(path,) for path in paths]
        self._change(
            ("DELETE FROM documents WHERE path = ?", gone),
            ("DELETE FROM anchors WHERE path = ?", gone),
            (f"DELETE FROM texts WHERE path = {_NUMBER}", gone),
        )

    def search(self, words: Sequence[str]) -> Iterator[tuple[str, int]]:
        """The places of texts with all of the words, which are case folded; the best first."""
        wanted = [_bytes(word) for word in words]
        found: list[tuple[int, int, str, int]] = []
        for path, marks, packed in self._rows(
            "SELECT paths.path, marks, folded FROM texts JOIN paths ON number = texts.path"
        ):
            folded = zlib.decompress(packed)
            if all(word in folded for word in wanted):
                found += _places(path, zlib.decompress(marks), folded, wanted)
        found.sort()
        yield from ((path, at) for _, _, path, at in found)

    def anchored(self, block_id: str) -> list[str]:
        """The documents with this anchor in their text."""
        rows = self._rows("SELECT path FROM anchors WHERE id = ? ORDER BY path", (block_id,))
        return [path for (path,) in rows]

    def where(self, block_id: str) -> str | None:
        """The document that the block is in, or was in last."""
        rows = self._rows(
            "SELECT paths.path FROM ids JOIN paths ON number = ids.path WHERE hash = ?",
            (_hash(block_id),),
        )
        return str(rows[0][0]) if rows else None

    def keep_ids(self, path: str, ids: Iterable[str]) -> None:
        hashes = [_hash(block_id) for block_id in ids]

        def keep(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO paths (path) VALUES (?)", (path,))
            ((number,),) = connection.execute(f"SELECT {_NUMBER}", (path,)).fetchall()
            rows = ((each, number) for each in hashes)
            connection.executemany("REPLACE INTO ids VALUES (?, ?)", rows)

        if hashes:
            self.together(lambda: self._try(keep))

    def of_others(self, path: str, ids: Sequence[str]) -> frozenset[str]:
        """The ids among these that belong, or belonged, to other documents."""
        found: set[str] = set()
        for start in range(0, len(ids), _ASKED):
            part = {_hash(block_id): block_id for block_id in ids[start : start + _ASKED]}
            marks = ",".join("?" * len(part))
            rows = self._rows(
                f"SELECT hash, path = {_NUMBER} FROM ids WHERE hash IN ({marks})", (path, *part)
            )
            found.update(part[number] for number, own in rows if not own)
        return frozenset(found)

    def sidecars(self) -> dict[str, tuple[str, SidecarFile]]:
        """The indexed sidecars, by file name: the path of the document, the file."""
        rows = self._rows("SELECT name, path, size, mtime_ns FROM sidecars")
        return {name: (path, SidecarFile(name, size, mtime)) for name, path, size, mtime in rows}

    def keep_sidecar(self, seen: SidecarFile, path: str) -> None:
        """Note that a sidecar is indexed."""
        row = (seen.name, path, seen.size, seen.mtime_ns)
        self._change(("REPLACE INTO sidecars VALUES (?, ?, ?, ?)", [row]))

    def drop_sidecars(self, names: Iterable[str]) -> None:
        self._change(("DELETE FROM sidecars WHERE name = ?", [(name,) for name in names]))

    def together(self, work: Callable[[], Answer]) -> Answer:
        """Do the work in one transaction, which is faster."""
        with self._lock:
            connection = self._open()
            if connection.in_transaction:
                return work()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                return work()
            try:
                return work()
            finally:
                with suppress(sqlite3.Error):
                    if self._connection is not None and self._connection.in_transaction:
                        self._connection.execute("COMMIT")

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._try(lambda connection: connection.execute(sql, values).fetchall())

    def _change(self, *statements: Statement) -> None:
        def change(connection: sqlite3.Connection) -> None:
            for sql, rows in statements:
                connection.executemany(sql, rows)

        self._try(change)

    def _try(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Ask; a file that fails is made anew, or else a database in memory."""
        with self._lock:
            for remove in (False, True):
                try:
                    return ask(self._open(remove=remove))
                except sqlite3.Error:
                    self._shut()
            self._connection = _made(":memory:")
            return ask(self._connection)

    def _open(self, *, remove: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            if remove:
                for end in ("", "-journal"):
                    with suppress(OSError):
                        os.unlink(self._path + end)
            try:
                self._connection = _made(self._path)
            except sqlite3.Error:
                if remove:
                    self._connection = _made(":memory:")
                else:
                    return self._open(remove=True)
        return self._connection

    def _shut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


_NUMBER = "(SELECT number FROM paths WHERE path = ?)"


def _hash(block_id: str) -> int:
    data = block_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), signed=True)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _packed(texts: Iterable[IndexedText]) -> tuple[bytes, bytes]:
    """The texts of a document, compressed, and before them three numbers of each."""
    marks, folded = array("Q"), list[str]()
    for text in texts:
        marks.extend((text.at, text.rank, text.length))
        folded.append(text.folded)
    whole = _bytes("\0".join(folded))
    return zlib.compress(marks.tobytes(), _LEVEL), zlib.compress(whole, _LEVEL)


def _places(
    path: str, packed: bytes, folded: bytes, words: Sequence[bytes]
) -> Iterator[tuple[int, int, str, int]]:
    """Rank, length, path and position of the texts with all of the words."""
    marks = array("Q")
    marks.frombytes(packed)
    for number, text in enumerate(folded.split(b"\0")):
        if all(word in text for word in words):
            at, rank, length = marks[3 * number : 3 * number + 3]
            yield rank, length, path, at


def _made(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = PERSIST")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    return connection
