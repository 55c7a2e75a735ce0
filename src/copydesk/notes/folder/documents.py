"""The documents of a folder, parsed, with the stable ids of their blocks.

Sidecar files hold the ids; an SQLite file that may be lost says where to look for words and ids.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import posixpath
import re
import secrets
import sqlite3
import time
import zlib
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from copydesk.errors import FileNotFound, FileTooLarge, Refusal
from copydesk.notes.folder.blocks import (
    ENDINGS,
    HASH_DIGITS,
    Fingerprint,
    FolderDocument,
    Tombstone,
    block_attributes,
    differing,
    fingerprints,
    identify,
    in_time,
    read,
    stem,
    title_of,
    with_past,
)
from copydesk.notes.markdown import Profile, Tree, parse
from copydesk.notes.markdown.block import DOCUMENT, MATTER
from copydesk.notes.markdown.tree import head_of, undisturbed
from copydesk.notes.protocol import (
    ANSWERS,
    ID_LETTERS,
    BlockNotFound,
    InvalidBlockId,
    are_ids,
    is_id,
    valid,
)
from copydesk.store.access import Rules
from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp, failed, refusing
from copydesk.store.state import StateFolder
from copydesk.store.threads import FileLocks
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

_FORMAT = 2
_READ_FORMATS = (1, 2)
"""Format 1 stores the fields of a row unencoded."""

_PLAIN = len(Fingerprint._fields)
"""The number of fields in an unencoded row, as in a file of steps."""

_DIGEST = re.compile(r', "digest": "([0-9a-f]*)",$')

# a file of steps is read and written as a whole, at each edit
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
        shifts = accumulate((len(new) - len(old) for _, old, new in self.splices), initial=0)
        back = zip(self.splices, shifts, strict=False)  # the last shift is that of the end
        splices = [Splice(at + shift, new, old) for (at, old, new), shift in back]
        return SidecarChange(self.after, self.before, tuple(splices))

    def take(self, rows: Sequence[Fingerprint]) -> tuple[Fingerprint, ...]:
        """Apply the change to rows; ValueError if it does not fit them."""
        changed = list(rows)
        for at, old, new in reversed(self.splices):  # the last first: no place moves
            stop = at + len(old)
            if tuple(changed[at:stop]) != old:
                raise ValueError("other rows")
            changed[at:stop] = new
        return tuple(changed)


SavedStep = tuple[str, str, str]
"""The digests of the text before and after a step, and its splices as JSON."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The rows of the document text with this digest, and the tombstones."""

    path: str
    digest: str = ""
    rows: tuple[Fingerprint, ...] = ()
    past: tuple[Tombstone, ...] = ()

    def then(self, digest: str, rows: tuple[Fingerprint, ...]) -> Sidecar:
        """The rows of a later text, with tombstones for those of this one."""
        return Sidecar(self.path, digest, rows, with_past(self.past, self.rows, rows))


class Sidecars:
    """The sidecars of one notebook. Safe to use from many threads and processes."""

    def __init__(self, state: str, notebook: str) -> None:
        self._home = StateFolder(state, name_of(notebook))
        self._folder = self._home.folder("ids")
        self._locks = FileLocks(self._home.folder("locks"))

    def cache_path(self, of: str) -> str:
        """The path of this machine's cache (SQLite is not shared) for members with equal rights."""
        return self._home.path(f"cache-{of}-{name_of(platform.node())[:8]}.sqlite")

    def close(self) -> None:
        self._locks.close()

    def locked(self) -> AbstractContextManager[None]:
        """The lock between processes that protects the writing of sidecars."""
        return self._locks.hold("ids")

    def notebook(self, fresh: str) -> str:
        """The id of the notebook; `fresh` is saved if it has none yet."""
        path = self._home.path("notebook.json")
        with self.locked():
            with suppress(InvalidBlockId, *_DAMAGED):  # none yet
                return valid(json.loads(_text(path))["id"])
            _write(path, json.dumps({"format": _FORMAT, "id": fresh}) + "\n", flush=True)
            return fresh

    def load(self, path: str) -> Sidecar:
        """The saved rows of a document; none if they cannot be read."""
        return self.load_file(f"{name_of(path)}.json") or Sidecar(path)

    def nearest(self, path: str, texts: set[str]) -> Sidecar:
        """Of the rows that are known, those that share most with these texts.

        A step may have been planned and never made, and an undo goes back along several, so the
        text decides which rows it comes from; of equally near ones the newest are taken.
        """
        sidecar = self.load(path)
        known = {sidecar.digest: sidecar}  # in order of time
        for saved in self._steps(path):
            for here, there in (saved[:2], saved[1::-1]):
                is_new = here in known and there not in known
                if is_new and (beyond := self._beyond(saved, known[here])) is not None:
                    known[there] = beyond
        return max(reversed(known.values()), key=lambda each: shared(each, texts))

    def taken_to(self, digest: str, sidecar: Sidecar) -> Sidecar | None:
        """The sidecar of the text with this digest, by the saved steps; None if none lead there."""
        for saved in self.way(sidecar.path, sidecar.digest, digest):
            beyond = self._beyond(saved, sidecar)
            if beyond is None:
                return None
            sidecar = beyond
        return sidecar if sidecar.digest == digest else None

    def _beyond(self, saved: SavedStep, sidecar: Sidecar) -> Sidecar | None:
        """The rows at the other end of a step; None if it is damaged."""
        with suppress(*_DAMAGED):
            step = _step(saved)
            step = step if step.before == sidecar.digest else step.back()
            rows = step.take(sidecar.rows)
            if len({row.id for row in rows}) == len(rows):
                return sidecar.then(step.after, rows)
        return None

    def load_file(self, name: str) -> Sidecar | None:
        """The sidecar with this file name; None if it is missing or unreadable."""
        with suppress(*_DAMAGED):
            saved = json.loads(_text(os.path.join(self._folder, name)))
            rows = _rows(saved["blocks"])
            past = tuple([Tombstone(*each) for each in saved["past"]])
            if saved["format"] in _READ_FORMATS and are_ids({row.id for row in rows}, len(rows)):
                return Sidecar(saved["path"], saved["digest"], rows, past)
        return None

    def head(self, path: str) -> tuple[str, Fingerprint | None]:
        """The digest of the text whose rows are saved, and the document's row; or ("", None)."""
        name = self._file(path, "json")
        with suppress(OSError, *_DAMAGED), open(name, encoding="utf-8", newline="\n") as file:
            first, _, row = islice(file, 3)
            (document,) = _rows([json.loads(row.rstrip(",\n"))])
            if (digest := _DIGEST.search(first)) is not None and is_id(document.id):
                return digest[1], document
        return "", None

    def save(self, sidecar: Sidecar, *, flush: bool) -> tuple[str, str]:
        """Write a sidecar, under the lock; return its name and size and time, as in `files`.

        `flush` if its ids cannot be generated again.
        """
        rows = ",\n".join(_spelled(sidecar.rows))
        past = json.dumps(sidecar.past, separators=(",", ":"))
        text = (
            f'{{"format": {_FORMAT}, "path": {json.dumps(sidecar.path)}, '
            f'"digest": "{sidecar.digest}",\n"blocks": [\n{rows}\n],\n"past": {past}}}\n'
        )
        name = self._file(sidecar.path, "json")
        _write(name, text, flush=flush)
        return os.path.basename(name), _size_and_time(os.stat(name))

    def leave(self, old: str, new: str) -> None:
        """Remove a document's rows where it was, once they are saved where it is now."""
        with suppress(FileNotFoundError):
            os.replace(self._file(old, "steps"), self._file(new, "steps"))
        with suppress(FileNotFoundError):
            os.unlink(self._file(old, "json"))

    def add(self, path: str, step: SidecarChange, *, flush: bool = False) -> None:
        """Save a step, under the lock; the oldest ones are dropped.

        `flush` if the rows that it begins with are only known by earlier steps.
        """
        line = json.dumps([step.before, step.after, step.splices], ensure_ascii=False)
        name = self._file(path, "steps")
        lines = [*_text(name).split("\n")[:-1], line][-_MOST_STEPS:]
        while len(lines) > 1 and sum(map(len, lines)) + len(lines) > _MOST_STEP_BYTES:
            del lines[0]
        _write(name, "\n".join(lines) + "\n", flush=flush)

    def new_ids(self, path: str) -> list[str]:
        """The ids in the newer rows of all saved steps of a document."""
        ids = list[str]()
        for saved in self._steps(path):
            with suppress(*_DAMAGED):
                ids += [row.id for splice in _step(saved).splices for row in splice.new]
        return ids

    def newest(self, path: str) -> str:
        """The digest of the text after the newest step; empty without one."""
        return next((saved[1] for saved in self._steps(path)[-1:]), "")

    def way(self, path: str, before: str, after: str) -> list[SavedStep]:
        """The steps that lead from one text to another, in either direction; empty if none do."""
        newest_first = self._steps(path)[::-1]
        ways = {before: list[SavedStep]()}
        reached = [before]
        for digest in reached:  # which grows
            if digest == after:
                return ways[digest]
            for saved in newest_first:
                beyond = saved[1] if saved[0] == digest else saved[0]
                if digest in saved[:2] and beyond not in ways:
                    ways[beyond] = [*ways[digest], saved]
                    reached.append(beyond)
        return []

    def _steps(self, path: str) -> list[SavedStep]:
        """The saved steps of a document, oldest first."""
        return _STEP.findall(_text(self._file(path, "steps")))

    def files(self) -> dict[str, str]:
        """The current size and time of each sidecar and file of steps, by name."""
        seen: dict[str, str] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith((".json", ".steps")):
                    with suppress(FileNotFoundError):
                        seen[entry.name] = _size_and_time(entry.stat(follow_symlinks=False))
        return seen

    def _file(self, path: str, kind: str) -> str:
        return os.path.join(self._folder, f"{name_of(path)}.{kind}")


def _size_and_time(now: os.stat_result) -> str:
    return f"{now.st_size} {now.st_mtime_ns}"


def name_of(path: str) -> str:
    """The file name for a path: a hash."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def splice_of(at: int, old: Sequence[Fingerprint], new: Sequence[Fingerprint]) -> Splice:
    """The change of rows that begin at `at`, without equal ones at the start and the end."""
    start, old_stop, new_stop = differing(old, new)
    return Splice(at + start, tuple(old[start:old_stop]), tuple(new[start:new_stop]))


_STEP = re.compile(r'^\["([0-9a-f]*)", "([0-9a-f]*)", (.*)\]$', re.MULTILINE)
"""A saved step, in one line; one cut off by a crash has no end."""


def _step(saved: SavedStep) -> SidecarChange:
    """Parse a saved step; a damaged one raises one of `_DAMAGED`."""
    splices = [Splice(at, _rows(old), _rows(new)) for at, old, new in json.loads(saved[2])]
    return SidecarChange(saved[0], saved[1], tuple(splices))


_DAMAGED = (ValueError, TypeError, AttributeError, KeyError)
"""What is raised by reading the values of a damaged file."""

_DATE = 14
"""The characters of an id that hold its creation time."""


def _spelled(rows: Iterable[Fingerprint]) -> list[str]:
    """The rows as short JSON: hash and sketch in base 64; a repeated date is left out."""
    spelled, last = list[str](), ""
    for depth, block_id, kind, hash_, sketch, anchor in rows:
        name = block_id.removeprefix(last)
        last = block_id[:_DATE]
        named = f",{json.dumps(anchor, ensure_ascii=False)}" if anchor else ""
        packed = b2a_base64(bytes.fromhex(hash_ + sketch), newline=False).rstrip(b"=").decode()
        spelled.append(f'[{depth},"{name}","{kind}","{packed}"{named}]')
    return spelled


def _rows(spelled: Iterable[Sequence[Any]]) -> tuple[Fingerprint, ...]:
    rows: list[Fingerprint] = []
    for each in spelled:
        if len(each) == _PLAIN:
            rows.append(Fingerprint(*each))
            continue
        depth, name, kind, packed, *anchor = each
        if rows and name.startswith("-"):
            name = rows[-1].id[:_DATE] + name
        digits = a2b_base64(packed + "=" * (-len(packed) % 4)).hex()
        rows.append(
            Fingerprint(depth, name, kind, digits[:HASH_DIGITS], digits[HASH_DIGITS:], *anchor)
        )
    return tuple(rows)


def _text(path: str) -> str:
    """The text of a file; empty if it is missing or damaged."""
    missing = suppress(FileNotFoundError, UnicodeDecodeError)
    with refusing("read ids"), missing, open(path, encoding="utf-8", newline="\n") as file:
        return file.read()
    return ""


def _write(path: str, text: str, *, flush: bool) -> None:
    # without `flush` a crash of the machine may leave nothing, which is read as missing; if it
    # loses the renaming, the blocks are known by the older rows
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
        raise failed("keep ids", error) from None


_VERSION = 4  # of the tables; a file of another version is made anew
_BUSY_SECONDS = 30.0
_JOURNAL_BYTES = 1 << 16
_LEVEL = 1
"""Compression level; a higher one saves a fifth but is slower than reading the files."""

# nothing is flushed, as the file may be lost; a journal that stays is not made at each write
_SETTINGS = f"""
PRAGMA synchronous = OFF;
PRAGMA journal_mode = PERSIST;
PRAGMA journal_size_limit = {_JOURNAL_BYTES}
"""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS paths (number INTEGER PRIMARY KEY, path TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS documents (
  path TEXT PRIMARY KEY, stamp TEXT, digest TEXT, unread TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (path INTEGER PRIMARY KEY, marks BLOB, folded BLOB);
CREATE TABLE IF NOT EXISTS anchors (id TEXT, path TEXT, PRIMARY KEY (id, path)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS anchors_of ON anchors (path);
CREATE TABLE IF NOT EXISTS ids (
  hash INTEGER, path INTEGER, PRIMARY KEY (hash, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sidecars (
  name TEXT PRIMARY KEY, path TEXT, size_and_time TEXT) WITHOUT ROWID;
PRAGMA user_version = {_VERSION}
"""

Answer = TypeVar("Answer")
Statement = tuple[str, Sequence[tuple[object, ...]]]
"""An SQL statement and the rows of values to run it with."""


IndexedText = tuple[int, int, int, bytes]
"""A leaf, a heading or a document to search: its position in document order, rank, length, text."""

Holds = Callable[[bytes], bool]
"""Whether a folded text is sought."""


def stamp_key(stamp: Stamp) -> str:
    """The part of a stamp that is saved."""
    return f"{stamp.dev} {stamp.ino} {stamp.size} {stamp.mtime_ns} {stamp.ctime_ns}"


class NotesIndex:
    """An index in an SQLite file that may be deleted at any time; the caller holds a lock.

    To stay small, it stores the texts of a document as one compressed value and ids as hashes. So
    `where` and `of_others` may name a document that does not have the id.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def indexed(self) -> dict[str, tuple[str, str]]:
        """The files that are indexed: the key of the stamp, and why it was not read, or empty.

        The key is empty if the file may have changed since without another stamp.
        """
        rows = self._rows("SELECT path, stamp, unread FROM documents")
        return {path: (stamp, unread) for path, stamp, unread in rows}

    def digest(self, path: str) -> str:
        """The digest of a document when it was indexed; empty if it was not."""
        (digest,) = self._column("SELECT digest FROM documents WHERE path = ?", path) or ("",)
        return digest

    def index(
        self,
        path: str,
        stamp: Stamp,
        digest: str,
        texts: Sequence[IndexedText] | None,
        anchors: Iterable[str],
        unread: str = "",
    ) -> None:
        """Index a document; without `texts` the indexed ones stay."""
        row = (path, stamp_key(stamp) if stamp.settled else "", digest, unread)
        changes: list[Statement] = [("REPLACE INTO documents VALUES (?, ?, ?, ?)", [row])]
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

    def search(self, holds: Holds) -> list[tuple[str, int]]:
        """The places of texts that `holds` accepts, best first; it must accept longer texts too."""
        hits: list[tuple[int, int, str, int]] = []
        for path, marks, packed in self._rows(
            "SELECT paths.path, marks, folded FROM texts JOIN paths ON number = texts.path"
        ):
            folded = zlib.decompress(packed)
            if holds(folded):
                hits += _places(path, zlib.decompress(marks), folded, holds)
        return [(path, at) for _, _, path, at in sorted(hits)]

    def anchored(self, block_id: str) -> list[str]:
        """The documents whose text has this anchor."""
        return self._column("SELECT path FROM anchors WHERE id = ? ORDER BY path", block_id)

    def where(self, block_id: str) -> list[str]:
        """The documents that contain the block, or once contained it: a block may move."""
        return self._column(
            "SELECT paths.path FROM ids JOIN paths ON number = ids.path WHERE hash = ?",
            *_hashes([block_id]),
        )

    def keep_ids(
        self, path: str, ids: Iterable[str], file: str = "", size_and_time: str = ""
    ) -> None:
        """Index ids of a document; if they are those of a file, all of that is indexed now."""
        self._change(
            ("INSERT OR IGNORE INTO paths (path) VALUES (?)", [(path,)]),
            (
                f"INSERT OR IGNORE INTO ids VALUES (?, {_NUMBER})",
                [(each, path) for each in _hashes(ids)],
            ),
            ("REPLACE INTO sidecars VALUES (?, ?, ?)", [(file, path, size_and_time)][: bool(file)]),
        )

    def of_others(self, path: str, ids: Sequence[str]) -> frozenset[str]:
        """Those ids that belong, or once belonged, to other documents."""
        asked = dict(zip(_hashes(ids), ids, strict=True))
        rows = self._rows(
            "SELECT hash FROM ids WHERE hash IN (SELECT value FROM json_each(?))"
            f" AND path IS NOT {_NUMBER}",
            (json.dumps([*asked]), path),
        )
        return frozenset(asked[number] for (number,) in rows)

    def sidecars(self) -> dict[str, tuple[str, str]]:
        """The indexed sidecars, by file name: the path of the document, and size and time."""
        rows = self._rows("SELECT name, path, size_and_time FROM sidecars")
        return {name: (path, seen) for name, path, seen in rows}

    def drop_sidecars(self, names: Iterable[str]) -> None:
        self._change(("DELETE FROM sidecars WHERE name = ?", [(name,) for name in names]))

    @contextmanager
    def together(self) -> Generator[None]:
        """One transaction for what is done within, which is faster."""
        connection = self._try(lambda opened: opened)
        is_outer = not connection.in_transaction
        if is_outer:
            with suppress(sqlite3.Error):
                connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            if is_outer and self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.execute("COMMIT")

    def _column(self, sql: str, *values: object) -> list[str]:
        return [first for (first,) in self._rows(sql, values)]

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._try(lambda connection: connection.execute(sql, values).fetchall())

    def _change(self, *statements: Statement) -> None:
        def change(connection: sqlite3.Connection) -> None:
            for sql, rows in statements:
                connection.executemany(sql, rows)

        with self.together():
            self._try(change)

    def _try(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run a query; replace a broken file by a new one, and that by a database in memory."""
        for _ in range(2):
            with suppress(sqlite3.Error):
                self._connection = self._connection or _made(self._path)
                return ask(self._connection)
            self.close()
            for end in ("", "-journal"):
                with suppress(OSError):
                    os.unlink(self._path + end)
        self._connection = _made(":memory:")
        return ask(self._connection)


_NUMBER = "(SELECT number FROM paths WHERE path = ?)"


def _hashes(ids: Iterable[str]) -> list[int]:
    hashes = [hashlib.blake2b(i.encode("utf-8", "surrogatepass"), digest_size=8) for i in ids]
    return [int.from_bytes(each.digest(), signed=True) for each in hashes]


def folded(text: str) -> bytes:
    """A text as the index has it."""
    return text.casefold().encode("utf-8", "surrogatepass")


def having(words: Iterable[str], of: Callable[[Iterable[bool]], bool] = all) -> Holds:
    """Whether a folded text contains all of these words, or `any` of them."""
    wanted = [folded(word) for word in words]
    return lambda text: of(word in text for word in wanted)


def _packed(texts: Sequence[IndexedText]) -> tuple[bytes, bytes]:
    """For each text of a document three numbers, and the texts; both compressed."""
    marks = array("Q", chain.from_iterable(each[:3] for each in texts))
    whole = b"\0".join([text for *_, text in texts])
    return zlib.compress(marks, _LEVEL), zlib.compress(whole, _LEVEL)


def _places(
    path: str, packed: bytes, folded: bytes, holds: Holds
) -> Iterator[tuple[int, int, str, int]]:
    """Rank, length, path and position of each text that `holds` accepts."""
    marks = memoryview(packed).cast("Q")
    for number, text in enumerate(folded.split(b"\0")):
        if holds(text):
            at, rank, length = marks[3 * number : 3 * number + 3]
            yield rank, length, path, at


def _made(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.executescript(_SETTINGS)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not version:
        connection.executescript(_SCHEMA)
    elif version != _VERSION:
        connection.close()
        raise sqlite3.DatabaseError("made by another version")
    return connection


_DEEPEST = 100

_WIDE = (b"\xff\xfe", b"\xfe\xff")

_UNREAD = {FileNotFound.code: "", FileTooLarge.code: "TOO_LARGE"}
"""The reasons of `NotRead` by the codes of refusals; all others are UNREADABLE."""


@dataclass(eq=False)
class NotRead(Exception):
    """A Markdown file that cannot be read.

    `reason`: UTF-16, NUL, TOO_LARGE, TOO_SLOW or UNREADABLE; empty for one that is missing or
    forbidden, which may have no stamp.
    """

    reason: str
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class Folder:
    """A notebook folder as one member sees it, without the files that `ignored` leaves out."""

    files: Files
    root: RelPath
    rules: Rules
    ignored: GitIgnore

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All documents with their stamps, sorted by path.

        Links are followed last, to what the notebook does not contain anyway.
        """
        self.ignored.forget()
        seen: set[RelPath] = set()
        below = list(self._below(self.root, seen))
        links = sorted(path for path, kind in below if kind == "symlink")
        notes = (path for path, kind in below if kind != "symlink" and is_document(path))
        stamps = {path: stamp for path in notes if (stamp := self._stamp(path)) is not None}
        reals = set(stamps)
        for path in links:  # which grows
            with suppress(Refusal):
                real = self.files.resolve(path)
                if real in reals or any(part.startswith(".") for part in real.parts):
                    continue
                if (stamp := self.stamp(path)) is not None:
                    reals.add(real)
                    stamps[path] = stamp
                elif not (self.root.covers(real) or real.covers(self.root)):
                    links += [inner for inner, _ in self._below(path, seen)]
        return MappingProxyType(dict(sorted(stamps.items())))

    def stamp(self, path: RelPath) -> Stamp | None:
        """The stamp of a document; None for any other file, or one that may not be read."""
        is_left_out = (
            not self.root.covers(path)
            or not is_document(path)
            or any(part.startswith(".") for part in path.parts[len(self.root.parts) :])
            or self.ignored.leaves_out(path, self.root)
        )
        return None if is_left_out else self._stamp(path)

    def read(self, path: RelPath, stamp: Stamp | None) -> tuple[bytes, Stamp]:
        """The bytes of a document with this stamp, and the stamp of these. Raises NotRead."""
        if stamp is None or stamp.size > sizes.NOTE:
            raise NotRead("" if stamp is None else "TOO_LARGE", stamp)
        try:
            content = self.files.read(path)
        except Refusal as refusal:
            raise NotRead(_UNREAD.get(refusal.code, "UNREADABLE"), stamp) from None
        if not self.rules.allows_read(content.real):
            raise NotRead("", content.stamp)
        if content.data[:2] in _WIDE or b"\0" in content.data:
            raise NotRead("UTF-16" if content.data[:2] in _WIDE else "NUL", content.stamp)
        return content.data, content.stamp

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
        except Refusal as refusal:
            return isinstance(refusal, FileNotFound)
        return False

    def parent(self, path: RelPath) -> RelPath | None:
        """The parent document; None at the top, or if the folder has no document."""
        above = path.parent
        beside = (RelPath((*above.parts[:-1], above.name + ending)) for ending in ENDINGS)
        return next((each for each in beside if self.stamp(each) is not None), None)

    def names(self, path: RelPath) -> frozenset[str]:
        """The case-folded names in a folder; empty if it is missing."""
        with suppress(Refusal):
            _, entries = self.files.list_dir(path)
            return frozenset(entry.name.casefold() for entry in entries)
        return frozenset()

    def _below(self, top: RelPath, seen: set[RelPath]) -> Iterator[tuple[RelPath, str]]:
        """The files and links below a folder, and their kinds; each real folder once."""
        waiting = [top]
        for path in waiting:  # which grows
            is_allowed = path == self.root or self.rules.allows_walk(path)
            if len(path.parts) > _DEEPEST or not is_allowed:
                continue
            with suppress(Refusal):
                real, entries = self.files.list_dir(path)
                if real in seen or not (path == self.root or self.rules.allows_walk(real)):
                    continue
                seen.add(real)
                for entry in entries:
                    inner, is_folder = path / entry.name, entry.kind == "dir"
                    if entry.name.startswith(".") or self.ignored.names(inner, directory=is_folder):
                        continue
                    if is_folder:
                        waiting.append(inner)
                    else:
                        yield inner, entry.kind


def is_document(path: RelPath) -> bool:
    """Whether the name is that of a document."""
    return stem(path) not in ("", path.name)


_STEP_ROWS = 500  # the most rows of a step that is saved of a change by another program
_LONG_WAY = 16  # from as many steps on, all rows are saved anew
_CANDIDATES = 200  # the most missing files looked at for where a text comes from
MOVED = 0.5
"""From this share of equal texts on, a document counts as a moved one."""

_STAYED = 0.2
"""Below this share of equal texts, a document may have moved to another file."""


def names_document(note: str, path: RelPath) -> bool:
    """Whether a link may mean this file; it gives its name or the last parts of its path."""
    spelled = posixpath.normpath(note).split("/")
    wanted = _named(RelPath(tuple(part for part in spelled if part not in ("", ".", ".."))))
    return any(wanted) and _named(path)[-len(wanted) :] == wanted


def _named(path: RelPath) -> list[str]:
    """What links may give of a path, case-folded."""
    return [part.casefold() for part in (*path.parts[:-1], stem(path))]


def path_of(text: str) -> RelPath:
    """Parse a slash-separated path."""
    return RelPath(tuple(text.split("/")))


def texts_of(new: Sequence[Fingerprint]) -> set[str]:
    """The hashes of the texts in a document."""
    return {row.hash for row in new[1:] if row.sketch}


def shared(sidecar: Sidecar, texts: set[str]) -> float:
    """The share of texts that two documents have in common, relative to the larger one."""
    old = texts_of(sidecar.rows)
    most = max(len(old), len(texts))
    return len(old & texts) / most if most else 0.0


_HELD = 32 << 20
"""The memory for parsed documents, in bytes (estimated); at least one document is kept."""

_COMPARED = 200
_LARGE = 1 << 18


class Card(NamedTuple):
    """What a list shows of a document."""

    id: str
    title: str
    attributes: Mapping[str, str]
    stamp: Stamp


Successor = Callable[[Stamp, str, bytes, tuple[Fingerprint, ...]], FolderDocument | None]


class DocumentCache:
    """The parsed documents of a folder and the ids of their blocks; the caller holds a lock.

    `learn_anchors` is called before a search for an unknown id.
    """

    def __init__(
        self,
        folder: Folder,
        sidecars: Sidecars,
        index: NotesIndex,
        profile: Profile,
        learn_anchors: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self.sidecars = sidecars
        self.index = index
        self.profile: Profile = profile
        self._learn_anchors = learn_anchors
        self._orphans: set[str] = set()  # known documents that the last scan did not find
        self._held: dict[RelPath, FolderDocument] = {}
        self._size = 0
        self._glanced: Tree | None = None
        self._scanned: Mapping[RelPath, Stamp] | None = None
        self._cards: dict[RelPath, Card] = {}

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All current documents; within `one_look`, those of the first scan."""
        answers, key = ANSWERS.get(), (id(self), "scan", "")
        if self._scanned is None or answers is None or key not in answers:
            self._scanned = self.folder.scan()
            self._sync(self._scanned)
            if answers is not None:
                answers[key] = True
        return self._scanned

    def scanned(self) -> Mapping[RelPath, Stamp]:
        """All documents that the last scan found."""
        return self._scanned if self._scanned is not None else self.scan()

    def look(self, path: RelPath) -> FolderDocument | None:
        """The current document; None if the file is missing, forbidden or not a document.

        Within `one_look` it is the one of the first look, unless it was written since.
        """
        answers, key, held = ANSWERS.get(), (id(self), "look", path), self._held.get(path)
        if held is not None and answers is not None and answers.get(key) is held:
            return held
        self.scanned()
        document, stamp = self._drop(path), self.folder.stamp(path)
        with suppress(NotRead):
            if document is None or document.stamp != stamp or not document.stamp.settled:
                data, stamp = self.folder.read(path, stamp)
                if document is not None and document.data == data:
                    document.stamp = stamp
                else:
                    document = self._read(path, data, stamp)
            self._hold(path, document)
            if answers is not None:
                answers[key] = document
            return document
        return None

    def glance(
        self, path: RelPath, digest: str, check: Callable[[], None] = lambda: None
    ) -> tuple[Stamp, str, Tree | None]:
        """The stamp, digest and tree of a document, without ids.

        The tree is None if the digest is the given one. Raises NotRead, and what `check` does,
        which is called now and then.
        """
        data, stamp = self.folder.read(path, self.folder.stamp(path))
        now = hashlib.sha256(data).hexdigest()
        if now == digest:
            return stamp, now, None
        document = self._held.get(path)
        if document is not None and document.digest == now:
            return stamp, now, document.tree
        tree = self._parsed(data, stamp, check)
        if len(data) >= _LARGE:
            self._glanced = tree  # the next read uses it
        return stamp, now, tree

    def card(self, path: RelPath, stamp: Stamp | None = None) -> Card | None:
        """The id and title of a document, read without parsing blocks where possible."""
        self.scanned()
        stamp, known = stamp or self.folder.stamp(path), self._cards.get(path)
        if known is not None and known.stamp == stamp and known.stamp.settled:
            return known
        with suppress(NotRead):
            data, stamp = self.folder.read(path, stamp)
            tree, block_id = parse(head_of(data), self.profile), ""
            if self.profile == "gfm":  # in the other one the last line may name the document
                digest = hashlib.sha256(data).hexdigest()
                block_id = self._first_id(path, digest, tree.root.anchor or "", stamp)
            if not block_id:
                document = self.look(path)
                if document is None:
                    return None
                block_id, stamp, tree = document.id, document.stamp, document.tree
            title, attributes = title_of(tree) or stem(path), block_attributes(tree, tree.root)
            self._cards[path] = Card(block_id, title, attributes, stamp)
            return self._cards[path]
        return None

    def find(self, block_id: str) -> FolderDocument:
        """The document that contains the block; raises InvalidBlockId, BlockNotFound."""
        for path in self._hints(valid(block_id)):
            document = self.look(path)
            if document is not None and block_id in document.index:
                return document
        raise self._lost(block_id)

    def written(
        self,
        path: RelPath,
        digest: str,
        rows: tuple[Fingerprint, ...],
        successor: Successor | None,
    ) -> bool:
        """Whether the file has the planned text; `successor` may then build the document."""
        try:
            content = self.folder.files.read(path)
        except Refusal:
            return False
        if hashlib.sha256(content.data).hexdigest() != digest:
            return False
        document = self._held.get(path)
        if document is None or document.digest != digest or document.rows != rows:
            self._drop(path)
            with undisturbed(len(content.data)):
                built = successor and successor(content.stamp, digest, content.data, rows)
                if built is not None:
                    self._hold(path, built)
        name = str(path)
        if not self.sidecars.head(name)[0]:
            with self.sidecars.locked():
                if not self.sidecars.head(name)[0]:
                    self._save(Sidecar(name, digest, rows))
        return True

    def plan_ids(self, base: FolderDocument | None, path: RelPath, step: SidecarChange) -> None:
        """Save the ids of a text that is about to be written.

        Few steps lead from the sidecar to its rows; if there are many or none it is saved anew.
        """
        name = str(path)
        with self.sidecars.locked():
            there, by_steps = self.sidecars.head(name)[0], False
            if base is not None and there != base.digest:
                by_steps = 0 < len(self.sidecars.way(name, there, base.digest)) < _LONG_WAY
                if not by_steps:
                    self._save(self.sidecars.load(name).then(base.digest, base.rows))
            self.sidecars.add(name, step, flush=by_steps)
        new = [
            row.id
            for each in step.splices
            for row in each.new
            if base is None or row.id not in base.index
        ]
        if new:
            self.index.keep_ids(name, new)

    def _hold(self, path: RelPath, document: FolderDocument) -> None:
        self._held[path] = document
        self._size += document.weight
        while self._size > _HELD and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def _drop(self, path: RelPath) -> FolderDocument | None:
        document = self._held.pop(path, None)
        self._size -= document.weight if document is not None else 0
        return document

    def _parsed(self, data: bytes, stamp: Stamp, check: Callable[[], None] = lambda: None) -> Tree:
        """The blocks of a text; raises NotRead if they take too long, and what `check` does."""
        late = NotRead("TOO_SLOW", stamp)
        return read(data, self.profile, check=in_time(len(data), late, check))

    def _read(self, path: RelPath, data: bytes, stamp: Stamp) -> FolderDocument:
        digest = hashlib.sha256(data).hexdigest()
        with undisturbed(len(data)):
            tree, self._glanced = self._glanced, None
            if tree is None or tree.data != data:
                tree = self._parsed(data, stamp)
            order = tuple(block for block in tree.root.walk() if block.kind != MATTER)
            rows = self._rows_of(path, digest, tree, stamp, len(order))
            document = FolderDocument(path, stamp, digest, data, tree, rows, order)
            # Compute the cached properties while the collector is paused.
            assert len(document.index) == len(document.number)
            return document

    def _hints(self, block_id: str) -> Iterator[RelPath]:
        """The documents that may contain the block, likeliest first."""
        yield from [path for path, document in self._held.items() if block_id in document.index]
        where = self.index.where(block_id)
        yield from map(path_of, where)
        scanned = self.scan()
        again = self.index.where(block_id)  # by what other processes saved
        yield from (path_of(path) for path in again if path not in where)
        if not again:
            self._learn_anchors(block_id)
            yield from map(path_of, self.index.anchored(block_id))
        if not self._orphans.isdisjoint(again):
            unknown = self._unknown(scanned)
            digests = {self.sidecars.head(path)[0] for path in again}
            yield from sorted(unknown, key=lambda path: self._digest(path) not in digests)

    def _unknown(self, paths: Iterable[RelPath]) -> list[RelPath]:
        """The documents without a sidecar."""
        return [path for path in paths if not self.sidecars.head(str(path))[0]]

    def _digest(self, path: RelPath) -> str:
        with suppress(Refusal):
            return self.folder.files.digest(path)[2]
        return ""

    def _sync(self, scanned: Mapping[RelPath, Stamp]) -> None:
        """Index the ids that other processes saved, and note which documents are gone."""
        known, files = self.index.sidecars(), self.sidecars.files()
        with self.index.together():
            for name, seen in sorted(files.items()):  # a document's rows before its steps
                if known.get(name, ("", ""))[1] != seen:
                    path, ids = self._ids_in(name, known)
                    if path:
                        self.index.keep_ids(path, ids, name, seen)
                        known[name] = (path, seen)
            self.index.drop_sidecars(known.keys() - files.keys())
        paths = {known[name][0] for name in files if name.endswith(".json") and name in known}
        self._orphans = paths - {str(path) for path in scanned}

    def _ids_in(self, name: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, Sequence[str]]:
        """The document of a sidecar or a file of steps, and the ids in it."""
        if name.endswith(".json"):
            sidecar = self.sidecars.load_file(name) or Sidecar("")
            return sidecar.path, [row.id for row in sidecar.rows]
        path, _ = known.get(name.removesuffix(".steps") + ".json", ("", ""))
        return path, self.sidecars.new_ids(path) if path else ()

    def _lost(self, block_id: str) -> BlockNotFound:
        """The refusal for a missing block, with what is known about it."""
        lost = False
        for where in self.index.where(block_id):
            document = self.look(path_of(where))
            rows = document.rows if document is not None else ()
            sidecar = self.sidecars.nearest(where, texts_of(rows))
            if document is not None and sidecar.rows:
                near = {each.id: each.near for each in sidecar.then("", rows).past}
                at = near.pop(block_id, document.id)
                while at not in document.index:
                    at = near.pop(at, document.id)
                return BlockNotFound(block_id, lost=True, nearest=at)
            lost = lost or bool(sidecar.rows)
        return BlockNotFound(block_id, lost=lost)

    def _rows_that_stand(self, path: RelPath, digest: str, count: int) -> tuple[Fingerprint, ...]:
        """The rows that are saved of a text, if its blocks have not moved elsewhere; or none."""
        known = self.known_rows(path, digest, count)
        return known if known and not self._moved_since(str(path), digest, known) else ()

    def _rows_of(
        self, path: RelPath, digest: str, tree: Tree, stamp: Stamp, count: int
    ) -> tuple[Fingerprint, ...]:
        """The rows of a text with `count` blocks; new rows are saved.

        `own` is what is saved under this name; the text comes from what it `was`. That is its own;
        or that of a missing file, which moved here; or, if the blocks of its own are in another
        file now, or none are saved, nothing: then this text is seen for the `first` time.
        """
        name = str(path)
        if known := self._rows_that_stand(path, digest, count):
            return known  # without waiting for who reads another note
        new = fingerprints(tree, tree.root)
        with self.sidecars.locked():
            if known := self._rows_that_stand(path, digest, count):
                return known
            own = self.sidecars.nearest(name, texts_of(new))
            if self._moved_since(name, own.digest, own.rows):
                own = self.sidecars.taken_to(self.sidecars.newest(name), own) or own
            was = self._origin(own, digest, new)
            if was is own and len(was.rows) > 1 and self._moved_away(was, new):
                was = own = Sidecar(name)
            # of one row: it was listed, and its blocks were never read
            first = not was.rows or (len(was.rows) == 1 and was.digest == digest)
            rows = was.rows
            if was.digest != digest or len(rows) != count:
                elsewhere = self._elsewhere(name, [each.id for each in was.past])
                gone = [each for each in was.past if each.id not in elsewhere]
                rows = self._know(name, digest, was.rows, new, gone, stamp if first else None)
            past = was.then(digest, rows).past
            if was is not own:
                past = (*own.then(digest, rows).past, *past)
            self._save(Sidecar(name, digest, rows, past), first=first)
            if was.path != name:
                self.sidecars.leave(was.path, name)
                self._orphans.discard(was.path)
            splice = splice_of(0, was.rows, rows)
            if was.rows and was.digest != digest and len(splice.old + splice.new) <= _STEP_ROWS:
                self.sidecars.add(name, SidecarChange(was.digest, digest, (splice,)))
        return rows

    def _first_id(self, path: RelPath, digest: str, anchor: str, stamp: Stamp) -> str:
        """The id of a document, created if missing; empty if the blocks are needed to find it."""
        name = str(path)
        there, row = self.sidecars.head(name)
        if row is None and not self._orphans:  # else it may be one of these under another name
            with self.sidecars.locked():
                if self.sidecars.head(name)[1] is None:
                    row = Fingerprint(0, "", DOCUMENT, "", "", anchor)
                    rows = self._know(name, digest, (), (row,), (), stamp)
                    self._save(Sidecar(name, digest, rows), first=True)
            there, row = self.sidecars.head(name)
        return row.id if row is not None and (there, row.anchor) == (digest, anchor) else ""

    def known_rows(self, path: RelPath, digest: str, count: int) -> tuple[Fingerprint, ...] | None:
        """The saved rows of the text with this digest; None if they are not known."""
        there = self.sidecars.taken_to(digest, self.sidecars.load(str(path)))
        return there.rows if there is not None and len(there.rows) == count else None

    def _moved_since(self, name: str, digest: str, rows: Sequence[Fingerprint]) -> bool:
        """Whether a block of an older text, which may be back, is in another document now."""
        is_older = self.sidecars.newest(name) not in ("", digest)
        return is_older and bool(self._elsewhere(name, [row.id for row in rows]))

    def _elsewhere(self, name: str, ids: Sequence[str]) -> frozenset[str]:
        """Those ids that blocks of other documents have now."""
        moved = self.index.of_others(name, ids)
        others = {where for block_id in moved for where in self.index.where(block_id)} - {name}
        now = (
            self.sidecars.taken_to(self._digest(path_of(where)), self.sidecars.load(where))
            for where in others
        )
        return moved & {row.id for there in now if there is not None for row in there.rows}

    def _save(self, sidecar: Sidecar, *, first: bool = False) -> None:
        """Save a sidecar, under the lock. `first`: its ids can be generated again."""
        name, seen = self.sidecars.save(sidecar, flush=not first)
        self.index.keep_ids(sidecar.path, [row.id for row in sidecar.rows], name, seen)

    def _moved_away(self, own: Sidecar, new: Sequence[Fingerprint]) -> bool:
        """Whether the document has moved to another file; if so, that file gets its ids."""
        texts = texts_of(new)
        stayed = not texts or shared(own, texts) >= _STAYED
        unknown = [] if stayed else self._unknown(self.folder.scan())
        same = (path for path in unknown if self._digest(path) == own.digest)
        like = (path for path in unknown[:_COMPARED] if self._is_like(path, own))
        path = next(chain(same, like), None)
        if path is not None:
            self._save(Sidecar(str(path), own.digest, own.rows, own.past))
            self.sidecars.leave(own.path, str(path))
        return path is not None

    def _is_like(self, path: RelPath, sidecar: Sidecar) -> bool:
        """Whether a file has much of a sidecar's text."""
        with suppress(NotRead):
            _, _, tree = self.glance(path, "")
            new = fingerprints(tree, tree.root) if tree is not None else []
            return shared(sidecar, texts_of(new)) >= MOVED
        return False

    def _origin(self, own: Sidecar, digest: str, new: Sequence[Fingerprint]) -> Sidecar:
        """The sidecar that matches the document: its own, or that of a missing file."""
        texts, anchor = texts_of(new), new[0].anchor
        share = partial(shared, texts=texts)
        if own.digest == digest or share(own) >= MOVED or not (texts or anchor):
            return own
        best = own
        for other in sorted(self._orphans)[:_CANDIDATES]:
            if other != own.path and self.folder.gone(path_of(other)):
                sidecar = self.sidecars.nearest(other, texts)
                named = anchor and any(anchor in (row.id, row.anchor) for row in sidecar.rows[:1])
                if named or sidecar.digest == digest:
                    return sidecar
                best = max(best, sidecar, key=share)
        return best if share(best) >= MOVED else own

    def _know(
        self,
        name: str,
        digest: str,
        was: Sequence[Fingerprint],
        new: Sequence[Fingerprint],
        past: Sequence[Tombstone],
        stamp: Stamp | None,
    ) -> tuple[Fingerprint, ...]:
        """As `identify`; with a `stamp`, every machine generates the same ids."""
        seconds = time.time() if stamp is None else stamp.mtime_ns / 1e9
        date = time.strftime("%Y%m%d%H%M%S", time.gmtime(max(seconds, 0)))

        def candidate(at: int, number: int) -> str:
            seed = f"{name}:{digest}:{at}:{number}".encode("utf-8", "surrogatepass")
            drawn = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest())
            return f"{date}-" + "".join([ID_LETTERS[drawn // 36**digit % 36] for digit in range(7)])

        first = [candidate(at, 0) for at in range(len(new))]
        others = self.index.of_others(name, first)
        tried = [0] * len(new)

        def fresh(at: int) -> str:
            tried[at] += 1
            if tried[at] == 1 and first[at] not in others:
                return first[at]
            block_id = candidate(at, tried[at])
            return fresh(at) if self.index.of_others(name, [block_id]) else block_id

        def taken(block_id: str) -> bool:  # by a document that still exists
            others = (where for where in self.index.where(block_id) if where != name)
            return not all(self.folder.gone(path_of(where)) for where in others)

        return identify(was, new, past, fresh, taken)
