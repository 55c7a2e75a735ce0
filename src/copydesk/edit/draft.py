"""A `Draft` is a request at its place in one text; a `Plan` is one that waits to be applied.

A draft has the lines that it affects, its change set and its remarks; the base text of a plan is
stored by digest. How lines are shown to a caller is here, too (`shown`, `standing`, `cut`).
Invariants: the footprint contains the lines that are replaced; every byte outside the place stays,
except that a newline may be added at the end of the file, which is then reported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from copydesk.edit.kinds.base import (
    Action,
    Normalized,
    Place,
    Request,
    content_lines,
    line_count_of,
)
from copydesk.errors import ContentChanged, EncodingRefused, InvalidHunkId, LineShown
from copydesk.text.change import ChangeSet
from copydesk.text.diff import FileEdit, Region, regions, runs_of, same_after
from copydesk.text.encoding import NO_ESCAPES, Encoding, Escapes
from copydesk.text.nearest import explain
from copydesk.text.relpath import RelPath
from copydesk.text.search import find_all
from copydesk.text.snapshot import Excerpt, Snapshot, Source, Text, computed_once

SHOWN_CANDIDATES = 10
SHOWN_LENGTH = 200
SHOWN_STANDING = 40
AROUND = 3
"""Lines shown before and after those that an edit affects."""


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
    base: Source, lines: Sequence[int], most: int = SHOWN_CANDIDATES
) -> tuple[LineShown, ...]:
    """The first of `lines` (0-based), with 1-based numbers and truncated texts."""
    texts = [base.around(line, line + 1).text(line) for line in lines[:most]]
    return tuple(LineShown(line + 1, cut(text)) for line, text in zip(lines, texts, strict=False))


def shown_blocks(base: Source, blocks: Sequence[tuple[int, int]]) -> tuple[LineShown, ...]:
    """The first of `blocks`, each shown by its first and its last line, both 0-based."""
    ends = shown(base, [last for _, last in blocks])
    return tuple(
        replace(start, end_line=end.line, end_text=end.text)
        for start, end in zip(shown(base, [first for first, _ in blocks]), ends, strict=True)
    )


def standing(
    base: Source, start: int, stop: int, expected: Sequence[str] = ()
) -> tuple[LineShown, ...]:
    """Lines [start, stop) and a few around; long ones are cut where they differ from `expected`."""
    last = base.line_count
    low, high = max(min(start, last) - AROUND, 0), min(max(stop, start) + AROUND, last)
    text = base.around(low, high)
    lines: Sequence[int] = range(low, high)
    if high - low > SHOWN_STANDING:
        half = SHOWN_STANDING // 2
        lines = (*range(low, low + half), *range(high - half, high))
    wanted = dict(enumerate(expected, start))

    def shown_line(line: int) -> LineShown:
        own = text.text(line)
        return LineShown(line + 1, cut(own, at=same_after(own, wanted.get(line, ""), 0, 0)))

    return tuple(map(shown_line, lines))


def cut(text: str, length: int = SHOWN_LENGTH, at: int = 0) -> str:
    """The text, or the part around character `at`, with marks that count what is left out."""
    if len(text) <= length:
        return text
    start = max(min(at - length // 3, len(text) - length), 0) if at >= length else 0
    after = len(text) - length - start
    head = f"(+{start} characters) …" if start else ""
    return head + text[start : start + length] + (f"… (+{after} characters)" if after else "")


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


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """One prepared edit.

    `tool` is the tool that prepared it, `toolset` the set it was called from. `base_digest` and
    `diff_digest` are SHA-256 in hex; `base_digest` is None if the file is to be created. Times are
    milliseconds since 1970 (UTC). `span` is where the lines it relies on are in the base, in bytes
    (`span_of`); None for a batch, and for one that relies on an end of the file. `edited_by`: the
    person who changed its owner's text. `blocks` is for a block diff, whose place is not lines of a
    file. `why` is the owner's reason for it, `task` the label of what the owner was working on.
    Plans of one `transaction` were made by one call, or are to be written together.
    `is_correction`: its old text was corrected, and until its owner accepts that, only they know of
    it. `emptied`: so many directories above each of these paths go with its file, those that are
    empty then.
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
    is_correction: bool = False
    emptied: tuple[tuple[RelPath, int], ...] = ()

    def __repr__(self) -> str:
        where = f"{self.request.path}:{self.place.named}"
        return f"<Plan {self.id} of {self.owner}: {self.action} {where}>"


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
SHOWN_EXPECTED = 2_000
"""Characters shown, around the first difference, of the expected lines and of those found."""


@dataclass(frozen=True)
class Draft:
    """A request applied to `base`; `after_digest` is the SHA-256 of the result if known.

    `documents` are the notes that a block diff changes; `edit_ids`, once it is written, the entries
    that it left in the journal.
    """

    request: Request
    base: Text
    place: Place
    change: ChangeSet
    new_lines: tuple[str, ...]
    normalized: Normalized
    escapes: Escapes = NO_ESCAPES
    created: bool = False
    after_digest: str | None = None
    documents: tuple[FileEdit, ...] = ()
    edit_ids: tuple[int, ...] = ()

    @property
    def action(self) -> Action:
        """The kind of edit, for reports."""
        return self.request.action(self.place)

    @computed_once
    def old_count(self) -> int:
        """How many lines are replaced; for a batch those that then differ, for a move none."""
        if self.request.by_text:
            return sum(region.stop - region.start for region in self.regions)
        return line_count_of(self.place.runs)

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
        return self.request.diff(self.base, self.change, created=self.created)

    @property
    def reads(self) -> BlockReads | None:
        """The blocks that a block diff relies on; None for an edit of lines."""
        return None

    @computed_once
    def replaces_nothing(self) -> bool:
        """Whether the file stays as it is."""
        return not self.created and self.request.leaves(self.base, self.change)

    @computed_once
    def bad_character(self) -> bool:
        """Whether the new text contains U+FFFD and the replaced text does not."""
        if (is_bad := self.request.bad_character) is not None:
            return is_bad
        olds = (line for run in self.place.runs for line in self.base.texts(*run))
        return "\ufffd" in "".join(self.new_lines) and "\ufffd" not in "".join(olds)


def compose(request: Request, base: Text, place: Place, *, created: bool = False) -> Draft:
    """Make the request at `place` in `base`; raises ContentRequired, EncodingRefused, others."""
    return Draft(
        request,
        base,
        place,
        **request.compose(base, place, created=created)._asdict(),
        created=created,
    )


def whole_text(base: Text, content: str) -> str:
    """Return new text for all of `base`, escapes resolved, without a byte order mark of `base`.

    Raises EncodingRefused if it contains bytes as they were shown: then it comes from a read that
    does not show what the file contains.
    """
    text, escapes = base.encoding.meant(content, base.raw(0, base.line_count))
    if escapes.meant:
        raise EncodingRefused(
            base.encoding.label, shown_bytes=tuple(sorted(escapes.meant)[:_SHOWN_ESCAPES])
        )
    return base.encoding.unmarked(text)


def check_expected(expected_old: str, base: Text, place: Place) -> None:
    """Raise ContentChanged unless the lines are `expected_old`, up to line ends and escapes."""
    expected = content_lines(expected_old)
    if not _reads_as(expected, base, place):
        mine, theirs = (
            "".join(f"{line}\n" for line in lines)
            for lines in (expected, base.texts(place.start, place.stop))
        )
        at = same_after(mine, theirs, 0, 0)
        raise ContentChanged(
            "expected_old is not what stands there",
            planned_lines=place.named,
            expected_old=cut(expected_old, SHOWN_EXPECTED, at),
            found=cut(theirs, SHOWN_EXPECTED, at),
            cause=explain(mine, theirs) or None,
            stands_at=_stands_at(expected, base),
            version=base.version,
            current=standing(base, place.start, place.stop, expected),
        )


def _stands_at(expected: list[str], base: Text) -> str | None:
    """The lines equal to the expected ones, if they are in one place only and all are loaded."""
    if not isinstance(base, Snapshot) or not any(line.strip() for line in expected):
        return None
    (matches,) = find_all(base, ["\n".join(expected)])
    lines = dict.fromkeys(base.line_at(start) for start, _ in matches.spans)
    whole = [
        line
        for line in lines
        if line + len(expected) <= base.line_count
        and base.texts(line, line + len(expected)) == tuple(expected)
    ]
    return f"{whole[0] + 1}~{whole[0] + len(expected)}" if len(whole) == 1 else None


def _reads_as(expected: list[str], base: Text, place: Place) -> bool:
    """Whether the lines are the expected ones, either as they are or as they were shown."""
    there = [base.encoding.text(base.key(line)) for line in range(place.start, place.stop)]
    is_shown = partial(_is_shown, base.encoding)
    return len(there) == len(expected) and all(map(is_shown, expected, there))


def _is_shown(encoding: Encoding, text: str, line: str) -> bool:
    """Whether the text is a line, or how it is shown, with its bytes as escapes."""
    pattern = encoding.pattern(text)
    return text == line or (pattern is not None and pattern.fullmatch(line) is not None)
