"""Imports without the collector of cycles, which would look through them again and again."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def importing(*, to_serve: bool = False) -> Generator[None]:
    """Pause the collector; `to_serve`: it permanently skips the current objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if to_serve:
            gc.freeze()
        if was_on:
            gc.enable()
