"""Block diffs: a draft on the current notes, and writing all of its documents or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from copydesk.desk.approval import Approving
from copydesk.desk.backends.api import Entry
from copydesk.desk.context import Setting
from copydesk.desk.member import Member, Operation
from copydesk.desk.notes.notebook_access import Notes
from copydesk.desk.outcome import WholeRevision
from copydesk.desk.transaction import ATTEMPTS, Rewriting, Stopped, Writer, WriteRequest
from copydesk.edit.notes.draft import BlockDraft, block_draft, digest_of_texts, joined, rewritten
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
from copydesk.errors import ContentChanged, Failed, InvalidArgs, Refusal, check_cancelled
from copydesk.store.notes.errors import NotesTorn
from copydesk.store.notes.protocol import (
    CONTAINERS,
    Change,
    ChangesDone,
    Delete,
    InsertText,
    NoteBlock,
    NoteStore,
    Prepared,
    Update,
    named,
    one_look,
)
from copydesk.store.protocol import OpenText, TargetMoved
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import FileEdit


@dataclass(frozen=True, slots=True)
class Ready:
    """Prepared changes, not written, and the `documents` that change; `path` is the first's."""

    prepared: Prepared
    path: RelPath
    documents: tuple[FileEdit, ...]
    draft: BlockDraft | None = None

    @property
    def nothing(self) -> bool:
        """Whether a diff changes nothing: its blocks have the new texts already."""
        return self.draft is not None and not self.draft.plan.operations


class Planning:
    """Makes drafts of block diffs for the members of one workspace."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def ready(self, member: Member, request: BlockDiff, operation: Operation = "write") -> Ready:
        """Plan the diff on the blocks now; BlockDiffRefused, AccessDenied, the store's own."""
        home = self._notes.home(member)
        parsed = parse_block_diff(request.content, home.valid)
        with one_look():
            hunks = [replace(hunk, block_id=home.located(hunk.block_id)) for hunk in parsed]
        for _ in range(ATTEMPTS):
            found = self._on_blocks_now(member, hunks, request, operation)
            if found is not None:
                return found
        raise Failed("read", "the notes are changed by another program again and again")

    def prepared(self, member: Member, changes: Sequence[Change], path: RelPath) -> Ready:
        """Prepare changes of the current blocks; `path` is that of the first document."""
        store = self._notes.store(member)
        found = store.prepare(changes)
        blocks = store.blocks([one for change in changes for one in named(change)])
        documents = self.documents(found, self._paths(member, blocks.values()))
        return Ready(found, documents[0].path if documents else path, documents)

    def documents(self, prepared: Prepared, paths: Mapping[str, RelPath]) -> tuple[FileEdit, ...]:
        """The change of each document's text; `paths` maps the paths of the store."""
        if prepared.files:
            return tuple(
                edit
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
        """One attempt; None if the notes changed concurrently."""
        home = self._notes.home(member)
        ids = list(dict.fromkeys(hunk.block_id for hunk in hunks))
        with one_look():  # and a second one below tells whether it was one moment
            there = home.store.blocks(ids)
            self._notes.check_blocks(member, "read", there.values())
            self._notes.check_blocks(member, operation, there.values())
            tree = tree_of(home.store, there, hunks)
            if tree is None:
                return None
            made = plan_blocks(hunks, tree, home.split, strict=request.strict)
            prepared = _prepared(home.store, made)
            if not request.drop_anchors:
                home.check_links(prepared)
        again = home.store.blocks(ids)
        if any(not _same(there[one], again.get(one)) for one in there):
            return None
        paths = self._paths(member, there.values())
        path = next(iter(paths.values()))  # every block that is named is there
        draft = block_draft(request, made, self.documents(prepared, paths), path)
        draft = replace(draft, notices=prepared.notices)
        return Ready(prepared, draft.request.path, draft.documents, draft)

    def _paths(self, member: Member, blocks: Iterable[NoteBlock]) -> dict[str, RelPath]:
        """The paths of the blocks' documents, by the paths that the store gives them."""
        return {block.path: self._notes.path(member, block) for block in blocks}


def tree_of(
    store: NoteStore, named: Mapping[str, NoteBlock], hunks: Sequence[BlockHunk] = ()
) -> BlockTree | None:
    """The blocks, containers and siblings, with texts where a hunk needs them; None if one went."""
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


def _change(operation: BlockOperation) -> Change:
    if isinstance(operation, UpdateBlock):
        return Update(operation.before.id, operation.after.markdown)
    if isinstance(operation, InsertBlocks):
        return InsertText(operation.markdown, operation.place.side, operation.place.anchor)
    return Delete(operation.images[0].id)


def _prepared(store: NoteStore, made: BlockPlan) -> Prepared:
    """Prepare the changes; the hunk whose text the store refuses is found by bisection."""
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


@dataclass(frozen=True, slots=True)
class BlocksWritten:
    """What was written, the ids each change left, and the journal's `edit_ids`, one per file."""

    ready: Ready
    done: ChangesDone
    edit_ids: tuple[int, ...]
    told: bool = True


def _nothing() -> None:
    """The default of a hook: do nothing."""


class NotesWriting:
    """Writes the notes of one workspace."""

    def __init__(self, setting: Setting, writer: Writer, notes: Notes) -> None:
        self._set, self._writer, self._notes = setting, writer, notes
        self._approving = Approving(setting.decisions, setting.clock)

    def write(
        self,
        job: WriteRequest,
        make: Callable[[], Ready],
        precondition: Callable[[], None] = _nothing,
        after_commit: Callable[[], None] = _nothing,
    ) -> BlocksWritten:
        """Write what `make` prepares, again if notes change; hooks run locked, before and after."""
        changed: ContentChanged | None = None
        for _ in range(ATTEMPTS):
            ready = make()
            try:
                return self._attempt(job, ready, precondition, after_commit)
            except TargetMoved:
                changed = None
            except _Moved as moved:
                changed = moved.refusal
        raise changed or Failed("write", "the notes are changed by another program again and again")

    def _attempt(
        self,
        job: WriteRequest,
        ready: Ready,
        precondition: Callable[[], None],
        after_commit: Callable[[], None],
    ) -> BlocksWritten:
        paths = [document.path for document in ready.documents] or [ready.path]
        self._notes.check(job.member, "write", paths)
        self._notes.check(job.member, "read", paths)
        reals = {self._set.files.resolve(path): path for path in paths}
        with (
            self._set.turns.of_all(dict.fromkeys(reals, job.ticket), job.caller),
            ExitStack() as held,
        ):
            precondition()
            self._notes.check(job.member.now(), "write", paths)
            self._approve(job, ready)
            if ready.documents and self._notes.home(job.member).in_files:
                made = self._in_files(job, ready, held)
            elif ready.nothing or self._notes.home(job.member).in_files:
                made = BlocksWritten(
                    ready, self._notes.store(job.member).execute(ready.prepared), ()
                )
            else:
                made = self._in_store(job, ready)
            with suppress(Refusal):  # it is written, and the journal settles the rest
                after_commit()
            return made

    def _approve(self, job: WriteRequest, ready: Ready) -> None:
        """Raise if the policy wants a person's approval and there is none for these texts."""
        if not ready.documents:
            return
        reals = [self._set.files.resolve(one.path) for one in ready.documents]
        whole = joined(ready.documents)
        self._approving.check(
            job.member,
            job.plan,
            reals[0],
            whole,
            created=whole.created,
            files=len(reals),
            others=reals[1:],
        )

    def _in_files(self, job: WriteRequest, ready: Ready, held: ExitStack) -> BlocksWritten:
        documents = {self._set.files.resolve(one.path): one for one in ready.documents}
        opened = self._opened(job, documents, held)
        rewritings = [
            Rewriting(real, opened.get(real), ((_job(job, one), _revision(one)),))
            for real, one in sorted(documents.items(), key=lambda pair: str(pair[0]))
        ]
        for each in rewritings:  # recovery compares files with the texts kept here
            after = each.steps[-1][1].after
            if isinstance(after, Snapshot):
                self._set.bases.keep(after, each.real)
        try:
            entries = self._writer.write_all(self._set.ids() + self._set.ids(), rewritings)
        except Stopped as stopped:
            raise stopped.refusal from None
        edit_ids = tuple(entry.edit_id for entry in entries)
        try:
            done = self._notes.store(job.member).execute(ready.prepared)
        except Refusal:  # the texts are written, whoever writes next to them
            return BlocksWritten(ready, ChangesDone(()), edit_ids, told=False)
        return BlocksWritten(ready, done, edit_ids)

    def _opened(
        self, job: WriteRequest, documents: dict[RelPath, FileEdit], held: ExitStack
    ) -> dict[RelPath, OpenText]:
        there = [real for real, document in documents.items() if not document.created]
        opened = {real: self._open(real, held) for real in there}
        inodes: dict[tuple[int, int], RelPath] = {}
        for real, text in opened.items():
            inode = (text.stamp.dev, text.stamp.ino)
            if inodes.setdefault(inode, real) != real:
                raise Failed("write several documents", f"{real} and {inodes[inode]} are one file")
        linked = sorted(i for i, real in inodes.items() if opened[real].stamp.nlink > 1)
        for inode in linked:
            held.enter_context(self._set.turns.of_inode(inode, job.ticket, job.caller))
        for inode in linked:
            real = inodes[inode]
            opened[real] = self._open(real, held)
            if (opened[real].stamp.dev, opened[real].stamp.ino) != inode:
                raise TargetMoved()
        if any(opened[real].source.digest != documents[real].base.digest for real in there):
            raise TargetMoved()
        return opened

    def _open(self, real: RelPath, held: ExitStack) -> OpenText:
        opened = held.enter_context(self._set.files.text(real, self._set.named))
        if opened.real != real:
            raise TargetMoved()
        return opened

    def _in_store(self, job: WriteRequest, ready: Ready) -> BlocksWritten:
        """Let the store write: the entry is journaled before, its undo after."""
        journal = self._set.journal
        check_cancelled()
        edit_id = journal.open(self._entry(job, ready))
        try:
            done = self._notes.store(job.member).execute(
                ready.prepared, lambda undo: journal.keep_undo(edit_id, undo)
            )
        except NotesTorn:
            journal.close_entry(edit_id, "unsure")
            raise
        except ContentChanged as changed:
            journal.close_entry(edit_id, "failed")
            raise _Moved(changed) from None
        except Refusal:
            journal.close_entry(edit_id, "failed")
            raise
        journal.keep_undo(edit_id, done.undo)
        journal.close_entry(edit_id, "done")
        return BlocksWritten(ready, done, (edit_id,))

    def _entry(self, job: WriteRequest, ready: Ready) -> Entry:
        """The journal entry of a write by a store; recovery has no file to compare."""
        now_ms = self._set.clock()
        before, after = map(_joined, (ready.prepared.before, ready.prepared.after))
        return Entry(
            time_ms=now_ms,
            member=job.member.name,
            tool=job.tool,
            path=ready.path,
            kind="notes",
            before=digest_of_texts(before),
            after=digest_of_texts(after or f"{now_ms} {job.tool}"),
            inverse=ChangeSet.of(0, []),
            diff=b"".join(document.diff for document in ready.documents),
            hunk_id=job.hunk_id,
            undoes=job.undoes,
            why=job.member.why,
            approval=self._approving.approval(job.plan, job.edited_by),
        )


class _Moved(Exception):
    """The blocks changed since they were prepared on; nothing was written."""

    def __init__(self, refusal: ContentChanged) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def texts_digest(texts: Mapping[str, str]) -> str:
    """The digest of the texts of all documents of an entry."""
    return digest_of_texts(_joined(texts))


def _joined(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{path}\n{text}" for path, text in sorted(texts.items()))


def _job(job: WriteRequest, document: FileEdit) -> WriteRequest:
    return replace(job, path=document.path)


def _revision(document: FileEdit) -> WholeRevision:
    return WholeRevision(document.base, document.change, document.after, document.diff)
