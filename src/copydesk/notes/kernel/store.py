"""Notes in a SiYuan kernel: `NoteStore` over HTTP."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from copydesk.errors import InvalidArgs, check_cancelled
from copydesk.notes.kernel.api import (
    FEW,
    Address,
    AnswerLost,
    DocumentPlace,
    Kernel,
    KernelHttp,
    KernelRefused,
    Pause,
    attempted,
    holding_words,
    in_place,
    literal,
)
from copydesk.notes.kernel.blocks import (
    SENT,
    VANISHING,
    HeldBlocks,
    KernelNode,
    TreeInfo,
    addressed,
    attributes_of,
    bound,
    changing,
    checked,
    differing,
    expected,
    lost_memos,
    mark_of,
    markdown_of_image,
    same,
    same_text,
    shown,
    split_blocks,
    unbroken,
)
from copydesk.notes.kernel.write import KernelWriter
from copydesk.notes.protocol import (
    CONTAINERS,
    EVERYWHERE,
    Around,
    BlockChanged,
    BlockNotFound,
    Change,
    ChangesDone,
    Crumb,
    Delete,
    Heading,
    InsertText,
    KeepUndo,
    Move,
    NoteBlock,
    Notebook,
    NotebookNotFound,
    NoteNotice,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
    NotInvertible,
    Page,
    Prepared,
    Restore,
    Side,
    SplitBlocks,
    Update,
    Within,
    WrongBlockKind,
    appending,
    checked_title,
    for_place,
    for_update,
    is_id,
    kept_nowhere,
    named,
    new_id,
    valid,
)


class _Inside(Exception):
    """The block is inside a restored one, so nobody knows where."""


class _Trial:
    """A simulation on the blocks that the changes name and the containers around them."""

    def __init__(self, kernel: Kernel, split: SplitBlocks, changes: Sequence[Change]) -> None:
        self._kernel, self._split, self._changes = kernel, split, tuple(changes)
        self._nodes: dict[str, KernelNode] = {}
        self._roots: dict[str, KernelNode] = {}  # by the paths of the documents
        self._lost: set[str] = set()
        self._restored: set[str] = set()  # restored ids; the blocks inside are unknown
        self._notices: list[NoteNotice] = []
        self._standings = standings = self._climb()
        sides = [(getattr(change, "side", None), named(change)[-1]) for change in changes]
        self._ends = {anchor_id for side, anchor_id in sides if side in ("first_in", "last_in")}
        self._opened = self._ends | {standing.parent_id for standing in standings.values()}
        touched = [named(change)[0] for change in changes if not isinstance(change, InsertText)]
        self._images = kernel.images({i: standings[i] for i in touched if i in standings})
        doms = kernel.doms([i for i in self._images if standings[i].kind != "d"])
        roots = [standing.id for standing in standings.values() if standing.kind == "d"]
        self._held = HeldBlocks(tuple(roots), doms)
        for root_id in roots:
            root = self._roots[kernel.home(root_id).path] = KernelNode(root_id, "d", "", "")
            self._open(root)

    def _climb(self) -> dict[str, TreeInfo]:
        """The positions of the blocks named that exist, and of all containers around them."""
        standings: dict[str, TreeInfo] = {}
        wanted = [
            *dict.fromkeys(
                valid(block_id) for change in self._changes for block_id in named(change)
            )
        ]
        while wanted:
            standings |= self._kernel.standings(wanted)
            parents = {standing.parent_id for standing in standings.values()}
            wanted = sorted(parents - {""} - standings.keys() - set(wanted))
        return standings

    def _open(self, node: KernelNode) -> None:
        """Read the blocks of a container in which something changes, or those around the place."""
        self._nodes[node.id] = node
        if node.kind not in CONTAINERS or node.id not in self._opened:
            return
        run = self._run_in(node.id)
        if run:
            self._held.runs[node.id] = run
            node.children = self._kernel.some_children(node.id, self._kernel.standings(run))
        else:
            node.children = self._kernel.children(node.id)
        for child in node.children:
            child.parent = node
            self._open(child)

    def _run_in(self, container_id: str) -> tuple[str, ...]:
        """The blocks of a container to read, if those named follow each other; empty for all."""
        inside = {
            standing.id: standing
            for standing in self._standings.values()
            if standing.parent_id == container_id
        }
        starts = [standing for standing in inside.values() if standing.previous_id not in inside]
        if container_id in self._ends or len(starts) != 1 or len(inside) > FEW - 2:
            return ()
        run = [starts[0].previous_id, starts[0].id]
        while run[-1] in inside and len(run) < len(inside) + 2:  # whatever a kernel says
            run.append(inside[run[-1]].next_id)
        return tuple(filter(None, run))

    def run(self) -> Prepared:
        """Make the changes here; raise the refusal of the first that cannot be made or undone."""
        before = self._texts()
        for index, change in enumerate(self._changes):
            with suppress(_Inside):
                match change:
                    case InsertText():
                        self._insert(change)
                    case Update():
                        self._update(index, change)
                    case Delete():
                        self._delete(change)
                    case Restore():
                        self._restore(change)
                    case Move():
                        self._move(change)
        notices = tuple(self._notices)
        return Prepared(self._changes, before, self._texts(), held=self._held, notices=notices)

    def _texts(self) -> Mapping[str, str]:
        """The current texts of the documents, by path."""
        return {path: root.text() for path, root in self._roots.items()}

    def _insert(self, change: InsertText) -> None:
        checked(change.markdown)
        parent, at = self._place(change.anchor_id, change.side)
        pieces = for_place(self._split(change.markdown), _list_subtype(parent))
        parent.put(at, [KernelNode("", *piece[:3]) for piece in pieces])

    def _update(self, index: int, change: Update) -> None:
        checked(change.markdown)
        node, parent = self._block(change.id, change.over)
        piece = for_update(self._split(change.markdown), _list_subtype(parent))
        image = "" if node.id in self._restored else self._image(node.id)
        if same_text(change.markdown, node.markdown):
            self._held.idle.add(index)
            if image:
                self._held.marks.setdefault(node.id, mark_of(image))
            return
        self._hold(node)
        if memos := lost_memos(change.markdown, image):
            self._notices.append(NoteNotice("memo", node.id, ", ".join(memos)))
        if image and node.kind in CONTAINERS:
            signed = self._kernel.kramdown(node.id, "md")
            _, ids_in = addressed(node.id, change.markdown, image, signed)
            if lost := [
                lost_id for lost_id in attributes_of(image) if lost_id not in ids_in | {node.id}
            ]:
                self._notices.append(NoteNotice("ids", node.id, ", ".join(lost)))
        self._forget(node.children)
        node.kind, node.subtype, node.markdown = piece[:3]
        node.children = None

    def _delete(self, change: Delete) -> None:
        node, _ = self._block(change.id, change.over)
        self._hold(node)
        self._remove(node)

    def _move(self, change: Move) -> None:
        (first, source), *others = [self._block(block_id, "") for block_id in change.ids]
        nodes = [first, *(node for node, _ in others)]
        if change.anchor_id in change.ids:
            raise InvalidArgs("diff", "a block cannot be moved into itself")
        parent, at = self._place(change.anchor_id, change.side)
        inside = source.children or []
        start = inside.index(first)
        stop = start + len(nodes)
        if inside[start:stop] != nodes:
            raise InvalidArgs("markdown", "the blocks to move do not follow each other")
        kinds = {(node.kind == "i" and node.subtype) or "" for node in nodes}
        if kinds != {_list_subtype(parent) or ""}:
            raise InvalidArgs("markdown", "a list takes list items only")
        above: KernelNode | None = parent
        while above is not None:
            if above in nodes:
                raise InvalidArgs("diff", "a block cannot be moved into itself")
            above = above.parent
        if source.kind == "i" and inside == nodes and source is not parent:
            raise InvalidArgs("diff", "an item would be left empty: move the item")
        self._touch(source)
        del inside[start:stop]
        parent.put(at - len(nodes) if source is parent and at >= stop else at, nodes)
        if not inside and source.kind in VANISHING:
            self._remove(source)
        _fill(source)

    def _restore(self, change: Restore) -> None:
        known = attributes_of(change.image).keys()
        if change.id not in known:
            raise InvalidArgs("image", "is not one of the block")
        text = markdown_of_image(change.image)
        with suppress(_Inside):
            if change.side is None:
                node, _ = self._block(change.id, change.over)
                self._hold(node, back=True)
                self._forget(node.children)
                node.markdown, node.children = text, None
            elif change.id in self._nodes:
                raise BlockChanged(block_id=change.id)
            else:
                parent, at = self._place(change.anchor_id, change.side)
                node = self._nodes[change.id] = KernelNode(change.id, "", "", text)
                parent.put(at, [node])
        self._restored |= known

    def _place(self, anchor_id: str, side: Side) -> tuple[KernelNode, int]:
        anchor = self._node(anchor_id)
        if side in ("first_in", "last_in"):
            if anchor.kind not in CONTAINERS:
                raise WrongBlockKind(anchor_id, anchor.kind, "container")
            if anchor.children is None:  # an earlier change rewrote it
                raise BlockChanged(block_id=anchor_id)
            parent, at = anchor, 0 if side == "first_in" else len(anchor.children)
        else:
            if anchor.parent is None or anchor.parent.children is None:
                raise WrongBlockKind(anchor_id, anchor.kind, "block")
            parent = anchor.parent
            at = anchor.parent.children.index(anchor) + (side == "after")
        self._touch(parent)
        return parent, at

    def _touch(self, container: KernelNode | None) -> None:
        """Remember a container whose blocks change, unless they are remembered by their places."""
        if container and container.id not in self._held.runs:
            self._held.containers[container.id] = None

    def _block(self, block_id: str, over: str) -> tuple[KernelNode, KernelNode]:
        """The block to change and its container; BlockChanged if `over` differs."""
        node = self._node(block_id)
        if node.parent is None:
            raise WrongBlockKind(block_id, node.kind, "block")
        known = block_id in self._held.marks or block_id in self._restored
        if over and not known and not expected(over, self._image(block_id)):
            raise BlockChanged(block_id=block_id)
        return node, node.parent

    def _node(self, block_id: str) -> KernelNode:
        """The node of a block; _Inside if it was restored inside another block."""
        if block_id in self._nodes:
            return self._nodes[block_id]
        if block_id in self._restored:
            raise _Inside
        raise BlockNotFound(block_id, lost=block_id in self._lost)

    def _hold(self, node: KernelNode, *, back: bool = False) -> None:
        """Check that the block can be restored, and save its mark; `back` allows lossy rewrites."""
        self._touch(node.parent)
        if any(node.id in known for known in (self._held.marks, self._restored, self._lost)):
            return
        image = self._image(node.id)
        bound_by = "kind" if node.kind in ("", "av") else bound(image)
        bound_by = bound_by or ("" if back else self._changing(node, image))
        if bound_by:
            raise NotInvertible(node.id, bound_by)
        self._held.marks[node.id] = mark_of(image)

    def _changing(self, node: KernelNode, image: str) -> str:
        """What would not survive a rewrite of the block by the kernel; empty if nothing."""
        kinds = [piece.kind for piece in self._split(image)]
        if kinds != [node.kind] and (node.kind, kinds) != ("i", ["l"]):
            return "reads as other blocks"  # the kernel keeps blocks that its own text cannot make
        doms = self._held.doms
        if node.id not in doms:
            doms |= self._kernel.doms([node.id])
        return changing(image, doms.get(node.id, ""))

    def _image(self, block_id: str) -> str:
        if block_id not in self._images:
            self._images[block_id] = self._kernel.kramdown(block_id)
        return self._images[block_id]

    def _remove(self, node: KernelNode) -> None:
        """Take a block out, and each container that goes with the last block in it."""
        parent = node.parent
        assert parent is not None, "it is no document"
        while parent.parent and parent.kind in VANISHING and parent.children == [node]:
            node, parent = parent, parent.parent
        self._hold(node)
        self._forget([node])
        parent.children = [child for child in parent.children or () if child is not node]
        _fill(parent)

    def _forget(self, nodes: Sequence[KernelNode] | None) -> None:
        """These blocks and those inside do not exist any more."""
        for node in nodes or ():
            self._nodes.pop(node.id, None)
            self._lost.add(node.id)
            self._forget(node.children)


def _fill(container: KernelNode) -> None:
    """The kernel leaves no document and no item empty."""
    if not container.children and container.kind in ("d", "i"):
        container.put(0, [KernelNode("", "p", "", "")])


def _list_subtype(parent: KernelNode) -> str | None:
    return parent.subtype if parent.kind == "l" else None


class _DocumentIds(Sequence[str]):
    """The ids of the blocks of a document; a short part of a long one takes few requests."""

    def __init__(self, kernel: Kernel, document_id: str) -> None:
        self._kernel, self._document_id = kernel, document_id

    @cached_property
    def _all(self) -> tuple[str, ...]:
        return tuple(child.id for child in self._kernel.children(self._document_id))

    @cached_property
    def _size(self) -> int:
        last = self._kernel.last_ids(self._document_id, 1)
        return self._kernel.index_of(last[0]) + 1 if last else 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __contains__(self, value: object) -> bool:
        there = self._kernel.standings([str(value)] if is_id(str(value)) else [])
        return any(standing.parent_id == self._document_id for standing in there.values())

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        return self._kernel.index_of(value)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, int):
            start = range(len(self))[index]
            for block_id in self._part(start, start + 1):
                return block_id
            raise NotesUnavailable(f"the block {start + 1} of {self._document_id} is missing")
        return self._part(*index.indices(len(self))[:2])

    def _part(self, start: int, stop: int) -> tuple[str, ...]:
        """The ids of a range of indices; those of a long one are read with all others."""
        count, behind = stop - start, len(self) - start
        if count <= _SHORT and behind <= _SHORT:
            return self._kernel.last_ids(self._document_id, behind)[:count]
        at = self._kernel.id_at(self._document_id, start) if count <= _SHORT else ""
        if not at or self._kernel.index_of(at) != start:  # long, or under a folded heading
            return self._all[start:stop]
        ids: list[str] = []
        while at and len(ids) < count:
            ids.append(at)
            at = self._kernel.standing(at).next_id
        return tuple(ids)


_SHORT = 8
"""The most ids of a document that are read one by one."""

_MOST_DOCUMENTS = 100_000
_SPARE = 4
"""Rows to request per wanted block: the index may name blocks that are gone."""


class Making(NamedTuple):
    """How to create or remove a document that was prepared."""

    make: Callable[[KeepUndo], ChangesDone]


class KernelStore:
    """The notes of a kernel. Thread-safe, one execution at a time; `pause` waits in seconds."""

    def __init__(
        self, http: KernelHttp, split: SplitBlocks = split_blocks, pause: Pause = time.sleep
    ) -> None:
        self._kernel, self._split = Kernel(http, pause), split
        self._writing = threading.RLock()

    @staticmethod
    def at(url: str, token: str, timeout_s: float = 30.0) -> KernelStore:
        """The store for a kernel at a URL; InvalidArgs for an invalid URL. Sends nothing yet."""
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidArgs("SIYUAN_TOKEN", "is no token")
        return KernelStore(KernelHttp(Address.of(url), token, timeout_s))

    def notebooks(self) -> tuple[Notebook, ...]:
        return tuple(self._kernel.notebooks())

    def documents(self, box: str, most: int, within: Within = EVERYWHERE) -> Page:
        kernel, wanted = self._kernel, max(most, 0)
        kernel.flush()
        where = f"type = 'd' AND id <> box AND box = {literal(valid(box))}{in_place(within)}"
        limit = wanted if within == EVERYWHERE else _MOST_DOCUMENTS
        names = ("id", "content", "box", "path", "hpath", "ial")
        statement = (
            f"SELECT {', '.join(names)} FROM blocks WHERE {where} GROUP BY id "
            f"ORDER BY hpath, id LIMIT {limit}"
        )
        rows = [row for row in kernel.select(statement, *names) if within.has(row[4])]
        if not rows:
            self._check_open(box)
        listed = [
            _note(
                KernelNode(block_id, "d", "", "", html.unescape(title)),
                "",
                DocumentPlace(home, path, block_id, title),
                hpath,
                attributes_of(ial).get(block_id, {}),
            )
            for block_id, title, home, path, hpath, ial in rows[:wanted]
        ]
        is_whole = within != EVERYWHERE or len(rows) < wanted
        return Page(listed, len(rows) if is_whole else kernel.count(where))

    def blocks(self, ids: Sequence[str]) -> dict[str, NoteBlock]:
        kernel = self._kernel
        standings = kernel.standings(ids)
        inside = {i: standing for i, standing in standings.items() if standing.kind != "d"}
        images = kernel.images(inside)
        home, hpath = cache(kernel.home), cache(kernel.hpath)

        @cache
        def siblings(parent_id: str) -> dict[str, KernelNode]:
            there = {each.id: each for each in standings.values() if each.parent_id == parent_id}
            return {child.id: child for child in kernel.some_children(parent_id, there)}

        blocks: dict[str, NoteBlock] = {}
        for block_id, standing in standings.items():
            if standing.kind != "d":
                child = siblings(standing.parent_id).get(block_id)
                attributes = attributes_of(images.get(block_id, "")).get(block_id, {})
            else:
                child = KernelNode(block_id, "d", "", "", html.unescape(home(block_id).title))
                attributes = kernel.attributes(block_id)
            if child is not None:  # else it was removed meanwhile
                at = home(standing.parent_id or block_id)
                blocks[block_id] = _note(
                    child, standing.parent_id, at, hpath(at.root_id), attributes
                )
        return blocks

    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        standing = self._kernel.standing(block_id)
        container = standing.parent_id if standing.kind == "h" else block_id
        children = self._kernel.children(block_id)
        if not children:
            return ()
        attributes = attributes_of(self._kernel.kramdown(container))
        home = self._kernel.home(container)
        hpath = self._kernel.hpath(home.root_id)
        return tuple(
            _note(child, container, home, hpath, attributes.get(child.id, {})) for child in children
        )

    def child_ids(self, block_id: str) -> Sequence[str]:
        if self._kernel.standing(block_id).kind == "d":
            return _DocumentIds(self._kernel, block_id)
        return tuple(child.id for child in self._kernel.children(block_id))

    def around(self, block_id: str) -> Around:
        return self._kernel.standing(block_id).around

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        self._check_document(document_id)
        return self._kernel.outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        standing = self._kernel.standing(block_id)
        home = self._kernel.home(block_id)
        names = {notebook.id: notebook.name for notebook in self._kernel.notebooks()}
        there = self._kernel.standings(
            [document_id for document_id in home.ids if document_id != home.root_id]
        )
        titles = {document_id: self._kernel.home(document_id).title for document_id in there} | {
            home.root_id: home.title
        }
        crumbs = [
            Crumb(home.box, "", names.get(home.box, "")),
            *(  # a document that is gone has no title
                Crumb(document_id, "d", html.unescape(titles.get(document_id, "")))
                for document_id in home.ids
            ),
            *self._kernel.breadcrumb(block_id),
        ]
        if crumbs[-1].id != block_id:  # left out if its list item represents it
            crumbs.append(Crumb(block_id, standing.kind, ""))
        return tuple(crumbs)

    def coverage(self, box: str) -> None:
        return None

    def search(self, query: str, most: int, within: Within = EVERYWHERE) -> Page:
        kernel, words, wanted = self._kernel, query.split(), max(most, 0) * _SPARE
        where = holding_words(words) + in_place(within)
        kernel.flush()
        statement = f"SELECT id FROM blocks WHERE {where} ORDER BY updated DESC, id LIMIT {wanted}"
        ids = [block_id for (block_id,) in kernel.select(statement, "id")]
        check_cancelled()
        blocks = self.blocks(ids).values()
        texts = {block.id: f"{block.content}\n{block.markdown}".casefold() for block in blocks}
        folded = [word.casefold() for word in words]
        holding = sorted(
            (
                block
                for block in blocks
                if all(word in texts[block.id] for word in folded) and within.has(block.hpath)
            ),
            key=lambda block: (block.kind not in ("d", "h"), len(block.content)),
        )
        more = kernel.count(where) - len(ids) if len(ids) == wanted else 0
        return Page(holding[:most], len(holding) + more)

    def located(self, address: str) -> str:
        return address

    def check_links(self, prepared: Prepared) -> None:
        """Do nothing: links in a kernel use ids."""

    def prepare(self, changes: Sequence[Change], *, update_links: bool = False) -> Prepared:
        match changes:
            case [Delete(document_id, over)] if over and self._is_document(document_id):
                return self._prepare_removal(document_id, over)
            case _:
                return _Trial(self._kernel, self._split, changes).run()

    def _prepare_removal(self, document_id: str, over: str) -> Prepared:
        """Remove a document that was created here, if it has been left alone since."""
        home, image = self._kernel.home(document_id), self._kernel.kramdown(document_id)
        if not expected(over, image) or self._kernel.documents_below(home):
            raise BlockChanged(block_id=document_id)
        making = Making(partial(self._remove_document, home, mark_of(image)))
        return Prepared((), {home.path: markdown_of_image(image)}, {}, held=making)

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        checked(markdown)
        name = checked_title(title)
        name = name.removesuffix(".sy") or name  # the kernel would remove the suffix
        self._check_open(box)
        document_id, above, titles = new_id(), "", ""
        if parent_id:
            self._check_document(parent_id)
            home = self._kernel.home(parent_id)
            if home.box != box:
                raise InvalidArgs("parent_id", "is in another notebook")
            above, titles = home.path.removesuffix(".sy"), self._kernel.hpath(parent_id)
        path, hpath = f"{above}/{document_id}.sy", f"{titles}/{name}"
        new = NoteBlock(
            id=document_id,
            kind="d",
            subtype="",
            markdown=markdown,
            content=name,
            parent_id=parent_id,
            root_id=document_id,
            box=box,
            path=path,
            hpath=hpath,
        )
        return Prepared((), {}, {path: markdown}, held=Making(partial(self._make_document, new)))

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        self._check_document(anchor_id)
        home = self._kernel.home(anchor_id)
        above = home.ids[:-1]
        if up > len(above):
            raise InvalidArgs("location", "the document stands at the top of its notebook")
        parent_id = above[-1 - up] if up < len(above) else ""
        return self.prepare_document(home.box, parent_id, title, markdown)

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        if markdown.strip():
            for_place(self._split(markdown), None)
        checked(markdown)
        self._check_open(box)
        # Only the kernel knows what is today, so no path can be told.
        return Prepared((), {}, {}, held=Making(partial(self._make_daily_note, box, markdown)))

    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        plan = prepared.held
        with self._writing:
            if isinstance(plan, HeldBlocks):
                return KernelWriter(self._kernel, self._split, plan, keep).execute(prepared.changes)
            if isinstance(plan, Making):
                return plan.make(keep)
        raise InvalidArgs("prepared", "was not prepared by this store")

    def recover(self, undo: Sequence[Change]) -> None:
        self._kernel.flush()
        standings = self._kernel.standings([named(change)[0] for change in undo])
        images = self._kernel.images(standings)
        left = [change for change in undo if _is_due(change, images.get(named(change)[0]))]
        self.execute(self.prepare(left))

    def close(self) -> None:
        self._kernel.close()

    def _remove_document(self, home: DocumentPlace, mark: str, _: KeepUndo) -> ChangesDone:
        if mark_of(self._kernel.kramdown(home.root_id)) != mark:
            raise BlockChanged(block_id=home.root_id)
        problem = attempted(partial(self._kernel.remove_document, home.box, home.path))[1]
        look = partial(self._kernel.standings, [home.root_id])
        if self._kernel.settled(look, lambda there: not there, waited=False):
            raise NotesRolledBack(0, home.root_id, problem or "the document is still there")
        return ChangesDone(((),))

    def _undo_of_new(self, document_id: str) -> tuple[Change, ...]:
        """The removal of a new document, while it is what it is now."""
        return (Delete(document_id, mark_of(self._kernel.kramdown(document_id))),)

    def _make_document(self, new: NoteBlock, keep: KeepUndo) -> ChangesDone:
        """Create a prepared document; if the answer times out, wait for the document to appear."""
        keep((Delete(new.id, SENT + new.markdown),))
        create = partial(
            self._kernel.create_document,
            new.box,
            new.hpath,
            unbroken(new.markdown),
            parent_id=new.parent_id,
            document_id=new.id,
        )
        named, problem, late = attempted(create)
        try:
            self._made(new, named or "", problem, late=late)
            ids = (new.id, *(child.id for child in self._kernel.children(new.id)))
            return ChangesDone((ids,), self._undo_of_new(new.id))
        except NotesUnavailable as lost:
            raise NotesTorn(0, problem or lost.detail, (new.id,)) from None

    def _made(self, new: NoteBlock, named: str, problem: str, *, late: bool) -> None:
        """Check the new document, remove a wrong one; NotesTorn if a `late` one is missing."""
        note = self._kernel.settled(lambda: self.blocks([new.id]), bool, late=late).get(new.id)
        if note is None:
            if late or (named and self.blocks([named])):
                raise NotesTorn(0, problem or f"it has the id {named}", (named or new.id,))
            raise NotesRolledBack(0, new.id, problem or "no document came to be")
        fault = self._fault(new, note)
        if not fault:
            return
        refused = attempted(partial(self._kernel.remove_document, note.box, note.path))[1]
        fault = "; ".join(filter(None, (fault, refused)))
        self._kernel.flush()
        # The kernel may have created its ancestors too.
        above = (part for part in note.path.split("/") if is_id(part) and part not in new.path)
        if left := (*above, *self._kernel.standings([new.id])):
            raise NotesTorn(0, fault, left)
        raise NotesRolledBack(0, new.id, problem or fault)

    def _fault(self, new: NoteBlock, note: NoteBlock) -> str:
        """The fault of a new document, or empty."""
        if (note.box, note.path) != (new.box, new.path):
            return f"it stands at {note.box}{note.path}"
        if note.kind != "d":
            return f"it is {note.kind or 'of no kind'}"
        wanted, there = self._split(new.markdown), self._kernel.children(note.id)
        if wanted and len(wanted) != len(there):
            return f"{len(there)} blocks where {len(wanted)} should be"
        return differing(new.markdown, self._kernel.kramdown(note.id))

    def _make_daily_note(self, box: str, markdown: str, keep: KeepUndo) -> ChangesDone:
        """Append a text to today's note; create the note if it is missing."""
        self._kernel.flush()
        where = f"type = 'd' AND box = {literal(box)}"
        there = self._kernel.select(f"SELECT id FROM blocks WHERE {where} LIMIT 100000", "id")
        note, done = self._daily_note(box), ChangesDone(())
        if markdown.strip():
            done = self.execute(
                self.prepare(appending(self, self._split, note, markdown, mixes_tasks=False)), keep
            )
        undo = done.undo if [note] in there else self._undo_of_new(note)
        return ChangesDone(((note, *chain.from_iterable(done.ids)),), undo)

    def _daily_note(self, box: str) -> str:
        try:
            try:
                document_id = self._kernel.daily_note(box)
            except AnswerLost:  # asking again does not create a second one
                document_id = self._kernel.daily_note(box)
            self._kernel.flush()
            blocks = self.blocks([document_id])
        except KernelRefused as refused:
            raise NotesRolledBack(0, box, str(refused)) from None
        except AnswerLost as lost:
            raise NotesTorn(0, lost.detail, (box,)) from None
        note = blocks.get(document_id)
        if note is None or note.kind != "d" or note.box != box:
            raise NotesTorn(0, f"{document_id} is no document of this notebook", (box,))
        return document_id

    def _check_open(self, box: str) -> None:
        boxes = {notebook.id: notebook for notebook in self._kernel.notebooks()}
        if (notebook := boxes.get(valid(box))) is None or notebook.closed:
            raise NotebookNotFound(box, closed=notebook is not None)

    def _check_document(self, block_id: str) -> None:
        """Raise WrongBlockKind for a block that is not a document, BlockNotFound for none."""
        kind = self._kernel.standing(block_id).kind
        if kind != "d":
            raise WrongBlockKind(block_id, kind, "document")

    def _is_document(self, block_id: str) -> bool:
        return any(standing.kind == "d" for standing in self._kernel.standings([block_id]).values())


def _note(
    child: KernelNode,
    parent_id: str,
    home: DocumentPlace,
    hpath: str,
    attributes: Mapping[str, str],
) -> NoteBlock:
    """Combine the answers of several calls into a block."""
    return NoteBlock(
        id=child.id,
        kind=child.kind,
        subtype=child.subtype,
        markdown=child.markdown,
        content=child.content,
        parent_id=parent_id,
        root_id=home.root_id,
        box=home.box,
        path=home.path,
        hpath=hpath,
        attributes=MappingProxyType(shown(dict(attributes))),
        updated=attributes.get("updated", ""),
    )


def _is_due(change: Change, image: str | None) -> bool:
    """Whether there is anything to undo."""
    if isinstance(change, Move):
        return True  # where the blocks stand already, it does nothing
    if isinstance(change, Restore) and change.side is None:
        return image is None or not same(image, change.image)
    return (image is None) == isinstance(change, Restore)
