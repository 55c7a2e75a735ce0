"""Siblings in their order, as new blocks come between them and others go.

What lives here: linked lists of ids, one for each parent. What must not: what
the blocks are. Each step is O(1), whatever the number of siblings; the children
of a parent are taken over when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


class Order:
    """The order of blocks under each parent."""

    def __init__(self, children: Mapping[str, Sequence[str]]) -> None:
        self._children = children
        self._first: dict[str, str | None] = {}
        self._last: dict[str, str | None] = {}
        self._next: dict[str, str | None] = {}
        self._previous: dict[str, str | None] = {}

    def all(self, parent: str) -> Iterator[str]:
        """The blocks under a parent."""
        block = self._opened(parent)
        while block is not None:
            yield block
            block = self._next[block]

    def last(self, parent: str) -> str | None:
        """The last block under a parent."""
        self._opened(parent)
        return self._last[parent]

    def after(self, parent: str, block: str) -> str | None:
        """The block after this one."""
        self._opened(parent)
        return self._next[block]

    def before(self, parent: str, block: str) -> str | None:
        """The block before this one."""
        self._opened(parent)
        return self._previous[block]

    def insert(self, parent: str, previous: str | None, block: str) -> None:
        """Put a block after `previous`, or before all others."""
        first = self._opened(parent)
        behind = first if previous is None else self._next[previous]
        self._link(parent, previous, block)
        self._link(parent, block, behind)

    def remove(self, parent: str, block: str) -> None:
        """Take a block away."""
        self._opened(parent)
        self._link(parent, self._previous.pop(block), self._next.pop(block))

    def _opened(self, parent: str) -> str | None:
        """The first block under a parent, whose children are known from now on."""
        if parent not in self._first:
            previous: str | None = None
            for child in self._children[parent]:
                self._link(parent, previous, child)
                previous = child
            self._link(parent, previous, None)
        return self._first[parent]

    def _link(self, parent: str, one: str | None, other: str | None) -> None:
        """Let `other` follow `one`; None is what is beyond the ends."""
        if one is None:
            self._first[parent] = other
        else:
            self._next[one] = other
        if other is None:
            self._last[parent] = one
        else:
            self._previous[other] = one
