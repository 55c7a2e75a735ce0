"""Imports without the garbage collector, which would scan the new objects repeatedly."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def importing(*, to_serve: bool = False) -> Generator[None]:
    """Pause the collector; `to_serve`: it will skip the current objects permanently."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if to_serve:
            gc.freeze()
        if was_on:
            gc.enable()
