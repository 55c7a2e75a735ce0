"""Changes of blocks in a kernel: all or none are made, and each is read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeGuard

from copydesk.errors import Refusal
from copydesk.notes.kernel.api import (
    LATE_WAITS_S,
    WAITS_S,
    AnswerLost,
    Kernel,
    KernelRefused,
    Pause,
    Seen,
    content,
    settled,
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
    Prepared,
    Restore,
    Side,
    SplitBlocks,
    Update,
    for_place,
    kept_nowhere,
    named,
    new_id,
)


class StepFailed(Exception):
    """A change failed; the message names the fault, `at` is the index of the change."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class _State(NamedTuple):
    """Where a block is, and its image; None and empty if it is missing."""

    standing: TreeInfo | None
    image: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The state to which a change has to bring a block.

    `source` is what to send, None if the block has that state already; `text` has the words; `back`
    restores it as it was where it `stood`; `kept` are the ids that stay in the block; `keep` are
    its attributes. `exact` is the change whose block it has to become again.
    """

    source: Mapping[str, object] | None
    text: str
    back: Restore
    stood: TreeInfo
    keep: dict[str, str]
    kind: str = ""
    kept: frozenset[str] = frozenset()
    exact: Restore | None = None

    def fault(self, now: _State) -> str:
        """The fault in the current state, or empty."""
        standing, image = now
        if standing is None or not image:
            return f"{self.stood.id} is not there"
        if standing.around != self.stood.around:
            return "the block stands elsewhere"
        if self.exact:
            return "" if _is_again(image, self.exact) else "became another block"
        if plain(image) == plain(self.back.image):
            return "the block is as it was"
        if fault := differing(self.text, image):
            return fault
        if standing.kind != self.kind:
            return f"the block is {standing.kind or 'of no kind'}, not {self.kind}"
        lost = sorted(self.kept - attributes_of(image).keys())
        return f"ids are lost: {', '.join(lost)}" if lost else ""


class _Before(NamedTuple):
    """The images of the blocks that will change, and the order of blocks in their containers."""

    images: Mapping[str, str]
    orders: Mapping[str, tuple[str, ...]]
    places: Mapping[str, Around]


class KernelWriter:
    """Makes changes one after the other.

    `undo` has the inverse of each change, in the order they were made: the last is undone first.
    `begun`: a write was sent. `marks` are those of the blocks as this writer left them. `astray`
    are blocks in a wrong place that we may not have created, so we do not delete them. `late` are
    the blocks of a write that timed out and is not visible; the kernel may still do it.
    """

    def __init__(
        self,
        kernel: Kernel,
        split: SplitBlocks,
        pause: Pause = time.sleep,
        keep: KeepUndo = kept_nowhere,
        held: HeldBlocks | None = None,
    ) -> None:
        self._kernel, self._split, self._pause = kernel, split, pause
        self._keep, self._held = keep, held
        self.late: tuple[str, ...] = ()
        self.undo: list[Delete | Restore | Move] = []
        self.marks: dict[str, str] = {}
        self.astray: set[str] = set()
        self.begun = False

    def make(self, *changes: Change) -> list[tuple[str, ...]]:
        """Make one change, or rewrite several different blocks together; return the ids left.

        Raises StepFailed, NotesUnavailable.
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
                return self._rewrite([one for one in changes if isinstance(one, Update | Restore)])

    # New blocks

    def _insert(self, change: InsertText) -> tuple[str, ...]:
        gap = self._gap(change.side, change.anchor_id)
        in_list = self._standing(gap.parent_id).kind == "l"
        pieces = self._pieces(change.markdown, in_list=in_list)
        made: list[str] = []
        for piece in pieces:
            block_id = new_id()
            text, _ = addressed(block_id, piece.markdown, "", "", item=piece.kind == "i")
            sent = Delete(block_id, SENT + piece.markdown)
            made.append(self._put(content(text), gap, piece, sent))
            gap = Around(gap.parent_id, made[-1], gap.next_id)
        return tuple(made)

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
        """Insert one block and return its id."""
        named, problem = self._write(lambda: self._kernel.insert(source, gap), inverse)
        try:
            return self._found(gap, inverse.id, named, problem, wanted)
        except StepFailed:
            back = Delete(inverse.id)
            if back not in self.undo and self._kernel.standings([inverse.id]):
                self.undo.append(back)  # the id did not exist before, so we created it
            raise

    def _found(
        self,
        gap: Around,
        block_id: str,
        named: frozenset[str],
        problem: str,
        wanted: BlockText | Restore,
    ) -> str:
        """The id of the one block that was inserted in a gap; all there is, if it is not alone."""

        def is_alone(standings: Mapping[str, TreeInfo]) -> bool:
            return block_id in standings and standings[block_id].around == gap

        own = self._look(lambda: self._kernel.standings([block_id]), is_alone)
        if is_alone(own):
            inside = there = [KernelNode(block_id, own[block_id].kind, "", "")]
        else:
            inside = self._kernel.children(gap.parent_id)
            there = [*_between(gap, inside)]
        ids = [child.id for child in there]
        faults: list[str] = []
        for child in there:
            image = self._kernel.kramdown(child.id)
            fault = _wrong(wanted, child.kind, image)
            faults += filter(None, (fault,))
            if child.id in named or not fault:
                self.undo.append(Delete(child.id))
                self.marks[child.id] = mark_of(image)
            else:
                self.astray.add(child.id)
        others = self._kernel.standings(
            sorted(named.difference((gap.parent_id, gap.previous_id, gap.next_id, *ids)))
        )
        elsewhere = {one.id for one in others.values() if one.parent_id not in (*named, *ids)}
        self.astray |= elsewhere
        if there:
            self.late = ()
        if len(there) != 1 or faults or elsewhere:
            raise StepFailed(problem or (*faults, f"{len(there)} blocks where one should be")[0])
        count = [child.id for child in inside].count(ids[0])
        if count != 1:
            raise StepFailed(f"{ids[0]} is there {count} times")
        return ids[0]

    # Existing blocks

    def _rewrite(self, changes: Sequence[Update | Restore]) -> list[tuple[str, ...]]:
        """Rewrite blocks, in one request if possible; record all of them before raising."""
        ids = [change.id for change in changes]
        before = self._states(ids)
        doms = self._doms({one: state.image for one, state in before.items() if state.image})
        parents = {state.standing.parent_id for state in before.values() if state.standing}
        above = self._kernel.standings(sorted(parents))
        lists = {one.id for one in above.values() if one.kind == "l"}
        wanted = {
            change.id: self._wanted(at, change, before[change.id], lists, doms)
            for at, change in enumerate(changes)
        }
        sources = {one: each.source for one, each in wanted.items() if each.source}
        problem = ""
        if sources:
            inverses = [replace(wanted[one].back, over=SENT + wanted[one].text) for one in sources]
            _, problem = self._write(lambda: self._kernel.update(sources), *inverses)
        seen = self._look(
            lambda: self._states(ids),
            lambda now: not any(each.fault(now[one]) for one, each in wanted.items()),
        )
        faults = [each.fault(seen[one]) for one, each in wanted.items()]
        for (block_id, each), fault in zip(wanted.items(), faults, strict=True):
            image = seen[block_id].image
            is_changed = plain(image) != plain(each.back.image)
            if is_changed:
                back = Restore(block_id, each.back.image, *_beside(each.stood), dom=each.back.dom)
                self.undo.append(each.back if image else back)
            self.marks[block_id] = mark_of(image)
            if is_changed or not fault:
                self.late = ()
        for at, fault in enumerate(faults):
            if fault:
                raise StepFailed(problem or fault, at)
        for at, (block_id, each) in enumerate(wanted.items()):
            try:
                self._keep_attributes(each, seen[block_id].image)
            except StepFailed as failed:
                raise StepFailed(str(failed), at) from None
        return [(one,) for one in ids]

    def _states(self, ids: Sequence[str]) -> dict[str, _State]:
        there = self._kernel.standings(ids)
        images = self._kernel.images(there)
        return {one: _State(there.get(one), images.get(one, "")) for one in ids}

    def _wanted(
        self,
        at: int,
        change: Update | Restore,
        now: _State,
        lists: Collection[str],
        doms: Mapping[str, str],
    ) -> _Wanted:
        """The state to which a change has to bring a block."""
        stood, before = now
        if stood is None or not before:
            raise StepFailed(f"{change.id} is not there", at)
        back = Restore(change.id, before, dom=doms.get(change.id, ""))
        if isinstance(change, Restore):
            source = None if plain(before) == plain(change.image) else _source_of(change)
            keep = to_keep(attributes_of(change.image)[change.id], same_kind=True)
            return _Wanted(source, change.image, back, stood, keep, exact=change)
        (piece,) = self._pieces(change.markdown, in_list=stood.parent_id in lists)
        kind = "i" if stood.kind == "i" else piece.kind
        signed = self._kernel.kramdown(change.id, "md") if stood.kind in CONTAINERS else before
        new, kept = addressed(change.id, change.markdown, before, signed)
        had = attributes_of(new if kept else before).get(change.id, {})
        keep = to_keep(had, same_kind=bool(kept) or kind == stood.kind)
        return _Wanted(content(new), change.markdown, back, stood, keep, kind, kept)

    def _keep_attributes(self, wanted: _Wanted, image: str) -> None:
        """Set the attributes that the text did not bring; an exact block gets no others."""
        block_id = wanted.stood.id

        def lacking(attributes: dict[str, str]) -> dict[str, str]:
            there, keep = to_keep(attributes, same_kind=True), wanted.keep
            change = {name: value for name, value in keep.items() if there.get(name) != value}
            more = {name: "" for name in there if name not in keep} if wanted.exact else {}
            return change | more

        missing = lacking(attributes_of(image).get(block_id, {}))
        if missing:
            _, problem = self._write(lambda: self._kernel.set_attributes(block_id, missing))
            lost = self._look(
                lambda: lacking(self._kernel.attributes(block_id)), lambda names: not names
            )
            image = self._image(block_id)
            self.marks[block_id] = mark_of(image)
            if lost:
                raise StepFailed(problem or f"attributes are lost: {', '.join(lost)}")
        if wanted.exact and not _is_again(image, wanted.exact):
            raise StepFailed("the block is not what it was")

    def _delete(self, block_id: str) -> tuple[str, ...]:
        stood = self._standing(block_id)
        parent = self._standing(stood.parent_id)
        while parent.kind in VANISHING and not stood.previous_id and not stood.next_id:
            stood, parent = parent, self._standing(parent.parent_id)
        block_id = stood.id
        image = self._image(block_id)
        dom = self._doms({block_id: image}).get(block_id, "")
        inverse = Restore(block_id, image, *_beside(stood), dom=dom)
        _, problem = self._write(lambda: self._kernel.delete(block_id), inverse)
        if settled(
            self._kernel,
            self._pause,
            lambda: self._kernel.standings([block_id]),
            lambda there: not there,
            waited=False,
        ):
            raise StepFailed(problem or f"{block_id} is still there")
        self.late = ()
        self.marks.pop(block_id, None)
        alone = not stood.previous_id and not stood.next_id
        inside = self._kernel.children(parent.id) if alone else []
        is_filled = parent.kind in ("d", "i") and len(inside) == 1
        if is_filled and not inside[0].markdown.strip():
            # the kernel leaves no document and no item empty
            self.undo.append(Delete(inside[0].id))
            self.undo.append(replace(inverse, side="before", anchor_id=inside[0].id))
        else:
            self.undo.append(inverse)
        if not alone:
            edge = self._standing(stood.previous_id or stood.next_id)
            if (edge.next_id if stood.previous_id else edge.previous_id) != (
                stood.next_id if stood.previous_id else ""
            ):
                raise StepFailed(f"something stands where {block_id} was")
        return ()

    def _move(self, change: Move) -> tuple[str, ...]:
        """Move blocks one by one; what they leave empty goes, and comes back with them in it."""
        first, last = self._standing(change.ids[0]), self._standing(change.ids[-1])
        source = self._standing(first.parent_id)
        leaves_nothing = not first.previous_id and not last.next_id
        emptied = self._emptied(source) if leaves_nothing else None
        inverses: list[Delete | Restore | Move]
        if emptied is None:
            around = Around(source.id, first.previous_id, last.next_id)
            inverses = [Move(change.ids, *_beside(around))]
        else:
            image = self._image(emptied.id)
            dom = self._doms({emptied.id: image}).get(emptied.id, "")
            inverses = [*map(Delete, change.ids)]
            inverses.append(Restore(emptied.id, image, *_beside(emptied), dom=dom))
        is_inside = change.side in ("first_in", "last_in")
        parent_id = change.anchor_id if is_inside else self._standing(change.anchor_id).parent_id
        order = [one for one in _order(self._kernel, parent_id) if one not in change.ids]
        at = 0 if change.side == "first_in" else len(order)
        if not is_inside:
            at = order.index(change.anchor_id) + (change.side == "after")
        wanted = [*order[:at], *change.ids, *order[at:]]
        problem, gone = "", emptied.id if emptied else ""
        try:
            for block_id, previous_id in zip(wanted[at:], ["", *wanted][at:], strict=False):
                if block_id in change.ids:
                    send = partial(self._kernel.move, block_id, previous_id, parent_id)
                    problem = self._write(send, *inverses)[1] or problem
            if gone and self._kernel.standings([gone]):
                self._write(partial(self._kernel.delete, gone), *inverses)
                self._kernel.flush()
        finally:
            self.undo += reversed(inverses)
        now = self._look(
            lambda: _order(self._kernel, parent_id),
            lambda now: [*now] == [one for one in wanted if one != gone],
        )
        if [*now] != [one for one in wanted if one != gone]:
            raise StepFailed(problem or f"{change.ids[0]} did not come to its place")
        if source.kind == "d" and leaves_nothing:
            # the kernel leaves no document empty; the filler goes after the blocks came back
            fillers = _order(self._kernel, source.id)
            self.undo[-1:-1] = map(Delete, fillers)
        self.late = ()
        return change.ids

    def _emptied(self, container: TreeInfo) -> TreeInfo | None:
        """The container that goes with all that is in this one, outermost first; None for none."""
        emptied: TreeInfo | None = None
        while container.kind in VANISHING:
            emptied = container
            if container.previous_id or container.next_id:
                break
            container = self._standing(container.parent_id)
        return emptied

    # Shared helpers

    def _doms(self, images: Mapping[str, str]) -> dict[str, str]:
        """The DOM of blocks; blocks unchanged since the dry run use the DOM that it read."""
        held = self._held
        known = {
            one: held.doms[one]
            for one, image in images.items()
            if held and one in held.doms and held.marks.get(one) == mark_of(image)
        }
        missing = [one for one in images if one not in known]
        return known | (self._kernel.doms(missing) if missing else {})

    def _write(
        self, send: Callable[[], frozenset[str]], *inverses: Restore | Delete | Move
    ) -> tuple[frozenset[str], str]:
        """Save the inverses, then send a write; return the ids answered, and the objection."""
        self._keep((*inverses, *self.way_back(fresh=False)))
        try:
            named, problem = send(), ""
        except KernelRefused as refused:
            named, problem = frozenset[str](), str(refused)
        except AnswerLost as lost:
            named, problem = frozenset[str](), lost.detail
            if lost.reason == "timeout":
                self.late = tuple(one for inverse in inverses for one in _changed(inverse))
        self.begun = True
        return named, problem

    def _look(self, look: Callable[[], Seen], good: Callable[[Seen], bool]) -> Seen:
        waits_s = LATE_WAITS_S if self.late else WAITS_S
        return settled(self._kernel, self._pause, look, good, waits_s=waits_s)

    def _gap(self, side: Side, anchor_id: str) -> Around:
        if side in ("first_in", "last_in"):
            ids = ["", *(child.id for child in self._kernel.children(anchor_id)), ""]
            ends = ("", ids[1]) if side == "first_in" else (ids[-2], "")
            return Around(anchor_id, *ends)
        anchor = self._standing(anchor_id)
        if side == "before":
            return Around(anchor.parent_id, anchor.previous_id, anchor_id)
        return Around(anchor.parent_id, anchor_id, anchor.next_id)

    def _standing(self, block_id: str) -> TreeInfo:
        found = self._kernel.standings([block_id])
        if block_id not in found:
            raise StepFailed(f"{block_id} is not there")
        return found[block_id]

    def _image(self, block_id: str) -> str:
        image = self._kernel.kramdown(block_id)
        if not image:
            raise StepFailed(f"{block_id} has no text")
        return image

    def _pieces(self, markdown: str, *, in_list: bool) -> tuple[BlockText, ...]:
        pieces = self._split(markdown)
        try:
            return for_place(pieces, pieces[0].subtype if in_list and pieces else None)
        except Refusal as refused:  # the container changed since `prepare`
            raise StepFailed(str(refused)) from None

    # Undo

    def take_back(self, before: _Before, *, blind: bool) -> tuple[str, ...]:
        """Undo all that can be undone; return what still differs. `blind`: an answer got lost."""
        back = KernelWriter(self._kernel, self._split, self._pause)
        for change in reversed(self.undo):
            with suppress(StepFailed, Refusal):  # the result is read below
                back.make(change)
        made = {change.id for change in self.undo if isinstance(change, Delete)}
        with suppress(StepFailed, Refusal):
            for block_id in self._kernel.standings(sorted(made)):  # created more than once
                with suppress(StepFailed):
                    back.make(Delete(block_id))
        ours = self.astray | back.astray | {one for each in self.undo for one in _changed(each)}
        try:
            self._kernel.flush()
            left = set(self._kernel.standings(sorted(ours - before.images.keys())))
            left |= {one for one, image in before.images.items() if not back.is_back(one, image)}
            places = self._kernel.standings([*before.places])
            left |= {one for one, place in before.places.items() if places.get(one) != place}
            for container, order in before.orders.items():
                now = _order(self._kernel, container)
                if tuple(now if blind else (one for one in now if one in order)) != order:
                    left.add(container)
        except NotesUnavailable:
            left = ours | before.images.keys() | before.orders.keys() | before.places.keys()
        return tuple(dict.fromkeys((*self.late, *sorted(left))))

    def is_back(self, block_id: str, image: str) -> bool:
        """Whether a block has its former text, after one more attempt to restore it."""
        if same(self._kernel.kramdown(block_id), image):
            return True
        with suppress(StepFailed, Refusal):
            self.make(Restore(block_id, image))
        return same(self._kernel.kramdown(block_id), image)

    def way_back(self, *, fresh: bool = True) -> tuple[Change, ...]:
        """The changes that undo all; each expects a mark, read `fresh` or saved after the write."""
        ids = [change.id for change in self.undo if _expects(change)]
        marks = self.marks
        if fresh:
            with suppress(NotesUnavailable):
                images = self._kernel.images(self._kernel.standings(ids))
                marks = {one: mark_of(images[one]) if one in images else "" for one in ids}
        marked: set[str] = set()
        changes: list[Change] = []
        for change in reversed(self.undo):
            if _expects(change) and change.id not in marked:
                marked.add(change.id)
                changes.append(replace(change, over=marks.get(change.id, "")))
            else:
                changes.append(change)
        return tuple(changes)


def _expects(change: Change) -> TypeGuard[Delete | Restore]:
    """Whether the change expects the block in a certain state."""
    return isinstance(change, Delete) or (isinstance(change, Restore) and change.side is None)


def _changed(change: Delete | Restore | Move) -> tuple[str, ...]:
    """The blocks that a change is about."""
    return change.ids if isinstance(change, Move) else (change.id,)


def _between(gap: Around, children: Sequence[KernelNode]) -> Sequence[KernelNode]:
    """The children of a container that are in a gap. Raises StepFailed if there is no such gap."""
    ids = [child.id for child in children]
    for edge in filter(None, (gap.previous_id, gap.next_id)):
        if edge not in ids:
            raise StepFailed(f"{edge} is not there")
    start = ids.index(gap.previous_id) + 1 if gap.previous_id else 0
    stop = ids.index(gap.next_id) if gap.next_id else len(ids)
    if stop < start:
        raise StepFailed(f"{gap.previous_id} and {gap.next_id} are no neighbours")
    return children[start:stop]


def _wrong(wanted: BlockText | Restore, kind: str, image: str) -> str:
    """The fault of a block that was inserted, or empty."""
    if isinstance(wanted, Restore):
        return "" if _is_again(image, wanted) else "came back as another block"
    if kind != wanted.kind:
        return f"a block is {kind or 'of no kind'}, not {wanted.kind}"
    return differing(wanted.markdown, image)


def _is_again(image: str, change: Restore) -> bool:
    """Whether a block is restored: exactly if it was written as DOM, else if it is alike."""
    return plain(image) == plain(change.image) or (not change.dom and same(image, change.image))


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
    return next(place for place in anchors if place[1])


def execute(
    kernel: Kernel,
    split: SplitBlocks,
    prepared: Prepared,
    held: HeldBlocks,
    pause: Pause,
    keep: KeepUndo = kept_nowhere,
) -> ChangesDone:
    """Make the changes. BlockChanged, NotesRolledBack, NotesTorn; NotesUnavailable before any."""
    if not prepared.changes:
        return ChangesDone(())
    kernel.flush()
    before = _read(kernel, held)
    for document_id in held.documents:
        with suppress(KernelRefused, NotesUnavailable):  # a second safety net, not the first
            kernel.keep_history(document_id)
    writing = KernelWriter(kernel, split, pause, keep, held)
    made: list[tuple[str, ...]] = []
    for index, group in _together(prepared.changes, held.idle):
        blind = False
        try:
            made += writing.make(*group)
            continue
        except StepFailed as failed:
            index += failed.at
            detail = str(failed)
        except NotesUnavailable as lost:
            if not writing.begun:
                raise
            detail, blind = lost.detail, True
        left = writing.take_back(before, blind=blind)
        if left:
            raise NotesTorn(index, detail, left)
        raise NotesRolledBack(index, named(prepared.changes[index])[0], detail)
    done = iter(made)
    ids = tuple(
        named(change) if index in held.idle else next(done)
        for index, change in enumerate(prepared.changes)
    )
    return ChangesDone(ids, writing.way_back())


def _together(changes: Sequence[Change], idle: Collection[int]) -> list[tuple[int, list[Change]]]:
    """Group changes with work to do, by index; rewrites of different blocks share a request."""
    groups: list[tuple[int, list[Change]]] = []
    for index, change in enumerate(changes):
        if index in idle:
            continue
        first, group = groups[-1] if groups else (0, [])
        joins = first + len(group) == index and all(map(_rewrites, (change, *group)))
        if group and joins and named(change) not in {named(one) for one in group}:
            group.append(change)
        else:
            groups.append((index, [change]))
    return groups


def _rewrites(change: Change) -> bool:
    """Whether the change gives a new text to an existing block."""
    return isinstance(change, Update) or (isinstance(change, Restore) and change.side is None)


def _read(kernel: Kernel, held: HeldBlocks) -> _Before:
    """Re-read the affected blocks; raises BlockChanged if one changed since the dry run."""
    found = kernel.images(kernel.standings([*held.marks]))
    for block_id, mark in held.marks.items():
        if mark_of(found.get(block_id, "")) != mark:
            raise BlockChanged(block_id=block_id)
    orders = {container: _order(kernel, container) for container in held.containers}
    run = [one for each in held.runs.values() for one in each]
    return _Before(found, orders, kernel.standings(run))


def _order(kernel: Kernel, container_id: str) -> tuple[str, ...]:
    return tuple(child.id for child in kernel.children(container_id))
