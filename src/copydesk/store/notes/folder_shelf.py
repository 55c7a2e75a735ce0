"""The documents of a folder, read when they are looked at, with ids that stay.

What lives here: from a path to a document, from an id to the document that has
it. What must not: changes. Invariants: the notebook's files are only read; what
is given out is the text that stands there, and its ids are in the sidecar.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock

from copydesk.errors import Refusal
from copydesk.store.notes.block_id import valid
from copydesk.store.notes.errors import BlockNotFound
from copydesk.store.notes.folder_cache import Cache
from copydesk.store.notes.folder_document import Document, plain_ids
from copydesk.store.notes.folder_ids import MOVED, Ids, path_of, shared, texts_of
from copydesk.store.notes.folder_match import Past, with_past
from copydesk.store.notes.folder_scan import Folder
from copydesk.store.notes.folder_sidecar import Seen, Sidecar, Sidecars, is_rows, rows_beside
from copydesk.store.notes.folder_tree import MATTER, Row, read, signs, undisturbed
from copydesk.store.stamp import Stamp
from copydesk.text.markdown import Profile, Tree
from copydesk.text.relpath import RelPath

_HELD_BYTES = 24 << 20
"""So many bytes of text are kept parsed, and one document at least."""

_COMPARED = 200
_LARGE = 1 << 18
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class Shelf:
    """Safe to use from many threads. `now` gives seconds since 1970.

    `learn_anchors` is called before it is said that nobody knows an id.
    """

    def __init__(
        self,
        folder: Folder,
        sidecars: Sidecars,
        cache: Cache,
        profile: Profile,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.sidecars = sidecars
        self.cache = cache
        self.profile: Profile = profile
        self.lock = RLock()
        self.ids = Ids(folder, sidecars, cache, now)
        self.ids.elsewhere = self._elsewhere
        self._held: dict[RelPath, Document] = {}
        self._size = 0
        self._glanced: tuple[str, Tree] | None = None
        self._scanned: Mapping[RelPath, Stamp] | None = None
        self.learn_anchors: Callable[[], None] = _nothing

    def scan(self) -> Mapping[RelPath, Stamp]:
        """All documents as they are now."""
        with self.lock:
            self._scanned = scanned = self.folder.scan()
            self._sync(scanned)
            return scanned

    def look(self, path: RelPath) -> Document | None:
        """The document as it is now; None when it is none, or may not be read.

        Raises what reading a file raises: FileTooLarge, Failed.
        """
        with self.lock:
            if self._scanned is None:
                self.scan()
            held = self._drop(path)
            stamp = self.folder.stamp(path)
            if stamp is None:
                return None
            if held is None or held.stamp != stamp or not held.stamp.settled:
                found = self.folder.files.read(path)
                if not self.folder.rules.allows_read(found.real) or found.data[:2] in _WIDE:
                    return None
                if held is not None and held.data == found.data:
                    held.stamp = found.stamp
                else:
                    held = self._read(path, found.data, found.stamp)
            self._held[path] = held
            self._size += len(held.data)
            self._let_go()
            return held

    def try_look(self, path: RelPath) -> Document | None:
        """The same, and None too for one that cannot be read."""
        try:
            return self.look(path)
        except Refusal:
            return None

    def glance(self, path: RelPath, digest: str) -> tuple[Stamp, str, Tree | None] | None:
        """The stamp, the digest and the blocks of a document, without ids; None when it is none.

        Without the blocks when the digest is the given one.
        """
        held = self._held.get(path)
        try:
            if self.folder.stamp(path) is None:
                return None
            found = self.folder.files.read(path)
        except Refusal:
            return None
        if not self.folder.rules.allows_read(found.real) or found.data[:2] in _WIDE:
            return None
        if held is not None and held.data == found.data:
            return found.stamp, held.digest, None if held.digest == digest else held.tree
        now = hashlib.sha256(found.data).hexdigest()
        if now == digest:
            return found.stamp, now, None
        tree = read(found.data, self.profile)
        if len(found.data) >= _LARGE:
            self._glanced = (now, tree)  # it will be looked at again
        return found.stamp, now, tree

    def find(self, block_id: str) -> Document:
        """The document that has the block; InvalidBlockId, BlockNotFound."""
        valid(block_id)
        with self.lock:
            for path in self._hints(block_id):
                document = self.try_look(path)
                if document is not None and block_id in document.index:
                    return document
            raise self._lost(block_id)

    def written(self, path: RelPath, digest: str, rows: Sequence[Row]) -> bool:
        """Whether the document has the text that was planned; its rows are then those planned."""
        with self.lock:
            try:
                data = self.folder.files.read(path).data
            except Refusal:
                return False
            if hashlib.sha256(data).hexdigest() != digest:
                return False
            held = self._held.get(path)
            if held is not None and (held.digest != digest or held.rows != tuple(rows)):
                self._drop(path)
            self.ids.made(path, digest, rows)
            return True

    def _let_go(self) -> None:
        while self._size > _HELD_BYTES and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def _drop(self, path: RelPath) -> Document | None:
        """Let go of a document that is held parsed, if it is."""
        held = self._held.pop(path, None)
        if held is not None:
            self._size -= len(held.data)
        return held

    def _read(self, path: RelPath, data: bytes, stamp: Stamp) -> Document:
        digest = hashlib.sha256(data).hexdigest()
        with undisturbed(len(data)):
            told, tree = self._glanced or ("", None)
            self._glanced = None
            if tree is None or told != digest:
                tree = read(data, self.profile)
            order = tuple(block for block in tree.root.walk() if block.kind != MATTER)
            rows = self.ids.of(path, digest, tree, stamp, len(order))
            document = Document(path, stamp, digest, data, tree, rows, order)
            assert len(document.index) == len(document.number)  # made now, not when it is asked for
            return document

    def _hints(self, block_id: str) -> Iterator[RelPath]:
        """Where the block may be, the likeliest first."""
        for path, document in list(self._held.items()):
            if block_id in document.index:
                yield path
        where = self.cache.where(block_id)
        if where is not None:
            yield path_of(where)
        scanned = self.scan()
        again = self.cache.where(block_id)
        if again is not None and again != where:
            yield path_of(again)
        if again is None:
            self.learn_anchors()
            yield from map(path_of, self.cache.anchored(block_id))
            return
        if again not in self.ids.orphans:
            return
        unknown = [path for path in scanned if self.sidecars.digest(str(path)) is None]
        sidecar = self.sidecars.load(again)
        if sidecar is not None:
            yield from (path for path in unknown if self._has(path, sidecar.digest))
        yield from unknown

    def _elsewhere(self, sidecar: Sidecar) -> RelPath | None:
        """The file that nothing is known of and that is, or is much like, what this one is of."""
        found = self.folder.scan()
        unknown = [path for path in found if self.sidecars.digest(str(path)) is None]
        for path in unknown:
            if self._has(path, sidecar.digest):
                return path
        for path in unknown[:_COMPARED]:
            seen = self.glance(path, "")
            tree = seen[2] if seen is not None else None
            if tree is not None and shared(sidecar, texts_of(signs(tree, tree.root))) >= MOVED:
                return path
        return None

    def _has(self, path: RelPath, digest: str) -> bool:
        try:
            return self.folder.files.digest(path)[2] == digest
        except Refusal:
            return False

    def _sync(self, scanned: Mapping[RelPath, Stamp]) -> None:
        """Learn what other processes have kept, and which documents are gone."""
        known = self.cache.sidecars()
        files = self.sidecars.files()

        def learn() -> None:
            for name, seen in sorted(files.items()):  # the rows of a document before its steps
                if name in known and known[name][1] == seen:
                    continue
                path = self._learn(name, known)
                if path:
                    self.cache.keep_sidecar(seen, path)
                    known[name] = (path, seen)
            self.cache.drop_sidecars(known.keys() - files.keys())

        self.cache.together(learn)
        there = {str(path) for path in scanned}
        paths = {path for name, (path, _) in known.items() if name in files and is_rows(name)}
        self.ids.orphans = paths - there

    def _learn(self, name: str, known: Mapping[str, tuple[str, Seen]]) -> str:
        """Learn the ids in a sidecar, or in the steps beside one; the path of the document."""
        if is_rows(name):
            sidecar = self.sidecars.load_file(name)
            if sidecar is None:
                return ""
            self.cache.keep_ids(sidecar.path, plain_ids(sidecar.rows))
            return sidecar.path
        path, _ = known.get(rows_beside(name), ("", None))
        if path:
            for step in self.sidecars.steps(path):
                added = (row.id for each in step.splices for row in each.new)
                self.cache.keep_ids(path, added)
        return path

    def _lost(self, block_id: str) -> BlockNotFound:
        """What is known of a block that is not there."""
        where = self.cache.where(block_id)
        if where is None:
            return BlockNotFound(block_id)
        sidecar = self.sidecars.load(where)
        document = self.try_look(path_of(where))
        if document is None or sidecar is None:
            return BlockNotFound(block_id, lost=sidecar is not None)
        past = {each.id: each for each in with_past(sidecar.past, sidecar.rows, document.rows)}
        near = _near(block_id, past, document)
        return BlockNotFound(block_id, lost=True, nearest=near or document.id)


def _nothing() -> None:
    """Nobody knows of anchors."""


def _near(block_id: str, past: Mapping[str, Past], document: Document) -> str:
    """The block that is there now next to where one was."""
    tried: set[str] = set()
    while block_id in past and block_id not in tried:
        tried.add(block_id)
        block_id = past[block_id].near
        if block_id in document.index:
            return block_id
    return ""
