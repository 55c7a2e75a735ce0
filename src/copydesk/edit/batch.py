"""Several replacements of one file as one change set: all of them, or a refusal.

What lives here: what a batch of string edits becomes. What must not: the disk,
the envelope. Invariants: every text is sought in the original; each stands
there once; regions share no byte; bytes that an edit keeps are kept as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.edit.request import BatchEdit, StringEdit
from copydesk.errors import (
    Clash,
    CollisionDetected,
    DuplicateEdits,
    FailedEdit,
    InvalidArgs,
    PartialMatchFail,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import Encoding
from copydesk.text.match import Matches, find_all, overlapping, with_returns
from copydesk.text.near import nearest
from copydesk.text.snapshot import Snapshot

SHOWN_FAILURES = 20
"""So many failing edits are shown with their nearest place; all are named."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """The edits at their places: the spans of bytes in the order of the edits."""

    change: ChangeSet
    spans: tuple[Span, ...]
    no_op_count: int


def compile_batch(base: Snapshot, edits: Sequence[StringEdit]) -> Batch:
    """The change that makes all edits.

    Raises DuplicateEdits, PartialMatchFail, CollisionDetected, EncodingRefused,
    and InvalidArgs when no edit changes anything.
    """
    _check_duplicates(edits)
    found = find_all(base, [edit.old for edit in edits])
    if any(matches.count != 1 for matches in found):
        raise _failure(base, edits, found)
    spans = tuple(matches.spans[0] for matches in found)
    pairs = overlapping(spans)
    if pairs:
        raise CollisionDetected(tuple(_clash(base, spans, *pair) for pair in pairs))
    return Batch(*_change(base, edits, spans))


def replace_everywhere(base: Snapshot, edit: StringEdit) -> Batch:
    """The change that replaces every place of one text, from the start, none overlapping."""
    matches = find_all(base, [edit.old], every=True)[0]
    if not matches.count:
        raise _failure(base, [edit], [matches])
    spans: list[Span] = []
    for span in matches.spans:
        if not spans or span[0] >= spans[-1][1]:
            spans.append(span)
    return Batch(*_change(base, [edit] * len(spans), tuple(spans)))


def part_lines(base: Snapshot, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The lines [start, stop), 0-based, that each span touches."""
    return tuple(
        (max(base.line_at(start), 0), base.line_at(max(stop - 1, start)) + 1)
        for start, stop in spans
    )


def compile_parts(base: Snapshot, request: BatchEdit, parts: Sequence[Span]) -> Batch:
    """The batch where each edit is sought in its own lines alone."""
    spans: list[Span] = []
    for edit, (first, last) in zip(request.edits, parts, strict=True):
        low = base.start(first) if first else 0
        piece = Snapshot(base.data[low : base.start(last)], _inner(base.encoding, low))
        matches = find_all(piece, [edit.old])[0]
        if matches.count != 1:
            raise _failure(base, [edit], [matches])
        spans.append((matches.spans[0][0] + low, matches.spans[0][1] + low))
    return Batch(*_change(base, request.edits, tuple(spans)))


def _inner(encoding: Encoding, low: int) -> Encoding:
    """The encoding of a piece that starts at `low`: only the file's start has the mark."""
    return Encoding(encoding.name, b"", encoding.unit) if low else encoding


def _check_duplicates(edits: Sequence[StringEdit]) -> None:
    seen: dict[StringEdit, int] = {}
    for index, edit in enumerate(edits):
        if edit in seen:
            raise DuplicateEdits((seen[edit], index))
        seen[edit] = index


def _change(
    base: Snapshot, edits: Sequence[StringEdit], spans: Sequence[Span]
) -> tuple[ChangeSet, tuple[Span, ...], int]:
    made = [_edit(base, edit, span) for edit, span in zip(edits, spans, strict=True)]
    real = [edit for edit in made if edit is not None]
    if not real:
        raise InvalidArgs("edits", "no edit changes anything: old_string and new_string are equal")
    return ChangeSet.of(len(base.data), real), tuple(spans), len(made) - len(real)


def _edit(base: Snapshot, edit: StringEdit, span: Span) -> Edit | None:
    """The bytes that differ, without what old and new have in common at both ends.

    So a line end that is kept stays the one it was, in files of mixed ones too.
    New line ends are that of the line where they are put.
    """
    old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
    if old == new:
        return None
    head = _common(old, new)
    rest = min(len(old), len(new)) - head
    tail = _common(old[::-1][:rest], new[::-1][:rest])
    raw = base.data[span[0] : span[1]]
    start, stop = _offsets(base.encoding, raw, old, head, len(old) - tail)
    start, stop = span[0] + start, span[0] + stop
    parts = [base.encoding.encode(part) for part in new[head : len(new) - tail].split("\n")]
    return Edit(start, stop, (_newline(base, start) if len(parts) > 1 else b"").join(parts))


def _common(one: str, other: str) -> int:
    """How many characters at the start are the same, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _offsets(encoding: Encoding, raw: bytes, old: str, head: int, tail: int) -> tuple[int, int]:
    """Where the characters `head` and `tail` of `old` (with LF) start in its raw bytes."""
    if encoding.name in ("utf-8", "unknown"):
        marks = [len(old[:head].encode()), len(old[:tail].encode())]
        first, last = with_returns(raw, marks)
        return first, last
    text = raw.decode(encoding.name, "surrogateescape")
    own = text.encode("utf-8", "surrogatepass")
    found = with_returns(own, [len(old[:mark].encode()) for mark in (head, tail)])
    first, last = (
        len(own[:mark].decode("utf-8", "surrogatepass").encode(encoding.name, "surrogateescape"))
        for mark in found
    )
    return first, last


def _newline(base: Snapshot, start: int) -> bytes:
    """The terminator of the line at the place, else of its neighbourhood."""
    line = min(base.line_at(start), max(base.line_count - 1, 0))
    if base.line_count == 0:
        return base.dominant_newline
    return base.terminator(line) or base.newline_near(line, line + 1)


def _clash(base: Snapshot, spans: Sequence[Span], one: int, other: int) -> Clash:
    (a, b), (c, d) = part_lines(base, (spans[one], spans[other]))
    return Clash(one, other, f"{a + 1}~{b}", f"{c + 1}~{d}")


def _failure(
    base: Snapshot, edits: Sequence[StringEdit], found: Sequence[Matches]
) -> PartialMatchFail:
    failures: list[FailedEdit] = []
    for index, (edit, matches) in enumerate(zip(edits, found, strict=True)):
        if matches.count == 1:
            continue
        if matches.count:
            lines = tuple(base.line_at(start) + 1 for start, _ in matches.spans)
            failures.append(FailedEdit(index, "several matches", matches.count, lines))
            continue
        near = nearest(base, edit.old) if len(failures) < SHOWN_FAILURES else None
        if near is None:
            failures.append(FailedEdit(index, "no match", 0, ()))
        else:
            where = f"{near.start + 1}~{near.stop}"
            failures.append(FailedEdit(index, "no match", 0, (), where, near.similarity, near.diff))
    return PartialMatchFail(failures[0].index, tuple(failures))
