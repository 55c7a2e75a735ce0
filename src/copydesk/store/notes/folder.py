"""Notes in a folder of Markdown files: `NoteStore` without a server.

What lives here: the store. What must not: parsing, ids, the writing of files,
which is the desk's: what is prepared here is a change of bytes for each file.
Invariants: no file of the notebook is ever written here; what is said to be done
has been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from copydesk.errors import InvalidArgs
from copydesk.store.access import Rules
from copydesk.store.notes import folder_trial
from copydesk.store.notes.block_id import new_id
from copydesk.store.notes.errors import BlockChanged
from copydesk.store.notes.folder_cache import Cache
from copydesk.store.notes.folder_documents import DAILY, Documents
from copydesk.store.notes.folder_reading import Reading
from copydesk.store.notes.folder_scan import Folder
from copydesk.store.notes.folder_shelf import Shelf
from copydesk.store.notes.folder_sidecar import Sidecars, name_of
from copydesk.store.notes.protocol import (
    Around,
    Block,
    Change,
    Crumb,
    Done,
    Heading,
    Notebook,
    Prepared,
)
from copydesk.store.protocol import Files
from copydesk.text.markdown import Profile
from copydesk.text.relpath import RelPath


class FolderStore:
    """The notes of a folder. Safe to use from many threads, and by many processes.

    `root` is the folder in the workspace `files`, which may be the workspace
    itself; `rules` say what may be read of it. `state` is a folder where ids and
    the cache are kept. `daily` is where notes of a day go, as strftime has it.
    """

    def __init__(
        self,
        files: Files,
        root: RelPath,
        rules: Rules,
        state: str,
        *,
        name: str = "",
        profile: Profile = "gfm",
        daily: str = DAILY,
        today: Callable[[], time.struct_time] = time.localtime,
    ) -> None:
        self._sidecars = Sidecars(state, str(root))
        self._cache = Cache(self._sidecars.cache_path(name_of(repr(rules))[:8]))
        self._shelf = Shelf(Folder(files, root, rules), self._sidecars, self._cache, profile)
        self._name = name or root.name or "Notes"
        self._box = self._sidecars.notebook(new_id())
        self._reading = Reading(self._shelf, self._box, self._name)
        self._documents = Documents(self._shelf, self._box, new_id, daily, today)

    def notebooks(self) -> tuple[Notebook, ...]:
        return (Notebook(self._box, self._name),)

    def documents(self, box: str, most: int) -> tuple[Block, ...]:
        with self._shelf.lock:
            self._documents.open(box)
            return self._reading.documents(most)

    def blocks(self, ids: Sequence[str]) -> Mapping[str, Block]:
        with self._shelf.lock:
            return self._reading.blocks(ids)

    def children(self, block_id: str) -> tuple[Block, ...]:
        with self._shelf.lock:
            return self._reading.children(block_id)

    def child_ids(self, block_id: str) -> tuple[str, ...]:
        with self._shelf.lock:
            return self._reading.child_ids(block_id)

    def around(self, block_id: str) -> Around:
        with self._shelf.lock:
            return self._reading.around(block_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        with self._shelf.lock:
            return self._reading.outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        with self._shelf.lock:
            return self._reading.breadcrumb(block_id)

    def search(self, query: str, most: int) -> tuple[Block, ...]:
        with self._shelf.lock:
            return self._reading.search(query, most)

    def prepare(self, changes: Sequence[Change]) -> Prepared:
        with self._shelf.lock:
            return folder_trial.try_out(self._shelf, changes, new_id)

    def execute(self, prepared: Prepared) -> Done:
        held = prepared.held
        if not isinstance(held, folder_trial.Held):
            raise InvalidArgs("prepared", "was not prepared by this store")
        with self._shelf.lock:
            for plan in held.plans:
                if not self._shelf.written(plan.path, plan.digest, plan.rows):
                    raise BlockChanged(block_id=plan.rows[0].id)
        return Done(held.ids)

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        with self._shelf.lock:
            return self._documents.prepare(box, parent_id, title, markdown)

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        with self._shelf.lock:
            return self._documents.beside(anchor_id, up, title, markdown)

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        with self._shelf.lock:
            return self._documents.prepare_daily(box, markdown)

    def close(self) -> None:
        with self._shelf.lock:
            self._cache.close()
            self._sidecars.close()
