"""The hunks of a diff on a working copy of the blocks: where each acts, and what it makes.

What lives here: the working copy. What must not: the store; the operations
(`plan`). Invariants: hunks are taken in the order of the text, each on the blocks
as those before it leave them; every SEARCH is compared with the block that its
own header names; nothing that one hunk writes is lost by another.

- Two hunks that write or delete one block are refused; so are one that writes or
  deletes a container and one that acts inside of it.
- Blocks put beside a block go with an update of it, and with its deletion if
  they come first; beside a block that is deleted already, they are refused.
- Several AFTER of one block keep their order, as do several of the other
  commands. AFTER stands behind all blocks that an update makes of its block.
- A text of several blocks updates the block with the first and inserts the
  others behind it. In a list the blocks of a text are the items of its lists.
- Into a heading is into its section: PREPEND right below the heading, as AFTER
  does; APPEND before the next heading that is not below it.
"""

from __future__ import annotations

from dataclasses import dataclass

from copydesk.edit.notes.blocks import (
    CONTAINERS,
    Image,
    Piece,
    Split,
    Tree,
    heading_level,
    image_of,
)
from copydesk.edit.notes.claims import Claims, Unfit
from copydesk.edit.notes.hunk import Hunk
from copydesk.edit.notes.match import same
from copydesk.edit.notes.order import Order


@dataclass(frozen=True, slots=True)
class New:
    """A block that a hunk makes; `pieces` is how many blocks its text is.

    `leans`: it belongs to the block before it, not to the one behind it.
    """

    image: Image
    hunk: Hunk
    pieces: int
    leans: bool


class Working:
    """The blocks as the hunks so far leave them.

    Deleted blocks keep their place in the order, for those that are put beside
    them; `made` are the new ones by name, in the order in which they were made.
    """

    def __init__(self, tree: Tree, split: Split, *, strict: bool) -> None:
        self.order = Order(tree.children)
        self.made: dict[str, New] = {}
        self.updated: dict[str, tuple[Image, Hunk]] = {}
        self.deleted: dict[str, Hunk] = {}
        self.grown: dict[str, None] = {}  # the parents of new blocks, as an ordered set
        self._tree = tree
        self._split = split
        self._strict = strict
        self._claims = Claims(tree)
        self._tails: dict[tuple[str, str], str] = {}  # the last block of this action there

    def take(self, hunk: Hunk) -> None:
        """Do what one hunk asks for. Raises Unfit; then only its claim is left."""
        if hunk.block_id not in self._tree.blocks:
            raise Unfit("BLOCK_NOT_FOUND")
        if hunk.deletes or hunk.rewrites:
            self._write(hunk)
        else:
            self._put(hunk)

    def image(self, block_id: str) -> Image:
        """A block as it is now."""
        if block_id in self.made:
            return self.made[block_id].image
        if block_id in self.updated:
            return self.updated[block_id][0]
        return image_of(self._tree.blocks[block_id])

    def _write(self, hunk: Hunk) -> None:
        before = self.image(hunk.block_id)
        if before.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        self._claims.write(hunk)
        if hunk.search is not None and not same(hunk.search, before.markdown, strict=self._strict):
            raise Unfit("CONTENT_MISMATCH.text")
        if hunk.deletes:
            self.deleted[before.id] = hunk
            return
        parent = self._tree.blocks[before.id].parent_id
        first, *rest = pieces = self._pieces(hunk.text, parent)
        self.updated[before.id] = Image(before.id, first.kind, first.markdown), hunk
        if rest:
            last = self._insert(hunk, parent, before.id, rest, len(pieces), leans=True)
            self._tails["rest", before.id] = last

    def _put(self, hunk: Hunk) -> None:
        target = self.image(hunk.block_id)
        within = hunk.action in ("PREPEND", "APPEND") and target.kind != "h"
        if within and target.kind not in CONTAINERS:
            raise Unfit("INVALID_TARGET.leaf")
        if not within and target.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        parent = target.id if within else self._tree.blocks[target.id].parent_id
        pieces = self._pieces(hunk.text, parent)
        self._claims.put(target.id, hunk.line, within=within)
        action = "AFTER" if target.kind == "h" and hunk.action == "PREPEND" else hunk.action
        previous = self._spot(action, target, parent)
        leans = action in ("AFTER", "PREPEND") or (action == "APPEND" and not within)
        last = self._insert(hunk, parent, previous, pieces, len(pieces), leans=leans)
        self._tails[action, target.id] = last

    def _spot(self, action: str, target: Image, parent: str) -> str | None:
        """The block after which a new text comes; None is before all others."""
        tail = self._tails.get((action, target.id))
        if action == "BEFORE":
            return self.order.before(parent, target.id)
        if action == "PREPEND":
            return tail
        if action == "AFTER":
            return tail or self._tails.get(("rest", target.id), target.id)
        if target.kind == "h":
            return self._section_end(parent, target, tail or target.id)
        return self.order.last(parent)

    def _section_end(self, parent: str, heading: Image, at: str) -> str:
        """The last block of the section of a heading, from one of its blocks on."""
        level = heading_level(heading.markdown)
        while (behind := self.order.after(parent, at)) is not None:
            image = self.image(behind)
            ends = image.kind == "h" and heading_level(image.markdown) <= level
            if ends and behind not in self.deleted:
                break
            at = behind
        return at

    def _insert(
        self,
        hunk: Hunk,
        parent: str,
        previous: str | None,
        pieces: list[Piece],
        count: int,
        *,
        leans: bool,
    ) -> str:
        """New blocks, one at least, one behind the other; the name of the last."""
        name = ""
        for piece in pieces:
            name = f"+{len(self.made) + 1}"
            image = Image(name, piece.kind, piece.markdown)
            self.made[name] = New(image, hunk, count, leans)
            self.order.insert(parent, previous, name)
            self.grown[parent] = None
            previous = name
        return name

    def _pieces(self, text: str, parent: str) -> list[Piece]:
        """The blocks of a new text, of a kind that the parent holds; at least one."""
        pieces = list(self._split(text))
        if self.image(parent).kind == "l":
            if any(piece.kind != "l" or not piece.children for piece in pieces):
                raise Unfit("LIST_ITEM_REQUIRED")
            pieces = [item for piece in pieces for item in piece.children]
        if not pieces:
            raise Unfit("EMPTY_CONTENT.blocks")
        if len(pieces) == 1:
            return [pieces[0]._replace(markdown=text)]  # to the last blank, as it was given
        return pieces
