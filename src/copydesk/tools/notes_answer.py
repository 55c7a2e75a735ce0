"""What the tools of notes answer with: texts, long ones in parts, and the same as data."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from copydesk.errors import Refusal
from copydesk.tools import refusals
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang, Value

LISTED = 20
"""So many documents of each notebook are listed, unless told otherwise."""

FOUND = 20
"""So many blocks a search shows, unless told otherwise."""

LENGTH = 8_000
"""Characters of a result that are shown at once, unless told otherwise."""

MOST_TEXTS = 200
MOST_CHARACTERS = 32 << 20
"""So much is kept of all texts together; the oldest go first."""


class LongTexts:
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


_NOT_FOUND = ("BLOCK_NOT_FOUND", "NOTEBOOK_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """One answer; its `status` is success, not_found or error."""

    fields: Fields
    text: str
    diff: str = ""

    @property
    def data(self) -> Mapping[str, Value]:
        return self.fields

    @property
    def is_error(self) -> bool:
        return self.fields["status"] != "success"


def answered(fields: Fields, text: str, diff: str = "") -> NoteAnswer:
    """An answer that what was asked for is done."""
    return NoteAnswer({"status": "success", **fields}, text, diff)


def shown(
    kept: LongTexts, member: str, tool: str, fields: Fields, text: str, lang: Lang
) -> NoteAnswer:
    """A text that was asked for, as `content` besides the fields; a long one is cut."""
    if not kept.is_long(text):
        return answered({**fields, "content": text}, text)
    name = kept.keep(member, tool, text)
    start = text[: kept.length]
    omitted = len(text) - len(start)
    facts = {"omitted": omitted, "total": len(text), "name": name, "next": len(start)}
    cut: Fields = {"truncated": True, "omitted": omitted, "var": name}
    note = say("notes.cut", lang, facts)
    return answered({**fields, **cut, "content": start}, f"{start}\n\n{note}")


def refused(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> NoteAnswer:
    """A refusal of this toolset."""
    status = "not_found" if refusal.code in _NOT_FOUND else "error"
    words = refusals.refusal_words(refusal, lang, ("notes",))
    fields: Fields = {"status": status, "mode": name, "error": refusal.code}
    fields |= refusals.facts_of(refusal)
    fields["summary"] = words
    return NoteAnswer(fields, f"[{refusal.code}] {words}")
