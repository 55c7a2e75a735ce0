"""Texts and edits of them, made from the standard library and a fixed seed.

Edits replace marked lines; each has the digest of the right result. Invariant: a marked line
occurs once in a text, and `Text` never holds more than one volume.
"""

from __future__ import annotations

import hashlib
import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SEED = 20260728
VOLUME_BYTES = 1 << 20
EVERY = 8
"""One line in so many is a marked one."""
CONTEXT = 3
_SLOT = b"@@@@@"


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Put the lines `new` in the place of `old`, which start at line `line` (from 1).

    Lines are without their terminator. `before` and `after` are their neighbours.
    """

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


@cache
def _template() -> tuple[bytes, ...]:
    """The lines of a volume, terminators included; `@@@@@` stands for its number."""
    draw = random.Random(SEED)
    lines: list[bytes] = []
    size = 0
    for source in _sources():
        for line in source.split(b"\n"):
            if len(lines) % EVERY == EVERY // 2:
                at = len(lines) // EVERY
                mark = b"    entry_%s_%05d = compute(0x%016x)\n" % (_SLOT, at, draw.getrandbits(64))
                lines.append(mark)
                size += len(mark)
            lines.append(line + b"\n")
            size += len(line) + 1
            if size >= VOLUME_BYTES:
                return tuple(lines)
    raise RuntimeError("the standard library has less source than a volume")


def _sources() -> Iterator[bytes]:
    """The standard library's plain sources: no form feeds and the like, on which tools differ."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py")):
        data = path.read_bytes().rstrip(b"\n")
        odd = any(code in data for code in b"\f\v\r\x1c\x1d\x1e\x00") or _SLOT in data
        if data.isascii() and not odd:
            yield data


@cache
def _volume_bytes() -> int:
    return sum(map(len, _template()))


@dataclass(frozen=True, slots=True)
class Text:
    """A text of about `size` bytes: volumes, the last one cut at a line's end."""

    size: int

    def write(self, path: Path, edits: Sequence[LineEdit] = ()) -> str:
        """Write the text with the edits made; its SHA-256."""
        digest = hashlib.sha256()
        with path.open("wb", buffering=0) as file:
            for raw in self._edited(edits):
                digest.update(raw)
                file.write(raw)
        return digest.hexdigest()

    def digest(self, edits: Sequence[LineEdit] = ()) -> str:
        """The SHA-256 of the text with the edits made."""
        digest = hashlib.sha256()
        for raw in self._edited(edits):
            digest.update(raw)
        return digest.hexdigest()

    def line_count(self) -> int:
        """How many lines the text has."""
        return _line_count(self.size)

    def marks(self, wanted: int) -> list[LineEdit]:
        """`wanted` marked lines, evenly spread, as edits that change nothing yet."""
        step = self.line_count() / wanted
        half = EVERY // 2
        found: list[LineEdit] = []
        for index in range(wanted):
            volume, at = divmod(int(step * (index + 0.5)), len(_template()))
            at = min(at // EVERY * EVERY + half, _last_mark(self.line_count(), volume))
            found.append(self._mark(volume, at))
        if len({edit.line for edit in found}) != wanted:
            raise ValueError(f"{self.size} bytes have no {wanted} marked lines")
        return found

    def lines(self, start: int, stop: int) -> list[str]:
        """The lines [start, stop), from 0."""
        per = len(_template())
        return [_line(*divmod(at, per)) for at in range(start, min(stop, self.line_count()))]

    def _mark(self, volume: int, at: int) -> LineEdit:
        line = volume * len(_template()) + at
        old = (_line(volume, at),)
        before = tuple(self.lines(line - CONTEXT, line))
        return LineEdit(line + 1, old, old, before, tuple(self.lines(line + 1, line + 1 + CONTEXT)))

    def _edited(self, edits: Sequence[LineEdit]) -> Iterator[bytes]:
        waiting = sorted(edits, key=lambda edit: -edit.line)
        first, total = 1, self.line_count()
        for number in range(self.size // _volume_bytes() + 1):
            lines = list(_template()[: total - first + 1])
            while waiting and waiting[-1].line < first + len(lines):
                edit = waiting.pop()
                assert _line(number, edit.line - first) == edit.old[0], "edits are of the text"
                lines[edit.line - first] = b"".join(line.encode() + b"\n" for line in edit.new)
            yield b"".join(lines).replace(_SLOT, b"%05d" % number)
            first += len(lines)


@cache
def _line_count(size: int) -> int:
    whole = size // _volume_bytes()
    return whole * len(_template()) + len(_cut(_template(), size - whole * _volume_bytes()))


def _line(volume: int, at: int) -> str:
    return _template()[at][:-1].replace(_SLOT, b"%05d" % volume).decode()


def _last_mark(total: int, volume: int) -> int:
    """The last marked line of a volume of a text of `total` lines, with context after it."""
    have = min(len(_template()), total - volume * len(_template()) - CONTEXT)
    return (have - 1 - EVERY // 2) // EVERY * EVERY + EVERY // 2


def _cut(lines: Sequence[bytes], size: int) -> Sequence[bytes]:
    """As many lines as fit into `size` bytes."""
    kept = 0
    for count, line in enumerate(lines):
        kept += len(line)
        if kept > size:
            return lines[:count]
    return lines


def revised(edit: LineEdit, note: str) -> LineEdit:
    """The edit that puts a note at the end of the line."""
    new = tuple(f"{line}  # {note}" for line in edit.old)
    return LineEdit(edit.line, edit.old, new, edit.before, edit.after)


def with_line_after(edit: LineEdit, text: str) -> LineEdit:
    """The edit that puts a line after the marked one."""
    return LineEdit(edit.line, edit.old, (*edit.old, text), edit.before, edit.after)


def unified(edits: Sequence[LineEdit], path: str) -> str:
    """The edits as a unified diff that `patch -p1` and `git apply` take."""
    parts = [f"--- a/{path}\n+++ b/{path}\n"]
    shift = 0
    for edit in edits:
        around = len(edit.before) + len(edit.after)
        start = edit.line - len(edit.before)
        parts.append(
            f"@@ -{start},{around + len(edit.old)} +{start + shift},{around + len(edit.new)} @@\n"
        )
        parts += _body(edit)
        shift += len(edit.new) - len(edit.old)
    return "".join(parts)


def envelope(edits: Sequence[LineEdit], path: str) -> str:
    """The edits in the form that `apply_patch` takes."""
    parts = [f"*** Begin Patch\n*** Update File: {path}\n"]
    for edit in edits:
        parts += ["@@\n", *_body(edit)]
    return "".join((*parts, "*** End Patch\n"))


def _body(edit: LineEdit) -> list[str]:
    return [
        *(f" {line}\n" for line in edit.before),
        *(f"-{line}\n" for line in edit.old),
        *(f"+{line}\n" for line in edit.new),
        *(f" {line}\n" for line in edit.after),
    ]
