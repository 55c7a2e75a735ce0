"""A dumb store of blocks and a dumb way to split text, for the tests of block diffs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from copydesk.notes.grammar import NewText
from copydesk.notes.plan import (
    BlockImage,
    BlockOperation,
    BlockPlan,
    BlockPosition,
    BlockTree,
    DeleteBlock,
    InsertBlocks,
    UpdateBlock,
)


@dataclass(frozen=True)
class Known:
    """A block as a store knows it."""

    id: str
    parent_id: str
    kind: str
    markdown: str


def split(text: str) -> list[NewText]:
    """Blocks are parted by blank lines; one that starts with `- ` is a list of such lines.

    `# ` starts a heading, `> ` a quote; a block of `%` alone is a comment, which is no block.
    """
    found: list[NewText] = []
    for part in "\n".join(line if line.strip() else "" for line in text.split("\n")).split("\n\n"):
        block = part.strip("\n")
        if not block or block.startswith("%"):
            continue
        kind = {"- ": "l", "> ": "b"}.get(block[:2], "h" if block.lstrip("#")[:1] == " " else "p")
        if block.lstrip("#") == block and kind == "h":
            kind = "p"
        items = block.split("\n- ")
        first, *rest = items
        children = (first, *(f"- {item}" for item in rest)) if kind == "l" else ()
        found.append(NewText(kind, block, tuple(NewText("i", child) for child in children)))
    return found


def inverse_of(operation: BlockOperation) -> BlockOperation:
    """What takes an operation back: each has all that this needs."""
    if isinstance(operation, UpdateBlock):
        return UpdateBlock(operation.after, operation.before, operation.lines)
    other = DeleteBlock if isinstance(operation, InsertBlocks) else InsertBlocks
    return other(operation.place, operation.markdown, operation.images, operation.lines)


def inverses_of(plan: BlockPlan) -> list[BlockOperation]:
    """What takes the operations of a plan back, in the order to do it."""
    return [inverse_of(operation) for operation in reversed(plan.operations)]


Spec = tuple[str, str, str, Sequence["Spec"]]
"""A block to be made: id, kind, markdown (of a leaf), what it holds."""


@dataclass
class Model:
    """Blocks in lists; operations are done one by one, as a store would, and checked."""

    images: dict[str, BlockImage] = field(default_factory=dict[str, BlockImage])
    children: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    original: dict[str, tuple[BlockImage, list[str]]] = field(
        default_factory=dict[str, tuple[BlockImage, list[str]]]
    )

    @staticmethod
    def of(spec: Spec) -> Model:
        """The document of a spec."""
        model = Model()
        model._add(spec, "")
        model.original = {k: (v, list(model.children[k])) for k, v in model.images.items()}
        return model

    def _add(self, spec: Spec, parent: str) -> str:
        block_id, kind, markdown, held = spec
        self.parents[block_id] = parent
        self.images[block_id] = BlockImage(block_id, kind, "")
        self.children[block_id] = [one[0] for one in held]
        parts = [self._add(one, block_id) for one in held]
        if kind == "l":
            markdown = "\n".join(parts)
        elif kind == "b":
            markdown = "\n>\n".join(f"> {part}" for part in parts)
        self.images[block_id] = BlockImage(block_id, kind, markdown)
        return markdown

    @property
    def tree(self) -> BlockTree:
        """All of it, as the planning takes it."""
        blocks: Mapping[str, Known] = {
            k: Known(k, self.parents[k], v.kind, v.markdown) for k, v in self.images.items()
        }
        return BlockTree(blocks, {k: tuple(v) for k, v in self.children.items()})

    def do(self, operation: BlockOperation, *, forward: bool = True) -> None:
        """Do one operation; that of a plan must be anchored on what was there before it."""
        if isinstance(operation, UpdateBlock):
            block_id = operation.before.id
            assert self.images[block_id] == operation.before
            assert operation.after.id == block_id
            self.images[block_id] = operation.after
            known = self.original.get(block_id)
            self.children[block_id] = known[1] if known and known[0] == operation.after else []
        elif isinstance(operation, InsertBlocks):
            assert not forward or operation.place.anchor in self.original
            parent, index = self._spot(operation.place)
            names = [image.id for image in operation.images]
            for image in operation.images:
                assert image.id not in self.parents
                self.images[image.id] = image
                self.parents[image.id] = parent
                self.children.setdefault(image.id, [])
            self.children[parent][index:index] = names
        else:
            for image in operation.images:
                assert self.images[image.id] == image
                self.children[self.parents.pop(image.id)].remove(image.id)
            assert not forward or self._spot(operation.place)

    def _spot(self, place: BlockPosition) -> tuple[str, int]:
        if place.side in ("first_in", "last_in"):
            held = self.children[place.anchor]
            return place.anchor, 0 if place.side == "first_in" else len(held)
        parent = self.parents[place.anchor]
        return parent, self.children[parent].index(place.anchor) + (place.side == "after")

    def shape(self, block_id: str = "doc") -> str:
        """The blocks under one, as `a | l(- x, - y) | b(z)`; items and new blocks by their text."""
        return " | ".join(map(self._shown, self.children[block_id]))

    def _shown(self, block_id: str) -> str:
        image = self.images[block_id]
        if image.kind not in ("l", "b") or not self.children[block_id]:
            return image.markdown.replace("\n", "/")
        return f"{image.kind}({', '.join(map(self._shown, self.children[block_id]))})"
