"""A request at its place in one text: the lines it affects, its change set, its remarks.

A plan is an edit that was shown and waits to be applied; its base text is stored by digest.
Invariants: the footprint contains the lines that are replaced; every byte outside the place stays,
except that a newline may be added at the end of the file, which is then reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from copydesk.edit.batch import compile_parts, is_everywhere, place_parts
from copydesk.edit.request import (
    Action,
    Anchor,
    Append,
    BatchEdit,
    BlockDiff,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    Insert,
    MoveFile,
    Occurrence,
    PatchEdit,
    Place,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    content_lines,
)
from copydesk.errors import (
    AnchorAmbiguous,
    AnchorNotFound,
    Clash,
    CollisionDetected,
    ContentChanged,
    ContentRequired,
    EncodingRefused,
    FileExists,
    InvalidArgs,
    InvalidHunkId,
    InvalidRange,
    LineShown,
    OccurrenceOutOfRange,
    RangeOutOfBounds,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import same_after
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.excerpt import Excerpt
from copydesk.text.folding import explain
from copydesk.text.lines import Hits, Sought
from copydesk.text.nearest import nearest_lines
from copydesk.text.relpath import RelPath
from copydesk.text.search import find_all
from copydesk.text.snapshot import Snapshot, Source, Text, computed_once
from copydesk.text.unified import Region, deleted, mode_changed, regions, renamed, runs_of, unified

_SHAPE = re.compile(r"(?P<first>[0-9]{1,18})?((?P<tilde>~)(?P<last>[0-9]{1,18})?)?", re.ASCII)
_TAIL = re.compile(r"-([0-9]{1,18})~", re.ASCII)


def resolve_range(text: str, total: int) -> tuple[int, int]:
    """Return the lines [start, stop), 0-based, that `text` names among `total` lines.

    `start == stop == total` is the place after the last line (`N~` with N one more than the number
    of lines), and all of an empty text. Raises InvalidRange and RangeOutOfBounds, both with the
    line count.
    """
    found = _SHAPE.fullmatch(text)
    if not found or not text:
        raise InvalidRange(text, "not one of N, N~M, N~, ~M, ~", total)
    first = int(found["first"]) if found["first"] else None
    last = int(found["last"]) if found["last"] else None
    if not found["tilde"]:
        last = first
    if first == 0 or last == 0:
        raise InvalidRange(text, "lines are counted from 1", total)
    if first is not None and last is not None and first > last:
        raise InvalidRange(text, "the first line is after the last", total)
    if total == 0 and text in ("~", "1", "1~"):
        return 0, 0
    beyond = first == total + 1 and last is None
    if not beyond and ((first or 1) > total or (last or 1) > total):
        raise RangeOutOfBounds(text, total)
    return (first or 1) - 1, total if last is None else last


def first_line_of(text: str) -> int:
    """The first line, 0-based, that a range names; 0 if it names none."""
    found = _SHAPE.fullmatch(text)
    return max(int(found["first"]) - 1, 0) if found and found["first"] else 0


def tail_count(text: str) -> int | None:
    """N of `-N~`, the last N lines; None for any other text."""
    found = _TAIL.fullmatch(text)
    return int(found[1]) if found and int(found[1]) else None


SHOWN_CANDIDATES = 10
SHOWN_LENGTH = 200
SHOWN_STANDING = 40
AROUND = 3
"""Lines shown before and after those that an edit affects."""


def locate(request: Request, base: Source) -> Place:
    """Return the place of the request in the text; raises the refusals of its kind."""
    if isinstance(request, RangeEdit):
        start, stop = resolve_range(request.range, base.line_count)
        if start < stop:
            return Place(start, stop, (start, stop))
        return end_of(base) if base.line_count else Place(0, 0, (-1, 1))
    if isinstance(request, Append) or (isinstance(request, PatchEdit) and request.creates):
        return end_of(base)
    if isinstance(request, BatchEdit):
        parts, count = place_parts(base.whole(), request)
        place = of_parts(parts)
        return replace(place, candidates=count) if is_everywhere(request) else place
    if isinstance(request, RangeEdits):
        return of_parts(_ranges(request, base.line_count))
    if isinstance(request, Insert):
        return _insertion(request, base)
    if isinstance(request, BlockReplace):
        return _block(request, base)
    if request.in_notes:
        raise TypeError("a block diff goes to blocks, not to lines")
    return Place(0, base.line_count, None)


def _ranges(request: RangeEdits, total: int) -> tuple[tuple[int, int], ...]:
    """Return the lines of each range; raises CollisionDetected if two share a line or a place."""
    parts = tuple(resolve_range(edit.range, total) for edit in request.edits)
    clashes: list[Clash] = []
    widest: int | None = None
    for index in sorted(range(len(parts)), key=lambda each: (parts[each], each)):
        start, stop = parts[index]
        if widest is not None and (start < parts[widest][1] or parts[index] == parts[widest]):
            one, other = sorted((widest, index))
            clashes.append(Clash(one, other, _told(parts[one]), _told(parts[other])))
        if widest is None or stop > parts[widest][1] or start == stop:
            widest = index
    if clashes:
        raise CollisionDetected(tuple(sorted(clashes, key=lambda each: (each.first, each.second))))
    return parts


def _told(part: tuple[int, int]) -> str:
    start, stop = part
    return f"{start + 1}~{stop}" if start < stop else f"{start + 1}~"


def sought_by(request: Request) -> tuple[Sought, ...]:
    """The texts that `locate` searches for, so that a source can find them in one pass."""
    if isinstance(request, Insert):
        return (_sought(request.anchor),)
    if isinstance(request, BlockReplace):
        end = _sought(request.end_anchor)
        return _sought(request.start_anchor), replace(end, ends=True)
    return ()


def text_for(request: Request, base: Source, place: Place) -> Text:
    """Return the text with the lines loaded that `compose` needs for the request at its place."""
    if request.reads in ("whole", "bytes"):
        return base.whole()
    if request.reads == "nothing":
        return Excerpt.unread(base.size, base.digest)
    return base.around(place.start, place.stop)


def of_parts(parts: tuple[tuple[int, int], ...]) -> Place:
    """The place of several edits in these lines; a part without lines is the end of the text."""
    span = (min(start for start, _ in parts), max(stop for _, stop in parts))
    return Place(*span, span, parts=parts)


def end_of(base: Text | Source) -> Place:
    """The end of the text, resolved when it is written."""
    return Place(base.line_count, base.line_count, None)


def span_of(base: Text, first: int, last: int) -> tuple[int, int]:
    """The bytes of lines [first, last), at least one, without the last terminator."""
    end = base.start(last)
    bare = end - len(base.terminator(last - 1))
    is_blank = bare == base.start(last - 1)
    return base.start(first), end if is_blank else bare


def foot_span(base: Text, place: Place) -> tuple[int, int] | None:
    """The bytes that the edit relies on; None for a batch, and for an end of the text."""
    foot = place.foot
    if foot is None or place.parts or foot[0] < 0:
        return None
    return span_of(base, *foot)


def shown(
    base: Text | Source, lines: Sequence[int], most: int = SHOWN_CANDIDATES
) -> tuple[LineShown, ...]:
    """The first of `lines` (0-based), with 1-based numbers and truncated texts."""

    def text(line: int) -> str:
        return (base if isinstance(base, Text) else base.around(line, line + 1)).text(line)

    return tuple(LineShown(line + 1, cut(text(line))) for line in lines[:most])


def shown_blocks(base: Text | Source, blocks: Sequence[tuple[int, int]]) -> tuple[LineShown, ...]:
    """The first of `blocks`, each shown by its first and its last line, both 0-based."""
    ends = shown(base, [last for _, last in blocks])
    return tuple(
        replace(start, end_line=end.line, end_text=end.text)
        for start, end in zip(shown(base, [first for first, _ in blocks]), ends, strict=True)
    )


def standing(
    base: Text | Source, start: int, stop: int, expected: Sequence[str] = ()
) -> tuple[LineShown, ...]:
    """Lines [start, stop) and a few around; long ones are cut where they differ from `expected`."""
    last = base.line_count
    low, high = max(min(start, last) - AROUND, 0), min(max(stop, start) + AROUND, last)
    text = base if isinstance(base, Text) else base.around(low, high)
    lines: Sequence[int] = range(low, high)
    if high - low > SHOWN_STANDING:
        half = SHOWN_STANDING // 2
        lines = (*range(low, low + half), *range(high - half, high))

    def shown_line(line: int) -> LineShown:
        own = text.text(line)
        there = expected[line - start] if 0 <= line - start < len(expected) else None
        at = 0 if there is None else same_after(own, there, 0, 0)
        return LineShown(line + 1, cut(own, at=at))

    return tuple(map(shown_line, lines))


def cut(text: str, length: int = SHOWN_LENGTH, at: int = 0) -> str:
    """The text, or the part around character `at`, with marks that count what is left out."""
    if len(text) <= length:
        return text
    start = max(min(at - length // 3, len(text) - length), 0) if at >= length else 0
    after = len(text) - length - start
    head = f"(+{start} characters) …" if start else ""
    return head + text[start : start + length] + (f"… (+{after} characters)" if after else "")


def _sought(anchor: Anchor) -> Sought:
    return Sought(anchor.text, anchor.match == "equals")


def _seek(request: Request, base: Source) -> tuple[Hits, ...]:
    """Find the lines of the anchors; if no line has `\\xNN` as text, it stands for a byte."""
    sought = sought_by(request)
    found = base.seek(sought)
    again = tuple(
        replace(each, escaped=not hits.count and "\\x" in each.text)
        for each, hits in zip(sought, found, strict=True)
    )
    return found if again == sought else base.seek(again)


def _insertion(request: Insert, base: Source) -> Place:
    (hits,) = _seek(request, base)
    _require(hits, request.anchor, base)
    lines, count = hits.lines, hits.count
    index = _chosen(request.occurrence, lines, count, request.anchor, lambda: shown(base, lines))
    line = hits.last if index == count - 1 else lines[index]
    at = line + (request.position == "after")
    return Place(at, at, (line, line + 1), count, index + 1)


def _require(hits: Hits, anchor: Anchor, base: Source) -> None:
    if not hits.count:
        raise _missing(anchor, base)


def _missing(anchor: Anchor, base: Source) -> AnchorNotFound:
    """The refusal for an anchor that no line matches, with the lines most similar to it."""
    near = nearest_lines(base, anchor.text)
    close = shown(base, near.lines, 3)
    causes, corrected = tuple[str, ...](near.causes), near.corrected
    if anchor.match == "equals" and close:
        line = base.around(near.lines[0], near.lines[0] + 1).text(near.lines[0])
        causes = explain(anchor.text, line)
        corrected = line if causes and len(line) <= SHOWN_LENGTH else None
        if any(anchor.text in one.text for one in close):
            causes = ("part_of_line",)
    return AnchorNotFound(
        anchor.argument,
        anchor.text,
        anchor.match,
        close or None,
        cause=causes or None,
        corrected_anchor=corrected,
    )


def _chosen(
    occurrence: Occurrence | None,
    lines: Sequence[int],
    count: int,
    anchor: Anchor,
    told: Callable[[], tuple[LineShown, ...]],
) -> int:
    """The index of the candidate asked for, or of the only one; `told` shows the first `lines`."""
    if occurrence == "last":
        return count - 1
    if occurrence is not None and occurrence > count:
        raise OccurrenceOutOfRange(str(occurrence), count, told())
    index = (occurrence or count) - 1
    if (occurrence is None and count > 1) or len(lines) <= index < count - 1:
        raise AnchorAmbiguous(anchor.argument, anchor.text, count, told())
    return index


def _block(request: BlockReplace, base: Source) -> Place:
    """Pair each start with the first end after it; a start nested in the block is ambiguous."""
    first, second = _seek(request, base)
    _require(first, request.start_anchor, base)
    _require(second, request.end_anchor, base)
    starts, ends = first.lines, second.lines
    if first.count > len(starts):
        anchor = request.start_anchor
        raise AnchorAmbiguous(anchor.argument, anchor.text, first.count, shown(base, starts))
    pairs: list[tuple[int, int]] = []
    at = 0
    for start in starts:
        while at < len(ends) and ends[at] <= start:
            at += 1
        if at < len(ends):
            pairs.append((start, ends[at]))
    if not pairs:
        anchor = request.end_anchor
        found = shown(base, sorted({*starts[:2], *ends[:2]}))
        raise AnchorNotFound(anchor.argument, anchor.text, anchor.match, found, before_start=True)
    heads = [start for start, _ in pairs]
    loose = not (request.strict and request.require_unique)
    first_taken = loose and request.occurrence is None and len(pairs) > 1
    wanted = 1 if first_taken else request.occurrence
    index = _chosen(
        wanted, heads, len(heads), request.start_anchor, lambda: shown_blocks(base, pairs)
    )
    start, end = pairs[index]
    nested = [line for line in starts if start < line < end]
    if nested and not loose:
        raise AnchorAmbiguous(
            request.start_anchor.argument,
            request.start_anchor.text,
            1 + len(nested),
            shown_blocks(base, [pair for pair in pairs if start <= pair[0] < end]),
            nested=True,
        )
    inner = (start + 1, end) if request.include_anchors else (start, end + 1)
    return Place(*inner, (start, end + 1), len(pairs), index + 1, first_taken)


@dataclass(frozen=True, slots=True)
class BlockReads:
    """The blocks that a plan relies on, and how many lines it changes.

    `digests` are pairs of a block's id and the SHA-256 in hex of its text, for blocks that are
    written or deleted whatever they contain. Lines are those of the diff that was shown.
    """

    digests: tuple[tuple[str, str], ...]
    lines_removed: int
    lines_added: int


ContextMatch = Literal["exact", "fuzz", "rejected"]
Ended = Literal["applied", "discarded", "expired"]
"""How a plan can end."""

_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """One prepared edit.

    `tool` is the tool that prepared it, `toolset` the set it was called from. `base_digest` and
    `diff_digest` are SHA-256 in hex; `base_digest` is None if the file is to be created. Times are
    milliseconds since 1970 (UTC). `span` is where the lines it relies on are in the base, in bytes
    (`span_of`); None for a batch, and for one that relies on an end of the file. `edited_by`: the
    person who changed its owner's text. `blocks` is for a block diff, whose place is not lines of a
    file. `why` is the owner's reason for it, `task` the label of what the owner was working on.
    Plans of one `transaction` were made by one call, or are to be written together.
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
    """Who approved an edit, and who changed the text of its plan, if anyone did.

    Times are milliseconds since 1970 (UTC); 0 and an empty name if it did not happen. `before` and
    `after` are what the approval is for, as the desk binds it.
    """

    by: str = ""
    time_ms: int = 0
    before: str = ""
    after: str = ""
    amended_by: str = ""
    amended_ms: int = 0

    @property
    def people(self) -> dict[str, str | int]:
        """The names and times as fields of a report."""
        return {
            "approved_by": self.by,
            "approved_ms": self.time_ms,
            "amended_by": self.amended_by,
            "amended_ms": self.amended_ms,
        }


def checked_id(text: str) -> str:
    """Return the id if it is eight lower-case hex characters; raises InvalidHunkId."""
    if not _ID.fullmatch(text):
        raise InvalidHunkId(text)
    return text


_SHOWN_ESCAPES = 8
_SHOWN_EXPECTED = 2_000
"""Characters shown, around the first difference, of the expected lines and of those found."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """How line endings were normalized.

    `newline_style`: `lf`, `crlf` or `mixed`, the terminators that the new lines took;
    `content_newlines_converted`: how many terminators of the content were converted to them.
    """

    file_eof_has_newline: bool
    content_eof_has_newline: bool
    file_eof_newline_added: bool
    content_eof_newline_added: bool
    newline_style: str
    content_newlines_converted: int


@dataclass(frozen=True)
class Draft:
    """A request applied to `base`; `after_digest` is the SHA-256 of the result if known."""

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
        """The kind of edit, for reports."""
        return action_of(self.request, self.place)

    @computed_once
    def old_count(self) -> int:
        """How many lines are replaced; for a batch those that then differ, for a move none."""
        if self.request.target is not None:
            return 0
        if self.request.by_text:
            return sum(region.stop - region.start for region in self.regions)
        place = self.place
        if not place.parts:
            return place.stop - place.start
        return sum(stop - start for start, stop in place.parts)

    @computed_once
    def new_count(self) -> int:
        """How many lines replace them."""
        if self.request.by_text:
            return sum(len(region.new) for region in self.regions)
        return len(self.new_lines)

    @computed_once
    def regions(self) -> tuple[Region, ...]:
        """The whole lines that the change alters, in order."""
        return regions(self.base, self.change)

    @property
    def regions_apart(self) -> tuple[Region, ...]:
        """The regions, merged so that at least one unchanged line is between any two."""
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
        if request.target is not None:
            return renamed(path, str(request.target))
        if request.modes:
            return mode_changed(path, *request.modes)
        if isinstance(request, DeleteFile):
            return deleted(self.base, self.change, path, request.mode)
        diff = unified(self.base, self.change, path, created=self.created)
        if self.created and request.is_executable:
            return diff.replace(b"\nnew file mode 100644\n", b"\nnew file mode 100755\n", 1)
        return diff

    @property
    def reads(self) -> BlockReads | None:
        """The blocks that a block diff relies on; None for an edit of lines."""
        return None

    @computed_once
    def replaces_nothing(self) -> bool:
        """Whether the file stays as it is."""
        if modes := self.request.modes:
            return modes[0] == modes[1]
        if self.created or self.request.is_operation:
            return False
        return self.base.unchanged_by(self.change)

    @computed_once
    def bad_character(self) -> bool:
        """Whether the new text contains U+FFFD and the replaced text does not."""
        if isinstance(self.request, BatchEdit):
            return self.request.bad_character
        if "\ufffd" not in "".join(self.new_lines):
            return False
        parts = self.place.parts or ((self.place.start, self.place.stop),)
        return not any("\ufffd" in line for part in parts for line in self.base.texts(*part))


def action_of(request: Request, place: Place) -> Action:
    """The action of a request at its place."""
    if action := _ACTIONS.get(type(request)):
        return action
    if place.foot is None:
        return "append"
    return "delete" if request.is_deletion else "replace"


_ACTIONS: dict[type[Request], Action] = {
    Insert: "insert",
    BlockReplace: "block_replace",
    BlockDiff: "block_diff",
    ChangeMode: "file_mode",
    DeleteFile: "file_delete",
    MoveFile: "file_move",
}


def compose(request: Request, base: Text, place: Place, *, created: bool = False) -> Draft:
    """Make the request at `place` in `base`; raises ContentRequired, EncodingRefused, others."""
    if request.is_operation:  # a deletion removes all bytes, others none
        edits = [Edit(0, base.size, b"")] if request.deletes else []
        normalized = Normalized(True, True, False, False, "lf", 0)
        return Draft(request, base, place, ChangeSet.of(base.size, edits), (), normalized)
    if isinstance(request, BatchEdit):
        return _compose_batch(request, base, place, created=created)
    if isinstance(request, RangeEdits):
        parts = zip(request.edits, place.parts, strict=True)
        pieces = [_piece(edit.content, base, part, deletes=True) for edit, part in parts]
    else:
        deletes = isinstance(request, RangeEdit | BlockReplace)
        part = place.start, place.stop
        pieces = [_piece(request.text or "", base, part, deletes=deletes)]
    unclosed = _is_unclosed(base)
    change, added = _joined(pieces, base, unclosed=unclosed)
    lines, newlines, converted, closed = list[str](), set[bytes](), 0, True
    escapes = NO_ESCAPES
    for piece in pieces:
        if piece.escapes is not NO_ESCAPES:
            escapes = Escapes.of((escapes, piece.escapes))
        lines += piece.lines
        newlines |= {piece.newline}
        converted += piece.converted
        closed = closed and piece.closed
    normalized = Normalized(
        file_eof_has_newline=not unclosed,
        content_eof_has_newline=closed,
        file_eof_newline_added=added,
        content_eof_newline_added=not closed,
        newline_style="mixed" if len(newlines) > 1 else base.newline_name(newlines.pop()),
        content_newlines_converted=converted,
    )
    return Draft(request, base, place, change, tuple(lines), normalized, escapes, created)


@dataclass(frozen=True, slots=True)
class _Piece:
    """New lines for some lines of the text: one edit's result, except for the end of the file."""

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
    if not first:  # a lone byte order mark is kept as a character
        content = base.encoding.unmarked(content) or content
    if not content and not deletes:
        raise ContentRequired()
    if not content and first == last == base.line_count > 0:
        raise ContentRequired(total_lines=base.line_count)
    if content.endswith("\r"):
        raise InvalidArgs("content", "ends in a lone CR, which a newline would make CRLF")
    newline = base.newline_near(first, last)
    written = lines = content_lines(content)
    crlf = content.count("\r\n")
    converted = content.count("\n") - crlf if b"\r" in newline else crlf
    closed = not content or content.endswith("\n")
    escapes = NO_ESCAPES
    if "\\x" in content:
        meant, escapes = base.encoding.meant(content, base.raw(first, last))
        written = lines if meant is content else content_lines(meant)
    edit = Edit(base.start(first), base.start(last), _encoded(written, newline, base))
    return _Piece(part, edit, lines, newline, converted, closed, escapes)


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
    replaces_last = bool(at_end) and any(piece.part[0] < last for piece in at_end)
    if base.ragged and not replaces_last:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end of the file", 0)
    edits = [piece.edit for piece in pieces]
    if unclosed and at_end and not replaces_last:
        edits.insert(0, Edit(base.size, base.size, at_end[0].newline))
    if unclosed and not at_end:
        edits.append(Edit(base.size, base.size, base.newline_near(last - 1, last)))
    added = unclosed and (not replaces_last or any(piece.edit.new for piece in at_end))
    return ChangeSet.of(base.size, edits), added


def _compose_batch(request: BatchEdit, base: Text, place: Place, *, created: bool = False) -> Draft:
    """Compose a batch, which leaves the end of the file as it is unless it replaces one text."""
    parts = place.parts
    if isinstance(request, PatchEdit) and request.creates:
        if not created:
            raise FileExists(base.size)
        parts = tuple((0, 0) for _ in request.edits)
    batch = compile_parts(base.whole(), request, parts)
    unclosed = _is_unclosed(base)
    style = base.newline_name(base.dominant_newline)
    change, added = batch.change, False
    if isinstance(request, ReplaceText) and change:
        added = _is_unclosed(base.edited(change))
    if added:
        newline = base.newline_near(base.line_count - 1, base.line_count)
        change = ChangeSet.of(base.size, [*change.edits, Edit(base.size, base.size, newline)])
    lost = added and not unclosed
    normalized = Normalized(not unclosed, not lost, added and unclosed, lost, style, 0)
    return Draft(request, base, place, change, (), normalized, batch.escapes, created)


def _is_unclosed(text: Text) -> bool:
    """Whether the last line has no newline."""
    return text.line_count > 0 and not text.ends_with_newline


def range_edit_of(path: RelPath, base: Text, region: Region) -> RangeEdit:
    """The request for one changed region; an insertion includes an adjacent line to rely on."""
    new = [base.encoding.decode(line) for line in region.new]
    start, stop = region.start, region.stop
    if start == stop and start == base.line_count:
        return RangeEdit(path, f"{start + 1}~", "".join(new))
    if start == stop:
        stop += 1
        new.append(base.encoding.decode(base.raw(start, stop)))
    return RangeEdit(path, f"{start + 1}~{stop}", "".join(new))


def whole_text(base: Text, content: str) -> str:
    """Return new text for all of `base`, escapes resolved, without a byte order mark of `base`.

    Raises EncodingRefused if it contains bytes as they were shown: then it comes from a read that
    does not show what the file contains.
    """
    text, escapes = base.encoding.meant(content, base.raw(0, base.line_count))
    if escapes.meant:
        shown = tuple(sorted(escapes.meant)[:_SHOWN_ESCAPES])
        raise EncodingRefused(base.encoding.label, shown_bytes=shown)
    return base.encoding.unmarked(text)


def check_expected(expected_old: str, base: Text, place: Place) -> None:
    """Raise ContentChanged unless the lines are `expected_old`, up to line ends and escapes."""
    expected = content_lines(expected_old)
    if not _reads_as(expected, base, place):
        found = base.texts(place.start, place.stop)
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
    """The lines equal to the expected ones, if they are in one place only and all are loaded."""
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
    """Whether the lines are the expected ones, either as they are or as they were shown."""
    if len(expected) != place.stop - place.start:
        return False
    for line, text in enumerate(expected, place.start):
        found = base.encoding.text(base.key(line))
        if text != found:
            pattern = base.encoding.pattern(text)
            if pattern is None or not pattern.fullmatch(found):
                return False
    return True
