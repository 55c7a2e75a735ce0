"""A path of the workspace: relative, normal, below the root.

Invariant: `parts` holds no empty part, no ".", no "..", no NUL; every part is valid Unicode. The
root itself is the path without parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from copydesk.errors import InvalidPath, PathRequired

NAME_BYTES = 255
"""The longest name that the usual file systems take."""
PATH_BYTES = 4095
"""The longest path that a system call takes."""


@dataclass(frozen=True, slots=True, order=True)
class RelPath:
    """A normal path below the root; `str()` gives it with "/" between the parts."""

    parts: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> RelPath:
        """The path that `text` spells.

        Raises PathRequired for an empty text, InvalidPath for an absolute path,
        NUL, a lone surrogate, ".." that leaves the root, or one that no system can name.
        """
        if not text:
            raise PathRequired()
        if "\0" in text:
            raise InvalidPath("NUL in path")
        if text.startswith(("/", "\\\\")) or text[1:3] in (":\\", ":/"):
            raise InvalidPath("absolute path")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidPath("lone surrogate in path") from None
        parts: list[str] = []
        for part in text.split("/"):
            if part == "..":
                if not parts:
                    raise InvalidPath("path leaves the workspace")
                parts.pop()
            elif part not in ("", "."):
                if len(part) * 4 > NAME_BYTES and len(part.encode()) > NAME_BYTES:
                    raise InvalidPath(f"a name has more than {NAME_BYTES} bytes")
                parts.append(part)
        if len(text) * 4 > PATH_BYTES and len("/".join(parts).encode()) > PATH_BYTES:
            raise InvalidPath(f"the path has more than {PATH_BYTES} bytes")
        return RelPath(tuple(parts))

    @property
    def name(self) -> str:
        """The last part; empty for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> RelPath:
        """The path without its last part; the root's parent is the root."""
        return RelPath(self.parts[:-1])

    def covers(self, other: RelPath) -> bool:
        """Whether the other path is this one, or below it."""
        return other.parts[: len(self.parts)] == self.parts

    def __truediv__(self, part: str) -> RelPath:
        return RelPath((*self.parts, part))

    def __str__(self) -> str:
        return "/".join(self.parts) or "."
