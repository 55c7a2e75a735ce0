"""The desk of notes, made when it is first asked for: a start without notes loads none of it."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, cast

from copydesk.desk.desk import FileDesk
from copydesk.desk.drafts import Setting
from copydesk.desk.member import Permission
from copydesk.desk.transaction import Writer
from copydesk.store.locks import held_at_fork

if TYPE_CHECKING:
    from copydesk.notes.desk import NotesDesk, OpenNotes


class LazyNotes:
    """Makes the notes desk once, thread-safe; `open_home` opens a permission's store."""

    def __init__(
        self, setting: Setting, writer: Writer, open_home: Callable[[Permission], OpenNotes]
    ) -> None:
        self._parts = setting, writer, open_home
        self._made: NotesDesk | None = None
        self._lock = held_at_fork(RLock())

    def __call__(self) -> NotesDesk:
        with self._lock:
            if self._made is None:
                from copydesk.notes.desk import NotesDesk

                self._made = NotesDesk(*self._parts)
            return self._made

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()


def notes_of(desk: FileDesk) -> NotesDesk:
    """The desk of the notes beside a desk of files."""
    return cast("NotesDesk", desk.blocks())
