"""Hunks written as a block diff.

What lives here: the one spelling of each hunk. What must not: reading it
(`grammar`). Law: `parse(render(hunks)) == hunks`, whatever their texts hold.
"""

from __future__ import annotations

from collections.abc import Iterable

from copydesk.edit.notes.hunk import Hunk, is_block_id, lines_of
from copydesk.edit.notes.lines import LEAST_SIGNS, header_of, marker_line, marker_of


def render(hunks: Iterable[Hunk]) -> str:
    """The diff of these hunks, LF alone, a blank line between them."""
    return "\n".join("".join(f"{line}\n" for line in _lines(hunk)) for hunk in hunks)


def _lines(hunk: Hunk) -> list[str]:
    command = "" if hunk.action == "EDIT" else f"{hunk.action}:"
    header = f"@@{command}{hunk.block_id}@@"
    if hunk.action == "DELETE":
        return [header]
    search = lines_of(hunk.search) if hunk.search else []
    text = lines_of(hunk.text) if hunk.text else []
    if hunk.action != "EDIT" and all(_is_plain(line) for line in text):
        return [header, *text]
    used = {marker.size for line in [*search, *text] if (marker := marker_of(line))}
    size = next(n for n in range(LEAST_SIGNS, LEAST_SIGNS + len(used) + 1) if n not in used)
    opening, middle = marker_line("open", size), marker_line("middle", size)
    return [header, opening, *search, middle, *text, marker_line("close", size)]


def _is_plain(line: str) -> bool:
    """Whether a line needs no markers around it."""
    marker = marker_of(line)
    return (marker is None or marker.part == "middle") and header_of(line, is_block_id) is None
