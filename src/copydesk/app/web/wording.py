"""Refusals in words for the person at the page.

What lives here: what to say where the words for agents would mislead. What must
not: what is true.
"""

from __future__ import annotations

from copydesk.errors import (
    AlreadyDecided,
    AmbiguousMatch,
    ContentChanged,
    FileNotFound,
    HunkNotFound,
    InvalidHunkId,
    Refusal,
)
from copydesk.tools.reports import refusal_words

_GONE = {
    "applied": "It was applied.",
    "discarded": "It was discarded.",
    "expired": "It expired.",
    "unknown": "There is no such plan, or it ended long ago.",
}
_CHANGED = {
    "gone": "the lines that it relies on are not there any more.",
    "indented": "the lines that it relies on were indented anew.",
    "owner": "equal lines stand there, but in another function or section.",
    "parted": "something was put between the lines that it relies on.",
}


def words_of(refusal: Refusal) -> str:
    """What happened, in a sentence or two."""
    if isinstance(refusal, AlreadyDecided):
        return f"{refusal.by} was first: this plan is {refusal.verdict}."
    if isinstance(refusal, HunkNotFound):
        return _GONE.get(refusal.reason, _GONE["unknown"])
    if isinstance(refusal, InvalidHunkId):
        return _GONE["unknown"]
    if isinstance(refusal, ContentChanged):
        return _CHANGED.get(refusal.reason, f"{refusal.reason}.")
    if isinstance(refusal, AmbiguousMatch):
        return "its lines could now be in more than one place."
    if isinstance(refusal, FileNotFound):
        return "the file is not there any more."
    return refusal_words(refusal, "en")
