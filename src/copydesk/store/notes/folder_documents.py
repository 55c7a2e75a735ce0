"""New documents of a folder: which file they are, and what stands in it.

What lives here: names of files, front matter, the note of a day. What must not:
a file written. Invariants: no file takes the place of another; the title that a
new document shows is the one that was asked for.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes.block_id import valid
from copydesk.store.notes.errors import NotebookNotFound, WrongBlockKind
from copydesk.store.notes.folder_shelf import Shelf
from copydesk.store.notes.folder_sidecar import Splice, Step
from copydesk.store.notes.folder_text import pieces
from copydesk.store.notes.folder_tree import read, signs
from copydesk.store.notes.folder_trial import Held, Plan, texts, try_out
from copydesk.store.notes.pieces import for_place
from copydesk.store.notes.protocol import FileEdit, Insert, Prepared
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

DAILY = "daily note/%Y/%m/%Y-%m-%d"
"""Where the note of a day is, as strftime has it."""

_TITLE_CHARS = 512
_NAME_BYTES = 180

_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\u2028\u2029]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Documents:
    """Prepares documents. `today` gives the day by the clock of the machine."""

    shelf: Shelf
    box: str
    fresh: Callable[[], str]
    daily: str = DAILY
    today: Callable[[], time.struct_time] = time.localtime

    def prepare(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        """As `NoteStore.prepare_document`."""
        pieces(markdown, self.shelf.profile)
        name = _title(title)
        self.open(box)
        folder = self.shelf.folder.root
        if parent_id:
            folder = self.shelf.folder.below(self._path(parent_id))
        return self._made(self._free(folder, name), name, markdown)

    def beside(self, anchor_id: str, up: int, title: str, markdown: str) -> Prepared:
        """As `NoteStore.prepare_beside`."""
        pieces(markdown, self.shelf.profile)
        name = _title(title)
        folder = self._path(anchor_id).parent
        for _ in range(up):
            if folder == self.shelf.folder.root:
                raise InvalidArgs("location", "the document stands at the top of its notebook")
            folder = folder.parent
        return self._made(self._free(folder, name), name, markdown)

    def prepare_daily(self, box: str, markdown: str) -> Prepared:
        """As `NoteStore.prepare_daily_note`."""
        found = pieces(markdown, self.shelf.profile)
        if markdown.strip():
            for_place(found, None)
        self.open(box)
        *folders, name = time.strftime(self.daily, self.today()).split("/")
        path = RelPath((*self.shelf.folder.root.parts, *folders, f"{name}.md"))
        note = self.shelf.look(path)
        if note is None:
            return self._made(path, name, markdown)
        if not markdown.strip():
            nothing = MappingProxyType[str, str]({})
            return Prepared((), nothing, nothing, held=Held((), ((note.id,),)))
        prepared = try_out(self.shelf, [Insert(markdown, "last_in", note.id)], self.fresh)
        assert isinstance(prepared.held, Held)
        held = Held(prepared.held.plans, ((note.id, *prepared.held.ids[0]),))
        return Prepared((), prepared.before, prepared.after, prepared.files, held)

    def open(self, box: str) -> None:
        """NotebookNotFound for another notebook than this one."""
        if valid(box) != self.box:
            raise NotebookNotFound(box)

    def _path(self, document_id: str) -> RelPath:
        """The file of a document; WrongBlockKind for another block."""
        document = self.shelf.find(document_id)
        if document_id != document.id:
            kind = document.block(document_id).kind
            raise WrongBlockKind(document_id, kind, "document")
        return document.path

    def _free(self, folder: RelPath, title: str) -> RelPath:
        """A file in the folder that is not there."""
        names = self.shelf.folder.names(folder)
        stem, number = _safe(title), 1
        while True:
            name = stem if number == 1 else f"{stem} {number}"
            beside = number > 1 and name.casefold() in names  # documents that are not below it
            if f"{name}.md".casefold() not in names and not beside:
                return folder / f"{name}.md"
            number += 1

    def _made(self, path: RelPath, title: str, markdown: str) -> Prepared:
        data = _text(path, title, markdown)
        tree = read(data, self.shelf.profile)
        base = Snapshot.of(b"")
        change = ChangeSet.of(0, [Edit(0, 0, data)])
        result = base.edited(change)
        rows = tuple(sign.row(self.fresh()) for sign in signs(tree, tree.root))
        self.shelf.ids.plan(None, path, Step("", result.digest, (Splice(0, (), rows),)), rows)
        tops = [row.id for row in rows if row.depth == 1] if markdown.strip() else []
        held = Held((Plan(path, result.digest, rows),), ((rows[0].id, *tops),))
        file = FileEdit(path, base, change, created=True)
        return Prepared((), MappingProxyType({}), texts(path, data), (file,), held)


def _text(path: RelPath, title: str, markdown: str) -> bytes:
    """What stands in a new file; front matter only where its name does not say the title."""
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


def _title(title: str) -> str:
    """A title in one line; InvalidArgs(`title`)."""
    name = " ".join(title.split())
    if not name:
        raise InvalidArgs("title", "must not be empty")
    if "/" in name:
        raise InvalidArgs("title", "holds a slash")
    if len(name) > _TITLE_CHARS:
        raise InvalidArgs("title", f"more than {_TITLE_CHARS} characters")
    if "\0" in name or any(0xD800 <= ord(c) <= 0xDFFF for c in name):
        raise InvalidArgs("title", "holds a character that no title can have")
    return name


def _safe(title: str) -> str:
    """A name of a file that every system takes, and that is not hidden."""
    name = _UNSAFE.sub("-", title).lstrip(".").strip()
    name = name.encode()[:_NAME_BYTES].decode("utf-8", "ignore").rstrip(". ")
    if not name or _DEVICE.fullmatch(name):
        name = f"{name}-"
    return name
