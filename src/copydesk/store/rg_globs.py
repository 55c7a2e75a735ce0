"""Globs as ripgrep takes them.

What lives here: what a glob names literally, the check of a caller's globs, and
globs made from names. What must not: the disk, a process. Invariant: a glob
made from a path matches that path and, but for names that are not UTF-8,
nothing else.

A glob is that of .gitignore: without a slash, except one at its end, it is
matched at any depth; with one it is relative to the workspace root.
"""

from __future__ import annotations

from collections.abc import Iterable

from copydesk.errors import InvalidArgs
from copydesk.text.relpath import RelPath

MAX_GLOBS = 200
MAX_GLOB_CHARACTERS = 4096

_META = frozenset("*?[{")
_ESCAPED = frozenset("*?[]{}\\!")


def glob_roots(glob: str) -> RelPath:
    """What the glob names before its first wildcard: the place it asks for.

    `src/**/*.py` gives `src`; a glob without wildcards gives the whole path it
    spells. The root is given for a glob that is matched at any depth and for one
    that excludes (`!…`): they ask for no place. Raises InvalidPath when it leads
    above the root.
    """
    if glob.startswith("!") or "/" not in glob.rstrip("/"):
        return RelPath(())
    parts: list[str] = []
    for part in glob.split("/"):
        literal = _literal(part)
        if literal is None:
            break
        parts.append(literal)
    return RelPath.parse("/".join(parts).lstrip("/") or ".")


def checked_globs(globs: Iterable[str], argument: str) -> tuple[str, ...]:
    """The globs as rg is to get them: a leading `./` means the root, as in a shell.

    Raises InvalidArgs(argument) for an empty one, for one with NUL or a lone
    surrogate, for `..` (no path that rg sees has it), and above the limits.
    """
    checked = tuple(_checked(glob, argument) for glob in globs)
    if len(checked) > MAX_GLOBS:
        raise InvalidArgs(argument, f"more than {MAX_GLOBS} globs")
    return checked


def naming(parts: Iterable[bytes]) -> str:
    """The glob of the one file or directory with this path below the root.

    A byte that is not UTF-8 becomes `?`: the argument of `--glob` is text.
    """
    return "/" + "/".join(_spelled(part) for part in parts)


def _literal(part: str) -> str | None:
    """The name that the part stands for; None when it has a wildcard."""
    characters = iter(part)
    literal: list[str] = []
    for character in characters:
        if character in _META:
            return None
        literal.append(next(characters, "\\") if character == "\\" else character)
    return "".join(literal)


def _checked(glob: str, argument: str) -> str:
    why = _wrong(glob)
    if why is not None:
        raise InvalidArgs(argument, f"glob {glob[:80]!r}: {why}")
    sign = "!" if glob.startswith("!") else ""
    body = glob.removeprefix("!")
    return sign + (body[1:] if body.startswith("./") else body)


def _wrong(glob: str) -> str | None:
    if not glob.removeprefix("!").strip():
        return "empty"
    if len(glob) > MAX_GLOB_CHARACTERS:
        return f"longer than {MAX_GLOB_CHARACTERS} characters"
    if "\0" in glob:
        return "NUL"
    if not is_unicode(glob):
        return "lone surrogate"
    if ".." in glob.removeprefix("!").split("/"):
        return "'..' leads nowhere, globs are relative to the workspace root"
    return None


def is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _spelled(part: bytes) -> str:
    text = part.decode("utf-8", "surrogateescape")
    return "".join(_character(character) for character in text)


def _character(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return "?"
    if character.isspace():
        # Blanks at the end of a glob would be trimmed.
        return f"[{character}]"
    return "\\" + character if character in _ESCAPED else character
