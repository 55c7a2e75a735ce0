"""BatchEdit and ReplaceText: other text for text that is found in the file.

Several replacements in one file as one change set: all of them, or a refusal.

Invariants: every text is searched for in the original, and is there once; regions share no byte;
bytes that an edit keeps are not rewritten.

Where users could expect either of two behaviours:

- An edit that changes nothing must match too, and once; it is a check that
  its text is there. It collides like any other.
- CRLF and LF are the same in `old` and `new`, also when two edits are compared.
- `old` with bytes beyond ASCII in a file of unknown encoding is EncodingRefused,
  not "no match": naming the encoding is what helps.
- The byte order mark is never matched, so no edit can remove it.
- Arguments are checked before the file: duplicates, a batch that changes
  nothing, then what the file cannot encode, then places, then collisions, then
  new text that the file cannot encode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from operator import add, itemgetter
from typing import ClassVar, NamedTuple

from copydesk.edit.kinds.base import (
    Composed,
    Fixed,
    Normalized,
    Place,
    Request,
    Several,
    Span,
    check_text,
    content_lines,
    count_lines,
    is_unclosed,
    kind,
    of_parts,
    tuple_of,
)
from copydesk.edit.kinds.correction import (
    MOST,
    Corrected,
    is_elided,
    is_indented,
    lines_shown,
    of_elided,
    of_text,
    shifted,
)
from copydesk.errors import (
    Clash,
    CollisionDetected,
    DuplicateEdits,
    EncodingRefused,
    FailedEdit,
    InvalidArgs,
    PartialMatchFail,
    Refusal,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import align, common_ends
from copydesk.text.encoding import NO_ESCAPES, Encoding, Escapes
from copydesk.text.nearest import Near, indentation, indented_by, nearest_of
from copydesk.text.relpath import SupportsPath
from copydesk.text.search import (
    SHOWN,
    Matches,
    NormalizedText,
    find_all,
    find_apart,
    length_of,
    overlapping,
    with_returns,
)
from copydesk.text.search import (
    Span as ByteSpan,
)
from copydesk.text.snapshot import Snapshot, Source, Text


def fixed(request: Request, corrections: Sequence[Corrected]) -> Fixed:
    """The corrected request, certain if all its corrections are."""
    causes = dict.fromkeys(cause for each in corrections for cause in each.causes)
    return Fixed(request, tuple(causes), all(each.is_certain for each in corrections))


@kind
class BatchEdit(Request):
    """Make all `edits`, each searched for in the original text, or none."""

    reads, _tool = "whole", "prepare_batch_edit"
    quotes, by_text = "old_string says it already; leave it out", True
    voices: ClassVar[tuple[str, ...]] = ("batch",)
    _read_as: ClassVar = {**Request._read_as, "edits": tuple_of}

    edits: Several[StringEdit]

    @staticmethod
    def of(path: str | SupportsPath, edits: Iterable[StringEdit | tuple[str, str]]) -> BatchEdit:
        """Make a batch of edits or (old, new) pairs; InvalidArgs for none, or without old text."""
        batch = BatchEdit(path, [_edit_of(index, each) for index, each in enumerate(edits)])
        batch.check()
        return batch

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
        if not self.edits:
            raise InvalidArgs("edits", "must not be empty")
        for index, edit in enumerate(self.edits):
            check_text(f"edits[{index}].old_string", edit.old)
            check_text(f"edits[{index}].new_string", edit.new)

    @property
    def count(self) -> int:
        return len(self.edits)

    def locate(self, base: Source) -> Place:
        text = base.whole()
        return of_parts(part_lines(text, compile_batch(text, self.edits).spans))

    def may_be_corrected(self, failure: PartialMatchFail) -> bool:
        """Whether each text that was not found has a correction, or leaves out lines."""
        return all(
            one.corrected_old_string
            or any(map(is_elided, content_lines(self.edits[one.index].old)))
            for one in failure.failures
        )

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """All texts that are not found are corrected, or none."""
        if not isinstance(refusal, PartialMatchFail) or len(refusal.failures) > MOST:
            return None
        edits, corrections = [*self.edits], list[Corrected]()
        shown = lines_shown(base.whole())
        for failure in refusal.failures:
            edit, there = edits[failure.index], failure.corrected_old_string
            if there:
                correction = of_text(shown, edit.old, there, edit.new, failure.cause or ())
            else:
                correction = None if failure.matches_count else of_elided(shown, edit.old, edit.new)
            if correction is None:
                return None
            edits[failure.index] = StringEdit(correction.old, correction.new)
            corrections.append(correction)
        return fixed(replace(self, edits=tuple(edits)), corrections)

    def batch(self, base: Snapshot, parts: Sequence[Span]) -> Batch:
        """The edits in a text, each in its own lines only."""
        return compile_in(base, self.edits, parts)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        """Leave the end of the file as it is, unless an edit is of it."""
        batch = self.batch(base.whole(), place.parts)
        style = base.newline_name(base.dominant_newline)
        normalized = Normalized(not is_unclosed(base), newline_style=style)
        return Composed(batch.change, (), normalized, batch.escapes)

    def lines_at(self, place: Place) -> tuple[int, int]:
        old = len({line for start, stop in place.parts for line in range(start, stop)})
        grown = sum(edit.new.count("\n") - edit.old.count("\n") for edit in self.edits)
        return old + grown * place.candidates, old

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        return None

    def counts(self, place: Place) -> tuple[int, int]:
        added = place.candidates * count_lines(edit.new for edit in self.edits)
        return added, place.candidates * count_lines(edit.old for edit in self.edits)


@kind
class ReplaceText(BatchEdit):
    """Make one edit; with `everywhere`, at every place of its old text, as an edit by lines."""

    _tool, voices = "replace_text", ("edit", "replace_text")

    everywhere: bool = False

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """One that is to be everywhere is none: other places may be written otherwise."""
        return None if self.everywhere else BatchEdit.corrected(self, base, refusal)

    def locate(self, base: Source) -> Place:
        if not self.everywhere:
            return BatchEdit.locate(self, base)
        text = base.whole()
        spans = replace_everywhere(text, self.edits[0]).spans
        runs: list[Span] = []
        for start, stop in part_lines(text, spans):
            if runs and start < runs[-1][1]:
                runs[-1] = runs[-1][0], max(stop, runs[-1][1])
            else:
                runs.append((start, stop))
        return replace(of_parts(tuple(runs)), candidates=len(spans))

    def batch(self, base: Snapshot, parts: Sequence[Span]) -> Batch:
        if self.everywhere:
            return replace_in(base, self.edits[0], parts)
        return BatchEdit.batch(self, base, parts)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        """Add the newline that the last line lacks, before or because of the edit."""
        composed = BatchEdit.compose(self, base, place, created=created)
        if not composed.change or not is_unclosed(base.edited(composed.change)):
            return composed
        newline = base.newline_near(base.line_count - 1, base.line_count)
        closing = Edit(base.size, base.size, newline)
        was_closed = composed.normalized.file_eof_has_newline
        normalized = replace(
            composed.normalized,
            content_eof_has_newline=not was_closed,
            file_eof_newline_added=not was_closed,
            content_eof_newline_added=was_closed,
        )
        change = ChangeSet.of(base.size, [*composed.change.edits, closing])
        return composed._replace(change=change, normalized=normalized)


NO_OLD = "must not be empty: to make a file, or to fill an empty one, write the whole file"
"""Why an edit without an old text is refused."""

SHOWN_FAILURES = 500
"""Failing edits shown with their nearest match; all are listed."""

SHOWN_LINES = 200
"""Line numbers shown for all edits with several matches together; a few for each."""

_LEAST_LINES = 3

SHOWN_CORRECTIONS = 6_000
"""Characters of corrected texts shown; no text is cut."""

SHOWN_COLLISIONS = 5_000
"""Pairs shown; nested texts make millions."""


@dataclass(frozen=True, slots=True)
class StringEdit:
    """Replace `old`, which is not empty, by `new`; LF in both matches any line end."""

    old: str
    new: str

    def __post_init__(self) -> None:
        if not self.old:
            raise InvalidArgs("old_string", NO_OLD)

    def with_new(self, text: str) -> StringEdit:
        """The edit with another new text: whole lines where the old and the new one are."""
        is_cut = self.old[-1:] == self.new[-1:] == "\n" and text[-1:] not in ("", "\n")
        return replace(self, new=f"{text}\n" if is_cut else text)


def _edit_of(index: int, given: object) -> StringEdit:
    """The edit that a caller gave, or the pair of an old and a new text."""
    match given:
        case StringEdit():
            return given
        case (str() as old, str() as new):
            if not old:
                raise InvalidArgs(f"edits[{index}].old_string", NO_OLD)
            return StringEdit(old, new)
        case _:
            raise TypeError(
                f"edits[{index}] must be StringEdit or a pair of an old and a new text, "
                f"not {type(given).__name__}"
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """The edits at their places; `spans` are in bytes, in the order of the edits."""

    change: ChangeSet
    spans: tuple[ByteSpan, ...]
    no_op_count: int
    escapes: Escapes = NO_ESCAPES


_Place = tuple[ByteSpan, str | None]
"""Where an old text is, and the text there if it was matched by its escapes, which show bytes."""


def compile_batch(base: Snapshot, edits: Sequence[StringEdit]) -> Batch:
    """Return the change that makes all edits.

    Raises DuplicateEdits, PartialMatchFail, CollisionDetected, EncodingRefused, and InvalidArgs if
    no edit changes anything.
    """
    edits = _unmarked(base, edits)
    replacements = [_Replacement.of(edit) for edit in edits]
    _check_arguments(replacements)
    _check_known(base.encoding, edits)
    matched = _found(base, edits)
    if any(matches.count != 1 for matches, _ in matched):
        raise _failure(base, edits, [matches for matches, _ in matched])
    places = [(matches.spans[0], there) for matches, there in matched]
    spans = [span for span, _ in places]
    if pairs := list(islice(overlapping(spans), SHOWN_COLLISIONS + 1)):
        raise _collision(base, spans, pairs)
    return _batch(base, edits, replacements, places)


def compile_in_order(
    base: Snapshot,
    edits: Sequence[tuple[str, str]],
    *,
    is_code: bool = True,
    corrects: bool = True,
) -> Batch:
    """Return the change that makes the edits in sequence, each on the result of those before.

    If it `corrects`, an old text that is not found is sought in whole lines that are all indented
    by one amount more or less; the new lines are then indented so as well. An empty one is for an
    empty text. Raises PartialMatchFail if one has no match or several, if the new lines are
    there already, or, in code, if the indentation of the first is left out and lost in later ones;
    InvalidArgs for an empty one, and EncodingRefused.
    """
    now, batches = base, list[Batch]()
    for index, texts in enumerate(edits):
        old, new = (text.replace("\r\n", "\n") for text in texts)
        batches.append(_in_order(now, index, old, new, is_code=is_code, corrects=corrects))
        now = now.edited(batches[-1].change)
    changes = [ChangeSet.of(base.size, ()), *(batch.change for batch in batches)]
    while len(changes) > 1:  # combine neighbours first: one after the other takes quadratic time
        pairs = zip_longest(changes[::2], changes[1::2])
        changes = [one if other is None else one.then(other) for one, other in pairs]
    return Batch(
        changes[0],
        tuple(span for batch in batches for span in batch.spans),
        sum(batch.no_op_count for batch in batches),
        Escapes.of(batch.escapes for batch in batches),
    )


def _in_order(
    base: Snapshot, index: int, old: str, new: str, *, is_code: bool, corrects: bool
) -> Batch:
    if not old:
        if not base.line_count:
            return _inserted(base, base.start(0), new)
        raise InvalidArgs(
            f"edits[{index}].oldText",
            "must not be empty in a file that has lines: to insert text, give a line next to the"
            " place, and repeat it in newText",
        )
    (edit,) = _unmarked(base, [StringEdit(old, new)])
    old, new = edit.old, edit.new
    _check_known(base.encoding, [edit])
    ((matches, there),) = _found(base, [edit])
    if not matches.count and old != new:
        matches, there, new = _loosely(base, index, edit, corrects=corrects)
        edit = StringEdit(there or old, new)
    elif matches.count == 1 and is_code:
        _check_lead(base, index, matches.spans[0][0], edit)
    if matches.count != 1:
        failure = _failure(base, [edit], [matches]).failures[0]
        raise PartialMatchFail(index, (replace(failure, index=index),))
    return _batch(base, [edit], [_Replacement.of(edit)], [(matches.spans[0], there)])


def _check_lead(base: Snapshot, index: int, start: int, edit: StringEdit) -> None:
    """Raise PartialMatchFail if the first line lacks its indentation, and later new ones may too.

    They may where they are indented less than it and the old ones are; or where the second is not
    deeper although the first opens a block: the old one did, or the new one ends in a colon.
    """
    line = base.line_at(start)
    lead = base.encoding.text(base.slice(base.start(line), start))
    olds, news = (
        [indentation(one) for one in content_lines(text)[1:] if one.strip()]
        for text in (edit.old, edit.new)
    )
    was, now = next(iter(olds), ""), next(iter(news), lead + " ")
    is_flat = len(now) <= len(lead) and (
        len(was) > len(lead) or (was != now and edit.new.partition("\n")[0].rstrip().endswith(":"))
    )
    is_lost = is_flat or not all(one.startswith((lead, *olds)) for one in news)
    if lead and not lead.strip(" \t") and edit.old.partition("\n")[0].strip() and is_lost:
        failure = FailedEdit(
            *(index, "without indentation", 1, (), f"{line + 1}~{line + 1}"),
            indented_by=len(lead.expandtabs(8)),
            corrected_old_string=lead + edit.old,
        )
        raise PartialMatchFail(index, (failure,))


def _inserted(base: Snapshot, at: int, new: str) -> Batch:
    """The batch that inserts a text at a byte, without a second byte order mark."""
    new = base.encoding.unmarked(new) if at == base.start(0) else new
    newline = _newline(base, at, after_line=False)
    raw = newline.join(map(base.encoding.encode, new.split("\n")))
    return Batch(ChangeSet.of(base.size, [Edit(at, at, raw)]), ((at, at),), not raw)


def _loosely(
    base: Snapshot, index: int, edit: StringEdit, *, corrects: bool
) -> tuple[Matches, str, str]:
    """Match the old lines whatever blanks are around each; return the texts to exchange there.

    The only place is no match unless it `corrects`, all lines there are indented by one amount more
    or less, and nothing else differs; nor if a new line lacks what is to be taken off. The last
    terminator stays if the new text has none. Raises PartialMatchFail if the new lines are there
    already.
    """
    is_closed, is_open = edit.old.endswith("\n"), edit.new[-1:] not in "\n"
    shown, old = lines_shown(base), content_lines(edit.old)
    shift = shifted(shown, old, edit.new, end=is_closed)
    if shift.there:
        raise PartialMatchFail(index, (FailedEdit(index, "already there", 0, shift.there),))
    spans = tuple(
        (base.start(at), _end_of(base, at + len(old) - 1, is_closed=is_closed and not is_open))
        for at in shift.places[:SHOWN]
    )
    if len(shift.places) != 1:
        return Matches(len(shift.places), spans), "", ""
    there = shown[shift.places[0] :][: len(old)]
    if shift.new is None or not (corrects and edit.old.strip() and is_indented(old, there)):
        return Matches(0, ()), "", ""
    own = base.encoding.text(base.slice(*spans[0])).replace("\r\n", "\n")
    return Matches(1, spans), own, shift.new


def _end_of(base: Snapshot, line: int, *, is_closed: bool) -> int:
    """The byte after a line, before its terminator unless `is_closed`; the end after the last."""
    if line >= base.line_count:
        return base.size
    return base.start(line + 1) - (0 if is_closed else len(base.terminator(line)))


def replace_everywhere(base: Snapshot, edit: StringEdit) -> Batch:
    """The change that replaces all non-overlapping matches of one text, from the start."""
    _check_arguments([_Replacement.of(edit)])
    _check_known(base.encoding, [edit])
    return replace_in(base, edit, [(0, base.line_count)])


def part_lines(base: Snapshot, spans: Sequence[ByteSpan]) -> tuple[Span, ...]:
    """The lines [start, stop), 0-based, that each span touches."""
    return tuple(
        (max(base.line_at(start), 0), base.line_at(max(stop - 1, start)) + 1)
        for start, stop in spans
    )


def compile_in(base: Snapshot, edits: Sequence[StringEdit], parts: Sequence[Span]) -> Batch:
    """Return the change that makes all edits, each searched for in its own lines only."""
    places: list[_Place] = []
    edits = _unmarked(base, edits)
    for edit, part in zip(edits, parts, strict=True):
        piece, low = _piece(base, part)
        ((matches, there),) = _found(piece, [edit])
        if matches.count != 1:
            raise _failure(base, [edit], [matches])
        start, stop = matches.spans[0]
        places.append(((low + start, low + stop), there))
    return _batch(base, edits, [_Replacement.of(edit) for edit in edits], places)


def replace_in(base: Snapshot, edit: StringEdit, parts: Sequence[Span]) -> Batch:
    """Like `replace_everywhere`, in these lines only."""
    places: list[_Place] = []
    for part in parts:
        piece, low = _piece(base, part)
        apart = _places_apart(piece, edit)
        places += [((low + start, low + stop), there) for (start, stop), there in apart]
    if not places:
        raise _failure(base, [edit], [Matches(0, ())], once=False)
    every = len(places)
    return _batch(base, [edit] * every, [_Replacement.of(edit)] * every, places)


def _piece(base: Snapshot, part: Span) -> tuple[Snapshot, int]:
    """Return some lines as a text of their own, and the byte where they start."""
    low = base.start(part[0]) if part[0] else 0
    encoding = replace(base.encoding, bom=b"") if low else base.encoding
    return Snapshot(base.data[low : base.start(part[1])], encoding), low


def _places_apart(base: Snapshot, edit: StringEdit) -> list[_Place]:
    """All non-overlapping matches of the old text."""
    places: list[_Place] = [(span, None) for span in find_apart(base, edit.old)]
    end = 0
    for span, there in [] if places else _shown_at(base, edit):
        if span[0] >= end:
            places.append((span, there))
            end = span[1]
    return places


def _unmarked(base: Snapshot, edits: Sequence[StringEdit]) -> Sequence[StringEdit]:
    """The edits without the byte order mark where an old text is at the start of the file."""
    if not base.encoding.bom:
        return edits
    return [
        StringEdit(edit.old[1:], base.encoding.unmarked(edit.new))
        if len(edit.old) > 1 and edit.old.startswith("\ufeff") and _begins(base, edit.old[1:])
        else edit
        for edit in edits
    ]


def _begins(base: Snapshot, old: str) -> bool:
    """Whether the text begins with an old one."""
    lines = min(old.count("\n") + 1, base.line_count)
    first = base.encoding.text(base.slice(base.start(0), base.start(lines)))
    return first.replace("\r\n", "\n").startswith(old.replace("\r\n", "\n"))


def _found(base: Snapshot, edits: Sequence[StringEdit]) -> list[tuple[Matches, str | None]]:
    """The matches of each old text, and the actual text if it was matched by its escapes."""
    matched: list[tuple[Matches, str | None]] = []
    for edit, matches in zip(edits, find_all(base, [edit.old for edit in edits]), strict=True):
        if places := [] if matches.count else _shown_at(base, edit):
            matches = Matches(len(places), tuple(span for span, _ in places[:SHOWN]))
        matched.append((matches, places[0][1] if places else None))
    return matched


def _shown_at(base: Snapshot, edit: StringEdit) -> list[tuple[ByteSpan, str]]:
    """Match the old text as it was shown, with bytes as `\\xNN`."""
    if not base.encoding.escapes:
        return []
    pattern = base.encoding.pattern(edit.old.replace("\r\n", "\n"))
    return [] if pattern is None else NormalizedText.of(base).find(pattern)


class _Replacement(NamedTuple):
    """An edit with LF only, without what old and new have in common at both ends.

    So a line end that is kept stays the same, even in files with mixed ones. `old` [head, tail) is
    replaced by `new`; `start` and `stop` are those ends in the UTF-8 of `old`.
    """

    old: str
    head: int
    tail: int
    new: str
    whole_new: str
    start: int
    stop: int

    @staticmethod
    def of(edit: StringEdit) -> _Replacement:
        old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
        head, rest = (len(old), 0) if new.startswith(old) else common_ends(old, new)
        tail = len(old) - rest
        start, stop = head, tail
        if not old.isascii():
            start, stop = (len(old[:end].encode("utf-8", "surrogatepass")) for end in (head, tail))
        return _Replacement(old, head, tail, new[head : len(new) - rest], new, start, stop)

    @property
    def nothing(self) -> bool:
        """Whether old and new are equal."""
        return self.head == self.tail and not self.new

    def at(self, base: Snapshot, span: ByteSpan) -> Edit:
        """The edit of the bytes that differ, given that `old` is at `span`."""
        start, stop = self._ends(base, span)
        is_first = base.encoding.bom and start == base.start(0)  # no second mark comes there
        new = base.encoding.unmarked(self.new) if is_first else self.new
        if "\n" not in new:
            return Edit(start, stop, self._encoded(base.encoding, new))
        lines = new.split("\n")
        last = self._encoded(base.encoding, lines.pop())
        raw = [self._encoded(base.encoding, line) for line in lines]
        ends = self._line_ends(base, start, lines)
        return Edit(start, stop, b"".join(map(add, raw, ends)) + last)

    def _line_ends(self, base: Snapshot, start: int, lines: list[str]) -> list[bytes]:
        """The terminator of each new line; where the old ones differ, that of its old line."""
        newline = _newline(base, start, after_line=self.old.endswith("\n", 0, self.head))
        old = self.old[self.head : self.tail].split("\n")[:-1]
        first = base.line_at(start)
        there = [base.terminator(first + index) for index in range(len(old))]
        ends = [newline] * len(lines)
        if len(set(there)) < 2:
            return ends
        alignment = align(old, lines)
        changed = ((a, c, min(b - a, d - c)) for a, b, c, d in alignment.gaps())
        for was, now, size in (*alignment.runs, *changed):
            ends[now : now + size] = there[was : was + size]
        return ends

    def _ends(self, base: Snapshot, span: ByteSpan) -> ByteSpan:
        raw = base.data[slice(*span)]
        if raw == self.old.encode("utf-8", "surrogatepass"):  # as almost always
            return span[0] + self.start, span[0] + self.stop
        text = base.encoding.text(raw).encode("utf-8", "surrogatepass")
        marks = with_returns(text, (self.start, self.stop))
        if text != raw:  # it is no UTF-8
            heads = [text[:mark].decode("utf-8", "surrogatepass") for mark in marks]
            marks = (length_of(base.encoding, raw, head) for head in heads)
        start, stop = (span[0] + mark for mark in marks)
        return start, stop

    def _encoded(self, encoding: Encoding, part: str) -> bytes:
        try:
            return encoding.bytes_of(part)
        except EncodingRefused:
            encoding.bytes_of(self.whole_new)  # raises with the index in the caller's text
            raise


def _newline(base: Snapshot, start: int, *, after_line: bool) -> bytes:
    """The terminator for new lines at byte `start`: that of their line, or of lines nearby."""
    line = base.line_at(start) - after_line
    own = base.terminator(line) if line < base.line_count else b""
    return own or base.newline_near(line, base.line_count)


def _check_arguments(replacements: Sequence[_Replacement]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, replacement in enumerate(replacements):
        if (first := seen.setdefault((replacement.old, replacement.whole_new), index)) != index:
            raise DuplicateEdits((first, index))
    if all(replacement.nothing for replacement in replacements):
        raise InvalidArgs("edits", "no edit changes anything: old_string and new_string are equal")


def _check_known(encoding: Encoding, edits: Sequence[StringEdit]) -> None:
    """Raise EncodingRefused for non-ASCII text if the file's encoding is unknown."""
    if not encoding.known:
        for text in (each for edit in edits for each in (edit.old, edit.new)):
            encoding.encode(text)


def _batch(
    base: Snapshot,
    edits: Sequence[StringEdit],
    replacements: Sequence[_Replacement],
    places: Sequence[_Place],
) -> Batch:
    """The batch of replacements at their places."""
    spans = tuple(span for span, _ in places)
    escapes: list[Escapes] = []
    if base.encoding.escapes:
        replacements = list(replacements)
        for index, (edit, (span, there)) in enumerate(zip(edits, places, strict=True)):
            ((first, last),) = part_lines(base, [span])
            # what was matched as text is text in the new one too
            is_text = "\\x" in edit.old and there is None
            old = base.slice(*span) if is_text else base.raw(first, last)
            new, used = base.encoding.meant(edit.new, old)
            escapes.append(used)
            if there is not None or new != edit.new:
                meant = StringEdit(edit.old if there is None else there, new)
                replacements[index] = _Replacement.of(meant)
    placed = sorted(zip(spans, replacements, strict=True), key=itemgetter(0))
    # in order of position, so that what two adjacent edits insert between them is in it too
    real = [replacement.at(base, span) for span, replacement in placed if not replacement.nothing]
    return Batch(
        ChangeSet.of(len(base.data), real), spans, len(spans) - len(real), Escapes.of(escapes)
    )


def _collision(
    base: Snapshot, spans: Sequence[ByteSpan], pairs: Sequence[tuple[int, int]]
) -> CollisionDetected:
    """The refusal that names the pairs; if there are too many, also their number."""
    lines = [f"{start + 1}~{stop}" for start, stop in part_lines(base, spans)]
    shown = sorted(pairs[:SHOWN_COLLISIONS])
    named = [Clash(one, other, lines[one], lines[other]) for one, other in shown]
    if len(pairs) <= SHOWN_COLLISIONS:
        return CollisionDetected(tuple(named))
    order = sorted(spans)
    starts = [start for start, _ in order]
    count = sum(bisect_left(starts, stop) - at - 1 for at, (_, stop) in enumerate(order))
    return CollisionDetected(tuple(named), count)


def _failure(
    base: Snapshot, edits: Sequence[StringEdit], matched: Sequence[Matches], *, once: bool = True
) -> PartialMatchFail:
    """The refusal of all edits without a place, with help; `once`: a text must occur once only."""
    failing = [index for index, matches in enumerate(matched) if matches.count != 1]
    missing = [index for index in failing[:SHOWN_FAILURES] if not matched[index].count]
    nears = nearest_of(base, [edits[index].old for index in missing], once=once)
    near_of = dict(zip(missing, nears, strict=True))
    most = max(SHOWN_LINES // len(failing), _LEAST_LINES)
    failures: list[FailedEdit] = []
    room = SHOWN_CORRECTIONS
    for index in failing:
        matches, near = matched[index], near_of.get(index)
        lines = tuple(base.line_at(start) + 1 for start, _ in matches.spans[:most])
        reason = "several matches" if matches.count else "no match"
        failure = FailedEdit(index, reason, matches.count, lines)
        if near is not None:
            failure = _near_miss(index, edits[index].old, near, room)
            room -= len(failure.corrected_old_string or "")
        failures.append(failure)
    return PartialMatchFail(failing[0], tuple(failures))


def _near_miss(index: int, old: str, near: Near, room: int) -> FailedEdit:
    """The refusal of one edit whose text was not found: the nearest passage and how it differs."""
    by = indented_by(old, near.corrected) if near.corrected else None
    return FailedEdit(
        index,
        "no match",
        0,
        (),
        f"{near.start + 1}~{near.stop}",
        near.similarity,
        near.diff,
        near.causes or None,
        by or None,
        tuple(line + 1 for line in near.alike) or None,
        near.corrected if len(near.corrected or "") <= room else None,
    )
