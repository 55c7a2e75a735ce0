"""Changes tried on a tree in memory: all of them can be made and taken back, or a refusal.

What lives here: what `prepare` checks, and the texts before and after. What must
not: a call that writes. Invariant: each change is judged on the blocks as those
before it leave them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes import kernel_image as images
from copydesk.store.notes.block_id import valid
from copydesk.store.notes.errors import BlockChanged, BlockNotFound, NotInvertible, WrongBlockKind
from copydesk.store.notes.kernel_calls import Kernel
from copydesk.store.notes.kernel_rows import Standing
from copydesk.store.notes.kernel_text import checked, same_text
from copydesk.store.notes.kernel_tree import Node
from copydesk.store.notes.pieces import Split, for_place, for_update
from copydesk.store.notes.protocol import (
    CONTAINERS,
    Change,
    Delete,
    Insert,
    Prepared,
    Restore,
    Side,
    Update,
)


@dataclass(frozen=True, slots=True)
class Held:
    """What the writing needs to know of the trial.

    `marks` are those of the blocks that are written or deleted; `containers`
    those in which something changes; `idle` the indices of updates to a text
    that the block has already.
    """

    marks: Mapping[str, str]
    containers: tuple[str, ...]
    documents: tuple[str, ...]
    idle: frozenset[int]


def try_out(kernel: Kernel, split: Split, changes: Sequence[Change]) -> Prepared:
    """The changes, checked; raises the refusal of the first that cannot be made or taken back."""
    trial = _Trial(kernel, split, changes)
    before = trial.texts()
    for index, change in enumerate(changes):
        trial.take(index, change)
    return Prepared(tuple(changes), before, trial.texts(), held=trial.held())


def _named(change: Change) -> list[str]:
    """The blocks that a change needs to be there."""
    if isinstance(change, Insert):
        return [valid(change.anchor_id)]
    if isinstance(change, Restore) and change.side is not None:
        return [valid(change.id), valid(change.anchor_id)]
    return [valid(change.id)]


class _Trial:
    """The blocks that changes name, with the containers around them open."""

    def __init__(self, kernel: Kernel, split: Split, changes: Sequence[Change]) -> None:
        self._kernel = kernel
        self._split = split
        self._nodes: dict[str, Node] = {}
        self._roots: list[Node] = []
        self._lost: set[str] = set()
        self._restored: set[str] = set()  # came back, with blocks inside that are not known
        self._marks: dict[str, str] = {}
        self._containers: dict[str, None] = {}
        self._idle: set[int] = set()
        standings = self._climb([block_id for change in changes for block_id in _named(change)])
        opened = {standing.parent_id for standing in standings.values()}
        for change in changes:
            if isinstance(change, Insert | Restore) and change.side in ("first_in", "last_in"):
                opened.add(change.anchor_id)
        self._paths: dict[str, str] = {}
        for standing in standings.values():
            if standing.kind == "d":
                root = Node(standing.id, "d", "", "")
                self._roots.append(root)
                self._open(root, opened)
                self._paths[root.id] = kernel.home(root.id).path

    def _climb(self, ids: Sequence[str]) -> dict[str, Standing]:
        """Where the blocks stand that are there, and all containers around them."""
        found: dict[str, Standing] = {}
        wanted = list(dict.fromkeys(ids))
        while wanted:
            found.update(self._kernel.standings(wanted))
            parents = {standing.parent_id for standing in found.values()}
            wanted = sorted(parents - {""} - found.keys() - set(wanted))
        return found

    def _open(self, node: Node, opened: set[str]) -> None:
        self._nodes[node.id] = node
        if node.id in opened and node.kind in CONTAINERS:
            for child in node.open(self._kernel.children(node.id)):
                self._open(child, opened)

    def texts(self) -> Mapping[str, str]:
        """The documents as they are now, by their paths."""
        return MappingProxyType({self._paths[root.id]: root.text() for root in self._roots})

    def held(self) -> Held:
        """What was learnt."""
        documents = tuple(root.id for root in self._roots)
        marks = MappingProxyType(self._marks)
        return Held(marks, tuple(self._containers), documents, frozenset(self._idle))

    def take(self, index: int, change: Change) -> None:
        """Make one change on the tree."""
        match change:
            case Insert():
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

    def _insert(self, change: Insert) -> None:
        checked(change.markdown)
        place = self._place(change.anchor_id, change.side)
        if place is None:
            return
        parent, at = place
        pieces = for_place(self._split(change.markdown), _list_subtype(parent))
        parent.put(at, [Node.new(piece) for piece in pieces])

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
        while parent.kind == "l" and parent.children == [node] and parent.parent is not None:
            node, parent = parent, parent.parent
            self._hold(node)
        self._forget_inside(node)
        del self._nodes[node.id]
        self._lost.add(node.id)
        node.leave()
        if not parent.children and parent.kind in ("d", "i"):
            parent.put(0, [Node("", "p", "", "")])

    def _put_back(self, change: Restore) -> None:
        known = self._restores(change)
        node = self._block(change.id, change.over)
        if node is not None:
            self._hold(node)
        self._restored |= known
        if node is None:
            return
        self._forget_inside(node)
        node.markdown, node.children = images.without_attributes(change.image), None

    def _bring_back(self, change: Restore, side: Side) -> None:
        known = self._restores(change)
        if change.id in self._nodes:
            raise BlockChanged(block_id=change.id)
        place = self._place(change.anchor_id, side)
        self._restored |= known
        if place is None:
            return
        parent, at = place
        node = Node(change.id, "", "", images.without_attributes(change.image))
        self._nodes[node.id] = node
        parent.put(at, [node])

    def _restores(self, change: Restore) -> set[str]:
        """The ids in an image, which is one of the block."""
        known = set(images.attributes(change.image))
        if change.id not in known:
            raise InvalidArgs("image", "is not one of the block")
        return known

    def _place(self, anchor_id: str, side: Side) -> tuple[Node, int] | None:
        """The container and the index in it; None among blocks that are not known."""
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

    def _block(self, block_id: str, over: str) -> Node | None:
        """A block that is no document, and is what the change is made for."""
        node = self._node(block_id)
        if node is None:
            return None
        if node.kind == "d":
            raise WrongBlockKind(block_id, "d", "block")
        known = block_id in self._marks or block_id in self._restored
        if over and not known and self._mark(block_id) != over:
            raise BlockChanged(block_id=block_id)
        return node

    def _node(self, block_id: str) -> Node | None:
        """The node of a block; None when it came back in one that is not known."""
        node = self._nodes.get(block_id)
        if node is None and block_id not in self._restored:
            raise BlockNotFound(block_id, lost=block_id in self._lost)
        return node

    def _hold(self, node: Node) -> None:
        """Make sure that the block can be brought back, and remember what it is."""
        if node.parent is not None:
            self._containers[node.parent.id] = None
        if node.id in self._marks or node.id in self._restored or node.id in self._lost:
            return
        image = self._kernel.kramdown(node.id)
        why = "kind" if node.kind in ("", "av") else images.bound(image)
        if not why and len(self._split(image)) != 1:
            why = "reads as other blocks"  # the kernel keeps blocks that its own text cannot make
        if why:
            raise NotInvertible(node.id, why)
        self._marks[node.id] = images.mark(image)

    def _mark(self, block_id: str) -> str:
        return images.mark(self._kernel.kramdown(block_id))

    def _forget_inside(self, node: Node) -> None:
        """The blocks in a node are not there any more."""
        for child in node.children or ():
            self._forget_inside(child)
            self._nodes.pop(child.id, None)
            self._lost.add(child.id)


def _list_subtype(parent: Node) -> str | None:
    return parent.subtype if parent.kind == "l" else None
