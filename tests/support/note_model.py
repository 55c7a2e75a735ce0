"""A dumb store of blocks and a dumb way to split text, for the tests of block diffs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from copydesk.notes.plan import BlockImage, BlockOperation, BlockTree
from copydesk.notes.protocol import BlockText, InsertText, Move, NoteBlock, Update, named


def known(block_id: str, parent_id: str, kind: str, markdown: str) -> NoteBlock:
    """A block as a store knows it."""
    return NoteBlock(block_id, kind, "", markdown, "", parent_id, "doc", "", "", "")


def split(text: str) -> list[BlockText]:
    """Blocks are parted by blank lines; one that starts with `- ` is a list of such lines.

    `# ` starts a heading, `> ` a quote; a block of `%` alone is a comment, which is no block.
    """
    found: list[BlockText] = []
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
        below = tuple(BlockText("i", "", child) for child in children)
        found.append(BlockText(kind, "", block, below))
    return found


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
        blocks: Mapping[str, NoteBlock] = {
            k: known(k, self.parents[k], v.kind, v.markdown) for k, v in self.images.items()
        }
        return BlockTree(blocks, {k: tuple(v) for k, v in self.children.items()})

    def do(self, operation: BlockOperation) -> Callable[[], None]:
        """Do one operation, anchored on what was there before the plan; what takes it back."""
        change = operation.change
        if isinstance(change, Update):
            (after,) = operation.images
            before, held = self.images[change.id], self.children[change.id]
            assert (after.id, after.markdown) == (change.id, change.markdown)
            self._put(after)
            return lambda: self._put(before, held)
        if isinstance(change, InsertText):
            assert change.anchor_id in self.original
            parent, index = self._spot(change)
            for image in operation.images:
                assert image.id not in self.parents
                self._put(image, [])
                self.parents[image.id] = parent
            self.children[parent][index:index] = [image.id for image in operation.images]
            return lambda: self._take(*[image.id for image in operation.images])
        if isinstance(change, Move):
            return self._move(change)
        (block_id,) = named(change)
        assert not operation.images
        parent = self.parents[block_id]
        index = self.children[parent].index(block_id)
        self._take(block_id)

        def bring_back() -> None:
            self.parents[block_id] = parent
            self.children[parent].insert(index, block_id)

        return bring_back

    def _move(self, change: Move) -> Callable[[], None]:
        """Put neighbours elsewhere, with all in them; what takes it back."""
        home = self.parents[change.ids[0]]
        index = self.children[home].index(change.ids[0])
        assert tuple(self.children[home][index : index + len(change.ids)]) == change.ids
        at = change.anchor_id
        while at:
            assert at not in change.ids
            at = self.parents[at]
        del self.children[home][index : index + len(change.ids)]
        parent, place = self._spot(change)
        self.children[parent][place:place] = change.ids
        self.parents |= dict.fromkeys(change.ids, parent)

        def bring_back() -> None:
            del self.children[parent][place : place + len(change.ids)]
            self.children[home][index:index] = change.ids
            self.parents.update(dict.fromkeys(change.ids, home))

        return bring_back

    def _put(self, image: BlockImage, held: list[str] | None = None) -> None:
        known = self.original.get(image.id)
        as_before = known[1] if known and known[0] == image else []
        self.images[image.id] = image
        self.children[image.id] = as_before if held is None else held

    def _take(self, *block_ids: str) -> None:
        for block_id in block_ids:
            self.children[self.parents.pop(block_id)].remove(block_id)

    def _spot(self, change: InsertText | Move) -> tuple[str, int]:
        if change.side in ("first_in", "last_in"):
            held = self.children[change.anchor_id]
            return change.anchor_id, 0 if change.side == "first_in" else len(held)
        parent = self.parents[change.anchor_id]
        beside = self.children[parent]
        return parent, beside.index(change.anchor_id) + (change.side == "after")

    def shape(self, block_id: str = "doc") -> str:
        """The blocks under one, as `a | l(- x, - y) | b(z)`; items and new blocks by their text."""
        return " | ".join(map(self._shown, self.children[block_id]))

    def _shown(self, block_id: str) -> str:
        image = self.images[block_id]
        if image.kind not in ("l", "b") or not self.children[block_id]:
            return image.markdown.replace("\n", "/")
        return f"{image.kind}({', '.join(map(self._shown, self.children[block_id]))})"
