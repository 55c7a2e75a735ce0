"""A plan, and its draft: a request at its place in one snapshot, as a change set with remarks.

A plan is an edit that was shown and waits to be applied; its base text is kept by digest.
Invariant: every byte outside of the place stays, but for the newline that the end of the file must
have; that one is remarked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from copydesk.edit.batch import compile_parts
from copydesk.edit.locate import Place, cut, standing
from copydesk.edit.request import (
    Action,
    BatchEdit,
    BlockDiff,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    FileOperation,
    Insert,
    MoveFile,
    PatchEdit,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    content_lines,
)
from copydesk.errors import (
    ContentChanged,
    ContentRequired,
    EncodingRefused,
    FileExists,
    InvalidArgs,
    InvalidHunkId,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import same_after
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.folding import explain
from copydesk.text.relpath import RelPath
from copydesk.text.search import find_all
from copydesk.text.snapshot import Snapshot, Text, computed_once, whole
from copydesk.text.source import Excerpt
from copydesk.text.unified import Region, deleted, mode_changed, regions, renamed, runs_of, unified


@dataclass(frozen=True, slots=True)
class BlockReads:
    """What a plan for blocks relies on and comes to.

    `digests` are pairs of a block's id and the SHA-256 in hex of its text, of the blocks that are
    written or deleted whatever they hold. Lines are those of the diff that was shown.
    """

    digests: tuple[tuple[str, str], ...]
    lines_removed: int
    lines_added: int


ContextMatch = Literal["exact", "fuzz", "rejected"]
Ended = Literal["applied", "discarded", "expired"]
"""How a plan can have ended."""

_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """One prepared edit.

    `tool` is the one that prepared it, `toolset` the set it was called from. `base_digest` and
    `diff_digest` are SHA-256 in hex; `base_digest` is None when the file is to be created. Times
    are milliseconds since 1970 (UTC). `span` is where the lines that it relies on stand in the
    base, in bytes (`span_of`); None for a batch, and for one that relies on an end of the file.
    `edited_by`: the person who gave it another text than its owner did. `blocks` is for a block
    diff, which has no lines of a file as its place. `why` is what its owner said it is for, `task`
    the label of what it was working on. Plans of one `transaction` were made by one call, or are to
    be written together.
    """

    id: str
    owner: str
    toolset: str
    tool: str
    request: Request
    place: Place
    action: Action
    base_digest: str | None
    diff_digest: str
    created_ms: int
    expires_ms: int
    span: tuple[int, int] | None = None
    edited_by: str = ""
    blocks: BlockReads | None = None
    why: str = ""
    task: str = ""
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """By whom an edit was approved, and by whom its plan was given another text, if it was.

    Times are milliseconds since 1970 (UTC), 0 and an empty name where it did not happen.
    `before` and `after` are what the approval was for, as the desk binds it.
    """

    by: str = ""
    time_ms: int = 0
    before: str = ""
    after: str = ""
    amended_by: str = ""
    amended_ms: int = 0

    @property
    def people(self) -> dict[str, str | int]:
        """Who it was, as every surface names it."""
        return {
            "approved_by": self.by,
            "approved_ms": self.time_ms,
            "amended_by": self.amended_by,
            "amended_ms": self.amended_ms,
        }


def checked_id(text: str) -> str:
    """The id, if it is eight lower-case hex characters; raises InvalidHunkId."""
    if not _ID.fullmatch(text):
        raise InvalidHunkId(text)
    return text


_SHOWN_ESCAPES = 8
_SHOWN_EXPECTED = 2_000
"""Characters of the expected lines, and of those found, around the first difference."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """What was done to keep the rules of line ends.

    `newline_style`: `lf` or `crlf`, the terminator that the new lines took;
    `content_newlines_converted`: how many terminators of the content were another one.
    """

    file_eof_has_newline: bool
    content_eof_has_newline: bool
    file_eof_newline_added: bool
    content_eof_newline_added: bool
    newline_style: str
    content_newlines_converted: int


@dataclass(frozen=True)
class Draft:
    """What a request comes to in `base`; `after_digest` is the text's SHA-256 if already known."""

    request: Request
    base: Text
    place: Place
    change: ChangeSet
    new_lines: tuple[str, ...]
    normalized: Normalized
    escapes: Escapes = NO_ESCAPES
    created: bool = False
    after_digest: str | None = None

    @computed_once
    def action(self) -> Action:
        """What the edit does to the file."""
        return action_of(self.request, self.place)

    @computed_once
    def old_count(self) -> int:
        """How many lines are replaced; of a batch those that differ afterwards, of a move none."""
        if isinstance(self.request, MoveFile):
            return 0
        if isinstance(self.request, BatchEdit):
            return sum(region.stop - region.start for region in self.regions)
        return sum(stop - start for start, stop in self._parts)

    @computed_once
    def new_count(self) -> int:
        """How many lines stand in their place."""
        if isinstance(self.request, BatchEdit):
            return sum(len(region.new) for region in self.regions)
        return len(self.new_lines)

    @computed_once
    def regions(self) -> tuple[Region, ...]:
        """The whole lines that the change alters, in their order."""
        return regions(self.base, self.change)

    @property
    def regions_apart(self) -> tuple[Region, ...]:
        """The regions, with at least one line between them that stays."""
        return tuple(
            Region(
                run[0].start,
                run[-1].stop,
                run[0].begin,
                run[-1].end,
                tuple(line for region in run for line in region.new),
            )
            for run in runs_of(self.regions)
        )

    @computed_once
    def after(self) -> Text:
        after = self.base.edited(self.change)
        if self.after_digest is not None and isinstance(after, Excerpt):
            return after.known_as(self.after_digest)
        return after

    @computed_once
    def diff(self) -> bytes:
        request, path = self.request, str(self.request.path)
        if isinstance(request, MoveFile):
            return renamed(path, str(request.to))
        if isinstance(request, ChangeMode):
            return mode_changed(path, request.mode, request.wanted)
        if isinstance(request, DeleteFile):
            return deleted(self.base, self.change, path, request.mode)
        diff = unified(self.base, self.change, path, created=self.created)
        if isinstance(request, PatchEdit) and request.executable:
            return diff.replace(b"\nnew file mode 100644\n", b"\nnew file mode 100755\n", 1)
        return diff

    @property
    def reads(self) -> BlockReads | None:
        """What a plan of a block diff keeps of the blocks; None for an edit of lines."""
        return None

    @computed_once
    def replaces_nothing(self) -> bool:
        """Whether the file after the change is the file before it."""
        if isinstance(self.request, ChangeMode):
            return self.request.wanted == self.request.mode
        if self.created or isinstance(self.request, FileOperation):
            return False
        return self.base.unchanged_by(self.change)

    @computed_once
    def bad_character(self) -> bool:
        """Whether the new text holds U+FFFD and the replaced text did not."""
        if isinstance(self.request, BatchEdit):
            return self.request.bad_character
        if not any("\ufffd" in line for line in self.new_lines):
            return False
        old = (line for part in self._parts for line in self.base.texts(*part))
        return not any("\ufffd" in line for line in old)

    @property
    def _parts(self) -> tuple[tuple[int, int], ...]:
        return self.place.parts or ((self.place.start, self.place.stop),)


def action_of(request: Request, place: Place) -> Action:
    """The action of a request at its place."""
    if isinstance(request, Insert):
        return "insert"
    if isinstance(request, BlockReplace):
        return "block_replace"
    if isinstance(request, BlockDiff):
        return "block_diff"
    if isinstance(request, FileOperation):
        return _OPERATIONS[type(request)]
    if place.foot is None:
        return "append"
    if isinstance(request, BatchEdit):
        return "replace"
    contents = request.edits if isinstance(request, RangeEdits) else (request,)
    return "replace" if any(each.content for each in contents) else "delete"


_OPERATIONS: dict[type[FileOperation], Action] = {
    ChangeMode: "file_mode",
    DeleteFile: "file_delete",
    MoveFile: "file_move",
}


def compose(request: Request, base: Text, place: Place, *, created: bool = False) -> Draft:
    """The request at `place` in `base`; raises ContentRequired or EncodingRefused."""
    if isinstance(request, FileOperation):  # a deletion takes all bytes, anything else none
        edits = [Edit(0, base.size, b"")] if isinstance(request, DeleteFile) else []
        normalized = Normalized(True, True, False, False, "lf", 0)
        return Draft(request, base, place, ChangeSet.of(base.size, edits), (), normalized)
    if isinstance(request, BatchEdit):
        return _compose_batch(request, base, place, created=created)
    if isinstance(request, RangeEdits):
        parts = zip(request.edits, place.parts, strict=True)
        pieces = [_piece(edit.content, base, part, deletes=True) for edit, part in parts]
    else:
        deletes = isinstance(request, RangeEdit | BlockReplace) and place.foot is not None
        part = place.start, place.stop
        pieces = [_piece(request.content, base, part, deletes=deletes)]
    change, added = _joined(pieces, base)
    unclosed = base.line_count > 0 and not base.ends_with_newline
    styles = {base.newline_name(piece.newline) for piece in pieces}
    return Draft(
        request,
        base,
        place,
        change,
        tuple(line for piece in pieces for line in piece.lines),
        Normalized(
            file_eof_has_newline=not unclosed,
            content_eof_has_newline=all(piece.closed for piece in pieces),
            file_eof_newline_added=added,
            content_eof_newline_added=not all(piece.closed for piece in pieces),
            newline_style=styles.pop() if len(styles) == 1 else "mixed",
            content_newlines_converted=sum(piece.converted for piece in pieces),
        ),
        Escapes.of([piece.escapes for piece in pieces]),
        created,
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """New lines for some lines of the text: what one edit comes to but for the end of the file."""

    part: tuple[int, int]
    edit: Edit
    lines: list[str]
    newline: bytes
    converted: int
    closed: bool
    escapes: Escapes


def _piece(content: str, base: Text, part: tuple[int, int], *, deletes: bool) -> _Piece:
    """The content for lines [start, stop), or before `start`; empty only if it `deletes` lines."""
    first, last = part
    if not first:  # a mark alone is a character that somebody asked for
        content = base.encoding.unmarked(content) or content
    if not content and (not deletes or first == last == base.line_count > 0):
        raise ContentRequired()
    if content.endswith("\r"):
        raise InvalidArgs("content", "ends in a lone CR, which a newline would make CRLF")
    newline = base.newline_near(first, last)
    lines, converted, closed = _split(content, newline)
    meant, escapes = base.encoding.meant(content, base.raw(first, last))
    new = b"".join(base.encoding.bytes_of(line) + newline for line in content_lines(meant))
    edit = Edit(base.start(first), base.start(last), new)
    return _Piece(part, edit, lines, newline, converted, closed, escapes)


def _joined(pieces: list[_Piece], base: Text) -> tuple[ChangeSet, bool]:
    """The change of all pieces, and whether the last line got a newline that it did not have."""
    last = base.line_count
    unclosed = last > 0 and not base.ends_with_newline
    at_end = [piece for piece in pieces if piece.part[1] == last]
    replaces_last = any(piece.part[0] < last for piece in at_end)
    if base.ragged and not replaces_last:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end of the file", 0)
    edits: list[Edit] = []
    if unclosed and at_end and not replaces_last:
        edits.append(Edit(base.size, base.size, at_end[0].newline))
    edits += [piece.edit for piece in sorted(pieces, key=lambda each: each.part)]
    if unclosed and not at_end:
        edits.append(Edit(base.size, base.size, base.newline_near(last - 1, last)))
    added = unclosed and (not replaces_last or any(piece.edit.new for piece in at_end))
    return ChangeSet.of(base.size, edits), added


def _compose_batch(request: BatchEdit, base: Text, place: Place, *, created: bool = False) -> Draft:
    """A batch leaves the end of the file alone, unless it replaces one text."""
    parts = place.parts
    if isinstance(request, PatchEdit) and request.creates:
        if not created:
            raise FileExists(base.size)
        parts = tuple((0, 0) for _ in request.edits)
    batch = compile_parts(whole(base), request, parts)
    closed = base.line_count == 0 or base.ends_with_newline
    style = base.newline_name(base.dominant_newline)
    change, added = batch.change, False
    if isinstance(request, ReplaceText) and change:
        after = base.edited(change)
        added = after.line_count > 0 and not after.ends_with_newline
    if added:
        newline = base.newline_near(base.line_count - 1, base.line_count)
        change = ChangeSet.of(base.size, [*change.edits, Edit(base.size, base.size, newline)])
    lost = closed and added
    normalized = Normalized(closed, not lost, added and not closed, lost, style, 0)
    return Draft(request, base, place, change, (), normalized, batch.escapes, created)


def range_edit_of(path: RelPath, base: Text, region: Region) -> RangeEdit:
    """The request for the change of one region; insertions keep a line beside them as anchor."""
    new = [base.encoding.decode(line) for line in region.new]
    start, stop = region.start, region.stop
    if start == stop and start == base.line_count:
        return RangeEdit(path, f"{start + 1}~", "".join(new))
    if start == stop:
        stop += 1
        new.append(base.encoding.decode(base.raw(start, stop)))
    return RangeEdit(path, f"{start + 1}~{stop}", "".join(new))


def whole_text(base: Text, content: str) -> str:
    """What a caller's text stands for that replaces all of `base`, without a mark it has.

    Raises EncodingRefused where it holds bytes as they were shown: it comes from a reading that
    does not tell what the file holds.
    """
    text, escapes = base.encoding.meant(content, base.raw(0, base.line_count))
    if escapes.meant:
        shown = tuple(sorted(escapes.meant)[:_SHOWN_ESCAPES])
        raise EncodingRefused(base.encoding.label, shown_bytes=shown)
    return base.encoding.unmarked(text)


def check_expected(expected_old: str, base: Text, place: Place) -> None:
    """ContentChanged unless the lines read as `expected_old`, but for line ends and shown bytes."""
    found = base.texts(place.start, place.stop)
    expected = content_lines(expected_old)
    if tuple(expected) != found and not _reads_as(expected, base, place):
        mine, theirs = "".join(f"{one}\n" for one in expected), "".join(f"{one}\n" for one in found)
        at = same_after(mine, theirs, 0, 0)
        raise ContentChanged(
            "expected_old is not what stands there",
            planned_lines=place.named,
            expected_old=cut(expected_old, _SHOWN_EXPECTED, at),
            found=cut(theirs, _SHOWN_EXPECTED, at),
            cause=explain(mine, theirs) or None,
            stands_at=_stands_at(expected, base),
            version=base.version,
            current=standing(base, place.start, place.stop, expected),
        )


def _stands_at(expected: list[str], base: Text) -> str | None:
    """The lines that are the expected ones, where they stand in one place of a whole text."""
    if not isinstance(base, Snapshot) or not any(line.strip() for line in expected):
        return None
    (found,) = find_all(base, ["\n".join(expected)])
    lines = [base.line_at(start) for start, _ in found.spans]
    own = [
        line
        for line in dict.fromkeys(lines)
        if line + len(expected) <= base.line_count
        and base.texts(line, line + len(expected)) == tuple(expected)
    ]
    return f"{own[0] + 1}~{own[0] + len(expected)}" if len(own) == 1 else None


def _reads_as(expected: list[str], base: Text, place: Place) -> bool:
    """Whether the lines are the expected ones as they are, or by what was shown of them."""
    if len(expected) != place.stop - place.start:
        return False
    for line, text in enumerate(expected, place.start):
        found, pattern = base.encoding.text(base.key(line)), base.encoding.pattern(text)
        if text != found and (pattern is None or not pattern.fullmatch(found)):
            return False
    return True


def _split(content: str, newline: bytes) -> tuple[list[str], int, bool]:
    """The lines of the content, how many terminators change, whether the last one has any."""
    crlf = content.count("\r\n")
    every = content.count("\n")
    converted = every - crlf if b"\r" in newline else crlf
    return content_lines(content), converted, not content or content.endswith("\n")
