"""What `.gitignore` leaves out, the charset that `.editorconfig` sets, and what git has of files.

`.gitignore` follows the rules of git: a later line wins over an earlier one, a deeper file over one
above it, and nothing below an excluded directory can be included again. Files above the root, and
git's own lists, do not count.

Of `.editorconfig` only `charset` is used. Its globs are those of the specification: `*`, `**`, `?`,
`[abc]`, `[!a-z]`, `{a,b}` (nested too), `{1..3}`, and a backslash before any of them; an unclosed
bracket, or a brace without a comma, is literal. Invariants: nothing above the root is read; a match
takes time proportional to the length of the glob times that of the path, since globs come from the
files of a workspace (`docs/decisions/0016-globs-of-editorconfig.md`).

Git is asked without running anything that a repository configures.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from copydesk.errors import InvalidArgs, Refusal
from copydesk.store.files import Files
from copydesk.store.protocol import Committed
from copydesk.text import sizes
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import Glob, RelPath, braces, name_pattern

NAME = ".gitignore"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file. `whole`: it matches the path below the file, not just a name."""

    glob: Glob
    whole: bool
    directories: bool
    again: bool
    """The line begins with `!`: it includes what it matches again."""


class GitIgnore:
    """The ignore files below a root, read once until `forget`; `lines` take precedence.

    Without `in_files` only `lines` count; with it, `node_modules` is left out too.
    """

    def __init__(self, files: Files, lines: Iterable[str] = (), *, in_files: bool = True) -> None:
        self._files = files
        self._first = _lines_of(lines)
        self._last = _lines_of(("node_modules/",) if in_files else ())
        self._in_files = in_files
        self._lines: dict[tuple[str, ...], tuple[tuple[int, tuple[_Line, ...]], ...]] = {}

    def forget(self) -> None:
        """Read the files again when they are next needed."""
        self._lines.clear()

    def leaves_out(self, path: RelPath, top: RelPath) -> bool:
        """Whether a file below `top` is excluded, by itself or with a directory above it."""
        stop = len(path.parts)
        return any(
            self.names(RelPath(path.parts[:count]), directory=count < stop)
            for count in range(len(top.parts) + 1, stop + 1)
        )

    def names(self, path: RelPath, *, directory: bool) -> bool:
        """Whether the last line that matches this path itself excludes it."""
        parts = path.parts
        above = self._above(parts[:-1]) if self._in_files else ()
        every = ((0, self._first), *above, (0, self._last))
        verdicts = (_said(lines, parts[depth:], directory) for depth, lines in every)
        return next((verdict for verdict in verdicts if verdict is not None), False)

    def _above(self, folder: tuple[str, ...]) -> tuple[tuple[int, tuple[_Line, ...]], ...]:
        """The lines of the files in a directory and above, deepest first, each with its depth."""
        if (lines := self._lines.get(folder)) is None:
            own = self._of(RelPath(folder))
            lines = ((len(folder), own),) if own else ()
            if folder:
                lines += self._above(folder[:-1])
            self._lines[folder] = lines
        return lines

    def _of(self, folder: RelPath) -> tuple[_Line, ...]:
        """The lines of the file in a directory; none if it cannot be read."""
        try:
            _, stamp = self._files.stat(folder / NAME)
            data = self._files.read(folder / NAME).data if stamp.size <= _MOST_BYTES else b""
        except Refusal:
            return ()
        return _lines_of(data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n"))


def _lines_of(texts: Iterable[str]) -> tuple[_Line, ...]:
    """The parsed lines in reverse order."""
    return tuple(line for line in map(_line, reversed([*texts])) if line is not None)


def _said(lines: tuple[_Line, ...], parts: tuple[str, ...], directory: bool) -> bool | None:
    """Whether the lines exclude a path; None if no line matches it."""
    verdicts = (
        not line.again
        for line in lines
        if directory or not line.directories
        if line.glob.matches(parts if line.whole else parts[-1:])
    )
    return next(verdicts, None)


def _line(text: str) -> _Line | None:
    """Parse one line; None for a comment, a blank line or an invalid glob."""
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    again = text.startswith("!")
    text = text[again:]
    if not text or (text.startswith("#") and not again):
        return None
    directories = text.endswith("/")
    text = text.removesuffix("/")
    try:
        names = text.removeprefix("/").split("/")  # `*` and `?` match within a name, `**` across
        flags = re.DOTALL | re.ASCII
        glob = Glob(
            tuple(None if name == "**" else re.compile(name_pattern(name), flags) for name in names)
        )
        return _Line(glob, "/" in text, directories, again)
    except re.error:
        return None


_LONGEST = 1_000
_DEEPEST = 20
_MOST_RANGES = 4
_RANGE = re.compile(r"\{([+-]?\d{1,9})\.\.([+-]?\d{1,9})\}", re.ASCII)
_CLASS = re.compile(r"\[(!?)((?:\\[^/]|[^\\\]/])+)\]", re.DOTALL)
_MEMBER = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,8})", re.ASCII)


@lru_cache(maxsize=1_024)
def matches(glob: str, path: str) -> bool:
    """Whether the section `[glob]` covers a path below the file; no slash: in any folder.

    A glob of over 1,000 characters, 20 nested braces or four ranges matches nothing.
    """
    if len(glob) > _LONGEST or len(_RANGE.findall(glob)) > _MOST_RANGES:
        return False
    whole = glob.removeprefix("/") if "/" in glob else f"**/{glob}"
    try:
        return bool(_Matcher(path).ends(whole, 1) >> len(path) & 1)
    except RecursionError:
        return False


class _Matcher:
    """Matches globs with a path. Bit `i` of a set is the position before character `i`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        for i, character in enumerate(path):
            self._places[character] = self._places.get(character, 0) | 1 << i
        self._slashes = self._places.get("/", 0)
        self._plain = ((1 << len(path)) - 1) & ~self._slashes

    def ends(self, glob: str, starts: int, depth: int = 0) -> int:
        """The positions where the glob can end if it begins at one of `starts`."""
        if depth > _DEEPEST:
            raise RecursionError
        choices = {marks[0]: marks for marks in braces(glob) if len(marks) > 2}
        at = 0
        while at < len(glob) and starts:
            character, length = glob[at], 1
            if character == "\\" and at + 1 < len(glob):
                starts, length = (starts & self._places.get(glob[at + 1], 0)) << 1, 2
            elif glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
                starts, length = starts | ((self._slashes << 1) & self._from_first(starts)), 3
            elif glob.startswith("**", at):
                starts, length = self._from_first(starts), 2
            elif character == "*":
                # Adding at the low end of a run of ones carries through to its end: the bits that
                # the sum changes are the way from each start to the next slash.
                starts |= (self._plain + (starts & self._plain)) ^ self._plain
            elif character == "?":
                starts = (starts & self._plain) << 1
            elif character == "[" and (named := _CLASS.match(glob, at)):
                starts, length = (starts & self._members(named)) << 1, len(named[0])
            elif character == "{" and (span := _RANGE.match(glob, at)):
                starts, length = self._numbers(starts, int(span[1]), int(span[2])), len(span[0])
            elif at in choices:
                reached, marks = 0, choices[at]
                for before, after in pairwise(marks):
                    reached |= self.ends(glob[before + 1 : after], starts, depth + 1)
                starts, length = reached, marks[-1] + 1 - at
            else:
                starts = (starts & self._places.get(character, 0)) << 1
            at += length
        return starts

    def _from_first(self, starts: int) -> int:
        """All positions from the first of these on."""
        return (1 << (len(self._path) + 1)) - (starts & -starts)

    def _members(self, named: re.Match[str]) -> int:
        """The positions of characters in a class, or outside it if negated; never a slash."""
        ranges = [(member[1], member[2] or member[1]) for member in _MEMBER.finditer(named[2])]
        positions = (
            places
            for character, places in self._places.items()
            if any(first <= character <= last for first, last in ranges) != bool(named[1])
        )
        return sum(positions) & self._plain  # a position has one character

    def _numbers(self, starts: int, low: int, high: int) -> int:
        """The positions where a whole number in the range can end; the bounds come in any order."""
        low, high = sorted((low, high))
        ends = 0
        for start in range(len(self._path)):
            spelled = _NUMBER.match(self._path, start) if starts >> start & 1 else None
            if spelled is not None:
                for end in range(start + 1 + (spelled[0][0] in "+-"), spelled.end() + 1):
                    if low <= int(self._path[start:end]) <= high:
                        ends |= 1 << end
        return ends


_FRESH_SECONDS = 1.0
_LARGEST = 1 << 18
_MOST_SECTIONS = 200
_MOST_FOLDERS = 1_000


class _ConfigFile(NamedTuple):
    """One `.editorconfig`: whether it is the topmost one, and its (glob, charset) in order."""

    is_root: bool
    charsets: tuple[tuple[str, str], ...]


class EditorConfig:
    """The charsets that the `.editorconfig` files of a workspace name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[RelPath, tuple[float, _ConfigFile]] = {}

    def charset(self, path: RelPath) -> str | None:
        """The codec that the nearest matching section names; None for none, or for `unset`."""
        parts = path.parts
        for depth in reversed(range(len(parts))):  # the nearest folder first
            file = self._file(RelPath(parts[:depth]))
            for glob, charset in reversed(file.charsets):
                if matches(glob, "/".join(parts[depth:])):
                    with suppress(InvalidArgs):
                        return checked_name(charset)
                    return None
            if file.is_root:
                break
        return None

    def _file(self, folder: RelPath) -> _ConfigFile:
        now = time.monotonic()
        known = self._read.get(folder)
        if known is not None and now - known[0] < _FRESH_SECONDS:
            return known[1]
        if len(self._read) > _MOST_FOLDERS:
            self._read.clear()
        try:
            data = self._files.read(folder / ".editorconfig").data
            config = _parsed(data[:_LARGEST].decode("utf-8", "replace"))
        except Refusal:  # mostly that there is none
            config = _ConfigFile(False, ())
        self._read[folder] = (now, config)
        return config


def _parsed(text: str) -> _ConfigFile:
    """Parse a file; only the first `_MOST_SECTIONS` charsets count."""
    is_root, glob = False, ""
    charsets: list[tuple[str, str]] = []
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            glob = line[1:-1]
            continue
        key, _, value = (part.strip().lower() for part in line.partition("="))
        if key == "root" and not glob:
            is_root = value == "true"
        elif key == "charset" and glob and len(charsets) < _MOST_SECTIONS:
            charsets.append((glob, value))
    return _ConfigFile(is_root, tuple(charsets))


_GIT_SECONDS = 10
_BLOB = re.compile(rb"([0-9a-f]+) blob (\d+)$")


def last_committed(root: str, paths: Mapping[RelPath, str]) -> dict[RelPath, Committed]:
    """What git's last commit has at these paths, if the root is in a repository; runs no hook.

    With a path comes git's name of the text that was removed there, if it was.
    """
    asked = [path for path in paths if "\n" not in str(path)]
    names = [(f"HEAD:./{path}", f":./{path}", paths[path] or "none") for path in asked]
    lines = _objects(root, "--batch-check", chain.from_iterable(names)).split(b"\n")
    commits: dict[RelPath, Committed] = {}
    small: list[RelPath] = []  # what is too large is not read
    for path, head, index, removed in zip(
        asked, lines[::3], lines[1::3], lines[2::3], strict=False
    ):
        if blob := _BLOB.match(head):
            commits[path] = Committed(blob[1].decode(), None)
            small += [path] if int(blob[2]) <= sizes.LARGE else []
        elif paths[path] and _is_missing(index) and not _is_missing(removed):
            commits[path] = Committed("", None)
    data = _objects(root, "--batch", [f"HEAD:./{path}" for path in small])
    at = 0
    for path in small if data else ():
        end = data.index(b"\n", at) + 1
        at = end + int(data[:end].rsplit(b" ", 1)[1]) + 1
        commits[path] = commits[path]._replace(data=data[end : at - 1])
    return commits


def is_from_git(root: str, path: RelPath, before: Collection[str], now: Collection[str]) -> bool:
    """Whether git made a file what it is `now`, and has a text that was there before; by blob ids.

    `now` is empty without a file, and of several ids one is that of the file.
    """
    data = _objects(root, "--batch-check", [f":./{path}", *before])
    in_index, *known = data.split(b"\n")[:-1] or [b""]
    is_of_index = in_index[: in_index.find(b" ")].decode("utf-8", "replace") in now
    return (is_of_index if now else _is_missing(in_index)) and not all(map(_is_missing, known))


def _is_missing(line: bytes) -> bool:
    return line.endswith(b" missing")


def _objects(root: str, how: str, names: Iterable[str]) -> bytes:
    """What `git cat-file` says of objects; nothing if it fails, or the root is in no repository."""
    asked = "".join(f"{name}\n" for name in names).encode()
    if not asked or not _is_in_git(root):
        return b""
    # A missing object is not fetched: that would run what the repository configures.
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    words = ("git", "-c", "core.fsmonitor=false", "-C", root, "cat-file", how)
    try:
        ran = subprocess.run(
            words, input=asked, capture_output=True, timeout=_GIT_SECONDS, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if ran.returncode else ran.stdout


def _is_in_git(root: str) -> bool:
    parts = root.rstrip("/").split("/")
    return any(os.path.exists("/".join((*parts[:end], ".git"))) for end in range(len(parts), 0, -1))
