"""A path of the workspace: relative, normal, below the root; and the globs of minimatch over paths.

Invariants: `parts` holds no empty part, no ".", no "..", no NUL; every part is valid Unicode. The
root itself is the path without parts. In a glob `*`, `?` and `[...]` never match a "/", `**` as a
whole name matches any number of names, and names that begin with a dot are like others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

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


_MOST = 10_000
"""So many alternatives one glob may have."""

_POSIX = {
    "alnum": r"^\W_",
    "alpha": r"^\W\d_",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "digit": r"\d",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "A-Fa-f0-9",
}
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")


@lru_cache(maxsize=256)
def compiled(glob: str) -> re.Pattern[str]:
    """What matches a whole path, relative and with "/", that the glob names."""
    if glob.startswith("#"):
        return re.compile(r"(?!)")
    bare = glob.lstrip("!")
    is_negated = (len(glob) - len(bare)) % 2 == 1
    either = "|".join(_of_path(one) for one in _alternatives(bare))
    whole = rf"(?:{either})\Z"
    return re.compile(rf"(?!{whole})" if is_negated else whole, re.DOTALL)


def matches(path: str, glob: str) -> bool:
    """Whether the glob names the path."""
    return compiled(glob).match(path) is not None


def _alternatives(glob: str) -> list[str]:
    """The globs without braces that one with braces stands for."""
    done: list[str] = []
    waiting = [glob]
    while waiting:
        one = waiting.pop()
        found = _first_braces(one)
        if found is None or len(waiting) + len(done) > _MOST:
            done.append(one)
            continue
        start, stop, texts = found
        waiting += [one[:start] + text + one[stop:] for text in texts]
    return done


def _first_braces(glob: str) -> tuple[int, int, list[str]] | None:
    """Where the first braces stand that have alternatives, and those."""
    opened: list[tuple[int, list[int]]] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "\\":
            at += 1
        elif char == "{":
            opened.append((at, []))
        elif char == "," and opened:
            opened[-1][1].append(at)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas:
                ends = [start, *commas, at]
                texts = [glob[a + 1 : b] for a, b in pairwise(ends)]
                return start, at + 1, texts
            counted = _RANGE.fullmatch(glob, start + 1, at)
            if counted:
                return start, at + 1, _counted(counted)
        at += 1
    return None


def _counted(found: re.Match[str]) -> list[str]:
    """What `{1..3}` and `{a..c}` stand for."""
    first, last, step, letter, last_letter, letter_step = found.groups()
    low, high = (ord(letter), ord(last_letter)) if letter else (int(first), int(last))
    by = max(abs(int(step or letter_step or 1)), 1)
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    if letter:
        return [chr(number) for number in numbers[:_MOST]]
    padded = any(len(one.lstrip("-")) > 1 and one.lstrip("-")[0] == "0" for one in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in numbers[:_MOST]]


def _of_path(glob: str) -> str:
    *names, last = glob.split("/")
    if not last and names:
        return r"(?!)"  # it names what ends with a "/"
    names = [name for i, name in enumerate(names) if name or not i]
    found, joint = "", ""
    for name in names:
        is_any = name == "**"
        found += joint + ("(?:[^/]+/)*" if is_any else _of_name(name))
        joint = "" if is_any else "/"
    return found + joint + (".+" if last == "**" else _of_name(last))


def _of_name(glob: str) -> str:
    if glob.strip("*") == "" and glob:
        return "[^/]+"
    return _of_part(glob)


def _of_part(glob: str) -> str:
    found: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        inner = _group(glob, at) if char in "?*+@!" else None
        if inner is not None:
            stop, texts = inner
            either = "|".join(_of_part(text) for text in texts)
            if char == "!":
                rest = _of_part(glob[stop:])
                return "".join(found) + rf"(?!(?:{either}){rest}(?:/|\Z))[^/]*?" + rest
            found.append(f"(?:{either})" + {"@": ""}.get(char, char))
            at = stop
            continue
        end = _class_end(glob, at) if char == "[" else 0
        if end:
            found.append(_of_class(glob[at + 1 : end]))
            at = end
        elif char == "\\" and at + 1 < len(glob):
            at += 1
            found.append(re.escape(glob[at]))
        elif char == "*":
            if found[-1:] != ["[^/]*?"]:
                found.append("[^/]*?")
        else:
            found.append("[^/]" if char == "?" else re.escape(char))
        at += 1
    return "".join(found)


def _group(glob: str, at: int) -> tuple[int, list[str]] | None:
    """The byte after the `(a|b)` behind a sign, and its alternatives."""
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


def _class_end(glob: str, at: int) -> int:
    """Where the `]` of a class stands; 0 where there is none."""
    first = at + 1 + (glob[at + 1 : at + 2] in ("!", "^"))
    first += glob[first : first + 1] == "]"
    while first < len(glob):
        if glob[first] == "]":
            return first
        named = re.compile(r"\[:\w+:\]").match(glob, first)
        first = named.end() if named else first + 1 + (glob[first] == "\\")
    return 0


def _of_class(inside: str) -> str:
    negated = inside[0] in "!^"
    inside = inside[1:] if negated else inside
    found = ""
    either: list[str] = []
    at = 0
    while at < len(inside):
        named = re.compile(r"\[:(\w+):\]").match(inside, at)
        if named and named[1] in _POSIX:
            either.append(f"[{_POSIX[named[1]]}]")
            at = named.end()
            continue
        at += inside[at] == "\\" and at + 1 < len(inside)
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            low, high = inside[at], inside[at + 2]
            found += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            at += 3
        else:
            found += re.escape(inside[at])
            at += 1
    either += [f"[{found}]"] if found else []
    if not either:
        return "[^/]" if negated else "(?!)"
    any_of = f"(?:{'|'.join(either)})"
    return rf"(?!{any_of})[^/]" if negated else rf"(?!/){any_of}"
