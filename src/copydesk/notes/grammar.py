"""Parse a block diff into its hunks, or all its errors; and slices of a sequence of blocks.

Invariant: an invalid slice is refused; a valid one that is empty lies outside the blocks.

    id2:id5   from one block to another, inclusive
    id2:+3    three blocks, starting at this one     id5:-3     three, ending at this one
    0:5       by 0-based index, the end exclusive    -2:        the last two
    id8:END   to the end                             BEGIN:id2  from the start
    id2       this block alone      5  from the sixth on      -3  the last three
    :+2, BEGIN:+2  the first two    END:3  the last three

Ends that are left out are BEGIN and END; ids and indices may be mixed. Indices beyond the blocks
count as their ends. Digits are an index, BEGIN and END are keywords, everything else is an id: use
an index for an anchor of such a name. Capitals as shown; blanks around a part do not count, and an
id may stand in its header, `@@id2@@Label`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from operator import itemgetter
from typing import Literal, cast

from copydesk.errors import Refusal
from copydesk.notes.markdown import Block, Profile, is_phantom
from copydesk.notes.markdown.block import BLANK, LIST, cut, decode, encode
from copydesk.notes.markdown.tree import parse_new
from copydesk.notes.protocol import BlockText, SplitBlocks, is_id

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
    "INVALID_SEQUENCE.no_target",
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
    "UNEXPECTED_TEXT.after_move",
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
    "INVALID_TARGET.itself",
    "INVALID_TARGET.item",
    "LIST_ITEM_REQUIRED",
]
"""The errors of a block diff: a code, a dot, and the case.

The first seven codes are about the grammar, the others about the blocks; a text that makes no block
is `EMPTY_CONTENT` too.
"""

SliceReason = Literal["empty", "form", "keyword", "unknown", "count", "anchor", "reversed"]
"""The errors of a slice."""

_SHOWN = 80
"""The most characters of a diff's line, or of a slice, that a refusal quotes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a block diff; `line` is that of the diff, 1-based.

    `text` is the line itself, cut; `other_line` the line of the other marker or hunk; `expected`
    the marker line that is missing. `similarity` (percent) and `difference` (`-` SEARCH, `+` the
    block) describe a content mismatch; after the first mismatches of a diff they are None.
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
    """Make a problem of this kind; its text is cut."""
    code, _, reason = kind.partition(".")
    told = None if text is None else shown(text)
    return Problem(
        code, reason or None, line, block_id, told, other_line, expected, similarity, difference
    )


def shown(text: str) -> str:
    """The caller's text as quoted in a refusal, shortened if it is long."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class BlockDiffRefused(Refusal, code="BLOCK_DIFF_REFUSED"):
    """A block diff is invalid, or does not fit the blocks; lists all errors, by line."""

    problems: tuple[Problem, ...]


class InvalidSlice(Refusal, code="INVALID_SLICE"):
    """A slice is invalid for these `total` blocks; `part` is the piece of it at fault."""

    slice: str
    reason: SliceReason
    total: int
    part: str | None = None


Action = Literal["EDIT", "DELETE", "REPLACE", "MOVE", "BEFORE", "AFTER", "PREPEND", "APPEND"]
"""`EDIT` is SEARCH/REPLACE under a header without command; the others are the commands."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADDRESS = re.compile(r"(?:[^\[\]|#^@\n]+#)?\^[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class BlockHunk:
    """One edit of one block, or new blocks next to or in it.

    `search` is the text that the block must have (EDIT only); `text` is the new text, empty for
    DELETE and MOVE, and for an EDIT that deletes. `place` says where a MOVE puts the block: a
    command such as AFTER, and the block that it names. `line` is that of the header in the diff,
    1-based; it is ignored when hunks are compared.
    """

    action: Action
    block_id: str
    text: str = ""
    search: str | None = None
    line: int = field(default=1, compare=False)
    place: tuple[Action, str] | None = None

    def __post_init__(self) -> None:
        edits, moves = self.action == "EDIT", self.action == "MOVE"
        texts = self.text, self.search or ""
        if not (
            all(is_block_id(one) or is_address(one) for one in self.named)
            and bool(self.search) == (self.search is not None) == edits
            and (bool(self.text) != (moves or self.action == "DELETE") or edits)
            and (self.place is not None) == moves
            and all(part == content_of_hunk(lines_of_hunk(part)) for part in texts)
        ):
            raise ValueError(f"no hunk: {self.action} of {self.block_id!r}")

    @property
    def named(self) -> tuple[str, ...]:
        """The blocks that it names: its own, and the one that a MOVE goes to."""
        return (self.block_id, self.place[1]) if self.place else (self.block_id,)

    @property
    def deletes(self) -> bool:
        return self.action == "DELETE" or (self.action == "EDIT" and not self.text)

    @property
    def rewrites(self) -> bool:
        """Whether the text of the block is replaced."""
        return self.action in ("EDIT", "REPLACE") and not self.deletes


def is_block_id(text: str) -> bool:
    """Whether it can be an id, of SiYuan or an anchor: 1 to 64 ASCII letters, digits, `_`, `-`."""
    return _ID.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """Whether this names a block of a file by its anchor: `^name`, or `note#^name`."""
    return _ADDRESS.fullmatch(text) is not None


def lines_of_hunk(text: str) -> list[str]:
    """The lines of a text without their ends, which are LF or CRLF."""
    return [line.rstrip("\r") for line in text.split("\n")]


def is_blank(line: str) -> bool:
    """Whether a line has only spaces and tabs, as in Markdown."""
    return not line.strip(" \t")


def content_of_hunk(lines: list[str]) -> str:
    """Join the lines, without blank ones at the ends."""
    start, stop = _trimmed(lines)
    return "\n".join(lines[start:stop])


def _trimmed(lines: list[str]) -> tuple[int, int]:
    """The lines [start, stop), 0-based, without blank ones at the ends."""
    start, stop = 0, len(lines)
    while start < stop and is_blank(lines[start]):
        start += 1
    while start < stop and is_blank(lines[stop - 1]):
        stop -= 1
    return start, stop


_PLACES = ("BEFORE", "AFTER", "PREPEND", "APPEND")
_COMMANDS = ("DELETE", "REPLACE", "MOVE", *_PLACES)
# Seven signs are the shortest marker; longer ones let a body hold shorter ones as content.
_MARKER = re.compile(r"(?P<open><{7,}) SEARCH|(?P<middle>={7,})|(?P<close>>{7,}) REPLACE")
_FENCE = re.compile(r" {0,3}(?P<signs>`{3,}|~{3,})(?P<info>[^`]*)")
_SIYUAN_SIZE = 22
_LABEL_CHARACTERS = 32
_LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class DiffMarker:
    """A marker line: which of the three, and how many signs it has."""

    part: Literal["open", "middle", "close"]
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header line; `wrong` is its error, None if it is valid.

    `plain` headers count wherever one may be. Any other could also be a line of a text (`@@ -1,2
    +1,2 @@`), and counts only where no text may be.
    """

    action: Action
    block_id: str
    wrong: Kind | None = None
    plain: bool = True


def marker_of(line: str) -> DiffMarker | None:
    """Parse a marker line; None if it is not one."""
    found = _MARKER.fullmatch(line)
    if found is None:
        return None
    part = cast(Literal["open", "middle", "close"], found.lastgroup)
    return DiffMarker(part, len(found[part]))


def marker_line(part: Literal["open", "middle", "close"], size: int) -> str:
    """The line of a marker."""
    if part == "middle":
        return "=" * size
    return f"{'<' * size} SEARCH" if part == "open" else f"{'>' * size} REPLACE"


def header_of(line: str, valid: Callable[[str], bool]) -> Header | None:
    """Parse a header line; None if it is not one. `valid` says which ids are allowed.

    Blanks inside the signs are allowed (`@@ DELETE : id @@`), and a label after them: a few words,
    such as the name of a block type. More words would be text that is silently ignored.
    """
    if not line.startswith("@@"):
        return None
    inner, closed, label = line[2:].partition("@@")
    name, colon, rest = inner.partition(":")
    command = name.strip(" \t").upper() if colon else ""
    block_id = (rest if colon else inner).strip(" \t")
    known = command in _COMMANDS
    action = cast(Action, command) if known else "EDIT"
    plain = known or (bool(closed) and len(inner.split()) == 1)
    plain = plain or is_id(block_id[:_SIYUAN_SIZE])
    wrongs: tuple[tuple[bool, Kind], ...] = (
        (not closed, "INVALID_BLOCK_ID.unclosed"),
        (bool(colon) and not known, "INVALID_BLOCK_ID.command"),
        (not valid(block_id), "INVALID_BLOCK_ID.id"),
    )
    for is_wrong, kind in wrongs:
        if is_wrong:
            return Header(action, block_id, kind, plain)
    return Header(action, block_id, None if _is_label(label) else "UNEXPECTED_TEXT.label")


def fence_of(line: str) -> tuple[str, str] | None:
    """The signs of a code fence and its info string, if the line is one."""
    found = _FENCE.fullmatch(line)
    return (found["signs"], found["info"].strip(" \t")) if found else None


def _is_label(text: str) -> bool:
    words = text.split()
    short = len(words) <= _LABEL_WORDS and len(text.strip()) <= _LABEL_CHARACTERS
    return short and all(char.isalnum() or char in "-_/()[]（）" for word in words for char in word)


def parse_block_diff(
    diff: str, valid: Callable[[str], bool] = is_block_id
) -> tuple[BlockHunk, ...]:
    """Parse the hunks of a block diff, in order; at least one.

    `valid` says which ids are allowed. Raises BlockDiffRefused with every problem, by line. Time is
    linear in the length of the diff.
    """
    reader = _Reader(lines_of_hunk(diff), valid)
    reader.read()
    if reader.problems:
        raise BlockDiffRefused(tuple(sorted(reader.problems, key=lambda found: found.line)))
    return tuple(reader.hunks)


_Misplaced = tuple[Kind, Kind]
"""What is wrong with a text, and with a body, that stands where none may be."""

_AFTER_DELETE: _Misplaced = "UNEXPECTED_TEXT.after_delete", "INVALID_SEQUENCE.after_delete"
_AFTER_MOVE: _Misplaced = "UNEXPECTED_TEXT.after_move", "INVALID_SEQUENCE.second_body"
_AFTER_BODY: _Misplaced = "UNEXPECTED_TEXT.after_body", "INVALID_SEQUENCE.second_body"


class _Reader:
    """A parser: its position, and the hunks and problems found."""

    def __init__(self, lines: list[str], valid: Callable[[str], bool]) -> None:
        self.hunks: list[BlockHunk] = []
        self.problems: list[Problem] = []
        self._lines, self._valid = lines, valid
        self._at, self._stop = _unfenced(lines)
        self._markers: dict[int, list[tuple[int, str]]] = {}  # line and part, by size
        self._never_even: set[int] = set()  # marker sizes with more openings than closings
        for at in range(self._at, self._stop):
            if marker := marker_of(lines[at]):
                self._markers.setdefault(marker.size, []).append((at, marker.part))
        self._stray: Kind = "UNEXPECTED_TEXT.before"
        self._orphan: Kind = "INVALID_SEQUENCE.no_header"

    def read(self) -> None:
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
            self._stray, self._orphan = _AFTER_DELETE
        elif header.action == "EDIT":
            self._edit(header, at)
        elif header.action == "MOVE":
            self._move(header, at)
        else:
            self._command(header, at)

    def _edit(self, header: Header, at: int) -> None:
        told = header.wrong is not None  # suppress follow-on errors
        self._stray = "UNEXPECTED_TEXT.no_markers"
        if self._skip_blank() and self._is_text(self._at):
            self._text_run(told=told)
        size = self._signs("open")
        if not size:
            if not told:
                self._wrong("INVALID_SEQUENCE.no_body", at, text=self._lines[at])
            self._orphan = "INVALID_SEQUENCE.no_header"
            return
        opened = self._at
        search, text = self._body(size) or (None, "")
        if search == "":
            self._wrong("EMPTY_CONTENT.search", opened)
        elif search is not None:
            self._add(header, at, text, search)
        self._stray, self._orphan = _AFTER_BODY

    def _move(self, header: Header, at: int) -> None:
        """The line after `@@MOVE:id@@` says where to, as the header `@@AFTER:id@@` would."""
        self._stray, self._orphan = _AFTER_MOVE
        is_line = self._skip_blank()
        place = header_of(self._lines[self._at], self._valid) if is_line else None
        if place is None or place.action not in _PLACES:
            self._wrong("INVALID_SEQUENCE.no_target", at, text=self._lines[at])
            if is_line and self._is_text(self._at):
                self._text_run(told=True)
            return
        if place.wrong is not None:
            self._wrong(place.wrong, self._at, text=self._lines[self._at])
        elif header.wrong is None:
            where = place.action, place.block_id
            self.hunks.append(BlockHunk("MOVE", header.block_id, line=at + 1, place=where))
        self._at += 1

    def _command(self, header: Header, at: int) -> None:
        if self._skip_blank() and (size := self._signs("open")):
            opened = self._at
            search, text = self._body(size) or ("", None)
            if search:
                self._wrong("INVALID_SEQUENCE.search_in_command", opened)
            elif text is not None:
                self._add_text(header, at, text)
            self._stray, self._orphan = _AFTER_BODY
            return
        start = self._at
        self._skip_to(self._counts)
        for number in range(start, self._at):
            marker = marker_of(self._lines[number])
            if marker is not None and marker.part != "middle":
                opens = marker.part == "open"
                kind: Kind = (
                    "INVALID_SEQUENCE.markers_in_text" if opens else "UNMATCHED_MARKERS.close"
                )
                self._wrong(kind, number, text=self._lines[number])
                return  # suppress follow-on errors
        self._add_text(header, at, content_of_hunk(self._lines[start : self._at]))

    def _body(self, size: int) -> tuple[str, str] | None:
        """Parse the SEARCH/REPLACE texts that markers of this size open here; None if malformed."""
        at = self._at
        middles: list[int] = []
        for i, part in self._markers_after(at, size):
            if part == "open":
                self._nested(at, i, size)
                return None
            if part == "middle":
                middles.append(i)
                if len(middles) == 2:
                    self._wrong("DELIMITER_ERROR.twice", i, other_line=middles[0] + 1)
                continue
            self._at = i + 1
            if not middles:
                expected = marker_line("middle", size)
                self._wrong("DELIMITER_ERROR.missing", i, other_line=at + 1, expected=expected)
            if len(middles) != 1:
                return None
            search, text = self._lines[at + 1 : middles[0]], self._lines[middles[0] + 1 : i]
            return content_of_hunk(search), content_of_hunk(text)
        self._unclosed(at, size)
        return None

    def _nested(self, at: int, inner: int, size: int) -> None:
        """A second opening marker is nested, or the next hunk's if a header is right before it."""
        above = inner - 1
        while above > at and is_blank(self._lines[above]):
            above -= 1
        if above > at and header_of(self._lines[above], self._valid) is not None:
            self._unclosed(at, size)
            return
        self._wrong("NESTED_SEARCH_REPLACE", inner, other_line=at + 1)
        depth = 2 if size not in self._never_even else 0
        for i, part in self._markers_after(inner, size) if depth else ():
            depth += (part == "open") - (part == "close")
            if not depth:
                self._at = i + 1
                return
        self._never_even.add(size)
        self._resume(inner)

    def _unclosed(self, at: int, size: int) -> None:
        self._wrong("UNMATCHED_MARKERS.open", at, expected=marker_line("close", size))
        self._resume(at)

    def _resume(self, after: int) -> None:
        """Continue at the next header, to find later problems too."""
        self._at = after + 1
        self._skip_to(self._counts)

    def _misplaced(self) -> None:
        """Handle a line that is not valid here."""
        at = self._at
        marker = marker_of(self._lines[at])
        if marker is None:
            self._text_run()
        elif marker.part == "open":
            self._wrong(self._orphan, at)
            self._body(marker.size)
            self._stray, self._orphan = _AFTER_BODY
        else:
            stray = marker.part == "middle"
            self._wrong("DELIMITER_ERROR.stray" if stray else "UNMATCHED_MARKERS.close", at)
            self._at += 1

    def _text_run(self, *, told: bool = False) -> None:
        """Skip consecutive lines of text, reported as one problem unless `told` already."""
        if not told:
            self._wrong(self._stray, self._at, text=self._lines[self._at])
        self._skip_to(lambda at: not self._is_text(at))

    def _is_text(self, at: int) -> bool:
        line = self._lines[at]
        return header_of(line, self._valid) is None and marker_of(line) is None

    def _counts(self, at: int) -> bool:
        header = header_of(self._lines[at], self._valid)
        return header is not None and header.plain

    def _markers_after(self, at: int, size: int) -> Iterator[tuple[int, str]]:
        """Yield the markers of this size after a line: their lines and parts."""
        markers = self._markers.get(size, [])
        return islice(markers, bisect_right(markers, at, key=itemgetter(0)), None)

    def _signs(self, part: str) -> int:
        """The size of the marker here; 0 if it is not of this part."""
        marker = marker_of(self._lines[self._at]) if self._at < self._stop else None
        return marker.size if marker is not None and marker.part == part else 0

    def _skip_blank(self) -> bool:
        """Move to the next non-blank line; return whether there is one."""
        self._skip_to(lambda at: not is_blank(self._lines[at]))
        return self._at < self._stop

    def _skip_to(self, is_wanted: Callable[[int], bool]) -> None:
        """Move to the next line that is wanted, or to the end."""
        lines = range(self._at, self._stop)
        self._at = next(filter(is_wanted, lines), self._stop)

    def _add_text(self, header: Header, at: int, text: str) -> None:
        if text:
            self._add(header, at, text)
        else:
            self._wrong("EMPTY_CONTENT.text", at, text=self._lines[at])

    def _add(self, header: Header, at: int, text: str = "", search: str | None = None) -> None:
        if header.wrong is None:
            self.hunks.append(BlockHunk(header.action, header.block_id, text, search, at + 1))

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
    """The lines [start, stop), 0-based, without a code fence around all of them."""
    start, stop = _trimmed(lines)
    if stop - start > 1:
        opening, closing = fence_of(lines[start]), fence_of(lines[stop - 1])
        if opening and closing and not closing[1] and closing[0].startswith(opening[0]):
            return start + 1, stop - 1
    return 0, len(lines)


_INDEX = re.compile(r"-?[0-9]{1,18}")
_COUNT = re.compile(r"[+-][0-9]{1,18}")
_HEADED = re.compile(r"@@(.*?)@@.*", re.DOTALL)


def select(text: str, ids: Sequence[str]) -> range:
    """The 0-based indices of the blocks `ids` (all, in order) in a slice; raises InvalidSlice."""
    total = len(ids)

    def refused(reason: SliceReason, part: str | None = None) -> InvalidSlice:
        told = None if part is None else shown(part)
        return InvalidSlice(shown(text), reason, total, told)

    def check(block_id: str) -> None:
        if block_id in ("BEGIN", "END"):
            raise refused("keyword", block_id)
        if not is_block_id(block_id):
            raise refused("form", block_id)

    def place_of(block_id: str) -> int:
        check(block_id)
        if block_id not in ids:
            lower = block_id.upper() in ("BEGIN", "END")
            raise refused("keyword" if lower else "unknown", block_id)
        return ids.index(block_id)

    left, colon, right = map(_bare, text.partition(":"))
    if not left and not colon:
        raise refused("empty")
    start, stop = (int(part) if _INDEX.fullmatch(part) else None for part in (left, right))
    starts_at_id = start is None and left not in ("", "BEGIN" if colon else "")
    first, last, _ = slice(start, stop).indices(total)
    if not colon:
        first = place_of(left) if starts_at_id else first
        return range(first, first + 1 if starts_at_id else total)
    if (left == "END" and right.isdecimal()) or _COUNT.fullmatch(right):
        count = int(right)
        if right[0] == "+" and start is not None:
            raise refused("anchor", right)
        if not count and (starts_at_id or right[0] == "+"):
            raise refused("count", f"{right[0]}0")
        if left == "END" and right[0] not in "+-":
            return range(max(total - count, 0), total)
        if starts_at_id or right[0] == "+":
            first = place_of(left) if starts_at_id else 0
            if count > 0:
                return range(first, min(first + count, total))
            return range(max(first + 1 + count, 0), first + 1)
    stops_at_id = stop is None and right not in ("", "END")
    for block_id in (left,) * starts_at_id + (right,) * stops_at_id:
        check(block_id)
    first = place_of(left) if starts_at_id else first
    last = place_of(right) + 1 if stops_at_id else last
    is_reversed = first >= last
    if not starts_at_id and not stops_at_id:  # what indices mean depends on the number of blocks
        start = start or 0
        is_reversed = stop is not None and (start < 0) == (stop < 0) and start >= stop
    if is_reversed:
        raise refused("reversed")
    return range(first, max(first, last))


def _bare(part: str) -> str:
    """One part of a slice without blanks around it, an id without its header."""
    bare = part.strip(" \t")
    headed = _HEADED.fullmatch(bare)
    return headed[1].strip(" \t") if headed else bare


def split_as(profile: Profile) -> SplitBlocks:
    """How a profile splits texts, with LF: `siyuan` as a kernel does, `gfm` for a folder.

    Law: every line that is not blank is in exactly one piece, as it is written.
    """

    def split(text: str) -> tuple[BlockText, ...]:
        lines, _ = cut(encode(text))
        data = b"\n".join(lines)
        tops = parse_new(data, profile).root.children
        blocks = [block for block in tops if not is_phantom(block)]
        return tuple(_pieces(data, lines, blocks)) if blocks else ()

    return split


def _pieces(data: bytes, lines: Sequence[bytes], blocks: Sequence[Block]) -> Iterator[BlockText]:
    starts = _first_lines(data, blocks)
    starts[0] = 0  # leading text that belongs to no block goes to the first
    for block, start, stop in zip(blocks, starts, [*starts[1:], len(lines)], strict=True):
        items = block.children if block.kind == LIST else ()
        within = [start, *_first_lines(data, items)[1:], stop]
        below = tuple(
            BlockText(item.kind, item.subtype, _joined(lines[one:other]))
            for item, (one, other) in zip(items, pairwise(within), strict=False)
        )
        yield BlockText(block.kind, block.subtype, _joined(lines[start:stop]), below)


def _first_lines(data: bytes, blocks: Sequence[Block]) -> list[int]:
    """The 0-based lines on which consecutive blocks start."""
    starts = [0, *(block.start for block in blocks)]
    return [*accumulate(data.count(b"\n", *ends) for ends in pairwise(starts))]


def _joined(lines: Sequence[bytes]) -> str:
    """Join the lines, without the blank ones around them."""
    kept = [number for number, line in enumerate(lines) if line.strip(BLANK)]
    return decode(b"\n".join(lines[kept[0] : kept[-1] + 1])) if kept else ""
