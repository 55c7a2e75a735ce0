"""A hunk: what one header of a block diff asks for.

What lives here: the value, the ids it may name, the lines of a text. What must
not: how a hunk is written (`grammar`, `render`) and what it becomes on blocks
(`working`). Invariant: a hunk's texts have lines ended by LF and no blank line
at either end; their indentation is as it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["EDIT", "DELETE", "REPLACE", "BEFORE", "AFTER", "PREPEND", "APPEND"]
"""`EDIT` is SEARCH/REPLACE under a header without command; the others are the commands."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SIYUAN_ID = re.compile(r"[0-9]{14}-[a-z0-9]{7}")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One edit of one block, or new blocks beside or in it.

    `search` is what the block must hold (EDIT alone); `text` is the new text,
    empty for DELETE, and for an EDIT that deletes. `line` is that of the header
    in the diff, from 1; it does not count when hunks are compared.
    """

    action: Action
    block_id: str
    text: str = ""
    search: str | None = None
    line: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        edits, deletes = self.action == "EDIT", self.action == "DELETE"
        sound = (
            is_block_id(self.block_id)
            and bool(self.search) == (self.search is not None) == edits
            and (bool(self.text) != deletes or edits)
            and all(part == content(lines_of(part)) for part in (self.text, self.search or ""))
        )
        if not sound:
            raise ValueError(f"no hunk: {self.action} of {self.block_id!r}")

    @property
    def deletes(self) -> bool:
        """Whether the block is to go."""
        return self.action == "DELETE" or (self.action == "EDIT" and not self.text)

    @property
    def rewrites(self) -> bool:
        """Whether the block is to hold another text."""
        return self.action in ("EDIT", "REPLACE") and not self.deletes


def is_block_id(text: str) -> bool:
    """Whether a block may have this id: 1 to 64 of letters and digits of ASCII, `_` and `-`.

    So are SiYuan's ids, and the anchors in Markdown files (`^anchor`, `{: id=".."}`,
    front matter). An id that is none can be in no store.
    """
    return _ID.fullmatch(text) is not None


def is_siyuan_id(text: str) -> bool:
    """Whether this is an id as SiYuan makes them: 14 digits, `-`, 7 of a-z and 0-9."""
    return _SIYUAN_ID.fullmatch(text) is not None


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends, which are LF or CRLF."""
    return [line.rstrip("\r") for line in text.split("\n")]


def is_blank(line: str) -> bool:
    """Whether a line holds nothing but blanks and tabs, as Markdown says."""
    return not line.strip(" \t")


def content(lines: list[str]) -> str:
    """The lines as one text, without the blank ones at its ends."""
    start, stop = 0, len(lines)
    while start < stop and is_blank(lines[start]):
        start += 1
    while start < stop and is_blank(lines[stop - 1]):
        stop -= 1
    return "\n".join(lines[start:stop])
