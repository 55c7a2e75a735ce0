"""The benchmark: `make bench`, `make bench-quick`. Results in `RESULTS.md`."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).parent.parent


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
