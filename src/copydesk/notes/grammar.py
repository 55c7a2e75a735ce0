"""Parse a block diff into its hunks, or all its errors; and slices of a sequence of blocks.

A block diff is a sequence of hunks, maybe in one code fence; a hunk begins with its header:

    @@id@@ body                  replace the text of a block that has the text of SEARCH
    @@REPLACE:id@@ text          replace the whole text of a block
    @@BEFORE:id@@ text           put new blocks before it, AFTER it, or in it: PREPEND, APPEND
    @@DELETE:id@@                delete it
    @@MOVE:id@@ @@AFTER:id@@     move it, to where the second header says

    body = <<<<<<< SEARCH, text, =======, text, >>>>>>> REPLACE

Each header and marker is a line of its own. A marker has seven signs or more; those of one body
have as many, and others in it are text. A text ends before the next header, or is a body with an
empty SEARCH.

An invalid slice is refused; a valid one selects no blocks only if its indices are past the ends.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal, cast

from copydesk.errors import Refusal
from copydesk.notes.markdown import Block, Profile, is_phantom
from copydesk.notes.markdown.block import LIST, cut, decode, encode
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
    quoted = text and shown(text)
    return Problem(
        code, reason or None, line, block_id, quoted, other_line, expected, similarity, difference
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
        if not (
            all(is_block_id(name) or is_address(name) for name in self.named)
            # an EDIT alone has a SEARCH, which is never empty
            and bool(self.search) == (self.search is not None) == edits
            # DELETE and MOVE have no text, all others have one, but that of an EDIT may be empty
            and (bool(self.text) != (moves or self.action == "DELETE") or edits)
            and (self.place is not None) == moves
            and all(part == content_of_hunk(part) for part in (self.text, self.search or ""))
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


def content_of_hunk(text: str) -> str:
    """The text with LF, without blank lines at the ends."""
    if "\r" not in text and text == text.strip(" \t\n"):
        return text
    lines = lines_of_hunk(text)
    start, stop = _trimmed(lines)
    return "\n".join(lines[start:stop])


def _trimmed(lines: Sequence[str]) -> tuple[int, int]:
    """The lines [start, stop), 0-based, without blank ones at the ends."""
    inked = [at for at, line in enumerate(lines) if not is_blank(line)]
    return (inked[0], inked[-1] + 1) if inked else (0, 0)


_PLACES = ("BEFORE", "AFTER", "PREPEND", "APPEND")
_COMMANDS = ("DELETE", "REPLACE", "MOVE", *_PLACES)
# Seven signs are the shortest marker; longer ones let a body hold shorter ones as content.
_MARKER = re.compile(r"<{7,} SEARCH|={7,}|>{7,} REPLACE")
_MARKER_WORDS = {"<": " SEARCH", "=": "", ">": " REPLACE"}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*")
_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")
_SIYUAN_SIZE = 22
# what names the type of a block in any language, and is no sentence
_LABEL_CHARACTERS = 32
_LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Header:
    """A header line; `wrong` is its error, None if it is valid.

    `plain` headers count wherever one may be: those with a known command, a valid id (of SiYuan,
    whatever is behind it), or one word. Any other could also be a line of a text (`@@ -1,2 +1,2
    @@`), and counts only where no text may be.
    """

    action: Action
    block_id: str
    wrong: Kind | None
    plain: bool


def marker_of(line: str) -> tuple[str, int] | None:
    """The sign of a marker line, `<`, `=` or `>`, and how many it has; None if it is not one."""
    return (line[0], line.count(line[0])) if _MARKER.fullmatch(line) else None


def marker_line(sign: str, size: int) -> str:
    """The line of a marker."""
    return sign * size + _MARKER_WORDS[sign]


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
    wrongs: tuple[tuple[bool, Kind], ...] = (
        (not closed, "INVALID_BLOCK_ID.unclosed"),
        (bool(colon) and not known, "INVALID_BLOCK_ID.command"),
        (not valid(block_id), "INVALID_BLOCK_ID.id"),
        (not _is_label(label), "UNEXPECTED_TEXT.label"),
    )
    wrong: Kind | None = next((kind for is_wrong, kind in wrongs if is_wrong), None)
    plain = (
        known
        or wrong in (None, "UNEXPECTED_TEXT.label")
        or is_id(block_id[:_SIYUAN_SIZE])
        or (closed != "" and len(inner.split()) == 1)
    )
    return Header(cast(Action, command) if known else "EDIT", block_id, wrong, plain)


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
        raise BlockDiffRefused(tuple(sorted(reader.problems, key=lambda error: error.line)))
    return tuple(reader.hunks)


_Misplaced = tuple[Kind, Kind]
"""What is wrong with a text, and with a body, that stands where none may be."""

_AT_START: _Misplaced = "UNEXPECTED_TEXT.before", "INVALID_SEQUENCE.no_header"
_AFTER_BODY: _Misplaced = "UNEXPECTED_TEXT.after_body", "INVALID_SEQUENCE.second_body"
_AFTER_HEADER: Mapping[Action, _Misplaced] = {
    "EDIT": ("UNEXPECTED_TEXT.no_markers", "INVALID_SEQUENCE.no_header"),
    "DELETE": ("UNEXPECTED_TEXT.after_delete", "INVALID_SEQUENCE.after_delete"),
    "MOVE": ("UNEXPECTED_TEXT.after_move", "INVALID_SEQUENCE.second_body"),
}


class _Reader:
    """A parser: its position, and the hunks and problems found."""

    def __init__(self, lines: list[str], valid: Callable[[str], bool]) -> None:
        self.hunks: list[BlockHunk] = []
        self.problems: list[Problem] = []
        self._lines, self._valid = lines, valid
        self._at, self._stop = _unfenced(lines)
        self._signs: dict[int, str] = {}  # the signs of marker lines
        self._sized: dict[int, list[int]] = {}  # the marker lines of each size
        self._never_even: set[int] = set()  # marker sizes with more openings than closings
        for at in range(self._at, self._stop):
            if marker := marker_of(lines[at]):
                self._signs[at], size = marker
                self._sized.setdefault(size, []).append(at)
        self._misplaced: _Misplaced = _AT_START

    def read(self) -> None:
        while self._skip_blank():
            at, header = self._at, self._header(self._at)
            if header is not None:
                self._hunk(header, at)
            elif at not in self._signs:
                self._skip_text()
            elif self._signs[at] == "<":
                self._wrong(self._misplaced[1], at)
                self._body(at)
            else:
                is_middle = self._signs[at] == "="
                self._wrong("DELIMITER_ERROR.stray" if is_middle else "UNMATCHED_MARKERS.close", at)
                self._at += 1
        if not self.hunks and not self.problems:
            self._wrong("EMPTY_CONTENT.diff", 0)

    def _hunk(self, header: Header, at: int) -> None:
        if header.wrong is not None:
            self._wrong(header.wrong, at, text=self._lines[at])
        self._at += 1
        self._misplaced = _AFTER_HEADER.get(header.action, _AFTER_BODY)
        if header.action == "DELETE":
            self._add(header, at)
        elif header.action == "MOVE":
            self._move(header, at)
        else:
            self._texts(header, at)

    def _texts(self, header: Header, at: int) -> None:
        """Parse what a header other than those of DELETE and MOVE is followed by."""
        edits, is_reported = header.action == "EDIT", header.wrong is not None
        self._skip_blank()
        if edits:
            self._skip_text(reported=is_reported)  # suppress follow-on errors
        opened = self._at
        if self._signs.get(opened) == "<":
            body = self._body(opened)
            if body is not None and bool(body[0]) == edits:
                self._add(header, at, body[1], body[0] or None)
            elif body is not None:
                self._wrong(
                    "EMPTY_CONTENT.search" if edits else "INVALID_SEQUENCE.search_in_command",
                    opened,
                )
        elif not edits:
            self._plain_text(header, at)
        elif not is_reported:
            self._wrong("INVALID_SEQUENCE.no_body", at, text=self._lines[at])

    def _plain_text(self, header: Header, at: int) -> None:
        start = self._at
        self._skip_to_header(start)
        wrong = next((k for k in range(start, self._at) if self._signs.get(k, "=") != "="), None)
        if wrong is None:
            self._add(header, at, self._content(start, self._at))
        else:
            opens = self._signs[wrong] == "<"
            kind: Kind = "INVALID_SEQUENCE.markers_in_text" if opens else "UNMATCHED_MARKERS.close"
            self._wrong(kind, wrong, text=self._lines[wrong])

    def _move(self, header: Header, at: int) -> None:
        """The line after `@@MOVE:id@@` says where to, as the header `@@AFTER:id@@` would."""
        target = self._header(self._at) if self._skip_blank() else None
        if target is None or target.action not in _PLACES:
            self._wrong("INVALID_SEQUENCE.no_target", at, text=self._lines[at])
            self._skip_text(reported=True)
            return
        if target.wrong is not None:
            self._wrong(target.wrong, self._at, text=self._lines[self._at])
        else:
            self._add(header, at, place=(target.action, target.block_id))
        self._at += 1

    def _body(self, at: int) -> tuple[str, str] | None:
        """Parse the SEARCH/REPLACE texts that the marker `at` opens; None if malformed."""
        self._misplaced = _AFTER_BODY
        size = self._lines[at].count("<")
        markers = self._sized[size]
        first = bisect_right(markers, at)
        ends = (k for k in range(first, len(markers)) if self._signs[markers[k]] != "=")
        end = next(ends, len(markers))
        middles = markers[first:end]
        if len(middles) > 1:
            self._wrong("DELIMITER_ERROR.twice", middles[1], other_line=middles[0] + 1)
        stop = markers[end] if end < len(markers) else None
        if stop is None or (self._signs[stop] == "<" and self._follows_header(stop, at)):
            self._wrong("UNMATCHED_MARKERS.open", at, expected=marker_line(">", size))
            self._skip_to_header(at + 1)
        elif self._signs[stop] == "<":
            self._wrong("NESTED_SEARCH_REPLACE", stop, other_line=at + 1)
            self._skip_nested(size, end)
        else:
            self._at = stop + 1
            if len(middles) == 1:
                return self._content(at + 1, middles[0]), self._content(middles[0] + 1, stop)
            if not middles:
                expected = marker_line("=", size)
                self._wrong("DELIMITER_ERROR.missing", stop, other_line=at + 1, expected=expected)
        return None

    def _follows_header(self, at: int, start: int) -> bool:
        """Whether the last line with text before `at`, and after `start`, is a header."""
        above = next((k for k in range(at - 1, start, -1) if not is_blank(self._lines[k])), start)
        return self._header(above) is not None

    def _skip_nested(self, size: int, inner: int) -> None:
        """Move behind the end of the outer of two bodies, or to the next header."""
        markers, depth = self._sized[size], 2
        for k in () if size in self._never_even else range(inner + 1, len(markers)):
            depth += (self._signs[markers[k]] == "<") - (self._signs[markers[k]] == ">")
            if not depth:
                self._at = markers[k] + 1
                return
        self._never_even.add(size)
        self._skip_to_header(markers[inner] + 1)

    def _skip_text(self, *, reported: bool = False) -> None:
        """Skip the lines of text here, which are one problem unless it is `reported` already."""
        start = self._at
        self._skip_to(lambda at: at in self._signs or self._header(at) is not None)
        if self._at > start and not reported:
            self._wrong(self._misplaced[0], start, text=self._lines[start])

    def _skip_to_header(self, start: int) -> None:
        """Move to the next header that counts anywhere, to find later problems too."""
        self._at = start
        self._skip_to(lambda at: (header := self._header(at)) is not None and header.plain)

    def _skip_blank(self) -> bool:
        """Move to the next non-blank line; return whether there is one."""
        self._skip_to(lambda at: not is_blank(self._lines[at]))
        return self._at < self._stop

    def _skip_to(self, is_wanted: Callable[[int], bool]) -> None:
        """Move to the next line that is wanted, or to the end."""
        self._at = next(filter(is_wanted, range(self._at, self._stop)), self._stop)

    def _content(self, start: int, stop: int) -> str:
        return content_of_hunk("\n".join(self._lines[start:stop]))

    def _header(self, at: int) -> Header | None:
        return header_of(self._lines[at], self._valid)

    def _add(
        self,
        header: Header,
        at: int,
        text: str = "",
        search: str | None = None,
        place: tuple[Action, str] | None = None,
    ) -> None:
        if not text and header.action not in ("EDIT", "DELETE", "MOVE"):
            self._wrong("EMPTY_CONTENT.text", at, text=self._lines[at])
        elif header.wrong is None:
            self.hunks.append(
                BlockHunk(header.action, header.block_id, text, search, at + 1, place)
            )

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
        opening, closing = _FENCE.fullmatch(lines[start]), _CLOSING.fullmatch(lines[stop - 1])
        if opening and closing and closing[1].startswith(opening[1]):
            return start + 1, stop - 1
    return 0, len(lines)


_INDEX = re.compile(r"-?[0-9]{1,18}")  # longer ones are ids: no document has so many blocks
_COUNT = re.compile(r"[+-][0-9]{1,18}")
_HEADED = re.compile(r"@@(.*?)@@.*", re.DOTALL)


def select(text: str, ids: Sequence[str]) -> range:
    """The 0-based indices of the blocks `ids` (all, in order) in a slice; raises InvalidSlice.

    Refused first is what makes no slice of any blocks, then what makes none of these.
    """
    total = len(ids)

    def refused(reason: SliceReason, part: str | None = None) -> InvalidSlice:
        return InvalidSlice(shown(text), reason, total, part and shown(part))

    left, colon, right = map(_bare, text.partition(":"))
    if not left and not colon:
        raise refused("empty")
    start, stop = _end(left, "BEGIN" if colon else ""), _end(right, "END")
    if left == "END" and isinstance(stop, int) and right[0] != "-":
        if not stop:
            raise refused("count", right)
        return range(max(total - stop, 0), total)
    count = 0
    # a minus after an id counts back from it, any other is an index from the end
    if _COUNT.fullmatch(right) and (isinstance(start, str) or right[0] == "+"):
        stop, count = None, int(right)
        if isinstance(start, int):
            raise refused("anchor", right)
        if not count:
            raise refused("count", right)
    named = [part for part in (start, stop) if isinstance(part, str)]
    for block_id in named:
        if block_id in ("BEGIN", "END") or not is_block_id(block_id):
            raise refused("keyword" if is_block_id(block_id) else "form", block_id)
    for block_id in named:
        if block_id not in ids:
            is_keyword = block_id.upper() in ("BEGIN", "END")
            raise refused("keyword" if is_keyword else "unknown", block_id)
    low = ids.index(start) if isinstance(start, str) else start or 0
    high = ids.index(stop) + 1 if isinstance(stop, str) else stop
    if count > 0 or (named and not colon):
        high = low + max(count, 1)
    elif count < 0:
        low, high = max(low + 1 + count, 0), low + 1
    first, last, _ = slice(low, high).indices(total)
    # an index from the end is what it is from the start, of these blocks
    at, end = (index + total * (index < 0) for index in (low, high or 0))
    is_reversed = total > 0 and high is not None and at >= end
    if is_reversed or (named and first >= last):
        raise refused("reversed")
    return range(first, max(first, last))


def _end(part: str, keyword: str) -> int | str | None:
    """One end of a slice: an index, an id, or None for all blocks to that end."""
    if part in ("", keyword):
        return None
    return int(part) if _INDEX.fullmatch(part) else part


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
        blocks = [each for each in parse_new(data, profile).root.children if not is_phantom(each)]
        return tuple(_pieces(data, lines, blocks)) if blocks else ()

    return split


def _pieces(data: bytes, lines: Sequence[bytes], blocks: Sequence[Block]) -> Iterator[BlockText]:
    starts = _first_lines(data, blocks)
    starts[0] = 0  # leading text that belongs to no block goes to the first
    for block, start, stop in zip(blocks, starts, [*starts[1:], len(lines)], strict=True):
        items = block.children if block.kind == LIST else ()
        within = [start, *_first_lines(data, items)[1:], stop]
        below = tuple(
            BlockText(item.kind, item.subtype, _text_of(lines[low:high]))
            for item, (low, high) in zip(items, pairwise(within), strict=False)
        )
        yield BlockText(block.kind, block.subtype, _text_of(lines[start:stop]), below)


def _first_lines(data: bytes, blocks: Sequence[Block]) -> list[int]:
    """The 0-based lines on which consecutive blocks start."""
    starts = [0, *(block.start for block in blocks)]
    return [*accumulate(data.count(b"\n", *ends) for ends in pairwise(starts))]


def _text_of(lines: Sequence[bytes]) -> str:
    return content_of_hunk(decode(b"\n".join(lines)))
