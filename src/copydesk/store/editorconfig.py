"""The charset that `.editorconfig` files name for a file; nothing else of them is used.

The globs are those of the EditorConfig specification: `*`, `**`, `?`, `[abc]`, `[!a-z]`,
`{a,b}` (nested too), `{1..3}`, and a backslash before any of them; what is not closed, or
has no comma, stands for itself. Invariants: nothing above the root is read; a match takes
the length of the glob times the length of the path, since globs come from the files of a
workspace (`docs/decisions/0016-globs-of-editorconfig.md`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from copydesk.errors import InvalidArgs, Refusal
from copydesk.store.files import Files
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import RelPath

_LONGEST = 1_000
_DEEPEST = 20
_MOST_RANGES = 4
_RANGE = re.compile(r"\{([+-]?\d{1,9})\.\.([+-]?\d{1,9})\}", re.ASCII)
_CLASS = re.compile(r"\[(!?)((?:\\[^/]|[^\\\]/])+)\]", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Is:
    """One character."""

    character: str


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One character of some ranges (first, last), or of none of them; never a slash."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class _Any:
    """`*` (or `?`, when `once`): characters but slashes; with `across` slashes too."""

    once: bool = False
    across: bool = False


@dataclass(frozen=True, slots=True)
class _Folders:
    """`**/` at the start of a name: any number of whole folders, none too."""


@dataclass(frozen=True, slots=True)
class _Between:
    """`{low..high}`: a whole number."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Either:
    """`{a,b}`."""

    choices: tuple[_Glob, ...]


_Glob = tuple[_Is | _OneOf | _Any | _Folders | _Between | _Either, ...]


class Target:
    """A path, below the folder of the file, that sections may be for."""

    # Sets of places in the path are numbers: bit `i` is the place before character `i`,
    # the bit after the last one the end.

    def __init__(self, path: str) -> None:
        self._path = path
        self._all = (1 << (len(path) + 1)) - 1
        self._of: dict[str, int] = {}
        for i, character in enumerate(path):
            self._of[character] = self._of.get(character, 0) | 1 << i
        self._slashes = self._of.get("/", 0)
        self._plain = (self._all >> 1) & ~self._slashes

    def matches(self, glob: str) -> bool:
        """Whether the path is one of the section `[glob]`.

        A glob without a slash is for names in any folder. One that is longer than
        1,000 characters, nested deeper than 20 braces or with more than four
        ranges of numbers matches nothing.
        """
        if len(glob) > _LONGEST:
            return False
        found = _read(glob.removeprefix("/") if "/" in glob else f"**/{glob}")
        return found is not None and bool(self._ends(found, 1) >> len(self._path) & 1)

    def _ends(self, glob: _Glob, starts: int) -> int:
        """Where the glob may end when it begins at one of `starts`."""
        for part in glob:
            if not starts:
                return 0
            starts = self._step(part, starts)
        return starts

    def _step(self, part: _Is | _OneOf | _Any | _Folders | _Between | _Either, starts: int) -> int:
        match part:
            case _Is(character):
                return (starts & self._of.get(character, 0)) << 1
            case _OneOf(ranges, negated):
                return (starts & self._members(ranges, negated)) << 1
            case _Any(once=True):
                return (starts & self._plain) << 1
            case _Any(across=True):
                return self._from_first(starts)
            case _Any():
                # Adding at the low end of a run of ones carries through to its end: what
                # the sum changes is the way from each start to the next slash.
                return starts | ((self._plain + (starts & self._plain)) ^ self._plain)
            case _Folders():
                return starts | ((self._slashes << 1) & self._from_first(starts))
            case _Between(low, high):
                return self._between(starts, low, high)
            case _Either(choices):
                found = 0
                for choice in choices:
                    found |= self._ends(choice, starts)
                return found

    def _from_first(self, starts: int) -> int:
        return self._all & ~((starts & -starts) - 1)

    def _members(self, ranges: tuple[tuple[str, str], ...], negated: bool) -> int:
        found = 0
        for character, places in self._of.items():
            inside = any(first <= character <= last for first, last in ranges)
            if inside != negated:
                found |= places
        return found & self._plain

    def _between(self, starts: int, low: int, high: int) -> int:
        found = 0
        for start, end, number in self._numbers:
            if starts >> start & 1 and low <= number <= high:
                found |= 1 << end
        return found

    @cached_property
    def _numbers(self) -> list[tuple[int, int, int]]:
        """The whole numbers in the path, each as its start, its end and itself."""
        found: list[tuple[int, int, int]] = []
        for start in range(len(self._path)):
            spelled = _NUMBER.match(self._path, start)
            if spelled is not None:
                least = start + 1 + (spelled[0][0] in "+-")
                ends = range(least, spelled.end() + 1)
                found += [(start, end, int(self._path[start:end])) for end in ends]
        return found


@lru_cache(maxsize=1_024)
def _read(glob: str) -> _Glob | None:
    if len(_RANGE.findall(glob)) > _MOST_RANGES:
        return None
    try:
        return _sequence(glob, 0)
    except RecursionError:
        return None


def _sequence(glob: str, depth: int) -> _Glob:
    if depth > _DEEPEST:
        raise RecursionError
    found: list[_Is | _OneOf | _Any | _Folders | _Between | _Either] = []
    at = 0
    while at < len(glob):
        character = glob[at]
        if character == "\\" and at + 1 < len(glob):
            found.append(_Is(glob[at + 1]))
            at += 2
        elif character == "*":
            stop = at + 2 if glob.startswith("**", at) else at + 1
            whole = glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/")
            found.append(_Folders() if whole else _Any(across=stop == at + 2))
            at = stop + whole
        elif character == "?":
            found.append(_Any(once=True))
            at += 1
        elif character == "[" and (named := _CLASS.match(glob, at)):
            found.append(_OneOf(tuple(_ranges(named[2])), bool(named[1])))
            at = named.end()
        elif character == "{" and (span := _RANGE.match(glob, at)):
            low, high = sorted((int(span[1]), int(span[2])))
            found.append(_Between(low, high))
            at = span.end()
        elif character == "{" and (parts := _choices(glob, at)):
            found.append(_Either(tuple(_sequence(part, depth + 1) for part in parts)))
            at += sum(map(len, parts)) + len(parts) + 1
        else:
            found.append(_Is(character))
            at += 1
    return tuple(found)


def _choices(glob: str, at: int) -> list[str]:
    """What stands between the commas of the braces that open at `at`; nothing when no comma."""
    parts: list[str] = []
    start, depth, i = at + 1, 0, at + 1
    while i < len(glob):
        character = glob[i]
        if character == "\\":
            i += 1
        elif character == "{":
            depth += 1
        elif character == "}" and depth:
            depth -= 1
        elif character in ",}" and not depth:
            parts.append(glob[start:i])
            start = i + 1
            if character == "}":
                return parts if len(parts) > 1 else []
        i += 1
    return []


def _ranges(inside: str) -> Iterator[tuple[str, str]]:
    """The ranges of a class; one character is a range of one."""
    characters = re.findall(r"\\?(.)", inside, re.DOTALL)
    at = 0
    while at < len(characters):
        last = at + 2 if characters[at + 1 : at + 2] == ["-"] and at + 2 < len(characters) else at
        yield characters[at], characters[last]
        at = last + 1


_FRESH_SECONDS = 1.0
_LARGEST = 1 << 18
_MOST_SECTIONS = 200
_MOST_FOLDERS = 1_000


@dataclass(frozen=True, slots=True)
class _File:
    """One `.editorconfig`: whether it is the topmost one, and its (glob, charset) in order."""

    is_root: bool = False
    charsets: tuple[tuple[str, str], ...] = ()


class EditorConfig:
    """The charsets that the `.editorconfig` files of a workspace name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[RelPath, tuple[float, _File]] = {}

    def charset(self, path: RelPath) -> str | None:
        """The codec named for the file, or None.

        The nearest `.editorconfig` with a section for it decides, its last one.
        `unset`, and a charset that is no codec, name none.
        """
        folder = path.parent
        while True:
            found = self._file(folder)
            below = Target("/".join(path.parts[len(folder.parts) :]))
            named = [charset for glob, charset in found.charsets if below.matches(glob)]
            if named:
                return _codec(named[-1])
            if found.is_root or not folder.parts:
                return None
            folder = folder.parent

    def _file(self, folder: RelPath) -> _File:
        now = time.monotonic()
        known = self._read.get(folder)
        if known is not None and now - known[0] < _FRESH_SECONDS:
            return known[1]
        if len(self._read) > _MOST_FOLDERS:
            self._read.clear()
        try:
            data = self._files.read(folder / ".editorconfig").data
        except Refusal:
            data = b""
        found = _parsed(data[:_LARGEST].decode("utf-8", "replace"))
        self._read[folder] = (now, found)
        return found


def _parsed(text: str) -> _File:
    """What a file says, as far as it is used; of very many charsets the first ones."""
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
    return _File(is_root, tuple(charsets))


def _codec(charset: str) -> str | None:
    try:
        return checked_name(charset)
    except InvalidArgs:
        return None
