"""The collection of garbage, put off while many values are made that stay for a moment.

What lives here: one context. What must not: anything that is large; what is
made within is bounded by what a call was given. The collector would look at all
of it again and again: with ten thousand edits a quarter of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_inside = 0
_was_on = False


@contextmanager
def put_off() -> Generator[None]:
    """No collection within; after the last of several at once it is as it was before the first."""
    global _inside, _was_on
    with _lock:
        if not _inside:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _was_on:
                gc.enable()
