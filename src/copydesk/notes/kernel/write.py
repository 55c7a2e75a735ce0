"""Changes of blocks in a kernel: all or none are made, and each is read back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from copydesk.errors import Refusal
from copydesk.notes.kernel.api import (
    Kernel,
    KernelRefused,
    Seen,
    attempted,
    content,
)
from copydesk.notes.kernel.blocks import (
    SENT,
    VANISHING,
    HeldBlocks,
    KernelNode,
    TreeInfo,
    addressed,
    attributes_of,
    differing,
    mark_of,
    plain,
    same,
    to_keep,
)
from copydesk.notes.protocol import (
    CONTAINERS,
    Around,
    BlockChanged,
    BlockText,
    Change,
    ChangesDone,
    Delete,
    InsertText,
    KeepUndo,
    Move,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
    Restore,
    Side,
    SplitBlocks,
    Update,
    for_place,
    for_update,
    kept_nowhere,
    named,
    new_id,
)


class StepFailed(Exception):
    """A change failed; the message names the fault, `at` is the index of the change."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The state to which a change has to bring a block.

    `source` is what to send, None if the block has that state already; `text` is what it becomes: a
    former block exactly, a text up to what the kernel makes of it; `back` restores it as it was
    where it `stood`; `attributes` are those that stay, and `ids` those in it that do.
    """

    source: Mapping[str, object] | None
    text: BlockText | Restore
    back: Restore
    stood: TreeInfo
    attributes: Mapping[str, str]
    ids: frozenset[str]

    def fault(self, standing: TreeInfo | None, image: str) -> str:
        """The fault in the current state, or empty."""
        if standing is None or not image:
            return f"{self.stood.id} is not there"
        if standing.around != self.stood.around:
            return "the block stands elsewhere"
        if isinstance(self.text, BlockText) and plain(image) == plain(self.back.image):
            return "the block is as it was"
        lost = ", ".join(sorted(self.ids - attributes_of(image).keys()))
        return _fault(self.text, standing.kind, image) or (f"ids are lost: {lost}" if lost else "")


class KernelWriter:
    """Makes changes one after the other.

    `undo` has the inverse of each change, in the order they were made: the last is undone first.
    `begun`: a write was sent. `marks` are those of the blocks as this writer left them. `astray`
    are blocks in a wrong place that we may not have created, so we do not delete them. `late` are
    the blocks of a write that timed out and is not visible; the kernel may still do it. What there
    was before: the `images` of the blocks to change, the `orders` of the blocks in their
    containers, and the `places` of blocks in containers of which only these are known.
    """

    def __init__(
        self,
        kernel: Kernel,
        split: SplitBlocks,
        dry_run: HeldBlocks,
        keep: KeepUndo = kept_nowhere,
    ) -> None:
        self._kernel, self._split, self._held, self._keep = kernel, split, dry_run, keep
        self._images: dict[str, str] = {}
        self._orders: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, TreeInfo] = {}
        self._late: tuple[str, ...] = ()
        self._undo: list[Delete | Restore | Move] = []
        self._marks: dict[str, str] = {}
        self._astray: set[str] = set()
        self._begun = False

    def execute(self, changes: Sequence[Change]) -> ChangesDone:
        """Make all; BlockChanged, NotesRolledBack, NotesTorn; NotesUnavailable before any write."""
        if not changes:
            return ChangesDone(())
        self._kernel.flush()
        self._look_before()
        for document_id in self._held.documents:
            with suppress(KernelRefused, NotesUnavailable):  # a second safety net, not the first
                self._kernel.keep_history(document_id)
        ids_made: dict[int, tuple[str, ...]] = {}
        for group in _together(changes, self._held.idle):
            try:
                ids_made |= zip(group, self._make(*(changes[at] for at in group)), strict=True)
                continue
            except NotesUnavailable as lost:
                if not self._begun:
                    raise
                index, detail, blind = group[0], lost.detail, True
            except (StepFailed, Refusal) as failed:  # the notes changed since `prepare`
                at = failed.at if isinstance(failed, StepFailed) else 0
                index, detail, blind = group[at], str(failed), False
            if left := self._take_back(blind=blind):
                raise NotesTorn(index, detail, left)
            raise NotesRolledBack(index, named(changes[index])[0], detail)
        ids = tuple(ids_made.get(index, named(change)) for index, change in enumerate(changes))
        there = [
            change.id
            for change in self._undo
            if isinstance(change, Delete) or (isinstance(change, Restore) and change.side is None)
        ]
        with suppress(NotesUnavailable):
            images = self._kernel.images(self._kernel.standings(there))
            self._marks = {block_id: mark_of(image) for block_id, image in images.items()}
        return ChangesDone(ids, self._way_back())

    def _look_before(self) -> None:
        """Re-read the affected blocks; raises BlockChanged if one changed since the dry run."""
        kernel, dry_run = self._kernel, self._held
        self._images = kernel.images(kernel.standings([*dry_run.marks]))
        for block_id, mark in dry_run.marks.items():
            if mark_of(self._images.get(block_id, "")) != mark:
                raise BlockChanged(block_id=block_id)
        self._orders = {container: _order(kernel, container) for container in dry_run.containers}
        self._places = kernel.standings([i for run in dry_run.runs.values() for i in run])

    def _make(self, *changes: Change) -> list[tuple[str, ...]]:
        """Make one change, or rewrite several different blocks together; return the ids left.

        Raises StepFailed, NotesUnavailable, and other refusals for a place that changed.
        """
        match changes[0]:
            case InsertText() as change:
                return [self._insert(change)]
            case Delete() as change:
                return [self._delete(change.id)]
            case Restore(side=str(side)) as change:
                return [self._bring_back(change, side)]
            case Move() as change:
                return [self._move(change)]
            case Update() | Restore():
                return self._rewrite(
                    [each for each in changes if isinstance(each, Update | Restore)]
                )

    # New blocks

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        gap = self._gap(change.side, change.anchor_id)
        in_list = self._standing(gap.parent_id).kind == "l"
        new_ids: list[str] = []
        pieces = self._split(change.markdown)
        for piece in for_place(pieces, pieces[0].subtype if in_list and pieces else None):
            sent = Delete(new_id(), SENT + piece.markdown)
            text, _ = addressed(sent.id, piece.markdown, "", "", item=piece.kind == "i")
            new_ids.append(self._put(content(text), gap, piece, sent))
            gap = Around(gap.parent_id, new_ids[-1], gap.next_id)
        return tuple(new_ids)

    def _bring_back(self, change: Restore, side: Side) -> tuple[str, ...]:
        if self._kernel.standings([change.id]):
            raise StepFailed(f"{change.id} is there already")
        gap = self._gap(side, change.anchor_id)
        return (self._put(_source_of(change), gap, change, Delete(change.id)),)

    def _put(
        self,
        source: Mapping[str, object],
        gap: Around,
        wanted: BlockText | Restore,
        inverse: Delete,
    ) -> str:
        """Insert one block in a gap; return the id of the one block that is there."""
        named, problem = self._write(lambda: self._kernel.insert(source, gap), inverse)
        block_id = inverse.id
        own = self._look(
            lambda: [
                standing
                for standing in self._kernel.standings([block_id]).values()
                if standing.around == gap
            ],
            bool,
        )
        if own:
            inside = there = [KernelNode(block_id, own[0].kind, "", "")]
        else:
            inside = self._kernel.children(gap.parent_id)
            there = _between(gap, inside)
        images = {child.id: self._kernel.kramdown(child.id) for child in there}
        faults = {child.id: _fault(wanted, child.kind, images[child.id]) for child in there}
        ours = [i for i, fault in faults.items() if i in named or not fault]
        self._undo += map(Delete, ours)
        self._marks |= {i: mark_of(images[i]) for i in ours}
        others = named.difference((gap.parent_id, gap.previous_id, gap.next_id, *images))
        elsewhere = {
            standing.id
            for standing in self._kernel.standings(sorted(others)).values()
            if standing.parent_id not in (*named, *images)
        }
        self._astray |= elsewhere | (images.keys() - ours)
        if there:
            self._late = ()
        count = sum(child.id in images for child in inside)
        if count == 1 and not any(faults.values()) and not elsewhere:
            return there[0].id
        back = Delete(block_id)
        if back not in self._undo and self._kernel.standings([block_id]):
            self._undo.append(back)  # the id did not exist before, so we created it
        fault = next(filter(None, faults.values()), f"{count} blocks where one should be")
        raise StepFailed(problem or fault)

    # Existing blocks

    def _rewrite(self, changes: Sequence[Update | Restore]) -> list[tuple[str, ...]]:
        """Rewrite blocks, in one request if possible; record all of them before raising."""
        ids = [change.id for change in changes]
        standings = self._kernel.standings(ids)
        images = self._kernel.images(standings)
        doms = self._doms(images)
        wanted: list[_Wanted] = []
        for at, change in enumerate(changes):
            if change.id not in images:
                raise StepFailed(f"{change.id} is not there", at)
            stood, dom = standings[change.id], doms.get(change.id, "")
            wanted.append(self._wanted(change, stood, images[change.id], dom))
        sources = {each.stood.id: each.source for each in wanted if each.source}
        problem = ""
        if sources:
            inverses = [each.back for each in wanted if each.source]
            _, problem = self._write(lambda: self._kernel.update(sources), *inverses)

        def look() -> tuple[Mapping[str, str], list[str]]:
            places = self._kernel.standings(ids)
            now = self._kernel.images(places)
            return now, [
                each.fault(places.get(block_id), now.get(block_id, ""))
                for block_id, each in zip(ids, wanted, strict=True)
            ]

        now, faults = self._look(look, lambda seen: not any(seen[1]))
        for each, fault in zip(wanted, faults, strict=True):
            back, image = each.back, now.get(each.stood.id, "")
            is_changed = plain(image) != plain(back.image)
            if is_changed:
                again = Restore(back.id, back.image, *_beside(each.stood), dom=back.dom)
                self._undo.append(back if image else again)
            self._marks[back.id] = mark_of(image)
            if is_changed or not fault:
                self._late = ()
        for at, fault in enumerate(faults):
            if fault:
                raise StepFailed(problem or fault, at)
        for at, each in enumerate(wanted):
            self._keep_attributes(at, each, now[each.stood.id])
        return [(block_id,) for block_id in ids]

    def _wanted(self, change: Update | Restore, stood: TreeInfo, before: str, dom: str) -> _Wanted:
        """The state to which a change has to bring a block."""
        sent = change.image if isinstance(change, Restore) else change.markdown
        back = Restore(change.id, before, over=SENT + sent, dom=dom)
        if isinstance(change, Restore):
            source = None if plain(before) == plain(change.image) else _source_of(change)
            return _Wanted(source, change, back, stood, {}, frozenset())
        pieces = self._split(change.markdown)
        piece = for_update(pieces, pieces[0].subtype if stood.kind == "i" and pieces else None)
        signed = self._kernel.kramdown(change.id, "md") if stood.kind in CONTAINERS else before
        text, ids_in = addressed(change.id, change.markdown, before, signed)
        had = attributes_of(text if ids_in else before).get(change.id, {})
        keep = to_keep(had, same_kind=bool(ids_in) or piece.kind == stood.kind)
        return _Wanted(content(text), piece, back, stood, keep, ids_in)

    def _keep_attributes(self, at: int, wanted: _Wanted, image: str) -> None:
        """Set the attributes that the text did not bring."""
        block_id = wanted.stood.id

        def lacking(there: Mapping[str, str]) -> dict[str, str]:
            return {
                name: value for name, value in wanted.attributes.items() if there.get(name) != value
            }

        missing = lacking(attributes_of(image).get(block_id, {}))
        if not missing:
            return
        _, problem = self._write(lambda: self._kernel.set_attributes(block_id, missing))
        lost = self._look(
            lambda: lacking(self._kernel.attributes(block_id)), lambda names: not names
        )
        self._marks[block_id] = mark_of(self._kernel.kramdown(block_id))
        if lost:
            raise StepFailed(problem or f"attributes are lost: {', '.join(lost)}", at)

    def _delete(self, block_id: str) -> tuple[str, ...]:
        stood = self._with_emptied(self._standing(block_id))
        inverse = self._bringing_back(stood)
        _, problem = self._write(lambda: self._kernel.delete(stood.id), inverse)
        look = partial(self._kernel.standings, [stood.id])
        if self._kernel.settled(look, lambda there: not there, waited=False):
            raise StepFailed(problem or f"{stood.id} is still there")
        self._late = ()
        self._marks.pop(stood.id, None)
        self._undo.append(inverse)
        if stood.previous_id or stood.next_id:
            edge = self._standing(stood.previous_id or stood.next_id)
            is_closed = edge.next_id == stood.next_id if stood.previous_id else not edge.previous_id
            if not is_closed:
                raise StepFailed(f"something stands where {stood.id} was")
            return ()
        inside = self._kernel.children(stood.parent_id)
        if len(inside) == 1 and not inside[0].markdown.strip():
            # The kernel leaves no document and no item empty: its filler goes when the block is
            # back, so before the last one here, as the last is undone first.
            self._undo[-1:-1] = [Delete(inside[0].id)]
        return ()

    def _move(self, change: Move) -> tuple[str, ...]:
        """Move blocks one by one; what they leave empty goes, and comes back with them in it."""
        first, last = self._standing(change.ids[0]), self._standing(change.ids[-1])
        source = self._standing(first.parent_id)
        is_inside = change.side in ("first_in", "last_in")
        parent_id = change.anchor_id if is_inside else self._standing(change.anchor_id).parent_id
        is_all = not first.previous_id and not last.next_id
        leaves_nothing = is_all and source.id != parent_id
        around = Around(source.id, first.previous_id, last.next_id)
        inverses: list[Delete | Restore | Move] = [Move(change.ids, *_beside(around))]
        gone = ""
        if leaves_nothing and source.kind in VANISHING:
            emptied = self._with_emptied(source, parent_id)
            gone = emptied.id
            # What comes beside it may be all that is around it: then that goes when it goes back.
            inverses = [*map(Delete, change.ids), self._bringing_back(self._with_emptied(emptied))]
        order = [i for i in _order(self._kernel, parent_id) if i not in change.ids]
        ends = {"first_in": 0, "last_in": len(order)}
        at = (
            ends[change.side]
            if is_inside
            else order.index(change.anchor_id) + (change.side == "after")
        )
        wanted = tuple(i for i in (*order[:at], *change.ids, *order[at:]) if i != gone)
        problem, previous_id = "", order[at - 1] if at else ""
        try:
            for block_id in change.ids:
                send = partial(self._kernel.move, block_id, previous_id, parent_id)
                problem = self._write(send, *inverses)[1] or problem
                previous_id = block_id
            if gone and self._kernel.standings([gone]):
                self._write(partial(self._kernel.delete, gone), *inverses)
                self._kernel.flush()
        finally:
            self._undo += reversed(inverses)
        now = self._look(lambda: _order(self._kernel, parent_id), lambda now: now == wanted)
        if now != wanted:
            raise StepFailed(problem or f"{change.ids[0]} did not come to its place")
        if source.kind == "d" and leaves_nothing:
            # The kernel leaves no document empty: the filler goes when the blocks are back.
            self._undo[-1:-1] = map(Delete, _order(self._kernel, source.id))
        self._late = ()
        return change.ids

    # Shared helpers

    def _with_emptied(self, stood: TreeInfo, filled: str = "") -> TreeInfo:
        """The outermost block that goes with one: most containers go with their last block.

        `filled` is a container that gets other blocks meanwhile.
        """
        while not stood.previous_id and not stood.next_id:
            parent = self._standing(stood.parent_id)
            if parent.kind not in VANISHING or parent.id == filled:
                break
            stood = parent
        return stood

    def _bringing_back(self, stood: TreeInfo) -> Restore:
        """The inverse of removing a block."""
        image = self._kernel.kramdown(stood.id)
        if not image:
            raise StepFailed(f"{stood.id} has no text")
        dom = self._doms({stood.id: image}).get(stood.id, "")
        return Restore(stood.id, image, *_beside(stood), dom=dom)

    def _doms(self, images: Mapping[str, str]) -> dict[str, str]:
        """The DOM of blocks; blocks unchanged since the dry run use the DOM that it read."""
        dry_run = self._held
        known = {
            i: dry_run.doms[i]
            for i, image in images.items()
            if i in dry_run.doms and dry_run.marks.get(i) == mark_of(image)
        }
        return known | self._kernel.doms([i for i in images if i not in known])

    def _write(
        self, send: Callable[[], frozenset[str]], *inverses: Restore | Delete | Move
    ) -> tuple[frozenset[str], str]:
        """Save the inverses, then send a write; return the ids answered, and the objection."""
        self._keep((*inverses, *self._way_back()))
        named, problem, late = attempted(send)
        if late:
            self._late = _changed(inverses)
        self._begun = True
        return named or frozenset(), problem

    def _look(self, look: Callable[[], Seen], good: Callable[[Seen], bool]) -> Seen:
        return self._kernel.settled(look, good, late=bool(self._late))

    def _gap(self, side: Side, anchor_id: str) -> Around:
        """The gap at a side of a block."""
        if side in ("first_in", "last_in"):
            parent_id, ids = anchor_id, ("", *_order(self._kernel, anchor_id), "")
        else:
            anchor = self._standing(anchor_id)
            parent_id, ids = anchor.parent_id, (anchor.previous_id, anchor_id, anchor.next_id)
        return Around(parent_id, *(ids[:2] if side in ("first_in", "before") else ids[-2:]))

    def _standing(self, block_id: str) -> TreeInfo:
        standings = self._kernel.standings([block_id])
        if block_id not in standings:
            raise StepFailed(f"{block_id} is not there")
        return standings[block_id]

    # Undo

    def _way_back(self) -> tuple[Change, ...]:
        """The changes that undo all; the first of each block expects its mark."""
        marks = dict(self._marks)
        return tuple(
            change if isinstance(change, Move) else replace(change, over=marks.pop(change.id, ""))
            for change in reversed(self._undo)
        )

    def _take_back(self, *, blind: bool) -> tuple[str, ...]:
        """Undo all that can be undone; return what still differs. `blind`: an answer got lost."""
        kernel, images = self._kernel, self._images
        back = KernelWriter(kernel, self._split, HeldBlocks((), {}))
        back._attempt(reversed(self._undo))
        # Moved blocks are ours too, but were there before: their places are compared below.
        before = {*images, *self._places, *chain.from_iterable(self._orders.values())}
        created = {change.id for change in self._undo if isinstance(change, Delete)} - before
        with suppress(Refusal):
            back._attempt(map(Delete, kernel.standings(sorted(created))))  # created more than once
        ours = self._astray | back._astray | {*_changed(self._undo)}
        try:
            kernel.flush()
            left = set(kernel.standings(sorted(ours - before)))
            other = [i for i, image in images.items() if not same(kernel.kramdown(i), image)]
            back._attempt(Restore(i, images[i]) for i in other)
            left |= {i for i in other if not same(kernel.kramdown(i), images[i])}
            standings = kernel.standings([*self._places])
            left |= {i for i, standing in self._places.items() if standings.get(i) != standing} | {
                container
                for container, order in self._orders.items()
                if order != tuple(i for i in _order(kernel, container) if blind or i in order)
            }
        except Refusal:  # no answer, or none that can be read
            left = ours | images.keys() | self._orders.keys() | self._places.keys()
        return tuple(dict.fromkeys((*self._late, *sorted(left))))

    def _attempt(self, changes: Iterable[Change]) -> None:
        """Make the changes that can be made: what came of it is read afterwards."""
        for change in changes:
            with suppress(StepFailed, Refusal):
                self._make(change)


def _changed(changes: Iterable[Delete | Restore | Move]) -> tuple[str, ...]:
    """The blocks that changes are about."""
    return tuple(
        block_id
        for change in changes
        for block_id in (change.ids if isinstance(change, Move) else (change.id,))
    )


def _between(gap: Around, children: list[KernelNode]) -> list[KernelNode]:
    """The children of a container that are in a gap; none if there is no such gap."""
    ids = ["", *(child.id for child in children), ""]
    if gap.previous_id not in ids or gap.next_id not in ids:
        return []
    return children[ids.index(gap.previous_id) : ids.index(gap.next_id, 1) - 1]


def _fault(wanted: BlockText | Restore, kind: str, image: str) -> str:
    """The fault of a block that was written, or empty."""
    if isinstance(wanted, Restore):
        # Exactly if it was written as DOM, else it is alike.
        is_again = (
            same(image, wanted.image) if not wanted.dom else plain(image) == plain(wanted.image)
        )
        return "" if is_again else "came back as another block"
    if kind != wanted.kind:
        return f"a block is {kind or 'of no kind'}, not {wanted.kind}"
    return differing(wanted.markdown, image)


def _source_of(change: Restore) -> Mapping[str, object]:
    """The data that restores a block: its DOM, since Markdown would lose styles and more."""
    return content(change.dom, "dom") if change.dom else content(change.image)


def _beside(stood: Around) -> tuple[Side, str]:
    """The place of a block that has gone from there."""
    anchors: tuple[tuple[Side, str], ...] = (
        ("after", stood.previous_id),
        ("before", stood.next_id),
        ("first_in", stood.parent_id),
    )
    return next(anchor for anchor in anchors if anchor[1])


def _together(changes: Sequence[Change], idle: Collection[int]) -> list[list[int]]:
    """Group the changes with work to do; rewrites of different blocks share a request."""
    groups: list[list[int]] = []
    for index in (at for at in range(len(changes)) if at not in idle):
        change = changes[index]
        others = [changes[at] for at in groups[-1]] if groups else []
        are_rewrites = others and all(map(_rewrites, (change, *others)))
        if are_rewrites and named(change) not in {named(other) for other in others}:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _rewrites(change: Change) -> bool:
    """Whether the change gives a new text to an existing block."""
    return isinstance(change, Update) or (isinstance(change, Restore) and change.side is None)


def _order(kernel: Kernel, container_id: str) -> tuple[str, ...]:
    return tuple(child.id for child in kernel.children(container_id))
