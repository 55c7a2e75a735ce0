"""The tools that look around: `list_dir` and the searches."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Literal

from copydesk.desk.search import FoundFiles, FoundLine, Lines, MatchCounts, Query, Snippets
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Context, Tool, ToolCall
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Report

FILES, COUNTS, RESULTS = 50, 200, 50


class ListDirCall(ToolCall):
    """List the entries of a directory."""

    path: str

    def run(self, context: Context, name: str) -> Report:
        path = context.path(self.path, folder=True)
        rows: list[Fields] = []
        for entry in context.looking.list_dir(context.member, path):
            row: Fields = {"name": entry.name, "type": entry.kind}
            if entry.size_bytes is not None:
                row["size_bytes"] = entry.size_bytes
            if entry.link_target is not None:
                row["target"] = entry.link_target
            rows.append(row)
        return Report(
            {
                "status": "ok",
                "mode": name,
                "path": str(path),
                "count": len(rows),
                "entries": rows,
                "summary": say("list", context.lang, {"count": len(rows), "path": path}),
            }
        )


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
    context_before: Count = 1
    context_after: Count = 1


class _PatternCall(_Where, _Regex, _Links):
    pattern: str

    def query(self, context: Context) -> Query:
        return _query(context, self.pattern, self, self, fixed=self.fixed_strings)


class RipgrepFilesCall(_PatternCall, _MostFiles):
    """List the files with a match."""

    def run(self, context: Context, name: str) -> Report:
        return _files(context, name, self.query(context), self.max_files)


class RipgrepCountCall(_PatternCall, _MostFiles):
    """Count the matches per file."""

    max_files: Count = COUNTS

    def run(self, context: Context, name: str) -> Report:
        return _counts(context, name, self.query(context), self.max_files)


class RipgrepSnippetsCall(_PatternCall, _LinesAround):
    """Show matches with the lines around them."""

    def run(self, context: Context, name: str) -> Report:
        return _snippets(context, name, self.query(context), self)


class RipgrepFixedCall(_Where, _Links, _MostFiles, _LinesAround):
    """Search for a text that is no pattern, in one of three modes."""

    literal: str
    mode: Literal["snippets", "files", "count"] = "snippets"
    max_files: Count = 0

    def run(self, context: Context, name: str) -> Report:
        query = _query(context, self.literal, self, self, fixed=True, argument="literal")
        if self.mode == "files":
            return _files(context, name, query, self.max_files or FILES)
        if self.mode == "count":
            return _counts(context, name, query, self.max_files or COUNTS)
        return _snippets(context, name, query, self)


class RipgrepSearchCall(ToolCall):
    """Search with ripgrep's own options."""

    pattern: str
    path: str = ""
    rg_args: tuple[str, ...] = ()

    def run(self, context: Context, name: str) -> Report:
        path = context.path(self.path or ".", folder=True)
        found = context.searches.raw(self.pattern, path, self.rg_args, context.glob)
        if isinstance(found, FoundFiles):
            return _file_rows(context, name, self.pattern, found)
        if isinstance(found, MatchCounts):
            return _count_rows(context, name, self.pattern, found)
        rows: list[Fields] = [
            {"path": r.path, "line": r.line, "is_match": r.is_match, "text": r.text}
            for r in found.rows
        ]
        context.searches.note_shown(found, found.rows)
        return _report(context, name, self.pattern, found, {"lines": rows}, len(rows), "matches")


SEARCHING = (
    Tool("list_dir", "ws_mod", ListDirCall, reads=True, idempotent=True),
    Tool("ripgrep_files", "ws_mod", RipgrepFilesCall, reads=True, idempotent=True),
    Tool("ripgrep_count", "ws_mod", RipgrepCountCall, reads=True, idempotent=True),
    Tool("ripgrep_snippets", "ws_mod", RipgrepSnippetsCall, reads=True, idempotent=True),
    Tool("ripgrep_fixed", "ws_mod", RipgrepFixedCall, reads=True, idempotent=True),
    Tool("ripgrep_search", "ws_mod", RipgrepSearchCall, reads=True, idempotent=True),
)
"""The rows of the catalog, which the mirror toolset has too."""


def _query(
    context: Context,
    pattern: str,
    where: _Where,
    links: _Links,
    *,
    fixed: bool,
    argument: Literal["pattern", "literal"] = "pattern",
) -> Query:
    return Query(
        pattern,
        context.path(where.path or ".", folder=True),
        tuple(map(context.glob, where.globs)),
        where.case,
        fixed,
        links.include_hidden,
        links.follow_symlinks,
        argument,
    )


def _files(context: Context, name: str, query: Query, most: int) -> Report:
    found = context.searches.files(query, most)
    return _file_rows(context, name, query.pattern, found)


def _counts(context: Context, name: str, query: Query, most: int) -> Report:
    found = context.searches.counts(query, most)
    return _count_rows(context, name, query.pattern, found)


def _file_rows(context: Context, name: str, pattern: str, found: FoundFiles) -> Report:
    fields: Fields = {"files": list(found.paths)}
    return _report(context, name, pattern, found, fields, len(found.paths), "files")


def _count_rows(context: Context, name: str, pattern: str, found: MatchCounts) -> Report:
    rows: list[Fields] = [
        {"path": row.path, "lines": row.lines, "matches": row.matches} for row in found.rows
    ]
    fields: Fields = {
        "total_files": found.total_files,
        "total_lines": found.total_lines,
        "total_matches": found.total_matches,
        "counts": rows,
    }
    return _report(context, name, pattern, found, fields, len(rows), "files")


def _snippets(context: Context, name: str, query: Query, around: _LinesAround) -> Report:
    found = context.searches.snippets(
        query, around.max_results, around.context_before, around.context_after
    )
    context.searches.note_shown(found, _each(found.results))
    rows: list[Fields] = []
    for one in found.results:
        row: Fields = {"path": one.path, "line": one.line}
        if one.column is not None:
            row["column"] = one.column
        row["match"] = one.match
        shown = [(c.line, c.text) for c in one.before]
        shown.append((one.line, one.text))
        shown += [(c.line, c.text) for c in one.after]
        row["snippet"] = [f"{line:>4}| {said}" for line, said in shown]
        if one.cut:
            row["line_cut_from_column"] = one.from_column
        rows.append(row)
    return _report(context, name, query.pattern, found, {"results": rows}, len(rows), "matches")


def _each(results: Iterable[FoundLine]) -> tuple[FoundLine, ...]:
    """The lines found and those around them, each once, in their order."""
    lines = chain.from_iterable((*one.before, one, *one.after) for one in results)
    return tuple({(line.path, line.line): line for line in lines}.values())


def _report(
    context: Context,
    name: str,
    pattern: str,
    found: FoundFiles | MatchCounts | Snippets | Lines,
    rows: Fields,
    count: int,
    what: str,
) -> Report:
    fields: Fields = {"status": "ok", "mode": name, "pattern": pattern, "count": count}
    fields |= {"truncated": found.truncated, "timed_out": found.timed_out, **rows}
    if found.searched:
        fields["versions"] = {one.path: one.text.version for one in found.searched}
    if found.warnings:
        fields["warnings"] = [f"{w.path}: {w.kind}: {w.detail}" for w in found.warnings]
    noun = say(f"what.{what}", context.lang)
    saying = "search.cut" if found.truncated else "search"
    fields["summary"] = say(saying, context.lang, {"count": count, "what": noun})
    steps = (say("next.narrow", context.lang),) if found.truncated else ()
    return Report(fields, next_steps=steps)
