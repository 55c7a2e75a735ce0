"""The calls of a SiYuan kernel that this store makes, typed.

What lives here: one method for each call, and what its version allows. What
must not: whether a write did what it should: a method that writes gives the ids
that the answer names, which proves nothing. Invariant: every id has the form of
one before it is sent.

Before the first call the version is asked for, and whether the kernel has
booted; a kernel older than 3.1.4 is refused.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from copydesk.store.notes import kernel_rows
from copydesk.store.notes.block_id import is_id, valid
from copydesk.store.notes.errors import NotesUnavailable
from copydesk.store.notes.kernel_http import AnswerLost, KernelHttp, KernelRefused
from copydesk.store.notes.kernel_rows import Child, Home, Row, Standing, row, rows, text
from copydesk.store.notes.protocol import Notebook

Version = tuple[int, int, int]

OLDEST: Version = (3, 1, 4)
"""Since then getChildBlocks tells the markdown."""

_KRAMDOWN_MODE: Version = (3, 1, 14)
_READONLY_SQL: Version = (3, 7, 0)
_HISTORY: Version = (3, 7, 0)

_AT_ONCE = 200
"""So many ids in one request."""

_ID = re.compile(r"^[0-9]{14}-[0-9a-z]{7}$")
_NODE_ID = re.compile(r'data-node-id="([0-9]{14}-[0-9a-z]{7})"')
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a block is put: before `next_id`, else after `previous_id`, else first in `parent_id`.

    Exactly one of them is given.
    """

    next_id: str = ""
    previous_id: str = ""
    parent_id: str = ""


class Kernel:
    """A kernel, call by call. Safe to use from many threads."""

    def __init__(self, http: KernelHttp) -> None:
        self._http = http
        self._version: Version | None = None
        self._asking = threading.Lock()

    def version(self) -> Version:
        """The version, asked once; NotesUnavailable when too old or not booted."""
        with self._asking:
            if self._version is None:
                self._version = self._ask_version()
            return self._version

    def _ask_version(self) -> Version:
        call = "/api/system/version"
        told = self._asked(call, {})
        found = _VERSION.match(told) if isinstance(told, str) else None
        if found is None:
            raise NotesUnavailable(f"{call}: {told!r}")
        version = (int(found[1]), int(found[2]), int(found[3]))
        if version < OLDEST:
            raise NotesUnavailable(f"{found[0]} < {'.'.join(map(str, OLDEST))}", "version")
        call = "/api/system/bootProgress"
        progress = row(call, self._asked(call, {})).get("progress")
        if not isinstance(progress, int | float) or progress < 100:
            raise NotesUnavailable(f"{call}: {progress}", "booting")
        return version

    def _asked(self, call: str, body: Mapping[str, object]) -> object:
        """An answer to a question, which is put again when the first one is lost.

        A refusal of the kernel is NotesUnavailable.
        """
        try:
            try:
                return self._http.ask(call, body, reads=True)
            except AnswerLost as lost:
                if lost.reason in ("timeout", "too_large"):
                    raise
                return self._http.ask(call, body, reads=True)
        except KernelRefused as refused:
            raise NotesUnavailable(str(refused)) from None

    def _read(self, call: str, body: Mapping[str, object]) -> object:
        self.version()
        return self._asked(call, body)

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    # What is read from trees, and fresh.

    def standings(self, ids: Sequence[str]) -> dict[str, Standing]:
        """Where blocks stand; those that are not there are left out."""
        call = "/api/block/getBlockTreeInfos"
        found: dict[str, Standing] = {}
        wanted = list(dict.fromkeys(valid(block_id) for block_id in ids))
        for at in range(0, len(wanted), _AT_ONCE):
            told = row(call, self._read(call, {"ids": wanted[at : at + _AT_ONCE]}))
            for block_id, value in told.items():
                standing = kernel_rows.standing(call, row(call, value))
                if standing is not None and standing.id == block_id:
                    found[block_id] = standing
        return found

    def children(self, block_id: str) -> list[Child]:
        """What a container holds; of a heading its section; of others and of no block, nothing."""
        call = "/api/block/getChildBlocks"
        told = rows(call, self._read(call, {"id": valid(block_id)}))
        return [kernel_rows.child(call, of) for of in told]

    def kramdown(self, block_id: str) -> str:
        """The block's text with the ids and attributes of all in it; empty when it is not there."""
        call = "/api/block/getBlockKramdown"
        body: dict[str, object] = {"id": valid(block_id)}
        if self.version() >= _KRAMDOWN_MODE:
            body["mode"] = "md"
        return text(call, row(call, self._read(call, body)), "kramdown")

    def attributes(self, block_id: str) -> dict[str, str]:
        """All attributes of a block."""
        call = "/api/attr/getBlockAttrs"
        told = row(call, self._read(call, {"id": valid(block_id)}))
        return {name: text(call, told, name) for name in told}

    def home(self, block_id: str) -> Home:
        """The document of a block that is there."""
        call = "/api/block/getBlockInfo"
        told = row(call, self._read(call, {"id": valid(block_id)}))
        return Home(
            text(call, told, "box"),
            text(call, told, "path"),
            text(call, told, "rootID"),
            text(call, told, "rootTitle"),
        )

    def hpath(self, block_id: str) -> str:
        """The path of titles of a block's document."""
        call = "/api/filetree/getHPathByID"
        told = self._read(call, {"id": valid(block_id)})
        if not isinstance(told, str):
            raise NotesUnavailable(f"{call}: no path")
        return told

    def outline(self, document_id: str) -> list[Row]:
        """The headings of a document, nested."""
        call = "/api/outline/getDocOutline"
        told = self._read(call, {"id": valid(document_id)})
        return [] if told is None else rows(call, told)

    def breadcrumb(self, block_id: str) -> list[Row]:
        """The way from the document to a block."""
        call = "/api/block/getBlockBreadcrumb"
        return rows(call, self._read(call, {"id": valid(block_id), "excludeTypes": []}))

    def notebooks(self) -> list[Notebook]:
        """All notebooks."""
        call = "/api/notebook/lsNotebooks"
        told = rows(call, row(call, self._read(call, {})).get("notebooks"))
        return [
            Notebook(text(call, of, "id"), text(call, of, "name"), of.get("closed") is True)
            for of in told
        ]

    # What is read from the index.

    def flush(self) -> None:
        """Wait until all that was written is written, and in the index."""
        self._read("/api/sqlite/flushTransaction", {})

    def select(self, statement: str) -> list[Row]:
        """The rows of a SELECT (of `kernel_sql`), read-only where the kernel has that."""
        call = "/api/query/sql"
        body: dict[str, object] = {"stmt": statement}
        if self.version() >= _READONLY_SQL:
            body["mode"] = "readonly"
        return rows(call, self._read(call, body))

    # What is written. KernelRefused when the kernel says no.

    def insert(self, kramdown: str, spot: Spot) -> frozenset[str]:
        """Blocks of this text at a spot."""
        body = {"dataType": "markdown", "data": kramdown}
        for name, block_id in (
            ("nextID", spot.next_id),
            ("previousID", spot.previous_id),
            ("parentID", spot.parent_id),
        ):
            if block_id:
                body[name] = valid(block_id)
                break
        return self._write("/api/block/insertBlock", body)

    def update(self, block_id: str, kramdown: str) -> frozenset[str]:
        """Another text for a block; its attributes go."""
        body = {"dataType": "markdown", "data": kramdown, "id": valid(block_id)}
        return self._write("/api/block/updateBlock", body)

    def delete(self, block_id: str) -> frozenset[str]:
        """A block away."""
        return self._write("/api/block/deleteBlock", {"id": valid(block_id)})

    def set_attributes(self, block_id: str, attributes: Mapping[str, str]) -> frozenset[str]:
        """These attributes; others stay."""
        return self._write(
            "/api/attr/setBlockAttrs", {"id": valid(block_id), "attrs": dict(attributes)}
        )

    def create_document(
        self, box: str, hpath: str, markdown: str, *, parent_id: str, document_id: str
    ) -> str:
        """A document at a path of titles, below the parent if its own path is the one above.

        The id that the answer names, empty for none: it should be the one given.
        """
        body: dict[str, object] = {
            "notebook": valid(box),
            "path": hpath,
            "markdown": markdown,
            "id": valid(document_id),
        }
        if parent_id:
            body["parentID"] = valid(parent_id)
        self.version()
        told = self._http.ask("/api/filetree/createDocWithMd", body)
        return told if isinstance(told, str) and is_id(told) else ""

    def remove_document(self, box: str, path: str) -> None:
        """A document away, by its path of ids, with those below it."""
        self._write("/api/filetree/removeDoc", {"notebook": valid(box), "path": path})

    def daily_note(self, box: str) -> str:
        """Today's note of a notebook, made when it is not there; its id. AnswerLost without one."""
        call = "/api/filetree/createDailyNote"
        self.version()
        told = self._http.ask(call, {"notebook": valid(box)})
        found = cast(dict[str, object], told).get("id") if isinstance(told, dict) else None
        if not isinstance(found, str) or not is_id(found):
            raise AnswerLost(f"{call}: no id")
        return found

    def keep_history(self, document_id: str) -> None:
        """Let the kernel keep the document as it is in its history, where it can."""
        if self.version() >= _HISTORY:
            self._write("/api/history/createDocHistory", {"id": valid(document_id)})

    def _write(self, call: str, body: Mapping[str, object]) -> frozenset[str]:
        self.version()
        return _made(self._http.ask(call, body))


def _made(answer: object) -> frozenset[str]:
    """The blocks that an answer says were written: their ids, and those inside of them."""
    found: set[str] = set()
    for transaction in _objects(answer):
        for operation in _objects(transaction.get("doOperations")):
            for name, pattern in (("id", _ID), ("data", _NODE_ID)):
                value = operation.get(name)
                if isinstance(value, str):
                    found.update(pattern.findall(value))
    return frozenset(found)


def _objects(value: object) -> list[Row]:
    """The objects of a list; nothing where there is none: such an answer proves nothing anyway."""
    if not isinstance(value, list):
        return []
    items = cast(list[object], value)
    return [cast(dict[str, object], item) for item in items if isinstance(item, dict)]
