"""Notes in a folder of Markdown files: `NoteStore` without a server.

Invariant: answers are read from the current files; the index only says where to look.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial, wraps
from itertools import chain, count, islice, takewhile
from threading import RLock
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

from copydesk.errors import InvalidArgs, check_cancelled
from copydesk.notes.folder.blocks import (
    FolderDocument,
    block_attributes,
    content,
    fingerprints,
    in_order,
    markdown,
    pieces,
    read,
    read_text,
    shown,
    stem,
    title_of,
)
from copydesk.notes.folder.documents import (
    Card,
    DocumentCache,
    Folder,
    Holds,
    IndexedText,
    NotesIndex,
    NotRead,
    SidecarChange,
    Sidecars,
    Splice,
    folded,
    having,
    name_of,
    names_document,
    path_of,
    stamp_key,
)
from copydesk.notes.folder.edit import DryRun, HeldFiles
from copydesk.notes.markdown import Block, Profile, Tree, heading_of, section
from copydesk.notes.markdown.block import DOCUMENT
from copydesk.notes.markdown.parser import LOOKED_AT
from copydesk.notes.markdown.tree import undisturbed
from copydesk.notes.protocol import (
    ANSWERS,
    EVERYWHERE,
    MOST_TOLD,
    AnchorLinked,
    Around,
    BlockChanged,
    BlockNotFound,
    Change,
    ChangesDone,
    Coverage,
    Crumb,
    Heading,
    InvalidBlockId,
    KeepUndo,
    NoteBlock,
    Notebook,
    NotebookNotFound,
    Page,
    Prepared,
    UnreadFile,
    Within,
    WrongBlockKind,
    ambiguous,
    appending,
    checked_title,
    for_place,
    is_id,
    kept_nowhere,
    new_id,
    valid,
)
from copydesk.store.access import Rules
from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp
from copydesk.store.threads import Soon
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import FileEdit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

DAILY = "daily note/%Y/%m/%Y-%m-%d"
"""The path of a daily note, in the format of strftime."""

_NAME_BYTES = 180
_LEFT_OUT = "the file would be left out by notes.exclude or .gitignore"

_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\u2028\u2029]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)

_NONE: Mapping[str, str] = MappingProxyType({})

_AT_ONCE = 32
"""Documents indexed in one transaction; other calls wait for its end."""

_BYTES_AT_ONCE = 2 << 20
"""Bytes that one call indexes at most; this takes less than a second."""


Of = TypeVar("Of", bound="FolderStore")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def locked(
    method: Callable[Concatenate[Of, Arguments], Answer],
) -> Callable[Concatenate[Of, Arguments], Answer]:
    """Wrap a method so that it runs under the folder's lock."""

    @wraps(method)
    def alone(self: Of, /, *args: Arguments.args, **more: Arguments.kwargs) -> Answer:
        with self.lock:
            return method(self, *args, **more)

    return alone


class FolderStore:
    """The notes of a folder. Safe to use from many threads and by many processes.

    `root` is the folder in the workspace `files`, which may be the workspace itself; `rules` say
    which files may be read. `state` is a folder for ids and the cache. `daily` is the path of daily
    notes in the format of strftime; `today` returns the current local date. `exclude` are lines as
    in a `.gitignore` of the workspace; what they match is left out. With `gitignore`, so are
    `node_modules` and what the `.gitignore` files match. `later` runs the indexing that a call
    leaves undone, and is closed with the store; without it, later calls do the indexing.
    """

    def __init__(
        self,
        files: Files,
        root: RelPath,
        rules: Rules,
        state: str,
        *,
        name: str = "",
        profile: Profile = "gfm",
        daily: str = DAILY,
        today: Callable[[], time.struct_time] = time.localtime,
        exclude: Sequence[str] = (),
        gitignore: bool = True,
        later: Soon | None = None,
    ) -> None:
        self._sidecars = Sidecars(state, str(root))
        self._index = NotesIndex(self._sidecars.cache_path(name_of(repr(rules))[:8]))
        folder = Folder(files, root, rules, GitIgnore(files, exclude, in_files=gitignore))
        self._documents = DocumentCache(folder, self._sidecars, self._index, profile, self._learn)
        self.lock = RLock()
        self._box = self._sidecars.notebook(new_id())
        self._name = name or root.name or "Notes"
        self._daily, self._today, self._later = daily, today, later
        self._left: list[RelPath] = []
        self._readable: dict[RelPath, Stamp] = {}  # of the files not yet indexed

    def notebooks(self) -> tuple[Notebook, ...]:
        return (Notebook(self._box, self._name),)

    @locked
    def blocks(self, ids: Sequence[str]) -> dict[str, NoteBlock]:
        wanted = dict.fromkeys(ids)
        places: dict[FolderDocument, list[Block]] = {}  # what is above is told once for each
        for block_id in wanted:
            with suppress(BlockNotFound):
                document = self._documents.find(block_id)
                places.setdefault(document, []).append(document.block(block_id))
        blocks = {
            block.id: block
            for document, nodes in places.items()
            for block in self._blocks(document, nodes)
        }
        return {block_id: blocks[block_id] for block_id in wanted if block_id in blocks}

    @locked
    def documents(self, box: str, most: int, within: Within = EVERYWHERE) -> Page:
        self._check_notebook(box)
        stamps = self._documents.scan()
        self._leave(self._changed(stamps))
        meant = self._meant(within)
        unread = self._unread(stamps)
        paths = [path for path in stamps if path not in unread and meant(path)]
        paths.sort(key=lambda path: (*path.parts[:-1], stem(path)))
        listed: list[NoteBlock] = []
        for at in range(0, len(paths) if most > 0 else 0, _AT_ONCE):
            with self._index.together():
                some = paths[at : at + _AT_ONCE]
                cards = ((path, self._documents.card(path, stamps[path])) for path in some)
                listed += (self._listed(path, card) for path, card in cards if card is not None)
            if len(listed) >= most:
                break
        return Page(listed[: max(most, 0)], len(paths))

    def _meant(self, within: Within) -> Callable[[RelPath], bool]:
        """Whether a document is meant, by its title or file name and by what is above either."""
        if within == EVERYWHERE:
            return lambda path: True
        root = len(self._documents.folder.root.parts)

        @cache
        def is_meant(path: RelPath) -> bool:
            card, name = self._documents.card(path), stem(path)
            title = card.title if card is not None else name
            folder = "/".join(("", *path.parts[root:-1], name))
            return within.has(self._hpath(path, title), name) or within.has(folder, title)

        return is_meant

    @locked
    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        document = self._documents.find(block_id)
        with undisturbed(len(document.data)):
            return tuple(self._blocks(document, _inside(document.block(block_id))))

    @locked
    def child_ids(self, block_id: str) -> tuple[str, ...]:
        document = self._documents.find(block_id)
        rows, number = document.rows, document.number
        return tuple([rows[number[child]].id for child in _inside(document.block(block_id))])

    @locked
    def around(self, block_id: str) -> Around:
        document = self._documents.find(block_id)
        block = document.block(block_id)
        return Around(*map(document.name, (block.parent, block.previous, block.next)))

    @locked
    def outline(self, document_id: str) -> tuple[Heading, ...]:
        document = self._document(document_id)
        return _nested(document, [block for block in document.tree.root.children if block.level])

    @locked
    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        document = self._documents.find(block_id)
        crumbs: list[Crumb] = []  # innermost first
        at = document.block(block_id)
        while at.parent is not None:
            name = content(document.tree, at) if at.level else ""
            crumbs.append(Crumb(document.name(at), at.kind, name))
            at = heading_of(at) or at.parent
        above = takewhile(lambda each: each[1], self._above(document.path))
        crumbs += [
            Crumb(document.id, DOCUMENT, document.title),
            *(Crumb(card.id, DOCUMENT, name) for name, card in above if card is not None),
        ]
        return (Crumb(self._box, "", self._name), *reversed(crumbs))

    @locked
    def search(self, query: str, most: int, within: Within = EVERYWHERE) -> Page:
        words = query.split()
        if not words:
            raise InvalidArgs("query", "has no words")
        sought = having(words)
        self._update_index(sought)
        meant = self._meant(within)
        hits = [
            (path, at)
            for path, at in (self._index.search(sought) if most > 0 else ())
            if meant(path_of(path))
        ]
        blocks = chain.from_iterable(
            self._blocks(document, (document.order[at],)) for document, at in self._at(hits)
        )
        real = (block for block in blocks if sought(_folded(block.content, block.markdown)))
        shown = list(islice(real, max(most, 0)))
        return Page(shown, len(hits) if len(shown) == most else None)

    @locked
    def coverage(self, box: str) -> Coverage:
        self._check_notebook(box)
        stamps = self._documents.scanned()
        unread = tuple(UnreadFile(str(path), why) for path, why in self._unread(stamps).items())
        waiting = {str(path) for path in self._left} - {file.path for file in unread}
        return Coverage(len(stamps) - len(unread), len(waiting), unread)

    @locked
    def prepare(self, changes: Sequence[Change], *, update_links: bool = False) -> Prepared:
        return DryRun(self._documents).prepared(changes, self._with, update_links=update_links)

    def _with(self, texts: Iterable[str]) -> Iterator[tuple[FolderDocument, int]]:
        """The leaves that contain any of these texts: document, and place in its order."""
        sought = having(texts, any)
        self._update_index(sought, whole=True)
        return self._at(self._index.search(sought))

    def _at(self, places: Iterable[tuple[str, int]]) -> Iterator[tuple[FolderDocument, int]]:
        """The documents at these places of the index, if they have so many blocks still."""
        for path, at in places:
            document = self._documents.look(path_of(path))
            if document is not None and at < len(document.order):
                yield document, at

    def recover(self, undo: Sequence[Change]) -> None:
        """Do nothing: the file journal recovers files."""

    @locked
    def located(self, address: str) -> str:
        if is_id(address):
            return address
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise InvalidBlockId(address)
        note, name = match["note"], match["name"]
        self._learn(f"^{name}")
        named = map(path_of, self._index.anchored(name))
        paths = [path for path in named if note is None or names_document(note, path)]
        ids = {
            document.name(document.tree.anchors[name]): str(document.path)
            for document in filter(None, map(self._documents.look, paths))
            if name in document.tree.anchors
        }
        if not ids:
            raise BlockNotFound(address)
        if len(ids) > 1:
            raise InvalidArgs("block_id", ambiguous(address, list(ids.values())))
        return next(iter(ids))

    @locked
    def check_links(self, prepared: Prepared) -> None:
        needed = prepared.held
        if isinstance(needed, HeldFiles) and needed.anchors:
            linking = sorted({path for _, paths in needed.anchors for path in paths})
            names = tuple(anchor for anchor, _ in needed.anchors[:MOST_TOLD])
            raise AnchorLinked(names, tuple(linking[:MOST_TOLD]))

    @locked
    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        needed = prepared.held
        if not isinstance(needed, HeldFiles):
            raise InvalidArgs("prepared", "was not prepared by this store")
        for path, digest, rows, successor in needed.plans:
            if not self._documents.written(path, digest, rows, successor):
                raise BlockChanged(block_id=rows[0].id)
        return ChangesDone(needed.ids)

    @locked
    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        self._check_notebook(box)
        folder = self._documents.folder.root
        if parent_id:
            parent = self._document(parent_id).path
            folder = parent.parent / stem(parent)
        return self._made_in(folder, title, markdown)

    @locked
    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        folder = self._document(anchor_id).path.parent
        for _ in range(up):
            if folder == self._documents.folder.root:
                raise InvalidArgs("location", "the document stands at the top of its notebook")
            folder = folder.parent
        return self._made_in(folder, title, markdown)

    @locked
    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        new = pieces(markdown, self._documents.profile)
        if markdown.strip():
            for_place(new, None)
        self._check_notebook(box)
        *folders, name = time.strftime(self._daily, self._today()).split("/")
        path = RelPath((*self._documents.folder.root.parts, *folders, f"{name}.md"))
        note = self._documents.look(path)
        if note is None:
            return self._made(path, name, markdown)
        split = partial(pieces, profile=self._documents.profile)
        changes = (
            appending(self, split, note.id, markdown, mixes_tasks=self._documents.profile == "gfm")
            if markdown.strip()
            else ()
        )
        prepared = self.prepare(changes)
        assert isinstance(prepared.held, HeldFiles)
        ids = chain.from_iterable(prepared.held.ids)
        needed = HeldFiles(prepared.held.plans, ((note.id, *ids),))
        return Prepared((), prepared.before, prepared.after, prepared.files, needed)

    def close(self) -> None:
        if self._later is not None:
            self._later.close()
        with self.lock:
            self._index.close()
            self._sidecars.close()

    def _update_index(self, sought: Holds, *, whole: bool = False) -> None:
        """Bring the index up to date.

        If there is much to index, files whose text is sought come first. After _BYTES_AT_ONCE
        bytes the rest is left to a thread and to later calls; with `whole`, only after all files
        whose text is sought.
        """
        answers, key = ANSWERS.get(), (id(self), "index", "")
        if answers is not None and key in answers:
            return
        now = self._documents.scan()
        changed = self._changed(now)
        most = sum(now[path].size for path in changed)
        if most > _BYTES_AT_ONCE:
            texts = ((path, self._text_of(path, now[path])) for path in changed)
            may = {path for path, text in texts if sought(folded(f"{stem(path)}\n{text}"))}
            changed.sort(key=lambda path: path not in may)
            most = sum(now[path].size for path in may) if whole else _BYTES_AT_ONCE
        while changed and most > 0:
            part, changed = changed[:_AT_ONCE], changed[_AT_ONCE:]
            self._take(part, _unchecked if whole else check_cancelled)
            most -= sum(now[path].size for path in part)
        self._leave(changed)
        if answers is not None and not changed:
            answers[key] = True

    def _changed(self, now: Mapping[RelPath, Stamp]) -> list[RelPath]:
        """Files whose current version is not indexed; deleted files are dropped from the index."""
        known = self._index.indexed()
        gone = known.keys() - {str(path) for path in now}
        if gone:
            self._index.forget(gone)
        return [
            path
            for path, stamp in now.items()
            if known.get(str(path), ("",))[0] != stamp_key(stamp)
        ]

    def _leave(self, paths: list[RelPath]) -> None:
        self._left = paths
        if paths and self._later is not None:
            self._later.do(self._go_on)

    @locked
    def _go_on(self) -> None:
        self._take(self._left[:_AT_ONCE], _unchecked)
        self._leave(self._left[_AT_ONCE:])

    def _text_of(self, path: RelPath, stamp: Stamp) -> str:
        """The text of a file that is not indexed yet; an unreadable one is indexed as unread."""
        try:
            data, _ = self._documents.folder.read(path, stamp)
        except NotRead as refused:
            self._not_read(path, refused)
            return ""
        self._readable[path] = stamp
        return data.decode("utf-8", "replace")

    def _unread(self, stamps: Mapping[RelPath, Stamp]) -> dict[RelPath, str]:
        """The files that cannot be read, with the reasons."""
        for path in self._left:
            if path in stamps and self._readable.get(path) != stamps[path]:
                self._text_of(path, stamps[path])
        known = self._index.indexed()
        return {path: why for path in stamps if (why := known.get(str(path), ("", ""))[1])}

    def _not_read(self, path: RelPath, refused: NotRead) -> None:
        if refused.reason and refused.stamp is not None:
            self._index.index(str(path), refused.stamp, "", (), (), refused.reason)
        else:
            self._index.forget([str(path)])

    def _learn(self, block_id: str) -> None:
        self._update_index(having([block_id]), whole=True)

    def _take(self, paths: Sequence[RelPath], check: Callable[[], None]) -> None:
        """Index documents; `check` is called now and then, and may raise."""
        with self._index.together():
            for path in paths:
                self._readable.pop(path, None)
                before = self._index.digest(str(path))
                try:
                    stamp, digest, tree = self._documents.glance(path, before, check)
                except NotRead as refused:
                    self._not_read(path, refused)
                    continue
                texts = None
                if tree is not None:
                    with undisturbed(len(tree.data)):
                        texts = list(_texts(tree, title_of(tree) or stem(path), check))
                anchors = tree.anchors if tree is not None else ()
                self._index.index(str(path), stamp, digest, texts, anchors)

    def _check_notebook(self, box: str) -> None:
        """Raise NotebookNotFound if this is not the id of this notebook."""
        if valid(box) != self._box:
            raise NotebookNotFound(box)

    def _above(self, path: RelPath) -> list[tuple[str, Card | None]]:
        """What a document is below, nearest first: names of folders, with their documents."""
        folder, parents = self._documents.folder, list[tuple[str, Card | None]]()
        while path.parent != folder.root:
            above = folder.parent(path)
            card = self._documents.card(above) if above is not None else None
            path = path.parent
            parents.append((card.title if card is not None else path.name, card))
        return parents

    def _hpath(self, path: RelPath, title: str) -> str:
        """The path of titles of a document; a folder without a document contributes its name."""
        names = [title, *(name for name, _ in self._above(path)), ""]
        return "/".join(reversed(names))

    def _listed(self, path: RelPath, card: Card) -> NoteBlock:
        return NoteBlock(
            id=card.id,
            kind=DOCUMENT,
            subtype="",
            markdown="",
            content=card.title,
            parent_id="",
            root_id=card.id,
            box=self._box,
            path=str(path),
            hpath=self._hpath(path, card.title),
            attributes=MappingProxyType(dict(card.attributes)),
            updated=time.strftime("%Y%m%d%H%M%S", time.localtime(card.stamp.mtime_ns // 10**9)),
        )

    def _blocks(self, document: FolderDocument, nodes: Iterable[Block]) -> Iterator[NoteBlock]:
        tree, path = document.tree, document.path
        hpath = self._hpath(path, document.title)
        for node in nodes:
            attributes = block_attributes(tree, node)
            if node.parent is None:
                card = Card(document.id, document.title, attributes, document.stamp)
                yield self._listed(path, card)
                continue
            source = markdown(tree, node)
            updated = attributes.pop("updated", "") if attributes else ""
            yield NoteBlock(
                id=document.name(node),
                kind=node.kind,
                subtype=node.subtype,
                markdown=source,
                content=read_text(source, node),
                parent_id=document.name(node.parent),
                root_id=document.id,
                box=self._box,
                path=str(path),
                hpath=hpath,
                attributes=MappingProxyType(attributes) if attributes else _NONE,
                updated=updated,
            )

    def _document(self, document_id: str) -> FolderDocument:
        document = self._documents.find(document_id)
        if document_id != document.id:
            raise WrongBlockKind(document_id, document.block(document_id).kind, "document")
        return document

    def _free(self, folder: RelPath, title: str) -> RelPath:
        names, first = self._documents.folder.names(folder), _safe(title)
        numbered = (f"{first} {number}" for number in count(2))
        # beside one of them there may be a folder of unrelated documents
        unused = (name for name in numbered if name.casefold() not in names)
        files = (f"{name}.md" for name in chain([first], unused))
        return folder / next(name for name in files if name.casefold() not in names)

    def _made_in(self, folder: RelPath, title: str, markdown: str) -> Prepared:
        pieces(markdown, self._documents.profile)
        name = checked_title(title)
        return self._made(self._free(folder, name), name, markdown)

    def _made(self, path: RelPath, title: str, markdown: str) -> Prepared:
        folder = self._documents.folder
        if folder.ignored.leaves_out(path, folder.root):
            raise InvalidArgs("title", _LEFT_OUT)
        data = _text(path, title, markdown)
        tree = read(data, self._documents.profile)
        base = Snapshot.of(b"")
        change = ChangeSet.of(0, [Edit(0, 0, data)])
        result = base.edited(change)
        unnamed = fingerprints(tree, tree.root)
        # a document that was undone and is made again has the ids that its text had
        rows = self._documents.known_rows(path, result.digest, len(unnamed)) or tuple(
            each.with_id(new_id()) for each in unnamed
        )
        step = SidecarChange("", result.digest, (Splice(0, (), rows),))
        self._documents.plan_ids(None, path, step)
        tops = [row.id for row in rows if row.depth == 1] if markdown.strip() else []
        needed = HeldFiles(((path, result.digest, rows, None),), ((rows[0].id, *tops),))
        files = (FileEdit(path, base, change, created=True),)
        return Prepared((), {}, {str(path): data.decode()}, files, needed)


def _inside(block: Block) -> Sequence[Block]:
    """The children of a container, or the section of a heading."""
    return section(block) if block.level else shown(block)


def _nested(document: FolderDocument, headings: Sequence[Block]) -> tuple[Heading, ...]:
    """Nest headings: each contains the lower-level ones that follow it."""
    nested, at = list[Heading](), 0
    while at < len(headings):
        first = headings[at]
        behind = range(at + 1, len(headings))
        stop = next((k for k in behind if headings[k].level <= first.level), len(headings))
        text, below = content(document.tree, first), _nested(document, headings[at + 1 : stop])
        nested.append(Heading(document.name(first), text, first.subtype, below))
        at = stop
    return tuple(nested)


def _unchecked() -> None:
    """Let a work go on to its end."""


def _texts(tree: Tree, title: str, check: Callable[[], None]) -> Iterator[IndexedText]:
    for at, (_, node) in enumerate(in_order(tree.root)):
        if not at % LOOKED_AT:
            check()
        if node.kind == DOCUMENT:
            yield at, 0, len(title), _folded(title, title)
        elif not node.holds_blocks and node.stop > node.start:
            source = markdown(tree, node)
            text = read_text(source, node)
            yield at, 0 if node.level else 1, len(text), _folded(text, source)


def _folded(text: str, source: str) -> bytes:
    both = text if source == text else f"{text}\n{source}"
    return folded(both).replace(b"\0", b" ")


def _text(path: RelPath, title: str, markdown: str) -> bytes:
    """The text of a new file; it has front matter if the title differs from the file name."""
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    inked = [number for number, line in enumerate(lines) if line.strip()]
    body = "\n".join(lines[inked[0] : inked[-1] + 1]) + "\n" if inked else ""
    if path.name != f"{title}.md":
        front = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n"
        return (front + ("\n" + body if body else "")).encode()
    if body.startswith(("---", "\ufeff")):
        body = "\n" + body  # else it would be front matter
    return body.encode()


def _safe(title: str) -> str:
    """A file name that every system accepts and that is not hidden."""
    name = _UNSAFE.sub("-", title).lstrip(".").strip()
    name = name.encode()[:_NAME_BYTES].decode("utf-8", "ignore").rstrip(". ")
    if not name or _DEVICE.fullmatch(name):
        name = f"{name}-"
    return name


_ADDRESS = re.compile(r"(?:(?P<note>[^\[\]|#^@\n]+)#)?\^(?P<name>[A-Za-z0-9-]+)")
