"""Refusals of block diffs and slices: codes and facts, and the list of what can be wrong in one.

Invariant: a refusal names everything that is wrong at once, and nothing was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from copydesk.errors import Refusal

Kind = Literal[
    "NESTED_SEARCH_REPLACE",
    "UNMATCHED_MARKERS.open",
    "UNMATCHED_MARKERS.close",
    "DELIMITER_ERROR.stray",
    "DELIMITER_ERROR.missing",
    "DELIMITER_ERROR.twice",
    "INVALID_SEQUENCE.no_header",
    "INVALID_SEQUENCE.no_body",
    "INVALID_SEQUENCE.second_body",
    "INVALID_SEQUENCE.after_delete",
    "INVALID_SEQUENCE.search_in_command",
    "INVALID_SEQUENCE.markers_in_text",
    "INVALID_BLOCK_ID.id",
    "INVALID_BLOCK_ID.command",
    "INVALID_BLOCK_ID.unclosed",
    "EMPTY_CONTENT.diff",
    "EMPTY_CONTENT.search",
    "EMPTY_CONTENT.text",
    "EMPTY_CONTENT.blocks",
    "UNEXPECTED_TEXT.before",
    "UNEXPECTED_TEXT.no_markers",
    "UNEXPECTED_TEXT.after_body",
    "UNEXPECTED_TEXT.after_delete",
    "UNEXPECTED_TEXT.label",
    "BLOCK_NOT_FOUND",
    "CONTENT_MISMATCH.text",
    "CONTENT_MISMATCH.part",
    "CONTENT_MISMATCH.more",
    "CONTENT_MISMATCH.blanks",
    "CONFLICTING_HUNKS.same",
    "CONFLICTING_HUNKS.inside",
    "CONFLICTING_HUNKS.contains",
    "ANCHOR_DELETED",
    "INVALID_TARGET.document",
    "INVALID_TARGET.leaf",
    "LIST_ITEM_REQUIRED",
]
"""What can be wrong in a block diff: a code, and after the point which case of it.

The first seven codes are of the grammar, the others of the blocks; a text that
makes no block is `EMPTY_CONTENT` too.
"""

SliceReason = Literal["empty", "form", "keyword", "unknown", "count", "anchor", "reversed"]
"""What can be wrong in a slice."""

_SHOWN = 80
"""Characters of a line of a diff, or of a slice, that are told back."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a block diff; `line` is the diff's, from 1.

    `text` is the line itself, cut; `other_line` the line of the other marker or hunk; `expected`
    the marker line that is missing. `similarity` (percent) and `difference` (`-` SEARCH, `+` the
    block) tell of a content mismatch; beyond the first mismatches of a diff they are None.
    """

    code: str
    reason: str | None
    line: int
    block_id: str | None = None
    text: str | None = None
    other_line: int | None = None
    expected: str | None = None
    similarity: int | None = None
    difference: tuple[str, ...] | None = None


def problem(
    kind: Kind,
    line: int,
    *,
    block_id: str | None = None,
    text: str | None = None,
    other_line: int | None = None,
    expected: str | None = None,
    similarity: int | None = None,
    difference: tuple[str, ...] | None = None,
) -> Problem:
    """The problem of this kind; the text is cut."""
    code, _, reason = kind.partition(".")
    told = None if text is None else shown(text)
    return Problem(
        code, reason or None, line, block_id, told, other_line, expected, similarity, difference
    )


def shown(text: str) -> str:
    """A text of the caller's as it is told back: cut, if it is long."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class BlockDiffRefused(Refusal, code="BLOCK_DIFF_REFUSED"):
    """A block diff cannot be read, or does not fit the blocks; all that is wrong, by line."""

    problems: tuple[Problem, ...]


class InvalidSlice(Refusal, code="INVALID_SLICE"):
    """A slice has no meaning among these `total` blocks; `part` is the piece of it at fault."""

    slice: str
    reason: SliceReason
    total: int
    part: str | None = None
