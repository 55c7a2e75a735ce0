"""Which blocks the hunks of a diff write, delete or act inside of: what cannot go together.

What lives here: the claims of hunks on blocks. What must not: what hunks become
(`working`). Invariant: nothing that one hunk writes is lost by another.
"""

from __future__ import annotations

from copydesk.edit.notes.blocks import Tree
from copydesk.edit.notes.errors import Kind
from copydesk.edit.notes.hunk import Hunk


class Unfit(Exception):
    """A hunk that cannot be made; `other` is the line of the one that it does not go with."""

    def __init__(self, kind: Kind, other: int | None = None) -> None:
        super().__init__(kind)
        self.kind: Kind = kind
        self.other = other


class Claims:
    """The claims of the hunks so far; a hunk that is refused for another reason has its own too."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._written: dict[str, Hunk] = {}
        self._inside: dict[str, int] = {}

    def write(self, hunk: Hunk) -> None:
        """Claim the block that a hunk writes or deletes. Raises Unfit."""
        block_id = hunk.block_id
        around = self._tree.around(block_id)
        for place in (block_id, *around):
            claim = self._written.get(place)
            if claim is not None:
                same = place == block_id
                kind: Kind = "CONFLICTING_HUNKS.same" if same else "CONFLICTING_HUNKS.inside"
                raise Unfit(kind, claim.line)
        if block_id in self._inside:
            raise Unfit("CONFLICTING_HUNKS.contains", self._inside[block_id])
        self._written[block_id] = hunk
        self._act_inside(around, hunk.line)

    def put(self, block_id: str, line: int, *, within: bool) -> None:
        """Claim that something is put beside a block, or `within` it. Raises Unfit."""
        around = self._tree.around(block_id)
        for place in (block_id, *around):
            claim = self._written.get(place)
            if claim is not None and claim.deletes:
                raise Unfit("ANCHOR_DELETED", claim.line)
            if claim is not None and (within or place != block_id):
                raise Unfit("CONFLICTING_HUNKS.inside", claim.line)
        self._act_inside([block_id, *around] if within else around, line)

    def _act_inside(self, places: list[str], line: int) -> None:
        for place in places:
            self._inside.setdefault(place, line)
