"""A dry run of block changes on the documents of a folder; it yields file edits or a refusal."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from copydesk.errors import InvalidArgs
from copydesk.notes.folder.blocks import (
    Fingerprint,
    FolderDocument,
    content,
    fingerprints,
    holding,
    identify,
    in_order,
    pieces,
    read,
    shift_all,
    shown,
    shown_text,
    top,
)
from copydesk.notes.folder.documents import (
    DocumentCache,
    SidecarChange,
    Splice,
    Successor,
    names_document,
    splice_of,
)
from copydesk.notes.markdown import Block, Tree, Where, deletion, insertion, is_phantom, replacement
from copydesk.notes.markdown.block import BLANK, BOM, HOLDS, ITEM, LIST, MATTER, newline_of
from copydesk.notes.markdown.edit import blank_line, is_tight, marker_holder
from copydesk.notes.markdown.tree import (
    head_of,
    line_after,
    line_start,
    line_stop,
    prefix_beside,
)
from copydesk.notes.protocol import (
    MOST_TOLD,
    BlockChanged,
    BlockNotFound,
    BlockText,
    Change,
    Delete,
    InsertText,
    Move,
    NoteNotice,
    NoticeKind,
    Prepared,
    Update,
    WrongBlockKind,
    for_place,
    for_update,
    new_id,
    plain_subtype,
    raw_markdown,
)
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import FileEdit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

_GOES_WHEN_EMPTY = ("l", "b", "footnote")
_STAYS_WHEN_EMPTY = ("d", "i")

_RUNS_ON = "would become one with what stands beside it, or part of it"
_OTHER = "would be another block in that place"
_NEEDED = "without it, what stands beside it would become another block"


Trace = tuple[int, str, str, bytes]
"""What must stay of a block that a change is not about: depth, kind, subtype, text of a leaf."""

Span = tuple[int, int, int]
"""Blocks that a change replaces: [start, stop) in document order, and the depth of them all."""


def traces(tree: Tree, placed: Iterable[tuple[int, Block]]) -> list[Trace]:
    """The traces of blocks, each given with its depth."""
    return [
        (
            depth,
            block.kind,
            "" if block.kind == LIST else block.subtype,  # its items have it
            b"" if block.kind in HOLDS else tree.data[block.start : block.stop],
        )
        for depth, block in placed
    ]


Parsed = tuple[Tree, list[Block], list[Trace]]
"""A text with its blocks, the document first and without front matter, and their traces."""


class ReparseWindow:
    """The top-level blocks [low, high) of a document, with their lines, and the changes so far.

    In the document these were the rows [first, behind) and the bytes [start, stop), to which
    `change` applies. `order` are the document and all blocks but front matter; `traces`, `rows` and
    `ids` are theirs.
    """

    def __init__(self, document: FolderDocument, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.start, self.first = document.place_of(low)
        self.stop, self.behind = document.place_of(high)

    def show(self, parsed: Parsed, change: ChangeSet, rows: list[Fingerprint]) -> None:
        """Take in another text, and the rows of its blocks."""
        self.tree, self.order, self.traces = parsed
        self.change, self.rows, self.ids = change, rows, [row.id for row in rows]
        self.by_id = dict(zip(self.ids, self.order, strict=True))

    def span(self, block: Block) -> Span:
        """The place of a block and its descendants."""
        start = self.order.index(block)
        return start, start + len(in_order(block)), self.traces[start][0]

    def id_of(self, block: Block) -> str:
        return self.ids[self.order.index(block)]


class LinkTarget(NamedTuple):
    """A heading or `^name` that a change takes away; `new` is what its block is called then."""

    path: RelPath
    block_id: str
    name: str
    new: str


class WorkingDocument:
    """A document with the changes so far. `fresh` generates ids."""

    def __init__(self, document: FolderDocument, fresh: Callable[[], str]) -> None:
        self.document = document
        self.windows: list[ReparseWindow] = []  # in order and disjoint
        self.notices: list[NoteNotice] = []
        self._fresh = fresh
        self._used: set[str] = set()

    @property
    def change(self) -> ChangeSet:
        """All changes so far, relative to the bytes of the document."""
        return ChangeSet.of(len(self.document.data), _shifted(self.windows, 0))

    def fronts(self, data: bytes) -> bool:
        """Whether front matter that no window saw begins or ends in `data`, the changed text."""
        first = (window.tree for window in self.windows[:1] if not window.low)
        tree = next(first, self.document.tree)
        return tree.profile == "gfm" and (
            bool(head_of(data)) != (tree.root.children[0].kind == MATTER)
        )

    def splices(self) -> tuple[Splice, ...]:
        rows = self.document.rows
        splices = [
            splice_of(window.first, rows[window.first : window.behind], window.rows[1:])
            for window in self.windows
        ]
        return tuple(splice for splice in splices if splice.old or splice.new)

    def successor(
        self, stamp: Stamp, digest: str, data: bytes, rows: tuple[Fingerprint, ...]
    ) -> FolderDocument | None:
        """The changed document, built from the blocks of the old one; None if these are taken."""
        document, windows = self.document, self.windows
        if document.spent or not windows:
            return None
        document.spent = True
        children, old = document.tree.root.children, document.order
        # a window at the start of the text knows of its byte order mark, id and attributes
        root = document.tree.root if windows[0].low else windows[0].tree.root
        tops: list[Block] = []
        order: list[Block] = [root]
        at, child, shift = 1, 0, 0
        for window in windows:
            shift_all(old[at : window.first], shift)
            shift_all(window.order[1:], window.start + shift)
            order += (*old[at : window.first], *window.order[1:])
            tops += (*children[child : window.low], *window.tree.root.children)
            shift += len(window.tree.data) - window.change.length
            at, child = window.behind, window.high
        shift_all(old[at:], shift)
        order += old[at:]
        tops += children[child:]
        for index, block in enumerate(tops):
            block.index, block.parent = index, root
        root.children, root.stop = tuple(tops), len(data)
        tree = Tree(data, document.tree.profile, root, newline_of(data))
        return FolderDocument(document.path, stamp, digest, data, tree, rows, tuple(order))

    def lost_targets(self) -> list[LinkTarget]:
        """The headings and names that links may lead to and that the changes take away."""
        document = self.document
        old: dict[str, tuple[str, str]] = {}
        seen = [at for window in self.windows for at in range(window.first, window.behind)]
        for at in seen:
            for name in _target_names(document.tree, document.order[at]):
                old.setdefault(link_key(name), (document.rows[at].id, name))
        now = {
            (block_id, name.startswith("^")): name
            for window in self.windows
            for block_id, block in window.by_id.items()
            for name in _target_names(window.tree, block)
        }
        lost = old.keys() - set(map(link_key, now.values())) - {""}
        if lost:
            rest = {*document.order} - {document.order[at] for at in seen}
            lost -= {link_key(n) for block in rest for n in _target_names(document.tree, block)}
        return [
            LinkTarget(document.path, block_id, name, now.get((block_id, name.startswith("^")), ""))
            for key, (block_id, name) in old.items()
            if key in lost
        ]

    def now(self, block_id: str) -> tuple[Tree, Block] | None:
        """A block as it is after the changes so far; None if it is gone."""
        window = self.window_of(block_id)
        if window is not None:
            return window.tree, window.by_id[block_id]
        document = self.document
        at = document.index.get(block_id, 0)
        is_changed = any(each.first <= at < each.behind for each in self.windows)
        return (document.tree, document.order[at]) if at and not is_changed else None

    def block(self, block_id: str) -> tuple[ReparseWindow, Block]:
        """A current block and the window that a change of it can affect; raises BlockNotFound."""
        now, window = self.now(block_id), self.window_of(block_id)
        if now is None:
            raise BlockNotFound(block_id, lost=block_id in self.document.index)
        if window is None:
            at = top(now[1]).index
            window = self._window(at - 1, at + 2)
        window = self._with_guards(window, lambda each: top(each.by_id[block_id]).index)
        return window, window.by_id[block_id]

    def end(self, *, last: bool) -> tuple[ReparseWindow, Block]:
        """The document, with a window around its first or its last block."""
        low, at = (len(self.document.tree.root.children) - 2, -1) if last else (0, 0)
        window = self._with_guards(
            self._window(low, low + 2), lambda each: each.tree.root.children[at].index
        )
        return window, window.tree.root

    def run(self, ids: Sequence[str]) -> tuple[ReparseWindow, tuple[Block, ...]]:
        """Blocks that follow each other in one container; raises InvalidArgs for any others."""
        window, first = self.block(ids[0])
        index = self.document.index
        tops = [top(self.document.block(block_id)).index for block_id in ids if block_id in index]
        if tops:
            window = self._window(min(tops) - 1, max(tops) + 2)
            first = window.by_id[ids[0]]
        blocks = _parent(first).children[first.index : first.index + len(ids)]
        if [window.id_of(block) for block in blocks] != list(ids):
            raise InvalidArgs("markdown", "the blocks to move do not follow each other")
        return window, blocks

    def insert(
        self, window: ReparseWindow, block: Block, where: Where, markdown: str, kinds: Sequence[str]
    ) -> tuple[str, ...]:
        """Insert blocks of these kinds; return their ids. InvalidArgs if they would be others."""
        span = _span_to_fill(window, block, where)
        return self._make(window, (insertion(window.tree, block, where, markdown),), span, kinds)

    def update(self, window: ReparseWindow, block: Block, markdown: str, kind: str) -> None:
        """Replace the text of a block, which keeps its id. Raises InvalidArgs as `insert` does."""
        text = as_stored(raw_markdown(window.tree, block), markdown)
        if edits := replacement(window.tree, block, text):
            self._make(window, edits, window.span(block), [kind], keeps=True)

    def delete(self, window: ReparseWindow, block: Block, *, joins: bool = True) -> None:
        """Delete a block and the containers that become empty; `joins`: lists may become one.

        InvalidArgs, and no effect, if another block could not stay what it is.
        """
        if is_phantom(block):
            self.rename({window.id_of(block): self._fresh()})
            return
        parent = _parent(block)
        while parent.kind in _GOES_WHEN_EMPTY and _only(block):
            block, parent = parent, _parent(parent)
        is_text = parent.mark > 0 == block.index  # of a task, which has no block in its place
        only = _only(block) or (is_text and parent.children[1].kind != "p")
        empties = parent.kind in _STAYS_WHEN_EMPTY and only
        edit = (_emptied if empties else deletion)(window.tree, block)
        ways = [[edit]]
        if empties and parent.kind == ITEM:  # with a blank line, the empty item stays one
            ways.append([_parted(window.tree, parent), edit])
        for edits in ways:
            with suppress(InvalidArgs):
                self._make(
                    window, edits, window.span(block), ["p"] * empties, joins=joins and not empties
                )
                return
        raise InvalidArgs("diff", _NEEDED)

    def rename(self, names: dict[str, str]) -> None:
        """Give blocks in windows other ids."""
        for window in self.windows:
            if not names.keys().isdisjoint(window.by_id):
                rows = [row.with_id(names.get(row.id, row.id)) for row in window.rows]
                window.show((window.tree, window.order, window.traces), window.change, rows)

    def window_of(self, block_id: str) -> ReparseWindow | None:
        """The window that a block is in; None for any other."""
        return next((window for window in self.windows if block_id in window.by_id), None)

    def _make(
        self,
        window: ReparseWindow,
        edits: Sequence[Edit],
        span: Span,
        kinds: Sequence[str],
        *,
        keeps: bool = False,
        joins: bool = False,
    ) -> tuple[str, ...]:
        """Make edits that leave blocks of these kinds in the place of a span, and nothing else.

        Return the ids of these; InvalidArgs, and no effect, if anything else changes. `keeps`: the
        block keeps its id, and so do those in it that are still there. `joins`: the list behind may
        become one with the list before.
        """
        change = ChangeSet.of(len(window.tree.data), edits)
        parsed = tree, order, new = self._parsed(change.apply(window.tree.data), window.low)
        old, (start, stop, depth) = window.traces, span
        behind = stop + len(new) - len(old)
        follows = [trace[:2] for trace in old[stop : stop + 1]]
        joined = joins and behind < start and follows == [(depth, LIST)]
        stop, behind = stop + joined, behind + joined
        depths = [at for at, *_ in new[start : max(behind, start)]]
        now = [kind for at, kind, *_ in new[start : max(behind, start)] if at == depth]
        is_as_meant = (
            behind >= start
            and old[:start] == new[:start]
            and old[stop:] == new[behind:]
            and len(now) == len(kinds)
            and depths[:1] == [depth][: len(kinds)]
            and min(depths, default=depth) == depth
        )
        if not is_as_meant or now != [*kinds]:
            raise InvalidArgs("markdown", _OTHER if is_as_meant else _RUNS_ON)
        tops = [block for at, block in enumerate(order[start:behind]) if depths[at] == depth]
        unnamed = [each for block in tops for each in fingerprints(tree, block, depth)]
        gone, made = (window.rows[start:stop] if keeps else []), tuple(unnamed)
        if not keeps or len(unnamed) > 1:  # else it is the row of the block itself
            made = identify(
                gone,
                unnamed,
                (),
                lambda at: self._fresh(),
                lambda each: each in self._used or each in self.document.index,
            )
        if keeps:
            made = (made[0].with_id(gone[0].id), *made[1:])
        if joined:
            self.notices.append(NoteNotice("joined", window.ids[start], window.ids[stop - 1]))
        ids = [row.id for row in made]
        self._used.update(ids)  # some are those that the text brings, and has once
        if lost := [row.id for row in gone if row.id not in ids]:
            self.notices.append(NoteNotice("ids", ids[0], ", ".join(lost)))
        placed = zip((*window.rows[:start], *made, *window.rows[stop:]), order, strict=True)
        rows = [  # a name may have moved to what is left beside it
            row if row.anchor == (block.anchor or "") else row._replace(anchor=block.anchor or "")
            for row, block in placed
        ]
        is_inside = depth > 1 or joined  # of containers that the change is not about
        window.show(parsed, window.change.then(change), holding(rows) if is_inside else rows)
        return tuple(row.id for row in made if row.depth == depth)

    def _with_guards(
        self, window: ReparseWindow, index_in: Callable[[ReparseWindow], int]
    ) -> ReparseWindow:
        """The window, widened until a block precedes and follows the child at an index."""
        index, last = index_in(window), len(window.tree.root.children) - 1
        wider = self._window(window.low - (index == 0), window.high + (index >= last))
        return window if wider is window else self._with_guards(wider, index_in)

    def _window(self, low: int, high: int) -> ReparseWindow:
        """The window of these top-level blocks, merged with the windows it overlaps."""
        size = len(self.document.tree.root.children)
        low, high = max(low, 0), min(high, size)
        if not self.document.parses_in_windows:
            low, high = 0, size
        met = [each for each in self.windows if each.low < high and low < each.high]
        low, high = (
            min([low, *(each.low for each in met)]),
            max([high, *(each.high for each in met)]),
        )
        if len(met) == 1 and (met[0].low, met[0].high) == (low, high):
            return met[0]
        window = self._joined(low, high, met) or self._joined(0, size, self.windows)
        if window is None:
            raise InvalidArgs("markdown", _RUNS_ON)
        others = [each for each in self.windows if not window.low <= each.low < window.high]
        self.windows = sorted([*others, window], key=lambda each: each.low)
        return window

    def _joined(self, low: int, high: int, met: Sequence[ReparseWindow]) -> ReparseWindow | None:
        """Join blocks and the windows among them; None if the result would parse differently."""
        document, window = self.document, ReparseWindow(self.document, low, high)
        rows = [document.rows[0], *document.rows[window.first : window.behind]]
        tops = document.tree.root.children[low:high]
        expected = traces(document.tree, chain.from_iterable(in_order(top, 1) for top in tops))
        for each in reversed(met):  # the last first: no place moves
            rows[each.first - window.first + 1 : each.behind - window.first + 1] = each.rows[1:]
            expected[each.first - window.first : each.behind - window.first] = each.traces[1:]
        change = ChangeSet.of(window.stop - window.start, _shifted(met, -window.start))
        parsed = self._parsed(change.apply(document.data[window.start : window.stop]), low)
        if parsed[2][1:] != expected:
            return None
        window.show(parsed, change, rows)
        return window

    def _parsed(self, data: bytes, low: int) -> Parsed:
        whole = self.document.tree
        tree = read(data, whole.profile, whole.newline, part=low > 0)
        placed = in_order(tree.root)
        return tree, [block for _, block in placed], traces(tree, placed)


def _shifted(windows: Iterable[ReparseWindow], by: int) -> list[Edit]:
    return [
        Edit(edit.start + window.start + by, edit.stop + window.start + by, edit.new)
        for window in windows
        for edit in window.change.edits
    ]


def _span_to_fill(window: ReparseWindow, block: Block, where: Where) -> Span:
    """Where new blocks go: an empty place, or that of the empty paragraph that they replace."""
    start, stop, depth = window.span(block)
    is_within = where in ("first_in", "last_in")
    there = shown(block) if is_within else [block]
    if len(there) == 1 and is_phantom(there[0]):
        return window.span(there[0])
    at = {"before": start, "after": stop, "first_in": start + 1, "last_in": stop}[where]
    return at, at, depth + is_within


def _parent(block: Block) -> Block:
    assert block.parent is not None
    return block.parent


def _only(block: Block) -> bool:
    """Whether it is the only block in its container."""
    return all(child is block for child in shown(_parent(block)))


def _parted(tree: Tree, item: Block) -> Edit:
    """Put a blank line before the list of an item."""
    start = line_start(tree.data, item.first)
    return Edit(start, start, blank_line(prefix_beside(_parent(item))) + tree.newline)


def _emptied(tree: Tree, block: Block) -> Edit:
    """Delete the only block of an item or of the document, or a task's text; the item stays."""
    if _parent(block).kind == "d":
        return deletion(tree, block)
    begin, stop = line_start(tree.data, block.first), line_stop(tree.data, block.end)
    holder = marker_holder(tree, block)
    if holder is None:
        return Edit(begin, line_after(tree.data, stop), b"")
    # what makes a task of an item ends with a blank
    start = block.first if holder.mark else len(tree.data[: block.first].rstrip(BLANK))
    return Edit(start, stop, b"")


FilePlan = tuple[RelPath, str, tuple[Fingerprint, ...], Successor | None]
"""The digest and rows that a file will have, and what makes the document of its blocks."""


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """The data that `execute` needs: planned files and ids to return.

    `anchors` are the names (`note.md#^name`) that get lost though links lead to them, each with the
    notes that link.
    """

    plans: tuple[FilePlan, ...]
    ids: tuple[tuple[str, ...], ...]
    anchors: tuple[tuple[str, tuple[str, ...]], ...] = ()


FindTexts = Callable[[Iterable[str]], Iterator[tuple[FolderDocument, int]]]
"""Finds leaves that contain any of these case-folded texts: document, and place in its order."""


def _link_notice(kind: NoticeKind, target: LinkTarget, paths: Iterable[RelPath]) -> NoteNotice:
    names = [*map(str, paths)]
    more = [f"…and {len(names) - MOST_TOLD} more"] if len(names) > MOST_TOLD else []
    return NoteNotice(kind, target.block_id, ", ".join(names[:MOST_TOLD] + more))


Linked = dict[tuple[NoticeKind, LinkTarget], dict[RelPath, None]]
"""The notes that link to what is lost, in order, by whether their links are changed."""


class DryRun:
    """Changes of blocks on the documents of a folder, before any of these is written."""

    def __init__(self, documents: DocumentCache) -> None:
        self._documents = documents
        self._workings: dict[RelPath, WorkingDocument] = {}

    def prepared(
        self, changes: Sequence[Change], find: FindTexts, *, update_links: bool
    ) -> Prepared:
        """Check the changes; raise the refusal of the first that cannot be made.

        The ids of the new texts are saved, so that a crash after the files are written loses none.
        """
        ids = self._take_all(changes)
        linked = self._follow_links(find, update=update_links)
        workings = self._workings.items()
        before = {
            str(path): working.document.data.decode("utf-8", "backslashreplace")
            for path, working in workings
        }
        after: dict[str, str] = {}
        files: list[FileEdit] = []
        plans: list[FilePlan] = []
        for path, working in workings:
            document, change = working.document, working.change
            file = FileEdit(path, Snapshot.of(document.data), change)
            result = file.after
            after[str(path)] = result.data.decode("utf-8", "backslashreplace")
            if working.fronts(result.data):
                raise InvalidArgs("markdown", _RUNS_ON)
            step = SidecarChange(document.digest, result.digest, working.splices())
            rows = step.take(document.rows)
            if change:
                files.append(file)
                plans.append((path, result.digest, rows, working.successor))
                self._documents.plan_ids(document, path, step)
        notices = (
            *chain.from_iterable(working.notices for working in self._workings.values()),
            *(_link_notice(kind, target, paths) for (kind, target), paths in linked.items()),
        )
        anchors = [
            (f"{target.path}#{target.name}", tuple(map(str, paths)))
            for (kind, target), paths in linked.items()
            if kind != "relinked" and target.name.startswith("^")
        ]
        return Prepared(
            tuple(changes),
            MappingProxyType(before),
            MappingProxyType(after),
            tuple(files),
            HeldFiles(tuple(plans), ids, tuple(anchors)),
            notices,
        )

    def _take_all(
        self, changes: Sequence[Change], *, joins: bool = False
    ) -> tuple[tuple[str, ...], ...]:
        """Apply the changes; a deletion waits for others that make it possible.

        Without `joins`, also for others after which no lists become one: these may be deleted too.
        """
        ids, late = list[tuple[str, ...]](), list[Change]()
        for change in changes:
            try:
                ids.append(self._take(change, joins=joins))
            except InvalidArgs:
                is_last = joins and len(changes) == len(late) + 1
                if not isinstance(change, Delete) or is_last:
                    raise
                late.append(change)
                ids.append(())
        if late:
            self._take_all(late, joins=len(late) == len(changes))
        return tuple(ids)

    def _take(self, change: Change, *, joins: bool = False) -> tuple[str, ...]:
        """Apply one change; return the ids it leaves. `joins` as in `delete`."""
        match change:
            case InsertText():
                return self._insert(change)
            case Move():
                return self._move(change)
            case Update():
                new = pieces(change.markdown, self._documents.profile)
            case Delete():
                new = ()
            case _:
                raise InvalidArgs("image", "is not one of this store")
        working, window, block = self._block(change.id)
        if change.over and window.rows[window.order.index(block)].hash != change.over:
            raise BlockChanged(block_id=change.id)
        if not isinstance(change, Update):
            working.delete(window, block, joins=joins)
            return ()
        piece = for_update(*_fitted(new, window.tree, _parent(block)))
        working.update(window, block, change.markdown, piece.kind)
        return (change.id,)

    def _follow_links(self, find: FindTexts, *, update: bool) -> Linked:
        """The links to headings and names that the changes took away; changed if so wanted."""
        wanted: dict[str, list[LinkTarget]] = {}
        has_links = self._documents.profile == "gfm"
        for working in self._workings.values() if has_links else ():
            for target in working.lost_targets():
                wanted.setdefault(link_key(target.name), []).append(target)
        linked: Linked = {}
        leads = cache(self._leads)
        for path, block_id, tree, block in self._may_link(find, wanted) if wanted else ():
            text = raw_markdown(tree, block)
            new, targets = relinked(text, wanted, partial(leads, path))
            kind: NoticeKind = "dangling" if update else "links"
            if update and new != text:
                with suppress(InvalidArgs):  # else it is told as a link that leads nowhere
                    self._take(Update(block_id, new))
                    kind = "relinked"
            for target in targets:
                linked.setdefault((kind if target.new else "dangling", target), {})[path] = None
        return linked

    def _leads(self, path: RelPath, note: str) -> RelPath | None:
        """What a link at `path` means: of notes of one name the one beside it, or the highest."""
        if not note:
            return path
        beside = posixpath.normpath(f"{path.parent}/{note}").casefold()

        def rank(named: RelPath) -> tuple[bool, int]:
            return str(named).casefold() not in (beside, f"{beside}.md"), len(named.parts)

        named = (each for each in self._documents.scanned() if names_document(note, each))
        return min(named, key=rank, default=None)

    def _may_link(
        self, find: FindTexts, wanted: dict[str, list[LinkTarget]]
    ) -> Iterator[tuple[RelPath, str, Tree, Block]]:
        """The leaves that may hold links, by the index, and those in changed windows."""
        targets = chain.from_iterable(wanted.values())
        hits = find({needle for target in targets for needle in _needles(target.name)})
        documents = {(each.path, each.rows[at].id): each for each, at in hits} | {
            (path, block_id): working.document
            for path, working in self._workings.items()
            for window in working.windows
            for block_id in window.ids
        }
        for (path, block_id), document in sorted(documents.items(), key=itemgetter(0)):
            working = self._workings.get(path, WorkingDocument(document, new_id))
            now = working.now(block_id)
            if now is not None and not now[1].holds_blocks and now[1].kind not in _WITHOUT_LINKS:
                yield path, block_id, *now

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        new = pieces(change.markdown, self._documents.profile)
        working, window, block = self._place(change)
        tops = for_place(*_fitted(new, window.tree, _holder(change, block)))
        return working.insert(window, block, change.side, change.markdown, [p.kind for p in tops])

    def _move(self, change: Move) -> tuple[str, ...]:
        """Insert the blocks' own text, delete them there, and give their ids to the new ones."""
        source = self._working(change.ids[0])
        if source.document.id in change.ids:
            raise WrongBlockKind(source.document.id, "d", "block")
        window, blocks = source.run(change.ids)
        holder = _parent(blocks[0])
        if holder.kind == ITEM and len(holder.children) == len(blocks):
            raise InvalidArgs("diff", "an item would be left empty: move the item")
        text, signs = _moved_text(window.tree, blocks), _signs(window.tree, blocks)
        start, stop = window.span(blocks[0])[0], window.span(blocks[-1])[1]
        ids = window.ids[start:stop]
        kinds = tuple(BlockText(block.kind, block.subtype, text) for block in blocks)
        if blocks[0].kind == ITEM:
            kinds = (BlockText(LIST, _parent(blocks[0]).subtype, text, kinds),)
        target, window, anchor = self._place(change)
        if any(window.id_of(block) in change.ids for block in (anchor, *anchor.ancestors())):
            raise InvalidArgs("diff", "a block cannot be moved into itself")
        holder = _holder(change, anchor)
        if blocks[0].kind == ITEM and holder.kind != LIST:
            raise InvalidArgs("markdown", "a list takes items of its own type, and only a list")
        for_place(*_fitted(kinds, window.tree, holder))
        added = target.insert(window, anchor, change.side, text, [each.kind for each in blocks])
        copies = [window.by_id[i] for i in added]
        if _signs(window.tree, copies) != signs:
            raise InvalidArgs("markdown", _OTHER)
        start, _, _ = window.span(copies[0])
        names = dict(zip(window.ids[start : start + len(ids)], ids, strict=True))
        self._take_all([Delete(block_id) for block_id in change.ids])
        target.rename(names)
        return change.ids

    def _place(self, change: InsertText | Move) -> tuple[WorkingDocument, ReparseWindow, Block]:
        """The block that a change puts others beside or into."""
        is_within = change.side in ("first_in", "last_in")
        working = self._working(change.anchor_id)
        if is_within and change.anchor_id == working.document.id:
            return working, *working.end(last=change.side == "last_in")
        working, window, block = self._block(change.anchor_id)
        if is_within and not block.holds_blocks:
            raise WrongBlockKind(change.anchor_id, block.kind, "container")
        return working, window, block

    def _block(self, block_id: str) -> tuple[WorkingDocument, ReparseWindow, Block]:
        working = self._working(block_id)
        if block_id == working.document.id:
            raise WrongBlockKind(block_id, "d", "block")
        return working, *working.block(block_id)

    def _working(self, block_id: str) -> WorkingDocument:
        workings = self._workings.values()
        has = [working for working in workings if working.window_of(block_id) is not None]
        for working in has or [each for each in workings if block_id in each.document.index]:
            return working  # a moved block is where it is now
        document = self._documents.find(block_id)
        if document.path in self._workings:
            raise BlockNotFound(block_id)  # the file changed during the dry run
        return self._workings.setdefault(document.path, WorkingDocument(document, new_id))


def _holder(change: InsertText | Move, block: Block) -> Block:
    """The container that a change puts blocks into."""
    return block if change.side in ("first_in", "last_in") else _parent(block)


def _fitted(
    new: Sequence[BlockText], tree: Tree, holder: Block
) -> tuple[Sequence[BlockText], str | None]:
    """Blocks for a container, and its subtype if it is a list: in `gfm`, tasks are items."""
    if holder.kind != LIST:
        return new, None
    if tree.profile == "gfm":
        plain = plain_subtype(chr(tree.data[holder.start]))
        new = [
            each._replace(subtype=holder.subtype) if plain_subtype(each.markdown) == plain else each
            for each in new
        ]
    return new, holder.subtype


def _moved_text(tree: Tree, blocks: Sequence[Block]) -> str:
    """The text of blocks that follow each other, as they are; with what is between them."""
    first, last = blocks[0], blocks[-1]
    if first.parent is tree.root:
        whole = tree.data[line_start(tree.data, first.first) : last.end]
        return whole.removeprefix(BOM).decode("utf-8", "surrogateescape")
    between = "\n" if first.kind == ITEM and is_tight(tree, first) else "\n\n"
    return between.join(raw_markdown(tree, block) for block in blocks)


def _signs(tree: Tree, blocks: Sequence[Block]) -> list[object]:
    """What has to be the same of blocks that move: kinds, texts, names and attributes."""
    attributes = [
        tree.data[slice(*block.attributes)].strip()
        for each in blocks
        for block in each.walk()
        if block.attributes is not None
    ]
    return [*(fingerprints(tree, block) for block in blocks), attributes]


def as_stored(old: str, new: str) -> str:
    """The new text; unchanged lines keep their old bytes, changed ones spell out non-UTF-8 ones."""
    shown = shown_text(old)
    if shown == old:
        return new
    real = dict(zip(shown.split("\n"), old.split("\n"), strict=True))
    return "\n".join(real.get(line, line) for line in new.replace("\r\n", "\n").split("\n"))


_WITHOUT_LINKS = ("c", "m", "html")

_WORDS = re.compile(r"\w+")
_BACKTICKS = re.compile(r"`+")

_LINKS = (
    re.compile(r"(\[\[)([^\[\]|#\n]*)#([^\[\]|\n]*[^\[\]|\s])(?=[ \t]*(?:\||\]\]))"),
    re.compile(
        r"(\]\(<?|\]:[ \t]*+<?)([^()\[\]#<>\n]*)#([^()<>\n\"]*[^()<>\s\"])(?=[ \t]*(?:[>)\"]|$))",
        re.MULTILINE,
    ),
)
"""Wiki links, and Markdown's: what opens them, the note, the heading or name in it."""


def _target_names(tree: Tree, block: Block) -> list[str]:
    """What links may call a block: its name in the text, and the text of a heading."""
    names = [f"^{block.anchor}"] if block.anchor else []
    return [*names, content(tree, block)] if block.level else names


def link_key(name: str) -> str:
    """What a heading, its slug and its text in a link have in common; a `^name` as it is."""
    if name.startswith("^"):
        return name.strip().casefold()
    return "".join(_WORDS.findall(unquote(name))).casefold()


def _needles(name: str) -> list[str]:
    """What every link to a heading or name contains, case-folded."""
    word = name if name.startswith("^") else _WORDS.findall(name)[0]
    return [f"#{word}".casefold(), f"#{quote(word, safe='^')}".casefold()]


def relinked(
    text: str,
    wanted: dict[str, list[LinkTarget]],
    leads: Callable[[str], RelPath | None],
) -> tuple[str, list[LinkTarget]]:
    """A text with its links to `wanted` changed, and those of them that it links to.

    `leads` tells which document is meant by the first part of a link, which may be empty.
    """
    targets: list[LinkTarget] = []

    def changed(link: re.Match[str]) -> str:
        note = unquote(link[2]).strip()
        names = link[3].split("#")
        for at, name in enumerate(names):
            for target in wanted.get(link_key(name), ()):
                if leads(note) == target.path:
                    targets.append(target)
                    names[at] = _respelled(name, target, wiki=link[1] == "[[")
        return f"{link[1]}{link[2]}#{'#'.join(names)}"

    parts = _around_code(text)
    for pattern in _LINKS:
        parts[::2] = [pattern.sub(changed, part) for part in parts[::2]]
    return "".join(parts), targets


def _around_code(text: str) -> list[str]:
    """A text cut around its code: the second, the fourth … part is code. Takes linear time."""
    runs = [run.span() for run in _BACKTICKS.finditer(text)]
    ends: dict[int, int] = {}  # by where a run starts, where the next one of its length ends
    ahead: dict[int, int] = {}  # by length
    for start, stop in reversed(runs):
        ends[start] = ahead.get(stop - start, 0)
        ahead[stop - start] = stop
    parts, at = list[str](), 0
    for start, _ in runs:
        if start >= at and ends[start]:
            parts += (text[at:start], text[start : ends[start]])
            at = ends[start]
    return [*parts, text[at:]]


def _respelled(name: str, target: LinkTarget, *, wiki: bool) -> str:
    """The new name as the old one is written in a link: plain, as a slug, or percent-encoded."""
    if not target.new or target.new.startswith("^"):
        return target.new or name
    if wiki:
        return " ".join(re.sub(r"[\[\]|#^]", " ", target.new).split())
    plain = unquote(name)
    new = _slug(target.new) if plain == _slug(target.name) else target.new
    return quote(new) if plain != name or " " in new else new


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
