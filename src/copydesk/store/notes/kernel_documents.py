"""Documents made in a kernel: new ones below others, and daily notes.

What lives here: making, checking, taking away again. What must not: blocks of
documents that are there. Invariant: a document that is given out has been read,
stands where it was asked for, and holds what it should.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from copydesk.errors import InvalidArgs
from copydesk.store.notes.block_id import is_id, new_id, valid
from copydesk.store.notes.errors import (
    NotebookNotFound,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
    WrongBlockKind,
)
from copydesk.store.notes.kernel_calls import Kernel
from copydesk.store.notes.kernel_http import AnswerLost, KernelRefused
from copydesk.store.notes.kernel_reading import Reading
from copydesk.store.notes.kernel_settled import Pause, settled
from copydesk.store.notes.kernel_text import checked, differing
from copydesk.store.notes.pieces import Split
from copydesk.store.notes.protocol import Block, Done, Prepared

_TITLE_CHARS = 512


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to be made. `above` is the path below which it has to stand."""

    id: str
    box: str
    parent_id: str
    above: str
    hpath: str
    markdown: str

    @property
    def path(self) -> str:
        """Where it has to stand."""
        return f"{self.above}/{self.id}.sy"


@dataclass(frozen=True, slots=True)
class NewDailyNote:
    """Today's note, to be made if it is not there, and a text to be put at its end."""

    box: str
    markdown: str


@dataclass(frozen=True, slots=True)
class Documents:
    """Makes documents."""

    kernel: Kernel
    reading: Reading
    split: Split
    pause: Pause

    def prepare(self, box: str, parent_id: str, title: str, markdown: str) -> Prepared:
        """A new document below another one, or at the top; as `NoteStore.prepare_document`."""
        checked(markdown)
        name = _title(title)
        self._open_notebook(box)
        above = ""
        if parent_id:
            kind = self.reading.standing(parent_id).kind
            if kind != "d":
                raise WrongBlockKind(parent_id, kind, "document")
            home = self.kernel.home(parent_id)
            if home.box != box:
                raise InvalidArgs("parent_id", "is in another notebook")
            above = home.path.removesuffix(".sy")
        hpath = f"{self.kernel.hpath(parent_id) if parent_id else ''}/{name}"
        new = NewDocument(new_id(), box, parent_id, above, hpath, markdown)
        after = MappingProxyType({new.path: markdown})
        return Prepared((), MappingProxyType({}), after, held=new)

    def make(self, new: NewDocument) -> Done:
        """Make a document that was prepared."""
        problem = named = ""
        try:
            named = self.kernel.create_document(
                new.box,
                new.hpath,
                new.markdown,
                parent_id=new.parent_id,
                document_id=new.id,
            )
        except KernelRefused as refused:
            problem = str(refused)
        except AnswerLost as lost:
            problem = lost.detail
        try:
            self._made(new, named, problem)
            return Done(((new.id, *(child.id for child in self.kernel.children(new.id))),))
        except NotesUnavailable as lost:
            raise NotesTorn(0, problem or lost.detail, (new.id,)) from None

    def _made(self, new: NewDocument, named: str, problem: str) -> None:
        """See that the new document is what was asked for; else it is taken away again."""
        look = self.reading.blocks
        there = settled(self.kernel, self.pause, lambda: look([new.id]), bool)
        if new.id not in there:
            if named and look([named]):
                raise NotesTorn(0, f"it has the id {named}", (named,))
            raise NotesRolledBack(0, new.id, problem or "no document came to be")
        made = there[new.id]
        fault = self._fault(made, new.markdown)
        if (made.box, made.path) != (new.box, new.path):
            fault = f"it stands at {made.box}{made.path}"
        if not fault:
            return
        try:
            self.kernel.remove_document(made.box, made.path)
        except KernelRefused as refused:
            fault = f"{fault}; {refused}"
        self.kernel.flush()
        # those above may have been made with it
        left = [part for part in made.path.split("/") if is_id(part) and part not in new.above]
        left += self.kernel.standings([new.id])
        if left:
            raise NotesTorn(0, fault, tuple(left))
        raise NotesRolledBack(0, new.id, problem or fault)

    def _fault(self, made: Block, markdown: str) -> str:
        """What is wrong with what a new document holds."""
        if made.kind != "d":
            return f"it is {made.kind or 'of no kind'}"
        wanted, there = self.split(markdown), self.kernel.children(made.id)
        if wanted and len(wanted) != len(there):
            return f"{len(there)} blocks where {len(wanted)} should be"
        return differing(markdown, self.kernel.kramdown(made.id))

    def prepare_daily_note(self, box: str, markdown: str) -> Prepared:
        """Today's note; as `NoteStore.prepare_daily_note`. Only the kernel knows what is today."""
        checked(markdown)
        self._open_notebook(box)
        nothing = MappingProxyType[str, str]({})
        return Prepared((), nothing, nothing, held=NewDailyNote(box, markdown))

    def daily_note(self, box: str) -> str:
        """The id of today's note of a notebook, made when it is not there."""
        try:
            document_id = self._daily_id(box)
            self.kernel.flush()
            found = self.reading.blocks([document_id])
        except KernelRefused as refused:
            raise NotesRolledBack(0, box, str(refused)) from None
        except AnswerLost as lost:
            raise NotesTorn(0, lost.detail, (box,)) from None
        note = found.get(document_id)
        if note is None or note.kind != "d" or note.box != box:
            raise NotesTorn(0, f"{document_id} is no document of this notebook", (box,))
        return document_id

    def _daily_id(self, box: str) -> str:
        """The id of the note; asked for twice when the first answer is lost, for there is one."""
        try:
            return self.kernel.daily_note(box)
        except AnswerLost:
            return self.kernel.daily_note(box)

    def _open_notebook(self, box: str) -> None:
        notebooks = {notebook.id: notebook for notebook in self.kernel.notebooks()}
        found = notebooks.get(valid(box))
        if found is None or found.closed:
            raise NotebookNotFound(box, closed=found is not None)


def _title(title: str) -> str:
    """A title that the kernel keeps as it is; InvalidArgs(`title`)."""
    name = " ".join(title.split())
    if not name:
        raise InvalidArgs("title", "must not be empty")
    if "/" in name:
        raise InvalidArgs("title", "holds a slash")
    if len(name) > _TITLE_CHARS:
        raise InvalidArgs("title", f"more than {_TITLE_CHARS} characters")
    if "\0" in name or any(0xD800 <= ord(c) <= 0xDFFF for c in name):
        raise InvalidArgs("title", "holds a character that no title can have")
    return name.removesuffix(".sy") or name
