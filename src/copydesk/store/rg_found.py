"""What a search found, as values.

What lives here: the results, and lines cut to a size that can be shown. What
must not: a process, words for people. Invariant: no text here holds a lone
surrogate or NUL, none is longer than the width it was cut to, and no path is of
a file that the caller may not read.

Paths are relative to the workspace root and begin as the caller spelled them; a
byte that is not UTF-8 stands as `\\xNN`. Lines and columns are 1-based; columns
count characters of the line as shown, escapes included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from copydesk.store.rg_json import Line, shown

LINE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Warned:
    """A file that was not, or not wholly, searched.

    `kind` is `unreadable`, with the system's word for it in `detail`, or `binary`:
    a NUL byte was met, at the byte (from 0) that `detail` gives, and what stands
    from there on is not shown.
    """

    path: str
    kind: Literal["unreadable", "binary"]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What every result has.

    `truncated`: there is more than was asked for; exact unless `timed_out`, when
    the time was up before all files were searched.
    """

    truncated: bool
    timed_out: bool = False
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Found):
    """The files with a match, in the order of their paths."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """How many lines of one file match, and how often."""

    path: str
    lines: int
    matches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Found):
    """The files with a match; the totals are of all files, also of those left out of `rows`."""

    rows: tuple[Count, ...]
    total_files: int
    total_lines: int
    total_matches: int


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A line near a match; `cut` when only its first LINE_CHARACTERS are in `text`."""

    line: int
    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line with a match, and the lines around it.

    `column` and `match` are of the first match in the line. `text` begins at
    `from_column`, 1 unless the line is long and its match far. `cut` when not
    all of line or match is here; `column` is None when the line is so long that
    it was not counted.
    """

    path: str
    line: int
    column: int | None
    match: str
    text: str
    from_column: int = 1
    cut: bool = False
    before: tuple[ContextLine, ...] = ()
    after: tuple[ContextLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippets(Found):
    """The lines with a match, in the order of paths and lines."""

    results: tuple[Snippet, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A line as `rg` prints it: a match, or context of one.

    With --only-matching `text` is the match. The other fields are as in Snippet;
    `column` is None for context and for lines without a match of their own.
    """

    path: str
    line: int
    column: int | None
    text: str
    is_match: bool
    from_column: int = 1
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Found):
    """The rows, in rg's order."""

    rows: tuple[Row, ...]


Raw = Lines | Files | Counts


@dataclass(frozen=True, slots=True)
class Sight:
    """One line cut to a width, around its first match."""

    text: str
    from_column: int
    column: int | None
    match: str
    cut: bool
    match_cut: bool = False


def sight(line: Line, width: int = LINE_CHARACTERS) -> Sight:
    """The line as it can be shown; a far match is brought into view."""
    text = shown(line.data)
    span = line.spans[0] if line.spans else None
    if span is None or span[0] > len(line.data):
        return Sight(text[:width], 1, None, "", not line.whole or len(text) > width)
    at = len(shown(line.data[: span[0]]))
    match = shown(line.data[span[0] : span[1]])
    is_whole = line.whole and len(text) <= width
    fits = at + len(match) <= width
    first = 0 if is_whole or fits else max(0, at - width // 5)
    match_cut = len(match) > width or span[1] > len(line.data)
    return Sight(
        text=text[first : first + width],
        from_column=first + 1,
        column=at + 1,
        match=match[:width],
        cut=not is_whole or match_cut,
        match_cut=match_cut,
    )
