"""The tools of notes: their arguments, report fields, and long results, shown in parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

from copydesk.edit.draft import Draft
from copydesk.edit.request import BlockDiff
from copydesk.text.relpath import RelPath
from copydesk.tools.report import Fields
from copydesk.tools.wire import Args
from copydesk.tools.yaml import Value

LISTED = 20
"""So many documents of each notebook are listed, unless told otherwise."""

FOUND = 20
"""So many blocks a search shows, unless told otherwise."""

_NOWHERE = RelPath(())

if TYPE_CHECKING:
    from copydesk.edit.notes.draft import HunkMade


def request_of(args: Args) -> BlockDiff:
    """The diff of a call; its path is told by the blocks that it names."""
    return BlockDiff(_NOWHERE, args.text("diff"), args.flag("strictMatch", True))


LENGTH = 8_000
"""Characters of a result that are shown at once, unless told otherwise."""

MOST_TEXTS = 200
MOST_CHARACTERS = 32 << 20
"""So much is kept of all texts together; the oldest go first."""


class Kept:
    """Texts by name. Safe to use from many threads. `length` None: nothing is cut."""

    def __init__(self, length: int | None = LENGTH) -> None:
        self.length = length
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._count = 0
        self._size = 0
        self._lock = Lock()

    def is_long(self, text: str) -> bool:
        """Whether the text is too long to be shown at once."""
        return self.length is not None and len(text) > self.length

    def keep(self, member: str, tool: str, text: str) -> str:
        """Keep a text; its name."""
        with self._lock:
            self._count += 1
            name = f"{tool}_{self._count}"
            self._texts[member, name] = text
            self._size += len(text)
            while len(self._texts) > 1 and (
                len(self._texts) > MOST_TEXTS or self._size > MOST_CHARACTERS
            ):
                self._size -= len(self._texts.popitem(last=False)[1])
            return name

    def find(self, member: str, name: str) -> str | None:
        """The text of that name, if it is still kept."""
        with self._lock:
            return self._texts.get((member, name))

    def names(self, member: str) -> tuple[str, ...]:
        """The names of the member's texts, the oldest first."""
        with self._lock:
            return tuple(name for owner, name in self._texts if owner == member)


def hunks(draft: Draft, *, done: bool) -> Fields:
    """The hunks of a block diff, and the documents that they change."""
    from copydesk.edit.notes.draft import BlockDraft  # few have a use for these

    if not isinstance(draft, BlockDraft):
        return {}
    fields: Fields = {
        "documents": [str(one.path) for one in draft.documents],
        "hunks": hunk_rows(draft.made(), done=done),
    }
    return {**fields, "edit_ids": list(draft.edit_ids)} if done else fields


def numbers(draft: Draft) -> dict[str, object]:
    """The numbers that a summary tells."""
    from copydesk.edit.notes.draft import BlockDraft

    hunk_count, documents = 0, 0
    if isinstance(draft, BlockDraft):
        hunk_count, documents = len(draft.plan.hunks), len(draft.documents)
    return {
        "path": draft.request.path,
        "hunks": hunk_count,
        "documents": documents,
        "old": draft.old_count,
        "new": draft.new_count,
    }


_OLD_SHOWN, _NEW_SHOWN = 30, 50


def hunk_text(hunk: HunkMade) -> str:
    """A hunk in a line: what is done to which block."""
    old, new = _quoted(hunk.old, _OLD_SHOWN), _quoted(hunk.new, _OLD_SHOWN)
    if hunk.kind == "UPDATE":
        said = f"UPDATE {hunk.block_id}: {old} → {new}"
    elif hunk.kind == "REPLACE":
        said = f"REPLACE {hunk.block_id}: → {new}"
    elif hunk.kind == "DELETE":
        said = f"DELETE {hunk.block_id}: {old}"
    else:
        said = f"{hunk.kind} {hunk.block_id}: {_quoted(hunk.new, _NEW_SHOWN)}"
    return f"{said} [{', '.join(hunk.new_ids)}]" if hunk.new_ids else said


def hunk_rows(hunks: Iterable[HunkMade], *, done: bool) -> list[Value]:
    """The hunks for a program, each with the ids of its new blocks."""
    rows: list[Value] = []
    for hunk in hunks:
        row: Fields = {
            "edit": {"type": hunk.kind, "blockId": hunk.block_id},
            "operation": hunk_text(hunk),
        }
        if done:
            row["success"] = True
        if hunk.new_ids:
            row |= {"newBlockId": hunk.new_ids[0], "newBlockIds": list(hunk.new_ids)}
        rows.append(row)
    return rows


def _quoted(text: str, most: int) -> str:
    return f'"{cut(one_line(text), most)}"'


def one_line(text: str) -> str:
    """The text in one line, its line ends shown as `\\n`."""
    return text.replace("\r", "").replace("\n", "\\n")


def cut(text: str, most: int) -> str:
    """The first characters of a text that is longer than `most`."""
    return text if len(text) <= most else f"{text[:most]}..."
