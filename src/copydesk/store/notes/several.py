"""Several folders of notes as one store: each is a notebook, and every id is in one of them.

Invariant: changes are prepared in every store before any is executed; the files of all are
written together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from copydesk.errors import InvalidArgs
from copydesk.store.notes.errors import BlockNotFound, NotebookNotFound
from copydesk.store.notes.protocol import (
    Around,
    Change,
    ChangesDone,
    Crumb,
    Heading,
    NoteBlock,
    Notebook,
    NoteStore,
    Prepared,
    named,
)


def several(stores: Sequence[NoteStore]) -> NoteStore:
    """The stores as one; one alone as it is."""
    return stores[0] if len(stores) == 1 else _Several(tuple(stores))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What each store prepared, with the indices of its changes."""

    parts: tuple[tuple[NoteStore, Prepared, tuple[int, ...]], ...]


class _Several:
    """Several stores as one."""

    def __init__(self, stores: tuple[NoteStore, ...]) -> None:
        self._stores = stores

    def notebooks(self) -> tuple[Notebook, ...]:
        return tuple(one for store in self._stores for one in store.notebooks())

    def documents(self, box: str, most: int) -> tuple[NoteBlock, ...]:
        return self._notebook(box).documents(box, most)

    def blocks(self, ids: Sequence[str]) -> Mapping[str, NoteBlock]:
        found: dict[str, NoteBlock] = {}
        for store in self._stores:
            found |= store.blocks([one for one in ids if one not in found])
        return {one: found[one] for one in ids if one in found}

    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        return self._of(block_id).children(block_id)

    def child_ids(self, block_id: str) -> tuple[str, ...]:
        return self._of(block_id).child_ids(block_id)

    def around(self, block_id: str) -> Around:
        return self._of(block_id).around(block_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        return self._of(document_id).outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        return self._of(block_id).breadcrumb(block_id)

    def search(self, query: str, most: int) -> tuple[NoteBlock, ...]:
        found = [block for store in self._stores for block in store.search(query, most)]
        found.sort(key=lambda block: ("dh".find(block.kind) < 0, len(block.content)))
        return tuple(found[:most])

    def prepare(self, changes: Sequence[Change]) -> Prepared:
        indices: dict[NoteStore, list[int]] = {}
        for index, change in enumerate(changes):
            indices.setdefault(self._of(named(change)[-1]), []).append(index)
        parts = [
            (store, store.prepare([changes[index] for index in wanted]), tuple(wanted))
            for store, wanted in indices.items()
        ]
        return _joined(tuple(changes), parts)

    def execute(self, prepared: Prepared) -> ChangesDone:
        held = prepared.held
        if not isinstance(held, _Parts):
            raise InvalidArgs("prepared", "was not prepared by this store")
        ids: dict[int, tuple[str, ...]] = {}
        for store, part, indices in held.parts:
            done = store.execute(part)
            ids |= zip(indices, done.ids, strict=True)
        return ChangesDone(tuple(ids[index] for index in sorted(ids)))

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        store = self._notebook(box)
        return _joined((), [(store, store.prepare_document(box, parent_id, title, markdown), (0,))])

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        store = self._of(anchor_id)
        return _joined((), [(store, store.prepare_beside(anchor_id, up, title, markdown), (0,))])

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        store = self._notebook(box)
        return _joined((), [(store, store.prepare_daily_note(box, markdown), (0,))])

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _of(self, block_id: str) -> NoteStore:
        """The store that has the block; BlockNotFound, with what a store knows of a lost one."""
        for store in self._stores:
            if store.blocks([block_id]):
                return store
        lost: BlockNotFound | None = None
        for store in self._stores:
            try:
                store.around(block_id)
            except BlockNotFound as refusal:
                lost = refusal if refusal.lost or lost is None else lost
        raise lost or BlockNotFound(block_id)

    def _notebook(self, box: str) -> NoteStore:
        for store in self._stores:
            if any(one.id == box for one in store.notebooks()):
                return store
        with suppress(NotebookNotFound):
            self._stores[0].prepare_daily_note(box)  # refuses an invalid id as such
        raise NotebookNotFound(box)


def _joined(
    changes: tuple[Change, ...], parts: Sequence[tuple[NoteStore, Prepared, tuple[int, ...]]]
) -> Prepared:
    made = Prepared(changes, {}, {}, (), _Parts(tuple(parts)))
    for _, part, _ in parts:
        made = replace(
            made,
            before={**made.before, **part.before},
            after={**made.after, **part.after},
            files=(*made.files, *part.files),
        )
    return made
