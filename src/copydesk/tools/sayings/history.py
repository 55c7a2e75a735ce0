"""What the history of edits, transactions and undo say."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {}
