"""The protocol that every note store implements: blocks, changes, refusals, ids, and text checks.

Invariant: everything a store reports as done can be read back from it; a call makes all of its
changes or none. After any refusal except `NotesTorn` the notes are as they were before, but for an
empty daily note (`prepare_daily_note`).

Kinds are those of SiYuan's blocks table: d document, h heading, p paragraph, l list, i list item, b
quote, s super block, callout, c code, m math, t table, html, tb and so on. A document, a list, a
list item, a quote, a super block and a callout are containers. A heading is not a container, but
its section can be read like one.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, cast

from copydesk.errors import ContentChanged, ContentRequired, InvalidArgs, Refusal
from copydesk.notes.markdown import Block, Tree, is_phantom, markdown_of
from copydesk.notes.markdown.block import LIST
from copydesk.text.diff import FileEdit

Unavailable = Literal[
    "unreachable", "timeout", "token", "forbidden", "booting", "version", "too_large", "answer"
]
"""Why a store cannot be used; `answer`: it sent a reply that makes no sense."""


class InvalidBlockId(Refusal, code="INVALID_BLOCK_ID"):
    """The text cannot be a block id."""

    block_id: str


class BlockNotFound(Refusal, code="BLOCK_NOT_FOUND"):
    """The block does not exist. `lost`: it once did; `nearest` is the block now in its place."""

    block_id: str
    lost: bool = False
    nearest: str | None = None


class NotebookNotFound(Refusal, code="NOTEBOOK_NOT_FOUND"):
    """There is no such notebook, or it is closed."""

    notebook_id: str
    closed: bool = False


class WrongBlockKind(Refusal, code="INVALID_TARGET"):
    """The block has the wrong kind for this operation; `wanted` names the right one."""

    block_id: str
    kind: str
    wanted: str


class BlockChanged(ContentChanged):
    """A block changed after the changes were prepared."""

    reason: str = "the block has changed"
    block_id: str = ""


class NotInvertible(Refusal, code="NOT_INVERTIBLE"):
    """The change is refused because it could not be undone: `reason` says why."""

    block_id: str
    reason: str


class AnchorLinked(Refusal, code="ANCHOR_LINKED"):
    """The change would remove names of blocks (`note.md#^name`) that links lead to."""

    anchors: tuple[str, ...]
    linked_from: tuple[str, ...]


class NotesUnavailable(Refusal, code="NOTES_UNAVAILABLE"):
    """The store is unreachable or gives an invalid answer; `detail` quotes it."""

    detail: str
    reason: Unavailable = "answer"


class NotesRolledBack(Refusal, code="ROLLED_BACK"):
    """A change failed and all were undone. `index` (from 0) is the failed change."""

    index: int
    block_id: str
    detail: str
    rolled_back: bool = True


class NotesTorn(Refusal, code="NOT_ROLLED_BACK"):
    """A change failed and the blocks `left` could not be restored."""

    index: int
    detail: str
    left: tuple[str, ...]
    rolled_back: bool = False


_FORM = re.compile(r"[0-9]{14}-[0-9a-z]{7}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def is_id(value: str) -> bool:
    """Whether the text has the form of a block id."""
    return _FORM.fullmatch(value) is not None


def are_ids(values: Iterable[str], count: int) -> bool:
    """Whether these are `count` texts, each of the form of a block id."""
    return len(list(filter(_FORM.fullmatch, values))) == count


def valid(value: str) -> str:
    """Return the id unchanged; raise InvalidBlockId if it is malformed."""
    if not is_id(value):
        raise InvalidBlockId(value)
    return value


def new_id() -> str:
    """A new id as SiYuan makes them: the local time, and seven random letters of 36 (36 bits)."""
    return time.strftime("%Y%m%d%H%M%S-") + "".join(secrets.choice(ID_LETTERS) for _ in range(7))


CONTAINERS = frozenset({"d", "l", "i", "b", "s", "callout"})
"""Kinds whose blocks contain other blocks."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook; a `closed` one is listed but not read."""

    id: str
    name: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A notebook file that was not read.

    `reason`: UTF-16, NUL, TOO_LARGE, TOO_SLOW or UNREADABLE.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much a search covered: `waiting` of the notebook's `documents` are not indexed yet."""

    documents: int = 0
    waiting: int = 0
    unread: tuple[UnreadFile, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteBlock:
    """One block at one moment.

    `markdown` is the block's own source without the prefixes of its containers and without outer
    blank lines; it is empty for a document. `content` is the text as a person reads it (the title
    of a document). `parent_id` is the container, empty for a document; `root_id` is the document;
    `box` is the notebook. `path` is the path of ids in the notebook (in a folder, the file path),
    `hpath` the path of titles. `attributes` are name, alias, memo, bookmark and custom ones.
    `created` and `updated` are yyyyMMddHHmmss.
    """

    id: str
    kind: str
    subtype: str
    markdown: str
    content: str
    parent_id: str
    root_id: str
    box: str
    path: str
    hpath: str
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    updated: str = ""

    @property
    def created(self) -> str:
        """The creation time that the id begins with."""
        return self.id[:14]


class Page(tuple[NoteBlock, ...]):
    """The first blocks of a list or a search; `total` is how many there are in all."""

    total: int

    def __new__(cls, blocks: Iterable[NoteBlock] = (), total: int | None = None) -> Page:
        """Without a total, these are all."""
        page = super().__new__(cls, blocks)
        page.total = len(page) if total is None else max(total, len(page))
        return page


class Within(NamedTuple):
    """The documents that a list or a search is about; case does not matter.

    `name` is a part of the title or of the file's name, `folder` the path of titles (or of folders)
    above the document, or a part of that path: `/Work/2026/Plan` is in `Work/2026`, `Work` and
    `2026`. Empty ones stand for all.
    """

    name: str = ""
    folder: str = ""

    def has(self, hpath: str, name: str = "") -> bool:
        """Whether a document is meant; `name` is another name of it, such as its file's."""
        *above, title = hpath.casefold().split("/")
        folder = "/".join(part for part in self.folder.casefold().split("/") if part)
        is_named = self.name.casefold() in title or self.name.casefold() in name.casefold()
        # no folder is `/`, which is in all
        return is_named and f"/{folder}/".replace("//", "/") in "/".join(("", *above, ""))


EVERYWHERE = Within()


@dataclass(frozen=True, slots=True)
class Around:
    """The ids of a block's container and neighbours; an id is empty if there is none."""

    parent_id: str
    previous_id: str
    next_id: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of an outline, with the lower headings that follow it."""

    id: str
    text: str
    subtype: str
    below: tuple[Heading, ...] = ()


@dataclass(frozen=True, slots=True)
class Crumb:
    """One ancestor of a block, from its notebook (kind "") down."""

    id: str
    kind: str
    name: str


Side = Literal["before", "after", "first_in", "last_in"]


@dataclass(frozen=True, slots=True)
class InsertText:
    """Insert the blocks of a text next to a block or inside a container."""

    markdown: str
    side: Side
    anchor_id: str


@dataclass(frozen=True, slots=True)
class Update:
    """Replace a block's text; its id and attributes stay.

    The text is one block of any kind; for a list item, it is one item of the list's subtype. `over`
    has the same meaning as in `Restore`.
    """

    id: str
    markdown: str
    over: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a block and its children; of a heading only its line, not its section.

    Deleting the last item deletes the list; in a kernel this holds for quotes and super blocks too.
    `over` has the same meaning as in `Restore`.
    """

    id: str
    over: str = ""


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore a block with its ids and attributes; only stores create these, in `ChangesDone.undo`.

    `image` is the store's own text of the block; `dom` is the form to write if that differs.
    Without `side` the block exists and gets its former content back; with `side` it is inserted
    again next to or inside the anchor. `over` is the block that is expected there, as a digest that
    its store made or as the text that was sent to it; ContentChanged is raised for any other.
    """

    id: str
    image: str
    side: Side | None = None
    anchor_id: str = ""
    over: str = ""
    dom: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Move blocks that follow each other in one container, with all that is in them; ids stay.

    They come next to the anchor or inside it, in the same order. Items move into lists of their
    subtype only, other blocks into any other container. The anchor is none of them and in none.
    """

    ids: tuple[str, ...]
    side: Side
    anchor_id: str


Change = InsertText | Update | Delete | Restore | Move


def named(change: Change) -> tuple[str, ...]:
    """The ids that a change refers to: its target, then its anchor."""
    match change:
        case InsertText():
            return (change.anchor_id,)
        case Move():
            return (*change.ids, change.anchor_id)
        case Restore(side=str()):
            return (change.id, change.anchor_id)
        case _:
            return (change.id,)


NoticeKind = Literal["ids", "links", "dangling", "relinked", "memo", "joined"]
"""What `detail` of a notice names.

`ids`: the blocks inside that get lost. `links`: the notes with links to the block that would lead
nowhere unless they are changed; `dangling`: those with links that cannot be; `relinked`: those
whose links are changed with it. `memo`: the inline memos that get lost.
`joined`: the list that the deletion makes one with the list before the block.
"""


class NoteNotice(NamedTuple):
    """A side effect to announce before a change of a block; `detail` is by `kind`."""

    kind: NoticeKind
    block_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """Changes that a store has checked against the current notes; no document is written yet.

    A folder has saved the ids of the new texts: so they are known whenever the files have these.
    `changes` are in the order to make them, and empty for a new document. `before` and `after` are
    the texts of the affected documents by path, for a diff; a new document has no text before. Both
    are empty if the path is not known yet (a daily note in a kernel). If notes are files, the
    caller writes `files`, all or none; a store that writes by itself leaves it empty. `held` is
    private to the store.
    """

    changes: tuple[Change, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    files: tuple[FileEdit, ...] = ()
    held: object = None
    notices: tuple[NoteNotice, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesDone:
    """Changes that were made and verified: for each, the ids of its blocks (none for a deletion).

    A new document has one tuple: its id, then those of its new blocks.

    `undo` are the inverse changes in the order to make them; they can be serialized, and made later
    through `prepare`. It is empty for files, which are undone as files, and for a new document.
    """

    ids: tuple[tuple[str, ...], ...]
    undo: tuple[Change, ...] = ()


KeepUndo = Callable[[tuple[Change, ...]], None]
"""Saves the inverse of a write before it is sent, in the order to make it; see `recover`."""


def kept_nowhere(undo: tuple[Change, ...]) -> None:
    """Discard the inverse."""


ANSWERS: ContextVar[dict[tuple[int, str, object], object] | None] = ContextVar(
    "answers", default=None
)
"""Answers cached within `one_look`, by the `id()` of the store, the call and its arguments."""


@contextmanager
def one_look() -> Generator[None]:
    """Let stores cache the answers to their reads in this block, which must not write anything."""
    before = ANSWERS.set({})
    try:
        yield
    finally:
        ANSWERS.reset(before)


class NoteStore(Protocol):
    """Access to notes by blocks. Safe to use from many threads.

    Every method with an id raises BlockNotFound for a missing block and InvalidBlockId for a
    malformed id; all raise NotesUnavailable when the store cannot be reached.
    """

    def notebooks(self) -> tuple[Notebook, ...]:
        """All notebooks."""
        ...

    def documents(self, box: str, most: int, within: Within = EVERYWHERE) -> Page:
        """The first `most` documents of a notebook, by path; raises NotebookNotFound."""
        ...

    def blocks(self, ids: Sequence[str]) -> Mapping[str, NoteBlock]:
        """The current blocks with these ids; missing ones are left out."""
        ...

    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        """The children of a container in order, the section of a heading, or nothing."""
        ...

    def child_ids(self, block_id: str) -> Sequence[str]:
        """The ids of `children`, where their texts are not needed."""
        ...

    def around(self, block_id: str) -> Around:
        """The container and the neighbours of a block."""
        ...

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        """The headings of a document, nested by level; WrongBlockKind for any other block."""
        ...

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        """The path to a block: notebook, documents, headings, containers, and the block itself."""
        ...

    def search(self, query: str, most: int, within: Within = EVERYWHERE) -> Page:
        """Documents and leaves with all words, best first; InvalidArgs(`query`) without a word.

        The total may be that of an index. It ends with Cancelled when its call is cancelled.
        """
        ...

    def coverage(self, box: str) -> Coverage | None:
        """How much the last list or search saw; None without an index. NotebookNotFound."""
        ...

    def located(self, address: str) -> str:
        """The id of the block at `^name` or `note#^name` if the store has names; an id as it is.

        Raises InvalidBlockId, BlockNotFound, and InvalidArgs for a name in several documents.
        """
        ...

    def check_links(self, prepared: Prepared) -> None:
        """Raise AnchorLinked if the changes would remove a name that links lead to."""

    def prepare(self, changes: Sequence[Change], *, update_links: bool = False) -> Prepared:
        """Check the changes in order, each on the result of the ones before it.

        `update_links`: links of other notes to what the changes rename are changed with it.

        Blocks that an earlier change deleted, or whose container it updated, do not exist any more.
        Raises for the first change that cannot be made, or undone if the store has no transactions:
        BlockNotFound; WrongBlockKind; ContentRequired for a text without a block; InvalidArgs for a
        text that does not fit the block; ContentChanged; NotInvertible.
        """
        ...

    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        """Make all changes or none, and verify them.

        A store that writes itself passes the inverse of each write to `keep` first. If
        `prepared.files` is not empty, the caller has written those files, and this call stores
        their new ids. Raises NotesRolledBack after a failure that was undone, NotesTorn after one
        that could not be undone, and ContentChanged if a block changed since `prepare`.
        """
        ...

    def recover(self, undo: Sequence[Change]) -> None:
        """Undo interrupted changes; raises as `prepare` and `execute` do."""

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        """Create a document below another one, or at the top of the notebook without `parent_id`.

        Raises NotebookNotFound, BlockNotFound, WrongBlockKind if the parent is not a document, and
        InvalidArgs for an invalid title (such as one with a slash) or text.
        """
        ...

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        """Create a document next to another one (`up` 0) or next to its parent (`up` 1).

        In a folder the parent is the enclosing folder, with or without a document of its own.
        Raises as `prepare_document` does, and InvalidArgs(`location`) above the top.
        """
        ...

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        """Create today's note of a notebook if it is missing, and append this text (`appending`).

        Without a text an existing note is not changed; `execute` returns its id. Raises as
        `prepare_document` does. A note that a kernel created stays if appending fails.
        """
        ...

    def close(self) -> None:
        """Close files, connections and threads."""


_TITLE_CHARACTERS = 512


class BlockText(NamedTuple):
    """One block of a text without the prefixes of its containers; `children` are a list's items."""

    kind: str
    subtype: str
    markdown: str
    children: tuple[BlockText, ...] = ()


SplitBlocks = Callable[[str], Sequence[BlockText]]
"""How a store splits a text into top-level blocks."""


def appending(
    store: NoteStore, split: SplitBlocks, block_id: str, markdown: str, *, mixes_tasks: bool
) -> tuple[Change, ...]:
    """Append a text in a container, to the section of a heading, or after another block.

    Items at its start join a list of their subtype that is at the end; `mixes_tasks` as in
    `joins_list`.
    """
    block = store.blocks([block_id]).get(block_id)
    within = block is None or block.kind in CONTAINERS
    inside = store.child_ids(block_id) if within or (block and block.kind == "h") else ()
    last_id = inside[-1] if inside else block_id
    side: Side = "last_in" if within else "after"
    last = store.blocks([last_id]).get(last_id)
    pieces = split(markdown)
    if not pieces or last is None or not joins_list(pieces[0], last, mixes_tasks):
        return (InsertText(markdown, side, block_id if within else last_id),)
    first, *rest = pieces
    joins = InsertText(first.markdown, "last_in", last_id)
    others = "\n\n".join(piece.markdown for piece in rest)
    return (joins, InsertText(others, "after", last_id)) if rest else (joins,)


def joins_list(piece: BlockText, last: NoteBlock, mixes_tasks: bool) -> bool:
    """Whether the items of a new list belong to the list after which it comes.

    `mixes_tasks`: in this store's Markdown a list may have tasks and plain items.
    """
    return piece.kind == last.kind == "l" and (
        piece.subtype == last.subtype != ""
        or (mixes_tasks and plain_subtype(piece.markdown) == plain_subtype(last.markdown))
    )


def plain_subtype(markdown: str) -> str:
    """The subtype of a list by its first sign, whatever of it are tasks: u or o."""
    return "o" if markdown.lstrip()[:1].isdecimal() else "u"


def split_tree(tree: Tree) -> tuple[BlockText, ...]:
    """The top-level blocks of a text, with the items of its lists."""
    return tuple(_piece(tree, block) for block in tree.root.children if not is_phantom(block))


def _piece(tree: Tree, block: Block) -> BlockText:
    below = tuple(_piece(tree, item) for item in block.children) if block.kind == LIST else ()
    return BlockText(block.kind, block.subtype, raw_markdown(tree, block), below)


def raw_markdown(tree: Tree, block: Block) -> str:
    """The text of a block; a byte that is not UTF-8 becomes a lone surrogate."""
    whole = block.parent is tree.root and not block.indent and not block.children
    if whole and (block.attributes is None or block.attributes[0] >= block.stop):
        source = tree.data[block.start : block.stop]
        if b"\r" not in source and b"\t" not in source[:1]:
            return source.decode("utf-8", "surrogateescape")
    return markdown_of(tree, block)


def for_place(pieces: Sequence[BlockText], list_subtype: str | None) -> tuple[BlockText, ...]:
    """The blocks to put in a container; for a list of this subtype, the items of the text's lists.

    Raises ContentRequired for a text without blocks, and InvalidArgs(`markdown`) if a list would
    get blocks other than items of its own subtype (u, o or t).
    """
    items = tuple(pieces)
    if list_subtype is not None:
        if any(piece.kind != "l" for piece in pieces):
            raise InvalidArgs("markdown", "a list takes list items only")
        if any(piece.subtype != list_subtype for piece in pieces):
            raise InvalidArgs("markdown", "the list has items of another type")
        items = tuple(item for piece in pieces for item in piece.children)
    if not items:
        raise ContentRequired("markdown")
    return items


def for_update(pieces: Sequence[BlockText], list_subtype: str | None) -> BlockText:
    """The only block of a text; raises as `for_place` does, and InvalidArgs for several blocks."""
    first, *others = for_place(pieces, list_subtype)
    if others:
        raise InvalidArgs("markdown", "one block is wanted")
    return first


def check_characters(text: str, argument: str) -> None:
    """Raise InvalidArgs(argument) for a text with NUL or a lone surrogate."""
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    if _SURROGATE.search(text):
        raise InvalidArgs(argument, "holds a lone surrogate")


def checked_title(title: str) -> str:
    """The title on a single line; InvalidArgs(`title`) if it cannot be a title."""
    name = " ".join(title.split())
    for is_wrong, why in (
        (not name, "must not be empty"),
        ("/" in name, "holds a slash"),
        (len(name) > _TITLE_CHARACTERS, f"more than {_TITLE_CHARACTERS} characters"),
        ("\0" in name or _SURROGATE.search(name), "holds a character that no title can have"),
    ):
        if is_wrong:
            raise InvalidArgs("title", why)
    return name


def several(stores: Sequence[NoteStore]) -> NoteStore:
    """Combine several stores into one; a single store is returned as it is."""
    return stores[0] if len(stores) == 1 else _Several(tuple(stores))


class _Part(NamedTuple):
    """The prepared state of one store, with the indices of its changes."""

    store: NoteStore
    prepared: Prepared
    indices: tuple[int, ...] = (0,)


@dataclass(frozen=True, eq=False)
class _Several:
    """Several stores of files as one; each id is in one of them. All prepare before any executes.

    What is prepared holds a `_Part` for each of them.
    """

    _stores: tuple[NoteStore, ...]

    def notebooks(self) -> tuple[Notebook, ...]:
        return tuple(notebook for store in self._stores for notebook in store.notebooks())

    def documents(self, box: str, most: int, within: Within = EVERYWHERE) -> Page:
        return self._notebook(box).documents(box, most, within)

    def blocks(self, ids: Sequence[str]) -> Mapping[str, NoteBlock]:
        blocks: dict[str, NoteBlock] = {}
        for store in self._stores:
            blocks |= store.blocks([block_id for block_id in ids if block_id not in blocks])
        return {block_id: blocks[block_id] for block_id in ids if block_id in blocks}

    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        return self._of(block_id).children(block_id)

    def child_ids(self, block_id: str) -> Sequence[str]:
        return self._of(block_id).child_ids(block_id)

    def around(self, block_id: str) -> Around:
        return self._of(block_id).around(block_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        return self._of(document_id).outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        return self._of(block_id).breadcrumb(block_id)

    def search(self, query: str, most: int, within: Within = EVERYWHERE) -> Page:
        pages = [store.search(query, most, within) for store in self._stores]
        blocks = [block for page in pages for block in page]
        # documents and headings first, then short ones, which are about little else
        blocks.sort(key=lambda block: (block.kind not in ("d", "h"), len(block.content)))
        return Page(blocks[:most], sum(page.total for page in pages))

    def coverage(self, box: str) -> Coverage | None:
        return self._notebook(box).coverage(box)

    def prepare(self, changes: Sequence[Change], *, update_links: bool = False) -> Prepared:
        indices: dict[NoteStore, list[int]] = {}
        for index, change in enumerate(changes):
            # that of the anchor: blocks move within one store only
            indices.setdefault(self._of(named(change)[-1]), []).append(index)
        parts = [
            _Part(
                store,
                store.prepare([changes[index] for index in wanted], update_links=update_links),
                tuple(wanted),
            )
            for store, wanted in indices.items()
        ]
        return _joined(*parts, changes=tuple(changes))

    def recover(self, undo: Sequence[Change]) -> None:
        """Do nothing: the file journal recovers files."""

    def located(self, address: str) -> str:
        if is_id(address):
            return address
        matches: list[tuple[str, NoteStore]] = []  # a copied note may have the same id
        for store in self._stores:
            with suppress(BlockNotFound):
                matches.append((store.located(address), store))
        if len(matches) > 1:
            paths = [store.blocks([block_id])[block_id].path for block_id, store in matches]
            raise InvalidArgs("block_id", ambiguous(address, paths))
        if not matches:
            raise BlockNotFound(address)
        return matches[0][0]

    def check_links(self, prepared: Prepared) -> None:
        for part in cast("tuple[_Part, ...]", prepared.held):
            part.store.check_links(part.prepared)

    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        ids: dict[int, tuple[str, ...]] = {}
        if not isinstance(prepared.held, tuple):
            raise InvalidArgs("prepared", "was not prepared by this store")
        for part in cast("tuple[_Part, ...]", prepared.held):
            ids |= zip(part.indices, part.store.execute(part.prepared).ids, strict=True)
        return ChangesDone(tuple(ids[index] for index in sorted(ids)))

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        store = self._notebook(box)
        return _joined(_Part(store, store.prepare_document(box, parent_id, title, markdown)))

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        store = self._of(anchor_id)
        return _joined(_Part(store, store.prepare_beside(anchor_id, up, title, markdown)))

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        store = self._notebook(box)
        return _joined(_Part(store, store.prepare_daily_note(box, markdown)))

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _of(self, block_id: str) -> NoteStore:
        """The store that has the block; BlockNotFound tells what a store knows of a lost block.

        So `around` is asked: `blocks` does not tell lost ones.
        """
        lost = BlockNotFound(block_id)
        for store in self._stores:
            try:
                store.around(block_id)
            except BlockNotFound as refusal:
                lost = refusal if refusal.lost else lost
            else:
                return store
        raise lost

    def _notebook(self, box: str) -> NoteStore:
        for store in self._stores:
            if any(notebook.id == box for notebook in store.notebooks()):
                return store
        raise NotebookNotFound(valid(box))


def _joined(*parts: _Part, changes: tuple[Change, ...] = ()) -> Prepared:
    return Prepared(
        changes,
        {path: text for part in parts for path, text in part.prepared.before.items()},
        {path: text for part in parts for path, text in part.prepared.after.items()},
        tuple(edit for part in parts for edit in part.prepared.files),
        parts,
        tuple(notice for part in parts for notice in part.prepared.notices),
    )


MOST_TOLD = 10
"""The most names or documents listed in a refusal."""


def ambiguous(address: str, paths: Sequence[str]) -> str:
    """The message for an address that occurs in several documents."""
    name = address.rpartition("#")[2]
    said = ", ".join(paths[:MOST_TOLD])
    return f"{address} is in several documents: {said}; write {paths[0]}#{name}"
