"""A cache of a folder's parsed documents and the stable ids of their blocks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple

from copydesk.errors import FileNotFound, FileTooLarge, Refusal
from copydesk.notes.folder.blocks import (
    DOCUMENT,
    MATTER,
    Fingerprint,
    FolderDocument,
    Recognized,
    Tombstone,
    block_attributes,
    fingerprints,
    head_of,
    in_time,
    know,
    read,
    title_of,
    with_past,
)
from copydesk.notes.folder.index import (
    NotesIndex,
    Sidecar,
    SidecarChange,
    SidecarFile,
    Sidecars,
    splice_of,
)
from copydesk.notes.markdown import Profile, Tree, parse
from copydesk.notes.markdown.tree import undisturbed
from copydesk.notes.protocol import ANSWERS, BlockNotFound, valid
from copydesk.store.access import Rules
from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp
from copydesk.text import sizes
from copydesk.text.relpath import RelPath

_STEP_ROWS = 500
_LONG_WAY = 16
_CANDIDATES = 200
MOVED = 0.5
"""From this share of equal texts on, a document counts as a moved one."""

_STAYED = 0.2
"""Below this share of equal texts, a document may have moved to another file."""


def path_of(text: str) -> RelPath:
    """Parse a slash-separated path."""
    return RelPath(tuple(text.split("/")))


def texts_of(new: Sequence[Fingerprint]) -> set[str]:
    """The hashes of the texts in a document."""
    return {sign.hash for sign in new[1:] if sign.sketch}


def shared(sidecar: Sidecar, texts: set[str]) -> float:
    """The share of texts that two documents have in common, relative to the larger one."""
    old = {row.hash for row in sidecar.rows[1:] if row.sketch}
    most = max(len(old), len(texts))
    return len(old & texts) / most if most else 0.0


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_PLACES = [36**place for place in range(7)]


def _letters(seed: str) -> str:
    """Seven letters or digits derived from a seed."""
    data = seed.encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())
    return "".join([_ALPHABET[number // place % 36] for place in _PLACES])


_HELD = 32 << 20
"""The memory for parsed documents, in bytes (estimated); at least one document is kept."""

_COMPARED = 200
_LARGE = 1 << 18


class Card(NamedTuple):
    """What a list shows of a document; `title` is from the front matter, or empty."""

    id: str
    title: str
    attributes: Mapping[str, str]
    stamp: Stamp


Successor = Callable[[Stamp, str, bytes, tuple[Fingerprint, ...]], FolderDocument | None]


class DocumentCache:
    """The parsed documents of a folder and the ids of their blocks. Safe to use from many threads.

    `now` returns seconds since 1970. `learn_anchors` is called before a search for an unknown id.
    """

    def __init__(
        self,
        folder: Folder,
        sidecars: Sidecars,
        index: NotesIndex,
        profile: Profile,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.sidecars = sidecars
        self.index = index
        self.profile: Profile = profile
        self.lock = RLock()
        self._now = now
        self._orphans: set[str] = set()  # known documents that the last scan did not find
        self._held: dict[RelPath, FolderDocument] = {}
        self._size = 0
        self._glanced: tuple[str, Tree] | None = None
        self._scanned: Mapping[RelPath, Stamp] | None = None
        self._cards: dict[RelPath, Card] = {}
        self.learn_anchors: Callable[[str], None] = lambda block_id: None

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All current documents; within `one_look`, those of the first scan."""
        answers, key = ANSWERS.get(), (id(self), "scan", "")
        with self.lock:
            if answers is not None and key in answers and self._scanned is not None:
                return self._scanned
            self._scanned = scanned = self.folder.scan()
            self._sync(scanned)
            if answers is not None:
                answers[key] = True
            return scanned

    def scanned(self) -> Mapping[RelPath, Stamp]:
        """All documents that the last scan found."""
        with self.lock:
            return self._scanned if self._scanned is not None else self.scan()

    def look(self, path: RelPath) -> FolderDocument | None:
        """The current document; None if the file is missing, forbidden or not a document."""
        with self.lock:
            if self._scanned is None:
                self.scan()
            held = self._drop(path)
            stamp = self.folder.stamp(path)
            if stamp is None:
                return None
            if held is None or held.stamp != stamp or not held.stamp.settled:
                try:
                    found = self.folder.read(path, stamp)
                    if found is None:
                        return None
                    data, stamp = found
                    if held is not None and held.data == data:
                        held.stamp = stamp
                    else:
                        held = self._read(path, data, stamp)
                except NotRead:
                    return None
            self._hold(path, held)
            return held

    def glance(
        self, path: RelPath, digest: str, check: Callable[[], None] = lambda: None
    ) -> tuple[Stamp, str, Tree | None] | None:
        """The stamp, digest and tree of a document, without ids; None if there is none.

        The tree is None if the digest is the given one. Raises NotRead, and what `check` does,
        which is called now and then.
        """
        held = self._held.get(path)
        stamp = self.folder.stamp(path)
        found = self.folder.read(path, stamp) if stamp is not None else None
        if found is None:
            return None
        data, stamp = found
        if held is not None and held.data == data:
            return stamp, held.digest, None if held.digest == digest else held.tree
        now = hashlib.sha256(data).hexdigest()
        if now == digest:
            return stamp, now, None
        tree = self._parsed(data, stamp, check)
        if len(data) >= _LARGE:
            self._glanced = (now, tree)  # the next read uses it
        return stamp, now, tree

    def cards(self, stamps: Mapping[RelPath, Stamp]) -> dict[RelPath, Card]:
        """The ids and titles of documents, read without parsing blocks where possible."""
        with self.lock:
            if self._scanned is None:
                self.scan()
            return self.index.together(
                lambda: {
                    path: card
                    for path, stamp in stamps.items()
                    if (card := self._card(path, stamp)) is not None
                }
            )

    def card(self, path: RelPath) -> Card | None:
        """The card of one document."""
        stamp = self.folder.stamp(path)
        return self.cards({path: stamp}).get(path) if stamp is not None else None

    def _card(self, path: RelPath, stamp: Stamp) -> Card | None:
        known = self._cards.get(path)
        if known is not None and known.stamp == stamp and known.stamp.settled:
            return known
        try:
            found = self.folder.read(path, stamp)
        except NotRead:
            return None
        if found is None:
            return None
        data, stamp = found
        tree = parse(head_of(data), self.profile)
        digest = hashlib.sha256(data).hexdigest()
        block_id = ""
        if self.profile == "gfm":  # in the other one the last line may name the document
            block_id = self._first_id(path, digest, tree.root.anchor or "", stamp)
        if not block_id:
            document = self.look(path)
            if document is None:
                return None
            block_id, stamp, tree = document.id, document.stamp, document.tree
        attributes = block_attributes(tree, tree.root)
        made = self._cards[path] = Card(block_id, title_of(tree), attributes, stamp)
        return made

    def find(self, block_id: str) -> FolderDocument:
        """The document that contains the block; raises InvalidBlockId, BlockNotFound."""
        valid(block_id)
        with self.lock:
            for path in self._hints(block_id):
                document = self.look(path)
                if document is not None and block_id in document.index:
                    return document
            raise self._lost(block_id)

    def written(
        self,
        path: RelPath,
        digest: str,
        rows: tuple[Fingerprint, ...],
        successor: Successor | None = None,
    ) -> bool:
        """Whether the file has the planned text; `successor` may then build the document."""
        with self.lock:
            try:
                found = self.folder.files.read(path)
            except Refusal:
                return False
            if hashlib.sha256(found.data).hexdigest() != digest:
                return False
            held = self._held.get(path)
            if held is None or held.digest != digest or held.rows != rows:
                self._drop(path)
                if successor is not None:
                    with undisturbed(len(found.data)):
                        made = successor(found.stamp, digest, found.data, rows)
                        if made is not None:
                            self._hold(path, made)
            self._keep_written(path, digest, rows)
            return True

    def plan_ids(self, base: FolderDocument | None, path: RelPath, step: SidecarChange) -> None:
        """Save the ids of a text that is about to be written."""
        name = str(path)
        with self.sidecars.held():
            by_steps = base is not None and self._keep_short(name, base)
            self.sidecars.add(name, step, flush=by_steps)
        self.index.keep_ids(name, (row.id for each in step.splices for row in each.new))

    def _hold(self, path: RelPath, document: FolderDocument) -> None:
        self._held[path] = document
        self._size += document.weight
        while self._size > _HELD and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def _drop(self, path: RelPath) -> FolderDocument | None:
        held = self._held.pop(path, None)
        if held is not None:
            self._size -= held.weight
        return held

    def _parsed(self, data: bytes, stamp: Stamp, check: Callable[[], None] = lambda: None) -> Tree:
        """The blocks of a text; raises NotRead if they take too long, and what `check` does."""
        late = NotRead("TOO_SLOW", stamp)
        return read(data, self.profile, check=in_time(len(data), late, check))

    def _read(self, path: RelPath, data: bytes, stamp: Stamp) -> FolderDocument:
        digest = hashlib.sha256(data).hexdigest()
        with undisturbed(len(data)):
            told, tree = self._glanced or ("", None)
            self._glanced = None
            if tree is None or told != digest:
                tree = self._parsed(data, stamp)
            order = tuple(block for block in tree.root.walk() if block.kind != MATTER)
            rows = self._rows_of(path, digest, tree, stamp, len(order))
            document = FolderDocument(path, stamp, digest, data, tree, rows, order)
            # Compute the cached properties while the collector is paused.
            assert len(document.index) == len(document.number)
            return document

    def _hints(self, block_id: str) -> Iterator[RelPath]:
        """The documents that may contain the block, likeliest first."""
        for path, document in list(self._held.items()):
            if block_id in document.index:
                yield path
        where = self.index.where(block_id)
        if where is not None:
            yield path_of(where)
        scanned = self.scan()
        again = self.index.where(block_id)
        if again is not None and again != where:
            yield path_of(again)
        if again is None:
            self.learn_anchors(block_id)
            yield from map(path_of, self.index.anchored(block_id))
            return
        if again not in self._orphans:
            return
        unknown = [path for path in scanned if self.sidecars.digest(str(path)) is None]
        sidecar = self.sidecars.load(again)
        if sidecar is not None:
            yield from (path for path in unknown if self._has(path, sidecar.digest))
        yield from unknown

    def _elsewhere(self, sidecar: Sidecar) -> RelPath | None:
        """A file without a sidecar that has this sidecar's text, or much of it."""
        found = self.folder.scan()
        unknown = [path for path in found if self.sidecars.digest(str(path)) is None]
        for path in unknown:
            if self._has(path, sidecar.digest):
                return path
        for path in unknown[:_COMPARED]:
            try:
                seen = self.glance(path, "")
            except NotRead:
                continue
            tree = seen[2] if seen is not None else None
            if (
                tree is not None
                and shared(sidecar, texts_of(fingerprints(tree, tree.root))) >= MOVED
            ):
                return path
        return None

    def _has(self, path: RelPath, digest: str) -> bool:
        try:
            return self.folder.files.digest(path)[2] == digest
        except Refusal:
            return False

    def _sync(self, scanned: Mapping[RelPath, Stamp]) -> None:
        """Index the ids that other processes saved, and note which documents are gone."""
        known = self.index.sidecars()
        files = self.sidecars.files()

        def learn() -> None:
            for name, seen in sorted(files.items()):  # a document's rows before its steps
                if name in known and known[name][1] == seen:
                    continue
                path = self._learn(name, known)
                if path:
                    self.index.keep_sidecar(seen, path)
                    known[name] = (path, seen)
            self.index.drop_sidecars(known.keys() - files.keys())

        self.index.together(learn)
        rows = known.keys() & {name for name in files if name.endswith(".json")}
        paths = {known[name][0] for name in rows}
        self._orphans = paths - {str(path) for path in scanned}

    def _learn(self, name: str, known: Mapping[str, tuple[str, SidecarFile]]) -> str:
        """Index the ids in a sidecar or a file of steps; return the path of the document."""
        if name.endswith(".json"):
            sidecar = self.sidecars.load_file(name)
            if sidecar is None:
                return ""
            self.index.keep_ids(sidecar.path, (row.id for row in sidecar.rows))
            return sidecar.path
        path, _ = known.get(name.removesuffix(".steps") + ".json", ("", None))
        if path:
            for step in self.sidecars.steps(path):
                added = (row.id for each in step.splices for row in each.new)
                self.index.keep_ids(path, added)
        return path

    def _lost(self, block_id: str) -> BlockNotFound:
        """The refusal for a missing block, with what is known about it."""
        where = self.index.where(block_id)
        if where is None:
            return BlockNotFound(block_id)
        sidecar = self.sidecars.load(where)
        document = self.look(path_of(where))
        if document is None or sidecar is None:
            return BlockNotFound(block_id, lost=sidecar is not None)
        past = {each.id: each for each in with_past(sidecar.past, sidecar.rows, document.rows)}
        near = _near(block_id, past, document)
        return BlockNotFound(block_id, lost=True, nearest=near or document.id)

    def _rows_of(
        self, path: RelPath, digest: str, tree: Tree, stamp: Stamp, count: int
    ) -> tuple[Fingerprint, ...]:
        """The rows of a text with `count` blocks; new rows are saved."""
        name = str(path)
        found = self._fitting(name, self.sidecars.load(name), digest, count)
        if found is not None:
            return found
        new = fingerprints(tree, tree.root)
        with self.sidecars.held():
            sidecar = self.sidecars.load(name)
            found = self._fitting(name, sidecar, digest, count)  # another process saved them
            if found is not None:
                return found
            was = self._origin(name, digest, new, sidecar)
            listed = was is not None and len(was.rows) == 1  # its blocks were never read
            first = was is None or (listed and was.digest == digest)
            if was is not None and was is sidecar and not listed and self._moved_away(was, new):
                was = sidecar = None
                first = True
            rows, past = (was.rows, was.past) if was is not None else ((), ())
            if was is not None and was.digest == digest and len(was.rows) == count:
                known = Recognized(was.rows, was.past)
            else:
                fresh = self._id_maker(name, digest, stamp if first else None, len(new))
                known = know(rows, new, past, fresh, lambda one: self._taken(one, name))
            if sidecar is not None and was is not sidecar:
                past = (*with_past(sidecar.past, sidecar.rows, known.rows), *known.past)
                known = Recognized(known.rows, past)
            if was is not None and was.path != name:
                self.sidecars.rename(was.path, name)
            self._save(Sidecar(name, digest, known.rows, known.past), first=first)
            if was is not None:
                splice = splice_of(0, was.rows, known.rows)
                if was.digest != digest and len(splice.old) + len(splice.new) <= _STEP_ROWS:
                    self.sidecars.add(name, SidecarChange(was.digest, digest, (splice,)))
                if was.path != name:
                    self.sidecars.drop(was.path)
                    self._orphans.discard(was.path)
        return known.rows

    def _first_id(self, path: RelPath, digest: str, anchor: str, stamp: Stamp) -> str:
        """The id of a document, created if missing; empty if the blocks are needed to find it."""
        name = str(path)
        for _ in range(2):
            known = self.sidecars.head(name)
            if known is not None:
                there, row = known
                return row.id if (there, row.anchor) == (digest, anchor) else ""
            if self._orphans:  # it may be one of these under another name
                return ""
            with self.sidecars.held():
                if self.sidecars.head(name) is None:
                    row = Fingerprint(0, "", DOCUMENT, "", "", anchor)
                    fresh = self._id_maker(name, digest, stamp, 1)
                    rows = know((), (row,), (), fresh, lambda one: self._taken(one, name)).rows
                    self._save(Sidecar(name, digest, rows), first=True)
                    return rows[0].id
        return ""

    def _keep_written(self, path: RelPath, digest: str, rows: Sequence[Fingerprint]) -> None:
        """Record that a planned text has been written."""
        name = str(path)
        with self.sidecars.held():
            if self.sidecars.digest(name) is None:
                self._save(Sidecar(name, digest, tuple(rows)))

    def _fitting(
        self, name: str, sidecar: Sidecar | None, digest: str, count: int
    ) -> tuple[Fingerprint, ...] | None:
        """The saved rows of the text with this digest; None if they are not known."""
        sidecar = sidecar or Sidecar(name, "", ())  # the file was just created
        rows: tuple[Fingerprint, ...] | None = sidecar.rows
        if sidecar.digest != digest:
            way = self.sidecars.way(name, sidecar.digest, digest)
            rows = rows if way else None
            for step in way:
                rows = step.take(rows) if rows is not None else None
        if rows is None or len(rows) != count or len({row.id for row in rows}) != count:
            return None
        return rows

    def _save(self, sidecar: Sidecar, *, first: bool = False) -> None:
        """Save a sidecar, under the lock. `first`: its ids can be generated again."""
        seen = self.sidecars.save(sidecar, flush=not first)
        self.index.keep_ids(sidecar.path, [row.id for row in sidecar.rows])
        self.index.keep_sidecar(seen, sidecar.path)

    def _keep_short(self, name: str, base: FolderDocument) -> bool:
        """Whether steps lead from the sidecar to this text; many or none: it is saved anew."""
        digest = self.sidecars.digest(name)
        if digest == base.digest:
            return False
        if 0 < len(self.sidecars.way(name, digest or "", base.digest)) < _LONG_WAY:
            return True
        sidecar = self.sidecars.load(name)
        past = with_past(sidecar.past, sidecar.rows, base.rows) if sidecar else ()
        self._save(Sidecar(name, base.digest, base.rows, past))
        return False

    def _moved_away(self, own: Sidecar, new: Sequence[Fingerprint]) -> bool:
        """Whether the document has moved to another file; if so, that file gets its ids."""
        texts = texts_of(new)
        if not texts or shared(own, texts) >= _STAYED:
            return False
        path = self._elsewhere(own)
        if path is None:
            return False
        self.sidecars.rename(own.path, str(path))
        self._save(Sidecar(str(path), own.digest, own.rows, own.past))
        self.sidecars.drop(own.path)
        return True

    def _origin(
        self, name: str, digest: str, new: Sequence[Fingerprint], own: Sidecar | None
    ) -> Sidecar | None:
        """The sidecar that matches the document: its own, or that of a missing file."""
        if own is not None and own.digest == digest:
            return own
        texts = texts_of(new)
        best, most = own, shared(own, texts) if own is not None else 0.0
        if most >= MOVED or not (texts or new[0].anchor):
            return own
        for other in sorted(self._orphans)[:_CANDIDATES]:
            if other == name or not self.folder.gone(path_of(other)):
                continue
            sidecar = self.sidecars.load(other)
            if sidecar is None:
                continue
            if sidecar.digest == digest:
                return sidecar
            anchor = new[0].anchor
            if anchor and anchor in (sidecar.rows[0].id, sidecar.rows[0].anchor):
                return sidecar
            share = shared(sidecar, texts)
            if share >= MOVED and share > most:
                best, most = sidecar, share
        return best

    def _id_maker(
        self, name: str, digest: str, stamp: Stamp | None, count: int
    ) -> Callable[[int], str]:
        """A generator of ids; with a `stamp`, every machine generates the same ones."""
        seconds = self._now() if stamp is None else stamp.mtime_ns / 1e9
        date = time.strftime("%Y%m%d%H%M%S", time.gmtime(max(seconds, 0)))

        def candidate(at: int, number: int) -> str:
            return f"{date}-{_letters(f'{name}:{digest}:{at}:{number}')}"

        first = [candidate(at, 0) for at in range(count)]
        others = self.index.of_others(name, first)
        tried = [0] * count

        def made(at: int) -> str:
            tried[at] += 1
            if tried[at] == 1 and first[at] not in others:
                return first[at]
            block_id = candidate(at, tried[at])
            return made(at) if self.index.of_others(name, [block_id]) else block_id

        return made

    def _taken(self, block_id: str, name: str) -> bool:
        """Whether the id belongs to a block of another document that still exists."""
        where = self.index.where(block_id)
        return where is not None and where != name and not self.folder.gone(path_of(where))


def _near(block_id: str, past: Mapping[str, Tombstone], document: FolderDocument) -> str:
    """The nearest existing block to a deleted one."""
    tried: set[str] = set()
    while block_id in past and block_id not in tried:
        tried.add(block_id)
        block_id = past[block_id].near
        if block_id in document.index:
            return block_id
    return ""


ENDINGS = (".md", ".markdown")

_DEEPEST = 100

_WIDE = (b"\xff\xfe", b"\xfe\xff")


class NotRead(Exception):
    """A Markdown file that cannot be read.

    `reason`: UTF-16, NUL, TOO_LARGE, TOO_SLOW or UNREADABLE.
    """

    def __init__(self, reason: str, stamp: Stamp) -> None:
        super().__init__(reason)
        self.reason, self.stamp = reason, stamp


@dataclass(frozen=True, slots=True)
class Folder:
    """A notebook folder as one member sees it, without the files that `ignored` leaves out."""

    files: Files
    root: RelPath
    rules: Rules
    ignored: GitIgnore

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All documents with their stamps, sorted by path."""
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
        """The stamp of a document; None for any other file, or one that may not be read."""
        if not self.root.covers(path) or not is_document(path) or self._hidden(path):
            return None
        return None if self.ignored.leaves_out(path, self.root) else self._stamp(path)

    def read(self, path: RelPath, stamp: Stamp) -> tuple[bytes, Stamp] | None:
        """The bytes of a document and their stamp; None if missing or forbidden. Raises NotRead."""
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
        """The parent document; None at the top, or if the folder has no document."""
        above = path.parent
        if above == self.root or not self.root.covers(above):
            return None
        for ending in ENDINGS:
            beside = RelPath((*above.parts[:-1], above.name + ending))
            if self.stamp(beside) is not None:
                return beside
        return None

    def below(self, path: RelPath) -> RelPath:
        """The folder for the documents below this one."""
        return RelPath((*path.parts[:-1], stem(path)))

    def names(self, path: RelPath) -> frozenset[str]:
        """The case-folded names in a folder; empty if it is missing."""
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
        """Scan the target of a link unless the notebook contains it anyway."""
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
    """Whether the name is that of a document."""
    return path.name.lower().endswith(ENDINGS) and bool(stem(path))


def stem(path: RelPath) -> str:
    """The name without its extension."""
    name = path.name
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name
