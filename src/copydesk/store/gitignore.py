"""What the `.gitignore` files of a workspace leave out, by the rules of git.

A later line decides before an earlier one, a file deeper down before one above it, and nothing
comes back below a directory that is left out. Files above the root, and git's own lists, do not
count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from copydesk.errors import Refusal
from copydesk.store.files import Files
from copydesk.text.relpath import Glob, RelPath, class_end, class_pattern

NAME = ".gitignore"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file. `whole`: it is for the path from the file on, not for a name alone."""

    glob: Glob
    whole: bool
    directories: bool
    again: bool
    """It begins with `!`: what it names is not left out."""


class GitIgnore:
    """The ignore files below a root, read once until `forget`; `lines` decide before them.

    Without `in_files` they alone count; with them `node_modules` is left out too.
    """

    def __init__(self, files: Files, lines: Iterable[str] = (), *, in_files: bool = True) -> None:
        self._files = files
        self._first = _lines_of(lines)
        self._last = _lines_of(("node_modules/",) if in_files else ())
        self._in_files = in_files
        self._lines: dict[tuple[str, ...], tuple[tuple[int, tuple[_Line, ...]], ...]] = {}

    def forget(self) -> None:
        """Read the files anew when they are asked for."""
        self._lines.clear()

    def leaves_out(self, path: RelPath, top: RelPath) -> bool:
        """Whether a file below `top` is left out, by itself or with a directory that it is in."""
        stop = len(path.parts)
        return any(
            self.names(RelPath(path.parts[:count]), directory=count < stop)
            for count in range(len(top.parts) + 1, stop + 1)
        )

    def names(self, path: RelPath, *, directory: bool) -> bool:
        """Whether the last line that names this very path leaves it out."""
        parts = path.parts
        said = _said(self._first, parts, directory)
        if said is None and self._in_files:
            for depth, lines in self._above(parts[:-1]):
                said = _said(lines, parts[depth:], directory)
                if said is not None:
                    break
        if said is None:
            said = _said(self._last, parts, directory)
        return bool(said)

    def _above(self, folder: tuple[str, ...]) -> tuple[tuple[int, tuple[_Line, ...]], ...]:
        """The lines of the files in a directory and above it, the deepest first, with its depth."""
        found = self._lines.get(folder)
        if found is None:
            own = self._of(RelPath(folder))
            found = ((len(folder), own),) if own else ()
            if folder:
                found += self._above(folder[:-1])
            self._lines[folder] = found
        return found

    def _of(self, folder: RelPath) -> tuple[_Line, ...]:
        """The lines of the file in a directory; none without one that can be read."""
        try:
            _, stamp = self._files.stat(folder / NAME)
            data = self._files.read(folder / NAME).data if stamp.size <= _MOST_BYTES else b""
        except Refusal:
            return ()
        text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
        return _lines_of(text.split("\n"))


def _lines_of(texts: Iterable[str]) -> tuple[_Line, ...]:
    """What the lines say, the last one first."""
    found = [line for line in map(_line, texts) if line is not None]
    return tuple(reversed(found))


def _said(lines: tuple[_Line, ...], parts: tuple[str, ...], directory: bool) -> bool | None:
    """Whether lines leave a path out; None if no line is for it."""
    if not lines:
        return None
    for line in lines:
        if line.directories and not directory:
            continue
        if line.glob.matches(parts if line.whole else parts[-1:]):
            return not line.again
    return None


def _line(text: str) -> _Line | None:
    """What one line says; None for a comment, a blank line, and one that names nothing."""
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    again = text.startswith("!")
    text = text[again:]
    if not text or (text.startswith("#") and not again):
        return None
    directories = text.endswith("/")
    text = text.removesuffix("/")
    whole = "/" in text
    try:
        return _Line(_glob(text.removeprefix("/")), whole, directories, again)
    except re.error:
        return None


def _glob(text: str) -> Glob:
    """A glob: `*` and `?` within a name, `**` over names."""
    return Glob(tuple(None if name == "**" else _name(name) for name in text.split("/")))


def _name(glob: str) -> re.Pattern[str]:
    """What a whole name must match; a text between two `*` is sought once, at its first place."""
    found = [""]
    at = 0
    while at < len(glob):
        char = glob[at]
        end = class_end(glob, at) if char == "[" else 0
        if char == "\\" and at + 1 < len(glob):
            at += 1
            found[-1] += re.escape(glob[at])
        elif char == "*":
            found.append("")
        elif char == "?":
            found[-1] += "."
        elif end:
            found[-1] += class_pattern(glob[at + 1 : end])
            at = end
        else:
            found[-1] += re.escape(char)
        at += 1
    first, *within = found
    last = f".*{within.pop()}" if within else ""
    sought = "".join(f"(?>.*?{text})" for text in within if text)
    return re.compile(first + sought + last, re.DOTALL | re.ASCII)
