"""Edit requests: one frozen type for each kind of edit, and their validation.

Invariant: a request contains valid Unicode without NUL; an anchor is one line and not empty.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from copydesk.errors import Conflict, InvalidArgs, SuspiciousDiff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot


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
        digest = None if self.sha256 is None else self.sha256.lower()
        told = (
            ("expected_size_bytes", self.size_bytes, self.size_bytes, base.size),
            ("expected_mtime_ms", self.mtime_ms, self.mtime_ms, mtime_ms),
            ("expected_sha256", self.sha256, digest, base.digest),
        )
        wrong: dict[str, dict[str, int | str]] = {
            name: {"expected": given, "actual": actual}
            for name, given, expected, actual in told
            if given is not None and expected != actual
        }
        if wrong:
            name, first = next(iter(wrong.items()))
            raise Conflict(name, first["expected"], first["actual"], wrong)


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
Match = Literal["contains", "equals"]
Occurrence = int | Literal["last"]
"""Which of several candidates: 1-based, or the last one."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line to find: `text` is a part of it (`contains`) or all of it (`equals`)."""

    text: str
    match: Match = "contains"
    argument: str = "anchor"

    def __post_init__(self) -> None:
        if not self.text:
            raise InvalidArgs(self.argument, "must not be empty")
        if "\n" in self.text:
            raise InvalidArgs(self.argument, "must be a part of one line, without a line feed")


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
    foot: tuple[int, int] | None
    candidates: int = 1
    occurrence: int = 1
    first_taken: bool = False
    parts: tuple[tuple[int, int], ...] = ()

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


Span = tuple[int, int]
"""A run of lines [start, stop), 0-based."""


@dataclass(frozen=True, slots=True)
class Request:
    """One edit of the file at `path`, of one of the kinds below.

    `is_operation`: it is about a whole file, text or not, and applies to the unchanged file alone;
    then it may move the file to `target`, or it `deletes` it, or `mode_after` gives a new mode.
    `quotes`: why it takes no `expected_old`. `in_notes`: it is of blocks, not of lines.
    `is_several`: its place has parts. `by_text`: they are found by their old text. `voices` are of
    the wording of its refusals. `reads` is what has to be read of the file: the lines of the
    place, all lines, its bytes, or nothing.
    """

    is_operation: ClassVar[bool] = False
    in_notes: ClassVar[bool] = False
    is_several: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    by_text: ClassVar[bool] = False
    quotes: ClassVar[str] = ""
    voices: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Literal["lines", "whole", "bytes", "nothing"]] = "lines"
    _tool: ClassVar[str] = ""

    path: RelPath

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
    def is_deletion(self) -> bool:
        """Whether there are no new lines."""
        return self.text == ""

    @property
    def modes(self) -> tuple[int, int] | None:
        """The mode before and the one wanted, with the type bits, if it changes it."""
        return None

    def with_mode(self, mode: int) -> Request:
        """The same request, of a file that has this mode."""
        return self

    def mode_after(self, now: int) -> int | None:
        """The permission bits to set on a file of this mode; None if it has them already."""
        return None

    def lines_at(self, place: Place) -> tuple[int, int]:
        """How many lines it removes and adds at its place."""
        added, removed = self.counts(place.parts or ((place.start, place.stop),), place.candidates)
        return removed, added

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        """The lines that the edit relies on and does not quote."""
        return ()

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        """The runs of lines it replaces, each with the number of lines for it, `new` in all.

        None if a run does not begin and end with a line.
        """
        return [(place.start, place.stop, new)]

    def counts(self, place: Sequence[Span], times: int) -> tuple[int, int]:
        """The lines added and removed, as the request suggests; `times`: how often a text is there.

        `place` are the lines of its place, or of each of its parts.
        """
        new = 0 if self.text is None else len(content_lines(self.text))
        return new, sum(stop - start for start, stop in place)


class _OfContent(Request):
    """A request whose new text is its `content`."""

    __slots__ = ()
    content: str

    @property
    def text(self) -> str | None:
        return self.content

    def with_text(self, text: str) -> Request:
        changed: dict[str, Any] = {"content": text}
        return replace(self, **changed)

    def check(self) -> None:
        check_text("content", self.content)


@dataclass(frozen=True, slots=True)
class RangeEdit(_OfContent):
    """Replace the lines that `range` names (1-based, inclusive, as text) by `content`."""

    _tool = "prepare_file_range_edit"

    range: str
    content: str = ""

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return _replaced(place, terms)


@dataclass(frozen=True, slots=True)
class RangeEdits(Request):
    """Make all `edits`, or none; the line numbers of all refer to the same text."""

    is_several, reads, _tool = True, "whole", "prepare_file_range_edit"

    edits: tuple[RangeEdit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(self.edits))  # a list could not be stored

    def check(self) -> None:
        for index, each in enumerate(self.edits):
            check_text(f"edits[{index}].content", each.content)

    def counts(self, place: Sequence[Span], times: int) -> tuple[int, int]:
        new = sum(len(content_lines(edit.content)) for edit in self.edits)
        return new, sum(stop - start for start, stop in place)

    @property
    def count(self) -> int:
        return len(self.edits)

    @property
    def is_deletion(self) -> bool:
        return not any(edit.content for edit in self.edits)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        olds = terms.expected_olds or (None,) * len(place.parts)
        parts = zip(place.parts, olds, strict=True)
        return tuple(part for part, old in parts if part[0] < part[1] and old is None)

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        parts = zip(place.parts, self.edits, strict=True)
        return sorted((*part, len(content_lines(edit.content))) for part, edit in parts)


@dataclass(frozen=True, slots=True)
class Append(_OfContent):
    """Put `content` at the end of the file; `create` makes a missing file."""

    _tool, quotes = "prepare_file_append", "this tool replaces no lines; leave it out"

    content: str
    create: bool = True

    @property
    def may_create(self) -> bool:
        return self.create


@dataclass(frozen=True, slots=True)
class Insert(_OfContent):
    """Put `content` directly after or before the anchor's line."""

    quotes = Append.quotes

    anchor: Anchor
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None

    @property
    def tool(self) -> str:
        return f"prepare_file_insert_{self.position}"

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return (place.foot,) if place.foot is not None and place.candidates > 1 else ()

    def check(self) -> None:
        check_text("content", self.content)
        check_text("anchor", self.anchor.text)
        _check_occurrence(self.occurrence)


@dataclass(frozen=True, slots=True)
class BlockReplace(_OfContent):
    """Replace the lines between two anchors, or these and the anchors, by `content`.

    `include_anchors` keeps both anchor lines. Without `strict` or without `require_unique` the
    first of several candidates is taken. Each anchor is called by its field's name in errors.
    """

    _tool = "prepare_file_block_replace"

    start_anchor: Anchor
    end_anchor: Anchor
    content: str
    occurrence: Occurrence | None = None
    include_anchors: bool = True
    require_unique: bool = True
    strict: bool = True

    def __post_init__(self) -> None:
        for name in ("start_anchor", "end_anchor"):
            anchor: Anchor = getattr(self, name)
            if anchor.argument != name:
                object.__setattr__(self, name, replace(anchor, argument=name))

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return _replaced(place, terms)

    def check(self) -> None:
        check_text("content", self.content)
        check_text("start_anchor", self.start_anchor.text)
        check_text("end_anchor", self.end_anchor.text)
        _check_occurrence(self.occurrence)


@dataclass(frozen=True, slots=True)
class StringEdit:
    """Replace `old`, which is not empty, by `new`; LF in both matches any line end."""

    old: str
    new: str

    def __post_init__(self) -> None:
        if not self.old:
            raise InvalidArgs("old_string", "must not be empty")

    def with_new(self, text: str) -> StringEdit:
        """The edit with another new text."""
        return replace(self, new=text)


@dataclass(frozen=True, slots=True)
class BatchEdit(Request):
    """Make all `edits`, each searched for in the original text, or none."""

    is_several, reads, _tool = True, "whole", "prepare_batch_edit"
    quotes, by_text = "old_string says it already; leave it out", True
    voices: ClassVar[tuple[str, ...]] = ("batch",)

    edits: tuple[StringEdit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(self.edits))  # a list could not be stored

    @staticmethod
    def of(path: RelPath, edits: Iterable[StringEdit | tuple[str, str]]) -> BatchEdit:
        """Make a batch of edits or (old, new) pairs; InvalidArgs for none, or without old text."""
        made: list[StringEdit] = []
        for index, edit in enumerate(edits):
            if isinstance(edit, StringEdit):
                made.append(edit)
                continue
            old, new = edit
            if not old:
                raise InvalidArgs(f"edits[{index}].old_string", "must not be empty")
            made.append(StringEdit(old, new))
        if not made:
            raise InvalidArgs("edits", "must not be empty")
        return BatchEdit(path, tuple(made))

    @property
    def bad_character(self) -> bool:
        """Whether a new text contains U+FFFD and its old one does not."""
        return any("\ufffd" in edit.new and "\ufffd" not in edit.old for edit in self.edits)

    @property
    def text(self) -> str | None:
        return self.edits[0].new if len(self.edits) == 1 else None

    def with_text(self, text: str) -> Request:
        if len(self.edits) != 1:
            return Request.with_text(self, text)
        return replace(self, edits=(self.edits[0].with_new(text),))

    def check(self) -> None:
        for index, edit in enumerate(self.edits):
            check_text(f"edits[{index}].old_string", edit.old)
            check_text(f"edits[{index}].new_string", edit.new)

    @property
    def count(self) -> int:
        return len(self.edits)

    @property
    def is_deletion(self) -> bool:
        return False

    def lines_at(self, place: Place) -> tuple[int, int]:
        old = len({line for start, stop in place.parts for line in range(start, stop)})
        grown = sum(edit.new.count("\n") - edit.old.count("\n") for edit in self.edits)
        return old, old + grown * place.candidates

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        return None

    def counts(self, place: Sequence[Span], times: int) -> tuple[int, int]:
        new = sum(len(content_lines(edit.new)) for edit in self.edits)
        return times * new, times * sum(len(content_lines(edit.old)) for edit in self.edits)


@dataclass(frozen=True, slots=True)
class ReplaceText(BatchEdit):
    """Make one edit; with `everywhere`, at every place of its old text, as an edit by lines."""

    _tool, voices = "replace_text", ("edit", "replace_text")

    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PatchHunk(StringEdit):
    """Replace the lines `old` by the lines `new`; both are whole lines.

    A line that ends with CRLF, or a last one without an end, is so in the file; if all lines end
    with LF, they match lines of any end. `headers` are lines above the place that narrow it,
    outermost first. `at_end`: the place ends the file. `line` is the number of its first line in
    the text that the patch was made from, 0 if unknown. Without `old` the place is after line
    `after`, and there is none if that is unknown. `at` is where the hunk begins in the patch.
    `signs` are those of its lines, " -+" for kept, removed and added; empty if it has none.
    """

    headers: tuple[str, ...] = ()
    at_end: bool = False
    line: int = 0
    after: int | None = None
    at: int = 0
    signs: str = ""

    def __post_init__(self) -> None:
        """Allow a hunk without old lines."""

    def with_new(self, text: str) -> PatchHunk:
        """The hunk with other new lines, completed to whole lines with the same line ends."""
        if "\r\n" not in self.old + self.new:
            text = text.replace("\r\n", "\n")
        is_whole = not self.new or self.new.endswith("\n")
        if text and is_whole and not text.endswith("\n"):
            text += "\n"
        return replace(self, new=text, signs="")


@dataclass(frozen=True, slots=True)
class PatchEdit(BatchEdit):
    """Make all hunks that a patch has for one file, or none; `edits` are `PatchHunk`s.

    `base` is the start of git's blob id of the text that the patch was made from, `after` of the
    one that it makes. `creates`: the file does not exist yet, and becomes `executable` or not.
    """

    _tool = "apply_diff"

    base: str = ""
    after: str = ""
    creates: bool = False
    executable: bool = False

    @property
    def hunks(self) -> tuple[PatchHunk, ...]:
        """The hunks, in the order of the patch."""
        return tuple(edit for edit in self.edits if isinstance(edit, PatchHunk))

    @property
    def may_create(self) -> bool:
        return self.creates

    @property
    def is_executable(self) -> bool:
        return self.executable


@dataclass(frozen=True, slots=True)
class BlockDiff(_OfContent):
    """Edit blocks of notes as `content` says, in the grammar of block diffs.

    `path` is that of the first document it names. `strict` compares quoted block text including
    white space. `drop_anchors`: anchors that other blocks link to may be removed.
    """

    in_notes, _tool, voices = True, "prepareBlockDiff", ("notes",)

    content: str
    strict: bool = True
    drop_anchors: bool = False


def _replaced(place: Place, terms: Terms) -> tuple[Span, ...]:
    is_quoted = place.foot is None or terms.expected_old is not None
    return () if is_quoted else ((place.start, place.stop),)


class FileOperation(Request):
    """A request about a whole file, text or not; its plan applies only to the unchanged file."""

    __slots__ = ()
    is_operation = True

    def with_text(self, text: str) -> Request:
        raise InvalidArgs("new_content", "is of an edit, and the hunk deletes or moves a file")


@dataclass(frozen=True, slots=True)
class DeleteFile(FileOperation):
    """Remove the file. `mode` is its mode with the type bits, for the diff alone."""

    deletes, reads, _tool = True, "bytes", "prepare_file_delete"

    mode: int = 0o100644

    def with_mode(self, mode: int) -> Request:
        return replace(self, mode=mode)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return ((place.start, place.stop),) if place.stop and terms.expected_old is None else ()


@dataclass(frozen=True, slots=True)
class MoveFile(FileOperation):
    """Rename the file to `to`, which must not exist; its bytes stay the same."""

    reads, _tool = "nothing", "prepare_file_move"

    to: RelPath

    @property
    def target(self) -> RelPath | None:
        return self.to


@dataclass(frozen=True, slots=True)
class ChangeMode(FileOperation):
    """Make the file executable for all who can read it, or for nobody; `mode` has the type bits."""

    reads, _tool = "nothing", "apply_diff"

    executable: bool
    mode: int = 0o100644

    @property
    def modes(self) -> tuple[int, int] | None:
        runs = self.mode | (self.mode & 0o444) >> 2
        return self.mode, runs if self.executable else self.mode & ~0o111

    def mode_after(self, now: int) -> int | None:
        _, wanted = replace(self, mode=now).modes or (now, now)
        return None if wanted == now else wanted & 0o7777

    def with_mode(self, mode: int) -> Request:
        return replace(self, mode=mode)


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions of an edit.

    `version`: the one that the caller read (12 hex characters). `expected_old`: the exact old text
    of the lines to be replaced. `existing_hunk_id`: the plan to prepare again. `auto`: write at
    once if the edit is certain. `expected`: the file's state when the edit is planned.
    `expected_olds`: the old text of each of several ranges.
    """

    version: str | None = None
    expected_old: str | None = None
    existing_hunk_id: str | None = None
    auto: bool = False
    expected: Preconditions | None = None
    expected_olds: tuple[str | None, ...] = ()


def content_lines(content: str) -> list[str]:
    """Split a caller's text into lines, which end with LF or CRLF and nothing else."""
    *lines, closing = content.split("\n")
    if "\r" in content:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, closing] if closing else lines


def check_text(argument: str, text: str) -> None:
    """Raise InvalidArgs for a NUL or a lone surrogate."""
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgs(argument, "holds a lone surrogate") from None


LONGEST_WHY = 500
"""The most characters of the reason that a caller gives for an edit."""


def check_why(argument: str, text: str) -> str:
    """The stripped reason; InvalidArgs if too long, not one line, or with control characters."""
    check_text(argument, text)
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST_WHY:
        raise InvalidArgs(argument, f"has more than {LONGEST_WHY} characters")
    if any(unicodedata.category(character) in _BREAKS for character in text):
        raise InvalidArgs(argument, "must be one line without control characters")
    return text


_BREAKS = ("Cc", "Zl", "Zp")


def _check_occurrence(occurrence: Occurrence | None) -> None:
    if isinstance(occurrence, int) and occurrence < 1:
        raise InvalidArgs("occurrence", "must be a number from 1, or last")


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
