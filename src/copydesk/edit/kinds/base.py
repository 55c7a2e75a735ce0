"""The base class of all requests: where one goes, what it makes of a text, what it relies on.

A kind is a frozen type of requests: a subclass of `Request` in a module of this package, named in
the table of `copydesk.edit.request`. Nobody else asks which kind a request is.
Invariant: a request contains valid Unicode without NUL.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    dataclass_transform,
)

from copydesk.errors import (
    Conflict,
    ContentRequired,
    EncodingRefused,
    InvalidArgs,
    Refusal,
    SuspiciousDiff,
)
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import unified
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.relpath import RelPath, SupportsPath
from copydesk.text.snapshot import Excerpt, Snapshot, Sought, Source, Text

Action = Literal[
    "replace",
    "delete",
    "append",
    "insert",
    "block_replace",
    "block_diff",
    "file_delete",
    "file_move",
    "file_mode",
]
Span = tuple[int, int]
"""A run of lines [start, stop), 0-based."""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The file state that the caller expects: milliseconds since 1970, bytes, SHA-256 in hex."""

    mtime_ms: int | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether there are no expectations."""
        return self.mtime_ms is None and self.size_bytes is None and self.sha256 is None

    def check(self, base: Snapshot, mtime_ms: int) -> None:
        """Raise Conflict, listing everything that differs."""
        stated = (
            ("expected_size_bytes", self.size_bytes, base.size),
            ("expected_mtime_ms", self.mtime_ms, mtime_ms),
            ("expected_sha256", self.sha256, base.digest),
        )
        wrong: dict[str, dict[str, int | str]] = {
            name: {"expected": expected, "actual": actual}
            for name, expected, actual in stated
            if expected is not None and str(expected).lower() != str(actual)
        }
        if wrong:
            name, first = next(iter(wrong.items()))
            raise Conflict(name, first["expected"], first["actual"], wrong)


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions of an edit.

    `version`: the one that the caller read (12 hex characters). `expected_old`: the exact old text
    of the lines to be replaced. `existing_hunk_id`: the plan to prepare again. `auto`: write at
    once if the edit is certain. `expected`: the file's state when the edit is planned.
    `expected_olds`: the old text of each of several ranges. `corrects`: an old text that is not in
    the file as written may be corrected. `emptied`: as in `Plan`.
    """

    version: str | None = None
    expected_old: str | None = None
    existing_hunk_id: str | None = None
    auto: bool = False
    expected: Preconditions | None = None
    expected_olds: tuple[str | None, ...] = ()
    corrects: bool = True
    emptied: tuple[tuple[RelPath, int], ...] = ()


NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Place:
    """Lines [start, stop), 0-based, to be replaced (none if they are equal).

    `foot` is the run of lines that the edit relies on, as [start, stop); -1 and 1 stand for the two
    ends of an empty text. None: the edit relies on nothing and goes to the end of the text.
    `candidates` and `occurrence` (1-based) say how an anchor was chosen; `first_taken`: it is the
    first one only because the caller allowed that. `parts` are the lines of each edit of a batch,
    which relies on these alone; `foot` spans them. If a text is replaced everywhere, `candidates`
    is how often it is in the parts.
    """

    start: int
    stop: int
    foot: Span | None
    candidates: int = 1
    occurrence: int = 1
    first_taken: bool = False
    parts: tuple[Span, ...] = ()

    @property
    def runs(self) -> tuple[Span, ...]:
        """The lines of each part, or of the only one."""
        return self.parts or ((self.start, self.stop),)

    @property
    def named(self) -> str:
        """The lines as reported, 1-based; for an insertion, the two lines it is between."""
        if self.start == self.stop:
            return f"{max(self.start, 1)}~{self.start + 1}"
        return f"{self.start + 1}~{self.stop}"

    def moved(self, by: int) -> Place:
        """This place shifted down by `by` lines."""
        foot = self.foot and (self.foot[0] + by, self.foot[1] + by)
        return replace(self, start=self.start + by, stop=self.stop + by, foot=foot)


def of_parts(parts: tuple[Span, ...]) -> Place:
    """The place of several edits in these lines; a part without lines is the end of the text."""
    span = (min(start for start, _ in parts), max(stop for _, stop in parts))
    return Place(*span, span, parts=parts)


def end_of(base: Text | Source) -> Place:
    """The end of the text, resolved when it is written."""
    return Place(base.line_count, base.line_count, None)


def is_unclosed(text: Text) -> bool:
    """Whether the last line has no newline."""
    return text.line_count > 0 and not text.ends_with_newline


@dataclass(frozen=True, slots=True)
class Normalized:
    """How line endings were normalized.

    `newline_style`: `lf`, `crlf` or `mixed`, the terminators that the new lines took;
    `content_newlines_converted`: how many terminators of the content were converted to them.
    """

    file_eof_has_newline: bool = True
    content_eof_has_newline: bool = True
    file_eof_newline_added: bool = False
    content_eof_newline_added: bool = False
    newline_style: str = "lf"
    content_newlines_converted: int = 0


class Composed(NamedTuple):
    """What a request makes of a text: its change, its new lines if it has some, its remarks."""

    change: ChangeSet
    new_lines: tuple[str, ...]
    normalized: Normalized
    escapes: Escapes = NO_ESCAPES


class Fixed(NamedTuple):
    """A request corrected to what the file has; why, and whether it is certain."""

    request: Request
    causes: tuple[str, ...]
    is_certain: bool


_Kind = TypeVar("_Kind")
_Part = TypeVar("_Part")


# That it is frozen and compared by value is not told to type checkers: mypy would then drop the
# descriptors of fields in subclasses, and take these for types without a hash.
@dataclass_transform(eq_default=False)
def kind(of: type[_Kind]) -> type[_Kind]:
    """A kind of requests, as a dataclass; a `PathField` and the like take what they convert."""
    return dataclass(frozen=True, slots=True)(of)


if TYPE_CHECKING:

    class PathField:
        """A field that is given as a text or a path, and read as a RelPath."""

        def __get__(self, request: object, kind: type | None = None) -> RelPath: ...
        def __set__(self, request: object, path: str | SupportsPath) -> None: ...

    class Several(Generic[_Part]):
        """A field that is given as any iterable, and read as a tuple."""

        def __get__(self, request: object, kind: type | None = None) -> tuple[_Part, ...]: ...
        def __set__(self, request: object, parts: Iterable[_Part]) -> None: ...

else:
    PathField, Several = RelPath, tuple


def path_of(given: str | SupportsPath) -> RelPath:
    """The path that a text or another path names."""
    return given if isinstance(given, RelPath) else RelPath.parse(given)


def tuple_of(parts: object) -> object:
    """What is iterable as a tuple, since a list could not be stored; anything else as it is."""
    return tuple(cast("Iterable[object]", parts)) if isinstance(parts, Iterable) else parts


@kind
class Request:
    """One edit of the file at `path`.

    What it is about: `of_lines`, lines of a text file; `in_notes`, blocks of a note;
    `is_operation`, a whole file, text or not. An operation applies to the unchanged file alone, and
    moves the file to `target`, or `deletes` it, or gives it another mode (`mode_after`). `rank`
    orders what is done to one file: its text, its mode, its name.

    How it is given: `by_text`, its lines are found by their old text, not by numbers or an anchor;
    `quotes` says why it takes no `expected_old`; `voices` select wordings of its refusals, those of
    a toolset and of a tool; `_read_as` says how fields are read that may be given otherwise.

    What the desk asks: `reads` is what has to be read of the file, the lines of the place, all
    lines, its bytes, or nothing; `bad_character`, whether a new text contains U+FFFD and its old
    one does not (None: it does if the lines it replaces do not).
    """

    is_operation: ClassVar[bool] = False
    in_notes: ClassVar[bool] = False
    of_lines: ClassVar[bool] = True
    deletes: ClassVar[bool] = False
    by_text: ClassVar[bool] = False
    rank: ClassVar[int] = 0
    quotes: ClassVar[str] = ""
    voices: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Literal["lines", "whole", "bytes", "nothing"]] = "lines"
    _tool: ClassVar[str] = ""
    _action: ClassVar[Action] = "replace"
    _read_as: ClassVar[Mapping[str, Callable[[Any], object]]] = {"path": path_of}

    path: PathField

    def __post_init__(self) -> None:
        for name, read in self._read_as.items():
            object.__setattr__(self, name, read(getattr(self, name)))

    @property
    def tool(self) -> str:
        """The tool that makes such a request."""
        return self._tool

    @property
    def target(self) -> RelPath | None:
        """Where the file is moved."""
        return None

    @property
    def paths(self) -> tuple[RelPath, ...]:
        """The paths that the request names; both for a move."""
        return (self.path,) if self.target is None else (self.path, self.target)

    @property
    def may_create(self) -> bool:
        """Whether it may create a missing file."""
        return False

    @property
    def is_executable(self) -> bool:
        """Whether a file that it creates can be executed."""
        return False

    @property
    def text(self) -> str | None:
        """The new text, which a person may change; None if there are several or none."""
        return None

    def with_text(self, text: str) -> Request:
        """The same request with this text; InvalidArgs for one of several edits or of none."""
        raise InvalidArgs("new_content", "is of one edit, and the hunk has several: split it first")

    def check(self) -> None:
        """Raise InvalidArgs, naming the argument, for an invalid text or occurrence."""

    @property
    def count(self) -> int:
        """How many edits it makes."""
        return 1

    @property
    def bad_character(self) -> bool | None:
        return None

    def by_number(self, place: Place) -> Sequence[tuple[Span, str]]:
        """The lines that are named by their numbers alone, and the text for each run of them."""
        return ()

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """The same request as the text has it, which refuses it so; None if that is not safe."""
        return None

    @property
    def modes(self) -> tuple[int, int] | None:
        """The mode before and the one wanted, with the type bits, if it changes it."""
        return None

    def with_mode(self, mode: int) -> Request:
        """The same request, of a file that has this mode."""
        return self

    def mode_after(self, now: int) -> int | None:
        """The permission bits to set on a file of this mode; None if it has them already."""
        modes = self.with_mode(now).modes
        return None if modes is None or modes[0] == modes[1] else modes[1] & 0o7777

    @property
    def sought(self) -> tuple[Sought, ...]:
        """The texts that `locate` searches for, so that a source can find them in one pass."""
        return ()

    def locate(self, base: Source) -> Place:
        """Return its place in the text; raises the refusals of its kind."""
        raise TypeError(f"{type(self).__name__} does not go to lines")

    def load(self, base: Source, place: Place) -> Text:
        """Return the text with the lines loaded that `compose` needs at this place."""
        if self.reads == "lines":
            return base.around(place.start, place.stop)
        if self.reads == "nothing":
            return Excerpt.unread(base.size, base.digest)
        return base.whole()

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        """Make it at its place; raises ContentRequired, EncodingRefused, and those of its kind."""
        raise NotImplementedError

    def diff(self, base: Text, change: ChangeSet, *, created: bool) -> bytes:
        """The unified diff of its change."""
        return unified(base, change, str(self.path), created=created)

    def leaves(self, base: Text, change: ChangeSet) -> bool:
        """Whether an existing file stays as it is."""
        return base.unchanged_by(change)

    def action(self, place: Place) -> Action:
        """The kind of edit, for reports."""
        return self._action

    def each(self, place: Place) -> list[tuple[Request, Place]]:
        """The edits that stay apart when others change the text around them, with their places."""
        return [(self, place)]

    def trimmed(self, base: Text, place: Place) -> tuple[Request, Place] | None:
        """The same edit without the lines that it repeats at its ends; None if it repeats none."""
        return None

    def lines_at(self, place: Place) -> tuple[int, int]:
        """The lines added and removed at its place, in a text that was read."""
        return self.counts(place)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        """The lines that the edit relies on and does not quote."""
        return ()

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        """The runs of lines it replaces, each with the number of lines for it, `new` in all.

        None if a run does not begin and end with a line.
        """
        return [(place.start, place.stop, new)]

    def counts(self, place: Place) -> tuple[int, int]:
        """The lines added and removed, as the request alone suggests: no text was read for it."""
        return count_lines(() if self.text is None else (self.text,)), line_count_of(place.runs)


def line_count_of(runs: Iterable[Span]) -> int:
    """How many lines the runs have."""
    return sum(stop - start for start, stop in runs)


def content_lines(content: str) -> list[str]:
    """Split a caller's text into lines, which end with LF or CRLF and nothing else."""
    *lines, closing = content.split("\n")
    if "\r" in content:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, closing] if closing else lines


def count_lines(contents: Iterable[str]) -> int:
    """How many lines the texts have."""
    return sum(len(content_lines(content)) for content in contents)


def check_count(argument: str, count: int) -> None:
    """Raise InvalidArgs for more hunks or replacements than one call places."""
    if count > sizes.PLACED:
        reason = f"has {count} changes, and one call takes {sizes.PLACED}; send them in several"
        raise InvalidArgs(argument, reason)


def check_is_text(argument: str, text: object) -> None:
    """Raise TypeError for what is no text."""
    if not isinstance(text, str):
        raise TypeError(f"{argument} must be str, not {type(text).__name__}")


def check_text(argument: str, text: str) -> None:
    """Raise InvalidArgs for a NUL or a lone surrogate, TypeError for what is no text."""
    check_is_text(argument, text)
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgs(argument, "holds a lone surrogate") from None


LONGEST_WHY = 500
"""The most characters of the reason that a caller gives for an edit."""

_BREAKS = ("Cc", "Zl", "Zp")


def check_why(argument: str, text: str) -> str:
    """The stripped reason; InvalidArgs if too long, not one line, or with control characters."""
    check_text(argument, text)
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST_WHY:
        raise InvalidArgs(argument, f"has more than {LONGEST_WHY} characters")
    if any(unicodedata.category(character) in _BREAKS for character in text):
        raise InvalidArgs(argument, "must be one line without control characters")
    return text


_SIGNS = (
    ("diff --git", re.compile(r"diff --git \S")),
    ("*** Begin Patch", re.compile(r"\*\*\* Begin Patch\s*$")),
    ("@@ ... @@", re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")),
)
_OLD, _NEW = re.compile(r"--- \S"), re.compile(r"\+\+\+ \S")


def check_no_patch(content: str) -> None:
    """Raise SuspiciousDiff, with the marker and its line, for a text that looks like a patch."""
    lines = content_lines(content)
    for number, line in enumerate(lines, 1):
        for sign, shape in _SIGNS:
            if shape.match(line):
                raise SuspiciousDiff(sign, number)
        if _OLD.match(line) and number < len(lines) and _NEW.match(lines[number]):
            raise SuspiciousDiff("---/+++ header pair", number)


class OfContent(Request):
    """A request whose new text is its `content`; an empty one is allowed if it may delete lines."""

    __slots__ = ()
    _may_delete: ClassVar[bool] = False
    content: str

    @property
    def text(self) -> str | None:
        return self.content

    def with_text(self, text: str) -> Request:
        changed: dict[str, Any] = {"content": text}
        return replace(self, **changed)

    def check(self) -> None:
        check_text("content", self.content)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        return compose_lines(
            base, [(self.content, (place.start, place.stop))], may_delete=self._may_delete
        )


class Replacing(OfContent):
    """A request whose content replaces lines, which `expected_old` may quote."""

    __slots__ = ()
    _may_delete = True

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        is_quoted = place.foot is None or terms.expected_old is not None
        return () if is_quoted else ((place.start, place.stop),)


def compose_lines(
    base: Text, contents: Sequence[tuple[str, Span]], *, may_delete: bool
) -> Composed:
    """Put each content in place of its lines [start, stop), or before `start`."""
    pieces = [_piece(content, base, part, may_delete) for content, part in contents]
    unclosed = is_unclosed(base)
    change, added = _joined(pieces, base, unclosed=unclosed)
    first, newlines = pieces[0].newline, {piece.newline for piece in pieces}
    closed = all(content[-1:] in ("", "\n") for content, _ in contents)
    normalized = Normalized(
        file_eof_has_newline=not unclosed,
        content_eof_has_newline=closed,
        file_eof_newline_added=added,
        content_eof_newline_added=not closed,
        newline_style="mixed" if newlines != {first} else base.newline_name(first),
        content_newlines_converted=sum([piece.converted for piece in pieces]),
    )
    lines = tuple([line for piece in pieces for line in piece.lines])
    return Composed(change, lines, normalized, Escapes.of([piece.escapes for piece in pieces]))


@dataclass(frozen=True, slots=True)
class _Piece:
    """New lines for some lines of the text: one edit's result, except for the end of the file."""

    part: Span
    edit: Edit
    lines: list[str]
    newline: bytes
    converted: int
    escapes: Escapes


def _piece(content: str, base: Text, part: Span, may_delete: bool) -> _Piece:
    first, last = part
    if not first:  # a lone byte order mark is kept as a character
        content = base.encoding.unmarked(content) or content
    if not content and not may_delete:
        raise ContentRequired()
    if not content and first == last == base.line_count > 0:
        raise ContentRequired(total_lines=base.line_count)
    if content[-1:] == "\r":
        raise InvalidArgs("content", "ends in a lone CR, which a newline would make CRLF")
    newline = base.newline_near(first, last)
    crlf = content.count("\r\n")
    converted = content.count("\n") - crlf if b"\r" in newline else crlf
    lines = content_lines(content)
    text, escapes = base.encoding.meant(content, base.raw(first, last))
    meant = lines if text == content else content_lines(text)
    edit = Edit(base.start(first), base.start(last), _encoded(meant, newline, base))
    return _Piece(part, edit, lines, newline, converted, escapes)


def _encoded(lines: list[str], newline: bytes, base: Text) -> bytes:
    """The bytes of the lines, each with this terminator."""
    end = "\r\n" if b"\r" in newline else "\n"
    with suppress(EncodingRefused):
        return base.encoding.bytes_of(end.join((*lines, "")))
    # the refusal names the place of the character in its line
    return b"".join([base.encoding.bytes_of(line) + newline for line in lines])


def _joined(pieces: list[_Piece], base: Text, *, unclosed: bool) -> tuple[ChangeSet, bool]:
    """The change of all pieces, and whether the last line, if `unclosed`, got a newline."""
    last = base.line_count
    at_end = [piece for piece in pieces if piece.part[1] == last]
    replaces_last = any(piece.part[0] < last for piece in at_end)
    if base.ragged and not replaces_last:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end of the file", 0)
    edits = [piece.edit for piece in pieces]
    if unclosed and not replaces_last:
        newline = at_end[0].newline if at_end else base.newline_near(last - 1, last)
        edits.insert(0, Edit(base.size, base.size, newline))  # before what comes after it
    added = unclosed and (not replaces_last or any(piece.edit.new for piece in at_end))
    return ChangeSet.of(base.size, edits), added
