"""The text of a block diff made into hunks, or into everything that is wrong with it.

What lives here: the grammar, and how to read on after an error. What must not:
blocks (`working`). Invariant: every line that is not blank is a header, a
marker, the fence around the whole, or content of a hunk; anything else is a
problem, and then there are no hunks at all.

    diff    = hunk+                      perhaps in a code fence; LF or CRLF
    hunk    = "@@id@@" body              replace what SEARCH holds; delete, if nothing replaces it
            | "@@DELETE:id@@"
            | "@@COMMAND:id@@" text      REPLACE BEFORE AFTER PREPEND APPEND, in any case
            | "@@COMMAND:id@@" body      the same; SEARCH empty, the text stands after it
    body    = "<<<<<<< SEARCH" lines "=======" lines ">>>>>>> REPLACE"
    text    = lines, up to the next header

Headers and markers are whole lines. In a body everything but its own markers is
content, headers too; a body that holds marker lines has longer markers, eight
signs or more, the same number in all three. In a text a line of `=` is content
(it underlines headings); other markers are refused there, since they are a
hunk without its header more often than not: a text that is to hold them, or a
header, is written as a body.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from copydesk.edit.notes.errors import BlockDiffRefused, Kind, Problem, problem
from copydesk.edit.notes.hunk import Hunk, content, is_blank, is_block_id, lines_of
from copydesk.edit.notes.lines import Header, fence_of, header_of, marker_line, marker_of


def parse(diff: str, valid: Callable[[str], bool] = is_block_id) -> tuple[Hunk, ...]:
    """The hunks of a block diff, in its order; at least one.

    `valid` says which ids there may be. Raises BlockDiffRefused with every
    problem, by line. Time is linear in the length of the diff.
    """
    reader = _Reader(lines_of(diff), valid)
    reader.read()
    if reader.problems:
        raise BlockDiffRefused(tuple(sorted(reader.problems, key=lambda found: found.line)))
    return tuple(reader.hunks)


@dataclass(frozen=True, slots=True)
class _Body:
    """A SEARCH/REPLACE body: its line from 0 and its texts, None for those of a broken one."""

    at: int
    search: str | None = None
    text: str | None = None


class _Reader:
    """Lines, how far they are read, and what was found in them."""

    def __init__(self, lines: list[str], valid: Callable[[str], bool]) -> None:
        self.hunks: list[Hunk] = []
        self.problems: list[Problem] = []
        self._lines = lines
        self._valid = valid
        self._at, self._stop = _unfenced(lines)
        self._markers: dict[int, list[tuple[int, str]]] = {}  # line and part, by size
        self._never_even: set[int] = set()  # sizes of which more open than close
        for at in range(self._at, self._stop):
            marker = marker_of(lines[at])
            if marker is not None:
                self._markers.setdefault(marker.size, []).append((at, marker.part))
        self._stray: Kind = "UNEXPECTED_TEXT.before"
        self._orphan: Kind = "INVALID_SEQUENCE.no_header"

    def read(self) -> None:
        """Read all lines."""
        while self._skip_blank():
            header = header_of(self._lines[self._at], self._valid)
            if header is not None:
                self._hunk(header)
            else:
                self._misplaced()
        if not self.hunks and not self.problems:
            self._wrong("EMPTY_CONTENT.diff", 0)

    def _hunk(self, header: Header) -> None:
        at = self._at
        if header.wrong is not None:
            self._wrong(header.wrong, at, text=self._lines[at])
        self._at += 1
        if header.action == "DELETE":
            self._add(header, at)
            self._stray = "UNEXPECTED_TEXT.after_delete"
            self._orphan = "INVALID_SEQUENCE.after_delete"
        elif header.action == "EDIT":
            self._edit(header, at)
        else:
            self._command(header, at)

    def _edit(self, header: Header, at: int) -> None:
        told = header.wrong is not None  # then what is missing after it may be of the same mistake
        self._stray = "UNEXPECTED_TEXT.no_markers"
        if self._skip_blank() and self._is_text(self._at):
            self._text_run(told=told)
        size = self._signs("open")
        if not size:
            if not told:
                self._wrong("INVALID_SEQUENCE.no_body", at, text=self._lines[at])
            self._orphan = "INVALID_SEQUENCE.no_header"
            return
        body = self._body(size)
        if body.search == "":
            self._wrong("EMPTY_CONTENT.search", body.at)
        elif body.search is not None:
            self._add(header, at, body.text or "", body.search)
        self._after_body()

    def _command(self, header: Header, at: int) -> None:
        if self._skip_blank() and (size := self._signs("open")):
            body = self._body(size)
            if body.search:
                self._wrong("INVALID_SEQUENCE.search_in_command", body.at)
            elif body.text is not None:
                self._add_text(header, at, body.text)
            self._after_body()
            return
        start = self._at
        broken = False
        while self._at < self._stop and not self._counts(self._at):
            marker = marker_of(self._lines[self._at])
            if marker is not None and marker.part != "middle" and not broken:
                broken = True  # the lines after it are of the same mistake
                opens = marker.part == "open"
                kind: Kind = (
                    "INVALID_SEQUENCE.markers_in_text" if opens else "UNMATCHED_MARKERS.close"
                )
                self._wrong(kind, self._at, text=self._lines[self._at])
            self._at += 1
        if not broken:
            self._add_text(header, at, content(self._lines[start : self._at]))

    def _body(self, size: int) -> _Body:
        """Read the body whose first marker stands here, of so many signs; leave off behind it."""
        at = self._at
        middle: int | None = None
        doubled = False
        for i, part in self._markers_after(at, size):
            if part == "middle":
                if middle is not None and not doubled:
                    doubled = True
                    self._wrong("DELIMITER_ERROR.twice", i, other_line=middle + 1)
                middle = i if middle is None else middle
            elif part == "open":
                return self._nested(at, i, size)
            else:
                self._at = i + 1
                if middle is None:
                    expected = marker_line("middle", size)
                    self._wrong("DELIMITER_ERROR.missing", i, other_line=at + 1, expected=expected)
                if middle is None or doubled:
                    return _Body(at)
                search, text = self._lines[at + 1 : middle], self._lines[middle + 1 : i]
                return _Body(at, content(search), content(text))
        return self._unclosed(at, size)

    def _nested(self, at: int, inner: int, size: int) -> _Body:
        """A second opening: nested, or of the next hunk when a header stands right before it."""
        above = inner - 1
        while above > at and is_blank(self._lines[above]):
            above -= 1
        if above > at and header_of(self._lines[above], self._valid) is not None:
            return self._unclosed(at, size)
        self._wrong("NESTED_SEARCH_REPLACE", inner, other_line=at + 1)
        depth = 2 if size not in self._never_even else 0
        for i, part in self._markers_after(inner, size) if depth else ():
            depth += (part == "open") - (part == "close")
            if not depth:
                self._at = i + 1
                return _Body(at)
        self._never_even.add(size)
        return self._resume(at, inner)

    def _unclosed(self, at: int, size: int) -> _Body:
        self._wrong("UNMATCHED_MARKERS.open", at, expected=marker_line("close", size))
        return self._resume(at, at)

    def _resume(self, at: int, after: int) -> _Body:
        """Go on at the next header, for what may be wrong after it too."""
        self._at = after + 1
        while self._at < self._stop and not self._counts(self._at):
            self._at += 1
        return _Body(at)

    def _misplaced(self) -> None:
        """A line that can stand here under no reading."""
        at = self._at
        if size := self._signs("open"):
            self._wrong(self._orphan, at)
            self._body(size)
            self._after_body()
        elif self._signs("middle"):
            self._wrong("DELIMITER_ERROR.stray", at)
            self._at += 1
        elif self._signs("close"):
            self._wrong("UNMATCHED_MARKERS.close", at)
            self._at += 1
        else:
            self._text_run()

    def _text_run(self, *, told: bool = False) -> None:
        """Lines of text one after the other, as one problem, if it was not told already."""
        if not told:
            self._wrong(self._stray, self._at, text=self._lines[self._at])
        while self._at < self._stop and self._is_text(self._at):
            self._at += 1

    def _after_body(self) -> None:
        self._stray = "UNEXPECTED_TEXT.after_body"
        self._orphan = "INVALID_SEQUENCE.second_body"

    def _is_text(self, at: int) -> bool:
        line = self._lines[at]
        return header_of(line, self._valid) is None and marker_of(line) is None

    def _counts(self, at: int) -> bool:
        """Whether a header stands here that counts among lines of text too."""
        header = header_of(self._lines[at], self._valid)
        return header is not None and header.plain

    def _markers_after(self, at: int, size: int) -> Iterator[tuple[int, str]]:
        """The markers of so many signs below a line: their lines and parts."""
        found = self._markers.get(size, [])
        first = bisect_right(found, at, key=lambda one: one[0])
        return (found[index] for index in range(first, len(found)))

    def _signs(self, part: str) -> int:
        """How many signs the marker here has; 0 where there is none of this part."""
        marker = marker_of(self._lines[self._at]) if self._at < self._stop else None
        return marker.size if marker is not None and marker.part == part else 0

    def _skip_blank(self) -> bool:
        """Go to the next line that is not blank; whether there is one."""
        while self._at < self._stop and is_blank(self._lines[self._at]):
            self._at += 1
        return self._at < self._stop

    def _add_text(self, header: Header, at: int, text: str) -> None:
        if text:
            self._add(header, at, text)
        else:
            self._wrong("EMPTY_CONTENT.text", at, text=self._lines[at])

    def _add(self, header: Header, at: int, text: str = "", search: str | None = None) -> None:
        """A sound hunk; one whose header is wrong was told of already."""
        if header.wrong is None:
            self.hunks.append(Hunk(header.action, header.block_id, text, search, at + 1))

    def _wrong(
        self,
        kind: Kind,
        at: int,
        *,
        text: str | None = None,
        other_line: int | None = None,
        expected: str | None = None,
    ) -> None:
        self.problems.append(
            problem(kind, at + 1, text=text, other_line=other_line, expected=expected)
        )


def _unfenced(lines: list[str]) -> tuple[int, int]:
    """The lines [start, stop), from 0, without a code fence around all of them."""
    start, stop = 0, len(lines)
    while start < stop and is_blank(lines[start]):
        start += 1
    while start < stop and is_blank(lines[stop - 1]):
        stop -= 1
    if stop - start > 1:
        opening, closing = fence_of(lines[start]), fence_of(lines[stop - 1])
        if opening and closing and not closing[1] and closing[0].startswith(opening[0]):
            return start + 1, stop - 1
    return 0, len(lines)
