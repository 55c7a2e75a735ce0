"""Reading notes: what a block is, what it holds, where something is said.

What lives here: these questions. What must not: their form for a reader, writing.
Invariant: nothing is shown of a document that the member may not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from copydesk.desk.member import Member
from copydesk.desk.notes.home import Notes
from copydesk.desk.notes.outcome import Content, Info, Infos
from copydesk.edit.notes.slices import select
from copydesk.store.notes.errors import BlockNotFound
from copydesk.store.notes.protocol import CONTAINERS, NoteBlock, Notebook


class NoteReader:
    """What one workspace's notes say."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def infos(self, member: Member, ids: Sequence[str]) -> Infos:
        """What is known of blocks; raises BlockNotFound when there is none of them."""
        there = self._notes.home(member).store.blocks(ids)
        self._notes.check_blocks(member, "read", there.values())
        missing = tuple(one for one in ids if one not in there)
        if not there:
            raise BlockNotFound(", ".join(missing))
        found = tuple(self._info(member, there[one]) for one in ids if one in there)
        return Infos(found, missing, len(ids))

    def block(self, member: Member, block_id: str) -> NoteBlock:
        """One block; raises BlockNotFound."""
        found = self._notes.home(member).store.blocks([block_id]).get(block_id)
        if found is None:
            raise BlockNotFound(block_id)
        self._notes.check_blocks(member, "read", [found])
        return found

    def content(
        self, member: Member, block_id: str, *, parts: bool, slice_text: str | None
    ) -> Content:
        """The block, or its parts: those of a document always, a heading before its section.

        Raises BlockNotFound, InvalidSlice.
        """
        found = self.block(member, block_id)
        if slice_text is not None and (page := self._page(member, found, slice_text)) is not None:
            return page
        blocks = self._shown(member, found, parts=parts)
        total = len(blocks)
        if slice_text is None:
            return Content(found, blocks, total)
        chosen = select(slice_text, [block.id for block in blocks])
        after = blocks[chosen.stop].id if chosen.stop < total else ""
        return Content(found, blocks[chosen.start : chosen.stop], total, chosen.start, after)

    def notebooks(self, member: Member) -> tuple[Notebook, ...]:
        """The notebooks that the member may read in."""
        found = self._notes.home(member).store.notebooks()
        return tuple(one for one in found if self._notes.may_see(member, one.id))

    def documents(self, member: Member, box: str, most: int) -> tuple[NoteBlock, ...]:
        """The documents of a notebook, by their paths of titles; raises NotebookNotFound."""
        found = self._notes.home(member).store.documents(box, most)
        return tuple(one for one in found if self._notes.may_read(member, one))

    def search(self, member: Member, query: str, most: int) -> tuple[NoteBlock, ...]:
        """Blocks that hold all words, the best first."""
        found = self._notes.home(member).store.search(query, most)
        return tuple(one for one in found if self._notes.may_read(member, one))

    def _shown(self, member: Member, block: NoteBlock, *, parts: bool) -> tuple[NoteBlock, ...]:
        if block.kind == "h":
            return (block, *self._notes.home(member).store.children(block.id))
        if block.kind == "d" or (parts and block.kind in CONTAINERS):
            return self._notes.home(member).store.children(block.id)
        return (block,)

    def _page(self, member: Member, block: NoteBlock, slice_text: str) -> Content | None:
        """A slice of a container in files, where no other text is read; None to read them all."""
        home = self._notes.home(member)
        if not home.in_files or block.kind not in (*CONTAINERS, "h"):
            return None
        inside = home.store.child_ids(block.id)
        ids = (block.id, *inside) if block.kind == "h" else inside
        chosen = select(slice_text, ids)
        wanted = ids[chosen.start : chosen.stop]
        there = home.store.blocks(wanted)
        if len(there) < len(wanted):
            return None  # the file is changed at this moment
        after = ids[chosen.stop] if chosen.stop < len(ids) else ""
        return Content(block, tuple(there.values()), len(ids), chosen.start, after)

    def _info(self, member: Member, block: NoteBlock) -> Info:
        store = self._notes.home(member).store
        inside = store.children(block.id) if block.kind in (*CONTAINERS, "h") else ()
        markdown = block.markdown
        if block.kind in ("d", "h"):
            whole = (block, *inside) if block.kind == "h" else inside
            markdown = "\n\n".join(one.markdown for one in whole)
        outline = store.outline(block.id) if block.kind == "d" else ()
        count = len(inside) if inside or block.kind in CONTAINERS else None
        return Info(block, markdown, count, outline, store.breadcrumb(block.id))
