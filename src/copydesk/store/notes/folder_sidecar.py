"""Sidecars: the ids of a notebook's blocks, in one file per document in the state folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from copydesk.errors import Failed
from copydesk.store.locks import FileLocks
from copydesk.store.notes.folder_blocks import HASH_DIGITS, Fingerprint, likeness
from copydesk.store.notes.protocol import InvalidBlockId, is_id, valid
from copydesk.store.state import StateFolder
from copydesk.text.diff import align
from copydesk.text.markdown.block import HOLDS

_LIKE = 0.5
_LIKE_IN_PLACE = 0.25
_COMPARED = 40_000
"""The most pairs of texts that are compared in one container."""

MOST_PAST = 1000


class Tombstone(NamedTuple):
    """A former text of an id. `near` is the block that was beside it, if the id is gone."""

    id: str
    kind: str
    hash: str
    near: str


@dataclass(frozen=True, slots=True)
class Recognized:
    """The rows of the new text, and the tombstones."""

    rows: tuple[Fingerprint, ...]
    past: tuple[Tombstone, ...]


def know(
    old: Sequence[Fingerprint],
    new: Sequence[Fingerprint],
    past: Sequence[Tombstone],
    fresh: Callable[[int], str],
    taken: Callable[[str], bool],
) -> Recognized:
    """Give new blocks the ids of the old ones they are; `fresh` makes ids, `taken` tests them."""
    matching = _Matching(old, new)
    matching.run()
    ids = matching.ids(past, taken)
    used = {block_id for block_id in ids if block_id}
    for at, block_id in enumerate(ids):
        if not block_id:
            made = fresh(at)
            while made in used:
                made = fresh(at)
            ids[at] = made
            used.add(made)
    rows = tuple(sign.row(block_id) for sign, block_id in zip(new, ids, strict=True))
    return Recognized(rows, with_past(past, old, rows))


def with_past(
    past: Sequence[Tombstone], old: Sequence[Fingerprint], new: Sequence[Fingerprint]
) -> tuple[Tombstone, ...]:
    """The tombstones, with all texts of the old rows that the new ones do not have."""
    now = {row.id: row for row in new}
    gone: list[Tombstone] = []
    parents: list[str] = []
    before: list[str] = []  # at each depth the last sibling that is still there
    for row in old:
        del parents[row.depth :], before[row.depth + 1 :]
        while len(before) <= row.depth:
            before.append("")
        here = now.get(row.id)
        if here is None:
            near = before[row.depth] or next((one for one in reversed(parents) if one in now), "")
            gone.append(Tombstone(row.id, row.kind, row.hash, near))
        else:
            before[row.depth] = row.id
            if (here.kind, here.hash) != (row.kind, row.hash):
                gone.append(Tombstone(row.id, row.kind, row.hash, ""))
        parents.append(row.id)
    return (*past, *gone)[-MOST_PAST:] if gone else tuple(past)


@dataclass(slots=True)
class _Side:
    """Rows as a tree: by index the children and the parent."""

    rows: Sequence[Fingerprint]
    children: list[list[int]] = field(default_factory=list[list[int]])
    parent: list[int] = field(default_factory=list[int])
    stops: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        path: list[int] = []
        for at, row in enumerate(self.rows):
            while len(path) > row.depth:
                self.stops[path.pop()] = at
            self.children.append([])
            self.parent.append(path[-1] if path else -1)
            self.stops.append(0)
            if path:
                self.children[path[-1]].append(at)
            path.append(at)
        for at in path:
            self.stops[at] = len(self.rows)

    def key(self, at: int) -> tuple[str, str]:
        row = self.rows[at]
        return row.kind, row.hash

    def leaves(self, at: int) -> set[str]:
        """The texts below a block."""
        below = self.rows[at + 1 : self.stops[at]]
        return {row.hash for row in below if row.kind not in HOLDS}


class _Matching:
    def __init__(self, old: Sequence[Fingerprint], new: Sequence[Fingerprint]) -> None:
        self._old, self._new = _Side(old), _Side(new)
        self._old_rows, self._new_rows = old, new
        self._old_of: dict[int, int] = {}
        self._new_of: dict[int, int] = {}
        self._pairs: list[tuple[int, int]] = []

    def run(self) -> None:
        if not self._old_rows or not self._new_rows:
            return
        self._anchors()
        self._pair(0, 0)
        waiting = [(0, 0)]
        while waiting:
            old, new = waiting.pop()
            self._pairs.append((old, new))
            self._equal(self._free_old(old), self._free_new(new))
            self._containers(old, new)
            for child in self._new.children[new]:
                partner = self._old_of.get(child)
                if partner is not None and self._new_rows[child].kind in HOLDS:
                    waiting.append((partner, child))
        self._moved(range(len(self._old_rows)), range(len(self._new_rows)))

    def ids(self, past: Sequence[Tombstone], taken: Callable[[str], bool]) -> list[str]:
        """The id of each new block; empty where one has to be generated."""
        alive = {row.id for at, row in enumerate(self._old_rows) if at in self._new_of}
        ids = [
            self._old_rows[self._old_of[at]].id if at in self._old_of else ""
            for at in range(len(self._new_rows))
        ]
        lost: dict[tuple[str, str], list[str]] = defaultdict(list)
        for each in past:
            if each.id not in alive:
                lost[each.kind, each.hash].append(each.id)
        index = {row.id: at for at, row in enumerate(self._old_rows)}
        for at, sign in enumerate(self._new_rows):
            if is_id(sign.anchor) and sign.anchor not in alive and not taken(sign.anchor):
                ids[at] = sign.anchor  # an anchor in the text wins
                alive.add(sign.anchor)
            if ids[at]:
                continue
            for block_id in reversed(lost.get((sign.kind, sign.hash), ())):
                if block_id not in alive:
                    ids[at] = block_id
                    alive.add(block_id)
                    if block_id in index:
                        self._pair(index[block_id], at)
                    break
        self._like(ids, alive)
        return ids

    def _pair(self, old: int, new: int) -> None:
        if old not in self._new_of and new not in self._old_of:
            self._new_of[old], self._old_of[new] = new, old

    def _whole(self, old: int, new: int) -> None:
        """Pair two equal blocks, and all that is in them."""
        size = self._old.stops[old] - old
        if size == self._new.stops[new] - new:
            for offset in range(size):
                self._pair(old + offset, new + offset)
        else:
            self._pair(old, new)

    def _anchors(self) -> None:
        named: dict[str, int] = {}
        for at, row in enumerate(self._old_rows):
            named.setdefault(row.id, at)
            if row.anchor:
                named.setdefault(row.anchor, at)
        for at, sign in enumerate(self._new_rows):
            if sign.anchor in named and (at == 0) == (named[sign.anchor] == 0):
                self._pair(named[sign.anchor], at)

    def _free_old(self, parent: int) -> list[int]:
        return [at for at in self._old.children[parent] if at not in self._new_of]

    def _free_new(self, parent: int) -> list[int]:
        return [at for at in self._new.children[parent] if at not in self._old_of]

    def _equal(self, old: list[int], new: list[int]) -> None:
        """Pair equal blocks of one container: those in order, then those that moved."""
        for run in align([*map(self._old.key, old)], [*map(self._new.key, new)]).runs:
            for at in range(run.length):
                self._whole(old[run.base_start + at], new[run.now_start + at])
        self._moved(old, new)

    def _moved(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Pair equal blocks wherever they are, the first with the first."""
        waiting: dict[tuple[str, str], list[int]] = defaultdict(list)
        for at in reversed(old):
            if at not in self._new_of:
                waiting[self._old.key(at)].append(at)
        if not waiting:
            return
        for at in new:
            if at not in self._old_of and (free := waiting.get(self._new.key(at))):
                while free and free[-1] in self._new_of:
                    free.pop()
                if free:
                    self._whole(free.pop(), at)

    def _containers(self, old: int, new: int) -> None:
        """Pair containers with some equal texts, or similar ones."""
        mine = [at for at in self._free_old(old) if self._old_rows[at].kind in HOLDS]
        theirs = [at for at in self._free_new(new) if self._new_rows[at].kind in HOLDS]
        old_texts = {at: self._old.leaves(at) for at in mine}
        new_texts = {at: self._new.leaves(at) for at in theirs}

        def score(one: int, other: int) -> float:
            if self._old_rows[one].kind != self._new_rows[other].kind:
                return 0.0
            had, has = old_texts[one], new_texts[other]
            return max(len(had & has) / (min(len(had), len(has)) or 1), self._likeness(one, other))

        for one, other in self._likely(mine, theirs, score):
            self._pair(one, other)

    def _likely(
        self, mine: list[int], theirs: list[int], score: Callable[[int, int], float]
    ) -> Iterator[tuple[int, int]]:
        """The pairs that are similar enough, the most similar first."""
        scores: list[tuple[float, int, int]] = []
        if len(mine) * len(theirs) <= _COMPARED:
            for one, other in product(mine, theirs):
                found = score(one, other)
                if found >= (_LIKE_IN_PLACE if self._in_place(one, other) else _LIKE):
                    scores.append((-found, one, other))
        return ((one, other) for _, one, other in sorted(scores))

    def _likeness(self, one: int, other: int) -> float:
        return likeness(self._old_rows[one].sketch, self._new_rows[other].sketch)

    def _in_place(self, one: int, other: int) -> bool:
        """Whether two blocks have the same previous or next block."""
        mine = self._old.children[self._old.parent[one]]
        theirs = self._new.children[self._new.parent[other]]
        at, place = bisect_left(mine, one), bisect_left(theirs, other)
        if at == 0 or place == 0:
            before = at == place
        else:
            before = self._new_of.get(mine[at - 1]) == theirs[place - 1]
        if at + 1 == len(mine) or place + 1 == len(theirs):
            return before or len(mine) - at == len(theirs) - place
        return before or self._new_of.get(mine[at + 1]) == theirs[place + 1]

    def _like(self, ids: list[str], alive: set[str]) -> None:
        """Pair texts with similar ones of the same container."""
        for old, new in self._pairs:
            mine = [at for at in self._free_old(old) if self._old_rows[at].kind not in HOLDS]
            theirs = [
                at
                for at in self._free_new(new)
                if not ids[at] and self._new_rows[at].kind not in HOLDS
            ]
            for one, other in self._likely(mine, theirs, self._likeness):
                block_id = self._old_rows[one].id
                if one not in self._new_of and not ids[other] and block_id not in alive:
                    self._pair(one, other)
                    ids[other] = block_id
                    alive.add(block_id)


_FORMAT = 2
_READ_FORMATS = (1, 2)
"""The first had the fields of a row as they are."""

_PLAIN = len(Fingerprint._fields)
"""The fields of a row that is spelled as it is, as in steps."""

_DIGEST = re.compile(r', "digest": "([0-9a-f]*)",$')
_MOST_STEPS = 64
_MOST_STEP_BYTES = 1 << 20


class Splice(NamedTuple):
    """A replacement of rows from row `at` on (0-based, of the older text)."""

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
        """Apply to rows; None for rows that it does not fit."""
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
    """The rows of a document's text with this digest, and the tombstones."""

    path: str
    digest: str
    rows: tuple[Fingerprint, ...]
    past: tuple[Tombstone, ...] = ()


class SidecarFile(NamedTuple):
    """A file of the folder as it is now."""

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
        """The cache of this machine (SQLite is not shared) for members with the same rights."""
        return self._home.path(f"cache-{of}-{name_of(platform.node())[:8]}.sqlite")

    def close(self) -> None:
        self._locks.close()

    def held(self) -> AbstractContextManager[None]:
        """The lock among processes for writing sidecars."""
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
        """The sidecar of a document; None if there is none that can be read."""
        return self.load_file(f"{name_of(path)}.json")

    def load_file(self, name: str) -> Sidecar | None:
        """The same by the name of the file."""
        found = _json(os.path.join(self._folder, name))
        try:
            if found["format"] not in _READ_FORMATS:
                return None
            rows = _rows(found["blocks"])
            past = tuple(Tombstone(*each) for each in found["past"])
            sidecar = Sidecar(found["path"], found["digest"], rows, past)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        ids = {row.id for row in rows if is_id(row.id)}
        return sidecar if len(ids) == len(rows) else None

    def digest(self, path: str) -> str | None:
        """The digest of the text whose rows are saved; None without a sidecar."""
        found = self._start(path, 1)
        return found[0] if found is not None else None

    def head(self, path: str) -> tuple[str, Fingerprint] | None:
        """The same, and the row of the document itself; None too where that cannot be read."""
        found = self._start(path, 3)
        if found is None:
            return None
        try:
            (row,) = _rows([json.loads(found[1].rstrip(",\n"))])
        except (ValueError, TypeError, AttributeError):
            return None
        return (found[0], row) if is_id(row.id) else None

    def _start(self, path: str, lines: int) -> tuple[str, str] | None:
        """The digest on the first of so many lines of a sidecar, and the last of them."""
        try:
            with open(self._file(path, "json"), encoding="utf-8", newline="\n") as file:
                read = [file.readline() for _ in range(lines)]
        except (OSError, UnicodeDecodeError):
            return None
        found = _DIGEST.search(read[0])
        return (found[1], read[-1]) if found is not None else None

    def save(self, sidecar: Sidecar, *, flush: bool) -> SidecarFile:
        """Write a sidecar, under the lock. `flush` it if its ids could not be generated again."""
        rows = ",\n".join(_spelled(sidecar.rows))
        past = ",\n".join(json.dumps(each, separators=(",", ":")) for each in sidecar.past)
        path = json.dumps(sidecar.path)
        text = (
            f'{{"format": {_FORMAT}, "path": {path}, "digest": "{sidecar.digest}",\n'
            f'"blocks": [\n{rows}\n],\n"past": [\n{past}\n]}}\n'
        )
        name = self._file(sidecar.path, "json")
        _write(name, text, flush=flush)
        now = os.stat(name)
        return SidecarFile(os.path.basename(name), now.st_size, now.st_mtime_ns)

    def drop(self, path: str) -> None:
        """Remove the files of a document that has another path now."""
        for kind in ("json", "steps"):
            with suppress(FileNotFoundError):
                os.unlink(self._file(path, kind))

    def rename(self, old: str, new: str) -> None:
        """Move the steps of a document to its new path."""
        with suppress(FileNotFoundError):
            os.replace(self._file(old, "steps"), self._file(new, "steps"))

    def add(self, path: str, step: SidecarChange) -> None:
        """Save a step, under the lock."""
        line = json.dumps([step.before, step.after, step.splices], ensure_ascii=False) + "\n"
        name = self._file(path, "steps")
        lines = [*_lines(name), line][-_MOST_STEPS:]
        size = 0
        for at in range(len(lines) - 1, -1, -1):
            size += len(lines[at])
            if size > _MOST_STEP_BYTES and at < len(lines) - 1:
                del lines[: at + 1]
                break
        _write(name, "".join(lines), flush=False)

    def steps(self, path: str) -> Iterator[SidecarChange]:
        """The saved steps of a document, the latest last."""
        for line in _lines(self._file(path, "steps")):
            step = _step(line)
            if step is not None:
                yield step

    def way(self, path: str, before: str, after: str) -> list[SidecarChange]:
        """The steps from the rows of one text to those of another; empty if there is no path."""
        ways: dict[str, list[SidecarChange]] = defaultdict(list)
        for step in self.steps(path):
            ways[step.before].append(step)
            ways[step.after].append(step.back())
        reached: dict[str, list[SidecarChange]] = {before: []}
        waiting = [before]
        for digest in waiting:
            for step in reversed(ways[digest]):
                if step.after not in reached:
                    reached[step.after] = [*reached[digest], step]
                    waiting.append(step.after)
            if after in reached:
                break
        return reached.get(after, [])

    def files(self) -> dict[str, SidecarFile]:
        """The existing files of sidecars and of steps, by name."""
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


def is_rows(name: str) -> bool:
    """Whether a file of the folder holds rows, and not steps."""
    return name.endswith(".json")


def rows_beside(name: str) -> str:
    """The file with the rows of the document whose steps are in this one."""
    return name.removesuffix(".steps") + ".json"


def name_of(path: str) -> str:
    """A file name for a path."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rows_as_step(
    before: str, old: Sequence[Fingerprint], after: str, new: Sequence[Fingerprint], most: int
) -> SidecarChange | None:
    """The step between two texts, as one splice; None if it has more rows than `most`."""
    start, old_stop, new_stop = 0, len(old), len(new)
    while start < min(old_stop, new_stop) and old[start] == new[start]:
        start += 1
    while min(old_stop, new_stop) > start and old[old_stop - 1] == new[new_stop - 1]:
        old_stop -= 1
        new_stop -= 1
    if old_stop + new_stop - 2 * start > most:
        return None
    splice = Splice(start, tuple(old[start:old_stop]), tuple(new[start:new_stop]))
    return SidecarChange(before, after, (splice,))


def _step(line: str) -> SidecarChange | None:
    try:
        before, after, splices = json.loads(line)
        return SidecarChange(
            before, after, tuple(Splice(at, _rows(old), _rows(new)) for at, old, new in splices)
        )
    except (ValueError, TypeError, AttributeError):
        return None  # a line that a crash has cut


_DATE = 14
"""The characters of an id that say when it was made."""


def _spelled(rows: Iterable[Fingerprint]) -> Iterator[str]:
    """The rows as short JSON: hash and sketch in base 64, a date only where it is another."""
    date = ""
    for row in rows:
        name = row.id[_DATE:] if row.id[:_DATE] == date else row.id
        date = row.id[:_DATE]
        anchor = f",{json.dumps(row.anchor, ensure_ascii=False)}" if row.anchor else ""
        signs = b64encode(bytes.fromhex(row.hash + row.sketch)).rstrip(b"=").decode()
        yield f'[{row.depth},"{name}","{row.kind}","{signs}"{anchor}]'


def _rows(found: Iterable[Sequence[Any]]) -> tuple[Fingerprint, ...]:
    made: list[Fingerprint] = []
    for each in found:
        if len(each) == _PLAIN:
            made.append(Fingerprint(*each))
            continue
        depth, name, kind, signs, *anchor = each
        if made and name.startswith("-"):
            name = made[-1].id[:_DATE] + name
        told = b64decode(signs + "=" * (-len(signs) % 4)).hex()
        hash_, sketch = told[:HASH_DIGITS], told[HASH_DIGITS:]
        made.append(Fingerprint(depth, name, kind, hash_, sketch, *anchor))
    return tuple(made)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.readlines()
    except (OSError, UnicodeDecodeError):
        return []


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
