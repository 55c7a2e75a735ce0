"""What a block diff becomes on the blocks as they are: a plan, or all that is wrong.

What lives here: the operations that lead to what the working copy is after all
hunks. What must not: where hunks act (`working`), the store. Invariants: updates
come first, then inserts, then deletes, so that every anchor is a block that was
there before and still is; a list whose last item goes, goes as a whole, since
there are no empty lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from copydesk.edit.notes.blocks import Image, Split, Tree, image_of
from copydesk.edit.notes.claims import Unfit
from copydesk.edit.notes.errors import BlockDiffRefused, Kind, Problem, problem
from copydesk.edit.notes.hunk import Hunk
from copydesk.edit.notes.match import Reason, compare, same
from copydesk.edit.notes.operations import Delete, Insert, Operation, Place, Update
from copydesk.edit.notes.working import New, Working

_COMPARED = 20
"""So many mismatches of one diff are told with what differs; all are named."""

_MISMATCH: dict[Reason, Kind] = {
    "text": "CONTENT_MISMATCH.text",
    "part": "CONTENT_MISMATCH.part",
    "more": "CONTENT_MISMATCH.more",
    "blanks": "CONTENT_MISMATCH.blanks",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a diff becomes: the operations in the order to do them.

    `reads` are the blocks that the hunks name, as they were before: what the
    plan relies on. A hunk that none of the operations is for changes nothing,
    since its block reads so already.
    """

    hunks: tuple[Hunk, ...]
    operations: tuple[Operation, ...]
    reads: tuple[Image, ...]

    @property
    def inverses(self) -> tuple[Operation, ...]:
        """What takes the operations back, in the order to do it."""
        return tuple(operation.inverse for operation in reversed(self.operations))


def plan(hunks: Sequence[Hunk], tree: Tree, split: Split, *, strict: bool = True) -> Plan:
    """The plan that makes all hunks; nothing is done.

    `strict` compares white space as it is. Raises BlockDiffRefused with every
    hunk that cannot be made; the others are judged as if it could. Time is linear
    in the hunks and in the blocks around them, but for the comparison of texts.
    """
    working = Working(tree, split, strict=strict)
    problems: list[Problem] = []
    compared = 0
    for hunk in hunks:
        try:
            working.take(hunk)
        except Unfit as unfit:
            mismatch = unfit.kind == "CONTENT_MISMATCH.text"
            if mismatch and compared < _COMPARED:
                problems.append(_mismatch(hunk, tree))
            else:
                problems.append(
                    problem(unfit.kind, hunk.line, block_id=hunk.block_id, other_line=unfit.other)
                )
            compared += mismatch
    if problems:
        raise BlockDiffRefused(tuple(problems))
    named = dict.fromkeys(hunk.block_id for hunk in hunks)
    operations = (*_updates(tree, working), *_inserts(working), *_deletes(tree, working))
    return Plan(tuple(hunks), operations, tuple(image_of(tree.blocks[one]) for one in named))


def _mismatch(hunk: Hunk, tree: Tree) -> Problem:
    found = compare(hunk.search or "", tree.blocks[hunk.block_id].markdown)
    return problem(
        _MISMATCH[found.reason],
        hunk.line,
        block_id=hunk.block_id,
        similarity=found.similarity,
        difference=found.difference,
    )


def _updates(tree: Tree, working: Working) -> Iterator[Operation]:
    for block_id, (after, hunk) in working.updated.items():
        before = image_of(tree.blocks[block_id])
        if not same(after.markdown, before.markdown):
            yield Update(before, after, (hunk.line,))


def _inserts(working: Working) -> Iterator[Operation]:
    """The new blocks of each parent, gap by gap between those that were there before."""
    for parent in working.grown:
        left: str | None = None
        gap: list[New] = []
        for name in working.order.all(parent):
            if name in working.made:
                gap.append(working.made[name])
                continue
            yield from _gap(parent, left, gap, name)
            left, gap = name, []
        yield from _gap(parent, left, gap, None)


def _gap(parent: str, left: str | None, gap: list[New], right: str | None) -> Iterator[Operation]:
    """The inserts between two blocks; None is an end of the parent.

    Those that lean to the left are put there in the opposite order, so that
    each can be put directly behind the block that was there before.
    """
    runs = [list(run) for _, run in groupby(gap, key=lambda new: id(new.hunk))]
    leaning = next((i for i, run in enumerate(runs) if not run[0].leans), len(runs))
    behind = Place("first_in", parent) if left is None else Place("after", left)
    ahead = Place("last_in", parent) if right is None else Place("before", right)
    for run in reversed(runs[:leaning]):
        yield _insert(behind, run)
    for run in runs[leaning:]:
        yield _insert(ahead, run)


def _insert(place: Place, run: list[New]) -> Insert:
    """The insert of blocks of one hunk; its text as it was given, if they are all of it."""
    hunk = run[0].hunk
    images = tuple(new.image for new in run)
    between = "\n" if images[0].kind == "i" else "\n\n"
    whole = len(run) == run[0].pieces
    markdown = hunk.text if whole else between.join(image.markdown for image in images)
    return Insert(place, markdown, images, (hunk.line,))


def _deletes(tree: Tree, working: Working) -> Iterator[Operation]:
    emptied = dict(_emptied(tree, working))
    done: set[str] = set()
    for block_id, hunk in working.deleted.items():
        parent = tree.blocks[block_id].parent_id
        lines: tuple[int, ...] = (hunk.line,)
        if parent in emptied:
            block_id, lines = parent, emptied[parent]
            parent = tree.blocks[block_id].parent_id
            if block_id in done:
                continue
        done.add(block_id)
        previous = working.order.before(parent, block_id)
        place = Place("first_in", parent) if previous is None else Place("after", previous)
        working.order.remove(parent, block_id)
        image = image_of(tree.blocks[block_id])
        yield Delete(place, image.markdown, (image,), lines)


def _emptied(tree: Tree, working: Working) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The lists of which every item is deleted and no new one is there, with their lines."""
    parents = dict.fromkeys(tree.blocks[block_id].parent_id for block_id in working.deleted)
    for parent in parents:
        if tree.blocks[parent].kind == "l" and parent not in working.grown:
            hunks = [working.deleted.get(child) for child in tree.children[parent]]
            lines = tuple(hunk.line for hunk in hunks if hunk is not None)
            if len(lines) == len(hunks):
                yield parent, lines
