"""A hunk of line ranges carried over drift, as the drift data set asks for it.

What lives here: the smallest editor around `copydesk.text.relocation`, so that the
rule can be measured without the rest of the product. Lines end at LF.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from copydesk.text.relocation import Carried, LineKeys, Relocation

BOM = b"\xef\xbb\xbf"

Change = tuple[int, int, list[bytes]]
"""Base lines [start, stop), from 0, and the lines that replace them, terminators included."""


def carry_hunk(base: bytes, changes: Sequence[Change], current: bytes) -> bytes | None:
    """What current becomes by the hunk planned on base; None where it is refused.

    A replacement relies on the lines it replaces, an insertion on both
    neighbours. All ranges are carried, in order, or none.
    """
    old, now = split(base.removeprefix(BOM)), split(current.removeprefix(BOM))
    relocation = Relocation(
        LineKeys.of([bare(x) for x in old]), LineKeys.of([bare(x) for x in now])
    )
    placed: list[tuple[int, int, list[bytes]]] = []
    end = 0
    for start, stop, new in changes:
        wide = int(start == stop)
        verdict = relocation.carry(start - wide, stop + wide)
        if not isinstance(verdict, Carried):
            return None
        at = verdict.at + wide
        if at < end:
            return None
        end = at + stop - start
        texts = [new[0].removeprefix(BOM), *new[1:]] if new and start == 0 else new
        if _is_there(old, start, stop, texts) < _is_there(now, at, end, texts):
            return None
        placed.append((at, end, _in_style(texts, _style(old, start, stop), _style(now, at, end))))
    return _with_bom(base, changes, current) + _written(old, changes, now, placed)


def split(data: bytes) -> list[bytes]:
    """Lines with their terminators; none for an empty text."""
    parts = data.split(b"\n")
    tail = parts.pop()
    return [part + b"\n" for part in parts] + ([tail] if tail else [])


def bare(line: bytes) -> bytes:
    """The line without its terminator."""
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def terminator(line: bytes) -> bytes:
    """The line's terminator; empty for an unterminated last line."""
    return line[len(bare(line)) :]


def _style(lines: list[bytes], start: int, stop: int) -> bytes:
    """The terminator in use at lines [start, stop), else before, else after them."""
    order = [*range(start, stop), *range(start - 1, -1, -1), *range(stop, len(lines))]
    return next(filter(None, (terminator(lines[k]) for k in order)), b"\n")


def _in_style(new: list[bytes], planned: bytes, found: bytes) -> list[bytes]:
    """The new lines, with the terminator found where they have the one planned on."""
    return [bare(x) + found if terminator(x) == planned else x for x in new]


def _is_there(lines: list[bytes], start: int, stop: int, new: list[bytes]) -> bool:
    """Whether the new lines stand at [start, stop) already, and go beyond it."""
    size = len(new)
    if size <= stop - start:
        return False
    texts = [bare(x) for x in new]
    spots = (start, stop - size)
    return any(k >= 0 and [bare(x) for x in lines[k : k + size]] == texts for k in spots)


def _with_bom(base: bytes, changes: Sequence[Change], current: bytes) -> bytes:
    """The byte order mark of the result: current's, unless the hunk gives or takes it."""
    had = base.startswith(BOM)
    firsts = [new[0] for start, stop, new in changes if start == 0 < stop and new]
    has = firsts[0].startswith(BOM) if firsts else had
    if has != had:
        return BOM if has else b""
    return BOM if current.startswith(BOM) else b""


def _written(
    old: list[bytes],
    changes: Sequence[Change],
    now: list[bytes],
    placed: Iterable[tuple[int, int, list[bytes]]],
) -> bytes:
    """The text of `now` with the placed ranges replaced.

    Every line but the last has a terminator. The last has one as it has in
    `now`, unless the hunk itself gives or takes it.
    """
    out: list[bytes] = []
    end = 0
    for at, to, new in placed:
        out += now[end:at] + new
        end = to
    out += now[end:]
    if not out:
        return b""
    planned: list[bytes] = []
    end = 0
    for start, stop, new in changes:
        planned += old[end:start] + new
        end = stop
    planned += old[end:]
    toggled = bool(planned) and bool(old) and _ends(planned) != _ends(old)
    keeps = _ends(planned) if toggled else not now or _ends(now)
    style = _style(now, len(now), len(now))
    inner = [line if terminator(line) else line + style for line in out[:-1]]
    last = out[-1] if terminator(out[-1]) else out[-1] + style
    return b"".join(inner) + (last if keeps else bare(last))


def _ends(lines: list[bytes]) -> bool:
    return bool(terminator(lines[-1]))
