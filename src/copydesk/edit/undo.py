"""The way back of an edit, carried to a text that has changed since.

What lives here: from the inverse of an edit, made for the text after it, to the
change of the text as it is now. What must not: files, journals, who may undo.
Invariants: lines that the edit did not touch keep their bytes; the lines that it
touched stand as it left them, or nothing is taken back (`Drift` has the rule).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from copydesk.edit.relocate import Drift
from copydesk.errors import AmbiguousMatch, ContentChanged
from copydesk.text.align import align
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import Encoding
from copydesk.text.follow import standing
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.unified import touched


def drift_of(
    inverse: ChangeSet,
    after: Text,
    now: Text,
    known: Sequence[ChangeSet] | None,
    taken_back: Mapping[int, int],
) -> Drift:
    """What lies between the text after an edit and the text now; see `Drift`.

    A byte order mark that the edit itself put there belongs to the first line.
    """
    if any(edit.start < len(after.encoding.bom) for edit in inverse.edits):
        after, now = after.unmarked(), now.unmarked()
    return Drift(after, now, known, taken_back)


def needed(inverse: ChangeSet, known: Sequence[ChangeSet]) -> Iterator[tuple[int, int]]:
    """The bytes of the text now from which the one after the edit is told where it matters.

    Those of the edit and of all changes since, `known` being their inverses.
    """
    for at, one in enumerate((inverse, *known)):
        for edit in one.edits:
            yield standing(edit.start, edit.stop, known[at:])


def lines_of(inverse: ChangeSet, after: Text) -> tuple[int, int]:
    """The first run of lines that the inverse touches, 0-based, half-open."""
    start, stop, _ = touched(after, inverse)[0]
    return start, stop


def carried(inverse: ChangeSet, drift: Drift) -> ChangeSet:
    """The change that takes the edit back in the text now; raises ContentChanged, AmbiguousMatch.

    Each run of lines that the inverse touches is carried as one, or, where that
    fails, only those of its lines that differ before and after the edit. A run of
    no lines, where some come back, stands between its two neighbours. What comes
    back has the line endings that the lines have now, when somebody changed these.

    Law: in the text after the edit this is the inverse itself.
    """
    base, now = drift.base, drift.now
    if base.encoding.encode("\n") != now.encoding.encode("\n"):
        raise ContentChanged(_OTHER_ENCODING)
    placed = [
        one
        for start, stop, edits in touched(base, inverse)
        for one in _placed(_run(base, start, stop, edits), drift)
    ]
    for (one, at), (other, then) in pairwise(placed):
        if at + one.size > then:
            raise ContentChanged("parted", f"{one.start + 1}~{other.stop}")
    change = ChangeSet.of(now.size, _edits(placed, drift))
    if (
        drift.known is None
        and base.encoding.name != now.encoding.name
        and not all(edit.new.isascii() for edit in change.edits)
    ):
        raise ContentChanged(_OTHER_ENCODING)
    return change


_OTHER_ENCODING = "the file has another encoding now"


@dataclass(frozen=True, slots=True)
class _Run:
    """Lines [start, stop) of the text after the edit, and the raw lines that come back for them.

    `edits` are the bytes of it that are replaced, where all lines are those of the inverse.
    """

    start: int
    stop: int
    new: tuple[bytes, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def size(self) -> int:
        """How many lines there are."""
        return self.stop - self.start

    @property
    def foot(self) -> tuple[int, int]:
        """The lines that it relies on."""
        return (self.start, self.stop) if self.size else (self.start - 1, self.start + 1)


_Placed = tuple[_Run, int]
"""A run, and the line of the text now where it starts."""


def _run(base: Text, start: int, stop: int, edits: Sequence[Edit]) -> _Run:
    low, high = base.start(start), base.start(stop)
    inner = ChangeSet.of(high - low, (Edit(e.start - low, e.stop - low, e.new) for e in edits))
    new = Snapshot(inner.apply(base.slice(low, high)), replace(base.encoding, bom=b""))
    return _Run(start, stop, _raw(new), tuple(edits))


def _raw(text: Snapshot) -> tuple[bytes, ...]:
    return tuple(text.raw(i, i + 1) for i in range(text.line_count))


def _placed(run: _Run, drift: Drift) -> list[_Placed]:
    try:
        return [(run, run.start + drift.shift(run.foot))]
    except (ContentChanged, AmbiguousMatch):
        parts = list(_parts(run, drift.base))
        if [part.foot for part in parts] == [run.foot]:
            raise
    return [(part, part.start + drift.shift(part.foot)) for part in parts]


def _parts(run: _Run, base: Text) -> Iterator[_Run]:
    """Those lines of the run that differ before and after the edit."""
    was = [base.raw(i, i + 1) for i in range(run.start, run.stop)]
    new = Snapshot(b"".join(run.new), replace(base.encoding, bom=b""))
    keys = [base.key(i) for i in range(run.start, run.stop)]
    a = b = 0
    for i, j, length in [*align(keys, new.keys).runs, (len(was), len(run.new), 0)]:
        if a < i or b < j:
            yield _Run(run.start + a, run.start + i, run.new[b:j])
        a, b = i, j
        for k in range(length + 1):  # the text of these lines stays, but perhaps not their ends
            if k == length or was[i + k] == run.new[j + k]:
                if a < i + k:
                    yield _Run(run.start + a, run.start + i + k, run.new[b : j + k])
                a, b = i + k + 1, j + k + 1
        a, b = i + length, j + length


def _edits(placed: Sequence[_Placed], drift: Drift) -> Iterator[Edit]:
    """The replaced bytes of the text now, from its end to its start."""
    end, followed = drift.now.line_count, False
    for run, at in reversed(placed):
        followed = followed or at + run.size < end
        yield from _edits_of(run, at, drift, followed=followed)
        end, followed = at, followed or bool(run.new)


def _edits_of(run: _Run, at: int, drift: Drift, *, followed: bool) -> Iterator[Edit]:
    """Those of one run; `followed`: it is not the end of the text that comes out."""
    base, now = drift.base, drift.now
    stop = at + run.size
    ends = [(base.terminator(run.start + i), now.terminator(at + i)) for i in range(run.size)]
    around = ends or [*_ends_around(run, at, drift)]
    restyled = any(one and other and one != other for one, other in around)
    open_before = not run.size and 0 < at == now.line_count and not now.ends_with_newline
    encoding = now.encoding
    open_end = followed and bool(run.new) and not _ending(run.new[-1], encoding)
    same = all(one == other for one, other in ends) and not restyled
    if run.edits and same and not open_before and not open_end:
        by = now.start(at) - base.start(run.start)
        yield from (Edit(e.start + by, e.stop + by, e.new) for e in run.edits)
        return
    newline = now.newline_near(at, stop)
    lines = [_ended(line, newline, encoding) for line in run.new] if restyled else list(run.new)
    if open_end:
        lines[-1] += newline
    if open_before and lines:
        lines.insert(0, newline)
    yield Edit(now.start(at), now.start(stop), b"".join(lines))


def _ends_around(run: _Run, at: int, drift: Drift) -> Iterator[tuple[bytes, bytes]]:
    """The line endings of the neighbours of a run without lines, before and now."""
    if run.start:
        yield drift.base.terminator(run.start - 1), drift.now.terminator(at - 1)
    if run.stop < drift.base.line_count:
        yield drift.base.terminator(run.stop), drift.now.terminator(at)


def _ending(raw: bytes, encoding: Encoding) -> bytes:
    """The bytes that end a raw line, if any do."""
    return Snapshot(raw, replace(encoding, bom=b"")).terminator(0)


def _ended(raw: bytes, newline: bytes, encoding: Encoding) -> bytes:
    """The raw line with another ending, if it has one."""
    ending = _ending(raw, encoding)
    return raw[: len(raw) - len(ending)] + newline if ending else raw
