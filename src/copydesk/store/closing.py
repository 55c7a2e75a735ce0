"""What is let go when its `with` ends.

What lives here: the protocol of a context, once. What must not: what is held.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A context that closes itself at the end, whatever ends it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is held."""
        raise NotImplementedError
