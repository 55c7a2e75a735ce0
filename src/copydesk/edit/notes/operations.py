"""What a block diff becomes: updates, inserts and deletes of single blocks, in order.

What lives here: the operations and their inverses. What must not: how a store
does them. Laws: an operation can be done when all before it are done; done in
order, and then the inverses of all in the opposite order, they leave the blocks
as they were; the inverse of an inverse is the operation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from copydesk.edit.notes.blocks import Image

Side = Literal["before", "after", "first_in", "last_in"]


@dataclass(frozen=True, slots=True)
class Place:
    """Beside a block, or in a container: directly before or after, as the first or the last."""

    side: Side
    anchor: str


@dataclass(frozen=True, slots=True)
class Update:
    """Let a block hold another text; its id, its attributes and its place stay.

    `lines` of the diff, from 1, are those of the headers that ask for it, here
    and in the other operations; they do not count when operations are compared.
    """

    before: Image
    after: Image
    lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def inverse(self) -> Update:
        """The text as it was."""
        return Update(self.after, self.before, self.lines)


@dataclass(frozen=True, slots=True)
class Insert:
    """Make blocks at a place, in this order. As an inverse: bring one back, with its own id.

    `markdown` is the text of all of them. The anchor is a block that was there
    before the diff; only that of an inverse may be a new one, by its name.
    """

    place: Place
    markdown: str
    images: tuple[Image, ...]
    lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def inverse(self) -> Delete:
        """The blocks away again."""
        return Delete(self.place, self.markdown, self.images, self.lines)


@dataclass(frozen=True, slots=True)
class Delete:
    """Take a block away, and all that it holds. As an inverse: take away what was made.

    `place` is where it stood at that moment.
    """

    place: Place
    markdown: str
    images: tuple[Image, ...]
    lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def inverse(self) -> Insert:
        """The block back."""
        return Insert(self.place, self.markdown, self.images, self.lines)


Operation = Update | Insert | Delete
