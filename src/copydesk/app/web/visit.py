"""One request to the page: who asks, for what, with which form.

What lives here: `Visit`. What must not: what is done with it (`site`, `deeds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from copydesk.app.web.entrance import Session
from copydesk.app.web.reviewing import Person

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody with a session. `in_part`: the script of a page asks for it."""

    session: Session
    person: Person
    query: Mapping[str, str]
    place: Mapping[str, str]
    many: tuple[str, ...] = ()
    form: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    in_part: bool = False

    @property
    def edit_id(self) -> int:
        """The edit that the address names; -1, which no edit has, where it names none."""
        text = self.place["edit_id"]
        is_one = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if is_one else -1
