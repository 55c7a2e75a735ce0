"""What callers may ask of ripgrep: a query, options of its own, and globs.

Invariants: an `RgArgs` has only options written by this module, in their long form with `=` before
the value; no unchecked text of the caller is in it. Options that start a program, read or write a
file, or follow links are not allowed.

Globs are those of .gitignore: one without a slash, except at its end, matches at any depth; others
are relative to the workspace root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from copydesk.errors import InvalidArgs
from copydesk.text.relpath import RelPath

MAX_PATTERN_BYTES = 1 << 16
MAX_GLOBS = 200
MAX_GLOB_CHARACTERS = 4096
MAX_ARGS = 100
MAX_CONTEXT = 50

Mode = Literal["lines", "files", "counts"]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """A search: pattern and paths.

    `case` smart: insensitive unless the pattern has an uppercase letter. `globs` are those of
    .gitignore, relative to the root; `!` excludes, and the last one that matches decides.
    `pattern_argument` and `globs_argument` are the names that a refusal of them uses.
    """

    pattern: str
    path: RelPath
    globs: tuple[str, ...] = ()
    case: Literal["smart", "sensitive", "insensitive"] = "smart"
    fixed_strings: bool = False
    include_hidden: bool = False
    follow_symlinks: bool = False
    pattern_argument: Literal["pattern", "literal"] = "pattern"
    globs_argument: Literal["globs", "rg_args"] = "globs"


@dataclass(frozen=True, slots=True)
class RgArgs:
    """Checked options.

    `globs` are those of --glob and --iglob, for access checks; they are in `flags` too. `folds`:
    some of them ignore case. `context`: lines around matches were requested. `flags` has nothing
    about hidden files.
    """

    flags: tuple[str, ...]
    globs: tuple[str, ...]
    mode: Mode
    only_matching: bool
    multiline: bool
    as_text: bool
    hidden: bool
    max_columns: int | None
    folds: bool
    context: bool


def check(argument: str, wrong: Mapping[str, bool], what: str = "") -> None:
    """Raise InvalidArgs with the first reason that holds, after `what` is wrong."""
    for reason, holds in wrong.items():
        if holds:
            raise InvalidArgs(argument, what + reason)


def check_pattern(pattern: str, argument: str, *, across_lines: bool) -> None:
    """Raise InvalidArgs(argument) if empty, too long, not text, or of several lines unasked."""
    check(
        argument,
        {
            "empty: it would match every line": not pattern,
            "NUL": "\0" in pattern,
            "lone surrogate": _SURROGATE.search(pattern) is not None,
            f"longer than {MAX_PATTERN_BYTES} bytes": (
                len(pattern.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES
            ),
            "newline: lines are searched one by one, search for one of its lines": (
                "\n" in pattern and not across_lines
            ),
        },
    )


def checked_globs(globs: Iterable[str], argument: str) -> tuple[str, ...]:
    """The globs for rg; a leading `./` means the root, as in a shell.

    Raises InvalidArgs(argument) for an empty glob, for one with NUL or a lone surrogate, for `..`
    (no path that rg sees has it), and above the limits.
    """
    checked: list[str] = []
    for glob in globs:
        body = glob.removeprefix("!")
        check(
            argument,
            {
                "empty": not body.strip(),
                f"longer than {MAX_GLOB_CHARACTERS} characters": len(glob) > MAX_GLOB_CHARACTERS,
                "NUL": "\0" in glob,
                "lone surrogate": _SURROGATE.search(glob) is not None,
                "'..' leads nowhere, globs are relative to the workspace root": (
                    ".." in body.split("/")
                ),
            },
            f"glob {glob[:80]!r}: ",
        )
        checked.append("!" * glob.startswith("!") + (body[1:] if body.startswith("./") else body))
    check(argument, {f"more than {MAX_GLOBS} globs": len(checked) > MAX_GLOBS})
    return tuple(checked)


def naming(parts: Iterable[bytes]) -> str:
    """The glob for exactly this path below the root; `?` for a byte that is not UTF-8."""
    text = b"/".join((b"", *parts)).decode("utf-8", "surrogateescape")
    escaped = re.sub(r"[*?\[\]{}\\!]", r"\\\g<0>", text)
    guarded = re.sub(r"\s", r"[\g<0>]", escaped)  # rg would trim blanks at the end of a glob
    return _SURROGATE.sub("?", guarded)


def parse_rg_args(rg_args: Sequence[str], meant: Callable[[str], str] = str) -> RgArgs:
    """Parse options, one token each: `-inw`, `-A3`, `-A` `3`, `--context=2`.

    `meant` resolves a glob relative to the root. Options about the look of a terminal (`-n`,
    `--heading`, `--color=never`) are accepted without effect. Raises InvalidArgs("rg_args") for an
    option that is unknown or unsafe, a value out of range, and anything that is not an option.
    """
    check("rg_args", {f"more than {MAX_ARGS} arguments": len(rg_args) > MAX_ARGS})
    for token in rg_args:
        bad = "\0" in token or _SURROGATE.search(token) is not None
        check("rg_args", {f"{token[:40]!r}: NUL or lone surrogate": bad})
    options = list(_options(rg_args))
    names = [name for name, _ in options]
    levels = names.count("unrestricted")
    flags = ["--no-ignore"] * (levels > 0) + ["--binary"] * (levels > 2)
    options = [
        (name, checked_globs([meant(value)], "rg_args")[0] if name in _GLOBS else value)
        for name, value in options
    ]
    flags += [
        f"--{name}={value}" if name in _VALUES else f"--{name}"
        for name, value in options
        if name in _PASSED_ON
    ]
    modes: list[Mode] = [_MODES[name] for name in names if name in _MODES]
    shown = [name == "hidden" for name in names if name in ("hidden", "no-hidden")]
    return RgArgs(
        flags=tuple(flags),
        globs=tuple(value for name, value in options if name in _GLOBS),
        mode=modes[-1] if modes else "lines",
        only_matching="only-matching" in names,
        multiline="multiline" in names,
        as_text="text" in names,
        hidden=shown[-1] if shown else levels > 1,
        max_columns=int(dict(options).get("max-columns", "0")) or None,
        folds="iglob" in names or "glob-case-insensitive" in names,
        context=any(name.endswith("context") and value != "0" for name, value in options),
    )


def _options(rg_args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options by their long names, with their values, empty for one that takes none."""
    tokens = iter(rg_args)
    for token in tokens:
        name, assigned, value = token[2:].partition("=")
        other = f"{token[:40]!r} is not an option; pattern and path have arguments of their own"
        check("rg_args", {other: not token.startswith("-") or token in ("-", "--")})
        if token.startswith("--"):
            given = [(f"--{name}", name, value if assigned else None)]
        else:  # letters, of which the first that takes a value has the rest for it
            assigned = ""
            rests = (token[at:].removeprefix("=") or None for at in range(2, len(token) + 1))
            given = [
                (f"-{letter}", _SHORT.get(letter, ""), rest)
                for letter, rest in zip(token[1:], rests, strict=True)
            ]
        for spelled, name, rest in given:
            if name in _VALUES:
                yield name, _checked(spelled, name, next(tokens, None) if rest is None else rest)
                break
            reason = _UNSAFE.get(spelled)
            unknown = f"{spelled[:40]!r} is not one of the allowed options: {_ALLOWED}"
            check(
                "rg_args",
                {
                    f"{spelled} {reason}" if reason else unknown: name not in _FLAGS,
                    f"{spelled} takes no value": bool(assigned),
                },
            )
            yield name, ""


def _checked(spelled: str, name: str, given: str | None) -> str:
    check("rg_args", {f"{spelled} needs a value": given is None})
    value = given or ""
    shape, wanted, most = _VALUES[name]
    fits = re.fullmatch(shape, value, re.DOTALL) and (most is None or int(value) <= most)
    check("rg_args", {f"{spelled} {value[:40]!r}: {wanted} is wanted": not fits})
    return value


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


def _number(most: int) -> tuple[str, str, int]:
    return r"[0-9]{1,9}", f"a number from 0 to {most}", most


_TYPE = r"[A-Za-z0-9+_.-]{1,40}", "the name of a file type", None
_ORDER = r"path|modified|accessed|created", "path, modified, accessed or created", None
# The form of a value, in words too, and the greatest number.
_VALUES: dict[str, tuple[str, str, int | None]] = {
    "after-context": _number(MAX_CONTEXT),
    "before-context": _number(MAX_CONTEXT),
    "context": _number(MAX_CONTEXT),
    "max-count": _number(10**9),
    "max-depth": _number(1000),
    "max-filesize": (r"[0-9]{1,12}[KMG]?", "a number with K, M or G", None),
    "max-columns": _number(10**9),
    "glob": (".*", "", None),  # `checked_globs` decides
    "iglob": (".*", "", None),
    "type": _TYPE,
    "type-not": _TYPE,
    "encoding": (r"[A-Za-z0-9+_.:-]{1,40}", "the name of an encoding", None),
    "engine": (r"default|pcre2|auto", "default, pcre2 or auto", None),
    "sort": _ORDER,
    "sortr": _ORDER,
    "color": (r"never|auto", "never", None),
}
_GLOBS = "glob", "iglob"
_PASSED_ON = _SEARCHING.keys() | _VALUES.keys() - {"color", "max-columns"}
_VALUE_SHORT = _table(
    "after-context:A before-context:B context:C max-count:m max-depth:d max-columns:M glob:g",
    "type:t type-not:T encoding:E",
)
_SHORT = {short: name for name, short in (_FLAGS | _VALUE_SHORT).items() if short}

_WHY_NOT = {
    "runs a program": "--pre --pre-glob --hostname-bin --search-zip -z",
    "reads a file of its own": "--file -f --ignore-file --config",
    "is not an option here: following links is an argument of the other searches": "--follow -L",
    "is not an option here: the pattern is an argument of its own, join several with '|'": (
        "--regexp -e"
    ),
    "is not supported: a search changes nothing, neither does its result": "--replace -r",
    "is not an option here: the result is structured already": "--json",
}
_UNSAFE = {option: reason for reason, options in _WHY_NOT.items() for option in options.split()}
_ALLOWED = " ".join(
    [f"-{short}" for short in _SHORT]
    + [f"--{name}" for name, short in _FLAGS.items() if not short and name not in _LOOKS]
    + [f"--{name}" for name in _VALUES if name not in (*_VALUE_SHORT, "color")]
)
