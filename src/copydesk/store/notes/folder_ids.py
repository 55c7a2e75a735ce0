"""The ids of the blocks of a text: those they had, or new ones.

What lives here: from what is kept of a document to the rows of its text as it is
now. What must not: the notebook's files. Invariants: the ids of one text are
always the same; an id is never given to two blocks; what is given is kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from copydesk.store.notes.folder_cache import Cache
from copydesk.store.notes.folder_document import Document, plain_ids
from copydesk.store.notes.folder_match import Known, know, with_past
from copydesk.store.notes.folder_scan import Folder
from copydesk.store.notes.folder_sidecar import Sidecar, Sidecars, Step, rows_as_step
from copydesk.store.notes.folder_tree import Row, Signs, signs
from copydesk.store.stamp import Stamp
from copydesk.text.markdown import Tree
from copydesk.text.relpath import RelPath

_MOST_PLANNED = 32
_STEP_ROWS = 500
_FEW_ROWS = 5000
_LONG_WAY = 16
_CANDIDATES = 200
MOVED = 0.5
"""So much of a document's texts must be those of another one that it was."""

_STAYED = 0.2
"""With less of its texts a document may have become another file."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """The rows that a text of a document will have."""

    digest: str
    rows: tuple[Row, ...]


class Ids:
    """Used by one thread at a time. `now` gives seconds since 1970.

    `elsewhere` gives the file, of those that nothing is known of, that is what a
    document was. `orphans` are the paths of documents that are known and were not there when
    it was looked last.
    """

    def __init__(
        self, folder: Folder, sidecars: Sidecars, cache: Cache, now: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._sidecars = sidecars
        self._cache = cache
        self._now = now
        self._planned: dict[str, _Planned] = {}
        self.orphans: set[str] = set()
        self.elsewhere: Callable[[Sidecar], RelPath | None] = _nowhere

    def of(
        self, path: RelPath, digest: str, tree: Tree, stamp: Stamp, count: int
    ) -> tuple[Row, ...]:
        """The rows of a text with so many blocks; they are kept, if they were not yet."""
        name = str(path)
        planned = self._planned.get(name)
        if planned is not None and planned.digest == digest and len(planned.rows) == count:
            return planned.rows
        found = self._fitting(name, self._sidecars.load(name), digest, count)
        if found is not None:
            return found
        new = signs(tree, tree.root)
        with self._sidecars.held():
            sidecar = self._sidecars.load(name)
            found = self._fitting(name, sidecar, digest, count)  # another process was here
            if found is not None:
                return found
            was = self._was(name, digest, new, sidecar)
            if was is not None and was is sidecar and self._went(was, new):
                was = sidecar = None
            rows, past = (was.rows, was.past) if was is not None else ((), ())
            if was is not None and was.digest == digest and len(was.rows) == count:
                known = Known(was.rows, was.past)
            else:
                fresh = self._fresh(name, digest, stamp if was is None else None, len(new))
                known = know(rows, new, past, fresh, lambda one: self._taken(one, name))
            if sidecar is not None and was is not sidecar:
                past = (*with_past(sidecar.past, sidecar.rows, known.rows), *known.past)
                known = Known(known.rows, past)
            if was is not None and was.path != name:
                self._sidecars.rename(was.path, name)
            self._save(Sidecar(name, digest, known.rows, known.past), first=was is None)
            if was is not None:
                step = rows_as_step(was.digest, was.rows, digest, known.rows, _STEP_ROWS)
                if step is not None and was.digest != digest:
                    self._sidecars.add(name, step)
                if was.path != name:
                    self._sidecars.drop(was.path)
                    self.orphans.discard(was.path)
        return known.rows

    def plan(self, base: Document | None, path: RelPath, step: Step, rows: Sequence[Row]) -> None:
        """Remember which ids a text will have that is about to be written."""
        name = str(path)
        with self._sidecars.held():
            if base is not None:
                self._keep_short(name, base)
            self._sidecars.add(name, step)
        self._plan(name, step.after, tuple(rows))
        self._cache.keep_ids(name, (row.id for each in step.splices for row in each.new))

    def made(self, path: RelPath, digest: str, rows: Sequence[Row]) -> None:
        """A text that was planned is there."""
        name = str(path)
        self._plan(name, digest, tuple(rows))
        with self._sidecars.held():
            if self._sidecars.digest(name) is None:
                self._save(Sidecar(name, digest, tuple(rows)))

    def _plan(self, name: str, digest: str, rows: tuple[Row, ...]) -> None:
        self._planned.pop(name, None)
        self._planned[name] = _Planned(digest, rows)
        if len(self._planned) > _MOST_PLANNED:
            self._planned.pop(next(iter(self._planned)))

    def _fitting(
        self, name: str, sidecar: Sidecar | None, digest: str, count: int
    ) -> tuple[Row, ...] | None:
        """The rows of a text that is known; None for one that is not."""
        sidecar = sidecar or Sidecar(name, "", ())  # of a file that was just made
        rows: tuple[Row, ...] | None = sidecar.rows
        if sidecar.digest != digest:
            way = self._sidecars.way(name, sidecar.digest, digest)
            rows = rows if way else None
            for step in way:
                rows = step.take(rows) if rows is not None else None
        if rows is None or len(rows) != count or len({row.id for row in rows}) != count:
            return None
        return rows

    def _save(self, sidecar: Sidecar, *, first: bool = False) -> None:
        """Keep a sidecar; the turn is held. `first`: its ids would be made again as they are."""
        seen = self._sidecars.save(sidecar, flush=not first)
        self._cache.keep_ids(sidecar.path, plain_ids(sidecar.rows))
        self._cache.keep_sidecar(seen, sidecar.path)

    def _keep_short(self, name: str, base: Document) -> None:
        """See that the sidecar is not many steps behind; the turn is held."""
        digest = self._sidecars.digest(name)
        if digest == base.digest:
            return
        way = self._sidecars.way(name, digest or "", base.digest)
        if len(base.rows) <= _FEW_ROWS or len(way) >= _LONG_WAY or not way:
            sidecar = self._sidecars.load(name)
            if sidecar is None:
                self._save(Sidecar(name, base.digest, base.rows))
            else:
                past = with_past(sidecar.past, sidecar.rows, base.rows)
                self._save(Sidecar(name, base.digest, base.rows, past))

    def _went(self, own: Sidecar, new: Sequence[Signs]) -> bool:
        """Whether what a document was is another file now; then that one has its ids."""
        texts = texts_of(new)
        if not texts or shared(own, texts) >= _STAYED:
            return False
        path = self.elsewhere(own)
        if path is None:
            return False
        self._sidecars.rename(own.path, str(path))
        self._save(Sidecar(str(path), own.digest, own.rows, own.past))
        self._sidecars.drop(own.path)
        return True

    def _was(
        self, name: str, digest: str, new: Sequence[Signs], own: Sidecar | None
    ) -> Sidecar | None:
        """What the document was: by its own sidecar, or by one of a file that is gone."""
        texts = texts_of(new)
        best, most = own, shared(own, texts) if own is not None else 0.0
        if most >= MOVED or not (texts or new[0].anchor):
            return own
        for other in sorted(self.orphans)[:_CANDIDATES]:
            if other == name or not self._folder.gone(path_of(other)):
                continue
            sidecar = self._sidecars.load(other)
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

    def _fresh(
        self, name: str, digest: str, stamp: Stamp | None, count: int
    ) -> Callable[[int], str]:
        """Makes ids; at first sight (`stamp`) those that any other machine would make."""
        seconds = self._now() if stamp is None else stamp.mtime_ns / 1e9
        date = time.strftime("%Y%m%d%H%M%S", time.gmtime(max(seconds, 0)))

        def candidate(at: int, number: int) -> str:
            return f"{date}-{_letters(f'{name}:{digest}:{at}:{number}')}"

        first = [candidate(at, 0) for at in range(count)]
        others = self._cache.of_others(name, first)
        tried = [0] * count

        def made(at: int) -> str:
            tried[at] += 1
            if tried[at] == 1 and first[at] not in others:
                return first[at]
            block_id = candidate(at, tried[at])
            return made(at) if self._cache.of_others(name, [block_id]) else block_id

        return made

    def _taken(self, block_id: str, name: str) -> bool:
        """Whether a block of another document that is still there has the id."""
        where = self._cache.where(block_id)
        return where is not None and where != name and not self._folder.gone(path_of(where))


def path_of(text: str) -> RelPath:
    """The path that is spelled so."""
    return RelPath(tuple(text.split("/")))


def _nowhere(sidecar: Sidecar) -> RelPath | None:
    """There are no other files."""
    return None


def texts_of(new: Sequence[Signs]) -> set[str]:
    """The hashes of the texts in a document."""
    return {sign.hash for sign in new[1:] if sign.sketch}


def shared(sidecar: Sidecar, texts: set[str]) -> float:
    """How much of the texts of two documents is the same, of the one that has more."""
    old = {row.hash for row in sidecar.rows[1:] if row.sketch}
    most = max(len(old), len(texts))
    return len(old & texts) / most if most else 0.0


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def _letters(seed: str) -> str:
    """Seven letters or digits that a seed stands for."""
    data = seed.encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())
    found = ""
    for _ in range(7):
        number, digit = divmod(number, 36)
        found += _ALPHABET[digit]
    return found
