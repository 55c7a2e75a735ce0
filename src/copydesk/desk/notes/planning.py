"""What a block diff comes to on the notes as they are: a draft, and the changes for the store.

What lives here: the tree that a diff needs, operations as changes of the store,
texts of documents. What must not: writing. Invariant: the blocks that a draft was
made on are those that its changes were prepared on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from copydesk.desk.member import Member, Operation
from copydesk.desk.notes.home import Notes
from copydesk.desk.writing import ATTEMPTS
from copydesk.edit.notes.draft import BlockDraft, DocumentText, block_draft, rewritten
from copydesk.edit.notes.grammar import BlockHunk, parse_block_diff
from copydesk.edit.notes.plan import (
    BlockOperation,
    BlockPlan,
    BlockTree,
    InsertBlocks,
    UpdateBlock,
    plan_blocks,
)
from copydesk.edit.request import BlockDiff
from copydesk.errors import Failed, InvalidArgs
from copydesk.store.notes.protocol import (
    CONTAINERS,
    Change,
    Delete,
    Insert,
    NoteBlock,
    NoteStore,
    Prepared,
    Update,
)
from copydesk.text.relpath import RelPath


@dataclass(frozen=True, slots=True)
class Ready:
    """What is to be written, and nothing is yet: the changes, and the documents as texts.

    `path` is that of the first document, `documents` are those that change.
    """

    prepared: Prepared
    path: RelPath
    documents: tuple[DocumentText, ...]
    draft: BlockDraft | None = None

    @property
    def nothing(self) -> bool:
        """Whether a diff comes to nothing: all its blocks read so already."""
        return self.draft is not None and not self.draft.plan.operations


class Planning:
    """Makes drafts of block diffs for the members of one workspace."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def ready(self, member: Member, request: BlockDiff, operation: Operation = "write") -> Ready:
        """The diff on the blocks as they are, for who may write them, or only see it.

        Raises BlockDiffRefused with all that is wrong, AccessDenied, and what the
        store refuses.
        """
        hunks = parse_block_diff(request.content, self._notes.home(member).valid)
        for _ in range(ATTEMPTS):
            found = self._on_blocks_now(member, hunks, request, operation)
            if found is not None:
                return found
        raise Failed("read", "the notes are changed by another program again and again")

    def prepared(self, member: Member, changes: Sequence[Change], path: RelPath) -> Ready:
        """Changes on the blocks as they are; `path` is that of the first document."""
        store = self._notes.home(member).store
        found = store.prepare(changes)
        blocks = store.blocks([one for change in changes for one in named(change)])
        documents = self.documents(found, self._paths(member, blocks.values()))
        return Ready(found, documents[0].path if documents else path, documents)

    def documents(
        self, prepared: Prepared, paths: Mapping[str, RelPath]
    ) -> tuple[DocumentText, ...]:
        """What is done to the text of each document that changes; `paths` by those of the store."""
        if prepared.files:
            return tuple(
                DocumentText(edit.path, edit.base, edit.change, edit.created)
                for edit in prepared.files
                if edit.created or not edit.base.unchanged_by(edit.change)
            )
        before, after = prepared.before, prepared.after
        return tuple(
            rewritten(paths[path], before.get(path), after.get(path, ""))
            for path in {**before, **after}
            if path in paths and before.get(path) != after.get(path, "")
        )

    def _on_blocks_now(
        self, member: Member, hunks: Sequence[BlockHunk], request: BlockDiff, operation: Operation
    ) -> Ready | None:
        """Once through; None when the notes were changed meanwhile."""
        home = self._notes.home(member)
        ids = list(dict.fromkeys(hunk.block_id for hunk in hunks))
        there = home.store.blocks(ids)
        self._notes.check_blocks(member, "read", there.values())
        self._notes.check_blocks(member, operation, there.values())
        tree = tree_of(home.store, there, hunks)
        if tree is None:
            return None
        made = plan_blocks(hunks, tree, home.split, strict=request.strict)
        prepared = _prepared(home.store, made)
        again = home.store.blocks(ids)
        if any(not _same(there[one], again.get(one)) for one in there):
            return None
        paths = self._paths(member, there.values())
        path = next(iter(paths.values()))  # every block that is named is there
        draft = block_draft(request, made, self.documents(prepared, paths), path)
        return Ready(prepared, draft.request.path, draft.documents, draft)

    def _paths(self, member: Member, blocks: Iterable[NoteBlock]) -> dict[str, RelPath]:
        """The paths of the blocks' documents, by those of the store."""
        return {block.path: self._notes.path(member, block) for block in blocks}


def tree_of(
    store: NoteStore, named: Mapping[str, NoteBlock], hunks: Sequence[BlockHunk] = ()
) -> BlockTree | None:
    """The blocks, those around them, and what these hold; None when one went meanwhile.

    The texts of siblings are read only where a hunk appends to a section, whose
    end they tell: in a long document they are a hundred times what the hunks name.
    """
    blocks = dict(named)
    while wanted := {block.parent_id for block in blocks.values()} - blocks.keys() - {""}:
        found = store.blocks(sorted(wanted))
        if len(found) < len(wanted):
            return None
        blocks |= found
    around = {block.parent_id for block in blocks.values()} - {""}
    around |= {block.id for block in named.values() if block.kind in CONTAINERS}
    appended = (named.get(hunk.block_id) for hunk in hunks if hunk.action == "APPEND")
    sections = {block.parent_id for block in appended if block is not None and block.kind == "h"}
    children: dict[str, tuple[str, ...]] = {}
    for container in sorted(around):
        if container not in sections:
            children[container] = store.child_ids(container)
            continue
        held = store.children(container)
        children[container] = tuple(block.id for block in held)
        blocks = {**{block.id: block for block in held}, **blocks}
    there = {container: frozenset(ids) for container, ids in children.items()}
    inside = all(b.id in there.get(b.parent_id, (b.id,)) for b in named.values())
    return BlockTree(blocks, children) if inside else None


def changes_of(made: BlockPlan) -> list[Change]:
    """The operations of a plan as changes of the store, one for one."""
    return [_change(operation) for operation in made.operations]


def named(change: Change) -> tuple[str, ...]:
    """The blocks that a change names."""
    if isinstance(change, Insert):
        return (change.anchor_id,)
    if isinstance(change, Update | Delete):
        return (change.id,)
    return (change.id, change.anchor_id) if change.side is not None else (change.id,)


def _change(operation: BlockOperation) -> Change:
    if isinstance(operation, UpdateBlock):
        return Update(operation.before.id, operation.after.markdown)
    if isinstance(operation, InsertBlocks):
        return Insert(operation.markdown, operation.place.side, operation.place.anchor)
    return Delete(operation.images[0].id)


def _prepared(store: NoteStore, made: BlockPlan) -> Prepared:
    """The changes, prepared; of a text that the store does not take, the hunk is told.

    The store takes them one after the other, so what is too many stays too many:
    the first that it does not take is found by halves.
    """
    changes = changes_of(made)
    try:
        return store.prepare(changes)
    except InvalidArgs as refusal:
        taken, refused = 0, len(changes)
        while refused - taken > 1:
            count = (taken + refused) // 2
            try:
                store.prepare(changes[:count])
                taken = count
            except InvalidArgs:
                refused = count
        raise _at(made, refused - 1, refusal) from None


def _at(made: BlockPlan, index: int, refusal: InvalidArgs) -> InvalidArgs:
    lines = ", ".join(map(str, made.operations[index].lines))
    return InvalidArgs(f"diff, hunk of line {lines}", refusal.reason)


def _same(one: NoteBlock, other: NoteBlock | None) -> bool:
    if other is None:
        return False
    return (one.kind, one.markdown, one.parent_id) == (other.kind, other.markdown, other.parent_id)
