"""Changes of blocks in a kernel: a dry run on a tree; then written and read back, all or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from copydesk.errors import InvalidArgs, Refusal
from copydesk.store.notes.errors import (
    BlockChanged,
    BlockNotFound,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
    NotInvertible,
    WrongBlockKind,
    valid,
)
from copydesk.store.notes.kernel_api import (
    AnswerLost,
    Kernel,
    KernelRefused,
    Pause,
    Seen,
    TreeInfo,
    settled,
)
from copydesk.store.notes.kernel_blocks import (
    KernelNode,
    attributes_of,
    bound,
    checked,
    differing,
    mark_of,
    markdown_of_image,
    plain,
    same,
    same_blocks,
    same_text,
    to_keep,
)
from copydesk.store.notes.pieces import BlockText, SplitBlocks, for_place, for_update
from copydesk.store.notes.protocol import (
    CONTAINERS,
    Around,
    Change,
    ChangesDone,
    Delete,
    InsertText,
    Prepared,
    Restore,
    Side,
    Update,
    named,
)

_VANISHING = ("l", "b", "s")
"""Containers that the kernel removes together with the last block in them."""


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """What `execute` needs to know from the dry run.

    `marks` are those of the blocks that are written or deleted; `containers`
    those in which something changes; `idle` the indices of updates to a text
    that the block has already.
    """

    marks: Mapping[str, str]
    containers: tuple[str, ...]
    documents: tuple[str, ...]
    idle: frozenset[int]


def dry_run(kernel: Kernel, split: SplitBlocks, changes: Sequence[Change]) -> Prepared:
    """Check the changes; raises the refusal of the first that cannot be made or undone."""
    trial = _KernelDryRun(kernel, split, changes)
    before = trial.texts()
    for index, change in enumerate(changes):
        trial.take(index, change)
    return Prepared(tuple(changes), before, trial.texts(), held=trial.held())


class _KernelDryRun:
    """The blocks that changes name, with the containers around them read."""

    def __init__(self, kernel: Kernel, split: SplitBlocks, changes: Sequence[Change]) -> None:
        self._kernel = kernel
        self._split = split
        self._nodes: dict[str, KernelNode] = {}
        self._roots: list[KernelNode] = []
        self._lost: set[str] = set()
        self._restored: set[str] = set()  # restored ids: the blocks inside are not known
        self._marks: dict[str, str] = {}
        self._containers: dict[str, None] = {}
        self._idle: set[int] = set()
        standings = self._climb(
            [block_id for change in changes for block_id in map(valid, named(change))]
        )
        opened = {standing.parent_id for standing in standings.values()}
        for change in changes:
            if isinstance(change, InsertText | Restore) and change.side in ("first_in", "last_in"):
                opened.add(change.anchor_id)
        self._paths: dict[str, str] = {}
        for standing in standings.values():
            if standing.kind == "d":
                root = KernelNode(standing.id, "d", "", "")
                self._roots.append(root)
                self._open(root, opened)
                self._paths[root.id] = kernel.home(root.id).path

    def _climb(self, ids: Sequence[str]) -> dict[str, TreeInfo]:
        """The positions of the blocks that exist, and of all containers around them."""
        found: dict[str, TreeInfo] = {}
        wanted = list(dict.fromkeys(ids))
        while wanted:
            found.update(self._kernel.standings(wanted))
            parents = {standing.parent_id for standing in found.values()}
            wanted = sorted(parents - {""} - found.keys() - set(wanted))
        return found

    def _open(self, node: KernelNode, opened: set[str]) -> None:
        self._nodes[node.id] = node
        if node.id in opened and node.kind in CONTAINERS:
            for child in node.open(self._kernel.children(node.id)):
                self._open(child, opened)

    def texts(self) -> Mapping[str, str]:
        """The documents as they are now, by their paths."""
        return MappingProxyType({self._paths[root.id]: root.text() for root in self._roots})

    def held(self) -> HeldBlocks:
        """The facts for `execute`."""
        documents = tuple(root.id for root in self._roots)
        marks = MappingProxyType(self._marks)
        return HeldBlocks(marks, tuple(self._containers), documents, frozenset(self._idle))

    def take(self, index: int, change: Change) -> None:
        """Apply one change to the tree."""
        match change:
            case InsertText():
                self._insert(change)
            case Update():
                self._update(index, change)
            case Delete():
                self._delete(change)
            case Restore():
                if change.side is None:
                    self._put_back(change)
                else:
                    self._bring_back(change, change.side)

    def _insert(self, change: InsertText) -> None:
        checked(change.markdown)
        place = self._place(change.anchor_id, change.side)
        if place is None:
            return
        parent, at = place
        pieces = for_place(self._split(change.markdown), _list_subtype(parent))
        parent.put(at, [KernelNode.new(piece) for piece in pieces])

    def _update(self, index: int, change: Update) -> None:
        checked(change.markdown)
        node = self._block(change.id, change.over)
        if node is None or node.parent is None:
            return
        piece = for_update(self._split(change.markdown), _list_subtype(node.parent))
        if same_text(change.markdown, node.markdown):
            self._idle.add(index)
            if node.id not in self._restored:
                self._marks.setdefault(node.id, self._mark(node.id))
            return
        self._hold(node)
        self._forget_inside(node)
        node.become(piece)

    def _delete(self, change: Delete) -> None:
        node = self._block(change.id, change.over)
        if node is None or node.parent is None:
            return
        self._hold(node)
        parent = node.parent
        while parent.kind in _VANISHING and parent.children == [node]:
            assert parent.parent is not None
            node, parent = parent, parent.parent
            self._hold(node)
        self._forget_inside(node)
        del self._nodes[node.id]
        self._lost.add(node.id)
        node.leave()
        if not parent.children and parent.kind in ("d", "i"):
            parent.put(0, [KernelNode("", "p", "", "")])

    def _put_back(self, change: Restore) -> None:
        known = self._restores(change)
        node = self._block(change.id, change.over)
        if node is not None:
            self._hold(node)
        self._restored |= known
        if node is None:
            return
        self._forget_inside(node)
        node.markdown, node.children = markdown_of_image(change.image), None

    def _bring_back(self, change: Restore, side: Side) -> None:
        known = self._restores(change)
        if change.id in self._nodes:
            raise BlockChanged(block_id=change.id)
        place = self._place(change.anchor_id, side)
        self._restored |= known
        if place is None:
            return
        parent, at = place
        node = KernelNode(change.id, "", "", markdown_of_image(change.image))
        self._nodes[node.id] = node
        parent.put(at, [node])

    def _restores(self, change: Restore) -> set[str]:
        """The ids in an image; InvalidArgs if it is not an image of the block."""
        known = set(attributes_of(change.image))
        if change.id not in known:
            raise InvalidArgs("image", "is not one of the block")
        return known

    def _place(self, anchor_id: str, side: Side) -> tuple[KernelNode, int] | None:
        """The container and the index in it; None in a restored container."""
        anchor = self._node(anchor_id)
        if anchor is None:
            return None
        if side in ("first_in", "last_in"):
            if anchor.kind not in CONTAINERS:
                raise WrongBlockKind(anchor_id, anchor.kind, "container")
            parent = anchor
            if parent.children is None:  # an earlier change wrote all of it
                raise BlockChanged(block_id=anchor_id)
            at = 0 if side == "first_in" else len(parent.children)
        else:
            if anchor.parent is None or anchor.parent.children is None:
                raise WrongBlockKind(anchor_id, anchor.kind, "block")
            parent = anchor.parent
            at = anchor.parent.children.index(anchor) + (side == "after")
        self._containers[parent.id] = None
        return parent, at

    def _block(self, block_id: str, over: str) -> KernelNode | None:
        """The block to change; WrongBlockKind for a document, BlockChanged if not as in `over`."""
        node = self._node(block_id)
        if node is None:
            return None
        if node.kind == "d":
            raise WrongBlockKind(block_id, "d", "block")
        known = block_id in self._marks or block_id in self._restored
        if over and not known and self._mark(block_id) != over:
            raise BlockChanged(block_id=block_id)
        return node

    def _node(self, block_id: str) -> KernelNode | None:
        """The node of a block; None if it was restored within another one."""
        node = self._nodes.get(block_id)
        if node is None and block_id not in self._restored:
            raise BlockNotFound(block_id, lost=block_id in self._lost)
        return node

    def _hold(self, node: KernelNode) -> None:
        """Check that the block can be restored, and remember its mark."""
        if node.parent is not None:
            self._containers[node.parent.id] = None
        if node.id in self._marks or node.id in self._restored or node.id in self._lost:
            return
        image = self._kernel.kramdown(node.id)
        why = "kind" if node.kind in ("", "av") else bound(image)
        if not why and len(self._split(image)) != 1:
            why = "reads as other blocks"  # the kernel keeps blocks that its own text cannot make
        if why:
            raise NotInvertible(node.id, why)
        self._marks[node.id] = mark_of(image)

    def _mark(self, block_id: str) -> str:
        return mark_of(self._kernel.kramdown(block_id))

    def _forget_inside(self, node: KernelNode) -> None:
        """Forget the blocks inside of a node: they are gone."""
        for child in node.children or ():
            self._forget_inside(child)
            self._nodes.pop(child.id, None)
            self._lost.add(child.id)


def _list_subtype(parent: KernelNode) -> str | None:
    return parent.subtype if parent.kind == "l" else None


_FOLLOWED = 64
"""The most blocks that are followed between two neighbours."""


class StepFailed(Exception):
    """A change was not made as it should be; the message says what is there instead."""


@dataclass(frozen=True, slots=True)
class _Before:
    """The images of the blocks that will change, and the order in their containers."""

    images: Mapping[str, str]
    orders: Mapping[str, tuple[str, ...]]


class KernelWriter:
    """Makes changes one after the other.

    `undo` has the inverse of each change, in the order they were made: the last is undone
    first. `begun`: a request that writes was sent. `marks` are those of the blocks as this
    left them. `astray` are blocks in a wrong place that are not certainly ours to delete.
    """

    def __init__(self, kernel: Kernel, split: SplitBlocks, pause: Pause = time.sleep) -> None:
        self._kernel = kernel
        self._split = split
        self._pause = pause
        self.undo: list[Change] = []
        self.marks: dict[str, str] = {}
        self.astray: set[str] = set()
        self.begun = False

    def make(self, change: Change) -> tuple[str, ...]:
        """Make one change and return the ids it left. Raises StepFailed, NotesUnavailable."""
        match change:
            case InsertText():
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

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        gap = self._gap(change.side, change.anchor_id)
        pieces = self._pieces(change.markdown, gap.parent_id)
        made: list[str] = []
        for piece in pieces:
            made.append(self._put(piece.markdown, gap, _wants(piece)))
            gap = Around(gap.parent_id, made[-1], gap.next_id)
        return tuple(made)

    def _bring_back(self, change: Restore, side: Side) -> tuple[str, ...]:
        def wrong(standing: TreeInfo, image: str) -> str:
            return "" if same(image, change.image) else "came back as another block"

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
                self.undo.append(back)  # the id did not exist before, so we created it
            raise

    def _put(self, text: str, gap: Around, wrong: Callable[[TreeInfo, str], str]) -> str:
        """Insert one block and return its id. `wrong` says what is wrong with a block."""
        named, problem = self._write(lambda: self._kernel.insert(text, gap))
        found = self._look(lambda: self._between(gap), lambda blocks: len(blocks) == 1)
        faults: list[str] = []
        for standing in found:
            image = self._kernel.kramdown(standing.id)
            fault = wrong(standing, image)
            if fault:
                faults.append(fault)
            if standing.id in named or not fault:
                self.undo.append(Delete(standing.id))
                self.marks[standing.id] = mark_of(image)
            else:
                self.astray.add(standing.id)
        elsewhere = self._elsewhere(named, gap, [standing.id for standing in found])
        self.astray |= elsewhere
        if len(found) != 1 or faults or elsewhere:
            raise StepFailed(problem or (faults or [f"{len(found)} blocks where one should be"])[0])
        return found[0].id

    def _elsewhere(self, named: frozenset[str], gap: Around, found: list[str]) -> set[str]:
        """The blocks that the answer names as written and that are outside of the gap."""
        around = {gap.parent_id, gap.previous_id, gap.next_id, *found}
        others = self._kernel.standings(sorted(named - around))
        return {
            block_id
            for block_id, standing in others.items()
            if standing.parent_id not in named and standing.parent_id not in found
        }

    def _between(self, gap: Around) -> list[TreeInfo]:
        """The blocks in the gap now, in order."""
        if not gap.previous_id and not gap.next_id:
            ids = [child.id for child in self._kernel.children(gap.parent_id)]
            there = self._kernel.standings(ids)
            return [there[block_id] for block_id in ids if block_id in there]
        end = gap.next_id if gap.previous_id else ""
        edge = self._standing(gap.previous_id or gap.next_id)
        found: list[TreeInfo] = []
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
            if plain(image) == plain(before):
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
        keep = to_keep(attributes, same_kind=standing.kind == stood.kind)
        self._keep_attributes(block_id, keep)
        return (block_id,)

    def _put_back(self, change: Restore) -> tuple[str, ...]:
        block_id = change.id
        stood, before = self._standing(block_id), self._image(block_id)
        if same(before, change.image):
            self.marks[block_id] = mark_of(before)
            return (block_id,)

        def wrong(image: str) -> str:
            return "" if same_blocks(image, change.image) else "became another block"

        image, problem = self._rewrite(block_id, change.image, stood, before, wrong)
        if wrong(image):
            raise StepFailed(problem or wrong(image))
        had = attributes_of(change.image)[block_id]
        self._keep_attributes(block_id, to_keep(had, same_kind=True), alone=True)
        if not same(self._image(block_id), change.image):
            raise StepFailed("the block is not what it was")
        return (block_id,)

    def _rewrite(
        self,
        block_id: str,
        text: str,
        stood: TreeInfo,
        before: str,
        wrong: Callable[[str], str],
    ) -> tuple[str, str]:
        """Write a block's text; its image afterwards, and the kernel's objection."""
        _, problem = self._write(lambda: self._kernel.update(block_id, text))
        image = self._look(lambda: self._kernel.kramdown(block_id), lambda seen: not wrong(seen))
        if not image:
            self.undo.append(_beside(block_id, before, stood))
        elif plain(image) != plain(before):
            self.undo.append(Restore(block_id, before))
        self.marks[block_id] = mark_of(image)
        if self._standing(block_id).around != stood.around:
            raise StepFailed(problem or "the block stands elsewhere")
        return image, problem

    def _keep_attributes(self, block_id: str, keep: dict[str, str], *, alone: bool = False) -> None:
        """Set these attributes; with `alone` remove all others that would be kept."""

        def lacking() -> dict[str, str]:
            there = to_keep(self._kernel.attributes(block_id), same_kind=True)
            change = {name: value for name, value in keep.items() if there.get(name) != value}
            return change | ({name: "" for name in there if name not in keep} if alone else {})

        missing = lacking()
        if missing:
            _, problem = self._write(lambda: self._kernel.set_attributes(block_id, missing))
            left = self._look(lacking, lambda names: not names)
            self.marks[block_id] = mark_of(self._kernel.kramdown(block_id))
            if left:
                raise StepFailed(problem or f"attributes are lost: {', '.join(left)}")

    def _delete(self, block_id: str) -> tuple[str, ...]:
        stood = self._standing(block_id)
        parent = self._standing(stood.parent_id)
        while parent.kind in _VANISHING and not stood.previous_id and not stood.next_id:
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
        gap = Around(parent.id, stood.previous_id, stood.next_id)
        if not alone and self._between(gap):
            raise StepFailed(f"something stands where {block_id} was")
        return ()

    # What they share.

    def _write(self, send: Callable[[], frozenset[str]]) -> tuple[frozenset[str], str]:
        """Send a request that writes: the ids that the answer names, and the kernel's objection.

        Raises NotesUnavailable if it certainly was not done.
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

    def _gap(self, side: Side, anchor_id: str) -> Around:
        """The neighbours of the place beside or in the anchor, as they are now."""
        if side in ("first_in", "last_in"):
            held = self._kernel.children(anchor_id)
            if not held:
                return Around(anchor_id, "", "")
            if side == "first_in":
                return Around(anchor_id, "", held[0].id)
            return Around(anchor_id, held[-1].id, "")
        anchor = self._standing(anchor_id)
        if side == "before":
            return Around(anchor.parent_id, anchor.previous_id, anchor_id)
        return Around(anchor.parent_id, anchor_id, anchor.next_id)

    def _standing(self, block_id: str) -> TreeInfo:
        found = self._kernel.standings([block_id])
        if block_id not in found:
            raise StepFailed(f"{block_id} is not there")
        return found[block_id]

    def _image(self, block_id: str) -> str:
        image = self._kernel.kramdown(block_id)
        if not image:
            raise StepFailed(f"{block_id} has no text")
        return image

    def _pieces(self, markdown: str, parent_id: str) -> tuple[BlockText, ...]:
        """The blocks of a text, or its list items if the container is a list."""
        pieces = self._split(markdown)
        in_list = self._standing(parent_id).kind == "l"
        try:
            return for_place(pieces, pieces[0].subtype if in_list and pieces else None)
        except Refusal as refused:  # the container changed since this was prepared
            raise StepFailed(str(refused)) from None

    # Taking back.

    def take_back(self, before: _Before, *, blind: bool) -> tuple[str, ...]:
        """Undo all changes as far as possible; the blocks that are not as they were before.

        `blind`: an answer was lost, so no new block at all may be there.
        """
        back = KernelWriter(self._kernel, self._split, self._pause)
        for change in reversed(self.undo):
            with suppress(StepFailed, Refusal):  # what comes of it is read below
                back.make(change)
        ours = self.astray | back.astray | {named(change)[0] for change in self.undo}
        try:
            self._kernel.flush()
            left = set(self._kernel.standings(sorted(ours - before.images.keys())))
            left |= {one for one, image in before.images.items() if not back.is_back(one, image)}
            for container, order in before.orders.items():
                now = _order(self._kernel, container)
                if tuple(now if blind else (one for one in now if one in order)) != order:
                    left.add(container)
        except NotesUnavailable:
            left = ours | before.images.keys() | before.orders.keys()
        return tuple(sorted(left))

    def is_back(self, block_id: str, image: str) -> bool:
        """Whether a block has its former text; if not, it is restored once more."""
        if same(self._kernel.kramdown(block_id), image):
            return True
        with suppress(StepFailed, Refusal):
            self.make(Restore(block_id, image))
        return same(self._kernel.kramdown(block_id), image)

    def way_back(self) -> tuple[Change, ...]:
        """The changes that undo all, each with the mark of the block that it expects.

        A block that cannot be read any more keeps the mark of when it was written.
        """
        marked: set[str] = set()
        changes: list[Change] = []
        for change in reversed(self.undo):
            if not isinstance(change, InsertText) and getattr(change, "side", None) is None:
                if change.id not in marked:
                    change = replace(change, over=self._mark(change.id))
                marked.add(change.id)
            changes.append(change)
        return tuple(changes)

    def _mark(self, block_id: str) -> str:
        try:
            image = self._kernel.kramdown(block_id)
        except NotesUnavailable:
            return self.marks.get(block_id, "")
        return mark_of(image) if image else ""


def _wants(piece: BlockText) -> Callable[[TreeInfo, str], str]:
    """A check of a new block against the piece that it should be."""

    def wrong(standing: TreeInfo, image: str) -> str:
        if standing.kind != piece.kind:
            return f"a block is {standing.kind or 'of no kind'}, not {piece.kind}"
        return differing(piece.markdown, image)

    return wrong


def _beside(block_id: str, image: str, stood: TreeInfo) -> Restore:
    """The change that restores a deleted block in its place."""
    if stood.previous_id:
        return Restore(block_id, image, "after", stood.previous_id)
    if stood.next_id:
        return Restore(block_id, image, "before", stood.next_id)
    return Restore(block_id, image, "first_in", stood.parent_id)


def execute(
    kernel: Kernel, split: SplitBlocks, prepared: Prepared, held: HeldBlocks, pause: Pause
) -> ChangesDone:
    """Make the changes. BlockChanged, NotesRolledBack, NotesTorn; NotesUnavailable before any."""
    if not prepared.changes:
        return ChangesDone(())
    kernel.flush()
    before = _read(kernel, held)
    for document_id in held.documents:
        with suppress(KernelRefused, NotesUnavailable):  # a second net, not the first
            kernel.keep_history(document_id)
    writing = KernelWriter(kernel, split, pause)
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
        left = writing.take_back(before, blind=blind)
        if left:
            raise NotesTorn(index, detail, left)
        raise NotesRolledBack(index, named(change)[0], detail)
    return ChangesDone(tuple(made), writing.way_back())


def _read(kernel: Kernel, held: HeldBlocks) -> _Before:
    """Re-read the affected blocks; raises BlockChanged if one changed since the dry run."""
    found: dict[str, str] = {}
    for block_id, mark in held.marks.items():
        image = kernel.kramdown(block_id)
        if mark_of(image) != mark:
            raise BlockChanged(block_id=block_id)
        found[block_id] = image
    orders = {container: _order(kernel, container) for container in held.containers}
    return _Before(found, orders)


def _order(kernel: Kernel, container_id: str) -> tuple[str, ...]:
    return tuple(child.id for child in kernel.children(container_id))
