"""What a caller expects of a file before an edit is made in it.

What lives here: the expectations, and their check. What must not: the disk.
Invariant: an expectation that was not given holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from copydesk.errors import Conflict
from copydesk.text.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Expected:
    """What the caller knows of the file: milliseconds since 1970, bytes, hex of the SHA-256."""

    mtime_ms: int | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether nothing is expected."""
        return self.mtime_ms is None and self.size_bytes is None and self.sha256 is None

    def check(self, base: Snapshot, mtime_ms: int) -> None:
        """Raise Conflict, with all that is otherwise."""
        digest = None if self.sha256 is None else self.sha256.lower()
        told = (
            ("expected_size_bytes", self.size_bytes, self.size_bytes, base.size),
            ("expected_mtime_ms", self.mtime_ms, self.mtime_ms, mtime_ms),
            ("expected_sha256", self.sha256, digest, base.digest),
        )
        wrong: dict[str, dict[str, int | str]] = {
            name: {"expected": given, "actual": actual}
            for name, given, expected, actual in told
            if given is not None and expected != actual
        }
        if wrong:
            name, first = next(iter(wrong.items()))
            raise Conflict(name, first["expected"], first["actual"], wrong)
