"""DeleteFile, MoveFile and ChangeMode: what is done to a whole file, text or not."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from copydesk.edit.kinds.base import (
    Composed,
    Normalized,
    PathField,
    Place,
    Request,
    Span,
    Terms,
    kind,
    path_of,
)
from copydesk.errors import InvalidArgs
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import deleted, mode_changed, renamed
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Source, Text


class FileOperation(Request):
    """A request about a whole file, text or not; its plan applies only to the unchanged file."""

    __slots__ = ()
    is_operation, of_lines = True, False

    def with_text(self, text: str) -> Request:
        raise InvalidArgs("new_content", "is of an edit, and the hunk deletes or moves a file")

    def locate(self, base: Source) -> Place:
        return Place(0, base.line_count, None)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        removed = [Edit(0, base.size, b"")] if self.deletes else []
        return Composed(ChangeSet.of(base.size, removed), (), Normalized())

    def leaves(self, base: Text, change: ChangeSet) -> bool:
        return self.modes is not None and self.mode_after(self.modes[0]) is None


@kind
class DeleteFile(FileOperation):
    """Remove the file. `mode` is its mode with the type bits, for the diff alone."""

    deletes, reads = True, "bytes"
    _tool, _action = "prepare_file_delete", "file_delete"

    mode: int = 0o100644

    def with_mode(self, mode: int) -> Request:
        return replace(self, mode=mode)

    def diff(self, base: Text, change: ChangeSet, *, created: bool) -> bytes:
        return deleted(base, change, str(self.path), self.mode)

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        return ((place.start, place.stop),) if place.stop and terms.expected_old is None else ()


@kind
class MoveFile(FileOperation):
    """Rename the file to `to`, which must not exist; its bytes stay the same."""

    rank, reads = 2, "nothing"
    _tool, _action = "prepare_file_move", "file_move"
    _read_as: ClassVar = {**Request._read_as, "to": path_of}

    to: PathField

    @property
    def target(self) -> RelPath | None:
        return self.to

    def locate(self, base: Source) -> Place:
        return Place(0, 0, None)

    def diff(self, base: Text, change: ChangeSet, *, created: bool) -> bytes:
        return renamed(str(self.path), str(self.to))


@kind
class ChangeMode(FileOperation):
    """Make the file executable for all who can read it, or for nobody; `mode` has the type bits."""

    rank, reads = 1, "nothing"
    _tool, _action = "apply_diff", "file_mode"

    executable: bool
    mode: int = 0o100644

    @property
    def modes(self) -> tuple[int, int]:
        runs = self.mode | (self.mode & 0o444) >> 2
        return self.mode, runs if self.executable else self.mode & ~0o111

    def with_mode(self, mode: int) -> Request:
        return replace(self, mode=mode)

    def diff(self, base: Text, change: ChangeSet, *, created: bool) -> bytes:
        return mode_changed(str(self.path), *self.modes)
