"""Whether a request that a program made itself is one that could have come over the wire.

What lives here: the check that the library makes at its door. What must not: what
is wrong in a file. Law: past it a request keeps the invariant of `request`.
"""

from __future__ import annotations

from copydesk.edit.request import (
    BatchEdit,
    BlockReplace,
    Insert,
    Occurrence,
    Request,
)
from copydesk.errors import InvalidArgs


def check_request(request: Request) -> None:
    """Raise InvalidArgs, naming the argument, for a text or an occurrence that cannot be one."""
    if isinstance(request, BatchEdit):
        for index, edit in enumerate(request.edits):
            check_text(f"edits[{index}].old_string", edit.old)
            check_text(f"edits[{index}].new_string", edit.new)
        return
    check_text("content", request.content)
    if isinstance(request, Insert):
        check_text("anchor", request.anchor.text)
        _check_occurrence(request.occurrence)
    if isinstance(request, BlockReplace):
        check_text("start_anchor", request.start_anchor.text)
        check_text("end_anchor", request.end_anchor.text)
        _check_occurrence(request.occurrence)


def check_text(argument: str, text: str) -> None:
    """Raise InvalidArgs for a NUL, and for a lone surrogate."""
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgs(argument, "holds a lone surrogate") from None


def _check_occurrence(occurrence: Occurrence | None) -> None:
    if isinstance(occurrence, int) and occurrence < 1:
        raise InvalidArgs("occurrence", "must be a number from 1, or last")
