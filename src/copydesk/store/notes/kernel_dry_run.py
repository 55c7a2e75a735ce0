"""The dry run of changes of blocks in a kernel, on a tree of what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes.kernel_api import Kernel, TreeInfo
from copydesk.store.notes.kernel_blocks import (
    VANISHING,
    KernelNode,
    addressed,
    attributes_of,
    bound,
    changing,
    checked,
    expected,
    mark_of,
    markdown_of_image,
    same_text,
)
from copydesk.store.notes.protocol import (
    CONTAINERS,
    BlockChanged,
    BlockNotFound,
    Change,
    Delete,
    InsertText,
    NoteNotice,
    NotInvertible,
    Prepared,
    Restore,
    Side,
    SplitBlocks,
    Update,
    WrongBlockKind,
    for_place,
    for_update,
    named,
    valid,
)


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """What `execute` needs to know from the dry run.

    `marks` are those of the blocks that are written or deleted, `doms` what an editor gets of
    these; `containers` those in which something changes; `idle` the indices of updates to a text
    that the block has already.
    """

    marks: Mapping[str, str]
    containers: tuple[str, ...]
    documents: tuple[str, ...]
    idle: frozenset[int]
    doms: Mapping[str, str]


def dry_run(kernel: Kernel, split: SplitBlocks, changes: Sequence[Change]) -> Prepared:
    """Check the changes; raises the refusal of the first that cannot be made or undone."""
    trial = _KernelDryRun(kernel, split, changes)
    before = trial.texts()
    for index, change in enumerate(changes):
        trial.take(index, change)
    return Prepared(
        tuple(changes), before, trial.texts(), held=trial.held(), notices=tuple(trial.notices)
    )


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
        self.notices: list[NoteNotice] = []
        standings = self._climb(
            [block_id for change in changes for block_id in map(valid, named(change))]
        )
        opened = {standing.parent_id for standing in standings.values()}
        for change in changes:
            if isinstance(change, InsertText | Restore) and change.side in ("first_in", "last_in"):
                opened.add(change.anchor_id)
        touched = [named(change)[0] for change in changes if not isinstance(change, InsertText)]
        self._images = kernel.images(
            touched, {one: standings[one] for one in touched if one in standings}
        )
        self._doms = kernel.doms([one for one in self._images if standings[one].kind != "d"])
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
        doms = MappingProxyType(self._doms)
        return HeldBlocks(marks, tuple(self._containers), documents, frozenset(self._idle), doms)

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
        if node.kind in CONTAINERS and node.id not in self._restored:
            signed = self._kernel.signed(node.id)
            lost = addressed(node.id, change.markdown, self._image(node.id), signed).lost
            if lost:
                self.notices.append(NoteNotice("ids", node.id, ", ".join(lost)))
        self._forget_inside(node)
        node.become(piece)

    def _delete(self, change: Delete) -> None:
        node = self._block(change.id, change.over)
        if node is None or node.parent is None:
            return
        self._hold(node)
        parent = node.parent
        while parent.kind in VANISHING and parent.children == [node]:
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
            self._hold(node, back=True)
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
        known = set(attributes_of(change.image))
        if change.id not in known:
            raise InvalidArgs("image", "is not one of the block")
        return known

    def _place(self, anchor_id: str, side: Side) -> tuple[KernelNode, int] | None:
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
        if over and not known and not expected(over, self._image(block_id)):
            raise BlockChanged(block_id=block_id)
        return node

    def _node(self, block_id: str) -> KernelNode | None:
        """The node of a block; None if it was restored within another one."""
        node = self._nodes.get(block_id)
        if node is None and block_id not in self._restored:
            raise BlockNotFound(block_id, lost=block_id in self._lost)
        return node

    def _hold(self, node: KernelNode, *, back: bool = False) -> None:
        """Check that the block can be restored, and keep its mark; one that goes `back` freely."""
        if node.parent is not None:
            self._containers[node.parent.id] = None
        if node.id in self._marks or node.id in self._restored or node.id in self._lost:
            return
        image = self._image(node.id)
        why = "kind" if node.kind in ("", "av") else bound(image)
        if not why and not back:
            why = self._changing(node, image)
        if why:
            raise NotInvertible(node.id, why)
        self._marks[node.id] = mark_of(image)

    def _changing(self, node: KernelNode, image: str) -> str:
        """What the kernel would not make again of the block; empty for nothing."""
        pieces = self._split(image)
        kinds = ("l", "i") if node.kind == "i" else (node.kind,)
        if len(pieces) != 1 or (node.kind and pieces[0].kind not in kinds):
            return "reads as other blocks"  # the kernel keeps what its own text cannot make
        if node.id not in self._doms:
            self._doms |= self._kernel.doms([node.id])
        signed = self._kernel.signed(node.id) if "\u200b" in image else ""
        return changing(image, signed, self._doms.get(node.id, ""))

    def _image(self, block_id: str) -> str:
        if block_id not in self._images:
            self._images[block_id] = self._kernel.kramdown(block_id)
        return self._images[block_id]

    def _mark(self, block_id: str) -> str:
        return mark_of(self._image(block_id))

    def _forget_inside(self, node: KernelNode) -> None:
        for child in node.children or ():
            self._forget_inside(child)
            self._nodes.pop(child.id, None)
            self._lost.add(child.id)


def _list_subtype(parent: KernelNode) -> str | None:
    return parent.subtype if parent.kind == "l" else None
