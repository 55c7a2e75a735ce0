"""A hunk of line ranges carried over drift, in the form of the drift data set.

The smallest editor around `copydesk.text.relocation`, so that the rule can be measured alone.
Lines end at LF.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from io import BytesIO
from itertools import chain

from copydesk.text.diff import changed_part
from copydesk.text.encoding import UTF8
from copydesk.text.relocation import OF_SOME, Carried, Changed, LineKeys, Relocation, Verdict
from copydesk.text.snapshot import Snapshot

BOM = b"\xef\xbb\xbf"

Change = tuple[int, int, list[bytes]]
"""Base lines [start, stop), from 0, and the lines that replace them, terminators included."""


def carry(base: Sequence[bytes], now: Sequence[bytes], start: int, stop: int) -> Verdict:
    """Carry one footprint; see `Relocation.carry`."""
    return Relocation(LineKeys.of(base), LineKeys.of(now)).carry(start, stop)


def carry_hunk(base: bytes, changes: list[Change], current: bytes) -> bytes | None:
    """What current becomes by the hunk planned on base; None where it is refused.

    A replacement relies on the lines it replaces, an insertion on both
    neighbours. All ranges are carried, in order, or none. If some of their
    lines were changed, those that they only repeat at their ends are left out.
    """
    result = _carried(base, changes, current)
    if not isinstance(result, str):
        return result
    trimmed = [*map(partial(_trimmed, Lines(base)), changes)]
    again = _carried(base, trimmed, current) if trimmed != changes else None
    return again if isinstance(again, bytes) and result in OF_SOME else None


def _trimmed(old: Lines, change: Change) -> Change:
    start, stop, new = change
    lines = [old[k].removeprefix(BOM) for k in range(start, stop)]
    part = changed_part(lines, [line.removeprefix(BOM) for line in new])
    if part is None:
        return change
    (low, high), there = part
    return start + low, start + high, new[slice(*there)]


def _carried(base: bytes, changes: Sequence[Change], current: bytes) -> bytes | str | None:
    """The text; or why the first range is not carried that is not; None for other reasons."""
    old, now = Lines(base.removeprefix(BOM)), Lines(current.removeprefix(BOM))
    relocation = Relocation(LineKeys.of(old.keys), LineKeys.of(now.keys))
    placed: list[tuple[int, int, list[bytes]]] = []
    end = 0
    for start, stop, new in changes:
        wide = int(start == stop)
        verdict = relocation.carry(start - wide, stop + wide)
        if not isinstance(verdict, Carried):
            return verdict.reason if isinstance(verdict, Changed) else None
        at = verdict.at + wide
        if at < end:
            return None
        end = at + stop - start
        texts = [new[0].removeprefix(BOM), *new[1:]] if new and start == 0 else new
        if _is_there(old, start, stop, texts) < _is_there(now, at, end, texts):
            return None
        placed.append((at, end, _in_style(texts, _style(old, start, stop), _style(now, at, end))))
    return _with_bom(base, changes, current) + _written(old, changes, now, placed)


class Lines:
    """The lines of a text with their terminators; none for an empty text."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.keys = Snapshot(data, UTF8).keys
        """The lines without terminators, as the product gives them to the rule."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, line: int) -> bytes:
        return self._ended[line]

    @cached_property
    def _ended(self) -> list[bytes]:
        return BytesIO(self._data).readlines()

    def text(self, start: int, stop: int) -> bytes:
        """Lines [start, stop)."""
        return b"".join(self._ended[start:stop])


def bare(line: bytes) -> bytes:
    """The line without its terminator."""
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def terminator(line: bytes) -> bytes:
    """The line's terminator; empty for an unterminated last line."""
    return line[len(bare(line)) :]


def _style(lines: Lines, start: int, stop: int) -> bytes:
    """The terminator in use at lines [start, stop), else before, else after them."""
    order = chain(range(start, stop), range(start - 1, -1, -1), range(stop, len(lines)))
    return next(filter(None, (terminator(lines[k]) for k in order)), b"\n")


def _in_style(new: list[bytes], planned: bytes, found: bytes) -> list[bytes]:
    """The new lines, with the terminator found where they have the one planned on."""
    return [bare(x) + found if terminator(x) == planned else x for x in new]


def _is_there(lines: Lines, start: int, stop: int, new: list[bytes]) -> bool:
    """Whether the new lines stand at [start, stop) already, and go beyond it."""
    size = len(new)
    if size <= stop - start:
        return False
    texts = tuple(map(bare, new))
    return any(k >= 0 and lines.keys[k : k + size] == texts for k in (start, stop - size))


def _with_bom(base: bytes, changes: Sequence[Change], current: bytes) -> bytes:
    """The byte order mark of the result: current's, unless the hunk gives or takes it."""
    had = base.startswith(BOM)
    firsts = [new[0] for start, stop, new in changes if start == 0 < stop and new]
    has = firsts[0].startswith(BOM) if firsts else had
    if has != had:
        return BOM if has else b""
    return BOM if current.startswith(BOM) else b""


def _written(
    old: Lines,
    changes: Sequence[Change],
    now: Lines,
    placed: Iterable[tuple[int, int, list[bytes]]],
) -> bytes:
    """The text of `now` with the placed ranges replaced.

    Every line but the last has a terminator. The last has one as it has in
    `now`, unless the hunk itself gives or takes it.
    """
    style = _style(now, len(now), len(now))
    out, end = b"", 0
    for at, to, new in placed:
        out = _ended(out + now.text(end, at), style)
        out += b"".join(_ended(line, style) for line in new)
        end = to
    out += now.text(end, len(now))
    if not out:
        return b""
    planned, end = b"", 0
    for start, stop, new in changes:
        planned = b"".join(new[-1:]) or (planned if start == end else old[start - 1])
        end = stop
    if end < len(old):
        planned = old[len(old) - 1]
    was = bool(old) and old[len(old) - 1].endswith(b"\n")
    toggled = bool(planned) and bool(old) and planned.endswith(b"\n") != was
    now_ends = not now or now[len(now) - 1].endswith(b"\n")
    keeps = planned.endswith(b"\n") if toggled else now_ends
    out = _ended(out, style)
    return out if keeps else bare(out)


def _ended(text: bytes, style: bytes) -> bytes:
    """The text, with a terminator at its end if it is not empty."""
    return text + style if text and not text.endswith(b"\n") else text
