"""The tools to search: those of ripgrep.

Their text has one row per line, file or entry, as grep and ls print them, and as many rows as fit;
their data has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Literal, cast

from copydesk.search.options import Query, parse_rg_args
from copydesk.search.ripgrep import (
    FoundFiles,
    FoundLine,
    MatchCounts,
    Search,
    SearchResult,
    count_matches,
    search_files,
    search_raw,
    search_snippets,
)
from copydesk.tools.arguments import Amount, Count
from copydesk.tools.catalog import EDIT, Context, Tool, ToolCall
from copydesk.tools.messages import say
from copydesk.tools.report import (
    Answer,
    Fields,
    Lang,
    Value,
    known,
    listing,
    named,
    row_tokens,
)

FILES, COUNTS, RESULTS = 50, 200, 50
_ROWS = 200  # the most rows of `ripgrep_search`
_WARNINGS = 5  # the most incompletely searched files that a text names


# arguments that several tools take


class _Where(ToolCall):
    path: str = ""
    globs: tuple[str, ...] = ()
    case: Literal["smart", "sensitive", "insensitive"] = "smart"


class _Regex(ToolCall):
    fixed_strings: bool = False


class _Links(ToolCall):
    include_hidden: bool = False
    follow_symlinks: bool = False


class _MostFiles(ToolCall):
    max_files: Count = FILES


class _LinesAround(ToolCall):
    max_results: Count = RESULTS
    context_before: Amount = 1
    context_after: Amount = 1


class _PatternCall(_Where, _Regex, _Links):
    pattern: str

    def query(self, context: Context) -> Query:
        return _query(context, self, self.pattern, fixed=self.fixed_strings)


class RipgrepFilesCall(_PatternCall, _MostFiles):
    """List the files with a match."""

    def run(self, context: Context, name: str) -> Answer:
        return _search(context, name, self.query(context), search_files, self.max_files)


class RipgrepCountCall(_PatternCall, _MostFiles):
    """Count the matches per file."""

    max_files: Count = COUNTS

    def run(self, context: Context, name: str) -> Answer:
        return _search(context, name, self.query(context), count_matches, self.max_files)


class RipgrepSnippetsCall(_PatternCall, _LinesAround):
    """Show matches with the lines around them."""

    def run(self, context: Context, name: str) -> Answer:
        return _search_lines(context, name, self.query(context), self)


class RipgrepFixedCall(_Where, _Links, _MostFiles, _LinesAround):
    """Search for a literal text in one of three modes."""

    literal: str
    mode: Literal["snippets", "files", "count"] = "snippets"
    max_files: Count = 0

    def run(self, context: Context, name: str) -> Answer:
        query = _query(context, self, self.literal, fixed=True, argument="literal")
        match self.mode:
            case "snippets":
                return _search_lines(context, name, query, self)
            case "files":
                return _search(context, name, query, search_files, self.max_files or FILES)
            case "count":
                return _search(context, name, query, count_matches, self.max_files or COUNTS)


_MODES = {"text": (), "files": ("-l",), "count": ("-c",)}


class RipgrepSearchCall(ToolCall):
    """Search with ripgrep's own options."""

    pattern: str
    path: str = ""
    mode: Literal["text", "files", "count"] = "text"
    rg_args: tuple[str, ...] = ()

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path or ".", folder=True)
        args = parse_rg_args((*self.rg_args, *_MODES[self.mode]), context.glob)
        result = search_raw(
            context.search(path, args.globs, fold=args.folds), self.pattern, path, args, _ROWS
        )
        if isinstance(result, FoundFiles | MatchCounts):
            return _files(context, name, self.pattern, result)
        rows: list[Value] = [
            {"path": r.path, "line": r.line, "is_match": r.is_match, "text": r.text}
            for r in result.rows
        ]
        fields = _fields(context, name, self.pattern, result, {"lines": rows}, len(rows), "matches")
        return _lines(
            context,
            fields,
            result,
            result.rows,
            [row for row in result.rows if row.is_match],
            str(path),
            args.context,
        )


SEARCHING = (
    Tool("ripgrep_files", "ws_mod", RipgrepFilesCall, reads=True, idempotent=True),
    Tool("ripgrep_count", "ws_mod", RipgrepCountCall, reads=True, idempotent=True),
    Tool("ripgrep_snippets", "ws_mod", RipgrepSnippetsCall, reads=True, idempotent=True),
    Tool("ripgrep_fixed", "ws_mod", RipgrepFixedCall, reads=True, idempotent=True),
    Tool(
        "ripgrep_search",
        "ws_mod",
        RipgrepSearchCall,
        reads=True,
        idempotent=True,
        also=(EDIT,),
    ),
)
"""The rows of the catalog that the mirror toolset has too."""


def _query(
    context: Context,
    call: _PatternCall | RipgrepFixedCall,
    pattern: str,
    *,
    fixed: bool,
    argument: Literal["pattern", "literal"] = "pattern",
) -> Query:
    return Query(
        pattern,
        context.path(call.path or ".", folder=True),
        tuple(map(context.glob, call.globs)),
        call.case,
        fixed,
        call.include_hidden,
        call.follow_symlinks,
        argument,
    )


def _search(
    context: Context,
    name: str,
    query: Query,
    search: Callable[[Search, Query, int], FoundFiles | MatchCounts],
    most: int,
) -> Answer:
    result = search(context.search(query.path, query.globs), query, most)
    return _files(context, name, query.pattern, result)


def _files(context: Context, name: str, pattern: str, result: FoundFiles | MatchCounts) -> Answer:
    """The files found, or how often the pattern is in each."""
    if isinstance(result, FoundFiles):
        count = total = len(result.paths)
        data: Fields = {}
        key, told = "files", list[Value](result.paths)
        rows: Iterable[str] = map(named, result.paths)
        counted = ""
    else:
        count, total = len(result.rows), result.total_files
        totals: Fields = {
            "total_files": total,
            "total_lines": result.total_lines,
            "total_matches": result.total_matches,
        }
        data = {} if result.timed_out else totals
        key, told = "counts", list[Value](map(asdict, result.rows))
        rows = (f"{named(row.path)}: {row.lines} ({row.matches})" for row in result.rows)
        counted = so_far(result, say("search.counts", context.lang, totals), count, context.lang)
    shown, told = context.rows(rows, told)
    fields = _fields(context, name, pattern, result, {**data, key: told}, count, "files")
    left_out = total - len(shown) if len(shown) < count else 0
    return _listed(
        context, fields, result, counted or str(fields["summary"]), shown, left_out, "files"
    )


def _search_lines(context: Context, name: str, query: Query, around: _LinesAround) -> Answer:
    search = context.search(query.path, query.globs)
    before, after = around.context_before, around.context_after
    result = search_snippets(search, query, around.max_results, before, after)
    near = [(*match.before, match, *match.after) for match in result.results]
    rows: list[Value] = [
        known(
            path=match.path,
            line=match.line,
            column=match.column,
            match=match.match,
            snippet=[f"{line.line}\t{line.text}" for line in lines],
            line_cut_from_column=match.from_column if match.cut else None,
        )
        for match, lines in zip(result.results, near, strict=True)
    ]
    fields = _fields(context, name, query.pattern, result, {"results": rows}, len(rows), "matches")
    once = {(line.path, line.line): line for line in chain.from_iterable(near)}
    where, lines = str(query.path), tuple(once.values())
    return _lines(context, fields, result, lines, result.results, where, before + after > 0)


def _fields(
    context: Context,
    name: str,
    pattern: str,
    result: SearchResult,
    data: Fields,
    count: int,
    what: str,
) -> Fields:
    saying = "search.cut" if result.truncated and not result.timed_out else "search"
    facts = {"count": count, "what": say(f"what.{what}", context.lang)}
    warnings: list[Value] = [f"{w.path}: {w.kind}: {w.detail}" for w in result.warnings]
    return {
        "status": "ok",
        "mode": name,
        "pattern": pattern,
        "count": count,
        "truncated": result.truncated,
        "timed_out": result.timed_out,
        **data,
        **({"versions": _versions(result)} if result.searched else {}),
        **({"warnings": warnings} if warnings else {}),
        "summary": so_far(result, say(saying, context.lang, facts), count, context.lang),
    }


def _versions(result: SearchResult) -> dict[str, str]:
    return {file.path: file.text.version for file in result.searched}


def _listed(
    context: Context,
    fields: Fields,
    result: SearchResult,
    line: str,
    rows: Sequence[str],
    left_out: int,
    what: Literal["files", "matches"],
) -> Answer:
    """The answer: `line`, then `rows`; `left_out` of `what` did not fit."""
    facts, lang = {"count": left_out, "what": say(f"what.{what}", context.lang)}, context.lang
    is_cut = left_out or result.truncated or result.timed_out
    limits = {"files": "max_files", "matches": "max_results"}
    takes_limit = not str(fields["mode"]).endswith("ripgrep_search")
    narrow = say("next.narrow", lang, {"argument": limits[what]} if takes_limit else {})
    step = say("next.left_out", lang, facts) if left_out else narrow
    return listing(fields, rows, line, tuple(remarks(result, lang)), (step,) if is_cut else ())


def _lines(
    context: Context,
    fields: Fields,
    result: SearchResult,
    lines: Sequence[FoundLine],
    matches: Sequence[FoundLine],
    where: str,
    separated: bool,
) -> Answer:
    """Lines as `rg --heading` prints them, each once, as many as fit.

    `matches` are those of the lines that match. Lines of several files stand below the path of
    each and its version, those of one file alone. `separated`: put `--` between lines that are not
    adjacent.
    """
    lang, room = context.lang, context.rows_tokens
    versions = _versions(result)
    files = tuple(dict.fromkeys(line.path for line in matches))
    rows: list[str] = []
    shown: list[FoundLine] = []
    path, number, taken = "", 0, 0  # the last line shown, and the tokens of all
    found = cast("list[Fields]", fields.get("lines") or fields.get("results") or [])
    told = {(row["path"], row["line"]): json.dumps(row) for row in found if context.structured}
    for line in lines:
        added = [_line_row(line)]
        if path != line.path and len(files) > 1:
            added.insert(0, _version(line.path, versions))
        elif separated and shown and (path, number + 1) != (line.path, line.line):
            added.insert(0, "--")
        taken += sum(
            map(
                row_tokens,
                (told.get((line.path, line.line), ""), _version(line.path, versions))
                if context.structured
                else added,
            )
        )
        if room is not None and taken > room and shown:
            break
        rows += added
        shown.append(line)
        path, number = line.path, line.line
    context.looking.note_shown(context.member, result, shown)
    places = {(line.path, line.line) for line in shown}
    left_out = sum((line.path, line.line) not in places for line in matches)
    if context.structured:
        kept = [row for row in found if (row["path"], row["line"]) in places]
        fields |= dict.fromkeys(fields.keys() & {"lines", "results"}, kept)
        if versions:
            paths = dict.fromkeys(line.path for line in shown)
            fields["versions"] = {path: versions[path] for path in paths if path in versions}
    said = named(files[0]) if len(files) == 1 else say("search.where", lang, {"files": len(files)})
    saying = "search.lines.cut" if result.truncated and not result.timed_out else "search.lines"
    if files == (where,):  # the caller named it
        saying += ".here"
    head = say(
        saying if matches else "search.lines.none", lang, {"count": len(matches), "where": said}
    )
    head = so_far(result, head, len(matches), lang)
    if len(files) == 1 and files[0] in versions:
        head += f" · version {versions[files[0]]}"
    return _listed(context, fields, result, head, rows, left_out, "matches")


def _line_row(line: FoundLine) -> str:
    """The line as grep prints it, without the path; omissions are marked."""
    mark = ":" if line.is_match else "-"
    before = f"[column {line.from_column}] …" if line.from_column > 1 else ""
    text = f"{before}{line.text}{'… [cut]' if line.is_cut_at_end else ''}"
    return f"{line.line}{mark}{' ' * bool(text)}{text}"


def _version(path: str, versions: Mapping[str, str]) -> str:
    """The line above those of a file: its path, and its version if that is known."""
    return f"{named(path)} · version {versions[path]}" if path in versions else named(path)


def so_far(result: SearchResult, said: str, count: int, lang: Lang) -> str:
    """What was found; if time ran out, that comes first, and `count` results are no total."""
    empty = "search.none_yet_at" if result.reached else "search.none_yet"
    facts: dict[str, object] = {"path": named(result.reached), "found": said}
    return say("search.so_far" if count else empty, lang, facts) if result.timed_out else said


def remarks(result: SearchResult, lang: Lang) -> Iterable[str]:
    """Remarks on files that were not completely searched."""
    for warned in result.warnings[:_WARNINGS]:
        facts = {"path": named(warned.path), "detail": warned.detail}
        yield say(f"search.{warned.kind}", lang, facts)
    if len(result.warnings) > _WARNINGS:
        yield say("search.more_warnings", lang, {"count": len(result.warnings) - _WARNINGS})
