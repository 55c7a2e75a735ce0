"""Globs over paths, where a directory covers what is below it.

What lives here: the translation to regular expressions. What must not: what a
match means. Invariant: `*`, `?` and `[...]` never match a "/"; `**` matches any
number of whole names, none too; `src` covers `src` and `src/a`, not `src-backup`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from copydesk.text.relpath import RelPath

_BELOW = r"(?:[^/]+/)*"


def covers(pattern: str, path: RelPath, *, fold: bool = False) -> bool:
    """Whether the path, or a directory that it is in, matches; `fold` ignores case."""
    return _compiled(pattern, fold, False).match(_spelled(path, fold)) is not None


def reaches(pattern: str, path: RelPath) -> bool:
    """Whether something below `path`, if that is a directory, may be covered."""
    return _compiled(pattern, False, True).match(_spelled(path, False)) is not None


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
