"""PatchEdit: the hunks that a patch has for one file, each at the only place of its old lines.

Invariants: the old lines of a hunk, kept ones included, are at its place, each whole; no other
place fits, unless the text is the very one that the patch was made from; lines that a hunk keeps
keep their bytes.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from copydesk.edit.kinds.base import (
    Action,
    Composed,
    Fixed,
    Place,
    Several,
    Span,
    content_lines,
    end_of,
    kind,
    of_parts,
)
from copydesk.edit.kinds.correction import (
    MARKDOWN,
    MOST,
    Corrected,
    are_added_there,
    is_safe,
    lines_shown,
    occurrences,
    of_lines,
    shifted,
    suffix_of,
)
from copydesk.edit.kinds.replace import Batch, BatchEdit, StringEdit, fixed
from copydesk.errors import (
    EncodingRefused,
    FileExists,
    PatchInvalid,
    PatchRejected,
    Refusal,
    RejectedHunk,
)
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit, Followed, follow
from copydesk.text.diff import (
    Gap,
    align,
    as_executable,
    blob_id,
    common_ends,
    regions,
    runs_of,
    same_after,
)
from copydesk.text.encoding import Escapes, without_escapes
from copydesk.text.nearest import (
    Near,
    explain,
    fold,
    indented_by,
    line_difference,
    nearest_of,
    unnumbered,
)
from copydesk.text.outline import Outline
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source, Text, computed_once

_SHOWN_PLACES = 10
_SHOWN_ALIKE = 3  # other places of one: what differs comes after them, and is to be seen first
_SHOWN_NEAR = 100  # at most this many hunks are reported with their closest place
_IN_WORD = re.compile(r"\w\w")
_WORD = re.compile(  # not one of those that many lines consist of
    r"(?!(?:begin|break|case|catch|continue|default|done?|else|end(?:if)?|esac|except|false|finally"
    r"|fi|nil|none|null|pass|return|self|super|then|this|true|try|undefined|void)(?![^\W\d_]))"
    r"(?<![^\W\d_])[^\W\d_]{2,}",
    re.IGNORECASE,
)
_LAST = "\U0010ffff"  # after every other character
_LONGEST = 2_000
"""The most characters of a hunk's lines as they are in the file; longer ones are not reported."""


@dataclass(frozen=True, slots=True)
class PatchHunk(StringEdit):
    """Replace the lines `old` by the lines `new`; both are whole lines.

    A line that ends with CRLF, or a last one without an end, is so in the file; if all lines end
    with LF, they match lines of any end. `headers` are lines above the place that narrow it,
    outermost first. `at_end`: the place ends the file. `line` is the number of its first line in
    the text that the patch was made from, 0 if unknown. Without `old` the place is after line
    `after`, and there is none if that is unknown. `at` is where the hunk begins in the patch.
    `signs` are those of its lines, " -+" for kept, removed and added; empty if it has none.
    `divider` is the one of a block with a second right before its end: all may be old lines.
    """

    headers: tuple[str, ...] = ()
    at_end: bool = False
    line: int = 0
    after: int | None = None
    at: int = 0
    signs: str = ""
    divider: str = ""

    def __post_init__(self) -> None:
        """Allow a hunk without old lines."""

    def with_new(self, text: str) -> PatchHunk:
        """The hunk with other new lines, completed to whole lines with the same line ends."""
        if "\r\n" not in self.old + self.new:
            text = text.replace("\r\n", "\n")
        if _is_open(text) and not _is_open(self.new):
            text += "\n"
        return replace(self, new=text, signs="")


@kind
class PatchEdit(BatchEdit):
    """Make all hunks that a patch has for one file, or none.

    `base` is the start of git's blob id of the text that the patch was made from, `after` of the
    one that it makes. `creates`: the file does not exist yet, and becomes `executable` or not.
    """

    _tool = "apply_diff"

    edits: Several[PatchHunk]  # pyright: ignore[reportIncompatibleVariableOverride]  # only read
    base: str = ""
    after: str = ""
    creates: bool = False
    executable: bool = False

    @property
    def may_create(self) -> bool:
        return self.creates

    @property
    def is_executable(self) -> bool:
        return self.executable

    def action(self, place: Place) -> Action:
        return "append" if self.creates else "replace"

    def locate(self, base: Source) -> Place:
        return end_of(base) if self.creates else of_parts(self.places(base.whole()))

    def places(self, base: Snapshot) -> tuple[Span, ...]:
        """Return the lines of each hunk; raises PatchRejected, listing all without a single one."""
        sought = _Sought(base, is_base=_is_blob(base.data, self.base))
        places = sought.checked(self.edits, [sought.place(hunk) for hunk in self.edits])
        parts = [(0, 0) if isinstance(place, _Misplaced) else place for place in places]
        lost = {at: place for at, place in enumerate(places) if isinstance(place, _Misplaced)}
        several = {at: one.lines for at, one in lost.items() if one.reason == "several_places"}
        if len(several) == len(lost):
            of_other = bool(self.base) and not sought.is_base
            together = _together(self.edits, parts, several, of_other=of_other) if lost else parts
            if together is not None:
                return self._apart(base, together)
        rejected = {at: self._rejected(at, *place) for at, place in lost.items()}
        missing = [at for at, one in lost.items() if one.reason == "not_found"][:_SHOWN_NEAR]
        olds = [self.edits[at].old for at in missing]
        for at, old, near in zip(missing, olds, nearest_of(base, olds), strict=True):
            if near is not None:
                rejected[at] = _with_near(rejected[at], base, old, near)
        raise PatchRejected(tuple(rejected.values()))

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """All hunks that do not fit are corrected, or none; those done already are left out."""
        is_large = base.size > sizes.CORRECTED
        if not isinstance(refusal, PatchRejected) or len(refusal.rejected) > MOST or is_large:
            return None
        edits = dict(enumerate(self.edits))
        corrections, shown = list[Corrected](), lines_shown(base.whole())
        for rejection in refusal.rejected:
            hunk = edits.pop(rejection.hunk - 1)
            if rejection.reason == "already_there" and len(rejection.lines or ()) == 1:
                corrections.append(
                    Corrected(hunk.old, hunk.new, ("already_there",), is_certain=True)
                )
                continue
            better = (
                _with_blank_lines(hunk, shown)
                if hunk.signs and rejection.reason == "not_found"
                else None
            )
            if better is None:
                there, causes = rejection.corrected_lines, rejection.cause or ()
                if hunk.line and not hunk.signs:
                    there, causes = _numbered(hunk, shown) or (there, causes)
                correction = of_lines(shown, hunk.old, hunk.new, there, causes)
                if rejection.reason != "not_found" or correction is None:
                    return None
                if hunk.signs and are_added_there(
                    *map(content_lines, (hunk.new, hunk.old, correction.old))
                ):
                    correction = correction._replace(new=hunk.new, is_certain=False)
                signs = hunk.signs if "elision" not in correction.causes else ""
                better = replace(hunk, old=correction.old, new=correction.new, signs=signs)
                corrections.append(correction)
            edits[rejection.hunk - 1] = better
        left = tuple(hunk for _, hunk in sorted(edits.items()))
        return fixed(replace(self, edits=left), corrections) if left else None

    def _rejected(self, index: int, reason: str, lines: Sequence[int]) -> RejectedHunk:
        """The rejection of a hunk, with the first of the lines (0-based) that it is about."""
        numbers = tuple([line + 1 for line in lines[:_SHOWN_PLACES]]) or None
        return RejectedHunk(str(self.path), index + 1, reason, self.edits[index].at, numbers)

    def _apart(self, base: Snapshot, parts: Sequence[Span]) -> tuple[Span, ...]:
        """The parts; PatchRejected for the first hunk that changes lines which another does too."""
        spans = sorted(
            (edit.start, edit.stop, index)
            for index, (edits, _) in enumerate(self._changes(base, parts))
            for edit in edits
        )
        for (start, stop, one), (at, _, other) in pairwise(spans):
            if at < stop or at == start:
                index = max(one, other)
                raise PatchRejected((self._rejected(index, "hunks_overlap", parts[index][:1]),))
        return tuple(parts)

    def batch(self, base: Snapshot, parts: Sequence[Span]) -> Batch:
        """The change of each hunk's lines; inserted ones are exact if the blob id says so."""
        is_raw = any("\r\n" in hunk.old or "\r\n" in hunk.new for hunk in self.edits)
        batch = self._compiled(base, parts, is_raw=is_raw)
        if self.after and not is_raw and b"\r" in base.data:
            exact = self._compiled(base, parts, is_raw=True)
            if exact.change != batch.change and (
                _is_blob(exact.change.apply(base.data), self.after)
            ):
                return exact
        return batch

    def _compiled(self, base: Snapshot, parts: Sequence[Span], *, is_raw: bool) -> Batch:
        changes = list(self._changes(base, parts, is_raw=is_raw))
        change = ChangeSet.of(base.size, [edit for edits, _ in changes for edit in edits])
        return Batch(change, (), 0, Escapes.of(used for _, used in changes))

    def _changes(
        self, base: Snapshot, parts: Sequence[Span], *, is_raw: bool = False
    ) -> Iterator[tuple[list[Edit], Escapes]]:
        """Yield the edits of each hunk's bytes that differ, and the byte escapes it used.

        `is_raw`: new lines are exact bytes where no old one says how lines end.
        """
        for index, (hunk, (first, last)) in enumerate(zip(self.edits, parts, strict=True)):
            is_between = not hunk.old and first < last
            if is_between:
                assert hunk.after is not None, "only then it stands between lines"
                first = last = first + (hunk.after > 0)
            if _is_open(hunk.new) and last < base.line_count:
                raise PatchRejected((self._rejected(index, "not_at_end", (first,)),))
            is_exact = is_raw and "\n" not in hunk.old and bool(hunk.old or is_between)
            yield _change(base, hunk, (first, last), is_raw=is_exact)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        if self.creates and not created:
            raise FileExists(base.size)
        parts = ((0, 0),) * len(self.edits) if self.creates else place.parts
        return BatchEdit.compose(self, base, replace(place, parts=parts), created=created)

    def diff(self, base: Text, change: ChangeSet, *, created: bool) -> bytes:
        diff = BatchEdit.diff(self, base, change, created=created)
        if created and self.executable:
            return as_executable(diff)
        return diff

    def check_order(self, base: Snapshot, parts: Sequence[Span]) -> bool:
        """Raise PatchRejected for a hunk that fits lines which those before it make, too.

        Returns whether one names lines that those before it take away.
        """
        is_doubtful = False
        gaps = [
            (at, first + a, first + b, content_lines(hunk.new)[c:d])
            for at, (hunk, (first, _)) in enumerate(zip(self.edits, parts, strict=True))
            for a, b, c, d in _gaps(hunk.signs, content_lines(hunk.old), content_lines(hunk.new))
        ]
        gone = {line: at for at, start, stop, _ in gaps for line in range(start, stop)}
        put = {start: at for at, start, _, _ in gaps}
        added = {start: [_Line(text, at) for text in new] for at, start, _, new in gaps}
        lines, starts = list[_Line](), list[int]()  # all that are there at any time, in order
        for number, text in enumerate((*base.texts(0, base.line_count), "")):
            starts.append(len(lines))
            lines += (*added.get(number, ()), _Line(text, -1, gone.get(number, sys.maxsize)))
        counts = Counter(line.text for line in lines)
        made: dict[tuple[str, ...], list[tuple[int, int]]] = {}  # what each gap adds, or joins
        for at, start, _, new in gaps:
            above = islice(_there(lines, range(starts[start] - 1, -1, -1), at + 1), 1)
            below = islice(_there(lines, range(starts[start], len(lines)), at + 1), len(new) + 1)
            for one, other in pairwise((*above, *below)):
                made.setdefault((lines[one].text, lines[other].text), []).append((at, other))
            for index in range(starts[start], starts[start] + len(new)):
                made.setdefault((lines[index].text,), []).append((at, index))
        for at, (hunk, (first, _)) in enumerate(zip(self.edits, parts, strict=True)):
            old = content_lines(hunk.old)
            near = range(first, first + len(old) + 1)
            is_doubtful |= any(gone.get(line, at) < at for line in near[:-1])
            others = {hunks.get(line, at) for hunks in (gone, put) for line in near} - {at}
            is_only = not others and min(map(counts.__getitem__, old), default=0) < 2
            if hunk.line == first + 1 or is_only:
                continue
            keys = enumerate(pairwise(old), 1) if len(old) > 1 else [(0, tuple(old))]
            for offset, key in keys:
                for _, index in (one for one in made.get(key, ()) if one[0] < at):
                    if _fits(lines, index, old, offset, at):
                        line = sum(1 for _ in _there(lines, range(index), at)) - offset
                        raise PatchRejected((self._rejected(at, "several_places", (first, line)),))
        return is_doubtful

    def check_whole(self, base: Snapshot, line: int) -> None:
        """Raise PatchRejected unless the hunks remove all text; `line` is that of the patch."""
        if self.batch(base, self.places(base)).change.new_length > len(base.encoding.bom):
            raise PatchRejected((RejectedHunk(str(self.path), 1, "not_whole", line),))


def in_order(path: RelPath, hunks: Sequence[PatchHunk], base: Snapshot, *, created: bool) -> Fixed:
    """The patch of hunks that are each for the result of those before it; raises PatchRejected.

    A hunk that comes again is left out. One without old lines fills an empty text. To others its
    lines are added, or they become all of the text where they repeat most of it; that is certain
    only of a text that is `created`. Without any lines it is refused, but that it may create an
    empty file.
    Raises FileExists where the last line has no end: it may go on; PatchInvalid where the text has
    all lines of a block with two dividers.
    """
    now, total, corrections = base, ChangeSet.of(base.size, ()), list[Corrected]()
    for index, hunk in enumerate(hunks):
        if hunk.divider:
            all_old = content_lines(f"{hunk.old}{hunk.divider}\n{hunk.new}")
            # in prose it may underline a title
            if suffix_of(path) in MARKDOWN or shifted(lines_shown(now), all_old, "").places:
                raise PatchInvalid("two_dividers", hunk.at + len(all_old) + 1, hunk.divider)
            corrections.append(Corrected(hunk.old, hunk.new, ("divider",), is_certain=False))
        if hunk.old and any((one.old, one.new) == (hunk.old, hunk.new) for one in hunks[:index]):
            change = ChangeSet.of(now.size, ())  # it was sent twice
            corrections.append(Corrected(hunk.old, hunk.new, ("already_there",), is_certain=True))
        elif hunk.old or hunk.signs:
            change, more = _next_change(path, hunk, (base, total, now), index)
            corrections += more
        elif not hunk.new and (index or not created):
            raise PatchRejected((RejectedHunk(str(path), index + 1, "no_lines", hunk.at),))
        else:
            change, cause = _filled(now, hunk.new)
            if cause and not created:
                corrections.append(Corrected("", hunk.new, (cause,), is_certain=False))
        now, total = now.edited(change), total.then(change)
    return fixed(patch_of(path, base, total, created=created), corrections)


def _next_change(
    path: RelPath, hunk: PatchHunk, texts: tuple[Snapshot, ChangeSet, Snapshot], index: int
) -> tuple[ChangeSet, list[Corrected]]:
    """The change of one hunk in the text as it is by now, and how its lines were corrected."""
    base, total, now = texts
    single, corrections = PatchEdit(path, (hunk,)), list[Corrected]()
    try:
        parts = single.places(now)
    except PatchRejected as refusal:
        better = single.corrected(now, refusal)
        if better is None or not isinstance(better.request, PatchEdit):
            raise PatchRejected(
                tuple(replace(rejection, hunk=index + 1) for rejection in refusal.rejected)
            ) from None
        single = better.request
        parts = single.places(now)
        corrections.append(Corrected(hunk.old, hunk.new, better.causes, better.is_certain))
    change = single.batch(now, parts).change
    try:
        ((first, last),) = single.places(base)
    except PatchRejected:  # lines that an earlier hunk made have no place in the original
        return change, corrections
    inverse, lines = [total.invert(base.data)], (first + 1, parts[0][0] + 1)
    if follow(base.start(first), base.start(last), inverse) != Followed(now.start(parts[0][0])):
        # it fits the original and the result so far, at different places
        raise PatchRejected((RejectedHunk(str(path), index + 1, "several_places", hunk.at, lines),))
    return change, corrections


def _filled(now: Snapshot, new: str) -> tuple[ChangeSet, str]:
    """The change of a hunk without old lines, and what became of them; empty if there were none."""
    count, start, cause = now.line_count, now.start(0), ""
    raw = now.newline_near(count, count).join(map(now.encoding.bytes_of, new.split("\n")))
    if count:
        old = [line for line in now.texts(0, count) if line.strip()]
        repeated = sum((Counter(old) & Counter(content_lines(new))).values())
        cause = "whole_file" if 2 * repeated > len(old) else "appended"
    if cause == "appended":
        if not now.ends_with_newline:  # does the text begin a line, or go on with the last?
            raise FileExists(now.size)
        start = now.size
    return ChangeSet.of(now.size, [Edit(start, now.size, raw)]), cause


def _with_blank_lines(hunk: PatchHunk, shown: Sequence[str]) -> PatchHunk | None:
    """The hunk with the blank lines of the only place of its other lines; None if it has none."""
    filled = [at for at, line in enumerate(shown) if line.strip()]
    wanted = [line for line in content_lines(hunk.old) if line.strip()]
    places = occurrences([shown[at] for at in filled], wanted) if wanted else []
    if len(places) != 1:
        return None
    at, stop = filled[places[0]], filled[places[0] + len(wanted) - 1] + 1
    old, new = iter(content_lines(hunk.old)), iter(content_lines(hunk.new))
    lines: list[tuple[str, str]] = []
    for sign in hunk.signs:
        if sign == "+":
            lines.append((sign, next(new)))
            continue
        line = next(old)
        if sign == " ":
            next(new)
        while line.strip() and at < stop and not shown[at].strip():
            lines.append((" ", shown[at]))
            at += 1
        if line.strip() or (at < stop and not shown[at].strip()):  # else it is not in the file
            lines.append((sign, shown[at]))
            at += 1
    before, after = (
        "".join(f"{line}\n" for sign, line in lines if sign != not_in) for not_in in "+-"
    )
    signs = "".join(sign for sign, _ in lines)
    is_whole = signs.count("-") == hunk.signs.count("-")  # no blank line to remove is missing
    return replace(hunk, old=before, new=after, signs=signs) if is_whole else None


def _numbered(hunk: PatchHunk, shown: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The lines from the number of a block on and why they differ, if they may be meant."""
    lines = shown[hunk.line - 1 :][: len(content_lines(hunk.old))]
    there, bare = "".join(f"{line}\n" for line in lines), unnumbered(hunk.old)
    causes = ("line_numbers",) * bool(bare) + explain(bare or hunk.old, there)
    return (there, causes) if is_safe(causes) else None


def _is_blob(data: bytes, prefix: str) -> bool:
    """Whether git's blob id of the data starts with the prefix."""
    return bool(prefix.strip("0")) and (
        blob_id(data, "sha256" if len(prefix) > 40 else "sha1").startswith(prefix)
    )


def patch_of(path: RelPath, base: Snapshot, change: ChangeSet, *, created: bool) -> PatchEdit:
    """The patch of this change, a hunk for each run of lines; a single one if bytes are escaped.

    That of no change keeps the first line.
    """
    encoding, after = base.encoding, change.apply(base.data)
    if created:
        return PatchEdit(path, (PatchHunk("", encoding.decode(after)),), creates=True)
    altered = regions(base, change)
    hunks: list[PatchHunk] = []
    for group in [[*altered]] if encoding.escapes and altered else runs_of(altered):
        first, last = group[0], group[-1]
        old = base.slice(first.begin, last.end)
        new = ChangeSet.of(
            len(old),
            [
                Edit(region.begin - first.begin, region.end - first.begin, b"".join(region.new))
                for region in group
            ],
        ).apply(old)
        if not first.begin:
            old, new = old.removeprefix(encoding.bom), new.removeprefix(encoding.bom)
        hunks.append(
            PatchHunk(
                encoding.decode(old),
                encoding.decode(new),
                line=first.start + 1,
                after=None if old else first.start,
            )
        )
    if not hunks:
        kept = encoding.decode(base.slice(base.start(0), base.start(min(base.line_count, 1))))
        hunks = [PatchHunk(kept, kept, line=1, after=None if kept else 0)]
    return PatchEdit(path, tuple(hunks), blob_id(base.data), blob_id(after))


def _together(
    hunks: Sequence[PatchHunk],
    parts: Sequence[Span],
    several: Mapping[int, Sequence[int]],
    *,
    of_other: bool,
) -> list[Span] | None:
    """The places of all hunks, where `several` have more than one; None if that is not certain.

    Line numbers decide where all agree with them and one hunk has a single place, which shows that
    nothing above has moved. The hunks of a diff are in order: if only one choice of places is, that
    is it. Of blocks, as many equal ones as there are places take them, and a number is a choice.
    `of_other`: the numbers are those of another text.
    """
    sizes = [len(content_lines(hunk.old)) for hunk in hunks]
    choices = [several.get(at, (start,)) for at, (start, _) in enumerate(parts)]
    numbered = [hunk.line - 1 for hunk in hunks]
    are_right = all(line in places for line, places in zip(numbered, choices, strict=True))
    is_chosen = len(several) < len(hunks) or not any(hunk.signs for hunk in hunks)
    if are_right and is_chosen and not of_other:
        starts: list[int] | None = numbered
    elif all(hunk.signs for hunk in hunks):
        starts = _in_order_of(choices, sizes)
    else:
        starts = [places[0] for places in choices]
        for at, places in several.items():
            equal = [other for other in several if hunks[other].old == hunks[at].old]
            if len(equal) != len(places):
                return None
            starts[at] = places[equal.index(at)]
    return None if starts is None else [(at, at + n) for at, n in zip(starts, sizes, strict=True)]


def _in_order_of(choices: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int] | None:
    """The only way to take a place for each, one below the other; None for none or several.

    It is the only one if the highest places that follow each other are also the lowest.
    """
    first, last = list[int](), list[int]()
    end = 0
    for places, size in zip(choices, sizes, strict=True):
        first += [at for at in places if at >= end][:1]
        end = first[-1] + size if first else 0
    for places, size in zip(choices[::-1], sizes[::-1], strict=True):
        last += [at for at in places[::-1] if not last or at + size <= last[-1]][:1]
    return first if len(first) == len(choices) and first == last[::-1] else None


class _Line(NamedTuple):
    """A line, and the numbers of the hunks that make it and remove it."""

    text: str
    since: int
    until: int = sys.maxsize


def _there(lines: Sequence[_Line], indices: range, at: int) -> Iterator[int]:
    """Yield those of the indices whose lines are there when hunk `at` is made."""
    return (one for one in indices if lines[one].since < at <= lines[one].until)


def _fits(lines: Sequence[_Line], index: int, old: Sequence[str], offset: int, at: int) -> bool:
    """Whether old lines are there when hunk `at` is made, that of the offset at an index."""
    above = _there(lines, range(index - 1, -1, -1), at)
    below = _there(lines, range(index, len(lines)), at)
    return next(_there(lines, range(index, index + 1), at), None) is not None and all(
        lines[found].text == text
        for side, texts in ((below, old[offset:]), (above, old[:offset][::-1]))
        for text in texts
        for found in (next(side, -1),)
    )


class _Misplaced(NamedTuple):
    """Why a hunk has no place, and the lines (0-based) where it may belong."""

    reason: str
    lines: Sequence[int] = ()


class _Sought:
    """A text to find hunks in; `is_base`: the patch was made from exactly this text."""

    def __init__(self, base: Snapshot, *, is_base: bool) -> None:
        self._base, self.is_base = base, is_base
        self._found: dict[tuple[str, ...], list[int]] = {}
        self._headed: dict[str, list[int]] = {}
        self._bodies: dict[int, range] = {}

    def place(self, hunk: PatchHunk) -> Span | _Misplaced:
        """The lines of the hunk, or why it has none."""
        old, is_closed = content_lines(hunk.old), not _is_open(hunk.old)
        if not old:
            return self._insertion(hunk)
        places = everywhere = self.all_places(old)
        if hunk.at_end or not is_closed or _is_open(hunk.new):
            may_end = is_closed or not self._base.ends_with_newline
            count = self._base.line_count
            places = [at for at in places[-1:] if may_end and at + len(old) == count]
        if not places:
            return self._lost(hunk, everywhere)
        if self.is_base and _holds(places, hunk.line - 1):
            return hunk.line - 1, hunk.line - 1 + len(old)
        below = self._below(hunk.headers, places)
        if isinstance(below, _Misplaced):
            return below
        return (
            _Misplaced("several_places", below)
            if len(below) > 1
            else (below[0], below[0] + len(old))
        )

    def _lost(self, hunk: PatchHunk, elsewhere: list[int]) -> _Misplaced:
        if elsewhere:
            return _Misplaced("not_at_end", elsewhere)
        new = content_lines(hunk.new)
        is_told = self._may_be_made(hunk) if len(new) < 2 else any(map(str.strip, new))
        there = self.all_places(new) if is_told else []
        context = same_after(content_lines(hunk.old), new[:-1], 0, 0)
        return _Misplaced("already_there" if there else "not_found", [at + context for at in there])

    def _may_be_made(self, hunk: PatchHunk) -> bool:
        """Whether one line was put for the old ones: it is one of them but for a word or number.

        It is there once, where the hunk says, and has words of its own, not only what many lines
        do; the old ones are nowhere.
        """
        line, places = hunk.new.strip(), self.all_places([hunk.new.rstrip("\r\n")])
        gone = [one.strip() for one in content_lines(unnumbered(hunk.old) or hunk.old)]
        return (
            len(places) == 1
            and hunk.line in (0, places[0] + 1)
            and len("".join(_WORD.findall(line))) >= 4
            and any(_is_version(one, line) for one in gone)
            and self._below(hunk.headers, places, is_inside=True) == places
            and self._folded.isdisjoint(fold(one) for one in gone if one)
        )

    @computed_once
    def _folded(self) -> set[str]:
        return set(map(fold, self._base.texts(0, self._base.line_count)))

    def checked(
        self, hunks: Sequence[PatchHunk], places: Sequence[Span | _Misplaced]
    ) -> Sequence[Span | _Misplaced]:
        """The places; slight hunks count as there only if all do, and nothing else is meant."""
        slight = {
            at: content_lines(hunks[at].new)
            for at, place in enumerate(places)
            if isinstance(place, _Misplaced) and place.reason == "already_there"
            if is_slight(hunks[at])
        }
        is_done = all(
            isinstance(one, _Misplaced) and one.reason == "already_there" for one in places
        )
        if slight and is_done:
            base, news = self._base, slight.values()
            lines = {self.all_places(new)[0] + offset for new in news for offset in range(len(new))}
            cuts = [Edit(base.start(line), base.start(line + 1), b"") for line in sorted(lines)]
            others = base.edited(ChangeSet.of(base.size, cuts))
            is_done = not any(nearest_of(others, [hunks[at].old for at in slight]))
        left = {} if is_done else dict.fromkeys(slight, _Misplaced("not_found"))
        return [left.get(at, place) for at, place in enumerate(places)]

    def _insertion(self, hunk: PatchHunk) -> Span | _Misplaced:
        """The place of new lines without old ones: the end, or after the line they name."""
        count = self._base.line_count
        if hunk.headers:
            return _Misplaced("header_alone")
        if not count or hunk.at_end:
            return count, count
        if hunk.after is None or not self.is_base or hunk.after > count:
            return _Misplaced("no_context")
        return max(hunk.after - 1, 0), min(hunk.after + 1, count)

    def all_places(self, old: Sequence[str]) -> list[int]:
        """All places of the lines, sorted, whatever their line ends; bytes match as shown, too."""
        key = tuple(old)
        if key not in self._found:
            self._found[key] = self._sought(old)
        return self._found[key]

    def _sought(self, old: Sequence[str]) -> list[int]:
        encoding = self._base.encoding
        try:
            keys = [encoding.bytes_of(line) for line in old]
        except EncodingRefused:
            return []
        lines, size = self._base.keys, len(keys)
        rarest, offset = min((len(self._index.get(key, ())), at) for at, key in enumerate(keys))
        if rarest * size <= len(lines):
            starts = (at - offset for at in self._index.get(keys[offset], ()))
            places = [at for at in starts if at >= 0 and [*lines[at : at + size]] == keys]
        else:
            places = occurrences(lines, keys)
        unmarked = [keys[0].removeprefix(encoding.bom), *keys[1:]]
        if unmarked != keys and [*lines[:size]] == unmarked:  # after a byte order mark
            places.insert(0, 0)
        return places or (self._as_shown(old) if encoding.escapes else [])

    def _as_shown(self, old: Sequence[str]) -> list[int]:
        """Match lines with bytes as they were shown, by shift-and: each bit is a line."""
        encoding = self._base.encoding
        alike: dict[str, dict[str, int]] = {}  # the hunk's lines and their positions
        for at, line in enumerate(old):
            lines = alike.setdefault(without_escapes(line), {})
            lines[line] = lines.get(line, 0) | 1 << at
        patterns = {line: encoding.pattern(line) or re.compile(re.escape(line)) for line in old}
        fitting: dict[bytes, int] = {}
        places: list[int] = []
        reached, last = 0, 1 << (len(old) - 1)
        for at, key in enumerate(self._base.keys):
            if key not in fitting:
                text = encoding.text(key)
                lines = alike.get(without_escapes(text), {})
                fitting[key] = sum(
                    bits for line, bits in lines.items() if patterns[line].fullmatch(text)
                )
            reached = (reached << 1 | 1) & fitting[key]
            if reached & last:
                places.append(at - len(old) + 1)
        return places

    @computed_once
    def _index(self) -> dict[bytes, list[int]]:
        """The line numbers by bytes."""
        index: dict[bytes, list[int]] = {}
        for line, key in enumerate(self._base.keys):
            index.setdefault(key, []).append(line)
        return index

    @computed_once
    def _outline(self) -> Outline:
        return Outline(self._base.keys)

    def _body(self, head: int) -> range:
        """The block of a header line: from it to the last line below it."""
        if head not in self._bodies:
            self._bodies[head] = range(head, self._outline.body(head).stop)
        return self._bodies[head]

    @computed_once
    def _ordered(self) -> tuple[list[str], list[int]]:
        """The lines, stripped of blanks, in alphabetical order, and their line numbers."""
        texts = [text.strip() for text in self._base.texts(0, self._base.line_count)]
        lines = sorted(range(len(texts)), key=texts.__getitem__)
        return [texts[at] for at in lines], lines

    def _heads(self, header: str) -> list[int]:
        """The lines that match a header, in order."""
        if header not in self._headed:
            texts, lines = self._ordered
            first, last = (bisect_left(texts, header.strip() + end) for end in ("", _LAST))
            self._headed[header] = sorted(
                lines[at] for at in range(first, last) if _names(header, texts[at])
            )
        return self._headed[header]

    def _below(
        self, headers: Sequence[str], places: list[int], *, is_inside: bool = False
    ) -> list[int] | _Misplaced:
        """The places below all headers; only those in the last one's block, if there are any.

        `is_inside`: only those, even if there are none.
        """
        bodies = [range(self._base.line_count)]
        for header in headers:
            known = self._heads(header)
            if not (heads := known[bisect_left(known, bodies[0].start) :]):
                return _Misplaced("no_header")
            bodies = [self._body(head) for head in _within(heads, bodies) or heads]
        if not (after := [at for at in places if at >= bodies[0].start]):
            return _Misplaced("not_below_header", places)
        return _within(after, bodies) or ([] if is_inside else after)


def _with_near(rejection: RejectedHunk, base: Snapshot, old: str, near: Near) -> RejectedHunk:
    """Add the closest lines to the rejection, and why they differ."""
    corrected, causes, difference = near.corrected, tuple[str, ...](near.causes), near.diff
    if corrected is not None and not causes:  # it is there, within lines
        whole = base.texts(near.start, near.stop)
        difference = line_difference(content_lines(old), list(whole))
        corrected = "".join(f"{line}\n" for line in whole)
        causes = explain(old, corrected) or ("part_of_line",)
    alike = tuple(line + 1 for line in near.alike[:_SHOWN_ALIKE])
    return replace(
        rejection,
        nearest_lines=f"{near.start + 1}~{near.stop}",
        similarity=near.similarity,
        difference=difference,
        lines=(near.start + 1, *alike) if alike else rejection.lines,
        cause=causes or None,
        indented_by=None if corrected is None else indented_by(old, corrected) or None,
        similar_lines=alike or None,
        corrected_lines=corrected if len(corrected or "") <= _LONGEST else None,
    )


def _change(
    base: Snapshot, hunk: PatchHunk, part: Span, *, is_raw: bool
) -> tuple[list[Edit], Escapes]:
    """The edits of one hunk, in exact bytes if its old lines match to the byte, and one has an end.

    Otherwise lines are compared without their ends. `is_raw`: new lines are exact bytes without one
    that has an end, too.
    """
    first, last = part
    raw = base.raw(first, last)
    is_marked = first or hunk.old.startswith("\ufeff")  # else no second mark comes before it
    new, escapes = base.encoding.meant(
        hunk.new if is_marked else base.encoding.unmarked(hunk.new), raw
    )
    old, _ = base.encoding.meant(hunk.old, raw)
    starts = [base.start(at) for at in range(first, last + 1)]
    if not first and hunk.old.startswith("\ufeff"):
        starts[0] = 0  # the patch shows the byte order mark
    there = [base.slice(*span) for span in pairwise(starts)]
    is_exact = False
    with suppress(EncodingRefused):  # what the encoding lacks is not there
        is_exact = there == [base.encoding.bytes_of(line) for line in _raw_lines(old)]
    if is_exact and ("\n" in old or not base.line_count or is_raw):
        written = [base.encoding.bytes_of(line) for line in _raw_lines(new)]
        return [
            Edit(starts[a], starts[b], b"".join(written[c:d]))
            for a, b, c, d in _gaps(hunk.signs, there, written)
        ], escapes
    sides = (old, new) if first else map(base.encoding.unmarked, (old, new))
    was, come = (
        [*zip(content_lines(side), (line.endswith("\n") for line in _raw_lines(side)), strict=True)]
        for side in sides
    )
    return [
        Edit(
            base.start(first + a),
            base.start(first + b),
            _ended(base, come[c:d], first + a, first + b),
        )
        for a, b, c, d in _gaps(hunk.signs, was, come)
    ], escapes


def _raw_lines(text: str) -> list[str]:
    """The lines of a text with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ended(base: Snapshot, lines: Sequence[tuple[str, bool]], first: int, stop: int) -> bytes:
    """Encode new lines for those [first, stop); where they pair, each ends as its old line."""
    newline = base.newline_near(first, stop)
    ends = [newline] * len(lines)
    if len(lines) == stop - first:
        ends = [base.terminator(at) or newline for at in range(first, stop)]
    raw = b"".join(
        base.encoding.bytes_of(line) + (end if closed else b"")
        for (line, closed), end in zip(lines, ends, strict=True)
    )
    is_after_open = first == stop == base.line_count and not base.ends_with_newline
    return base.newline_near(first - 1, first) + raw if is_after_open and raw else raw


def _gaps(signs: str, old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[Gap]:
    """Yield what changes between lines that are kept: those that the signs say, or equal ones."""
    at = now = 0
    for same, changed in re.findall("( *)([-+]*)", signs or "-" * len(old) + "+" * len(new)):
        at, now = at + len(same), now + len(same)
        end, now_end = at + changed.count("-"), now + changed.count("+")
        for gap in align(old[at:end], new[now:now_end]).gaps():
            yield Gap(at + gap[0], at + gap[1], now + gap[2], now + gap[3])
        at, now = end, now_end


def _holds(ordered: Sequence[int], one: int) -> bool:
    at = bisect_left(ordered, one)
    return ordered[at : at + 1] == [one]


def _within(ordered: Sequence[int], bodies: Sequence[range]) -> list[int]:
    """The lines that are inside one of the bodies; both are sorted."""
    starts = [body.start for body in bodies]
    ends = [0, *accumulate((body.stop for body in bodies), max)]
    return [line for line in ordered if line < ends[bisect_right(starts, line)]]


def _is_open(text: str) -> bool:
    """Whether the text ends without a line end, which only the end of a file may."""
    return bool(text) and not text.endswith("\n")


def is_slight(hunk: PatchHunk) -> bool:
    """Whether at most one line comes for the old ones, or only such as they have, too."""
    new, old = content_lines(hunk.new), content_lines(hunk.old)
    return len(new) < 2 or not Counter(new) - Counter(old)


def _is_version(old: str, new: str) -> bool:
    """Whether a line is like an older one, with the same words but for a number or one of three."""
    was, now = (re.findall(r"\w+", line) for line in (old, new))
    changed = [pair for pair in zip(was, now, strict=False) if pair[0] != pair[1]]
    return (
        len(was) == len(now)
        and len(changed) < 2
        and (len(now) > 2 or all(one.isdigit() for pair in changed for one in pair))
        and 2 * sum(common_ends(old, new)) >= len(new)
    )


def _names(header: str, line: str) -> bool:
    """Whether a header matches the line: it is the line, or whole words at its start."""
    line, header = line.strip(), header.strip()
    return line.startswith(header) and not _IN_WORD.match(header[-1:] + line[len(header) :][:1])
