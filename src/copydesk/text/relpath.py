"""Workspace paths, relative and normalized, and minimatch globs over them.

Invariants: `parts` holds no empty part, no ".", no "..", no NUL; every part is valid Unicode. The
root itself is the path without parts. In a glob, `*`, `?` and `[...]` never match a "/", `**` as a
whole name matches any number of names, and names that begin with a dot are ordinary names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

from copydesk.errors import InvalidArgs, InvalidPath, PathRequired

NAME_BYTES = 255
"""The longest name that common file systems accept, in bytes."""
PATH_BYTES = 4095
"""The longest path that a system call accepts, in bytes."""


class SupportsPath(Protocol):
    """What `os.fspath` takes and is no text: a `pathlib.Path`, or a `RelPath` itself."""

    def __fspath__(self) -> str: ...


@dataclass(frozen=True, slots=True, order=True, repr=False)
class RelPath:
    """A normalized path below the root; `str()` and `os.fspath()` join the parts with "/"."""

    parts: tuple[str, ...]

    @staticmethod
    def parse(path: str | SupportsPath) -> RelPath:
        """The path that a text or a `PathLike` spells.

        Raises PathRequired for an empty text, InvalidPath for an absolute path, NUL, a lone
        surrogate, ".." that leaves the root, or what is too long for any system; TypeError for
        what is no text.
        """
        text = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: path)()
        if not isinstance(text, str):
            raise TypeError(f"a path must be str or os.PathLike[str], not {type(path).__name__}")
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

    def __repr__(self) -> str:
        return f"RelPath({str(self)!r})"

    __fspath__ = __str__


_MOST = 10_000
"""The most alternatives of one glob; together they may have ten times as many characters."""

_LONGEST = 1_000
_DEEPEST = 20
_ANY = re.compile("[^/]", re.DOTALL)

_CLASS = re.compile(r"\[[!^]?+\]?+(?>(?:\[:\w+:\]|\\.|[^\]\\])*)\]", re.DOTALL)
"""A class; `[:alpha:]` may be within, and a bracket or backslash after a backslash."""

_POSIX = {
    "alnum": r"^\W_",
    "alpha": r"^\W\d_",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": r"\d",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "A-Fa-f0-9",
}
_IN_CLASS = re.compile(
    rf"\[:({'|'.join(_POSIX)}):\]|(?:\\(?=.))?(.)(?:-(.))?",
    re.DOTALL,
)
"""What is within a class: a named one, or a character and the last of a range that it begins."""

_RANGE = re.compile(
    r"(-?\d{1,15})\.\.(-?\d{1,15})(?:\.\.(-?\d{1,15}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?"
)


@dataclass(frozen=True, slots=True)
class _Group:
    """`@(a|b)` and similar: the sign, the alternatives, and for `!` what follows the group."""

    sign: str
    either: tuple[_Part, ...]
    rest: _Part = ()


_Part = tuple["str | re.Pattern[str] | _Group", ...]
"""Parts of a name: a literal character, `*` as the empty text, a character class or a group."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob without braces, name by name; None is `**`. With `never` it matches nothing."""

    names: tuple[_Part | re.Pattern[str] | None, ...]
    never: bool = False

    def matches(self, path: Sequence[str]) -> bool:
        """Whether the glob matches the path, in time that is polynomial in both lengths."""
        at, every = 1, (1 << len(path) + 1) - 1  # a bit for each place between two names
        for index, part in enumerate(self.names):
            if part is None:
                least = at & -at
                at = every & ~(least - 1)
                if index == len(self.names) - 1:
                    at &= ~least
                continue
            at = sum(2 << i for i, name in enumerate(path) if at >> i & 1 and _is_name(part, name))
            if not at:
                return False
        return not self.never and bool(at >> len(path) & 1)


def _is_name(part: _Part | re.Pattern[str], name: str) -> bool:
    if isinstance(part, re.Pattern):
        return part.fullmatch(name) is not None
    return bool(_Name(name).ends(part, 1) >> len(name) & 1)


class _Name:
    """A name being matched. Positions are bits; each group is tried once at each position."""

    def __init__(self, name: str) -> None:
        self._name, self._end = name, 1 << len(name)
        self._known: dict[tuple[int, int], int] = {}

    def ends(self, part: _Part, at: int) -> int:
        """Return where the part may end if it begins at one of the positions `at`."""
        for one in part:
            if not at:
                return 0
            if isinstance(one, _Group):
                at = self._of_group(one, at)
                if one.sign == "!":
                    return at
            elif one == "":
                at = (2 * self._end - 1) & ~((at & -at) - 1)
            else:
                is_one = one.__eq__ if isinstance(one, str) else one.fullmatch
                at = sum(2 << i for i, c in enumerate(self._name) if at >> i & 1 and is_one(c))
        return at

    def _of_group(self, group: _Group, at: int) -> int:
        """Return where a group may end, repeated as its sign allows; `!` includes what follows."""
        found = at if group.sign in "?*" else 0
        done = 0
        while at:
            begin = at & -at
            at, done = at ^ begin, done | begin
            found |= self._once(group, begin)
            if group.sign in "+*":
                at |= found & ~done
        return found

    def _once(self, group: _Group, begin: int) -> int:
        """Where a group may end that begins at one position, not repeated."""
        key = id(group), begin
        if key not in self._known:
            found = 0
            for part in group.either:
                found |= self.ends(part, begin)
            if group.sign == "!":
                is_named = self.ends(group.rest, found) & self._end
                found = 0 if is_named else self.ends(("", *group.rest), begin)
            self._known[key] = found
        return self._known[key]


@lru_cache(maxsize=256)
def _compiled(glob: str) -> tuple[bool, tuple[Glob, ...]]:
    """Whether the glob is negated, and its alternatives; raises InvalidArgs if too complex."""
    if len(glob) > _LONGEST:
        raise InvalidArgs("pattern", f"has more than {_LONGEST} characters")
    if glob.startswith("#"):
        return False, ()
    bare = glob.lstrip("!")
    is_negated = (len(glob) - len(bare)) % 2 == 1
    return is_negated, tuple(_of_path(one) for one in _alternatives(bare))


def matches(path: str, glob: str) -> bool:
    """Whether the glob matches the path; raises InvalidArgs for a glob that is too complex."""
    is_negated, either = _compiled(glob)
    names = path.split("/")
    return any(one.matches(names) for one in either) != is_negated


def _alternatives(glob: str) -> list[str]:
    """Expand the braces of a glob into globs without braces."""
    done: list[str] = []
    waiting = [glob]
    size = len(glob)
    while waiting:
        one = waiting.pop()
        if (found := _first_braces(one)) is None:
            done.append(one)
            continue
        start, stop, texts = found
        size += sum(len(one) + start - stop + len(text) for text in texts) - len(one)
        if len(done) + len(waiting) + len(texts) > _MOST or size > 10 * _MOST:
            raise InvalidArgs("pattern", "has too many alternatives")
        waiting += [one[:start] + text + one[stop:] for text in texts]
    return done


def _first_braces(glob: str) -> tuple[int, int, list[str]] | None:
    """Return the span of the first braces that have alternatives, and those alternatives."""
    for marks in braces(glob):
        start, stop = marks[0], marks[-1] + 1
        if len(marks) > 2:
            return start, stop, [glob[a + 1 : b] for a, b in pairwise(marks)]
        if counted := _RANGE.fullmatch(glob, start + 1, stop - 1):
            return start, stop, _counted(counted)
    return None


def braces(glob: str, *, classes: bool = False) -> list[list[int]]:
    """The start, commas and end of each pair of braces, in the order in which they close.

    With `classes`, what is in brackets is not looked at.
    """
    found: list[list[int]] = []
    opened: list[list[int]] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "\\":
            at += 1
        elif char == "[" and classes:
            at = max(at, glob.find("]", at + 2))
        elif char == "{":
            opened.append([at])
        elif char in ",}" and opened:
            opened[-1].append(at)
            if char == "}":
                found.append(opened.pop())
        at += 1
    return found


def _counted(found: re.Match[str]) -> list[str]:
    """Return the alternatives of `{1..3}` or `{a..c}`."""
    first, last, step, letter, last_letter, letter_step = found.groups()
    low, high = (ord(letter), ord(last_letter)) if letter else (int(first), int(last))
    by = max(abs(int(step or letter_step or 1)), 1)
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    if letter:
        return [chr(number) for number in numbers[: _MOST + 1]]
    padded = any(len(one.lstrip("-")) > 1 and one.lstrip("-")[0] == "0" for one in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in numbers[: _MOST + 1]]


def _of_path(glob: str) -> Glob:
    first, *names = glob.split("/")
    if names and not names[-1]:
        return Glob((), never=True)  # it matches only what ends with a "/"
    parts: list[_Part | re.Pattern[str] | None] = []
    for name in (first, *filter(None, names)):
        if name and not name.strip("*"):
            parts.append(None if name == "**" else ("",))
        else:
            parts.append(_of_part(name, 0))
    return Glob(tuple(parts))


def _of_part(glob: str, depth: int) -> _Part:
    if depth > _DEEPEST:
        raise InvalidArgs("pattern", f"has more than {_DEEPEST} groups, one in the other")
    found: list[str | re.Pattern[str] | _Group] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if (inner := _group(glob, at) if char in "?*+@!" else None) is not None:
            stop, texts = inner
            either = tuple(_of_part(text, depth + 1) for text in texts)
            if char == "!":
                return (*found, _Group(char, either, _of_part(glob[stop:], depth)))
            found.append(_Group(char, either))
            at = stop
            continue
        end = class_end(glob, at) if char == "[" else 0
        if end:
            found.append(re.compile(class_pattern(glob[at + 1 : end]), re.DOTALL))
            at = end
        elif char == "\\" and at + 1 < len(glob):
            at += 1
            found.append(glob[at])
        elif char == "*":
            if found[-1:] != [""]:
                found.append("")
        else:
            found.append(_ANY if char == "?" else char)
        at += 1
    return tuple(found)


def _group(glob: str, at: int) -> tuple[int, list[str]] | None:
    """The index after the `(a|b)` that follows a sign, and its alternatives."""
    if glob[at + 1 : at + 2] != "(":
        return None
    texts, depth, begun = list[str](), 0, at + 2
    for i in range(at + 1, len(glob)):
        if glob[i] == "(":
            depth += 1
        elif glob[i] == "|" and depth == 1:
            texts.append(glob[begun:i])
            begun = i + 1
        elif glob[i] == ")":
            depth -= 1
            if not depth:
                return i + 1, [*texts, glob[begun:i]]
    return None


def class_end(glob: str, at: int) -> int:
    """Return the index of the `]` that closes a class; 0 if there is none."""
    found = _CLASS.match(glob, at)
    return found.end() - 1 if found else 0


def class_pattern(inside: str) -> str:
    """Return the regular expression for the text between the `[` and the `]` of a class."""
    negated = inside[0] in "!^"
    plain = ""
    either: list[str] = []
    for named, low, high in _IN_CLASS.findall(inside, int(negated)):
        if named:
            either.append(f"[{_POSIX[named]}]")
        elif not high:
            plain += re.escape(low)
        elif low <= high:
            plain += f"{re.escape(low)}-{re.escape(high)}"
    either += [f"[{plain}]"] if plain else []
    if not either:
        return "[^/]" if negated else "(?!)"
    any_of = f"(?:{'|'.join(either)})"
    return rf"(?!{any_of})[^/]" if negated else rf"(?!/){any_of}"


def name_pattern(glob: str) -> str:
    """The regular expression for a name; text between two `*` matches at its first place only.

    Every other symbol is one character, so no later place could do better.
    """
    runs = [""]
    at = 0
    while at < len(glob):
        char = glob[at]
        end = class_end(glob, at) if char == "[" else 0
        if end:
            runs[-1] += class_pattern(glob[at + 1 : end])
            at = end
        elif char == "*":
            runs.append("")
        elif char == "?":
            runs[-1] += "[^/]"
        else:
            at += char == "\\" and at + 1 < len(glob)
            runs[-1] += re.escape(glob[at])
        at += 1
    first, *others = runs
    if not others:
        return first
    between = "".join(f"(?>[^/]*?{run})" for run in others[:-1] if run)
    return f"{first}{between}[^/]*{others[-1]}"
