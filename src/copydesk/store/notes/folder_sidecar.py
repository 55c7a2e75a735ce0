"""The ids of a notebook's blocks, beside it: one file for each document, in the state folder.

What lives here: reading and writing them, and the steps from one text of a
document to another. What must not: the notebook's own files, what is known
again. Invariants: a file is written whole or not at all; the rows belong to the
text with the digest that stands there; a step can be made in both directions.

`NAME.json` has the rows of one text; `NAME.steps` has lines, each of which says
how the rows of another text differ: of a change that is prepared (it may never
be made), or of one that was found. So the ids of a text come back with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from copydesk.errors import Failed
from copydesk.store.locks import FileLocks
from copydesk.store.notes.block_id import is_id, valid
from copydesk.store.notes.errors import InvalidBlockId
from copydesk.store.notes.folder_match import Past
from copydesk.store.notes.folder_tree import Row
from copydesk.store.state import StateFolder

_FORMAT = 1
_DIGEST = re.compile(r', "digest": "([0-9a-f]*)",$')
_MOST_STEPS = 64
_MOST_STEP_BYTES = 1 << 20


class Splice(NamedTuple):
    """Rows that stand in the place of others, from row `at` on (0-based, of the older text)."""

    at: int
    old: tuple[Row, ...]
    new: tuple[Row, ...]


class Step(NamedTuple):
    """From the rows of one text to those of another; the splices are in order."""

    before: str
    after: str
    splices: tuple[Splice, ...]

    def back(self) -> Step:
        """The other way round."""
        shift, splices = 0, list[Splice]()
        for at, old, new in self.splices:
            splices.append(Splice(at + shift, new, old))
            shift += len(new) - len(old)
        return Step(self.after, self.before, tuple(splices))

    def take(self, rows: Sequence[Row]) -> tuple[Row, ...] | None:
        """The rows after it; None for rows that it was not made of."""
        made: list[Row] = []
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
    """The rows of a document's text with this digest, and what has been."""

    path: str
    digest: str
    rows: tuple[Row, ...]
    past: tuple[Past, ...] = ()


class Seen(NamedTuple):
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
        """Where the cache is of those who may see the same, on this machine.

        The folder may be that of several: SQLite must not be shared by machines.
        """
        return self._home.path(f"cache-{of}-{name_of(platform.node())[:8]}.sqlite")

    def close(self) -> None:
        """Let go of the locks."""
        self._locks.close()

    def held(self) -> AbstractContextManager[None]:
        """The turn of one process: who writes a sidecar has it."""
        return self._locks.hold("ids")

    def notebook(self, fresh: str) -> str:
        """The id of the notebook, `fresh` if it has none yet."""
        path = self._home.path("notebook.json")
        with self.held():
            found = _json(path)
            try:
                return valid(found["id"])
            except (KeyError, TypeError, InvalidBlockId):
                pass  # there is none yet
            _write(path, json.dumps({"format": _FORMAT, "id": fresh}) + "\n", flush=True)
            return fresh

    def load(self, path: str) -> Sidecar | None:
        """What is known of a document; None for nothing, or nothing that can be read."""
        return self.load_file(f"{name_of(path)}.json")

    def load_file(self, name: str) -> Sidecar | None:
        """The same by the name of the file."""
        found = _json(os.path.join(self._folder, name))
        try:
            if found["format"] != _FORMAT:
                return None
            rows = _rows(found["blocks"])
            past = tuple(Past(*each) for each in found["past"])
            sidecar = Sidecar(found["path"], found["digest"], rows, past)
        except (KeyError, TypeError):
            return None
        ids = {row.id for row in rows if is_id(row.id)}
        return sidecar if len(ids) == len(rows) else None

    def digest(self, path: str) -> str | None:
        """The digest of the text whose rows are kept; None if nothing is."""
        try:
            with open(self._file(path, "json"), encoding="utf-8", newline="\n") as file:
                first = file.readline()
        except (OSError, UnicodeDecodeError):
            return None
        found = _DIGEST.search(first)
        return found[1] if found is not None else None

    def save(self, sidecar: Sidecar, *, flush: bool) -> Seen:
        """Write a sidecar; its turn is held. `flush` it if its ids could not be made again."""
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sidecar.rows)
        past = ",\n".join(json.dumps(each) for each in sidecar.past)
        path = json.dumps(sidecar.path)
        text = (
            f'{{"format": {_FORMAT}, "path": {path}, "digest": "{sidecar.digest}",\n'
            f'"blocks": [\n{rows}\n],\n"past": [\n{past}\n]}}\n'
        )
        name = self._file(sidecar.path, "json")
        _write(name, text, flush=flush)
        now = os.stat(name)
        return Seen(os.path.basename(name), now.st_size, now.st_mtime_ns)

    def drop(self, path: str) -> None:
        """Remove what is kept for a document that has another path now."""
        for kind in ("json", "steps"):
            with suppress(FileNotFoundError):
                os.unlink(self._file(path, kind))

    def rename(self, old: str, new: str) -> None:
        """Keep the steps of a document under its new path."""
        with suppress(FileNotFoundError):
            os.replace(self._file(old, "steps"), self._file(new, "steps"))

    def add(self, path: str, step: Step) -> None:
        """Remember a step; its turn is held."""
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

    def steps(self, path: str) -> Iterator[Step]:
        """All steps that are remembered of a document, the latest last."""
        for line in _lines(self._file(path, "steps")):
            step = _step(line)
            if step is not None:
                yield step

    def way(self, path: str, before: str, after: str) -> list[Step]:
        """The steps that lead from the rows of one text to those of another; none if none do."""
        ways: dict[str, list[Step]] = defaultdict(list)
        for step in self.steps(path):
            ways[step.before].append(step)
            ways[step.after].append(step.back())
        reached: dict[str, list[Step]] = {before: []}
        waiting = [before]
        for digest in waiting:
            for step in reversed(ways[digest]):
                if step.after not in reached:
                    reached[step.after] = [*reached[digest], step]
                    waiting.append(step.after)
            if after in reached:
                break
        return reached.get(after, [])

    def files(self) -> dict[str, Seen]:
        """The files of sidecars and of steps there are, by name."""
        found: dict[str, Seen] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith((".json", ".steps")):
                    with suppress(FileNotFoundError):
                        now = entry.stat(follow_symlinks=False)
                        found[entry.name] = Seen(entry.name, now.st_size, now.st_mtime_ns)
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
    """What stands for a path where a path cannot stand."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rows_as_step(
    before: str, old: Sequence[Row], after: str, new: Sequence[Row], most: int
) -> Step | None:
    """The step between two texts, as one splice; None when it is of more rows than `most`."""
    start, old_stop, new_stop = 0, len(old), len(new)
    while start < min(old_stop, new_stop) and old[start] == new[start]:
        start += 1
    while min(old_stop, new_stop) > start and old[old_stop - 1] == new[new_stop - 1]:
        old_stop -= 1
        new_stop -= 1
    if old_stop + new_stop - 2 * start > most:
        return None
    splice = Splice(start, tuple(old[start:old_stop]), tuple(new[start:new_stop]))
    return Step(before, after, (splice,))


def _step(line: str) -> Step | None:
    try:
        before, after, splices = json.loads(line)
        return Step(
            before,
            after,
            tuple(Splice(at, _rows(old), _rows(new)) for at, old, new in splices),
        )
    except (ValueError, TypeError):
        return None  # a line that a crash has cut


def _rows(found: Iterable[Sequence[Any]]) -> tuple[Row, ...]:
    return tuple(Row(*row) for row in found)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.readlines()
    except FileNotFoundError:
        return []
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
    """Put a file in the place of another, whole."""
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
