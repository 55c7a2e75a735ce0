"""Plan a block diff on the current blocks, and draft how it changes the documents' texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise, repeat
from typing import Literal, cast

from copydesk.edit.draft import BlockReads, Draft
from copydesk.edit.kinds.base import Normalized, OfContent, Place, kind
from copydesk.notes.grammar import (
    Action,
    BlockDiffRefused,
    BlockHunk,
    Kind,
    Problem,
    content_of_hunk,
    lines_of_hunk,
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
from copydesk.text.diff import Gap, align, same_after
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, computed_once
from copydesk.text.unified import FileEdit, counts


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
        found: list[str] = []
        parent = self.blocks[block_id].parent_id
        while parent:
            found.append(parent)
            parent = self.blocks[parent].parent_id
        return found


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
    found = _MARKER.match(items[-1]) if items else None
    marker = "- "
    if found is not None and found[2]:
        marker = f"{int(found[1]) + 1 if found[1] else ''}{found[2]} "
    task = "[ ] " if found is not None and found[3] else ""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    body = [line and " " * len(marker) + line for line in lines]
    return "\n".join([f"{marker}{task}{lines[0]}", *body[1:]])


def heading_level(markdown: str) -> int:
    """The level of a heading, 1 to 6, by its text: the signs before it, or the line under it."""
    found = _ATX.match(markdown)
    if found is not None:
        return len(found[1])
    return 1 if markdown.rstrip().endswith("=") else 2


def task_head(markdown: str) -> str:
    """The lines of an item that are its own text, with its marker, if it is a task; else empty."""
    marker = _MARKER.match(markdown)
    if marker is None or not marker[3]:
        return ""
    first, *lines = markdown.split("\n")
    below = next((at for at, line in enumerate(lines) if _BEGINS.match(line)), len(lines))
    return "\n".join((first, *lines[:below]))


def section_of(heading: OfKind, behind: Iterable[OfKind]) -> Iterator[str]:
    """Yield the ids of the blocks under a heading, of those behind it; nothing for other blocks."""
    level = heading_level(heading.markdown) if heading.kind == "h" else 0
    for block in behind:
        if not level or (block.kind == "h" and heading_level(block.markdown) <= level):
            return
        yield block.id


class Unfit(Exception):
    """A hunk that cannot be applied; `other` is the line of the hunk that it conflicts with.

    `block_id` is the block at fault, if it is not the one that the hunk changes.
    """

    def __init__(self, kind: Kind, other: int | None = None, block_id: str = "") -> None:
        super().__init__(kind)
        self.kind: Kind = kind
        self.other, self.block_id = other, block_id


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
    """The blocks of each parent, as linked lists; None is beyond both ends."""

    def __init__(self, children: Mapping[str, Sequence[str]]) -> None:
        self._children = children
        self._next: dict[tuple[str, str | None], str | None] = {}
        self._previous: dict[tuple[str, str | None], str | None] = {}

    def all(self, parent: str) -> Iterator[str]:
        block = self.after(parent, None)
        while block is not None:
            yield block
            block = self._next[parent, block]

    def after(self, parent: str, block: str | None) -> str | None:
        """The block after another one, or the first."""
        if (parent, None) not in self._next:
            for one, other in pairwise((None, *self._children[parent], None)):
                self._link(parent, one, other)
        return self._next[parent, block]

    def before(self, parent: str, block: str | None) -> str | None:
        """The block before another one, or the last."""
        self.after(parent, None)
        return self._previous[parent, block]

    def insert(self, parent: str, previous: str | None, block: str) -> None:
        """Insert a block after `previous`, or before all others."""
        behind = self.after(parent, previous)
        self._link(parent, previous, block)
        self._link(parent, block, behind)

    def remove(self, parent: str, block: str) -> None:
        self._link(parent, self.before(parent, block), self.after(parent, block))

    def _link(self, parent: str, one: str | None, other: str | None) -> None:
        self._next[parent, one], self._previous[parent, other] = other, one


_TOKENS = re.compile(r"[0-9A-Za-z_]+|[^\s]")
_WEIGHED = 100_000
"""The most differing characters, on either side, that are compared word by word."""

_DIFF_LINES = 24
_DIFF_CHARACTERS = 2_000
_WIDTH = 160


MismatchReason = Literal["text", "part", "more", "blanks"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How a SEARCH differs from a block's text.

    `reason`: `part` (the block contains it, and more), `more` (it contains the block, and more),
    `blanks` (only white space differs) or `text`. `similarity`: in percent, of characters that are
    not white space; never 100. `difference`: lines of SEARCH (`-`), of the block (`+`), of both
    (blank), long ones cut to the part around the difference.
    """

    reason: MismatchReason
    similarity: int
    difference: tuple[str, ...]


def matches(search: str, markdown: str, *, strict: bool = True) -> bool:
    """Whether SEARCH is the block's text; if not `strict`, any white space counts as one blank.

    U+200B does not count: a kernel puts it beside marks, and does not show it.
    """
    sought, there = (text.replace("\u200b", "") for text in (search, markdown))
    if _content(sought) == _content(there):
        return True
    return not strict and sought.split() == there.split()


def _content(text: str) -> str:
    return content_of_hunk(lines_of_hunk(text))


def find_mismatch(search: str, markdown: str) -> Mismatch:
    """The differences between a SEARCH and a block's text."""
    sought, have = _content(search), _content(markdown)
    mine, theirs = sought.split("\n"), have.split("\n")
    gaps = list(align(mine, theirs).gaps())
    reason: MismatchReason = "text"
    if sought.split() == have.split():
        reason = "blanks"
    elif sought and have and (sought in have or have in sought):
        reason = "part" if sought in have else "more"
    return Mismatch(reason, _similarity(mine, theirs, gaps), tuple(_diff(mine, theirs, gaps)))


def _similarity(mine: list[str], theirs: list[str], gaps: list[Gap]) -> int:
    """The percentage of the characters of both that are equal and in the same order."""
    total = sum(map(_weight, mine)) + sum(map(_weight, theirs))
    same_weight, room = total, _WEIGHED
    for gap in gaps:
        ours, others = mine[gap.base_start : gap.base_stop], theirs[gap.now_start : gap.now_stop]
        same_weight -= sum(map(_weight, ours)) + sum(map(_weight, others))
        ours, others = _words(ours, room), _words(others, room)
        room = max(room - sum(map(len, ours)), 0)
        runs = align(ours, others).runs
        kept = (len(ours[run.base_start + i]) for run in runs for i in range(run.length))
        same_weight += 2 * sum(kept)
    return min(100 * same_weight // total if total else 0, 99)


def _weight(line: str) -> int:
    return sum(map(len, line.split()))


def _words(lines: list[str], room: int) -> list[str]:
    """ASCII words and single other characters, without white space, from `room` characters."""
    words: list[str] = []
    for line in lines:
        if room <= 0:
            break
        words += _TOKENS.findall(line[:room])
        room -= len(line) + 1
    return words


def _diff(mine: list[str], theirs: list[str], gaps: list[Gap]) -> list[str]:
    """The lines that differ, the first of them if they are many."""
    shown: list[str] = []
    size = 0
    for line in _gap_lines(mine, theirs, gaps):
        size += len(line)
        if shown and (len(shown) >= _DIFF_LINES or size > _DIFF_CHARACTERS):
            count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
            left = count - sum(one[0] in "-+" for one in shown)
            return [*shown, f"… ({left} more lines differ)"]
        shown.append(line)
    return shown


def _gap_lines(mine: list[str], theirs: list[str], gaps: list[Gap]) -> Iterator[str]:
    """Yield the lines that differ; for each gap also an equal line before and after it."""
    last = -1  # the last line of SEARCH shown as equal
    for gap in gaps:
        removed, added = mine[gap.base_start : gap.base_stop], theirs[gap.now_start : gap.now_stop]
        if gap.base_start and gap.base_start - 1 > last:
            yield f"  {_cut(mine[gap.base_start - 1], 0)}"
        for sign, lines, others in (("-", removed, added), ("+", added, removed)):
            for line, other in zip(lines, chain(others, repeat("")), strict=False):
                yield f"{sign} {_cut(line, same_after(line, other, 0, 0))}"
        if gap.base_stop < len(mine):
            yield f"  {_cut(mine[gap.base_stop], 0)}"
        last = gap.base_stop


def _cut(line: str, at: int) -> str:
    """The part of a long line around character `at`."""
    start = max(min(at - _WIDTH // 3, len(line) - _WIDTH), 0)
    shown = line[start : start + _WIDTH]
    return "…" * (start > 0) + shown + "…" * (start + _WIDTH < len(line))


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block that a hunk inserts, of `pieces` blocks; `leans`: placed after the previous one."""

    image: BlockImage
    hunk: BlockHunk
    pieces: int
    leans: bool


class WorkingCopy:
    """The blocks after the hunks so far; deleted ones keep their place, `made` are new, by name."""

    def __init__(self, tree: BlockTree, split: SplitBlocks, *, strict: bool) -> None:
        self.order = Order(tree.children)
        self.made: dict[str, NewBlock] = {}
        self.updated: dict[str, tuple[BlockImage, BlockHunk]] = {}
        self.moves: list[BlockOperation] = []
        self.deleted: dict[str, BlockHunk] = {}
        self.grown: dict[str, None] = {}  # the parents of new blocks, as an ordered set
        self.blocks = dict(tree.blocks)  # with the parents that they have now
        self._tree = BlockTree(self.blocks, tree.children)
        self._split, self._strict = split, strict
        self._written: dict[str, BlockHunk] = {}  # a refused hunk keeps its claim too
        self._moved: dict[str, BlockHunk] = {}
        self._inside: dict[str, int] = {}
        self._tails: dict[tuple[str, str], str] = {}  # the last block that the action put there

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

    def image(self, block_id: str) -> BlockImage:
        if block_id in self.made:
            return self.made[block_id].image
        if block_id in self.updated:
            return self.updated[block_id][0]
        block = self.blocks[block_id]
        return BlockImage(block.id, block.kind, block.markdown)

    def _of_task(self, hunk: BlockHunk) -> BlockHunk:
        """The hunk on the whole item, if it gives a task by its own line, or its paragraph.

        What is below that line in the item stays.
        """
        block = self.blocks[hunk.block_id]
        item = self.blocks[block.parent_id] if block.kind == "p" and block.parent_id else block
        head = task_head(item.markdown) if item.kind == "i" and hunk.rewrites else ""
        is_own = block is item or self._tree.children[item.id][0] == block.id
        if not head or not is_own or not self._is_task(hunk.text):
            return hunk
        search = None
        if hunk.search is not None:
            own = (head, block.markdown) if block is not item else (head,)
            if not any(matches(hunk.search, text, strict=self._strict) for text in own):
                return hunk
            search = _content(item.markdown)
        elif block is item and task_head(hunk.text) != hunk.text:
            return hunk
        text = _content(hunk.text + item.markdown[len(head) :])
        return replace(hunk, block_id=item.id, text=text, search=search)

    def _is_task(self, text: str) -> bool:
        pieces = self._split(text)
        items = pieces[0].children if len(pieces) == 1 else ()
        return len(items) == 1 and task_head(items[0].markdown) != ""

    def _write(self, hunk: BlockHunk) -> None:
        before = self.image(hunk.block_id)
        if before.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        self._claim(hunk, before.id, writes=True)
        if hunk.search is not None and not matches(
            hunk.search, before.markdown, strict=self._strict
        ):
            raise Unfit("CONTENT_MISMATCH.text")
        if hunk.deletes:
            self.deleted[before.id] = hunk
            return
        parent = self.blocks[before.id].parent_id
        first, *rest = pieces = self._pieces(hunk.text, parent)
        self.updated[before.id] = BlockImage(before.id, first.kind, first.markdown), hunk
        if rest:
            last = self._insert(hunk, parent, before.id, rest, len(pieces), leans=True)
            self._tails["rest", before.id] = last

    def _put(self, hunk: BlockHunk) -> None:
        target = self.image(hunk.block_id)
        parent, within = self._home(hunk.action, target)
        if hunk.action == "APPEND" and (list_id := self._list_at_end(hunk.text, parent, target)):
            hunk = replace(hunk, block_id=list_id)
            target, parent, within = self.image(list_id), list_id, True
        pieces = self._pieces(hunk.text, parent)
        self._claim(hunk, target.id, within=within)
        action = "AFTER" if target.kind == "h" and hunk.action == "PREPEND" else hunk.action
        previous = self._spot(action, target, parent)
        leans = action in ("AFTER", "PREPEND") or (action == "APPEND" and not within)
        last = self._insert(hunk, parent, previous, pieces, len(pieces), leans=leans)
        self._tails[action, target.id] = last

    def _move(self, hunk: BlockHunk, action: Action, anchor_id: str) -> None:
        """Move a block, or the section of a heading, which goes after a heading's section."""
        block, target = self.image(hunk.block_id), self.image(anchor_id)
        if block.kind == "d":
            raise Unfit("INVALID_TARGET.document")
        parent, within = self._home(action, target)
        home = self.blocks[block.id].parent_id
        run = [block.id, *self._section(home, block, block.id)]
        if not {anchor_id, *self._tree.around(anchor_id)}.isdisjoint(run):
            raise Unfit("INVALID_TARGET.itself", block_id=anchor_id)
        if (block.kind == "i") != (self.image(parent).kind == "l"):
            is_item = block.kind == "i"
            raise Unfit("INVALID_TARGET.item" if is_item else "LIST_ITEM_REQUIRED", None, anchor_id)
        if block.id in self._moved:
            raise Unfit("CONFLICTING_HUNKS.same", self._moved[block.id].line)
        self._claim(hunk, block.id)
        self._claim(hunk, anchor_id, within=within)
        self._moved[block.id] = hunk
        for name in run:
            self.order.remove(home, name)
        tails = self._tails.items()
        self._tails = {at: name for at, name in tails if name not in run or at[1] in run}
        if target.kind == "h" and action in ("AFTER", "PREPEND"):
            action = "APPEND" if block.kind == "h" and action == "AFTER" else "AFTER"
        last = left = self._spot(action, target, parent)
        while left in self.made:  # it is not there yet when blocks are moved
            left = self.order.before(parent, left)
        for name in run:
            self.order.insert(parent, last, name)
            last = name
            if name in self.blocks:
                self.blocks[name] = replace(self.blocks[name], parent_id=parent)
        self.grown |= dict.fromkeys([parent] if self.made.keys() & set(run) else ())
        self._tails[action, anchor_id] = run[-1]
        ids = tuple(name for name in run if name not in self.made)
        place = Move(ids, "after", left) if left else Move(ids, "first_in", parent)
        self.moves.append(BlockOperation(place, (), (hunk.line,)))

    def _home(self, action: Action, target: BlockImage) -> tuple[str, bool]:
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
        """Claim the block that a hunk `writes`, or a place next to or `within` it. Raises Unfit."""
        around = self._tree.around(block_id)
        for place in (block_id, *around):
            claim = self._written.get(place)
            if claim is None:
                continue
            if claim.deletes and not writes:
                raise Unfit("ANCHOR_DELETED", claim.line, block_id)
            if place != block_id or within:
                raise Unfit("CONFLICTING_HUNKS.inside", claim.line, block_id)
            if writes:
                raise Unfit("CONFLICTING_HUNKS.same", claim.line)
        if writes and block_id in self._inside:
            raise Unfit("CONFLICTING_HUNKS.contains", self._inside[block_id])
        if hunk.deletes and block_id in self._moved:
            raise Unfit("CONFLICTING_HUNKS.same", self._moved[block_id].line)
        if writes:
            self._written[block_id] = hunk
        for place in (block_id, *around) if within else around:
            self._inside.setdefault(place, hunk.line)

    def _spot(self, action: str, target: BlockImage, parent: str) -> str | None:
        """The block after which something is put; None for the first place."""
        tail = self._tails.get((action, target.id))
        if action == "BEFORE":
            return self.order.before(parent, target.id)
        if action == "PREPEND":
            return tail
        if action == "AFTER":
            return tail or self._tails.get(("rest", target.id), target.id)
        if target.kind == "h":
            at = tail or target.id
            return [at, *self._section(parent, target, at)][-1]
        return self.order.before(parent, None)

    def _section(self, parent: str, heading: BlockImage, at: str) -> Iterator[str]:
        """Yield what is after `at` in the section of a heading, which no deleted heading ends."""

        def behind(at: str | None) -> Iterator[BlockImage]:
            while (at := self.order.after(parent, at)) is not None:
                image = self.image(at)
                yield replace(image, kind="") if at in self.deleted else image

        return section_of(heading, behind(at) if heading.kind == "h" else ())

    def _list_at_end(self, text: str, parent: str, target: BlockImage) -> str:
        """The list at the end of a container or a section, if the text is items that join it."""
        last = self.order.before(parent, None)
        if target.kind == "h":
            last = [target.id, *self._section(parent, target, target.id)][-1]
        block = self.blocks.get(last) if last else None
        if block is None or block.id in self.deleted or block.id in self.updated:
            return ""
        pieces = self._split(text)
        return block.id if len(pieces) == 1 and joins_list(pieces[0], block) else ""

    def _insert(
        self,
        hunk: BlockHunk,
        parent: str,
        previous: str | None,
        pieces: list[BlockText],
        count: int,
        *,
        leans: bool,
    ) -> str:
        """Insert blocks, at least one; return the name of the last."""
        name = ""
        for piece in pieces:
            name = f"+{len(self.made) + 1}"
            image = BlockImage(name, piece.kind, piece.markdown)
            self.made[name] = NewBlock(image, hunk, count, leans)
            self.order.insert(parent, previous, name)
            self.grown[parent] = None
            previous = name
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
        if len(pieces) == 1:
            return [pieces[0]._replace(markdown=text)]  # exactly as given, to the last blank
        return pieces


_COMPARED = 20
"""The most mismatches of one diff that are reported with differences; all are listed."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The operations of a diff, in the order to apply them.

    `reads` are the blocks that the hunks name, as they were: what the plan relies on. A hunk
    without an operation changes nothing: its block already has the new text.
    """

    hunks: tuple[BlockHunk, ...]
    operations: tuple[BlockOperation, ...]
    reads: tuple[NoteBlock, ...]


def plan_blocks(
    hunks: Sequence[BlockHunk], tree: BlockTree, split: SplitBlocks, *, strict: bool = True
) -> BlockPlan:
    """Plan all hunks; BlockDiffRefused lists all that fail. Linear, except for comparing texts."""
    working = WorkingCopy(tree, split, strict=strict)
    problems: list[Problem] = []
    taken: list[BlockHunk] = []
    compared = 0
    for hunk in hunks:
        try:
            taken.append(working.take(hunk))
        except Unfit as unfit:
            if unfit.kind == "CONTENT_MISMATCH.text" and compared < _COMPARED:
                compared += 1
                problems.append(_mismatch(hunk, tree))
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
    return BlockPlan(tuple(taken), operations, tuple(tree.blocks[one] for one in named))


def _mismatch(hunk: BlockHunk, tree: BlockTree) -> Problem:
    found = find_mismatch(hunk.search or "", tree.blocks[hunk.block_id].markdown)
    return problem(
        cast(Kind, f"CONTENT_MISMATCH.{found.reason}"),
        hunk.line,
        block_id=hunk.block_id,
        similarity=found.similarity,
        difference=found.difference,
    )


def _updates(tree: BlockTree, working: WorkingCopy) -> Iterator[BlockOperation]:
    for block_id, (after, hunk) in working.updated.items():
        if _content(after.markdown) != _content(tree.blocks[block_id].markdown):
            yield BlockOperation(Update(block_id, after.markdown), (after,), (hunk.line,))


def _inserts(working: WorkingCopy) -> Iterator[BlockOperation]:
    """Yield the new blocks of each parent, for each gap between blocks that were there before."""
    for parent in working.grown:
        left: str | None = None
        gap: list[NewBlock] = []
        for name in (*working.order.all(parent), None):
            if name in working.made:
                gap.append(working.made[name])
            else:
                yield from _gap(parent, left, gap, name)
                left, gap = name, []


def _gap(
    parent: str, left: str | None, gap: list[NewBlock], right: str | None
) -> Iterator[BlockOperation]:
    """The inserts between two blocks (None: the parent's end); those that lean come reversed."""
    runs = [list(run) for _, run in groupby(gap, key=lambda new: id(new.hunk))]
    leaning = next((i for i, run in enumerate(runs) if not run[0].leans), len(runs))
    for run in reversed(runs[:leaning]):
        yield _insert("first_in" if left is None else "after", left or parent, run)
    for run in runs[leaning:]:
        yield _insert("last_in" if right is None else "before", right or parent, run)


def _insert(side: Side, anchor_id: str, run: list[NewBlock]) -> BlockOperation:
    """Insert blocks of one hunk, with its text as given if these are all its blocks."""
    hunk = run[0].hunk
    images = tuple(new.image for new in run)
    between = "\n" if images[0].kind == "i" else "\n\n"
    whole = len(run) == run[0].pieces
    markdown = hunk.text if whole else between.join(image.markdown for image in images)
    return BlockOperation(InsertText(markdown, side, anchor_id), images, (hunk.line,))


def _deletes(working: WorkingCopy) -> Iterator[BlockOperation]:
    """Yield the deletions; of a list of which nothing would be left, that of the whole."""
    lines: dict[str, tuple[int, ...]] = {}
    for block_id, hunk in working.deleted.items():
        parent = working.blocks[block_id].parent_id
        is_list = working.blocks[parent].kind == "l"
        items = list(working.order.all(parent)) if is_list else []
        if items and working.deleted.keys() >= set(items):
            lines[parent] = tuple(working.deleted[item].line for item in items)
        else:
            lines[block_id] = (hunk.line,)
    for block_id, hunk_lines in lines.items():
        yield BlockOperation(Delete(block_id), (), hunk_lines)


HunkKind = Literal[
    "UPDATE", "REPLACE", "DELETE", "MOVE", "INSERT_BEFORE", "INSERT_AFTER", "PREPEND", "APPEND"
]
"""The kind of a hunk in reports."""

_KINDS: Mapping[Action, HunkKind] = {
    "EDIT": "UPDATE",
    "REPLACE": "REPLACE",
    "MOVE": "MOVE",
    "BEFORE": "INSERT_BEFORE",
    "AFTER": "INSERT_AFTER",
    "PREPEND": "PREPEND",
    "APPEND": "APPEND",
}


@dataclass(frozen=True, slots=True)
class HunkMade:
    """One applied hunk: kind, block, old text if known, new text (of a MOVE its place), new ids."""

    kind: HunkKind
    block_id: str
    old: str
    new: str
    new_ids: tuple[str, ...] = ()


_NO_PLAN = BlockPlan((), (), ())


@dataclass(frozen=True)
class BlockDraft(Draft):
    """The draft of a block diff, made by `block_draft`.

    The document named first is the first of `documents`; if there are several, the draft itself is
    about their texts, one below the other. Once written, `ids` are those of blocks that the
    operations of `plan` left. `notices` are its side effects: their kind, the block, what happened.
    """

    plan: BlockPlan = _NO_PLAN
    ids: tuple[tuple[str, ...], ...] = ()
    notices: tuple[tuple[str, str, str], ...] = ()

    @computed_once
    def diff(self) -> bytes:
        """The unified diffs of all documents, one after the other."""
        return b"".join(one.diff for one in self.documents)

    @computed_once
    def old_count(self) -> int:
        """The number of lines removed, in all documents."""
        return sum(counts(one.diff)[1] for one in self.documents)

    @computed_once
    def new_count(self) -> int:
        return sum(counts(one.diff)[0] for one in self.documents)

    @property
    def bad_character(self) -> bool:
        """Whether the new text contains U+FFFD and the blocks that the hunks name do not."""
        return any("\ufffd" in hunk.text for hunk in self.plan.hunks) and not any(
            "\ufffd" in block.markdown for block in self.plan.reads
        )

    @property
    def reads(self) -> BlockReads:
        """The saved data of a plan: digests of texts that no SEARCH gives, and line counts."""
        changing = (hunk for hunk in self.plan.hunks if hunk.deletes or hunk.rewrites)
        blind = {hunk.block_id for hunk in changing if hunk.search is None}
        found = (block for block in self.plan.reads if block.id in blind)
        digests = tuple((block.id, digest_of_texts(block.markdown)) for block in found)
        return BlockReads(digests, self.old_count, self.new_count)

    def made(self) -> tuple[HunkMade, ...]:
        """The results of all hunks, in the order of the diff."""
        came: dict[int, list[str]] = {}
        for operation, ids in zip(self.plan.operations, self.ids, strict=False):
            if isinstance(operation.change, InsertText):
                for line in operation.lines:
                    came.setdefault(line, []).extend(ids)
        old = {block.id: block.markdown for block in self.plan.reads}
        return tuple(
            HunkMade(
                "DELETE" if hunk.deletes else _KINDS[hunk.action],
                hunk.block_id,
                old[hunk.block_id] if hunk.deletes or hunk.rewrites else "",
                " ".join(hunk.place) if hunk.place else hunk.text,
                tuple(came.get(hunk.line, ())),
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
    if not documents:
        return rewritten(path, "", "")
    first, *others = documents
    if not others:
        return first
    data, edits = first.base.data, list(first.change.edits)
    for one in others:
        data += f"\n=== {one.path} ===\n".encode()
        edits += [Edit(len(data) + e.start, len(data) + e.stop, e.new) for e in one.change.edits]
        data += one.base.data
    base = Snapshot(data, UTF8)
    return FileEdit(first.path, base, ChangeSet.of(base.size, edits))


def rewritten(path: RelPath, before: str | None, after: str) -> FileEdit:
    """A document known only by its texts, each ended by a line feed; `before` None: it is new."""
    base = Snapshot(_closed(before or ""), UTF8)
    new = _closed(after)
    edits = [] if new == base.data else [Edit(0, base.size, new)]
    return FileEdit(path, base, ChangeSet.of(base.size, edits), before is None)


def digest_of_texts(text: str) -> str:
    """The SHA-256 of a text in UTF-8, in hex."""
    return Snapshot(text.encode("utf-8", "surrogatepass"), UTF8).digest


def _closed(text: str) -> bytes:
    closed = text if not text or text.endswith("\n") else f"{text}\n"
    return closed.encode("utf-8", "surrogatepass")
