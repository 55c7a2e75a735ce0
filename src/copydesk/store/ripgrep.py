"""The searches: ripgrep, asked for one workspace and one caller.

What lives here: the questions, and how answers are gathered from what rg says.
What must not: words for people, the rights of members (`readable` has the say).
Invariant: only files that the caller may read count towards a limit, a total or
the progress, and no search reads standard input, runs another program or writes.

Order and matching are rg's: paths sorted by their parts, `.gitignore` respected,
files with NUL bytes searched up to the first, UTF-16 with a BOM searched as
text. A file that is the search path itself is searched whatever globs and
ignore files say. Hidden files are searched only when asked for, even where a
glob names one; `.git` never, unless the search path itself leads into it.

Links are not followed unless asked for, the search path excepted, which is
resolved first. When they are, links out of the workspace are found by a walk of
our own and rg is told to leave them out, so that it does not search behind them.
What is shown comes from files that were opened beneath the root (`rg_session`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from copydesk.errors import InvalidArgs
from copydesk.store.rg_args import MAX_CONTEXT, RgArgs, parse_rg_args
from copydesk.store.rg_find import Rg, find_rg
from copydesk.store.rg_found import (
    ContextLine,
    Count,
    Counts,
    Files,
    Lines,
    Raw,
    Row,
    Snippet,
    Snippets,
    Warned,
)
from copydesk.store.rg_gather import counts, files, lines, snippets
from copydesk.store.rg_globs import checked_globs, glob_roots
from copydesk.store.rg_run import Blame
from copydesk.store.rg_session import Asked, Search, check_pattern, searching
from copydesk.text.relpath import RelPath

__all__ = [
    "MAX_ROWS",
    "ContextLine",
    "Count",
    "Counts",
    "Files",
    "Lines",
    "Query",
    "Raw",
    "Rg",
    "RgArgs",
    "Row",
    "Search",
    "Snippet",
    "Snippets",
    "Warned",
    "count_matches",
    "find_rg",
    "glob_roots",
    "parse_rg_args",
    "search_files",
    "search_raw",
    "search_snippets",
]

MAX_ROWS = 10_000
"""The most files, results or rows that can be asked for; the least is 1."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for and where.

    `case` smart: insensitive unless the pattern has a capital. `globs` are those
    of .gitignore, relative to the root; `!` excludes, the last that matches
    decides. `pattern_argument` is the name a refusal of the pattern uses.
    """

    pattern: str
    path: RelPath
    globs: tuple[str, ...] = ()
    case: Literal["smart", "sensitive", "insensitive"] = "smart"
    fixed_strings: bool = False
    include_hidden: bool = False
    follow_symlinks: bool = False
    pattern_argument: Literal["pattern", "literal"] = "pattern"


def search_files(search: Search, query: Query, max_files: int) -> Files:
    """The first `max_files` files with a match.

    Raises, as every search here: InvalidArgs for pattern, globs and limits,
    FileNotFound and NotAFile for the search path, Failed without rg, when it
    breaks down or when the caller cancels. When the time is up, what was found
    so far is returned with `timed_out`.
    """
    _check_limit(max_files, "max_files")
    with searching(search, _asked(query, "--max-count=1")) as session:
        return files(session, max_files)


def count_matches(search: Search, query: Query, max_files: int) -> Counts:
    """Lines and matches per file; `rows` has the first `max_files` files."""
    _check_limit(max_files, "max_files")
    with searching(search, _asked(query)) as session:
        return counts(session, max_files)


def search_snippets(
    search: Search, query: Query, max_results: int, before: int, after: int
) -> Snippets:
    """The first `max_results` lines with a match, with lines around them.

    `before` and `after` are numbers of lines, at most MAX_CONTEXT. A line can be
    in several results.
    """
    _check_limit(max_results, "max_results")
    _check_context(before, "context_before")
    _check_context(after, "context_after")
    asked = _asked(query, f"--before-context={before}", f"--after-context={after}")
    with searching(search, asked) as session:
        return snippets(session, max_results, before, after)


def search_raw(search: Search, pattern: str, path: RelPath, rg_args: RgArgs, max_rows: int) -> Raw:
    """What rg finds with these options, case-sensitive unless they say otherwise.

    With `-l` Files, with `-c` or `--count-matches` Counts, else Lines: at most
    `max_rows` of them.
    """
    _check_limit(max_rows, "max_rows")
    check_pattern(pattern, "pattern", across_lines=rg_args.multiline)
    is_sorted = any(flag.startswith("--sort") for flag in rg_args.flags)
    flags = rg_args.flags if is_sorted else ("--sort=path", *rg_args.flags)
    blame = Blame("pattern", "rg_args")
    asked = Asked(pattern, path, flags, rg_args.hidden, False, blame)
    with searching(search, asked) as session:
        match rg_args.mode:
            case "files":
                return files(session, max_rows)
            case "counts":
                return counts(session, max_rows)
            case "lines":
                return lines(session, rg_args, max_rows)


def _asked(query: Query, *flags: str) -> Asked:
    check_pattern(query.pattern, query.pattern_argument, across_lines=False)
    globs = checked_globs(query.globs, "globs")
    fixed = ("--fixed-strings",) if query.fixed_strings else ()
    return Asked(
        query.pattern,
        query.path,
        ("--sort=path", _CASE[query.case], *fixed, *flags, *(f"--glob={glob}" for glob in globs)),
        query.include_hidden,
        query.follow_symlinks,
        Blame(query.pattern_argument, "globs"),
    )


def _check_limit(value: int, argument: str) -> None:
    if not 1 <= value <= MAX_ROWS:
        raise InvalidArgs(argument, f"a number from 1 to {MAX_ROWS} is wanted")


def _check_context(value: int, argument: str) -> None:
    if not 0 <= value <= MAX_CONTEXT:
        raise InvalidArgs(argument, f"a number from 0 to {MAX_CONTEXT} is wanted")


_CASE = {
    "smart": "--smart-case",
    "sensitive": "--case-sensitive",
    "insensitive": "--ignore-case",
}
