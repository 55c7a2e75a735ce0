"""Edit requests: one frozen type for each kind of edit, and their validation.

Invariant: a request contains valid Unicode without NUL; an anchor is one line and not empty.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

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
class RangeEdit:
    """Replace the lines that `range` names (1-based, inclusive, as text) by `content`."""

    path: RelPath
    range: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class RangeEdits:
    """Make all `edits`, or none; the line numbers of all refer to the same text."""

    path: RelPath
    edits: tuple[RangeEdit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(self.edits))  # a list could not be stored


@dataclass(frozen=True, slots=True)
class Append:
    """Put `content` at the end of the file; `create` makes a missing file."""

    path: RelPath
    content: str
    create: bool = True


@dataclass(frozen=True, slots=True)
class Insert:
    """Put `content` directly after or before the anchor's line."""

    path: RelPath
    anchor: Anchor
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None


@dataclass(frozen=True, slots=True)
class BlockReplace:
    """Replace the lines between two anchors, or these and the anchors, by `content`.

    `include_anchors` keeps both anchor lines. Without `strict` or without `require_unique` the
    first of several candidates is taken. Each anchor is called by its field's name in errors.
    """

    path: RelPath
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


@dataclass(frozen=True, slots=True)
class StringEdit:
    """Replace `old`, which is not empty, by `new`; LF in both matches any line end."""

    old: str
    new: str

    def __post_init__(self) -> None:
        if not self.old:
            raise InvalidArgs("old_string", "must not be empty")


@dataclass(frozen=True, slots=True)
class BatchEdit:
    """Make all `edits`, each searched for in the original text, or none."""

    path: RelPath
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


@dataclass(frozen=True, slots=True)
class ReplaceText(BatchEdit):
    """Make one edit; with `everywhere`, at every place of its old text, as an edit by lines."""

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

    base: str = ""
    after: str = ""
    creates: bool = False
    executable: bool = False

    @property
    def hunks(self) -> tuple[PatchHunk, ...]:
        """The hunks, in the order of the patch."""
        return tuple(edit for edit in self.edits if isinstance(edit, PatchHunk))


@dataclass(frozen=True, slots=True)
class BlockDiff:
    """Edit blocks of notes as `content` says, in the grammar of block diffs.

    `path` is that of the first document it names. `strict` compares quoted block text including
    white space. `drop_anchors`: anchors that other blocks link to may be removed.
    """

    path: RelPath
    content: str
    strict: bool = True
    drop_anchors: bool = False


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Remove the file. `mode` is its mode with the type bits, for the diff alone."""

    path: RelPath
    mode: int = 0o100644


@dataclass(frozen=True, slots=True)
class MoveFile:
    """Rename the file to `to`, which must not exist; its bytes stay the same."""

    path: RelPath
    to: RelPath


@dataclass(frozen=True, slots=True)
class ChangeMode:
    """Make the file executable for all who can read it, or for nobody; `mode` has the type bits."""

    path: RelPath
    executable: bool
    mode: int = 0o100644

    @property
    def wanted(self) -> int:
        runs = self.mode | (self.mode & 0o444) >> 2
        return runs if self.executable else self.mode & ~0o111

    def bits_after(self, now: int) -> int | None:
        """The permission bits to set on a file of this mode; None if it has them already."""
        wanted = replace(self, mode=now).wanted
        return None if wanted == now else wanted & 0o7777


FileOperation = DeleteFile | MoveFile | ChangeMode
"""Requests about a whole file, text or not; their plans apply only to the unchanged file."""

Request = (
    RangeEdit
    | RangeEdits
    | Append
    | Insert
    | BlockReplace
    | BatchEdit
    | BlockDiff
    | DeleteFile
    | MoveFile
    | ChangeMode
)


def paths_of(request: Request) -> tuple[RelPath, ...]:
    """The paths that a request names; both for a move."""
    return (request.path, request.to) if isinstance(request, MoveFile) else (request.path,)


SeveralEdits = BatchEdit | RangeEdits
"""Requests whose place has parts."""


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


def creates(request: Request) -> bool:
    """Whether the request may create a missing file."""
    if isinstance(request, PatchEdit):
        return request.creates
    return isinstance(request, Append) and request.create


def content_lines(content: str) -> list[str]:
    """Split a caller's text into lines, which end with LF or CRLF and nothing else."""
    *lines, closing = content.split("\n")
    if "\r" in content:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, closing] if closing else lines


def check_request(request: Request) -> None:
    """Raise InvalidArgs, naming the argument, for an invalid text or occurrence."""
    if isinstance(request, BatchEdit):
        for index, edit in enumerate(request.edits):
            check_text(f"edits[{index}].old_string", edit.old)
            check_text(f"edits[{index}].new_string", edit.new)
    elif isinstance(request, RangeEdits):
        for index, each in enumerate(request.edits):
            check_text(f"edits[{index}].content", each.content)
    elif not isinstance(request, FileOperation):
        check_text("content", request.content)
        if isinstance(request, Insert):
            check_text("anchor", request.anchor.text)
        elif isinstance(request, BlockReplace):
            check_text("start_anchor", request.start_anchor.text)
            check_text("end_anchor", request.end_anchor.text)
        else:
            return
        if isinstance(request.occurrence, int) and request.occurrence < 1:
            raise InvalidArgs("occurrence", "must be a number from 1, or last")


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
    if not text:
        return text
    check_text(argument, text)
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST_WHY:
        raise InvalidArgs(argument, f"has more than {LONGEST_WHY} characters")
    if any(unicodedata.category(character) in _BREAKS for character in text):
        raise InvalidArgs(argument, "must be one line without control characters")
    return text


_BREAKS = ("Cc", "Zl", "Zp")


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


def text_of(request: Request) -> str | None:
    """The new text of a request, which a person may change; None if it has several."""
    if isinstance(request, BatchEdit):
        return request.edits[0].new if len(request.edits) == 1 else None
    return None if isinstance(request, RangeEdits | FileOperation) else request.content
