"""One change of blocks made by a kernel, read back, and what takes it back.

What lives here: the four changes, step by step. What must not: checks of what
was asked (`kernel_trial`), what happens when a step fails (`kernel_executing`).
Invariants: a change counts as made when the tree says so, whatever the kernel
answered; whatever a step did stands in `undo`, even when the step failed.

Blocks are inserted one by one, because kernels lose further blocks in several
places (before another block, in super blocks, in lists), and before the next
block where there is one, because behind a folded heading is behind its section.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from copydesk.errors import Refusal
from copydesk.store.notes import kernel_image as images
from copydesk.store.notes.kernel_calls import Kernel, Spot
from copydesk.store.notes.kernel_http import AnswerLost, KernelRefused
from copydesk.store.notes.kernel_rows import Standing
from copydesk.store.notes.kernel_settled import Pause, Seen, settled
from copydesk.store.notes.kernel_text import differing
from copydesk.store.notes.pieces import Piece, Split, for_place
from copydesk.store.notes.protocol import Change, Delete, Insert, Restore, Side, Update

_FOLLOWED = 64
"""So many blocks are looked at between two neighbours."""


class StepFailed(Exception):
    """A change was not made, or not as it should be; the message says what is there."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """A place in a container: between two neighbours, empty where there is none."""

    parent_id: str
    previous_id: str
    next_id: str

    @property
    def spot(self) -> Spot:
        if self.next_id:
            return Spot(next_id=self.next_id)
        if self.previous_id:
            return Spot(previous_id=self.previous_id)
        return Spot(parent_id=self.parent_id)


class Writing:
    """Changes made one after the other.

    `undo` takes back what was made, in the order it was made: it has to be gone
    through from its end. `begun`: something was sent that writes. `marks` are
    those of the blocks as this left them. `astray` are blocks that came to
    stand where they should not, and are not known well enough to be deleted.
    """

    def __init__(self, kernel: Kernel, split: Split, pause: Pause = time.sleep) -> None:
        self._kernel = kernel
        self._split = split
        self._pause = pause
        self.undo: list[Change] = []
        self.marks: dict[str, str] = {}
        self.astray: set[str] = set()
        self.begun = False

    def make(self, change: Change) -> tuple[str, ...]:
        """Make one change; the ids that it left. StepFailed, NotesUnavailable."""
        match change:
            case Insert():
                return self._insert(change)
            case Update():
                return self._update(change)
            case Delete():
                return self._delete(change.id)
            case Restore():
                if change.side is None:
                    return self._put_back(change)
                return self._bring_back(change, change.side)

    # New blocks.

    def _insert(self, change: Insert) -> tuple[str, ...]:
        gap = self._gap(change.side, change.anchor_id)
        pieces = self._pieces(change.markdown, gap.parent_id)
        made: list[str] = []
        for piece in pieces:
            made.append(self._put(piece.markdown, gap, _wants(piece)))
            gap = _Gap(gap.parent_id, made[-1], gap.next_id)
        return tuple(made)

    def _bring_back(self, change: Restore, side: Side) -> tuple[str, ...]:
        def wrong(standing: Standing, image: str) -> str:
            return "" if images.same(image, change.image) else "came back as another block"

        if self._kernel.standings([change.id]):
            raise StepFailed(f"{change.id} is there already")
        gap = self._gap(side, change.anchor_id)
        try:
            made = self._put(change.image, gap, wrong)
            held = [child.id for child in self._kernel.children(gap.parent_id)]
            if held.count(made) != 1:
                raise StepFailed(f"{made} is there {held.count(made)} times")
            return (made,)
        except StepFailed:
            back = Delete(change.id)
            if back not in self.undo and self._kernel.standings([change.id]):
                self.undo.append(back)  # it was not there before: what has its id is ours
            raise

    def _put(self, text: str, gap: _Gap, wrong: Callable[[Standing, str], str]) -> str:
        """One block of this text in the gap; its id. `wrong` says what is wrong with it."""
        named, problem = self._write(lambda: self._kernel.insert(text, gap.spot))
        found = self._look(lambda: self._between(gap), lambda blocks: len(blocks) == 1)
        faults: list[str] = []
        for standing in found:
            image = self._kernel.kramdown(standing.id)
            fault = wrong(standing, image)
            if fault:
                faults.append(fault)
            if standing.id in named or not fault:
                self.undo.append(Delete(standing.id))
                self.marks[standing.id] = images.mark(image)
            else:
                self.astray.add(standing.id)
        elsewhere = self._elsewhere(named, gap, [standing.id for standing in found])
        self.astray |= elsewhere
        if len(found) != 1 or faults or elsewhere:
            raise StepFailed(problem or (faults or [f"{len(found)} blocks where one should be"])[0])
        return found[0].id

    def _elsewhere(self, named: frozenset[str], gap: _Gap, found: list[str]) -> set[str]:
        """The blocks that the answer calls written, and that stand outside of the gap."""
        around = {gap.parent_id, gap.previous_id, gap.next_id, *found}
        others = self._kernel.standings(sorted(named - around))
        return {
            block_id
            for block_id, standing in others.items()
            if standing.parent_id not in named and standing.parent_id not in found
        }

    def _between(self, gap: _Gap) -> list[Standing]:
        """What stands in the gap by now, in order."""
        if not gap.previous_id and not gap.next_id:
            ids = [child.id for child in self._kernel.children(gap.parent_id)]
            there = self._kernel.standings(ids)
            return [there[block_id] for block_id in ids if block_id in there]
        end = gap.next_id if gap.previous_id else ""
        edge = self._standing(gap.previous_id or gap.next_id)
        found: list[Standing] = []
        while (at := edge.next_id if gap.previous_id else edge.previous_id) and at != end:
            edge = self._standing(at)
            found.append(edge)
            if len(found) > _FOLLOWED:
                raise StepFailed(f"more than {_FOLLOWED} blocks after {gap.previous_id}")
        if at != end:
            raise StepFailed(f"{gap.previous_id} and {gap.next_id} are no neighbours")
        return found if gap.previous_id else found[::-1]

    # Blocks that are there.

    def _update(self, change: Update) -> tuple[str, ...]:
        block_id = change.id
        stood, before = self._standing(block_id), self._image(block_id)
        attributes = self._kernel.attributes(block_id)
        (piece,) = self._pieces(change.markdown, stood.parent_id)

        def wrong(image: str) -> str:
            if images.plain(image) == images.plain(before):
                return "the block is as it was"
            return differing(change.markdown, image)

        image, problem = self._rewrite(block_id, change.markdown, stood, before, wrong)
        standing = self._standing(block_id)
        kind = "i" if stood.kind == "i" else piece.kind
        problem = wrong(image) and (problem or wrong(image))
        if not problem and standing.kind != kind:
            problem = f"the block is {standing.kind or 'of no kind'}, not {kind}"
        if problem:
            raise StepFailed(problem)
        keep = images.to_keep(attributes, same_kind=standing.kind == stood.kind)
        self._keep_attributes(block_id, keep)
        return (block_id,)

    def _put_back(self, change: Restore) -> tuple[str, ...]:
        block_id = change.id
        stood, before = self._standing(block_id), self._image(block_id)
        if images.same(before, change.image):
            self.marks[block_id] = images.mark(before)
            return (block_id,)

        def wrong(image: str) -> str:
            return "" if images.same_blocks(image, change.image) else "became another block"

        image, problem = self._rewrite(block_id, change.image, stood, before, wrong)
        if wrong(image):
            raise StepFailed(problem or wrong(image))
        had = images.attributes(change.image)[block_id]
        self._keep_attributes(block_id, images.to_keep(had, same_kind=True), alone=True)
        if not images.same(self._image(block_id), change.image):
            raise StepFailed("the block is not what it was")
        return (block_id,)

    def _rewrite(
        self,
        block_id: str,
        text: str,
        stood: Standing,
        before: str,
        wrong: Callable[[str], str],
    ) -> tuple[str, str]:
        """Let a block hold a text; its image then, and what the kernel said against it."""
        _, problem = self._write(lambda: self._kernel.update(block_id, text))
        image = self._look(lambda: self._kernel.kramdown(block_id), lambda seen: not wrong(seen))
        if not image:
            self.undo.append(_beside(block_id, before, stood))
        elif images.plain(image) != images.plain(before):
            self.undo.append(Restore(block_id, before))
        self.marks[block_id] = images.mark(image)
        standing = self._standing(block_id)
        if (standing.parent_id, standing.previous_id, standing.next_id) != (
            stood.parent_id,
            stood.previous_id,
            stood.next_id,
        ):
            raise StepFailed(problem or "the block stands elsewhere")
        return image, problem

    def _keep_attributes(self, block_id: str, keep: dict[str, str], *, alone: bool = False) -> None:
        """Let the block have these attributes; with `alone` no others of those that are kept."""

        def lacking() -> dict[str, str]:
            there = images.to_keep(self._kernel.attributes(block_id), same_kind=True)
            change = {name: value for name, value in keep.items() if there.get(name) != value}
            return change | ({name: "" for name in there if name not in keep} if alone else {})

        missing = lacking()
        if missing:
            _, problem = self._write(lambda: self._kernel.set_attributes(block_id, missing))
            left = self._look(lacking, lambda names: not names)
            self.marks[block_id] = images.mark(self._kernel.kramdown(block_id))
            if left:
                raise StepFailed(problem or f"attributes are lost: {', '.join(left)}")

    def _delete(self, block_id: str) -> tuple[str, ...]:
        stood = self._standing(block_id)
        parent = self._standing(stood.parent_id)
        while parent.kind == "l" and not stood.previous_id and not stood.next_id:
            stood, parent = parent, self._standing(parent.parent_id)
        block_id = stood.id
        before = self._image(block_id)
        _, problem = self._write(lambda: self._kernel.delete(block_id))
        if self._look(lambda: self._kernel.standings([block_id]), lambda there: not there):
            raise StepFailed(problem or f"{block_id} is still there")
        self.marks.pop(block_id, None)
        alone = not stood.previous_id and not stood.next_id
        filler = self._kernel.children(parent.id) if alone and parent.kind in ("d", "i") else []
        if len(filler) == 1 and not filler[0].markdown.strip():
            # the kernel leaves no document and no item empty
            self.undo.append(Delete(filler[0].id))
            self.undo.append(Restore(block_id, before, "before", filler[0].id))
        else:
            self.undo.append(_beside(block_id, before, stood))
        gap = _Gap(parent.id, stood.previous_id, stood.next_id)
        if not alone and self._between(gap):
            raise StepFailed(f"something stands where {block_id} was")
        return ()

    # What they share.

    def _write(self, send: Callable[[], frozenset[str]]) -> tuple[frozenset[str], str]:
        """Send what writes: the blocks that the answer names, and what it says against it.

        NotesUnavailable when it certainly was not done.
        """
        try:
            named, problem = send(), ""
        except KernelRefused as refused:
            named, problem = frozenset[str](), str(refused)
        except AnswerLost as lost:
            named, problem = frozenset[str](), lost.detail
        self.begun = True
        return named, problem

    def _look(self, look: Callable[[], Seen], good: Callable[[Seen], bool]) -> Seen:
        return settled(self._kernel, self._pause, look, good)

    def _gap(self, side: Side, anchor_id: str) -> _Gap:
        """The place that is meant, as it is now."""
        if side in ("first_in", "last_in"):
            held = self._kernel.children(anchor_id)
            if not held:
                return _Gap(anchor_id, "", "")
            if side == "first_in":
                return _Gap(anchor_id, "", held[0].id)
            return _Gap(anchor_id, held[-1].id, "")
        anchor = self._standing(anchor_id)
        if side == "before":
            return _Gap(anchor.parent_id, anchor.previous_id, anchor_id)
        return _Gap(anchor.parent_id, anchor_id, anchor.next_id)

    def _standing(self, block_id: str) -> Standing:
        found = self._kernel.standings([block_id])
        if block_id not in found:
            raise StepFailed(f"{block_id} is not there")
        return found[block_id]

    def _image(self, block_id: str) -> str:
        image = self._kernel.kramdown(block_id)
        if not image:
            raise StepFailed(f"{block_id} has no text")
        return image

    def _pieces(self, markdown: str, parent_id: str) -> tuple[Piece, ...]:
        """The blocks of a text, or its list items, as the container needs them."""
        pieces = self._split(markdown)
        in_list = self._standing(parent_id).kind == "l"
        try:
            return for_place(pieces, pieces[0].subtype if in_list and pieces else None)
        except Refusal as refused:  # the container is not what it was when this was prepared
            raise StepFailed(str(refused)) from None


def _wants(piece: Piece) -> Callable[[Standing, str], str]:
    """What is wrong with a new block that should be this piece."""

    def wrong(standing: Standing, image: str) -> str:
        if standing.kind != piece.kind:
            return f"a block is {standing.kind or 'of no kind'}, not {piece.kind}"
        return differing(piece.markdown, image)

    return wrong


def _beside(block_id: str, image: str, stood: Standing) -> Restore:
    """What brings a block back to where it stood."""
    if stood.previous_id:
        return Restore(block_id, image, "after", stood.previous_id)
    if stood.next_id:
        return Restore(block_id, image, "before", stood.next_id)
    return Restore(block_id, image, "first_in", stood.parent_id)
