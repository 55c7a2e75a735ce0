"""Globs over paths, where a directory covers what is below it.

What lives here: the translation to regular expressions. What must not: what a
match means. Invariant: `*`, `?` and `[...]` never match a "/"; `**` matches any
number of whole names, none too; `src` covers `src` and `src/a`, not `src-backup`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from copydesk.errors import InvalidArgs
from copydesk.text.relpath import RelPath

MOST_ALTERNATIVES = 1_000

_BELOW = r"(?:[^/]+/)*"


def covers(pattern: str, path: RelPath, *, fold: bool = False) -> bool:
    """Whether the path, or a directory that it is in, matches; `fold` ignores case."""
    return _compiled(pattern, fold, False).match(_spelled(path, fold)) is not None


def reaches(pattern: str, path: RelPath) -> bool:
    """Whether something below `path`, if that is a directory, may be covered."""
    return _compiled(pattern, False, True).match(_spelled(path, False)) is not None


def names(glob: str, pattern: str, *, fold: bool = False) -> bool:
    """Whether a glob of .gitignore, without braces, names what `pattern` covers, or a part of it.

    The last name in the pattern has to be met by a part of the glob that is as good as a
    name, without `*` and `?`, or is spelled the same; other parts may be met by wildcards.
    """
    wanted = [name for name in pattern.split("/") if name not in ("", ".")]
    while wanted[-1:] == ["**"]:
        wanted.pop()
    if not wanted:
        return True
    given = [part for part in glob.split("/") if part not in ("", ".")]
    if "/" not in glob.rstrip("/"):
        given = ["**", *given]
    key = max((i for i, name in enumerate(wanted) if not _wild(name)), default=len(wanted) - 1)

    @cache
    def meets(at: int, part: int) -> bool:
        if at == len(wanted):
            return True
        if wanted[at] == "**" and meets(at + 1, part):
            return True
        if part == len(given):
            return False
        if wanted[at] == "**":
            return meets(at, part + 1)
        one = given[part]
        if one == "**":
            return meets(at, part + 1) or (at != key and meets(at + 1, part))
        met = _means(one, wanted[at], fold) or (at != key and ("*" in one or "?" in one))
        return met and meets(at + 1, part + 1)

    return meets(0, 0)


def alternatives(glob: str) -> tuple[str, ...]:
    """The globs without braces that one with braces stands for; raises InvalidArgs for too many."""
    done: list[str] = []
    waiting = [glob]
    while waiting:
        one = waiting.pop()
        braces = _first_braces(one)
        if braces is None:
            done.append(one)
        else:
            start, stop, inner = braces
            waiting += [one[:start] + text + one[stop:] for text in inner]
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise InvalidArgs("globs", f"more than {MOST_ALTERNATIVES} alternatives in one glob")
    return tuple(done)


def literal_end(glob: str) -> str:
    """What every name that the glob's last part matches ends with."""
    last = glob.rsplit("/", 1)[-1]
    return re.split(r"[*?\]]", last)[-1].replace("\\", "")


def _first_braces(glob: str) -> tuple[int, int, list[str]] | None:
    """Where the first braces stand, and the texts between their commas."""
    start = begun = depth = at = 0
    texts: list[str] = []
    while at < len(glob):
        char = glob[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = max(at, glob.find("]", at + 2))
        elif char == "{":
            depth += 1
            if depth == 1:
                start, begun = at, at + 1
        elif char == "," and depth == 1:
            texts.append(glob[begun:at])
            begun = at + 1
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                return start, at + 1, [*texts, glob[begun:at]]
        at += 1
    return None


def _wild(name: str) -> bool:
    return any(char in name for char in "*?[")


def _means(part: str, name: str, fold: bool) -> bool:
    """Whether a part of a glob is as good as the name, or is spelled as the pattern is."""
    if fold:
        part, name = part.casefold(), name.casefold()
    if part == name:
        return True
    if "*" in part or "?" in part:
        return False
    if _wild(name):
        return re.fullmatch(_of_name(name), re.sub(r"\\(.)", r"\1", part), re.DOTALL) is not None
    literal = re.sub(r"\\(.)", r"[\1]", part)
    return re.fullmatch(_of_name(literal), name, re.DOTALL) is not None


def _spelled(path: RelPath, fold: bool) -> str:
    # Every name ends with its slash, so that a match of names is never one of their beginnings.
    text = "".join(part + "/" for part in path.parts)
    return text.casefold() if fold else text


@lru_cache(maxsize=4096)
def _compiled(pattern: str, fold: bool, partly: bool) -> re.Pattern[str]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    expression = ""
    for name in reversed(names):
        if name == "**":
            expression = expression if expression.startswith(_BELOW) else _BELOW + expression
        elif partly:
            expression = rf"(?:\Z|{_of_name(name)}/{expression})"
        else:
            expression = f"{_of_name(name.casefold() if fold else name)}/{expression}"
    return re.compile(expression, re.DOTALL)


def _of_name(glob: str) -> str:
    found: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        end = glob.find("]", at + 2 + (glob[at + 1 : at + 2] in ("!", "^"))) if char == "[" else -1
        if end > 0:
            found.append(_of_class(glob[at + 1 : end]))
            at = end
        elif char == "*":
            if found[-1:] != ["[^/]*"]:
                found.append("[^/]*")
        else:
            found.append("[^/]" if char == "?" else re.escape(char))
        at += 1
    return "".join(found)


def _of_class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = _ranges(inside[1:] if negated else inside)
    if not members:
        return "[^/]" if negated else r"(?!)"
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _ranges(inside: str) -> str:
    found: list[str] = []
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = inside[at], inside[at + 2]
            if first <= last:  # a range that runs backwards holds nothing
                found.append(f"{re.escape(first)}-{re.escape(last)}")
            at += 3
        else:
            found.append(re.escape(inside[at]))
            at += 1
    return "".join(found)
