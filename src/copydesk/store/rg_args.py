"""The options and globs of ripgrep that callers may use, and the files excluded for them.

Invariants: an `RgArgs` has only options written by this module, in their long form with `=` before
the value; no unchecked text of the caller is in it. Options that start a program, read or write a
file, or follow links are not allowed. A link or a `.gitignore` file in the wrong place can only
exclude files.

Globs are those of .gitignore: one without a slash, except at its end, matches at any depth; others
are relative to the workspace root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from copydesk.errors import Failed, InvalidArgs, Refusal
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath

MAX_GLOBS = 200
MAX_GLOB_CHARACTERS = 4096

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile("[\ud800-\udfff]|\\s|[*?\\[\\]{}\\\\!]")


def glob_roots(glob: str) -> RelPath:
    """The path that the glob names before its first wildcard.

    `src/**/*.py` gives `src`; a glob without wildcards gives its whole path. A glob that matches at
    any depth, or that excludes (`!…`), gives the root: it names no place. Raises InvalidPath if the
    path leads above the root.
    """
    if glob.startswith("!") or "/" not in glob.rstrip("/"):
        return RelPath(())
    parts: list[str] = []
    for part in glob.split("/"):
        if re.search(r"[*?[{]", _ESCAPE.sub("", part)):
            break
        parts.append(_ESCAPE.sub(r"\1", part))
    return RelPath.parse("/".join(parts).lstrip("/") or ".")


def checked_globs(globs: Iterable[str], argument: str) -> tuple[str, ...]:
    """The globs for rg; a leading `./` means the root, as in a shell.

    Raises InvalidArgs(argument) for an empty glob, for one with NUL or a lone surrogate, for `..`
    (no path that rg sees has it), and above the limits.
    """
    checked: list[str] = []
    for glob in globs:
        why, body = _wrong(glob), glob.removeprefix("!")
        if why is not None:
            raise InvalidArgs(argument, f"glob {glob[:80]!r}: {why}")
        checked.append("!" * glob.startswith("!") + (body[1:] if body.startswith("./") else body))
    if len(checked) > MAX_GLOBS:
        raise InvalidArgs(argument, f"more than {MAX_GLOBS} globs")
    return tuple(checked)


def naming(parts: Iterable[bytes]) -> str:
    """The glob for exactly this path below the root; `?` for a byte that is not UTF-8."""
    text = b"/".join((b"", *parts)).decode("utf-8", "surrogateescape")

    def escaped(found: re.Match[str]) -> str:
        character = found[0]
        if character.isspace():  # rg would trim blanks at the end of a glob
            return f"[{character}]"
        return "?" if character >= "\ud800" else f"\\{character}"

    return _SPECIAL.sub(escaped, text)


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


MAX_ARGS = 100
MAX_CONTEXT = 50

Mode = Literal["lines", "files", "counts"]


@dataclass(frozen=True, slots=True)
class RgArgs:
    """Checked options.

    `globs` are those of --glob and --iglob, for access checks; they are in `flags` too. `folds`:
    some of them ignore case. `context`: lines around matches were requested. `flags` has nothing
    about hidden files.
    """

    flags: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    mode: Mode = "lines"
    only_matching: bool = False
    multiline: bool = False
    as_text: bool = False
    hidden: bool = False
    max_columns: int | None = None
    folds: bool = False
    context: bool = False


def parse_rg_args(rg_args: Sequence[str], meant: Callable[[str], str] = str) -> RgArgs:
    """Parse options, one token each: `-inw`, `-A3`, `-A` `3`, `--context=2`.

    `meant` resolves a glob relative to the root. Options about the look of a terminal (`-n`,
    `--heading`, `--color=never`) are accepted without effect. Raises InvalidArgs("rg_args") for an
    option that is unknown or unsafe, a value out of range, and anything that is not an option.
    """
    if len(rg_args) > MAX_ARGS:
        raise _refused(f"more than {MAX_ARGS} arguments")
    for token in rg_args:
        if "\0" in token or not is_unicode(token):
            raise _refused(f"{token[:40]!r}: NUL or lone surrogate")
    return _fold(list(_options(rg_args)), meant)


def _fold(options: list[tuple[str, str | None]], meant: Callable[[str], str]) -> RgArgs:
    flags: list[str] = []
    globs: list[str] = []
    mode: Mode = "lines"
    max_columns: int | None = None
    names = [name for name, _ in options]
    levels = names.count("unrestricted")
    flags += ["--no-ignore"] * (levels > 0) + ["--binary"] * (levels > 2)
    hidden = levels > 1
    for name, value in options:
        mode = _MODES.get(name, mode)
        if name in ("hidden", "no-hidden"):
            hidden = name == "hidden"
        if name == "max-columns" and value is not None:
            max_columns = int(value) or None
        elif name in ("glob", "iglob") and value is not None:
            (glob,) = checked_globs([meant(value)], "rg_args")
            globs.append(glob)
            flags.append(f"--{name}={glob}")
        elif name in _SEARCHING or (name in _VALUES and name not in _LOOKS_VALUES):
            flags.append(f"--{name}" if value is None else f"--{name}={value}")
    return RgArgs(
        flags=tuple(flags),
        globs=tuple(globs),
        mode=mode,
        only_matching="only-matching" in names,
        multiline="multiline" in names,
        as_text="text" in names,
        hidden=hidden,
        max_columns=max_columns,
        folds="iglob" in names or "glob-case-insensitive" in names,
        context=any(name.endswith("context") and value != "0" for name, value in options),
    )


def _options(rg_args: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The options by their long names, with their values."""
    tokens = iter(rg_args)
    for token in tokens:
        if token.startswith("--") and token != "--":
            name, has_value, value = token[2:].partition("=")
            if name in _VALUES:
                yield name, _value(f"--{name}", name, value if has_value else next(tokens, None))
                continue
            if name not in _FLAGS:
                raise _refused(_why_not(f"--{name}"))
            if has_value:
                raise _refused(f"--{name} takes no value")
            yield name, None
        elif token.startswith("-") and token not in ("-", "--"):
            for at, letter in enumerate(token[1:], 2):
                if letter not in _SHORT:
                    raise _refused(_why_not(f"-{letter}"))
                name = _SHORT[letter]
                if name in _VALUES:
                    rest = token[at:].removeprefix("=") or next(tokens, None)
                    yield name, _value(f"-{letter}", name, rest)
                    break
                yield name, None
        else:
            raise _refused(
                f"{token[:40]!r} is not an option; pattern and path have arguments of their own"
            )


def _value(spelled: str, name: str, value: str | None) -> str:
    if value is None:
        raise _refused(f"{spelled} needs a value")
    wanted = _VALUES[name](value)
    if wanted is not None:
        raise _refused(f"{spelled} {value[:40]!r}: {wanted}")
    return value


def _why_not(spelled: str) -> str:
    if spelled in _UNSAFE:
        return f"{spelled} {_UNSAFE[spelled]}"
    return f"{spelled[:40]!r} is not one of the allowed options: {_ALLOWED}"


def _refused(reason: str) -> InvalidArgs:
    return InvalidArgs("rg_args", reason)


def _shape(pattern: str, wanted: str, most: int | None = None) -> Callable[[str], str | None]:
    """A check of a value that returns the expected form if the value is invalid, else None."""

    def check(value: str) -> str | None:
        fits = re.fullmatch(pattern, value) and (most is None or int(value) <= most)
        return None if fits else f"{wanted} is wanted"

    return check


def _number(most: int) -> Callable[[str], str | None]:
    return _shape(r"[0-9]{1,9}", f"a number from 0 to {most}", most)


def _table(*rows: str) -> dict[str, str]:
    """Options by name with their short letters, from words `name:letter` or `name`."""
    pairs = (word.partition(":") for row in rows for word in row.split())
    return {name: letter for name, _, letter in pairs}


_SEARCHING = _table(
    "ignore-case:i case-sensitive:s smart-case:S fixed-strings:F word-regexp:w line-regexp:x",
    "invert-match:v multiline:U multiline-dotall pcre2:P crlf no-unicode text:a binary",
    "no-ignore no-ignore-dot no-ignore-exclude no-ignore-global no-ignore-parent no-ignore-vcs",
    "one-file-system glob-case-insensitive",
)
_MODES: dict[str, Mode] = {
    "files-with-matches": "files",
    "count": "counts",
    "count-matches": "counts",
}
_SHOWING = _table(
    "files-with-matches:l count:c count-matches only-matching:o unrestricted:u hidden:. no-hidden"
)
_LOOKS = _table(
    "line-number:n no-line-number:N with-filename:H no-filename:I column heading no-heading",
    "max-columns-preview no-config no-follow",
)
_FLAGS = _SEARCHING | _SHOWING | _LOOKS
_TYPE = _shape(r"[A-Za-z0-9+_.-]{1,40}", "the name of a file type")
_ORDER = _shape(r"path|modified|accessed|created", "path, modified, accessed or created")
_VALUES: dict[str, Callable[[str], str | None]] = {
    "after-context": _number(MAX_CONTEXT),
    "before-context": _number(MAX_CONTEXT),
    "context": _number(MAX_CONTEXT),
    "max-count": _number(10**9),
    "max-depth": _number(1000),
    "max-filesize": _shape(r"[0-9]{1,12}[KMG]?", "a number with K, M or G"),
    "max-columns": _number(10**9),
    "glob": lambda _: None,  # `checked_globs` decides
    "iglob": lambda _: None,
    "type": _TYPE,
    "type-not": _TYPE,
    "encoding": _shape(r"[A-Za-z0-9+_.:-]{1,40}", "the name of an encoding"),
    "engine": _shape(r"default|pcre2|auto", "default, pcre2 or auto"),
    "sort": _ORDER,
    "sortr": _ORDER,
    "color": _shape(r"never|auto", "never"),
}
_LOOKS_VALUES = frozenset({"color", "max-columns"})
_VALUE_SHORT = _table(
    "after-context:A before-context:B context:C max-count:m max-depth:d max-columns:M glob:g",
    "type:t type-not:T encoding:E",
)
_SHORT = {short: name for name, short in (_FLAGS | _VALUE_SHORT).items() if short}

_RUNS = "runs a program"
_READS = "reads a file of its own"
_CHANGES = "is not supported: a search changes nothing, neither does its result"
_LINKS = "is not an option here: following links is an argument of the other searches"
_PATTERN = "is not an option here: the pattern is an argument of its own, join several with '|'"
_UNSAFE = {
    **dict.fromkeys(("--pre", "--pre-glob", "--hostname-bin", "--search-zip", "-z"), _RUNS),
    **dict.fromkeys(("--file", "-f", "--ignore-file", "--config"), _READS),
    **dict.fromkeys(("--follow", "-L"), _LINKS),
    **dict.fromkeys(("--regexp", "-e"), _PATTERN),
    **dict.fromkeys(("--replace", "-r"), _CHANGES),
    "--json": "is not an option here: the result is structured already",
}
_ALLOWED = " ".join(
    [f"-{short}" for short in _SHORT]
    + [f"--{name}" for name, short in _FLAGS.items() if not short and name not in _LOOKS]
    + [f"--{name}" for name in _VALUES if name not in (*_VALUE_SHORT, "color")]
)


MAX_DIRS = 100_000
MAX_EXCLUDED = 2_000


@dataclass(frozen=True, slots=True)
class _Dir:
    """A directory of the walk: its path as rg spells it, its real path, and its parent."""

    spelled: tuple[bytes, ...]
    real: RelPath
    above: _Dir | None

    def is_inside(self, real: RelPath) -> bool:
        at: _Dir | None = self
        while at is not None:
            if at.real == real:
                return True
            at = at.above
        return False


def links_to_leave_out(
    files: Files, start: RelPath, *, include_hidden: bool, stop: Callable[[], None]
) -> tuple[str, ...]:
    """Globs that exclude each link below `start` that rg would follow but must not.

    Those are links out of the root or to no file, links to a directory that contains them, and
    every directory or link whose name is not UTF-8, since what is behind it could not be resolved.
    `start` is a real path. `stop` is called for every directory and raises to end the walk. Raises
    Failed if there are more than MAX_DIRS directories (those behind links counted each time) or
    MAX_EXCLUDED such links.
    """
    excluded: list[str] = []
    waiting = [_Dir(tuple(part.encode() for part in start.parts), start, None)]
    seen = 0
    while waiting:
        here = waiting.pop()
        stop()
        seen += 1
        if seen > MAX_DIRS:
            raise Failed("ripgrep", f"more than {MAX_DIRS} directories to follow links in")
        for entry in _entries(files.root, here.real, include_hidden):
            inner = _enter(files, here, entry)
            if isinstance(inner, _Dir):
                waiting.append(inner)
            elif not inner:
                excluded.append("!" + naming((*here.spelled, entry.name)))
        if len(excluded) > MAX_EXCLUDED:
            raise Failed("ripgrep", f"more than {MAX_EXCLUDED} links that lead out")
    return tuple(excluded)


def on_disk(root: str, path: RelPath) -> bytes:
    """The path of the file for system calls: names below the root are UTF-8."""
    return os.path.join(os.fsencode(root), *(part.encode() for part in path.parts))


def _enter(files: Files, here: _Dir, entry: os.DirEntry[bytes]) -> _Dir | bool:
    """The directory to walk next, or whether rg may have the entry."""
    is_link = entry.is_symlink()
    if not is_link and not entry.is_dir(follow_symlinks=False):
        return True
    spelled = (*here.spelled, entry.name)
    try:
        path = here.real / entry.name.decode()
        real = files.resolve(path) if is_link else path
    except (UnicodeDecodeError, Refusal):
        return False
    target = on_disk(files.root, real)
    if is_link and not os.path.isdir(target):
        return os.path.isfile(target)
    return not (is_link and here.is_inside(real)) and _Dir(spelled, real, here)


def _entries(root: str, real: RelPath, include_hidden: bool) -> Iterator[os.DirEntry[bytes]]:
    try:
        listing = os.scandir(on_disk(root, real))
    except OSError:
        return  # rg meets the same error and reports it
    with listing:
        for entry in listing:
            hidden = entry.name.startswith(b".")
            if entry.name != b".git" and (include_hidden or not hidden):
                yield entry


def ignore_files(root: str, real: RelPath, flags: Sequence[str]) -> list[str]:
    """Options that make `.gitignore` files count if `root` is not in a git repository.

    rg would then also use those of all folders above, such as that of a home folder, which often
    ignores everything. If there is one, rg must use none from above the search path, and gets those
    between the root and the search path by name.
    """
    above = Path(root).parents
    if any(os.path.lexists(folder / ".git") for folder in (Path(root), *above)):
        return []
    if not any(os.path.lexists(folder / ".gitignore") for folder in above):
        return ["--no-require-git"]
    between = [RelPath(real.parts[:depth]) for depth in range(len(real.parts))]
    if any(flag.startswith("--no-ignore") for flag in flags):
        between = []
    names = [("./" if not folder.parts else f"./{folder}/") + ".gitignore" for folder in between]
    there = (name for name in names if os.path.isfile(os.path.join(root, name)))
    return ["--no-require-git", "--no-ignore-parent", *(f"--ignore-file={name}" for name in there)]
