"""Notes in folders of Markdown files: `NoteStore` without a server, of one folder or several."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from urllib.parse import unquote

from copydesk.errors import InvalidArgs
from copydesk.store.access import Rules
from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.store.notes.folder_blocks import FolderDocument, fingerprints, pieces, read
from copydesk.store.notes.folder_cache import DocumentCache, path_of
from copydesk.store.notes.folder_edit import FilePlan, HeldFiles, dry_run, texts
from copydesk.store.notes.folder_index import ENDINGS, Folder, NotesIndex, stem
from copydesk.store.notes.folder_reading import FolderReader, locked
from copydesk.store.notes.folder_sidecar import SidecarChange, Sidecars, Splice, name_of
from copydesk.store.notes.protocol import (
    AnchorLinked,
    Around,
    BlockChanged,
    BlockNotFound,
    Change,
    ChangesDone,
    Coverage,
    Crumb,
    Heading,
    InsertText,
    InvalidBlockId,
    KeepUndo,
    NoteBlock,
    Notebook,
    NotebookNotFound,
    NoteStore,
    Prepared,
    WrongBlockKind,
    checked_title,
    for_place,
    is_id,
    kept_nowhere,
    named,
    new_id,
)
from copydesk.store.soon import Soon
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.markdown import Profile
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import FileEdit

DAILY = "daily note/%Y/%m/%Y-%m-%d"
"""The path of a daily note, in the format of strftime."""

_NAME_BYTES = 180
_LEFT_OUT = "the file would be left out by notes.exclude or .gitignore"

_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\u2028\u2029]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


class FolderStore(FolderReader):
    """The notes of a folder. Safe to use from many threads, and by many processes.

    `root` is the folder in the workspace `files`, which may be the workspace itself; `rules` say
    what may be read of it. `state` is a folder where ids and the cache are kept. `daily` is the
    path of daily notes in the format of strftime; `today` gives the day by the clock of the
    machine. `exclude` are lines as in a `.gitignore` of the workspace: what they name is left out,
    and with `gitignore` what such files name, and `node_modules`. `later` indexes what a call
    leaves, and is closed with the store; without it later calls do.
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
        documents = DocumentCache(folder, self._sidecars, self._index, profile)
        box = self._sidecars.notebook(new_id())
        super().__init__(documents, box, name or root.name or "Notes", later)
        self._daily, self._today = daily, today

    @locked
    def prepare(self, changes: Sequence[Change]) -> Prepared:
        return dry_run(self._documents, changes, new_id)

    def recover(self, undo: Sequence[Change]) -> None:
        """Files are recovered as files are."""

    @locked
    def located(self, address: str) -> str:
        """The id of `^name` or `note#^name`; raises InvalidBlockId, BlockNotFound, InvalidArgs."""
        return address if is_id(address) else located(self._documents, address)

    @locked
    def check_links(self, prepared: Prepared) -> None:
        """Raise AnchorLinked if what was prepared would remove a name that links lead to."""
        held = prepared.held
        if isinstance(held, HeldFiles) and held.lost:
            after = {file.path: file.change.apply(file.base.data) for file in prepared.files}
            check_links(self._documents, held.lost, after.get)

    @locked
    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        held = prepared.held
        if not isinstance(held, HeldFiles):
            raise InvalidArgs("prepared", "was not prepared by this store")
        for plan in held.plans:
            successor = plan.working.successor if plan.working is not None else None
            if not self._documents.written(plan.path, plan.digest, plan.rows, successor):
                raise BlockChanged(block_id=plan.rows[0].id)
        return ChangesDone(held.ids)

    @locked
    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        pieces(markdown, self._documents.profile)
        name = checked_title(title)
        self._check_notebook(box)
        folder = self._documents.folder.root
        if parent_id:
            folder = self._documents.folder.below(self._path(parent_id))
        return self._made(self._free(folder, name), name, markdown)

    @locked
    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        pieces(markdown, self._documents.profile)
        name = checked_title(title)
        folder = self._path(anchor_id).parent
        for _ in range(up):
            if folder == self._documents.folder.root:
                raise InvalidArgs("location", "the document stands at the top of its notebook")
            folder = folder.parent
        return self._made(self._free(folder, name), name, markdown)

    @locked
    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        found = pieces(markdown, self._documents.profile)
        if markdown.strip():
            for_place(found, None)
        self._check_notebook(box)
        *folders, name = time.strftime(self._daily, self._today()).split("/")
        path = RelPath((*self._documents.folder.root.parts, *folders, f"{name}.md"))
        note = self._documents.look(path)
        if note is None:
            return self._made(path, name, markdown)
        if not markdown.strip():
            nothing = MappingProxyType[str, str]({})
            return Prepared((), nothing, nothing, held=HeldFiles((), ((note.id,),)))
        prepared = dry_run(self._documents, [InsertText(markdown, "last_in", note.id)], new_id)
        assert isinstance(prepared.held, HeldFiles)
        held = HeldFiles(prepared.held.plans, ((note.id, *prepared.held.ids[0]),))
        return Prepared((), prepared.before, prepared.after, prepared.files, held)

    def close(self) -> None:
        if self._later is not None:
            self._later.close()
        with self.lock:
            self._index.close()
            self._sidecars.close()

    def _path(self, document_id: str) -> RelPath:
        document = self._documents.find(document_id)
        if document_id != document.id:
            kind = document.block(document_id).kind
            raise WrongBlockKind(document_id, kind, "document")
        return document.path

    def _free(self, folder: RelPath, title: str) -> RelPath:
        """A free file name in the folder."""
        names = self._documents.folder.names(folder)
        stem, number = _safe(title), 1
        while True:
            name = stem if number == 1 else f"{stem} {number}"
            beside = number > 1 and name.casefold() in names  # documents that are not below it
            if f"{name}.md".casefold() not in names and not beside:
                return folder / f"{name}.md"
            number += 1

    def _made(self, path: RelPath, title: str, markdown: str) -> Prepared:
        folder = self._documents.folder
        if folder.ignored.leaves_out(path, folder.root):
            raise InvalidArgs("title", _LEFT_OUT)
        data = _text(path, title, markdown)
        tree = read(data, self._documents.profile)
        base = Snapshot.of(b"")
        change = ChangeSet.of(0, [Edit(0, 0, data)])
        result = base.edited(change)
        rows = tuple(sign.row(new_id()) for sign in fingerprints(tree, tree.root))
        self._documents.ids.plan(
            None, path, SidecarChange("", result.digest, (Splice(0, (), rows),)), rows
        )
        tops = [row.id for row in rows if row.depth == 1] if markdown.strip() else []
        held = HeldFiles((FilePlan(path, result.digest, rows),), ((rows[0].id, *tops),))
        file = FileEdit(path, base, change, created=True)
        return Prepared((), MappingProxyType({}), texts(path, data), (file,), held)


def _text(path: RelPath, title: str, markdown: str) -> bytes:
    """The text of a new file, with front matter if the title is not its name."""
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    body = "\n".join(lines) + "\n" if lines else ""
    if path.name != f"{title}.md":
        front = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n"
        return (front + ("\n" + body if body else "")).encode()
    if body.startswith(("---", "\ufeff")):
        body = "\n" + body  # it would be front matter
    return body.encode()


def _safe(title: str) -> str:
    """A file name that every system accepts and that is not hidden."""
    name = _UNSAFE.sub("-", title).lstrip(".").strip()
    name = name.encode()[:_NAME_BYTES].decode("utf-8", "ignore").rstrip(". ")
    if not name or _DEVICE.fullmatch(name):
        name = f"{name}-"
    return name


def several(stores: Sequence[NoteStore]) -> NoteStore:
    """The stores as one; one alone as it is."""
    return stores[0] if len(stores) == 1 else _Several(tuple(stores))


def located_in(stores: Sequence[FolderStore], address: str) -> str:
    """The id of the block at an address in one of the stores; raises as `FolderStore.located`."""
    found: list[str] = []
    for store in stores:
        with suppress(BlockNotFound):
            found.append(store.located(address))
    if not found:
        raise BlockNotFound(address)
    if len(found) > 1 and not is_id(address):
        paths = [store.blocks(found)[one].path for store, one in zip(stores, found, strict=False)]
        raise InvalidArgs("block_id", ambiguous(address, paths))
    return found[0]


def check_links_in(stores: Sequence[FolderStore], prepared: Prepared) -> None:
    """Raise AnchorLinked as `FolderStore.check_links`, for what one store or several prepared."""
    if isinstance(prepared.held, _Parts):
        for store, part, _ in prepared.held.parts:
            if isinstance(store, FolderStore):
                store.check_links(part)
    else:
        stores[0].check_links(prepared)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What each store prepared, with the indices of its changes."""

    parts: tuple[tuple[NoteStore, Prepared, tuple[int, ...]], ...]


class _Several:
    """Several stores as one, each id in one of them; all prepare before any executes."""

    def __init__(self, stores: tuple[NoteStore, ...]) -> None:
        self._stores = stores

    def notebooks(self) -> tuple[Notebook, ...]:
        return tuple(one for store in self._stores for one in store.notebooks())

    def documents(self, box: str, most: int) -> tuple[NoteBlock, ...]:
        return self._notebook(box).documents(box, most)

    def blocks(self, ids: Sequence[str]) -> Mapping[str, NoteBlock]:
        found: dict[str, NoteBlock] = {}
        for store in self._stores:
            found |= store.blocks([one for one in ids if one not in found])
        return {one: found[one] for one in ids if one in found}

    def children(self, block_id: str) -> tuple[NoteBlock, ...]:
        return self._of(block_id).children(block_id)

    def child_ids(self, block_id: str) -> tuple[str, ...]:
        return self._of(block_id).child_ids(block_id)

    def around(self, block_id: str) -> Around:
        return self._of(block_id).around(block_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        return self._of(document_id).outline(document_id)

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        return self._of(block_id).breadcrumb(block_id)

    def search(self, query: str, most: int) -> tuple[NoteBlock, ...]:
        found = [block for store in self._stores for block in store.search(query, most)]
        found.sort(key=lambda block: ("dh".find(block.kind) < 0, len(block.content)))
        return tuple(found[:most])

    def coverage(self, box: str) -> Coverage | None:
        return self._notebook(box).coverage(box)

    def prepare(self, changes: Sequence[Change]) -> Prepared:
        indices: dict[NoteStore, list[int]] = {}
        for index, change in enumerate(changes):
            indices.setdefault(self._of(named(change)[-1]), []).append(index)
        parts = [
            (store, store.prepare([changes[index] for index in wanted]), tuple(wanted))
            for store, wanted in indices.items()
        ]
        return _joined(tuple(changes), parts)

    def recover(self, undo: Sequence[Change]) -> None:
        """Files are recovered as files are."""

    def execute(self, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        held = prepared.held
        if not isinstance(held, _Parts):
            raise InvalidArgs("prepared", "was not prepared by this store")
        ids: dict[int, tuple[str, ...]] = {}
        for store, part, indices in held.parts:
            done = store.execute(part)
            ids |= zip(indices, done.ids, strict=True)
        return ChangesDone(tuple(ids[index] for index in sorted(ids)))

    def prepare_document(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        store = self._notebook(box)
        return _joined((), [(store, store.prepare_document(box, parent_id, title, markdown), (0,))])

    def prepare_beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        store = self._of(anchor_id)
        return _joined((), [(store, store.prepare_beside(anchor_id, up, title, markdown), (0,))])

    def prepare_daily_note(self, box: str, markdown: str = "") -> Prepared:
        store = self._notebook(box)
        return _joined((), [(store, store.prepare_daily_note(box, markdown), (0,))])

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _of(self, block_id: str) -> NoteStore:
        """The store that has the block; BlockNotFound, with what a store knows of a lost one."""
        for store in self._stores:
            if store.blocks([block_id]):
                return store
        lost: BlockNotFound | None = None
        for store in self._stores:
            try:
                store.around(block_id)
            except BlockNotFound as refusal:
                lost = refusal if refusal.lost or lost is None else lost
        raise lost or BlockNotFound(block_id)

    def _notebook(self, box: str) -> NoteStore:
        for store in self._stores:
            if any(one.id == box for one in store.notebooks()):
                return store
        with suppress(NotebookNotFound):
            self._stores[0].prepare_daily_note(box)  # refuses an invalid id as such
        raise NotebookNotFound(box)


def _joined(
    changes: tuple[Change, ...], parts: Sequence[tuple[NoteStore, Prepared, tuple[int, ...]]]
) -> Prepared:
    made = Prepared(changes, {}, {}, (), _Parts(tuple(parts)))
    for _, part, _ in parts:
        made = replace(
            made,
            before={**made.before, **part.before},
            after={**made.after, **part.after},
            files=(*made.files, *part.files),
        )
    return made


_ADDRESS = re.compile(r"(?:(?P<note>[^\[\]|#^@\n]+)#)?\^(?P<name>[A-Za-z0-9-]+)")
_TOLD = 10
"""So many names or documents are told in a refusal."""


def located(documents: DocumentCache, address: str) -> str:
    """The id of the block at an address; InvalidBlockId, BlockNotFound, InvalidArgs for several."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidBlockId(address)
    note, name = found["note"], found["name"]
    documents.scan()
    documents.learn_anchors(f"^{name}")
    ids: dict[str, RelPath] = {}
    for text in documents.index.anchored(name):
        path = path_of(text)
        document = documents.look(path) if note is None or _means(note, path) else None
        block = document.tree.anchors.get(name) if document is not None else None
        if document is not None and block is not None:
            ids[document.name(block)] = path
    if not ids:
        raise BlockNotFound(address)
    if len(ids) > 1:
        raise InvalidArgs("block_id", ambiguous(address, [str(path) for path in ids.values()]))
    return next(iter(ids))


def ambiguous(address: str, paths: Sequence[str]) -> str:
    """What is said of an address that leads to several documents."""
    name = address.rpartition("#")[2]
    said = ", ".join(paths[:_TOLD])
    return f"{address} is in several documents: {said}; write {paths[0]}#{name}"


def check_links(
    documents: DocumentCache,
    lost: Sequence[tuple[FolderDocument, str]],
    after: Callable[[RelPath], bytes | None],
) -> None:
    """Raise AnchorLinked if a document links to a name that is `lost`; `after` gives new texts."""
    sought = f"#^{lost[0][1]}" if len(lost) == 1 else "#^"  # one search, however many there are
    documents.learn_anchors(sought)
    paths = {path_of(text) for text, _ in documents.index.search([sought.casefold()])}
    wanted: dict[str, list[FolderDocument]] = {}
    for document, name in lost:
        wanted.setdefault(name.casefold(), []).append(document)
    linked, linking = set[tuple[RelPath, str]](), list[str]()
    for path in sorted(paths):
        found = [
            (target.path, name)
            for note, name in _links(documents, path, after)
            for target in wanted.get(name, ())
            if (_means(note, target.path) if note else path == target.path)
        ]
        linked.update(found)
        linking += [str(path)] * bool(found)
    anchors = [f"{one.path}#^{name}" for one, name in lost if (one.path, name.casefold()) in linked]
    if anchors:
        raise AnchorLinked(tuple(anchors[:_TOLD]), tuple(linking[:_TOLD]))


_LINKS = (
    re.compile(r"\[\[([^\[\]|#\n]*)#\^([A-Za-z0-9-]+)[ \t]*(?:\||\]\])"),
    re.compile(r"\]\(<?([^()#<>\n]*)#\^([A-Za-z0-9-]+)>?[ \t]*[)\"]"),
)


def _links(
    documents: DocumentCache, path: RelPath, after: Callable[[RelPath], bytes | None]
) -> set[tuple[str, str]]:
    """The notes, empty for its own, and names, case folded, that a document will link to."""
    data = after(path)
    if data is None:
        document = documents.look(path)
        data = document.data if document is not None else b""
    text = data.decode("utf-8", "replace")
    wiki, inline = (one.findall(text) for one in _LINKS)
    found = {(note.strip(), name.casefold()) for note, name in wiki}
    return found | {(unquote(note).strip(), name.casefold()) for note, name in inline}


def _means(note: str, path: RelPath) -> bool:
    """Whether a link to a note may be to this file: by its name, or by its path from its end."""
    spelled = posixpath.normpath(note.casefold()).split("/")
    wanted = [part for part in spelled if part not in ("", ".", "..")]
    for ending in ENDINGS:
        if wanted and wanted[-1].endswith(ending):
            wanted[-1] = wanted[-1][: -len(ending)]
            break
    parts = [*path.parts[:-1], stem(path)]
    return bool(wanted) and [part.casefold() for part in parts][-len(wanted) :] == wanted
