"""Which files that ripgrep met may be shown, and under which name.

What lives here: the one decision about a file of a result. What must not: a
process. Invariant: a path comes out only when the caller may read the file
under the name shown and under its real one, and the real one is below the root
at the time of asking, after rg has read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath


@dataclass(frozen=True, slots=True)
class Gate:
    """`asked` is the search path as the caller spelled it, `real` what it resolves to."""

    asked: RelPath
    real: RelPath
    resolve: Callable[[RelPath], RelPath]
    readable: Callable[[RelPath], bool]
    follow: bool

    def path_shown(self, spelled: bytes) -> str | None:
        """The path for what rg calls `spelled` (`./a/b`), or None: not to be shown."""
        parts = [part for part in spelled.split(b"/") if part not in (b"", b".")]
        start, below = parts[: len(self.real.parts)], parts[len(self.real.parts) :]
        if start != [part.encode() for part in self.real.parts]:
            return None
        names = [_utf8(name) for name in below]
        exact = [name for name in names if name is not None]
        if len(exact) == len(names):
            return self._exact(tuple(exact))
        if self.follow:
            return None  # cannot be resolved: a link of that name may lead anywhere
        known = tuple(exact[: names.index(None)])
        if not self._stands_at(RelPath((*self.real.parts, *known))):
            return None
        escaped = _decoded(below, "backslashreplace")
        # A rule is asked about both spellings, since it can name neither.
        if self._may_read(escaped) and self._may_read(_decoded(below, "replace")):
            return str(RelPath((*self.asked.parts, *escaped)))
        return None

    def _exact(self, names: tuple[str, ...]) -> str | None:
        if not self._may_read(names):
            return None
        path = RelPath((*self.real.parts, *names))
        if not self.follow:
            may = self._stands_at(path)
        else:
            found = self._resolved(path)
            may = found is not None and self.readable(found)
        return str(RelPath((*self.asked.parts, *names))) if may else None

    def _may_read(self, names: tuple[str, ...]) -> bool:
        return self.readable(RelPath((*self.real.parts, *names))) and self.readable(
            RelPath((*self.asked.parts, *names))
        )

    def _stands_at(self, path: RelPath) -> bool:
        return self._resolved(path) == path

    def _resolved(self, path: RelPath) -> RelPath | None:
        try:
            return self.resolve(path)
        except Refusal:
            return None


def _utf8(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _decoded(names: list[bytes], errors: str) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", errors) for name in names)
