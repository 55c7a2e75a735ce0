"""Changes made one by one, all of them or none: what failed is taken back, and that is read too.

What lives here: the order of an execution, and the way back. What must not: how
one change is made (`kernel_writing`). Invariant: NotesRolledBack is raised only
when every block and every container that the changes touch has been read and is
what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from copydesk.errors import Refusal
from copydesk.store.notes import kernel_image as images
from copydesk.store.notes.errors import (
    BlockChanged,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
)
from copydesk.store.notes.kernel_calls import Kernel
from copydesk.store.notes.kernel_http import KernelRefused
from copydesk.store.notes.kernel_settled import Pause
from copydesk.store.notes.kernel_trial import Held
from copydesk.store.notes.kernel_writing import StepFailed, Writing
from copydesk.store.notes.pieces import Split
from copydesk.store.notes.protocol import Change, Done, Insert, Prepared, Restore, Update


@dataclass(frozen=True, slots=True)
class _Before:
    """The blocks that are written or deleted, as they were, and the order in containers."""

    images: Mapping[str, str]
    orders: Mapping[str, tuple[str, ...]]


def execute(kernel: Kernel, split: Split, prepared: Prepared, held: Held, pause: Pause) -> Done:
    """Make the changes. BlockChanged, NotesRolledBack, NotesTorn; NotesUnavailable before any."""
    if not prepared.changes:
        return Done(())
    kernel.flush()
    before = _read(kernel, held)
    for document_id in held.documents:
        with suppress(KernelRefused, NotesUnavailable):  # a second net, not the first
            kernel.keep_history(document_id)
    writing = Writing(kernel, split, pause)
    made: list[tuple[str, ...]] = []
    for index, change in enumerate(prepared.changes):
        if index in held.idle and isinstance(change, Update):
            made.append((change.id,))
            continue
        blind = False
        try:
            made.append(writing.make(change))
            continue
        except StepFailed as failed:
            detail = str(failed)
        except NotesUnavailable as lost:
            if not writing.begun:
                raise
            detail, blind = lost.detail, True
        left = _take_back(kernel, split, writing, before, pause, blind=blind)
        if left:
            raise NotesTorn(index, detail, left)
        raise NotesRolledBack(index, _target(change), detail)
    return Done(tuple(made), _undo(kernel, writing))


def _read(kernel: Kernel, held: Held) -> _Before:
    """What is there now, which has to be what was prepared on."""
    found: dict[str, str] = {}
    for block_id, mark in held.marks.items():
        image = kernel.kramdown(block_id)
        if images.mark(image) != mark:
            raise BlockChanged(block_id=block_id)
        found[block_id] = image
    orders = {container: _order(kernel, container) for container in held.containers}
    return _Before(found, orders)


def _order(kernel: Kernel, container_id: str) -> tuple[str, ...]:
    return tuple(child.id for child in kernel.children(container_id))


def _take_back(
    kernel: Kernel,
    split: Split,
    writing: Writing,
    before: _Before,
    pause: Pause,
    *,
    blind: bool,
) -> tuple[str, ...]:
    """Undo what was made, as far as it goes; the blocks that are not what they were.

    `blind`: it is not known all that was written, so nothing new may be there.
    """
    back = Writing(kernel, split, pause)
    for change in reversed(writing.undo):
        with suppress(StepFailed, Refusal):  # what comes of it is read below
            back.make(change)
    ours = writing.astray | back.astray | {_target(change) for change in writing.undo}
    try:
        kernel.flush()
        left = set(kernel.standings(sorted(ours - before.images.keys())))
        for block_id, image in before.images.items():
            if not _is_back(kernel, back, block_id, image):
                left.add(block_id)
        for container, order in before.orders.items():
            now = _order(kernel, container)
            if tuple(now if blind else (one for one in now if one in order)) != order:
                left.add(container)
    except NotesUnavailable:
        left = ours | before.images.keys() | before.orders.keys()
    return tuple(sorted(left))


def _is_back(kernel: Kernel, back: Writing, block_id: str, image: str) -> bool:
    """Whether a block is what it was; it is put back once more where it is not."""
    if images.same(kernel.kramdown(block_id), image):
        return True
    with suppress(StepFailed, Refusal):
        back.make(Restore(block_id, image))
    return images.same(kernel.kramdown(block_id), image)


def _undo(kernel: Kernel, writing: Writing) -> tuple[Change, ...]:
    """What takes all back, each change with the mark of the block that it is made for.

    A block that cannot be read any more keeps the mark of when it was written.
    """
    told: dict[str, str] = {}
    changes: list[Change] = []
    for change in reversed(writing.undo):
        if isinstance(change, Insert) or getattr(change, "side", None) is not None:
            changes.append(change)
            continue
        if change.id not in told:
            told[change.id] = _mark(kernel, change.id, writing)
            changes.append(replace(change, over=told[change.id]))
        else:
            changes.append(change)
    return tuple(changes)


def _mark(kernel: Kernel, block_id: str, writing: Writing) -> str:
    try:
        image = kernel.kramdown(block_id)
    except NotesUnavailable:
        return writing.marks.get(block_id, "")
    return images.mark(image) if image else ""


def _target(change: Change) -> str:
    return change.anchor_id if isinstance(change, Insert) else change.id
