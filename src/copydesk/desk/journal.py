"""The record of every write: who, when, where, from what to what, and the way back.

What lives here: the entry, the protocol, and a journal in memory. What must
not: the writing of documents. Invariant: an entry is safe before the file is
touched, and it is closed after; what is open after a crash is in doubt and is
settled by comparing digests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Literal, Protocol

from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath

State = Literal["open", "done", "failed"]
Kind = Literal["edit", "create"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One write of one file.

    `edit_id` is 0 until the journal gives one. `before` and `after` are SHA-256
    in hex, `before` empty for a creation. `inverse` takes the bytes after back
    to the bytes before. `diff` is the one that was reported. `time_ms` is
    milliseconds since 1970 (UTC).
    """

    time_ms: int
    member: str
    tool: str
    path: RelPath
    kind: Kind
    before: str
    after: str
    inverse: ChangeSet
    diff: bytes
    hunk_id: str = ""
    edit_id: int = 0
    state: State = "open"


class Journal(Protocol):
    """The entries of one workspace, in the order of their ids."""

    def open(self, entry: Entry) -> int:
        """Record what is about to be written, durably; the new id."""
        ...

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        """Record, durably, all old bytes of a file that is about to be written in place."""
        ...

    def close_entry(self, edit_id: int, state: State) -> None:
        """Record how the write ended."""
        ...

    def entries(
        self, path: RelPath | None = None, member: str | None = None, most: int = 50
    ) -> tuple[Entry, ...]:
        """The last entries, the newest first."""
        ...

    def get(self, edit_id: int) -> Entry | None:
        """One entry."""
        ...

    def close(self) -> None:
        """Let go of what the journal holds."""
        ...


class MemoryJournal:
    """The journal of one process, of the last `most` writes."""

    def __init__(self, most: int = 1_000) -> None:
        self._entries: dict[int, Entry] = {}
        self._most = most
        self._count = 0
        self._lock = Lock()

    def open(self, entry: Entry) -> int:
        """Record what is about to be written; the new id."""
        with self._lock:
            self._count += 1
            self._entries[self._count] = replace(entry, edit_id=self._count)
            if len(self._entries) > self._most:
                del self._entries[min(self._entries)]
            return self._count

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        """A journal in memory cannot outlive a crash, so there is nothing to keep it for."""

    def close_entry(self, edit_id: int, state: State) -> None:
        """Record how the write ended."""
        with self._lock:
            if edit_id in self._entries:
                self._entries[edit_id] = replace(self._entries[edit_id], state=state)

    def entries(
        self, path: RelPath | None = None, member: str | None = None, most: int = 50
    ) -> tuple[Entry, ...]:
        """The last entries, the newest first."""
        with self._lock:
            found = [
                e
                for e in reversed(self._entries.values())
                if path in (None, e.path) and member in (None, e.member)
            ]
        return tuple(found[:most])

    def get(self, edit_id: int) -> Entry | None:
        """One entry."""
        with self._lock:
            return self._entries.get(edit_id)

    def close(self) -> None:
        """Nothing is held."""
