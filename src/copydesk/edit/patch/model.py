"""What a patch says of each file, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from copydesk.edit.request import PatchHunk
from copydesk.errors import PatchInvalid

Kind = Literal["add", "delete", "update"]

REGULAR, EXECUTABLE = "100644", "100755"


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch says of one file.

    `names` are the paths that may be meant, the likeliest first, and `other` is one that may be
    meant as well as the first if both are there; `to` is the new name of a
    file that is moved. `line` is where this begins in the patch. `base` is the start of the
    blob id that git gives to the file before, `after` to the one after, `mode` git's mode of
    that; all are empty where the patch does not say. The hunks of a file that is added or
    deleted hold its whole text, if `has_text`.
    """

    kind: Kind
    names: tuple[str, ...]
    line: int
    hunks: tuple[PatchHunk, ...] = ()
    to: str = ""
    base: str = ""
    after: str = ""
    mode: str = ""
    has_text: bool = True
    other: str = ""

    @property
    def path(self) -> str:
        return self.names[0]


class PatchLines:
    """The lines of a patch, taken one after the other; each but the last one ends with LF.

    A CR belongs to a line where only the text of files has it: a patch whose own lines,
    those that `is_marker` knows, end with CRLF was converted on its way.
    """

    def __init__(self, text: str, is_marker: str | tuple[str, ...]) -> None:
        self._lines = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        marks = [line for line in self._lines if line.lstrip().startswith(is_marker)]
        if marks and all(line.endswith("\r") for line in marks):
            self._lines = [line.removesuffix("\r") for line in self._lines]
        self.at = 0

    @property
    def number(self) -> int:
        """The number of the line that is next, from 1."""
        return self.at + 1

    def peek(self, ahead: int = 0) -> str | None:
        """The line that is next, or a later one; None beyond the last."""
        at = self.at + ahead
        return self._lines[at] if at < len(self._lines) else None

    def take(self) -> str:
        self.at += 1
        return self._lines[self.at - 1]

    def before(self, count: int) -> Iterator[str]:
        """The lines before the one that is next, the last one first, so many at most."""
        yield from reversed(self._lines[max(self.at - count, 0) : self.at])


def invalid(reason: str, line: int | None = None, text: str | None = None) -> PatchInvalid:
    """The refusal of a text that is no patch, at one of its lines."""
    return PatchInvalid(reason, line, text if text is None else text[:_SHOWN])


_SHOWN = 200


def once_each(patches: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """The patches, if they name each file once; raises PatchInvalid."""
    seen: set[str] = set()
    for patch in patches:
        for name in {patch.path, patch.to} - {""}:
            if name in seen:
                raise invalid("file_twice", patch.line, name)
            seen.add(name)
    return tuple(patches)


def joined(patches: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """The patches, in order, one for each file; PatchInvalid if a moved one is named twice."""
    found: dict[str, FilePatch] = {}
    for patch in patches:
        before = found.get(patch.path)
        if before is None:
            found[patch.path] = patch
            continue
        if (before.kind, patch.kind) != ("update", "update") or before.to or patch.to:
            raise invalid("file_twice", patch.line, patch.path)
        hunks = (*before.hunks, *patch.hunks)
        found[patch.path] = FilePatch("update", before.names, before.line, hunks)
    return once_each(tuple(found.values()))
