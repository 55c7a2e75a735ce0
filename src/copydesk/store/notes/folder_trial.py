"""Changes of blocks tried on the documents of a folder: what they come to in files, or a refusal.

What lives here: what `prepare` checks. What must not: a file written. Invariant:
each change is judged on the blocks as those before it leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes.block_id import valid
from copydesk.store.notes.errors import BlockChanged, BlockNotFound, WrongBlockKind
from copydesk.store.notes.folder_document import Document
from copydesk.store.notes.folder_region import Region
from copydesk.store.notes.folder_shelf import Shelf
from copydesk.store.notes.folder_sidecar import Step
from copydesk.store.notes.folder_text import pieces
from copydesk.store.notes.folder_tree import Row, shown_text
from copydesk.store.notes.folder_working import Working
from copydesk.store.notes.pieces import for_place, for_update
from copydesk.store.notes.protocol import (
    Change,
    Delete,
    FileEdit,
    Insert,
    Prepared,
    Restore,
    Side,
    Update,
)
from copydesk.text.markdown import Block
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file will be: the digest of its bytes, and its rows."""

    path: RelPath
    digest: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What executing needs: the files to be written, and the ids to be told."""

    plans: tuple[Plan, ...]
    ids: tuple[tuple[str, ...], ...]


def try_out(shelf: Shelf, changes: Sequence[Change], fresh: Callable[[], str]) -> Prepared:
    """The changes, checked; raises the refusal of the first that cannot be made."""
    trial = _Trial(shelf, fresh)
    ids = tuple(trial.take(change) for change in changes)
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    files: list[FileEdit] = []
    plans: list[Plan] = []
    for working in trial.workings.values():
        document, change = working.document, working.change
        base = Snapshot.of(document.data)
        result = base.edited(change)
        name = str(document.path)
        before[name] = _text(document.data)
        after[name] = _text(result.data)
        splices = working.splices()
        step = Step(document.digest, result.digest, splices)
        rows = step.take(document.rows)
        assert rows is not None
        if change:
            files.append(FileEdit(document.path, base, change))
            plans.append(Plan(document.path, result.digest, rows))
            shelf.ids.plan(document, document.path, step, rows)
    held = Held(tuple(plans), ids)
    return Prepared(
        tuple(changes), MappingProxyType(before), MappingProxyType(after), tuple(files), held
    )


def texts(path: RelPath, data: bytes) -> Mapping[str, str]:
    """One document's text, as it is shown."""
    return MappingProxyType({str(path): _text(data)})


def _text(data: bytes) -> str:
    return shown_text(data.decode("utf-8", "surrogateescape"))


class _Trial:
    def __init__(self, shelf: Shelf, fresh: Callable[[], str]) -> None:
        self._shelf = shelf
        self._fresh = fresh
        self.workings: dict[RelPath, Working] = {}

    def take(self, change: Change) -> tuple[str, ...]:
        """Make one change; the ids it leaves."""
        match change:
            case Insert():
                return self._insert(change)
            case Update():
                return self._update(change)
            case Delete():
                return self._delete(change)
            case Restore():
                raise InvalidArgs("image", "is not one of this store")

    def _insert(self, change: Insert) -> tuple[str, ...]:
        found = pieces(change.markdown, self._shelf.profile)
        working = self._working(change.anchor_id)
        region, block = self._anchor(working, change.anchor_id, change.side)
        parent = block if change.side in ("first_in", "last_in") else block.parent
        assert parent is not None
        made = for_place(found, _list_subtype(parent))
        return working.insert(region, block, change.side, change.markdown, len(made))

    def _anchor(self, working: Working, anchor_id: str, side: Side) -> tuple[Region, Block]:
        inside = side in ("first_in", "last_in")
        if anchor_id == working.document.id:
            if not inside:
                raise WrongBlockKind(anchor_id, "d", "block")
            return working.end(last=side == "last_in")
        region, block = working.block(anchor_id)
        if inside and not block.holds_blocks:
            raise WrongBlockKind(anchor_id, block.kind, "container")
        return region, block

    def _update(self, change: Update) -> tuple[str, ...]:
        found = pieces(change.markdown, self._shelf.profile)
        working, region, block = self._block(change.id, change.over)
        assert block.parent is not None
        for_update(found, _list_subtype(block.parent))
        working.update(region, block, change.markdown)
        return (change.id,)

    def _delete(self, change: Delete) -> tuple[str, ...]:
        working, region, block = self._block(change.id, change.over)
        working.delete(region, block)
        return ()

    def _block(self, block_id: str, over: str) -> tuple[Working, Region, Block]:
        """A block that is no document, and is what the change is made for."""
        working = self._working(block_id)
        if block_id == working.document.id:
            raise WrongBlockKind(block_id, "d", "block")
        region, block = working.block(block_id)
        if over and region.rows_of(block)[0].hash != over:
            raise BlockChanged(block_id=block_id)
        return working, region, block

    def _working(self, block_id: str) -> Working:
        """The document of a block, as changed so far."""
        valid(block_id)
        for working in self.workings.values():
            if block_id in working.document.index:
                return working
        document = self._shelf.find(block_id)
        return self._open(document, block_id)

    def _open(self, document: Document, block_id: str) -> Working:
        working = self.workings.get(document.path)
        if working is None:
            working = Working(document, self._fresh)
            self.workings[document.path] = working
        elif working.document is not document:
            raise BlockNotFound(block_id)  # the file changed while the changes were looked at
        return working


def _list_subtype(parent: Block) -> str | None:
    return parent.subtype if parent.kind == "l" else None
