"""A command line that cannot be used, and the names that were perhaps meant.

What lives here: the one exception for it. What must not: the grammar (`cli`),
the configuration (`config`).
"""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 100


class UsageError(Exception):
    """The command line asks for what there is not; `hint` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UsageError:
    """The error for a name that there is not, with the close ones."""
    return UsageError(f"no {kind} {name[:_LONGEST]!r}{perhaps(name, known)}", hint)


def perhaps(name: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?`, or nothing when no name is close."""
    from difflib import get_close_matches  # only a mistake pays for it

    close = get_close_matches(name[:_LONGEST], list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
