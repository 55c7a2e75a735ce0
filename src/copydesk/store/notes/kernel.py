"""Notes in a SiYuan kernel: `NoteStore` over HTTP.

What lives here: the store. What must not: requests, the making of changes.
Invariants: what is said to be done has been read; what is not wholly done is
taken back, or named.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from copydesk.errors import InvalidArgs
from copydesk.store.notes import kernel_executing, kernel_split, kernel_trial
from copydesk.store.notes.errors import WrongBlockKind
from copydesk.store.notes.kernel_calls import Kernel
from copydesk.store.notes.kernel_documents import Documents, NewDailyNote, NewDocument
from copydesk.store.notes.kernel_http import Address, KernelHttp
from copydesk.store.notes.kernel_reading import Reading
from copydesk.store.notes.kernel_settled import Pause
from copydesk.store.notes.pieces import Split, for_place
from copydesk.store.notes.protocol import (
    Around,
    Block,
    Change,
    Crumb,
    Done,
    Heading,
    Insert,
    Notebook,
    Prepared,
)


class KernelStore:
    """The notes of a kernel. Safe to use from many threads; one execution at a time.

    `split` is how the kernel parses Markdown. `pause` waits for so many seconds.
    """

    def __init__(self, http: KernelHttp, split: Split, pause: Pause = time.sleep) -> None:
        self._kernel = Kernel(http)
        self._reading = Reading(self._kernel)
        self._documents = Documents(self._kernel, self._reading, split, pause)
        self._split = split
        self._pause = pause
        self._writing = threading.Lock()

    @staticmethod
    def at(
        url: str, token: str, split: Split = kernel_split.split, timeout_s: float = 30.0
    ) -> KernelStore:
        """The store of the kernel at a URL; InvalidArgs for what is no URL. Nothing is sent yet."""
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidArgs("SIYUAN_TOKEN", "is no token")
        return KernelStore(KernelHttp(Address.of(url), token, timeout_s), split)

    def notebooks(self) -> tuple[Notebook, ...]:
        return tuple(self._kernel.notebooks())

    def documents(self, box: str, most: int) -> tuple[Block, ...]:
        return self._reading.documents(box, most)

    def blocks(self, ids: Sequence[str]) -> Mapping[str, Block]:
        return self._reading.blocks(ids)

    def children(self, block_id: str) -> tuple[Block, ...]:
        return self._reading.children(block_id)

    def child_ids(self, block_id: str) -> tuple[str, ...]:
        return tuple(block.id for block in self.children(block_id))

    def around(self, block_id: str) -> Around:
        return self._reading.around(block_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        kind = self._reading.standing(document_id).kind
        if kind != "d":
            raise WrongBlockKind(document_id, kind, "document")
        return self._reading.outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        return self._reading.breadcrumb(block_id)

    def search(self, query: str, most: int) -> tuple[Block, ...]:
        return self._reading.search(query, most)

    def prepare(self, changes: Sequence[Change]) -> Prepared:
        return kernel_trial.try_out(self._kernel, self._split, changes)

    def execute(self, prepared: Prepared) -> Done:
        held = prepared.held
        with self._writing:
            match held:
                case kernel_trial.Held():
                    return self._execute(prepared, held)
                case NewDocument():
                    return self._documents.make(held)
                case NewDailyNote():
                    return self._daily_note(held)
                case _:
                    raise InvalidArgs("prepared", "was not prepared by this store")

    def _execute(self, prepared: Prepared, held: kernel_trial.Held) -> Done:
        return kernel_executing.execute(self._kernel, self._split, prepared, held, self._pause)

    def _daily_note(self, new: NewDailyNote) -> Done:
        note = self._documents.daily_note(new.box)
        if not new.markdown.strip():
            return Done(((note,),))
        prepared = self.prepare([Insert(new.markdown, "last_in", note)])
        assert isinstance(prepared.held, kernel_trial.Held)
        done = self._execute(prepared, prepared.held)
        return Done(((note, *done.ids[0]),), done.undo)

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        return self._documents.prepare(box, parent_id, title, markdown)

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        kind = self._reading.standing(anchor_id).kind
        if kind != "d":
            raise WrongBlockKind(anchor_id, kind, "document")
        crumbs = self._reading.breadcrumb(anchor_id)
        above = [crumb.id for crumb in crumbs if crumb.kind == "d" and crumb.id != anchor_id]
        if up > len(above):
            raise InvalidArgs("location", "the document stands at the top of its notebook")
        parent_id = above[-1 - up] if up < len(above) else ""
        box = self._kernel.home(anchor_id).box
        return self._documents.prepare(box, parent_id, title, markdown)

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        if markdown.strip():
            for_place(self._split(markdown), None)
        return self._documents.prepare_daily_note(box, markdown)

    def close(self) -> None:
        self._kernel.close()
