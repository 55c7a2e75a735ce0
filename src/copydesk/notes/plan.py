"""Plan a block diff on the current blocks, and draft how it changes the documents' texts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby, islice, pairwise, repeat, takewhile
from typing import cast

from copydesk.edit.draft import BlockReads, Draft
from copydesk.edit.kinds.base import Normalized, OfContent, Place, kind
from copydesk.notes.grammar import (
    Action,
    BlockDiffRefused,
    BlockHunk,
    Kind,
    Problem,
    content_of_hunk,
    problem,
)
from copydesk.notes.protocol import (
    CONTAINERS,
    BlockText,
    Change,
    Delete,
    InsertText,
    Move,
    NoteBlock,
    Side,
    SplitBlocks,
    Update,
    joins_list,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import FileEdit, Gap, align, counts, same_after
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, computed_once


@kind
class BlockDiff(OfContent):
    """Edit blocks of notes as `content` says, in the grammar of block diffs.

    `path` is that of the first document it names. `strict` compares quoted block text including
    white space. `drop_anchors`: anchors that other blocks link to may be removed. `update_links`:
    links of other notes are changed with what they lead to.
    """

    in_notes, of_lines, voices = True, False, ("notes",)
    _tool, _action = "prepareBlockDiff", "block_diff"

    content: str
    strict: bool = True
    drop_anchors: bool = False
    update_links: bool = False


_MARKER = re.compile(r"[ \t]*([0-9]{1,8})?([-*+.)])[ \t]+(\[.\][ \t])?")
_BEGINS = re.compile(r"[ \t]*(?:$|>|#{1,6}(?:[ \t]|$)|```|~~~|(?:[0-9]{1,9}[.)]|[-*+])(?:[ \t]|$))")
"""A line that does not belong to the paragraph above it."""

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BlockTree:
    """The part of some documents that a diff needs.

    `blocks`: those that the diff names and all containers around them; one that is missing here
    does not exist. `children`: the ordered child ids of each container that directly holds a named
    block, or gets a new first or last one; perhaps only those beside named blocks. The siblings of
    a heading whose section is moved, or gets more at its end, are in `blocks` too.
    """

    blocks: Mapping[str, NoteBlock]
    children: Mapping[str, Sequence[str]]

    def around(self, block_id: str) -> list[str]:
        """The containers around a block, nearest first; the last is the document."""
        around = [self.blocks[block_id].parent_id]
        while around[-1]:
            around.append(self.blocks[around[-1]].parent_id)
        return around[:-1]


@dataclass(frozen=True, slots=True)
class BlockImage:
    """A block before or after an operation, without its position.

    The `id` of a new block is a name within its plan, `+1`, `+2` …, which no real block can have.
    The markdown of a container includes all its children.
    """

    id: str
    kind: str
    markdown: str


OfKind = NoteBlock | BlockImage


def as_item(text: str, items: Sequence[str]) -> str:
    """The text as one more item of a list, with the marker of its items."""
    marked = _MARKER.match(items[-1]) if items else None
    number = int(marked[1]) + 1 if marked and marked[1] else ""
    marker = f"{number}{marked[2]} " if marked else "- "
    task = "[ ] " if marked is not None and marked[3] else ""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    below = (line and " " * len(marker) + line for line in lines[1:])
    return "\n".join([f"{marker}{task}{lines[0]}", *below])


def heading_level(markdown: str) -> int:
    """The level of a heading, 1 to 6, by its text: the signs before it, or the line under it."""
    signs = _ATX.match(markdown)
    under = 1 if markdown.rstrip().endswith("=") else 2
    return len(signs[1]) if signs else under


def task_head(markdown: str) -> str:
    """The lines of an item that are its own text, with its marker, if it is a task; else empty."""
    marker = _MARKER.match(markdown)
    if marker is None or not marker[3]:
        return ""
    first, *lines = markdown.split("\n")
    return "\n".join((first, *takewhile(lambda line: not _BEGINS.match(line), lines)))


def section_of(heading: OfKind, behind: Iterable[OfKind]) -> Iterator[str]:
    """The ids of the blocks under a heading, of those behind it; none for other blocks."""
    level = heading_level(heading.markdown) if heading.kind == "h" else 0
    under = takewhile(
        lambda block: block.kind != "h" or heading_level(block.markdown) > level,
        behind if level else (),
    )
    return (block.id for block in under)


@dataclass(eq=False)
class Unfit(Exception):
    """A hunk that cannot be applied; `other` is the line of the hunk that it conflicts with.

    `block_id` is the block at fault, if it is not the one that the hunk changes.
    """

    kind: Kind
    other: int | None = None
    block_id: str = ""


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """A change of a plan, and the `images` of the blocks that it leaves.

    A new block is put beside or in one that existed before the diff. `lines` (1-based) are the
    headers that ask for the change; they are not compared.
    """

    change: Change
    images: tuple[BlockImage, ...] = ()
    lines: tuple[int, ...] = field(default=(), compare=False)


class Order:
    """The blocks of each parent, as linked lists; None is beyond both ends.

    `next` and `previous` are by the parent and the block.
    """

    def __init__(self, children: Mapping[str, Sequence[str]]) -> None:
        self.next: dict[tuple[str, str | None], str | None] = {
            (parent, left): right
            for parent, ids in children.items()
            for left, right in pairwise((None, *ids, None))
        }
        self.previous = {(parent, right): left for (parent, left), right in self.next.items()}

    def all(self, parent: str, after: str | None = None) -> Iterator[str]:
        """Yield the blocks of a parent, or those after one of them."""
        while (after := self.next[parent, after]) is not None:
            yield after

    def insert(self, parent: str, previous: str | None, block: str) -> None:
        """Insert a block after `previous`, or before all others."""
        behind = self.next[parent, previous]
        self._link(parent, previous, block)
        self._link(parent, block, behind)

    def remove(self, parent: str, block: str) -> None:
        self._link(parent, self.previous[parent, block], self.next[parent, block])

    def _link(self, parent: str, left: str | None, right: str | None) -> None:
        self.next[parent, left], self.previous[parent, right] = right, left


_TOKENS = re.compile(r"[0-9A-Za-z_]+|[^\s]")
_WEIGHED = 100_000
"""The most words of differing lines, on either side, that are compared."""

_DIFF_LINES = 24
_DIFF_CHARACTERS = 2_000
_WIDTH = 160


def matches(search: str, markdown: str, *, strict: bool = True) -> bool:
    """Whether SEARCH is the block's text; if not `strict`, any white space counts as one blank.

    U+200B does not count: a kernel puts it beside marks, and does not show it.
    """
    sought, there = (text.replace("\u200b", "") for text in (search, markdown))
    is_same = content_of_hunk(sought) == content_of_hunk(there)
    return is_same or (not strict and sought.split() == there.split())


def find_mismatch(search: str, markdown: str) -> tuple[str, int, tuple[str, ...]]:
    """How a SEARCH differs from a block's text: the reason, the similarity, the difference.

    The reason: `part` (the block contains it, and more), `more` (it contains the block, and more),
    `blanks` (only white space differs) or `text`. The similarity: in percent, of characters that
    are not white space; never 100. The difference: lines of SEARCH (`-`), of the block (`+`), of
    both (blank), long ones cut to the part around the difference.
    """
    sought, have = content_of_hunk(search), content_of_hunk(markdown)
    mine, theirs = sought.split("\n"), have.split("\n")
    gaps = list(align(mine, theirs).gaps())
    reasons = (
        (sought.split() == have.split(), "blanks"),
        (sought and sought in have, "part"),
        (have and have in sought, "more"),
    )
    reason = next((why for is_so, why in reasons if is_so), "text")
    return reason, _similarity(mine, theirs, gaps), tuple(_diff(mine, theirs, gaps))


def _similarity(mine: list[str], theirs: list[str], gaps: list[Gap]) -> int:
    """The percentage of the characters of both that are equal and in the same order."""
    ours = [*islice(_words(mine, [gap[:2] for gap in gaps]), _WEIGHED)]
    others = [*islice(_words(theirs, [gap[2:] for gap in gaps]), _WEIGHED)]
    runs = align(ours, others).runs
    alike = sum(len(word) for at, _, size in runs for _, word in ours[at : at + size])
    apart = sum(_weight(line) for start, stop, *_ in gaps for line in mine[start:stop])
    total = sum(map(_weight, mine + theirs))
    same = 2 * (sum(map(_weight, mine)) - apart + alike)
    return min(100 * same // total if total else 0, 99)


def _weight(line: str) -> int:
    return sum(map(len, line.split()))


def _words(lines: list[str], spans: list[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """ASCII words and single other characters, without white space; first the span's number."""
    numbered = ((at, line) for at, (start, stop) in enumerate(spans) for line in lines[start:stop])
    return ((at, word[0]) for at, line in numbered for word in _TOKENS.finditer(line))


def _diff(mine: list[str], theirs: list[str], gaps: list[Gap]) -> list[str]:
    """The lines that differ, the first of them if they are many."""
    lines = list(islice(_gap_lines(mine, theirs, gaps), _DIFF_LINES + 1))
    fitting = bisect_right([*accumulate(map(len, lines))], _DIFF_CHARACTERS)
    shown = lines[: min(max(fitting, 1), _DIFF_LINES)]
    count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
    left = count - sum(line[0] in "-+" for line in shown)
    return [*shown, f"… ({left} more lines differ)"] if shown != lines else shown


def _gap_lines(mine: list[str], theirs: list[str], gaps: list[Gap]) -> Iterator[str]:
    """Yield the lines that differ; for each gap also an equal line before and after it."""
    last = -1  # the last line of SEARCH shown as equal
    for gap in gaps:
        removed, added = mine[gap.base_start : gap.base_stop], theirs[gap.now_start : gap.now_stop]
        if gap.base_start - 1 > last:
            yield f"  {_cut(mine[gap.base_start - 1], 0)}"
        for sign, lines, others in (("-", removed, added), ("+", added, removed)):
            for line, other in zip(lines, chain(others, repeat("")), strict=False):
                yield f"{sign} {_cut(line, same_after(line, other, 0, 0))}"
        last = gap.base_stop
        if last < len(mine):
            yield f"  {_cut(mine[last], 0)}"


def _cut(line: str, at: int) -> str:
    """The part of a long line around character `at`."""
    start = max(min(at - _WIDTH // 3, len(line) - _WIDTH), 0)
    shown = line[start : start + _WIDTH]
    return "…" * (start > 0) + shown + "…" * (start + _WIDTH < len(line))


@dataclass(frozen=True, slots=True, eq=False)
class Insertion:
    """New blocks of a hunk, of `pieces` in its text.

    `leans`: they follow the block before them, else they precede the one behind them.
    """

    hunk: BlockHunk
    pieces: int
    leans: bool


class WorkingCopy:
    """The blocks after the hunks so far: deleted ones keep their place, new ones have names."""

    def __init__(
        self, tree: BlockTree, split: SplitBlocks, *, mixes_tasks: bool, strict: bool
    ) -> None:
        self.order = Order(tree.children)
        self.inserted: dict[str, Insertion] = {}
        self.updated: dict[str, BlockHunk] = {}
        self.images: dict[str, BlockImage] = {}  # of updated blocks and of new ones
        self.moves: list[BlockOperation] = []
        self.deleted: dict[str, BlockHunk] = {}
        self.grown: dict[str, None] = {}  # the parents of new blocks, as an ordered set
        self.blocks = dict(tree.blocks)  # with the parents that they have now
        self._tree = BlockTree(self.blocks, tree.children)
        self._split, self._mixes_tasks, self._strict = split, mixes_tasks, strict
        # the claims of hunks, which a refused hunk keeps too
        self._written: dict[str, BlockHunk] = {}
        self._moved: dict[str, BlockHunk] = {}
        self._inside: dict[str, int] = {}  # the lines of hunks that claim a place in a block
        # the last block that an action put at another; `rest`: the last of what replaced it
        self._tails: dict[tuple[str, str], str] = {}

    def take(self, hunk: BlockHunk) -> BlockHunk:
        """Apply one hunk; return it, as `_of_task` does. After Unfit only its claim remains."""
        for block_id in hunk.named:
            if block_id not in self.blocks:
                raise Unfit("BLOCK_NOT_FOUND", block_id=block_id)
        hunk = self._of_task(hunk)
        if hunk.place is not None:
            self._move(hunk, *hunk.place)
        elif hunk.deletes or hunk.rewrites:
            self._write(hunk)
        else:
            self._put(hunk)
        return hunk

    def image(self, block_id: str) -> OfKind:
        return self.images.get(block_id) or self.blocks[block_id]

    def _of_task(self, hunk: BlockHunk) -> BlockHunk:
        """A hunk that rewrites the first line of a task, as one of the whole item; others as is.

        It may name the item or its paragraph. What is below that line in the item stays.
        """
        block = self.blocks[hunk.block_id]
        item = self.blocks[block.parent_id] if block.kind == "p" and block.parent_id else block
        head = task_head(item.markdown) if item.kind == "i" and hunk.rewrites else ""
        is_own = block is item or block.id in self._tree.children[item.id][:1]
        if not head or not is_own or not self._is_task(hunk.text):
            return hunk
        fits = block is not item or task_head(hunk.text) == hunk.text
        if hunk.search is not None:
            own = {head, head if block is item else block.markdown}
            fits = any(matches(hunk.search, text, strict=self._strict) for text in own)
        text = content_of_hunk(hunk.text + item.markdown[len(head) :])
        search = hunk.search and content_of_hunk(item.markdown)
        return replace(hunk, block_id=item.id, text=text, search=search) if fits else hunk

    def _is_task(self, text: str) -> bool:
        pieces = self._split(text)
        items = pieces[0].children if len(pieces) == 1 else ()
        return len(items) == 1 and task_head(items[0].markdown) != ""

    def _write(self, hunk: BlockHunk) -> None:
        before, search = self.image(hunk.block_id), hunk.search
        if before.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        self._claim(hunk, before.id, writes=True)
        if search is not None and not matches(search, before.markdown, strict=self._strict):
            raise Unfit("CONTENT_MISMATCH.text")
        if hunk.deletes:
            self.deleted[before.id] = hunk
            return
        parent = self.blocks[before.id].parent_id
        first, *rest = pieces = self._pieces(hunk.text, parent)
        self.updated[before.id] = hunk
        self.images[before.id] = BlockImage(before.id, first.kind, first.markdown)
        if rest:
            behind = Insertion(hunk, len(pieces), leans=True)
            self._tails["rest", before.id] = self._insert(behind, parent, before.id, rest)

    def _put(self, hunk: BlockHunk) -> None:
        target = self.image(hunk.block_id)
        parent, within = self._home(hunk.action, target)
        if hunk.action == "APPEND" and (list_id := self._list_at_end(hunk.text, parent, target)):
            target, parent, within = self.image(list_id), list_id, True
        pieces = self._pieces(hunk.text, parent)
        self._claim(hunk, target.id, within=within)
        action = "AFTER" if target.kind == "h" and hunk.action == "PREPEND" else hunk.action
        leans = action in ("AFTER", "PREPEND") or (action == "APPEND" and not within)
        new, previous = Insertion(hunk, len(pieces), leans), self._spot(action, target, parent)
        self._tails[action, target.id] = self._insert(new, parent, previous, pieces)

    def _move(self, hunk: BlockHunk, action: Action, anchor_id: str) -> None:
        """Move a block, or the section of a heading, which goes after a heading's section."""
        block, target = self.image(hunk.block_id), self.image(anchor_id)
        if block.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        parent, within = self._home(action, target)
        home, is_item = self.blocks[block.id].parent_id, block.kind == "i"
        run = [block.id, *self._section(home, block, block.id)]
        if not {anchor_id, *self._tree.around(anchor_id)}.isdisjoint(run):
            raise Unfit("INVALID_TARGET.itself", block_id=anchor_id)
        if is_item != (self.image(parent).kind == "l"):
            raise Unfit("INVALID_TARGET.item" if is_item else "LIST_ITEM_REQUIRED", None, anchor_id)
        self._claim(hunk, block.id)
        self._claim(hunk, anchor_id, within=within)
        self._moved[block.id] = hunk
        stood = home, self.order.previous[home, block.id]
        for name in run:
            self.order.remove(home, name)
        tails = self._tails.items()
        self._tails = {at: name for at, name in tails if (name in run) == (at[1] in run)}
        if target.kind == "h" and action in ("AFTER", "PREPEND"):
            action = "APPEND" if block.kind == "h" and action == "AFTER" else "AFTER"
        last = left = self._spot(action, target, parent)
        while left in self.inserted:  # it is not there yet when blocks are moved
            left = self.order.previous[parent, left]
        for previous, name in zip((last, *run), run, strict=False):
            self.order.insert(parent, previous, name)
        ids = tuple(name for name in run if name not in self.inserted)
        self.blocks |= {name: replace(self.blocks[name], parent_id=parent) for name in ids}
        self.grown |= dict.fromkeys([parent] if len(ids) < len(run) else ())
        self._tails[action, anchor_id] = run[-1]
        if (parent, last) != stood:  # else they are in their place
            move = Move(ids, "after", left) if left else Move(ids, "first_in", parent)
            self.moves.append(BlockOperation(move, (), (hunk.line,)))

    def _home(self, action: Action, target: OfKind) -> tuple[str, bool]:
        """The container of what the action puts there, and whether that is the target."""
        within = action in ("PREPEND", "APPEND") and target.kind != "h"
        if within and target.kind not in CONTAINERS:
            raise Unfit("INVALID_TARGET.leaf", block_id=target.id)
        if not within and target.kind == "d":
            raise Unfit("INVALID_TARGET.document", block_id=target.id)
        return (target.id if within else self.blocks[target.id].parent_id), within

    def _claim(
        self, hunk: BlockHunk, block_id: str, *, writes: bool = False, within: bool = False
    ) -> None:
        """Claim the block that a hunk `writes`, or a place next to or `within` it. Raises Unfit.

        No block is written twice, nor taken away after it was moved. Nothing is written, or put
        next to a block, inside of a written one, nor within one; next to one is refused only if it
        was deleted. A block is not written after something in it was, or was put there.
        """
        around = self._tree.around(block_id)
        for claimed in filter(self._written.__contains__, (block_id, *around)):
            claim = self._written[claimed]
            if claim.deletes and not writes:
                raise Unfit("ANCHOR_DELETED", claim.line, block_id)
            if claimed != block_id or within:
                raise Unfit("CONFLICTING_HUNKS.inside", claim.line, block_id)
            if writes:
                raise Unfit("CONFLICTING_HUNKS.same", claim.line)
        if writes and block_id in self._inside:
            raise Unfit("CONFLICTING_HUNKS.contains", self._inside[block_id])
        takes_away = hunk.deletes or hunk.action == "MOVE"
        if takes_away and block_id == hunk.block_id and block_id in self._moved:
            raise Unfit("CONFLICTING_HUNKS.same", self._moved[block_id].line)
        if writes:
            self._written[block_id] = hunk
        for claimed in (block_id, *around) if within else around:
            self._inside.setdefault(claimed, hunk.line)

    def _spot(self, action: str, target: OfKind, parent: str) -> str | None:
        """The block after which something is put; None for the first place."""
        tail = self._tails.get((action, target.id))
        match action:
            case "BEFORE":
                return self.order.previous[parent, target.id]
            case "PREPEND":
                return tail
            case "AFTER":
                return tail or self._tails.get(("rest", target.id), target.id)
            case _:  # APPEND
                return self._end(parent, target, tail or target.id)

    def _end(self, parent: str, target: OfKind, at: str) -> str | None:
        """The last block in a container, or in what is after `at` in the section of a heading."""
        if target.kind == "h":
            return [at, *self._section(parent, target, at)][-1]
        return self.order.previous.get((parent, None))  # none of a block that is replaced

    def _section(self, parent: str, heading: OfKind, at: str) -> Iterator[str]:
        """What is after `at` in the section of a heading, which no deleted heading ends."""
        behind = map(self.image, self.order.all(parent, at))
        gone = self.deleted
        return section_of(heading, (replace(b, kind="") if b.id in gone else b for b in behind))

    def _list_at_end(self, text: str, parent: str, target: OfKind) -> str:
        """The list at the end of a container or a section, if the text is items that join it."""
        block = self.blocks.get(self._end(parent, target, target.id) or "")
        if block is None or block.id in self.deleted or block.id in self.updated:
            return ""
        joins = [joins_list(piece, block, self._mixes_tasks) for piece in self._split(text)]
        return block.id if joins == [True] else ""

    def _insert(
        self, new: Insertion, parent: str, previous: str | None, pieces: Iterable[BlockText]
    ) -> str:
        """Insert blocks, at least one; return the name of the last."""
        name = ""
        for piece in pieces:
            name = f"+{len(self.inserted) + 1}"
            self.inserted[name] = new
            self.images[name] = BlockImage(name, piece.kind, piece.markdown)
            self.order.insert(parent, previous, name)
            previous = name
        self.grown[parent] = None
        return name

    def _pieces(self, text: str, parent: str) -> list[BlockText]:
        """Return the blocks of a new text, of a kind that the parent can contain; at least one."""
        pieces = list(self._split(text))
        if self.image(parent).kind == "l":
            if any(piece.kind != "l" or not piece.children for piece in pieces):
                raise Unfit("LIST_ITEM_REQUIRED")
            pieces = [item for piece in pieces for item in piece.children]
        if not pieces:
            raise Unfit("EMPTY_CONTENT.blocks")
        # one block is exactly as given, to the last blank
        return [pieces[0]._replace(markdown=text)] if len(pieces) == 1 else pieces


_COMPARED = 20
"""The most mismatches of one diff that are reported with differences; all are listed."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The operations of a diff, in the order to apply them: updates, moves, insertions, deletions.

    So blocks are moved next to old ones only, new ones go into gaps between these, and a block that
    is deleted stands until then, as what others are put next to.

    `reads` are the blocks that the hunks name, as they were: what the plan relies on. A hunk
    without an operation changes nothing: its block already has the new text.
    """

    hunks: tuple[BlockHunk, ...]
    operations: tuple[BlockOperation, ...]
    reads: tuple[NoteBlock, ...]


def plan_blocks(
    hunks: Sequence[BlockHunk],
    tree: BlockTree,
    split: SplitBlocks,
    *,
    mixes_tasks: bool = True,
    strict: bool = True,
) -> BlockPlan:
    """Plan all hunks; BlockDiffRefused lists all that fail. Linear, except for comparing texts."""
    working = WorkingCopy(tree, split, mixes_tasks=mixes_tasks, strict=strict)
    problems: list[Problem] = []
    taken: list[BlockHunk] = []
    compared = 0
    for hunk in hunks:
        try:
            taken.append(working.take(hunk))
        except Unfit as unfit:
            if unfit.kind == "CONTENT_MISMATCH.text" and compared < _COMPARED:
                compared += 1
                problems.append(_mismatch(hunk, tree.blocks[hunk.block_id].markdown))
            else:
                block_id = unfit.block_id or hunk.block_id
                problems.append(
                    problem(unfit.kind, hunk.line, block_id=block_id, other_line=unfit.other)
                )
    if problems:
        raise BlockDiffRefused(tuple(problems))
    named = dict.fromkeys(hunk.block_id for hunk in taken)
    operations = (
        *_updates(tree, working),
        *working.moves,
        *_inserts(working),
        *_deletes(working),
    )
    return BlockPlan(tuple(taken), operations, tuple(tree.blocks[name] for name in named))


def _mismatch(hunk: BlockHunk, markdown: str) -> Problem:
    reason, similarity, difference = find_mismatch(hunk.search or "", markdown)
    return problem(
        cast(Kind, f"CONTENT_MISMATCH.{reason}"),
        hunk.line,
        block_id=hunk.block_id,
        similarity=similarity,
        difference=difference,
    )


def _updates(tree: BlockTree, working: WorkingCopy) -> Iterator[BlockOperation]:
    for block_id, hunk in working.updated.items():
        after = working.images[block_id]
        if content_of_hunk(after.markdown) != content_of_hunk(tree.blocks[block_id].markdown):
            yield BlockOperation(Update(block_id, after.markdown), (after,), (hunk.line,))


def _inserts(working: WorkingCopy) -> Iterator[BlockOperation]:
    """Yield the new blocks of each parent, for each gap between blocks that were there before.

    Those that lean come first in a gap, and the last of them first: each goes right behind the
    block before the gap, and pushes on what was put there.
    """
    for parent in working.grown:
        names = (None, *working.order.all(parent), None)
        old = [at for at, name in enumerate(names) if name not in working.inserted]
        for start, stop in ((low, high) for low, high in pairwise(old) if high - low > 1):
            left, right = names[start], names[stop]
            gap = (name for name in names[start + 1 : stop] if name is not None)
            by_hunk = groupby(gap, key=working.inserted.__getitem__)
            runs = [(new, [working.images[name] for name in run]) for new, run in by_hunk]
            leaning = next((i for i, (new, _) in enumerate(runs) if not new.leans), len(runs))
            for new, images in reversed(runs[:leaning]):
                yield _insert("first_in" if left is None else "after", left or parent, new, images)
            for new, images in runs[leaning:]:
                yield _insert(
                    "last_in" if right is None else "before", right or parent, new, images
                )


def _insert(
    side: Side, anchor_id: str, new: Insertion, images: Sequence[BlockImage]
) -> BlockOperation:
    """Insert blocks of one hunk, with its text as given if these are all its blocks."""
    between = "\n" if images[0].kind == "i" else "\n\n"
    whole = len(images) == new.pieces
    markdown = new.hunk.text if whole else between.join(image.markdown for image in images)
    return BlockOperation(InsertText(markdown, side, anchor_id), tuple(images), (new.hunk.line,))


def _deletes(working: WorkingCopy) -> Iterator[BlockOperation]:
    """The deletions; of a list of which nothing would be left, that of the whole."""
    parents = {i: working.blocks[i].parent_id for i in working.deleted}
    lists = {i for i in parents.values() if working.blocks[i].kind == "l"}
    emptied = {i for i in lists if working.deleted.keys() >= {*working.order.all(i)}}
    lines = defaultdict[str, list[int]](list)
    for block_id, parent in parents.items():
        lines[parent if parent in emptied else block_id].append(working.deleted[block_id].line)
    return (BlockOperation(Delete(i), (), tuple(at)) for i, at in lines.items())


_KINDS = {"EDIT": "UPDATE", "BEFORE": "INSERT_BEFORE", "AFTER": "INSERT_AFTER"}
"""The actions whose kind of hunk has another name in reports."""


@dataclass(frozen=True, slots=True)
class HunkMade:
    """One applied hunk: kind, block, old text if known, new text (of a MOVE its place), new ids."""

    kind: str
    block_id: str
    old: str
    new: str
    new_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BlockDraft(Draft):
    """The draft of a block diff, made by `block_draft`.

    The document named first is the first of `documents`; if there are several, the draft itself is
    about their texts, one below the other. Once written, `ids` are those of blocks that the
    operations of `plan` left. `notices` are its side effects: their kind, the block, what happened.
    """

    plan: BlockPlan
    ids: tuple[tuple[str, ...], ...] = ()
    notices: tuple[tuple[str, str, str], ...] = ()

    @computed_once
    def diff(self) -> bytes:
        """The unified diffs of all documents, one after the other."""
        return b"".join(document.diff for document in self.documents)

    @computed_once
    def old_count(self) -> int:
        """The number of lines removed, in all documents."""
        return sum(counts(document.diff)[1] for document in self.documents)

    @computed_once
    def new_count(self) -> int:
        return sum(counts(document.diff)[0] for document in self.documents)

    @property
    def bad_character(self) -> bool:
        """Whether the new text contains U+FFFD and the blocks that the hunks name do not."""
        return any("\ufffd" in hunk.text for hunk in self.plan.hunks) and not any(
            "\ufffd" in block.markdown for block in self.plan.reads
        )

    @property
    def reads(self) -> BlockReads:
        """The saved data of a plan: digests of texts that no SEARCH gives, and line counts."""
        writing = (hunk for hunk in self.plan.hunks if hunk.deletes or hunk.rewrites)
        blind = {hunk.block_id for hunk in writing if hunk.search is None}
        digests = tuple(
            (block.id, digest_of_text(block.markdown))
            for block in self.plan.reads
            if block.id in blind
        )
        return BlockReads(digests, self.old_count, self.new_count)

    def made(self) -> tuple[HunkMade, ...]:
        """The results of all hunks, in the order of the diff."""
        came = defaultdict[int, list[str]](list)
        for operation, ids in zip(self.plan.operations, self.ids, strict=False):
            if isinstance(operation.change, InsertText):
                came[operation.lines[0]] += ids
        old = {block.id: block.markdown for block in self.plan.reads}
        return tuple(
            HunkMade(
                "DELETE" if hunk.deletes else _KINDS.get(hunk.action, hunk.action),
                hunk.block_id,
                old.get(hunk.block_id, ""),
                " ".join(hunk.place) if hunk.place else hunk.text,
                tuple(came[hunk.line]),
            )
            for hunk in self.plan.hunks
        )


def block_draft(
    request: BlockDiff,
    plan: BlockPlan,
    documents: Sequence[FileEdit],
    path: RelPath,
    notices: tuple[tuple[str, str, str], ...] = (),
) -> BlockDraft:
    """The draft of a plan and its documents; `path` is that of the first one named."""
    order = tuple(sorted(documents, key=lambda each: each.path != path))
    whole = joined(order, path)
    closed = whole.base.line_count == 0 or whole.base.ends_with_newline
    style = whole.base.newline_name(whole.base.dominant_newline)
    return BlockDraft(
        replace(request, path=whole.path),
        whole.base,
        Place(0, 0, None),
        whole.change,
        (),
        Normalized(closed, True, False, False, style, 0),
        created=whole.created,
        plan=plan,
        documents=order,
        notices=notices,
    )


def joined(documents: Sequence[FileEdit], path: RelPath) -> FileEdit:
    """Join documents into one text: all but the first below a line with its path.

    Without documents it is an empty one at `path`.
    """
    first, *others = documents or (rewritten(path, "", ""),)
    if not others:
        return first
    data, edits = first.base.data, list(first.change.edits)
    for document in others:
        data += f"\n=== {document.path} ===\n".encode()
        edits += [
            Edit(len(data) + e.start, len(data) + e.stop, e.new) for e in document.change.edits
        ]
        data += document.base.data
    base = Snapshot(data, UTF8)
    return FileEdit(first.path, base, ChangeSet.of(base.size, edits))


def rewritten(path: RelPath, before: str | None, after: str) -> FileEdit:
    """A document known only by its texts, each ended by a line feed; `before` None: it is new."""
    old, new = (
        (text if not text or text.endswith("\n") else f"{text}\n").encode("utf-8", "surrogatepass")
        for text in (before or "", after)
    )
    base = Snapshot(old, UTF8)
    edits = [] if new == old else [Edit(0, base.size, new)]
    return FileEdit(path, base, ChangeSet.of(base.size, edits), before is None)


def digest_of_text(text: str) -> str:
    """The SHA-256 of a text in UTF-8, in hex."""
    return Snapshot(text.encode("utf-8", "surrogatepass"), UTF8).digest
