"""Long results: cut where they are shown, kept as a whole under a name.

What lives here: the texts of one session, by member and name. What must not: what
they say. Invariants: what is cut says so, and how to read on; a member sees its
own texts alone.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

LENGTH = 8_000
"""Characters of a result that are shown at once, unless told otherwise."""

MOST_TEXTS = 200
MOST_CHARACTERS = 32 << 20
"""So much is kept of all texts together; the oldest go first."""


class Kept:
    """Texts by name. Safe to use from many threads. `length` None: nothing is cut."""

    def __init__(self, length: int | None = LENGTH) -> None:
        self.length = length
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._count = 0
        self._size = 0
        self._lock = Lock()

    def is_long(self, text: str) -> bool:
        """Whether the text is too long to be shown at once."""
        return self.length is not None and len(text) > self.length

    def keep(self, member: str, tool: str, text: str) -> str:
        """Keep a text; its name."""
        with self._lock:
            self._count += 1
            name = f"{tool}_{self._count}"
            self._texts[member, name] = text
            self._size += len(text)
            while len(self._texts) > 1 and (
                len(self._texts) > MOST_TEXTS or self._size > MOST_CHARACTERS
            ):
                self._size -= len(self._texts.popitem(last=False)[1])
            return name

    def find(self, member: str, name: str) -> str | None:
        """The text of that name, if it is still kept."""
        with self._lock:
            return self._texts.get((member, name))

    def names(self, member: str) -> tuple[str, ...]:
        """The names of the member's texts, the oldest first."""
        with self._lock:
            return tuple(name for owner, name in self._texts if owner == member)
