"""What can be the id of a block: 14 digits, a hyphen, 7 lower-case letters or digits.

What lives here: the form of ids, and new ones. What must not: which of them are
there. Invariant: what has passed `valid` can stand in a path, a query or a
line of attributes as it is.
"""

from __future__ import annotations

import re
import secrets
import time

from copydesk.store.notes.errors import InvalidBlockId

_FORM = re.compile(r"[0-9]{14}-[0-9a-z]{7}")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def is_id(value: str) -> bool:
    """Whether this can be an id."""
    return _FORM.fullmatch(value) is not None


def valid(value: str) -> str:
    """The id itself; InvalidBlockId for what cannot be one."""
    if not is_id(value):
        raise InvalidBlockId(value)
    return value


def new_id() -> str:
    """An id that nothing has: of this second, and 36 bits of chance."""
    chance = "".join(secrets.choice(_LETTERS) for _ in range(7))
    return f"{time.strftime('%Y%m%d%H%M%S')}-{chance}"
