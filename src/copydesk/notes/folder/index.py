"""What is stored about a folder's blocks: sidecar files with ids, and an SQLite index."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import sqlite3
import zlib
from array import array
from binascii import a2b_base64, b2a_base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple, TypeVar

from copydesk.errors import Failed
from copydesk.notes.folder.blocks import HASH_DIGITS, Fingerprint, Tombstone, differing, with_past
from copydesk.notes.protocol import InvalidBlockId, are_ids, is_id, valid
from copydesk.store.locks import FileLocks
from copydesk.store.protocol import Stamp
from copydesk.store.state import StateFolder

_FORMAT = 2
_READ_FORMATS = (1, 2)
"""Format 1 stores the fields of a row unencoded."""

_PLAIN = len(Fingerprint._fields)
"""The number of fields in an unencoded row, as in a file of steps."""

_DIGEST = re.compile(r', "digest": "([0-9a-f]*)",$')
_MOST_STEPS = 64
_MOST_STEP_BYTES = 1 << 20


class Splice(NamedTuple):
    """A replacement of rows, starting at row `at` (0-based, in the older text)."""

    at: int
    old: tuple[Fingerprint, ...]
    new: tuple[Fingerprint, ...]


class SidecarChange(NamedTuple):
    """The change from the rows of one text to those of another; the splices are in order."""

    before: str
    after: str
    splices: tuple[Splice, ...]

    def back(self) -> SidecarChange:
        shift, splices = 0, list[Splice]()
        for at, old, new in self.splices:
            splices.append(Splice(at + shift, new, old))
            shift += len(new) - len(old)
        return SidecarChange(self.after, self.before, tuple(splices))

    def take(self, rows: Sequence[Fingerprint]) -> tuple[Fingerprint, ...] | None:
        """Apply the change to rows; None if it does not fit them."""
        made: list[Fingerprint] = []
        at = 0
        for splice in self.splices:
            made += rows[at : splice.at]
            at = splice.at + len(splice.old)
            if tuple(rows[splice.at : at]) != splice.old:
                return None
            made += splice.new
        made += rows[at:]
        return tuple(made)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The rows of the document text with this digest, and the tombstones."""

    path: str
    digest: str
    rows: tuple[Fingerprint, ...]
    past: tuple[Tombstone, ...] = ()


class SidecarFile(NamedTuple):
    """The current size and time of a file in the folder of sidecars."""

    name: str
    size: int
    mtime_ns: int


class Sidecars:
    """The sidecars of one notebook. Safe to use from many threads and processes."""

    def __init__(self, state: str, notebook: str) -> None:
        home = StateFolder(state, name_of(notebook))
        self._home = home
        self._folder = home.folder("ids")
        self._locks = FileLocks(home.folder("locks"))

    def cache_path(self, of: str) -> str:
        """The path of this machine's cache (SQLite is not shared) for members with equal rights."""
        return self._home.path(f"cache-{of}-{name_of(platform.node())[:8]}.sqlite")

    def close(self) -> None:
        self._locks.close()

    def held(self) -> AbstractContextManager[None]:
        """The lock between processes that protects the writing of sidecars."""
        return self._locks.hold("ids")

    def notebook(self, fresh: str) -> str:
        """The id of the notebook; `fresh` is saved if it has none yet."""
        path = self._home.path("notebook.json")
        with self.held():
            found = _json(path)
            try:
                return valid(found["id"])
            except (KeyError, TypeError, InvalidBlockId):
                pass  # none yet
            _write(path, json.dumps({"format": _FORMAT, "id": fresh}) + "\n", flush=True)
            return fresh

    def load(self, path: str) -> Sidecar | None:
        """The newest rows that are certainly those of a text; None if none can be read.

        They are those of the sidecar, taken along the steps to where the last one begins: it began
        at a text that was in the file, but that it was ever made is not known.
        """
        sidecar = self.load_file(f"{name_of(path)}.json")
        last = _STEP.findall(_text(self._file(path, "steps")))[-1:]
        if sidecar is None or not last or sidecar.digest in last[0][:2]:
            return sidecar
        for step in self.way(path, sidecar.digest, last[0][0]):
            rows = step.take(sidecar.rows)
            if rows is None:
                break
            past = with_past(sidecar.past, sidecar.rows, rows)
            sidecar = Sidecar(path, step.after, rows, past)
        return sidecar

    def load_file(self, name: str) -> Sidecar | None:
        """The sidecar with this file name; None if it is missing or unreadable."""
        found = _json(os.path.join(self._folder, name))
        try:
            if found["format"] not in _READ_FORMATS:
                return None
            rows = _rows(found["blocks"])
            past = tuple([Tombstone(*each) for each in found["past"]])
            sidecar = Sidecar(found["path"], found["digest"], rows, past)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        return sidecar if are_ids({row.id for row in rows}, len(rows)) else None

    def digest(self, path: str) -> str | None:
        """The digest of the text whose rows are saved; None without a sidecar."""
        found = self._start(path, 1)
        return found[0] if found is not None else None

    def head(self, path: str) -> tuple[str, Fingerprint] | None:
        """The digest and the row of the document itself; None if either cannot be read."""
        found = self._start(path, 3)
        if found is None:
            return None
        try:
            (row,) = _rows([json.loads(found[1].rstrip(",\n"))])
        except (ValueError, TypeError, AttributeError):
            return None
        return (found[0], row) if is_id(row.id) else None

    def _start(self, path: str, lines: int) -> tuple[str, str] | None:
        """The digest in a sidecar's first line, and the last of its first `lines` lines."""
        try:
            with open(self._file(path, "json"), encoding="utf-8", newline="\n") as file:
                read = [file.readline() for _ in range(lines)]
        except (OSError, UnicodeDecodeError):
            return None
        found = _DIGEST.search(read[0])
        return (found[1], read[-1]) if found is not None else None

    def save(self, sidecar: Sidecar, *, flush: bool) -> SidecarFile:
        """Write a sidecar, under the lock; `flush` if its ids cannot be generated again."""
        rows = ",\n".join(_spelled(sidecar.rows))
        past = json.dumps(sidecar.past, separators=(",", ":"))
        path = json.dumps(sidecar.path)
        text = (
            f'{{"format": {_FORMAT}, "path": {path}, "digest": "{sidecar.digest}",\n'
            f'"blocks": [\n{rows}\n],\n"past": {past}}}\n'
        )
        name = self._file(sidecar.path, "json")
        _write(name, text, flush=flush)
        now = os.stat(name)
        return SidecarFile(os.path.basename(name), now.st_size, now.st_mtime_ns)

    def drop(self, path: str) -> None:
        """Remove the files of a document whose path has changed."""
        for kind in ("json", "steps"):
            with suppress(FileNotFoundError):
                os.unlink(self._file(path, kind))

    def rename(self, old: str, new: str) -> None:
        """Move the steps of a document to its new path."""
        with suppress(FileNotFoundError):
            os.replace(self._file(old, "steps"), self._file(new, "steps"))

    def add(self, path: str, step: SidecarChange, *, flush: bool = False) -> None:
        """Save a step, under the lock; the oldest ones are dropped.

        `flush` if the rows that it begins with are only known by earlier steps.
        """
        line = json.dumps([step.before, step.after, step.splices], ensure_ascii=False) + "\n"
        name = self._file(path, "steps")
        lines = [*_text(name).splitlines(keepends=True), line][-_MOST_STEPS:]
        size = 0
        for at in range(len(lines) - 1, -1, -1):
            size += len(lines[at])
            if size > _MOST_STEP_BYTES and at < len(lines) - 1:
                del lines[: at + 1]
                break
        _write(name, "".join(lines), flush=flush)

    def steps(self, path: str) -> Iterator[SidecarChange]:
        """The saved steps of a document, oldest first."""
        for saved in _STEP.findall(_text(self._file(path, "steps"))):
            with suppress(ValueError, TypeError, AttributeError):
                yield _step(*saved)

    def way(self, path: str, before: str, after: str) -> list[SidecarChange]:
        """The steps that lead from the rows of one text to those of another; empty if none do."""
        ways: dict[str, list[tuple[str, tuple[str, str, str]]]] = defaultdict(list)
        for saved in _STEP.findall(_text(self._file(path, "steps"))):
            ways[saved[0]].append((saved[1], saved))
            ways[saved[1]].append((saved[0], saved))
        reached: dict[str, list[tuple[str, str, str]]] = {before: []}
        waiting = [before]
        for digest in waiting:
            for beyond, saved in reversed(ways[digest]):
                if beyond not in reached:
                    reached[beyond] = [*reached[digest], saved]
                    waiting.append(beyond)
            if after in reached:
                break
        made: list[SidecarChange] = []
        at = before
        for saved in reached.get(after, ()):  # only these are parsed
            try:
                step = _step(*saved)
            except (ValueError, TypeError, AttributeError):
                return []
            made.append(step if step.before == at else step.back())
            at = made[-1].after
        return made

    def files(self) -> dict[str, SidecarFile]:
        """The existing sidecars and files of steps, by name."""
        found: dict[str, SidecarFile] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith((".json", ".steps")):
                    with suppress(FileNotFoundError):
                        now = entry.stat(follow_symlinks=False)
                        found[entry.name] = SidecarFile(entry.name, now.st_size, now.st_mtime_ns)
        return found

    def _file(self, path: str, kind: str) -> str:
        return os.path.join(self._folder, f"{name_of(path)}.{kind}")


def name_of(path: str) -> str:
    """The file name for a path: a hash."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def splice_of(at: int, old: Sequence[Fingerprint], new: Sequence[Fingerprint]) -> Splice:
    """The change of rows that begin at `at`, without equal ones at the start and the end."""
    start, old_stop, new_stop = differing(old, new)
    return Splice(at + start, tuple(old[start:old_stop]), tuple(new[start:new_stop]))


_STEP = re.compile(r'^\["([0-9a-f]*)", "([0-9a-f]*)", (.*)\]$', re.MULTILINE)
"""A saved step: the digests of its two texts, and its splices; one cut off by a crash is none."""


def _step(before: str, after: str, splices: str) -> SidecarChange:
    """Parse a saved step; raises ValueError, TypeError or AttributeError if it is damaged."""
    found = json.loads(splices)
    return SidecarChange(
        before, after, tuple([Splice(at, _rows(old), _rows(new)) for at, old, new in found])
    )


_DATE = 14
"""The characters of an id that hold its creation time."""


def _spelled(rows: Iterable[Fingerprint]) -> list[str]:
    """The rows as short JSON: hash and sketch in base 64; a repeated date is left out."""
    made, last = list[str](), ""
    for depth, block_id, kind, hash_, sketch, anchor in rows:
        date = block_id[:_DATE]
        name = block_id[_DATE:] if date == last else block_id
        last = date
        named = f",{json.dumps(anchor, ensure_ascii=False)}" if anchor else ""
        signs = b2a_base64(bytes.fromhex(hash_ + sketch), newline=False).rstrip(b"=").decode()
        made.append(f'[{depth},"{name}","{kind}","{signs}"{named}]')
    return made


def _rows(found: Iterable[Sequence[Any]]) -> tuple[Fingerprint, ...]:
    made: list[Fingerprint] = []
    for each in found:
        if len(each) == _PLAIN:
            made.append(Fingerprint(*each))
            continue
        depth, name, kind, signs, *anchor = each
        if made and name.startswith("-"):
            name = made[-1].id[:_DATE] + name
        told = a2b_base64(signs + "=" * (-len(signs) % 4)).hex()
        hash_, sketch = told[:HASH_DIGITS], told[HASH_DIGITS:]
        made.append(Fingerprint(depth, name, kind, hash_, sketch, *anchor))
    return tuple(made)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _json(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed("read ids", error.strerror or str(error)) from None
    except ValueError:
        return None


def _write(path: str, text: str, *, flush: bool) -> None:
    temp = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temp, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temp, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temp)
        raise Failed("keep ids", error.strerror or str(error)) from None


_VERSION = 2
_BUSY_SECONDS = 30.0
_ASKED = 500
_JOURNAL_BYTES = 1 << 16
_LEVEL = 1
"""Compression level; a higher one saves a fifth but is slower than reading the files."""

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
"""An SQL statement and the rows of values to run it with."""


class IndexedText(NamedTuple):
    """A leaf, a heading or a document to search; `at` is its position in document order."""

    at: int
    rank: int
    length: int
    folded: str


class Indexed(NamedTuple):
    """The state of a file when it was indexed; `unread` is why it was not read, or empty."""

    stamp: tuple[int, int, int, int, int]
    settled: bool
    digest: str
    unread: str

    def is_of(self, stamp: Stamp) -> bool:
        """Whether the file is certainly unchanged since then."""
        return self.settled and self.stamp == stamp_key(stamp)


def stamp_key(stamp: Stamp) -> tuple[int, int, int, int, int]:
    """The part of a stamp that is saved."""
    return stamp.dev, stamp.ino, stamp.size, stamp.mtime_ns, stamp.ctime_ns


class NotesIndex:
    """An index in an SQLite file that may be deleted at any time. Safe to use from many threads.

    To stay small, it stores the texts of a document as one compressed value and ids as hashes. So
    `where` and `of_others` may name a document that does not have the id.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()

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
        """Index a document; without `texts` the indexed ones stay."""
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
        """The places of texts that contain all these case-folded words, best first."""
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
        """The documents whose text has this anchor."""
        rows = self._rows("SELECT path FROM anchors WHERE id = ? ORDER BY path", (block_id,))
        return [path for (path,) in rows]

    def where(self, block_id: str) -> str | None:
        """The document that contains the block, or contained it last."""
        rows = self._rows(
            "SELECT paths.path FROM ids JOIN paths ON number = ids.path WHERE hash = ?",
            _hashes([block_id]),
        )
        return str(rows[0][0]) if rows else None

    def keep_ids(self, path: str, ids: Iterable[str]) -> None:
        hashes = _hashes(ids)

        def keep(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO paths (path) VALUES (?)", (path,))
            ((number,),) = connection.execute(f"SELECT {_NUMBER}", (path,)).fetchall()
            rows = [(each, number) for each in hashes]
            connection.executemany("REPLACE INTO ids VALUES (?, ?)", rows)

        if hashes:
            self.together(lambda: self._try(keep))

    def of_others(self, path: str, ids: Sequence[str]) -> frozenset[str]:
        """Those ids that belong, or once belonged, to other documents."""
        found: set[str] = set()
        for start in range(0, len(ids), _ASKED):
            asked = ids[start : start + _ASKED]
            part = dict(zip(_hashes(asked), asked, strict=True))
            marks = ",".join("?" * len(part))
            rows = self._rows(
                f"SELECT hash, path = {_NUMBER} FROM ids WHERE hash IN ({marks})", (path, *part)
            )
            found.update(part[number] for number, own in rows if not own)
        return frozenset(found)

    def sidecars(self) -> dict[str, tuple[str, SidecarFile]]:
        """The indexed sidecars, by file name: the path of the document, and the file."""
        rows = self._rows("SELECT name, path, size, mtime_ns FROM sidecars")
        return {name: (path, SidecarFile(name, size, mtime)) for name, path, size, mtime in rows}

    def keep_sidecar(self, seen: SidecarFile, path: str) -> None:
        """Record that a sidecar is indexed."""
        row = (seen.name, path, seen.size, seen.mtime_ns)
        self._change(("REPLACE INTO sidecars VALUES (?, ?, ?, ?)", [row]))

    def drop_sidecars(self, names: Iterable[str]) -> None:
        self._change(("DELETE FROM sidecars WHERE name = ?", [(name,) for name in names]))

    def together(self, work: Callable[[], Answer]) -> Answer:
        """Run `work` in one transaction, which is faster."""
        with self._lock:
            connection = self._try(lambda opened: opened)
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
        """Run a query; replace a broken file by a new one, and that by a database in memory."""
        with self._lock:
            for remove in (False, True):
                try:
                    return ask(self._open(remove=remove))
                except sqlite3.Error:
                    self.close()
            self._connection = _made(":memory:")
            return ask(self._connection)

    def _open(self, *, remove: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            if remove:
                for end in ("", "-journal"):
                    with suppress(OSError):
                        os.unlink(self._path + end)
            self._connection = _made(self._path)
        return self._connection


_NUMBER = "(SELECT number FROM paths WHERE path = ?)"


def _hashes(ids: Iterable[str]) -> list[int]:
    found = [each.encode("utf-8", "surrogatepass") for each in ids]
    digests = [hashlib.blake2b(each, digest_size=8).digest() for each in found]
    return [int.from_bytes(each, signed=True) for each in digests]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _packed(texts: Iterable[IndexedText]) -> tuple[bytes, bytes]:
    """For each text of a document three numbers, and the texts; both compressed."""
    marks, folded = array("Q"), list[str]()
    for text in texts:
        marks.extend((text.at, text.rank, text.length))
        folded.append(text.folded)
    whole = _bytes("\0".join(folded))
    return zlib.compress(marks.tobytes(), _LEVEL), zlib.compress(whole, _LEVEL)


def _places(
    path: str, packed: bytes, folded: bytes, words: Sequence[bytes]
) -> Iterator[tuple[int, int, str, int]]:
    """Rank, length, path and position of each text that contains all of the words."""
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
