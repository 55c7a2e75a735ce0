"""What the tools of notes answer with: a text for a model, and the same as data.

What lives here: the form, its cutting, refusals put into it. What must not: what
a tool answers. Invariant: what is cut is cut in both, and kept as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from copydesk.errors import Refusal
from copydesk.tools import reports
from copydesk.tools.messages import say
from copydesk.tools.notes_parts import Kept
from copydesk.tools.report import Fields, Lang
from copydesk.tools.yaml import Value

_NOT_FOUND = ("BLOCK_NOT_FOUND", "NOTEBOOK_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """One answer; its `status` is success, not_found or error."""

    fields: Fields
    text: str
    diff: str = ""

    @property
    def data(self) -> Mapping[str, Value]:
        """The answer for a program."""
        return self.fields

    @property
    def is_error(self) -> bool:
        """Whether this is a refusal."""
        return self.fields["status"] != "success"


def told(fields: Fields, text: str, diff: str = "") -> NoteAnswer:
    """An answer that what was asked for is done."""
    return NoteAnswer({"status": "success", **fields}, text, diff)


def shown(kept: Kept, member: str, tool: str, fields: Fields, text: str, lang: Lang) -> NoteAnswer:
    """A text that was asked for, as `content` besides the fields; a long one is cut."""
    if not kept.is_long(text):
        return told({**fields, "content": text}, text)
    name = kept.keep(member, tool, text)
    start = text[: kept.length]
    omitted = len(text) - len(start)
    facts = {"omitted": omitted, "total": len(text), "name": name, "next": len(start)}
    cut: Fields = {"truncated": True, "omitted": omitted, "var": name}
    note = say("notes.cut", lang, facts)
    return told({**fields, **cut, "content": start}, f"{start}\n\n{note}")


def refused(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> NoteAnswer:
    """A refusal of this toolset."""
    status = "not_found" if refusal.code in _NOT_FOUND else "error"
    words = reports.refusal_words(refusal, lang, ("notes",))
    fields: Fields = {"status": status, "mode": name, "error": refusal.code}
    fields |= reports.facts_of(refusal)
    fields["summary"] = words
    return NoteAnswer(fields, f"[{refusal.code}] {words}")
